//! What is asked for.

use std::path::PathBuf;
use std::time::Duration;

use pagelab_session::Target;

/// How a second is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// A picture in the terminal.
    Screen,
    /// A line of text.
    Lines,
    /// A JSON document on a line of its own.
    Json,
}

/// What is watched, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is watched.
    pub target: Target,
    /// Keep the recording here.
    pub out: Option<PathBuf>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Measure the run time of the BPF programs, which makes them slower.
    pub bpf_stats: bool,
    /// How it is shown.
    pub how: How,
    /// No colours (`NO_COLOR`).
    pub plain: bool,
}

impl Options {
    /// The target in a few words.
    pub(crate) fn target_words(&self) -> String {
        match &self.target {
            Target::Command(argv) => {
                argv.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
            }
            Target::Job(_) => "a job".to_owned(),
            Target::Processes(pids) => {
                let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
                format!("process {}", pids.join(", "))
            }
            Target::Cgroup(path) => format!("cgroup {}", path.display()),
            Target::System => "the whole system".to_owned(),
        }
    }
}
