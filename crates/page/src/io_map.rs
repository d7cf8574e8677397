//! Offset against time of the files with most I/O, and the sizes of all operations: as the view `io` has them, without empty cells.
//! Where calls were not recorded, and requests to block devices were, those of the devices.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_views::Result;
use pagelab_views::iopattern::Grid;
use pagelab_views::selection::Selection;
use pagelab_views::view::block::{self, DeviceMap};
use pagelab_views::view::io::{Drawn, Heatmap, OneFile, Size, collect_with};
use schemars::JsonSchema;
use serde::Serialize;

/// Files drawn, and the cells of each across and up.
const DRAWN: Drawn = Drawn { files: 3, columns: 160, rows: 60 };

/// Files with fewer bytes than this part of the first file's are not drawn.
const LEAST: u64 = 100;

/// The I/O of one recording.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct IoMaps {
    /// Table that the operations are of.
    table: IoTable,
    /// Those with most bytes first.
    files: Vec<IoMap>,
    /// Pairs of process and file with I/O, or devices, drawn or not.
    files_total: usize,
    /// Lower end of a power of two, bytes; reads; writes.
    sizes: Vec<[u64; 3]>,
}

/// Where operations are from.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum IoTable {
    /// System calls on files.
    Syscalls,
    /// Requests to block devices, of whoever submitted them: what is called a file is a device.
    BlockIos,
}

/// One file, or device.
#[derive(Debug, Serialize, JsonSchema)]
struct IoMap {
    name: String,
    /// Null of a device.
    file_id: Option<u32>,
    /// Its first operation, ns since the first of all files drawn.
    start_ns: i64,
    /// Until its last.
    span_ns: i64,
    /// Least offset, and the furthest end, bytes.
    low_bytes: u64,
    high_bytes: u64,
    columns: usize,
    rows: usize,
    /// Column, row, reads, writes. An operation counts in every row that it covers.
    cells: Vec<[u64; 4]>,
    /// Operations drawn.
    reads: u64,
    writes: u64,
}

impl IoMaps {
    /// Reads a recording; none where neither calls nor requests were recorded, or none moved data.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(recording: &Recording, notes: &mut Vec<String>) -> Result<Option<Self>> {
        if !recording.parts("syscalls")?.is_empty() {
            Self::of_calls(recording, notes)
        } else if !recording.parts("block_ios")?.is_empty() {
            Self::of_requests(recording, notes)
        } else {
            Ok(None)
        }
    }

    fn of_calls(recording: &Recording, notes: &mut Vec<String>) -> Result<Option<Self>> {
        let (answer, heatmaps) = collect_with(recording, &Selection::default(), DRAWN)?;
        let sizes = sizes(&answer.data.sizes_read, &answer.data.sizes_written);
        if sizes.is_empty() {
            return Ok(None);
        }
        let first_ns = heatmaps.iter().map(|map| map.grid.start_ns).min().unwrap_or_default();
        let bytes = |file_id: u32| bytes_of(&answer.data.files, file_id);
        let least = heatmaps.first().map_or(0, |map| bytes(map.file_id)) / LEAST;
        let files = heatmaps.into_iter().filter(|map| bytes(map.file_id) >= least);
        let files = files.map(|map| of_file(map, first_ns)).collect();
        notes.extend(answer.notes);
        Ok(Some(Self { table: IoTable::Syscalls, files, files_total: answer.data.files_total, sizes }))
    }

    fn of_requests(recording: &Recording, notes: &mut Vec<String>) -> Result<Option<Self>> {
        let all = Selection { top: Some(0), ..Selection::default() };
        let answer = block::collect(recording, &all)?;
        let mut sizes: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
        for group in &answer.data.groups {
            let Some(place) = ["read", "write"].iter().position(|op| *op == group.op) else { continue };
            for size in group.sizes.iter().filter(|size| size.low_bytes > 0) {
                sizes.entry(size.low_bytes).or_default()[place] += size.count;
            }
        }
        if sizes.is_empty() {
            return Ok(None);
        }
        let (devices, files_total) = block::of_devices(recording, &all, DRAWN, notes)?;
        let first_ns = devices.iter().map(|map| map.grid.start_ns).min().unwrap_or_default();
        let least = devices.first().map_or(0, |map| map.bytes) / LEAST;
        let drawn = devices.into_iter().filter(|map| map.bytes >= least);
        let files = drawn.map(|map| of_device(map, first_ns)).collect();
        let sizes = sizes.into_iter().map(|(low_bytes, [reads, writes])| [low_bytes, reads, writes]).collect();
        notes.extend(answer.notes);
        Ok(Some(Self { table: IoTable::BlockIos, files, files_total, sizes }))
    }
}

/// Bytes moved on a file by all processes.
fn bytes_of(rows: &[OneFile], file_id: u32) -> u64 {
    let same = rows.iter().filter(|row| row.file_id == file_id);
    same.map(|row| row.reads.bytes.saturating_add(row.writes.bytes)).fold(0, u64::saturating_add)
}

fn of_file(map: Heatmap, first_ns: i64) -> IoMap {
    one(map.name, Some(map.file_id), &map.grid, [map.reads, map.writes], first_ns)
}

fn of_device(map: DeviceMap, first_ns: i64) -> IoMap {
    one(map.name, None, &map.grid, [map.reads, map.writes], first_ns)
}

fn one(name: String, file_id: Option<u32>, grid: &Grid, [reads, writes]: [u64; 2], first_ns: i64) -> IoMap {
    IoMap {
        name,
        file_id,
        start_ns: grid.start_ns - first_ns,
        span_ns: grid.end_ns - grid.start_ns,
        low_bytes: grid.low,
        high_bytes: grid.high,
        columns: grid.columns,
        rows: grid.rows,
        cells: cells(grid),
        reads,
        writes,
    }
}

/// The cells with operations.
fn cells(grid: &Grid) -> Vec<[u64; 4]> {
    let both = grid.reads.iter().zip(&grid.writes).enumerate();
    let filled = both.filter(|(_, (reads, writes))| **reads + **writes > 0);
    filled
        .map(|(place, (reads, writes))| [(place % grid.columns) as u64, (place / grid.columns) as u64, *reads, *writes])
        .collect()
}

/// Both lists as one, by size.
fn sizes(reads: &[Size], writes: &[Size]) -> Vec<[u64; 3]> {
    let calls = |sizes: &[Size], from_bytes: u64| {
        sizes.iter().find(|size| size.from_bytes == from_bytes).map_or(0, |size| size.calls)
    };
    let mut all: Vec<u64> = reads.iter().chain(writes).map(|size| size.from_bytes).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|from_bytes| [from_bytes, calls(reads, from_bytes), calls(writes, from_bytes)]).collect()
}
