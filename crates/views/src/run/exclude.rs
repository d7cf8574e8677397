//! Why a run does not count. A reason is a fact of the recording that a machine can check again.

use std::fmt;
use std::path::Path;

use pagelab_recording::set::{RunState, SET_JSON, SetJson};
use pagelab_recording::{EndedBy, Manifest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a run does not count in a comparison. It stays in the data and is listed with this reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Exclusion {
    /// The recorded command or job failed: `exit` of the manifest.
    Failed {
        /// Exit code, if it ended by one.
        code: Option<i32>,
        /// Signal, if one ended it.
        signal: Option<i32>,
    },
    /// The run was ended before its work was done: `timed_out` or `interrupted` of the manifest.
    CutShort {
        /// `timed_out` or `interrupted`.
        by: String,
    },
    /// The recorder died before the end: `complete` of the manifest is false.
    Incomplete {
        /// `incomplete_reason` of the manifest.
        detail: Option<String>,
    },
    /// The set's document says that the run failed or was excluded.
    Set {
        /// What it says.
        detail: String,
    },
    /// A part of the recording cannot be read.
    Damaged {
        /// What is wrong, with file and offset.
        detail: String,
    },
    /// The measurement window is empty.
    NoWindow {
        /// Begin and end as they were found.
        detail: String,
    },
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { signal: Some(signal), .. } => write!(f, "ended by signal {signal}"),
            Self::Failed { code: Some(code), .. } => write!(f, "exit status {code}"),
            Self::Failed { .. } => f.write_str("failed"),
            Self::CutShort { by } => write!(f, "cut short: {by}"),
            Self::Incomplete { detail: Some(detail) } => write!(f, "incomplete: {detail}"),
            Self::Incomplete { detail: None } => f.write_str("incomplete: the recorder did not reach a clean end"),
            Self::Set { detail } => write!(f, "{SET_JSON}: {detail}"),
            Self::Damaged { detail } => write!(f, "damaged: {detail}"),
            Self::NoWindow { detail } => write!(f, "no measured time: {detail}"),
        }
    }
}

impl Exclusion {
    /// The reason that manifest or set give, if any. What ended the run comes before how
    /// the recording ended: it is what made the run useless, whatever the recorder did.
    pub(crate) fn of(dir: &Path, manifest: &Manifest) -> Option<Self> {
        for (by, happened) in [("timed_out", manifest.timed_out), ("interrupted", manifest.interrupted)] {
            if happened == Some(true) {
                return Some(Self::CutShort { by: by.to_owned() });
            }
        }
        // What recording outlived is judged by its end; a command that was only recorded for a while was not to end well.
        let for_a_while = manifest.ended_by.as_ref().is_some_and(EndedBy::leaves_target);
        if !for_a_while
            && let Some(exit) = &manifest.exit
            && (exit.signal.is_some() || exit.code.is_some_and(|code| code != 0))
        {
            return Some(Self::Failed { code: exit.code, signal: exit.signal });
        }
        if !manifest.complete {
            return Some(Self::Incomplete { detail: manifest.incomplete_reason.clone() });
        }
        planned_state(dir)
    }
}

/// What the document of the set that `dir` belongs to says about this run.
fn planned_state(dir: &Path) -> Option<Exclusion> {
    // SET/warmup/host=h/variant=v/run=n: at most four levels up.
    let set = dir.ancestors().skip(1).take(4).find(|d| d.join(SET_JSON).is_file())?;
    let document = SetJson::load(set).ok()?;
    let here = dir.strip_prefix(set).ok()?;
    match &document.order.iter().find(|run| run.dir == here)?.state {
        RunState::Failed { reason } => Some(Exclusion::Set { detail: format!("failed: {reason}") }),
        RunState::Excluded { reason } => Some(Exclusion::Set { detail: format!("excluded: {reason}") }),
        RunState::Planned | RunState::Running | RunState::Done => None,
    }
}
