//! Which fault a detail belongs to.
//!
//! Faults and details of them ([`FaultDetail`]) come by two roads, and a detail may come long after its fault: when the page
//! has been read from a slow disk. The model: at any time a task is in one fault at most, its latest. So whoever takes what has
//! come first notes how far the rings of faults are filled, then takes the details, then the faults up to the notes: a detail
//! that comes later than that belongs to the last fault that its task has among these. A fault may also begin after the notes and
//! end before the details are taken: its detail waits for the next turn, which brings the fault.
//!
//! Details become columns when a part is about to be written. The last fault of each task is then held back for the next part,
//! unless its detail has come or it is older than [`HELD_NS`]. A detail whose fault has been written already, or was lost, is
//! counted as unmatched.

use std::collections::HashMap;

use pagelab_recording::tables::FaultsColumns;

use crate::bpf::FaultSlot;
use crate::details::FaultDetail;

/// Faults older than this are written although they may go on: a part must hold what happened in its second.
const HELD_NS: i64 = 1_000_000_000;

/// Consecutive faults of one CPU, as they lie in its ring and in the columns.
#[derive(Debug, Clone, Copy)]
struct Block {
    cpu: u32,
    position: u64,
    row: usize,
    len: usize,
}

/// What becomes of one row.
#[derive(Debug, Clone, Copy)]
struct Patch {
    row: usize,
    major: bool,
    dur: i64,
    got: Option<&'static str>,
}

/// The last fault of a task.
#[derive(Debug, Clone, Copy)]
struct Latest {
    row: usize,
    ts: i64,
    /// Its detail has come.
    told: bool,
}

/// A fault that may go on, taken out of the columns.
#[derive(Debug, Clone, Copy)]
struct Held {
    ts: i64,
    task_id: u32,
    mm_id: u32,
    addr: u64,
    ip: u64,
    error_code: Option<u32>,
}

/// Details on their way into the columns of their faults.
#[derive(Debug, Default)]
pub struct DetailFeed {
    /// The faults that came last, whose details may be here already.
    blocks: Vec<Block>,
    /// By task, of the faults that are in the columns.
    latest: HashMap<u32, Latest>,
    patches: Vec<Patch>,
    held: Vec<Held>,
    /// By CPU, the position in its ring of the first fault that has not come yet.
    next: HashMap<u32, u64>,
    /// Details that came before their faults.
    waiting: Vec<FaultDetail>,
    unmatched: u64,
}

impl DetailFeed {
    /// Notes where in the columns the faults are that were appended last: `slots` of `cpu`, the first at `position` of its
    /// ring.
    pub fn faults(&mut self, cpu: usize, position: u64, slots: &[FaultSlot], columns: &FaultsColumns) {
        if !slots.is_empty() {
            let row = columns.ts.len() - slots.len();
            self.blocks.push(Block { cpu: cpu as u32, position, row, len: slots.len() });
            self.next.insert(cpu as u32, position + slots.len() as u64);
        }
    }

    /// Takes the details that came between the notes and the faults up to them.
    pub fn details(&mut self, details: &[FaultDetail], columns: &FaultsColumns) {
        for detail in std::mem::take(&mut self.waiting) {
            if !self.find(&detail, columns) {
                self.unmatched += 1;
            }
        }
        for detail in details {
            if self.comes_before_its_fault(detail) {
                self.waiting.push(*detail);
            } else if !self.find(detail, columns) {
                self.unmatched += 1;
            }
        }
        for block in std::mem::take(&mut self.blocks) {
            self.note_latest(&block, columns);
        }
        // Only few faults get details; one that has got them is no longer under way.
        for at in &self.patches {
            let task = columns.task_id.get(at.row).and_then(|task| self.latest.get_mut(task));
            if let Some(latest) = task.filter(|latest| latest.row == at.row) {
                latest.told = true;
            }
        }
    }

    /// Whether the program saw the fault where nothing has been taken from yet.
    fn comes_before_its_fault(&self, detail: &FaultDetail) -> bool {
        let next = self.next.get(&detail.cpu).copied().unwrap_or_default();
        detail.position.is_some_and(|position| position >= next)
    }

