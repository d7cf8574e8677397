//! `compare` as users of two commands, two recordings or a set see it: options of plans on the command line, a primary
//! metric of one's own, one rule of quoting, resuming after Ctrl-C, and a page that says what was compared.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{as_ordinary_user, binary, json, pagelab, run, scratch, stderr};

/// A command line for the shell that counts its runs in the file `n` and prints `text`, in which `$n` is the count.
fn counting(text: &str) -> String {
    format!("n=$(($(cat n 2>/dev/null || echo 0) + 1)); echo $n > n; {text}")
}

fn compare(dir: &Path, args: &[&str]) -> Command {
    let mut command = pagelab();
    command.arg("compare").args(args).current_dir(dir);
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A recording of a command that does nothing else.
fn record(dir: &Path, name: &str, args: &[&str]) {
    let mut command = pagelab();
    command.args(["record", "-q", "--observe", "settings", "-o", name]).args(args).current_dir(dir);
    run(&mut command, 0);
}

#[test]
fn two_commands_take_the_options_of_plans_and_a_number_of_ones_own_decides() {
    let dir = scratch();
    let slow = counting("echo \"tps = $((1000 + n)).5 (ex)\"");
    let fast = counting("echo \"tps = 1.0\"; echo \"tps = $((2000 + n)).5 (ex)\" >&2; echo lat 1e$((n % 2))");
    let options = [
        "-n",
        "3",
        "-o",
        "set",
        "--observe",
        "settings",
        "--name",
        "slow,fast",
        "--warmup",
        "1",
        "--prepare",
        "echo p >> prepared",
        "--cleanup",
        "echo c >> cleaned",
        "--between",
        "sync",
        "--timeout",
        "1m",
        "--value",
        "tps:higher=^tps = ([0-9.]+)",
        "--value",
        "lat=lat (.*)",
        "--json",
        "--",
        &slow,
        &fast,
    ];
    let output = run(&mut compare(dir.path(), &options), 0);
    let document = json(&output);
    assert_eq!(document["primary"]["metric"], "value.tps");
    assert_eq!(document["primary"]["direction"], "higher");
    assert_eq!(document["primary"]["verdict"], "better", "{}", document["primary"]);
    let mean = document["facts"]["test"]["mean"].as_f64().expect("a mean");
    assert!((2001.0..2009.0).contains(&mean), "the last match decides, on either output: {mean}");
    let lat = document["metrics"].as_array().expect("metrics").iter().find(|one| one["name"] == "value.lat");
    assert_eq!(lat.expect("it is a metric like others")["direction"], "neutral");
    assert_eq!(document["facts"]["base"]["commands"][0], slow.as_str());
    for file in ["prepared", "cleaned"] {
        let lines = fs::read_to_string(dir.path().join(file)).expect("it ran").lines().count();
        assert_eq!(lines, 8, "{file}: before or after each run, warm-up too");
    }
    assert!(dir.path().join("set/variant=fast/run=003/manifest.json").is_file());
    assert!(dir.path().join("set/warmup/variant=slow/run=001").is_dir());
    assert!(!stderr(&output).contains("tps = "), "hidden: {}", stderr(&output));
    // The number is a row like those of other metrics.
    let sql = "select count(*) as n, min(value) as least from metrics where name = 'value.tps'";
    let mut query = pagelab();
    let queried = stdout(&run(query.args(["query", "set", sql, "--format", "json"]).current_dir(dir.path()), 0));
    assert!(queried.contains("1000") || queried.contains("100"), "{queried}");

    let shown = run(
        &mut compare(dir.path(), &["-n", "2", "--observe", "settings", "--show-output", "--", "echo said-a", "true"]),
        0,
    );
    assert_eq!(stderr(&shown).matches("said-a\n").count(), 2, "{}", stderr(&shown));
}

#[test]
fn a_run_without_the_number_that_decides_has_failed() {
    let dir = scratch();
    let sometimes = counting("if [ $n != 3 ]; then echo tps = $n; fi; echo the end of $n");
    let options = [
        "-n",
        "4",
        "-o",
        "set",
        "--observe",
        "settings",
        "--value",
        "tps=tps = ([0-9]+)",
        "--",
        &sometimes,
        "echo tps = 7",
    ];
    let output = run(&mut compare(dir.path(), &options), 0);
    let said = stderr(&output);
    assert!(said.contains("no_value: tps: no line of the command's output matches"), "{said}");
    assert!(said.contains("the last line of its output: the end of 3"), "{said}");
    let text = stdout(&output);
    assert!(
        text.starts_with("Test is") || text.starts_with("No difference") || text.starts_with("Not tested"),
        "{text}"
    );
    assert!(text.contains("1 of 4 base runs are excluded"), "{text}");

    let never = ["-n", "2", "--observe", "settings", "--value", "tps=tps = ([0-9]+)", "--", "echo no", "echo 1"];
    let output = run(&mut compare(dir.path(), &never), 2);
    assert!(stderr(&output).contains("no_value: tps"), "{}", stderr(&output));
}

#[test]
fn what_is_advised_after_an_interruption_works_as_it_is() {
    let dir = scratch();
    // The third run plays the user and presses Ctrl-C. The shell ends when its sleep does.
    let command = counting("if [ $n = 3 ]; then kill -INT $PPID; sleep 3; fi; echo 'it'\\''s' >> done");
    let output = run(
        &mut compare(dir.path(), &["-n", "3", "--observe", "settings", "--name", "a,b", "--", &command, "true"]),
        130,
    );
    let said = stderr(&output);
    let advice = said.lines().find_map(|line| line.split_once("go on with: ")).expect("what to type").1;
    assert!(advice.starts_with("pagelab compare -n 3") && advice.contains(" --resume "), "{advice}");
    let path = format!("{}:{}", binary().parent().expect("a folder").display(), std::env::var("PATH").expect("set"));
    let mut shell = Command::new("sh");
    shell.args(["-c", advice]).env("PATH", path).current_dir(dir.path());
    let resumed = run(&mut shell, 0);
    assert!(stdout(&resumed).contains("3 base and 3 test runs"), "{}", stdout(&resumed));
    // Two runs before, the one that was broken off made again, one that was left: none of them twice.
    assert_eq!(fs::read_to_string(dir.path().join("done")).expect("it ran").lines().count(), 3);
}

#[test]
fn one_word_is_a_command_line_in_every_form() {
    let dir = scratch();
    let forms: [&[&str]; 4] = [
        &["--", "echo one >> log", "echo one >> log"],
        &["--setting", "env.FORM=1,2", "--", "echo one >> log"],
        &["--setting", "env.FORM=1,2", "--", "sh", "-c", "echo one >> log"],
        &["--setting", "env.FORM=1,2", "--", "sh", "-c", "echo $0 >> log", "one"],
    ];
    for form in forms {
        let _ = fs::remove_file(dir.path().join("log"));
        let args = [&["-n", "2", "--observe", "settings"], form].concat();
        run(&mut compare(dir.path(), &args), 0);
        assert_eq!(fs::read_to_string(dir.path().join("log")).expect("it ran"), "one\n".repeat(4), "{form:?}");
    }
    let two = ["-n", "2", "--setting", "env.FORM=1,2", "--", "sleep 1", "sleep 2"];
    assert!(stderr(&run(&mut compare(dir.path(), &two), 2)).contains("found several command lines"));
    let absent = ["-n", "2", "--", "no-such-program-here", "true"];
    assert!(stderr(&run(&mut compare(dir.path(), &absent), 2)).contains("no-such-program-here"));
}

#[test]
fn wrong_options_are_told_in_the_words_of_the_command_line() {
    let dir = scratch();
    for (args, needed) in [
        (&["-n", "2", "--observe", "metricz", "--", "a", "b"][..], "compare -n: --observe"),
        (&["-n", "2", "--between", "synch", "--", "a", "b"], "compare -n: --between"),
        (&["-n", "2", "--timeout", "soon", "--", "a", "b"], "compare -n: --timeout"),
        (&["-n", "2", "--name", "a", "--", "a", "b"], "two different names"),
        (&["-n", "2", "--name", "a/b,c", "--", "a", "b"], "--name"),
        (&["-n", "2", "--metric", "run.elapsed", "--", "a", "b"], "run.elapsed_ns"),
        (&["-n", "2", "--value", "x=1", "--", "a", "b"], "parentheses"),
        (&["-n", "2", "--value", "x=(1)", "--value", "x=(2)", "--", "a", "b"], "found x twice"),
        (&["-n", "1", "--", "a", "b"], "2..=10000"),
        (&["--", "a", "b"], "needed -n"),
        (&[], "pagelab compare good.rec bad.rec"),
        (&["-n", "2", "--", "only one"], "needed two commands"),
    ] {
        let said = stderr(&run(&mut compare(dir.path(), args), 2));
        assert!(said.contains(needed), "{args:?}: {said}");
        assert!(!said.contains("/tmp/"), "no file of ours: {said}");
    }
}

#[test]
fn recordings_and_sets_are_compared_and_explained_by_their_names_alone() {
    let dir = scratch();
    record(dir.path(), "a.rec", &["--", "sh", "-c", "true"]);
    record(dir.path(), "b.rec", &["--", "sleep", "0.01"]);
    let page = stdout(&run(&mut compare(dir.path(), &["a.rec", "b.rec", "-v"]), 0));
    assert!(page.contains("true") && page.contains("sleep 0.01"), "the commands: {page}");
    assert!(page.contains("One run of a side cannot be tested"), "{page}");
    assert!(page.contains("CAUTION: the sides ran different commands"), "{page}");
    let brief = stdout(&run(&mut compare(dir.path(), &["a.rec", "b.rec"]), 0));
    assert!(brief.contains("One run of a side cannot be tested") && brief.contains("-v shows the evidence"), "{brief}");
    assert!(brief.lines().count() <= 25 && brief.lines().count() < page.lines().count() / 2, "{brief}");
    let alone = stderr(&run(&mut compare(dir.path(), &["a.rec"]), 2));
    assert!(alone.contains("pagelab explain a.rec"), "{alone}");

    let options =
        ["-n", "2", "-o", "set", "--observe", "settings,faults,maps", "--name", "old,new", "--", "true", "sleep 0.01"];
    let made = stdout(&run(&mut compare(dir.path(), &options), 0));
    let again = stdout(&run(&mut compare(dir.path(), &["set"]), 0));
    assert_eq!(made, again, "a set says the same as when it was made");
    let whole = stdout(&run(&mut compare(dir.path(), &["set", "-v"]), 0));
    assert!(whole.contains("base (old): true\n") && whole.contains("test (new): sleep 0.01\n"), "{whole}");
    assert!(whole.contains("median") && whole.contains("mean"), "{whole}");
    let each = stdout(&run(&mut compare(dir.path(), &["set", "--each-run"]), 0));
    let rows = each
        .split("of each run:")
        .nth(1)
        .expect("the values")
        .lines()
        .filter(|line| line.contains("  base  ") || line.contains("  test  "));
    assert_eq!(rows.count(), 4, "{each}");
    let document = json(&run(&mut compare(dir.path(), &["set", "--json"]), 0));
    assert_eq!(document["base"]["n"], 2);
    run(&mut compare(dir.path(), &["set/variant=old", "set/variant=new"]), 0);

    let mut explain = pagelab();
    let explained = stdout(&run(explain.args(["explain", "set"]).current_dir(dir.path()), 0));
    assert_eq!(explained.matches("One run of 2:").count(), 2, "{explained}");
    assert!(explained.contains("pagelab compare set"), "{explained}");

    let mixed = stdout(&run(&mut compare(dir.path(), &["--base", "set", "--test", "b.rec"]), 0));
    assert!(mixed.contains("CAUTION: the base side mixes 2 variants: new, old"), "{mixed}");
}

/// One recording a side is described and not tested: a cause is of one side, which is named, and what both do is none.
#[test]
#[ignore = "host: compares times of a disk, which takes a quiet machine"]
fn host_what_one_recording_a_side_shows_is_seen_once() {
    // On a disk: writes have to be waited for.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    // Each long enough to be told: a short one has no samples, and then nobody knows what its time was spent on.
    for (name, words) in [
        ("buffered.rec", &["count=60000"][..]),
        ("synced.rec", &["count=3000", "oflag=dsync"]),
        ("again.rec", &["count=3000", "oflag=dsync"]),
    ] {
        let mut command = pagelab();
        command.args(["record", "-q", "-o", name, "--", "dd", "if=/dev/zero", "of=f", "bs=4k", "status=none"]);
        command.args(words).current_dir(dir.path());
        run(&mut command, 0);
    }
    for (sides, side) in [(["buffered.rec", "synced.rec"], "test"), (["synced.rec", "buffered.rec"], "base")] {
        let brief = stdout(&run(&mut compare(dir.path(), &sides), 0));
        assert!(brief.contains(&format!("[seen once on {side}]")), "{brief}");
        let page = json(&run(&mut compare(dir.path(), &[sides[0], sides[1], "--json"]), 0));
        assert_eq!(
            (&page["primary"]["verdict"], &page["primary"]["p"]),
            (&"not_tested".into(), &serde_json::Value::Null)
        );
        let findings = page["findings"].as_array().expect("a list");
        let synced = findings.iter().find(|finding| finding["cause"] == "sync.more").expect("a cause");
        assert_eq!((&synced["confidence"], &synced["side"]), (&"seen_once".into(), &side.into()), "{synced}");
        assert!(synced["effect"]["share_ci95"].is_null(), "{synced}");
    }
    for sides in [["synced.rec", "again.rec"], ["again.rec", "synced.rec"]] {
        let page = json(&run(&mut compare(dir.path(), &[sides[0], sides[1], "--json"]), 0));
        let findings = page["findings"].as_array().expect("a list");
        assert!(findings.iter().all(|finding| finding["cause"] != "sync.more"), "both do it: {findings:?}");
    }
}

#[test]
fn output_passes_through_as_it_is_while_a_number_is_looked_for() {
    let dir = scratch();
    let script = "echo out; echo err >&2; printf 'tps = 5\\rtps = 6.25'; sleep 600 & echo $! > pid";
    let mut command = pagelab();
    command.args([
        "record",
        "-q",
        "--observe",
        "settings",
        "-o",
        "r",
        "--value",
        "tps=tps = ([0-9.]+)",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let output = command.current_dir(dir.path()).stdout(fs::File::create(dir.path().join("out")).expect("ours"));
    let output = run(output.stderr(fs::File::create(dir.path().join("err")).expect("ours")), 0);
    assert!(output.stdout.is_empty());
    // Its leftover child holds the pipe and is not waited for.
    let left = fs::read_to_string(dir.path().join("pid")).expect("it ran");
    run(Command::new("kill").arg(left.trim()), 0);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect("it is there");
    assert_eq!(read("out"), "out\ntps = 5\rtps = 6.25");
    assert_eq!(read("err"), "err\n");
    let manifest: serde_json::Value = serde_json::from_str(&read("r/manifest.json")).expect("JSON");
    assert_eq!(manifest["values"][0]["value"], 6.25);
    assert_eq!(manifest["values"][0]["matches"], 2);

    // On a terminal it stays on one, and both outputs keep their order.
    let inner = "test -t 1 && test -t 2 && echo terminal; echo a; echo b >&2; echo c";
    let line = format!("{} record -q --observe settings -o t --value 'x=(c)' -- sh -c '{inner}'", binary().display());
    let output = run(Command::new("script").args(["-qec", &line, "/dev/null"]).current_dir(dir.path()), 0);
    assert!(stdout(&output).contains("terminal\r\na\r\nb\r\nc\r\n"), "{:?}", stdout(&output));
}

#[test]
fn an_ordinary_user_is_told_once_what_is_missing() {
    let (dir, mut command) = as_ordinary_user();
    let home = dir.path().join("home");
    fs::create_dir(&home).expect("ours");
    std::os::unix::fs::chown(&home, Some(1000), Some(1000)).expect("root");
    let output = run(command.args(["compare", "-n", "3", "--", "true", "sleep 0"]).current_dir(&home), 0);
    let said = stderr(&output);
    let mut notes: Vec<&str> = said.lines().filter(|line| line.starts_with("note:")).collect();
    let all = notes.len();
    notes.sort_unstable();
    notes.dedup();
    assert!(all > 0, "it has less to record with: {said}");
    assert_eq!(all, notes.len(), "{said}");
}
