//! The progress of an experiment: a bar on a terminal, a line for each run elsewhere. The progress of a recording: a line
//! on a terminal.

use indicatif::{BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use pagelab_experiment::{Event, Progress};
use pagelab_recording::set::RunState;
use pagelab_vocab::terminal::escape;

use crate::print;

/// Shows events on standard error.
pub struct Bar {
    bar: Option<ProgressBar>,
    on_terminal: bool,
}

impl Bar {
    /// A bar that shows nothing yet.
    pub fn new() -> Self {
        Self { bar: None, on_terminal: std::io::IsTerminal::is_terminal(&std::io::stderr()) }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(escape(line)),
            None => print::note(line),
        }
    }
}

impl Progress for Bar {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Ready { dir, to_do, total } => {
                print::note(format_args!("{to_do} of {total} runs to make, into {}", dir.display()));
                if self.on_terminal {
                    let bar = ProgressBar::new(*to_do as u64);
                    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} {eta} left") {
                        bar.set_style(style);
                    }
                    self.bar = Some(bar);
                }
            }
            Event::Begins { run, number, total } => {
                if let Some(bar) = &self.bar {
                    bar.set_message(escape(&run.variant));
                } else {
                    tracing::info!("run {number} of {total}: {} {}", run.variant, run.run);
                }
            }
            Event::Ended { run, number, total } => {
                if let RunState::Failed { reason } = &run.state {
                    self.say(&format!("run {number} of {total} ({} {}) failed: {reason}", run.variant, run.run));
                }
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
            }
            Event::Note(note) => self.say(&format!("note: {note}")),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How a recording goes, in one line of a terminal that is written over once a second and gone in the end.
pub struct Line {
    bar: Option<ProgressBar>,
}

impl Line {
    /// A line; none where standard error is no terminal, or nothing is to be shown.
    pub fn new(hidden: bool) -> Self {
        let shown = !hidden && std::io::IsTerminal::is_terminal(&std::io::stderr());
        Self { bar: shown.then(ProgressBar::no_length) }
    }

    /// Shows where the recording is.
    pub fn show(&self, progress: &pagelab_session::Progress) {
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
