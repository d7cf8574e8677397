//! A query ends: at its limit of time or memory if not before, with a sentence, and leaves nothing behind.

use crate::common;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{pagelab, run, scratch, stderr};

/// Hours of a loop in which the engine cannot be told to stop.
const CROSS_JOIN: &str = "select count(*) from generate_series(1, 3000000) a, generate_series(1, 3000000) b \
                          where a.value * b.value % 7 = 1";

#[test]
fn a_query_ends_at_its_limits_and_leaves_nothing() {
    let tmp = scratch();
    let (rec, out) = (tmp.path().join("rec"), tmp.path().join("out"));
    fs::create_dir(&out).expect("ours");
    run(pagelab().args(["record", "--observe", "tasks", "-o"]).arg(&rec).args(["--", "true"]), 0);
    let query = |more: &[&str], sql: &str, to_file: bool| -> Command {
        let mut command = pagelab();
        command.arg("query").args(more).arg(&rec).arg(sql);
        if to_file {
            command.arg("-o").arg(out.join("answer.json"));
        }
        command
    };
    for to_file in [false, true] {
        let begun = Instant::now();
        let said = stderr(&run(&mut query(&["--timeout", "1"], CROSS_JOIN, to_file), 2));
        assert!(said.contains("no answer after 1 s") && said.contains("--timeout 4h"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        // The engine's own account of memory does not have it.
        let long = "select length(repeat('x', 2000000000)) as n";
        let said = stderr(&run(&mut query(&["--memory", "64M"], long, to_file), 2));
        assert!(said.contains("needed at most 1088") && said.contains("--memory 256M"), "{said}");
        assert_eq!(fs::read_dir(&out).expect("ours").count(), 0, "a result that was begun is removed");
    }
    run(&mut query(&["--timeout", "60", "--memory", "64M"], "select count(*) as n from tasks", true), 0);
    let answer = fs::read_to_string(out.join("answer.json")).expect("it is written");
    assert!(answer.contains("\"n\":"), "{answer}");
}
