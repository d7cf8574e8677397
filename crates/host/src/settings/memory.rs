//! `thp.*`, `hugetlb.*` and `mm.*` of the host, and `module.*` where the lab's own modules are loaded.

use pagelab_residency::pool::{NODES, POOLS};
use pagelab_vocab::settings::{format_size, parse_size};

use super::{Collector, debugfs, plain};
use crate::facts::{default_huge_page_bytes, meminfo_bytes};
use crate::files::{names, text, tidy, under};

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

pub(super) fn read(out: &mut Collector) {
    thp(out);
    hugetlb(out);
    folder(out, "mm.ksm", "/sys/kernel/mm/ksm");
    folder(out, "mm.lru_gen", "/sys/kernel/mm/lru_gen");
    folder(out, "mm.zswap", "/sys/module/zswap/parameters");
    for key in ["mm.numa.demotion_enabled", "mm.swap.vma_ra_enabled", "mm.page_alloc.shuffle"] {
        out.declared(key);
    }
    for key in ["module.ext4.dax_read", "module.ramblk.delay_ns", "module.ramblk.fail_every", "module.ramblk.fail_seed"]
    {
        out.declared(key);
    }
    match meminfo_bytes(out.root, "MemTotal") {
        Some(bytes) => out.value("mm.total_bytes", bytes.to_string(), "/proc/meminfo"),
        None => out.missing("mm.total_bytes", "/proc/meminfo", "no line MemTotal"),
    }
    swaps(out);
    fault_around(out);
}

fn fault_around(out: &mut Collector) {
    const KEY: &str = "mm.fault_around_bytes";
    const SOURCE: &str = "fault_around_bytes in debugfs";
    match debugfs::text_of(out.root, "fault_around_bytes") {
        Ok(bytes) => out.value(KEY, tidy(&bytes), SOURCE),
        // What a kernel does not have makes no row.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => out.missing(KEY, SOURCE, plain(&error)),
    }
}

/// Every file of a folder that holds only knobs of one kind.
fn folder(out: &mut Collector, prefix: &str, path: &str) {
    for name in names(&under(out.root, path)) {
        out.declared(&format!("{prefix}.{name}"));
    }
}

fn thp(out: &mut Collector) {
    for name in names(&under(out.root, THP)) {
        if name == "khugepaged" {
            folder(out, "thp.khugepaged", &format!("{THP}/khugepaged"));
        } else if let Some(size) = name.strip_prefix("hugepages-") {
            let Some(bytes) = parse_size(size) else { continue };
            for knob in names(&under(out.root, &format!("{THP}/{name}"))) {
                // `stats` holds counters; they are metrics.
                if knob != "stats" {
                    out.declared(&format!("thp.{}.{knob}", format_size(bytes)));
                }
            }
        } else {
            out.declared(&format!("thp.{name}"));
        }
    }
}

fn hugetlb(out: &mut Collector) {
    if let Some(bytes) = default_huge_page_bytes(out.root) {
        out.value("hugetlb.default_size", format_size(bytes), "/proc/meminfo");
    }
    let pools = |folder: &str| -> Vec<(String, String)> {
        let found = names(&under(out.root, folder)).into_iter();
        found.filter_map(|name| Some((format_size(parse_size(name.strip_prefix("hugepages-")?)?), name))).collect()
    };
    let mut keys = Vec::new();
    for (size, pool) in pools(POOLS) {
        for file in names(&under(out.root, &format!("{POOLS}/{pool}"))) {
            keys.push(format!("hugetlb.{size}.{file}"));
        }
    }
    for node in names(&under(out.root, NODES)) {
        let number = node.strip_prefix("node").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if !number {
            continue;
        }
        for (size, pool) in pools(&format!("{NODES}/{node}/hugepages")) {
            for file in names(&under(out.root, &format!("{NODES}/{node}/hugepages/{pool}"))) {
                // `demote` of a node is write-only like the other one.
                if file != "demote" {
                    keys.push(format!("hugetlb.{size}.{node}.{file}"));
                }
            }
        }
    }
    for key in keys {
        out.declared(&key);
    }
}

/// Path, kind, size and priority of each swap area; how much of it is used is a metric.
fn swaps(out: &mut Collector) {
    const SOURCE: &str = "/proc/swaps";
    let Ok(table) = text(&under(out.root, SOURCE)) else { return };
    let mut areas = Vec::new();
    for line in table.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [path, kind, size, _used, priority] = words.as_slice() {
            areas.push(format!("{path} {kind} {size} {priority}"));
        }
    }
    areas.sort_unstable();
    let value = if areas.is_empty() { "none".to_owned() } else { areas.join("\n") };
    out.value("mm.swaps", value, SOURCE);
}
