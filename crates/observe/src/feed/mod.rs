//! Turns what the observers see of the recorded tree into rows of the recording: tasks, page faults, mappings, system calls and
//! files.
//!
//! | module | writes |
//! |---|---|
//! | `actions` | mapping actions |
//! | `calls` | system calls |
//! | `details` | how faults ended, into the rows of the faults |
//! | `files` | the files of calls and mappings, each once |
//! | `living` | tasks that live when recording ends |

mod actions;
mod calls;
mod details;
mod files;
mod living;

use std::collections::HashMap;

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::{
    FaultsColumns, FaultsRow, OffcpuColumns, OffcpuRow, SyscallsColumns, Tables, TasksRow,
};

use crate::bpf::{Event, FaultSlot, MapEvent, OffCpu, Special, TaskEvent, TaskOp};
use crate::details::FaultDetail;
use crate::perf::PerfFault;
use crate::stacks::{End, StackIds};
use crate::watcher::{Closing, monotonic_ns};

pub use actions::MapAction;
use actions::{Row, makes_mapping};
use calls::WaitingCalls;
pub use calls::{CallFeed, CallSink};
pub use details::DetailFeed;
use files::Files;
use living::Living;

/// Slots that are taken apart into columns at a time: 16 KiB, which stay in the first-level cache from column to column.
const BLOCK_SLOTS: usize = 512;
/// What the kernel counted of tasks, together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedTasks {
    /// How many.
    pub tasks: u64,
    /// Minor and major faults.
    pub faults: (u64, u64),
    /// User and system time until they began to end, ns.
    pub cpu_ns: (u64, u64),
    /// The kernel wrote a core of one.
    pub dumped_core: bool,
}

/// In the status of a task: the kernel wrote its core.
const CORE_DUMPED: i32 = 0x80;

impl EndedTasks {
    fn add(&mut self, faults: (u64, u64), cpu_ns: (u64, u64), status: Option<i32>) {
        self.tasks += 1;
        self.dumped_core |= status.is_some_and(|status| status & CORE_DUMPED != 0 && status & 0x7f != 0);
        self.faults = (self.faults.0 + faults.0, self.faults.1 + faults.1);
        self.cpu_ns = (self.cpu_ns.0 + cpu_ns.0, self.cpu_ns.1 + cpu_ns.1);
    }
}

/// State between batches: names of files, ids of mappings, faults per task.
#[derive(Debug, Default)]
pub struct Feed {
    files: Files,
    calls: Option<CallFeed>,
    waiting_calls: WaitingCalls,
    last_mapping_id: u32,
    recorded_faults: HashMap<u32, u64>,
    details: DetailFeed,
    living: Living,
    ended: Option<EndedTasks>,
    execs: u64,
    /// When the first task began to execute the command, CLOCK_MONOTONIC ns.
    pub first_exec_ns: Option<i64>,
    /// When the first task ended.
    pub first_exit_ns: Option<i64>,
    /// When the last one that was seen to end did.
    pub last_exit_ns: Option<i64>,
    record_tasks: bool,
    record_maps: bool,
    /// perf reports memory areas and not calls: the address that a call asked for is not known.
    by_perf: bool,
    /// Task 1 is the recorder's own child at the gate until it executes the command.
    at_gate: bool,
}

impl Feed {
    /// A feed that writes the tables asked for, of a target that waits at the gate or runs already.
    pub fn new(record_tasks: bool, record_maps: bool, at_gate: bool) -> Self {
        Self { record_tasks, record_maps, at_gate, ..Self::default() }
    }

    /// Writes system calls, too.
    pub fn with_calls(self, calls: Option<CallFeed>) -> Self {
        Self { calls, ..self }
    }

    /// Takes its events from perf.
    pub(crate) fn by_perf(self) -> Self {
        Self { by_perf: true, calls: self.calls.map(CallFeed::bare), ..self }
    }

