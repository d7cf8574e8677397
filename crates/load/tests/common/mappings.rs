//! Looking at the mappings of running jobs, and giving the host hugetlb pages for the time of a test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagelab_load::engines::MapReport;

use super::{children, pagelab, run};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// The arguments of a job called `j`.
pub(crate) fn arguments(options: &str) -> Vec<String> {
    std::iter::once("--name=j").chain(options.split_whitespace()).map(str::to_owned).collect()
}

/// What the first worker of a job mapped.
pub(crate) fn mapped(options: &str) -> MapReport {
    run(&arguments(options)).workers[0].mapped.clone().expect("the engine maps")
}

/// The pid of the worker under a running front end: its child's child.
pub(crate) fn worker_of(front: &Child) -> Option<u32> {
    children(*children(front.id()).first()?).first().copied()
}

/// Looks at a running job's worker until `look` says something, for half a minute at most.
pub(crate) fn watch<T>(options: &str, mut look: impl FnMut(u32) -> Option<T>) -> T {
    let mut front = pagelab().args(arguments(options)).stdout(Stdio::null()).spawn().expect("starts");
    let begin = Instant::now();
    let found = loop {
        if let Some(found) = worker_of(&front).and_then(&mut look) {
            break Some(found);
        }
        if begin.elapsed() > Duration::from_secs(30) {
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    front.kill().expect("kill");
    front.wait().expect("wait");
    found.expect("the job showed what was waited for")
}

/// A line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub start: u64,
    pub end: u64,
    /// `rw-p` or `rw-s`.
    pub rights: String,
    /// Where it starts in its file.
    pub offset: u64,
    /// What stands behind the inode; empty for anonymous memory.
    pub name: String,
}

/// Mappings of a process in the range where pieces lie.
pub(crate) fn piece_lines(pid: u32) -> Vec<Line> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let line = |text: &str| {
        let mut words = text.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Line {
            start: hex(start)?,
            end: hex(end)?,
            rights: words.next()?.to_owned(),
            offset: hex(words.next()?)?,
            name: words.skip(2).collect::<Vec<_>>().join(" "),
        })
    };
    maps.lines().filter_map(line).filter(|line| (0x1000_0000_0000..0x5000_0000_0000).contains(&line.start)).collect()
}

/// The same as (start, end).
pub(crate) fn pieces_in_maps(pid: u32) -> Vec<(u64, u64)> {
    piece_lines(pid).iter().map(|line| (line.start, line.end)).collect()
}

/// A hugetlb pool with a size of its own until dropped.
pub(crate) struct Pool {
    page_bytes: u64,
    before: String,
}

impl Pool {
    /// The pool of 2 MiB pages, with this many.
    pub(crate) fn of(pages: u64) -> Self {
        Self::try_of(2 * MIB, pages).unwrap_or_else(|got| panic!("this host has {got} huge pages to give, not {pages}"))
    }

    /// A pool of pages of this size, or how many the host has to give.
    pub(crate) fn try_of(page_bytes: u64, pages: u64) -> Result<Self, u64> {
        let path = Self::file(page_bytes, "nr_hugepages");
        let pool = Self { page_bytes, before: std::fs::read_to_string(&path).expect("hugetlb") };
        std::fs::write(&path, pages.to_string()).expect("set");
        let got = pool.now("nr_hugepages");
        if got == pages { Ok(pool) } else { Err(got) }
    }

    fn file(page_bytes: u64, name: &str) -> PathBuf {
        Path::new("/sys/kernel/mm/hugepages").join(format!("hugepages-{}kB", page_bytes / 1024)).join(name)
    }

    fn now(&self, name: &str) -> u64 {
        std::fs::read_to_string(Self::file(self.page_bytes, name)).expect("read").trim().parse().expect("number")
    }

    /// Pages not in use.
    pub(crate) fn free(&self) -> u64 {
        self.now("free_hugepages")
    }

    /// Pages not in use that are promised.
    pub(crate) fn reserved(&self) -> u64 {
        self.now("resv_hugepages")
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        std::fs::write(Self::file(self.page_bytes, "nr_hugepages"), &self.before).expect("put back");
    }
}

/// A hugetlbfs of 2 MiB pages until dropped.
pub(crate) struct HugetlbMount(tempfile::TempDir);

impl HugetlbMount {
    pub(crate) fn new() -> Self {
        let mount = Self(tempfile::tempdir().expect("a directory"));
        let mounted = Command::new("mount")
            .args(["-t", "hugetlbfs", "-o", "pagesize=2M", "none"])
            .arg(mount.0.path())
            .status()
            .expect("mount");
        assert!(mounted.success());
        mount
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for HugetlbMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}
