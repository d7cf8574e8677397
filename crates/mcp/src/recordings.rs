//! The recordings that a client may ask about, and the tool that lists them.
//!
//! A client names a recording by its text in this list. Nothing else that it says becomes a path: [`Served::named`] compares its
//! text with those listed, and gives the path that the server found itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pagelab_recording::set::{RecordingRef, folders, reference};
use pagelab_recording::{Manifest, Recording};
use pagelab_vocab::nearest::hint_for;
use pagelab_vocab::terminal::shell_line;
use rmcp::schemars;
use serde::Serialize;
use serde_json::Value;

use crate::answer::{ToolError, document};

/// Letters of a command that are listed: a command may have a megabyte.
const COMMAND: usize = 200;

const SMALLER: &str = "ask for fewer recordings with `words` (a part of a path, a command or a variant) or `top`";

/// Which recordings are listed.
#[derive(Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Only recordings with one of these words in their path, command, jobs, label, host or variant [default: all].
    #[serde(default)]
    words: Vec<String>,
    /// Number of recordings listed, the first ones; 0 for all [default: all].
    #[serde(default)]
    top: Option<usize>,
}

/// The paths that the server was started with.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    dirs: Vec<PathBuf>,
}

/// What the tool answers.
#[derive(Debug, Serialize)]
struct Listing {
    recordings: Vec<Listed>,
    /// Before `top`.
    recordings_total: usize,
    unreadable: Vec<Unreadable>,
}

/// One recording.
#[derive(Debug, Serialize)]
struct Listed {
    path: String,
    command: Option<String>,
    jobs: Option<Vec<String>>,
    /// Where it ran before it was recorded.
    target: Option<String>,
    label: Option<String>,
    host: Option<String>,
    variant: Option<String>,
    run: Option<u64>,
    complete: bool,
    incomplete_reason: Option<String>,
    duration_s: Option<f64>,
}

/// A path that has no recording to ask about.
#[derive(Debug, Serialize)]
struct Unreadable {
    path: String,
    reason: String,
}

impl Served {
    /// The recordings at and below these paths.
    ///
    /// # Errors
    /// A path has none.
    pub(crate) fn new(dirs: &[PathBuf]) -> pagelab_recording::Result<Self> {
        folders(dirs)?;
        Ok(Self { dirs: dirs.to_vec() })
    }

    /// The recordings that are there now: runs of a set appear while it is made.
    fn found(&self) -> (BTreeSet<PathBuf>, Vec<Unreadable>) {
        let (mut found, mut unreadable) = (BTreeSet::new(), Vec::new());
        for dir in &self.dirs {
            match folders(&[dir]) {
                Ok(more) => found.extend(more),
                Err(error) => unreadable.push(Unreadable::new(dir, &error)),
            }
        }
        // A name that is no text has no text that means it alone.
        let (named, nameless): (BTreeSet<_>, BTreeSet<_>) = found.into_iter().partition(|dir| dir.to_str().is_some());
        unreadable.extend(nameless.iter().map(|dir| Unreadable::new(dir, &"found a name that is no UTF-8")));
        (named, unreadable)
    }

    /// The recording that the list calls `name`.
    ///
    /// # Errors
    /// The list has no such recording.
    pub(crate) fn named(&self, name: &str) -> Result<PathBuf, ToolError> {
        let (found, _) = self.found();
        let found: Vec<(&str, &PathBuf)> = found.iter().filter_map(|dir| Some((dir.to_str()?, dir))).collect();
        if let Some((_, dir)) = found.iter().find(|(listed, _)| *listed == name) {
            return Ok((*dir).clone());
        }
        let near = hint_for(name, found.iter().map(|(listed, _)| *listed));
        let total = found.len();
        Err(ToolError::Asked(format!(
            "no recording {name:?}{near}; needed a path as the tool recordings lists it ({total} are there)"
        )))
    }

    /// Several recordings, each once. `argument` is what names them.
    ///
    /// # Errors
    /// The list lacks one of them, or none is named.
    pub(crate) fn all_named(&self, argument: &str, names: &[String]) -> Result<Vec<PathBuf>, ToolError> {
        if names.is_empty() {
            return Err(ToolError::Asked(format!("{argument}: found no recording; needed one or more")));
        }
        let dirs: BTreeSet<PathBuf> = names.iter().map(|name| self.named(name)).collect::<Result<_, _>>()?;
        Ok(dirs.into_iter().collect())
    }