    /// Takes system calls in the order in which they returned; they are written in the order in which they began. Times off
    /// the CPU, which come by the same road, are appended to `off_cpu`.
    ///
    /// The last ones wait for the next round: of two CPUs, one is looked at a moment later than the other, and the name of a file
    /// comes before the call but by another road.
    pub fn calls(&mut self, drain: impl FnOnce(&mut CallSink<'_>), tables: &mut Tables, off_cpu: &mut Vec<OffCpu>) {
        let Self { calls, files, waiting_calls, .. } = self;
        drain(&mut CallSink::new(calls.as_ref(), files, waiting_calls, &mut tables.syscalls, off_cpu));
    }

    /// Writes the system calls that wait.
    pub fn waiting_calls(&mut self, columns: &mut SyscallsColumns) {
        if let Some(feed) = &self.calls {
            self.waiting_calls.write_all(feed, &self.files, columns);
        }
    }

    /// Appends fault records. The slots of one CPU come in the order of time; the writer sorts between CPUs.
    pub fn faults(&mut self, slots: &[FaultSlot], columns: &mut FaultsColumns) {
        for block in slots.chunks(BLOCK_SLOTS) {
            columns.ts.extend(block.iter().map(|slot| slot.ts as i64));
            columns.task_id.extend(block.iter().map(|slot| slot.task_id));
            columns.mm_id.extend(block.iter().map(|slot| slot.mm_id));
            columns.addr.extend(block.iter().map(FaultSlot::addr));
            columns.ip.extend(block.iter().map(|slot| slot.ip));
            columns.error_code.extend_some(block.iter().map(FaultSlot::error_code));
        }
        for same_task in slots.chunk_by(|one, next| one.task_id == next.task_id) {
            *self.recorded_faults.entry(same_task[0].task_id).or_default() += same_task.len() as u64;
        }
    }

    /// Appends fault records and, where they are known, how the faults ended: `details` came after it was noted how far the rings
    /// are filled, and `drain` hands over the records up to there (CPU, position of the first in its ring, records).
    pub fn faults_in_detail(
        &mut self,
        details: &[FaultDetail],
        drain: impl FnOnce(&mut dyn FnMut(usize, u64, &[FaultSlot])),
        columns: &mut FaultsColumns,
    ) {
        drain(&mut |cpu, position, slots| {
            self.faults(slots, columns);
            self.details.faults(cpu, position, slots, columns);
        });
        self.details.details(details, columns);
    }

    /// How faults ended, on the way into the columns: to be notified before and after a part is written.
    pub fn details(&mut self) -> &mut DetailFeed {
        &mut self.details
    }

    /// Details whose faults are not in the recording any more.
    pub fn unmatched_details(&self) -> u64 {
        self.details.unmatched()
    }

    /// Appends page faults that perf saw, whose error code nobody knows.
    pub fn perf_faults(&mut self, faults: &[PerfFault], columns: &mut FaultsColumns) {
        for fault in faults {
            columns.push(&FaultsRow {
                ts: fault.ts as i64,
                task_id: fault.task_id,
                mm_id: fault.mm_id,
                addr: fault.addr,
                ip: fault.ip,
                ..FaultsRow::default()
            });
            *self.recorded_faults.entry(fault.task_id).or_default() += 1;
        }
    }

    /// Writes the rows of a batch of events. The batch must be whole: a record may refer to a name sent right after it. Mapping
    /// actions that have a stack are appended to `actions` instead.
    pub fn events(&mut self, events: &[Event], writer: &mut RecordingWriter, actions: &mut Vec<MapAction>) {
        for event in events {
            if let Event::Path(path) = event {
                self.files.named(path, writer);
            }
        }
        for event in events {
            match event {
                Event::Task(task) => self.task(task, writer),
                Event::Map(map) if self.record_maps => self.map(map, writer, actions),
                Event::Map(_) | Event::Path(_) | Event::Used(_) => {}
            }
        }
    }

    fn task(&mut self, event: &TaskEvent, writer: &mut RecordingWriter) {
        let ts = event.ts as i64;
        if event.task_id == 1 && self.at_gate {
            match event.op {
                TaskOp::Exec => _ = self.first_exec_ns.get_or_insert(ts),
                TaskOp::Exit => self.first_exit_ns = Some(ts),
                _ => {}
            }
        }
        self.execs += u64::from(event.op == TaskOp::Exec);
        if event.op == TaskOp::Exit {
            self.last_exit_ns = self.last_exit_ns.max(Some(ts));
            if let Some((faults, cpu_ns)) = event.faults.zip(event.cpu_ns) {
                self.ended.get_or_insert_default().add(faults, cpu_ns, event.exit_code);
            }
        }
        self.living.note(event);
        if !self.record_tasks || (self.at_gate && self.first_exec_ns.is_none()) {
            return;
        }
        let exit = event.op == TaskOp::Exit;
        // A task that ran before has used resources before: what it uses while it is recorded is the difference.
        let before = if event.op == TaskOp::Snapshot { living::accounts(event.pid, event.tid) } else { None };
        let account = |at_exit: Option<u64>, before: Option<u64>| if exit { at_exit } else { before };
        let (faults_before, cpu_before) = (before.map(|one| one.faults), before.map(|one| one.cpu_ns));
        let comm = String::from_utf8_lossy(&event.comm);
        let recorded = self.recorded_faults.get(&event.task_id).copied().unwrap_or(0);
        writer.push(&TasksRow {
            ts,
            op: match event.op {
                TaskOp::Fork => "fork",
                TaskOp::Exec => "exec",
                TaskOp::Exit => "exit",
                TaskOp::Comm => "comm",
                TaskOp::Snapshot => "snapshot",
                TaskOp::Leave => "leave",
            },
            task_id: event.task_id,
            tid: event.tid as i32,
            pid: event.pid as i32,
            parent_task_id: event.parent_task_id,
            mm_id: event.mm_id,
            comm: Some(&comm),
            exe: event.path_id.and_then(|id| self.files.get(id)).and_then(|file| file.path.as_deref()),
            build_id: None,
            cgroup_id: event.cgroup_id,
            exit_code: event.exit_code.filter(|_| exit),
            min_flt: account(event.faults.map(|(minor, _)| minor), faults_before.map(|(minor, _)| minor)),
            maj_flt: account(event.faults.map(|(_, major)| major), faults_before.map(|(_, major)| major)),
            utime_ns: account(event.cpu_ns.map(|(user, _)| user), cpu_before.map(|(user, _)| user)),
            stime_ns: account(event.cpu_ns.map(|(_, system)| system), cpu_before.map(|(_, system)| system)),
            recorded_faults: account(Some(recorded), None),
        });
        if exit {
            self.recorded_faults.remove(&event.task_id);
        }
    }

    /// Whether the task belongs to what is recorded: not yet the recorder's child at the gate.
    pub fn records(&self, task: &TaskEvent) -> bool {
        !self.at_gate || task.task_id != 1 || self.first_exec_ns.is_some()
    }

    /// Calls that the kernel counts as reads, and as writes; none unless all of these are recorded.
    pub fn transfers(&self) -> Option<[u64; 2]> {
        let all = self.calls.as_ref().is_some_and(CallFeed::has_all_transfers);
        if all { Some(self.waiting_calls.transfers()) } else { None }
    }

    /// Programs that were executed.
    pub fn execs(&self) -> u64 {
        self.execs
    }

    /// What the kernel counted of the tasks that have ended; none where the observer does not say.
    pub fn ended(&self) -> Option<EndedTasks> {
        self.ended
    }

    /// The process that forked the task, as far as it lives.
    pub fn parent_of(&self, task: &TaskEvent) -> Option<u32> {
        self.living.process_of(task.parent_task_id?)
    }

    /// Writes what the tasks that live have used so far; `ends_were_lost` says that ends of tasks may not have been seen. Says in the
    /// manifest of how many that could not be read.
    pub fn note_living(&self, ends_were_lost: bool, closing: &mut Closing<'_>) {
        if !self.record_tasks {
            return;
        }
        // Behind the last forks that were seen.
        let unread = self.living.write(monotonic_ns(), &self.recorded_faults, ends_were_lost, closing.writer);
        if unread > 0 {
            closing.note("alive_without_accounts", unread);
            closing.note("alive_without_accounts_because", living::WHY_UNREAD);
        }
    }

    /// The processes that live, each with its name and the number of its tasks: their ends were not seen, though they may have ended
    /// since. If ends were lost, those that still go on.
    pub fn living_processes(&self, ends_were_lost: bool) -> Vec<(u32, String, usize)> {
        self.living.processes(ends_were_lost)
    }

    /// Whether every task was seen to end.
    pub fn has_seen_all_end(&self) -> bool {
        self.living.is_empty()
    }

    /// Whether a task lives.
    pub fn is_alive(&self) -> bool {
        self.living.any_goes_on()
    }

    fn map(&mut self, event: &MapEvent, writer: &mut RecordingWriter, actions: &mut Vec<MapAction>) {
        let path: Option<&[u8]> = match (event.path_id, event.special) {
            (Some(id), _) => self.files.get(id).and_then(|file| file.path.as_deref()),
            (None, Special::Stack) => Some(b"[stack]"),
            (None, Special::Heap) => Some(b"[heap]"),
            (None, Special::Vdso) => Some(b"[vdso]"),
            (None, Special::Plain) => None,
        };
        let mapping_id = makes_mapping(event).then(|| {
            self.last_mapping_id += 1;
            self.last_mapping_id
        });
        let row = Row { event, mapping_id, path, by_perf: self.by_perf };
        if event.has_stack {
            actions.push(row.to_action());
        } else {
            row.push(None, writer);
        }
    }
}

/// Appends a time off the CPU.
pub(crate) fn push_off_cpu(off: &OffCpu, stacks: StackIds, columns: &mut OffcpuColumns) {
    columns.push(&OffcpuRow {
        ts: off.ts as i64,
        dur: off.dur_ns.map(|ns| ns as i64),
        task_id: off.task_id,
        state: Some(off.state_letter()),
        iowait: Some(off.iowait),
        kstack_id: stacks.kernel,
        ustack_id: stacks.user,
        waker_task_id: off.waker_task_id,
        runqueue_ns: off.dur_ns.map(|_| off.runqueue_ns),
        ustack_end: stacks.end.map(End::name),
    });
}
