//! Which files a query reads: for each table the parts that the reader accepts, each once.
//!
//! The reader knows what is a part and what is not: the record of a compaction may replace a folder's files, warm-ups and
//! broken-off runs are no recordings of the set, a damaged part is left out or refused. The engine plans exactly these
//! files ([`check_planned`]), so that no answer is made of more or of fewer.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;
use pagelab_recording::set::RecordingRef;
use pagelab_recording::tables::TableDef;
use pagelab_recording::{Bounds, Error, Recording, ScanPart, Span};

use crate::options::Damaged;
use crate::places::Places;

/// A part of a recording that a query reads.
#[derive(Debug)]
pub struct File {
    /// The part on disk.
    pub part: ScanPart,
    /// The recording's place among those asked.
    pub(crate) recording: usize,
    /// The time whose rows count; none: all rows do.
    pub(crate) span: Option<Span>,
}

impl File {
    /// Its rows, as the footer says.
    pub(crate) fn rows(&self) -> usize {
        usize::try_from(self.part.rows()).unwrap_or(usize::MAX)
    }
}

/// The files of one scan. Every file that the engine plans carries its scan, so that files that are missing in the plan
/// are known.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) table: &'static TableDef,
    pub(crate) files: Vec<Arc<File>>,
}

/// What a planned file carries: itself, and the scan that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) file: Arc<File>,
    pub(crate) scan: Arc<Scan>,
}

