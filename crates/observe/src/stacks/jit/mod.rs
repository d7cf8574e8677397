//! Code that a process makes while it runs, and the files in which runtimes name it: `/tmp/perf-PID.map`, and a `jit-PID.dump` that
//! the process has mapped.
//!
//! The files grow; what comes later holds for its addresses from then on. They are read on once a second while
//! sampled addresses are unnamed or may have been named anew, when the process ends (some runtimes write it only then),
//! and at the end. So the names of code that is moved or made anew are right to within a second.
//!
//! Files of any size are read: what is kept of them is bounded ([`Budget`]), and where something was not kept, the file is read once
//! more at the end for the addresses that were sampled. Anybody may write such a file for processes of their own, so it must
//! be the process's user's or root's.

mod files;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::namer::{NAME_BYTES_MAX, shortened};
use files::{Kind, Reading, Rest, Said};

/// Bytes that are read in a second for all processes together: they are read where the rings are emptied.
const READ_BYTES_MAX: u64 = 8 << 20;
/// Bytes that are read at the end, for all processes together: some five seconds' work.
const LAST_BYTES_MAX: u64 = 2 << 30;
/// Bytes that the names of all processes may take.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Files of processes that have ended which are kept open to be read at the end.
const FILES_MAX: u64 = 64;
/// Bytes of an entry without its name.
const ENTRY_BYTES: u64 = 96;

/// The bytes that may still be read and kept, and the files that may be kept open.
#[derive(Debug)]
pub(super) struct Budget {
    read: AtomicU64,
    last: AtomicU64,
    kept: AtomicU64,
    files: AtomicU64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            read: AtomicU64::new(READ_BYTES_MAX),
            last: AtomicU64::new(LAST_BYTES_MAX),
            kept: AtomicU64::new(KEPT_BYTES_MAX),
            files: AtomicU64::new(FILES_MAX),
        }
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

