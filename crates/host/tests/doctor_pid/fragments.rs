//! Memory without a free block of 2 MiB, although nearly all of it is free.
//!
//! A page in each block is kept that cannot be moved: a page of a tmpfs which may not be swapped, with compaction kept from
//! unevictable pages. A huge page of the file is brought in, and all but one page of it punched out again, which splits it. So no more
//! than some tens of MiB are used, and never more than one huge page at once.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use pagelab_residency::buddyinfo;

use crate::DEFRAG;
use crate::stage::{Changed, MIB, Mounted, create, fallocate};

const SLOT: u64 = 2 * MIB;

/// Huge pages that have to be refused in a row.
const TRIES: u64 = 16;
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// Fields are dropped in this order: the memory goes first.
pub(crate) struct Fragments {
    file: Option<File>,
    mounted: Option<Mounted>,
    spoiled: u64,
    before: u64,
    _compaction: Changed,
    /// Pages that processors keep at hand for themselves, tens of thousands, would keep blocks from coming together again.
    _at_hand: Changed,
}

/// Free blocks of 2 MiB, as the test counts them: those of zone DMA are never given to user memory.
pub(crate) fn blocks() -> u64 {
    let zones = buddyinfo::read(Path::new("/")).expect("buddyinfo");
    zones.iter().filter(|zone| zone.name != "DMA").map(|zone| zone.blocks(9)).sum()
}

/// Huge pages of files that could not be had, since boot.
fn fallbacks() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("vmstat");
    let count = text.lines().find_map(|line| line.strip_prefix("thp_file_fallback ")?.trim().parse().ok());
    count.expect("thp_file_fallback")
}

impl Fragments {
    pub(crate) fn make() -> Self {
        let compaction = Changed::to("/proc/sys/vm/compact_unevictable_allowed", "0");
        let at_hand = Changed::to("/proc/sys/vm/percpu_pagelist_high_fraction", "100000");
        let mounted = Mounted::plain("tmpfs", "noswap,huge=always,size=100%");
        let file = create(&mounted.at("file"));
        // Pages of files lie between, and would be moved or let go of.
        fs::write("/proc/sys/vm/drop_caches", "3").expect("caches dropped");
        let before = blocks();
        let mut made = Self {
            file: Some(file),
            mounted: Some(mounted),
            spoiled: 0,
            before,
            _compaction: compaction,
            _at_hand: at_hand,
        };
        made.again();
        made
    }

    /// Spoils what is free, and what comes together when the kernel compacts and reclaims memory for a huge page, until it finds none
    /// any more. (It may also bring memory into use that it has left aside since boot.)
    pub(crate) fn again(&mut self) {
        let end = Instant::now() + Duration::from_mins(4);
        let mut failed = 0;
        while failed < TRIES {
            assert!(Instant::now() < end, "{} blocks are free after {} were spoiled", blocks(), self.spoiled);
            let free = blocks();
            if free > 0 {
                self.spoil(free.min(500));
                continue;
            }
            let (_defrag, before) = (Changed::to(DEFRAG, "always"), fallbacks());
            self.spoil(TRIES);
            failed = fallbacks() - before;
        }
    }

    fn spoil(&mut self, blocks: u64) {
        let file = self.file.as_ref().expect("open");
        for _ in 0..blocks {
            let from = self.spoiled * SLOT;
            fallocate(file, 0, from, SLOT);
            // Of a page that is punched in part the kernel fills the hole with zeroes and then splits it (mm/truncate.c): one small page
            // first, or it would fill what it is about to free, 5 ms for each block.
            fallocate(file, PUNCH, from + 4096, 4096);
            fallocate(file, PUNCH, from + 8192, SLOT - 8192);
            self.spoiled += 1;
        }
    }
}

impl Drop for Fragments {
    fn drop(&mut self) {
        drop(self.file.take());
        drop(self.mounted.take());
        // The processors let go of what they have at hand little by little (decay_pcp_high in mm/page_alloc.c).
        let end = Instant::now() + Duration::from_secs(30);
        while blocks() < self.before / 2 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(200));
        }
        println!("{} blocks were spoiled; free before {}, now {}", self.spoiled, self.before, blocks());
    }
}
