//! `mount.<mountpoint>.*`.

use pagelab_residency::mounts::{Mount, table};

use super::{Collector, Setting};

pub(super) fn path_of(pid: Option<u32>) -> String {
    pid.map_or_else(|| "/proc/self/mountinfo".to_owned(), |pid| format!("/proc/{pid}/mountinfo"))
}

pub(super) fn read(out: &mut Collector, pid: Option<u32>) {
    let source = path_of(pid);
    // The table lists mounts in the order in which they were made: a later one at the same place lies on top, and the
    // collector keeps the later row.
    let Ok(mounts) = table(out.root, pid) else { return };
    for mount in mounts {
        for setting in rows(&mount, &source) {
            out.value(setting.key, setting.value.unwrap_or_default(), &source);
        }
    }
}

/// The settings of one mount; `source` is the table that it was read from.
pub(super) fn rows(mount: &Mount, source: &str) -> [Setting; 3] {
    let mut options: Vec<&str> = mount.options.iter().chain(&mount.fs_options).map(String::as_str).collect();
    options.sort_unstable();
    options.dedup();
    // The file system can be writable under a mount that is not; the mount's option decides for the files below it.
    if options.contains(&"ro") && options.contains(&"rw") {
        let kept = if mount.options.iter().any(|option| option == "ro") { "rw" } else { "ro" };
        options.retain(|option| *option != kept);
    }
    let at = &mount.mountpoint;
    let row = |name: &str, value: String| Setting {
        key: format!("mount.{at}.{name}"),
        value: Some(value),
        source: source.to_owned(),
        reason: None,
    };
    [row("options", options.join(",")), row("fs", mount.fs.clone()), row("source", mount.source.clone())]
}
