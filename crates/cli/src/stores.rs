//! Places in object stores: every command that takes a recording's directory takes their URL, and `record`, `run` and `experiment` write
//! there; so do the questions of `fleet`, and `fleet compact`.
//!
//! What speaks to stores is another program, `pagelab-fleet` (its dependencies would double this one). A URL that is read becomes a folder
//! of the user's cache that it brings up to date; of a compacted fleet only the days and tables that the question needs. One that is
//! written becomes a spool beside which it runs, copying what comes, until the command has ended; a fleet that is compacted into becomes a
//! working copy that is copied back then.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::anyhow;
use pagelab_recording::SpoolOptions;

use crate::companion::{FLEET, cannot_start, fleet};
use crate::failure::Failure;
use crate::options::above_zero;
use crate::say;
use crate::spool;

/// What names a place in a store.
const SCHEMES: [&str; 4] = ["s3://", "gs://", "az://", "file:///"];
/// Commands that read recordings.
const READING: [&str; 10] = ["show", "compare", "report", "ui", "trend", "explain", "query", "mcp", "export", "check"];
/// Commands that make them, with the options that say where. (`run --output` is fio's, a file for its report.)
const WRITING: [(&str, [&str; 2]); 4] = [
    ("record", ["-o", "--output"]),
    ("run", ["-o", "--recording"]),
    ("experiment", ["-o", "--output"]),
    ("compare", ["-o", "--output"]),
];
/// Commands of `pagelab fleet` that are those of the other program.
const PASSED_ON: [&str; 3] = ["upload", "mirror", "ls"];
/// The question that makes a fleet of recordings.
const COMPACT: &str = "compact";
/// The option of questions that a cluster answers: it reads the store by itself.
const CLUSTER: &str = "--cluster";
/// Commands that have it.
const ASKING: [&str; 2] = ["fleet", "query"];
/// Questions about a compacted fleet that do not read all of its tables, with those that they read.
const QUESTIONS: [(&str, &str); 4] = [
    ("summary", "runs,labels,metrics"),
    ("outliers", "runs,labels,metrics"),
    ("drift", "runs,labels,metrics,settings"),
    ("trend", "runs,labels,metrics"),
];
/// Options of `fleet` whose value is the next word.
const FLEET_VALUES: [&str; 13] = [
    "--labels",
    "--from",
    "--to",
    "--metric",
    "--instance",
    "--label",
    "--alpha",
    CLUSTER,
    "--patience",
    "--format",
    "--memory",
    "-o",
    "--output",
];

/// Commands whose spool is bounded. Those that make sets read their runs at the end, and need all of them.
const BOUNDED: [&str; 2] = ["record", "run"];
/// The environment's bound of a spool, such as `4G`.
const SPOOL_BYTES: &str = "PAGELAB_SPOOL_BYTES";
/// The bound without it; less if that is more than a quarter of the free space.
const USUAL_SPOOL_BYTES: u64 = 4 << 30;

/// A command line without URLs.
pub(crate) struct Words {
    /// The words, with folders in place of URLs.
    pub words: Vec<OsString>,
    /// What is copied into a store while the command runs.
    pub upload: Option<Upload>,
}

