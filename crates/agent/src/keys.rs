//! What may be set: on the command line, and under the same names in the configuration file. Declared once, here.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use pagelab_vocab::terminal::shell_path;
use pagelab_vocab::units::{self, UnitError};
use serde::{Deserialize, Deserializer};

use crate::error::ConfigError;
use crate::trigger::Trigger;

/// Longest configuration file, bytes.
const LARGEST_FILE: u64 = 1 << 20;

/// What was typed, or what a file says. Each value has the right form; whether they fit together is [`crate::Config`]'s to find out.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Keys {
    /// Folder of the recordings, DIR/2026-11-26/041500.rec in UTC. One agent per folder.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Length of a recording, in seconds [default: 20].
    #[arg(long, value_name = "S")]
    pub on: Option<Seconds>,
    /// Length of a period, in seconds: each has one recording, at a random time in it [default: 300].
    #[arg(long, value_name = "S")]
    pub every: Option<Seconds>,
    /// Seed of the random times. Hosts with the same seed record the same seconds [default: 1].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Streams of the recordings, as of pagelab record; what the host refuses is left out and reported
    /// [default: metrics,settings,tasks,waits,cpu].
    #[arg(long, value_name = "LIST")]
    pub observe: Option<String>,
    /// Profile samples per second and CPU [default: 49].
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub frequency: Option<u64>,
    /// Ring buffers of the recorders, in bytes per CPU; faults, syscalls and sched need 4M and more [default: 1M].
    #[arg(long, value_name = "SIZE")]
    pub ring_bytes: Option<Size>,
    /// Record these running processes and what they fork.
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Record the tasks of this cgroup and of those below it.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Record the whole system. This is the default.
    #[arg(short, long)]
    pub all: bool,
    /// Keep the flight recording when this fires: psi:memory:some:150ms/1s, file:PATH, command:CMD (status 0 fires), signal
    /// (SIGUSR1). Repeatable.
    #[arg(long, value_name = "TRIGGER")]
    pub trigger: Vec<Trigger>,
    /// Seconds before a trigger that a triggered recording holds [default: 30].
    #[arg(long, value_name = "S")]
    pub before: Option<Seconds>,
    /// Seconds after a trigger that it holds [default: 10].
    #[arg(long, value_name = "S")]
    pub after: Option<Seconds>,
    /// Least time between two triggered recordings, in seconds [default: 10m].
    #[arg(long, value_name = "S")]
    pub trigger_every: Option<Seconds>,
    /// Streams of the flight recorder, which runs all the time [default: metrics,tasks,cpu].
    #[arg(long, value_name = "LIST")]
    pub flight_observe: Option<String>,
    /// Profile samples per second and CPU of the flight recorder [default: 19].
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub flight_frequency: Option<u64>,
    /// Remove recordings that are older, in days [default: 7].
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub keep_days: Option<u32>,
    /// Remove the oldest recordings above this size of DIR (K, M, G are powers of 1024) [default: 2G].
    #[arg(long, value_name = "SIZE")]
    pub keep_size: Option<Size>,
    /// Record nothing while the file system has less free than this [default: 1G].
    #[arg(long, value_name = "SIZE")]
    pub keep_free: Option<Size>,
    /// CPU time that the agent may take on average over ten recordings, in per cent of the machine's, BPF programs included; above it
    /// periods are doubled [default: 1].
    #[arg(long, value_name = "PCT")]
    pub max_cpu_pct: Option<Percent>,
    /// Duty cycle below which periods are not doubled any more, in per cent [default: 1].
    #[arg(long, value_name = "PCT")]
    pub least_duty_pct: Option<Percent>,
    /// Copy each recording to URL/host=NAME/..., as pagelab-fleet upload does.
    #[arg(long, value_name = "URL")]
    pub upload: Option<String>,
    /// Tries for each recording before its upload is given up until the next start [default: 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub upload_tries: Option<u32>,
    /// Serve metrics for Prometheus at this address, /metrics; none: do not [default: 127.0.0.1:9464].
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<Listen>,
    /// Allow --listen at an address that other machines can reach.
    #[arg(long)]
    pub listen_to_others: bool,
}

