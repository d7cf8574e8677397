//! The slots of a range, 2 MiB at a multiple of 2 MiB each: what the page tables hold for them, and why it is less than asked.

use std::fmt;
use std::fs::File;
use std::path::Path;

use crate::context::Context;
use crate::error::ResidencyError;
use crate::frames::Frames;
use crate::maps::{self, Vma};
use crate::page_size::{HUGE_1G_BYTES, PageSize, SLOT, base_page_bytes};
use crate::pagemap::{self, IS_GUARD, IS_HUGE, IS_PRESENT, IS_SWAPPED, IS_ZERO_PAGE, NoScan, Region};
use crate::reason::Reason;
use crate::thp::{Counters, Settings};

/// Where the page sizes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The page tables, by PAGEMAP_SCAN.
    PagemapScan,
    /// Presence from `/proc/self/pagemap`, sizes from the sums in smaps, because PAGEMAP_SCAN cannot be had. Where a mapping holds
    /// both sizes its slots say nothing.
    Smaps {
        /// Why there is no better source.
        why: String,
    },
}

/// Bytes of one slot by the size of the pages that map them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// In base pages; also huge pages of other sizes (64 KiB and the like), which are entered as base pages.
    pub base_bytes: u64,
    /// In 2 MiB pages.
    pub huge_2m_bytes: u64,
    /// In 1 GiB pages.
    pub huge_1g_bytes: u64,
    /// Swapped out.
    pub swapped_bytes: u64,
    /// Read and never written: the kernel's page of zeros stands there, which is no memory of the process.
    pub zero_page_bytes: u64,
}

impl Held {
    /// Bytes that are in memory and mapped.
    pub fn present_bytes(&self) -> u64 {
        self.base_bytes + self.huge_2m_bytes + self.huge_1g_bytes
    }
}

/// What lies in one slot: 2 MiB at a multiple of 2 MiB, or the part of it that the range covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Address of the first byte.
    pub address: usize,
    /// Length; less than 2 MiB only at the ends of the range.
    pub bytes: usize,
    /// Bytes of it that a mapping covers, whether pages are there or not; 0 in a gap between mappings.
    pub mapped_bytes: usize,
    /// The pages; `None` if they are unknown, with the reason in `reason`.
    pub held: Option<Held>,
    /// Why it is less than was asked for; `None` if it is not.
    pub reason: Option<Reason>,
}

impl Slot {
    /// The size of page that maps all present memory; `None` if nothing is present, if sizes are mixed, or if unknown.
    pub fn page_size(&self) -> Option<PageSize> {
        match self.held? {
            Held { base_bytes: 1.., huge_2m_bytes: 0, huge_1g_bytes: 0, .. } => Some(PageSize::Base),
            Held { base_bytes: 0, huge_2m_bytes: 1.., huge_1g_bytes: 0, .. } => Some(PageSize::Huge2M),
            Held { base_bytes: 0, huge_2m_bytes: 0, huge_1g_bytes: 1.., .. } => Some(PageSize::Huge1G),
            _ => None,
        }
    }
}

/// What the kernel gave a range of addresses. Another thread may change it at any moment; this is how it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// Address of the first byte.
    pub address: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// The page size that was asked for.
    pub asked: PageSize,
    /// Where this comes from.
    pub source: Source,
    /// The slots in order of address.
    pub slots: Vec<Slot>,
}

impl Got {
    /// The sums over all slots; `None` if a slot is unknown.
    pub fn total(&self) -> Option<Held> {
        self.slots.iter().try_fold(Held::default(), |sum, slot| {
            let held = slot.held?;
            Some(Held {
                base_bytes: sum.base_bytes + held.base_bytes,
                huge_2m_bytes: sum.huge_2m_bytes + held.huge_2m_bytes,
                huge_1g_bytes: sum.huge_1g_bytes + held.huge_1g_bytes,
                swapped_bytes: sum.swapped_bytes + held.swapped_bytes,
                zero_page_bytes: sum.zero_page_bytes + held.zero_page_bytes,
            })
        })
    }

    /// Whether every slot has the page size requested.
    pub fn as_asked(&self) -> bool {
        self.slots.iter().all(|slot| slot.held.is_some() && slot.reason.is_none())
    }
}

