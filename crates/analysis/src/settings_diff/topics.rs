//! What a metric speaks about, in the topics of the settings, so that settings can be ranked by what changed.

use std::collections::BTreeMap;

use crate::compare::MetricComparison;
use crate::stats::Outcome;

/// Beginnings of metric names, the first that fits holds, and their topics, most direct first.
const TOPICS: &[(&str, &[&str])] = &[
    ("vmstat.thp_", &["thp", "faults"]),
    ("vmstat.pgfault", &["faults", "memory"]),
    ("vmstat.pgmajfault", &["faults", "io", "readahead"]),
    ("vmstat.htlb_", &["hugetlb"]),
    ("vmstat.nr_anon_transparent_hugepages", &["thp"]),
    ("vmstat.nr_shmem_hugepages", &["thp"]),
    ("vmstat.nr_file_hugepages", &["thp"]),
    ("vmstat.pswp", &["swap"]),
    ("vmstat.swap", &["swap", "readahead"]),
    ("vmstat.zswp", &["swap"]),
    ("vmstat.nr_dirt", &["writeback"]),
    ("vmstat.nr_writ", &["writeback"]),
    ("vmstat.nr_zone_write_pending", &["writeback"]),
    ("vmstat.balloon", &["memory"]),
    ("vmstat.numa_", &["numa"]),
    ("vmstat.compact_", &["reclaim", "thp", "memory"]),
    ("vmstat.pgscan", &["reclaim"]),
    ("vmstat.pgsteal", &["reclaim"]),
    ("vmstat.allocstall", &["reclaim"]),
    ("vmstat.workingset_", &["reclaim"]),
    ("vmstat.pgpg", &["io", "readahead"]),
    ("vmstat.", &["memory"]),
    ("meminfo.anonhugepages", &["thp"]),
    ("meminfo.hugepages", &["hugetlb"]),
    ("meminfo.hugetlb", &["hugetlb"]),
    ("meminfo.swap", &["swap"]),
    ("meminfo.dirty", &["writeback"]),
    ("meminfo.writeback", &["writeback"]),
    ("meminfo.", &["memory"]),
    ("hugetlb.", &["hugetlb"]),
    ("thp.", &["thp", "faults"]),
    ("mthp.", &["thp", "faults"]),
    ("buddy.", &["memory", "thp"]),
    ("numa.", &["numa"]),
    ("slab.", &["memory"]),
    ("cpu.", &["cpu", "sched"]),
    ("cpufreq", &["cpu"]),
    ("stat.", &["sched", "cpu"]),
    ("schedstat.", &["sched"]),
    ("interrupts", &["io", "sched"]),
    ("softirqs.", &["sched", "io"]),
    ("disk.", &["io", "readahead", "writeback"]),
    ("net.", &["net"]),
    ("fs.", &["fs"]),
    ("psi.memory", &["reclaim", "memory"]),
    ("psi.io", &["io"]),
    ("psi.cpu", &["sched", "cpu"]),
    ("target.faults", &["faults"]),
    ("target.stat.minor_faults", &["faults"]),
    ("target.stat.child_minor_faults", &["faults"]),
    ("target.stat.major_faults", &["faults", "io", "readahead"]),
    ("target.stat.child_major_faults", &["faults", "io", "readahead"]),
    ("target.stat.", &["cpu"]),
    ("target.smaps.anonhugepages", &["thp"]),
    ("target.smaps.shmempmdmapped", &["thp"]),
    ("target.smaps.filepmdmapped", &["thp"]),
    ("target.smaps.shared_hugetlb", &["hugetlb"]),
    ("target.smaps.private_hugetlb", &["hugetlb"]),
    ("target.smaps.swap", &["swap"]),
    ("target.smaps.", &["memory"]),
    ("target.status.hugetlb", &["hugetlb"]),
    ("target.status.vmpte", &["thp", "memory"]),
    ("target.status.vmswap", &["swap"]),
    ("target.status.", &["memory"]),
    ("target.io.", &["io"]),
    ("faults.major", &["faults", "io", "readahead"]),
    ("faults.", &["faults"]),
    ("run.minor_faults", &["faults"]),
    ("run.major_faults", &["faults", "io", "readahead"]),
    ("run.in_blocks", &["io", "readahead"]),
    ("run.out_blocks", &["io", "writeback"]),
    ("run.max_rss", &["memory"]),
];

/// The effect that counts for a metric which differs without any spread: beyond it, larger is not more telling.
const LARGEST_EFFECT: f64 = 20.0;

/// The topics of one metric; empty for those that only say how fast the load was.
pub(crate) fn topics_of(metric: &str) -> &'static [&'static str] {
    TOPICS.iter().find(|(start, _)| metric.starts_with(start)).map_or(&[], |(_, topics)| topics)
}

/// What changed, in topics, most telling first.
///
/// Each significant metric speaks for its topics with ln(1 + |g|), g being its standardised difference: for the first
/// topic in full, for the second with half, and so on. The sum of a topic is divided by the root of the number of tested
/// metrics that speak about it, so that a topic with a hundred metrics needs more than one of them.
pub fn symptoms(metrics: &[MetricComparison]) -> Vec<&'static str> {
    let mut weight: BTreeMap<&'static str, (f64, f64)> = BTreeMap::new();
    for metric in metrics {
        let differs = match metric.outcome {
            Outcome::Tested => metric.significant == Some(true),
            Outcome::DeterministicDifference => true,
            Outcome::NotTested => continue,
        };
        let effect = metric.hedges_g.map_or(LARGEST_EFFECT, |g| g.abs().min(LARGEST_EFFECT)).ln_1p();
        for (place, topic) in topics_of(&metric.name).iter().enumerate() {
            let part = 1.0 / (1.0 + place as f64);
            let (sum, number) = weight.entry(topic).or_default();
            *number += part;
            if differs {
                *sum += part * effect;
            }
        }
    }
    let mut ranked: Vec<(f64, &'static str)> = weight
        .into_iter()
        .filter(|(_, (sum, _))| *sum > 0.0)
        .map(|(topic, (sum, number))| (sum / number.max(1.0).sqrt(), topic))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    ranked.into_iter().map(|(_, topic)| topic).collect()
}
