//! The states that are not over, as the last record of each task tells them.

use std::collections::HashMap;

use pagelab_vocab::waits::State;

use super::key::WaitKey;
use super::skeleton::types::{wait_key, wait_sums, wait_sums_flag};
use super::tally::{Kind, Sum};
use crate::moment::{Doing, TaskTime, Wait};
use crate::syscalls::Shapes;

/// A length of time, some of which may go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Span {
    ns: u64,
    /// It goes on since; 0: it does not.
    since: u64,
}

impl Span {
    fn at(self, now: u64) -> u64 {
        self.ns + if self.since == 0 { 0 } else { now.saturating_sub(self.since) }
    }
}

/// What a task does that no sum holds yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Open {
    key: u32,
    off: Span,
    ready: Span,
}

impl Open {
    fn of(sums: &wait_sums) -> Self {
        let has = |flag: wait_sums_flag| sums.flags & flag.0 != 0;
        let lasting = |since| Span { ns: 0, since };
        if has(wait_sums_flag::WAIT_RUNNING) {
            let ended = |ns| Span { ns, since: 0 };
            let (off, ready) = (ended(sums.unsettled_off_ns), ended(sums.unsettled_ready_ns));
            return Self { key: sums.unsettled_key, off, ready };
        }
        let key = sums.open_key;
        match (has(wait_sums_flag::WAIT_OFF), has(wait_sums_flag::WAIT_READY)) {
            (true, true) => {
                let off = Span { ns: sums.since.saturating_sub(sums.left), since: 0 };
                Self { key, off, ready: lasting(sums.since) }
            }
            (true, false) => Self { key, off: lasting(sums.left), ..Self::default() },
            (false, _) => Self { ready: lasting(sums.since), ..Self::default() },
        }
    }
}

/// The tasks that live, by the number that they have in the recording.
#[derive(Debug, Default)]
pub(super) struct Opens {
    tasks: HashMap<u32, Open>,
}

impl Opens {
    /// Takes a task's record. One that is not repeated stands for what the task still does. The last one is told as if everything
    /// were over.
    pub(super) fn take(&mut self, sums: &wait_sums) {
        if sums.flags & (wait_sums_flag::WAIT_DEAD.0 | wait_sums_flag::WAIT_LAST.0) != 0 {
            self.tasks.remove(&sums.task_id);
        } else {
            self.tasks.insert(sums.task_id, Open::of(sums));
        }
    }

    /// What is open at `now`.
    pub(super) fn at(&self, now: u64, calls: &Shapes) -> Vec<TaskTime> {
        let mut all = Vec::with_capacity(self.tasks.len());
        for (task_id, open) in &self.tasks {
            let mut push = |doing, ns| {
                if ns > 0 {
                    all.push(TaskTime { task_id: *task_id, doing, times: 0, ns });
                }
            };
            // Who woke it is told when it has ended.
            let key = WaitKey(open.key & !wait_key::WAIT_WAKER_MASK.0);
            push(Doing::Off(wait_of(key, calls)), open.off.at(now));
            push(Doing::Ready(None), open.ready.at(now));
        }
        all
    }
}

fn wait_of(key: WaitKey, calls: &Shapes) -> Wait {
    Wait { off_state: key.state(), iowait: key.is_io(), call: key.call(calls), by: key.waker() }
}

/// A sum of the recording for who looks on; none for what those have no use for.
pub(super) fn task_time(sum: &Sum, calls: &Shapes) -> Option<TaskTime> {
    let doing = match sum.kind {
        Kind::State(State::Run) => Doing::Run,
        Kind::State(_) => return None,
        Kind::Ready(holder) => Doing::Ready(holder),
        Kind::Off(key) => Doing::Off(wait_of(key, calls)),
    };
    Some(TaskTime { task_id: sum.task_id, doing, times: sum.times.unwrap_or(0), ns: sum.ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::CallFilter;

    const READ: u32 = 1 << 31 | 1 << 16 | 1;

    fn open_at(opens: &Opens, now: u64) -> Vec<(Doing, u64)> {
        let calls = Shapes::of(&CallFilter::default());
        opens.at(now, &calls).into_iter().map(|one| (one.doing, one.ns)).collect()
    }

    #[test]
    fn what_is_not_over_grows_until_the_next_record_tells_otherwise() {
        let mut opens = Opens::default();
        let mut sums = wait_sums { task_id: 3, flags: wait_sums_flag::WAIT_OFF.0, ..wait_sums::default() };
        (sums.left, sums.open_key) = (1000, READ);
        opens.take(&sums);
        let read = Doing::Off(Wait { off_state: "S", iowait: false, call: Some("read"), by: None });
        assert_eq!(open_at(&opens, 1400), [(read, 400)]);
        assert_eq!(open_at(&opens, 2400), [(read, 1400)]);
        // Woken at 2500 by a timer, and not running yet.
        sums.flags |= wait_sums_flag::WAIT_READY.0;
        (sums.since, sums.open_key) = (2500, READ | 5 << wait_key::WAIT_WAKER_SHIFT.0);
        opens.take(&sums);
        assert_eq!(open_at(&opens, 2600), [(read, 1500), (Doing::Ready(None), 100)]);
        // It runs; what was before is in no sum yet, and grows no more.
        sums.flags = wait_sums_flag::WAIT_RUNNING.0;
        (sums.unsettled_key, sums.unsettled_off_ns, sums.unsettled_ready_ns) = (READ, 1500, 150);
        opens.take(&sums);
        assert_eq!(open_at(&opens, 9000), [(read, 1500), (Doing::Ready(None), 150)]);
        sums.flags = wait_sums_flag::WAIT_DEAD.0;
        opens.take(&sums);
        assert_eq!(open_at(&opens, 9000), []);
    }

    #[test]
    fn a_preempted_task_is_ready() {
        let mut opens = Opens::default();
        let flags = wait_sums_flag::WAIT_READY.0;
        opens.take(&wait_sums { task_id: 1, flags, left: 50, since: 50, ..wait_sums::default() });
        assert_eq!(open_at(&opens, 80), [(Doing::Ready(None), 30)]);
        opens.take(&wait_sums { task_id: 1, flags: flags | wait_sums_flag::WAIT_LAST.0, ..wait_sums::default() });
        assert_eq!(open_at(&opens, 90), []);
    }
}
