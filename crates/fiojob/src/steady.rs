//! `steadystate`: when a job counts as steady.

use serde::{Deserialize, Serialize};

use crate::units::{self, ParseContext};
use crate::value::{OptionValue, word_and_argument};

/// What must hold for a job to be steady.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SteadyGoal {
    /// Operations per second are looked at, and not bytes per second.
    pub of_operations: bool,
    /// The slope of a straight line through the samples, and not the greatest distance from their mean.
    pub slope: bool,
    /// The limit is a share of the mean, percent.
    pub percent: bool,
    /// What slope or distance must be below.
    pub limit: f64,
}

impl SteadyGoal {
    /// The word of what is looked at.
    pub fn word(&self) -> &'static str {
        match (self.of_operations, self.slope) {
            (true, false) => "iops",
            (true, true) => "iops_slope",
            (false, false) => "bw",
            (false, true) => "bw_slope",
        }
    }

    /// `%` where the limit is a share.
    pub fn unit(&self) -> &'static str {
        if self.percent { "%" } else { "" }
    }
}

impl OptionValue for SteadyGoal {
    const KIND: &'static str = "word:limit[%]";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let (word, limit) = word_and_argument(text);
        let (of_operations, slope) = match word {
            "iops" => (true, false),
            "iops_slope" => (true, true),
            "bw" => (false, false),
            "bw_slope" => (false, true),
            _ => return Err(crate::value::not_one_of(word, &["iops", "iops_slope", "bw", "bw_slope"])),
        };
        let limit = limit.map(str::trim).filter(|limit| !limit.is_empty());
        let limit = limit.ok_or_else(|| format!("a limit is needed, as in {word}:0.3%"))?;
        let share = limit.strip_suffix('%').map(str::trim_end);
        let number = |text: &str| {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
            number.ok_or_else(|| format!("'{text}' is not a number from 0 up"))
        };
        let value = match share {
            Some(share) => number(share)?,
            None if of_operations => number(limit)?,
            None => units::size(limit, context)? as f64,
        };
        *self = Self { of_operations, slope, percent: share.is_some(), limit: value };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read_as_fio_reads_them() {
        let mut goal = SteadyGoal::default();
        for (text, expected) in [
            ("iops:10", (true, false, false, 10.0)),
            ("iops_slope:.1%", (true, true, true, 0.1)),
            ("bw:12k", (false, false, false, 12288.0)),
            ("bw_slope:0.3%", (false, true, true, 0.3)),
        ] {
            goal.assign(text, ParseContext::default()).expect(text);
            assert_eq!((goal.of_operations, goal.slope, goal.percent, goal.limit), expected, "{text}");
        }
        for (text, word) in [("iops", "a limit"), ("iop:1", "did you mean 'iops'"), ("iops:x%", "'x'"), ("bw:-1", "")] {
            assert!(goal.assign(text, ParseContext::default()).expect_err(text).contains(word), "{text}");
        }
    }
}
