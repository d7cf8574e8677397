//! Why a run failed: a word that programs can rely on, then the reason in words for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::runner::{Change, RunError, RunErrorKind, RunOutcome};

/// The words that a failed run's reason begins with; a colon and a sentence follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The workload ended with a status other than 0.
    ExitStatus,
    /// A signal ended the workload.
    Signal,
    /// It took longer than the plan's `timeout`.
    Timeout,
    /// A setting was asked for and something else was got.
    SettingNotGot,
    /// A setting could not be changed at all.
    SettingRefused,
    /// The workload could not be started.
    NotStarted,
    /// A probe that the plan names was refused, or the host lacks something else.
    Host,
    /// The recording could not be written, or is not whole.
    Recording,
    /// `prepare` failed.
    Prepare,
    /// A step of `between` failed.
    Between,
    /// The lab's VM did not boot, hung, panicked or ended.
    Guest,
    /// The output did not hold the number that the experiment decides by.
    NoValue,
}

const WORDS: [(FailureKind, &str); 12] = [
    (FailureKind::ExitStatus, "exit_status"),
    (FailureKind::Signal, "signal"),
    (FailureKind::Timeout, "timeout"),
    (FailureKind::SettingNotGot, "setting_not_got"),
    (FailureKind::SettingRefused, "setting_refused"),
    (FailureKind::NotStarted, "not_started"),
    (FailureKind::Host, "host"),
    (FailureKind::Recording, "recording"),
    (FailureKind::Prepare, "prepare"),
    (FailureKind::Between, "between"),
    (FailureKind::Guest, "guest"),
    (FailureKind::NoValue, "no_value"),
];

impl FailureKind {
    /// The word.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }

    /// The kind that a reason in `set.json` begins with.
    pub fn of(reason: &str) -> Option<Self> {
        let word = reason.split(':').next()?;
        WORDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
    }

    /// Whether the host is at fault, and not what the plan runs.
    pub fn is_host(self) -> bool {
        matches!(
            self,
            Self::SettingNotGot | Self::SettingRefused | Self::Host | Self::Recording | Self::Between | Self::Guest
        )
    }
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The word.
    pub kind: FailureKind,
    /// The sentence.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.word(), self.reason)
    }
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }

    /// The failure of a step; `otherwise` names the attempted action.
    pub(crate) fn of_error(error: &RunError, otherwise: FailureKind) -> Self {
        let kind = match error.kind {
            RunErrorKind::Timeout => FailureKind::Timeout,
            RunErrorKind::Recording => FailureKind::Recording,
            RunErrorKind::Guest => FailureKind::Guest,
            RunErrorKind::Host if otherwise == FailureKind::NotStarted => FailureKind::Host,
            _ => otherwise,
        };
        Self::new(kind, error.reason.clone())
    }

    /// The first setting that was not granted.
    pub(crate) fn of_changes(changes: &[Change]) -> Option<Self> {
        let change = changes.iter().find(|change| !change.granted())?;
        let Change { key, asked, got, previous } = change;
        Some(Self::new(
            FailureKind::SettingNotGot,
            format!("{key}: asked for {asked}, got {got} (it was {previous} before)"),
        ))
    }

    /// The number that decides is not in the output.
    pub(crate) fn of_missing_value(outcome: &RunOutcome, deciding: &str) -> Option<Self> {
        let (name, why) = outcome.missing_values.iter().find(|(name, _)| name == deciding)?;
        Some(Self::new(FailureKind::NoValue, format!("{name}: {why}{}", said(outcome))))
    }

    /// The meaning of a run's end.
    pub(crate) fn of_outcome(outcome: &RunOutcome, timeout: Option<std::time::Duration>) -> Option<Self> {
        if outcome.timed_out {
            let limit = timeout.map_or("its time".to_owned(), |limit| format!("{} s", limit.as_secs_f64()));
            return Some(Self::new(
                FailureKind::Timeout,
                format!("not done after {limit}; a longer time: `timeout` of the plan"),
            ));
        }
        if let Some(signal) = outcome.signal {
            return Some(Self::new(FailureKind::Signal, format!("ended by signal {signal}{}", said(outcome))));
        }
        match outcome.code {
            Some(0) if outcome.complete => None,
            Some(0) => {
                let why = outcome.warnings.join("; ");
                let why = if why.is_empty() { "the recording is not whole".to_owned() } else { why };
                Some(Self::new(FailureKind::Recording, why))
            }
            Some(code) => Some(Self::new(FailureKind::ExitStatus, format!("exit status {code}{}", said(outcome)))),
            None => Some(Self::new(FailureKind::NotStarted, "how it ended is not known")),
        }
    }
}

/// Why a job failed, or the last line of an output that nobody saw.
fn said(outcome: &RunOutcome) -> String {
    if let Some(failure) = &outcome.job_failure {
        return format!("; {failure}");
    }
    outcome.last_line.as_ref().map_or_else(String::new, |line| format!("; the last line of its output: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_can_be_read_back() {
        for (kind, word) in WORDS {
            let failure = Failure::new(kind, "why: because");
            assert_eq!(FailureKind::of(&failure.to_string()), Some(kind), "{word}");
        }
        assert_eq!(FailureKind::of("warmup"), None);
    }

    #[test]
    fn what_was_got_is_compared_word_by_word() {
        let change = |asked: &str, got: &str| Change {
            key: "sysctl.kernel.sem".to_owned(),
            previous: "1".to_owned(),
            asked: asked.to_owned(),
            got: got.to_owned(),
        };
        assert!(change("32000 1024000 500", "32000\t1024000 500").granted());
        assert!(!change("200", "180").granted());
        let failure = Failure::of_changes(&[change("1", "1"), change("200", "180")]).expect("not granted");
        assert!(failure.to_string().starts_with("setting_not_got: ") && failure.reason.contains("got 180"));
    }
}
