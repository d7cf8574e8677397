//! Contexts of libaio, counted by the kernel for the whole machine: alone in this file, so that no other test makes any meanwhile.

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{children, pagelab};

/// Requests that a worker's context has room for, by which the kernel counts it.
const DEPTH: u64 = 4096;

fn used() -> u64 {
    std::fs::read_to_string("/proc/sys/fs/aio-nr").expect("readable").trim().parse().expect("a number")
}

/// Whether the count becomes so within half a minute: contexts are freed after a grace period of the kernel's.
fn becomes(so: impl Fn(u64) -> bool) -> bool {
    let began = Instant::now();
    while !so(used()) {
        if began.elapsed().as_secs() >= 30 {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// A killed worker leaves nothing: the kernel takes its rings and contexts back.
#[test]
fn killed_workers_leave_no_context() {
    // Contexts of programs before this one may still go away. They are small: half of a worker's tells it from them.
    let before = used();
    let place = tempfile::tempdir().expect("a directory");
    for round in 0..5 {
        let job =
            format!("--ioengine=libaio --rw=randread --bs=4k --size=1m --iodepth={DEPTH} --runtime=60 --time_based");
        let mut child = pagelab()
            .arg("--name=j")
            .arg(format!("--directory={}", place.path().display()))
            .args(job.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        assert!(becomes(|contexts| contexts > before + DEPTH / 2), "round {round}: the worker made its context");
        for worker in children(child.id()).into_iter().flat_map(children) {
            // SAFETY: a plain system call.
            unsafe { libc::kill(worker as i32, libc::SIGKILL) };
        }
        assert!(!child.wait().expect("ends").success());
        assert!(becomes(|contexts| contexts <= before), "round {round}: {} requests are left", used());
    }
}
