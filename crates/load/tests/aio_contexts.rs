//! Contexts of libaio, counted by the kernel for the whole machine: alone in this file, so that no other test makes any meanwhile.

mod common;

use std::process::Stdio;

use common::{children, pagelab};

/// A killed worker leaves nothing: the kernel takes its rings and contexts back.
#[test]
fn killed_workers_leave_no_context() {
    let used = || -> u64 {
        std::fs::read_to_string("/proc/sys/fs/aio-nr").expect("readable").trim().parse().expect("a number")
    };
    // Contexts of the tests before this one are freed after a grace period.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let before = used();
    let place = tempfile::tempdir().expect("a directory");
    for _ in 0..5 {
        let job = "--ioengine=libaio --rw=randread --bs=4k --size=1m --iodepth=4096 --runtime=60 --time_based";
        let mut child = pagelab()
            .arg("--name=j")
            .arg(format!("--directory={}", place.path().display()))
            .args(job.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let began = std::time::Instant::now();
        while used() < before + 4096 && began.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(used() >= before + 4096, "the worker made its context");
        for worker in children(child.id()).into_iter().flat_map(children) {
            // SAFETY: a plain system call.
            unsafe { libc::kill(worker as i32, libc::SIGKILL) };
        }
        assert!(!child.wait().expect("ends").success());
    }
    // Contexts are freed after a grace period of the kernel's.
    let began = std::time::Instant::now();
    while used() > before && began.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(used(), before);
}
