//! The views of one recording: one file or folder each.
//!
//! A view is a function `collect(&Recording, &Selection) -> Result<Answer<NameView>>`. `NameView` serialises to the document
//! of `pagelab show DIR NAME --json`: keys in snake case, units as suffixes, null for what is not known. Reading, joining and
//! ranking happen here; drawing happens in `pagelab_report::view`, arguments and exit statuses in the binary.
//!
//! # How to add a view
//!
//! 1. Write `NAME.rs` with `collect` and `NameView`. Make the result lists of rows. A row has a key, which says what it is
//!    about in words that mean the same in another recording (a function and its module, a path, the name of a call), and
//!    figures. Ids of one recording (`task_id`, `mapping_id`) may stand next to the key, not in it: two sides are
//!    compared by key. A list that is cut has its length before in `..._total`.
//! 2. Say in a note what was left out, lost or not recorded, with the command that records it
//!    ([`crate::read::lost`], [`crate::absence::nothing`]).
//! 3. Draw it in a file of `pagelab_report::view`, and give it a subcommand in the binary's `commands/show`.
//! 4. Add its lists to [`crate::sides::lists`], so that two sides can be compared by it.
//! 5. Give it a line in [`VIEWS`] and in [`document`].
//! 6. Hold it in `crates/cli/tests/show.rs`.

pub mod block;
pub mod budget;
pub mod counters;
pub mod dax;
pub mod faults;
pub mod io;
pub mod latency;
pub mod loss;
pub mod maps;
pub mod metrics;
pub mod profile;
pub mod regions;
pub mod sched;
pub mod settings;
pub mod summary;
pub mod syscalls;
pub mod tasks;

use pagelab_recording::Recording;
use pagelab_vocab::nearest::hint_for;
use pagelab_vocab::streams::Stream;
use serde_json::Value;

use crate::error::{Result, ViewError};
use crate::selection::Selection;

/// A view as others ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewDef {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The options that it has, `words` among them. All views have a begin and an end of the time.
    pub takes: &'static [&'static str],
    /// The stream whose events its lists count; none where they count nothing that can be lost.
    pub stream: Option<Stream>,
}

/// A view, what it shows, and the options that it has.
const fn view(name: &'static str, about: &'static str, takes: &'static [&'static str]) -> ViewDef {
    ViewDef { name, about, takes, stream: None }
}

impl ViewDef {
    /// The same view, whose lists count events of a stream.
    const fn of(self, stream: Stream) -> Self {
        Self { stream: Some(stream), ..self }
    }
}

const OF_TASKS: &[&str] = &["pid", "comm", "top", "sort"];
const OF_FILES: &[&str] = &["pid", "comm", "file", "top", "sort"];

/// All views.
pub const VIEWS: [ViewDef; 17] = [
    view("summary", "What was recorded, how well, and what stands out", &[]),
    view("tasks", "The tree of tasks, and the faults of each as recorded and as the kernel accounts them", OF_TASKS)
        .of(Stream::Faults),
    view("faults", "Page faults by class of mapping, mapping, instruction and task", OF_FILES).of(Stream::Faults),
    view("maps", "Mapping actions: mmap, munmap, mremap, brk, madvise, mprotect and others", OF_FILES).of(Stream::Maps),
    view("dax", "Faults on DAX files: slots mapped as a whole, and slots mapped page by page", OF_FILES)
        .of(Stream::Dax),
    view("syscalls", "System calls, added up or one by one", &["pid", "comm", "file", "top", "sort", "by", "name"])
        .of(Stream::Syscalls),
    view("io", "Reads and writes of files: how many, how large, in which order", OF_FILES).of(Stream::Syscalls),
    view("budget", "Where the time went: on a CPU and for what, ready without one, waiting and for what", OF_TASKS),
    view("sched", "Tasks running, ready or waiting, and what they waited for", OF_TASKS).of(Stream::Sched),
    view(
        "profile",
        "CPU time by function, module, name and CPU",
        &["pid", "comm", "file", "top", "sort", "callers", "callees", "group"],
    )
    .of(Stream::Cpu),
    view("counters", "Events of processor and kernel, and the quotients made of them", &["words"]),
    view(
        "metrics",
        "Metrics with their first and last value, and their number in the measured time",
        &["words", "top", "sort"],
    ),
    view("settings", "Settings of host and target at the start and at the end", &["words", "top"]),
    view("latency", "Latency of a load's operations by job, direction and kind", &[]),
    view("block", "Requests of the host's disks by device and operation", OF_TASKS).of(Stream::Block),
    view("regions", "Page sizes that memory really had, and why not those asked for", OF_FILES),
    view("loss", "Events that each stream saw, lost and filtered, second by second", &["top", "sort"]),
];

impl ViewDef {
    /// The view of this name.
    ///
    /// # Errors
    /// There is none; the message lists those that there are.
    pub fn named(name: &str) -> Result<&'static Self> {
        VIEWS.iter().find(|view| view.name == name).ok_or_else(|| {
            let near = hint_for(name, VIEWS.iter().map(|view| view.name));
            let list: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
            ViewError::Asked(format!("no view {name:?}{near}; views: {}", list.join(", ")))
        })
    }

    /// Refuses an option that the view does not have: rows would be shown that were asked to be left out.
    fn check(&self, selection: &Selection) -> Result<()> {
        let given = [
            ("pid", selection.pid.is_some()),
            ("comm", selection.comm.is_some()),
            ("file", selection.file.is_some()),
            ("words", !selection.words.is_empty()),
            ("top", selection.top.is_some()),
            ("sort", selection.sort.is_some()),
            ("callers", selection.callers.is_some()),
            ("callees", selection.callees.is_some()),
            ("group", !selection.groups.is_empty()),
            ("by", selection.by.is_some()),
            ("name", !selection.names.is_empty()),
        ];
        let Some((wrong, _)) = given.iter().find(|(name, is_given)| *is_given && !self.takes.contains(name)) else {
            return Ok(());
        };
        let takes = if self.takes.is_empty() { "a begin and an end only".to_owned() } else { self.takes.join(" ") };
        Err(ViewError::Asked(format!("view {} does not take {wrong}; it takes: {takes}", self.name)))
    }
}

/// The document of the view called `view`, as `show --json` prints it.
///
/// # Errors
/// There is no such view, it does not have an option of the selection, or the recording cannot be read.
pub fn document(view: &str, recording: &Recording, selection: &Selection) -> Result<Value> {
    let view = ViewDef::named(view)?;
    view.check(selection)?;
    match view.name {
        "summary" => summary::collect(recording, selection)?.document(),
        "tasks" => tasks::collect(recording, selection)?.document(),
        "faults" => faults::collect(recording, selection)?.document(),
        "maps" => maps::collect(recording, selection)?.document(),
        "dax" => dax::collect(recording, selection)?.document(),
        "syscalls" => syscalls::collect(recording, selection)?.document(),
        "io" => io::collect(recording, selection)?.document(),
        "budget" => budget::collect(recording, selection)?.document(),
        "sched" => sched::collect(recording, selection)?.document(),
        "profile" => profile::collect(recording, selection)?.document(),
        "counters" => counters::collect(recording, selection)?.document(),
        "metrics" => metrics::collect(recording, selection)?.document(),
        "settings" => settings::collect(recording, selection)?.document(),
        "latency" => latency::collect(recording, selection)?.document(),
        "block" => block::collect(recording, selection)?.document(),
        "regions" => regions::collect(recording, selection)?.document(),
        "loss" => loss::collect(recording, selection)?.document(),
        name => Err(ViewError::Asked(format!("the view {name} has no document"))),
    }
}
