//! What was asked for beside the view.

use pagelab_views::selection::Selection;

use crate::failure::Failure;

/// An option that not every view takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// `--pid`
    Pid,
    /// `--comm`
    Comm,
    /// `--file`
    File,
    /// Words behind the view's name.
    Words,
    /// `--top`
    Top,
    /// `--sort`
    Sort,
    /// `--callers`, `--callees` and `--group`
    Functions,
    /// `--by`
    By,
    /// `--name`
    Name,
    /// `--log`
    Log,
}

impl Filter {
    /// The filters of views of tasks.
    pub const TASKS: [Self; 4] = [Self::Pid, Self::Comm, Self::Top, Self::Sort];
    /// The filters of views of tasks and files.
    pub const FILES: [Self; 5] = [Self::Pid, Self::Comm, Self::File, Self::Top, Self::Sort];
    /// The filters of the view of system calls.
    pub const CALLS: [Self; 8] =
        [Self::Pid, Self::Comm, Self::File, Self::Top, Self::Sort, Self::By, Self::Name, Self::Log];
}

/// What is shown and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The rows.
    pub selection: Selection,
    /// Each call on a line of its own.
    pub log: bool,
    /// A document is wanted and no text.
    pub json: bool,
}

impl Options {
    /// An option that the view does not take is refused: rows would be shown that were asked to be left out.
    pub fn check(&self, view: &str, taken: &[Filter]) -> Result<(), Failure> {
        let given = [
            (Filter::Pid, self.selection.pid.is_some(), "--pid"),
            (Filter::Comm, self.selection.comm.is_some(), "--comm"),
            (Filter::File, self.selection.file.is_some(), "--file"),
            (Filter::Words, !self.selection.words.is_empty(), "words"),
            (Filter::Top, self.selection.top.is_some(), "--top"),
            (Filter::Sort, self.selection.sort.is_some(), "--sort"),
            (Filter::Functions, self.selection.callers.is_some(), "--callers"),
            (Filter::Functions, self.selection.callees.is_some(), "--callees"),
            (Filter::Functions, !self.selection.groups.is_empty(), "--group"),
            (Filter::By, self.selection.by.is_some(), "--by"),
            (Filter::Name, !self.selection.names.is_empty(), "--name"),
            (Filter::Log, self.log, "--log"),
        ];
        let Some((_, _, wrong)) = given.iter().find(|(filter, given, _)| *given && !taken.contains(filter)) else {
            return Ok(());
        };
        let takes: Vec<&str> =
            given.iter().filter(|(filter, ..)| taken.contains(filter)).map(|(_, _, name)| *name).collect();
        let takes = if takes.is_empty() { "--json only".to_owned() } else { takes.join(" ") };
        Err(Failure::input(anyhow::anyhow!("view {view} does not take {wrong}; it takes: {takes}")))
    }
}
