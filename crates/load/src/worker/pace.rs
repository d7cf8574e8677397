//! Slowing down: `rate`, `rate_iops`, `thinktime`, and sleeping that ends when the run does.

use pagelab_fiojob::words::RateProcess;
use pagelab_fiojob::{Direction, JobOptions};

use crate::clock::Clock;
use crate::random::{SplitMix64, derive_seed};

/// Below this a sleep is spent spinning: waking up from a real one takes about as long.
const SPIN_NS: u64 = 60_000;

/// Longest single sleep, so that stopping is noticed.
const LONGEST_SLEEP_NS: u64 = 50_000_000;

/// Before this much time has passed nobody is too slow, as in fio.
const SETTLE_NS: u64 = 2_000_000_000;

/// The limit of one direction.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    /// Ticks for a byte; 0 for no limit.
    ticks_per_byte: f64,
    /// Least length of an operation: Poisson's distances are computed from it.
    block_bytes: u64,
    /// When the rate's clock began; pauses may move it.
    from: u64,
    issued_bytes: u64,
    /// Ticks after `from` at which the next operation is due.
    due_after: f64,
}

impl Rate {
    fn limited(&self) -> bool {
        self.ticks_per_byte > 0.0
    }

    fn due(&self) -> u64 {
        self.from.saturating_add(self.due_after as u64)
    }
}

/// The progress at a certain time, to see whether a job is too slow.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    at: u64,
    operations: u64,
    bytes: u64,
}

/// The least that a job has to do per second in one direction.
#[derive(Debug, Clone, Copy, Default)]
struct Least {
    bytes: u64,
    operations: u64,
    mark: Option<Mark>,
}

/// When the next operation of a worker may start.
pub(crate) struct Pace {
    rates: [Rate; Direction::COUNT],
    poisson: bool,
    random: SplitMix64,
    least: [Least; Direction::COUNT],
    cycle_ns: u64,
    began: u64,
    think_ticks: u64,
    spin_ticks: u64,
    /// Operations between pauses; `None` where only time decides.
    think_every: Option<u64>,
    until_think: u64,
    /// Ticks of work between pauses; 0 where only operations decide.
    work_ticks: u64,
    work_until: u64,
    /// Pauses do not have to be caught up.
    forgiving: bool,
    paused_at: Option<u64>,
}

impl Pace {
    /// The pace of a job; `None` if it goes as fast as it can and that is always enough. An operation counts for the bytes
    /// that it transfers: at most `transfer_bytes`, of reads and of writes.
    pub(crate) fn new(
        options: &JobOptions,
        clock: &Clock,
        now: u64,
        transfer_bytes: [u32; 2],
        seed: u64,
    ) -> Option<Self> {
        let second = clock.from_ns(1_000_000_000) as f64;
        let pick =
            |values: &pagelab_fiojob::value::PerDirection<Option<u64>>| values.all().map(|value| value.unwrap_or(0));
        let (bytes, operations) = (pick(&options.rate), pick(&options.rate_iops));
        let (least_bytes, least_operations) = (pick(&options.rate_min), pick(&options.rate_iops_min));
        let rates = Direction::ALL.map(|direction| {
            let index = direction as usize;
            let most = transfer_bytes.get(index).copied().unwrap_or(u32::MAX);
            let block_bytes = u64::from(options.lengths(direction).min_bytes.min(most).max(1));
            // As in fio, operations per second are bytes per second in blocks of the least length.
            let per_second =
                if bytes[index] > 0 { bytes[index] } else { operations[index].saturating_mul(block_bytes) };
            let ticks_per_byte = if per_second == 0 { 0.0 } else { second / per_second as f64 };
            Rate { ticks_per_byte, block_bytes, from: now, ..Rate::default() }
        });
        let work_ticks = clock.from_ns(options.thinktime_iotime.0);
        let think_ticks = clock.from_ns(options.thinktime.0);
        let think_every = match (options.thinktime_blocks, work_ticks) {
            (Some(blocks), _) => Some(blocks.max(1)),
            (None, 0) => Some(1),
            (None, _) => None,
        };
        let pace = Self {
            poisson: options.rate_process == RateProcess::Poisson,
            random: SplitMix64::new(derive_seed(seed, 0x2A7E)),
            least: [0, 1, 2].map(|i| Least { bytes: least_bytes[i], operations: least_operations[i], mark: None }),
            cycle_ns: options.rate_cycle.saturating_mul(1_000_000),
            began: now,
            spin_ticks: clock.from_ns(options.thinktime_spin.0).min(think_ticks),
            until_think: think_every.unwrap_or(0),
            think_every,
            work_until: now.saturating_add(work_ticks).saturating_add(think_ticks),
            work_ticks,
            think_ticks,
            forgiving: options.rate_ignore_thinktime,
            paused_at: None,
            rates,
        };
        let watched = pace.least.iter().any(|least| least.bytes > 0 || least.operations > 0);
        (pace.rates.iter().any(Rate::limited) || pace.think_ticks > 0 || watched).then_some(pace)
    }

