//! A guard and its helper die together: a service is stopped, a CI job is cancelled, a container ends. Nobody is left to
//! put anything back, so the next command of pagelab does. Once a value stayed at 11 for good in this way, the commands
//! that followed measured under it without a word, and one of them deleted a journal that it did not understand.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{FIXTURE, Fixture, Host, eventually};
use pagelab_host::guard::{
    Door, FixtureDoor, Guard, GuardError, GuardOptions, KernelDoor, restore_leftovers_in, restore_leftovers_of,
    standing_of,
};
use pagelab_testing::skipped;

const CHANGES: [&str; 4] =
    ["thp.enabled=never", "sysctl.vm.swappiness=10", "sysctl.vm.swappiness=20", "block.vda.read_ahead_kb=128"];

fn open_in(host: &Host, state: &Path) -> Guard {
    let options = GuardOptions {
        root: host.root(),
        state_dir: state.to_owned(),
        helper_exe: PathBuf::from(FIXTURE),
        door: Box::new(FixtureDoor),
    };
    Guard::open_with(options).expect("guard opens")
}

fn helper_of(fixture: &Fixture) -> Option<rustix::process::Pid> {
    let pid = fixture.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok().and_then(rustix::process::Pid::from_raw)
}

/// The guard and its helper are killed. The guard is stopped before, so that it does not start another helper meanwhile.
fn kill_both(fixture: &mut Fixture) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(fixture.pid()).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("stopped");
    let stat = format!("/proc/{}/stat", fixture.pid());
    eventually("stopped", || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T ")));
    if let Some(helper) = helper_of(fixture) {
        let _ = rustix::process::kill_process(helper, rustix::process::Signal::KILL);
    }
    fixture.kill();
    fixture.wait();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn registry(host: &Host) -> PathBuf {
    host.root().join("run/pagelab")
}

/// How many kills of each kind.
fn kills() -> u64 {
    if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 200 } else { 20 }
}

/// A fixed sequence of pauses (Knuth's MMIX generator), so that a failure can be repeated.
struct Pauses(u64);

impl Pauses {
    fn pause(&mut self) {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((self.0 >> 33) % 20_000));
    }
}

#[test]
fn after_random_kills_of_the_guard_the_next_command_finds_the_host_as_it_was() {
    let host = Host::new();
    let before = host.all();
    let mut pauses = Pauses(1);
    for kill in 0..kills() {
        let mut fixture = host.fixture("loop", &CHANGES);
        assert_eq!(fixture.line(), "held");
        pauses.pause();
        fixture.kill();
        fixture.wait();
        let report = restore_leftovers_of(&host.root(), &host.state());
        assert!(report.is_clean() && report.alive.is_empty(), "kill {kill}: {report}");
        assert_eq!(host.all(), before, "kill {kill}");
        assert!(standing_of(&host.root(), &host.state()).is_empty(), "kill {kill}");
    }
    println!("{} kills of the guard", kills());
}

#[test]
fn after_random_kills_of_guard_and_helper_the_next_command_puts_everything_back() {
    let host = Host::new();
    let before = host.all();
    let (mut pauses, mut changed, mut told) = (Pauses(2), 0, 0);
    for kill in 0..kills() {
        let mut fixture = host.fixture("loop", &CHANGES);
        assert_eq!(fixture.line(), "held");
        pauses.pause();
        kill_both(&mut fixture);
        let was_changed = host.all() != before;
        // The refusal that a recording would get if it began now.
        let standing = standing_of(&host.root(), &host.state());
        assert!(!was_changed || !standing.is_empty(), "kill {kill}: silent, with {}", host.all());
        let report = restore_leftovers_of(&host.root(), &host.state());
        assert!(report.is_clean(), "kill {kill}: {report}");
        assert!(!was_changed || !report.restored.is_empty(), "kill {kill}: not a word");
        assert!(report.restored.iter().all(|one| one.pid == Some(fixture.pid())), "kill {kill}: {report:?}");
        assert_eq!(host.all(), before, "kill {kill}");
        assert!(host.leftovers().is_empty() && names(&registry(&host)).is_empty(), "kill {kill}");
        changed += u32::from(was_changed);
        told += u32::from(!report.restored.is_empty());
    }
    println!("{} kills of guard and helper, {changed} with the host changed, {told} put back and told", kills());
    assert!(u64::from(changed) > kills() / 4, "{changed}");
}

