//! Faults counted by the mapping they hit, the instruction that took them and the task.
//!
//! One pass over the faults. Counts are kept by small keys; what they mean (paths, names) is looked up afterwards.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use pagelab_recording::Recording;
use pagelab_recording::attribution::Attribution;
use pagelab_recording::tables::{FaultsRow, MappingsRow};
use pagelab_views::mappings::Order;

use super::ends::Ends;
use super::options::Options;
use super::read::{self, Tasks};
use crate::failure::Failure;

/// Bits of the x86 page fault error code (arch/x86/include/asm/trap_pf.h).
const PROTECTION: u32 = 1;
const WRITE: u32 = 1 << 1;
const USER: u32 = 1 << 2;
const INSTRUCTION: u32 = 1 << 4;

/// Addresses from here up are the kernel's.
const KERNEL_HALF: u64 = 1 << 63;

const MAP_SHARED: u32 = 1;
const MAP_ANONYMOUS: u32 = 0x20;
const MAP_HUGETLB: u32 = 0x4_0000;

/// A mapping as it was made.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    /// Who made it.
    pub task_id: u32,
    /// When.
    pub ts: i64,
    /// Where it begins.
    pub start: u64,
    /// Length.
    pub len: Option<u64>,
    /// Offset in the file.
    pub offset: Option<u64>,
    /// File, or the kernel's name.
    pub path: Option<Rc<[u8]>>,
    /// What to call it if it has no path.
    pub kind: &'static str,
}

/// All mappings made, by their ids.
#[derive(Debug, Default)]
pub struct Mappings {
    by_id: HashMap<u32, Mapping>,
    paths: HashSet<Rc<[u8]>>,
    /// The latest mapping that begins at an address, to know what mremap moves.
    at: HashMap<(u32, u64), u32>,
}

impl Mappings {
    /// Reads the table `mappings`.
    pub fn load(recording: &Recording, notes: &mut Vec<String>) -> Result<Self, Failure> {
        let mut mappings = Self::default();
        read::each_in_time::<MappingsRow>(recording, notes, |row| mappings.take(&row))?;
        mappings.at.clear();
        Ok(mappings)
    }

    /// The mapping with that id.
    pub fn get(&self, id: u32) -> Option<&Mapping> {
        self.by_id.get(&id)
    }

    fn take(&mut self, row: &MappingsRow<'_>) {
        let Some(id) = row.mapping_id else { return };
        let called = if row.kind == "call" { row.ret.map(|ret| ret as u64) } else { row.addr };
        // What brk makes is the piece that the heap grew by.
        let (start, len) = match row.op {
            "brk" => (row.old_addr, row.old_addr.zip(called).map(|(old, new)| new.saturating_sub(old))),
            _ => (called, row.len),
        };
        let start = start.unwrap_or_default();
        let moved = row.old_addr.filter(|_| row.op == "mremap").and_then(|old| self.at.get(&(row.mm_id, old)));
        let mapping = match moved.and_then(|id| self.by_id.get(id)) {
            Some(before) => Mapping { task_id: row.task_id, ts: row.ts, start, len, ..before.clone() },
            None => Mapping {
                task_id: row.task_id,
                ts: row.ts,
                start,
                len,
                offset: row.offset,
                path: row.path.map(|path| self.shared(path)),
                kind: kind_of(row),
            },
        };
        self.at.insert((row.mm_id, start), id);
        self.by_id.insert(id, mapping);
    }

    fn shared(&mut self, path: &[u8]) -> Rc<[u8]> {
        if let Some(known) = self.paths.get(path) {
            return known.clone();
        }
        let new: Rc<[u8]> = path.into();
        self.paths.insert(new.clone());
        new
    }
}

