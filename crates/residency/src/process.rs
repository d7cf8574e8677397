//! All memory of a running process: the page sizes requested and got, and why they are smaller.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::ResidencyError;
use crate::folios::{FolioBytes, Folios};
use crate::frames::Frames;
use crate::maps::{self, Vma};
use crate::page_size::PageSize;
use crate::page_size::SLOT;
use crate::pagemap::{self, NoScan, Region};
use crate::reason::Reason;
use crate::reserved::{self, PoolBytes};
use crate::slots::{Held, PageBytes, Past, Slot, Source, Whole, held, open_pagemap};
use crate::thp::Settings;
use crate::zeros::{self, Pieces, ZeroFilled};

/// Mappings larger than this are not taken apart into slots: they are reservations (shadow memory, guard regions), and
/// their slots alone would fill memory.
const LARGEST: u64 = 1 << 38;

/// The value, or why it is not known.
pub type Told<T> = Result<T, String>;

/// How closely to look at a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookOptions {
    /// So long huge pages are read to find their zero-filled parts; at zero none is. The frames of small pages get as long.
    pub time_limit: Duration,
    /// Which huge pages are read first where the time is too short for all.
    pub seed: u64,
}

impl Default for LookOptions {
    fn default() -> Self {
        Self { time_limit: Duration::from_secs(2), seed: 0 }
    }
}

/// How huge pages were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Pages of a hugetlb pool (MAP_HUGETLB, SHM_HUGETLB, a file on hugetlbfs) of this size.
    Pool {
        /// Bytes of one page.
        page_bytes: u64,
    },
    /// By madvise(MADV_HUGEPAGE).
    Advice,
    /// By nobody: the host gives them to all anonymous memory.
    Host,
    /// By the file system, which maps its persistent memory directly (DAX).
    DirectAccess,
    /// By nobody: the file's mount (`huge=`), or the rule for shared memory, gives them.
    Mount,
}

impl Asked {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pool { .. } => "hugetlb",
            Self::Advice => "madvise",
            Self::Host => "always",
            Self::DirectAccess => "dax",
            Self::Mount => "mount",
        }
    }
}

/// Slots of a mapping that have less than a huge page for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Short {
    /// Why.
    pub reason: Reason,
    /// How many slots of 2 MiB, those that the mapping has a part of counted whole.
    pub slots: u64,
    /// Bytes of theirs that are in memory in small pages.
    pub base_bytes: u64,
}

/// One mapping of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    /// Address of the first byte.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// As the kernel prints them: `rw-p`.
    pub permissions: String,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// File, or the kernel's name for it; empty for anonymous memory.
    pub path: String,
    /// How huge pages were asked for; none if they were not.
    pub asked: Option<Asked>,
    /// Memory held, by size of page; none where unknown.
    pub held: Option<Held>,
    /// Why that is unknown; none where it is known.
    pub held_unknown: Option<String>,
    /// Bytes of shared memory (shmem, memfd, tmpfs) under the mapping that are on swap. The page tables know nothing of them, and all
    /// processes that map them count them.
    pub swapped_shared_bytes: u64,
    /// Which part of its huge pages holds only zeros.
    pub zero_filled: Told<ZeroFilled>,
    /// What is in memory in small pages by size of the kernel's folios, the smallest first.
    pub folios: Told<Vec<FolioBytes>>,
    /// Its bytes of a hugetlb pool; none for other memory.
    pub pool: Option<PoolBytes>,
    /// Why slots have less than a huge page, the most frequent first; of a mapping that asked for none, too. Empty where nothing is in
    /// memory, and for mappings that are too small or too large to be looked at slot by slot.
    pub short: Vec<Short>,
}

/// The memory of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessMemory {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// All mappings, in order of address.
    pub mappings: Vec<Mapping>,
    /// Bytes of its page tables; none if the kernel does not say.
    pub page_tables_bytes: Option<u64>,
    /// prctl(PR_SET_THP_DISABLE) holds for it.
    pub disabled: bool,
    /// `khugepaged/max_ptes_none`: a transparent huge page with more zero-filled parts is underused to the kernel; none if it does
    /// not say.
    pub max_ptes_none: Option<u64>,
    /// How closely it was looked at.
    pub options: LookOptions,
}

/// Looks at all memory of a process, as closely as [`LookOptions::default`] says.
///
/// # Errors
/// The process is gone, or another user's.
pub fn process(pid: u32) -> Result<ProcessMemory, ResidencyError> {
    process_with(pid, &LookOptions::default())
}

