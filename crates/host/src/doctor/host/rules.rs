//! What is to be said of a host: one rule a finding.
//!
//! How to add one: write a function that looks at a [`HostReport`] and name it in [`RULES`]. A rule is silent where its
//! inputs could not be read; a finding gives a command, and where only another kernel helps, one that looks for it.
//! `rules/tests.rs` holds each rule to literal kernel text and fails until a new one has a line there.

mod limits;

use pagelab_residency::Switch;
use pagelab_residency::thp::{self, Rule as Given};

use super::HostReport;
use crate::doctor::{Finding, Level};

/// A rule; several findings if it is about several pools or mounts.
type Rule = fn(&HostReport) -> Vec<Finding>;

const RULES: &[Rule] = &[
    thp_not_built,
    thp_never,
    thp_by_advice,
    thp_size_differs,
    thp_shared_never,
    thp_defrag,
    thp_disabled_for_process,
    pool_empty,
    pool_used_up,
    pool_less_than_booted,
    hugetlb_not_mounted,
    fragmented,
    limits::cgroup_hugetlb,
    limits::cgroup_memory,
    limits::memlock,
    limits::segments,
    dax_not_built,
    namespace_not_fsdax,
    namespace_misaligned,
];

/// Lists the kernels of this host that have an option.
const KERNELS_WITH: &str = "grep -l";
const BOOT_ONE: &str = "# boot one of these kernels";
/// What stands behind a command that nobody should type without a copy.
const DESTROYS: &str = "# this destroys what it holds";

const HUGE_BYTES: u64 = 2 << 20;
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// All that the rules have to say, problems first.
pub(super) fn judge(report: &HostReport) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(report)).collect();
    findings.sort_by_key(|finding| finding.level);
    findings
}

fn finding(
    id: &'static str,
    level: Level,
    found: String,
    needed: &str,
    why: &str,
    fix: Option<String>,
) -> Vec<Finding> {
    vec![Finding { id, level, found, needed: needed.to_owned(), why: why.to_owned(), fix }]
}

fn thp_not_built(host: &HostReport) -> Vec<Finding> {
    if host.value("thp.enabled").is_some() || host.value("kconfig.TRANSPARENT_HUGEPAGE") != Some("n") {
        return Vec::new();
    }
    finding(
        "thp.not_built",
        Level::Problem,
        "kernel without CONFIG_TRANSPARENT_HUGEPAGE".to_owned(),
        "a kernel with it",
        "no program gets huge pages but from a hugetlb pool",
        Some(format!("{KERNELS_WITH} CONFIG_TRANSPARENT_HUGEPAGE=y /boot/config-*   {BOOT_ONE}")),
    )
}

/// The file with the rule for anonymous huge pages of 2 MiB, and the rule.
fn anonymous_rule(host: &HostReport) -> Option<(&'static str, Given)> {
    let (rule, switch) = thp::anonymous_rule(host.value("thp.enabled"), host.value("thp.2M.enabled"))?;
    Some((switch.file()?, rule))
}

fn thp_never(host: &HostReport) -> Vec<Finding> {
    let Some((file, Given::Never)) = anonymous_rule(host) else { return Vec::new() };
    finding(
        "thp.never",
        Level::Problem,
        format!("{THP}/{file}: never"),
        "madvise or always",
        "every 2 MiB of memory take 512 page faults and 512 entries in the TLB",
        Some(format!("echo madvise | sudo tee {THP}/{file}")),
    )
}

fn thp_by_advice(host: &HostReport) -> Vec<Finding> {
    let Some((file, Given::Advised)) = anonymous_rule(host) else { return Vec::new() };
    finding(
        "thp.by_advice",
        Level::Note,
        format!("{THP}/{file}: madvise"),
        "madvise(MADV_HUGEPAGE) in the program, or always",
        "a program that does not ask gets pages of 4 KiB",
        Some(format!("echo always | sudo tee {THP}/{file}")),
    )
}

fn thp_size_differs(host: &HostReport) -> Vec<Finding> {
    let (Some(own), Some(all)) = (host.value("thp.2M.enabled"), host.value("thp.enabled")) else { return Vec::new() };
    if own == "inherit" || own == all {
        return Vec::new();
    }
    finding(
        "thp.size_differs",
        Level::Note,
        format!("{THP}/hugepages-2048kB/enabled: {own}, {THP}/enabled: {all}"),
        "inherit, if the rule for all sizes is to hold",
        "the rule of the size stands above the one that everybody looks at",
        Some(format!("echo inherit | sudo tee {THP}/hugepages-2048kB/enabled")),
    )
}

