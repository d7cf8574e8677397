//! What is known about the slots of one look, read as it is asked for.

use std::cell::OnceCell;
use std::fs;

use crate::frames::FrameEvidence;
use crate::hugetlb;
use crate::maps::Vma;
use crate::memory::{self, GroupLimit, Memory};
use crate::page_size::SLOT;
use crate::page_size::{PageSize, base_page_bytes};
use crate::pagemap;
use crate::pagemap::{IS_FILE, IS_PRESENT, IS_ZERO_PAGE, Region};
use crate::reason::{Reason, Switch};
use crate::slots::{Slot, Whole, parts, touching};
use crate::thp::{Counters, Rule, Settings};
use crate::why::{self, Evidence};

/// What all slots of one look share. What the host has now is read once, and only if it is asked for.
pub(crate) struct Context<'a> {
    whole: &'a Whole<'a>,
    vmas: &'a [Vma],
    range: (u64, u64),
    asked: PageSize,
    now: OnceCell<Option<Counters>>,
    memory: OnceCell<Option<Memory>>,
    /// The group without room, for faults that may not reclaim and those that may.
    full_groups: [OnceCell<Option<GroupLimit>>; 2],
    /// For the first hugetlb mapping that lacks a page.
    missing: OnceCell<Reason>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(whole: &'a Whole<'a>, vmas: &'a [Vma], range: (u64, u64), asked: PageSize) -> Self {
        let (now, memory, full_groups, missing) = Default::default();
        Self { whole, vmas, range, asked, now, memory, full_groups, missing }
    }

    pub(crate) fn why(&self, slot: &Slot, regions: &[Region]) -> Option<Reason> {
        let start = slot.address as u64 & !(SLOT - 1);
        let vmas = touching(self.vmas, start, start + SLOT);
        why::why(slot, &OfSlot { context: self, slot, vmas, regions })
    }

    /// The host's counters now.
    fn now(&self) -> Option<Counters> {
        *self.now.get_or_init(|| Counters::read(self.whole.root))
    }

    /// The evidence from a slot's frames, for processes that may see it.
    fn frames_of(&self, slot: &Slot) -> Option<FrameEvidence> {
        let frames = self.whole.frames.as_ref().filter(|_| slot.held.is_some_and(|held| held.base_bytes > 0))?;
        let (low, high) = (slot.address as u64, (slot.address + slot.bytes) as u64);
        let entries = pagemap::entries(self.whole.pagemap, low, high).ok()?;
        frames.evidence(&entries, low % SLOT / base_page_bytes() as u64)
    }
}

/// What is known about one slot.
struct OfSlot<'a> {
    context: &'a Context<'a>,
    slot: &'a Slot,
    vmas: &'a [Vma],
    regions: &'a [Region],
}

impl OfSlot<'_> {
    fn settings(&self) -> &Settings {
        self.context.whole.settings
    }

    /// Counters when the map was made, and now.
    fn since(&self) -> Option<(Counters, Counters)> {
        self.context.whole.past.counters.zip(self.context.now())
    }
}

impl Evidence for OfSlot<'_> {
    fn asked(&self) -> PageSize {
        self.context.asked
    }

    fn vmas(&self) -> &[Vma] {
        self.vmas
    }

    fn range(&self) -> (u64, u64) {
        self.context.range
    }

    fn is_range_known(&self) -> bool {
        self.context.whole.past.is_range_known
    }

    fn has_anonymous(&self) -> bool {
        parts(self.slot, self.regions).any(|(_, _, is)| is & (IS_PRESENT | IS_FILE | IS_ZERO_PAGE) == IS_PRESENT)
    }

    fn rule(&self, vma: &Vma) -> Option<(Rule, Switch)> {
        self.settings().rule_of(vma)
    }

    fn is_direct_access(&self, vma: &Vma) -> bool {
        self.settings().is_direct_access(vma)
    }

    fn is_disabled_for_process(&self) -> bool {
        self.settings().disabled_for_process
    }

    fn is_no_file_of_a_mount(&self, vma: &Vma) -> bool {
        self.settings().is_no_file_of_a_mount(vma)
    }

    fn file_bytes(&self, vma: &Vma) -> Option<u64> {
        let link = self.settings().folder.join(format!("map_files/{:x}-{:x}", vma.start, vma.end));
        fs::metadata(link).ok().filter(fs::Metadata::is_file).map(|file| file.len())
    }

    fn frames(&self) -> Option<FrameEvidence> {
        self.context.frames_of(self.slot)
    }

    fn no_fallback(&self) -> Option<bool> {
        self.since().map(|(then, now)| then.fallbacks == now.fallbacks)
    }

    fn cgroup_limit_since(&self) -> bool {
        self.since().is_some_and(|(then, now)| {
            now.charge_fallbacks > then.charge_fallbacks && now.own_limit_hits > then.own_limit_hits
        })
    }

    fn tightest_group(&self) -> Option<GroupLimit> {
        memory::tightest_group(&self.settings().root, &self.settings().folder)
    }

    fn full_group(&self, may_reclaim: bool) -> Option<GroupLimit> {
        let read = || memory::full_group(&self.settings().root, &self.settings().folder, may_reclaim);
        self.context.full_groups.get(usize::from(may_reclaim))?.get_or_init(read).clone()
    }

    fn lacked_since_boot(&self) -> Option<(bool, bool)> {
        let now = self.context.now()?;
        Some((now.charge_fallbacks > 0, now.fallbacks > now.charge_fallbacks))
    }

    fn memory(&self) -> Option<Memory> {
        let settings = self.settings();
        *self.context.memory.get_or_init(|| Memory::read(&settings.root, settings.nodes.as_deref()))
    }

    fn defrag(&self, advised: bool) -> Option<(String, bool)> {
        let settings = self.settings();
        settings.host.defrag.clone().zip(settings.host.may_compact(advised))
    }

    fn khugepaged_limit(&self, missing: u64, swapped: u64, shared: u64) -> Option<(&'static str, u64)> {
        let limits = &self.settings().host.khugepaged;
        let all = [
            ("max_ptes_none", limits.max_ptes_none, missing),
            ("max_ptes_swap", limits.max_ptes_swap, swapped),
            ("max_ptes_shared", limits.max_ptes_shared, shared),
        ];
        all.into_iter().find_map(|(file, limit, found)| Some((file, limit.filter(|limit| found > *limit)?)))
    }

    fn why_missing(&self, vma: &Vma) -> Reason {
        self.context.missing.get_or_init(|| hugetlb::why_missing(self.settings(), vma)).clone()
    }

    fn pool(&self) -> Option<String> {
        self.context.whole.past.pool.clone()
    }
}
