//! How long the recording loop waits between two looks.

use std::time::Duration;

use pagelab_observe::streams::Stream;

use crate::options::{DEFAULT_RING_BYTES, SessionOptions};

/// Between two looks while much happens. The default ring holds ten times as much at the greatest rate of faults seen, and what
/// is taken soon is still in the processor's cache.
const SHORT: Duration = Duration::from_millis(20);
/// While little happens: a quarter of what the default ring holds if that changes at once, or if each sample of the profile brings
/// a whole copied stack. Every second look samples metrics.
const LONG: Duration = Duration::from_millis(50);
/// While little happens and none of it is dense: rings have room for many seconds, and what waits is metrics.
const SPARSE: Duration = Duration::from_millis(200);
/// Samples of the profile a second and CPU up to which it is not dense.
const SPARSE_HZ: u64 = 100;
/// Looks that must have found little before the next one waits longer.
const QUIET_LOOKS: u32 = 8;
/// Little, in events for each millisecond since the look before: a tenth of what any ring would notice, and several times what
/// sampling at 997 Hz brings on a few CPUs.
const LITTLE_PER_MS: u64 = 10;

/// The pace of the loop.
///
/// A look takes the loop out of bed, and on a machine that is busy, the workload off its CPU. Where the rings stay as good as
/// empty three looks in five find nothing that could not wait.
#[derive(Debug)]
pub(crate) struct Pace {
    wait: Duration,
    longest: Duration,
    quiet_looks: u32,
    seen: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(LONG)
    }
}

impl Pace {
    /// A loop that starts at the short wait, and waits up to `longest` while little happens.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { wait: SHORT, longest, quiet_looks: 0, seen: 0 }
    }

    /// The pace of a recording.
    pub(crate) fn of(options: &SessionOptions) -> Self {
        let has_small_rings = options.ring_bytes_per_cpu < DEFAULT_RING_BYTES;
        let comes_by_the_hundred_thousand =
            |stream| matches!(stream, Stream::Faults | Stream::Syscalls | Stream::Sched);
        let is_sparse = |stream| match stream {
            Stream::Metrics | Stream::Settings | Stream::Tasks => true,
            Stream::Cpu => options.frequency_hz.is_some_and(|hz| hz <= SPARSE_HZ),
            _ => false,
        };
        Self::new(if has_small_rings && options.streams.iter().any(comes_by_the_hundred_thousand) {
            SHORT
        } else if options.streams.iter().all(is_sparse) {
            (options.metrics_interval / 2).clamp(LONG, SPARSE)
        } else {
            LONG
        })
    }

    /// How long to wait for the next look.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    /// A look has found this many events since recording began, and whether tasks or mappings came or went: what is to be read
    /// of new ones in /proc must be read soon.
    pub(crate) fn looked(&mut self, seen: u64, has_moved: bool) {
        let new = seen.saturating_sub(self.seen);
        self.seen = seen;
        if has_moved || new > LITTLE_PER_MS * self.wait.as_millis() as u64 {
            self.wait = SHORT;
            self.quiet_looks = 0;
            return;
        }
        self.quiet_looks += 1;
        if self.quiet_looks >= QUIET_LOOKS {
            self.wait = (self.wait * 2).min(self.longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONG, Pace, QUIET_LOOKS, SHORT};

    fn quiet(pace: &mut Pace, looks: u32) {
        let seen = pace.seen;
        (0..looks).for_each(|_| pace.looked(seen, false));
    }

    #[test]
    fn quiet_looks_grow_apart_and_one_busy_look_ends_that() {
        let mut pace = Pace::new(LONG);
        quiet(&mut pace, QUIET_LOOKS - 1);
        assert_eq!(pace.wait(), SHORT);
        quiet(&mut pace, 10);
        assert_eq!(pace.wait(), LONG);
        // 997 samples a second on two CPUs are still little.
        pace.looked(pace.seen + 100, false);
        assert_eq!(pace.wait(), LONG);
        pace.looked(pace.seen + 100_000, false);
        assert_eq!(pace.wait(), SHORT);
        quiet(&mut pace, QUIET_LOOKS + 10);
        pace.looked(pace.seen, true);
        assert_eq!(pace.wait(), SHORT, "a new task");
    }

    #[test]
    fn small_rings_are_always_looked_at_soon() {
        let mut pace = Pace::new(SHORT);
        quiet(&mut pace, 100);
        assert_eq!(pace.wait(), SHORT);
    }
}
