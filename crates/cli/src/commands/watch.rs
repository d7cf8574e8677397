//! `pagelab watch`: what a target does now, once a second.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use pagelab_session::Target;
use pagelab_vocab::terminal::shell_path;
use pagelab_watch::{How, Options, WatchError};

use crate::failure::Failure;
use crate::options::{parse_seconds, running_or_command};
use crate::say;

/// Show once a second what a command, processes, a cgroup or the whole system does: where its time goes, page faults, system calls,
/// waits, threads.
///
/// On a terminal a picture (q quits, ? lists the keys); else a line a second. Ends when the target does; the exit status is 0 then,
/// whatever the command's was.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    override_usage = "pagelab watch [OPTIONS] [--] CMD...\n       pagelab watch [OPTIONS] <-p PID[,PID] | --cgroup PATH | -a>",
    group(clap::ArgGroup::new("target").required(true))
)]
pub(crate) struct Args {
    /// Watch running processes, all their threads, and the processes that they fork from now on.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', group = "target")]
    pid: Vec<u32>,
    /// Watch the tasks of a cgroup (v1 or v2) and of those below it, while they belong to it.
    #[arg(long, value_name = "PATH", group = "target")]
    cgroup: Option<PathBuf>,
    /// Watch every process of the host but pagelab.
    #[arg(short, long, group = "target")]
    all: bool,
    /// End after S seconds; a command is then ended by SIGTERM [default: when the target ends].
    #[arg(long = "for", value_name = "S", value_parser = parse_seconds)]
    duration: Option<Duration>,
    /// Keep the recording (streams tasks and waits) in this directory [default: none is kept].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Measure the run time of pagelab's own BPF programs, too. This makes them slower.
    #[arg(long)]
    bpf_stats: bool,
    /// Print one JSON document a second, each on a line of its own.
    #[arg(long)]
    json: bool,
    /// Command and its arguments. Its output is not shown on a terminal, and goes to standard error elsewhere.
    #[arg(trailing_var_arg = true, value_name = "CMD", group = "target")]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Examples:
  pagelab watch -p $(pidof -s postgres)
  pagelab watch -- make -j2
  pagelab watch --cgroup /sys/fs/cgroup/system.slice --for 60 -o slice.rec
  pagelab watch --all --json --for 10 | jq -c '[.run_ns, .faults.per_s]'

Needs root and BPF. Without -o the last minute is recorded into a temporary directory, in memory where possible, which is removed \
at the end. What each figure means: docs/watch.md.";

impl Args {
    fn target(&self) -> Target {
        running_or_command(self.cgroup.as_ref(), self.all, &self.pid, &self.command)
    }

    fn how(&self) -> How {
        let is_dumb = || std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        match () {
            () if self.json => How::Json,
            () if std::io::stdout().is_terminal() && !is_dumb() => How::Screen,
            () => How::Lines,
        }
    }
}

/// Watches the target to its end.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let options = Options {
        target: args.target(),
        out: args.output.clone(),
        duration: args.duration,
        bpf_stats: args.bpf_stats,
        how: args.how(),
        plain: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
    };
    let outcome = pagelab_watch::watch(&options).map_err(|error| match error {
        WatchError::Session(error) => error.into(),
        WatchError::System(error) => Failure::host(error),
    })?;
    for warning in &outcome.warnings {
        say!("pagelab: warning: {warning}");
    }
    if let Some(ended) = outcome.ended.filter(|ended| ended.shell_status() != 0) {
        let last = outcome.last_line.map_or_else(String::new, |line| format!(": {line}"));
        say!("pagelab: the command ended with status {}{last}", ended.shell_status());
    }
    if let Some(dir) = &outcome.kept {
        say!("pagelab: recorded into {}; look at it with: pagelab show {} budget", dir.display(), shell_path(dir));
    }
    Ok(0)
}
