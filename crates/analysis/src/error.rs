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
    /// Something panicked over recordings of which each can be read.
    #[error("pagelab gave up on this comparison, which is a defect of pagelab: {reason}")]
    GaveUp {
        /// The panic's words.
        reason: String,
    },
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
    /// Too few points for a history.
    #[error(
        "trend: found {found}; needed several, in their order: each DIR is one point, as in: pagelab trend nights/*; to compare two: pagelab compare DIR DIR"
    )]
    TooFewPoints {
        /// How many there are, in words.
        found: String,
    },
    /// A point of a history has runs of several variants.
    #[error(
        "trend: {dir} has runs of {count} variants: {names}; needed one: --variant {first}",
        dir = dir.display(), count = variants.len(), names = variants.join(", "), first = variants.first().map_or("", String::as_str)
    )]
    SeveralVariants {
        /// The point.
        dir: PathBuf,
        /// Their names.
        variants: Vec<String>,
    },
    /// No point of a history has runs of the variant asked for.
    #[error("trend: no point has a run of variant {wanted}; found {}; name one of these with --variant", if found.is_empty() { "runs of no variant".to_owned() } else { found.join(", ") })]
    NoSuchVariant {
        /// The name asked for.
        wanted: String,
        /// The variants that there are.
        found: Vec<String>,
    },
    /// Two points of a history hold the same recording.
    #[error("trend: the recording {recording} belongs to two points, {first} and {second}; a run is of one point: leave one of them out", recording = recording.display(), first = first.display(), second = second.display())]
    TwoPoints {
        /// The recording.
        recording: PathBuf,
        /// One point.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A point of a history cannot be put in order.
    #[error("trend: when {dir} was recorded is not known (clock.realtime_at_start_ns of its manifests is null); to take the points as they are given: --order given", dir = dir.display())]
    NoTime {
        /// The point.
        dir: PathBuf,
    },
    /// Runs of a history measured the metric in different units.
    #[error("trend: {metric} is in {unit} in {dir} and in {other_unit} in {other}; needed one unit: leave out the points of the other", dir = dir.display(), other = other.display())]
    MixedUnits {
        /// The metric.
        metric: String,
        /// One unit.
        unit: &'static str,
        /// A recording that has it.
        dir: PathBuf,
        /// Another unit.
        other_unit: &'static str,
        /// A recording that has that.
        other: PathBuf,
    },
    /// No metric was named, and the runs of a history have no default one in common.
    #[error(
        "trend: no metric that all {runs} runs have of load.iops and run.elapsed_ns, and no value of their own; name one: --metric NAME; the names are listed by: pagelab show DIR metrics"
    )]
    NoPrimary {
        /// Runs that count.
        runs: usize,
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
