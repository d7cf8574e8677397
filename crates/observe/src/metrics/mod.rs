//! The sampler of `/proc` and `/sys`: stream `metrics`.
//!
//! [`Sampler::sample`] is called ten times a second and hands each value to a sink, under the names that
//! `pagelab_vocab::metrics` declares. It reads memory (vmstat, meminfo, buddyinfo, hugetlb pools, huge page sizes, NUMA
//! nodes, slab caches), processors (stat, schedstat, interrupts, softirqs, load average, frequency, pressure) and
//! devices (diskstats, net/dev, file-nr). For the target's processes it adds up io, stat, status and smaps_rollup; of the group
//! that they work in it reads throttling, memory and pressure.
//!
//! # What the rows mean
//!
//! A value holds until the next row of the same series. With [`Emit::Changed`] only values that differ from the
//! last one handed out become rows, which leaves about one in twenty; with [`Emit::All`] every value read
//! does. The first sample is whole by itself, since nothing has been handed out before it; the last one of a recording
//! should be taken with [`Emit::All`], so that each series shows how far it is known. A row without a value ends a series:
//! the device went away, the process ended, the file could no longer be read. What could not be read at all
//! has no rows and stands in [`Sampler::refused`]: absent is not 0.
//!
//! # What it costs
//!
//! Files are kept open and read from offset 0 into one buffer; numbers are parsed where they stand, names are
//! made once. On a 2-core x86-64 VM (Linux 6.18, 192 vmstat fields, 237 slab caches, 10 disks) a sample takes
//! 0.53 to 0.60 ms of CPU on average (0.6 % of one core at 10 Hz), most of it in the kernel, and yields 25 to 50 rows
//! of the 650 to 1,200 values read; the first takes 3 ms and the last 2 ms, with 1,200 rows each.
//! [`Sampler::sources`] tells what each source costs where it runs.
//!
//! Volume on large machines is bounded by summing interrupts, softirqs and schedstat over CPUs, and by reading the
//! single CPUs once a second when there are more than 32. Slab caches, huge page sizes and smaps_rollup are
//! read once a second. Whatever takes more than 0.5 % of a CPU is read less often until it does not, at least
//! once a minute; smaps_rollup and slabinfo, for which the kernel holds locks that the target may wait for, may take
//! 0.2 % (2 ms a second).
//!
//! # What it holds up
//!
//! While the kernel makes `smaps_rollup` of a process, its threads wait at each mmap and munmap: 119 ms with 14 GiB of small pages.
//! No rest between the readings makes the single one shorter. So `status`, which holds nothing, is read before it, and a process
//! with more pages than are walked in 0.75 ms (about 45 MiB) is left alone: `target.smaps.*` has no values then, and
//! [`Sampler::refused`] says why. [`Sampler::walk_all`] reads it all the same. Resident, swapped and hugetlb memory are in
//! `target.status.*` whatever the size.
//!
//! # Limits
//!
//! CPUs, nodes and page sizes are listed when the sampler is made; those that appear later are not seen in the sources with a
//! file for each. The target's processes are those that the caller names ([`Sampler::add_process`]); of many, a part
//! is read in each sample, so that the CPU time stays within 2 ms for each file, and the others count with their last
//! values. At most 4096 are added up. Text is not read at one instant: a file longer than 4 KiB is written by the kernel in pieces.
//!
//! # Adding a source
//!
//! 1. Declare its metrics in `pagelab_vocab::metrics`.
//! 2. Add a `Spec` to `catalogue.rs`, with the reason it may be missing.
//! 3. If its layout is new, write a parser in `parse.rs` and tests with the text of several kernels in `tests/`.

mod catalogue;
mod cgroup;
mod file;
mod members;
mod parse;
mod scan;
mod series;
mod source;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cgroup::Groups;
use file::Text;
use members::{MAX_MEMBERS, Members, process_dir};
use series::Store;
use source::{CpuClock, Shared, Source};

/// The number of a series: dense from 0, the same for as long as the sampler lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub u32);

/// One value of one series.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The series that it belongs to.
    pub id: SeriesId,
    /// Name of the metric, known to `pagelab_vocab::metrics::metric`. Shared: cloning it copies no text.
    pub name: &'a Arc<str>,
    /// Which device, CPU, ... it is of.
    pub instance: Option<&'a Arc<str>>,
    /// The value, in the unit of the registry; `None` when the series ends here.
    pub value: Option<f64>,
    /// True when it differs from the last one handed out, or is the first.
    pub changed: bool,
}

