//! measured.toml: the measured figures, and from which recording by which query.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Checked;
use crate::error::ReproduceError;
use crate::figures::described;
use crate::join::Joined;
use crate::kept::Origin;
use crate::recipe::{Figure, Recipe, Source, Step, Work};
use crate::steps::StepRecord;
use crate::value::{Value, close};

/// Name of the file in the experiment's folder.
pub const MEASURED_TOML: &str = "measured.toml";

/// A figure as it was taken.
#[derive(Debug)]
pub struct Taken {
    /// Value and interval, or the reason why there is none.
    pub joined: Result<Joined, String>,
    /// Recordings that it was taken from; 0 for documents.
    pub recordings: usize,
    /// What is gone.
    pub not_kept: Vec<String>,
    /// The conditions of the recording.
    pub origin: Origin,
}

impl Default for Taken {
    fn default() -> Self {
        Self { joined: Err("not taken".to_owned()), recordings: 0, not_kept: Vec::new(), origin: Origin::default() }
    }
}

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The experiment.
    pub experiment: String,
    /// The steps made.
    #[serde(default)]
    pub step: Vec<MeasuredStep>,
    /// What came out.
    #[serde(default)]
    pub figure: Vec<MeasuredFigure>,
}

/// A step that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredStep {
    /// Its name.
    pub name: String,
    /// As somebody would type it in the experiment's folder.
    pub did: String,
    /// Its duration.
    pub took_s: f64,
    /// The day.
    pub date: String,
    /// The host's kernel.
    pub kernel: String,
}

impl MeasuredStep {
    pub(crate) fn new(step: &Step, record: &StepRecord) -> Self {
        let did = match &step.work {
            Work::Plan(file) => format!("pagelab experiment {} -o {}", file.display(), step.set()),
            Work::Command { words, .. } => format!("pagelab {}", words.join(" ")),
        };
        let (date, kernel) = (record.date.clone(), record.kernel.clone());
        Self { name: step.name.clone(), did, took_s: record.took_s, date, kernel }
    }
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredFigure {
    /// Its name.
    pub id: String,
    /// The value; absent if it could not be taken.
    pub value: Option<Value>,
    /// Why it could not be taken.
    pub reason: Option<String>,
    /// Its unit.
    pub unit: Option<String>,
    /// The 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// The published value.
    pub published: Option<Value>,
    /// Whether all that is expected of it holds; absent if nothing is.
    pub met: Option<bool>,
    /// What is expected of it.
    pub expected: Option<String>,
    /// Recordings or document, relative to what is kept.
    pub from: String,
    /// How many recordings these are; absent for documents.
    pub recordings: Option<usize>,
    /// The query.
    pub query: Option<String>,
    /// Where in the document.
    pub pointer: Option<String>,
    /// How several values became one.
    pub over: Option<String>,
    /// Version of pagelab that recorded.
    pub pagelab_version: Option<String>,
    /// The kernel that was measured.
    pub kernel: Option<String>,
    /// The day of the last recording.
    pub date: Option<String>,
    /// What is gone; known only in this call.
    #[serde(skip)]
    pub not_kept: Vec<String>,
}

impl MeasuredFigure {
    pub(crate) fn new(recipe: &Recipe, figure: &Figure, taken: &Taken) -> Self {
        let published = figure.published.as_deref().and_then(|key| recipe.published.get(key));
        let (value, interval, reason) = match &taken.joined {
            Ok(joined) => (Some(joined.value.clone()), joined.interval, None),
            Err(reason) => (None, None, Some(reason.clone())),
        };
        let holds =
            |value: &Value| figure.expected.iter().all(|expected| expected.met(value, interval, published.as_ref()));
        let expected: Vec<String> = figure.expected.iter().map(crate::recipe::Expectation::words).collect();
        let (from, query) = described(figure);
        let (pointer, over) = match &figure.source {
            Source::Recordings { join, .. } => (None, join),
            Source::Document { pointers, join, .. } => (Some(pointers.join(" ")), join),
        };
        Self {
            id: figure.id.clone(),
            met: (!expected.is_empty()).then(|| value.as_ref().is_some_and(holds)),
            expected: (!expected.is_empty()).then(|| expected.join(", ")),
            value,
            reason,
            unit: figure.unit.clone(),
            interval,
            published,
            from,
            recordings: matches!(figure.source, Source::Recordings { .. }).then_some(taken.recordings),
            query,
            pointer,
            over: over.as_ref().map(crate::recipe::Join::words),
            pagelab_version: taken.origin.version(),
            kernel: taken.origin.kernel(),
            date: taken.origin.date(),
            not_kept: taken.not_kept.clone(),
        }
    }

