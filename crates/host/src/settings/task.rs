//! `task.*`: how a process is scheduled, and what filters its calls.

use std::io;
use std::path::Path;

use super::{Collector, plain};
use crate::files::{text, tidy, under};
use crate::scheduling::{io_priority_of, policy_word};

/// `status` is the text of the process's file of that name, `status_file`.
pub(super) fn read(out: &mut Collector, pid: u32, status_file: &str, status: &io::Result<String>) {
    scheduling(out, pid);
    of_status(out, status_file, status);
    io_priority(out, pid);
    let source = format!("/proc/{pid}/timerslack_ns");
    match text(&under(out.root, &source)) {
        Ok(ns) => out.value("task.timer_slack_ns", tidy(&ns), &source),
        Err(error) => out.missing("task.timer_slack_ns", &source, plain(&error)),
    }
}

/// Fields of /proc/PID/stat, counted from the state, which is the third (proc_pid_stat(5)).
const NICE: usize = 19 - 3;
const RT_PRIORITY: usize = 40 - 3;
const POLICY: usize = 41 - 3;

fn scheduling(out: &mut Collector, pid: u32) {
    let source = format!("/proc/{pid}/stat");
    let stat = match text(&under(out.root, &source)) {
        Ok(stat) => stat,
        Err(error) => {
            let reason = plain(&error);
            out.missing("task.nice", &source, &*reason);
            out.missing("task.policy", &source, &*reason);
            return;
        }
    };
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    match fields.get(NICE) {
        Some(nice) => out.value("task.nice", *nice, &source),
        None => out.missing("task.nice", &source, "no field 19"),
    }
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok());
    match (number(POLICY).and_then(|number| i32::try_from(number).ok()), number(RT_PRIORITY)) {
        (Some(policy), Some(priority)) => out.value("task.policy", policy_word(policy, priority), &source),
        _ => out.missing("task.policy", &source, "no fields 40 and 41"),
    }
}

/// Lines of /proc/PID/status and the keys they stand for.
const LINES: &[(&str, &str)] = &[
    ("Cpus_allowed_list:", "task.affinity"),
    ("Mems_allowed_list:", "task.mems_allowed"),
    ("Seccomp:", "task.seccomp"),
    ("Seccomp_filters:", "task.seccomp_filters"),
];

fn of_status(out: &mut Collector, source: &str, status: &io::Result<String>) {
    for (line, key) in LINES {
        let found = match status {
            Ok(status) => status.lines().find_map(|one| one.strip_prefix(line)).map(tidy),
            Err(error) => {
                out.missing(*key, source, plain(error));
                continue;
            }
        };
        match found {
            Some(mode) if *key == "task.seccomp" => out.value(*key, seccomp_word(&mode), source),
            Some(value) => out.value(*key, value, source),
            None => out.missing(*key, source, format!("the kernel has no line {line}")),
        }
    }
}

/// include/uapi/linux/seccomp.h
fn seccomp_word(mode: &str) -> &str {
    match mode {
        "0" => "off",
        "1" => "strict",
        "2" => "filter",
        other => other,
    }
}

fn io_priority(out: &mut Collector, pid: u32) {
    const KEY: &str = "task.io_priority";
    const SOURCE: &str = "ioprio_get(2)";
    if out.root != Path::new("/") {
        return;
    }
    match io_priority_of(pid) {
        Ok(word) => out.value(KEY, word, SOURCE),
        Err(error) => out.missing(KEY, SOURCE, plain(&error)),
    }
}
