//! Whether a slot can be mapped by one entry: pure functions from observations to the answer.
//!
//! The rule for direct access follows the kernel's `fs/dax.c` (`dax_iomap_pmd_fault`): one mapping of the file system has to
//! cover the whole slot, its physical address has to be a multiple of 2 MiB, and the slot's last page has to lie inside the file.

use super::report::{Extent, SLOT_BYTES, SlotReason, SlotRun};

/// Bytes of a page as the page cache counts the end of a file.
const PAGE_BYTES: u64 = 4096;

/// The answer for one slot: none if it can be mapped by one entry.
pub(super) type Verdict = Option<SlotReason>;

/// Collects answers in order of slots; neighbours with the same one become a run.
#[derive(Debug)]
pub(super) struct Runs {
    size_bytes: u64,
    runs: Vec<SlotRun>,
}

impl Runs {
    pub(super) fn new(size_bytes: u64) -> Self {
        Self { size_bytes, runs: Vec::new() }
    }

    /// Slots of the file, the last one counted even if the file ends inside.
    fn count(&self) -> u64 {
        self.size_bytes.div_ceil(SLOT_BYTES)
    }

    /// Slots that the file fills to the last page.
    fn whole(&self) -> u64 {
        self.size_bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES / SLOT_BYTES
    }

    /// The answer for the slots `[first, end)`.
    fn push(&mut self, first: u64, end: u64, verdict: Verdict) {
        if first >= end {
            return;
        }
        let end = end.saturating_mul(SLOT_BYTES).min(self.size_bytes);
        let start = first * SLOT_BYTES;
        match self.runs.last_mut() {
            Some(last) if last.reason == verdict => last.end = end,
            _ => self.runs.push(SlotRun { start, end, possible: verdict.is_none(), reason: verdict }),
        }
    }
}

/// Where a file system puts the 2 MiB that the first write to a slot without blocks sets aside. A read of such a slot maps the page
/// of zeros, by one entry as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filling {
    /// Wherever there is room.
    Open,
    /// At a multiple of 2 MiB (ext4 with such a stride: `ext4_mb_find_by_goal` takes no other place for a stripe).
    Aligned,
    /// As far from the nearest extent as it is in the file (ext4: `ext4_ext_find_goal`), and at a multiple of 2 MiB in a file
    /// without any.
    AsNeighbour,
    /// At a multiple of 2 MiB if no extent lies behind (xfs with such a stripe unit: `xfs_bmap_btalloc` aligns what ends the
    /// file), else as far from the extent before as it is in the file.
    AlignedAtEnd,
}

impl Filling {
    /// The answer for a slot without blocks, which lies between these extents.
    fn verdict(self, before: Option<&Extent>, after: Option<&Extent>, device_start_bytes: u64) -> Verdict {
        let aligned = |extent: &Extent| {
            extent.physical.is_some_and(|physical| physical.wrapping_sub(extent.start).is_multiple_of(SLOT_BYTES))
        };
        let is_filled = match self {
            Self::Open => false,
            Self::Aligned => true,
            Self::AsNeighbour => before.or(after).is_none_or(aligned),
            Self::AlignedAtEnd => after.is_none() || before.is_some_and(aligned),
        };
        match is_filled {
            false => Some(SlotReason::Hole),
            true if device_start_bytes.is_multiple_of(SLOT_BYTES) => None,
            true => Some(SlotReason::PartitionMisaligned),
        }
    }
}

/// A file on direct access.
#[derive(Debug, Clone, Copy)]
pub(super) struct DaxFile<'a> {
    pub(super) size_bytes: u64,
    /// From FIEMAP, in order.
    pub(super) extents: &'a [Extent],
    /// Where the file system begins on its device, bytes.
    pub(super) device_start_bytes: u64,
    /// Whether the file system hands out neighbouring extents that continue each other as one (ext4 does by its extent status
    /// tree; xfs hands out its records as they are).
    pub(super) merges: bool,
    /// What becomes of holes.
    pub(super) filling: Filling,
    /// Whether the kernel was built with FS_DAX_PMD; none if that could not be read.
    pub(super) pmd: Option<bool>,
}

/// The slots of a file on direct access.
pub(super) fn dax(file: &DaxFile<'_>) -> Vec<SlotRun> {
    let mut runs = Runs::new(file.size_bytes);
    if file.pmd == Some(false) {
        runs.push(0, runs.count(), Some(SlotReason::NoDaxPmd));
        return runs.runs;
    }
    let pieces = pieces(file);
    let whole = runs.whole().min(runs.count());
    let (mut slot, mut next) = (0, 0);
    while slot < whole {
        let start = slot * SLOT_BYTES;
        while pieces.get(next).is_some_and(|piece| piece.end <= start) {
            next += 1;
        }
        let after = pieces.get(next..).unwrap_or_default();
        let before = next.checked_sub(1).and_then(|last| pieces.get(last));
        let (verdict, end) = match after.first() {
            None => (file.filling.verdict(before, None, file.device_start_bytes), whole),
            Some(piece) if piece.start >= start + SLOT_BYTES => {
                (file.filling.verdict(before, Some(piece), file.device_start_bytes), piece.start / SLOT_BYTES)
            }
            Some(piece) if piece.start <= start && piece.end >= start + SLOT_BYTES => {
                (in_one(piece, start, file.device_start_bytes), piece.end / SLOT_BYTES)
            }
            Some(_) => (Some(in_several(after, start)), slot + 1),
        };
        let end = end.clamp(slot + 1, whole);
        runs.push(slot, end, verdict);
        slot = end;
    }
    runs.push(whole, runs.count(), Some(SlotReason::FileEndsInside));
    runs.runs
}

