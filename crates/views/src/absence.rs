//! Why a recording has no rows of something: nobody looked, somebody looked and saw none, what was seen was lost, left out or is gone.
//!
//! Every view, `explain`, the page and MCP take the state and its sentence from here; the words are those of `vocab::absence`.

use pagelab_recording::{Probe, ProbeState, Recording, Result};
use pagelab_vocab::absence::Absence;
use pagelab_vocab::streams::Stream;
use pagelab_vocab::terminal::shell_path;

use crate::read::{Counts, counts_of};

/// Why a recording has no rows of a stream. `what` is what rows are called, in the plural.
pub fn absence(recording: &Recording, stream: Stream, what: &str, notes: &mut Vec<String>) -> Result<Absence> {
    let counts = counts_of(recording, stream.name(), notes)?;
    if let Some(gone) = gone(stream.name(), what, counts) {
        return Ok(gone);
    }
    let (what, name) = (what.to_owned(), stream.name().to_owned());
    let probe = recording.manifest().probes.iter().find(|probe| probe.name == stream.name());
    Ok(match probe {
        Some(probe) if probe.state == ProbeState::Refused => Absence::NotPermitted {
            what: format!("no {what} were recorded: {name} was refused"),
            reason: probe.reason.clone().unwrap_or_else(|| "no reason is recorded".to_owned()),
            fix: probe.fix.clone(),
        },
        Some(probe) => match lacking(recording, probe) {
            Some(seen) => Absence::Missing { what, stream: name, seen },
            None => Absence::NoneSeen { what, stream: name },
        },
        None => Absence::NotRecorded { what, observe: asked_for(stream) },
    })
}

/// The state in a sentence, with what to look at next.
pub fn sentence(recording: &Recording, absence: &Absence) -> String {
    let dir = shell_path(recording.dir());
    let next = match absence {
        Absence::AllLost { .. } => format!("; when: pagelab show {dir} loss"),
        Absence::LeftOut { .. } => format!("; what for: pagelab show {dir} summary"),
        Absence::Missing { .. } => format!("; what is missing: pagelab check {dir}"),
        _ => String::new(),
    };
    format!("{absence}{next}")
}

/// Notes why a view has no rows, and gives that.
pub(crate) fn none_recorded(
    recording: &Recording,
    stream: Stream,
    what: &str,
    notes: &mut Vec<String>,
) -> Result<Absence> {
    let absence = absence(recording, stream, what, notes)?;
    notes.push(sentence(recording, &absence));
    Ok(absence)
}

/// Notes why a view has no rows of a table that no stream fills; `otherwise` says who would have filled it.
pub(crate) fn no_rows_of(
    recording: &Recording,
    name: &str,
    what: &str,
    otherwise: String,
    notes: &mut Vec<String>,
) -> Result<()> {
    let counts = counts_of(recording, name, notes)?;
    notes.push(gone(name, what, counts).map_or(otherwise, |gone| sentence(recording, &gone)));
    Ok(())
}

/// A note if a view has no rows, saying why: nothing recorded, or nothing selected. `what` is what rows are called.
pub fn nothing(
    recording: &Recording,
    stream: Stream,
    what: &str,
    all: u64,
    selected: u64,
    notes: &mut Vec<String>,
) -> Result<()> {
    if all > 0 {
        if selected == 0 {
            notes.push(format!("none of the {all} {what} is selected"));
        }
        return Ok(());
    }
    none_recorded(recording, stream, what, notes).map(drop)
}

/// What `--observe` takes to record a stream beside what is recorded anyway.
pub(crate) fn asked_for(stream: Stream) -> String {
    if stream.is_default() { "default".to_owned() } else { format!("default,{stream}") }
}

/// Where the rows are of which a recording has none, if some were seen.
fn gone(name: &str, what: &str, counts: Counts) -> Option<Absence> {
    let Counts { seen, lost, filtered } = counts;
    let (what, stream) = (what.to_owned(), name.to_owned());
    match (lost, filtered) {
        (0, 0) => None,
        (0, filtered) => Some(Absence::LeftOut { what, stream, filtered }),
        (lost, filtered) => Some(Absence::AllLost { what, stream, seen, lost, filtered }),
    }
}

/// Events of a probe that must have rows, of which there are none: more were seen than were lost. Nothing is said of a part of the
/// time, in which there may be none.
fn lacking(recording: &Recording, probe: &Probe) -> Option<u64> {
    if recording.span().is_part() {
        return None;
    }
    let seen = probe.events_seen?;
    (seen > probe.events_lost.unwrap_or(0)).then_some(seen)
}
