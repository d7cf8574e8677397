//! Address against time of the mapping that the first finding speaks about, for both sides: points are put into cells, so that a
//! million faults take no more room than the picture has.

use std::collections::BTreeMap;

use pagelab_views::faultmap::{FaultMap, PointKind};
use schemars::JsonSchema;
use serde::Serialize;

/// Cells of a picture, across and up.
const COLUMNS: u64 = 400;
const ROWS: u64 = 200;

/// One side's picture.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FaultGrid {
    /// The mapping's class, in words.
    what: String,
    /// Lowest address shown, as text: it does not fit a number of the page's.
    start: String,
    /// Bytes shown, from the bottom to the top.
    len_bytes: u64,
    /// Huge page size, bytes.
    huge_bytes: u64,
    /// Time shown, from the left to the right, ns; the same on both sides.
    span_ns: i64,
    /// Time of the last point, ns.
    last_ns: i64,
    columns: u64,
    rows: u64,
    /// Column, row, faults that found no page, faults on a page that was there.
    cells: Vec<[u64; 4]>,
    /// Faults in the range shown, and on the whole mapping.
    faults: u64,
    mapping_faults: u64,
    /// Order of the faults, in a word.
    order: Option<String>,
}

/// The pictures of both sides on one scale of time.
pub(crate) fn grids(maps: [Option<FaultMap>; 2]) -> [Option<FaultGrid>; 2] {
    let span = maps.iter().flatten().map(|map| map.span_ns).max().unwrap_or(1).max(1);
    maps.map(|map| map.map(|map| grid(&map, span)))
}

fn grid(map: &FaultMap, span_ns: i64) -> FaultGrid {
    let mut cells: BTreeMap<(u64, u64), [u64; 2]> = BTreeMap::new();
    let place = |part: f64, cells: u64| ((part * cells as f64) as u64).min(cells - 1);
    for point in &map.points {
        let kind = match point.kind {
            PointKind::Fault => 0,
            PointKind::Protection => 1,
            PointKind::Map | PointKind::Unmap => continue,
        };
        let column = place(point.t_ns.max(0) as f64 / span_ns as f64, COLUMNS);
        let row = place(point.offset as f64 / map.len.max(1) as f64, ROWS);
        if let Some(count) = cells.entry((column, row)).or_default().get_mut(kind) {
            *count += 1;
        }
    }
    FaultGrid {
        what: map.what.clone(),
        start: format!("{:#x}", map.start),
        len_bytes: map.len,
        huge_bytes: map.huge_bytes,
        span_ns,
        last_ns: map.points.last().map_or(0, |point| point.t_ns),
        columns: COLUMNS,
        rows: ROWS,
        cells: cells.into_iter().map(|((column, row), [fills, others])| [column, row, fills, others]).collect(),
        faults: map.faults,
        mapping_faults: map.mapping_faults,
        order: map.order.clone(),
    }
}
