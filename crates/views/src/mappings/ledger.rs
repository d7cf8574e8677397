//! The counts per class, while a recording is read.

use std::collections::HashMap;

use super::class::{ClassKey, MemoryKind};
use super::events::{Names, Origin, Request};
use super::profile::{ClassProfile, Example, MappingProfile, RefusedHugetlb, SlotSummary};
use super::space::whole_slots;
use super::tracker::Piece;
use super::{Order, ThpAdvice};

/// Classes kept apart; beyond, path and thread are left out of the key.
const CLASSES: usize = 4096;
/// Values of the misalignment kept apart in a class.
const MISALIGNMENTS: usize = 15;

/// Page and slot size, powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    pub page: u64,
    pub slot: u64,
}

impl Scale {
    #[inline]
    pub(super) fn pages_per_slot(self) -> u64 {
        (self.slot >> self.page.trailing_zeros()).max(1)
    }

    /// The number of an address's page. A division would take as long as all the rest of a fault.
    pub(super) fn page_of(self, addr: u64) -> u64 {
        addr >> self.page.trailing_zeros()
    }

    /// The number of an address's slot.
    pub(super) fn slot_of(self, addr: u64) -> u64 {
        addr >> self.slot.trailing_zeros()
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

#[derive(Debug)]
struct Entry {
    key: RawKey,
    profile: ClassProfile,
    steps: HashMap<i64, u64>,
}

/// Everything counted so far.
#[derive(Debug)]
pub(super) struct Ledger {
    scale: Scale,
    entries: Vec<Entry>,
    numbers: HashMap<RawKey, u32>,
    refused: Vec<(u32, RefusedHugetlb)>,
    folded: u64,
    pub faults: u64,
    pub window_faults: u64,
    pub unattributed: u64,
}

impl Ledger {
    pub(super) fn new(scale: Scale) -> Self {
        Self {
            scale,
            entries: Vec::new(),
            numbers: HashMap::new(),
            refused: Vec::new(),
            folded: 0,
            faults: 0,
            window_faults: 0,
            unattributed: 0,
        }
    }

    /// The number of a class.
    pub(super) fn class(&mut self, key: RawKey) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let reduced = RawKey { path: 0, comm: 0, ..key };
        if self.entries.len() >= CLASSES && key != reduced {
            self.folded += 1;
            return self.class(reduced);
        }
        let blank = ClassKey { kind: key.kind, path: None, size_bytes: key.size, comm: None, advice: key.advice };
        self.entries.push(Entry { key, profile: ClassProfile::new(blank), steps: HashMap::new() });
        let number = (self.entries.len() - 1) as u32;
        self.numbers.insert(key, number);
        number
    }

    pub(super) fn kind(&self, class: u32) -> Option<MemoryKind> {
        self.entries.get(class as usize).map(|entry| entry.key.kind)
    }

    fn profile(&mut self, class: u32) -> Option<&mut ClassProfile> {
        self.entries.get_mut(class as usize).map(|entry| &mut entry.profile)
    }

    pub(super) fn mapped(&mut self, class: u32, request: &Request, substitute: bool, grown_slots: u64) {
        let slot = self.scale.slot;
        let Some(profile) = self.profile(class) else { return };
        profile.mappings += 1;
        let origin = request.origin();
        profile.bytes = profile.bytes.saturating_add(request.map.len);
        profile.prior += u64::from(origin == Origin::Prior);
        profile.address_asked += u64::from(origin == Origin::Call { asked: true });
        profile.after_refusal += u64::from(substitute);
        profile.eligible_slots = profile.eligible_slots.saturating_add(grown_slots);
        count_alignment(profile, request, slot);
    }

    pub(super) fn grew(&mut self, class: u32, bytes: u64, grown_slots: u64) {
        if let Some(profile) = self.profile(class) {
            profile.bytes = profile.bytes.saturating_add(bytes);
            profile.eligible_slots = profile.eligible_slots.saturating_add(grown_slots);
        }
    }

    /// A mapping of `class` was advised: it goes over to the class with that advice.
    pub(super) fn advised(&mut self, class: u32, start: u64, len: u64, advice: ThpAdvice) -> u32 {
        let Some(key) = self.entries.get(class as usize).map(|entry| entry.key) else { return class };
        if key.advice == advice {
            return class;
        }
        let to = self.class(RawKey { advice, ..key });
        let slot = self.scale.slot;
        let slots = whole_slots(&(start..start.saturating_add(len)), slot);
        // A file's alignment depends on its offset, which is not known here; advice on files is rare.
        let aligned_by_address = key.kind != MemoryKind::File;
        if let Some(profile) = self.profile(class) {
            profile.mappings = profile.mappings.saturating_sub(1);
            profile.bytes = profile.bytes.saturating_sub(len);
            profile.eligible_slots = profile.eligible_slots.saturating_sub(slots);
            if aligned_by_address {
                uncount_alignment(profile, start, len, slot);
            }
        }
        if let Some(profile) = self.profile(to) {
            profile.mappings += 1;
            profile.bytes = profile.bytes.saturating_add(len);
            profile.eligible_slots = profile.eligible_slots.saturating_add(slots);
            if aligned_by_address {
                profile.slots_if_aligned = profile.slots_if_aligned.saturating_add(whole_slots(&(0..len), slot));
                if len >= slot {
                    add_misalignment(profile, start % slot);
                }
            }
        }
        to
    }

    pub(super) fn refused(&mut self, class: u32, ts: i64, request: &Request, errno: i32, comm: u32) {
        if let Some(profile) = self.profile(class) {
            *profile.failed.entry(errno).or_default() += 1;
        }
        if request.attrs.kind != MemoryKind::Hugetlb {
            return;
        }
        let page_bytes = (request.hugetlb_page > 0).then_some(request.hugetlb_page);
        let len = request.map.len;
        if let Some((_, known)) =
            self.refused.iter_mut().find(|(_, known)| known.page_bytes == page_bytes && known.errno == errno)
        {
            known.count += 1;
            known.bytes = known.bytes.saturating_add(len);
            known.smallest_bytes = known.smallest_bytes.min(len);
            known.largest_bytes = known.largest_bytes.max(len);
            known.last_ts = ts;
            return;
        }
        let fresh = RefusedHugetlb {
            page_bytes,
            errno,
            count: 1,
            bytes: len,
            smallest_bytes: len,
            largest_bytes: len,
            first_ts: ts,
            last_ts: ts,
            comm: None,
        };
        self.refused.push((comm, fresh));
    }

    pub(super) fn ended(&mut self, piece: &Piece, example: Example) {
        let Some(entry) = self.entries.get_mut(piece.class as usize) else { return };
        let profile = &mut entry.profile;
        profile.faults += piece.faults;
        profile.window_faults += piece.window_faults;
        profile.protection_faults += piece.protection_faults;
        profile.order.ascending += u64::from(piece.ascending);
        profile.order.descending += u64::from(piece.descending);
        profile.order.other += u64::from(piece.other);
        if piece.step_votes > 0 && (entry.steps.len() < 64 || entry.steps.contains_key(&piece.step)) {
            *entry.steps.entry(piece.step).or_default() += u64::from(piece.step_votes);
        }
        if profile.example.as_ref().is_none_or(|known| example.faults > known.faults) {
            profile.example = Some(example);
        }
    }

    pub(super) fn slot(&mut self, class: u32, whole: bool, slot: &SlotSummary) {
        let pages = self.scale.pages_per_slot();
        if let Some(profile) = self.profile(class) {
            if whole { profile.whole.add(slot, pages) } else { profile.partial.add(slot, pages) }
        }
    }

    /// Puts the texts in.
    pub(super) fn name(&mut self, names: &Names) {
        for entry in &mut self.entries {
            entry.profile.key = entry.key.named(names);
            // Ties are decided by the step itself: the outcome may not depend on a map's order.
            let best = entry.steps.iter().max_by_key(|(step, votes)| (**votes, **step));
            entry.profile.order = Order { step_pages: best.map(|(step, _)| *step), ..entry.profile.order.clone() };
        }
        for (comm, refused) in &mut self.refused {
            refused.comm = names.text(*comm).map(str::to_owned);
        }
    }

    pub(super) fn into_profile(self) -> MappingProfile {
        let mut classes: Vec<ClassProfile> = self
            .entries
            .into_iter()
            .map(|entry| entry.profile)
            .filter(|class| class.mappings > 0 || class.faults > 0 || !class.failed.is_empty())
            .collect();
        classes.sort_by(|a, b| b.faults.cmp(&a.faults).then_with(|| a.key.cmp(&b.key)));
        MappingProfile {
            huge_bytes: self.scale.slot,
            page_bytes: self.scale.page,
            classes,
            faults: self.faults,
            window_faults: self.window_faults,
            unattributed: self.unattributed,
            refused_hugetlb: self.refused.into_iter().map(|(_, refused)| refused).collect(),
            classes_folded: self.folded,
        }
    }
}

fn count_alignment(profile: &mut ClassProfile, request: &Request, slot: u64) {
    profile.slots_if_aligned = profile.slots_if_aligned.saturating_add(whole_slots(&(0..request.map.len), slot));
    if request.map.len < slot {
        return;
    }
    // A file's huge page lies where address and offset agree modulo its size (thp_vma_suitable_order).
    let at = match request.attrs.kind {
        MemoryKind::File => 0u64.wrapping_sub(request.attrs.delta) % slot,
        _ => request.map.start % slot,
    };
    add_misalignment(profile, at);
}

fn add_misalignment(profile: &mut ClassProfile, at: u64) {
    if profile.misalignment.len() < MISALIGNMENTS || at == 0 || profile.misalignment.contains_key(&at) {
        *profile.misalignment.entry(at).or_default() += 1;
    } else {
        profile.misalignment_others += 1;
    }
}

fn uncount_alignment(profile: &mut ClassProfile, start: u64, len: u64, slot: u64) {
    profile.slots_if_aligned = profile.slots_if_aligned.saturating_sub(whole_slots(&(0..len), slot));
    if len < slot {
        return;
    }
    match profile.misalignment.get_mut(&(start % slot)) {
        Some(count) => {
            *count -= 1;
            if *count == 0 {
                profile.misalignment.remove(&(start % slot));
            }
        }
        None => profile.misalignment_others = profile.misalignment_others.saturating_sub(1),
    }
}
