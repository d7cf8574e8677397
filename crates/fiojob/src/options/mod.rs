//! Every option of the job language, declared once.
//!
//! # How to add an option
//! 1. Declare it here: what it does (the first sentence stands alone in short help), its type, heading, the capability an engine
//!    needs for it, whether it is fio's or pagelab's own, its default as text, fio's other names for it.
//! 2. If it is fio's, take it off the list in [`crate::unsupported`].
//! 3. If it can contradict another option, say so in `validate`.
//! 4. Use the field where it acts (`pagelab-load`), and test it against fio.
//! 5. `make docs` writes `docs/job-options.md` anew.

mod meaning;
mod registry;

use crate::blocks::{SizeRange, SizeSplit};
use crate::chances::{Distribution, FileService};
use crate::contents::{BufferPattern, MemorySource, NumaMemPolicy, NumberSet};
use crate::model::Caps;
use crate::steady::SteadyGoal;
use crate::units::ParseContext;
use crate::value::{
    Bytes, ErrorLists, Extent, LogName, Micros, NameList, OptionValue, PerDirection, Percent, PercentileList, Seconds,
    SecondsRange, Share,
};
use crate::verify::{VerifyOption, VerifyPattern};
use crate::words::{
    AdviceList, ClockSource, ContinueOnError, CpusAllowedPolicy, EngineName, ExitWhat, FadviseHint, Fallocate, KbBase,
    MapBacking, MapLifetime, MapOrder, MapShare, PrioClass, RandomGenerator, RateProcess, RwOption, Sequencer,
    StatType, SubmitMode, SyncMode, SyncRange, ThinktimeBlocksType, UnifiedReporting,
};
use crate::zones::ZoneMode;
use registry::options;
pub use registry::{Category, OptionDef, nearest_option, option, reported_name};

