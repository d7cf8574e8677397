//! What `/proc` says of one process: lines of its `maps`, the name and the accounts of its threads.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use pagelab_residency::maps;
use pagelab_residency::stat::{self, Stat};

use pagelab_vocab::abi::{MAP_PRIVATE, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE};

/// A line of `/proc/PID/maps`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MapsLine<'a> {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// PROT_ bits.
    pub prot: u32,
    /// MAP_SHARED or MAP_PRIVATE.
    pub flags: u32,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// As `st_dev` has it.
    pub dev: u64,
    /// Inode of the file; 0 without.
    pub ino: u64,
    /// The file, the kernel's name such as `[heap]`, or nothing; a file's name may be any bytes.
    pub path: &'a [u8],
}

impl<'a> MapsLine<'a> {
    /// The lines of `/proc/PID/maps`; none of a process that has ended.
    pub(crate) fn read(pid: u32) -> Vec<u8> {
        let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        if !text.is_empty() {
            return text;
        }
        // Its first thread may have ended.
        living_tasks(pid).find_map(|task| std::fs::read(format!("/proc/{task}/maps")).ok()).unwrap_or_default()
    }

    /// Reads the lines of a text.
    pub(crate) fn parse_all(text: &'a [u8]) -> impl Iterator<Item = Self> {
        text.split(|byte| *byte == b'\n').filter_map(Self::parse)
    }

    /// Reads a line.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let line = maps::Line::parse(line)?;
        let bit = |letter, bit| if line.permissions.contains(letter) { bit } else { 0 };
        Some(Self {
            start: line.start,
            end: line.end,
            prot: bit('r', PROT_READ) | bit('w', PROT_WRITE) | bit('x', PROT_EXEC),
            flags: bit('s', MAP_SHARED) | bit('p', MAP_PRIVATE),
            offset: line.offset,
            dev: line.device_number()?,
            ino: line.inode,
            path: line.path.strip_suffix(b" (deleted)").unwrap_or(line.path),
        })
    }
}

/// Whether a seccomp filter stands between this process and the kernel, as containers have it: then a call may be refused
/// whatever rights there are.
pub fn is_filtered() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.split_ascii_whitespace().eq(["Seccomp:", "2"])))
}

/// The remedy where a filter refuses perf events.
pub(crate) const FILTER_NEEDED: &str = "a seccomp filter that lets perf_event_open pass; in a container try: --cap-add \
                                        PERFMON, or a profile that allows it";

/// The name of a thread; empty if it cannot be read.
pub fn comm(pid: u32, tid: u32) -> Vec<u8> {
    let mut comm = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    comm.truncate(comm.trim_ascii_end().len());
    comm
}

/// The ids of a process's threads; empty if they cannot be read.
pub fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Tasks of a process that are looked at to find one that lives.
const TASKS_LOOKED_AT: usize = 64;

/// The tasks of a process through which it can be looked at, its first one first. When that has ended and others have not, the
/// kernel shows neither memory nor folders in `/proc/PID`, but does so in `/proc/TID` of the others.
pub(crate) fn living_tasks(pid: u32) -> impl Iterator<Item = u32> {
    let is_there = |task: u32| Path::new(&format!("/proc/{task}/root/")).exists();
    let first = Some(pid).filter(|pid| is_there(*pid));
    let others = std::iter::once_with(move || if first.is_some() { Vec::new() } else { threads(pid) });
    first.into_iter().chain(others.flatten().take(TASKS_LOOKED_AT).filter(move |task| is_there(*task)))
}

/// The kernel's accounts of a thread, or of a process with all its threads; without its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounts {
    /// The status as `wait` reports it, of what has ended; none while it runs, and where the kernel does not say.
    pub exit_code: Option<i32>,
    /// Minor and major faults.
    pub faults: (u64, u64),
    /// User and system time, ns, in clock ticks (10 ms on most kernels).
    pub cpu_ns: (u64, u64),
}

/// The accounts of one thread. They can be read until it is reaped.
pub fn thread_accounts(pid: u32, tid: u32) -> Option<Accounts> {
    read_accounts(Path::new(&format!("/proc/{pid}/task/{tid}")))
}

/// The accounts of a process. They can be read until it is reaped.
pub fn accounts(pid: u32) -> Option<Accounts> {
    read_accounts(Path::new(&format!("/proc/{pid}")))
}

fn read_accounts(folder: &Path) -> Option<Accounts> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    parse_accounts(&stat::read(folder)?, tick_ns)
}

