//! `pagelab run`: runs fio jobs with built-in engines and records them.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagelab_fiojob::args::option_text;
use pagelab_fiojob::options::nearest_option;
use pagelab_fiojob::{Workload, docs, engines, parse_args, unsupported};
use pagelab_load::control::Status;
use pagelab_load::front::{self, Ended, INTERRUPTED, Intervals};
use pagelab_load::output::{self, Format, Layouts, TerseVersion};
use pagelab_load::{Control, JobReport, must_not_write, plan};
use pagelab_output::OutputFile;
use pagelab_session::{SessionError, SessionOutcome, Target};
use pagelab_vocab::nearest::{hint, nearest};

use crate::commands::record;
use crate::failure::{BAD, Failure};
use crate::options::{RecordingArgs, STREAMS_HELP, parse_seconds};
use crate::print;
use crate::say;

/// Run fio jobs with built-in engines, and record what the kernel did meanwhile.
///
/// Takes job files, or jobs in fio's own style: --name=x --rw=randread --bs=4k ... (docs/job-options.md lists the options).
///
/// fio's options of the program may be written as fio takes them: with one dash or two, the value behind = or in the next word, anywhere
/// among the job's. One dash and one letter is always pagelab's own (-o, -q). An option given twice counts as it was given last.
#[derive(Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = format!("Examples:\n  pagelab run job.fio -o run.rec\n  \
    pagelab run -o run.rec -- --name=cache --ioengine=anon --rw=write --bs=4k --size=256m --map_granularity=2m\n\n\
    {STREAMS_HELP}")
)]
pub(crate) struct Args {
    /// Record into this directory, new or empty. Without it nothing is recorded, unless --observe or --label is given
    /// [then: pagelab-TIME-JOB.rec].
    #[arg(short = 'o', long = "recording", value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    recording: RecordingArgs,
    /// Write the report to this file [default: standard output].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Formats of the report, separated by commas: normal, json, json+ (json with latency buckets), terse.
    #[arg(long, value_name = "LIST", default_value = "normal")]
    output_format: String,
    /// Same as --output-format=terse.
    #[arg(long)]
    minimal: bool,
    /// Print the terse format, too.
    #[arg(long)]
    append_terse: bool,
    /// Version of the terse format: 2, 3, 4 (with trims) or 5 (with samples of IOPS, too).
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse_terse_version)]
    terse_version: TerseVersion,
    /// Print a report of the run so far this often (seconds, or with a unit), in every format. SIGUSR1 prints one at any time.
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    status_interval: Option<Duration>,
    /// Allow jobs to overwrite this file or device, which pagelab did not create, or the files in this folder, or those of a pattern ('data/f*').
    /// Devices have to be named themselves. Repeatable.
    #[arg(long, value_name = "PATH")]
    allow_write: Vec<PathBuf>,
    /// Refuse jobs that write or that would create a file.
    #[arg(long)]
    readonly: bool,
    /// Write the bandwidth of all jobs together to agg-read_bw.log, agg-write_bw.log and agg-trim_bw.log.
    #[arg(long)]
    bandwidth_log: bool,
    /// Print a status line every second on standard error; auto: if standard error is a terminal.
    #[arg(long, default_value = "auto", value_parser = Status::WORDS.map(|(word, _)| word), value_name = "WHEN")]
    eta: String,
    /// Print neither progress nor the path of the recording.
    #[arg(short, long)]
    quiet: bool,
    /// Treat warnings about a job as errors.
    #[arg(long)]
    warnings_fatal: bool,
    /// Run only the jobs of this name. Repeatable.
    #[arg(long, value_name = "NAME")]
    section: Vec<String>,
    /// Check the jobs without running them.
    #[arg(long)]
    parse_only: bool,
    /// Print help on one option of the job language, or on all.
    #[arg(long, value_name = "OPTION", num_args = 0..=1, default_missing_value = "all", require_equals = true)]
    cmdhelp: Option<String>,
    /// Print help on one I/O engine, or on all.
    #[arg(long, value_name = "ENGINE", num_args = 0..=1, default_missing_value = "all", require_equals = true)]
    enghelp: Option<String>,
    /// Print the fio version whose job language and output are followed, and pagelab's version.
    #[arg(long)]
    version: bool,
    /// What fio tells about itself; refused with what to do instead.
    #[arg(long, value_name = "WHAT", hide = true)]
    debug: Option<String>,
    #[command(flatten)]
    accepted: Accepted,
    /// Job files (- for standard input), or options in fio's style.
    #[arg(required_unless_present_any = ["cmdhelp", "enghelp", "version"], num_args = 1.., allow_hyphen_values = true, trailing_var_arg = true, value_name = "JOB")]
    jobs: Vec<String>,
}

