//! The truth of `doctor --pid`: a program makes memory of which every byte is known; what the report says of it is held against
//! that, against a walk of `/proc/PID/pagemap` and `/proc/kpageflags` by another program (walk.py), and against smaps, to the byte.

mod stage;

use std::time::{Duration, Instant};

use pagelab_host::doctor::process::{Region, look, look_with};
use pagelab_residency::LookOptions;
use pagelab_testing::skipped;
use stage::{Fixture, Pool, SLOT, SwapFile, guarded, reserved_pages, smaps, walk};

const PAGE: u64 = 4096;

/// What the report says of the fixture's memory, after it was found to agree with the other readers.
fn seen(fixture: &Fixture, pid: u32) -> Region {
    let report = look(pid).expect("a process of this test");
    let found = report.regions.iter().find(|one| one.start == fixture.start);
    let region = found.unwrap_or_else(|| panic!("no region at {:x} in {report}", fixture.start)).clone();
    assert_eq!(region.end, fixture.end, "{report}");
    agree(&region, pid);
    region
}

fn agree(region: &Region, pid: u32) {
    let walked = walk(pid, region.start, region.end);
    let of = |key: &str| walked.get(key).and_then(serde_json::Value::as_u64).expect("a number");
    let is_pool = region.pool.is_some();
    assert_eq!(region.base_bytes, Some(of("base")), "{region:#?} {walked}");
    let huge = region.huge_2m_bytes.zip(region.huge_1g_bytes).map(|(two, one)| two + one);
    assert_eq!(huge, Some(of("huge") + of("pool")), "{region:#?} {walked}");
    assert_eq!(region.backed_bytes, Some(of("present") - of("zero_page")), "{region:#?} {walked}");
    assert_eq!(region.zero_page_bytes, Some(of("zero_page")), "{region:#?} {walked}");
    assert_eq!(region.swapped_bytes.map(|all| all - region.swapped_shared_bytes), Some(of("swapped")), "{walked}");
    assert_eq!(region.zero_filled_bytes, Some(of("zero_parts")), "{region:#?} {walked}");
    let folios: Vec<(u64, u64)> =
        region.folios.iter().flatten().map(|folio| (folio.folio_bytes, folio.bytes)).collect();
    assert_eq!(serde_json::json!(folios), walked["folios"], "{region:#?}");

    let kernel = smaps(pid, region.start);
    let resident = if is_pool { kernel("Private_Hugetlb") + kernel("Shared_Hugetlb") } else { kernel("Rss") };
    assert_eq!(region.backed_bytes, Some(resident), "{region:#?}");
    assert_eq!(region.swapped_bytes, Some(kernel("Swap")), "{region:#?}");
    let transparent = kernel("AnonHugePages") + kernel("ShmemPmdMapped") + kernel("FilePmdMapped");
    assert_eq!(if is_pool { Some(0) } else { region.huge_2m_bytes }, Some(transparent), "{region:#?}");
}

#[test]
#[ignore = "sets THP to madvise; run by make test with --ignored --test-threads=1"]
fn host_of_huge_pages_the_touched_parts_are_counted() {
    let _thp = guarded(&[("thp.enabled", "madvise"), ("thp.2M.enabled", "inherit")]);
    for touched in [1, 77, 256, 511, 512] {
        let fixture = Fixture::start(&["parts", "3", &touched.to_string()]);
        let region = seen(&fixture, fixture.pid());
        assert_eq!((region.huge_2m_bytes, region.touched_bytes), (Some(3 * SLOT), Some(3 * touched * PAGE)));
        assert_eq!(region.zero_filled_bytes, Some(3 * (512 - touched) * PAGE));
        let found = region.zero_filled.expect("read");
        assert!(found.exact && found.looked_at_bytes == 3 * SLOT && found.margin_bytes == Some(0), "{found:?}");
        assert_eq!(found.underused_pages, 0, "max_ptes_none is 511");
    }
}