impl fmt::Display for Got {
    /// One line for each run of slots that are alike.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut slots = self.slots.iter().peekable();
        while let Some(first) = slots.next() {
            let alike = |slot: &&Slot| slot.page_size() == first.page_size() && slot.reason == first.reason;
            let mut end = first.address + first.bytes;
            let mut count = 1;
            while let Some(slot) = slots.next_if(alike) {
                end = slot.address + slot.bytes;
                count += 1;
            }
            let size = first.page_size().map_or("none or mixed", PageSize::word);
            write!(f, "{:#x}-{end:#x} {count} slots: asked {}, got {size}", first.address, self.asked.word())?;
            match &first.reason {
                Some(reason) => writeln!(f, " ({})", WithCommand(reason))?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// A reason in words, and the command that mends it.
struct WithCommand<'a>(&'a Reason);

impl fmt::Display for WithCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.fix() {
            Some(command) => write!(f, "{}; type: {command}", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The past of a map, as far as its maker knows it.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// Counters when it was made.
    pub counters: Option<Counters>,
    /// Why the pool was left for ordinary memory, if it was.
    pub pool: Option<String>,
    /// The range inspected was mapped as a whole, or is all that was asked about: its neighbours are no part of it.
    pub is_range_known: bool,
}

/// What the kernel gave for `bytes` at `address` of this process, whoever mapped them: memory of an allocator, another library's
/// map. `asked` decides what counts as less. [`inspect_with`] knows more reasons, of maps whose past is known.
///
/// # Errors
/// An empty range, or files of `/proc/self` that cannot be read.
pub fn inspect(address: usize, bytes: usize, asked: PageSize) -> Result<Got, ResidencyError> {
    inspect_with(address, bytes, asked, &Past { is_range_known: true, ..Past::default() })
}

/// As [`inspect`], with what is known of the map's past.
///
/// # Errors
/// As of [`inspect`].
pub fn inspect_with(address: usize, bytes: usize, asked: PageSize, past: &Past) -> Result<Got, ResidencyError> {
    look(Path::new("/"), address, bytes, asked, past, true)
}

/// `may_scan` is false to test the way without PAGEMAP_SCAN.
fn look(
    root: &Path,
    address: usize,
    bytes: usize,
    asked: PageSize,
    past: &Past,
    may_scan: bool,
) -> Result<Got, ResidencyError> {
    let page = base_page_bytes();
    let start = address & !(page - 1);
    let end = address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(page));
    let Some(end) = end.filter(|_| bytes > 0) else { return Err(ResidencyError::Length { found_bytes: bytes }) };
    let (start, end) = (start as u64, end as u64);
    let folder = root.join("proc/self");
    let pagemap = open_pagemap(&folder)?;
    let vmas = maps::read(&folder, start & !(SLOT - 1), end.next_multiple_of(SLOT))?;
    let settings = Settings::read(root, &folder);
    let whole = Whole { root, pagemap: &pagemap, vmas: &vmas, settings: &settings, frames: Frames::open(root), past };
    whole.look(start, end, asked, may_scan)
}

pub(crate) fn open_pagemap(folder: &Path) -> Result<File, ResidencyError> {
    let path = folder.join("pagemap");
    File::open(&path).map_err(|error| ResidencyError::unreadable(&path, &error))
}

/// What all looks at one process share.
pub(crate) struct Whole<'a> {
    pub(crate) root: &'a Path,
    pub(crate) pagemap: &'a File,
    /// All mappings that touch the slots looked at, in order of address.
    pub(crate) vmas: &'a [Vma],
    pub(crate) settings: &'a Settings,
    pub(crate) frames: Option<Frames>,
    pub(crate) past: &'a Past,
}

impl Whole<'_> {
    /// Looks at `[start, end)`, whole pages.
    pub(crate) fn look(&self, start: u64, end: u64, asked: PageSize, may_scan: bool) -> Result<Got, ResidencyError> {
        let (regions, source) = regions(self.pagemap, start, end, may_scan)?;
        Ok(self.judge(start, end, asked, &regions, source))
    }

