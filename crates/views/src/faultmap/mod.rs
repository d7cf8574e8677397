//! The data of an address-against-time picture of one mapping: the call that made it, and every fault on it.
//!
//! On memory that gets huge pages the picture is one point behind the mmap; on memory that is filled page by page it is
//! a chain, and its slope is the order in which the program walks.

use std::collections::HashMap;
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use pagelab_recording::Recording;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::mappings::{ClassKey, ClassProfile, Example, MappingProfile, MemoryKind, ProfileOptions};
use crate::run::RunData;

/// Most points kept; the rest is counted only.
const POINTS: usize = 1 << 20;

/// What a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PointKind {
    /// The call that made the mapping.
    Map,
    /// A fault that found no page.
    Fault,
    /// A fault on a page that was there.
    Protection,
    /// The mapping went.
    Unmap,
}

/// One point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Time since the picture's start, ns.
    pub t_ns: i64,
    /// Bytes behind the picture's lowest address.
    pub offset: u64,
    /// Its kind.
    pub kind: PointKind,
}

/// One picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultMap {
    /// The class of the mapping, in words.
    pub what: String,
    /// The class.
    pub class: ClassKey,
    /// Lowest address shown.
    pub start: u64,
    /// Bytes shown.
    pub len: u64,
    /// Start and length of the whole mapping; more than what is shown where that is one slot of a long mapping.
    pub mapping_start: u64,
    /// See `mapping_start`.
    pub mapping_len: u64,
    /// Huge page size.
    pub huge_bytes: u64,
    /// Base page size.
    pub page_bytes: u64,
    /// Time between the call that made the mapping and the picture's start, ns; 0 if the picture begins with it.
    pub mapped_before_ns: i64,
    /// Time shown, ns.
    pub span_ns: i64,
    /// Points in the order of time.
    pub points: Vec<Point>,
    /// Faults in the range shown, also those beyond the limit of points.
    pub faults: u64,
    /// Faults on the whole mapping.
    pub mapping_faults: u64,
    /// Order of the faults of the class, in a word; null if there were too few.
    pub order: Option<String>,
    /// Mappings of the class in the run.
    pub class_mappings: u64,
    /// Faults of the class in the run.
    pub class_faults: u64,
}

impl FaultMap {
    /// Faults shown that found no page.
    pub fn fills(&self) -> usize {
        self.points.iter().filter(|point| point.kind == PointKind::Fault).count()
    }
}

/// The most telling mapping of the recording in `dir`: of the class given (or one like it) the mapping with most faults;
/// without one, of the class with most faults among those long enough for a huge page. `None` if there is none.
pub fn of_dir(dir: &Path, class: Option<&ClassKey>) -> Result<Option<FaultMap>> {
    let run = RunData::load(dir)?;
    let options = ProfileOptions::of_run(&run);
    let Some(profile) = MappingProfile::load(dir, &options)? else { return Ok(None) };
    let Some((class, example)) = pick(&profile, class) else { return Ok(None) };
    Ok(Some(draw(dir, &profile, class, example)?))
}

/// The class to show and its mapping.
fn pick<'a>(profile: &'a MappingProfile, wanted: Option<&ClassKey>) -> Option<(&'a ClassProfile, &'a Example)> {
    let shown = |class: &'a ClassProfile| Some((class, class.example.as_ref()?)).filter(|(_, e)| e.faults > 0);
    let is_theirs = |class: &&ClassProfile| !is_own_program(&class.key);
    // Classes are listed with most faults first.
    let exact = wanted.and_then(|key| profile.class(key)).and_then(shown);
    let alike = || {
        let key = wanted?;
        profile.classes.iter().filter(is_theirs).filter(|class| class.key.alike(key)).find_map(shown)
    };
    let long = || profile.classes.iter().filter(is_theirs).filter(|class| class.slots_if_aligned > 0).find_map(shown);
    exact.or_else(alike).or_else(long).or_else(|| profile.classes.iter().filter(is_theirs).find_map(shown))
}

/// Whether the mapping is of pagelab's own program, which a recorded `pagelab run` has mapped: its faults are no workload's.
fn is_own_program(class: &ClassKey) -> bool {
    let name = class.path.as_deref().and_then(|path| path.rsplit('/').next());
    class.kind == MemoryKind::File && matches!(name, Some("pagelab" | "pagelab-fleet"))
}

