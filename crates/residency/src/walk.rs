//! What it costs a process that its page tables are walked.
//!
//! `smaps`, `smaps_rollup` and `numa_maps` are made by walking the tables under the lock of the process's map: meanwhile its threads
//! can neither map nor unmap memory. `smaps_rollup` gives way between two mappings, `smaps` after each few; inside one mapping nobody
//! gets in between. On Linux 6.18 a page of 4 KiB in memory took 27 to 61 ns (2 GiB of them: 14 to 31 ms; 14 GiB: 119 ms), an entry
//! that is empty 2 ns. So a walk is told beforehand, from the sums in `/proc/PID/status`, which hold nothing.

use std::fs;
use std::path::Path;

/// A reader may hold the map of a process that is observed for no longer: the bound is 1 ms, and other programs may interrupt.
pub const LONGEST_HOLD_NS: u64 = 750_000;

/// A walk takes no longer for a small page that is in memory or swapped out.
pub const WALK_NS_PER_PAGE: u64 = 64;
/// The same for an entry of a page table that holds none.
const WALK_NS_PER_ENTRY: u64 = 2;

/// Entries of a page table.
const TABLE_ENTRIES: u64 = 512;
/// Bytes of a page, and of a table.
const PAGE_BYTES: u64 = 4096;

/// What a walk through all page tables of a process meets at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walk {
    /// Small pages in memory or swapped out, huge ones counted as what they could be split into.
    pub pages: u64,
    /// Entries of its page tables.
    pub entries: u64,
}

impl Walk {
    /// Of the process whose folder in `/proc` this is; `None` if it has no memory, or is gone.
    pub fn of_folder(folder: &Path) -> Option<Self> {
        Self::of_status(&String::from_utf8_lossy(&fs::read(folder.join("status")).ok()?))
    }

    /// By the text of `/proc/PID/status`; `None` for a kernel thread, which has no memory.
    pub fn of_status(status: &str) -> Option<Self> {
        let kib = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().strip_suffix("kB")?.trim().parse().ok()
        };
        let resident_kib = kib("VmRSS")?;
        let tables_kib = kib("VmPTE").unwrap_or(0);
        let bytes = resident_kib.saturating_add(kib("VmSwap").unwrap_or(0)).saturating_mul(1024);
        Some(Self { pages: bytes / PAGE_BYTES, entries: tables_kib.saturating_mul(1024) / PAGE_BYTES * TABLE_ENTRIES })
    }

    /// How long it may hold the map, ns.
    pub fn held_ns(self) -> u64 {
        let empty = self.entries.saturating_sub(self.pages);
        self.pages.saturating_mul(WALK_NS_PER_PAGE).saturating_add(empty.saturating_mul(WALK_NS_PER_ENTRY))
    }

    /// Whether a process that is observed may be walked.
    pub fn is_short(self) -> bool {
        self.held_ns() <= LONGEST_HOLD_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_is_told_from_status() {
        let status = |rss: u64, swap: u64, pte: u64| {
            format!("Name:\tVmRSS: 7 kB\nVmRSS:\t{rss} kB\nVmPTE:\t{pte} kB\nVmSwap:\t{swap} kB\n")
        };
        let small = Walk::of_status(&status(4096, 0, 60)).expect("memory");
        assert_eq!(small, Walk { pages: 1024, entries: 15 * 512 });
        assert!(small.is_short());
        // 2 GiB of small pages took 14 ms at best.
        let large = Walk::of_status(&status(2 << 20, 0, 4200)).expect("memory");
        assert!(!large.is_short() && large.held_ns() >= 14_000_000, "{large:?}");
        assert!(!Walk::of_status(&status(4096, 1 << 20, 2200)).expect("memory").is_short(), "swapped out");
        assert!(
            !Walk::of_status(&status(4096, 0, 20 << 10)).expect("memory").is_short(),
            "tables that are nearly empty"
        );
        assert_eq!(Walk::of_status("Name:\tkswapd0\nThreads:\t1\n"), None);
        assert!(Walk::of_status(&status(u64::MAX / 2048, u64::MAX / 2048, 0)).is_some_and(|walk| !walk.is_short()));
    }
}
