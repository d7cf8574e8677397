//! How much, how long, from where: sizes, offsets, block sizes, sequences with jumps.

use crate::common::{draws, ks_distance, logs, near, same_operations};

#[test]
fn sequences_with_jumps_and_backwards() {
    for job in [
        "--ioengine=null --rw=write:8k --bs=4k --size=256k",
        "--ioengine=null --rw=read:4k --bs=4k --size=100k",
        "--ioengine=null --rw=read:-8k --bs=4k --size=64k --offset=128k",
        "--ioengine=psync --rw=write:4k --bs=4k --size=64k",
        "--ioengine=psync --rw=write:12k --bs=4k --size=64k --loops=2",
        "--ioengine=psync --rw=read:-8k --bs=4k --size=64k --offset=64k",
        "--ioengine=null --rw=write:4k --bs=4k --size=64k --io_size=256k",
    ] {
        same_operations(job);
    }
}

#[test]
fn sizes_offsets_and_amounts() {
    for job in [
        "--ioengine=psync --rw=write --bs=4k --size=64k --offset=20k",
        "--ioengine=psync --rw=write --bs=4k --size=64k --io_size=50%",
        "--ioengine=psync --rw=write --bs=4k --size=64k --io_size=50% --loops=2",
        "--ioengine=psync --rw=write --bs=4k --size=64k --io_size=66k",
        "--ioengine=null --rw=write --bs=4k --size=64k --io_size=66k --loops=2",
        "--ioengine=null --rw=read --bs=4k --size=10k",
        "--ioengine=null --rw=write --bs=3k --size=64k",
        "--ioengine=psync --rw=write --bs=3k --size=64k",
        "--ioengine=null --rw=read --bs=8k --size=64k --number_ios=3 --loops=2",
        "--ioengine=psync --rw=write --bs=,64k --size=1m",
        "--ioengine=null --rw=read --bs=16k,8k --size=1m",
        "--ioengine=null --rw=write --bsrange=8k-8k --size=100k",
        "--ioengine=null --rw=write --bssplit=16k/100 --size=1m",
        "--ioengine=null --rw=write --bssplit=16k --size=1m",
        "--ioengine=null --rw=write --bs=4k --filesize=256k",
        "--ioengine=psync --rw=write --bs=4k --filesize=256k --size=64k",
    ] {
        same_operations(job);
    }
}

/// Files that are longer than the region: the last block may reach over the region's end, and percentages are of the file.
#[test]
fn regions_of_existing_files() {
    for job in [
        "--rw=read --bs=4k --size=10k",
        "--rw=read --bs=3k --size=64k --offset=64k",
        "--rw=read --bs=4k --size=30%",
        "--rw=read --bs=4k --size=50% --offset=75%",
        "--rw=read --bs=4k --size=100%",
        "--rw=read --bs=4k --offset=33%",
        "--rw=read --bs=4k --offset=10% --offset_align=64k --size=128k",
        "--rw=read --bs=4k --size=64k --offset=64k --offset_increment=32k",
        "--rw=read --bs=4k --offset=192k",
        "--rw=read:16k --bs=4k --size=100k",
        "--rw=read:-12k --bs=4k --size=100k --offset=40k",
    ] {
        let directory = tempfile::tempdir().expect("tempdir");
        let path = directory.path().join("f");
        std::fs::write(&path, vec![1_u8; 256 << 10]).expect("write");
        same_operations(&format!("{job} --filename={}", path.display()));
    }
}

/// A file that does not exist yet has no bytes that an offset could be a percentage of.
#[test]
fn percentages_of_files_to_come_are_nothing() {
    for job in [
        "--rw=write --bs=4k --size=64k --offset=50%",
        "--rw=read --bs=4k --size=64k --offset=25% --ioengine=mmap",
        "--rw=write --bs=4k --size=64k --offset=10% --nrfiles=2",
        "--rw=write --bs=4k --filesize=64k --offset=25%",
        "--rw=read --bs=4k --filesize=64k --size=64k --offset=25%",
    ] {
        let operations = same_operations(job);
        assert_eq!(operations.len(), 16, "{job}");
        assert!(operations.iter().any(|operation| operation.offset == 0), "{job}");
    }
}

