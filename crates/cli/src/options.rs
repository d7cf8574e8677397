//! Options that several commands share.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use pagelab_observe::cpu::Unwinding;
use pagelab_observe::details::ONE_IN;
use pagelab_observe::streams::StreamSet;
use pagelab_recording::{Bound, Bounds, Error, Recording};
use pagelab_session::{SessionOptions, Target};
use pagelab_vocab::units;

use crate::failure::Failure;

/// What `--observe` takes beside the names of streams: for the end of a command's help.
pub(crate) const STREAMS_HELP: &str = "\
Streams (--observe): syscalls:LIST records only these classes (desc, file, memory, process, network, signal, ipc) or calls; \
sched:nostacks leaves out the stacks of waits, maps:nostacks those of mapping calls; metrics:smaps and regions:smaps read smaps of \
large processes, too, which keeps them from mapping memory meanwhile; speed measures fifty times a second how fast each CPU is, which \
takes a little of it, and runs that have it are compared at equal speed.";

/// How and where to record.
#[derive(Debug, Args)]
pub(crate) struct RecordingArgs {
    /// Name of this recording, shown by show and compare.
    #[arg(long)]
    pub label: Option<String>,
    /// Streams to record, separated by commas: default, all, metrics, settings, tasks, faults, maps, dax, syscalls,
    /// waits, sched, cpu, counters, block, regions, speed; see "Streams" below [default: default].
    #[arg(long, value_name = "LIST")]
    pub observe: Option<String>,
    /// Record without the named streams that this host refuses; without this option that is an error.
    #[arg(long)]
    pub best_effort: bool,
    /// Flush every part of the recording to the device. This disturbs the measured workload.
    #[arg(long)]
    pub durable: bool,
    /// Ring buffer for fault records, in bytes per CPU (K, M, G are powers of 1024).
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_size)]
    pub ring_bytes: usize,
    /// Record outcome and duration of every major fault and of 1 in N minor faults (0: of major faults only). Any other
    /// N makes all minor faults slower.
    #[arg(long, value_name = "N", default_value_t = ONE_IN)]
    pub fault_details: u64,
    /// How user stacks are unwound: dwarf (unwind information), fp (frame pointers), or auto (dwarf, else fp).
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = parse_unwinding)]
    pub unwind: Unwinding,
    /// Profile samples per second and CPU [default: 997; 97 if `cpu` is only implied and the CPU has no cycle counter].
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub frequency: Option<u64>,
    /// Print one JSON document on standard output; the command's own output goes to standard error.
    #[arg(long)]
    pub json: bool,
}

/// Which settings may be changed beyond those that pagelab describes.
#[derive(Debug, Args)]
pub(crate) struct AllowArgs {
    /// Allow this setting to be changed although docs/settings.md does not list it. Repeatable.
    #[arg(long, value_name = "KEY")]
    allow_setting: Vec<String>,
}

impl AllowArgs {
    /// Allows them in this process.
    pub(crate) fn grant(&self) -> Result<(), Failure> {
        pagelab_host::settings::allow(self.allow_setting.iter().map(String::as_str)).map_err(Failure::input)
    }
}

/// Which part of a recording's time counts.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpanArgs {
    /// Ignore events before this time: seconds since the start, or the name of a mark.
    #[arg(long, value_name = "S|MARK", allow_negative_numbers = true)]
    pub from: Option<Bound>,
    /// Ignore events from this time on: seconds since the start, or the name of a mark.
    #[arg(long, value_name = "S|MARK", allow_negative_numbers = true)]
    pub to: Option<Bound>,
}

impl SpanArgs {
    /// The two ends.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { from: self.from.clone(), to: self.to.clone() }
    }

    /// Opens the part of a recording that counts. That a path cannot be read is the fault of who gave it.
    pub(crate) fn open(&self, dir: &Path) -> Result<Recording, Failure> {
        let recording = Recording::open(dir).map_err(|error| match error {
            Error::Io { .. } => Failure::input(error),
            other => other.into(),
        })?;
        let span = self.bounds().of(&recording)?;
        Ok(recording.within(span))
    }
}

impl RecordingArgs {
    /// The options of a session that records `target` into `out`.
    pub(crate) fn session(&self, target: Target, out: Option<&PathBuf>) -> Result<SessionOptions, Failure> {
        let out = out.cloned().unwrap_or_else(|| default_recording(&target));
        let mut options = SessionOptions::new(target, out);
        let streams = self.observe.as_deref().map(StreamSet::parse).transpose().map_err(Failure::input)?;
        options.streams = streams.unwrap_or_default();
        options.label.clone_from(&self.label);
        options.best_effort = self.best_effort;
        options.durable = self.durable;
        options.ring_bytes_per_cpu = self.ring_bytes;
        options.fault_details = self.fault_details;
        options.unwinding = self.unwind;
        options.frequency_hz = self.frequency;
        options.stdout_to_stderr = self.json;
        options.spool = crate::spool::of(&options.out);
        warn_of_shared_device(&options.out);
        Ok(options)
    }
}

