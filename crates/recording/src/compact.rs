//! Compaction at a clean end: from many quick parts to few small ones, with `faults.mapping_id` filled in and stacks
//! under the ids that they have since their frames were named.
//!
//! Tables are taken in batches of some [`BATCH_BYTES`], so that the space of old parts is free again before the next batch
//! begins, and that small tables share what forcing to the device costs:
//!
//! 1. The new parts are written as `TABLE/compact-0000.tmp`, ... A reader ignores them. A crash leaves the old parts.
//!    They are forced to the device, and then their names.
//! 2. `compaction.json` is put in place by a rename and forced to the device: the commit. From here on a reader takes the new
//!    parts by their temporary names, or by their final ones if they have them already, and ignores every other part of those
//!    tables.
//! 3. The old parts are removed, all of them, and only then
//! 4. the new ones get their final names `TABLE/part-0000.parquet`, ... The names are forced to the device.
//! 5. `compaction.json` is removed. If a power cut brings it back, it names parts that have their final names.
//!
//! So at every instant a reader meets every row exactly once, and after a power cut as well: `tests/crash.rs` fails
//! each storage operation in turn, `tests/power.rs` drops everything that was not forced to the device.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::UInt64Type;
use pagelab_output::read_plain;
use serde::{Deserialize, Serialize};

use crate::attribution::Attribution;
use crate::encode::{Effort, PartEncoder};
use crate::error::{Error, Result};
use crate::part::Part;
use crate::reader::Recording;
use crate::rollup::{Adding, Rollups, Witnesses};
use crate::storage::{Storage, StorageFile, write_atomically};
use crate::tables::TableDef;
use crate::writer::{WriterOptions, part_name};

/// The commit record's name.
pub(crate) const COMMIT: &str = "compaction.json";

/// Rows per row group: large enough for dictionaries and the compressor.
const GROUP_ROWS: usize = 1 << 18;
/// Memory that the rows of a row group may take before they are encoded; it is full when it takes more. With encoding
/// and merging, compaction takes some three times as much: less than recording.
const GROUP_BYTES: usize = 12 << 20;

/// Tables of fewer rows are compressed as hard as still costs no more than some milliseconds.
const SMALL_TABLE: u64 = 100_000;
/// New parts that a batch of tables may have before it is committed: the space that compaction needs beyond the recording.
const BATCH_BYTES: u64 = 64 << 20;
/// Compaction records have some 1,000 bytes.
const LARGEST_COMMIT: u64 = 1 << 20;
const SMALL_LEVEL: i32 = 6;
const LARGE_LEVEL: i32 = 3;

/// The commit record: which tables' parts have been replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Record")]
pub(crate) struct Commit {
    tables: Vec<Replaced>,
}

/// The number of parts that have replaced a table's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Replaced {
    table: String,
    parts: u32,
}

/// The record as it is on disk: of several tables, or of one as it was written at first.
#[derive(Deserialize)]
#[serde(untagged)]
enum Record {
    Batch { tables: Vec<Replaced> },
    One(Replaced),
}

impl From<Record> for Commit {
    fn from(record: Record) -> Self {
        match record {
            Record::Batch { tables } => Self { tables },
            Record::One(table) => Self { tables: vec![table] },
        }
    }
}

impl Commit {
    /// The record of a compaction that was broken off after its commit, if there is one.
    pub(crate) fn load(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(COMMIT);
        match read_plain(&path, LARGEST_COMMIT) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(commit) => Ok(Some(commit)),
                Err(e) => Err(Error::BadJson { path, reason: e.to_string() }),
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// The parts that are the table now, if it is one of the record's. Their number is bounded by the files that are there: of
    /// those that are missing the first is named, so that a reader says so.
    pub(crate) fn parts(&self, dir: &Path, table: &str) -> Result<Option<Vec<PathBuf>>> {
        let Some(replaced) = self.tables.iter().find(|replaced| replaced.table == table) else {
            return Ok(None);
        };
        let folder = dir.join(table);
        let mut found: BTreeMap<u32, PathBuf> = BTreeMap::new();
        for entry in list(&folder)? {
            let name = entry.file_name();
            let (number, is_new) = match name.to_str().map(|name| (new_number(name), part_number(name))) {
                Some((Some(number), _)) => (number, true),
                Some((_, Some(number))) => (number, false),
                _ => continue,
            };
            // The temporary name is the newer one: the final name may still be that of an old part.
            if number < replaced.parts && (is_new || !found.contains_key(&number)) {
                found.insert(number, entry.path());
            }
        }
        let missing = (0..replaced.parts).zip(found.keys()).find(|(wanted, there)| wanted != *there).map(|(n, _)| n);
        let missing = missing.or_else(|| u32::try_from(found.len()).ok().filter(|n| *n < replaced.parts));
        if let Some(number) = missing {
            found.insert(number, folder.join(part_name(number)));
        }
        Ok(Some(found.into_values().collect()))
    }
}

/// Entries of a folder; a missing one has none.
fn list(folder: &Path) -> Result<Vec<fs::DirEntry>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read directory", folder)(e)),
    };
    entries.collect::<std::io::Result<_>>().map_err(Error::io("read directory", folder))
}

