//! `cgroup.<controller>.*`: limits of the target's groups, v1 and v2 under one key.

use std::path::Path;

use pagelab_vocab::settings::{format_size, parse_size};

use super::Collector;
use crate::cgroups::{CONTROLLERS, Group, place};
use crate::files::{names, text, trimmed, under};
use pagelab_residency::mounts::{Mount, table};

pub(super) fn read(out: &mut Collector, pid: u32) {
    let source = format!("/proc/{pid}/cgroup");
    let Ok(lines) = text(&under(out.root, &source)) else { return };
    let Ok(mounts) = table(out.root, Some(pid)) else { return };
    for controller in CONTROLLERS {
        let Some(group) = locate(out.root, controller, &lines, &mounts) else { continue };
        out.value(format!("cgroup.{controller}.version"), group.version.to_string(), &source);
        match *controller {
            "memory" => memory(out, &group),
            "cpu" => cpu(out, &group),
            "cpuset" => cpuset(out, &group),
            "io" => io(out, &group),
            "pids" => plain_file(out, &group, "cgroup.pids.max", "pids.max"),
            _ => hugetlb(out, &group),
        }
    }
}

/// The group of the target that has the controller's files.
fn locate(root: &Path, controller: &str, lines: &str, mounts: &[Mount]) -> Option<Group> {
    let group = place(controller, lines, mounts)?;
    // The root group has the controller without having its limits, so the list of controllers decides.
    let listed = || trimmed(root, &format!("{}/cgroup.controllers", group.folder)).unwrap_or_default();
    let has_it = group.version == 1 || listed().split_whitespace().any(|name| name == controller);
    has_it.then_some(group)
}

fn plain_file(out: &mut Collector, group: &Group, key: &str, file: &str) {
    if let Some(value) = group.value(out.root, file) {
        out.value(key, value, &format!("{}/{file}", group.folder));
    }
}

/// v1 says "no limit" with the largest whole number of pages that fits (PAGE_COUNTER_MAX), v2 with `max`.
fn bytes_or_max(text: &str) -> String {
    match text.parse::<u64>() {
        Ok(bytes) if bytes >= (1 << 62) => "max".to_owned(),
        _ => text.to_owned(),
    }
}

fn memory(out: &mut Collector, group: &Group) {
    let file = if group.version == 2 { "memory.max" } else { "memory.limit_in_bytes" };
    if let Some(value) = group.value(out.root, file) {
        out.value("cgroup.memory.max", bytes_or_max(&value), &format!("{}/{file}", group.folder));
    }
    effective_max(out, group, file);
    if group.version == 2 {
        for name in ["high", "low", "min", "swap.max", "zswap.max", "oom.group"] {
            plain_file(out, group, &format!("cgroup.memory.{name}"), &format!("memory.{name}"));
        }
        return;
    }
    if let Some(value) = group.value(out.root, "memory.soft_limit_in_bytes") {
        let source = format!("{}/memory.soft_limit_in_bytes", group.folder);
        out.value("cgroup.memory.soft_limit", bytes_or_max(&value), &source);
    }
    plain_file(out, group, "cgroup.memory.swappiness", "memory.swappiness");
    let both = group.value(out.root, "memory.memsw.limit_in_bytes");
    let limit = group.value(out.root, file);
    if let (Some(both), Some(limit)) = (both, limit) {
        // v1 limits memory and swap together; only with a memory limit does that bound swap alone.
        let swap = match (bytes_or_max(&both).parse::<u64>(), bytes_or_max(&limit).parse::<u64>()) {
            (Ok(both), Ok(limit)) => both.saturating_sub(limit).to_string(),
            (Ok(both), Err(_)) => both.to_string(),
            _ => "max".to_owned(),
        };
        out.value("cgroup.memory.swap.max", swap, &format!("{}/memory.memsw.limit_in_bytes", group.folder));
    }
}

fn effective_max(out: &mut Collector, group: &Group, file: &str) {
    let mut least: Option<(u64, String)> = None;
    let mut seen = false;
    for folder in group.upwards() {
        let path = format!("{folder}/{file}");
        let Ok(text) = text(&under(out.root, &path)) else { continue };
        seen = true;
        if let Ok(bytes) = bytes_or_max(text.trim()).parse::<u64>()
            && least.as_ref().is_none_or(|(known, _)| bytes < *known)
        {
            least = Some((bytes, path));
        }
    }
    match least {
        Some((bytes, path)) => out.value("cgroup.memory.max.effective", bytes.to_string(), &path),
        None if seen => out.value("cgroup.memory.max.effective", "max", &format!("{}/{file}", group.folder)),
        None => {}
    }
}

