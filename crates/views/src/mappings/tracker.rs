//! Follows address spaces through a recording and counts the faults per class of mappings and per slot.
//!
//! State is kept only for live mappings: a mapping that goes, and a slot that loses its page table, are added to their
//! class and forgotten, so memory follows the size of the address spaces and not the length of the recording.

use std::ops::Range;

use pagelab_recording::lifetimes::Lifetimes;
use pagelab_recording::space::{Kind, Map, Remap, Space as Mapped};

use super::ThpAdvice;
use super::class::{MemoryKind, size_class_of};
use super::events::{Change, Names, Origin, Request};
use super::ledger::{Ledger, RawKey, Scale};
use super::space::{Areas, Attrs, bits};
use crate::fast::FastMap;

mod advice;
mod faults;
mod pieces;
mod slots;
mod tasks;

pub(super) use pieces::Piece;
use slots::Slots;
use tasks::Task;

/// Actions of a task after a refused request for hugetlb memory in which a mapping of that length counts as its
/// substitute: a program tries another size, or advises, in between.
const SUBSTITUTE_WITHIN: u32 = 4;

/// One address space.
#[derive(Debug, Default)]
struct Space {
    areas: Areas,
    /// Numbers of pieces.
    held: Mapped<u32>,
    /// By the slot's number in the address space, its number in [`Tracker::slots`].
    slots: FastMap<u64, u32>,
    thp_forbidden: bool,
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
    spaces: FastMap<u32, Space>,
    tasks: Lifetimes<u32, Task>,
    pieces: Vec<Piece>,
    free: Vec<u32>,
    pub ledger: Ledger,
    slots: Slots,
    found: Found,
}

/// What is known of a slot of an address space.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Number of changes of address spaces up to which it is true.
    changes: u64,
    mm_id: u32,
    slot_number: u64,
    /// A range that belongs to one piece.
    range: Range<u64>,
    piece: u32,
    /// A range of the area that is known to have been faulted.
    faulted: Range<u64>,
    /// Its number in [`Tracker::slots`].
    slot: Option<u32>,
}

/// Where faults were found lately: they come in runs on one mapping, or in turns on those of a few tasks.
#[derive(Debug)]
struct Found {
    /// Counts changes of address spaces, from 1.
    changes: u64,
    places: Vec<Known>,
    /// Address space and range of the fault before.
    last: Option<(u32, Range<u64>)>,
}

impl Found {
    const PLACES: usize = 64;

    fn new() -> Self {
        Self { changes: 1, places: vec![Known::default(); Self::PLACES], last: None }
    }

