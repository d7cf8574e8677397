//! Durations that a command names: `pgbench -T 30`, `timeout 10 ...`, `wrk -d30s`, a job file with `runtime=`.
//!
//! A benchmark of fixed time takes as long as it was told to, however fast the system is. A comparison that tested its elapsed
//! time would call two systems equal of which one does half of the work, so the manifest says which durations the command
//! names, and a comparison looks whether each run took one of them.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Durations named at most: a command with more is a list of files.
const AT_MOST: usize = 32;
/// Largest job file that is read, bytes.
const JOB_FILE_AT_MOST: u64 = 1 << 20;

/// Options whose number is a duration in seconds where it has no unit. With a unit any option's number is one.
const OF_SECONDS: &[&str] = &[
    "T",
    "t",
    "d",
    "time",
    "timeout",
    "runtime",
    "run-time",
    "run_time",
    "duration",
    "seconds",
    "max-time",
    "maxtime",
    "time-limit",
    "test-time",
];
/// Programs whose first number is a duration in seconds.
const TIMERS: &[&str] = &["timeout", "sleep"];

const UNITS: &[(&str, f64)] = &[
    ("ms", 1e-3),
    ("msec", 1e-3),
    ("s", 1.0),
    ("sec", 1.0),
    ("secs", 1.0),
    ("seconds", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3600.0),
];

/// The durations that a command names, in seconds and ascending. `cwd` is where relative names of job files begin.
pub(crate) fn of_command(argv: &[String], cwd: &Path) -> Vec<f64> {
    // A shell's text is a word of its own: `sh -c 'pgbench -T 30'`.
    let words: Vec<&str> =
        argv.iter().flat_map(|arg| arg.split_whitespace()).map(|word| word.trim_matches(['\'', '"', ';'])).collect();
    let mut durations: Vec<f64> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        durations.extend(named(word, before));
        durations.extend(job_file(&cwd.join(word)));
    }
    durations.retain(|seconds| seconds.is_finite() && *seconds > 0.0);
    durations.sort_by(f64::total_cmp);
    durations.dedup();
    durations.truncate(AT_MOST);
    durations
}

/// The duration of one word, which may belong to the word before it.
fn named(word: &str, before: &str) -> Option<f64> {
    if let Some((option, value)) = word.split_once('=') {
        return seconds(value, is_of_seconds(option));
    }
    // `-d30s`, `-T30`: one letter and its number.
    if let Some(short) = word.strip_prefix('-').filter(|rest| rest.len() > 1 && !rest.starts_with('-')) {
        let (letter, value) = short.split_at(short.chars().next().map_or(1, char::len_utf8));
        return seconds(value, is_of_seconds(letter));
    }
    let program = before.rsplit('/').next().unwrap_or(before);
    seconds(word, TIMERS.contains(&program) || (before.starts_with('-') && is_of_seconds(before)))
}

fn is_of_seconds(option: &str) -> bool {
    OF_SECONDS.contains(&option.trim_start_matches('-'))
}

/// A number with a unit of time; without one only if `bare` says that it is seconds.
fn seconds(text: &str, bare: bool) -> Option<f64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    if unit.is_empty() {
        return bare.then_some(number);
    }
    let factor = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    Some(number * factor)
}

/// The run times of a job file, where the word names one.
fn job_file(path: &Path) -> Vec<f64> {
    if path.extension().is_none_or(|extension| extension != "fio" && extension != "job" && extension != "ini") {
        return Vec::new();
    }
    // Neither a device nor a pipe is opened.
    if !path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= JOB_FILE_AT_MOST) {
        return Vec::new();
    }
    let mut text = String::new();
    if File::open(path).and_then(|file| file.take(JOB_FILE_AT_MOST).read_to_string(&mut text)).is_err() {
        return Vec::new();
    }
    let options = text.lines().filter_map(|line| line.split_once('='));
    let times = options.filter(|(name, _)| matches!(name.trim(), "runtime" | "timeout"));
    times.filter_map(|(_, value)| seconds(value.trim(), true)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Vec<f64> {
        let argv: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        of_command(&argv, Path::new("/nonexistent"))
    }

    #[test]
    fn durations_are_told_from_other_numbers() {
        assert_eq!(of(&["pgbench", "-c", "8", "-j2", "-T", "30", "bench"]), [30.0]);
        assert_eq!(of(&["sh", "-c", "timeout 2.5 ./server & wrk -t2 -c64 -d10s http://x"]), [2.0, 2.5, 10.0]);
        assert_eq!(of(&["sysbench", "--threads=2", "--time=5", "cpu", "run"]), [5.0]);
        assert_eq!(of(&["fio", "--name=x", "--runtime=500ms", "--time_based", "--bs=4k"]), [0.5]);
        assert_eq!(of(&["make", "-j2", "head", "-c", "10"]), [0.0; 0]);
        assert_eq!(of(&["dd", "bs=1M", "count=10"]), [0.0; 0]);
        assert_eq!(of(&[]), [0.0; 0]);
    }

    #[test]
    fn a_job_files_runtime_is_a_duration_of_the_command() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("job.fio"), "[a]\nrw=write\nruntime = 2\ntime_based\n[b]\ntimeout=1m\n")
            .expect("room");
        let argv = ["pagelab", "run", "job.fio"].map(str::to_owned);
        assert_eq!(of_command(&argv, dir.path()), [2.0, 60.0]);
    }
}