/// Name of a new part until the old ones are gone.
pub(crate) fn new_name(number: u32) -> String {
    format!("compact-{number:04}.tmp")
}

/// The number of a new part.
fn new_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("compact-")?.strip_suffix(".tmp")?.parse().ok()?;
    (name == new_name(number)).then_some(number)
}

/// The number of a part.
fn part_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("part-")?.strip_suffix(".parquet")?.parse().ok()?;
    (name == part_name(number)).then_some(number)
}

/// What compaction did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) bytes_written: u64,
    pub(crate) faults_unattributed: Option<u64>,
    pub(crate) rollups: Rollups,
}

/// What became of stacks when their frames were named: ids are hashes of the content, so they changed.
#[derive(Debug, Clone, Default)]
pub struct NamedStacks {
    /// The new id of each stack whose id changed. The row of `stacks` under the old one is dropped.
    pub stacks: HashMap<u64, u64>,
    /// Frames that no stack refers to any more.
    pub retired_frames: HashSet<u64>,
}

/// Compacts every table of the recording in `dir`. If it fails, the tables not yet committed are as they were.
pub(crate) fn compact(
    dir: &Path,
    storage: &Arc<dyn Storage>,
    options: &WriterOptions,
    named: &NamedStacks,
    witnesses: Option<&Arc<dyn Witnesses>>,
) -> Result<Outcome> {
    let recording = Recording::open(dir)?;
    let mut outcome = Outcome::default();
    // Faults first: their join reads mappings and tasks, whose live parts are cheaper to read, and frees the most space.
    // Stacks and frames last: until then the rows that refer to them under old ids find them.
    let mut order: Vec<&'static TableDef> = recording.tables()?;
    order.sort_by_key(|t| (t.name != "faults", !t.has_ts()));
    let mut batch = Batch::new(dir, storage.as_ref());
    for table in order {
        let mut job = Job::new(&recording, table, storage.as_ref(), options, named)?;
        match Adding::begin(&recording, table, witnesses) {
            Ok(adding) => job.adding = adding,
            Err(reason) => outcome.rollups.give_up(reason),
        }
        let written = job.write_parts();
        if let Some(join) = &job.join {
            outcome.faults_unattributed = Some(join.unattributed());
        }
        outcome.bytes_written += job.bytes_written;
        // Before anything that the thread reads is taken away.
        let adding = job.adding.take();
        batch.add(job.ended());
        if let Err(e) = written {
            batch.discard();
            return Err(e);
        }
        match adding.map_or(Ok(Vec::new()), Adding::finish) {
            Ok(made) => outcome.rollups.made.extend(made),
            Err(reason) => outcome.rollups.give_up(reason),
        }
        if batch.bytes >= BATCH_BYTES {
            outcome.bytes_written += batch.commit()?;
        }
    }
    outcome.bytes_written += outcome.rollups.add_to(&mut batch);
    outcome.bytes_written += batch.commit()?;
    Ok(outcome)
}

/// A table whose new parts are written, but not yet the table.
pub(crate) struct Ended {
    pub(crate) table: &'static str,
    pub(crate) old: Vec<PathBuf>,
    pub(crate) new: Vec<Box<dyn StorageFile>>,
    pub(crate) new_parts: u32,
    pub(crate) bytes: u64,
}

/// Tables whose new parts are written, and what has to happen until they take the place of the old ones.
pub(crate) struct Batch<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) storage: &'a dyn Storage,
    tables: Vec<Ended>,
    bytes: u64,
}

impl<'a> Batch<'a> {
    fn new(dir: &'a Path, storage: &'a dyn Storage) -> Self {
        Self { dir, storage, tables: Vec::new(), bytes: 0 }
    }

    pub(crate) fn add(&mut self, table: Ended) {
        self.bytes += table.bytes;
        self.tables.push(table);
    }

