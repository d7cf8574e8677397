//! All memory of a process that runs: what was asked, what was got, and why it is less.

use std::fs;
use std::io;
use std::path::Path;

use super::frames::Frames;
use super::host::{Rule, Settings};
use super::{Held, Past, Reason, SLOT, Whole, open_pagemap, vmas};
use crate::error::MapError;
use crate::page_size::PageSize;

/// Mappings larger than this are not taken apart into slots: they are reservations (shadow memory, guard regions), and
/// their slots alone would fill memory.
const LARGEST: u64 = 1 << 38;

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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// What is in memory, by size of page; none where it cannot be told.
    pub held: Option<Held>,
    /// Why slots have less than a huge page, the most frequent first; of a mapping that asked for none, too. Empty where nothing is in
    /// memory, and for mappings that are too small or too large to be looked at slot by slot.
    pub short: Vec<Short>,
}

/// The memory of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// Looks at all memory of a process.
///
/// # Errors
/// The process is gone, or another user's.
pub fn process(pid: u32) -> Result<ProcessMemory, MapError> {
    look(Path::new("/"), pid)
}

fn look(root: &Path, pid: u32) -> Result<ProcessMemory, MapError> {
    let folder = root.join(format!("proc/{pid}"));
    let status = fs::read_to_string(folder.join("status")).map_err(|error| unreadable(pid, &folder, &error))?;
    let all = vmas::read(&folder, 0, u64::MAX)?;
    let pagemap = open_pagemap(&folder)?;
    let settings = Settings::read(root, &folder);
    let past = Past::default();
    let whole =
        Whole { root, pagemap: &pagemap, vmas: &all, settings: &settings, frames: Frames::open(root), past: &past };
    let mut mappings = Vec::with_capacity(all.len());
    for vma in &all {
        let (held, short) = whole.mapping(vma)?;
        mappings.push(Mapping {
            start: vma.start,
            end: vma.end,
            permissions: vma.permissions.clone(),
            offset: vma.offset,
            path: vma.path.clone(),
            asked: asked(vma, &settings),
            held,
            short,
        });
    }
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = |text: &str| text.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok();
    Ok(ProcessMemory {
        pid,
        comm: field("Name").unwrap_or_default().trim().to_owned(),
        mappings,
        page_tables_bytes: field("VmPTE").and_then(kib).map(|kib| kib << 10),
        disabled: settings.disabled_for_process,
    })
}

fn unreadable(pid: u32, folder: &Path, error: &io::Error) -> MapError {
    let path = folder.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound => {
            MapError::Unreadable { path, why: format!("there is no process {pid}; look: ps -e | grep {pid}") }
        }
        _ => MapError::unreadable(Path::new(&path), error),
    }
}

fn asked(vma: &vmas::Vma, settings: &Settings) -> Option<Asked> {
    if vma.is_hugetlb() {
        return Some(Asked::Pool { page_bytes: vma.kernel_page_bytes });
    }
    if vma.has_flag("hg") {
        return Some(Asked::Advice);
    }
    match settings.of_file(vma) {
        Some(Rule::Always | Rule::WithinSize) => Some(Asked::Mount),
        None if !vma.is_file() && settings.anonymous == Some(Rule::Always) => Some(Asked::Host),
        _ => None,
    }
}

impl Whole<'_> {
    /// What one mapping holds, and why its slots hold no huge pages.
    fn mapping(&self, vma: &vmas::Vma) -> Result<(Option<Held>, Vec<Short>), MapError> {
        if vma.resident_bytes == 0 && vma.swapped_bytes == 0 && !vma.is_hugetlb() || vma.end - vma.start > LARGEST {
            let nothing = vma.resident_bytes == 0 && vma.swapped_bytes == 0;
            return Ok((nothing.then(Held::default), Vec::new()));
        }
        let got = self.look(vma.start, vma.end, PageSize::Huge2M, true)?;
        let held = got.total();
        let mut short: Vec<Short> = Vec::new();
        // A mapping that is too small, and was advised all the same, is told so.
        if vma.end - vma.start >= SLOT || vma.has_flag("hg") {
            for slot in got.slots {
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
        }
        short.sort_by_key(|one| std::cmp::Reverse(one.slots));
        Ok((held, short))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::map::Map;
    use crate::page_size::HUGE_2M_BYTES;

    #[test]
    fn memory_of_this_process_is_seen_as_the_map_sees_it() {
        let map = Map::options().page_size(PageSize::Huge2M).anonymous(4 * HUGE_2M_BYTES).expect("map");
        map.prefault(0, 2 * HUGE_2M_BYTES).expect("prefault");
        let own = map.got().expect("got");
        let seen = process(std::process::id()).expect("its own");
        let mine = seen.mappings.iter().find(|one| one.start == map.address() as u64).expect("a mapping of its own");
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

    #[test]
    fn a_process_that_is_gone_is_said_to_be() {
        let mut child = Command::new("true").spawn().expect("true");
        child.wait().expect("it ends");
        let error = process(child.id()).expect_err("it is gone").to_string();
        assert!(error.contains(&child.id().to_string()) && error.contains("no process"), "{error}");
    }
}