    /// When an operation of this direction may start, given that it is `now`: (until when to spin, until when to sleep).
    /// A worker that fell behind its rate catches up, as in fio.
    pub(crate) fn next(&mut self, direction: Direction, now: u64) -> (u64, u64) {
        let mut wake = now;
        let mut spin = now;
        if self.think_ticks > 0 {
            let counted = self.think_every.is_some() && self.until_think == 0;
            let timed = self.work_ticks > 0 && now >= self.work_until;
            if counted || timed {
                spin = now.saturating_add(self.spin_ticks);
                wake = now.saturating_add(self.think_ticks);
                self.until_think = self.think_every.unwrap_or(0);
                self.work_until = wake.saturating_add(self.work_ticks);
                self.paused_at = Some(now);
            }
            self.until_think = self.until_think.saturating_sub(1);
        }
        let rate = &self.rates[direction as usize];
        if rate.limited() {
            wake = wake.max(rate.due());
        }
        (spin, wake)
    }

    /// The worker goes on.
    pub(crate) fn resume(&mut self, now: u64) {
        if let (Some(at), true) = (self.paused_at.take(), self.forgiving) {
            for rate in &mut self.rates {
                rate.from = rate.from.saturating_add(now.saturating_sub(at));
            }
        }
    }

    /// The direction to go next in a mixed pattern: the preferred one unless only the other is due, or is due earlier.
    pub(crate) fn choose(&self, preferred: Direction, now: u64) -> Direction {
        let other = match preferred {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
            // Trims are not mixed with anything that could go before them.
            Direction::Trim => return preferred,
        };
        let due = |direction: Direction| {
            let rate = &self.rates[direction as usize];
            if rate.limited() { rate.due() } else { 0 }
        };
        if due(preferred) <= now || due(preferred) <= due(other) { preferred } else { other }
    }

    /// An operation is issued.
    pub(crate) fn issued(&mut self, direction: Direction, bytes: u32) {
        let rate = &mut self.rates[direction as usize];
        if !rate.limited() {
            return;
        }
        rate.issued_bytes += u64::from(bytes);
        rate.due_after = if self.poisson {
            let distance = rate.ticks_per_byte * rate.block_bytes as f64;
            // 1 - u lies above 0 up to 1: its logarithm is a number.
            rate.due_after - distance * (1.0 - self.random.fraction()).ln()
        } else {
            rate.issued_bytes as f64 * rate.ticks_per_byte
        };
    }

    /// What is wrong, if the job did less than it has to since it was last asked at least a cycle ago; `done` is (operations,
    /// bytes) of reads and of writes.
    pub(crate) fn too_slow(&mut self, clock: &Clock, now: u64, done: [(u64, u64); Direction::COUNT]) -> Option<String> {
        if clock.to_ns(now.saturating_sub(self.began)) < SETTLE_NS {
            return None;
        }
        let mut words = None;
        for (least, (operations, bytes)) in self.least.iter_mut().zip(done) {
            if (least.bytes == 0 && least.operations == 0) || operations == 0 {
                continue;
            }
            let Some(mark) = least.mark else {
                least.mark = Some(Mark { at: now, operations, bytes });
                continue;
            };
            let ns = clock.to_ns(now.saturating_sub(mark.at));
            if ns == 0 || ns < self.cycle_ns {
                continue;
            }
            let per_second = |amount: u64| (u128::from(amount) * 1_000_000_000 / u128::from(ns)) as u64;
            let (got_bytes, got_operations) =
                (per_second(bytes - mark.bytes), per_second(operations - mark.operations));
            if got_bytes < least.bytes {
                words = Some(format!("rate_min={} B/s was not met: {got_bytes} B/s", least.bytes));
            } else if got_operations < least.operations {
                words = Some(format!("rate_iops_min={} was not met: {got_operations} per second", least.operations));
            }
            least.mark = Some(Mark { at: now, operations, bytes });
        }
        words
    }
}

