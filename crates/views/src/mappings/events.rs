//! Rows of `mappings` and `tasks` as the changes that the tracker applies.

use std::collections::HashMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::{MappingsRow, TasksRow};

use super::class::MemoryKind;
use super::space::{Attrs, bits};
use crate::error::Result;

const MAP_SHARED: u32 = 0x01;
const MAP_ANONYMOUS: u32 = 0x20;
const MAP_GROWSDOWN: u32 = 0x100;
const MAP_LOCKED: u32 = 0x2000;
const MAP_NORESERVE: u32 = 0x4000;
const MAP_STACK: u32 = 0x2_0000;
const MAP_HUGETLB: u32 = 0x4_0000;
/// log2 of the huge page size stands in these bits (uapi/asm-generic/hugetlb_encode.h); 0 is the default size.
const MAP_HUGE_SHIFT: u32 = 26;
const MAP_HUGE_MASK: u32 = 0x3f;
const MREMAP_DONTUNMAP: u32 = 4;

/// Texts by number, so that an event needs four bytes for a name. Number 0 is "none".
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: Vec<String>,
    numbers: HashMap<Vec<u8>, u32>,
}

impl Names {
    pub(super) fn number(&mut self, text: Option<&[u8]>) -> u32 {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return 0 };
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.texts.push(String::from_utf8_lossy(text).into_owned());
        let number = self.texts.len() as u32;
        self.numbers.insert(text.to_vec(), number);
        number
    }

    pub(super) fn text(&self, number: u32) -> Option<&str> {
        let at = (number as usize).checked_sub(1)?;
        self.texts.get(at).map(String::as_str)
    }
}

/// Where a new mapping comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A call of the program; whether it asked for an address.
    Call { asked: bool },
    /// The kernel, at exec.
    Kernel,
    /// It was there before: at attach, or in the parent at fork.
    Prior,
}

/// A request to map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub attrs: Attrs,
    pub path: u32,
    pub len: u64,
    /// Huge page size asked for with MAP_HUGETLB, 0 for the default.
    pub hugetlb_page: u64,
    /// Name of who maps, where it is not the one that the task has at that time; 0 where it is.
    pub comm: u32,
}

/// What happened to an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Map { start: u64, request: Request, origin: Origin, mapping_id: Option<u32> },
    Refused { request: Request, errno: i32 },
    Unmap { start: u64, len: u64 },
    Remap { old: u64, old_len: Option<u64>, new: u64, new_len: u64, keep_old: bool },
    Break { before: Option<u64>, after: u64 },
    Advise { start: u64, len: u64, advice: i32 },
    Protect { start: u64, len: u64, prot: u32 },
    Lock { start: u64, len: u64 },
    ForbidThp { forbidden: bool },
}

/// One change with its time and place.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapEvent {
    pub ts: i64,
    pub task_id: u32,
    pub mm_id: u32,
    pub change: Change,
}

/// What happened to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskChange {
    Begins { parent: Option<u32> },
    Execs,
    Ends,
    Renamed,
}

/// One event of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskEvent {
    pub ts: i64,
    pub task_id: u32,
    pub mm_id: Option<u32>,
    pub comm: u32,
    pub change: TaskChange,
}

/// All changes of a recording, each list in the order of time.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub maps: Vec<MapEvent>,
    pub tasks: Vec<TaskEvent>,
    pub names: Names,
}

/// Reads the tables `mappings` and `tasks`. Faults are many and are streamed; these are few and are kept.
pub(super) fn load(recording: &Recording, hugetlbfs: &[String], page_bytes: u64) -> Result<Events> {
    let mut events = Events::default();
    let Events { maps, tasks, names } = &mut events;
    recording.for_each::<MappingsRow>(|row| {
        if let Some(change) = change_of(&row, hugetlbfs, page_bytes, names) {
            maps.push(MapEvent { ts: row.ts, task_id: row.task_id, mm_id: row.mm_id, change });
        }
    })?;
    recording.for_each::<TasksRow>(|row| {
        let change = match row.op {
            "fork" | "snapshot" => TaskChange::Begins { parent: row.parent_task_id },
            "exec" => TaskChange::Execs,
            "exit" => TaskChange::Ends,
            _ => TaskChange::Renamed,
        };
        let comm = names.number(row.comm.map(str::as_bytes));
        tasks.push(TaskEvent { ts: row.ts, task_id: row.task_id, mm_id: row.mm_id, comm, change });
    })?;
    // A call is written when it returns and carries the time it began, so rows of two parts may interleave.
    maps.sort_by_key(|event| event.ts);
    tasks.sort_by_key(|event| event.ts);
    name_by_exec(maps, tasks);
    Ok(events)
}

