//! Several pagelabs, and people, at the same settings at once. No round of a guard may see another's value, whoever is killed when;
//! what somebody else has set stays; and when all are gone the host is as it was.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use common::settings::{SetBack, file_of, value};
use common::{FIXTURE, Fixture, Host, eventually};
use pagelab_host::guard::{Guard, GuardOptions, KernelDoor, RestoreReport, restore_leftovers_in};

const MEMORY: &str = env!("CARGO_BIN_EXE_pagelab-memory-fixture");

/// A running contestant; one listener hears them all.
struct Contestant(Child);

impl Contestant {
    fn start(arguments: &[&str], ear: &Sender<String>) -> Self {
        let mut command = Command::new(FIXTURE);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("fixture starts");
        let (lines, ear) = (BufReader::new(child.stdout.take().expect("piped")).lines(), ear.clone());
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| ear.send(line)));
        Contestant(child)
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What contestants have said.
#[derive(Debug, Default)]
struct Said {
    rounds: u32,
    held: u32,
    bad: Vec<String>,
}

fn said(ear: &Receiver<String>) -> Said {
    let mut found = Said::default();
    for line in ear.try_iter() {
        match line.as_str() {
            "round" => found.rounds += 1,
            "held" => found.held += 1,
            "idle" => {}
            _ => found.bad.push(line),
        }
    }
    found
}

/// A fixed sequence of pauses and victims (Knuth's MMIX generator).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Lets five guards fight for this long while one after the other is killed and replaced, along with one more that is
/// left alone; returns how many were killed. `groups` makes the settings of the contestant of this number.
fn contest(root: &Path, state: &Path, length: Duration, groups: impl Fn(u64) -> Vec<String>, beside: &[&str]) -> u32 {
    const SIDES: u64 = 5;
    let (ear, said_to) = channel();
    let (root, state) = (root.to_str().expect("UTF-8"), state.to_str().expect("UTF-8"));
    let mut random = Random(7);
    let start_one = |side: u64, seed: u64| {
        let (seed, groups) = (seed.to_string(), groups(side));
        let mut arguments = vec!["fight", root, state, &seed, "1000000"];
        arguments.extend(groups.iter().map(String::as_str));
        Contestant::start(&arguments, &ear)
    };
    let mut sides: Vec<Contestant> = (0..SIDES).map(|side| start_one(side, side + 1)).collect();
    let mut left_alone = (!beside.is_empty()).then(|| Contestant::start(beside, &ear));
    let (start, mut kills) = (Instant::now(), 0);
    let mut all = Said::default();
    while start.elapsed() < length {
        std::thread::sleep(Duration::from_millis(5 + random.below(60)));
        let victim = random.below(SIDES);
        // The old one is killed and waited for before the new one stands in its place.
        sides[victim as usize] = start_one(victim, random.below(1 << 30));
        kills += 1;
        let more = said(&said_to);
        all.rounds += more.rounds;
        all.held += more.held;
        assert!(more.bad.is_empty(), "{:#?}", more.bad);
    }
    if let Some(one) = &mut left_alone {
        assert!(one.0.wait().expect("ended").success());
    }
    drop(sides);
    std::thread::sleep(Duration::from_millis(50));
    let last = said(&said_to);
    assert!(last.bad.is_empty(), "{:#?}", last.bad);
    println!("{} rounds, {} times held by another, {kills} kills", all.rounds + last.rounds, all.held + last.held);
    assert!(all.rounds > 50 && all.held > 20 && kills > 20, "too little happened to prove anything: {all:?}");
    kills
}

/// Nothing is left, and nothing is still changed. A guard that was killed before its helper watched has changed nothing, and its
/// journal waits for the next command.
fn nothing_is_left(state: &Path) {
    eventually("helpers ended", || !somebody_works_on(state));
    let report = restore_leftovers_in(state);
    assert!(report.is_clean() && report.restored.is_empty(), "{report}");
    let left: Vec<_> = std::fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}: {report}");
}

/// Whether a process names this state folder, or a file in it, among its arguments.
fn somebody_works_on(state: &Path) -> bool {
    let state = state.as_os_str().as_encoded_bytes();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    commands.any(|command| command.split(|byte| *byte == 0).any(|argument| argument.starts_with(state)))
}