/// Further loops take the percentage of the file as it was laid out; what the first one appended ends there.
#[test]
fn percentages_are_taken_anew_in_further_loops() {
    for (job, expected) in [
        ("--rw=write --size=64k --offset=25% --loops=3", 16 + 12 + 12),
        ("--rw=read --size=64k --offset=25% --loops=2", 16 + 12),
        ("--rw=write --size=64k --offset=25% --nrfiles=2 --loops=2 --ioengine=libaio", 16 + 12),
        ("--rw=write --size=64k --offset=25% --ioengine=mmap --loops=2", 16 + 12),
        ("--rw=write --size=64k --file_append=1 --loops=3", 16),
        ("--rw=read --size=64k --file_append=1 --loops=2 --ioengine=libaio", 16),
        ("--rw=write --size=256k --file_append=1 --loops=3 --zonemode=strided --zonesize=32k --zoneskip=64k", 24),
    ] {
        assert_eq!(same_operations(&format!("{job} --bs=4k")).len(), expected, "{job}");
    }
    // A random place behind the file ends a loop.
    let (random, _) = logs("--rw=randwrite --bs=4k --size=1m --offset=25% --loops=3");
    let [theirs, ours] = random.map(|log| log.len());
    assert!((256..2 * 256).contains(&ours) && (256..2 * 256).contains(&theirs), "{ours}, fio {theirs}");
    // Where a file is appended to, lengths that do not fit into it are thought to, and end it: more than a hundred would fit.
    let (logs, _) = logs("--rw=write --file_append=1 --bssplit=1k/30:4k/30:64k/40 --nrfiles=7 --size=300000");
    assert!(logs.iter().all(|log| (1..60).contains(&log.len())), "{:?}", logs.map(|log| log.len()));
}

/// Workers whose files have no byte behind their offset, or no block, do nothing; the others do their work, and no less.
#[test]
fn workers_do_as_much_as_those_of_fio() {
    for (job, expected) in [
        ("--rw=write --bs=4k --size=64k --filesize=64k --numjobs=2 --offset_increment=64k --filename=f", 16),
        ("--rw=rw --bs=4k --size=1m --filesize=64k --numjobs=3 --offset_increment=32k --filename=f", 24),
        ("--rw=write --bs=4k --size=64k --filesize=64k --offset=64k", 0),
        ("--rw=randwrite --bs=4k --size=64k --filesize=64k --offset=64k --ioengine=libaio --iodepth=4", 0),
        ("--rw=write --bs=64k --size=1m --filesize=16k-48k --nrfiles=3 --ioengine=psync", 0),
        ("--rw=randwrite --bs=64k --size=128k --nrfiles=4", 0),
        ("--rw=randwrite --bs=64k --size=64k --filename=one:two", 0),
        // One that verifies makes its files where it is to make files alone.
        ("--rw=randread --bs=4k --size=64k --verify=crc32c --create_only=1", 0),
        // A law keeps no map of the blocks that came, and a pass of writes goes on to io_size. Of whole blocks: fio's law is seeded by the
        // name of the file, and a block behind the end of it ends the pass.
        (
            "--rw=randwrite --bs=1k --size=300k --nrfiles=3 --loops=3 --io_size=2m --random_distribution=pareto:0.3",
            6144,
        ),
        (
            "--rw=randwrite --bs=1k --size=64k --loops=2 --io_size=256k --random_distribution=zipf --ioengine=libaio",
            512,
        ),
    ] {
        let [reads, _, writes, _, _] = crate::common::totals(&crate::common::run(&in_new_folder(job).1));
        let (place, words) = in_new_folder(job);
        let [their_reads, _, their_writes, _, _] = crate::common::fio(place.path(), &words);
        assert_eq!((reads + writes, their_reads + their_writes), (expected, expected), "{job}");
    }
}

