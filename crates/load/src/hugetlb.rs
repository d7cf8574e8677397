//! The hugetlb pools: which page sizes there are, how many pages are left, what to type when there are too few.

use std::path::Path;

use pagelab_residency::pool::{self, POOLS, Pool};

use crate::error::LoadError;

/// From this size on pages are more than the buddy allocator hands out: at run time the kernel has to find a free stretch of memory.
const GIGANTIC_BYTES: u64 = 1 << 30;

/// Checks that the kernel has pages of this size at all.
///
/// # Errors
/// [`LoadError::Host`] with the sizes there are.
pub fn check_size(root: &Path, job: &str, page_bytes: u64) -> Result<(), LoadError> {
    let sizes = pool::sizes(root);
    if sizes.contains(&page_bytes) {
        return Ok(());
    }
    let list: Vec<String> = sizes.iter().map(u64::to_string).collect();
    Err(LoadError::Host {
        what: format!("job '{job}': hugetlb={page_bytes}"),
        found: if list.is_empty() {
            "no hugetlb pools in this kernel".to_owned()
        } else {
            format!("pools of pages of {} bytes", list.join(", "))
        },
        needed: format!("a pool of pages of {page_bytes} bytes"),
        command: if page_bytes == GIGANTIC_BYTES && cfg!(target_arch = "x86_64") {
            "choose one of the sizes found (1 GiB pages need a processor with the flag pdpe1gb: grep -cw pdpe1gb /proc/cpuinfo)"
                .to_owned()
        } else {
            "choose one of the sizes found".to_owned()
        },
    })
}

/// A job's remedy for a pool that is too small, besides making the pool larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resort {
    /// Let pieces have ordinary memory.
    Fallback,
    /// Nothing.
    None,
}

/// The error for a pool that is too small, with its size and how to make it large enough.
pub fn pool_too_small(root: &Path, job: &str, page_bytes: u64, needed_pages: u64, resort: Resort) -> LoadError {
    let what = format!("job '{job}': mapping hugetlb pages of {page_bytes} bytes");
    let needed = format!("{needed_pages} more");
    match Pool::read(root, page_bytes as usize) {
        Ok(pool) => {
            let file = format!("{POOLS}/{}/nr_hugepages", pool::folder_name(page_bytes));
            let total = pool.total_pages + needed_pages.saturating_sub(pool.available_pages());
            let boot = if page_bytes >= GIGANTIC_BYTES {
                format!(
                    " (read it back; where memory has no free stretch of that size any more, boot with hugepagesz={}G hugepages={total})",
                    page_bytes >> 30
                )
            } else {
                String::new()
            };
            let fallback = match resort {
                Resort::Fallback => ", or let pieces fall back to ordinary memory with hugetlb_fallback=1",
                Resort::None => "",
            };
            LoadError::Host {
                what,
                found: format!(
                    "{} pages available (of {} in the pool {} are free, {} of those reserved)",
                    pool.available_pages(),
                    pool.total_pages,
                    pool.free_pages,
                    pool.reserved_pages
                ),
                needed,
                command: format!("echo {total} > {file}{boot}{fallback}"),
            }
        }
        Err(error) => LoadError::Host {
            what,
            found: error.to_string(),
            needed,
            command: "choose another hugetlb= size".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake_pool(total: u64, free: u64, reserved: u64, overcommit: u64, surplus: u64) -> tempfile::TempDir {
        pool_of(2 << 20, total, free, reserved, overcommit, surplus)
    }

    fn pool_of(page: u64, total: u64, free: u64, reserved: u64, overcommit: u64, surplus: u64) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("tempdir");
        let pool = dir.path().join(POOLS.trim_start_matches('/')).join(pool::folder_name(page));
        std::fs::create_dir_all(&pool).expect("mkdir");
        for (name, value) in [
            ("nr_hugepages", total),
            ("free_hugepages", free),
            ("resv_hugepages", reserved),
            ("nr_overcommit_hugepages", overcommit),
            ("surplus_hugepages", surplus),
        ] {
            std::fs::write(pool.join(name), format!("{value}\n")).expect("write");
        }
        dir
    }

    #[test]
    fn promised_pages_are_not_available() {
        let dir = fake_pool(128, 78, 50, 10, 4);
        assert_eq!(Pool::read(dir.path(), 2 << 20).map(|pool| pool.available_pages()), Ok(28 + 6));
        assert_eq!(pool::sizes(dir.path()), vec![2 << 20]);
        assert!(check_size(dir.path(), "j", 2 << 20).is_ok());
        let error = check_size(dir.path(), "j", 1 << 30).expect_err("no such pool").to_string();
        assert!(error.contains("2097152") && error.contains("1073741824"), "{error}");
        assert_eq!(error.contains("pdpe1gb"), cfg!(target_arch = "x86_64"), "{error}");
        let none = check_size(&dir.path().join("nowhere"), "j", 2 << 20).expect_err("no pools").to_string();
        assert!(none.contains("no hugetlb pools in this kernel") && !none.contains("pdpe1gb"), "{none}");
    }

    #[test]
    fn the_message_has_found_needed_and_command() {
        let dir = fake_pool(8, 3, 0, 0, 0);
        let error = pool_too_small(dir.path(), "cache", 2 << 20, 16, Resort::Fallback).to_string();
        for part in [
            "3 pages available",
            "needed 16 more",
            "echo 21 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "hugetlb_fallback=1",
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("boot with"), "{error}");
        let without = pool_too_small(dir.path(), "cache", 2 << 20, 16, Resort::None).to_string();
        assert!(!without.contains("hugetlb_fallback"), "{without}");
        let dir = pool_of(1 << 30, 0, 0, 0, 0, 0);
        let gigantic = pool_too_small(dir.path(), "cache", 1 << 30, 2, Resort::None).to_string();
        for part in ["echo 2 > /sys/kernel/mm/hugepages/hugepages-1048576kB/", "hugepagesz=1G hugepages=2"] {
            assert!(gigantic.contains(part), "{gigantic}");
        }
    }
}
