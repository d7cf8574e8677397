//! The tasks that live, and what they have used: a task that has not ended when the recording does gets a row all the
//! same.

use std::collections::HashMap;

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::TasksRow;

use crate::bpf::{TaskEvent, TaskOp};
use crate::process::{self, Accounts};

/// At most this many tasks get a row at the end, which takes some 20 us each.
const MOST: usize = 16_384;

/// Tasks by their ids.
#[derive(Debug, Default)]
pub(super) struct Living(HashMap<u32, One>);

#[derive(Debug)]
struct One {
    pid: u32,
    tid: u32,
    parent_task_id: Option<u32>,
    mm_id: Option<u32>,
    comm: Vec<u8>,
}

impl Living {
    /// Takes what happened to a task.
    pub(super) fn note(&mut self, event: &TaskEvent) {
        if matches!(event.op, TaskOp::Exit | TaskOp::Leave) {
            self.0.remove(&event.task_id);
            return;
        }
        let one = self.0.entry(event.task_id).or_insert(One {
            pid: event.pid,
            tid: event.tid,
            parent_task_id: event.parent_task_id,
            mm_id: event.mm_id,
            comm: Vec::new(),
        });
        // An exec may give the task another number and gives it another address space.
        (one.pid, one.tid, one.mm_id) = (event.pid, event.tid, event.mm_id);
        one.comm.clone_from(&event.comm);
    }

    /// The process of a task.
    pub(super) fn process_of(&self, task_id: u32) -> Option<u32> {
        self.0.get(&task_id).map(|one| one.pid)
    }

    /// Writes a row for each task: what it has used so far. One that has ended meanwhile has none.
    pub(super) fn write(&self, now_ns: i64, recorded_faults: &HashMap<u32, u64>, writer: &mut RecordingWriter) {
        let mut ids: Vec<u32> = self.0.keys().copied().collect();
        ids.sort_unstable();
        for task_id in ids.into_iter().take(MOST) {
            let Some(one) = self.0.get(&task_id) else { continue };
            let Some(used) = accounts(one.pid, one.tid).filter(|used| used.exit_code.is_none()) else { continue };
            let comm = String::from_utf8_lossy(&one.comm);
            writer.push(&TasksRow {
                ts: now_ns,
                op: "alive",
                task_id,
                tid: one.tid as i32,
                pid: one.pid as i32,
                parent_task_id: one.parent_task_id,
                mm_id: one.mm_id,
                comm: Some(&*comm).filter(|comm| !comm.is_empty()),
                min_flt: Some(used.faults.0),
                maj_flt: Some(used.faults.1),
                utime_ns: Some(used.cpu_ns.0),
                stime_ns: Some(used.cpu_ns.1),
                recorded_faults: Some(recorded_faults.get(&task_id).copied().unwrap_or(0)),
                ..TasksRow::default()
            });
        }
    }
}

/// The accounts of a thread. Its run time is exact where the scheduler tells it, split in the proportion of the clock ticks.
pub(super) fn accounts(pid: u32, tid: u32) -> Option<Accounts> {
    let ticks = process::thread_accounts(pid, tid)?;
    let exact_ns = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok();
    let exact_ns: Option<u64> = exact_ns.and_then(|text| text.split(' ').next()?.parse().ok());
    let (user, system) = (u128::from(ticks.cpu_ns.0), u128::from(ticks.cpu_ns.1));
    let Some(exact_ns) = exact_ns else { return Some(ticks) };
    let system = (u128::from(exact_ns) * system).checked_div(user + system).unwrap_or(0) as u64;
    Some(Accounts { cpu_ns: (exact_ns.saturating_sub(system), system), ..ticks })
}
