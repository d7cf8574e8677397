//! Published experiments carried out again: what is kept is not made again, every figure can be computed once more, and
//! nothing that was measured, missed or is gone stays unsaid. A shell script stands in for pagelab, files for recordings.
#![allow(clippy::unwrap_used)]

#[path = "../../experiment/tests/support/mod.rs"]
mod support;

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pagelab_experiment::{Plan, RunErrorKind, RunOptions, Silent, execute};
use pagelab_reproduce::{Checked, Recipe, Refused, ReproduceOptions, Reproduced, Tools, Value, check, reproduce};
use support::{FakeRunner, broken, good};

/// Writes what its first word says into the file of its second; without a file it prints.
const PAGELAB: &str = r#"#!/bin/sh
echo "$@" >> calls
case "$1" in
print) printf '%s' "$2" ;;
fail) echo broken >&2; exit "$2" ;;
sleep) exec sleep 30 ;;
esac
"#;

const RECIPE: &str = r#"
title = "Two sides"
summary = "Which of two is larger."

[[step]]
name = "main"
plan = "plan.toml"

[[step]]
name = "pool"
command = ["pagelab", "print", '{"steps": [{"free": 78}, {"free": 0}], "cases": [{"result": "pass"}, {"result": "fail"}, {"result": "pass"}]}', "{out}/main.set"]
stdout = "pool.json"

[[figure]]
id = "ratio"
what = "bad over good"
published = "effect.ratio"
recording = "main.set/variant=bad/run=*"
against = "main.set/variant=good/run=*"
query = "value"
at_most = 0.6
note = "another machine"

[[figure]]
id = "median"
what = "median of good"
unit = "ms"
recording = "main.set/variant=good/run=*"
query = "value"
over = "median"
at_least = 1000

[[figure]]
id = "free"
what = "free pages"
published = "pool.free"
document = "pool.json"
pointer = ["/steps/0/free", "/steps/1/free"]
over = "list"
equals = "78, 0"

[[figure]]
id = "passed"
what = "cases that pass"
document = "pool.json"
pointer = "/cases/*/result"
count = "pass"
"#;

const PUBLISHED: &str = "[effect]\nratio = 0.5\n[pool]\nfree = \"78, 0\"\n";

/// An experiment's folder, a place for kept results, and a pagelab.
struct Bench {
    dir: tempfile::TempDir,
    fake: Fake,
}

/// Runs plans with a fake runner; a query gives 10 for good runs and 4 + run / 10 for others.
#[derive(Default)]
struct Fake {
    said: RefCell<Vec<String>>,
    sets: usize,
    stopped: bool,
}

impl Tools for Fake {
    fn make_set(&mut self, plan: &Plan, options: &RunOptions) -> Result<bool, Refused> {
        self.sets += 1;
        // Every third run of bad fails.
        let runner = FakeRunner::scripted(|spec| match (spec.variant.as_str(), spec.run) {
            ("bad", 3) => Err(broken(RunErrorKind::Work, "no luck")),
            _ => Ok(good()),
        });
        let done = execute(plan, options, &runner, &mut Silent)
            .map_err(|error| Refused { reason: error.to_string(), status: error.exit_status() })?;
        fs::write(done.set.dir().join("compare.json"), "{}").unwrap();
        Ok(done.interrupted)
    }

    fn query(&self, recordings: &[PathBuf], sql: &str) -> Result<Option<Value>, String> {
        let [dir] = recordings else { return Err(format!("{} recordings", recordings.len())) };
        let text = dir.display().to_string();
        let run: f64 = text.rsplit('=').next().unwrap().parse().unwrap();
        match sql {
            "value" if text.contains("variant=good") => Ok(Some(Value::Whole(10))),
            "value" => Ok(Value::number(4.0 + run / 10.0)),
            _ => Ok(None),
        }
    }

    fn say(&mut self, line: &str) {
        self.said.borrow_mut().push(line.to_owned());
    }

