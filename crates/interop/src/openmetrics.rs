//! The numbers of a run as OpenMetrics text (version 1.0.0), which Prometheus and its kin read.
//!
//! A counter is its increase in the measured time, a level its mean over it. Times are in seconds and sizes in bytes, as the format
//! asks; the metric's own name stands in `HELP`. A number that could not be had is left out: the format knows no null.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pagelab_views::metrics::info::info;
use pagelab_views::run::{MetricKey, RunData, RunMetric};
use pagelab_vocab::metrics::{MetricKind, Unit};

/// The text, to its end mark.
pub fn text(run: &RunData) -> String {
    let mut families: BTreeMap<String, Vec<(&MetricKey, f64)>> = BTreeMap::new();
    for (key, metric) in &run.metrics {
        if let Some(value) = value(metric) {
            families.entry(family(&key.name, metric)).or_default().push((key, value));
        }
    }
    let mut out = String::new();
    for (name, samples) in &families {
        let Some((key, _)) = samples.first() else { continue };
        let metric = run.metrics.get(*key);
        let is_counter = metric.is_some_and(|metric| metric.kind == MetricKind::Counter);
        let _ = writeln!(out, "# TYPE {name} {}", if is_counter { "counter" } else { "gauge" });
        if let Some(unit) = metric.and_then(|metric| unit(metric.unit)) {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(out, "# HELP {name} {}", escaped(&format!("{}: {}", key.name, info(&key.name).help)));
        for (key, value) in samples {
            let labels =
                key.instance.as_ref().map_or_else(String::new, |of| format!("{{instance=\"{}\"}}", escaped(of)));
            let _ = writeln!(out, "{name}{}{labels} {value}", if is_counter { "_total" } else { "" });
        }
    }
    out.push_str("# EOF\n");
    out
}

/// The number in the format's units.
fn value(metric: &RunMetric) -> Option<f64> {
    let value = if metric.kind == MetricKind::Counter { metric.events } else { metric.value };
    let scale = match metric.unit {
        Unit::Nanoseconds => 1e-9,
        Unit::Kibibytes => 1024.0,
        Unit::Kilohertz => 1e3,
        Unit::Percent => 0.01,
        _ => 1.0,
    };
    value.filter(|value| value.is_finite()).map(|value| value * scale)
}

fn unit(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::Nanoseconds => Some("seconds"),
        Unit::Bytes | Unit::Kibibytes => Some("bytes"),
        Unit::Pages => Some("pages"),
        Unit::Kilohertz => Some("hertz"),
        Unit::Percent | Unit::Ratio => Some("ratio"),
        _ => None,
    }
}

/// `pagelab_vmstat_pgfault`: letters, digits and underscores, with the unit at its end and without `_total`, which the format adds.
fn family(name: &str, metric: &RunMetric) -> String {
    let mut plain: String =
        name.chars().map(|one| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '_' }).collect();
    let unit = unit(metric.unit);
    let ours = ["_ns", "_bytes", "_kib", "_pages", "_pct", "_khz", "_total"];
    while let Some(short) =
        ours.iter().find_map(|end| plain.strip_suffix(end).filter(|_| unit.is_some() || *end == "_total"))
    {
        plain = short.to_owned();
    }
    match unit {
        Some(unit) => format!("pagelab_{plain}_{unit}"),
        None => format!("pagelab_{plain}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(kind: MetricKind, unit: Unit, value: f64) -> RunMetric {
        RunMetric {
            value: Some(value),
            kind,
            unit,
            per_operation: None,
            events: Some(value * 2.0),
            resolution: None,
            note: None,
        }
    }

    #[test]
    fn names_have_their_unit_and_letters_that_the_format_takes() {
        let of = |name: &str, kind, unit| family(name, &metric(kind, unit, 1.0));
        assert_eq!(of("run.elapsed_ns", MetricKind::Gauge, Unit::Nanoseconds), "pagelab_run_elapsed_seconds");
        assert_eq!(of("disk.read_bytes", MetricKind::Counter, Unit::Bytes), "pagelab_disk_read_bytes");
        assert_eq!(of("vmstat.pgfault", MetricKind::Counter, Unit::Count), "pagelab_vmstat_pgfault");
        assert_eq!(of("psi.cpu-some_total", MetricKind::Counter, Unit::Count), "pagelab_psi_cpu_some");
    }

    #[test]
    fn counters_are_increases_and_times_seconds() {
        assert_eq!(value(&metric(MetricKind::Counter, Unit::Count, 5.0)), Some(10.0));
        assert_eq!(value(&metric(MetricKind::Gauge, Unit::Nanoseconds, 2e9)), Some(2.0));
        assert_eq!(value(&metric(MetricKind::Gauge, Unit::Count, f64::NAN)), None);
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
