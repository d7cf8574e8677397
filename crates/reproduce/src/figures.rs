//! Taking the figures: from recordings by SQL, from documents by pointers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pagelab_recording::set::reference;

use crate::Tools;
use crate::join::{Joined, against, join};
use crate::kept::{Origin, recordings, relative};
use crate::measured::{Measured, MeasuredFigure, Taken};
use crate::pointer::Pointer;
use crate::recipe::{Figure, Join, Recipe, Source};
use crate::steps::StepRecord;
use crate::value::Value;

/// Asks each question once: figures that share a query and recordings, such as a value and its ratio, share the answer.
struct Asked<'a> {
    tools: &'a dyn Tools,
    answers: RefCell<BTreeMap<(Vec<PathBuf>, String), Answer>>,
}

type Answer = Result<Option<Value>, String>;

impl Asked<'_> {
    fn query(&self, recordings: &[PathBuf], sql: &str) -> Answer {
        let question = (recordings.to_vec(), sql.to_owned());
        if let Some(answer) = self.answers.borrow().get(&question) {
            return answer.clone();
        }
        let answer = self.tools.query(recordings, sql);
        self.answers.borrow_mut().insert(question, answer.clone());
        answer
    }
}

/// Takes all figures of the recipe. What cannot be taken has the reason in place of its value.
pub(crate) fn take(recipe: &Recipe, out: &Path, tools: &dyn Tools) -> Measured {
    let out = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
    let asked = Asked { tools, answers: RefCell::default() };
    let figure = recipe
        .figures
        .iter()
        .map(|figure| {
            let taken = match &figure.source {
                Source::Recordings { recording, query, join } => {
                    from_recordings(&out, recording, query, join.as_ref(), &asked)
                }
                Source::Document { document, pointers, interval, join } => {
                    let mut taken = from_document(&out, document, pointers, interval.as_deref(), join.as_ref());
                    if let Some(origin) = origin_of(recipe, &out, document) {
                        taken.origin = origin;
                    }
                    taken
                }
            };
            MeasuredFigure::new(recipe, figure, &taken)
        })
        .collect();
    Measured { experiment: recipe.name.clone(), figure, step: Vec::new() }
}

fn from_recordings(out: &Path, pattern: &str, query: &str, how: Option<&Join>, asked: &Asked<'_>) -> Taken {
    let kept = recordings(out, pattern);
    let mut taken = Taken { recordings: kept.dirs.len(), not_kept: kept.missing, ..Taken::default() };
    let mut all = kept.dirs.clone();
    let joined = match how {
        Some(Join::Against(other)) => {
            let bases = recordings(out, other);
            taken.not_kept.extend(bases.missing);
            all.extend(bases.dirs.iter().cloned());
            if taken.not_kept.is_empty() {
                pairs(out, &kept.dirs, &bases.dirs, query, asked)
            } else {
                Err(String::new())
            }
        }
        _ if !taken.not_kept.is_empty() => Err(String::new()),
        _ if kept.dirs.is_empty() => Err(format!("none of {} recordings ended well", kept.failed)),
        Some(Join::Together) => value(out, &kept.dirs, query, asked).map(|value| Joined { value, interval: None }),
        how => {
            let values: Result<Vec<Value>, String> =
                kept.dirs.iter().map(|dir| value(out, std::slice::from_ref(dir), query, asked)).collect();
            values.and_then(|values| join(&values, how))
        }
    };
    taken.joined = if taken.not_kept.is_empty() { joined } else { Err(not_kept(&taken.not_kept)) };
    taken.origin = Origin::of(&all);
    taken
}

/// Names of what is gone, the first few.
fn not_kept(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    let more =
        if names.len() > shown.len() { format!(" and {} more", names.len() - shown.len()) } else { String::new() };
    format!("not kept: {}{more}", shown.join(", "))
}

fn value(out: &Path, dirs: &[PathBuf], query: &str, asked: &Asked<'_>) -> Result<Value, String> {
    let place = || match dirs {
        [dir] => format!("{}: ", relative(out, dir)),
        _ => String::new(),
    };
    match asked.query(dirs, query) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(format!("{}the query gives null", place())),
        Err(reason) => Err(format!("{}{reason}", place())),
    }
}

