//! `pagelab compare`: are two sets of runs different, in what, and why.

mod commands;

use std::path::{Path, PathBuf};

use pagelab_analysis::compare::{CompareOptions, Comparison, Limit, PrimaryChoice, compare};
use pagelab_experiment::KeptSet;
use pagelab_output::OutputFile;
use pagelab_recording::Bounds;
use pagelab_recording::set::{discover, folders, reference};
use pagelab_session::ValueSpec;
use serde::Serialize;

use super::confirm::ConfirmArgs;
use super::page;
use crate::failure::Failure;
use crate::options::{AllowArgs, SpanArgs, parse_level};
use crate::print;
use crate::say;
use crate::verdict;

/// Compare two sets of recordings, or two ways of running a command.
///
/// Two paths are recordings or folders of them, the base first; one path is a set, whose variants are compared with its
/// base. With -n: runs two commands, or one command under two values of a setting, interleaved, into a set, and compares them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Two recordings or folders of recordings, the base first; or one set.
    #[arg(value_name = "DIR", num_args = 0..=2, conflicts_with_all = ["base", "runs"])]
    paths: Vec<PathBuf>,
    /// Recordings or sets of the base.
    #[arg(long, num_args = 1.., value_name = "DIR", requires = "test", conflicts_with = "runs")]
    base: Vec<PathBuf>,
    /// Recordings or sets to compare with the base.
    #[arg(long, num_args = 1.., value_name = "DIR", requires = "base")]
    test: Vec<PathBuf>,
    #[command(flatten)]
    allow: AllowArgs,
    /// Primary metric, or the NAME of a --value; the others are FDR-corrected together [default: the first --value, else
    /// load.iops for jobs and run.elapsed_ns for commands].
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Significance level: p values below it count as differences.
    #[arg(long, default_value_t = 0.05, value_parser = parse_level)]
    alpha: f64,
    #[command(flatten)]
    span: SpanArgs,
    /// Exit with status 1 if the test side is worse in the primary metric, fails more often, or cannot be tested.
    #[arg(long)]
    check: bool,
    /// With --check: a loss of up to PCT % of the base is let pass in the primary metric, or in METRIC. It fails where the 95 %
    /// interval of the loss lies beyond PCT. Repeatable.
    #[arg(long, value_name = "[METRIC=]PCT", requires = "check")]
    limit: Vec<Limit>,
    /// Write a summary in Markdown into FILE, for a pull request; - for standard output, in place of the text.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    /// Also write one HTML page that needs nothing else: every run, where the time went, the causes with their evidence.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also print the value of every run.
    #[arg(long)]
    each_run: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    // Last, because its heading holds for all that follows.
    #[command(flatten)]
    new: commands::NewSet,
}

const AFTER_HELP: &str = "\
Commands: one word is a command line for `sh -c`, so quote it; several words are a program and its arguments. With \
--setting give one command, in either form; without it give two, one word each.

Examples:
  pagelab compare good.rec bad.rec
  pagelab compare set                      # its variants
  pagelab compare good.rec bad.rec --html why.html     # opens offline in any browser
  pagelab compare good.rec bad.rec --check --limit 5 --markdown summary.md   # in CI
  pagelab compare good.rec bad.rec --confirm   # toggles the setting to blame, and nothing else
  pagelab compare -n 10 -- './old input' './new input'
  pagelab compare -n 10 --setting thp.enabled=always,madvise -- ./program input
  pagelab compare -n 10 --name 128MB,1GB --prepare './start' --value 'tps:higher=^tps = ([0-9.]+)' \\
      -- 'pgbench -p 5433 -T 10 bench' 'pgbench -p 5434 -T 10 bench'
  pagelab compare -n 10 --value 'rps:higher=GET: ([0-9.]+)' --setting thp.enabled=always,never \\
      -- redis-benchmark -q -t get

--value is matched against each line of standard output and standard error; the last match counts. Its first group must \
hold a plain number (12, 0.5, 1e5). If the value is what the sides are compared by, a run without it counts as failed.";

/// What `compare SET --json` prints: the first comparison, and beside it the others.
#[derive(Serialize)]
struct Several<'a> {
    #[serde(flatten)]
    first: Option<&'a Comparison>,
    #[serde(skip_serializing_if = "<[Comparison]>::is_empty")]
    further_comparisons: &'a [Comparison],
}