/// Looks at all memory of a process. Nothing of it changes, but that huge pages which are read count as used lately.
///
/// # Errors
/// The process is gone, or another user's.
pub fn process_with(pid: u32, options: &LookOptions) -> Result<ProcessMemory, ResidencyError> {
    let folder = Path::new("/").join(format!("proc/{pid}"));
    look(Path::new("/"), &folder, pid, options).map_err(|error| if folder.exists() { error } else { gone(pid) })
}

fn look(root: &Path, folder: &Path, pid: u32, options: &LookOptions) -> Result<ProcessMemory, ResidencyError> {
    let all = maps::read(folder, 0, u64::MAX)?;
    let pagemap = open_pagemap(folder)?;
    let settings = Settings::read(root, folder);
    let past = Past::default();
    let whole =
        Whole { root, pagemap: &pagemap, vmas: &all, settings: &settings, frames: Frames::open(root), past: &past };
    let mut folios = Folios::open(root, folder);
    let mut looks = Vec::with_capacity(all.len());
    for vma in &all {
        looks.push(whole.mapping(vma, folios.as_mut().ok())?);
    }
    let zero_filled = zero_filled(&whole, options, all.iter().zip(&looks));
    let end = Instant::now() + options.time_limit;
    let mappings = all.iter().zip(looks).zip(zero_filled).map(|((vma, look), zero_filled)| Mapping {
        start: vma.start,
        end: vma.end,
        permissions: vma.permissions.clone(),
        offset: vma.offset,
        path: vma.path_text(),
        asked: settings.asked(vma),
        swapped_shared_bytes: swapped_shared_bytes(vma, look.held.as_ref()),
        zero_filled,
        folios: folios_of(folios.as_mut(), &pagemap, &look, vma, end),
        pool: vma.is_hugetlb().then(|| reserved::of(root, folder, &settings.status, vma, &look.regions)),
        held: look.held,
        held_unknown: look.held_unknown,
        short: look.short,
    });
    let mappings = mappings.collect();
    // The page tables of a process that has ended are empty, which is not what they held.
    if !all.is_empty() && !maps::any_left(folder, &all) {
        let why = format!("process {pid} ended, or began another program, while it was looked at; look: ps -p {pid}");
        return Err(ResidencyError::Unreadable { path: folder.display().to_string(), why });
    }
    let field = |name: &str| settings.status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = |text: &str| text.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok();
    Ok(ProcessMemory {
        pid,
        comm: field("Name").unwrap_or_default().trim().to_owned(),
        mappings,
        page_tables_bytes: field("VmPTE").and_then(kib).map(|kib| kib << 10),
        disabled: settings.disabled_for_process,
        max_ptes_none: settings.host.khugepaged.max_ptes_none,
        options: *options,
    })
}

/// The zero-filled parts of all mappings, in order.
fn zero_filled<'a>(
    whole: &Whole<'_>,
    options: &LookOptions,
    looks: impl Iterator<Item = (&'a Vma, &'a Look)> + Clone,
) -> Vec<Told<ZeroFilled>> {
    let mut pieces: Vec<Pieces> = looks.clone().map(|(vma, look)| Pieces::of(vma, &look.regions)).collect();
    let Settings { folder, host, .. } = whole.settings;
    zeros::look(folder, whole.pagemap, host.khugepaged.max_ptes_none, options, &mut pieces);
    let seconds = options.time_limit.as_secs_f64();
    pieces
        .into_iter()
        .zip(looks)
        .map(|(one, (_, look))| look.scanned.clone().and_then(|()| one.told(seconds)))
        .collect()
}

fn folios_of(
    folios: Result<&mut Folios, &mut String>,
    pagemap: &File,
    look: &Look,
    vma: &Vma,
    end: Instant,
) -> Told<Vec<FolioBytes>> {
    look.scanned.clone()?;
    // Pages of a pool are of one size.
    if vma.is_hugetlb() || look.held.is_some_and(|held| held.base_bytes == 0) {
        return Ok(Vec::new());
    }
    folios.map_err(|why| why.clone())?.of(pagemap, &look.regions, end)
}

/// What smaps counts as swapped beyond the page tables' own entries is shared memory (shmem_swap_usage in mm/shmem.c).
fn swapped_shared_bytes(vma: &Vma, held: Option<&Held>) -> u64 {
    let own = held.map_or(0, |held| held.swapped_bytes);
    if vma.is_file() { vma.swapped_bytes.saturating_sub(own) } else { 0 }
}

