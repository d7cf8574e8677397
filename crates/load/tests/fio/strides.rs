//! `zonemode=strided`: the region zone by zone.

use std::collections::BTreeSet;

use crate::common::{Logged, logs, refused, same_operations};

#[test]
fn zones_in_sequence_are_those_of_fio() {
    for job in [
        "--rw=read --bs=4k --size=1m --zonesize=64k --zoneskip=64k",
        "--rw=read --bs=4k --size=1m --zonesize=64k --zonerange=128k",
        "--rw=write --bs=4k --size=1m --zonesize=128k --zonerange=64k --zoneskip=32k",
        "--rw=read --bs=16k --size=1m --offset=256k --io_size=512k --zonesize=40k --zonerange=80k",
        "--rw=write --bs=4k --size=512k --loops=2 --zonesize=20k --zoneskip=12k",
        "--rw=trim --bs=4k --size=256k --zonesize=16k --zoneskip=16k",
    ] {
        same_operations(&format!("--ioengine=null --zonemode=strided {job}"));
    }
}

/// The rules of fio's `t/strided.py`: operations stay inside their zone, and each block of it comes once before one comes again.
fn keeps_to_zones(log: &[Logged], job: &str, [range, size, offset, end]: [u64; 4], once: bool) {
    let (mut start, mut in_zone, mut seen) = (offset, 0, BTreeSet::new());
    for operation in log {
        if in_zone == size / 4096 {
            (in_zone, start) = (0, start + range);
            if start >= end {
                start = offset;
            }
            seen.clear();
        }
        in_zone += 1;
        assert!(
            (start..start + range).contains(&operation.offset),
            "{job}: {operation:?} is outside the zone at {start}"
        );
        if once {
            assert!(seen.insert(operation.offset), "{job}: {operation:?} comes twice");
            if in_zone % (range / 4096) == 0 {
                assert_eq!(seen.len() as u64, range / 4096, "{job}");
                seen.clear();
            }
        }
    }
}

#[test]
fn random_blocks_stay_in_their_zone() {
    for (words, zone) in [
        ("--zonerange=4k --zonesize=4k --offset=32k --size=32k --filesize=64k", [4096, 4096, 32 << 10, 64 << 10]),
        ("--zonerange=4k --zonesize=16k --size=64k", [4096, 16 << 10, 0, 64 << 10]),
        ("--zonerange=64k --zonesize=64k --size=1m", [64 << 10, 64 << 10, 0, 1 << 20]),
        ("--zonerange=64k --zonesize=128k --size=1m", [64 << 10, 128 << 10, 0, 1 << 20]),
        ("--zonerange=64k --zonesize=32k --size=1m", [64 << 10, 32 << 10, 0, 1 << 20]),
    ] {
        for (more, once) in [("", true), ("--random_generator=lfsr", true), ("--norandommap", false)] {
            if zone[0] == 4096 && more.contains("lfsr") {
                continue; // fio's generator does not do with one block.
            }
            let job = format!("--ioengine=null --rw=randread --bs=4k --zonemode=strided {words} {more}");
            let ([theirs, ours], _) = logs(&job);
            assert_eq!(ours.len(), theirs.len(), "{job}");
            keeps_to_zones(&theirs, &job, zone, once);
            keeps_to_zones(&ours, &job, zone, once);
        }
    }
}

/// A further loop begins in the first zone, also where the loop before ended in another one.
#[test]
fn loops_begin_in_the_first_zone() {
    let zones = "--zonemode=strided --zonesize=32k --zonerange=64k --zoneskip=16k --loops=3";
    same_operations(&format!("--ioengine=psync --rw=write --bs=8k --size=256k {zones}"));
    let ([theirs, ours], _) = logs(&format!("--ioengine=psync --rw=randwrite --bs=8k --size=256k {zones}"));
    for (program, log) in [("fio", theirs), ("pagelab", ours)] {
        // A draw behind the end of the file ends the loop: how long it is is chance, and each goes the way of the first.
        assert!(log.len() >= 3 * 12 && log.len().is_multiple_of(3), "{program}: {log:?}");
        let first = &log[..log.len() / 3];
        assert!(log.chunks(first.len()).all(|of_loop| of_loop == first), "{program}: {log:?}");
        assert!(first[..4].iter().all(|operation| operation.offset < 64 << 10), "{program}: {log:?}");
    }
}

/// A law counts the blocks of the file from where the zone begins: what lies behind the end of the file ends the job.
#[test]
fn laws_reach_beyond_their_zone() {
    let zones = "--zonemode=strided --zonesize=32k --zonerange=64k --zoneskip=64k";
    for law in ["normal:20", "zipf:1.1", "pareto:0.3"] {
        let job = format!("--ioengine=null --rw=randwrite --bs=4k --size=4m --random_distribution={law} {zones}");
        let ([theirs, ours], _) = logs(&job);
        for (program, log) in [("fio", theirs), ("pagelab", ours)] {
            assert!((8..1024).contains(&log.len()), "{program}: {job}: {}", log.len());
            assert!(log[..8].iter().any(|operation| operation.offset >= 64 << 10), "{program}: {job}: {log:?}");
        }
    }
}

#[test]
fn what_contradicts_zones_is_refused() {
    for (words, said) in [
        ("--zonesize=4k", "without zonemode=strided"),
        ("--zonemode=strided", "needs zonesize"),
        ("--zonemode=zbd --zonesize=4k", "zoned block devices"),
    ] {
        let job: Vec<String> =
            format!("--name=j --size=1m --ioengine=null {words}").split(' ').map(str::to_owned).collect();
        let words = refused(&job, 2);
        assert!(words.contains(said), "{words}");
    }
}