    /// Steps 1, from where the parts are written, to 5. Gives the bytes of the record.
    fn commit(&mut self) -> Result<u64> {
        if self.tables.is_empty() {
            return Ok(0);
        }
        if let Err(e) = self.sync_new_parts() {
            self.discard();
            return Err(e);
        }
        let replaced = |ended: &Ended| Replaced { table: ended.table.to_owned(), parts: ended.new_parts };
        let commit = Commit { tables: self.tables.iter().map(replaced).collect() };
        let path = self.dir.join(COMMIT);
        let text = serde_json::to_vec(&commit).unwrap_or_default();
        if let Err(e) = write_atomically(self.storage, &path, &text, true) {
            // Not committed: the rename is the last thing that `write_atomically` can fail in, but for the sync after it.
            if !path.exists() {
                self.discard();
            }
            return Err(Error::io("write", &path)(e));
        }
        for ended in &self.tables {
            self.put_in_place(ended)?;
        }
        self.sync_folders()?;
        self.storage.remove_file(&path).map_err(Error::io("remove", &path))?;
        (self.tables, self.bytes) = (Vec::new(), 0);
        Ok(text.len() as u64)
    }

    fn sync_new_parts(&mut self) -> Result<()> {
        for ended in &mut self.tables {
            let folder = self.dir.join(ended.table);
            for (number, file) in (0..).zip(&mut ended.new) {
                file.sync().map_err(Error::io("sync", &folder.join(new_name(number))))?;
            }
            ended.new.clear();
        }
        self.sync_folders()?;
        self.storage.sync_dir(self.dir).map_err(Error::io("sync", self.dir))
    }

    fn sync_folders(&self) -> Result<()> {
        for ended in &self.tables {
            let folder = self.dir.join(ended.table);
            self.storage.sync_dir(&folder).map_err(Error::io("sync", &folder))?;
        }
        Ok(())
    }

    /// Steps 3 and 4.
    fn put_in_place(&self, ended: &Ended) -> Result<()> {
        let folder = self.dir.join(ended.table);
        for path in &ended.old {
            self.storage.remove_file(path).map_err(Error::io("remove", path))?;
        }
        for n in 0..ended.new_parts {
            let (from, to) = (folder.join(new_name(n)), folder.join(part_name(n)));
            self.storage.rename(&from, &to).map_err(Error::io("rename to", &to))?;
        }
        Ok(())
    }

    /// Gives the space of new parts back that will not be committed.
    fn discard(&mut self) {
        for ended in self.tables.drain(..) {
            for n in 0..ended.new_parts {
                // A part that could not be created cannot be removed either; readers ignore what is left.
                let _ = self.storage.remove_file(&self.dir.join(ended.table).join(new_name(n)));
            }
        }
    }
}

/// The compaction of one table.
struct Job<'a> {
    recording: &'a Recording,
    table: &'static TableDef,
    storage: &'a dyn Storage,
    options: &'a WriterOptions,
    old: Vec<PathBuf>,
    /// Columns that any old part has values of, in registry order; the others are null throughout.
    columns: Vec<&'static str>,
    effort: Effort,
    group_rows: usize,
    join: Option<Attribution>,
    named: &'a NamedStacks,
    /// Ids of `stacks` or `frames` seen so far; equal ids are equal rows.
    seen: HashSet<u64>,
    new: Vec<Box<dyn StorageFile>>,
    new_parts: u32,
    bytes_written: u64,
    /// What makes rollups of the rows, if any are made of this table.
    adding: Option<Adding>,
}

/// A new part being written.
struct Output {
    path: PathBuf,
    file: Box<dyn StorageFile>,
    encoder: PartEncoder,
    largest_group: u64,
}

impl<'a> Job<'a> {
    fn new(
        recording: &'a Recording,
        table: &'static TableDef,
        storage: &'a dyn Storage,
        options: &'a WriterOptions,
        named: &'a NamedStacks,
    ) -> Result<Self> {
        let old = recording.parts(table.name)?;
        let (mut found, mut rows) = (HashSet::new(), 0);
        for path in &old {
            let part = Part::open(path)?;
            found.extend(part.filled_columns().into_iter().map(str::to_owned));
            rows += part.rows();
        }
        let columns = table.row_columns().map(|c| c.name).filter(|n| found.contains(*n)).collect();
        let level = if rows < SMALL_TABLE { SMALL_LEVEL } else { LARGE_LEVEL };
        let join = (table.name == "faults").then(|| Attribution::new(recording)).transpose()?;
        Ok(Self {
            recording,
            table,
            storage,
            options,
            old,
            columns,
            effort: Effort::Compact(level),
            group_rows: group_rows(table, options.max_part_bytes),
            join,
            named,
            seen: HashSet::new(),
            new: Vec::new(),
            new_parts: 0,
            bytes_written: 0,
            adding: None,
        })
    }

    fn ended(self) -> Ended {
        let Self { table, old, new, new_parts, bytes_written, .. } = self;
        Ended { table: table.name, old, new, new_parts, bytes: bytes_written }
    }

    fn folder(&self) -> PathBuf {
        self.recording.dir().join(self.table.name)
    }

