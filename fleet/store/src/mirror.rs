//! Copies recordings from a store into a folder.
//!
//! `.mirror.json` in the folder says which object each file was copied from; what is unchanged in the store is not copied again, what is
//! gone from there is removed. A file is written under a temporary name and renamed, so that a copy that is broken off leaves whole files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::{ObjectMeta, ObjectStoreExt as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use crate::error::{Result, StoreError};
use crate::layout::{self, Kind};
use crate::place::Place;

/// Objects that are copied at a time.
const AT_A_TIME: usize = 8;
/// What the folder was copied from.
const INDEX: &str = ".mirror.json";
/// Version of that file.
const FORMAT: u32 = 1;

/// One version of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    bytes: u64,
    /// The store's name for this content; none from a store that has none.
    e_tag: Option<String>,
    /// When it was written, by the store's clock.
    modified: String,
}

impl Version {
    fn of(meta: &ObjectMeta) -> Self {
        Self { bytes: meta.size, e_tag: meta.e_tag.clone(), modified: meta.last_modified.to_rfc3339() }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    format: u32,
    url: String,
    files: BTreeMap<String, Version>,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Mirrored {
    /// Recordings in the folder now.
    pub recordings: usize,
    /// Objects copied, and their bytes.
    pub copied: usize,
    /// Bytes of those.
    pub copied_bytes: u64,
    /// Files that were there and the same.
    pub unchanged: usize,
    /// Files that are gone from the store and were removed.
    pub removed: usize,
    /// Objects that belong to no recording, or whose names no file can have: left alone.
    pub left_out: Vec<String>,
}

/// Makes `folder` hold the recordings of `place` and nothing else.
///
/// # Errors
/// The store does not answer or refuses, there is no recording, the folder holds something else, or cannot be written.
pub async fn mirror(place: &Place, folder: &Path) -> Result<Mirrored> {
    make_private(folder)?;
    let before = load(folder, place.url())?;
    let mut done = Mirrored::default();
    let mut wanted: BTreeMap<String, (PathBuf, ObjectMeta)> = BTreeMap::new();
    for (name, meta) in place.list().await? {
        match layout::path(&name) {
            Some(path) => _ = wanted.insert(name, (path, meta)),
            None => done.left_out.push(shown(&name)),
        }
    }
    let recordings: BTreeSet<&str> =
        wanted.keys().filter(|name| layout::kind(name) == Some(Kind::Manifest)).map(String::as_str).collect();
    if recordings.is_empty() {
        return Err(StoreError::NoRecording { place: place.url().to_owned() });
    }
    done.recordings = recordings.len();
    let mut now = Index { format: FORMAT, url: place.url().to_owned(), files: BTreeMap::new() };
    let mut missing = Vec::new();
    for (name, (path, meta)) in &wanted {
        let version = Version::of(meta);
        let is_there =
            || fs::metadata(folder.join(path)).is_ok_and(|found| found.is_file() && found.len() == meta.size);
        if before.files.get(name) == Some(&version) && is_there() {
            done.unchanged += 1;
            now.files.insert(name.clone(), version);
        } else {
            missing.push((name, path, version));
        }
    }
    for gone in before.files.keys().filter(|name| !wanted.contains_key(*name)) {
        if let Some(path) = layout::path(gone) {
            remove(&folder.join(path))?;
            done.removed += 1;
        }
    }
    save(folder, &now)?;
    let copies = missing.into_iter().map(|(name, path, version)| async move {
        copy(place, name, &folder.join(path)).await.map(|bytes| (name, version, bytes))
    });
    let mut copies = futures::stream::iter(copies).buffer_unordered(AT_A_TIME);
    let mut failed = None;
    while let Some(copied) = copies.next().await {
        match copied {
            Ok((name, version, bytes)) => {
                done.copied += 1;
                done.copied_bytes += bytes;
                now.files.insert(name.clone(), version);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    drop(copies);
    save(folder, &now)?;
    failed.map_or(Ok(done), Err)
}

/// Copies an object; gives its bytes.
async fn copy(place: &Place, name: &str, path: &Path) -> Result<u64> {
    let parent = path.parent().unwrap_or(Path::new("."));
    make_private(parent)?;
    let temporary = parent.join(format!(".{}.tmp", path.file_name().unwrap_or_default().display()));
    let object = place.object(name);
    let url = place.url_of(name);
    let attempt = || async {
        let got = place.store().get(&object).await?;
        let whole = got.meta.size;
        let local = |error: std::io::Error| object_store::Error::Generic { store: "file", source: Box::new(error) };
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = tokio::fs::File::from_std(options.open(&temporary).map_err(local)?);
        let mut stream = got.into_stream();
        let mut bytes = 0;
        while let Some(chunk) = stream.try_next().await? {
            file.write_all(&chunk).await.map_err(local)?;
            bytes += chunk.len() as u64;
        }
        file.flush().await.map_err(local)?;
        if bytes == whole {
            Ok(bytes)
        } else {
            Err(local(std::io::Error::other(format!("{bytes} of {whole} bytes came"))))
        }
    };
    let bytes = place.patiently(&url, attempt).await?;
    fs::rename(&temporary, path).map_err(StoreError::file("rename", &temporary))?;
    Ok(bytes)
}

/// The folder of this user's cache for the copy of a place; none without a home.
pub fn cache_folder(url: &str) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let digest = Sha256::digest(url.trim_end_matches('/').as_bytes());
    let name = digest.iter().take(8).fold(String::new(), |name, byte| format!("{name}{byte:02x}"));
    Some(cache.join("pagelab/stores").join(name))
}

fn make_private(folder: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(StoreError::file("make the folder", folder))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::File { path: path.to_owned(), doing: "remove", error })
        }
        _ => Ok(()),
    }
}

/// What the folder was copied from. A folder that holds something else is refused, as what the store does not have is removed.
fn load(folder: &Path, url: &str) -> Result<Index> {
    let path = folder.join(INDEX);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut entries = fs::read_dir(folder).map_err(StoreError::file("read", folder))?;
            if entries.next().is_some() {
                let said = "it holds files and is no copy of a store; needed: a folder of its own".to_owned();
                return Err(StoreError::Document { what: folder.display().to_string(), said });
            }
            return Ok(Index::default());
        }
        Err(error) => return Err(StoreError::File { path, doing: "read", error }),
    };
    let what = || path.display().to_string();
    let index: Index =
        serde_json::from_str(&text).map_err(|error| StoreError::Document { what: what(), said: error.to_string() })?;
    if index.url != url || index.format != FORMAT {
        let said = format!(
            "the folder is a copy of {} (format {}); needed: another folder, or an empty one",
            index.url, index.format
        );
        return Err(StoreError::Document { what: what(), said });
    }
    Ok(index)
}

fn save(folder: &Path, index: &Index) -> Result<()> {
    let temporary = folder.join(".mirror.json.tmp");
    let text = serde_json::to_string(index)
        .map_err(|error| StoreError::Document { what: INDEX.to_owned(), said: error.to_string() })?;
    fs::write(&temporary, text).map_err(StoreError::file("write", &temporary))?;
    fs::rename(&temporary, folder.join(INDEX)).map_err(StoreError::file("rename", &temporary))
}

/// A name that others chose, for a terminal.
fn shown(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).take(200).collect()
}
