//! How the recorded run went: its target, its measured window, what ended it and the kernel's counts for it. Words that
//! a later version added are kept as they were read, so that a manifest written back loses nothing.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The measured time of a run: what counts in a comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Begin, ns on the recording's clock.
    pub start_ns: Option<i64>,
    /// End, ns on the recording's clock.
    pub end_ns: Option<i64>,
    /// Operations that the load completed between them; null for a command, which counts none.
    #[serde(deserialize_with = "whole_number")]
    pub operations: Option<u64>,
    /// Who knows these times.
    pub source: Option<MeasuredBy>,
    /// Further keys.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A count that JSON may also write as `100.0`; what is not a whole number counts nothing.
fn whole_number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = Option::<serde_json::Number>::deserialize(from)?;
    let of_float = |number: f64| (number >= 0.0 && number.fract() == 0.0).then_some(number as u64);
    Ok(value.and_then(|number| number.as_u64().or_else(|| number.as_f64().and_then(of_float))))
}

impl Measured {
    /// Begin and end, if both are known.
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        self.start_ns.zip(self.end_ns)
    }

    /// Operations by which something can be divided: `None` for 0 too.
    pub fn operations_done(&self) -> Option<f64> {
        self.operations.filter(|count| *count > 0).map(|count| count as f64)
    }
}

/// Who knows when a run was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredBy {
    /// The load: from the end of its ramp to its last operation.
    Load,
    /// From the `exec` of a command that was recorded whole to its end.
    Command,
    /// All that was recorded: a part of a command, or a target that was found running.
    Recording,
    /// A word of a later version.
    #[serde(untagged)]
    Other(String),
}

/// What ended the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The target ended.
    Target,
    /// SIGINT, SIGTERM, SIGHUP or SIGQUIT to the recorder.
    Signal,
    /// The target ran longer than its timeout.
    Timeout,
    /// The time to record was over.
    Duration,
    /// The recording reached its largest size.
    MaxSize,
    /// SIGUSR2 to a flight recorder: keep the events it holds.
    #[serde(rename = "sigusr2")]
    Kept,
    /// A word of a later version.
    #[serde(untagged)]
    Other(String),
}

impl EndedBy {
    /// The word in the manifest.
    pub fn word(&self) -> &str {
        match self {
            Self::Target => "target",
            Self::Signal => "signal",
            Self::Timeout => "timeout",
            Self::Duration => "duration",
            Self::MaxSize => "max_size",
            Self::Kept => "sigusr2",
            Self::Other(word) => word,
        }
    }

    /// Whether recording ended before the target, which goes on: its exit status is then not that of the recorded time.
    pub fn leaves_target(&self) -> bool {
        matches!(self, Self::Duration | Self::MaxSize | Self::Kept)
    }
}

impl fmt::Display for EndedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A target that was running before it was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FoundTarget {
    /// Processes, and all that they fork.
    Pids {
        /// Their process ids, as the recorder sees them.
        pids: Vec<i64>,
    },
    /// All tasks of a control group.
    Cgroup {
        /// Its directory.
        path: String,
    },
    /// Every task of the host.
    System,
    /// A kind of a later version.
    #[serde(untagged)]
    Other(Value),
}

impl fmt::Display for FoundTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pids { pids } => {
                let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
                write!(f, "processes {}", pids.join(", "))
            }
            Self::Cgroup { path } => write!(f, "cgroup {path}"),
            Self::System => f.write_str("the whole system"),
            Self::Other(value) => value.fmt(f),
        }
    }
}

/// What wait4(2) says of a command that ended, its waited-for children included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Rusage {
    /// CPU time in user mode.
    pub utime_ns: Option<u64>,
    /// CPU time in the kernel.
    pub stime_ns: Option<u64>,
    /// Page faults that needed no I/O.
    pub minor_faults: Option<u64>,
    /// Page faults that did.
    pub major_faults: Option<u64>,
    /// Context switches of tasks that waited.
    pub voluntary_context_switches: Option<u64>,
    /// Context switches of tasks that could have gone on.
    pub involuntary_context_switches: Option<u64>,
    /// Largest resident size of one process; null where it was below that of the recorder, from which the process was
    /// forked (Linux carries the figure over).
    pub max_rss_bytes: Option<u64>,
    /// Further keys.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A number that the command printed about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct PrintedValue {
    /// Its name; the metric is called `value.NAME`.
    pub name: String,
    /// The regular expression that found it.
    pub regex: Option<String>,
    /// Which way is better, if the user said so.
    pub direction: Option<Better>,
    /// The number; null if no line had one, and `note` says why.
    pub value: Option<f64>,
    /// Smallest step of the number as it was printed: 0.01 of `12.34`.
    pub step: Option<f64>,
    /// Lines that matched.
    pub matches: Option<u64>,
    /// Why there is no number.
    pub note: Option<String>,
    /// Further keys.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Which way a number is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better: operations per second.
    Higher,
    /// Less is better: latency, time.
    Lower,
}