/// The ratios of recordings to those of the same run number on the other side.
fn pairs(out: &Path, dirs: &[PathBuf], bases: &[PathBuf], query: &str, asked: &Asked<'_>) -> Result<Joined, String> {
    let by_run = |dirs: &[PathBuf]| -> Result<BTreeMap<u64, PathBuf>, String> {
        let mut runs = BTreeMap::new();
        for dir in dirs {
            let run = reference(dir).map_err(|error| error.to_string())?.run;
            let run = run.ok_or_else(|| format!("{} has no run number", relative(out, dir)))?;
            if runs.insert(run, dir.clone()).is_some() {
                return Err(format!("two recordings have the run number {run}: no pairs"));
            }
        }
        Ok(runs)
    };
    let number = |dir: &PathBuf| -> Result<f64, String> {
        let value = value(out, std::slice::from_ref(dir), query, asked)?;
        value.as_f64().ok_or_else(|| format!("{}: the query gives no number", relative(out, dir)))
    };
    let (dirs, bases) = (by_run(dirs)?, by_run(bases)?);
    let mut pairs = Vec::new();
    for (run, dir) in &dirs {
        if let Some(base) = bases.get(run) {
            pairs.push((number(dir)?, number(base)?));
        }
    }
    if pairs.is_empty() {
        return Err("no recording has a partner with the same run number".to_owned());
    }
    against(&pairs)
}

fn from_document(out: &Path, document: &str, pointers: &[String], interval: Option<&str>, how: Option<&Join>) -> Taken {
    let path = out.join(document);
    let Ok(text) = std::fs::read(&path) else {
        let missing = vec![document.to_owned()];
        return Taken { joined: Err(not_kept(&missing)), not_kept: missing, ..Taken::default() };
    };
    let read = || -> Result<Joined, String> {
        let json: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| format!("{document} is no JSON document: {error}"))?;
        let mut values = Vec::new();
        for pointer in pointers {
            for found in Pointer::parse(pointer)?.reach(&json)? {
                let value = Value::of_json(&found);
                values.push(value.ok_or_else(|| format!("{document} has no value at {pointer}: {}", kind(&found)))?);
            }
        }
        let mut joined = join(&values, how)?;
        if let Some(interval) = interval {
            let reached = Pointer::parse(interval)?.reach(&json)?;
            joined.interval = reached.first().and_then(ends);
        }
        Ok(joined)
    };
    Taken { joined: read(), ..Taken::default() }
}

/// What there is in place of a number or a text.
fn kind(found: &serde_json::Value) -> &'static str {
    match found {
        serde_json::Value::Null => "null",
        serde_json::Value::Array(_) => "a list",
        serde_json::Value::Object(_) => "an object",
        _ => "a number that is not finite",
    }
}

fn ends(interval: &serde_json::Value) -> Option<[f64; 2]> {
    match interval.as_array()?.as_slice() {
        [low, high] => Some([low.as_f64()?, high.as_f64()?]),
        _ => None,
    }
}

/// The origin of a document: the recordings next to it, else the step that made it.
fn origin_of(recipe: &Recipe, out: &Path, document: &str) -> Option<Origin> {
    if let Some(origin) = Origin::of_document(&out.join(document)) {
        return Some(origin);
    }
    let made = |path: &String| document == path || document.starts_with(&format!("{path}/"));
    let step = recipe.steps.iter().find(|step| step.makes().iter().any(made))?;
    let record = StepRecord::load(out, &step.name)?;
    Some(Origin::single(&record.kernel, &record.pagelab_version, &record.date))
}

/// The words that say where a figure comes from.
pub(crate) fn described(figure: &Figure) -> (String, Option<String>) {
    match &figure.source {
        Source::Recordings { recording, query, .. } => (recording.clone(), Some(query.trim().to_owned())),
        Source::Document { document, .. } => (document.clone(), None),
    }
}
