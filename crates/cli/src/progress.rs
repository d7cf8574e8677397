//! The progress of an experiment: a bar on a terminal, a line for each run elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use pagelab_experiment::{Event, Progress};
use pagelab_recording::set::RunState;

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
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }
}

impl Progress for Bar {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Ready { dir, to_do, total } => {
                eprintln!("{to_do} of {total} runs to make, into {}", dir.display());
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
                    bar.set_message(run.variant.clone());
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
