//! Rollups: what a view takes from small tables of a recording instead of its events.
//!
//! [`pagelab_recording::rollup`] says when a rollup is written and when it is read. Here is what is in them. Each view
//! collects its figures into one struct, from events or from the rows of its rollup, and everything behind that (titles,
//! ranking, cutting, notes) is the same code:
//!
//! | rollups | made by the pass over | read by |
//! |---|---|---|
//! | `rollup_faults`, `rollup_fault_*` | `faults` | `show faults`, mapped files of `show io`, the metrics `faults.*` |
//! | `rollup_mappings`, `rollup_mapping_classes`, `rollup_hugetlb_refusals` | `faults` | [`crate::mappings::MappingProfile`] |
//! | `rollup_calls`, `rollup_call_durations` | `syscalls` | `show syscalls` |
//! | `rollup_samples` | `samples` | `show profile` |
//!
//! Whatever is narrowed (to a part of the time, to tasks, files or names) is made from events.
//!
//! # How to add one
//! 1. Declare the table in the registry, with `rollup(1; SOURCE, ...)` in its head.
//! 2. Write how its rows are made of a view's figures, and the figures of its rows, in a file `rollup.rs` next to the
//!    view's.
//! 3. Make it in [`Makers`], and read it where the view takes its figures.
//! 4. Hold view with rollups equal to view without in `tests/rollups.rs`.

use std::path::Path;

use arrow::array::RecordBatch;
use pagelab_recording::rollup::{Outcome, RollupRows, Witness, Witnesses};
use pagelab_recording::tables::{self, TableDef};
use pagelab_recording::{Level, Problem, Recording, Result, check};

use crate::fast::few_enough;
use crate::mappings::{self, ProfileOptions, Walk};
use crate::view::faults;
use crate::view::faults::count::{Counter, FaultScale};
use crate::view::profile::rollup::OfSamples;
use crate::view::syscalls::rollup::OfCalls;

/// Knows how all rollups are made; for [`pagelab_recording::RecordingWriter::set_witnesses`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Makers;

impl Witnesses for Makers {
    fn of(
        &self,
        recording: &Recording,
        table: &'static TableDef,
    ) -> std::result::Result<Option<Box<dyn Witness>>, String> {
        let said = |error: crate::ViewError| error.to_string();
        Ok(match table.name {
            "faults" if is_replayed_cheaply(recording).map_err(said)? => {
                Some(Box::new(OfFaults::new(recording).map_err(said)?))
            }
            "syscalls" => Some(Box::new(OfCalls::new(recording).map_err(said)?)),
            "samples" => Some(Box::new(OfSamples::new(recording).map_err(said)?)),
            _ => None,
        })
    }
}

/// Most mapping actions of a recording whose faults are added up: during compaction their replay takes some 600 bytes
/// for each.
const MOST_ACTIONS: u64 = 1 << 16;

/// Whether closing has the memory to replay the mapping actions. With more of them, as of ten thousand processes, views take
/// faults and classes of mappings from events.
fn is_replayed_cheaply(recording: &Recording) -> crate::error::Result<bool> {
    Ok(recording.rows("mappings")? <= MOST_ACTIONS)
}

/// Makes the rollups of a closed recording anew. What is not complete, or damaged, is left as it is.
///
/// # Errors
/// As [`pagelab_recording::rollup::write`].
pub fn write(dir: &Path) -> Result<Outcome> {
    let is_damage = |it: &&Problem| it.level == Level::Problem && it.id.starts_with("part.");
    let is_rollup =
        |path: &Path| tables::all().iter().any(|it| it.rollup.is_some() && path.starts_with(dir.join(it.name)));
    let report = check(dir)?;
    // Damaged rollups are what this mends.
    match report.problems.iter().filter(is_damage).find(|problem| !is_rollup(&problem.path)) {
        Some(problem) => Ok(Outcome::Left(format!("{}: {}", problem.path.display(), problem.message))),
        None => pagelab_recording::rollup::write(dir, &Makers),
    }
}

/// Adds up faults.
struct OfFaults {
    counter: Counter,
    walk: Option<Walk>,
}

impl OfFaults {
    fn new(recording: &Recording) -> crate::error::Result<Self> {
        let options = ProfileOptions::of_recording(recording, &mut Vec::new())?;
        let scale = FaultScale::of(recording, options.huge_bytes);
        let known = !recording.parts("mappings")?.is_empty();
        let walk = if known { Some(Walk::new(recording, &options)?) } else { None };
        Ok(Self { counter: Counter::new(recording, scale, options.window)?, walk })
    }
}

impl Witness for OfFaults {
    fn batch(&mut self, batch: &RecordBatch) -> std::result::Result<(), String> {
        self.counter.batch(batch, None).map_err(|error| error.to_string())?;
        if let Some(walk) = self.walk.as_mut() {
            walk.batch(batch);
        }
        few_enough(self.counter.kept())
    }

    fn finish(self: Box<Self>) -> std::result::Result<Vec<RollupRows>, String> {
        let (joined, kinds) = self.counter.finish();
        if let Some(error) = joined.failed {
            return Err(error);
        }
        let profile = self.walk.map(Walk::finish);
        let mut rows = faults::rollup::rows(&joined, &kinds).map_err(|error| error.to_string())?;
        rows.extend(mappings::rollup::rows(profile.as_ref()).map_err(|error| error.to_string())?);
        Ok(rows)
    }
}
