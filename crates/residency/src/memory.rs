//! Whether a huge page could be had now: blocks of 2 MiB in the page allocator, and room in the memory control groups.

use std::fs;
use std::path::Path;

use crate::buddyinfo;
use crate::groups;
use crate::page_size::SLOT;
use crate::page_size::base_page_bytes;

/// With fewer free blocks than this the host counts as having none: a look and the faults before it are not the same moment, and
/// somebody always ends.
pub(crate) const FEW_BLOCKS: u64 = 16;

/// What the page allocator has for a process now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Free blocks of 2 MiB in zones that user memory may be taken from.
    pub(crate) blocks: u64,
    /// Free bytes in those zones.
    pub(crate) free_bytes: u64,
}

impl Memory {
    /// Reads it below `root`, for a process that may use `nodes` (all if `None`). `None` if `/proc/buddyinfo` does not tell.
    pub(crate) fn read(root: &Path, nodes: Option<&[u32]>) -> Option<Self> {
        let zones = buddyinfo::read(root).filter(|zones| !zones.is_empty())?;
        let marks = fs::read_to_string(root.join("proc/zoneinfo")).map(|text| marks(&text)).unwrap_or_default();
        let page = base_page_bytes() as u64;
        let order = (SLOT / page).trailing_zeros() as usize;
        let mut sum = Self { blocks: 0, free_bytes: 0 };
        for zone in zones.iter().filter(|zone| nodes.is_none_or(|nodes| nodes.contains(&zone.node))) {
            let mark = marks.iter().find(|mark| mark.node == zone.node && mark.zone == zone.name);
            let spare_pages = zone.blocks(0).saturating_sub(mark.map_or(0, |mark| mark.kept_pages));
            // What lies below a zone's mark is kept for others (__zone_watermark_ok in mm/page_alloc.c): the 16 MiB of zone DMA are
            // always free, and never given to user memory.
            sum.blocks += zone.blocks(order).min(spare_pages >> order);
            sum.free_bytes += spare_pages * page;
        }
        Some(sum)
    }
}

/// What a zone keeps back from user memory.
struct Mark {
    node: u32,
    zone: String,
    kept_pages: u64,
}

/// From `/proc/zoneinfo`: the low watermark, and what is protected from allocations that could be made in higher zones (the greatest of
/// the list, which rises with the zone that was asked).
fn marks(text: &str) -> Vec<Mark> {
    let mut found: Vec<Mark> = Vec::new();
    for line in text.lines() {
        if let Some((head, zone)) = line.split_once(", zone")
            && let Some(node) = head.trim().strip_prefix("Node").and_then(|node| node.trim().parse().ok())
        {
            found.push(Mark { node, zone: zone.trim().to_owned(), kept_pages: 0 });
            continue;
        }
        let Some(mark) = found.last_mut() else { continue };
        let line = line.trim();
        let low = line.strip_prefix("low ").and_then(|pages| pages.trim().parse::<u64>().ok());
        let protected = line.strip_prefix("protection:").and_then(|list| {
            let list = list.trim().trim_start_matches('(').trim_end_matches(')');
            list.split(',').filter_map(|pages| pages.trim().parse::<u64>().ok()).max()
        });
        mark.kept_pages += low.or(protected).unwrap_or(0);
    }
    found
}

/// The nodes of `Mems_allowed_list:\t0-1,3` in `/proc/PID/status`.
pub(crate) fn allowed_nodes(status: &str) -> Option<Vec<u32>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?;
    let mut nodes = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        // MAX_NUMNODES is at most 1024.
        nodes.extend(first..=last.min(first.saturating_add(1024)));
    }
    Some(nodes)
}

/// A memory control group at its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupLimit {
    /// The file with the limit.
    pub file: String,
    /// The limit.
    pub limit_bytes: u64,
    /// What the group uses.
    pub used_bytes: u64,
}

/// The group of a process, or the one above it, that has been at its limit and has no room for a huge page now. Memory
/// that it could reclaim at once (`memory.stat`: file pages) counts as room if the fault may reclaim; v1 and v2 name
/// their files differently (Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
pub(crate) fn full_group(root: &Path, process: &Path, may_reclaim: bool) -> Option<GroupLimit> {
    groups::of(root, process, "memory").into_iter().find_map(|group| {
        let (limit, usage) = limit_files(group.is_v2);
        let (limit_bytes, used_bytes) = (group.number(limit)?, group.number(usage)?);
        let prefix = if group.is_v2 { "" } else { "total_" };
        let files = ["inactive_file", "active_file"]
            .iter()
            .filter_map(|kind| group.number_of("memory.stat", &format!("{prefix}{kind}")))
            .sum::<u64>();
        let room = limit_bytes.saturating_sub(used_bytes) + if may_reclaim { files } else { 0 };
        let file = group.folder.join(limit).display().to_string();
        (room < SLOT && hits(&group)? > 0).then_some(GroupLimit { file, limit_bytes, used_bytes })
    })
}

