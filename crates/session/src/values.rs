//! Numbers that a command prints about itself: transactions per second, a percentile, a score.
//!
//! `--value NAME=REGEX` names one. The regular expression is tried on every line of the command's output; the first
//! capture group is the number, and the last line that matches decides. The number is stored as the metric `value.NAME`
//! of the run, and with the line it came from in the manifest's `values`.

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
    matches: u64,
    /// The capture of the last line that matched.
    last: Vec<u8>,
}

impl Search {
    /// A search that has seen nothing yet.
    pub(crate) fn new(specs: &[ValueSpec]) -> Result<Self, regex::Error> {
        let wanted = specs.iter().map(|spec| {
            let regex = Regex::new(&spec.regex)?;
            Ok(Wanted { spec: spec.clone(), regex, matches: 0, last: Vec::new() })
        });
        Ok(Self { wanted: wanted.collect::<Result<_, regex::Error>>()? })
    }

    /// Looks at one line.
    pub(crate) fn line(&mut self, line: &[u8]) {
        for wanted in &mut self.wanted {
            for captures in wanted.regex.captures_iter(line) {
                let group = captures.get(1).map_or(&b""[..], |group| group.as_bytes());
                wanted.matches += 1;
                wanted.last.clear();
                wanted.last.extend_from_slice(group);
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
        let number = if *matches > 0 { number(&text) } else { None };
        let note = match number {
            Some(_) => None,
            None if *matches == 0 => Some(format!("no line of the command's output matches {:?}", spec.regex)),
            None => Some(format!("found {text:?} in the output, needed a plain number such as 1234.5 or 1e5")),
        };
        ValueFound {
            spec: spec.clone(),
            value: number,
            step: number.and_then(|_| step(&text)),
            matches: *matches,
            note,
        }
    }
}

/// A plain number: digits, point, exponent. `inf`, `nan` and thousands set apart are none.
fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}

/// The step of the last digit printed.
fn step(text: &str) -> Option<f64> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let exponent = exponent.parse::<i32>().ok()? - i32::try_from(decimals).ok()?;
    Some(10_f64.powi(exponent)).filter(|step| step.is_finite() && *step > 0.0)
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
        for text in ["1,234", "inf", "NaN", "12k", ""] {
            let found = search("x=v(.*)", &[&format!("v{text}")]);
            assert_eq!(found.value, None, "{text}");
            assert!(found.note.expect("a reason").contains("needed a plain number"), "{text}");
        }
        let none = search("x=v(.*)", &["nothing"]);
        assert!(none.note.expect("a reason").starts_with("no line of the command's output matches"));
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
