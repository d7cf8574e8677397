//! The list of refusals in each crate's manual names tests that there are. A refusal whose test was renamed or removed would go on being
//! promised.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that refuse something for safety: each has a list.
const REFUSING: [&str; 11] =
    ["agent", "cli", "fleet", "host", "load", "mcp", "observe", "output", "recording", "sql", "ui"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The manual of a crate: the comment that its root begins with.
fn manual(name: &str) -> Vec<String> {
    let sources = crates().join(name).join("src");
    let root = ["lib.rs", "main.rs"].map(|file| sources.join(file)).into_iter().find(|path| path.is_file());
    let text = fs::read_to_string(root.expect("a root")).expect("source is text");
    text.lines().map_while(|line| line.strip_prefix("//!")).map(|line| line.trim().to_owned()).collect()
}

/// The rows of the table below the heading of refusals; none without such a heading.
fn refusals(manual: &[String]) -> Option<Vec<&str>> {
    let is_heading = |line: &String| line.starts_with('#');
    let begin = manual.iter().position(|line| is_heading(line) && line.trim_start_matches('#') == " Refusals")? + 1;
    let section = manual[begin..].iter().take_while(|line| !is_heading(line));
    let rows = section.map(String::as_str).filter(|line| line.starts_with("| "));
    Some(rows.filter(|row| *row != "| refused | test |").collect())
}

/// The tests that a row names, `FILE.rs::NAME`: the file is below the crate, or below the repository if it begins with `crates/`.
fn tests(row: &str) -> Vec<(&str, &str)> {
    let quoted = row.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|word| {
            word.rsplit_once("::").filter(|(file, _)| Path::new(file).extension().is_some_and(|end| end == "rs"))
        })
        .collect()
}

fn is_there(of: &str, file: &str, name: &str) -> bool {
    let path = file.strip_prefix("crates/").map_or_else(|| crates().join(of).join(file), |file| crates().join(file));
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begin = format!("fn {name}(");
    let Some(at) = lines.iter().position(|line| line.starts_with(&begin)) else { return false };
    lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).any(|line| *line == "#[test]")
}

#[test]
fn every_refusal_names_a_test_that_there_is() {
    let mut wrong = Vec::new();
    let mut listed = Vec::new();
    for entry in fs::read_dir(crates()).expect("the crates").flatten() {
        let of = entry.file_name().into_string().expect("plain");
        if !entry.path().join("Cargo.toml").is_file() {
            continue;
        }
        let manual = manual(&of);
        let Some(rows) = refusals(&manual) else { continue };
        if rows.is_empty() {
            wrong.push(format!("{of}: no row below the heading"));
        }
        for row in rows {
            let tests = tests(row);
            if tests.is_empty() {
                wrong.push(format!("{of}: no test: {row}"));
            }
            let missing = tests.iter().filter(|(file, name)| !is_there(&of, file, name));
            wrong.extend(missing.map(|(file, name)| format!("{of}: there is no test {file}::{name}")));
        }
        listed.push(of);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    listed.sort();
    assert_eq!(listed, REFUSING, "crates with a list of refusals");
}

/// The test above can fail.
#[test]
fn a_test_that_is_none_is_found_out() {
    let own = "tests/refusals.rs";
    assert!(is_there("cli", own, "a_test_that_is_none_is_found_out"));
    assert!(is_there("ui", "crates/cli/tests/refusals.rs", "a_test_that_is_none_is_found_out"));
    assert!(!is_there("cli", own, "is_there"), "a function and no test");
    assert!(!is_there("cli", own, "a_test_that_is_none"));
    assert!(!is_there("cli", "tests/nowhere.rs", "refusals"));
    let manual =
        ["# Refusals", "", "| refused | test |", "|---|---|", "| a | `tests/b.rs::c`, `d` |", "# More", "| e | f |"];
    let manual = manual.map(str::to_owned);
    let rows = refusals(&manual).expect("a list");
    assert_eq!(rows, ["| a | `tests/b.rs::c`, `d` |"]);
    assert_eq!(tests(rows[0]), [("tests/b.rs", "c")]);
    assert_eq!(refusals(&manual[1..]), None);
}