fn draw(dir: &Path, profile: &MappingProfile, class: &ClassProfile, example: &Example) -> Result<FaultMap> {
    let faults = faults_on(dir, example)?;
    let (start, len) = range_shown(example, &faults, profile.huge_bytes);
    let inside: Vec<&Hit> = faults.iter().filter(|hit| hit.addr >= start && hit.addr - start < len).collect();
    let first = inside.first().map_or(example.mapped_ts, |hit| hit.ts);
    let last = inside.last().map_or(first, |hit| hit.ts);
    // A mapping made long before it was touched would press all faults into one corner.
    let with_call = inside.len() <= 2 || first - example.mapped_ts <= 3 * (last - first);
    let zero = if with_call { example.mapped_ts } else { first };
    let mut points = Vec::with_capacity(inside.len() + 2);
    if with_call {
        points.push(Point { t_ns: 0, offset: 0, kind: PointKind::Map });
    }
    points.extend(inside.iter().map(|hit| Point {
        t_ns: hit.ts - zero,
        offset: hit.addr - start,
        kind: if hit.protection { PointKind::Protection } else { PointKind::Fault },
    }));
    Ok(FaultMap {
        what: class.key.to_string(),
        class: class.key.clone(),
        start,
        len,
        mapping_start: example.start,
        mapping_len: example.len,
        huge_bytes: profile.huge_bytes,
        page_bytes: profile.page_bytes,
        mapped_before_ns: if with_call { 0 } else { first - example.mapped_ts },
        span_ns: (last - zero).max(1),
        faults: inside.len() as u64,
        points,
        // The picture may begin before the measured time, in which the example's are counted.
        mapping_faults: example.faults.max(faults.len() as u64),
        order: class.order.word().map(str::to_owned),
        class_mappings: class.mappings,
        class_faults: class.faults,
    })
}

#[derive(Debug, Clone, Copy)]
struct Hit {
    ts: i64,
    addr: u64,
    protection: bool,
}

/// All faults on the example, in the order of time.
fn faults_on(dir: &Path, example: &Example) -> Result<Vec<Hit>> {
    let recording = Recording::open(dir)?;
    let x86 = recording.manifest().has_x86_fault_codes();
    let until = example.ended_ts.unwrap_or(i64::MAX);
    let end = example.start.saturating_add(example.len);
    let mut hits = Vec::new();
    for batch in recording.read("faults", Some(&["ts", "mm_id", "addr", "error_code"]))? {
        let batch = batch?;
        let (Some(ts), Some(mm), Some(addr), Some(error)) = (
            batch.column(0).as_primitive_opt::<Int64Type>(),
            batch.column(1).as_primitive_opt::<UInt32Type>(),
            batch.column(2).as_primitive_opt::<UInt64Type>(),
            batch.column(3).as_primitive_opt::<UInt32Type>(),
        ) else {
            continue;
        };
        // A null is no value, whatever lies beneath it.
        let errors = error.iter().map(Option::unwrap_or_default);
        let rows = ts.values().iter().zip(mm.values()).zip(addr.values()).zip(errors);
        for (((ts, mm), addr), error) in rows {
            let here = *mm == example.mm_id && (example.start..end).contains(addr);
            if here && hits.len() < POINTS && (example.mapped_ts..=until).contains(ts) {
                hits.push(Hit { ts: *ts, addr: *addr, protection: x86 && error & 1 != 0 });
            }
        }
    }
    hits.sort_by_key(|hit| hit.ts);
    Ok(hits)
}

/// The whole mapping if it is about as long as a huge page, else its slot with most faults.
fn range_shown(example: &Example, faults: &[Hit], huge: u64) -> (u64, u64) {
    if example.len <= huge.saturating_mul(2) {
        return (example.start, example.len);
    }
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for hit in faults {
        *counts.entry(hit.addr / huge).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(slot, count)| (*count, std::cmp::Reverse(*slot)));
    let slot = most.map_or(example.start / huge, |(slot, _)| slot);
    (slot * huge, huge)
}