/// The kernel maps a program before exec is over and the task renamed: these mappings belong to the new program and are
/// named after it. An exec makes a new address space, so task and address space tell which exec it was.
fn name_by_exec(maps: &mut [MapEvent], tasks: &[TaskEvent]) {
    let execs = tasks.iter().filter(|event| event.change == TaskChange::Execs);
    let names: HashMap<(u32, u32), u32> =
        execs.filter_map(|event| Some(((event.task_id, event.mm_id?), event.comm))).collect();
    for event in maps {
        if let Change::Map { request, origin: Origin::Kernel, .. } = &mut event.change {
            request.comm = names.get(&(event.task_id, event.mm_id)).copied().unwrap_or(0);
        }
    }
}

fn change_of(row: &MappingsRow<'_>, hugetlbfs: &[String], page_bytes: u64, names: &mut Names) -> Option<Change> {
    let failed = row.ret.filter(|ret| (-4095..0).contains(ret)).map(|ret| -ret as i32);
    match (row.op, failed) {
        ("mmap" | "shmat", failed) => {
            let request = request_of(row, hugetlbfs, page_bytes, names);
            Some(match failed {
                Some(errno) => Change::Refused { request, errno },
                None => mapped(row, request)?,
            })
        }
        (_, Some(_)) => None,
        ("munmap", None) => Some(Change::Unmap { start: row.addr?, len: row.len? }),
        // The length of a detached segment is that of the mapping at its address.
        ("shmdt", None) => Some(Change::Unmap { start: row.addr?, len: 0 }),
        ("mremap", None) => Some(Change::Remap {
            old: row.old_addr?,
            old_len: row.old_len,
            new: row.ret? as u64,
            new_len: round_up(row.len?, page_bytes),
            keep_old: row.flags.unwrap_or(0) & MREMAP_DONTUNMAP != 0,
        }),
        ("brk", None) => Some(Change::Break { before: row.old_addr, after: row.ret? as u64 }),
        ("madvise", None) => Some(Change::Advise { start: row.addr?, len: row.len?, advice: row.advice? }),
        ("mprotect", None) => Some(Change::Protect { start: row.addr?, len: row.len?, prot: row.prot? }),
        ("mlock", None) => Some(Change::Lock { start: row.addr?, len: row.len? }),
        ("prctl_thp", None) => Some(Change::ForbidThp { forbidden: row.advice? != 0 }),
        _ => None,
    }
}

/// Addresses that are mapped after a row of `mappings`, and that are not: first byte and the one behind the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Mapped from then on, whatever was there before.
    pub maps: Option<(u64, u64)>,
    /// Not mapped any more. What a call maps is mapped after it.
    pub unmaps: Option<(u64, u64)>,
}

/// What a row changed; nothing if the call failed, or only gave advice. The length of a segment that was detached is not told.
pub fn ranges_of(row: &MappingsRow<'_>, page_bytes: u64) -> Ranges {
    let up = |n: u64| round_up(n, page_bytes);
    let range = |start: u64, len: u64| (len > 0).then(|| (start, start.saturating_add(up(len))));
    match change_of(row, &[], page_bytes, &mut Names::default()) {
        Some(Change::Map { start, request, .. }) => Ranges { maps: range(start, request.len), unmaps: None },
        Some(Change::Unmap { start, len }) => Ranges { maps: None, unmaps: range(start, len) },
        Some(Change::Remap { old, old_len, new, new_len, keep_old }) => {
            let gone = old_len.filter(|_| !keep_old).and_then(|len| range(old, len));
            Ranges { maps: range(new, new_len), unmaps: gone }
        }
        Some(Change::Break { before: Some(before), after }) => {
            let (before, after) = (up(before), up(after));
            let between = |low: u64, high: u64| range(low, high.saturating_sub(low));
            Ranges { maps: between(before, after), unmaps: between(after, before) }
        }
        _ => Ranges::default(),
    }
}

fn mapped(row: &MappingsRow<'_>, request: Request) -> Option<Change> {
    let origin = match row.kind {
        "call" => Origin::Call { asked: row.addr.is_some_and(|addr| addr != 0) },
        "kernel" => Origin::Kernel,
        _ => Origin::Prior,
    };
    let start = match origin {
        Origin::Call { .. } => row.ret? as u64,
        Origin::Kernel | Origin::Prior => row.addr?,
    };
    Some(Change::Map { start, request, origin, mapping_id: row.mapping_id })
}