    /// Whether the fault is there; if so, what becomes of its row is noted.
    fn find(&mut self, detail: &FaultDetail, columns: &FaultsColumns) -> bool {
        let found = self.by_place(detail, columns).or_else(|| self.by_search(detail, columns));
        let Some(row) = found.or_else(|| self.by_task(detail, columns)) else { return false };
        self.patches.push(patch(detail, row, columns));
        true
    }

    /// Where the program saw it.
    fn by_place(&self, detail: &FaultDetail, columns: &FaultsColumns) -> Option<usize> {
        let position = detail.position?;
        let holds = |block: &&Block| {
            block.cpu == detail.cpu && (block.position..block.position + block.len as u64).contains(&position)
        };
        let block = self.blocks.iter().find(holds)?;
        let row = block.row + (position - block.position) as usize;
        is_of(row, detail, columns).then_some(row)
    }

    /// Among those that came last. The task may have been on any CPU.
    fn by_search(&self, detail: &FaultDetail, columns: &FaultsColumns) -> Option<usize> {
        let last_in = |block: &Block| {
            let times = columns.ts.get(block.row..block.row + block.len)?;
            let before = times.partition_point(|ts| *ts <= detail.ts as i64);
            (block.row..block.row + before).rev().find(|row| columns.task_id.get(*row) == Some(&detail.task_id))
        };
        let latest = self.blocks.iter().filter_map(last_in).max_by_key(|row| columns.ts.get(*row))?;
        is_of(latest, detail, columns).then_some(latest)
    }

    /// The last of its task before those.
    fn by_task(&self, detail: &FaultDetail, columns: &FaultsColumns) -> Option<usize> {
        let latest = self.latest.get(&detail.task_id).filter(|latest| !latest.told)?;
        is_of(latest.row, detail, columns).then_some(latest.row)
    }

    fn note_latest(&mut self, block: &Block, columns: &FaultsColumns) {
        let rows = block.row..block.row + block.len;
        let Some(tasks) = columns.task_id.get(rows) else { return };
        let mut row = block.row;
        for run in tasks.chunk_by(|one, next| one == next) {
            row += run.len();
            let ts = columns.ts.get(row - 1).copied().unwrap_or_default();
            let latest = self.latest.entry(run[0]).or_insert(Latest { row: row - 1, ts, told: false });
            if latest.ts <= ts {
                *latest = Latest { row: row - 1, ts, told: false };
            }
        }
    }

    /// Puts what is known into the columns, which become a part now, and holds back the faults that may go on.
    pub fn before_part(&mut self, now_ns: i64, columns: &mut FaultsColumns) {
        let goes_on = |latest: &&Latest| !latest.told && now_ns - latest.ts < HELD_NS;
        let mut rows: Vec<usize> = self.latest.values().filter(goes_on).map(|latest| latest.row).collect();
        // From the end, so that a row that takes the place of another is none of these.
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(*row));
        self.patches.sort_unstable_by_key(|patch| patch.row);
        // Only the last rows change their places: as many as are taken out.
        let first_moved = columns.ts.len() - rows.len();
        let tail = self.patches.split_off(self.patches.partition_point(|patch| patch.row < first_moved));
        let mut tail: HashMap<usize, Patch> = tail.into_iter().map(|patch| (patch.row, patch)).collect();
        for row in rows {
            let last = columns.ts.len() - 1;
            self.held.push(remove(row, columns));
            if let Some(patch) = tail.remove(&last) {
                tail.insert(row, Patch { row, ..patch });
            }
        }
        self.patches.extend(tail.into_values());
        self.patches.sort_unstable_by_key(|patch| patch.row);
        self.latest.clear();
        self.write(columns);
    }

    /// Puts the rows held back into the columns of the next part.
    pub fn after_part(&mut self, columns: &mut FaultsColumns) {
        for row in self.held.drain(..) {
            self.latest.insert(row.task_id, Latest { row: columns.ts.len(), ts: row.ts, told: false });
            columns.ts.push(row.ts);
            columns.task_id.push(row.task_id);
            columns.mm_id.push(row.mm_id);
            columns.addr.push(row.addr);
            columns.ip.push(row.ip);
            columns.error_code.push(row.error_code);
        }
    }

    /// Puts what is known into the columns at the end of the recording.
    pub fn finish(&mut self, columns: &mut FaultsColumns) {
        self.unmatched += self.waiting.drain(..).count() as u64;
        self.patches.sort_unstable_by_key(|patch| patch.row);
        self.write(columns);
        self.latest.clear();
    }

    /// Details of faults that are not in the recording any more, or never were.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    fn write(&mut self, columns: &mut FaultsColumns) {
        let mut rows = 0;
        for patch in self.patches.drain(..) {
            // A fault cannot end twice; should it be said, the first word holds.
            let Some(before) = patch.row.checked_sub(rows) else {
                self.unmatched += 1;
                continue;
            };
            columns.major.push_nulls(before);
            columns.dur.push_nulls(before);
            columns.got.push_nulls(before);
            columns.major.push(Some(patch.major));
            columns.dur.push(Some(patch.dur));
            columns.got.push(patch.got);
            rows = patch.row + 1;
        }
    }
}

