//! Loading one run.

use std::collections::BTreeMap;
use std::path::Path;

use pagelab_recording::tables::{LossRow, LossView, TableView};
use pagelab_recording::{Bounds, Error, Manifest, Recording, Span};

use super::{Exclusion, RunData, RunSettings, StreamLoss};
use crate::error::Result;
use crate::metrics;
use crate::window::{Window, WindowSource};

impl RunData {
    /// Loads the recording in `dir`.
    ///
    /// A directory that is no recording, or one of a newer format, is an error. A recording with damaged parts is not:
    /// it comes back with what could be read and [`Exclusion::Damaged`].
    pub fn load(dir: &Path) -> Result<Self> {
        Self::load_within(dir, &Bounds::default())
    }

    /// As [`RunData::load`], for a part of the recording's time: metrics and their rates are of that part, settings and
    /// loss of the whole recording.
    pub fn load_within(dir: &Path, bounds: &Bounds) -> Result<Self> {
        let recording = Recording::open(dir)?;
        let span = bounds.of(&recording)?;
        let mut run = Self {
            dir: dir.to_owned(),
            manifest: recording.manifest().clone(),
            window: Window { start_ns: 0, end_ns: 0, operations: None, source: WindowSource::Recording },
            metrics: BTreeMap::new(),
            settings: RunSettings::default(),
            loss: BTreeMap::new(),
            excluded: Exclusion::of(dir, recording.manifest()),
            notes: recording.manifest().notes.clone(),
        };
        match run.fill(&recording, span) {
            Err(crate::ViewError::Recording(error)) if is_damage(&error) => {
                let detail = error.to_string();
                run.excluded.get_or_insert(Exclusion::Damaged { detail });
                Ok(run)
            }
            Err(error) => Err(error),
            Ok(()) => Ok(run),
        }
    }

    /// What stands for a recording that cannot be read, so that it is listed with the reason. It counts nowhere.
    pub fn unreadable(dir: &Path, detail: String) -> Self {
        Self {
            dir: dir.to_owned(),
            manifest: Manifest::load(dir).unwrap_or_default(),
            window: Window { start_ns: 0, end_ns: 0, operations: None, source: WindowSource::Recording },
            metrics: BTreeMap::new(),
            settings: RunSettings::default(),
            loss: BTreeMap::new(),
            excluded: Some(Exclusion::Damaged { detail }),
            notes: Vec::new(),
        }
    }

    fn fill(&mut self, recording: &Recording, span: Span) -> Result<()> {
        self.settings = RunSettings::load(recording)?;
        self.loss = load_loss(recording)?;
        self.window = Window::of(recording)?.within(span);
        if self.window.is_empty() {
            let Window { start_ns, end_ns, .. } = self.window;
            let detail = format!("begin {start_ns} ns, end {end_ns} ns; the end must be later");
            self.excluded.get_or_insert(Exclusion::NoWindow { detail });
            return Ok(());
        }
        if span.is_part() {
            self.notes.push("only a part of the measured time counts: --from and --to".to_owned());
        } else if self.window.source == WindowSource::Recording && self.manifest.measured.is_none() {
            let note = "the manifest has no `measured`: all that was recorded counts, start and end included";
            self.notes.push(note.to_owned());
        }
        self.metrics = metrics::collect(recording, span, &self.window, &mut self.notes)?;
        Ok(())
    }
}

/// Whether an error concerns the content of a part. Others (no permission, not a recording) are the user's to mend.
fn is_damage(error: &Error) -> bool {
    matches!(error, Error::BadPart { .. } | Error::MissingColumn { .. } | Error::Arrow(_) | Error::Parquet(_))
}

/// Events that each stream saw and lost, over the whole recording.
///
/// # Errors
/// The table cannot be read.
pub fn load_loss(recording: &Recording) -> Result<BTreeMap<String, StreamLoss>> {
    let mut loss: BTreeMap<String, StreamLoss> = BTreeMap::new();
    for batch in recording.read("loss", None)? {
        let view = LossView::new(&batch?)?;
        for LossRow { stream, seen, lost, filtered, .. } in view.rows() {
            let entry = match loss.get_mut(stream) {
                Some(entry) => entry,
                None => loss.entry(stream.to_owned()).or_default(),
            };
            entry.seen = entry.seen.saturating_add(seen);
            entry.lost = entry.lost.saturating_add(lost);
            entry.filtered = entry.filtered.saturating_add(filtered);
        }
    }
    Ok(loss)
}
