//! The target is all its processes. It was its first one: of `-p postmaster` nothing was seen of the backends, which did
//! all the work, and a shell's figures hid those of the program that it ran.

use super::super::{Emit, Sampler};
use super::{FakeRoot, take};

const TENTH: i64 = 100_000_000;

impl FakeRoot {
    /// A process: bytes read, minor faults, ticks in user mode, and the same of children that it waited for; resident kB.
    fn process(&self, pid: u32, rchar: u64, own: (u64, u64), children: (u64, u64), rss_kib: u64) {
        let folder = format!("proc/{pid}");
        let stat = format!("{pid} (x) S 1 1 1 0 -1 0 {} {} 0 0 {} 0 {} 0 20\n", own.0, children.0, own.1, children.1);
        self.write(&format!("{folder}/io"), format!("rchar: {rchar}\n"));
        self.write(&format!("{folder}/stat"), stat);
        self.write(
            &format!("{folder}/status"),
            format!("Name:\tx\nVmHWM:\t{} kB\nVmRSS:\t{rss_kib} kB\n", 2 * rss_kib),
        );
        self.write(&format!("{folder}/smaps_rollup"), format!("Rss: {rss_kib} kB\n"));
    }

    fn ends(&self, pid: u32) {
        std::fs::remove_dir_all(self.path().join(format!("proc/{pid}"))).expect("it was there");
    }
}

/// Bytes read, minor faults of processes and of unseen children, resident bytes.
fn figures(sampler: &mut Sampler, tenths: i64) -> [Option<f64>; 4] {
    let taken = take(sampler, tenths * TENTH, Emit::All);
    let names = ["target.io.rchar", "target.stat.minor_faults", "target.stat.child_minor_faults"];
    let [io, own, children] = names.map(|name| taken.get(name, None));
    [io, own, children, taken.get("target.status.vmrss_bytes", None)]
}

fn two_processes() -> (FakeRoot, Sampler) {
    let root = FakeRoot::new();
    root.process(7, 1000, (10, 1), (0, 0), 100);
    let mut sampler = Sampler::new(root.path(), Some(7));
    assert_eq!(figures(&mut sampler, 0), [Some(1000.0), Some(10.0), Some(0.0), Some(102_400.0)]);
    root.process(8, 500, (5, 3), (2, 0), 50);
    sampler.add_process(8, Some(7));
    sampler.add_process(9, Some(8));
    (root, sampler)
}

#[test]
fn a_child_that_its_parent_waited_for_counts_once() {
    let (root, mut sampler) = two_processes();
    assert_eq!(figures(&mut sampler, 1), [Some(1500.0), Some(15.0), Some(2.0), Some(153_600.0)]);
    // Between the last reading and its end the child read 100 bytes and took one fault more.
    root.ends(8);
    root.process(7, 1600, (10, 1), (8, 3), 100);
    for tenths in 2..5 {
        assert_eq!(figures(&mut sampler, tenths), [Some(1600.0), Some(15.0), Some(3.0), Some(102_400.0)], "{tenths}");
    }
}

/// A shell waits for all of a pipeline at its end: what `tar` had used was counted twice from then on.
#[test]
fn a_child_that_its_parent_waits_for_later_counts_once() {
    let (root, mut sampler) = two_processes();
    figures(&mut sampler, 1);
    root.ends(8);
    for tenths in 2..5 {
        assert_eq!(figures(&mut sampler, tenths), [Some(1500.0), Some(15.0), Some(2.0), Some(102_400.0)], "{tenths}");
    }
    root.process(7, 1600, (10, 1), (8, 3), 100);
    for tenths in 5..8 {
        assert_eq!(figures(&mut sampler, tenths), [Some(1600.0), Some(15.0), Some(3.0), Some(102_400.0)], "{tenths}");
    }
}

#[test]
fn a_grandchild_that_was_taken_over_by_way_of_its_parent_counts_once() {
    let (root, mut sampler) = two_processes();
    root.process(9, 200, (4, 1), (0, 0), 50);
    assert_eq!(figures(&mut sampler, 1), [Some(1700.0), Some(19.0), Some(2.0), Some(204_800.0)]);
    // Both end after one another and are not read in between. Only the first process is left to wait for the second.
    root.ends(9);
    root.ends(8);
    assert_eq!(figures(&mut sampler, 2), [Some(1700.0), Some(19.0), Some(2.0), Some(102_400.0)], "nobody has waited");
    root.process(7, 1700, (10, 1), (11, 4), 100);
    for tenths in 3..5 {
        assert_eq!(figures(&mut sampler, tenths), [Some(1700.0), Some(19.0), Some(2.0), Some(102_400.0)], "{tenths}");
    }
}

