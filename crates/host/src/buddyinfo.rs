//! Free memory by the size of its pieces, as the page allocator keeps it (`/proc/buddyinfo`).

use std::path::Path;

use crate::files::trimmed;

/// The free pieces of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) node: u32,
    /// Such as `Normal`.
    pub(crate) name: String,
    /// How many there are of 1, 2, 4, ... base pages.
    pub(crate) pieces: Vec<u64>,
}

/// All zones of the host below `root`; none if it does not tell.
pub(crate) fn read(root: &Path) -> Option<Vec<Zone>> {
    Some(zones(&trimmed(root, "/proc/buddyinfo")?))
}

/// `Node 0, zone   Normal   2   17 ...`; a line of another form is left out.
pub(crate) fn zones(text: &str) -> Vec<Zone> {
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
