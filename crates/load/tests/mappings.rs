//! Mapping engines: their requests to the kernel show in `/proc`, from outside while the job runs and in its own
//! report.

use crate::common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::mappings::{HugetlbMount, MIB, Pool, arguments, mapped, pieces_in_maps, watch, worker_of};
use common::{pagelab, refused, run, try_run};

#[test]
fn pieces_are_mappings_of_their_own() {
    let pieces = watch("--ioengine=anon --rw=write --size=16m --map_granularity=2m --time_based --runtime=60", |pid| {
        Some(pieces_in_maps(pid)).filter(|pieces| pieces.len() == 8)
    });
    for (start, end) in &pieces {
        assert_eq!(end - start, 2 * MIB);
        assert!(start.is_multiple_of(2 * MIB));
    }
    assert!(pieces.windows(2).all(|pair| pair[1].0 - pair[0].1 == 2 * MIB), "a gap of an alignment between neighbours");
}

#[test]
fn merged_pieces_are_one_mapping_and_shifted_ones_are_shifted() {
    let merged = mapped("--ioengine=anon --rw=write --size=16m --map_granularity=2m --map_merge=1");
    assert_eq!((merged.pieces_mapped, merged.at_end.expect("read").vmas), (8, 1));
    let apart = mapped("--ioengine=anon --rw=write --size=16m --map_granularity=2m");
    assert_eq!((apart.pieces_mapped, apart.at_end.expect("read").vmas), (8, 8));
    let shifted =
        mapped("--ioengine=anon --rw=write --size=16m --map_granularity=2m --map_shift=4k --map_advice=hugepage");
    assert_eq!(shifted.first_address % (2 * MIB), 4096);
    assert_eq!(shifted.stride_bytes % (2 * MIB), 0, "all pieces are shifted alike");
    let memory = shifted.at_end.expect("read");
    assert_eq!((memory.anon_huge_bytes, memory.rss_bytes), (0, 16 * MIB), "no aligned 2 MiB lie in a shifted piece");
    let small = mapped("--ioengine=anon --rw=write --size=1m --map_granularity=4k");
    assert_eq!((small.pieces_mapped, small.at_end.expect("read").vmas), (256, 256));
}

#[test]
fn advice_decides_about_huge_pages() {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").expect("this kernel has THP");
    if enabled.contains("[never]") {
        // Another test or the user turned it off; then no advice can ask for huge pages and only that can be checked.
        let memory = mapped("--ioengine=anon --rw=write --size=16m --map_advice=hugepage").at_end.expect("read");
        assert_eq!(memory.anon_huge_bytes, 0);
        return;
    }
    let huge = mapped("--ioengine=anon --rw=write --size=16m --map_granularity=2m --map_advice=hugepage")
        .at_end
        .expect("read");
    let base = mapped("--ioengine=anon --rw=write --size=16m --map_granularity=2m --map_advice=nohugepage")
        .at_end
        .expect("read");
    assert_eq!(base.anon_huge_bytes, 0);
    // A host short of huge pages may leave out some, not all eight.
    assert!(huge.anon_huge_bytes >= 2 * MIB, "{huge:?}");
    assert_eq!((huge.rss_bytes, base.rss_bytes), (16 * MIB, 16 * MIB));
}

#[test]
fn populated_pieces_do_not_fault_in_the_window() {
    let faults = |options: &str| {
        let report =
            run(&arguments(&format!("--ioengine=anon --rw=write --size=16m --map_advice=nohugepage {options}")));
        report.workers[0].usage.expect("measured").minor_faults
    };
    assert!(faults("") >= 4096, "each page faults once");
    assert!(faults("--map_populate=1") < 64, "pages are there before the window");
}

#[test]
fn an_evicting_cache_maps_and_unmaps() {
    for (resident, left) in [(1, 1), (3, 3), (100, 8)] {
        let report = mapped(&format!(
            "--ioengine=anon --rw=write --size=16m --map_granularity=2m --map_lifetime=evict --map_resident={resident} --map_order=descending --loops=2"
        ));
        let expected = if resident == 100 { 8 } else { 16 };
        assert_eq!((report.pieces_mapped, report.pieces_evicted), (expected, expected - left), "resident {resident}");
        assert_eq!(report.at_end.expect("read").vmas, left);
    }
    let random =
        mapped("--ioengine=anon --rw=randwrite --size=16m --map_granularity=64k --map_lifetime=evict --map_resident=5");
    assert_eq!((random.pieces_mapped - random.pieces_evicted, random.at_end.expect("read").vmas), (5, 5));
}

