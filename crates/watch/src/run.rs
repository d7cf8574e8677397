//! The session, and the thread that shows what it sees.

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagelab_observe::streams::StreamSet;
use pagelab_session::{Ended, Output, SessionError, SessionOptions, run_watched};
use rustix::process::{Signal, getpid, kill_process};

use crate::lines;
use crate::onlooker::{Message, Onlooker, ROOM};
use crate::options::{How, Options};
use crate::place::Place;
use crate::screen;

/// Why nothing can be watched.
#[derive(Debug)]
pub enum WatchError {
    /// The session refuses.
    Session(SessionError),
    /// The system refused something that always works.
    System(io::Error),
}

/// How it ended.
#[derive(Debug)]
pub struct Outcome {
    /// How the command ended, if it was one of ours.
    pub ended: Option<Ended>,
    /// The last line of a command's output, where that was not shown.
    pub last_line: Option<String>,
    /// Where the recording is, if it is kept.
    pub kept: Option<std::path::PathBuf>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Asks the session to end, as Ctrl-C does: a command gets the signal, too, and a second one leaves it.
fn ask_to_end() {
    // It is our own process: there is nothing that the kernel could refuse.
    let _ = kill_process(getpid(), Signal::INT);
}

/// Watches the target until it ends, the time is over, or the user has seen enough.
pub fn watch(options: &Options) -> Result<Outcome, WatchError> {
    let place = Place::new(options.out.as_ref()).map_err(WatchError::System)?;
    let session = session(options, &place);
    let (to, from) = sync_channel(ROOM);
    if options.how == How::Screen {
        leave_standard_input().map_err(WatchError::System)?;
    }
    let shown = show(options, from).map_err(WatchError::System)?;
    // The session drops the onlooker, and with it the channel: the thread ends.
    let watched = run_watched(&session, Box::new(Onlooker::new(to, options.bpf_stats)));
    end_of_show(shown);
    let outcome = watched.map_err(WatchError::Session)?;
    let kept = matches!(place, Place::Kept(_)).then_some(outcome.dir);
    Ok(Outcome { ended: outcome.ended, last_line: outcome.last_line, kept, warnings: outcome.warnings })
}

/// How long the last second may take to be shown. A terminal that has gone away may never take it.
const LAST_SHOWN: Duration = Duration::from_secs(1);

fn end_of_show(shown: JoinHandle<()>) {
    let began = Instant::now();
    while !shown.is_finished() && began.elapsed() < LAST_SHOWN {
        std::thread::sleep(Duration::from_millis(5));
    }
    if shown.is_finished() {
        // A thread that panicked has put the terminal back and said so.
        let _ = shown.join();
    }
}

fn session(options: &Options, place: &Place) -> SessionOptions {
    let mut session = SessionOptions::new(options.target.clone(), place.path().to_owned());
    session.streams = StreamSet::parse(place.streams()).unwrap_or_default();
    session.keep_last = place.keep_last();
    session.duration = options.duration;
    session.bpf_stats = options.bpf_stats;
    match options.how {
        How::Screen => session.output = Output::Hidden,
        How::Lines | How::Json => session.stdout_to_stderr = true,
    }
    session
}

/// Keys are ours and not the command's: those are read from the terminal itself.
fn leave_standard_input() -> io::Result<()> {
    let nothing = std::fs::File::open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdin(&nothing)?)
}

fn show(options: &Options, from: Receiver<Message>) -> io::Result<JoinHandle<()>> {
    let (how, plain, target) = (options.how, options.plain, options.target_words());
    let thread = std::thread::Builder::new().name("show".to_owned());
    thread.spawn(move || {
        let shown = match how {
            How::Screen => screen::show(&from, target, plain, ask_to_end),
            How::Lines => lines::write(&from, io::stdout().lock(), false),
            How::Json => lines::write(&from, io::stdout().lock(), true),
        };
        if shown.is_err() {
            // Nobody sees it any more.
            ask_to_end();
        }
    })
}
