//! Marks: a name for an instant, put into all running recordings of a user by `pagelab mark`.
//!
//! Each recorder listens on a datagram socket in a directory that only its user may enter: `/run/pagelab-marks` for root,
//! `pagelab` in the user's runtime directory, or `/tmp/pagelab-UID` where there is neither. Under sudo it listens in the
//! directory of the user who called sudo, too, and its socket in root's directory says for whom. So a mark reaches the recordings
//! of the user who sets it, with sudo or without, and not those that others make with sudo, unless it is meant for all. A mark is
//! one datagram, `mark NS NAME`, with the instant by CLOCK_MONOTONIC; the recorder answers `ok` to the sender's own socket.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::owner::{Caller, with_rights};
use crate::recorder::monotonic_ns;

/// Longest name, bytes.
const MAX_NAME_BYTES: usize = 200;
/// A mark that claims to be older than this was not set by our clock.
const MAX_AGE_NS: i64 = 60_000_000_000;
/// How long the answers may take, all together; a recorder looks 50 times a second.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long to wait for one answer before it is looked whether the recorder has gone.
const LOOK_TIME: Duration = Duration::from_millis(50);
/// How many marks are taken at a time, so that a flood cannot hold the recording up.
const AT_ONCE: usize = 64;
const OK: &[u8] = b"ok";

/// The recorder's sockets.
#[derive(Debug)]
pub(crate) struct Marks(Vec<Ear>);

/// One socket, and whose directory it is in, if that is not this process's user.
#[derive(Debug)]
struct Ear {
    socket: UnixDatagram,
    path: PathBuf,
    caller: Option<Caller>,
}

/// Why a mark was not set.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// The name looks like a time, or cannot be printed.
    #[error(
        "mark {0:?}: needed: a name of 1 to 200 bytes without control characters that is no number, such as warm or phase-2"
    )]
    Name(String),
    /// Nobody listens.
    #[error("no recording of yours runs on this host, so there is nothing to mark; start one: pagelab record ...")]
    NoneRuns,
    /// The system refused something that always works.
    #[error("{step}: {error}")]
    System {
        /// The attempted step.
        step: String,
        /// What the kernel said.
        error: io::Error,
    },
}

fn system(step: impl Into<String>) -> impl FnOnce(io::Error) -> MarkError {
    move |error| MarkError::System { step: step.into(), error }
}

/// Where the sockets of this user's recorders may be, best place first.
fn places() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    places_of(rustix::process::geteuid().as_raw(), runtime)
}

/// The same of any user.
fn places_of(uid: u32, runtime: Option<PathBuf>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if uid == 0 {
        // Not in /run/pagelab, which belongs to the guard: this directory comes and goes.
        places.push(PathBuf::from("/run/pagelab-marks"));
    } else {
        places.extend(runtime.map(|dir| dir.join("pagelab")));
        places.push(PathBuf::from(format!("/run/user/{uid}/pagelab")));
    }
    places.push(PathBuf::from(format!("/tmp/pagelab-{uid}")));
    places.dedup();
    places
}

/// Whether the directory is this user's own and nobody else may enter it: /tmp is open to all.
fn is_ours(dir: &Path, uid: u32) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid && meta.mode() & 0o077 == 0)
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn bind_in(dir: &Path, name: &str, uid: u32) -> io::Result<(UnixDatagram, PathBuf)> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if !is_ours(dir, uid) {
        return Err(io::Error::other(format!("{} is not a directory of this user's alone", dir.display())));
    }
    let path = dir.join(name);
    Ok((UnixDatagram::bind(&path)?, path))
}

/// Leaves nothing behind; the directory goes with the last socket in it.
fn unbind(path: &Path) {
    let _ = fs::remove_file(path);
    if let Some(dir) = path.parent() {
        let _ = fs::remove_dir(dir);
    }
}

