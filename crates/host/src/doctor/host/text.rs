//! A host as text for people.

use std::fmt::{self, Display, Formatter};

use pagelab_vocab::settings::format_size;

use super::HostReport;
use crate::doctor::Findings;

/// Names of values that stand side by side under a title, and the keys that they are the values of.
const THP: &[(&str, &str)] = &[
    ("enabled", "thp.enabled"),
    ("of 2M", "thp.2M.enabled"),
    ("defrag", "thp.defrag"),
    ("shmem", "thp.shmem_enabled"),
    ("khugepaged defrag", "thp.khugepaged.defrag"),
    ("max_ptes_none", "thp.khugepaged.max_ptes_none"),
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
        let thp = THP.iter().filter_map(|(name, key)| Some(format!("{name} {}", self.value(key)?)));
        writeln!(f, "THP   {}", or_none(thp.collect::<Vec<_>>().join(", ")))?;
        self.sizes(f)?;
        self.pools(f)?;
        if let Some(free) = &self.free_memory {
            writeln!(
                f,
                "FREE  {}, {} huge pages of 2M could be had now{}",
                whole_mib(free.free_bytes),
                free.huge_pages_now,
                free.unmovable_blocks.map_or_else(String::new, |n| format!(", {n} blocks hold what cannot be moved")),
            )?;
        }
        for mount in &self.mounts {
            writeln!(f, "MOUNT {} {} ({})", mount.fs, mount.mountpoint, mount.options.replace('\n', ","))?;
        }
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
        if self.findings.is_empty() {
            return writeln!(f, "\nNothing stands in the way of huge pages.");
        }
        write!(f, "\n{}", Findings(&self.findings))
    }
}

impl HostReport {
    /// The sizes of transparent huge pages that have a rule of their own.
    fn sizes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let own = self.settings.iter().filter_map(|(key, setting)| {
            let size = key.strip_prefix("thp.")?.strip_suffix(".enabled")?;
            let value = setting.value.as_deref().filter(|value| *value != "inherit")?;
            Some(format!("{size} {value}"))
        });
        let own: Vec<String> = own.collect();
        if own.is_empty() { Ok(()) } else { writeln!(f, "SIZES {}", own.join(", ")) }
    }

    fn pools(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (key, setting) in &self.settings {
            let size = key.strip_prefix("hugetlb.").and_then(|rest| rest.strip_suffix(".nr_hugepages"));
            let Some(size) = size.filter(|size| !size.contains('.')) else { continue };
            let of = |name: &str| self.value(&format!("hugetlb.{size}.{name}")).unwrap_or("?").to_owned();
            writeln!(
                f,
                "POOL  {size}: {} pages, {} free, {} reserved, {} surplus, {} on demand{}",
                setting.value.as_deref().unwrap_or("?"),
                of("free_hugepages"),
                of("resv_hugepages"),
                of("surplus_hugepages"),
                of("nr_overcommit_hugepages"),
                if self.value("hugetlb.default_size") == Some(size) { " (the default size)" } else { "" },
            )?;
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
