//! Bad input and bad luck: words with file and line or with the operation, an exit status, and nothing left behind.

use crate::common;

use std::path::Path;
use std::process::Command;

use common::{pagelab, refused, try_run};

/// What is in a directory.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .expect("directory")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A job file in a directory of its own must be refused with these words, and leave nothing but itself.
fn refused_file(text: &[u8], words: &[&str]) {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("job.fio");
    std::fs::write(&path, text).expect("write");
    let output =
        pagelab().current_dir(directory.path()).arg("--output-format=json").arg(&path).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty(), "no half-written report");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(names(directory.path()), ["job.fio"]);
}

#[test]
fn wrong_words_are_refused_with_their_line() {
    refused_file(b"[a]\nsize=1m\nrtime=1\n", &["job.fio:3", "unknown option 'rtime'", "runtime"]);
    refused_file(b"[a]\nsize=1m\nverify_policy=fsynced\n", &["job.fio:3", "of fio that pagelab does not have"]);
    refused_file(b"[a]\nsize=1m\nioengine=libblkio\n", &["job.fio:3", "libaio and posixaio", "pagelab has:"]);
    refused_file(b"[a]\nsize=1m\nioengine=psink\n", &["job.fio:3", "unknown ioengine"]);
    // As in fio a size of nothing is none.
    refused_file(b"[a]\nsize=0\n", &["does not exist yet; give size="]);
    refused_file(b"[a]\nsize=1m\nbs=0\n", &["job.fio:3", "0 bytes"]);
    refused_file(b"[a]\nsize=99999999999999999999\n", &["job.fio:2", "64 bits"]);
    refused_file(b"[a]\nsize=8e\n", &["job.fio:2", "unknown unit"]);
    refused_file(b"[a]\nsize=1m\noffset=8191p\noffset_increment=8191p\nnumjobs=4\n", &["beyond what a file can have"]);
    refused_file(b"[a]\nsize=1m\ndirect=1\nbuffered=1\n", &["job.fio:4", "contradict"]);
    refused_file(b"[a]\nsize=1m\nrate=1m\nrate_iops=1\n", &["job.fio:4", "choose one"]);
    refused_file(b"[a]\nsize=1m\ndirectory=/no/such/place\n", &["/no/such/place", "mkdir -p"]);
    refused_file(b"[a]\nsize=1m\nfilename=\xff\xfe\n", &["job.fio:3", "UTF-8"]);
    refused_file(b"[a\nsize=1m\n", &["job.fio:1", "section header"]);
    refused_file(b"", &["no job"]);
    let mut long = b"[a]\nsize=1m\ndescription=".to_vec();
    long.resize(1 << 20, b'x');
    refused_file(&long, &["job.fio:3", "bytes; at most"]);
}

#[test]
fn include_loops_are_refused() {
    let directory = tempfile::tempdir().expect("tempdir");
    std::fs::write(directory.path().join("a.fio"), "[a]\nsize=1m\ninclude b.inc\n").expect("write");
    std::fs::write(directory.path().join("b.inc"), "bs=4k\ninclude c.inc\n").expect("write");
    std::fs::write(directory.path().join("c.inc"), "\ninclude b.inc\n").expect("write");
    let words = refused(&[directory.path().join("a.fio")], 2);
    assert!(words.contains("c.inc:2") && words.contains("include loop"), "{words}");
    assert_eq!(names(directory.path()), ["a.fio", "b.inc", "c.inc"]);
}

#[test]
fn ten_thousand_sections_are_refused_at_the_one_that_is_wrong() {
    let sections: Vec<String> = (0..10_000).map(|i| format!("[job{i}]\n")).collect();
    let text = format!("[global]\nsize=4k\n{}bs=wrong\n", sections.concat());
    refused_file(text.as_bytes(), &["job.fio:10003", "bs=wrong"]);
    let text = format!("[global]\nsize=4k\nnumjobs=2\n{}", sections.concat());
    refused_file(text.as_bytes(), &["job.fio:2052", "job 'job2048'", "at most 4096"]);
}

/// The second job cannot be prepared: the file that was made for the first one is gone again.
#[test]
fn a_failed_start_leaves_no_file() {
    let directory = tempfile::tempdir().expect("tempdir");
    let place = format!("--directory={}", directory.path().display());
    let words = refused(
        &[
            place.as_str(),
            "--name=a",
            "--rw=write",
            "--size=1m",
            "--nrfiles=3",
            "--name=b",
            "--rw=write",
            "--size=1m",
            "--fallocate=native",
            "--directory=no/such",
        ],
        2,
    );
    assert!(words.contains("mkdir -p"), "{words}");
    assert!(names(directory.path()).is_empty(), "{:?}", names(directory.path()));
    // A worker that cannot get ready: more descriptors than the process may have.
    let output = Command::new("prlimit")
        .args(["--nofile=64:64", env!("CARGO_BIN_EXE_pagelab-load"), "--output-format=report", &place])
        .args(["--name=a", "--rw=write", "--size=4m", "--nrfiles=200"])
        .output()
        .expect("prlimit of util-linux");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    assert!(names(directory.path()).is_empty(), "{:?}", names(directory.path()));
}

/// A file system of 4 MiB that goes away again.
struct SmallFileSystem(tempfile::TempDir);