/// What stands behind a mapping without a path.
fn kind_of(row: &MappingsRow<'_>) -> &'static str {
    let has = |bit| row.flags.is_some_and(|flags| flags & bit != 0);
    match row.op {
        "brk" => "[heap]",
        "shmat" => "[shm]",
        _ if has(MAP_HUGETLB) => "[hugetlb]",
        _ if has(MAP_ANONYMOUS) && has(MAP_SHARED) => "[anonymous shared]",
        _ if has(MAP_ANONYMOUS) => "[anonymous]",
        _ => "[unknown]",
    }
}

/// Faults on one mapping.
#[derive(Debug, Clone, Default)]
pub struct OnMapping {
    /// All of them.
    pub faults: u64,
    /// Of those, on a page that was there.
    pub protection_faults: u64,
    /// Slots of the huge page size in which a page was missing.
    pub slots: u64,
    /// Order of the faults that found no page.
    pub order: Order,
    last_page: Option<u64>,
}

impl OnMapping {
    /// Faults that found no page.
    pub fn missing(&self) -> u64 {
        self.faults - self.protection_faults
    }

    fn step(&mut self, page: u64) {
        let Some(last) = self.last_page.replace(page) else { return };
        match page.wrapping_sub(last) as i64 {
            1..=Order::NEAR_PAGES => self.order.ascending += 1,
            step if (-Order::NEAR_PAGES..0).contains(&step) => self.order.descending += 1,
            _ => self.order.other += 1,
        }
    }
}

/// How the processor described the faults. Known on x86 only.
#[derive(Debug, Clone, Copy, Default)]
pub struct Codes {
    /// From user mode.
    pub user: u64,
    /// Of writes.
    pub write: u64,
    /// Of instruction fetches.
    pub instruction: u64,
    /// On pages that were there.
    pub protection: u64,
}

/// The counts.
#[derive(Debug, Default)]
pub struct Joined {
    /// Faults in the recording.
    pub in_recording: u64,
    /// Of those, the ones selected; what follows is about these.
    pub faults: u64,
    /// By error code.
    pub codes: Codes,
    /// Faults whose error code is known.
    pub codes_known: u64,
    /// Faults of which it is known whether they needed I/O.
    pub major_known: u64,
    /// Of those, the ones that did.
    pub major: u64,
    /// How they ended.
    pub ends: Ends,
    /// Faults on no mapping known. Meaningless if mappings could not be read.
    pub unattributed: u64,
    /// By mapping.
    pub mappings: HashMap<u32, OnMapping>,
    /// By the mapping that the instruction lies in, and the instruction.
    pub ips: HashMap<(Option<u32>, u64), u64>,
    /// By task.
    pub tasks: HashMap<u32, u64>,
    /// Whether mappings are known.
    pub attributed: bool,
}

/// What the pass needs beside the rows.
pub struct Join<'a> {
    /// Selection.
    pub options: &'a Options,
    /// Tasks, for the selection.
    pub tasks: &'a Tasks,
    /// Mappings, for the selection.
    pub mappings: &'a Mappings,
    /// Base page size.
    pub page_bytes: u64,
    /// Huge page size.
    pub slot_bytes: u64,
    /// Whether the error code is that of x86.
    pub x86: bool,
}

/// The replay of mappings beside the faults, until it fails.
struct Replay {
    of_addresses: Attribution,
    of_instructions: Attribution,
}

impl Join<'_> {
    /// Counts the faults of a recording.
    pub fn run(&self, recording: &Recording, notes: &mut Vec<String>) -> Result<Joined, Failure> {
        let mut out = Joined::default();
        let mut replay = if recording.parts("mappings")?.is_empty() {
            notes.push("no mappings were recorded, so it is not known what the faults hit".to_owned());
            None
        } else {
            let of_addresses = Attribution::new(recording)?;
            Some(Replay { of_addresses, of_instructions: Attribution::new(recording)? })
        };
        let mut slots: HashSet<(u32, u64)> = HashSet::new();
        let mut failed = None;
        let visit = |row: FaultsRow<'_>| {
            out.in_recording += 1;
            if !self.tasks.wants(self.options, row.task_id, row.ts) {
                return;
            }
            let (mapping, module) = match replay.as_mut().map(|replay| replay.find(&row)).transpose() {
                Ok(found) => found.unwrap_or_default(),
                Err(error) => {
                    replay = None;
                    failed = Some(error.to_string());
                    (None, None)
                }
            };
            if self.options.file.is_some() {
                let path = mapping.and_then(|id| self.mappings.get(id)).and_then(|mapping| mapping.path.as_deref());
                if !self.options.wants_path(path) {
                    return;
                }
            }
            self.count(&mut out, &mut slots, &row, mapping, module);
        };
        // After a clean end the parts are in order of time, and reading one after the other is cheaper.
        if recording.manifest().complete {
            read::each::<FaultsRow<'_>>(recording, notes, visit)?;
        } else {
            read::each_in_time::<FaultsRow<'_>>(recording, notes, visit)?;
        }
        out.attributed = replay.is_some();
        if let Some(error) = failed {
            notes.push(format!("the mappings cannot be followed, so it is not known what the faults hit: {error}"));
        }
        Ok(out)
    }

    fn count(
        &self,
        out: &mut Joined,
        slots: &mut HashSet<(u32, u64)>,
        row: &FaultsRow<'_>,
        mapping: Option<u32>,
        module: Option<u32>,
    ) {
        let code = row.error_code.unwrap_or(0);
        let has = |bit| u64::from(code & bit != 0);
        out.faults += 1;
        out.codes_known += u64::from(row.error_code.is_some());
        // Without an error code the instruction's address tells the mode.
        out.codes.user += row.error_code.map_or(u64::from(row.ip < KERNEL_HALF), |_| has(USER));
        out.codes.write += has(WRITE);
        out.codes.instruction += has(INSTRUCTION);
        out.codes.protection += has(PROTECTION);
        out.major_known += u64::from(row.major.is_some());
        out.major += u64::from(row.major == Some(true));
        out.ends.count(row);
        *out.tasks.entry(row.task_id).or_default() += 1;
        *out.ips.entry((module, row.ip)).or_default() += 1;
        let Some(id) = mapping else {
            out.unattributed += 1;
            return;
        };
        let on = out.mappings.entry(id).or_default();
        on.faults += 1;
        if self.x86 && code & PROTECTION != 0 {
            on.protection_faults += 1;
            return;
        }
        on.step(row.addr / self.page_bytes);
        on.slots += u64::from(slots.insert((id, row.addr / self.slot_bytes)));
    }
}

