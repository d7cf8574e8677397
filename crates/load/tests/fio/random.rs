//! Random blocks: each once where the job covers its region, else by the same distribution as fio's.

use crate::common::{Logged, draws, ks_distance, logs, near};

fn offsets(log: &[Logged]) -> Vec<u64> {
    log.iter().map(|operation| operation.offset).collect()
}

fn compare_offsets(job: &str, near: f64) -> [Vec<Logged>; 2] {
    let (both, _) = logs(&format!("--ioengine=null --bs=4k --number_ios={} {job}", draws()));
    assert!(both.iter().all(|log| log.len() as u64 == draws()), "{job}: {} {}", both[0].len(), both[1].len());
    let distance = ks_distance(offsets(&both[0]), offsets(&both[1]));
    assert!(distance <= near, "{job}: {distance}");
    both
}

#[test]
fn random_blocks_are_alike() {
    for job in [
        "--rw=randread --size=16g",
        "--rw=randwrite --size=16g --offset=4g",
        "--rw=randread --size=16g --random_generator=lfsr",
        "--rw=randread --size=16g --random_generator=tausworthe64 --randseed=5",
    ] {
        for mut log in compare_offsets(job, near()) {
            log.sort_by_key(|operation| operation.offset);
            assert!(log.windows(2).all(|pair| pair[0].offset < pair[1].offset), "{job}: a block came twice");
        }
    }
    for job in [
        "--rw=randread --size=16g --norandommap=1",
        "--rw=randread --size=16g --norandommap=1 --softrandommap=1 --randrepeat=0 --allrandrepeat=1",
        "--rw=randwrite --size=16g --blockalign=512",
    ] {
        compare_offsets(job, near());
    }
}

/// The whole region: each block exactly once, in both.
#[test]
fn the_whole_region_is_covered() {
    for job in ["--rw=randread --size=64m", "--rw=randrw --size=64m --loops=2", "--rw=randwrite --size=64m --nrfiles=4"]
    {
        let (both, _) = logs(&format!("--ioengine=null --bs=4k {job}"));
        let passes = if job.contains("loops") { 2 } else { 1 };
        for mut log in both {
            for operation in &mut log {
                operation.act = "";
            }
            log.sort();
            assert_eq!(log.len(), 16384 * passes, "{job}");
            log.dedup();
            assert_eq!(log.len(), 16384, "{job}");
        }
    }
}

/// Where lengths differ by direction each counts its own blocks in one map, and the first draw that finds no place in the file ends the
/// job: how much of it is done is chance.
#[test]
fn blocks_of_two_sizes_are_taken_in_one_map() {
    for job in [
        "--rw=randread --bs=8k,4k,16k",
        "--rw=randrw --bs=4k,8k",
        "--rw=randwrite --bs=,16k",
        "--rw=randrw --bs=16k,4k",
    ] {
        let mut counts = [Vec::new(), Vec::new()];
        for _ in 0..12 {
            let (both, _) = logs(&format!("--ioengine=null --size=1000k --randrepeat=0 {job}"));
            for (counts, log) in counts.iter_mut().zip(&both) {
                counts.push(log.len());
            }
        }
        for counts in &mut counts {
            counts.sort_unstable();
        }
        let [theirs, ours] = &counts;
        // Medians lie inside of the other program's range: by chance they do not once in 4,000 times.
        let inside = |one: &[usize], other: &[usize]| (other[0]..=other[11]).contains(&one[6]);
        assert!(inside(theirs, ours) && inside(ours, theirs), "{job}: fio {theirs:?}, pagelab {ours:?}");
    }
}

/// fio's generator of sequences counts blocks, not the places where they may start, and comes to no others.
#[test]
fn sequences_of_aligned_blocks_are_as_long_as_fio_s() {
    for (job, expected) in [
        ("--bs=16k --blockalign=8k --size=300000", 18),
        ("--bs=16k --blockalign=8k --size=64k --offset=16k", 4),
        ("--bs=4k --size=64k", 16),
    ] {
        let (logs, _) = logs(&format!("--rw=randread --random_generator=lfsr {job}"));
        assert_eq!(logs.map(|log| log.len()), [expected; 2], "{job}");
    }
    // Nor does it keep a map: lengths are as they are drawn, 14.8 KiB of 4 and 16.
    let (logs, _) = logs("--rw=randwrite --random_generator=lfsr --bssplit=4k/10:16k/90 --size=4m --ioengine=libaio");
    for log in logs {
        let mean = log.iter().map(|one| one.bytes).sum::<u64>() / log.len() as u64;
        assert!((14_500..16_000).contains(&mean), "{mean} bytes on average");
    }
}

