//! Numbers that a command prints about itself: transactions per second, a percentile, a score.
//!
//! `--value NAME=REGEX` names one. The regular expression is tried on every line of the command's output; the first
//! capture group is the number, and the last line that matches decides. The number is stored as the metric `value.NAME`
//! of the run, and with the line it came from in the manifest's `values`.
//!
//! A number is never cut: `IOPS=([0-9.]+)` finds `12.3k` where fio prints that, and 12,300 is stored (module `number`). An
//! expression that names the unit itself, such as `([0-9.]+)MiB/s`, gets the number as printed.

mod number;

use std::fmt;
use std::str::FromStr;

use pagelab_recording::PrintedValue;
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

pub use pagelab_recording::Better;

/// What the names of these metrics begin with.
pub const PREFIX: &str = "value.";

/// Longest name, bytes.
const NAME_AT_MOST: usize = 64;

/// A number to look for in the output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueSpec {
    /// Its name; the metric is called `value.NAME`.
    pub name: String,
    /// Which way is better, if the user said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Better>,
    /// The regular expression, with at least one capture group.
    pub regex: String,
}

impl ValueSpec {
    /// A number with its parts checked. The error says what was found and what is needed.
    pub fn new(name: &str, direction: Option<Better>, regex: &str) -> Result<Self, String> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let begins_well = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
        if !begins_well || !name.chars().all(plain) || name.len() > NAME_AT_MOST {
            return Err(format!(
                "found the name {name:?}, needed a letter, then letters, digits, `_`, `-` or `.`: tps"
            ));
        }
        let compiled = Regex::new(regex).map_err(|error| format!("the regular expression is wrong: {error}"))?;
        if compiled.captures_len() < 2 {
            return Err(format!("found {regex:?}, needed parentheses around the number: '{name}=tps = ([0-9.]+)'"));
        }
        Ok(Self { name: name.to_owned(), direction, regex: regex.to_owned() })
    }

    /// The metric's name.
    pub fn metric(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }
}

impl FromStr for ValueSpec {
    type Err = String;

    /// `NAME=REGEX`, `NAME:higher=REGEX` or `NAME:lower=REGEX`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (left, regex) = text
            .split_once('=')
            .ok_or_else(|| format!("found {text:?}, needed NAME=REGEX such as 'tps:higher=tps = ([0-9.]+)'"))?;
        match left.split_once(':') {
            Some((name, direction)) => Self::new(name, Some(direction.parse()?), regex),
            None => Self::new(left, None, regex),
        }
    }
}

impl fmt::Display for ValueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = self.direction.map_or_else(String::new, |better| format!(":{}", better.word()));
        write!(f, "{}{direction}={}", self.name, self.regex)
    }
}

/// What became of one number in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueFound {
    /// The value searched for.
    pub spec: ValueSpec,
    /// The number; `None` if no line had one, and `note` says why.
    pub value: Option<f64>,
    /// Smallest step of the number as it was printed: 0.01 of `12.34`.
    pub step: Option<f64>,
    /// Lines that matched.
    pub matches: u64,
    /// Why there is no number.
    pub note: Option<String>,
}

impl ValueFound {
    /// As the manifest keeps it.
    pub fn printed(&self) -> PrintedValue {
        PrintedValue {
            name: self.spec.name.clone(),
            regex: Some(self.spec.regex.clone()),
            direction: self.spec.direction,
            value: self.value,
            step: self.step,
            matches: Some(self.matches),
            note: self.note.clone(),
            ..PrintedValue::default()
        }
    }
}

/// Looks for the numbers, line by line.
pub(crate) struct Search {
    wanted: Vec<Wanted>,
}

struct Wanted {
    spec: ValueSpec,
    regex: Regex,
    /// The expression names the point before the number: `version 1\.([0-9]+)`.
    names_point: bool,
    matches: u64,
    /// The capture of the last line that matched, or the whole token that it is a part of.
    last: Vec<u8>,
}

impl Search {
    /// A search that has seen nothing yet.
    pub(crate) fn new(specs: &[ValueSpec]) -> Result<Self, regex::Error> {
        let wanted = specs.iter().map(|spec| {
            let regex = Regex::new(&spec.regex)?;
            let names_point = number::names_point(&spec.regex);
            Ok(Wanted { spec: spec.clone(), regex, names_point, matches: 0, last: Vec::new() })
        });
        Ok(Self { wanted: wanted.collect::<Result<_, regex::Error>>()? })
    }

    /// Looks at one line.
    pub(crate) fn line(&mut self, line: &[u8]) {
        for wanted in &mut self.wanted {
            for captures in wanted.regex.captures_iter(line) {
                wanted.matches += 1;
                wanted.last.clear();
                let (Some(whole), Some(group)) = (captures.get(0), captures.get(1)) else { continue };
                let token = number::token(line, group.range(), whole.range(), wanted.names_point);
                wanted.last.extend_from_slice(&line[token]);
            }
        }
    }

    /// The values found.
    pub(crate) fn found(&self) -> Vec<ValueFound> {
        self.wanted.iter().map(Wanted::found).collect()
    }
}

