//! Which settings differ between two sets of runs, and which of them affect the metrics that changed.

mod collect;
mod kernels;
mod make;
mod parts;
mod topics;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use make::settings_diff;
pub use parts::PartDiff;
pub use topics::symptoms;

/// One setting that has one value in all runs of the base and another one in all runs of the test side.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SettingDiff {
    /// The setting; of a build-time or boot-time key and its run-time twin, the run-time one.
    pub key: String,
    /// Value in the base; null if it is not there.
    pub base: Option<String>,
    /// Value on the test side; null if it is not there.
    pub test: Option<String>,
    /// How likely it explains what changed, from 0 to 1, by topic and impact. A rank, not a probability.
    pub relevance: f64,
    /// The run-time key that this one decides at build or boot, if that one is not in the list itself.
    pub equivalent_of: Option<String>,
    /// The topics it affects, most direct first.
    pub topics: Vec<String>,
    /// Other keys that show the same decision and differ too; they have no entry of their own.
    pub also: Vec<String>,
    /// The kernel computes it from this other key, which differs too.
    pub derived_from: Option<String>,
    /// The kernel rewrites it when this other key, which differs too, is written.
    #[serde(default)]
    pub companion_of: Option<String>,
    /// A reading of the present state rather than a decision: evidence, but no cause.
    pub state: bool,
    /// Notes a reader must know.
    pub note: Option<String>,
    /// Of a list, such as the options of a mount or the arguments of the command: the members that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartDiff>,
}

impl SettingDiff {
    /// The difference it follows from, in words, if it is no decision of its own. Code that says that nothing else
    /// differs, and code that lists differences, asks here.
    pub fn follows_from(&self) -> Option<&str> {
        let source = self.companion_of.as_deref().or(self.derived_from.as_deref());
        source.or(if self.state { Some("the state of the host") } else { None })
    }
}

/// A setting that had several values among the runs of one side: no cause can be read off it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct VaryingSetting {
    /// The setting.
    pub key: String,
    /// Values in the base's runs, each once; null: not there.
    pub base: Vec<Option<String>>,
    /// Values in the test side's runs, each once.
    pub test: Vec<Option<String>>,
    /// The topics it affects, most direct first.
    pub topics: Vec<String>,
}

/// A setting that differs because the kernels do, and bears little on speed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct FollowingSetting {
    /// The setting.
    pub key: String,
    /// Value in the base; null if it is not there.
    pub base: Option<String>,
    /// Value on the test side; null if it is not there.
    pub test: Option<String>,
    /// The difference it follows from, which has an entry of its own.
    pub follows: String,
}

/// The difference between two sets of runs in their settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SettingsDiff {
    /// Settings constant within either side and different between them, most relevant first.
    pub differing: Vec<SettingDiff>,
    /// Settings that differ because another one does, and bear little on speed.
    pub following: Vec<FollowingSetting>,
    /// Settings that varied within a side.
    pub varying: Vec<VaryingSetting>,
}