#[test]
#[ignore = "sets khugepaged's max_ptes_none; run by make test with --ignored --test-threads=1"]
fn host_underused_is_what_the_kernel_calls_so() {
    let _set = guarded(&[("thp.enabled", "madvise"), ("thp.khugepaged.max_ptes_none", "255")]);
    // 255 zero-filled parts are allowed, 256 are too many.
    let fixture = Fixture::start(&["parts", "6", "257", "256", "1"]);
    let report = look(fixture.pid()).expect("look");
    let region = report.regions.iter().find(|one| one.start == fixture.start).expect("its region");
    assert_eq!(region.zero_filled.as_ref().map(|found| found.underused_pages), Some(4), "{report}");
    assert_eq!(report.max_ptes_none, Some(255));
    assert!(report.to_string().contains("4 huge pages read are underused"), "{report}");
}

#[test]
#[ignore = "sets THP to madvise; run by make test with --ignored --test-threads=1"]
fn host_the_page_of_zeros_is_no_memory_of_the_process() {
    let _thp = guarded(&[("thp.enabled", "madvise"), ("thp.use_zero_page", "1")]);
    for size in ["small", "huge"] {
        let fixture = Fixture::start(&["read", "8388608", size]);
        let region = seen(&fixture, fixture.pid());
        assert_eq!((region.backed_bytes, region.zero_page_bytes), (Some(0), Some(8 << 20)), "{region:#?}");
        assert_eq!(region.touched_bytes, Some(0));
    }
    let fixture = Fixture::start(&["mixed"]);
    let region = seen(&fixture, fixture.pid());
    assert_eq!((region.backed_bytes, region.zero_page_bytes), (Some(100 * PAGE), Some(100 * PAGE)), "{region:#?}");
    assert_eq!(region.swapped_bytes, Some(0), "guarded pages look like swap in the page tables");
    assert_eq!(region.touched_bytes, Some(100 * PAGE));
}

#[test]
#[ignore = "changes the hugetlb pool; run by make test with --ignored --test-threads=1"]
fn host_a_pool_keeps_what_is_mapped_and_not_touched() {
    let _pool = Pool::of(24);
    let expect = |arguments: &[&str], touched: u64, reserved: u64| {
        let fixture = Fixture::start(arguments);
        let region = seen(&fixture, fixture.pid());
        let of_pool = region.pool.clone().expect("a pool's");
        assert_eq!(region.backed_bytes, Some(touched * SLOT), "{region:#?}");
        assert_eq!(of_pool.untouched_bytes, fixture.end - fixture.start - touched * SLOT);
        assert_eq!(of_pool.reserved_bytes, Some(reserved * SLOT), "{arguments:?} {of_pool:?}");
        assert_eq!(reserved_pages(), reserved, "{arguments:?}: the kernel's own count");
        // One byte of each page was written.
        assert_eq!(region.touched_bytes, Some(touched * PAGE));
    };
    expect(&["pool", "8", "3", "private"], 3, 5);
    expect(&["pool", "8", "3", "shared"], 3, 5);
    expect(&["pool", "8", "8", "shared"], 8, 0);
    expect(&["pool", "8", "3", "noreserve"], 3, 0);
}

#[test]
#[ignore = "changes the pool of 1 GiB pages; run by make test with --ignored --test-threads=1"]
fn host_of_a_page_of_1_gib_the_touched_parts_are_counted() {
    // Pages of 1 GiB are often not available after a while.
    let Some(_pool) = stage::try_guarded(&[("hugetlb.1G.nr_hugepages", "1")]) else {
        return skipped("this host gives no page of 1 GiB now");
    };
    let fixture = Fixture::start(&["giant", "5"]);
    let region = seen(&fixture, fixture.pid());
    assert_eq!((region.huge_1g_bytes, region.touched_bytes), (Some(1 << 30), Some(5 * PAGE)), "{region:#?}");
}

