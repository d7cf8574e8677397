//! The progress of an experiment: a line for each run on a terminal. The progress of a recording: a line on a terminal,
//! written over once a second.
//!
//! What a recorded command prints goes to the same terminal, and nobody knows when. A line that is written over would be
//! glued to it; so there is none while a command runs, and an experiment ends each of its lines.

use std::time::Instant;

use indicatif::{BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use pagelab_experiment::{Event, Progress};
use pagelab_recording::set::RunState;

use crate::say;

/// Shows events on standard error.
pub(crate) struct Bar {
    on_terminal: bool,
    began: Instant,
    /// Runs to make, and made.
    to_do: usize,
    made: usize,
}

impl Bar {
    /// Nothing has been shown yet.
    pub(crate) fn new() -> Self {
        let on_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        Self { on_terminal, began: Instant::now(), to_do: 0, made: 0 }
    }

    /// How long the rest takes, if it goes on as it has so far.
    fn left(&self) -> String {
        if self.made == 0 {
            return String::new();
        }
        let each = self.began.elapsed() / u32::try_from(self.made).unwrap_or(u32::MAX);
        let left = each * u32::try_from(self.to_do.saturating_sub(self.made)).unwrap_or(u32::MAX);
        format!(", about {} left", HumanDuration(left))
    }
}

impl Progress for Bar {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Ready { dir, to_do, total } => {
                say!("{to_do} of {total} runs to make, into {}", dir.display());
                (self.began, self.to_do) = (Instant::now(), *to_do);
            }
            Event::Begins { run, number, total } => {
                if self.on_terminal {
                    say!("run {number} of {total}: {} {}{}", run.variant, run.run, self.left());
                } else {
                    tracing::info!("run {number} of {total}: {} {}", run.variant, run.run);
                }
            }
            Event::Ended { run, number, total } => {
                if let RunState::Failed { reason } = &run.state {
                    say!("run {number} of {total} ({} {}) failed: {reason}", run.variant, run.run);
                }
                self.made += 1;
            }
            Event::Note(note) => say!("note: {note}"),
        }
    }
}

/// How a recording goes, in one line of a terminal that is written over once a second and gone in the end.
pub(crate) struct Line {
    bar: Option<ProgressBar>,
}

impl Line {
    /// A line; none where standard error is no terminal, or nothing is to be shown: also where a command writes to the
    /// same terminal.
    pub(crate) fn new(hidden: bool) -> Self {
        let shown = !hidden && std::io::IsTerminal::is_terminal(&std::io::stderr());
        Self { bar: shown.then(ProgressBar::no_length) }
    }

    /// Shows where the recording is.
    pub(crate) fn show(&self, progress: &pagelab_session::Progress) {
        let Some(bar) = &self.bar else { return };
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        bar.set_message(line(progress));
        bar.tick();
    }
}

fn line(progress: &pagelab_session::Progress) -> String {
    format!(
        "recording: {}, {} events/s, {} lost, {}",
        HumanDuration(std::time::Duration::from_secs(progress.elapsed.as_secs())),
        HumanCount(progress.events_per_s),
        HumanCount(progress.lost),
        BinaryBytes(progress.bytes)
    )
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_line_says_time_rate_loss_and_size() {
        let progress = pagelab_session::Progress {
            elapsed: Duration::from_millis(12_345),
            events: 5,
            events_per_s: 1_234_567,
            lost: 3,
            bytes: 5 << 20,
        };
        assert_eq!(line(&progress), "recording: 12 seconds, 1,234,567 events/s, 3 lost, 5.00 MiB");
    }
}
