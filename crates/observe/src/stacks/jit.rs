//! Code that a process makes while it runs, and the file in which some runtimes name it: `/tmp/perf-PID.map`.
//!
//! The file grows; a line that comes later holds for its addresses from then on. It is read on once a second while
//! sampled addresses are unnamed or may have been named anew, when the process ends (some runtimes write it only then),
//! and at the end. So the names of code that is moved or made anew are right to within a second.
//!
//! Anybody may write such a file for processes of their own, so it must be the process's user's or root's, and what is read
//! and kept of all of them is bounded ([`Budget`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the file that are read for one process.
const MAP_BYTES_MAX: u64 = 8 << 20;
/// Bytes that are read in a second for all processes together: they are read where the rings are emptied.
const READ_BYTES_MAX: u64 = 8 << 20;
/// Bytes that the names of all processes may take.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Bytes of an entry without its name.
const ENTRY_BYTES: u64 = 96;
/// Bytes of a name; the rest is cut off.
const NAME_BYTES_MAX: usize = 4096;

/// The bytes that may still be read and kept.
#[derive(Debug)]
pub(super) struct Budget {
    read: AtomicU64,
    kept: AtomicU64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { read: AtomicU64::new(READ_BYTES_MAX), kept: AtomicU64::new(KEPT_BYTES_MAX) }
    }
}

impl Budget {
    /// A second has passed.
    pub(super) fn renew(&self) {
        self.read.store(READ_BYTES_MAX, Ordering::Relaxed);
    }

