//! Engines on persistent memory, as far as a host without any can show them: `libpmem` on files whose file system refuses MAP_SYNC,
//! and what `dev-dax` refuses. Both on emulated persistent memory: `crates/cli/tests/lab_pmem.rs`.

use crate::common;

use std::path::Path;

use common::mappings::arguments;
use common::{refused, run, totals};

/// A job on a file of its own in `directory`, with these options.
fn job(directory: &Path, options: &str) -> Vec<String> {
    let mut words = arguments(options);
    words.push(format!("--directory={}", directory.display()));
    words
}

#[test]
fn without_direct_access_writes_are_made_durable_by_msync() {
    let dir = tempfile::tempdir().expect("tempdir");
    for (number, options) in [
        "--rw=write --bs=4k",
        "--rw=randwrite --bs=4k --sync=1",
        "--rw=randrw --bs=8k --direct=1 --fsync=7",
        "--rw=write --bs=1000 --sync=1 --end_fsync=1",
        "--rw=randwrite --bs=4k --map_granularity=64k --map_lifetime=evict --map_resident=2",
        "--rw=write --bs=64k --loops=2 --offset=64k",
    ]
    .into_iter()
    .enumerate()
    {
        let report = run(&job(
            dir.path(),
            &format!("--filename=f{number} --ioengine=libpmem --size=1m --verify=crc32c {options}"),
        ));
        let [_, read, _, written, flushes] = totals(&report);
        // Every byte written has been read again, in addition to the pattern's reads.
        assert!(written > 0 && read >= written, "{options}: {written} bytes written, {read} read");
        assert_eq!(flushes > 0, options.contains("--fsync"), "{options}");
        let mapped = report.workers[0].mapped.as_ref().expect("the engine maps");
        assert_eq!(mapped.durable_by.get("msync"), Some(&1), "{options}: {mapped:?}");
        let told = report.warnings.iter().filter(|warning| warning.contains("MAP_SYNC")).count();
        assert_eq!(told, 1, "{options}: {:?}", report.warnings);
    }
}

/// libpmem's writes are in the file: other engines read them, and it reads theirs.
#[test]
fn files_are_the_same_for_other_engines() {
    let dir = tempfile::tempdir().expect("tempdir");
    for (writes, reads) in [("libpmem", "psync"), ("psync", "libpmem"), ("libpmem", "mmap")] {
        let common = format!("--filename={writes}-{reads} --size=1m --bs=4k --verify=crc32c");
        run(&job(dir.path(), &format!("{common} --ioengine={writes} --rw=randwrite --do_verify=0 --end_fsync=1")));
        let report = run(&job(dir.path(), &format!("{common} --ioengine={reads} --rw=randwrite --verify_only=1")));
        assert_eq!(totals(&report)[1], 1 << 20, "{writes}, {reads}");
    }
}

#[test]
fn a_worker_with_several_files_counts_each() {
    let dir = tempfile::tempdir().expect("tempdir");
    let report = run(&job(dir.path(), "--ioengine=libpmem --rw=write --bs=4k --size=1m --nrfiles=3 --numjobs=2"));
    for worker in &report.workers {
        assert_eq!(worker.mapped.as_ref().expect("maps").durable_by.get("msync"), Some(&3));
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_is_needed() {
    let dir = tempfile::tempdir().expect("tempdir");
    std::fs::write(dir.path().join("plain"), vec![0_u8; 1 << 20]).expect("written");
    for (options, words) in [
        // The engine on what is no such device.
        ("--ioengine=dev-dax --rw=read --bs=4k --filename=plain", &["is a file of 1048576 bytes", "/dev/dax0.0"][..]),
        ("--ioengine=dev-dax --rw=read --bs=4k --size=1m --filename=none", &["does not exist", "ndctl"]),
        ("--ioengine=dev-dax --rw=write --bs=4k --size=1m", &["does not exist", "--mode=devdax"]),
        // Blocks that fio refuses too.
        ("--ioengine=dev-dax --rw=write --bs=1000 --size=1m --fsync=1", &["bs of writes is 1000", "4096"]),
        ("--ioengine=libpmem --rw=write --bs=1000 --size=1m --fdatasync=1", &["bs of writes is 1000", "4096"]),
        ("--ioengine=libpmem --rw=write --size=1m --map_share=private", &["leave out map_share"]),
        ("--ioengine=libpmem --rw=randtrim --size=1m", &["does not trim"]),
        ("--ioengine=libpmem --rw=write --bs=4k --filename=plain", &["did not create", "--allow-write"]),
    ] {
        let said = refused(&job(dir.path(), options), 2);
        for word in words {
            assert!(said.contains(word), "{options}: {word}: {said}");
        }
    }
    let said = refused(&arguments("--ioengine=dev-dax --rw=write --size=1m --filename=/dev/null"), 2);
    assert!(said.contains("needs a character device of direct access"), "{said}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["plain"], "nothing is left behind");
}