#[test]
#[ignore = "changes the hugetlb pool; run by make test with --ignored --test-threads=1"]
fn host_who_a_pool_keeps_pages_for() {
    let _pool = Pool::of(24);
    let reserved = |region: &Region| region.pool.as_ref().and_then(|pool| pool.reserved_bytes);

    // For shared memory the reservation is the file's: pages that either has touched are not reserved any more, and
    // both see the same.
    let fixture = Fixture::start(&["pool-fork", "8", "3", "shared", "2"]);
    let (parent, child) = (seen(&fixture, fixture.pid()), seen(&fixture, fixture.child()));
    assert_eq!((reserved(&parent), reserved(&child)), (Some(3 * SLOT), Some(3 * SLOT)));
    assert_eq!((parent.backed_bytes, child.backed_bytes), (Some(3 * SLOT), Some(2 * SLOT)));
    assert_eq!(reserved_pages(), 3);
    drop(fixture);

    // For private memory it stays with the process that made it.
    let fixture = Fixture::start(&["pool-fork", "8", "3", "private", "0"]);
    let (parent, child) = (seen(&fixture, fixture.pid()), seen(&fixture, fixture.child()));
    assert_eq!((reserved(&parent), reserved(&child)), (Some(5 * SLOT), Some(0)));
    assert_eq!(reserved_pages(), 5);
    drop(fixture);

    // Half of a file: where the other pages of it lie is not shown.
    let fixture = Fixture::start(&["part-of-file", "4", "2"]);
    let region = seen(&fixture, fixture.pid());
    let of_pool = region.pool.expect("a pool's");
    assert!(of_pool.reserved_bytes.is_none(), "{of_pool:?}");
    assert!(
        of_pool.reserved_reason.is_some_and(|why| why.contains("8388608 bytes of the file")),
        "the file has 4 pages"
    );
}

#[test]
#[ignore = "makes a swap file of its own; run by make test with --ignored --test-threads=1"]
fn host_swapped_memory_is_told_private_and_shared() {
    let _swap = SwapFile::of(64 << 20);
    for kind in ["private", "shared"] {
        let fixture = Fixture::start(&["out", "8388608", kind]);
        let region = seen(&fixture, fixture.pid());
        let swapped = region.swapped_bytes.expect("told");
        assert!(swapped > 7 << 20, "{region:#?}");
        assert_eq!(swapped + region.backed_bytes.expect("told"), 8 << 20, "{region:#?}");
        assert_eq!(region.swapped_shared_bytes, if kind == "shared" { swapped } else { 0 });
    }
}

#[test]
#[ignore = "reads frame flags, for which it has to be root; run by make test with --ignored --test-threads=1"]
fn host_memory_of_two_processes_is_told_of_each() {
    let fixture = Fixture::start(&["shared", "4194304"]);
    assert_eq!(seen(&fixture, fixture.pid()).backed_bytes, Some(4 << 20));
    assert_eq!(seen(&fixture, fixture.child()).backed_bytes, Some(2 << 20));
}

#[test]
#[ignore = "sets THP of shared memory; run by make test with --ignored --test-threads=1"]
fn host_huge_pages_of_shared_memory_are_told_of_each() {
    let _thp =
        guarded(&[("thp.enabled", "madvise"), ("thp.shmem_enabled", "advise"), ("thp.2M.shmem_enabled", "inherit")]);
    let fixture = Fixture::start(&["shared-huge", "3", "9"]);
    for pid in [fixture.pid(), fixture.child()] {
        let region = seen(&fixture, pid);
        assert_eq!((region.huge_2m_bytes, region.touched_bytes), (Some(3 * SLOT), Some(27 * PAGE)), "{region:#?}");
    }
}

