//! `env.*`, `rlimit.*`, `mm.thp_disable` and `task.*` of one process.

use std::collections::BTreeSet;
use std::io;

use pagelab_vocab::settings::{Reading, setting};

use super::{Collector, mask, plain, task};
use crate::files::{bytes_up_to, text, tidy, under};

/// The kernel bounds arguments and environment together to a quarter of the stack limit, usually 2 MiB.
const LONGEST_ENVIRON: usize = 8 << 20;

/// Lines of /proc/PID/limits and the keys they stand for.
pub(crate) const LIMITS: &[(&str, &str)] = &[
    ("Max cpu time", "cpu"),
    ("Max file size", "fsize"),
    ("Max data size", "data"),
    ("Max stack size", "stack"),
    ("Max core file size", "core"),
    ("Max resident set", "rss"),
    ("Max processes", "nproc"),
    ("Max open files", "nofile"),
    ("Max locked memory", "memlock"),
    ("Max address space", "as"),
    ("Max file locks", "locks"),
    ("Max pending signals", "sigpending"),
    ("Max msgqueue size", "msgqueue"),
    ("Max nice priority", "nice"),
    ("Max realtime priority", "rtprio"),
    ("Max realtime timeout", "rttime"),
];

pub(super) fn read(out: &mut Collector, pid: u32, shown: &BTreeSet<&str>) {
    environment(out, pid, shown);
    limits(out, pid);
    let source = format!("/proc/{pid}/status");
    let status = text(&under(out.root, &source));
    thp_disable(out, &source, &status);
    task::read(out, pid, &source, &status);
}

fn environment(out: &mut Collector, pid: u32, shown: &BTreeSet<&str>) {
    let source = format!("/proc/{pid}/environ");
    // An environment that cannot be read has no names either, so there is no key to say so under.
    let Ok(bytes) = bytes_up_to(&under(out.root, &source), LONGEST_ENVIRON) else { return };
    for entry in bytes.split(|byte| *byte == 0) {
        let Some(at) = entry.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = entry.split_at(at);
        let value = value.get(1..).unwrap_or_default();
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if name.is_empty() {
            continue;
        }
        let key = format!("env.{name}");
        let masked = setting(&key).is_none_or(|info| info.def.reading != Reading::Plain) && !shown.contains(name);
        let value = if masked { mask(value) } else { String::from_utf8_lossy(value).into_owned() };
        out.value(key, value, &source);
    }
}

/// `soft:hard` of each limit.
fn limits(out: &mut Collector, pid: u32) {
    let source = format!("/proc/{pid}/limits");
    let table = match text(&under(out.root, &source)) {
        Ok(table) => table,
        Err(error) => {
            let reason = plain(&error);
            for (_, name) in LIMITS {
                out.missing(format!("rlimit.{name}"), &source, &*reason);
            }
            return;
        }
    };
    for line in table.lines() {
        let Some((rest, name)) = LIMITS.iter().find_map(|(title, name)| Some((line.strip_prefix(title)?, name))) else {
            continue;
        };
        let mut words = rest.split_whitespace();
        if let (Some(soft), Some(hard)) = (words.next(), words.next()) {
            out.value(format!("rlimit.{name}"), format!("{soft}:{hard}"), &source);
        }
    }
}

fn thp_disable(out: &mut Collector, source: &str, status: &io::Result<String>) {
    const KEY: &str = "mm.thp_disable";
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            out.missing(KEY, source, plain(error));
            return;
        }
    };
    // A kernel without transparent huge pages says 0 as well, and there it means nothing.
    if !under(out.root, "/sys/kernel/mm/transparent_hugepage").is_dir() {
        out.missing(KEY, source, "the kernel has no transparent huge pages");
        return;
    }
    let enabled = status.lines().find_map(|line| line.strip_prefix("THP_enabled:"));
    match enabled.map(tidy).as_deref() {
        Some("1") => out.value(KEY, "0", source),
        Some("0") => out.value(KEY, "1", source),
        _ => out.missing(KEY, source, "no line THP_enabled (kernels before 5.0, and threads that have ended)"),
    }
}
