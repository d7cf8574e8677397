//! How much memory there is for huge pages, and why a pool got fewer pages than asked for.

use std::fmt;
use std::path::Path;

use pagelab_residency::buddyinfo::{self, Zone};
use serde::Serialize;

use crate::facts::meminfo_bytes;
use crate::files::trimmed;
use crate::settings;

/// Free memory as the page allocator keeps it: how much, and how much of it in pieces large enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FreeMemory {
    /// Bytes of memory that could be had without swapping (MemAvailable); `None` if the kernel does not say. For one
    /// node: what is free there and in its file cache.
    pub available_bytes: Option<u64>,
    /// Bytes that are free now; `None` if /proc/buddyinfo cannot be read.
    pub free_bytes: Option<u64>,
    /// Pages of the size in question that lie free in one piece now; `None` if /proc/buddyinfo cannot be read, or if the
    /// page is larger than the largest piece that the allocator keeps (1 GiB pages).
    pub free_pages: Option<u64>,
}

impl FreeMemory {
    /// Reads it below `root` for pages of `page_bytes`, on one node or on all.
    pub fn read(root: &Path, page_bytes: u64, node: Option<u32>) -> Self {
        let base = crate::facts::page_size_bytes();
        let blocks = buddyinfo::read(root).map(|zones| free_blocks(&zones, node));
        let blocks = blocks.filter(|blocks| !blocks.is_empty());
        let order = (page_bytes / base).max(1).trailing_zeros() as usize;
        let free_bytes = blocks.as_ref().map(|blocks| {
            blocks.iter().enumerate().map(|(order, count)| count.saturating_mul(base << order.min(40))).sum()
        });
        let free_pages = blocks.filter(|blocks| blocks.len() > order).map(|blocks| {
            blocks.iter().enumerate().skip(order).map(|(large, count)| count << (large - order).min(40)).sum()
        });
        let available_bytes = match node {
            None => meminfo_bytes(root, "MemAvailable"),
            Some(node) => node_available_bytes(root, node),
        };
        FreeMemory { available_bytes, free_bytes, free_pages }
    }
}

/// Free blocks for each order, summed over the zones of one node, or of all.
fn free_blocks(zones: &[Zone], node: Option<u32>) -> Vec<u64> {
    let mut sums: Vec<u64> = Vec::new();
    for zone in zones.iter().filter(|zone| node.is_none_or(|node| zone.node == node)) {
        sums.resize(sums.len().max(zone.pieces.len()), 0);
        for (sum, count) in sums.iter_mut().zip(&zone.pieces) {
            *sum += count;
        }
    }
    sums
}

/// A line of a node's meminfo in bytes: `Node 0 MemFree:   17565008 kB`.
pub(crate) fn node_meminfo_bytes(root: &Path, node: u32, field: &str) -> Option<u64> {
    let text = trimmed(root, &format!("/sys/devices/system/node/node{node}/meminfo"))?;
    let start = format!("Node {node} {field}:");
    let line = text.lines().find_map(|line| line.trim().strip_prefix(start.as_str()))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What is free on the node or can be freed without swapping.
fn node_available_bytes(root: &Path, node: u32) -> Option<u64> {
    let part = |field| node_meminfo_bytes(root, node, field);
    Some(part("MemFree")? + part("Active(file)")? + part("Inactive(file)")?)
}

/// Why a pool has fewer pages than were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShortReason {
    /// Less memory is free or can be freed than the pages need.
    NotEnoughMemory,
    /// There is memory, but not in pieces that are large enough.
    Fragmented,
    /// Pages that are larger than the allocator's largest piece, on a kernel that cannot gather them (no
    /// CONFIG_CONTIG_ALLOC): they can only be had at boot.
    OnlyAtBoot,
    /// Nothing that can be read says why.
    Unknown,
}

/// What is missing, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shortage {
    /// Why.
    pub reason: ShortReason,
    /// Pages that were asked for and not got.
    pub missing_pages: u64,
    /// Bytes of those.
    pub needed_bytes: u64,
    /// Memory as it is now, after the attempt.
    pub memory: FreeMemory,
    /// What helps; a command or a word for the kernel command line.
    pub fix: String,
}

