//! Metrics as text.

use pagelab_views::mappings::bytes;
use pagelab_views::run::MetricKey;
use pagelab_views::view::metrics::MetricsView;

use pagelab_vocab::units::short_duration;

use super::more;
use super::table::{Table, figure, left, or_dash, paragraph, right, room};

/// Whether a number of this unit is printed with one of its multiples.
fn in_itself(unit: &str) -> bool {
    matches!(unit, "ns" | "bytes")
}

/// A number as people read it: time and memory with the multiple of the unit that suits them.
fn in_unit(value: f64, unit: Option<&str>) -> String {
    match unit {
        Some("ns") => short_duration(value),
        Some("bytes") => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", bytes(value.abs() as u64))
        }
        _ => figure(value),
    }
}

pub(super) fn text(data: &MetricsView, start: i64) -> String {
    if data.metrics.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n");
    let said = match &data.window {
        Some(window) => format!(
            "VALUE is that of the measured time, {:.3} s from {:.3} s: /s a counter's increase per second, ~ a gauge's mean",
            window.seconds(),
            window.start_ns.saturating_sub(start) as f64 / 1e9
        ),
        None => "the measured time is not known, so there are no values in it".to_owned(),
    };
    paragraph(&said, &mut out);
    let mut table = Table::new([
        left("METRIC").at_most(room(44, 60)),
        right("FIRST"),
        right("LAST"),
        right("VALUE"),
        left(""),
        left("UNIT"),
    ]);
    for row in &data.metrics {
        let mark = match row.value_is {
            Some("per_second") => "/s",
            Some("mean") => "~",
            _ => "",
        };
        table.row([
            MetricKey::new(&row.name, row.instance.as_deref()).to_string(),
            or_dash(row.first.map(|value| in_unit(value, row.unit))),
            or_dash(row.last.map(|value| in_unit(value, row.unit))),
            or_dash(row.value.map(|value| in_unit(value, row.unit))),
            mark.to_owned(),
            or_dash(row.unit.map(|unit| if in_itself(unit) { "" } else { unit })),
        ]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.metrics.len(), data.metrics_total));
    out
}
