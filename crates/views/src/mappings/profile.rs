//! What the mappings and faults of one run come to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::class::ClassKey;

/// Distinct pages faulted in a slot up to which it looks like one huge page: one fault for it, a few more when several
/// threads fault in it at once. For a slot of `pages` base pages, 1/64, at least 2.
pub const fn few_pages(pages: u64) -> u64 {
    if pages / 64 > 2 { pages / 64 } else { 2 }
}

/// Distinct pages faulted in a slot from which it was surely filled page by page and used densely: 1/8 of it.
pub const fn many_pages(pages: u64) -> u64 {
    if pages >= 32 { pages / 8 } else { 4 }
}

/// Slots (aligned pieces of the huge page size) by how many of their base pages took a fault of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SlotStats {
    /// Slots in which at least one fault found no page.
    pub touched: u64,
    /// Of those, with at most [`few_pages`]: a huge page, or hardly used.
    pub few: u64,
    /// Of those, with at least [`many_pages`]: filled page by page.
    pub many: u64,
    /// Faults that found no page, in all of them.
    pub faults: u64,
    /// Of those, the ones in the measurement window.
    pub window_faults: u64,
    /// Of `window_faults`, the ones in slots with many.
    pub window_faults_in_many: u64,
    /// Number of slots by distinct pages faulted: 1, 2, 3-4, 5-8, ... (index = ceil(log2)).
    pub by_pages: [u64; 17],
}

impl SlotStats {
    pub(super) fn add(&mut self, slot: &SlotSummary, pages_per_slot: u64) {
        let pages = u64::from(slot.pages);
        if pages == 0 {
            return;
        }
        self.touched += 1;
        self.few += u64::from(pages <= few_pages(pages_per_slot));
        self.faults += slot.faults;
        self.window_faults += slot.window_faults;
        if pages >= many_pages(pages_per_slot) {
            self.many += 1;
            self.window_faults_in_many += slot.window_faults;
        }
        let bucket = pages.next_power_of_two().ilog2() as usize;
        if let Some(count) = self.by_pages.get_mut(bucket.min(16)) {
            *count += 1;
        }
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        self.touched += other.touched;
        self.few += other.few;
        self.many += other.many;
        self.faults += other.faults;
        self.window_faults += other.window_faults;
        self.window_faults_in_many += other.window_faults_in_many;
        for (mine, theirs) in self.by_pages.iter_mut().zip(other.by_pages) {
            *mine += theirs;
        }
    }
}

/// One slot's counts when it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotSummary {
    pub pages: u32,
    pub faults: u64,
    pub window_faults: u64,
}

/// In which order the addresses of a mapping were faulted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Order {
    /// Faults at most [`Order::NEAR_PAGES`] above the previous one of the same mapping.
    pub ascending: u64,
    /// At most as far below it.
    pub descending: u64,
    /// Anywhere else, or in the same page.
    pub other: u64,
    /// The most frequent distance between successive faults, in pages; negative is downwards. Null without pairs.
    pub step_pages: Option<i64>,
}

impl Order {
    /// Farther steps are not counted as walking.
    pub(crate) const NEAR_PAGES: i64 = 16;

    /// The order in a word, if at least 80 % of the steps agree.
    pub fn word(&self) -> Option<&'static str> {
        let all = self.ascending + self.descending + self.other;
        if all == 0 {
            return None;
        }
        let most = |count: u64| count as f64 >= 0.8 * all as f64;
        if most(self.ascending) {
            Some("ascending")
        } else if most(self.descending) {
            Some("descending")
        } else if most(self.other) {
            Some("scattered")
        } else {
            Some("mixed")
        }
    }
}

/// The mapping of a class that took most faults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// Address space.
    pub mm_id: u32,
    /// Its number in the recording; null if the recorder gave none.
    pub mapping_id: Option<u32>,
    /// Start.
    pub start: u64,
    /// Length when it was made.
    pub len: u64,
    /// When it was made.
    pub mapped_ts: i64,
    /// When it went; null if it was there at the end.
    pub ended_ts: Option<i64>,
    /// Faults on it.
    pub faults: u64,
}