    /// Step 1.
    fn write_parts(&mut self) -> Result<()> {
        let mut output: Option<Output> = None;
        let (mut group, mut rows, mut bytes) = (Vec::new(), 0, 0);
        let mut batches = self.recording.merge(self.table.name, Some(&self.columns))?;
        loop {
            let batch = batches.next().transpose()?;
            let end = batch.is_none();
            if let Some(batch) = batch {
                let batch = self.finish_rows(batch)?;
                if let Some(adding) = self.adding.as_mut() {
                    adding.batch(&batch);
                }
                rows += batch.num_rows();
                bytes += memory_bytes(&batch)?;
                group.push(batch);
            }
            if rows > 0 && (end || rows >= self.group_rows || bytes >= GROUP_BYTES) {
                output = self.write_group(output, &std::mem::take(&mut group))?;
                (rows, bytes) = (0, 0);
            }
            if end {
                return output.map_or(Ok(()), |o| self.finish_part(o));
            }
        }
    }

    /// Joins faults to mappings, drops repeated and renamed stacks and frames, gives stacks their new ids and the batch the
    /// writer's nullability.
    fn finish_rows(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = if self.table.has_ts() { batch } else { self.drop_repeated(&batch)? };
        let mut columns: Vec<(&str, ArrayRef)> =
            self.columns.iter().copied().zip(batch.columns().iter().cloned()).collect();
        if let Some(join) = self.join.as_mut() {
            let ids = join.column(&batch)?;
            columns.retain(|(name, _)| *name != "mapping_id");
            columns.push(("mapping_id", ids));
        }
        if self.table.has_ts() && !self.named.stacks.is_empty() {
            for (_, ids) in columns.iter_mut().filter(|(name, _)| name.ends_with("stack_id")) {
                if let Some(old) = ids.as_primitive_opt::<UInt64Type>() {
                    let new = |id: u64| self.named.stacks.get(&id).copied().unwrap_or(id);
                    *ids = Arc::new(old.unary::<_, UInt64Type>(new));
                }
            }
        }
        self.table.batch_of(columns)
    }

    fn drop_repeated(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let Some(ids) = batch.column(0).as_primitive_opt::<UInt64Type>() else {
            return Ok(batch.clone());
        };
        let (named, frames) = (self.named, self.table.name == "frames");
        let gone = |id: &u64| if frames { named.retired_frames.contains(id) } else { named.stacks.contains_key(id) };
        let new: BooleanArray = ids.values().iter().map(|id| Some(!gone(id) && self.seen.insert(*id))).collect();
        Ok(filter_record_batch(batch, &new)?)
    }

    /// Appends a row group to the part being written, or to a new one if it might not fit.
    fn write_group(&mut self, output: Option<Output>, batches: &[RecordBatch]) -> Result<Option<Output>> {
        let mut output = match output {
            Some(o) if o.encoder.written() + o.largest_group * 5 / 4 <= self.options.max_part_bytes => o,
            full => {
                full.map_or(Ok(()), |o| self.finish_part(o))?;
                self.new_part()?
            }
        };
        let bytes = output.encoder.row_group(batches)?;
        output.largest_group = output.largest_group.max(bytes.len() as u64);
        self.append(&mut output, &bytes)?;
        Ok(Some(output))
    }

    fn new_part(&mut self) -> Result<Output> {
        let path = self.folder().join(new_name(self.new_parts));
        // Counted before it exists, so that a failure to write it removes it.
        self.new_parts += 1;
        let file = self.storage.create(&path).map_err(Error::io("create", &path))?;
        let encoder = PartEncoder::of_table(self.table, self.effort)?;
        Ok(Output { path, file, encoder, largest_group: 0 })
    }

    fn append(&mut self, output: &mut Output, bytes: &[u8]) -> Result<()> {
        output.file.write_all(bytes).map_err(Error::io("write", &output.path))?;
        self.bytes_written += bytes.len() as u64;
        Ok(())
    }

    fn finish_part(&mut self, output: Output) -> Result<()> {
        let Output { path, mut file, encoder, .. } = output;
        let tail = encoder.finish()?;
        file.write_all(&tail).map_err(Error::io("write", &path))?;
        self.bytes_written += tail.len() as u64;
        self.new.push(file);
        Ok(())
    }
}

/// Bytes of memory that the rows of a batch take, whatever they are a part of.
fn memory_bytes(batch: &RecordBatch) -> Result<usize> {
    let bytes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    Ok(bytes.sum::<std::result::Result<usize, _>>()?)
}

/// Rows per row group such that two groups fit into a part even if nothing can be compressed.
fn group_rows(table: &TableDef, max_part_bytes: u64) -> usize {
    let row_bytes: u64 = table.columns.iter().map(|c| c.ty.typical_bytes()).sum();
    GROUP_ROWS.min((max_part_bytes / 2 / row_bytes.max(1)) as usize).max(1)
}