    /// All recordings whose manifests can be read, and why others cannot.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn readable(&self) -> Result<(Vec<PathBuf>, Vec<String>), ToolError> {
        let (found, unreadable) = self.found();
        let mut left_out: Vec<String> =
            unreadable.into_iter().map(|one| format!("{}: {}", one.path, one.reason)).collect();
        let mut dirs = Vec::new();
        for dir in found {
            match reference(&dir) {
                Ok(_) => dirs.push(dir),
                Err(error) => left_out.push(error.to_string()),
            }
        }
        if dirs.is_empty() {
            let why = left_out.first().map_or_else(String::new, |why| format!(": {why}"));
            return Err(ToolError::Asked(format!("found no recording that can be read; needed one or more{why}")));
        }
        Ok((dirs, left_out))
    }
}

impl Unreadable {
    fn new(dir: &Path, why: &impl ToString) -> Self {
        Self { path: dir.to_string_lossy().into_owned(), reason: why.to_string() }
    }
}

impl Listed {
    fn new(path: String, reference: RecordingRef, manifest: Manifest) -> Self {
        let clock = &manifest.clock;
        let elapsed_ns = clock.realtime_at_end_ns.zip(clock.realtime_at_start_ns);
        Self {
            path,
            command: manifest.command.map(|words| shortened(&shell_line(words))),
            jobs: manifest.job.as_ref().map(job_names),
            target: manifest.target.as_ref().map(ToString::to_string),
            label: manifest.label,
            host: reference.host,
            variant: reference.variant,
            run: reference.run,
            complete: manifest.complete,
            incomplete_reason: manifest.incomplete_reason,
            duration_s: elapsed_ns.map(|(end, start)| end.saturating_sub(start) as f64 / 1e9),
        }
    }

    fn has_one_of(&self, words: &[String]) -> bool {
        let of = |text: &Option<String>, word: &str| text.as_deref().is_some_and(|text| text.contains(word));
        let has = |word: &String| {
            let jobs = self.jobs.iter().flatten().any(|job| job.contains(word));
            let texts = [&self.command, &self.target, &self.label, &self.host, &self.variant];
            self.path.contains(word) || jobs || texts.into_iter().any(|text| of(text, word))
        };
        words.is_empty() || words.iter().any(has)
    }
}