/// Reads a line of `stat`, `proc_pid_stat(5)`: the name may hold anything, so fields are counted from behind it.
fn parse_accounts(text: &str, tick_ns: u64) -> Option<Accounts> {
    let stat = Stat::of(text)?;
    let ended = matches!(stat.state()?, 'Z' | 'X');
    Some(Accounts {
        exit_code: stat.number(52).filter(|_| ended).map(|status| status as i32),
        faults: (stat.number(10)?, stat.number(12)?),
        cpu_ns: (stat.number(14)? * tick_ns, stat.number(15)? * tick_ns),
    })
}

/// Reads and writes that a process and the children that it waited for have made, as the kernel counts calls (`syscr`, `syscw`); they
/// can be read until it is reaped.
pub fn transfers(pid: u32) -> Option<[u64; 2]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let number = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    Some([number("syscr:")?, number("syscw:")?])
}

/// `PF_EXITING` among the flags of `stat`.
const EXITING: u64 = 0x4;

/// Whether a thread that exists goes on: it has not begun to end. What cannot be looked at (`hidepid`) goes on if its process is there.
pub(crate) fn goes_on(pid: u32, tid: u32) -> bool {
    let Some(text) = stat::read(Path::new(&format!("/proc/{pid}/task/{tid}"))) else {
        let process = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        let shown = Path::new(&format!("/proc/{pid}")).exists();
        // Another user's: that it may not be asked says that it is there.
        return !shown
            && process.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM));
    };
    let goes_on = |stat: Stat<'_>| Some(!matches!(stat.state()?, 'Z' | 'X') && stat.number(9)? & EXITING == 0);
    Stat::of(&text).and_then(goes_on).unwrap_or(false)
}

/// Whether a process ends within `time`, which is below a second.
pub fn has_ended(pidfd: BorrowedFd<'_>, time: Duration) -> bool {
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    // An interrupted wait is a short wait.
    matches!(poll(&mut fds, Some(&timeout)), Ok(1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let line = b"7f01000-7f02000 r-xp 00001000 fd:01 1234                       /usr/lib/a\xff b.so (deleted)";
        let wanted = MapsLine {
            start: 0x7f0_1000,
            end: 0x7f0_2000,
            prot: PROT_READ | PROT_EXEC,
            flags: MAP_PRIVATE,
            offset: 0x1000,
            dev: libc::makedev(0xfd, 1),
            ino: 1234,
            path: b"/usr/lib/a\xff b.so",
        };
        assert_eq!(MapsLine::parse(line), Some(wanted));
        assert_eq!(MapsLine::parse(b"1000-2000 rw-p 00000000 00:00 0").map(|line| line.path), Some(&b""[..]));
        assert_eq!(MapsLine::parse(b"1000-2000 rw-p 0000"), None);
        let text = b"1000-2000 rw-p 00000000 00:00 0 \n\xff\n2000-3000 rw-p 00000000 00:00 0 [heap]\n";
        let starts: Vec<u64> = MapsLine::parse_all(text).map(|line| line.start).collect();
        assert_eq!(starts, [0x1000, 0x2000]);
    }

    #[test]
    fn accounts_are_counted_from_behind_a_name_that_holds_anything() {
        let mut text = String::from("7 (a) Z (b) Z 1 2 3 0 -1 4 11 22 33 44 5 6");
        text.push_str(&" 0".repeat(36));
        text.push_str(" 256");
        let found = parse_accounts(&text, 10_000_000).expect("a line of stat");
        assert_eq!((found.exit_code, found.faults, found.cpu_ns), (Some(256), (11, 33), (50_000_000, 60_000_000)));
        assert_eq!(parse_accounts(&text.replace(") Z 1", ") S 1"), 1).and_then(|found| found.exit_code), None);
        assert_eq!(parse_accounts("7 (a) Z 1 2", 1), None);
    }

    #[test]
    fn a_thread_goes_on_until_it_begins_to_end() {
        let pid = std::process::id();
        assert!(goes_on(pid, pid));
        let mut ended = std::process::Command::new("true").spawn().expect("true is there");
        while accounts(ended.id()).is_some_and(|accounts| accounts.exit_code.is_none()) {
            std::thread::yield_now();
        }
        assert!(!goes_on(ended.id(), ended.id()), "a zombie");
        ended.wait().expect("ours");
        assert!(!goes_on(ended.id(), ended.id()), "gone");
    }

    #[test]
    fn this_process_has_accounts_and_this_thread_is_one_of_its_threads() {
        let pid = std::process::id();
        let found = accounts(pid).expect("/proc/self/stat");
        assert!(found.faults.0 > 0 && found.exit_code.is_none(), "{found:?}");
        assert!(threads(pid).contains(&pid) && !comm(pid, pid).is_empty());
    }
}
