//! From a set to its verdict: the comparison of every variant with the base, and the document that holds it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pagelab_analysis::compare::{CompareOptions, Comparison, PrimaryChoice};
use pagelab_output::{Folder, Sync};
use pagelab_recording::MANIFEST;
use pagelab_recording::set::{PlannedRun, RunState, SET_JSON};
use serde::{Deserialize, Serialize};

use crate::decoys::Decoy;
use crate::error::ExperimentError;
use crate::failure::FailureKind;
use crate::plan::{Better, Plan};
use crate::set::Set;

/// Name of the document in the set's directory.
pub const COMPARE_JSON: &str = "compare.json";

/// The JSON of `experiment --json` and `compare.json`: the comparison of the base with the first other variant, plus
/// the fields that only an experiment has.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Document {
    /// The comparison; absent where the experiment was ended before all runs were made.
    #[serde(flatten)]
    pub comparison: Option<Comparison>,
    /// Every run in the order in which it was made, warm-up too, with what became of it.
    pub order: Vec<PlannedRun>,
    /// Runs that failed, with the reason.
    pub failed_runs: Vec<FailedRun>,
    /// Good runs that are left out because the other side of their round has no recording.
    pub unpaired_runs: Vec<UnpairedRun>,
    /// The base with each further variant, in the order of the plan.
    pub further_comparisons: Vec<Comparison>,
    /// The experiment's parameters.
    pub experiment: About,
}

/// What an experiment was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    /// Title of the plan.
    pub title: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The set's directory.
    pub set: PathBuf,
    /// The variant that the others are compared with.
    pub base: String,
    /// The others, in the order of the comparisons.
    pub tests: Vec<String>,
    /// Harmless differences that were added.
    pub decoys: Vec<Decoy>,
    /// The user ended it before all was done.
    pub interrupted: bool,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRun {
    /// Variant.
    pub variant: String,
    /// Number within the variant.
    pub run: u64,
    /// Round; 0 for warm-up.
    pub round: u64,
    /// Its recording, relative to the set; it may hold nothing.
    pub dir: PathBuf,
    /// The word that the reason begins with.
    pub kind: String,
    /// Why.
    pub reason: String,
}

/// A good run that has no partner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpairedRun {
    /// Its recording, relative to the set.
    pub dir: PathBuf,
    /// Its round.
    pub round: u64,
    /// The variant that is missing in it.
    pub missing: String,
    /// Always `no_partner`, then why.
    pub reason: String,
}

/// Runs of two variants, as the comparison gets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing {
    /// Recordings of the base, absolute.
    pub base: Vec<PathBuf>,
    /// Recordings of the other variant.
    pub test: Vec<PathBuf>,
    /// Good runs that were left out.
    pub unpaired: Vec<UnpairedRun>,
}

/// Chooses the recordings of two variants. Failed runs that left a recording are among them: the comparison lists them
/// as excluded. A round in which one side left no recording at all is dropped on both sides, so that every round given
/// is a whole block.
pub fn pairing(set: &Path, runs: &[PlannedRun], base: &str, test: &str) -> Pairing {
    let mut out = Pairing { base: Vec::new(), test: Vec::new(), unpaired: Vec::new() };
    let mut rounds: BTreeMap<u64, [Option<&PlannedRun>; 2]> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.round > 0) {
        let round = rounds.entry(run.round).or_default();
        if run.variant == base {
            round[0] = Some(run);
        } else if run.variant == test {
            round[1] = Some(run);
        }
    }
    let recorded = |run: Option<&PlannedRun>| run.is_some_and(|run| set.join(&run.dir).join(MANIFEST).is_file());
    for (round, [of_base, of_test]) in rounds {
        match (recorded(of_base), recorded(of_test)) {
            (true, true) => {
                out.base.extend(of_base.map(|run| set.join(&run.dir)));
                out.test.extend(of_test.map(|run| set.join(&run.dir)));
            }
            (false, false) => {}
            (base_there, _) => {
                let (there, gone, missing) =
                    if base_there { (of_base, of_test, test) } else { (of_test, of_base, base) };
                let Some(there) = there.filter(|run| run.state == RunState::Done) else { continue };
                let why = match gone.map(|run| &run.state) {
                    Some(RunState::Failed { reason } | RunState::Excluded { reason }) => reason.clone(),
                    _ => "its recording is gone".to_owned(),
                };
                out.unpaired.push(UnpairedRun {
                    dir: there.dir.clone(),
                    round,
                    missing: missing.to_owned(),
                    reason: format!("no_partner: {missing} in round {round}: {why}"),
                });
            }
        }
    }
    out
}