/// Of a range of sizes the least counts, whatever is drawn; a file that is there and in the range keeps its own.
#[test]
fn offsets_beyond_the_least_size_are_refused() {
    for (there, works) in [(None, false), (Some(4 << 10), false), (Some(96 << 10), true)] {
        for mut program in [crate::common::fio_program(), crate::common::pagelab()] {
            let place = tempfile::tempdir().expect("tempdir");
            if let Some(bytes) = there {
                std::fs::write(place.path().join("j.0.0"), vec![1_u8; bytes]).expect("write");
            }
            let job = "--name=j --rw=randread --bs=1k --size=1m --filesize=16k-8m --offset=64k";
            let output = program.current_dir(place.path()).args(job.split(' ')).output().expect("runs");
            assert_eq!(output.status.success(), works, "{there:?}: {program:?}: {output:?}");
        }
    }
}

/// A job all of whose files together have less than a block fails without having made them; the others go on.
#[test]
fn jobs_without_a_block_fail_alone() {
    for job in [
        "--rw=read --bs=64k --size=64k --nrfiles=3",
        "--rw=write --bs=64k --size=64k --nrfiles=3 --create_only=1",
        "--rw=read --bs=64k --size=64k --io_size=50%",
        "--rw=write --bs=4k --filesize=2k --ioengine=libaio --iodepth=4",
        "--rw=randwrite --bs=4k --filesize=2k --nrfiles=1 --ioengine=mmap",
    ] {
        for mut program in [crate::common::fio_program(), crate::common::pagelab()] {
            let place = tempfile::tempdir().expect("tempdir");
            program.current_dir(place.path()).args(["--output-format=json", "--name=j"]).args(job.split(' '));
            let output = program.args(["--name=other", "--rw=write", "--bs=4k", "--size=64k"]).output().expect("runs");
            assert!(!output.status.success(), "{job}: {program:?}");
            let document = crate::common::document(&output);
            let [bytes, others] = [0, 1].map(|job| document["jobs"][job]["write"]["io_bytes"].as_u64());
            assert_eq!([bytes, others], [Some(0), Some(64 << 10)], "{job}: {program:?}");
            let made: Vec<_> =
                std::fs::read_dir(place.path()).expect("a folder").flatten().map(|file| file.file_name()).collect();
            assert_eq!(made, ["other.0.0"], "{job}: {program:?}");
        }
    }
}

/// A job in a folder of its own.
fn in_new_folder(job: &str) -> (tempfile::TempDir, Vec<String>) {
    let place = tempfile::tempdir().expect("tempdir");
    let words = format!("--name=j --directory={} {job}", place.path().display());
    (place, words.split(' ').map(str::to_owned).collect())
}

/// The operations of the second worker: its region is shifted by the increment.
#[test]
fn regions_move_on_with_the_worker() {
    let ([_, _], places) =
        logs("--rw=write --bs=4k --size=64k --offset_increment=64k --numjobs=3 --filename=f --ioengine=psync");
    // fio lets all workers write one log over each other; ours have one each, and the file tells whether all were there.
    let mut offsets: Vec<u64> = ["log", "log.1", "log.2"]
        .iter()
        .flat_map(|name| crate::common::read_log(&places[1].path().join(name)))
        .map(|operation| operation.offset)
        .collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..48).map(|i| i * 4096).collect::<Vec<u64>>());
    crate::common::same_files("offset_increment", &places, false);
}

/// Workers behind the first are numbered from the last to the second, and each knows the file as long as those before it have made it.
/// A sequence that comes to the end of its region goes on at a random block where the file ends, too, and is over where the file goes on.
#[test]
fn workers_find_the_file_of_those_before_them() {
    const REGION: u64 = 64 << 10;
    let words = "--rw=randread:64 --bs=4k --size=64k --offset_increment=64k --numjobs=4 --filename=f";
    for mut program in [crate::common::fio_program(), crate::common::pagelab()] {
        let place = tempfile::tempdir().expect("tempdir");
        let output = program
            .current_dir(place.path())
            .arg("--name=j")
            .args(words.split(' '))
            .args(["--write_lat_log=log", "--log_offset=1"])
            .output()
            .expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for (number, clone) in [(1, 0), (2, 3), (3, 2), (4, 1)] {
            let offsets = logged_offsets(&place.path().join(format!("log_clat.{number}.log")));
            let region = clone * REGION..(clone + 1) * REGION;
            assert!(offsets.iter().all(|offset| region.contains(offset)), "{number}: {offsets:?}");
            if clone == 0 || clone == 3 {
                assert_eq!(offsets.len(), 16, "{number}: {offsets:?}");
            } else {
                assert!(offsets.windows(2).all(|pair| pair[1] == pair[0] + 4096), "{number}: {offsets:?}");
                assert_eq!(offsets.last(), Some(&(region.end - 4096)), "{number}");
            }
        }
    }
}

