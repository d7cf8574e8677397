//! Faults of real programs against the kernel's own software counter, PERF_COUNT_SW_PAGE_FAULTS, which `perf stat` reads
//! for the same process tree over the same time: from the program's exec to its end.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{is_root, pagelab, run, scratch};
use pagelab_recording::Recording;
use pagelab_recording::tables::{FaultsRow, TasksRow};

/// The recording's counts of a program run below perf, and perf's counts.
#[derive(Debug, Default)]
struct Counts {
    /// By `perf stat -e page-faults`.
    counted: u64,
    recorded: u64,
    unattributed: u64,
    /// Of the ended tasks, as their rows in `tasks` have it.
    recorded_of_ended: u64,
    /// min_flt + maj_flt of the same tasks.
    rusage_of_ended: u64,
    tasks: usize,
}

/// The tasks of the program: the first that execs below perf, and all it forks. Also the address spaces that came
/// before that exec, whose faults perf does not count.
fn program_tasks(tasks: &[(String, u32, Option<u32>, Option<u32>)]) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let (mut tree, mut before) = (BTreeSet::new(), BTreeSet::new());
    for (op, task, parent, mm) in tasks {
        let first = op == "exec" && *task != 1 && tree.is_empty();
        if first || (op == "fork" && parent.is_some_and(|parent| tree.contains(&parent))) {
            tree.insert(*task);
        } else if tree.is_empty() {
            before.extend(mm.iter().copied());
        }
    }
    (tree, before)
}

fn count(dir: &Path, words: &[&str]) -> Counts {
    let (out, counts) = (dir.join("recording"), dir.join("perf.txt"));
    let mut command = pagelab();
    command.args(["record", "--observe", "tasks,faults,maps", "-o"]).arg(&out);
    command.args(["--", "perf", "stat", "-x,", "-e", "page-faults", "-o"]).arg(&counts).arg("--").args(words);
    run(&mut command, 0);
    let text = fs::read_to_string(&counts).expect("perf wrote its counts");
    let counted = text.lines().filter(|line| line.contains("page-faults"));
    let mut found = Counts {
        counted: counted.filter_map(|line| line.split(',').next()?.parse::<u64>().ok()).sum(),
        ..Counts::default()
    };
    let recording = Recording::open(&out).expect("a recording");
    let (mut tasks, mut ended) = (Vec::new(), BTreeMap::new());
    recording
        .for_each::<TasksRow>(|row| {
            tasks.push((row.op.to_owned(), row.task_id, row.parent_task_id, row.mm_id));
            if let (Some(minor), Some(major), Some(recorded)) = (row.min_flt, row.maj_flt, row.recorded_faults) {
                ended.insert(row.task_id, (minor + major, recorded));
            }
        })
        .expect("tasks");
    let (tree, before) = program_tasks(&tasks);
    for (rusage, recorded) in tree.iter().filter_map(|task| ended.get(task)) {
        found.rusage_of_ended += rusage;
        found.recorded_of_ended += recorded;
    }
    found.tasks = tree.len();
    recording
        .for_each::<FaultsRow>(|row| {
            if tree.contains(&row.task_id) && !before.contains(&row.mm_id) {
                found.recorded += 1;
                found.unattributed += u64::from(row.mapping_id.is_none());
            }
        })
        .expect("faults");
    found
}

/// Holds one program against the bounds: 0.1 % in the number, 0.1 % without a mapping.
#[track_caller]
fn check(name: &str, dir: &Path, words: &[&str], least: u64) {
    let found = count(dir, words);
    println!("{name}: {found:?}");
    assert!(found.counted >= least, "{name}: too little work to prove anything: {found:?}");
    let tolerance = found.counted as f64 / 1000.0;
    assert!(found.recorded.abs_diff(found.counted) as f64 <= tolerance, "{name}: {found:?}");
    assert!(found.unattributed as f64 <= tolerance, "{name}: {found:?}");
    // rusage also counts pages that the kernel faulted in for itself (get_user_pages, the arguments of exec), so it is
    // never below by more than the faults that end in no page: those that are repeated, or answered by a signal.
    assert!(found.rusage_of_ended > 0 && found.recorded_of_ended > 0, "{name}: {found:?}");
    let difference = found.rusage_of_ended.abs_diff(found.recorded_of_ended) as f64;
    assert!(difference <= found.rusage_of_ended as f64 * 0.1, "{name}: {found:?}");
}