impl Wanted {
    fn found(&self) -> ValueFound {
        let Self { spec, matches, last, .. } = self;
        let text = String::from_utf8_lossy(last);
        let (number, note) = match number::parse(&text) {
            _ if *matches == 0 => (None, Some(format!("no line of the command's output matches {:?}", spec.regex))),
            Ok(number) => (Some(number), None),
            Err(reason) => (None, Some(reason)),
        };
        ValueFound {
            spec: spec.clone(),
            value: number.map(|number| number.value),
            step: number.and_then(|number| number.step),
            matches: *matches,
            note,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(spec: &str, lines: &[&str]) -> ValueFound {
        let spec: ValueSpec = spec.parse().expect("a value");
        let mut search = Search::new(&[spec]).expect("it was compiled before");
        for line in lines {
            search.line(line.as_bytes());
        }
        search.found().remove(0)
    }

    #[test]
    fn the_last_line_that_matches_decides() {
        let found = search("tps:higher=tps = ([0-9.]+)", &["tps = 10.5 (warm-up)", "noise", "tps = 1234.50 (without)"]);
        assert_eq!((found.value, found.matches, found.note.as_deref()), (Some(1234.5), 2, None));
        assert_eq!(found.step, Some(0.01));
        assert_eq!(found.spec.direction, Some(Better::Higher));
        // redis-benchmark writes over one line of a terminal.
        let twice = search("rps=([0-9.]+) requests", &["GET: 1.0 requests, GET: 2.5 requests"]);
        assert_eq!((twice.value, twice.matches), (Some(2.5), 2));
    }

    #[test]
    fn numbers_are_plain() {
        for (text, value, step) in
            [("1e5", 1e5, 1e5), ("-0.25", -0.25, 0.01), ("7", 7.0, 1.0), (" 1.5E-3 ", 1.5e-3, 1e-4)]
        {
            let found = search("x=v(.*)", &[&format!("v{text}")]);
            assert_eq!(found.value, Some(value), "{text}");
            let ratio = found.step.expect("a step") / step;
            assert!((ratio - 1.0).abs() < 1e-9, "{text}: {:?}", found.step);
        }
        for text in ["1,234", "inf", "NaN", "12 of 30", ""] {
            let found = search("x=v(.*)", &[&format!("v{text}")]);
            assert_eq!(found.value, None, "{text}");
            assert!(found.note.expect("a reason").contains("needed a number"), "{text}");
        }
        let long = search("x=v(.*)", &[&format!("v{}", "é7".repeat(400_000))]).note.expect("a reason");
        assert!(long.len() < 300, "{long}");
        let none = search("x=v(.*)", &["nothing"]);
        assert!(none.note.expect("a reason").starts_with("no line of the command's output matches"));
    }

    #[test]
    fn a_number_is_never_cut() {
        // As fio, wrk, redis-benchmark, dd and sysbench print them.
        for (spec, line, value) in [
            ("x=IOPS=([0-9.]+)", "  read: IOPS=12.3k, BW=48.0MiB/s (50.4MB/s)(96.1MiB/2001msec)", 12_300.0),
            ("x=IOPS=([0-9.]+)", "  read: IOPS=969, BW=3879KiB/s", 969.0),
            ("x=BW=([0-9.]+)", "  read: IOPS=969, BW=48.5MiB/s", 48.5 * 1_048_576.0),
            ("x=BW=([0-9.]+)MiB/s", "  read: IOPS=969, BW=48.5MiB/s", 48.5),
            ("x=Latency +([0-9.]+)", "    Latency   635.91us    0.89ms  12.92ms   93.69%", 635.91e-6),
            ("x=Latency +([0-9.]+)", "    Latency     1.25ms    0.89ms  12.92ms   93.69%", 1.25e-3),
            ("x=hits: ([0-9.]+)", "hits: 99.5%", 99.5),
            ("x=took ([0-9]+)", "took 12.75 of them", 12.75),
            ("x=total .*([0-9.]+)", "total 1234.5 requests", 1234.5),
            (r"x=version 1\.([0-9]+)", "version 1.25", 25.0),
            ("x=, ([0-9.]+) [MG]B/s", "1073741824 bytes (1.1 GB) copied, 0.31 s, 3.5 GB/s", 3.5),
        ] {
            let found = search(spec, &[line]);
            let near = found.value.is_some_and(|found| (found / value - 1.0).abs() < 1e-12);
            assert!(near, "{spec} on {line:?}: {found:?}, needed {value}");
        }
        for (spec, line, token) in [
            ("x=total ([0-9.]+)", "total 1,234 requests", "1,234"),
            ("x=took ([0-9]+)", "took 12:31", "12:31"),
            ("x=rate ([0-9.]+)", "rate 12frames", "12frames"),
            ("x=at ([0-9]+)", "at 0x1f", "0x1f"),
        ] {
            let found = search(spec, &[line]);
            let note = found.note.expect("a reason");
            assert_eq!(found.value, None, "{spec} on {line:?}");
            assert!(note.contains(&format!("{token:?}")), "{spec} on {line:?}: {note}");
        }
        let long = "9".repeat(1_000_000);
        let note = search("x=v([^ ]*)", &[&format!("v{long}k{long}")]).note.expect("a reason");
        assert!(note.len() < 300, "a reason of {} bytes", note.len());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, needed) in [
            ("tps", "needed NAME=REGEX"),
            ("=(x)", "needed a letter"),
            ("a b=(x)", "needed a letter"),
            ("9=(x)", "needed a letter"),
            ("tps=[0-9]+", "needed parentheses"),
            ("tps=(", "regular expression"),
            ("tps:up=(x)", "needed higher or lower"),
        ] {
            let error = text.parse::<ValueSpec>().expect_err(text);
            assert!(error.contains(needed), "{text}: {error}");
        }
        let spec: ValueSpec = "p99:lower=p99=([0-9]+)".parse().expect("an equals sign may stand in the expression");
        assert_eq!((spec.to_string().as_str(), spec.metric().as_str()), ("p99:lower=p99=([0-9]+)", "value.p99"));
    }
}
