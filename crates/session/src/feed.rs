//! Turns what the BPF programs send into rows of the recording.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::ffi::OsStrExt;

use pagelab_observe::bpf::{Event, FaultSlot, MapEvent, Special, TaskEvent, TaskOp};
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::{FaultsColumns, FilesRow, MappingsRow, TasksRow};

/// Results of system calls from here down to -1 are negated errnos.
const LOWEST_ERRNO: i64 = -4095;
/// Slots that are taken apart into columns at a time: 16 KiB, which stay in the first-level cache from column to column.
const BLOCK_SLOTS: usize = 512;

/// State between batches: names of files, ids of mappings, faults per task.
#[derive(Debug, Default)]
pub struct Feed {
    paths: HashMap<u32, Vec<u8>>,
    files: HashMap<(u64, u64), u32>,
    last_mapping_id: u32,
    recorded_faults: HashMap<u32, u64>,
    /// When the first task began to execute the command, CLOCK_MONOTONIC ns.
    pub first_exec_ns: Option<i64>,
    /// When the first task ended.
    pub first_exit_ns: Option<i64>,
    record_tasks: bool,
    record_maps: bool,
    /// Task 1 is the recorder's own child at the gate until it executes the command.
    at_gate: bool,
}

impl Feed {
    /// A feed that writes the tables asked for, of a target that waits at the gate or runs already.
    pub fn new(record_tasks: bool, record_maps: bool, at_gate: bool) -> Self {
        Self { record_tasks, record_maps, at_gate, ..Self::default() }
    }

    /// Appends fault records. The slots of one CPU come in the order of time; the writer sorts between CPUs.
    pub fn faults(&mut self, slots: &[FaultSlot], columns: &mut FaultsColumns) {
        for block in slots.chunks(BLOCK_SLOTS) {
            columns.ts.extend(block.iter().map(|slot| slot.ts as i64));
            columns.task_id.extend(block.iter().map(|slot| slot.task_id));
            columns.mm_id.extend(block.iter().map(|slot| slot.mm_id));
            columns.addr.extend(block.iter().map(FaultSlot::addr));
            columns.ip.extend(block.iter().map(|slot| slot.ip));
            columns.error_code.extend(block.iter().map(FaultSlot::error_code));
        }
        for same_task in slots.chunk_by(|one, next| one.task_id == next.task_id) {
            *self.recorded_faults.entry(same_task[0].task_id).or_default() += same_task.len() as u64;
        }
    }

    /// Writes the rows of a batch of events. The batch must be whole: a record may refer to a name sent right after it.
    pub fn events(&mut self, events: &[Event], writer: &mut RecordingWriter) {
        for event in events {
            if let Event::Path(path) = event {
                let mut name = path.path.as_bytes().to_vec();
                if path.truncated {
                    name.splice(0..0, b"...".iter().copied());
                }
                self.paths.insert(path.path_id, name);
            }
        }
        for event in events {
            match event {
                Event::Task(task) => self.task(task, writer),
                Event::Map(map) if self.record_maps => self.map(map, writer),
                Event::Map(_) | Event::Path(_) => {}
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
        if !self.record_tasks || (self.at_gate && self.first_exec_ns.is_none()) {
            return;
        }
        let exit = event.op == TaskOp::Exit;
        let at_exit = |value: u64| exit.then_some(value);
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
            exe: event.path_id.and_then(|id| self.paths.get(&id)).map(Vec::as_slice),
            build_id: None,
            cgroup_id: Some(event.cgroup_id),
            exit_code: exit.then_some(event.exit_code),
            min_flt: at_exit(event.faults.0),
            maj_flt: at_exit(event.faults.1),
            utime_ns: at_exit(event.cpu_ns.0),
            stime_ns: at_exit(event.cpu_ns.1),
            recorded_faults: at_exit(recorded),
        });
        if exit {
            self.recorded_faults.remove(&event.task_id);
        }
    }

    fn map(&mut self, event: &MapEvent, writer: &mut RecordingWriter) {
        let path = match (event.path_id, event.special) {
            (Some(id), _) => self.paths.get(&id).cloned(),
            (None, Special::Stack) => Some(b"[stack]".to_vec()),
            (None, Special::Heap) => Some(b"[heap]".to_vec()),
            (None, Special::Vdso) => Some(b"[vdso]".to_vec()),
            (None, Special::Plain) => None,
        };
        let called = event.kind == "call";
        let makes = makes_mapping(event);
        let mapping_id = makes.then(|| {
            self.last_mapping_id += 1;
            self.last_mapping_id
        });
        // What a call makes is there when it returns; what it takes away is gone some time after it begins.
        let ts = if makes && called { event.ts + event.dur_ns } else { event.ts } as i64;
        let has_file = event.ino != 0 || path.as_ref().is_some_and(|path| path.first() == Some(&b'/'));
        let (mremap, brk) = (event.op == "mremap", event.op == "brk");
        writer.push(&MappingsRow {
            ts,
            task_id: event.task_id,
            mm_id: event.mm_id,
            mapping_id,
            op: event.op,
            kind: event.kind,
            addr: Some(event.addr),
            len: (!brk).then_some(event.len),
            old_addr: (mremap || brk).then_some(event.old_addr),
            old_len: mremap.then_some(event.offset),
            prot: matches!(event.op, "mmap" | "mprotect").then_some(event.prot),
            flags: matches!(event.op, "mmap" | "mremap" | "mlock" | "shmat").then_some(event.flags),
            fd: (event.fd >= 0).then_some(event.fd),
            offset: has_file.then_some(event.offset),
            dev: has_file.then_some(event.dev),
            ino: has_file.then_some(event.ino),
            path: path.as_deref(),
            advice: matches!(event.op, "madvise" | "process_madvise" | "prctl_thp").then_some(event.advice as i32),
            ret: called.then_some(event.ret),
            ustack_id: None,
        });
        if has_file && let Some(path) = &path {
            self.file(event, path, writer);
        }
    }

    fn file(&mut self, event: &MapEvent, path: &[u8], writer: &mut RecordingWriter) {
        let next_id = self.files.len() as u32 + 1;
        match self.files.entry((event.dev, event.ino)) {
            Entry::Occupied(_) => return,
            Entry::Vacant(new) => _ = new.insert(next_id),
        }
        writer.push(&FilesRow {
            ts: event.ts as i64,
            file_id: next_id,
            dev: event.dev,
            ino: event.ino,
            fs: None,
            file_type: None,
            path: Some(path),
        });
    }
}

/// Whether the action leaves a new mapping behind.
fn makes_mapping(event: &MapEvent) -> bool {
    let failed = (LOWEST_ERRNO..0).contains(&event.ret);
    match event.op {
        "mmap" | "mremap" | "shmat" => !failed,
        "brk" => event.ret as u64 > event.old_addr,
        _ => false,
    }
}