fn request_of(row: &MappingsRow<'_>, hugetlbfs: &[String], page_bytes: u64, names: &mut Names) -> Request {
    let flags = row.flags.unwrap_or(0);
    let path = row.path.unwrap_or_default();
    let shared = flags & MAP_SHARED != 0;
    // /dev/zero mapped privately is anonymous memory (drivers/char/mem.c, mmap_zero).
    let anonymous = flags & MAP_ANONYMOUS != 0 || (path == b"/dev/zero" && !shared) || row.op == "shmat";
    let kind = kind_of(row, flags, path, anonymous, shared, hugetlbfs);
    let named = matches!(kind, MemoryKind::File | MemoryKind::Hugetlb) && !path.starts_with(b"[");
    let path = if named { names.number(Some(path)) } else { 0 };
    let exponent = (flags >> MAP_HUGE_SHIFT) & MAP_HUGE_MASK;
    let hugetlb_page = if flags & MAP_HUGETLB != 0 && exponent > 0 { 1u64 << exponent } else { 0 };
    let mut other = 0;
    for (flag, bit) in [(MAP_LOCKED, bits::LOCKED), (MAP_NORESERVE, bits::NORESERVE), (MAP_GROWSDOWN, bits::GROWSDOWN)]
    {
        if flags & flag != 0 {
            other |= bit;
        }
    }
    let start = if row.kind == "call" { row.ret.unwrap_or(0) as u64 } else { row.addr.unwrap_or(0) };
    let delta = if anonymous { 0 } else { row.offset.unwrap_or(0).wrapping_sub(start) };
    let attrs = Attrs {
        kind,
        shared,
        prot: row.prot.unwrap_or(0) as u8,
        thp: super::ThpAdvice::None,
        bits: other,
        file: if anonymous { 0 } else { file_number(row, names) },
        delta,
    };
    Request { attrs, path, len: round_up(row.len.unwrap_or(0), hugetlb_page.max(page_bytes)), hugetlb_page, comm: 0 }
}

