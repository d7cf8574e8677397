//! What a process and its children have in memory, by the size of the pages, from `/proc/PID/smaps`.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use pagelab_residency::maps::{self, Vma};
use serde::Serialize;

use crate::files::{trimmed, under};

/// Bytes in memory by kind of memory and size of page. Shared memory counts in each process that maps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Heap and other private anonymous memory in all, without the pool's pages, bytes.
    pub heap_bytes: u64,
    /// Of those, in transparent huge pages.
    pub heap_thp_bytes: u64,
    /// Private memory on pages of a hugetlb pool.
    pub heap_hugetlb_bytes: u64,
    /// Shared memory in all (System V segments, memfd, shared anonymous maps, files on tmpfs), without the pool's pages.
    pub shm_bytes: u64,
    /// Of those, in transparent huge pages.
    pub shm_thp_bytes: u64,
    /// Shared memory and files on pages of a hugetlb pool.
    pub shm_hugetlb_bytes: u64,
    /// Files mapped otherwise: text, data, and files of the program's own.
    pub file_bytes: u64,
    /// Of those, in transparent huge pages.
    pub file_thp_bytes: u64,
    /// Private anonymous memory that was advised to use huge pages (madvise), touched or not.
    pub advised_bytes: u64,
    /// Private memory mapped from a hugetlb pool, touched or not.
    pub pool_mapped_bytes: u64,
}

impl Memory {
    /// Bytes on huge pages of all kinds.
    pub fn huge_bytes(&self) -> u64 {
        let thp = self.heap_thp_bytes + self.shm_thp_bytes + self.file_thp_bytes;
        thp + self.heap_hugetlb_bytes + self.shm_hugetlb_bytes
    }

    /// Bytes in memory.
    pub fn resident_bytes(&self) -> u64 {
        self.heap_bytes + self.shm_bytes + self.file_bytes + self.heap_hugetlb_bytes + self.shm_hugetlb_bytes
    }

    fn fields(&mut self) -> [&mut u64; 10] {
        [
            &mut self.heap_bytes,
            &mut self.heap_thp_bytes,
            &mut self.heap_hugetlb_bytes,
            &mut self.shm_bytes,
            &mut self.shm_thp_bytes,
            &mut self.shm_hugetlb_bytes,
            &mut self.file_bytes,
            &mut self.file_thp_bytes,
            &mut self.advised_bytes,
            &mut self.pool_mapped_bytes,
        ]
    }

    /// Adds another process's memory.
    pub fn add(&mut self, mut other: Memory) {
        self.fields().into_iter().zip(other.fields()).for_each(|(sum, more)| *sum += *more);
    }

    /// Keeps the larger one of each figure.
    pub fn raise_to(&mut self, mut other: Memory) {
        self.fields().into_iter().zip(other.fields()).for_each(|(most, now)| *most = (*most).max(*now));
    }
}

/// The memory of a process and of all its descendants that are still there, and how many they are; `None` if none of them
/// could be read.
pub(super) fn of_tree(root: &Path, pid: u32) -> Option<(Memory, u32)> {
    let mut sum = Memory::default();
    let mut read = 0;
    for pid in tree(root, pid) {
        if let Ok(Some(memory)) = of_process(root, pid) {
            sum.add(memory);
            read += 1;
        }
    }
    (read > 0).then_some((sum, read))
}