/// Which values become rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    /// Those that differ from the last ones handed out.
    Changed,
    /// All that are read, and those read seldom are read too: for the last sample of a recording.
    All,
}

/// A source that yields nothing, or not all it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The file, with `<>` for the part of its path that varies.
    pub source: String,
    /// The error.
    pub reason: String,
    /// Its remedy, where there is one.
    pub fix: Option<String>,
}

/// The result of one sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleStats {
    /// Rows handed to the sink.
    pub rows: usize,
    /// Values read, changed or not.
    pub values: usize,
    /// Sources read.
    pub sources: usize,
    /// CPU time of the calling thread, that of the sink included.
    pub cpu_ns: u64,
}

/// The state of one source, for the manifest and for the tool's own cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceReport {
    /// The file, with `<>` for the part of its path that varies.
    pub source: &'static str,
    /// Files behind it.
    pub files: usize,
    /// Least time between two readings now; 0 for every sample. Grows with what a reading costs.
    pub interval_ns: u64,
    /// How often it was read.
    pub reads: u64,
    /// CPU time spent on it, that of the sink included.
    pub cpu_ns: u64,
    /// The most costly reading.
    pub max_cpu_ns: u64,
    /// Rows it yielded.
    pub rows: u64,
    /// True when it described a process that has ended.
    pub ended: bool,
}

/// The conversion from kernel units to ours.
#[derive(Debug, Clone, Copy)]
struct Facts {
    /// One clock tick as user space counts it (USER_HZ, not the kernel's own HZ).
    tick_ns: f64,
    page_size: f64,
}

impl Facts {
    fn of_this_host() -> Self {
        Self { tick_ns: 1e9 / sysconf(libc::_SC_CLK_TCK, 100.0), page_size: sysconf(libc::_SC_PAGESIZE, 4096.0) }
    }
}

fn sysconf(name: libc::c_int, usual: f64) -> f64 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let value = unsafe { libc::sysconf(name) };
    if value > 0 { value as f64 } else { usual }
}

/// Reads the metrics of a host and of one process.
pub struct Sampler {
    root: PathBuf,
    facts: Facts,
    sources: Vec<Source>,
    refused: Vec<Refused>,
    store: Store,
    text: Text,
    /// Processes of the target that have appeared since the last sample, with their parents.
    appeared: Vec<(u32, Option<u32>)>,
    /// See [`Sampler::walk_all`].
    walks_all: bool,
    /// Which control group is read; none without a target.
    groups: Option<Groups>,
    /// See [`Sampler::follow_groups`].
    follows_groups: bool,
}

/// Directories of processes that are held open; further processes are opened by path. Probes need descriptors, too.
const MOST_HELD: usize = 256;

impl Sampler {
    /// Opens every source below `root` (`/`, or a directory that holds a copy) and those of process `target`.
    /// Never fails: what cannot be opened is listed by [`Self::refused`].
    pub fn new(root: &Path, target: Option<u32>) -> Self {
        let opened = catalogue::host(root);
        let mut sampler = Self {
            root: root.to_owned(),
            facts: Facts::of_this_host(),
            sources: opened.sources,
            refused: opened.refused,
            store: Store::default(),
            text: Text::new(),
            appeared: Vec::new(),
            walks_all: false,
            groups: None,
            follows_groups: false,
        };
        if let Some(pid) = target {
            sampler.set_target(pid);
        }
        sampler
    }

    /// Adds the sources of process `pid`, which may be one that has been forked and not yet executed its program: the
    /// first process of the target. To be called once, if the process was not known to [`Self::new`].
    pub fn set_target(&mut self, pid: u32) {
        let mut opened = catalogue::target(&self.root, pid);
        if !opened.sources.is_empty() {
            cgroup::open(&self.root, &process_dir(&self.root, pid), &mut opened);
            self.groups = Some(Groups::of(&self.root, pid));
        }
        self.sources.extend(opened.sources);
        self.refused.extend(opened.refused);
        if self.walks_all {
            self.walk_all();
        }
    }

    /// Reads `smaps_rollup` of every process of the target. Without it those with many pages are left alone, because the kernel
    /// keeps a process from mapping memory while it makes that text.
    pub fn walk_all(&mut self) {
        self.walks_all = true;
        for members in self.sources.iter_mut().filter_map(|source| source.members.as_mut()) {
            members.walk_all();
        }
    }

