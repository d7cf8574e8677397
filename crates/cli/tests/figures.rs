//! Measured numbers in texts. `docs/figures.toml` has each with the raw values that it is computed from and the command that measures it
//! again; here it is computed, and README.md, the pages of `docs/` and every help text are searched for numbers that are not in it.
//!
//! Nothing else connects a sentence with results: a number stays in a page long after what it was measured of has changed, and a reader
//! cannot tell.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::{Match, Regex};
use serde::Deserialize;

use crate::common::{pagelab, run, scratch};

/// A number and its unit: the second group is the number alone.
const WITH_UNIT: &str =
    r"(?:^|[^\w.])(([0-9][0-9,]*(?:\.[0-9]+)?)\s?(?:%|(?:ms|s|us|µs|ns|MiB|GiB|min|minutes|h|hours|times|x)\b))";

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    definitions: Vec<Definition>,
    generated: Vec<Generated>,
    figure: Vec<Figure>,
    table: Vec<Table>,
}

/// A phrase whose numbers nobody measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    text: String,
    reason: String,
}

/// A page, or the part of one behind a line, that a program writes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generated {
    page: String,
    by: String,
    after: Option<String>,
}

/// A measured number in a phrase.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    name: String,
    text: String,
    value: String,
    places: Vec<String>,
    measured: String,
    machine: String,
    command: String,
    #[serde(default)]
    raw: Vec<f64>,
    source: Option<String>,
    pattern: Option<String>,
    #[serde(default)]
    formula: Formula,
    divisor: Option<f64>,
}

/// A table that a test compares with what it measures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    page: String,
    head: String,
    test: String,
    command: String,
}

/// What is computed of the raw values.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Formula {
    #[default]
    Median,
    Min,
    Max,
    /// The first by the second.
    Ratio,
    /// By how many per cent the median is above 1.
    PercentOverOne,
}

impl Formula {
    fn of(self, values: &[f64]) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        match self {
            Self::Median => median,
            Self::Min => sorted[0],
            Self::Max => sorted[sorted.len() - 1],
            Self::Ratio => values[0] / values[1],
            Self::PercentOverOne => 100.0 * (median - 1.0),
        }
    }
}

impl Figure {
    fn raw_values(&self) -> Vec<f64> {
        let (Some(source), Some(pattern)) = (&self.source, &self.pattern) else {
            return self.raw.clone();
        };
        let pattern = Regex::new(pattern).expect("a pattern");
        let text = read(source);
        pattern.captures_iter(&text).map(|found| found[1].parse().expect("the pattern finds numbers")).collect()
    }

    /// What is wrong with it, in words.
    fn wrong(&self, all: &[Figure]) -> Vec<String> {
        let mut wrong = Vec::new();
        for place in self.places.iter().filter(|place| !read(place).contains(&self.text)) {
            wrong.push(format!("{place} does not say: {}", self.text));
        }
        let values = self.raw_values();
        if values.is_empty() {
            wrong.push("there are no raw values".to_owned());
        } else {
            let computed = self.formula.of(&values) / self.divisor.unwrap_or(1.0);
            if (computed - number(&self.value)).abs() > half_a_digit(&self.value) * 1.000_001 {
                wrong.push(format!("its raw values give {computed}, the text says {}", self.value));
            }
        }
        if !is_there(&self.command) {
            wrong.push(format!("found no target, program or file that this names: {}", self.command));
        }
        if self.places.is_empty() || self.measured.is_empty() || self.machine.is_empty() {
            wrong.push("it lacks a place, a date or a machine".to_owned());
        }
        // Each number of its phrase is held, not the first alone.
        let same_phrase: Vec<&str> = all.iter().filter(|one| one.text == self.text).map(|one| &*one.value).collect();
        if !self.text.contains(&self.value) {
            wrong.push(format!("{} is not in its phrase", self.value));
        }
        for found in with_unit().captures_iter(&self.text).filter(|found| !same_phrase.contains(&&found[2])) {
            wrong.push(format!("no figure with this phrase has the value {}", &found[2]));
        }
        wrong.iter().map(|words| format!("{}: {words}", self.name)).collect()
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A file of the repository.
#[track_caller]
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn figures() -> Figures {
    toml::from_str(&read("docs/figures.toml")).unwrap_or_else(|error| panic!("docs/figures.toml: {error}"))
}

fn with_unit() -> Regex {
    Regex::new(WITH_UNIT).expect("a pattern")
}

fn number(shown: &str) -> f64 {
    shown.replace(',', "").parse().unwrap_or_else(|error| panic!("{shown}: {error}"))
}

/// Half of the last digit that is shown: `5.0` may stand for anything from 4.95 to 5.05.
fn half_a_digit(shown: &str) -> f64 {
    let (digits, exponent) = shown.split_once('e').unwrap_or((shown, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let exponent: i32 = exponent.parse().expect("a power of ten");
    0.5 * 10_f64.powi(exponent - i32::try_from(decimals).expect("few digits"))
}

/// Whether a command names a target of make, a program of `benches/` or a file of the repository.
fn is_there(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["make", target, ..] => read("Makefile").lines().any(|line| line.starts_with(&format!("{target}:"))),
        ["cargo", options @ ..] => options
            .windows(2)
            .any(|two| two[0] == "--bin" && root().join("benches/src/bin").join(format!("{}.rs", two[1])).is_file()),
        [program, ..] => root().join(program).is_file(),
        [] => false,
    }
}

/// Numbers with a unit in a line that none of the known phrases holds.
fn unknown_numbers<'a>(line: &'a str, pattern: &Regex, known: &[&str]) -> Vec<&'a str> {
    let mut held: Vec<Range<usize>> = Vec::new();
    for phrase in known {
        held.extend(line.match_indices(*phrase).map(|(at, found)| at..at + found.len()));
    }
    let is_held = |found: &Match<'_>| held.iter().any(|span| span.start <= found.start() && found.end() <= span.end);
    let numbers = pattern.captures_iter(line).filter_map(|found| found.get(1));
    numbers.filter(|found| !is_held(found)).map(|found| found.as_str()).collect()
}

/// A page with the lines of a table left blank, so that the others keep their numbers.
fn without_table(text: &str, head: &str) -> String {
    let mut is_inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        is_inside = line == head || (is_inside && line.starts_with('|'));
        if !is_inside {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

/// Pages with what people wrote in them.
fn pages(figures: &Figures) -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).expect("docs/").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|ending| ending == "md") {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    let mut found = Vec::new();
    for name in names {
        let mut text = read(&name);
        if let Some(generated) = figures.generated.iter().find(|one| one.page == name) {
            let written = generated.after.as_deref().map_or(0, |line| text.find(line).expect("the line is there"));
            text.truncate(written);
        }
        for table in figures.table.iter().filter(|table| table.page == name) {
            text = without_table(&text, &table.head);
        }
        found.push((name, text));
    }
    found
}

/// The help of every command, as its manual page has it.
fn help_texts() -> Vec<(String, String)> {
    let dir = scratch();
    run(pagelab().args(["help-files", "--man"]).arg(dir.path()), 0);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir.path()).expect("manual pages").flatten() {
        let mut text = fs::read_to_string(entry.path()).expect("a manual page");
        for (roff, plain) in [("\\-", "-"), ("\\fB", ""), ("\\fI", ""), ("\\fR", "")] {
            text = text.replace(roff, plain);
        }
        found.push((entry.file_name().to_string_lossy().into_owned(), text));
    }
    found.sort();
    assert!(found.len() > 20, "only {} manual pages", found.len());
    found
}

