//! Settings of host and target in the recording: at the start, a moment later where the command changed its own, and at the end.
//!
//! Many a command is a program that changes its own settings and becomes another: taskset, nice, chrt, numactl, env, a shell that enters
//! a control group. What the work ran under is what holds after that, so what is the process's own is read once more, and what differs
//! by then is a further row of `start`, which readers take in place of the first.

use std::path::Path;

use pagelab_host::settings::{self, Setting, SnapshotOptions};
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::SettingsRow;

use crate::options::SessionOptions;
use crate::process_settings::ProcessSettings;
use crate::subject::Subject;

fn shown_env(options: &SessionOptions) -> Vec<String> {
    // What a plan sets is no secret.
    options.process_settings.env().map(|(name, _)| name.to_owned()).collect()
}

/// What takes the rows.
pub(crate) struct Rows<'a> {
    pub writer: &'a mut RecordingWriter,
    pub own: &'a mut ProcessSettings,
    /// Now, CLOCK_MONOTONIC, ns.
    pub ts: i64,
}

/// Writes the settings as they are now; `at` is `start` or `end`.
pub(crate) fn write(options: &SessionOptions, mut rows: Rows<'_>, pid: Option<u32>, at: &'static str) {
    if !options.streams.contains(Stream::Settings) {
        return;
    }
    let is_start = at == "start";
    // The kernel's configuration cannot change while it runs.
    let wanted = SnapshotOptions { pid, shown_env: shown_env(options), kconfig: is_start };
    // The environment is read while the command has the recorder's. What is set for it is known without reading.
    let is_known = is_start && options.target.is_started();
    let set = options.process_settings.pairs().filter(|(key, _)| is_known && key.starts_with("env."));
    let set: Vec<(&str, &str)> = set.collect();
    for (key, value) in &set {
        rows.push(at, &Setting { source: "set for the command".to_owned(), ..of(key, Some(value)) });
    }
    for setting in settings::snapshot_with(Path::new("/"), &wanted) {
        if !set.iter().any(|(key, _)| *key == setting.key) {
            rows.push(at, &setting);
        }
    }
    if is_known {
        rows.own.read_again_soon();
    }
}

/// Reads the process's own settings again once it is time.
pub(crate) fn write_changed(options: &SessionOptions, mut rows: Rows<'_>, subject: &Subject) {
    if !rows.own.is_due() {
        return;
    }
    let Some(pid) = subject.pid() else { return };
    for setting in settings::of_process(Path::new("/"), pid, &shown_env(options)) {
        // A process that has ended meanwhile has no values: what was read stands.
        if setting.value.is_some() && rows.own.differs(&setting.key, setting.value.as_deref()) {
            rows.push("start", &setting);
        }
    }
}

/// Writes which builds of programs and libraries the recorded tasks ran, as far as it was not known at the start: of what a process loads
/// later, and of its children's. They are rows of `start`, too: a build does not change while it runs.
pub(crate) fn write_builds(mut rows: Rows<'_>, builds: &[Setting]) {
    for setting in builds {
        // The command's own program has a key of its own.
        let value = setting.value.as_deref();
        if rows.own.differs(&setting.key, value) && rows.own.differs("program.build_id", value) {
            rows.push("start", setting);
        }
    }
}

/// Writes the settings of mounts that the target uses, as far as they were not known at the start: of one that it made, and of one that
/// only its namespace has.
pub(crate) fn write_mounts(mut rows: Rows<'_>, mounts: &[Setting]) {
    for setting in mounts {
        if rows.own.differs(&setting.key, setting.value.as_deref()) {
            rows.push("start", setting);
        }
    }
}

fn of(key: &str, value: Option<&str>) -> Setting {
    Setting { key: key.to_owned(), value: value.map(str::to_owned), source: String::new(), reason: None }
}

impl Rows<'_> {
    fn push(&mut self, at: &'static str, setting: &Setting) {
        if at == "start" {
            self.own.note(&setting.key, setting.value.as_deref());
        }
        let (key, value, source) = (setting.key.as_str(), setting.value.as_deref(), setting.source.as_str());
        self.writer.push(&SettingsRow { ts: self.ts, key, value, source, at });
    }
}
