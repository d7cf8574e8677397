//! Follows address spaces through a recording and counts, per class of mappings and per slot, what was faulted.
//!
//! State is kept for what exists: a mapping that goes, and a slot that loses its page table, are added to their class
//! and forgotten, so memory follows the size of the address spaces and not the length of the recording.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::ThpAdvice;
use super::class::{MemoryKind, size_class_of};
use super::events::{Change, Names, Origin, Request, round_up};
use super::ledger::{Ledger, RawKey, Scale};
use super::space::{Areas, Attrs, bits};

mod advice;
mod faults;
mod pieces;
mod slots;
mod tasks;

use pieces::Held;
pub(super) use pieces::Piece;
use slots::Slot;
use tasks::Task;

/// Actions of a task after a refused request for hugetlb memory in which a mapping of that length counts as its
/// substitute: a program tries another size, or advises, in between.
const SUBSTITUTE_WITHIN: u32 = 4;

/// One address space.
#[derive(Debug, Default)]
struct Space {
    areas: Areas,
    held: BTreeMap<u64, Held>,
    slots: HashMap<u64, Slot>,
    thp_forbidden: bool,
    users: u32,
    brk: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Refusal {
    len: u64,
    actions_left: u32,
}

/// The tracker.
#[derive(Debug)]
pub(super) struct Tracker {
    scale: Scale,
    spaces: HashMap<u32, Space>,
    tasks: HashMap<u32, Task>,
    pieces: Vec<Piece>,
    free: Vec<u32>,
    pub ledger: Ledger,
    /// Where the previous fault was found: faults come in runs on one mapping.
    cache: Option<(u32, Range<u64>, u32)>,
}

impl Tracker {
    pub(super) fn new(scale: Scale) -> Self {
        Self {
            scale,
            spaces: HashMap::new(),
            tasks: HashMap::new(),
            pieces: Vec::new(),
            free: Vec::new(),
            ledger: Ledger::new(scale),
            cache: None,
        }
    }

    /// Ends the recording: everything that is still there is counted.
    pub(super) fn finish(mut self, names: &Names) -> Ledger {
        let mut left: Vec<u32> = self.spaces.keys().copied().collect();
        left.sort_unstable();
        for mm_id in left {
            self.drop_space(mm_id, None);
        }
        self.ledger.name(names);
        self.ledger
    }

    /// Applies a change of an address space.
    pub(super) fn change(&mut self, ts: i64, task_id: u32, mm_id: u32, change: &Change) {
        self.cache = None;
        self.register(task_id, mm_id);
        match *change {
            Change::Map { start, request, origin, mapping_id } => {
                self.map(ts, task_id, mm_id, start, request, origin, mapping_id);
            }
            Change::Refused { request, errno } => self.refused(ts, task_id, request, errno),
            Change::Unmap { start, len } => {
                let len = if len == 0 { self.length_at(mm_id, start) } else { len };
                self.unmap(ts, mm_id, start..end_of(start, len, self.scale.page));
            }
            Change::Remap { old, old_len, new, new_len, keep_old } => {
                let old_len = old_len.unwrap_or(new_len);
                self.remap(ts, mm_id, old..end_of(old, old_len, self.scale.page), new, new_len, keep_old);
            }
            Change::Break { before, after } => self.set_break(ts, task_id, mm_id, before, after),
            Change::Advise { start, len, advice } => {
                self.advise(mm_id, start..end_of(start, len, self.scale.page), advice);
            }
            Change::Protect { start, len, prot } => {
                let range = start..end_of(start, len, self.scale.page);
                self.space(mm_id).areas.change(&range, |attrs| attrs.prot = prot as u8);
            }
            Change::Lock { start, len } => {
                let range = start..end_of(start, len, self.scale.page);
                self.space(mm_id).areas.change(&range, |attrs| attrs.bits |= bits::LOCKED);
            }
            Change::ForbidThp { forbidden } => self.space(mm_id).thp_forbidden = forbidden,
        }
    }

    fn space(&mut self, mm_id: u32) -> &mut Space {
        self.spaces.entry(mm_id).or_default()
    }

    fn length_at(&self, mm_id: u32, start: u64) -> u64 {
        let held = self.spaces.get(&mm_id).and_then(|space| space.held.get(&start));
        held.map_or(0, |held| held.end - start)
    }

    fn key(&self, request: &Request, task_id: u32, advice: ThpAdvice) -> RawKey {
        let attrs = request.attrs;
        // A heap and a stack grow: their length is no property to compare by.
        let grows = matches!(attrs.kind, MemoryKind::Heap | MemoryKind::Stack | MemoryKind::Kernel);
        RawKey {
            kind: attrs.kind,
            path: request.path,
            size: if grows { 0 } else { size_class_of(request.len) },
            comm: if request.comm > 0 { request.comm } else { self.tasks.get(&task_id).map_or(0, |task| task.comm) },
            advice,
        }
    }

