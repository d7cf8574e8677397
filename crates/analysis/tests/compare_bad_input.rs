//! Sides that were recorded badly, or that have little in common: each gets clear words, and no number that means nothing.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;

use std::fs;
use std::path::{Path, PathBuf};

use pagelab_analysis::compare::{CompareOptions, Comparison, Verdict, compare};
use pagelab_recording::{Exit, Manifest};
use run_support::{SECOND, command, fault, job, record, sample};
use serde_json::json;
use tempfile::TempDir;

/// Runs of a command that took these many milliseconds; `change` makes of each manifest what the test is about.
fn side(tmp: &TempDir, name: &str, ms: &[i64], change: impl Fn(&mut Manifest)) -> Vec<PathBuf> {
    let one = |(number, ms): (usize, &i64)| {
        let mut manifest = command(0, ms * 1_000_000);
        change(&mut manifest);
        record(&tmp.path().join(format!("{name}-{number}")), manifest, |writer| {
            for tenth in 0..10 {
                sample(writer, tenth * SECOND / 10, "vmstat.pgfault", (number as i64 * 3 + tenth * ms) as f64);
            }
        })
    };
    ms.iter().enumerate().map(one).collect()
}

const BASE: &[i64] = &[1000, 1010, 990, 1005];
const SLOW: &[i64] = &[1500, 1510, 1490, 1505];

fn compared(base: &[PathBuf], test: &[PathBuf]) -> Comparison {
    compare(base, test, &CompareOptions::default()).unwrap()
}

#[track_caller]
fn says(document: &Comparison, words: &[&str]) {
    for word in words {
        assert!(document.notes.iter().any(|note| note.contains(word)), "{word}: {:#?}", document.notes);
    }
}

#[test]
fn sides_of_other_hosts_and_commands_say_so() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", BASE, |_| {});
    let test = side(&tmp, "b", SLOW, |manifest| {
        manifest.host = Some("elsewhere".to_owned());
        manifest.cpus = Some(64);
        manifest.command = Some(["false", "--hard"].map(str::to_owned).to_vec());
    });
    let document = compared(&base, &test);
    says(
        &document,
        &["differ in host: h on base, elsewhere on test", "differ in command: true on base, false --hard on test"],
    );
    let of = |key: &str| document.settings.iter().find(|diff| diff.key == key);
    assert_eq!(of("command.program").unwrap().test.as_deref(), Some("false"));
    assert_eq!(document.primary.unwrap().verdict, Verdict::Worse, "it is still told");
}

#[test]
fn sides_of_other_jobs_say_so() {
    let tmp = TempDir::new().unwrap();
    let runs = |name: &str, bs: &str| -> Vec<PathBuf> {
        (0..4)
            .map(|number| {
                let given = [json!({"name": "bs", "value": bs})];
                let manifest = Manifest {
                    job: Some(json!({"jobs": [{"name": "j", "given": given}]})),
                    ..job(0, SECOND, 1000 + number)
                };
                record(&tmp.path().join(format!("{name}-{number}")), manifest, |_| {})
            })
            .collect()
    };
    let document = compared(&runs("a", "4k"), &runs("b", "64k"));
    says(&document, &["different jobs"]);
    let option = document.settings.iter().find(|diff| diff.key == "job.j.bs").unwrap();
    assert_eq!((option.base.as_deref(), option.test.as_deref()), (Some("4k"), Some("64k")));
}

/// A run of a job is counted in operations, one of a command is a whole: numbers per operation have other units.
#[test]
fn units_are_not_mixed() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", BASE, |_| {});
    let jobs: Vec<PathBuf> = (0..4)
        .map(|number| record(&tmp.path().join(format!("j-{number}")), job(0, SECOND, 1000 + number), |_| {}))
        .collect();
    let document = compared(&base, &jobs);
    let of_operations = document.metrics.iter().filter(|metric| metric.per_operation);
    assert_eq!(of_operations.map(|metric| metric.name.as_str()).collect::<Vec<_>>(), [] as [&str; 0]);
    says(&document, &["operations"]);
}

#[test]
fn runs_that_all_failed_decide_nothing_but_that() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", BASE, |_| {});
    let failed = |manifest: &mut Manifest| manifest.exit = Some(Exit { code: Some(3), ..Exit::default() });
    let document = compared(&base, &side(&tmp, "b", BASE, failed));
    assert!(document.bad_answer().unwrap().contains("all 4 test runs failed"));
    assert!(document.findings.is_empty() && document.significant().next().is_none());
    let neither = compared(&side(&tmp, "c", BASE, failed), &side(&tmp, "d", BASE, failed));
    let verdict = neither.primary.as_ref().map(|primary| primary.verdict);
    assert!(matches!(verdict, None | Some(Verdict::NotTested)), "{verdict:?}");
    assert!(neither.bad_answer().unwrap().contains("nothing was tested"), "{:?}", neither.bad_answer());
}

