//! The comparison of sets of runs, on recordings written by the real writer: what must hold whatever the data says.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;

use std::path::{Path, PathBuf};

use pagelab_analysis::AnalysisError;
use pagelab_analysis::compare::{
    CompareOptions, Comparison, DesignChoice, PrimaryChoice, Verdict, compare, compare_runs, load_side,
};
use pagelab_analysis::stats::Outcome;
use pagelab_recording::tables::LossRow;
use pagelab_recording::{Exit, Manifest, RecordingWriter};
use pagelab_views::run::RunData;
use pagelab_vocab::metrics::Direction;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use run_support::{SECOND, fault, job, record, sample};
use tempfile::TempDir;

/// What the runs of one side do, as factors on the ordinary.
#[derive(Clone, Copy)]
struct Behaviour {
    speed: f64,
    faults_per_op: f64,
}

const ORDINARY: Behaviour = Behaviour { speed: 1.0, faults_per_op: 1.0 };

/// Sampled metrics of one run: one second of work at about 1000 operations per second, noise of 2 %.
fn work(w: &mut RecordingWriter, behaviour: Behaviour, ops: u64, draws: &mut ChaCha8Rng) {
    let mut noisy = |value: f64| value * (1.0 + 0.02 * (draws.random::<f64>() - 0.5));
    let ops = ops as f64;
    let faults = noisy(30.0 * behaviour.faults_per_op * ops);
    let switches = noisy(2.0 * ops);
    let free = noisy(1e9);
    for tenth in 0..=12 {
        let ts = (tenth - 1) * SECOND / 10;
        let part = tenth as f64 / 10.0;
        sample(w, ts, "vmstat.pgfault", 7e6 + faults * part);
        sample(w, ts, "stat.context_switches", 5e5 + switches * part);
        sample(w, ts, "meminfo.memfree_bytes", free);
        sample(w, ts, "loadavg.1min", 1.0 + part * 100.0 * behaviour.speed);
    }
}

fn ops(behaviour: Behaviour, draws: &mut ChaCha8Rng) -> u64 {
    (1000.0 * behaviour.speed * (1.0 + 0.02 * (draws.random::<f64>() - 0.5))) as u64
}

/// Writes `n` runs of one side.
fn side(
    tmp: &TempDir,
    name: &str,
    n: u64,
    behaviour: Behaviour,
    mut more: impl FnMut(u64, &mut Manifest, &mut Vec<Extra>),
) -> Vec<PathBuf> {
    let mut draws = ChaCha8Rng::seed_from_u64(name.bytes().map(u64::from).sum());
    (0..n)
        .map(|i| {
            let done = ops(behaviour, &mut draws);
            let mut manifest = job(0, SECOND, done);
            manifest.variant = Some(name.to_owned());
            manifest.run = Some(i + 1);
            let mut extras = Vec::new();
            more(i, &mut manifest, &mut extras);
            record(&tmp.path().join(format!("{name}-{i}")), manifest, |w| {
                work(w, behaviour, done, &mut draws);
                w.push_jobs(&pagelab_recording::tables::JobsRow {
                    ts: SECOND,
                    job: "j",
                    direction: "read",
                    ios: done,
                    bytes: done * 4096,
                    runtime_ns: 1_000_000_000,
                    ..Default::default()
                });
                for extra in extras {
                    extra(w);
                }
            })
        })
        .collect()
}

type Extra = Box<dyn FnOnce(&mut RecordingWriter)>;

fn plain(tmp: &TempDir, name: &str, n: u64, behaviour: Behaviour) -> Vec<PathBuf> {
    side(tmp, name, n, behaviour, |_, _, _| {})
}

fn significant(document: &Comparison) -> Vec<&str> {
    document.significant().map(|m| m.name.as_str()).collect()
}

