//! Code that a process makes while it runs, and the file in which some runtimes name it: `/tmp/perf-PID.map`.
//!
//! The file grows; a line that comes later holds for its addresses from then on. It is read on once a second while
//! sampled addresses are unnamed or may have been named anew, when the process ends (some runtimes write it only then),
//! and at the end. So the names of code that is moved or made anew are right to within a second.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

/// Bytes of the file that are read for one process.
const MAP_BYTES_MAX: u64 = 64 << 20;

/// The code of one process.
pub struct Jit {
    /// `/tmp` as the process sees it: it can still be looked into when the process has gone.
    tmp: Option<File>,
    name: String,
    ino: u64,
    read_bytes: u64,
    /// Code that is known, by its first address: end and name.
    known: BTreeMap<u64, (u64, String)>,
    /// Sampled addresses and what they were first found to be.
    named: HashMap<u64, String>,
    /// Addresses that have become another function, and how often.
    versions: HashMap<u64, (u32, String)>,
    pending: HashSet<u64>,
}

impl Jit {
    /// The code of process `pid`, which is alive.
    pub fn of(pid: u32) -> Self {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let inner = std::fs::read_to_string(process.join("status")).ok().and_then(|status| inner_pid(&status));
        let tmp = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(process.join("root/tmp"));
        let tmp = tmp.or_else(|_| OpenOptions::new().read(true).custom_flags(libc::O_PATH).open("/tmp")).ok();
        Self {
            tmp,
            name: format!("perf-{}.map", inner.unwrap_or(pid)),
            ino: 0,
            read_bytes: 0,
            known: BTreeMap::new(),
            named: HashMap::new(),
            versions: HashMap::new(),
            pending: HashSet::new(),
        }
    }

    /// Notes that an address was sampled. Gives the version of its code: 0 is what was there first, and the name of a
    /// later version, which is known.
    pub fn sampled(&mut self, addr: u64) -> (u32, Option<&str>) {
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
    pub fn name(&self, addr: u64) -> Option<&str> {
        self.named.get(&addr).map(String::as_str)
    }

    /// Reads what was written since the last time. True if an address has become another function.
    pub fn refresh(&mut self) -> bool {
        let Some(new) = self.read_on() else { return false };
        if new.is_empty() {
            return false;
        }
        for line in new.lines() {
            if let Some((start, end, name)) = entry(line) {
                replace(&mut self.known, start, end, name);
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
    pub fn is_used(&self) -> bool {
        !self.pending.is_empty() || !self.named.is_empty()
    }

    /// The process has ended: reads the rest, and forgets what was not sampled.
    pub fn ended(&mut self) {
        if self.is_used() {
            self.refresh();
        }
        self.known = BTreeMap::new();
        self.pending = HashSet::new();
        self.tmp = None;
    }

    /// Whole lines that came since the last time; from its beginning if it is another file now.
    fn read_on(&mut self) -> Option<String> {
        let tmp = self.tmp.as_ref()?;
        let path = format!("/proc/self/fd/{}/{}", tmp.as_raw_fd(), self.name);
        // Anybody may write to /tmp: neither a link is followed nor a fifo waited for.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        if meta.ino() != self.ino || meta.len() < self.read_bytes {
            (self.ino, self.read_bytes) = (meta.ino(), 0);
        }
        file.seek(SeekFrom::Start(self.read_bytes)).ok()?;
        let mut new = Vec::new();
        file.take(MAP_BYTES_MAX.saturating_sub(self.read_bytes)).read_to_end(&mut new).ok()?;
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

/// Puts in new code; older code that it overlaps is gone.
fn replace(known: &mut BTreeMap<u64, (u64, String)>, start: u64, end: u64, name: &str) {
    let gone: Vec<u64> =
        known.range(..end).rev().take_while(|(_, (old_end, _))| *old_end > start).map(|(old, _)| *old).collect();
    for old in gone {
        known.remove(&old);
    }
    known.insert(start, (end, name.to_owned()));
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
        let mut jit = Jit::of(std::process::id());
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
}
