//! The wall account from every switch (stream `sched`): what each moment counts for is known and not told from sums of a second.
//!
//! The stream's program notes the time of a switch before that of `waits` does, and takes its stacks in between: some 5 us a wait
//! are OFF here and RUN there. With `sched:nostacks` it is half a microsecond.

use std::collections::{BTreeMap, HashMap, HashSet};

use pagelab_recording::tables::OffcpuRow;
use pagelab_recording::{ProbeState, Recording};
use pagelab_vocab::budget::{OFF_OTHER, off_of_stack};
use pagelab_vocab::streams::Stream;
use pagelab_vocab::waits::is_active_wait;

use super::shares::Untold;
use super::states::{OfTask, States};
use crate::error::Result;
use crate::read::{self, Task, Tasks};
use crate::stacks::Stacks;

/// Times off the CPU above which sums have to do: all changes are in memory at once, 24 bytes each and three for each time.
const MOST_TIMES: usize = 5_000_000;

/// What every switch says of the window in which states were summed up; times are of the wall account.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Exact {
    /// RUN by name of the task.
    pub run_ns: BTreeMap<Option<String>, f64>,
    /// READY, whoever had the CPU.
    pub ready_ns: f64,
    /// Active OFF by component.
    pub off_ns: BTreeMap<&'static str, f64>,
    /// Active OFF without a stack.
    pub off_untold_ns: f64,
    /// No task was active.
    pub idle_ns: f64,
}

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// It has not begun, or has ended.
    Nothing,
    /// On a CPU; the number of its name.
    Run(u32),
    Ready,
    /// Active waiting, of this component.
    Off(Option<&'static str>),
    /// Waiting for others.
    Passive,
}

impl Does {
    fn is_active(self) -> bool {
        !matches!(self, Self::Nothing | Self::Passive)
    }
}

/// A task begins to do something.
#[derive(Debug, Clone, Copy)]
struct Change {
    ts: i64,
    /// Its place among the tasks.
    task: u32,
    does: Does,
}

/// A time off the CPU.
struct Off {
    ts: i64,
    /// Until it was woken; none if it was not.
    off_ns: Option<i64>,
    /// Until it ran again; none if it did not.
    dur: Option<i64>,
    does: Does,
}

impl Exact {
    /// Reads it; none unless every switch of the whole recording is known, of which `states` may be a part.
    pub(super) fn load(
        recording: &Recording,
        tasks: &Tasks,
        states: &States,
        untold: &Untold,
        notes: &mut Vec<String>,
    ) -> Result<Option<Self>> {
        let Some(window) = states.window() else { return Ok(None) };
        if recording.span().is_part() || !has_every_switch(recording)? {
            return Ok(None);
        }
        let mut sweep = Sweep::new(window, tasks, states);
        let mut offs: Vec<(u32, Option<u64>, Off)> = Vec::new();
        read::each::<OffcpuRow<'_>>(recording, notes, |row| {
            if let Some(place) = sweep.place(row.task_id)
                && offs.len() <= MOST_TIMES
            {
                offs.push((place, row.kstack_id, off(&row)));
            }
        })?;
        if offs.len() > MOST_TIMES {
            notes.push(format!("more than {MOST_TIMES} times off the CPU: WALL is by sums of a second"));
            return Ok(None);
        }
        let wanted: HashSet<u64> =
            offs.iter().filter(|(.., off)| off.does.is_active()).filter_map(|off| off.1).collect();
        let stacks = Stacks::load(recording, &wanted, notes)?;
        let told = |id: u64| {
            let functions = stacks.functions(id)?;
            Some(off_of_stack(untold.without(&functions)).unwrap_or(OFF_OTHER))
        };
        let components: HashMap<u64, &'static str> = wanted.iter().filter_map(|id| Some((*id, told(*id)?))).collect();
        for (place, kstack_id, mut off) in offs {
            if off.does == Does::Off(None) {
                off.does = Does::Off(kstack_id.and_then(|id| components.get(&id).copied()));
            }
            sweep.take(place, &off);
        }
        Ok(Some(sweep.account()))
    }
}

fn off(row: &OffcpuRow<'_>) -> Off {
    let does = match row.state {
        Some("R") => Does::Ready,
        state if is_active_wait(state, row.iowait) => Does::Off(None),
        _ => Does::Passive,
    };
    let ready_ns = row.runqueue_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0);
    Off { ts: row.ts, off_ns: row.dur.map(|dur| dur.saturating_sub(ready_ns)), dur: row.dur, does }
}

/// The stream ran from the beginning and lost nothing.
fn has_every_switch(recording: &Recording) -> Result<bool> {
    let is_active =
        |probe: &pagelab_recording::Probe| probe.name == Stream::Sched.name() && probe.state == ProbeState::Active;
    if !recording.manifest().probes.iter().any(is_active) {
        return Ok(false);
    }
    let [_, lost] = read::loss_of(recording, Stream::Sched, &mut Vec::new())?;
    Ok(lost == 0)
}