/// Puts folders in place of the URLs of a command line. Words behind `--` belong to the command that is run. Does not return for commands
/// that are the other program's.
///
/// # Errors
/// There is no `pagelab-fleet`, or the store does not give what is read.
pub(crate) fn without_urls(words: &[OsString]) -> Result<Words, Failure> {
    let is =
        |place: usize, names: &[&str]| words.get(place).and_then(|w| w.to_str()).is_some_and(|w| names.contains(&w));
    let is_cluster = |word: &OsString| word == CLUSTER || parted(word).0 == Some(CLUSTER);
    if is(1, &ASKING) && words.iter().any(is_cluster) {
        return Ok(Words { words: words.to_vec(), upload: None });
    }
    if is(1, &["fleet"]) {
        if is(2, &PASSED_ON) {
            let error = fleet().args(words.iter().skip(2)).exec();
            return Err(cannot_start("pagelab fleet", &error));
        }
        return fleet_without_urls(words);
    }
    let command = words.get(1).and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut upload = None;
    let mut replaced = words.to_vec();
    for place in 2..end {
        let before = words[place - 1].to_str().unwrap_or_default();
        let (option, url) = parted(&words[place]);
        if !is_url(url) {
            continue;
        }
        let option_of_it = option.unwrap_or(before);
        let is_output = WRITING.iter().any(|(name, options)| *name == command && options.contains(&option_of_it));
        let folder = if is_output {
            if upload.is_some() {
                return Err(Failure::input(anyhow!("found two places to write to, needed one -o")));
            }
            let spool = spool_for(url)?;
            if BOUNDED.contains(&command.as_str()) {
                bound(&spool, url)?;
            }
            upload = Some(Upload::begin(url, &spool)?);
            spool
        } else if READING.contains(&command.as_str()) && !["-o", "--output"].contains(&option_of_it) {
            mirrored(url, &[])?
        } else {
            continue;
        };
        let mut word = option.map(|option| OsString::from(format!("{option}="))).unwrap_or_default();
        word.push(folder);
        replaced[place] = word;
    }
    Ok(Words { words: replaced, upload })
}

/// The same of `pagelab fleet QUESTION FLEET` and `pagelab fleet compact SOURCE... FLEET`.
fn fleet_without_urls(words: &[OsString]) -> Result<Words, Failure> {
    let question = words.get(2).and_then(|word| word.to_str()).unwrap_or_default();
    let is_folder = |place: &usize| {
        let is_value = words[*place - 1].to_str().is_some_and(|before| FLEET_VALUES.contains(&before));
        !is_value && !words[*place].as_encoded_bytes().starts_with(b"-")
    };
    let folders: Vec<usize> = (3..words.len()).filter(is_folder).collect();
    let mut upload = None;
    let mut replaced = words.to_vec();
    for place in &folders {
        let Some(url) = words[*place].to_str().filter(|text| is_url(text)) else { continue };
        let is_output = question == COMPACT && Some(place) == folders.last() && folders.len() > 1;
        replaced[*place] = if is_output {
            let folder = mirrored(url, &["--working-copy".to_owned(), "--days".to_owned(), "..".to_owned()])?;
            upload = Some(Upload { url: url.to_owned(), folder: folder.clone(), work: Work::WorkingCopy });
            folder.into()
        } else if question == COMPACT {
            mirrored(url, &[])?.into()
        } else {
            mirrored(url, &needs(question, words))?.into()
        };
    }
    Ok(Words { words: replaced, upload })
}

/// What a question needs of a compacted fleet, as options of `pagelab-fleet mirror`.
fn needs(question: &str, words: &[OsString]) -> Vec<String> {
    let value = |option: &str| {
        let texts = words.iter().enumerate().filter_map(|(place, word)| Some((place, word.to_str()?)));
        let mut values = texts.filter_map(|(place, text)| match text.split_once('=') {
            Some((name, value)) if name == option => Some(value),
            None if text == option => words.get(place + 1)?.to_str(),
            _ => None,
        });
        values.next_back().unwrap_or_default().to_owned()
    };
    // What is no date is refused by the question itself, in its own words.
    let date = |text: String| {
        if text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-') { text } else { String::new() }
    };
    let (from, to) = (date(value("--from")), date(value("--to")));
    let mut options = vec!["--days".to_owned(), format!("{from}..{to}")];
    if let Some((_, tables)) = QUESTIONS.iter().find(|(name, _)| *name == question) {
        options.extend(["--only".to_owned(), (*tables).to_owned()]);
    }
    options
}

/// A word as option and value: `--output=s3://...`.
fn parted(word: &OsStr) -> (Option<&str>, &str) {
    let text = word.to_str().unwrap_or_default();
    match text.split_once('=') {
        Some((option, value)) if option.starts_with("--") => (Some(option), value),
        _ => (None, text),
    }
}