/// Memory that goes while it is inspected is no error, and its values are possible ones.
#[test]
fn a_busy_process_can_be_looked_at() {
    let fixture = Fixture::start(&["busy", "67108864"]);
    for turn in 0..40 {
        let options = LookOptions { time_limit: Duration::from_millis(50), seed: turn };
        let report = look_with(fixture.pid(), &options).expect("it runs");
        for region in report.regions.iter().filter(|one| one.start >= fixture.start && one.end <= fixture.end) {
            let huge = region.zero_filled.as_ref().map_or(0, |found| found.huge_bytes);
            assert!(region.zero_filled_bytes.is_none_or(|zero| zero <= huge), "{region:#?}");
            let sum = region.backed_bytes.expect("told") + region.zero_page_bytes.expect("told");
            assert!(sum <= region.end - region.start, "{region:#?}");
        }
    }
}

#[test]
#[ignore = "sets multi-size THP; run by make test with --ignored --test-threads=1"]
fn host_folios_of_middle_sizes_are_told() {
    let _thp = guarded(&[("thp.enabled", "never"), ("thp.2M.enabled", "never"), ("thp.64K.enabled", "madvise")]);
    let fixture = Fixture::start(&["folios", "4194304", "65536"]);
    let region = seen(&fixture, fixture.pid());
    let folios: Vec<(u64, u64)> = region.folios.iter().flatten().map(|one| (one.folio_bytes, one.bytes)).collect();
    assert_eq!(folios, [(65536, 4 << 20)], "{region:#?}");
    let fixture = Fixture::start(&["small", "1048576"]);
    let region = seen(&fixture, fixture.pid());
    assert_eq!(region.folios.expect("root").first().map(|one| (one.folio_bytes, one.bytes)), Some((4096, 1 << 20)));
}

/// Pinning pages to read them would copy what is shared since the fork, and split its huge pages.
#[test]
#[ignore = "sets THP to madvise; run by make test with --ignored --test-threads=1"]
fn host_looking_changes_nothing() {
    let _thp = guarded(&[("thp.enabled", "madvise")]);
    let fixture = Fixture::start(&["fork", "8"]);
    let state = |pid: u32| {
        let kernel = smaps(pid, fixture.start);
        let faults = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let minor = faults.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(7)).map(str::to_owned);
        ["Rss", "Pss", "AnonHugePages", "Shared_Dirty", "Private_Dirty"]
            .map(|key| format!("{key} {}", kernel(key)))
            .join(" ")
            + &format!(" faults {minor:?}")
    };
    for arguments in [&["fork", "8"][..], &["parts", "8", "5"], &["mixed"]] {
        let other = Fixture::start(arguments);
        let region_pid = other.pid();
        let frames = walk(region_pid, other.start, other.end);
        look(region_pid).expect("look");
        assert_eq!(walk(region_pid, other.start, other.end), frames);
    }
    let (parent, child) = (state(fixture.pid()), state(fixture.child()));
    assert!(child.contains("AnonHugePages 16777216"), "{child}");
    look(fixture.child()).expect("look");
    look(fixture.pid()).expect("look");
    assert_eq!((state(fixture.pid()), state(fixture.child())), (parent, child));
}