impl Keys {
    /// What a configuration file says.
    ///
    /// # Errors
    /// It cannot be read; others than its owner and root can write to it, who could have commands of theirs run; a key or value is wrong.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        check_owner(path)?;
        let bytes = pagelab_output::read_plain(path, LARGEST_FILE)
            .map_err(|error| ConfigError::File { path: path.to_owned(), reason: error.to_string() })?;
        let wrong = |reason: String| ConfigError::File { path: path.to_owned(), reason };
        let text = String::from_utf8(bytes).map_err(|error| wrong(format!("{error}; needed: UTF-8")))?;
        Self::parse(&text).map_err(wrong)
    }

    /// The keys of a configuration file's text; the error names line, key and what is accepted.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }

    /// These keys, and where one is missing that of `below`. A target or a list of triggers is taken as a whole.
    pub fn over(self, below: Self) -> Self {
        let has_target = !self.pid.is_empty() || self.cgroup.is_some() || self.all;
        let (pid, cgroup, all) =
            if has_target { (self.pid, self.cgroup, self.all) } else { (below.pid, below.cgroup, below.all) };
        Self {
            output: self.output.or(below.output),
            on: self.on.or(below.on),
            every: self.every.or(below.every),
            seed: self.seed.or(below.seed),
            observe: self.observe.or(below.observe),
            frequency: self.frequency.or(below.frequency),
            ring_bytes: self.ring_bytes.or(below.ring_bytes),
            pid,
            cgroup,
            all,
            trigger: if self.trigger.is_empty() { below.trigger } else { self.trigger },
            before: self.before.or(below.before),
            after: self.after.or(below.after),
            trigger_every: self.trigger_every.or(below.trigger_every),
            flight_observe: self.flight_observe.or(below.flight_observe),
            flight_frequency: self.flight_frequency.or(below.flight_frequency),
            keep_days: self.keep_days.or(below.keep_days),
            keep_size: self.keep_size.or(below.keep_size),
            keep_free: self.keep_free.or(below.keep_free),
            max_cpu_pct: self.max_cpu_pct.or(below.max_cpu_pct),
            least_duty_pct: self.least_duty_pct.or(below.least_duty_pct),
            upload: self.upload.or(below.upload),
            upload_tries: self.upload_tries.or(below.upload_tries),
            listen: self.listen.or(below.listen),
            listen_to_others: self.listen_to_others || below.listen_to_others,
        }
    }
}

/// A file that has commands run as root is written by root alone.
fn check_owner(path: &Path) -> Result<(), ConfigError> {
    use std::os::unix::fs::MetadataExt as _;
    let wrong = |reason: String| ConfigError::File { path: path.to_owned(), reason };
    let found = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    let (uid, own) = (found.uid(), rustix::process::geteuid().as_raw());
    if uid != 0 && uid != own {
        let needed = format!("needed: one of root's or of user {own}; type: sudo chown root {}", shell_path(path));
        return Err(wrong(format!("belongs to user {uid}; {needed}")));
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        let needed = format!("needed: only its owner; type: sudo chmod go-w {}", shell_path(path));
        return Err(wrong(format!("has mode {mode:04o}, so that others can write to it; {needed}")));
    }
    Ok(())
}

/// Implements reading from a file by way of [`FromStr`]: a number or a text there is what it is on the command line.
macro_rules! read_as_typed {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = match AsWritten::deserialize(from)? {
                    AsWritten::Whole(number) => number.to_string(),
                    AsWritten::Fraction(number) => number.to_string(),
                    AsWritten::Text(text) => text,
                };
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

read_as_typed!(Seconds, Size, Percent, Listen, Trigger);

/// A value as a file writes it.
#[derive(Deserialize)]
#[serde(untagged, expecting = "found neither a number nor a text; needed one of them, as on the command line")]
enum AsWritten {
    Whole(i64),
    Fraction(f64),
    Text(String),
}

/// A time such as `10` (seconds) or `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        units::parse_time(text).map(Self)
    }
}

/// A size in bytes above 0, such as `2G`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match units::parse_size(text)? {
            0 => Err(UnitError { found: text.to_owned(), needed: units::SIZE_NEEDED }),
            bytes => Ok(Self(bytes)),
        }
    }
}

/// A share in per cent, above 0 and at most 100.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let needed = "a number of per cent above 0 and at most 100, such as 1 or 0.5";
        match text.parse::<f64>() {
            Ok(pct) if pct > 0.0 && pct <= 100.0 => Ok(Self(pct)),
            _ => Err(UnitError { found: text.to_owned(), needed }),
        }
    }
}

/// Where metrics are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

impl FromStr for Listen {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "none" {
            return Ok(Self(None));
        }
        let needed = "an address with a port such as 127.0.0.1:9464 or [::1]:9464 (port 0: any that is free), or none";
        text.parse().map(|address| Self(Some(address))).map_err(|_| UnitError { found: text.to_owned(), needed })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("none"),
        }
    }
}
