//! The records that the BPF programs send, decoded into typed values.
//!
//! The raw records are generated from `bpf/wire.h`; this module is the only place that reads them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::object::{WireRecord, read};
use super::skeleton::types;
use super::used::{self, UsedEvent};

pub use types::fault_slot as FaultSlot;

const FAULT_ADDR_BITS: u32 = 56;
const FAULT_ERROR_SGX: u32 = 1 << 15;
const FAULT_ERROR_SGX_WIRE: u32 = 1 << 7;
/// Bits the kernel uses for the minor number in its own `dev_t`.
const KERNEL_MINOR_BITS: u32 = 20;

impl FaultSlot {
    /// The address that was accessed.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.addr_error & ((1 << FAULT_ADDR_BITS) - 1)
    }

    /// The processor's page fault error code (bit 0 protection, 1 write, 2 user, 4 instruction fetch, 15 SGX).
    #[inline]
    pub fn error_code(&self) -> u32 {
        let wire = (self.addr_error >> FAULT_ADDR_BITS) as u32;
        let sgx = if wire & FAULT_ERROR_SGX_WIRE == 0 { 0 } else { FAULT_ERROR_SGX };
        wire & !FAULT_ERROR_SGX_WIRE | sgx
    }
}

/// What happened to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOp {
    /// It was made by `fork`, `vfork` or `clone`.
    Fork,
    /// It runs a new program.
    Exec,
    /// It ended.
    Exit,
    /// It was renamed.
    Comm,
    /// It ran already when it was found.
    Snapshot,
    /// It moved out of the recorded cgroup.
    Leave,
}

/// An event in the life of a task of the recorded tree.
#[derive(Debug, Clone)]
pub struct TaskEvent {
    /// CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// What happened.
    pub op: TaskOp,
    /// The task's id, unique in the recording.
    pub task_id: u32,
    /// The parent's id; none for the first task.
    pub parent_task_id: Option<u32>,
    /// The address space; none for kernel threads.
    pub mm_id: Option<u32>,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// The status as `wait` reports it: low 7 bits the signal, bits 8..15 the exit status. None where the probe cannot know.
    pub exit_code: Option<i32>,
    /// The executable, at exec and when found.
    pub path_id: Option<u64>,
    /// Id of the cgroup v2 folder; none where the probe cannot know.
    pub cgroup_id: Option<u64>,
    /// Minor and major faults that the kernel counted for the task; none where the probe cannot know.
    pub faults: Option<(u64, u64)>,
    /// User and system time as the kernel reports them: the exact run time split in the proportion of the ticks. None where
    /// the probe cannot know.
    pub cpu_ns: Option<(u64, u64)>,
    /// Name of the task.
    pub comm: Vec<u8>,
}

/// A mapping action; the words are those of the recording's `mappings.op`.
pub const MAP_OPS: [(u32, &str); 11] = [
    (1, "mmap"),
    (2, "munmap"),
    (3, "mremap"),
    (4, "brk"),
    (5, "madvise"),
    (6, "process_madvise"),
    (7, "mprotect"),
    (8, "mlock"),
    (9, "shmat"),
    (10, "shmdt"),
    (11, "prctl_thp"),
];

/// Who made a mapping; the words are those of the recording's `mappings.kind`.
pub const MAP_KINDS: [(u32, &str); 4] = [(1, "call"), (2, "kernel"), (3, "snapshot"), (4, "fork")];

/// Mappings that have a name in `/proc/PID/maps` without having a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// None of those below.
    Plain,
    /// The first thread's stack; it grows downwards without a call.
    Stack,
    /// What `brk` made.
    Heap,
    /// The page of code that the kernel lends to every program.
    Vdso,
}