#[test]
fn excluded_runs_have_their_reasons_and_a_command_beside_their_number() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", BASE, |_| {});
    let mut test = side(&tmp, "b", &BASE[..3], |manifest| {
        manifest.exit = Some(Exit { code: Some(3), ..Exit::default() });
    });
    test.extend(side(&tmp, "c", &BASE[..1], |manifest| manifest.timed_out = Some(true)));
    let document = compared(&base, &test);
    let reasons = "4 of 4 test runs are excluded: exit status 3 (3 runs), cut short: timed_out (1 run); ";
    let command = format!(": pagelab show {}", test[0].display());
    says(&document, &[reasons, &command]);
    assert!(!document.notes.iter().any(|note| note.contains("base runs are excluded")), "{:?}", document.notes);
    assert_eq!(document.base.exclusions("base"), None);

    // Another metric would change nothing where no run counts.
    let neither = compared(&test, &side(&tmp, "d", BASE, |manifest| manifest.interrupted = Some(true)));
    let why = neither.no_primary.as_ref().unwrap();
    assert_eq!(why, "neither base nor test runs count");
    let bad = neither.bad_answer().unwrap();
    assert!(bad.contains("nothing was tested: 4 of 4 base runs are excluded") && !bad.contains("--metric"), "{bad}");
}

#[test]
fn what_is_not_a_number_is_no_value() {
    let tmp = TempDir::new().unwrap();
    let runs = |name: &str, value: f64| -> Vec<PathBuf> {
        (0..4)
            .map(|number| {
                record(&tmp.path().join(format!("{name}-{number}")), command(0, SECOND + number * 1000), |writer| {
                    sample(writer, 0, "meminfo.memfree_bytes", 5e9);
                    sample(writer, SECOND / 2, "meminfo.memfree_bytes", value);
                })
            })
            .collect()
    };
    for (number, value) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().enumerate() {
        let document = compared(&runs(&format!("a{number}"), 4e9), &runs(&format!("b{number}"), value));
        let text = serde_json::to_string(&document).unwrap();
        let free = document.metric("meminfo.memfree_bytes", None).unwrap();
        assert_ne!(free.significant, Some(true), "{free:#?}");
        assert!(free.test.mean.is_none_or(f64::is_finite), "{free:#?}");
        assert!(!text.contains("NaN") && !text.contains(":inf"), "{text}");
    }
}

#[test]
fn a_clock_that_jumps_moves_no_measured_time() {
    let tmp = TempDir::new().unwrap();
    let still = |jump_s: i64| {
        move |manifest: &mut Manifest| {
            manifest.clock.realtime_at_start_ns = Some(1_700_000_000 * SECOND);
            manifest.clock.realtime_at_end_ns = Some((1_700_000_000 + jump_s) * SECOND);
        }
    };
    let base = side(&tmp, "a", BASE, still(1));
    let jumped = side(&tmp, "b", SLOW, still(-7200));
    let document = compared(&base, &jumped);
    let ratio = document.primary.as_ref().unwrap().ratio.unwrap();
    assert!((1.4..1.6).contains(&ratio), "{ratio}");
    says(&document, &["clock was set back during 4 runs"]);
    // A measured time that ends before it begins is none.
    let backwards = side(&tmp, "c", &[-1000, -1010, -990, -1005], |_| {});
    let document = compared(&base, &backwards);
    assert_eq!(document.test.n, 0);
    let why = serde_json::to_string(&document.test.runs[0].excluded).unwrap();
    assert!(why.contains("end must be later"), "{why}");
}

#[test]
fn a_table_of_another_schema_is_named() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", BASE, |_| {});
    let test = side(&tmp, "b", SLOW, |_| {});
    let other = record(&tmp.path().join("other"), command(0, SECOND), |writer| fault(writer, 1, 6));
    let part = |run: &Path, table: &str| fs::read_dir(run.join(table)).unwrap().next().unwrap().unwrap().path();
    // Another table where the metrics are.
    for run in &test {
        fs::copy(part(&other, "faults"), part(run, "metrics")).unwrap();
    }
    let document = compared(&base, &test);
    let notes = &document.test.runs[0].notes;
    assert!(notes.iter().any(|note| note.contains("table metrics") && note.contains("another schema")), "{notes:?}");
    let faults = document.metric("vmstat.pgfault", None).unwrap();
    assert!(faults.test.mean.is_none() && faults.significant.is_none(), "{faults:#?}");
}
