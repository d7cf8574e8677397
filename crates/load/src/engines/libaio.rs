//! `ioengine=libaio`: Linux native asynchronous I/O, `io_submit(2)` and `io_getevents(2)`.
//!
//! The kernel's interface is used as it is, without the library that gave the engine its name. Buffered operations are complete
//! when `io_submit(2)` returns: only with direct=1 is anything under way.

use std::ptr::null_mut;

use pagelab_fiojob::{Caps, Direction, engines as language};

use super::Fault;
use super::queue::{Completion, Queue, QueueSetup, Submission};
use crate::error::LoadError;

/// `struct iocb` of `linux/aio_abi.h`, as little-endian machines have it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    reqprio: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

#[cfg(target_endian = "big")]
compile_error!("struct iocb has its fields key and rw_flags the other way round on big-endian machines");

const PREAD: u16 = 0;
const PWRITE: u16 = 1;

/// A context of the kernel's.
pub(crate) struct LibAio {
    context: usize,
    /// One for each slot.
    iocbs: Vec<Iocb>,
    /// Those pushed and not handed over, in order: pointers into `iocbs`.
    pushed: Vec<*mut Iocb>,
    events: Vec<Event>,
    rw_flags: i32,
}

// SAFETY: the pointers lead into the vector next to them, which never changes its length; the context belongs to the
// process.
unsafe impl Send for LibAio {}

impl Queue for LibAio {
    const CAPS: Caps = language::LIBAIO.caps;

    fn open(setup: &QueueSetup<'_>) -> Result<Self, LoadError> {
        let mut context = 0_usize;
        // SAFETY: the kernel writes the context's handle there and nothing else.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, setup.depth, &raw mut context) };
        if made < 0 {
            return Err(refused(setup, &std::io::Error::last_os_error()));
        }
        let depth = setup.depth as usize;
        Ok(Self {
            context,
            iocbs: vec![Iocb::default(); depth],
            pushed: Vec::with_capacity(depth),
            events: vec![Event::default(); depth],
            rw_flags: if setup.options.nowait { libc::RWF_NOWAIT } else { 0 },
        })
    }

    #[inline(always)]
    fn push(&mut self, submission: Submission) -> Result<(), Fault> {
        let operation = submission.operation;
        let iocb = self.iocbs.get_mut(submission.slot as usize).ok_or(Fault::Errno(libc::EINVAL))?;
        *iocb = Iocb {
            data: u64::from(submission.slot),
            rw_flags: self.rw_flags,
            opcode: if operation.direction == Direction::Read { PREAD } else { PWRITE },
            fd: submission.fd.cast_unsigned(),
            buffer: submission.memory as u64,
            bytes: u64::from(operation.bytes),
            offset: operation.offset.cast_signed(),
            ..Iocb::default()
        };
        self.pushed.push(iocb);
        Ok(())
    }

    fn submit(&mut self) -> Result<u32, Fault> {
        if self.pushed.is_empty() {
            return Ok(0);
        }
        // SAFETY: the pointers lead to iocbs that live as long as the context, and whose buffers belong to slots that nobody touches
        // until they come back.
        let taken = unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, self.pushed.len() as libc::c_long, self.pushed.as_ptr())
        };
        match taken {
            taken if taken >= 0 => {
                self.pushed.drain(..(taken as usize).min(self.pushed.len()));
                Ok(taken as u32)
            }
            _ => match last_errno() {
                // No room in the context, or a signal: later.
                libc::EAGAIN | libc::EINTR => Ok(0),
                errno => {
                    self.pushed.remove(0);
                    Err(Fault::Errno(errno))
                }
            },
        }
    }

    fn reap(&mut self, least: u32, most: u32, completed: &mut Vec<Completion>) -> Result<(), Fault> {
        let most = (most as usize).min(self.events.len());
        // SAFETY: there is room for `most` events; no time limit is given.
        let got = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                libc::c_long::from(least),
                most as libc::c_long,
                self.events.as_mut_ptr(),
                null_mut::<libc::timespec>(),
            )
        };
        if got < 0 {
            return Err(Fault::Errno(last_errno()));
        }
        completed.extend(self.events.iter().take(got as usize).map(|event| Completion {
            slot: event.data as u32,
            result: event.result.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
        }));
        Ok(())
    }
}

impl Drop for LibAio {
    fn drop(&mut self) {
        // SAFETY: the context was made by `open` and is used by nobody else; the kernel waits for operations in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn refused(setup: &QueueSetup<'_>, error: &std::io::Error) -> LoadError {
    let what = format!("job '{}': making a queue of {} operations", setup.job, setup.depth);
    let (used, most) = (limit("/proc/sys/fs/aio-nr"), limit("/proc/sys/fs/aio-max-nr"));
    match error.raw_os_error() {
        Some(libc::EAGAIN) => {
            let needed = used.unwrap_or(0).saturating_add(u64::from(setup.depth));
            LoadError::Host {
                what,
                found: match (used, most) {
                    (Some(used), Some(most)) => format!("fs.aio-max-nr of {most}, of which {used} are in use"),
                    _ => "no room left (fs.aio-max-nr)".to_owned(),
                },
                needed: format!("fs.aio-max-nr of at least {needed}"),
                // The kernel counts some for each CPU on top.
                command: format!("sysctl -w fs.aio-max-nr={}, or a smaller iodepth=", (needed * 2).max(65_536)),
            }
        }
        Some(libc::ENOSYS) => LoadError::Host {
            what,
            found: "a kernel without CONFIG_AIO".to_owned(),
            needed: "io_setup(2)".to_owned(),
            command: "ioengine=io_uring, or another kernel".to_owned(),
        },
        _ => LoadError::System { what, source: std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0)) },
    }
}

fn limit(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
