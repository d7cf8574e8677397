//! The folder of the recordings: their names, what is known of each, and which are removed.
//!
//! ```text
//! DIR/2026-11-26/041500.rec                        a window, by the time of its begin in UTC
//! DIR/triggered/2026-11-26-041500-psi-memory-some.rec
//! DIR/pause                                        while it is there nothing is recorded
//! DIR/.agent/                                      lock, journal, the flight recorder's present recording
//! ```
//!
//! A name that is taken gets a number: `041500-2.rec`. Nothing is ever overwritten, also if the clock goes backwards.
//!
//! Only recordings of this agent are removed, those that its journal knows or whose manifest names this host and has a label of the
//! agent's. What others put into the folder stays, and does not count.

use std::collections::BTreeMap;
use std::fs::{self, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, NaiveDateTime, Utc};
use pagelab_output::{Folder, Lock};
use pagelab_recording::Manifest;

use crate::journal::{Journal, Known, Line, Memory};
use crate::schedule::Now;
use crate::usage::began_ticks;

/// The folder of the agent's own files.
pub(crate) const OWN: &str = ".agent";
/// The folder of triggered recordings.
pub(crate) const TRIGGERED: &str = "triggered";
/// The file that pauses the agent.
const PAUSE: &str = "pause";
/// The file among its own that an agent holds as long as it lives.
const LOCK: &str = "lock";
/// How labels of the agent's recordings begin.
pub(crate) const LABEL: &str = "agent: ";
/// Time that recorders of a killed agent get to close their recordings.
const CLOSING_TIME: Duration = Duration::from_secs(10);

/// One recording that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Begin by its name, ns since the epoch.
    pub made_ns: i64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Whether the recorder reached its end.
    pub complete: bool,
    /// Whether everything of it is in the store.
    pub uploaded: bool,
}

/// Why a recording is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// It is older than what is kept.
    Age,
    /// The folder would be larger than what is kept.
    Size,
    /// The same, and it was not uploaded yet: it is lost.
    Lost,
}

impl Why {
    pub(crate) const ALL: [Self; 3] = [Self::Age, Self::Size, Self::Lost];

    /// The word in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Size => "size",
            Self::Lost => "size_before_upload",
        }
    }
}

/// What is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep<'a> {
    /// Age at which a recording is removed; none: ages are not known to be right.
    pub for_ns: Option<i64>,
    /// Bytes that all may have together.
    pub bytes: u64,
    /// Whether recordings are uploaded: what is not in the store yet is then kept as long as there is room.
    pub uploads: bool,
    /// The one that is being uploaded.
    pub held: Option<&'a str>,
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another agent has it.
    #[error(
        "{dir} is in use by {holder}; needed: one agent per folder: stop that one, or name another folder with -o",
        dir = dir.display()
    )]
    Held {
        /// The folder.
        dir: PathBuf,
        /// What the lock says of the other agent.
        holder: String,
    },
    /// It cannot be written to.
    #[error(transparent)]
    Output(#[from] pagelab_output::Error),
    /// A system call failed.
    #[error("{path}: {error}", path = path.display())]
    System {
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
}

/// What was found when the folder was opened.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The memory of the agent before.
    pub memory: Memory,
    /// Recordings that a kill has cut: names.
    pub cut: Vec<String>,
    /// Recordings of others.
    pub foreign: usize,
    /// Recordings of a flight recorder that was killed with its agent: names in `.agent`.
    pub flights: Vec<String>,
}

/// The folder, held and locked.
#[derive(Debug)]
pub(crate) struct Store {
    folder: Folder,
    own: Folder,
    journal: Journal,
    entries: BTreeMap<String, Entry>,
    /// Those that are being made, with their recorder.
    making: BTreeMap<String, (u32, Option<u64>)>,
    _lock: Lock,
}