impl Ear {
    /// Listens in the first of the places that will do, with the rights of `caller`; `on_behalf` says for whom in the name.
    fn open(places: &[PathBuf], caller: Option<Caller>, on_behalf: Option<u32>) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("record-{}-{number}{}", std::process::id(), ending(on_behalf));
        let uid = caller.as_ref().map_or_else(own_uid, Caller::uid);
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        // Another recorder that ends may take the directory away between two steps: once more then.
        for dir in places.iter().flat_map(|dir| [dir, dir]) {
            match with_rights(caller.as_ref(), || bind_in(dir, &name, uid)) {
                Ok((socket, path)) => {
                    socket.set_nonblocking(true)?;
                    return Ok(Self { socket, path, caller });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn take(&self, ear: usize, marks: &mut Vec<Mark>) {
        let mut buffer = [0_u8; MAX_NAME_BYTES + 64];
        for _ in 0..AT_ONCE {
            let Ok((bytes, sender)) = self.socket.recv_from(&mut buffer) else { return };
            let Some((ts, name)) = read(buffer.get(..bytes).unwrap_or(&[]), monotonic_ns()) else { continue };
            marks.push(Mark { ts, name: name.to_owned(), ear, sender: sender.as_pathname().map(Path::to_owned) });
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        with_rights(self.caller.as_ref(), || unbind(&self.path));
    }
}

impl Marks {
    /// Begins to listen for this process's user and, under sudo, for the calling user.
    pub(crate) fn listen(caller: Option<Caller>) -> io::Result<Self> {
        let own = Ear::open(&places(), None, caller.as_ref().map(Caller::uid));
        let callers = caller.map(|caller| Ear::open(&places_of(caller.uid(), None), Some(caller), None));
        match (own, callers) {
            (Ok(own), callers) => Ok(Self([own].into_iter().chain(callers.and_then(Result::ok)).collect())),
            (Err(_), Some(Ok(callers))) => Ok(Self(vec![callers])),
            (Err(error), _) => Err(error),
        }
    }

    /// The marks that have come since. Their senders wait for [`Marks::answer`].
    pub(crate) fn take(&self) -> Vec<Mark> {
        let mut marks = Vec::new();
        self.0.iter().enumerate().for_each(|(number, ear)| ear.take(number, &mut marks));
        marks
    }

    /// Tells the senders that their marks are in the recording: whoever asks for it next finds them.
    pub(crate) fn answer(&self, marks: &[Mark]) {
        for mark in marks {
            if let (Some(ear), Some(sender)) = (self.0.get(mark.ear), &mark.sender) {
                // A sender that does not wait for it has the mark all the same.
                let _ = ear.socket.send_to(OK, sender);
            }
        }
    }
}

/// A mark that was sent to this recorder.
#[derive(Debug)]
pub(crate) struct Mark {
    /// When it was sent, CLOCK_MONOTONIC.
    pub ts: i64,
    /// Its name.
    pub name: String,
    ear: usize,
    sender: Option<PathBuf>,
}

/// Instant and name of a datagram; an instant that our clock cannot have given is replaced by `now_ns`.
fn read(bytes: &[u8], now_ns: i64) -> Option<(i64, &str)> {
    let (ts, name) = std::str::from_utf8(bytes).ok()?.strip_prefix("mark ")?.split_once(' ')?;
    let ts = ts.parse().ok().filter(|ts| (now_ns - MAX_AGE_NS..=now_ns).contains(ts)).unwrap_or(now_ns);
    is_name(name).then_some((ts, name))
}

/// Whether a mark may have this name: it does not look like a time, and can be printed.
fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control) && name.parse::<f64>().is_err()
}

/// Which running recordings a mark is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// Those of the user who sets it: under sudo, of the user who called sudo.
    Own,
    /// As root also those that others make with sudo.
    All,
}

/// How the name of a socket ends that listens on behalf of a user, or of the user whose directory it is in.
fn ending(on_behalf: Option<u32>) -> String {
    on_behalf.map_or_else(|| ".sock".to_owned(), |uid| format!("-for-{uid}.sock"))
}

/// Recorders in one directory that are to be marked.
struct Listeners {
    dir: PathBuf,
    caller: Option<Caller>,
    /// Only those on behalf of this user; `None`: all.
    #[expect(clippy::option_option, reason = "the inner one is for recorders on nobody's behalf")]
    only: Option<Option<u32>>,
}

impl Listeners {
    /// Where the recorders listen that a mark is for. A recorder that listens in two places is asked in the first.
    fn of(marked: Marked) -> Vec<Self> {
        let caller = Caller::of_sudo();
        let uid = caller.as_ref().map(Caller::uid);
        let callers = caller.into_iter().flat_map(|caller| {
            let places = places_of(caller.uid(), None).into_iter();
            places.map(move |dir| Self { dir, caller: Some(caller.clone()), only: None })
        });
        let only = (marked == Marked::Own).then_some(uid);
        callers.chain(places().into_iter().map(|dir| Self { dir, caller: None, only })).collect()
    }