#[test]
fn the_keys_of_the_document_are_the_contracts_in_its_order() {
    let tmp = TempDir::new().unwrap();
    let (base, test) = (plain(&tmp, "a", 4, ORDINARY), plain(&tmp, "b", 4, ORDINARY));
    let document = compare(&base, &test, &CompareOptions::default()).unwrap();
    let text = serde_json::to_string(&document).unwrap();
    let keys = |text: &str, wanted: &[&str]| {
        let mut at = 0;
        for key in wanted {
            let found = text[at..].find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} after {at} in {text}"));
            at += found + key.len();
        }
    };
    keys(
        &text,
        &[
            "format",
            "method",
            "base",
            "label",
            "runs",
            "test",
            "label",
            "runs",
            "primary",
            "metric",
            "unit",
            "base_mean",
            "test_mean",
            "ratio",
            "ratio_ci95",
            "p",
            "families",
            "name",
            "size",
            "metrics",
            "profile",
            "settings",
            "findings",
        ],
    );
    let metric = &text[text.find("\"metrics\":[").unwrap()..];
    keys(
        metric,
        &[
            "name",
            "instance",
            "unit",
            "per_operation",
            "base",
            "n",
            "mean",
            "sd",
            "test",
            "n",
            "mean",
            "sd",
            "t",
            "df",
            "p",
            "q",
            "hedges_g",
            "ratio",
            "ratio_ci95",
            "significant",
            "note",
        ],
    );
    let back: Comparison = serde_json::from_str(&text).unwrap();
    assert_eq!(shape(&serde_json::to_value(&back).unwrap()), shape(&serde_json::to_value(&document).unwrap()));
}

/// The document without its numbers, whose last digit the JSON reader may change.
fn shape(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(_) => Value::Number(0.into()),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        other => other.clone(),
    }
}

/// A drop in throughput lowers every rate and proves nothing; more faults per operation do.
#[test]
fn counters_are_compared_per_operation() {
    let tmp = TempDir::new().unwrap();
    let base = plain(&tmp, "a", 8, ORDINARY);
    let slower = plain(&tmp, "b", 8, Behaviour { speed: 0.5, ..ORDINARY });
    let document = compare(&base, &slower, &CompareOptions::default()).unwrap();
    let primary = document.primary.as_ref().unwrap();
    assert_eq!((primary.metric.as_str(), primary.verdict), ("load.iops", Verdict::Worse));
    let [low, high] = primary.ratio_ci95.unwrap();
    assert!(low < 0.5 && 0.5 < high && high - low < 0.02, "{primary:?}");
    let faults = document.metric("vmstat.pgfault", None).unwrap();
    assert!(faults.per_operation && faults.unit == "count/op");
    assert_ne!(faults.significant, Some(true), "{faults:?}");

    let faulting = plain(&tmp, "c", 8, Behaviour { speed: 0.5, faults_per_op: 3.0 });
    let document = compare(&base, &faulting, &CompareOptions::default()).unwrap();
    let faults = document.metric("vmstat.pgfault", None).unwrap();
    assert_eq!(faults.significant, Some(true));
    let [low, high] = faults.ratio_ci95.unwrap();
    assert!(low < 3.0 && 3.0 < high, "{faults:?}");
    assert!(!significant(&document).contains(&"stat.context_switches"), "{:?}", significant(&document));
}

#[test]
fn load_averages_are_shown_and_not_tested() {
    let tmp = TempDir::new().unwrap();
    let base = plain(&tmp, "a", 5, ORDINARY);
    let test = plain(&tmp, "b", 5, Behaviour { speed: 3.0, ..ORDINARY });
    let document = compare(&base, &test, &CompareOptions::default()).unwrap();
    let load = document.metric("loadavg.1min", None).unwrap();
    assert_eq!((load.p, load.q, load.significant, load.outcome), (None, None, None, Outcome::NotTested));
    assert!(load.base.mean.unwrap() < load.test.mean.unwrap());
    let tested = document.metrics.iter().filter(|m| m.outcome == Outcome::Tested).count();
    assert_eq!(document.families[0].size, tested, "the primary and what is not tested are not in the family");
    assert!(document.metric("load.iops", None).is_none(), "the primary is tested alone");
}

#[test]
fn the_filter_of_the_list_does_not_shrink_the_family() {
    let tmp = TempDir::new().unwrap();
    let (base, test) = (plain(&tmp, "a", 5, ORDINARY), plain(&tmp, "b", 5, ORDINARY));
    let all = compare(&base, &test, &CompareOptions::default()).unwrap();
    let show = vec!["vmstat.*".to_owned()];
    let some = compare(&base, &test, &CompareOptions { show, ..CompareOptions::default() }).unwrap();
    assert_eq!(some.families, all.families);
    assert_eq!(some.metrics.len(), 1);
    assert_eq!(some.metric("vmstat.pgfault", None), all.metric("vmstat.pgfault", None));
    let show = vec!["vmstat.pgfalut".to_owned()];
    let unknown = compare(&base, &test, &CompareOptions { show, ..CompareOptions::default() });
    let Err(AnalysisError::UnknownMetric { nearest, .. }) = unknown else { panic!("{unknown:?}") };
    assert_eq!(nearest.as_deref(), Some("vmstat.pgfault"));
}