impl Store {
    /// Opens the folder, or makes it; waits for recorders that a killed agent has left.
    ///
    /// # Errors
    /// Another agent has it, or it is not ours.
    pub(crate) fn open(dir: &Path, host: Option<&str>) -> Result<(Self, Found), StoreError> {
        let folder = Folder::create(dir)?;
        let own = folder.folder_or_new(OWN)?;
        let lock = locked(&folder, &own)?;
        let (journal, memory, known) = Journal::open(&own)?;
        let mut store = Self { folder, own, journal, entries: BTreeMap::new(), making: BTreeMap::new(), _lock: lock };
        let mut found = Found { memory, ..Found::default() };
        wait_for_recorders(&known);
        store.scan(&known, host, &mut found)?;
        store.rewrite_journal();
        Ok((store, found))
    }

    fn scan(
        &mut self,
        known: &BTreeMap<String, Known>,
        host: Option<&str>,
        found: &mut Found,
    ) -> Result<(), StoreError> {
        for day in self.folder.names()?.iter().filter_map(|name| name.to_str()) {
            if day != TRIGGERED && !is_day(day) {
                continue;
            }
            let Ok(folder) = self.folder.folder_any(day) else { continue };
            for name in folder.names()?.iter().filter_map(|name| name.to_str()).filter(|name| is_recording(name)) {
                let recording = format!("{day}/{name}");
                let path = self.path(&recording);
                let before = known.get(&recording).cloned().unwrap_or_default();
                let manifest = if before.complete.is_none() { Manifest::load(&path).ok() } else { None };
                let is_known = known.contains_key(&recording);
                if !is_known && !manifest.as_ref().is_some_and(|manifest| is_of_agent(manifest, host)) {
                    found.foreign += 1;
                    continue;
                }
                let complete = before.complete.unwrap_or_else(|| manifest.is_some_and(|manifest| manifest.complete));
                if before.complete.is_none() && !complete {
                    found.cut.push(recording.clone());
                }
                let made_ns = made_ns(&recording).or_else(|| modified_ns(&path)).unwrap_or(0);
                let entry = Entry { made_ns, bytes: tree_bytes(&path), complete, uploaded: before.uploaded };
                self.entries.insert(recording, entry);
            }
        }
        let own = self.own.names()?;
        found.flights =
            own.iter().filter_map(|name| name.to_str()).filter(|name| is_recording(name)).map(str::to_owned).collect();
        Ok(())
    }

    /// Where a recording is.
    pub(crate) fn path(&self, recording: &str) -> PathBuf {
        self.folder.path().join(recording)
    }

    /// Where a recording of the flight recorder is while it is made.
    pub(crate) fn own_path(&self, name: &str) -> PathBuf {
        self.own.path().join(name)
    }

    /// Whether the path still leads to this folder: recorders are given paths.
    pub(crate) fn is_in_place(&self) -> bool {
        self.folder.is_at_its_path()
    }

    /// Whether somebody has paused the agent.
    pub(crate) fn is_paused(&self) -> bool {
        self.folder.holds(PAUSE).unwrap_or(false)
    }

    /// Bytes that the file system has free for this user.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::fstatvfs(&self.folder).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// A name for a window that begins now; its folder is made.
    ///
    /// # Errors
    /// The disk is full, or the folder is not ours any more.
    pub(crate) fn name_window(&self, real_ns: i64) -> Result<String, StoreError> {
        let time = utc(real_ns);
        let day = time.format("%Y-%m-%d").to_string();
        let folder = self.folder.folder_or_new(&day)?;
        Ok(format!("{day}/{}", unused(&folder, &time.format("%H%M%S").to_string())?))
    }

    /// Notes that a recorder makes this recording.
    pub(crate) fn begun(&mut self, recording: &str, pid: u32) {
        let ticks = began_ticks(pid);
        self.making.insert(recording.to_owned(), (pid, ticks));
        self.note(&Line::Begun { recording: recording.to_owned(), pid, ticks });
    }

    /// Notes that it has ended. Its manifest; none if there is no recording.
    pub(crate) fn ended(&mut self, recording: &str) -> Option<Manifest> {
        self.making.remove(recording);
        let path = self.path(recording);
        let Ok(manifest) = Manifest::load(&path) else {
            self.note(&Line::Removed { recording: recording.to_owned() });
            return None;
        };
        let complete = manifest.complete;
        let made_ns = made_ns(recording).unwrap_or(0);
        self.entries
            .insert(recording.to_owned(), Entry { made_ns, bytes: tree_bytes(&path), complete, uploaded: false });
        self.note(&Line::Ended { recording: recording.to_owned(), complete });
        Some(manifest)
    }

