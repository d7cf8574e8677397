//! `steadystate`: looks at the workers once a second and ends those that have become steady, by the rules of fio 3.33.
//!
//! With `group_reporting` the workers of a group are looked at together. The samples are rates over the time between two counts that a
//! worker published itself, so that it does not matter when somebody looks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pagelab_fiojob::steady::SteadyGoal;

use super::spawn::Crew;
use crate::report::SteadyReport;
use crate::shared::{Progress, State};

/// Distance of samples.
const SECOND: Duration = Duration::from_secs(1);

/// A worker that is looked at.
struct Seen {
    index: usize,
    /// When it was first seen at measured work, and its progress then.
    since: Option<Instant>,
    before: Progress,
}

/// Workers that are looked at together.
struct Unit {
    group: Option<u32>,
    workers: Vec<Seen>,
    goal: SteadyGoal,
    /// Samples that must be steady.
    wanted: usize,
    ramp: Duration,
    iops: VecDeque<u64>,
    bandwidth: VecDeque<u64>,
    found: Found,
    attained: bool,
}

/// How steady the samples were when they were last looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Found {
    criterion: f64,
    deviation: f64,
    slope: f64,
}

/// All workers of jobs with `steadystate`.
pub(super) struct SteadyWatch<'a> {
    crew: &'a Crew<'a>,
    units: Vec<Unit>,
    ticked: Instant,
}

impl<'a> SteadyWatch<'a> {
    /// Before the start.
    pub(super) fn new(crew: &'a Crew<'a>) -> Self {
        let mut units: Vec<Unit> = Vec::new();
        for worker in &crew.plan.workers {
            let Some(job) = crew.workload.jobs.get(worker.job) else { continue };
            let o = &job.options;
            let wanted = usize::try_from(o.steadystate_duration.0 / 1_000_000_000).unwrap_or(usize::MAX);
            if wanted == 0 {
                continue;
            }
            let seen = Seen { index: worker.index, since: None, before: Progress::default() };
            let group = o.group_reporting.then_some(worker.group);
            match units.iter_mut().find(|unit| group.is_some() && unit.group == group) {
                Some(unit) => unit.workers.push(seen),
                None => units.push(Unit {
                    group,
                    workers: vec![seen],
                    goal: o.steadystate,
                    wanted,
                    ramp: Duration::from_nanos(o.steadystate_ramp_time.0),
                    iops: VecDeque::new(),
                    bandwidth: VecDeque::new(),
                    found: Found::default(),
                    attained: false,
                }),
            }
        }
        Self { crew, units, ticked: Instant::now() }
    }

    /// Looks, if a second has passed.
    pub(super) fn tick(&mut self) {
        let shared = self.crew.shared;
        for seen in self.units.iter_mut().flat_map(|unit| &mut unit.workers).filter(|seen| seen.since.is_none()) {
            if shared.state(seen.index) == State::Running {
                (seen.since, seen.before) = (Some(Instant::now()), shared.progress(seen.index));
            }
        }
        if self.units.is_empty() || self.ticked.elapsed() < SECOND {
            return;
        }
        self.ticked = Instant::now();
        for unit in self.units.iter_mut().filter(|unit| !unit.attained) {
            let (mut iops, mut bandwidth, mut any) = (0, 0, false);
            for seen in &mut unit.workers {
                let Some(since) = seen.since.filter(|_| shared.state(seen.index) == State::Running) else { continue };
                let now = shared.progress(seen.index);
                let done = now.since(seen.before);
                let ns = now.at_ns.saturating_sub(seen.before.at_ns);
                seen.before = now;
                // As in fio: the first sample is taken a second after the ramp.
                if since.elapsed() < unit.ramp + SECOND {
                    continue;
                }
                any = true;
                iops += per_second(done.operations.iter().sum(), ns);
                bandwidth += per_second(done.bytes.iter().sum(), ns);
            }
            if any && unit.is_steady(iops, bandwidth) {
                unit.workers.iter().for_each(|seen| shared.stop_worker(seen.index));
            }
        }
    }

    /// What came of it, by worker: of workers that are looked at together, for the last.
    pub(super) fn reports(self) -> impl Iterator<Item = (usize, SteadyReport)> {
        self.units.into_iter().filter_map(|unit| {
            let index = unit.workers.last()?.index;
            let padded = |samples: VecDeque<u64>| {
                let mut samples: Vec<u64> = samples.into();
                samples.resize(unit.wanted, 0);
                samples
            };
            let report = SteadyReport {
                goal: unit.goal,
                duration_s: unit.wanted as u64,
                attained: unit.attained,
                criterion: unit.found.criterion,
                max_deviation: unit.found.deviation,
                slope: unit.found.slope,
                iops: padded(unit.iops),
                bandwidth: padded(unit.bandwidth),
            };
            Some((index, report))
        })
    }
}

fn per_second(amount: u64, ns: u64) -> u64 {
    (u128::from(amount) * 1_000_000_000).checked_div(u128::from(ns)).unwrap_or(0) as u64
}

impl Unit {
    /// Adds a sample; whether the last ones are steady.
    fn is_steady(&mut self, iops: u64, bandwidth: u64) -> bool {
        for (samples, value) in [(&mut self.iops, iops), (&mut self.bandwidth, bandwidth)] {
            samples.push_back(value);
            if samples.len() > self.wanted {
                samples.pop_front();
            }
        }
        if self.iops.len() < self.wanted {
            return false;
        }
        let samples = if self.goal.of_operations { &self.iops } else { &self.bandwidth };
        self.found = judge(self.goal, samples);
        self.attained = self.found.criterion.abs() < self.goal.limit;
        self.attained
    }
}

/// The slope by least squares over the samples' numbers, or the greatest distance from their mean.
fn judge(goal: SteadyGoal, samples: &VecDeque<u64>) -> Found {
    let n = samples.len() as f64;
    let sum: f64 = samples.iter().map(|value| *value as f64).sum();
    let mean = sum / n;
    let mut found = Found::default();
    if goal.slope {
        let (sum_x, sum_xx) = (n * (n - 1.0) / 2.0, (n - 1.0) * n * (2.0 * n - 1.0) / 6.0);
        let sum_xy: f64 = samples.iter().enumerate().map(|(x, y)| x as f64 * *y as f64).sum();
        found.slope = (sum_xy - sum_x * sum / n) / (sum_xx - sum_x * sum_x / n);
        found.criterion = found.slope;
    } else {
        found.deviation = samples.iter().map(|value| (*value as f64 - mean).abs()).fold(0.0, f64::max);
        found.criterion = found.deviation;
    }
    if goal.percent {
        found.criterion *= 100.0 / mean;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_and_distances_are_those_of_a_textbook() {
        let samples: VecDeque<u64> = [100, 104, 106, 114].into();
        let goal = |slope, percent| SteadyGoal { of_operations: true, slope, percent, limit: 1.0 };
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(judge(goal(true, false), &samples).criterion, 4.4);
        near(judge(goal(true, true), &samples).criterion, 440.0 / 106.0);
        near(judge(goal(false, false), &samples).criterion, 8.0);
        near(judge(goal(false, true), &samples).criterion, 800.0 / 106.0);
        assert!(judge(goal(true, true), &[0, 0].into()).criterion.is_nan(), "nothing done is not steady");
        assert!(judge(goal(true, false), &[7].into()).criterion.is_nan(), "one sample has no slope");
        assert_eq!((per_second(500, 500_000_000), per_second(5, 0)), (1000, 0));
    }
}
