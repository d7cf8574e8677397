//! What has no better and worse is never said to be worse, and what cannot be tested is never said to be refuted.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;

use std::path::PathBuf;

use pagelab_analysis::compare::{CompareOptions, Comparison, PrimaryChoice, Verdict, compare};
use pagelab_recording::Manifest;
use pagelab_recording::tables::{JobsRow, MetricsRow};
use run_support::{SECOND, job, record, sample};
use tempfile::TempDir;

/// Runs of one second with `ops` operations, and counters with these increases in it.
fn side(
    tmp: &TempDir,
    name: &str,
    ops: &[u64],
    counters: &[(&str, Option<&str>, f64)],
    change: fn(u64, &mut Manifest),
) -> Vec<PathBuf> {
    let one = |(i, ops): (usize, &u64)| {
        let mut manifest = job(0, SECOND, *ops);
        change(i as u64, &mut manifest);
        record(&tmp.path().join(format!("{name}{i}")), manifest, |w| {
            for (ts, part) in [(0, 0.0), (SECOND, 1.0)] {
                sample(w, ts, "vmstat.nr_free_pages", *ops as f64 * 10.0);
                for (name, instance, events) in counters {
                    let value = Some(1000.0 + part * events * (1.0 + 0.002 * i as f64));
                    w.push_metrics(&MetricsRow { ts, name, instance: *instance, value });
                }
            }
            w.push_jobs(&JobsRow {
                ts: SECOND,
                job: "j",
                direction: "read",
                ios: *ops,
                bytes: ops * 4096,
                runtime_ns: 1_000_000_000,
                ..JobsRow::default()
            });
        })
    };
    ops.iter().enumerate().map(one).collect()
}

fn plain(_: u64, _: &mut Manifest) {}

fn of_metric(base: &[PathBuf], test: &[PathBuf], metric: &str) -> Comparison {
    let options = CompareOptions { primary: Some(PrimaryChoice::of(metric)), ..CompareOptions::default() };
    compare(base, test, &options).unwrap()
}

#[test]
fn a_neutral_metric_has_no_slower_side() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", &[1000, 1010, 990, 1005], &[], plain);
    let test = side(&tmp, "b", &[500, 505, 495, 502], &[], plain);
    let comparison = of_metric(&base, &test, "vmstat.nr_free_pages");
    assert_eq!(comparison.primary.as_ref().unwrap().verdict, Verdict::Different);
    assert!(comparison.findings.is_empty());
    for one in &comparison.considered {
        assert_eq!(one.outcome.word(), "not_tested");
        assert!(one.reasons[0].contains("neither way of it is better"), "{one:?}");
    }
    assert_eq!(comparison.bad_answer(), None, "different is not worse");
}

/// The program takes a quarter longer for the same work, in user mode: the tick comes as often as ever, so more often for
/// each operation. That is no symptom of interrupts, of the scheduler or of idle CPUs.
#[test]
fn what_time_drives_is_no_symptom_of_a_slowdown() {
    let tmp = TempDir::new().unwrap();
    let per_second: &[(&str, Option<&str>, f64)] = &[
        ("interrupts", Some("LOC"), 2000.0),
        ("interrupts", Some("RES"), 400.0),
        ("softirqs.timer", None, 900.0),
        ("softirqs.rcu", None, 700.0),
        ("cpu.idle_ns", None, 9e8),
        ("stat.context_switches", None, 3000.0),
        ("schedstat.schedules", None, 4000.0),
    ];
    let base = side(&tmp, "a", &[1000, 1010, 990, 1005, 995], per_second, plain);
    let test = side(&tmp, "b", &[800, 808, 792, 804, 796], per_second, plain);
    let comparison = compare(&base, &test, &CompareOptions::default()).unwrap();
    assert_eq!(comparison.primary.as_ref().unwrap().verdict, Verdict::Worse);
    let named: Vec<&str> = comparison.significant().map(|metric| metric.name.as_str()).collect();
    assert!(named.iter().all(|name| !per_second.iter().any(|(driven, ..)| driven == name)), "{named:?}");
    // Work that grew is seen in spite of that: twice the switches for each operation are more in a second too.
    let mut more = per_second.to_vec();
    more[5].2 = 4800.0;
    let busy = side(&tmp, "c", &[800, 808, 792, 804, 796], &more, plain);
    let comparison = compare(&base, &busy, &CompareOptions::default()).unwrap();
    let named: Vec<&str> = comparison.significant().map(|metric| metric.name.as_str()).collect();
    assert!(named.contains(&"stat.context_switches"), "{named:?}");
}

/// Two sets made one after the other, of different commands, on hosts of different size.
#[test]
fn what_makes_sets_hard_to_compare_is_said() {
    fn at(manifest: &mut Manifest, i: u64, gap: i64) {
        manifest.clock.realtime_at_start_ns = Some(gap + i as i64 * 10 * SECOND);
        manifest.clock.realtime_at_end_ns = Some(gap + (i as i64 * 10 + 1) * SECOND);
    }
    fn earlier(i: u64, manifest: &mut Manifest) {
        at(manifest, i, 0);
        manifest.cpus = Some(2);
    }
    fn later(i: u64, manifest: &mut Manifest) {
        at(manifest, i, 1000 * SECOND);
        manifest.cpus = Some(64);
    }
    fn between(i: u64, manifest: &mut Manifest) {
        at(manifest, i, 5 * SECOND);
        manifest.cpus = Some(2);
    }
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", &[1000, 1010, 990, 1005], &[], earlier);
    let test = side(&tmp, "b", &[1000, 1011, 991, 1005], &[], later);
    let comparison = compare(&base, &test, &CompareOptions::default()).unwrap();
    let has = |comparison: &Comparison, text: &str| comparison.notes.iter().any(|note| note.contains(text));
    assert!(has(&comparison, "a slow phase of the machine"), "{:?}", comparison.notes);
    assert!(has(&comparison, "number of CPUs: 2 on base, 64 on test"));
    assert!(has(&comparison, "runs were not interleaved; drift is not cancelled"));
    assert!(has(&comparison, "in four cases of five"), "the power is said: {:?}", comparison.notes);
    let interleaved = side(&tmp, "c", &[1000, 1011, 991, 1005], &[], between);
    let comparison = compare(&base, &interleaved, &CompareOptions::default()).unwrap();
    assert!(!has(&comparison, "a slow phase of the machine"));
}
