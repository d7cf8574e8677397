//! `pagelab run`: runs fio jobs with built-in engines and records them.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pagelab_load::control::Status;
use pagelab_load::job::nearest::{hint, nearest};
use pagelab_load::job::registry::nearest_option;
use pagelab_load::job::{docs, unsupported};
use pagelab_load::output::{json, normal};
use pagelab_load::{Control, JobReport, Workload, parse_args};
use pagelab_output::OutputFile;
use pagelab_session::{SessionOutcome, Target};

use crate::commands::record;
use crate::failure::{BAD, Failure};
use crate::options::RecordingArgs;
use crate::print;

/// How the report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// fio's text.
    Normal,
    /// fio's JSON.
    Json,
    /// fio's JSON with all latency buckets.
    #[value(name = "json+")]
    JsonPlus,
}

/// Run fio jobs with built-in engines, and record what the kernel did meanwhile.
///
/// Takes job files, or jobs in fio's own style: --name=x --rw=randread --bs=4k ... (docs/job-options.md lists the options).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  pagelab run job.fio -o run.rec\n  \
    pagelab run -o run.rec -- --name=cache --ioengine=anon --rw=write --bs=4k --size=256m --map_granularity=2m")]
pub struct Args {
    /// Directory of the recording; it must not exist, or be empty [default: pagelab-SECONDS.rec].
    #[arg(short = 'o', long = "recording", value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    recording: RecordingArgs,
    /// Write the report to this file instead of standard output, as fio does.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Layout of the report.
    #[arg(long, value_enum, default_value_t = Format::Normal)]
    output_format: Format,
    /// Write to this file or device although pagelab did not make it. What it holds is lost.
    #[arg(long, value_name = "PATH")]
    allow_write: Vec<PathBuf>,
    /// Refuse jobs that would change anything on disk.
    #[arg(long)]
    readonly: bool,
    /// The status line, once a second on standard error: auto where that is a terminal.
    #[arg(long, default_value = "auto", value_parser = Status::WORDS.map(|(word, _)| word), value_name = "WHEN")]
    eta: String,
    /// Run only the jobs of this name; may be given several times.
    #[arg(long, value_name = "NAME")]
    section: Vec<String>,
    /// Read and check the jobs, run nothing.
    #[arg(long)]
    parse_only: bool,
    /// Help on an option of the job language, or on all.
    #[arg(long, value_name = "OPTION", num_args = 0..=1, default_missing_value = "all", require_equals = true)]
    cmdhelp: Option<String>,
    /// Help on an engine, or on all.
    #[arg(long, value_name = "ENGINE", num_args = 0..=1, default_missing_value = "all", require_equals = true)]
    enghelp: Option<String>,
    /// Job files, or options in fio's style.
    #[arg(required_unless_present_any = ["cmdhelp", "enghelp"], num_args = 1.., allow_hyphen_values = true, trailing_var_arg = true, value_name = "JOB")]
    jobs: Vec<String>,
}

/// Puts pagelab's own options of `run` before the job's: fio takes `--output-format=json` anywhere among the options of
/// the job, and whoever comes from fio writes it last. What follows `--` is the job's alone.
pub fn own_options_first(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
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

/// Whether a word is an option of `command`, and if so whether its value is the next word.
fn own_option(command: &clap::Command, word: &OsString) -> Option<bool> {
    let word = word.to_str()?;
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
pub fn run(args: &Args) -> Result<u8, Failure> {
    if let Some(text) = help(args)? {
        return print::text(&text).map(|()| 0);
    }
    let workload = read_jobs(args)?;
    if args.parse_only {
        workload.warnings.iter().for_each(|warning| eprintln!("pagelab: warning: {warning}"));
        return Ok(0);
    }
    // Opened before anything runs, so that a path that cannot be written costs no run; what was there stays until the report is.
    let report_file = args.output.as_deref().map(report_file).transpose()?;
    let mut options = args.recording.session(Target::Job(Box::new(workload)), args.directory.as_ref())?;
    options.load = Control {
        allow_write: args.allow_write.clone(),
        readonly: args.readonly,
        status: Status::from_word(&args.eta).unwrap_or_default(),
        ..Control::default()
    };
    let outcome = pagelab_session::run(&options)?;
    let Some(report) = &outcome.report else {
        return Err(Failure::host(anyhow::anyhow!(
            "the load process ended without a report; {}",
            ended_in_words(&outcome)
        )));
    };
    let text = rendered(args, report)?;
    match report_file {
        Some(mut file) => {
            file.write_all(text.as_bytes())
                .map_err(|error| Failure::host(anyhow::anyhow!("writing the report: {error}")))?;
            file.commit()?;
        }
        None => print::text(&text)?,
    }
    if !args.recording.json && args.output_format == Format::Normal {
        record::say(&outcome, false, false)?;
    }
    Ok(if report.succeeded() { 0 } else { BAD })
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
        None => unknown("engine", name, nearest(name, pagelab_load::engines::names())),
    });
    text.map(Some)
}

fn read_jobs(args: &Args) -> Result<Workload, Failure> {
    let words: Vec<String> = args.jobs.iter().filter(|word| *word != "--").cloned().collect();
    for file in words.iter().filter(|word| !word.starts_with('-')) {
        if !Path::new(file).is_file() {
            let message = format!(
                "{file}: found no such job file; needed: the path of a job file, or options such as --name=x --rw=read"
            );
            return Err(Failure::input(anyhow::anyhow!(message)));
        }
    }
    let mut workload = parse_args(&words).map_err(Failure::input)?;
    workload.select(&args.section).map_err(|reason| Failure::input(anyhow::anyhow!(reason)))?;
    Ok(workload)
}

fn ended_in_words(outcome: &SessionOutcome) -> String {
    outcome
        .ended
        .map_or_else(|| "it was still running".to_owned(), |ended| format!("its status was {}", ended.shell_status()))
}

fn rendered(args: &Args, report: &JobReport) -> Result<String, Failure> {
    let detail = match (args.recording.json, args.output_format) {
        (_, Format::JsonPlus) => json::Detail::Plus,
        (true, _) | (_, Format::Json) => json::Detail::Plain,
        (false, Format::Normal) => return Ok(normal::render(report)),
    };
    json::render(report, detail).map_err(Failure::host)
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
    }

    #[test]
    fn other_commands_are_left_alone() {
        let line = "pagelab record -- fio --output-format=json";
        assert_eq!(arranged(line), line);
        assert_eq!(arranged("pagelab --help"), "pagelab --help");
    }
}
