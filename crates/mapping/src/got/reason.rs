//! Why a slot has smaller pages than were asked for: only from what can be seen, `Unknown` otherwise.

use std::fmt;

use super::host::Rule;
use super::vmas::Vma;
use super::{Held, Slot};
use crate::page_size::{HUGE_2M_BYTES, PageSize};

const SLOT: u64 = HUGE_2M_BYTES as u64;

/// Why a slot has less than was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing of the slot is in memory: it has not been touched, or was given back or swapped out.
    NotTouched,
    /// The 2 MiB do not lie inside the mapping.
    LeavesMapping,
    /// A part of the 2 MiB has been unmapped.
    SplitByUnmap,
    /// The 2 MiB hold mappings of different protection (mprotect).
    SplitByProtection,
    /// The 2 MiB hold mappings that differ in something else (advice, file, lock).
    SplitMapping,
    /// Address and file offset differ modulo 2 MiB.
    NotAligned,
    /// Transparent huge pages are set to never.
    ThpNever,
    /// Transparent huge pages come only where madvise(MADV_HUGEPAGE) asks, which it did not here.
    ThpOnlyByAdvice,
    /// madvise(MADV_NOHUGEPAGE) holds here.
    AdvisedAgainst,
    /// prctl(PR_SET_THP_DISABLE) holds for this process.
    DisabledForProcess,
    /// The file system is mounted with `huge=never`, or memory of this kind is.
    FileSystemNever,
    /// With `huge=within_size`: the file ends inside the 2 MiB.
    BeyondFileSize,
    /// The kernel says (smaps, `THPeligible: 0`) that this mapping cannot have huge pages.
    NotEligible,
    /// The slot had 4 KiB entries when huge pages became possible; a fault fills an empty slot only.
    EarlierBaseEntries,
    /// The file's pages in memory are small; a mapping shows them as they are.
    FileInBasePages,
    /// Pages of a private file mapping have been written, which copies them one by one.
    CopiedOnWrite,
    /// After fork a page was written: the huge page stayed with the other process as a whole, this process has a copy of a part.
    CopiedAfterFork,
    /// The memory is still one huge page, but entered as 4 KiB pages (after mprotect, munmap and the like on a part of it).
    EntriesSplit,
    /// The memory cgroup had no room for a huge page.
    CgroupLimit,
    /// The hugetlb pool had nothing left, and ordinary memory was allowed instead.
    Pool {
        /// What the pool said.
        error: String,
    },
    /// It cannot be told from what this process may see.
    Unknown {
        /// What is known.
        why: String,
    },
}