fn thp_shared_never(host: &HostReport) -> Vec<Finding> {
    let (all, size) = (host.value("thp.shmem_enabled"), host.value("thp.2M.shmem_enabled"));
    let Some((Given::Never, switch)) = thp::shared_rule(all, size) else { return Vec::new() };
    let (file, word) = match switch {
        Switch::SizeShmem => ("hugepages-2048kB/shmem_enabled", size),
        _ => ("shmem_enabled", all),
    };
    let mut files = vec![file];
    if switch != Switch::SizeShmem && size == Some("never") {
        files.push("hugepages-2048kB/shmem_enabled");
    }
    let commands: Vec<String> = files.iter().map(|file| format!("echo advise | sudo tee {THP}/{file}")).collect();
    finding(
        "thp.shared_never",
        Level::Note,
        format!("{THP}/{file}: {}", word.unwrap_or_default()),
        "advise, within_size or always",
        "shared anonymous memory, memfd and SysV segments get pages of 4 KiB (a mounted tmpfs has its own huge=)",
        Some(commands.join(" && ")),
    )
}

fn thp_defrag(host: &HostReport) -> Vec<Finding> {
    let Some(defrag @ ("never" | "defer")) = host.value("thp.defrag") else { return Vec::new() };
    finding(
        "thp.no_direct_compaction",
        Level::Note,
        format!("{THP}/defrag: {defrag}"),
        "madvise, defer+madvise or always",
        "a fault that finds no huge page free takes 4 KiB at once, also where the program asked for huge pages",
        Some(format!("echo madvise | sudo tee {THP}/defrag")),
    )
}

fn thp_disabled_for_process(host: &HostReport) -> Vec<Finding> {
    let Some(value) = host.value("mm.thp_disable").filter(|value| *value != "0") else { return Vec::new() };
    finding(
        "thp.disabled_for_process",
        Level::Problem,
        format!("prctl(PR_SET_THP_DISABLE) holds for this shell and all that it starts ({value})"),
        "a shell without it",
        "no program started here gets transparent huge pages, whatever the host says",
        Some("pagelab hugepages exec --heap thp -- sh   # a shell without it".to_owned()),
    )
}

/// Sizes of pools, as settings spell them, with pages in the pool (surplus pages not among them).
fn pools(host: &HostReport) -> Vec<(String, u64)> {
    let found = host.settings.iter().filter_map(|(key, setting)| {
        let size = key.strip_prefix("hugetlb.")?.strip_suffix(".nr_hugepages").filter(|size| !size.contains('.'))?;
        Some((size.to_owned(), setting.value.as_deref()?.parse().ok()?))
    });
    found.collect()
}

fn pool_number(host: &HostReport, size: &str, name: &str) -> u64 {
    host.number(&format!("hugetlb.{size}.{name}")).unwrap_or(0)
}

fn pool_empty(host: &HostReport) -> Vec<Finding> {
    let default = host.value("hugetlb.default_size").unwrap_or("2M");
    let is_empty = |(size, pages): &(String, u64)| {
        size == default && *pages == 0 && pool_number(host, size, "nr_overcommit_hugepages") == 0
    };
    let empty = pools(host).into_iter().filter(is_empty).map(|(size, _)| Finding {
        id: "hugetlb.pool_empty",
        level: Level::Note,
        found: format!("no page of {size} in the pool, none on demand (nr_hugepages 0, nr_overcommit_hugepages 0)"),
        needed: "pages for what asks for them".to_owned(),
        why: "MAP_HUGETLB, SHM_HUGETLB and files on hugetlbfs fail with ENOMEM or SIGBUS".to_owned(),
        fix: Some(format!(
            "sudo pagelab hugepages set {size} {}   # for what a program needs: pagelab hugepages plan --bytes N",
            few_pages(&size)
        )),
    });
    empty.collect()
}

/// 128 MiB of this size, or one page.
fn few_pages(size: &str) -> u64 {
    (128 << 20) / pagelab_vocab::settings::parse_size(size).unwrap_or(HUGE_BYTES).clamp(1, 128 << 20)
}

fn pool_used_up(host: &HostReport) -> Vec<Finding> {
    let used_up = pools(host).into_iter().filter_map(|(size, pages)| {
        let (free, reserved) = (pool_number(host, &size, "free_hugepages"), pool_number(host, &size, "resv_hugepages"));
        let surplus = pool_number(host, &size, "surplus_hugepages");
        let more = pool_number(host, &size, "nr_overcommit_hugepages").saturating_sub(surplus);
        (pages > 0 && free <= reserved && more == 0).then(|| Finding {
            id: "hugetlb.pool_used_up",
            level: Level::Problem,
            found: format!("{size}: {pages} pages, {free} free, {reserved} of those promised, none on demand"),
            needed: "a free page that is not promised".to_owned(),
            why: "the next program that asks for huge pages gets ENOMEM".to_owned(),
            fix: Some(format!("sudo pagelab hugepages set {size} {}", pages + 1)),
        })
    });
    used_up.collect()
}

