//! `show DIR syscalls`: calls summed up as `strace -c` does, or one by one as strace prints them.

mod decode;
mod groups;
pub mod log;
pub(crate) mod rollup;

use std::collections::HashSet;

use pagelab_recording::Recording;
use pagelab_vocab::streams::Stream;
use pagelab_vocab::syscalls::{self, Class};
use pagelab_vocab::terminal::shell_path;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::calls::{self, Call, Files, Totals};
use crate::error::{Result, ViewError};
use crate::read::{self, Tasks};
use crate::selection::{Selection, cut};
use groups::{Groups, Key, Keyed};

/// One group of calls.
#[derive(Debug, Serialize)]
pub struct Group {
    /// Name of the call, task, command or file.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Of those, calls that failed.
    pub errors: u64,
    /// Calls that never returned; they have no duration.
    pub unfinished: u64,
    /// Calls that were refused before they began, by seccomp or a tracer; they have no duration.
    pub refused: u64,
    /// From entry to return, of all calls that have both, ns.
    pub total_ns: u64,
    /// Share of the durations of all calls selected.
    pub total_pct: Option<f64>,
    /// Mean duration, ns.
    pub mean_ns: Option<f64>,
    /// Median duration, ns.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the durations, ns.
    pub p99_ns: Option<u64>,
    /// The longest duration, ns.
    pub max_ns: Option<u64>,
    /// Null if it is known of no call.
    pub cpu_ns: Option<u64>,
    /// Where the time went in `split_calls` calls; null if no recorder of `sched` ran.
    pub split_calls: Option<u64>,
    /// Duration of the split calls, ns.
    pub split_ns: Option<u64>,
    /// Of that, time on a CPU.
    pub on_cpu_ns: Option<u64>,
    /// Of that, time asleep.
    pub blocked_ns: Option<u64>,
    /// Of that, time ready and without a CPU.
    pub queue_ns: Option<u64>,
}

/// System calls added up by name, task, task's name or file.
#[derive(Debug, Serialize)]
pub struct SyscallsView {
    /// Calls recorded.
    pub calls_in_recording: u64,
    /// Calls selected.
    pub calls: u64,
    /// Of those, calls that failed.
    pub errors: u64,
    /// Of those, calls that never returned.
    pub unfinished: u64,
    /// Of those, calls that were refused before they began.
    pub refused: u64,
    /// Sum of the durations, ns.
    pub total_ns: u64,
    /// The grouping of rows.
    pub by: &'static str,
    /// Rows, ranked.
    pub groups: Vec<Group>,
    /// Rows before the list was cut.
    pub groups_total: usize,
}

/// What is selected.
pub struct CallFilter<'a> {
    selection: &'a Selection,
    tasks: &'a Tasks,
    files: Option<HashSet<u32>>,
}

impl<'a> CallFilter<'a> {
    /// Prepares the filters. A name that is no call's is the user's error.
    pub fn new(selection: &'a Selection, tasks: &'a Tasks, files: &Files) -> Result<Self> {
        for name in &selection.names {
            let class = name.strip_prefix('%').map(Class::named);
            if !matches!(class, Some(Some(_))) && syscalls::by_name(name).is_none() && !syscalls::is_number(name) {
                let near = pagelab_vocab::nearest::hint_for(name, syscalls::all().iter().map(|call| call.name));
                let classes: Vec<String> = Class::ALL.iter().map(|class| format!("%{}", class.name())).collect();
                return Err(ViewError::Asked(format!(
                    "--name: found {name:?}{near}; needed a system call or a class of them: {}",
                    classes.join(" ")
                )));
            }
        }
        let files = selection.file.is_some().then(|| files.select(|path| selection.wants_path(path)));
        Ok(Self { selection, tasks, files })
    }

    /// A file that no call was made on is the user's error.
    pub fn check_file(&self, recording: &Recording) -> Result<()> {
        let Some(file) = self.selection.file.as_deref().filter(|_| self.files.as_ref().is_some_and(HashSet::is_empty))
        else {
            return Ok(());
        };
        Err(ViewError::Asked(format!(
            "--file: no file {} among those that calls were made on; they are listed by: pagelab show {} syscalls --by \
             file",
            file.display(),
            shell_path(recording.dir())
        )))
    }

    /// Whether the call is selected.
    pub fn wants(&self, call: &Call<'_>) -> bool {
        self.files.as_ref().is_none_or(|files| call.file_id.is_some_and(|id| files.contains(&id)))
            && self.tasks.wants(self.selection, call.task_id, call.ts)
            && (self.selection.names.is_empty() || self.selection.names.iter().any(|name| is_named(call.name, name)))
    }
}