/// Whether a file that is mapped as code is one in which a runtime says what code it makes: perf knows it by that, too.
pub(super) fn is_dump(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let number = name.strip_prefix(b"jit-").and_then(|name| name.strip_suffix(b".dump"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// A file that is kept open.
struct Held {
    file: File,
    reading: Reading,
    rest: Rest,
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
    /// Something was not kept for want of room.
    dropped: bool,
    ino: u64,
    map: Reading,
    map_rest: Rest,
    /// Why the map cannot be read.
    map_lack: Option<String>,
    /// The map of a process that has ended, and dumps.
    held: Option<File>,
    dumps: Vec<Held>,
    /// Code that is known, by its first address: end and name.
    known: BTreeMap<u64, (u64, String)>,
    /// Sampled addresses, the names first found for them, and those in files where these are.
    sampled: BTreeSet<u64>,
    named: HashMap<u64, String>,
    places: HashMap<u64, (u32, u64)>,
    /// Addresses that have become another function, and how often.
    versions: HashMap<u64, (u32, String)>,
    pending: HashSet<u64>,
    ended: bool,
    finished: bool,
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
            dropped: false,
            ino: 0,
            map: Reading::new(Kind::Map),
            map_rest: Rest::Nothing,
            map_lack: None,
            held: None,
            dumps: Vec::new(),
            known: BTreeMap::new(),
            sampled: BTreeSet::new(),
            named: HashMap::new(),
            places: HashMap::new(),
            versions: HashMap::new(),
            pending: HashSet::new(),
            ended: false,
            finished: false,
        }
    }

    /// Reads a dump that the process has mapped, too.
    pub(super) fn add_dump(&mut self, file: &File) {
        let id = |file: &File| file.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        let is_known = self.dumps.iter().any(|held| id(&held.file) == id(file));
        let owner = file.metadata().map(|meta| meta.uid());
        if is_known || !owner.is_ok_and(|owner| self.owners.contains(&owner)) || !Budget::take(&self.budget.files, 1) {
            return;
        }
        if let Ok(file) = file.try_clone() {
            self.dumps.push(Held { file, reading: Reading::new(Kind::Dump), rest: Rest::Nothing });
        }
    }

    /// Notes that an address was sampled. Gives the version of its code: 0 is the first, and the name of a later
    /// version, which is known.
    pub(super) fn sampled(&mut self, addr: u64) -> (u32, Option<&str>) {
        if let Some((version, name)) = self.versions.get(&addr) {
            return (*version, Some(name));
        }
        self.sampled.insert(addr);
        if !self.named.contains_key(&addr) {
            match name_of(&self.known, addr) {
                Some(name) => _ = self.named.insert(addr, name.to_owned()),
                None => _ = self.pending.insert(addr),
            }
        }
        (0, None)
    }

    /// Notes that an address lies in a file that has no names: its module and the offset in it.
    pub(super) fn lies_in(&mut self, addr: u64, module: u32, offset: u64) {
        self.places.insert(addr, (module, offset));
    }

    /// The file that an address lies in, if it does.
    pub(super) fn place(&self, addr: u64) -> Option<(u32, u64)> {
        self.places.get(&addr).copied()
    }

    /// The name of the code that was first at an address.
    pub(super) fn name(&self, addr: u64) -> Option<&str> {
        self.named.get(&addr).map(String::as_str)
    }

    /// Why code of this process has no name.
    pub(super) fn lack(&self) -> String {
        if let Some(dump) = self.dumps.iter().find(|dump| dump.rest != Rest::Nothing) {
            let read = dump.reading.at();
            return match dump.rest {
                Rest::Broken => format!("its jitdump cannot be read after byte {read}"),
                _ => format!("budget: its jitdump was read to byte {read}"),
            };
        }
        match (&self.map_lack, self.map_rest) {
            (Some(reason), _) if self.dumps.is_empty() => format!("made at run time; no perf map: {reason}"),
            (None, Rest::More) => format!("budget: /tmp/{} was read to byte {}", self.name, self.map.at()),
            _ => "made at run time; neither its perf map nor its jitdump names it".to_owned(),
        }
    }

    /// Reads what was written since the last time. True if an address has become another function.
    pub(super) fn refresh(&mut self) -> bool {
        let budget = Arc::clone(&self.budget);
        self.read_on(&mut |bytes| Budget::take(&budget.read, bytes))
    }

    /// Reads all that is there, and what could not be kept once more.
    pub(super) fn finish(&mut self) {
        if !self.is_used() || std::mem::replace(&mut self.finished, true) {
            return;
        }
        let budget = Arc::clone(&self.budget);
        let mut may_read = |bytes| Budget::take(&budget.last, bytes);
        self.read_on(&mut may_read);
        if !self.dropped || self.pending.is_empty() {
            return;
        }
        // Those that were sampled when their line had gone by.
        let mut again: Vec<(File, Reading)> =
            self.open_map().map(|file| (file, Reading::new(Kind::Map))).into_iter().collect();
        let dumps = self.dumps.iter().filter_map(|dump| dump.file.try_clone().ok());
        again.extend(dumps.map(|file| (file, Reading::new(Kind::Dump))));
        let pending: BTreeSet<u64> = self.pending.drain().collect();
        for (file, mut reading) in again {
            let rest = reading.on(&file, &mut may_read, &mut |said| {
                let Said::Made { start, end, name } = said else { return };
                for addr in pending.range(start..end.max(start)) {
                    self.named.insert(*addr, shortened(name, NAME_BYTES_MAX).into_owned());
                }
            });
            if rest == Rest::More {
                self.map_rest = rest;
            }
        }
    }

    /// Whether reading on may tell anything.
    pub(super) fn is_used(&self) -> bool {
        !self.sampled.is_empty()
    }

    /// The process has ended: reads the rest, or keeps the file open for it, and forgets functions that were not sampled.
    pub(super) fn ended(&mut self) {
        if self.is_used() {
            self.refresh();
            let was_dropped = self.dropped && !self.pending.is_empty();
            if (was_dropped || self.map_rest == Rest::More) && Budget::take(&self.budget.files, 1) {
                self.held = self.open_map();
            }
        }
        self.known = BTreeMap::new();
        self.ended = true;
        self.tmp = None;
        self.give_back(self.kept_bytes);
    }

    fn give_back(&mut self, bytes: u64) {
        self.kept_bytes -= bytes;
        self.budget.kept.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read_on(&mut self, may_read: &mut dyn FnMut(u64) -> bool) -> bool {
        let mut latest = HashMap::new();
        if let Some(file) = self.open_map() {
            let mut reading = self.map;
            self.map_rest = reading.on(&file, may_read, &mut |said| self.learn(said, &mut latest));
            self.map = reading;
        }
        let mut dumps = std::mem::take(&mut self.dumps);
        for dump in &mut dumps {
            dump.rest = dump.reading.on(&dump.file, may_read, &mut |said| self.learn(said, &mut latest));
        }
        self.dumps = dumps;
        let mut changed = false;
        for (addr, name) in latest {
            if self.pending.remove(&addr) {
                self.named.insert(addr, name);
                continue;
            }
            let Some(first) = self.named.get(&addr) else { continue };
            let (version, last) = self.versions.get(&addr).map_or((0, first), |(version, name)| (*version, name));
            if *last != name {
                self.versions.insert(addr, (version + 1, name));
                changed = true;
            }
        }
        changed
    }

    /// Puts in what a file says: of sampled addresses into `latest`, for those to come unless there is too much of it.
    fn learn(&mut self, said: Said<'_>, latest: &mut HashMap<u64, String>) {
        let moved;
        let (start, end, name) = match said {
            Said::Made { start, end, name } => (start, end, shortened(name, NAME_BYTES_MAX)),
            Said::Moved { from, to, bytes } => {
                let Some((name, end)) = name_of(&self.known, from).zip(to.checked_add(bytes)) else { return };
                moved = name.to_owned();
                (to, end, moved.as_str().into())
            }
        };
        if start >= end {
            return;
        }
        for addr in self.sampled.range(start..end) {
            latest.insert(*addr, name.as_ref().to_owned());
        }
        let freed = replace(&mut self.known, start, end);
        self.give_back(freed);
        let bytes = ENTRY_BYTES + name.len() as u64;
        if !self.ended && Budget::take(&self.budget.kept, bytes) {
            self.kept_bytes += bytes;
            self.known.insert(start, (end, name.into_owned()));
        } else {
            self.dropped = true;
        }
    }

    /// The map; it is read from its beginning if it is another file now.
    fn open_map(&mut self) -> Option<File> {
        if let Some(held) = &self.held {
            return held.try_clone().ok();
        }
        let tmp = self.tmp.as_ref()?;
        let path = format!("/proc/self/fd/{}/{}", tmp.as_raw_fd(), self.name);
        // Anybody may write to /tmp: neither a link is followed nor a fifo waited for.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
        let (meta, file) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.cannot(&error.to_string()),
        };
        if !meta.is_file() {
            return self.cannot("it is no regular file");
        }
        if !self.owners.contains(&meta.uid()) {
            return self.cannot(&format!("found it owned by user {}, needed the process's own or root", meta.uid()));
        }
        if meta.ino() != self.ino || meta.len() < self.map.at() {
            (self.ino, self.map) = (meta.ino(), Reading::new(Kind::Map));
        }
        self.map_lack = None;
        Some(file)
    }

    fn cannot(&mut self, reason: &str) -> Option<File> {
        // That it is gone does not matter once it was read.
        if self.map.at() == 0 {
            self.map_lack = Some(format!("/tmp/{}: {reason}", self.name));
        }
        None
    }
}

/// The pid by which the process knows itself: the last number of `NSpid`.
fn inner_pid(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
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
        // What was not kept is found in the file at the end, where its line has gone by.
        jit.sampled((1 << 20) - 1);
        assert_eq!(jit.name((1 << 20) - 1), None);
        jit.finish();
        assert_eq!(jit.name((1 << 20) - 1), Some("x"));
        jit.finished = false;
        // Nothing more is read in this second; at the end it is, also of a process that has gone.
        std::fs::write(&path, "500000 100 two\n").expect("/tmp is there");
        budget.read.store(3, Ordering::Relaxed);
        jit.sampled(0x50_0010);
        jit.refresh();
        assert_eq!(jit.name(0x50_0010), None);
        jit.ended();
        assert_eq!(budget.kept.load(Ordering::Relaxed), KEPT_BYTES_MAX, "it was given back");
        jit.finish();
        assert_eq!(jit.name(0x50_0010), Some("two"));
        std::fs::remove_file(&path).expect("it was written");
        child.kill().and_then(|()| child.wait()).expect("our child");
    }

    #[test]
    fn a_dump_that_is_mapped_names_code_and_what_is_missing_is_said() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("jit-7.dump");
        assert!(is_dump(path.as_os_str().as_encoded_bytes()) && is_dump(b"jit-12.dump"));
        assert!(!is_dump(b"/tmp/jit-.dump") && !is_dump(b"/tmp/jit-7.dump.1") && !is_dump(b"/tmp/ajit-7.dump"));
        let mut bytes = [b"DTiJ".as_slice(), &[1, 0, 0, 0, 40, 0, 0, 0], &[0; 28]].concat();
        bytes.extend([[0, 0, 0, 0], 62_u32.to_le_bytes()].concat());
        bytes.extend([0; 24]);
        bytes.extend([0x1000_u64, 0x20, 1].iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(b"alpha\0");
        std::fs::write(&path, bytes).expect("room");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let mut jit = Jit::of(child.id(), Arc::default());
        for addr in [0x1010, 0x2000] {
            assert_eq!(jit.sampled(addr), (0, None));
        }
        jit.refresh();
        let lack = jit.lack();
        assert!(lack.contains(&format!("/tmp/perf-{}.map: No such file", child.id())), "{lack}");
        jit.add_dump(&File::open(&path).expect("it was written"));
        jit.refresh();
        assert_eq!([jit.name(0x1010), jit.name(0x2000)], [Some("alpha"), None]);
        assert!(jit.lack().contains("neither"), "{}", jit.lack());
        child.kill().and_then(|()| child.wait()).expect("our child");
    }
}