#[test]
#[ignore = "takes 1 GiB of memory and sets THP to madvise; run by make test with --ignored --test-threads=1"]
fn host_of_a_large_process_a_part_is_read_and_said() {
    let _thp = guarded(&[("thp.enabled", "madvise")]);
    // The first third of 512 huge pages is full, the others have 4 touched parts each: a reader from the front sees no
    // waste.
    let touched = |page: u64| if page < 171 { 512 } else { 4 };
    let words: Vec<String> = (0..512).map(|page| touched(page).to_string()).collect();
    let arguments: Vec<&str> = ["parts", "512"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let fixture = Fixture::start(&arguments);
    let all: u64 = (0..512).map(|page| (512 - touched(page)) * PAGE).sum();
    for seed in 0..8 {
        let options = LookOptions { time_limit: Duration::from_millis(25), seed };
        let start = Instant::now();
        let report = look_with(fixture.pid(), &options).expect("look");
        let took = start.elapsed();
        let region = report.regions.iter().find(|one| one.start == fixture.start).expect("its region");
        let found = region.zero_filled.as_ref().expect("read");
        assert!(
            !found.exact && found.looked_at_bytes < found.huge_bytes && found.huge_bytes == 512 * SLOT,
            "{found:?}"
        );
        let (told, margin) = (region.zero_filled_bytes.expect("some"), found.margin_bytes.expect("some"));
        println!(
            "seed {seed}: read {} MiB in {took:?}, told {} MiB +- {}, is {}",
            found.looked_at_bytes >> 20,
            told >> 20,
            margin >> 20,
            all >> 20
        );
        assert!(told.abs_diff(all) <= margin && margin > 0, "{told} told, {all} true, {margin} off at most");
        assert!(took < Duration::from_millis(500), "{took:?}");
        assert!(report.to_string().contains("may be off by"), "{report}");
    }
    let region = look(fixture.pid()).expect("look").regions.into_iter().find(|one| one.start == fixture.start);
    let region = region.expect("its region");
    println!("whole: {:?}", region.zero_filled);
    if region.zero_filled.as_ref().is_some_and(|found| found.exact) {
        assert_eq!(region.zero_filled_bytes, Some(all));
    }
    let none = LookOptions { time_limit: Duration::ZERO, seed: 0 };
    let report = look_with(fixture.pid(), &none).expect("look");
    let region = report.regions.iter().find(|one| one.start == fixture.start).expect("its region");
    assert_eq!((region.zero_filled_bytes, region.touched_bytes), (None, None));
    assert!(region.zero_filled_reason.as_ref().is_some_and(|why| why.contains("0 s")), "{region:#?}");
}

#[test]
#[ignore = "sets THP to madvise; run by make test with --ignored --test-threads=1"]
fn host_memory_that_userfaultfd_looks_after_is_not_read() {
    let _thp = guarded(&[("thp.enabled", "madvise")]);
    let fixture = Fixture::start(&["watched", "2"]);
    let report = look(fixture.pid()).expect("look");
    let region = report.regions.iter().find(|one| one.start == fixture.start).expect("its region");
    assert_eq!((region.huge_2m_bytes, region.zero_filled_bytes, region.touched_bytes), (Some(2 * SLOT), None, None));
    assert!(region.zero_filled_reason.as_ref().is_some_and(|why| why.contains("userfaultfd")), "{region:#?}");
}

/// Without rights a process gets the values from its page tables, and the reason for the rest.
#[test]
#[ignore = "changes the hugetlb pool; run by make test with --ignored --test-threads=1"]
fn host_without_rights_each_unknown_has_its_reason() {
    let (_thp, _pool) = (guarded(&[("thp.enabled", "madvise")]), Pool::of(2));
    let document = stage::as_user(2);
    let regions = document["report"]["regions"].as_array().expect("a list");
    let at = |key: &str| {
        let found = regions.iter().find(|one| one["start"] == document[key]);
        found.unwrap_or_else(|| panic!("no region {key} in {document:#}"))
    };
    let huge = at("huge");
    assert_eq!((huge["huge_2m_bytes"].as_u64(), huge["touched_bytes"].as_u64()), (Some(SLOT), Some(100 * PAGE)));
    let why = at("pool")["pool"]["reserved_reason"].as_str();
    assert!(why.is_some_and(|why| why.contains("map_files")), "{document:#}");
    let small: Vec<_> = regions.iter().filter(|one| one["base_bytes"].as_u64() > Some(0)).collect();
    assert!(!small.is_empty());
    for region in regions {
        for (value, reason) in [
            ("base_bytes", "bytes_reason"),
            ("zero_filled", "zero_filled_reason"),
            ("folios", "folios_reason"),
            ("mapped_by", "mapped_by_reason"),
        ] {
            assert_eq!(region[value].is_null(), region[reason].is_string(), "{value}: {region:#}");
        }
    }
    assert!(small.iter().all(|one| one["folios_reason"].as_str().is_some_and(|why| why.contains("kpageflags"))));
}
