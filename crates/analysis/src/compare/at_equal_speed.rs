//! The primary metric at equal speed of the machine.
//!
//! Where every run knows how fast its CPUs were meanwhile (the stream `speed`), the sides are compared at equal speed: on a machine
//! whose speed varies by a fifth within seconds the runs of one program do as well, and without that a loss of a tenth needs dozens of
//! runs to show. A run's speed is that of the CPUs that the program may use, each counted for as long as it was busy: a program of one
//! thread is on one CPU at a time.

use pagelab_views::run::RunData;

use super::assemble::{Sides, Tested};
use crate::stats::{MetricSamples, test_at_equal_covariates};

/// How fast a CPU is, by instance.
const SPEED: &str = "speed.calls_per_second";
const AFFINITY: &str = "task.affinity";
/// What a CPU does when it is busy, by instance.
const BUSY: [&str; 3] = ["cpu.user_ns", "cpu.nice_ns", "cpu.system_ns"];

/// Replaces the test of a metric by that at equal speed, if the runs know it.
pub(super) fn test(sides: &Sides, alpha: f64, tested: &mut Tested) {
    let [base, test] =
        [sides.base, sides.test].map(|runs| -> Vec<f64> { runs.iter().map(|run| speed_of(run)).collect() });
    // Nobody asked for it.
    if base.iter().chain(&test).all(|speed| speed.is_nan()) {
        return;
    }
    let [base_runs, test_runs] = sides.observations_of(&tested.key, tested.form);
    let samples = MetricSamples { base: &base_runs, test: &test_runs, design: sides.design, resolution: None };
    test_at_equal_covariates(&samples, [&base, &test], SPEED, alpha, &mut tested.result);
}

/// Mean speed of the CPUs that the target may use, weighted by their busy time, calls per second; NaN where it is not known.
fn speed_of(run: &RunData) -> f64 {
    let allowed = run.setting(AFFINITY);
    let is_allowed = |instance: &str| {
        let cpu = instance.strip_prefix("cpu").and_then(|number| number.parse().ok());
        cpu.is_some_and(|cpu: u32| allowed.is_none_or(|list| holds(list, cpu)))
    };
    let busy = |instance: &str| BUSY.iter().map(|name| run.metric(name, Some(instance))?.value).sum::<Option<f64>>();
    let speeds: Vec<(f64, Option<f64>)> = run
        .instances(SPEED)
        .filter_map(|(key, metric)| Some((key.instance.as_deref().filter(|of| is_allowed(of))?, metric.value?)))
        .map(|(instance, speed)| (speed, busy(instance)))
        .collect();
    let all_idle = speeds.iter().all(|(_, busy)| busy.is_none_or(|busy| busy <= 0.0));
    let weight = |busy: Option<f64>| if all_idle { 1.0 } else { busy.unwrap_or(0.0) };
    let [sum, weights] = speeds
        .iter()
        .fold([0.0, 0.0], |[sum, weights], (speed, busy)| [sum + weight(*busy) * speed, weights + weight(*busy)]);
    // Without any speed: 0 / 0.
    sum / weights
}

/// Whether a CPU is in a list such as `0-3,8`.
fn holds(list: &str, cpu: u32) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let ends = (first.trim().parse::<u32>(), last.trim().parse::<u32>());
        matches!(ends, (Ok(first), Ok(last)) if (first..=last).contains(&cpu))
    })
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn lists_of_cpus_hold_what_lies_in_a_range() {
        let held = |list: &str| (0..10).filter(|cpu| holds(list, *cpu)).collect::<Vec<_>>();
        assert_eq!(held("0-2,8"), [0, 1, 2, 8]);
        assert_eq!(held("3"), [3]);
        assert!(held("").is_empty() && held("a-b").is_empty());
    }
}
