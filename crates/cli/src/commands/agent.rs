//! `pagelab agent`: records this host continuously.

use std::path::PathBuf;

use pagelab_agent::{AgentError, Config, ConfigError, Keys, Programs, StoreError};
use pagelab_observe::streams::StreamSet;

use crate::failure::Failure;
use crate::{companion, say};

/// Record this host continuously, at a stated duty cycle and a capped cost.
///
/// In each period one short recording is made, at a random time. With a trigger, a flight recorder runs all the time as well, and keeps
/// the seconds before and after it. Recordings are removed by age and size, and copied into a store on request. Runs until SIGTERM or
/// Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Read the options that are not given from this file, under the same names: on = 20.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    keys: Keys,
}

const AFTER_HELP: &str = "\
Examples:
  sudo pagelab agent -o /var/lib/pagelab --on 20 --every 300
  sudo pagelab agent -o /var/lib/pagelab --trigger psi:memory:some:150ms/1s --trigger signal
  sudo pagelab agent --config /etc/pagelab/agent.toml
  pagelab trend /var/lib/pagelab/2026-11-26/*.rec

DIR/pause pauses it for as long as that file is there. Needs root. The how-to is docs/agent.md; deploy/ has a systemd unit and a \
container image.";

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Store(StoreError::Held { .. }) => Self::input(error),
            AgentError::Store(StoreError::Output(error)) => error.into(),
            AgentError::Store(StoreError::System { .. }) | AgentError::Host(_) => Self::host(error),
        }
    }
}

fn config(args: Args) -> Result<Config, Failure> {
    let from_file = args.config.as_deref().map(Keys::load).transpose().map_err(Failure::input)?;
    let config = Config::new(args.keys.over(from_file.unwrap_or_default())).map_err(Failure::input)?;
    let flight = config.flight.as_ref().map(|flight| ("flight-observe", &flight.observe));
    for (key, list) in [("observe", &config.observe)].into_iter().chain(flight) {
        StreamSet::parse(list).map_err(|error| Failure::input(ConfigError::Values(format!("{key}: {error}"))))?;
    }
    Ok(config)
}

/// Runs the agent until it is asked to end.
pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let config = config(args)?;
    let pagelab = pagelab_host::own::program().map_err(Failure::host)?;
    let programs = Programs { pagelab, fleet: companion::program() };
    pagelab_agent::run(&config, programs, &|line| say!("pagelab agent: {line}"))?;
    Ok(0)
}
