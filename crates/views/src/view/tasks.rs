//! `show DIR tasks`: the tree of tasks, and for each its faults as recorded and as the kernel accounts them.

use std::collections::HashMap;

use pagelab_recording::tables::FaultsRow;
use pagelab_recording::{ProbeState, Recording};
use pagelab_vocab::streams::Stream;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::names;
use crate::read::{self, PathText, Tasks};
use crate::selection::{Selection, cut};

/// One task.
#[derive(Debug, Serialize)]
pub struct TaskLine {
    /// The task, unique in the recording.
    pub task_id: u32,
    /// The task that forked it.
    pub parent_task_id: Option<u32>,
    /// Its depth in the tree.
    pub depth: usize,
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Its last name.
    pub comm: Option<String>,
    /// The path of the executable, as `path`.
    #[serde(flatten)]
    pub exe: ExeText,
    /// When it was first seen, on the recording's clock.
    pub first_seen_ns: i64,
    /// Whether it was there before recording began.
    pub present_at_start: bool,
    /// When it ended; null if that was not seen.
    pub exit_ns: Option<i64>,
    /// From its first sight to its end, ns.
    pub duration_ns: Option<i64>,
    /// Wait status as the kernel keeps it.
    pub wait_status: Option<i32>,
    /// Exit code, or the signal's name.
    pub exit: Option<String>,
    /// User and system time, ns.
    pub cpu_ns: Option<u64>,
    /// Rows of `faults`; null if they were not recorded.
    pub faults_recorded: Option<u64>,
    /// Minor faults, as the kernel accounts them.
    pub minor_faults: Option<u64>,
    /// Major faults, as the kernel accounts them.
    pub major_faults: Option<u64>,
    /// (minor + major) - recorded.
    pub faults_difference: Option<i64>,
}

/// A path under the key `exe`.
#[derive(Debug, Serialize)]
pub struct ExeText {
    /// The path, with what is not UTF-8 replaced.
    pub exe: Option<String>,
    /// All bytes in hexadecimal, if anything was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exe_bytes_hex: Option<String>,
}

/// Sums over the tasks selected.
#[derive(Debug, Default, Serialize)]
pub struct Sums {
    /// Tasks selected.
    pub tasks: usize,
    /// Of those, tasks that did not end while they were recorded.
    pub running: usize,
    /// Rows of `faults`; null if they were not recorded.
    pub faults_recorded: Option<u64>,
    /// Sums over the ended tasks only.
    pub ended_faults_recorded: Option<u64>,
    /// See `ended_faults_recorded`.
    pub ended_minor_faults: u64,
    /// See `ended_faults_recorded`.
    pub ended_major_faults: u64,
    /// See `ended_faults_recorded`.
    pub ended_cpu_ns: u64,
    /// Time of all tasks, those that live as well.
    pub cpu_ns: u64,
}

