//! `pagelab compare`: are two sets of runs different, in what, and why.

use std::path::PathBuf;

use pagelab_analysis::compare::{CompareOptions, Comparison, PrimaryChoice, compare};
use pagelab_experiment::{Plan, RunOptions};
use pagelab_recording::Bounds;
use pagelab_recording::set::discover;

use crate::commands::experiment::make_runs;
use crate::failure::Failure;
use crate::options::{SpanArgs, default_output, parse_level};
use crate::print;
use crate::verdict;

/// Compare two sets of recordings, or two ways of running a command.
///
/// With --base and --test: recordings, or sets of them. With -n: runs two commands (each one word for `sh -c`), or one
/// command under two values of a setting, interleaved, into a set, and compares them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  pagelab compare --base set/variant=good --test set/variant=bad\n  \
    pagelab compare -n 10 -- './old input' './new input'\n  \
    pagelab compare -n 10 --setting thp.enabled=always,madvise -- ./program input")]
pub struct Args {
    /// Recordings or sets of the base side.
    #[arg(long, num_args = 1.., value_name = "DIR", requires = "test", conflicts_with = "runs")]
    base: Vec<PathBuf>,
    /// Recordings or sets of the test side.
    #[arg(long, num_args = 1.., value_name = "DIR", requires = "base")]
    test: Vec<PathBuf>,
    /// Run each side so many times.
    #[arg(short = 'n', long, value_name = "N", requires = "command")]
    runs: Option<usize>,
    /// Run one command under two values of this setting (see docs/settings.md).
    #[arg(long, value_name = "KEY=A,B", requires = "runs")]
    setting: Option<String>,
    /// Seed of the order of runs.
    #[arg(long, requires = "runs")]
    seed: Option<u64>,
    /// Directory of the set that -n makes.
    #[arg(short, long = "output", value_name = "SET", requires = "runs")]
    output: Option<PathBuf>,
    /// The metric that decides; it is tested alone and listed first. The family of the others stays whole.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Level below which a p value counts as a difference.
    #[arg(long, default_value_t = 0.05, value_parser = parse_level)]
    alpha: f64,
    #[command(flatten)]
    span: SpanArgs,
    /// Status 1 if the test side is worse in the primary metric, fails more often, or if nothing could be tested.
    #[arg(long)]
    check: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// With -n: the commands.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Compares, and prints the verdict.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let comparison = match args.runs {
        Some(_) if args.span.bounds() != Bounds::default() => {
            let needed = "compare: --from and --to choose a part of recordings; needed: --base and --test";
            return Err(Failure::input(anyhow::anyhow!(needed)));
        }
        Some(runs) => compare_commands(args, runs)?,
        None if args.base.is_empty() => {
            let needed =
                "compare: found neither --base and --test nor -n; needed two sides; try: pagelab compare --help";
            return Err(Failure::input(anyhow::anyhow!(needed)));
        }
        None => compare_recordings(args)?,
    };
    if args.json {
        print::json(&comparison)?;
    } else {
        print::text(&verdict::comparison(&comparison))?;
    }
    Ok(if args.check { verdict::check(&comparison) } else { 0 })
}

fn compare_recordings(args: &Args) -> Result<Comparison, Failure> {
    let side = |paths: &[PathBuf]| -> Result<Vec<PathBuf>, Failure> {
        Ok(discover(paths)?.into_iter().map(|found| found.dir).collect())
    };
    let primary = args.metric.as_deref().map(primary_choice).transpose()?;
    let options =
        CompareOptions { alpha: args.alpha, primary, bounds: args.span.bounds(), ..CompareOptions::default() };
    compare(&side(&args.base)?, &side(&args.test)?, &options).map_err(Failure::input)
}

/// The metric named, with the direction that the vocabulary gives it.
fn primary_choice(name: &str) -> Result<PrimaryChoice, Failure> {
    PrimaryChoice::parse(name, None).map_err(Failure::input)
}

/// The two commands as a plan in a file of its own.
fn compare_commands(args: &Args, runs: usize) -> Result<Comparison, Failure> {
    let dir = tempfile::tempdir().map_err(Failure::host)?;
    let path = dir.path().join("plan.toml");
    let text = plan_text(args, runs)?;
    std::fs::write(&path, text).map_err(Failure::host)?;
    let plan = Plan::load(&path).map_err(|error| verdict::plan_failure(error.into()))?;
    let mut options = RunOptions::new(args.output.clone().unwrap_or_else(default_output));
    options.seed = args.seed;
    options.alpha = args.alpha;
    let outcome = make_runs(&plan, &options)?;
    eprintln!("pagelab: the runs are in {}", outcome.dir.display());
    outcome
        .document
        .comparison
        .ok_or_else(|| Failure::input(anyhow::anyhow!("ended before all runs were made; nothing is compared")))
}

fn plan_text(args: &Args, runs: usize) -> Result<String, Failure> {
    let wrong = |text: String| Failure::input(anyhow::anyhow!(text));
    let here = std::env::current_dir().map_err(Failure::host)?;
    let words = |words: &[String]| toml::Value::Array(words.iter().cloned().map(toml::Value::String).collect());
    let shell = |command: &String| words(&["sh".to_owned(), "-c".to_owned(), command.clone()]);
    let mut sides = toml::Table::new();
    let mut side = |name: &str, command: toml::Value, setting: Option<(&str, &str)>| {
        let mut variant = toml::Table::new();
        variant.insert("command".to_owned(), command);
        if let Some((key, value)) = setting {
            let settings = toml::Table::from_iter([(key.to_owned(), toml::Value::from(value))]);
            variant.insert("settings".to_owned(), settings.into());
        }
        sides.insert(name.to_owned(), variant.into());
    };
    match (&args.setting, args.command.as_slice()) {
        (Some(setting), command) => {
            let parts = setting.split_once('=').and_then(|(key, values)| Some((key, values.split_once(',')?)));
            let (key, (a, b)) = parts.ok_or_else(|| {
                wrong(format!("--setting: found {setting:?}, needed KEY=A,B such as thp.enabled=always,madvise"))
            })?;
            side("base", words(command), Some((key, a)));
            side("test", words(command), Some((key, b)));
        }
        (None, [a, b]) => {
            side("base", shell(a), None);
            side("test", shell(b), None);
        }
        (None, other) => {
            return Err(wrong(format!(
                "compare -n: found {} commands, needed two, each in quotes: pagelab compare -n {runs} -- 'CMD A' 'CMD B'",
                other.len()
            )));
        }
    }
    let mut plan = toml::Table::new();
    plan.insert("title".to_owned(), format!("compare -n {runs} -- {}", args.command.join(" ")).into());
    plan.insert("runs".to_owned(), i64::try_from(runs).map_err(Failure::input)?.into());
    plan.insert("base".to_owned(), "base".into());
    plan.insert("workdir".to_owned(), here.to_string_lossy().into_owned().into());
    if let Some(metric) = &args.metric {
        // Without a direction the plan takes the vocabulary's, which may be that neither way is better.
        let primary = toml::Table::from_iter([("metric".to_owned(), metric.clone().into())]);
        plan.insert("primary".to_owned(), primary.into());
    }
    plan.insert("variant".to_owned(), sides.into());
    toml::to_string(&plan).map_err(Failure::host)
}
