//! docs/dataframes.md, word for word: its commands make a recording and a set, its blocks of Python read them, and
//! their results equal those of `pagelab query`. polars once refused a set, because files of one table differed in
//! their columns.

use crate::common;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{binary, json, pagelab, run, scratch};
use serde_json::{Value, json};

/// What stands for the reader's program: it is busy for some samples, and runs a program whose name is not UTF-8.
const PROGRAM: &str = "#!/bin/sh
i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done
\"$(printf './odd\\377.so')\"
";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of the page that are marked as of this language.
fn blocks(language: &str) -> Vec<String> {
    let page = fs::read_to_string(workspace().join("docs/dataframes.md")).expect("the page");
    let begin = format!("```{language}\n");
    let rest = page.split(&begin).skip(1).map(|text| text.split("```").next().expect("it ends").to_owned());
    let found: Vec<String> = rest.collect();
    assert!(!found.is_empty(), "the page has no {language}");
    found
}

/// The place where `make setup-test` puts what reads Parquet.
fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let path = target.join("dataframes/bin/python");
    assert!(path.is_file(), "{} is not there; type: tools/install-venv dataframes", path.display());
    path
}

/// Carries out the page's commands in `dir`.
fn make_recordings(dir: &Path) {
    let program = dir.join("your-program");
    fs::write(&program, PROGRAM).expect("scratch");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"odd\xff.so");
    fs::copy("/bin/true", dir.join(odd)).expect("a program");
    let programs = dir.join("bin");
    fs::create_dir(&programs).expect("scratch");
    symlink(binary(), programs.join("pagelab")).expect("scratch");
    let path = std::env::var("PATH").expect("a search path");
    for line in blocks("sh").iter().flat_map(|block| block.lines()) {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(dir).env("PATH", format!("{}:{path}", programs.display()));
        run(&mut command, 0);
    }
}

/// What the blocks find: they run in one program after another, as they stand on the page.
fn frames(dir: &Path) -> Value {
    let mut script = blocks("python").join("\n");
    script.push_str(include_str!("dataframes.py"));
    let path = dir.join("page.py");
    fs::write(&path, script).expect("scratch");
    json(&run(Command::new(python()).arg(&path).current_dir(dir), 0))
}

/// The rows of a query, as lists of the columns' values.
fn query(recordings: &Path, columns: &[&str], sql: &str) -> Value {
    let rows = json(&run(pagelab().arg("query").arg(recordings).args([sql, "--format", "json"]), 0));
    let row = |row: &Value| columns.iter().map(|column| row[*column].clone()).collect::<Value>();
    rows.as_array().expect("rows").iter().map(row).collect()
}

/// The one column of a query.
fn column(recordings: &Path, name: &str, sql: &str) -> Value {
    let rows = query(recordings, &[name], sql);
    rows.as_array().expect("rows").iter().map(|row| row[0].clone()).collect()
}

#[test]
fn the_page_finds_what_a_query_finds() {
    // Asked for first: without it a minute of recording would be in vain.
    python();
    let dir = scratch();
    make_recordings(dir.path());
    let (lone, set) = (dir.path().join("run.rec"), dir.path().join("set"));
    let found = frames(dir.path());
    let same = |what: &str, wanted: &Value| {
        assert!(wanted.as_array().is_none_or(|rows| !rows.is_empty()), "{what}: a query finds nothing");
        for (program, value) in found[what].as_object().expect("by program") {
            assert_eq!(value, wanted, "{what} in {program}");
        }
    };

    let texts = query(&lone, &["file_id", "path_text"], "select file_id, path_text from files order by file_id");
    for (program, rows) in found["files"].as_object().expect("by program") {
        let without_bytes: Value = rows.as_array().expect("rows").iter().map(|row| json!([row[0], row[2]])).collect();
        assert_eq!(without_bytes, texts, "files in {program}");
        let odd = rows.as_array().into_iter().flatten().find(|row| row[2].to_string().contains("odd"));
        let odd = odd.unwrap_or_else(|| panic!("{program} finds no odd name: {rows}"));
        assert!(odd[1].as_str().is_some_and(|hex| hex.ends_with("6f6464ff2e736f")), "the bytes, in {program}: {odd}");
        assert!(odd[2].as_str().is_some_and(|text| text.ends_with("/odd\u{fffd}.so")), "{program}: {odd}");
    }
    let shown = column(&lone, "n", "select count(*) as n from files where path is distinct from path_text");
    assert_eq!(shown, json!([0]), "a query shows one text of a path");
    let libraries = "select path_text from files where path like '%.so%' order by path_text";
    same("libraries", &query(&lone, &["path_text"], libraries));
    let counts = "select variant, run, count(*) as n from faults group by variant, run order by variant, run";
    same("counts", &query(&set, &["variant", "run", "n"], counts));
    let since = |table: &str| {
        format!(
            "select ts - clock_start_ns as t from {table} t join runs r
             on (t.variant is not distinct from r.variant) and (t.run is not distinct from r.run) order by t"
        )
    };
    same("files_t_ns", &column(&lone, "t", &since("files")));
    same("faults_t_ns", &column(&set, "t", &since("faults")));
    let joined = "select count(*) as n from samples join stacks on ustack_id = stack_id";
    let joined = column(&lone, "n", joined)[0].clone();
    assert!(joined.as_u64() > Some(0), "no sample has a user stack");
    same("joined", &joined);
    same("union", &column(&set, "n", "select count(*) as n from faults")[0]);
    assert_eq!(found["types"], json!({"task_id": "uint32[pyarrow]", "ustack_id": "uint64[pyarrow]"}));
    every_table_reads_as_a_whole(dir.path(), &found["tables"]);
}

/// Every table, of the recording and of the set, in every program and without a word on how files may differ.
fn every_table_reads_as_a_whole(dir: &Path, found: &Value) {
    let tables = found.as_object().expect("by table");
    assert!(tables.len() > 8 && tables.contains_key("faults") && tables.contains_key("tasks"), "{tables:?}");
    for (table, read) in tables {
        for recordings in ["run.rec", "set"] {
            let sql = format!("select count(*) as n from {table}");
            let wanted = column(&dir.join(recordings), "n", &sql)[0].clone();
            for (program, count) in read[recordings].as_object().into_iter().flatten() {
                assert_eq!(*count, wanted, "{table} of {recordings} in {program}");
            }
        }
    }
}
