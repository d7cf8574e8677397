//! The hugetlb pools: the sizes there are, the pages of each, and why one gave nothing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::ResidencyError;
use crate::groups;
use crate::page_size::HUGE_1G_BYTES;

/// Where the kernel lists its pools, a folder for each page size.
pub const POOLS: &str = "/sys/kernel/mm/hugepages";

/// Where it lists the NUMA nodes, with their parts of the pools.
pub const NODES: &str = "/sys/devices/system/node";

/// Name of the folder of the pool of pages of this size: `hugepages-2048kB`.
pub fn folder_name(page_bytes: u64) -> String {
    format!("hugepages-{}kB", page_bytes >> 10)
}

/// Page sizes that have a pool, in bytes, smallest first; none where the kernel has no hugetlb pages.
pub fn sizes(root: &Path) -> Vec<u64> {
    let names = fs::read_dir(below(root, POOLS)).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| {
        let kib: u64 = entry.file_name().to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        kib.checked_mul(1024)
    };
    let mut sizes: Vec<u64> = names.filter_map(bytes).collect();
    sizes.sort_unstable();
    sizes
}

fn below(root: &Path, absolute: &str) -> PathBuf {
    root.join(absolute.trim_start_matches('/'))
}

/// A number that the kernel keeps of a pool.
fn number(path: &Path) -> Result<u64, ResidencyError> {
    let text = fs::read_to_string(path).map_err(|error| ResidencyError::unreadable(path, &error))?;
    text.trim().parse().map_err(|_| ResidencyError::Unreadable {
        path: path.display().to_string(),
        why: format!("found {:?}, needed a number", text.trim()),
    })
}

/// A hugetlb pool as `/sys/kernel/mm/hugepages` shows it, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Pages in the pool, surplus pages included.
    pub total_pages: u64,
    /// Pages that nobody has touched.
    pub free_pages: u64,
    /// Free pages that are promised to mappings which have not touched them yet.
    pub reserved_pages: u64,
    /// Pages beyond `nr_hugepages` that the kernel may add when asked (`nr_overcommit_hugepages`).
    pub overcommit_pages: u64,
    /// Pages of those that it has added.
    pub surplus_pages: u64,
}

impl Pool {
    /// Reads the pool of pages of `page_bytes`, below `root` (`/` for this host).
    ///
    /// # Errors
    /// The host has no pool of this size ([`ResidencyError::NoSuchPageSize`]), or a file of it cannot be read.
    pub fn read(root: &Path, page_bytes: usize) -> Result<Self, ResidencyError> {
        let folder = below(root, POOLS).join(folder_name(page_bytes as u64));
        if !folder.is_dir() {
            return Err(no_such_size(root, page_bytes));
        }
        let number = |name: &str| number(&folder.join(name));
        Ok(Self {
            total_pages: number("nr_hugepages")?,
            free_pages: number("free_hugepages")?,
            reserved_pages: number("resv_hugepages")?,
            overcommit_pages: number("nr_overcommit_hugepages")?,
            surplus_pages: number("surplus_hugepages")?,
        })
    }

    /// Pages that a new mapping can still be promised without growing the pool by hand.
    pub fn available_pages(&self) -> u64 {
        self.free_pages.saturating_sub(self.reserved_pages) + self.overcommit_pages.saturating_sub(self.surplus_pages)
    }
}

fn no_such_size(root: &Path, page_bytes: usize) -> ResidencyError {
    let words: Vec<String> = sizes(root).iter().map(|bytes| format!("{} KiB", bytes >> 10)).collect();
    ResidencyError::NoSuchPageSize {
        needed_bytes: page_bytes,
        found: if words.is_empty() { "no hugetlb pool at all".to_owned() } else { words.join(", ") },
    }
}

/// The part of a pool that lies on one NUMA node, in pages. Reservations and overcommit are not kept for nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePool {
    /// Pages that the node's part has, surplus pages included.
    pub total_pages: u64,
    /// Pages that nobody has touched.
    pub free_pages: u64,
    /// Pages added on demand.
    pub surplus_pages: u64,
}

impl NodePool {
    /// Reads the part of a node below `root`; `None` where the kernel has no such files.
    pub fn read(root: &Path, node: u32, page_bytes: u64) -> Option<Self> {
        let folder = below(root, NODES).join(format!("node{node}/hugepages/{}", folder_name(page_bytes)));
        let number = |name: &str| number(&folder.join(name)).ok();
        Some(Self {
            total_pages: number("nr_hugepages")?,
            free_pages: number("free_hugepages")?,
            surplus_pages: number("surplus_hugepages")?,
        })
    }
}

/// Why `bytes` of the pool of pages of `page_bytes` were refused to this process: too few pages, or the limit of a
/// control group. `None` if unknown.
pub fn why_refused(root: &Path, page_bytes: usize, bytes: usize) -> Option<ResidencyError> {
    let needed_pages = (bytes / page_bytes.max(1)) as u64;
    match Pool::read(root, page_bytes) {
        Err(error) => return Some(error),
        Ok(pool) if pool.available_pages() < needed_pages => {
            return Some(ResidencyError::PoolTooSmall {
                page_bytes,
                available_pages: pool.available_pages(),
                needed_pages,
                total_pages: pool.total_pages,
            });
        }
        Ok(_) => {}
    }
    cgroup_limit(root, page_bytes, bytes as u64)
}

