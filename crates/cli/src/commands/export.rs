//! `pagelab export`: recordings for other tools.

use std::path::PathBuf;

use clap::ValueEnum;
use pagelab_interop::folded::{Folded, Weighed, fold};
use pagelab_output::OutputFile;
use pagelab_recording::Recording;
use pagelab_report::flamegraph::{FlameGraph, flame_graph};
use pagelab_views::read::{self, Tasks};
use pagelab_views::selection::Selection;

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
}

/// Which stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Of {
    /// Profile samples: where tasks spent CPU time.
    Cpu,
    /// Time off the CPU: where tasks waited, and for how long.
    Sched,
}

impl Of {
    fn stream(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Sched => "sched",
        }
    }

    fn weighed(self) -> Weighed {
        match self {
            Self::Cpu => Weighed::Samples,
            Self::Sched => Weighed::OffCpu,
        }
    }

    fn rows(self) -> &'static str {
        match self {
            Self::Cpu => "samples",
            Self::Sched => "times off a CPU",
        }
    }
}

/// Write a recording in the format of other tools.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pagelab export flamegraph run.rec -o run.svg\n  \
                        pagelab export folded run.rec --of sched | head")]
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
    let selection =
        Selection { pid: args.pid, comm: args.comm.clone(), bounds: args.span.bounds(), ..Selection::default() };
    let recording = args.span.open(&args.dir)?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(&recording, &selection, &mut notes)?;
    let root = |task_id, ts| {
        let comm = || tasks.get(task_id).and_then(|task| task.comm_at(ts)).unwrap_or("[unknown]").to_owned();
        tasks.wants(&selection, task_id, ts).then(comm)
    };
    let folded = fold(&recording, args.of.weighed(), root, &mut notes)?;
    read::lost(&recording, args.of.stream(), &mut notes)?;
    if folded.stacks.is_empty() {
        read::nothing(&recording, args.of.stream(), args.of.rows(), folded.rows, folded.selected, &mut notes);
        return Err(Failure::input(anyhow::anyhow!("{}", notes.join("; "))));
    }
    if folded.without_stack > 0 {
        notes.push(format!("{} of {} {} have no stack", folded.without_stack, folded.selected, args.of.rows()));
    }
    for note in notes {
        tracing::warn!("{note}");
    }
    let lines: Vec<String> = folded.lines().collect();
    let text = match args.format {
        Format::Folded => lines.join("\n") + "\n",
        Format::Flamegraph => picture(args.of, &recording, &folded, &lines)?,
    };
    match &args.output {
        Some(path) => OutputFile::write(path, text.as_bytes())?,
        None => print::text(&text)?,
    }
    Ok(0)
}

fn picture(of: Of, recording: &Recording, folded: &Folded, lines: &[String]) -> Result<String, Failure> {
    let manifest = recording.manifest();
    let command = manifest.command.as_ref().map(|words| words.join(" "));
    let what = manifest.label.clone().or(command).unwrap_or_default();
    let (title, waiting) = match of {
        Of::Cpu => ("On the CPU", false),
        Of::Sched => ("Off the CPU", true),
    };
    let title = if what.is_empty() { title.to_owned() } else { format!("{title}: {what}") };
    let subtitle = format!("{} {}, by {}", folded.selected, of.rows(), folded.unit);
    let graph = FlameGraph { title: &title, subtitle: &subtitle, unit: &folded.unit, waiting };
    flame_graph(lines, &graph).map_err(Failure::input)
}
