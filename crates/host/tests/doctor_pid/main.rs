//! `doctor --pid` against ways of not getting a huge page that are made on purpose: the reason that is named is the one that was
//! produced, and only where smaps says that the huge page is missing.
//!
//! Ways that look alike from outside stand side by side: small pages and nothing that forbids huge ones, because the entries came
//! earlier, because a control group was full, because memory was fragmented, or because `defrag` let nobody tidy it; and pages of a
//! pool that are not there, because nobody touched them, because the pool, the group or the mount had nothing left.

mod fragments;
mod limits;
#[path = "../doctor_path/stage.rs"]
#[allow(dead_code, reason = "the tests of files use more of it")]
mod stage;
mod standing;
mod table;

use std::path::Path;

use fragments::{Fragments, blocks};
use limits::{Groups, Swap, limit};
use pagelab_host::guard::KernelDoor;
use pagelab_host::hugetlb::PoolState;
use pagelab_host::hugetlb::set::{SetReport, SetRequest, set_with};
use pagelab_host::hugetlb::shortage::ShortReason;
use stage::{Changed, Mounted};
use standing::Standing;
use table::{Case, Table};

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const SIZE_2M: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";
const SIZE_64K: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
const DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
const SHMEM: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const MAX_PTES_NONE: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none";
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const OVERCOMMIT: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages";
const MEMORY_V1: &str = "/sys/fs/cgroup/memory";
const UNIFIED: &str = "/sys/fs/cgroup/unified";

