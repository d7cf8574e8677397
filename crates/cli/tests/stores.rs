//! URLs in place of directories. What speaks to stores has tests of its own (fleet/, tests/fleet); here a shell script stands for it, and a
//! folder for the store.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{copy_binary, run, scratch, stderr};

/// `mirror` prints the folder that stands for the store; `upload` waits for the end of its input and copies there.
const FLEET: &str = r#"#!/bin/sh
case $1 in
mirror) [ -e "$STORE" ] || { echo "$2: no recording is here" >&2; exit 1; }; echo "$STORE" ;;
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
    assert!(stderr(&read).contains("make fleet"), "{}", stderr(&read));
    let words: Vec<&str> = RECORD.into_iter().chain(["s3://bench/a", "--", "touch", "ran"]).collect();
    run(&mut place.pagelab(&words), 125);
    assert!(!place.path("ran").exists(), "nothing was run");
}
