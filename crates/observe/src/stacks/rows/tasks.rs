//! Times off the CPU, and mapping calls, with the stacks that they began with.
//!
//! A stack is taken when a task goes to sleep and waits here until the time is over, which may be long after; both
//! know the instant at which the task left the CPU. A mapping call and its stack know the instant at which it began.

use std::collections::{HashMap, VecDeque};

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::OffcpuRow;
use serde_json::{Value, json};

use crate::bpf::{MapEvent, Observer, OffCpu, TaskStacks};
use crate::cpu::{Sample, SampleCounts};
use crate::feed::{MapAction, push_off_cpu};
use crate::stacks::{End, StackIds, Stacks};
use crate::watcher::{Count, Round};

/// Stacks are kept so long after a younger one of the same task has found its time.
const KEPT_NS: u64 = 1_000_000_000;

/// The counts of stacks, for the manifest.
#[derive(Debug, Default)]
struct Totals {
    taken: u64,
    known: u64,
    copied_bytes: u64,
    entry: u64,
    cut: u64,
    broken: u64,
    no_room: u64,
    kernel_cut: u64,
}

impl Totals {
    fn add(&mut self, sample: &Sample<'_>, ids: StackIds) {
        self.taken += 1;
        self.known += u64::from(sample.place.is_some());
        self.copied_bytes += sample.copy.len() as u64;
        self.no_room += u64::from(sample.no_room);
        self.kernel_cut += u64::from(sample.kernel_cut);
        match ids.end {
            Some(End::Entry) => self.entry += 1,
            Some(End::Cut) => self.cut += 1,
            Some(End::Broken) => self.broken += 1,
            None => {}
        }
    }
}

/// Brings rows and stacks together.
pub(super) struct TaskRows {
    road: TaskStacks,
    /// Per task, in the order of time.
    stacks: HashMap<u32, VecDeque<(u64, StackIds)>>,
    times: Vec<OffCpu>,
    actions: Vec<MapAction>,
    totals: Totals,
    /// The word for its losses.
    stream: &'static str,
}

impl TaskRows {
    /// None if the observer takes no such stacks. `sched` tells whether those of sleeping tasks are among them.
    ///
    /// # Errors
    /// In words, if their rings cannot be mapped.
    pub(super) fn of(observer: &Observer, sched: bool) -> Result<Option<Self>, String> {
        let road = TaskStacks::of(observer).map_err(|error| error.to_string())?;
        let (stacks, totals) = (HashMap::new(), Totals::default());
        let stream = if sched { "sched_stacks" } else { "maps_stacks" };
        Ok(road.map(|road| Self { road, stacks, times: Vec::new(), actions: Vec::new(), totals, stream }))
    }

    /// Takes the times that are over and the mapping calls that have returned; their rows wait for their stacks.
    pub(super) fn take(&mut self, round: &mut Round) {
        self.times.append(&mut round.off_cpu);
        self.actions.append(&mut round.map_actions);
    }

    /// Works on the stacks taken before `until_ns`.
    pub(super) fn drain(&mut self, until_ns: u64, now_ns: u64, stacks: &mut Stacks) {
        let (found, totals) = (&mut self.stacks, &mut self.totals);
        self.road.drain(until_ns, |sample, tell| {
            let ids = stacks.of_task(sample, now_ns, tell);
            totals.add(sample, ids);
            let of_task = found.entry(sample.task_id).or_default();
            // CPUs are looked at one after the other, and the task may have been on several.
            let at = of_task.iter().rposition(|(ts, _)| *ts < sample.ts).map_or(0, |at| at + 1);
            of_task.insert(at, (sample.ts, ids));
        });
    }

