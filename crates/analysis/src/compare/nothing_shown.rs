//! What a comparison says beside its verdict: how large a difference the data exclude, and how many runs would find one
//! of a size that people ask for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Verdict;
use super::caveats::POWER;
use crate::stats::{
    MOST_MARGIN, MOST_RUNS, Method, RunSpread, TestResult, critical_value, equivalence_margin_pct, runs_needed,
};

/// Sizes of a change for which runs are counted, in per cent.
const CHANGES_PCT: [f64; 3] = [2.0, 5.0, 10.0];

/// What the primary metric's runs exclude, and what more of them would show.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema, Deserialize)]
pub struct NothingShown {
    /// The sides are equivalent within this, in per cent: the smallest margin x, rounded up, such that the 90 %
    /// interval of the ratio lies within 1 - x to 1 + x (two one-sided tests at 5 %, see
    /// [`crate::stats::equivalence_margin_pct`]). Null unless the verdict is `no_difference`, and above 50 %.
    #[serde(default)]
    pub equivalent_within_pct: Option<f64>,
    /// Why there is no margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equivalent_note: Option<String>,
    /// Runs of each side (in blocks: rounds) that find a change of 2, 5 and 10 % in four of five cases, if they spread
    /// as these do, see [`crate::stats::runs_needed`]; empty where no t test was made.
    #[serde(default)]
    pub runs_needed: Vec<RunsNeeded>,
    /// Why numbers of runs are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_needed_note: Option<String>,
}

/// The number of runs for a size of change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RunsNeeded {
    /// Change, in per cent of the base.
    pub change_pct: f64,
    /// Runs of each side; null above 100,000.
    pub runs: Option<u64>,
}

impl NothingShown {
    /// From a settled test. `lossy`: lost events forbid a conclusion.
    pub(super) fn of(result: &TestResult, verdict: Verdict, lossy: bool, alpha: f64) -> Self {
        let margin = margin(result, verdict, lossy);
        let runs = spread(result).and_then(|spread| needed(spread, alpha));
        let (runs_needed, mut runs_needed_note) = match runs {
            Ok(runs) => (runs, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        if runs_needed.iter().any(|one| one.runs.is_none()) {
            runs_needed_note = Some(format!("more than {MOST_RUNS} runs of each side are not proposed"));
        }
        Self {
            equivalent_within_pct: margin.as_ref().ok().copied(),
            equivalent_note: margin.err(),
            runs_needed,
            runs_needed_note,
        }
    }
}

fn margin(result: &TestResult, verdict: Verdict, lossy: bool) -> Result<f64, String> {
    if verdict != Verdict::NoDifference {
        return Err("the verdict is not that no difference was shown".to_owned());
    }
    if lossy {
        return Err("lost events forbid a conclusion".to_owned());
    }
    let Some([low, high]) = result.ratio_ci90 else {
        return Err("there is no 90 % interval of the ratio".to_owned());
    };
    equivalence_margin_pct([low, high]).ok_or_else(|| {
        let most = 100.0 * MOST_MARGIN;
        format!("the 90 % interval of the ratio, {low:.2} to {high:.2}, reaches farther than {most} % from 1")
    })
}

/// The spread of the runs by the test that was made.
fn spread(result: &TestResult) -> Result<RunSpread, String> {
    let known = match result.method {
        Some(Method::PairedBlocks) => rounds(result, 1.0),
        Some(Method::WelchUnpaired) => unpaired(result),
        // What is left of the spread at equal speed: more runs are compared so, too.
        Some(Method::PairedBlocksAdjusted) => rounds(result, 2.0),
        Some(Method::UnpairedAdjusted) => unpaired_adjusted(result),
        _ => return Err("no t test was made".to_owned()),
    };
    known.ok_or_else(|| "the spread of the runs over their mean is not known".to_owned())
}

/// Standard error of the log ratio: half of its interval over the critical value.
fn log_error(result: &TestResult) -> Option<f64> {
    let [low, high] = result.ratio_ci95?;
    Some((high / low).ln() / 2.0 / critical_value(result.df?, 0.95).ok()?)
}

/// The standard deviation of a round's log ratio; `taken` degrees of freedom are not the rounds' any more.
fn rounds(result: &TestResult, taken: f64) -> Option<RunSpread> {
    let sd = log_error(result)? * (result.df? + taken).sqrt();
    (sd.is_finite() && sd > 0.0).then_some(RunSpread::Rounds { sd })
}

fn unpaired_adjusted(result: &TestResult) -> Option<RunSpread> {
    let sd = log_error(result)? / (1.0 / result.base.n as f64 + 1.0 / result.test.n as f64).sqrt();
    (sd.is_finite() && sd > 0.0).then_some(RunSpread::Unpaired { base: sd, test: sd })
}

fn unpaired(result: &TestResult) -> Option<RunSpread> {
    let mean = result.base.mean?.abs();
    let (base, test) = (result.base.sd? / mean, result.test.sd? / mean);
    (base.is_finite() && test.is_finite() && base.max(test) > 0.0).then_some(RunSpread::Unpaired { base, test })
}

fn needed(spread: RunSpread, alpha: f64) -> Result<Vec<RunsNeeded>, String> {
    CHANGES_PCT
        .iter()
        .map(|change_pct| {
            let runs = runs_needed(change_pct / 100.0, spread, alpha, POWER).map_err(|why| why.to_string())?;
            Ok(RunsNeeded { change_pct: *change_pct, runs })
        })
        .collect()
}
