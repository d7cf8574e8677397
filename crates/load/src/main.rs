//! fio's front end of this crate alone: runs a job and prints the result in fio's layouts, without a recording.
//!
//! Tests and benchmarks use it, because it starts as fast as fio does; users have `pagelab run`. The work is done by a second
//! process of the same program, as in a recorded run.
//!
//! `pagelab-load [--output-format=normal|json|json+|terse|report] [--terse-version=N] [--status-interval=SECONDS] [--allow-write=PATH]
//! [--readonly] [--eta=auto|always|never] JOB.fio... | --name=x --rw=read ...`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pagelab_fiojob::parse_args;
use pagelab_load::control::Status;
use pagelab_load::front::{self, Ended, Intervals};
use pagelab_load::output::{self, Format, TerseVersion};
use pagelab_load::{Control, JobReport, LoadError, process};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == "__load").is_some() {
        return process::main(arguments);
    }
    match front(arguments.map(|argument| argument.to_string_lossy().into_owned()).collect()) {
        Ok(status) => status,
        Err(error) => {
            // Standard error may be closed; the exit status says it too.
            let _ = writeln!(std::io::stderr(), "pagelab-load: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

/// What was asked for.
struct Asked {
    control: Control,
    /// Print the report with everything that was measured, and not one of fio's layouts.
    whole_report: bool,
    job: Vec<String>,
}

/// Takes its own options out of the arguments; the rest is the job's.
fn read(arguments: Vec<String>) -> Result<Asked, LoadError> {
    let wrong = |reason: String| LoadError::Protocol(reason);
    let mut control = Control::default();
    let mut format = "normal".to_owned();
    let mut job = Vec::new();
    for argument in arguments {
        if let Some(value) = argument.strip_prefix("--output-format=") {
            value.clone_into(&mut format);
        } else if let Some(path) = argument.strip_prefix("--allow-write=") {
            control.allow_write.push(PathBuf::from(path));
        } else if let Some(word) = argument.strip_prefix("--eta=") {
            control.status =
                Status::from_word(word).ok_or_else(|| wrong(format!("--eta={word}: needed never, auto or always")))?;
        } else if let Some(word) = argument.strip_prefix("--terse-version=") {
            control.layouts.terse_version =
                TerseVersion::from_word(word).ok_or_else(|| wrong(format!("--terse-version={word}: needed 2 to 5")))?;
        } else if let Some(word) = argument.strip_prefix("--status-interval=") {
            let every = word.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            control.status_interval =
                Some(every.ok_or_else(|| wrong(format!("--status-interval={word}: needed seconds")))?);
        } else if argument == "--readonly" {
            control.readonly = true;
        } else if argument == "--bandwidth-log" {
            control.bandwidth_log = true;
        } else {
            job.push(argument);
        }
    }
    let whole_report = format == "report";
    if !whole_report {
        let wrong = |reason: String| LoadError::Protocol(format!("--output-format={format}: {reason}"));
        control.layouts.formats = Format::list(&format).map_err(wrong)?;
    }
    Ok(Asked { control, whole_report, job })
}

/// Runs the job and prints its report.
fn front(arguments: Vec<String>) -> Result<ExitCode, LoadError> {
    let Asked { control, whole_report, job } = read(arguments)?;
    let workload = parse_args(&job)?;
    let program = std::env::current_exe().map_err(|error| LoadError::system("finding this program", error))?;
    let intervals = if whole_report { Intervals::Keep } else { Intervals::Drop };
    let report = match front::run(&program, &workload, &control, intervals)? {
        Ended::Report(report) => report,
        Ended::Refused(status) => return Ok(ExitCode::from(status)),
    };
    let text =
        if whole_report { serde_json::to_string_pretty(&report) } else { output::render(&report, &control.layouts) };
    let text = text.map_err(|error| LoadError::Protocol(error.to_string()))?;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| LoadError::system("writing the result", error))?;
    for warning in &report.warnings {
        // Standard error may be closed; the result is what was asked for.
        let _ = writeln!(std::io::stderr(), "pagelab-load: warning: {warning}");
    }
    Ok(status(&report))
}

/// As fio for a run that a signal cut short; else 1 where only contents are wrong, 3 where something failed.
fn status(report: &JobReport) -> ExitCode {
    match (report.interrupted_by, report.succeeded(), report.only_mismatched()) {
        (Some(_), _, _) => ExitCode::from(front::INTERRUPTED),
        (None, true, _) => ExitCode::SUCCESS,
        (None, false, true) => ExitCode::from(1),
        (None, false, false) => ExitCode::from(3),
    }
}
