//! What becomes a row and when: changes, ends, newcomers, refusals.

use std::collections::HashSet;

use super::super::series::MAX_SERIES;
use super::super::{Emit, Sampler};
use super::{FakeRoot, take};

const SECOND: i64 = 1_000_000_000;
const TENTH: i64 = SECOND / 10;

fn vmstat_only(text: &str) -> (FakeRoot, Sampler) {
    let root = FakeRoot::new().with("proc/vmstat", text);
    let sampler = Sampler::new(root.path(), None);
    (root, sampler)
}

#[test]
fn the_first_sample_is_whole_and_later_ones_hold_what_changed() {
    let (root, mut sampler) = vmstat_only("pgfault 10\npgfree 20\nnr_dirty 30\n");
    let first = take(&mut sampler, 0, Emit::Changed);
    assert_eq!((first.stats.rows, first.stats.values), (3, 3));
    assert_eq!(take(&mut sampler, TENTH, Emit::Changed).stats.rows, 0);

    root.write("proc/vmstat", "pgfault 11\npgfree 20\nnr_dirty 29\n");
    let third = take(&mut sampler, 2 * TENTH, Emit::Changed);
    assert_eq!(third.get("vmstat.pgfault", None), Some(11.0));
    assert_eq!(third.get("vmstat.nr_dirty", None), Some(29.0));
    assert_eq!((third.stats.rows, third.stats.values), (2, 3));

    let last = take(&mut sampler, 3 * TENTH, Emit::All);
    assert_eq!(last.stats.rows, 3, "the last sample shows every series");
}

/// The rule readers rely on: filling gaps with the previous value gives back exactly the values read.
#[test]
fn holding_values_restores_every_reading() {
    let (root, mut changed) = vmstat_only("a 0\nb 0\nc 0\n");
    let mut whole = Sampler::new(root.path(), None);
    let mut held = std::collections::BTreeMap::new();
    for step in 0..200_u32 {
        root.write("proc/vmstat", format!("a {}\nb {}\nc {}\n", step / 7, step % 2, 5));
        let ts = i64::from(step) * TENTH;
        held.extend(take(&mut changed, ts, Emit::Changed).rows);
        assert_eq!(held, take(&mut whole, ts, Emit::All).rows, "step {step}");
    }
}

#[test]
fn a_line_that_goes_ends_its_series_and_may_come_back() {
    let (root, mut sampler) = vmstat_only("pgfault 10\npgfree 20\nnr_dirty 30\n");
    take(&mut sampler, 0, Emit::Changed);
    root.write("proc/vmstat", "pgfault 10\nnr_dirty 30\n");
    let gone = take(&mut sampler, TENTH, Emit::Changed);
    assert!(gone.ends("vmstat.pgfree", None));
    assert_eq!(gone.stats.rows, 1);
    assert_eq!(take(&mut sampler, 2 * TENTH, Emit::Changed).stats.rows, 0, "an end is said once");

    root.write("proc/vmstat", "pgfault 10\npgfree 20\nnr_dirty 30\n");
    let back = take(&mut sampler, 3 * TENTH, Emit::Changed);
    assert_eq!(back.get("vmstat.pgfree", None), Some(20.0), "equal to its last value, yet a row: it had ended");
    assert_eq!((back.stats.rows, sampler.series()), (1, 3), "and the same series as before");
}

/// The list of series follows the text; whatever the order, every line finds its own series.
#[test]
fn lines_may_come_in_any_order() {
    let (root, mut sampler) = vmstat_only("a 1\nb 2\nc 3\nd 4\n");
    take(&mut sampler, 0, Emit::Changed);
    for (n, text) in
        ["d 4\nc 3\nb 2\na 1\n", "b 2\na 1\nd 4\nc 3\n", "new 9\na 1\nb 2\nc 3\nd 4\n"].into_iter().enumerate()
    {
        root.write("proc/vmstat", text);
        let taken = take(&mut sampler, (n as i64 + 1) * TENTH, Emit::All);
        for (name, value) in [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)] {
            assert_eq!(taken.get(&format!("vmstat.{name}"), None), Some(value), "{text:?}");
        }
    }
    assert_eq!(sampler.series(), 5);
}

#[test]
fn devices_come_and_go() {
    let vda = " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11\n";
    let sda = " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n";
    let root = FakeRoot::new().with("proc/diskstats", vda);
    let mut sampler = Sampler::new(root.path(), None);
    take(&mut sampler, 0, Emit::Changed);
    root.write("proc/diskstats", format!("{sda}{vda}"));
    let plugged = take(&mut sampler, TENTH, Emit::Changed);
    assert_eq!(plugged.get("disk.reads", Some("sda")), Some(1.0));
    assert_eq!(plugged.stats.rows, 11);
    root.write("proc/diskstats", sda);
    let pulled = take(&mut sampler, 2 * TENTH, Emit::Changed);
    assert!(pulled.ends("disk.reads", Some("vda")));
    assert_eq!(pulled.stats.rows, 11);
}