/// Options of the program fio that ask for nothing that pagelab has to do: taken, so that commands written for fio work.
#[derive(Debug, clap::Args)]
struct Accepted {
    /// fio ignores it, too.
    #[arg(long, value_name = "N", hide = true)]
    max_jobs: Option<String>,
    /// KiB of fio's own pool of memory.
    #[arg(long, value_name = "KIB", hide = true)]
    alloc_size: Option<String>,
    /// The status line has its second in any case.
    #[arg(long, value_name = "TIME", hide = true)]
    eta_interval: Option<String>,
    /// Where standard error is no terminal the status line is a line of its own in any case.
    #[arg(long, value_name = "TIME", hide = true)]
    eta_newline: Option<String>,
}

/// What fio tells about itself with `--debug`: pagelab has other ways to show what happens.
const NO_DEBUG: &str = "--debug prints what fio does inside; pagelab shows what happens in other ways: --observe syscalls -o DIR \
    records every system call (look with `pagelab show DIR calls`), write_iolog=FILE writes down each operation, \
    --parse-only checks the jobs";

/// The version of fio whose job language and layouts these are; programs that call fio look for `fio-3`.
const FIO_VERSION: &str = "fio-3.33";

/// Puts pagelab's own options of `run` before the job's: fio takes `--output-format=json` anywhere among the options of
/// the job, and whoever comes from fio writes it last. What follows `--` is the job's alone.
pub(crate) fn own_options_first(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let Some(run) = words.iter().skip(1).position(|word| !word.as_encoded_bytes().starts_with(b"-")) else {
        return words;
    };
    if words[run + 1] != "run" {
        return words;
    }
    let command = <Args as clap::Args>::augment_args(clap::Command::new("run"));
    let (mut own, mut others) = (Vec::new(), Vec::new());
    let mut rest = words.split_off(run + 2).into_iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            others.push(word);
            break;
        }
        let word = with_two_dashes(word);
        let takes_value = own_option(&command, &word);
        let target = if takes_value.is_some() { &mut own } else { &mut others };
        target.push(word);
        if takes_value == Some(true) {
            own.extend(rest.next());
        }
    }
    words.extend(own);
    words.extend(others);
    words.extend(rest);
    words
}

/// An option with one dash, as fio takes it, with two: what has one dash and one letter stays pagelab's.
fn with_two_dashes(word: OsString) -> OsString {
    let text = word.to_str().and_then(option_text).map(|text| format!("--{text}"));
    text.map_or(word, OsString::from)
}

/// Whether a word is an option of `command`, and if so whether its value is the next word.
fn own_option(command: &clap::Command, word: &OsString) -> Option<bool> {
    let word = word.to_str()?;
    if matches!(word, "--help" | "-h") {
        return Some(false);
    }
    let (name, value_inside) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
    let of = |arg: &&clap::Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => name.strip_prefix('-').is_some_and(|short| arg.get_short().is_some_and(|own| short == own.to_string())),
    };
    let arg = command.get_arguments().find(of)?;
    // An option whose value may be left out takes it only after `=`.
    Some(arg.get_action().takes_values() && !value_inside && !arg.is_require_equals_set())
}

/// Runs the jobs and prints their report.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if args.version {
        return print::text(&format!("{FIO_VERSION} (pagelab-{})\n", env!("CARGO_PKG_VERSION"))).map(|()| 0);
    }
    if let Some(text) = help(args)? {
        return print::text(&text).map(|()| 0);
    }
    if args.debug.is_some() {
        return Err(Failure::input(anyhow::anyhow!(NO_DEBUG)));
    }
    let layouts = layouts(args)?;
    let workload = read_jobs(args)?;
    if args.parse_only {
        return rehearse(args, &workload).map(|()| 0);
    }
    // Opened before anything runs, so that a path that cannot be written costs no run; what was there stays until the report is.
    let report_file = args.output.as_deref().map(report_file).transpose()?;
    let control = Control {
        allow_write: args.allow_write.clone(),
        readonly: args.readonly,
        bandwidth_log: args.bandwidth_log,
        status: if args.quiet { Status::Never } else { Status::from_word(&args.eta).unwrap_or_default() },
        layouts,
        status_interval: args.status_interval,
        so_far_to: report_file.as_ref().map(reached_through),
        ..Control::default()
    };
    warn(args, &workload.warnings);
    let told = workload.warnings.len();
    let done = if records_nothing(args) { run_alone(&workload, &control)? } else { record(args, workload, &control)? };
    let (report, outcome) = match done {
        Done::Reported(report, outcome) => (report, outcome),
        Done::Refused(status) => return Ok(status),
    };
    let text = output::render(&report, &control.layouts).map_err(Failure::host)?;
    put(&text, report_file)?;
    // Those of the jobs were said before they ran.
    warn(args, report.warnings.get(told..).unwrap_or_default());
    tell_failures(&report);
    match outcome {
        Some(outcome) => record::tell(&outcome, false, args.quiet)?,
        None if control.layouts.formats.contains(&Format::Normal) && !args.quiet => {
            say!("pagelab: nothing was recorded; -o DIR records what the kernel did meanwhile");
        }
        None => {}
    }
    Ok(match (report.interrupted_by, report.succeeded()) {
        (Some(_), _) => INTERRUPTED,
        (None, true) => 0,
        (None, false) => BAD,
    })
}

