//! What pagelab itself may do on a host: which of its sources are open to the calling user.

use std::path::Path;

use serde::Serialize;

use crate::files::{bytes_up_to, names, trimmed, under};

/// One thing that pagelab can do, or cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ability {
    /// What it is, such as `bpf`.
    pub name: &'static str,
    /// Its use.
    pub what_for: &'static str,
    /// Whether it is available, as far as can be seen without trying; `pagelab record` tries.
    pub possible: bool,
    /// What was found.
    pub found: String,
    /// What would be needed, where it cannot be had.
    pub needed: Option<&'static str>,
}

/// What each ability is found by.
struct Source {
    name: &'static str,
    what_for: &'static str,
    needed: &'static str,
    /// Whether it is available, and the evidence.
    find: fn(&Path) -> (bool, String),
}

const SOURCES: &[Source] = &[
    Source {
        name: "bpf",
        what_for: "record every fault, mapping, system call and wait",
        needed: "root (or CAP_BPF and CAP_PERFMON) and a kernel with CONFIG_DEBUG_INFO_BTF; try: sudo pagelab ...",
        find: bpf,
    },
    Source {
        name: "perf_events",
        what_for: "record faults and profiles of one's own programs where BPF cannot be had",
        needed: "kernel.perf_event_paranoid of at most 2; try: sudo sysctl kernel.perf_event_paranoid=2",
        find: perf_events,
    },
    Source {
        name: "hardware_counters",
        what_for: "count cycles, instructions, cache and TLB misses",
        needed: "a processor whose counters the kernel shows; in a virtual machine the host must pass them through",
        find: hardware_counters,
    },
    Source {
        name: "tracefs",
        what_for: "see system calls where BPF cannot be had",
        needed: "tracefs, readable; try: sudo mount -t tracefs none /sys/kernel/tracing",
        find: |root| readable_folder(root, "/sys/kernel/tracing/events"),
    },
    Source {
        name: "frame_flags",
        what_for: "tell a huge page that was split from pages that came small",
        needed: "root (CAP_SYS_ADMIN); try: sudo pagelab ...",
        find: |root| readable(root, "/proc/kpageflags"),
    },
    Source {
        name: "settings",
        what_for: "change settings for an experiment and put them back",
        needed: "root, and a /sys that can be written; try: sudo pagelab ...",
        find: |root| writable(root, "/sys/kernel/mm/transparent_hugepage/enabled"),
    },
    Source {
        name: "pools",
        what_for: "make pools of huge pages larger and smaller (pagelab hugepages set)",
        needed: "root, and a kernel with CONFIG_HUGETLBFS; try: sudo pagelab ...",
        find: |root| writable(root, "/proc/sys/vm/nr_hugepages"),
    },
    Source {
        name: "mounts",
        what_for: "mount hugetlbfs (pagelab hugepages mounts create)",
        needed: "root (CAP_SYS_ADMIN), and a kernel with CONFIG_HUGETLBFS; try: sudo pagelab ...",
        find: mounts,
    },
];

/// All abilities, looked for below `root`.
pub(super) fn read(root: &Path) -> Vec<Ability> {
    let found = SOURCES.iter().map(|source| {
        let (possible, found) = (source.find)(root);
        let Source { name, what_for, needed, .. } = *source;
        Ability { name, what_for, possible, found, needed: (!possible).then_some(needed) }
    });
    found.collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn user() -> String {
    format!("user {}", rustix::process::geteuid().as_raw())
}

fn bpf(root: &Path) -> (bool, String) {
    let types = under(root, "/sys/kernel/btf/vmlinux").exists();
    let with = if types { "types of the kernel (BTF)" } else { "no types of the kernel (/sys/kernel/btf/vmlinux)" };
    (types && is_root(), format!("{}, {with}", user()))
}

fn perf_events(root: &Path) -> (bool, String) {
    const LEVEL: &str = "/proc/sys/kernel/perf_event_paranoid";
    match trimmed(root, LEVEL) {
        Some(text) => {
            let level = text.parse::<i32>().ok();
            (is_root() || level.is_some_and(|level| level <= 2), format!("perf_event_paranoid {text}, {}", user()))
        }
        None => (false, format!("no {LEVEL}: the kernel was built without perf events")),
    }
}

fn hardware_counters(root: &Path) -> (bool, String) {
    // The processor's own unit: `cpu`, or with cores of several kinds `cpu_core` and `cpu_atom`; on arm64 `armv8_...`.
    let all = names(&under(root, "/sys/bus/event_source/devices"));
    let unit = all.iter().find(|name| name.starts_with("cpu") || name.starts_with("armv"));
    match unit {
        Some(unit) => (true, format!("event source {unit}")),
        None => (false, format!("event sources {}, none of them the processor's", all.join(", "))),
    }
}

fn readable(root: &Path, path: &str) -> (bool, String) {
    match bytes_up_to(&under(root, path), 0).map_err(|error| error.kind()) {
        // Opened and read: a length above zero was expected.
        Ok(_) | Err(std::io::ErrorKind::FileTooLarge) => (true, format!("{path} can be read")),
        Err(kind) => (false, format!("{path}: {kind}")),
    }
}

fn readable_folder(root: &Path, path: &str) -> (bool, String) {
    match std::fs::read_dir(under(root, path)) {
        Ok(_) => (true, format!("{path} can be read")),
        Err(error) => (false, format!("{path}: {}", error.kind())),
    }
}

fn writable(root: &Path, knob: &str) -> (bool, String) {
    // Opening writes nothing.
    match std::fs::File::options().write(true).open(under(root, knob)) {
        Ok(_) => (true, format!("{knob} can be written")),
        Err(error) => (false, format!("{knob}: {}", error.kind())),
    }
}

fn mounts(root: &Path) -> (bool, String) {
    let known = trimmed(root, "/proc/filesystems").unwrap_or_default();
    let has = known.lines().any(|line| line.split_whitespace().last() == Some("hugetlbfs"));
    (has && is_root(), format!("{}, {} hugetlbfs in /proc/filesystems", user(), if has { "with" } else { "no" }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Root;

    #[test]
    fn what_cannot_be_had_says_what_it_needs() {
        let root = Root::new();
        for ability in read(root.path()) {
            assert!(!ability.possible && ability.needed.is_some() && !ability.found.is_empty(), "{ability:?}");
        }
        root.write("/proc/kpageflags", "12345678");
        root.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        root.write("/proc/sys/vm/nr_hugepages", "0\n");
        root.write("/sys/bus/event_source/devices/cpu/type", "4\n");
        let possible: Vec<&str> = read(root.path()).iter().filter(|one| one.possible).map(|one| one.name).collect();
        assert_eq!(possible, ["hardware_counters", "frame_flags", "settings", "pools"]);
        assert_eq!(
            std::fs::read_to_string(root.at("/sys/kernel/mm/transparent_hugepage/enabled")).expect("it is there"),
            "always [madvise] never\n",
            "looking changes nothing"
        );
    }
}
