//! The profile against `perf record` of the same process at the same time: the same functions with the same shares.

use crate::profiled;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};

use pagelab_observe::cpu::ProfileOptions;
use profiled::{compile, is_root, profile};

/// 24 functions that take turns of some microseconds, each with a share of its own.
fn source() -> String {
    let mut source = String::from("#include <stdlib.h>\nstatic volatile unsigned long sink;\n");
    for n in 0..24 {
        let _ = writeln!(
            source,
            "__attribute__((noinline)) void share{n}(void) {{ for (unsigned long i = 0; i < {}; i++) sink += i; }}",
            400 + 250 * n
        );
    }
    source.push_str("int main(int c, char **v) { FOR_MS(atol(v[1])) {");
    (0..24).for_each(|n| _ = write!(source, "share{n}();"));
    source.push_str("} return c > 9; }\n");
    source
}

fn shares<'a>(names: impl Iterator<Item = &'a str>) -> (BTreeMap<String, f64>, f64) {
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    let mut all = 0.0;
    for name in names {
        *counts.entry(name.to_owned()).or_default() += 1.0;
        all += 1.0;
    }
    (counts, all)
}

#[test]
fn the_twenty_functions_with_most_samples_have_the_shares_that_perf_sees() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), "shares", &source(), &["-O2", "-g"]);
    let data = dir.path().join("perf.data");
    let mut perf: Option<Child> = None;
    let start = |pid: u32| {
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-F", "997", "-e", "cpu-clock", "-p", &pid.to_string(), "-o"]).arg(&data);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("perf is there: make setup-test")
    };
    let run = profile(&format!("{} 3000", program.display()), &ProfileOptions::default(), |pid| {
        perf.get_or_insert_with(|| start(pid));
    });
    perf.expect("it was started").wait().expect("it ends with the program");
    let script = Command::new("perf").args(["script", "-F", "ip,sym", "-i"]).arg(&data).output().expect("perf script");
    let script = String::from_utf8_lossy(&script.stdout).into_owned();
    let (theirs, their_count) = shares(script.lines().filter_map(|line| line.split_whitespace().nth(1)));
    let innermost: Vec<String> =
        run.samples.iter().filter_map(|sample| sample.kernel.first().or(sample.user.first())?.symbol.clone()).collect();
    let (ours, our_count) = shares(innermost.iter().map(String::as_str));
    assert!(our_count > 500.0 && their_count > 500.0, "{our_count} and {their_count} samples");
    let mut top: Vec<(&String, &f64)> = theirs.iter().collect();
    top.sort_by(|one, other| other.1.total_cmp(one.1));
    // Two samples of the same: the variances add.
    let n = our_count * their_count / (our_count + their_count);
    let deviations: Vec<(f64, &String, f64, f64)> = top
        .into_iter()
        .take(20)
        .map(|(name, count)| {
            let (their, our) = (count / their_count, ours.get(name).copied().unwrap_or(0.0) / our_count);
            let p = (count + ours.get(name).copied().unwrap_or(0.0)) / (our_count + their_count);
            ((their - our).abs() / (p * (1.0 - p) / n).sqrt(), name, our, their)
        })
        .collect();
    assert_eq!(deviations.len(), 20);
    // One in 370 is beyond three standard deviations by chance: of twenty one may be, and none far beyond.
    let beyond = |limit: f64| deviations.iter().filter(|(deviation, ..)| *deviation > limit).count();
    assert!(beyond(3.0) <= 1 && beyond(4.5) == 0, "{deviations:#?}");
}