    /// Where an address is remembered: by its slot.
    fn place_of(mm_id: u32, slot_number: u64) -> usize {
        let mixed = (slot_number ^ (u64::from(mm_id) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) as usize % Self::PLACES
    }

    /// Something has changed: what is known is no longer true.
    fn forget(&mut self) {
        self.changes += 1;
        self.last = None;
    }
}

impl Tracker {
    pub(super) fn new(scale: Scale) -> Self {
        Self {
            scale,
            spaces: FastMap::default(),
            tasks: Lifetimes::default(),
            pieces: Vec::new(),
            free: Vec::new(),
            ledger: Ledger::new(scale),
            slots: Slots::default(),
            found: Found::new(),
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
        self.found.forget();
        self.register(task_id, mm_id);
        match change {
            Change::Map(request) => self.map(ts, task_id, mm_id, request),
            Change::Refused(request, errno) => self.refused(ts, task_id, request, *errno),
            Change::Unmap(range) => self.unmap(ts, mm_id, range.clone()),
            Change::Detach(addr) => {
                for part in self.space(mm_id).held.detach(*addr) {
                    self.unmap(ts, mm_id, part);
                }
            }
            Change::Remap(remap) => self.remap(ts, mm_id, remap),
            Change::Clobber { target, source } => {
                if self.space(mm_id).areas.at(*source).is_some() {
                    self.unmap(ts, mm_id, target.clone());
                }
            }
            Change::Break { before, after, .. } => self.set_break(ts, task_id, mm_id, *before, *after),
            Change::Advise(range, advice) => self.advise(mm_id, range.clone(), *advice),
            // Which memory it was given about is not known.
            Change::AdviseElsewhere { .. } => {}
            Change::Protect(range, prot) => {
                self.space(mm_id).areas.change(range, |attrs| attrs.prot = *prot as u8);
            }
            Change::Lock(range) => self.space(mm_id).areas.change(range, |attrs| attrs.bits |= bits::LOCKED),
            Change::ForbidThp(forbidden) => self.space(mm_id).thp_forbidden = *forbidden,
        }
    }

    fn space(&mut self, mm_id: u32) -> &mut Space {
        self.spaces.entry(mm_id).or_default()
    }

    fn key(&self, request: &Request, task_id: u32, advice: ThpAdvice) -> RawKey {
        let attrs = request.attrs;
        // A heap and a stack grow: their length is no property to compare by.
        let grows = matches!(attrs.kind, MemoryKind::Heap | MemoryKind::Stack | MemoryKind::Kernel);
        RawKey {
            kind: attrs.kind,
            path: request.path,
            size: if grows { 0 } else { size_class_of(request.map.len) },
            comm: if request.comm > 0 { request.comm } else { self.tasks.get(&task_id).map_or(0, |task| task.comm) },
            advice,
        }
    }

    fn map(&mut self, ts: i64, task_id: u32, mm_id: u32, request: &Request) {
        let range = request.map.range();
        // What is laid over mappings for nobody to use gives their memory back, and is no mapping for a huge page.
        let gives_back = request.attrs.prot == 0 && self.space(mm_id).areas.any_in(&range);
        self.unmap(ts, mm_id, range.clone());
        let is_prior = request.origin() == Origin::Prior;
        let substitute = !is_prior && self.is_substitute(task_id, request);
        let slot = self.scale.slot;
        let forbidden = self.space(mm_id).thp_forbidden;
        let advice = if forbidden { ThpAdvice::Prctl } else { request.attrs.thp };
        let key = self.key(request, task_id, advice);
        let grown = self.space(mm_id).areas.map(range, request.attrs, slot);
        let class = self.ledger.class(key);
        if !gives_back {
            self.ledger.mapped(class, request, substitute, grown);
        }
        self.hold(mm_id, &request.map, Piece::new(class, ts, request.map.mapping_id, is_prior));
    }

    fn is_substitute(&mut self, task_id: u32, request: &Request) -> bool {
        let Some(task) = self.tasks.get_mut(&task_id) else { return false };
        let Some(mut refusal) = task.refused.take() else { return false };
        let fits = request.attrs.kind != MemoryKind::Hugetlb
            && request.map.len >= refusal.len
            && request.map.len - refusal.len <= self.scale.slot;
        refusal.actions_left = refusal.actions_left.saturating_sub(1);
        task.refused = Some(refusal).filter(|refusal| !fits && refusal.actions_left > 0);
        fits
    }

    fn refused(&mut self, ts: i64, task_id: u32, request: &Request, errno: i32) {
        let key = self.key(request, task_id, ThpAdvice::None);
        let class = self.ledger.class(key);
        self.ledger.refused(class, ts, request, errno, key.comm);
        if request.attrs.kind == MemoryKind::Hugetlb {
            let refusal = Refusal { len: request.map.len, actions_left: SUBSTITUTE_WITHIN };
            self.task_mut(task_id).refused = Some(refusal);
        }
    }

    fn remap(&mut self, ts: i64, mm_id: u32, remap: &Remap) {
        let remap = self.space(mm_id).held.rounded(remap);
        let Some((_, attrs)) = self.space(mm_id).areas.at(remap.old) else { return };
        let target = remap.new_range();
        if target.is_empty() {
            return;
        }
        let old = remap.old..remap.old.saturating_add(remap.old_len.unwrap_or(remap.new_len));
        let delta = if attrs.file == 0 { 0 } else { attrs.delta.wrapping_add(remap.old).wrapping_sub(remap.new) };
        let attrs_there = Attrs { delta, ..attrs };
        if remap.keeps_old() {
            self.map_again(ts, mm_id, &remap, attrs_there);
            return;
        }
        let props = self.space(mm_id).held.props_at(remap.old);
        let moved = self.take(mm_id, &old);
        let Some((_, first)) = moved.first().cloned() else { return };
        self.space(mm_id).areas.unmap(&old);
        self.forget_slots(mm_id, &old, false);
        self.unmap(ts, mm_id, target.clone());
        let slot = self.scale.slot;
        self.space(mm_id).areas.map(target.clone(), attrs_there, slot);
        // The pages moved along; pieces keep their counts, the first one takes the whole of the new range.
        for (_, piece) in moved.iter().skip(1) {
            self.release(*piece, mm_id, Some(ts));
        }
        if let Some(piece) = self.pieces.get_mut(first as usize) {
            piece.start = target.start;
            piece.len = target.end - target.start;
            piece.last_page = 0;
        }
        self.space(mm_id).held.insert_like(target, first, props.moved(remap.old, remap.new));
    }

    /// Memory that is mapped at a new place, while the old one stays mapped: a piece of its own, of the same class.
    fn map_again(&mut self, ts: i64, mm_id: u32, remap: &Remap, attrs: Attrs) {
        let target = remap.new_range();
        let space = self.space(mm_id);
        let props = space.held.props_at(remap.old);
        let Some(before) = space.held.at(remap.old).map(|(_, piece)| *piece) else { return };
        let Some(class) = self.pieces.get(before as usize).map(|piece| piece.class) else { return };
        // MREMAP_DONTUNMAP leaves no pages behind.
        if let Some(len) = remap.old_len.filter(|len| *len > 0) {
            self.forget_slots(mm_id, &(remap.old..remap.old.saturating_add(len)), true);
        }
        self.unmap(ts, mm_id, target.clone());
        let slot = self.scale.slot;
        self.space(mm_id).areas.map(target.clone(), attrs, slot);
        let number = self.number(&target, Piece::new(class, ts, remap.mapping_id, false));
        self.space(mm_id).held.insert_like(target, number, props.moved(remap.old, remap.new));
    }

    fn set_break(&mut self, ts: i64, task_id: u32, mm_id: u32, before: Option<u64>, after: u64) {
        let (gone, grown) = self.space(mm_id).held.move_break(before, after);
        self.unmap(ts, mm_id, gone);
        if grown.is_empty() {
            return;
        }
        let heap =
            Attrs { kind: MemoryKind::Heap, shared: false, prot: 3, thp: ThpAdvice::None, bits: 0, file: 0, delta: 0 };
        let below = grown.start.saturating_sub(1);
        let end_before = self.space(mm_id).held.at(below).map(|(range, piece)| (range.start, *piece));
        let grown_piece = end_before.filter(|(_, piece)| {
            let class = self.pieces.get(*piece as usize).map(|piece| piece.class);
            class.is_some_and(|class| self.ledger.kind(class) == Some(MemoryKind::Heap))
        });
        let Some((start, number)) = grown_piece else {
            let map = Map {
                start: grown.start,
                len: grown.end - grown.start,
                kind: Kind::Call,
                asked_for_address: false,
                segment: None,
                grows_down: false,
                mapping_id: None,
                prot: 3,
                flags: 0,
                hugetlb_bytes: None,
                path: None,
                offset: None,
                file: None,
            };
            let request = Request { map, attrs: heap, path: 0, hugetlb_page: 0, comm: 0 };
            self.map(ts, task_id, mm_id, &request);
            return;
        };
        self.unmap(ts, mm_id, grown.clone());
        let slot = self.scale.slot;
        let space = self.space(mm_id);
        let attrs = space.areas.at(below).map_or(heap, |(_, attrs)| attrs);
        let grown_slots = space.areas.map(grown.clone(), attrs, slot);
        space.held.extend(start, grown.end);
        if let Some(piece) = self.pieces.get_mut(number as usize) {
            piece.len = grown.end - piece.start;
            self.ledger.grew(piece.class, grown.end - grown.start, grown_slots);
        }
    }
}
