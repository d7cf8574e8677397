//! Questions to a fleet, answered from its compacted tables: what `pagelab fleet` prints.
//!
//! | question | answer |
//! |---|---|
//! | what is in the fleet, and how much hosts and runs differ | [`summary`] |
//! | two values of a label: how fast, where the time goes, which settings differ | [`difference`] |
//! | hosts that are not like the others | [`outlying`] |
//! | settings that differ among hosts, and what goes with them | [`drifting`] |
//! | the fleet's level over days | [`over_days`] |
//!
//! Each reads the row groups that it needs, and says how many ([`Reading`]).

mod asked;
mod contrast;
mod difference;
mod others;
mod places;
mod summary;

pub use asked::{MetricAsked, Question, Reading};
pub use contrast::{SettingContrast, SideValues};
pub use difference::{
    Budget, CauseShown, ComponentDifference, Difference, DifferenceQuestion, MetricDifference, difference,
};
pub use others::{Course, Drifting, Outlying, drifting, outlying, over_days};
pub use summary::{LabelSummary, LabelValue, MetricSummary, Summary, summary};
