//! How SQL reads: exactly the catalogued files, only the row groups and columns that a filter leaves, and past damage
//! that shows while a query runs.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use crate::run_support::{SECOND, fault, job, record, sample};
use pagelab_recording::tables::FaultsRow;
use pagelab_recording::{Bound, Bounds, Probe, ProbeState, Recording, RecordingWriter};
use pagelab_sql::{Answer, Format, QueryOptions, answer, query_with};
use serde_json::{Value, json};
use tempfile::TempDir;

fn ask(dirs: &[PathBuf], sql: &str, options: &QueryOptions) -> (Value, Answer) {
    let mut out = Vec::new();
    let answer = answer(dirs, sql, Format::Json, &mut out, options).unwrap_or_else(|e| panic!("{sql}: {e}"));
    (serde_json::from_slice(&out).unwrap(), answer)
}

fn rows(dirs: &[PathBuf], sql: &str) -> Value {
    ask(dirs, sql, &QueryOptions::default()).0
}

/// The plan of a query and, after `analyze`, what its scans did.
fn plan(dirs: &[PathBuf], explain: &str, sql: &str, options: &QueryOptions) -> String {
    ask(dirs, &format!("{explain} {sql}"), options).0.to_string()
}

/// A number that the plan gives under `name=`.
fn metric(plan: &str, name: &str) -> u64 {
    let (_, value) = plan.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name} in {plan}"));
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Faults whose time, in microseconds, is their number; each half million is a mapping of its own.
fn many(dir: &Path, faults: i64) -> PathBuf {
    record(dir, job(0, SECOND, 1), |w| {
        for i in 0..faults {
            let (ts, addr) = (i * 1000, (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mapping_id = Some((i / 500_000) as u32);
            w.push_faults(&FaultsRow { ts, task_id: 1, mm_id: 1, addr, ip: addr, mapping_id, ..FaultsRow::default() });
        }
    })
}

fn parts(dir: &Path, table: &str) -> Vec<PathBuf> {
    Recording::open(dir).unwrap().parts(table).unwrap()
}

fn flip(part: &Path, at: usize) {
    let mut bytes = std::fs::read(part).unwrap();
    bytes[at] ^= 0xff;
    std::fs::write(part, bytes).unwrap();
}

#[test]
fn filters_and_projections_reach_the_scan() {
    let tmp = TempDir::new().unwrap();
    let dirs = [many(&tmp.path().join("r"), 400_000)];
    let sql = "SELECT max(addr) AS a FROM faults WHERE ts >= 50000000 AND ts < 60000000 AND mapping_id = 0";
    let options = QueryOptions::default();
    let planned = plan(&dirs, "EXPLAIN", sql, &options);
    for pushed in ["predicate=", "ts@0 >= 50000000", "mapping_id@8 = 0", "pruning_predicate=", "projection=[addr]"] {
        assert!(planned.contains(pushed), "{pushed}: {planned}");
    }
    assert!(!planned.contains("FilterExec"), "the scan filters exactly: {planned}");
    let ran = plan(&dirs, "EXPLAIN ANALYZE", sql, &options);
    let all_groups = metric(&ran, "row_groups_pruned_statistics");
    let read_groups = metric(&ran.replacen("total \u{2192} ", "read=", 1), "read");
    assert!(read_groups >= 1 && read_groups * 5 < all_groups, "{read_groups} of {all_groups}: {ran}");
    let (_, some) = ask(&dirs, sql, &options);
    let (_, all) = ask(&dirs, "SELECT sum(ts % 2 + addr % 2 + ip % 2) AS n FROM faults", &options);
    assert!(some.bytes_scanned * 10 < all.bytes_scanned, "{} of {} bytes", some.bytes_scanned, all.bytes_scanned);
}

/// A filter on the columns that say where a row is from, on text made of bytes, and on what a recording lacks.
#[test]
fn filters_mean_the_same_in_the_scan() {
    let tmp = TempDir::new().unwrap();
    let mut dirs = Vec::new();
    for (run, count) in [(1, 10), (2, 20)] {
        let mut manifest = job(0, SECOND, 1);
        (manifest.variant, manifest.run) = ((run == 2).then(|| "b".to_owned()), Some(run));
        dirs.push(record(&tmp.path().join(format!("r{run}")), manifest, |w| {
            (0..count).for_each(|i| fault(w, i, 6));
        }));
    }
    let count = |filter: &str| rows(&dirs, &format!("SELECT count(*) AS n FROM faults WHERE {filter}"))[0]["n"].clone();
    assert_eq!(count("run = 2"), 20);
    assert_eq!(count("variant IS NULL"), 10);
    assert_eq!(count("variant = 'b' OR ts < 5"), 25);
    assert_eq!(count("variant = 'b' AND ts < 5"), 5);
    assert_eq!(count("host = 'h' AND host LIKE 'h%'"), 30);
    assert_eq!(count("mapping_id IS NULL AND got IS NULL"), 30);
    assert_eq!(count("mapping_id = 1 OR got = 'new'"), 0);
    assert_eq!(rows(&dirs, "SELECT min(ts) AS a, max(ts) AS b FROM faults"), json!([{"a": 0, "b": 19}]));
}

/// `--from` and `--to` are other times in each recording.
#[test]
fn a_span_is_that_of_each_recording() {
    let tmp = TempDir::new().unwrap();
    let dirs: Vec<PathBuf> = [0, 1000]
        .map(|start| {
            let mut manifest = job(start, SECOND, 1);
            manifest.clock.start_ns = start;
            record(&tmp.path().join(start.to_string()), manifest, |w| {
                (0..100).for_each(|i| fault(w, start + i, 6));
                sample(w, start, "m", 1.0);
            })
        })
        .into();
    let second = |ns: i64| Some(Bound::SinceStart(ns));
    let options = QueryOptions { bounds: Bounds { from: second(10), to: second(30) }, ..QueryOptions::default() };
    let (found, _) = ask(&dirs, "SELECT count(*) AS n, min(ts) AS a, max(ts) AS b FROM faults", &options);
    assert_eq!(found, json!([{"n": 40, "a": 10, "b": 1029}]));
    let (found, _) = ask(&dirs, "SELECT addr FROM faults WHERE ts % 2 = 0 LIMIT 100", &options);
    assert_eq!(found.as_array().unwrap().len(), 20);
}

/// A part whose bytes have changed and whose footer has not: only the scan can find it.
#[test]
fn a_part_that_fails_in_mid_query_is_left_out_and_named() {
    let tmp = TempDir::new().unwrap();
    let dirs = [1, 2, 3].map(|run| {
        let mut manifest = job(0, SECOND, 1);
        manifest.run = Some(run);
        record(&tmp.path().join(format!("r{run}")), manifest, |w| (0..1000).for_each(|i| fault(w, i, 6)))
    });
    let damaged = [&parts(&dirs[0], "faults")[0], &parts(&dirs[2], "faults")[0]];
    // The first column chunk, that of ts, begins behind the magic number.
    for part in damaged {
        flip(part, 60);
    }
    let sql = "SELECT run, count(ts) AS n, max(ts) AS last FROM faults GROUP BY run";
    let (found, answer) = ask(&dirs, sql, &QueryOptions::default());
    assert_eq!(found, json!([{"run": 2, "n": 1000, "last": 999}]));
    assert_eq!(answer.left_out.len(), 2, "both are found in one further run: {:?}", answer.left_out);
    for part in damaged {
        assert!(answer.left_out.iter().any(|line| line.contains(&part.display().to_string())), "{answer:?}");
    }
    assert!(answer.left_out[0].contains("checksum"), "{answer:?}");
    // Without the option for readable parts it is an error.
    let refused = query_with(&dirs, sql, Format::Json, &mut Vec::new(), &QueryOptions::default());
    let message = refused.unwrap_err().to_string();
    assert!(damaged.iter().any(|part| message.contains(&part.display().to_string())), "{message}");
    // Columns that are not damaged are read.
    let (found, answer) = ask(&dirs, "SELECT count(addr) AS n FROM faults", &QueryOptions::default());
    assert_eq!((found, answer.left_out), (json!([{"n": 3000}]), Vec::new()));
}

/// A damaged footer is found before the query runs.
#[test]
fn a_part_without_a_footer_is_left_out_and_named() {
    let tmp = TempDir::new().unwrap();
    let dirs = [1, 2].map(|run| record(&tmp.path().join(format!("r{run}")), job(0, SECOND, 1), |w| fault(w, run, 6)));
    let part = parts(&dirs[0], "faults").remove(0);
    let bytes = std::fs::read(&part).unwrap();
    std::fs::write(&part, &bytes[..bytes.len() - 20]).unwrap();
    let (found, answer) = ask(&dirs, "SELECT ts FROM faults", &QueryOptions::default());
    assert_eq!(found, json!([{"ts": 2}]));
    assert!(answer.left_out[0].contains(&part.display().to_string()), "{answer:?}");
}

#[test]
fn coverage_tells_none_from_not_recorded() {
    let tmp = TempDir::new().unwrap();
    let recorded = |name: &str, state: Option<ProbeState>, fill: fn(&mut RecordingWriter)| {
        let mut manifest = job(0, SECOND, 1);
        manifest.label = Some(name.to_owned());
        let probe =
            |state| Probe { name: "faults".to_owned(), state, reason: Some("why".to_owned()), ..Probe::default() };
        manifest.probes = state.map(probe).into_iter().collect();
        record(&tmp.path().join(name), manifest, fill)
    };
    let dirs = [
        recorded("none", Some(ProbeState::Active), |_| ()),
        recorded("refused", Some(ProbeState::Refused), |_| ()),
        recorded("not-asked", None, |_| ()),
        recorded("imported", None, |w| fault(w, 1, 6)),
    ];
    for (run, dir) in (1..).zip(&dirs) {
        let path = dir.join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        manifest["run"] = json!(run);
        std::fs::write(path, manifest.to_string()).unwrap();
    }
    let sql = "SELECT c.run, c.state, CASE WHEN c.state = 'active' THEN coalesce(f.n, 0) END AS n FROM coverage c \
               LEFT JOIN (SELECT run, count(*) AS n FROM faults GROUP BY run) f ON c.run = f.run \
               WHERE c.stream = 'faults' ORDER BY c.run";
    let expected = json!([
        {"run": 1, "state": "active", "n": 0}, {"run": 2, "state": "refused", "n": null},
        {"run": 3, "state": "absent", "n": null}, {"run": 4, "state": "active", "n": 1}]);
    assert_eq!(rows(&dirs, sql), expected);
    let why = rows(&dirs, "SELECT reason, table_name FROM coverage WHERE state = 'refused'");
    assert_eq!(why, json!([{"reason": "why", "table_name": "faults"}]));
}

#[test]
fn an_aggregation_beyond_the_memory_spills() {
    let tmp = TempDir::new().unwrap();
    let dirs = [many(&tmp.path().join("r"), 1_500_000)];
    let spill = tmp.path().join("spill");
    std::fs::create_dir(&spill).unwrap();
    let sql = "SELECT count(*) AS groups, sum(n) AS faults FROM (SELECT addr, count(*) AS n FROM faults GROUP BY addr)";
    let options = |memory_bytes| QueryOptions {
        memory_bytes,
        spill_dir: Some(spill.clone()),
        threads: Some(2),
        ..QueryOptions::default()
    };
    let spilled = |options: &QueryOptions| {
        let ran = plan(&dirs, "EXPLAIN ANALYZE", sql, options);
        ran.match_indices("spill_count=").map(|(at, _)| metric(&ran[at..], "spill_count")).sum::<u64>()
    };
    let (small, large) = (options(24 << 20), options(512 << 20));
    assert!(spilled(&small) > 0);
    assert_eq!(spilled(&large), 0);
    let expected = json!([{"groups": 1_500_000, "faults": 1_500_000}]);
    assert_eq!(ask(&dirs, sql, &small).0, expected);
    assert_eq!(std::fs::read_dir(&spill).unwrap().count(), 0, "spilled files are left");
}
