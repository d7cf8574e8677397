//! The recipe: what reproduce.toml says, checked as far as that can be done without running anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pagelab_experiment::Place;

use crate::error::ReproduceError;
use crate::published::Published;
use crate::read;
use crate::value::{Value, close};

/// Name of the file in the experiment's folder.
pub(crate) const REPRODUCE_TOML: &str = "reproduce.toml";

/// An experiment that can be carried out.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Its folder, absolute.
    pub dir: PathBuf,
    /// The folder's name.
    pub name: String,
    /// Heading of the index.
    pub title: String,
    /// Its subject, for the index.
    pub summary: String,
    /// What is done, in this order.
    pub steps: Vec<Step>,
    /// What comes out of it.
    pub figures: Vec<Figure>,
    /// What others found.
    pub published: Published,
}

impl Recipe {
    /// Reads the recipe of the experiment in `dir`.
    pub fn load(dir: &Path) -> Result<Self, ReproduceError> {
        read::recipe(dir)
    }

    /// The default place of its recordings: `out/experiments/NAME` next to the repository that holds it, else below the
    /// working directory.
    pub fn default_out(&self) -> Result<PathBuf, ReproduceError> {
        let root = match self.dir.ancestors().find(|dir| dir.join(".git").exists()) {
            Some(root) => root.to_owned(),
            None => std::env::current_dir().map_err(ReproduceError::io("find", "."))?,
        };
        Ok(root.join("out/experiments").join(&self.name))
    }
}

/// One thing to do.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Its work.
    pub work: Work,
}

impl Step {
    /// The set that a plan makes, within what is kept.
    pub fn set(&self) -> String {
        format!("{}.set", self.name)
    }

    /// Files and folders that it leaves, within what is kept.
    pub fn makes(&self) -> Vec<String> {
        match &self.work {
            Work::Plan(_) => vec![self.set()],
            Work::Command { makes, stdout, .. } => makes.iter().chain(stdout).cloned().collect(),
        }
    }
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum Work {
    /// Makes the runs of a plan.
    Plan(PathBuf),
    /// Runs pagelab.
    Command {
        /// Words behind `pagelab`, placeholders unfilled.
        words: Vec<String>,
        /// File for its output.
        stdout: Option<String>,
        /// What else it leaves.
        makes: Vec<String>,
        /// Exit statuses that are no failure.
        exit: Vec<i32>,
        /// Longest time.
        timeout: Option<Duration>,
    },
}

/// One number or text that comes out.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its name.
    pub id: String,
    /// The words of the table.
    pub what: String,
    /// Its unit, if it has one.
    pub unit: Option<String>,
    /// Key in published.toml.
    pub published: Option<String>,
    /// Where it comes from.
    pub source: Source,
    /// A sentence below the table.
    pub note: Option<String>,
    /// A time or a count under emulation.
    pub emulated: bool,
    /// Significant digits shown.
    pub digits: usize,
    /// What it is held to.
    pub expected: Vec<Expectation>,
    /// Where it was written.
    pub at: Place,
}

/// Where a figure comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// SQL over recordings.
    Recordings {
        /// Recordings, relative to what is kept; `*` stands for any letters within a part.
        recording: String,
        /// The query.
        query: String,
        /// How several become one.
        join: Option<Join>,
    },
    /// A value of a JSON document.
    Document {
        /// The document, relative to what is kept.
        document: String,
        /// Which values, one after the other.
        pointers: Vec<String>,
        /// Where the document has the value's interval.
        interval: Option<String>,
        /// How several become one.
        join: Option<Join>,
    },
}

/// How several values become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Join {
    /// The middle one.
    Median,
    /// Their mean.
    Mean,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Their sum.
    Sum,
    /// They are all the same, or there is no figure.
    Equal,
    /// A text with all of them in their order, commas between them.
    List,
    /// One query over all recordings.
    Together,
    /// The geometric mean of ratios to these recordings, paired by run.
    Against(String),
    /// How many equal this text.
    Count(String),
}

impl Join {
    /// Words of `over`.
    pub const WORDS: [(&'static str, Join); 8] = [
        ("median", Join::Median),
        ("mean", Join::Mean),
        ("min", Join::Min),
        ("max", Join::Max),
        ("sum", Join::Sum),
        ("equal", Join::Equal),
        ("list", Join::List),
        ("together", Join::Together),
    ];

    /// In words, for the reader of the page.
    pub fn words(&self) -> String {
        match self {
            Self::Against(other) => format!("geometric mean of the ratios to `{other}`, paired by run"),
            Self::Count(text) => format!("how many equal `{text}`"),
            Self::Together => "one query over all of them".to_owned(),
            Self::Equal => "all the same".to_owned(),
            _ => Self::WORDS.iter().find(|(_, join)| join == self).map_or("", |(word, _)| word).to_owned(),
        }
    }
}

/// What a figure is held to.
#[derive(Debug, Clone, PartialEq)]
pub enum Expectation {
    /// The value is this or more.
    AtLeast(f64),
    /// The value is this or less.
    AtMost(f64),
    /// The value is this.
    Equals(Value),
    /// The value differs from the published number by this many per cent at most.
    WithinPct(f64),
    /// The 95 % interval does not hold this number.
    Excludes(f64),
}

impl Expectation {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {bound}"),
            Self::AtMost(bound) => format!("at most {bound}"),
            Self::Equals(value) => format!("equal to {value}"),
            Self::WithinPct(pct) => format!("within {pct} % of the published figure"),
            Self::Excludes(number) => format!("interval without {number}"),
        }
    }

    /// Whether a value with its interval is as expected; without what is needed to tell, it is not.
    pub fn met(&self, value: &Value, interval: Option<[f64; 2]>, published: Option<&Value>) -> bool {
        let number = value.as_f64();
        match self {
            Self::AtLeast(bound) => number.is_some_and(|number| number >= *bound),
            Self::AtMost(bound) => number.is_some_and(|number| number <= *bound),
            Self::Equals(wanted) => wanted.same(value),
            Self::WithinPct(pct) => match (number, published.and_then(Value::as_f64)) {
                (Some(number), Some(base)) => {
                    let off = (number - base).abs() * 100.0;
                    off <= pct * base.abs() || close(off, pct * base.abs())
                }
                _ => false,
            },
            Self::Excludes(number) => interval.is_some_and(|[low, high]| *number < low || *number > high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_without_what_it_needs_is_not_met() {
        let value = Value::Number(0.75);
        assert!(Expectation::AtMost(0.75).met(&value, None, None));
        assert!(!Expectation::AtLeast(0.76).met(&value, None, None));
        assert!(!Expectation::AtLeast(0.0).met(&Value::Text("x".into()), None, None));
        assert!(!Expectation::WithinPct(5.0).met(&value, None, None));
        assert!(Expectation::WithinPct(5.0).met(&value, None, Some(&Value::Number(0.79))) == (0.04 <= 0.05 * 0.79));
        assert!(!Expectation::Excludes(1.0).met(&value, None, None));
        assert!(Expectation::Excludes(1.0).met(&value, Some([0.7, 0.8]), None));
        assert!(!Expectation::Excludes(0.8).met(&value, Some([0.7, 0.8]), None));
    }
}