/// What shows the rest of the process whose folder this is.
pub(crate) fn as_root(folder: &Path) -> String {
    let pid = folder.file_name().unwrap_or_default().to_string_lossy();
    format!("type: sudo pagelab doctor --pid {pid}")
}

fn gone(pid: u32) -> ResidencyError {
    let why = format!("there is no process {pid}; look: ps -e | grep {pid}");
    ResidencyError::Unreadable { path: format!("/proc/{pid}"), why }
}

/// What the page tables say of one mapping.
struct Look {
    held: Option<Held>,
    held_unknown: Option<String>,
    short: Vec<Short>,
    /// Its pages, if the kernel lists them.
    regions: Vec<Region>,
    /// Why they are not listed.
    scanned: Told<()>,
}

impl Look {
    fn nothing() -> Self {
        let held = Some(Held::default());
        Self { held, held_unknown: None, short: Vec::new(), regions: Vec::new(), scanned: Ok(()) }
    }
}

impl Whole<'_> {
    /// The memory of one mapping, and why its slots hold no huge pages.
    fn mapping(&self, vma: &Vma, folios: Option<&mut Folios>) -> Result<Look, ResidencyError> {
        // Frames of devices are no memory of the process.
        if vma.has_flag("pf") || vma.has_flag("io") {
            return Ok(Look::nothing());
        }
        let mut regions = match pagemap::scan(self.pagemap, vma.start, vma.end) {
            Ok(regions) => regions,
            Err(NoScan::Failed(error)) => return Err(error),
            Err(NoScan::Missing) => return self.mapping_by_sums(vma),
        };
        let slot = Slot {
            address: vma.start as usize,
            bytes: (vma.end - vma.start) as usize,
            mapped_bytes: 0,
            held: None,
            reason: None,
        };
        let of = |regions: &[Region]| {
            let sizes = [PageBytes::of(vma, regions, &Source::PagemapScan)];
            held(&slot, regions, std::slice::from_ref(vma), &sizes)
        };
        let mut held = of(&regions);
        // The huge page of zeros is none to smaps.
        let more = !vma.is_file() && held.is_some_and(|held| held.huge_2m_bytes > vma.huge_bytes());
        if let Some(folios) = folios.filter(|_| more)
            && let Ok(marked) = folios.mark_zero_pages(self.pagemap, &regions)
        {
            regions = marked;
            held = of(&regions);
        }
        if let Some(held) = &mut held {
            // Markers (userfaultfd) look like swap in the page tables and are not; smaps knows.
            held.swapped_bytes = held.swapped_bytes.min(vma.swapped_bytes);
        }
        let something = held.is_some_and(|held| held.present_bytes() + held.swapped_bytes > 0) || vma.is_hugetlb();
        // A mapping that is too small, and was advised all the same, is reported as too small.
        let len = vma.end - vma.start;
        let short = if something && len <= LARGEST && (len >= SLOT || vma.has_flag("hg")) {
            shorts(self.judge(vma.start, vma.end, PageSize::Huge2M, &regions, Source::PagemapScan).slots)
        } else {
            Vec::new()
        };
        Ok(Look { held, held_unknown: None, short, regions, scanned: Ok(()) })
    }

    /// The same for kernels without PAGEMAP_SCAN.
    fn mapping_by_sums(&self, vma: &Vma) -> Result<Look, ResidencyError> {
        let why = "PAGEMAP_SCAN: this kernel has no such request (Linux 6.7 and later do)".to_owned();
        let nothing = vma.resident_bytes == 0 && vma.swapped_bytes == 0;
        if nothing && !vma.is_hugetlb() {
            return Ok(Look { scanned: Err(why), ..Look::nothing() });
        }
        if vma.end - vma.start > LARGEST {
            let unknown = Some(format!("{why}, and the mapping is too large to read all its entries"));
            return Ok(Look { held: None, held_unknown: unknown, scanned: Err(why), ..Look::nothing() });
        }
        let got = self.look(vma.start, vma.end, PageSize::Huge2M, false)?;
        let mut held = got.total();
        if let Some(held) = &mut held {
            without_zero_pages(held, vma);
        }
        let unknown = held.is_none().then(|| format!("{why}, and smaps tells only the sum of both sizes"));
        let short = if vma.end - vma.start >= SLOT || vma.has_flag("hg") { shorts(got.slots) } else { Vec::new() };
        Ok(Look { held, held_unknown: unknown, short, scanned: Err(why), ..Look::nothing() })
    }
}

