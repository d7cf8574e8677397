//! A glance at a process: for each mapping the bytes by size of page, and the reason why small ones are small, from the page tables,
//! smaps, mounts and settings alone. It costs well below 0.1 us for each page of 4 KiB in memory, so that a recorder can repeat it.
//!
//! [`process`](crate::process()) looks closer: at the frames under each slot, at the memory that is free, at control groups. Both ask
//! the same policy in the same order; where only those tell the cause a glance says [`Reason::Unknown`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::maps::{self, Areas, Vma};
use crate::mounts::{self, Mount};
use crate::page_size::{PageSize, SLOT, base_page_bytes};
use crate::pagemap::{self, IS_FILE, IS_HUGE, IS_PRESENT, IS_ZERO_PAGE, NoScan, QUICK, Region};
use crate::process::Asked;
use crate::reason::Reason;
use crate::slots::{Held, PageBytes, Past, Slot, Source, Whole, held};
use crate::thp::{HostRules, Settings};
use crate::walk::Walk;

/// Mappings that lie so near are asked for together.
const NEAR_BYTES: u64 = 64 << 20;

/// Settings of the host and tables of mounts are read anew when they are older.
const FRESH: Duration = Duration::from_secs(1);

/// One mapping at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// What smaps says of it.
    pub vma: Vma,
    /// Bytes in memory by size of page; pages of a hugetlb pool in `pool_bytes` alone. Swapped bytes are those of the page tables.
    pub held: Held,
    /// Bytes in pages of the mapping's hugetlb pool.
    pub pool_bytes: u64,
    /// How huge pages were asked for; `None` if they were not.
    pub asked: Option<Asked>,
    /// Why small pages are small, the reason of most of their bytes; with nothing in memory, why that is so. `None` where all is as
    /// asked, and where nothing was asked for.
    pub reason: Option<Reason>,
}

impl Glance {
    /// Bytes in memory.
    pub fn present_bytes(&self) -> u64 {
        self.held.present_bytes() + self.pool_bytes
    }
}

/// Glances at processes, one after the other. What is the same for many is read once a second.
#[derive(Debug)]
pub struct Glancer {
    root: PathBuf,
    source: Source,
    known: Option<Known>,
    /// Where the flags of mappings come from where smaps would hold the process for long.
    areas: Option<Box<dyn Areas>>,
    /// smaps is read however long it holds the process.
    walks_all: bool,
    /// Why the last look knows no flags.
    without_flags: Option<String>,
}

/// Lists that change while they are read are read again so often.
const ATTEMPTS: usize = 4;

/// The values read lately.
#[derive(Debug)]
struct Known {
    at: Instant,
    host: Rc<HostRules>,
    /// By mount namespace, as the link in `/proc/PID/ns` names it.
    mounts: BTreeMap<PathBuf, Option<Rc<Vec<Mount>>>>,
}

impl Glancer {
    /// For the processes below `root` (`/` for this host).
    ///
    /// # Errors
    /// The host has neither page tables nor smaps to look at, in words.
    pub fn new(root: &Path) -> Result<Self, String> {
        let folder = root.join("proc/self");
        let smaps = folder.join("smaps");
        if let Err(error) = fs::metadata(&smaps) {
            return Err(format!(
                "{}: {error}; needed: a kernel with CONFIG_PROC_PAGE_MONITOR, and /proc mounted",
                smaps.display()
            ));
        }
        let pagemap = File::open(folder.join("pagemap")).map_err(|error| error.to_string());
        let source = match pagemap.map(|pagemap| pagemap::scan(&pagemap, 0, SLOT)) {
            Ok(Ok(_)) => Source::PagemapScan,
            Ok(Err(NoScan::Missing)) => {
                Source::Smaps { why: "the kernel has no PAGEMAP_SCAN (Linux 6.7 and later do)".to_owned() }
            }
            Ok(Err(NoScan::Failed(error))) => Source::Smaps { why: error.to_string() },
            Err(error) => Source::Smaps { why: format!("PAGEMAP_SCAN: {error}") },
        };
        Ok(Self::of(root, source))
    }

