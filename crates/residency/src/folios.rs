//! The folios behind base-page entries: the kernel may take memory in blocks between 4 KiB and 2 MiB (multi-size THP), which page
//! tables show as base pages. Only `/proc/kpageflags` tells (the kernel's Documentation/admin-guide/mm/pagemap.rst).

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use crate::frames::{FLAG_HEAD, FLAG_TAIL, FLAG_ZERO_PAGE};
use crate::page_size::SLOT;
use crate::page_size::base_page_bytes;
use crate::pagemap::{self, ENTRY_FRAME, ENTRY_PRESENT, IS_HUGE, IS_PRESENT, IS_ZERO_PAGE, Region};
use crate::process::{Told, as_root};

/// Flags read at once, and the most pages that a folio has here: 1 GiB in base pages has no entries of base pages.
const WINDOW: u64 = 512;
const LARGEST_ORDER: u32 = 18;

/// Bytes of a mapping, entered as base pages, that lie in folios of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolioBytes {
    /// Size of the folio.
    pub folio_bytes: u64,
    /// Bytes of the mapping in folios of this size. A folio may be mapped in part.
    pub bytes: u64,
}

/// `/proc/kpageflags`, and the part of it that was read last.
pub(crate) struct Folios {
    flags: File,
    first: u64,
    window: Vec<u64>,
    /// First frame and length of the folio found last: its other frames need no look.
    last: (u64, u64),
    /// The command that shows what is hidden.
    as_root: String,
}

impl Folios {
    /// Opens it below `root`, for the process whose folder is `folder`.
    pub(crate) fn open(root: &Path, folder: &Path) -> Told<Self> {
        let as_root = as_root(folder);
        let flags = File::open(root.join("proc/kpageflags"));
        let flags = flags.map_err(|error| format!("/proc/kpageflags: {error}; {as_root}"))?;
        Ok(Self { flags, first: 0, window: Vec::new(), last: (0, 0), as_root })
    }

    /// Marks the huge pages of zeros among the huge pages of `regions`. Kernels before 6.17 do not: PAGEMAP_SCAN knows the small
    /// page of zeros only.
    pub(crate) fn mark_zero_pages(&mut self, pagemap: &File, regions: &[Region]) -> Told<Vec<Region>> {
        let mut marked: Vec<Region> = Vec::with_capacity(regions.len());
        for region in regions {
            let is_huge = region.categories & (IS_PRESENT | IS_HUGE | IS_ZERO_PAGE) == IS_PRESENT | IS_HUGE;
            let mut from = region.start;
            while from < region.end {
                let slot_end = (from & !(SLOT - 1)) + SLOT;
                let to = if is_huge { slot_end.min(region.end) } else { region.end };
                let mut categories = region.categories;
                if is_huge {
                    let entries = pagemap::entries(pagemap, from, from + base_page_bytes() as u64);
                    let frame =
                        entries.map_err(|error| error.to_string())?.first().map_or(0, |entry| entry & ENTRY_FRAME);
                    if frame != 0 && self.flags_of(frame, 1)? & FLAG_ZERO_PAGE != 0 {
                        categories |= IS_ZERO_PAGE;
                    }
                }
                match marked.last_mut().filter(|last| last.end == from && last.categories == categories) {
                    Some(last) => last.end = to,
                    None => marked.push(Region { start: from, end: to, categories }),
                }
                from = to;
            }
        }
        Ok(marked)
    }

    /// Bytes by size of folio of what `regions` have in base pages, the smallest size first. Gives up at `end`.
    pub(crate) fn of(&mut self, pagemap: &File, regions: &[Region], end: Instant) -> Told<Vec<FolioBytes>> {
        let page = base_page_bytes() as u64;
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        let base = |region: &&Region| region.categories & (IS_PRESENT | IS_HUGE | IS_ZERO_PAGE) == IS_PRESENT;
        for region in regions.iter().filter(base) {
            let mut from = region.start;
            while from < region.end {
                if Instant::now() >= end {
                    return Err("too much memory in small pages to look at every frame in the time".to_owned());
                }
                let to = (from + WINDOW * page).min(region.end);
                let entries = pagemap::entries(pagemap, from, to).map_err(|error| error.to_string())?;
                self.count(&entries, page, &mut found)?;
                from = to;
            }
        }
        Ok(found.into_iter().map(|(folio_bytes, bytes)| FolioBytes { folio_bytes, bytes }).collect())
    }

    fn count(&mut self, entries: &[u64], page: u64, found: &mut BTreeMap<u64, u64>) -> Told<()> {
        let frames: Vec<u64> =
            entries.iter().filter(|entry| *entry & ENTRY_PRESENT != 0).map(|entry| entry & ENTRY_FRAME).collect();
        for (index, frame) in frames.iter().enumerate() {
            if *frame == 0 {
                return Err(format!("frame numbers are hidden without CAP_SYS_ADMIN; {}", self.as_root));
            }
            let rest = frames.get(index..).unwrap_or_default();
            let ahead = rest.windows(2).take_while(|pair| matches!(pair, [a, b] if a.wrapping_add(1) == *b)).count();
            let pages = self.folio_pages(*frame, ahead as u64 + 1)?;
            *found.entry(pages * page).or_default() += page;
        }
        Ok(())
    }

