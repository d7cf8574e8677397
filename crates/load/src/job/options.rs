//! Every option of the job language, declared once.
//!
//! # How to add an option
//! 1. Declare it here: what it does (the first sentence stands alone in short help), its type, heading, the capability an engine
//!    needs for it, whether it is fio's or pagelab's own, its default as text, fio's other names for it.
//! 2. If it is fio's, take it off the list in `unsupported.rs`.
//! 3. If it can contradict another option, say so in `validate.rs`.
//! 4. Use the field where it acts, and test it against fio.
//! 5. `PAGELAB_WRITE_DOCS=1 cargo test -p pagelab-load --test job_docs` writes `docs/job-options.md` anew.

use super::registry::{Category, OptionDef, options};
use super::units::ParseContext;
use super::value::{Bytes, Extent, Micros, OptionValue, PerDirection, Percent, PercentileList, Seconds, SecondsRange};
use super::words::{
    AdviceList, ClockSource, FadviseHint, Fallocate, KbBase, MapLifetime, MapOrder, MapShare, RwOption, SyncMode,
};
use crate::engines::Caps;

options! {
    /// Name of the job.
    /// In a file the section's name counts unless this overrides it; on the command line it starts a new job.
    name: Option<String> { Job, NONE, fio, default "" }

    /// Free text about the job, repeated in the output.
    description: Option<String> { Job, NONE, fio, default "" }

    /// What unit prefixes mean.
    /// In a file it rules its whole section, on the command line what comes after it, as in fio.
    kb_base: KbBase { Job, NONE, fio, default "1024" }

    /// The file or block device to work on.
    /// Without it each worker gets a file of its own, named JOB.WORKER.0. A literal ':' is written '\:'.
    filename: Option<String> { Files, FILES, fio, default "" }

    /// The directory that relative file names start from. It must exist.
    directory: Option<String> { Files, FILES, fio, default "" }

    /// Leave the making of the file to the job's own open: no space is allocated and nothing is laid out before.
    create_on_open: bool { Files, FILES, fio, default "0" }

    /// How the space of a file is made ready that the job will write.
    fallocate: Fallocate { Files, FILES, fio, default "native" }

    /// Lay the whole file out with data before a writing job starts, so that its writes overwrite.
    overwrite: bool { Files, FILES, fio, default "0" }

    /// Drop the file's pages from the page cache before the job starts and whenever it starts over.
    invalidate: bool { Files, FILES, fio, default "1" }

    /// What the kernel is told about the coming pattern (posix_fadvise, or madvise for mapped files).
    fadvise_hint: FadviseHint { Files, FILES, fio, default "1" }

    /// Remove the job's files when it is done. Only files that pagelab made are ever removed.
    unlink: bool { Files, FILES, fio, default "0" }

    /// Which way data goes, in which order blocks come.
    rw: RwOption { Pattern, NONE, fio, default "read", alias "readwrite" }

    /// Share of reads in a mixed pattern, percent.
    /// Each operation draws anew. The default is 50.
    rwmixread: Option<Percent> { Pattern, NONE, fio, default "" }

    /// Share of writes in a mixed pattern, percent; the other way to say rwmixread.
    rwmixwrite: Option<Percent> { Pattern, NONE, fio, default "" }

    /// Make the random order of two runs the same (for equal randseed); 0 takes a seed from the system, which the report tells.
    randrepeat: bool { Pattern, NONE, fio, default "1", alias "allrandrepeat" }

    /// Seed of everything random in the job.
    randseed: Option<u64> { Pattern, NONE, fio, default "" }

    /// Draw each random block independently instead of covering every block exactly once per pass.
    /// Coverage costs no memory here: blocks come from a seeded permutation, not from a map of those done.
    norandommap: bool { Pattern, NONE, fio, default "0" }

    /// Size of one operation; for each direction if separated by commas (`bs=8k,4k`, `bs=,4k`).
    bs: PerDirection<Bytes> { Amount, NONE, fio, default "4k", alias "blocksize" }

    /// The region to work on, from offset on, in bytes or percent of the file; one pass covers it once.
    /// Without it: from offset to the end of the existing file.
    size: Option<Extent> { Amount, NONE, fio, default "" }

    /// How much to transfer, if that is not once the region: less ends a pass early, more starts passes over.
    io_size: Option<Extent> { Amount, NONE, fio, default "", alias "io_limit" }

    /// Where the region starts in the file, in bytes or percent of the file.
    offset: Option<Extent> { Amount, FILES, fio, default "", alias "fileoffset" }

    /// How many passes over the region.
    loops: u64 { Amount, NONE, fio, default "1" }

    /// End a pass after this many operations.
    number_ios: Option<u64> { Amount, NONE, fio, default "" }

    /// What carries out the operations.
    ioengine: EngineName { Engine, NONE, fio, default "psync" }

    /// Operations in flight. Engines that complete each operation before the next keep it at 1 and say so.
    iodepth: u64 { Engine, NONE, fio, default "1" }

    /// Bypass the page cache (O_DIRECT).
    direct: bool { Engine, DIRECT, fio, default "0" }

    /// The opposite of direct.
    buffered: Option<bool> { Engine, DIRECT, fio, default "" }

    /// Open the file for synchronous writing.
    sync: SyncMode { Engine, SYNC_OPEN, fio, default "none" }

    /// Size of one mapping: the region is mapped in pieces of this size; 0 maps it as a whole.
    /// Any multiple of the page size from 4 KiB up (of the huge page size on hugetlb).
    map_granularity: Bytes { Mapping, MAPS, pagelab, default "0" }

    /// Alignment of mapped addresses, a power of two.
    /// Anonymous pieces start at its multiples; pieces of a file have addresses that equal their file offset modulo it.
    /// 0 takes the largest power of two that fits into a piece, at most 2 MiB, and never less than the page.
    map_align: Bytes { Mapping, MAPS, pagelab, default "0" }

    /// Shift every piece's address by this much off its alignment; a multiple of the page size.
    /// A piece of 2 MiB shifted by 4 KiB has no place for a 2 MiB page.
    map_shift: Bytes { Mapping, MAPS, pagelab, default "0" }

    /// Let neighbouring pieces touch, so that the kernel may merge them into one mapping.
    /// 0 leaves a gap between pieces: each stays a mapping of its own.
    map_merge: bool { Mapping, MAPS, pagelab, default "0" }

    /// madvise(2) advice given to every piece right after it was mapped, in this order; `none` for none.
    map_advice: AdviceList { Mapping, MAPS, pagelab, default "none" }

    /// Fault every piece in right after it was mapped and advised (MADV_POPULATE_WRITE or _READ, Linux 5.14).
    map_populate: bool { Mapping, MAPS, pagelab, default "0" }

    /// Who sees what is written.
    map_share: MapShare { Mapping, MAPS, pagelab, default "default" }

    /// How long a piece stays mapped. `evict` makes the job a block cache: new pieces are mapped all the time.
    map_lifetime: MapLifetime { Mapping, MAPS, pagelab, default "keep" }

    /// With map_lifetime=evict: how many pieces stay mapped; the one mapped longest ago goes when one more is needed.
    map_resident: u64 { Mapping, MAPS, pagelab, default "1" }

    /// Order of blocks inside each piece, for sequential patterns; pieces themselves follow each other upwards.
    map_order: MapOrder { Mapping, MAPS, pagelab, default "ascending" }

    /// Bytes transferred of each block, from its start; 0 for the whole block.
    /// `bs=4k map_touch=1` faults pages in and does little else. Bytes reported are bytes transferred.
    map_touch: Bytes { Mapping, MAPS, pagelab, default "0" }

    /// Map anonymous memory from the hugetlb pool of this page size (2m, 1g); 0 for ordinary memory.
    hugetlb: Bytes { Mapping, ANONYMOUS, pagelab, default "0" }

    /// When the hugetlb pool has nothing left, map a piece from ordinary memory instead of failing, and count it.
    hugetlb_fallback: bool { Mapping, ANONYMOUS, pagelab, default "0" }

    /// End the job after this time (after ramp_time, which comes on top).
    runtime: Seconds { Time, NONE, fio, default "0", alias "timeout" }

    /// Go on until runtime is over: start over as often as it takes.
    time_based: bool { Time, NONE, fio, default "0" }

    /// Work this long before measuring. The measured amount of work starts from nothing after it.
    ramp_time: Seconds { Time, NONE, fio, default "0" }

    /// Start this much later than the job otherwise would; of a range each worker draws its own delay.
    startdelay: SecondsRange { Time, NONE, fio, default "0" }

    /// Pause after operations.
    thinktime: Micros { Rate, NONE, fio, default "0" }

    /// Spend this part of each thinktime computing instead of sleeping.
    thinktime_spin: Micros { Rate, NONE, fio, default "0" }

    /// Operations between pauses.
    thinktime_blocks: u64 { Rate, NONE, fio, default "1" }

    /// At most this many operations per second, for each direction if separated by commas.
    rate_iops: PerDirection<Option<u64>> { Rate, NONE, fio, default "" }

    /// fsync after this many writes (msync for mapped files); 0 never.
    fsync: u64 { Sync, FSYNC, fio, default "0" }

    /// fdatasync after this many writes; 0 never.
    fdatasync: u64 { Sync, FSYNC, fio, default "0" }

    /// fsync at the end of each pass that wrote.
    end_fsync: bool { Sync, FSYNC, fio, default "0" }

    /// Workers of this job.
    numjobs: u64 { Workers, NONE, fio, default "1" }

    /// Make workers threads instead of processes.
    thread: bool { Workers, NONE, fio, default "0" }

    /// Wait until all jobs before this one are done; starts a new group of the report.
    stonewall: bool { Workers, NONE, fio, default "0", alias "wait_for_previous" }

    /// Start a new group of the report.
    new_group: bool { Workers, NONE, fio, default "0" }

    /// Report the workers of a group together.
    group_reporting: bool { Reporting, NONE, fio, default "0" }

    /// Where time stamps come from. The report tells what was used and why.
    clocksource: ClockSource { Reporting, NONE, fio, default "auto" }

    /// Percentiles to report.
    percentile_list: PercentileList { Reporting, NONE, fio, default "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99" }

    /// Report percentiles of completion latency.
    clat_percentiles: bool { Reporting, NONE, fio, default "1" }

    /// Report percentiles of total latency.
    lat_percentiles: bool { Reporting, NONE, fio, default "0" }

    /// Time one operation in this many; 1 times all. Counts of operations stay exact.
    latency_sample: u64 { Reporting, NONE, pagelab, default "1" }

    /// Time no operation at all: no latencies, the clock is read once in 256 operations.
    gtod_reduce: bool { Reporting, NONE, fio, default "0" }
}

