//! `show DIR sched`: on a CPU, ready without one, or waiting; for what, and which task ended the wait.

use std::collections::{BTreeMap, HashMap, HashSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::OffcpuRow;
use pagelab_vocab::streams::Stream;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::calls::{self, Split};
use crate::error::Result;
use crate::read::{self, Tasks};
use crate::selection::{Selection, cut};
use crate::stacks::Stacks;

/// Times off a CPU of one kind.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Off {
    /// How often.
    pub times: u64,
    /// How long in all, ns.
    pub ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Of `ns`, ready and without a CPU; null if that was not recorded.
    pub queue_ns: Option<u64>,
    /// Times that had not ended when recording did; they have no duration.
    pub unfinished: u64,
}

impl Off {
    fn add(&mut self, row: &OffcpuRow<'_>) {
        self.times += 1;
        if let Some(ns) = row.runqueue_ns {
            self.queue_ns = Some(self.queue_ns.unwrap_or(0).saturating_add(ns));
        }
        match row.dur.and_then(|dur| u64::try_from(dur).ok()) {
            Some(ns) => {
                self.ns = self.ns.saturating_add(ns);
                self.max_ns = self.max_ns.max(ns);
            }
            None => self.unfinished += 1,
        }
    }
}

/// One task's time on and off the CPUs.
#[derive(Debug, Serialize)]
pub struct OneTask {
    /// The task, unique in the recording.
    pub task_id: u32,
    /// Process id; null if the task is not known.
    pub pid: Option<i32>,
    /// Thread id; null if the task is not known.
    pub tid: Option<i32>,
    /// Name of the task; null if it is not known.
    pub comm: Option<String>,
    /// From its first event to its end, or to the end of the recording.
    pub life_ns: Option<u64>,
    /// What of it was not off a CPU.
    pub on_cpu_ns: Option<u64>,
    /// User and system time as the kernel accounts it; known of tasks that ended.
    pub accounted_cpu_ns: Option<u64>,
    /// All its times off a CPU.
    pub off: Off,
    /// Preempted: ready, without a CPU.
    pub preempted: Off,
    /// Waiting, by the scheduler's state.
    pub waiting: BTreeMap<String, Off>,
    /// Waits until the task ran again.
    pub waiting_ns: u64,
    /// Waits until it was woken; null if the time in the run queue was not recorded.
    pub asleep_ns: Option<u64>,
    /// Ready and without a CPU: preempted, or woken and not yet running.
    pub queue_ns: Option<u64>,
}

/// How many waits have stacks.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Waits {
    /// Waits; times preempted are none.
    pub times: u64,
    /// Of those, with a kernel stack.
    pub with_kstack: u64,
    /// Of those, with a stack of the program.
    pub with_ustack: u64,
    /// User stacks by how they ended, where that is known.
    pub ustacks_to_entry: u64,
    /// See `ustacks_to_entry`.
    pub ustacks_cut: u64,
    /// See `ustacks_to_entry`.
    pub ustacks_broken: u64,
}

impl Waits {
    fn add(&mut self, row: &OffcpuRow<'_>) {
        self.times += 1;
        self.with_kstack += u64::from(row.kstack_id.is_some());
        self.with_ustack += u64::from(row.ustack_id.is_some());
        match row.ustack_end {
            Some("entry") => self.ustacks_to_entry += 1,
            Some("cut") => self.ustacks_cut += 1,
            Some("broken") => self.ustacks_broken += 1,
            _ => {}
        }
    }
}

/// Times off a CPU with the same state and stacks.
#[derive(Debug, Serialize)]
pub struct OneStack {
    /// The scheduler's state.
    pub state: Option<String>,
    /// Kernel stack.
    pub kstack_id: Option<u64>,
    /// Stack of the program.
    pub ustack_id: Option<u64>,
    /// Times off a CPU.
    pub off: Off,
    /// Functions, innermost first; null if they are not in the recording.
    pub kernel: Option<Vec<String>>,
    /// See `kernel`.
    pub user: Option<Vec<String>>,
}

/// Waits of one task that one task ended.
#[derive(Debug, Serialize)]
pub struct OneWake {
    /// Null if no recorded task did it.
    pub waker: Option<String>,
    /// The same by its id.
    pub waker_task_id: Option<u32>,
    /// The task that waited.
    pub wakee: String,
    /// The same by its id.
    pub wakee_task_id: u32,
    /// The waits.
    pub off: Off,
}

/// Where the time of the calls of one name went.
#[derive(Debug, Serialize)]
pub struct OneCall {
    /// Name of the call.
    pub name: String,
    /// Calls whose time asleep is known.
    pub calls: u64,
    /// From entry to return, ns.
    pub total_ns: u64,
    /// On a CPU, ns.
    pub on_cpu_ns: u64,
    /// Off a CPU until woken, ns.
    pub waiting_ns: u64,
    /// Ready and without a CPU, ns.
    pub queue_ns: u64,
}