#[test]
fn what_goes_is_read_back_once_and_what_stays_is_not() {
    let blocks = |options: &str| {
        let report = mapped(&format!(
            "--ioengine=anon --rw=write --bs=4k --size=16m --map_granularity=2m --map_lifetime=evict --map_touch=1 {options}"
        ));
        (report.pieces_evicted, report.blocks_read_back)
    };
    assert_eq!(blocks("--map_read_back=1"), (7, 7 * 512));
    assert_eq!(blocks("--map_read_back=1 --map_resident=3 --loops=2"), (13, 13 * 512));
    assert_eq!(blocks(""), (7, 0));
}

#[test]
fn slots_are_counted_by_their_pages_with_the_reasons() {
    let slots = |options: &str| {
        let mapped = mapped(&format!("--ioengine=anon --rw=write {options}"));
        let slots = mapped.slots.unwrap_or_else(|| panic!("{:?}", mapped.slots_reason));
        (slots, mapped.at_end.expect("read"))
    };
    // smaps is the other witness.
    let (huge, memory) = slots("--size=16m --map_granularity=2m --map_advice=hugepage");
    assert_eq!((huge.total(), huge.asked.as_str()), (8, "2M"));
    assert_eq!((huge.huge_2m * 2 * MIB, huge.base), (memory.anon_huge_bytes, 8 - huge.huge_2m), "{huge:?}");
    assert_eq!(huge.less_than_asked.values().sum::<u64>(), huge.base, "what is less has a reason");
    // Gaps are no slots, and neither are pieces that have gone.
    let (evicted, memory) = slots("--size=16m --map_granularity=2m --map_lifetime=evict --map_resident=3");
    assert_eq!((evicted.total(), memory.vmas, evicted.asked.as_str()), (3, 3, "any"));
    assert!(evicted.less_than_asked.is_empty(), "nothing was asked for: {evicted:?}");
    let (shifted, _) = slots("--size=16m --map_granularity=2m --map_shift=4k --map_advice=hugepage");
    assert_eq!((shifted.total(), shifted.base), (16, 16), "each piece lies in two slots");
    assert_eq!(shifted.less_than_asked.get("leaves_mapping"), Some(&16), "{shifted:?}");
    let (sparse, _) = slots("--size=64m --bs=4k --number_ios=1 --map_advice=nohugepage");
    assert_eq!((sparse.total(), sparse.base, sparse.not_touched), (32, 1, 31));
}

/// The pages of a piece that are present, lowest first, from `/proc/PID/pagemap` (bit 63).
fn present(pid: u32, start: u64, end: u64) -> Option<Vec<bool>> {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::open(format!("/proc/{pid}/pagemap")).ok()?;
    let mut entries = vec![0_u8; ((end - start) / 4096 * 8) as usize];
    file.read_exact_at(&mut entries, start / 4096 * 8).ok()?;
    Some(entries.chunks_exact(8).map(|entry| entry[7] & 0x80 != 0).collect())
}

#[test]
fn pages_of_a_piece_are_touched_in_its_order() {
    // A slow worker, watched from outside: whatever is present at any time is the beginning of the order.
    let strided = (0..16).flat_map(|first| (0..16).map(move |run| first + 16 * run)).collect();
    for (order, sequence) in [
        ("descending", (0..256).rev().collect::<Vec<usize>>()),
        ("ascending", (0..256).collect()),
        ("strided --map_stride=64k", strided),
    ] {
        let options = format!(
            "--ioengine=anon --rw=write --size=1m --map_granularity=1m --map_order={order} --map_advice=nohugepage --map_touch=1 --rate_iops=100"
        );
        let seen = watch(&options, |pid| {
            let (start, end) = *pieces_in_maps(pid).first()?;
            let pages = present(pid, start, end)?;
            let touched = pages.iter().filter(|there| **there).count();
            let in_order = sequence.iter().take(touched).all(|page| pages[*page]);
            assert!(in_order, "{order}: {touched} pages, not in order");
            (touched > 20 && touched < 200).then_some(touched)
        });
        assert!(seen > 20);
    }
}

