//! What the agent and its children take: CPU time, run time of their BPF programs, memory.
//!
//! A child that runs is asked by its files in `/proc`; one that has ended is in the sums that the kernel keeps of children that were
//! waited for. BPF time is in the descriptors of the programs (`run_time_ns` in `/proc/PID/fdinfo`); the kernel counts it while somebody
//! asks for it, as `pagelab record --bpf-stats` does.

use std::fs;
use std::path::{Path, PathBuf};

use pagelab_residency::stat::{self, Stat};

/// Looks at a child's programs between two searches for them: they are loaded when it begins.
const LOOKS_PER_SEARCH: u32 = 30;

/// CPU time of a process so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// Its own, ns.
    pub own_ns: u64,
    /// Of the children that it has waited for, and of theirs, ns.
    pub children_ns: u64,
}

/// CPU time of a process; none if there is no such process.
pub(crate) fn cpu_time(process: &Path) -> Option<CpuTime> {
    let text = stat::read(process)?;
    let fields = Stat::of(&text)?;
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let ns = |field| Some(fields.number(field)? * tick_ns);
    Some(CpuTime { own_ns: ns(14)? + ns(15)?, children_ns: ns(16)? + ns(17)? })
}

/// Of this process.
pub(crate) fn own_cpu_time() -> CpuTime {
    cpu_time(Path::new("/proc/self")).unwrap_or_default()
}

/// When a process began, in clock ticks since boot: with its number it names one process.
pub(crate) fn began_ticks(pid: u32) -> Option<u64> {
    Stat::of(&stat::read(&PathBuf::from(format!("/proc/{pid}")))?)?.number(22)
}

/// Resident size of a process, bytes.
pub(crate) fn resident_bytes(process: &Path) -> Option<u64> {
    let statm = fs::read_to_string(process.join("statm")).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Run time of the BPF programs of one process.
#[derive(Debug)]
pub(crate) struct BpfTime {
    process: PathBuf,
    /// Files of `fdinfo` that are of programs.
    programs: Vec<PathBuf>,
    looks: u32,
    /// As it was last seen, ns.
    pub seen_ns: u64,
}

impl BpfTime {
    pub(crate) fn of(pid: u32) -> Self {
        Self { process: PathBuf::from(format!("/proc/{pid}")), programs: Vec::new(), looks: 0, seen_ns: 0 }
    }

    /// Looks once more.
    pub(crate) fn look(&mut self) {
        if self.programs.is_empty() || self.looks.is_multiple_of(LOOKS_PER_SEARCH) {
            self.programs = programs(&self.process);
        }
        self.looks += 1;
        let mut found: Vec<(u64, u64)> =
            self.programs.iter().filter_map(|file| of_program(&fs::read_to_string(file).ok()?)).collect();
        // Several descriptors may be of one program.
        found.sort_unstable();
        found.dedup_by_key(|(id, _)| *id);
        // A process that ends closes them one after another.
        self.seen_ns = self.seen_ns.max(found.iter().map(|(_, ns)| ns).sum());
    }
}

fn programs(process: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let is_program =
        |path: &Path| fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("bpf-prog"));
    entries
        .filter(|entry| is_program(&entry.path()))
        .map(|entry| process.join("fdinfo").join(entry.file_name()))
        .collect()
}

/// Number and run time of the program that a file of `fdinfo` is of.
fn of_program(text: &str) -> Option<(u64, u64)> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().parse::<u64>().ok()
    };
    Some((value("prog_id")?, value("run_time_ns")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let stat = "4711 (a (b) c) S 1 4711 4711 0 -1 4194560 1 2 3 4 150 50 7 3 20 0 1 0 8888 1 2";
        fs::write(dir.path().join("stat"), stat).expect("ours");
        fs::write(dir.path().join("statm"), "900 30 20 10 0 5 0\n").expect("ours");
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(cpu_time(dir.path()), Some(CpuTime { own_ns: 200 * tick_ns, children_ns: 10 * tick_ns }));
        assert_eq!(resident_bytes(dir.path()), Some(30 * rustix::param::page_size() as u64));
        let info = "pos:\t0\nprog_type:\t26\nprog_jited:\t1\nprog_id:\t815\nrun_time_ns:\t12345\nrun_cnt:\t7\n";
        assert_eq!(of_program(info), Some((815, 12_345)));
        assert_eq!(of_program("pos:\t0\nflags:\t02\n"), None);
        assert_eq!(cpu_time(Path::new("/proc/none")), None);
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let end = std::time::Instant::now() + std::time::Duration::from_millis(50);
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
        assert!(
            own_cpu_time().own_ns > 0 && resident_bytes(Path::new("/proc/self")).is_some_and(|bytes| bytes > 1 << 20)
        );
        let (own, init) = (began_ticks(std::process::id()), began_ticks(1));
        assert!(own > init && init.is_some(), "{own:?} {init:?}");
    }
}
