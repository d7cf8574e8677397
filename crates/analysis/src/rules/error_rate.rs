//! How often each word of confidence, and each cause, was wrong where the truth was known.
//!
//! The cases stand in `tests/zoo/judged`, a line each, with what was found and on which version of the rules; `tests/zoo/PROTOCOL.md` says
//! how a set is drawn and counted. They are read when pagelab is built: no figure is typed in. Where rules have changed since a case was
//! asked, its record says so.

use std::collections::BTreeMap;
use std::sync::LazyLock;

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
    /// Of those, the ones whose cause was another one.
    pub wrong: u32,
    /// 95 % interval of the share, per cent (Wilson's).
    pub wrong_ci95_pct: [f64; 2],
    /// The cases, and on which rules they were counted.
    pub measured: String,
}

/// The record of a cause, as the first one that was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CauseRecord {
    /// Cases in which it was named.
    pub named: u32,
    /// Of those, the ones in which it was another.
    pub wrong: u32,
}

/// The lines of the judged cases; the build puts the files together.
const JUDGED: &str = include_str!(concat!(env!("OUT_DIR"), "/judged.jsonl"));
/// The version of the rules that is compiled.
const RULES: &str = env!("PAGELAB_RULES");

/// One drawn case.
#[derive(Debug, Deserialize)]
struct Case {
    set: String,
    /// The version of the rules that it was asked on.
    rules: String,
    /// Whether it counts; `why_not` says why not.
    counted: bool,
    /// What was named first.
    found: Vec<Found>,
}

#[derive(Debug, Deserialize)]
struct Found {
    cause: String,
    confidence: Confidence,
    verdict: Verdict,
}

/// What the truth says of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// The cause is the true one.
    Right,
    /// It is a part of the way from the true cause to the time.
    Half,
    /// It is another.
    Wrong,
}

/// Counts of cases.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    cases: u32,
    sets: Vec<String>,
    on_other_rules: bool,
    words: BTreeMap<Confidence, (u32, u32)>,
    causes: BTreeMap<String, CauseRecord>,
}

/// Counts lines of JSON.
fn count(lines: &str, rules: &str) -> serde_json::Result<Counted> {
    let mut counted = Counted::default();
    for line in lines.lines() {
        let case: Case = serde_json::from_str(line)?;
        if !case.counted {
            continue;
        }
        counted.cases += 1;
        counted.on_other_rules |= case.rules != rules;
        if !counted.sets.contains(&case.set) {
            counted.sets.push(case.set);
        }
        for found in case.found {
            let wrong = u32::from(found.verdict == Verdict::Wrong);
            let word = counted.words.entry(found.confidence).or_default();
            *word = (word.0 + 1, word.1 + wrong);
            let cause = counted.causes.entry(found.cause).or_default();
            *cause = CauseRecord { named: cause.named + 1, wrong: cause.wrong + wrong };
        }
    }
    Ok(counted)
}

/// The cases that are compiled in; the tests read them, so that they can be read.
static COUNTED: LazyLock<Counted> = LazyLock::new(|| count(JUDGED, RULES).unwrap_or_default());

impl Counted {
    fn on_rules(&self) -> &'static str {
        if self.on_other_rules { "counted on other rules" } else { "counted on these rules" }
    }

    fn measured(&self) -> String {
        format!("{} cases of {}, {}", self.cases, self.sets.join(", "), self.on_rules())
    }
}

/// The records of the words that have one.
pub fn error_rates() -> Vec<ErrorRate> {
    let counted = &*COUNTED;
    let of_word = |(confidence, (findings, wrong)): (&Confidence, &(u32, u32))| ErrorRate {
        confidence: *confidence,
        findings: *findings,
        wrong: *wrong,
        wrong_ci95_pct: wilson_pct(*wrong, *findings),
        measured: counted.measured(),
    };
    counted.words.iter().rev().map(of_word).collect()
}

