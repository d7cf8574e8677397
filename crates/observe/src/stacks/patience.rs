//! Time for reading what others may have written: a share of all time, so that no file keeps the recorder from its rings.

use std::time::{Duration, Instant};

/// Share of the time that goes by: one in so many.
const SHARE: u32 = 10;
/// The most that is saved up.
const SAVED: Duration = Duration::from_millis(500);
/// The time there is when the recording is being closed.
const CLOSING: Duration = Duration::from_secs(2);

/// The time that is left.
#[derive(Debug)]
pub(super) struct Patience {
    left: Duration,
    /// When time was last added; none if none is added.
    added: Option<Instant>,
}

impl Default for Patience {
    fn default() -> Self {
        Self { left: SAVED, added: Some(Instant::now()) }
    }
}

impl Patience {
    /// For the end of a recording, when nothing waits in rings.
    pub(super) fn for_closing() -> Self {
        Self { left: CLOSING, added: None }
    }

    /// Whether some is left.
    pub(super) fn is_left(&mut self) -> bool {
        if self.left.is_zero()
            && let Some(added) = &mut self.added
        {
            let now = Instant::now();
            let went_by = now.saturating_duration_since(*added);
            self.left = (went_by / SHARE).min(SAVED);
            *added = now.max(*added);
        }
        !self.left.is_zero()
    }

    /// Takes some away; the more was taken, the longer it lasts until there is some again.
    pub(super) fn spend(&mut self, ns: u64) {
        let spent = Duration::from_nanos(ns);
        let beyond = spent.saturating_sub(self.left);
        self.left = self.left.saturating_sub(spent);
        if let Some(added) = &mut self.added
            && self.left.is_zero()
        {
            *added = Instant::now() + beyond * SHARE;
        }
    }
}

/// CPU time of this thread, ns.
pub(super) fn thread_cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_is_paid_back() {
        let mut patience = Patience::default();
        patience.spend(100_000_000);
        assert!(patience.is_left());
        patience.spend(3_600_000_000_000);
        assert!(!patience.is_left());
        let mut closing = Patience::for_closing();
        closing.spend(1_000_000_000);
        assert!(closing.is_left());
        closing.spend(1_500_000_000);
        assert!(!closing.is_left());
    }
}
