//! `ioengine=posixaio`: POSIX asynchronous I/O, `aio_read(3)` and `aio_write(3)`.
//!
//! The C library's own: it has threads that read and write while the worker goes on, and lets those of one file follow each other. So
//! what a deep queue gains depends on the number of files, as in fio, which calls the same functions.

use pagelab_fiojob::{Caps, Direction, engines as language};

use super::queue::{Completion, Queue, QueueSetup, Submission};
use crate::error::LoadError;
use crate::fault::Fault;

/// Most requests that one wait looks at, as in fio; those beyond are looked at by the next one.
const WAITED_FOR: usize = 128;

/// The requests of a worker.
pub(crate) struct PosixAio {
    /// One for each slot. Their places never change: the library's threads write to them.
    requests: Box<[libc::aiocb]>,
    directions: Vec<Direction>,
    /// Slots pushed and not handed over, in order.
    pushed: std::collections::VecDeque<u32>,
    /// Slots handed over and not taken back.
    under_way: Vec<u32>,
}

// SAFETY: the pointers in the requests lead to the worker's buffer, which outlives the queue.
unsafe impl Send for PosixAio {}

impl PosixAio {
    fn start(&mut self, slot: u32) -> Result<(), i32> {
        let at = slot as usize;
        let (Some(request), Some(direction)) = (self.requests.get_mut(at), self.directions.get(at)) else {
            return Err(libc::EINVAL);
        };
        // SAFETY: the request and its buffer stay where they are until the request is taken back: by `reap`, or by `drop`.
        let result = unsafe {
            match direction {
                Direction::Read => libc::aio_read(request),
                _ => libc::aio_write(request),
            }
        };
        if result == 0 { Ok(()) } else { Err(last_errno()) }
    }

    /// Takes back what is done, up to `most`.
    fn take(&mut self, most: usize, completed: &mut Vec<Completion>) {
        let requests = &mut self.requests;
        self.under_way.retain(|slot| {
            let Some(request) = requests.get_mut(*slot as usize) else { return false };
            if completed.len() >= most {
                return true;
            }
            // SAFETY: the request was started and not taken back.
            let error = unsafe { libc::aio_error(request) };
            if error == libc::EINPROGRESS {
                return true;
            }
            // SAFETY: as above, and it is done: this takes it back.
            let done = unsafe { libc::aio_return(request) };
            let result = if error == 0 { i32::try_from(done).unwrap_or(i32::MAX) } else { -error };
            completed.push(Completion { slot: *slot, result });
            false
        });
    }

    /// Sleeps until one of those under way is done.
    fn wait(&self) -> Result<(), Fault> {
        let list: Vec<*const libc::aiocb> = self
            .under_way
            .iter()
            .take(WAITED_FOR)
            .filter_map(|slot| self.requests.get(*slot as usize))
            .map(std::ptr::from_ref)
            .collect();
        if list.is_empty() {
            return Ok(());
        }
        // SAFETY: the list leads to requests that were started; no time limit is given.
        let result = unsafe { libc::aio_suspend(list.as_ptr(), list.len() as libc::c_int, std::ptr::null()) };
        if result == 0 { Ok(()) } else { Err(Fault::Errno(last_errno())) }
    }
}

impl Queue for PosixAio {
    const CAPS: Caps = language::POSIXAIO.caps;
    /// As in fio, which asks for aio_fsync(3) with O_SYNC whatever the option.
    const FLUSHES_IN_PART: bool = false;

    fn open(setup: &QueueSetup<'_>) -> Result<Self, LoadError> {
        let depth = setup.depth as usize;
        // SAFETY: zeros are a request that asks for nothing: no signal (SIGEV_SIGNAL is 0, so it is set below), no priority.
        let empty = || unsafe { std::mem::zeroed::<libc::aiocb>() };
        let mut requests: Vec<libc::aiocb> = (0..depth).map(|_| empty()).collect();
        for request in &mut requests {
            request.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        }
        Ok(Self {
            requests: requests.into_boxed_slice(),
            directions: vec![Direction::Read; depth],
            pushed: std::collections::VecDeque::with_capacity(depth),
            under_way: Vec::with_capacity(depth),
        })
    }

    fn push(&mut self, submission: Submission) -> Result<(), Fault> {
        let at = submission.slot as usize;
        let (Some(request), Some(direction)) = (self.requests.get_mut(at), self.directions.get_mut(at)) else {
            return Err(Fault::Errno(libc::EINVAL));
        };
        request.aio_fildes = submission.fd;
        request.aio_buf = submission.memory.cast();
        request.aio_nbytes = submission.operation.bytes as usize;
        request.aio_offset = submission.operation.offset.cast_signed();
        *direction = submission.operation.direction;
        self.pushed.push_back(submission.slot);
        Ok(())
    }

    fn submit(&mut self) -> Result<u32, Fault> {
        let mut taken = 0;
        while let Some(slot) = self.pushed.front().copied() {
            match self.start(slot) {
                Ok(()) => {
                    self.pushed.pop_front();
                    self.under_way.push(slot);
                    taken += 1;
                }
                // No room for more: later.
                Err(libc::EAGAIN) => break,
                Err(_) if taken > 0 => break,
                Err(errno) => {
                    self.pushed.pop_front();
                    return Err(Fault::Errno(errno));
                }
            }
        }
        Ok(taken)
    }

    fn reap(&mut self, least: u32, most: u32, completed: &mut Vec<Completion>) -> Result<(), Fault> {
        loop {
            self.take(most as usize, completed);
            if completed.len() >= least as usize || self.under_way.is_empty() {
                return Ok(());
            }
            self.wait()?;
        }
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        // The library's threads write to the requests and to the buffer: nothing may go before they are done.
        let mut left = Vec::new();
        while !self.under_way.is_empty() {
            left.clear();
            self.take(usize::MAX, &mut left);
            // A signal: the list is looked at again.
            let _ = self.wait();
        }
    }
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