    /// Moves a recording of the flight recorder to its place among the triggered ones. Its name there.
    ///
    /// # Errors
    /// The disk is full, or the folder is not ours any more.
    pub(crate) fn keep_flight(&mut self, name: &str, fired_ns: i64, slug: &str) -> Result<String, StoreError> {
        let folder = self.folder.folder_or_new(TRIGGERED)?;
        let stem = format!("{}-{slug}", utc(fired_ns).format("%Y-%m-%d-%H%M%S"));
        let kept = unused(&folder, &stem)?;
        self.own.rename_new_into(name, &folder, &kept)?;
        Ok(format!("{TRIGGERED}/{kept}"))
    }

    /// Removes a recording of the flight recorder that nobody wants.
    pub(crate) fn drop_flight(&self, name: &str) {
        // What cannot be removed is found and removed at the next start.
        drop(self.own.remove_tree(name));
    }

    /// Bytes of what is being made: windows and the flight recorder's present recording.
    pub(crate) fn making_bytes(&self) -> u64 {
        let windows: u64 = self.making.keys().map(|recording| tree_bytes(&self.path(recording))).sum();
        windows + tree_bytes(self.own.path())
    }

    /// Bytes of all recordings that have ended.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.values().map(|entry| entry.bytes).sum()
    }

    /// Recordings that are not in the store yet, oldest first, and their bytes.
    pub(crate) fn pending(&self) -> Vec<(String, u64)> {
        let mut pending: Vec<(&String, &Entry)> = self.entries.iter().filter(|(_, entry)| !entry.uploaded).collect();
        pending.sort_by_key(|(name, entry)| (entry.made_ns, *name));
        pending.into_iter().map(|(name, entry)| (name.clone(), entry.bytes)).collect()
    }

    /// Bytes of a recording; 0 if there is none.
    pub(crate) fn bytes_of(&self, recording: &str) -> u64 {
        self.entries.get(recording).map_or(0, |entry| entry.bytes)
    }

    /// Whether there is such a recording.
    #[cfg(test)]
    pub(crate) fn has(&self, recording: &str) -> bool {
        self.entries.contains_key(recording)
    }

    /// Notes that everything of it is in the store.
    pub(crate) fn uploaded(&mut self, recording: &str) {
        let Some(entry) = self.entries.get_mut(recording) else { return };
        entry.uploaded = true;
        self.note(&Line::Uploaded { recording: recording.to_owned() });
        self.drop_upload_journal(recording);
    }

    /// Removes what is not to be kept. Names, sizes and reasons.
    pub(crate) fn tidy(&mut self, keep: &Keep<'_>, now_ns: i64) -> Vec<(String, u64, Why)> {
        let mut removed = Vec::new();
        for (recording, why) in surplus(&self.entries, keep, now_ns) {
            let bytes = self.bytes_of(&recording);
            // What could not be removed is tried again at the next tidying.
            if self.remove(&recording).is_ok() {
                removed.push((recording, bytes, why));
            }
        }
        if self.journal.is_long() {
            self.rewrite_journal();
        }
        removed
    }

    fn remove(&mut self, recording: &str) -> Result<(), StoreError> {
        let (day, name) = recording.split_once('/').unwrap_or(("", recording));
        let folder = self.folder.folder_any(day)?;
        if folder.holds(name)? {
            folder.remove_tree(name)?;
        }
        self.drop_upload_journal(recording);
        if day != TRIGGERED {
            // It stays while it holds anything.
            drop(self.folder.remove_folder(day));
        }
        self.entries.remove(recording);
        self.note(&Line::Removed { recording: recording.to_owned() });
        Ok(())
    }

    /// `pagelab-fleet` notes beside a recording what of it is copied: `.041500.rec.upload.jsonl`.
    fn drop_upload_journal(&self, recording: &str) {
        let (day, name) = recording.split_once('/').unwrap_or(("", recording));
        let Ok(folder) = self.folder.folder_any(day) else { return };
        let prefix = format!(".{name}.upload.");
        for name in
            folder.names().unwrap_or_default().iter().filter(|name| name.as_bytes().starts_with(prefix.as_bytes()))
        {
            drop(folder.remove_file(name));
        }
    }

    /// Replaces the memory for the next start.
    ///
    /// # Errors
    /// The disk is full, or the folder is not ours any more.
    pub(crate) fn remember(&self, memory: &Memory) -> Result<(), StoreError> {
        Ok(self.journal.remember(memory)?)
    }

    fn note(&mut self, line: &Line) {
        // See `Journal::note`: nothing depends on a line.
        drop(self.journal.note(line));
    }

    fn rewrite_journal(&mut self) {
        let ended = self.entries.iter().map(|(name, entry)| {
            (name.clone(), Known { recorder: None, complete: Some(entry.complete), uploaded: entry.uploaded })
        });
        let making = self
            .making
            .iter()
            .map(|(name, recorder)| (name.clone(), Known { recorder: Some(*recorder), ..Known::default() }));
        let known = ended.chain(making).collect();
        // The old one holds as well; it is only longer.
        drop(self.journal.rewrite(&known));
    }
}

