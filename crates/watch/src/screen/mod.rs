//! The terminal: takes keys, and draws each second.
//!
//! The terminal is entered when the target is there, and put back when the channel ends, on errors, and on panics of any thread
//! (ratatui's hook). Signals end the session, which ends the channel.

mod draw;
mod panels;
mod view;

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::onlooker::Message;
use view::{Asked, View};

/// How long a key may wait for the next look at the channel, and a second for its picture.
const LOOK: Duration = Duration::from_millis(100);

/// The terminal while it is ours.
struct Entered(DefaultTerminal);

impl Entered {
    fn new() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows each second until there are no more. `ask_to_end` is for who has seen enough.
pub(crate) fn show(from: &Receiver<Message>, target: String, plain: bool, ask_to_end: fn()) -> io::Result<()> {
    let mut view = View::new(target, plain);
    // Until there is something to show, what goes wrong is said in the terminal as it was.
    if from.recv().is_err() {
        return Ok(());
    }
    let mut entered = Entered::new()?;
    let mut is_stale = true;
    loop {
        loop {
            match from.try_recv() {
                Ok(Message::Begun) => {}
                Ok(Message::Second(second)) => {
                    view.take(*second);
                    is_stale = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        if is_stale {
            entered.0.draw(|frame| draw::draw(frame, &view))?;
            is_stale = false;
        }
        is_stale |= keys(&mut view, &mut entered.0, ask_to_end)?;
    }
}

/// Whether the terminal has gone away: a look for keys would find it ready for ever, and never have one.
fn has_gone() -> io::Result<bool> {
    let stdout = io::stdout();
    let mut looked = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut looked, Some(&Timespec::default()))?;
    Ok(looked.iter().any(|one| one.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)))
}

/// Waits for a key, a resize, or until it is time to look again; true if there is something to draw.
fn keys(view: &mut View, terminal: &mut DefaultTerminal, ask_to_end: fn()) -> io::Result<bool> {
    if has_gone()? {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    if !event::poll(LOOK)? {
        return Ok(false);
    }
    match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => match view.key(key) {
            Asked::Nothing => {}
            Asked::Redraw => terminal.clear()?,
            Asked::End => ask_to_end(),
        },
        _ => {}
    }
    Ok(true)
}
