//! Runs a plan on this host without the command line around it: `cargo run -p pagelab-experiment --example run_plan --
//! PLAN.toml SET [SEED]` prints the document of `pagelab experiment --json`.
//!
//! It plays the two hidden parts of the binary as well (the load process and the guard's helper), because both are
//! started from the running program. The tests of the real runner use it.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use pagelab_experiment::{Event, ExperimentError, LocalRunner, Outcome, Plan, Progress, RunOptions};
use pagelab_recording::set::RunState;

struct Lines;

impl Progress for Lines {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Ended { run, number, total } => {
                let state = match &run.state {
                    RunState::Failed { reason } => format!("failed: {reason}"),
                    RunState::Excluded { reason } => reason.clone(),
                    other => format!("{other:?}").to_lowercase(),
                };
                eprintln!("{number}/{total} {} run {}: {state}", run.variant, run.run);
            }
            Event::Note(note) => eprintln!("note: {note}"),
            Event::Ready { .. } | Event::Begins { .. } => {}
        }
    }
}

fn experiment(words: &[OsString]) -> Result<Outcome, ExperimentError> {
    let [plan, set, rest @ ..] = words else {
        return Err(ExperimentError::Host { reason: "needed: run_plan PLAN.toml SET [SEED] [resume]".to_owned() });
    };
    let plan = Plan::load(Path::new(plan))?;
    let mut options = RunOptions::new(set);
    options.seed = rest.first().and_then(|seed| seed.to_str()?.parse().ok());
    options.resume = rest.iter().any(|word| word == "resume");
    let runner = LocalRunner::new().map_err(|error| ExperimentError::Host { reason: error.to_string() })?;
    pagelab_experiment::run(&plan, &options, &runner, &mut Lines)
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.split_first() {
        Some((first, rest)) if first == "__load" => return pagelab_load::worker::main(rest.iter().cloned()),
        Some((first, rest)) if first == "__guard" => {
            return ExitCode::from(u8::try_from(pagelab_host::guard::helper_main(rest)).unwrap_or(1));
        }
        _ => {}
    }
    match experiment(&words) {
        Ok(outcome) => {
            println!("{}", serde_json::to_string_pretty(&outcome.document).unwrap_or_default());
            ExitCode::from(if outcome.interrupted { 130 } else { 0 })
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_status())
        }
    }
}