/// Compares, and prints the verdict; the whole of it where that is asked for.
pub(crate) fn run(args: &Args, is_whole: bool) -> Result<u8, Failure> {
    args.allow.grant()?;
    if args.html.is_some() {
        page::can_be_written()?;
        if is_part(args) {
            return Err(wrong(
                "compare: found --html with --from or --to; needed whole recordings: its pictures are of those",
            ));
        }
    }
    let (mut comparisons, set) = match commands::make(args)? {
        commands::Made::Compared(comparison, set) => (vec![*comparison], Some(set)),
        commands::Made::Interrupted => return Ok(commands::INTERRUPTED),
        commands::Made::NotAsked => (compare_recordings(args)?, args.set().map(Path::to_owned)),
    };
    for comparison in &mut comparisons {
        args.confirm.confirm(comparison, set.as_deref(), args.alpha, args.new.is_best_effort())?;
    }
    // What was found is shown all the same: it may have taken hours.
    let mut unknown_limit = None;
    for comparison in &mut comparisons {
        match comparison.keeps(&args.limit) {
            Ok(limits) => comparison.limits = limits,
            Err(why) => unknown_limit = Some(why),
        }
    }
    if args.json {
        let (first, further_comparisons) = match comparisons.as_slice() {
            [first, further @ ..] => (Some(first), further),
            [] => (None, &[][..]),
        };
        print::json(&Several { first, further_comparisons })?;
    } else if args.markdown.as_deref() == Some(Path::new("-")) {
        print::text(&markdown(&comparisons))?;
    } else {
        let of_one = |one| {
            let each_run = if args.each_run { verdict::each_run(one) } else { String::new() };
            verdict::comparison(one, is_whole) + &each_run
        };
        print::text(&comparisons.iter().map(of_one).collect::<Vec<_>>().join("\n"))?;
    }
    if let Some(file) = args.markdown.as_deref().filter(|file| *file != Path::new("-")) {
        OutputFile::write(file, markdown(&comparisons).as_bytes())?;
    }
    if let Some(file) = &args.html {
        page::write_comparisons(file, &comparisons)?;
    }
    if let Some(why) = unknown_limit {
        return Err(wrong(format!("--limit: {why}")));
    }
    let status = |one: &Comparison| verdict::check(one);
    Ok(if args.check { comparisons.iter().map(status).max().unwrap_or(0) } else { 0 })
}

fn markdown(comparisons: &[Comparison]) -> String {
    comparisons.iter().map(pagelab_report::markdown).collect::<Vec<_>>().join("\n")
}

impl Args {
    /// The set that is compared, if it is one.
    fn set(&self) -> Option<&Path> {
        match self.paths.as_slice() {
            [set] => Some(set),
            _ => None,
        }
    }
}

fn wrong(text: impl Into<String>) -> Failure {
    Failure::input(anyhow::anyhow!(text.into()))
}

fn compare_recordings(args: &Args) -> Result<Vec<Comparison>, Failure> {
    let primary = args.metric.as_deref().map(|name| primary_choice(name, &[])).transpose()?;
    let options =
        CompareOptions { alpha: args.alpha, primary, bounds: args.span.bounds(), ..CompareOptions::default() };
    match args.paths.as_slice() {
        [] if args.base.is_empty() => Err(wrong(
            "compare: found nothing to compare; needed two recordings, a set, or -n; try one of:\n  \
             pagelab compare good.rec bad.rec\n  pagelab compare SET\n  pagelab compare -n 10 -- './old' './new'",
        )),
        [] => Ok(vec![of_sides(&args.base, &args.test, &options)?]),
        paths => of_paths(paths, &options),
    }
}

/// Two paths, the base first, or the variants of one set.
pub(super) fn of_paths(paths: &[PathBuf], options: &CompareOptions) -> Result<Vec<Comparison>, Failure> {
    match paths {
        [base, test] => Ok(vec![of_sides(std::slice::from_ref(base), std::slice::from_ref(test), options)?]),
        [set] => compare_set(set, options),
        _ => Err(wrong(format!("found {} paths; needed two recordings, or one set", paths.len()))),
    }
}

fn of_sides(base: &[PathBuf], test: &[PathBuf], options: &CompareOptions) -> Result<Comparison, Failure> {
    let side = |paths: &[PathBuf]| -> Result<Vec<PathBuf>, Failure> { Ok(folders(paths)?.into_iter().collect()) };
    compare(&side(base)?, &side(test)?, options).map_err(Failure::input)
}

/// The variants of a set with its base.
fn compare_set(dir: &PathBuf, options: &CompareOptions) -> Result<Vec<Comparison>, Failure> {
    let Some(set) = KeptSet::open(dir).map_err(verdict::plan_failure)? else {
        let shown = dir.display();
        if reference(dir).is_ok() {
            return Err(wrong(format!(
                "compare: found one recording, {shown}; needed a second one beside it, or a set; to look at one alone: pagelab explain {shown}"
            )));
        }
        let found = discover(&[dir])?;
        let mut variants: Vec<String> = found.into_iter().filter_map(|run| run.variant).collect();
        variants.dedup();
        let found = if variants.is_empty() { String::new() } else { format!(" with variants {}", variants.join(", ")) };
        return Err(wrong(format!(
            "compare: {shown}: found recordings{found} and no set.json that names the base; needed two sides: pagelab compare --base {shown}/... --test {shown}/..."
        )));
    };
    for failed in set.failed_runs() {
        say!("failed: {} run {}: {}", failed.variant, failed.run, failed.reason);
    }
    let unmade = set.runs_to_do();
    if unmade > 0 {
        say!("pagelab: warning: {unmade} runs of this set are not made yet; what it shows is exploratory");
    }
    set.compare(options).map_err(verdict::plan_failure)
}

/// The metric named, with the direction that the vocabulary gives it, or that was said with the value.
fn primary_choice(name: &str, values: &[ValueSpec]) -> Result<PrimaryChoice, Failure> {
    match values.iter().find(|value| value.name == name || value.metric() == name) {
        Some(value) => PrimaryChoice::parse(&value.metric(), value.direction.map(pagelab_session::Better::word)),
        None => PrimaryChoice::parse(name, None),
    }
    .map_err(Failure::input)
}

/// Whether a part of the recordings' time was asked for.
fn is_part(args: &Args) -> bool {
    args.span.bounds() != Bounds::default()
}
