//! Free memory by the size of its pieces: how many huge pages could be had now, without compaction.

use std::collections::BTreeMap;
use std::path::Path;

use pagelab_residency::buddyinfo::{self, Zone};
use serde::Serialize;

use crate::facts::{meminfo_bytes, page_size_bytes};
use crate::files::trimmed;

/// Bytes of the huge page that is counted.
const HUGE_BYTES: u64 = 2 << 20;

/// The free memory of one zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ZoneFree {
    /// NUMA node.
    pub node: u32,
    /// Zone, such as `Normal`.
    pub zone: String,
    /// Free bytes in pieces of any size.
    pub free_bytes: u64,
    /// Huge pages of 2 MiB that lie whole in free pieces.
    pub huge_pages: u64,
    /// How many free pieces there are of 1, 2, 4, ... base pages.
    pub pieces: Vec<u64>,
}

/// The blocks of 2 MiB of one zone by migrate type, from `/proc/pagetypeinfo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ZoneBlocks {
    /// NUMA node.
    pub node: u32,
    /// Zone, such as `Normal`.
    pub zone: String,
    /// Number of blocks by type, as the kernel calls it: `Unmovable`, `Movable`, `Reclaimable`, ...
    pub blocks: BTreeMap<String, u64>,
}

/// The free memory of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FreeMemory {
    /// By zone.
    pub zones: Vec<ZoneFree>,
    /// Free bytes of all zones.
    pub free_bytes: u64,
    /// Huge pages of 2 MiB that could be had now without moving anything.
    pub huge_pages_now: u64,
    /// Blocks of 2 MiB that hold unmovable pages, from `/proc/pagetypeinfo`, which only root may read: compaction makes
    /// no huge page of these.
    pub unmovable_blocks: Option<u64>,
    /// Blocks of 2 MiB by zone and type; none for others than root.
    pub blocks: Option<Vec<ZoneBlocks>>,
    /// Free bytes (MemFree) that are in none of these pieces: pages in the lists of single CPUs, and on a kernel that prepares
    /// its memory late the part that it has not come to yet. Huge pages may be had from these, too; nothing says how many.
    /// None if MemFree cannot be read.
    pub unlisted_bytes: Option<u64>,
}

impl FreeMemory {
    /// The share of the free bytes that does not lie in whole huge pages, in percent; none if nothing is free.
    pub fn unusable_pct(&self) -> Option<f64> {
        let whole = self.huge_pages_now * HUGE_BYTES;
        (self.free_bytes > 0).then(|| 100.0 * (self.free_bytes.saturating_sub(whole)) as f64 / self.free_bytes as f64)
    }
}

/// Reads `/proc/buddyinfo` and `/proc/pagetypeinfo` below `root`.
pub(super) fn read(root: &Path) -> Option<FreeMemory> {
    let zones: Vec<ZoneFree> =
        buddyinfo::read(root)?.into_iter().map(|zone| free_of(zone, page_size_bytes())).collect();
    let blocks = trimmed(root, "/proc/pagetypeinfo").and_then(|text| blocks(&text));
    let unmovable = |zone: &ZoneBlocks| zone.blocks.get("Unmovable").copied().unwrap_or(0);
    let free_bytes = zones.iter().map(|zone| zone.free_bytes).sum();
    Some(FreeMemory {
        free_bytes,
        huge_pages_now: zones.iter().map(|zone| zone.huge_pages).sum(),
        zones,
        unmovable_blocks: blocks.as_ref().map(|zones| zones.iter().map(unmovable).sum()),
        blocks,
        unlisted_bytes: meminfo_bytes(root, "MemFree").map(|free| free.saturating_sub(free_bytes)),
    })
}