/// The beginning of a long text, with its length.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(COMMAND) {
        Some((at, _)) => format!("{} ... ({} bytes; the view summary has all)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}

fn job_names(job: &Value) -> Vec<String> {
    let jobs = job.get("jobs").and_then(Value::as_array);
    jobs.into_iter().flatten().filter_map(|job| Some(job.get("name")?.as_str()?.to_owned())).collect()
}

/// Lists the recordings.
pub(crate) fn answer(served: &Served, args: &Args) -> Result<String, ToolError> {
    let (dirs, mut unreadable) = served.found();
    let mut found: Vec<(RecordingRef, Listed)> = Vec::new();
    for dir in dirs {
        let Some(path) = dir.to_str().map(str::to_owned) else { continue };
        match reference(&dir).and_then(|reference| Ok((reference, Recording::open(&dir)?))) {
            Ok((reference, recording)) => {
                let manifest = recording.manifest().clone();
                found.push((reference.clone(), Listed::new(path, reference, manifest)));
            }
            Err(error) => unreadable.push(Unreadable::new(&dir, &error)),
        }
    }
    found.sort_by(|(a, _), (b, _)| (&a.host, &a.variant, a.run, &a.dir).cmp(&(&b.host, &b.variant, b.run, &b.dir)));
    let mut recordings: Vec<Listed> =
        found.into_iter().map(|(_, listed)| listed).filter(|listed| listed.has_one_of(&args.words)).collect();
    let recordings_total = recordings.len();
    recordings.truncate(args.top.filter(|top| *top > 0).unwrap_or(usize::MAX));
    document(&Listing { recordings, recordings_total, unreadable }, SMALLER)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use pagelab_recording::{RecordingWriter, WriterOptions};

    use super::*;

    fn recording(dir: &Path) {
        let writer = RecordingWriter::create(dir, Manifest::default(), WriterOptions::default()).expect("a recording");
        writer.close(|_| ()).expect("a clean end");
    }

    #[test]
    fn a_recording_is_named_as_it_is_listed_and_in_no_other_way() {
        let tmp = tempfile::tempdir().expect("a folder");
        let set = tmp.path().join("set");
        let (inside, beside) = (set.join("variant=a/run=001"), tmp.path().join("beside"));
        recording(&inside);
        recording(&beside);
        let served = Served::new(std::slice::from_ref(&set)).expect("a set");
        let listed = inside.to_str().expect("text");
        assert_eq!(served.named(listed).expect("listed"), inside);
        let outside = beside.to_str().expect("text").to_owned();
        let other_ways = [
            outside,
            format!("{listed}/"),
            format!("{listed}/."),
            format!("{}/variant=a/../variant=a/run=001", set.display()),
            format!("{}/../beside", set.display()),
            set.display().to_string(),
            "variant=a/run=001".to_owned(),
            "/etc/passwd".to_owned(),
            String::new(),
        ];
        for name in other_ways {
            let said = served.named(&name).expect_err(&name).to_string();
            assert!(said.contains("no recording") && said.contains("recordings lists it (1 are there)"), "{said}");
        }
    }

    #[test]
    fn what_appears_is_found_and_what_cannot_be_read_hides_nothing() {
        let tmp = tempfile::tempdir().expect("a folder");
        recording(&tmp.path().join("a"));
        let served = Served::new(&[tmp.path().to_owned()]).expect("a recording");
        let list = || -> Value {
            serde_json::from_str(&answer(&served, &Args::default()).expect("a list")).expect("a document")
        };
        assert_eq!((&list()["recordings_total"], &list()["unreadable"]), (&1.into(), &Value::Array(Vec::new())));
        recording(&tmp.path().join("b"));
        let damaged = tmp.path().join("c");
        std::fs::create_dir(&damaged).expect("ours");
        std::fs::write(damaged.join("manifest.json"), "{").expect("ours");
        recording(&tmp.path().join(OsStr::from_bytes(b"d\xff")));
        let found = list();
        assert_eq!(found["recordings_total"], 2, "{found:#}");
        let (readable, left_out) = served.readable().expect("two recordings");
        assert_eq!((readable.len(), left_out.len()), (2, 2), "{left_out:?}");
        let unreadable = found["unreadable"].to_string();
        assert!(unreadable.contains("no UTF-8") && unreadable.contains("manifest.json"), "{unreadable}");
        std::fs::remove_dir_all(tmp.path()).expect("ours");
        assert_eq!(list()["recordings_total"], 0, "the server stays, and says why");
        assert!(served.readable().is_err());
    }

    #[test]
    fn the_list_is_narrowed_by_words_and_cut_by_top() {
        let tmp = tempfile::tempdir().expect("a folder");
        for name in ["a", "b", "c"] {
            recording(&tmp.path().join(name));
        }
        let served = Served::new(&[tmp.path().to_owned()]).expect("recordings");
        let paths = |args: &Args| -> Vec<String> {
            let found: Value = serde_json::from_str(&answer(&served, args).expect("a list")).expect("a document");
            let rows = found["recordings"].as_array().expect("a list");
            rows.iter().filter_map(|row| row["path"].as_str()?.rsplit('/').next().map(str::to_owned)).collect()
        };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(paths(&Args { top: Some(2), ..Args::default() }), ["a", "b"]);
        assert_eq!(paths(&Args { words: words(&["/b", "/c"]), top: Some(0) }), ["b", "c"]);
        assert!(paths(&Args { words: words(&["no such word"]), top: None }).is_empty());
    }

    #[test]
    fn a_long_command_says_that_it_is_cut() {
        assert_eq!(shortened("true"), "true");
        let said = shortened(&"ü".repeat(1000));
        assert!(said.ends_with("... (2000 bytes; the view summary has all)"), "{said}");
    }
}
