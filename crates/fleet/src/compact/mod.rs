//! From recordings to the compacted tables of a fleet.
//!
//! [`compact`] finds recordings, leaves out those that the fleet has, and writes each day that gained any anew, in one step
//! ([`FleetFolder::replacement`]). It may be called as often as there is something new; broken off, it leaves days as they were.
//!
//! | from | to |
//! |---|---|
//! | the manifest | `runs`: also of runs that count nowhere, with the reason |
//! | the manifest, some settings, the user's [`HostLabels`] | `labels` |
//! | the numbers that `compare` takes from a run | `metrics` |
//! | the wall account of the run's budget | `components` |
//! | settings at the start of the run | `settings`, where they differ from those of the host's run before |
//!
//! A recording that was not whole when it was compacted is looked at again, and takes the place of its row in `runs` once it is.
//!
//! # Which metrics
//! Those for all of a host. Of metrics that are of devices, CPUs or jobs alone, without a sum, each instance while there are at most
//! [`MOST_INSTANCES`]: the caches of the slab allocator alone would be half of all rows.

mod labels;
mod recordings;
mod run;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pagelab_analysis::parallel;
use serde::Serialize;

pub use labels::HostLabels;
pub use run::MOST_INSTANCES;

use crate::error::Result;
use crate::rollup::{
    ComponentsRow, Day, FleetFolder, LabelsRow, MetricsRow, Row, RunsRow, SettingsRow, SortingWriter, Text,
    WriteOptions,
};
use recordings::{Candidate, Known};
use run::RunRows;
use settings::Courses;

/// Recordings whose rows are held at a time: a few for each processor, some 1,000 rows each.
const AT_A_TIME: usize = 16;

/// How a fleet is compacted.
#[derive(Debug, Clone, Default)]
pub struct CompactOptions {
    /// What is known of hosts beside their recordings.
    pub labels: HostLabels,
    /// How tables are written.
    pub write: WriteOptions,
}

/// A recording that is not in the tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its folder.
    pub dir: PathBuf,
    /// Why.
    pub reason: String,
}

/// What a compaction did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Compacted {
    /// Recordings that were found.
    pub found: usize,
    /// Of those, the ones that the fleet had.
    pub unchanged: usize,
    /// Of those, the ones that were added.
    pub added: usize,
    /// Of those added, the ones that count nowhere: their reasons are in the table `runs`.
    pub excluded: usize,
    /// Those that cannot be added.
    pub left_out: Vec<LeftOut>,
    /// Days that were written anew.
    pub days: Vec<Day>,
    /// Rows that were added, by table.
    pub rows: BTreeMap<&'static str, u64>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Brings the fleet's tables up to the recordings at and below `sources`. `now_ns` is the time, ns since the epoch.
///
/// # Errors
/// A source that is not there or holds no recording, a fleet's table that cannot be read, and what writing fails of. A recording that
/// cannot be read is no error: it is in [`Compacted::left_out`].
pub fn compact(sources: &[PathBuf], fleet: &FleetFolder, options: &CompactOptions, now_ns: i64) -> Result<Compacted> {
    let _held = fleet.lock()?;
    fleet.remove_leftovers()?;
    let known = Known::load(fleet)?;
    let mut done = Compacted::default();
    let days = recordings::by_day(sources, &known, now_ns, &mut done)?;
    if days.is_empty() {
        return Ok(done);
    }
    let hosts: BTreeSet<&str> = days.values().flatten().filter_map(|one| one.host.as_deref()).collect();
    let mut courses = Courses::load(fleet, &hosts, &known)?;
    for (day, candidates) in &days {
        DayInTheMaking { fleet, day: *day, options }.write(candidates, &mut courses, &mut done)?;
        done.days.push(*day);
    }
    Ok(done)
}

/// One day that is written anew.
struct DayInTheMaking<'a> {
    fleet: &'a FleetFolder,
    day: Day,
    options: &'a CompactOptions,
}

