//! The same job under fio 3.33 and under pagelab: same operations, same bytes, same flushes, same file on disk.

use crate::common;

use std::path::Path;

use common::{document, fio, fio_program, run, totals};

/// Runs a job in two fresh directories; the file is called `f` in both.
fn compare(job: &str) {
    let arguments: Vec<String> =
        ["--name=j", "--filename=f"].into_iter().chain(job.split_whitespace()).map(str::to_owned).collect();
    let (theirs, ours) = (tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir"));
    let expected = fio(theirs.path(), &arguments);
    let mut with_place = arguments.clone();
    with_place.extend([format!("--directory={}", ours.path().display())]);
    // Options are inherited from [global]: the directory has to stand before every job, so it is put first.
    with_place.rotate_right(1);
    let got = totals(&run(&with_place));
    if job.contains("rw=rw") || job.contains("rw=randrw") {
        // Directions are drawn; only their sums are determined, and those of bytes if both have one block size.
        assert_eq!(got[1] + got[3], expected[1] + expected[3], "{job}");
    } else {
        assert_eq!(got, expected, "reads, bytes, writes, bytes, flushes of: {job}");
    }
    let length = |directory: &Path| std::fs::metadata(directory.join("f")).map(|m| m.len()).ok();
    assert_eq!(length(ours.path()), length(theirs.path()), "length of the file of: {job}");
}

#[test]
fn amounts_of_work() {
    for job in [
        "--rw=write --bs=4k --size=64k",
        "--rw=read --bs=4k --size=64k",
        "--rw=write --bs=4k --size=10k",
        "--rw=randread --bs=4k --size=10k",
        "--rw=randwrite --bs=3k --size=64k",
        "--rw=write --bs=4097 --size=64k",
        "--rw=write --bs=4k --size=1m --offset=512k",
        "--rw=write --bs=4k --size=64k --io_size=256k",
        "--rw=write --bs=4k --size=256k --io_size=64k",
        "--rw=write --bs=4k --size=64k --io_size=10k",
        "--rw=write --bs=4k --size=64k --io_size=100k",
        "--rw=randwrite --bs=4k --size=64k --io_size=100k",
        "--rw=write --bs=4k --size=64k --loops=3",
        "--rw=write --bs=4k --size=64k --io_size=100k --loops=2",
        "--rw=write --bs=4k --size=64k --io_size=32k --loops=3",
        "--rw=write --bs=4k --size=64k --io_size=200k --loops=2",
        "--rw=write --bs=4k --size=64k --number_ios=5",
        "--rw=write --bs=4k --size=64k --number_ios=20 --loops=3",
        "--rw=write --bs=4k --size=64k --number_ios=5 --loops=3",
        "--rw=write --bs=4k --size=64k --io_size=100k --number_ios=20",
        "--rw=write --bs=4KiB --size=64KiB",
        "--rw=write --bs=4k --size=64k --kb_base=1000",
        "--kb_base=1000 --rw=write --bs=4kib --size=64k",
        "--rw=write --bs=4k --size=0x10000",
    ] {
        compare(job);
    }
}

#[test]
fn directions_and_block_sizes() {
    for job in [
        "--rw=write --bs=,4k --size=64k",
        "--rw=write --bs=8k, --size=64k",
        "--rw=read --bs=8k, --size=64k",
        "--rw=read --bs=16k,8k --size=64k",
        "--rw=rw --bs=4k --size=1m",
        "--rw=randrw --bs=4k --size=1m --rwmixread=70",
        "--rw=randrw --bs=4k --size=1m --rwmixwrite=0",
        "--rw=randwrite --bs=4k --size=256k --norandommap",
    ] {
        compare(job);
    }
}

#[test]
fn engines() {
    for engine in ["sync", "psync", "mmap", "null"] {
        for pattern in ["read", "write", "randread", "randwrite"] {
            // fio's null engine makes no file, and neither does ours.
            compare(&format!("--rw={pattern} --bs=4k --size=256k --loops=2 --ioengine={engine}"));
        }
    }
}

#[test]
fn flushes() {
    for job in [
        "--rw=write --bs=4k --size=64k --fsync=8",
        "--rw=write --bs=4k --size=64k --fsync=8 --end_fsync=1",
        "--rw=randwrite --bs=4k --size=64k --loops=3 --fsync=7",
        "--rw=write --bs=4k --size=64k --fdatasync=5",
        "--rw=write --bs=4k --size=64k --fsync=3 --ioengine=mmap",
        "--rw=write --bs=4k --size=64k --sync=1",
        "--rw=write --bs=4k --size=64k --end_fsync=1",
    ] {
        compare(job);
    }
}

#[test]
fn files() {
    for job in [
        "--rw=write --bs=4k --size=64k --fallocate=none",
        "--rw=write --bs=4k --size=64k --fallocate=none --number_ios=3",
        "--rw=write --bs=4k --size=64k --fallocate=native --number_ios=3",
        "--rw=write --bs=4k --size=64k --fallocate=posix --number_ios=3",
        "--rw=write --bs=4k --size=64k --fallocate=keep --number_ios=3",
        "--rw=write --bs=4k --size=64k --fallocate=truncate --number_ios=3",
        "--rw=write --bs=4k --size=64k --overwrite=1 --number_ios=3",
        "--rw=write --bs=4k --size=64k --create_on_open=1 --number_ios=3",
        "--rw=write --bs=4k --size=64k --unlink=1",
        "--rw=read --bs=4k --size=64k --unlink=1",
        "--rw=write --bs=4k --size=64k --invalidate=0 --fadvise_hint=0",
        "--rw=write --bs=4k --size=64k --direct=1",
    ] {
        compare(job);
    }
}

#[test]
fn workers() {
    for job in [
        "--rw=write --bs=4k --size=64k --numjobs=3",
        "--rw=write --bs=4k --size=64k --numjobs=3 --thread",
        "--rw=write --bs=4k --size=64k --numjobs=2 --group_reporting",
        "--rw=write --bs=4k --size=64k --name=k --filename=f --stonewall --rw=read --size=32k --bs=8k",
        "--rw=write --bs=4k --size=64k --iodepth=16",
    ] {
        compare(job);
    }
}

/// The job of the published sequential-write experiment, with fewer loops: two jobs on one file, each 512 writes per loop.
#[test]
fn the_published_sequential_write_job() {
    let job =
        "[global]\nfilename=test\nrw=write\nioengine=sync\nbs=,4k\niodepth=1\nsize=2M\nloops=50\n[job1]\n[job2]\n";
    let (theirs, ours) = (tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir"));
    std::fs::write(theirs.path().join("job.fio"), job).expect("write");
    let expected = fio(theirs.path(), &["job.fio".to_owned()]);
    let path = ours.path().join("job.fio");
    std::fs::write(&path, job.replace("filename=test", &format!("filename={}/test", ours.path().display())))
        .expect("write");
    let report = run(&[&path]);
    assert_eq!(totals(&report), expected);
    assert_eq!(expected, [0, 0, 2 * 512 * 50, 2 * 512 * 50 * 4096, 0]);
    assert_eq!(report.workers.len(), 2);
    assert!(report.workers.iter().all(|worker| worker.write.operations == 512 * 50 && worker.passes == 50));
    let length = |directory: &Path| std::fs::metadata(directory.join("test")).expect("made").len();
    assert_eq!(length(ours.path()), length(theirs.path()));
}

/// Paths of all keys of a document, with numbers of percentiles and names of options left out.
fn keys(value: &serde_json::Value, path: &str, into: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                let path = format!("{path}/{key}");
                if !path.contains("options/") {
                    into.insert(path.clone());
                    keys(value, &path, into);
                }
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, path, into)),
        _ => {}
    }
}

