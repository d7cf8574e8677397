//! Metrics that differ only because the program was slower.
//!
//! Counters are compared per unit of work, or per second where the clock drives them (`vocab::metrics::driver`); those that both
//! drive are held to both. What is left here are counters that fit neither: one that the work drives and that is known per second only,
//! since runs know no unit of work, falls as the speed does; one that both drive may rise per unit of work as the time does. They are
//! told by their ratio: it agrees with that of the times within the intervals of both. A counter of work that rises per unit of work as
//! the time does is *not* told so: it may be what took the time. Levels of the target, such as its resident memory, are means over the
//! time that was watched: one that moved by no more than the watch got longer, at either end of its interval, says nothing either.

use pagelab_vocab::metrics::{Driver, driver};

use super::{Comparison, MetricComparison, Primary};

/// How many times as long a unit of work takes on the test side: the interval of that.
fn time_ratio(primary: &Primary) -> Option<[f64; 2]> {
    let is_time = primary.direction == "lower" && primary.unit == "ns";
    primary.times_worse().filter(|_| is_time || primary.direction == "higher")
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
    let [least, most] = metric.ratio_ci95?;
    let overlaps = |from: f64, to: f64| least <= to && from <= most;
    if metric.kind != "counter" {
        let (from, to) = (low.min(1.0 / high), high.max(1.0 / low));
        return Some(metric.name.starts_with("target.") && from <= least && most <= to);
    }
    Some(match (driver(&metric.name, metric.instance.as_deref()), metric.per_operation) {
        (Driver::Work, true) | (Driver::Time, false) => false,
        (_, true) => overlaps(low, high),
        (_, false) => overlaps(1.0 / high, 1.0 / low),
    })
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
        assert_eq!(
            of(metric("counter", "target.io.syscr", false, [0.73, 0.77])),
            Some(true),
            "as many by unit of work"
        );
        assert_eq!(of(metric("counter", "target.io.syscr", false, [1.9, 2.1])), Some(false), "more by unit of work");
        assert_eq!(
            of(metric("counter", "disk.reads", true, [1.31, 1.35])),
            Some(false),
            "they may be what took the time"
        );
        assert_eq!(of(metric("counter", "target.io.syscr", true, [400.0, 600.0])), Some(false));
        assert_eq!(of(metric("gauge", "target.smaps.rss_bytes", false, [1.02, 1.03])), Some(true));
        assert_eq!(
            of(metric("gauge", "target.smaps.rss_bytes", false, [9.8, 10.1])),
            Some(false),
            "ten times the memory"
        );
        assert_eq!(of(metric("gauge", "meminfo.memfree_bytes", false, [0.9, 0.95])), Some(false));
    }
}
