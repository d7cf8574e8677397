//! Reading rows past damaged parts, and the tasks of a recording.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use pagelab_recording::tables::{LossRow, Row, TableView, TasksRow};
use pagelab_recording::{Recording, Result};
use pagelab_vocab::streams::{EVENTS, Stream};
use pagelab_vocab::terminal::escape;
use pagelab_vocab::terminal::shell_path;
use pagelab_vocab::units::hexadecimal;
use schemars::JsonSchema;
use serde::Serialize;

use crate::calls::File;
use crate::error::ViewError;
use crate::fast::FastMap;
use crate::selection::Selection;

/// Calls `each` for the rows of a table, parts in their order. What is damaged is left out and noted.
pub fn each<R: Row>(
    recording: &Recording,
    notes: &mut Vec<String>,
    each: impl FnMut(<R::View as TableView>::Row<'_>),
) -> Result<()> {
    recording.for_each_readable::<R>(notes, each)
}

/// Like [`each`], in order of time across the parts: in a recording that broke off rows may have come late.
pub fn each_in_time<R: Row>(
    recording: &Recording,
    notes: &mut Vec<String>,
    each: impl FnMut(<R::View as TableView>::Row<'_>),
) -> Result<()> {
    recording.for_each_readable_in_time::<R>(notes, each)
}

/// The larger first; what is not known last.
pub(crate) fn falling(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// Events of a stream.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Counts {
    /// Events that happened, as far as the probe knows.
    pub seen: u64,
    /// Of those, events that should be in the recording and are not.
    pub lost: u64,
    /// Of those, events left out on purpose.
    pub filtered: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, row: &LossRow<'_>) {
        self.seen = self.seen.saturating_add(row.seen);
        self.lost = self.lost.saturating_add(row.lost);
        self.filtered = self.filtered.saturating_add(row.filtered);
    }

    /// Events that should be in the recording.
    pub fn wanted(self) -> u64 {
        self.seen.saturating_sub(self.filtered).max(self.lost)
    }
}

/// What the table `loss` counts under a name.
pub(crate) fn counts_of(recording: &Recording, name: &str, notes: &mut Vec<String>) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut said = Vec::new();
    each::<LossRow>(recording, &mut said, |row| {
        if row.stream == name {
            counts.add(&row);
        }
    })?;
    // It is read for each name, and what cannot be read of it is said once.
    for note in said {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(counts)
}

/// Events that a stream saw, and those of them that it lost.
pub(crate) fn loss_of(recording: &Recording, stream: Stream, notes: &mut Vec<String>) -> Result<[u64; 2]> {
    let Counts { seen, lost, .. } = counts_of(recording, stream.name(), notes)?;
    Ok([seen, lost])
}

/// A note for each part of the stream that lost events: what is shown lacks them. Returns events seen, and lost, of the stream
/// itself.
pub fn lost(recording: &Recording, stream: Stream, notes: &mut Vec<String>) -> Result<[u64; 2]> {
    for name in stream.losses() {
        let Counts { seen, lost, .. } = counts_of(recording, name, notes)?;
        if lost > 0 {
            let dir = shell_path(recording.dir());
            let name = if name == EVENTS { "tasks and maps" } else { name };
            notes.push(format!("{lost} of {seen} events of {name} were lost; when: pagelab show {dir} loss"));
        }
    }
    loss_of(recording, stream, notes)
}

/// A path as text that no terminal acts on.
pub(crate) fn path_text(path: &[u8]) -> String {
    escape(&String::from_utf8_lossy(path))
}

/// What to call a file: its path, or what is known if it has none.
pub(crate) fn file_title(file_id: u32, file: Option<&File>) -> String {
    let Some(file) = file else { return format!("file {file_id}") };
    if let Some(path) = &file.path {
        return String::from_utf8_lossy(path).into_owned();
    }
    let words: Vec<&str> = [file.fs.as_deref(), file.file_type.as_deref()].into_iter().flatten().collect();
    format!("{} inode {}", if words.is_empty() { "file".to_owned() } else { words.join(" ") }, file.ino)
}

/// Bytes that are a path, for JSON: as text, and exact where that is not the same.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct PathText {
    /// The path, with what is not UTF-8 replaced.
    pub path: Option<String>,
    /// All bytes in hexadecimal, if anything was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes_hex: Option<String>,
}

impl PathText {
    /// The text for `bytes`.
    pub fn of(bytes: Option<&[u8]>) -> Self {
        let Some(bytes) = bytes else { return Self::default() };
        let hex = std::str::from_utf8(bytes).is_err().then(|| hexadecimal(bytes));
        Self { path: Some(String::from_utf8_lossy(bytes).into_owned()), path_bytes_hex: hex }
    }
}

/// A device as `lsblk` prints it: major and minor number.
pub(crate) fn device(dev: u64) -> String {
    format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev))
}

/// How a task ended, as the kernel accounts it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exit {
    /// When.
    pub ts: i64,
    /// Wait status.
    pub status: Option<i32>,
    /// Minor faults.
    pub minor_faults: Option<u64>,
    /// Major faults.
    pub major_faults: Option<u64>,
    /// User and system time together.
    pub cpu_ns: Option<u64>,
}