/// The extents as the file system hands them to a fault.
fn pieces(file: &DaxFile<'_>) -> Vec<Extent> {
    let mut pieces: Vec<Extent> = Vec::with_capacity(file.extents.len());
    for extent in file.extents {
        match pieces.last_mut() {
            Some(before) if file.merges && continues(before, extent) => before.end = extent.end,
            _ => pieces.push(*extent),
        }
    }
    pieces
}

fn continues(before: &Extent, extent: &Extent) -> bool {
    let follows = before.physical.zip(extent.physical).is_some_and(|(a, b)| a + (before.end - before.start) == b);
    let state = |extent: &Extent| (extent.unwritten, extent.shared, extent.delalloc, extent.encoded, extent.inline);
    before.end == extent.start && follows && state(before) == state(extent)
}

/// The slot at `start` lies in one extent.
fn in_one(extent: &Extent, start: u64, device_start_bytes: u64) -> Verdict {
    if extent.shared {
        return Some(SlotReason::Shared);
    }
    let Some(physical) = extent.physical.filter(|_| !(extent.delalloc || extent.encoded || extent.inline)) else {
        return Some(SlotReason::PlaceNotKnown);
    };
    let in_partition = physical + (start - extent.start);
    if (in_partition + device_start_bytes).is_multiple_of(SLOT_BYTES) {
        None
    } else if in_partition.is_multiple_of(SLOT_BYTES) {
        Some(SlotReason::PartitionMisaligned)
    } else {
        Some(SlotReason::ExtentMisaligned)
    }
}

/// The slot at `start` is touched by the first of these extents, which does not fill it.
fn in_several(extents: &[Extent], start: u64) -> SlotReason {
    let end = start + SLOT_BYTES;
    let inside: Vec<&Extent> = extents.iter().take_while(|extent| extent.start < end).collect();
    let mut covered = start;
    for extent in &inside {
        if extent.start > covered {
            return SlotReason::PartHole;
        }
        covered = extent.end;
    }
    if covered < end {
        return SlotReason::PartHole;
    }
    let in_place = inside.windows(2).all(|pair| match pair {
        [a, b] => a.physical.zip(b.physical).is_some_and(|(first, second)| first + (a.end - a.start) == second),
        _ => true,
    });
    let states_differ = inside.windows(2).any(|pair| matches!(pair, [a, b] if a.unwritten != b.unwritten));
    if in_place && states_differ { SlotReason::ExtentsMixed } else { SlotReason::ExtentShort }
}

/// What holds for slots of which nothing is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    /// For slots that the file fills.
    pub(super) whole: Verdict,
    /// For the slot in which the file ends.
    pub(super) tail: Verdict,
    /// The same two for slots that have pages in memory which cannot be looked at.
    pub(super) hidden: (Verdict, Verdict),
    /// How many of them there is room for, if that is bounded.
    pub(super) room_slots: Option<u64>,
}

impl Rule {
    /// For slots that the file fills, and for the one in which it ends.
    pub(super) fn new(whole: Verdict, tail: Verdict) -> Self {
        Self { whole, tail, hidden: (whole, tail), room_slots: None }
    }

    /// The same for all slots.
    pub(super) fn all(verdict: Verdict) -> Self {
        Self::new(verdict, verdict)
    }
}

/// What a slot that is in memory has been seen to be mapped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// One huge page.
    Huge,
    /// Small ones.
    Small,
    /// It has pages, and could not be looked at.
    Hidden,
}

/// The slots of a file in the page cache, on tmpfs or hugetlbfs. `in_memory` are those with pages in memory, in order.
pub(super) fn cached(size_bytes: u64, rule: Rule, in_memory: &[(u64, Seen)]) -> Vec<SlotRun> {
    let mut runs = Runs::new(size_bytes);
    let whole = runs.whole().min(runs.count());
    let of_rule = |slot| if slot < whole { rule.whole } else { rule.tail };
    let mut room = rule.room_slots.unwrap_or(u64::MAX);
    let mut empty = |runs: &mut Runs, first: u64, end: u64| {
        for (first, end, verdict) in
            [(first, end.min(whole), rule.whole), (first.max(whole), end.min(runs.count()), rule.tail)]
        {
            if verdict.is_some() || first >= end {
                runs.push(first, end, verdict);
                continue;
            }
            let given = room.min(end - first);
            room -= given;
            runs.push(first, first + given, None);
            runs.push(first + given, end, Some(SlotReason::TmpfsFull));
        }
    };
    let mut slot = 0;
    for (at, seen) in in_memory.iter().filter(|(at, _)| *at < size_bytes.div_ceil(SLOT_BYTES)) {
        empty(&mut runs, slot, *at);
        let verdict = match (seen, of_rule(*at)) {
            (Seen::Huge, _) => None,
            // Advice comes too late for pages that are there.
            (Seen::Small, None | Some(SlotReason::NeedsAdvice)) => Some(SlotReason::InSmallPages),
            (Seen::Small, verdict) => verdict,
            (Seen::Hidden, _) if *at < whole => rule.hidden.0,
            (Seen::Hidden, _) => rule.hidden.1,
        };
        runs.push(*at, at + 1, verdict);
        slot = at + 1;
    }
    empty(&mut runs, slot, size_bytes.div_ceil(SLOT_BYTES));
    runs.runs
}