    fn take(from: &AtomicU64, bytes: u64) -> bool {
        from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// The users whose file is believed: those of the process, root and the recorder's own.
fn believed(status: &str) -> Vec<u32> {
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let of_process = uids.split_whitespace().take(2).filter_map(|uid| uid.parse().ok());
    of_process.chain([0, rustix::process::geteuid().as_raw()]).collect()
}

/// The code of one process.
pub(super) struct Jit {
    /// `/tmp` as the process sees it: it can still be looked into when the process has gone.
    tmp: Option<File>,
    name: String,
    owners: Vec<u32>,
    budget: Arc<Budget>,
    /// Bytes of the budget that are used.
    kept_bytes: u64,
    ino: u64,
    read_bytes: u64,
    /// Code that is known, by its first address: end and name.
    known: BTreeMap<u64, (u64, String)>,
    /// Sampled addresses and the names first found for them.
    named: HashMap<u64, String>,
    /// Addresses that have become another function, and how often.
    versions: HashMap<u64, (u32, String)>,
    pending: HashSet<u64>,
}

impl Jit {
    /// The code of process `pid`, which is alive.
    pub(super) fn of(pid: u32, budget: Arc<Budget>) -> Self {
        let process = PathBuf::from(format!("/proc/{pid}"));
        // The name in it may be any bytes.
        let status = std::fs::read(process.join("status")).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let inner = inner_pid(&status);
        let tmp = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(process.join("root/tmp"));
        let tmp = tmp.or_else(|_| OpenOptions::new().read(true).custom_flags(libc::O_PATH).open("/tmp")).ok();
        Self {
            tmp,
            name: format!("perf-{}.map", inner.unwrap_or(pid)),
            owners: believed(&status),
            budget,
            kept_bytes: 0,
            ino: 0,
            read_bytes: 0,
            known: BTreeMap::new(),
            named: HashMap::new(),
            versions: HashMap::new(),
            pending: HashSet::new(),
        }
    }

    /// Notes that an address was sampled. Gives the version of its code: 0 is the first, and the name of a later
    /// version, which is known.
    pub(super) fn sampled(&mut self, addr: u64) -> (u32, Option<&str>) {
        if let Some((version, name)) = self.versions.get(&addr) {
            return (*version, Some(name));
        }
        if !self.named.contains_key(&addr) {
            match name_of(&self.known, addr) {
                Some(name) => _ = self.named.insert(addr, name.to_owned()),
                None => _ = self.pending.insert(addr),
            }
        }
        (0, None)
    }

    /// The name of the code that was first at an address.
    pub(super) fn name(&self, addr: u64) -> Option<&str> {
        self.named.get(&addr).map(String::as_str)
    }

    /// Reads the lines written since the last time. True if an address has become another function.
    pub(super) fn refresh(&mut self) -> bool {
        let Some(new) = self.read_on() else { return false };
        if new.is_empty() {
            return false;
        }
        for line in new.lines() {
            if let Some((start, end, name)) = entry(line) {
                self.learn(start, end, name);
            }
        }
        let known = &self.known;
        let named = &mut self.named;
        self.pending.retain(|addr| {
            let found = name_of(known, *addr);
            found.is_none_or(|name| {
                named.insert(*addr, name.to_owned());
                false
            })
        });
        let mut changed = false;
        for (addr, first) in &self.named {
            let Some(now) = name_of(&self.known, *addr) else { continue };
            let last = self.versions.get(addr).map_or(first.as_str(), |(_, name)| name);
            if last != now {
                let version = self.versions.get(addr).map_or(1, |(version, _)| version + 1);
                self.versions.insert(*addr, (version, now.to_owned()));
                changed = true;
            }
        }
        changed
    }

    /// Whether reading on may tell anything.
    pub(super) fn is_used(&self) -> bool {
        !self.pending.is_empty() || !self.named.is_empty()
    }

    /// The process has ended: reads the rest, and forgets functions that were not sampled.
    pub(super) fn ended(&mut self) {
        if self.is_used() {
            self.refresh();
        }
        self.known = BTreeMap::new();
        self.pending = HashSet::new();
        self.tmp = None;
        self.give_back(self.kept_bytes);
    }

    fn give_back(&mut self, bytes: u64) {
        self.kept_bytes -= bytes;
        self.budget.kept.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Puts in new code, unless there is too much of it.
    fn learn(&mut self, start: u64, end: u64, name: &str) {
        let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
        let freed = replace(&mut self.known, start, end);
        self.give_back(freed);
        let bytes = ENTRY_BYTES + name.len() as u64;
        if Budget::take(&self.budget.kept, bytes) {
            self.kept_bytes += bytes;
            self.known.insert(start, (end, name.to_owned()));
        }
    }

    /// Whole lines that came since the last time; from its beginning if it is another file now.
    fn read_on(&mut self) -> Option<String> {
        let tmp = self.tmp.as_ref()?;
        let path = format!("/proc/self/fd/{}/{}", tmp.as_raw_fd(), self.name);
        // Anybody may write to /tmp: neither a link is followed nor a fifo waited for.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        if !self.owners.contains(&meta.uid()) {
            return None;
        }
        if meta.ino() != self.ino || meta.len() < self.read_bytes {
            (self.ino, self.read_bytes) = (meta.ino(), 0);
        }
        file.seek(SeekFrom::Start(self.read_bytes)).ok()?;
        let mut new = Vec::new();
        let room = MAP_BYTES_MAX.min(meta.len()).saturating_sub(self.read_bytes);
        if !Budget::take(&self.budget.read, room) {
            return None;
        }
        file.take(room).read_to_end(&mut new).ok()?;
        let whole = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        new.truncate(whole);
        self.read_bytes += whole as u64;
        Some(String::from_utf8_lossy(&new).into_owned())
    }
}

/// The pid by which the process knows itself: the last number of `NSpid`.
fn inner_pid(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

/// `START SIZE NAME`, both numbers hexadecimal.
fn entry(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let start = number(start)?;
    Some((start, start.checked_add(number(size)?)?, name.trim()))
}

/// Takes away the code that new code overlaps, or begins where it begins; gives what that took of the budget.
fn replace(known: &mut BTreeMap<u64, (u64, String)>, start: u64, end: u64) -> u64 {
    let before = known.range(..end).rev().take_while(|(_, (old_end, _))| *old_end > start);
    let mut gone: Vec<u64> = before.map(|(old, _)| *old).collect();
    gone.push(start);
    let names = gone.iter().filter_map(|old| known.remove(old));
    names.map(|(_, name)| ENTRY_BYTES + name.len() as u64).sum()
}

fn name_of(known: &BTreeMap<u64, (u64, String)>, addr: u64) -> Option<&str> {
    known.range(..=addr).next_back().filter(|(_, (end, _))| addr < *end).map(|(_, (_, name))| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_runtimes_write_them() {
        assert_eq!(
            entry("3ef414c0 398 LazyCompile:~f a b.js:1"),
            Some((0x3ef4_14c0, 0x3ef4_1858, "LazyCompile:~f a b.js:1"))
        );
        assert_eq!(entry("0x00007f01 0x10 Interpreter"), Some((0x7f01, 0x7f11, "Interpreter")));
        for wrong in ["", "12", "12 34", "zz 10 x", "ffffffffffffffff ff x"] {
            assert_eq!(entry(wrong), None, "{wrong}");
        }
        assert_eq!(inner_pid("Name:\tx\nNSpid:\t812\t7\n"), Some(7));
    }

    #[test]
    fn code_that_is_made_anew_gets_a_version() {
        let dir = std::env::temp_dir().join(format!("perf-{}.map", std::process::id()));
        let mut jit = Jit::of(std::process::id(), Arc::default());
        assert_eq!(jit.sampled(0x1010), (0, None));
        std::fs::write(&dir, "1000 100 one\n2000 100 tw").expect("/tmp is there");
        jit.refresh();
        assert_eq!(jit.name(0x1010), Some("one"));
        assert_eq!(jit.sampled(0x1010), (0, None));
        assert_eq!(jit.sampled(0x2010), (0, None));
        std::fs::write(&dir, "1000 100 one\n2000 100 two\n1008 20 three\n").expect("/tmp is there");
        jit.refresh();
        assert_eq!(jit.name(0x2010), Some("two"), "the line was not whole before");
        assert_eq!(jit.sampled(0x1010), (1, Some("three")));
        assert_eq!(jit.name(0x1010), Some("one"), "what was sampled before keeps its name");
        std::fs::remove_file(&dir).expect("it was written");
    }

    #[test]
    fn the_file_of_another_user_is_not_believed_and_what_is_read_is_bounded() {
        assert_eq!(believed("Name:\tx\nUid:\t1000\t1001\t1\t1\n")[..3], [1000, 1001, 0]);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let path = format!("/tmp/perf-{}.map", child.id());
        let budget = Arc::new(Budget::default());
        let mut jit = Jit::of(child.id(), Arc::clone(&budget));
        jit.sampled(0x1010);
        std::fs::write(&path, "1000 100 one\n").expect("/tmp is there");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).expect("root may");
            jit.refresh();
            assert_eq!(jit.name(0x1010), None, "nobody's file");
            std::os::unix::fs::chown(&path, Some(0), None).expect("root may");
        }
        jit.refresh();
        assert_eq!(jit.name(0x1010), Some("one"));
        // A few bytes a line: of each a map takes much more than the file.
        let lines: Vec<String> = (0..1 << 20).map(|at| format!("{at:05x} 1 x\n")).collect();
        std::fs::write(&path, lines.concat()).expect("/tmp is there");
        budget.renew();
        jit.refresh();
        assert!(jit.kept_bytes <= KEPT_BYTES_MAX && jit.known.len() as u64 <= KEPT_BYTES_MAX / ENTRY_BYTES);
        // Nothing more is read in this second.
        std::fs::write(&path, "500000 100 two\n").expect("/tmp is there");
        budget.read.store(3, Ordering::Relaxed);
        jit.sampled(0x50_0010);
        jit.refresh();
        assert_eq!(jit.name(0x50_0010), None);
        budget.renew();
        jit.ended();
        assert_eq!(budget.kept.load(Ordering::Relaxed), KEPT_BYTES_MAX, "it was given back");
        std::fs::remove_file(&path).expect("it was written");
        child.kill().and_then(|()| child.wait()).expect("our child");
    }
}
