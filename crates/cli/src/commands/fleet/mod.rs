//! `pagelab fleet`: questions across many hosts, from tables that are compacted by day.

mod cluster;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use pagelab_analysis::trend::DetectOptions;
use pagelab_fleet::FleetError;
use pagelab_fleet::answers::{DifferenceQuestion, Question, difference, drifting, outlying, over_days, summary};
use pagelab_fleet::compact::{CompactOptions, HostLabels, compact};
use pagelab_fleet::drift::DriftOptions;
use pagelab_fleet::outliers::OutlierOptions;
use pagelab_fleet::rollup::{Day, FleetFolder, FleetSource, TABLES, TableDef};
use pagelab_report::{Style, fleet as text};
use pagelab_sql::listed::{ListedTable, query_listed};
use serde::Serialize;

use super::query::ResultArgs;
use crate::cluster::ClusterArgs;
use crate::failure::Failure;
use crate::options::parse_level;
use crate::print;

/// Ask many hosts one question.
///
/// Questions do not read recordings but a few small tables, by day, which `compact` makes of them. A host counts once, however
/// often it ran: runs of one host are not independent.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    question: Asked,
}

const AFTER_HELP: &str = "\
Examples:
  pagelab fleet compact recordings/ fleet/ --labels hosts.csv
  pagelab fleet summary fleet/
  pagelab fleet compare fleet/ --label thp=always,never
  pagelab fleet outliers fleet/ --metric value.tps
  pagelab fleet trend fleet/ --from 2026-10-01

Recordings and fleets may be in object stores: URLs in place of folders, which a cluster may read with --cluster (docs/fleet.md).
upload, mirror and ls are commands of pagelab-fleet, which `pagelab fleet` calls.";

#[derive(Debug, Subcommand)]
enum Asked {
    /// Bring a fleet's tables up to recordings.
    Compact(CompactArgs),
    /// Say what is in a fleet, and how much hosts and runs differ.
    Summary(AskArgs),
    /// Compare runs by a label, with hosts as random effect: how fast, where the time goes, which settings differ.
    Compare(CompareArgs),
    /// Find hosts that are not like the others.
    Outliers(TestArgs),
    /// Find settings that differ among hosts, and whether the metric goes with them.
    Drift(TestArgs),
    /// Find on which days the fleet's level changed.
    Trend(TrendArgs),
    /// Query the fleet's tables with SQL: runs, labels, metrics, components, settings.
    #[command(after_help = SQL_HELP)]
    Sql(SqlArgs),
}

#[derive(Debug, clap::Args)]
struct CompactArgs {
    /// Recordings, or folders of them, and last the fleet's folder, which is made if it is not there
    #[arg(value_name = "DIR", required = true, num_args = 2..)]
    dirs: Vec<PathBuf>,
    /// A table of what is known of hosts: `host,instance_type,host_group` in the first line, then a line for each host
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Which fleet, days and metric.
#[derive(Debug, clap::Args)]
struct AskArgs {
    /// The folder of a compacted fleet
    #[arg(value_name = "FLEET")]
    fleet: PathBuf,
    /// First day (UTC) [default: the fleet's first]
    #[arg(long, value_name = "YYYY-MM-DD")]
    from: Option<Day>,
    /// Last day (UTC) [default: the fleet's last]
    #[arg(long, value_name = "YYYY-MM-DD")]
    to: Option<Day>,
    /// Metric [default: the first value.*, else load.iops, else run.elapsed_ns]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Instance of the metric, such as a device
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Of a counter, take what an operation adds, not what a second does
    #[arg(long)]
    per_operation: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl AskArgs {
    fn question(&self) -> Question {
        Question {
            from: self.from,
            to: self.to,
            metric: self.metric.clone(),
            instance: self.instance.clone(),
            per_operation: self.per_operation,
        }
    }

    fn open(&self) -> Result<Box<dyn FleetSource>, Failure> {
        Ok(match cluster::fleet(&self.cluster, &self.fleet)? {
            Some(fleet) => Box::new(fleet),
            None => Box::new(FleetFolder::open(&self.fleet)?),
        })
    }
}

#[derive(Debug, clap::Args)]
struct CompareArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// What divides runs, with the values of base and test side; of a label with two values they may be left out
    #[arg(long, value_name = "NAME[=BASE[,TEST]]")]
    label: String,
    /// Compare all metrics, too: a family of its own
    #[arg(long)]
    all_metrics: bool,
    /// False discovery rate of each family
    #[arg(long, default_value_t = 0.05, value_parser = parse_level)]
    alpha: f64,
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// False discovery rate
    #[arg(long, default_value_t = 0.05, value_parser = parse_level)]
    alpha: f64,
}

#[derive(Debug, clap::Args)]
struct TrendArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// Chance of any false change in the whole course
    #[arg(long, default_value_t = DetectOptions::default().alpha, value_parser = parse_level)]
    alpha: f64,
}

#[derive(Debug, clap::Args)]
struct SqlArgs {
    /// The folder of a compacted fleet
    #[arg(value_name = "FLEET")]
    fleet: PathBuf,
    /// The query; it only reads
    #[arg(value_name = "SQL")]
    sql: String,
    /// First day (UTC) whose files are read [default: the fleet's first]
    #[arg(long, value_name = "YYYY-MM-DD")]
    from: Option<Day>,
    /// Last day (UTC) whose files are read [default: the fleet's last]
    #[arg(long, value_name = "YYYY-MM-DD")]
    to: Option<Day>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    result: ResultArgs,
}

