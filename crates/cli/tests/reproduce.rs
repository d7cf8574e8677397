//! `pagelab reproduce` on a real recording: a figure by SQL, the same once more by `--check`, and the exit status of everything that
//! can be wrong.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{pagelab, run, scratch, stderr};

const RECIPE: &str = r#"
title = "Writes of a null engine"
summary = "As many as were asked for."

[view]
writes = "SELECT ios, bytes FROM jobs WHERE direction = 'write'"

[[step]]
name = "job"
command = ["pagelab", "run", "{experiment}/null.fio", "-o", "{out}/job", "--observe", "metrics,settings"]
makes = ["job"]

[[step]]
name = "table"
command = ["pagelab", "query", "{out}/job", "SELECT ios FROM jobs"]
stdout = "table.txt"

[[figure]]
id = "writes"
what = "writes"
published = "writes"
recording = "job"
query = "SELECT sum(ios) FROM writes"
equals = 1000

[[figure]]
id = "bytes"
what = "bytes of one write"
recording = "job"
query = "SELECT bytes / ios FROM writes"
"#;

fn experiment(dir: &Path) {
    fs::create_dir(dir).expect("a fresh folder");
    for (name, text) in [
        ("reproduce.toml", RECIPE),
        ("published.toml", "writes = 1_000\n"),
        ("null.fio", "[null]\nioengine=null\nrw=write\nbs=4k\nsize=4000k\n"),
        ("README.in.md", "# Null\n\n{{figures: writes}}\n\n{{output: table.txt}}\n"),
    ] {
        fs::write(dir.join(name), text).expect("writable");
    }
}

fn change(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("there");
    assert!(text.contains(from), "{text}");
    fs::write(file, text.replace(from, to)).expect("writable");
}

#[test]
fn a_figure_is_measured_written_and_computed_once_more() {
    let dir = scratch();
    let (folder, out) = (dir.path().join("null"), dir.path().join("out"));
    experiment(&folder);
    let command = |words: &[&str]| -> Command {
        let mut command = pagelab();
        command.arg("reproduce").arg(&folder).arg("-o").arg(&out).args(words);
        command
    };
    let index = dir.path().join("INDEX.md");
    run(&mut command(&["--check"]), 2);
    run(command(&["--index"]).arg(&index), 0);
    let page = fs::read_to_string(folder.join("README.md")).expect("written");
    assert!(page.contains("| writes | 1,000 | 1,000 | equal to 1000: met | [how](#how-writes) |"), "{page}");
    assert!(page.contains("4,096") && page.contains("WITH writes AS ("), "{page}");
    assert!(fs::read_to_string(&index).expect("written").contains("[null](null/README.md)"));
    let checked = run(&mut command(&["--check"]), 0);
    assert!(String::from_utf8_lossy(&checked.stdout).contains("2 figures as written"));

    // What is kept is not made again.
    let again = run(&mut command(&[]), 0);
    assert!(String::from_utf8_lossy(&again.stdout).contains("0 steps made, 2 kept"), "{}", stderr(&again));

    let measured = folder.join("measured.toml");
    change(&measured, "value = 4096", "value = 4095");
    let differs = run(&mut command(&["--check"]), 1);
    let words = String::from_utf8_lossy(&differs.stdout).into_owned();
    assert!(words.contains("figure bytes: value: found 4096, written 4095"), "{words}");
    change(&measured, "value = 4095", "value = 4096");

    fs::rename(out.join("job"), out.join("elsewhere")).expect("moved");
    let gone = run(&mut command(&["--check"]), 3);
    let words = String::from_utf8_lossy(&gone.stdout).into_owned();
    assert!(words.contains(&format!("not kept: {}", out.join("job").display())), "{words}");
    fs::rename(out.join("elsewhere"), out.join("job")).expect("moved");

    // A miss is status 1, and stands in the page.
    change(&folder.join("reproduce.toml"), "equals = 1000", "equals = 1001");
    run(&mut command(&[]), 1);
    let page = fs::read_to_string(folder.join("README.md")).expect("written");
    assert!(page.contains("**equal to 1001: missed**"), "{page}");

    // SQL that gives more than one value is a figure that was not measured.
    change(&folder.join("reproduce.toml"), "SELECT bytes / ios FROM writes", "SELECT bytes, ios FROM writes");
    let words = String::from_utf8_lossy(&run(&mut command(&[]), 1).stdout).into_owned();
    assert!(words.contains("bytes: not measured: job: the query gives 2 columns; needed: one"), "{words}");

    change(&folder.join("reproduce.toml"), "[[step]]\nname = \"job\"", "[[stp]]\nname = \"job\"");
    let wrong = run(&mut command(&[]), 2);
    assert!(
        stderr(&wrong).contains("reproduce.toml:8: unknown key `stp` (did you mean 'step'?)"),
        "{}",
        stderr(&wrong)
    );
}
