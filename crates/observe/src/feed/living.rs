//! The tasks that live, and what they have used: a task that has not ended when the recording does gets a row all the
//! same.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::TasksRow;

use crate::bpf::{TaskEvent, TaskOp};
use crate::process::{self, Accounts};

/// How long accounts are read at the end, which takes some 20 us a task. Tasks whose turn does not come by then have a row without.
const READ_FOR: Duration = Duration::from_secs(2);

/// The same in words.
pub(super) const WHY_UNREAD: &str =
    "the accounts of living tasks are read for 2 s when recording ends; these tasks' turn did not come by then";

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

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them goes on; ends may not have been seen.
    pub(super) fn any_goes_on(&self) -> bool {
        self.0.values().any(|one| process::goes_on(one.pid, one.tid))
    }

    /// The processes, each with its name and the number of its tasks; those whose end was not seen, or, if ends were lost, those that
    /// still go on.
    pub(super) fn processes(&self, ends_were_lost: bool) -> Vec<(u32, String, usize)> {
        let mut processes: BTreeMap<u32, (String, usize)> = BTreeMap::new();
        for one in self.0.values().filter(|one| !ends_were_lost || process::goes_on(one.pid, one.tid)) {
            let (name, tasks) = processes.entry(one.pid).or_default();
            *tasks += 1;
            if one.pid == one.tid || name.is_empty() {
                *name = String::from_utf8_lossy(&one.comm).into_owned();
            }
        }
        processes.into_iter().map(|(pid, (name, tasks))| (pid, name, tasks)).collect()
    }

    /// The process of a task.
    pub(super) fn process_of(&self, task_id: u32) -> Option<u32> {
        self.0.get(&task_id).map(|one| one.pid)
    }

    /// Writes a row for each task: what it has used so far. Gives how many have a row without that, for want of time.
    ///
    /// A task that is gone by now ended after the last event was seen; it lived until then, unless `ends_were_lost`: then it may
    /// have ended long ago, and has no row.
    pub(super) fn write(
        &self,
        now_ns: i64,
        recorded_faults: &HashMap<u32, u64>,
        ends_were_lost: bool,
        writer: &mut RecordingWriter,
    ) -> usize {
        let mut ids: Vec<u32> = self.0.keys().copied().collect();
        ids.sort_unstable();
        let (begun, mut unread) = (Instant::now(), 0);
        for task_id in ids {
            let Some(one) = self.0.get(&task_id) else { continue };
            let in_time = begun.elapsed() < READ_FOR;
            unread += usize::from(!in_time);
            let used = if in_time { accounts(one.pid, one.tid) } else { None };
            let has_ended = in_time && used.is_none_or(|used| used.exit_code.is_some());
            if has_ended && ends_were_lost {
                continue;
            }
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
                min_flt: used.map(|used| used.faults.0),
                maj_flt: used.map(|used| used.faults.1),
                utime_ns: used.map(|used| used.cpu_ns.0),
                stime_ns: used.map(|used| used.cpu_ns.1),
                recorded_faults: Some(recorded_faults.get(&task_id).copied().unwrap_or(0)),
                ..TasksRow::default()
            });
        }
        unread
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

#[cfg(test)]
mod tests {
    use pagelab_recording::{Manifest, Recording, WriterOptions};

    use super::*;

    fn tasks(count: u32) -> Living {
        let mut living = Living::default();
        for task_id in 1..=count {
            // No kernel gives numbers as high as these.
            let (pid, tid) = (1 << 30, (1 << 30) + task_id);
            let (comm, parent_task_id) = (b"many".to_vec(), Some(1));
            living.0.insert(task_id, One { pid, tid, parent_task_id, mm_id: Some(1), comm });
        }
        living
    }

    fn rows(living: &Living, ends_were_lost: bool) -> u64 {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("rec");
        let mut writer =
            RecordingWriter::create(&dir, Manifest::default(), WriterOptions::default()).expect("a recording");
        living.write(1, &HashMap::new(), ends_were_lost, &mut writer);
        writer.close(|_| {}).expect("closed");
        Recording::open(&dir).and_then(|recording| recording.rows("tasks")).expect("its rows")
    }

    #[test]
    fn every_task_that_has_no_end_has_a_row() {
        let living = tasks(40_000);
        assert_eq!(rows(&living, false), 40_000, "they ended after the last event");
        assert_eq!(rows(&living, true), 0, "they may have ended long ago");
    }
}
