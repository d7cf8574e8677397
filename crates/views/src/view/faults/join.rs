//! Faults counted by the mapping they hit, the instruction that took them and the task.
//!
//! One pass over the faults, or their rollup. Counts are kept by small keys; their paths and names are looked up
//! afterwards.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use arrow::array::RecordBatch;
use pagelab_recording::Recording;
use pagelab_recording::space::{Change, Map, PageSizes};
use pagelab_recording::tables::MappingsRow;
use pagelab_vocab::abi::{MAP_ANONYMOUS, MAP_HUGETLB, MAP_SHARED};

use super::count::{Counter, FaultScale, Narrow};
use super::ends::Ends;
use super::rollup;
use crate::error::Result;
use crate::kinds::{Codes, FaultKind, KERNEL_HALF};
use crate::mappings::Order;
use crate::read::{self, Tasks};
use crate::selection::Selection;

/// A mapping as it was made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapping {
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
pub(crate) struct Mappings {
    by_id: HashMap<u32, Mapping>,
    paths: HashSet<Rc<[u8]>>,
    /// The latest mapping that begins at an address, to know what mremap moves.
    at: HashMap<(u32, u64), u32>,
}

impl Mappings {
    /// Reads the table `mappings`.
    pub(crate) fn load(recording: &Recording, notes: &mut Vec<String>) -> Result<Self> {
        let (mut mappings, sizes) = (Self::default(), PageSizes::of(recording));
        read::each_in_time::<MappingsRow>(recording, notes, |row| mappings.take(&row, &sizes))?;
        mappings.at.clear();
        Ok(mappings)
    }

    /// The mapping with that id.
    pub(crate) fn get(&self, id: u32) -> Option<&Mapping> {
        self.by_id.get(&id)
    }

    /// Keeps the mapping that a row makes, if it makes one.
    fn take(&mut self, row: &MappingsRow<'_>, sizes: &PageSizes) {
        let (id, range, map, before) = match Change::of(row, sizes) {
            Some(Change::Map(map)) => (map.mapping_id, map.range(), Some(map), None),
            Some(Change::Remap(remap)) => (remap.mapping_id, remap.new_range(), None, Some(remap.old)),
            // The heap's mapping is the piece that it grew by.
            Some(Change::Break { before, after, mapping_id }) => {
                (mapping_id, before.unwrap_or(after)..after, None, None)
            }
            _ => return,
        };
        let Some(id) = id else { return };
        let moved = before.and_then(|old| self.by_id.get(self.at.get(&(row.mm_id, old))?));
        let mapping = match moved {
            Some(moved) => moved.clone(),
            None => Mapping {
                offset: map.and_then(|map| map.offset),
                path: map.and_then(|map| map.path).map(|path| self.shared(path)),
                kind: if row.op == "brk" { "[heap]" } else { map.as_ref().map_or("[unknown]", kind_of) },
                ..Mapping::default()
            },
        };
        let len = range.end.checked_sub(range.start);
        self.at.insert((row.mm_id, range.start), id);
        self.by_id.insert(id, Mapping { task_id: row.task_id, ts: row.ts, start: range.start, len, ..mapping });
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
fn kind_of(map: &Map<'_>) -> &'static str {
    match map {
        _ if map.segment.is_some() => "[shm]",
        _ if map.has(MAP_HUGETLB) => "[hugetlb]",
        _ if map.has(MAP_ANONYMOUS | MAP_SHARED) => "[anonymous shared]",
        _ if map.has(MAP_ANONYMOUS) => "[anonymous]",
        _ => "[unknown]",
    }
}

/// Faults on one mapping.
#[derive(Debug, Clone, Default)]
pub(crate) struct OnMapping {
    /// All of them.
    pub faults: u64,
    /// Of those, on a page that was there.
    pub protection_faults: u64,
    /// Slots of the huge page size in which a page was missing.
    pub slots: u64,
    /// Order of the faults that found no page.
    pub order: Order,
}

impl OnMapping {
    /// Faults that found no page.
    pub(crate) fn missing(&self) -> u64 {
        self.faults.saturating_sub(self.protection_faults)
    }

    /// Counts the step from one page to the next.
    pub(super) fn step(&mut self, last: u64, page: u64) {
        match page.wrapping_sub(last) as i64 {
            1..=Order::NEAR_PAGES => self.order.ascending += 1,
            step if (-Order::NEAR_PAGES..0).contains(&step) => self.order.descending += 1,
            _ => self.order.other += 1,
        }
    }
}

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// Faults in the recording.
    pub in_recording: u64,
    /// Of those, the ones selected; what follows is about these.
    pub faults: u64,
    /// By error code.
    pub codes: Codes,
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
    /// Why mappings could not be followed to the end.
    pub failed: Option<String>,
}

impl Joined {
    /// Adds faults of which the same is said.
    pub(crate) fn add_kind(&mut self, kind: FaultKind, faults: u64) {
        self.faults += faults;
        self.codes.add(kind, faults);
        self.major_known += if kind.major.is_some() { faults } else { 0 };
        self.major += if kind.major == Some(true) { faults } else { 0 };
    }
}

/// The inputs of the pass other than the rows.
pub(crate) struct Join<'a> {
    /// Selection.
    pub selection: &'a Selection,
    /// Tasks, for the selection.
    pub tasks: &'a Tasks,
    /// Mappings, for the selection.
    pub mappings: &'a Mappings,
    /// Sizes.
    pub scale: FaultScale,
}

impl Join<'_> {
    /// Counts the faults of a recording: from its rollup where all faults are asked for, else one by one.
    pub(crate) fn run(&self, recording: &Recording, notes: &mut Vec<String>) -> Result<Joined> {
        if recording.parts("mappings")?.is_empty() {
            notes.push("no mappings were recorded, so it is not known what the faults hit".to_owned());
        }
        let narrowed = self.selection.by_task() || self.selection.file.is_some();
        let rolled_up = if narrowed { None } else { rollup::read(recording) };
        let joined = match rolled_up {
            Some(joined) => joined,
            None => self.count(recording, notes)?,
        };
        if let Some(error) = &joined.failed {
            notes.push(format!("the mappings cannot be followed, so it is not known what the faults hit: {error}"));
        }
        Ok(joined)
    }