impl Better {
    /// The word in plans, on the command line and in manifests.
    pub fn word(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }
}

impl std::str::FromStr for Better {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "higher" => Ok(Self::Higher),
            "lower" => Ok(Self::Lower),
            _ => Err(format!("found {text:?}, needed higher or lower, whichever is better")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Manifest;
    use super::*;

    /// A manifest as version 0.1.0 wrote it before these keys had types, with keys that nobody knows.
    fn written() -> Value {
        json!({
            "format": 1,
            "measured": {"start_ns": 5, "end_ns": 9, "operations": null, "source": "command", "novel": 1},
            "ended_by": "sigusr2",
            "target": {"kind": "pids", "pids": [7, 8]},
            "timed_out": false,
            "interrupted": true,
            "kept_since_ns": 4,
            "seed": u64::MAX,
            "rusage": {
                "utime_ns": 1, "stime_ns": 2, "minor_faults": 3, "major_faults": 4,
                "voluntary_context_switches": 5, "involuntary_context_switches": 6, "max_rss_bytes": null, "novel": 7
            },
            "values": [{
                "name": "tps", "regex": "(x)", "direction": "higher",
                "value": 1.5, "step": 0.1, "matches": 2, "note": null
            }],
            "incomplete_reason": "no space",
            "rows_dropped": {"faults": 3},
            "faults_unattributed": 2,
            "novelty": {"a": [1]}
        })
    }

    #[test]
    fn what_is_typed_is_written_as_it_was_read() {
        let manifest: Manifest = serde_json::from_value(written()).expect("a manifest");
        let keys: Vec<&String> = manifest.extra.keys().collect();
        assert_eq!(keys, ["novelty"], "every other key has a field");
        assert_eq!(manifest.ended_by, Some(EndedBy::Kept));
        assert_eq!(manifest.target, Some(FoundTarget::Pids { pids: vec![7, 8] }));
        assert_eq!(manifest.rows_dropped["faults"], 3);
        let back = serde_json::to_value(&manifest).expect("JSON");
        for (key, value) in written().as_object().expect("an object") {
            assert_eq!(&back[key], value, "{key}");
        }
    }

    #[test]
    fn keys_of_a_run_that_has_not_ended_are_absent() {
        let back = serde_json::to_value(Manifest::default()).expect("JSON");
        for key in written().as_object().expect("an object").keys().filter(|key| *key != "format") {
            assert!(back.get(key).is_none(), "{key}: {:?}", back[key]);
        }
    }

    #[test]
    fn words_of_later_versions_are_kept() {
        let later = json!({
            "format": 1, "ended_by": "oom", "target": {"kind": "vm", "id": 3}, "measured": {"source": "guest"}
        });
        let manifest: Manifest = serde_json::from_value(later.clone()).expect("a manifest");
        assert_eq!(manifest.ended_by.as_ref().map(EndedBy::word), Some("oom"));
        let measured = manifest.measured.as_ref().expect("measured");
        assert_eq!(measured.source, Some(MeasuredBy::Other("guest".to_owned())));
        assert_eq!(manifest.target.as_ref().map(ToString::to_string).as_deref(), Some(r#"{"id":3,"kind":"vm"}"#));
        let back = serde_json::to_value(&manifest).expect("JSON");
        assert_eq!((&back["ended_by"], &back["target"]), (&later["ended_by"], &later["target"]));
        assert_eq!(back["measured"]["source"], "guest");
    }

    #[test]
    fn operations_may_be_written_with_a_point() {
        let read = |text: &str| serde_json::from_str::<Measured>(text).expect(text);
        for (text, count) in [("100", Some(100)), ("100.0", Some(100)), ("0", Some(0)), ("0.5", None), ("null", None)] {
            assert_eq!(read(&format!(r#"{{"operations": {text}}}"#)).operations, count, "{text}");
        }
        assert_eq!(read(r#"{"operations": 0}"#).operations_done(), None);
        assert_eq!(read("{}").operations, None);
    }

    #[test]
    fn every_word_is_the_one_that_is_written() {
        use EndedBy::{Duration, Kept, MaxSize, Signal, Target, Timeout};
        for ended_by in [Target, Signal, Timeout, Duration, MaxSize, Kept] {
            assert_eq!(serde_json::to_value(&ended_by).expect("a word"), ended_by.word());
            assert_eq!(serde_json::from_value::<EndedBy>(ended_by.word().into()).expect("a word"), ended_by);
        }
    }
}