/// Running, ready or waiting: one row per task, stack, wake-up and call.
#[derive(Debug, Serialize)]
pub struct SchedView {
    /// Times off a CPU in the recording.
    pub rows_in_recording: u64,
    /// Tasks, ranked.
    pub tasks: Vec<OneTask>,
    /// Rows before the list was cut.
    pub tasks_total: usize,
    /// Stacks of the waits.
    pub waits: Waits,
    /// Stacks, longest time first.
    pub stacks: Vec<OneStack>,
    /// Rows before the list was cut.
    pub stacks_total: usize,
    /// Who ended waits, longest time first.
    pub wakes: Vec<OneWake>,
    /// Rows before the list was cut.
    pub wakes_total: usize,
    /// Null if calls were not recorded, or without their times asleep.
    pub syscalls: Option<Vec<OneCall>>,
    /// Rows before the list was cut; null without a list.
    pub syscalls_total: Option<usize>,
}

#[derive(Debug, Default)]
struct PerTask {
    off: Off,
    preempted: Off,
    waiting: BTreeMap<String, Off>,
}

type StackKey = (Option<String>, Option<u64>, Option<u64>);

#[derive(Debug, Default)]
struct Counted {
    rows: u64,
    selected: u64,
    /// The last time that anything was seen.
    end: i64,
    tasks: HashMap<u32, PerTask>,
    waits: Waits,
    stacks: HashMap<StackKey, Off>,
    wakes: HashMap<(Option<u32>, u32), Off>,
}

