//! `pagelab run`: runs fio jobs with built-in engines and records them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pagelab_load::control::Status;
use pagelab_load::output::{json, normal};
use pagelab_load::{Control, JobReport, Workload, parse_args};
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
    #[command(flatten)]
    recording: RecordingArgs,
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
    /// Job files, or options in fio's style.
    #[arg(required = true, num_args = 1.., allow_hyphen_values = true, trailing_var_arg = true, value_name = "JOB")]
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
    Some(arg.get_action().takes_values() && !value_inside)
}

/// Runs the jobs and prints their report.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let words: Vec<String> = args.jobs.iter().filter(|word| *word != "--").cloned().collect();
    for file in words.iter().filter(|word| !word.starts_with('-')) {
        if !Path::new(file).is_file() {
            let message = format!(
                "{file}: found no such job file; needed: the path of a job file, or options such as --name=x --rw=read"
            );
            return Err(Failure::input(anyhow::anyhow!(message)));
        }
    }
    let workload: Workload = parse_args(&words).map_err(Failure::input)?;
    let mut options = args.recording.session(Target::Job(Box::new(workload)))?;
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
    print_report(args, report)?;
    if !args.recording.json && args.output_format == Format::Normal {
        record::say(&outcome, false)?;
    }
    Ok(if report.succeeded() { 0 } else { BAD })
}

fn ended_in_words(outcome: &SessionOutcome) -> String {
    outcome
        .ended
        .map_or_else(|| "it was still running".to_owned(), |ended| format!("its status was {}", ended.shell_status()))
}

fn print_report(args: &Args, report: &JobReport) -> Result<(), Failure> {
    let detail = match (args.recording.json, args.output_format) {
        (_, Format::JsonPlus) => json::Detail::Plus,
        (true, _) | (_, Format::Json) => json::Detail::Plain,
        (false, Format::Normal) => return print::text(&normal::render(report)),
    };
    print::text(&json::render(report, detail).map_err(Failure::host)?)
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
    }

    #[test]
    fn other_commands_are_left_alone() {
        let line = "pagelab record -- fio --output-format=json";
        assert_eq!(arranged(line), line);
        assert_eq!(arranged("pagelab --help"), "pagelab --help");
    }
}
