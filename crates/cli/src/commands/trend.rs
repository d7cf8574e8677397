//! `pagelab trend`: where the level of a history of recordings changed.

use std::path::PathBuf;

use clap::ValueEnum;
use pagelab_analysis::compare::PrimaryChoice;
use pagelab_analysis::trend::{DetectOptions, Order, TrendOptions, trend};

use crate::failure::{BAD, Failure};
use crate::options::{SpanArgs, parse_level};
use crate::print;
use crate::say;
use crate::verdict;

/// Find where the level of a benchmark changed in a history of recordings, by how much, and how sure that is.
///
/// Each DIR is one point: a recording, a folder of recordings, or a set. Slow drifts are told from steps.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The points of the history: recordings, folders of recordings, or sets.
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Metric, such as value.tps for a --value called tps [default: the first --value, else load.iops for jobs and
    /// run.elapsed_ns for commands].
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Of points that are sets, take the runs of this variant.
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Order of the points: by the time of recording, or as given.
    #[arg(long, value_enum, default_value_t)]
    order: OrderArg,
    /// Chance of any false change in the whole history.
    #[arg(long, default_value_t = DetectOptions::default().alpha, value_parser = parse_level)]
    alpha: f64,
    /// Seed of the random orders that the tests draw.
    #[arg(long, default_value_t = DetectOptions::default().seed, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    span: SpanArgs,
    /// Exit with status 1 if the last change is for the worse, if nothing could be tested, or if the newest point has no
    /// value.
    #[arg(long)]
    check: bool,
    /// With --check: the last change may be for the worse by up to this many per cent.
    #[arg(long, value_name = "PCT", requires = "check", value_parser = threshold)]
    threshold: Option<f64>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  pagelab trend nights/*
  pagelab trend nights/* --variant test --metric value.tps
  pagelab trend v1.rec v2.rec ... v20.rec --order given
  pagelab trend nights/* --check --threshold 3

A point's value is the mean of its runs. At least 10 points are needed at alpha 0.01, and 8 at 0.05.";

/// How points are ordered.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum OrderArg {
    /// By the time at which their first run began.
    #[default]
    Time,
    /// As they stand in the command.
    Given,
}

/// A number of per cent, from 0 on.
fn threshold(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| format!("found {text:?}, needed per cent from 0 on, such as 3"))
}

/// Looks for changes, and prints them with the chart.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let metric = args.metric.as_deref().map(|name| PrimaryChoice::parse(name, None)).transpose();
    let options = TrendOptions {
        metric: metric.map_err(Failure::input)?,
        variant: args.variant.clone(),
        order: match args.order {
            OrderArg::Time => Order::Time,
            OrderArg::Given => Order::Given,
        },
        bounds: args.span.bounds(),
        detect: DetectOptions { alpha: args.alpha, seed: args.seed, ..DetectOptions::default() },
    };
    let found = trend(&args.dirs, &options).map_err(Failure::input)?;
    if args.json {
        print::json(&found)?;
    } else {
        print::text(&verdict::trend(&found))?;
    }
    match found.bad_answer(args.threshold).filter(|_| args.check) {
        Some(reason) => {
            say!("pagelab: --check: {reason}");
            Ok(BAD)
        }
        None => Ok(0),
    }
}
