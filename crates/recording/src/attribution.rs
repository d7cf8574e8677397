//! Joins faults to mappings by (mm_id, addr, ts).
//!
//! Mappings, tasks and faults are replayed together in order of time. Per address space the replay holds the mappings
//! that are live, so memory follows what is mapped at one instant and not the length of the recording.
//!
//! A mapping is live from its `ts` until an action takes its range away: munmap, shmdt, mremap of it, a shrinking brk,
//! or any new mapping laid over it; such actions may split or shrink it. At equal times the action comes before the
//! fault. A failed call (`ret` from -4095 to -1) does nothing. Exec gives a task another `mm_id`; an address space is
//! forgotten a second after its last task has left it.
//!
//! Two kinds grow without an action. The stack (`[stack]`, or MAP_GROWSDOWN) grows downwards: an address below it that no
//! mapping holds, with the stack the next mapping above, belongs to it within [`STACK_REACH`]. The heap grows by brk: each growing call is a
//! mapping of its own, from the old break to the new one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};

use crate::error::Result;
use crate::merge::Merge;
use crate::reader::Recording;
use crate::tables::{FaultsView, MappingsRow, MappingsView, TableView, TasksView};

/// How far below its top a stack may reach. The kernel keeps at least this much free below the stack when it chooses
/// addresses (`MIN_GAP`, 128 MiB plus the stack's random offset, in arch/x86/mm/mmap.c and mm/util.c), so whatever the
/// limit on the stack's size was, nothing else is there that was not recorded as a mapping.
pub const STACK_REACH: u64 = 128 << 20;

/// How long an address space is kept after its last task has left: faults of its last moments come first.
const GRACE_NS: i64 = 1_000_000_000;

const MAP_GROWSDOWN: u32 = 0x100;
const MAP_HUGETLB: u32 = 0x4_0000;
const MAP_HUGE_SHIFT: u32 = 26;
const MREMAP_DONTUNMAP: u32 = 4;
/// Smallest result of a call that is an address and not a negated errno.
const LOWEST_ERRNO: i64 = -4095;

/// A live piece of a mapping; its start is its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    end: u64,
    id: Option<u32>,
    grows_down: bool,
}

/// The live mappings of one address space.
#[derive(Debug, Default)]
struct AddressSpace {
    pieces: BTreeMap<u64, Piece>,
}

impl AddressSpace {
    /// Takes `[start, end)` away and returns the pieces that were there, cut to it.
    fn remove(&mut self, start: u64, end: u64) -> Vec<(u64, Piece)> {
        if start >= end {
            return Vec::new();
        }
        let first = self.pieces.range(..start).next_back().filter(|(_, p)| p.end > start).map(|(s, _)| *s);
        let keys: Vec<u64> = first.into_iter().chain(self.pieces.range(start..end).map(|(s, _)| *s)).collect();
        let mut removed = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(piece) = self.pieces.remove(&key) else { continue };
            if key < start {
                self.pieces.insert(key, Piece { end: start, ..piece });
            }
            if piece.end > end {
                self.pieces.insert(end, piece);
            }
            removed.push((key.max(start), Piece { end: piece.end.min(end), ..piece }));
        }
        removed
    }

    fn insert(&mut self, start: u64, piece: Piece) {
        if start < piece.end {
            self.remove(start, piece.end);
            self.pieces.insert(start, piece);
        }
    }

    /// The piece that holds `addr`, a stack that may grow down to it included, and the range for which that answer holds.
    fn find(&self, addr: u64) -> Option<(u64, Piece)> {
        if let Some((start, piece)) = self.pieces.range(..=addr).next_back()
            && addr < piece.end
        {
            return Some((*start, *piece));
        }
        let (_, above) = self.pieces.range(addr..).next()?;
        (above.grows_down && above.end - addr <= STACK_REACH).then_some((addr, Piece { end: addr + 1, ..*above }))
    }

    /// End of the run of adjacent pieces of one mapping that begins with the piece at `start`.
    fn end_of(&self, start: u64) -> u64 {
        let Some(first) = self.pieces.get(&start) else { return start };
        let adjacent = self.pieces.range(start..).scan(start, |at, (s, p)| {
            let joined = *s == *at && p.id == first.id;
            *at = p.end;
            joined.then_some(p.end)
        });
        adjacent.last().unwrap_or(start)
    }
}

/// Live mappings of all address spaces, replayed action by action.
#[derive(Debug)]
pub struct AddressSpaces {
    page: u64,
    spaces: HashMap<u32, AddressSpace>,
    /// The last answer: most faults hit the mapping of the fault before.
    last: Option<(u32, u64, Piece)>,
}

