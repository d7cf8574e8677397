//! Options of one job against each other: what no single value shows.

use super::registry::{self, OptionDef};
use super::value::Extent;
use super::words::{MapLifetime, MapOrder};
use super::{Given, JobOptions, JobSpec};
use crate::engines::{self, Caps};
use crate::error::{JobError, Origin};

/// Most workers of one job: each has buffers, histograms and a process or thread.
const MAX_NUMJOBS: u64 = 2048;

/// Largest block: a buffer of this size is made for each worker.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// Checks a job; what is odd but harmless goes to `warnings`.
pub(super) fn check(job: &JobSpec, warnings: &mut Vec<String>) -> Result<(), JobError> {
    let checker = Checker { job, options: &job.options };
    checker.applicability(warnings)?;
    checker.minimums()?;
    checker.blocks()?;
    checker.amounts()?;
    checker.contradictions()?;
    checker.names()?;
    checker.mappings(warnings)?;
    if job.options.iodepth > 1 && checker.caps().contains(Caps::SYNCHRONOUS) {
        warnings.push(format!(
            "{}: job '{}': iodepth={} has no effect: {} completes each operation before the next, depth stays 1",
            checker.origin("iodepth"),
            job.name,
            job.options.iodepth,
            job.options.ioengine.0
        ));
    }
    Ok(())
}

/// Largest distance in a layout of pieces, 1 TiB: far beyond any use, and sums of them stay far from overflow.
const MAX_MAP_BYTES: u64 = 1 << 40;

struct Checker<'a> {
    job: &'a JobSpec,
    options: &'a JobOptions,
}

impl Checker<'_> {
    fn caps(&self) -> Caps {
        engines::find(&self.options.ioengine.0).map_or(Caps::NONE, |engine| engine.caps)
    }

    /// The last place where the option was written, by whichever of its names; the job's head if it is a default.
    fn origin(&self, name: &str) -> Origin {
        let wrote = |given: &&Given| registry::option(&given.name).is_some_and(|def| def.name == name);
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
            let Some(def) = registry::option(&given.name).filter(|def| !caps.contains(def.needs)) else {
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
            ("thinktime_blocks", o.thinktime_blocks),
            ("latency_sample", o.latency_sample),
            ("map_resident", o.map_resident),
        ] {
            self.require(value >= 1, name, || format!("{name}=0, needed at least 1"))?;
        }
        for (direction, rate) in [("read", o.rate_iops.read), ("write", o.rate_iops.write)] {
            // Below one per hour nobody waits; above this the distance between two is under a nanosecond.
            let fits = rate.is_none_or(|r| r <= 1_000_000_000);
            self.require(fits, "rate_iops", || format!("rate_iops of {direction}s is above 1000000000 per second"))?;
        }
        self.require(o.numjobs <= MAX_NUMJOBS, "numjobs", || format!("numjobs={}, at most {MAX_NUMJOBS}", o.numjobs))
    }

    fn blocks(&self) -> Result<(), JobError> {
        for (direction, bs) in self.block_sizes() {
            self.require((1..=MAX_BLOCK_BYTES).contains(&bs), "bs", || {
                format!("bs of {direction}s is {bs} bytes; needed 1 to {MAX_BLOCK_BYTES}")
            })?;
            let Some(Extent::Bytes(size)) = self.options.size else { continue };
            self.require(size >= bs, "size", || {
                format!("size is {size} bytes and holds no block of {bs} ({direction})")
            })?;
        }
        Ok(())
    }

    /// The block sizes in use.
    fn block_sizes(&self) -> Vec<(&'static str, u64)> {
        let pattern = self.options.rw.0;
        let mut sizes = Vec::new();
        if pattern.reads() {
            sizes.push(("read", self.options.bs.read.0));
        }
        if pattern.writes() {
            sizes.push(("write", self.options.bs.write.0));
        }
        sizes
    }

    fn amounts(&self) -> Result<(), JobError> {
        let o = self.options;
        let needs_size = !self.caps().contains(Caps::FILES);
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
        })?;
        self.require(!o.time_based || o.runtime.0 > 0, "time_based", || "time_based needs runtime=".to_owned())
    }

    fn contradictions(&self) -> Result<(), JobError> {
        let o = self.options;
        self.require(!(o.direct && o.buffered == Some(true)), "buffered", || {
            "direct=1 and buffered=1 contradict each other".to_owned()
        })?;
        if let (Some(read), Some(write)) = (o.rwmixread, o.rwmixwrite) {
            let sum = u32::from(read.0) + u32::from(write.0);
            self.require(sum == 100, "rwmixwrite", || {
                format!("rwmixread={} and rwmixwrite={} are {sum} together, not 100", read.0, write.0)
            })?;
        }
        self.require(!(o.gtod_reduce && o.latency_sample > 1), "latency_sample", || {
            "gtod_reduce=1 times no operation, latency_sample one in some: choose one".to_owned()
        })?;
        self.require(o.thinktime_spin.0 <= o.thinktime.0, "thinktime_spin", || {
            "thinktime_spin is a part of thinktime and cannot be longer".to_owned()
        })
    }

    fn names(&self) -> Result<(), JobError> {
        let o = self.options;
        self.require(
            !self.job.name.contains(['/', '\0']) || o.filename.is_some() || !self.caps().contains(Caps::FILES),
            "name",
            || format!("the name '{}' cannot be part of a file's name; give filename=", self.job.name),
        )?;
        let Some(filename) = &o.filename else { return Ok(()) };
        let plain = filename.replace("\\:", "");
        self.require(!plain.contains(':'), "filename", || {
            "a list of files separated by ':' is fio's; pagelab does not have it: give each file a job of its own (a literal ':' is written '\\:')".to_owned()
        })?;
        self.require(!(filename.starts_with('/') && o.directory.is_some()), "filename", || {
            "filename is absolute and directory is given too: choose one".to_owned()
        })
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
        for (direction, bs) in self.block_sizes() {
            self.require(piece == 0 || piece.is_multiple_of(bs), "map_granularity", || {
                format!("map_granularity={piece} is not a multiple of the block size of {direction}s, {bs}: a block would lie in two pieces")
            })?;
            self.require(o.map_touch.0 <= bs, "map_touch", || {
                format!("map_touch={} is more than a block of {bs}", o.map_touch.0)
            })?;
        }
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

    fn lifetimes(&self) -> Result<(), JobError> {
        let o = self.options;
        let evicts = o.map_lifetime == MapLifetime::Evict;
        self.require(!evicts || o.map_granularity.0 > 0, "map_lifetime", || {
            "map_lifetime=evict needs map_granularity=: there is no piece to evict".to_owned()
        })?;
        self.require(evicts || o.map_resident == 1, "map_resident", || {
            "map_resident means nothing unless map_lifetime=evict".to_owned()
        })?;
        let orders = o.map_order != MapOrder::Ascending;
        self.require(!(orders && o.rw.0.is_random()), "map_order", || {
            "map_order orders sequential patterns; this one is random".to_owned()
        })?;
        let equal = !o.rw.0.is_mixed() || o.bs.read == o.bs.write;
        self.require(!orders || equal, "map_order", || "map_order needs one block size for reads and writes".to_owned())
    }
}

/// Whether the written value says what the default says.
fn is_default(def: &OptionDef, given: &Given) -> bool {
    let context = super::units::ParseContext::default();
    let mut options = JobOptions::default();
    let text = given.value.as_deref().unwrap_or("1");
    // A value that was accepted once is accepted again; numbers are compared as read, not as spelled.
    (def.assign)(&mut options, text, context).is_ok() && options == JobOptions::default()
}
