//! fio's front end of this crate alone: runs a job and prints the result in fio's layouts, without a recording.
//!
//! Tests and benchmarks use it, because it starts as fast as fio does; users have `pagelab run`. The work is done by a second
//! process of the same program, as in a recorded run.
//!
//! `pagelab-load [--output-format=normal|json|json+|terse|report] [--allow-write=PATH] [--readonly] [--eta=auto|always|never] JOB.fio... | --name=x --rw=read ...`

use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use pagelab_fiojob::parse_args;
use pagelab_load::control::Status;
use pagelab_load::output::{self, Format};
use pagelab_load::{Control, JobReport, LoadError, process, worker};

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

/// Takes its own options out of the arguments, runs the rest, prints.
fn front(arguments: Vec<String>) -> Result<ExitCode, LoadError> {
    let mut control = Control::default();
    let mut format = "normal".to_owned();
    let mut job = Vec::new();
    for argument in arguments {
        if let Some(value) = argument.strip_prefix("--output-format=") {
            value.clone_into(&mut format);
        } else if let Some(path) = argument.strip_prefix("--allow-write=") {
            control.allow_write.push(PathBuf::from(path));
        } else if let Some(word) = argument.strip_prefix("--eta=") {
            control.status = Status::from_word(word)
                .ok_or_else(|| LoadError::Protocol(format!("--eta={word}: needed never, auto or always")))?;
        } else if argument == "--readonly" {
            control.readonly = true;
        } else {
            job.push(argument);
        }
    }
    let workload = parse_args(&job)?;
    let workload = serde_json::to_vec(&workload).map_err(|error| LoadError::Protocol(error.to_string()))?;
    let report = match run(&workload, &control)? {
        Ok(report) => report,
        Err(status) => return Ok(ExitCode::from(status)),
    };
    let text = if format == "report" {
        serde_json::to_string_pretty(&report)
    } else {
        let wrong = |reason: String| LoadError::Protocol(format!("--output-format={format}: {reason}"));
        output::render(&report, &Format::list(&format).map_err(wrong)?)
    };
    let text = text.map_err(|error| LoadError::Protocol(error.to_string()))?;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| LoadError::system("writing the result", error))?;
    Ok(match (report.succeeded(), report.only_mismatched()) {
        (true, _) => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(1),
        (false, false) => ExitCode::from(3),
    })
}

/// Runs the load process; gives its report, or its exit status if it gave none.
fn run(workload: &[u8], control: &Control) -> Result<Result<JobReport, u8>, LoadError> {
    let system = |what: &'static str| move |error: std::io::Error| LoadError::system(what, error);
    let (reader, writer) = std::io::pipe().map_err(system("making a pipe"))?;
    let program = std::env::current_exe().map_err(system("finding this program"))?;
    // The descriptor keeps its number in the child; only there it must survive exec.
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty())
        .map_err(|error| LoadError::system("passing a pipe on", error))?;
    let arguments: Vec<OsString> = process::arguments(control, writer.as_raw_fd());
    let mut child = Command::new(program)
        .arg("__load")
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(system("starting the load process"))?;
    drop(writer);
    if let Some(mut stdin) = child.stdin.take() {
        // A child that ends early closes the pipe; its exit status tells why.
        let _ = stdin.write_all(workload);
    }
    let report = worker::read_report(reader);
    let status = child.wait().map_err(system("waiting for the load process"))?;
    match status.code() {
        // Jobs that failed are in the report.
        Some(0 | 1) => report.map(Ok),
        Some(code) => Ok(Err(u8::try_from(code).unwrap_or(3))),
        None => Err(LoadError::Protocol("the load process was killed".to_owned())),
    }
}
