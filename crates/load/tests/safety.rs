//! Never destroy data, never leave half a job behind.

mod common;

use std::path::Path;

use common::{refused, run, totals, try_run};

fn arguments(path: &Path, options: &str) -> Vec<String> {
    ["--name=j".to_owned(), format!("--filename={}", path.display())]
        .into_iter()
        .chain(options.split_whitespace().map(str::to_owned))
        .collect()
}

#[test]
fn other_peoples_files_are_not_written() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("precious");
    for (contents, options) in [
        ("precious", "--rw=write --size=64k"),
        ("precious", "--rw=randrw --size=64k --ioengine=mmap"),
        ("", "--rw=write --size=64k --overwrite=1"),
        ("precious", "--rw=read --size=64k"),
    ] {
        std::fs::write(&path, contents).expect("write");
        let words = refused(&arguments(&path, options), 2);
        assert!(words.contains("--allow-write") && words.contains("precious"), "{words}");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), contents, "untouched by {options}");
    }
    let mut allowed = arguments(&path, "--rw=write --size=64k");
    allowed.push(format!("--allow-write={}", path.display()));
    assert_eq!(totals(&run(&allowed))[3], 65536);
    std::fs::write(directory.path().join("long"), vec![1; 65536]).expect("write");
    assert_eq!(totals(&run(&arguments(&directory.path().join("long"), "--rw=read")))[1], 65536, "reading is free");
}

#[test]
fn own_files_are_written_again_and_unlinked_only_if_own() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("own");
    run(&arguments(&path, "--rw=write --size=64k"));
    run(&arguments(&path, "--rw=randwrite --size=128k"));
    assert_eq!(std::fs::metadata(&path).expect("there").len(), 128 << 10);
    run(&arguments(&path, "--rw=read --unlink=1"));
    assert!(!path.exists());
    std::fs::write(&path, vec![1; 65536]).expect("write");
    let report = run(&arguments(&path, "--rw=read --unlink=1"));
    assert!(
        path.exists() && report.warnings.iter().any(|w| w.contains("pagelab did not create it")),
        "{:?}",
        report.warnings
    );
}

#[test]
fn readonly_means_that() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("new");
    for options in ["--rw=write --size=64k", "--rw=read --size=64k"] {
        let mut all = arguments(&path, options);
        all.push("--readonly".to_owned());
        assert!(refused(&all, 2).contains("--readonly"));
        assert!(!path.exists());
    }
    std::fs::write(&path, vec![1; 65536]).expect("write");
    let mut all = arguments(&path, "--rw=read");
    all.push("--readonly".to_owned());
    assert_eq!(totals(&run(&all))[0], 16);
}

#[test]
fn a_job_that_cannot_start_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("tempdir");
    let (first, second) = (directory.path().join("first"), directory.path().join("no/such/place"));
    // The second job's directory is missing: the first job's file is not made.
    let mut all = arguments(&first, "--rw=write --size=64k");
    all.extend(arguments(&second, "--rw=write --size=64k"));
    let words = refused(&all, 2);
    assert!(words.contains("mkdir -p"), "{words}");
    assert!(!first.exists());
    // A worker cannot get ready (no such pool has so many pages): the file made for the other one goes again.
    let mut all = arguments(&first, "--rw=write --size=64k");
    all.extend(["--name=k", "--ioengine=anon", "--size=1t", "--bs=2m", "--hugetlb=2m"].map(str::to_owned));
    refused(&all, 3);
    assert!(!first.exists());
}

#[test]
fn a_full_file_system_is_said_and_cleaned_up() {
    let directory = tempfile::tempdir().expect("tempdir");
    // More than any file system of a test machine holds, less than a file may have.
    let path = directory.path().join("huge");
    let output = try_run(&arguments(&path, "--rw=write --size=4p --number_ios=1"));
    if output.status.success() {
        // The file system cannot allocate ahead, so nothing was asked of it; ours can.
        return;
    }
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(words.contains("allocating space for"), "{words}");
    assert!(!path.exists());
}

#[test]
fn devices_need_to_be_named_and_empty() {
    let words = refused(&arguments(Path::new("/dev/zero"), "--rw=write --size=64k"), 2);
    assert!(words.contains("neither a regular file nor a block device"), "{words}");
}