    fn of(root: &Path, source: Source) -> Self {
        let (known, areas, without_flags) = (None, None, None);
        Self { root: root.to_owned(), source, known, areas, walks_all: false, without_flags }
    }

    /// With another source of the flags of mappings. It is asked about processes with so many pages that smaps would keep them from
    /// mapping memory for long; without it nothing is known of what they asked for.
    #[must_use]
    pub fn with_areas(self, areas: Option<Box<dyn Areas>>) -> Self {
        Self { areas, ..self }
    }

    /// Reads smaps of every process, however long that keeps it from mapping memory.
    #[must_use]
    pub fn walking_all(self, walks_all: bool) -> Self {
        Self { walks_all, ..self }
    }

    /// Why the last look does not know what mappings asked for; `None` if it does.
    pub fn without_flags(&self) -> Option<&str> {
        self.without_flags.as_deref()
    }

    /// The same from sums in smaps alone, as on kernels before 6.7: huge pages of DAX files, which smaps does not count, are unseen.
    pub fn without_page_tables(root: &Path) -> Self {
        Self::of(root, Source::Smaps { why: "the page tables are not to be read".to_owned() })
    }

    /// Where page sizes come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Glances at a process: its mappings in order of address. Memory of devices and of the kernel itself is in none of the sums.
    ///
    /// # Errors
    /// It has ended, or is another user's.
    pub fn look(&mut self, pid: u32) -> io::Result<Vec<Glance>> {
        let folder = self.root.join(format!("proc/{pid}"));
        let pagemap = File::open(folder.join("pagemap"))?;
        let vmas = self.vmas(&folder, pid)?;
        let settings = self.settings(&folder);
        let regions = match self.source {
            Source::PagemapScan => Some(scan(&pagemap, &vmas)?),
            Source::Smaps { .. } => None,
        };
        // The memory of a process that ends goes before the process does.
        if !maps::any_left(&folder, &vmas) {
            return Err(io::Error::other("the process has ended"));
        }
        let past = Past::default();
        let whole =
            Whole { root: &self.root, pagemap: &pagemap, vmas: &vmas, settings: &settings, frames: None, past: &past };
        let seen = vmas.iter().filter_map(|vma| match &regions {
            Some(regions) => Some(whole.scanned(vma, regions)),
            // smaps counts a huge page of a DAX file as one base page: such mappings are left out rather than reported
            // wrong.
            None => (!settings.is_direct_access(vma)).then(|| whole.summed(vma)),
        });
        let mut seen: Vec<Glance> = seen.collect();
        if let Some(why) = &self.without_flags {
            for glance in &mut seen {
                forget_asked(glance, why);
            }
        }
        Ok(seen)
    }

    /// The mappings of a process: with smaps' sums and flags where it is read in no time, else with flags alone, or without.
    fn vmas(&mut self, folder: &Path, pid: u32) -> io::Result<Vec<Vma>> {
        self.without_flags = None;
        let walk = Walk::of_folder(folder);
        let Some(walk) = walk.filter(|walk| !self.walks_all && !walk.is_short()) else {
            return maps::smaps(folder)?.collect();
        };
        let held_ms = walk.held_ns() as f64 / 1e6;
        if let Source::Smaps { why } = &self.source {
            return Err(io::Error::other(format!("{why}, and smaps would hold the process for {held_ms:.0} ms")));
        }
        let mut reason = "found no other source".to_owned();
        let mut vmas = Vec::new();
        for _ in 0..ATTEMPTS {
            vmas = maps::list(folder)?.collect();
            match self.areas.as_mut().map(|areas| areas.areas(pid)) {
                Some(Ok(areas)) if maps::add_flags(&mut vmas, &areas, base_page_bytes() as u64) => return Ok(vmas),
                Some(Ok(_)) => "they changed at each look".clone_into(&mut reason),
                Some(Err(error)) => reason = error.to_string(),
                None => break,
            }
        }
        self.without_flags = Some(format!(
            "the flags of the mapping were not read: smaps would keep the process from mapping memory for {held_ms:.0} ms, and {reason}"
        ));
        Ok(vmas)
    }

