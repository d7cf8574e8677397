//! Places in object stores: every command that takes a recording's directory takes their URL, and `record`, `run` and `experiment` write
//! there.
//!
//! What speaks to stores is another program, `pagelab-fleet` (its dependencies would double this one). A URL that is read becomes a folder
//! of the user's cache that it brings up to date; one that is written becomes a spool beside which it runs, copying what comes, until the
//! command has ended.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::anyhow;

use crate::failure::Failure;
use crate::say;

/// The program that speaks to stores.
const FLEET: &str = "pagelab-fleet";
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

/// A command line without URLs.
pub(crate) struct Words {
    /// The words, with folders in place of URLs.
    pub words: Vec<OsString>,
    /// What is copied into a store while the command runs.
    pub upload: Option<Upload>,
}

/// Puts folders in place of the URLs of a command line. Words behind `--` belong to the command that is run.
///
/// # Errors
/// There is no `pagelab-fleet`, or the store does not give what is read.
pub(crate) fn without_urls(words: &[OsString]) -> Result<Words, Failure> {
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
            let begun = Upload::begin(url)?;
            let folder = begun.spool.clone();
            upload = Some(begun);
            folder
        } else if READING.contains(&command.as_str()) && !["-o", "--output"].contains(&option_of_it) {
            mirrored(url)?
        } else {
            continue;
        };
        let mut word = option.map(|option| OsString::from(format!("{option}="))).unwrap_or_default();
        word.push(folder);
        replaced[place] = word;
    }
    Ok(Words { words: replaced, upload })
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

/// The program, beside this one or where programs are looked for.
fn fleet() -> Command {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(FLEET)));
    Command::new(beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(FLEET)))
}

fn cannot_start(url: &str, error: &std::io::Error) -> Failure {
    Failure::host(anyhow!(
        "{url}: cannot start {FLEET}, which speaks to object stores: {error}; needed: {FLEET} beside pagelab or in PATH; type: make fleet"
    ))
}

/// The folder of this user for what may be made again.
fn cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let named = folder("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    named.or_else(|| Some(folder("HOME")?.join(".cache")))
}

/// The folder that holds what is at `url` now.
fn mirrored(url: &str) -> Result<PathBuf, Failure> {
    let output = fleet().args(["mirror", url]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| cannot_start(url, &error))?;
    if !output.status.success() {
        return Err(Failure::input(anyhow!("{url} was not copied: {FLEET} mirror ended with {}", output.status)));
    }
    let path = output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout);
    Ok(PathBuf::from(OsString::from_vec(path.to_vec())))
}

/// A recording on its way into a store.
pub(crate) struct Upload {
    url: String,
    /// Where it is made.
    spool: PathBuf,
    child: Child,
}

impl Upload {
    fn begin(url: &str) -> Result<Self, Failure> {
        let parent = cache()
            .ok_or_else(|| {
                Failure::host(anyhow!("found neither XDG_CACHE_HOME nor HOME; needed: a place for the spool"))
            })?
            .join("pagelab/spool");
        let spool = parent.join(format!("{}-{}", name_of(url), std::process::id()));
        let made = std::fs::create_dir_all(&parent);
        made.map_err(|error| Failure::host(anyhow!("{}: cannot make the folder: {error}", parent.display())))?;
        let mut command = fleet();
        command.arg("upload").arg(&spool).args([url, "--follow"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C ends the recording; what it left is copied then.
        command.process_group(0);
        let child = command.spawn().map_err(|error| cannot_start(url, &error))?;
        Ok(Self { url: url.to_owned(), spool, child })
    }

    /// Waits until everything is in the store; then the spool goes. If it did not get there the spool stays, and the way on is said.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if !self.spool.exists() {
            // Nothing was recorded: there is nothing to wait for.
            drop(self.child.kill());
            drop(self.child.wait());
            return Ok(());
        }
        // The end of its standard input is what it waits for.
        drop(self.child.stdin.take());
        let mut said = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            drop(out.read_to_string(&mut said));
        }
        let ended = self.child.wait().map_err(|error| cannot_start(&self.url, &error))?;
        if !ended.success() {
            let (spool, url) = (self.spool.display(), &self.url);
            return Err(Failure::host(anyhow!(
                "what was recorded is in {spool} and not all of it in {url}; to go on type: {FLEET} upload {spool} {url}"
            )));
        }
        say!("pagelab: {}", said.trim());
        remove_spool(&self.spool);
        Ok(())
    }
}

/// The last part of a URL, as a name of a file.
fn name_of(url: &str) -> String {
    let last = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "-_=.".contains(letter) { letter } else { '_' };
    last.chars().take(60).map(plain).collect::<String>().trim_start_matches('.').to_owned()
}

/// It is in the store: what cannot be removed only takes space, and says so.
fn remove_spool(spool: &Path) {
    let journal = spool.with_file_name(format!(".{}.upload.json", spool.file_name().unwrap_or_default().display()));
    drop(std::fs::remove_file(journal));
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
        ] {
            let found = without_urls(&words(line)).unwrap_or_else(|failure| panic!("{line}: {failure}"));
            assert_eq!((found.words, found.upload.is_none()), (words(line), true));
        }
    }
}