/// One class of mappings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassProfile {
    /// Their common key.
    pub key: ClassKey,
    /// Mappings made.
    pub mappings: u64,
    /// Bytes mapped, each mapping at its length when made.
    pub bytes: u64,
    /// Mappings that were there before recording began or were inherited: earlier touches are not known, so their slots
    /// are in neither `whole` nor `partial`.
    pub prior: u64,
    /// Mappings for which the program asked for an address.
    pub address_asked: u64,
    /// Mappings made by a program whose request for hugetlb memory of that length had just been refused.
    pub after_refusal: u64,
    /// Whole aligned slots that making these mappings brought about, neighbours that merged included.
    pub eligible_slots: u64,
    /// Slots they would hold if each began at a slot's start.
    pub slots_if_aligned: u64,
    /// Start modulo the slot size (for files: start less file offset), of mappings at least a slot long; the 15 most
    /// frequent values.
    pub misalignment: BTreeMap<u64, u64>,
    /// Mappings with other values.
    pub misalignment_others: u64,
    /// Faults that found no page.
    pub faults: u64,
    /// Of those, in the measurement window.
    pub window_faults: u64,
    /// Faults on a page that was there (copy on write, the page of zeros, protection).
    pub protection_faults: u64,
    /// Order of the faults that found no page.
    pub order: Order,
    /// Slots that lay whole in one memory area when they were first touched: a huge page was possible.
    pub whole: SlotStats,
    /// Slots that did not: no huge page could be put there.
    pub partial: SlotStats,
    /// Failed calls that would have made such a mapping, by errno.
    pub failed: BTreeMap<i32, u64>,
    /// The mapping with most faults.
    pub example: Option<Example>,
}

impl ClassProfile {
    pub(super) fn new(key: ClassKey) -> Self {
        Self {
            key,
            mappings: 0,
            bytes: 0,
            prior: 0,
            address_asked: 0,
            after_refusal: 0,
            eligible_slots: 0,
            slots_if_aligned: 0,
            misalignment: BTreeMap::new(),
            misalignment_others: 0,
            faults: 0,
            window_faults: 0,
            protection_faults: 0,
            order: Order::default(),
            whole: SlotStats::default(),
            partial: SlotStats::default(),
            failed: BTreeMap::new(),
            example: None,
        }
    }

    /// Faults for each mapping made; null without mappings.
    pub fn faults_per_mapping(&self) -> Option<f64> {
        (self.mappings > 0).then(|| self.faults as f64 / self.mappings as f64)
    }

    /// Share of mappings at least a slot long that begin at a slot's start; null without such mappings.
    pub fn aligned_share(&self) -> Option<f64> {
        let all = self.misalignment.values().sum::<u64>() + self.misalignment_others;
        let aligned = self.misalignment.get(&0).copied().unwrap_or(0);
        (all > 0).then(|| aligned as f64 / all as f64)
    }

    /// The most frequent start modulo the slot size that is not 0, with the number of mappings.
    pub fn usual_misalignment(&self) -> Option<(u64, u64)> {
        self.misalignment.iter().filter(|(at, _)| **at != 0).map(|(at, n)| (*at, *n)).max_by_key(|(_, n)| *n)
    }
}

/// A request for hugetlb memory that the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedHugetlb {
    /// Huge page size asked for; null: the default size.
    pub page_bytes: Option<u64>,
    /// Errno.
    pub errno: i32,
    /// Requests.
    pub count: u64,
    /// Bytes asked for in all of them.
    pub bytes: u64,
    /// The smallest and the largest request.
    pub smallest_bytes: u64,
    /// See `smallest_bytes`.
    pub largest_bytes: u64,
    /// The first and the last.
    pub first_ts: i64,
    /// See `first_ts`.
    pub last_ts: i64,
    /// Name of the thread that asked first.
    pub comm: Option<String>,
}

/// Mappings and faults of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MappingProfile {
    /// The slot size: what a huge page covers.
    pub huge_bytes: u64,
    /// The base page size.
    pub page_bytes: u64,
    /// Classes, most faults first.
    pub classes: Vec<ClassProfile>,
    /// All faults seen, with and without a mapping.
    pub faults: u64,
    /// Of those, in the measurement window.
    pub window_faults: u64,
    /// Faults on no mapping known.
    pub unattributed: u64,
    /// Requests for hugetlb memory refused, by page size and errno.
    pub refused_hugetlb: Vec<RefusedHugetlb>,
    /// Classes beyond the limit that were merged under a key without path and thread.
    pub classes_folded: u64,
}

impl MappingProfile {
    /// Base pages in a slot.
    pub fn pages_per_slot(&self) -> u64 {
        self.huge_bytes.checked_div(self.page_bytes).unwrap_or(0).max(1)
    }

    /// Whole slots of all classes that `of` picks.
    pub fn whole_slots(&self, mut of: impl FnMut(&ClassProfile) -> bool) -> SlotStats {
        let mut sum = SlotStats::default();
        self.classes.iter().filter(|class| of(class)).for_each(|class| sum.merge(&class.whole));
        sum
    }

    /// The class with that key.
    pub fn class(&self, key: &ClassKey) -> Option<&ClassProfile> {
        self.classes.iter().find(|class| class.key == *key)
    }
}