/// The record of one word.
pub fn error_rate(confidence: Confidence) -> Option<ErrorRate> {
    error_rates().into_iter().find(|rate| rate.confidence == confidence)
}

/// The record of a cause; none where no case ever named it.
pub fn cause_record(cause: &str) -> Option<CauseRecord> {
    COUNTED.causes.get(cause).copied()
}

/// How often the word was wrong, and the cause, in a sentence for the screen.
pub fn record_sentence(confidence: Confidence, cause: &str) -> String {
    let word = confidence.word();
    let of_cause = of_cause(cause);
    match error_rate(confidence) {
        Some(rate) => {
            let rules = COUNTED.on_rules();
            format!(
                "Findings called {word} were wrong in {} of {} known cases ({rules}); {of_cause}.",
                rate.wrong, rate.findings
            )
        }
        None => format!("No finding called {word} was tried on a case that others chose; {of_cause}."),
    }
}

/// The same with the interval and the cases.
pub fn record_in_full(confidence: Confidence, cause: &str) -> String {
    let Some(rate) = error_rate(confidence) else { return record_sentence(confidence, cause) };
    let [low, high] = rate.wrong_ci95_pct;
    format!(
        "findings called {} were wrong in {} of {} known cases, 95 % interval {low:.0} to {high:.0} % ({}); {}",
        confidence.word(),
        rate.wrong,
        rate.findings,
        rate.measured,
        of_cause(cause)
    )
}

fn of_cause(cause: &str) -> String {
    match cause_record(cause) {
        Some(record) => format!("{cause}: wrong in {} of {}", record.wrong, record.named),
        None => format!("{cause}: never tried"),
    }
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
    fn every_judged_line_can_be_read() {
        let counted = count(JUDGED, RULES).expect("tests/zoo/judged/*.jsonl");
        let lines = JUDGED.lines().count();
        assert!(lines > 0 && counted.cases as usize <= lines, "{counted:?}");
        // Counted by hand from the table of 2026-11-29: 10, 12, 15, 16, 19, K, N; 03, 17, 24, G. Then the eighth set, by `judged.py count`.
        assert_eq!(counted.words.get(&Confidence::Mechanism), Some(&(7 + 25, 4 + 6)));
        assert_eq!(counted.words.get(&Confidence::Correlated), Some(&(4 + 9, 3 + 5)));
        assert_eq!(counted.causes.get("sync.more"), Some(&CauseRecord { named: 4 + 3, wrong: 4 + 2 }));
    }

    /// The version that lines are written with is the one that they are compared to.
    #[test]
    fn the_zoo_and_the_build_agree_on_the_version_of_the_rules() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/zoo/judged.py");
        let said = std::process::Command::new("python3").args([script, "rules"]).output().expect("python3");
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), RULES, "{}", String::from_utf8_lossy(&said.stderr));
    }

    #[test]
    fn cases_are_counted_by_word_cause_and_rules() {
        let line = |rules: &str, counted: bool, verdict: &str| {
            format!(
                r#"{{"set":"s","case":"c","rules":"{rules}","counted":{counted},"found":[{{"cause":"a.b","confidence":"mechanism","verdict":"{verdict}"}}]}}"#
            )
        };
        let lines =
            [line("1", true, "right"), line("1", true, "half"), line("1", true, "wrong"), line("1", false, "wrong")];
        let counted = count(&lines.join("\n"), "1").expect("lines");
        assert_eq!((counted.cases, counted.on_other_rules), (3, false));
        assert_eq!(counted.words.get(&Confidence::Mechanism), Some(&(3, 1)));
        assert_eq!(counted.measured(), "3 cases of s, counted on these rules");
        let changed = count(&lines.join("\n"), "2").expect("lines");
        assert_eq!(changed.measured(), "3 cases of s, counted on other rules");
        assert!(count("{}", "1").is_err() && count(&line("1", true, "perhaps"), "1").is_err());
    }
}