impl AddressSpaces {
    /// Nothing mapped yet. `page_size_bytes` is the base page size, to which the kernel rounds lengths up.
    pub fn new(page_size_bytes: u64) -> Self {
        let page = if page_size_bytes.is_power_of_two() { page_size_bytes } else { 4096 };
        Self { page, spaces: HashMap::new(), last: None }
    }

    /// Applies one row of `mappings`. Rows come in order of time.
    pub fn apply(&mut self, row: &MappingsRow<'_>) {
        let failed = row.kind == "call" && row.ret.is_some_and(|r| (LOWEST_ERRNO..0).contains(&r));
        if failed {
            return;
        }
        self.last = None;
        let page = page_of(row, self.page);
        let up = |v: u64| v.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        let space = self.spaces.entry(row.mm_id).or_default();
        // A call's result says where the mapping is; what was asked for is a hint.
        let place = if row.kind == "call" { row.ret.map(|r| r as u64) } else { row.addr };
        let len = up(row.len.unwrap_or_default());
        let piece = |end| Piece { end, id: row.mapping_id, grows_down: grows_down(row) };
        match row.op {
            "mmap" | "shmat" => {
                if let Some(start) = place {
                    space.insert(start, piece(start.saturating_add(len)));
                }
            }
            "munmap" => {
                if let Some(start) = row.addr {
                    space.remove(start, start.saturating_add(len));
                }
            }
            "shmdt" => {
                if let Some(start) = row.addr {
                    let end = space.end_of(start);
                    space.remove(start, end);
                }
            }
            "mremap" => remap(space, row, place, len, up),
            "brk" => {
                if let (Some(old), Some(new)) = (row.old_addr, place) {
                    let (old, new) = (up(old), up(new));
                    space.remove(new, old);
                    space.insert(old, piece(new));
                }
            }
            _ => {}
        }
    }

    /// The mapping that `addr` belongs to now.
    pub fn find(&mut self, mm_id: u32, addr: u64) -> Option<u32> {
        match self.last {
            Some((mm, start, piece)) if mm == mm_id && (start..piece.end).contains(&addr) => piece.id,
            _ => {
                let (start, piece) = self.spaces.get(&mm_id)?.find(addr)?;
                self.last = Some((mm_id, start, piece));
                piece.id
            }
        }
    }

    /// Forgets an address space that has no tasks left.
    pub fn forget(&mut self, mm_id: u32) {
        self.spaces.remove(&mm_id);
        self.last = None;
    }
}

/// What the kernel rounds the length up to: the huge page size that the flags carry (its logarithm; 2 MiB if none),
/// else the base page.
fn page_of(row: &MappingsRow<'_>, base: u64) -> u64 {
    match row.flags {
        Some(flags) if row.op == "mmap" && flags & MAP_HUGETLB != 0 => match flags >> MAP_HUGE_SHIFT & 0x3f {
            0 => 2 << 20,
            log => 1 << log,
        },
        _ => base,
    }
}

fn grows_down(row: &MappingsRow<'_>) -> bool {
    row.path == Some(b"[stack]") || (row.op == "mmap" && row.flags.is_some_and(|f| f & MAP_GROWSDOWN != 0))
}

fn remap(space: &mut AddressSpace, row: &MappingsRow<'_>, place: Option<u64>, len: u64, up: impl Fn(u64) -> u64) {
    let (Some(old), Some(new)) = (row.old_addr, place) else { return };
    let old_end = match row.old_len {
        Some(old_len) => old.saturating_add(up(old_len)),
        None => space.end_of(old),
    };
    let moved = if row.flags.is_some_and(|f| f & MREMAP_DONTUNMAP != 0) && new != old {
        Vec::new()
    } else {
        space.remove(old, old_end)
    };
    let grows_down = moved.first().is_some_and(|(_, p)| p.grows_down);
    space.insert(new, Piece { end: new.saturating_add(len), id: row.mapping_id, grows_down });
}

/// Rows of a table one by one, in order of time.
struct Events<V: TableView> {
    batches: Merge,
    view: Option<V>,
    at: usize,
}

impl<V: TableView> Events<V> {
    fn new(recording: &Recording) -> Result<Self> {
        Ok(Self { batches: recording.merge(V::TABLE.name, None)?, view: None, at: 0 })
    }

    /// The row that comes next, if any.
    fn peek(&mut self) -> Result<Option<V::Row<'_>>> {
        while self.view.as_ref().is_none_or(|v| self.at >= v.len()) {
            match self.batches.next() {
                None => return Ok(None),
                Some(batch) => (self.view, self.at) = (Some(V::new(&batch?)?), 0),
            }
        }
        Ok(self.view.as_ref().map(|v| v.row(self.at)))
    }
}

/// Which address spaces still have tasks.
#[derive(Debug, Default)]
struct Tasks {
    mm_of: HashMap<u32, u32>,
    users: HashMap<u32, u32>,
    /// Address spaces without tasks, and since when.
    left: VecDeque<(i64, u32)>,
}

