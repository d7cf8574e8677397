//! Rows of `mappings` and `tasks` as the changes that the tracker applies.

use std::collections::HashMap;

use pagelab_recording::Recording;
use pagelab_recording::lifetimes::TaskOp;
use pagelab_recording::space::{self, Kind, Map, PageSizes, Ranges, named_size};
use pagelab_recording::tables::{MappingsRow, TasksRow};
use pagelab_vocab::abi::{MAP_ANONYMOUS, MAP_GROWSDOWN, MAP_HUGETLB, MAP_LOCKED, MAP_NORESERVE, MAP_SHARED, MAP_STACK};

use super::class::MemoryKind;
use super::space::{Attrs, bits};
use crate::error::Result;

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
    /// As it was recorded, without its path.
    pub map: Map<'static>,
    pub attrs: Attrs,
    pub path: u32,
    /// Huge page size asked for with MAP_HUGETLB, 0 for the default.
    pub hugetlb_page: u64,
    /// Name of the mapping task, where it is not the one that the task has at that time; 0 where it is.
    pub comm: u32,
}

impl Request {
    pub(super) fn origin(&self) -> Origin {
        match self.map.kind {
            Kind::Call => Origin::Call { asked: self.map.asked_for_address },
            Kind::Kernel => Origin::Kernel,
            Kind::Snapshot | Kind::Fork => Origin::Prior,
        }
    }
}

/// What happened to an address space.
pub(super) type Change = space::Change<Request>;