/// What is to be removed, in this order: what is too old; then, above the size, the oldest of what is in the store (or of all, if nothing
/// is uploaded), and if that is not enough the oldest of what is not.
fn surplus(entries: &BTreeMap<String, Entry>, keep: &Keep<'_>, now_ns: i64) -> Vec<(String, Why)> {
    let mut by_age: Vec<(&String, &Entry)> =
        entries.iter().filter(|(name, _)| keep.held != Some(name.as_str())).collect();
    by_age.sort_by_key(|(name, entry)| (entry.made_ns, *name));
    let is_safe = |entry: &Entry| entry.uploaded || !keep.uploads;
    let is_old = |entry: &Entry| keep.for_ns.is_some_and(|for_ns| now_ns.saturating_sub(entry.made_ns) > for_ns);
    let mut removed: Vec<(String, Why)> = Vec::new();
    let mut bytes: u64 = entries.values().map(|entry| entry.bytes).sum();
    let (old, rest): (Vec<_>, Vec<_>) = by_age.into_iter().partition(|(_, entry)| is_safe(entry) && is_old(entry));
    for (name, entry) in old {
        bytes -= entry.bytes;
        removed.push((name.clone(), Why::Age));
    }
    let (safe, unsafe_yet): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, entry)| is_safe(entry));
    for ((name, entry), why) in safe
        .into_iter()
        .zip(std::iter::repeat(Why::Size))
        .chain(unsafe_yet.into_iter().zip(std::iter::repeat(Why::Lost)))
    {
        if bytes <= keep.bytes {
            break;
        }
        bytes -= entry.bytes;
        removed.push((name.clone(), why));
    }
    removed
}

fn locked(folder: &Folder, own: &Folder) -> Result<Lock, StoreError> {
    let system = |error| StoreError::System { path: own.path_of(LOCK), error };
    let lock = Lock::try_take(own.lock_file(LOCK)?).map_err(|error| match error {
        TryLockError::WouldBlock => StoreError::Held { dir: folder.path().to_owned(), holder: holder(own) },
        TryLockError::Error(error) => system(error),
    })?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let since = utc(Now::read().real_ns).format("%Y-%m-%d %H:%M:%S UTC");
    let holder = format!("the agent with process id {} on {} since {since}\n", std::process::id(), host.trim());
    let mut file = lock.file();
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(holder.as_bytes())).map_err(system)?;
    Ok(lock)
}

/// What the lock file says of who has it.
fn holder(own: &Folder) -> String {
    let mut holder = String::new();
    if let Ok(file) = own.lock_file_existing(LOCK) {
        let _ = file.take(500).read_to_string(&mut holder);
    }
    Some(holder.trim()).filter(|text| !text.is_empty()).unwrap_or("another agent").to_owned()
}