/// Runs that failed.
pub fn failed_runs(runs: &[PlannedRun]) -> Vec<FailedRun> {
    let failed = runs.iter().filter_map(|run| match &run.state {
        RunState::Failed { reason } => Some((run, reason)),
        _ => None,
    });
    failed
        .map(|(run, reason)| FailedRun {
            variant: run.variant.clone(),
            run: run.run,
            round: run.round,
            dir: run.dir.clone(),
            kind: FailureKind::of(reason).map_or("unknown", FailureKind::word).to_owned(),
            reason: reason.clone(),
        })
        .collect()
}

/// How the runs of two sides are compared; `pagelab_analysis` in earnest.
pub(crate) type CompareFn<'a> =
    &'a dyn Fn(&[PathBuf], &[PathBuf], &CompareOptions) -> pagelab_analysis::Result<Comparison>;

/// Compares the base with every other variant and makes the document. `interrupted`: not all runs are made, and the
/// document says nothing about differences, because looking before the end would be a look too many.
pub(crate) fn document(
    plan: &Plan,
    set: &Set,
    alpha: f64,
    interrupted: bool,
    compare: CompareFn<'_>,
) -> Result<Document, ExperimentError> {
    let tests: Vec<String> =
        plan.variants.iter().map(|variant| variant.name.clone()).filter(|name| *name != plan.base).collect();
    let mut document = Document {
        comparison: None,
        order: set.runs().to_vec(),
        failed_runs: failed_runs(set.runs()),
        unpaired_runs: Vec::new(),
        further_comparisons: Vec::new(),
        experiment: About {
            title: plan.title.clone(),
            seed: set.json().seed,
            set: set.dir().to_owned(),
            base: plan.base.clone(),
            tests: tests.clone(),
            decoys: set.filled()?.decoys,
            interrupted,
        },
    };
    if interrupted {
        return Ok(document);
    }
    let options = compare_options(plan, set, alpha)?;
    let mut comparisons = Vec::new();
    for test in &tests {
        let pairing = pairing(set.dir(), set.runs(), &plan.base, test);
        enough(set, &plan.base)?;
        enough(set, test)?;
        let mut comparison = compare(&pairing.base, &pairing.test, &options)?;
        comparison.base.label.clone_from(&plan.base);
        comparison.test.label.clone_from(test);
        comparisons.push(comparison);
        document.unpaired_runs.extend(pairing.unpaired);
    }
    let mut comparisons = comparisons.into_iter();
    document.comparison = comparisons.next();
    document.further_comparisons = comparisons.collect();
    Ok(document)
}

fn compare_options(plan: &Plan, set: &Set, alpha: f64) -> Result<CompareOptions, ExperimentError> {
    let primary = match &plan.primary {
        None => None,
        Some(primary) => {
            let direction = primary.direction.map(|better| match better {
                Better::Higher => "higher",
                Better::Lower => "lower",
            });
            Some(PrimaryChoice::parse(&primary.metric, direction)?)
        }
    };
    Ok(CompareOptions { alpha, primary, exploratory: set.exploratory(), ..CompareOptions::default() })
}

/// At least two good runs of a variant.
fn enough(set: &Set, variant: &str) -> Result<(), ExperimentError> {
    let of_variant = || set.runs().iter().filter(|run| run.variant == variant && run.round > 0);
    let done = of_variant().filter(|run| run.state == RunState::Done).count();
    if done >= 2 {
        return Ok(());
    }
    let host = |run: &PlannedRun| match &run.state {
        RunState::Failed { reason } => FailureKind::of(reason).is_some_and(FailureKind::is_host),
        _ => false,
    };
    Err(ExperimentError::TooFewRuns {
        variant: variant.to_owned(),
        done,
        planned: of_variant().count(),
        set: set.dir().join(SET_JSON),
        host: of_variant().any(host),
    })
}

/// Writes the document into the set, so that a reader meets the old one or the new one, and forces it to the device.
pub(crate) fn write(document: &Document, set: &Path) -> Result<(), ExperimentError> {
    let mut text = serde_json::to_vec_pretty(document).unwrap_or_default();
    text.push(b'\n');
    let folder = Folder::open_any(set)?;
    folder.write_atomic(COMPARE_JSON, &text, Sync::Data)?;
    Ok(folder.sync()?)
}
