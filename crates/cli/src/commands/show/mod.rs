//! `pagelab show`: one view of a recording, as text or as a document. What a view says is `pagelab_views`' matter, how it
//! looks `pagelab_report`'s.

mod order;
mod views;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use pagelab_recording::set::discover_readable;
use pagelab_recording::{Recording, isolated};
use pagelab_report::view::table::{clean, width};
use pagelab_report::view::{Page, log_line, more, page, sides};
use pagelab_report::{Style, io_map_columns};
use pagelab_views::ViewError;
use pagelab_views::answer::Answer;
use pagelab_views::selection::Selection;
use pagelab_views::sides::{SideRun, changes};
use pagelab_views::view::syscalls::log::Log;
use pagelab_views::view::{
    block, budget, counters, dax, faults, io, latency, loss, maps, metrics, profile, regions, sched, settings, summary,
    syscalls, tasks,
};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::print;
use crate::say;
pub(crate) use order::view_first;
use views::View;

/// The recording and the view of it.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "pagelab show [DIR] [VIEW] [OPTIONS]\n       pagelab show --base DIR --test DIR [VIEW] [OPTIONS]\n       pagelab show VIEW --help",
    subcommand_value_name = "VIEW",
    subcommand_help_heading = "Views",
    disable_help_subcommand = true,
    after_help = AFTER_HELP
)]
pub(crate) struct Args {
    /// The recording [default: the newest in the current directory]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    view: View,
}

const AFTER_HELP: &str = "\
Each view has options of its own, which may stand before or after its name: pagelab show VIEW --help. All views have \
--json, --from and --to.

Times are seconds since the start of the recording, for --from and --to too. A value that is not known is `-`, in JSON null. \
A recording without a clean end is shown up to where it broke off, and the first line says so.

Examples:
  pagelab show
  pagelab show good.rec
  pagelab show good.rec faults --comm postgres --top 5
  pagelab show good.rec settings thp. hugetlb.
  pagelab show good.rec metrics vmstat.thp_ --json
  pagelab show --base good.rec --test bad.rec syscalls

JSON: --top and --sort select the same rows as in the text; `..._total` beside a list is its length before --top. Bytes of a \
path that are not UTF-8 are replaced, and `path_bytes_hex` beside `path` has all bytes. Addresses are hexadecimal text, \
because many JSON parsers round large numbers.";

/// Shows the view asked for.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if !args.view.common().base.is_empty() {
        return two_sides(args);
    }
    let dir = args.dir.clone().map_or_else(newest, Ok)?;
    let style = Style { width: width(), ..Style::default() };
    let rows = Selection { columns: Some(io_map_columns(&style)), ..args.view.selection() };
    let common = args.view.common();
    let recording = common.span.open(&dir)?;
    if matches!(&args.view, View::Syscalls(calls) if calls.log) {
        print_log(common.json, &recording, &rows)?;
    } else {
        print(common.json, &*answer(&args.view, &recording, &rows)?)?;
    }
    Ok(0)
}

/// An answer of any view.
trait Shown {
    /// As a document.
    fn document(&self) -> Result<Value, ViewError>;
    /// As text.
    fn text(&self) -> String;
}

impl<T: Serialize + Page> Shown for Answer<T> {
    fn document(&self) -> Result<Value, ViewError> {
        Answer::document(self)
    }

    fn text(&self) -> String {
        page(self)
    }
}

/// What the view says of the recording.
fn answer(view: &View, recording: &Recording, rows: &Selection) -> Result<Box<dyn Shown>, Failure> {
    Ok(match view {
        View::Summary(_) => Box::new(summary::collect(recording, rows)?),
        View::Tasks(_) => Box::new(tasks::collect(recording, rows)?),
        View::Faults(_) => Box::new(faults::collect(recording, rows)?),
        View::Maps(_) => Box::new(maps::collect(recording, rows)?),
        View::Dax(_) => Box::new(dax::collect(recording, rows)?),
        View::Syscalls(_) => Box::new(syscalls::collect(recording, rows)?),
        View::Io(_) => Box::new(io::collect(recording, rows)?),
        View::Budget(_) => Box::new(budget::collect(recording, rows)?),
        View::Sched(_) => Box::new(sched::collect(recording, rows)?),
        View::Profile(_) => Box::new(profile::collect(recording, rows)?),
        View::Counters(_) => Box::new(counters::collect(recording, rows)?),
        View::Metrics(_) => Box::new(metrics::collect(recording, rows)?),
        View::Settings(_) => Box::new(settings::collect(recording, rows)?),
        View::Latency(_) => Box::new(latency::collect(recording, rows)?),
        View::Block(_) => Box::new(block::collect(recording, rows)?),
        View::Regions(_) => Box::new(regions::collect(recording, rows)?),
        View::Loss(_) => Box::new(loss::collect(recording, rows)?),
    })
}