    #[allow(clippy::too_many_arguments)] // the columns of one row
    fn map(
        &mut self,
        ts: i64,
        task_id: u32,
        mm_id: u32,
        start: u64,
        request: Request,
        origin: Origin,
        mapping_id: Option<u32>,
    ) {
        let range = start..end_of(start, request.len, self.scale.page);
        self.unmap(ts, mm_id, range.clone());
        let substitute = origin != Origin::Prior && self.is_substitute(task_id, &request);
        let slot = self.scale.slot;
        let forbidden = self.space(mm_id).thp_forbidden;
        let advice = if forbidden { ThpAdvice::Prctl } else { request.attrs.thp };
        let key = self.key(&request, task_id, advice);
        let grown = self.space(mm_id).areas.map(range.clone(), request.attrs, slot);
        let class = self.ledger.class(key);
        self.ledger.mapped(class, &request, start, origin, substitute, grown);
        self.hold(mm_id, range, Piece::new(class, ts, mapping_id, origin == Origin::Prior));
    }

    fn is_substitute(&mut self, task_id: u32, request: &Request) -> bool {
        let Some(task) = self.tasks.get_mut(&task_id) else { return false };
        let Some(mut refusal) = task.refused.take() else { return false };
        let fits = request.attrs.kind != MemoryKind::Hugetlb
            && request.len >= refusal.len
            && request.len - refusal.len <= self.scale.slot;
        refusal.actions_left = refusal.actions_left.saturating_sub(1);
        task.refused = Some(refusal).filter(|refusal| !fits && refusal.actions_left > 0);
        fits
    }

    fn refused(&mut self, ts: i64, task_id: u32, request: Request, errno: i32) {
        let key = self.key(&request, task_id, ThpAdvice::None);
        let class = self.ledger.class(key);
        self.ledger.refused(class, ts, &request, errno, key.comm);
        if request.attrs.kind == MemoryKind::Hugetlb {
            let refusal = Refusal { len: request.len, actions_left: SUBSTITUTE_WITHIN };
            self.tasks.entry(task_id).or_default().refused = Some(refusal);
        }
    }

    fn remap(&mut self, ts: i64, mm_id: u32, old: Range<u64>, new: u64, new_len: u64, keep_old: bool) {
        let Some((_, attrs)) = self.spaces.get(&mm_id).and_then(|space| space.areas.at(old.start)) else { return };
        if new_len == 0 {
            return;
        }
        let moved = self.take(mm_id, &old);
        let Some((_, first)) = moved.first().copied() else { return };
        self.unmap_moved(mm_id, &old, attrs, keep_old);
        let target = new..end_of(new, new_len, self.scale.page);
        self.unmap(ts, mm_id, target.clone());
        let slot = self.scale.slot;
        let delta = if attrs.file == 0 { 0 } else { attrs.delta.wrapping_add(old.start).wrapping_sub(new) };
        self.space(mm_id).areas.map(target.clone(), Attrs { delta, ..attrs }, slot);
        // The pages moved along; pieces keep their counts, the first one takes the whole of the new range.
        for (_, held) in moved.iter().skip(1) {
            self.release(held.piece, mm_id, Some(ts));
        }
        if let Some(piece) = self.pieces.get_mut(first.piece as usize) {
            piece.start = target.start;
            piece.len = target.end - target.start;
            piece.last_page = 0;
        }
        self.space(mm_id).held.insert(target.start, Held { end: target.end, piece: first.piece });
    }

    fn unmap_moved(&mut self, mm_id: u32, old: &Range<u64>, attrs: Attrs, keep_old: bool) {
        let slot = self.scale.slot;
        let space = self.space(mm_id);
        space.areas.unmap(old);
        if keep_old {
            space.areas.map(old.clone(), attrs, slot);
        }
        self.forget_slots(mm_id, old, keep_old);
    }

    fn set_break(&mut self, ts: i64, task_id: u32, mm_id: u32, before: Option<u64>, after: u64) {
        let page = self.scale.page;
        let known = self.space(mm_id).brk.replace(after);
        let Some(before) = before.or(known) else { return };
        let (from, to) = (end_of(before, 0, page), end_of(after, 0, page));
        if to <= from {
            self.unmap(ts, mm_id, to..from);
            return;
        }
        let heap =
            Attrs { kind: MemoryKind::Heap, shared: false, prot: 3, thp: ThpAdvice::None, bits: 0, file: 0, delta: 0 };
        let end_before =
            self.spaces.get(&mm_id).and_then(|space| space.held.range(..from).next_back().map(|(s, h)| (*s, *h)));
        let request = Request { attrs: heap, path: 0, len: to - from, hugetlb_page: 0, comm: 0 };
        let grown_piece = end_before.filter(|(_, held)| {
            held.end == from
                && self
                    .pieces
                    .get(held.piece as usize)
                    .is_some_and(|p| self.ledger.kind(p.class) == Some(MemoryKind::Heap))
        });
        let Some((start, held)) = grown_piece else {
            self.map(ts, task_id, mm_id, from, request, Origin::Call { asked: false }, None);
            return;
        };
        let slot = self.scale.slot;
        let space = self.space(mm_id);
        let attrs = space.areas.at(from.saturating_sub(1)).map_or(heap, |(_, attrs)| attrs);
        let grown = space.areas.map(from..to, attrs, slot);
        space.held.insert(start, Held { end: to, piece: held.piece });
        if let Some(piece) = self.pieces.get_mut(held.piece as usize) {
            piece.len = to - piece.start;
            self.ledger.grew(piece.class, to - from, grown);
        }
    }
}

/// End of a range, rounded up to pages; a range that would wrap ends at the top.
fn end_of(start: u64, len: u64, page: u64) -> u64 {
    round_up(start.saturating_add(len), page)
}