/// A run that has ended.
enum Done {
    /// With a report, and with a recording if there was to be one.
    Reported(Box<JobReport>, Option<Box<SessionOutcome>>),
    /// Nothing ran: the load process has said why, and this is its status.
    Refused(u8),
}

/// Runs the jobs as fio does: nothing is recorded, and nothing is written but what they and their reports write.
fn run_alone(workload: &Workload, control: &Control) -> Result<Done, Failure> {
    let program = pagelab_host::own::program().map_err(Failure::host)?;
    match front::run(&program, workload, control, Intervals::Drop) {
        Ok(Ended::Report(report)) => Ok(Done::Reported(report, None)),
        Ok(Ended::Refused(status)) => Ok(Done::Refused(status.min(INTERRUPTED))),
        Err(error) if error.exit_status() == 2 => Err(Failure::input(error)),
        Err(error) => Err(Failure::host(error)),
    }
}

/// Runs the jobs and records them.
fn record(args: &Args, workload: Workload, control: &Control) -> Result<Done, Failure> {
    let mut options = args.recording.session(Target::Job(Box::new(workload)), args.directory.as_ref())?;
    // Standard output holds reports alone, those of the run so far among them.
    options.stdout_to_stderr = false;
    options.load = control.clone();
    let mut outcome = match pagelab_session::run(&options) {
        // The load process has said why: the jobs were refused, or a signal came before they began.
        Err(SessionError::Load { status: Some(status @ (2 | 3 | 128..)), .. }) => {
            return Ok(Done::Refused(u8::try_from(status).map_or(INTERRUPTED, |status| status.min(INTERRUPTED))));
        }
        // It was ended before it could handle signals.
        Err(SessionError::Load { status: None, .. }) if pagelab_session::signals::count() > 0 => {
            return Ok(Done::Refused(INTERRUPTED));
        }
        other => other?,
    };
    let Some(report) = outcome.report.take() else {
        return Err(Failure::host(anyhow::anyhow!(
            "the load process ended without a report; {}",
            ended_in_words(&outcome)
        )));
    };
    Ok(Done::Reported(Box::new(report), Some(Box::new(outcome))))
}

/// The file by a name through which the load process finds it, too.
fn reached_through(file: &OutputFile) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_fd().as_raw_fd()))
}

/// Writes the report behind those of the run so far.
fn put(text: &str, file: Option<OutputFile>) -> Result<(), Failure> {
    let Some(mut file) = file else { return print::text(text) };
    // Pipes and terminals have no end to go to.
    let _ = rustix::fs::seek(file.as_fd(), rustix::fs::SeekFrom::End(0));
    file.write_all(text.as_bytes()).map_err(|error| Failure::host(anyhow::anyhow!("writing the report: {error}")))?;
    Ok(file.commit()?)
}

/// Warnings go to standard error whatever the layout, as fio's do: a program reads the other.
fn warn(args: &Args, warnings: &[String]) {
    for warning in warnings.iter().filter(|_| !args.quiet) {
        say!("pagelab: warning: {warning}");
    }
}

fn parse_terse_version(word: &str) -> Result<TerseVersion, String> {
    TerseVersion::from_word(word).ok_or_else(|| format!("found {word:?}, needed 2, 3, 4 or 5"))
}

/// The layouts that were asked for.
fn layouts(args: &Args) -> Result<Layouts, Failure> {
    let wrong = |reason: String| Failure::input(anyhow::anyhow!("--output-format={}: {reason}", args.output_format));
    let mut formats = Format::list(&args.output_format).map_err(wrong)?;
    if args.minimal {
        formats = vec![Format::Terse];
    }
    if args.append_terse {
        formats.push(Format::Terse);
    }
    if args.recording.json && !formats.contains(&Format::JsonPlus) {
        formats = vec![Format::Json];
    }
    Ok(Layouts { formats, terse_version: args.terse_version })
}