fn free_of(zone: Zone, page_bytes: u64) -> ZoneFree {
    let (mut free_bytes, mut huge_pages) = (0, 0);
    for (order, count) in zone.pieces.iter().enumerate() {
        let bytes = page_bytes << order;
        free_bytes += bytes * count;
        huge_pages += bytes / HUGE_BYTES * count;
    }
    ZoneFree { node: zone.node, zone: zone.name, free_bytes, huge_pages, pieces: zone.pieces }
}

/// The last table of the file, which counts blocks: `Node 0, zone DMA 1 7 0 0 0` under the names of the types.
fn blocks(text: &str) -> Option<Vec<ZoneBlocks>> {
    let (_, table) = text.split_once("Number of blocks type")?;
    let (titles, rows) = table.split_once('\n')?;
    let zone = |row: &str| {
        let (node, rest) = row.strip_prefix("Node ")?.split_once(", zone")?;
        let mut words = rest.split_whitespace();
        let zone = words.next()?.to_owned();
        let counts = titles.split_whitespace().map(str::to_owned).zip(words.map_while(|word| word.parse().ok()));
        Some(ZoneBlocks { node: node.trim().parse().ok()?, zone, blocks: counts.collect() })
    };
    Some(rows.lines().filter_map(zone).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_every_order_are_bytes_and_the_large_ones_huge_pages() {
        let zone = |line: &str| buddyinfo::zones(line).into_iter().next().map(|zone| free_of(zone, 4096));
        let found = zone("Node 1, zone   Normal   3 0 1 0 0 0 0 0 0 2 5").expect("a zone");
        // 3 pages, one of 4 pages, 2 of 512 pages, 5 of 1024 pages.
        assert_eq!(found.free_bytes, 4096 * (3 + 4 + 2 * 512 + 5 * 1024));
        assert_eq!((found.node, found.zone.as_str(), found.huge_pages), (1, "Normal", 2 + 10));
        assert_eq!(zone("garbage"), None);
        assert_eq!(zone("Node 0, zone DMA x"), None);
    }

    #[test]
    fn blocks_that_hold_what_cannot_be_moved_are_counted() {
        let text = "Page block order: 9\n\nFree pages count per migrate type at order 0 1\n\
                    Node    0, zone      DMA, type    Unmovable      9      9\n\n\
                    Number of blocks type     Unmovable      Movable  Reclaimable\n\
                    Node 0, zone      DMA            1            7            0\n\
                    Node 0, zone   Normal           40         2000           10\n";
        let found = blocks(text).expect("a table");
        let of = |zone: &ZoneBlocks, kind: &str| zone.blocks.get(kind).copied();
        let [dma, normal] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (dma.node, dma.zone.as_str(), of(dma, "Unmovable"), of(dma, "Movable")),
            (0, "DMA", Some(1), Some(7))
        );
        assert_eq!((of(normal, "Unmovable"), of(normal, "Reclaimable")), (Some(40), Some(10)));
        assert_eq!(blocks("nothing"), None);
        let root = crate::testing::Root::new();
        root.write("/proc/pagetypeinfo", text);
        root.write("/proc/buddyinfo", "Node 0, zone   Normal   3 0 1 0 0 0 0 0 0 2 5\n");
        root.write("/proc/meminfo", "MemTotal: 9999999 kB\nMemFree: 40000 kB\n");
        let free = read(root.path()).expect("buddyinfo");
        let listed = 4096 * (3 + 4 + 2 * 512 + 5 * 1024);
        assert_eq!((free.unmovable_blocks, free.unlisted_bytes), (Some(41), Some(40_000 * 1024 - listed)));
    }

    #[test]
    fn what_is_free_in_small_pieces_is_of_no_use() {
        let of = |free_bytes, huge_pages_now| FreeMemory {
            zones: Vec::new(),
            free_bytes,
            huge_pages_now,
            unmovable_blocks: None,
            blocks: None,
            unlisted_bytes: None,
        };
        assert_eq!(of(8 << 20, 1).unusable_pct(), Some(75.0));
        assert_eq!(of(0, 0).unusable_pct(), None);
    }
}
