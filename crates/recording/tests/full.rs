//! A file system that fills up while a recording is written.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use crate::common;

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use common::{intervals, lost, push_interval};
use pagelab_recording::tables::LossRow;
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions, check};

/// A small file system in memory, unmounted when the test ends, however it ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, kib: u32) -> Self {
        let c = |b: &[u8]| CString::new(b).unwrap();
        let (target, kind, options) = (c(at.as_os_str().as_bytes()), c(b"tmpfs"), c(format!("size={kib}k").as_bytes()));
        // SAFETY: all pointers are to strings that live through the call.
        let result = unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) };
        let error = std::io::Error::last_os_error();
        assert_eq!(result, 0, "mounting a tmpfs needs root: {error}");
        Self(at.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let target = CString::new(self.0.as_os_str().as_bytes()).unwrap();
        // SAFETY: the pointer is to a string that lives through the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn a_full_disk_is_said_clearly_and_what_was_written_stays() {
    let tmp = tempfile::tempdir().unwrap();
    let mount = tmp.path().join("disk");
    fs::create_dir(&mount).unwrap();
    let disk = SmallDisk::mount(&mount, 600);
    let dir = mount.join("rec");
    // Room for about two parts waiting, so that both keeping and dropping happen.
    let options = WriterOptions { max_pending_bytes: 20_000, ..WriterOptions::default() };
    let mut w = RecordingWriter::create(&dir, Manifest::default(), options).unwrap();
    let (mut good, mut error) = (Vec::new(), None);
    let intervals_pushed = 40;
    for n in 0..intervals_pushed {
        push_interval(&mut w, n);
        match w.flush(n * 1_000_000) {
            Ok(()) => good.push(n),
            Err(e) => error = Some(e),
        }
    }
    let error = error.expect("the disk is smaller than the recording");
    assert!(error.is_no_space(), "{error}");
    let text = error.to_string();
    assert!(text.contains("no space left") && text.contains("bytes needed") && text.contains("df "), "{text}");
    assert!(good.len() > 1);
    let recording = Recording::open(&dir).unwrap();
    for table in ["faults", "metrics"] {
        let found = intervals(&recording, table);
        assert!(good.iter().all(|n| found.get(n) == Some(&200)), "{table}: {found:?}, {good:?}");
    }
    let stats = w.stats();
    assert!(stats.dropped_rows > 0 && stats.kept_rows > 0, "{stats:?}");
    assert!(w.close(|m| m.label = Some("ended".to_owned())).unwrap_err().is_no_space());
    // The last manifest fits all the same, and accounts for every row.
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(recording.manifest().label.as_deref(), Some("ended"));
    assert!(!recording.manifest().complete);
    let reason = recording.manifest().incomplete_reason.as_deref().unwrap();
    assert!(reason.contains("no space left"), "{reason}");
    let dropped = recording.manifest().rows_dropped["faults"];
    assert_eq!(recording.rows("faults").unwrap() + dropped, intervals_pushed as u64 * 200);
    let all: u64 = recording.manifest().rows_dropped.values().sum();
    assert_eq!(lost(&recording), all, "also those of the end are told");
    let report = check(&dir).unwrap();
    assert!(report.problems.iter().any(|p| p.id == "rows.dropped"), "{report:?}");
    assert!(!report.problems.iter().any(|p| p.id == "part.damaged"), "{report:?}");
    drop(disk);
}

#[test]
fn space_that_comes_back_is_used() {
    let tmp = tempfile::tempdir().unwrap();
    let mount = tmp.path().join("disk");
    fs::create_dir(&mount).unwrap();
    let _disk = SmallDisk::mount(&mount, 1500);
    let hog = mount.join("hog");
    fs::write(&hog, vec![1; 800 << 10]).unwrap();
    let dir = mount.join("rec");
    let mut w = RecordingWriter::create(&dir, Manifest::default(), WriterOptions::default()).unwrap();
    let mut n = 0;
    while {
        push_interval(&mut w, n);
        w.flush(n).is_ok()
    } {
        n += 1;
        assert!(n < 1000, "the disk never fills");
    }
    fs::remove_file(&hog).unwrap();
    w.flush(n).unwrap();
    assert_eq!(w.stats().kept_rows, 0);
    w.close(|_| ()).unwrap();
    let recording = Recording::open(&dir).unwrap();
    assert!(recording.manifest().complete);
    assert_eq!(recording.rows("faults").unwrap(), (n as u64 + 1) * 200);
}

/// Events of `faults` that were seen and lost, as `loss` has them, after rows of `intervals` were written to a disk of `kib`.
fn counted(kib: u32, intervals: i64, max_pending_bytes: usize) -> (u64, u64, u64) {
    let tmp = tempfile::tempdir().unwrap();
    let mount = tmp.path().join("disk");
    fs::create_dir(&mount).unwrap();
    let _disk = SmallDisk::mount(&mount, kib);
    let dir = mount.join("rec");
    let options = WriterOptions { max_pending_bytes, ..WriterOptions::default() };
    let mut w = RecordingWriter::create(&dir, Manifest::default(), options).unwrap();
    for n in 0..intervals {
        push_interval(&mut w, n);
        let _ = w.flush(n * 1_000_000);
        // At every instant: what is there was seen, and that is there, too.
        let (seen, lost, rows) = sums(&dir);
        assert!(rows + lost <= seen, "{kib} KiB, interval {n}: {rows} rows and {lost} lost of {seen}");
    }
    let _ = w.close(|_| ());
    sums(&dir)
}

fn sums(dir: &Path) -> (u64, u64, u64) {
    let recording = Recording::open(dir).unwrap();
    let (mut seen, mut lost) = (0, 0);
    let count = |row: LossRow<'_>| {
        if row.stream == "faults" {
            (seen, lost) = (seen + row.seen, lost + row.lost);
        }
    };
    recording.for_each::<LossRow>(count).unwrap();
    (seen, lost, recording.rows("faults").unwrap())
}

/// More events were lost than had been seen, because the counts of those seen had not found room and were forgotten; and rows were
/// there before their counts.
#[test]
fn what_was_seen_is_counted_on_every_disk_that_the_manifest_fits_on() {
    for kib in [150, 180, 220, 260, 300, 400, 500, 600] {
        for max_pending_bytes in [0, 3_000, 20_000, 1 << 20] {
            let (seen, lost, rows) = counted(kib, 40, max_pending_bytes);
            assert_eq!(
                (seen, rows + lost),
                (8000, 8000),
                "{kib} KiB, {max_pending_bytes} bytes kept: {rows} rows, {lost} lost"
            );
        }
    }
}
