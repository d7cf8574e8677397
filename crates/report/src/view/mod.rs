//! Views as text for a terminal: a head that every view has, and the body of each.
//!
//! Each file draws one view of [`pagelab_views::view`] and computes nothing: what is not in the view is not shown.

mod block;
mod budget;
mod counters;
mod dax;
mod faults;
mod io;
mod latency;
mod loss;
mod maps;
mod metrics;
mod profile;
mod regions;
mod sched;
mod settings;
mod sides;
mod summary;
mod syscalls;
pub mod table;
mod tasks;

use std::fmt::Write as _;

use pagelab_recording::Span;
use pagelab_views::answer::Answer;
use pagelab_views::view::block::BlockView;
use pagelab_views::view::budget::BudgetView;
use pagelab_views::view::counters::CountersView;
use pagelab_views::view::dax::DaxView;
use pagelab_views::view::faults::FaultsView;
use pagelab_views::view::io::IoView;
use pagelab_views::view::latency::LatencyView;
use pagelab_views::view::loss::LossView;
use pagelab_views::view::maps::MapsView;
use pagelab_views::view::metrics::MetricsView;
use pagelab_views::view::profile::ProfileView;
use pagelab_views::view::regions::RegionsView;
use pagelab_views::view::sched::SchedView;
use pagelab_views::view::settings::SettingsView;
use pagelab_views::view::summary::SummaryView;
use pagelab_views::view::syscalls::SyscallsView;
use pagelab_views::view::syscalls::log::LogView;
use pagelab_views::view::tasks::TasksView;

pub use sides::sides;
pub use syscalls::log_line;

/// A view that can be drawn.
pub trait Page {
    /// The view as text, without its head; empty where there is nothing to show. `start_ns` is the start of the recording
    /// on its own clock.
    fn body(&self, start_ns: i64) -> String;
}

/// The whole page: which recording, whether it is whole, what the reader must know, and the body.
pub fn page<T: Page>(answer: &Answer<T>) -> String {
    let about = &answer.about;
    let mut text = table::clean(&about.recording.to_string_lossy());
    if about.complete {
        text.push_str(": complete\n");
    } else {
        text.push_str(": NOT COMPLETE\n");
        let reason = about.incomplete_reason().unwrap_or(
            "the recorder did not reach its end: at most its last second is missing; exit, end and self cost are not \
             known",
        );
        indented(reason, &mut text);
    }
    if about.span.is_part() {
        indented(&format!("note: {}", span_note(about.span, about.clock_start_ns)), &mut text);
    }
    for note in &answer.notes {
        indented(&format!("note: {note}"), &mut text);
    }
    text.push_str(&answer.data.body(about.clock_start_ns));
    text
}

/// What is left out.
fn span_note(span: Span, start_ns: i64) -> String {
    let at = |ns: i64| format!("{} s", table::seconds(ns.saturating_sub(start_ns)));
    let from = if span.from_ns == i64::MIN { "the start".to_owned() } else { at(span.from_ns) };
    let to = if span.to_ns == i64::MAX { "the end".to_owned() } else { at(span.to_ns) };
    format!(
        "only events from {from} to {to}; tasks, settings and totals of the manifest are those of the whole recording"
    )
}

/// Appends text to `out` in lines behind two blanks.
fn indented(text: &str, out: &mut String) {
    for line in table::wrap(&table::clean(text), table::width() - 2) {
        let _ = writeln!(out, "  {line}");
    }
}

/// The line below a list that was cut; empty if it was not.
pub fn more(shown: usize, total: usize) -> String {
    if shown < total { format!("  {} more of {total}; all: --top 0\n", total - shown) } else { String::new() }
}

impl Page for LogView {
    /// The blank line above the calls, which are drawn by [`log_line`].
    fn body(&self, _: i64) -> String {
        "\n".to_owned()
    }
}

impl Page for SummaryView {
    fn body(&self, start_ns: i64) -> String {
        summary::text(self, start_ns)
    }
}

impl Page for TasksView {
    fn body(&self, start_ns: i64) -> String {
        tasks::text(self, start_ns)
    }
}

impl Page for FaultsView {
    fn body(&self, _: i64) -> String {
        faults::text(self)
    }
}

impl Page for MapsView {
    fn body(&self, start_ns: i64) -> String {
        maps::text(self, start_ns)
    }
}

impl Page for DaxView {
    fn body(&self, _: i64) -> String {
        dax::text(self)
    }
}

impl Page for SyscallsView {
    fn body(&self, _: i64) -> String {
        syscalls::text(self)
    }
}

impl Page for IoView {
    fn body(&self, _: i64) -> String {
        io::text(self)
    }
}

impl Page for BudgetView {
    fn body(&self, _: i64) -> String {
        budget::text(self)
    }
}

impl Page for SchedView {
    fn body(&self, _: i64) -> String {
        sched::text(self)
    }
}

impl Page for ProfileView {
    fn body(&self, _: i64) -> String {
        profile::text(self)
    }
}

impl Page for CountersView {
    fn body(&self, _: i64) -> String {
        counters::text(self)
    }
}

impl Page for MetricsView {
    fn body(&self, start_ns: i64) -> String {
        metrics::text(self, start_ns)
    }
}

impl Page for SettingsView {
    fn body(&self, _: i64) -> String {
        settings::text(self)
    }
}

impl Page for LatencyView {
    fn body(&self, _: i64) -> String {
        latency::text(self)
    }
}

impl Page for BlockView {
    fn body(&self, _: i64) -> String {
        block::text(self)
    }
}

impl Page for RegionsView {
    fn body(&self, start_ns: i64) -> String {
        regions::text(self, start_ns)
    }
}

impl Page for LossView {
    fn body(&self, _: i64) -> String {
        loss::text(self)
    }
}
