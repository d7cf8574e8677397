//! What the agent tells Prometheus: counters since its start and the present state, in the text format 0.0.4.
//!
//! Each family is declared once, in [`FAMILIES`]. A gauge that is not known is not there; it is never 0 for want of a value.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::schedule::Reason;
use crate::store::Why;

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// Name, kind and meaning of each family, in the order in which they are written.
const FAMILIES: &[(&str, Kind, &str)] = &[
    ("build_info", Kind::Gauge, "Version of the agent; always 1."),
    (
        "recordings_total",
        Kind::Counter,
        "Recordings that have ended, by kind (window, triggered) and state: complete, incomplete (rows are missing), cut (its recorder was killed).",
    ),
    ("windows_skipped_total", Kind::Counter, "Periods without a recording, by reason."),
    ("duty_cycle_ratio", Kind::Gauge, "Share of the time that is recorded in windows at present."),
    (
        "duty_cycle_configured_ratio",
        Kind::Gauge,
        "Share of the time that would be recorded if no period were stretched to save cost.",
    ),
    ("next_window_timestamp_seconds", Kind::Gauge, "When the next window begins, in seconds since 1970."),
    ("own_cpu_seconds_total", Kind::Counter, "CPU time of the agent and all its children."),
    (
        "bpf_seconds_total",
        Kind::Counter,
        "Run time of the BPF programs of its recorders, in the time of what is recorded.",
    ),
    ("own_cost_ratio", Kind::Gauge, "Both of the last ten windows, over wall time x CPUs; max-cpu-pct caps it."),
    (
        "resident_bytes",
        Kind::Gauge,
        "Resident memory of the agent and its children; what they share is counted for each.",
    ),
    ("recorder_max_resident_bytes", Kind::Gauge, "Largest resident size of the latest window's recorder."),
    ("events_lost_total", Kind::Counter, "Events that should be in recordings and are not."),
    ("streams_refused", Kind::Gauge, "Streams that the host refused in the latest window."),
    ("flight_recorder_up", Kind::Gauge, "Whether a flight recorder runs."),
    ("flight_recorder_ends_total", Kind::Counter, "Flight recorders that ended although nobody ended them."),
    ("triggers_total", Kind::Counter, "Triggers that made a recording."),
    (
        "triggers_suppressed_total",
        Kind::Counter,
        "Triggers that fired and made none: within trigger-every of another, or no flight recorder ran.",
    ),
    ("disk_bytes", Kind::Gauge, "Bytes of the folder, recordings that are being made included."),
    (
        "removed_recordings_total",
        Kind::Counter,
        "Recordings removed: by age, by size, or by size before they were uploaded (lost).",
    ),
    ("removed_bytes_total", Kind::Counter, "Their bytes."),
    ("upload_pending_bytes", Kind::Gauge, "Bytes of recordings that are not in the store yet."),
    ("uploads_total", Kind::Counter, "Recordings copied into the store."),
    ("upload_failures_total", Kind::Counter, "Tries that failed."),
    (
        "uploads_given_up_total",
        Kind::Counter,
        "Recordings whose tries are used up; they are tried again after the next start.",
    ),
];

/// Labels and their values.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// All values.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<BTreeMap<(usize, String), f64>>);

impl Metrics {
    /// With every counter that can be known beforehand at 0, so that its first event is a growth.
    pub(crate) fn new() -> Self {
        let metrics = Self::default();
        metrics.set("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        for kind in ["window", "triggered"] {
            for state in ["complete", "incomplete", "cut"] {
                metrics.add("recordings_total", &[("kind", kind), ("state", state)], 0.0);
            }
        }
        for reason in Reason::ALL {
            metrics.add("windows_skipped_total", &[("reason", reason.word())], 0.0);
        }
        for why in Why::ALL {
            metrics.add("removed_recordings_total", &[("why", why.word())], 0.0);
            metrics.add("removed_bytes_total", &[("why", why.word())], 0.0);
        }
        for name in ["own_cpu_seconds_total", "bpf_seconds_total", "events_lost_total"] {
            metrics.add(name, &[], 0.0);
        }
        metrics
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<(usize, String), f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, name: &str, labels: Labels<'_>, more: f64) {
        *self.values().entry((family(name), written(labels))).or_default() += more;
    }