    /// Writes the times that began before `until_ns`, and the calls that returned before it; their stacks have been worked on.
    pub(super) fn write(&mut self, until_ns: u64, writer: &mut RecordingWriter) {
        let stacks = &mut self.stacks;
        let mut newest: HashMap<u32, u64> = HashMap::new();
        let mut note = |task_id, ts: u64| {
            let known = newest.entry(task_id).or_default();
            *known = ts.max(*known);
        };
        let columns = writer.table::<OffcpuRow<'_>>();
        self.times.retain(|off| {
            let ripe = off.ts < until_ns;
            if ripe {
                push_off_cpu(off, stack_of(stacks, off.task_id, off.ts), columns);
                note(off.task_id, off.ts);
            }
            !ripe
        });
        // A stack taken before this one may be of something that began after it; both were taken before the call returned.
        self.actions.retain(|action| {
            let ripe = action.returned_ns() < until_ns;
            if ripe {
                let MapEvent { task_id, ts, .. } = action.event;
                action.push(stack_of(stacks, task_id, ts).user, writer);
                note(task_id, ts);
            }
            !ripe
        });
        // Not before: where the recorder got no processor for long, times and calls of seconds are written at once.
        for (task_id, ts) in newest {
            forget_before(stacks, task_id, ts);
        }
    }

    /// The counts, per CPU: losses here leave times without stacks.
    pub(super) fn counts(&self) -> impl Iterator<Item = Count> + '_ {
        let rings = self.road.rings();
        (0..rings.cpus()).map(|cpu| {
            let SampleCounts { seen, lost, .. } = rings.counts(cpu);
            Count { stream: self.stream, cpu: Some(cpu as u32), seen, lost, filtered: 0 }
        })
    }

    /// Their entry in the manifest.
    pub(super) fn told(&self) -> Value {
        let Totals { taken, known, copied_bytes, entry, cut, broken, no_room, kernel_cut } = self.totals;
        let lost: u64 = self.counts().map(|count| count.lost).sum();
        json!({
            "stacks": taken, "lost": lost, "known_from_earlier": known, "copied_bytes": copied_bytes,
            "ustacks_to_entry": entry, "ustacks_cut": cut, "ustacks_broken": broken, "ustacks_without_room": no_room,
            "kstacks_cut": kernel_cut,
        })
    }
}

/// The stack of what began at `ts_ns`.
fn stack_of(stacks: &mut HashMap<u32, VecDeque<(u64, StackIds)>>, task_id: u32, ts_ns: u64) -> StackIds {
    let of_task = stacks.get_mut(&task_id);
    let found = of_task.and_then(|of| of.iter().position(|(ts, _)| *ts == ts_ns).and_then(|at| of.remove(at)));
    found.map(|(_, ids)| ids).unwrap_or_default()
}

/// Forgets the stacks that are much older than what began at `ts_ns`: they are of times that were lost. Times of one task that
/// ended on two CPUs may come a step apart and in the wrong order.
fn forget_before(stacks: &mut HashMap<u32, VecDeque<(u64, StackIds)>>, task_id: u32, ts_ns: u64) {
    let Some(of_task) = stacks.get_mut(&task_id) else { return };
    while of_task.pop_front_if(|(ts, _)| ts.saturating_add(KEPT_NS) < ts_ns).is_some() {}
    if of_task.is_empty() {
        stacks.remove(&task_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_gets_the_stack_of_the_instant_it_began_at_and_no_other() {
        let ids = |id| StackIds { kernel: Some(id), ..StackIds::default() };
        let later = 200 + KEPT_NS;
        let taken = [(100, ids(1)), (150, ids(5)), (200, ids(2)), (300, ids(3)), (later, ids(4))];
        let mut stacks = HashMap::from([(7, VecDeque::from(taken)), (8, VecDeque::from([(200, ids(9))]))]);
        assert_eq!(stack_of(&mut stacks, 7, 200), ids(2));
        assert_eq!(stack_of(&mut stacks, 7, 150), ids(5), "it ended on another CPU");
        assert_eq!(stack_of(&mut stacks, 7, 250), StackIds::default(), "its stack was lost");
        assert_eq!(stack_of(&mut stacks, 7, later), ids(4), "the time of 100 was lost");
        forget_before(&mut stacks, 7, later);
        assert_eq!(stack_of(&mut stacks, 7, 100), StackIds::default(), "not kept for ever");
        assert_eq!(stack_of(&mut stacks, 7, 300), ids(3));
        assert_eq!(stack_of(&mut stacks, 9, 300), StackIds::default());
        assert_eq!(stack_of(&mut stacks, 8, 200), ids(9));
        forget_before(&mut stacks, 7, 300);
        forget_before(&mut stacks, 8, 200);
        assert!(stacks.is_empty(), "nothing is kept of tasks that wait for nothing");
    }
}
