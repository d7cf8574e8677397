//! Offset against time of the reads and writes of the devices with most of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::BlockIosRow;

use crate::error::Result;
use crate::iopattern::Grid;
use crate::read::{self, Tasks, device};
use crate::selection::Selection;
use crate::view::io::Drawn;

/// Sectors of the block layer, bytes.
const SECTOR_BYTES: u64 = 512;

/// Offset against time of the requests to one device.
#[derive(Debug)]
pub struct DeviceMap {
    /// What the device is called, or its numbers.
    pub name: String,
    /// Bytes read and written, in requests to all of the device.
    pub bytes: u64,
    /// Requests that read.
    pub reads: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Requests by the time of their issue and their offset on the device.
    pub grid: Grid,
}

/// What the requests to a device reach over.
struct Reach {
    name: Option<String>,
    bytes: u64,
    times: (i64, i64),
    range: (u64, u64),
}

/// A request that reads or writes contents: those that flush or discard have no place that is drawn.
struct Moved {
    offset: u64,
    is_write: bool,
}

impl Moved {
    fn of(row: &BlockIosRow<'_>) -> Option<Self> {
        let is_write = match row.op {
            "read" => false,
            "write" => true,
            _ => return None,
        };
        (row.bytes > 0).then(|| Self { offset: row.sector.saturating_mul(SECTOR_BYTES), is_write })
    }
}

/// The devices with most bytes read and written by the selected tasks, as many and as large as asked for, the first with most; and how
/// many devices there are.
pub fn of_devices(
    recording: &Recording,
    selection: &Selection,
    drawn: Drawn,
    notes: &mut Vec<String>,
) -> Result<(Vec<DeviceMap>, usize)> {
    let tasks = Tasks::load(recording, selection, notes)?;
    let wants = |row: &BlockIosRow<'_>| {
        !selection.by_task() || row.task_id.is_some_and(|task| tasks.wants(selection, task, row.ts))
    };
    let mut reaches: BTreeMap<u64, Reach> = BTreeMap::new();
    read::each::<BlockIosRow>(recording, notes, |row| {
        let Some(moved) = Moved::of(&row).filter(|_| wants(&row)) else { return };
        let end = moved.offset.saturating_add(row.bytes);
        let reach = reaches.entry(row.dev).or_insert_with(|| Reach {
            name: row.device.map(str::to_owned),
            bytes: 0,
            times: (row.ts, row.ts),
            range: (moved.offset, end),
        });
        reach.bytes = reach.bytes.saturating_add(row.bytes);
        reach.times = (reach.times.0.min(row.ts), reach.times.1.max(row.ts));
        reach.range = (reach.range.0.min(moved.offset), reach.range.1.max(end));
    })?;
    let devices = reaches.len();
    let mut ranked: Vec<(u64, Reach)> = reaches.into_iter().collect();
    ranked.sort_by_key(|(dev, reach)| (Reverse(reach.bytes), *dev));
    ranked.truncate(drawn.files);
    let places: BTreeMap<u64, usize> = ranked.iter().enumerate().map(|(place, (dev, _))| (*dev, place)).collect();
    let empty = |(dev, reach): (u64, Reach)| DeviceMap {
        name: reach.name.unwrap_or_else(|| device(dev)),
        bytes: reach.bytes,
        reads: 0,
        writes: 0,
        grid: Grid::new(reach.times, reach.range, drawn.columns, drawn.rows),
    };
    let mut maps: Vec<DeviceMap> = ranked.into_iter().map(empty).collect();
    // What is damaged was noted by the first pass.
    read::each::<BlockIosRow>(recording, &mut Vec::new(), |row| {
        let Some(moved) = Moved::of(&row).filter(|_| wants(&row)) else { return };
        let Some(map) = places.get(&row.dev).and_then(|place| maps.get_mut(*place)) else { return };
        *(if moved.is_write { &mut map.writes } else { &mut map.reads }) += 1;
        map.grid.add(row.ts, moved.offset, row.bytes, moved.is_write);
    })?;
    Ok((maps, devices))
}
