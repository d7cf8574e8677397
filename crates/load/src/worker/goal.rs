//! `latency_target` and `max_latency`: what an operation may take, and the greatest queue depth at which it does. By the rules of fio 3.33.
//!
//! The depth begins at 1 and is doubled after each window (`latency_window`) in which enough operations (`latency_percentile`) were fast
//! enough; after one in which they were not, it goes half of the way back to the last good one. When it stays the same, measuring begins anew
//! for a last window at that depth, and the job is over (with `latency_run=1` it goes on).

use pagelab_fiojob::{Direction, JobSpec, Operation};

use super::drive::{Drive, End};
use crate::clock::Clock;
use crate::engines::Engine;
use crate::engines::queue::Queue;
use crate::report::Failure;
use crate::verify::walk::Checked;

/// The goal for a worker's latencies.
pub(super) struct Goal {
    /// The limit of every operation, ns; 0 for none.
    most_ns: [u64; Direction::COUNT],
    /// The target, ns; 0 for none.
    target_ns: u64,
    window_ticks: u64,
    percentile: f64,
    goes_on: bool,
    most_depth: u32,
    /// Operations under way at most.
    depth: u32,
    high: u32,
    low: u32,
    stable: u32,
    failed: u64,
    since: u64,
    operations: u64,
    last_window: bool,
    /// The depth was lowered: what is under way has to end before the next window begins.
    lowered: bool,
}

/// The conclusion from a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    GoOn,
    Restart,
    Done,
}

impl Goal {
    /// The goal of a job, if it has one.
    pub(super) fn new(job: &JobSpec, clock: &Clock) -> Option<Self> {
        let o = &job.options;
        if !o.watches_latency() {
            return None;
        }
        let most_depth = u32::try_from(job.depth()).unwrap_or(u32::MAX).max(1);
        let mut goal = Self {
            most_ns: o.max_latency.all().map(|most| most.0),
            target_ns: o.latency_target.0,
            window_ticks: clock.from_ns(o.latency_window.0),
            percentile: o.latency_percentile.0,
            goes_on: o.latency_run,
            most_depth,
            depth: most_depth,
            high: most_depth,
            low: 1,
            stable: 0,
            failed: 0,
            since: clock.ticks(),
            operations: 0,
            last_window: false,
            lowered: false,
        };
        goal.reset(clock.ticks());
        Some(goal)
    }

    /// Measuring begins.
    pub(super) fn reset(&mut self, now: u64) {
        self.begin_window(now, 0);
        if !self.last_window && self.target_ns > 0 {
            (self.depth, self.high, self.low) = (1, self.most_depth, 1);
        }
    }

    /// The depth found so far; `None` without a target.
    pub(super) fn depth(&self) -> Option<u32> {
        (self.target_ns > 0).then_some(self.depth)
    }

    fn begin_window(&mut self, now: u64, operations: u64) {
        (self.since, self.operations, self.failed, self.lowered) = (now, operations, 0, false);
    }

    /// Goes back; false at depth 1, from where there is no way back.
    fn lower(&mut self) -> bool {
        if self.depth == 1 {
            return false;
        }
        self.high = self.depth;
        if self.depth == self.low {
            self.low -= 1;
        }
        self.depth = u32::midpoint(self.depth, self.low).max(1);
        (self.stable, self.lowered) = (0, true);
        true
    }

    /// An operation took so long; gives the limit that ends the job.
    fn took(&mut self, direction: Direction, lat_ns: u64) -> Option<(&'static str, u64)> {
        let most = self.most_ns[direction as usize];
        if most > 0 && lat_ns > most {
            return Some(("max_latency", most));
        }
        if self.target_ns == 0 || lat_ns <= self.target_ns || self.lowered {
            return None;
        }
        if self.percentile < 100.0 {
            self.failed += 1;
            return None;
        }
        (!self.lower()).then_some(("latency_target", self.target_ns))
    }

    /// Looks whether a window is over; `operations` were completed in all.
    fn look(&mut self, now: u64, operations: u64) -> Verdict {
        if self.target_ns == 0 || now.saturating_sub(self.since) < self.window_ticks {
            return Verdict::GoOn;
        }
        let done = operations.saturating_sub(self.operations);
        let good_percent = 100.0 * done.saturating_sub(self.failed) as f64 / done as f64;
        let mut verdict = Verdict::GoOn;
        if good_percent >= self.percentile {
            verdict = self.raise();
        } else {
            self.lower();
        }
        if !self.lowered {
            self.begin_window(now, operations);
        }
        verdict
    }

