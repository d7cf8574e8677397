//! Latency compared as distributions: a tail that doubles while the middle stays is found in the tail only, from runs.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;

use std::path::PathBuf;

use pagelab_analysis::compare::{CompareOptions, Comparison, LatencyChange, compare};
use pagelab_recording::tables::LatencyRow;
use run_support::{SECOND, job, record};
use tempfile::TempDir;

/// Runs of a job in rounds: 20,000 operations each, of which 5 % are in a tail that takes `tail` times as long.
fn side(tmp: &TempDir, name: &str, runs: u64, tail: f64, operations: u64, jobs: &[&str]) -> Vec<PathBuf> {
    let run = |i: u64| {
        let mut manifest = job(0, SECOND, operations);
        manifest.variant = Some(name.to_owned());
        manifest.round = Some(i + 1);
        record(&tmp.path().join(format!("{name}-{i:02}")), manifest, |w| {
            // Every run is a little faster or slower than the others, with all of its operations.
            let level = [1.0, 1.02, 0.99, 1.01, 0.98, 1.005][i as usize % 6];
            for job in jobs {
                for part in 0..100 {
                    let slow = if part < 95 { 1.0 } else { 20.0 * tail };
                    let low = (10_000.0 * level * slow * (1.0 + f64::from(part) / 200.0)) as u64;
                    for kind in ["slat", "clat", "lat"] {
                        w.push_latency(&LatencyRow {
                            ts: SECOND,
                            job,
                            thread: None,
                            direction: "read",
                            kind,
                            low_ns: low,
                            high_ns: low + low / 64,
                            count: operations / 100,
                        });
                    }
                }
            }
        })
    };
    (0..runs).map(run).collect()
}

fn compared(base: &[PathBuf], test: &[PathBuf]) -> Comparison {
    compare(base, test, &CompareOptions { diagnose: false, ..CompareOptions::default() }).unwrap()
}

#[test]
fn a_longer_tail_shows_in_the_tail() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", 6, 1.0, 20_000, &["j"]);
    // Another order of levels, so that rounds differ by a few per cent.
    let mut test = side(&tmp, "b", 6, 2.0, 20_000, &["j"]);
    test.rotate_left(1);
    let document = compared(&base, &test);
    let found: Vec<(&str, Option<bool>)> =
        document.latency.iter().map(|one| (one.quantile.as_str(), one.significant)).collect();
    assert_eq!(found, [("p50", Some(false)), ("p90", Some(false)), ("p99", Some(true)), ("p99.9", Some(true))]);
    let p99 = &document.latency[2];
    assert_eq!((p99.instance.as_deref(), p99.kind.as_str(), p99.base.n, p99.test.n), (Some("j/read"), "lat", 6, 6));
    let [low, high] = p99.ratio_ci95.unwrap();
    assert!(low < 2.0 && 2.0 < high && high - low < 0.2, "an interval from six runs: {p99:?}");
    let family = document.families.iter().find(|family| family.name == "latency").unwrap();
    assert_eq!(family.size, 4);
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(json["latency"].as_array().unwrap().len(), 4);
    assert_eq!(serde_json::from_value::<Comparison>(json).unwrap(), document);
}

/// The same quantile as the metric that the run has had of old, and quantiles that rise.
#[test]
fn quantiles_are_those_of_the_runs() {
    let tmp = TempDir::new().unwrap();
    let (base, test) = (side(&tmp, "a", 4, 1.0, 20_000, &["j", "k"]), side(&tmp, "b", 4, 1.1, 20_000, &["j", "k"]));
    let document = compared(&base, &test);
    assert_eq!(document.latency.len(), 12, "two jobs and all together");
    let of = |instance: Option<&str>| -> Vec<&LatencyChange> {
        document.latency.iter().filter(|one| one.instance.as_deref() == instance).collect()
    };
    for instance in [None, Some("j/read"), Some("k/read")] {
        let rows = of(instance);
        let means: Vec<f64> = rows.iter().map(|one| one.base.mean.unwrap()).collect();
        assert!(means.is_sorted() && means.len() == 4, "{means:?}");
        for (place, statistic) in [(0, "p50"), (2, "p99")] {
            let metric = document.metric(&format!("load.lat_ns.{statistic}"), instance).unwrap();
            assert_eq!((metric.base.mean, metric.test.mean), (rows[place].base.mean, rows[place].test.mean));
        }
    }
}

#[test]
fn what_is_not_there_is_null_with_a_reason() {
    let tmp = TempDir::new().unwrap();
    // 2,000 operations: 2 are slower than p99.9, 20 than p99.
    let (base, test) = (side(&tmp, "a", 4, 1.0, 2_000, &["j"]), side(&tmp, "b", 4, 1.0, 2_000, &["j"]));
    let document = compared(&base, &test);
    let last = &document.latency[3];
    assert_eq!((last.quantile.as_str(), last.p, last.base.mean, last.significant), ("p99.9", None, None, None));
    assert!(last.note.as_deref().unwrap().contains("fewer than 10 operations are slower"), "{last:?}");
    assert!(document.latency[2].base.mean.is_some());
    // A side without distributions has nothing to compare.
    let bare: Vec<PathBuf> =
        (0..4).map(|i| record(&tmp.path().join(format!("c-{i}")), job(0, SECOND, 2_000), |_| {})).collect();
    let document = compared(&base, &bare);
    assert!(document.latency.is_empty() && document.families.iter().all(|family| family.name != "latency"));
}
