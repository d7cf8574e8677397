//! Follows address spaces through a recording and counts, per class of mappings and per slot, what was faulted.
//!
//! State is kept for what exists: a mapping that goes, and a slot that loses its page table, are added to their class
//! and forgotten, so memory follows the size of the address spaces and not the length of the recording.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::ThpAdvice;
use super::class::{ClassKey, MemoryKind, size_class_of};
use super::events::{Change, Names, Origin, Request, TaskChange, TaskEvent};
use super::ledger::{Ledger, Scale};
use super::profile::{Example, SlotSummary};
use super::space::{Areas, Attrs, bits, whole_slots};

/// A stack may have grown by this much below what was recorded of it.
const STACK_GROWTH_BYTES: u64 = 1 << 28;
/// Actions of a task after a refused request for hugetlb memory in which a mapping of that length counts as its
/// substitute: a program tries another size, or advises, in between.
const SUBSTITUTE_WITHIN: u32 = 4;

/// One mapping action's memory, as long as any of it is there.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub class: u32,
    pub start: u64,
    pub len: u64,
    pub mapped_ts: i64,
    pub mapping_id: Option<u32>,
    pub prior: bool,
    /// Ranges of the address space that are still this piece's.
    ranges: u32,
    pub faults: u64,
    pub protection_faults: u64,
    pub window_faults: u64,
    last_page: u64,
    pub ascending: u32,
    pub descending: u32,
    pub other: u32,
    /// Candidate of the majority vote over steps (R. S. Boyer and J S. Moore, 1981), and its votes.
    pub step: i64,
    pub step_votes: u32,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    end: u64,
    piece: u32,
}

/// A slot that has a page table or a huge page.
#[derive(Debug)]
struct Slot {
    class: u32,
    whole: bool,
    known: bool,
    pages: u32,
    faults: u64,
    window_faults: u64,
    seen: Box<[u64]>,
}

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

#[derive(Debug, Clone, Copy, Default)]
struct Task {
    mm_id: Option<u32>,
    comm: u32,
    refused: Option<Refusal>,
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

    /// Applies an event of a task.
    pub(super) fn task(&mut self, event: &TaskEvent) {
        let before = self.tasks.get(&event.task_id).copied().unwrap_or_default();
        let comm = if event.comm == 0 { before.comm } else { event.comm };
        match event.change {
            TaskChange::Begins { .. } | TaskChange::Execs => {
                let parent = match event.change {
                    TaskChange::Begins { parent: Some(parent) } => self.tasks.get(&parent).and_then(|task| task.mm_id),
                    _ => before.mm_id,
                };
                if before.mm_id != event.mm_id {
                    self.enter(event.mm_id, parent);
                }
                if event.change == TaskChange::Execs && before.mm_id != event.mm_id {
                    self.leave(before.mm_id, event.ts);
                }
                self.tasks.insert(event.task_id, Task { mm_id: event.mm_id, comm, refused: None });
            }
            TaskChange::Ends => {
                self.tasks.remove(&event.task_id);
                self.leave(before.mm_id, event.ts);
            }
            TaskChange::Renamed => {
                self.tasks.entry(event.task_id).or_default().comm = comm;
            }
        }
    }

    fn enter(&mut self, mm_id: Option<u32>, parent: Option<u32>) {
        let Some(mm_id) = mm_id else { return };
        // The flag lives in mm->flags and is inherited by fork and exec (MMF_INIT_MASK).
        let forbidden = parent.and_then(|mm| self.spaces.get(&mm)).is_some_and(|space| space.thp_forbidden);
        let space = self.spaces.entry(mm_id).or_default();
        space.users += 1;
        space.thp_forbidden |= forbidden;
    }

    /// A task whose begin was not recorded uses an address space all the same.
    fn register(&mut self, task_id: u32, mm_id: u32) {
        let task = self.tasks.entry(task_id).or_default();
        if task.mm_id.is_none() {
            task.mm_id = Some(mm_id);
            self.space(mm_id).users += 1;
        }
    }

    fn leave(&mut self, mm_id: Option<u32>, ts: i64) {
        let Some(mm_id) = mm_id else { return };
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        space.users = space.users.saturating_sub(1);
        if space.users == 0 {
            self.drop_space(mm_id, Some(ts));
        }
    }

