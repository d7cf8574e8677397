//! `ioengine=io_uring`: operations through rings shared with the kernel.
//!
//! What the kernel is asked for beyond the plain ring is tried and left out where it is refused: completions that wait until they
//! are asked for (`IORING_SETUP_DEFER_TASKRUN`, Linux 6.1), no interrupts for them (`IORING_SETUP_COOP_TASKRUN`, 5.19). What the job
//! asks for (`fixedbufs`, `registerfiles`, `sqthread_poll`, `hipri`) is an error where it is refused.
//!
//! Buffered operations on cached data are complete when the call that submits them returns, on file systems that can read without
//! waiting; on others (tmpfs) the kernel hands each to a thread of its own.

use std::os::fd::RawFd;

use io_uring::squeue::{self, Flags};
use io_uring::{IoUring, opcode, types};
use pagelab_fiojob::{Caps, Direction, JobOptions, engines as language};

use super::DONTCACHE;
use super::queue::{self, Completion, Queue, QueueSetup, Submission};
use crate::error::LoadError;
use crate::fault::Fault;

/// A vector's element before its operation is pushed.
const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Milliseconds after which the kernel's thread sleeps if nothing comes (`sqthread_poll`).
const IDLE_MS: u32 = 1000;

/// The rings, and how operations are put into them.
pub(crate) struct Uring {
    ring: IoUring,
    /// Pushed and not handed over.
    pushed: u32,
    fixed_buffers: bool,
    /// A kernel thread polls the submission queue.
    polled: bool,
    /// The descriptor registered for each file, if files are.
    files: Option<Vec<Option<RawFd>>>,
    /// Vectors of one element each, where operations are to be vectored.
    vectors: Option<Vec<libc::iovec>>,
    rw_flags: i32,
    /// One operation in this many goes to a thread of the kernel's; 0 none.
    force_async: u64,
    until_async: u64,
}

// SAFETY: the vectors point into the worker's memory, which lives as long as the ring; they are read by the kernel alone.
unsafe impl Send for Uring {}

impl Queue for Uring {
    const CAPS: Caps = language::IO_URING.caps;

    fn open(setup: &QueueSetup<'_>) -> Result<Self, LoadError> {
        let o = setup.options;
        let ring = make_ring(setup)?;
        if o.fixedbufs {
            register_buffers(&ring, setup)?;
        }
        let files = o.registerfiles.then(|| vec![None; setup.files]);
        if files.is_some() {
            let none = vec![-1; setup.files];
            ring.submitter().register_files(&none).map_err(|error| {
                LoadError::system(format!("job '{}': registering {} files", setup.job, setup.files), error)
            })?;
        }
        let mut rw_flags = if o.nowait { libc::RWF_NOWAIT } else { 0 };
        if o.uncached {
            rw_flags |= DONTCACHE.cast_signed();
        }
        Ok(Self {
            ring,
            pushed: 0,
            fixed_buffers: o.fixedbufs,
            polled: o.sqthread_poll,
            files,
            vectors: (!o.nonvectored && !o.fixedbufs).then(|| vec![NOTHING; setup.depth as usize]),
            rw_flags,
            force_async: o.force_async,
            until_async: o.force_async,
        })
    }

    #[inline(always)]
    fn push(&mut self, submission: Submission) -> Result<(), Fault> {
        let registered = self.registered(submission.file, submission.fd)?;
        let mut entry = self.entry(registered, submission)?;
        if self.force_async > 0 {
            self.until_async -= 1;
            if self.until_async == 0 {
                self.until_async = self.force_async;
                entry = entry.flags(Flags::ASYNC);
            }
        }
        let entry = entry.user_data(u64::from(submission.slot));
        // SAFETY: the memory belongs to a slot that nobody touches until its completion was taken; the descriptor stays open as long,
        // because files are closed only when nothing is under way.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.wait_for_space()?;
        }
        self.pushed += 1;
        Ok(())
    }

    fn submit(&mut self) -> Result<u32, Fault> {
        if self.pushed == 0 {
            return Ok(0);
        }
        match self.ring.submit() {
            Ok(taken) => {
                // The kernel's thread may have taken some before it was woken; what it finds later is its own business.
                let taken = if self.polled { self.pushed } else { (taken as u32).min(self.pushed) };
                self.pushed -= taken;
                Ok(taken)
            }
            // Too many completions wait to be taken, or a signal came: later.
            Err(error) => match error.raw_os_error().unwrap_or(libc::EIO) {
                libc::EBUSY | libc::EAGAIN | libc::EINTR => Ok(0),
                errno => Err(Fault::Errno(errno)),
            },
        }
    }

    fn reap(&mut self, least: u32, most: u32, completed: &mut Vec<Completion>) -> Result<(), Fault> {
        let mut taken = self.take(most, completed);
        while taken < least {
            // What is pushed stays pushed: whoever waits has submitted before.
            self.ring
                .submit_and_wait((least - taken) as usize)
                .map_err(|error| Fault::Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
            taken += self.take(most - taken, completed);
        }
        Ok(())
    }

    fn forget(&mut self, file: usize) {
        let known = self.files.as_mut().and_then(|files| files.get_mut(file)).and_then(Option::take);
        if known.is_some() {
            // A registered file stays open behind the worker's back: it is taken off the list when the worker closes it. Failing to
            // would keep it open until the ring goes, which is soon.
            let _ = self.ring.submitter().register_files_update(file as u32, &[-1]);
        }
    }

    fn explain(options: &JobOptions, fault: Fault) -> Option<&'static str> {
        match fault {
            Fault::Errno(libc::EOPNOTSUPP) if options.hipri || options.nowait || options.uncached => Some(
                "kernel, file system or device lacks what hipri=, nowait= or uncached= asks for: leave it out (hipri= needs direct=1 and a device with queues for polling)",
            ),
            _ => queue::explain_commonly(options, fault),
        }
    }
}

