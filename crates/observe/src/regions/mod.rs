//! The page sizes that regions of memory really have, of every process of the recorded tree.
//!
//! A process has no memory any more when it has ended, so it is looked at while it lives: [`Regions`] does so in a
//! thread of its own, one process after the other, and keeps the last look at each address space. Whoever records
//! takes it ([`Regions::take`]) when the address space is gone, or at the end.
//!
//! A look costs time in proportion to the mapped memory (about 0.1 us for each page of 4 KiB). The thread measures its
//! own CPU time and rests 200 times as long after each look. It looks again at the same address space only if that
//! still leaves it within 0.5 % of the time since it began; the first look at each is exempt. So large processes are
//! looked at less often. Changes between a process's last look and its end are not seen. The first 10 ms of CPU time are
//! free of both: otherwise a first look that was dear (at the copy of a large parent before it calls exec, or with cold
//! caches on a busy machine) takes the only chance to see a program that lives for a second.
//!
//! # What it holds up
//!
//! Page tables are scanned in steps of at most a quarter of a millisecond, with a rest after each: meanwhile the process can map and
//! unmap nothing. What a mapping asked for (its flags) is in smaps, which cannot be read in steps: of a process with more pages than
//! are walked in 0.75 ms (45 MiB of small ones) the flags come from a walk over its areas alone (`vma_flags`), and without BPF they
//! stay unknown.
//!
//! Sizes come from the page tables (PAGEMAP_SCAN). Where the kernel has no such request they come from the sums in
//! smaps, which know nothing of DAX.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagelab_residency::maps::Areas;
use pagelab_residency::{Glance, Glancer, HUGE_1G_BYTES, HUGE_2M_BYTES, Reason, Source as Pages};
use rustix::time::{ClockId, clock_gettime};

use crate::vma_flags::VmaWalk;

/// Pause after a look, as a multiple of its cost.
const REST: u32 = 200;
/// CPU time that looks may take before pauses begin.
const FREE: Duration = Duration::from_millis(10);
/// Shortest time between two looks at the same address space.
const SHORTEST: Duration = Duration::from_millis(100);
/// A new address space gets this time to fill before it is looked at.
const SETTLE: Duration = Duration::from_millis(20);

/// A region at one look, in pages of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Address of the first byte.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// File, or the kernel's name; none for anonymous memory.
    pub path: Option<Vec<u8>>,
    /// The size of the pages.
    pub page_size_bytes: u64,
    /// Bytes of the region that are in memory in such pages.
    pub bytes: u64,
    /// `hugetlb`, `dax`, `madvise`, `mount` or `always`; none if no huge pages were asked for.
    pub asked: Option<&'static str>,
    /// Why it is less; none if it is not.
    pub reason: Option<&'static str>,
}

/// One look at an address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// When it was done, CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// What is in memory, in order of address; a region with pages of several sizes is there several times, one that
    /// asked for huge pages and has none at all once, with 0 bytes.
    pub regions: Vec<Region>,
}

/// Where sizes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The page tables.
    PagemapScan,
    /// Sums, for the reason given.
    Smaps(String),
}

/// The cost of looking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Looks taken.
    pub looks: u64,
    /// CPU time of the thread, ns.
    pub cpu_ns: u64,
}

/// An address space that is to be looked at.
#[derive(Debug, Clone)]
struct Target {
    /// Processes that have it. With `vfork` there are two.
    pids: BTreeSet<u32>,
    since: Instant,
    /// When it was looked at last, and the CPU time that it took, ns.
    looked: Option<(Instant, u64)>,
    /// The last look at one of its processes. Whether the process still had this address space then is known only
    /// when all events until then have been seen.
    pending: Option<Look>,
    /// The last one of which that is known.
    look: Option<Look>,
}

impl Target {
    fn new() -> Self {
        Self { pids: BTreeSet::new(), since: Instant::now(), looked: None, pending: None, look: None }
    }

    /// The process no longer has it since `ts`: regions seen later are others.
    fn lose(&mut self, pid: u32, ts: u64) {
        if self.pids.remove(&pid) {
            self.settle(ts);
            self.pending = None;
        }
    }