/// What the ways expect, whatever the host's settings are: THP by advice, and khugepaged asleep, which would gather what is looked at.
fn calm() -> [Changed; 4] {
    [
        Changed::to(ENABLED, "madvise"),
        Changed::to(DEFRAG, "madvise"),
        Changed::to("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", "1"),
        Changed::to("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "600000"),
    ]
}

#[test]
#[ignore = "changes host settings, pools, groups, mounts and swap; run by make test with --ignored --test-threads=1"]
fn host_reasons_are_those_that_were_produced() {
    let _calm = calm();
    let mut table = Table::default();
    settings_of_anonymous_memory(&mut table);
    addresses(&mut table);
    lost_huge_pages(&mut table);
    swapped_and_merged(&mut table);
    late(&mut table);
    tmpfs(&mut table);
    shared_memory(&mut table);
    other_files(&mut table);
    pool(&mut table);
    memory_groups(&mut table);
    table.print();
    assert_eq!(table.wrong, 0);
    assert!(table.reasons.len() >= 30, "{} reasons", table.reasons.len());
}

fn settings_of_anonymous_memory(table: &mut Table) {
    let mut check = |what, way, expected: &[(&'static str, u64)], huge, names| {
        table.check(&Case::new(what, &[way], expected, huge).naming(names));
    };
    check("advised, and nothing in the way", "advised", &[], 4, "");
    check("not advised, enabled=madvise", "plain", &[("thp_only_by_advice", 4)], 0, "transparent_hugepage/enabled");
    check("advised, half of it touched", "half_touched", &[("not_touched", 2)], 2, "");
    let never = Changed::to(ENABLED, "never");
    check("advised, enabled=never", "advised", &[("thp_never", 4)], 0, "transparent_hugepage/enabled");
    drop(never);
    let _always = Changed::to(ENABLED, "always");
    check("not advised, enabled=always", "plain", &[], 4, "");
    check("MADV_NOHUGEPAGE", "against", &[("advised_against", 4)], 0, "");
    check("PR_SET_THP_DISABLE", "disabled", &[("disabled_for_process", 4)], 0, "");
    let except = "disabled_except_advised";
    check("PR_THP_DISABLE_EXCEPT_ADVISED, not advised", except, &[(except, 4)], 0, "madvise");
    check("the same, advised", "disabled_except_advised_and_advised", &[], 4, "");
    let size = Changed::to(SIZE_2M, "madvise");
    check("not advised, enabled=always, 2048kB=madvise", "plain", &[("thp_only_by_advice", 4)], 0, "hugepages-2048kB");
    check("the same, advised", "advised", &[], 4, "");
    drop(size);
    let _never = Changed::to(SIZE_2M, "never");
    check("enabled=always, 2048kB=never", "advised", &[("thp_size_never", 4)], 0, "hugepages-2048kB");
    let _small = Changed::to(SIZE_64K, "always");
    check("enabled=always, 2048kB=never, 64kB=always", "plain", &[("smaller_size", 4)], 0, "hugepages-2048kB");
}

fn addresses(table: &mut Table) {
    let mut check = |what, way, expected: &[(&'static str, u64)], huge| {
        table.check(&Case::new(what, &[way], expected, huge));
    };
    check("1 MiB, advised", "small", &[("leaves_mapping", 1)], 0);
    check("8 MiB from 4 KiB behind a multiple of 2 MiB on", "shifted", &[("leaves_mapping", 2)], 3);
    // A slot that is split stands in two mappings, or three.
    check("munmap of a page", "unmapped", &[("split_by_unmap", 2)], 3);
    check("mprotect of a page", "protected", &[("split_by_protection", 3)], 3);
    check("mlock of a page", "locked", &[("split_mapping", 3)], 3);
    check("other advice for a page", "advised_apart", &[("split_mapping", 3)], 3);
}

fn lost_huge_pages(table: &mut Table) {
    let mut check = |what, way, expected: &[(&'static str, u64)], huge| {
        table.check(&Case::new(what, &[way], expected, huge));
    };
    check("mprotect of a page, and back", "protected_and_back", &[("entries_split", 1)], 3);
    check("fork, then a page written", "forked_and_written", &[("copied_after_fork", 1)], 3);
    check("MADV_DONTNEED of a page, then written", "given_back_and_written", &[("part_given_back", 1)], 3);
    check("MADV_DONTNEED of some pages", "given_back", &[("part_given_back", 1)], 3);
    check("mremap by 64 KiB", "moved", &[("leaves_mapping", 2), ("moved", 3)], 0);
    check("userfaultfd", "userfaultfd", &[("userfaultfd", 4)], 0);
}

fn swapped_and_merged(table: &mut Table) {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    let swap = Swap::on(folder.path());
    table.check(&Case::new("MADV_PAGEOUT", &["swapped"], &[("swapped", 4)], 0));
    table.check(&Case::new("MADV_PAGEOUT, then read again", &["swapped_and_read"], &[("swapped", 4)], 0));
    drop(swap);
    let _faster = Changed::to("/sys/kernel/mm/ksm/pages_to_scan", "10000");
    let _run = Changed::to("/sys/kernel/mm/ksm/run", "1");
    table.check(&Case::new("KSM", &["merged"], &[("merged", 4)], 0));
}

/// Entries that came before advice did, and khugepaged with and without leave to gather them.
fn late(table: &mut Table) {
    let (all, tenth) = ("written_before_advice", "a_tenth_written_before_advice");
    let earlier = [("earlier_base_entries", 4)];
    table.check(&Case::new("written, then advised", &[all], &earlier, 0).naming("now"));
    let _none = Changed::to(MAX_PTES_NONE, "511");
    table.check(&Case::new("a tenth written, then advised", &[tenth], &earlier, 0));
    let _fewer = Changed::to(MAX_PTES_NONE, "0");
    let limit = [("khugepaged_limit", 4)];
    table.check(&Case::new("the same, max_ptes_none=0", &[tenth], &limit, 0).naming("max_ptes_none"));
    table.check(&Case::new("written, then advised, max_ptes_none=0", &[all], &earlier, 0));
}

fn tmpfs(table: &mut Table) {
    let mut check = |what, huge, way, expected: &[(&'static str, u64)], slots| {
        let mounted = Mounted::plain("tmpfs", huge);
        let (file, place) = (mounted.at("file").display().to_string(), mounted.path().display().to_string());
        let names = if expected.iter().any(|(reason, _)| reason.ends_with("never")) { place.as_str() } else { "" };
        table.check(&Case::new(what, &[way, &file], expected, slots).naming(names));
    };
    check("tmpfs huge=always", "huge=always", "file", &[], 4);
    check("tmpfs huge=never", "huge=never", "file_advised", &[("file_system_never", 4)], 0);
    check("tmpfs huge=advise, not advised", "huge=advise", "file", &[("thp_only_by_advice", 4)], 0);
    check("tmpfs huge=advise, advised", "huge=advise", "file_advised", &[], 4);
    check("tmpfs huge=within_size, end of file", "huge=within_size", "file_ends_inside", &[("beyond_file_size", 1)], 3);
    let shifted = [("leaves_mapping", 2), ("not_aligned", 3)];
    check("tmpfs, offset and address differ", "huge=always", "file_shifted", &shifted, 0);
    check("tmpfs, private and written", "huge=always", "file_private", &[("copied_on_write", 4)], 0);
    let before = [("earlier_base_entries", 1)];
    check("tmpfs, 4 KiB entries over a huge page", "huge=always", "file_mapped_small_before", &before, 3);
    let _denied = Changed::to(SHMEM, "deny");
    check("tmpfs huge=always, shmem_enabled=deny", "huge=always", "file", &[("shmem_denied", 4)], 0);
}

fn shared_memory(table: &mut Table) {
    let mut check = |what, way, expected: &[(&'static str, u64)], huge, names| {
        table.check(&Case::new(what, &[way], expected, huge).naming(names));
    };
    let advise = Changed::to(SHMEM, "advise");
    check("memfd, shmem_enabled=advise, not advised", "memfd", &[("thp_only_by_advice", 4)], 0, "shmem_enabled");
    check("the same, advised", "memfd_advised", &[], 4, "");
    drop(advise);
    let never = Changed::to(SHMEM, "never");
    check("memfd, shmem_enabled=never", "memfd_advised", &[("shmem_never", 4)], 0, "shmem_enabled");
    check("MAP_SHARED|MAP_ANONYMOUS, the same", "shared_anonymous", &[("shmem_never", 4)], 0, "");
    drop(never);
    let _denied = Changed::to(SHMEM, "deny");
    check("memfd, shmem_enabled=deny", "memfd_advised", &[("shmem_denied", 4)], 0, "");
}

fn other_files(table: &mut Table) {
    let ext4 = Mounted::image(&["mkfs.ext4", "-q", "-b", "4096"], &[], "rw");
    let file = ext4.at("file").display().to_string();
    let small = [("file_in_base_pages", 4)];
    table.check(&Case::new("ext4, read in blocks of 4 KiB", &["file_in_small_pages", &file], &small, 0));
    table.check(&Case::new("memfd_secret", &["secret"], &[("not_eligible", 4)], 0));
    table.check(&Case::new("a ring of packets", &["ring"], &[("not_eligible", 4)], 0));
}

fn pool(table: &mut Table) {
    let _overcommit = Changed::to(OVERCOMMIT, "0");
    let empty = Changed::to(POOL, "0");
    let unpromised = ["pool_unpromised"];
    let command = "pagelab hugepages set 2M 4";
    table.check(&Case::new("pool of 0 pages", &unpromised, &[("pool_empty", 4)], 0).naming(command));
    drop(empty);
    let _pages = Changed::to(POOL, "4");
    table.check(&Case::new("pool of 4 pages", &unpromised, &[], 4));
    table.check(&Case::new("the same, not touched", &["pool_unpromised_untouched"], &[("not_touched", 4)], 0));
    table.check(&Case::new("the same, promised, not touched", &["pool_untouched"], &[("not_touched", 4)], 0));
    let holder = Standing::start(&["pool"], None);
    table.check(&Case::new("pool of 4 pages, which another has", &unpromised, &[("pool_empty", 4)], 0));
    drop(holder);

    let groups = Groups::new(UNIFIED, "hugetlb");
    limit(groups.inner(), "hugetlb.2MB.max", "4194304");
    let name = groups.inner().display().to_string();
    let limited = [("hugetlb_cgroup_limit", 2)];
    table.check(&Case::new("group's limit of 2 pages", &unpromised, &limited, 2).inside(groups.inner()).naming(&name));
    table.check(&Case::new("the same, promised", &["pool"], &limited, 2).inside(groups.inner()));
    limit(groups.inner(), "hugetlb.2MB.max", "max");
    limit(groups.outer(), "hugetlb.2MB.max", "2097152");
    let name = format!("{}/hugetlb", groups.outer().display());
    let limited = [("hugetlb_cgroup_limit", 3)];
    table.check(&Case::new("limit of the group above", &unpromised, &limited, 1).inside(groups.inner()).naming(&name));
    drop(groups);

    let mounted = Mounted::plain("hugetlbfs", "pagesize=2M,size=6M");
    let (file, place) = (mounted.at("file").display().to_string(), mounted.path().display().to_string());
    let way = ["hugetlbfs_unpromised", file.as_str()];
    table.check(&Case::new("hugetlbfs mount of 3 pages", &way, &[("hugetlb_mount_full", 1)], 3).naming(&place));
}

/// 128 MiB are asked for where 16 MiB may be used; a byte of each 2 MiB is written, so that there is room for those.
fn memory_groups(table: &mut Table) {
    for (what, is_outer) in [("memory group's limit", false), ("memory limit of the group above", true)] {
        let groups = Groups::new(MEMORY_V1, "memory");
        let limited = if is_outer { groups.outer() } else { groups.inner() };
        limit(limited, "memory.limit_in_bytes", "16777216");
        let standing = Standing::start(&["advised_first_pages"], Some(groups.inner()));
        let (seen, huge) = (standing.look(), standing.huge_bytes_by_smaps());
        let short = seen.reasons.get("cgroup_limit").copied().unwrap_or(0);
        let file = format!("{}/memory.limit_in_bytes", limited.display());
        // 16 MiB hold at most 8 huge pages; the program itself takes some.
        let right = seen.reasons.len() == 1
            && short + (huge >> 21) == standing.slots()
            && (1..=8).contains(&(huge >> 21))
            && seen.words.iter().any(|words| words.contains(&file));
        table.reasons.insert("cgroup_limit");
        table.add(what, "cgroup_limit", &seen, right);
    }
    let groups = Groups::new(MEMORY_V1, "memory");
    limit(groups.inner(), "memory.limit_in_bytes", "134217728");
    let late = Case::new("written, then advised, in a group with room", &["written_before_advice"], LATE, 0);
    table.check(&late.inside(groups.inner()));
}

const LATE: &[(&str, u64)] = &[("earlier_base_entries", 4)];

/// What a pool got when it asked for more than fragmented memory has; the pool is as before when this returns.
fn ask_the_pool(pages: u64) -> SetReport {
    struct Back(PoolState);
    impl Drop for Back {
        fn drop(&mut self) {
            let _ = std::fs::write(POOL, self.0.minimum_pages.to_string());
        }
    }
    let state = tempfile::tempdir().expect("a temporary folder");
    let _back = Back(PoolState::read(Path::new("/"), 2 << 20).expect("a pool"));
    let request = SetRequest { page_bytes: 2 << 20, pages, node: None, overcommit: false, drop_caches: false };
    set_with(Path::new("/"), state.path(), &mut KernelDoor, &request).expect("to get less is no error")
}

#[test]
#[ignore = "fragments all of the host's memory for a minute; run by make test with --ignored --test-threads=1"]
fn host_fragmentation_is_told_from_the_defrag_setting() {
    let _calm = calm();
    let mut table = Table::default();
    let mut fragments = Fragments::make();
    let cases = [
        ("madvise", "madvise", "advised_128_mib", "fragmented"),
        ("madvise", "never", "advised_128_mib", "defrag_setting"),
        ("always", "always", "plain_128_mib", "fragmented"),
        ("always", "madvise", "plain_128_mib", "defrag_setting"),
        ("always", "defer", "plain_128_mib", "defrag_setting"),
        ("always", "defer+madvise", "advised_128_mib", "fragmented"),
        ("always", "defer+madvise", "plain_128_mib", "defrag_setting"),
    ];
    for (enabled, defrag, way, reason) in cases {
        let (_enabled, _defrag) = (Changed::to(ENABLED, enabled), Changed::to(DEFRAG, defrag));
        let what = format!("fragmented, enabled={enabled}, defrag={defrag}, {way}");
        for attempt in 0.. {
            fragments.again();
            let standing = Standing::start(&[way], None);
            let (seen, huge) = (standing.look(), standing.huge_bytes_by_smaps());
            // Others end, and give blocks back, or compaction finds some after all: then it was no fragmented memory that was looked at.
            if (blocks() >= 8 || huge >> 21 > standing.slots() / 2) && attempt < 5 {
                continue;
            }
            // It may have found a few.
            let short = seen.reasons.get(reason).copied().unwrap_or(0);
            let right = seen.reasons.len() == 1 && short > 0 && short == standing.slots() - (huge >> 21);
            table.add(&what, reason, &seen, right && seen.words.iter().all(|words| words.contains("now")));
            break;
        }
    }
    // The pool may compact and reclaim as it likes, and yet it gets less; the reason is that of the memory, not its amount.
    fragments.again();
    let report = ask_the_pool(2048);
    println!("{report}");
    drop(fragments);
    table.print();
    assert_eq!(table.wrong, 0);
    let shortage = report.shortage.as_ref().expect("it got less");
    assert!(report.granted_pages < 2048 && !report.granted() && report.compacted, "{report}");
    assert_eq!((report.granted_pages + shortage.missing_pages, shortage.reason), (2048, ShortReason::Fragmented));
    assert!(shortage.memory.available_bytes.is_some_and(|bytes| bytes > shortage.needed_bytes), "{report}");
    // The same on memory that is whole again: it is the fragments that made it less.
    let whole = ask_the_pool(64);
    assert!(whole.granted(), "{whole}");
}