/// A mapping action of the recorded tree, or a mapping that the kernel made for it.
#[derive(Debug, Clone)]
pub struct MapEvent {
    /// When the call began, or first asked for the lock of the address space (`bpf/maps.bpf.h`), CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// How long it took; 0 for mappings made by exec and fork, and for calls that took no such lock.
    pub dur_ns: u64,
    /// `mmap`, `munmap`, ...: see [`MAP_OPS`].
    pub op: &'static str,
    /// `call`, `kernel`, `snapshot` or `fork`: see [`MAP_KINDS`].
    pub kind: &'static str,
    /// Stack or heap.
    pub special: Special,
    /// The task that called, or the first task of the new address space.
    pub task_id: u32,
    /// The address space acted on.
    pub mm_id: u32,
    /// The address asked for; for mappings not made by a call, the one they have.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// `mremap`: where it was; `brk`: the break before.
    pub old_addr: u64,
    /// Offset in the file; `mremap`: the old length.
    pub offset: u64,
    /// PROT_ bits.
    pub prot: u32,
    /// MAP_ bits.
    pub flags: u32,
    /// File descriptor; -1 without; `shmat`: the segment's id.
    pub fd: i32,
    /// Device of the file as user space writes it.
    pub dev: u64,
    /// Inode of the file; 0 without.
    pub ino: u64,
    /// The file's name.
    pub path_id: Option<u64>,
    /// `madvise`: the advice.
    pub advice: u32,
    /// What the call returned: an address, 0, or the negated errno.
    pub ret: i64,
    /// The stack that it was made from goes through [`TaskStacks`](super::TaskStacks), with the same task and `ts`.
    pub has_stack: bool,
}

impl MapEvent {
    /// It is a call that failed, and changed nothing.
    pub fn failed(&self) -> bool {
        self.kind == "call" && pagelab_vocab::abi::errno_of(self.ret).is_some()
    }

    /// When the call returned, CLOCK_MONOTONIC, ns.
    pub(crate) fn returned_ns(&self) -> u64 {
        self.ts + self.dur_ns
    }
}

/// The name of a file, sent before it is first referred to, and again when the number it was sent under is no longer used.
#[derive(Debug, Clone, Default)]
pub struct PathEvent {
    /// When it was sent, CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// The number later events carry: names are counted as they are sent, from 1, and no number comes again.
    pub path_id: u64,
    /// Absolute path, bytes as the file system has them; or what `/proc/PID/fd` calls a file that has no place in a folder. Without
    /// the words ` (deleted)`: what was deleted keeps its name, and a memfd is always called so. None if it was renamed again and
    /// again while it was read.
    pub path: Option<OsString>,
    /// The path was deeper or longer than the program can walk: its beginning is missing.
    pub truncated: bool,
    /// Device, as user space writes it.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Tells apart the inodes that had the same number one after the other.
    pub generation: u32,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Type of the file system, such as `ext4`.
    pub fs: String,
}

/// One event of the rare kind.
#[derive(Debug, Clone)]
pub enum Event {
    /// A task began, ended, was renamed or runs a new program.
    Task(TaskEvent),
    /// A mapping action.
    Map(MapEvent),
    /// A file's name.
    Path(PathEvent),
    /// A file system or device is worked on for the first time.
    Used(UsedEvent),
}

impl Event {
    /// When it happened, or began, CLOCK_MONOTONIC, ns.
    pub fn ts(&self) -> u64 {
        match self {
            Self::Task(task) => task.ts,
            Self::Map(map) => map.ts,
            Self::Path(path) => path.ts,
            Self::Used(used) => used.ts,
        }
    }
}

/// Turns the bytes of one ring buffer record into an event; `None` if they are not a record that `wire.h` knows.
pub(super) fn decode(bytes: &[u8]) -> Option<Event> {
    let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    match types::event_type(kind) {
        types::event_type::EVENT_TASK => read::<types::task_event>(bytes).and_then(|raw| task(&raw)).map(Event::Task),
        types::event_type::EVENT_MAP => read::<types::map_event>(bytes).and_then(|raw| map(&raw)).map(Event::Map),
        types::event_type::EVENT_PATH => path_of(bytes).map(Event::Path),
        types::event_type::EVENT_USED => read::<types::used_event>(bytes).map(|raw| Event::Used(used::event(&raw))),
        _ => None,
    }
}

// SAFETY: integers and arrays of integers.
unsafe impl WireRecord for types::task_event {}
// SAFETY: as above.
unsafe impl WireRecord for types::map_event {}
// SAFETY: as above.
unsafe impl WireRecord for types::path_event {}
// SAFETY: as above.
unsafe impl WireRecord for types::long_path_event {}