impl Uring {
    /// Waits until the kernel's thread gives entries back. It does so after a batch (`io_commit_sqring` in `io_submit_sqes`), by when the
    /// batch's completions may have been seen already and replaced by new operations. Without that thread the entries are back when the
    /// call that submits them returns, and there is always room for the depth.
    #[cold]
    fn wait_for_space(&self) -> Result<(), Fault> {
        if !self.polled {
            return Err(Fault::Errno(libc::EBUSY));
        }
        let submitter = self.ring.submitter();
        // The pushing side may not have woken a sleeping thread.
        let woken = submitter.submit().and_then(|_| submitter.squeue_wait());
        match woken.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)) {
            Ok(_) | Err(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
            Err(errno) => Err(Fault::Errno(errno)),
        }
    }

    /// The place of a file among the registered ones; it is put there at its first operation.
    #[inline(always)]
    fn registered(&mut self, file: usize, fd: RawFd) -> Result<Option<u32>, Fault> {
        let Some(files) = &mut self.files else { return Ok(None) };
        let slot = files.get_mut(file).ok_or(Fault::Errno(libc::EINVAL))?;
        if *slot != Some(fd) {
            self.ring
                .submitter()
                .register_files_update(file as u32, &[fd])
                .map_err(|error| Fault::Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
            *slot = Some(fd);
        }
        Ok(Some(file as u32))
    }

    /// The kernel's form of an operation, on a registered file or on a descriptor.
    #[inline(always)]
    fn entry(&mut self, registered: Option<u32>, submission: Submission) -> Result<squeue::Entry, Fault> {
        let Submission { slot, operation, memory, fd, .. } = submission;
        let (bytes, offset, flags) = (operation.bytes, operation.offset, self.rw_flags);
        // The crate's trait for both kinds of targets has no public name.
        macro_rules! build {
            ($code:ident $(, $argument:expr)*) => {
                match registered {
                    Some(index) => opcode::$code::new(types::Fixed(index) $(, $argument)*).offset(offset).rw_flags(flags).build(),
                    None => opcode::$code::new(types::Fd(fd) $(, $argument)*).offset(offset).rw_flags(flags).build(),
                }
            };
        }
        let reads = operation.direction == Direction::Read;
        if self.fixed_buffers {
            let index = slot as u16;
            return Ok(if reads {
                build!(ReadFixed, memory, bytes, index)
            } else {
                build!(WriteFixed, memory, bytes, index)
            });
        }
        if let Some(vectors) = &mut self.vectors {
            let vector = vectors.get_mut(slot as usize).ok_or(Fault::Errno(libc::EINVAL))?;
            (vector.iov_base, vector.iov_len) = (memory.cast(), bytes as usize);
            let vector: *const libc::iovec = vector;
            return Ok(if reads { build!(Readv, vector, 1) } else { build!(Writev, vector, 1) });
        }
        Ok(if reads { build!(Read, memory, bytes) } else { build!(Write, memory, bytes) })
    }

    /// Takes completions that are there.
    #[inline(always)]
    fn take(&mut self, most: u32, completed: &mut Vec<Completion>) -> u32 {
        let mut taken = 0;
        let mut queue = self.ring.completion();
        while taken < most {
            let Some(entry) = queue.next() else { break };
            completed.push(Completion { slot: entry.user_data() as u32, result: entry.result() });
            taken += 1;
        }
        taken
    }
}

