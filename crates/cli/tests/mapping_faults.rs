//! What the library `mapping` tells of a situation, held against the page faults that a recording of it shows: a slot of 2 MiB that
//! got a huge page took one, a slot that got base pages took one for each page touched. The program `situations` computes how many
//! each slot should have taken; the recorder knows nothing of it.

mod common;
#[path = "../../mapping/tests/common/mod.rs"]
mod host;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{json, pagelab, run, scratch};
use host::{Cgroup, Pool, Setting};

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// The example program, built now if it is not there or older than its source: before any setting is changed, since cargo may wait
/// for another cargo.
fn situations() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let tests = std::env::current_exe().expect("own path");
        let target = tests.parent().and_then(|deps| deps.parent()).expect("target/release/deps");
        let mut command = Command::new(env!("CARGO"));
        // The whole workspace's, as the tests were built: with other features of libraries it would be compiled once more.
        command.args(["build", "--quiet", "--locked", "--workspace", "--example", "situations"]);
        if target.ends_with("release") {
            command.arg("--release");
        }
        run(command.current_dir(env!("CARGO_MANIFEST_DIR")), 0);
        target.join("examples/situations")
    })
}

/// Records a situation, played in a control group; each slot took the faults it should have.
fn check_in(name: &str, cgroup: Option<&Cgroup>) {
    let dir = scratch();
    let recording = dir.path().join("r");
    let mut command = pagelab();
    command.args(["record", "--observe", "faults", "-o"]).arg(&recording).arg("--");
    if let Some(cgroup) = cgroup {
        // The program alone enters: the recorder is not what is limited.
        command.args(["sh", "-c", "echo 0 > \"$0\" && exec \"$@\""]).arg(cgroup.procs());
    }
    command.arg(situations()).arg(name);
    let told = json(&run(&mut command, 0));
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let (low, bytes) = (number(&told["address"]), number(&told["bytes"]));
    let sql = format!(
        "select addr - addr % 2097152 as slot, count(*) as faults from faults join tasks using (task_id) \
         where addr >= {low} and addr < {} and tasks.pid = {} group by 1",
        low + bytes,
        told["pid"]
    );
    let rows = json(&run(pagelab().args(["query", "--format", "json"]).arg(&recording).arg(sql), 0));
    let seen: BTreeMap<u64, u64> =
        rows.as_array().expect("rows").iter().map(|row| (number(&row["slot"]), number(&row["faults"]))).collect();
    let slots = told["slots"].as_array().expect("slots");
    assert!(!slots.is_empty());
    for slot in slots {
        // Null: how often a refused page is tried again is nobody's promise.
        let Some(expected) = slot["faults"].as_u64() else { continue };
        let found = seen.get(&(number(&slot["address"]) & !0x1f_ffff)).copied().unwrap_or(0);
        // khugepaged may have gathered the base pages before they were mapped.
        let gathered = expected > 1 && slot["got"] == "2M";
        assert!(
            found == expected || (gathered && found < expected),
            "{found} faults and not {expected}: {name}, {slot}"
        );
        // What one fault brought is one page, and still is unless the memory was rearranged afterwards. (Not the other way round:
        // khugepaged may have gathered base pages meanwhile.)
        let rearranged = ["fork_and_write", "entries_split"].contains(&name) || name.starts_with("split_by");
        if expected == 1 && !rearranged {
            assert!(slot["got"] == "2M" || slot["base_bytes"] == 4096, "{name}, {slot}");
        }
    }
}

fn check(name: &str) {
    check_in(name, None);
}

#[test]
fn faults_are_as_many_as_the_page_sizes_say() {
    let needed = "found an ordinary user, needed root: faults are recorded, and tmpfs is mounted; type: sudo make test";
    assert!(common::is_root(), "{needed}");
    for name in ["thp_off_for_process", "thp_advised_against", "untouched", "too_small", "tmpfs_never", "tmpfs_always"]
    {
        check(name);
    }
    for name in [
        "tmpfs_written_before",
        "tmpfs_file_ends",
        "tmpfs_within_size",
        "tmpfs_advise",
        "tmpfs_advise_unadvised",
        "tmpfs_shifted",
        "tmpfs_private_write",
    ] {
        check(name);
    }
}

#[test]
#[ignore = "sets THP to madvise, never and always"]
fn host_faults_on_transparent_huge_pages() {
    situations();
    let madvise = Setting::set(ENABLED, "madvise");
    for name in ["thp_advised", "thp_any_if_madvise", "shifted", "earlier_entry", "collapse"] {
        check(name);
    }
    for name in ["split_by_munmap", "split_by_mprotect", "split_by_advice", "entries_split", "fork_and_write"] {
        check(name);
    }
    drop(madvise);
    let never = Setting::set(ENABLED, "never");
    check("thp_advised_if_never");
    drop(never);
    let _always = Setting::set(ENABLED, "always");
    check("thp_any_if_always");
}

#[test]
#[ignore = "sets THP to madvise, makes a control group"]
fn host_faults_under_a_memory_limit() {
    situations();
    let _madvise = Setting::set(ENABLED, "madvise");
    let cgroup = Cgroup::with("/sys/fs/cgroup/memory", "memory.limit_in_bytes", 16 << 20)
        .or_else(|| Cgroup::with("/sys/fs/cgroup", "memory.max", 16 << 20))
        .expect("the memory controller");
    check_in("memory_limited_by_cgroup", Some(&cgroup));
}

#[test]
#[ignore = "changes the hugetlb pool, makes a control group"]
fn host_faults_on_the_pool() {
    situations();
    let empty = Pool::of(0);
    check("pool_empty");
    drop(empty);
    let _pool = Pool::of(4);
    check("pool");
    let cgroup = Cgroup::with("/sys/fs/cgroup/unified", "hugetlb.2MB.max", 4 << 20)
        .or_else(|| Cgroup::with("/sys/fs/cgroup", "hugetlb.2MB.max", 4 << 20))
        .expect("the hugetlb controller of cgroup v2");
    check_in("pool_limited_by_cgroup", Some(&cgroup));
}