    /// Pages of the folio that `frame` belongs to. Folios lie at multiples of their size, and their size is a power of two.
    fn folio_pages(&mut self, frame: u64, ahead: u64) -> Told<u64> {
        if (self.last.0..self.last.0 + self.last.1).contains(&frame) {
            return Ok(self.last.1);
        }
        let flags = self.flags_of(frame, ahead)?;
        if flags & (FLAG_HEAD | FLAG_TAIL) == 0 {
            return Ok(1);
        }
        let mut head = frame;
        for order in 1..=LARGEST_ORDER {
            if flags & FLAG_HEAD != 0 || self.flags_of(head, 1)? & FLAG_HEAD != 0 {
                break;
            }
            head = frame & !((1 << order) - 1);
        }
        let mut pages = 1;
        // The frame at twice the length found so far is a tail as long as the folio goes on.
        while pages < 1 << LARGEST_ORDER && self.flags_of(head + pages, 1)? & FLAG_TAIL != 0 {
            pages *= 2;
        }
        self.last = (head, pages);
        Ok(pages)
    }

    /// The flags of a frame; `ahead` frames from it on will be asked for.
    fn flags_of(&mut self, frame: u64, ahead: u64) -> Told<u64> {
        let known = frame.checked_sub(self.first).and_then(|at| self.window.get(at as usize));
        if let Some(flags) = known {
            return Ok(*flags);
        }
        let mut bytes = vec![0_u8; (ahead.clamp(1, WINDOW) * 8) as usize];
        let read = self.flags.read_at(&mut bytes, frame * 8);
        let read = read.map_err(|error| format!("/proc/kpageflags: {error}"))?;
        let words = bytes.get(..read).unwrap_or_default().chunks_exact(8);
        self.window = words.map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default())).collect();
        self.first = frame;
        // Behind the last frame there is nothing: no part of a folio.
        Ok(self.window.first().copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use pagelab_testing::skipped;

    use super::*;
    use crate::page_size::HUGE_2M_BYTES;
    use crate::testing::Memory;

    /// Where this kernel marks the huge page of zeros itself, its mark is taken away and found again from the frames.
    #[test]
    fn huge_pages_of_zeros_are_told_from_others_by_their_frames() {
        let memory = Memory::advised(4);
        memory.read(HUGE_2M_BYTES);
        memory.touch(2 * HUGE_2M_BYTES);
        let pagemap = File::open("/proc/self/pagemap").expect("its own");
        let start = memory.address as u64;
        let Ok(regions) = pagemap::scan(&pagemap, start, start + 4 * SLOT) else {
            return skipped("this kernel has no PAGEMAP_SCAN");
        };
        let unmarked: Vec<Region> =
            regions.iter().map(|region| Region { categories: region.categories & !IS_ZERO_PAGE, ..*region }).collect();
        let huge: u64 =
            unmarked.iter().filter(|one| one.categories & IS_HUGE != 0).map(|one| one.end - one.start).sum();
        match Folios::open(Path::new("/"), Path::new("/proc/7")) {
            Ok(mut folios) if huge == 2 * SLOT => {
                let marked = folios.mark_zero_pages(&pagemap, &unmarked).expect("root");
                let zero: Vec<_> = marked.iter().filter(|one| one.categories & IS_ZERO_PAGE != 0).collect();
                assert!(
                    matches!(zero.as_slice(), [one] if one.start == start + SLOT && one.end == start + 2 * SLOT),
                    "{marked:?}"
                );
            }
            _ => skipped(format_args!("it takes root, and huge pages to be had ({huge} bytes were)")),
        }
    }

    /// Frames as the kernel's file shows them: a folio of four at 8, one alone at 12, one of sixteen at 16, of which no more is there
    /// than eight frames: the end of the file ends it.
    #[test]
    fn sizes_follow_from_heads_and_tails() {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut flags = [0_u64; 24];
        flags[8] = FLAG_HEAD;
        flags[9..12].fill(FLAG_TAIL);
        flags[16] = FLAG_HEAD;
        flags[17..24].fill(FLAG_TAIL);
        let bytes: Vec<u8> = flags.iter().flat_map(|flag| flag.to_ne_bytes()).collect();
        std::fs::create_dir(dir.path().join("proc")).expect("mkdir");
        std::fs::write(dir.path().join("proc/kpageflags"), bytes).expect("write");
        let mut found = BTreeMap::new();
        let mut folios = Folios::open(dir.path(), Path::new("/proc/7")).expect("open");
        // In no order, with a frame that is not there, and a page that is not present.
        let entries = [11, 12, 8, 3, 9, 23, 16].map(|frame| ENTRY_PRESENT | frame);
        folios.count(&entries, 1, &mut found).expect("told");
        folios.count(&[0, 5], 1, &mut found).expect("told");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(1, 2), (4, 3), (8, 2)]);
        let hidden = folios.count(&[ENTRY_PRESENT], 1, &mut BTreeMap::new());
        assert!(hidden.is_err_and(|why| why.contains("CAP_SYS_ADMIN")));
        assert!(
            Folios::open(&dir.path().join("nowhere"), Path::new("/proc/7")).is_err_and(|why| why.contains("--pid 7"))
        );
    }
}