/// What a run would warn of or refuse.
fn rehearse(args: &Args, workload: &Workload) -> Result<(), Failure> {
    let planned = plan::rehearse(workload).map_err(Failure::input)?;
    warn(args, &workload.warnings);
    warn(args, &planned);
    Ok(())
}

/// Most failures that are told on standard error; the report has all.
const MAX_FAILURES_TOLD: usize = 8;

/// Why workers failed, on standard error: the report may be in a file.
fn tell_failures(report: &JobReport) {
    let failures: Vec<String> = report.failures().collect();
    for failure in failures.iter().take(MAX_FAILURES_TOLD) {
        say!("pagelab: {failure}");
    }
    if failures.len() > MAX_FAILURES_TOLD {
        say!("pagelab: and {} more workers failed", failures.len() - MAX_FAILURES_TOLD);
    }
}

/// As fio, which records nothing, unless it is said what or where to.
fn records_nothing(args: &Args) -> bool {
    args.directory.is_none() && args.recording.observe.is_none() && args.recording.label.is_none()
}

fn report_file(path: &Path) -> Result<OutputFile, Failure> {
    OutputFile::open(path).map_err(|error| Failure::input(anyhow::anyhow!("--output={}: {error}", path.display())))
}

/// The help that was asked for, if any was.
fn help(args: &Args) -> Result<Option<String>, Failure> {
    let unknown = |what: &str, name: &str, nearest: Option<&str>| {
        Failure::input(anyhow::anyhow!("found {name:?}, which is no {what}{}", hint(nearest)))
    };
    if let Some(name) = &args.cmdhelp {
        if name == "all" {
            return Ok(Some(docs::overview()));
        }
        let text = docs::help(name).ok_or_else(|| match unsupported::option(name) {
            Some(reason) => {
                Failure::input(anyhow::anyhow!("{name} is an option of fio that pagelab refuses: {reason}"))
            }
            None => unknown("option", name, nearest_option(name)),
        });
        return text.map(Some);
    }
    let Some(name) = &args.enghelp else { return Ok(None) };
    if name == "all" {
        return Ok(Some(docs::engine_overview()));
    }
    let text = docs::engine_help(name).ok_or_else(|| match unsupported::engine(name) {
        Some(reason) => Failure::input(anyhow::anyhow!("{name} is an engine of fio that pagelab refuses: {reason}")),
        None => unknown("engine", name, nearest(name, engines::names())),
    });
    text.map(Some)
}

fn read_jobs(args: &Args) -> Result<Workload, Failure> {
    let words: Vec<String> = args.jobs.iter().filter(|word| *word != "--").cloned().collect();
    let mut workload = parse_args(&words).map_err(Failure::input)?;
    workload.select(&args.section).map_err(|reason| Failure::input(anyhow::anyhow!(reason)))?;
    if args.readonly {
        must_not_write(&workload).map_err(Failure::input)?;
    }
    if args.warnings_fatal && !workload.warnings.is_empty() {
        let warnings = workload.warnings.join("\n  ");
        return Err(Failure::input(anyhow::anyhow!("--warnings-fatal, and there are warnings:\n  {warnings}")));
    }
    Ok(workload)
}

fn ended_in_words(outcome: &SessionOutcome) -> String {
    outcome
        .ended
        .map_or_else(|| "it was still running".to_owned(), |ended| format!("its status was {}", ended.shell_status()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(line: &str) -> String {
        let words = own_options_first(line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn own_options_may_stand_anywhere() {
        assert_eq!(
            arranged("pagelab run --name=x --rw=read --output-format=json --bs=4k"),
            "pagelab run --output-format=json --name=x --rw=read --bs=4k"
        );
        assert_eq!(arranged("pagelab -v run a.fio -o out --json"), "pagelab -v run -o out --json a.fio");
        assert_eq!(arranged("pagelab run --name=x -- --json"), "pagelab run --name=x -- --json");
        assert_eq!(arranged("pagelab run a.fio --enghelp b.fio"), "pagelab run --enghelp a.fio b.fio");
        assert_eq!(
            arranged("pagelab run -rw=read -offset=4k -output-format json -o out -nice -5"),
            "pagelab run --output-format json -o out --rw=read --offset=4k --nice -5"
        );
    }

    #[test]
    fn other_commands_are_left_alone() {
        let line = "pagelab record -- fio --output-format=json";
        assert_eq!(arranged(line), line);
        assert_eq!(arranged("pagelab --help"), "pagelab --help");
    }
}
