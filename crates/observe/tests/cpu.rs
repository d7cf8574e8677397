//! x
use pagelab_observe::bpf::{Observer, ObserverOptions};
use pagelab_observe::cpu::{ProfileOptions, Profiler};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::Command;
#[test]
fn smoke() {
    let mut child = Command::new("sh").args(["-c", "i=0; while :; do i=$((i+1)); done"]).spawn().unwrap();
    let pidfd = unsafe { OwnedFd::from_raw_fd(libc::syscall(libc::SYS_pidfd_open, child.id(), 0) as i32) };
    let mut observer = Observer::load(ObserverOptions::default()).unwrap();
    observer.adopt_running(pidfd.as_fd()).unwrap();
    let mut p = Profiler::open(&ProfileOptions::default(), observer.task_states()).unwrap();
    eprintln!("event {}", p.event());
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut n = 0;
    p.drain(u64::MAX, |cpu, s| {
        n += 1;
        if n < 20 || s.kernel.len() > 0 {
            eprintln!(
                "{cpu} {} p{} t{} mm{:?} k{} u{} copy{} cut{} {:x?}",
                s.ts,
                s.period,
                s.task_id,
                s.mm_id,
                s.kernel.len() / 8,
                s.user.len() / 8,
                s.copy.len(),
                s.copy_cut,
                s.regs
            );
        }
    });
    eprintln!("n {n} {:?} {:?}", p.rings().counts(0), p.rings().counts(1));
    child.kill().unwrap();
    child.wait().unwrap();
}
