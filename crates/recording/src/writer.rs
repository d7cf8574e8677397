//! The crash-safe writer of a recording.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

use crate::compact::{self, NamedStacks};
use crate::encode;
use crate::error::{Error, Result, io_is_no_space};
use crate::fold::Fold;
use crate::inventory;
use crate::keep::Keep;
use crate::late::Late;
use crate::losses::{Counts, Losses};
use crate::manifest::{COMPACTED, Manifest};
use crate::reader::Recording;
use crate::rollup::{self, Rollups, Witnesses};
use crate::spool::{self, PARTS_MOVED, Spool, SpoolOptions};
use crate::storage::{HeldStorage, Storage, StorageFile, TMP_SUFFIX, parent_of};
use crate::tables::{FaultsColumns, LossColumns, LossRow, Row, TableColumns, TableDef, Tables};

/// How a recording is written.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Force every part to the device before it gets its name. Off by default: it disturbs what is measured.
    pub durable: bool,
    /// Time between parts. The default of 0.65 s leaves time to encode and write, along with other work on the same
    /// CPUs, so that a killed recorder loses at most the last second.
    pub part_interval: Duration,
    /// Parts of large tables are written early when the rows in memory take more than this.
    pub max_buffered_bytes: usize,
    /// Largest part after compaction.
    pub max_part_bytes: u64,
    /// Encoded parts kept in memory for another try when the file system is full; beyond it rows are dropped and counted.
    pub max_pending_bytes: usize,
    /// Keep only the events of this time before the end, and up to one `part_interval` more; see [`RecordingWriter::kept_since_ns`].
    pub keep_last: Option<Duration>,
    /// The folder is a spool of this size; see [`SpoolOptions`].
    pub spool: Option<SpoolOptions>,
    /// Whether [`RecordingWriter::close`] compacts; without it the parts stay as they are and `mapping_id` null.
    pub compact: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            durable: false,
            part_interval: Duration::from_millis(650),
            max_buffered_bytes: 8 << 20,
            max_part_bytes: 128 << 20,
            max_pending_bytes: 16 << 20,
            keep_last: None,
            spool: None,
            compact: true,
        }
    }
}

/// What a writer has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Parts that are in place.
    pub parts: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes handed to the file system, manifests and temporary files included.
    pub bytes_written: u64,
    /// Bytes of parts removed again, because only the last of a long time is kept.
    pub bytes_removed: u64,
    /// Rows encoded that wait for space on the file system.
    pub kept_rows: u64,
    /// Rows given up because they could not be written.
    pub dropped_rows: u64,
}

/// Fills in the `loss` rows of the interval that ends now; the first argument is the time of the tick.
pub type LossProvider = Box<dyn FnMut(i64, &mut LossColumns) + Send>;

struct PendingPart {
    table: &'static TableDef,
    rows: u64,
    bytes: Vec<u8>,
    /// What this part reports, if it is one of `loss`.
    reports: Losses,
}

/// Writes one recording; see the crate's manual for what survives what.
pub struct RecordingWriter {
    dir: PathBuf,
    options: WriterOptions,
    storage: Arc<dyn Storage>,
    manifest: Manifest,
    saved_manifest: Vec<u8>,
    tables: Tables,
    loss: Option<LossProvider>,
    named: NamedStacks,
    witnesses: Option<Arc<dyn Witnesses>>,
    next_part: HashMap<&'static str, u32>,
    pending: VecDeque<PendingPart>,
    last_parts_ns: Option<i64>,
    /// When a part of every table was written last.
    last_whole_ns: Option<i64>,
    keep: Keep,
    /// Of a flight recorder that is not copied meanwhile.
    fold: Option<Fold>,
    spool: Option<Spool>,
    late: Late,
    stats: WriterStats,
    dropped: BTreeMap<&'static str, u64>,
    /// Counts that no written part of `loss` holds: of rows that were dropped, and of parts of `loss` that were.
    unreported: Losses,
    /// Some of these are of parts of `loss`: what they count must not be there before them.
    owes_counts: bool,
    /// What made rows be dropped for the first time.
    dropped_because: Option<String>,
    /// Why the last part of `loss` could not be written, if it could not.
    loss_failed: Option<String>,
}

