//! What an upload has copied already: a file beside the folder, so that a later process goes on where one was killed.
//!
//! `.NAME.upload.jsonl` holds one JSON document a line. The first names the format and the URL; each further one a file that is in the
//! store in this version, or one whose object was removed again:
//!
//! ```text
//! {"format":2,"url":"s3://bench/run"}
//! {"name":"faults/part-0000.parquet","bytes":4096,"modified_ns":1772323200000000000,"inode":77}
//! {"name":"faults/part-0001.parquet","gone":true}
//! ```
//!
//! Lines are only appended, each with one write, so that the cost of a file does not grow with the number of files before it. A last line
//! that was cut off, and everything behind a line that cannot be read, says nothing: these files are copied once more to the same names,
//! which changes nothing. When it is opened it is rewritten if less than half of its lines say something.
//!
//! A recorder that needs room reads it, too, as whoever it records for (`crates/recording/src/spool.rs`): parts that are named here it may
//! remove from its spool.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pagelab_output::{Folder, Sync};
use serde::{Deserialize, Serialize};

use crate::error::{Result, StoreError};

/// Version of the journal.
const FORMAT: u32 = 2;
/// Lines that may say nothing before it is rewritten.
const SPARE_LINES: usize = 1000;

/// One version of a local file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// Its size.
    pub(crate) bytes: u64,
    /// When it was written.
    pub(crate) modified_ns: i64,
    /// Its number in the file system.
    pub(crate) inode: u64,
}

impl Version {
    /// The version of the file at `path`.
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        Ok(Self::from(&fs::metadata(path)?))
    }
}

impl From<&fs::Metadata> for Version {
    fn from(found: &fs::Metadata) -> Self {
        let modified_ns = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
        Self { bytes: found.len(), modified_ns, inode: found.ino() }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    url: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    name: String,
    /// None if its object was removed.
    #[serde(flatten)]
    version: Option<Version>,
    /// For readers of the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
}

/// The journal of one folder and one place.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    files: BTreeMap<String, Version>,
}

impl Journal {
    /// The journal of copying `folder` to `url`: that of an earlier process, or a new one in place of that of another URL.
    pub(crate) fn open(folder: &Path, url: &str) -> Result<Self> {
        let name = folder.file_name().unwrap_or_default().display().to_string();
        let path = folder.with_file_name(format!(".{name}.upload.jsonl"));
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            text => text.map_err(StoreError::file("read", &path))?,
        };
        let Content { files, lines, is_whole } = Content::read(&text, url);
        if !is_whole || lines > 2 * files.len() + SPARE_LINES {
            rewrite(&path, url, &files)?;
        }
        let (beside, name) = Folder::parent_of(&path)?;
        let file = beside.append_existing(name)?;
        Ok(Self { path, file, files })
    }

    /// The version of a file that is in the store.
    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.files.get(name)
    }

    /// The names of all files that are in the store.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Notes that this version of a file is in the store.
    pub(crate) fn copied(&mut self, name: &str, version: Version) -> Result<()> {
        self.append(&Line { name: name.to_owned(), version: Some(version), gone: false })?;
        self.files.insert(name.to_owned(), version);
        Ok(())
    }

    /// Notes that the object of a file was removed.
    pub(crate) fn removed(&mut self, name: &str) -> Result<()> {
        self.append(&Line { name: name.to_owned(), version: None, gone: true })?;
        self.files.remove(name);
        Ok(())
    }

    fn append(&mut self, line: &Line) -> Result<()> {
        let text = text_of(&self.path, line)?;
        self.file.write_all(&text).map_err(StoreError::file("write", &self.path))
    }
}

/// What the text of a journal says.
struct Content {
    files: BTreeMap<String, Version>,
    lines: usize,
    /// It is of this URL and format, and every line can be read.
    is_whole: bool,
}

impl Content {
    fn read(text: &[u8], url: &str) -> Self {
        let mut content = Self { files: BTreeMap::new(), lines: 0, is_whole: false };
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let header = lines.next().and_then(|line| serde_json::from_slice::<Header>(line).ok());
        if header.is_none_or(|header| header.format != FORMAT || header.url != url) {
            return content;
        }
        for line in lines {
            let Some(Ok(line)) = line.strip_suffix(b"\n").map(serde_json::from_slice::<Line>) else {
                return content;
            };
            content.lines += 1;
            match line.version {
                Some(version) => content.files.insert(line.name, version),
                None => content.files.remove(&line.name),
            };
        }
        content.is_whole = text.ends_with(b"\n");
        content
    }
}

