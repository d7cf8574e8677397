//! The calls one by one, in order of time: `time task name(arguments) = result <duration>`.

use std::fmt::Write as _;
use std::io::Write;

use pagelab_recording::Recording;
use pagelab_views::calls::{self, Call, Files};
use serde::Serialize;

use super::super::View;
use super::super::options::Options;
use super::super::read::{self, Tasks};
use super::super::table::clean;
use super::Selection;
use super::decode::call_text;
use crate::failure::Failure;

/// Calls in a JSON document unless `--top` says otherwise: it is made in memory.
const IN_JSON: usize = 100_000;

#[derive(Debug, Serialize)]
struct Line {
    ts_ns: i64,
    dur_ns: Option<i64>,
    task_id: u32,
    pid: Option<i32>,
    tid: Option<i32>,
    comm: Option<String>,
    name: String,
    /// The call as strace prints it.
    text: String,
    /// Hexadecimal, because many readers of JSON round large numbers.
    args: Vec<String>,
    fd: Option<i32>,
    file_id: Option<u32>,
    offset_bytes: Option<u64>,
    offset_kind: Option<&'static str>,
    requested_bytes: Option<u64>,
    ret: Option<i64>,
    cpu_ns: Option<u64>,
    blocked_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Document {
    calls_in_recording: u64,
    calls: Vec<Line>,
    calls_total: u64,
}

/// Makes the view. Its text is written while the calls are read: it may be longer than memory.
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    options.sort_by(&["time"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, options, &mut notes)?;
    let files = Files::load(recording, &mut notes).map_err(read::analysis)?;
    let selection = Selection::new(options, &tasks, &files)?;
    selection.check_file()?;
    read::lost(recording, "syscalls", &mut notes)?;
    let mut data = Document { calls_in_recording: 0, calls: Vec::new(), calls_total: 0 };
    if options.json {
        let limit = if options.top.is_some() { options.limit(false) } else { IN_JSON };
        let scanned = calls::scan(recording, true, |call| {
            if selection.wants(call) {
                data.calls_total += 1;
                if data.calls.len() < limit {
                    data.calls.push(line(call, &tasks, &files));
                }
            }
        })
        .map_err(read::analysis)?;
        data.calls_in_recording = scanned.calls;
        notes.extend(scanned.left_out.iter().map(|what| format!("left out: {what}")));
        read::nothing(recording, "syscalls", "calls", scanned.calls, data.calls_total, &mut notes);
        return View::new("syscalls", recording, &notes, &data, "");
    }
    let (limit, start) = (options.limit(false), recording.manifest().clock.start_ns);
    let (recording, options) = (recording.clone(), options.clone());
    let view = View::new("syscalls", &recording, &notes, &data, "\n")?;
    Ok(view.then(Box::new(move |out| write(&recording, &options, (&tasks, &files), limit, start, out))))
}

fn write(
    recording: &Recording,
    options: &Options,
    (tasks, files): (&Tasks, &Files),
    limit: usize,
    start: i64,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let selection = Selection::new(options, tasks, files)?;
    let (mut shown, mut total, mut failed) = (0_usize, 0_usize, None);
    let scanned = calls::scan(recording, true, |call| {
        if !selection.wants(call) {
            return;
        }
        total += 1;
        if shown < limit && failed.is_none() {
            shown += 1;
            failed = writeln!(out, "{}", text(call, tasks, files, start)).err();
        }
    })
    .map_err(read::analysis)?;
    let ending = super::more(shown, total);
    let said = match (scanned.calls, total) {
        (0, _) => "no calls were recorded\n".to_owned(),
        (all, 0) => format!("none of the {all} calls is selected\n"),
        _ => ending,
    };
    let mut left_out = String::new();
    for what in &scanned.left_out {
        let _ = writeln!(left_out, "left out: {}", clean(what));
    }
    match failed.map_or_else(|| write!(out, "{left_out}{said}"), Err) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::host(error)),
        _ => Ok(()),
    }
}

fn text(call: &Call<'_>, tasks: &Tasks, files: &Files, start: i64) -> String {
    let task = tasks.get(call.task_id);
    let mut out = format!("{:>12.6} ", call.ts.saturating_sub(start) as f64 / 1e9);
    let tid = task.map_or_else(|| format!("task {}", call.task_id), |task| task.tid.to_string());
    let comm = task.and_then(|task| task.comm_at(call.ts)).unwrap_or("-");
    let _ = write!(out, "{tid:>7} {:<15} {}", clean(comm), call_text(call, files));
    if let Some(dur) = call.dur {
        let _ = write!(out, " <{:.9}>", dur as f64 / 1e9);
    }
    out
}

fn line(call: &Call<'_>, tasks: &Tasks, files: &Files) -> Line {
    let task = tasks.get(call.task_id);
    Line {
        ts_ns: call.ts,
        dur_ns: call.dur,
        task_id: call.task_id,
        pid: task.map(|task| task.pid),
        tid: task.map(|task| task.tid),
        comm: task.and_then(|task| task.comm_at(call.ts)).map(str::to_owned),
        name: call.name.to_owned(),
        text: call_text(call, files),
        args: call.args.iter().map(|arg| format!("{arg:#x}")).collect(),
        fd: call.fd,
        file_id: call.file_id,
        offset_bytes: call.offset,
        offset_kind: call.offset.map(|_| if call.implied { "implied" } else { "explicit" }),
        requested_bytes: call.requested,
        ret: call.ret,
        cpu_ns: call.cpu_ns,
        blocked_ns: call.blocked_ns,
    }
}