    fn count(&self, recording: &Recording, notes: &mut Vec<String>) -> Result<Joined> {
        let mut counter = Counter::new(recording, self.scale, (i64::MIN, i64::MAX))?;
        let narrow = Narrow { selection: self.selection, tasks: self.tasks, mappings: self.mappings };
        // After a clean end the parts are in order of time, and reading one after the other is cheaper.
        if recording.manifest().is_compacted() {
            count_batches(recording.read_ahead("faults", None)?, &mut counter, &narrow, notes)?;
        } else {
            count_batches(recording.read_sorted("faults", None)?, &mut counter, &narrow, notes)?;
        }
        Ok(counter.finish().0)
    }
}

fn count_batches(
    batches: impl Iterator<Item = pagelab_recording::Result<RecordBatch>>,
    counter: &mut Counter,
    narrow: &Narrow<'_>,
    notes: &mut Vec<String>,
) -> Result<()> {
    for batch in batches {
        match batch.and_then(|batch| counter.batch(&batch, Some(narrow))) {
            Ok(()) => {}
            Err(error) if error.is_damage() => notes.push(format!("left out: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The code at an instruction address: a module and the offset in its file, where that is known, else the address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Path of the module, or `[kernel]`.
    pub module: Option<Rc<[u8]>>,
    /// Offset in the module's file.
    pub offset: Option<u64>,
    /// The address, if there is no offset that says the same for every process.
    pub ip: Option<u64>,
}

/// What happened at one place.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AtPlace {
    /// Faults.
    pub faults: u64,
    /// The address with most of them: a module lies elsewhere in each process.
    pub ip: u64,
    /// Addresses.
    pub ips: u64,
    most: u64,
}

/// Faults by place.
pub(crate) fn places(joined: &Joined, mappings: &Mappings) -> HashMap<Place, AtPlace> {
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
