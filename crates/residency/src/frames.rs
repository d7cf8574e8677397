//! The past of a slot as its frames show it: folios larger than a page, merged pages, pages that came back from swap.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::pagemap::ENTRY_FRAME;

/// Flags of frames (include/uapi/linux/kernel-page-flags.h).
const FLAG_SWAP_CACHE: u64 = 1 << 13;
pub(crate) const FLAG_HEAD: u64 = 1 << 15;
pub(crate) const FLAG_TAIL: u64 = 1 << 16;
const FLAG_KSM: u64 = 1 << 21;
pub(crate) const FLAG_ZERO_PAGE: u64 = 1 << 24;

/// The pagemap entry's page is mapped here and nowhere else.
const ENTRY_EXCLUSIVE: u64 = 1 << 56;

/// Frames of 2 MiB.
const BLOCK: u64 = crate::page_size::SLOT / 4096;

/// `/proc/kpageflags`, for processes that may see frame numbers.
#[derive(Debug)]
pub(crate) struct Frames {
    flags: File,
}

/// What the frames of the small pages of a slot are, counted in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FrameEvidence {
    /// All that are there.
    pub(crate) pages: u64,
    /// In a folio of 2 MiB or more.
    pub(crate) huge: u64,
    /// Of those, mapped by another process as well.
    pub(crate) huge_shared: u64,
    /// Of those, not at the place in the slot that they have in the folio.
    pub(crate) huge_displaced: u64,
    /// The slot's huge pages are of more than one folio.
    pub(crate) several_huge: bool,
    /// Pages of the largest smaller folio; 1 where all are single pages.
    pub(crate) largest_smaller: u64,
    /// Merged with pages that hold the same (KSM).
    pub(crate) merged: u64,
    /// Still in the swap cache: they came back from swap, or are on their way.
    pub(crate) swap_cache: u64,
    /// Small and mapped by another process as well.
    pub(crate) small_shared: u64,
}

impl FrameEvidence {
    /// All of the pages are one huge page at its place.
    pub(crate) fn is_one_huge_page(&self) -> bool {
        self.huge > 0 && self.huge == self.pages && self.is_in_place()
    }

    /// The huge ones are of one huge page, at its place.
    pub(crate) fn is_in_place(&self) -> bool {
        self.huge_displaced == 0 && !self.several_huge
    }
}

impl Frames {
    /// Opens `/proc/kpageflags`; `None` without the right to it.
    pub(crate) fn open(root: &Path) -> Option<Self> {
        Some(Self { flags: File::open(root.join("proc/kpageflags")).ok()? })
    }

    /// What the frames of `entries` (of pagemap) say, the first of which is number `first` of its 2 MiB. `None` where frame numbers
    /// are hidden.
    pub(crate) fn evidence(&self, entries: &[u64], first: u64) -> Option<FrameEvidence> {
        let mut sum = FrameEvidence::default();
        let mut block = Block::default();
        let mut huge_block = None;
        for (index, entry) in (first..).zip(entries).filter(|(_, entry)| **entry >> 63 == 1) {
            let frame = entry & ENTRY_FRAME;
            if frame == 0 {
                return None;
            }
            let flags = self.flags_of(frame)?;
            let is_shared = entry & ENTRY_EXCLUSIVE == 0;
            let compound = flags & (FLAG_HEAD | FLAG_TAIL) != 0;
            let folio_pages = if compound { block.of(self, frame)?.folio_pages(frame) } else { 1 };
            sum.pages += 1;
            sum.merged += u64::from(flags & FLAG_KSM != 0);
            sum.swap_cache += u64::from(flags & FLAG_SWAP_CACHE != 0);
            if folio_pages >= BLOCK {
                sum.huge += 1;
                sum.huge_shared += u64::from(is_shared);
                sum.huge_displaced += u64::from(frame % BLOCK != index % BLOCK);
                sum.several_huge |= *huge_block.get_or_insert(frame / BLOCK) != frame / BLOCK;
            } else {
                sum.small_shared += u64::from(is_shared);
                sum.largest_smaller = sum.largest_smaller.max(folio_pages);
            }
        }
        Some(sum)
    }

