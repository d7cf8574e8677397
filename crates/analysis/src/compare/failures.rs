//! Runs that did not get through: they are no value of a metric, and still an answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Verdict;
use crate::stats::fisher_exact;
use pagelab_views::run::{Exclusion, RunData};

/// How often the runs of either side failed, and whether that differs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Failures {
    /// The base's runs.
    pub base: FailedRuns,
    /// The test side's runs.
    pub test: FailedRuns,
    /// Two-sided p of Fisher's exact test of the shares; null if a side has no runs.
    pub p: Option<f64>,
    /// `worse` if the test side fails more often, at the level of the comparison; `not_tested` without failures.
    pub verdict: Verdict,
}

impl Default for Failures {
    fn default() -> Self {
        Self { base: FailedRuns::default(), test: FailedRuns::default(), p: None, verdict: Verdict::NotTested }
    }
}

/// The runs of one side that the workload itself ended badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, Deserialize)]
pub struct FailedRuns {
    /// Runs that got through or failed. Those that the user, the recorder or the host ended are not among them.
    pub runs: usize,
    /// Of those, the ones that ended by a signal or with a status other than 0.
    pub failed: usize,
    /// Of those, the ones that the timeout ended.
    pub timed_out: usize,
}

impl FailedRuns {
    fn of(runs: &[&RunData]) -> Self {
        let mut out = Self::default();
        for run in runs {
            match &run.excluded {
                None => {}
                Some(Exclusion::Failed { .. }) => out.failed += 1,
                Some(Exclusion::CutShort { by }) if by == TIMED_OUT => out.timed_out += 1,
                Some(_) => continue,
            }
            out.runs += 1;
        }
        out
    }

    /// Failed and timed out together.
    pub const fn bad(&self) -> usize {
        self.failed + self.timed_out
    }
}

/// What [`Exclusion::CutShort`] says of the timeout.
pub(super) const TIMED_OUT: &str = "timed_out";

impl Failures {
    pub(super) fn of(base: &[&RunData], test: &[&RunData], alpha: f64) -> Self {
        let (base, test) = (FailedRuns::of(base), FailedRuns::of(test));
        let p = fisher_exact((base.bad(), base.runs), (test.bad(), test.runs)).ok();
        // Shares compared without division.
        let (of_base, of_test) = (base.bad() * test.runs, test.bad() * base.runs);
        let verdict = match p {
            Some(p) if p <= alpha && of_test > of_base => Verdict::Worse,
            Some(p) if p <= alpha && of_test < of_base => Verdict::Better,
            Some(_) if base.bad() + test.bad() > 0 => Verdict::NoDifference,
            _ => Verdict::NotTested,
        };
        Self { base, test, p, verdict }
    }

    /// Runs of the base and of the test side that the timeout ended.
    pub(super) const fn timed_out(&self) -> [usize; 2] {
        [self.base.timed_out, self.test.timed_out]
    }

    /// The shares in a sentence; `None` if nothing failed.
    pub(super) fn note(&self) -> Option<String> {
        if self.base.bad() + self.test.bad() == 0 {
            return None;
        }
        let p = self.p.map_or_else(String::new, |p| format!(" (Fisher's exact test: p = {p:.2e})"));
        let side = |runs: &FailedRuns| format!("{} of {}", runs.bad(), runs.runs);
        Some(format!("{} base runs and {} test runs failed or timed out{p}", side(&self.base), side(&self.test)))
    }
}
