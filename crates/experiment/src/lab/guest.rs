//! The guest's side: does what the host asks for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use pagelab_host::settings::{self, SettingError};

use super::{ANSWER, Answer, RECORDING, REQUEST, Request, share};
use crate::failure::{Failure, FailureKind};
use crate::local::LocalRunner;
use crate::plan::{Between, FilledVariant, filled_device, has_placeholder};
use crate::runner::{Change, HostControl, Made, RunError, RunErrorKind, RunSpec, Step, under};

/// Where recordings are made: the guest's memory.
const HERE: &str = "/run/pagelab-recording";

/// What a boot setting was before is nothing that anybody measured.
const BEFORE_BOOT: &str = "not booted";

/// Standard error of the guest's pagelab is what the host shows.
fn say(what: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "pagelab: {what}");
}

/// Does what `FOLDER/request.json` asks for and leaves `FOLDER/answer.json`. Gives the exit status.
pub fn guest_main(words: &[OsString]) -> i32 {
    let [folder] = words else {
        say("needed: the shared folder; this command is for pagelab's own use");
        return 2;
    };
    let folder = Path::new(folder);
    let answered = share::read::<Request>(&folder.join(REQUEST))
        .map(|request| answer(&request, folder))
        .and_then(|answer| share::write(&folder.join(ANSWER), &answer));
    match answered {
        Ok(()) => 0,
        Err(error) => {
            say(&error);
            1
        }
    }
}

fn answer(request: &Request, folder: &Path) -> Answer {
    let runner = match LocalRunner::new() {
        Ok(runner) => runner,
        Err(error) => return Answer::Failed(RunError::new(RunErrorKind::Host, error.to_string())),
    };
    let done = match request {
        Request::Check { variant, between } => check(&runner, variant, between),
        Request::Step(step) => step_here(&runner, step),
        Request::Make { variant, spec } => return Answer::Made(Box::new(make(&runner, variant, spec, folder))),
    };
    done.map_or_else(Answer::Failed, |()| Answer::Done)
}

/// Whether this guest has the variant's settings, and booted as requested.
fn check(runner: &LocalRunner, variant: &FilledVariant, between: &[Between]) -> Result<(), RunError> {
    let root = Path::new("/");
    let refused = |error: SettingError| RunError::new(RunErrorKind::Host, error.to_string());
    let now = variant.host.iter().filter(|(key, _)| !comes_with_prepare(root, key));
    let now: BTreeMap<String, String> = now.map(|(key, value)| (key.clone(), value.clone())).collect();
    // The guest goes with the experiment: nothing that is set in it outlives the plan.
    settings::allow(now.keys().map(String::as_str)).map_err(refused)?;
    for (key, value) in now.iter().chain(&variant.process) {
        settings::check(root, key, value).map_err(refused)?;
    }
    if let Some(failure) = Failure::of_changes(&booted(variant)) {
        return Err(RunError::new(RunErrorKind::Host, failure.reason));
    }
    runner.check(&now, between)
}

/// Whether `prepare` may first have to make what the setting belongs to: a file system, or a module that it loads. Such a
/// setting is looked at when the run comes.
fn comes_with_prepare(root: &Path, key: &str) -> bool {
    let module = key.strip_prefix("module.").and_then(|rest| rest.split('.').next());
    has_placeholder(key) || module.is_some_and(|module| !root.join("sys/module").join(module).exists())
}

/// The settings of the boot, as this kernel has them.
fn booted(variant: &FilledVariant) -> Vec<Change> {
    let read = |key: &str| settings::read(Path::new("/"), key).unwrap_or_else(|_| "not there".to_owned());
    let change = |(key, asked): (&String, &String)| Change {
        key: key.clone(),
        previous: BEFORE_BOOT.to_owned(),
        asked: asked.clone(),
        got: read(key),
    };
    variant.booted.iter().map(change).collect()
}

fn step_here(runner: &LocalRunner, step: &Step) -> Result<(), RunError> {
    if let Step::Prepare(program) | Step::Cleanup(program) = step {
        make_folder(&program.workdir)?;
    }
    runner.step(step)
}

fn make_folder(dir: &Path) -> Result<(), RunError> {
    let failed =
        |error| RunError::new(RunErrorKind::Host, format!("cannot make {} in the guest: {error}", dir.display()));
    fs::create_dir_all(dir).map_err(failed)
}

fn make(runner: &LocalRunner, variant: &FilledVariant, spec: &RunSpec, folder: &Path) -> Made {
    let here = PathBuf::from(HERE);
    let refused = |kind, reason: String| Made {
        changes: Vec::new(),
        warnings: Vec::new(),
        result: Err(Some(Failure { kind, reason })),
    };
    // Leftovers of an aborted run.
    let _ = fs::remove_dir_all(&here);
    if let Err(error) = make_folder(&spec.workdir) {
        return refused(FailureKind::NotStarted, error.reason);
    }
    let mut host = BTreeMap::new();
    for (key, value) in &variant.host {
        match filled_device(Path::new("/"), &spec.workdir, key) {
            Ok(key) => {
                // A key that is wrong is refused when it is set.
                let _ = settings::allow([key.as_str()]);
                host.insert(key, value.clone());
            }
            Err(error) => {
                let reason = format!("{key}: found {}; needed: {}", error.found, error.needed);
                return refused(FailureKind::SettingRefused, reason);
            }
        }
    }
    let mut made = under(runner, &host, booted(variant), &RunSpec { dir: here.clone(), ..spec.clone() });
    if here.exists() {
        if let Err(error) = share::copy(&here, &folder.join(RECORDING)) {
            let reason = format!("the recording cannot be brought out of the guest: {error}");
            made.result = Err(Some(Failure { kind: FailureKind::Recording, reason }));
        }
        let _ = fs::remove_dir_all(&here);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_what_prepare_makes_are_left_for_the_run() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("sys/module/ext4")).expect("a module");
        for (key, later) in [
            ("module.ext4.dax_read", false),
            ("module.ramblk.delay_ns", true),
            ("thp.enabled", false),
            ("block.{device of /mnt}.read_ahead_kb", true),
        ] {
            assert_eq!(comes_with_prepare(root.path(), key), later, "{key}");
        }
    }
}
