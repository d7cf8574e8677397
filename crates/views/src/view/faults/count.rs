//! The pass over the faults of a recording: counts by small keys.

use arrow::array::{ArrowPrimitiveType, RecordBatch};
use pagelab_recording::Recording;
use pagelab_recording::attribution::Attribution;
use pagelab_recording::tables::{FaultsView, PrimitiveView, TableView};
use pagelab_vocab::abi::FAULT_PROTECTION;

use super::ends::{EndFigures, Ends};
use super::join::{Joined, Mappings, OnMapping};
use crate::fast::{FastMap, Tally};
use crate::kinds::{FaultKind, KERNEL_HALF};
use crate::read::Tasks;
use crate::selection::Selection;

/// Sizes by which addresses are counted, and how the error code is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FaultScale {
    /// Base page size.
    pub page_bytes: u64,
    /// Huge page size.
    pub slot_bytes: u64,
    /// Whether the error code is that of x86.
    pub x86: bool,
}

impl FaultScale {
    /// What the manifest and the huge page size of the settings give.
    pub(crate) fn of(recording: &Recording, huge_bytes: u64) -> Self {
        let page_bytes = crate::mappings::page_bytes_of(recording);
        Self { page_bytes, slot_bytes: huge_bytes.max(page_bytes), x86: recording.manifest().has_x86_fault_codes() }
    }
}

/// Which faults are counted.
pub(crate) struct Narrow<'a> {
    /// Tasks and files that are asked for.
    pub selection: &'a Selection,
    /// All tasks.
    pub tasks: &'a Tasks,
    /// All mappings.
    pub mappings: &'a Mappings,
}

impl Narrow<'_> {
    fn wants_path(&self, mapping: Option<u32>) -> bool {
        let path = mapping.and_then(|id| self.mappings.get(id)).and_then(|mapping| mapping.path.as_deref());
        self.selection.wants_path(path)
    }
}

/// The values of a column without nulls.
fn values<T: ArrowPrimitiveType>(column: &PrimitiveView<T>) -> &[T::Native] {
    column.array().map_or(&[], |array| array.values())
}

/// Faults on one mapping, while they are counted.
#[derive(Debug, Default)]
struct Touched {
    on: OnMapping,
    last_page: Option<u64>,
    last_slot: Option<u64>,
}

/// Instructions whose place among the counts is remembered.
const KNOWN_IPS: usize = 4096;

/// An instruction's place among the counts, found after this many changes of mappings.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct KnownIp {
    mm_id: u32,
    ip: u64,
    /// From 1 on; 0 while nothing is known.
    changes: u64,
    number: u32,
}

/// How a fault ended: whether it was major, and the memory it got.
type End = (bool, Option<String>);

/// Counts faults that come in order of time.
pub(crate) struct Counter {
    scale: FaultScale,
    /// Begin and end of the measured time.
    measured: (i64, i64),
    /// The replay of mappings along with the faults, until it fails.
    replay: Option<Attribution>,
    failed: Option<String>,
    in_recording: u64,
    unattributed: u64,
    /// By [`FaultKind::packed`].
    kinds: Tally<u64>,
    tasks: Tally<u32>,
    mappings: Tally<u32, Touched>,
    /// By the mapping that the instruction lies in, and the instruction.
    ips: Tally<(Option<u32>, u64)>,
    known_ips: Vec<KnownIp>,
    /// 64 slots of a mapping, a bit each.
    slots: FastMap<(u32, u64), u64>,
    ends: Vec<(End, Vec<i64>)>,
}

impl Counter {
    /// Counts nothing yet. `measured` is begin and end of the measured time.
    pub(crate) fn new(
        recording: &Recording,
        scale: FaultScale,
        measured: (i64, i64),
    ) -> pagelab_recording::Result<Self> {
        let known = !recording.parts("mappings")?.is_empty();
        let replay = known.then(|| Attribution::new(recording)).transpose()?;
        Ok(Self {
            scale,
            measured,
            replay,
            failed: None,
            in_recording: 0,
            unattributed: 0,
            kinds: Tally::default(),
            tasks: Tally::default(),
            mappings: Tally::default(),
            ips: Tally::default(),
            known_ips: vec![KnownIp::default(); KNOWN_IPS],
            slots: FastMap::default(),
            ends: Vec::new(),
        })
    }

    /// Counts the faults of a batch, or those that are asked for.
    pub(crate) fn batch(&mut self, batch: &RecordBatch, narrow: Option<&Narrow<'_>>) -> pagelab_recording::Result<()> {
        let view = FaultsView::new(batch)?;
        let narrow_by_task = narrow.filter(|narrow| narrow.selection.by_task());
        let narrow_by_file = narrow.filter(|narrow| narrow.selection.file.is_some());
        self.in_recording += view.len() as u64;
        let (times, tasks) = (values(&view.ts), values(&view.task_id));
        let (spaces, addrs, ips) = (values(&view.mm_id), values(&view.addr), values(&view.ip));
        for (row, ((((ts, task_id), mm_id), addr), ip)) in
            times.iter().zip(tasks).zip(spaces).zip(addrs).zip(ips).enumerate()
        {
            let (ts, task_id, mm_id, addr, ip) = (*ts, *task_id, *mm_id, *addr, *ip);
            if narrow_by_task.is_some_and(|narrow| !narrow.tasks.wants(narrow.selection, task_id, ts)) {
                continue;
            }
            let place = self.place_of(ts, mm_id, ip);
            // A clean end has filled in what joins; what does not is tried again, because the recorder may not have joined.
            let mapping = match view.mapping_id.get(row) {
                Some(id) => Some(id).filter(|_| self.replay.is_some()),
                None => self.mapping_of(ts, mm_id, addr),
            };
            if narrow_by_file.is_some_and(|narrow| !narrow.wants_path(mapping)) {
                continue;
            }
            let (code, major) = (view.error_code.get(row), view.major.get(row));
            let measured = self.measured.0 <= ts && ts < self.measured.1;
            *self.kinds.of(FaultKind { code, major, kernel_ip: ip >= KERNEL_HALF, measured }.packed()) += 1;
            *self.tasks.of(task_id) += 1;
            *self.ips.at(place) += 1;
            self.touch(mapping, addr, code.unwrap_or(0));
            if let (Some(major), Some(dur)) = (major, view.dur.get(row)) {
                self.end(major, view.got.get(row), dur);
            }
        }
        Ok(())
    }

