//! Which sources there are on a host, and of a process.

use std::path::Path;

use rustix::io::Errno;

use super::file::{self, SampledFile};
use super::members::{Members, process_dir};
use super::source::{EACH_SECOND, EVERY_SAMPLE, Parser, Part, Source, Spec, Tag, refusal};
use super::{Refused, parse};

/// With more CPUs than this the single ones are read once a second: at ten times a second their rows would outnumber
/// all others.
const MANY_CPUS: usize = 32;
/// With more files than this they are opened for each reading, which spares descriptors.
const MANY_FILES: usize = 64;

const AS_ROOT: Option<&str> = Some("run pagelab as root");

pub(super) const fn spec(name: &'static str, prefix: &'static str, parse: Parser, missing: &'static str) -> Spec {
    Spec { name, prefix, parse, base_ns: EVERY_SAMPLE, holds_lock: false, walks: false, missing, fix: None }
}

const fn psi(name: &'static str, prefix: &'static str) -> Spec {
    Spec {
        fix: Some("boot with psi=1 (kernel with CONFIG_PSI)"),
        ..spec(name, prefix, parse::pressure, "pressure accounting is off")
    }
}

const PROC_FILES: &[Spec] = &[
    spec("/proc/vmstat", "vmstat.", parse::pairs, "/proc is not mounted"),
    spec("/proc/meminfo", "meminfo.", parse::meminfo, "/proc is not mounted"),
    spec("/proc/schedstat", "schedstat.", parse::schedstat, "the kernel was built without CONFIG_SCHEDSTATS"),
    spec("/proc/interrupts", "interrupts", parse::interrupts, "/proc is not mounted"),
    spec("/proc/softirqs", "softirqs.", parse::softirqs, "/proc is not mounted"),
    spec("/proc/diskstats", "disk.", parse::diskstats, "the kernel was built without block devices"),
    spec("/proc/net/dev", "net.", parse::net_dev, "the kernel was built without networking"),
    psi("/proc/pressure/cpu", "psi.cpu."),
    psi("/proc/pressure/memory", "psi.memory."),
    psi("/proc/pressure/io", "psi.io."),
    Spec {
        missing: "interrupt pressure exists since Linux 6.1, with CONFIG_IRQ_TIME_ACCOUNTING",
        fix: None,
        ..psi("/proc/pressure/irq", "psi.irq.")
    },
    spec("/proc/buddyinfo", "buddy.", parse::buddyinfo, "/proc is not mounted"),
    Spec {
        base_ns: EACH_SECOND,
        // SLUB counts the objects of partly filled slabs one by one, with the cache's lock held and interrupts off.
        holds_lock: true,
        fix: AS_ROOT,
        ..spec("/proc/slabinfo", "slab.", parse::slabinfo, "the kernel was built without CONFIG_SLUB_DEBUG")
    },
    spec("/proc/loadavg", "loadavg.", parse::loadavg, "/proc is not mounted"),
];

const FILE_NR: Spec = spec("/proc/sys/fs/file-nr", "fs.", parse::one_number, "/proc is not mounted");
const STAT: Spec = spec("/proc/stat", "", parse::stat, "/proc is not mounted");
const STAT_TOTALS: Spec = spec("/proc/stat", "", parse::stat_totals, "/proc is not mounted");
const STAT_CPUS: Spec =
    Spec { base_ns: EACH_SECOND, ..spec("/proc/stat (single CPUs)", "", parse::stat_cpus, "/proc is not mounted") };

const NUMASTAT: Spec = spec(
    "/sys/devices/system/node/node<N>/numastat",
    "numa.",
    parse::pairs,
    "the kernel was built without CONFIG_NUMA",
);
const CPUFREQ: Spec = spec(
    "/sys/devices/system/cpu/cpu<N>/cpufreq/scaling_cur_freq",
    "",
    parse::one_number,
    "no driver controls the clock frequency; virtual machines have none",
);
const HUGETLB: Spec = spec(
    "/sys/kernel/mm/hugepages/hugepages-<size>/",
    "hugetlb.",
    parse::one_number,
    "the kernel was built without CONFIG_HUGETLBFS",
);
const MTHP: Spec = Spec {
    base_ns: EACH_SECOND,
    ..spec(
        "/sys/kernel/mm/transparent_hugepage/hugepages-<size>/stats/",
        "mthp.",
        parse::one_number,
        "counters of each huge page size exist since Linux 6.10",
    )
};