    /// Sets a gauge, or a counter that is counted elsewhere.
    pub(crate) fn set(&self, name: &str, labels: Labels<'_>, value: f64) {
        self.values().insert((family(name), written(labels)), value);
    }

    /// What a gauge was is not known any more.
    pub(crate) fn forget(&self, name: &str) {
        let place = family(name);
        self.values().retain(|(of, _), _| *of != place);
    }

    /// The page.
    pub(crate) fn page(&self) -> String {
        let values = self.values();
        let mut page = String::new();
        for (place, (name, kind, help)) in FAMILIES.iter().enumerate() {
            let mut samples = values.iter().filter(|((of, _), _)| *of == place).peekable();
            if samples.peek().is_none() {
                continue;
            }
            let kind = if *kind == Kind::Counter { "counter" } else { "gauge" };
            // Writing to a text cannot fail.
            let _ = writeln!(page, "# HELP pagelab_agent_{name} {help}\n# TYPE pagelab_agent_{name} {kind}");
            for ((_, labels), value) in samples {
                let _ = writeln!(page, "pagelab_agent_{name}{labels} {value}");
            }
        }
        page
    }
}

fn family(name: &str) -> usize {
    let place = FAMILIES.iter().position(|(known, _, _)| *known == name);
    debug_assert!(place.is_some(), "{name} is no family");
    place.unwrap_or(0)
}

/// Labels as the format has them: backslashes, quotes and ends of lines are escaped.
fn written(labels: Labels<'_>) -> String {
    let one = |(name, value): &(&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", labels.iter().map(one).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of the format: HELP and TYPE once before the samples of a family, names and labels of the right form, numbers.
    fn check(page: &str) -> usize {
        let is_name =
            |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
        let (mut family, mut seen, mut samples) = (String::new(), Vec::new(), 0);
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a meaning");
                assert!(is_name(name) && !help.is_empty() && !seen.contains(&name.to_owned()), "{line}");
                name.clone_into(&mut family);
                seen.push(name.to_owned());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a kind");
                assert!(name == family && ["counter", "gauge"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            } else {
                let (sample, value) = line.rsplit_once(' ').expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                let name = sample.split('{').next().expect("a name");
                assert_eq!(name, family, "{line}");
                assert!(sample.len() == name.len() || sample.ends_with("\"}"), "{line}");
                samples += 1;
            }
        }
        assert!(page.ends_with('\n'));
        samples
    }

    #[test]
    fn the_page_has_the_format_and_unknown_gauges_are_absent() {
        let metrics = Metrics::new();
        let samples = check(&metrics.page());
        assert!(samples > 20 && !metrics.page().contains("own_cost_ratio"), "{}", metrics.page());
        assert!(metrics.page().contains("pagelab_agent_windows_skipped_total{reason=\"disk_low\"} 0\n"));
        metrics.set("own_cost_ratio", &[], 0.005);
        metrics.add("triggers_total", &[("trigger", "a\"b\\c\nd")], 1.0);
        metrics.add("triggers_total", &[("trigger", "a\"b\\c\nd")], 1.0);
        assert_eq!(check(&metrics.page()), samples + 2);
        assert!(metrics.page().contains(r#"pagelab_agent_triggers_total{trigger="a\"b\\c\nd"} 2"#));
        metrics.forget("own_cost_ratio");
        assert!(!metrics.page().contains("own_cost_ratio"));
    }

    #[test]
    fn every_family_is_declared_once_and_in_order() {
        for (place, (name, kind, _)) in FAMILIES.iter().enumerate() {
            assert_eq!(family(name), place, "{name}");
            assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
        }
    }
}
