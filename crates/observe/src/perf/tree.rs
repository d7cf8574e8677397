//! From perf's records to the events of a tree: ids of tasks and of address spaces, and which memory each of these has.

use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

use pagelab_recording::lifetimes::Lifetimes;
use pagelab_recording::space::Content;
use pagelab_vocab::abi::MAP_ANONYMOUS;

use super::actions;
use super::areas::{Area, Areas, Seen};
use super::calls::{Entry, Pairing, Purpose, Slot};
use super::records::{Item, Mmap, Tick, What};
use crate::bpf::{Call, Event, MapEvent, PathEvent, Special, TaskEvent, TaskOp};
use crate::process::{self, MapsLine};

/// Names that are remembered as sent; all are forgotten when there are more, and sent again.
const PATHS_MAX: usize = 1 << 16;

/// A page fault; what the processor's error code would say is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfFault {
    /// CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// Who faulted, and in which address space.
    pub task_id: u32,
    /// The address space.
    pub mm_id: u32,
    /// The address that was accessed.
    pub addr: u64,
    /// The instruction.
    pub ip: u64,
}

/// A sample of the profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerfSample {
    /// CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// Who ran.
    pub task_id: u32,
    /// The address space.
    pub mm_id: u32,
    /// The process.
    pub pid: u32,
    pub(crate) tick: Box<Tick>,
}

/// What came since the last time, each in the order of time.
#[derive(Debug, Default)]
pub struct PerfBatch {
    /// Tasks, mappings and names of files, as the BPF observer sends them.
    pub events: Vec<Event>,
    /// Page faults.
    pub faults: Vec<PerfFault>,
    /// Samples of the profile.
    pub samples: Vec<PerfSample>,
    /// System calls, in the order in which they returned.
    pub calls: Vec<Call>,
}

#[derive(Debug, Clone)]
struct Task {
    task_id: u32,
    pid: u32,
    comm: Vec<u8>,
    /// The system call that it is in, by [`Purpose`].
    calls: [Slot; 2],
}

/// An exec whose executable is not known yet: it is the first file that is mapped. Mappings before that wait, too.
#[derive(Debug)]
struct Exec {
    ts: u64,
    maps: Vec<MapEvent>,
}

#[derive(Debug, Default)]
struct Space {
    areas: Areas,
    /// The kernel makes the mappings until the vDSO, the last of exec, is there.
    set_up: bool,
    /// A 32-bit program, whose system calls have other numbers.
    compat: bool,
}

/// A task whose events ended before it did: the kernel takes them away at the exec of a program that the recording user may not look
/// into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// When, CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// The process.
    pub pid: u32,
    /// Its name: that of the program executed.
    pub comm: Vec<u8>,
    /// It is the recorder's own child.
    pub is_child: bool,
}

/// The tree of the recorded tasks.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The recorder's own child, which it has not reaped: the accounts of its first thread can still be read when it has ended.
    child: Option<u32>,
    /// By their numbers, which come again when a task has ended.
    tasks: Lifetimes<u32, Task>,
    spaces: HashMap<u32, Space>,
    execs: HashMap<u32, Exec>,
    paths: HashMap<(u64, u64, Vec<u8>), u64>,
    last_path_id: u64,
    /// Entries and returns of system calls, by [`Purpose`].
    pub pairings: [Pairing; 2],
    /// Tasks whose events are gone.
    pub taken: Vec<Taken>,
    /// Some address space is of a 32-bit program.
    any_compat: bool,
    last_task_id: u32,
    last_mm_id: u32,
}

impl Tree {
    /// An empty tree, of whose tasks these calls are wanted, by [`Purpose`].
    pub(super) fn new(pairings: [Pairing; 2]) -> Self {
        Self { pairings, ..Self::default() }
    }

    /// Adds the child that waits at the gate.
    pub(super) fn start_with_child(&mut self, pid: u32) {
        self.child = Some(pid);
        let mm_id = self.new_space(true);
        self.add(pid, pid, mm_id, Vec::new());
    }