/// Two state folders, one kernel: the second guard is refused, and the successor of a dead guard finds the values that
/// one found, wherever its journal is.
#[test]
fn state_folders_do_not_hide_guards_from_each_other() {
    let host = Host::new();
    let before = host.all();
    let (one, two) = (host.state(), host.root().join("other-state"));
    let mut first = open_in(&host, &one);
    first.set("sysctl.vm.swappiness", "11").expect("set");
    let mut second = open_in(&host, &two);
    let error = second.set("sysctl.vm.swappiness", "12").expect_err("held");
    assert!(matches!(error, GuardError::Held { .. }), "{error}");
    assert!(first.close().is_clean());
    second.set("sysctl.vm.swappiness", "12").expect("free now");
    assert!(second.close().is_clean());
    assert_eq!(host.all(), before);

    // A dies with its helper; B has another state folder, and finds what A found.
    let mut dead = host.fixture("hold", &["sysctl.vm.swappiness=11"]);
    assert_eq!(dead.line(), "held");
    kill_both(&mut dead);
    assert_eq!(host.read("proc/sys/vm/swappiness"), "11");
    let mut after = open_in(&host, &two);
    assert_eq!(after.set("sysctl.vm.swappiness", "12").expect("free").previous, "60");
    assert!(after.close().is_clean());
    assert_eq!(host.all(), before);
    assert!(host.leftovers().is_empty() && names(&registry(&host)).is_empty());

    // The same if A's state folder is gone, or in a mount namespace that went with it: the lock still knows.
    for look in [true, false] {
        let mut dead = host.fixture("hold", &["sysctl.vm.swappiness=11", "thp.enabled=never"]);
        assert_eq!(dead.line(), "held");
        kill_both(&mut dead);
        std::fs::remove_dir_all(&one).expect("removed");
        if look {
            let report = restore_leftovers_of(&host.root(), &two);
            assert!(report.is_clean() && report.restored.len() >= 2, "{report}");
        } else {
            let mut after = open_in(&host, &two);
            assert_eq!(after.set("sysctl.vm.swappiness", "12").expect("free").previous, "60");
            assert_eq!(after.set("thp.enabled", "always").expect("free").previous, "madvise");
            assert!(after.close().is_clean());
        }
        assert_eq!(host.all(), before, "{look}");
        assert_eq!(names(&registry(&host)), Vec::<String>::new(), "{look}");
    }
}

/// One value with two names has two locks. What a dead guard claims under one of them is not put back over what a living
/// guard has set under the other.
#[test]
fn a_claim_under_one_name_waits_for_the_living_guard_under_another() {
    let host = Host::new();
    let (alias, pool) =
        ("proc/sys/vm/nr_overcommit_hugepages", "sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages");
    host.write("proc/meminfo", "Hugepagesize:       2048 kB\n");
    host.write(alias, "6\n");
    host.write(pool, "6\n");
    host.write(
        "run/pagelab/lock-sysctl.vm.nr_overcommit_hugepages",
        r#"{"pid":1,"command":"gone","key":"sysctl.vm.nr_overcommit_hugepages","boot_id":"ac924afa-6759-45c0-aae4-80c098bab793","first":"5","last":"6"}"#,
    );
    std::fs::set_permissions(registry(&host), std::fs::Permissions::from_mode(0o700)).expect("its owner's");
    let name = "run/pagelab/lock-hugetlb.2M.nr_overcommit_hugepages";
    host.write(name, "{}");
    let held = std::fs::File::open(host.root().join(name)).expect("open");
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("free");

    let report = restore_leftovers_of(&host.root(), &host.state());
    assert!(report.restored.is_empty(), "{report}");
    assert_eq!(host.read(alias), "6");
    assert_eq!(names(&registry(&host)).len(), 2, "the claim is kept for later");

    // Closing it is not enough: a child that another test has just forked still has it.
    rustix::fs::flock(&held, rustix::fs::FlockOperation::Unlock).expect("ours");
    let report = restore_leftovers_of(&host.root(), &host.state());
    assert_eq!(report.restored.len(), 1, "{report}");
    assert_eq!(host.read(alias), "5");
    assert_eq!(names(&registry(&host)), Vec::<String>::new());
}