const HUGETLB_FILES: [(&str, &str); 4] = [
    ("nr_hugepages", "nr_pages"),
    ("free_hugepages", "free_pages"),
    ("resv_hugepages", "resv_pages"),
    ("surplus_hugepages", "surplus_pages"),
];
const MTHP_FILES: [&str; 8] = [
    "anon_fault_alloc",
    "anon_fault_fallback",
    "shmem_alloc",
    "shmem_fallback",
    "split",
    "split_deferred",
    "swpout",
    "nr_anon",
];

const TARGET_IO: Spec = Spec {
    fix: AS_ROOT,
    ..spec("/proc/<pid>/io", "target.io.", parse::colon_pairs, "the kernel was built without CONFIG_TASK_IO_ACCOUNTING")
};
const TARGET_STAT: Spec = spec("/proc/<pid>/stat", "target.stat.", parse::process_stat, "the process has ended");
const TARGET_STATUS: Spec = spec("/proc/<pid>/status", "target.status.", parse::status, "the process has ended");
const TARGET_SMAPS: Spec = Spec {
    base_ns: EACH_SECOND,
    // All page tables are walked under the map lock, for which mmap and munmap of the target wait.
    holds_lock: true,
    walks: true,
    fix: AS_ROOT,
    ..spec(
        "/proc/<pid>/smaps_rollup",
        "target.smaps.",
        parse::smaps_rollup,
        "smaps_rollup exists since Linux 4.14, with CONFIG_PROC_PAGE_MONITOR",
    )
};

/// The sources that could be opened, and why the others could not.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) sources: Vec<Source>,
    pub(super) refused: Vec<Refused>,
}

impl Opened {
    pub(super) fn add(&mut self, spec: Spec, part: Result<Part, (String, Errno)>) {
        match part {
            Ok(part) => self.sources.push(Source::new(spec, vec![part])),
            Err((path, error)) => self.refuse(spec, &path, error),
        }
    }

    pub(super) fn refuse(&mut self, spec: Spec, path: &str, error: Errno) {
        let reason = match error {
            Errno::NOENT => format!("{path} does not exist: {}", spec.missing),
            Errno::OPNOTSUPP => format!("{path} cannot be read: {}", spec.missing),
            other => refusal(path, other),
        };
        // Being root helps against a refusal, not against a file that is not there.
        let helps = error != Errno::NOENT || spec.fix != AS_ROOT;
        let fix = spec.fix.filter(|_| helps).map(str::to_owned);
        self.refused.push(Refused { source: spec.name.to_owned(), reason, fix });
    }

    /// A source of many files: refused if there is none of them.
    fn add_many(&mut self, spec: Spec, parts: Vec<Result<Part, (String, Errno)>>, root: &Path) {
        let mut opened = Vec::with_capacity(parts.len());
        let mut first_error = None;
        for part in parts {
            match part {
                Ok(part) => opened.push(part),
                Err(e) => first_error = first_error.or(Some(e)),
            }
        }
        if opened.is_empty() {
            let path = root.join(spec.name.trim_start_matches('/')).display().to_string();
            let (path, error) = first_error.unwrap_or((path, Errno::NOENT));
            self.refuse(spec, &path, error);
            return;
        }
        if let Some((path, error)) = first_error {
            let reason = format!("{} (the others are read)", refusal(&path, error));
            self.refused.push(Refused { source: spec.name.to_owned(), reason, fix: None });
        }
        self.sources.push(Source::new(spec, opened));
    }
}

/// Opens what describes the whole host below `root`.
pub(super) fn host(root: &Path) -> Opened {
    let mut opened = Opened::default();
    for spec in PROC_FILES {
        opened.add(*spec, kept(root, spec.name));
    }
    opened.add(FILE_NR, attribute(&root.join("proc/sys/fs/file-nr"), "file_nr", "", true));
    let cpus = file::numbered(&root.join("sys/devices/system/cpu"), "cpu");
    if cpus.len() > MANY_CPUS {
        opened.add(STAT_TOTALS, kept(root, "/proc/stat"));
        opened.add(STAT_CPUS, kept(root, "/proc/stat"));
    } else {
        opened.add(STAT, kept(root, "/proc/stat"));
    }
    opened.add_many(NUMASTAT, numastat(root), root);
    opened.add_many(CPUFREQ, cpufreq(root, &cpus), root);
    opened.add_many(HUGETLB, hugetlb(root), root);
    opened.add_many(MTHP, mthp(root), root);
    opened
}

