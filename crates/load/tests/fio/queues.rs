//! Engines with several operations under way: the same operations, files, depths and batches as fio's.

use std::process::Command;

use crate::common::{document, fio, fio_program, pagelab, run, same_files, same_operations, totals};

const ENGINES: [&str; 2] = ["io_uring", "libaio"];

#[test]
fn the_same_operations_are_issued() {
    for engine in ENGINES {
        for job in [
            "--rw=write --bs=4k --size=1m --iodepth=8",
            "--rw=read --bs=4k,8k --size=1m --iodepth=32 --iodepth_batch=8 --iodepth_batch_complete_min=4",
            "--rw=write --bs=1k --size=100k --iodepth=7 --loops=3 --overwrite=1",
            "--rw=write --bs=4k --size=1m --nrfiles=5 --iodepth=16 --iodepth_low=3",
            "--rw=write --bs=4k --size=1m --nrfiles=8 --openfiles=2 --file_service_type=sequential --iodepth=16",
            "--rw=write --bs=512 --size=64k --iodepth=4 --iodepth_batch_complete_min=0",
            "--rw=read --bs=4k --size=256k --number_ios=10 --iodepth=32",
        ] {
            same_operations(&format!("--ioengine={engine} {job}"));
        }
    }
}

/// What a file holds after 32 operations under way at once is what fio's holds: every write went where it belongs.
#[test]
fn the_same_files_are_written() {
    for engine in ENGINES {
        let places = [tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir")];
        let job = format!(
            "--name=j --ioengine={engine} --rw=randwrite --bs=4k --size=2m --iodepth=32 --iodepth_batch=5 --buffer_pattern=0xcafe"
        );
        let words: Vec<String> = job.split_whitespace().map(str::to_owned).collect();
        let expected = fio(places[0].path(), &words);
        let mut ours = vec![format!("--directory={}", places[1].path().display())];
        ours.extend(words);
        assert_eq!(totals(&run(&ours)), expected, "{job}");
        same_files(&job, &places, true);
    }
}

/// Depths and batches, in the JSON of both. Completions are taken one at a time or in whole batches, so that they do not depend on
/// how fast the disk is; the last ones are taken together and are left out.
#[test]
fn depths_and_batches_are_counted_alike() {
    for engine in ENGINES {
        for job in [
            "--iodepth=1",
            "--iodepth=8",
            "--iodepth=32 --iodepth_batch=32 --iodepth_batch_complete_min=32",
            "--iodepth=32 --iodepth_batch=8 --iodepth_batch_complete_min=8",
            "--iodepth=64 --iodepth_batch=16 --iodepth_batch_complete_min=16",
        ] {
            let job = format!("--name=j --rw=read --bs=4k --size=1m --ioengine={engine} {job}");
            let place = tempfile::tempdir().expect("tempdir");
            let of = |mut command: Command| {
                let words = job.split_whitespace();
                let output =
                    command.current_dir(place.path()).arg("--output-format=json").args(words).output().expect("runs");
                let document = document(&output);
                let shares = |key: &str| {
                    let shares = document["jobs"][0][key].as_object().expect("shares").values();
                    shares.map(|share| share.as_f64().expect("a share")).collect::<Vec<_>>()
                };
                [shares("iodepth_level"), shares("iodepth_submit")]
            };
            let (theirs, ours) = (of(fio_program()), of(pagelab()));
            for (theirs, ours) in theirs.iter().zip(&ours) {
                assert_eq!(theirs.len(), ours.len(), "{job}");
                let apart = theirs.iter().zip(ours).any(|(a, b)| (a - b).abs() > 1e-4);
                assert!(!apart, "{job}: fio {theirs:?}, pagelab {ours:?}");
            }
        }
    }
}

/// Logs of latencies: a line for each operation, in all three.
#[test]
fn latency_logs_have_a_line_for_each_operation() {
    let job = "--name=j --rw=read --bs=4k --size=256k --iodepth=8 --ioengine=io_uring --write_lat_log=l";
    let lines = |mut command: Command, place: &std::path::Path| {
        let output = command.current_dir(place).args(job.split_whitespace()).output().expect("runs");
        assert!(output.status.success());
        ["slat", "clat", "lat"].map(|kind| {
            let text = std::fs::read_to_string(place.join(format!("l_{kind}.1.log"))).expect("a log");
            text.lines().map(|line| line.split(", ").count()).collect::<Vec<_>>()
        })
    };
    let places = [tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir")];
    let theirs = lines(fio_program(), places[0].path());
    assert_eq!(lines(pagelab(), places[1].path()), theirs);
    assert!(theirs.iter().all(|log| log.len() == 64));
}