/// Guards, and a process that sets the pool for good: a guard finds the permanent value, never another guard's.
#[test]
fn guards_and_lasting_changes_do_not_cross() {
    const POOL: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";
    let host = Host::new();
    let files = [("nr", "10"), ("free", "10"), ("surplus", "0"), ("resv", "0"), ("nr_overcommit", "0")];
    for (name, value) in files {
        host.write(&format!("{POOL}/{name}_hugepages"), &format!("{value}\n"));
    }
    host.write("proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\nHugepagesize: 2048 kB\n");
    let before = host.all();
    let (root, state) = (host.root(), host.state());
    let groups = |side: u64| {
        vec![
            format!("hugetlb.2M.nr_hugepages=10/20/30:{}|{}", 100 + side, 200 + side),
            "thp.enabled=madvise:never|always".to_owned(),
            format!("sysctl.vm.swappiness=60:{}", 10 + side),
            format!("block.vda.read_ahead_kb=8192:{}|{}", 100 + side, 200 + side),
        ]
    };
    let texts = [root.to_str().expect("UTF-8"), state.to_str().expect("UTF-8")];
    let beside = ["lasting", texts[0], texts[1], "4000", "20", "30", "10"];
    contest(&root, &state, Duration::from_secs(6), groups, &beside);
    eventually("all back", || host.all() == before);
    nothing_is_left(&state);
    let pages = host.read(&format!("{POOL}/nr_hugepages"));
    assert!(["10", "20", "30"].contains(&pages.as_str()), "{pages}");
}

/// The real thing: overlapping pools (a pool, its part on a node, the sysctl that stands for it), what may be added on demand under
/// both its names, and huge pages with what the kernel rewrites along with them; while pages of the pool are taken and given back.
#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_guards_that_fight_and_die_leave_the_host_as_it_was() {
    struct Killed(Child);
    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let keys = [
        "sysctl.vm.min_free_kbytes",
        "thp.enabled",
        "thp.shmem_enabled",
        "thp.defrag",
        "hugetlb.2M.nr_overcommit_hugepages",
        "hugetlb.2M.nr_hugepages",
    ];
    let before = SetBack::of(&keys);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = |key: &str, choices: &[&str]| {
        let found = before.value(key);
        let ours: Vec<&str> = choices.iter().copied().filter(|choice| *choice != found).collect();
        format!("{key}={found}:{}", ours.join("|"))
    };
    let groups = |side: u64| {
        let more = |key: &str, same_as: &str| {
            let found: u64 = before.value(same_as).parse().expect("a number");
            format!("{key}={found}:{}|{}", found + 1 + 2 * side, found + 2 + 2 * side)
        };
        let (pool, demand) = ("hugetlb.2M.nr_hugepages", "hugetlb.2M.nr_overcommit_hugepages");
        let free = "sysctl.vm.min_free_kbytes";
        vec![
            [more(pool, pool), more("hugetlb.2M.node0.nr_hugepages", pool), more("sysctl.vm.nr_hugepages", pool)]
                .join(";"),
            [more(demand, demand), more("sysctl.vm.nr_overcommit_hugepages", demand)].join(";"),
            [
                other("thp.enabled", &["always", "madvise", "never"]),
                other("thp.shmem_enabled", &["never", "advise", "within_size"]),
                more(free, free),
            ]
            .join(";"),
            other("thp.defrag", &["defer", "madvise"]),
        ]
    };
    let churn = Command::new(MEMORY).args(["churn", "5"]).spawn().expect("fixture starts");
    let churn = Killed(churn);
    contest(Path::new("/"), folder.path(), Duration::from_secs(12), groups, &[]);
    drop(churn);
    eventually("as before", || before.now() == before.0);
    nothing_is_left(folder.path());
    assert_eq!(before.now(), before.0);
    eventually("no page is left over", || value("hugetlb.2M.surplus_hugepages").as_deref() == Some("0"));
}

/// Every kind of setting that the guard writes, with what pagelab and then somebody else makes of it. What the kernel changes along
/// with it stands in front, so that it can be put back afterwards: the guard leaves that, too.
const KINDS: &[(&[&str], &str, [&str; 3])] = &[
    (&["sysctl.vm.min_free_kbytes"], "thp.enabled", ["always", "never", "madvise"]),
    (&[], "thp.defrag", ["defer", "never", "madvise"]),
    (&["sysctl.vm.min_free_kbytes"], "thp.64K.enabled", ["always", "inherit", "never"]),
    (&["sysctl.vm.min_free_kbytes"], "thp.shmem_enabled", ["advise", "within_size", "never"]),
    (&[], "thp.khugepaged.scan_sleep_millisecs", ["20001", "20002", "20003"]),
    (&[], "hugetlb.2M.nr_hugepages", ["3", "5", "7"]),
    (&["hugetlb.2M.nr_hugepages"], "hugetlb.2M.node0.nr_hugepages", ["3", "5", "7"]),
    (&["hugetlb.2M.nr_hugepages"], "sysctl.vm.nr_hugepages", ["3", "5", "7"]),
    (&[], "hugetlb.2M.nr_overcommit_hugepages", ["3", "5", "7"]),
    (&["hugetlb.2M.nr_overcommit_hugepages"], "sysctl.vm.nr_overcommit_hugepages", ["3", "5", "7"]),
    (&[], "sysctl.vm.min_free_kbytes", ["67001", "67002", "67003"]),
    (&[], "sysctl.vm.stat_interval", ["7", "8", "9"]),
    (&["sysctl.vm.dirty_ratio"], "sysctl.vm.dirty_bytes", ["8589934592", "8589938688", "8589942784"]),
    (&["sysctl.vm.dirty_bytes"], "sysctl.vm.dirty_ratio", ["21", "22", "23"]),
    (&["sysctl.vm.overcommit_ratio"], "sysctl.vm.overcommit_kbytes", ["1048576", "1048580", "1048584"]),
    (&[], "sysctl.vm.lowmem_reserve_ratio", ["255 256 32 0 0", "254 256 32 0 0", "253 256 32 0 0"]),
];