#[test]
fn a_metric_of_one_side_is_null_on_the_other_with_a_reason() {
    let tmp = TempDir::new().unwrap();
    let base = plain(&tmp, "a", 4, ORDINARY);
    let test = side(&tmp, "b", 4, ORDINARY, |i, _, extras| {
        extras.push(Box::new(move |w| {
            sample(w, 0, "disk.reads", 1.0);
            sample(w, SECOND, "disk.reads", 20.0 + i as f64);
            if i == 0 {
                sample(w, 0, "net.rx_bytes", 1.0);
                sample(w, SECOND, "net.rx_bytes", 9.0);
            }
        }));
    });
    let document = compare(&base, &test, &CompareOptions::default()).unwrap();
    let reads = document.metric("disk.reads", None).unwrap();
    assert_eq!((reads.base.n, reads.base.mean, reads.p, reads.significant), (0, None, None, None));
    assert_eq!(reads.test.n, 4);
    assert!(reads.note.as_deref().unwrap().contains("0 of 4 base runs"), "{reads:?}");
    let rx = document.metric("net.rx_bytes", None).unwrap();
    assert_eq!(rx.p, None);
}

#[test]
fn constant_and_different_is_reported_outside_the_family() {
    let tmp = TempDir::new().unwrap();
    let level = |value: f64| {
        move |_: u64, _: &mut Manifest, extras: &mut Vec<Extra>| {
            extras.push(Box::new(move |w: &mut RecordingWriter| {
                sample(w, -1, "meminfo.hugepages_total", value);
                sample(w, 2 * SECOND, "meminfo.hugepages_total", value);
            }));
        }
    };
    let base = side(&tmp, "a", 4, ORDINARY, level(0.0));
    let test = side(&tmp, "b", 4, ORDINARY, level(64.0));
    let document = compare(&base, &test, &CompareOptions::default()).unwrap();
    let pool = document.metric("meminfo.hugepages_total", None).unwrap();
    assert_eq!((pool.outcome, pool.p, pool.q), (Outcome::DeterministicDifference, None, None));
    assert!(pool.note.as_deref().unwrap().contains("deterministic_difference"));
}

#[test]
fn what_loss_could_explain_is_not_concluded() {
    let tmp = TempDir::new().unwrap();
    let faults = |each: i64, lost: u64| {
        move |i: u64, _: &mut Manifest, extras: &mut Vec<Extra>| {
            extras.push(Box::new(move |w: &mut RecordingWriter| {
                (0..each + i as i64).for_each(|k| fault(w, k, 6));
                w.push_loss(&LossRow { ts: 1, stream: "faults", cpu: None, seen: 1000, lost, filtered: 0 });
            }));
        }
    };
    let base = side(&tmp, "a", 5, ORDINARY, faults(1000, 0));
    let kept = side(&tmp, "b", 5, ORDINARY, faults(500, 1));
    let lossy = side(&tmp, "c", 5, ORDINARY, faults(500, 2));
    let document = compare(&base, &kept, &CompareOptions::default()).unwrap();
    assert_eq!(document.metric("faults.count", None).unwrap().significant, Some(true));
    let document = compare(&base, &lossy, &CompareOptions::default()).unwrap();
    let count = document.metric("faults.count", None).unwrap();
    assert_eq!((count.significant, count.q), (Some(false), None));
    assert!(count.note.as_deref().unwrap().contains("lost 0.20 %"), "{count:?}");
    assert!(document.notes.iter().any(|note| note.contains("stream faults")));
}

#[test]
fn excluded_runs_are_listed_and_count_nowhere() {
    let tmp = TempDir::new().unwrap();
    let base = plain(&tmp, "a", 5, ORDINARY);
    let fail = |i: u64, manifest: &mut Manifest, _: &mut Vec<Extra>| {
        if i == 2 {
            manifest.exit = Some(Exit { code: Some(1), ..Exit::default() });
        }
    };
    let test = side(&tmp, "b", 5, ORDINARY, fail);
    let document = compare(&base, &test, &CompareOptions::default()).unwrap();
    assert_eq!((document.test.n, document.test.runs.len()), (4, 5));
    let text = serde_json::to_value(&document.test.runs[2].excluded).unwrap();
    assert_eq!(text, serde_json::json!({"reason": "failed", "code": 1, "signal": null}));
    let without: Vec<PathBuf> = test.iter().enumerate().filter(|(i, _)| *i != 2).map(|(_, p)| p.clone()).collect();
    let clean = compare(&base, &without, &CompareOptions::default()).unwrap();
    assert_eq!(clean.metrics, document.metrics);
}

