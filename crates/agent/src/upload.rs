//! Copies recordings into a store, one at a time, by `pagelab-fleet upload`.
//!
//! The folder itself is the spool. Each recording is copied by itself, to `URL/host=NAME/2026-11-26/041500.rec`, so that a copy looks at one
//! recording's files and not at a week's. What is in the store is noted in the journal, and not copied again after a restart; if the
//! note was lost, `pagelab-fleet` finds its own recording at that place and writes the same files once more.
//!
//! A recording whose copy fails goes to the end of the queue, and the next try waits 10 s, twice as long after each failure up to 15
//! minutes. After `upload-tries` of its own a recording is given up until the next start.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use rustix::process::Signal;

use crate::child::{Ended, Running};

const S: i64 = 1_000_000_000;
/// Pause after the first failure.
const FIRST_PAUSE_NS: i64 = 10 * S;
/// Longest pause.
const LONGEST_PAUSE_NS: i64 = 900 * S;
/// Hosts that record the same seconds upload within this time, each at its own place in it.
const SPREAD_NS: i64 = 10 * S;
/// Seconds that `pagelab-fleet` itself tries on.
const PATIENCE_S: &str = "60";

/// What became of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Copied {
    /// It is in the store.
    Done(String),
    /// It will be tried again; the reason.
    Failed(String, String),
    /// It will not; the reason.
    GivenUp(String, String),
}

#[derive(Debug)]
struct Waiting {
    recording: String,
    tries: u32,
}

/// The queue and the copy that runs.
#[derive(Debug)]
pub(crate) struct Uploader {
    url: String,
    most_tries: u32,
    spread_ns: i64,
    queue: VecDeque<Waiting>,
    running: Option<(Waiting, Running)>,
    /// CLOCK_BOOTTIME.
    not_before_ns: i64,
    pause_ns: i64,
}

impl Uploader {
    /// Copies of this host to below `url`.
    pub(crate) fn new(url: &str, host: &str, most_tries: u32) -> Self {
        let mut hasher = DefaultHasher::new();
        host.hash(&mut hasher);
        let spread_ns = (hasher.finish() % SPREAD_NS as u64) as i64;
        Self {
            url: format!("{url}/host={host}"),
            most_tries,
            spread_ns,
            queue: VecDeque::new(),
            running: None,
            not_before_ns: i64::MIN,
            pause_ns: FIRST_PAUSE_NS,
        }
    }

    /// Puts a recording that has ended at the end of the queue.
    pub(crate) fn add(&mut self, recording: &str, now_ns: i64) {
        if self.queue.is_empty() && self.running.is_none() {
            self.not_before_ns = self.not_before_ns.max(now_ns + self.spread_ns);
        }
        self.queue.push_back(Waiting { recording: recording.to_owned(), tries: 0 });
    }

    /// The recording that is being copied.
    pub(crate) fn held(&self) -> Option<&str> {
        self.running.as_ref().map(|(waiting, _)| waiting.recording.as_str())
    }

    /// Takes a recording that was removed out of the queue.
    pub(crate) fn forget(&mut self, recording: &str) {
        self.queue.retain(|waiting| waiting.recording != recording);
    }

    /// Takes the end of a copy, and starts the next one when it is time.
    pub(crate) fn step(&mut self, now_ns: i64, fleet: &Path, dir: &Path) -> Option<Copied> {
        if let Some((waiting, mut running)) = self.running.take() {
            let Some(ended) = running.ended() else {
                self.running = Some((waiting, running));
                return None;
            };
            return Some(self.judge(waiting, &ended, now_ns));
        }
        if now_ns < self.not_before_ns {
            return None;
        }
        let waiting = self.queue.pop_front()?;
        match Running::start(fleet, &self.words(dir, &waiting.recording)) {
            Ok(running) => self.running = Some((waiting, running)),
            Err(error) => return Some(self.failed(waiting, format!("{}: {error}", fleet.display()), now_ns)),
        }
        None
    }

    fn words(&self, dir: &Path, recording: &str) -> Vec<OsString> {
        let from = dir.join(recording).into_os_string();
        vec!["upload".into(), from, format!("{}/{recording}", self.url).into(), "--patience".into(), PATIENCE_S.into()]
    }

    fn judge(&mut self, waiting: Waiting, ended: &Ended, now_ns: i64) -> Copied {
        if ended.status.success() {
            self.pause_ns = FIRST_PAUSE_NS;
            return Copied::Done(waiting.recording);
        }
        let said = ended.said.last().map_or_else(|| ended.status.to_string(), Clone::clone);
        self.failed(waiting, said, now_ns)
    }

