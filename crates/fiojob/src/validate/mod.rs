//! Options of one job against each other: what no single value shows.

mod verify;
mod zones;

use crate::engines;
use crate::error::{JobError, Origin};
use crate::model::{Caps, Direction};
use crate::options::{JobOptions, OptionDef, option};
use crate::units::ParseContext;
use crate::value::{Choice as _, Extent, LogName};
use crate::words::{MapBacking, MapLifetime, MapOrder, MapShare, Modifier, RandomGenerator, SubmitMode};
use crate::workload::{Given, JobSpec};

/// Most workers of one job: each has buffers, histograms and a process or thread.
const MAX_NUMJOBS: u64 = 2048;

/// Most operations that io_uring_setup(2) makes room for (`IORING_MAX_ENTRIES`).
const MAX_IODEPTH: u64 = 32_768;

/// Most buffers that can be registered (`IORING_MAX_REG_BUFFERS`).
const MAX_FIXED_BUFFERS: u64 = 16_384;

/// Most files of one worker.
const MAX_NRFILES: u64 = 1 << 20;

/// Largest block: a buffer of this size is made for each worker.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// Checks a job: every contradiction goes to `problems`, what is odd but harmless to `warnings`.
pub(crate) fn check(job: &JobSpec, warnings: &mut Vec<String>, problems: &mut Vec<JobError>) {
    let checker = Checker { job, options: &job.options };
    let plain = [checker.minimums(), checker.blocks(), checker.amounts()];
    // These reckon with sizes and numbers that are right.
    let reckoned = if plain.iter().all(Result::is_ok) {
        [checker.mappings(warnings), checker.verifying(warnings)]
    } else {
        [Ok(()), Ok(())]
    };
    let others = [
        checker.applicability(warnings),
        checker.contradictions(),
        checker.trims(),
        checker.replays(),
        checker.names(),
        checker.amounts_of_files(),
        checker.rates(),
        checker.logs(),
        checker.latencies(),
        checker.memory(),
    ];
    // A mistake in [global] is one mistake, however many jobs inherit it.
    for error in plain.into_iter().chain(others).chain(reckoned).filter_map(Result::err) {
        let known = problems.iter().any(|before| before.same_place(&error));
        if !known {
            problems.push(error);
        }
    }
    checker.without_effect(warnings);
}

/// Largest distance in a layout of pieces, 1 TiB: far beyond any use, and sums of them stay far from overflow.
const MAX_MAP_BYTES: u64 = 1 << 40;

struct Checker<'a> {
    job: &'a JobSpec,
    options: &'a JobOptions,
}

