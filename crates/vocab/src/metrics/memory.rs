//! Memory beyond `/proc/vmstat`: levels, pools, fragmentation, nodes, slabs.

use super::Direction::{HigherIsBetter as HIGH, LowerIsBetter as LOW, Neutral};
use super::MetricKind::{Counter, Gauge};
use super::Unit::{Bytes, Count, HugePages, Pages};
use super::{FieldRule, Group, Member};

/// A level in bytes.
const fn b(field: &'static str, help: &'static str) -> Member {
    Member::new(field, Gauge, Bytes, Neutral, help)
}

/// `/proc/meminfo`.
#[rustfmt::skip]
pub(super) const MEMINFO: Group = Group {
    prefix: "meminfo.",
    source: "/proc/meminfo",
    instance: None,
    note: "The kernel's field in lower case, brackets as underscores (Active(anon) is active_anon), kB turned into bytes.",
    members: &[
        b("memtotal_bytes", "Memory that the kernel manages."),
        b("memfree_bytes", "Memory nobody uses."),
        b("memavailable_bytes", "Memory that programs could get without swapping, as the kernel estimates it."),
        b("buffers_bytes", "Page cache of block devices."),
        b("cached_bytes", "Page cache of files, shared memory included."),
        b("dirty_bytes", "Memory waiting to be written back.").self_inflicted(),
        b("writeback_bytes", "Memory being written back.").self_inflicted(),
        b("anonpages_bytes", "Anonymous memory mapped into processes."),
        b("anonhugepages_bytes", "Anonymous memory in huge pages that a single PMD entry maps."),
        b("shmemhugepages_bytes", "Shared memory and tmpfs in huge pages."),
        b("shmempmdmapped_bytes", "Shared memory mapped by PMD entries."),
        b("filehugepages_bytes", "Page cache in huge pages."),
        b("filepmdmapped_bytes", "Page cache mapped by PMD entries; DAX is not counted."),
        b("hugetlb_bytes", "All memory in hugetlb pools, of every size."),
        b("mapped_bytes", "Files mapped into processes."),
        b("shmem_bytes", "Shared memory and tmpfs."),
        b("pagetables_bytes", "Memory in user page tables: 2 MiB pages save most of it."),
        b("slab_bytes", "Kernel objects."),
        b("sreclaimable_bytes", "Kernel objects that can be reclaimed."),
        b("sunreclaim_bytes", "Kernel objects that cannot be reclaimed."),
        b("kernelstack_bytes", "Kernel stacks."),
        b("mlocked_bytes", "Memory locked by mlock."),
        b("swapfree_bytes", "Swap space nobody uses."),
        b("committed_as_bytes", "Memory promised to programs, touched or not."),
        b("directmap4k_bytes", "The kernel's direct map in 4 KiB entries; grows when larger entries are split."),
        b("directmap2m_bytes", "The kernel's direct map in 2 MiB entries."),
        b("directmap1g_bytes", "The kernel's direct map in 1 GiB entries."),
        b("hugepagesize_bytes", "The default hugetlb page size."),
        Member::new("hugepages_total", Gauge, HugePages, Neutral, "hugetlb pages of the default size, surplus included."),
        Member::new("hugepages_free", Gauge, HugePages, Neutral, "Of those, the pages not handed out; reserved ones are still in it."),
        Member::new("hugepages_rsvd", Gauge, HugePages, Neutral, "Free pages promised to mappings that have not touched them."),
        Member::new("hugepages_surp", Gauge, HugePages, Neutral, "Pages beyond nr_hugepages, made on demand."),
    ],
    rules: &[
        FieldRule::new("", "_bytes", Gauge, Bytes, Neutral, "A level that the kernel gives in kB."),
        FieldRule::new("", "", Gauge, Count, Neutral, "A number that the kernel gives without a unit."),
    ],
};