fn kind_of(
    row: &MappingsRow<'_>,
    flags: u32,
    path: &[u8],
    anonymous: bool,
    shared: bool,
    hugetlbfs: &[String],
) -> MemoryKind {
    let below = |mount: &String| path.strip_prefix(mount.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"));
    match path {
        b"[stack]" => MemoryKind::Stack,
        b"[heap]" => MemoryKind::Heap,
        _ if path.starts_with(b"[") && row.kind != "call" => MemoryKind::Kernel,
        _ if flags & MAP_HUGETLB != 0 || hugetlbfs.iter().any(below) => MemoryKind::Hugetlb,
        _ if flags & (MAP_STACK | MAP_GROWSDOWN) != 0 && anonymous => MemoryKind::Stack,
        _ if !anonymous => MemoryKind::File,
        _ if shared || row.op == "shmat" => MemoryKind::SharedAnonymous,
        _ => MemoryKind::Anonymous,
    }
}

/// A number for the file's identity, so that two files never count as one memory area.
fn file_number(row: &MappingsRow<'_>, names: &mut Names) -> u32 {
    let mut identity = b"\0file ".to_vec();
    identity.extend(row.dev.unwrap_or(0).to_le_bytes());
    identity.extend(row.ino.unwrap_or(0).to_le_bytes());
    names.number(Some(&identity))
}

pub(super) fn round_up(n: u64, unit: u64) -> u64 {
    n.checked_next_multiple_of(unit.max(1)).unwrap_or(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(op: &'static str) -> MappingsRow<'static> {
        MappingsRow { op, kind: "call", task_id: 1, mm_id: 1, ..MappingsRow::default() }
    }

    #[test]
    fn what_is_mapped_after_a_row_and_what_is_not() {
        let told = |row: MappingsRow<'static>| {
            let Ranges { maps, unmaps } = ranges_of(&row, 4096);
            (maps, unmaps)
        };
        let mmap = MappingsRow { len: Some(5000), ret: Some(0x10000), ..row("mmap") };
        assert_eq!(told(mmap), (Some((0x10000, 0x12000)), None));
        assert_eq!(told(MappingsRow { ret: Some(-12), ..mmap }), (None, None));
        let munmap = MappingsRow { addr: Some(0x10000), len: Some(1), ret: Some(0), ..row("munmap") };
        assert_eq!(told(munmap), (None, Some((0x10000, 0x11000))));
        let moved = MappingsRow {
            old_addr: Some(0x10000),
            old_len: Some(4096),
            len: Some(8192),
            ret: Some(0x40000),
            ..row("mremap")
        };
        assert_eq!(told(moved), (Some((0x40000, 0x42000)), Some((0x10000, 0x11000))));
        let kept = MappingsRow { flags: Some(MREMAP_DONTUNMAP), ..moved };
        assert_eq!(told(kept), (Some((0x40000, 0x42000)), None));
        let brk = |before, after| MappingsRow { old_addr: Some(before), ret: Some(after), ..row("brk") };
        assert_eq!(told(brk(0x10100, 0x12100)), (Some((0x11000, 0x13000)), None));
        assert_eq!(told(brk(0x12100, 0x10100)), (None, Some((0x11000, 0x13000))));
        assert_eq!(told(brk(0x10100, 0x10200)), (None, None), "within a page");
        assert_eq!(told(MappingsRow { addr: Some(1), len: Some(1), advice: Some(14), ..row("madvise") }), (None, None));
    }

    #[test]
    fn what_exec_maps_is_named_after_the_new_program() {
        let (shell, program) = (1, 2);
        let exec = TaskEvent { ts: 20, task_id: 1, mm_id: Some(2), comm: program, change: TaskChange::Execs };
        let mut names = Names::default();
        let segment = MappingsRow { kind: "kernel", addr: Some(0x1000), len: Some(4096), mm_id: 2, ..row("mmap") };
        let mut of = |row: &MappingsRow<'static>| MapEvent {
            ts: 10,
            task_id: 1,
            mm_id: row.mm_id,
            change: change_of(row, &[], 4096, &mut names).expect("a mapping"),
        };
        let inherited = MappingsRow { mm_id: 1, ..segment };
        let call = MappingsRow { kind: "call", ret: Some(0x1000), ..segment };
        let mut maps = [of(&segment), of(&inherited), of(&call)];
        name_by_exec(&mut maps, &[TaskEvent { mm_id: Some(1), comm: shell, ts: 5, ..exec }, exec]);
        let comms = maps.map(|event| match event.change {
            Change::Map { request, .. } => request.comm,
            _ => panic!("a mapping"),
        });
        assert_eq!(comms, [program, shell, 0], "a call is named after the task as it is then");
    }

    #[test]
    fn a_call_is_read_as_what_it_did() {
        let mut names = Names::default();
        let mut read = |row: &MappingsRow<'static>| change_of(row, &["/mnt/huge".to_owned()], 4096, &mut names);
        let ok = MappingsRow {
            addr: Some(0),
            len: Some(5000),
            flags: Some(MAP_ANONYMOUS | 2),
            prot: Some(3),
            ret: Some(0x7000_0000),
            ..row("mmap")
        };
        let Some(Change::Map { start, request, origin, .. }) = read(&ok) else { panic!("a mapping") };
        assert_eq!((start, request.len, origin), (0x7000_0000, 8192, Origin::Call { asked: false }));
        assert_eq!(request.attrs.kind, MemoryKind::Anonymous);

        let huge = MappingsRow { flags: Some(MAP_ANONYMOUS | MAP_HUGETLB | (30 << 26) | 2), ret: Some(-12), ..ok };
        let Some(Change::Refused { request, errno }) = read(&huge) else { panic!("a refusal") };
        assert_eq!((errno, request.hugetlb_page, request.len), (12, 1 << 30, 1 << 30));
        assert_eq!(request.attrs.kind, MemoryKind::Hugetlb);

        let file = MappingsRow { flags: Some(2), path: Some(b"/mnt/huge/a"), ..ok };
        let Some(Change::Map { request, .. }) = read(&file) else { panic!("a mapping") };
        assert_eq!(request.attrs.kind, MemoryKind::Hugetlb, "a file on hugetlbfs");
        let near = MappingsRow { flags: Some(2), path: Some(b"/mnt/hugenot/a"), ..ok };
        let Some(Change::Map { request, .. }) = read(&near) else { panic!("a mapping") };
        assert_eq!(request.attrs.kind, MemoryKind::File);

        let failed = MappingsRow { addr: Some(0x1000), len: Some(4096), ret: Some(-22), ..row("munmap") };
        assert_eq!(read(&failed), None, "a failed munmap changed nothing");
    }
}