    fn uid(&self) -> u32 {
        self.caller.as_ref().map_or_else(own_uid, Caller::uid)
    }

    /// Their sockets, but for those of processes that were asked already.
    fn sockets(&self, asked: &[String]) -> Result<Vec<PathBuf>, MarkError> {
        let entries = fs::read_dir(&self.dir).map_err(system(self.dir.display().to_string()))?;
        let is_meant = |name: &str| match self.only {
            None => true,
            Some(Some(uid)) => name.ends_with(&ending(Some(uid))),
            Some(None) => !name.contains("-for-"),
        };
        let mut sockets = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_new = process_of(&name).is_some_and(|process| !asked.iter().any(|one| one == process));
            if is_new && is_meant(&name) {
                sockets.push(entry.path());
            }
        }
        Ok(sockets)
    }

    /// Sends the mark to the recorders; gives the number of those that took it.
    fn ask(&self, recorders: Vec<PathBuf>, text: &str) -> Result<usize, MarkError> {
        let place = || self.dir.display().to_string();
        let name = format!("mark-{}.sock", std::process::id());
        let caller = self.caller.as_ref();
        let (socket, own) = with_rights(caller, || bind_in(&self.dir, &name, self.uid())).map_err(system(place()))?;
        let times = socket.set_read_timeout(Some(LOOK_TIME)).and(socket.set_write_timeout(Some(LOOK_TIME)));
        let taken = if times.is_ok() { with_rights(caller, || ask(&socket, recorders, text.as_bytes())) } else { 0 };
        with_rights(caller, || unbind(&own));
        times.map_err(system("a socket's time limit"))?;
        Ok(taken)
    }
}

/// The process of a recorder's socket, `record-PID-...`.
fn process_of(name: &str) -> Option<&str> {
    name.strip_prefix("record-")?.split_once('-').map(|(process, _)| process)
}

/// Puts a mark into running recordings; gives their number.
pub fn mark(name: &str, marked: Marked) -> Result<usize, MarkError> {
    let text = format!("mark {} {name}", monotonic_ns());
    if !is_name(name) {
        return Err(MarkError::Name(name.to_owned()));
    }
    let (mut taken, mut asked) = (0, Vec::new());
    for listeners in Listeners::of(marked) {
        if !is_ours(&listeners.dir, listeners.uid()) {
            continue;
        }
        let recorders = listeners.sockets(&asked)?;
        if recorders.is_empty() {
            continue;
        }
        let names = recorders.iter().filter_map(|path| path.file_name()?.to_str());
        asked.extend(names.filter_map(process_of).map(str::to_owned).collect::<Vec<_>>());
        taken += listeners.ask(recorders, &text)?;
    }
    if taken == 0 { Err(MarkError::NoneRuns) } else { Ok(taken) }
}

/// Sends the mark to all recorders, then waits for their answers together; gives the number of those that took it.
fn ask(socket: &UnixDatagram, mut recorders: Vec<PathBuf>, text: &[u8]) -> usize {
    recorders.retain(|recorder| send(socket, recorder, text));
    let until = Instant::now() + ANSWER_TIME;
    let mut taken = 0;
    // A recorder that closes its recording does not answer any more, and takes its socket away.
    while !recorders.is_empty() && Instant::now() < until {
        let mut answer = [0_u8; 8];
        match socket.recv_from(&mut answer) {
            Ok((bytes, sender)) if answer.get(..bytes) == Some(OK) => {
                let asked = recorders.len();
                recorders.retain(|recorder| sender.as_pathname() != Some(recorder.as_path()));
                taken += asked - recorders.len();
            }
            Ok(_) => {}
            Err(_) => recorders.retain(|recorder| recorder.exists()),
        }
    }
    taken
}

