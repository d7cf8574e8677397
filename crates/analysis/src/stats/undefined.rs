//! Why a statistic has no value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason a statistic is undefined for the data given.
///
/// Every function of this module that cannot answer says why with one of these; none returns NaN, an infinite
/// value or a stand-in such as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Undefined {
    /// There are no values at all.
    #[error("no values; at least 1 is needed")]
    Empty,
    /// There is one value where a spread is needed.
    #[error("1 value; a spread needs at least 2")]
    OneValue,
    /// There are fewer values than the statistic has a meaning for.
    #[error("too few values; at least {needed} are needed")]
    TooFew {
        /// The fewest values that do.
        needed: usize,
    },
    /// A value is NaN or infinite. Missing values must be left out by the caller, who knows why they are missing.
    #[error("a value is not a finite number")]
    NotFinite,
    /// A logarithm was needed of a value that is zero or negative.
    #[error("a value is zero or negative, so its logarithm does not exist")]
    NotPositive,
    /// All values are equal, so a test statistic would divide by zero.
    #[error("the values do not vary, so a test would divide by zero")]
    NoVariance,
    /// Two lists that must be of one length are not.
    #[error("the two sides differ in length where they must be paired")]
    Unpaired,
    /// A probability, level or share lies outside the range in which it has a meaning.
    #[error("a probability or level lies outside its range")]
    OutOfRange,
    /// Nothing says in which order the values were made.
    #[error("nothing says in which order the values were made")]
    NoOrder,
    /// The interval of a ratio's denominator holds 0, so the interval of the ratio is not bounded.
    #[error("the interval of the base holds 0, so the ratio is not bounded")]
    Unbounded,
}