/// Recorders of an agent that was killed close their recordings, which takes about a second.
fn wait_for_recorders(known: &BTreeMap<String, Known>) {
    let end = Instant::now() + CLOSING_TIME;
    let lives = |(pid, ticks): (u32, Option<u64>)| ticks.is_some() && began_ticks(pid) == ticks;
    while known.values().filter_map(|known| known.recorder).any(lives) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_of_agent(manifest: &Manifest, host: Option<&str>) -> bool {
    manifest.label.as_deref().is_some_and(|label| label.starts_with(LABEL)) && manifest.host.as_deref() == host
}

/// A name with this stem that nothing in the folder has.
fn unused(folder: &Folder, stem: &str) -> Result<String, StoreError> {
    let mut name = format!("{stem}.rec");
    let mut number = 1_u32;
    while folder.holds(&name)? {
        number += 1;
        name = format!("{stem}-{number}.rec");
    }
    Ok(name)
}

/// A time in UTC; the epoch for one that no calendar has.
pub(crate) fn utc(real_ns: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_nanos(real_ns)
}

fn is_recording(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending == "rec")
}

fn is_day(name: &str) -> bool {
    name.len() == 10 && chrono::NaiveDate::parse_from_str(name, "%Y-%m-%d").is_ok()
}

/// When a recording was begun, by its name, ns since the epoch.
fn made_ns(recording: &str) -> Option<i64> {
    let (day, name) = recording.split_once('/')?;
    let (day, time) = if day == TRIGGERED { (name.get(..10)?, name.get(11..17)?) } else { (day, name.get(..6)?) };
    let time = NaiveDateTime::parse_from_str(&format!("{day} {time}"), "%Y-%m-%d %H%M%S").ok()?;
    time.and_utc().timestamp_nanos_opt()
}

fn modified_ns(path: &Path) -> Option<i64> {
    fs::symlink_metadata(path).ok().map(|found| found.mtime() * 1_000_000_000 + found.mtime_nsec())
}

