//! The host: its huge pages and DAX as available now, and the obstacles.
//!
//! [`look`] reads everything once below a root folder; the rules of `rules` then judge that report, so that they are
//! tested on literal kernel text.

mod abilities;
mod fragmentation;
mod pmem;
mod rules;
mod text;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

pub use crate::limits::CgroupLimit;
pub use abilities::Ability;
pub use fragmentation::{FreeMemory, ZoneBlocks, ZoneFree};
pub use pmem::{DaxDevice, Namespace};

use super::Finding;
use crate::facts::Facts;
use crate::hugetlb::mounts::{HugetlbMount, mounts as hugetlb_mounts};
use crate::limits::cgroup_limits;
use crate::settings::{Setting, SnapshotOptions, snapshot_with};

/// Settings that say something about huge pages, by the beginnings of their keys.
const ABOUT_HUGE_PAGES: &[&str] = &[
    "thp.",
    "hugetlb.",
    "cgroup.memory.max",
    "cgroup.hugetlb.",
    "rlimit.memlock",
    "rlimit.as",
    "rlimit.data",
    "kernel.cmdline",
    "sysctl.kernel.shm",
    "sysctl.vm.hugetlb_",
    "sysctl.vm.nr_",
    "sysctl.vm.overcommit_",
    "sysctl.vm.compact",
    "sysctl.vm.min_free_kbytes",
    "mm.thp_disable",
    "mm.swaps",
    "cmdline.transparent_hugepage",
    "cmdline.hugepages",
    "cmdline.hugepagesz",
    "cmdline.default_hugepagesz",
    "cmdline.hugetlb",
    "cmdline.memmap",
    "kconfig.TRANSPARENT_HUGEPAGE",
    "kconfig.HUGETLB",
    "kconfig.FS_DAX",
    "kconfig.READ_ONLY_THP_FOR_FS",
    "kconfig.CONTIG_ALLOC",
    "kconfig.ZONE_DEVICE",
];

/// A mount of hugetlbfs, tmpfs or a file system that may be on DAX.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Where it is.
    pub mountpoint: String,
    /// Its type.
    pub fs: String,
    /// Its options.
    pub options: String,
}

/// The report on a host.
#[derive(Debug, Clone, Serialize)]
pub struct HostReport {
    /// Kernel, processors, memory.
    pub facts: Facts,
    /// Settings that say something about huge pages, of the host and of the calling process, by key.
    pub settings: BTreeMap<String, Setting>,
    /// Free memory by zone and size of its pieces; none where it cannot be read.
    pub free_memory: Option<FreeMemory>,
    /// Mounts on which files may have huge pages.
    pub mounts: Vec<Mount>,
    /// Mounts of hugetlbfs with their part of the pool: limit, minimum, and what is used of them.
    pub hugetlb_mounts: Vec<HugetlbMount>,
    /// Limits of the calling process's control groups on memory and huge pages.
    pub cgroup_limits: Vec<CgroupLimit>,
    /// Namespaces of persistent memory.
    pub namespaces: Vec<Namespace>,
    /// Character devices of device DAX.
    pub dax_devices: Vec<DaxDevice>,
    /// What pagelab itself may do here.
    pub abilities: Vec<Ability>,
    /// What is to be said of all that, problems first.
    pub findings: Vec<Finding>,
}

impl HostReport {
    /// The value of a setting, if the host has it and it could be read.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.settings.get(key)?.value.as_deref()
    }

    /// A setting that is a number.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.value(key)?.parse().ok()
    }
}

/// Looks at the host below `root` (`/` for this one), as the process `pid` is given it.
pub fn look(root: &Path, pid: u32) -> HostReport {
    let options = SnapshotOptions { pid: Some(pid), ..SnapshotOptions::default() };
    let (mut settings, mut mounts) = (BTreeMap::new(), Vec::new());
    let rows = snapshot_with(root, &options);
    for setting in &rows {
        if ABOUT_HUGE_PAGES.iter().any(|begin| setting.key.starts_with(begin)) {
            settings.insert(setting.key.clone(), setting.clone());
        }
        mounts.extend(mount(&rows, setting));
    }
    let mut report = HostReport {
        facts: Facts::read(root),
        settings,
        free_memory: fragmentation::read(root),
        mounts,
        // A host whose mount table cannot be read has no mounts to report.
        hugetlb_mounts: hugetlb_mounts(root).unwrap_or_default(),
        cgroup_limits: cgroup_limits(root, pid),
        namespaces: pmem::namespaces(root),
        dax_devices: pmem::dax_devices(root),
        abilities: abilities::read(root),
        findings: Vec::new(),
    };
    report.findings = rules::judge(&report);
    report
}

/// The mount whose type `setting` is, if its files may have huge pages.
fn mount(rows: &[Setting], setting: &Setting) -> Option<Mount> {
    let mountpoint = setting.key.strip_prefix("mount.")?.strip_suffix(".fs")?;
    let fs = setting.value.clone()?;
    let options_key = format!("mount.{mountpoint}.options");
    let at = rows.binary_search_by(|row| row.key.as_str().cmp(&options_key)).ok()?;
    let options = rows.get(at)?.value.clone().unwrap_or_default();
    let is_dax = options.split([',', '\n', ' ']).any(|option| option == "dax" || option.starts_with("dax="));
    let may = matches!(fs.as_str(), "hugetlbfs" | "tmpfs") || is_dax;
    may.then(|| Mount { mountpoint: mountpoint.to_owned(), fs, options })
}