    /// All events until `ts` have been seen.
    fn settle(&mut self, ts: u64) {
        if let Some(look) = self.pending.take_if(|look| look.ts <= ts) {
            self.look = Some(look);
        }
    }

    /// When the next look is due by itself, with what all looks have cost since `begun`.
    fn due(&self, begun: Instant, cost: Cost) -> Instant {
        match self.looked {
            None => self.since + SETTLE,
            Some((looked, cpu_ns)) => {
                let earned = begun + charged(cost.cpu_ns + cpu_ns) * REST;
                (looked + SHORTEST).max(earned)
            }
        }
    }
}

/// CPU time of looks beyond what is free.
fn charged(cpu_ns: u64) -> Duration {
    Duration::from_nanos(cpu_ns).saturating_sub(FREE)
}

#[derive(Debug, Default)]
struct State {
    targets: BTreeMap<u32, Target>,
    cost: Cost,
    stopped: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that looks at address spaces.
#[derive(Debug)]
pub struct Regions {
    shared: Arc<Shared>,
    source: Source,
    thread: Option<JoinHandle<()>>,
}

impl Regions {
    /// Starts the thread; it has nothing to look at yet.
    ///
    /// # Errors
    /// The reason in words if this host has no source.
    pub fn start() -> Result<Self, String> {
        Self::start_with(false)
    }

    /// As [`Self::start`]; with `walks_all` smaps is read of every process, however long that keeps it from mapping memory.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub fn start_with(walks_all: bool) -> Result<Self, String> {
        let source = match Glancer::new(Path::new("/"))?.source() {
            Pages::PagemapScan => Source::PagemapScan,
            Pages::Smaps { why } => Source::Smaps(why.clone()),
        };
        let shared: Arc<Shared> = Arc::default();
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("pagelab-regions".to_owned())
            .spawn(move || watch(&own, walks_all))
            .map_err(|error| format!("starting a thread: {error}"))?;
        Ok(Self { shared, source, thread: Some(thread) })
    }

    /// Where sizes come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Since `ts` (CLOCK_MONOTONIC, ns) the process has this address space, and no other.
    pub fn enter(&self, mm_id: u32, pid: u32, ts: u64) {
        let mut state = self.shared.lock();
        for (id, target) in &mut state.targets {
            if *id != mm_id {
                target.lose(pid, ts);
            }
        }
        state.targets.entry(mm_id).or_insert_with(Target::new).pids.insert(pid);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The process ended at `ts` (CLOCK_MONOTONIC, ns).
    pub fn leave(&self, pid: u32, ts: u64) {
        for target in self.shared.lock().targets.values_mut() {
            target.lose(pid, ts);
        }
    }

    /// Everything that happened until `ts` (CLOCK_MONOTONIC, ns) has been said by [`Self::enter`] and [`Self::leave`].
    pub fn settle(&self, ts: u64) {
        for target in self.shared.lock().targets.values_mut() {
            target.settle(ts);
        }
    }

    /// Hands over the last look at each address space that no process has any more; with `all` also of the others.
    /// Returns how many were never looked at.
    pub fn take(&self, all: bool, mut sink: impl FnMut(u32, Look)) -> u64 {
        let mut state = self.shared.lock();
        let done: Vec<u32> =
            state.targets.iter().filter(|(_, target)| all || target.pids.is_empty()).map(|(id, _)| *id).collect();
        let mut unseen = 0;
        for id in done {
            match state.targets.remove(&id).and_then(|target| target.look) {
                Some(look) => sink(id, look),
                None => unseen += 1,
            }
        }
        unseen
    }

    /// The cost of looking so far.
    pub fn cost(&self) -> Cost {
        self.shared.lock().cost
    }

    /// Ends the thread. The last looks can still be taken.
    pub fn stop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It panicked if at all in the middle of a look: the looks before are whole.
            let _ = thread.join();
        }
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        self.stop();
    }
}