/// One change with its time and place.
#[derive(Debug, Clone)]
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
pub(super) fn load(recording: &Recording, sizes: &PageSizes) -> Result<Events> {
    let mut events = Events::default();
    let Events { maps, tasks, names } = &mut events;
    recording.for_each::<MappingsRow>(|row| {
        if let Some(change) = change_of(&row, sizes, names) {
            maps.push(MapEvent { ts: row.ts, task_id: row.task_id, mm_id: row.mm_id, change });
        }
    })?;
    recording.for_each::<TasksRow>(|row| {
        let change = match TaskOp::of_word(row.op) {
            Some(TaskOp::Fork | TaskOp::Snapshot) => TaskChange::Begins { parent: row.parent_task_id },
            Some(TaskOp::Exec) => TaskChange::Execs,
            Some(TaskOp::Exit) => TaskChange::Ends,
            Some(TaskOp::Comm | TaskOp::Leave | TaskOp::Alive) | None => TaskChange::Renamed,
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
        if let Change::Map(request) = &mut event.change
            && request.map.kind == Kind::Kernel
        {
            request.comm = names.get(&(event.task_id, event.mm_id)).copied().unwrap_or(0);
        }
    }
}

fn change_of(row: &MappingsRow<'_>, sizes: &PageSizes, names: &mut Names) -> Option<Change> {
    Some(space::Change::of(row, sizes)?.with(|map| request_of(&map, names)))
}

/// The ranges that a row of `mappings` maps and unmaps, from the row alone.
pub fn ranges_of(row: &MappingsRow<'_>, page_bytes: u64) -> Ranges {
    space::Change::of(row, &PageSizes::new(page_bytes)).map_or_else(Ranges::default, |change| Ranges::of(&change))
}

fn request_of(map: &Map<'_>, names: &mut Names) -> Request {
    let path = map.path.unwrap_or_default();
    let shared = map.has(MAP_SHARED);
    // /dev/zero is memory without a file (drivers/char/mem.c, mmap_zero), and the kernel calls such memory so where it is shared; a
    // System V segment it calls by its key.
    let segment = map.kind != Kind::Call && path.starts_with(b"/SYSV");
    let anonymous = map.has(MAP_ANONYMOUS) || path == b"/dev/zero" || segment;
    let kind = kind_of(map, path, anonymous, shared);
    let named = matches!(kind, MemoryKind::File | MemoryKind::Hugetlb) && !path.starts_with(b"[");
    let path = if named { names.number(Some(path)) } else { 0 };
    let hugetlb_page = if map.has(MAP_HUGETLB) { named_size(map.flags).unwrap_or(0) } else { 0 };
    let mut other = 0;
    for (flag, bit) in [(MAP_LOCKED, bits::LOCKED), (MAP_NORESERVE, bits::NORESERVE), (MAP_GROWSDOWN, bits::GROWSDOWN)]
    {
        if map.has(flag) {
            other |= bit;
        }
    }
    let attrs = Attrs {
        kind,
        shared,
        prot: map.prot as u8,
        thp: super::ThpAdvice::None,
        bits: other,
        file: if anonymous { 0 } else { file_number(map, names) },
        delta: if anonymous { 0 } else { map.offset.unwrap_or(0).wrapping_sub(map.start) },
    };
    Request { map: map.without_path(), attrs, path, hugetlb_page, comm: 0 }
}

fn kind_of(map: &Map<'_>, path: &[u8], anonymous: bool, shared: bool) -> MemoryKind {
    match path {
        b"[stack]" => MemoryKind::Stack,
        b"[heap]" => MemoryKind::Heap,
        _ if path.starts_with(b"[") && map.kind != Kind::Call => MemoryKind::Kernel,
        _ if map.hugetlb_bytes.is_some() => MemoryKind::Hugetlb,
        _ if map.flags & (MAP_STACK | MAP_GROWSDOWN) != 0 && anonymous => MemoryKind::Stack,
        _ if !anonymous => MemoryKind::File,
        _ if shared => MemoryKind::SharedAnonymous,
        _ => MemoryKind::Anonymous,
    }
}

/// A number for the file's identity, so that two files never count as one memory area.
fn file_number(map: &Map<'_>, names: &mut Names) -> u32 {
    let mut identity = b"\0file ".to_vec();
    let (dev, ino) = map.file.unwrap_or((0, 0));
    identity.extend(dev.to_le_bytes());
    identity.extend(ino.to_le_bytes());
    names.number(Some(&identity))
}

#[cfg(test)]
mod tests {
    use pagelab_vocab::abi::MREMAP_DONTUNMAP;

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
            change: change_of(row, &PageSizes::new(4096), &mut names).expect("a mapping"),
        };
        let inherited = MappingsRow { mm_id: 1, ..segment };
        let call = MappingsRow { kind: "call", ret: Some(0x1000), ..segment };
        let mut maps = [of(&segment), of(&inherited), of(&call)];
        name_by_exec(&mut maps, &[TaskEvent { mm_id: Some(1), comm: shell, ts: 5, ..exec }, exec]);
        let comms = maps.map(|event| match event.change {
            Change::Map(request) => request.comm,
            _ => panic!("a mapping"),
        });
        assert_eq!(comms, [program, shell, 0], "a call is named after the task as it is then");
    }

    #[test]
    fn a_call_is_read_as_what_it_did() {
        let mut names = Names::default();
        let sizes = PageSizes::new(4096).with_hugetlbfs("/mnt/huge");
        let mut read = |row: &MappingsRow<'static>| change_of(row, &sizes, &mut names);
        let ok = MappingsRow {
            addr: Some(0),
            len: Some(5000),
            flags: Some(MAP_ANONYMOUS | 2),
            prot: Some(3),
            ret: Some(0x7000_0000),
            ..row("mmap")
        };
        let Some(Change::Map(request)) = read(&ok) else { panic!("a mapping") };
        let Request { map, .. } = request;
        assert_eq!((map.start, map.len, request.origin()), (0x7000_0000, 8192, Origin::Call { asked: false }));
        assert_eq!(request.attrs.kind, MemoryKind::Anonymous);

        let huge = MappingsRow { flags: Some(MAP_ANONYMOUS | MAP_HUGETLB | (30 << 26) | 2), ret: Some(-12), ..ok };
        let Some(Change::Refused(request, errno)) = read(&huge) else { panic!("a refusal") };
        assert_eq!((errno, request.hugetlb_page, request.map.len), (12, 1 << 30, 1 << 30));
        assert_eq!(request.attrs.kind, MemoryKind::Hugetlb);

        let file = MappingsRow { flags: Some(2), path: Some(b"/mnt/huge/a"), ..ok };
        let Some(Change::Map(request)) = read(&file) else { panic!("a mapping") };
        assert_eq!(request.attrs.kind, MemoryKind::Hugetlb, "a file on hugetlbfs");
        assert_eq!(request.map.len, 2 << 20, "of which whole pages are mapped");
        let usual = MappingsRow { flags: Some(MAP_ANONYMOUS | MAP_HUGETLB | 2), ..ok };
        let Some(Change::Map(request)) = read(&usual) else { panic!("a mapping") };
        assert_eq!((request.map.len, request.hugetlb_page), (2 << 20, 0), "pages of the default size");
        let near = MappingsRow { flags: Some(2), path: Some(b"/mnt/hugenot/a"), ..ok };
        let Some(Change::Map(request)) = read(&near) else { panic!("a mapping") };
        assert_eq!(request.attrs.kind, MemoryKind::File);

        let failed = MappingsRow { addr: Some(0x1000), len: Some(4096), ret: Some(-22), ..row("munmap") };
        assert_eq!(read(&failed), None, "a failed munmap changed nothing");
    }
}
