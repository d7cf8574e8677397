//! States of writes that ended early: saved by a signal, loaded by a job that verifies, exchanged with fio.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{children, fio_program, pagelab};
use crate::{run_in, try_in, verified};

const STATE: &str = "local-j-0-verify.state";

/// Starts a slow job, ends it by SIGINT when some blocks are written, and waits for it; gives how many it wrote.
fn interrupted(place: &Path, words: &str) -> u64 {
    let front = pagelab()
        .current_dir(place)
        .args(["--output-format=report", "--name=j", "--thinktime=5ms"])
        .args(words.split_whitespace())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    std::thread::sleep(Duration::from_millis(400));
    let load = children(front.id()).first().copied().expect("the load process");
    assert!(Command::new("kill").args(["-INT", &load.to_string()]).status().expect("kill").success());
    let output = front.wait_with_output().expect("wait");
    let report: pagelab_load::JobReport = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report.interrupted_by, Some(2));
    report.workers[0].write.operations
}

#[test]
fn an_interrupted_job_is_verified_as_far_as_it_came() {
    for (rw, more) in [
        ("write", ""),
        ("randwrite", ""),
        ("randwrite", "--bsrange=1k-4k"),
        ("randrw", "--nrfiles=2"),
        ("write", "--ioengine=mmap"),
    ] {
        let place = tempfile::tempdir().expect("tempdir");
        let job =
            format!("--filename_format=f.$filenum --rw={rw} --bs=4k --size=4m --overwrite=1 --verify=crc32c {more}");
        let writes = interrupted(place.path(), &job);
        assert!(writes > 0, "{job}");
        assert!(place.path().join(STATE).exists(), "{job}");
        assert_eq!(verified(place.path(), &format!("{job} --verify_only=1 --verify_state_load=1")), writes, "{job}");
        // Without the state everything is read, and unwritten parts are no blocks.
        let (status, report) = run_in(place.path(), &format!("{job} --verify_only=1"));
        assert!(status == 1 && report.workers[0].mismatches() > 0, "{job}");
        // Another seed goes another way.
        let output = try_in(place.path(), &format!("{job} --verify_only=1 --verify_state_load=1 --randseed=5"));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains("randseed"), "{told}");
        // A job that writes all leaves no state behind that would let a later one verify less.
        verified(place.path(), &job);
        assert!(!place.path().join(STATE).exists(), "{job}");
    }
}

#[test]
fn fio_goes_as_far_as_a_state_of_pagelab_says() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = "--filename=f --rw=write --bs=4k --size=4m --overwrite=1 --verify=crc32c";
    let writes = interrupted(place.path(), job);
    let fio = |more: &str| {
        let output = fio_program()
            .current_dir(place.path())
            .args(["--output-format=json", "--name=j"])
            .args(job.replace("=write", "=read").split(' '))
            .args(more.split_whitespace())
            .output()
            .expect("fio is installed");
        (
            output.status.success(),
            crate::common::document(&output)["jobs"][0]["read"]["total_ios"].as_u64().expect("a number"),
        )
    };
    assert_eq!(fio("--verify_state_load=1"), (true, writes));
    assert!(!fio("").0, "without the state it meets what was not written");
}

#[test]
fn pagelab_goes_as_far_as_a_state_of_fio_says() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = "--filename=f --rw=write --bs=4k --size=1m --overwrite=1 --verify=crc32c";
    let output = fio_program()
        .current_dir(place.path())
        .arg("--name=j")
        .args(job.split(' '))
        .args(["--do_verify=0", "--number_ios=37"])
        .output()
        .expect("fio is installed");
    assert!(output.status.success());
    assert!(place.path().join(STATE).exists(), "fio 3.33 saves a state at every end");
    assert_eq!(verified(place.path(), &format!("{} --verify_state_load=1", job.replace("=write", "=read"))), 37);
    let output = try_in(place.path(), &format!("{} --verify_state_load=1", job.replace("=write", "=randread")));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains("fio saved it"), "{told}");
    std::fs::write(place.path().join(STATE), b"nonsense").expect("write");
    let output = try_in(place.path(), &format!("{} --verify_state_load=1", job.replace("=write", "=read")));
    assert_eq!(output.status.code(), Some(2), "a damaged state is refused");
}

#[test]
fn errors_leave_a_state_without_the_failed_writes() {
    let place = tempfile::tempdir().expect("tempdir");
    // The file may not grow beyond 1 MiB: a write there fails with EFBIG, or is short first.
    let limited = |more: &str| {
        let words = format!(
            "--name=j --filename=f --rw=randwrite --bs=6000 --size=2100000 --fallocate=none --verify=md5 {more}"
        );
        let script = format!(
            "ulimit -f 1024; trap '' XFSZ; exec {} --output-format=report {words}",
            env!("CARGO_BIN_EXE_pagelab-load")
        );
        let output = Command::new("sh").current_dir(place.path()).args(["-c", &script]).output().expect("runs");
        let report: pagelab_load::JobReport = serde_json::from_slice(&output.stdout).expect("a report");
        (output.status.code(), report)
    };
    let (status, report) = limited("--ignore_error=,EFBIG");
    let (writes, errors) = (report.workers[0].write.operations, report.workers[0].write.errors);
    assert!(errors > 0 && writes > 0);
    let verify = report.workers[0].verify.as_ref().expect("verifies");
    assert_eq!((status, verify.blocks, verify.mismatches), (Some(0), writes, 0), "{verify:?}");
    // To a later run, too, as far as the state tells: failed writes were no end of the pass.
    let (status, report) = limited("");
    assert_eq!((status, report.workers[0].mismatches()), (Some(3), 0), "a write that fails is no mismatch");
    assert!(place.path().join(STATE).exists());
    let writes = report.workers[0].write.operations;
    let job = "--filename=f --rw=randwrite --bs=6000 --size=2100000 --verify=md5 --verify_only=1 --verify_state_load=1";
    std::fs::File::options()
        .write(true)
        .open(place.path().join("f"))
        .and_then(|file| file.set_len(2_100_000))
        .expect("longer");
    assert_eq!(verified(place.path(), job), writes);
}