/// Tasks, one row each.
#[derive(Debug, Serialize)]
pub struct TasksView {
    /// Sums over all tasks selected.
    pub sums: Sums,
    /// Tasks, as a tree or ranked.
    pub tasks: Vec<TaskLine>,
    /// Rows before the list was cut.
    pub tasks_total: usize,
    /// Whether the tasks are in the order of the tree.
    #[serde(skip)]
    pub is_tree: bool,
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<TasksView>> {
    let sort = selection.sort_by(&["tree", "faults", "duration", "cpu", "difference", "time"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let counts = faults_by_task(recording, &mut notes)?;
    read::lost(recording, Stream::Tasks, &mut notes)?;
    if tasks.0.is_empty() {
        absence::none_recorded(recording, Stream::Tasks, "tasks", &mut notes)?;
    }
    let mut lines: Vec<TaskLine> = tasks
        .tree()
        .into_iter()
        .filter(|(id, _)| selected(&tasks, selection, *id))
        .filter_map(|(id, depth)| line_of(&tasks, id, depth, counts.as_ref()))
        .collect();
    let sums = sums_of(&lines);
    match sort {
        "faults" => lines.sort_by_key(|line| std::cmp::Reverse(line.faults_recorded)),
        "duration" => lines.sort_by_key(|line| std::cmp::Reverse(line.duration_ns)),
        "cpu" => lines.sort_by_key(|line| std::cmp::Reverse(line.cpu_ns)),
        "difference" => lines.sort_by_key(|line| std::cmp::Reverse(line.faults_difference.map(i64::unsigned_abs))),
        "time" => lines.sort_by_key(|line| (line.first_seen_ns, line.task_id)),
        _ => {}
    }
    let (lines, tasks_total) = cut(lines, selection.limit(sort != "tree"));
    let data = TasksView { sums, tasks: lines, tasks_total, is_tree: sort == "tree" };
    Ok(Answer::new("tasks", recording, notes, data))
}

/// A task that had the name at any time of its life.
fn selected(tasks: &Tasks, selection: &Selection, id: u32) -> bool {
    let Some(task) = tasks.get(id) else { return false };
    selection.pid.is_none_or(|pid| task.pid == pid)
        && selection.comm.as_ref().is_none_or(|comm| task.names.iter().any(|(_, name)| name == comm))
}

/// Rows of `faults` per task; null if the stream was not recorded.
fn faults_by_task(recording: &Recording, notes: &mut Vec<String>) -> Result<Option<HashMap<u32, u64>>> {
    let probe =
        recording.manifest().probes.iter().any(|probe| probe.name == "faults" && probe.state == ProbeState::Active);
    if !probe && recording.parts("faults")?.is_empty() {
        return Ok(None);
    }
    let mut counts: HashMap<u32, u64> = HashMap::new();
    read::each::<FaultsRow<'_>>(recording, notes, |row| *counts.entry(row.task_id).or_default() += 1)?;
    Ok(Some(counts))
}

fn line_of(tasks: &Tasks, id: u32, depth: usize, counts: Option<&HashMap<u32, u64>>) -> Option<TaskLine> {
    let task = tasks.get(id)?;
    let recorded = counts.map(|counts| counts.get(&id).copied().unwrap_or(0));
    let used = task.used().unwrap_or_default();
    let accounted = used.minor_faults.zip(used.major_faults).map(|(minor, major)| minor.saturating_add(major));
    let exe = PathText::of(task.exe.as_deref());
    Some(TaskLine {
        task_id: id,
        parent_task_id: task.parent,
        depth,
        pid: task.pid,
        tid: task.tid,
        comm: task.comm().map(str::to_owned),
        exe: ExeText { exe: exe.path, exe_bytes_hex: exe.path_bytes_hex },
        first_seen_ns: task.first_ts,
        present_at_start: task.present_at_start,
        exit_ns: task.exit.map(|exit| exit.ts),
        duration_ns: task.exit.map(|exit| exit.ts.saturating_sub(task.first_ts)),
        wait_status: task.exit.and_then(|exit| exit.status),
        exit: task.exit.and_then(|exit| exit.status).map(names::exit_status),
        cpu_ns: used.cpu_ns,
        faults_recorded: recorded,
        minor_faults: used.minor_faults,
        major_faults: used.major_faults,
        faults_difference: accounted.zip(recorded).map(|(kernel, rows)| kernel.wrapping_sub(rows) as i64),
    })
}

fn sums_of(lines: &[TaskLine]) -> Sums {
    let mut sums = Sums { tasks: lines.len(), ..Sums::default() };
    let add = |sum: &mut Option<u64>, value: Option<u64>| {
        if let Some(value) = value {
            *sum = Some(sum.unwrap_or(0).saturating_add(value));
        }
    };
    for line in lines {
        sums.cpu_ns = sums.cpu_ns.saturating_add(line.cpu_ns.unwrap_or(0));
        add(&mut sums.faults_recorded, line.faults_recorded);
        if line.exit_ns.is_none() {
            sums.running += 1;
            continue;
        }
        add(&mut sums.ended_faults_recorded, line.faults_recorded);
        sums.ended_minor_faults += line.minor_faults.unwrap_or(0);
        sums.ended_major_faults += line.major_faults.unwrap_or(0);
        sums.ended_cpu_ns = sums.ended_cpu_ns.saturating_add(line.cpu_ns.unwrap_or(0));
    }
    sums
}
