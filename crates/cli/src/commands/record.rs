//! `pagelab record`: records any command.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use pagelab_session::{SessionError, SessionOutcome, Target};
use serde_json::json;

use crate::failure::Failure;
use crate::options::RecordingArgs;
use crate::print;

/// The status of failures that are the recorder's own, as `env`, `nohup` and `timeout` use it.
const OWN_FAILURE: u8 = 125;

/// Record a command: its page faults, mappings, tasks, and the host's metrics and settings.
///
/// The exit status is the command's own (128+n if signal n ended it); 125 is a failure of the recorder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pagelab record -o good.rec -- make -j2\n  pagelab show good.rec summary")]
pub struct Args {
    /// Directory of the recording; it must not exist, or be empty [default: pagelab-SECONDS.rec].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    recording: RecordingArgs,
    /// The command with its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Records the command; the status is the command's.
pub fn run(args: &Args) -> ExitCode {
    let recorded =
        args.recording.session(Target::Command(args.command.clone()), args.output.as_ref()).and_then(|options| {
            match pagelab_session::run(&options) {
                Err(SessionError::Spawn(error)) => {
                    eprintln!("pagelab: {error}");
                    Ok(error.exit_status() as u8)
                }
                other => {
                    let outcome = other?;
                    say(&outcome, args.recording.json)?;
                    Ok(outcome.ended.map_or(OWN_FAILURE, |ended| ended.shell_status() as u8))
                }
            }
        });
    match recorded {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            eprintln!("pagelab: {failure}");
            // A stream that the host cannot give is told apart, before anything was run.
            ExitCode::from(if matches!(failure, Failure::Host(_)) && is_refused(&failure) { 3 } else { OWN_FAILURE })
        }
    }
}

fn is_refused(failure: &Failure) -> bool {
    let (Failure::Input(error) | Failure::Host(error)) = failure;
    matches!(error.downcast_ref::<SessionError>(), Some(SessionError::StreamRefused { .. }))
}

/// Tells the user what was recorded.
pub fn say(outcome: &SessionOutcome, as_json: bool) -> Result<(), Failure> {
    for warning in &outcome.warnings {
        eprintln!("pagelab: warning: {warning}");
    }
    if as_json {
        return print::json(&json!({
            "recording": outcome.dir, "manifest": outcome.manifest, "warnings": outcome.warnings,
            "timed_out": outcome.timed_out, "interrupted": outcome.interrupted,
        }));
    }
    let faults = outcome.manifest.probes.iter().find(|probe| probe.name == "faults");
    let faults =
        faults.and_then(|probe| probe.events_seen).map_or_else(String::new, |count| format!(", {count} faults"));
    eprintln!(
        "pagelab: recorded into {}{faults}; look at it with: pagelab show {} summary",
        outcome.dir.display(),
        outcome.dir.display()
    );
    Ok(())
}
