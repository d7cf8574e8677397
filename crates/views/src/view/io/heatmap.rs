//! Offset against time of the operations on the files with most of them.

use std::collections::HashMap;

use pagelab_recording::Recording;
use serde::Serialize;

use super::{CallFilter, Key, Kind, OneFile, kind_of};
use crate::calls::{self, Call};
use crate::error::Result;
use crate::iopattern::{FileUse, Grid};

/// How many files, or devices, are drawn, and how large.
#[derive(Debug, Clone, Copy)]
pub struct Drawn {
    /// Files, or devices, at most.
    pub files: usize,
    /// Columns of a picture.
    pub columns: usize,
    /// Rows of a picture.
    pub rows: usize,
}

/// Offset against time of the operations on one file.
#[derive(Debug, Serialize)]
pub struct Heatmap {
    /// What the file is called.
    pub name: String,
    /// The file, unique in the recording.
    pub file_id: u32,
    /// Reads in the picture.
    pub reads: u64,
    /// Writes in it.
    pub writes: u64,
    /// Operations by time and offset.
    pub grid: Grid,
}

impl Heatmap {
    fn add(&mut self, call: &Call<'_>, is_write: bool) {
        let (Some(offset), Some(bytes)) = (call.offset, call.ret.and_then(|ret| u64::try_from(ret).ok())) else {
            return;
        };
        if bytes > 0 {
            *(if is_write { &mut self.writes } else { &mut self.reads }) += 1;
            self.grid.add(call.ts, offset, bytes, is_write);
        }
    }
}

/// The pictures of the first files whose offsets are known; all processes that used a file are in its picture.
pub(super) fn of_files(
    recording: &Recording,
    files: &[OneFile],
    uses: &HashMap<Key, FileUse>,
    filter: &CallFilter<'_>,
    drawn: Drawn,
) -> Result<Vec<Heatmap>> {
    let mut maps: Vec<Heatmap> = Vec::new();
    for row in files {
        let has_offsets = row.reads.kinds.operations() + row.writes.kinds.operations() > 1;
        if maps.len() < drawn.files && has_offsets && maps.iter().all(|map| map.file_id != row.file_id) {
            maps.push(empty(row, uses, drawn));
        }
    }
    if maps.is_empty() {
        return Ok(maps);
    }
    let places: HashMap<u32, usize> = maps.iter().enumerate().map(|(place, map)| (map.file_id, place)).collect();
    calls::scan(recording, false, |call| {
        let place = call.file_id.and_then(|file| places.get(&file));
        let Some(map) = place.and_then(|place| maps.get_mut(*place)).filter(|_| filter.wants(call)) else { return };
        match kind_of(call.name) {
            Some(Kind::Reads) => map.add(call, false),
            Some(Kind::Writes) => map.add(call, true),
            _ => {}
        }
    })?;
    Ok(maps)
}

/// A picture without operations, as wide and high as those on the file reach.
fn empty(row: &OneFile, uses: &HashMap<Key, FileUse>, drawn: Drawn) -> Heatmap {
    let same = uses.iter().filter(|((_, file), _)| *file == row.file_id).map(|(_, file_use)| file_use);
    let (mut times, mut range) = ((i64::MAX, i64::MIN), (u64::MAX, 0));
    for (t, r) in same.filter_map(|file_use| file_use.times.zip(file_use.range)) {
        times = (times.0.min(t.0), times.1.max(t.1));
        range = (range.0.min(r.0), range.1.max(r.1));
    }
    Heatmap {
        name: row.name.clone(),
        file_id: row.file_id,
        reads: 0,
        writes: 0,
        grid: Grid::new(times, range, drawn.columns, drawn.rows),
    }
}