    fn settings(&mut self, folder: &Path) -> Settings {
        if self.known.as_ref().is_none_or(|known| known.at.elapsed() > FRESH) {
            self.known = None;
        }
        let known = self.known.get_or_insert_with(|| Known {
            at: Instant::now(),
            host: Rc::new(HostRules::read(&self.root)),
            mounts: BTreeMap::new(),
        });
        let read = || mounts::of_folder(folder).ok().map(Rc::new);
        let mounts = match fs::read_link(folder.join("ns/mnt")) {
            Ok(namespace) => known.mounts.entry(namespace).or_insert_with(read).clone(),
            Err(_) => read(),
        };
        Settings::with(&self.root, folder, Rc::clone(&known.host), mounts)
    }
}

/// Without flags it is not known whether the program asked for huge pages, nor whether it refused them.
fn forget_asked(glance: &mut Glance, why: &str) {
    if matches!(glance.asked, None | Some(Asked::Host | Asked::Mount | Asked::Advice)) {
        glance.asked = None;
        let is_small = glance.held.base_bytes > 0 && glance.vma.len_bytes() >= SLOT;
        glance.reason = is_small.then(|| Reason::Unknown { why: why.to_owned() });
    }
}

/// The pages of all mappings. The address space is nearly empty; each island of mappings is asked for by itself.
fn scan(pagemap: &File, vmas: &[Vma]) -> io::Result<Vec<Region>> {
    let mut found = Vec::new();
    for island in vmas.chunk_by(|one, next| next.start.saturating_sub(one.end) <= NEAR_BYTES) {
        if let (Some(first), Some(last)) = (island.first(), island.last()) {
            pagemap::scan_into(pagemap, first.start, last.end, QUICK, &mut found).map_err(|error| match error {
                NoScan::Missing => io::Error::from_raw_os_error(libc::ENOTTY),
                NoScan::Failed(error) => io::Error::other(error),
            })?;
        }
    }
    Ok(found)
}

/// The regions that touch a mapping.
fn of_vma<'a>(vma: &Vma, regions: &'a [Region]) -> &'a [Region] {
    let after = regions.get(regions.partition_point(|region| region.end <= vma.start)..).unwrap_or_default();
    after.get(..after.partition_point(|region| region.start < vma.end)).unwrap_or_default()
}

/// A mapping, or a part of it, as a slot.
fn part(vma: &Vma, start: u64, end: u64, held: Option<Held>) -> Slot {
    let (start, end) = (start.max(vma.start), end.min(vma.end));
    let bytes = end.saturating_sub(start) as usize;
    Slot { address: start as usize, bytes, mapped_bytes: bytes, held, reason: None }
}

