//! SQL over recordings: a query sees the rows written, and every mistake has one clear message.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use crate::run_support::{SECOND, fault, job, record, sample};
use pagelab_recording::tables::{MappingsRow, SyscallsRow};
use pagelab_sql::{Format, QueryOptions, query, query_with};
use serde_json::{Value, json};
use tempfile::TempDir;

fn text(dirs: &[PathBuf], sql: &str, format: Format) -> String {
    let mut out = Vec::new();
    query(dirs, sql, format, &mut out).unwrap_or_else(|e| panic!("{sql}: {e}"));
    String::from_utf8(out).unwrap()
}

fn rows(dirs: &[PathBuf], sql: &str) -> Value {
    serde_json::from_str(&text(dirs, sql, Format::Json)).unwrap()
}

fn error(dirs: &[PathBuf], sql: &str) -> String {
    query(dirs, sql, Format::Json, &mut Vec::new()).unwrap_err().to_string()
}

/// A set of two variants with two runs each; run k of variant b has 100 + k faults, of variant a 10 + k.
fn set(tmp: &TempDir) -> PathBuf {
    for (variant, faults) in [("a", 10), ("b", 100)] {
        for run in [1, 2] {
            let dir = tmp.path().join(format!("set/variant={variant}/run=00{run}"));
            std::fs::create_dir_all(dir.parent().unwrap()).unwrap();
            let mut manifest = job(0, SECOND, 1);
            manifest.kernel = Some("6.18.0".to_owned());
            record(&dir, manifest, |w| {
                (0..faults + run).for_each(|i| fault(w, i, if i % 2 == 0 { 6 } else { 4 }));
                sample(w, 1, "vmstat.pgfault", 1.5);
                sample(w, 2, "vmstat.pgfault", None);
            });
        }
    }
    tmp.path().join("set")
}

#[test]
fn counts_are_those_of_the_rows_written() {
    let tmp = TempDir::new().unwrap();
    let set = [set(&tmp)];
    assert_eq!(
        rows(&set, "SELECT variant, run, count(*) AS n FROM faults GROUP BY variant, run ORDER BY variant, run"),
        json!([
            {"variant": "a", "run": 1, "n": 11}, {"variant": "a", "run": 2, "n": 12},
            {"variant": "b", "run": 1, "n": 101}, {"variant": "b", "run": 2, "n": 102}])
    );
    assert_eq!(
        rows(
            &set,
            "SELECT count(*) AS n, min(ts) AS first, max(ts) AS last FROM faults WHERE variant = 'b' AND error_code = 6"
        ),
        json!([{"n": 102, "first": 0, "last": 100}])
    );
    assert_eq!(
        rows(
            &set,
            "SELECT r.kernel, sum(m.value) AS s FROM metrics m JOIN runs r ON m.variant = r.variant AND m.run = r.run
                    WHERE m.name LIKE 'vmstat.%' GROUP BY r.kernel"
        ),
        json!([{"kernel": "6.18.0", "s": 6.0}])
    );
}

/// Addresses are unsigned and literals signed; their quotient was a decimal with fractions, of which there were as many
/// as addresses.
#[test]
fn a_quotient_of_integers_is_an_integer() {
    let tmp = TempDir::new().unwrap();
    let dir = tmp.path().join("rec");
    record(&dir, job(0, SECOND, 1), |w| (0..64).for_each(|i| fault(w, i, 6)));
    let by_shift =
        rows(std::slice::from_ref(&dir), "SELECT count(DISTINCT addr >> 12) AS n, max(addr >> 12) AS last FROM faults");
    let by_slash = rows(
        std::slice::from_ref(&dir),
        "SELECT count(DISTINCT addr / 4096) AS n, max(addr / (2 * 2048)) AS last FROM faults",
    );
    assert_eq!(by_slash, by_shift);
    let types = "SELECT arrow_typeof(addr / 4096) AS a, arrow_typeof(addr % 4096) AS b, arrow_typeof(ts / 2) AS c, \
                 arrow_typeof(addr / 2.0) AS d, arrow_typeof(ts / addr) AS e FROM faults LIMIT 1";
    let found = rows(std::slice::from_ref(&dir), types);
    assert_eq!(found, json!([{"a": "UInt64", "b": "UInt64", "c": "Int64", "d": "Float64", "e": "Int64"}]));
    assert_eq!(
        rows(std::slice::from_ref(&dir), "SELECT sum(addr % 4096) AS n FROM faults WHERE addr % 4096 = 0"),
        json!([{"n": 0}])
    );
    let negative = error(&[dir], "SELECT addr / -1 FROM faults");
    assert!(negative.contains("-1"), "{negative}");
}

