//! A user whose folder root writes into, and who never stops planting: links in the place of every name, folders of links in
//! the place of root's own, which are moved away under root's hands. Whatever a command answers, what lies elsewhere stays.

use crate::common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};

use common::{pagelab, run, scratch};

const NOBODY: u32 = 65534;

/// Names that pagelab gives to files, besides those that the commands below ask for.
const KNOWN: [&str; 8] =
    ["manifest.json", "set.json", "compare.json", "plan.toml", "faults", "tasks", "part-0.parquet", "variant=a"];

/// What must stay as it is, and the folder in which everything is tried.
struct Place {
    precious: PathBuf,
    precious_folder: PathBuf,
    hostile: PathBuf,
}

impl Place {
    fn below(root: &Path) -> Self {
        let place = Place {
            precious: root.join("precious"),
            precious_folder: root.join("precious.d"),
            hostile: root.join("hostile"),
        };
        fs::set_permissions(root, Permissions::from_mode(0o755)).expect("ours");
        fs::write(&place.precious, "precious").expect("scratch");
        fs::create_dir(&place.precious_folder).expect("scratch");
        fs::set_permissions(&place.precious_folder, Permissions::from_mode(0o755)).expect("ours");
        fs::create_dir(&place.hostile).expect("scratch");
        chown(&place.hostile, Some(NOBODY), Some(NOBODY)).expect("root");
        place
    }

    /// Inode, owner, mode, length, time and content of what must not change.
    fn state(&self) -> String {
        let of = |path: &Path| {
            let found = fs::symlink_metadata(path).expect("still there");
            let times = (found.mtime(), found.mtime_nsec());
            format!("{} {}:{} {:o} {} {times:?}", found.ino(), found.uid(), found.gid(), found.mode(), found.len())
        };
        let names: Vec<_> = fs::read_dir(&self.precious_folder).expect("still there").flatten().collect();
        let content = String::from_utf8_lossy(&fs::read(&self.precious).expect("still there")).into_owned();
        format!("{} | {content} | {} | {names:?}", of(&self.precious), of(&self.precious_folder))
    }
}

/// The neighbour: takes one name after the other and plants something there. Counts what was planted.
struct Neighbour<'a> {
    place: &'a Place,
    names: &'a [&'a str],
    planted: AtomicU64,
    moved: AtomicU64,
    enough: AtomicBool,
}