fn is_url(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}

/// The folder of this user for what may be made again.
fn cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let named = folder("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    named.or_else(|| Some(folder("HOME")?.join(".cache")))
}

/// The folder that holds what is at `url` now; `options` are those of `pagelab-fleet mirror`.
fn mirrored(url: &str, options: &[String]) -> Result<PathBuf, Failure> {
    let output = fleet().args(["mirror", url]).args(options).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| cannot_start(url, &error))?;
    if !output.status.success() {
        return Err(Failure::input(anyhow!("{url} was not copied: {FLEET} mirror ended with {}", output.status)));
    }
    let path = output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout);
    Ok(PathBuf::from(OsString::from_vec(path.to_vec())))
}

/// A name for a spool that nothing has yet; the folder that holds spools is made.
fn spool_for(url: &str) -> Result<PathBuf, Failure> {
    let nowhere = || Failure::host(anyhow!("found neither XDG_CACHE_HOME nor HOME; needed: a place for the spool"));
    let parent = cache().ok_or_else(nowhere)?.join("pagelab/spool");
    let made = std::fs::create_dir_all(&parent);
    made.map_err(|error| Failure::host(anyhow!("{}: cannot make the folder: {error}", parent.display())))?;
    Ok(parent.join(format!("{}-{}", name_of(url), std::process::id())))
}

/// Bounds the spool.
fn bound(spool: &Path, url: &str) -> Result<(), Failure> {
    let max_bytes = if let Ok(text) = std::env::var(SPOOL_BYTES) {
        above_zero(&text).map_err(|wrong| Failure::input(anyhow!("{SPOOL_BYTES}: {wrong}")))?
    } else {
        let folder = rustix::fs::statvfs(spool.parent().unwrap_or(Path::new(".")));
        let free_bytes = folder.map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        USUAL_SPOOL_BYTES.min(free_bytes / 4)
    };
    let options = SpoolOptions { max_bytes, journal: journal_of(spool), url: url.to_owned() };
    spool::set(spool, options);
    Ok(())
}

/// Where `pagelab-fleet upload` notes what it copied.
fn journal_of(spool: &Path) -> PathBuf {
    spool.with_file_name(format!(".{}.upload.jsonl", spool.file_name().unwrap_or_default().display()))
}

/// A recording or a fleet on its way into a store.
pub(crate) struct Upload {
    url: String,
    /// Where it is made.
    folder: PathBuf,
    work: Work,
}

/// How it gets there.
enum Work {
    /// The folder is a spool; this program copies what comes.
    Spool(Child),
    /// The folder is a working copy of a fleet, which is copied at the end.
    WorkingCopy,
}

