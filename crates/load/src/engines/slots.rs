//! What the kernel made of a worker's mappings, 2 MiB by 2 MiB: which pages are entered, and why they are smaller than asked for.
//!
//! The library looks at the page tables; this file states what was requested, bounds the cost, and counts.

use std::collections::BTreeMap;

use pagelab_fiojob::JobOptions;
use pagelab_fiojob::words::Advice;
use pagelab_residency::{HUGE_1G_BYTES, HUGE_2M_BYTES, Held, PageSize, Reason, Slot, inspect};
use serde::{Deserialize, Serialize};

use super::got::MapReport;

/// Slots that are looked at, at most: 8 GiB where nothing was asked for.
const MOST_SLOTS: u64 = 4096;

/// The same where reasons are looked for, 4 GiB: to tell why a slot lies in base pages takes a read for each of its 512 frames.
const MOST_SLOTS_WITH_REASONS: u64 = 2048;

/// Mappings gone through, at most: smaps is read for each range anew.
const MOST_VMAS: u64 = 1 << 16;

/// Slots (2 MiB at a multiple of 2 MiB) that pieces lie in, by the pages that the page tables hold for them. Each slot is in one of
/// the seven numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotCounts {
    /// The page size that `hugetlb` or `map_advice` asked for: `2M`, `1G`, or `any` where nothing was asked; `several` if jobs that
    /// asked for different ones are summed.
    pub asked: String,
    /// In base pages (4 KiB on x86-64).
    pub base: u64,
    /// In a 2 MiB page.
    pub huge_2m: u64,
    /// In a part of a 1 GiB page.
    pub huge_1g: u64,
    /// In pages of several sizes.
    pub mixed: u64,
    /// All that was there is swapped out.
    pub swapped: u64,
    /// Mapped, and nothing is there.
    pub not_touched: u64,
    /// The kernel does not tell the size of the pages.
    pub not_told: u64,
    /// Slots that hold less than was asked for, by reason: the words of the mapping library.
    pub less_than_asked: BTreeMap<String, u64>,
}

impl SlotCounts {
    /// All slots.
    pub fn total(&self) -> u64 {
        self.base + self.huge_2m + self.huge_1g + self.mixed + self.swapped + self.not_touched + self.not_told
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if self.asked != other.asked {
            "several".clone_into(&mut self.asked);
        }
        self.base += other.base;
        self.huge_2m += other.huge_2m;
        self.huge_1g += other.huge_1g;
        self.mixed += other.mixed;
        self.swapped += other.swapped;
        self.not_touched += other.not_touched;
        self.not_told += other.not_told;
        for (reason, slots) in &other.less_than_asked {
            *self.less_than_asked.entry(reason.clone()).or_default() += slots;
        }
    }

    fn add(&mut self, slot: &Slot, pieces_touch: bool) {
        let number = match (slot.held, slot.page_size()) {
            (None, _) => &mut self.not_told,
            (_, Some(PageSize::Huge1G)) => &mut self.huge_1g,
            (_, Some(PageSize::Huge2M)) => &mut self.huge_2m,
            (_, Some(_)) => &mut self.base,
            (Some(Held { swapped_bytes: 1.., .. }), None) if !present(slot) => &mut self.swapped,
            _ if present(slot) => &mut self.mixed,
            _ => &mut self.not_touched,
        };
        *number += 1;
        if let Some(reason) = &slot.reason {
            // The library knows one range, and takes a gap in it for something that was unmapped. Between pieces that were mapped
            // apart there never was anything: the slot leaves its piece.
            let reason = match reason {
                Reason::SplitByUnmap if !pieces_touch => &Reason::LeavesMapping,
                other => other,
            };
            *self.less_than_asked.entry(reason.word().to_owned()).or_default() += 1;
        }
    }
}

fn present(slot: &Slot) -> bool {
    slot.held.is_some_and(|held| held.present_bytes() > 0)
}

/// The page size that a job asks for. Pools of other sizes than 2 MiB and 1 GiB are not held against anything.
pub(crate) fn asked(options: &JobOptions) -> PageSize {
    match options.hugetlb.0 as usize {
        HUGE_2M_BYTES => PageSize::Huge2M,
        HUGE_1G_BYTES => PageSize::Huge1G,
        0 if options.map_advice.0.iter().any(|advice| matches!(advice, Advice::HugePage | Advice::Collapse)) => {
            PageSize::Huge2M
        }
        _ => PageSize::Any,
    }
}

