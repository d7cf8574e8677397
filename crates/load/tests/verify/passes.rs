//! What is verified when a pass ends, and what becomes of mismatches.

use crate::common::totals;
use crate::engines::struck;
use crate::{EILSEQ, detected, flip, run_in, try_in, verified};

#[test]
fn only_what_was_written_is_verified() {
    let place = tempfile::tempdir().expect("tempdir");
    // The file is full of other data before: unwritten blocks would be found wrong.
    for (job, blocks) in [
        ("--rw=randwrite --bs=4k --size=1m --io_size=400k", 100),
        ("--rw=write --bs=4k --size=1m --number_ios=17", 17),
        ("--rw=randwrite --bs=4k --size=1m --loops=2 --io_size=200k", 100),
        ("--rw=randrw --bs=4k --size=1m --rwmixwrite=100", 256),
        ("--rw=randwrite --bs=4k --size=1m --norandommap --random_generator=lfsr", 256),
        ("--rw=write --bs=4k --size=1m --offset=64k --nrfiles=2", 256),
    ] {
        let job = format!("{job} --filename_format=f.$filenum --overwrite=1 --verify=xxhash");
        assert_eq!(verified(place.path(), &job), blocks, "{job}");
    }
    for job in [
        "--rw=randrw --bs=4k --size=1m",
        "--rw=randwrite --bs=4k --size=1m --norandommap",
        "--rw=randwrite --bs=4k --size=1m --random_distribution=zipf:1.1",
        "--rw=randwrite --bsrange=512-16k --size=1m",
        "--rw=randwrite --bsrange=1k-16k --size=1m --norandommap --blockalign=512",
        "--rw=randwrite --bsrange=1k-16k --bs_unaligned=1 --size=1m",
        "--rw=write:8k --bs=4k --size=1m",
        "--rw=randwrite:4 --bs=4k --size=1m",
        "--rw=randrw --bs=8k,2k --size=1m --nrfiles=3",
        "--rw=write --bs=4k --size=1m --nrfiles=8 --openfiles=2 --fsync_on_close=1",
        "--rw=randwrite --bs=4k --size=1m --gtod_reduce=1",
        "--rw=randwrite --bs=4k --size=1m --latency_sample=7",
        "--rw=randwrite --bs=4k --size=1m --direct=1",
        "--rw=randwrite --bs=4k --size=1m --write_iolog=log --write_lat_log=lat",
        "--rw=randwrite --bs=4k --size=1m --buffer_compress_percentage=60",
        "--rw=randwrite --bs=4k --size=1m --dedupe_percentage=30",
        // Neither direction takes the other's turn: the same way is gone again to verify.
        "--rw=randrw --bs=4k --size=1m --rate=50m,5m",
        "--rw=rw --bs=4k --size=1m --rate=50m,5m --verify_backlog=16",
        "--rw=write --bs=4k --size=1m --unlink_each_loop=1 --loops=3",
        "--rw=write --bs=4k --size=1m --end_fsync=1 --fdatasync=5 --nrfiles=2",
        "--rw=randwrite --bs=4k --size=1m --sync_file_range=write:8 --nrfiles=2",
        "--rw=write --bs=4k --size=1m --ioengine=mmap --map_granularity=64k --map_lifetime=evict",
        "--rw=write --bs=4k --size=1m --ioengine=mmap --map_share=private --map_populate=1",
    ] {
        let job = format!("{job} --filename_format=f.$filenum --overwrite=1 --verify=xxhash");
        let (status, report) = run_in(place.path(), &job);
        let verify = report.workers[0].verify.as_ref().expect("verifies");
        assert_eq!((status, verify.mismatches), (0, 0), "{job}: {verify:?} {:?}", report.workers[0].failure);
        let [_, _, writes, _, _] = totals(&report);
        assert!(verify.blocks > 0 && verify.blocks <= writes, "{job}: {verify:?} {writes}");
    }
}

#[test]
fn runtime_ends_writing_not_verifying() {
    let place = tempfile::tempdir().expect("tempdir");
    let job =
        "--filename=f --rw=randwrite --bs=4k --size=64m --thinktime=1ms --runtime=1 --verify=crc32c --overwrite=1";
    let (status, report) = run_in(place.path(), job);
    let [reads, _, writes, _, _] = totals(&report);
    assert_eq!((status, reads), (0, writes), "everything that was written, and nothing else");
    assert!((1..16384).contains(&writes), "{writes}");
    let job =
        "--filename=g --rw=randwrite --bs=4k --size=1m --time_based --runtime=1 --verify=crc32c --ramp_time=200ms";
    let (status, report) = run_in(place.path(), job);
    let [reads, _, writes, _, _] = totals(&report);
    assert_eq!(status, 0);
    assert!(reads > 256 && writes > 256, "passes of both take turns: {reads} {writes}");
}

