//! The power goes for real: a file system on a loop device is cut off right after a recording has ended or at a random
//! moment while it is being closed, and mounted again. A recording that says `complete` must be whole, and closing must
//! not lose rows that were on the disk before. `tests/power.rs` tries far more of it on a disk that is only modelled.
//!
//! ext4 and xfs are shut down by their ioctl, with their log written or not. btrfs has none: its device is cut short to
//! one sector, so that later writes do not arrive.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use crate::common;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{PER_INTERVAL, intervals, push_interval};
use pagelab_recording::tables::SyscallsRow;
use pagelab_recording::{
    Error, FileStorage, Level, Manifest, Recording, RecordingWriter, Storage, StorageFile, WriterOptions, check,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const INTERVALS: i64 = 30;
/// `EXT4_IOC_SHUTDOWN` and `XFS_IOC_GOINGDOWN`.
const SHUTDOWN: libc::c_ulong = 0x8004_587d;
/// With the log written, and without.
const HOW: [u32; 2] = [1, 2];
const LOOP_SET_STATUS64: libc::c_ulong = 0x4c04;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4c05;
/// `struct loop_info64` and where `lo_sizelimit` is in it.
const LOOP_INFO_BYTES: usize = 232;
const SIZE_LIMIT_AT: usize = 32;

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A mounted file system in a file.
struct Disk {
    kind: &'static str,
    image: PathBuf,
    mount: PathBuf,
    device: Option<String>,
}

impl Disk {
    fn make(kind: &'static str, scratch: &Path) -> Self {
        let (image, mount) = (scratch.join("image"), scratch.join("mount"));
        File::create(&image).unwrap().set_len(320 << 20).unwrap();
        fs::create_dir_all(&mount).unwrap();
        let force = if kind == "ext4" { "-F" } else { "-f" };
        run(&format!("mkfs.{kind}"), &["-q", force, image.to_str().unwrap()]);
        Self { kind, image, mount, device: None }
    }

    fn mount(&mut self) {
        let device = run("losetup", &["--find", "--show", self.image.to_str().unwrap()]);
        run("mount", &["-t", self.kind, &device, self.mount.to_str().unwrap()]);
        self.device = Some(device);
    }

    /// From now on nothing reaches the disk.
    fn cut(&self, log_written: bool) {
        if self.kind == "btrfs" {
            return self.cut_short();
        }
        let folder = File::open(&self.mount).unwrap();
        let how = if log_written { HOW[0] } else { HOW[1] };
        // SAFETY: the request takes a pointer to a u32, which lives as long as the call.
        let done = unsafe { libc::ioctl(folder.as_raw_fd(), SHUTDOWN, &raw const how) };
        assert_eq!(done, 0, "shutdown: {}", io::Error::last_os_error());
    }

    fn cut_short(&self) {
        let device = OpenOptions::new().read(true).write(true).open(self.device.as_ref().unwrap()).unwrap();
        let mut info = [0_u8; LOOP_INFO_BYTES];
        // SAFETY: the request fills a loop_info64, which has as many bytes as the array.
        let read = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
        assert_eq!(read, 0, "{}", io::Error::last_os_error());
        info[SIZE_LIMIT_AT..SIZE_LIMIT_AT + 8].copy_from_slice(&512_u64.to_ne_bytes());
        // SAFETY: the request reads a loop_info64, which has as many bytes as the array.
        let set = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_STATUS64, info.as_ptr()) };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }

    fn unmount(&mut self) {
        let Some(device) = self.device.take() else { return };
        run("umount", &[self.mount.to_str().unwrap()]);
        run("losetup", &["--detach", &device]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(device) = self.device.take() {
            let _ = Command::new("umount").arg("-l").arg(&self.mount).status();
            let _ = Command::new("losetup").arg("--detach").arg(&device).status();
        }
    }
}

fn filled(dir: &Path) -> RecordingWriter {
    let mut writer = RecordingWriter::create(dir, Manifest::default(), WriterOptions::default()).unwrap();
    for n in 0..INTERVALS {
        push_interval(&mut writer, n);
        writer.flush(n * 1_000_000).unwrap();
    }
    writer
}

fn sync_all_of(mount: &Path) {
    let folder = File::open(mount).unwrap();
    // SAFETY: the call takes a descriptor and nothing else.
    assert_eq!(unsafe { libc::syncfs(folder.as_raw_fd()) }, 0);
}

/// What is wrong after the cut.
fn violation(dir: &Path, written_back: bool, closed: bool) -> Option<String> {
    let recording = match Recording::open(dir) {
        Ok(recording) => recording,
        Err(Error::NotARecording { .. } | Error::BadJson { .. } | Error::EmptyManifest { .. })
            if !written_back && !closed =>
        {
            return None;
        }
        Err(e) => return Some(format!("cannot be opened: {e}")),
    };
    let complete = recording.manifest().complete;
    if closed && !complete {
        return Some("was closed and is not complete".to_owned());
    }
    if complete {
        let report = check(dir).unwrap();
        let bad: Vec<_> = report.problems.iter().filter(|p| p.level == Level::Problem).collect();
        if !bad.is_empty() {
            return Some(format!("says complete: {bad:?}"));
        }
    }
    if !complete && !written_back {
        return None;
    }
    for (table, per_interval) in PER_INTERVAL {
        if let Err(e) = recording.verify(table) {
            return Some(format!("complete {complete}: {table}: {e}"));
        }
        let found = intervals(&recording, table);
        if found.len() as i64 != INTERVALS || found.values().any(|rows| *rows != per_interval) {
            return Some(format!("complete {complete}: {table} has {} of {INTERVALS} intervals", found.len()));
        }
    }
    None
}

