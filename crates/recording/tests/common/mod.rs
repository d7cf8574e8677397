//! What several tests of recordings need.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt64Type};
use pagelab_recording::tables::{FaultsRow, FramesRow, LossRow, MappingsRow, MetricsRow, StacksRow, TasksRow};
use pagelab_recording::{FileStorage, Recording, RecordingWriter, Storage, StorageFile};

/// A directory for a test, in memory where possible: hundreds of recordings with fsync take minutes on a disk.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// One flush interval of every kind of table; `n` tells them apart. Times lie up to half an interval back, as rows of a
/// slow CPU do.
pub(crate) fn push_interval(w: &mut RecordingWriter, n: i64) {
    let start = n * 1_000_000;
    for i in 0..200 {
        let late = if i % 10 == 0 { 500_000 } else { 0 };
        w.push_faults(&FaultsRow {
            ts: start + i * 1000 - late,
            task_id: 1,
            mm_id: 1,
            addr: 0x10_0000 + ((n * 200 + i) as u64 % 64) * 4096,
            ip: 0x40_0000,
            error_code: Some(6),
            ..FaultsRow::default()
        });
        w.push_metrics(&MetricsRow {
            ts: start + i * 1000 + 1,
            name: "vmstat.x",
            instance: None,
            value: Some(i as f64),
        });
    }
    let task = TasksRow { ts: start, op: "comm", task_id: 1, mm_id: Some(1), comm: Some("x"), ..TasksRow::default() };
    w.push_tasks(&task);
    w.push_mappings(&MappingsRow {
        ts: start - 600_000,
        mm_id: 1,
        mapping_id: Some(n as u32 + 1),
        op: "mmap",
        kind: "call",
        ret: Some(0x10_0000),
        len: Some(64 * 4096),
        ..MappingsRow::default()
    });
    w.push_stacks(&StacksRow { stack_id: 5, frame_ids: &[1, 2, 3] });
    w.push_frames(&FramesRow { frame_id: n as u64, symbol: Some("f"), ..FramesRow::default() });
    w.push_loss(&LossRow { ts: start + 100_000, stream: "faults", cpu: None, seen: 200, lost: 0, filtered: 0 });
}

/// Rows per interval and table that [`push_interval`] pushes, `stacks` aside, which has the same row every time.
pub(crate) const PER_INTERVAL: [(&str, usize); 6] =
    [("faults", 200), ("metrics", 200), ("tasks", 1), ("mappings", 1), ("frames", 1), ("loss", 1)];

/// Everything that can be read of a table, as sorted keys (time or id).
pub(crate) fn keys(recording: &Recording, table: &str) -> Vec<i64> {
    let mut keys = Vec::new();
    for batch in recording.read(table, None).unwrap() {
        let batch = batch.unwrap();
        let column = batch.column(0);
        match column.as_primitive_opt::<Int64Type>() {
            Some(ts) => keys.extend(ts.values()),
            None => keys.extend(column.as_primitive::<UInt64Type>().values().iter().map(|v| *v as i64)),
        }
    }
    keys.sort_unstable();
    keys
}

/// How often each interval's rows are there.
pub(crate) fn intervals(recording: &Recording, table: &str) -> BTreeMap<i64, usize> {
    let mut found = BTreeMap::new();
    for key in keys(recording, table) {
        let n = if table == "frames" { key } else { (key + 600_000).div_euclid(1_000_000) };
        *found.entry(n).or_default() += 1;
    }
    found
}

/// Rows that `loss` says are not in the recording.
pub(crate) fn lost(recording: &Recording) -> u64 {
    let mut lost = 0;
    recording.for_each::<LossRow>(|row| lost += row.lost).unwrap();
    lost
}

/// How [`FailingStorage`] fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Operation n and all after it, a write having half happened: the process was killed.
    Killed,
    /// Operation n alone, with an I/O error.
    Once,
    /// Everything from operation n on that needs space.
    Full,
}

/// The real file system until operation `at`.
#[derive(Debug)]
pub(crate) struct FailingStorage {
    pub at: usize,
    pub failure: Failure,
    pub count: Arc<AtomicUsize>,
}

struct FailingFile {
    inner: Box<dyn StorageFile>,
    at: usize,
    failure: Failure,
    count: Arc<AtomicUsize>,
}

fn step(count: &AtomicUsize, at: usize, failure: Failure, needs_space: bool) -> io::Result<()> {
    let n = count.fetch_add(1, Ordering::Relaxed);
    match failure {
        Failure::Killed if n >= at => Err(io::Error::from_raw_os_error(libc::EIO)),
        Failure::Once if n == at => Err(io::Error::from_raw_os_error(libc::EIO)),
        Failure::Full if n >= at && needs_space => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        _ => Ok(()),
    }
}

impl FailingStorage {
    pub(crate) fn new(at: usize, failure: Failure) -> Self {
        Self { at, failure, count: Arc::default() }
    }

    fn step(&self, needs_space: bool) -> io::Result<()> {
        step(&self.count, self.at, self.failure, needs_space)
    }
}

impl Write for FailingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(e) = step(&self.count, self.at, self.failure, true) {
            // A write that a kill or a full disk interrupts may have happened in part.
            self.inner.write_all(&bytes[..bytes.len() / 2])?;
            return Err(e);
        }
        self.inner.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl StorageFile for FailingFile {
    fn sync(&mut self) -> io::Result<()> {
        step(&self.count, self.at, self.failure, false)?;
        self.inner.sync()
    }
}

impl Storage for FailingStorage {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step(true)?;
        FileStorage.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.step(true)?;
        let inner = FileStorage.create(path)?;
        let (at, failure, count) = (self.at, self.failure, self.count.clone());
        Ok(Box::new(FailingFile { inner, at, failure, count }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(false)?;
        FileStorage.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(false)?;
        FileStorage.remove_file(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.step(false)?;
        FileStorage.sync_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step(false)?;
        FileStorage.sync_dir(path)
    }
}
