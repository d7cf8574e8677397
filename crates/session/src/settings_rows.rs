//! Settings of host and target in the recording: at the start, a moment later where the command changed its own, and at the end.
//!
//! Many a command is a program that changes its own settings and becomes another: taskset, nice, chrt, numactl, env, a shell that enters
//! a control group. What the work ran under is what holds after that, so what is the process's own is read once more, and what differs
//! by then is a further row of `start`, which readers take in place of the first.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use pagelab_host::settings::{self, Setting, SnapshotOptions};
use pagelab_observe::streams::Stream;
use pagelab_recording::tables::SettingsRow;

use crate::options::SessionOptions;
use crate::recorder::{Recorder, monotonic_ns};
use crate::subject::Subject;

/// By then a wrapper has become the program that it starts; few programs have done much of their work.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Namespaces of keys that are the process's own.
const OF_PROCESS: [&str; 5] = ["task.", "mm.thp_disable", "rlimit.", "env.", "cgroup."];

/// What of the settings was the process's own at the start.
#[derive(Debug, Default)]
pub(crate) struct ProcessSettings {
    at_start: BTreeMap<String, Option<String>>,
    /// When it is read again; `None`: not any more.
    due: Option<Instant>,
}

fn shown_env(options: &SessionOptions) -> Vec<String> {
    // What a plan sets is no secret.
    options.process_settings.env().map(|(name, _)| name.to_owned()).collect()
}

/// Writes the settings as they are now; `at` is `start` or `end`.
pub(crate) fn write(options: &SessionOptions, recorder: &mut Recorder, pid: Option<u32>, at: &'static str) {
    if !options.streams.contains(Stream::Settings) {
        return;
    }
    let is_start = at == "start";
    let ts = monotonic_ns();
    // The kernel's configuration cannot change while it runs.
    let wanted = SnapshotOptions { pid, shown_env: shown_env(options), kconfig: is_start };
    // The environment is read while the command has the recorder's. What is set for it is known without reading.
    let is_known = is_start && options.target.is_started();
    let set = options.process_settings.pairs().filter(|(key, _)| is_known && key.starts_with("env."));
    let set: Vec<(&str, &str)> = set.collect();
    for (key, value) in &set {
        push(recorder, ts, at, &Setting { source: "set for the command".to_owned(), ..of(key, Some(value)) });
    }
    for setting in settings::snapshot_with(Path::new("/"), &wanted) {
        if !set.iter().any(|(key, _)| *key == setting.key) {
            push(recorder, ts, at, &setting);
        }
    }
    if is_start && is_known {
        recorder.process_settings.due = Some(Instant::now() + AGAIN_AFTER);
    }
}

/// Reads the process's own settings again once it is time.
pub(crate) fn write_changed(options: &SessionOptions, recorder: &mut Recorder, subject: &Subject) {
    if recorder.process_settings.due.is_none_or(|due| Instant::now() < due) {
        return;
    }
    recorder.process_settings.due = None;
    let Some(pid) = subject.pid() else { return };
    let ts = monotonic_ns();
    for setting in settings::of_process(Path::new("/"), pid, &shown_env(options)) {
        let before = recorder.process_settings.at_start.get(&setting.key);
        // A process that has ended meanwhile has no values: what was read stands.
        if setting.value.is_some() && before != Some(&setting.value) {
            push(recorder, ts, "start", &setting);
        }
    }
}

fn of(key: &str, value: Option<&str>) -> Setting {
    Setting { key: key.to_owned(), value: value.map(str::to_owned), source: String::new(), reason: None }
}

fn push(recorder: &mut Recorder, ts: i64, at: &'static str, setting: &Setting) {
    if at == "start" && OF_PROCESS.iter().any(|namespace| setting.key.starts_with(namespace)) {
        recorder.process_settings.at_start.insert(setting.key.clone(), setting.value.clone());
    }
    let (key, value, source) = (setting.key.as_str(), setting.value.as_deref(), setting.source.as_str());
    recorder.writer.push(&SettingsRow { ts, key, value, source, at });
}
