//! `pagelab record`: records a command, or what runs already.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pagelab_recording::ProbeState;
use pagelab_session::{SessionError, SessionOptions, SessionOutcome, Target, ValueSpec};
use pagelab_vocab::terminal::shell_path;
use serde_json::json;

use crate::failure::Failure;
use crate::options::{RecordingArgs, STREAMS_HELP, parse_percent, parse_seconds, parse_size, running_or_command};
use crate::print;
use crate::progress::Line;
use crate::{say, spool};

/// The status of failures that are the recorder's own, as `env`, `nohup` and `timeout` use it.
const OWN_FAILURE: u8 = 125;

/// Record a command, running processes, a cgroup or the whole system: page faults, mappings, tasks, metrics, settings.
///
/// The exit status is the command's own (128+n if signal n ended it), and 0 for what ran already; 125 is a failure of the
/// recorder.
#[derive(Debug, clap::Args)]
#[command(
    after_help = format!("{AFTER_HELP}\n\n{STREAMS_HELP}"),
    override_usage = "pagelab record [OPTIONS] [--] CMD...\n       pagelab record [OPTIONS] <-p PID[,PID] | --cgroup PATH | -a> [[--] CMD...]",
    group(clap::ArgGroup::new("running")),
    group(clap::ArgGroup::new("target").required(true).multiple(true))
)]
pub(crate) struct Args {
    /// Record into this directory, new or empty [default: pagelab-TIME-COMMAND.rec in the current directory].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    recording: RecordingArgs,
    /// Record running processes, all their threads, and the processes that they fork from now on.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', groups = ["running", "target"])]
    pid: Vec<u32>,
    /// Record the tasks of a cgroup (v1 or v2) and of those below it, while they belong to it.
    #[arg(long, value_name = "PATH", groups = ["running", "target"])]
    cgroup: Option<PathBuf>,
    /// Record every process of the host but the recorder.
    #[arg(short, long, groups = ["running", "target"])]
    all: bool,
    /// Start recording S seconds after the command's start.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    skip: Option<Duration>,
    /// Record for S seconds; a command is then ended by SIGTERM [default: until it ends].
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    duration: Option<Duration>,
    /// Record on when CMD has ended, until the last process that it has left behind has (daemons).
    #[arg(long, requires = "command", conflicts_with = "running")]
    follow: bool,
    /// Stop recording at this size in bytes, such as 500M; the command goes on [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<usize>,
    /// Keep only the last S seconds (a flight recorder). SIGUSR2 ends the recording; the command goes on.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    last: Option<Duration>,
    /// Time between two samples of the metrics, such as 1s [default: 100ms].
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    metrics_every: Option<Duration>,
    /// Measure the run time of the recorder's own BPF programs. This makes them slower.
    #[arg(long)]
    bpf_stats: bool,
    /// Close the recording at nice value N, behind what has a lower one: that takes a processor for tenths of a second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=19))]
    close_nice: Option<i32>,
    /// Disable the most expensive stream when the recorder uses more than PERCENT of the machine's CPU time.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    budget: Option<f64>,
    /// Print neither progress nor the path of the recording.
    #[arg(short, long)]
    quiet: bool,
    /// Store a number of the command's output, such as 'tps:higher=tps = ([0-9.]+)', as the metric value.tps. Repeatable;
    /// the last match counts; :higher or :lower says which direction is better.
    #[arg(long, value_name = "NAME[:higher|:lower]=REGEX", requires = "command")]
    value: Vec<ValueSpec>,
    /// Command and its arguments. With -p, --cgroup or -a: record while it runs.
    #[arg(trailing_var_arg = true, value_name = "CMD", group = "target")]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Examples:
  pagelab record -o good.rec -- make -j2
  pagelab record make -j2 && pagelab show
  pagelab record -p $(pidof postgres | tr ' ' ,) --duration 10
  pagelab record -a -- sleep 10
  pagelab record --cgroup /sys/fs/cgroup/system.slice/db.service --last 30 & ... kill -USR2 $!
  pagelab show good.rec summary

Options stand before CMD; the words after it are its own arguments.

Processes that run already are recorded without being stopped. Recording ends when all of them have ended, when the cgroup \
is empty, when CMD ends, after --duration, or on SIGINT, SIGTERM or SIGHUP. Children that they started before are recorded \
only if they are named too or belong to the cgroup; with --skip and a command, all its children are recorded.

With --last S, event tables hold the last S seconds, and at most one second more; tasks, mappings, files and settings are \
kept from the start, because events cannot be interpreted without them.";

impl Args {
    fn target(&self) -> Target {
        running_or_command(self.cgroup.as_ref(), self.all, &self.pid, &self.command)
    }

