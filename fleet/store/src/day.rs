//! `complete.json` of a day of a compacted fleet: its tables with their contents.
//!
//! An object store replaces one object at a time. So the tables of a day go first and this document last: a reader who finds a table that
//! is not what the document says meets a day that is being replaced, or whose replacement was broken off.
//!
//! ```text
//! {"format": 1, "files": {"runs.parquet": {"bytes": 4096, "sha256": "9f86d0...", "e_tag": "\"d41d8c\""}}}
//! ```
//!
//! `bytes` and `sha256` say what the file holds, wherever it is. `e_tag` is the store's own name for the object as it was written; it
//! spares reading the object while it is the same, and says nothing where objects were copied by other programs.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use object_store::ObjectStoreExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Result, StoreError};
use crate::layout::COMPLETE;
use crate::mirror::Version;
use crate::place::Place;

/// Version of the document.
const FORMAT: u64 = 1;
/// A day has five tables; what is larger is no such document.
pub(crate) const LARGEST_BYTES: u64 = 1 << 20;

/// The tables of a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DayContent {
    format: u64,
    /// By name of the file, such as `runs.parquet`.
    pub(crate) files: BTreeMap<String, FileContent>,
}

/// The content of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileContent {
    /// Size.
    pub(crate) bytes: u64,
    /// In lower-case hexadecimal digits.
    pub(crate) sha256: String,
    /// The store's name for the object; none of a local file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) e_tag: Option<String>,
}

impl FileContent {
    /// Whether two say the same of what a file holds.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.sha256.eq_ignore_ascii_case(&other.sha256)
    }

    /// That of a local file, which is read.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let failed = || StoreError::file("read", path);
        let mut file = std::fs::File::open(path).map_err(failed())?;
        let (mut digest, mut bytes, mut block) = (Sha256::new(), 0, vec![0; 1 << 18]);
        loop {
            let read = file.read(&mut block).map_err(failed())?;
            if read == 0 {
                break;
            }
            digest.update(&block[..read]);
            bytes += read as u64;
        }
        Ok(Self { bytes, sha256: hex(&digest.finalize()), e_tag: None })
    }
}

impl DayContent {
    /// That of the given tables.
    pub(crate) fn new(files: BTreeMap<String, FileContent>) -> Self {
        Self { format: FORMAT, files }
    }

    /// The document that a file or object named `what` holds.
    ///
    /// # Errors
    /// It is none, or of a version that is not known here.
    pub(crate) fn parse(what: &str, text: &[u8]) -> Result<Self> {
        let wrong = |said: String| StoreError::Document { what: what.to_owned(), said };
        let value: serde_json::Value =
            serde_json::from_slice(text).map_err(|error| wrong(format!("no such document: {error}")))?;
        match value["format"].as_u64() {
            Some(FORMAT) => serde_json::from_value(value).map_err(|error| wrong(error.to_string())),
            Some(found) if found > FORMAT => Err(wrong(format!(
                "found format {found}, needed at most {FORMAT}: a newer pagelab wrote it, which can read it"
            ))),
            _ => Err(wrong(format!("found no format, needed {FORMAT}"))),
        }
    }

    /// The document of a day in a store, and the version of its object; none if there is none.
    pub(crate) async fn load(place: &Place, day: &str) -> Result<Option<(Self, Version)>> {
        let name = format!("{day}/{COMPLETE}");
        let url = place.url_of(&name);
        let object = place.object(&name);
        let text = place.patiently(&url, || async {
            let got = match place.store().get(&object).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                got => got?,
            };
            let (bytes, version) = (got.meta.size, Version::of(&got.meta));
            if bytes > LARGEST_BYTES { Ok(Some(Err(bytes))) } else { Ok(Some(Ok((got.bytes().await?, version)))) }
        });
        match text.await? {
            None => Ok(None),
            Some(Ok((text, version))) => Self::parse(&url, &text).map(|content| Some((content, version))),
            Some(Err(bytes)) => {
                let said = format!("found {bytes} bytes, needed at most {LARGEST_BYTES}: no document of a day");
                Err(StoreError::Document { what: url, said })
            }
        }
    }

    /// The document as text.
    pub(crate) fn text(&self, what: &str) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| StoreError::Document { what: what.to_owned(), said: error.to_string() })
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_later_versions_and_of_none_are_refused_in_words() {
        let said = |text: &str| DayContent::parse("x", text.as_bytes()).expect_err("refused").to_string();
        assert!(said(r#"{"format": 2, "files": {}}"#).contains("found format 2, needed at most 1"));
        assert!(said(r#"{"format": 1, "fil"#).contains("no such document"));
        assert!(said(r#"{"format": 1}"#).contains("files"));
        assert!(said("[]").contains("found no format"));
        let content =
            DayContent::parse("x", br#"{"format":1,"files":{"runs.parquet":{"bytes":3,"sha256":"AB"}},"later":1}"#);
        let content = content.expect("keys of later versions are ignored");
        let same = FileContent { bytes: 3, sha256: "ab".to_owned(), e_tag: Some("t".to_owned()) };
        assert!(content.files["runs.parquet"].is_same(&same));
    }

    #[test]
    fn the_content_of_a_file_is_its_size_and_digest() {
        let tmp = tempfile::tempdir().expect("a folder");
        let path = tmp.path().join("runs.parquet");
        std::fs::write(&path, "test").expect("written");
        let content = FileContent::of(&path).expect("read");
        // printf test | sha256sum
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!((content.bytes, content.sha256.as_str()), (4, digest));
    }
}
