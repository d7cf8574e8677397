//! One file for each cause.

mod access_checked;
mod block_queue_settings;
mod cache_cold;
mod cache_refaults;
mod call_dearer;
mod cgroup_io_limit;
mod cgroup_memory_limit;
mod cpu_crowded;
mod cpu_frequency;
mod cpu_neighbour;
mod cpu_quota;
mod data_compressed;
mod dax_small_pages;
mod device_other;
mod device_slower;
mod faultaround_reduced;
mod file_fragmented;
mod fork_copies;
mod gc_more;
mod hugetlb_pool_exhausted;
mod io_direct;
mod io_smaller_requests;
mod journal_full;
mod ksm_separated;
mod map_churn;
mod map_misaligned;
mod memory_pinned;
mod mmap_lock_contended;
mod mount_changed;
mod numa_balancing;
mod numa_remote;
mod observed_by_others;
mod overlay_copy_up;
mod program_changed;
mod program_starts;
mod readahead_lost;
mod readahead_reduced;
mod reads_more;
mod reclaim_direct;
mod shmem_small_pages;
mod swap_traffic;
mod sync_dearer;
mod sync_more;
mod thp_clearing;
mod thp_compaction;
mod thp_disabled;
mod thp_fragmented;
mod thp_split;
mod tlb_shootdowns;
mod write_partial;
mod writeback_in_the_way;
mod writeback_throttled;
mod zswap_traffic;

#[cfg(test)]
mod scenes;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod truth;

use std::sync::LazyLock;

use super::Rule;
use super::component_rule::ComponentRule;

/// Every rule, in the order of the documentation. Of findings that are equal otherwise the earlier one comes first.
pub static RULES: LazyLock<Vec<&'static dyn Rule>> =
    LazyLock::new(|| WRITTEN.iter().copied().chain(DECLARED.iter().map(|rule| *rule as &dyn Rule)).collect());

/// Rules that look at mappings and requests one by one.
static WRITTEN: &[&dyn Rule] = &[
    &hugetlb_pool_exhausted::PoolExhausted,
    &thp_disabled::ThpDisabled,
    &map_misaligned::MapMisaligned,
    &readahead_reduced::ReadaheadReduced,
];

/// Rules that rest on components of the account of time.
static DECLARED: &[&ComponentRule] = &[
    &thp_fragmented::RULE,
    &thp_compaction::RULE,
    &thp_clearing::RULE,
    &thp_split::RULE,
    &shmem_small_pages::RULE,
    &dax_small_pages::RULE,
    &faultaround_reduced::RULE,
    &map_churn::RULE,
    &program_starts::RULE,
    &fork_copies::RULE,
    &tlb_shootdowns::RULE,
    &mmap_lock_contended::RULE,
    &observed_by_others::RULE,
    &ksm_separated::RULE,
    &memory_pinned::RULE,
    &numa_balancing::RULE,
    &numa_remote::RULE,
    &reclaim_direct::RULE,
    &cgroup_memory_limit::RULE,
    &cache_refaults::RULE,
    &cache_cold::RULE,
    &swap_traffic::RULE,
    &zswap_traffic::RULE,
    &readahead_lost::RULE,
    &file_fragmented::RULE,
    &io_smaller_requests::RULE,
    &reads_more::RULE,
    &io_direct::RULE,
    &write_partial::RULE,
    &journal_full::RULE,
    &overlay_copy_up::RULE,
    &sync_more::RULE,
    &sync_dearer::RULE,
    &writeback_throttled::RULE,
    &writeback_in_the_way::RULE,
    &block_queue_settings::RULE,
    &device_other::RULE,
    &device_slower::RULE,
    &cgroup_io_limit::RULE,
    &mount_changed::RULE,
    &cpu_quota::RULE,
    &cpu_neighbour::RULE,
    &cpu_crowded::RULE,
    &cpu_frequency::RULE,
    &program_changed::RULE,
    &access_checked::RULE,
    &gc_more::RULE,
    &data_compressed::RULE,
    &call_dearer::RULE,
];
