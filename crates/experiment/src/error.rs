//! Errors in a plan, and errors that stop an experiment. Every message says what was found, what is needed and, where
//! typing something helps, what to type.

use std::path::PathBuf;

use pagelab_fiojob::JobError;
use pagelab_host::settings::SettingError;
use pagelab_vocab::nearest::hint;
use pagelab_vocab::settings::setting;
use pagelab_vocab::terminal::shell_path;

use crate::document::Place;

/// The plan is wrong as written, or does not fit this host.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The plan cannot be read.
    #[error("{}: cannot read the plan: {reason}", path.display())]
    Unreadable {
        /// The plan.
        path: PathBuf,
        /// The kernel's error.
        reason: String,
    },
    /// The plan is not TOML.
    #[error("{at}: not valid TOML: {message}")]
    Syntax {
        /// Where reading stopped.
        at: Place,
        /// The parser's error.
        message: String,
    },
    /// A key that plans do not have.
    #[error("{at}: unknown key `{key}`{}; known here: {known}", hint(nearest.as_deref()))]
    UnknownKey {
        /// Where it stands.
        at: Place,
        /// The key.
        key: String,
        /// The key probably meant.
        nearest: Option<String>,
        /// Keys that may stand there.
        known: String,
    },
    /// A value that the key does not take.
    #[error("{at}: {key}: found {found}; needed: {needed}")]
    Value {
        /// Where it stands.
        at: Place,
        /// The key.
        key: String,
        /// The value.
        found: String,
        /// The values accepted.
        needed: String,
    },
    /// Something that must be there is not.
    #[error("{at}: {what} is missing; needed: {needed}")]
    Missing {
        /// The plan, or the table in it.
        at: Place,
        /// The missing item.
        what: String,
        /// What to write.
        needed: String,
    },
    /// A job file that is not there.
    #[error("{at}: job file {}: {reason}; needed: a job file there, since paths are relative to the plan; see: pagelab run --help", path.display())]
    NoJob {
        /// Where the plan names it.
        at: Place,
        /// The file, absolute.
        path: PathBuf,
        /// The kernel's error.
        reason: String,
    },
    /// A job file that is wrong.
    #[error("{at}: {error}")]
    Job {
        /// Where the plan names it.
        at: Place,
        /// The mistake in it.
        error: JobError,
    },
    /// A setting that is unknown, cannot be set, or does not take the value.
    #[error("{at}: {error}")]
    Setting {
        /// Where it stands.
        at: Place,
        /// The mistake in it.
        error: SettingError,
    },
    /// Something that this host lacks.
    #[error("{at}: {what}: found {found}; needed: {needed}")]
    Host {
        /// Which line of the plan needs it.
        at: Place,
        /// What is lacking.
        what: String,
        /// What there is.
        found: String,
        /// What is needed and how to get it.
        needed: String,
    },
}

impl PlanError {
    /// Exit status by the table of the command line: 2 the input is wrong, 3 the host cannot do it.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Host { .. } => 3,
            Self::Setting { error, .. } => setting_exit_status(error),
            _ => 2,
        }
    }
}

/// A key that the registry declares and this kernel lacks is the host's fault; one that only a catch-all covers, or a
/// device that is not there, is taken for a slip of the pen.
fn setting_exit_status(error: &SettingError) -> u8 {
    match error {
        SettingError::Unreadable { .. } => 3,
        SettingError::Unknown { key, .. } => match setting(key) {
            Some(info) if !info.def.catch_all && !key.starts_with("block.") => 3,
            _ => 2,
        },
        _ => 2,
    }
}