impl SmallFileSystem {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(directory.path()).status();
        assert!(mounted.is_ok_and(|status| status.success()), "mounting a tmpfs needs root: run the tests as root");
        Self(directory)
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_file_system_ends_the_job_with_its_place() {
    let small = SmallFileSystem::new();
    let state = tempfile::tempdir().expect("tempdir");
    let run = |options: &str| {
        let output = pagelab()
            .env("PAGELAB_STATE_DIR", state.path())
            .args(["--output-format=report", "--name=j", "--rw=write", "--bs=64k"])
            .arg(format!("--directory={}", small.0.path().display()))
            .args(options.split_whitespace())
            .output()
            .expect("starts");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    // In mid-run: the results until then are reported, whole.
    let (status, report, _) = run("--size=64m --fallocate=none --filename=f");
    assert_eq!(status, Some(3));
    let report: pagelab_load::JobReport = serde_json::from_str(&report).expect("a whole report");
    let failure = report.workers[0].failure.as_ref().expect("it failed");
    assert_eq!(failure.errno, libc::ENOSPC);
    assert!(failure.message.contains("write of 65536 bytes at offset"), "{}", failure.message);
    assert!(report.workers[0].write.operations > 0);
    std::fs::remove_file(small.0.path().join("f")).expect("made");
    // Before the run: nothing is left. tmpfs has fallocate(2), so the space is asked for ahead, and the kernel refuses it.
    for how in ["", "--fallocate=native", "--fallocate=posix", "--fallocate=keep"] {
        let (status, report, words) = run(&format!("--size=64m --filename=g {how}"));
        assert_eq!(status, Some(3), "{how}: {words}");
        assert!(report.is_empty() && words.contains("allocating space for"), "{how}: {words}");
        assert!(words.contains("No space left on device"), "{how}: {words}");
        assert!(names(small.0.path()).is_empty(), "{how}: {:?}", names(small.0.path()));
    }
    // Laid out with data: the same.
    let (status, report, words) = run("--size=64m --overwrite=1 --fallocate=none --filename=h");
    assert_eq!(status, Some(3), "{words}");
    assert!(report.is_empty() && words.contains("filling"), "{words}");
    assert!(names(small.0.path()).is_empty());
    // And for jobs that ask for it, an error that is counted.
    let job = "--size=16m --fallocate=none --filename=i --continue_on_error=write";
    let (status, report, words) = run(&format!("{job} --ignore_error=,ENOSPC"));
    assert_eq!(status, Some(0), "{words}");
    let report: pagelab_load::JobReport = serde_json::from_str(&report).expect("a whole report");
    assert!(report.workers[0].errors() > 0 && report.workers[0].first_error == Some(libc::ENOSPC));
    assert_eq!(report.workers[0].errors() + report.workers[0].write.operations, 256);
    // Without being listed it is no error that fio goes on after: only those of the medium are.
    std::fs::remove_file(small.0.path().join("i")).expect("made");
    let (status, report, words) = run(job);
    assert_eq!(status, Some(3), "{words}");
    let report: pagelab_load::JobReport = serde_json::from_str(&report).expect("a whole report");
    let worker = &report.workers[0];
    assert_eq!((worker.error(), worker.total_errors(), worker.first_error), (libc::ENOSPC, 1, Some(libc::ENOSPC)));
}

/// A loop device whose file is shorter than the device: the kernel answers reads behind its end with EIO.
struct BadDevice {
    path: String,
    file: tempfile::NamedTempFile,
}

impl BadDevice {
    fn new(device_bytes: u64, good_bytes: u64) -> Self {
        let file = tempfile::NamedTempFile::new().expect("file");
        file.as_file().set_len(device_bytes).expect("length");
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().expect("losetup");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "a loop device needs root: run the tests as root: {words}");
        let device = Self { path: String::from_utf8_lossy(&output.stdout).trim().to_owned(), file };
        device.file.as_file().set_len(good_bytes).expect("length");
        device
    }
}

impl Drop for BadDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

#[test]
fn an_input_error_ends_the_job_with_its_place() {
    let device = BadDevice::new(256 << 10, 16 << 10);
    // Direct reads: read-ahead would meet the bad place before its time.
    let job = |more: &str| {
        let mut words = vec!["--name=j".to_owned(), format!("--filename={}", device.path)];
        words.extend(
            "--rw=read --bs=4k --size=64k --direct=1".split(' ').chain(more.split_whitespace()).map(str::to_owned),
        );
        try_run(&words)
    };
    for engine in ["psync", "sync", "vsync", "pvsync", "pvsync2"] {
        let output = job(&format!("--ioengine={engine}"));
        assert_eq!(output.status.code(), Some(3), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
        let report: pagelab_load::JobReport = serde_json::from_slice(&output.stdout).expect("a whole report");
        let failure = report.workers[0].failure.as_ref().expect("it failed");
        assert_eq!(failure.errno, libc::EIO, "{engine}: {}", failure.message);
        assert!(failure.message.contains("read of 4096 bytes at offset 16384"), "{engine}: {}", failure.message);
        assert_eq!(report.workers[0].read.operations, 4, "{engine}");
    }
    let output = job("--continue_on_error=io");
    let report: pagelab_load::JobReport = serde_json::from_slice(&output.stdout).expect("a whole report");
    let worker = &report.workers[0];
    assert_eq!((worker.read.operations, worker.errors(), worker.first_error), (4, 12, Some(libc::EIO)));
}
