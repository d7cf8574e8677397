//! Rollups: small tables that a view reads instead of events.
//!
//! A rollup says the same as its sources, added up, and can be made of them again at any time: removing its folder loses
//! nothing. The registry declares its version and its sources ([`crate::tables::RollupDef`]); how it is made is known
//! outside this crate and comes in as [`Witnesses`].
//!
//! # When a rollup is read
//! The manifest names every rollup that was written ([`crate::WrittenRollup`]), with its version and a hash of its sources: the
//! names and lengths of their parts, and what the manifest says of page size, architecture and measured time. A rollup is
//! there for readers ([`Recording::parts`], and with it SQL) only if the recording is complete and both are still right;
//! otherwise it is as if it had never been written.
//!
//! # When a rollup is written
//! While [`crate::RecordingWriter::close`] merges the parts of a source, whose rows it then reads once, in order of
//! time and with all columns filled in: a thread of its own adds them up ([`crate::RecordingWriter::set_witnesses`]).
//! If that fails, the recording is closed without rollups and the manifest says why. [`write`] makes them for a
//! recording that is closed.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use twox_hash::XxHash64;

use crate::compact::{Batch, Ended, new_name};
use crate::encode::{Effort, PartEncoder};
use crate::error::{Error, Result};
use crate::inventory;
use crate::manifest::{Flaw, Manifest, WrittenRollup, sentence};
use crate::reader::{Recording, list_parts};
use crate::storage::{FileStorage, Storage, write_atomically};
use crate::tables::{self, RollupDef, Row, TableColumns, TableDef, TableView};
use crate::writer::part_name;

/// Batches that may wait for the thread that adds them up.
const WAITING: usize = 4;
/// How hard rollups are compressed: they are small.
const LEVEL: i32 = 3;

/// The rows of one rollup.
#[derive(Debug, Clone)]
pub struct RollupRows {
    /// The rollup.
    pub table: &'static TableDef,
    /// All of its rows.
    pub rows: RecordBatch,
}

impl RollupRows {
    /// Takes the rows out of a column buffer.
    ///
    /// # Errors
    /// [`Error::RaggedColumns`].
    pub fn of<C: TableColumns>(mut columns: C) -> Result<Self> {
        Ok(Self { table: C::TABLE, rows: columns.take_batch()? })
    }
}

/// Observes the rows of one table as they are merged and adds them up.
pub trait Witness {
    /// Takes the next rows, in order of time. Columns that are null throughout may be missing.
    ///
    /// # Errors
    /// Why there can be no rollups, in words.
    fn batch(&mut self, batch: &RecordBatch) -> std::result::Result<(), String>;

    /// The rollups, when all rows have gone by.
    ///
    /// # Errors
    /// Why there can be none, in words.
    fn finish(self: Box<Self>) -> std::result::Result<Vec<RollupRows>, String>;
}

/// Knows how rollups are made.
pub trait Witnesses: Send + Sync {
    /// A witness of a table whose rows are about to be merged; none if it is not the first source of a rollup. The
    /// other sources can be read from `recording` until the witness has finished.
    ///
    /// # Errors
    /// Why there can be no rollups, in words.
    fn of(
        &self,
        recording: &Recording,
        table: &'static TableDef,
    ) -> std::result::Result<Option<Box<dyn Witness>>, String>;
}

/// Whether rollups are made of the rows of a table.
fn is_added_up(table: &TableDef) -> bool {
    rollups().any(|(_, def)| def.sources.first() == Some(&table.name))
}

/// All rollups of the registry.
fn rollups() -> impl Iterator<Item = (&'static TableDef, RollupDef)> {
    tables::all().iter().filter_map(|table| Some((*table, table.rollup?)))
}

fn is_rollup(table: &str) -> bool {
    rollups().any(|(rollup, _)| rollup.name == table)
}

fn is_of_rollup(flaw: &Flaw) -> bool {
    flaw.table.as_deref().is_some_and(is_rollup)
}

/// The thread that adds up the rows of a table while compaction merges them.
pub(crate) struct Adding {
    batches: Option<SyncSender<RecordBatch>>,
    thread: Option<JoinHandle<std::result::Result<Vec<RollupRows>, String>>>,
}

impl Adding {
    /// Begins, if rollups are made of this table.
    pub(crate) fn begin(
        recording: &Recording,
        table: &'static TableDef,
        witnesses: Option<&Arc<dyn Witnesses>>,
    ) -> std::result::Result<Option<Self>, String> {
        let Some(witnesses) = witnesses.filter(|_| is_added_up(table)) else { return Ok(None) };
        let (recording, witnesses) = (recording.clone(), witnesses.clone());
        let (sender, receiver) = sync_channel::<RecordBatch>(WAITING);
        let add_up = move || {
            let Some(mut witness) = witnesses.of(&recording, table)? else { return Ok(Vec::new()) };
            for batch in receiver {
                witness.batch(&batch)?;
            }
            witness.finish()
        };
        let thread = std::thread::Builder::new().name("rollup".to_owned()).spawn(add_up);
        let thread = thread.map_err(|error| format!("no thread to make them: {error}"))?;
        Ok(Some(Self { batches: Some(sender), thread: Some(thread) }))
    }

