//! Latency as text.

use pagelab_views::view::latency::LatencyView;

use super::table::{Table, left, or_dash, right};
use pagelab_vocab::units::duration;

pub(super) fn text(data: &LatencyView) -> String {
    if data.histograms.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nOf all operations recorded, ramp included; percentiles are upper bounds.\n");
    let mut table = Table::new([
        left("JOB").at_most(16),
        left("DIR"),
        left("KIND"),
        right("COUNT"),
        right("MEAN"),
        right("P50"),
        right("P90"),
        right("P99"),
        right("P99.9"),
        right("MAX"),
    ]);
    let time = |ns: Option<u64>| or_dash(ns.map(|ns| duration(ns as f64).replace(' ', "")));
    for row in &data.histograms {
        let percentile = |name: &str| time(row.percentiles.get(name).copied().flatten());
        table.row([
            row.job.clone(),
            row.direction.clone(),
            row.kind.clone(),
            row.count.to_string(),
            time(row.mean_ns.map(|mean| mean.round() as u64)),
            percentile("p50_ns"),
            percentile("p90_ns"),
            percentile("p99_ns"),
            percentile("p99_9_ns"),
            time(row.max_ns),
        ]);
    }
    table.write(0, &mut out);
    out
}
