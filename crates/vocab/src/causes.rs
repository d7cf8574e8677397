//! The causes that a finding may name. A cause has one stable identifier, used in `compare --json`, in plans that
//! check a verdict and in the documentation; the rule that looks for it lives in the analysis and is named after it.

mod cpu;
mod files;
mod memory;
mod reclaim;

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
    /// Most of it that is time in the program's own code, ns; null where that has no such bound.
    pub most_own_ns: Option<u64>,
    /// Where these come from.
    pub source: &'static str,
}

impl EventCost {
    /// An event whose cost only the run itself tells.
    const fn measured(what: &'static str) -> Self {
        Self {
            what,
            least_ns: None,
            most_ns: None,
            most_ns_per_kib: 0,
            most_own_ns: None,
            source: "the account of the run itself",
        }
    }

    /// An event that takes at most this long, ns.
    const fn at_most(what: &'static str, most_ns: u64, source: &'static str) -> Self {
        Self { what, least_ns: None, most_ns: Some(most_ns), most_ns_per_kib: 0, most_own_ns: None, source }
    }

    /// The same event, of which at most this long, ns, is in the program's own code.
    const fn own_at_most(self, most_own_ns: u64) -> Self {
        Self { most_own_ns: Some(most_own_ns), ..self }
    }

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

/// Every cause by area, in the order of the documentation.
const AREAS: [&[CauseDef]; 4] = [memory::CAUSES, reclaim::CAUSES, files::CAUSES, cpu::CAUSES];

/// Every cause, in the order of the documentation.
pub fn causes() -> impl Iterator<Item = &'static CauseDef> {
    AREAS.into_iter().flatten()
}

/// The cause of that identifier.
pub fn cause(id: &str) -> Option<&'static CauseDef> {
    causes().find(|def| def.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{COMPONENTS, Component};

    #[test]
    fn causes_use_declared_words() {
        for def in causes() {
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
            assert!(!def.components.is_empty(), "{}", def.id);
            for name in def.components {
                let is_known = |component: &Component| {
                    component.name == *name || (name.ends_with('.') && component.name.starts_with(name))
                };
                let known: Vec<&Component> = COMPONENTS.iter().filter(|component| is_known(component)).collect();
                assert!(!known.is_empty(), "{}: component {name} does not exist", def.id);
                assert!(known.iter().all(|component| component.is_active), "{}: {name} is waiting for others", def.id);
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