    /// Hands the next rows over. Waits if the thread is behind.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) {
        // A thread that has ended early says why when it is joined.
        if self.batches.as_ref().is_some_and(|batches| batches.send(batch.clone()).is_err()) {
            self.batches = None;
        }
    }

    /// The rollups, when the last rows have been handed over.
    pub(crate) fn finish(mut self) -> std::result::Result<Vec<RollupRows>, String> {
        self.batches = None;
        let Some(thread) = self.thread.take() else { return Ok(Vec::new()) };
        thread.join().unwrap_or_else(|_| Err("the thread that makes them panicked".to_owned()))
    }
}

impl Drop for Adding {
    /// Compaction failed: the thread must not outlive the data it reads.
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The rollups of a recording that is being closed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rollups {
    /// Those that are not written yet.
    pub(crate) made: Vec<RollupRows>,
    /// Rows of those that are, by table.
    pub(crate) rows: BTreeMap<&'static str, u64>,
    /// Why there can be none.
    pub(crate) missing: Option<String>,
}

impl Rollups {
    /// Takes note that there can be none. The first reason stays.
    pub(crate) fn give_up(&mut self, reason: String) {
        self.missing.get_or_insert(reason);
    }

    /// Writes those that were made as new parts and adds them to what is to be committed. What cannot be written is no
    /// failure: rollups can be made again. Gives the bytes written.
    pub(crate) fn add_to(&mut self, batch: &mut Batch<'_>) -> u64 {
        let mut bytes = 0;
        for rollup in std::mem::take(&mut self.made) {
            let name = rollup.table.name;
            let rows = rollup.rows.num_rows() as u64;
            if self.missing.is_some() {
                break;
            }
            if rows > 0 {
                match ended(batch.dir, batch.storage, &rollup) {
                    Ok(ended) => {
                        bytes += ended.bytes;
                        batch.add(ended);
                    }
                    Err(error) => {
                        self.give_up(error.to_string());
                        break;
                    }
                }
            }
            self.rows.insert(name, rows);
        }
        bytes
    }
}

/// The one new part of a rollup, which takes the place of nothing.
fn ended(dir: &Path, storage: &dyn Storage, rollup: &RollupRows) -> Result<Ended> {
    let folder = dir.join(rollup.table.name);
    make_folder(storage, &folder)?;
    let path = folder.join(new_name(0));
    let bytes = encoded(rollup)?;
    let file = storage.create(&path).map_err(Error::io("create", &path)).and_then(|mut file| {
        file.write_all(&bytes).map_err(Error::io("write", &path))?;
        Ok(file)
    });
    if file.is_err() {
        let _ = storage.remove_file(&path);
    }
    Ok(Ended { table: rollup.table.name, old: Vec::new(), new: vec![file?], new_parts: 1, bytes: bytes.len() as u64 })
}

fn make_folder(storage: &dyn Storage, folder: &Path) -> Result<()> {
    match storage.create_dir(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::io("create directory", folder)(e)),
        _ => Ok(()),
    }
}

/// Encodes a rollup's rows as its one part.
pub(crate) fn encoded(rollup: &RollupRows) -> Result<Vec<u8>> {
    let mut encoder = PartEncoder::of_table(rollup.table, Effort::Compact(LEVEL))?;
    let mut bytes = encoder.row_group(std::slice::from_ref(&rollup.rows))?;
    bytes.extend_from_slice(&encoder.finish()?);
    Ok(bytes)
}

/// What the manifest of a recording is to say of rollups that were made of its parts as they are now.
pub(crate) fn entries(
    recording: &Recording,
    manifest: &Manifest,
    rows: &BTreeMap<&'static str, u64>,
) -> Result<BTreeMap<String, WrittenRollup>> {
    let mut entries = BTreeMap::new();
    for (table, def) in rollups() {
        if let Some(rows) = rows.get(table.name) {
            let source = source_hash(recording, manifest, def)?;
            entries.insert(table.name.to_owned(), WrittenRollup { version: def.version, source, rows: *rows });
        }
    }
    Ok(entries)
}

/// The hash of everything that a rollup is made from: it tells parts from others that took their place, not from forgeries.
fn source_hash(recording: &Recording, manifest: &Manifest, def: RollupDef) -> Result<String> {
    let mut hash = XxHash64::with_seed(0);
    // The length goes in, too, so that neighbours cannot be cut in another way.
    let mut add = |bytes: &[u8]| {
        hash.write(&bytes.len().to_le_bytes());
        hash.write(bytes);
    };
    for source in def.sources {
        add(source.as_bytes());
        for path in recording.parts(source)? {
            let bytes = std::fs::metadata(&path).map_err(Error::io("look at", &path))?.len();
            add(path.file_name().unwrap_or_default().as_encoded_bytes());
            add(&bytes.to_le_bytes());
        }
    }
    let measured = manifest.measured.as_ref();
    add(manifest.arch.as_deref().unwrap_or_default().as_bytes());
    let numbers = [
        manifest.page_size_bytes.map(u64::to_le_bytes),
        measured.and_then(|measured| measured.start_ns).map(i64::to_le_bytes),
        measured.and_then(|measured| measured.end_ns).map(i64::to_le_bytes),
    ];
    for number in numbers {
        add(number.as_ref().map_or(&[][..], |bytes| bytes));
    }
    Ok(format!("{:016x}", hash.finish()))
}