fn cpu(out: &mut Collector, group: &Group) {
    if group.version == 2 {
        for name in ["max", "max.burst", "weight", "idle"] {
            plain_file(out, group, &format!("cgroup.cpu.{name}"), &format!("cpu.{name}"));
        }
        return;
    }
    let quota = group.value(out.root, "cpu.cfs_quota_us");
    let period = group.value(out.root, "cpu.cfs_period_us");
    if let (Some(quota), Some(period)) = (quota, period) {
        let quota = if quota.starts_with('-') { "max".to_owned() } else { quota };
        out.value("cgroup.cpu.max", format!("{quota} {period}"), &format!("{}/cpu.cfs_quota_us", group.folder));
    }
    plain_file(out, group, "cgroup.cpu.max.burst", "cpu.cfs_burst_us");
    plain_file(out, group, "cgroup.cpu.idle", "cpu.idle");
    if let Some(shares) = group.value(out.root, "cpu.shares").and_then(|text| text.parse::<u64>().ok()) {
        // kernel/sched/core.c, cpu_weight_read_u64: weight = round(shares * 100 / 1024).
        let weight = shares.saturating_mul(100).saturating_add(512) / 1024;
        out.value("cgroup.cpu.weight", weight.to_string(), &format!("{}/cpu.shares", group.folder));
    }
}

fn cpuset(out: &mut Collector, group: &Group) {
    for (key, v2, v1) in [
        ("cgroup.cpuset.cpus", "cpuset.cpus", "cpuset.cpus"),
        ("cgroup.cpuset.mems", "cpuset.mems", "cpuset.mems"),
        ("cgroup.cpuset.cpus.effective", "cpuset.cpus.effective", "cpuset.effective_cpus"),
        ("cgroup.cpuset.mems.effective", "cpuset.mems.effective", "cpuset.effective_mems"),
    ] {
        plain_file(out, group, key, if group.version == 2 { v2 } else { v1 });
    }
}

fn io(out: &mut Collector, group: &Group) {
    if group.version == 2 {
        if let Some(limits) = group.value(out.root, "io.max") {
            let mut lines: Vec<&str> = limits.lines().collect();
            lines.sort_unstable();
            out.value("cgroup.io.max", or_max(lines.join("\n")), &format!("{}/io.max", group.folder));
        }
        plain_file(out, group, "cgroup.io.latency", "io.latency");
    } else if let Some(limits) = throttle(out.root, group) {
        out.value("cgroup.io.max", or_max(limits), &format!("{}/blkio.throttle.*_device", group.folder));
    }
    let prefix = if group.version == 2 { "io" } else { "blkio" };
    for (key, file) in [("cgroup.io.weight", "weight"), ("cgroup.io.bfq.weight", "bfq.weight")] {
        let file = format!("{prefix}.{file}");
        if let Some(weight) = group.value(out.root, &file) {
            let weight = weight.strip_prefix("default ").unwrap_or(&weight).to_owned();
            out.value(key, weight, &format!("{}/{file}", group.folder));
        }
    }
}

/// Without a line for any device there is no limit.
fn or_max(lines: String) -> String {
    if lines.is_empty() { "max".to_owned() } else { lines }
}

/// The four limits of v1, one line for each device, written as v2 does.
fn throttle(root: &Path, group: &Group) -> Option<String> {
    let kinds = [("rbps", "read_bps"), ("wbps", "write_bps"), ("riops", "read_iops"), ("wiops", "write_iops")];
    let mut devices: std::collections::BTreeMap<String, [Option<String>; 4]> = std::collections::BTreeMap::new();
    let mut seen = false;
    for (place, (_, kind)) in kinds.iter().enumerate() {
        let Some(lines) = group.value(root, &format!("blkio.throttle.{kind}_device")) else { continue };
        seen = true;
        for line in lines.lines() {
            let Some((device, limit)) = line.split_once(' ') else { continue };
            let limits = devices.entry(device.to_owned()).or_default();
            if let Some(slot) = limits.get_mut(place) {
                *slot = Some(limit.to_owned());
            }
        }
    }
    let lines: Vec<String> = devices
        .iter()
        .map(|(device, limits)| {
            let parts: Vec<String> = kinds
                .iter()
                .zip(limits)
                .map(|((name, _), limit)| format!("{name}={}", limit.as_deref().unwrap_or("max")))
                .collect();
            format!("{device} {}", parts.join(" "))
        })
        .collect();
    seen.then(|| lines.join("\n"))
}

/// Files are called `hugetlb.2MB.max` on v2 and `hugetlb.2MB.limit_in_bytes` on v1.
fn hugetlb(out: &mut Collector, group: &Group) {
    for file in names(&under(out.root, &group.folder)) {
        let Some(rest) = file.strip_prefix("hugetlb.") else { continue };
        let Some((size, what)) = rest.split_once('.') else { continue };
        let Some(bytes) = parse_size(size) else { continue };
        let kind = match (group.version, what) {
            (2, "max") | (1, "limit_in_bytes") => "max",
            (2, "rsvd.max") | (1, "rsvd.limit_in_bytes") => "rsvd.max",
            _ => continue,
        };
        if let Some(value) = group.value(out.root, &file) {
            let key = format!("cgroup.hugetlb.{}.{kind}", format_size(bytes));
            out.value(key, bytes_or_max(&value), &format!("{}/{file}", group.folder));
        }
    }
}