impl Reason {
    /// The reason as one word, which does not change between versions.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotTouched => "not_touched",
            Self::LeavesMapping => "leaves_mapping",
            Self::SplitByUnmap => "split_by_unmap",
            Self::SplitByProtection => "split_by_protection",
            Self::SplitMapping => "split_mapping",
            Self::NotAligned => "not_aligned",
            Self::ThpNever => "thp_never",
            Self::ThpOnlyByAdvice => "thp_only_by_advice",
            Self::AdvisedAgainst => "advised_against",
            Self::DisabledForProcess => "disabled_for_process",
            Self::FileSystemNever => "file_system_never",
            Self::BeyondFileSize => "beyond_file_size",
            Self::NotEligible => "not_eligible",
            Self::EarlierBaseEntries => "earlier_base_entries",
            Self::FileInBasePages => "file_in_base_pages",
            Self::CopiedOnWrite => "copied_on_write",
            Self::CopiedAfterFork => "copied_after_fork",
            Self::EntriesSplit => "entries_split",
            Self::CgroupLimit => "cgroup_limit",
            Self::Pool { .. } => "pool",
            Self::Unknown { .. } => "unknown",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::NotTouched => "not touched",
            Self::LeavesMapping => "the 2 MiB leave the mapping",
            Self::SplitByUnmap => "a part of the 2 MiB is unmapped",
            Self::SplitByProtection => "split by mprotect",
            Self::SplitMapping => "split into mappings that differ",
            Self::NotAligned => "address and file offset differ modulo 2 MiB",
            Self::ThpNever => {
                "transparent huge pages are off; type: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
            }
            Self::ThpOnlyByAdvice => "transparent huge pages need advice; use madvise(MADV_HUGEPAGE)",
            Self::AdvisedAgainst => "madvise(MADV_NOHUGEPAGE)",
            Self::DisabledForProcess => "prctl(PR_SET_THP_DISABLE)",
            Self::FileSystemNever => "the file system gives no huge pages; type: mount -o remount,huge=always MOUNT",
            Self::BeyondFileSize => "the file ends inside the 2 MiB (huge=within_size)",
            Self::NotEligible => "the kernel gives this mapping no huge pages (THPeligible: 0)",
            Self::EarlierBaseEntries => "the slot had 4 KiB entries before; collapse() gathers them",
            Self::FileInBasePages => "the file lies in memory in small pages",
            Self::CopiedOnWrite => "pages of a private file mapping were written",
            Self::CopiedAfterFork => "copy on write after fork",
            Self::EntriesSplit => "one huge page entered as 4 KiB pages; collapse() mends it",
            Self::CgroupLimit => "the memory cgroup had no room for a huge page",
            Self::Pool { error } => return write!(f, "ordinary memory instead of the pool: {error}"),
            Self::Unknown { why } => return write!(f, "unknown: {why}"),
        };
        f.write_str(words)
    }
}

/// What is known about a slot when the reason is looked for.
pub(super) struct Evidence<'a> {
    pub(super) asked: PageSize,
    /// Mappings that touch the slot's whole 2 MiB, in order.
    pub(super) vmas: &'a [Vma],
    /// Mapped range that was asked about.
    pub(super) range: (u64, u64),
    /// Present pages that are not a file's.
    pub(super) has_anonymous: bool,
    pub(super) anonymous_rule: Option<Rule>,
    /// Rule of the file under the slot, where it has one.
    pub(super) file_rule: Option<Rule>,
    pub(super) disabled_for_process: bool,
    /// Looked at only where nothing else explains the slot: it takes a read for each page.
    pub(super) frames: &'a dyn Fn() -> FrameEvidence,
    /// Whether no fault of the whole host has fallen back since the map was made; `None` if its beginning was not seen.
    pub(super) no_fallback: Option<bool>,
    /// Whether this process's memory cgroup was at its limit and faults fell back for want of room, since then.
    pub(super) cgroup_limit: bool,
    /// Why the pool was left for ordinary memory, if it was.
    pub(super) pool: Option<String>,
}

/// What the frames under the slot say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameEvidence {
    /// They may not be seen.
    Hidden,
    /// One transparent huge page, in order.
    OneHugePage,
    /// Parts of transparent huge pages, and others.
    Mixed,
    /// Small pages only.
    Small,
}