impl Shortage {
    /// Finds out why `missing_pages` were not granted.
    pub fn find(root: &Path, page_bytes: u64, missing_pages: u64, node: Option<u32>) -> Self {
        let memory = FreeMemory::read(root, page_bytes, node);
        let needed_bytes = missing_pages.saturating_mul(page_bytes);
        let size = pagelab_vocab::settings::format_size(page_bytes);
        let can_gather = settings::read(root, "kconfig.CONTIG_ALLOC").ok();
        let boot = format!("add to the kernel command line: hugepagesz={size} hugepages=N");
        let (reason, fix) = if memory.free_pages.is_none() && can_gather.as_deref() == Some("n") {
            (ShortReason::OnlyAtBoot, boot)
        } else if memory.available_bytes.is_some_and(|available| available < needed_bytes) {
            (
                ShortReason::NotEnoughMemory,
                "end programs, or ask for fewer pages; type: pagelab hugepages list".to_owned(),
            )
        } else if memory.free_pages.is_none_or(|pages| pages < missing_pages) && memory.available_bytes.is_some() {
            let now = "let go of clean file pages, which lie between (option drop_caches), or";
            (ShortReason::Fragmented, format!("{now} {boot}"))
        } else {
            (ShortReason::Unknown, "type: dmesg | tail; cat /proc/pagetypeinfo".to_owned())
        };
        Shortage { reason, missing_pages, needed_bytes, memory, fix }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "an unknown number of".to_owned(), |b| b.to_string());
        let available = bytes(self.memory.available_bytes);
        write!(out, "{} pages are missing: ", self.missing_pages)?;
        match self.reason {
            ShortReason::NotEnoughMemory => {
                write!(out, "not enough memory: found {available} bytes available, needed {}", self.needed_bytes)?;
            }
            ShortReason::Fragmented => {
                let pieces = self.memory.free_pages.map_or_else(
                    || "no list of free pieces of this size".to_owned(),
                    |pages| format!("{pages} free pieces of this size"),
                );
                write!(
                    out,
                    "memory is fragmented: found {available} bytes available and {pieces}, needed {} pieces",
                    self.missing_pages
                )?;
            }
            ShortReason::OnlyAtBoot => {
                write!(out, "found a kernel without CONFIG_CONTIG_ALLOC, needed one, or pages reserved at boot")?;
            }
            ShortReason::Unknown => {
                write!(out, "found {available} bytes available, needed {}, no cause in sight", self.needed_bytes)?;
            }
        }
        write!(out, "; {}", self.fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Root;

    const BUDDY: &str = "\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 
Node 0, zone   Normal      2      2      1    142    815    970    635    574    637   1154   2638 
Node 1, zone   Normal      5      0      0      0      0      0      0      0      0      0      0 
";

    #[test]
    fn free_pieces_are_counted_for_the_size_and_node() {
        let root = Root::new();
        root.write("/proc/buddyinfo", BUDDY);
        root.write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   23526448 kB\n");
        root.write(
            "/sys/devices/system/node/node1/meminfo",
            "Node 1 MemTotal: 9 kB\nNode 1 MemFree: 20 kB\nNode 1 Active(file): 4 kB\nNode 1 Inactive(file): 8 kB\n",
        );
        let all = FreeMemory::read(root.path(), 2 << 20, None);
        assert_eq!(all.free_pages, Some(1 + 1154 + 2 * (3 + 2638)));
        assert_eq!(all.available_bytes, Some(23_526_448 << 10));
        let one = FreeMemory::read(root.path(), 2 << 20, Some(1));
        assert_eq!((one.free_pages, one.free_bytes, one.available_bytes), (Some(0), Some(5 * 4096), Some(32 << 10)));
        // A piece of 1 GiB is larger than any that is listed: unknown, not 0.
        assert_eq!(FreeMemory::read(root.path(), 1 << 30, None).free_pages, None);
        let nothing = FreeMemory::read(Root::new().path(), 2 << 20, None);
        assert_eq!(nothing, FreeMemory { available_bytes: None, free_bytes: None, free_pages: None });
    }

    #[test]
    fn the_cause_follows_from_what_is_there() {
        let reason = |available_kib: u64, blocks: &str, page_bytes, missing, contig: &str| {
            let root = Root::new();
            root.write("/proc/meminfo", &format!("MemAvailable: {available_kib} kB\n"));
            root.write("/proc/buddyinfo", &format!("Node 0, zone Normal 9 0 0 0 0 0 0 0 0 {blocks}\n"));
            root.write("/proc/sys/kernel/osrelease", "6.1.0\n");
            root.write("/boot/config-6.1.0", &format!("{contig}\n"));
            Shortage::find(root.path(), page_bytes, missing, None).reason
        };
        let with = "CONFIG_CONTIG_ALLOC=y";
        let without = "# CONFIG_CONTIG_ALLOC is not set";
        assert_eq!(reason(2048, "1 0", 2 << 20, 2, with), ShortReason::NotEnoughMemory);
        assert_eq!(reason(1 << 20, "1 0", 2 << 20, 2, with), ShortReason::Fragmented);
        assert_eq!(reason(1 << 20, "1 5", 2 << 20, 2, with), ShortReason::Unknown);
        assert_eq!(reason(8 << 20, "1 5", 1 << 30, 2, with), ShortReason::Fragmented);
        assert_eq!(reason(8 << 20, "1 5", 1 << 30, 2, without), ShortReason::OnlyAtBoot);
        assert_eq!(reason(1 << 20, "1 0", 2 << 20, 2, without), ShortReason::Fragmented);
    }
}
