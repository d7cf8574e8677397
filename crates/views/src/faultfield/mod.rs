//! All faults of a recording as a picture that can be zoomed into: time against the slots in which they fell.
//!
//! Addresses of a program lie far apart, so a picture of all of them would be empty. Its height is the touched slots (of the huge page
//! size) in order of address space and address, without the gaps: slot number 3 begins at height 3, and an address lies as far above
//! that as it does in its slot.
//!
//! [`FaultField::of`] reads every fault once and keeps sums ([`Sums`]), from which pictures of much of the recording are made at once.
//! A picture of a smaller part of the time reads the row groups of that part alone, and one of at most [`POINTS`] faults has each of
//! them.

mod sums;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use pagelab_recording::{Recording, Span};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fast::FastMap;
use crate::mappings::ProfileOptions;
use crate::read::Tasks;
use crate::selection::Selection;
use sums::Sums;

/// Faults of which a picture shows each.
pub const POINTS: usize = 1000;
/// Cells of a picture at most, in each direction.
const CELLS: usize = 2000;
/// Columns that the sums must give for a picture to be made of them.
const COARSE_COLUMNS: i64 = 200;

/// A slot: address space, and number of the slot in it.
type SlotKey = (u32, u64);

/// The faults of a recording, summed up.
#[derive(Debug)]
pub struct FaultField {
    sums: Sums,
    ranks: FastMap<SlotKey, u32>,
    slots: Vec<SlotKey>,
    huge_bytes: u64,
    x86: bool,
}

/// What of the picture is shown, and how finely.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Start, ns since the start of the field.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
    /// Lowest height shown, in slots.
    pub low: f64,
    /// Highest.
    pub high: f64,
    /// Cells across.
    pub columns: usize,
    /// Cells up.
    pub rows: usize,
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    /// Faults in the window.
    pub faults: u64,
    /// Cells across: those asked for, or fewer.
    pub columns: usize,
    /// Cells up.
    pub rows: usize,
    /// Column, row and faults of each cell that has some.
    pub cells: Vec<[u64; 3]>,
    /// Each fault, where there are at most [`POINTS`]; null where there are more.
    pub points: Option<Vec<FaultPoint>>,
    /// Where the heights lie: the lowest address of each slot in the window, as text; null where there are more than [`POINTS`].
    pub slots: Option<Vec<SlotPlace>>,
    /// What was left out.
    pub notes: Vec<String>,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FaultPoint {
    /// Time since the start of the field, ns.
    pub t_ns: i64,
    /// Height, slots times 2^20 (20 binary places), so that it is a whole number.
    pub height_q20: u64,
    /// Exact address, hexadecimal text.
    pub addr: String,
    /// Instruction that faulted, likewise.
    pub ip: String,
    /// Task, by name and ids.
    pub task: String,
    /// The page was there (a fault of protection).
    pub protection: bool,
}

/// One slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SlotPlace {
    /// Its height.
    pub rank: u64,
    /// Its lowest address, hexadecimal text.
    pub addr: String,
    /// The address space.
    pub mm_id: u32,
}

impl FaultField {
    /// Reads the faults of a recording. None where no fault was recorded.
    pub fn of(recording: &Recording, notes: &mut Vec<String>) -> Result<Option<Self>> {
        let huge_bytes = ProfileOptions::of_recording(recording, notes)?.huge_bytes.max(1);
        let mut sums = Sums::default();
        let mut numbers: FastMap<SlotKey, u32> = FastMap::default();
        let mut last: Option<(SlotKey, u32)> = None;
        visit(recording, &["ts", "mm_id", "addr"], notes, |fault| {
            let key = (fault.mm_id, fault.addr / huge_bytes);
            let number = match last {
                Some((known, number)) if known == key => number,
                _ => {
                    let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                    *numbers.entry(key).or_insert(next)
                }
            };
            last = Some((key, number));
            sums.add(fault.ts, number);
        })?;
        if numbers.is_empty() {
            return Ok(None);
        }
        let mut slots: Vec<(SlotKey, u32)> = numbers.into_iter().collect();
        slots.sort_unstable();
        let mut rank_of = vec![0; slots.len()];
        for (rank, (_, number)) in (0_u32..).zip(&slots) {
            if let Some(place) = rank_of.get_mut(*number as usize) {
                *place = rank;
            }
        }
        sums.rename(&rank_of);
        let slots: Vec<SlotKey> = slots.into_iter().map(|(key, _)| key).collect();
        let ranks = slots.iter().copied().zip(0..).collect();
        Ok(Some(Self { sums, ranks, slots, huge_bytes, x86: recording.manifest().has_x86_fault_codes() }))
    }

