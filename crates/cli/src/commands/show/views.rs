//! The views as subcommands, each with the options that it has.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pagelab_views::selection::Selection;

use crate::options::SpanArgs;

/// The views. What one holds stands beside its rows: see the help of each.
#[derive(Debug, Subcommand)]
pub(super) enum View {
    /// What was recorded, how well, and what stands out (the default)
    Summary(Plain),
    /// The tree of tasks, and the faults of each as recorded and as the kernel accounts them
    #[command(
        mut_arg("sort", |arg| arg.help("Order: tree, faults, duration, cpu, difference or time [default: tree]")),
        mut_arg("top", |arg| arg.help(TOP_OF_LISTING)),
        after_help = TASKS
    )]
    Tasks(OfTasks),
    /// Page faults by class of mapping, mapping, instruction and task
    #[command(
        mut_arg("sort", |arg| arg.help("Rank by: faults, per_page, per_slot or bytes [default: faults]")),
        after_help = FAULTS
    )]
    Faults(OfFiles),
    /// Mapping actions: mmap, munmap, mremap, brk, madvise, mprotect and others
    #[command(
        mut_arg("sort", |arg| arg.help("Order: time or len [default: time]")),
        mut_arg("top", |arg| arg.help(TOP_OF_LISTING)),
        after_help = MAPS
    )]
    Maps(OfFiles),
    /// Faults on DAX files: slots mapped as a whole, and slots mapped page by page
    #[command(mut_arg("sort", |arg| arg.help("Rank by: slots, small or faults [default: slots]")))]
    Dax(OfFiles),
    /// System calls, added up or one by one
    #[command(
        mut_arg("sort", |arg| arg.help(
            "Rank by: total, calls, errors, mean, p50, p99, max, cpu, blocked or name [default: total]"
        )),
        mut_arg("top", |arg| arg.help("Rows shown; 0 for all [default: 20; all with --by name or --log]")),
        after_help = SYSCALLS
    )]
    Syscalls(OfCalls),
    /// Reads and writes of files: how many, how large, in which order
    #[command(
        mut_arg("sort", |arg| arg.help(
            "Rank by: bytes, read, written, reads, writes, opens, time or file [default: bytes]"
        )),
        after_help = IO
    )]
    Io(OfFiles),
    /// Where the time went: on a CPU and for what, ready without one, waiting and for what
    #[command(
        mut_arg("sort", |arg| arg.help("Rank components by: time, wall or component [default: time]")),
        after_help = BUDGET
    )]
    Budget(OfTasks),
    /// Tasks running, ready or waiting, and what they waited for
    #[command(
        mut_arg("sort", |arg| arg.help(
            "Rank by: waiting, preempted, queue, off, oncpu, times, max or task [default: waiting]"
        )),
        after_help = SCHED
    )]
    Sched(OfTasks),
    /// CPU time by function, module, name and CPU
    #[command(
        mut_arg("sort", |arg| arg.help("Rank functions by: self or total [default: self]")),
        after_help = PROFILE
    )]
    Profile(OfFunctions),
    /// Events of processor and kernel, and the quotients made of them
    #[command(after_help = COUNTERS)]
    Counters(OfNames),
    /// Metrics with their first and last value, and their number in the measured time
    #[command(
        mut_arg("sort", |arg| arg.help("Order: name, value, change, first or last [default: name]")),
        mut_arg("top", |arg| arg.help(TOP_OF_LISTING)),
        after_help = METRICS
    )]
    Metrics(OfMetrics),
    /// Settings of host and target at the start and at the end
    #[command(after_help = SETTINGS)]
    Settings(OfSettings),
    /// Latency of a load's operations by job, direction and kind
    Latency(Plain),
    /// Requests of the host's disks by device and operation
    #[command(
        mut_arg("sort", |arg| arg.help("Rank by: bytes, count, queue or device [default: bytes]")),
        after_help = BLOCK
    )]
    Block(OfTasks),
    /// Page sizes that memory really had, and why not those asked for
    #[command(
        mut_arg("sort", |arg| arg.help("Rank by: bytes, small or address [default: bytes]")),
        after_help = REGIONS
    )]
    Regions(OfFiles),
    /// Events that each stream saw, lost and filtered, second by second
    #[command(
        mut_arg("sort", |arg| arg.help("Order: time, lost, seen or filtered [default: time]")),
        mut_arg("top", |arg| arg.help(TOP_OF_LISTING))
    )]
    Loss(OfStreams),
}

/// Of a list that is whole unless it is ranked.
const TOP_OF_LISTING: &str = "Rows shown; 0 for all [default: all; 20 with --sort]";

