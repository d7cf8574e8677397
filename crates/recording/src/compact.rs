//! Compaction at a clean end: from many quick parts to few small ones, with `faults.mapping_id` filled in and stacks
//! under the ids that they have since their frames were named.
//!
//! One table after the other, so that the space of its old parts is free again before the next begins:
//!
//! 1. The new parts are written as `TABLE/compact-0000.tmp`, ... A reader ignores them. A crash leaves the old parts.
//! 2. `compaction.json` is put in place by a rename: the commit. From here on a reader takes the new parts by their
//!    temporary names, or by their final ones if they have them already, and ignores every other part of that table.
//! 3. The old parts are removed, all of them, and only then
//! 4. the new ones get their final names `TABLE/part-0000.parquet`, ...
//! 5. `compaction.json` is removed.
//!
//! So at every instant a reader meets every row exactly once; `tests/crash.rs` fails each storage operation in turn.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::UInt64Type;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::attribution::Attribution;
use crate::encode::{Effort, PartEncoder};
use crate::error::{Error, Result};
use crate::part::Part;
use crate::reader::Recording;
use crate::storage::{Storage, StorageFile, write_atomically};
use crate::tables::TableDef;
use crate::writer::{WriterOptions, part_name};

/// The commit record's name.
pub(crate) const COMMIT: &str = "compaction.json";

/// Rows per row group: large enough for dictionaries and the compressor.
const GROUP_ROWS: usize = 1 << 18;
/// Memory that the rows of a row group may take before they are encoded; it is full when it takes more. With what encoding
/// and merging need beside, compaction takes some three times as much: less than recording.
const GROUP_BYTES: usize = 12 << 20;

/// Tables of fewer rows are compressed as hard as still costs no more than some milliseconds.
const SMALL_TABLE: u64 = 100_000;
const SMALL_LEVEL: i32 = 6;
const LARGE_LEVEL: i32 = 3;

/// The commit record: which table's parts have been replaced, and by how many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Commit {
    pub(crate) table: String,
    pub(crate) parts: u32,
}

impl Commit {
    /// The record of a compaction that was broken off after its commit, if there is one.
    pub(crate) fn load(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(COMMIT);
        match fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(commit) => Ok(Some(commit)),
                Err(e) => Err(Error::BadJson { path, reason: e.to_string() }),
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", &path)(e)),
        }
    }

    /// The parts that are the table now.
    pub(crate) fn parts(&self, dir: &Path) -> Vec<PathBuf> {
        let folder = dir.join(&self.table);
        (0..self.parts)
            .map(|n| {
                let tmp = folder.join(new_name(n));
                if tmp.exists() { tmp } else { folder.join(part_name(n)) }
            })
            .collect()
    }
}

/// Name of a new part until the old ones are gone.
fn new_name(number: u32) -> String {
    format!("compact-{number:04}.tmp")
}

/// What compaction did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) bytes_written: u64,
    pub(crate) faults_unattributed: Option<u64>,
}

impl Outcome {
    pub(crate) fn note(&self, extra: &mut Map<String, Value>) {
        if let Some(n) = self.faults_unattributed {
            extra.insert("faults_unattributed".to_owned(), n.into());
        }
    }
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
) -> Result<Outcome> {
    let recording = Recording::open(dir)?;
    let mut outcome = Outcome::default();
    // Faults first: their join reads mappings and tasks, whose live parts are cheaper to read, and frees the most space.
    // Stacks and frames last: until then the rows that refer to them under old ids find them.
    let mut order: Vec<&'static TableDef> = recording.tables()?;
    order.sort_by_key(|t| (t.name != "faults", !t.has_ts()));
    for table in order {
        let mut job = Job::new(&recording, table, storage.as_ref(), options, named)?;
        if let Err(e) = job.write_parts() {
            job.discard();
            return Err(e);
        }
        job.swap()?;
        outcome.bytes_written += job.bytes_written;
        if let Some(join) = &job.join {
            outcome.faults_unattributed = Some(join.unattributed());
        }
    }
    Ok(outcome)
}

/// The compaction of one table.
struct Job<'a> {
    recording: &'a Recording,
    table: &'static TableDef,
    storage: &'a dyn Storage,
    options: &'a WriterOptions,
    old: Vec<PathBuf>,
    /// Columns that any old part has, in registry order; the others would be null throughout.
    columns: Vec<&'static str>,
    effort: Effort,
    group_rows: usize,
    join: Option<Attribution>,
    named: &'a NamedStacks,
    /// Ids of `stacks` or `frames` seen so far; equal ids are equal rows.
    seen: HashSet<u64>,
    new_parts: u32,
    bytes_written: u64,
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
            found.extend(part.columns().into_iter().map(str::to_owned));
            rows += part.rows();
        }
        let columns = table.columns.iter().map(|c| c.name).filter(|n| found.contains(*n)).collect();
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
            new_parts: 0,
            bytes_written: 0,
        })
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
                let Some(first) = batches.first() else { return Ok(None) };
                self.new_part(first)?
            }
        };
        let bytes = output.encoder.row_group(batches)?;
        output.largest_group = output.largest_group.max(bytes.len() as u64);
        self.append(&mut output, &bytes)?;
        Ok(Some(output))
    }

    fn new_part(&mut self, first: &RecordBatch) -> Result<Output> {
        let path = self.folder().join(new_name(self.new_parts));
        // Counted before it exists, so that a failure to write it removes it.
        self.new_parts += 1;
        let file = self.storage.create(&path).map_err(Error::io("create", &path))?;
        let encoder = PartEncoder::new(first.schema(), self.effort)?;
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
        if self.options.durable {
            file.sync().map_err(Error::io("sync", &path))?;
        }
        Ok(())
    }

    /// Gives the space of new parts back that will not be committed.
    fn discard(&self) {
        for n in 0..self.new_parts {
            // A part that could not be created cannot be removed either; readers ignore what is left.
            let _ = self.storage.remove_file(&self.folder().join(new_name(n)));
        }
    }

    /// Steps 2 to 5.
    fn swap(&mut self) -> Result<()> {
        self.sync_folder()?;
        let commit = Commit { table: self.table.name.to_owned(), parts: self.new_parts };
        let path = self.recording.dir().join(COMMIT);
        let text = serde_json::to_vec(&commit).unwrap_or_default();
        if let Err(e) = write_atomically(self.storage, &path, &text, self.options.durable) {
            // Not committed: the rename is the last thing that `write_atomically` can fail in, but for the sync after it.
            if !path.exists() {
                self.discard();
            }
            return Err(Error::io("write", &path)(e));
        }
        self.bytes_written += text.len() as u64;
        finish_swap(self.recording.dir(), &commit, &self.old, self.storage)?;
        self.sync_folder()
    }

    fn sync_folder(&self) -> Result<()> {
        if !self.options.durable {
            return Ok(());
        }
        let folder = self.folder();
        self.storage.sync_dir(&folder).map_err(Error::io("sync", &folder))
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

/// Steps 3 to 5.
fn finish_swap(dir: &Path, commit: &Commit, old: &[PathBuf], storage: &dyn Storage) -> Result<()> {
    let folder = dir.join(&commit.table);
    for path in old {
        storage.remove_file(path).map_err(Error::io("remove", path))?;
    }
    for n in 0..commit.parts {
        let (from, to) = (folder.join(new_name(n)), folder.join(part_name(n)));
        storage.rename(&from, &to).map_err(Error::io("rename to", &to))?;
    }
    let path = dir.join(COMMIT);
    storage.remove_file(&path).map_err(Error::io("remove", &path))
}