/// Daemons end, and the process that started them lives on and never waits for them.
#[test]
fn children_that_are_never_waited_for_are_counted_and_forgotten() {
    let (root, mut sampler) = two_processes();
    let children = 1024 + 100;
    for pid in 100..100 + children {
        root.process(pid, 10, (1, 0), (0, 0), 1);
        sampler.add_process(pid, Some(7));
    }
    let all = [Some(1500.0 + 10.0 * f64::from(children)), Some(15.0 + f64::from(children)), Some(2.0)];
    // So far apart that no source is too dear to be read.
    let mut minutes = 0;
    let mut later = |sampler: &mut Sampler| {
        minutes += 1;
        figures(sampler, minutes * 600)
    };
    let read_all = (1..100).any(|_| later(&mut sampler)[..3] == all);
    assert!(read_all, "{:?}", later(&mut sampler));
    for pid in 100..100 + children {
        root.ends(pid);
        sampler.remove_process(pid);
    }
    for _ in 0..3 {
        assert_eq!(later(&mut sampler)[..3], all);
    }
}

#[test]
fn a_child_that_nobody_waited_for_stays_in_the_sums() {
    let (root, mut sampler) = two_processes();
    figures(&mut sampler, 1);
    root.ends(8);
    for tenths in 2..5 {
        assert_eq!(figures(&mut sampler, tenths), [Some(1500.0), Some(15.0), Some(2.0), Some(102_400.0)], "{tenths}");
    }
}

#[test]
fn the_target_outlives_its_first_process() {
    let (root, mut sampler) = two_processes();
    figures(&mut sampler, 1);
    sampler.remove_process(7);
    root.ends(7);
    assert_eq!(figures(&mut sampler, 2), [Some(1500.0), Some(15.0), Some(2.0), Some(51_200.0)]);
    root.ends(8);
    let last = take(&mut sampler, 3 * TENTH, Emit::All);
    assert!(last.ends("target.io.rchar", None) && last.ends("target.status.vmrss_bytes", None));
}

#[test]
fn a_peak_is_that_of_one_process_and_processes_are_counted() {
    let (_root, mut sampler) = two_processes();
    let taken = take(&mut sampler, TENTH, Emit::All);
    assert_eq!(taken.get("target.status.vmhwm_bytes", None), Some(200.0 * 1024.0));
    assert_eq!(taken.get("target.status.processes", None), Some(2.0));
}

/// Many processes are never read in one go: a sample would hold the recorder up.
#[test]
fn many_processes_are_read_in_turns() {
    let root = FakeRoot::new();
    let pids = 1000..1500_u32;
    for pid in pids.clone() {
        root.process(pid, 1, (1, 1), (0, 0), 1);
    }
    let mut sampler = Sampler::new(root.path(), Some(1000));
    pids.clone().skip(1).for_each(|pid| sampler.add_process(pid, Some(1000)));
    let mut tenths = 0;
    let processes = loop {
        let taken = take(&mut sampler, tenths * TENTH, Emit::Changed);
        tenths += 1;
        if let Some(last) = taken.get("target.status.processes", None)
            && last >= pids.len() as f64
        {
            break last;
        }
        assert!(tenths < 6000, "all are read in the end");
    };
    assert_eq!(processes, 500.0);
}

