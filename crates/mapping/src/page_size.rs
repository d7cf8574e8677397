//! Page sizes, and what this host has of them.

use std::fs;
use std::path::Path;

use crate::error::MapError;

/// Bytes of a 2 MiB page.
pub const HUGE_2M_BYTES: usize = 2 << 20;

/// Bytes of a 1 GiB page.
pub const HUGE_1G_BYTES: usize = 1 << 30;

/// Where the kernel lists the sizes of its hugetlb pools.
pub(crate) const POOLS: &str = "/sys/kernel/mm/hugepages";

/// The page size that a mapping asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// Base pages only (4 KiB on x86-64): anonymous memory and shared memory are told not to use transparent huge pages.
    Base,
    /// 2 MiB pages: addresses are aligned for them, and transparent huge pages are advised.
    Huge2M,
    /// 1 GiB pages, which only a hugetlb pool and DAX give.
    Huge1G,
    /// Whatever the host's settings give. Addresses are aligned for 2 MiB pages, nothing is advised, and nothing counts as
    /// less than asked.
    #[default]
    Any,
}

impl PageSize {
    /// Bytes of the page; `None` for [`PageSize::Any`].
    pub fn bytes(self) -> Option<usize> {
        match self {
            Self::Base => Some(base_page_bytes()),
            Self::Huge2M => Some(HUGE_2M_BYTES),
            Self::Huge1G => Some(HUGE_1G_BYTES),
            Self::Any => None,
        }
    }

    /// What addresses are aligned to, so that a mapping can have pages of this size.
    pub fn alignment_bytes(self) -> usize {
        match self {
            Self::Base => base_page_bytes(),
            Self::Huge2M | Self::Any => HUGE_2M_BYTES,
            Self::Huge1G => HUGE_1G_BYTES,
        }
    }

    /// The word for it in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Huge2M => "2M",
            Self::Huge1G => "1G",
            Self::Any => "any",
        }
    }
}

/// Bytes of a base page of the running kernel.
pub fn base_page_bytes() -> usize {
    rustix::param::page_size()
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
    /// The host has no pool of this size ([`MapError::NoSuchPageSize`]), or a file of it cannot be read.
    pub fn read(root: &Path, page_bytes: usize) -> Result<Self, MapError> {
        let pools = root.join(POOLS.trim_start_matches('/'));
        let folder = pools.join(format!("hugepages-{}kB", page_bytes >> 10));
        if !folder.is_dir() {
            return Err(no_such_size(&pools, page_bytes));
        }
        let number = |name: &str| {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).map_err(|error| MapError::unreadable(&path, &error))?;
            text.trim().parse().map_err(|_| MapError::Unreadable {
                path: path.display().to_string(),
                why: format!("found {:?}, needed a number", text.trim()),
            })
        };
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

fn no_such_size(pools: &Path, page_bytes: usize) -> MapError {
    let mut sizes: Vec<u64> = fs::read_dir(pools)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok())
        .collect();
    sizes.sort_unstable();
    let words: Vec<String> = sizes.iter().map(|kib| format!("{kib} KiB")).collect();
    MapError::NoSuchPageSize {
        needed_bytes: page_bytes,
        found: if words.is_empty() { "no hugetlb pool at all".to_owned() } else { words.join(", ") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let Err(MapError::NoSuchPageSize { needed_bytes, found }) = Pool::read(root.path(), HUGE_1G_BYTES) else {
            panic!("1 GiB is not there")
        };
        assert_eq!((needed_bytes, found.as_str()), (HUGE_1G_BYTES, "2048 KiB"));
        fs::write(folder.join("free_hugepages"), "many\n").expect("write");
        assert!(matches!(Pool::read(root.path(), HUGE_2M_BYTES), Err(MapError::Unreadable { .. })));
    }
}
