//! The files of the control group that the target works in: throttling, memory, requests, pressure.
//!
//! The group is that of the first process, of either version; what a group has no controller for is refused with the reason. A target
//! that moves is followed: the first process itself (`echo $$ > cgroup.procs`), or one that it started (cgexec, systemd-run --scope) while
//! it stays where it was. Counters go on from where they were, so that what they rise by is the target's in each group. What the
//! new group counted before the move was seen, up to a tenth of a second, is not in them. Limits are settings (`cgroup.*` in
//! docs/settings.md), and no metrics.

use std::fs;
use std::path::{Path, PathBuf};

use pagelab_residency::own_groups;
use rustix::io::Errno;

use super::catalogue::{Opened, attribute, spec};
use super::members::{MAX_MEMBERS, process_dir};
use super::parse;
use super::source::{EACH_SECOND, Parser, Part, Source, Spec};

/// A source, the controller that it is of, and the files that it may be: name, and the field of a lone number.
type Wanted = (Spec, &'static str, &'static [(&'static str, &'static str)]);

const fn each_second(name: &'static str, prefix: &'static str, parse: Parser, missing: &'static str) -> Spec {
    Spec { base_ns: EACH_SECOND, ..spec(name, prefix, parse, missing) }
}

const NO_PRESSURE: &str = "groups have pressure on version 2 alone (kernel with CONFIG_PSI)";

const WANTED: &[Wanted] = &[
    (
        each_second("<cgroup>/cpu.stat", "cgroup.cpu.", parse::cgroup_cpu, "the group has no CPU controller"),
        "cpu",
        &[("cpu.stat", "")],
    ),
    (
        each_second(
            "<cgroup>/memory.current",
            "cgroup.memory.",
            parse::one_number,
            "the group has no memory controller",
        ),
        "memory",
        &[("memory.current", "current_bytes"), ("memory.usage_in_bytes", "current_bytes")],
    ),
    (
        each_second(
            "<cgroup>/memory.events",
            "cgroup.memory.",
            parse::cgroup_events,
            "the group has no memory controller",
        ),
        "memory",
        &[("memory.events", "")],
    ),
    (
        each_second(
            "<cgroup>/memory.failcnt",
            "cgroup.memory.",
            parse::one_number,
            "version 2 counts it in memory.events",
        ),
        "memory",
        &[("memory.failcnt", "max_events")],
    ),
    (
        each_second(
            "<cgroup>/memory.stat",
            "cgroup.memory.",
            parse::cgroup_memory,
            "the group has no memory controller",
        ),
        "memory",
        &[("memory.stat", "")],
    ),
    (
        each_second("<cgroup>/io.stat", "cgroup.io.", parse::cgroup_io, "version 1 has blkio.throttle.*"),
        "io",
        &[("io.stat", "")],
    ),
    (
        each_second(
            "<cgroup>/blkio.throttle.io_service_bytes",
            "cgroup.io.",
            parse::cgroup_io_bytes,
            "version 2 has io.stat",
        ),
        "blkio",
        &[("blkio.throttle.io_service_bytes_recursive", "")],
    ),
    (
        each_second("<cgroup>/blkio.throttle.io_serviced", "cgroup.io.", parse::cgroup_ios, "version 2 has io.stat"),
        "blkio",
        &[("blkio.throttle.io_serviced_recursive", "")],
    ),
    (
        each_second("<cgroup>/cpu.pressure", "cgroup.psi.cpu.", parse::pressure, NO_PRESSURE),
        "cpu",
        &[("cpu.pressure", "")],
    ),
    (
        each_second("<cgroup>/memory.pressure", "cgroup.psi.memory.", parse::pressure, NO_PRESSURE),
        "memory",
        &[("memory.pressure", "")],
    ),
    (each_second("<cgroup>/io.pressure", "cgroup.psi.io.", parse::pressure, NO_PRESSURE), "io", &[("io.pressure", "")]),
];

