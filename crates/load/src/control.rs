//! What the caller decides about a run, apart from the job.

use std::os::fd::RawFd;
use std::path::PathBuf;

use crate::safety;

/// How to run a workload. Nothing here can be set from a job file.
#[derive(Debug, Clone)]
pub struct Control {
    /// Targets that jobs may write although pagelab did not create them, each named by the user.
    pub allow_write: Vec<PathBuf>,
    /// Refuse every job that would change anything on disk.
    pub readonly: bool,
    /// Read one byte from this descriptor before doing anything that a recording should see.
    pub go_fd: Option<RawFd>,
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
            go_fd: None,
            handle_signals: false,
            die_with_parent: false,
            state_dir: safety::default_state_dir(),
        }
    }
}