    /// Time shown at most, ns.
    pub fn span_ns(&self) -> i64 {
        self.sums.span_ns()
    }

    /// Touched slots: the greatest height.
    pub fn height(&self) -> usize {
        self.slots.len()
    }

    /// All faults.
    pub fn faults(&self) -> u64 {
        self.sums.faults()
    }

    /// Size of a slot.
    pub fn huge_bytes(&self) -> u64 {
        self.huge_bytes
    }

    /// All of it.
    pub fn whole(&self, columns: usize, rows: usize) -> Window {
        Window { from_ns: 0, to_ns: self.span_ns(), low: 0.0, high: self.slots.len() as f64, columns, rows }
    }

    /// The picture of a window of the recording that the field was made of.
    pub fn see(&self, recording: &Recording, window: &Window) -> Result<Seen> {
        let window = self.within(window);
        if let Some(window) = self.as_coarse(&window) {
            let mut grid = Grid::new(&window);
            self.sums.visit(|t_ns, rank, faults| _ = grid.add(t_ns, f64::from(rank) + 0.5, faults));
            return Ok(self.seen(&grid, None, &window, Vec::new()));
        }
        self.look(recording, &window)
    }

    /// The window, cut to what there is.
    fn within(&self, asked: &Window) -> Window {
        let most = self.slots.len() as f64;
        let low = if asked.low.is_finite() { asked.low.clamp(0.0, most) } else { 0.0 };
        let high = if asked.high.is_finite() { asked.high.clamp(low, most) } else { most };
        let from_ns = asked.from_ns.clamp(0, self.span_ns());
        Window {
            from_ns,
            to_ns: asked.to_ns.clamp(from_ns, self.span_ns()),
            low,
            high,
            columns: asked.columns.clamp(1, CELLS),
            rows: asked.rows.clamp(1, CELLS),
        }
    }

    /// The window with cells no narrower than a bin of the sums and no lower than a slot, if that is fine enough.
    fn as_coarse(&self, window: &Window) -> Option<Window> {
        let bins = (window.to_ns - window.from_ns) / self.sums.bin_ns().max(1);
        let slots = window.high - window.low;
        let is_fine = bins >= COARSE_COLUMNS && slots >= window.rows as f64 && self.faults() > 4 * POINTS as u64;
        is_fine.then(|| Window { columns: window.columns.min(bins as usize), ..*window })
    }

    /// Reads the faults of the window.
    fn look(&self, recording: &Recording, window: &Window) -> Result<Seen> {
        let start_ns = self.sums.start_ns();
        let from_ns = start_ns.saturating_add(window.from_ns);
        // The window has its end, a span has not.
        let to_ns = start_ns.saturating_add(window.to_ns).saturating_add(1);
        let part = recording.clone().within(Span { from_ns, to_ns });
        let (mut grid, mut points, mut notes) = (Grid::new(window), Vec::new(), Vec::new());
        let mut last: Option<(SlotKey, u32)> = None;
        visit(&part, &["ts", "mm_id", "addr", "ip", "task_id", "error_code"], &mut notes, |fault| {
            let key = (fault.mm_id, fault.addr / self.huge_bytes);
            let known = last.filter(|(before, _)| *before == key).map(|(_, rank)| rank);
            let Some(rank) = known.or_else(|| self.ranks.get(&key).copied()) else { return };
            last = Some((key, rank));
            let height = f64::from(rank) + (fault.addr % self.huge_bytes) as f64 / self.huge_bytes as f64;
            if grid.add(fault.ts - start_ns, height, 1) && points.len() <= POINTS {
                points.push((fault, height));
            }
        })?;
        let points = (points.len() <= POINTS).then(|| self.named(recording, points, &mut notes)).transpose()?;
        Ok(self.seen(&grid, points, window, notes))
    }

