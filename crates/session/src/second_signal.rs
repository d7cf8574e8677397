//! A second signal ends the recorder soon, whatever it is doing: the manifest then says that the recording is incomplete, and why.
//!
//! The first signal ends the recording, which is then closed: names are looked up, parts are joined. That takes as long as it
//! takes. Whoever sends a second one does not want to wait for it. A thread waits for that one, and the signals' handler wakes it; until then
//! it costs nothing.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pagelab_host::signals::block_all;
use pagelab_recording::{EndedBy, Manifest};
use rustix::event::{EventfdFlags, eventfd};

use crate::owner::{Caller, with_rights};
use crate::signals;

/// Time that closing has from the second signal on.
const PATIENCE: Duration = Duration::from_secs(2);
/// The part of it that looking up names has.
pub(crate) const PATIENCE_WITH_NAMES: Duration = Duration::from_secs(1);

/// Watches until it is dropped, which is when the recording is closed.
pub(crate) struct Watch {
    wake: OwnedFd,
    closed: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread needs to know.
struct Watched {
    dir: PathBuf,
    caller: Option<Caller>,
    /// Signals that had come before the session.
    before: u32,
}

impl Watch {
    /// Watches over the recording in `dir`. `before` is the number of signals that had come before the session.
    pub(crate) fn begin(dir: &Path, caller: Option<Caller>, before: u32) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
        let read = wake.try_clone()?;
        let (closed, is_closed) = channel();
        let watched = Watched { dir: dir.to_owned(), caller, before };
        let thread = std::thread::Builder::new().name("second-signal".to_owned()).spawn(move || {
            // They are for the thread that records, whose waits they end.
            block_all();
            watched.wait(&read, &is_closed);
        })?;
        signals::wake(Some(wake.as_raw_fd()));
        Ok(Self { wake, closed: Some(closed), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        signals::wake(None);
        self.closed = None;
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Watched {
    fn wait(&self, wake: &OwnedFd, is_closed: &Receiver<()>) {
        let mut count = [0_u8; 8];
        while rustix::io::read(wake, &mut count).is_ok() {
            if signals::count() < self.before.saturating_add(2) {
                match is_closed.try_recv() {
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
                    _ => continue,
                }
            }
            if is_closed.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                self.end();
            }
            return;
        }
    }

    /// Ends the process.
    fn end(&self) {
        let signal = signals::last();
        let reason = format!(
            "a second signal ({signal}) ended the recorder {} s later, while it was closing the recording",
            PATIENCE.as_secs_f32()
        );
        with_rights(self.caller.as_ref(), || give_up(&self.dir, &reason));
        tracing::warn!("{}: {reason}", self.dir.display());
        // SAFETY: ends the process at once: what the other threads are at is given up.
        unsafe { libc::_exit(128 + signal) }
    }
}

/// Writes into the manifest that the recording is incomplete, unless it is complete by now.
fn give_up(dir: &Path, reason: &str) {
    let Ok(mut manifest) = Manifest::load(dir) else { return };
    if manifest.complete {
        return;
    }
    manifest.incomplete_reason.get_or_insert_with(|| reason.to_owned());
    manifest.ended_by.get_or_insert(EndedBy::Signal);
    if let Err(error) = manifest.rewrite(dir) {
        tracing::warn!("{}: {error}", dir.display());
    }
}

#[cfg(test)]
mod tests {
    use pagelab_recording::{RecordingWriter, WriterOptions};

    use super::*;

    #[test]
    fn the_manifest_says_why_a_recording_is_incomplete() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("rec");
        let writer = RecordingWriter::create(&dir, Manifest::default(), WriterOptions::default()).expect("a recording");
        give_up(&dir, "no time");
        let manifest = Manifest::load(&dir).expect("a manifest");
        assert_eq!((manifest.complete, manifest.incomplete_reason.as_deref()), (false, Some("no time")));
        assert_eq!(manifest.ended_by, Some(EndedBy::Signal));
        writer.close(|_| {}).expect("it can be closed");
        give_up(&dir, "no time");
        assert!(Manifest::load(&dir).expect("a manifest").complete, "what is complete stays so");
    }

    #[test]
    fn a_watch_ends_with_the_recording() {
        let watch = Watch::begin(Path::new("/nowhere"), None, u32::MAX - 2).expect("a thread");
        drop(watch);
    }
}
