//! The calls one by one, in order of time.

use pagelab_recording::Recording;
use pagelab_vocab::streams::Stream;
use serde::Serialize;

use super::CallFilter;
use super::decode::call_text;
use crate::absence;
use crate::answer::Answer;
use crate::calls::{self, Call, Files};
use crate::error::Result;
use crate::read::{self, Tasks};
use crate::selection::Selection;

/// Calls in a document unless the selection says otherwise: it is made in memory.
pub(crate) const IN_DOCUMENT: usize = 100_000;

/// One call.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Time on the recording's clock, ns.
    pub ts_ns: i64,
    /// From entry to return, ns; null if the call never returned.
    pub dur_ns: Option<i64>,
    /// The task, unique in the recording.
    pub task_id: u32,
    /// Process id; null if the task is not known.
    pub pid: Option<i32>,
    /// Thread id; null if the task is not known.
    pub tid: Option<i32>,
    /// Name of the task; null if it is not known.
    pub comm: Option<String>,
    /// Name of the call.
    pub name: String,
    /// The call as strace prints it.
    pub text: String,
    /// Hexadecimal, because many readers of JSON round large numbers.
    pub args: Vec<String>,
    /// File descriptor.
    pub fd: Option<i32>,
    /// The file, unique in the recording.
    pub file_id: Option<u32>,
    /// Offset in the file, bytes.
    pub offset_bytes: Option<u64>,
    /// `explicit` if it is an argument, `implied` if it is the file's position.
    pub offset_kind: Option<&'static str>,
    /// Bytes asked for.
    pub requested_bytes: Option<u64>,
    /// Result; null if the call never returned.
    pub ret: Option<i64>,
    /// CPU time, ns.
    pub cpu_ns: Option<u64>,
    /// Time asleep, ns; null if it was not recorded.
    pub blocked_ns: Option<u64>,
}

/// System calls one by one, in order of time.
#[derive(Debug, Serialize)]
pub struct LogView {
    /// Calls recorded.
    pub calls_in_recording: u64,
    /// Calls selected, the first of them.
    pub calls: Vec<Line>,
    /// Calls selected.
    pub calls_total: u64,
}

/// The calls of a recording that are selected, to be visited one by one: there may be more of them than memory holds.
#[derive(Debug)]
pub struct Log {
    recording: Recording,
    selection: Selection,
    tasks: Tasks,
    files: Files,
    notes: Vec<String>,
}

/// One call of a [`Log`] with what is known of its task and file.
pub struct LoggedCall<'a> {
    /// The call.
    pub call: &'a Call<'a>,
    /// Thread id; null if the task is not known.
    pub tid: Option<i32>,
    /// The task's name at that time; null if it is not known.
    pub comm: Option<&'a str>,
    files: &'a Files,
}

impl LoggedCall<'_> {
    /// `name(arguments) = result`, as strace prints it.
    pub fn text(&self) -> String {
        call_text(self.call, self.files)
    }
}

/// What a visit of all calls met.
#[derive(Debug, Default)]
pub struct Visited {
    /// Calls in the recording.
    pub in_recording: u64,
    /// Of those, the ones selected.
    pub selected: u64,
    /// Parts that could not be read, with the reasons.
    pub left_out: Vec<String>,
}

impl Log {
    /// Opens the log of the calls selected.
    ///
    /// # Errors
    /// The recording cannot be read, or has no task, file or call of the name that was asked for.
    pub fn open(recording: &Recording, selection: &Selection) -> Result<Self> {
        selection.sort_by(&["time"])?;
        let mut notes = Vec::new();
        let tasks = Tasks::load(recording, selection, &mut notes)?;
        let files = Files::load(recording, &mut notes)?;
        CallFilter::new(selection, &tasks, &files)?.check_file(recording)?;
        read::lost(recording, Stream::Syscalls, &mut notes)?;
        Ok(Self { recording: recording.clone(), selection: selection.clone(), tasks, files, notes })
    }

    /// Calls that a reader wants at most.
    pub fn limit(&self) -> usize {
        self.selection.limit(false)
    }

    /// Calls `each` for every call selected, in order of time.
    pub fn visit(&self, mut each: impl FnMut(&LoggedCall<'_>)) -> Result<Visited> {
        let filter = CallFilter::new(&self.selection, &self.tasks, &self.files)?;
        let mut selected = 0;
        let scanned = calls::scan(&self.recording, true, |call| {
            if !filter.wants(call) {
                return;
            }
            selected += 1;
            let task = self.tasks.get(call.task_id);
            let comm = task.and_then(|task| task.comm_at(call.ts));
            each(&LoggedCall { call, tid: task.map(|task| task.tid), comm, files: &self.files });
        })?;
        Ok(Visited { in_recording: scanned.calls, selected, left_out: scanned.left_out })
    }

    /// What a reader must know before the first call, without any call.
    pub fn head(&self) -> Answer<LogView> {
        let data = LogView { calls_in_recording: 0, calls: Vec::new(), calls_total: 0 };
        Answer::new("syscalls", &self.recording, self.notes.clone(), data)
    }

    /// The calls as rows, at most [`IN_DOCUMENT`] unless the selection says how many.
    pub fn collect(self) -> Result<Answer<LogView>> {
        let limit = if self.selection.top.is_some() { self.limit() } else { IN_DOCUMENT };
        let mut rows = Vec::new();
        let visited = self.visit(|logged| {
            if rows.len() < limit {
                rows.push(line(logged.call, &self.tasks, &self.files));
            }
        })?;
        let Self { recording, mut notes, .. } = self;
        notes.extend(visited.left_out.iter().map(|what| format!("left out: {what}")));
        let Visited { in_recording, selected, .. } = visited;
        absence::nothing(&recording, Stream::Syscalls, "calls", in_recording, selected, &mut notes)?;
        let data = LogView { calls_in_recording: in_recording, calls: rows, calls_total: selected };
        Ok(Answer::new("syscalls", &recording, notes, data))
    }
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
