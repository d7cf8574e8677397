//! The files of the control group that the target's first process is in: throttling, memory, requests, pressure.
//!
//! The group is the one that the process is in when it is found, of either version; what a group has no controller for is
//! refused with the reason. Limits are settings (`cgroup.*` in docs/settings.md), and no metrics.

use std::path::Path;

use pagelab_residency::own_groups;
use rustix::io::Errno;

use super::catalogue::{Opened, attribute, spec};
use super::parse;
use super::source::{EACH_SECOND, Parser, Spec};

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

/// Opens what there is for the process whose folder in `/proc` is `process`.
pub(super) fn open(root: &Path, process: &Path, opened: &mut Opened) {
    for (spec, controller, files) in WANTED {
        let folders = own_groups(root, process, controller);
        let mut paths = folders.iter().flat_map(|folder| files.iter().map(|(file, field)| (folder.join(file), *field)));
        if let Some((path, field)) = paths.find(|(path, _)| path.exists()) {
            opened.add(*spec, attribute(&path, field, "", true));
            continue;
        }
        let folder = folders.first().cloned().unwrap_or_else(|| root.join("sys/fs/cgroup"));
        let file = spec.name.rsplit('/').next().unwrap_or_default();
        opened.refuse(*spec, &folder.join(file).display().to_string(), Errno::NOENT);
    }
}
