//! What the kernel really mapped for a worker, from smaps: asked is not got.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use pagelab_residency::maps::{self, Vma};
use serde::{Deserialize, Serialize};

use super::slots::SlotCounts;

/// A worker's mappings and the memory they got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapReport {
    /// Pieces mapped, before and during the run.
    pub pieces_mapped: u64,
    /// Pieces unmapped to make room (`map_lifetime=evict`).
    pub pieces_evicted: u64,
    /// Blocks of which a byte was read before their piece went (`map_read_back=1`).
    #[serde(default)]
    pub blocks_read_back: u64,
    /// Pieces that got ordinary memory because the hugetlb pool had nothing left (`hugetlb_fallback=1`).
    pub pieces_fallen_back: u64,
    /// Pieces that MADV_COLLAPSE could not collapse.
    pub pieces_not_collapsed: u64,
    /// Files of engines on persistent memory, by what makes writes to them durable: `clwb`, `clflushopt`, `clflush`
    /// where they are mapped as persistent memory, `msync` where MAP_SYNC was refused.
    #[serde(default)]
    pub durable_by: BTreeMap<String, u64>,
    /// Bytes of one piece.
    pub piece_bytes: u64,
    /// Address of the first piece.
    pub first_address: u64,
    /// Distance from one piece's address to the next.
    pub stride_bytes: u64,
    /// Address space from the first piece's start to the last one's end.
    pub span_bytes: u64,
    /// The mappings when the measured window ended; null if they could not be read.
    pub at_end: Option<MappedMemory>,
    /// Why `at_end` is null.
    pub at_end_reason: Option<String>,
    /// The page tables' contents then, 2 MiB by 2 MiB; null if they were not read.
    #[serde(default)]
    pub slots: Option<SlotCounts>,
    /// Why `slots` is null, or leaves out some workers.
    #[serde(default)]
    pub slots_reason: Option<String>,
}

impl MapReport {
    /// The addresses between which the pieces lie.
    pub fn range(&self) -> (u64, u64) {
        (self.first_address, self.first_address + self.span_bytes)
    }

    /// Adds another's, where there is one, to that of `all`.
    pub fn merge_into(all: &mut Option<Self>, more: Option<&Self>) {
        match (all, more) {
            (Some(all), Some(more)) => all.merge(more),
            (all, more) => *all = all.take().or_else(|| more.cloned()),
        }
    }

    /// Adds another file's or worker's. Where its pieces lie is said of the first one only.
    pub fn merge(&mut self, other: &Self) {
        self.pieces_mapped += other.pieces_mapped;
        self.pieces_evicted += other.pieces_evicted;
        self.blocks_read_back += other.blocks_read_back;
        self.pieces_fallen_back += other.pieces_fallen_back;
        self.pieces_not_collapsed += other.pieces_not_collapsed;
        for (means, files) in &other.durable_by {
            *self.durable_by.entry(means.clone()).or_default() += files;
        }
        self.at_end = match (self.at_end.take(), &other.at_end) {
            (Some(mut mine), Some(theirs)) => {
                mine.merge(theirs);
                Some(mine)
            }
            (mine, theirs) => mine.or_else(|| theirs.clone()),
        };
        self.at_end_reason = self.at_end_reason.take().or_else(|| other.at_end_reason.clone());
        match (&mut self.slots, &other.slots) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine, theirs) => *mine = mine.take().or_else(|| theirs.clone()),
        }
        self.slots_reason = self.slots_reason.take().or_else(|| other.slots_reason.clone());
    }
}

/// Sums over the mappings of a range, in bytes, by the names of `/proc/PID/smaps`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedMemory {
    /// Number of mappings (VMAs).
    pub vmas: u64,
    /// Address space.
    pub size_bytes: u64,
    /// Resident, ordinary pages of all sizes.
    pub rss_bytes: u64,
    /// Of those, anonymous memory in huge pages.
    pub anon_huge_bytes: u64,
    /// Of those, shared memory in huge pages.
    pub shmem_pmd_bytes: u64,
    /// Of those, files in huge pages (never counts DAX).
    pub file_pmd_bytes: u64,
    /// hugetlb pages, private and shared.
    pub hugetlb_bytes: u64,
    /// Largest page size that a mapping is made of by definition (hugetlb), not by luck.
    pub kernel_page_bytes: u64,
}