#[test]
fn figures_in_texts_are_what_their_raw_values_give() {
    let figures = figures();
    let wrong: Vec<String> = figures.figure.iter().flat_map(|figure| figure.wrong(&figures.figure)).collect();
    assert!(wrong.is_empty(), "docs/figures.toml:\n{}", wrong.join("\n"));
    for table in &figures.table {
        let (file, name) = table.test.split_once("::").expect("FILE::TEST");
        assert!(read(file).contains(&format!("fn {name}()")), "{} is not there", table.test);
        assert!(read(&table.page).lines().any(|line| line == table.head), "{} has no such table", table.page);
        assert!(is_there(&table.command), "{}", table.command);
    }
    for generated in &figures.generated {
        assert!(root().join(&generated.by).is_file(), "{} is written by nothing", generated.page);
    }
}

#[test]
fn no_text_has_a_measured_number_of_its_own() {
    let figures = figures();
    let known: Vec<&str> =
        figures.definitions.iter().map(|one| &*one.text).chain(figures.figure.iter().map(|one| &*one.text)).collect();
    let texts = [pages(&figures), help_texts()].concat();
    let pattern = with_unit();
    let mut wrong = Vec::new();
    for (name, text) in &texts {
        for (line_number, line) in (1..).zip(text.lines()) {
            for found in unknown_numbers(line, &pattern, &known) {
                wrong.push(format!("{name}:{line_number}: {found}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "numbers without raw values; add a figure, or a definition if nobody measured it, to docs/figures.toml:\n{}",
        wrong.join("\n")
    );
    for definition in &figures.definitions {
        assert!(!definition.reason.is_empty(), "{}: no reason", definition.text);
        let is_used = texts.iter().any(|(_, text)| text.contains(&definition.text));
        assert!(is_used, "docs/figures.toml: no text says any more: {}", definition.text);
    }
}

/// The page is arithmetic on `benches/fleet/scale.toml`.
#[test]
fn the_page_of_scale_is_what_its_constants_give() {
    run(Command::new("python3").arg(root().join("benches/fleet/scale.py")).arg("--check"), 0);
}

#[test]
fn numbers_are_found_and_rounded_as_they_are_read() {
    let pattern = with_unit();
    let found = |line| unknown_numbers(line, &pattern, &["2 MiB", "a 95 % interval"]);
    assert_eq!(found("12 % of 2 MiB, in 1.5 s (0.8 to 2,200 ns)"), ["12 %", "1.5 s", "2,200 ns"]);
    assert_eq!(found("42 MiB"), ["42 MiB"], "the end of a longer number is no phrase that is known");
    assert_eq!(found("a 95 % interval, 0x10, v2.6 and 4 samples"), [""; 0]);
    for (formula, wanted) in [(Formula::Median, 2.5), (Formula::Min, 1.0), (Formula::Max, 4.0), (Formula::Ratio, 4.0)] {
        assert!((formula.of(&[4.0, 1.0, 2.0, 3.0]) - wanted).abs() < 1e-12, "{formula:?}");
    }
    assert!((Formula::PercentOverOne.of(&[1.05]) - 5.0).abs() < 1e-9);
    for (shown, half) in [("5.0", 0.05), ("300", 0.5), ("4.27e-5", 5e-8)] {
        assert!((half_a_digit(shown) / half - 1.0).abs() < 1e-9, "{shown}");
    }
}
