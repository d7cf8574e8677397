//! `pagelab check`: is a recording whole?

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use pagelab_vocab::streams::counted_as;
use serde::{Deserialize, Serialize};

use crate::compact::{COMMIT, Commit};
use crate::error::{Error, Result};
use crate::manifest::{MANIFEST, Manifest};
use crate::part::Part;
use crate::reader::{Recording, schema_of};
use crate::seal::Seal;
use crate::set::{self, RunState, SET_JSON, SetJson};
use crate::storage::TMP_SUFFIX;
use crate::tables::{self, ColumnDef, LossRow, TableDef};

/// What [`check`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Whether the recorder reached a clean end, and everything is there that was there then.
    pub complete: bool,
    /// Whether the manifest lists the parts. Recordings of older versions do not: of them a part that is missing cannot be found.
    #[serde(default)]
    pub listed: bool,
    /// What the parts of each table hold; tables without parts are left out.
    pub tables: BTreeMap<String, TableReport>,
    /// Everything that is not as it should be.
    pub problems: Vec<Problem>,
}

impl CheckReport {
    /// Whether nothing worse than a note was found.
    pub fn is_whole(&self) -> bool {
        self.problems.iter().all(|p| p.level == Level::Note)
    }
}

/// Rows and parts of one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableReport {
    /// Rows that could be read.
    pub rows: u64,
    /// Parts.
    pub parts: u64,
    /// Size of the parts.
    pub bytes: u64,
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Recorded rows are missing or cannot be trusted.
    Problem,
    /// Worth knowing; the rows are there.
    Note,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Kind of problem, a stable identifier: `incomplete`, `manifest.changed`, `part.missing`, `part.added`, `part.size`,
    /// `part.swapped`, `compaction.changed`, `part.rows`, `list.missing`, `part.damaged`, `part.unsorted`, `part.unverified`, `column.missing`, `manifest.key`, `loss.unknown`, `loss.events`, `loss.rows`, `rows.dropped`, `compaction.unfinished`,
    /// `leftover`.
    pub id: String,
    /// How bad it is.
    pub level: Level,
    /// File or directory.
    pub path: PathBuf,
    /// What is wrong.
    pub message: String,
}

/// Reads every byte of the recording in `dir` and reports what is not as it should be. The error is only for a
/// directory that is no recording, or one that this pagelab cannot read.
pub fn check(dir: &Path) -> Result<CheckReport> {
    let recording = Recording::open(dir)?;
    let (manifest, _) = Manifest::load_sealed(dir)?;
    let (complete, listed) = (recording.manifest().complete, manifest.parts.is_some());
    let report = CheckReport { complete, listed, ..CheckReport::default() };
    let mut checker = Checker { dir, is_compacted: manifest.is_compacted(), report, unlisted_by_lister: false };
    checker.manifest(&manifest);
    checker.flaws(&recording);
    for table in tables::all() {
        checker.table(&recording, table);
    }
    checker.list(&manifest);
    checker.loss(&recording);
    checker.leftovers(dir, 1);
    Ok(checker.report)
}

/// What [`check_set`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetReport {
    /// Each recording by its folder, with its check report, or why it cannot be opened.
    pub recordings: BTreeMap<PathBuf, Result<CheckReport, String>>,
    /// Runs that the set says are done and that are not there.
    pub missing: Vec<PathBuf>,
    /// Whether `set.json` was changed after it was written.
    pub changed: bool,
}

impl SetReport {
    /// Whether every recording is complete without any problem, and none is missing.
    pub fn is_whole(&self) -> bool {
        let whole = |found: &Result<CheckReport, String>| {
            found.as_ref().is_ok_and(|report| report.complete && report.problems.is_empty())
        };
        self.missing.is_empty() && !self.changed && self.recordings.values().all(whole)
    }
}

/// Checks every recording of the set in `dir`, or of a folder that holds recordings. Warm-up and aborted runs are not
/// part of it.
pub fn check_set(dir: &Path) -> Result<SetReport> {
    let mut report = SetReport::default();
    let is_set = dir.join(SET_JSON).exists();
    match set::folders(&[dir]) {
        Ok(folders) => {
            for folder in folders {
                let found = check(&folder).map_err(|e| e.to_string());
                report.recordings.insert(folder, found);
            }
        }
        // Perhaps all of them are missing.
        Err(Error::NotARecording { .. }) if is_set => {}
        Err(e) => return Err(e),
    }
    if is_set {
        let (set, seal) = SetJson::load_sealed(dir)?;
        report.changed = seal == Seal::Broken;
        for run in set.order.iter().filter(|run| run.state == RunState::Done) {
            let folder = dir.join(&run.dir);
            if !folder.join(MANIFEST).exists() {
                report.missing.push(folder);
            }
        }
    }
    Ok(report)
}

