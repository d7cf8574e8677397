//! How often each word of confidence was wrong where the truth was known.
//!
//! The cases are those of `tests/zoo` (`sized.py judge`, `claims.py`): losses that were planted in programs by a cause on the list, by
//! one that is on no list, or not at all, recorded with the default streams. A finding is wrong where its cause was not planted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Confidence;

/// The record of a word.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ErrorRate {
    /// The word.
    pub confidence: Confidence,
    /// Findings that were given it.
    pub findings: u32,
    /// Of those, the ones whose cause was not planted.
    pub wrong: u32,
    /// 95 % interval of the share, per cent (Wilson's).
    pub wrong_ci95_pct: [f64; 2],
    /// The cases, and where they were made.
    pub measured: String,
}

/// What was counted.
struct Counted {
    confidence: Confidence,
    findings: u32,
    wrong: u32,
    measured: &'static str,
}

/// Filled in from the summary that the zoo prints. Rules were frozen when these cases were judged, once, and have not changed since.
/// Who changes a rule judges new cases: what rules say of cases that they were repaired by is no measure of them.
static COUNTED: &[Counted] = &[
    Counted { confidence: Confidence::Mechanism, findings: 47, wrong: 0, measured: MEASURED },
    Counted { confidence: Confidence::Correlated, findings: 24, wrong: 8, measured: MEASURED },
    // 19 of 20 true claims; of 20 false ones none.
    Counted { confidence: Confidence::Confirmed, findings: 19, wrong: 0, measured: CLAIMS },
];

const CLAIMS: &str =
    "20 true and 20 false claims toggled for 120 s at most, 8 runs a side before, 2 CPUs, Linux 6.18, 2026-11-27";

const MEASURED: &str = "166 cases with programs that no rule was tuned on, 5 to 100 %, 8 to 30 runs a side, 2 CPUs, Linux 6.18, 2026-11-28";

/// The records of the words that have one.
pub fn error_rates() -> Vec<ErrorRate> {
    COUNTED
        .iter()
        .map(|counted| ErrorRate {
            confidence: counted.confidence,
            findings: counted.findings,
            wrong: counted.wrong,
            wrong_ci95_pct: wilson_pct(counted.wrong, counted.findings),
            measured: counted.measured.to_owned(),
        })
        .collect()
}

/// The record of one word.
pub fn error_rate(confidence: Confidence) -> Option<ErrorRate> {
    error_rates().into_iter().find(|rate| rate.confidence == confidence)
}

/// The score interval of a share, 95 %, per cent: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
/// Journal of the American Statistical Association 22, 1927.
fn wilson_pct(hits: u32, of: u32) -> [f64; 2] {
    if of == 0 {
        return [0.0, 100.0];
    }
    let (z, n) = (1.959_964, f64::from(of));
    let share = f64::from(hits) / n;
    let scale = 1.0 + z * z / n;
    let middle = (share + z * z / (2.0 * n)) / scale;
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt() / scale;
    [middle - half, middle + half].map(|end| 100.0 * end.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_statsmodels() {
        // statsmodels 0.14: proportion_confint(count, n, method="wilson").
        for (hits, of, low, high) in [(2, 61, 0.9038, 11.1895), (0, 20, 0.0, 16.1125), (57, 60, 86.2995, 98.285)] {
            let [a, b] = wilson_pct(hits, of);
            assert!((a - low).abs() < 0.01 && (b - high).abs() < 0.01, "{hits} of {of}: {a} {b}");
        }
    }

    #[test]
    fn no_word_is_counted_twice_and_none_is_wrong_more_often_than_it_was_given() {
        let words: std::collections::BTreeSet<&str> = COUNTED.iter().map(|one| one.confidence.word()).collect();
        assert_eq!(words.len(), COUNTED.len());
        assert!(COUNTED.iter().all(|one| one.wrong <= one.findings && !one.measured.is_empty()));
    }
}
