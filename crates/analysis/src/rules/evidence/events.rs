//! What the program asked of its address space, and what its faults were for, as counts.

use std::collections::BTreeMap;
use std::ops::Range;

use pagelab_recording::Recording;
use pagelab_recording::tables::{DaxFaultsRow, MappingsRow, TasksRow};
use pagelab_views::mappings::{MappingProfile, MemoryKind};

use crate::error::Result;

/// Faults on a page of private memory that was there and could not be written: copies on write, for the most part.
pub(crate) const ON_PRESENT_PAGE: &str = "on_present_page";
/// Faults that found no page in the mapping of a file.
pub(crate) const OF_FILE: &str = "of_file";
/// Faults that mapped one base page of a DAX file.
pub(crate) const DAX_PAGE: &str = "dax_page";

/// Counts of a run by kind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Events {
    /// Mapping calls in the measured time by operation (`mmap`, `munmap`, `madvise`): `None` if mappings were not recorded.
    pub calls: Option<BTreeMap<String, f64>>,
    /// Bytes that munmap gave back in the measured time; `None` if mappings were not recorded.
    pub given_back_bytes: Option<f64>,
    /// Faults of the whole recording by kind: `None` if they were not recorded.
    pub faults: Option<BTreeMap<String, f64>>,
    /// Processes that recorded tasks forked in the measured time; `None` if lives of tasks were not recorded.
    pub forks: Option<f64>,
    /// Threads that they started, likewise.
    pub threads: Option<f64>,
    /// Programs that they started, likewise.
    pub execs: Option<f64>,
}

/// Lives of tasks that began in the measured time.
#[derive(Clone, Copy, Default)]
struct Lives {
    processes: f64,
    threads: f64,
    programs: f64,
}

fn lives(recording: &Recording, window: Range<i64>) -> Result<Option<Lives>> {
    let (mut lives, mut is_recorded) = (Lives::default(), false);
    recording.for_each::<TasksRow>(|row| {
        is_recorded = true;
        match row.op {
            _ if !window.contains(&row.ts) => {}
            "fork" if row.tid == row.pid => lives.processes += 1.0,
            "fork" => lives.threads += 1.0,
            "exec" => lives.programs += 1.0,
            _ => {}
        }
    })?;
    Ok(is_recorded.then_some(lives))
}

/// Counts the events of a recording; calls within `window` only.
pub(super) fn load(recording: &Recording, window: Range<i64>, profile: Option<&MappingProfile>) -> Result<Events> {
    let mut calls: BTreeMap<String, f64> = BTreeMap::new();
    let (mut is_recorded, mut given_back_bytes) = (false, 0.0);
    let own = window.clone();
    recording.for_each::<MappingsRow>(|row| {
        is_recorded = true;
        let is_done = row.ret.is_some_and(|ret| !(-4095..0).contains(&ret));
        if row.kind == "call" && is_done && own.contains(&row.ts) {
            *calls.entry(row.op.to_owned()).or_default() += 1.0;
            if row.op == "munmap" {
                given_back_bytes += row.len.unwrap_or(0) as f64;
            }
        }
    })?;
    let mut dax_pages = 0.0;
    recording.for_each::<DaxFaultsRow>(|row| dax_pages += f64::from(u8::from(row.kind == "pte")))?;
    let faults = profile.map(|profile| {
        let sum = |count: fn(&pagelab_views::mappings::ClassProfile) -> u64, is_of: fn(MemoryKind) -> bool| {
            profile.classes.iter().filter(|class| is_of(class.key.kind)).map(count).sum::<u64>() as f64
        };
        let on_present = sum(|class| class.protection_faults, |kind| kind != MemoryKind::SharedAnonymous);
        let of_file = sum(|class| class.faults, |kind| kind == MemoryKind::File);
        [(ON_PRESENT_PAGE, on_present), (OF_FILE, of_file), (DAX_PAGE, dax_pages)]
            .map(|(kind, count)| (kind.to_owned(), count))
            .into_iter()
            .collect()
    });
    let lives = lives(recording, window)?;
    Ok(Events {
        calls: is_recorded.then_some(calls),
        given_back_bytes: is_recorded.then_some(given_back_bytes),
        faults,
        forks: lives.map(|lives| lives.processes),
        threads: lives.map(|lives| lives.threads),
        execs: lives.map(|lives| lives.programs),
    })
}
