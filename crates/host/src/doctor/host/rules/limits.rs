//! Limits: of control groups, of the process, of System V shared memory.

use super::{HUGE_BYTES, Level, finding, pool_number, pools};
use crate::doctor::Finding;
use crate::doctor::host::HostReport;

/// The kernel's own default of kernel.shmmax and kernel.shmall (include/uapi/linux/shm.h): no limit.
const UNLIMITED: &str = "18446744073692774399";

pub(super) fn cgroup_hugetlb(host: &HostReport) -> Vec<Finding> {
    let limited = host.cgroup_limits.iter().filter_map(|limit| {
        let (size, bytes) = (limit.size.as_deref()?, limit.max_bytes?);
        let page_bytes = pagelab_vocab::settings::parse_size(size)?;
        let used = limit.used_bytes.map_or_else(String::new, |used| format!(", {used} of them used"));
        // Without a count of what is used, at least what is less than a page is known to be none.
        let is_used_up = limit.left_bytes().unwrap_or(bytes) < page_bytes;
        let why = if limit.counts_reserved {
            "beyond it mmap and shmget get ENOMEM, though the pool has pages"
        } else {
            "beyond it a fault gets SIGBUS, though the pool has pages and mmap went well"
        };
        Some(Finding {
            id: "cgroup.hugetlb_limited",
            level: if is_used_up { Level::Problem } else { Level::Note },
            found: format!("{}: {bytes} bytes of huge pages of {size}{used}", limit.file),
            needed: "no limit, or what the program maps".to_owned(),
            why: why.to_owned(),
            fix: Some(limit.lift()),
        })
    });
    limited.collect()
}

pub(super) fn cgroup_memory(host: &HostReport) -> Vec<Finding> {
    let Some(limit) = host.cgroup_limits.iter().find(|limit| limit.controller == "memory") else { return Vec::new() };
    let Some(bytes) = limit.max_bytes else { return Vec::new() };
    if host.facts.memory_bytes.is_some_and(|all| bytes >= all) {
        return Vec::new();
    }
    let used = limit.used_bytes.map_or_else(String::new, |used| format!(", {used} of them used"));
    finding(
        "cgroup.memory_limited",
        Level::Note,
        format!("{}: {bytes} bytes{used}", limit.file),
        "room for a whole huge page at each fault",
        "near the limit a huge page is not charged and the fault takes 4 KiB (thp_fault_fallback_charge)",
        Some(limit.lift()),
    )
}

pub(super) fn memlock(host: &HostReport) -> Vec<Finding> {
    let Some((soft, hard)) = host.value("rlimit.memlock").and_then(|text| text.split_once(':')) else {
        return Vec::new();
    };
    let Some(bytes) = soft.parse::<u64>().ok().filter(|bytes| *bytes < HUGE_BYTES) else { return Vec::new() };
    // Up to the hard limit anybody may go; beyond it root alone.
    let fix = match hard.parse::<u64>() {
        Err(_) => "ulimit -l unlimited".to_owned(),
        Ok(hard) if hard >= HUGE_BYTES => format!("ulimit -S -l {}", hard >> 10),
        Ok(_) => "sudo prlimit --pid $$ --memlock=unlimited:unlimited".to_owned(),
    };
    finding(
        "rlimit.memlock_small",
        Level::Note,
        format!("locked memory: {bytes} bytes"),
        "2 MiB and more",
        "an ordinary user's SysV segment of huge pages is refused, unless the user is of vm.hugetlb_shm_group",
        Some(fix),
    )
}

/// A System V segment that takes the whole pool, or at least one huge page.
pub(super) fn segments(host: &HostReport) -> Vec<Finding> {
    let bytes_of = |(size, pages): (String, u64)| {
        let page_bytes = pagelab_vocab::settings::parse_size(&size).unwrap_or(0);
        pages.saturating_add(pool_number(host, &size, "nr_overcommit_hugepages")).saturating_mul(page_bytes)
    };
    let needed = pools(host).into_iter().map(bytes_of).fold(HUGE_BYTES, u64::max);
    // shmall counts base pages, of all segments together.
    let limits = [("shmmax", 1), ("shmall", host.facts.page_size_bytes)];
    let small = limits.into_iter().filter_map(|(name, unit)| {
        let value = host.number(&format!("sysctl.kernel.{name}"))?;
        (value.saturating_mul(unit) < needed).then(|| (format!("kernel.{name} = {value}"), name))
    });
    let small: Vec<(String, &str)> = small.collect();
    if small.is_empty() {
        return Vec::new();
    }
    let found: Vec<&str> = small.iter().map(|(text, _)| text.as_str()).collect();
    let words: Vec<String> = small.iter().map(|(_, name)| format!("kernel.{name}={UNLIMITED}")).collect();
    finding(
        "sysv.segments_limited",
        Level::Note,
        found.join(", "),
        &format!("{needed} bytes: a segment of the whole pool, or of one huge page"),
        "shmget of a larger segment gets EINVAL (shmmax) or ENOSPC (shmall)",
        Some(format!("sudo sysctl {}", words.join(" "))),
    )
}