    fn raise(&mut self) -> Verdict {
        let before = self.depth;
        self.low = self.depth;
        if self.depth + 1 == self.high {
            self.stable += 1;
            if self.stable >= 3 {
                (self.high, self.stable) = (self.high + 1, 0);
            }
        }
        let next = if self.high == self.most_depth {
            self.depth.saturating_mul(2)
        } else {
            u32::midpoint(self.depth, self.high)
        };
        self.depth = next.clamp(1, self.most_depth);
        match (self.goes_on || self.depth != before, self.last_window) {
            (true, _) => Verdict::GoOn,
            (false, false) => {
                self.last_window = true;
                Verdict::Restart
            }
            (false, true) => Verdict::Done,
        }
    }
}

impl<E: Engine, S: Checked, Q: Queue> Drive<'_, E, S, Q> {
    /// An operation of a job with a goal is done.
    #[cold]
    pub(super) fn held_against_goal(&mut self, operation: Operation, lat_ns: u64) -> Option<End> {
        let (option, limit_ns) = self.goal.as_mut()?.took(operation.direction, lat_ns)?;
        let Operation { direction, offset, bytes } = operation;
        let name = direction.name();
        let message =
            format!("{option} is {limit_ns} ns, and the {name} of {bytes} bytes at offset {offset} took {lat_ns} ns");
        Some(End::Failed(Failure { errno: libc::ETIMEDOUT, message }))
    }

    /// Before an operation of a job with a goal: sets the depth, and ends the job when it has found it.
    #[cold]
    pub(super) fn steer(&mut self) -> Option<End> {
        let lowered = self.goal.as_ref().is_some_and(|goal| goal.lowered);
        // As in fio: operations issued at a greater depth are not held against the smaller one.
        if lowered && let Err(end) = self.settle() {
            return Some(end);
        }
        let now = self.clock.ticks();
        let operations = self.sides.iter().map(|side| side.operations).sum();
        let goal = self.goal.as_mut()?;
        if lowered {
            goal.begin_window(now, operations);
        }
        let verdict = goal.look(now, operations);
        if goal.target_ns > 0 {
            self.flight.limits.depth = goal.depth;
        }
        match verdict {
            Verdict::GoOn => None,
            Verdict::Done => Some(End::Time),
            Verdict::Restart => {
                if let Err(end) = self.settle() {
                    return Some(end);
                }
                self.count_from_now();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(words: &str) -> Goal {
        let words: Vec<String> =
            format!("--name=j --ioengine=io_uring --size=1m {words}").split(' ').map(str::to_owned).collect();
        let workload = pagelab_fiojob::parse_args(&words).expect("valid");
        // A tick of this clock is a nanosecond.
        let mut goal = Goal::new(&workload.jobs[0], &Clock::gettime()).expect("a goal");
        goal.begin_window(0, 0);
        goal
    }

    #[test]
    fn the_depth_is_doubled_and_then_found_by_halves() {
        let mut goal = goal("--iodepth=64 --latency_target=100 --latency_window=1ms --latency_percentile=90");
        let (mut now, mut done) = (0, 0);
        let mut depths = vec![goal.depth];
        // Up to 20 operations under way are fast enough.
        for _ in 0..200 {
            now += 1_000_000;
            done += 100;
            let slow = if goal.depth > 20 { 50 } else { 5 };
            (0..slow).for_each(|_| assert_eq!(goal.took(Direction::Read, 100_001), None));
            let verdict = goal.look(now, done);
            if goal.lowered {
                goal.begin_window(now, done);
            }
            if goal.depth != depths[depths.len() - 1] {
                depths.push(goal.depth);
            }
            if verdict == Verdict::Done {
                break;
            }
        }
        assert_eq!(depths[..6], [1, 2, 4, 8, 16, 32]);
        assert!(goal.last_window && (19..=21).contains(&goal.depth), "{depths:?}");
    }

    #[test]
    fn one_that_is_too_slow_ends_the_job_where_none_may_be() {
        let mut all = goal("--iodepth=4 --latency_target=100 --latency_window=1s");
        assert_eq!(all.took(Direction::Read, 100_000), None);
        assert_eq!(all.took(Direction::Read, 100_001), Some(("latency_target", 100_000)));
        all.depth = 4;
        assert_eq!(all.took(Direction::Write, 200_000), None, "the depth is lowered first");
        assert_eq!((all.depth, all.lowered), (2, true));
        let mut most = goal("--max_latency=1ms,2ms");
        assert_eq!(most.took(Direction::Write, 1_500_000), None);
        assert_eq!(most.took(Direction::Read, 1_500_000), Some(("max_latency", 1_000_000)));
        assert_eq!((most.look(u64::MAX, 1), most.depth()), (Verdict::GoOn, None));
    }
}