/// On the disk of the checkout, as a user's would be.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn gcc_compiles() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let source = dir.path().join("program.c");
    let mut code = String::from("#include <stdio.h>\n");
    for i in 0..1200 {
        writeln!(code, "int f{i}(int x) {{ int s = 0; for (int k = 0; k < x; k++) s += k * {i}; return s; }}")
            .expect("a string");
    }
    fs::write(&source, code + "int main(void) { return f1(2) & 1; }\n").expect("scratch");
    let program = dir.path().join("program");
    check("gcc", dir.path(), &["gcc", "-O2", "-o", text(&program), text(&source)], 5_000);
}

#[test]
fn git_clones() {
    if !is_root() {
        return;
    }
    let dir = on_disk();
    let origin = dir.path().join("origin");
    fs::create_dir(&origin).expect("scratch");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@localhost", "-C"]).arg(&origin).args(words);
        run(command.env("GIT_CONFIG_NOSYSTEM", "1"), 0);
    };
    git(&["init", "-q"]);
    for file in 0..300 {
        let line = |line: u32| format!("{} {}", file * line, line * 7919 % 1009);
        let lines = (0..200).map(line).collect::<Vec<_>>().join("\n");
        fs::write(origin.join(format!("f{file}")), lines).expect("scratch");
    }
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "x"]);
    let clone = dir.path().join("clone");
    // --no-local: packs and unpacks in several processes, as over a network.
    check("git clone", dir.path(), &["git", "clone", "-q", "--no-local", text(&origin), text(&clone)], 2_000);
}

#[test]
fn sqlite_imports() {
    if !is_root() {
        return;
    }
    let dir = on_disk();
    let row = |i: u64| format!("{i},{},name{}", i * 7919 % 100_003, i % 997);
    let rows = (0..200_000).map(row).collect::<Vec<_>>().join("\n");
    fs::write(dir.path().join("rows.csv"), rows).expect("scratch");
    let script = dir.path().join("import.sql");
    let csv = dir.path().join("rows.csv");
    // A page cache that holds it all, so that memory is touched and not only reused.
    let commands = format!(
        "pragma cache_size = -64000;\ncreate table t(a integer primary key, b integer, c text);\n.mode csv\n.import {} t\ncreate index b on t(b, c);\n",
        csv.display()
    );
    fs::write(&script, commands).expect("scratch");
    let read = format!(".read {}", script.display());
    let database = dir.path().join("t.db");
    check("sqlite3 import", dir.path(), &["sqlite3", "-batch", text(&database), &read], 1_500);
}

/// Debian keeps it out of PATH, below the major version.
fn initdb() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed (make setup-test)").flatten();
    let found = versions.map(|version| version.path().join("bin/initdb")).find(|path| path.is_file());
    found.expect("/usr/lib/postgresql/*/bin/initdb (make setup-test)")
}

#[test]
fn postgres_makes_a_cluster() {
    if !is_root() {
        return;
    }
    // initdb refuses root, and its user must reach the place.
    let dir = tempfile::Builder::new().prefix("pagelab-test-").tempdir_in("/var/tmp").expect("/var/tmp is writable");
    run(Command::new("chmod").arg("0755").arg(dir.path()), 0);
    let cluster = dir.path().join("cluster");
    fs::create_dir(&cluster).expect("scratch");
    run(Command::new("chown").arg("postgres:").arg(&cluster), 0);
    let initdb = initdb();
    let as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"];
    let words = [&as_postgres[..], &[text(&initdb), "--no-sync", "-D", text(&cluster)]].concat();
    check("initdb", dir.path(), &words, 20_000);
}
