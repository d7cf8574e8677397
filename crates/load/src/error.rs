//! Why a workload did not run.

use std::fmt::Write as _;
use std::path::PathBuf;

use pagelab_fiojob::JobError;

/// Why a workload did not run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The job itself is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
    /// Running it could destroy data that pagelab did not make.
    #[error("{}: refused: {reason}", path.display())]
    Refused {
        /// The file or device.
        path: PathBuf,
        /// The obstacle found there, and how to allow it.
        reason: String,
    },
    /// The same for several files, each with its reason; the user can allow all at once.
    #[error("{} files are refused:{}", .0.len(), listed(.0))]
    RefusedAll(Vec<(PathBuf, String)>),
    /// The job asks for something that this file, device or directory cannot give.
    #[error("job '{job}': {reason}")]
    Target {
        /// The job.
        job: String,
        /// Found, needed, command.
        reason: String,
    },
    /// The host lacks something: exit status 3 of the command line.
    #[error("{what}: found {found}, needed {needed}; {command}")]
    Host {
        /// The attempted action.
        what: String,
        /// The value found.
        found: String,
        /// The value needed.
        needed: String,
        /// The command to type.
        command: String,
    },
    /// A system call failed where it should not.
    #[error("{what}: {source}")]
    System {
        /// The attempted action.
        what: String,
        /// The operating system's words.
        source: std::io::Error,
    },
    /// A worker of the first wave could not get ready, so nothing was started.
    #[error("{message}")]
    NotReady {
        /// The worker's own words.
        message: String,
        /// The exit status its reason deserves.
        exit_status: u8,
    },
    /// A signal came before the work began.
    #[error("ended by signal {signal} before the work began")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The caller spoke the protocol of the hidden command wrongly.
    #[error("protocol of the load process: {0}")]
    Protocol(String),
}

/// Most refused files that are listed with their reasons.
const MAX_LISTED: usize = 20;

fn listed(refused: &[(PathBuf, String)]) -> String {
    let mut text = String::new();
    for (path, reason) in refused.iter().take(MAX_LISTED) {
        _ = write!(text, "\n  {}: {reason}", path.display());
    }
    if refused.len() > MAX_LISTED {
        _ = write!(text, "\n  and {} more", refused.len() - MAX_LISTED);
    }
    let allowable: Vec<&PathBuf> =
        refused.iter().filter(|(_, reason)| reason.contains("--allow-write")).map(|(path, _)| path).collect();
    if allowable.is_empty() {
        return text;
    }
    let all: Vec<String> =
        allowable.iter().take(MAX_LISTED).map(|path| format!("--allow-write {}", path.display())).collect();
    _ = write!(text, "\nall at once: {}", all.join(" "));
    text + "\n(--allow-write also takes a folder, for the files in it, or a pattern in quotes; devices have to be named themselves)"
}

impl LoadError {
    /// One error for all refusals; `None` if there is none.
    pub(crate) fn of_refusals(mut refused: Vec<(PathBuf, String)>) -> Option<Self> {
        match refused.len() {
            0 | 1 => refused.pop().map(|(path, reason)| Self::Refused { path, reason }),
            _ => Some(Self::RefusedAll(refused)),
        }
    }

    /// A failed system call, with the action it was part of.
    pub fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }

    /// Exit status by the table of the command line: 2 the input is wrong, 3 the host cannot do it.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Job(_) | Self::Refused { .. } | Self::RefusedAll(_) | Self::Target { .. } | Self::Protocol(_) => 2,
            Self::Host { .. } | Self::System { .. } => 3,
            Self::NotReady { exit_status, .. } => *exit_status,
            Self::Interrupted { signal } => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}