#[test]
fn a_map_that_does_not_fit_is_refused() {
    let words = "--name=j --ioengine=null --rw=randread --bsrange=512-4k --size=100t --number_ios=10";
    let said = crate::common::refused(&words.split(' ').collect::<Vec<_>>(), 2);
    assert!(said.contains("need a map of 25 GiB") && said.contains("norandommap=1"), "{said}");
    crate::common::run(&format!("{words} --norandommap=1").split(' ').collect::<Vec<_>>());
}

/// Laws with a centre touch the same blocks equally often; without one fio puts the most frequent block anywhere.
#[test]
fn laws_of_chance() {
    for law in [
        "zipf:1.2:0.25",
        "zipf:0.6:0.5",
        "pareto:0.3:0.5",
        "pareto:0.9:0",
        "normal:10",
        "normal",
        "normal:30:0.25",
        "zoned:60/10:30/20:8/30:2/40",
        "zoned:50/5:30/15:20/",
        "zoned_abs:60/100m:30/200m:10/300m",
    ] {
        compare_offsets(&format!("--rw=randread --size=16g --random_distribution={law}"), near());
    }
    // How often the most frequent blocks come does not depend on where they lie.
    let (both, _) = logs(&format!(
        "--ioengine=null --bs=4k --number_ios={} --rw=randread --size=16g --random_distribution=zipf",
        draws()
    ));
    let counts = both.map(|log| {
        let mut offsets = offsets(&log);
        offsets.sort_unstable();
        let mut counts: Vec<u64> = offsets.chunk_by(|a, b| a == b).map(|run| run.len() as u64).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    });
    for rank in 0..20 {
        let [theirs, ours] = [&counts[0], &counts[1]].map(|counts| counts[rank] as f64 / draws() as f64);
        assert!((theirs - ours).abs() <= near(), "rank {rank}: {theirs} {ours}");
    }
}

/// Zones of reads and of writes. fio 3.33 has them in its manual, but its parser stops at the comma: they are compared with the law.
#[test]
fn zones_of_reads_and_writes() {
    let place = tempfile::tempdir().expect("tempdir");
    let log = place.path().join("log");
    let job = format!(
        "--name=j --ioengine=null --rw=randrw --size=1g --norandommap --random_distribution=zoned:90/10:10/90,10/10:90/90 --write_iolog={}",
        log.display()
    );
    crate::common::run(&job.split(' ').collect::<Vec<_>>());
    for (act, expected) in [("read", 0.9), ("write", 0.1)] {
        let own: Vec<u64> =
            crate::common::read_log(&log).iter().filter(|op| op.act == act).map(|op| op.offset).collect();
        let first = own.iter().filter(|offset| **offset < (1 << 30) / 10).count() as f64 / own.len() as f64;
        // Five standard deviations of a binomial share at n = 130000.
        assert!((first - expected).abs() < 0.0042, "{act}: {first}");
    }
}

/// The share of operations that go on behind the one before.
#[test]
fn random_and_sequential_mixed() {
    for (job, distance) in [
        // Operations that follow each other are no independent draws: there are as many of those as there are random ones.
        ("--percentage_random=30", near() / 0.3_f64.sqrt()),
        ("--percentage_random=75 --norandommap=1", near() / 0.75_f64.sqrt()),
    ] {
        let both = compare_offsets(&format!("--rw=randread --size=256g {job}"), distance);
        let share = both.each_ref().map(|log| {
            log.windows(2).filter(|pair| pair[0].offset + pair[0].bytes == pair[1].offset).count() as f64
                / draws() as f64
        });
        assert!((share[0] - share[1]).abs() <= near(), "{job}: {share:?}");
    }
}

