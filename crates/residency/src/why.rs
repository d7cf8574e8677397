//! Why a slot has smaller pages than were asked for: only from what can be seen, `Unknown` otherwise.
//!
//! Causes are asked in the order in which the kernel would meet them: what the addresses forbid, what settings forbid, what happened
//! to a huge page that was there, and last what a fault can have lacked. For the last there is no trace of the past in another process,
//! so the state of the host now decides, and the words say so.

use crate::maps::Vma;
use crate::memory::{FEW_BLOCKS, GroupLimit, Memory};
use crate::page_size::SLOT;
use crate::page_size::{PageSize, base_page_bytes};
use crate::reason::{Reason, Switch};
use crate::slots::{Held, Slot};
use crate::thp::Rule;

use crate::frames::FrameEvidence;

/// What is known about a slot when the reason is looked for.
pub(crate) trait Evidence {
    fn asked(&self) -> PageSize;
    /// Mappings that touch the slot's whole 2 MiB, in order.
    fn vmas(&self) -> &[Vma];
    /// Mapped range that was asked about.
    fn range(&self) -> (u64, u64);
    /// Whether the range was mapped as a whole. Otherwise it is one mapping of a process, and its neighbours may have been a part of it.
    fn is_range_known(&self) -> bool;
    /// Present pages that are not a file's.
    fn has_anonymous(&self) -> bool;
    /// The rule of anonymous memory, or of the file under a mapping, and the setting that it comes from.
    fn rule(&self, vma: &Vma) -> Option<(Rule, Switch)>;
    /// Whether the mapping is of a file on persistent memory that is mapped directly.
    fn is_direct_access(&self, vma: &Vma) -> bool;
    fn is_disabled_for_process(&self) -> bool;
    /// Whether the mapping is of something that lies in no file system.
    fn is_no_file_of_a_mount(&self, vma: &Vma) -> bool;
    /// Length of the file under the mapping, bytes; `None` where it cannot be seen.
    fn file_bytes(&self, vma: &Vma) -> Option<u64>;
    /// Looked at only where nothing else explains the slot: it takes a read for each page. `None` if they may not be seen.
    fn frames(&self) -> Option<FrameEvidence>;
    /// Whether no fault of the whole host has fallen back since the map was made; `None` if its beginning was not seen.
    fn no_fallback(&self) -> Option<bool>;
    /// Whether this process's memory cgroup was at its limit and faults fell back for want of room, since then.
    fn cgroup_limit_since(&self) -> bool;
    /// The group with the least room.
    fn tightest_group(&self) -> Option<GroupLimit>;
    /// The group that has no room now, for a fault that may or may not reclaim.
    fn full_group(&self, may_reclaim: bool) -> Option<GroupLimit>;
    /// Whether since boot, anywhere, a fault has lacked room in a group, and whether one has lacked a free block; `None` if unknown.
    fn lacked_since_boot(&self) -> Option<(bool, bool)>;
    /// Free blocks now.
    fn memory(&self) -> Option<Memory>;
    /// The word of `defrag`, and whether a fault may compact memory.
    fn defrag(&self, advised: bool) -> Option<(String, bool)>;
    /// The limit of khugepaged that forbids collapsing a slot with this many pages missing, on swap and shared.
    fn khugepaged_limit(&self, missing: u64, swapped: u64, shared: u64) -> Option<(&'static str, u64)>;
    /// Why a page of a hugetlb mapping is not there.
    fn why_missing(&self, vma: &Vma) -> Reason;
    /// Why the pool was left for ordinary memory, if it was.
    fn pool(&self) -> Option<String>;
}

/// Why `slot` has less than asked for; `None` if it has not.
pub(crate) fn why(slot: &Slot, evidence: &dyn Evidence) -> Option<Reason> {
    let held = slot.held.as_ref()?;
    if !short_of(held, slot.bytes as u64, evidence.asked()) {
        return None;
    }
    let (low, high) = evidence.range();
    if held.present_bytes() == 0 {
        let mut ours = evidence.vmas().iter().filter(|vma| vma.end > low && vma.start < high);
        return Some(match ours.next() {
            Some(vma) if vma.is_hugetlb() && evidence.pool().is_none() => evidence.why_missing(vma),
            Some(vma) if held.swapped_bytes > 0 && vma.swapped_bytes > 0 => Reason::Swapped,
            _ => Reason::NotTouched,
        });
    }
    if let Some(error) = evidence.pool() {
        return Some(Reason::Pool { error });
    }
    let [vma] = evidence.vmas() else { return Some(of_several(slot, evidence)) };
    let start = slot.address as u64 & !(SLOT - 1);
    if vma.start > start || vma.end < start + SLOT {
        return Some(of_edge(start, vma, evidence));
    }
    if vma.is_hugetlb() {
        // Its pages are of the pool's size, which is less than asked for only if another size was asked for.
        return Some(if held.base_bytes + held.huge_2m_bytes > 0 { Reason::NotEligible } else { Reason::NotTouched });
    }
    Some(of_one(start, vma, held, evidence))
}

/// Whether a slot of `bytes` holds less than `asked`.
fn short_of(held: &Held, bytes: u64, asked: PageSize) -> bool {
    match asked {
        PageSize::Base | PageSize::Any => false,
        PageSize::Huge2M => held.huge_2m_bytes + held.huge_1g_bytes < bytes || bytes < SLOT,
        PageSize::Huge1G => held.huge_1g_bytes < bytes,
    }
}

/// The mapping ends inside the slot: because it was made so, or because a part was unmapped later.
fn of_edge(start: u64, vma: &Vma, evidence: &dyn Evidence) -> Reason {
    let (low, high) = evidence.range();
    let gap_below = vma.start > start.max(low);
    let gap_above = vma.end < (start + SLOT).min(high);
    // Entries of a huge page at its place, of which the mapping has room for a part only, were made when there was room for all.
    let was_whole = || evidence.frames().is_some_and(|frames| frames.huge > 0 && frames.is_in_place());
    let unmapped = gap_below || gap_above || !evidence.is_range_known() && !vma.is_file() && was_whole();
    if unmapped { Reason::SplitByUnmap } else { Reason::LeavesMapping }
}

/// Whether two neighbours can have been one mapping: both anonymous, or of one file and on.
fn are_of_one(first: &Vma, second: &Vma) -> bool {
    let is_plain = |vma: &Vma| vma.path.is_empty() || vma.path.starts_with(b"[anon");
    first.end == second.start
        && match (first.is_file(), second.is_file()) {
            (false, false) => is_plain(first) && is_plain(second),
            (true, true) => {
                let goes_on = first.offset.wrapping_add(first.end - first.start) == second.offset;
                goes_on && (first.inode, &first.device) == (second.inode, &second.device)
            }
            _ => false,
        }
}

fn of_several(slot: &Slot, evidence: &dyn Evidence) -> Reason {
    let start = slot.address as u64 & !(SLOT - 1);
    let (low, high) = evidence.range();
    let in_range = |vma: &Vma| vma.end > low && vma.start < high;
    let Some(first) = evidence.vmas().iter().position(in_range) else {
        return Reason::Unknown { why: "no mapping was found at these addresses".to_owned() };
    };
    let behind = evidence.vmas().iter().skip(first).take_while(|vma| in_range(vma)).count() + first;
    let (mut from, mut to) = (first, behind);
    if !evidence.is_range_known() {
        let one = |index: usize| match evidence.vmas().get(index..index + 2) {
            Some([first, second]) => are_of_one(first, second),
            _ => false,
        };
        while from > 0 && one(from - 1) {
            from -= 1;
        }
        while one(to - 1) {
            to += 1;
        }
    }
    let ours = evidence.vmas().get(from..to).unwrap_or_default();
    let gap = ours.windows(2).any(|pair| matches!(pair, [a, b] if a.end < b.start));
    match ours {
        _ if gap => Reason::SplitByUnmap,
        [] => Reason::LeavesMapping,
        [only] => of_edge(start, only, evidence),
        [first, rest @ ..] if rest.iter().any(|vma| vma.permissions != first.permissions) => Reason::SplitByProtection,
        _ => Reason::SplitMapping,
    }
}

/// The slot lies in one mapping as a whole.
fn of_one(start: u64, vma: &Vma, held: &Held, evidence: &dyn Evidence) -> Reason {
    if vma.has_flag("nh") {
        return Reason::AdvisedAgainst;
    }
    if evidence.is_disabled_for_process() {
        return Reason::DisabledForProcess;
    }
    // VM_IO, VM_PFNMAP, VM_MIXEDMAP: memory of a device or of the kernel.
    let is_special = ["io", "pf", "mm"].iter().any(|flag| vma.has_flag(flag)) || evidence.is_no_file_of_a_mount(vma);
    // For DAX smaps says "not eligible", which is about khugepaged: faults do give huge pages.
    let refuses = vma.thp_eligible == Some(false) && !evidence.is_direct_access(vma);
    if is_special && refuses {
        return Reason::NotEligible;
    }
    if vma.has_flag("um") {
        return Reason::Userfaultfd;
    }
    if vma.is_file() {
        if !vma.start.wrapping_sub(vma.offset).is_multiple_of(SLOT) {
            return Reason::NotAligned;
        }
        if evidence.has_anonymous() {
            return Reason::CopiedOnWrite;
        }
    }
    let rule = evidence.rule(vma);
    if let Some(reason) = rule.clone().and_then(|rule| of_rule(start, vma, held, rule, evidence)) {
        return reason;
    }
    if refuses {
        match rule {
            // Nothing else takes huge pages from ordinary memory that has them by rule.
            Some((Rule::Always, _)) if !vma.is_file() && !vma.has_flag("hg") => return Reason::DisabledExceptAdvised,
            // The kernel does not count files of disks as eligible, and yet maps their large folios by one entry.
            None if vma.is_file() => {}
            _ => return Reason::NotEligible,
        }
    }
    if vma.is_file() { of_file(evidence) } else { of_anonymous(vma, held, evidence) }
}

/// What settings forbid.
fn of_rule(
    start: u64,
    vma: &Vma,
    held: &Held,
    (rule, switch): (Rule, Switch),
    evidence: &dyn Evidence,
) -> Option<Reason> {
    let is_file = vma.is_file();
    let advised = vma.has_flag("hg");
    let smaller =
        || switch == Switch::SizeEnabled && evidence.frames().is_some_and(|frames| frames.largest_smaller > 1);
    match rule {
        Rule::Never if !is_file && smaller() => Some(Reason::SmallerSize(switch)),
        Rule::Never if !is_file => Some(Reason::ThpNever(switch)),
        // Advice may have come, and pages may have been gathered, in spite of the rule; the rule is about new pages.
        Rule::Never if evidence.frames().is_some_and(|frames| frames.is_one_huge_page()) => None,
        Rule::Never => Some(Reason::FileSystemNever(switch)),
        Rule::Advised if !advised && !is_file && smaller() => Some(Reason::SmallerSize(switch)),
        Rule::Advised if !advised => Some(Reason::ThpOnlyByAdvice(switch)),
        Rule::WithinSize if is_file && !advised => {
            let page = base_page_bytes() as u64;
            let slot_end = start + SLOT - vma.start + vma.offset;
            let ends_inside = match evidence.file_bytes(vma) {
                Some(bytes) => bytes.checked_next_multiple_of(page).is_some_and(|bytes| bytes < slot_end),
                None => held.present_bytes() < SLOT,
            };
            ends_inside.then_some(Reason::BeyondFileSize(switch))
        }
        _ => None,
    }
}

/// Nothing forbids a huge page of this file here, and yet there is none.
fn of_file(evidence: &dyn Evidence) -> Reason {
    match evidence.frames() {
        Some(frames) if frames.is_one_huge_page() => Reason::EarlierBaseEntries { free_blocks: None },
        Some(frames) if frames.huge < frames.pages => Reason::FileInBasePages,
        Some(_) => Reason::Unknown { why: "the slot's pages are of several huge pages of the file's".to_owned() },
        None => hidden(),
    }
}

fn hidden() -> Reason {
    let why = "to tell 4 KiB entries that came earlier from a huge page that was split needs CAP_SYS_ADMIN \
               (/proc/kpageflags)";
    Reason::Unknown { why: why.to_owned() }
}

/// Nothing forbids a huge page of anonymous memory here, and yet there is none.
fn of_anonymous(vma: &Vma, held: &Held, evidence: &dyn Evidence) -> Reason {
    if evidence.cgroup_limit_since() {
        return Reason::CgroupLimit { group: evidence.tightest_group() };
    }
    let Some(frames) = evidence.frames() else { return hidden() };
    if frames.merged > 0 {
        return Reason::Merged;
    }
    // Markers of userfaultfd look like swap in the page tables; smaps does not count them.
    if held.swapped_bytes > 0 && vma.swapped_bytes > 0 || frames.swap_cache > 0 {
        return Reason::Swapped;
    }
    if frames.huge > 0 {
        return match frames {
            frames if frames.is_one_huge_page() && held.present_bytes() == SLOT => Reason::EntriesSplit,
            frames if frames.huge_displaced > 0 => Reason::Moved,
            frames if frames.huge_shared > 0 => Reason::CopiedAfterFork,
            _ => Reason::PartGivenBack,
        };
    }
    of_small_pages(vma, held, &frames, evidence)
}

/// Pages that were small from the beginning, as far as can be seen.
fn of_small_pages(vma: &Vma, held: &Held, frames: &FrameEvidence, evidence: &dyn Evidence) -> Reason {
    let earlier = |free_blocks| {
        let page = base_page_bytes() as u64;
        let (missing, swapped) = ((SLOT - held.present_bytes() - held.swapped_bytes) / page, held.swapped_bytes / page);
        match evidence.khugepaged_limit(missing, swapped, frames.small_shared) {
            Some((file, limit)) => Reason::KhugepagedLimit { file, limit },
            None => Reason::EarlierBaseEntries { free_blocks },
        }
    };
    if evidence.no_fallback() == Some(true) {
        return earlier(None);
    }
    let advised = vma.has_flag("hg");
    let defrag = evidence.defrag(advised);
    let may_compact = defrag.as_ref().is_none_or(|(_, may)| *may);
    let (lacked_room, lacked_block) = evidence.lacked_since_boot().unwrap_or((true, true));
    if lacked_room && let Some(group) = evidence.full_group(may_compact) {
        return Reason::CgroupLimit { group: Some(group) };
    }
    let Some(memory) = evidence.memory() else {
        let why = "4 KiB entries came earlier, or no huge page could be allocated (/proc/buddyinfo cannot be read)";
        return Reason::Unknown { why: why.to_owned() };
    };
    let free_blocks = memory.blocks;
    if !lacked_block || free_blocks >= FEW_BLOCKS {
        return earlier(Some(free_blocks));
    }
    match defrag {
        Some((defrag, false)) => Reason::DefragSetting { defrag, advised, free_blocks },
        _ => Reason::Fragmented { free_blocks, free_mib: memory.free_bytes >> 20 },
    }
}
