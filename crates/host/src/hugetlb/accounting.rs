//! The counters of a pool while memory is mapped and touched: the experiment that shows what `nr`, `free`, `resv` and
//! `surplus` count.
//!
//! Pool and overcommit are set under a guard and put back. Each amount is mapped by a child process of its own, which
//! touches every page and waits; the counters are read; the child ends, and with it the mapping.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use pagelab_vocab::settings::format_size;
use rustix::process::{Pid, WaitOptions};
use serde::Serialize;

use super::pools::has_size;
use super::shortage::Shortage;
use super::{HugetlbError, PoolState};
use crate::guard::{Applied, Guard, GuardOptions, RestoreReport};

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingRequest {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of the pool (`nr_hugepages`).
    pub pages: u64,
    /// Pages that may be added on demand (`nr_overcommit_hugepages`).
    pub overcommit_pages: u64,
    /// Bytes to map and touch, one amount after the other.
    pub steps_bytes: Vec<u64>,
}

/// The counters at one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccountingStep {
    /// Bytes that were mapped and touched; 0 at the start.
    pub bytes: u64,
    /// Pages that those take.
    pub pages: u64,
    /// The pool with all of them touched; `None` with the reason in `refused`.
    pub pool: Option<PoolState>,
    /// Why the kernel did not give them.
    pub refused: Option<String>,
}

/// All steps, and the values put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accounting {
    /// Page size as in keys and commands.
    pub size: String,
    /// The pool before, and under the guard.
    pub settings: Vec<Applied>,
    /// The steps; the first is the pool before anything is mapped.
    pub steps: Vec<AccountingStep>,
    /// What undoing did.
    pub restored: RestoreReport,
    /// What makes the counters mean something else, such as pages that other programs use.
    pub notes: Vec<String>,
}

/// Maps and touches each amount in turn, and reads the pool.
///
/// # Errors
/// No such page size, a pool that cannot be set or is granted in part, a child that cannot be started. Everything is put
/// back in each case.
pub fn accounting(options: GuardOptions, request: &AccountingRequest) -> Result<Accounting, HugetlbError> {
    let root = options.root.clone();
    has_size(&root, request.page_bytes)?;
    let size = format_size(request.page_bytes);
    let before = PoolState::read(&root, request.page_bytes)?;
    let mut guard = Guard::open_with(options)?;
    let wanted = [
        (format!("hugetlb.{size}.nr_hugepages"), request.pages.to_string()),
        (format!("hugetlb.{size}.nr_overcommit_hugepages"), request.overcommit_pages.to_string()),
    ];
    let settings = guard.set_all(wanted.iter().map(|(key, value)| (key.as_str(), value.as_str())))?;
    if let Some(applied) = settings.iter().find(|applied| !applied.granted()) {
        let got: u64 = applied.got.parse().unwrap_or(0);
        let why = Shortage::find(&root, request.page_bytes, request.pages.saturating_sub(got), None).to_string();
        let (key, needed, got) = (applied.key.clone(), applied.requested.clone(), applied.got.clone());
        return Err(HugetlbError::NotGranted { key, needed, got, why });
    }
    let start = PoolState::read(&root, request.page_bytes)?;
    let mut steps = vec![AccountingStep { bytes: 0, pages: 0, pool: Some(start.clone()), refused: None }];
    for bytes in &request.steps_bytes {
        steps.push(step(&root, request.page_bytes, *bytes)?);
        settle(&root, &start);
    }
    let notes = if before.used_pages() + before.reserved_pages > 0 {
        vec![format!(
            "other programs used {} pages and had {} promised when this began; they are in the counters",
            before.used_pages(),
            before.reserved_pages
        )]
    } else {
        Vec::new()
    };
    Ok(Accounting { size, settings, steps, restored: guard.close(), notes })
}

