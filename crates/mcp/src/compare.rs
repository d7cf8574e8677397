//! The tool `compare`: two sides of runs, as much of the comparison as somebody reads.
//!
//! The document of `compare --json` has some 1,300 metrics and every function of the profiles, half a megabyte. Here are those
//! metrics that differ significantly, or those that are asked for by a part of their name, and the largest components of time.

use pagelab_analysis::compare::{
    BudgetComparison, CompareOptions, Comparison, ComparisonMethod, Failures, LargestChange, MetricComparison, Primary,
    PrimaryChoice, SideRuns, Unknown, compare,
};
use pagelab_analysis::rules::{Finding, Unexplained};
use pagelab_analysis::settings_diff::{SettingDiff, VaryingSetting};
use rmcp::schemars;
use serde::Serialize;

use crate::answer::{ToolError, document};
use crate::recordings::Served;

const SMALLER: &str = "ask for fewer rows of each list with `top`, or fewer metrics with `words`";

/// Rows of a list unless the client says otherwise.
const TOP: usize = 20;

/// The two sides, and how much of the comparison.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The recordings of the base, by their paths in `recordings`. Two or more can be tested; of one a side the figures are listed.
    base: Vec<String>,
    /// The recordings that are compared with the base.
    test: Vec<String>,
    /// Primary metric, which is tested alone [default: load.iops for jobs, run.elapsed_ns for commands].
    #[serde(default)]
    metric: Option<String>,
    /// List the metrics with one of these words in their name, significant or not [default: those that differ significantly].
    #[serde(default)]
    words: Vec<String>,
    /// Rows of each list; 0 for all [default: 20].
    #[serde(default)]
    top: Option<usize>,
}

/// What the tool answers. Keys are those of `compare --json`; `..._total` is the length of a list before `top`.
#[derive(Debug, Serialize)]
struct Slim<'a> {
    method: ComparisonMethod,
    base: Side<'a>,
    test: Side<'a>,
    alpha: f64,
    exploratory: bool,
    primary: &'a Option<Primary>,
    failures: &'a Failures,
    /// Drift, outliers and modes of the primary metric: to be read before the verdict.
    stability_notes: &'a [String],
    notes: &'a [String],
    findings: &'a [Finding],
    unexplained: &'a Option<Unexplained>,
    unknown: &'a Option<Unknown>,
    budget: Option<Budget>,
    metrics: Vec<Metric<'a>>,
    /// Of those asked for, before `top`.
    metrics_total: usize,
    /// Of all, and tested or not.
    metrics_compared: usize,
    largest_changes: &'a [LargestChange],
    settings: &'a [SettingDiff],
    settings_total: usize,
    settings_varying: &'a [VaryingSetting],
}

/// One side's runs.
#[derive(Debug, Serialize)]
struct Side<'a> {
    label: &'a str,
    n: usize,
    runs: Vec<Run<'a>>,
}

/// One run.
#[derive(Debug, Serialize)]
struct Run<'a> {
    dir: &'a str,
    primary: Option<f64>,
    excluded: Option<String>,
    notes: &'a [String],
}

/// The largest components of time.
#[derive(Debug, Serialize)]
struct Budget {
    #[serde(flatten)]
    largest: BudgetComparison,
    components_total: usize,
}

/// One metric in short.
#[derive(Debug, Serialize)]
struct Metric<'a> {
    name: &'a str,
    instance: Option<&'a str>,
    unit: &'a str,
    per_operation: bool,
    base_mean: Option<f64>,
    test_mean: Option<f64>,
    ratio: Option<f64>,
    ratio_ci95: Option<[f64; 2]>,
    p: Option<f64>,
    q: Option<f64>,
    significant: Option<bool>,
    /// It differs only as the speed does.
    follows_speed: Option<bool>,
    note: Option<&'a str>,
}

impl<'a> Side<'a> {
    fn of(side: &'a SideRuns) -> Self {
        let run = |run: &'a pagelab_analysis::compare::RunEntry| Run {
            dir: &run.dir,
            primary: run.primary,
            excluded: run.excluded.as_ref().map(ToString::to_string),
            notes: &run.notes,
        };
        Self { label: &side.label, n: side.n, runs: side.runs.iter().map(run).collect() }
    }
}

impl Budget {
    fn of(budget: &BudgetComparison, top: usize) -> Self {
        let mut largest = budget.clone();
        largest.components.truncate(top);
        largest.mechanisms.truncate(top);
        Self { largest, components_total: budget.components.len() }
    }
}

impl<'a> Metric<'a> {
    fn of(metric: &'a MetricComparison) -> Self {
        Self {
            name: &metric.name,
            instance: metric.instance.as_deref(),
            unit: &metric.unit,
            per_operation: metric.per_operation,
            base_mean: metric.base.mean,
            test_mean: metric.test.mean,
            ratio: metric.ratio,
            ratio_ci95: metric.ratio_ci95,
            p: metric.p,
            q: metric.q,
            significant: metric.significant,
            follows_speed: metric.follows_speed,
            note: metric.note.as_deref(),
        }
    }
}

impl<'a> Slim<'a> {
    fn of(comparison: &'a Comparison, words: &[String], top: usize) -> Self {
        let is_wanted = |metric: &&MetricComparison| match words {
            [] => metric.significant == Some(true),
            words => words.iter().any(|word| metric.name.contains(word.as_str())),
        };
        let metrics: Vec<&MetricComparison> = comparison.metrics.iter().filter(is_wanted).collect();
        let settings = comparison.settings.as_slice();
        Self {
            method: comparison.method,
            base: Side::of(&comparison.base),
            test: Side::of(&comparison.test),
            alpha: comparison.alpha,
            exploratory: comparison.exploratory,
            primary: &comparison.primary,
            failures: &comparison.failures,
            stability_notes: comparison.stability.as_ref().map_or(&[], |stability| &stability.notes),
            notes: &comparison.notes,
            findings: &comparison.findings,
            unexplained: &comparison.unexplained,
            unknown: &comparison.unknown,
            budget: comparison.budget.as_ref().map(|budget| Budget::of(budget, top)),
            metrics_total: metrics.len(),
            metrics: metrics.into_iter().take(top).map(Metric::of).collect(),
            metrics_compared: comparison.metrics.len(),
            largest_changes: &comparison.largest_changes,
            settings: settings.get(..top).unwrap_or(settings),
            settings_total: settings.len(),
            settings_varying: &comparison.settings_varying,
        }
    }
}

/// Compares the sides.
pub(crate) fn answer(served: &Served, args: &Args) -> Result<String, ToolError> {
    let (base, test) = (served.all_named("base", &args.base)?, served.all_named("test", &args.test)?);
    let primary = args.metric.as_deref().map(|metric| PrimaryChoice::parse(metric, None)).transpose()?;
    let comparison = compare(&base, &test, &CompareOptions { primary, ..CompareOptions::default() })?;
    let top = match args.top {
        Some(0) => usize::MAX,
        Some(top) => top,
        None => TOP,
    };
    document(&Slim::of(&comparison, &args.words, top), SMALLER)
}