impl Tasks {
    fn enter(&mut self, task: u32, mm: u32, ts: i64) {
        *self.users.entry(mm).or_default() += 1;
        if let Some(before) = self.mm_of.insert(task, mm) {
            self.leave(before, ts);
        }
    }

    fn exit(&mut self, task: u32, ts: i64) {
        if let Some(mm) = self.mm_of.remove(&task) {
            self.leave(mm, ts);
        }
    }

    fn leave(&mut self, mm: u32, ts: i64) {
        if let Some(users) = self.users.get_mut(&mm) {
            *users -= 1;
            if *users == 0 {
                self.users.remove(&mm);
                self.left.push_back((ts, mm));
            }
        }
    }

    /// An address space that nobody has used for a while.
    fn pop_left(&mut self, now: i64) -> Option<u32> {
        let (since, mm) = *self.left.front()?;
        if now.saturating_sub(since) < GRACE_NS {
            return None;
        }
        self.left.pop_front();
        (!self.users.contains_key(&mm)).then_some(mm)
    }
}

/// The replay of a recording's mappings and tasks beside its faults.
pub struct Attribution {
    mappings: Events<MappingsView>,
    tasks: Events<TasksView>,
    alive: Tasks,
    spaces: AddressSpaces,
    next_action: i64,
    unattributed: u64,
}

impl std::fmt::Debug for Attribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attribution").field("unattributed", &self.unattributed).finish_non_exhaustive()
    }
}

impl Attribution {
    /// Begins a replay.
    pub fn new(recording: &Recording) -> Result<Self> {
        let page = recording.manifest().page_size_bytes.unwrap_or(4096);
        Ok(Self {
            mappings: Events::new(recording)?,
            tasks: Events::new(recording)?,
            alive: Tasks::default(),
            spaces: AddressSpaces::new(page),
            next_action: i64::MIN,
            unattributed: 0,
        })
    }

    /// Faults so far that joined no mapping.
    pub fn unattributed(&self) -> u64 {
        self.unattributed
    }

    /// The mapping of a fault. Faults come in order of time.
    pub fn mapping(&mut self, ts: i64, mm_id: u32, addr: u64) -> Result<Option<u32>> {
        if ts >= self.next_action {
            self.advance(ts)?;
        }
        let found = self.spaces.find(mm_id, addr);
        self.unattributed += u64::from(found.is_none());
        Ok(found)
    }

    /// The `mapping_id` column for a batch of `faults`. Batches come in order of time.
    pub fn column(&mut self, faults: &RecordBatch) -> Result<ArrayRef> {
        let view = FaultsView::new(faults)?;
        let mut ids = Vec::with_capacity(view.len());
        for i in 0..view.len() {
            ids.push(self.mapping(view.ts.value(i), view.mm_id.value(i), view.addr.value(i))?);
        }
        Ok(Arc::new(UInt32Array::from(ids)))
    }

    /// Applies what happened up to `ts`, and finds when the next thing happens.
    fn advance(&mut self, ts: i64) -> Result<()> {
        let mut next = i64::MAX;
        while let Some(row) = self.mappings.peek()? {
            if row.ts > ts {
                next = row.ts;
                break;
            }
            self.spaces.apply(&row);
            self.mappings.at += 1;
        }
        while let Some(row) = self.tasks.peek()? {
            if row.ts > ts {
                next = next.min(row.ts);
                break;
            }
            match (row.op, row.mm_id) {
                ("exit", _) => self.alive.exit(row.task_id, row.ts),
                (_, Some(mm)) => self.alive.enter(row.task_id, mm, row.ts),
                _ => {}
            }
            self.tasks.at += 1;
        }
        while let Some(mm) = self.alive.pop_left(ts) {
            self.spaces.forget(mm);
        }
        // The next address space to be forgotten is something that happens too.
        let forgotten = self.alive.left.front().map_or(i64::MAX, |(since, _)| since.saturating_add(GRACE_NS));
        self.next_action = next.min(forgotten);
        Ok(())
    }
}

/// The faults of a recording in order of time with `mapping_id` filled in: as they are after a clean end, joined on the
/// way if the recorder died before it could.
pub fn attributed_faults(recording: &Recording) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
    let mut join = if recording.manifest().complete { None } else { Some(Attribution::new(recording)?) };
    Ok(recording.read_sorted(FaultsView::TABLE.name, None)?.map(move |batch| match join.as_mut() {
        None => batch,
        Some(join) => with_mappings(&batch?, join),
    }))
}

fn with_mappings(batch: &RecordBatch, join: &mut Attribution) -> Result<RecordBatch> {
    let at = batch.schema().index_of("mapping_id")?;
    let mut columns = batch.columns().to_vec();
    columns[at] = join.column(batch)?;
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

#[cfg(test)]
mod tests;