/// Rounds with the given begin of each pair of runs, in seconds; `gap` moves the test side away from the base.
fn rounds(gap: i64) -> impl FnMut(u64, &mut Manifest, &mut Vec<Extra>) {
    move |i, manifest, _| {
        manifest.round = Some(i + 1);
        manifest.clock.realtime_at_start_ns = Some((i as i64 * 10 + gap) * SECOND);
        manifest.clock.realtime_at_end_ns = Some((i as i64 * 10 + gap + 1) * SECOND);
    }
}

#[test]
fn the_method_follows_from_how_the_runs_were_made() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", 5, ORDINARY, rounds(0));
    let with = side(&tmp, "b", 5, Behaviour { speed: 0.9, ..ORDINARY }, rounds(2));
    let later = side(&tmp, "c", 5, ORDINARY, rounds(1000));
    let shifted = side(&tmp, "d", 5, ORDINARY, rounds(15));
    let of = |test: &[PathBuf], options: &CompareOptions| compare(&base, test, options).unwrap();
    let paired = of(&with, &CompareOptions::default());
    assert_eq!(paired.method.word(), "paired_blocks");
    let primary = paired.primary.as_ref().unwrap();
    assert_eq!((primary.result.rounds, primary.result.df), (Some(5), Some(4.0)));
    assert!(primary.result.welch.is_some(), "Welch's test is printed for both");
    for other in [&later, &shifted] {
        let document = of(other, &CompareOptions::default());
        assert_eq!(document.method.word(), "welch");
        assert!(document.notes.iter().any(|n| n.contains("not made together")), "{:?}", document.notes);
    }
    assert_eq!(of(&with[..4], &CompareOptions::default()).method.word(), "welch", "a round without its other half");
    let unpaired = CompareOptions { design: DesignChoice::Unpaired, ..CompareOptions::default() };
    assert_eq!(of(&with, &unpaired).method.word(), "welch");
}

/// A failed run takes its round out of the paired test, but does not change the design.
#[test]
fn a_failed_run_costs_its_round() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", 6, ORDINARY, rounds(0));
    let mut pair = rounds(2);
    let test = side(&tmp, "b", 6, ORDINARY, |i, manifest, extras| {
        pair(i, manifest, extras);
        if i == 3 {
            manifest.exit = Some(Exit { signal: Some(9), code: None, ..Exit::default() });
        }
    });
    let document = compare(&base, &test, &CompareOptions::default()).unwrap();
    assert_eq!(document.method.word(), "paired_blocks");
    assert_eq!(document.primary.unwrap().result.rounds, Some(5));
}

#[test]
fn the_primary_is_what_was_named() {
    let tmp = TempDir::new().unwrap();
    let base = plain(&tmp, "a", 6, ORDINARY);
    let test = plain(&tmp, "b", 6, Behaviour { faults_per_op: 2.0, ..ORDINARY });
    let with = |primary| CompareOptions { primary: Some(primary), ..CompareOptions::default() };
    let less_is_better = compare(&base, &test, &with(PrimaryChoice::of("vmstat.pgfault"))).unwrap();
    assert_eq!(less_is_better.primary.as_ref().unwrap().verdict, Verdict::Worse);
    let more = PrimaryChoice { metric: "vmstat.pgfault".to_owned(), direction: Direction::HigherIsBetter };
    assert_eq!(compare(&base, &test, &with(more)).unwrap().primary.unwrap().verdict, Verdict::Better);
    assert!(less_is_better.metric("load.iops", None).is_some(), "then the default primary is one of many");
    let misspelt = compare(&base, &test, &with(PrimaryChoice::of("load.iop")));
    let text = misspelt.unwrap_err().to_string();
    assert!(text.contains("load.iop;") && text.contains("load.iops is near"), "{text}");
    assert!(PrimaryChoice::parse("load.iops", Some("up")).is_err());
}