/// A task from its beginning to its last instant.
#[derive(Debug, Clone, Copy)]
struct Life {
    /// The number of its name.
    name: u32,
    begin_ns: i64,
    end_ns: i64,
    /// On a CPU, and off it as the times told so far say.
    run_ns: u64,
    off_ns: u64,
    /// It was there when recording began.
    is_old: bool,
    /// When it was first seen, if the window is a part of the recording and begins later: what it did then is known.
    seen_before_ns: Option<i64>,
}

impl Life {
    fn of(task: &Task, of: OfTask, name: u32, [begin_ns, end_ns]: [i64; 2], is_part: bool) -> Self {
        Self {
            seen_before_ns: (is_part && task.first_ts < begin_ns).then_some(task.first_ts),
            name,
            begin_ns: task.first_ts.max(begin_ns),
            end_ns: if task.exit.is_some() { of.last_ts } else { end_ns },
            run_ns: of.run_ns,
            off_ns: 0,
            is_old: task.present_at_start,
        }
    }

    /// When it first had a CPU. The stream tells how long a task was off it from the first time that it left it on; what a new
    /// task lacks to its life it waited for its first turn.
    fn first_run_ns(&self) -> i64 {
        let life_ns = self.end_ns.saturating_sub(self.begin_ns);
        let told_ns = i64::try_from(self.run_ns.saturating_add(self.off_ns)).unwrap_or(i64::MAX);
        self.begin_ns + life_ns.saturating_sub(told_ns).max(0)
    }
}

/// Changes of what tasks do, in order of time once all are known.
struct Sweep {
    window: [i64; 2],
    places: HashMap<u32, u32>,
    lives: Vec<Life>,
    names: Vec<Option<String>>,
    changes: Vec<Change>,
}

impl Sweep {
    fn new(window: [i64; 2], tasks: &Tasks, states: &States) -> Self {
        let mut sweep =
            Self { window, places: HashMap::new(), lives: Vec::new(), names: Vec::new(), changes: Vec::new() };
        let mut numbers: HashMap<Option<&str>, u32> = HashMap::new();
        for (task_id, of) in &states.tasks {
            let Some(task) = tasks.get(*task_id) else { continue };
            let name = *numbers.entry(task.comm()).or_insert_with(|| {
                sweep.names.push(task.comm().map(str::to_owned));
                sweep.names.len() as u32 - 1
            });
            sweep.places.insert(*task_id, sweep.lives.len() as u32);
            sweep.lives.push(Life::of(task, *of, name, window, states.is_part()));
        }
        sweep
    }

    fn place(&self, task_id: u32) -> Option<u32> {
        self.places.get(&task_id).copied()
    }

    fn add(&mut self, task: u32, ts: i64, does: Does) {
        self.changes.push(Change { ts, task, does });
    }

    /// A time off the CPU; those of a task come in order of time.
    fn take(&mut self, place: u32, off: &Off) {
        let life = &mut self.lives[place as usize];
        let (name, until) = (life.name, off.dur.map_or(life.end_ns, |dur| off.ts + dur));
        life.off_ns += u64::try_from(until.min(life.end_ns) - off.ts.max(life.begin_ns)).unwrap_or(0);
        self.add(place, off.ts, off.does);
        let Some((off_ns, dur)) = off.off_ns.zip(off.dur) else { return };
        if off_ns < dur {
            self.add(place, off.ts + off_ns, Does::Ready);
        }
        self.add(place, off.ts + dur, Does::Run(name));
    }