fn send(socket: &UnixDatagram, recorder: &Path, text: &[u8]) -> bool {
    let sent = socket.send_to(text, recorder);
    if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        // A recorder that was killed left it.
        let _ = fs::remove_file(recorder);
    }
    sent.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_times_or_cannot_be_printed_are_refused() {
        for wrong in ["", "12", "1.5", "-3", "1e3", "a\nb", &"x".repeat(201)] {
            assert!(matches!(mark(wrong, Marked::Own), Err(MarkError::Name(_))), "{wrong:?}");
        }
    }

    #[test]
    fn datagrams_are_read_or_dropped() {
        let now = 100_000_000_000;
        assert_eq!(read(b"mark 99000000000 warm up", now), Some((99_000_000_000, "warm up")));
        assert_eq!(read(b"mark 1 early", now), Some((now, "early")), "no clock of ours said that");
        assert_eq!(read(b"mark x name", now), Some((now, "name")));
        for wrong in [&b"mark"[..], b"mark 5", b"mark 5 7", b"mark 5 \xff", b"stop 5 now", b""] {
            assert_eq!(read(wrong, now), None, "{wrong:?}");
        }
    }

    /// A recorder that ends between the question and its answer was waited for, 5 s each.
    #[test]
    fn nobody_waits_for_recorders_that_have_gone() {
        let tmp = tempfile::tempdir().expect("a directory");
        let recorders = ["a", "b"].map(|name| tmp.path().join(name));
        let sockets = recorders.each_ref().map(|path| UnixDatagram::bind(path).expect("a socket"));
        let (asker, _) = bind_in(&tmp.path().join("own"), "mark", own_uid()).expect("a socket");
        asker.set_read_timeout(Some(LOOK_TIME)).expect("a time limit");
        let leave = std::thread::spawn({
            let recorders = recorders.clone();
            move || {
                sockets[0].recv(&mut [0; 64]).expect("it is asked");
                sockets[1].recv(&mut [0; 64]).expect("it is asked, before the first has answered");
                for path in &recorders {
                    fs::remove_file(path).expect("its own");
                }
            }
        });
        assert_eq!(ask(&asker, recorders.to_vec(), b"mark 1 x"), 0);
        leave.join().expect("both have gone before the asker did");
    }

    #[test]
    fn a_mark_is_taken_by_who_listens_and_nothing_is_left() {
        let marks = Marks::listen(None).expect("a socket");
        let path = marks.0[0].path.clone();
        let dir = path.parent().expect("a directory").to_owned();
        assert!(path.exists() && is_ours(&dir, own_uid()));
        let before = monotonic_ns();
        // A recorder that was killed: its socket is there, nobody reads it.
        let dead = dir.join("record-0-0.sock");
        drop(UnixDatagram::bind(&dead).expect("a socket"));
        let sender = std::thread::spawn(|| mark("half way", Marked::Own));
        let mut taken = Vec::new();
        while !sender.is_finished() {
            let came = marks.take();
            marks.answer(&came);
            taken.extend(came.into_iter().map(|mark| (mark.ts, mark.name)));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(sender.join().expect("the sender").expect("it is taken") >= 1);
        assert_eq!(taken.len(), 1);
        assert!(taken[0].1 == "half way" && (before..=monotonic_ns()).contains(&taken[0].0));
        assert!(!dead.exists(), "what a dead recorder left is cleared away");
        drop(marks);
        assert!(!path.exists());
    }

    #[test]
    fn a_mark_is_for_the_recordings_of_who_sets_it() {
        let tmp = tempfile::tempdir().expect("a directory");
        for name in ["record-7-1.sock", "record-8-1-for-1000.sock", "record-9-2-for-1001.sock", "mark-7.sock", "else"] {
            fs::write(tmp.path().join(name), "").expect("room");
        }
        let found = |only, asked: &[&str]| -> Vec<String> {
            let asked: Vec<String> = asked.iter().map(|one| (*one).to_owned()).collect();
            let listeners = Listeners { dir: tmp.path().to_owned(), caller: None, only };
            let sockets = listeners.sockets(&asked).expect("it can be read");
            let mut names: Vec<String> =
                sockets.iter().filter_map(|path| Some(process_of(path.file_name()?.to_str()?)?.to_owned())).collect();
            names.sort();
            names
        };
        assert_eq!(found(Some(None), &[]), ["7"], "root's own");
        assert_eq!(found(Some(Some(1000)), &[]), ["8"], "those that one user makes with sudo");
        assert_eq!(found(Some(Some(1000)), &["8"]), [""; 0], "asked already, in the user's directory");
        assert_eq!(found(None, &[]), ["7", "8", "9"]);
    }
}