    fn drop_space(&mut self, mm_id: u32, ts: Option<i64>) {
        let Some(mut space) = self.spaces.remove(&mm_id) else { return };
        self.cache = None;
        for (_, slot) in space.slots.drain() {
            close_slot(&mut self.ledger, &slot);
        }
        for (_, held) in std::mem::take(&mut space.held) {
            self.release(held.piece, mm_id, ts);
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
            comm: self.tasks.get(&task_id).map_or(0, |task| task.comm),
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

    fn hold(&mut self, mm_id: u32, range: Range<u64>, mut piece: Piece) {
        if range.is_empty() {
            return;
        }
        piece.start = range.start;
        piece.len = range.end - range.start;
        let number = match self.free.pop() {
            Some(number) => {
                if let Some(place) = self.pieces.get_mut(number as usize) {
                    *place = piece;
                }
                number
            }
            None => {
                self.pieces.push(piece);
                (self.pieces.len() - 1) as u32
            }
        };
        self.space(mm_id).held.insert(range.start, Held { end: range.end, piece: number });
    }

    fn release(&mut self, number: u32, mm_id: u32, ts: Option<i64>) {
        let Some(piece) = self.pieces.get_mut(number as usize) else { return };
        piece.ranges = piece.ranges.saturating_sub(1);
        if piece.ranges > 0 {
            return;
        }
        let example = Example {
            mm_id,
            mapping_id: piece.mapping_id,
            start: piece.start,
            len: piece.len,
            mapped_ts: piece.mapped_ts,
            ended_ts: ts,
            faults: piece.faults,
        };
        self.ledger.ended(piece, example);
        self.free.push(number);
    }

    /// Cuts the piece at `at` in two ranges of the same piece.
    fn cut(&mut self, mm_id: u32, at: u64) {
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        let Some((_, held)) = space.held.range_mut(..at).next_back() else { return };
        if held.end <= at {
            return;
        }
        let right = *held;
        held.end = at;
        space.held.insert(at, right);
        if let Some(piece) = self.pieces.get_mut(right.piece as usize) {
            piece.ranges += 1;
        }
    }

    fn take(&mut self, mm_id: u32, range: &Range<u64>) -> Vec<(u64, Held)> {
        self.cut(mm_id, range.start);
        self.cut(mm_id, range.end);
        let Some(space) = self.spaces.get_mut(&mm_id) else { return Vec::new() };
        let inside: Vec<u64> = space.held.range(range.clone()).map(|(start, _)| *start).collect();
        inside.into_iter().filter_map(|start| space.held.remove(&start).map(|held| (start, held))).collect()
    }

    fn unmap(&mut self, ts: i64, mm_id: u32, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let taken = self.take(mm_id, &range);
        if let Some(space) = self.spaces.get_mut(&mm_id) {
            space.areas.unmap(&range);
        }
        if taken.is_empty() {
            return;
        }
        self.forget_slots(mm_id, &range, false);
        for (_, held) in taken {
            self.release(held.piece, mm_id, Some(ts));
        }
    }

    /// Closes the slots of `range` that have lost their page table: those in which no area is left (mm/memory.c,
    /// `free_pgd_range` between the neighbours), or with `emptied` those that lie in `range` whole.
    fn forget_slots(&mut self, mm_id: u32, range: &Range<u64>, emptied: bool) {
        let slot_bytes = self.scale.slot;
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        let numbers = range.start / slot_bytes..range.end.div_ceil(slot_bytes);
        let touched: Vec<u64> = if numbers.end - numbers.start > space.slots.len() as u64 {
            space.slots.keys().copied().filter(|number| numbers.contains(number)).collect()
        } else {
            numbers.filter(|number| space.slots.contains_key(number)).collect()
        };
        for number in touched {
            let slot = number * slot_bytes..(number + 1) * slot_bytes;
            let gone =
                if emptied { range.start <= slot.start && slot.end <= range.end } else { !space.areas.any_in(&slot) };
            if gone && let Some(slot) = space.slots.remove(&number) {
                close_slot(&mut self.ledger, &slot);
            }
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
        let request = Request { attrs: heap, path: 0, len: to - from, hugetlb_page: 0 };
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

    fn advise(&mut self, mm_id: u32, range: Range<u64>, advice: i32) {
        match Advice::of(advice) {
            Advice::Thp(thp) => {
                self.space(mm_id).areas.change(&range, |attrs| attrs.thp = thp);
                self.advise_pieces(mm_id, &range, thp);
            }
            Advice::Bits { set, clear } => {
                self.space(mm_id).areas.change(&range, |attrs| attrs.bits = attrs.bits & !clear | set);
            }
            Advice::Drops => self.forget_slots(mm_id, &range, true),
            Advice::Nothing => {}
        }
    }

    /// A piece is of the class of its advice if at least half of it was advised.
    fn advise_pieces(&mut self, mm_id: u32, range: &Range<u64>, thp: ThpAdvice) {
        let Some(space) = self.spaces.get(&mm_id) else { return };
        if space.thp_forbidden {
            return;
        }
        let before = space.held.range(..range.start).next_back();
        let inside = space.held.range(range.clone());
        let mut advised = Vec::new();
        for (start, held) in before.into_iter().chain(inside) {
            let common = held.end.min(range.end).saturating_sub((*start).max(range.start));
            if common * 2 >= held.end - start {
                advised.push(held.piece);
            }
        }
        for number in advised {
            if let Some(piece) = self.pieces.get_mut(number as usize) {
                piece.class = self.ledger.advised(piece.class, piece.start, piece.len, thp);
            }
        }
    }

    /// Counts one fault. `protection`: the page was there and the access was not allowed.
    pub(super) fn fault(&mut self, mm_id: u32, addr: u64, protection: bool, in_window: bool) {
        self.ledger.faults += 1;
        self.ledger.window_faults += u64::from(in_window);
        let Some((number, fresh)) = self.find(mm_id, addr) else {
            self.ledger.unattributed += 1;
            return;
        };
        let page = addr / self.scale.page;
        let Some(piece) = self.pieces.get_mut(number as usize) else { return };
        if protection {
            piece.protection_faults += 1;
            return;
        }
        piece.fault(page, in_window);
        let (class, prior, first) = (piece.class, piece.prior, piece.faults == 1);
        let scale = self.scale;
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        if fresh || first {
            space.areas.faulted(addr);
        }
        let slot = space.slots.entry(addr / scale.slot).or_insert_with(|| {
            let start = addr / scale.slot * scale.slot;
            let end = start.saturating_add(scale.slot);
            let whole = space.areas.at(addr).is_some_and(|(area, _)| area.start <= start && end <= area.end);
            Slot {
                class,
                whole,
                known: !prior,
                pages: 0,
                faults: 0,
                window_faults: 0,
                seen: vec![0; scale.pages_per_slot().div_ceil(64) as usize].into_boxed_slice(),
            }
        });
        slot.fault(page % scale.pages_per_slot(), in_window);
    }

    /// The piece at `addr`, and whether it is another one than last time.
    fn find(&mut self, mm_id: u32, addr: u64) -> Option<(u32, bool)> {
        if let Some((cached_mm, range, piece)) = &self.cache
            && *cached_mm == mm_id
            && range.contains(&addr)
        {
            return Some((*piece, false));
        }
        let space = self.spaces.get(&mm_id)?;
        let found = space.held.range(..=addr).next_back().filter(|(_, held)| addr < held.end);
        let (start, held) = match found {
            Some((start, held)) => (*start, *held),
            None => self.grow_stack(mm_id, addr)?,
        };
        self.cache = Some((mm_id, start..held.end, held.piece));
        Some((held.piece, true))
    }

    /// A stack grows down by faults, without a call: a fault a little below one belongs to it.
    fn grow_stack(&mut self, mm_id: u32, addr: u64) -> Option<(u64, Held)> {
        let page = self.scale.page;
        let space = self.spaces.get_mut(&mm_id)?;
        let (start, held) = space.held.range(addr..).next().map(|(start, held)| (*start, *held))?;
        let (_, attrs) = space.areas.at(start)?;
        let grows = attrs.kind == MemoryKind::Stack && attrs.bits & bits::GROWSDOWN != 0;
        if !grows || start - addr > STACK_GROWTH_BYTES {
            return None;
        }
        let to = addr / page * page;
        space.areas.grow_down(start, to);
        space.held.remove(&start);
        space.held.insert(to, held);
        Some((to, held))
    }
}

/// A class before its names are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RawKey {
    pub kind: MemoryKind,
    pub path: u32,
    pub size: u64,
    pub comm: u32,
    pub advice: ThpAdvice,
}

impl RawKey {
    pub(super) fn named(self, names: &Names) -> ClassKey {
        ClassKey {
            kind: self.kind,
            path: names.text(self.path).map(str::to_owned),
            size_bytes: self.size,
            comm: names.text(self.comm).map(str::to_owned),
            advice: self.advice,
        }
    }
}

impl Piece {
    fn new(class: u32, mapped_ts: i64, mapping_id: Option<u32>, prior: bool) -> Self {
        Self {
            class,
            start: 0,
            len: 0,
            mapped_ts,
            mapping_id,
            prior,
            ranges: 1,
            faults: 0,
            protection_faults: 0,
            window_faults: 0,
            last_page: 0,
            ascending: 0,
            descending: 0,
            other: 0,
            step: 0,
            step_votes: 0,
        }
    }

    fn fault(&mut self, page: u64, in_window: bool) {
        self.faults += 1;
        self.window_faults += u64::from(in_window);
        let last = std::mem::replace(&mut self.last_page, page);
        if last == 0 {
            return;
        }
        let step = page.wrapping_sub(last) as i64;
        match step {
            1..=super::profile::Order::NEAR_PAGES => self.ascending += 1,
            _ if step < 0 && step >= -super::profile::Order::NEAR_PAGES => self.descending += 1,
            _ => self.other += 1,
        }
        if self.step == step {
            self.step_votes += 1;
        } else if self.step_votes == 0 {
            self.step = step;
            self.step_votes = 1;
        } else {
            self.step_votes -= 1;
        }
    }
}

impl Slot {
    fn fault(&mut self, page: u64, in_window: bool) {
        self.faults += 1;
        self.window_faults += u64::from(in_window);
        if let Some(word) = self.seen.get_mut((page / 64) as usize) {
            let bit = 1u64 << (page % 64);
            self.pages += u32::from(*word & bit == 0);
            *word |= bit;
        }
    }
}

fn close_slot(ledger: &mut Ledger, slot: &Slot) {
    if slot.known {
        let summary = SlotSummary { pages: slot.pages, faults: slot.faults, window_faults: slot.window_faults };
        ledger.slot(slot.class, slot.whole, &summary);
    }
}

enum Advice {
    Thp(ThpAdvice),
    Bits { set: u16, clear: u16 },
    Drops,
    Nothing,
}

impl Advice {
    /// Numbers of include/uapi/asm-generic/mman-common.h.
    fn of(advice: i32) -> Self {
        let bits = |set, clear| Self::Bits { set, clear };
        match advice {
            0 => bits(0, bits::RANDOM | bits::SEQUENTIAL),
            1 => bits(bits::RANDOM, bits::SEQUENTIAL),
            2 => bits(bits::SEQUENTIAL, bits::RANDOM),
            // MADV_DONTNEED, MADV_REMOVE: the pages are gone at once and the next touch begins anew.
            4 | 9 => Self::Drops,
            10 => bits(bits::DONTFORK, 0),
            11 => bits(0, bits::DONTFORK),
            12 => bits(bits::MERGEABLE, 0),
            13 => bits(0, bits::MERGEABLE),
            14 => Self::Thp(ThpAdvice::Huge),
            15 => Self::Thp(ThpAdvice::NoHuge),
            16 => bits(bits::DONTDUMP, 0),
            17 => bits(0, bits::DONTDUMP),
            18 => bits(bits::WIPEONFORK, 0),
            19 => bits(0, bits::WIPEONFORK),
            _ => Self::Nothing,
        }
    }
}

/// End of a range, rounded up to pages; a range that would wrap ends at the top.
fn end_of(start: u64, len: u64, page: u64) -> u64 {
    super::events::round_up(start.saturating_add(len), page)
}

/// Slots that a range of that length holds if it begins at a slot's start.
pub(super) fn slots_if_aligned(len: u64, slot: u64) -> u64 {
    whole_slots(&(0..len), slot)
}
