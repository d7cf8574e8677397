//! Every option and engine that fio has is known by name: pagelab has it, or says why not. Every example job of fio parses, or is
//! refused by name.

use std::collections::BTreeSet;
use std::process::Command;

use pagelab_fiojob::{engines, options, unsupported};

// The same code as `tools/fio-option-survey`.
#[allow(dead_code)]
#[path = "../examples/option_survey.rs"]
mod option_survey;

/// Debian's package `fio-examples` puts them here.
const EXAMPLES: &str = "/usr/share/doc/fio/examples";

/// The first words of fio's help, up to a colon or blank.
fn words(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new("fio").args(arguments).output().expect("fio is installed (apt-get install fio)");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split([':', ' ', '\t']).find(|word| !word.is_empty()))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_option_of_fio_is_known() {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for line in String::from_utf8_lossy(&Command::new("fio").arg("--cmdhelp=all").output().expect("fio").stdout).lines()
    {
        if let Some((name, _)) = line.split_once(':') {
            names.insert(name.trim().to_owned());
        }
    }
    assert!(names.len() > 200, "fio lists its options: {}", names.len());
    let unknown: Vec<&String> =
        names.iter().filter(|name| options::option(name).is_none() && unsupported::option(name).is_none()).collect();
    assert!(unknown.is_empty(), "neither there nor refused: {unknown:?}");
}

#[test]
fn every_engine_of_fio_is_known_with_its_options() {
    let listed: BTreeSet<String> = words(&["--enghelp"]).into_iter().filter(|word| word != "Available").collect();
    assert!(listed.contains("psync") && listed.len() > 20, "{listed:?}");
    let unknown: Vec<&String> =
        listed.iter().filter(|name| engines::find(name).is_none() && unsupported::engine(name).is_none()).collect();
    assert!(unknown.is_empty(), "neither there nor refused: {unknown:?}");
    for engine in &listed {
        let output = Command::new("fio").arg(format!("--enghelp={engine}")).output().expect("fio");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let options = text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
        let unknown: Vec<&str> = options
            .filter(|name| !name.is_empty() && !name.contains(' '))
            .filter(|name| options::option(name).is_none() && unsupported::option(name).is_none())
            .collect();
        assert!(unknown.is_empty(), "options of {engine} neither there nor refused: {unknown:?}");
    }
}

/// The survey of the examples, made by a process of its own: some of them name variables of the environment.
fn survey() -> Vec<Vec<String>> {
    let files = std::fs::read_dir(EXAMPLES).map_or(0, Iterator::count);
    assert!(files > 0, "{EXAMPLES} is missing; apt-get install fio-examples");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["prints_the_survey", "--exact", "--nocapture"]).env("PAGELAB_TEST_SURVEY", EXAMPLES);
    for name in
        ["CONT", "GPU_DEV_IDS", "POOL", "S3_ID", "S3_KEY", "SSE_KEY", "STORAGE_CLASS", "SWIFT_id", "unixsocket", "uri"]
    {
        command.env(name, "x");
    }
    for (name, value) in [("FIO_BS", "4k"), ("FIO_DIR", "/tmp"), ("FIO_IODEPTH", "1"), ("FIO_RW", "randread")] {
        command.env(name, value);
    }
    let output = command.output().expect("this program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Vec<String>> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>())
        .filter(|row| row.len() >= 4)
        .collect();
    assert!(rows.len() > 100, "{rows:?}");
    rows
}

/// Not a test: what [`survey`] runs. By itself it has nothing to print.
#[test]
fn prints_the_survey() {
    if let Some(directory) = std::env::var_os("PAGELAB_TEST_SURVEY") {
        println!("\n{}", option_survey::survey(directory.as_ref()).expect("a directory"));
    }
}

#[test]
fn fios_examples_parse_or_are_refused_by_name() {
    let rows = survey();
    let files: Vec<_> = rows.iter().filter(|row| row[0] == "file").collect();
    assert!(files.len() >= 86, "fio 3.33 has 86 examples, found {}", files.len());
    for row in &files {
        let [_, name, verdict, reason] = row.as_slice() else { panic!("{row:?}") };
        // A refusal says that it knows what it refuses; a word that nobody knows would be a hole in the list.
        let mut mistakes = reason.split(" | ").filter(|line| !line.ends_with(" mistakes:"));
        let by_name = mistakes.any(|line| {
            line.contains("of fio that pagelab does not have") || line.contains("fio's; pagelab does not have")
        });
        // A consequence of a refusal (an engine's job without a size) is reported along with it.
        let by_name = by_name && !reason.contains("unknown option");
        assert!(verdict == "parses" || by_name, "{name}: {reason}");
        assert!(verdict == "parses" || reason.contains(".fio:"), "{name}: {reason}");
    }
    let parsed = files.iter().filter(|row| row[2] == "parses").count();
    // Most name asynchronous or remote engines; fewer would be a regression.
    assert!(parsed >= 7, "{parsed} of {} parse", files.len());
}

/// Among the sixty options used most in the examples, those that are fio's own tuning of workloads are all there.
/// Missing ones are named here: a shorter list is progress, a longer one is a regression.
#[test]
fn the_sixty_options_used_most() {
    let rows = survey();
    let options: Vec<_> = rows.iter().filter(|row| row[0] == "option").take(60).collect();
    assert_eq!(options.len(), 60);
    let missing: BTreeSet<&str> = options.iter().filter(|row| row[4] != "covered").map(|row| row[1].as_str()).collect();
    assert!(missing.iter().all(|name| unsupported::option(name).is_some()), "{missing:?}");
    let known = BTreeSet::from([
        "cpuload",
        "cpumode",
        "donorname",
        "flow",
        "hostname",
        "http_host",
        "http_mode",
        "http_verbose",
        "https",
        "inplace",
        "pool",
        "port",
        "program",
        "registerfiles",
        "serverip",
        "sg_write_mode",
        "sqthread_poll",
        "sqthread_poll_cpu",
        "arguments",
        "http_s3_key",
        "http_s3_keyid",
        "http_s3_region",
        "cmdprio_bssplit",
    ]);
    let new: Vec<_> = missing.difference(&known).collect();
    assert!(new.is_empty(), "options among the sixty that were there before: {new:?}");
}