/// The writers of the tables but `runs`.
struct Tables {
    labels: SortingWriter<LabelsRow>,
    metrics: SortingWriter<MetricsRow>,
    components: SortingWriter<ComponentsRow>,
    settings: SortingWriter<SettingsRow>,
}

impl Tables {
    fn push(&mut self, rows: RunRows, done: &mut Compacted) -> Result<()> {
        all(&mut self.labels, rows.labels, done)?;
        all(&mut self.metrics, rows.metrics, done)?;
        all(&mut self.components, rows.components, done)
    }

    fn finish(self) -> Result<()> {
        self.labels.finish()?;
        self.metrics.finish()?;
        self.components.finish()?;
        self.settings.finish().map(drop)
    }
}

fn all<R: Row>(writer: &mut SortingWriter<R>, rows: Vec<R>, done: &mut Compacted) -> Result<()> {
    *done.rows.entry(R::TABLE.name).or_default() += rows.len() as u64;
    rows.into_iter().try_for_each(|row| writer.push(row))
}

impl DayInTheMaking<'_> {
    fn write(&self, candidates: &[Candidate], courses: &mut Courses, done: &mut Compacted) -> Result<()> {
        let replacement = self.fleet.replacement(self.day)?;
        let (write, fleet) = (&self.options.write, self.fleet);
        let mut tables = Tables {
            labels: continued(replacement.sorting_writer(write)?, fleet, self.day)?,
            metrics: continued(replacement.sorting_writer(write)?, fleet, self.day)?,
            components: continued(replacement.sorting_writer(write)?, fleet, self.day)?,
            settings: continued(replacement.sorting_writer(write)?, fleet, self.day)?,
        };
        let mut runs: Vec<RunsRow> = Vec::with_capacity(candidates.len());
        for some in candidates.chunks(AT_A_TIME) {
            for (candidate, loaded) in some.iter().zip(parallel::map(some, |one| run::load(one, &self.options.labels)))
            {
                let mut loaded = match loaded {
                    Ok(loaded) => loaded,
                    Err(reason) => {
                        done.left_out.push(LeftOut { dir: candidate.dir.clone(), reason });
                        continue;
                    }
                };
                done.added += 1;
                done.excluded += usize::from(loaded.run.excluded.is_some());
                runs.push(std::mem::take(&mut loaded.run));
                courses.add(candidate, std::mem::take(&mut loaded.settings));
                tables.push(loaded, done)?;
            }
        }
        all(&mut tables.settings, courses.take(self.day), done)?;
        tables.finish()?;
        let mut writer = replacement.sorting_writer::<RunsRow>(write)?;
        // One that was not whole when it was compacted has its row there.
        let new: BTreeSet<Option<Text>> = runs.iter().map(|row| row.recording_id.clone()).collect();
        let old = fleet.read::<RunsRow>(self.day..=self.day, &[])?.rows;
        old.into_iter().filter(|row| !new.contains(&row.recording_id)).try_for_each(|row| writer.push(row))?;
        all(&mut writer, runs, done)?;
        writer.finish()?;
        // First what runs of other days must say again: broken off in between, those rows are needless, and never missing.
        for (day, rows) in courses.take_all() {
            self.add_settings(day, rows, done)?;
        }
        replacement.finish(write.sync)
    }

    /// Adds rows of settings to another day.
    fn add_settings(&self, day: Day, rows: Vec<SettingsRow>, done: &mut Compacted) -> Result<()> {
        let writer = self.fleet.sorting_writer::<SettingsRow>(day, &self.options.write)?;
        let mut writer = continued(writer, self.fleet, day)?;
        all(&mut writer, rows, done)?;
        writer.finish()?;
        self.fleet.remove_document(day)
    }
}

/// The writer of a day's new table, with the rows of the old one.
fn continued<R: Row>(mut writer: SortingWriter<R>, fleet: &FleetFolder, day: Day) -> Result<SortingWriter<R>> {
    if let Some((file, _)) = fleet.file(R::TABLE, day)? {
        writer.take_in(file);
    }
    Ok(writer)
}

/// Text of a cell.
fn text(text: &str) -> Text {
    Text::from(text)
}