/// The offsets in a log of samples with `log_offset=1`.
fn logged_offsets(path: &std::path::Path) -> Vec<u64> {
    let text = std::fs::read_to_string(path).expect("a log");
    let offset = |line: &str| line.split(',').nth(4).and_then(|word| word.trim().parse().ok()).expect("an offset");
    text.lines().map(offset).collect()
}

fn bytes(log: &[crate::common::Logged]) -> Vec<u64> {
    log.iter().map(|operation| operation.bytes).collect()
}

/// Lengths are drawn: the same distribution, and the region is covered to the byte.
#[test]
fn lengths_that_vary() {
    for job in [
        "--rw=write --bsrange=1k-16k",
        "--rw=read --bssplit=4k/10:64k/50:32k/40",
        "--rw=write --bssplit=4k:8k:16k",
        "--rw=write --bssplit=2k/30:6k/70",
        "--rw=read --bsrange=512-3000 --bs_unaligned=1",
        "--rw=randread --norandommap --bsrange=4k-64k",
        "--rw=randread --norandommap --bssplit=4k/90:1m/10",
        "--rw=randwrite --norandommap --bsrange=4k-64k --blockalign=512",
        "--rw=randread --norandommap --bs_is_seq_rand=1 --bs=4k,16k",
    ] {
        let ([theirs, ours], _) = logs(&format!("{job} --ioengine=null --size=400g --number_ios={}", draws()));
        assert_eq!((theirs.len(), ours.len()), (draws() as usize, draws() as usize), "{job}");
        let distance = ks_distance(bytes(&theirs), bytes(&ours));
        assert!(distance <= near(), "{job}: lengths {distance}");
        if job.contains("rand") {
            let offsets = |log: &[crate::common::Logged]| log.iter().map(|op| op.offset).collect();
            let distance = ks_distance(offsets(&theirs), offsets(&ours));
            assert!(distance <= near(), "{job}: offsets {distance}");
        } else {
            assert!(ours.windows(2).all(|pair| pair[0].offset + pair[0].bytes == pair[1].offset), "{job}");
        }
    }
}

/// Blocks of varying lengths in random order, each byte once: lengths are cut where they run into what is taken.
#[test]
fn varying_lengths_cover_the_region_once() {
    for job in ["--bsrange=4k-64k", "--bssplit=4k/50:32k/50", "--bsrange=3k-12k"] {
        let ([theirs, ours], _) = logs(&format!("--rw=randwrite {job} --ioengine=null --size=48m"));
        // The distance of Kolmogorov and Smirnov that one seed in 1500 passes. Draws here depend on each other a little, and stay below.
        let near = 2.0 / (theirs.len().min(ours.len()) as f64 / 2.0).sqrt();
        let distance = ks_distance(bytes(&theirs), bytes(&ours));
        assert!(distance <= near, "{job}: lengths {distance}, needed {near}; {} and {}", theirs.len(), ours.len());
        for (who, mut log) in [("fio", theirs), ("pagelab", ours)] {
            log.sort();
            let covered: u64 = log.iter().map(|operation| operation.bytes).sum();
            assert_eq!(covered, 48 << 20, "{job}: {who}");
            let apart = log.windows(2).all(|pair| pair[0].offset + pair[0].bytes <= pair[1].offset);
            assert!(apart, "{job}: {who}");
        }
    }
}
