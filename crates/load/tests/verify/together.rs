//! Several workers on one file.

use crate::{flip, run_in, try_in};

/// What all workers of a job found: blocks, mismatches.
fn found(report: &pagelab_load::JobReport) -> (u64, u64) {
    let all = report.workers.iter().filter_map(|worker| worker.verify.as_ref());
    all.fold((0, 0), |(blocks, mismatches), verify| (blocks + verify.blocks, mismatches + verify.mismatches))
}

#[test]
fn four_writers_each_verify_their_own_part() {
    for engine in ["psync", "sync", "vsync", "pvsync", "pvsync2", "io_uring", "libaio", "mmap"] {
        for more in ["", "--thread=1 --direct=0 --loops=2", "--bsrange=1k-8k"] {
            let place = tempfile::tempdir().expect("tempdir");
            let job = format!(
                "--filename=f --ioengine={engine} --iodepth=8 --rw=randwrite --bs=4k --size=1m --numjobs=4 --offset_increment=1m --verify=crc32c {more}"
            );
            let (status, report) = run_in(place.path(), &job);
            let (blocks, mismatches) = found(&report);
            assert_eq!((status, mismatches), (0, 0), "{job}");
            assert!(blocks >= 512, "{job}: {blocks}");
            flip(&place.path().join("f"), (2 << 20) + 5000);
            let (status, report) = run_in(place.path(), &format!("{job} --verify_only=1"));
            let wrong: Vec<u64> =
                report.workers.iter().map(|worker| worker.mismatches() / worker.mismatches().max(1)).collect();
            assert_eq!((status, wrong), (1, vec![0, 0, 1, 0]), "{job}: the worker whose part it is");
        }
    }
}

/// Four writers over the same bytes: of each block the last writer's contents stay, and nobody calls that a mismatch. Workers wait for
/// each other between writing and verifying, so that nobody reads what another one is writing.
#[test]
fn four_writers_over_the_same_bytes_find_nothing_wrong() {
    for rw in ["write", "randwrite"] {
        for more in [
            "",
            "--loops=3",
            "--norandommap",
            "--thread=1",
            "--time_based --runtime=1",
            "--verify_interval=512 --bs=64k",
        ] {
            let place = tempfile::tempdir().expect("tempdir");
            let job = format!("--filename=f --rw={rw} --bs=4k --size=2m --numjobs=4 --verify=xxhash {more}");
            let (status, report) = run_in(place.path(), &job);
            let (blocks, mismatches) = found(&report);
            assert_eq!(
                (status, mismatches),
                (0, 0),
                "{job}: {:?}",
                report.workers.iter().map(|w| &w.failure).collect::<Vec<_>>()
            );
            assert!(blocks >= 128, "{job}");
            assert!(
                report.warnings.iter().any(|warning| warning.contains("3 other workers write the same bytes")),
                "{:?}",
                report.warnings
            );
            if more == "--norandommap" {
                // Draws may leave out any block.
                continue;
            }
            // And a flipped byte is still one.
            flip(&place.path().join("f"), 70_000);
            let (status, report) =
                run_in(place.path(), &format!("{} --verify_only=1", job.replace("--time_based --runtime=1", "")));
            assert_eq!(status, 1, "{job}");
            assert!(report.workers.iter().all(|worker| worker.mismatches() >= 1), "{job}: all four go over it");
        }
    }
}

/// Verifying workers wait for those that do not verify; ramps and loops do not confuse the turns.
#[test]
fn different_jobs_over_the_same_bytes_take_turns() {
    for (first, second) in [
        ("--loops=2", "--do_verify=0 --loops=4"),
        ("--ramp_time=100ms --time_based --runtime=1", "--startdelay=50ms --time_based --runtime=1"),
        ("", "--loops=5"),
    ] {
        let place = tempfile::tempdir().expect("tempdir");
        let same = "--filename=f --rw=randwrite --bs=4k --size=1m --verify=crc32c";
        let job = format!("{same} --numjobs=2 {first} --name=k {same} --numjobs=2 {second}");
        let (status, report) = run_in(place.path(), &job);
        assert_eq!((status, found(&report).1), (0, 0), "{job}: {:?}", report.workers[0].failure);
    }
}

/// fio runs them, and so do we, with a word about what may come of it.
#[test]
fn of_writes_that_do_not_exclude_each_other_is_said_what_may_come_of_it() {
    let place = tempfile::tempdir().expect("tempdir");
    for more in ["--ioengine=mmap", "--direct=1", "--verify_backlog=4"] {
        let job = format!("--filename=f --rw=write --bs=4k --size=64k --numjobs=2 --verify=md5 {more}");
        let output = try_in(place.path(), &job);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() != Some(2) && told.contains("offset_increment="), "{told}");
        // One after the other they are alone.
        let alone = format!(
            "--filename=f --rw=write --bs=4k --size=64k --verify=md5 {more} --name=k --stonewall --filename=f --rw=write --bs=4k --size=64k --verify=md5 {more}"
        );
        let (status, report) = run_in(place.path(), &alone);
        assert_eq!((status, found(&report)), (0, (32, 0)), "{alone}");
    }
}