    /// The value in words.
    pub fn shown(&self) -> String {
        match (&self.value, &self.reason) {
            (Some(value), _) => value.to_string(),
            (None, Some(reason)) => format!("not measured: {reason}"),
            (None, None) => "not measured".to_owned(),
        }
    }

    /// Whether this figure, taken now, is the one that was written.
    pub(crate) fn compare(&self, written: &Self, checked: &mut Checked) {
        if !self.not_kept.is_empty() {
            checked.not_kept.extend(self.not_kept.iter().cloned());
            return;
        }
        let same_value = match (&self.value, &written.value) {
            (Some(one), Some(other)) => one.same(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let same_interval = match (self.interval, written.interval) {
            (Some(one), Some(other)) => one.iter().zip(other).all(|(one, other)| close(*one, other)),
            (one, other) => one == other,
        };
        let before = checked.differs.len();
        let mut differs = |what: &str, found: String, there: String| {
            checked.differs.push(format!("figure {}: {what}: found {found}, written {there}", self.id));
        };
        if !same_value {
            differs("value", self.shown(), written.shown());
        } else if !same_interval {
            differs("interval", format!("{:?}", self.interval), format!("{:?}", written.interval));
        }
        if self.met != written.met || self.expected != written.expected {
            let words = |figure: &Self| match (&figure.expected, figure.met) {
                (Some(expected), met) => format!("{expected}: {}", if met == Some(true) { "met" } else { "missed" }),
                (None, _) => "nothing".to_owned(),
            };
            differs("expected", words(self), words(written));
        }
        if (&self.from, &self.query, &self.pointer) != (&written.from, &written.query, &written.pointer) {
            differs("how it is computed", self.how(), written.how());
        }
        if self.recordings != written.recordings {
            let count = |number: Option<usize>| number.map_or("none".to_owned(), |number| number.to_string());
            differs("recordings", count(self.recordings), count(written.recordings));
        }
        checked.same += usize::from(checked.differs.len() == before);
    }

    fn how(&self) -> String {
        let at = self.query.as_deref().or(self.pointer.as_deref()).unwrap_or_default();
        format!("{}: {}", self.from, at.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl Measured {
    /// The document before anything is measured, to try the page with.
    pub(crate) fn unmeasured(recipe: &Recipe) -> Self {
        let figure = |figure| MeasuredFigure::new(recipe, figure, &Taken::default());
        Self { experiment: recipe.name.clone(), step: Vec::new(), figure: recipe.figures.iter().map(figure).collect() }
    }

    /// Reads the file written for the experiment in `dir`.
    pub fn load(dir: &Path) -> Result<Self, ReproduceError> {
        let path = dir.join(MEASURED_TOML);
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ReproduceError::NothingWritten { dir: dir.to_owned() },
            _ => ReproduceError::io("read", &path)(error),
        })?;
        toml::from_str(&text).map_err(|error| ReproduceError::Damaged {
            path,
            dir: dir.to_owned(),
            reason: error.message().replace('\n', ", "),
        })
    }

    /// The text of the file.
    pub(crate) fn to_toml(&self) -> String {
        let body = toml::to_string_pretty(self).unwrap_or_default();
        format!("# Written by `pagelab reproduce`, checked by `pagelab reproduce --check`. Not to be edited.\n\n{body}")
    }

    /// What all steps took when they were made.
    pub fn took_s(&self) -> f64 {
        self.step.iter().map(|step| step.took_s).sum()
    }

    /// Figures that are not as expected or could not be taken.
    pub fn missed(&self) -> impl Iterator<Item = &MeasuredFigure> {
        self.figure.iter().filter(|figure| figure.met == Some(false) || figure.value.is_none())
    }
}
