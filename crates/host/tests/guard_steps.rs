//! Whatever changes the host is killed (SIGKILL) before and after every single system call that it makes. `guard_crash.rs` does so
//! at the guard's own door; here nothing is left out that goes past it: locks, the journal's first line, the helper's start, and
//! changes that are meant to last, which have no journal.

mod common;

use std::path::Path;
use std::process::Command;

use common::stepper::{End, killed_at};
use common::{FIXTURE, Host, eventually};
use pagelab_host::guard::{KernelDoor, restore_leftovers_in};
use pagelab_host::hugetlb::PoolState;
use pagelab_host::hugetlb::mounts::{MountRequest, create, mounts, remove};
use pagelab_host::hugetlb::set::{SetRequest, set_with};

const MEMORY: &str = env!("CARGO_BIN_EXE_pagelab-memory-fixture");
const HUGE: u64 = 2 << 20;

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Nothing is left of a killed one that another would stumble over, and clearing up finds nothing that is still changed.
fn nothing_is_left(state: &Path, step: u32) {
    let report = restore_leftovers_in(state);
    assert!(report.is_clean() && report.restored.is_empty(), "step {step}: {report}");
    // The helper may be clearing up at the same moment.
    eventually(&format!("{:?} gone after step {step}", names(state)), || names(state).is_empty());
}

/// Hosts that guards are killed on at the same time: most of a step is waiting.
const LANES: u32 = 4;

#[test]
fn a_guard_killed_at_every_system_call_leaves_the_host_as_it_was() {
    let (steps, changed) = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|first| scope.spawn(move || kill_at_every_fourth(first))).collect();
        let ended = lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.fold((0, 0), |(steps, sum), (last, changed)| (last.max(steps), sum + changed))
    });
    println!("{steps} stops, {changed} of them with the host changed");
    // Two settings, journalled, made, read, undone: most of its life the host is changed.
    assert!(steps > 200 && changed > 50, "{steps} {changed}");
}

/// Kills a guard at the steps `first`, `first + LANES`, and so on, until it ends by itself; gives the step at which it did, and at how
/// many the host was changed.
fn kill_at_every_fourth(first: u32) -> (u32, u32) {
    let host = Host::new();
    let before = host.all();
    let (root, state) = (host.root(), host.state());
    let mut changed = 0;
    for step in (first..).step_by(LANES as usize) {
        let mut command = Command::new(FIXTURE);
        // None of the crashing door's own steps is reached.
        command.arg("crash").args([&root, &state]).args(["1000000", "thp.enabled=never", "sysctl.vm.swappiness=10"]);
        let end = killed_at(&mut command, step);
        changed += u32::from(host.all() != before);
        // Killed before its helper watched it has changed nothing, and its journal, which says so, lies there until it is cleared up.
        let speaks = |name: &String| {
            let text = std::fs::read_to_string(state.join(name)).unwrap_or_default();
            name.starts_with("journal") && text.contains(r#""record":"intent""#)
        };
        eventually(&format!("all back after a kill at step {step}: {}", host.all()), || {
            host.all() == before && !names(&state).iter().any(speaks)
        });
        nothing_is_left(&state, step);
        assert_eq!(host.all(), before, "step {step}");
        if let End::Exited(code) = end {
            assert_eq!(code, 0);
            return (step, changed);
        }
    }
    unreachable!("a guard ends after fewer system calls than there are numbers");
}

/// `make test-all` kills at every call; `make test` at one in seven, before and after calls by turns.
fn stride() -> usize {
    if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 1 } else { 7 }
}

fn pool() -> PoolState {
    PoolState::read(Path::new("/"), HUGE).expect("a pool of 2 MiB pages")
}

fn set(state: &Path, pages: u64) -> PoolState {
    let request = SetRequest { page_bytes: HUGE, pages, node: None, overcommit: false, drop_caches: false };
    set_with(Path::new("/"), state, &mut KernelDoor, &request).expect("no lock is in the way").after
}

/// The pool as it was, also when the test fails.
struct SetBack<'a>(PoolState, &'a Path);

impl Drop for SetBack<'_> {
    fn drop(&mut self) {
        if pool().minimum_pages != self.0.minimum_pages {
            set(self.1, self.0.minimum_pages);
        }
    }
}

/// A pool has its old size or the requested one, nothing between, and later guards are not kept from it.
#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_a_lasting_change_killed_at_every_system_call_is_made_or_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path();
    let before = pool();
    let _back = SetBack(before.clone(), state);
    let more = before.minimum_pages + 5;
    let mut made = 0;
    for step in (0..).step_by(stride()) {
        let mut command = Command::new(MEMORY);
        command.args(["set", &more.to_string()]).arg(state);
        let end = killed_at(&mut command, step);
        let found = pool().minimum_pages;
        assert!(found == before.minimum_pages || found == more, "step {step}: {found} pages");
        made += u32::from(found == more);
        // The dead one's lock is nobody's: it is not in the way, and is cleared up.
        if step % 2 == 0 {
            nothing_is_left(state, step);
        }
        assert_eq!(set(state, before.minimum_pages), before, "step {step}");
        nothing_is_left(state, step);
        if let End::Exited(code) = end {
            assert_eq!((code, found), (0, more));
            println!("{step} stops, the change was made at {made} of them");
            assert!(step > 100 && made > 10, "{step} {made}");
            return;
        }
    }
}

/// A mount is there or not, and is made and removed by whoever comes next.
#[test]
#[ignore = "changes mounts; run by make test with --ignored --test-threads=1"]
fn host_a_mount_killed_at_every_system_call_is_made_or_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("huge");
    let before = mounts(Path::new("/")).expect("mounts");
    let request = MountRequest { mountpoint: place.clone(), make_folder: true, ..MountRequest::default() };
    let (mut there, mut folders) = (0, 0);
    for step in 0.. {
        let mut command = Command::new(MEMORY);
        command.arg("mount-new").arg(&place);
        let end = killed_at(&mut command, step);
        let found = mounts(Path::new("/")).expect("mounts");
        let mine = found.iter().filter(|mount| Path::new(&mount.mountpoint) == place).count();
        assert!(mine <= 1 && found.len() == before.len() + mine, "step {step}: {found:?}");
        folders += u32::from(mine == 0 && place.exists());
        there += mine;
        if mine == 0 {
            create(&request).unwrap_or_else(|error| panic!("step {step}: {error}"));
        }
        remove(&place, true).unwrap_or_else(|error| panic!("step {step}: {error}"));
        assert!(!place.exists() && mounts(Path::new("/")).expect("mounts") == before, "step {step}");
        if let End::Exited(code) = end {
            assert_eq!((code, mine), (0, 1));
            println!("{step} stops: mounted after {there}, an empty folder after {folders}");
            assert!(step > 50 && there > 5 && folders > 0, "{step} {there} {folders}");
            return;
        }
    }
}