    fn flags_of(&self, frame: u64) -> Option<u64> {
        let mut word = [0_u8; 8];
        self.flags.read_exact_at(&mut word, frame * 8).ok()?;
        Some(u64::from_ne_bytes(word))
    }
}

/// The flags of the 2 MiB of frames around one, read at once: pages of a folio follow each other.
#[derive(Debug, Default)]
struct Block {
    number: u64,
    flags: Vec<u64>,
}

impl Block {
    /// This block, read anew if the frame lies in another.
    fn of(&mut self, frames: &Frames, frame: u64) -> Option<&Self> {
        if self.flags.is_empty() || self.number != frame / BLOCK {
            let mut bytes = vec![0_u8; (BLOCK * 8) as usize];
            frames.flags.read_exact_at(&mut bytes, frame / BLOCK * BLOCK * 8).ok()?;
            self.number = frame / BLOCK;
            self.flags =
                bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default())).collect();
        }
        Some(self)
    }

    /// How many pages the folio of a frame has: a head and the tails behind it. A folio that fills the block, or began before it, has
    /// the block's at least.
    fn folio_pages(&self, frame: u64) -> u64 {
        let at = (frame % BLOCK) as usize;
        let is_tail = |index: &usize| self.flags.get(*index).is_some_and(|flags| flags & FLAG_TAIL != 0);
        let head = (0..=at).rev().find(|index| !is_tail(index));
        let end = (at + 1..self.flags.len()).find(|index| !is_tail(index)).unwrap_or(self.flags.len());
        (end - head.unwrap_or(0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PRESENT: u64 = 1 << 63;

    /// Two blocks of frames: a huge folio, then one of 16 pages and small ones.
    fn frames() -> (tempfile::TempDir, Frames) {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut flags = vec![FLAG_TAIL; 2 * BLOCK as usize];
        flags[0] = FLAG_HEAD;
        flags[BLOCK as usize] = FLAG_HEAD;
        flags[BLOCK as usize + 16..].fill(0);
        flags[BLOCK as usize + 20] = FLAG_KSM;
        flags[BLOCK as usize + 21] = FLAG_SWAP_CACHE;
        let bytes: Vec<u8> = flags.iter().flat_map(|word| word.to_ne_bytes()).collect();
        fs::create_dir(dir.path().join("proc")).expect("mkdir");
        fs::write(dir.path().join("proc/kpageflags"), bytes).expect("write");
        let frames = Frames::open(dir.path()).expect("open");
        (dir, frames)
    }

    #[test]
    fn a_huge_page_is_known_by_its_frames_at_their_place() {
        let (_dir, frames) = frames();
        let in_place = [PRESENT | ENTRY_EXCLUSIVE | 5, 0, PRESENT | 7];
        let found = frames.evidence(&in_place, 5).expect("frames are seen");
        assert_eq!((found.pages, found.huge, found.huge_shared), (2, 2, 1));
        assert!(found.is_one_huge_page());
        let moved = frames.evidence(&in_place, 6).expect("frames are seen");
        assert!(moved.huge == 2 && moved.huge_displaced == 2 && !moved.is_one_huge_page(), "{moved:?}");
        let mixed = frames.evidence(&[PRESENT | 5, PRESENT | (BLOCK + 30)], 5).expect("frames are seen");
        assert!(!mixed.is_one_huge_page() && mixed.is_in_place(), "{mixed:?}");
        assert_eq!(frames.evidence(&[PRESENT], 0), None, "hidden");
    }

    #[test]
    fn folios_between_and_marks_of_merging_and_swap_are_seen() {
        let (_dir, frames) = frames();
        let entries: Vec<u64> = (BLOCK + 8..BLOCK + 22).map(|frame| PRESENT | frame).collect();
        let found = frames.evidence(&entries, 0).expect("frames are seen");
        assert_eq!((found.huge, found.largest_smaller, found.merged, found.swap_cache), (0, 16, 1, 1));
        assert_eq!((found.pages, found.small_shared), (14, 14));
    }
}