#[test]
fn mismatches_end_the_job_when_and_how_it_wants() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = "--filename=f --rw=write --bs=4k --size=256k --verify=crc32c";
    verified(place.path(), job);
    for block in [3, 10, 40] {
        flip(&place.path().join("f"), block * 4096 + 100);
    }
    for (more, blocks, mismatches, errno) in [
        ("", 64, 3, Some(EILSEQ)),
        ("--verify_fatal=1", 4, 1, Some(EILSEQ)),
        ("--continue_on_error=verify", 64, 3, None),
        ("--continue_on_error=all --verify_fatal=1", 64, 3, None),
        ("--ignore_error=EIO,EIO,EILSEQ", 64, 3, None),
        ("--continue_on_error=read", 64, 3, Some(EILSEQ)),
        ("--gtod_reduce=1", 64, 3, Some(EILSEQ)),
        ("--gtod_reduce=1 --verify_fatal=1", 4, 1, Some(EILSEQ)),
    ] {
        for words in [format!("{job} --verify_only=1 {more}"), format!("{} {more}", job.replace("=write", "=read"))] {
            let (status, report) = run_in(place.path(), &words);
            let worker = &report.workers[0];
            let verify = worker.verify.as_ref().expect("verifies");
            assert_eq!((status, verify.blocks, verify.mismatches), (1, blocks, mismatches), "{words}: {verify:?}");
            assert_eq!(worker.failure.as_ref().map(|failure| failure.errno), errno, "{words}");
            let offsets: Vec<u64> = verify.first.iter().map(|mismatch| mismatch.offset / 4096).collect();
            assert_eq!(offsets, [3, 10, 40][..mismatches as usize], "{words}");
        }
    }
}

#[test]
fn other_failures_are_no_mismatches() {
    let place = tempfile::tempdir().expect("tempdir");
    for (words, says) in [
        ("--filename=none --rw=read --bs=4k --size=64k --verify=md5", "write them first"),
        ("--filename=none --rw=write --bs=4k --size=64k --verify=md5 --verify_only=1", "verify_only=0"),
    ] {
        let output = try_in(place.path(), words);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains(says), "{told}");
        assert!(!place.path().join("none").exists(), "nothing is made to be found wrong");
    }
    // An earlier job of the same run may write what a later one verifies.
    let words = "--filename=f --bs=4k --size=64k --verify=md5 --rw=write --do_verify=0 --name=later --stonewall --filename=f --bs=4k --size=64k --verify=md5 --rw=read";
    assert_eq!(verified(place.path(), words), 16);
    // verify_only writes nothing: a file that is not pagelab's may be verified, a file system may be read-only.
    std::fs::copy(place.path().join("f"), place.path().join("copy")).expect("copy");
    let before = std::fs::metadata(place.path().join("copy")).and_then(|meta| meta.modified()).expect("modified");
    assert_eq!(
        verified(place.path(), "--filename=copy --rw=write --bs=4k --size=64k --verify=md5 --verify_only=1"),
        16
    );
    let words = "--readonly --filename=copy --rw=write --bs=4k --size=64k --verify=md5 --verify_only=1 --ioengine=mmap";
    assert_eq!(verified(place.path(), words), 16);
    let after = std::fs::metadata(place.path().join("copy")).and_then(|meta| meta.modified()).expect("modified");
    assert_eq!(before, after);
}

/// The backlog is verified while writing goes on: what is changed late is no more looked at, what is changed before is found.
#[test]
fn the_backlog_is_verified_in_time() {
    let place = tempfile::tempdir().expect("tempdir");
    let file = place.path().join("f");
    let job = "--filename=f --rw=write --bs=4k --size=128k --thinktime=20ms --verify=crc32c --verify_backlog=16";
    let at_length = |bytes: u64| {
        let file = file.clone();
        move || std::fs::read(&file).is_ok_and(|all| all.get(bytes as usize..).and_then(<[u8]>::first) == Some(&0xca))
    };
    // Block 8 is there and block 16 is not: it is verified next.
    let there = at_length(8 * 4096);
    let (status, report) = struck(place.path(), &format!("{job} --fallocate=none"), |_| {
        let now = there();
        if now {
            flip(&file, 5 * 4096 + 1000);
        }
        now
    });
    assert_eq!((status, report.workers[0].mismatches()), (1, 1), "{:?}", report.workers[0].verify);
    std::fs::remove_file(&file).expect("remove");
    // Once block 24 is there, block 5 has been verified: the run ends well, and a later one finds it.
    let there = at_length(24 * 4096);
    let (status, report) = struck(place.path(), &format!("{job} --fallocate=none"), |_| {
        let now = there();
        if now {
            flip(&file, 5 * 4096 + 1000);
        }
        now
    });
    assert_eq!((status, report.workers[0].mismatches()), (0, 0), "{:?}", report.workers[0].verify);
    detected(place.path(), "--filename=f --rw=write --bs=4k --size=128k --verify=crc32c --verify_only=1", 5 * 4096);
}

/// Many operations under way: what is compared is what the writes left, whatever order they were completed in, and as much of it as
/// with one at a time.
#[test]
fn operations_under_way_together_are_verified() {
    for job in [
        "--rw=randwrite --verify=crc32c --iodepth_batch=8",
        "--rw=randrw --verify=sha256 --norandommap",
        "--rw=write --verify=md5 --nrfiles=3",
        "--rw=randwrite --verify=xxhash --verify_backlog=32",
        "--rw=randwrite --verify=xxhash --verify_backlog=32 --verify_backlog_batch=7 --fsync=9",
        "--rw=randwrite --verify=crc32c --bsrange=4k-64k --norandommap",
        "--rw=randwrite --verify=pattern --verify_pattern=0xabcd%o --loops=2",
        "--rw=randwrite --verify=crc64 --direct=1",
    ] {
        let blocks = ["psync", "io_uring", "libaio"].map(|engine| {
            let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("tempdir");
            verified(place.path(), &format!("--ioengine={engine} --iodepth=32 --bs=4k --size=2m {job}"))
        });
        assert!(blocks[0] > 0 && blocks == [blocks[0]; 3], "{job}: {blocks:?}");
    }
}