impl Counted {
    fn take(&mut self, row: &OffcpuRow<'_>) {
        self.selected += 1;
        let task = self.tasks.entry(row.task_id).or_default();
        task.off.add(row);
        let runnable = row.state.is_some_and(|state| state.starts_with('R'));
        if runnable {
            task.preempted.add(row);
        } else {
            self.waits.add(row);
            let state = row.state.unwrap_or("unknown");
            match task.waiting.get_mut(state) {
                Some(off) => off.add(row),
                None => task.waiting.entry(state.to_owned()).or_default().add(row),
            }
            self.wakes.entry((row.waker_task_id, row.task_id)).or_default().add(row);
        }
        if row.kstack_id.is_some() || row.ustack_id.is_some() {
            let key = (row.state.map(str::to_owned), row.kstack_id, row.ustack_id);
            self.stacks.entry(key).or_default().add(row);
        }
    }
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<SchedView>> {
    let sort = selection.sort_by(&["waiting", "preempted", "queue", "off", "oncpu", "times", "max", "task"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let mut counted = Counted::default();
    read::each::<OffcpuRow>(recording, &mut notes, |row| {
        counted.rows += 1;
        counted.end = counted.end.max(row.ts.saturating_add(row.dur.unwrap_or(0)));
        if tasks.wants(selection, row.task_id, row.ts) {
            counted.take(&row);
        }
    })?;
    read::lost(recording, Stream::Sched, &mut notes)?;
    absence::nothing(recording, Stream::Sched, "times off a CPU", counted.rows, counted.selected, &mut notes)?;
    let mut rows: Vec<OneTask> = counted.tasks.iter().map(|(id, task)| one_task(*id, task, &tasks, &counted)).collect();
    order(&mut rows, sort);
    let limit = selection.limit(true);
    let (rows, tasks_total) = cut(rows, limit);
    let (stacks, stacks_total) = stacks(recording, &counted, limit, &mut notes)?;
    let mut wakes: Vec<OneWake> = counted.wakes.iter().map(|(key, off)| one_wake(*key, *off, &tasks)).collect();
    wakes.sort_by_key(|wake| (std::cmp::Reverse(wake.off.ns), wake.waker_task_id, wake.wakee_task_id));
    let (wakes, wakes_total) = cut(wakes, limit);
    let (syscalls, syscalls_total) =
        split(recording, selection, &tasks, &mut notes)?.map(|rows| cut(rows, limit)).unzip();
    let data = SchedView {
        rows_in_recording: counted.rows,
        tasks: rows,
        tasks_total,
        waits: counted.waits,
        stacks,
        stacks_total,
        wakes,
        wakes_total,
        syscalls,
        syscalls_total,
    };
    Ok(Answer::new("sched", recording, notes, data))
}

fn one_task(id: u32, counted: &PerTask, tasks: &Tasks, all: &Counted) -> OneTask {
    let task = tasks.get(id);
    let end = task.map(|task| task.exit.map_or(all.end, |exit| exit.ts));
    let waiting_ns = counted.waiting.values().map(|off| off.ns).sum::<u64>();
    let woken_ns = counted.off.queue_ns.map(|_| counted.waiting.values().filter_map(|off| off.queue_ns).sum::<u64>());
    let life = task.zip(end).and_then(|(task, end)| u64::try_from(end.saturating_sub(task.first_ts)).ok());
    OneTask {
        task_id: id,
        pid: task.map(|task| task.pid),
        tid: task.map(|task| task.tid),
        comm: task.and_then(|task| task.comm()).map(str::to_owned),
        life_ns: life,
        // A task that is off a CPU without a known end has no known time on it.
        on_cpu_ns: life.filter(|_| counted.off.unfinished == 0).map(|life| life.saturating_sub(counted.off.ns)),
        accounted_cpu_ns: task.and_then(|task| task.exit).and_then(|exit| exit.cpu_ns),
        off: counted.off,
        preempted: counted.preempted,
        waiting_ns,
        // Who was preempted did not sleep.
        asleep_ns: woken_ns.map(|ns| waiting_ns.saturating_sub(ns)),
        queue_ns: counted.off.queue_ns,
        waiting: counted.waiting.clone(),
    }
}

fn order(rows: &mut [OneTask], sort: &str) {
    let key = |row: &OneTask| match sort {
        "preempted" => Some(row.preempted.ns as f64),
        "queue" => row.queue_ns.map(|ns| ns as f64),
        "off" => Some(row.off.ns as f64),
        "oncpu" => row.on_cpu_ns.map(|ns| ns as f64),
        "times" => Some(row.off.times as f64),
        "max" => Some(row.off.max_ns as f64),
        "task" => None,
        _ => Some(row.waiting_ns as f64),
    };
    rows.sort_by(|a, b| read::falling(key(a), key(b)).then(a.task_id.cmp(&b.task_id)));
}

fn stacks(
    recording: &Recording,
    counted: &Counted,
    limit: usize,
    notes: &mut Vec<String>,
) -> Result<(Vec<OneStack>, usize)> {
    let mut found: Vec<(&StackKey, &Off)> = counted.stacks.iter().collect();
    found.sort_by(|(a_key, a), (b_key, b)| b.ns.cmp(&a.ns).then(a_key.cmp(b_key)));
    let (found, total) = cut(found, limit);
    let wanted: HashSet<u64> = found.iter().flat_map(|((_, kernel, user), _)| [*kernel, *user]).flatten().collect();
    let names = Stacks::load(recording, &wanted, notes)?;
    let rows = found.into_iter().map(|((state, kstack_id, ustack_id), off)| OneStack {
        state: state.clone(),
        kstack_id: *kstack_id,
        ustack_id: *ustack_id,
        off: *off,
        kernel: kstack_id.and_then(|id| names.functions(id)),
        user: ustack_id.and_then(|id| names.functions(id)),
    });
    Ok((rows.collect(), total))
}

fn one_wake((waker, wakee): (Option<u32>, u32), off: Off, tasks: &Tasks) -> OneWake {
    OneWake {
        waker: waker.map(|id| tasks.title(id)),
        waker_task_id: waker,
        wakee: tasks.title(wakee),
        wakee_task_id: wakee,
        off,
    }
}

/// The time of calls by where it went, if calls were recorded with it.
fn split(
    recording: &Recording,
    selection: &Selection,
    tasks: &Tasks,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<OneCall>>> {
    if recording.parts("syscalls")?.is_empty() {
        let absence = absence::absence(recording, Stream::Syscalls, "calls", notes)?;
        notes.push(format!("times of calls are not split: {}", absence::sentence(recording, &absence)));
        return Ok(None);
    }
    let mut names: HashMap<usize, (String, Split)> = HashMap::new();
    let scanned = calls::scan(recording, false, |call| {
        if call.blocked_ns.is_some() && tasks.wants(selection, call.task_id, call.ts) {
            names.entry(call.name_id).or_insert_with(|| (call.name.to_owned(), Split::default())).1.add(call);
        }
    })?;
    notes.extend(scanned.left_out.iter().map(|what| format!("left out: {what}")));
    let mut rows: Vec<OneCall> = names.into_values().map(|(name, split)| one_call(name, split)).collect();
    rows.sort_by(|a, b| (b.total_ns, &a.name).cmp(&(a.total_ns, &b.name)));
    Ok((!rows.is_empty()).then_some(rows))
}

fn one_call(name: String, split: Split) -> OneCall {
    OneCall {
        name,
        calls: split.calls,
        total_ns: split.dur_ns,
        on_cpu_ns: split.cpu_ns,
        waiting_ns: split.blocked_ns,
        queue_ns: split.queue_ns(),
    }
}