/// Waits until `until` (ticks) or until `stopped` says so; spins before `spin_until` and shortly before the end.
pub(crate) fn wait(clock: &Clock, spin_until: u64, until: u64, stopped: &dyn Fn() -> bool) {
    loop {
        let now = clock.ticks();
        if now >= until || stopped() {
            return;
        }
        let left_ns = clock.to_ns(until - now);
        if now < spin_until || left_ns <= SPIN_NS {
            std::hint::spin_loop();
        } else {
            let nap = (left_ns - SPIN_NS / 2).min(LONGEST_SLEEP_NS);
            // A signal ends the sleep early; the loop looks at the clock and at `stopped` again.
            let _ = rustix::thread::nanosleep(&rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: i64::try_from(nap).unwrap_or(i64::from(i32::MAX)),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(options: &JobOptions) -> Pace {
        // A tick of this clock is a nanosecond.
        Pace::new(options, &Clock::gettime(), 0, [u32::MAX; 2], 1).expect("paced")
    }

    #[test]
    fn rates_keep_their_distance_and_catch_up() {
        let mut options = JobOptions::default();
        assert!(Pace::new(&options, &Clock::gettime(), 0, [u32::MAX; 2], 1).is_none());
        options.rate_iops.read = Some(1000);
        let mut pace = pace(&options);
        let mut wake = |now| {
            let wake = pace.next(Direction::Read, now).1;
            pace.issued(Direction::Read, 4096);
            wake
        };
        // Operations are a million ticks apart.
        assert_eq!(wake(0), 0);
        assert_eq!(wake(10), 1_000_000);
        // Three distances late: the next two start at once.
        assert_eq!([wake(5_000_000), wake(5_000_000)], [5_000_000; 2]);
        assert_eq!(pace.next(Direction::Write, 7).1, 7, "writes have no limit");
    }

    #[test]
    fn bytes_count_where_the_rate_is_in_bytes() {
        let mut options = JobOptions::default();
        options.rate.write = Some(1_000_000);
        let mut pace = pace(&options);
        pace.issued(Direction::Write, 500_000);
        assert_eq!(pace.next(Direction::Write, 0).1, 500_000_000);
        assert_eq!(pace.choose(Direction::Write, 0), Direction::Read, "the other direction goes first");
        assert_eq!(pace.choose(Direction::Write, 600_000_000), Direction::Write);
    }

    #[test]
    fn poisson_has_the_mean_distance() {
        let mut options = JobOptions { rate_process: RateProcess::Poisson, ..JobOptions::default() };
        options.rate_iops.read = Some(1000);
        let mut pace = pace(&options);
        for _ in 0..10_000 {
            pace.issued(Direction::Read, 4096);
        }
        // The sum of n exponential distances has a deviation of 1/sqrt(n) of its mean; five of them here.
        let mean = pace.next(Direction::Read, 0).1 as f64 / 10_000.0;
        assert!((mean / 1e6 - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn thinking_comes_between_blocks() {
        let mut options = JobOptions::default();
        options.thinktime.0 = 500;
        options.thinktime_spin.0 = 200;
        options.thinktime_blocks = Some(2);
        let mut pace = pace(&options);
        let wakes: Vec<(u64, u64)> = (0..5).map(|_| pace.next(Direction::Read, 1000)).collect();
        assert_eq!(wakes, [(1000, 1000), (1000, 1000), (1200, 1500), (1000, 1000), (1200, 1500)]);
    }

    #[test]
    fn thinking_comes_after_time_at_work() {
        let mut options = JobOptions::default();
        options.thinktime.0 = 500;
        options.thinktime_iotime.0 = 10_000;
        let mut pace = pace(&options);
        assert_eq!(pace.next(Direction::Read, 10_000).1, 10_000);
        assert_eq!(pace.next(Direction::Read, 10_500).1, 11_000);
        assert_eq!(pace.next(Direction::Read, 20_000).1, 20_000);
        assert_eq!(pace.next(Direction::Read, 21_000).1, 21_500);
    }

    #[test]
    fn the_slow_are_told_after_they_had_time_to_settle() {
        let mut options = JobOptions::default();
        options.rate_min.read = Some(1000);
        let mut pace = pace(&options);
        let clock = Clock::gettime();
        let second = 1_000_000_000;
        assert_eq!(pace.too_slow(&clock, second, [(1, 1), (0, 0), (0, 0)]), None);
        assert_eq!(pace.too_slow(&clock, 2 * second, [(1, 1), (0, 0), (0, 0)]), None);
        assert_eq!(pace.too_slow(&clock, 3 * second, [(2, 2001), (0, 0), (0, 0)]), None, "2000 in a second");
        let words = pace.too_slow(&clock, 4 * second, [(3, 2100), (0, 0), (0, 0)]).expect("too slow");
        assert!(words.contains("rate_min=1000") && words.contains("99 B/s"), "{words}");
    }
}