    /// Goes through the window: a moment in which `a` tasks are active counts for each by 1/a.
    fn account(self) -> Exact {
        let Self { window: [begin, end], lives, names, changes, .. } = self;
        let change = |task, ts, does| Change { ts, task, does };
        let begins = (0..).zip(&lives).flat_map(|(task, life)| {
            // What a task did that was there before is not known until its first switch is.
            let first = if life.is_old { Does::Nothing } else { Does::Ready };
            let (begin_ns, first_run_ns) =
                life.seen_before_ns.map_or((life.begin_ns, life.first_run_ns()), |seen_ns| (seen_ns, seen_ns));
            [change(task, begin_ns, first), change(task, first_run_ns, Does::Run(life.name))]
        });
        let ends = (0..).zip(&lives).map(|(task, life)| change(task, life.end_ns, Does::Nothing));
        // The rest of the window is told, too.
        let last = (0..).zip(&lives).map(|(task, _)| change(task, i64::MAX, Does::Nothing));
        let mut changes: Vec<Change> = begins.chain(changes).chain(ends).chain(last).collect();
        // Stable: changes of a task at one time stay in order, its beginning first.
        changes.sort_by_key(|change| change.ts);
        let (mut exact, mut run_ns) = (Exact::default(), vec![0.0; names.len()]);
        let mut now: Vec<(Does, f64)> = vec![(Does::Nothing, 0.0); lives.len()];
        // What a task that was active all the time would have by now.
        let (mut at, mut each_ns, mut active) = (begin, 0.0_f64, 0_u32);
        for change in changes {
            let ts = change.ts.clamp(begin, end);
            match active {
                0 => exact.idle_ns += (ts - at) as f64,
                _ => each_ns += (ts - at) as f64 / f64::from(active),
            }
            at = ts;
            let task = change.task as usize;
            let (does, since) = now[task];
            // What is told of a task after its end is how it ended.
            let next = if change.ts >= lives[task].end_ns { Does::Nothing } else { change.does };
            match does {
                Does::Nothing | Does::Passive => {}
                Does::Run(name) => run_ns[name as usize] += each_ns - since,
                Does::Ready => exact.ready_ns += each_ns - since,
                Does::Off(Some(component)) => *exact.off_ns.entry(component).or_default() += each_ns - since,
                Does::Off(None) => exact.off_untold_ns += each_ns - since,
            }
            active = active + u32::from(next.is_active()) - u32::from(does.is_active());
            now[task] = (next, each_ns);
        }
        exact.run_ns = names.into_iter().zip(run_ns).collect();
        exact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks by their beginnings, ends and times on a CPU.
    fn sweep(tasks: &[(i64, i64, u64)]) -> Sweep {
        let life = |&(begin_ns, end_ns, run_ns)| Life {
            name: 0,
            begin_ns,
            end_ns,
            run_ns,
            off_ns: 0,
            is_old: false,
            seen_before_ns: None,
        };
        Sweep {
            window: [0, 1000],
            places: HashMap::new(),
            lives: tasks.iter().map(life).collect(),
            names: vec![Some("a".to_owned())],
            changes: Vec::new(),
        }
    }

    fn off(ts: i64, off_ns: i64, dur: i64, does: Does) -> Off {
        Off { ts, off_ns: Some(off_ns), dur: Some(dur), does }
    }

    fn sum(exact: &Exact) -> f64 {
        let run_ns: f64 = exact.run_ns.values().sum();
        let off_ns: f64 = exact.off_ns.values().sum();
        run_ns + off_ns + exact.ready_ns + exact.off_untold_ns + exact.idle_ns
    }

    #[test]
    fn a_moment_counts_for_each_active_task_alike() {
        // The first reads from 100 to 300 and is queued until 400; the second lives from 200 to 600.
        let mut sweep = sweep(&[(0, 1000, 700), (200, 600, 400)]);
        sweep.take(0, &off(100, 200, 300, Does::Off(Some("off.read"))));
        let exact = sweep.account();
        let near = |ns: f64, wanted: f64| assert!((ns - wanted).abs() < 1e-6, "{ns}, wanted {wanted}: {exact:?}");
        near(exact.off_ns["off.read"], 100.0 + 50.0);
        near(exact.ready_ns, 50.0);
        // 100 alone, 200 beside the other and 400 alone; the other 100 and 100.
        near(exact.run_ns[&Some("a".to_owned())], 100.0 + 100.0 + 400.0 + 200.0);
        near(exact.idle_ns, 0.0);
        near(sum(&exact), 1000.0);
    }

    #[test]
    fn waiting_for_others_is_idle_if_nobody_else_is_active() {
        let mut sweep = sweep(&[(0, 900, 550)]);
        sweep.take(0, &off(100, 250, 250, Does::Passive));
        // Never woken, and then ended all the same: nothing is active after the end.
        sweep.take(0, &Off { ts: 800, off_ns: None, dur: None, does: Does::Off(None) });
        let exact = sweep.account();
        assert!((exact.idle_ns - 350.0).abs() < 1e-6, "{exact:?}");
        assert!((exact.off_untold_ns - 100.0).abs() < 1e-6, "{exact:?}");
        assert!((sum(&exact) - 1000.0).abs() < 1e-6, "{exact:?}");
    }

    #[test]
    fn a_new_task_waits_for_its_first_turn() {
        // It had a CPU for 300 of 1000 and slept for 500: 200 are left.
        let mut sweep = sweep(&[(0, 1000, 300)]);
        sweep.take(0, &off(400, 500, 500, Does::Passive));
        let exact = sweep.account();
        assert!((exact.ready_ns - 200.0).abs() < 1e-6 && (exact.idle_ns - 500.0).abs() < 1e-6, "{exact:?}");
        assert!((sum(&exact) - 1000.0).abs() < 1e-6, "{exact:?}");
    }
}