/// Opens what describes process `pid`.
pub(super) fn target(root: &Path, pid: u32) -> Opened {
    let mut opened = Opened::default();
    let path = process_dir(root, pid);
    let dir = match file::directory(&path) {
        Ok(dir) => dir,
        Err(e) => {
            let reason = match e {
                Errno::NOENT => format!("{} does not exist: there is no process {pid}", path.display()),
                other => refusal(&path.display().to_string(), other),
            };
            opened.refused.push(Refused { source: "/proc/<pid>".to_owned(), reason, fix: None });
            return opened;
        }
    };
    let mut add = |spec: Spec, opened_file: Result<SampledFile, Errno>| match opened_file {
        Ok(file) => opened.sources.push(Source::of_target(spec, Members::new(&spec, pid, file, &dir, &path))),
        Err(error) => {
            let file = spec.name.rsplit('/').next().unwrap_or_default();
            opened.refuse(spec, &path.join(file).display().to_string(), error);
        }
    };
    add(TARGET_IO, SampledFile::kept_in(&dir, &path, "io"));
    add(TARGET_STAT, SampledFile::kept_in(&dir, &path, "stat"));
    add(TARGET_STATUS, SampledFile::kept_in(&dir, &path, "status"));
    add(TARGET_SMAPS, SampledFile::reopened_in(&dir, &path, "smaps_rollup"));
    opened
}

fn kept(root: &Path, name: &str) -> Result<Part, (String, Errno)> {
    part(&root.join(name.trim_start_matches('/')), Tag::default(), true)
}

fn part(path: &Path, tag: Tag, keep: bool) -> Result<Part, (String, Errno)> {
    let file = if keep { SampledFile::kept(path) } else { SampledFile::reopened(path) };
    match file {
        Ok(file) => Ok(Part { file, tag }),
        Err(e) => Err((path.display().to_string(), e)),
    }
}

/// A sysctl or an attribute of sysfs.
pub(super) fn attribute(path: &Path, field: &'static str, instance: &str, keep: bool) -> Result<Part, (String, Errno)> {
    let tag = Tag { field, instance: instance.as_bytes().to_vec() };
    part(path, tag, keep).map(|p| Part { file: p.file.single(), ..p })
}

fn numastat(root: &Path) -> Vec<Result<Part, (String, Errno)>> {
    let dir = root.join("sys/devices/system/node");
    let nodes = file::numbered(&dir, "node");
    let keep = nodes.len() <= MANY_FILES;
    nodes.iter().map(|n| attribute(&dir.join(format!("node{n}/numastat")), "", &n.to_string(), keep)).collect()
}

fn cpufreq(root: &Path, cpus: &[u32]) -> Vec<Result<Part, (String, Errno)>> {
    let keep = cpus.len() <= MANY_FILES;
    let file = |n: &u32| {
        let path = root.join(format!("sys/devices/system/cpu/cpu{n}/cpufreq/scaling_cur_freq"));
        attribute(&path, "cpufreq_khz", &format!("cpu{n}"), keep)
    };
    cpus.iter().map(file).collect()
}

fn hugetlb(root: &Path) -> Vec<Result<Part, (String, Errno)>> {
    let dir = root.join("sys/kernel/mm/hugepages");
    let mut parts = Vec::new();
    for size in file::huge_page_sizes(&dir) {
        for (file, field) in HUGETLB_FILES {
            parts.push(attribute(&dir.join(format!("hugepages-{size}/{file}")), field, &size, true));
        }
    }
    parts
}

fn mthp(root: &Path) -> Vec<Result<Part, (String, Errno)>> {
    let dir = root.join("sys/kernel/mm/transparent_hugepage");
    let mut parts = Vec::new();
    for size in file::huge_page_sizes(&dir) {
        for field in MTHP_FILES {
            let path = dir.join(format!("hugepages-{size}/stats/{field}"));
            // Not every size has every counter: shared memory ends at the largest folio, nr_anon came later.
            if path.exists() {
                parts.push(attribute(&path, field, &size, false));
            }
        }
    }
    parts
}
