//! What came out of a run.

use serde::Serialize;

use crate::case::{Case, Topic};
use crate::child::Answer;
use crate::outcome::Verdict;
use crate::pool::Step;

/// What came out of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseResult {
    /// Its name.
    pub name: &'static str,
    /// Its topic.
    pub topic: Topic,
    /// The claim it proves.
    pub proves: &'static str,
    /// The suite that verifies the same.
    pub like: &'static str,
    /// The verdict.
    #[serde(rename = "result")]
    pub verdict: Verdict,
    /// Why it is not pass; none for pass.
    pub reason: Option<String>,
    /// The value found, where a value was compared.
    pub found: Option<String>,
    /// The value expected.
    pub expected: Option<String>,
    /// The counters of the pool after each step of the case.
    pub steps: Vec<Step>,
    /// How long it took, the last time; 0 if it was not run.
    pub duration_ns: u64,
    /// How often it was tried: an inconclusive case is tried again.
    pub attempts: u32,
}

impl CaseResult {
    pub(crate) fn new(case: &'static Case, answer: Answer, duration_ns: u64) -> Self {
        let Answer { verdict, reason, found, expected, steps } = answer;
        let Case { name, topic, proves, like, .. } = *case;
        CaseResult { name, topic, proves, like, verdict, reason, found, expected, steps, duration_ns, attempts: 1 }
    }
}

/// What came out of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// The cases in the order in which they were run.
    pub cases: Vec<CaseResult>,
    /// Settings of the host that were not put back, with the reason; empty if all are.
    pub not_put_back: Vec<String>,
}

impl Report {
    /// How many cases came out like this.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict == verdict).count()
    }

    /// Whether any case failed: then the exit status is 1.
    pub fn failed(&self) -> bool {
        self.count(Verdict::Fail) > 0
    }
}
