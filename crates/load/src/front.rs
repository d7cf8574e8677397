//! The load process seen from its caller, where nothing is recorded: start it, pass signals on, take its report.
//!
//! Nothing is written anywhere but where the job and its reports go: the workload and the report travel through pipes.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

use pagelab_fiojob::Workload;
use pagelab_host::signals::handle;

use crate::control::Control;
use crate::error::LoadError;
use crate::process;
use crate::report::JobReport;
use crate::signals::HANDLED;
use crate::worker;

/// fio's exit status for a run that a signal cut short.
pub const INTERRUPTED: u8 = 128;

/// How a load process ended.
#[derive(Debug)]
pub enum Ended {
    /// With a report; jobs may have failed.
    Report(Box<JobReport>),
    /// Without one, and with this exit status: nothing ran, and it has said why.
    Refused(u8),
}

/// What becomes of the intervals that workers report every second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intervals {
    /// They are put into the report.
    Keep,
    /// Nobody looks at them.
    Drop,
}

/// The load process; 0 while there is none.
static LOAD: AtomicI32 = AtomicI32::new(0);

/// A signal that came before there was a load process; 0 for none.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Runs a workload in a process of its own: `program`, which takes the hidden command `__load`. SIGINT, SIGTERM and SIGUSR1 to this
/// process are passed on to it from now on, and end it no more.
///
/// # Errors
/// The process cannot be started, or ends without a report.
pub fn run(program: &Path, workload: &Workload, control: &Control, intervals: Intervals) -> Result<Ended, LoadError> {
    let system = |what: &'static str| move |error: std::io::Error| LoadError::system(what, error);
    for signal in HANDLED {
        handle(signal, pass_on).map_err(system("handling signals"))?;
    }
    let document = serde_json::to_vec(workload).map_err(|error| LoadError::Protocol(error.to_string()))?;
    let (reader, writer) = std::io::pipe().map_err(system("making a pipe"))?;
    let report_fd = writer.as_raw_fd();
    let mut command = Command::new(program);
    command.arg("__load").args(process::arguments(control, report_fd)).stdin(Stdio::piped());
    // SAFETY: the closure runs between fork and exec, and makes two system calls.
    unsafe {
        command.pre_exec(move || {
            // Signals wait until the new program has handlers for them.
            crate::signals::hold();
            // The descriptor keeps its number; here, in the child alone, it must survive exec.
            rustix::io::fcntl_setfd(std::os::fd::BorrowedFd::borrow_raw(report_fd), rustix::io::FdFlags::empty())?;
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(system("starting the load process"))?;
    drop(writer);
    LOAD.store(i32::try_from(child.id()).unwrap_or(0), Ordering::Release);
    match EARLY.swap(0, Ordering::AcqRel) {
        0 => {}
        signal => send(signal),
    }
    if let Some(mut stdin) = child.stdin.take() {
        // A child that ends early closes the pipe; its exit status tells why.
        let _ = stdin.write_all(&document);
    }
    let report = match intervals {
        Intervals::Keep => worker::read_report(reader),
        Intervals::Drop => worker::read_report_alone(reader),
    };
    let status = child.wait().map_err(system("waiting for the load process"))?;
    LOAD.store(0, Ordering::Release);
    match status.code() {
        // Jobs that failed are in the report.
        Some(0 | 1) => report.map(|report| Ended::Report(Box::new(report))),
        Some(code) => Ok(Ended::Refused(u8::try_from(code).unwrap_or(3))),
        None => Err(LoadError::Protocol("the load process was killed".to_owned())),
    }
}

/// Sends a signal to the load process.
fn send(signal: libc::c_int) {
    let pid = LOAD.load(Ordering::Acquire);
    if pid > 0 {
        // SAFETY: kill(2) touches no memory; the process is our child and not reaped while its number stands here.
        unsafe { libc::kill(pid, signal) };
    }
}

/// A terminal's signal reaches the load process by itself, too, which takes the second one for an echo of the first.
extern "C" fn pass_on(signal: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: errno belongs to the interrupted code and is put back at the end.
    let errno = unsafe { *libc::__errno_location() };
    if LOAD.load(Ordering::Acquire) == 0 {
        EARLY.store(signal, Ordering::Release);
    } else {
        send(signal);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