#[test]
fn mappings_of_all_files_and_workers_are_reported() {
    let directory = tempfile::tempdir().expect("tempdir");
    let place = format!("--directory={}", directory.path().display());
    let options = "--ioengine=mmap --rw=read --bs=4k --size=3m --nrfiles=3 --numjobs=2";
    for service in ["roundrobin", "sequential"] {
        let report = run(&arguments(&format!("{place} {options} --file_service_type={service} --openfiles=1")));
        for worker in &report.workers {
            let mapped = worker.mapped.as_ref().expect("the engine maps");
            assert_eq!(mapped.pieces_mapped, 3, "{service}: {mapped:?}");
        }
    }
    let report = run(&arguments(&format!("{place} {options}")));
    let memory = report.workers[0].mapped.as_ref().and_then(|mapped| mapped.at_end.clone()).expect("read");
    assert_eq!((memory.vmas, memory.size_bytes), (3, 3 * MIB));
}

#[test]
fn files_are_mapped_in_pieces_too() {
    let directory = tempfile::tempdir().expect("tempdir");
    let place = format!("--directory={}", directory.path().display());
    for options in [
        "--rw=write --size=4m --map_granularity=64k",
        "--rw=randread --size=4m --map_granularity=64k",
        "--rw=read --size=4m --map_granularity=64k --map_merge=1",
        "--rw=read --size=4m --map_granularity=64k --map_lifetime=evict --map_resident=4",
        "--rw=randwrite --size=4m --map_share=private",
        "--rw=read --size=2m --offset=1m --loops=2",
    ] {
        let report = run(&arguments(&format!("{place} --filename=f --ioengine=mmap --bs=4k {options}")));
        assert!(report.workers[0].mapped.is_some());
        assert!(report.operations >= 512, "{options}");
    }
    // Contents arrive where they belong: pagelab's own random bytes differ from block to block only if blocks lie where they should.
    let contents = std::fs::read(directory.path().join("f")).expect("read");
    assert_eq!(contents.len() as u64, 4 * MIB);
    assert!(contents.chunks_exact(4096).all(|block| block.iter().any(|byte| *byte != 0)), "every block was written");
}

#[test]
fn a_file_cut_short_ends_its_job_with_words() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("f");
    let options =
        format!("--filename={} --ioengine=mmap --rw=read --bs=4k --size=4m --time_based --runtime=60", path.display());
    let front = pagelab()
        .arg("--output-format=report")
        .args(arguments(&options))
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let begin = Instant::now();
    while worker_of(&front).is_none_or(|pid| pieces_in_maps(pid).is_empty()) {
        assert!(begin.elapsed() < Duration::from_secs(30), "the job never started");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::File::options().write(true).open(&path).expect("open").set_len(MIB).expect("truncate");
    let output = front.wait_with_output().expect("ends by itself");
    assert_eq!(output.status.code(), Some(3));
    let report: pagelab_load::JobReport = serde_json::from_slice(&output.stdout).expect("a report nonetheless");
    let failure = report.workers[0].failure.clone().expect("failed");
    assert!(
        failure.message.contains("no page for the mapped address") && failure.message.contains("made shorter"),
        "{}",
        failure.message
    );
    assert!(report.workers[0].window.is_some(), "what was measured before is reported");
}

#[test]
fn a_pool_too_small_is_an_error_or_a_counted_fallback() {
    // More than any machine that runs tests has in its pool.
    let options = "--ioengine=anon --rw=write --bs=2m --size=1t --map_granularity=2m --hugetlb=2m --number_ios=4";
    let words = refused(&arguments(options), 3);
    for word in ["job 'j'", "pages available", "needed", "echo ", "nr_hugepages", "hugetlb_fallback=1"] {
        assert!(words.contains(word), "{words}");
    }
    let report =
        mapped("--ioengine=anon --rw=write --bs=2m --size=32m --map_granularity=2m --hugetlb=2m --hugetlb_fallback=1");
    let memory = report.at_end.expect("read");
    assert_eq!(report.pieces_mapped, 16);
    assert_eq!(
        memory.hugetlb_bytes,
        (16 - report.pieces_fallen_back) * 2 * MIB,
        "each piece is one or the other, and the report knows"
    );
    let output = try_run(&arguments("--ioengine=anon --rw=write --bs=2m --size=32m --hugetlb=3m"));
    assert_eq!(output.status.code(), Some(2), "3 MiB are no size of pages");
    let words = refused(&arguments("--ioengine=anon --rw=write --bs=4k --size=32m --hugetlb=4m"), 3);
    assert!(words.contains("pools of pages of"), "{words}");
}