/// Shows what changed between two sides. Lists are made whole: rows are paired before any is left out.
fn two_sides(args: &Args) -> Result<u8, Failure> {
    let (common, asked) = (args.view.common(), args.view.selection());
    if let Some(dir) = &args.dir {
        let needed = "found DIR and --base; needed either one recording, or --base and --test";
        return Err(Failure::input(anyhow::anyhow!("{}: {needed}", clean(&dir.to_string_lossy()))));
    }
    if matches!(&args.view, View::Syscalls(calls) if calls.log) {
        let needed = "--log shows the calls of one recording; needed without it, or one recording and no --base";
        return Err(Failure::input(anyhow::anyhow!(needed)));
    }
    let whole = Selection { top: Some(0), sort: None, ..asked.clone() };
    let side = |paths: &[PathBuf]| -> Result<Vec<SideRun>, Failure> {
        let (found, unreadable) = discover_readable(paths)?;
        let mut left_out: Vec<(PathBuf, String)> =
            unreadable.into_iter().map(|(dir, error)| (dir, error.to_string())).collect();
        let (mut runs, mut first) = (Vec::new(), None);
        for found in found {
            let made = || -> Result<SideRun, Failure> {
                let recording = common.span.open(&found.dir)?;
                let document = answer(&args.view, &recording, &whole)?.document()?;
                let view = document["view"].as_str().unwrap_or_default().to_owned();
                Ok(SideRun::new(&view, &recording, document)?)
            };
            match isolated(made) {
                Ok(Ok(run)) => runs.push(run),
                Ok(Err(failure)) => {
                    left_out.push((found.dir, failure.to_string()));
                    first.get_or_insert(failure);
                }
                Err(reason) => left_out.push((found.dir, reason)),
            }
        }
        // What is wrong with all of them is said once.
        if let Some(failure) = first.filter(|_| runs.is_empty()) {
            return Err(failure);
        }
        for (dir, reason) in left_out {
            say!("pagelab: left out: {}: {}", clean(&dir.to_string_lossy()), clean(&reason));
        }
        Ok(runs)
    };
    let (base, test) = (side(&common.base)?, side(&common.test)?);
    let view = base.first().and_then(|run| run.document["view"].as_str()).unwrap_or_default();
    let changes = changes(view, &base, &test, &asked);
    if common.json {
        print::json(&changes)?;
    } else {
        print::text(&sides(&changes))?;
    }
    Ok(0)
}

/// Prints an answer, as text or as a document.
fn print(json: bool, answer: &dyn Shown) -> Result<(), Failure> {
    if json { print::json(&answer.document()?) } else { print::text(&answer.text()) }
}

/// Prints the calls one by one.
fn print_log(json: bool, recording: &Recording, selection: &Selection) -> Result<(), Failure> {
    let log = Log::open(recording, selection)?;
    if json {
        return print(json, &log.collect()?);
    }
    let head = log.head();
    print::text(&page(&head))?;
    print::stream(|out| write_log(&log, head.about.clock_start_ns, out))
}

/// Writes the calls while they are read: there may be more of them than memory holds.
fn write_log(log: &Log, start_ns: i64, out: &mut dyn Write) -> Result<(), Failure> {
    let limit = log.limit();
    let (mut shown, mut failed) = (0_usize, None);
    let visited = log.visit(|logged| {
        if shown < limit && failed.is_none() {
            shown += 1;
            failed = writeln!(out, "{}", log_line(logged, start_ns)).err();
        }
    })?;
    let said = match (visited.in_recording, visited.selected) {
        (0, _) => "no calls are in the recording\n".to_owned(),
        (all, 0) => format!("none of the {all} calls is selected\n"),
        (_, selected) => more(shown, usize::try_from(selected).unwrap_or(usize::MAX)),
    };
    let mut left_out = String::new();
    for what in &visited.left_out {
        let _ = writeln!(left_out, "left out: {}", clean(what));
    }
    match failed.map_or_else(|| write!(out, "{left_out}{said}"), Err) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::host(error)),
        _ => Ok(()),
    }
}

/// The recording in the current directory that was begun or ended last; says which.
fn newest() -> Result<PathBuf, Failure> {
    let changed = |dir: &PathBuf| std::fs::metadata(dir.join("manifest.json")).and_then(|meta| meta.modified()).ok();
    let here = std::fs::read_dir(".").map_err(Failure::input)?.flatten().map(|entry| PathBuf::from(entry.file_name()));
    let newest = here.filter_map(|dir| Some((changed(&dir)?, dir))).max();
    let Some((_, dir)) = newest else {
        let here = std::env::current_dir().map_or_else(|_| ".".to_owned(), |dir| dir.display().to_string());
        let needed = format!("found no recording in {here}; needed: one, try: pagelab record CMD, or pagelab show DIR");
        return Err(Failure::input(anyhow::anyhow!(needed)));
    };
    say!("pagelab: the newest recording here: {}", clean(&dir.to_string_lossy()));
    Ok(dir)
}
