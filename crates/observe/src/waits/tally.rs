//! From the programs' sums, which only rise, to the rows of an interval.

use std::collections::HashMap;

use pagelab_vocab::waits::{Holder, State};

use super::key::{HOLDERS, WaitKey};
use super::skeleton::types::{wait_slot, wait_slot_event, wait_sums, wait_sums_flag};

/// Time of one kind, for the table `waits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    /// End of the interval, or of the task; CLOCK_MONOTONIC, ns.
    pub ts: u64,
    pub task_id: u32,
    pub kind: Kind,
    /// How often the state ended; none where that is not counted.
    pub times: Option<u64>,
    pub ns: u64,
}

/// What the time was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One of the states that have no wait.
    State(State),
    /// It could run, and this had the CPU; none while it still has none.
    Ready(Option<Holder>),
    Off(WaitKey),
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    generation: u32,
    times: u64,
    off_ns: u64,
}

/// What has been told of a task.
#[derive(Debug, Clone, Default)]
struct Told {
    run_ns: u64,
    runs: u64,
    runtime_ns: u64,
    run_delay_ns: u64,
    ready: [(u64, u64); HOLDERS.len()],
    slots: [Slot; SLOTS],
}

const SLOTS: usize = 8;

/// The tasks, as far as their sums have been told.
#[derive(Debug, Default)]
pub(super) struct Tally {
    tasks: HashMap<u32, Told>,
}

/// What a sum has risen by. Sums are read while they are added to, so one may seem to have fallen for an instant.
fn rise(told: &mut u64, now: u64) -> u64 {
    let by = now.saturating_sub(*told);
    *told += by;
    by
}

impl Told {
    fn slot(&mut self, index: usize, now: &wait_slot) -> Option<(u64, u64)> {
        let known = self.slots.get_mut(index)?;
        // It has been given to another key since: what it held was sent then.
        if now.key == 0 || now.generation < known.generation {
            return None;
        }
        if now.generation > known.generation {
            *known = Slot { generation: now.generation, ..Slot::default() };
        }
        let (times, ns) = (rise(&mut known.times, now.times), rise(&mut known.off_ns, now.off_ns));
        (times > 0 || ns > 0).then_some((times, ns))
    }
}

impl Tally {
    /// Tells what has been added to a task's sums. `ts` is the end of the interval; the task's own last instant if it is dead.
    /// `is_last`: states that are not over are told, too, as far as they go.
    pub(super) fn sums(&mut self, sums: &wait_sums, ts: u64, is_last: bool, sink: &mut impl FnMut(Sum)) {
        let has = |flag: wait_sums_flag| sums.flags & flag.0 != 0;
        let task_id = sums.task_id;
        let is_dead = has(wait_sums_flag::WAIT_DEAD);
        let told = self.tasks.entry(task_id).or_default();
        let mut tell = |kind, times: Option<u64>, ns| {
            if ns > 0 || times.is_some_and(|times| times > 0) {
                sink(Sum { ts, task_id, kind, times, ns });
            }
        };
        let open_ns = |from: u64, to: u64| if from == 0 { 0 } else { to.saturating_sub(from) };
        let running_ns = if has(wait_sums_flag::WAIT_RUNNING) { open_ns(sums.since, sums.ts) } else { 0 };
        let runs = rise(&mut told.runs, sums.runs);
        tell(Kind::State(State::Run), Some(runs), rise(&mut told.run_ns, sums.run_ns + running_ns));
        tell(Kind::State(State::KernelRun), None, rise(&mut told.runtime_ns, sums.runtime_ns));
        tell(Kind::State(State::KernelReady), None, rise(&mut told.run_delay_ns, sums.run_delay_ns));
        for (at, holder) in HOLDERS.into_iter().enumerate() {
            let (times, ns) = &mut told.ready[at];
            let times = rise(times, sums.readies[at]);
            tell(Kind::Ready(Some(holder)), Some(times), rise(ns, sums.ready_ns[at]));
        }
        for (index, slot) in sums.slots.iter().enumerate() {
            if let Some((times, ns)) = told.slot(index, slot) {
                tell(Kind::Off(WaitKey(slot.key)), Some(times), ns);
            }
        }
        if is_last && !is_dead {
            let is_ready = has(wait_sums_flag::WAIT_READY);
            if has(wait_sums_flag::WAIT_OFF) {
                let until = if is_ready { sums.since } else { sums.ts };
                tell(Kind::Off(WaitKey(sums.open_key)), Some(0), open_ns(sums.left, until));
            }
            if is_ready {
                tell(Kind::Ready(None), Some(0), open_ns(sums.since, sums.ts));
            }
        }
        if is_dead {
            self.tasks.remove(&task_id);
        }
    }

