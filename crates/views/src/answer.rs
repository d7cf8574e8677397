//! The common part of every view's answer: the recording it is about, and the notes a reader must know.

use std::path::PathBuf;

use pagelab_recording::{Recording, Span};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Result, ViewError};

/// Key of the manifest that says why a recording is not complete.
const INCOMPLETE_REASON: &str = "incomplete_reason";

/// The answer of one view to one question.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    /// The rows, typed.
    pub data: T,
    /// Notes a reader of the rows must know: events left out, lost or not recorded.
    pub notes: Vec<String>,
    /// The recording that was asked.
    pub about: About,
}

/// What a reader must know of the recording whatever was asked.
#[derive(Debug, Clone)]
pub struct About {
    /// Name of the view.
    pub view: &'static str,
    /// The recording's directory.
    pub recording: PathBuf,
    /// Whether its recorder reached a clean end.
    pub complete: bool,
    /// Why not, and what is missing, by the manifest's keys.
    pub reasons: Vec<(&'static str, Value)>,
    /// Start of the recording on its own clock, ns.
    pub clock_start_ns: i64,
    /// The part of the time that was asked about.
    pub span: Span,
}

impl About {
    /// Why the recording is not complete, if its manifest says so.
    pub fn incomplete_reason(&self) -> Option<&str> {
        self.reasons.iter().find(|(key, _)| *key == INCOMPLETE_REASON).and_then(|(_, reason)| reason.as_str())
    }
}

impl<T> Answer<T> {
    /// The answer of `view`, made of `recording`.
    pub fn new(view: &'static str, recording: &Recording, mut notes: Vec<String>, data: T) -> Self {
        let manifest = recording.manifest();
        let of_recording = manifest.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>();
        notes.splice(0..0, of_recording);
        let mut reasons = Vec::new();
        if let Some(reason) = &manifest.incomplete_reason {
            reasons.push((INCOMPLETE_REASON, Value::from(reason.as_str())));
        }
        if !manifest.rows_dropped.is_empty() {
            let dropped = manifest.rows_dropped.iter().map(|(table, rows)| (table.clone(), Value::from(*rows)));
            reasons.push(("rows_dropped", Value::Object(dropped.collect())));
        }
        let about = About {
            view,
            recording: recording.dir().to_owned(),
            complete: manifest.complete,
            reasons,
            clock_start_ns: manifest.clock.start_ns,
            span: recording.span(),
        };
        Self { data, notes, about }
    }
}

impl<T: Serialize> Answer<T> {
    /// The document that `--json` prints: the data's own keys, and those that every view has.
    ///
    /// # Errors
    /// The data do not serialise, which is a defect of the view.
    pub fn document(&self) -> Result<Value> {
        let mut json = serde_json::to_value(&self.data).map_err(|error| ViewError::Document(error.to_string()))?;
        let Value::Object(fields) = &mut json else { return Ok(json) };
        let about = &self.about;
        fields.insert("view".to_owned(), about.view.into());
        fields.insert("recording".to_owned(), about.recording.to_string_lossy().into());
        fields.insert("complete".to_owned(), about.complete.into());
        for (key, reason) in &about.reasons {
            fields.insert((*key).to_owned(), reason.clone());
        }
        fields.insert("clock_start_ns".to_owned(), about.clock_start_ns.into());
        fields.insert("notes".to_owned(), self.notes.as_slice().into());
        Ok(json)
    }
}