fn named(table: &[(u32, &'static str)], number: u32) -> Option<&'static str> {
    table.iter().find(|(code, _)| *code == number).map(|(_, name)| *name)
}

fn nonzero(id: u32) -> Option<u32> {
    (id != 0).then_some(id)
}

fn nonzero_name(id: u64) -> Option<u64> {
    (id != 0).then_some(id)
}

fn task(raw: &types::task_event) -> Option<TaskEvent> {
    let op = match types::task_op(raw.op) {
        types::task_op::TASK_FORK => TaskOp::Fork,
        types::task_op::TASK_EXEC => TaskOp::Exec,
        types::task_op::TASK_EXIT => TaskOp::Exit,
        types::task_op::TASK_COMM => TaskOp::Comm,
        types::task_op::TASK_SNAPSHOT => TaskOp::Snapshot,
        types::task_op::TASK_LEAVE => TaskOp::Leave,
        _ => return None,
    };
    Some(TaskEvent {
        ts: raw.ts,
        op,
        task_id: raw.task_id,
        parent_task_id: nonzero(raw.parent_task_id),
        mm_id: nonzero(raw.mm_id),
        tid: raw.tid,
        pid: raw.pid,
        exit_code: Some(raw.exit_code),
        path_id: nonzero_name(raw.path_id),
        cgroup_id: Some(raw.cgroup_id),
        faults: Some((raw.min_flt, raw.maj_flt)),
        cpu_ns: Some(scaled_cpu_ns(raw)),
        comm: raw.comm.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect(),
    })
}

/// Splits the exact run time in the proportion of the user and system ticks, as the kernel's `cputime_adjust` does.
fn scaled_cpu_ns(raw: &types::task_event) -> (u64, u64) {
    let ticks = u128::from(raw.utime_ns) + u128::from(raw.stime_ns);
    let system = (u128::from(raw.runtime_ns) * u128::from(raw.stime_ns)).checked_div(ticks).unwrap_or(0) as u64;
    (raw.runtime_ns.saturating_sub(system), system)
}

/// A device in the kernel's own encoding, as user space writes it (`st_dev`).
pub(crate) fn user_dev(dev: u32) -> u64 {
    libc::makedev(dev >> KERNEL_MINOR_BITS, dev & ((1 << KERNEL_MINOR_BITS) - 1))
}

fn map(raw: &types::map_event) -> Option<MapEvent> {
    let special = match types::map_special(raw.special) {
        types::map_special::MAP_STACK => Special::Stack,
        types::map_special::MAP_HEAP => Special::Heap,
        types::map_special::MAP_VDSO => Special::Vdso,
        _ => Special::Plain,
    };
    Some(MapEvent {
        ts: raw.ts,
        dur_ns: raw.dur_ns,
        op: named(&MAP_OPS, raw.op)?,
        kind: named(&MAP_KINDS, raw.kind)?,
        special,
        task_id: raw.task_id,
        mm_id: raw.mm_id,
        addr: raw.addr,
        len: raw.len,
        old_addr: raw.old_addr,
        offset: raw.offset,
        prot: raw.prot,
        flags: raw.flags,
        fd: raw.fd,
        dev: user_dev(raw.dev),
        ino: raw.ino,
        path_id: nonzero_name(raw.path_id),
        advice: raw.advice,
        ret: raw.ret,
        has_stack: raw.has_stack != 0,
    })
}

/// The name in an ordinary record, or in a longer one.
fn path_of(bytes: &[u8]) -> Option<PathEvent> {
    if bytes.len() >= size_of::<types::long_path_event>() {
        return read::<types::long_path_event>(bytes).map(|raw| path(&raw.head, &raw.names));
    }
    read::<types::path_event>(bytes).map(|raw| path(&raw.head, &raw.names))
}

/// Puts the names, which come leaf first, into the order in which people write them.
fn joined(names: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(names.len() + 1);
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).rev() {
        whole.push(b'/');
        whole.extend_from_slice(name);
    }
    if whole.is_empty() {
        whole.push(b'/');
    }
    whole
}

/// The name of a file that has no place in a folder, from the one that the kernel gave it.
fn own_name(fs: &[u8], ino: u64, name: &[u8]) -> Vec<u8> {
    match fs {
        b"sockfs" => format!("socket:[{ino}]").into_bytes(),
        b"pipefs" => format!("pipe:[{ino}]").into_bytes(),
        b"nsfs" => [name, format!(":[{ino}]").as_bytes()].concat(),
        b"anon_inodefs" => [b"anon_inode:".as_slice(), name].concat(),
        b"pidfs" => b"anon_inode:[pidfd]".to_vec(),
        // Without the name that its driver may have given it.
        b"dmabuf" => [b"/".as_slice(), name, b":"].concat(),
        // memfds, System V segments, shared memory without a file.
        _ => [b"/".as_slice(), name].concat(),
    }
}

fn path(head: &types::path_head, names: &[i8]) -> PathEvent {
    let has = |flag: types::path_flags| head.flags & flag.0 != 0;
    let used = (head.len as usize).min(names.len());
    let bytes: Vec<u8> = names.iter().take(used).map(|byte| *byte as u8).collect();
    let fs: Vec<u8> = head.fs.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    let whole = if has(types::path_flags::PATH_OWN_NAME) {
        own_name(&fs, head.ino, bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    } else {
        joined(&bytes)
    };
    PathEvent {
        ts: head.ts,
        path_id: head.path_id,
        path: (!has(types::path_flags::PATH_UNKNOWN)).then(|| OsString::from_vec(whole)),
        truncated: head.truncated != 0,
        dev: user_dev(head.dev),
        ino: head.ino,
        generation: head.generation,
        mode: head.mode,
        fs: String::from_utf8_lossy(&fs).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(head: &types::path_head, names: &[u8]) -> Option<String> {
        let names: Vec<i8> = names.iter().map(|byte| *byte as i8).collect();
        path(head, &names).path.map(|path| path.to_string_lossy().into_owned())
    }

    #[test]
    fn a_path_is_turned_around_and_an_own_name_is_not() {
        let head = types::path_head { r#type: 3, path_id: 7, len: 12, ..Default::default() };
        assert_eq!(named(&head, b"libc.so\0lib\0").as_deref(), Some("/lib/libc.so"));
        let own = types::path_head { flags: 1, len: 10, ..head };
        assert_eq!(named(&own, b"memfd:a/b\0").as_deref(), Some("/memfd:a/b"));
        let unknown = types::path_head { flags: 2, len: 0, ..head };
        assert_eq!(named(&unknown, b""), None);
    }

    #[test]
    fn what_has_no_place_in_a_folder_is_called_as_proc_calls_it() {
        for (fs, name, path) in [
            ("tmpfs", "memfd:x", "/memfd:x"),
            ("tmpfs", "SYSV00000000", "/SYSV00000000"),
            ("sockfs", "", "socket:[7]"),
            ("pipefs", "", "pipe:[7]"),
            ("nsfs", "mnt", "mnt:[7]"),
            ("anon_inodefs", "[eventfd]", "anon_inode:[eventfd]"),
            ("pidfs", "", "anon_inode:[pidfd]"),
        ] {
            assert_eq!(own_name(fs.as_bytes(), 7, name.as_bytes()), path.as_bytes());
        }
    }

    #[test]
    fn a_length_beyond_the_record_is_cut() {
        let head = types::path_head { len: u32::MAX, ..Default::default() };
        assert_eq!(named(&head, b"a\0").as_deref(), Some("/a"));
    }

    #[test]
    fn error_code_and_address_share_a_word() {
        let slot = FaultSlot { addr_error: 0x0000_7fff_ffff_f123 | (0x87 << 56), ..Default::default() };
        assert_eq!(slot.addr(), 0x0000_7fff_ffff_f123);
        assert_eq!(slot.error_code(), 0x7 | 1 << 15);
    }

    #[test]
    fn records_cut_short_or_unknown_are_refused() {
        assert!(decode(&[1, 0, 0]).is_none());
        assert!(decode(&[1, 0, 0, 0, 9]).is_none());
        assert!(decode(&[99; 4096]).is_none());
    }

    #[test]
    fn cpu_time_is_split_like_the_kernel_does() {
        let raw = types::task_event { utime_ns: 3, stime_ns: 1, runtime_ns: 1000, ..Default::default() };
        assert_eq!(scaled_cpu_ns(&raw), (750, 250));
        let no_tick = types::task_event { runtime_ns: 1000, ..Default::default() };
        assert_eq!(scaled_cpu_ns(&no_tick), (1000, 0), "a task that met no tick ran in user mode, says the kernel");
    }
}