/// One power cut; whether the recording had been closed by then, and what is wrong.
fn cut(kind: &'static str, seed: u64) -> (bool, Option<String>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let scratch = common::scratch();
    let mut disk = Disk::make(kind, scratch.path());
    disk.mount();
    let dir = disk.mount.join("rec");
    let writer = filled(&dir);
    let written_back = rng.random_bool(0.7);
    if written_back {
        sync_all_of(&disk.mount);
    }
    let log_written = rng.random_bool(0.5);
    // Every second cut comes right after the end.
    let wait = if seed.is_multiple_of(2) { None } else { Some(Duration::from_micros(rng.random_range(0..40_000))) };
    let closed = std::thread::scope(|scope| {
        let closing = scope.spawn(|| writer.close(|_| ()).is_ok());
        match wait {
            Some(wait) => std::thread::sleep(wait),
            None => {
                while !closing.is_finished() {
                    std::thread::yield_now();
                }
            }
        }
        let ended = closing.is_finished();
        disk.cut(log_written);
        // What ends after the cut may believe that it succeeded only if all of it was there.
        closing.join().unwrap() && ended
    });
    disk.unmount();
    disk.mount();
    let found = violation(&dir, written_back, closed);
    disk.unmount();
    (
        closed,
        found.map(|what| {
            format!("{kind}, seed {seed}, written back {written_back}, log {log_written}, {wait:?}: {what}")
        }),
    )
}

fn cuts(kind: &'static str) {
    let cuts = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 30 } else { 2 };
    let outcomes: Vec<_> = (0..cuts).map(|seed| cut(kind, seed)).collect();
    let closed = outcomes.iter().filter(|(closed, _)| *closed).count();
    let violations: Vec<_> = outcomes.into_iter().filter_map(|(_, found)| found).collect();
    println!("{kind}: {cuts} power cuts, {closed} after the end, {} violations", violations.len());
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
#[ignore = "mounts file systems"]
fn loop_power_cuts_on_ext4() {
    cuts("ext4");
}

#[test]
#[ignore = "mounts file systems"]
fn loop_power_cuts_on_xfs() {
    cuts("xfs");
}

#[test]
#[ignore = "mounts file systems"]
fn loop_power_cuts_on_btrfs() {
    cuts("btrfs");
}

/// The real file system that never syncs: closing as it was.
#[derive(Debug)]
struct Unsynced;

struct UnsyncedFile(Box<dyn StorageFile>);

impl Write for UnsyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl StorageFile for UnsyncedFile {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for Unsynced {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        FileStorage.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(UnsyncedFile(FileStorage.create(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        FileStorage.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        FileStorage.remove_file(path)
    }

    fn sync_file(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

/// Seconds that closing takes, and the bytes of the recording.
fn closing(dir: &Path, rows: u64, storage: Arc<dyn Storage>) -> (f64, u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(rows);
    let mut writer = RecordingWriter::create_with(dir, Manifest::default(), WriterOptions::default(), storage).unwrap();
    for n in 0..rows as i64 {
        let args: [u64; 6] = rng.random();
        writer.push(&SyscallsRow { ts: n, dur: Some(1), task_id: 1, name: "read", args, ..SyscallsRow::default() });
        writer.tick(n * 1000).unwrap();
    }
    writer.flush(rows as i64 * 1000).unwrap();
    // Live parts have been written back by then.
    sync_all_of(dir);
    let start = Instant::now();
    writer.close(|_| ()).unwrap();
    let took = start.elapsed().as_secs_f64();
    let size = |path: PathBuf| fs::metadata(path).unwrap().len();
    let bytes = Recording::open(dir).unwrap().parts("syscalls").unwrap().into_iter().map(size).sum();
    (took, bytes)
}

/// What syncing adds to closing, on the disk of `CARGO_TARGET_TMPDIR`: it prints that, and demands all rows of both
/// ways. About time it asserts nothing, which differs by disk.
#[test]
#[ignore = "a measurement; only in the long form"]
fn long_price_of_closing() {
    let (rounds, rows) = (7, 4_000_000);
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for rows in [1000, rows] {
        let (mut differences, mut bytes) = (Vec::new(), 0);
        for round in 0..rounds {
            let (mut took, mut left) = ([0.0; 2], [0; 2]);
            for turn in 0..2 {
                let synced = (round + turn) % 2;
                let dir = scratch.path().join("rec");
                let storage: Arc<dyn Storage> = if synced == 1 { Arc::new(FileStorage) } else { Arc::new(Unsynced) };
                (took[synced], bytes) = closing(&dir, rows, storage);
                left[synced] = Recording::open(&dir).unwrap().rows("syscalls").unwrap();
                fs::remove_dir_all(&dir).unwrap();
                sync_all_of(scratch.path());
            }
            assert_eq!(left, [rows; 2], "rows, without and with");
            println!("{rows} rows, {bytes} bytes: {:.3} s without, {:.3} s with", took[0], took[1]);
            differences.push(took[1] - took[0]);
        }
        differences.sort_by(f64::total_cmp);
        let median = differences[differences.len() / 2];
        println!("{rows} rows: {median:.3} s more, {:.2} s per GB", median / bytes as f64 * 1e9);
    }
}