fn rewrite(path: &Path, url: &str, files: &BTreeMap<String, Version>) -> Result<()> {
    let mut text = text_of(path, &Header { format: FORMAT, url: url.to_owned() })?;
    for (name, version) in files {
        text.extend(text_of(path, &Line { name: name.clone(), version: Some(*version), gone: false })?);
    }
    let (folder, name) = Folder::parent_of(path)?;
    let mut file = folder.writer(name)?;
    file.write_bytes(&text)?;
    // A recorder of another user reads what is in the store.
    file.file().set_permissions(Permissions::from_mode(0o644)).map_err(StoreError::file("open to readers", path))?;
    Ok(file.commit(Sync::No)?)
}

fn text_of(path: &Path, line: &impl Serialize) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)
        .map_err(|error| StoreError::Document { what: path.display().to_string(), said: error.to_string() })?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "s3://bench/run";

    fn version(bytes: u64) -> Version {
        Version { bytes, modified_ns: 1_772_323_200_000_000_000, inode: 7 }
    }

    fn lines(folder: &Path) -> usize {
        let path = folder.with_file_name(".r.upload.jsonl");
        fs::read_to_string(path).expect("a journal").lines().count()
    }

    #[test]
    fn a_later_process_knows_what_was_copied() {
        let tmp = tempfile::tempdir().expect("a folder");
        let folder = tmp.path().join("r");
        let mut journal = Journal::open(&folder, URL).expect("a new one");
        for part in 0..5 {
            journal.copied(&format!("faults/part-{part:04}.parquet"), version(part)).expect("written");
        }
        journal.removed("faults/part-0003.parquet").expect("written");
        assert_eq!(lines(&folder), 7, "the header and a line for each change");
        let later = Journal::open(&folder, URL).expect("the same");
        assert_eq!(later.files, journal.files);
        assert_eq!((later.names().count(), later.version("faults/part-0003.parquet")), (4, None));
        assert_eq!(later.version("faults/part-0004.parquet"), Some(&version(4)));
        // That of another place says nothing of this one.
        assert_eq!(Journal::open(&folder, "s3://bench/other").expect("a new one").names().count(), 0);
        assert_eq!(Journal::open(&folder, URL).expect("a new one").names().count(), 0);
    }

    #[test]
    fn what_was_cut_off_is_ignored_wherever_it_was_cut() {
        let tmp = tempfile::tempdir().expect("a folder");
        let (folder, path) = (tmp.path().join("r"), tmp.path().join(".r.upload.jsonl"));
        let mut journal = Journal::open(&folder, URL).expect("a new one");
        journal.copied("a/part-0000.parquet", version(1)).expect("written");
        journal.copied("b/part-0000.parquet", version(2)).expect("written");
        let whole = fs::read(&path).expect("a journal");
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).expect("cut");
            let mut cut = Journal::open(&folder, URL).expect("opened");
            let ended = whole[..length].split(|byte| *byte == b'\n').count() - 1;
            assert_eq!(cut.names().count(), ended.saturating_sub(1), "{length} bytes");
            // What is appended then is not glued to the rest of a line.
            cut.copied("c/part-0000.parquet", version(3)).expect("written");
            let later = Journal::open(&folder, URL).expect("opened");
            assert_eq!(later.files, cut.files, "{length} bytes");
        }
        fs::write(&path, [whole.as_slice(), b"\0\0\0\n", b"{\"name\":\"d\",\"gone\":true}\n"].concat())
            .expect("damaged");
        assert_eq!(Journal::open(&folder, URL).expect("opened").names().count(), 2);
    }

    #[test]
    fn lines_that_say_nothing_any_more_are_left_out_at_start() {
        let tmp = tempfile::tempdir().expect("a folder");
        let folder = tmp.path().join("r");
        let mut journal = Journal::open(&folder, URL).expect("a new one");
        for bytes in 0..2000 {
            journal.copied("manifest.json", version(bytes)).expect("written");
        }
        assert_eq!(lines(&folder), 2001);
        let later = Journal::open(&folder, URL).expect("opened");
        assert_eq!((later.version("manifest.json"), lines(&folder)), (Some(&version(1999)), 2));
    }
}
