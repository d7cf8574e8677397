//! The plan: the contents of `plan.toml`, checked as far as that can be done without looking at the host.

mod fill;
mod lab;
mod names;
mod read;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagelab_fiojob::Workload;
use pagelab_vocab::terminal::shell_line;
use serde::{Deserialize, Serialize};

pub use fill::{Filled, FilledVariant, Surroundings};
pub(crate) use fill::{filled_device, has_placeholder};
pub use lab::{Boot, LabPlan};
pub use pagelab_session::{Better, ValueSpec};

use crate::decoys::PoolEntry;
use crate::document::Place;
use crate::error::PlanError;

/// The metric that the plan names before anything is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrimaryMetric {
    /// Its name in the vocabulary of metrics.
    pub metric: String,
    /// Which way is better; the vocabulary's word if the plan has none.
    pub direction: Option<Better>,
}

/// The steps on the host between two runs, so that one finds it as the other did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Between {
    /// `sync`: dirty pages are written.
    Sync,
    /// Clean pages, dentries and inodes are dropped (3 to /proc/sys/vm/drop_caches).
    DropCaches,
    /// Memory is compacted (/proc/sys/vm/compact_memory).
    Compact,
}

impl Between {
    /// All, with the words of the plan.
    pub const ALL: [(Between, &'static str); 3] =
        [(Between::Sync, "sync"), (Between::DropCaches, "drop_caches"), (Between::Compact, "compact")];

    /// The word of the plan.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(between, _)| *between == self).map_or("", |(_, word)| word)
    }
}

/// The workload of a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A program with its arguments.
    Command(Vec<String>),
    /// A fio workload, run by pagelab's own engines.
    Job {
        /// The files it was read from.
        files: Vec<PathBuf>,
        /// Their contents.
        workload: Box<Workload>,
    },
}

impl Work {
    /// In one line, as somebody would type it.
    pub fn line(&self) -> String {
        match self {
            Self::Command(argv) => shell_line(argv),
            Self::Job { files, .. } => {
                format!("pagelab run {}", shell_line(files.iter().map(|file| file.display().to_string())))
            }
        }
    }
}

/// A setting as the plan has it; the key may hold `{device of PATH}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedSetting {
    /// The value.
    pub value: String,
    /// Where it was written.
    #[serde(skip, default = "nowhere")]
    pub at: Place,
}

fn nowhere() -> Place {
    Place { file: PathBuf::new(), line: 0 }
}

/// One variant: what runs, and under which settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name; also a folder of the set.
    pub name: String,
    /// What runs.
    pub work: Work,
    /// Settings in force while it runs, by key; those of the whole plan are among them.
    pub settings: BTreeMap<String, PlannedSetting>,
    /// Where it was written.
    #[serde(skip, default = "nowhere")]
    pub at: Place,
}

/// Harmless differences that are to distract from the one that matters: a test of the attribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decoys {
    /// How many settings are changed for each variant and for no other.
    pub count: usize,
    /// The settings they are drawn from; empty for pagelab's own pool.
    pub pool: Vec<PoolEntry>,
    /// Where it was written.
    #[serde(skip, default = "nowhere")]
    pub at: Place,
}

/// A plan that is right as written. Nothing of the host has been looked at yet: see [`Plan::fill`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The file, absolute; paths in it are relative to its directory.
    #[serde(skip)]
    pub path: PathBuf,
    /// Its subject.
    pub title: String,
    /// Rounds: runs of each variant, warm-up not counted.
    pub runs: usize,
    /// Seed of the order and of every other random choice; `None`: drawn when the set is started.
    pub seed: Option<u64>,
    /// Streams to observe, as `--observe` takes them.
    pub observe: String,
    /// The metric to compare, named beforehand.
    pub primary: Option<PrimaryMetric>,
    /// Numbers to look for in the output of the commands; the first decides where there is no `primary`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ValueSpec>,
    /// Runs of each variant before the first round; recorded, not compared.
    pub warmup: usize,
    /// Program run before each run.
    pub prepare: Option<Vec<String>>,
    /// Program run after each run.
    pub cleanup: Option<Vec<String>>,
    /// The steps on the host before each run, in this order.
    pub between: Vec<Between>,
    /// Longest time a run (and `prepare`, and `cleanup`) may take.
    pub timeout: Option<Duration>,
    /// Directory that everything runs in, relative to the plan; `{set}` is the set's. `None`: the plan's directory.
    pub workdir: Option<String>,
    /// The variant that the others are compared with.
    pub base: String,
    /// Variants in the order of the file.
    pub variants: Vec<Variant>,
    /// Harmless differences to add.
    pub decoys: Option<Decoys>,
    /// The VM that everything runs in; `None`: this host. Left out of the document then, as before there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabPlan>,
    /// What deserves a word though it is no mistake.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl Plan {
    /// Reads and checks the plan in the file `path`.
    pub fn load(path: &Path) -> Result<Self, PlanError> {
        let unreadable =
            |error: std::io::Error| PlanError::Unreadable { path: path.to_owned(), reason: error.to_string() };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let absolute = path.canonicalize().map_err(unreadable)?;
        let text = String::from_utf8(bytes).map_err(|error| PlanError::Unreadable {
            path: path.to_owned(),
            reason: format!("not UTF-8: {}", error.utf8_error()),
        })?;
        read::plan(path, &absolute, &text)
    }

    /// Reads and checks a plan that is not in a file; `origin` stands in messages where a file's name would.
    pub fn parse(origin: &Path, dir: &Path, text: &str) -> Result<Self, PlanError> {
        read::plan(origin, &dir.join(origin), text)
    }

    /// The number of the user's own that the experiment decides by, if it does.
    pub(crate) fn deciding_value(&self) -> Option<&ValueSpec> {
        match &self.primary {
            None => self.values.first(),
            Some(primary) => self.values.iter().find(|value| value.metric() == primary.metric),
        }
    }

    /// The directory that paths in the plan are relative to.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The same plan with names drawn at random for its variants, each of another meaning than its own. Names must not
    /// matter to what is found; a test shows that by renaming.
    pub fn with_random_names(mut self, seed: u64) -> Self {
        names::rename(&mut self, seed);
        self
    }

    /// The document for `set.json`, also used to see whether a plan has changed: everything that affects the runs.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