/// What runs already, in the order in which it is asked for, or else the command.
pub(crate) fn running_or_command(cgroup: Option<&PathBuf>, all: bool, pids: &[u32], command: &[OsString]) -> Target {
    match cgroup {
        Some(path) => Target::Cgroup(path.clone()),
        None if all => Target::System,
        None if !pids.is_empty() => Target::Processes(pids.to_vec()),
        None => Target::Command(command.to_vec()),
    }
}

/// A name in the current directory that nothing has yet, for a set.
pub(crate) fn default_output() -> PathBuf {
    unused_name("set")
}

/// A name in the current directory that nothing has yet: when it was made, and what of.
fn default_recording(target: &Target) -> PathBuf {
    let last = |path: &std::path::Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let what = match target {
        Target::Command(argv) => argv.first().and_then(|program| last(std::path::Path::new(program))),
        Target::Job(workload) => workload.jobs.first().map(|job| job.name.clone()),
        Target::Processes(pids) => pids.first().map(|pid| format!("pid{pid}")),
        Target::Cgroup(path) => last(path),
        Target::System => Some("system".to_owned()),
    };
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._+-".contains(letter) { letter } else { '_' };
    unused_name(&what.unwrap_or_default().chars().map(plain).take(32).collect::<String>())
}

fn unused_name(what: &str) -> PathBuf {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let when = utc(seconds);
    let name = |suffix: String| PathBuf::from(format!("pagelab-{when}-{what}{suffix}.rec"));
    let first = name(String::new());
    if !first.exists() {
        return first;
    }
    (2..).map(|n| name(format!("-{n}"))).find(|path| !path.exists()).unwrap_or(first)
}

/// A time as `20261123T041500`, in UTC.
fn utc(seconds: u64) -> String {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of the year 0, in eras of 400 years: leap days come last in each year.
    let days = day + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, era * 400 + year) } else { (month - 9, era * 400 + year + 1) };
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Says so if the recording lands on the device of the working directory, where most workloads have their files.
fn warn_of_shared_device(out: &std::path::Path) {
    use std::os::unix::fs::MetadataExt;
    let parent = out.ancestors().skip(1).find(|dir| dir.exists() || dir.as_os_str().is_empty());
    let parent = parent.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."));
    let (Ok(out), Ok(here)) = (parent.metadata(), std::path::Path::new(".").metadata()) else { return };
    if out.dev() == here.dev() {
        tracing::info!(
            "the recording is written to the device of the working directory; -o /dev/shm/... keeps it apart"
        );
    }
}

/// Reads a size above 0 such as `64M`.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let bytes = above_zero(text)?;
    usize::try_from(bytes).map_err(|error| format!("found {text:?}: {error}"))
}

/// Reads a size above 0 such as `40G`.
pub(crate) fn above_zero(text: &str) -> Result<u64, String> {
    match units::parse_size(text).map_err(|error| error.to_string())? {
        0 => Err(format!("found {text:?}, needed more than 0: {}", units::SIZE_NEEDED)),
        bytes => Ok(bytes),
    }
}

/// Reads a time such as `2.5`, in seconds, or `90s`, `500ms`, `2m`.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    units::parse_time(text).map_err(|error| error.to_string())
}

/// Reads a share such as `2.5`, in per cent.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let needed = || format!("found {text:?}, needed a number of per cent such as 2");
    let percent = f64::from_str(text).map_err(|_| needed())?;
    if percent > 0.0 && percent <= 100.0 { Ok(percent) } else { Err(needed()) }
}

/// Reads the way in which stacks are found.
pub(crate) fn parse_unwinding(text: &str) -> Result<Unwinding, String> {
    match text {
        "auto" => Ok(Unwinding::Auto),
        "fp" => Ok(Unwinding::FramePointers),
        "dwarf" => Ok(Unwinding::Dwarf),
        _ => Err(format!("found {text:?}, needed auto, fp or dwarf")),
    }
}

/// Reads a level of significance.
pub(crate) fn parse_level(text: &str) -> Result<f64, String> {
    let needed = || format!("found {text:?}, needed a number between 0 and 1 such as 0.05");
    let level = f64::from_str(text).map_err(|_| needed())?;
    if level > 0.0 && level < 1.0 { Ok(level) } else { Err(needed()) }
}

#[cfg(test)]
mod tests {
    use super::{parse_seconds, parse_size, utc};

    #[test]
    fn times_are_dates() {
        assert_eq!(utc(0), "19700101T000000");
        // date -u -d @N +%Y%m%dT%H%M%S
        assert_eq!(
            [951_782_399, 951_782_400, 4_107_542_399].map(utc),
            ["20000228T235959", "20000229T000000", "21000228T235959"]
        );
    }

    #[test]
    fn times_are_read_or_refused() {
        for (text, millis) in [("0.5", 500), ("1s", 1000), ("2m", 120_000)] {
            assert_eq!(parse_seconds(text).map(|time| time.as_millis()), Ok(millis), "{text}");
        }
        for wrong in ["", "0", "-1", "1x", "nan", "inf", "1e30"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_or_refused() {
        assert_eq!(parse_size("4M"), Ok(4 << 20));
        assert_eq!(parse_size("4096"), Ok(4096));
        for wrong in ["", "M", "4X", "-1", "0", "99999999999999999999", "1.5M"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
