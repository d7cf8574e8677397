//! Sets of recordings: hive-partitioned folders and `set.json`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pagelab_output::read_plain;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::manifest::{MANIFEST, Manifest};
use crate::seal::{self, Seal};
use crate::storage::replace_document;

pub use crate::absent::SET_JSON;

/// Folder of warm-up runs within a set.
pub const WARMUP: &str = "warmup";

/// Folder of runs that were aborted and made again.
pub const ABORTED: &str = "aborted";

/// Some 500 bytes for each run, and the plan.
const LARGEST: u64 = 64 << 20;

/// A recording found on disk, with the partition it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordingRef {
    /// Directory of the recording.
    pub dir: PathBuf,
    /// Host, from the manifest, else from `host=...` in the path.
    pub host: Option<String>,
    /// Variant, from the manifest, else from `variant=...` in the path.
    pub variant: Option<String>,
    /// Run, from the manifest, else from `run=...` in the path.
    pub run: Option<u64>,
}

/// Finds the recordings at and below `paths`, sorted by host, variant, run and path, each once. A path that is no
/// recording and has none below is [`Error::NotARecording`]. A manifest that cannot be read is an error too.
///
/// Runs of a set that are not its result, in [`WARMUP`] and [`ABORTED`], are left out, unless their own folder is
/// given. They have the same variants and numbers as others, and would be taken for them.
pub fn discover<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<RecordingRef>> {
    let mut found = folders(paths)?.iter().map(|dir| reference(dir)).collect::<Result<Vec<_>>>()?;
    found.sort_by(|a, b| (&a.host, &a.variant, a.run, &a.dir).cmp(&(&b.host, &b.variant, b.run, &b.dir)));
    Ok(found)
}

/// As [`discover`], with the recordings of which the manifest cannot be read beside the others, each with its error.
///
/// # Errors
/// A path that has no recording, or cannot be looked at; and the first error, if no manifest can be read.
#[expect(clippy::type_complexity, reason = "two lists of pairs, which every caller takes apart at once")]
pub fn discover_readable<P: AsRef<Path>>(paths: &[P]) -> Result<(Vec<RecordingRef>, Vec<(PathBuf, Error)>)> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for dir in folders(paths)? {
        match reference(&dir) {
            Ok(reference) => found.push(reference),
            Err(error) => unreadable.push((dir, error)),
        }
    }
    found.sort_by(|a, b| (&a.host, &a.variant, a.run, &a.dir).cmp(&(&b.host, &b.variant, b.run, &b.dir)));
    match unreadable.pop() {
        Some((_, error)) if found.is_empty() => Err(error),
        last => {
            unreadable.extend(last);
            Ok((found, unreadable))
        }
    }
}

/// The folders of recordings at and below `paths`, as [`discover`] finds them, whatever state their manifests are in.
pub fn folders<P: AsRef<Path>>(paths: &[P]) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for path in paths {
        let before = found.len();
        walk(path.as_ref(), &mut found, DEPTH)?;
        if found.len() == before && !found.iter().any(|dir: &PathBuf| dir.starts_with(path)) {
            return Err(Error::NotARecording { dir: path.as_ref().to_owned() });
        }
    }
    Ok(found)
}

/// Levels below a path that are searched: `SET/host=h/variant=v/run=n` and room for two more.
const DEPTH: u32 = 6;

fn walk(dir: &Path, found: &mut BTreeSet<PathBuf>, depth: u32) -> Result<()> {
    if dir.join(MANIFEST).is_file() {
        found.insert(dir.to_owned());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::NotARecording { dir: dir.to_owned() });
        }
        Err(e) => return Err(Error::io("read directory", dir)(e)),
    };
    let is_set = dir.join(SET_JSON).is_file();
    for entry in entries {
        let entry = entry.map_err(Error::io("read directory", dir))?;
        if is_set && [WARMUP, ABORTED].iter().any(|aside| entry.file_name() == *aside) {
            continue;
        }
        // A link is not followed: a loop would never end, and a recording would be found twice.
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            walk(&entry.path(), found, depth - 1)?;
        }
    }
    Ok(())
}

/// The partition of the recording in `dir`: what its manifest says, else what its path says.
pub fn reference(dir: &Path) -> Result<RecordingRef> {
    let manifest = Manifest::load(dir)?;
    let from_path = |key: &str| {
        dir.components().rev().find_map(|c| {
            let text = c.as_os_str().to_str()?;
            text.strip_prefix(key)?.strip_prefix('=').map(str::to_owned)
        })
    };
    Ok(RecordingRef {
        dir: dir.to_owned(),
        host: manifest.host.or_else(|| from_path("host")),
        variant: manifest.variant.or_else(|| from_path("variant")),
        run: manifest.run.or_else(|| from_path("run")?.parse().ok()),
    })
}

/// The folder of a run within a set: `SET/variant=good/run=003`.
pub fn run_dir(set: &Path, variant: &str, run: u64) -> PathBuf {
    set.join(format!("variant={variant}")).join(format!("run={run:03}"))
}

/// What became of a planned run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum RunState {
    /// Not started.
    Planned,
    /// Started and, if the experiment is not running, broken off.
    Running,
    /// Ended well.
    Done,
    /// Failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// Ended, but left out of the statistics; it stays in the data.
    Excluded {
        /// Why, in a form that a machine can check.
        reason: String,
    },
}

/// One run of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRun {
    /// Variant.
    pub variant: String,
    /// Number within the variant, from 1.
    pub run: u64,
    /// Round (block), from 1.
    pub round: u64,
    /// Position in the round, from 1.
    pub position: u64,
    /// Directory of its recording, relative to the set.
    pub dir: PathBuf,
    /// What became of it.
    #[serde(flatten)]
    pub state: RunState,
}

/// `set.json`: the plan, the order drawn from the seed and the state of each run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetJson {
    /// Major format of the set, equal to that of its recordings.
    pub format: u64,
    /// The plan as it was read.
    pub plan: Value,
    /// Seed of the order and of every other random choice.
    pub seed: u64,
    /// Runs in the order in which they are made.
    pub order: Vec<PlannedRun>,
    /// Further keys.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl SetJson {
    /// Reads the document of the set in `dir`.
    pub fn load(dir: &Path) -> Result<Self> {
        Ok(Self::load_sealed(dir)?.0)
    }

    /// As [`SetJson::load`], and what its checksum says.
    pub(crate) fn load_sealed(dir: &Path) -> Result<(Self, Seal)> {
        let path = dir.join(SET_JSON);
        let text = read_plain(&path, LARGEST)?;
        let bad = |e: serde_json::Error| Error::BadJson { path: path.clone(), reason: e.to_string() };
        let mut value: Value = serde_json::from_slice(&text).map_err(bad)?;
        let seal = seal::take(&text, &mut value);
        Ok((serde_json::from_value(value).map_err(bad)?, seal))
    }

    /// Writes the document atomically, so that a reader meets the old or the new one at every instant, and forces it to
    /// the device: its entry for a run must not outlive that run, nor the other way round.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        replace_document(dir, SET_JSON, &seal::put(text))
    }
}