impl Whole<'_> {
    /// A mapping by the page tables.
    fn scanned(&self, vma: &Vma, regions: &[Region]) -> Glance {
        let regions = of_vma(vma, regions);
        // Frames of devices are no memory of the process.
        let is_device = vma.has_flag("pf") || vma.has_flag("io");
        let sizes = [PageBytes::of(vma, regions, &Source::PagemapScan)];
        let in_part = |start, end| held(&part(vma, start, end, None), regions, std::slice::from_ref(vma), &sizes);
        let whole = if is_device { None } else { in_part(vma.start, vma.end) };
        let glance = self.glance(vma, whole.unwrap_or_default());
        let small = || {
            let small = |region: &&Region| region.categories & (IS_PRESENT | IS_HUGE | IS_ZERO_PAGE) == IS_PRESENT;
            let slots = regions.iter().filter(small).flat_map(|region| {
                let (low, high) = (region.start.max(vma.start), region.end.min(vma.end));
                (low & !(SLOT - 1)..high).step_by(SLOT as usize)
            });
            let mut slots: Vec<u64> = slots.collect();
            slots.dedup();
            slots.into_iter().map(|start| part(vma, start, start + SLOT, in_part(start, start + SLOT))).collect()
        };
        let is_short = glance.asked.is_some() && glance.held.base_bytes > 0;
        let regions = if is_short { self.with_files(vma, regions) } else { Cow::Borrowed(regions) };
        self.with_reason(glance, &regions, small)
    }

    /// Adds what a quick scan leaves out: which pages are a file's. Only a private mapping has others, too.
    fn with_files<'r>(&self, vma: &Vma, regions: &'r [Region]) -> Cow<'r, [Region]> {
        if !vma.is_file() {
            return Cow::Borrowed(regions);
        }
        // Where no sums were read it may hold copies.
        let may_hold_copies = vma.anonymous_bytes > 0 || vma.resident_bytes == 0 && !vma.is_shared();
        if may_hold_copies && let Ok(closer) = pagemap::scan(self.pagemap, vma.start, vma.end) {
            return Cow::Owned(closer);
        }
        let of_file = |region: &Region| Region { categories: region.categories | IS_FILE, ..*region };
        Cow::Owned(regions.iter().map(of_file).collect())
    }

    /// A mapping by the sums in smaps: where its small pages lie is not known, so that one slot inside it stands for all.
    fn summed(&self, vma: &Vma) -> Glance {
        let huge_bytes = vma.huge_bytes();
        let base_bytes = vma.resident_bytes.saturating_sub(huge_bytes);
        let (huge_2m_bytes, swapped_bytes) = (huge_bytes, vma.swapped_bytes);
        let mut glance = self.glance(vma, Held { base_bytes, huge_2m_bytes, swapped_bytes, ..Held::default() });
        glance.pool_bytes = vma.hugetlb_bytes();
        let first = vma.start.next_multiple_of(SLOT);
        let start = if first.saturating_add(SLOT) <= vma.end { first } else { vma.start & !(SLOT - 1) };
        // Whether a page is a file's own or a copy smaps tells for the whole mapping.
        let categories = if vma.is_file() && vma.anonymous_bytes == 0 { IS_FILE } else { 0 } | IS_PRESENT;
        let stand_in = [Region { start, end: start + base_page_bytes() as u64, categories }];
        let held = Held { base_bytes: base_bytes.min(SLOT), ..Held::default() };
        self.with_reason(glance, &stand_in, || vec![part(vma, start, start + SLOT, Some(held))])
    }

    fn glance(&self, vma: &Vma, held: Held) -> Glance {
        let mut glance =
            Glance { vma: vma.clone(), held, pool_bytes: 0, asked: self.settings.asked(vma), reason: None };
        if vma.is_hugetlb() {
            glance.pool_bytes = held.present_bytes();
            glance.held = Held { swapped_bytes: held.swapped_bytes, ..Held::default() };
        }
        glance
    }

    /// Adds the reason. `small` makes the slots that hold small pages, which only mappings that asked for huge ones need.
    fn with_reason(&self, mut glance: Glance, regions: &[Region], small: impl FnOnce() -> Vec<Slot>) -> Glance {
        if glance.asked.is_none() {
            return glance;
        }
        let vma = &glance.vma;
        let around = crate::slots::touching(
            self.vmas,
            vma.start & !(SLOT - 1),
            vma.end.checked_next_multiple_of(SLOT).unwrap_or(u64::MAX),
        );
        let context = Context::new(self, around, (vma.start, vma.end), PageSize::Huge2M);
        if glance.present_bytes() == 0 {
            glance.reason = context.why(&part(vma, vma.start, vma.end, Some(glance.held)), regions);
        } else if glance.held.base_bytes > 0 && vma.len_bytes() < SLOT && !vma.has_flag("hg") {
            // Whatever its neighbours: it was not meant to hold a huge page.
            glance.reason = Some(Reason::LeavesMapping);
        } else if glance.held.base_bytes > 0 {
            let mut tally: Vec<(Reason, u64)> = Vec::new();
            for slot in small() {
                let bytes = slot.held.map_or(0, |held| held.base_bytes);
                let Some(reason) = context.why(&slot, regions) else { continue };
                match tally.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, sum)) => *sum += bytes,
                    None => tally.push((reason, bytes)),
                }
            }
            glance.reason = tally.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(reason, _)| reason);
        }
        glance
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::testing::Memory;
    use crate::thp::{anonymous_rule, chosen_word};

    /// Whether this host gives advised anonymous memory huge pages of 2 MiB.
    fn gives_by_advice() -> bool {
        let word = |name: &str| {
            let text = fs::read_to_string(Path::new("/sys/kernel/mm/transparent_hugepage").join(name)).ok()?;
            Some(chosen_word(&text)?.to_owned())
        };
        let rule = anonymous_rule(word("enabled").as_deref(), word("hugepages-2048kB/enabled").as_deref());
        rule.is_some_and(|(rule, _)| rule.allows(true))
    }

    fn ways() -> [Glancer; 2] {
        [Glancer::new(Path::new("/")).expect("smaps"), Glancer::without_page_tables(Path::new("/"))]
    }

    #[test]
    fn the_edges_of_a_mapping_have_no_whole_slot() {
        // A place without neighbours, from the middle of a slot over two slots to the middle of the fourth.
        let place = Memory::new(6);
        let (start, bytes) = (place.address + 3 * (SLOT / 2) as usize, 3 * SLOT as usize);
        drop(place);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping that replaces none.
        let mapped = unsafe { libc::mmap(start as *mut _, bytes, protection, flags, -1, 0) };
        assert_eq!(mapped as usize, start, "the place is free");
        // SAFETY: exactly what was mapped.
        assert_eq!(unsafe { libc::madvise(mapped, bytes, libc::MADV_HUGEPAGE) }, 0);
        for at in (0..3 * SLOT as usize).step_by(4096) {
            // SAFETY: inside the memory, which is writable.
            unsafe { ((start + at) as *mut u8).write_volatile(1) };
        }
        for mut glancer in ways() {
            let glances = glancer.look(std::process::id()).expect("this process");
            let glance = glances.iter().find(|glance| glance.vma.start == start as u64).expect("the mapping");
            assert_eq!((glance.asked, glance.present_bytes()), (Some(Asked::Advice), 3 * SLOT));
            if gives_by_advice() && glance.held.huge_2m_bytes == 2 * SLOT {
                assert_eq!(glance.held.base_bytes, SLOT, "half a slot at either end");
                // smaps does not tell where in the mapping small pages are.
                if *glancer.source() == Source::PagemapScan {
                    assert_eq!(glance.reason, Some(Reason::LeavesMapping));
                }
            }
        }
        // SAFETY: exactly what was mapped.
        assert_eq!(unsafe { libc::munmap(mapped, bytes) }, 0);
    }

    #[test]
    fn a_process_may_have_huge_pages_switched_off() {
        let program = "import mmap, sys\n\
                       memory = mmap.mmap(-1, 6 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
                       memory.madvise(mmap.MADV_HUGEPAGE)\n\
                       memory[:] = b'x' * (6 << 20)\n\
                       print('r', end='', flush=True)\n\
                       sys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: prctl may be called between fork and exec; the switch outlives exec.
        unsafe {
            command.pre_exec(|| {
                _ = libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
                Ok(())
            })
        };
        let mut child = command.spawn().expect("python3");
        let mut ready = [0];
        child.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("the memory is written");
        for mut glancer in ways() {
            let glances = glancer.look(child.id()).expect("the child lives");
            let advised = glances.iter().find(|glance| glance.asked == Some(Asked::Advice)).expect("the memory");
            assert_eq!(advised.held.huge_2m_bytes, 0);
            if gives_by_advice() {
                assert_eq!(advised.reason, Some(Reason::DisabledForProcess));
            }
        }
        drop(child.stdin.take());
        child.wait().expect("the child ends");
    }
}
