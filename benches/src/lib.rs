//! What the benchmarks share: programs that only fault or call, the method, clocks, and the machine they ran on.

pub mod hugetlb;
pub mod postgres;
pub mod slices;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    to_ns(clock_gettime(ClockId::Monotonic))
}

/// CPU time of this process, ns.
pub fn own_cpu_ns() -> u64 {
    to_ns(clock_gettime(ClockId::ProcessCPUTime))
}

fn to_ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The order in which the program touches its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// 4 KiB apart, upwards.
    Ascending,
    /// 4 KiB apart, downwards.
    Descending,
    /// Pages of 4 GiB in an order that looks random.
    Random,
}

/// A child process that does one thing without end, counting in shared memory how often.
#[derive(Debug)]
pub struct Endless {
    pid: i32,
    pidfd: OwnedFd,
    counter: *const AtomicU64,
    cpu_clock: libc::clockid_t,
}

/// Faults or calls between two updates of the counter.
const COUNT_EVERY: u64 = 64;

impl Endless {
    /// Starts a program that takes page faults on fresh 4 KiB pages, until the value is dropped.
    pub fn faults(order: Order) -> io::Result<Self> {
        Self::start(|counter| fault_forever(order, counter))
    }

    /// Starts a program that makes system calls of 4 KiB on a file of its own, until the value is dropped.
    pub fn calls(calls: Calls) -> io::Result<Self> {
        Self::start(|counter| {
            let error = call_forever(calls, counter);
            eprintln!("the program that makes system calls: {error}");
            std::process::exit(1)
        })
    }

    fn start(work: impl FnOnce(&AtomicU64)) -> io::Result<Self> {
        // SAFETY: a fresh shared page, used as one atomic counter by both processes.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let counter = page.cast::<AtomicU64>().cast_const();
        // SAFETY: the benchmark has one thread; the child uses nothing that others share but the counter.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            // SAFETY: the counter stays mapped in the child; the process ends with its parent.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                work(&*counter);
                libc::_exit(0)
            }
        }
        let process = rustix::process::Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process id"))?;
        let pidfd = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty())?;
        let mut cpu_clock = 0;
        // SAFETY: writes one number into a local.
        if unsafe { libc::clock_getcpuclockid(pid, &raw mut cpu_clock) } != 0 {
            return Err(io::Error::other("the child's CPU clock cannot be had"));
        }
        Ok(Self { pid, pidfd, counter, cpu_clock })
    }

    /// A descriptor of the process.
    pub fn pidfd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.pidfd)
    }

    /// Faults or calls so far, to within 64.
    pub fn done(&self) -> u64 {
        // SAFETY: the page is mapped for as long as the program runs.
        unsafe { &*self.counter }.load(Ordering::Relaxed)
    }

    /// CPU time that it has used, ns.
    pub fn cpu_ns(&self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes into a local.
        unsafe { libc::clock_gettime(self.cpu_clock, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: our own child, not yet reaped.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, &raw mut status, 0);
        }
    }
}

/// Faults without end; see [`fault_some`].
fn fault_forever(order: Order, counter: &AtomicU64) -> ! {
    loop {
        fault_some(order, COUNT_EVERY, |_| {
            counter.fetch_add(COUNT_EVERY, Ordering::Relaxed);
        });
    }
}

/// What the program that makes system calls does, 4 KiB at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// write(2), from the beginning of a file of 64 MiB to its end, again and again.
    Write,
    /// pread(2) at random in a file of 1 GiB.
    Pread,
}

impl std::str::FromStr for Calls {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "write" => Ok(Self::Write),
            "pread" => Ok(Self::Pread),
            _ => Err(format!("found {word:?}, needed write or pread")),
        }
    }
}

/// Makes calls on a file on tmpfs that has no name, until one fails.
fn call_forever(calls: Calls, counter: &AtomicU64) -> io::Error {
    use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
    let mut options = std::fs::OpenOptions::new();
    let opened = options.read(true).write(true).custom_flags(libc::O_TMPFILE).open("/dev/shm");
    let work = |mut file: std::fs::File| -> io::Result<()> {
        use std::io::{Seek as _, Write as _};
        let mut block = vec![7_u8; 4096];
        let blocks: u64 = if calls == Calls::Write { 1 << 14 } else { 1 << 18 };
        let mut state = u64::from(std::process::id());
        if calls == Calls::Pread {
            file.set_len(blocks * 4096)?;
        }
        for done in 0.. {
            if calls == Calls::Pread {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                file.read_exact_at(&mut block, (state >> 40) % blocks * 4096)?;
            } else {
                if done % blocks == 0 {
                    file.rewind()?;
                }
                file.write_all(&block)?;
            }
            if done % COUNT_EVERY == COUNT_EVERY - 1 {
                counter.fetch_add(COUNT_EVERY, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    opened.and_then(work).err().unwrap_or_else(|| io::Error::other("it ended"))
}

/// Maps fresh memory, writes once to each of many 4 KiB pages of it, unmaps it. After every `step` faults it calls
/// `told` with the number so far. Returns the number of pages written to, each of which was one fault.
pub fn fault_some(order: Order, step: u64, mut told: impl FnMut(u64)) -> u64 {
    // The generator goes on where the last batch ended.
    static POSITION: AtomicU64 = AtomicU64::new(1);
    // Random order works on 4 GiB of addresses but never holds more than a part of them.
    let bytes: usize = if order == Order::Random { 4 << 30 } else { 64 << 20 };
    let pages = bytes / 4096;
    let batch = if order == Order::Random { 16384 } else { pages };
    let mut position = POSITION.load(Ordering::Relaxed) as usize;
    // SAFETY: memory of this process's own; every write is inside the mapping.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let base = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if base == libc::MAP_FAILED {
            libc::_exit(1);
        }
        libc::madvise(base, bytes, libc::MADV_NOHUGEPAGE);
        for touched in 0..batch {
            let page = match order {
                Order::Ascending => touched,
                Order::Descending => pages - 1 - touched,
                Order::Random => {
                    // A full-period generator over the pages (Hull and Dobell 1962).
                    position = (position.wrapping_mul(1_103_515_245).wrapping_add(12345)) % pages;
                    position
                }
            };
            base.cast::<u8>().add(page * 4096).write_volatile(1);
            if (touched as u64 + 1).is_multiple_of(step) {
                told(touched as u64 + 1);
            }
        }
        libc::munmap(base, bytes);
    }
    POSITION.store(position as u64, Ordering::Relaxed);
    batch as u64
}

impl std::str::FromStr for Order {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "ascending" => Ok(Self::Ascending),
            "descending" => Ok(Self::Descending),
            "random" => Ok(Self::Random),
            other => Err(format!("order: found {other:?}, needed ascending, descending or random")),
        }
    }
}