/// `rw=randread:8`: a new block now and then, the others by the sequencer.
#[test]
fn new_blocks_now_and_then() {
    for job in
        ["--rw=randread:8", "--rw=randread:8 --rw_sequencer=identical", "--rw=randwrite:3 --rw_sequencer=sequential"]
    {
        let (both, _) = logs(&format!("--ioengine=null --bs=4k --number_ios=200000 --size=64g --norandommap=1 {job}"));
        let steps = both.each_ref().map(|log| {
            // What follows what: behind it, at the same place, or elsewhere.
            log.windows(2)
                .map(|pair| match pair[1].offset {
                    same if same == pair[0].offset => '=',
                    next if next == pair[0].offset + pair[0].bytes => '+',
                    _ => '*',
                })
                .collect::<String>()
        });
        assert_eq!(steps[0].len(), steps[1].len());
        assert!(steps[0] == steps[1], "{job}: {} {}", &steps[0][..40], &steps[1][..40]);
    }
}

/// Shares of reads and writes.
#[test]
fn directions_are_mixed_in_their_shares() {
    for mix in ["--rwmixread=70", "--rwmixwrite=10", "--rwmixread=100", ""] {
        for rw in ["rw", "randrw"] {
            let (both, _) = logs(&format!("--ioengine=null --bs=4k --number_ios=200000 --size=64g --rw={rw} {mix}"));
            let share = both
                .each_ref()
                .map(|log| log.iter().filter(|operation| operation.act == "read").count() as f64 / log.len() as f64);
            // Five standard deviations of the difference of two binomial shares at n = 2e5.
            assert!((share[0] - share[1]).abs() <= 0.008, "{rw} {mix}: {share:?}");
            if rw == "rw" {
                // Each direction goes on from its own place, without gaps.
                for act in ["read", "write"] {
                    let own = both[1].iter().filter(|op| op.act == act).enumerate();
                    assert!(own.into_iter().all(|(n, op)| op.offset == n as u64 * 4096), "{mix}");
                }
            }
        }
    }
}

/// The same seed, the same way; another seed, another way.
#[test]
fn seeds_repeat() {
    let order = |seed: &str| {
        let place = tempfile::tempdir().expect("tempdir");
        let log = place.path().join("log");
        let job = format!("--name=j --ioengine=null --rw=randread --size=16m {seed} --write_iolog={}", log.display());
        crate::common::run(&job.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>());
        offsets(&crate::common::read_log(&log))
    };
    assert_eq!(order("--randseed=7"), order("--randseed=7"));
    assert_eq!(order(""), order("--randrepeat=1"));
    assert_ne!(order("--randseed=7"), order("--randseed=8"));
    assert_ne!(order("--randrepeat=0"), order("--randrepeat=0"));
}

/// Further loops go the way of the first, as fio's do; where a loop has no end, or each run has a seed of its own, chance goes on.
#[test]
fn loops_repeat_their_order() {
    for (job, repeated) in [
        ("--rw=randwrite --loops=3", true),
        ("--rw=randwrite --io_size=192k", true),
        ("--rw=randread --loops=3", true),
        ("--rw=randrw --loops=3", true),
        ("--rw=randwrite --loops=3 --nrfiles=4 --file_service_type=random", true),
        ("--rw=randwrite --loops=3 --verify=crc32c --do_verify=0", true),
        ("--rw=randwrite --loops=3 --random_generator=lfsr", true),
        ("--rw=randwrite --loops=3 --norandommap", false),
        ("--rw=randwrite --loops=3 --random_distribution=zipf:1.1", false),
        ("--rw=randwrite --loops=3 --randrepeat=0", false),
        ("--rw=randwrite --loops=3 --randseed=7", false),
    ] {
        let (of_both, _) = logs(&format!("--bs=4k --size=64k {job}"));
        for (log, program) in of_both.iter().zip(["fio", "pagelab"]) {
            assert_eq!(log.len(), 48, "{program} {job}");
            let repeats = log.chunks(16).all(|pass| pass == &log[..16]);
            assert_eq!(repeats, repeated, "{program} {job}: {log:?}");
        }
    }
}