    /// The mapping of an address or an instruction, as far as the replay goes.
    fn mapping_of(&mut self, ts: i64, mm_id: u32, addr: u64) -> Option<u32> {
        let found = self.replay.as_mut()?.mapping(ts, mm_id, addr);
        self.or_fail(found).flatten()
    }

    /// The number of the instruction among the counts. Where it lies is looked up again only when mappings have changed.
    fn place_of(&mut self, ts: i64, mm_id: u32, ip: u64) -> usize {
        let Some(replay) = self.replay.as_mut().filter(|_| ip < KERNEL_HALF) else {
            return self.ips.number((None, ip));
        };
        let changes = replay.changes_until(ts);
        let Some(changes) = self.or_fail(changes) else { return self.ips.number((None, ip)) };
        let slot = (ip ^ (ip >> 12) ^ u64::from(mm_id).wrapping_mul(0x9e37)) as usize % KNOWN_IPS;
        let known = self.known_ips[slot];
        if (known.mm_id, known.ip, known.changes) == (mm_id, ip, changes) {
            return known.number as usize;
        }
        let mapping = self.mapping_of(ts, mm_id, ip);
        let number = self.ips.number((mapping, ip));
        self.known_ips[slot] = KnownIp { mm_id, ip, changes, number: number as u32 };
        number
    }

    /// What the replay says; after its first failure it says nothing any more.
    fn or_fail<T>(&mut self, found: pagelab_recording::Result<T>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(error) => {
                self.replay = None;
                self.failed = Some(error.to_string());
                None
            }
        }
    }

    fn touch(&mut self, mapping: Option<u32>, addr: u64, code: u32) {
        let Some(id) = mapping else {
            self.unattributed += 1;
            return;
        };
        let touched = self.mappings.of(id);
        touched.on.faults += 1;
        if self.scale.x86 && code & FAULT_PROTECTION != 0 {
            touched.on.protection_faults += 1;
            return;
        }
        // A division takes as long as all the rest; sizes are powers of two, but what a setting says need not be.
        let page = addr >> self.scale.page_bytes.trailing_zeros();
        if let Some(last) = touched.last_page.replace(page) {
            touched.on.step(last, page);
        }
        let slot_bytes = self.scale.slot_bytes;
        let slot = if slot_bytes.is_power_of_two() { addr >> slot_bytes.trailing_zeros() } else { addr / slot_bytes };
        if touched.last_slot.replace(slot) != Some(slot) {
            let bits = self.slots.entry((id, slot / 64)).or_default();
            let bit = 1 << (slot % 64);
            touched.on.slots += u64::from(*bits & bit == 0);
            *bits |= bit;
        }
    }

    fn end(&mut self, major: bool, got: Option<&str>, dur: i64) {
        let known = self.ends.iter_mut().find(|((one, what), _)| *one == major && what.as_deref() == got);
        match known {
            Some((_, times)) => times.push(dur),
            None => self.ends.push(((major, got.map(str::to_owned)), vec![dur])),
        }
    }

    /// Keys that are kept, each of some 30 to 100 bytes. Eight durations take as much as one.
    pub(crate) fn kept(&self) -> usize {
        let ends: usize = self.ends.iter().map(|(_, times)| times.len()).sum();
        let counts = self.kinds.len() + self.tasks.len() + self.mappings.len() + self.ips.len();
        counts + self.slots.len() + ends / 8
    }

    /// Faults by kind.
    pub(crate) fn finish(self) -> (Joined, Vec<(FaultKind, u64)>) {
        let kinds = self.kinds.into_entries().into_iter().map(|(kind, faults)| (FaultKind::of_packed(kind), faults));
        let kinds: Vec<(FaultKind, u64)> = kinds.collect();
        let ends = self.ends.into_iter().map(|(key, times)| (key, EndFigures::of(times)));
        let mut joined = Joined {
            in_recording: self.in_recording,
            unattributed: self.unattributed,
            attributed: self.replay.is_some(),
            failed: self.failed,
            tasks: self.tasks.into_entries().into_iter().collect(),
            // Faults that are not asked for have left their instructions with a count of none.
            ips: self.ips.into_entries().into_iter().filter(|(_, faults)| *faults > 0).collect(),
            mappings: self.mappings.into_entries().into_iter().map(|(id, touched)| (id, touched.on)).collect(),
            ends: Ends(ends.collect()),
            ..Joined::default()
        };
        for (kind, faults) in &kinds {
            joined.add_kind(*kind, *faults);
        }
        (joined, kinds)
    }
}
