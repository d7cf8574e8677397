//! Joins faults to mappings by (mm_id, addr, ts).
//!
//! Mappings, tasks and faults are replayed together in order of time. Per address space the replay holds the mappings
//! that are live, so memory follows what is mapped at one instant and not the length of the recording.
//!
//! What an action does to what is mapped, and how stacks and heaps grow, is in [`crate::space`]. At equal times the action
//! comes before the fault. Exec gives a task another `mm_id`; an address space is forgotten a second after its last task
//! has left it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};

use crate::error::Result;
use crate::lifetimes::{Departed, Lifetimes};
use crate::merge::Merge;
use crate::reader::Recording;
use crate::space::{Change, Content, Made, PageSizes, Space};
use crate::tables::{FaultsView, MappingsRow, MappingsView, TableView, TasksView};

/// How long an address space is kept after its last task has left: faults of its last moments come first.
const GRACE_NS: i64 = 1_000_000_000;

/// The number of a mapping; none for one that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MappingId(Option<u32>);

impl Content for MappingId {}

/// Live mappings of all address spaces, replayed action by action.
#[derive(Debug)]
struct AddressSpaces {
    sizes: PageSizes,
    spaces: HashMap<u32, Space<MappingId>>,
    /// The last answers, by address: faults come in runs on one mapping, or in turns on those of a few tasks.
    answers: Vec<Option<Answer>>,
    /// Whether there are any.
    answered: bool,
}

/// A range of an address space that is known to belong to a mapping.
#[derive(Debug, Clone)]
struct Answer {
    mm_id: u32,
    range: Range<u64>,
    id: MappingId,
}

/// Answers that are remembered.
const ANSWERS: usize = 64;

/// Where the answer for an address is remembered: neighbours within 2 MiB share a place.
fn place_of(mm_id: u32, addr: u64) -> usize {
    let mixed = ((addr >> 21) ^ (u64::from(mm_id) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize % ANSWERS
}

impl AddressSpaces {
    /// Nothing mapped yet.
    fn new(sizes: PageSizes) -> Self {
        Self { sizes, spaces: HashMap::new(), answers: vec![None; ANSWERS], answered: false }
    }

    /// Applies one row of `mappings`. Rows come in order of time.
    fn apply(&mut self, row: &MappingsRow<'_>) {
        let Some(change) = Change::of(row, &self.sizes) else { return };
        self.forget_answers();
        let space = self.spaces.entry(row.mm_id).or_default();
        space.apply(&change, |made| {
            Some(MappingId(match made {
                Made::Mapped(map) => map.mapping_id,
                Made::Grown(id) | Made::Moved(_, id) => id,
            }))
        });
    }

    /// The mapping that `addr` belongs to now.
    fn find(&mut self, mm_id: u32, addr: u64) -> Option<u32> {
        let place = place_of(mm_id, addr);
        if let Some(Some(answer)) = self.answers.get(place)
            && answer.mm_id == mm_id
            && answer.range.contains(&addr)
        {
            return answer.id.0;
        }
        let (range, id) = self.spaces.get(&mm_id)?.find(addr)?;
        let id = *id;
        self.answers[place] = Some(Answer { mm_id, range, id });
        self.answered = true;
        id.0
    }

    /// Something has changed.
    fn forget_answers(&mut self) {
        if std::mem::take(&mut self.answered) {
            self.answers.fill(None);
        }
    }

    /// Forgets an address space that has no tasks left.
    fn forget(&mut self, mm_id: u32) {
        self.spaces.remove(&mm_id);
        self.forget_answers();
    }
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

/// The replay of a recording's mappings and tasks along with its faults.
pub struct Attribution {
    mappings: Events<MappingsView>,
    tasks: Events<TasksView>,
    alive: Lifetimes<u32>,
    departed: Departed,
    spaces: AddressSpaces,
    next_action: i64,
    changes: u64,
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
        Ok(Self {
            mappings: Events::new(recording)?,
            tasks: Events::new(recording)?,
            alive: Lifetimes::default(),
            departed: Departed::new(GRACE_NS),
            spaces: AddressSpaces::new(PageSizes::of(recording)),
            next_action: i64::MIN,
            changes: 1,
            unattributed: 0,
        })
    }

    /// Faults so far that joined no mapping.
    pub fn unattributed(&self) -> u64 {
        self.unattributed
    }

    /// How often what is mapped may have changed up to `ts`, counted from 1. While that stays the same, the same address has
    /// the same mapping. Times come in order.
    pub fn changes_until(&mut self, ts: i64) -> Result<u64> {
        if ts >= self.next_action {
            self.advance(ts)?;
        }
        Ok(self.changes)
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
        self.changes += 1;
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
            if let Some(mm) = self.alive.apply(&row) {
                self.departed.push(row.ts, mm);
            }
            self.tasks.at += 1;
        }
        while let Some(mm) = self.departed.pop(ts) {
            if !self.alive.is_used(mm) {
                self.spaces.forget(mm);
            }
        }
        // The next address space to be forgotten is something that happens too.
        self.next_action = next.min(self.departed.next_ns());
        Ok(())
    }
}

/// The faults of a recording in order of time with `mapping_id` filled in: as they are after a clean end, joined on the
/// way if the recorder died before it could.
pub fn attributed_faults(recording: &Recording) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
    let mut join = if recording.manifest().is_compacted() { None } else { Some(Attribution::new(recording)?) };
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
