//! What can be wrong with a recipe or stop it.

use std::path::PathBuf;

use pagelab_experiment::{ExperimentError, Place, PlanError};

/// Why an experiment could not be reproduced at all.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// reproduce.toml or a plan that it names is wrong.
    #[error(transparent)]
    Recipe(#[from] PlanError),
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A place to write to is not safe.
    #[error(transparent)]
    Output(pagelab_output::Error),
    /// There is no reproduce.toml.
    #[error(
        "{}: found no reproduce.toml; needed: the folder of an experiment that has one, such as experiments/thp-regression", dir.display()
    )]
    NoRecipe {
        /// The folder.
        dir: PathBuf,
    },
    /// Nothing was measured yet.
    #[error("{}: found no measured.toml; needed: figures to check; type: pagelab reproduce {}", dir.display(), dir.display())]
    NothingWritten {
        /// The folder.
        dir: PathBuf,
    },
    /// A file that pagelab wrote cannot be understood.
    #[error("{}: {reason}; needed: the file as pagelab writes it; remove it, then: pagelab reproduce {}", path.display(), dir.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The experiment's folder.
        dir: PathBuf,
        /// What the parser says.
        reason: String,
    },
    /// README.in.md names something that is not there.
    #[error("{at}: {found}; needed: {needed}")]
    Placeholder {
        /// The line.
        at: Place,
        /// The value found.
        found: String,
        /// The values allowed.
        needed: String,
    },
}

impl From<pagelab_output::Error> for ReproduceError {
    fn from(error: pagelab_output::Error) -> Self {
        match error {
            pagelab_output::Error::Io { action, path, source } => Self::Io { action, path, source },
            refused => Self::Output(refused),
        }
    }
}

impl ReproduceError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Exit status by the table of the command line: 2 the input is wrong, 3 the host cannot do it.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Recipe(error) => error.exit_status(),
            Self::Io { source, .. } if pagelab_recording::is_hosts_fault(source) => 3,
            _ => 2,
        }
    }
}

/// Why a plan could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What was found, what is needed, what to type.
    pub reason: String,
    /// Exit status that says whose fault it is: 2 or 3.
    pub status: u8,
}

/// A step that came to nothing; the others are made all the same, and figures that need it are not measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFailure {
    /// The step.
    pub name: String,
    /// Why.
    pub reason: String,
    /// Exit status that says whose fault it is: 1, 2 or 3.
    pub status: u8,
}

impl StepFailure {
    pub(crate) fn of(name: &str, error: &ExperimentError) -> Self {
        let advice = match error {
            ExperimentError::PlanChanged { .. } => "; here: pagelab reproduce ... --again",
            _ => "",
        };
        Self { name: name.to_owned(), reason: format!("{error}{advice}"), status: error.exit_status() }
    }

    pub(crate) fn refused(name: &str, refused: Refused) -> Self {
        Self { name: name.to_owned(), reason: refused.reason, status: refused.status }
    }
}
