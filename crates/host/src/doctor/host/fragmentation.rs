//! Free memory by the size of its pieces: how many huge pages could be had now, without compaction.

use std::path::Path;

use pagelab_mapping::buddyinfo::{self, Zone};
use serde::Serialize;

use crate::facts::page_size_bytes;
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
    /// Of the blocks of 2 MiB, those that hold pages which cannot be moved, from `/proc/pagetypeinfo`, which only root may read:
    /// compaction makes no huge page of these.
    pub unmovable_blocks: Option<u64>,
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
    let unmovable_blocks = trimmed(root, "/proc/pagetypeinfo").and_then(|text| unmovable_blocks(&text));
    Some(FreeMemory {
        free_bytes: zones.iter().map(|zone| zone.free_bytes).sum(),
        huge_pages_now: zones.iter().map(|zone| zone.huge_pages).sum(),
        zones,
        unmovable_blocks,
    })
}

fn free_of(zone: Zone, page_bytes: u64) -> ZoneFree {
    let (mut free_bytes, mut huge_pages) = (0, 0);
    for (order, count) in zone.pieces.into_iter().enumerate() {
        let bytes = page_bytes << order;
        free_bytes += bytes * count;
        huge_pages += bytes / HUGE_BYTES * count;
    }
    ZoneFree { node: zone.node, zone: zone.name, free_bytes, huge_pages }
}

/// The sum of the column `Unmovable` of the last table, which counts blocks: `Node 0, zone DMA 1 7 0 0 0`.
fn unmovable_blocks(text: &str) -> Option<u64> {
    let (_, table) = text.split_once("Number of blocks type")?;
    let (titles, rows) = table.split_once('\n')?;
    let column = titles.split_whitespace().position(|title| title == "Unmovable")?;
    let counts = rows.lines().filter_map(|row| {
        let mut words = row.strip_prefix("Node ")?.split_whitespace().skip(3);
        words.nth(column)?.parse::<u64>().ok()
    });
    Some(counts.sum())
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
        assert_eq!(unmovable_blocks(text), Some(41));
        assert_eq!(unmovable_blocks("nothing"), None);
    }

    #[test]
    fn what_is_free_in_small_pieces_is_of_no_use() {
        let of = |free_bytes, huge_pages_now| FreeMemory {
            zones: Vec::new(),
            free_bytes,
            huge_pages_now,
            unmovable_blocks: None,
        };
        assert_eq!(of(8 << 20, 1).unusable_pct(), Some(75.0));
        assert_eq!(of(0, 0).unusable_pct(), None);
    }
}