/// Why an experiment did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The set's directory is there already.
    #[error("{}: found {found}; needed: a directory that does not exist yet; {advice}", dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
        /// Its contents.
        found: String,
        /// What to type.
        advice: String,
    },
    /// There is no set to go on with.
    #[error("{}: found no set.json; needed: the directory of a set that was started before; to start one: pagelab experiment PLAN.toml -o {}", dir.display(), shell_path(dir))]
    NoSet {
        /// The directory.
        dir: PathBuf,
    },
    /// The plan is not the one that the set was started with.
    #[error("{}: the plan has changed since the set was started: {what}: found {found}, the set has {in_set}; needed: the same plan; take the change back, or start a new set with -o DIR", dir.display())]
    PlanChanged {
        /// The set.
        dir: PathBuf,
        /// What differs.
        what: String,
        /// Its value in the plan.
        found: String,
        /// Its value in the set.
        in_set: String,
    },
    /// Another process works on the set.
    #[error("{}: another pagelab is working on this set; needed: one at a time; wait for it, or use another directory with -o DIR", dir.display())]
    Busy {
        /// The set.
        dir: PathBuf,
    },
    /// Writing the set failed.
    #[error(transparent)]
    Set(#[from] pagelab_recording::Error),
    /// A file or directory of the set cannot be made or moved.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// A place to write to is not safe.
    #[error(transparent)]
    Output(pagelab_output::Error),
    /// The host cannot do what every run needs.
    #[error("{reason}")]
    Host {
        /// What was found, what is needed, what to type.
        reason: String,
    },
    /// The plan asks for something impossible on any host.
    #[error("{reason}")]
    Input {
        /// What was found, what is needed, what to type.
        reason: String,
    },
    /// The user ended it before the first run.
    #[error("ended by the user before the first run; nothing was measured")]
    Interrupted,
    /// Not one run of the first round succeeded.
    #[error("all {runs} runs of round {round} failed, so the rest was not tried; the first: {first}; fix it and rerun")]
    NothingRuns {
        /// The round.
        round: u64,
        /// Runs in it.
        runs: usize,
        /// Why the first failed.
        first: String,
        /// Whether the host is at fault, not the plan.
        host: bool,
    },
    /// A variant has too few good runs to compare.
    #[error("variant {variant}: found {done} good runs of {planned}; needed: at least 2 to compare; the failures are in {}", set.display())]
    TooFewRuns {
        /// The variant.
        variant: String,
        /// Good runs.
        done: usize,
        /// Runs planned.
        planned: usize,
        /// `set.json`.
        set: PathBuf,
        /// Whether the host is at fault, not the plan.
        host: bool,
    },
    /// The comparison failed.
    #[error(transparent)]
    Analysis(#[from] pagelab_analysis::AnalysisError),
}

impl From<pagelab_output::Error> for ExperimentError {
    fn from(error: pagelab_output::Error) -> Self {
        match error {
            pagelab_output::Error::Io { action, path, source } => Self::Io { action, path, source },
            refused => Self::Output(refused),
        }
    }
}

impl ExperimentError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Exit status by the table of the command line: 2 the input is wrong, 3 the host cannot do it.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Plan(error) => error.exit_status(),
            Self::Host { .. } => 3,
            Self::NothingRuns { host: true, .. } | Self::TooFewRuns { host: true, .. } => 3,
            Self::Set(error) if error.is_hosts_fault() => 3,
            Self::Io { source, .. } if pagelab_recording::is_hosts_fault(source) => 3,
            _ => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_full_disk_is_the_hosts_fault_and_a_wrong_path_the_inputs() {
        let io = |errno| ExperimentError::io("create directory", "/a/set")(io::Error::from_raw_os_error(errno));
        assert_eq!((io(libc::ENOSPC).exit_status(), io(libc::ENOTDIR).exit_status()), (3, 2));
        let full = || pagelab_recording::Error::Io {
            action: "write",
            path: "/a/set/set.json".into(),
            source: io::Error::from_raw_os_error(libc::ENOSPC),
        };
        assert_eq!(ExperimentError::Set(full()).exit_status(), 3);
        let taken = pagelab_recording::Error::OutputNotEmpty { dir: Path::new("/a/set").to_owned(), entries: 1 };
        assert_eq!(ExperimentError::Set(taken).exit_status(), 2);
    }
}