options! {
    /// Name of the job.
    /// In a file the section's name counts unless this overrides it; on the command line it starts a new job.
    name: Option<String> { Job, NONE, fio, default "" }

    /// Free text about the job, repeated in the output.
    description: Option<String> { Job, NONE, fio, default "" }

    /// What unit prefixes mean.
    /// In a file it rules its whole section, on the command line what comes after it, as in fio.
    kb_base: KbBase { Job, NONE, fio, default "1024" }

    /// The file or block device to work on, or several, separated by ':'; workers share them.
    /// Without it each worker gets files of its own, named by filename_format. A literal ':' is written '\:'.
    /// Given more than once, in [global] too, it adds files to those before.
    filename: NameList { Files, FILES, fio, default "" }

    /// Names of the files of jobs without filename; $jobname (the section, whatever name= says), $jobnum (the
    /// worker) and $filenum stand for themselves. Without it SECTION.WORKER.FILE. The same name for all workers makes them share the file.
    filename_format: Option<String> { Files, FILES, fio, default "" }

    /// Names files of workers on different machines apart, in fio; here all workers are on one machine and names are as written.
    unique_filename: bool { Files, FILES, fio, default "1" }

    /// The directory that relative file names start from. It must exist. Of several, separated by ':', workers take turns.
    directory: Option<String> { Files, FILES, fio, default "" }

    /// How many files each worker has; size is the size of all together.
    nrfiles: u64 { Files, NONE, fio, default "1", alias "nr_files" }

    /// Size of each file, or a range of which each file draws its own; size then bounds the work, not the files.
    filesize: Option<SizeRange> { Files, NONE, fio, default "" }

    /// How many files are open at a time; 0 for all.
    /// Only open files serve operations: a further one is opened when one of them is done.
    openfiles: u64 { Files, FILES, fio, default "0" }

    /// Which file serves the next operation.
    file_service_type: FileService { Files, NONE, fio, default "roundrobin" }

    /// Work behind the present end of the files.
    file_append: bool { Files, FILES, fio, default "0" }

    /// Write until the file system is full, which is then no error; size may be left out.
    fill_device: bool { Files, FILES, fio, default "0", alias "fill_fs" }

    /// Leave the making of the file to the job's own open: no space is allocated and nothing is laid out before.
    create_on_open: bool { Files, FILES, fio, default "0" }

    /// Make files one job after the other. pagelab always does; 0 gets a warning.
    create_serialize: bool { Files, FILES, fio, default "1" }

    /// fdatasync a file that this job lays out, so that its pages are not written back while jobs run.
    create_fsync: bool { Files, FILES, fio, default "1" }

    /// Make the files ready and do nothing else.
    create_only: bool { Files, FILES, fio, default "0" }

    /// Make missing files; 0 refuses a job whose file does not exist.
    allow_file_create: bool { Files, FILES, fio, default "1" }

    /// Read each worker's regions into the page cache before the start; invalidate is then not done.
    pre_read: bool { Files, FILES, fio, default "0" }

    /// How the space of a file is made ready that the job will write.
    fallocate: Fallocate { Files, FILES, fio, default "native" }

    /// Lay the whole file out with data before a writing job starts, so that its writes overwrite.
    overwrite: bool { Files, FILES, fio, default "0" }

    /// Drop the file's pages from the page cache before the job starts and whenever it starts over; the kernel keeps those that
    /// somebody has mapped. A job whose random blocks may come more than once (norandommap, blockalign, distributions) never starts over.
    invalidate: bool { Files, FILES, fio, default "1" }

    /// What the kernel is told about the coming pattern (posix_fadvise, or madvise for mapped files).
    fadvise_hint: FadviseHint { Files, FILES, fio, default "1" }

    /// Remove the job's files when it is done. Only files that pagelab made are ever removed.
    /// On hugetlbfs such a file never has a name, so that its pages go back to the pool also when everything is killed.
    unlink: bool { Files, FILES, fio, default "0" }

    /// Remove the job's files at the end of each pass but the last, so that the next one makes them anew. As in fio, nothing is left
    /// where loops have nothing more to do, and nothing is laid out again: a job that only reads fails in its second pass (ENOENT), one
    /// that maps its files at their first page.
    unlink_each_loop: bool { Files, FILES, fio, default "0" }

    /// Which way data goes, in which order blocks come.
    /// Sequential patterns take bytes to skip after each operation (`rw=write:4k`, `rw=read:-8k` goes backwards), random ones the
    /// number of operations to a new random block (`rw=randread:8`).
    rw: RwOption { Pattern, NONE, fio, default "read", alias "readwrite" }

    /// What the operations between two random blocks do, with a count behind a random rw.
    rw_sequencer: Sequencer { Pattern, NONE, fio, default "sequential" }

    /// Share of random blocks in a random pattern, percent, for each direction if separated by commas; the others go on behind the
    /// one before. 100 where nothing is said.
    percentage_random: PerDirection<Option<Percent>> { Pattern, NONE, fio, default "" }

    /// How random blocks lie over the region.
    /// Also `zoned:ACCESS/SIZE:...` (percent of the operations, percent of the region; directions separated by commas) and
    /// `zoned_abs:ACCESS/BYTES:...`. All but `random` draw each block independently.
    random_distribution: Distribution { Pattern, NONE, fio, default "random" }

    /// How random blocks are made. Here it only decides whether each comes once.
    random_generator: RandomGenerator { Pattern, NONE, fio, default "tausworthe" }

    /// Work on the region as a whole or zone by zone.
    zonemode: ZoneMode { Pattern, NONE, fio, default "none" }

    /// Bytes transferred in a zone before the next one is begun.
    zonesize: Bytes { Pattern, NONE, fio, default "0" }

    /// Length of a zone; 0 for zonesize. A zone that is shorter than zonesize is worked on again until that much was transferred.
    zonerange: Bytes { Pattern, NONE, fio, default "0" }

    /// Bytes between zones.
    zoneskip: Bytes { Pattern, NONE, fio, default "0" }

    /// Do what this log says (write_iolog of fio or pagelab, versions 2 and 3) instead of a pattern; workers take turns with the logs of
    /// a list separated by ':'. The log overrules what is said about files, directions, sizes and amounts. Trims in it are passed over.
    read_iolog: Option<String> { Pattern, NONE, fio, default "" }

    /// Read the log piece by piece, in fio. Here an entry takes 40 bytes and all are read before the start.
    read_iolog_chunked: bool { Pattern, NONE, fio, default "0" }

    /// Replay as fast as it goes, without the log's delays and waits.
    replay_no_stall: bool { Pattern, NONE, fio, default "0", alias "no_stall" }

    /// Speed of the replay, percent: 50 doubles the delays, 200 halves them.
    replay_time_scale: u64 { Pattern, NONE, fio, default "100" }

    /// Do all that the log says with this file or device.
    replay_redirect: Option<String> { Pattern, NONE, fio, default "" }

    /// Round offsets of the log down to multiples of this, a power of two.
    replay_align: Bytes { Pattern, NONE, fio, default "0" }

    /// Divide offsets of the log by this.
    replay_scale: u64 { Pattern, NONE, fio, default "1" }

    /// Share of reads in a mixed pattern, percent.
    /// Each operation draws anew. The default is 50.
    rwmixread: Option<Percent> { Pattern, NONE, fio, default "" }

    /// Share of writes in a mixed pattern, percent; the other way to say rwmixread.
    rwmixwrite: Option<Percent> { Pattern, NONE, fio, default "" }

    /// Make the random order of two runs the same (for equal randseed); 0 takes a seed from the system, which the report tells.
    /// With 1, and without randseed, each further loop over random blocks goes the way of the first, as in fio.
    randrepeat: bool { Pattern, NONE, fio, default "1", alias "allrandrepeat" }

    /// Seed of everything random in the job.
    randseed: Option<u64> { Pattern, NONE, fio, default "" }

    /// Draw each random block independently instead of covering every block exactly once per pass.
    /// Coverage costs no memory here: blocks come from a seeded permutation, not from a map of those done.
    norandommap: bool { Pattern, NONE, fio, default "0" }

    /// In fio: do without the map of random blocks if there is no memory for it. Here there is no map, so it never is without.
    softrandommap: bool { Pattern, NONE, fio, default "0" }

    /// Size of one operation; for each direction if separated by commas (`bs=8k,4k`, `bs=,4k`).
    bs: PerDirection<Bytes> { Amount, NONE, fio, default "4k", alias "blocksize" }

    /// Range of operation sizes, drawn evenly in multiples of the least (`bsrange=1k-4k,2k-8k`); overrules bs.
    bsrange: PerDirection<Option<SizeRange>> { Amount, NONE, fio, default "", alias "blocksize_range" }

    /// Operation sizes with shares in percent: `bssplit=4k/10:64k/50:32k/40`, directions separated by commas; overrules bs.
    bssplit: PerDirection<SizeSplit> { Amount, NONE, fio, default "" }

    /// Let bsrange draw any length, not only multiples of the least.
    bs_unaligned: bool { Amount, NONE, fio, default "0", alias "blocksize_unaligned" }

    /// Use the read sizes for sequential and the write sizes for random operations, whichever way the data goes.
    bs_is_seq_rand: bool { Amount, NONE, fio, default "0" }

    /// Random operations start at multiples of this, for each direction if separated by commas; 0 for those of the block size.
    /// Operations may then overlap, so each is drawn independently.
    blockalign: PerDirection<Bytes> { Amount, NONE, fio, default "0", alias "ba", fio_name "ba" }

    /// The region to work on, from offset on, in bytes or percent of the file; one pass covers it once.
    /// Without it: from offset to the end of the existing file.
    size: Option<Extent> { Amount, NONE, fio, default "" }

    /// How much to transfer, if that is not once the region: less ends a pass early, more starts passes over.
    io_size: Option<Extent> { Amount, NONE, fio, default "", alias "io_limit" }

    /// Where the region starts in the file, in bytes or percent of the file; of a file that does not exist yet percentages are 0.
    offset: Option<Extent> { Amount, FILES, fio, default "", alias "fileoffset" }

    /// Shift each worker's region by this much more than the worker's before it, in bytes or percent of the file.
    offset_increment: Option<Extent> { Amount, FILES, fio, default "" }

    /// Round an offset that came from percent up to a multiple of this; 0 for the block size.
    offset_align: Bytes { Amount, FILES, fio, default "0" }

    /// How many passes over the region.
    loops: u64 { Amount, NONE, fio, default "1" }

    /// End a pass after this many operations.
    number_ios: Option<u64> { Amount, NONE, fio, default "" }

    /// What carries out the operations.
    ioengine: EngineName { Engine, NONE, fio, default "psync" }

    /// Most operations in flight. Engines that complete each operation before the next keep it at 1 and say so.
    iodepth: u64 { Engine, NONE, fio, default "1" }

    /// Operations submitted at a time, by one system call. As iodepth.
    iodepth_batch: u64 { Engine, NONE, fio, default "1", alias "iodepth_batch_submit" }

    /// Least number of completions taken at a time, once iodepth operations are in flight; 0 takes some after each operation.
    /// As iodepth.
    iodepth_batch_complete_min: u64 { Engine, NONE, fio, default "1", alias "iodepth_batch_complete" }

    /// Greatest number of completions taken at a time; never less than the least. As iodepth.
    iodepth_batch_complete_max: u64 { Engine, NONE, fio, default "1" }

    /// Once iodepth operations are in flight, take completions until so few are left before more are issued; 0 for iodepth.
    /// As iodepth.
    iodepth_low: u64 { Engine, NONE, fio, default "0" }

    /// Who submits operations. Only engines with operations in flight take `offload`: with them submission does not wait for completions
    /// anyway, and the worker itself submits.
    io_submit_mode: SubmitMode { Engine, NONE, fio, default "inline" }

    /// Bypass the page cache (O_DIRECT); with libpmem, whose files have none, the processor's caches (non-temporal stores). With mmap each
    /// operation is written back by msync(2) before the next, and stays cached, as in fio.
    direct: bool { Engine, DIRECT, fio, default "0" }

    /// In fio: O_DIRECT and O_ATOMIC, of which Linux has only the first. The same as direct.
    atomic: bool { Engine, DIRECT, fio, default "0" }

    /// The opposite of direct.
    buffered: Option<bool> { Engine, DIRECT, fio, default "" }

    /// Open the file for synchronous writing; with libpmem each write ends when it is durable.
    sync: SyncMode { Engine, SYNC_OPEN, fio, default "none" }

    /// Poll for the completion of each operation (RWF_HIPRI, IORING_SETUP_IOPOLL), where file system and device can.
    hipri: bool { Engine, POLLED, fio, default "0" }

    /// Share of the operations with hipri, percent.
    hipri_percentage: Option<Percent> { Engine, POLLED_SHARE, fio, default "" }

    /// Give up instead of waiting where an operation would block (RWF_NOWAIT); it then fails with EAGAIN.
    nowait: bool { Engine, NOWAIT, fio, default "0" }

    /// Drop an operation's pages from the page cache when it is done (RWF_DONTCACHE, Linux 6.14).
    uncached: bool { Engine, UNCACHED, fio, default "0" }

    /// Tell the kernel the buffers once, before the start (IORING_REGISTER_BUFFERS), instead of with every operation.
    fixedbufs: bool { Engine, RINGS, fio, default "0" }

    /// Tell the kernel the files once, when they are first used (IORING_REGISTER_FILES), instead of with every operation.
    registerfiles: bool { Engine, RINGS, fio, default "0" }

    /// Let a thread of the kernel's look for submitted operations (IORING_SETUP_SQPOLL): none needs a system call, as long as the
    /// thread does not sleep. It takes a processor.
    sqthread_poll: bool { Engine, RINGS, fio, default "0" }

    /// The processor of that thread.
    sqthread_poll_cpu: Option<u64> { Engine, RINGS, fio, default "" }

    /// Use operations with one buffer (IORING_OP_READ) and not those with a vector of one (IORING_OP_READV).
    nonvectored: bool { Engine, RINGS, fio, default "1" }

    /// Issue no operation that overlaps one in flight: it waits until that is done.
    serialize_overlap: bool { Engine, NONE, fio, default "0" }

    /// The call of ioengine=filestat.
    stat_type: StatType { Engine, STATS, fio, default "stat" }

    /// The file that ioengine=e4defrag takes new blocks from; in the job's directory. One of pagelab's own, or made.
    donorname: Option<String> { Engine, DONOR, fio, default "" }

    /// Let ioengine=e4defrag allocate the donor's blocks before each operation and free them after it, not all before the start.
    inplace: bool { Engine, DONOR, fio, default "0" }

    /// Let a thread of the kernel's do one operation in this many (IOSQE_ASYNC), whether it would block or not; 0 for none.
    force_async: u64 { Engine, RINGS, fio, default "0" }

    /// Contents of buffers are zeros.
    zero_buffers: bool { Buffers, BUFFERS, fio, default "0" }

    /// Fill the buffer anew for every write.
    refill_buffers: bool { Buffers, BUFFERS, fio, default "0" }

    /// Change a few bytes in every 512 of the buffer for every write, so that no storage folds equal blocks into one.
    scramble_buffers: bool { Buffers, BUFFERS, fio, default "1" }

    /// Contents of buffers: these bytes, repeated. It overrules scramble_buffers and zero_buffers.
    buffer_pattern: BufferPattern { Buffers, BUFFERS, fio, default "" }

    /// How much of each buffer can be compressed, percent: that share of each chunk is zeros (or buffer_pattern). Implies
    /// refill_buffers.
    buffer_compress_percentage: Option<Percent> { Buffers, BUFFERS, fio, default "" }

    /// Size of the chunks that buffer_compress_percentage goes by; 0 for whole blocks.
    buffer_compress_chunk: Bytes { Buffers, BUFFERS, fio, default "512" }

    /// Share of the writes whose contents have been written before, percent. Implies refill_buffers.
    dedupe_percentage: Option<Percent> { Buffers, BUFFERS, fio, default "" }

    /// Where buffers come from.
    iomem: MemorySource { Buffers, BUFFERS, fio, default "malloc", alias "mem", fio_name "mem" }

    /// Alignment of buffers beyond the page's, a power of two.
    iomem_align: Bytes { Buffers, BUFFERS, fio, default "0", alias "mem_align" }

    /// Size of the huge pages of iomem=shmhuge and mmaphuge. In job files it is written hugepage-size.
    hugepage_size: Bytes { Buffers, BUFFERS, fio, default "2m", alias "hugepage-size", fio_name "hugepage-size" }

    /// Lock this much memory before the job starts, to run it with less. It is fresh memory of each worker, as in fio.
    lockmem: Bytes { Buffers, NONE, fio, default "0" }

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

    /// What lies under the pieces.
    map_backing: MapBacking { Mapping, MEMFD, pagelab, default "anonymous" }

    /// How long a piece stays mapped. `evict` makes the job a block cache: new pieces are mapped all the time.
    map_lifetime: MapLifetime { Mapping, MAPS, pagelab, default "keep" }

    /// With map_lifetime=evict: how many pieces stay mapped; the one mapped longest ago goes when one more is needed.
    map_resident: u64 { Mapping, MAPS, pagelab, default "1" }

    /// Order of blocks inside each piece, for sequential patterns; pieces themselves follow each other upwards.
    map_order: MapOrder { Mapping, MAPS, pagelab, default "ascending" }

    /// With map_order=strided: distance from one block to the next, a multiple of the block size.
    /// `bs=64 map_stride=4k` touches a line of each page of a piece before the second line of any.
    map_stride: Bytes { Mapping, MAPS, pagelab, default "0" }

    /// Bytes transferred of each block, from its start; 0 for the whole block.
    /// `bs=4k map_touch=1` faults pages in and does little else. Bytes reported are bytes transferred.
    map_touch: Bytes { Mapping, MAPS, pagelab, default "0" }

    /// With map_lifetime=evict: read a byte of each block of a piece back before it goes. The last pieces stay, unread.
    map_read_back: bool { Mapping, MAPS, pagelab, default "0" }

    /// Take the memory from the hugetlb pool of this page size (2m, 1g); 0 for ordinary memory.
    hugetlb: Bytes { Mapping, ANONYMOUS, pagelab, default "0" }

    /// When the hugetlb pool has nothing left, map a piece from ordinary memory instead of failing, and count it.
    hugetlb_fallback: bool { Mapping, ANONYMOUS, pagelab, default "0" }

    /// End the job after this time (after ramp_time, which comes on top).
    runtime: Seconds { Time, NONE, fio, default "0", alias "timeout" }

    /// Go on until runtime is over: start over as often as it takes.
    time_based: bool { Time, NONE, fio, default "0" }

    /// Work this long before measuring. The measured amount of work starts from nothing after it.
    ramp_time: Seconds { Time, NONE, fio, default "0" }

    /// End the job when its rates are steady: `iops`, `bw` (greatest distance from the mean), `iops_slope` or `bw_slope` (slope per second of
    /// the line of best fit) below a limit, absolute or with % a share of the mean; needs steadystate_duration.
    steadystate: SteadyGoal { Time, NONE, fio, default "iops_slope:0.01%", alias "ss" }

    /// How long rates must be steady, in whole seconds, one sample each; 0 does not look. With group_reporting a group is looked at together.
    steadystate_duration: Seconds { Time, NONE, fio, default "0", alias "ss_dur" }

    /// How long after the start of measuring the first sample begins.
    steadystate_ramp_time: Seconds { Time, NONE, fio, default "0", alias "ss_ramp" }

    /// End the job when an operation takes longer, for each direction if separated by commas; 0 for no limit.
    max_latency: PerDirection<Micros> { Time, NONE, fio, default "0" }

    /// Look for the greatest queue depth at which operations take no longer than this; the job is over when it is found, and reports its
    /// last window. At depth 1 an operation that takes longer ends the job.
    latency_target: Micros { Time, NONE, fio, default "0" }

    /// How long operations are counted before the depth is changed.
    latency_window: Micros { Time, NONE, fio, default "0" }

    /// Share of the operations that latency_target must hold for, percent.
    latency_percentile: Share { Time, NONE, fio, default "100" }

    /// Go on when the depth is found.
    latency_run: bool { Time, NONE, fio, default "0" }

    /// Start this much later than the job otherwise would; of a range each worker draws its own delay.
    startdelay: SecondsRange { Time, NONE, fio, default "0" }

    /// Start when all workers of this earlier job are done.
    wait_for: Option<String> { Time, NONE, fio, default "" }

    /// End the others when this job is done; exit_what says whom.
    exitall: bool { Time, NONE, fio, default "0" }

    /// Whom exitall and exitall_on_error end.
    exit_what: ExitWhat { Time, NONE, fio, default "group" }

    /// End the others when this job fails.
    exitall_on_error: bool { Time, NONE, fio, default "0" }

    /// Pause after operations.
    thinktime: Micros { Rate, NONE, fio, default "0" }

    /// Spend this part of each thinktime computing instead of sleeping.
    thinktime_spin: Micros { Rate, NONE, fio, default "0" }

    /// Operations between pauses; 1 where nothing is said, unless thinktime_iotime says when to pause.
    thinktime_blocks: Option<u64> { Rate, NONE, fio, default "" }

    /// What thinktime_blocks counts.
    thinktime_blocks_type: ThinktimeBlocksType { Rate, NONE, fio, default "complete" }

    /// Pause after this much time at work.
    thinktime_iotime: Seconds { Rate, NONE, fio, default "0" }

    /// At most this many bytes per second, for each direction if separated by commas.
    rate: PerDirection<Option<u64>> { Rate, NONE, fio, default "" }

    /// End the job with an error if it transfers fewer bytes per second than this.
    rate_min: PerDirection<Option<u64>> { Rate, NONE, fio, default "", alias "ratemin" }

    /// At most this many operations per second, for each direction if separated by commas.
    rate_iops: PerDirection<Option<u64>> { Rate, NONE, fio, default "" }

    /// End the job with an error if it does fewer operations per second than this.
    rate_iops_min: PerDirection<Option<u64>> { Rate, NONE, fio, default "" }

    /// How operations of a limited rate lie in time.
    rate_process: RateProcess { Rate, NONE, fio, default "linear" }

    /// Over how many milliseconds rate_min and rate_iops_min are averaged.
    rate_cycle: u64 { Rate, NONE, fio, default "1000", alias "ratecycle" }

    /// Let the rate's clock run on through pauses of thinktime instead of catching up after them.
    rate_ignore_thinktime: bool { Rate, NONE, fio, default "0" }

    /// fsync after this many writes (msync for mapped files); 0 never.
    fsync: u64 { Sync, FSYNC, fio, default "0" }

    /// fdatasync after this many writes; 0 never.
    fdatasync: u64 { Sync, FSYNC, fio, default "0" }

    /// sync_file_range(2) after writes, on the bytes from the first to the last of them: `wait_before`, `write`, `wait_after`, separated by
    /// commas, and behind a colon after how many writes (`write:8`). fsync and fdatasync come first where several are due.
    sync_file_range: SyncRange { Sync, RANGE_SYNC, fio, default "" }

    /// fsync at the end of each pass that wrote.
    end_fsync: bool { Sync, FSYNC, fio, default "0" }

    /// fsync a file that was written before it is closed, and all files at the end of each pass.
    fsync_on_close: bool { Sync, FSYNC, fio, default "0" }

    /// Verify what was written, with a checksum in a header in front of each block that fio 3.33 understands, too.
    /// A job that writes reads it back at the end of each pass and is reported with these reads; one that only reads verifies what was
    /// written before. A mismatch is told with file, offset, expected and found; the job then fails with EILSEQ, the command with 1.
    verify: VerifyOption { Verify, BUFFERS, fio, default "0" }

    /// Read back and verify at the end of each pass; 0 leaves that to a later job.
    do_verify: bool { Verify, BUFFERS, fio, default "1" }

    /// Go the way of the writes without writing, and verify that what an earlier run wrote is there.
    verify_only: bool { Verify, BUFFERS, fio, default "0" }

    /// Distance of headers in a block; 0 for one in front of each block. It is cut to what divides every block size of writes.
    verify_interval: Bytes { Verify, BUFFERS, fio, default "0" }

    /// Let the header change places with the data at this offset of its interval.
    verify_offset: Bytes { Verify, BUFFERS, fio, default "0" }

    /// Fill blocks with these bytes, repeated, instead of random ones; `%o` stands for the block's offset (8 bytes from the lowest up).
    verify_pattern: VerifyPattern { Verify, BUFFERS, fio, default "" }

    /// Begin the pattern anew every so many bytes of a block, `%o` being the offset of that place; 0 for once per block. An option of
    /// fio later than 3.33.
    verify_pattern_interval: Bytes { Verify, BUFFERS, fio, default "0" }

    /// End the job at the first mismatch instead of at the end of the pass. (fio 3.33 does so in any case.)
    verify_fatal: bool { Verify, BUFFERS, fio, default "0" }

    /// Write each block that is found wrong, as received and as expected, to FILE.OFFSET.received and FILE.OFFSET.expected in the
    /// working directory; ten at most.
    verify_dump: bool { Verify, BUFFERS, fio, default "0" }

    /// In fio: threads that verify beside the worker. Here each worker verifies itself.
    verify_async: u64 { Verify, BUFFERS, fio, default "0" }

    /// In fio: the CPUs of those threads.
    verify_async_cpus: NumberSet { Verify, BUFFERS, fio, default "" }

    /// Verify after this many writes instead of at the end; 0 for at the end. Pages are then not dropped from the page cache before.
    verify_backlog: u64 { Verify, BUFFERS, fio, default "0" }

    /// How many blocks are verified then; the rest at the end of the pass. 0 for verify_backlog.
    verify_backlog_batch: u64 { Verify, BUFFERS, fio, default "0" }

    /// In fio: verify by going the way of the writes again instead of by a list of them. Here that is always so.
    experimental_verify: bool { Verify, BUFFERS, fio, default "0" }

    /// In the run that wrote: verify the seed in the header. An option of fio later than 3.33.
    verify_header_seed: bool { Verify, BUFFERS, fio, default "1" }

    /// In the run that wrote: verify the number of the write in the header. An option of fio later than 3.33.
    verify_write_sequence: bool { Verify, BUFFERS, fio, default "1" }

    /// Save how far the writes came to local-JOB-N-verify.state, in fio 3.33's format: with 1 at every end, with 0 never; where nothing
    /// is said, when a signal, an error or runtime ends them.
    verify_state_save: Option<bool> { Verify, BUFFERS, fio, default "" }

    /// Verify no more than a saved state says was written; for jobs that only verify.
    /// A state of fio is of use for sequential patterns: the random order is each program's own.
    verify_state_load: bool { Verify, BUFFERS, fio, default "0" }

    /// Workers of this job.
    numjobs: u64 { Workers, NONE, fio, default "1" }

    /// In fio a parameter of its profile tiobench, ignored elsewhere and here.
    threads: Option<u64> { Workers, NONE, fio, default "" }

    /// Make workers threads instead of processes.
    thread: bool { Workers, NONE, fio, default "0" }

    /// Wait until all jobs before this one are done; starts a new group of the report.
    stonewall: bool { Workers, NONE, fio, default "0", alias "wait_for_previous" }

    /// Start a new group of the report.
    new_group: bool { Workers, NONE, fio, default "0" }

    /// The CPUs that workers may use.
    cpus_allowed: NumberSet { Workers, NONE, fio, default "" }

    /// The same as a number whose bits are CPUs; cpus_allowed overrules it.
    cpumask: Option<u64> { Workers, NONE, fio, default "" }

    /// How workers of the job share its CPUs.
    cpus_allowed_policy: CpusAllowedPolicy { Workers, NONE, fio, default "shared" }

    /// The NUMA nodes whose CPUs workers may use.
    numa_cpu_nodes: NumberSet { Workers, NONE, fio, default "" }

    /// From which NUMA nodes the workers' memory comes.
    numa_mem_policy: NumaMemPolicy { Workers, NONE, fio, default "" }

    /// Add this to the workers' nice value.
    nice: i64 { Workers, NONE, fio, default "0" }

    /// I/O priority within the class, 0 (first) to 7.
    prio: Option<u64> { Workers, NONE, fio, default "" }

    /// I/O scheduling class.
    prioclass: PrioClass { Workers, NONE, fio, default "0" }

    /// Run this command before each worker's first operation, by the shell; what it prints goes to JOB.prerun.txt in the working directory. If
    /// it fails, so does the job.
    exec_prerun: Option<String> { Workers, NONE, fio, default "" }

    /// Run this command after each worker's last operation; what it prints goes to JOB.postrun.txt.
    exec_postrun: Option<String> { Workers, NONE, fio, default "" }

    /// Go on after errors of the medium (EIO), which are counted and left out of bytes and latencies; after others, a full file system
    /// among them, only if ignore_error lists them. The first error is the job's error in reports.
    continue_on_error: ContinueOnError { Workers, NONE, fio, default "none" }

    /// Errors that the job goes on after: `READ,WRITE,VERIFY` lists of names or numbers separated by ':' (`ignore_error=EIO,ENOSPC:EDQUOT`).
    ignore_error: ErrorLists { Workers, NONE, fio, default "" }

    /// Print each error that the job goes on after to standard error.
    error_dump: bool { Workers, NONE, fio, default "0" }

    /// Report the workers of a group together.
    group_reporting: bool { Reporting, NONE, fio, default "0" }

    /// Report what the disks under the job's files did meanwhile.
    disk_util: bool { Reporting, FILES, fio, default "1" }

    /// Where time stamps come from. The report tells what was used and why.
    clocksource: ClockSource { Reporting, NONE, fio, default "auto" }

    /// Percentiles to report.
    percentile_list: PercentileList { Reporting, NONE, fio, default "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99" }

    /// Report percentiles of completion latency.
    clat_percentiles: bool { Reporting, NONE, fio, default "1" }

    /// Report percentiles of total latency.
    lat_percentiles: bool { Reporting, NONE, fio, default "0" }

    /// Report percentiles of submission latency, which engines that complete each operation before the next do not have.
    slat_percentiles: bool { Reporting, NONE, fio, default "0" }

    /// Significant figures in the normal layout, 1 to 10.
    significant_figures: u64 { Reporting, NONE, fio, default "4" }

    /// Leave total latency out of the report. With disable_clat, operations are not timed at all.
    disable_lat: bool { Reporting, NONE, fio, default "0" }

    /// Leave completion latency out of the report.
    disable_clat: bool { Reporting, NONE, fio, default "0" }

    /// Leave submission latency out of the report; engines that complete each operation before the next have none anyway.
    disable_slat: bool { Reporting, NONE, fio, default "0" }

    /// Leave samples of bandwidth out of the report.
    disable_bw_measurement: bool { Reporting, NONE, fio, default "0", alias "disable_bw" }

    /// Write latencies to NAME_clat.N.log, NAME_lat.N.log and (empty) NAME_slat.N.log, N being the worker's number; alone or as 1 the
    /// job's name is taken. A log is written while the job runs: mean values (log_avg_msec) disturb less.
    write_lat_log: LogName { Reporting, NONE, fio, default "" }

    /// Write bandwidth to NAME_bw.N.log.
    write_bw_log: LogName { Reporting, NONE, fio, default "" }

    /// Write operations to NAME_iops.N.log.
    write_iops_log: LogName { Reporting, NONE, fio, default "" }

    /// One line per direction and this many milliseconds in those logs; 0 for a line per operation.
    log_avg_msec: u64 { Reporting, NONE, fio, default "0" }

    /// Write histograms of completion latency to NAME_clat_hist.N.log, a line per direction and log_hist_msec, for fiologparser_hist.py.
    write_hist_log: LogName { Reporting, NONE, fio, default "" }

    /// Milliseconds between histograms; 0 writes none.
    log_hist_msec: u64 { Reporting, NONE, fio, default "0" }

    /// Put 2 to the power of this many buckets together in those histograms, 0 to 6.
    log_hist_coarseness: u64 { Reporting, NONE, fio, default "0" }

    /// Milliseconds in a line of the log of bandwidth, if less than log_avg_msec. (Samples for the report's minimum and maximum are taken
    /// twice a second in any case.)
    bwavgtime: Option<u64> { Reporting, NONE, fio, default "" }

    /// Milliseconds in a line of the log of operations, if less than log_avg_msec.
    iopsavgtime: Option<u64> { Reporting, NONE, fio, default "" }

    /// Write the greatest value of a stretch into those logs, not the mean.
    log_max_value: bool { Reporting, NONE, fio, default "0" }

    /// Times in those logs count from 1970 and not from the start of measuring.
    log_unix_epoch: bool { Reporting, NONE, fio, default "0" }

    /// Times in those logs are those of a clock of clock_gettime(2), which log_alternate_epoch_clock_id names.
    log_alternate_epoch: bool { Reporting, NONE, fio, default "0" }

    /// The number of that clock: 0 is CLOCK_REALTIME, 1 CLOCK_MONOTONIC.
    log_alternate_epoch_clock_id: u64 { Reporting, NONE, fio, default "0" }

    /// Report reads, writes and trims together.
    unified_rw_reporting: UnifiedReporting { Reporting, NONE, fio, default "none" }

    /// Put the worker's number into the names of those logs. With 0 the workers of all jobs that name the same write into one
    /// (NAME_bw.log), each its lines as its buffer fills.
    per_job_logs: bool { Reporting, NONE, fio, default "1" }

    /// Put offsets of operations into those logs.
    log_offset: bool { Reporting, NONE, fio, default "0" }

    /// Write every operation, as it is issued, to this file, in fio's format 3; workers beyond the first add their number.
    write_iolog: Option<String> { Reporting, NONE, fio, default "" }

    /// Time one operation in this many; 1 times all. Counts of operations stay exact.
    latency_sample: u64 { Reporting, NONE, pagelab, default "1" }

    /// Time no operation at all: no latencies, logs of samples stay empty, the clock is read once in 256 operations.
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