impl Replay {
    /// The mapping of the address, and that of the instruction.
    fn find(&mut self, row: &FaultsRow<'_>) -> pagelab_recording::Result<(Option<u32>, Option<u32>)> {
        // A clean end has filled in what joins; what does not is tried again, because the recorder may not have joined.
        let address = match row.mapping_id {
            Some(id) => Some(id),
            None => self.of_addresses.mapping(row.ts, row.mm_id, row.addr)?,
        };
        let code =
            if row.ip >= KERNEL_HALF { None } else { self.of_instructions.mapping(row.ts, row.mm_id, row.ip)? };
        Ok((address, code))
    }
}

/// The code at an instruction address: a module and the offset in its file, where that is known, else the address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Path of the module, or `[kernel]`.
    pub module: Option<Rc<[u8]>>,
    /// Offset in the module's file.
    pub offset: Option<u64>,
    /// The address, if there is no offset that says the same for every process.
    pub ip: Option<u64>,
}

/// What happened at one place.
#[derive(Debug, Clone, Copy, Default)]
pub struct AtPlace {
    /// Faults.
    pub faults: u64,
    /// The address with most of them: a module lies elsewhere in each process.
    pub ip: u64,
    /// Addresses.
    pub ips: u64,
    most: u64,
}

/// Faults by place.
pub fn places(joined: &Joined, mappings: &Mappings) -> HashMap<Place, AtPlace> {
    let kernel: Rc<[u8]> = Rc::from(&b"[kernel]"[..]);
    let mut addresses: HashMap<(Place, u64), u64> = HashMap::new();
    for ((mapping, ip), count) in &joined.ips {
        let mapping = mapping.and_then(|id| mappings.get(id));
        let file = mapping.and_then(|mapping| mapping.path.clone().zip(mapping.offset.map(|at| (at, mapping.start))));
        let place = match file {
            _ if *ip >= KERNEL_HALF => Place { module: Some(kernel.clone()), offset: None, ip: Some(*ip) },
            Some((path, (offset, start))) => {
                Place { module: Some(path), offset: Some(offset.wrapping_add(ip.wrapping_sub(start))), ip: None }
            }
            None => Place { module: mapping.and_then(|mapping| mapping.path.clone()), offset: None, ip: Some(*ip) },
        };
        *addresses.entry((place, *ip)).or_default() += count;
    }
    let mut out: HashMap<Place, AtPlace> = HashMap::new();
    for ((place, ip), count) in addresses {
        let at = out.entry(place).or_default();
        at.faults += count;
        at.ips += 1;
        if (count, std::cmp::Reverse(ip)) > (at.most, std::cmp::Reverse(at.ip)) {
            (at.most, at.ip) = (count, ip);
        }
    }
    out
}