/// `vm.nr_hugepages` is the pool of the default size, and a pool is made of its parts on the nodes: each lock says what its
/// setting was before the first of the changes, whichever name that went by.
#[test]
fn locks_say_what_was_first_when_one_value_is_changed_under_two_names() {
    let host = Host::new();
    let (sysctl, pool, part) = (
        "proc/sys/vm/nr_hugepages",
        "sys/kernel/mm/hugepages/hugepages-2048kB",
        "sys/devices/system/node/node0/hugepages/hugepages-2048kB",
    );
    host.write("proc/meminfo", "Hugepagesize:       2048 kB\n");
    let kernel = |pages: &str| {
        host.write(sysctl, pages);
        for folder in [pool, part] {
            for (name, value) in [("nr", pages), ("free", pages), ("surplus", "0\n"), ("resv", "0\n")] {
                host.write(&format!("{folder}/{name}_hugepages"), value);
            }
        }
    };
    kernel("0\n");
    let mut guard = open_in(&host, &host.state());
    guard.set("sysctl.vm.nr_hugepages", "8").expect("set");
    kernel("8\n");
    guard.set("hugetlb.2M.nr_hugepages", "7").expect("set");
    kernel("7\n");
    for key in ["sysctl.vm.nr_hugepages", "hugetlb.2M.nr_hugepages", "hugetlb.2M.node0.nr_hugepages"] {
        let text = std::fs::read_to_string(registry(&host).join(format!("lock-{key}"))).expect(key);
        assert!(text.contains(r#""first":"0""#), "{text}");
    }
    guard.close();
}

/// Once the helper has put everything back, nothing refers to it any more: a value that is set by hand later is
/// nobody's leftover.
#[test]
fn a_helper_that_has_put_everything_back_leaves_no_lock() {
    let host = Host::new();
    let mut dead = host.fixture("hold", &["sysctl.vm.swappiness=11"]);
    assert_eq!(dead.line(), "held");
    dead.kill();
    dead.wait();
    eventually("all back", || host.leftovers().is_empty() && names(&registry(&host)).is_empty());
    assert_eq!(host.read("proc/sys/vm/swappiness"), "60");
    host.write("proc/sys/vm/swappiness", "11\n");
    let report = restore_leftovers_of(&host.root(), &host.state());
    assert!(report.restored.is_empty(), "{report}");
}

const INTENT: &str =
    r#"{"record":"intent","seq":0,"key":"sysctl.vm.swappiness","previous":"60","requested":"10","companions":[]}"#;

fn journal(host: &Host, format: u32, lines: &[&str]) -> PathBuf {
    std::fs::create_dir_all(host.state()).expect("state folder");
    let path = host.state().join("journal-4194304-0.jsonl");
    let boot = host.read("proc/sys/kernel/random/boot_id");
    let root = host.root();
    let header = format!(
        r#"{{"record":"open","format":{format},"boot_id":"{boot}","pid":4194304,"root":"{}","command":"pagelab"}}"#,
        root.display()
    );
    let text: String =
        std::iter::once(header.as_str()).chain(lines.iter().copied()).flat_map(|line| [line, "\n"]).collect();
    std::fs::write(&path, text).expect("written");
    path
}

/// A newer pagelab may have written entries unknown to this one. Its journal is the only trace of its changes.
#[test]
fn journals_that_are_not_understood_are_kept_and_named() {
    let unknown = r#"{"record":"remounted","seq":0,"place":"/mnt"}"#;
    for (format, lines, needed) in [
        (2, vec![INTENT], "format 2"),
        (2, vec![r#"{"record":"change","of":"sysctl.vm.swappiness"}"#], "format 2"),
        (1, vec![unknown], "`remounted`"),
        (1, vec![INTENT, unknown], "`remounted`"),
    ] {
        let host = Host::new();
        host.write("proc/sys/vm/swappiness", "10\n");
        let path = journal(&host, format, &lines);
        let text = std::fs::read(&path).expect("there");
        for _ in 0..2 {
            let report = restore_leftovers_in(&host.state());
            let kept = report.kept.first().unwrap_or_else(|| panic!("{lines:?}: {report}"));
            assert!(kept.contains(needed) && kept.contains("journal-4194304-0") && !report.is_clean(), "{kept}");
            assert_eq!(std::fs::read(&path).expect("kept"), text, "{lines:?}");
            assert_eq!(host.read("proc/sys/vm/swappiness"), "10", "nothing is done by halves");
        }
        assert!(!standing_of(&host.root(), &host.state()).is_empty(), "a recording carries a note");
    }
}

/// Damaged lines: the rest is put back, and the journal stays for somebody to look at.
#[test]
fn a_damaged_journal_is_used_as_far_as_it_goes_and_kept() {
    let host = Host::new();
    host.write("proc/sys/vm/swappiness", "10\n");
    let path = journal(&host, 1, &["{\"record\":\"inte", INTENT]);
    let report = restore_leftovers_in(&host.state());
    assert_eq!(report.restored.len(), 1, "{report}");
    assert!(report.kept.first().is_some_and(|kept| kept.contains("damaged")), "{report}");
    assert_eq!(host.read("proc/sys/vm/swappiness"), "60");
    assert!(path.exists());
}

/// Part of a line, as a full /run leaves it, does not take the next one along.
#[test]
fn a_line_that_did_not_fit_is_taken_away_again() {
    /// A medium that is full for one line, of which it takes a part.
    struct Full {
        lines: u32,
        at: u32,
    }
    impl Door for Full {
        fn get(&mut self, root: &Path, key: &str) -> Result<String, pagelab_host::settings::SettingError> {
            FixtureDoor.get(root, key)
        }
        fn put(&mut self, root: &Path, key: &str, value: &str) -> std::io::Result<()> {
            FixtureDoor.put(root, key, value)
        }
        fn append(&mut self, journal: &mut std::fs::File, line: &[u8]) -> std::io::Result<()> {
            self.lines += 1;
            if self.lines == self.at {
                use std::io::Write;
                journal.write_all(&line[..line.len() / 2])?;
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            FixtureDoor.append(journal, line)
        }
        fn remove(&mut self, journal: &Path) -> std::io::Result<()> {
            FixtureDoor.remove(journal)
        }
    }
    for at in 1..=4 {
        let host = Host::new();
        let before = host.all();
        let mut guard = Guard::open_with(GuardOptions {
            root: host.root(),
            state_dir: host.state(),
            helper_exe: PathBuf::from(FIXTURE),
            door: Box::new(Full { lines: 0, at }),
        })
        .expect("opens");
        let first = guard.set("sysctl.vm.swappiness", "10");
        let second = guard.set("sysctl.vm.stat_interval", "5");
        assert_eq!((first.is_err(), second.is_err()), (at == 1, at == 3), "what is not journalled is not changed");
        let text = std::fs::read_to_string(host.state().join(&host.leftovers()[0])).expect("a journal");
        assert!(text.lines().all(|line| line.starts_with('{') && line.ends_with("\"}")), "{text}");
        // The guard and its helper die at this point.
        let copy = host.root().join("copy");
        std::fs::create_dir(&copy).expect("made");
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o700)).expect("ours");
        std::fs::write(copy.join("journal-4194304-7.jsonl"), &text).expect("copied");
        let report = restore_leftovers_in(&copy);
        assert!(report.is_clean(), "line {at}: {report}");
        assert_eq!(host.all(), before, "line {at}");
        guard.close();
    }
}

/// A journal orders root to write files. One that somebody else can have put there is refused.
#[test]
fn planted_journals_are_refused() {
    let host = Host::new();
    host.write("proc/sys/vm/swappiness", "10\n");
    let path = journal(&host, 1, &[INTENT]);
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("own");
    let refused = |needed: &str| {
        for report in [restore_leftovers_in(&host.state()), restore_leftovers_of(&host.root(), &host.state())] {
            let kept = report.kept.first().unwrap_or_else(|| panic!("{needed}: {report}"));
            assert!(kept.contains("not acted upon") && kept.contains(needed), "{kept}");
        }
        assert_eq!(host.read("proc/sys/vm/swappiness"), "10", "{needed}");
        assert!(path.exists());
    };
    for shared in [0o777, 0o775, 0o757, 0o1777] {
        mode(&host.state(), shared);
        refused(&format!("mode {shared:04o}"));
    }
    mode(&host.state(), 0o700);
    for shared in [0o622, 0o620, 0o602] {
        mode(&path, shared);
        refused(&format!("mode {shared:04o}"));
    }
    mode(&path, 0o600);
    if rustix::process::geteuid().is_root() {
        let nobody = Some(65534);
        std::os::unix::fs::chown(&path, nobody, nobody).expect("root");
        refused("of user 65534");
        std::os::unix::fs::chown(&path, Some(0), Some(0)).expect("root");
        std::os::unix::fs::chown(host.state(), nobody, nobody).expect("root");
        refused("of user 65534");
        let error = Guard::open_with(GuardOptions {
            root: host.root(),
            state_dir: host.state(),
            helper_exe: PathBuf::from(FIXTURE),
            door: Box::new(FixtureDoor),
        });
        let error = error.err().expect("a folder of somebody else").to_string();
        assert!(error.contains("of user 65534") && error.contains("needed one of user 0"), "{error}");
        std::os::unix::fs::chown(host.state(), Some(0), Some(0)).expect("root");
    }
    // A link to a journal, and a folder that is a link.
    let elsewhere = host.root().join("elsewhere.jsonl");
    std::fs::rename(&path, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
    refused("symbolic links");
    std::fs::remove_file(&path).expect("removed");
    // Once all is as it should be, it counts.
    std::fs::rename(&elsewhere, &path).expect("moved");
    assert_eq!(restore_leftovers_in(&host.state()).restored.len(), 1);
    assert_eq!(host.read("proc/sys/vm/swappiness"), "60");
}

/// The real door writes settings of the running kernel and nothing else, whatever root a journal names.
#[test]
fn the_real_door_takes_no_other_root() {
    let host = Host::new();
    let error = KernelDoor.put(&host.root(), "sysctl.vm.swappiness", "1").expect_err("another root").to_string();
    assert!(error.contains("not the root of this host"), "{error}");
    assert_eq!(host.read("proc/sys/vm/swappiness"), "60");
    for key in ["sysctl.kernel.//.//.//.tmp.victim", "sysctl.kernel.osrelease", "kernel.cmdline", "env.PATH"] {
        assert!(KernelDoor.put(Path::new("/"), key, "x").is_err(), "{key}");
    }
}

/// A value comes back as the bytes that were found, not as the one form in which it is recorded.
#[test]
fn values_come_back_byte_for_byte() {
    for found in
        ["two   with   spaces\n", "4\t4\t1\t7\n", "no newline", "lines\n  of \n\n text\n", "caf\u{e9}  \u{1}\n", "60\n"]
    {
        let host = Host::new();
        host.write("proc/sys/kernel/printk", found);
        let mut guard = open_in(&host, &host.state());
        guard.set("sysctl.kernel.printk", "8 8 8 8").expect("set");
        assert!(guard.close().is_clean());
        let path = host.root().join("proc/sys/kernel/printk");
        let back = || std::fs::read_to_string(&path).expect("there");
        assert!(back() == found || format!("{found}\n") == back(), "{found:?} came back as {:?}", back());

        // And by way of the journal.
        host.write("proc/sys/kernel/printk", found);
        let mut fixture = host.fixture("hold", &["sysctl.kernel.printk=8 8 8 8"]);
        assert_eq!(fixture.line(), "held");
        fixture.kill();
        fixture.wait();
        eventually("back", || host.leftovers().is_empty());
        assert!(back() == found || format!("{found}\n") == back(), "{found:?} came back as {:?}", back());
    }
}

/// The whole of a cgroup is killed, on this host and with a setting of its kernel.
struct Group(PathBuf);

impl Group {
    /// A group of the unified hierarchy, if there is one that this process may use.
    fn new(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
        let path = Path::new(&mount).join(format!("pagelab-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        path.join("cgroup.kill").exists().then_some(Group(path))
    }

    fn procs(&self) -> String {
        std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        eventually("the group is empty", || self.procs().is_empty());
        let _ = std::fs::remove_dir(&self.0);
    }
}

const BURST: &str = "sysctl.kernel.printk_ratelimit_burst";

/// CAP_SYS_RESOURCE: without it nobody may be made safer from the kernel's choice of victims.
fn may_spare() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("own status");
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).expect("capabilities");
    u64::from_str_radix(bits, 16).is_ok_and(|bits| bits >> 24 & 1 == 1)
}

fn burst() -> String {
    pagelab_host::settings::read(Path::new("/"), BURST).expect("a setting")
}

/// A fixture in the group, which holds the setting at 11.
fn held_in(group: &Group, state: &Path) -> Fixture {
    let shell =
        format!("echo $$ > {}/cgroup.procs && exec {FIXTURE} hold / {} {BURST}=11", group.0.display(), state.display());
    let mut fixture = Fixture::of(std::process::Command::new("sh").args(["-c", &shell]));
    assert_eq!(fixture.line(), "held");
    fixture
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_a_killed_cgroup_leaves_nothing_behind() {
    let Some(group) = Group::new("kill") else {
        return skipped("no cgroup v2 that can be killed on this host");
    };
    let _back = common::settings::SetBack::of(&[BURST]);
    let before = burst();
    assert_ne!(before, "11");
    let mut pauses = Pauses(3);
    for kill in 0..kills() {
        let state = tempfile::tempdir().expect("a temporary folder");
        let mut fixture = held_in(&group, state.path());
        assert_eq!(burst(), "11");
        let helper = helper_of(&fixture).expect("a helper");
        let text = helper.as_raw_nonzero().to_string();
        assert!(!group.procs().lines().any(|pid| pid == text), "the helper has left the group");
        let groups = std::fs::read_to_string(format!("/proc/{text}/cgroup")).expect("alive");
        assert!(groups.lines().all(|line| line.ends_with(":/")), "v1 and v2: {groups}");
        let spared = std::fs::read_to_string(format!("/proc/{text}/oom_score_adj")).expect("alive");
        assert!(!may_spare() || spared.trim() == "-1000", "{spared}");
        pauses.pause();
        // Every other time the helper dies as well, as when it may not leave.
        let both = kill % 2 == 1;
        if both {
            let _ = rustix::process::kill_process(helper, rustix::process::Signal::KILL);
        }
        std::fs::write(group.0.join("cgroup.kill"), "1").expect("killed");
        fixture.wait();
        if !both {
            eventually("back, by the helper alone", || burst() == before);
            eventually("cleared up", || std::fs::read_dir(state.path()).is_ok_and(|folder| folder.count() == 0));
            continue;
        }
        assert_eq!(burst(), "11", "nobody is there to put it back");
        assert!(!standing_of(Path::new("/"), state.path()).is_empty(), "a recording that began now would carry a note");
        let report = restore_leftovers_of(Path::new("/"), state.path());
        assert!(report.is_clean() && report.restored.len() == 1, "kill {kill}: {report}");
        assert_eq!(burst(), before, "kill {kill}");
    }
    println!("{} kills of the cgroup", kills());
}

/// A container's own /run hides what the host's pagelabs do. Two that do not see each other once left a value for good
/// that neither had found.
#[test]
#[ignore = "makes namespaces; run by make test with --ignored --test-threads=1"]
fn host_a_guard_that_cannot_see_the_hosts_is_refused() {
    let hold = |namespaces: &[&str], prepare: &str, state: &str| {
        let shell = format!("{prepare} exec {FIXTURE} hold / {state} {BURST}=11 < /dev/null");
        let output = std::process::Command::new("unshare").args(namespaces).args(["sh", "-c", &shell]).output();
        let output = output.expect("unshare");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let before = burst();
    let of_its_own = "mount -t tmpfs none /run &&";
    for (namespaces, prepare) in [(&["-p", "-f", "--mount-proc"][..], ""), (&["-m"], of_its_own)] {
        let said = hold(namespaces, prepare, "/run/pagelab");
        // Where the host's /run can be looked into, it is used.
        let seen = namespaces == ["-m"] && std::fs::metadata("/proc/1/root/run").is_ok();
        assert!(said.contains("Contained") || seen, "{namespaces:?}: {said}");
    }
    // With a /run that is the host's, or with a folder that the user answers for, it is not.
    let state = tempfile::tempdir().expect("a temporary folder");
    let named = state.path().to_str().expect("text");
    for (namespaces, prepare, state) in
        [(&["-m"][..], "", "/run/pagelab"), (&["-p", "-f", "--mount-proc"], "", named), (&["-m"], of_its_own, named)]
    {
        let said = hold(namespaces, prepare, state);
        assert!(said.contains("held"), "{namespaces:?} {state}: {said}");
    }
    eventually("all back", || burst() == before);
}