/// Checks that somebody else's value was left alone and reported.
fn stays(key: &str, theirs: &str, report: &RestoreReport) {
    let left = report.left.iter().find(|left| left.key == key).unwrap_or_else(|| panic!("{key}: {report:?}"));
    assert_eq!((left.found.as_deref(), left.why.contains("somebody else")), (Some(theirs), true), "{left:?}");
    assert!(report.failed.is_empty() && report.restored.iter().all(|back| back.key != key), "{report}");
    assert_eq!(value(key).as_deref(), Some(theirs));
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_what_somebody_else_has_set_stays_for_every_kind_of_setting() {
    let mut seen = 0;
    for (beside, key, values) in KINDS {
        let Some(found) = value(key) else {
            println!("{key}: this kernel does not have it");
            continue;
        };
        let mut others = values.iter().filter(|value| **value != found);
        let (Some(ours), Some(theirs)) = (others.next(), others.next()) else { panic!("{key}: {found}") };
        let keys: Vec<&str> = beside.iter().copied().chain([*key]).collect();
        let before = SetBack::of(&keys);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = GuardOptions {
            root: PathBuf::from("/"),
            state_dir: folder.path().to_owned(),
            helper_exe: PathBuf::from(FIXTURE),
            door: Box::new(KernelDoor),
        };
        let mut guard = Guard::open_with(options).expect("guard opens");
        assert!(guard.set(key, ours).expect("set").granted(), "{key}");
        std::fs::write(file_of(key), theirs).expect("root");
        stays(key, theirs, &guard.close());
        nothing_is_left(folder.path());
        before.put();
        assert_eq!(before.now(), before.0, "{key}");

        // The same if the guard is killed and its helper comes upon it.
        let mut fixture = Fixture::start("hold", Path::new("/"), folder.path(), &[&format!("{key}={ours}")]);
        assert_eq!(fixture.line(), "held", "{key}");
        std::fs::write(file_of(key), theirs).expect("root");
        fixture.kill();
        fixture.wait();
        nothing_is_left(folder.path());
        assert_eq!(value(key).as_deref(), Some(*theirs), "{key}");
        before.put();
        assert_eq!(before.now(), before.0, "{key}");
        seen += 1;
    }
    println!("{seen} kinds of settings");
    assert!(seen >= 12);
}

/// Two settings go together: the one that somebody else changed stays; the other is put back.
#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_what_somebody_else_has_set_beside_it_stays() {
    let before =
        SetBack::of(&["sysctl.vm.min_free_kbytes", "thp.enabled", "sysctl.vm.dirty_ratio", "sysctl.vm.dirty_bytes"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut fixture = Fixture::start(
        "hold",
        Path::new("/"),
        folder.path(),
        &["thp.enabled=never", "sysctl.vm.dirty_bytes=8589934592"],
    );
    assert_eq!(fixture.line(), "held");
    std::fs::write(file_of("sysctl.vm.min_free_kbytes"), "67001").expect("root");
    std::fs::write(file_of("sysctl.vm.dirty_ratio"), "21").expect("root");
    fixture.say("close");
    fixture.wait();
    assert_eq!(value("sysctl.vm.min_free_kbytes").as_deref(), Some("67001"));
    assert_eq!(value("thp.enabled").as_deref(), Some(before.value("thp.enabled")));
    assert_eq!(value("sysctl.vm.dirty_ratio").as_deref(), Some("21"));
    assert_eq!(value("sysctl.vm.dirty_bytes").as_deref(), Some("0"));
    nothing_is_left(folder.path());
    before.put();
    assert_eq!(before.now(), before.0);
}
