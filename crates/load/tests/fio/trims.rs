//! Trims: the same blocks in the same order, and the same figures. The engine `null` shows what is chosen; on loop devices
//! (`tests/devices.rs`) blocks are really discarded.

use crate::common::{document, fio_program, logs, pagelab, refused, same_operations};

#[test]
fn trims_in_sequence_are_those_of_fio() {
    for job in [
        "--rw=trim --bs=4k --size=256k",
        "--rw=trim --bs=4k,4k,16k --size=256k --loops=2",
        "--rw=trim --bs=4k --size=256k --io_size=100k",
        "--rw=trim --bs=4k --size=256k --offset=64k --number_ios=7",
        "--rw=trim:4k --bs=4k --size=256k --io_size=128k",
        "--rw=trim --bs=8k --size=256k --nrfiles=3",
        "--rw=trim --bs=4k --size=256k --verify=md5 --verify_state_save=0",
        "--rw=trimwrite --bs=4k --size=256k",
        "--rw=trimwrite --bs=4k --size=256k --loops=2",
        "--rw=trimwrite --bs=4k --size=256k --number_ios=7",
        "--rw=trimwrite --bs=4k --size=256k --io_size=64k",
        "--rw=trimwrite --bs=4k,4k,16k --size=256k",
        "--rw=trimwrite --bs=4k,16k,4k --size=256k",
        "--rw=trimwrite --bs=4k --size=256k --nrfiles=2",
        "--rw=trimwrite --bs=4k --size=256k --rwmixwrite=30 --rwmixread=70",
    ] {
        let log = same_operations(&format!("--ioengine=null {job}"));
        assert!(log.iter().any(|operation| operation.act == "trim"), "{job}");
    }
}

/// Each block once, and each trim followed by the write of its block.
#[test]
fn random_trims_cover_what_those_of_fio_cover() {
    for job in ["--rw=randtrim --bs=4k --size=256k", "--rw=randtrimwrite --bs=4k --size=256k"] {
        let ([mut theirs, mut ours], _) = logs(&format!("--ioengine=null {job}"));
        if job.contains("trimwrite") {
            for log in [&theirs, &ours] {
                for pair in log.chunks(2) {
                    assert_eq!([pair[0].act, pair[1].act], ["trim", "write"], "{job}");
                    assert_eq!((pair[0].offset, pair[0].bytes), (pair[1].offset, pair[1].bytes), "{job}");
                }
            }
        }
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs, "{job}");
    }
    let ([theirs, ours], _) =
        logs("--ioengine=null --rw=randtrimwrite --bsrange=4k-16k --size=1m --norandommap --offset=1m");
    assert_eq!(theirs.first().map(|first| first.act), Some("trim"));
    for pair in ours.chunks_exact(2) {
        assert_eq!((pair[0].act, pair[1].act), ("trim", "write"));
        assert_eq!((pair[0].offset, pair[0].bytes), (pair[1].offset, pair[1].bytes));
        assert!(pair[0].offset >= 1 << 20 && pair[0].offset + pair[0].bytes <= 2 << 20);
    }
}

/// Lengths that are drawn: each block is trimmed and written once, as fio does since 3.37; before, it drew the write anew.
#[test]
fn writes_in_sequence_go_where_their_trims_went() {
    for lengths in ["--bsrange=512-4k", "--bssplit=512/25:1k/:2k/:4k/"] {
        let ([_, ours], _) = logs(&format!("--ioengine=null --rw=trimwrite {lengths} --size=1m"));
        let mut next = 0;
        for pair in ours.chunks(2) {
            assert_eq!((pair[0].act, pair[1].act), ("trim", "write"), "{lengths}");
            assert_eq!((pair[0].offset, pair[0].bytes), (pair[1].offset, pair[1].bytes), "{lengths}");
            assert_eq!(pair[0].offset, next, "{lengths}");
            next += pair[0].bytes;
        }
        assert_eq!(next, 1 << 20, "{lengths}: the whole file");
    }
}

#[test]
fn reports_have_the_sections_of_fio() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = ["--name=j", "--ioengine=null", "--rw=trimwrite", "--bs=4k,8k,4k", "--size=256k"];
    let of = |mut command: std::process::Command, format: &str| {
        command.current_dir(place.path()).arg(format!("--output-format={format}")).args(job).output().expect("runs")
    };
    let (theirs, ours) = (document(&of(fio_program(), "json")), document(&of(pagelab(), "json")));
    let keys = |document: &serde_json::Value| {
        let trim = document["jobs"][0]["trim"].as_object().expect("a section");
        trim.keys().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(keys(&ours), keys(&theirs));
    for key in ["total_ios", "io_bytes", "io_kbytes", "short_ios", "drop_ios"] {
        for section in ["read", "write", "trim"] {
            let of = |document: &serde_json::Value| document["jobs"][0][section][key].clone();
            assert_eq!(of(&ours), of(&theirs), "{section} {key}");
        }
    }
    for command in [fio_program(), pagelab()] {
        let text = String::from_utf8_lossy(&of(command, "normal").stdout).into_owned();
        for words in ["rw=trimwrite", "  trim: IOPS=", "   TRIM: bw=", "issued rwts: total=0,"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

#[test]
fn what_cannot_be_trimmed_is_refused_before_the_start() {
    let place = tempfile::tempdir().expect("tempdir");
    let file = place.path().join("f");
    std::fs::write(&file, [7; 4096]).expect("write");
    let filename = format!("--filename={}", file.display());
    let job = |more: &'static str| -> Vec<String> {
        ["--name=j", "--size=4k", "--bs=4k", &filename]
            .iter()
            .map(|word| (*word).to_owned())
            .chain([more.to_owned()])
            .collect()
    };
    for (more, words) in [("--rw=trim", "no block device"), ("--rw=randtrimwrite", "losetup")] {
        let said = refused(&job(more), 2);
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(std::fs::read(&file).expect("read"), [7; 4096]);
    let with = |more: &str| {
        let words = format!("--name=j --size=64k {more}");
        refused(&words.split(' ').map(str::to_owned).collect::<Vec<_>>(), 2)
    };
    assert!(with("--rw=trim --ioengine=mmap").contains("psync"));
    assert!(with("--rw=trimwrite --ioengine=null --fill_device=1").contains("fill_device"));
}

/// A block that is trimmed is written, also when time is over between the two: fio 3.33 leaves it trimmed (axboe/fio 2122).
#[test]
fn as_many_blocks_are_written_as_trimmed() {
    for job in [
        "--rw=trimwrite --bs=4k",
        "--rw=randtrimwrite --bs=4k",
        "--rw=trimwrite --bs=4k --nrfiles=2",
        "--rw=trimwrite --bs=4k --rate_iops=,,3000",
    ] {
        for milliseconds in [21, 34, 48, 55] {
            let words = format!("--name=t --ioengine=null --size=1g --time_based --runtime={milliseconds}ms {job}");
            let report = crate::common::run(&words.split(' ').collect::<Vec<_>>());
            let worker = &report.workers[0];
            assert!(worker.trim.operations > 0, "{words}");
            assert_eq!(worker.write.operations, worker.trim.operations, "{words}");
        }
    }
}
