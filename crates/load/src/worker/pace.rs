//! Slowing down: `rate_iops`, `thinktime`, and sleeping that ends when the run does.

use crate::clock::Clock;
use crate::job::JobOptions;
use crate::offsets::Direction;

/// Below this a sleep is spent spinning: waking up from a real one takes about as long.
const SPIN_NS: u64 = 60_000;

/// Longest single sleep, so that stopping is noticed.
const LONGEST_SLEEP_NS: u64 = 50_000_000;

/// When the next operation of a worker may start.
pub struct Pace {
    /// Ticks between operations of each direction; 0 for no limit.
    distance: [u64; 2],
    /// When the next one is due.
    due: [u64; 2],
    think_ticks: u64,
    spin_ticks: u64,
    think_every: u64,
    until_think: u64,
}

impl Pace {
    /// The pace of a job; `None` if it goes as fast as it can.
    pub fn new(options: &JobOptions, clock: &Clock, now: u64) -> Option<Self> {
        let distance = |rate: Option<u64>| {
            rate.filter(|rate| *rate > 0).map_or(0, |rate| clock.from_ns(1_000_000_000 / rate).max(1))
        };
        let pace = Self {
            distance: [distance(options.rate_iops.read), distance(options.rate_iops.write)],
            due: [now; 2],
            think_ticks: clock.from_ns(options.thinktime.0),
            spin_ticks: clock.from_ns(options.thinktime_spin.0),
            think_every: options.thinktime_blocks.max(1),
            until_think: options.thinktime_blocks.max(1),
        };
        (pace.distance != [0; 2] || pace.think_ticks > 0).then_some(pace)
    }

    /// When an operation of this direction may start, given that it is `now`: (until when to spin, until when to sleep).
    /// A worker that fell behind its rate catches up, as in fio.
    pub fn next(&mut self, direction: Direction, now: u64) -> (u64, u64) {
        let mut wake = now;
        let mut spin = now;
        if self.think_ticks > 0 {
            if self.until_think == 0 {
                spin = now + self.spin_ticks;
                wake = now + self.think_ticks;
                self.until_think = self.think_every;
            }
            self.until_think -= 1;
        }
        let index = direction as usize;
        if let (Some(distance), Some(due)) = (self.distance.get(index).filter(|d| **d > 0), self.due.get_mut(index)) {
            wake = wake.max(*due);
            *due += distance;
        }
        (spin, wake)
    }
}

/// Waits until `until` (ticks) or until `stopped` says so; spins before `spin_until` and shortly before the end.
pub fn wait(clock: &Clock, spin_until: u64, until: u64, stopped: &dyn Fn() -> bool) {
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

    #[test]
    fn rates_keep_their_distance_and_catch_up() {
        let mut options = JobOptions::default();
        assert!(Pace::new(&options, &Clock::gettime(), 0).is_none());
        options.rate_iops.read = Some(1000);
        let mut pace = Pace::new(&options, &Clock::gettime(), 0).expect("paced");
        // A tick of this clock is a nanosecond: operations are a million apart.
        assert_eq!(pace.next(Direction::Read, 0).1, 0);
        assert_eq!(pace.next(Direction::Read, 10).1, 1_000_000);
        // Three distances late: the next two start at once.
        assert_eq!(pace.next(Direction::Read, 5_000_000).1, 5_000_000);
        assert_eq!(pace.next(Direction::Read, 5_000_000).1, 5_000_000);
        assert_eq!(pace.next(Direction::Write, 7).1, 7, "writes have no limit");
    }

    #[test]
    fn thinking_comes_between_blocks() {
        let mut options = JobOptions::default();
        options.thinktime.0 = 500;
        options.thinktime_spin.0 = 200;
        options.thinktime_blocks = 2;
        let mut pace = Pace::new(&options, &Clock::gettime(), 0).expect("paced");
        let wakes: Vec<(u64, u64)> = (0..5).map(|_| pace.next(Direction::Read, 1000)).collect();
        assert_eq!(wakes, [(1000, 1000), (1000, 1000), (1200, 1500), (1000, 1000), (1200, 1500)]);
    }
}