/// A chain is as deep as it is long, and the engine walks it recursively: 4,000 links ended the program.
#[test]
fn a_long_query_is_answered_or_refused_in_words() {
    let tmp = TempDir::new().unwrap();
    let dir = tmp.path().join("rec");
    record(&dir, job(0, SECOND, 1), |w| fault(w, 0, 6));
    let chain = |links: usize| format!("SELECT count(*) AS n FROM faults WHERE ts = -1{}", " OR ts = 0".repeat(links));
    assert_eq!(rows(std::slice::from_ref(&dir), &chain(4_000)), json!([{"n": 1}]));
    let refused = error(std::slice::from_ref(&dir), &chain(10_000));
    assert!(refused.contains("20000") && refused.contains("IN (...)"), "{refused}");
    let nested = format!("SELECT {}1{} AS n", "(".repeat(6_000), ")".repeat(6_000));
    assert!(error(&[dir], &nested).contains("recursion"), "the parser has a limit of its own");
}

/// What the path says gives way to the manifest, and a lone recording has its place from there alone.
#[test]
fn the_manifest_wins_over_the_path() {
    let tmp = TempDir::new().unwrap();
    let dir = tmp.path().join("variant=path/run=7");
    std::fs::create_dir_all(dir.parent().unwrap()).unwrap();
    let mut manifest = job(0, 1, 1);
    manifest.variant = Some("manifest".to_owned());
    record(&dir, manifest, |w| fault(w, 1, 6));
    let lone = tmp.path().join("lone");
    let mut manifest = job(0, 1, 1);
    manifest.run = Some(3);
    record(&lone, manifest, |w| fault(w, 1, 6));
    assert_eq!(
        rows(&[dir, lone], "SELECT host, variant, run FROM faults ORDER BY run"),
        json!([{"host": "h", "variant": null, "run": 3}, {"host": "h", "variant": "manifest", "run": 7}])
    );
}

#[test]
fn every_table_of_the_registry_is_there_and_missing_ones_are_empty() {
    let tmp = TempDir::new().unwrap();
    let dirs = [record(&tmp.path().join("r"), job(0, 1, 1), |w| fault(w, 1, 6))];
    for table in pagelab_recording::tables::all() {
        let found = rows(&dirs, &format!("SELECT * FROM {}", table.name));
        let wanted = usize::from(table.name == "faults");
        assert_eq!(found.as_array().unwrap().len(), wanted, "{}", table.name);
        let counted = rows(&dirs, &format!("SELECT count(*) AS n FROM {}", table.name));
        assert_eq!(counted, json!([{"n": wanted}]), "{}", table.name);
    }
    let fault = &rows(&dirs, "SELECT * FROM faults")[0];
    assert_eq!((&fault["addr"], &fault["major"], &fault["mapping_id"]), (&json!(4096), &Value::Null, &Value::Null));
}

#[test]
fn paths_are_text_and_lists_survive() {
    let tmp = TempDir::new().unwrap();
    let dirs = [record(&tmp.path().join("r"), job(0, 1, 1), |w| {
        let row = MappingsRow { op: "mmap", kind: "call", path: Some(b"/lib/\xff.so"), ..MappingsRow::default() };
        w.push_mappings(&row);
        w.push_syscalls(&SyscallsRow { name: "read", args: [1, 2, 3, 4, 5, u64::MAX], ..SyscallsRow::default() });
    })];
    let found = rows(&dirs, "SELECT path FROM mappings WHERE path LIKE '/lib/%.so'");
    assert_eq!(found, json!([{"path": "/lib/\u{fffd}.so"}]));
    assert_eq!(rows(&dirs, "SELECT args FROM syscalls"), json!([{"args": [1, 2, 3, 4, 5, u64::MAX]}]));
    assert_eq!(rows(&dirs, "SELECT args[2] AS a FROM syscalls"), json!([{"a": 2}]));
}