impl Default for JobOptions {
    /// The declared defaults.
    fn default() -> Self {
        let mut options = Self::blank();
        let context = ParseContext::default();
        for def in OPTIONS.iter().filter(|def| !def.default.is_empty()) {
            // Declared defaults are values of their options: a unit test goes through them all.
            let result = (def.assign)(&mut options, def.default, context);
            debug_assert!(result.is_ok(), "{}: {result:?}", def.name);
        }
        options
    }
}

impl JobOptions {
    /// Share of reads in percent: 100 or 0 for pure patterns.
    pub fn read_percent(&self) -> u8 {
        let pattern = self.rw.0;
        if !pattern.is_mixed() {
            return if pattern.reads() { 100 } else { 0 };
        }
        match (self.rwmixread, self.rwmixwrite) {
            (Some(read), _) => read.0,
            (None, Some(write)) => 100 - write.0,
            (None, None) => 50,
        }
    }

    /// Whether the page cache is to be bypassed.
    pub fn is_direct(&self) -> bool {
        self.direct || self.buffered == Some(false)
    }
}

/// The name of an engine, as written; checked against the engines when the job is put together.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct EngineName(pub String);

impl OptionValue for EngineName {
    const KIND: &'static str = "engine";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        text.trim().clone_into(&mut self.0);
        if self.0.is_empty() { Err("an engine's name is needed".to_owned()) } else { Ok(()) }
    }
}