    fn stopped(&self) -> bool {
        self.stopped
    }
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap(), fake: Fake::default() };
        fs::create_dir(bench.experiment()).unwrap();
        bench.write("reproduce.toml", RECIPE);
        bench.write("published.toml", PUBLISHED);
        bench.write("plan.toml", "runs = 4\nseed = 1\ncommand = \"work\"\n[variant.good]\n[variant.bad]\n");
        bench.write("README.in.md", "# Two sides\n\n{{figures: ratio}}\n\nIn a sentence: {{figure: ratio}}.\n");
        let pagelab = bench.dir.path().join("pagelab");
        fs::write(&pagelab, PAGELAB).unwrap();
        fs::set_permissions(&pagelab, fs::Permissions::from_mode(0o755)).unwrap();
        bench
    }

    fn experiment(&self) -> PathBuf {
        self.dir.path().join("two-sides")
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.experiment().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.experiment().join(name)).unwrap()
    }

    fn change(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "{name} has no {from}: {text}");
        self.write(name, &text.replace(from, to));
    }

    fn run(&mut self, again: bool) -> Reproduced {
        let recipe = Recipe::load(&self.experiment()).unwrap_or_else(|error| panic!("{error}"));
        let pagelab = self.dir.path().join("pagelab");
        let options = ReproduceOptions { out: self.out(), pagelab, again };
        reproduce(&recipe, &options, &mut self.fake).unwrap_or_else(|error| panic!("{error}"))
    }

    fn check(&self) -> Checked {
        let recipe = Recipe::load(&self.experiment()).unwrap_or_else(|error| panic!("{error}"));
        check(&recipe, &self.out(), &self.fake).unwrap_or_else(|error| panic!("{error}"))
    }

    /// How often the command was run.
    fn calls(&self) -> usize {
        fs::read_to_string(self.out().join("calls")).map_or(0, |text| text.lines().count())
    }
}

fn wrong(bench: &Bench) -> String {
    Recipe::load(&bench.experiment()).expect_err("wrong").to_string()
}

#[test]
fn figures_come_from_what_was_recorded_and_stand_beside_the_published_ones() {
    let mut bench = Bench::new();
    let done = bench.run(false);
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    assert_eq!(done.made, 2);
    let figure = |id: &str| done.measured.figure.iter().find(|figure| figure.id == id).unwrap().clone();
    // Pairs of runs 1, 2 and 4: the third run of bad failed.
    let ratio = figure("ratio");
    let expected = (0.41_f64 * 0.42 * 0.44).cbrt();
    assert!((ratio.value.as_ref().unwrap().as_f64().unwrap() - expected).abs() < 1e-12, "{ratio:?}");
    assert!(ratio.interval.is_some_and(|[low, high]| low < expected && expected < high), "{ratio:?}");
    assert_eq!((ratio.met, ratio.recordings, ratio.published), (Some(true), Some(3), Some(Value::Number(0.5))));
    assert_eq!(figure("free").value, Some(Value::Text("78, 0".into())));
    assert_eq!(figure("passed").value, Some(Value::Whole(2)));
    // A miss is a miss.
    assert_eq!((figure("median").value, figure("median").met), (Some(Value::Whole(10)), Some(false)));
    assert_eq!(done.measured.missed().count(), 1);

    let page = bench.read("README.md");
    assert!(page.contains("| bad over good | 0.5 | 0.4232 (95 %: "), "{page}");
    assert!(page.contains("In a sentence: 0.4232 (95 %"), "{page}");
    assert!(page.contains("- bad over good: another machine"), "{page}");
    // What the prose does not name stands in the page all the same, the miss above all.
    assert!(page.contains("## Further figures"), "{page}");
    assert!(page.contains("| median of good |  | 10 ms | **at least 1000: missed** | [how](#how-median) |"), "{page}");
    assert!(
        page.contains("<a id=\"how-free\"></a>") && page.contains("`/steps/0/free /steps/1/free` of `OUT/pool.json`")
    );
    let measured = bench.read("measured.toml");
    for part in ["recording", "query = \"value\"", "from = \"main.set/variant=bad/run=*\"", "date = ", "kernel = "] {
        assert!(measured.contains(part), "{part}: {measured}");
    }
}

#[test]
fn what_is_kept_is_not_made_again() {
    let mut bench = Bench::new();
    bench.run(false);
    let page = bench.read("README.md");
    assert_eq!((bench.run(false).made, bench.fake.sets, bench.calls()), (0, 1, 1));
    assert_eq!(bench.read("README.md"), page, "the same figures give the same page");
    // A command whose words have changed is another one.
    bench.change("reproduce.toml", "\"free\": 78", "\"free\": 77");
    assert_eq!((bench.run(false).made, bench.fake.sets, bench.calls()), (1, 1, 2));
    // A set that lacks a recording is completed, and what names it is made anew.
    fs::remove_dir_all(bench.out().join("main.set/variant=good/run=002")).unwrap();
    assert_eq!((bench.run(false).made, bench.fake.sets, bench.calls()), (2, 2, 3));
    assert!(bench.check().not_kept.is_empty());
    assert_eq!((bench.run(true).made, bench.fake.sets, bench.calls()), (2, 3, 4));
    assert!(bench.out().join("main.set.old").is_dir(), "what was there is not lost at once");
    // A plan that has changed needs the user's word.
    bench.change("plan.toml", "runs = 4", "runs = 5");
    let before = bench.read("measured.toml");
    let done = bench.run(false);
    assert_eq!((done.failed.len(), done.failed[0].status), (1, 2));
    assert!(done.failed[0].reason.contains("--again"), "{:?}", done.failed);
    assert_eq!(bench.read("measured.toml"), before, "figures of an earlier day are not written over by gaps");
    assert!(bench.run(true).failed.is_empty());
}