/// `/sys/kernel/mm/hugepages`.
#[rustfmt::skip]
pub(super) const HUGETLB: Group = Group {
    prefix: "hugetlb.",
    source: "/sys/kernel/mm/hugepages/hugepages-<size>/",
    instance: Some("page size as the kernel spells it: 2048kB"),
    note: "Mapped but untouched pages are reserved and still free; touched ones leave free.",
    members: &[
        Member::new("nr_pages", Gauge, HugePages, Neutral, "Pages in the pool, surplus included."),
        Member::new("free_pages", Gauge, HugePages, Neutral, "Pages not handed out."),
        Member::new("resv_pages", Gauge, HugePages, Neutral, "Free pages promised to mappings that have not touched them."),
        Member::new("surplus_pages", Gauge, HugePages, Neutral, "Pages beyond nr_hugepages, made on demand."),
    ],
    rules: &[],
};

/// Counters of every transparent huge page size (since Linux 6.10).
#[rustfmt::skip]
pub(super) const MTHP: Group = Group {
    prefix: "mthp.",
    source: "/sys/kernel/mm/transparent_hugepage/hugepages-<size>/stats/",
    instance: Some("page size as the kernel spells it: 64kB"),
    note: "Read once a second. Kernels before 6.10 have no such files and the rows are absent.",
    members: &[
        Member::new("anon_fault_alloc", Counter, Count, Neutral, "Faults answered with a page of this size."),
        Member::new("anon_fault_fallback", Counter, Count, LOW, "Faults that wanted this size and fell back to a smaller one."),
        Member::new("shmem_alloc", Counter, Count, Neutral, "Shared-memory pages allocated in this size."),
        Member::new("shmem_fallback", Counter, Count, LOW, "Shared-memory allocations that fell back to a smaller size."),
        Member::new("split", Counter, Count, LOW, "Pages of this size split."),
        Member::new("split_deferred", Counter, Count, LOW, "Pages of this size unmapped in part and queued for splitting."),
        Member::new("swpout", Counter, Count, LOW, "Pages of this size swapped out whole."),
        Member::new("nr_anon", Gauge, HugePages, Neutral, "Anonymous pages of this size in the system."),
    ],
    rules: &[],
};

/// `/proc/buddyinfo`.
pub(super) const BUDDY: Group = Group {
    prefix: "buddy.",
    source: "/proc/buddyinfo",
    instance: Some("node/zone/order: 0/Normal/9"),
    note: "Order k blocks are 2^k base pages; order 9 is 2 MiB where pages are 4 KiB. Pages in per-CPU lists are not in it.",
    members: &[Member::new(
        "free_blocks",
        Gauge,
        Count,
        Neutral,
        "Free blocks of exactly this order; none from order 9 up means that a huge page needs compaction.",
    )],
    rules: &[],
};

/// Per-node `numastat`.
#[rustfmt::skip]
pub(super) const NUMA: Group = Group {
    prefix: "numa.",
    source: "/sys/devices/system/node/node<N>/numastat",
    instance: Some("node number"),
    note: "The per-node form of vmstat.numa_*.",
    members: &[
        Member::new("numa_hit", Counter, Pages, Neutral, "Pages allocated on this node as asked."),
        Member::new("numa_miss", Counter, Pages, LOW, "Pages allocated on this node although another was asked for."),
        Member::new("numa_foreign", Counter, Pages, LOW, "Pages asked of this node and allocated on another."),
        Member::new("interleave_hit", Counter, Pages, Neutral, "Pages placed here as an interleave policy wanted."),
        Member::new("local_node", Counter, Pages, HIGH, "Pages allocated here by a CPU of this node."),
        Member::new("other_node", Counter, Pages, LOW, "Pages allocated here by a CPU of another node."),
    ],
    rules: &[FieldRule::new("", "", Counter, Pages, Neutral, "A per-node allocation counter of the kernel.")],
};

/// `/proc/slabinfo`.
#[rustfmt::skip]
pub(super) const SLAB: Group = Group {
    prefix: "slab.",
    source: "/proc/slabinfo",
    instance: Some("slab cache"),
    note: "Read once a second; needs root. Caches of equal size and flags are merged by the kernel and show under one name.",
    members: &[
        b("active_bytes", "Objects in use times their size; SLUB estimates the objects of partly filled slabs."),
        b("total_bytes", "Memory that the cache holds: slabs times pages per slab."),
    ],
    rules: &[],
};