/// The kernel's page of zeros is entered, but not resident to smaps: in anonymous memory that is the whole difference.
fn without_zero_pages(held: &mut Held, vma: &Vma) {
    if vma.is_file() || vma.is_hugetlb() || held.huge_2m_bytes > 0 {
        return;
    }
    let zero = held.base_bytes.saturating_sub(vma.resident_bytes);
    held.base_bytes -= zero;
    held.zero_page_bytes += zero;
}

/// Slots that have less, by reason, the most frequent first.
fn shorts(slots: Vec<Slot>) -> Vec<Short> {
    let mut short: Vec<Short> = Vec::new();
    for slot in slots {
        let Some(reason) = slot.reason else { continue };
        let base_bytes = slot.held.map_or(0, |held| held.base_bytes);
        match short.iter_mut().find(|known| known.reason == reason) {
            Some(known) => {
                known.slots += 1;
                known.base_bytes += base_bytes;
            }
            None => short.push(Short { reason, slots: 1, base_bytes }),
        }
    }
    short.sort_by_key(|one| std::cmp::Reverse(one.slots));
    short
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::page_size::HUGE_2M_BYTES;
    use crate::slots::inspect;
    use crate::testing::Memory;

    #[test]
    fn memory_of_this_process_is_seen_as_a_range_of_it_is() {
        let memory = Memory::advised(4);
        assert!(memory.advise(0, 2 * HUGE_2M_BYTES, libc::MADV_POPULATE_WRITE));
        let own = inspect(memory.address, 4 * HUGE_2M_BYTES, PageSize::Huge2M).expect("look");
        let seen = process(std::process::id()).expect("its own");
        let mine = seen.mappings.iter().find(|one| one.start == memory.address as u64).expect("a mapping of its own");
        assert_eq!((mine.asked, mine.held), (Some(Asked::Advice), own.total()));
        let untouched = mine.short.iter().find(|one| one.reason == Reason::NotTouched);
        assert_eq!(untouched.map(|one| one.slots), Some(2), "{mine:?}");
        assert!(seen.page_tables_bytes.is_some_and(|bytes| bytes >= 4096) && !seen.disabled);
    }

    /// What all mappings hold together is what the kernel says the process holds.
    #[test]
    fn the_mappings_of_another_process_add_up() {
        let mut child = Command::new("sleep").arg("30").stdout(Stdio::null()).spawn().expect("sleep");
        let resident = || -> u64 {
            let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", child.id())).expect("it runs");
            let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
            line.and_then(|kib| kib.trim().strip_suffix(" kB")?.trim().parse().ok()).expect("kB")
        };
        // It has started when it sleeps: nothing comes any more.
        while !fs::read_to_string(format!("/proc/{}/wchan", child.id())).is_ok_and(|text| text.contains("nanosleep")) {
            std::thread::yield_now();
        }
        let (seen, resident) = (process(child.id()), resident());
        child.kill().and_then(|()| child.wait()).expect("it runs");
        let seen = seen.expect("a child of this process");
        let held: u64 = seen.mappings.iter().filter_map(|one| one.held).map(|held| held.present_bytes()).sum();
        assert_eq!((seen.comm.as_str(), held), ("sleep", resident << 10));
    }

    /// Its page tables are empty then; that would be reported as memory that is not there.
    #[test]
    fn a_process_that_ends_or_runs_another_program_is_noticed() {
        let mut child = Command::new("sleep").arg("30").stdout(Stdio::null()).spawn().expect("sleep");
        let folder = Path::new("/proc").join(child.id().to_string());
        let own = maps::read(Path::new("/proc/self"), 0, u64::MAX).expect("smaps");
        let all = maps::read(&folder, 0, u64::MAX).expect("smaps");
        assert!(maps::any_left(Path::new("/proc/self"), &own));
        assert!(!maps::any_left(&folder, &own), "another program");
        child.kill().expect("it runs");
        // Not reaped yet: its folder stays, its memory goes.
        while maps::any_left(&folder, &all) {
            std::thread::yield_now();
        }
        assert!(folder.exists());
        child.wait().expect("it ends");
    }

    #[test]
    fn a_process_that_is_gone_is_said_to_be() {
        let mut child = Command::new("true").spawn().expect("true");
        child.wait().expect("it ends");
        let error = process(child.id()).expect_err("it is gone").to_string();
        assert!(error.contains(&child.id().to_string()) && error.contains("no process"), "{error}");
    }
}