#[test]
fn impossible_comparisons_are_refused_and_poor_ones_say_what_is_missing() {
    let tmp = TempDir::new().unwrap();
    let runs = plain(&tmp, "a", 2, ORDINARY);
    let same = compare(&runs, &runs[1..], &CompareOptions::default());
    assert!(matches!(same, Err(AnalysisError::BothSides { .. })), "{same:?}");
    assert!(matches!(compare(&runs, &[], &CompareOptions::default()), Err(AnalysisError::NoRuns { side: "test" })));
    let level = CompareOptions { alpha: 5.0, ..CompareOptions::default() };
    assert!(matches!(compare(&runs, &runs, &level), Err(AnalysisError::BadAlpha { .. })));
    let one = compare(&runs[..1], &runs[1..], &CompareOptions::default()).unwrap();
    assert_eq!(one.primary.as_ref().unwrap().verdict, Verdict::NotTested);
    assert_eq!((one.families[0].size, significant(&one).len()), (0, 0));
    assert!(one.notes.iter().any(|note| note.contains("at least 2")), "{:?}", one.notes);
}

/// Analysis may not read labels, names of variants or where a recording lies.
#[test]
fn names_have_no_say() {
    let tmp = TempDir::new().unwrap();
    let base = plain(&tmp, "a", 6, ORDINARY);
    let test = plain(&tmp, "b", 6, Behaviour { speed: 0.8, faults_per_op: 2.0 });
    let rename = |runs: &mut Vec<RunData>, label: &str| {
        for run in runs {
            run.manifest.label = Some(label.to_owned());
            run.manifest.variant = Some(format!("{label}-thp-never"));
        }
    };
    let plain_side = |paths: &[PathBuf]| load_side("base", paths).unwrap();
    let document = |mut base: Vec<RunData>, mut test: Vec<RunData>, labels: [&str; 2]| {
        rename(&mut base, labels[0]);
        rename(&mut test, labels[1]);
        let (base, test): (Vec<&RunData>, Vec<&RunData>) = (base.iter().collect(), test.iter().collect());
        let mut document = compare_runs(&base, &test, &CompareOptions::default()).unwrap();
        assert_eq!(document.base.label, labels[0]);
        document.base.label.clear();
        document.test.label.clear();
        // What is shown of the sides has their names; what is concluded has not.
        let facts = document.facts.as_mut().expect("facts");
        facts.base.variants.clear();
        facts.test.variants.clear();
        document
    };
    let good_bad = document(plain_side(&base), plain_side(&test), ["good", "bad"]);
    let bad_good = document(plain_side(&base), plain_side(&test), ["bad", "good"]);
    assert_eq!(good_bad, bad_good);
}

#[test]
fn exploratory_is_said_by_the_option_or_by_the_set() {
    let tmp = TempDir::new().unwrap();
    let (base, test) = (plain(&tmp, "a", 2, ORDINARY), plain(&tmp, "b", 2, ORDINARY));
    let said = |options: &CompareOptions| compare(&base, &test, options).unwrap().exploratory;
    assert!(!said(&CompareOptions::default()));
    assert!(said(&CompareOptions { exploratory: true, ..CompareOptions::default() }));
    set_json(tmp.path(), r#"{"format":1,"plan":null,"seed":1,"order":[],"exploratory":true}"#);
    assert!(said(&CompareOptions::default()));
}

fn set_json(dir: &Path, text: &str) {
    std::fs::write(dir.join("set.json"), text).unwrap();
}

#[test]
fn the_set_may_exclude_a_run() {
    let tmp = TempDir::new().unwrap();
    let (base, test) = (plain(&tmp, "a", 3, ORDINARY), plain(&tmp, "b", 3, ORDINARY));
    set_json(
        tmp.path(),
        r#"{"format":1,"plan":null,"seed":1,"order":[
            {"variant":"b","run":1,"round":1,"position":2,"dir":"b-0","state":"excluded","reason":"host.rebooted"},
            {"variant":"b","run":2,"round":2,"position":1,"dir":"b-1","state":"done"}]}"#,
    );
    let document = compare(&base, &test, &CompareOptions::default()).unwrap();
    assert_eq!(document.test.n, 2);
    let reason = serde_json::to_string(&document.test.runs[0].excluded).unwrap();
    assert!(reason.contains("set") && reason.contains("host.rebooted"), "{reason}");
}
