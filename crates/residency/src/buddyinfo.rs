//! Free memory by the size of its pieces, as the page allocator keeps it (`/proc/buddyinfo`).

use std::fs;
use std::path::Path;

/// The free pieces of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// NUMA node.
    pub node: u32,
    /// Such as `Normal`.
    pub name: String,
    /// How many there are of 1, 2, 4, ... base pages.
    pub pieces: Vec<u64>,
}

impl Zone {
    /// How many blocks of `1 << order` base pages could be cut out of the free pieces, if one may cut them all. Pages that a processor
    /// keeps at hand for itself are in no list.
    pub fn blocks(&self, order: usize) -> u64 {
        let large = self.pieces.iter().enumerate().skip(order);
        large.map(|(piece, count)| count << (piece - order).min(40)).sum()
    }
}

/// All zones of the host below `root`; none if it does not tell.
pub fn read(root: &Path) -> Option<Vec<Zone>> {
    Some(zones(&fs::read_to_string(root.join("proc/buddyinfo")).ok()?))
}

/// `Node 0, zone   Normal   2   17 ...`; a line of another form is left out.
pub fn zones(text: &str) -> Vec<Zone> {
    let zone = |line: &str| {
        let (head, rest) = line.split_once(", zone")?;
        let node = head.trim().strip_prefix("Node")?.trim().parse().ok()?;
        let mut words = rest.split_whitespace();
        let name = words.next()?.to_owned();
        let pieces = words.map(|count| count.parse().ok()).collect::<Option<_>>()?;
        Some(Zone { node, name, pieces })
    };
    text.lines().filter_map(zone).collect()
}
