//! Mount options of a run's own, on real mounts: of two file systems at one place the one on top is changed, of one file system at two
//! places the one that was named, and outside of the run neither.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use pagelab_host::process::ProcessSettings;
use pagelab_residency::mounts::table;

/// A folder of the host with mounts in it, unmounted when dropped.
struct Place {
    folder: tempfile::TempDir,
    mounted: Vec<String>,
}

impl Place {
    fn new() -> Self {
        // Without a point in its name, which would be one in a key.
        let folder = tempfile::Builder::new().prefix("pagelab-mounts-").tempdir().expect("a folder");
        Self { folder, mounted: Vec::new() }
    }

    /// The path of a folder in it, as the kernel tells it.
    fn at(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path).expect("ours");
        path.canonicalize().expect("there").display().to_string()
    }

    fn mount(&mut self, words: &[&str], place: &str) {
        let status = Command::new("mount").args(words).arg(place).status().expect("mount (util-linux)");
        assert!(status.success(), "mount {words:?} {place}");
        self.mounted.push(place.to_owned());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for place in self.mounted.iter().rev() {
            // Lazily: a child that is still ending may hold it.
            let _ = Command::new("umount").args(["-l", place]).status();
        }
    }
}

/// A process with the mount options asked for, ended when dropped.
struct Run(Child);

impl Run {
    fn with(place: &str, options: &str) -> Self {
        let key = format!("mount.{place}.options");
        let settings = ProcessSettings::from_pairs([(key.as_str(), options)]).expect("an option");
        let mounts = settings.prepare_mounts().expect("it is mounted");
        let in_child = mounts.clone();
        let mut command = Command::new("sleep");
        // SAFETY: apply_in_child makes system calls only.
        unsafe { command.arg("60").pre_exec(move || in_child.apply_in_child()) };
        let run = Self(command.spawn().expect("sleep runs"));
        mounts.check(run.0.id()).expect("it has what was asked for");
        run
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The options of the mounts at a place, the one on top last, as a process sees them; this one without a process.
fn options_at(place: &str, run: Option<&Run>) -> Vec<Vec<String>> {
    let mounts = table(Path::new("/"), run.map(|run| run.0.id())).expect("a table");
    mounts.into_iter().filter(|mount| mount.mountpoint == place).map(|mount| mount.options).collect()
}

fn has(options: &[String], word: &str) -> bool {
    options.iter().any(|option| option == word)
}

#[test]
#[ignore = "mounts file systems; run by make test with --ignored --test-threads=1"]
fn host_of_two_mounts_at_one_place_the_upper_is_changed() {
    let mut place = Place::new();
    let at = place.at("twice");
    place.mount(&["-t", "tmpfs", "-o", "nosuid,relatime,size=1m", "lower"], &at);
    place.mount(&["-t", "tmpfs", "-o", "noexec,relatime,size=1m", "upper"], &at);
    let before = options_at(&at, None);
    let run = Run::with(&at, "noatime");
    let seen = options_at(&at, Some(&run));
    let [lower, upper] = seen.as_slice() else { panic!("two mounts: {seen:?}") };
    assert!(has(upper, "noatime") && has(upper, "noexec") && !has(upper, "nosuid"), "{seen:?}");
    assert_eq!(Some(lower), before.first(), "what is covered stays as it was");
    assert_eq!(options_at(&at, None), before, "outside nothing has changed");
}

#[test]
#[ignore = "mounts file systems; run by make test with --ignored --test-threads=1"]
fn host_of_one_file_system_at_two_places_the_named_one_is_changed() {
    let mut place = Place::new();
    let (first, second) = (place.at("first"), place.at("second"));
    place.mount(&["-t", "tmpfs", "-o", "nosuid,relatime,size=1m", "none"], &first);
    place.mount(&["--bind", &first], &second);
    let before = (options_at(&first, None), options_at(&second, None));
    let run = Run::with(&second, "noatime");
    let seen = options_at(&second, Some(&run));
    assert!(seen.len() == 1 && has(&seen[0], "noatime") && has(&seen[0], "nosuid"), "{seen:?}");
    assert_eq!(options_at(&first, Some(&run)), before.0, "the other place of the same file system");
    assert_eq!((options_at(&first, None), options_at(&second, None)), before, "outside nothing has changed");
}

/// What all processes share is not given to one: nothing is made.
#[test]
#[ignore = "mounts file systems; run by make test with --ignored --test-threads=1"]
fn host_an_option_of_the_file_system_is_refused() {
    let mut place = Place::new();
    let at = place.at("one");
    place.mount(&["-t", "tmpfs", "-o", "size=1m", "none"], &at);
    let before = options_at(&at, None);
    let key = format!("mount.{at}.options");
    for option in ["sync", "size=2m", "discard"] {
        let settings = ProcessSettings::from_pairs([(key.as_str(), option)]).expect("well formed");
        let error = settings.prepare_mounts().map(drop).expect_err("all would see it").to_string();
        assert!(error.contains(option) && error.contains("prepare"), "{option}: {error}");
    }
    let key = format!("mount.{}.options", place.at("one/nothing"));
    let settings = ProcessSettings::from_pairs([(key.as_str(), "noatime")]).expect("well formed");
    let error = settings.prepare_mounts().map(drop).expect_err("nothing is mounted there").to_string();
    assert!(error.contains("found nothing mounted at"), "{error}");
    assert_eq!(options_at(&at, None), before);
}