impl Exit {
    /// The use since then.
    fn since(self, before: Option<Self>) -> Self {
        let Some(before) = before else { return self };
        let less = |now: Option<u64>, then: Option<u64>| now.map(|now| now.saturating_sub(then.unwrap_or(0)));
        Self {
            minor_faults: less(self.minor_faults, before.minor_faults),
            major_faults: less(self.major_faults, before.major_faults),
            cpu_ns: less(self.cpu_ns, before.cpu_ns),
            ..self
        }
    }
}

/// One task.
#[derive(Debug, Clone, Default)]
pub struct Task {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Who forked it.
    pub parent: Option<u32>,
    /// Its names and since when, in order of time.
    pub names: Vec<(i64, String)>,
    /// Path of the last executable.
    pub exe: Option<Vec<u8>>,
    /// First seen.
    pub first_ts: i64,
    /// It was there when recording began.
    pub present_at_start: bool,
    /// Its end, if that was seen.
    pub exit: Option<Exit>,
    /// Its accounts when it was last read, if it has not ended.
    pub alive: Option<Exit>,
    /// Its accounts when recording began, if it was there then.
    pub before: Option<Exit>,
    /// It has memory of its own, as kernel threads have not.
    pub has_memory: bool,
}

impl Task {
    /// Its use while it was recorded, until its end or until it was last read.
    pub fn used(&self) -> Option<Exit> {
        self.exit.or(self.alive).map(|used| used.since(self.before))
    }

    /// The last name.
    pub fn comm(&self) -> Option<&str> {
        self.names.last().map(|(_, name)| name.as_str())
    }

    /// The name at `ts`; before the first is known, the first.
    pub fn comm_at(&self, ts: i64) -> Option<&str> {
        self.named_at(ts).1
    }

    /// The name at `ts`, and from when until when the task has it.
    fn named_at(&self, ts: i64) -> (Range<i64>, Option<&str>) {
        let after = self.names.partition_point(|(since, _)| *since <= ts);
        let until = self.names.get(after).map_or(i64::MAX, |(since, _)| *since);
        match after.checked_sub(1).and_then(|at| self.names.get(at)) {
            Some((since, name)) => (*since..until, Some(name)),
            None => (i64::MIN..until, self.names.first().map(|(_, name)| name.as_str())),
        }
    }
}

/// Numbers the names that tasks have when something happens, so that events need not carry text.
#[derive(Debug, Default)]
pub(crate) struct Comms {
    /// By task: when it had the name that it was met with last, and the name's number.
    last: FastMap<u32, (Range<i64>, usize)>,
    numbers: HashMap<Option<String>, usize>,
    names: Vec<Option<String>>,
}

impl Comms {
    /// The number of the name that a task has at `ts`, from 0; a task without a name has one, too.
    pub(crate) fn number(&mut self, tasks: &Tasks, task_id: u32, ts: i64) -> usize {
        if let Some((while_named, number)) = self.last.get(&task_id)
            && while_named.contains(&ts)
        {
            return *number;
        }
        let (while_named, name) = tasks.get(task_id).map_or((i64::MIN..i64::MAX, None), |task| task.named_at(ts));
        let names = &mut self.names;
        let number = *self.numbers.entry(name.map(str::to_owned)).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() - 1
        });
        self.last.insert(task_id, (while_named, number));
        number
    }

    /// The name of a number; none if the task's is not known.
    pub(crate) fn name(&self, number: usize) -> Option<&str> {
        self.names.get(number)?.as_deref()
    }
}

/// All tasks by their ids.
#[derive(Debug, Default)]
pub struct Tasks(pub BTreeMap<u32, Task>);

impl Tasks {
    /// Reads the table `tasks`. `--pid` and `--comm` that no task answers to are the user's error.
    pub fn load(recording: &Recording, selection: &Selection, notes: &mut Vec<String>) -> crate::error::Result<Self> {
        let mut tasks = BTreeMap::new();
        each_in_time::<TasksRow>(recording, notes, |row| note_row(&mut tasks, &row))?;
        let tasks = Self(tasks);
        tasks.check(recording, selection)?;
        Ok(tasks)
    }

    fn check(&self, recording: &Recording, selection: &Selection) -> crate::error::Result<()> {
        let dir = shell_path(recording.dir());
        let none = |what: String| {
            let total = self.0.len();
            Err(ViewError::Asked(format!(
                "{what} among the {total} tasks recorded; they are listed by: pagelab show {dir} tasks"
            )))
        };
        if let Some(pid) = selection.pid
            && !self.0.values().any(|task| task.pid == pid)
        {
            return none(format!("--pid: no process {pid}"));
        }
        if let Some(comm) = &selection.comm
            && !self.0.values().any(|task| task.names.iter().any(|(_, name)| name == comm))
        {
            return none(format!("--comm: no name {comm:?}"));
        }
        Ok(())
    }