    /// Tells what a slot held that was given to another key.
    pub(super) fn slot(&mut self, event: &wait_slot_event, sink: &mut impl FnMut(Sum)) {
        let (index, task_id) = (event.index as usize, event.task_id);
        let told = self.tasks.entry(task_id).or_default();
        let Some((times, ns)) = told.slot(index, &event.slot) else { return };
        if let Some(known) = told.slots.get_mut(index) {
            *known = Slot { generation: event.slot.generation + 1, ..Slot::default() };
        }
        let kind = Kind::Off(WaitKey(event.slot.key));
        sink(Sum { ts: event.ts, task_id, kind, times: Some(times), ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [u32; 2] = [1 << 31 | 1 << 16 | 1, 1 << 31 | 2 << 16 | 0x4b];

    fn taken(tally: &mut Tally, sums: &wait_sums, is_last: bool) -> Vec<(Kind, Option<u64>, u64)> {
        let mut all = Vec::new();
        tally.sums(sums, sums.ts, is_last, &mut |sum| all.push((sum.kind, sum.times, sum.ns)));
        all
    }

    fn slot(key: u32, generation: u32, times: u64, off_ns: u64) -> wait_slot {
        wait_slot { key, generation, times, off_ns }
    }

    #[test]
    fn what_is_told_is_the_rise_and_sums_to_the_life() {
        let mut tally = Tally::default();
        let mut sums =
            wait_sums { task_id: 3, ts: 1000, flags: wait_sums_flag::WAIT_RUNNING.0, ..wait_sums::default() };
        (sums.since, sums.run_ns, sums.runs) = (900, 300, 2);
        sums.ready_ns[1] = 100;
        sums.readies[1] = 2;
        sums.slots[0] = slot(KEYS[0], 0, 2, 500);
        let first = taken(&mut tally, &sums, false);
        let expected = [
            (Kind::State(State::Run), Some(2), 400),
            (Kind::Ready(Some(Holder::Foreign)), Some(2), 100),
            (Kind::Off(WaitKey(KEYS[0])), Some(2), 500),
        ];
        assert_eq!(first, expected);
        assert_eq!(taken(&mut tally, &sums, false), [], "nothing has risen");
        // It left at 1100 and has not been woken.
        (sums.run_ns, sums.runs, sums.flags) = (500, 3, wait_sums_flag::WAIT_OFF.0);
        (sums.ts, sums.left, sums.since, sums.open_key) = (2000, 1100, 0, KEYS[1]);
        assert_eq!(taken(&mut tally, &sums, false), [(Kind::State(State::Run), Some(1), 100)]);
        assert_eq!(taken(&mut tally, &sums, true), [(Kind::Off(WaitKey(KEYS[1])), Some(0), 900)]);
        // Or it was woken at 1500 and has no CPU yet.
        (sums.flags, sums.since) = (wait_sums_flag::WAIT_OFF.0 | wait_sums_flag::WAIT_READY.0, 1500);
        let both = [(Kind::Off(WaitKey(KEYS[1])), Some(0), 400), (Kind::Ready(None), Some(0), 500)];
        assert_eq!(taken(&mut tally, &sums, true), both);
    }

    #[test]
    fn a_sum_that_seems_to_fall_is_told_when_it_has_risen_again() {
        let mut tally = Tally::default();
        let mut sums =
            wait_sums { task_id: 3, ts: 1000, flags: wait_sums_flag::WAIT_RUNNING.0, ..wait_sums::default() };
        (sums.since, sums.run_ns) = (500, 0);
        assert_eq!(taken(&mut tally, &sums, false), [(Kind::State(State::Run), Some(0), 500)]);
        // It was read between leaving the CPU and the sum.
        (sums.since, sums.flags) = (0, 0);
        assert_eq!(taken(&mut tally, &sums, false), []);
        sums.run_ns = 700;
        assert_eq!(taken(&mut tally, &sums, false), [(Kind::State(State::Run), Some(0), 200)]);
    }

    #[test]
    fn slots_that_gave_way_are_told_once_whatever_comes_first() {
        let mut tally = Tally::default();
        let mut sums = wait_sums { task_id: 3, ts: 10, ..wait_sums::default() };
        sums.slots[1] = slot(KEYS[0], 0, 1, 40);
        assert_eq!(taken(&mut tally, &sums, false), [(Kind::Off(WaitKey(KEYS[0])), Some(1), 40)]);
        let gone =
            wait_slot_event { task_id: 3, index: 1, slot: slot(KEYS[0], 0, 3, 100), ..wait_slot_event::default() };
        let mut told = Vec::new();
        tally.slot(&gone, &mut |sum| told.push((sum.kind, sum.times, sum.ns)));
        assert_eq!(told, [(Kind::Off(WaitKey(KEYS[0])), Some(2), 60)]);
        // A walk that had read it before.
        assert_eq!(taken(&mut tally, &sums, false), []);
        sums.slots[1] = slot(KEYS[1], 1, 1, 7);
        assert_eq!(taken(&mut tally, &sums, false), [(Kind::Off(WaitKey(KEYS[1])), Some(1), 7)]);
        // Its record was lost: the next key begins at nothing all the same.
        sums.slots[1] = slot(KEYS[0], 2, 1, 9);
        assert_eq!(taken(&mut tally, &sums, false), [(Kind::Off(WaitKey(KEYS[0])), Some(1), 9)]);
        let outside = wait_slot_event { task_id: 3, index: 8, ..gone };
        tally.slot(&outside, &mut |sum| panic!("{sum:?} of a slot that there is not"));
    }

    #[test]
    fn the_dead_are_forgotten() {
        let mut tally = Tally::default();
        let mut sums = wait_sums { task_id: 3, run_ns: 5, flags: wait_sums_flag::WAIT_DEAD.0, ..wait_sums::default() };
        assert_eq!(taken(&mut tally, &sums, true), [(Kind::State(State::Run), Some(0), 5)]);
        assert!(tally.tasks.is_empty());
        sums.run_ns = 3;
        assert_eq!(taken(&mut tally, &sums, true).len(), 1, "another of the same number");
    }
}