/// What the clock has no part in: names, errors, and amounts of work where they are not drawn.
#[track_caller]
fn assert_determined(ours: &serde_json::Value, theirs: &serde_json::Value, job: &str) {
    let mut paths: Vec<String> = ["/jobname", "/groupid", "/error"].map(str::to_owned).to_vec();
    if !job.contains("=randrw") {
        for direction in ["read", "write", "trim"] {
            let amounts = ["io_bytes", "io_kbytes", "total_ios", "short_ios", "drop_ios", "clat_ns/N", "lat_ns/N"];
            paths.extend(amounts.map(|amount| format!("/{direction}/{amount}")));
        }
        paths.extend(["1", "2", "4", "8", "16", "32", ">=64"].map(|depth| format!("/iodepth_level/{depth}")));
    }
    for path in paths {
        let [our, their] = [ours, theirs].map(|job| job.pointer(&path));
        let (Some(our), Some(their)) = (our, their) else { panic!("{job}: {path}: {our:?}, fio: {their:?}") };
        // 100 and 100.000000 are one number.
        let equal = our == their || our.as_f64().is_some_and(|number| Some(number) == their.as_f64());
        assert!(equal, "{job}: {path}: {our}, fio has {their}");
    }
}

/// What holds of the latencies of a direction whatever the clock said; nanoseconds, and `runtime` in milliseconds.
#[track_caller]
fn assert_latencies(direction: &serde_json::Value, workers: f64, job: &str) {
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{job}: {direction:#}"));
    for kind in ["slat_ns", "clat_ns", "lat_ns"] {
        let of = &direction[kind];
        let [least, mean, greatest, count] = ["min", "mean", "max", "N"].map(|key| number(&of[key]));
        assert!(least <= mean + 0.001 && mean <= greatest + 0.001, "{job}: {kind}: {of:#}");
        let room_ns = (number(&direction["runtime"]) + 2.0) * 1e6 * workers;
        assert!(mean * count <= room_ns, "{job}: {kind}: all of them take more than the run: {of:#}");
        let Some(percentiles) = of["percentile"].as_object() else { continue };
        let mut rising: Vec<(f64, f64)> =
            percentiles.iter().map(|(label, value)| (label.parse().expect("a percentile"), number(value))).collect();
        rising.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(rising.is_sorted_by(|a, b| a.1 <= b.1), "{job}: {kind}: {of:#}");
        // A class of the histogram is at most a 64th wide.
        assert!(rising.last().is_none_or(|(_, last)| *last <= greatest * 1.02 + 1.0), "{job}: {kind}: {of:#}");
    }
}

/// A document's jobs beside fio's.
#[track_caller]
fn assert_figures(ours: &serde_json::Value, theirs: &serde_json::Value, job: &str) {
    let [ours, theirs] = [ours, theirs].map(|document| document["jobs"].as_array().expect("jobs"));
    assert_eq!(ours.len(), theirs.len(), "{job}");
    let workers = if job.contains("--group_reporting") { 2.0 } else { 1.0 };
    for (our, their) in ours.iter().zip(theirs) {
        assert_determined(our, their, job);
        for direction in ["read", "write", "trim"] {
            // What is held against ours has to hold of fio's.
            assert_latencies(&their[direction], workers, job);
            assert_latencies(&our[direction], workers, job);
            assert_eq!(our[direction]["clat_ns"]["N"], our[direction]["total_ios"], "{job}: {direction}");
        }
        let amount = |job: &serde_json::Value, direction: &str| job[direction]["total_ios"].as_u64().expect("a count");
        let [our, their] = [our, their].map(|job| amount(job, "read") + amount(job, "write"));
        assert_eq!(our, their, "{job}: reads and writes");
    }
}

#[test]
fn the_json_has_every_key_of_fio() {
    let (theirs, ours) = (tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir"));
    for job in [
        "--rw=randrw --fsync=3 --lat_percentiles=1",
        "--rw=read --numjobs=2 --group_reporting",
        "--rw=write --description=x",
    ] {
        let (mut documents, mut found_keys) = (Vec::new(), Vec::new());
        for (mut command, directory) in [(fio_program(), &theirs), (common::pagelab(), &ours)] {
            let output = command
                .args([
                    "--output-format=json".to_owned(),
                    format!("--directory={}", directory.path().display()),
                    "--bs=4k".to_owned(),
                ])
                .args(["--size=1m", "--name=j"])
                .args(job.split_whitespace())
                .output()
                .expect("runs");
            let mut found = std::collections::BTreeSet::new();
            let document = document(&output);
            keys(&document, "", &mut found);
            found_keys.push(found);
            documents.push(document);
        }
        assert_figures(&documents[1], &documents[0], job);
        // What pagelab does not measure yet is absent rather than zero.
        let missing: Vec<&String> =
            found_keys[0].difference(&found_keys[1]).filter(|key| !key.starts_with("/disk_util")).collect();
        assert!(missing.is_empty(), "{job}: {missing:?}");
    }
}
