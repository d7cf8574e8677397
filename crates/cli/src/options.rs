//! Options that several commands share.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use pagelab_observe::streams::StreamSet;
use pagelab_session::{SessionOptions, Target};

use crate::failure::Failure;

/// How and where to record.
#[derive(Debug, Args)]
pub struct RecordingArgs {
    /// What to call this recording.
    #[arg(long)]
    pub label: Option<String>,
    /// Streams: default, all, or a list of metrics, settings, tasks, faults, maps, dax, counters, block, regions.
    #[arg(long, value_name = "LIST", default_value = "default")]
    pub observe: String,
    /// Go on without streams that were asked for by name and are refused.
    #[arg(long)]
    pub best_effort: bool,
    /// Flush every part to the device (this disturbs what is measured).
    #[arg(long)]
    pub durable: bool,
    /// Memory for fault records per CPU, such as 4M.
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_size)]
    pub ring_bytes: usize,
    /// Print one JSON document on standard output; what the command prints goes to standard error.
    #[arg(long)]
    pub json: bool,
}

impl RecordingArgs {
    /// The options of a session that records `target` into `out`.
    pub fn session(&self, target: Target, out: Option<&PathBuf>) -> Result<SessionOptions, Failure> {
        let mut options = SessionOptions::new(target, out.cloned().unwrap_or_else(default_output));
        options.streams = StreamSet::parse(&self.observe).map_err(Failure::input)?;
        options.label.clone_from(&self.label);
        options.best_effort = self.best_effort;
        options.durable = self.durable;
        options.ring_bytes_per_cpu = self.ring_bytes;
        options.stdout_to_stderr = self.json;
        warn_of_shared_device(&options.out);
        Ok(options)
    }
}

/// A name that no recording has yet.
pub fn default_output() -> PathBuf {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let name = |suffix: String| PathBuf::from(format!("pagelab-{seconds}{suffix}.rec"));
    let first = name(String::new());
    if !first.exists() {
        return first;
    }
    (2..).map(|n| name(format!("-{n}"))).find(|path| !path.exists()).unwrap_or(first)
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

/// Reads a size such as `64M`: bytes with k, M or G for powers of 1024.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let needed = || format!("found {text:?}, needed a number of bytes such as 4M (k, M, G: powers of 1024)");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor: usize = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(needed()),
    };
    let number = usize::from_str(digits).map_err(|_| needed())?;
    number.checked_mul(factor).filter(|bytes| *bytes > 0).ok_or_else(needed)
}

/// Reads a level of significance.
pub fn parse_level(text: &str) -> Result<f64, String> {
    let needed = || format!("found {text:?}, needed a number between 0 and 1 such as 0.05");
    let level = f64::from_str(text).map_err(|_| needed())?;
    if level > 0.0 && level < 1.0 { Ok(level) } else { Err(needed()) }
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_are_read_or_refused() {
        assert_eq!(parse_size("4M"), Ok(4 << 20));
        assert_eq!(parse_size("4096"), Ok(4096));
        for wrong in ["", "M", "4X", "-1", "0", "99999999999999999999", "1.5M"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