const SQL_HELP: &str = "\
Example:
  pagelab fleet sql fleet/ \"select kernel, count(distinct host) from runs group by 1 order by 2 desc\"

All tables have recording_id. docs/fleet.md lists their columns.";

impl From<FleetError> for Failure {
    /// A place that cannot be written to for lack of space or rights is the host's fault; all else is the input's.
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::Output(error) => error.into(),
            FleetError::Recording(error) => error.into(),
            other => Self::input(other),
        }
    }
}

/// Asks, and prints the answer.
pub(crate) fn run(args: &Args, is_whole: bool) -> Result<u8, Failure> {
    let style = Style::of_stdout();
    match &args.question {
        Asked::Compact(args) => compacted(args, &style)?,
        Asked::Summary(args) => {
            let found = summary(&*args.open()?, &args.question())?;
            printed(args, &found, || text::summary(&found, &style))?;
        }
        Asked::Compare(args) => {
            let found = difference(&*args.ask.open()?, &args.question()?)?;
            printed(&args.ask, &found, || text::difference(&found, is_whole, &style))?;
        }
        Asked::Outliers(args) => {
            let options = OutlierOptions { alpha: args.alpha, ..OutlierOptions::default() };
            let found = outlying(&*args.ask.open()?, &args.ask.question(), &options)?;
            printed(&args.ask, &found, || text::outlying(&found, is_whole, &style))?;
        }
        Asked::Drift(args) => {
            let options = DriftOptions { alpha: args.alpha, ..DriftOptions::default() };
            let found = drifting(&*args.ask.open()?, &args.ask.question(), &options)?;
            printed(&args.ask, &found, || text::drifting(&found, is_whole, &style))?;
        }
        Asked::Trend(args) => {
            let detect = DetectOptions { alpha: args.alpha, ..DetectOptions::default() };
            let found = over_days(&*args.ask.open()?, &args.ask.question(), detect)?;
            printed(&args.ask, &found, || text::course(&found, &style))?;
        }
        Asked::Sql(args) => return asked_in_sql(args),
    }
    Ok(0)
}

fn printed(ask: &AskArgs, found: &impl Serialize, text: impl Fn() -> String) -> Result<(), Failure> {
    if ask.json { print::json(found) } else { print::text(&text()) }
}

impl CompareArgs {
    fn question(&self) -> Result<DifferenceQuestion, Failure> {
        let (label, values) =
            self.label.split_once('=').map_or((self.label.as_str(), ""), |(name, values)| (name, values));
        let mut values =
            values.splitn(2, ',').map(str::trim).map(|value| (!value.is_empty()).then(|| value.to_owned()));
        let (base, test) = (values.next().flatten(), values.next().flatten());
        if label.is_empty() || (base.is_none() && test.is_some()) {
            let found = &self.label;
            return Err(Failure::input(anyhow!(
                "--label: found {found:?}; needed: NAME, NAME=BASE or NAME=BASE,TEST, such as thp=always,never"
            )));
        }
        let question = self.ask.question();
        Ok(DifferenceQuestion {
            question,
            label: label.to_owned(),
            base,
            test,
            all_metrics: self.all_metrics,
            alpha: self.alpha,
        })
    }
}

fn asked_in_sql(args: &SqlArgs) -> Result<u8, Failure> {
    if let Some(fleet) = cluster::fleet(&args.cluster, &args.fleet)? {
        let (tables, asked) = (fleet.tables(args.from, args.to)?, (args.sql.as_str(), args.result.format()?));
        return args.result.written(|out| cluster::write_answer(&fleet, &tables, asked, out));
    }
    let tables = listed(&FleetFolder::open(&args.fleet)?, args.from, args.to)?;
    let (format, options) = (args.result.format()?, args.result.limits());
    let sql = args.sql.clone();
    args.result
        .written_within(move |out| query_listed(&tables, &sql, format, out, &options).map(drop).map_err(Failure::input))
}

/// The tables of a fleet as the query engine takes them: with the columns that they are declared with.
fn listed(fleet: &FleetFolder, from: Option<Day>, to: Option<Day>) -> Result<Vec<ListedTable>, Failure> {
    let one = |table: &&TableDef| {
        let files = fleet.files(table, from, to)?;
        let files = files.iter().map(|path| format!("file://{}", path.display())).collect();
        Ok(ListedTable { name: table.name.to_owned(), schema: table.schema(), files })
    };
    TABLES.iter().map(one).collect()
}

/// A table of labels: some hundred bytes for each host.
const LARGEST_LABELS: u64 = 256 << 20;

fn compacted(args: &CompactArgs, style: &Style) -> Result<(), Failure> {
    let [sources @ .., fleet] = args.dirs.as_slice() else {
        return Err(Failure::input(anyhow!("found one folder; needed: recordings and a folder for the fleet")));
    };
    let mut options = CompactOptions::default();
    if let Some(path) = &args.labels {
        let bytes = pagelab_output::read_plain(path, LARGEST_LABELS)?;
        let text = String::from_utf8(bytes)
            .with_context(|| format!("{}: not UTF-8", path.display()))
            .map_err(Failure::input)?;
        options.labels =
            HostLabels::parse(&text).map_err(|why| Failure::input(anyhow!("{}: {why}", path.display())))?;
    }
    let now_ns = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(i64::MAX, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    let done = compact(sources, &FleetFolder::create(fleet)?, &options, now_ns)?;
    if args.json { print::json(&done) } else { print::text(&text::compacted(&done, style)) }
}
