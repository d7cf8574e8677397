//! A set that was made earlier, read again: its variants compared with their base, or one run of each looked at.
//!
//! Nothing is written, and nothing is locked: a set may be read while its experiment runs.

use std::path::{Path, PathBuf};

use pagelab_analysis::compare::{CompareOptions, Comparison, PrimaryChoice, compare};
use pagelab_recording::set::{RunState, SET_JSON, SetJson, discover};
use pagelab_recording::{Manifest, Measured};
use serde_json::Value;

use crate::compare::{failed_runs, pairing};
use crate::error::ExperimentError;
use crate::{FailedRun, plan::PrimaryMetric};

/// A set on disk.
#[derive(Debug)]
pub struct KeptSet {
    dir: PathBuf,
    json: SetJson,
    /// The variant that the others are compared with.
    base: String,
    /// The others, in the order of the plan.
    tests: Vec<String>,
}

impl KeptSet {
    /// Reads the set in `dir`; `None` if it is no set but something else.
    ///
    /// # Errors
    /// Its document cannot be read.
    pub fn open(dir: &Path) -> Result<Option<Self>, ExperimentError> {
        if !dir.join(SET_JSON).is_file() {
            return Ok(None);
        }
        let json = SetJson::load(dir)?;
        let mut variants: Vec<String> = Vec::new();
        let planned = json.plan.get("variants").and_then(Value::as_array).into_iter().flatten();
        let planned = planned.filter_map(|variant| variant.get("name")?.as_str());
        for name in planned.chain(json.order.iter().map(|run| run.variant.as_str())) {
            if !variants.iter().any(|known| known == name) {
                variants.push(name.to_owned());
            }
        }
        let named = json.extra.get("base").and_then(Value::as_str).map(str::to_owned);
        let base = named.or_else(|| variants.first().cloned()).unwrap_or_default();
        variants.retain(|name| *name != base);
        Ok(Some(Self { dir: dir.to_owned(), json, base, tests: variants }))
    }

    /// Runs that failed.
    pub fn failed_runs(&self) -> Vec<FailedRun> {
        failed_runs(&self.json.order)
    }

    /// Runs that are not made yet.
    pub fn runs_to_do(&self) -> usize {
        let unmade = |state: &RunState| matches!(state, RunState::Planned | RunState::Running);
        self.json.order.iter().filter(|run| unmade(&run.state)).count()
    }

    /// Compares the base with each other variant, as the experiment did. The primary metric is the plan's where the
    /// options name none. The result of an unfinished set is exploratory.
    ///
    /// # Errors
    /// Recordings cannot be read, or a variant has none.
    pub fn compare(&self, options: &CompareOptions) -> Result<Vec<Comparison>, ExperimentError> {
        let mut options = options.clone();
        options.exploratory |= self.runs_to_do() > 0;
        if options.primary.is_none() {
            options.primary = self.planned_primary()?;
        }
        let mut all = Vec::new();
        for test in &self.tests {
            let pairing = pairing(&self.dir, &self.json.order, &self.base, test);
            let mut comparison = compare(&pairing.base, &pairing.test, &options)?;
            comparison.base.label.clone_from(&self.base);
            comparison.test.label.clone_from(test);
            all.push(comparison);
        }
        Ok(all)
    }

    fn planned_primary(&self) -> Result<Option<PrimaryChoice>, ExperimentError> {
        let planned = self.json.plan.get("primary").cloned().unwrap_or_default();
        let Ok(Some(primary)) = serde_json::from_value::<Option<PrimaryMetric>>(planned) else { return Ok(None) };
        let direction = primary.direction.map(crate::plan::Better::word);
        Ok(Some(PrimaryChoice::parse(&primary.metric, direction)?))
    }
}

/// One recording of each variant at and below `dir`, the one whose measured time is the median, with the number of
/// recordings that it stands for. Incomplete recordings are taken only where there are no others.
///
/// # Errors
/// There is no recording, or a manifest cannot be read.
pub fn one_of_each(dir: &Path) -> Result<Vec<(PathBuf, usize)>, ExperimentError> {
    let found = discover(&[dir])?;
    let mut out = Vec::new();
    for runs in found.chunk_by(|a, b| (&a.host, &a.variant) == (&b.host, &b.variant)) {
        let mut timed = Vec::new();
        for run in runs {
            let manifest = Manifest::load(&run.dir)?;
            timed.push((!manifest.complete, measured_ns(&manifest), &run.dir));
        }
        timed.sort();
        let complete = timed.iter().filter(|(incomplete, ..)| !incomplete).count();
        let among = if complete > 0 { complete } else { timed.len() };
        if let Some((.., dir)) = timed.get((among - 1) / 2) {
            out.push(((*dir).clone(), runs.len()));
        }
    }
    Ok(out)
}

/// Length of the measured time, ns; 0 if the manifest does not tell.
fn measured_ns(manifest: &Manifest) -> i64 {
    let span = manifest.measured.as_ref().and_then(Measured::span_ns);
    span.map_or(0, |(start, end)| end.saturating_sub(start))
}