/// CPU time of the calling thread.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The thread: looks at whoever has waited longest, and rests.
fn watch(shared: &Shared, walks_all: bool) {
    // It said what it looks at before the thread was started.
    let Ok(glancer) = Glancer::new(Path::new("/")) else { return };
    let areas = VmaWalk::load().map_err(|error| tracing::info!("flags of large processes are not recorded: {error}"));
    let areas = areas.ok().map(|walk| Box::new(walk) as Box<dyn Areas>);
    let mut glancer = glancer.with_areas(areas).walking_all(walks_all);
    let (begun, mut rest) = (Instant::now(), Duration::ZERO);
    while let Some((mm_id, pid)) = next_after(shared, begun, rest) {
        let begun_ns = thread_cpu_ns();
        let found = glancer.look(pid);
        let ts = monotonic_ns();
        let cpu_ns = thread_cpu_ns().saturating_sub(begun_ns);
        let mut state = shared.lock();
        state.cost.looks += 1;
        state.cost.cpu_ns += cpu_ns;
        rest = charged(state.cost.cpu_ns).min(Duration::from_nanos(cpu_ns)) * REST;
        if let Some(target) = state.targets.get_mut(&mm_id) {
            target.looked = Some((Instant::now(), cpu_ns));
            // A process that could not be read has ended meanwhile; its regions are those of the look before.
            if let Ok(regions) = found
                && target.pids.contains(&pid)
            {
                target.pending = Some(Look { ts, regions: rows(&regions) });
            }
        }
    }
}

/// Rests, then says whose turn it is; none when it is time to stop.
fn next_after(shared: &Shared, begun: Instant, rest: Duration) -> Option<(u32, u32)> {
    let until = Instant::now() + rest;
    let mut state = shared.lock();
    loop {
        if state.stopped {
            return None;
        }
        let now = Instant::now();
        let waiting = state
            .targets
            .iter()
            .filter_map(|(id, target)| Some((target.due(begun, state.cost), *id, *target.pids.first()?)));
        let longest = waiting.min();
        let due = longest.map(|(due, ..)| due.max(until));
        let wait = match (longest, due) {
            (Some((_, id, pid)), Some(due)) if due <= now => return Some((id, pid)),
            (_, Some(due)) => due - now,
            // Woken when somebody comes; the time limit is for a wake-up that came before the wait.
            _ => Duration::from_secs(1),
        };
        (state, _) = shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
    }
}

/// One row for each size of page in a mapping, in order of address.
fn rows(glances: &[Glance]) -> Vec<Region> {
    let mut found = Vec::new();
    for glance in glances {
        add_rows(glance, &mut found);
    }
    found
}

fn add_rows(glance: &Glance, found: &mut Vec<Region>) {
    let Glance { vma, held, asked, .. } = glance;
    let base_page_bytes = rustix::param::page_size() as u64;
    let reason = glance.reason.as_ref().map(Reason::word);
    let mut push = |page_size_bytes, bytes, reason| {
        // As calls and mappings call it: what was deleted keeps its name, and a memfd always has these words behind it.
        let path = vma.path.strip_suffix(b" (deleted)".as_slice()).unwrap_or(&vma.path);
        let path = Some(path.to_vec()).filter(|path| !path.is_empty());
        let asked = asked.map(pagelab_residency::Asked::word);
        found.push(Region { start: vma.start, end: vma.end, path, page_size_bytes, bytes, asked, reason });
    };
    // The reason is that of the small pages; the huge ones are as requested.
    for (size, bytes, reason) in [
        (base_page_bytes, held.base_bytes, reason),
        (HUGE_2M_BYTES as u64, held.huge_2m_bytes, None),
        (HUGE_1G_BYTES as u64, held.huge_1g_bytes, None),
        (vma.kernel_page_bytes, glance.pool_bytes, None),
    ] {
        if bytes > 0 {
            push(size, bytes, reason);
        }
    }
    if glance.present_bytes() == 0 && asked.is_some() {
        let size = if vma.is_hugetlb() { vma.kernel_page_bytes } else { base_page_bytes };
        push(size, 0, reason);
    }
}

#[cfg(test)]
mod tests;
