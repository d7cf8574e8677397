//! What can go wrong in analysis, each with the value found, the value needed and what to do.

use std::path::PathBuf;

use pagelab_views::ViewError;

/// Result of this crate.
pub type Result<T, E = AnalysisError> = std::result::Result<T, E>;

/// Error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// A recording cannot be read, or a question about it cannot be answered.
    #[error(transparent)]
    View(#[from] ViewError),
    /// A side of a comparison has no recordings.
    #[error(
        "no recordings were given for the {side} side; at least 2 are needed: pagelab compare --base DIR... --test DIR..."
    )]
    NoRuns {
        /// `base` or `test`.
        side: &'static str,
    },
    /// The same recording stands on both sides.
    #[error("{dir} was given for both sides; a run belongs to one: take it out of --base or of --test", dir = dir.display())]
    BothSides {
        /// The recording.
        dir: PathBuf,
    },
    /// A metric that no run has and that is in no registry.
    #[error("no run has a metric {name}{}; the names are listed by: pagelab show DIR metrics", nearest.as_ref().map_or_else(String::new, |n| format!("; {n} is near")))]
    UnknownMetric {
        /// The name asked for.
        name: String,
        /// The nearest one that there is.
        nearest: Option<String>,
    },
    /// A level outside its range.
    #[error("alpha is {alpha}; a number between 0 and 1 is needed, such as 0.05")]
    BadAlpha {
        /// The level given.
        alpha: f64,
    },
    /// A direction that is no word for one.
    #[error("direction of the primary metric is {direction:?}; \"higher\" or \"lower\" is needed: which way is better")]
    BadDirection {
        /// The word given.
        direction: String,
    },
}

impl From<pagelab_recording::Error> for AnalysisError {
    fn from(error: pagelab_recording::Error) -> Self {
        Self::View(error.into())
    }
}