#[test]
fn a_check_finds_every_figure_that_is_not_as_written() {
    let mut bench = Bench::new();
    bench.run(false);
    let checked = bench.check();
    assert_eq!((checked.same, checked.differs.len(), checked.not_kept.len()), (4, 0, 0), "{checked:?}");
    let finds = |bench: &Bench, file: &str, from: &str, to: &str, parts: &[&str]| {
        let before = bench.read(file);
        bench.change(file, from, to);
        let differs = bench.check().differs;
        assert!(differs.iter().any(|line| parts.iter().all(|part| line.contains(part))), "{parts:?}: {differs:?}");
        bench.write(file, &before);
    };
    let measured = "measured.toml";
    finds(&bench, measured, "value = \"78, 0\"", "value = \"78, 1\"", &["figure free", "found 78, 0", "written 78, 1"]);
    finds(&bench, measured, "value = 10", "value = 11", &["figure median", "found 10", "written 11"]);
    finds(&bench, measured, "met = false", "met = true", &["figure median", "missed", "met"]);
    finds(&bench, measured, "id = \"passed\"", "id = \"other\"", &["figure passed", "written nothing"]);
    finds(&bench, measured, "id = \"passed\"", "id = \"other\"", &["figure other", "reproduce.toml has none"]);
    finds(&bench, "reproduce.toml", "at_most = 0.6", "at_most = 0.5", &["figure ratio", "at most 0.5", "at most 0.6"]);
    finds(&bench, "README.md", "0.4232", "0.4233", &["README.md:", "README.in.md"]);
    fs::write(bench.out().join("pool.json"), r#"{"steps": [{"free": 7}, {"free": 0}], "cases": []}"#).unwrap();
    let differs = bench.check().differs;
    assert!(differs.iter().any(|line| line.contains("found 7, 0, written 78, 0")), "{differs:?}");
}

#[test]
fn recordings_that_are_not_kept_are_named() {
    let mut bench = Bench::new();
    bench.run(false);
    fs::remove_dir_all(bench.out().join("main.set/variant=good/run=002")).unwrap();
    fs::remove_file(bench.out().join("pool.json")).unwrap();
    let checked = bench.check();
    assert_eq!(checked.not_kept, ["main.set/variant=good/run=002", "pool.json"]);
    assert!(checked.differs.is_empty(), "what is gone is no difference: {checked:?}");
    fs::remove_dir_all(bench.out()).unwrap();
    assert_eq!(bench.check().not_kept.len(), 3);
}

#[test]
fn steps_that_fail_are_told_and_leave_the_rest_to_be_made() {
    for (command, status, words) in
        [(r#"["pagelab", "fail", "3"]"#, 3, "exit status"), (r#"["pagelab", "fail", "77"]"#, 3, "exit status: 77")]
    {
        let mut bench = Bench::new();
        let text = RECIPE.replace("[[figure]]\nid = \"ratio\"", &format!(
            "[[step]]\nname = \"broken\"\ncommand = {command}\nstdout = \"x.json\"\n\n[[step]]\nname = \"last\"\ncommand = [\"pagelab\", \"print\", \"1\"]\nstdout = \"last.json\"\n\n[[figure]]\nid = \"ratio\""
        ));
        bench.write("reproduce.toml", &text);
        let done = bench.run(false);
        assert_eq!((done.failed.len(), done.failed[0].status, done.made), (1, status, 3), "{:?}", done.failed);
        assert!(done.failed[0].reason.contains(words), "{:?}", done.failed);
        assert!(!bench.out().join("x.json").exists(), "half an output is none");
        assert!(!bench.experiment().join("README.md").exists());
    }
    let mut bench = Bench::new();
    bench.write(
        "reproduce.toml",
        &RECIPE.replace("stdout = \"pool.json\"", "stdout = \"pool.json\"\nmakes = [\"nothing\"]"),
    );
    assert!(bench.run(false).failed[0].reason.contains("left no nothing"));
    bench.write(
        "reproduce.toml",
        &RECIPE
            .replace("\"print\"", "\"sleep\"")
            .replace("stdout = \"pool.json\"", "stdout = \"pool.json\"\ntimeout = \"300ms\""),
    );
    let started = std::time::Instant::now();
    assert!(bench.run(false).failed[0].reason.contains("0.3 s"));
    assert!(started.elapsed().as_secs() < 15);
    bench.fake.stopped = true;
    assert!(bench.run(false).interrupted);
}

#[test]
fn mistakes_are_found_with_their_line_before_anything_runs() {
    for (from, to, parts) in [
        ("summary", "sumary", ["reproduce.toml:3", "did you mean 'summary'"]),
        ("at_most = 0.6", "at_most = \"0.6\"", ["reproduce.toml:21", "a number"]),
        ("over = \"median\"", "over = \"medien\"", ["reproduce.toml:30", "did you mean 'median'"]),
        ("plan = \"plan.toml\"\n", "", ["reproduce.toml:5", "plan = "]),
        ("id = \"median\"", "id = \"ratio\"", ["reproduce.toml:25", "another one has this"]),
        (
            "published = \"effect.ratio\"",
            "published = \"effect.ration\"",
            ["effect.ration", "did you mean 'effect.ratio'"],
        ),
        ("\"pagelab\", \"print\"", "\"sh\", \"print\"", ["reproduce.toml:11", "begins with \"pagelab\""]),
        ("stdout = \"pool.json\"", "stdout = \"../pool.json\"", ["reproduce.toml:12", "without `..`"]),
        ("count = \"pass\"", "over = \"together\"", ["over = \"together\"", "recordings"]),
        ("pointer = \"/cases/*/result\"", "pointer = \"cases\"", ["reproduce.toml:46", "such as"]),
        ("query = \"value\"\nover", "over", ["reproduce.toml:24", "SELECT"]),
        ("at_least = 1000", "within_pct = 5", ["reproduce.toml:31", "published"]),
    ] {
        let bench = Bench::new();
        bench.change("reproduce.toml", from, to);
        let words = wrong(&bench);
        assert!(parts.iter().all(|part| words.contains(part)), "{to}: {words}");
    }
    let nothing = tempfile::tempdir().unwrap();
    assert!(Recipe::load(nothing.path()).unwrap_err().to_string().contains("no reproduce.toml"));
    assert!(Recipe::load(Path::new("/nowhere/at/all")).unwrap_err().to_string().contains("no reproduce.toml"));
}

#[test]
fn a_placeholder_that_does_not_exist_is_found_before_the_runs() {
    for (text, parts) in [
        ("{{figure: ratoi}}", ["README.in.md:3", "did you mean 'ratio'"]),
        ("{{figurs}}", ["README.in.md:3", "did you mean 'figure'"]),
        ("{{figure: ratio", ["README.in.md:3", "`}}`"]),
        ("{{published: effect.x}}", ["README.in.md:3", "effect.x"]),
        ("{{output: other.txt}}", ["README.in.md:3", "a file that a step"]),
    ] {
        let mut bench = Bench::new();
        bench.write("README.in.md", &format!("# x\n\n{text}\n"));
        let recipe = Recipe::load(&bench.experiment()).unwrap();
        let options = ReproduceOptions { out: bench.out(), pagelab: bench.dir.path().join("pagelab"), again: false };
        let words = reproduce(&recipe, &options, &mut bench.fake).expect_err("wrong").to_string();
        assert!(parts.iter().all(|part| words.contains(part)), "{text}: {words}");
        assert_eq!(bench.fake.sets, 0, "nothing has run");
    }
}

#[test]
fn outputs_are_shown_without_this_machines_folders() {
    let mut bench = Bench::new();
    let text = RECIPE.replace(
        "[[figure]]\nid = \"ratio\"",
        "[[step]]\nname = \"table\"\ncommand = [\"pagelab\", \"print\", \"in {out}/main.set\\nb\"]\nstdout = \"table.txt\"\n\n[[figure]]\nid = \"ratio\"",
    );
    bench.write("reproduce.toml", &text);
    bench.write("README.in.md", "{{output: table.txt}}\n\n{{made}}\n");
    bench.run(false);
    let page = bench.read("README.md");
    assert!(page.contains("```\nin OUT/main.set\nb\n```"), "{page}");
    assert!(!page.contains(&bench.dir.path().display().to_string()), "{page}");
    assert!(page.contains("pagelab experiment plan.toml -o main.set"), "{page}");
}
