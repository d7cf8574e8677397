//! A host as text for people.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use pagelab_vocab::settings::{format_size, parse_size};

use super::HostReport;
use crate::doctor::Findings;

/// Names of values that stand side by side under a title, and the keys that they are the values of.
const THP: &[(&str, &str)] = &[
    ("enabled", "thp.enabled"),
    ("of 2M", "thp.2M.enabled"),
    ("defrag", "thp.defrag"),
    ("shmem", "thp.shmem_enabled"),
    ("shmem of 2M", "thp.2M.shmem_enabled"),
    ("zero page", "thp.use_zero_page"),
];

const KHUGEPAGED: &[(&str, &str)] = &[
    ("defrag", "thp.khugepaged.defrag"),
    ("pages_to_scan", "thp.khugepaged.pages_to_scan"),
    ("scan_sleep_millisecs", "thp.khugepaged.scan_sleep_millisecs"),
    ("alloc_sleep_millisecs", "thp.khugepaged.alloc_sleep_millisecs"),
    ("max_ptes_none", "thp.khugepaged.max_ptes_none"),
    ("max_ptes_swap", "thp.khugepaged.max_ptes_swap"),
    ("max_ptes_shared", "thp.khugepaged.max_ptes_shared"),
];

const LIMITS: &[(&str, &str)] =
    &[("locked memory", "rlimit.memlock"), ("address space", "rlimit.as"), ("data", "rlimit.data")];

const SEGMENTS: &[(&str, &str)] = &[
    ("shmmax", "sysctl.kernel.shmmax"),
    ("shmall", "sysctl.kernel.shmall"),
    ("shmmni", "sysctl.kernel.shmmni"),
    ("hugetlb_shm_group", "sysctl.vm.hugetlb_shm_group"),
];

impl Display for HostReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        writeln!(
            f,
            "HOST  {}, Linux {}, {} CPUs, {}",
            or_unknown(&self.facts.host),
            or_unknown(&self.facts.kernel),
            self.facts.cpus.map_or_else(|| "?".to_owned(), |cpus| cpus.to_string()),
            self.facts.memory_bytes.map_or_else(|| "memory unknown".to_owned(), whole_mib),
        )?;
        // What is wrong first: the facts below it fill a screen.
        if self.findings.is_empty() {
            writeln!(f, "\nNothing stands in the way of huge pages.\n")?;
        } else {
            writeln!(f, "\n{}", Findings(&self.findings))?;
        }
        let thp = THP.iter().filter_map(|(name, key)| Some(format!("{name} {}", self.value(key)?)));
        writeln!(f, "THP   {}", or_none(thp.collect::<Vec<_>>().join(", ")))?;
        self.line(f, "KHUGE", KHUGEPAGED)?;
        self.sizes(f, "enabled")?;
        self.sizes(f, "shmem_enabled")?;
        self.pools(f)?;
        self.free(f)?;
        for mount in &self.mounts {
            writeln!(f, "MOUNT {} {} ({})", mount.fs, mount.mountpoint, mount.options.replace('\n', ","))?;
        }
        self.subpools(f)?;
        self.limits(f)?;
        self.line(f, "LIMIT", LIMITS)?;
        self.line(f, "SYSV ", SEGMENTS)?;
        self.boot(f)?;
        for one in &self.namespaces {
            let block = or_unknown(&one.block_device);
            writeln!(f, "PMEM  {}: mode {}, {block}, {}", one.name, or_unknown(&one.mode), size(one.bytes))?;
        }
        for one in &self.dax_devices {
            writeln!(f, "DAX   {}: {}, mappings aligned to {}", one.name, size(one.bytes), size(one.align_bytes))?;
        }
        for one in &self.abilities {
            let can = if one.possible { "yes" } else { "no " };
            writeln!(f, "CAN   {can} {}: {}; found {}", one.name, one.what_for, one.found)?;
        }
        Ok(())
    }
}

impl HostReport {
    /// Values side by side; no line where the host has none of them.
    fn line(&self, f: &mut Formatter<'_>, title: &str, values: &[(&str, &str)]) -> fmt::Result {
        let found: Vec<String> =
            values.iter().filter_map(|(name, key)| Some(format!("{name} {}", self.value(key)?))).collect();
        if found.is_empty() { Ok(()) } else { writeln!(f, "{title} {}", found.join(", ")) }
    }

    /// The sizes of transparent huge pages by the rule that each has: `SIZES enabled: inherit 2M; never 16K 32K`.
    fn sizes(&self, f: &mut Formatter<'_>, knob: &str) -> fmt::Result {
        let mut by_rule: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (key, setting) in &self.settings {
            let rule = key.strip_prefix("thp.").and_then(|rest| rest.strip_suffix(knob)?.strip_suffix('.'));
            if let (Some(bytes), Some(value)) = (rule.and_then(parse_size), setting.value.as_deref()) {
                by_rule.entry(value).or_default().push(bytes);
            }
        }
        let rules = by_rule.into_iter().map(|(rule, mut sizes)| {
            sizes.sort_unstable();
            let sizes: Vec<String> = sizes.into_iter().map(format_size).collect();
            format!("{rule} {}", sizes.join(" "))
        });
        let rules: Vec<String> = rules.collect();
        if rules.is_empty() { Ok(()) } else { writeln!(f, "SIZES {knob}: {}", rules.join("; ")) }
    }