impl Recording {
    /// What the manifest says of a rollup, if it is still right.
    pub(crate) fn current_rollup(&self, table: &TableDef) -> Option<&WrittenRollup> {
        let (def, written) = (table.rollup?, self.manifest().rollups.get(table.name)?);
        if !self.manifest().complete || written.version != def.version {
            return None;
        }
        // Sources that cannot be looked at are not those that it was made of.
        let source = source_hash(self, self.manifest(), def).ok()?;
        Some(written).filter(|written| written.source == source)
    }

    /// Calls `each` for every row of a rollup. False if the rollup is not to be used: it was not written, is of another
    /// version or of other sources, lacks rows or is damaged, or a part of the time is asked for. Rows that `each` was given
    /// before that was found mean nothing.
    pub fn for_each_of_rollup<R: Row>(&self, mut each: impl FnMut(<R::View as TableView>::Row<'_>)) -> bool {
        if self.span().is_part() {
            return false;
        }
        let Some(written) = self.current_rollup(R::TABLE) else { return false };
        let mut rows = 0;
        let read = self.for_each::<R>(|row| {
            rows += 1;
            each(row);
        });
        read.is_ok() && rows == written.rows
    }
}

/// What [`write`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The rollups are written: their tables and rows.
    Written(BTreeMap<String, u64>),
    /// Nothing was changed, for this reason.
    Left(String),
}

/// Makes the rollups of a closed recording anew. What is not complete is left as it is, and so is what
/// cannot be read for damage; tables that are no source are not looked at.
///
/// # Errors
/// The directory is no recording, or cannot be read or written. Readers then find no rollups, or the old ones if these are
/// still whole.
pub fn write(dir: &Path, witnesses: &dyn Witnesses) -> Result<Outcome> {
    let recording = Recording::open(dir)?;
    let (mut manifest, seal) = Manifest::load_sealed(dir)?;
    // Rollups that are missing are what is made here.
    let flaws = inventory::flaws(dir, &manifest, seal);
    let others: Vec<Flaw> = flaws.into_iter().filter(|flaw| !is_of_rollup(flaw)).collect();
    if !manifest.complete || !others.is_empty() {
        let why = sentence(&others).map_or_else(String::new, |flaws| format!(": {flaws}"));
        return Ok(Outcome::Left(format!("the recording is not complete{why}")));
    }
    let made = match made(&recording, witnesses)? {
        Ok(made) => made,
        Err(reason) => return Ok(Outcome::Left(reason)),
    };
    let storage = FileStorage;
    // From here on the old ones do not count: a manifest must never name rollups that are not there.
    manifest.rollups.clear();
    manifest.rollups_missing = None;
    let listed = manifest.parts.take();
    manifest.parts = listed.map(|parts| parts.into_iter().filter(|part| !is_rollup(&part.table)).collect());
    let has_list = manifest.parts.is_some();
    manifest.rewrite(dir)?;
    let mut rows = BTreeMap::new();
    for rollup in &made {
        let folder = dir.join(rollup.table.name);
        for old in list_parts(&folder)? {
            storage.remove_file(&old).map_err(Error::io("remove", &old))?;
        }
        rows.insert(rollup.table.name, rollup.rows.num_rows() as u64);
        if rollup.rows.num_rows() > 0 {
            make_folder(&storage, &folder)?;
            let path = folder.join(part_name(0));
            write_atomically(&storage, &path, &encoded(rollup)?, true).map_err(Error::io("write", &path))?;
        }
    }
    manifest.rollups = entries(&recording, &manifest, &rows)?;
    if has_list {
        manifest.parts = Some(inventory::list(dir)?);
    }
    manifest.rewrite(dir)?;
    Ok(Outcome::Written(rows.into_iter().map(|(table, rows)| (table.to_owned(), rows)).collect()))
}

/// All rollups of a recording, or why there can be none.
fn made(recording: &Recording, witnesses: &dyn Witnesses) -> Result<std::result::Result<Vec<RollupRows>, String>> {
    let mut made = Vec::new();
    for table in tables::all().iter().filter(|table| is_added_up(table)) {
        let mut witness = match witnesses.of(recording, table) {
            Ok(Some(witness)) => witness,
            Ok(None) => continue,
            Err(reason) => return Ok(Err(reason)),
        };
        for batch in recording.read(table.name, None)? {
            let added = match batch {
                Err(error) if error.is_damage() => Err(error.to_string()),
                batch => witness.batch(&batch?),
            };
            if let Err(reason) = added {
                return Ok(Err(reason));
            }
        }
        match witness.finish() {
            Ok(rollups) => made.extend(rollups),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Ok(made))
}