#[test]
fn formats_say_the_same() {
    let tmp = TempDir::new().unwrap();
    let set = [set(&tmp)];
    let sql = "SELECT variant, run, count(*) AS n FROM faults GROUP BY variant, run ORDER BY variant, run";
    assert_eq!(text(&set, sql, Format::Csv), "variant,run,n\na,1,11\na,2,12\nb,1,101\nb,2,102\n");
    let table = text(&set, sql, Format::Table);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "variant  run    n");
    assert_eq!(lines[5], "b          2  102");
    let mut out = Vec::new();
    assert_eq!(query(&set, sql, Format::Parquet, &mut out).unwrap(), 4);
    assert_eq!((&out[..4], &out[out.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
    let quoted = text(&set, "SELECT 'a,\"b\"' AS x, NULL AS y", Format::Csv);
    assert_eq!(quoted, "x,y\n\"a,\"\"b\"\"\",\n");
    assert_eq!(text(&set, "SELECT ts FROM faults WHERE false", Format::Json), "[]\n");
    assert_eq!(text(&set, "SELECT ts FROM faults WHERE false", Format::Csv), "ts\n");
}

#[test]
fn mistakes_are_named_with_what_there_is() {
    let tmp = TempDir::new().unwrap();
    let set = [set(&tmp)];
    let table = error(&set, "SELECT * FROM fault");
    assert!(
        table.contains("no table fault") && table.contains("did you mean 'faults'?") && table.contains("mappings"),
        "{table}"
    );
    let column = error(&set, "SELECT adr FROM faults");
    assert!(
        column.contains("no column adr") && column.contains("did you mean 'addr'?") && column.contains("error_code"),
        "{column}"
    );
    let elsewhere = error(&set, "SELECT comm FROM faults");
    assert!(elsewhere.contains("tables that have it: tasks"), "{elsewhere}");
    let syntax = error(&set, "SELEC 1");
    assert!(syntax.contains("no SQL") && syntax.contains("SELEC 1"), "{syntax}");
    let nothing = error(&[tmp.path().join("nothing")], "SELECT 1");
    assert!(nothing.contains("no such path") && nothing.contains("/nothing;"), "{nothing}");
    let url = error(&[PathBuf::from("s3://bucket/set")], "SELECT 1");
    assert!(url.contains("s3://bucket/set") && url.contains("local directories only"), "{url}");
    assert!("xml".parse::<Format>().unwrap_err().to_string().contains("parquet"));
}

/// A query reads; it must not be able to write a file or change the tables.
#[test]
fn a_query_cannot_write() {
    let tmp = TempDir::new().unwrap();
    let set = [set(&tmp)];
    let target = tmp.path().join("stolen.csv");
    for sql in [
        format!("COPY (SELECT 1) TO '{}'", target.display()),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'", target.display()),
        "CREATE TABLE t AS SELECT 1".to_owned(),
        "INSERT INTO faults SELECT * FROM faults".to_owned(),
        "DROP TABLE faults".to_owned(),
        "SET datafusion.execution.batch_size = 1".to_owned(),
    ] {
        let message = error(&set, &sql);
        assert!(message.contains("may only read"), "{sql}: {message}");
    }
    assert!(!target.exists());
}

/// A part that cannot be read fails the query: an answer from fewer rows would look like an answer.
#[test]
fn a_damaged_part_is_named() {
    let tmp = TempDir::new().unwrap();
    let set = [set(&tmp)];
    let part = damage(&set[0].join("variant=b/run=002/faults"));
    let message = error(&set, "SELECT count(addr) AS n FROM faults");
    assert!(message.contains(&part.display().to_string()), "{message}");
    assert!(message.contains("pagelab check"), "{message}");
}

fn damage(folder: &Path) -> PathBuf {
    let parts = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let part = parts.into_iter().find(|p| p.extension().is_some_and(|e| e == "parquet")).unwrap();
    let bytes = std::fs::read(&part).unwrap();
    std::fs::write(&part, &bytes[..bytes.len() - 20]).unwrap();
    part
}

/// A sort that does not fit into the memory allowed spills, and takes its files away again.
#[test]
fn a_large_sort_spills() {
    let tmp = TempDir::new().unwrap();
    let dirs = [record(&tmp.path().join("r"), job(0, 1, 1), |w| {
        (0..1_500_000).for_each(|i| fault(w, (i * 7919) % 1_500_007, 6));
    })];
    let spill = tmp.path().join("spill");
    std::fs::create_dir(&spill).unwrap();
    let options = QueryOptions {
        memory_bytes: 8 << 20,
        spill_dir: Some(spill.clone()),
        threads: Some(2),
        ..QueryOptions::default()
    };
    let mut out = Vec::new();
    let sql = "SELECT ts, addr, ip, error_code FROM faults ORDER BY ts DESC, addr";
    let rows = query_with(&dirs, sql, Format::Csv, &mut out, &options).unwrap();
    assert_eq!(rows, 1_500_000);
    let text = String::from_utf8(out).unwrap();
    let times: Vec<i64> = text.lines().skip(1).map(|l| l.split(',').next().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b));
    assert_eq!(std::fs::read_dir(&spill).unwrap().count(), 0, "spilled files are left");
}
