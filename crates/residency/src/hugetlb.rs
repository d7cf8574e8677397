//! Why a page of a hugetlb mapping is not there: what a touch would meet now, in the order in which the kernel asks
//! (alloc_hugetlb_folio in mm/hugetlb.c): the mount's limit, the control groups, the pool.

use std::path::PathBuf;

use crate::error::ResidencyError;
use crate::maps::Vma;
use crate::pool::{self, Pool};
use crate::reason::Reason;
use crate::thp::Settings;

/// The reason for a page of `vma`, which nobody has.
pub(crate) fn why_missing(settings: &Settings, vma: &Vma) -> Reason {
    let Ok(page_bytes) = usize::try_from(vma.kernel_page_bytes) else { return Reason::NotTouched };
    // Without MAP_NORESERVE (VmFlags `nr`) the pages were promised by pool and mount when they were mapped; groups count at the touch.
    let is_promised = !vma.has_flag("nr");
    if !is_promised && let Some((mount, size_bytes)) = full_mount(settings, vma) {
        return Reason::HugetlbMountFull { mount, size_bytes, page_bytes: vma.kernel_page_bytes };
    }
    if let Some(ResidencyError::CgroupLimit { file, limit_bytes, .. }) =
        pool::fault_limit(&settings.root, &settings.folder, page_bytes)
    {
        return Reason::HugetlbGroupLimit { file, limit_bytes, page_bytes: vma.kernel_page_bytes };
    }
    match Pool::read(&settings.root, page_bytes) {
        Ok(pool) if !is_promised && pool.available_pages() == 0 => Reason::PoolEmpty {
            page_bytes: vma.kernel_page_bytes,
            total_pages: pool.total_pages,
            mapping_pages: (vma.end - vma.start) / vma.kernel_page_bytes.max(1),
        },
        _ => Reason::NotTouched,
    }
}

/// The hugetlbfs mount under a mapping, and its size, if nothing of it is left.
fn full_mount(settings: &Settings, vma: &Vma) -> Option<(String, u64)> {
    let mount = settings.mount_of(vma).filter(|mount| mount.fs == "hugetlbfs")?.mountpoint.clone();
    // The process may see other mounts than this one.
    let place: PathBuf = settings.folder.join("root").join(mount.trim_start_matches('/'));
    let size = rustix::fs::statfs(&place).ok()?;
    // A mount without a limit has no number of blocks, 0 or -1.
    let limit_blocks = i64::try_from(size.f_blocks).ok().filter(|blocks| *blocks > 0)?;
    let block_bytes = u64::try_from(size.f_bsize).ok()?;
    (size.f_bavail == 0).then(|| (mount, limit_blocks.unsigned_abs().saturating_mul(block_bytes)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::write;

    /// A pool of 2 MiB pages without overcommit, all of them promised but `left`.
    fn pool(root: &Path, left: u64) {
        for (name, pages) in [
            ("nr_hugepages", 8),
            ("free_hugepages", 4),
            ("resv_hugepages", 4 - left),
            ("nr_overcommit_hugepages", 0),
            ("surplus_hugepages", 0),
        ] {
            write(root, &format!("sys/kernel/mm/hugepages/hugepages-2048kB/{name}"), &format!("{pages}\n"));
        }
    }

    /// Three pages of 2 MiB; with `nr` the mapping was promised none of them.
    fn mapping(flags: &str) -> Vma {
        let end = 0x4000_0000 + 3 * (2 << 20);
        Vma { start: 0x4000_0000, end, kernel_page_bytes: 2 << 20, flags: flags.to_owned(), ..Vma::default() }
    }

    #[test]
    fn an_empty_pool_is_the_reason_only_of_pages_that_were_not_promised() {
        let dir = tempfile::tempdir().expect("tempdir");
        let why = |left, flags| {
            pool(dir.path(), left);
            why_missing(&Settings::read(dir.path(), &dir.path().join("proc/7")), &mapping(flags))
        };
        let empty = Reason::PoolEmpty { page_bytes: 2 << 20, total_pages: 8, mapping_pages: 3 };
        assert_eq!(why(0, "rd wr nr ht"), empty);
        assert_eq!(why(0, "rd wr ht"), Reason::NotTouched);
        assert_eq!(why(1, "rd wr nr ht"), Reason::NotTouched);
    }
}
