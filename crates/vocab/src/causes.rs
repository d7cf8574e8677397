//! The causes that a finding may name. A cause has one stable identifier, used in `compare --json`, in plans that
//! check a verdict and in the documentation; the rule that looks for it lives in the analysis and is named after it.

use crate::settings;

/// One cause of a slowdown that a rule can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CauseDef {
    /// Stable identifier, `area.what`, as `findings[].cause` carries it.
    pub id: &'static str,
    /// One line for a heading.
    pub title: &'static str,
    /// What a slowdown of this cause shows itself in, most telling first; names out of [`settings::TOPICS`].
    pub topics: &'static [&'static str],
    /// Patterns of the settings that can bring this cause about, most likely first.
    pub settings: &'static [&'static str],
    /// What happens, why it costs time, and what proves or refutes it.
    pub help: &'static str,
    /// The events that cost the time, and what one of them can cost.
    pub event: EventCost,
    /// The components of the account of time (`vocab::budget`) in which that cost shows, or all below a name that ends in a dot: a
    /// cause gets no more of a loss than these moved.
    pub components: &'static [&'static str],
}

/// Where the cost of faults by base pages shows: the faults, the pages, and taking them away again.
const OF_FAULTS: &[&str] = &["run.fault.", "run.memory.", "run.space.", "off.mmap_lock"];

/// Where the cost of smaller reads shows.
const OF_READS: &[&str] = &[
    "off.read",
    "off.block_queue",
    "run.file.fetch",
    "run.file.read",
    "run.block.",
    "run.interrupt",
    "run.task.switch",
];

/// The most that one event of a cause can cost. A loss that would take more per event is not this cause's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCost {
    /// The event, in the singular.
    pub what: &'static str,
    /// Least that one costs more than what takes its place on the other side, ns; a share that it could not reach at this
    /// price is not sure. Null as `most_ns`.
    pub least_ns: Option<u64>,
    /// Most that one costs, ns, whatever the size of a page; null where only a measurement of the run itself tells.
    pub most_ns: Option<u64>,
    /// On top of that for each KiB of the base page, ns.
    pub most_ns_per_kib: u64,
    /// Where these come from.
    pub source: &'static str,
}

/// A fault that a base page is cleared for.
const BASE_PAGE_FAULT: EventCost = EventCost {
    what: "fault of a base page",
    least_ns: Some(125),
    most_ns: Some(4000),
    most_ns_per_kib: 250,
    source: "on x86-64 in a VM 0.25 us (256 MiB filled at 0.1 s) to 2.7 us (1 GB in 0.7 s) a fault of 4 KiB, clearing \
             and unmapping included; the first touch of memory that the hypervisor has yet to give takes longer, and \
             says nothing about the guest's settings. Half of the least is clearing the page, which a huge page costs too",
};

impl EventCost {
    /// Most that one event costs on a host with such base pages, ns.
    pub fn most(&self, page_bytes: u64) -> Option<f64> {
        Some((self.most_ns? + self.most_ns_per_kib * page_bytes.div_ceil(1024)) as f64)
    }
}

impl CauseDef {
    /// Whether a change of the setting `key` can bring this cause about: one of [`CauseDef::settings`] matches it or
    /// the key that it is the twin of (`kconfig.TRANSPARENT_HUGEPAGE_ALWAYS` stands for `thp.enabled`).
    pub fn bears(&self, key: &str) -> bool {
        let twin = settings::setting(key).and_then(|info| info.equivalent(None).map(|twin| twin.key));
        self.settings.iter().any(|pattern| {
            settings::matches(pattern, key) || twin.as_deref().is_some_and(|twin| settings::matches(pattern, twin))
        })
    }
}

