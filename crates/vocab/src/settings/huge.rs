//! `thp.*` and `hugetlb.*`: the two ways to huge pages.
//!
//! Meanings follow Documentation/admin-guide/mm/transhuge.rst and hugetlbpage.rst of the kernel.

use super::{Companions, Form, SettingDef, settings};

/// Starting or stopping khugepaged recomputes min_free_kbytes (mm/khugepaged.c, set_recommended_min_free_kbytes).
const MIN_FREE: Companions = Companions::Rewritten(&["sysctl.vm.min_free_kbytes"]);

pub(super) const DEFS: &[SettingDef] = settings! {
    Host "thp.enabled" at "/sys/kernel/mm/transparent_hugepage/enabled", High ["thp", "faults", "memory"]
        { form: Form::Choice, companions: MIN_FREE }
        : "Which anonymous memory may get transparent huge pages: `always`, `madvise` (only what asked for them) or `never`.";
    Host "thp.defrag" at "/sys/kernel/mm/transparent_hugepage/defrag", High ["thp", "faults", "memory", "reclaim"]
        { form: Form::Choice }
        : "How hard a fault tries to make a huge page when none is free: `always` compacts at once, `defer` leaves it to kcompactd, `defer+madvise`, `madvise`, `never`.";
    Host "thp.shmem_enabled" at "/sys/kernel/mm/transparent_hugepage/shmem_enabled", High ["thp", "faults", "memory"]
        { form: Form::Choice, companions: MIN_FREE }
        : "Huge pages for shared anonymous memory, memfd and SysV segments (a mounted tmpfs has its own `huge=` option).";
    Host "thp.use_zero_page" at "/sys/kernel/mm/transparent_hugepage/use_zero_page", Some ["thp", "faults", "memory"]
        : "Whether reading untouched memory maps the one huge page of zeros.";
    Host "thp.shrink_underused" at "/sys/kernel/mm/transparent_hugepage/shrink_underused", Some ["thp", "reclaim", "memory"]
        : "Whether huge pages that are mostly zero are split when memory runs short (6.12 and later).";
    ReadOnly "thp.hpage_pmd_size" at "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", Some ["thp", "memory"]
        : "Bytes of the largest transparent huge page.";
    Host "thp.<size>.enabled" at "/sys/kernel/mm/transparent_hugepage/hugepages-<folder>/enabled", High ["thp", "faults", "memory"]
        { form: Form::Choice, companions: MIN_FREE }
        : "The same for anonymous pages of one size; `inherit` takes thp.enabled.";
    Host "thp.<size>.shmem_enabled" at "/sys/kernel/mm/transparent_hugepage/hugepages-<folder>/shmem_enabled", High ["thp", "faults", "memory"]
        { form: Form::Choice, companions: MIN_FREE }
        : "The same for shared memory of one size; `inherit` takes thp.shmem_enabled.";
    Host "thp.khugepaged.defrag" at "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", Some ["thp", "memory", "reclaim"]
        : "Whether khugepaged may reclaim and compact to get a huge page.";
    Host "thp.khugepaged.max_ptes_none" at "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none", Some ["thp", "memory"]
        : "How many of a huge page's base pages may be absent when khugepaged collapses it.";
    Host "thp.khugepaged.max_ptes_shared" at "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_shared", Low ["thp", "memory"]
        : "How many of them may be shared with another process.";
    Host "thp.khugepaged.max_ptes_swap" at "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_swap", Low ["thp", "swap", "memory"]
        : "How many of them may be brought back from swap for it.";
    Host "thp.khugepaged.pages_to_scan" at "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", Low ["thp", "memory", "cpu"]
        : "Base pages that khugepaged looks at in one round.";
    Host "thp.khugepaged.scan_sleep_millisecs" at "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", Low ["thp", "memory", "cpu"]
        : "Pause of khugepaged between rounds.";
    Host "thp.khugepaged.alloc_sleep_millisecs" at "/sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs", Low ["thp", "memory"]
        : "Pause of khugepaged after it failed to get a huge page.";
    ReadOnly "thp.khugepaged.pages_collapsed" at "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed", Nil ["thp"]
        { state: true } : "Huge pages that khugepaged made since boot.";
    ReadOnly "thp.khugepaged.full_scans" at "/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans", Nil ["thp"]
        { state: true } : "Rounds of khugepaged over all registered memory since boot.";
    Host "thp.khugepaged.<name>" at "/sys/kernel/mm/transparent_hugepage/khugepaged/<name>", Low ["thp", "memory"]
        { catch_all: true } : "Any other knob of khugepaged that the kernel has.";
    Host "thp.<size>.<name>" at "/sys/kernel/mm/transparent_hugepage/hugepages-<folder>/<name>", Some ["thp", "memory"]
        { catch_all: true, form: Form::Choice } : "Any other knob of one size that the kernel has.";
    Host "thp.<name>" at "/sys/kernel/mm/transparent_hugepage/<name>", Some ["thp", "memory"]
        { catch_all: true, form: Form::Choice } : "Any other knob of transparent huge pages that the kernel has.";

    ReadOnly "hugetlb.default_size" at "Hugepagesize in /proc/meminfo", Some ["hugetlb", "memory"]
        : "The huge page size meant where none is named (MAP_HUGETLB, hugetlbfs without pagesize=, vm.nr_hugepages).";
    Host "hugetlb.<size>.nr_hugepages" at "/sys/kernel/mm/hugepages/hugepages-<folder>/nr_hugepages", High ["hugetlb", "faults", "memory"]
        { form: Form::Pool, companions: Companions::Rewritten(&["hugetlb.<size>.*.nr_hugepages"]) }
        : "Huge pages kept in the pool of that size, without the surplus. A request may be granted in part: read what was got.";
    Host "hugetlb.<size>.nr_overcommit_hugepages" at "/sys/kernel/mm/hugepages/hugepages-<folder>/nr_overcommit_hugepages", High ["hugetlb", "faults", "memory"]
        : "Surplus pages that may be taken from free memory once the pool is used up.";
    ReadOnly "hugetlb.<size>.nr_hugepages_mempolicy" at "/sys/kernel/mm/hugepages/hugepages-<folder>/nr_hugepages_mempolicy", Nil ["hugetlb", "numa"]
        { state: true } : "The pool as the reader's memory policy shows it; includes surplus pages.";
    ReadOnly "hugetlb.<size>.free_hugepages" at "/sys/kernel/mm/hugepages/hugepages-<folder>/free_hugepages", Some ["hugetlb", "faults"]
        { state: true } : "Pages of the pool that nobody has touched yet; reserved ones are still among them.";
    ReadOnly "hugetlb.<size>.resv_hugepages" at "/sys/kernel/mm/hugepages/hugepages-<folder>/resv_hugepages", Some ["hugetlb"]
        { state: true } : "Pages promised to a mapping and not touched yet.";
    ReadOnly "hugetlb.<size>.surplus_hugepages" at "/sys/kernel/mm/hugepages/hugepages-<folder>/surplus_hugepages", Some ["hugetlb"]
        { state: true } : "Pages above nr_hugepages; they go back to free memory when released.";
    ReadOnly "hugetlb.<size>.demote_size" at "/sys/kernel/mm/hugepages/hugepages-<folder>/demote_size", Nil ["hugetlb"]
        : "The smaller size that `demote` splits pages into.";
    ReadOnly "hugetlb.<size>.demote" at "/sys/kernel/mm/hugepages/hugepages-<folder>/demote", Nil ["hugetlb"]
        { reading: super::Reading::Never } : "Write-only: splits that many pages. Not offered, since it cannot be undone.";
    Host "hugetlb.<size>.<node>.nr_hugepages" at "/sys/devices/system/node/<node>/hugepages/hugepages-<folder>/nr_hugepages", High ["hugetlb", "numa", "memory"]
        { form: Form::Pool, companions: Companions::Rewritten(&["hugetlb.<size>.nr_hugepages"]) }
        : "The part of the pool on one NUMA node.";
    ReadOnly "hugetlb.<size>.<node>.free_hugepages" at "/sys/devices/system/node/<node>/hugepages/hugepages-<folder>/free_hugepages", Low ["hugetlb", "numa"]
        { state: true } : "Its untouched pages.";
    ReadOnly "hugetlb.<size>.<node>.surplus_hugepages" at "/sys/devices/system/node/<node>/hugepages/hugepages-<folder>/surplus_hugepages", Low ["hugetlb", "numa"]
        { state: true } : "Its surplus pages.";
    ReadOnly "hugetlb.<size>.<node>.<name>" at "/sys/devices/system/node/<node>/hugepages/hugepages-<folder>/<name>", Low ["hugetlb", "numa"]
        { catch_all: true } : "Any other figure of a node's pool that the kernel has.";
    ReadOnly "hugetlb.<size>.<name>" at "/sys/kernel/mm/hugepages/hugepages-<folder>/<name>", Low ["hugetlb"]
        { catch_all: true } : "Any other figure of a pool that the kernel has.";
};