/// Tables that have a row for each event of their stream.
const ROW_FOR_EACH: [&str; 5] = ["faults", "syscalls", "offcpu", "samples", "block_ios"];

struct Checker<'a> {
    dir: &'a Path,
    is_compacted: bool,
    report: CheckReport,
    /// A part was met whose writer lists parts at the end.
    unlisted_by_lister: bool,
}

impl Checker<'_> {
    fn add(&mut self, id: &str, level: Level, path: &Path, message: impl Into<String>) {
        let (id, path, message) = (id.to_owned(), path.to_owned(), message.into());
        self.report.problems.push(Problem { id, level, path, message });
    }

    fn manifest(&mut self, manifest: &Manifest) {
        let path = self.dir.join(MANIFEST);
        if !manifest.complete {
            let reason = manifest.incomplete_reason.clone().unwrap_or_else(|| {
                "the recorder did not reach a clean end; at most its last second is missing".to_owned()
            });
            self.add("incomplete", Level::Problem, &path, reason);
        }
        if !manifest.rows_dropped.is_empty() {
            let dropped = serde_json::to_string(&manifest.rows_dropped).unwrap_or_default();
            self.add("rows.dropped", Level::Problem, &path, format!("rows given up: {dropped}"));
        }
        let keys = [
            ("clock.id", manifest.clock.id.is_empty()),
            ("host", manifest.host.is_none()),
            ("kernel", manifest.kernel.is_none()),
            ("page_size_bytes", !manifest.page_size_bytes.is_some_and(u64::is_power_of_two)),
            (
                "command, job or target",
                manifest.command.is_none() && manifest.job.is_none() && manifest.target.is_none(),
            ),
        ];
        for (key, _) in keys.iter().filter(|(_, bad)| *bad) {
            self.add("manifest.key", Level::Note, &path, format!("{key} is missing or makes no sense"));
        }
    }

    /// What opening found: it has looked at names, sizes and ends.
    fn flaws(&mut self, recording: &Recording) {
        for flaw in recording.flaws() {
            self.add(flaw.id, Level::Problem, &flaw.path, flaw.message.clone());
        }
    }

    /// Compares the rows of each part with the list, and says so if there should be a list.
    fn list(&mut self, manifest: &Manifest) {
        let path = self.dir.join(MANIFEST);
        if manifest.parts.is_none() && self.unlisted_by_lister && manifest.is_compacted() {
            let message =
                "the manifest says complete and has no list of parts, which the pagelab that wrote them makes";
            self.report.complete = false;
            self.add("list.missing", Level::Problem, &path, message);
        }
        let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
        for part in manifest.parts.iter().flatten() {
            let listed = rows.entry(&part.table).or_default();
            *listed = listed.saturating_add(part.rows);
        }
        for (table, listed) in rows {
            let found = self.report.tables.get(table).map_or(0, |found| found.rows);
            let folder = self.dir.join(table);
            // Of those with another flaw it has been said.
            let is_said = self.report.problems.iter().any(|problem| problem.path.starts_with(&folder));
            if found != listed && !is_said {
                let message = format!("{found} rows of {table} can be read, and {listed} were there at the end");
                self.report.complete = false;
                self.add("part.rows", Level::Problem, &folder, message);
            }
        }
    }

    fn table(&mut self, recording: &Recording, table: &'static TableDef) {
        let parts = match recording.parts(table.name) {
            Ok(parts) => parts,
            Err(e) => return self.add("part.damaged", Level::Problem, self.dir, e.to_string()),
        };
        let mut found = TableReport::default();
        let mut last = i64::MIN;
        let is_missing =
            |path: &&PathBuf| recording.flaws().iter().any(|flaw| flaw.id == "part.missing" && flaw.path == **path);
        for path in parts.iter().filter(|path| !is_missing(path)) {
            found.parts += 1;
            found.bytes += fs::metadata(path).map_or(0, |m| m.len());
            let mut first = None;
            match self.part(table, path, &mut first, &mut last) {
                Ok(rows) => found.rows += rows,
                Err(e) => self.add("part.damaged", Level::Problem, path, e.to_string()),
            }
        }
        if found.parts > 0 {
            self.report.tables.insert(table.name.to_owned(), found);
        }
    }

    /// Reads one part through; `last` is the largest time of the parts before.
    fn part(&mut self, table: &'static TableDef, path: &Path, first: &mut Option<i64>, last: &mut i64) -> Result<u64> {
        let part = Part::open(path)?;
        self.unlisted_by_lister |= part.is_of_lister();
        if !part.is_verified() {
            let message = "it carries no checksums of pagelab: another program wrote it, and damage may go unseen";
            self.add("part.unverified", Level::Note, path, message);
        }
        let present = part.columns();
        let columns: Vec<&'static ColumnDef> = table.columns.iter().collect();
        for column in columns.iter().filter(|c| !c.nullable && !present.contains(&c.name)) {
            self.add(
                "column.missing",
                Level::Note,
                path,
                format!("column {} is missing and reads as null", column.name),
            );
        }
        let schema = schema_of(&columns);
        let (mut rows, mut sorted, mut before) = (0, true, i64::MIN);
        for batch in part.read(&columns, &schema)? {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            let times = times(&batch);
            sorted &= times.is_sorted() && times.first().is_none_or(|t| *t >= before);
            *first = first.or(times.first().copied());
            before = times.last().copied().unwrap_or(before).max(before);
        }
        if !sorted {
            self.add("part.unsorted", Level::Problem, path, "rows are not in order of ts");
        } else if self.is_compacted && first.is_some_and(|t| t < *last) {
            self.add("part.unsorted", Level::Problem, path, "it begins before the part before it ends");
        }
        *last = before.max(*last);
        Ok(rows)
    }

    fn loss(&mut self, recording: &Recording) {
        let path = self.dir.join("loss");
        if !self.report.tables.contains_key("loss") {
            let is_said = self
                .report
                .problems
                .iter()
                .any(|problem| problem.id == "part.missing" && problem.path.starts_with(&path));
            if self.report.tables.is_empty() || is_said {
                return;
            }
            return self.add(
                "loss.unknown",
                Level::Problem,
                &path,
                "there are no loss rows: what was lost is not known",
            );
        }
        let mut counts: BTreeMap<String, [u64; 3]> = BTreeMap::new();
        let read = recording.for_each::<LossRow>(|row| {
            let of_stream = counts.entry(row.stream.to_owned()).or_default();
            for (sum, one) in of_stream.iter_mut().zip([row.seen, row.lost, row.filtered]) {
                *sum = sum.saturating_add(one);
            }
        });
        // A damaged part has been reported where it was read.
        if matches!(read, Err(Error::MissingColumn { .. })) {
            self.add("loss.unknown", Level::Problem, &path, "loss rows lack values: what was lost is not known");
        }
        for (stream, [_, events, _]) in counts.iter().filter(|(_, [_, lost, _])| *lost > 0) {
            self.add("loss.events", Level::Note, &path, format!("{events} events of stream {stream} were lost"));
        }
        if read.is_ok() {
            self.account(recording.manifest(), &counts);
        }
    }

    /// Whether each event that a stream saw is a row, lost or filtered. Only of what is whole otherwise: of the others it is known
    /// already that rows are missing. A flight recorder has removed rows of before.
    fn account(&mut self, manifest: &Manifest, counts: &BTreeMap<String, [u64; 3]>) {
        if !self.report.complete || manifest.kept_since_ns.is_some() || !self.report.is_whole() {
            return;
        }
        for table in ROW_FOR_EACH {
            let stream = counted_as(table).stream;
            let Some([seen, lost, filtered]) = counts.get(stream) else { continue };
            let rows = self.report.tables.get(table).map_or(0, |found| found.rows);
            let known = rows.saturating_add(*lost).saturating_add(*filtered);
            if known < *seen {
                let missing = seen.saturating_sub(known);
                let message = format!(
                    "stream {stream} saw {seen} events, of which {lost} were lost and {filtered} filtered, and there are {rows} \
                     rows of {table}: {missing} are missing"
                );
                self.report.complete = false;
                self.add("loss.rows", Level::Problem, &self.dir.join(table), message);
            }
        }
    }

    /// Temporary files, and a swap that was broken off.
    fn leftovers(&mut self, dir: &Path, depth: u32) {
        if depth > 0 && dir.join(COMMIT).exists() {
            let message = "compaction was broken off; every row can be read";
            self.add("compaction.unfinished", Level::Note, &dir.join(COMMIT), message);
        }
        let in_use: Vec<PathBuf> = match Commit::load(self.dir) {
            Ok(Some(commit)) => {
                let tables = tables::all().iter();
                tables.filter_map(|table| commit.parts(self.dir, table.name).ok()?).flatten().collect()
            }
            _ => Vec::new(),
        };
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && depth > 0 {
                self.leftovers(&path, depth - 1);
            } else if path.to_string_lossy().ends_with(TMP_SUFFIX) && !in_use.contains(&path) {
                self.add(
                    "leftover",
                    Level::Note,
                    &path,
                    "a temporary file was left behind; it is not part of the recording",
                );
            }
        }
    }
}

fn times(batch: &RecordBatch) -> &[i64] {
    let ts = batch.column_by_name("ts").and_then(|a| a.as_primitive_opt::<Int64Type>());
    ts.map_or(&[], |a| a.values())
}