/// Why `slot` has less than asked for; `None` if it has not.
pub(super) fn why(slot: &Slot, evidence: &Evidence<'_>) -> Option<Reason> {
    let held = slot.held.as_ref()?;
    if !short_of(held, slot.bytes as u64, evidence.asked) {
        return None;
    }
    if held.present_bytes() == 0 {
        return Some(Reason::NotTouched);
    }
    if let Some(error) = &evidence.pool {
        return Some(Reason::Pool { error: error.clone() });
    }
    let [vma] = evidence.vmas else { return Some(of_several(slot, evidence)) };
    let start = slot.address as u64 & !(SLOT - 1);
    if vma.start > start || vma.end < start + SLOT {
        return Some(of_edge(start, vma, evidence.range));
    }
    if vma.is_hugetlb() {
        // Its pages are of the pool's size, which is less than asked for only if another size was asked for.
        return Some(if held.base_bytes + held.huge_2m_bytes > 0 { Reason::NotEligible } else { Reason::NotTouched });
    }
    Some(of_one(vma, held, evidence))
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
fn of_edge(start: u64, vma: &Vma, range: (u64, u64)) -> Reason {
    let gap_below = vma.start > start.max(range.0);
    let gap_above = vma.end < (start + SLOT).min(range.1);
    if gap_below || gap_above { Reason::SplitByUnmap } else { Reason::LeavesMapping }
}

fn of_several(slot: &Slot, evidence: &Evidence<'_>) -> Reason {
    let start = slot.address as u64 & !(SLOT - 1);
    let inside = |vma: &&Vma| vma.end > evidence.range.0 && vma.start < evidence.range.1;
    let ours: Vec<&Vma> = evidence.vmas.iter().filter(inside).collect();
    let gap = ours.windows(2).any(|pair| matches!(pair, [a, b] if a.end < b.start));
    match ours.as_slice() {
        [] => Reason::Unknown { why: "no mapping was found at these addresses".to_owned() },
        _ if gap => Reason::SplitByUnmap,
        [only] => of_edge(start, only, evidence.range),
        [first, rest @ ..] if rest.iter().any(|vma| vma.permissions != first.permissions) => Reason::SplitByProtection,
        _ => Reason::SplitMapping,
    }
}

/// The slot lies in one mapping as a whole.
fn of_one(vma: &Vma, held: &Held, evidence: &Evidence<'_>) -> Reason {
    if vma.has_flag("nh") {
        return Reason::AdvisedAgainst;
    }
    if evidence.disabled_for_process {
        return Reason::DisabledForProcess;
    }
    if vma.is_file() {
        if !vma.start.wrapping_sub(vma.offset).is_multiple_of(SLOT) {
            return Reason::NotAligned;
        }
        if evidence.has_anonymous {
            return Reason::CopiedOnWrite;
        }
    }
    let advised = vma.has_flag("hg");
    let rule = if vma.is_file() { evidence.file_rule } else { evidence.anonymous_rule };
    match rule {
        Some(Rule::Never) if !vma.is_file() => return Reason::ThpNever,
        // Advice may have come, and pages may have been gathered, in spite of the rule; the rule is about new pages.
        Some(Rule::Never) if (evidence.frames)() != FrameEvidence::OneHugePage => return Reason::FileSystemNever,
        Some(Rule::Advised) if !advised => return Reason::ThpOnlyByAdvice,
        Some(Rule::WithinSize) if vma.is_file() && !advised && held.present_bytes() < SLOT => {
            return Reason::BeyondFileSize;
        }
        _ => {}
    }
    if vma.thp_eligible == Some(false) {
        return Reason::NotEligible;
    }
    of_possible(vma, held, evidence)
}

/// Nothing forbids a huge page here, and yet there is none.
fn of_possible(vma: &Vma, held: &Held, evidence: &Evidence<'_>) -> Reason {
    if evidence.cgroup_limit && !vma.is_file() {
        return Reason::CgroupLimit;
    }
    match ((evidence.frames)(), vma.is_file()) {
        (FrameEvidence::OneHugePage, true) => Reason::EarlierBaseEntries,
        (FrameEvidence::Small, true) => Reason::FileInBasePages,
        (FrameEvidence::OneHugePage, false) if held.present_bytes() == SLOT => Reason::EntriesSplit,
        (FrameEvidence::Mixed, false) if held.present_bytes() == SLOT => Reason::CopiedAfterFork,
        (FrameEvidence::Small, false) if evidence.no_fallback == Some(true) => Reason::EarlierBaseEntries,
        (FrameEvidence::Hidden, _) => {
            let why = "to tell 4 KiB entries that came earlier from a huge page that was split needs CAP_SYS_ADMIN \
                       (/proc/kpageflags)";
            Reason::Unknown { why: why.to_owned() }
        }
        (FrameEvidence::Small, false) => Reason::Unknown {
            why: "4 KiB entries came earlier, or no huge page could be allocated (thp_fault_fallback has risen, or was not watched)"
                .to_owned(),
        },
        _ => Reason::Unknown { why: "parts of the slot are huge pages of the kernel's".to_owned() },
    }
}