impl MappedMemory {
    fn of(vma: &Vma) -> Self {
        Self {
            vmas: 1,
            size_bytes: vma.len_bytes(),
            rss_bytes: vma.resident_bytes,
            anon_huge_bytes: vma.anonymous_huge_bytes,
            shmem_pmd_bytes: vma.shared_huge_bytes,
            file_pmd_bytes: vma.file_huge_bytes,
            hugetlb_bytes: vma.hugetlb_bytes(),
            kernel_page_bytes: vma.kernel_page_bytes,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.vmas += other.vmas;
        self.size_bytes += other.size_bytes;
        self.rss_bytes += other.rss_bytes;
        self.anon_huge_bytes += other.anon_huge_bytes;
        self.shmem_pmd_bytes += other.shmem_pmd_bytes;
        self.file_pmd_bytes += other.file_pmd_bytes;
        self.hugetlb_bytes += other.hugetlb_bytes;
        self.kernel_page_bytes = self.kernel_page_bytes.max(other.kernel_page_bytes);
    }
}

/// Sums the mappings that start in one of `ranges`, each `[low, high)`. `root` is where `/proc` is looked for.
///
/// # Errors
/// The file cannot be read, in words.
pub(crate) fn mapped_memory(root: &Path, ranges: &[(u64, u64)]) -> Result<MappedMemory, String> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    let contains = |start: u64| {
        let after = ranges.partition_point(|(low, _)| *low <= start);
        after.checked_sub(1).and_then(|k| ranges.get(k)).is_some_and(|(_, high)| start < *high)
    };
    let folder = root.join("proc/self");
    let unreadable = |error: io::Error| format!("{}: {error}", folder.join("smaps").display());
    let mut sum = MappedMemory::default();
    for vma in maps::smaps(&folder).map_err(unreadable)? {
        let vma = vma.map_err(unreadable)?;
        if contains(vma.start) {
            sum.merge(&MappedMemory::of(&vma));
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
100000000000-100000200000 rw-p 00000000 00:00 0 
Size:               2048 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                2048 kB
AnonHugePages:      2048 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:         0 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:       0 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac sd 
100000400000-100000600000 rw-p 00000000 00:0f 88 /anon_hugepage (deleted)
Size:               2048 kB
KernelPageSize:     2048 kB
Rss:                   0 kB
Private_Hugetlb:    2048 kB
7ffff0000000-7ffff0021000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
Rss:                 132 kB
";

    #[test]
    fn only_the_range_counts() {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::create_dir_all(dir.path().join("proc/self")).expect("mkdir");
        std::fs::write(dir.path().join("proc/self/smaps"), SMAPS).expect("write");
        let sum = mapped_memory(dir.path(), &[(0x1000_0000_0000, 0x1000_0080_0000)]).expect("read");
        let expected = MappedMemory {
            vmas: 2,
            size_bytes: 4 << 20,
            rss_bytes: 2 << 20,
            anon_huge_bytes: 2 << 20,
            hugetlb_bytes: 2 << 20,
            kernel_page_bytes: 2 << 20,
            ..MappedMemory::default()
        };
        assert_eq!(sum, expected);
        assert!(mapped_memory(&dir.path().join("nowhere"), &[(0, 1)]).is_err());
    }

    #[test]
    fn this_process_has_a_stack() {
        let here = 0_u8;
        let address = (&raw const here) as u64;
        let sum = mapped_memory(Path::new("/"), &[(0, u64::MAX)]).expect("read");
        assert!(sum.vmas > 3 && sum.rss_bytes > 0 && address > 0);
    }
}
