//! The fault fields of the recordings: made when they are first asked for, the last few kept.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pagelab_recording::Recording;
use pagelab_views::faultfield::{FaultField, Seen, Window};
use serde::Serialize;

/// Fields kept: each takes up to 50 MB, and 12 bytes for every slot.
const KEPT: usize = 4;

/// A recording and its field; none where no fault was recorded.
struct Known {
    dir: PathBuf,
    recording: Recording,
    field: Option<FaultField>,
    notes: Vec<String>,
}

/// The fields made so far, the one used last in front.
#[derive(Default)]
pub(crate) struct Fields {
    known: Mutex<VecDeque<Arc<Known>>>,
}

/// What a page must know to draw a field; null figures where no fault was recorded.
#[derive(Debug, Serialize)]
pub(crate) struct About {
    dir: String,
    faults: u64,
    slots: usize,
    span_ns: i64,
    huge_bytes: u64,
    notes: Vec<String>,
}

impl Fields {
    /// What the field of a recording is like.
    pub(crate) fn about(&self, dir: &Path) -> Result<About, String> {
        let known = self.of(dir)?;
        let field = known.field.as_ref();
        Ok(About {
            dir: dir.display().to_string(),
            faults: field.map_or(0, FaultField::faults),
            slots: field.map_or(0, FaultField::height),
            span_ns: field.map_or(0, FaultField::span_ns),
            huge_bytes: field.map_or(0, FaultField::huge_bytes),
            notes: known.notes.clone(),
        })
    }

    /// The picture of a window.
    pub(crate) fn see(&self, dir: &Path, window: &Window) -> Result<Seen, String> {
        let known = self.of(dir)?;
        let field = known.field.as_ref().ok_or("found no recorded faults; needed a recording of the stream faults")?;
        field.see(&known.recording, window).map_err(|error| error.to_string())
    }

    /// The field of a recording. One is made at a time: it takes both of two processors.
    fn of(&self, dir: &Path) -> Result<Arc<Known>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.iter().position(|one| one.dir == dir)
            && let Some(one) = known.remove(place)
        {
            known.push_front(one.clone());
            return Ok(one);
        }
        let recording = Recording::open(dir).map_err(|error| error.to_string())?;
        let mut notes = Vec::new();
        let field = FaultField::of(&recording, &mut notes).map_err(|error| error.to_string())?;
        let one = Arc::new(Known { dir: dir.to_owned(), recording, field, notes });
        // What is still being recorded is read again each time.
        if one.recording.manifest().complete {
            known.push_front(one.clone());
            known.truncate(KEPT);
        }
        Ok(one)
    }
}
