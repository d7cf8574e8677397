//! `pagelab reproduce`: published experiments, carried out again.

use std::path::{Path, PathBuf};

use pagelab_experiment::{Plan, RunOptions};
use pagelab_reproduce::{
    self as reproduce, Checked, IndexLine, Recipe, Refused, ReproduceError, ReproduceOptions, Reproduced, Tools, Value,
};
use pagelab_session::signals;
use pagelab_sql as sql;

use super::runs::make_runs;
use crate::failure::{BAD, Failure};
use crate::options::AllowArgs;
use crate::print;

/// As shells say SIGINT.
const INTERRUPTED: u8 = 130;

/// Carry out published experiments again: make their steps, take their figures from what was recorded, write README.md
/// with published and measured side by side. What is kept is not made again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  sudo pagelab reproduce experiments/thp-regression\n  pagelab reproduce experiments/thp-regression --check"
)]
pub(crate) struct Args {
    /// Directories that hold a reproduce.toml (docs/reproduce.md).
    #[arg(required = true, value_name = "EXPERIMENT_DIR")]
    dirs: Vec<PathBuf>,
    /// Directory for sets, recordings and documents [default: out/experiments/NAME in the repository].
    #[arg(short, long = "output", value_name = "OUT")]
    output: Option<PathBuf>,
    /// Compute every figure again from the kept recordings and compare it with the README; run and write nothing.
    #[arg(long)]
    check: bool,
    /// Repeat steps whose results are kept.
    #[arg(long, conflicts_with = "check")]
    again: bool,
    /// Write an index of the experiments to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    index: Option<PathBuf>,
    #[command(flatten)]
    allow: AllowArgs,
}

/// Carries out or checks each experiment.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    args.allow.grant()?;
    // Mistakes in the last one are found before the first one has run.
    let recipes: Vec<Recipe> =
        args.dirs.iter().map(|dir| Recipe::load(dir)).collect::<Result<_, _>>().map_err(failure)?;
    signals::install().map_err(Failure::host)?;
    let mut worst = 0;
    let (mut spent_s, mut steps_s) = (0.0, 0.0);
    for recipe in &recipes {
        let out = match &args.output {
            None => recipe.default_out().map_err(failure)?,
            Some(out) if recipes.len() > 1 => out.join(&recipe.name),
            Some(out) => out.clone(),
        };
        let started = std::time::Instant::now();
        let status = if args.check {
            let checked = reproduce::check(recipe, &out, &Here).map_err(failure)?;
            print::text(&checked_text(recipe, &out, &checked))?;
            checked_status(&checked)
        } else {
            let options = ReproduceOptions {
                out: out.clone(),
                pagelab: pagelab_host::own::program().map_err(Failure::host)?,
                again: args.again,
            };
            let done = reproduce::reproduce(recipe, &options, &mut Here).map_err(failure)?;
            steps_s += done.measured.took_s();
            print::text(&reproduced_text(recipe, &done))?;
            reproduced_status(&done)
        };
        if status == INTERRUPTED {
            return Ok(status);
        }
        worst = worst.max(status);
        spent_s += started.elapsed().as_secs_f64();
    }
    if let Some(file) = &args.index {
        let lines: Vec<IndexLine> = recipes.iter().map(IndexLine::of).collect();
        reproduce::index(file, &lines).map_err(failure)?;
    }
    let experiments = recipes.len();
    print::text(&if args.check {
        format!("{experiments} experiments checked in {spent_s:.1} s\n")
    } else {
        format!("{experiments} experiments in {spent_s:.1} s; all their steps, with nothing kept: {steps_s:.1} s\n")
    })?;
    Ok(worst)
}

fn failure(error: ReproduceError) -> Failure {
    if error.exit_status() == 3 { Failure::host(error) } else { Failure::input(error) }
}

fn reproduced_status(done: &Reproduced) -> u8 {
    if done.interrupted {
        return INTERRUPTED;
    }
    let failed = done.failed.iter().map(|step| step.status).max();
    failed.unwrap_or(if done.measured.missed().next().is_some() { BAD } else { 0 })
}

fn reproduced_text(recipe: &Recipe, done: &Reproduced) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{}: {}\n", recipe.name, recipe.title);
    for figure in &done.measured.figure {
        let unit = figure.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
        let unit = if figure.value.is_some() { unit } else { String::new() };
        let interval = figure.interval.map(|[low, high]| format!(" (95 %: {low:.6} to {high:.6})")).unwrap_or_default();
        let published = figure.published.as_ref().map(|value| format!("; published: {value}")).unwrap_or_default();
        let expected = match (&figure.expected, figure.met) {
            (Some(expected), Some(true)) => format!("; {expected}: met"),
            (Some(expected), _) => format!("; {expected}: MISSED"),
            (None, _) => String::new(),
        };
        let _ = writeln!(text, "  {}: {}{unit}{interval}{published}{expected}", figure.id, figure.shown());
    }
    if done.interrupted {
        let _ = writeln!(text, "  broken off; go on with: pagelab reproduce {}", recipe.dir.display());
    } else if done.failed.is_empty() {
        let page = recipe.dir.join(reproduce::README);
        let _ =
            writeln!(text, "  {} steps made, {} kept; {}", done.made, recipe.steps.len() - done.made, page.display());
    } else {
        for step in &done.failed {
            let _ = writeln!(text, "  step {} failed: {}", step.name, step.reason);
        }
        let _ =
            writeln!(text, "  nothing was written; mend it, then the same once more: what is kept is not made again");
    }
    text
}

fn checked_status(checked: &Checked) -> u8 {
    match (checked.differs.is_empty(), checked.not_kept.is_empty()) {
        (false, _) => BAD,
        (true, false) => 3,
        (true, true) => 0,
    }
}

fn checked_text(recipe: &Recipe, out: &Path, checked: &Checked) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{}: {} figures as written\n", recipe.name, checked.same);
    for line in &checked.differs {
        let _ = writeln!(text, "  differs: {line}");
    }
    for name in &checked.not_kept {
        let _ = writeln!(text, "  not kept: {}", out.join(name).display());
    }
    if !checked.not_kept.is_empty() {
        let _ = writeln!(
            text,
            "  needed: what the figures come from; type: sudo pagelab reproduce {}",
            recipe.dir.display()
        );
    }
    text
}

/// This host: plans run as `pagelab experiment` runs them, SQL as `pagelab query` does.
struct Here;

impl Tools for Here {
    fn make_set(&mut self, plan: &Plan, options: &RunOptions) -> Result<bool, Refused> {
        let outcome = make_runs(plan, options);
        let refused = |failure: Failure| Refused { reason: failure.to_string(), status: failure.status() };
        outcome.map(|outcome| outcome.interrupted).map_err(refused)
    }

    fn query(&self, recordings: &[PathBuf], text: &str) -> Result<Option<Value>, String> {
        let mut json = Vec::new();
        sql::query(recordings, text, sql::Format::Json, &mut json).map_err(|error| error.to_string())?;
        let rows: Vec<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_slice(&json).map_err(|error| error.to_string())?;
        let [row] = rows.as_slice() else {
            return Err(format!("the query gives {} rows; needed: one", rows.len()));
        };
        match row.values().collect::<Vec<_>>().as_slice() {
            [value] => Ok(Value::of_json(value)),
            values => Err(format!("the query gives {} columns; needed: one", values.len())),
        }
    }

    fn say(&mut self, line: &str) {
        print::note(line);
    }

    fn stopped(&self) -> bool {
        signals::count() > 0
    }
}