    /// Reads another control group once a process that the target starts is in one, because it was put there to work. Without it only
    /// the first process is followed: the processes of a cgroup or a host are in many.
    pub fn follow_groups(&mut self) {
        self.follows_groups = true;
    }

    /// Another process of the target has appeared, forked by `parent` as far as that is known. It is opened with the
    /// next sample; one that has ended by then costs nothing.
    pub fn add_process(&mut self, pid: u32, parent: Option<u32>) {
        if self.appeared.len() < MAX_MEMBERS {
            self.appeared.push((pid, parent));
        }
    }

    /// A process of the target has left it: it is not read again.
    pub fn remove_process(&mut self, pid: u32) {
        self.appeared.retain(|(appeared, _)| *appeared != pid);
        if let Some(groups) = &mut self.groups {
            groups.remove(pid);
        }
        for members in self.sources.iter_mut().filter_map(|source| source.members.as_mut()) {
            members.remove(pid);
        }
    }

    /// The first thread of a process has ended. The process may live on, which reading it shows; only where it is read
    /// by its number, which another process may soon have, it is not read again.
    pub fn process_ended(&mut self, pid: u32) {
        self.appeared.retain(|(appeared, _)| *appeared != pid);
        if let Some(groups) = &mut self.groups {
            groups.remove(pid);
        }
        for members in self.sources.iter_mut().filter_map(|source| source.members.as_mut()) {
            members.remove_by_path(pid);
        }
    }

    fn open_appeared(&mut self) {
        for (pid, parent) in std::mem::take(&mut self.appeared) {
            if self.sources.iter().all(|source| source.members.is_none()) {
                self.set_target(pid);
                continue;
            }
            if let Some(groups) = self.groups.as_mut().filter(|_| self.follows_groups) {
                groups.add(pid);
            }
            let path = process_dir(&self.root, pid);
            let known = self.sources.iter().filter_map(|source| source.members.as_ref()).map(Members::len).max();
            let dir = match file::directory(&path) {
                Ok(dir) => Some(dir).filter(|_| known.unwrap_or(0) < MOST_HELD),
                Err(_) => continue,
            };
            for source in &mut self.sources {
                if let Some(members) = &mut source.members {
                    members.add(pid, parent, dir.as_ref(), &path);
                    source.ended = false;
                }
            }
        }
    }

    /// Reads the sources that are due at `ts_ns` (the recording's clock; only differences matter here) and hands
    /// their values to `sink`, in the same order each time.
    pub fn sample(&mut self, ts_ns: i64, emit: Emit, sink: &mut impl FnMut(Row<'_>)) -> SampleStats {
        self.open_appeared();
        if let Some(groups) = self.groups.as_mut() {
            groups.follow(&self.root, &mut self.sources);
        }
        let all = emit == Emit::All;
        let mut clock = CpuClock::start();
        let mut stats = SampleStats::default();
        let Self { facts, sources, refused, store, text, .. } = self;
        let mut shared = Shared { facts, store, text, sink };
        for source in sources.iter_mut().filter(|s| s.due(ts_ns, all)) {
            let before = source.cost.cpu_ns;
            let reading = source.read(ts_ns, all, &mut clock, &mut shared);
            stats.rows += reading.rows;
            stats.values += reading.values;
            stats.sources += 1;
            stats.cpu_ns += source.cost.cpu_ns - before;
            if let Some(reason) = reading.trouble {
                let fix = reading.fix.map(str::to_owned);
                refused.push(Refused { source: source.spec.name.to_owned(), reason, fix });
            }
        }
        stats
    }

    /// Sources that could not be opened, read or parsed, in the order found. Each is listed at most once for not having
    /// been opened and once for an error while reading.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// The state and cost of each source that could be opened.
    pub fn sources(&self) -> impl Iterator<Item = SourceReport> {
        self.sources.iter().map(|s| SourceReport {
            source: s.spec.name,
            files: s.files(),
            interval_ns: s.interval_ns(),
            reads: s.cost.reads,
            cpu_ns: s.cost.cpu_ns,
            max_cpu_ns: s.cost.max_cpu_ns,
            rows: s.cost.rows,
            ended: s.ended,
        })
    }

    /// How many series there have been so far; every [`SeriesId`] is below it.
    pub fn series(&self) -> usize {
        self.store.len()
    }
}
