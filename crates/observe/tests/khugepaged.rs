//! Collapses by MADV_COLLAPSE on the real kernel: each is reported once, with its success. Needs root.
//!
//! This test's own process is what is recorded: the memory is its own, and nobody else collapses it.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use pagelab_observe::bpf::{Observer, ObserverOptions};
use pagelab_observe::khugepaged::{self, KhugepagedProbe};

const HUGE: usize = 2 << 20;
const PIECES: usize = 3;
/// Newer than some C libraries.
const MADV_COLLAPSE: libc::c_int = 25;

/// The kernel leaves hits of a tracepoint out while other programs come to it or go: it runs where no other recorder does.
#[test]
#[ignore = "needs to be the only recorder; run by make test with --ignored --test-threads=1"]
fn host_a_collapse_is_told_once() {
    if !rustix::process::geteuid().is_root() {
        return assert!(Observer::load(ObserverOptions::default()).is_err(), "without root the load is refused");
    }
    let kernel = match khugepaged::check() {
        Ok(kernel) => kernel,
        Err(reason) => return assert!(reason.contains("TRANSPARENT_HUGEPAGE"), "{reason}"),
    };
    let mut observer = Observer::load(ObserverOptions::default()).expect("root and BTF are there");
    // SAFETY: pidfd_open of this thread's process returns a fresh descriptor or -1. The test runs in a thread of its own, which
    // is no member: its process's first thread is.
    let pidfd = unsafe { OwnedFd::from_raw_fd(libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) as i32) };
    observer.adopt_running(pidfd.as_fd()).expect("this process lives");
    let mut probe =
        KhugepagedProbe::attach(&kernel, observer.task_states(), HUGE as u64).expect("the tracepoints are there");
    // SAFETY: a new mapping where the kernel likes it; nothing else refers to it.
    let at = unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            (PIECES + 1) * HUGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(at, libc::MAP_FAILED);
        let at = at.cast::<u8>();
        at.add(at.align_offset(HUGE))
    };
    // SAFETY: the pieces lie in the mapping, which has room for them behind the first aligned place; half of each is touched.
    let called = unsafe {
        // Base pages first, also where the host gives huge ones to all memory.
        assert_eq!(libc::madvise(at.cast(), PIECES * HUGE, libc::MADV_NOHUGEPAGE), 0);
        for page in (0..PIECES * HUGE).step_by(2 * 4096) {
            at.add(page).write_volatile(1);
        }
        assert_eq!(libc::madvise(at.cast(), PIECES * HUGE, libc::MADV_HUGEPAGE), 0);
        libc::madvise(at.cast(), PIECES * HUGE, MADV_COLLAPSE)
    };
    assert_eq!(called, 0, "MADV_COLLAPSE: {}", std::io::Error::last_os_error());
    let mut called = Vec::new();
    probe.drain(|row| {
        if row.by_whom == "madvise" {
            let words = [row.op, row.result, row.kind].map(str::to_owned);
            called.push((words, row.pages, row.addr, row.filled));
        }
    });
    probe.detach();
    assert_eq!(probe.counts().lost, 0);
    let at = |i: usize| Some((at as usize + i * HUGE) as u64);
    let wanted: Vec<_> = (0..PIECES)
        .map(|i| (["collapse", "SUCCEED", "anon"].map(str::to_owned), Some(512), at(i), Some(256)))
        .collect();
    assert_eq!(called, wanted, "each once");
}