    fn session(&self) -> Result<SessionOptions, Failure> {
        let mut options = self.recording.session(self.target(), self.output.as_ref())?;
        (options.skip, options.duration, options.keep_last) = (self.skip, self.duration, self.last);
        (options.bpf_stats, options.budget_pct) = (self.bpf_stats, self.budget);
        options.close_nice = self.close_nice;
        options.values.clone_from(&self.value);
        options.follow = self.follow;
        options.metrics_interval = self.metrics_every.unwrap_or(options.metrics_interval);
        if !options.target.is_started() && !self.command.is_empty() {
            options.during = Some(self.command.clone());
        }
        options.max_bytes = self.max_size.map(|bytes| bytes as u64);
        Ok(options)
    }
}

/// Records the target; the status is the command's.
pub(crate) fn run(args: &Args) -> ExitCode {
    let recorded = args.session().and_then(|options| {
        let line = Line::new(args.quiet || args.recording.json || !args.command.is_empty());
        let recorded = pagelab_session::run_and_tell(&options, &mut |progress| line.show(progress));
        drop(line);
        match recorded {
            Err(SessionError::Spawn(error)) => {
                say!("pagelab: {error}");
                Ok(error.exit_status() as u8)
            }
            other => {
                let outcome = other?;
                tell(&outcome, args.recording.json, args.quiet)?;
                let own = if options.target.is_started() { OWN_FAILURE } else { 0 };
                Ok(outcome.ended.map_or(own, |ended| ended.shell_status() as u8))
            }
        }
    });
    match recorded {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            say!("pagelab: {failure}");
            // A stream that the host cannot give is told apart, before anything was run.
            ExitCode::from(if matches!(failure, Failure::Host(_)) && is_refused(&failure) { 3 } else { OWN_FAILURE })
        }
    }
}

fn is_refused(failure: &Failure) -> bool {
    let (Failure::Input(error) | Failure::Host(error)) = failure;
    matches!(error.downcast_ref::<SessionError>(), Some(SessionError::StreamRefused { .. } | SessionError::Host(_)))
}

/// Tells the user what was recorded.
pub(crate) fn tell(outcome: &SessionOutcome, as_json: bool, quiet: bool) -> Result<(), Failure> {
    for warning in &outcome.warnings {
        say!("pagelab: warning: {warning}");
    }
    if as_json {
        return print::json(&json!({
            "recording": outcome.dir, "manifest": outcome.manifest, "warnings": outcome.warnings,
            "timed_out": outcome.timed_out, "interrupted": outcome.interrupted,
        }));
    }
    if quiet {
        return Ok(());
    }
    let faults =
        outcome.manifest.probes.iter().find(|probe| probe.name == "faults" && probe.state == ProbeState::Active);
    // What was seen and given up again is not in it.
    let dropped = outcome.manifest.rows_dropped.get("faults").copied().unwrap_or(0);
    let faults = faults.and_then(|probe| probe.events_seen).map(|count| count.saturating_sub(dropped));
    let faults = faults.map_or_else(String::new, |count| format!(", {count} faults"));
    let whole = if outcome.manifest.complete { "" } else { ", not complete" };
    // A spool goes as soon as all is in the store.
    let place = spool::of(&outcome.dir).map_or_else(|| outcome.dir.clone(), |spool| PathBuf::from(spool.url));
    let (dir, word) = (place.display(), shell_path(&place));
    say!("pagelab: recorded into {dir}{whole}{faults}; look at it with: pagelab show {word}");
    Ok(())
}