    /// For each slot of `[start, end)`, which holds `regions`: its pages, and why they are not larger.
    pub(crate) fn judge(&self, start: u64, end: u64, asked: PageSize, regions: &[Region], source: Source) -> Got {
        let vmas = touching(self.vmas, start & !(SLOT - 1), end.next_multiple_of(SLOT));
        let mut slots = divided(start, end);
        let sizes: Vec<PageBytes> = vmas.iter().map(|vma| PageBytes::of(vma, regions, &source)).collect();
        for slot in &mut slots {
            slot.mapped_bytes = mapped_bytes(slot, vmas);
            slot.held = held(slot, regions, vmas, &sizes);
        }
        let context = Context::new(self, vmas, (start, end), asked);
        for slot in &mut slots {
            slot.reason = match slot.held {
                Some(_) => context.why(slot, regions),
                None => Some(Reason::Unknown {
                    why: "a mapping holds pages of both sizes, and only their sums are known".into(),
                }),
            };
        }
        Got { address: start as usize, bytes: (end - start) as usize, asked, source, slots }
    }
}

/// The mappings that touch `[low, high)`.
pub(crate) fn touching(vmas: &[Vma], low: u64, high: u64) -> &[Vma] {
    let after = vmas.get(vmas.partition_point(|vma| vma.end <= low)..).unwrap_or_default();
    after.get(..after.partition_point(|vma| vma.start < high)).unwrap_or_default()
}

fn regions(pagemap: &File, start: u64, end: u64, may_scan: bool) -> Result<(Vec<Region>, Source), ResidencyError> {
    let why = match if may_scan { pagemap::scan(pagemap, start, end) } else { Err(NoScan::Missing) } {
        Ok(regions) => return Ok((regions, Source::PagemapScan)),
        Err(NoScan::Failed(error)) => return Err(error),
        Err(NoScan::Missing) => "PAGEMAP_SCAN: this kernel has no such request (Linux 6.7 and later do)".to_owned(),
    };
    let entries = pagemap::entries(pagemap, start, end)?;
    Ok((pagemap::regions_of(&entries, start), Source::Smaps { why }))
}

/// The slots of a range, with nothing known yet.
fn divided(start: u64, end: u64) -> Vec<Slot> {
    let mut slots = Vec::with_capacity(((end - start) / SLOT + 2) as usize);
    let mut from = start;
    while from < end {
        let to = (from & !(SLOT - 1)).saturating_add(SLOT).min(end);
        slots.push(Slot {
            address: from as usize,
            bytes: (to - from) as usize,
            mapped_bytes: 0,
            held: None,
            reason: None,
        });
        from = to;
    }
    slots
}

/// The parts of sorted `regions` that lie in the slot: bytes and categories.
pub(crate) fn parts<'a>(slot: &Slot, regions: &'a [Region]) -> impl Iterator<Item = (u64, u64, u64)> + 'a {
    let (low, high) = (slot.address as u64, (slot.address + slot.bytes) as u64);
    let first = regions.partition_point(|region| region.end <= low);
    let after = regions.get(first..).unwrap_or_default();
    after
        .iter()
        .take_while(move |region| region.start < high)
        .map(move |region| (region.start.max(low), region.end.min(high), region.categories))
}

/// How much of the slot lies in `vmas`, which are in order of address.
fn mapped_bytes(slot: &Slot, vmas: &[Vma]) -> usize {
    let (low, high) = (slot.address as u64, (slot.address + slot.bytes) as u64);
    let first = vmas.partition_point(|vma| vma.end <= low);
    let after = vmas.get(first..).unwrap_or_default().iter().take_while(|vma| vma.start < high);
    after.map(|vma| (vma.end.min(high) - vma.start.max(low)) as usize).sum()
}

