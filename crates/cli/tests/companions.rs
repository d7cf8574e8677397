//! The companion plans of the thp-regression experiment: regressions whose cause is known, look-alikes, and none at all.
//!
//! Each is run with names drawn at random for its variants, so that nothing but the recordings can lead to the verdict.
//! `make test-all` runs each 20 times with different seeds, of which 19 must be right. `make test` runs each once, and if
//! the verdict is wrong twice more, which must then both be right: a verdict that is right 19 times in 20 passes that in
//! all but 1 of 200 tries.

mod common;

use common::{json, pagelab, run};

struct Companion {
    plan: &'static str,
    /// Causes that must be found, in this order at the head of the list; nothing else may be found if `only`.
    found: &'static [&'static str],
    /// Causes that must not be found.
    absent: &'static [&'static str],
    only: bool,
}

fn plan(name: &str) -> String {
    format!("{}/../../experiments/thp-regression/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The causes found in one run of the plan with this seed, and the verdict on the primary metric.
fn causes(companion: &Companion, seed: u64) -> (Vec<String>, String) {
    // On a disk: one of the plans changes the read-ahead of the device that the set lies on.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let seed = seed.to_string();
    let mut command = pagelab();
    command.args(["experiment", "--json", "--seed", &seed, "--random-names", &seed, "-o"]);
    command.arg(dir.path().join("set")).arg(plan(companion.plan));
    let document = json(&run(&mut command, 0));
    let findings = document["findings"].as_array().cloned().unwrap_or_default();
    let names = findings.iter().filter_map(|finding| finding["cause"].as_str().map(str::to_owned)).collect();
    (names, format!("{} failed {}", document["primary"], document["failed_runs"]))
}

fn is_right(companion: &Companion, found: &[String]) -> bool {
    let head: Vec<&str> = found.iter().take(companion.found.len()).map(String::as_str).collect();
    let mut wanted = companion.found.to_vec();
    let mut got = head.clone();
    wanted.sort_unstable();
    got.sort_unstable();
    got == wanted
        && !companion.absent.iter().any(|cause| found.iter().any(|name| name == cause))
        && (!companion.only || found.len() == companion.found.len())
}

#[track_caller]
fn check(companion: &Companion) {
    let full = std::env::var_os("PAGELAB_TEST_FULL").is_some();
    let repetitions = if full { 20 } else { 3 };
    let mut wrong = Vec::new();
    for seed in 1..=repetitions {
        let (found, primary) = causes(companion, seed);
        if !is_right(companion, &found) {
            wrong.push(format!("seed {seed}: found {found:?}; primary {primary}"));
        } else if !full && wrong.is_empty() {
            return println!("{}: right", companion.plan);
        }
    }
    let right = repetitions as usize - wrong.len();
    println!("{}: {right} of {repetitions} right", companion.plan);
    assert!(wrong.len() <= 1, "{}: {right} of {repetitions} right\n{}", companion.plan, wrong.join("\n"));
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
    check(&Companion { plan: "companions/thp-small-pieces.toml", found: &[], absent: &["thp.disabled"], only: false });
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