/// A process and its descendants.
fn tree(root: &Path, pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    while let Some(pid) = open.pop() {
        if !found.insert(pid) {
            continue;
        }
        for task in crate::files::names(&under(root, &format!("/proc/{pid}/task"))) {
            let children = trimmed(root, &format!("/proc/{pid}/task/{task}/children")).unwrap_or_default();
            open.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found
}

/// The memory of one process; `None` if it has none any more: it has ended and waits to be looked after.
fn of_process(root: &Path, pid: u32) -> io::Result<Option<Memory>> {
    let mut sum = None;
    for vma in maps::smaps(&under(root, &format!("/proc/{pid}")))? {
        add_mapping(sum.get_or_insert_default(), &vma?);
    }
    Ok(sum)
}

/// Shared memory in the sense of [`Memory::shm_bytes`].
fn is_shared(vma: &Vma) -> bool {
    let named = ["/dev/shm/", "/anon_hugepage"].iter().any(|name| vma.path.starts_with(name.as_bytes()));
    vma.is_shared() && (vma.is_shared_memory() || named && vma.device.starts_with("00:"))
}

fn add_mapping(sum: &mut Memory, vma: &Vma) {
    if vma.is_hugetlb() || vma.hugetlb_bytes() > 0 {
        // A private map of the pool is listed as one of a file without a name. Private_Hugetlb and Shared_Hugetlb tell how
        // many processes have a page in their tables, which says nothing of what kind of map it is.
        if vma.is_shared() {
            sum.shm_hugetlb_bytes += vma.hugetlb_bytes();
        } else {
            sum.heap_hugetlb_bytes += vma.hugetlb_bytes();
            sum.pool_mapped_bytes += vma.len_bytes();
        }
        return;
    }
    let is_heap = !vma.is_file();
    // Pages of a private file map that were written are the program's own, like its heap.
    let own = if is_heap { vma.resident_bytes } else { vma.anonymous_bytes };
    sum.heap_bytes += own;
    sum.heap_thp_bytes += vma.anonymous_huge_bytes;
    sum.advised_bytes += if is_heap && vma.has_flag("hg") { vma.len_bytes() } else { 0 };
    let rest = vma.resident_bytes.saturating_sub(own);
    if is_shared(vma) || vma.shared_huge_bytes > 0 {
        sum.shm_bytes += rest;
        sum.shm_thp_bytes += vma.shared_huge_bytes;
    } else {
        sum.file_bytes += rest;
        sum.file_thp_bytes += vma.file_huge_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Root;

    const SMAPS: &str = "\
55d0c0000000-55d0c4000000 rw-p 00000000 00:00 0                          [heap]
Size:              65536 kB
Rss:               65536 kB
Anonymous:         65536 kB
AnonHugePages:     63488 kB
VmFlags: rd wr mr mw me ac sd hg 
7f0000000000-7f0000400000 rw-p 00000000 00:10 9                          /anon_hugepage (deleted)
Rss:                   0 kB
Private_Hugetlb:    2048 kB
VmFlags: rd wr mr mw me de ht sd 
7f0000400000-7f0000800000 rw-s 00000000 00:10 32768                      /SYSV00000000 (deleted)
Rss:                   0 kB
Private_Hugetlb:    4096 kB
VmFlags: rd wr sh mr mw me ms de ht sd 
7f0000800000-7f0000c00000 rw-s 00000000 00:01 0                          /SYSV00000000 (deleted)
Rss:                4096 kB
Anonymous:             0 kB
ShmemPmdMapped:     4096 kB
VmFlags: rd wr sh mr mw me ms sd 
7f0001000000-7f0001010000 rw-p 00000000 fe:00 77                         /usr/bin/program
Rss:                  64 kB
Anonymous:            16 kB
VmFlags: rd wr mr mw me ac sd 
";

    #[test]
    fn mappings_are_summed_by_kind_and_page_size() {
        let kib = |kib: u64| kib << 10;
        let expected = Memory {
            heap_bytes: kib(65_536 + 16),
            heap_thp_bytes: kib(63_488),
            heap_hugetlb_bytes: kib(2048),
            shm_bytes: kib(4096),
            shm_thp_bytes: kib(4096),
            shm_hugetlb_bytes: kib(4096),
            file_bytes: kib(48),
            advised_bytes: kib(65_536),
            pool_mapped_bytes: kib(4096),
            ..Memory::default()
        };
        let root = Root::new();
        root.write("/proc/7/smaps", SMAPS);
        let found = of_process(root.path(), 7).expect("read").expect("it has memory");
        assert_eq!(found, expected);
        assert_eq!(found.huge_bytes(), kib(63_488 + 2048 + 4096 + 4096));
    }

    #[test]
    fn children_count_and_the_dead_do_not() {
        let root = Root::new();
        root.write("/proc/7/task/7/children", "8 9\n");
        root.write("/proc/7/smaps", SMAPS);
        root.write("/proc/8/task/8/children", "");
        root.write("/proc/8/smaps", SMAPS);
        root.write("/proc/9/smaps", "");
        let (memory, processes) = of_tree(root.path(), 7).expect("read");
        assert_eq!((memory.shm_thp_bytes, processes), (8192 << 10, 2));
        assert_eq!(of_tree(root.path(), 9), None);
    }
}