/// The limit that `bytes` more would cross, in this process's group or one above it. Limits count touched pages (`max`) and
/// promised ones (`rsvd.max`); the kernel's Documentation/admin-guide/cgroup-v2.rst, "HugeTLB", and v1's hugetlb.rst.
fn cgroup_limit(root: &Path, page_bytes: usize, bytes: u64) -> Option<ResidencyError> {
    let files = [("max", "current"), ("rsvd.max", "rsvd.current"), ("limit_in_bytes", "usage_in_bytes")];
    limit(root, &root.join("proc/self"), page_bytes, bytes, &files)
}

/// The limit of touched pages alone that one page more would cross, in a group of the process whose folder is `process`.
pub(crate) fn fault_limit(root: &Path, process: &Path, page_bytes: usize) -> Option<ResidencyError> {
    limit(root, process, page_bytes, page_bytes as u64, &[("max", "current"), ("limit_in_bytes", "usage_in_bytes")])
}

fn limit(root: &Path, process: &Path, page_bytes: usize, bytes: u64, files: &[(&str, &str)]) -> Option<ResidencyError> {
    let size =
        if page_bytes >= HUGE_1G_BYTES { format!("{}GB", page_bytes >> 30) } else { format!("{}MB", page_bytes >> 20) };
    for group in groups::of(root, process, "hugetlb") {
        for (limit, usage) in files {
            let limit = format!("hugetlb.{size}.{limit}");
            let used_bytes = group.number(&format!("hugetlb.{size}.{usage}"));
            if let (Some(limit_bytes), Some(used_bytes)) = (group.number(&limit), used_bytes)
                && used_bytes.saturating_add(bytes) > limit_bytes
            {
                let file = group.folder.join(limit).display().to_string();
                return Some(ResidencyError::CgroupLimit {
                    file,
                    limit_bytes,
                    needed_bytes: used_bytes.saturating_add(bytes),
                });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_size::{HUGE_1G_BYTES, HUGE_2M_BYTES};
    use crate::testing::write;

    #[test]
    fn the_limit_of_a_group_above_counts() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        write(root, "proc/self/cgroup", "4:memory:/x\n0::/a/b\n");
        write(root, "sys/fs/cgroup/unified/a/b/hugetlb.2MB.max", "max\n");
        write(root, "sys/fs/cgroup/unified/a/b/hugetlb.2MB.current", "0\n");
        write(root, "sys/fs/cgroup/unified/a/hugetlb.2MB.max", "4194304\n");
        write(root, "sys/fs/cgroup/unified/a/hugetlb.2MB.current", "2097152\n");
        assert_eq!(cgroup_limit(root, HUGE_2M_BYTES, 2 << 20), None);
        let Some(ResidencyError::CgroupLimit { file, limit_bytes, needed_bytes }) =
            cgroup_limit(root, HUGE_2M_BYTES, 4 << 20)
        else {
            panic!("4 MiB are too much")
        };
        assert!(file.ends_with("unified/a/hugetlb.2MB.max"), "{file}");
        assert_eq!((limit_bytes, needed_bytes), (4 << 20, 6 << 20));
    }

    #[test]
    fn a_pool_is_read_and_a_missing_size_is_said() {
        let root = tempfile::tempdir().expect("tempdir");
        let folder = root.path().join("sys/kernel/mm/hugepages/hugepages-2048kB");
        fs::create_dir_all(&folder).expect("mkdir");
        for (name, value) in [
            ("nr_hugepages", 150),
            ("free_hugepages", 40),
            ("resv_hugepages", 10),
            ("nr_overcommit_hugepages", 128),
            ("surplus_hugepages", 22),
        ] {
            fs::write(folder.join(name), format!("{value}\n")).expect("write");
        }
        let pool = Pool::read(root.path(), HUGE_2M_BYTES).expect("read");
        assert_eq!(pool.available_pages(), 30 + 106);
        let Err(ResidencyError::NoSuchPageSize { needed_bytes, found }) = Pool::read(root.path(), HUGE_1G_BYTES) else {
            panic!("1 GiB is not there")
        };
        assert_eq!((needed_bytes, found.as_str()), (HUGE_1G_BYTES, "2048 KiB"));
        fs::write(folder.join("free_hugepages"), "many\n").expect("write");
        assert!(matches!(Pool::read(root.path(), HUGE_2M_BYTES), Err(ResidencyError::Unreadable { .. })));
    }

    #[test]
    fn sizes_and_parts_of_nodes_are_listed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        for kib in [1_048_576, 2048, 64] {
            write(root, &format!("sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages"), "0\n");
        }
        write(root, "sys/kernel/mm/hugepages/README", "");
        assert_eq!(sizes(root), [64 << 10, 2 << 20, 1 << 30]);
        assert!(sizes(&root.join("nowhere")).is_empty());
        assert_eq!(NodePool::read(root, 1, 2 << 20), None);
        for (name, value) in [("nr_hugepages", 3), ("free_hugepages", 2), ("surplus_hugepages", 1)] {
            let folder = "sys/devices/system/node/node1/hugepages/hugepages-2048kB";
            write(root, &format!("{folder}/{name}"), &format!("{value}\n"));
        }
        let expected = NodePool { total_pages: 3, free_pages: 2, surplus_pages: 1 };
        assert_eq!(NodePool::read(root, 1, 2 << 20), Some(expected));
    }
}