#[test]
fn slow_sources_are_read_once_a_second_and_in_the_last_sample() {
    let slab = |n: u32| format!("slabinfo - version: 2.1\nbio {n} 1 1 1 1 : tunables 0 0 0 : slabdata 1 1 0\n");
    let root = FakeRoot::new().with("proc/slabinfo", slab(1)).with("proc/vmstat", "pgfault 1\n");
    let mut sampler = Sampler::new(root.path(), None);
    let mut reads = 0;
    for step in 0..30_u32 {
        root.write("proc/slabinfo", slab(step + 1));
        let taken = take(&mut sampler, i64::from(step) * TENTH, Emit::Changed);
        if taken.get("slab.active_bytes", Some("bio")).is_some() {
            reads += 1;
            assert_eq!(step % 10, 0, "read in step {step}");
        }
    }
    assert_eq!(reads, 3);
    // 29.5 steps in: not due, but the last sample reads it.
    let last = take(&mut sampler, 29 * TENTH + TENTH / 2, Emit::All);
    assert_eq!(last.get("slab.active_bytes", Some("bio")), Some(30.0));
}

#[test]
fn a_host_with_nothing_refuses_everything_and_yields_nothing() {
    let root = FakeRoot::new();
    let mut sampler = Sampler::new(root.path(), Some(1));
    assert_eq!(take(&mut sampler, 0, Emit::All).stats.rows, 0);
    assert_eq!(sampler.sources().count(), 0);
    let names: HashSet<&str> = sampler.refused().iter().map(|r| r.source.as_str()).collect();
    assert_eq!(names.len(), sampler.refused().len(), "each source is refused once");
    for source in ["/proc/vmstat", "/proc/pressure/cpu", "/proc/stat", "/proc/<pid>", "/proc/slabinfo"] {
        assert!(names.contains(source), "{source} is missing among {names:?}");
    }
    for refused in sampler.refused() {
        assert!(refused.reason.contains("does not exist: "), "{refused:?}");
    }
}

/// The files open and reading fails: a directory in place of the file is the simplest of such cases.
#[test]
fn what_cannot_be_read_is_reported_once_and_ends() {
    let root = FakeRoot::new().with("proc/vmstat/x", "").with("proc/loadavg", "1.0 1.0 1.0 1/2 3\n");
    let mut sampler = Sampler::new(root.path(), None);
    let before = sampler.refused().len();
    for step in 0..5 {
        take(&mut sampler, step * TENTH, Emit::Changed);
    }
    let new = &sampler.refused()[before..];
    assert_eq!(new.len(), 1, "{new:?}");
    assert_eq!(new[0].source, "/proc/vmstat");
    assert!(new[0].reason.contains("Is a directory"), "{new:?}");
}

#[test]
fn the_number_of_series_is_bounded_and_the_bound_is_reported() {
    let lines: Vec<String> = (0..MAX_SERIES + 100).map(|n| format!("f{n} {n}")).collect();
    let (_root, mut sampler) = vmstat_only(&lines.join("\n"));
    let before = sampler.refused().len();
    assert_eq!(take(&mut sampler, 0, Emit::Changed).stats.rows, MAX_SERIES);
    take(&mut sampler, TENTH, Emit::Changed);
    assert_eq!(sampler.series(), MAX_SERIES);
    assert_eq!(sampler.refused().len(), before + 1);
}

/// Machines with many CPUs: two sources share /proc/stat, and the single CPUs come once a second.
#[test]
fn many_cpus_are_read_once_a_second() {
    let mut root = FakeRoot::new();
    for cpu in 0..200 {
        root = root.with(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"), "2100000\n");
    }
    let stat = |n: u64| {
        let cpus: Vec<String> = (0..200).map(|c| format!("cpu{c} {n} 0 0 0 0 0 0 0 0 0")).collect();
        let cpus = cpus.join("\n");
        format!("cpu  {} 0 0 0 0 0 0 0 0 0\n{cpus}\nintr 5 1 2 3\nctxt {n}\n", n * 200)
    };
    root.write("proc/stat", stat(1));
    let mut sampler = Sampler::new(root.path(), None);
    let first = take(&mut sampler, 0, Emit::Changed);
    assert_eq!(first.get("cpufreq_khz", Some("cpu199")), Some(2_100_000.0));
    assert!(first.get("cpu.user_ns", Some("cpu199")).is_some());
    root.write("proc/stat", stat(2));
    let second = take(&mut sampler, TENTH, Emit::Changed);
    assert_eq!(second.stats.rows, 2, "the sum and the context switches");
    root.write("proc/stat", stat(3));
    let later = take(&mut sampler, SECOND, Emit::Changed);
    assert_eq!(later.stats.rows, 202);
}