    /// Adds a process that runs already with its threads.
    pub(super) fn found(&mut self, ts: u64, pid: u32, tids: &[u32], batch: &mut PerfBatch) {
        let mm_id = self.new_space(true);
        for tid in tids {
            let comm = process::comm(pid, *tid);
            self.add(pid, *tid, mm_id, comm);
            let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
            let path_id = exe.and_then(|exe| {
                let meta = std::fs::metadata(&exe).ok()?;
                Some(self.path(ts, (meta.dev(), meta.ino(), 0), exe.as_os_str().as_bytes(), batch))
            });
            self.task_event(ts, *tid, TaskOp::Snapshot, None, path_id, batch);
        }
        for line in MapsLine::parse_all(&MapsLine::read(pid)) {
            let mmap = Mmap {
                start: line.start,
                len: line.end - line.start,
                offset: line.offset,
                dev: line.dev,
                ino: line.ino,
                generation: 0,
                prot: line.prot,
                flags: line.flags,
                name: line.path.to_vec(),
            };
            let tid = tids.first().copied().unwrap_or(pid);
            self.mmap(ts, tid, &mmap, Some("snapshot"), batch);
        }
    }

    /// Takes an item; items come in the order of time.
    pub(super) fn take(&mut self, item: Item, batch: &mut PerfBatch) {
        let Item { ts, pid, tid, what } = item;
        match what {
            What::Fork { parent_tid, parent_pid } => self.fork(ts, (pid, tid), (parent_pid, parent_tid), batch),
            What::Exit => self.exit(ts, (pid, tid), batch),
            What::Comm { comm, exec } => {
                self.meet(ts, pid, tid, exec, batch);
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.comm = comm;
                }
                if exec {
                    self.exec(ts, tid, batch);
                } else {
                    self.task_event(ts, tid, TaskOp::Comm, None, None, batch);
                }
            }
            What::Mmap(mmap) => {
                self.meet(ts, pid, tid, false, batch);
                self.mmap(ts, tid, &mmap, None, batch);
            }
            What::Fault { ip, addr } => {
                self.meet(ts, pid, tid, false, batch);
                if let Some((task_id, mm_id)) = self.ids_of(tid) {
                    batch.faults.push(PerfFault { ts, task_id, mm_id, addr, ip });
                }
            }
            What::Tick(tick) => {
                self.meet(ts, pid, tid, false, batch);
                if let Some((task_id, mm_id)) = self.ids_of(tid) {
                    batch.samples.push(PerfSample { ts, task_id, mm_id, pid, tick });
                }
            }
            What::Enter(entry) => {
                self.meet(ts, pid, tid, false, batch);
                self.entered(ts, tid, &entry, batch);
            }
            What::Return(ended) => {
                let Some((_, mm_id)) = self.ids_of(tid) else { return };
                let Some(task) = self.tasks.get_mut(&tid) else { return };
                let at = ended.purpose as usize;
                let calls = self.pairings[at].returned(&mut task.calls[at], (ts, task.task_id), &ended);
                for call in calls {
                    self.called(ended.purpose, mm_id, call, batch);
                }
            }
            What::GapBegins(purpose) => {
                let pairing = &mut self.pairings[purpose as usize];
                pairing.gap_begins();
                for task in self.tasks.values_mut() {
                    pairing.give_up(&mut task.calls[purpose as usize]);
                }
            }
            What::GapEnds(purpose) => self.pairings[purpose as usize].gap_ends(),
        }
    }

    fn entered(&mut self, ts: u64, tid: u32, entry: &Entry, batch: &mut PerfBatch) {
        let Some((_, mm_id)) = self.ids_of(tid) else { return };
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        if self.any_compat && self.spaces.get(&mm_id).is_some_and(|space| space.compat) {
            let at = entry.purpose as usize;
            if entry.purpose == Purpose::Calls {
                self.pairings[at].lose(&mut task.calls[at], entry.cpu);
            } else {
                task.calls[at] = Slot::NEW;
            }
            return;
        }
        let at = entry.purpose as usize;
        let before = self.pairings[at].entered(&mut task.calls[at], (ts, task.task_id), entry);
        if entry.purpose == Purpose::Maps
            && let Some(space) = self.spaces.get_mut(&mm_id)
        {
            actions::begins(&mut space.areas, entry.nr, &entry.args);
        }
        self.called(entry.purpose, mm_id, before, batch);
    }

    /// Hands over a call that is known to its end.
    fn called(&mut self, purpose: Purpose, mm_id: u32, call: Option<Call>, batch: &mut PerfBatch) {
        let Some(call) = call else { return };
        match purpose {
            Purpose::Calls => batch.calls.push(call),
            Purpose::Maps => {
                let Some(event) = actions::action(&call, mm_id) else { return };
                if let Some(space) = self.spaces.get_mut(&mm_id) {
                    actions::done(&mut space.areas, &event);
                }
                batch.events.push(Event::Map(event));
            }
        }
    }

    /// Hands over what waits for a record that will not come any more.
    pub(super) fn finish(&mut self, batch: &mut PerfBatch) {
        let waiting: Vec<u32> = self.execs.keys().copied().collect();
        for tid in waiting {
            self.exec_with(tid, None, batch);
        }
        let pairing = &mut self.pairings[Purpose::Calls as usize];
        for task in self.tasks.values_mut() {
            batch.calls.extend(pairing.ended(&mut task.calls[Purpose::Calls as usize], task.task_id));
        }
    }

    fn new_space(&mut self, set_up: bool) -> u32 {
        self.last_mm_id += 1;
        self.spaces.insert(self.last_mm_id, Space { set_up, ..Space::default() });
        self.last_mm_id
    }

    /// The ids of a living task and of its address space.
    fn ids_of(&self, tid: u32) -> Option<(u32, u32)> {
        Some((self.tasks.get(&tid)?.task_id, self.tasks.mm_of(&tid)?))
    }

    fn add(&mut self, pid: u32, tid: u32, mm_id: u32, comm: Vec<u8>) {
        self.last_task_id += 1;
        let task = Task { task_id: self.last_task_id, pid, comm, calls: [Slot::NEW; 2] };
        let left = self.tasks.begin(tid, Some(mm_id), task);
        self.forget(left);
    }

    /// Forgets an address space that nobody uses any more.
    fn forget(&mut self, left: Option<u32>) {
        if let Some(mm_id) = left {
            self.spaces.remove(&mm_id);
        }
    }

    /// Makes sure that the task is known. One whose fork was lost is found here; a thread that has executed a program has taken
    /// the number of its process over.
    fn meet(&mut self, ts: u64, pid: u32, tid: u32, execs: bool, batch: &mut PerfBatch) {
        if self.tasks.contains(&tid) {
            return;
        }
        let other = self.tasks.iter().find(|(_, _, task)| task.pid == pid).map(|(tid, mm_id, _)| (*tid, mm_id));
        if let (Some((before, _)), true) = (other, execs) {
            let left = self.tasks.rename(&before, tid);
            self.forget(left);
            return;
        }
        let mm_id = other.and_then(|(_, mm_id)| mm_id).unwrap_or_else(|| self.new_space(true));
        self.add(pid, tid, mm_id, Vec::new());
        self.task_event(ts, tid, TaskOp::Snapshot, None, None, batch);
    }

    fn fork(&mut self, ts: u64, (pid, tid): (u32, u32), (parent_pid, parent_tid): (u32, u32), batch: &mut PerfBatch) {
        let parent = self.tasks.get(&parent_tid).cloned();
        let parent_mm = self.tasks.mm_of(&parent_tid);
        let comm = parent.as_ref().map(|parent| parent.comm.clone()).unwrap_or_default();
        let shares = pid == parent_pid;
        let mm_id = parent_mm.filter(|_| shares).unwrap_or_else(|| self.new_space(true));
        self.add(pid, tid, mm_id, comm);
        self.task_event(ts, tid, TaskOp::Fork, parent.as_ref().map(|parent| parent.task_id), None, batch);
        let Some(parent_mm) = parent_mm.filter(|_| !shares) else { return };
        let areas = self.spaces.get(&parent_mm).map(|space| space.areas.clone()).unwrap_or_default();
        let task_id = self.last_task_id;
        for (range, area) in areas.iter() {
            batch.events.push(Event::Map(map_event((ts, task_id, mm_id), "fork", &range, area)));
        }
        if let Some(space) = self.spaces.get_mut(&mm_id) {
            space.areas = areas;
        }
    }

    /// Takes the end of a task's events. It is the task's own end unless the task goes on.
    fn exit(&mut self, ts: u64, (pid, tid): (u32, u32), batch: &mut PerfBatch) {
        self.exec_with(tid, None, batch);
        let Some(task) = self.tasks.get(&tid) else { return };
        if process::goes_on(pid, tid) {
            let is_child = self.child == Some(tid);
            self.taken.push(Taken { ts, pid, comm: task.comm.clone(), is_child });
        } else {
            self.task_event(ts, tid, TaskOp::Exit, None, None, batch);
        }
        if let Some((mut task, left)) = self.tasks.end(&tid) {
            // A mapping call in which its task ended did nothing that outlives it.
            let pairing = &mut self.pairings[Purpose::Calls as usize];
            batch.calls.extend(pairing.ended(&mut task.calls[Purpose::Calls as usize], task.task_id));
            self.forget(left);
        }
    }

    fn exec(&mut self, ts: u64, tid: u32, batch: &mut PerfBatch) {
        self.exec_with(tid, None, batch);
        let mm_id = self.new_space(false);
        if !self.tasks.contains(&tid) {
            self.spaces.remove(&mm_id);
            return;
        }
        let left = self.tasks.enter(&tid, Some(mm_id));
        self.forget(left);
        self.execs.insert(tid, Exec { ts, maps: Vec::new() });
    }

    /// Hands over an exec that waits, and what waits for it.
    fn exec_with(&mut self, tid: u32, path_id: Option<u64>, batch: &mut PerfBatch) {
        let Some(exec) = self.execs.remove(&tid) else { return };
        self.task_event(exec.ts, tid, TaskOp::Exec, None, path_id, batch);
        batch.events.extend(exec.maps.into_iter().map(Event::Map));
    }

    fn task_event(
        &self,
        ts: u64,
        tid: u32,
        op: TaskOp,
        parent_task_id: Option<u32>,
        path_id: Option<u64>,
        batch: &mut PerfBatch,
    ) {
        let Some(task) = self.tasks.get(&tid) else { return };
        let child = self.child == Some(tid) && op == TaskOp::Exit;
        let accounts = if child { process::thread_accounts(tid, tid) } else { None };
        batch.events.push(Event::Task(TaskEvent {
            ts,
            op,
            task_id: task.task_id,
            parent_task_id,
            mm_id: self.tasks.mm_of(&tid),
            tid,
            pid: task.pid,
            exit_code: accounts.as_ref().and_then(|accounts| accounts.exit_code),
            path_id,
            cgroup_id: None,
            faults: accounts.as_ref().map(|accounts| accounts.faults),
            cpu_ns: accounts.as_ref().map(|accounts| accounts.cpu_ns),
            comm: task.comm.clone(),
        }));
    }

    /// Takes a report of a memory area; `kind` where it is no action of the task.
    fn mmap(&mut self, ts: u64, tid: u32, mmap: &Mmap, kind: Option<&'static str>, batch: &mut PerfBatch) {
        let Some((task_id, mm_id)) = self.ids_of(tid) else { return };
        let (name, special) = named(&mmap.name);
        let path_id = name.map(|name| self.path(ts, (mmap.dev, mmap.ino, mmap.generation), name, batch));
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        // What the kernel has a name for is its own: the vDSO and its data, the stack.
        let own = mmap.name.starts_with(b"[") && special != Special::Heap;
        let kind = kind.unwrap_or(if space.set_up && !own { "call" } else { "kernel" });
        space.set_up |= special == Special::Vdso;
        // There the kernel puts it for programs that cannot reach further.
        space.compat |= special == Special::Vdso && mmap.start >> 32 == 0;
        self.any_compat |= space.compat;
        let area = Area {
            prot: mmap.prot,
            flags: if path_id.is_none() { mmap.flags | MAP_ANONYMOUS } else { mmap.flags },
            offset: if path_id.is_some() { mmap.offset } else { 0 },
            path_id,
            dev: mmap.dev,
            ino: mmap.ino,
            special,
        };
        let who = (ts, task_id, mm_id);
        let mut maps = Vec::new();
        let range = mmap.start..mmap.start.saturating_add(mmap.len);
        match space.areas.report(range.clone(), area) {
            Seen::Protected => {
                let made = map_event(who, "call", &range, &area);
                maps.push(MapEvent { op: "mprotect", ret: 0, ..made });
            }
            Seen::Made(ranges) => {
                for part in ranges {
                    let made = map_event(who, kind, &part, &area.skip(part.start - mmap.start));
                    maps.push(if special == Special::Heap && kind == "call" { grown(&made) } else { made });
                }
            }
        }
        if path_id.is_some() {
            self.exec_with(tid, path_id, batch);
        }
        match self.execs.get_mut(&tid) {
            Some(exec) => exec.maps.extend(maps),
            None => batch.events.extend(maps.into_iter().map(Event::Map)),
        }
    }

    /// The number of a file's name. The name is reported when the file is met for the first time, or again after it was
    /// forgotten.
    fn path(&mut self, ts: u64, (dev, ino, generation): (u64, u64, u32), name: &[u8], batch: &mut PerfBatch) -> u64 {
        if self.paths.len() >= PATHS_MAX {
            self.paths.clear();
        }
        let next = self.last_path_id + 1;
        let path_id = *self.paths.entry((dev, ino, name.to_vec())).or_insert(next);
        if path_id == next {
            self.last_path_id = next;
            let path = OsString::from_vec(name.to_vec());
            // What has the name now is asked for its type, if it is the same file.
            let meta = std::fs::symlink_metadata(&path).ok().filter(|meta| (meta.dev(), meta.ino()) == (dev, ino));
            batch.events.push(Event::Path(PathEvent {
                ts,
                path_id,
                path: Some(path),
                truncated: false,
                dev,
                ino,
                generation,
                mode: meta.map_or(0, |meta| meta.mode()),
                fs: String::new(),
            }));
        }
        path_id
    }
}