/// The group of a process, or the one above it, with the least room under its limit.
pub(crate) fn tightest_group(root: &Path, process: &Path) -> Option<GroupLimit> {
    let groups = groups::of(root, process, "memory").into_iter().filter_map(|group| {
        let (limit, usage) = limit_files(group.is_v2);
        let file = group.folder.join(limit).display().to_string();
        Some(GroupLimit { file, limit_bytes: group.number(limit)?, used_bytes: group.number(usage)? })
    });
    groups.min_by_key(|group| group.limit_bytes.saturating_sub(group.used_bytes))
}

fn limit_files(is_v2: bool) -> (&'static str, &'static str) {
    if is_v2 { ("memory.max", "memory.current") } else { ("memory.limit_in_bytes", "memory.usage_in_bytes") }
}

/// How often a group has been at its limit.
fn hits(group: &groups::Group) -> Option<u64> {
    if group.is_v2 { group.number_of("memory.events", "max") } else { group.number("memory.failcnt") }
}

/// How often the process's own memory group has been at its limit.
pub(crate) fn own_limit_hits(root: &Path, process: &Path) -> Option<u64> {
    groups::of(root, process, "memory").iter().find_map(hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write;

    const ZONEINFO: &str = "\
Node 0, zone      DMA
  pages free     3840
        low      37
        protection: (0, 3019, 8395, 8395, 8395)
              high_min: 18
Node 0, zone   Normal
  pages free     149459
        low      13500
        protection: (0, 0, 0, 0, 0)
";

    #[test]
    fn blocks_that_are_kept_for_others_do_not_count() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        assert_eq!(Memory::read(root, None), None);
        let buddy = |normal| format!("Node 0, zone DMA 0 0 0 0 0 0 0 0 1 1 3\nNode 0, zone Normal {normal}\n");
        write(root, "proc/buddyinfo", &buddy("20000 0 0 0 0 0 0 0 0 0 0"));
        assert_eq!(Memory::read(root, None).map(|memory| memory.blocks), Some(7), "no marks, all count");
        write(root, "proc/zoneinfo", ZONEINFO);
        let free = Memory { blocks: 0, free_bytes: (20_000 - 13_500) * 4096 };
        assert_eq!(Memory::read(root, None), Some(free));
        write(root, "proc/buddyinfo", &buddy("20000 0 0 0 0 0 0 0 0 2 1"));
        assert_eq!(Memory::read(root, Some(&[0])).map(|memory| memory.blocks), Some(4));
        assert_eq!(Memory::read(root, Some(&[1])).map(|memory| memory.blocks), Some(0));
        write(root, "proc/buddyinfo", &buddy("0 0 0 0 0 0 0 0 0 2 1"));
        assert_eq!(Memory::read(root, None).map(|memory| memory.blocks), Some(0), "below the mark");
    }

    #[test]
    fn nodes_are_read_from_the_status() {
        assert_eq!(allowed_nodes("Name:\tx\nMems_allowed_list:\t0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!((allowed_nodes("Name:\tx\n"), allowed_nodes("Mems_allowed_list:\tx\n")), (None, None));
    }

    #[test]
    fn a_full_group_above_counts_and_file_pages_are_room_for_who_may_reclaim() {
        let dir = tempfile::tempdir().expect("tempdir");
        let (root, process) = (dir.path(), dir.path().join("proc/7"));
        write(root, "proc/7/cgroup", "4:memory:/a/b\n0::/\n");
        let group = |name: &str, limit: u64, used: u64, hits: u64, files: u64| {
            let folder = format!("sys/fs/cgroup/memory/{name}");
            write(root, &format!("{folder}/memory.limit_in_bytes"), &limit.to_string());
            write(root, &format!("{folder}/memory.usage_in_bytes"), &used.to_string());
            write(root, &format!("{folder}/memory.failcnt"), &hits.to_string());
            write(root, &format!("{folder}/memory.stat"), &format!("cache 1\ntotal_inactive_file {files}\n"));
        };
        group("a/b", 64 << 20, 16 << 20, 0, 0);
        group("a", 17 << 20, 16 << 20, 3, 0);
        let full = full_group(root, &process, true).expect("the one above is full");
        assert!(full.file.ends_with("memory/a/memory.limit_in_bytes"), "{full:?}");
        assert_eq!((full.limit_bytes, full.used_bytes), (17 << 20, 16 << 20));
        assert_eq!(own_limit_hits(root, &process), Some(0));
        group("a", 17 << 20, 16 << 20, 3, 8 << 20);
        assert_eq!(full_group(root, &process, true), None);
        assert!(full_group(root, &process, false).is_some());
        assert_eq!(tightest_group(root, &process).map(|group| group.limit_bytes), Some(17 << 20));
        group("a", 17 << 20, 16 << 20, 0, 0);
        assert_eq!(full_group(root, &process, true), None, "never at its limit");
        write(root, "proc/7/cgroup", "0::/c\n");
        write(root, "sys/fs/cgroup/c/memory.max", "4194304\n");
        write(root, "sys/fs/cgroup/c/memory.current", "4100000\n");
        write(root, "sys/fs/cgroup/c/memory.events", "low 0\nmax 5\n");
        assert!(full_group(root, &process, true).is_some_and(|full| full.file.ends_with("c/memory.max")));
    }
}
