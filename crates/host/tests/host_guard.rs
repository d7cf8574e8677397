//! The guard and this machine's kernel. These tests change settings of the host and put them back. The changes are
//! harmless for a moment (khugepaged's pause, an unused loop device, a few huge pages), but concurrent measurements
//! would notice, so they run only when asked for: `make test` does, one at a time.

mod common;

use std::path::{Path, PathBuf};

use common::{FIXTURE, Fixture, eventually};
use pagelab_host::guard::{Guard, GuardOptions, KernelDoor};
use pagelab_host::settings::read;
use pagelab_testing::skipped;

fn root() -> &'static Path {
    Path::new("/")
}

fn value(key: &str) -> Option<String> {
    read(root(), key).ok()
}

fn open(state: &Path) -> Guard {
    let options = GuardOptions {
        root: root().to_owned(),
        state_dir: state.to_owned(),
        helper_exe: PathBuf::from(FIXTURE),
        door: Box::new(KernelDoor),
    };
    Guard::open_with(options).expect("guard opens")
}

/// Sets a key, checks that the kernel has it, puts it back, and checks that the key and those the kernel changes along
/// with it are as before. A knob that this kernel does not have is said and left.
fn there_and_back(key: &str, choose: impl Fn(&str) -> String, beside: &[&str]) {
    let Some(before) = value(key) else {
        return skipped(format_args!("{key}: this kernel does not have it"));
    };
    let beside_before: Vec<Option<String>> = beside.iter().map(|key| value(key)).collect();
    let state = tempfile::tempdir().expect("a temporary folder");
    let mut guard = open(state.path());
    let wanted = choose(&before);
    let applied = guard.set(key, &wanted).expect("set");
    println!("{key}: {before} -> {} (asked {wanted}), side effects {:?}", applied.got, applied.side_effects);
    assert_eq!(applied.previous, before);
    assert!(applied.granted(), "{applied:?}");
    assert_eq!(value(key).as_deref(), Some(applied.got.as_str()));
    let report = guard.close();
    assert!(report.is_clean(), "{report}");
    assert_eq!(value(key), Some(before), "{key}");
    for (other, before) in beside.iter().zip(beside_before) {
        assert_eq!(value(other), before, "{other} beside {key}");
    }
    assert_eq!(std::fs::read_dir(state.path()).expect("state folder").count(), 0);
}

fn other_of(choices: &'static [&'static str]) -> impl Fn(&str) -> String {
    |before| choices.iter().find(|choice| **choice != before).map_or_else(String::new, |choice| (*choice).to_owned())
}

fn one_more(before: &str) -> String {
    (before.parse::<u64>().expect("a number") + 1).to_string()
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_huge_page_knobs_there_and_back() {
    const MIN_FREE: &[&str] = &["sysctl.vm.min_free_kbytes"];
    there_and_back("thp.enabled", other_of(&["never", "madvise"]), MIN_FREE);
    there_and_back("thp.enabled", other_of(&["always", "madvise"]), MIN_FREE);
    there_and_back("thp.defrag", other_of(&["defer", "madvise"]), &[]);
    there_and_back("thp.shmem_enabled", other_of(&["advise", "never"]), MIN_FREE);
    there_and_back("thp.64K.enabled", other_of(&["madvise", "never"]), MIN_FREE);
    there_and_back("thp.khugepaged.scan_sleep_millisecs", one_more, &[]);
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_pools_there_and_back() {
    const PARTS: &[&str] =
        &["hugetlb.2M.node0.nr_hugepages", "sysctl.vm.nr_hugepages", "hugetlb.2M.nr_overcommit_hugepages"];
    there_and_back(
        "hugetlb.2M.nr_hugepages",
        |before| (before.parse::<u64>().expect("a number") + 3).to_string(),
        PARTS,
    );
    there_and_back("hugetlb.2M.nr_overcommit_hugepages", one_more, PARTS);
    there_and_back("sysctl.vm.nr_hugepages", one_more, &["hugetlb.2M.nr_hugepages"]);
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_sysctls_there_and_back() {
    there_and_back("sysctl.vm.stat_interval", one_more, &[]);
    // Each pair excludes the other member; the zero that it brings is refused by the kernel when written.
    there_and_back("sysctl.vm.dirty_bytes", |_| (8u64 << 30).to_string(), &["sysctl.vm.dirty_ratio"]);
    there_and_back("sysctl.vm.dirty_ratio", one_more, &["sysctl.vm.dirty_bytes"]);
    there_and_back(
        "sysctl.vm.dirty_background_bytes",
        |_| (2u64 << 30).to_string(),
        &["sysctl.vm.dirty_background_ratio"],
    );
    there_and_back("sysctl.vm.overcommit_kbytes", |_| "1048576".to_owned(), &["sysctl.vm.overcommit_ratio"]);
    there_and_back("sysctl.vm.lowmem_reserve_ratio", |before| before.replacen("256", "255", 1), &[]);
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_block_queues_there_and_back() {
    // A loop device without a file: nothing goes through its queue.
    let unused = (0..64)
        .rev()
        .map(|number| format!("loop{number}"))
        .find(|dev| std::fs::read_to_string(format!("/sys/block/{dev}/size")).is_ok_and(|size| size.trim() == "0"));
    let Some(dev) = unused else {
        return skipped("no unused loop device on this host");
    };
    let key = |knob: &str| format!("block.{dev}.{knob}");
    let (requests, throttle) = (key("nr_requests"), key("wbt_lat_usec"));
    there_and_back(
        &key("read_ahead_kb"),
        |before| if before == "128" { "256".to_owned() } else { "128".to_owned() },
        &[],
    );
    there_and_back(&key("scheduler"), other_of(&["mq-deadline", "none"]), &[&requests, &throttle]);
    there_and_back(&key("nomerges"), other_of(&["2", "0"]), &[]);
    there_and_back(&requests, |_| "64".to_owned(), &[]);
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_a_killed_guard_leaves_nothing_behind() {
    let keys = ["thp.enabled", "sysctl.vm.min_free_kbytes", "sysctl.vm.dirty_ratio", "sysctl.vm.dirty_bytes"];
    let before = keys.map(value);
    let enabled = if value("thp.enabled").as_deref() == Some("always") { "never" } else { "always" };
    let changes = [format!("thp.enabled={enabled}"), "sysctl.vm.dirty_bytes=8589934592".to_owned()];
    let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
    let mut times = Vec::new();
    for _ in 0..10 {
        let state = tempfile::tempdir().expect("a temporary folder");
        let mut fixture = Fixture::start("hold", root(), state.path(), &changes);
        assert_eq!(fixture.line(), "held");
        assert_ne!(keys.map(value), before);
        fixture.kill();
        times.push(eventually("all back", || keys.map(value) == before));
        fixture.wait();
        eventually("journal gone", || std::fs::read_dir(state.path()).is_ok_and(|folder| folder.count() == 0));
        assert_eq!(keys.map(value), before);
    }
    times.sort_unstable();
    println!("from SIGKILL to everything back: {times:?}");
}