impl Upload {
    fn begin(url: &str, spool: &Path) -> Result<Self, Failure> {
        let mut command = fleet();
        command.arg("upload").arg(spool).args([url, "--follow"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C ends the recording; what it left is copied then.
        command.process_group(0);
        let child = command.spawn().map_err(|error| cannot_start(url, &error))?;
        Ok(Self { url: url.to_owned(), folder: spool.to_owned(), work: Work::Spool(child) })
    }

    /// Waits until everything is in the store; then a spool goes. If it did not get there the folder stays, and the way on is said.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Self { url, folder, work } = self;
        match work {
            Work::Spool(child) => finish_spool(&url, &folder, child),
            Work::WorkingCopy => copy_back(&url, &folder),
        }
    }
}

fn finish_spool(url: &str, spool: &Path, mut child: Child) -> Result<(), Failure> {
    if !spool.exists() {
        // Nothing was recorded: there is nothing to wait for.
        drop(child.kill());
        drop(child.wait());
        return Ok(());
    }
    // The end of its standard input is what it waits for.
    drop(child.stdin.take());
    let mut said = String::new();
    if let Some(mut out) = child.stdout.take() {
        drop(out.read_to_string(&mut said));
    }
    let ended = child.wait().map_err(|error| cannot_start(url, &error))?;
    if !ended.success() {
        let spool = spool.display();
        return Err(Failure::host(anyhow!(
            "what was recorded is in {spool} and not all of it in {url}; to go on type: {FLEET} upload {spool} {url}"
        )));
    }
    say!("pagelab: {}", said.trim());
    remove_spool(spool);
    Ok(())
}

/// Copies a fleet that was compacted into back into its store.
fn copy_back(url: &str, folder: &Path) -> Result<(), Failure> {
    if !has_days(folder) {
        // Nothing was compacted.
        return Ok(());
    }
    let mut command = fleet();
    command.arg("upload").arg(folder).args([url, "--working-copy"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| cannot_start(url, &error))?;
    if !output.status.success() {
        return Err(Failure::host(anyhow!("not all days are in {url}; to go on type the same command again")));
    }
    say!("pagelab: {}", String::from_utf8_lossy(&output.stdout).trim());
    Ok(())
}

fn has_days(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.as_encoded_bytes().starts_with(b"day="))
}

/// The last part of a URL, as a name of a file.
fn name_of(url: &str) -> String {
    let last = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "-_=.".contains(letter) { letter } else { '_' };
    last.chars().take(60).map(plain).collect::<String>().trim_start_matches('.').to_owned()
}

/// It is in the store: what cannot be removed only takes space, and says so.
fn remove_spool(spool: &Path) {
    drop(std::fs::remove_file(journal_of(spool)));
    if let Err(error) = std::fs::remove_dir_all(spool) {
        say!("pagelab: {}: cannot remove the spool: {error}", spool.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        assert!(is_url("s3://bucket/a") && is_url("file:///tmp/a"));
        assert!(!is_url("/tmp/s3://") && !is_url("s3:bucket") && !is_url("file://host/a"));
        assert_eq!(parted(OsStr::new("--output=s3://b/c")), (Some("--output"), "s3://b/c"));
        assert_eq!(parted(OsStr::new("--filename=/a=b")), (Some("--filename"), "/a=b"));
        assert_eq!(parted(OsStr::new("s3://b/variant=a")), (None, "s3://b/variant=a"));
        assert_eq!(name_of("s3://bucket/night/2026-11-26/"), "2026-11-26");
        assert_eq!(name_of("s3://bucket/../.ssh"), "ssh");
    }

    #[test]
    fn other_words_stay_as_they_are() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in [
            "pagelab record -o r -- curl s3://b/a",
            "pagelab show r faults",
            "pagelab doctor s3://b/a",
            "pagelab",
            "pagelab run --name=a --filename=/x",
            "pagelab fleet summary fleet --metric s3://b/a",
            "pagelab fleet summary s3://b/fleet --cluster df://host",
            "pagelab fleet sql --cluster=df://host s3://b/fleet sql",
            "pagelab query --cluster df://host s3://b/set sql",
            "pagelab fleet",
        ] {
            let found = without_urls(&words(line)).unwrap_or_else(|failure| panic!("{line}: {failure}"));
            assert_eq!((found.words, found.upload.is_none()), (words(line), true));
        }
    }

    #[test]
    fn a_question_needs_its_days_and_tables() {
        let needs = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            needs(words[2].to_str().unwrap_or_default(), &words).join(" ")
        };
        assert_eq!(needs("pagelab fleet trend s3://b/f"), "--days .. --only runs,labels,metrics");
        assert_eq!(
            needs("pagelab fleet drift s3://b/f --from 2026-03-01 --to=2026-03-31"),
            "--days 2026-03-01..2026-03-31 --only runs,labels,metrics,settings"
        );
        assert_eq!(needs("pagelab fleet compare s3://b/f --label thp --from 2026-03-01"), "--days 2026-03-01..");
        // It is the question that says what is wrong with it.
        assert_eq!(needs("pagelab fleet compare s3://b/f --from march"), "--days ..");
    }
}
