//! Metrics that differ only because the program was slower.
//!
//! A counter is compared per unit of work where runs know what that is: a command, or an operation of a job. What the clock drives,
//! such as timer interrupts, rises per unit as the speed falls, and stays the same per second. Where runs know no unit a counter is
//! compared per second, and what the work drives falls as the speed does. Neither says anything of why. A counter is taken for one of
//! these if its ratio agrees with the ratio of the times, within the intervals of both. Levels of the target, such as its resident
//! memory, are means over the time that was watched: a program that grows to the same size, and is watched for longer, has another mean.

use super::{Comparison, MetricComparison, Primary};

/// How many times as long a unit of work takes on the test side: the interval of that.
fn time_ratio(primary: &Primary) -> Option<[f64; 2]> {
    let [low, high] = primary.ratio_ci95.filter(|[low, _]| *low > 0.0)?;
    match primary.direction.as_str() {
        "lower" if primary.unit == "ns" => Some([low, high]),
        "higher" => Some([1.0 / high, 1.0 / low]),
        _ => None,
    }
}

/// Says of each metric that differs whether it does so only as the speed does.
pub(super) fn mark(comparison: &mut Comparison) {
    let shown = comparison.primary.as_ref().filter(|primary| primary.significant == Some(true));
    let Some([low, high]) = shown.and_then(time_ratio) else { return };
    for metric in comparison.metrics.iter_mut().filter(|metric| metric.significant == Some(true)) {
        metric.follows_speed = follows(metric, [low, high]);
    }
}

fn follows(metric: &MetricComparison, [low, high]: [f64; 2]) -> Option<bool> {
    if metric.kind != "counter" {
        return Some(metric.name.starts_with("target."));
    }
    let [least, most] = metric.ratio_ci95?;
    // Per operation what is driven by time rises as the time does; per second what is driven by work falls.
    let [from, to] = if metric.per_operation { [low, high] } else { [1.0 / high, 1.0 / low] };
    Some(least <= to && from <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats;

    fn metric(kind: &str, name: &str, per_operation: bool, interval: [f64; 2]) -> MetricComparison {
        MetricComparison {
            name: name.to_owned(),
            kind: kind.to_owned(),
            per_operation,
            ratio_ci95: Some(interval),
            significant: Some(true),
            ..MetricComparison::unmeasured(stats::Outcome::Tested)
        }
    }

    #[test]
    fn what_only_follows_the_speed_is_told_from_what_changed() {
        // A third longer: [1.30, 1.36] times the time.
        let time = [1.30, 1.36];
        let of = |metric: MetricComparison| follows(&metric, time);
        assert_eq!(of(metric("counter", "target.faults", false, [0.73, 0.77])), Some(true), "as many by unit of work");
        assert_eq!(of(metric("counter", "target.faults", false, [1.9, 2.1])), Some(false), "more by unit of work");
        assert_eq!(of(metric("counter", "interrupts.timer", true, [1.31, 1.35])), Some(true), "as many per second");
        assert_eq!(of(metric("counter", "target.faults", true, [400.0, 600.0])), Some(false));
        assert_eq!(of(metric("gauge", "target.smaps.rss_bytes", false, [1.02, 1.03])), Some(true));
        assert_eq!(of(metric("gauge", "meminfo.memfree_bytes", false, [0.5, 0.6])), Some(false));
    }
}
