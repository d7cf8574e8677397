//! `pagelab export`: recordings for other tools.

use std::path::PathBuf;

use clap::ValueEnum;
use pagelab_interop::folded::{Folded, Weighed, fold, fold_off};
use pagelab_interop::openmetrics;
use pagelab_interop::perfetto::trace;
use pagelab_interop::profiler::{MOST_EVENTS, profile};
use pagelab_output::OutputFile;
use pagelab_recording::Recording;
use pagelab_report::flamegraph::{FlameGraph, flame_graph};
use pagelab_views::absence;
use pagelab_views::read::{self, Tasks};
use pagelab_views::run::RunData;
use pagelab_views::selection::Selection;
use pagelab_views::view::budget::OffSource;
use pagelab_vocab::streams::Stream;

use crate::failure::Failure;
use crate::options::SpanArgs;
use crate::print;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Stacks as lines: outermost;...;innermost NUMBER.
    Folded,
    /// A flame graph, an SVG for browsers.
    Flamegraph,
    /// A profile for the Firefox Profiler (profiler.firefox.com): samples; faults, calls and times off the CPU as markers.
    FirefoxProfiler,
    /// A trace for Perfetto (ui.perfetto.dev): samples, faults, calls and times off the CPU on the track of each thread.
    Perfetto,
    /// The numbers of the run as OpenMetrics text, for Prometheus.
    Openmetrics,
}

/// Which stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Of {
    /// Profile samples: where tasks spent CPU time.
    Cpu,
    /// Time off the CPU, asleep and waiting for one, from the stream sched.
    Sched,
    /// Time off the CPU until woken, by component of the account: from the stream sched, or else waits.
    Waits,
}

impl Of {
    fn stream(self) -> Stream {
        match self {
            Self::Cpu => Stream::Cpu,
            Self::Sched => Stream::Sched,
            Self::Waits => Stream::Waits,
        }
    }

    fn rows(self) -> &'static str {
        match self {
            Self::Cpu => "samples",
            Self::Sched => "times off a CPU",
            Self::Waits => "stacks of waits",
        }
    }

    fn fold(self, recording: &Recording, selection: &Selection, notes: &mut Vec<String>) -> Result<Folded, Failure> {
        let tasks = Tasks::load(recording, selection, notes)?;
        let root = |task_id, ts| {
            let comm = || tasks.get(task_id).and_then(|task| task.comm_at(ts)).unwrap_or("[unknown]").to_owned();
            tasks.wants(selection, task_id, ts).then(comm)
        };
        Ok(match self {
            Self::Cpu => fold(recording, Weighed::Samples, root, notes)?,
            Self::Sched => fold(recording, Weighed::OffCpu, root, notes)?,
            Self::Waits => match OffSource::of(recording)?.first() {
                Some(source) => fold_off(recording, *source, selection, notes)?,
                None => Folded::default(),
            },
        })
    }
}

/// Write a recording in the format of other tools.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pagelab export flamegraph run.rec -o run.svg\n  \
                        pagelab export folded run.rec --of sched | head\n  \
                        pagelab export flamegraph run.rec --of waits -o waits.svg\n  \
                        pagelab export firefox-profiler run.rec -o profile.json   # load it at profiler.firefox.com\n  \
                        pagelab export perfetto run.rec -o run.pftrace            # load it at ui.perfetto.dev\n  \
                        pagelab export openmetrics run.rec")]
pub(crate) struct Args {
    /// Output format.
    #[arg(value_enum)]
    format: Format,
    /// The recording.
    dir: PathBuf,
    /// Write to this file [default: standard output].
    #[arg(short, long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which stacks.
    #[arg(long, value_enum, default_value_t = Of::Cpu)]
    of: Of,
    /// Only this process.
    #[arg(long)]
    pid: Option<i32>,
    /// Only tasks while they have this name (comm).
    #[arg(long)]
    comm: Option<String>,
    #[command(flatten)]
    span: SpanArgs,
}