/// The file's name, if it is one, else its kind.
fn named(name: &[u8]) -> (Option<&[u8]>, Special) {
    match name {
        b"[stack]" => (None, Special::Stack),
        b"[heap]" => (None, Special::Heap),
        b"[vdso]" => (None, Special::Vdso),
        // Memory without a file, and what perf could not name (`//anon`, `//toolong`, `//enomem`).
        name if name.is_empty() || name.starts_with(b"[") || name.starts_with(b"//") => (None, Special::Plain),
        name => (Some(name.strip_suffix(b" (deleted)").unwrap_or(name)), Special::Plain),
    }
}

fn map_event((ts, task_id, mm_id): (u64, u32, u32), kind: &'static str, range: &Range<u64>, area: &Area) -> MapEvent {
    MapEvent {
        has_stack: false,
        ts,
        dur_ns: 0,
        op: "mmap",
        kind,
        special: area.special,
        task_id,
        mm_id,
        addr: range.start,
        len: range.end - range.start,
        old_addr: 0,
        offset: area.offset,
        prot: area.prot,
        flags: area.flags,
        fd: -1,
        dev: area.dev,
        ino: if area.path_id.is_some() { area.ino } else { 0 },
        path_id: area.path_id,
        advice: 0,
        ret: if kind == "call" { range.start as i64 } else { 0 },
    }
}

/// A heap that has grown, as the call that made it grow.
fn grown(made: &MapEvent) -> MapEvent {
    MapEvent { op: "brk", old_addr: made.addr, ret: (made.addr + made.len) as i64, ..made.clone() }
}