/// Makes the rings, with as much as the kernel grants of what costs nothing.
fn make_ring(setup: &QueueSetup<'_>) -> Result<IoUring, LoadError> {
    let o = setup.options;
    let build = |deferred: bool, cooperative: bool| {
        let mut builder = IoUring::builder();
        if o.sqthread_poll {
            builder.setup_sqpoll(IDLE_MS);
            if let Some(cpu) = o.sqthread_poll_cpu {
                builder.setup_sqpoll_cpu(u32::try_from(cpu).unwrap_or(u32::MAX));
            }
        }
        if o.hipri {
            builder.setup_iopoll();
        }
        if deferred {
            builder.setup_single_issuer().setup_defer_taskrun();
        } else if cooperative {
            builder.setup_coop_taskrun();
        }
        builder.build(setup.depth)
    };
    // The kernel's thread takes part in neither.
    let tries: &[(bool, bool)] =
        if o.sqthread_poll { &[(false, false)] } else { &[(true, false), (false, true), (false, false)] };
    let mut last = None;
    for (deferred, cooperative) in tries {
        match build(*deferred, *cooperative) {
            Ok(ring) => return Ok(ring),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = Some(error),
            Err(error) => return Err(refused(setup, &error)),
        }
    }
    Err(refused(setup, &last.unwrap_or_else(|| std::io::Error::from_raw_os_error(libc::EINVAL))))
}

fn register_buffers(ring: &IoUring, setup: &QueueSetup<'_>) -> Result<(), LoadError> {
    let vectors: Vec<libc::iovec> = (0..setup.depth)
        .map(|slot| libc::iovec {
            iov_base: setup.memory.wrapping_add(slot as usize * setup.slot_bytes).cast(),
            iov_len: setup.slot_bytes,
        })
        .collect();
    let total = setup.slot_bytes as u64 * u64::from(setup.depth);
    // SAFETY: the memory is the worker's and outlives the ring.
    unsafe { ring.submitter().register_buffers(&vectors) }.map_err(|error| {
        let what = format!(
            "job '{}': registering {} buffers of {} bytes (fixedbufs)",
            setup.job, setup.depth, setup.slot_bytes
        );
        if error.raw_os_error() != Some(libc::ENOMEM) {
            return LoadError::system(what, error);
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        LoadError::Host {
            what,
            found: limit.map_or("not enough memory".to_owned(), |bytes| {
                format!("a limit of {bytes} bytes of locked memory (RLIMIT_MEMLOCK) without CAP_IPC_LOCK")
            }),
            needed: format!("{total} bytes for each worker of this user together"),
            command: format!("ulimit -l {}, or fixedbufs=0", total.div_ceil(1024).next_power_of_two()),
        }
    })
}

fn refused(setup: &QueueSetup<'_>, error: &std::io::Error) -> LoadError {
    let what = format!("job '{}': making rings for {} operations", setup.job, setup.depth);
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
    let disabled = disabled.as_deref().map(str::trim);
    match error.raw_os_error() {
        Some(libc::EPERM) if matches!(disabled, Some("1" | "2")) => LoadError::Host {
            what,
            found: format!("kernel.io_uring_disabled={}", disabled.unwrap_or_default()),
            needed: "0, or 1 and membership in the group kernel.io_uring_group".to_owned(),
            command: "sysctl -w kernel.io_uring_disabled=0, or ioengine=libaio".to_owned(),
        },
        Some(libc::EPERM) => LoadError::Host {
            what,
            found: "io_uring_setup(2) refused (EPERM)".to_owned(),
            needed: "a seccomp filter or security module that lets it pass".to_owned(),
            command: "run outside the container, or ioengine=libaio".to_owned(),
        },
        Some(libc::ENOSYS) => LoadError::Host {
            what,
            found: "a kernel without io_uring".to_owned(),
            needed: "Linux 5.6 with CONFIG_IO_URING".to_owned(),
            command: "ioengine=libaio, or another kernel".to_owned(),
        },
        Some(libc::ENOMEM) => LoadError::Host {
            what,
            found: "no memory for them (before Linux 5.12 they count as locked memory)".to_owned(),
            needed: "a higher RLIMIT_MEMLOCK, or fewer operations under way".to_owned(),
            command: "ulimit -l unlimited, or a smaller iodepth=".to_owned(),
        },
        Some(libc::EINVAL) if setup.options.sqthread_poll_cpu.is_some() => LoadError::Host {
            what,
            found: "sqthread_poll_cpu= or another of the ring's options refused (EINVAL)".to_owned(),
            needed: "a processor that is online and in this process's set".to_owned(),
            command: "leave sqthread_poll_cpu= out".to_owned(),
        },
        _ => LoadError::System { what, source: std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0)) },
    }
}
