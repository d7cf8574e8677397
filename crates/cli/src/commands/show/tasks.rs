//! `show DIR tasks`: the tree of tasks, and for each its faults as recorded and as the kernel accounts them.

use std::collections::HashMap;

use pagelab_recording::tables::FaultsRow;
use pagelab_recording::{ProbeState, Recording};
use serde::Serialize;

use super::View;
use super::names;
use super::options::{Options, cut, more};
use super::read::{self, PathText, Tasks};
use super::table::{Table, left, or_dash, paragraph, right, seconds};
use crate::failure::Failure;

/// Levels of the tree that are shown by indentation.
const DEEPEST: usize = 12;

#[derive(Debug, Serialize)]
struct TaskLine {
    task_id: u32,
    parent_task_id: Option<u32>,
    depth: usize,
    pid: i32,
    tid: i32,
    comm: Option<String>,
    /// The path of the executable, as `path`.
    #[serde(flatten)]
    exe: ExeText,
    first_seen_ns: i64,
    present_at_start: bool,
    exit_ns: Option<i64>,
    duration_ns: Option<i64>,
    /// Wait status as the kernel keeps it.
    wait_status: Option<i32>,
    exit: Option<String>,
    cpu_ns: Option<u64>,
    faults_recorded: Option<u64>,
    minor_faults: Option<u64>,
    major_faults: Option<u64>,
    /// (minor + major) - recorded.
    faults_difference: Option<i64>,
}

#[derive(Debug, Serialize)]
struct ExeText {
    exe: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exe_bytes_hex: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Sums {
    /// Tasks selected.
    tasks: usize,
    /// Of those, tasks that did not end while they were recorded.
    running: usize,
    faults_recorded: Option<u64>,
    /// Sums over the ended tasks only.
    ended_faults_recorded: Option<u64>,
    ended_minor_faults: u64,
    ended_major_faults: u64,
    ended_cpu_ns: u64,
    /// Of all tasks, those that live as well.
    cpu_ns: u64,
}

#[derive(Debug, Serialize)]
struct TaskList {
    sums: Sums,
    tasks: Vec<TaskLine>,
    tasks_total: usize,
}

/// Makes the view.
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let sort = options.sort_by(&["tree", "faults", "duration", "cpu", "difference", "time"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, options, &mut notes)?;
    let counts = faults_by_task(recording, &mut notes)?;
    if tasks.0.is_empty() {
        notes.push("no tasks were recorded".to_owned());
    }
    let mut lines: Vec<TaskLine> = tasks
        .tree()
        .into_iter()
        .filter(|(id, _)| selected(&tasks, options, *id))
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
    let (lines, tasks_total) = cut(lines, options.limit(sort != "tree"));
    let data = TaskList { sums, tasks: lines, tasks_total };
    let start = recording.manifest().clock.start_ns;
    View::new("tasks", recording, &notes, &data, &text(&data, start, sort == "tree"))
}

/// A task that had the name at any time of its life.
fn selected(tasks: &Tasks, options: &Options, id: u32) -> bool {
    let Some(task) = tasks.get(id) else { return false };
    options.pid.is_none_or(|pid| task.pid == pid)
        && options.comm.as_ref().is_none_or(|comm| task.names.iter().any(|(_, name)| name == comm))
}

/// Rows of `faults` per task; null if the stream was not recorded.
fn faults_by_task(recording: &Recording, notes: &mut Vec<String>) -> Result<Option<HashMap<u32, u64>>, Failure> {
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

fn text(data: &TaskList, start: i64, tree: bool) -> String {
    let sums = &data.sums;
    if sums.tasks == 0 {
        return String::new();
    }
    let accounted = sums.ended_minor_faults + sums.ended_major_faults;
    let mut out = String::from("\n");
    let said = format!(
        "{} tasks, {} of them ended: {} faults recorded, {accounted} accounted by the kernel; {:.3} s of CPU time of all",
        sums.tasks,
        sums.tasks - sums.running,
        or_dash(sums.ended_faults_recorded),
        sums.cpu_ns as f64 / 1e9,
    );
    paragraph(&said, &mut out);
    let mut table = Table::new([
        right("PID/TID"),
        right("START_S"),
        right("LASTED_S"),
        right("CPU_S"),
        right("EXIT"),
        right("FAULTS"),
        right("MIN+MAJ"),
        right("DIFF"),
        left("TASK"),
    ]);
    for line in &data.tasks {
        let before = if line.present_at_start { "<" } else { "" };
        let accounted = line.minor_faults.zip(line.major_faults).map(|(minor, major)| minor.saturating_add(major));
        table.row([
            line.tid.to_string(),
            format!("{before}{}", seconds(line.first_seen_ns.saturating_sub(start))),
            or_dash(line.duration_ns.map(seconds)),
            or_dash(line.cpu_ns.map(|ns| seconds(ns as i64))),
            or_dash(line.exit.as_deref()),
            or_dash(line.faults_recorded),
            or_dash(accounted),
            or_dash(line.faults_difference),
            title(line, tree),
        ]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.tasks.len(), data.tasks_total));
    if data.tasks.iter().any(|line| line.present_at_start) {
        out.push_str("< it was there before recording began\n");
    }
    out
}

/// Name and executable; a thread is marked, because its process has the executable.
fn title(line: &TaskLine, tree: bool) -> String {
    let indent = if tree { "  ".repeat(line.depth.min(DEEPEST)) } else { String::new() };
    let name = line.comm.as_deref().unwrap_or("-");
    let thread = if line.tid == line.pid { String::new() } else { format!(" thread of {}", line.pid) };
    let exe = line.exe.exe.as_deref().map_or_else(String::new, |exe| format!(" {exe}"));
    format!("{indent}{name}{thread}{exe}")
}