    fn named(
        &self,
        recording: &Recording,
        faults: Vec<(Fault, f64)>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<FaultPoint>> {
        let tasks = Tasks::load(recording, &Selection::default(), notes)?;
        let point = |(fault, height): (Fault, f64)| FaultPoint {
            t_ns: fault.ts - self.sums.start_ns(),
            height_q20: (height * f64::from(1 << 20)) as u64,
            addr: format!("{:#x}", fault.addr),
            ip: format!("{:#x}", fault.ip),
            task: tasks.title(fault.task_id),
            protection: self.x86 && fault.error_code & 1 != 0,
        };
        Ok(faults.into_iter().map(point).collect())
    }

    fn seen(&self, grid: &Grid, points: Option<Vec<FaultPoint>>, window: &Window, notes: Vec<String>) -> Seen {
        let ranks = window.low as usize..(window.high.ceil() as usize).min(self.slots.len());
        let place = |rank: usize| {
            let (mm_id, slot) = *self.slots.get(rank)?;
            Some(SlotPlace { rank: rank as u64, addr: format!("{:#x}", slot * self.huge_bytes), mm_id })
        };
        let slots = (ranks.len() <= POINTS).then(|| ranks.filter_map(place).collect());
        let (columns, rows) = (window.columns, window.rows);
        Seen { faults: grid.faults, columns, rows, cells: grid.cells(), points, slots, notes }
    }
}

/// The cells of a picture.
struct Grid {
    window: Window,
    counts: Vec<u32>,
    faults: u64,
}

impl Grid {
    fn new(window: &Window) -> Self {
        Self { window: *window, counts: vec![0; window.columns * window.rows], faults: 0 }
    }

    /// Counts faults, if they are in the window.
    fn add(&mut self, t_ns: i64, height: f64, faults: u64) -> bool {
        let Window { from_ns, to_ns, low, high, columns, rows } = self.window;
        if t_ns < from_ns || t_ns > to_ns || height < low || height > high {
            return false;
        }
        let cell = |part: f64, cells: usize| ((part * cells as f64) as usize).min(cells - 1);
        let column = cell((t_ns - from_ns) as f64 / (to_ns - from_ns).max(1) as f64, columns);
        let row = cell((height - low) / (high - low).max(1e-9), rows);
        if let Some(count) = self.counts.get_mut(column * rows + row) {
            *count = count.saturating_add(u32::try_from(faults).unwrap_or(u32::MAX));
        }
        self.faults += faults;
        true
    }

    fn cells(&self) -> Vec<[u64; 3]> {
        let rows = self.window.rows;
        let some = self.counts.iter().enumerate().filter(|(_, faults)| **faults > 0);
        some.map(|(place, faults)| [(place / rows) as u64, (place % rows) as u64, u64::from(*faults)]).collect()
    }
}

/// A row of `faults`; what was not asked for is 0.
#[derive(Debug, Clone, Copy, Default)]
struct Fault {
    ts: i64,
    mm_id: u32,
    addr: u64,
    ip: u64,
    task_id: u32,
    error_code: u32,
}

/// Calls `each` for every fault, past what is damaged.
fn visit(recording: &Recording, columns: &[&str], notes: &mut Vec<String>, mut each: impl FnMut(Fault)) -> Result<()> {
    for batch in recording.read_ahead("faults", Some(columns))? {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) if error.is_damage() => {
                notes.push(format!("left out: {error}"));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let narrow = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>();
        let wide = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>();
        let ts = batch.column_by_name("ts").and_then(|column| column.as_primitive_opt::<Int64Type>());
        let (Some(ts), Some(mm_id), Some(addr)) = (ts, narrow("mm_id"), wide("addr")) else { continue };
        let (ip, task_id, error_code) = (wide("ip"), narrow("task_id"), narrow("error_code"));
        for (row, ((ts, mm_id), addr)) in ts.values().iter().zip(mm_id.values()).zip(addr.values()).enumerate() {
            // A null is no value, whatever lies beneath it.
            let error_code = error_code.filter(|codes| !arrow::array::Array::is_null(codes, row));
            each(Fault {
                ts: *ts,
                mm_id: *mm_id,
                addr: *addr,
                ip: ip.map_or(0, |ip| ip.value(row)),
                task_id: task_id.map_or(0, |task| task.value(row)),
                error_code: error_code.map_or(0, |codes| codes.value(row)),
            });
        }
    }
    Ok(())
}
