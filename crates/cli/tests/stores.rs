//! URLs in place of directories. What speaks to stores has tests of its own (fleet/, tests/fleet); here a shell script stands for it, and a
//! folder for the store.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{copy_binary, run, scratch, stderr};

/// `mirror` prints the folder that stands for the store; `upload` waits for the end of its input and copies there. `ls` knows a fleet of one
/// day, and `ask` keeps the question.
const FLEET: &str = r#"#!/bin/sh
case $1 in
mirror) [ -e "$STORE" ] || { echo "$2: no recording is here" >&2; exit 1; }; echo "$STORE" ;;
ls) printf '{"recordings": [], "is_cut": false, "days": [{"name": "day=2026-03-01", "state": "%s", "tables": ["runs", "labels", "metrics", "components", "settings"]}]}' "${STATE:-complete}" ;;
ask) cat >"$STORE.question"; [ -z "$IS_AWAY" ] || { echo "pagelab-fleet: $3: cannot reach a scheduler" >&2; exit 1; }; echo n; echo 7 ;;
query) echo "copied" >&2; echo "$@" ;;
upload) cat >/dev/null; [ -z "$IS_AWAY" ] || exit 1; cp -r "$2" "$STORE"; echo "copied to $3" ;;
esac
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(has_fleet: bool) -> Self {
        let folder = scratch();
        fs::create_dir_all(folder.path().join("bin")).expect("made");
        copy_binary(&folder.path().join("bin/pagelab"));
        let fleet = folder.path().join("bin/pagelab-fleet");
        if has_fleet {
            fs::write(&fleet, FLEET).expect("written");
            fs::set_permissions(&fleet, fs::Permissions::from_mode(0o755)).expect("executable");
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pagelab(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/pagelab"));
        command.args(words).env("STORE", self.path("store")).env("XDG_CACHE_HOME", self.path("cache"));
        command.env("PATH", "/usr/bin:/bin").current_dir(self.folder.path());
        command
    }

    fn spools(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache/pagelab/spool")).into_iter().flatten();
        entries.map(|entry| entry.expect("readable").path()).collect()
    }
}

/// Streams that every user may record.
const RECORD: [&str; 4] = ["record", "--observe", "metrics", "-o"];

#[test]
fn a_recording_goes_to_a_store_and_is_read_from_there() {
    let place = Place::new(true);
    let words: Vec<&str> = RECORD.into_iter().chain(["s3://bench/a", "--", "echo", "s3://not/mine"]).collect();
    let recorded = run(&mut place.pagelab(&words), 0);
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "s3://not/mine\n", "words of the command stay as they are");
    assert!(stderr(&recorded).contains("copied to s3://bench/a"), "{}", stderr(&recorded));
    assert!(place.path("store/manifest.json").is_file());
    assert_eq!(place.spools(), Vec::<PathBuf>::new(), "the spool goes");
    let shown = run(&mut place.pagelab(&["show", "s3://bench/a", "metrics", "--json"]), 0);
    let by_path =
        run(&mut place.pagelab(&["show", place.path("store").to_str().expect("text"), "metrics", "--json"]), 0);
    assert_eq!(shown.stdout, by_path.stdout);
}

#[test]
fn what_is_not_in_the_store_stays_and_the_way_on_is_said() {
    let place = Place::new(true);
    let words: Vec<&str> = RECORD.into_iter().chain(["s3://bench/a", "--", "true"]).collect();
    let recorded = run(place.pagelab(&words).env("IS_AWAY", "1"), 125);
    let [spool] = &place.spools()[..] else { panic!("one spool: {:?}", place.spools()) };
    let said = stderr(&recorded);
    assert!(said.contains(&format!("pagelab-fleet upload {} s3://bench/a", spool.display())), "{said}");
    assert!(Path::new(spool).join("manifest.json").is_file());
    let read = run(&mut place.pagelab(&["show", "s3://bench/a"]), 2);
    assert!(stderr(&read).contains("no recording is here"), "{}", stderr(&read));
}

#[test]
fn without_its_companion_a_url_is_refused_in_words() {
    let place = Place::new(false);
    let read = run(&mut place.pagelab(&["show", "s3://bench/a"]), 3);
    assert!(stderr(&read).contains("make pagelab-fleet"), "{}", stderr(&read));
    let words: Vec<&str> = RECORD.into_iter().chain(["s3://bench/a", "--", "touch", "ran"]).collect();
    run(&mut place.pagelab(&words), 125);
    assert!(!place.path("ran").exists(), "nothing was run");
}

#[test]
fn a_cluster_is_asked_about_the_files_that_are_there() {
    let place = Place::new(true);
    let ask = |more: &[&str]| {
        let words = ["fleet", "sql", "s3://bench/fleet", "select 7 as n", "--format", "csv", "--cluster", "df://host"];
        place.pagelab(&words.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let asked = run(&mut ask(&[]), 0);
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "n\n7\n");
    let question = fs::read_to_string(place.path("store.question")).expect("kept");
    let question: serde_json::Value = serde_json::from_str(&question).expect("JSON");
    assert_eq!(question["sql"], "select 7 as n");
    assert_eq!(question["tables"][0]["files"][0], "s3://bench/fleet/day=2026-03-01/runs.parquet");
    assert_eq!(question["tables"][0]["columns"][0], serde_json::json!({"name": "recording_id", "data_type": "Utf8"}));
    let half = run(ask(&[]).env("STATE", "half_replaced"), 0);
    assert!(stderr(&half).contains("two compactions"), "{}", stderr(&half));
    let away = run(ask(&[]).env("IS_AWAY", "1"), 2);
    assert!(stderr(&away).contains("df://host: cannot reach a scheduler"), "{}", stderr(&away));
    let late = run(&mut ask(&["--from", "2026-04-01"]), 2);
    assert!(stderr(&late).contains("1 days, none with the table"), "{}", stderr(&late));
}

#[test]
fn a_cluster_is_asked_about_recordings_in_a_store_and_nothing_else() {
    let place = Place::new(true);
    let words = ["query", "s3://bench/set", "select 1 from faults", "--cluster", "df://host", "--from", "0.5"];
    let asked = run(&mut place.pagelab(&words), 0);
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    let needed = "query --cluster df://host --format table --from=0.500000000 -- s3://bench/set select 1 from faults\n";
    assert_eq!(said, needed);
    assert!(stderr(&asked).contains("copied"), "{}", stderr(&asked));
    for words in [
        ["query", "/tmp", "select 1 from faults", "--cluster", "df://host"],
        ["query", "gs://bench/set", "select 1 from faults", "--cluster", "df://host"],
        ["fleet", "summary", "/tmp", "--cluster", "df://host"],
    ] {
        let refused = run(&mut place.pagelab(&words), 2);
        assert!(stderr(&refused).contains("needed a URL that executors of Ballista read"), "{}", stderr(&refused));
    }
}