/// Bytes that a folder and all in it take on disk. Links are not followed.
pub(crate) fn tree_bytes(path: &Path) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    // Blocks that are not allocated yet will be.
    let own = (found.blocks() * 512).max(if found.is_file() { found.len() } else { 0 });
    if !found.is_dir() {
        return own;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    own + entries.map(|entry| tree_bytes(&entry.path())).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_NS: i64 = 86_400_000_000_000;

    fn entry(day: i64, bytes: u64, uploaded: bool) -> Entry {
        Entry { made_ns: day * DAY_NS, bytes, complete: true, uploaded }
    }

    fn names(found: &[(String, Why)]) -> Vec<(&str, Why)> {
        found.iter().map(|(name, why)| (name.as_str(), *why)).collect()
    }

    fn keep(days: i64, bytes: u64, uploads: bool) -> Keep<'static> {
        Keep { for_ns: Some(days * DAY_NS), bytes, uploads, held: None }
    }

    fn five() -> BTreeMap<String, Entry> {
        (0..5).map(|day| (format!("r{day}"), entry(day, 10, day < 2))).collect()
    }

    #[test]
    fn the_oldest_goes_first_by_age_and_by_size() {
        let all = five();
        assert_eq!(names(&surplus(&all, &keep(7, 50, false), 5 * DAY_NS)), []);
        assert_eq!(names(&surplus(&all, &keep(3, 50, false), 5 * DAY_NS)), [("r0", Why::Age), ("r1", Why::Age)]);
        assert_eq!(names(&surplus(&all, &keep(7, 35, false), 5 * DAY_NS)), [("r0", Why::Size), ("r1", Why::Size)]);
        assert_eq!(
            names(&surplus(&all, &keep(4, 25, false), 5 * DAY_NS)),
            [("r0", Why::Age), ("r1", Why::Size), ("r2", Why::Size)],
            "what is too old makes room already"
        );
        let ages_unknown = Keep { for_ns: None, ..keep(1, 50, false) };
        assert_eq!(names(&surplus(&all, &ages_unknown, 5000 * DAY_NS)), []);
    }

    #[test]
    fn what_is_not_uploaded_goes_last_and_is_lost() {
        let all = five();
        assert_eq!(names(&surplus(&all, &keep(1, 50, true), 5 * DAY_NS)), [("r0", Why::Age), ("r1", Why::Age)]);
        assert_eq!(
            names(&surplus(&all, &keep(7, 15, true), 5 * DAY_NS)),
            [("r0", Why::Size), ("r1", Why::Size), ("r2", Why::Lost), ("r3", Why::Lost)]
        );
        let held = Keep { held: Some("r2"), ..keep(7, 15, true) };
        let found = surplus(&all, &held, 5 * DAY_NS);
        assert!(found.iter().all(|(name, _)| name != "r2"), "{found:?}");
    }

    fn opened(dir: &Path) -> (Store, Found) {
        Store::open(dir, Some("here")).expect("ours")
    }

    /// A folder that looks like a recording of the agent's.
    fn made(dir: &Path, recording: &str, label: &str, bytes: usize) {
        let path = dir.join(recording);
        fs::create_dir_all(path.join("metrics")).expect("ours");
        let manifest = Manifest {
            label: Some(label.to_owned()),
            host: Some("here".to_owned()),
            complete: true,
            ..Manifest::default()
        };
        manifest.rewrite(&path).expect("ours");
        fs::write(path.join("metrics/part-0000.parquet"), vec![1; bytes]).expect("ours");
    }

    fn there(dir: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for day in fs::read_dir(dir).expect("ours").flatten().filter(|day| day.file_name() != OWN) {
            found.extend(
                fs::read_dir(day.path())
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|one| format!("{}/{}", day.file_name().to_string_lossy(), one.file_name().to_string_lossy())),
            );
        }
        found.sort();
        found
    }

    #[test]
    fn retention_holds_on_a_real_folder_and_leaves_what_is_not_ours() {
        let dir = tempfile::tempdir().expect("a folder");
        for second in 0..6 {
            made(dir.path(), &format!("2026-11-26/04150{second}.rec"), "agent: x", 100_000);
        }
        made(dir.path(), "2026-11-20/000000.rec", "agent: x", 1000);
        made(dir.path(), "2026-11-20/000001.rec", "somebody's own", 100_000);
        made(dir.path(), "triggered/2026-11-26-041502-signal.rec", "agent: x", 100_000);
        made(dir.path(), "set/run.rec", "agent: x", 100_000);
        let (mut store, found) = opened(dir.path());
        assert_eq!((found.foreign, found.cut.len(), store.entries.len()), (1, 0, 8));
        let now_ns = made_ns("2026-11-26/041600.rec").expect("a time");
        let limit = store.bytes() / 2;
        let removed = store.tidy(&Keep { for_ns: Some(2 * DAY_NS), bytes: limit, uploads: false, held: None }, now_ns);
        let whys: Vec<Why> = removed.iter().map(|(_, _, why)| *why).collect();
        assert_eq!(whys[0], Why::Age);
        assert!(whys[1..].iter().all(|why| *why == Why::Size) && whys.len() > 2, "{removed:?}");
        assert!(store.bytes() <= limit);
        let left = there(dir.path());
        assert!(
            left.contains(&"2026-11-20/000001.rec".to_owned()) && left.contains(&"set/run.rec".to_owned()),
            "{left:?}"
        );
        assert!(
            !left.contains(&"2026-11-26/041500.rec".to_owned()) && left.contains(&"2026-11-26/041505.rec".to_owned()),
            "{left:?}"
        );
        let on_disk: u64 =
            left.iter().filter(|name| store.has(name)).map(|name| tree_bytes(&dir.path().join(name))).sum();
        assert_eq!(on_disk, store.bytes(), "the books are those of the disk");
        // The same after a restart.
        let (bytes, names) = (store.bytes(), left);
        drop(store);
        let (store, _) = opened(dir.path());
        assert_eq!((store.bytes(), there(dir.path())), (bytes, names));
    }

    #[test]
    fn one_agent_has_the_folder_and_the_second_is_told_which() {
        let dir = tempfile::tempdir().expect("a folder");
        let (store, _) = opened(dir.path());
        let said = Store::open(dir.path(), None).expect_err("it is held").to_string();
        let own = format!("process id {}", std::process::id());
        assert!(said.contains(&own) && said.contains("since 20") && said.contains("-o"), "{said}");
        drop(store);
        drop(opened(dir.path()));
    }

    #[test]
    fn names_are_never_used_twice() {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut store, _) = opened(dir.path());
        let now_ns = made_ns("2026-11-26/041500.rec").expect("a time");
        for expected in ["2026-11-26/041500.rec", "2026-11-26/041500-2.rec", "2026-11-26/041500-3.rec"] {
            let name = store.name_window(now_ns).expect("ours");
            assert_eq!(name, expected);
            assert_eq!(made_ns(&name), Some(now_ns));
            made(dir.path(), &name, "agent: x", 10);
        }
        made(&store.own_path(""), "flight-1.rec", "agent: x", 10);
        let kept = store.keep_flight("flight-1.rec", now_ns, "psi-memory-some").expect("ours");
        assert_eq!(kept, "triggered/2026-11-26-041500-psi-memory-some.rec");
        assert_eq!(made_ns(&kept), Some(now_ns));
        made(&store.own_path(""), "flight-2.rec", "agent: x", 10);
        let kept = store.keep_flight("flight-2.rec", now_ns, "psi-memory-some").expect("ours");
        assert_eq!(kept, "triggered/2026-11-26-041500-psi-memory-some-2.rec");
        assert_eq!(utc(i64::MIN).format("%Y").to_string().len(), 4, "no clock makes it panic");
    }

    #[test]
    #[expect(clippy::used_underscore_binding, reason = "it is only held, but for here")]
    fn a_child_that_has_the_lock_file_open_does_not_keep_the_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let (store, _) = opened(dir.path());
        let of_child = store._lock.file().try_clone().expect("a descriptor of the same opening, as a fork makes one");
        assert!(matches!(Store::open(dir.path(), None), Err(StoreError::Held { .. })));
        drop(store);
        drop(opened(dir.path()));
        drop(of_child);
    }

    #[test]
    fn what_a_kill_cut_is_found_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut store, _) = opened(dir.path());
        let now_ns = made_ns("2026-11-26/041500.rec").expect("a time");
        let name = store.name_window(now_ns).expect("ours");
        store.begun(&name, u32::MAX >> 1);
        made(dir.path(), &name, "agent: x", 10);
        let cut = Manifest { complete: false, ..Manifest::default() };
        cut.rewrite(&store.path(&name)).expect("ours");
        made(&store.own_path(""), "flight-1.rec", "agent: x", 10);
        drop(store);
        let (store, found) = opened(dir.path());
        assert_eq!((found.cut, found.flights), (vec![name.clone()], vec!["flight-1.rec".to_owned()]));
        assert!(store.has(&name), "it is kept, and counts");
        drop(store);
        assert_eq!(opened(dir.path()).1.cut, Vec::<String>::new(), "it was counted before");
    }

    #[test]
    fn what_was_uploaded_is_known_after_a_restart() {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut store, _) = opened(dir.path());
        for second in [1, 0] {
            let name = format!("2026-11-26/04150{second}.rec");
            made(dir.path(), &name, "agent: x", 10);
            store.begun(&name, 1);
            assert!(store.ended(&name).is_some_and(|manifest| manifest.complete));
        }
        assert_eq!(
            store.pending().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["2026-11-26/041500.rec", "2026-11-26/041501.rec"]
        );
        fs::write(dir.path().join("2026-11-26/.041500.rec.upload.jsonl"), "{}").expect("ours");
        store.uploaded("2026-11-26/041500.rec");
        assert!(!there(dir.path()).iter().any(|name| name.contains(".upload.")), "its journal has done its work");
        drop(store);
        let (mut store, _) = opened(dir.path());
        assert_eq!(store.pending().len(), 1);
        assert!(store.ended("2026-11-26/none.rec").is_none());
        assert!(!store.has("2026-11-26/none.rec"));
    }

    #[test]
    fn a_pause_is_seen_and_sizes_are_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let (store, _) = opened(dir.path());
        assert!(!store.is_paused() && store.free_bytes().is_some_and(|bytes| bytes > 0));
        fs::write(dir.path().join(PAUSE), "").expect("ours");
        assert!(store.is_paused());
        let before = store.making_bytes();
        made(&store.own_path(""), "flight-1.rec", "agent: x", 1 << 20);
        assert!(store.making_bytes() >= before + (1 << 20));
    }
}
