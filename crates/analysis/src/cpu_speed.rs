//! How fast the CPUs were during a run: a fixed piece of work that the stream `speed` does beside it.
//!
//! A run's speed is that of the CPUs that the program may use, each counted for as long as it was busy: a program of one thread is on one
//! CPU at a time.

use pagelab_views::run::RunData;

/// How fast a CPU is, by instance.
pub(crate) const SPEED: &str = "speed.calls_per_second";
const AFFINITY: &str = "task.affinity";
/// What a CPU does when it is busy, by instance.
const BUSY: [&str; 3] = ["cpu.user_ns", "cpu.nice_ns", "cpu.system_ns"];

/// Mean speed of the CPUs that the target may use, weighted by their busy time, calls per second; `None` where the stream `speed` was not
/// recorded.
pub(crate) fn of(run: &RunData) -> Option<f64> {
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
    (weights > 0.0).then(|| sum / weights)
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
