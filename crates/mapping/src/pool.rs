//! Why a hugetlb pool gave nothing: too few pages, or the limit of a control group.

use std::path::Path;

use crate::error::MapError;
use crate::groups;
use crate::page_size::{HUGE_1G_BYTES, Pool};

/// Why `bytes` of the pool were refused; `None` if it cannot be told.
pub(crate) fn why_refused(root: &Path, page_bytes: usize, bytes: usize) -> Option<MapError> {
    let needed_pages = (bytes / page_bytes.max(1)) as u64;
    match Pool::read(root, page_bytes) {
        Err(error) => return Some(error),
        Ok(pool) if pool.available_pages() < needed_pages => {
            return Some(MapError::PoolTooSmall {
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
pub(crate) fn cgroup_limit(root: &Path, page_bytes: usize, bytes: u64) -> Option<MapError> {
    let files = [("max", "current"), ("rsvd.max", "rsvd.current"), ("limit_in_bytes", "usage_in_bytes")];
    limit(root, &root.join("proc/self"), page_bytes, bytes, &files)
}

/// The limit of touched pages alone that one page more would cross, in a group of the process whose folder is `process`.
pub(crate) fn fault_limit(root: &Path, process: &Path, page_bytes: usize) -> Option<MapError> {
    limit(root, process, page_bytes, page_bytes as u64, &[("max", "current"), ("limit_in_bytes", "usage_in_bytes")])
}

fn limit(root: &Path, process: &Path, page_bytes: usize, bytes: u64, files: &[(&str, &str)]) -> Option<MapError> {
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
                return Some(MapError::CgroupLimit {
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
    use crate::page_size::HUGE_2M_BYTES;
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
        let Some(MapError::CgroupLimit { file, limit_bytes, needed_bytes }) =
            cgroup_limit(root, HUGE_2M_BYTES, 4 << 20)
        else {
            panic!("4 MiB are too much")
        };
        assert!(file.ends_with("unified/a/hugetlb.2MB.max"), "{file}");
        assert_eq!((limit_bytes, needed_bytes), (4 << 20, 6 << 20));
    }
}