/// Every cause, in the order of the documentation.
pub const CAUSES: &[CauseDef] = &[
    CauseDef {
        id: "thp.disabled",
        title: "memory that used to get transparent huge pages is faulted in by base pages",
        topics: &["thp", "faults", "memory"],
        settings: &["thp.enabled", "mm.thp_disable", "thp.<size>.enabled", "thp.defrag"],
        help: "Anonymous mappings that cover whole huge pages take one fault per base page (512 for each 2 MiB on x86-64) \
               instead of one. It needs all of: more faults per operation inside mappings that could hold a huge page, \
               fewer vmstat.thp_fault_alloc, and a setting that forbids huge pages on the slow side. It is refuted by \
               mappings too small or misaligned for a huge page, and by vmstat.thp_fault_fallback, which says that the \
               kernel tried and had no memory in one piece.",
        event: BASE_PAGE_FAULT,
        components: OF_FAULTS,
    },
    CauseDef {
        id: "hugetlb.pool_exhausted",
        title: "the pool of huge pages is too small for what is asked of it",
        topics: &["hugetlb", "faults", "memory"],
        settings: &[
            "hugetlb.<size>.nr_hugepages",
            "hugetlb.<size>.nr_overcommit_hugepages",
            "hugetlb.<size>.<node>.nr_hugepages",
            "cgroup.hugetlb.<size>.rsvd.max",
            "cmdline.hugepages.<size>",
        ],
        help: "A program that asks for hugetlb pages does not get them (mmap with MAP_HUGETLB fails with ENOMEM) and falls \
               back to base pages, or runs with fewer. It needs the refused mapping, or pools whose free pages reached \
               zero while the faults moved to base pages. It is refuted by free pages left in the pool of that size \
               throughout.",
        event: BASE_PAGE_FAULT,
        components: OF_FAULTS,
    },
    CauseDef {
        id: "readahead.reduced",
        title: "files are read ahead in smaller pieces than before",
        topics: &["readahead", "io"],
        settings: &["block.<dev>.read_ahead_kb", "block.<dev>.max_sectors_kb", "sysctl.vm.page-cluster"],
        help: "Sequential reads reach the device in more and smaller requests, and the reader waits for each. It needs a \
               lower bytes-per-request figure on the device that holds the file at the same bytes per operation. It is \
               refuted by random access, by reads served from the page cache, and by O_DIRECT, which read-ahead never \
               touches.",
        event: EventCost {
            what: "read request",
            least_ns: None,
            most_ns: None,
            most_ns_per_kib: 0,
            source: "disk.read_ns, which the kernel adds up over the requests of the device",
        },
        components: OF_READS,
    },
    CauseDef {
        id: "map.misaligned",
        title: "mappings no longer start where a huge page can",
        topics: &["faults", "thp", "memory"],
        settings: &["sysctl.vm.legacy_va_layout", "env.GLIBC_TUNABLES", "env.LD_PRELOAD"],
        help: "The mapping is as long as before, but its address (or its address less the file offset) is not a multiple of \
               the huge page size, so that the huge pages it could hold are fewer or none. It needs mappings of equal \
               length whose start differs modulo the huge page size, and faults by base pages in the part that lost its \
               slot. It is refuted by aligned mappings on both sides. Most often the program itself changed, not a setting.",
        event: BASE_PAGE_FAULT,
        components: OF_FAULTS,
    },
];

/// The cause of that identifier.
pub fn cause(id: &str) -> Option<&'static CauseDef> {
    CAUSES.iter().find(|def| def.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_use_declared_words() {
        for def in CAUSES {
            assert_eq!(cause(def.id), Some(def), "{} is declared once", def.id);
            assert!(
                def.id.split_once('.').is_some_and(|(area, what)| !area.is_empty() && !what.is_empty()),
                "{}",
                def.id
            );
            for topic in def.topics {
                assert!(settings::TOPICS.iter().any(|(name, _)| name == topic), "{}: topic {topic}", def.id);
            }
            for pattern in def.settings {
                let declared = settings::definitions().any(|setting| setting.pattern == *pattern);
                let read_as_family = settings::setting(pattern).is_some_and(|info| !info.def.catch_all);
                assert!(declared || read_as_family, "{}: {pattern} is in no registry", def.id);
            }
        }
    }

    #[test]
    fn a_cause_is_borne_by_its_settings_and_their_twins() {
        let thp = cause("thp.disabled").expect("declared");
        assert!(thp.bears("thp.enabled"));
        assert!(thp.bears("kconfig.TRANSPARENT_HUGEPAGE_ALWAYS"));
        assert!(thp.bears("cmdline.transparent_hugepage"));
        assert!(thp.bears("thp.64K.enabled"));
        assert!(!thp.bears("sysctl.vm.stat_interval"));
        assert!(!thp.bears("hugetlb.2M.nr_hugepages"));
        let pool = cause("hugetlb.pool_exhausted").expect("declared");
        assert!(pool.bears("sysctl.vm.nr_hugepages"));
        assert!(cause("readahead.reduced").expect("declared").bears("block.nvme0n1.read_ahead_kb"));
    }
}