    fn failed(&mut self, mut waiting: Waiting, reason: String, now_ns: i64) -> Copied {
        self.not_before_ns = now_ns.saturating_add(self.pause_ns);
        self.pause_ns = (self.pause_ns * 2).min(LONGEST_PAUSE_NS);
        waiting.tries += 1;
        let recording = waiting.recording.clone();
        if waiting.tries >= self.most_tries {
            return Copied::GivenUp(recording, reason);
        }
        self.queue.push_back(waiting);
        Copied::Failed(recording, reason)
    }

    /// Asks the copy that runs to end; what it has copied stays.
    pub(crate) fn stop(&mut self) {
        if let Some((_, running)) = &self.running {
            running.signal(Signal::TERM);
        }
    }

    /// Ends the copy that runs if it has not ended by itself.
    pub(crate) fn close(&mut self) {
        if let Some((_, mut running)) = self.running.take()
            && running.ended().is_none()
        {
            running.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, Instant};

    use super::*;

    /// A stand-in for `pagelab-fleet` that notes its words and ends as `status` says.
    fn fleet(dir: &Path, status: &str) -> std::path::PathBuf {
        let path = dir.join("fleet");
        let script =
            format!("#!/bin/sh\necho \"$@\" >> {}/words\necho no such bucket >&2\nexit {status}\n", dir.display());
        // By another process: what a test beside starts at that moment would hold the script open for writing.
        let made =
            std::process::Command::new("sh").args(["-c", "printf %s \"$0\" > \"$1\""]).arg(script).arg(&path).status();
        assert!(made.expect("sh").success());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
        path
    }

    fn next(uploader: &mut Uploader, now_ns: i64, fleet: &Path) -> Option<Copied> {
        let end = Instant::now() + Duration::from_secs(10);
        assert_eq!(uploader.step(now_ns, fleet, Path::new("/d")), None, "it begins");
        while uploader.held().is_some() && Instant::now() < end {
            // The reader of its words may be behind its end.
            std::thread::sleep(Duration::from_millis(50));
            if let Some(copied) = uploader.step(now_ns, fleet, Path::new("/d")) {
                return Some(copied);
            }
        }
        None
    }

    #[test]
    fn recordings_are_copied_in_order_each_by_itself() {
        let dir = tempfile::tempdir().expect("a folder");
        let fleet = fleet(dir.path(), "0");
        let mut uploader = Uploader::new("s3://b/p", "db1", 3);
        uploader.add("2026-11-26/041500.rec", 0);
        uploader.add("triggered/x.rec", 0);
        assert_eq!(uploader.step(-1, &fleet, Path::new("/d")), None);
        assert!(uploader.held().is_none(), "each host waits for its place");
        assert_eq!(next(&mut uploader, SPREAD_NS, &fleet), Some(Copied::Done("2026-11-26/041500.rec".to_owned())));
        assert_eq!(next(&mut uploader, SPREAD_NS, &fleet), Some(Copied::Done("triggered/x.rec".to_owned())));
        assert_eq!(next(&mut uploader, SPREAD_NS, &fleet), None);
        let words = std::fs::read_to_string(dir.path().join("words")).expect("it was run");
        assert_eq!(
            words.lines().next(),
            Some("upload /d/2026-11-26/041500.rec s3://b/p/host=db1/2026-11-26/041500.rec --patience 60")
        );
    }

    #[test]
    fn what_fails_waits_longer_each_time_and_is_given_up_in_the_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let fleet = fleet(dir.path(), "1");
        let mut uploader = Uploader::new("s3://b", "db1", 2);
        uploader.add("a.rec", -SPREAD_NS);
        uploader.add("b.rec", -SPREAD_NS);
        let said = || "no such bucket".to_owned();
        assert_eq!(next(&mut uploader, 0, &fleet), Some(Copied::Failed("a.rec".to_owned(), said())));
        assert_eq!(next(&mut uploader, 9 * S, &fleet), None, "10 s");
        assert_eq!(
            next(&mut uploader, 10 * S, &fleet),
            Some(Copied::Failed("b.rec".to_owned(), said())),
            "the other one's turn"
        );
        assert_eq!(next(&mut uploader, 29 * S, &fleet), None, "20 s");
        assert_eq!(next(&mut uploader, 30 * S, &fleet), Some(Copied::GivenUp("a.rec".to_owned(), said())));
        uploader.forget("b.rec");
        assert_eq!(next(&mut uploader, 10_000 * S, &fleet), None, "it was removed meanwhile");
        uploader.add("c.rec", 0);
        let missing = dir.path().join("none");
        let Some(Copied::Failed(name, why)) = uploader.step(20_000 * S, &missing, Path::new("/d")) else {
            panic!("no program")
        };
        assert!(name == "c.rec" && why.contains("none"), "{why}");
        for _ in 0..100 {
            uploader.failed(Waiting { recording: String::new(), tries: 0 }, String::new(), 0);
        }
        assert_eq!(uploader.pause_ns, LONGEST_PAUSE_NS);
    }
}