    /// The task.
    pub fn get(&self, task_id: u32) -> Option<&Task> {
        self.0.get(&task_id)
    }

    /// Whether `--pid` and `--comm` select what a task did at `ts`.
    pub fn wants(&self, selection: &Selection, task_id: u32, ts: i64) -> bool {
        if !selection.by_task() {
            return true;
        }
        let Some(task) = self.get(task_id) else { return false };
        selection.pid.is_none_or(|pid| task.pid == pid)
            && selection.comm.as_deref().is_none_or(|comm| task.comm_at(ts) == Some(comm))
    }

    /// Name and process for a line of text.
    pub fn label(&self, task_id: u32) -> (Option<i32>, Option<&str>) {
        let task = self.get(task_id);
        (task.map(|task| task.pid), task.and_then(Task::comm))
    }

    /// What to call a task: its name and its ids.
    pub fn title(&self, task_id: u32) -> String {
        let Some(task) = self.get(task_id) else { return format!("task {task_id}") };
        let comm = task.comm().unwrap_or("-");
        if task.pid == task.tid { format!("{comm} {}", task.pid) } else { format!("{comm} {}/{}", task.pid, task.tid) }
    }

    /// The tasks as a tree, each with its depth: children below their parents, in order of time, kernel threads last.
    pub fn tree(&self) -> Vec<(u32, usize)> {
        let mut children: HashMap<Option<u32>, Vec<u32>> = HashMap::new();
        for (id, task) in &self.0 {
            let parent = task.parent.filter(|parent| parent != id && self.0.contains_key(parent));
            children.entry(parent).or_default().push(*id);
        }
        for list in children.values_mut() {
            list.sort_by_key(|id| (self.get(*id).map(|task| (!task.has_memory, task.first_ts)), *id));
        }
        let mut out = Vec::with_capacity(self.0.len());
        let mut seen = HashSet::new();
        let roots = children.get(&None).cloned().unwrap_or_default();
        // Tasks of a circle of parents, which only a damaged recording has, hang on no root: they follow at the end.
        for root in roots.into_iter().chain(self.0.keys().copied()) {
            let mut open = vec![(root, 0)];
            while let Some((id, depth)) = open.pop() {
                if !seen.insert(id) {
                    continue;
                }
                out.push((id, depth));
                let below = children.get(&Some(id)).into_iter().flatten();
                open.extend(below.rev().map(|child| (*child, depth + 1)));
            }
        }
        out
    }
}

fn note_row(tasks: &mut BTreeMap<u32, Task>, row: &TasksRow<'_>) {
    let task = tasks.entry(row.task_id).or_insert_with(|| Task {
        pid: row.pid,
        tid: row.tid,
        first_ts: row.ts,
        present_at_start: row.op == "snapshot",
        ..Task::default()
    });
    task.parent = task.parent.or(row.parent_task_id);
    if let Some(comm) = row.comm
        && task.comm() != Some(comm)
    {
        task.names.push((row.ts, comm.to_owned()));
    }
    if let Some(exe) = row.exe {
        task.exe = Some(exe.to_owned());
    }
    task.has_memory |= row.mm_id.is_some();
    let used = Some(Exit {
        ts: row.ts,
        status: row.exit_code,
        minor_faults: row.min_flt,
        major_faults: row.maj_flt,
        cpu_ns: row.utime_ns.zip(row.stime_ns).map(|(user, system)| user.saturating_add(system)),
    });
    match row.op {
        "exit" => task.exit = used,
        "alive" => task.alive = used,
        "snapshot" if task.before.is_none() => task.before = used,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(parents: &[(u32, Option<u32>)]) -> Tasks {
        let task = |(id, parent): &(u32, Option<u32>)| {
            (*id, Task { parent: *parent, first_ts: i64::from(*id), ..Task::default() })
        };
        Tasks(parents.iter().map(task).collect())
    }

    #[test]
    fn every_task_is_in_the_tree_once() {
        let line = tasks(&[(1, None), (2, Some(1)), (3, Some(2)), (4, Some(1)), (9, Some(77))]);
        assert_eq!(line.tree(), [(1, 0), (2, 1), (3, 2), (4, 1), (9, 0)]);
        let circle = tasks(&[(1, Some(2)), (2, Some(1)), (3, Some(3))]);
        let mut ids: Vec<u32> = circle.tree().into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3]);
    }

    #[test]
    fn a_task_has_the_name_of_the_time() {
        let task = Task { names: vec![(10, "sh".into()), (20, "cc".into())], ..Task::default() };
        assert_eq!([5, 10, 19, 20].map(|ts| task.comm_at(ts)), [Some("sh"), Some("sh"), Some("sh"), Some("cc")]);
        assert_eq!(Task::default().comm_at(5), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_beside_it() {
        let bad = PathText::of(Some(b"/tmp/\xff"));
        assert_eq!(bad.path_bytes_hex.as_deref(), Some("2f746d702fff"));
        assert!(bad.path.is_some_and(|path| path.starts_with("/tmp/")));
        assert_eq!(PathText::of(Some(b"/tmp")).path_bytes_hex, None);
    }
}