#[test]
fn of_a_group_of_version_1_throttling_memory_and_requests_are_read() {
    let root = FakeRoot::new().with("proc/7/cgroup", "5:blkio:/i\n4:memory:/a/b\n3:cpu:/q\n0::/c\n");
    root.process(7, 0, (0, 0), (0, 0), 0);
    root.write("sys/fs/cgroup/cpu/q/cpu.stat", "nr_periods 50\nnr_throttled 20\nthrottled_time 1500000000\n");
    root.write("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "8192\n");
    root.write("sys/fs/cgroup/memory/a/b/memory.failcnt", "3\n");
    root.write(
        "sys/fs/cgroup/unified/c/io.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=70\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=60\n",
    );
    root.write(
        "sys/fs/cgroup/memory/a/b/memory.stat",
        "cache 1\nrss 2\nshmem 3\npgfault 4\ntotal_cache 10\ntotal_rss 20\ntotal_shmem 30\ntotal_pgfault 40\n",
    );
    root.write(
        "sys/fs/cgroup/blkio/i/blkio.throttle.io_service_bytes_recursive",
        "8:0 Read 4096\n8:0 Write 512\n8:0 Discard 0\n8:0 Total 4608\n8:16 Read 4096\n8:16 Write 0\nTotal 8704\n",
    );
    let mut sampler = Sampler::new(root.path(), Some(7));
    let taken = take(&mut sampler, 0, Emit::All);
    let wanted = [
        ("memory.file_bytes", 10.0),
        ("memory.anon_bytes", 20.0),
        ("memory.shmem_bytes", 30.0),
        ("memory.pgfault", 40.0),
        ("io.read_bytes", 8192.0),
        ("io.write_bytes", 512.0),
        ("cpu.periods", 50.0),
        ("cpu.throttled_periods", 20.0),
        ("cpu.throttled_ns", 1.5e9),
        ("memory.current_bytes", 8192.0),
        ("memory.max_events", 3.0),
        ("psi.io.some_ns", 70_000.0),
        ("psi.io.full_ns", 60_000.0),
    ];
    for (field, value) in wanted {
        assert_eq!(taken.get(&format!("cgroup.{field}"), None), Some(value), "{field}");
    }
    // What the group has no file for is refused and not 0; a group above counts others, too.
    root.write("sys/fs/cgroup/unified/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\n");
    let refused: Vec<&str> = sampler.refused().iter().map(|refused| refused.source.as_str()).collect();
    for source in ["<cgroup>/memory.events", "<cgroup>/memory.pressure", "<cgroup>/cpu.pressure"] {
        assert!(refused.contains(&source), "{source}: {refused:?}");
    }
}

#[test]
fn of_a_group_of_version_2_throttling_memory_and_requests_are_read() {
    let root = FakeRoot::new().with("proc/7/cgroup", "0::/c\n");
    root.process(7, 0, (0, 0), (0, 0), 0);
    let v2 = "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 5\nnr_throttled 2\nthrottled_usec 700\nnr_bursts 0\nburst_usec 0\n";
    root.write("sys/fs/cgroup/c/cpu.stat", v2);
    root.write("sys/fs/cgroup/c/memory.current", "4096\n");
    root.write("sys/fs/cgroup/c/memory.events", "low 0\nhigh 8\nmax 4\noom 2\noom_kill 1\noom_group_kill 0\n");
    root.write("sys/fs/cgroup/c/memory.stat", "anon 7\nfile 8\npgfault 9\nworkingset_refault_file 5\n");
    root.write(
        "sys/fs/cgroup/c/io.stat",
        "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n8:16 \n8:32 rbytes=1024 wbytes=512 rios=2 wios=1 dbytes=0 dios=0\n",
    );
    let taken = take(&mut Sampler::new(root.path(), Some(7)), 0, Emit::All);
    let wanted = [
        ("cpu.throttled_ns", 700_000.0),
        ("cpu.usage_ns", 9_000.0),
        ("memory.high_events", 8.0),
        ("memory.oom_kill_events", 1.0),
        ("memory.anon_bytes", 7.0),
        ("memory.workingset_refault_file", 5.0),
        ("io.read_bytes", 5120.0),
        ("io.reads", 3.0),
        ("io.writes", 1.0),
    ];
    for (field, value) in wanted {
        assert_eq!(taken.get(&format!("cgroup.{field}"), None), Some(value), "{field}");
    }
}

/// A program with 14 GiB of small pages could map no memory for 119 ms each time that smaps_rollup was read.
#[test]
fn a_process_with_many_pages_is_left_alone_unless_asked_for() {
    let root = FakeRoot::new();
    root.process(7, 0, (0, 0), (0, 0), 100);
    let mut sampler = Sampler::new(root.path(), Some(7));
    let rss = |sampler: &mut Sampler, tenths: i64| {
        let taken = take(sampler, tenths * TENTH, Emit::All);
        assert!(taken.get("target.status.vmrss_bytes", None).is_some(), "what holds nothing up is read");
        taken.get("target.smaps.rss_bytes", None)
    };
    assert_eq!(rss(&mut sampler, 0), Some(102_400.0));
    assert!(sampler.refused().iter().all(|refused| !refused.source.ends_with("smaps_rollup")));
    // One large process spoils the sum; it is not the sum of the others.
    root.process(8, 0, (0, 0), (0, 0), 2 << 20);
    sampler.add_process(8, Some(7));
    assert_eq!(rss(&mut sampler, 10), None);
    assert_eq!(rss(&mut sampler, 20), None);
    let told: Vec<_> = sampler.refused().iter().filter(|refused| refused.source.ends_with("smaps_rollup")).collect();
    let [told] = told.as_slice() else { panic!("said once: {told:?}") };
    assert!(told.reason.contains("process 8 has 524288 pages") && told.reason.contains("33.6 ms"), "{told:?}");
    assert!(told.fix.as_deref().is_some_and(|fix| fix.contains("metrics:smaps")), "{told:?}");
    // It has given its memory back.
    root.process(8, 0, (0, 0), (0, 0), 50);
    assert_eq!(rss(&mut sampler, 30), Some(153_600.0));
    root.process(8, 0, (0, 0), (0, 0), 2 << 20);
    sampler.walk_all();
    assert_eq!(rss(&mut sampler, 40), Some(102_400.0 + f64::from(2 << 20) * 1024.0));
}

/// A group of version 2 with so many events of its limit and so much memory.
fn group(root: &FakeRoot, name: &str, max_events: u32, bytes: u32) {
    root.write(
        &format!("sys/fs/cgroup/{name}/memory.events"),
        format!("low 0\nhigh 0\nmax {max_events}\noom 0\noom_kill 0\n"),
    );
    root.write(&format!("sys/fs/cgroup/{name}/memory.current"), format!("{bytes}\n"));
}

#[test]
fn a_target_that_moves_to_another_group_is_followed() {
    let root = FakeRoot::new();
    for pid in [7, 8] {
        root.process(pid, 1, (1, 1), (0, 0), 1);
        root.write(&format!("proc/{pid}/cgroup"), "0::/shell\n");
    }
    group(&root, "shell", 50, 4096);
    group(&root, "unit", 900, 8192);
    let figures = |sampler: &mut Sampler, second: i64| {
        let taken = take(sampler, 10 * second * TENTH, Emit::All);
        ["memory.max_events", "memory.current_bytes"].map(|name| taken.get(&format!("cgroup.{name}"), None))
    };
    let moves_by = |follows: bool, pid: u32| {
        root.write(&format!("proc/{pid}/cgroup"), "0::/shell\n");
        group(&root, "unit", 900, 8192);
        let mut sampler = Sampler::new(root.path(), Some(7));
        if follows {
            sampler.follow_groups();
        }
        assert_eq!(figures(&mut sampler, 0), [Some(50.0), Some(4096.0)]);
        sampler.add_process(8, Some(7));
        assert_eq!(figures(&mut sampler, 1), [Some(50.0), Some(4096.0)], "it has not moved");
        root.write(&format!("proc/{pid}/cgroup"), "0::/unit\n");
        let moved = figures(&mut sampler, 2);
        group(&root, "unit", 912, 12288);
        let counted = figures(&mut sampler, 3);
        root.write(&format!("proc/{pid}/cgroup"), "0::/shell\n");
        (moved, counted)
    };
    // What the new group had counted before is not the target's; its level is the group's own.
    let followed = ([Some(50.0), Some(8192.0)], [Some(62.0), Some(12288.0)]);
    assert_eq!(moves_by(true, 7), followed, "the first process moved");
    assert_eq!(moves_by(false, 7), followed, "it is followed in any case");
    assert_eq!(moves_by(true, 8), followed, "a process that it started moved");
    let stays = [Some(50.0), Some(4096.0)];
    assert_eq!(moves_by(false, 8), (stays, stays), "other processes of a group are in many");
}

#[test]
fn a_group_without_a_file_ends_its_series_and_one_with_more_begins_them() {
    let root = FakeRoot::new().with("proc/7/cgroup", "0::/\n");
    root.process(7, 1, (1, 1), (0, 0), 1);
    root.write("sys/fs/cgroup/cpu.stat", "usage_usec 100\nnr_periods 5\nnr_throttled 0\nthrottled_usec 0\n");
    group(&root, "unit", 3, 8192);
    let mut sampler = Sampler::new(root.path(), Some(7));
    let taken = take(&mut sampler, 0, Emit::All);
    assert_eq!((taken.get("cgroup.cpu.periods", None), taken.get("cgroup.memory.max_events", None)), (Some(5.0), None));
    root.write("proc/7/cgroup", "0::/unit\n");
    let taken = take(&mut sampler, 10 * TENTH, Emit::All);
    assert!(taken.ends("cgroup.cpu.periods", None), "the group has no CPU controller");
    assert_eq!(taken.get("cgroup.memory.max_events", None), Some(3.0));
}