/// Whether a row can be the fault that a detail is of.
fn is_of(row: usize, detail: &FaultDetail, columns: &FaultsColumns) -> bool {
    columns.task_id.get(row) == Some(&detail.task_id)
        && columns.addr.get(row) == Some(&detail.addr)
        && columns.ts.get(row).is_some_and(|ts| *ts <= detail.ts as i64)
}

fn patch(detail: &FaultDetail, row: usize, columns: &FaultsColumns) -> Patch {
    let began = columns.ts.get(row).copied().unwrap_or_default();
    let error_code = columns.error_code.get(row).unwrap_or_default();
    Patch { row, major: detail.major, dur: detail.ts as i64 - began, got: detail.got(error_code) }
}

/// Takes a row out; the last one takes its place. Order is the writer's business.
fn remove(row: usize, columns: &mut FaultsColumns) -> Held {
    Held {
        ts: columns.ts.swap_remove(row),
        task_id: columns.task_id.swap_remove(row),
        mm_id: columns.mm_id.swap_remove(row),
        addr: columns.addr.swap_remove(row),
        ip: columns.ip.swap_remove(row),
        error_code: columns.error_code.swap_remove(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn slot(ts: i64, task_id: u32, addr: u64) -> FaultSlot {
        FaultSlot { ts: ts as u64, addr_error: addr, ip: 1, task_id, mm_id: 1 }
    }

    fn detail(ts: i64, task_id: u32, addr: u64, place: Option<(u32, u64)>) -> FaultDetail {
        let (cpu, position) = place.map_or((0, None), |(cpu, position)| (cpu, Some(position)));
        FaultDetail { ts: ts as u64, addr, cpu, position, task_id, major: place.is_none(), facts: 0 }
    }

    /// One turn of the recorder: the faults of each CPU from a position on, and the details.
    fn turn(
        feed: &mut DetailFeed,
        columns: &mut FaultsColumns,
        came: &[(usize, u64, Vec<FaultSlot>)],
        told: &[FaultDetail],
    ) {
        for (cpu, position, slots) in came {
            columns.ts.extend(slots.iter().map(|slot| slot.ts as i64));
            columns.task_id.extend(slots.iter().map(|slot| slot.task_id));
            columns.mm_id.extend(slots.iter().map(|slot| slot.mm_id));
            columns.addr.extend(slots.iter().map(FaultSlot::addr));
            columns.ip.extend(slots.iter().map(|slot| slot.ip));
            columns.error_code.extend_some(slots.iter().map(FaultSlot::error_code));
            feed.faults(*cpu, *position, slots, columns);
        }
        feed.details(told, columns);
    }

    /// The rows of a part: time, and the duration where it is known.
    fn part(columns: &mut FaultsColumns) -> Vec<(i64, Option<i64>)> {
        use arrow::array::{Array, AsArray};
        use arrow::datatypes::Int64Type;
        use pagelab_recording::tables::TableColumns;
        let batch = columns.take_batch().expect("equally long columns");
        let ts = batch["ts"].as_primitive::<Int64Type>().clone();
        let dur = batch.column_by_name("dur").map(|dur| dur.as_primitive::<Int64Type>().clone());
        let known = |row| dur.as_ref().filter(|dur| dur.is_valid(row)).map(|dur| dur.value(row));
        (0..ts.len()).map(|row| (ts.value(row), known(row))).collect()
    }

    #[test]
    fn a_detail_finds_its_fault_by_place_and_by_search() {
        let (mut feed, mut columns) = (DetailFeed::default(), FaultsColumns::default());
        let one = vec![slot(10, 1, 0x1000), slot(20, 1, 0x2000), slot(30, 2, 0x1000)];
        let other = vec![slot(15, 3, 0x1000), slot(25, 3, 0x1000), slot(40, 3, 0x1000)];
        let told = [detail(24, 1, 0x2000, Some((1, 101))), detail(33, 3, 0x1000, None), detail(99, 4, 0x1000, None)];
        turn(&mut feed, &mut columns, &[(1, 100, one), (0, 7, other)], &told);
        feed.finish(&mut columns);
        let known: Vec<_> = part(&mut columns).into_iter().filter_map(|(ts, dur)| Some((ts, dur?))).collect();
        assert_eq!(known, [(20, 4), (25, 8)], "of two at the same address it is the latest before the end");
        assert_eq!(feed.unmatched(), 1, "the fault of task 4 was never there");
    }

    #[test]
    fn a_place_that_is_another_faults_is_not_believed() {
        let (mut feed, mut columns) = (DetailFeed::default(), FaultsColumns::default());
        let told = [detail(50, 1, 0x9000, Some((0, 0)))];
        turn(&mut feed, &mut columns, &[(0, 0, vec![slot(10, 1, 0x1000)])], &told);
        feed.finish(&mut columns);
        assert_eq!((part(&mut columns), feed.unmatched()), (vec![(10, None)], 1));
    }

    #[test]
    fn a_fault_that_goes_on_waits_for_its_end_and_the_others_do_not() {
        let (mut feed, mut columns) = (DetailFeed::default(), FaultsColumns::default());
        let came = vec![slot(100, 7, 0x1000), slot(150, 8, 0x1000), slot(200, 8, 0x2000)];
        let told = [detail(160, 8, 0x1000, Some((0, 1))), detail(250, 8, 0x2000, Some((0, 2)))];
        turn(&mut feed, &mut columns, &[(0, 0, came)], &told);
        feed.before_part(SECOND / 2, &mut columns);
        let mut first = part(&mut columns);
        first.sort_unstable();
        assert_eq!(first, [(150, Some(10)), (200, Some(50))]);
        feed.after_part(&mut columns);
        turn(&mut feed, &mut columns, &[(0, 3, vec![slot(300, 8, 0x3000)])], &[detail(SECOND, 7, 0x1000, None)]);
        feed.finish(&mut columns);
        assert_eq!(part(&mut columns), [(100, Some(SECOND - 100)), (300, None)]);
        assert_eq!(feed.unmatched(), 0);
    }

    #[test]
    fn a_detail_that_comes_before_its_fault_waits_for_it() {
        let (mut feed, mut columns) = (DetailFeed::default(), FaultsColumns::default());
        // The fault at the same address that came last is another one.
        let told = [detail(35, 1, 0x1000, Some((0, 1))), detail(36, 2, 0x1000, Some((1, 0)))];
        turn(&mut feed, &mut columns, &[(0, 0, vec![slot(10, 1, 0x1000)])], &told);
        assert_eq!(feed.unmatched(), 0);
        turn(&mut feed, &mut columns, &[(0, 1, vec![slot(30, 1, 0x1000)])], &[]);
        feed.finish(&mut columns);
        assert_eq!((part(&mut columns), feed.unmatched()), (vec![(10, None), (30, Some(5))], 1), "CPU 1 had no fault");
    }

    #[test]
    fn a_fault_that_goes_on_for_too_long_is_written_and_its_end_counted_as_unmatched() {
        let (mut feed, mut columns) = (DetailFeed::default(), FaultsColumns::default());
        turn(&mut feed, &mut columns, &[(0, 0, vec![slot(100, 7, 0x1000)])], &[]);
        feed.before_part(2 * SECOND, &mut columns);
        assert_eq!(part(&mut columns), [(100, None)]);
        feed.after_part(&mut columns);
        turn(&mut feed, &mut columns, &[], &[detail(3 * SECOND, 7, 0x1000, None)]);
        assert_eq!((columns.ts.len(), feed.unmatched()), (0, 1));
    }
}