/// Waits a moment for the counters to be as at the start: the pages of an ended child are freed by the time it can be
/// waited for, unless somebody else looks at its memory at that moment.
fn settle(root: &Path, start: &PoolState) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        if PoolState::read(root, start.page_bytes).is_ok_and(|pool| pool.counters() == start.counters()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn step(root: &Path, page_bytes: u64, bytes: u64) -> Result<AccountingStep, HugetlbError> {
    let pages = bytes.div_ceil(page_bytes);
    let child = Child::start(page_bytes, pages).map_err(|error| HugetlbError::unreadable("child process", &error))?;
    let (pool, refused) = match child.ready() {
        Ok(()) => (Some(PoolState::read(root, page_bytes)?), None),
        Err(error) => (None, Some(format!("mmap of {pages} pages: {}", crate::settings::plain(&error)))),
    };
    drop(child);
    Ok(AccountingStep { bytes, pages, pool, refused })
}

/// A process that has pages mapped and touched until this is dropped.
struct Child {
    pid: Pid,
    /// Its answer: one byte when all is touched, or four with an error number.
    answer: std::cell::RefCell<io::PipeReader>,
    /// It ends when this closes.
    hold: Option<io::PipeWriter>,
}

impl Child {
    fn start(page_bytes: u64, pages: u64) -> io::Result<Self> {
        let too_much = || io::Error::from_raw_os_error(libc::ENOMEM);
        let length = usize::try_from(page_bytes.saturating_mul(pages)).map_err(|_| too_much())?;
        let (answer, mut say) = io::pipe()?;
        let (mut wait, hold) = io::pipe()?;
        // SAFETY: the child makes system calls and touches memory that it has mapped itself, and nothing else: it
        // allocates nothing and takes no lock, so that threads of this process which fork left behind do not matter.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // The copy of the writing end would keep `wait` from ending.
            drop(hold);
            // SAFETY: as above; the memory belongs to nobody else.
            let status = unsafe { map_and_touch(page_bytes as usize, length) };
            let _ = match status {
                0 => say.write_all(&[1]),
                errno => say.write_all(&errno.to_ne_bytes()),
            };
            let _ = wait.read(&mut [0]);
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(0) };
        }
        let pid = Pid::from_raw(pid).filter(|pid| pid.as_raw_pid() > 0).ok_or_else(io::Error::last_os_error)?;
        Ok(Child { pid, answer: std::cell::RefCell::new(answer), hold: Some(hold) })
    }

    /// Waits until all pages are touched.
    fn ready(&self) -> io::Result<()> {
        let mut said = [0_u8; 4];
        match self.answer.borrow_mut().read(&mut said)? {
            1 => Ok(()),
            4 => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(said))),
            // SIGBUS, or the killer of processes without memory.
            _ => Err(io::Error::other("the process was killed while it touched the pages")),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.hold.take());
        while matches!(rustix::process::waitpid(Some(self.pid), WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {}
    }
}

/// Maps private memory of the pool and writes a byte to each page; the error number, or 0.
///
/// # Safety
/// To be called in a child between fork and _exit.
unsafe fn map_and_touch(page_bytes: usize, length: usize) -> i32 {
    let size = (page_bytes.trailing_zeros() as libc::c_int) << libc::MAP_HUGE_SHIFT;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | size;
    // SAFETY: a new mapping at an address of the kernel's choice; the pages written to lie in it.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return *libc::__errno_location();
        }
        let mut offset = 0;
        while offset < length {
            start.cast::<u8>().add(offset).write_volatile(1);
            offset += page_bytes;
        }
    }
    0
}

impl fmt::Display for Accounting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "pages of {}; mapped and touched, then:", self.size)?;
        writeln!(out, "{:>14} {:>8} {:>8} {:>8} {:>8} {:>8}", "bytes", "pages", "nr", "free", "resv", "surplus")?;
        for step in &self.steps {
            write!(out, "{:>14} {:>8} ", step.bytes, step.pages)?;
            match &step.pool {
                Some(pool) => {
                    let (total, free, reserved, surplus) = pool.counters();
                    writeln!(out, "{total:>8} {free:>8} {reserved:>8} {surplus:>8}")?;
                }
                None => writeln!(out, "{}", step.refused.as_deref().unwrap_or("not known"))?,
            }
        }
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        write!(out, "{}", self.restored)
    }
}