/// `sizes` are those of `vmas`.
pub(crate) fn held(slot: &Slot, regions: &[Region], vmas: &[Vma], sizes: &[PageBytes]) -> Option<Held> {
    let mut sum = Held::default();
    for (from, to, categories) in parts(slot, regions) {
        if categories & IS_PRESENT == 0 {
            sum.swapped_bytes += if categories & (IS_SWAPPED | IS_GUARD) == IS_SWAPPED { to - from } else { 0 };
            continue;
        }
        if categories & IS_ZERO_PAGE != 0 {
            sum.zero_page_bytes += to - from;
            continue;
        }
        // A region of alike pages may go through several mappings.
        let first = vmas.partition_point(|vma| vma.end <= from);
        let known = vmas.iter().zip(sizes).skip(first);
        for (vma, size) in known.take_while(|(vma, _)| vma.start < to) {
            let bytes = to.min(vma.end) - from.max(vma.start);
            match size.of_region(categories)? {
                size if size >= HUGE_1G_BYTES as u64 => sum.huge_1g_bytes += bytes,
                SLOT => sum.huge_2m_bytes += bytes,
                _ => sum.base_bytes += bytes,
            }
        }
    }
    Some(sum)
}

/// The size of the pages that are present in a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageBytes {
    /// All of this size; 0 for base pages.
    All(u64),
    /// As the page tables say, region by region.
    ByRegion,
    /// Both sizes, and only sums are known.
    Mixed,
}

impl PageBytes {
    pub(crate) fn of(vma: &Vma, regions: &[Region], source: &Source) -> Self {
        // A hugetlb pool, or a character device of direct access: such mappings have no other pages.
        if vma.is_hugetlb() || vma.kernel_page_bytes >= SLOT {
            return Self::All(vma.kernel_page_bytes);
        }
        if let Source::PagemapScan = source {
            return Self::ByRegion;
        }
        match vma.huge_bytes() {
            0 => Self::of_direct_access(vma, regions),
            huge if huge >= vma.resident_bytes => Self::All(SLOT),
            _ => Self::Mixed,
        }
    }

    /// Sums in smaps miss huge entries of DAX files: each counts as one resident base page, and small entries not at
    /// all (smaps_pmd_entry and vm_normal_page of Linux 6.1). The rest is present in the page tables but not resident;
    /// for other files the two are alike. That holds for whole mappings: nothing is concluded for one that reaches
    /// beyond `regions`.
    fn of_direct_access(vma: &Vma, regions: &[Region]) -> Self {
        if !vma.is_file() || vma.resident_bytes == 0 {
            return Self::All(0);
        }
        let first = regions.partition_point(|region| region.end <= vma.start);
        let inside = regions.iter().skip(first).take_while(|region| region.start < vma.end);
        let present: u64 = inside
            .filter(|region| region.categories & IS_PRESENT != 0)
            .map(|region| region.end.min(vma.end) - region.start.max(vma.start))
            .sum();
        if present <= vma.resident_bytes {
            return Self::All(0);
        }
        if present == vma.resident_bytes.saturating_mul(SLOT / base_page_bytes() as u64) {
            return Self::All(SLOT);
        }
        Self::Mixed
    }

