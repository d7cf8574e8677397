//! fio verifies what pagelab wrote, pagelab verifies what fio wrote, and both do as much.

use std::path::Path;

use crate::common::{fio, fio_program, pagelab, totals};
use crate::{detected, flip, run_in, verified};

/// Methods that both have.
const METHODS: &[&str] = &[
    "crc32c",
    "crc32c-intel",
    "xxhash",
    "sha256",
    "md5",
    "sha1",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "crc64",
    "crc32",
    "crc16",
    "crc7",
    "meta",
    "pattern",
];

/// Ways to lay a block out.
const LAYOUTS: &[&str] = &[
    "--bs=4k",
    "--bs=4k --verify_interval=512",
    "--bs=4k --verify_offset=200",
    "--bsrange=1k-8k --verify_interval=1k",
    "--bs=3000 --verify_pattern=0xdeadface%o\"ab\"",
];

fn with_pattern(words: &str) -> String {
    let needs = words.contains("=pattern") && !words.contains("verify_pattern=");
    if needs { format!("{words} --verify_pattern=%o0xabcd") } else { words.to_owned() }
}

/// Runs fio in a directory; gives whether it succeeded, and its words.
fn try_fio(place: &Path, words: &str) -> (bool, String) {
    let output = fio_program().current_dir(place).args(words.split_whitespace()).output().expect("fio is installed");
    (
        output.status.success(),
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
    )
}

#[test]
fn either_verifies_what_the_other_wrote() {
    for (number, method) in METHODS.iter().enumerate() {
        for (place, layout) in LAYOUTS.iter().enumerate() {
            // Each way with some method, each method in some ways: fio takes its time to start. The offset in a pattern
            // is that of the operation: where lengths are random only the writer knows it.
            let chosen =
                place == number % LAYOUTS.len() || place == (number + 2) % LAYOUTS.len() || *method == "crc32c";
            if !chosen || (*method == "pattern" && layout.contains("bsrange")) {
                continue;
            }
            let job = with_pattern(&format!("--filename=f --rw=randwrite --size=60000 --verify={method} {layout}"));
            let place = tempfile::tempdir().expect("tempdir");
            let blocks = verified(place.path(), &job);
            assert!(blocks > 0, "{job}");
            // As a job that reads, in fio's words, and as one that only verifies. Random lengths lie where each program's own
            // generator puts them: such files are read in the intervals of their headers.
            let read = job.replace("--rw=randwrite", "--rw=read").replace("--bsrange=1k-8k", "--bs=1k");
            let (well, words) = try_fio(place.path(), &format!("--name=j {read}"));
            assert!(well, "fio {read}: {words}");
            let theirs = tempfile::tempdir().expect("tempdir");
            let (well, words) = try_fio(theirs.path(), &format!("--name=j {job} --do_verify=0"));
            assert!(well, "fio {job}: {words}");
            assert!(verified(theirs.path(), &read) > 0, "{read}");
            if !layout.contains("bsrange") {
                assert_eq!(verified(theirs.path(), &format!("{job} --verify_only=1")), blocks, "{job}");
                let (well, words) = try_fio(place.path(), &format!("--name=j {job} --verify_only=1"));
                assert!(well, "fio {job} --verify_only=1: {words}");
            }
        }
    }
}

/// One flipped byte is found by both, in the same block.
#[test]
fn both_find_the_same_block_wrong() {
    for method in METHODS {
        for at in [3 * 4096, 3 * 4096 + 9, 3 * 4096 + 38, 3 * 4096 + 2000, 4 * 4096 - 1] {
            if *method == "meta" && at % 4096 >= 40 {
                continue;
            }
            let job = with_pattern(&format!("--filename=f --rw=write --bs=4k --size=64k --verify={method}"));
            let place = tempfile::tempdir().expect("tempdir");
            verified(place.path(), &job);
            flip(&place.path().join("f"), at);
            detected(place.path(), &format!("{job} --verify_only=1"), 3 * 4096);
            let (well, words) = try_fio(place.path(), &format!("--name=j {job} --verify_only=1"));
            assert!(!well && words.contains("offset 12288"), "{job}: {words}");
        }
    }
}

