//! Combined options: jobs drawn at random from a fixed seed, under fio and under pagelab. An option's own test shows
//! that it works; these show that it works with others: passes and limits, offsets and sizes that do not divide.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::{document, fio_program, pagelab};
use pagelab_load::random::SplitMix64;

/// Jobs that are tried.
const JOBS: usize = 80;

/// Options that every job has one of.
const ALWAYS: &[&[&str]] = &[
    &["--bs=4k", "--bs=8k", "--bs=512", "--bs=16k", "--bs=3k", "--bs=1k", "--bs=7k"],
    &["--size=64k", "--size=100k", "--size=1m", "--size=256k", "--size=130k"],
    &[
        "--rw=read",
        "--rw=write",
        "--rw=randread",
        "--rw=randwrite",
        "--rw=rw",
        "--rw=randrw",
        "--rw=read:4k",
        "--rw=write:8k",
        "--rw=write:4k",
    ],
    &["--ioengine=psync", "--ioengine=sync", "--ioengine=pvsync", "--ioengine=vsync", "--ioengine=pvsync2"],
];

/// Options that about one job in five has one of.
const SOMETIMES: &[&[&str]] = &[
    &["--loops=2", "--loops=3"],
    &["--number_ios=1", "--number_ios=17", "--number_ios=100"],
    &["--io_size=32k", "--io_size=50k", "--io_size=300k"],
    &["--offset=4k", "--offset=10k", "--offset=16k"],
    &["--numjobs=2", "--numjobs=3"],
    &["--nrfiles=2", "--nrfiles=3"],
    &["--offset_increment=4k", "--offset_increment=64k"],
    &["--rwmixread=0", "--rwmixread=25", "--rwmixread=100"],
    &["--fsync=1", "--fsync=4"],
    &["--fdatasync=3"],
    &["--end_fsync=1"],
    &["--norandommap"],
    &["--thread"],
    &["--overwrite=1"],
    &["--fallocate=none", "--fallocate=posix", "--fallocate=keep", "--fallocate=truncate"],
    &["--file_service_type=random", "--file_service_type=sequential", "--file_service_type=roundrobin:4"],
    &["--group_reporting"],
    &["--offset_align=4k"],
    &["--zero_buffers"],
    &["--unlink=1"],
    &["--fsync_on_close=1"],
    &["--percentage_random=0", "--percentage_random=100"],
];

/// What a program did: operations and bytes of both directions, and the files it left with their sizes.
#[derive(Debug, PartialEq)]
struct Done {
    sums: BTreeMap<&'static str, (u64, u64)>,
    files: BTreeMap<String, u64>,
}

fn run(mut program: Command, directory: &Path, options: &[&str]) -> Result<Done, String> {
    std::fs::create_dir(directory).expect("a directory");
    let output = program.current_dir(directory).args(["--output-format=json", "--name=j"]).args(options).output();
    let output = output.expect("starts");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let document = document(&output);
    let mut sums = BTreeMap::new();
    for job in document["jobs"].as_array().expect("jobs") {
        for direction in ["read", "write"] {
            let of = |key: &str| job[direction][key].as_u64().expect("a number");
            let (operations, bytes) = (of("total_ios"), of("io_bytes"));
            let sum = sums.entry(direction).or_insert((0, 0));
            *sum = (sum.0 + operations, sum.1 + bytes);
        }
    }
    let entry = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        (entry.file_name().to_string_lossy().into_owned(), entry.metadata().expect("a file").len())
    };
    let files = std::fs::read_dir(directory).expect("a directory").map(entry).collect();
    Ok(Done { sums, files })
}

/// Leaves out what chance decides: which of mixed operations were reads, and how far random writes reach into a new file.
fn without_chance(mut done: Done, options: &[&str]) -> Done {
    let has = |words: &[&str]| words.iter().any(|word| options.contains(word));
    if has(&["--rw=rw", "--rw=randrw"]) {
        let both = done.sums.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        done.sums = BTreeMap::from([("both", both)]);
    }
    if has(&["--rw=rw", "--rw=randrw", "--rw=randwrite"]) {
        done.files.values_mut().for_each(|bytes| *bytes = 0);
    }
    done
}

#[test]
fn options_work_together_as_in_fio() {
    let scratch = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let mut draw = SplitMix64::new(20_261_121);
    let mut compared = 0;
    for number in 0..JOBS {
        let mut options: Vec<&str> = ALWAYS.iter().map(|of| of[draw.below(of.len() as u64) as usize]).collect();
        for of in SOMETIMES {
            if draw.below(5) == 0 {
                options.push(of[draw.below(of.len() as u64) as usize]);
            }
        }
        let theirs = run(fio_program(), &scratch.path().join(format!("fio{number}")), &options);
        let ours = run(pagelab(), &scratch.path().join(format!("pagelab{number}")), &options);
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => {
                compared += 1;
                assert_eq!(without_chance(ours, &options), without_chance(theirs, &options), "{}", options.join(" "));
            }
            // What fio refuses may be refused; what pagelab refuses it must name.
            (Err(_), _) => {}
            (Ok(_), Err(words)) => assert!(words.contains("job 'j'"), "{}: {words}", options.join(" ")),
        }
    }
    assert!(compared > JOBS * 3 / 4, "{compared} of {JOBS} jobs ran under both");
}