    /// For a region that is present; `None` where it is not known.
    fn of_region(self, categories: u64) -> Option<u64> {
        match self {
            Self::All(bytes) => Some(bytes),
            Self::ByRegion => Some(if categories & IS_HUGE != 0 { SLOT } else { 0 }),
            Self::Mixed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_size::HUGE_2M_BYTES;
    use crate::testing::Memory;

    /// Where no mapping holds pages of both sizes, the way without PAGEMAP_SCAN tells the same.
    #[test]
    fn both_ways_tell_the_same() {
        for (page_size, advice) in [(PageSize::Base, libc::MADV_NOHUGEPAGE), (PageSize::Huge2M, libc::MADV_HUGEPAGE)] {
            let memory = Memory::new(3);
            assert!(memory.advise(0, 3 * HUGE_2M_BYTES, advice));
            assert!(memory.advise(0, HUGE_2M_BYTES, libc::MADV_POPULATE_WRITE));
            let look_at = |may_scan| {
                let (at, bytes) = (memory.address, 3 * HUGE_2M_BYTES);
                look(Path::new("/"), at, bytes, page_size, &Past::default(), may_scan).expect("look")
            };
            let (scanned, summed) = (look_at(true), look_at(false));
            assert!(matches!(&summed.source, Source::Smaps { why } if why.contains("6.7")));
            assert_eq!(scanned.slots, summed.slots);
            assert_eq!(scanned.total().map(|held| held.present_bytes()), Some(SLOT));
        }
    }

    /// A mapping with both: unknown sizes are not reported.
    #[test]
    fn a_mixed_mapping_is_unknown_without_the_page_tables() {
        let huge = Vma { anonymous_huge_bytes: SLOT, resident_bytes: SLOT + 4096, end: 4 * SLOT, ..Vma::default() };
        let region = Region { start: 0, end: SLOT, categories: IS_PRESENT };
        let slot = Slot { address: 0, bytes: HUGE_2M_BYTES, mapped_bytes: 0, held: None, reason: None };
        let source = Source::Smaps { why: String::new() };
        let held_in = |vma: &Vma| {
            let sizes = [PageBytes::of(vma, &[region], &source)];
            held(&slot, &[region], std::slice::from_ref(vma), &sizes)
        };
        assert_eq!(held_in(&huge), None);
        let all = Vma { resident_bytes: SLOT, ..huge };
        let known = held_in(&all).expect("known");
        assert_eq!((known.huge_2m_bytes, known.base_bytes), (SLOT, 0));
    }

    /// What Linux 6.1 showed of 32 huge entries of a file on ext4 with `-o dax`, and of a device of direct access.
    #[test]
    fn direct_access_is_told_from_what_is_not_resident() {
        let source = Source::Smaps { why: String::new() };
        let region = Region { start: 0, end: 32 * SLOT, categories: IS_PRESENT };
        let of = |vma: &Vma| PageBytes::of(vma, &[region], &source);
        let base = base_page_bytes() as u64;
        let file = Vma { end: 32 * SLOT, inode: 12, kernel_page_bytes: base, ..Vma::default() };
        assert_eq!(of(&Vma { resident_bytes: 32 * base, ..file.clone() }), PageBytes::All(SLOT));
        assert_eq!(
            of(&Vma { resident_bytes: 31 * base, ..file.clone() }),
            PageBytes::Mixed,
            "one slot has small entries"
        );
        assert_eq!(of(&Vma { resident_bytes: 0, ..file.clone() }), PageBytes::All(0), "all have");
        assert_eq!(
            of(&Vma { resident_bytes: 32 * SLOT, ..file.clone() }),
            PageBytes::All(0),
            "a file in the page cache"
        );
        assert_eq!(
            of(&Vma { resident_bytes: 32 * base, inode: 0, ..file.clone() }),
            PageBytes::All(0),
            "zeros are entered"
        );
        assert_eq!(of(&Vma { resident_bytes: 32 * SLOT, kernel_page_bytes: SLOT, ..file }), PageBytes::All(SLOT));
    }

    #[test]
    fn slots_lie_at_multiples_of_2_mib() {
        let slots = divided(SLOT - 4096, 3 * SLOT + 8192);
        let found: Vec<(usize, usize)> = slots.iter().map(|slot| (slot.address, slot.bytes)).collect();
        let slot = HUGE_2M_BYTES;
        assert_eq!(found, [(slot - 4096, 4096), (slot, slot), (2 * slot, slot), (3 * slot, 8192)]);
    }

    #[test]
    fn gaps_between_mappings_are_told() {
        let vma = |start, end| Vma { start, end, ..Vma::default() };
        let vmas = [vma(0, 4096), vma(8192, SLOT + 4096), vma(3 * SLOT, 4 * SLOT)];
        let mapped: Vec<usize> = divided(4096, 4 * SLOT).iter().map(|slot| mapped_bytes(slot, &vmas)).collect();
        assert_eq!(mapped, [HUGE_2M_BYTES - 8192, 4096, 0, HUGE_2M_BYTES]);
    }

    #[test]
    fn memory_of_others_can_be_looked_at() {
        let memory = vec![1_u8; 10 * HUGE_2M_BYTES];
        let got = inspect(memory.as_ptr() as usize, memory.len(), PageSize::Any).expect("look");
        let present = got.total().expect("told").present_bytes();
        assert!(present >= memory.len() as u64, "{got}");
        assert!(inspect(0, 0, PageSize::Any).is_err() && inspect(usize::MAX, 5, PageSize::Any).is_err());
        assert!(inspect(usize::MAX - (1 << 40), 1 << 21, PageSize::Any).is_ok_and(|got| got.total().is_some()));
    }
}