fn is_named(name: &str, wanted: &str) -> bool {
    match wanted.strip_prefix('%').and_then(Class::named) {
        Some(class) => syscalls::by_name(name).is_some_and(|call| call.classes.contains(class)),
        None => name == wanted,
    }
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<SyscallsView>> {
    let sort =
        selection.sort_by(&["total", "calls", "errors", "mean", "p50", "p99", "max", "cpu", "blocked", "name"])?;
    let by = selection.group_by(&["name", "task", "comm", "file"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let files = Files::load(recording, &mut notes)?;
    let filter = CallFilter::new(selection, &tasks, &files)?;
    filter.check_file(recording)?;
    let narrowed = selection.by_task() || selection.file.is_some() || !selection.names.is_empty();
    let rolled_up = if narrowed { None } else { rollup::read(recording, by) };
    let grouped = match rolled_up {
        Some(grouped) => grouped,
        None => count(recording, by, &filter, &tasks)?,
    };
    let Grouped { calls_in_recording, groups, left_out } = grouped;
    notes.extend(left_out.iter().map(|what| format!("left out: {what}")));
    read::lost(recording, Stream::Syscalls, &mut notes)?;
    let all = sum(&groups);
    absence::nothing(recording, Stream::Syscalls, "calls", calls_in_recording, all.calls, &mut notes)?;
    let mut groups: Vec<Group> =
        groups.iter().map(|(key, totals)| group(label(key, &tasks, &files), totals, all.total_ns)).collect();
    if all.calls > 0 && groups.iter().all(|group| group.blocked_ns.is_none()) {
        notes.push(
            "whether calls ran, slept or waited for a CPU was not recorded; add sched: pagelab record --observe \
             syscalls,sched"
                .to_owned(),
        );
    }
    order(&mut groups, sort);
    let (groups, groups_total) = cut(groups, selection.limit(by != "name"));
    let data = SyscallsView {
        calls_in_recording,
        calls: all.calls,
        errors: all.errors,
        unfinished: all.unfinished,
        refused: all.refused,
        total_ns: all.total_ns,
        by,
        groups,
        groups_total,
    };
    Ok(Answer::new("syscalls", recording, notes, data))
}

/// The calls that are selected, grouped.
struct Grouped {
    /// Calls in the recording.
    calls_in_recording: u64,
    /// The calls selected.
    groups: Vec<Keyed>,
    /// Damaged parts, which were left out.
    left_out: Vec<String>,
}

/// Puts the calls together one by one.
fn count(recording: &Recording, by: &'static str, filter: &CallFilter<'_>, tasks: &Tasks) -> Result<Grouped> {
    let mut groups = Groups::new(by);
    let scanned = calls::scan(recording, false, |call| {
        if filter.wants(call) {
            groups.add(call, tasks);
        }
    })?;
    Ok(Grouped { calls_in_recording: scanned.calls, groups: groups.finish(), left_out: scanned.left_out })
}

/// Sums over all groups, without the percentiles, which are taken of groups only.
fn sum(groups: &[Keyed]) -> Totals {
    let mut all = Totals::default();
    for (_, totals) in groups {
        all.calls += totals.calls;
        all.errors += totals.errors;
        all.unfinished += totals.unfinished;
        all.refused += totals.refused;
        all.total_ns = all.total_ns.saturating_add(totals.total_ns);
    }
    all
}

fn label(key: &Key, tasks: &Tasks, files: &Files) -> String {
    match key {
        Key::Name(name) => name.clone(),
        Key::Task(id) => tasks.title(*id),
        Key::Comm(comm) => comm.clone().unwrap_or_else(|| "-".to_owned()),
        Key::File(None) => "(no file)".to_owned(),
        Key::File(Some(id)) => read::file_title(*id, files.get(*id)),
    }
}

fn group(name: String, totals: &Totals, whole_ns: u64) -> Group {
    let known = totals.split.calls > 0;
    Group {
        name,
        calls: totals.calls,
        errors: totals.errors,
        unfinished: totals.unfinished,
        refused: totals.refused,
        total_ns: totals.total_ns,
        total_pct: (whole_ns > 0).then(|| 100.0 * totals.total_ns as f64 / whole_ns as f64),
        mean_ns: totals.mean_ns(),
        p50_ns: totals.durations.quantile(0.5),
        p99_ns: totals.durations.quantile(0.99).map(|ns| ns.min(totals.max_ns)),
        max_ns: (totals.timed() > 0).then_some(totals.max_ns),
        cpu_ns: (totals.cpu_calls > 0).then_some(totals.cpu_ns),
        split_calls: known.then_some(totals.split.calls),
        split_ns: known.then_some(totals.split.dur_ns),
        on_cpu_ns: known.then_some(totals.split.cpu_ns),
        blocked_ns: known.then_some(totals.split.blocked_ns),
        queue_ns: known.then_some(totals.split.queue_ns()),
    }
}

fn order(groups: &mut [Group], sort: &str) {
    let key = |group: &Group| match sort {
        "calls" => Some(group.calls as f64),
        "errors" => Some(group.errors as f64),
        "mean" => group.mean_ns,
        "p50" => group.p50_ns.map(|ns| ns as f64),
        "p99" => group.p99_ns.map(|ns| ns as f64),
        "max" => group.max_ns.map(|ns| ns as f64),
        "cpu" => group.cpu_ns.map(|ns| ns as f64),
        "blocked" => group.blocked_ns.map(|ns| ns as f64),
        "name" => None,
        _ => Some(group.total_ns as f64),
    };
    groups.sort_by(|a, b| read::falling(key(a), key(b)).then_with(|| a.name.cmp(&b.name)));
}
