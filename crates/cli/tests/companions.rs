//! The companion plans of the thp-regression experiment: regressions whose cause is known, look-alikes, and none at all.
//!
//! Each is run with names drawn at random for its variants, so that nothing but the recordings can lead to the verdict.
//! `make test-all` runs each 20 times with different seeds, of which 19 must be right. `make test` runs each once, with
//! [`SHORT_RUNS`] runs of each variant in place of the plan's 8 or 10, and that one must be right.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::{json, pagelab, run};

/// Runs of each variant in the short form: the regressions are of 25 % and more, which five runs of each side show.
const SHORT_RUNS: usize = 5;

/// What the jobs run before they are measured, and what they run then in the short form: the cache is full after 50 ms.
const RAMP: &str = "ramp_time=300ms";
const SHORT_RAMP: &str = "ramp_time=100ms";

struct Companion {
    plan: &'static str,
    /// Causes that must be found, at the head of the list in any order, where the loss is shown; nothing else may be found
    /// if `only`.
    found: &'static [&'static str],
    /// Causes that must not be found.
    absent: &'static [&'static str],
    only: bool,
}

/// Copies the plan, the jobs next to it and those above it into `dir`; with fewer and shorter runs in the short form.
fn plan(name: &str, dir: &Path, full: bool) -> PathBuf {
    let original = PathBuf::from(format!("{}/../../experiments/thp-regression", env!("CARGO_MANIFEST_DIR")));
    let copy = dir.join("plan");
    for folder in ["", "companions"] {
        fs::create_dir_all(copy.join(folder)).expect("the folder is new");
        for file in fs::read_dir(original.join(folder)).expect("the experiment").flatten() {
            let to = copy.join(folder).join(file.file_name());
            if to.extension().is_some_and(|ending| ending == "fio" || ending == "toml") {
                let text = fs::read_to_string(file.path()).expect("a plan or a job");
                fs::write(to, if full { text } else { text.replace(RAMP, SHORT_RAMP) }).expect("a plan or a job");
            }
        }
    }
    let path = copy.join(name);
    if !full {
        let text = fs::read_to_string(&path).expect("the plan");
        let is_count = |line: &str| line.starts_with("runs = ");
        assert_eq!(text.lines().filter(|line| is_count(line)).count(), 1, "{name} says once how many runs there are");
        // What a first run finds cold, the five of a side vary by all the same.
        let short = |line: &str| match line {
            line if is_count(line) => format!("runs = {SHORT_RUNS}\n"),
            line if line.starts_with("warmup = ") => "warmup = 0\n".to_owned(),
            line => format!("{line}\n"),
        };
        fs::write(&path, text.lines().map(short).collect::<String>()).expect("a shorter plan");
    }
    path
}

/// What one execution of a plan came to.
struct Outcome {
    /// The causes found, in their order.
    found: Vec<String>,
    /// `worse` where the loss is shown.
    verdict: String,
    failed_runs: usize,
    /// For the reader of a failure: the primary metric, and what became of each cause.
    said: String,
}

fn outcome(companion: &Companion, seed: u64, full: bool) -> Outcome {
    // On a disk: one of the plans changes the read-ahead of the device that the set lies on.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let seed = seed.to_string();
    let mut command = pagelab();
    command.args(["experiment", "--json", "--seed", &seed, "--random-names", &seed, "-o"]);
    command.arg(dir.path().join("set")).arg(plan(companion.plan, dir.path(), full));
    let document = json(&run(&mut command, 0));
    let list = |key: &str| document[key].as_array().cloned().unwrap_or_else(|| panic!("no list {key}: {document:#}"));
    let name = |finding: &serde_json::Value| finding["cause"].as_str().expect("a cause").to_owned();
    Outcome {
        found: list("findings").iter().map(name).collect(),
        verdict: document["primary"]["verdict"].as_str().expect("a primary metric").to_owned(),
        failed_runs: list("failed_runs").len(),
        said: format!("{}\n{}", document["primary"], document["considered"]),
    }
}

fn is_right(companion: &Companion, outcome: &Outcome) -> bool {
    let found = &outcome.found;
    let head: BTreeSet<&str> = found.iter().take(companion.found.len()).map(String::as_str).collect();
    let wanted: BTreeSet<&str> = companion.found.iter().copied().collect();
    head == wanted
        && outcome.failed_runs == 0
        && (companion.found.is_empty() || outcome.verdict == "worse")
        && !companion.absent.iter().any(|cause| found.iter().any(|name| name == cause))
        && (!companion.only || found.len() == companion.found.len())
}

#[track_caller]
fn check(companion: &Companion) {
    let full = std::env::var_os("PAGELAB_TEST_FULL").is_some();
    let (repetitions, may_be_wrong) = if full { (20, 1) } else { (1, 0) };
    let mut wrong = Vec::new();
    for seed in 1..=repetitions {
        let outcome = outcome(companion, seed, full);
        if !is_right(companion, &outcome) {
            let Outcome { found, verdict, failed_runs, said } = outcome;
            wrong.push(format!("seed {seed}: {verdict}, found {found:?}, {failed_runs} runs failed\n{said}"));
        }
    }
    println!("{}: {} of {repetitions} wrong", companion.plan, wrong.len());
    assert!(
        wrong.len() <= may_be_wrong,
        "{}: {} of {repetitions} wrong\n{}",
        companion.plan,
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_the_demo_names_thp() {
    check(&Companion { plan: "plan.toml", found: &["thp.disabled"], absent: &["map.misaligned"], only: false });
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_two_sides_alike_have_no_finding() {
    check(&Companion { plan: "companions/a-a.toml", found: &[], absent: &[], only: true });
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_small_pieces_are_not_blamed_on_thp() {
    check(&Companion { plan: "companions/thp-small-pieces.toml", found: &[], absent: &["thp.disabled"], only: true });
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_shifted_mappings_are_misaligned() {
    check(&Companion {
        plan: "companions/shifted.toml",
        found: &["map.misaligned"],
        absent: &["thp.disabled"],
        only: false,
    });
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_a_small_hugetlb_pool_is_named() {
    check(&Companion {
        plan: "companions/hugetlb-pool-small.toml",
        found: &["hugetlb.pool_exhausted"],
        absent: &["thp.disabled", "map.misaligned"],
        only: false,
    });
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_two_causes_are_both_named() {
    check(&Companion {
        plan: "companions/thp-and-readahead.toml",
        found: &["thp.disabled", "readahead.reduced"],
        absent: &[],
        only: false,
    });
}