/// The files of all tables that a query reads, and the ones left out.
#[derive(Debug)]
pub struct Catalogue {
    recordings: Vec<RecordingRef>,
    bounds: Bounds,
    damaged: Damaged,
    /// Where another engine finds the files; none if they are read here.
    places: Option<Places>,
    /// Listed when a table is first scanned: all scans of it in one query read the same files.
    tables: Mutex<BTreeMap<&'static str, Vec<Arc<File>>>>,
    /// The damage of each part that is left out.
    left_out: Mutex<BTreeMap<PathBuf, String>>,
    /// What the scans of the running query found damaged.
    failed: Mutex<BTreeMap<PathBuf, String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Catalogue {
    /// The files of these recordings; none has been listed.
    pub fn new(recordings: &[RecordingRef], bounds: Bounds, damaged: Damaged) -> Self {
        Self {
            recordings: recordings.to_vec(),
            bounds,
            damaged,
            places: None,
            tables: Mutex::default(),
            left_out: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// The same files for an engine that reads them elsewhere.
    pub(crate) fn at(self, places: Places) -> Self {
        Self { places: Some(places), ..self }
    }

    /// Where another engine finds the files.
    pub(crate) fn places(&self) -> Option<&Places> {
        self.places.as_ref()
    }

    /// The recordings asked.
    pub(crate) fn recordings(&self) -> &[RecordingRef] {
        &self.recordings
    }

    /// What is left out, a sentence each that names the file.
    pub(crate) fn left_out(&self) -> Vec<String> {
        lock(&self.left_out).values().cloned().collect()
    }

    /// What the scans of the running query found damaged: the first of it.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failed).values().next().cloned()
    }

    /// Takes note of damage that a scan met.
    pub(crate) fn note_failure(&self, path: &Path, error: &Error) {
        if error.is_damage() {
            lock(&self.failed).entry(path.to_owned()).or_insert_with(|| error.to_string());
        }
    }

    /// The files of a table.
    pub fn files(&self, table: &'static TableDef) -> Result<Vec<Arc<File>>> {
        if let Some(files) = lock(&self.tables).get(table.name) {
            return Ok(files.clone());
        }
        let mut files = Vec::new();
        for (number, reference) in self.recordings.iter().enumerate() {
            let recording = Recording::open(&reference.dir).map_err(external)?;
            let flaws = self.flaws(&recording, table);
            let span = self.bounds.of(&recording).map_err(external)?;
            let recording = recording.within(span);
            let span = recording.limits(table);
            for path in recording.parts(table.name).map_err(external)? {
                if let Some(part) = self.accepted(&path, table, flaws.get(&path))? {
                    files.push(Arc::new(File { part, recording: number, span }));
                }
            }
        }
        lock(&self.tables).insert(table.name, files.clone());
        Ok(files)
    }

    /// What is not as it was when the recording was closed, in words by path. A part that was added is none of the recording's: it is
    /// left out whether that is allowed or not.
    fn flaws(&self, recording: &Recording, table: &'static TableDef) -> BTreeMap<PathBuf, String> {
        let mut flaws = BTreeMap::new();
        for flaw in recording.flaws().iter().filter(|flaw| flaw.table.as_deref() == Some(table.name)) {
            let said = format!("{}: {}", recording.dir().display(), flaw.message);
            if flaw.id == "part.added" {
                lock(&self.left_out).insert(flaw.path.clone(), said);
            } else {
                flaws.insert(flaw.path.clone(), said);
            }
        }
        flaws
    }

    /// A part, unless it is left out. `flaw` says why it is not the one that was recorded, if it can be read nevertheless.
    fn accepted(&self, path: &Path, table: &'static TableDef, flaw: Option<&String>) -> Result<Option<ScanPart>> {
        if lock(&self.left_out).contains_key(path) {
            return Ok(None);
        }
        let said = match (ScanPart::open(path, table), flaw) {
            (Ok(part), None) => return Ok(Some(part)),
            (Ok(_), Some(flaw)) if self.damaged == Damaged::LeaveOut => flaw.clone(),
            (Ok(_), Some(flaw)) => return Err(DataFusionError::External(flaw.as_str().into())),
            (Err(error), _) if error.is_damage() && self.damaged == Damaged::LeaveOut => error.to_string(),
            (Err(error), _) => return Err(external(error)),
        };
        lock(&self.left_out).insert(path.to_owned(), said);
        Ok(None)
    }

    /// After a query that failed on what a file holds: finds the parts it read that are damaged. If damaged parts may be
    /// left out they are from now on, and if there are any, the query is to run again. All parts are examined, because the
    /// query ended at the first.
    pub(crate) fn leave_out_failed(&self) -> bool {
        let mut failed = lock(&self.failed);
        for file in lock(&self.tables).values().flatten() {
            let path = file.part.path();
            if failed.contains_key(path) {
                continue;
            }
            match file.part.examine() {
                Err(error) if error.is_damage() => failed.insert(path.to_owned(), error.to_string()),
                _ => None,
            };
        }
        if self.damaged == Damaged::Refuse || failed.is_empty() {
            return false;
        }
        lock(&self.tables).clear();
        lock(&self.left_out).extend(std::mem::take(&mut *failed));
        true
    }
}

/// Carries an error of this project through the engine.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Compares the files of a plan with those catalogued: each scan that is in the plan must have all of its files, and of
/// each file every byte once, because the engine splits files among threads.
pub fn check_planned(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let mut found: HashMap<*const Scan, (Arc<Scan>, Ranges)> = HashMap::new();
    collect(plan, &mut found)?;
    for (scan, mut ranges) in found.into_values() {
        for file in &scan.files {
            let whole = [(0, file.part.len_bytes())];
            let mut parts = ranges.remove(file.part.path()).unwrap_or_default();
            parts.sort_unstable();
            if join(&parts).as_slice() != whole {
                return Err(unequal(
                    &scan,
                    file.part.path(),
                    &format!("bytes {parts:?} of it planned, {whole:?} needed"),
                ));
            }
        }
        if let Some(path) = ranges.keys().next() {
            return Err(unequal(&scan, path, "it is planned and was not catalogued"));
        }
    }
    Ok(())
}

/// The ranges of each file, in bytes.
type Ranges = HashMap<PathBuf, Vec<(u64, u64)>>;

fn collect(plan: &Arc<dyn ExecutionPlan>, found: &mut HashMap<*const Scan, (Arc<Scan>, Ranges)>) -> Result<()> {
    for child in plan.children() {
        collect(child, found)?;
    }
    let Some(source) = plan.downcast_ref::<DataSourceExec>() else { return Ok(()) };
    let Some(config) = source.data_source().downcast_ref::<FileScanConfig>() else { return Ok(()) };
    for file in config.file_groups.iter().flat_map(datafusion::datasource::physical_plan::FileGroup::iter) {
        let Some(planned) = file.extension::<Planned>() else {
            let location = file.object_meta.location.to_string();
            return Err(DataFusionError::Internal(format!("{location} is planned and was not catalogued")));
        };
        let entry = found.entry(Arc::as_ptr(&planned.scan));
        let (_, ranges) = entry.or_insert_with(|| (planned.scan.clone(), Ranges::new()));
        ranges.entry(planned.file.part.path().to_owned()).or_default().push(file.range());
    }
    Ok(())
}

/// Joins ranges that touch; a plan that reads a byte twice keeps the overlap visible.
pub fn join(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if last.1 == *start => last.1 = *end,
            _ => joined.push((*start, *end)),
        }
    }
    joined
}

fn unequal(scan: &Scan, path: &Path, how: &str) -> DataFusionError {
    DataFusionError::Internal(format!(
        "the files planned for {} are not those catalogued: {}: {how}; please report this",
        scan.table.name,
        path.display()
    ))
}