impl std::fmt::Debug for RecordingWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingWriter").field("dir", &self.dir).field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl RecordingWriter {
    /// Starts a recording in `dir`, which must not exist or be empty, and writes its manifest with `complete: false`.
    pub fn create(dir: &Path, manifest: Manifest, options: WriterOptions) -> Result<Self> {
        let storage = HeldStorage::create(dir)?;
        Self::begin(dir, manifest, options, Arc::new(storage))
    }

    /// Like [`RecordingWriter::create`], on another [`Storage`].
    pub fn create_with(
        dir: &Path,
        manifest: Manifest,
        options: WriterOptions,
        storage: Arc<dyn Storage>,
    ) -> Result<Self> {
        storage.create_dir(dir).map_err(Error::io("create directory", dir))?;
        Self::begin(dir, manifest, options, storage)
    }

    fn begin(dir: &Path, mut manifest: Manifest, options: WriterOptions, storage: Arc<dyn Storage>) -> Result<Self> {
        manifest.complete = false;
        let keep = Keep::new(options.keep_last);
        let spool = options.spool.clone().map(Spool::new);
        let fold = (options.keep_last.is_some() && spool.is_none()).then(Fold::default);
        let mut writer = Self {
            dir: dir.to_owned(),
            options,
            storage,
            manifest,
            saved_manifest: Vec::new(),
            tables: Tables::default(),
            loss: None,
            named: NamedStacks::default(),
            witnesses: None,
            next_part: HashMap::new(),
            pending: VecDeque::new(),
            last_parts_ns: None,
            last_whole_ns: None,
            keep,
            fold,
            spool,
            late: Late::default(),
            stats: WriterStats::default(),
            dropped: BTreeMap::new(),
            unreported: Losses::default(),
            owes_counts: false,
            dropped_because: None,
            loss_failed: None,
        };
        writer.save_manifest()?;
        writer.reserve()?;
        Ok(writer)
    }

    /// The recording's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The manifest as it is now.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The manifest, to change it; the next tick writes it if it changed.
    pub fn manifest_mut(&mut self) -> &mut Manifest {
        &mut self.manifest
    }

    /// What has been done so far.
    pub fn stats(&self) -> WriterStats {
        self.stats
    }

    /// From when on the recording holds every event, if older ones were removed ([`WriterOptions::keep_last`]).
    pub fn kept_since_ns(&self) -> Option<i64> {
        self.keep.since_ns()
    }

    /// Appends one row to its table.
    #[inline]
    pub fn push<R: Row>(&mut self, row: &R) {
        row.push_to(R::Columns::of(&mut self.tables));
    }

    /// The column buffer of a table: `writer.table::<LossRow>().push(&row)`.
    pub fn table<R: Row>(&mut self) -> &mut R::Columns {
        R::Columns::of(&mut self.tables)
    }

    /// The column buffers of all tables.
    pub fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// The column buffer of `faults`, to extend its vectors directly. The required columns must end up equally long;
    /// nullable ones that stay shorter are filled up with nulls.
    pub fn faults_mut(&mut self) -> &mut FaultsColumns {
        &mut self.tables.faults
    }

    /// Registers the function that fills in the `loss` rows; it is called once each time parts are written.
    pub fn set_loss_provider(&mut self, provider: LossProvider) {
        self.loss = Some(provider);
    }

    /// Says what became of stacks when their frames were named. The rows of new frames and stacks are pushed as any other;
    /// at a clean end the old ones are dropped, and every column that refers to a stack gets its new id.
    pub fn set_named_stacks(&mut self, named: NamedStacks) {
        self.named = named;
    }

    /// Says how rollups are made: [`RecordingWriter::close`] writes them. What the manifest says of page size, architecture and
    /// measured time by then goes into them; if it is changed after that they do not count.
    pub fn set_witnesses(&mut self, witnesses: Arc<dyn Witnesses>) {
        self.witnesses = Some(witnesses);
    }

    /// Whether [`RecordingWriter::tick`] at this time writes parts.
    pub fn is_due(&mut self, now_ns: i64) -> bool {
        self.is_whole_due(now_ns) || self.tables.memory_bytes() >= self.options.max_buffered_bytes
    }

    fn is_whole_due(&mut self, now_ns: i64) -> bool {
        let last = *self.last_whole_ns.get_or_insert(now_ns);
        let interval = i64::try_from(self.options.part_interval.as_nanos()).unwrap_or(i64::MAX);
        now_ns.saturating_sub(last) >= interval
    }

    /// Writes what is due at `now_ns` (on the recording's clock): the manifest if it changed, and a part of every table
    /// that has rows if the interval has passed; of the large ones and of `loss` if memory is full before. Returns whether
    /// parts were written.
    ///
    /// After an error the writer can go on: complete parts stay readable, encoded parts that did not fit are kept up to
    /// [`WriterOptions::max_pending_bytes`] and tried again at the next tick, and what is dropped is counted.
    pub fn tick(&mut self, now_ns: i64) -> Result<bool> {
        if self.is_whole_due(now_ns) {
            self.flush(now_ns)?;
        } else if self.is_due(now_ns) {
            self.write_parts(now_ns, self.options.max_buffered_bytes / LARGE)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Writes a part of every table that has rows, now.
    pub fn flush(&mut self, now_ns: i64) -> Result<()> {
        self.last_whole_ns = Some(now_ns);
        self.write_parts(now_ns, 0)
    }

    /// Writes a part of `loss` and of every table whose rows take at least `least_bytes`.
    fn write_parts(&mut self, now_ns: i64, least_bytes: usize) -> Result<()> {
        self.last_parts_ns = Some(now_ns);
        if let Some(provider) = self.loss.as_mut() {
            provider(now_ns, &mut self.tables.loss);
        }
        self.push_unreported(now_ns);
        let mut first_error = self.retry_pending().err();
        // Taken out for the time, because writing needs the rest of the writer; the buffers' memory comes back with it.
        let mut tables = std::mem::take(&mut self.tables);
        let drained = tables.drain(least_bytes, |table, batch| self.write_rows(table, batch));
        self.tables = tables;
        if let Err(e) = drained {
            first_error.get_or_insert(e);
        }
        let aged_bytes = self.keep.trim(now_ns, self.storage.as_ref());
        self.stats.bytes_removed += aged_bytes;
        if let Some(spool) = &mut self.spool {
            spool.aged(aged_bytes);
        }
        if let Err(e) = self.save_manifest() {
            first_error.get_or_insert(e);
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Ends the recording cleanly: writes the last parts, fills `faults.mapping_id`, compacts, lets `last` put the final
    /// values into the manifest and writes it with `complete: true`.
    ///
    /// Everything is forced to the device on the way, and the manifest that says `complete` last, whatever
    /// [`WriterOptions::durable`] says: nothing is measured any more.
    ///
    /// If something fails the recording stays readable with `complete: false`, `last` is still called and the error is
    /// returned. If rows had to be given up on the way ([`WriterStats::dropped_rows`]) that is no error here, it was one
    /// when it happened, but the recording is not complete either. The manifest's `incomplete_reason` tells why; `last`
    /// finds it and `complete` as they will be written.
    pub fn close(mut self, last: impl FnOnce(&mut Manifest)) -> Result<WriterStats> {
        let now = self.last_parts_ns.unwrap_or_default();
        let done = self.close_tables(now);
        while let Some(part) = self.pending.pop_front() {
            self.stats.kept_rows -= part.rows;
            self.drop_rows(part.table.name, part.rows, &part.reports);
        }
        // Rows that waited when it was made do so no longer.
        let done = done.map_err(|error| match error {
            Error::NoSpace { errno, path, needed, .. } => {
                Error::NoSpace { errno, path, needed, kept_rows: 0, dropped_rows: self.stats.dropped_rows }
            }
            Error::SpoolFull { path, max_bytes, .. } => {
                Error::SpoolFull { path, max_bytes, kept_rows: 0, dropped_rows: self.stats.dropped_rows }
            }
            other => other,
        });
        let moved = self.spool.take().filter(Spool::has_moved);
        // The space kept back makes sure that the last manifest fits even on a full file system.
        let reserve = self.dir.join(RESERVE);
        if let Err(e) = self.storage.remove_file(&reserve) {
            tracing::warn!("{} stays behind: {e}", reserve.display());
        }
        self.write_last_losses(now);
        let listed = self.list_parts(done.is_ok() && moved.is_none());
        let reason = done.as_ref().err().map(ToString::to_string).or_else(|| self.dropped_reason()).or(listed);
        self.manifest.complete = reason.is_none();
        if let Some(reason) = reason {
            self.manifest.incomplete_reason = Some(reason);
        }
        if let Some(moved) = moved {
            self.note_moved(&moved);
        }
        last(&mut self.manifest);
        self.note_rollups(done.as_ref().ok());
        let saved = self.save_last_manifest();
        if let Err(error) = &saved
            && self.manifest.complete
        {
            // It may have its name already; whether it would be there after a power cut is not known.
            self.manifest.complete = false;
            self.manifest.incomplete_reason = Some(error.to_string());
            let _ = self.save_manifest();
        }
        done?;
        saved?;
        Ok(self.stats)
    }

    /// Puts the list of parts into the manifest, if it is `known` that no others come or go. Gives the reason if there can be none.
    fn list_parts(&mut self, known: bool) -> Option<String> {
        if !known {
            return None;
        }
        match inventory::list(&self.dir) {
            Ok(parts) => self.manifest.parts = Some(parts),
            Err(error) => return Some(error.to_string()),
        }
        None
    }

    /// What the recording is in the store goes under a key of its own: here parts of it are missing.
    fn note_moved(&mut self, moved: &Spool) {
        let there = spool::in_store(self.manifest.complete, self.manifest.incomplete_reason.as_deref());
        self.manifest.extra.insert(PARTS_MOVED.to_owned(), there);
        self.manifest.extra.insert(COMPACTED.to_owned(), false.into());
        self.manifest.complete = false;
        self.manifest.incomplete_reason = Some(moved.reason());
    }

    /// Why rows are missing although the end was clean.
    fn dropped_reason(&self) -> Option<String> {
        // A part of `loss` that was given up is reported again.
        let because = self.dropped_because.as_deref().filter(|_| !self.dropped.is_empty())?;
        let tables: Vec<String> = self.dropped.iter().map(|(table, rows)| format!("{rows} rows of {table}")).collect();
        Some(format!("{} were given up: {because}", tables.join(", ")))
    }

    /// Puts the counts that no written part holds into `loss`.
    fn push_unreported(&mut self, now_ns: i64) {
        self.owes_counts = false;
        for (stream, counts) in std::mem::take(&mut self.unreported).by_stream {
            let Counts { seen, lost, filtered } = counts;
            self.push_loss(&LossRow { ts: now_ns, stream: &stream, cpu: None, seen, lost, filtered });
        }
    }

    /// A part of `loss` alone, for rows given up when the last parts were written. It is small, and the reserve has just
    /// made room; if it fails all the same the manifest's `rows_dropped` still tells.
    fn write_last_losses(&mut self, now_ns: i64) {
        // Unreported rows at this point were dropped by a failed flush: so there was no compaction that this part could
        // upset.
        if self.unreported.by_stream.is_empty() {
            return;
        }
        self.push_unreported(now_ns);
        let stored = self.tables.loss.take_batch().and_then(|batch| {
            let (table, rows) = (LossRow::TABLE, batch.num_rows() as u64);
            let bytes = encode::live_part(table, &batch, 0)?;
            self.store(&PendingPart { table, rows, bytes, reports: Losses::default() })
        });
        if let Err(e) = stored {
            tracing::warn!("the last rows of loss are not written: {e}");
        }
    }

    /// Takes the space that the last manifest will need.
    fn reserve(&mut self) -> Result<()> {
        let path = self.dir.join(RESERVE);
        let written = self.storage.create(&path).and_then(|mut file| file.write_all(&vec![0; RESERVE_BYTES]));
        self.stats.bytes_written += RESERVE_BYTES as u64;
        written.map_err(Error::io("write", &path))
    }

    /// Puts the rollups that were written into the manifest.
    fn note_rollups(&mut self, made: Option<&Rollups>) {
        let Some(made) = made.filter(|_| self.manifest.complete) else { return };
        let entries = match &made.missing {
            Some(reason) => Err(reason.clone()),
            None => Recording::open(&self.dir)
                .and_then(|recording| rollup::entries(&recording, &self.manifest, &made.rows))
                .map_err(|error| error.to_string()),
        };
        match entries {
            Ok(entries) => self.manifest.rollups = entries,
            Err(reason) => self.manifest.rollups_missing = Some(reason),
        }
    }

    fn close_tables(&mut self, now: i64) -> Result<Rollups> {
        self.flush(now)?;
        if !self.options.compact || self.spool.as_ref().is_some_and(Spool::has_moved) {
            self.sync_parts()?;
            return Ok(Rollups::default());
        }
        // No more rows come, and compaction needs memory of its own.
        self.tables = Tables::default();
        let outcome = compact::compact(&self.dir, &self.storage, &self.options, &self.named, self.witnesses.as_ref())?;
        self.stats.bytes_written += outcome.bytes_written;
        if let Some(count) = outcome.faults_unattributed {
            self.manifest.faults_unattributed = Some(count);
        }
        Ok(outcome.rollups)
    }

    /// Forces the parts to the device, as they are.
    fn sync_parts(&self) -> Result<()> {
        let recording = Recording::open(&self.dir)?;
        for table in recording.tables()? {
            for path in recording.parts(table.name)? {
                self.storage.sync_file(&path).map_err(Error::io("sync", &path))?;
            }
            let folder = self.dir.join(table.name);
            self.storage.sync_dir(&folder).map_err(Error::io("sync", &folder))?;
        }
        self.storage.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))
    }

    /// Encodes and stores one part. When the file system fails, the encoded part is kept if there is room.
    fn write_rows(&mut self, table: &'static TableDef, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows() as u64;
        let reports = if table.name == LossRow::TABLE.name { Losses::of(batch)? } else { Losses::default() };
        let late_rows = self.late.rows(table.name, batch);
        let bytes = match encode::live_part(table, batch, late_rows) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.drop_rows(table.name, rows, &reports);
                self.dropped_because.get_or_insert_with(|| e.to_string());
                return Err(e);
            }
        };
        let part = PendingPart { table, rows, bytes, reports };
        let path = self.part_path(table);
        let stored = if self.waits_for_loss(table) { Ok(false) } else { self.store(&part).map(|()| true) };
        let error = match stored {
            Ok(true) => {
                self.fold(table, path, batch, part.bytes.len());
                return Ok(());
            }
            Ok(false) => None,
            Err(error) => Some(error),
        };
        let needed = part.bytes.len() as u64;
        let kept = self.keep_or_drop(part);
        let error = error.map(|error| self.explain(error, path, needed));
        if table.name == LossRow::TABLE.name {
            self.loss_failed = error.as_ref().map(ToString::to_string);
        }
        if !kept && let Some(reason) = error.as_ref().map(ToString::to_string).or_else(|| self.loss_failed.clone()) {
            self.dropped_because.get_or_insert(reason);
        }
        error.map_or(Ok(()), Err)
    }

    /// Whether rows have to wait because the counts that go before them could not be written.
    fn waits_for_loss(&self, table: &TableDef) -> bool {
        let is_loss = |table: &TableDef| table.name == LossRow::TABLE.name;
        !is_loss(table) && (self.owes_counts || self.pending.iter().any(|part| is_loss(part.table)))
    }

    /// Puts a flight recorder's small parts together when there are enough of them.
    fn fold(&mut self, table: &'static TableDef, path: PathBuf, batch: &RecordBatch, bytes: usize) {
        let Some(small) = self.fold.as_mut().and_then(|fold| fold.add(table.name, path, batch, bytes)) else { return };
        let stored = concat_batches(batch.schema_ref(), &small.rows).map_err(Error::from).and_then(|rows| {
            let bytes = encode::live_part(table, &rows, 0)?;
            self.store(&PendingPart { table, rows: 0, bytes, reports: Losses::default() })
        });
        if let Err(error) = stored {
            // Their rows are all there.
            tracing::debug!("the small parts of {} stay: {error}", table.name);
            return;
        }
        for path in &small.paths {
            if let Err(error) = self.storage.remove_file(path) {
                tracing::warn!("{} stays behind: {error}", path.display());
            }
        }
        self.stats.bytes_removed += small.bytes;
    }

    fn explain(&self, e: Error, path: PathBuf, needed: u64) -> Error {
        match e {
            Error::Io { source, .. } if io_is_no_space(&source) => {
                let WriterStats { kept_rows, dropped_rows, .. } = self.stats;
                Error::NoSpace {
                    errno: source.raw_os_error().unwrap_or_default(),
                    path,
                    needed,
                    kept_rows,
                    dropped_rows,
                }
            }
            Error::SpoolFull { path, max_bytes, .. } => {
                let WriterStats { kept_rows, dropped_rows, .. } = self.stats;
                Error::SpoolFull { path, max_bytes, kept_rows, dropped_rows }
            }
            other => other,
        }
    }

    /// Keeps a part for another try if there is room; false if its rows had to be given up.
    fn keep_or_drop(&mut self, part: PendingPart) -> bool {
        let held: usize = self.pending.iter().map(|p| p.bytes.len()).sum();
        // Counts that were given up are told by the next ones: rows must not be there before them.
        let fits = held + part.bytes.len() <= self.options.max_pending_bytes && !self.owes_counts;
        if fits {
            self.stats.kept_rows += part.rows;
            self.pending.push_back(part);
        } else {
            self.drop_rows(part.table.name, part.rows, &part.reports);
        }
        fits
    }

    /// Counts the rows of a part that is given up. Of a part of `loss` nothing is lost: what it reports is reported again.
    fn drop_rows(&mut self, table: &'static str, rows: u64, reports: &Losses) {
        if table == LossRow::TABLE.name {
            self.unreported.add_all(reports);
            self.owes_counts = true;
            return;
        }
        self.stats.dropped_rows += rows;
        *self.dropped.entry(table).or_default() += rows;
        *self.manifest.rows_dropped.entry(table.to_owned()).or_default() += rows;
        self.unreported.add_dropped(table, rows);
    }

    fn retry_pending(&mut self) -> Result<()> {
        while let Some(part) = self.pending.pop_front() {
            if let Err(e) = self.store(&part) {
                let needed = part.bytes.len() as u64;
                let path = self.part_path(part.table);
                self.pending.push_front(part);
                return Err(self.explain(e, path, needed));
            }
            self.stats.kept_rows -= part.rows;
        }
        Ok(())
    }

    fn part_path(&self, table: &TableDef) -> PathBuf {
        let number = self.next_part.get(table.name).copied().unwrap_or_default();
        self.dir.join(table.name).join(part_name(number))
    }

    /// Makes room for a part in a spool, by removing parts that are in the store.
    fn make_room(&mut self, bytes: u64) -> Result<()> {
        let Some(mut spool) = self.spool.take() else { return Ok(()) };
        // Those of a flight recorder grow old and go by themselves.
        if !spool.fits(bytes) && self.options.keep_last.is_none() && spool.can_move() {
            // Said before the first is gone: whoever finds the folder after a crash knows that it is not all.
            let is_said = self.manifest.extra.contains_key(PARTS_MOVED) || {
                self.manifest.extra.insert(PARTS_MOVED.to_owned(), spool::in_store(false, None));
                self.save_manifest().is_ok()
            };
            if is_said {
                spool.make_room(bytes, self.storage.as_ref());
            }
        }
        let is_full = !spool.fits(bytes);
        let max_bytes = spool.max_bytes();
        self.spool = Some(spool);
        if !is_full {
            return Ok(());
        }
        Err(Error::SpoolFull { path: self.dir.clone(), max_bytes, kept_rows: 0, dropped_rows: 0 })
    }

    /// Puts one encoded part in place: temporary name, then rename.
    fn store(&mut self, part: &PendingPart) -> Result<()> {
        let table = part.table.name;
        // What is counted of each stream is written whatever happens: a count that is given up would make all others wrong.
        if table != LossRow::TABLE.name {
            self.make_room(part.bytes.len() as u64)?;
        }
        let folder = self.dir.join(table);
        if !self.next_part.contains_key(table) {
            match self.storage.create_dir(&folder) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("create directory", &folder)(e));
                }
                _ => {}
            }
            self.next_part.insert(table, 0);
        }
        let path = self.part_path(part.table);
        let mut tmp = path.clone().into_os_string();
        tmp.push(TMP_SUFFIX);
        let tmp = PathBuf::from(tmp);
        let written = self
            .write_tmp(&tmp, &part.bytes)
            .and_then(|()| self.storage.rename(&tmp, &path).map_err(Error::io("rename to", &path)));
        if let Err(e) = written {
            let _ = self.storage.remove_file(&tmp);
            return Err(e);
        }
        if self.options.durable {
            self.storage.sync_dir(&folder).map_err(Error::io("sync", &folder))?;
        }
        *self.next_part.entry(table).or_default() += 1;
        self.stats.parts += 1;
        self.stats.rows += part.rows;
        self.stats.bytes_written += part.bytes.len() as u64;
        if let Some(spool) = &mut self.spool {
            spool.add(table, path.clone(), part.bytes.len() as u64);
        }
        self.keep.add(table, path, self.last_parts_ns.unwrap_or(i64::MAX), part.bytes.len() as u64);
        Ok(())
    }

    fn write_tmp(&self, tmp: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = self.storage.create(tmp).map_err(Error::io("create", tmp))?;
        file.write_all(bytes).map_err(Error::io("write", tmp))?;
        if self.options.durable {
            StorageFile::sync(file.as_mut()).map_err(Error::io("sync", tmp))?;
        }
        Ok(())
    }

    fn save_manifest(&mut self) -> Result<()> {
        let text = self.manifest.to_json();
        if text == self.saved_manifest {
            return Ok(());
        }
        self.stats.bytes_written += self.manifest.save(&self.dir, self.storage.as_ref(), self.options.durable)?;
        self.saved_manifest = text;
        Ok(())
    }

    /// Writes the manifest for the last time and forces it to the device. Everything that it names is there already.
    fn save_last_manifest(&mut self) -> Result<()> {
        let parent = parent_of(&self.dir);
        self.storage.sync_dir(&parent).map_err(Error::io("sync", &parent))?;
        self.stats.bytes_written += self.manifest.save(&self.dir, self.storage.as_ref(), true)?;
        Ok(())
    }
}

/// When memory is full, tables that take at least this part of it are written: more than there are tables, so that some do.
const LARGE: usize = 32;

/// A file that holds space for the last manifest.
pub(crate) const RESERVE: &str = "reserve.tmp";
/// Manifests with all probes and a job have some 20 KB; writing one takes the old and the new at the same time.
const RESERVE_BYTES: usize = 64 << 10;

/// Name of part `number` of a table.
pub(crate) fn part_name(number: u32) -> String {
    format!("part-{number:04}.parquet")
}