const TASKS: &str = "\
FAULTS is the number of the task's faults in the recording, MIN+MAJ the number that the kernel had counted for it when it \
ended, DIFF the difference. The kernel also counts faults that it takes for a task without an exception (get_user_pages, as \
for direct I/O and ptrace), faults of exec before the new program runs, and faults repeated after waiting for a lock. \
Faults that the recorder lost are in DIFF too; show DIR loss lists them.";

const FAULTS: &str = "\
PER_PAGE is the number of faults on missing pages per base page mapped, PER_SLOT the number per touched slot: an aligned \
range of the size of a huge page. With huge pages PER_SLOT is 1.

Example:
  pagelab show good.rec faults --comm postgres --top 5";

const MAPS: &str = "\
NOT_CALLS counts mappings made by the kernel, inherited by fork, or present when recording began.";

const SYSCALLS: &str = "\
Durations are from entry to return; a call that never returned has none. --log prints every call, with the file's name \
after its descriptor and addresses as numbers.

Example:
  pagelab show good.rec syscalls --by file --name %desc --sort p99";

const IO: &str = "\
An operation is sequential if it starts where an earlier one ended (of this task, or of another that works on the same \
file), descending if it ends where an earlier one started, strided if the steps are equal, same if it repeats the offset \
of the one before, and random otherwise. PATTERN names the kind of at least 60 % of the operations, or is mixed. STREAMS counts \
sequential, strided and descending runs of 8 or more operations. Accesses through mappings show only as page faults; those of \
io_uring and libaio are not seen.";

const BUDGET: &str = "\
TIME is summed over the tasks; WALL splits the time recorded, a moment with several active tasks among these. ERROR is the \
standard error of what was sampled. A component is active if its time was spent for the tasks' work, or taken from it by the \
system; waiting for other tasks, for requests and for times is not. All components: docs/budget.md.";

const SCHED: &str = "\
ASLEEP is the time until the task was woken; QUEUE the time it was ready and had no CPU, after a wakeup or preempted. BY STACK \
shows where tasks slept.";

const PROFILE: &str = "\
Example:
  pagelab show good.rec profile --callers memcpy --group 'copy=^(copy_|memcpy|memmove)'";

const COUNTERS: &str = "\
~ marks an estimate: the event was counted for a part of the time only, because the processor has fewer counters than there \
are events (multiplexing). Derived figures use only events that were counted at the same times.";

const METRICS: &str = "\
Example:
  pagelab show good.rec metrics vmstat.thp_ --json";

const SETTINGS: &str = "\
Example:
  pagelab show good.rec settings thp. hugetlb.";

const BLOCK: &str = "\
Requests of all programs on the host's disks. Kernel threads write back what a program has written into the page cache: such \
requests belong to no task, and --pid and --comm leave them out.";

const REGIONS: &str = "\
Each address space is shown as of the last look at it, a short time before its end.";

/// Options that every view has.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Print one JSON document in place of text
    #[arg(long)]
    pub json: bool,
    /// Recording or set to compare --test with, in place of DIR; may be repeated
    #[arg(long, value_name = "DIR", requires = "test")]
    pub base: Vec<PathBuf>,
    /// Recording or set whose changes against --base are shown; may be repeated
    #[arg(long, value_name = "DIR", requires = "base")]
    pub test: Vec<PathBuf>,
    #[command(flatten)]
    pub span: SpanArgs,
}

/// Which tasks.
#[derive(Debug, Args)]
pub(super) struct TaskArgs {
    /// Only this process, by its id
    #[arg(long, value_name = "N")]
    pid: Option<i32>,
    /// Only tasks of this name, at the times when they had it
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,
}

/// Which file.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// Only this file, by its path, the last parts of it, or the kernel's name ([heap])
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
}

/// How many rows, in which order.
#[derive(Debug, Args)]
pub(super) struct RankArgs {
    /// Rows of each list; 0 for all [default: 20]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Column to rank by
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
}

/// Which rows of a view of tasks and files.
#[derive(Debug, Args)]
pub(super) struct RowArgs {
    #[command(flatten)]
    tasks: TaskArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    rank: RankArgs,
}

/// Options of a view that shows all or nothing.
#[derive(Debug, Args)]
pub(super) struct Plain {
    #[command(flatten)]
    common: Common,
}

/// Options of a view of tasks.
#[derive(Debug, Args)]
pub(super) struct OfTasks {
    #[command(flatten)]
    tasks: TaskArgs,
    #[command(flatten)]
    rank: RankArgs,
    #[command(flatten)]
    common: Common,
}

/// Options of a view of tasks and files.
#[derive(Debug, Args)]
pub(super) struct OfFiles {
    #[command(flatten)]
    rows: RowArgs,
    #[command(flatten)]
    common: Common,
}