/// The file of a source for the process whose folder in `/proc` is `process`, or the error with the file that there would be.
fn part(root: &Path, process: &Path, (spec, controller, files): &Wanted) -> Result<Part, (String, Errno)> {
    let folders = own_groups(root, process, controller);
    let mut paths = folders.iter().flat_map(|folder| files.iter().map(|(file, field)| (folder.join(file), *field)));
    if let Some((path, field)) = paths.find(|(path, _)| path.exists()) {
        return attribute(&path, field, "", true);
    }
    let folder = folders.first().cloned().unwrap_or_else(|| root.join("sys/fs/cgroup"));
    let file = spec.name.rsplit('/').next().unwrap_or_default();
    Err((folder.join(file).display().to_string(), Errno::NOENT))
}

/// Opens what there is for the process whose folder in `/proc` is `process`.
pub(super) fn open(root: &Path, process: &Path, opened: &mut Opened) {
    for wanted in WANTED {
        opened.add(wanted.0, part(root, process, wanted));
    }
}

/// The same once the target has moved: what was open gives way to the files of the new group.
fn open_again(root: &Path, process: &Path, sources: &mut Vec<Source>) {
    for wanted in WANTED {
        let found = part(root, process, wanted).ok();
        match (sources.iter_mut().find(|source| source.spec.name == wanted.0.name), found) {
            (Some(source), found) => source.go_on_with(found),
            (None, Some(part)) => sources.push(Source::new(wanted.0, vec![part])),
            (None, None) => {}
        }
    }
}

/// Processes whose group is looked up in one sample, beside the one that is followed.
const LOOKS: usize = 8;

/// Which group the target works in.
pub(super) struct Groups {
    /// The process whose group is read.
    followed: u32,
    /// Its groups as `/proc/PID/cgroup` told them last, and those of the first process when it was found.
    now: String,
    at_first: String,
    /// Processes that came after the first one; the next look begins with this one.
    others: Vec<u32>,
    next: usize,
}

impl Groups {
    pub(super) fn of(root: &Path, first: u32) -> Self {
        let now = told(root, first).unwrap_or_default();
        Self { followed: first, at_first: now.clone(), now, others: Vec::new(), next: 0 }
    }

    pub(super) fn add(&mut self, pid: u32) {
        if self.others.len() < MAX_MEMBERS && pid != self.followed && !self.others.contains(&pid) {
            self.others.push(pid);
        }
    }

    pub(super) fn remove(&mut self, pid: u32) {
        self.others.retain(|other| *other != pid);
    }

    /// Looks whether the target has moved, and opens the files of its new group.
    pub(super) fn follow(&mut self, root: &Path, sources: &mut Vec<Source>) {
        let Some(pid) = self.moved(root) else { return };
        self.followed = pid;
        open_again(root, &process_dir(root, pid), sources);
    }

    /// The process by which the target has moved, if it has: the one that is followed, or another while none has left the first group.
    fn moved(&mut self, root: &Path) -> Option<u32> {
        let own = told(root, self.followed);
        let followed = self.followed;
        if let Some(now) = own.as_ref().filter(|now| **now != self.now) {
            self.now.clone_from(now);
            return Some(followed);
        }
        if own.is_some() && self.now != self.at_first {
            return None;
        }
        for _ in 0..LOOKS.min(self.others.len()) {
            self.next = (self.next + 1) % self.others.len().max(1);
            let Some(other) = self.others.get(self.next).copied() else { continue };
            match told(root, other) {
                None => self.remove(other),
                Some(now) if now != self.at_first && now != self.now => {
                    self.now = now;
                    return Some(other);
                }
                Some(_) => {}
            }
        }
        None
    }
}

/// The groups of a process, a line each; `None` where it has ended: a process that has, and was not waited for, is in the topmost.
fn told(root: &Path, pid: u32) -> Option<String> {
    let folder: PathBuf = process_dir(root, pid);
    let text = fs::read_to_string(folder.join("cgroup")).ok().filter(|text| !text.is_empty())?;
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
    (!matches!(state, 'Z' | 'X')).then_some(text)
}
