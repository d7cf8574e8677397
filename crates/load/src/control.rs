//! What the caller decides about a run, apart from the job.

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::output::Layouts;
use crate::safety;

/// When to show the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// Not at all.
    #[default]
    Never,
    /// Where standard error is a terminal.
    Auto,
    /// Also elsewhere, a line a second.
    Always,
}

impl Status {
    /// Each with its word, which is fio's for `--eta`.
    pub const WORDS: [(&'static str, Self); 3] =
        [("never", Self::Never), ("auto", Self::Auto), ("always", Self::Always)];

    /// By its word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(own, _)| *own == word).map(|(_, status)| *status)
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, status)| *status == self).map_or("never", |(word, _)| word)
    }
}

/// How to run a workload. Nothing here can be set from a job file.
#[derive(Debug, Clone)]
pub struct Control {
    /// Files and devices that jobs may write although pagelab did not create them, each named by the user; of files also folders and
    /// patterns (see [`safety`]).
    pub allow_write: Vec<PathBuf>,
    /// Refuse every job that would change anything on disk.
    pub readonly: bool,
    /// Read one byte from this descriptor before doing anything that a recording should see.
    pub go_fd: Option<RawFd>,
    /// Whether to tell on standard error how far the run is.
    pub status: Status,
    /// Write the bandwidth of all workers together to logs in the working directory.
    pub bandwidth_log: bool,
    /// How reports of what was measured so far are printed.
    pub layouts: Layouts,
    /// The time between two of them. Without it only SIGUSR1 asks for one.
    pub status_interval: Option<Duration>,
    /// The file that they are added to; `None` for standard output.
    pub so_far_to: Option<PathBuf>,
    /// Let SIGINT and SIGTERM end the work early, with a report; a second one ends the process.
    pub handle_signals: bool,
    /// Kill workers when the process that started this one ends.
    pub die_with_parent: bool,
    /// Where files made on file systems without attributes are remembered.
    pub state_dir: PathBuf,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            allow_write: Vec::new(),
            readonly: false,
            status: Status::default(),
            go_fd: None,
            bandwidth_log: false,
            layouts: Layouts::default(),
            status_interval: None,
            so_far_to: None,
            handle_signals: false,
            die_with_parent: false,
            state_dir: safety::default_state_dir(),
        }
    }
}