/// pagelab makes a seed's contents as fio does: the contents it expects of a block of fio's are those fio wrote, byte
/// for byte.
#[test]
fn dumps_show_what_fio_wrote() {
    for layout in [
        "--bs=4k",
        "--bs=1000",
        "--bs=4k --verify_interval=1k",
        "--bs=333 --size=33300",
        "--bs=2k --verify_pattern=%o0x77",
    ] {
        let job = format!("--filename=f --rw=write --size=64000 --verify=crc32c {layout}");
        let place = tempfile::tempdir().expect("tempdir");
        let (well, words) = try_fio(place.path(), &format!("--name=j {job} --do_verify=0"));
        assert!(well, "{words}");
        let file = place.path().join("f");
        let before = std::fs::read(&file).expect("fio's file");
        let at = 8192 + 300;
        flip(&file, at);
        let (status, report) = run_in(place.path(), &format!("{job} --verify_only=1 --verify_dump=1"));
        assert_eq!(status, 1, "{job}");
        let mismatch = &report.workers[0].verify.as_ref().expect("verified").first[0];
        let dumped = |kind| std::fs::read(place.path().join(format!("f.{}.{kind}", mismatch.offset))).expect("dumped");
        let (start, end) = (mismatch.offset as usize, (mismatch.offset + mismatch.bytes) as usize);
        assert!((start..end).contains(&(at as usize)), "{job}: {mismatch:?}");
        assert_eq!(dumped("expected"), before[start..end], "{job}");
        assert_eq!(dumped("received"), std::fs::read(&file).expect("read")[start..end], "{job}");
    }
}

/// Reads that verify are reads, and there are as many as in fio.
#[test]
fn as_much_is_verified_as_in_fio() {
    for job in [
        "--rw=write --bs=4k --size=256k --verify=crc32c",
        "--rw=randwrite --bs=4k --size=256k --verify=md5",
        "--rw=randwrite --bs=4k --size=256k --verify=md5 --do_verify=0",
        "--rw=read --bs=4k --size=256k --verify=null",
        "--rw=write --bs=4k --size=256k --verify=pattern --verify_pattern=0x12",
        "--rw=write --bs=4k --size=256k --verify=crc32c --io_size=100k",
        "--rw=write --bs=4k --size=256k --verify=crc32c --number_ios=10",
        "--rw=write --bs=4k --size=64k --verify=crc32c --loops=3",
        "--rw=write --bs=4k --size=256k --verify=crc32c --verify_backlog=8",
        "--rw=write --bs=4k --size=256k --verify=crc32c --verify_backlog=8 --verify_backlog_batch=3",
        "--rw=write --bs=4k --size=256k --verify=crc32c --nrfiles=4",
        "--rw=write --bs=4k --size=256k --verify=crc32c --nrfiles=4 --openfiles=1 --file_service_type=sequential",
        "--rw=write --bs=4k --size=256k --verify=crc32c --ioengine=mmap",
        "--rw=write --bs=4k --size=256k --verify=crc32c --numjobs=3",
        "--rw=write --bs=4k --size=256k --verify=crc32c --fsync=7 --verify_async=2",
        "--rw=write --bs=4k --size=64k --verify=null",
        "--rw=write --bs=4k --size=64k --verify=md5 --dedupe_percentage=30",
        "--rw=randwrite --bs=8k --size=1m --verify=md5 --loops=3 --io_size=50% --number_ios=64 --ioengine=mmap",
    ] {
        let (theirs, ours) = (tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir"));
        let words: Vec<String> = format!("--name=j {job}").split_whitespace().map(str::to_owned).collect();
        let expected = fio(theirs.path(), &words);
        let (status, report) = run_in(ours.path(), job);
        assert_eq!(status, 0, "{job}");
        assert_eq!(totals(&report), expected, "{job}");
    }
}

/// Without a map an engine without a queue does all loops in the first, and verifies once what is left of them.
#[test]
fn loops_without_a_map_are_verified_as_by_fio() {
    for (engine, least, most) in [("psync", 200, 250), ("mmap", 200, 250), ("libaio", 400, 520)] {
        let job =
            format!("--rw=randwrite --bs=4k --size=1000k --loops=3 --norandommap --verify=md5 --ioengine={engine}");
        let (theirs, ours) = (tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir"));
        let words: Vec<String> = format!("--name=j {job}").split_whitespace().map(str::to_owned).collect();
        let (status, report) = run_in(ours.path(), &job);
        assert_eq!(status, 0, "{job}");
        for [reads, _, writes, _, _] in [fio(theirs.path(), &words), totals(&report)] {
            assert_eq!(writes, 750, "{job}");
            assert!((least..=most).contains(&reads), "{job}: {reads}");
        }
    }
}

/// Options that fio accepts silently are accepted; the layouts for people report mismatches, too.
#[test]
fn mismatches_stand_in_every_layout() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = "--filename=f --rw=write --bs=4k --size=64k --verify=pattern --verify_pattern=0xff --verify_offset=64";
    verified(place.path(), job);
    flip(&place.path().join("f"), 5000);
    for layout in ["normal", "json", "json+", "report"] {
        let output = pagelab()
            .current_dir(place.path())
            .arg(format!("--output-format={layout}"))
            .arg("--name=j")
            .args(job.split(' '))
            .arg("--verify_only=1")
            .output()
            .expect("runs");
        assert_eq!(output.status.code(), Some(1));
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert!(out.contains("84"), "{layout}: {out}");
        for part in ["f offset 4096", "byte at offset 5000", "expected ff", "found df"] {
            assert!(err.contains(part), "{err}");
            assert!(layout.starts_with("json") || out.contains(part), "{layout}: {out}");
        }
    }
}