/// Options of the view of system calls.
#[derive(Debug, Args)]
pub(super) struct OfCalls {
    #[command(flatten)]
    rows: RowArgs,
    /// One row for each name, task, comm or file [default: name]
    #[arg(long, value_name = "WHAT")]
    by: Option<String>,
    /// Only calls of these names or classes (%desc, %file, %memory and others), with commas between them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    name: Vec<String>,
    /// Print each call on a line of its own, as strace does, in order of time
    #[arg(long)]
    pub log: bool,
    #[command(flatten)]
    common: Common,
}

/// Options of the profile.
#[derive(Debug, Args)]
pub(super) struct OfFunctions {
    #[command(flatten)]
    rows: RowArgs,
    /// Add what calls this function
    #[arg(long, value_name = "FUNCTION")]
    callers: Option<String>,
    /// Add what this function calls
    #[arg(long, value_name = "FUNCTION")]
    callees: Option<String>,
    /// Add up the functions that REGEX matches, under NAME; may be repeated
    #[arg(long, value_name = "NAME=REGEX")]
    group: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Options of a view of names.
#[derive(Debug, Args)]
pub(super) struct OfNames {
    /// Only names with one of these words in them
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Options of the view of settings.
#[derive(Debug, Args)]
pub(super) struct OfSettings {
    /// Only keys with one of these words in them
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Rows shown; 0 for all [default: all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    common: Common,
}

/// Options of the view of metrics.
#[derive(Debug, Args)]
pub(super) struct OfMetrics {
    /// Only metrics with one of these words in their name
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    #[command(flatten)]
    rank: RankArgs,
    #[command(flatten)]
    common: Common,
}

/// Options of the view of losses.
#[derive(Debug, Args)]
pub(super) struct OfStreams {
    #[command(flatten)]
    rank: RankArgs,
    #[command(flatten)]
    common: Common,
}

impl RankArgs {
    fn selection(&self) -> Selection {
        Selection { top: self.top, sort: self.sort.clone(), ..Selection::default() }
    }
}

impl OfTasks {
    fn selection(&self) -> Selection {
        Selection { pid: self.tasks.pid, comm: self.tasks.comm.clone(), ..self.rank.selection() }
    }
}

impl RowArgs {
    fn selection(&self) -> Selection {
        Selection {
            pid: self.tasks.pid,
            comm: self.tasks.comm.clone(),
            file: self.files.file.clone(),
            ..self.rank.selection()
        }
    }
}

impl OfCalls {
    fn selection(&self) -> Selection {
        Selection { by: self.by.clone(), names: self.name.clone(), ..self.rows.selection() }
    }
}

impl OfFunctions {
    fn selection(&self) -> Selection {
        Selection {
            callers: self.callers.clone(),
            callees: self.callees.clone(),
            groups: self.group.clone(),
            ..self.rows.selection()
        }
    }
}

impl View {
    /// The options that every view has.
    pub(super) fn common(&self) -> &Common {
        match self {
            Self::Summary(args) | Self::Latency(args) => &args.common,
            Self::Tasks(args) | Self::Block(args) | Self::Budget(args) | Self::Sched(args) => &args.common,
            Self::Faults(args) | Self::Maps(args) | Self::Dax(args) | Self::Io(args) | Self::Regions(args) => {
                &args.common
            }
            Self::Syscalls(args) => &args.common,
            Self::Profile(args) => &args.common,
            Self::Counters(args) => &args.common,
            Self::Metrics(args) => &args.common,
            Self::Settings(args) => &args.common,
            Self::Loss(args) => &args.common,
        }
    }

    /// The rows that are asked for.
    pub(super) fn selection(&self) -> Selection {
        let of_words = |words: &[String]| Selection { words: words.to_vec(), ..Selection::default() };
        let rows = match self {
            Self::Summary(_) | Self::Latency(_) => Selection::default(),
            Self::Tasks(args) | Self::Block(args) | Self::Budget(args) | Self::Sched(args) => args.selection(),
            Self::Faults(args) | Self::Maps(args) | Self::Dax(args) | Self::Io(args) | Self::Regions(args) => {
                args.rows.selection()
            }
            Self::Syscalls(args) => args.selection(),
            Self::Profile(args) => args.selection(),
            Self::Counters(args) => of_words(&args.words),
            Self::Metrics(args) => Selection { words: args.words.clone(), ..args.rank.selection() },
            Self::Settings(args) => Selection { top: args.top, ..of_words(&args.words) },
            Self::Loss(args) => args.rank.selection(),
        };
        Selection { bounds: self.common().span.bounds(), ..rows }
    }
}