impl<'a> Neighbour<'a> {
    fn of(place: &'a Place, names: &'a [&'a str]) -> Self {
        Self { place, names, planted: AtomicU64::new(0), moved: AtomicU64::new(0), enough: AtomicBool::new(false) }
    }

    /// Goes on as nobody, in this thread alone, until it is enough.
    fn plant(&self) {
        set_thread_res_gid(Gid::from_raw(NOBODY), Gid::from_raw(NOBODY), Gid::from_raw(NOBODY)).expect("root");
        set_thread_res_uid(Uid::from_raw(NOBODY), Uid::from_raw(NOBODY), Uid::from_raw(NOBODY)).expect("root");
        let mut round = 0_u32;
        while !self.enough.load(Ordering::Relaxed) {
            round += 1;
            // The names that are asked for, and whatever came: temporary names among them.
            let there = fs::read_dir(&self.place.hostile).expect("nobody's own").flatten();
            let mut names: Vec<PathBuf> = there.map(|entry| entry.path()).collect();
            names.retain(|name| !name.to_string_lossy().contains("/away"));
            names.extend(self.names.iter().map(|name| self.place.hostile.join(name)));
            for (at, name) in names.iter().enumerate() {
                self.one(name, round.wrapping_add(at as u32));
            }
        }
    }

    fn one(&self, name: &Path, kind: u32) {
        let aside = self.place.hostile.join("aside");
        let _ = fs::remove_file(&aside);
        let made = match kind % 5 {
            0 => symlink(&self.place.precious, &aside).is_ok(),
            1 => symlink(&self.place.precious_folder, &aside).is_ok(),
            2 => fs::hard_link(&self.place.precious, &aside).is_ok(),
            3 => self.folder_of_links(name),
            // Nothing there, for moments of several lengths: a command gets as far as that.
            _ => {
                if fs::remove_file(name).is_err() {
                    let _ = fs::remove_dir_all(name);
                }
                std::thread::sleep(Duration::from_micros(200 << (kind / 5 % 10)));
                false
            }
        };
        if made && fs::rename(&aside, name).is_ok() {
            self.planted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Moves the folder away and puts one in its place whose every name leads to the precious file.
    fn folder_of_links(&self, name: &Path) -> bool {
        let away = self.place.hostile.join("away");
        if fs::symlink_metadata(name).is_ok_and(|found| found.is_dir()) {
            let into = away.with_extension(self.moved.fetch_add(1, Ordering::Relaxed).to_string());
            let _ = fs::rename(name, into);
        }
        if fs::create_dir(name).is_ok() {
            for known in KNOWN {
                let target = if known.contains('.') { &self.place.precious } else { &self.place.precious_folder };
                let _ = symlink(target, name.join(known));
            }
            self.planted.fetch_add(1, Ordering::Relaxed);
        }
        false
    }
}

/// A recording to make outputs of.
fn material(dir: &Path) -> String {
    let recording = dir.join("rec").to_str().expect("plain").to_owned();
    let workload = ["sh", "-c", "seq 300000 | sort -r"];
    run(pagelab().args(["record", "--observe", "default,cpu", "-o", &recording, "--"]).args(workload), 0);
    recording
}

/// The command lines, and the names that they write to.
fn commands(hostile: &Path, recording: &str) -> Vec<Vec<String>> {
    let at = |name: &str| hostile.join(name).to_str().expect("plain").to_owned();
    let job = ["--name=j", "--ioengine=null", "--rw=write", "--size=4m", "--bs=64k"].map(str::to_owned);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let with = |first: &[&str], output: &str| [words(first), vec![at(output)]].concat();
    let plan =
        "title = \"n\"\nruns = 2\ncommand = \"true\"\n[variant.a]\n[variant.b]\nsettings = {\"env.A\" = \"2\"}\n";
    let plan_file = hostile.with_file_name("plan.toml");
    fs::write(&plan_file, plan).expect("scratch");
    let mut all = vec![
        [with(&["record", "-o"], "out"), words(&["--", "true"])].concat(),
        words(&["record", "--", "true"]),
        with(&["query", recording, "select * from metrics limit 20", "-o"], "out.csv"),
        with(&["query", recording, "select * from metrics limit 20", "-o"], "out.parquet"),
        with(&["export", "folded", recording, "-o"], "folded"),
        with(&["export", "flamegraph", recording, "-o"], "flame.svg"),
        [with(&["compare", "-n", "2", "-o"], "set"), words(&["--", "true", "true"])].concat(),
        with(&["experiment", plan_file.to_str().expect("plain"), "-o"], "set"),
        [words(&["run"]), job.to_vec(), with(&["-o"], "out")].concat(),
        [words(&["run"]), job.to_vec(), vec![format!("--output={}", at("report")), "--output-format=json".to_owned()]]
            .concat(),
        [words(&["run"]), job.to_vec(), vec![format!("--write_lat_log={}", at("log"))]].concat(),
    ];
    let file = ["--name=j", "--ioengine=psync", "--rw=write", "--size=1m", "--bs=64k"].map(str::to_owned);
    all.push([words(&["run"]), file.to_vec(), vec![format!("--filename={}", at("data"))]].concat());
    all
}

/// Rounds of all commands in the long form, and the most in the short one.
const MOST_ROUNDS: usize = 40;
/// Plantings below which the commands were not put to the test.
const LEAST_PLANTED: u64 = 200;

#[test]
fn nothing_elsewhere_changes_whatever_a_neighbour_plants() {
    let dir = scratch();
    assert!(rustix::process::geteuid().is_root(), "needed root: sudo make test");
    let recording = material(dir.path());
    let place = Place::below(dir.path());
    let before = place.state();
    let names = [
        "out",
        "out.csv",
        "out.parquet",
        "folded",
        "flame.svg",
        "set",
        "report",
        "log_lat.1.log",
        "log_clat.1.log",
        "data",
    ];
    let neighbour = Neighbour::of(&place, &names);
    // Each command does its work where nobody is in the way.
    let quiet = dir.path().join("quiet");
    for words in commands(&quiet, &recording) {
        let _ = fs::remove_dir_all(&quiet);
        fs::create_dir(&quiet).expect("scratch");
        run(pagelab().args(&words).current_dir(&quiet), 0);
    }
    let least = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { MOST_ROUNDS } else { 1 };
    let planted = || neighbour.planted.load(Ordering::Relaxed);
    let mut statuses = std::collections::BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| neighbour.plant());
        for round in 0..MOST_ROUNDS {
            // On a busy machine the neighbour comes to few plantings in one round, or is in the way of every command.
            let one_ended_well = statuses.keys().any(|(_, status)| *status == Some(0));
            if round >= least && planted() > LEAST_PLANTED && one_ended_well {
                break;
            }
            for words in commands(&place.hostile, &recording) {
                let output = pagelab().args(&words).current_dir(&place.hostile).output().expect("it starts");
                let now = place.state();
                if now != before {
                    neighbour.enough.store(true, Ordering::Relaxed);
                }
                assert_eq!(now, before, "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
                let name = words[..2].join(" ");
                *statuses.entry((name, output.status.code())).or_insert(0) += 1;
            }
        }
        neighbour.enough.store(true, Ordering::Relaxed);
    });
    println!("planted {}: {statuses:?}", planted());
    // It must have been tried, and commands must have come to their ends in between.
    assert!(planted() > LEAST_PLANTED, "{statuses:?}");
    assert!(statuses.keys().any(|(_, status)| *status == Some(0)), "{statuses:?}");
    assert!(!statuses.keys().any(|(_, status)| *status == Some(101)), "a panic: {statuses:?}");
}

/// The test above can fail: the same neighbour of a program that opens its output by its path.
#[test]
fn a_program_that_opens_by_path_is_caught() {
    let dir = scratch();
    let place = Place::below(dir.path());
    let before = place.state();
    let names = ["out"];
    let neighbour = Neighbour::of(&place, &names);
    let mut caught = false;
    std::thread::scope(|scope| {
        scope.spawn(|| neighbour.plant());
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            let _ = fs::write(place.hostile.join("out"), "theirs");
            if place.state() != before {
                caught = true;
                break;
            }
        }
        neighbour.enough.store(true, Ordering::Relaxed);
    });
    assert!(caught, "planted {}", neighbour.planted.load(Ordering::Relaxed));
}
