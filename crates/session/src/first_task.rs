//! The target's own tasks from `/proc`: rows of `tasks` where no probe reports tasks, and the row from which ids are
//! counted where one does.

use std::os::unix::ffi::OsStrExt;

use pagelab_observe::process;
use pagelab_recording::tables::TasksRow;

use crate::recorder::{Recorder, monotonic_ns};
use crate::subject::Subject;

/// The first tasks are in the table also where neither BPF nor perf events are available.
pub(crate) fn note_start(recorder: &mut Recorder, subject: &Subject) {
    let found = matches!(subject, Subject::Found(_));
    for (task_id, (pid, _)) in (1..).zip(subject.processes()) {
        // At the gate it is still the recorder's child, whose name would say nothing.
        let comm = found.then(|| process::comm(pid, pid));
        let comm = comm.as_deref().map(String::from_utf8_lossy);
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok().filter(|_| found);
        recorder.writer.push(&TasksRow {
            ts: monotonic_ns(),
            op: "snapshot",
            task_id,
            tid: pid as i32,
            pid: pid as i32,
            mm_id: Some(task_id),
            comm: comm.as_deref().filter(|comm| !comm.is_empty()),
            exe: exe.as_ref().map(|exe| exe.as_os_str().as_bytes()),
            ..TasksRow::default()
        });
    }
}

/// Where nothing reports tasks, or the kernel took away what does: the end of a command, which is the session's child, so that its
/// accounts can still be read.
pub(crate) fn note_end(recorder: &mut Recorder, subject: &Subject) {
    let Subject::Started(started) = subject else { return };
    let is_unseen = recorder.probes.taken().iter().any(|task| task.is_child);
    if !recorder.probes.are_alone() && !is_unseen {
        return;
    }
    let pid = started.child.pid();
    let Some(accounts) = process::accounts(pid).filter(|accounts| accounts.exit_code.is_some()) else { return };
    let comm = process::comm(pid, pid);
    recorder.writer.push(&TasksRow {
        ts: monotonic_ns(),
        op: "exit",
        task_id: 1,
        tid: pid as i32,
        pid: pid as i32,
        mm_id: Some(1),
        comm: Some(&String::from_utf8_lossy(&comm)),
        exit_code: accounts.exit_code,
        min_flt: Some(accounts.faults.0),
        maj_flt: Some(accounts.faults.1),
        utime_ns: Some(accounts.cpu_ns.0),
        stime_ns: Some(accounts.cpu_ns.1),
        ..TasksRow::default()
    });
}
