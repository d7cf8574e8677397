//! Runs that end by time: each takes as long as its command was told to run, however much work it did.

use pagelab_views::run::RunData;

use super::make::ELAPSED;

/// How much longer than the duration such a run takes: what starts and ends it.
const OVERHEAD_S: f64 = 1.0;
const OVERHEAD_RATIO: f64 = 0.05;
/// Clocks and rounding: how much shorter it may be, of the duration.
const SHORTER_RATIO: f64 = 0.001;
/// A shorter one is within the overhead of anything.
const SHORTEST_S: f64 = 0.5;

/// The duration in seconds that every run took and every command names, the longest if several fit; `None` if there is none.
pub(super) fn duration_s<'a>(runs: &(impl Iterator<Item = &'a RunData> + Clone)) -> Option<f64> {
    let named = &runs.clone().next()?.manifest.named_durations_s;
    named.iter().rev().copied().find(|seconds| *seconds >= SHORTEST_S && runs.clone().all(|run| took(run, *seconds)))
}

fn took(run: &RunData, seconds: f64) -> bool {
    let is_named = run.manifest.named_durations_s.iter().any(|named| named.total_cmp(&seconds).is_eq());
    let longest = seconds + OVERHEAD_S.min(seconds).max(OVERHEAD_RATIO * seconds);
    let elapsed = run.value(ELAPSED).map(|ns| ns / 1e9);
    is_named && elapsed.is_some_and(|elapsed| (seconds * (1.0 - SHORTER_RATIO)..=longest).contains(&elapsed))
}

/// What is said instead of a test.
pub(super) fn note(seconds: f64) -> String {
    format!(
        "every run took the {seconds} s that its command names: such a run ends by time, and its {ELAPSED} says nothing of its \
         speed; name a number of its work: --value 'NAME:higher=REGEX' while recording, or --metric"
    )
}
