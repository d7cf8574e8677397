//! What can be wrong with a job, and where it says so.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use pagelab_vocab::nearest::hint;

/// Where an option was written: a line of a job file, or an argument of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A line of a job file, counted from 1.
    Line {
        /// The job file (an included file names itself).
        file: String,
        /// Line number, from 1.
        line: u32,
    },
    /// An argument of the command line, counted from 1.
    Argument {
        /// Position among the arguments handed to the parser, from 1.
        index: u32,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Argument { index } => write!(f, "command line, argument {index}"),
        }
    }
}

/// The job is wrong as written: exit status 2 of the command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// Nobody knows this option.
    #[error("{origin}: unknown option '{name}'{}", hint(nearest.as_deref()))]
    UnknownOption {
        /// Where it stands.
        origin: Origin,
        /// What was written.
        name: String,
        /// The known option that looks most like it.
        nearest: Option<String>,
    },
    /// fio has this option, pagelab does not.
    #[error("{origin}: '{name}' is an option of fio that pagelab does not have: {reason}")]
    UnsupportedOption {
        /// Where it stands.
        origin: Origin,
        /// What was written.
        name: String,
        /// Why pagelab does not have it, and what to write instead where there is something.
        reason: String,
    },
    /// No such engine.
    #[error("{origin}: unknown ioengine '{name}'; pagelab has: {known}{}", hint(nearest.as_deref()))]
    UnknownEngine {
        /// Where it stands.
        origin: Origin,
        /// What was written.
        name: String,
        /// The engines there are.
        known: String,
        /// The engine that looks most like it.
        nearest: Option<String>,
    },
    /// fio has this engine, pagelab does not.
    #[error(
        "{origin}: ioengine '{name}' is an engine of fio that pagelab does not have: {reason}; pagelab has: {known}"
    )]
    UnsupportedEngine {
        /// Where it stands.
        origin: Origin,
        /// What was written.
        name: String,
        /// Why.
        reason: String,
        /// The engines there are.
        known: String,
    },
    /// The option is known, its value is not acceptable.
    #[error("{origin}: {name}={value}: {reason}")]
    BadValue {
        /// Where it stands.
        origin: Origin,
        /// The option.
        name: String,
        /// What was written.
        value: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// Two options contradict each other, or one lacks another.
    #[error("{origin}: job '{job}': {reason}")]
    Conflict {
        /// Where the option that tips it over stands.
        origin: Origin,
        /// The job.
        job: String,
        /// The contradiction.
        reason: String,
    },
    /// The file is not a job file.
    #[error("{origin}: {reason}")]
    Syntax {
        /// Where.
        origin: Origin,
        /// What is wrong.
        reason: String,
    },
    /// The job file cannot be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The job file.
        path: PathBuf,
        /// The operating system's words.
        reason: String,
    },
    /// Nothing to run.
    #[error(
        "{source_name}: no job: a job file needs at least one section besides [global], a command line at least one --name="
    )]
    NoJob {
        /// The file or "command line".
        source_name: String,
    },
    /// Several mistakes, each of which says where it is.
    #[error("{} mistakes:{}", .0.len(), listed(.0))]
    Several(Vec<JobError>),
}

/// Most mistakes that are listed: a file that is no job file has one in each line.
const MAX_LISTED: usize = 100;

fn listed(errors: &[JobError]) -> String {
    let mut lines: Vec<String> = errors.iter().take(MAX_LISTED).map(|error| format!("\n  {error}")).collect();
    if errors.len() > MAX_LISTED {
        lines.push(format!("\n  and {} more", errors.len() - MAX_LISTED));
    }
    lines.concat()
}

impl JobError {
    /// Whether two contradictions were written in the same place.
    pub fn same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Conflict { origin: a, .. }, Self::Conflict { origin: b, .. }) => a == b,
            _ => false,
        }
    }

    /// One error for all mistakes; `None` if there is none.
    pub fn all(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }
}