impl Checker<'_> {
    fn caps(&self) -> Caps {
        self.options.caps()
    }

    /// The last place where the option was written, by whichever of its names; the job's head if it is a default.
    fn origin(&self, name: &str) -> Origin {
        let wrote = |given: &&Given| option(&given.name).is_some_and(|def| def.name == name);
        let found = self.job.given.iter().rev().find(wrote).or_else(|| self.job.inherited.iter().rev().find(wrote));
        found.map_or_else(|| self.job.origin.clone(), |given| given.origin.clone())
    }

    fn conflict(&self, option: &str, reason: impl Into<String>) -> JobError {
        JobError::Conflict { origin: self.origin(option), job: self.job.name.clone(), reason: reason.into() }
    }

    fn require(&self, condition: bool, option: &str, reason: impl FnOnce() -> String) -> Result<(), JobError> {
        if condition { Ok(()) } else { Err(self.conflict(option, reason())) }
    }

    /// Options that mean nothing to the job's engine: pagelab's own are refused where the job itself has them;
    /// fio's, and what comes from `[global]`, get a warning, because fio runs such jobs.
    fn applicability(&self, warnings: &mut Vec<String>) -> Result<(), JobError> {
        let caps = self.caps();
        let engine = &self.options.ioengine.0;
        let all = self
            .job
            .given
            .iter()
            .map(|given| (given, true))
            .chain(self.job.inherited.iter().map(|given| (given, false)));
        for (given, own) in all {
            let Some(def) = option(&given.name).filter(|def| !caps.contains(def.needs)) else {
                continue;
            };
            if is_default(def, given) {
                continue;
            }
            if own && def.extension {
                return Err(JobError::Conflict {
                    origin: given.origin.clone(),
                    job: self.job.name.clone(),
                    reason: format!("{} means nothing to ioengine={engine}", def.name),
                });
            }
            warnings.push(format!(
                "{}: job '{}': {} has no effect with ioengine={engine}",
                given.origin, self.job.name, def.name
            ));
        }
        Ok(())
    }

    fn minimums(&self) -> Result<(), JobError> {
        let o = self.options;
        for (name, value) in [
            ("numjobs", o.numjobs),
            ("loops", o.loops),
            ("iodepth", o.iodepth),
            ("thinktime_blocks", o.thinktime_blocks.unwrap_or(1)),
            ("nrfiles", o.nrfiles),
            ("significant_figures", o.significant_figures),
            ("rate_cycle", o.rate_cycle),
            ("latency_sample", o.latency_sample),
            ("map_resident", o.map_resident),
        ] {
            self.require(value >= 1, name, || format!("{name}=0, needed at least 1"))?;
        }
        for direction in Direction::ALL {
            let (rate, direction) = (*o.rate_iops.of(direction), direction.name());
            // Below one per hour nobody waits; above this the distance between two is under a nanosecond.
            let fits = rate.is_none_or(|r| r <= 1_000_000_000);
            self.require(fits, "rate_iops", || format!("rate_iops of {direction}s is above 1000000000 per second"))?;
        }
        for (name, value, most) in [
            ("numjobs", o.numjobs, MAX_NUMJOBS),
            ("nrfiles", o.nrfiles, MAX_NRFILES),
            ("significant_figures", o.significant_figures, 10),
            ("iodepth", self.job.depth(), if o.fixedbufs { MAX_FIXED_BUFFERS } else { MAX_IODEPTH }),
            ("prio", o.prio.unwrap_or(0), 7),
            ("nice", o.nice.unsigned_abs(), 20),
        ] {
            self.require(value <= most, name, || format!("{name}={value}, at most {most}"))?;
        }
        Ok(())
    }

    fn blocks(&self) -> Result<(), JobError> {
        let o = self.options;
        let [ranges, splits] = [
            o.bsrange.all().into_iter().any(Option::is_some),
            o.bssplit.all().into_iter().any(|split| !split.0.is_empty()),
        ];
        let option = if splits {
            "bssplit"
        } else if ranges {
            "bsrange"
        } else {
            "bs"
        };
        for (direction, least, most) in self.block_sizes() {
            self.require(least >= 1 && most <= MAX_BLOCK_BYTES, option, || {
                let wrong = if least < 1 { least } else { most };
                format!("{option} of {direction}s is {wrong} bytes; needed 1 to {MAX_BLOCK_BYTES}")
            })?;
            let Some(Extent::Bytes(size)) = o.size else { continue };
            self.require(size >= least || o.filesize.is_some(), "size", || {
                format!("size is {size} bytes and holds no block of {least} ({direction})")
            })?;
        }
        for direction in Direction::ALL {
            let (align, direction) = (o.blockalign.of(direction).0, direction.name());
            self.require(align <= MAX_BLOCK_BYTES, "blockalign", || {
                format!("blockalign of {direction}s is {align} bytes; at most {MAX_BLOCK_BYTES}")
            })?;
        }
        Ok(())
    }

    /// The block sizes in use: (direction, least, greatest).
    fn block_sizes(&self) -> Vec<(&'static str, u64, u64)> {
        let pattern = self.options.rw.0;
        Direction::ALL
            .into_iter()
            .filter(|direction| pattern.does(*direction))
            .map(|direction| {
                let lengths = self.options.lengths(direction);
                (direction.name(), u64::from(lengths.min_bytes), u64::from(lengths.max_bytes))
            })
            .collect()
    }

    fn amounts(&self) -> Result<(), JobError> {
        let o = self.options;
        let needs_size = !self.caps().contains(Caps::FILES) && o.filesize.is_none() && o.read_iolog.is_none();
        self.require(!needs_size || matches!(o.size, Some(Extent::Bytes(_))), "size", || {
            format!("ioengine={} has no file to take its size from; give size= in bytes", o.ioengine.0)
        })?;
        let offset = match o.offset {
            Some(Extent::Bytes(offset)) => offset,
            _ => 0,
        };
        let size = match o.size {
            Some(Extent::Bytes(size)) => size,
            _ => 0,
        };
        // Offsets of files are signed in every system call.
        let fits = offset.checked_add(size).is_some_and(|end| i64::try_from(end).is_ok());
        self.require(fits, "size", || {
            format!("offset {offset} + size {size} is beyond what a file can have ({} bytes)", i64::MAX)
        })
    }

    fn contradictions(&self) -> Result<(), JobError> {
        let o = self.options;
        self.require(!((o.direct || o.atomic) && o.buffered == Some(true)), "buffered", || {
            "direct=1 and buffered=1 contradict each other".to_owned()
        })?;
        let engine = &o.ioengine.0;
        let submits_apart = o.io_submit_mode == SubmitMode::Offload;
        self.require(!(submits_apart && self.caps().contains(Caps::SYNCHRONOUS)), "io_submit_mode", || {
            let apart = engines::ENGINES.iter().filter(|engine| !engine.caps.contains(Caps::SYNCHRONOUS));
            let apart: Vec<&str> = apart.map(|engine| engine.name).collect();
            format!(
                "io_submit_mode=offload needs threads that submit beside the worker, and ioengine={engine} completes each operation before the next: leave it out, or use {}, where submission waits for no completion",
                apart.join(", ")
            )
        })?;
        self.require(!(o.gtod_reduce && o.latency_sample > 1), "latency_sample", || {
            "gtod_reduce=1 times no operation, latency_sample one in some: choose one".to_owned()
        })?;
        let donor = o.donorname.is_some() || !self.caps().contains(Caps::DONOR);
        self.require(donor, "ioengine", || {
            format!("ioengine={} needs donorname=: the file whose blocks it takes", o.ioengine.0)
        })?;
        self.require(o.thinktime_spin.0 <= o.thinktime.0, "thinktime_spin", || {
            "thinktime_spin is a part of thinktime and cannot be longer".to_owned()
        })
    }

    /// What trims contradict.
    fn trims(&self) -> Result<(), JobError> {
        let o = self.options;
        let pattern = o.rw.0;
        if !pattern.trims() {
            return Ok(());
        }
        let engine = &o.ioengine.0;
        self.require(self.caps().contains(Caps::TRIMS), "rw", || {
            let able = engines::ENGINES.iter().filter(|engine| engine.caps.contains(Caps::TRIMS));
            let able: Vec<&str> = able.map(|engine| engine.name).collect();
            format!("ioengine={engine} does not trim; {} do", able.join(", "))
        })?;
        let cannot = [
            (o.fill_device, "fill_device", "writes until nothing fits, and trims make room"),
            (o.bs_is_seq_rand, "bs_is_seq_rand", "has sizes of reads and writes only"),
            (
                pattern.writes() && o.rw.1 != Modifier::None,
                "rw",
                "needs each write behind its trim: leave out what is behind the colon",
            ),
        ];
        let found = cannot.into_iter().find(|(wrong, _, _)| *wrong);
        found.map_or(Ok(()), |(_, option, words)| {
            Err(self.conflict(option, format!("rw={}: {option} {words}", pattern.word())))
        })
    }

    /// What zones and logs that are replayed contradict.
    fn replays(&self) -> Result<(), JobError> {
        let o = self.options;
        if let Some((option, words)) = zones::conflict(o) {
            return Err(self.conflict(option, words));
        }
        let zones = o.stride(1).is_some();
        self.require(!zones || o.map_order == MapOrder::Ascending, "map_order", || {
            "map_order orders the pieces of a region, zonesize its zones: choose one".to_owned()
        })?;
        if o.read_iolog.is_none() {
            return Ok(());
        }
        let align = o.replay_align.0;
        let cannot = [
            (
                !self.caps().contains(Caps::FILES) && self.caps().contains(Caps::MAPS),
                "ioengine",
                "needs an engine that works on files, or null",
            ),
            (o.verifies(), "verify", "does what its log says and knows nothing of contents: leave out verify"),
            (o.fill_device, "fill_device", "has its amounts from the log: leave out fill_device"),
            (zones, "zonesize", "has its offsets from the log: leave out zonesize"),
            (align > 0 && !align.is_power_of_two(), "replay_align", "aligns offsets to powers of two"),
            (o.replay_scale == 0, "replay_scale", "divides offsets: replay_scale=0 is no divisor"),
            (o.replay_time_scale == 0, "replay_time_scale", "scales delays: needed at least 1 percent"),
        ];
        let found = cannot.into_iter().find(|(wrong, _, _)| *wrong);
        found.map_or(Ok(()), |(_, option, words)| Err(self.conflict(option, format!("read_iolog {words}"))))
    }

    fn names(&self) -> Result<(), JobError> {
        let o = self.options;
        if let Some(format) = &o.filename_format {
            self.require(!format.to_ascii_lowercase().contains("$clientuid"), "filename_format", || {
                "$clientuid is of fio's clients and servers, which pagelab does not have".to_owned()
            })?;
        }
        let Some(filename) = o.filename.as_deref() else { return Ok(()) };
        self.require(!filename.split(':').all(|name| name.trim().is_empty()), "filename", || {
            "it names no file".to_owned()
        })?;
        let absolute = filename.split(':').any(|name| name.trim().starts_with('/'));
        self.require(!(absolute && o.directory.is_some()), "filename", || {
            "filename is absolute and directory is given too: choose one".to_owned()
        })
    }

    /// Options about files against each other.
    fn amounts_of_files(&self) -> Result<(), JobError> {
        let o = self.options;
        let caps = self.caps();
        let engine = &o.ioengine.0;
        let maps = caps.contains(Caps::MAPS);
        self.require(!caps.contains(Caps::ANONYMOUS) || (o.nrfiles == 1 && o.filesize.is_none()), "nrfiles", || {
            format!("ioengine={engine} has no files; give size= only, or several jobs")
        })?;
        if let Some(range) = o.filesize {
            let fits = i64::try_from(range.high_bytes).is_ok() && range.high_bytes > 0;
            self.require(fits, "filesize", || {
                format!("filesize is {} bytes; needed 1 to {}", range.high_bytes, i64::MAX)
            })?;
        }
        self.require(!(o.fill_device && (!o.rw.0.writes() || o.rw.0.reads() || maps)), "fill_device", || {
            "fill_device writes until nothing fits: it needs rw=write or randwrite and an engine of system calls"
                .to_owned()
        })?;
        self.require(!(o.file_append && maps), "file_append", || {
            format!("ioengine={engine} cannot make a file longer; file_append needs an engine of system calls")
        })?;
        self.require(o.allow_file_create || !o.create_only, "create_only", || {
            "create_only=1 and allow_file_create=0 contradict each other".to_owned()
        })
    }

    fn logs(&self) -> Result<(), JobError> {
        let o = self.options;
        let untimed = o.latency_sample > 1 || (!o.gtod_reduce && o.disable_lat && o.disable_clat);
        let coarseness = o.log_hist_coarseness;
        self.require(coarseness <= 6, "log_hist_coarseness", || {
            format!("log_hist_coarseness={coarseness}, at most 6")
        })?;
        let option = if o.write_lat_log == LogName::None { "write_bw_log" } else { "write_lat_log" };
        self.require(!(o.logs_samples() && untimed), option, || {
            "logs need every operation timed: leave out latency_sample and disable_clat with disable_lat".to_owned()
        })
    }

    /// What latencies are held against while the job runs.
    fn latencies(&self) -> Result<(), JobError> {
        let o = self.options;
        let option = if o.latency_target.0 > 0 { "latency_target" } else { "max_latency" };
        let untimed = o.gtod_reduce || o.latency_sample > 1 || o.disable_lat;
        self.require(!(o.watches_latency() && untimed), option, || {
            format!("{option} needs every operation timed: leave out gtod_reduce, latency_sample and disable_lat")
        })?;
        self.require(o.latency_target.0 == 0 || o.latency_window.0 > 0, "latency_target", || {
            "latency_target needs latency_window=: how long operations are counted before the depth is changed"
                .to_owned()
        })?;
        self.require(!(o.latency_target.0 > 0 && o.verifies()), "latency_target", || {
            "latency_target ends the job in the middle of a pass: leave out verify".to_owned()
        })
    }

    fn rates(&self) -> Result<(), JobError> {
        let o = self.options;
        for each in Direction::ALL {
            let (rate, iops) = (*o.rate.of(each), *o.rate_iops.of(each));
            let (least, least_iops) = (*o.rate_min.of(each), *o.rate_iops_min.of(each));
            let direction = each.name();
            let set = |value: Option<u64>| value.filter(|value| *value > 0);
            self.require(set(rate).is_none() || set(iops).is_none(), "rate_iops", || {
                format!("rate and rate_iops both limit {direction}s: choose one")
            })?;
            self.require(set(least).is_none() || set(least_iops).is_none(), "rate_iops_min", || {
                format!("rate_min and rate_iops_min both ask something of {direction}s: choose one")
            })?;
            for (name, most, name_of_least, least) in
                [("rate", rate, "rate_min", least), ("rate_iops", iops, "rate_iops_min", least_iops)]
            {
                let (Some(most), Some(least)) = (set(most), set(least)) else { continue };
                self.require(least <= most, name_of_least, || {
                    format!("{name_of_least}={least} of {direction}s is more than {name}={most} lets them do")
                })?;
            }
        }
        Ok(())
    }

    fn memory(&self) -> Result<(), JobError> {
        let o = self.options;
        for (name, value) in [("iomem_align", o.iomem_align.0), ("hugepage-size", o.hugepage_size.0)] {
            let fits = value == 0 || (value.is_power_of_two() && value <= MAX_MAP_BYTES);
            self.require(fits, if name == "iomem_align" { name } else { "hugepage_size" }, || {
                format!("{name}={value} is not a power of two up to {MAX_MAP_BYTES}")
            })?;
        }
        self.require(o.lockmem.0 <= MAX_MAP_BYTES, "lockmem", || {
            format!("lockmem={} is above {MAX_MAP_BYTES}", o.lockmem.0)
        })
    }

    fn verifying(&self, warnings: &mut Vec<String>) -> Result<(), JobError> {
        if let Some((option, words)) = verify::conflict(self.options, self.caps()) {
            return Err(self.conflict(option, words));
        }
        for (option, words) in verify::without_effect(self.options) {
            warnings.push(format!("{}: job '{}': {option}{words}", self.origin(option), self.job.name));
        }
        Ok(())
    }

    /// Values accepted, as in fio, that do nothing here.
    fn without_effect(&self, warnings: &mut Vec<String>) {
        let o = self.options;
        let mut warn = |option: &str, words: String| {
            warnings.push(format!("{}: job '{}': {option}{words}", self.origin(option), self.job.name));
        };
        if self.caps().contains(Caps::SYNCHRONOUS) {
            for (option, depth) in [
                ("iodepth", o.iodepth),
                ("iodepth_batch", o.iodepth_batch),
                ("iodepth_batch_complete_min", o.iodepth_batch_complete_min),
                ("iodepth_batch_complete_max", o.iodepth_batch_complete_max),
                ("iodepth_low", o.iodepth_low),
            ] {
                if depth > 1 {
                    let engine = &o.ioengine.0;
                    warn(
                        option,
                        format!(
                            "={depth} has no effect: {engine} completes each operation before the next, depth stays 1"
                        ),
                    );
                }
            }
            if o.slat_percentiles {
                warn("slat_percentiles", " has no effect: the engine has no submission latency".to_owned());
            }
        } else if o.io_submit_mode == SubmitMode::Offload {
            let words = "=offload has no effect: submission waits for no completion anyway, and the worker submits";
            warn("io_submit_mode", words.to_owned());
        }
        if !o.create_serialize {
            warn(
                "create_serialize",
                "=0 has no effect: files are made one after the other, before the first job starts".to_owned(),
            );
        }
        if o.gtod_reduce && o.logs_samples() {
            warn("gtod_reduce", "=1 times no operation: the logs of samples stay empty, as in fio".to_owned());
        }
        if o.softrandommap {
            let words = " has nothing to do: no map of blocks is kept that memory could be too small for";
            warn("softrandommap", words.to_owned());
        }
        let ranges = o.bsrange.all().into_iter().any(Option::is_some);
        let splits = o.bssplit.all().into_iter().any(|split| !split.0.is_empty());
        if ranges && splits {
            warn("bsrange", " has no effect: bssplit says how long operations are, as in fio".to_owned());
        }
        if o.threads.is_some() {
            warn("threads", " has no effect, as in fio; threads instead of processes are thread=1".to_owned());
        }
        if o.read_iolog_chunked {
            warn(
                "read_iolog_chunked",
                " has no effect: the log is read before the start, 40 bytes an entry".to_owned(),
            );
        }
        if o.read_iolog.is_some() && o.write_iolog.is_some() {
            warn("write_iolog", " has no effect: read_iolog overrides it, as in fio".to_owned());
        }
        if !o.unique_filename {
            warn("unique_filename", "=0 has nothing to do: all workers are on this machine".to_owned());
        }
        if o.random_generator != RandomGenerator::default() && o.distribution_is_even() {
            let words = ": another generator draws here; each block still comes once per pass";
            warn("random_generator", words.to_owned());
        }
        self.without_effect_in_sequence(&mut warn);
        self.done_otherwise(&mut warn);
    }

    /// What is done as fio's manual says, where fio 3.33 itself does something else.
    fn done_otherwise(&self, warn: &mut impl FnMut(&str, String)) {
        let o = self.options;
        if o.random_generator == RandomGenerator::Lfsr && !o.distribution_is_even() {
            let words = "=lfsr has no effect: random_distribution says how often each block comes; fio draws from all blocks and ends the job where one lies behind the file, if it is zoned";
            warn("random_generator", words.to_owned());
        }
        let jumps = o.percentage_random.all().into_iter().flatten().any(|share| share.0 < 100);
        let mapped = o.random_generator != RandomGenerator::Lfsr && o.distribution_is_even() && !o.norandommap;
        if o.rw.0.is_random() && o.rw.0.writes() && o.verifies() && jumps && mapped {
            let words = ": a block written again is compared once, with what was written last; fio compares it with each write before, and fails at that where all blocks are of one length";
            warn("verify", words.to_owned());
        }
        if o.iodepth <= 1 || !o.rw.0.writes() || self.caps().contains(Caps::SYNCHRONOUS) {
            return;
        }
        let engine = &o.ioengine.0;
        let instead = if self.caps().contains(Caps::QUEUES_FLUSHES) {
            "goes on to ask for flushes until the first is done"
        } else {
            "asks for none until a write has completed since the last"
        };
        for (option, every) in o.flushes() {
            if every > 0 {
                warn(
                    option,
                    format!(
                        ": {every} writes are completed before each flush; fio's {engine} flushes beside them, and {instead}"
                    ),
                );
            }
        }
    }

    /// Options of random patterns, given to a sequential one.
    fn without_effect_in_sequence(&self, warn: &mut impl FnMut(&str, String)) {
        let o = self.options;
        if !o.rw.0.is_random() {
            for (option, given) in [
                ("random_distribution", !o.distribution_is_even()),
                ("percentage_random", o.percentage_random.all().into_iter().any(Option::is_some)),
                ("norandommap", o.norandommap),
                ("blockalign", o.blockalign.all().into_iter().any(|align| align.0 > 0)),
            ] {
                if given {
                    warn(option, " has no effect: the pattern is sequential".to_owned());
                }
            }
        }
    }

    fn mappings(&self, warnings: &mut Vec<String>) -> Result<(), JobError> {
        if !self.caps().contains(Caps::MAPS) {
            return Ok(());
        }
        let o = self.options;
        let page = if o.hugetlb.0 > 0 { o.hugetlb.0 } else { rustix::param::page_size() as u64 };
        let piece = o.map_granularity.0;
        self.require(page.is_power_of_two(), "hugetlb", || {
            format!("hugetlb={page} is not a size of pages: needed a power of two, as 2m or 1g")
        })?;
        for (name, value) in [("map_granularity", piece), ("map_shift", o.map_shift.0), ("map_align", o.map_align.0)] {
            self.require(value.is_multiple_of(page), name, || {
                format!("{name}={value} is not a multiple of the page size, {page}")
            })?;
        }
        let align = o.map_align.0;
        self.require(align == 0 || align.is_power_of_two(), "map_align", || {
            format!("map_align={align} is not a power of two")
        })?;
        for (name, value) in [("map_granularity", piece), ("map_shift", o.map_shift.0), ("map_align", align)] {
            self.require(value <= MAX_MAP_BYTES, name, || format!("{name}={value} is above {MAX_MAP_BYTES}"))?;
        }
        if let (Some(Extent::Bytes(size)), true) = (o.size, o.hugetlb.0 > 0) {
            self.require(size.is_multiple_of(page), "size", || {
                format!("size={size} is not a multiple of the hugetlb page, {page}")
            })?;
        }
        for (direction, bs, most) in self.block_sizes() {
            self.require(piece == 0 || piece.is_multiple_of(bs), "map_granularity", || {
                format!("map_granularity={piece} is not a multiple of the block size of {direction}s, {bs}: a block would lie in two pieces")
            })?;
            let aligned = o.blockalign.read.0 == 0 && o.blockalign.write.0 == 0 && !matches!(o.rw.1, Modifier::Skip(_));
            self.require(piece == 0 || (bs == most && aligned), "map_granularity", || {
                "pieces need blocks of one length at its multiples: leave out bsrange, bssplit, blockalign and the skip of rw, or map_granularity".to_owned()
            })?;
            self.require(o.map_touch.0 <= bs, "map_touch", || {
                format!("map_touch={} is more than a block of {bs}", o.map_touch.0)
            })?;
        }
        self.backings()?;
        self.persistence()?;
        self.lifetimes()?;
        if o.map_shift.0 > 0 && o.map_merge {
            warnings.push(format!(
                "{}: job '{}': map_merge=1 lets shifted pieces merge, and aligned places appear in the merged mapping",
                self.origin("map_merge"),
                self.job.name
            ));
        }
        Ok(())
    }

    fn backings(&self) -> Result<(), JobError> {
        let o = self.options;
        self.require(o.map_backing == MapBacking::Anonymous || !o.hugetlb_fallback, "hugetlb_fallback", || {
            "hugetlb_fallback=1 replaces single pieces, and map_backing=memfd has them in one file of one page size"
                .to_owned()
        })?;
        let private_segments = self.caps().contains(Caps::SEGMENTS) && o.map_share == MapShare::Private;
        self.require(!private_segments, "map_share", || "SysV segments are shared: leave out map_share".to_owned())
    }

    /// What engines on persistent memory contradict.
    fn persistence(&self) -> Result<(), JobError> {
        let o = self.options;
        if !self.caps().contains(Caps::PERSISTS) {
            return Ok(());
        }
        let (engine, page) = (&o.ioengine.0, rustix::param::page_size() as u64);
        for (option, every) in [("fsync", o.fsync), ("fdatasync", o.fdatasync)] {
            for (direction, least, _) in self.block_sizes() {
                self.require(every == 0 || least.is_multiple_of(page), option, || {
                    format!(
                        "bs of {direction}s is {least} bytes; with {option}={every} ioengine={engine} needs multiples of the page, {page}, as in fio"
                    )
                })?;
            }
        }
        self.require(o.map_share != MapShare::Private, "map_share", || {
            format!(
                "ioengine={engine} makes writes durable, and private ones never reach the file: leave out map_share"
            )
        })
    }

    fn lifetimes(&self) -> Result<(), JobError> {
        let o = self.options;
        let evicts = o.map_lifetime == MapLifetime::Evict;
        self.require(!evicts || o.map_granularity.0 > 0, "map_lifetime", || {
            "map_lifetime=evict needs map_granularity=: there is no piece to evict".to_owned()
        })?;
        self.require(evicts || o.map_resident == 1, "map_resident", || {
            "map_resident means nothing unless map_lifetime=evict".to_owned()
        })?;
        self.require(evicts || !o.map_read_back, "map_read_back", || {
            "map_read_back means nothing unless map_lifetime=evict".to_owned()
        })?;
        let orders = o.map_order != MapOrder::Ascending;
        self.require(!(orders && o.rw.0.is_random()), "map_order", || {
            "map_order orders sequential patterns; this one is random".to_owned()
        })?;
        let plain = o.nrfiles == 1
            && o.filename.as_deref().is_none_or(|names| !names.replace("\\:", "").contains(':'))
            && o.rw.1 == Modifier::None
            && Direction::ALL.iter().all(|direction| o.lengths(*direction).fixed());
        self.require(!orders || plain, "map_order", || {
            "map_order needs one file, one block size and rw without a skip".to_owned()
        })?;
        self.strides()?;
        let equal = !o.rw.0.is_mixed() || o.bs.read == o.bs.write;
        self.require(!orders || equal, "map_order", || "map_order needs one block size for reads and writes".to_owned())
    }

    fn strides(&self) -> Result<(), JobError> {
        let o = self.options;
        let (strided, stride) = (o.map_order == MapOrder::Strided, o.map_stride.0);
        self.require(strided || stride == 0, "map_stride", || {
            "map_stride means nothing unless map_order=strided".to_owned()
        })?;
        self.require(!strided || stride > 0, "map_order", || "map_order=strided needs map_stride=".to_owned())?;
        for (direction, bs, _) in self.block_sizes() {
            self.require(stride.is_multiple_of(bs), "map_stride", || {
                format!("map_stride={stride} is not a multiple of the block size of {direction}s, {bs}")
            })?;
        }
        Ok(())
    }
}

/// Whether the written value says what the default says.
fn is_default(def: &OptionDef, given: &Given) -> bool {
    let context = ParseContext::default();
    let mut options = JobOptions::default();
    let text = given.value.as_deref().unwrap_or("1");
    // A value that was accepted once is accepted again; numbers are compared as read, not as spelled.
    (def.assign)(&mut options, text, context).is_ok() && options == JobOptions::default()
}