#[test]
fn more_pieces_than_the_kernel_maps_is_said_before_the_run() {
    // Eight times the largest number of mappings that this host allows.
    let limit: u64 =
        std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("read").trim().parse().expect("number");
    if limit > 1 << 20 {
        // A host set up for very many mappings: reaching its limit would take minutes.
        return;
    }
    let options = format!("--ioengine=anon --rw=write --size={} --map_granularity=4k --number_ios=1", 8 * limit * 4096);
    let words = refused(&arguments(&options), 3);
    assert!(words.contains("vm.max_map_count") && words.contains("sysctl -w"), "{words}");
    let words = refused(&arguments("--ioengine=anon --rw=write --size=4e --map_granularity=4k"), 2);
    assert!(words.contains("unknown unit"), "{words}");
    let words = refused(&arguments("--ioengine=anon --rw=write --size=4096p --map_granularity=4k --number_ios=1"), 3);
    assert!(words.contains("addresses for mappings"), "{words}");
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_hugetlb_pages_are_used_and_the_fallback_is_exact() {
    let _pool = Pool::of(6);
    let report = mapped("--ioengine=anon --rw=write --bs=4k --size=8m --map_granularity=2m --hugetlb=2m");
    assert_eq!((report.pieces_fallen_back, report.at_end.expect("read").hugetlb_bytes), (0, 8 * MIB));
    let slots = report.slots.expect("looked at");
    assert_eq!((slots.asked.as_str(), slots.huge_2m, slots.total(), slots.less_than_asked.len()), ("2M", 4, 4, 0));
    let report =
        mapped("--ioengine=anon --rw=write --bs=4k --size=20m --map_granularity=2m --hugetlb=2m --hugetlb_fallback=1");
    let memory = report.at_end.expect("read");
    assert_eq!((report.pieces_fallen_back, memory.hugetlb_bytes, memory.rss_bytes), (4, 12 * MIB, 8 * MIB));
    let words =
        refused(&arguments("--ioengine=anon --rw=write --bs=4k --size=20m --map_granularity=2m --hugetlb=2m"), 3);
    assert!(words.contains("hugetlb_fallback=1"), "{words}");
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_files_on_hugetlbfs_are_laid_out_and_mapped() {
    let pool = Pool::of(8);
    let mount = HugetlbMount::new();
    let without_name = format!("--directory={} --ioengine=mmap --bs=4k", mount.path().display());
    let place = format!("{without_name} --filename=f");
    let written = mapped(&format!("{place} --rw=randwrite --size=8m")).at_end.expect("read");
    assert_eq!((written.hugetlb_bytes, written.kernel_page_bytes, written.vmas), (8 * MIB, 2 * MIB, 1));
    // The file stays, is pagelab's own, and is read back in pieces that are kept apart.
    let pieces = mapped(&format!("{place} --rw=read --size=8m --map_granularity=2m"));
    let memory = pieces.at_end.expect("read");
    assert_eq!((pieces.pieces_mapped, memory.hugetlb_bytes), (4, 8 * MIB));
    assert_eq!(pool.free(), 4, "four of eight pages hold the file");
    let contents = std::fs::read(mount.path().join("f")).expect("hugetlbfs can be read");
    assert!(contents.chunks_exact(4096).all(|block| block.iter().any(|byte| *byte != 0)), "every block was written");
    // A pool too small is said before anything runs, and nothing is left.
    let words = refused(&arguments(&format!("{without_name} --filename=g --rw=write --size=20m")), 3);
    assert!(words.contains("nr_hugepages") || words.contains("hugetlb"), "{words}");
    assert_eq!(pool.free(), 4);
    mapped(&format!("{place} --rw=read --size=8m --unlink=1"));
    assert_eq!(pool.free(), 8, "the file is gone and its pages are back");
}