fn pool_less_than_booted(host: &HostReport) -> Vec<Finding> {
    let less = pools(host).into_iter().filter_map(|(size, pages)| {
        let asked = host.number(&format!("cmdline.hugepages.{size}"))?;
        (pages < asked).then(|| Finding {
            id: "hugetlb.less_than_booted",
            level: Level::Problem,
            found: format!("{size}: {pages} pages; the kernel's command line asks for {asked}"),
            needed: format!("{asked} pages"),
            why: "memory was too small or in too small pieces at boot, or somebody took pages back".to_owned(),
            fix: Some(format!("sudo pagelab hugepages set {size} {asked}")),
        })
    });
    less.collect()
}

fn hugetlb_not_mounted(host: &HostReport) -> Vec<Finding> {
    if pools(host).iter().all(|(_, pages)| *pages == 0) || host.mounts.iter().any(|mount| mount.fs == "hugetlbfs") {
        return Vec::new();
    }
    finding(
        "hugetlb.not_mounted",
        Level::Note,
        "a pool with pages, and no hugetlbfs mounted".to_owned(),
        "a mount, for programs that map files of huge pages",
        "only MAP_HUGETLB, memfd and SysV segments can use the pool",
        Some("sudo mkdir -p /dev/hugepages && sudo mount -t hugetlbfs none /dev/hugepages".to_owned()),
    )
}

/// Free memory in small pieces: a fault must compact, or does without.
fn fragmented(host: &HostReport) -> Vec<Finding> {
    let Some(free) = &host.free_memory else { return Vec::new() };
    let (Some(unusable), true) = (free.unusable_pct(), free.free_bytes >= 64 * HUGE_BYTES) else { return Vec::new() };
    if unusable < 75.0 {
        return Vec::new();
    }
    let level = if free.huge_pages_now == 0 { Level::Problem } else { Level::Note };
    finding(
        "memory.fragmented",
        level,
        format!(
            "{} MiB free, of which {unusable:.0} % in pieces smaller than 2 MiB; {} huge pages could be had now",
            free.free_bytes >> 20,
            free.huge_pages_now
        ),
        "free memory in pieces of 2 MiB",
        "a fault compacts memory first (which takes ms) or takes 4 KiB; a pool is granted in part",
        Some("echo 1 | sudo tee /proc/sys/vm/compact_memory".to_owned()),
    )
}

fn dax_not_built(host: &HostReport) -> Vec<Finding> {
    let has_pmem = !host.namespaces.is_empty();
    let missing = ["FS_DAX", "FS_DAX_PMD"].into_iter().find(|name| {
        host.value("kconfig.FS_DAX").is_some()
            && host.value(&format!("kconfig.{name}")).is_none_or(|value| value == "n")
    });
    let Some(missing) = missing.filter(|_| has_pmem) else { return Vec::new() };
    finding(
        "dax.not_built",
        Level::Problem,
        format!("persistent memory, and a kernel without CONFIG_{missing}"),
        "a kernel with CONFIG_FS_DAX and CONFIG_FS_DAX_PMD",
        "files are not mapped directly, or only in pages of 4 KiB",
        Some(format!("{KERNELS_WITH} CONFIG_FS_DAX_PMD=y /boot/config-*   {BOOT_ONE}")),
    )
}

fn namespace_not_fsdax(host: &HostReport) -> Vec<Finding> {
    let raw = host.namespaces.iter().filter(|one| matches!(one.mode.as_deref(), Some("raw" | "safe")));
    let raw = raw.map(|one| Finding {
        id: "dax.namespace_mode",
        level: Level::Problem,
        found: format!("{} is in mode {}", one.name, one.mode.as_deref().unwrap_or_default()),
        needed: "mode memory (fsdax)".to_owned(),
        why: "ext4 refuses to mount it with dax; xfs mounts it and says nothing, without DAX".to_owned(),
        fix: Some(format!("sudo ndctl create-namespace -f -e {} -m fsdax --map=mem   {DESTROYS}", one.name)),
    });
    raw.collect()
}

fn namespace_misaligned(host: &HostReport) -> Vec<Finding> {
    let small = host.namespaces.iter().filter(|one| one.align_bytes.is_some_and(|bytes| bytes < HUGE_BYTES));
    let small = small.map(|one| Finding {
        id: "dax.namespace_align",
        level: Level::Problem,
        found: format!("{} is aligned to {} bytes", one.name, one.align_bytes.unwrap_or_default()),
        needed: "2097152 bytes (2 MiB) or more".to_owned(),
        why: "no file on it can be mapped in pieces of 2 MiB".to_owned(),
        fix: Some(format!("sudo ndctl create-namespace -f -e {} -m fsdax --align=2M   {DESTROYS}", one.name)),
    });
    small.collect()
}

#[cfg(test)]
mod tests;