    fn pools(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (key, setting) in &self.settings {
            let pool = key.strip_prefix("hugetlb.").and_then(|rest| rest.strip_suffix(".nr_hugepages"));
            let (Some(pool), Some(pages)) = (pool, setting.value.as_deref()) else { continue };
            let of = |name: &str| self.value(&format!("hugetlb.{pool}.{name}")).unwrap_or("?").to_owned();
            let (free, surplus) = (of("free_hugepages"), of("surplus_hugepages"));
            if let Some((size, node)) = pool.split_once('.') {
                // Promises and what may be added on demand are kept for all nodes together.
                writeln!(f, "POOL  {size} on {node}: {pages} pages, {free} free, {surplus} surplus")?;
                continue;
            }
            writeln!(
                f,
                "POOL  {pool}: {pages} pages, {free} free, {} reserved, {surplus} surplus, {} on demand{}",
                of("resv_hugepages"),
                of("nr_overcommit_hugepages"),
                if self.value("hugetlb.default_size") == Some(pool) { " (the default size)" } else { "" },
            )?;
        }
        Ok(())
    }

    fn free(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(free) = &self.free_memory else { return Ok(()) };
        writeln!(
            f,
            "FREE  {}, {} huge pages of 2M could be had now{}{}",
            whole_mib(free.free_bytes),
            free.huge_pages_now,
            free.unmovable_blocks.map_or_else(String::new, |n| format!(", {n} blocks hold what cannot be moved")),
            free.unlisted_bytes.map_or_else(String::new, |n| format!("; free in no list {}", whole_mib(n))),
        )?;
        for zone in &free.zones {
            let pieces: Vec<String> = zone.pieces.iter().map(u64::to_string).collect();
            writeln!(
                f,
                "FREE  node {} {}: {}, {} huge pages; pieces of 1, 2, 4, ... pages: {}",
                zone.node,
                zone.zone,
                whole_mib(zone.free_bytes),
                zone.huge_pages,
                pieces.join(" ")
            )?;
        }
        for zone in free.blocks.iter().flatten() {
            let blocks = zone.blocks.iter().filter(|(_, count)| **count > 0);
            let blocks: Vec<String> = blocks.map(|(kind, count)| format!("{count} {}", kind.to_lowercase())).collect();
            writeln!(f, "BLOCK node {} {} of 2M: {}", zone.node, zone.zone, blocks.join(", "))?;
        }
        Ok(())
    }

    /// What mounts of hugetlbfs have of the pool for themselves.
    fn subpools(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for mount in &self.hugetlb_mounts {
            let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "none".to_owned(), format_size);
            let used = mount.usage.map_or_else(
                || mount.usage_reason.clone().unwrap_or_else(|| "unknown".to_owned()),
                |usage| format!("{} of {} pages", usage.used_pages, usage.maximum_pages),
            );
            writeln!(
                f,
                "SUBPOOL {} of {}: size {}, min_size {}; used: {used}",
                mount.mountpoint,
                mount.size.as_deref().unwrap_or("unknown size"),
                bytes(mount.size_bytes),
                bytes(mount.min_bytes),
            )?;
        }
        Ok(())
    }

    fn limits(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for limit in &self.cgroup_limits {
            let size = limit.size.as_deref().map_or_else(String::new, |size| format!(" {size}"));
            let what = if limit.counts_reserved { " reserved" } else { "" };
            let most = limit.max_bytes.map_or_else(|| "no limit".to_owned(), |bytes| format!("{bytes} bytes"));
            let used = limit.used_bytes.map_or_else(String::new, |used| format!(", {used} used"));
            writeln!(
                f,
                "LIMIT cgroup v{} {}{size}{what}: {most}{used} ({})",
                limit.version, limit.controller, limit.file
            )?;
        }
        Ok(())
    }

    /// What the kernel was started and built with.
    fn boot(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for prefix in ["cmdline.", "kconfig."] {
            let found = self.settings.iter().filter_map(|(key, setting)| {
                Some(format!("{}={}", key.strip_prefix(prefix)?, setting.value.as_deref()?))
            });
            let found: Vec<String> = found.collect();
            let found = if found.is_empty() { "nothing about huge pages".to_owned() } else { found.join(" ") };
            writeln!(f, "BOOT  {prefix}* {found}")?;
        }
        Ok(())
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() { "none: the kernel has no transparent huge pages".to_owned() } else { text }
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "size unknown".to_owned(), format_size)
}

/// Bytes in whole MiB: nobody counts a host's memory in less.
fn whole_mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