/// Counts the slots that the pieces of `files` lie in, which are `vmas` mappings in all.
///
/// # Errors
/// There are too many of them to look at in reasonable time, or the kernel does not tell; in words.
pub(crate) fn count(files: &[MapReport], vmas: u64, asked: PageSize) -> Result<SlotCounts, String> {
    let slot_bytes = HUGE_2M_BYTES as u64;
    let slots_of = |file: &MapReport| {
        let (low, high) = file.range();
        high.div_ceil(slot_bytes).saturating_sub(low / slot_bytes)
    };
    let slots: u64 = files.iter().map(slots_of).sum();
    let most = if asked == PageSize::Any { MOST_SLOTS } else { MOST_SLOTS_WITH_REASONS };
    if slots > most {
        return Err(format!("{slots} slots of 2 MiB, at most {most} are looked at; use a smaller size="));
    }
    let lines = vmas.max(1) * files.len() as u64;
    if lines > MOST_VMAS {
        return Err(format!(
            "{vmas} mappings in {} files, at most {MOST_VMAS} (their product) are looked at; use a larger map_granularity=",
            files.len()
        ));
    }
    let mut counts = SlotCounts { asked: asked.word().to_owned(), ..SlotCounts::default() };
    for file in files.iter().filter(|file| file.span_bytes > 0) {
        let pieces_touch = file.stride_bytes == file.piece_bytes;
        let got =
            inspect(file.first_address as usize, file.span_bytes as usize, asked).map_err(|error| error.to_string())?;
        // Between pieces, and where pieces have been evicted, nothing is mapped.
        got.slots.iter().filter(|slot| slot.mapped_bytes > 0).for_each(|slot| counts.add(slot, pieces_touch));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_take_long_is_not_looked_at() {
        let file = |span_bytes| MapReport { first_address: 1 << 44, span_bytes, ..MapReport::default() };
        for bytes in [(8 << 30) + 1, 512 << 40] {
            let reason = count(&[file(bytes)], 1, PageSize::Any).expect_err("too many slots");
            assert!(reason.contains("at most 4096"), "{reason}");
        }
        let reason = count(&[file((4 << 30) + 1)], 1, PageSize::Huge2M).expect_err("too many slots with reasons");
        assert!(reason.contains("2049 slots of 2 MiB, at most 2048"), "{reason}");
        let reason =
            count(&[file(4096), file(4096), file(4096)], 30_000, PageSize::Any).expect_err("too many mappings");
        assert!(reason.contains("30000 mappings in 3 files"), "{reason}");
        assert_eq!(count(&[file(8 << 30)], 1, PageSize::Any).map(|counts| counts.total()), Ok(0), "unmapped");
    }

    #[test]
    fn slots_are_counted_once_each() {
        let slot = |held| Slot { address: 0, bytes: HUGE_2M_BYTES, mapped_bytes: HUGE_2M_BYTES, held, reason: None };
        let mut counts = SlotCounts { asked: "2M".to_owned(), ..SlotCounts::default() };
        let nothing = Held::default();
        for held in [
            None,
            Some(nothing),
            Some(Held { base_bytes: 4096, swapped_bytes: 4096, ..nothing }),
            Some(Held { base_bytes: 4096, huge_2m_bytes: 4096, ..nothing }),
            Some(Held { huge_2m_bytes: 2 << 20, ..nothing }),
            Some(Held { huge_1g_bytes: 2 << 20, ..nothing }),
            Some(Held { swapped_bytes: 2 << 20, ..nothing }),
        ] {
            counts.add(&slot(held), true);
        }
        let SlotCounts { base, huge_2m, huge_1g, mixed, swapped, not_touched, not_told, .. } = counts;
        assert_eq!([base, huge_2m, huge_1g, mixed, swapped, not_touched, not_told], [1; 7]);
        counts.less_than_asked.insert("not_aligned".to_owned(), 2);
        let cut = Slot { reason: Some(Reason::SplitByUnmap), ..slot(Some(nothing)) };
        counts.add(&cut, true);
        counts.add(&cut, false);
        assert!(["split_by_unmap", "leaves_mapping"].iter().all(|word| counts.less_than_asked.get(*word) == Some(&1)));
        let mut sum = SlotCounts { asked: "any".to_owned(), base: 5, ..SlotCounts::default() };
        sum.merge(&counts);
        assert_eq!(
            (sum.total(), sum.asked.as_str(), sum.less_than_asked.get("not_aligned")),
            (14, "several", Some(&2))
        );
    }
}
