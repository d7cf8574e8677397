//! `pagelab experiment`: runs the variants of a plan, interleaved, then compares them.

use std::path::PathBuf;

use pagelab_experiment::{ExperimentError, Outcome, Plan, RunOptions, default_set_dir};

use super::confirm::ConfirmArgs;
use super::runs::make_runs;
use crate::failure::Failure;
use crate::options::{AllowArgs, parse_level};
use crate::print;
use crate::say;
use crate::verdict;

/// Broken off by the user, as shells report SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Run the variants of a plan in randomised complete blocks, record each run, and compare.
///
/// Settings that the plan changes are put back after each run, also when pagelab is killed. A plan with [lab] runs in VMs,
/// which end with the experiment.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  pagelab experiment experiments/thp-regression/plan.toml -o set\n  pagelab experiment plan.toml --dry-run"
)]
pub(crate) struct Args {
    /// The plan (docs/plans.md).
    plan: PathBuf,
    /// Directory of the set [default: beside the working directory, named after the plan].
    #[arg(short, long = "output", value_name = "SET")]
    output: Option<PathBuf>,
    /// Print the order of runs, the settings and the commands; change and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// Continue an interrupted set.
    #[arg(long)]
    resume: bool,
    /// With --resume: add N rounds to a finished set. The comparison is then marked exploratory.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "resume")]
    add_runs: usize,
    /// Seed of every random choice [default: the plan's].
    #[arg(long)]
    seed: Option<u64>,
    /// Significance level: p values below it count as differences.
    #[arg(long, default_value_t = 0.05, value_parser = parse_level)]
    alpha: f64,
    /// Record without the streams that the plan names and this host refuses.
    #[arg(long)]
    best_effort: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    allow: AllowArgs,
    /// Give the variants names drawn at random: what is found must not depend on names.
    #[arg(long, value_name = "SEED", hide = true)]
    random_names: Option<u64>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the plan and prints the verdict; the whole of it where that is asked for.
pub(crate) fn run(args: &Args, is_whole: bool) -> Result<u8, Failure> {
    args.allow.grant()?;
    let plan = Plan::load(&args.plan).map_err(|error| verdict::plan_failure(error.into()))?;
    let plan = match args.random_names {
        Some(seed) => plan.with_random_names(seed),
        None => plan,
    };
    let mut options = RunOptions::new(args.output.clone().unwrap_or_else(|| default_set_dir(&plan)));
    options.resume = args.resume;
    options.add_runs = args.add_runs;
    options.seed = args.seed;
    options.alpha = args.alpha;
    options.best_effort = args.best_effort;
    if args.dry_run {
        let dry = pagelab_experiment::dry_run(&plan, &options).map_err(verdict::plan_failure)?;
        return if args.json { print::json(&dry) } else { print::text(&dry.to_string()) }.map(|()| 0);
    }
    let mut outcome = match make_runs(&plan, &options) {
        Err(Failure::Input(error)) if is_interruption(&error) => {
            say!("pagelab: {error}");
            return Ok(INTERRUPTED);
        }
        made => made?,
    };
    if !outcome.interrupted {
        confirm(args, &plan, &mut outcome)?;
    }
    if args.json {
        print::json(&outcome.document)?;
    } else {
        print::text(&verdict::experiment(&outcome, &args.plan, is_whole))?;
    }
    Ok(if outcome.interrupted { INTERRUPTED } else { 0 })
}

/// Makes the follow-up rounds of `--confirm`, and writes what they say into the set's document.
fn confirm(args: &Args, plan: &Plan, outcome: &mut Outcome) -> Result<(), Failure> {
    let document = &mut outcome.document;
    for comparison in document.comparison.iter_mut().chain(&mut document.further_comparisons) {
        args.confirm.confirm_plan(comparison, plan, &outcome.dir, args.alpha, args.best_effort)?;
    }
    if args.confirm.is_asked() {
        outcome.save().map_err(verdict::plan_failure)?;
    }
    Ok(())
}

/// The user ended it before there was anything to go on with: while VMs boot.
fn is_interruption(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ExperimentError::Interrupted))
}