/// Writes what was asked for.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let mut notes = Vec::new();
    let are_stacks = matches!(args.format, Format::Folded | Format::Flamegraph);
    if !are_stacks && (args.pid.is_some() || args.comm.is_some()) {
        return Err(Failure::input(anyhow::anyhow!(
            "export: found --pid or --comm, which choose stacks; needed: folded or flamegraph, or no such option"
        )));
    }
    let bytes = match args.format {
        Format::Folded | Format::Flamegraph => stacks(args, &mut notes)?.into_bytes(),
        Format::FirefoxProfiler => {
            let recording = args.span.open(&args.dir)?;
            at_most(&recording, MOST_EVENTS)?;
            lost(&recording, &mut notes)?;
            profile(&recording, &mut notes)?.json.into_bytes()
        }
        Format::Perfetto => {
            let recording = args.span.open(&args.dir)?;
            lost(&recording, &mut notes)?;
            trace(&recording, &mut notes)?.bytes
        }
        Format::Openmetrics => {
            let run = RunData::load_within(&args.dir, &args.span.bounds()).map_err(Failure::input)?;
            notes.extend(run.notes.iter().cloned());
            openmetrics::text(&run).into_bytes()
        }
    };
    for note in notes {
        tracing::warn!("{note}");
    }
    match &args.output {
        Some(path) => OutputFile::write(path, &bytes)?,
        None if args.format == Format::Perfetto => {
            return Err(Failure::input(anyhow::anyhow!(
                "export perfetto: found standard output, which a trace is no text for; needed a file: -o trace.pftrace"
            )));
        }
        None => print::text(&String::from_utf8_lossy(&bytes))?,
    }
    Ok(0)
}

/// Streams whose events profiles and traces hold.
const STREAMS: [Stream; 4] = [Stream::Cpu, Stream::Faults, Stream::Syscalls, Stream::Sched];

/// Refuses a recording with more events than a format takes.
fn at_most(recording: &Recording, most: u64) -> Result<(), Failure> {
    let rows =
        STREAMS.into_iter().filter_map(Stream::table).map(|table| recording.rows(table)).sum::<Result<u64, _>>()?;
    if rows > most {
        return Err(Failure::input(anyhow::anyhow!(
            "export: found {rows} events, needed at most {most}; choose a part with --from and --to, or export perfetto"
        )));
    }
    Ok(())
}

/// Notes what the streams lost.
fn lost(recording: &Recording, notes: &mut Vec<String>) -> Result<(), Failure> {
    for stream in STREAMS {
        read::lost(recording, stream, notes)?;
    }
    Ok(())
}

/// The stacks, folded or drawn.
fn stacks(args: &Args, notes: &mut Vec<String>) -> Result<String, Failure> {
    let selection =
        Selection { pid: args.pid, comm: args.comm.clone(), bounds: args.span.bounds(), ..Selection::default() };
    let recording = args.span.open(&args.dir)?;
    let folded = args.of.fold(&recording, &selection, notes)?;
    read::lost(&recording, args.of.stream(), notes)?;
    if folded.stacks.is_empty() {
        absence::nothing(&recording, args.of.stream(), args.of.rows(), folded.rows, folded.selected, notes)?;
        return Err(Failure::input(anyhow::anyhow!("{}", notes.join("; "))));
    }
    if folded.without_stack > 0 {
        notes.push(format!("{} of {} {} have no stack", folded.without_stack, folded.selected, args.of.rows()));
    }
    let lines: Vec<String> = folded.lines().collect();
    match args.format {
        Format::Flamegraph => picture(args.of, &recording, &folded, &lines),
        _ => Ok(lines.join("\n") + "\n"),
    }
}

fn picture(of: Of, recording: &Recording, folded: &Folded, lines: &[String]) -> Result<String, Failure> {
    let manifest = recording.manifest();
    let command = manifest.command.as_ref().map(|words| words.join(" "));
    let what = manifest.label.clone().or(command).unwrap_or_default();
    let (title, waiting) = match of {
        Of::Cpu => ("On the CPU", false),
        Of::Sched | Of::Waits => ("Off the CPU", true),
    };
    let title = if what.is_empty() { title.to_owned() } else { format!("{title}: {what}") };
    let subtitle = format!("{} {}, by {}", folded.selected, of.rows(), folded.unit);
    let graph = FlameGraph { title: &title, subtitle: &subtitle, unit: &folded.unit, waiting };
    flame_graph(lines, &graph).map_err(Failure::input)
}
