//! Copies recordings and compacted fleets from a store into a folder.
//!
//! `.mirror.json` in the folder says which object each file was copied from; what is unchanged in the store is not copied again, what is
//! gone from there is removed. A file is written under a temporary name and renamed, so that a copy that is broken off leaves whole files.
//! What a [`Selection`] leaves out is not copied, and a copy of it that is no longer what the store has is removed: a file of the folder is
//! what the store had when it was looked at last, or it is not there. One process copies at a time; others wait.
//!
//! # Days of compacted fleets
//! Tables that were copied are compared with the day's document ([`crate::day`]). If they are not what it says the day is being replaced:
//! it is looked at again a little later, and if that does not help it is named ([`Mirrored::days_half_replaced`]), and its document
//! in the folder says so to every reader.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::{ObjectMeta, ObjectStoreExt as _};
use pagelab_output::{Folder, Sync};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use crate::day::{DayContent, FileContent, hex};
use crate::error::{Result, StoreError};
use crate::journal;
use crate::layout::{self, COMPLETE, Kind};
use crate::place::Place;
use crate::select::Selection;

/// Objects that are copied at a time.
const AT_A_TIME: usize = 8;
/// Letters of `2026-03-01T00:00:00`.
const SECONDS: usize = 19;
/// What the folder was copied from.
const INDEX: &str = ".mirror.json";
/// Held by the process that copies.
const LOCK: &str = ".mirror.lock";
/// Version of the index.
const FORMAT: u32 = 2;
/// How often a day that is being replaced is looked at, and the pause before the next look.
const LOOKS: usize = 3;
const PAUSE: Duration = Duration::from_secs(2);

/// One version of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    bytes: u64,
    /// The store's name for this content; none from a store that has none.
    e_tag: Option<String>,
    /// When it was written, by the store's clock.
    modified: String,
}

impl Version {
    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        Self { bytes: meta.size, e_tag: meta.e_tag.clone(), modified: meta.last_modified.to_rfc3339() }
    }

    /// Whether both are of one content. Requests for one object give its time in seconds, listings a finer one: it counts only where the
    /// store does not name contents.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same_name = match (&self.e_tag, &other.e_tag) {
            (Some(name), Some(other)) => name == other,
            _ => self.modified.get(..SECONDS) == other.modified.get(..SECONDS),
        };
        self.bytes == other.bytes && is_same_name
    }
}

/// A file of the folder: what it was copied from, and as what. A file that was changed since is copied again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Copy {
    object: Version,
    file: journal::Version,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    format: u32,
    url: String,
    files: BTreeMap<String, Copy>,
}

impl Index {
    /// Of an older format only whose copy it was is known.
    fn of(value: serde_json::Value) -> serde_json::Result<Self> {
        if value["format"].as_u64() < Some(u64::from(FORMAT)) {
            let url = value["url"].as_str().unwrap_or_default().to_owned();
            return Ok(Self { url, ..Self::default() });
        }
        serde_json::from_value(value)
    }
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Mirrored {
    /// Recordings in the folder now.
    pub recordings: usize,
    /// Days of compacted fleets in it.
    pub days: usize,
    /// Objects copied, and their bytes.
    pub copied: usize,
    /// Bytes of those.
    pub copied_bytes: u64,
    /// Files that were there and the same.
    pub unchanged: usize,
    /// Files that are gone from the store, or no longer what it has, and were removed.
    pub removed: usize,
    /// Objects that belong to no recording and no fleet, or whose names no file can have: left alone.
    pub left_out: Vec<String>,
    /// Days with a table that is not what the day's document says: they are being replaced, or that was broken off.
    pub days_half_replaced: Vec<String>,
}

/// The objects that the files of a copy were copied from.
pub(crate) fn copied_from(folder: &Path, url: &str) -> Result<BTreeMap<String, Version>> {
    Ok(load(folder, url)?.files.into_iter().map(|(name, copy)| (name, copy.object)).collect())
}

/// Makes `folder` hold what the selection takes of `place`, and nothing that `place` does not have.
///
/// # Errors
/// The store does not answer or refuses, there is nothing of ours, the folder holds something else, or cannot be written.
pub async fn mirror(place: &Place, folder: &Path, selection: &Selection) -> Result<Mirrored> {
    let held = Folder::create(folder)?;
    // Before the lock, which is a file of its own: a folder that holds something else stays as it is.
    load(folder, place.url())?;
    let lock = held.lock_file(LOCK)?;
    lock.lock().map_err(StoreError::file("lock", &folder.join(LOCK)))?;
    let mut all = Mirrored::default();
    for look in 1..=LOOKS {
        let done = Mirroring::begin(place, folder, selection).await?.run().await?;
        all = Mirrored {
            copied: all.copied + done.copied,
            copied_bytes: all.copied_bytes + done.copied_bytes,
            removed: all.removed + done.removed,
            ..done
        };
        if all.days_half_replaced.is_empty() || look == LOOKS {
            break;
        }
        tokio::time::sleep(place.pause_of(PAUSE)).await;
    }
    Ok(all)
}

/// One look at the store.
struct Mirroring<'a> {
    place: &'a Place,
    folder: &'a Path,
    /// Objects of ours by name, and whether they are to be copied.
    found: BTreeMap<String, (PathBuf, ObjectMeta, bool)>,
    before: Index,
    now: Index,
    done: Mirrored,
}

impl<'a> Mirroring<'a> {
    async fn begin(place: &'a Place, folder: &'a Path, selection: &Selection) -> Result<Self> {
        let before = load(folder, place.url())?;
        let mut done = Mirrored::default();
        let mut found = BTreeMap::new();
        for (name, meta) in place.list().await? {
            match layout::path(&name) {
                Some(path) => {
                    let is_wanted = selection.takes(&name);
                    found.insert(name, (path, meta, is_wanted));
                }
                None => done.left_out.push(shown(&name)),
            }
        }
        let wanted = || found.iter().filter(|(_, (_, _, is_wanted))| *is_wanted).map(|(name, _)| name.as_str());
        done.recordings = wanted().filter(|name| layout::kind(name) == Some(Kind::Manifest)).count();
        let days: BTreeSet<&str> = wanted().filter_map(layout::day_of).collect();
        done.days = days.into_iter().filter(|day| selection.is_about(day)).count();
        if done.recordings == 0 && done.days == 0 && !selection.may_be_empty {
            return Err(selection.nothing(place.url(), found.keys().map(String::as_str)));
        }
        let now = Index { format: FORMAT, url: place.url().to_owned(), files: BTreeMap::new() };
        Ok(Self { place, folder, found, before, now, done })
    }

    async fn run(mut self) -> Result<Mirrored> {
        let missing = self.keep_unchanged()?;
        save(self.folder, &self.now)?;
        let copied = self.copy_all(&missing).await;
        let compared = self.compare_days(&missing);
        save(self.folder, &self.now)?;
        copied.and(compared).map(|()| self.done)
    }

    /// Keeps what is as it was, removes what is not wanted any more or not what the store has, and gives the names of what is to be copied.
    fn keep_unchanged(&mut self) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        for (name, (path, meta, is_wanted)) in &self.found {
            let object = Version::of(meta);
            let there = journal::Version::of(&self.folder.join(path)).ok();
            let copy = self.before.files.get(name).filter(|copy| copy.object == object && there == Some(copy.file));
            match copy {
                Some(copy) => {
                    self.done.unchanged += usize::from(*is_wanted);
                    self.now.files.insert(name.clone(), copy.clone());
                }
                None if *is_wanted => missing.push(name.clone()),
                None if there.is_some() => {
                    remove(&self.folder.join(path))?;
                    self.done.removed += 1;
                }
                None => {}
            }
        }
        for gone in self.files_without_object()? {
            remove(&self.folder.join(gone))?;
            self.done.removed += 1;
        }
        Ok(missing)
    }

    /// The files of ours in the folder that the store does not have, whoever made them.
    fn files_without_object(&self) -> Result<Vec<PathBuf>> {
        let files = crate::upload::files(self.folder, "")?;
        let gone = files.into_iter().filter(|(name, _)| !self.found.contains_key(name));
        Ok(gone.filter_map(|(name, _)| layout::path(&name)).collect())
    }

    async fn copy_all(&mut self, missing: &[String]) -> Result<()> {
        let (place, folder, found) = (self.place, self.folder, &self.found);
        let copies = missing.iter().filter_map(|name| found.get(name).map(|(path, meta, _)| (name, path, meta)));
        let copies = copies.map(|(name, path, meta)| async move {
            let path = folder.join(path);
            let bytes = copy(place, name, &path).await?;
            let file = journal::Version::of(&path).map_err(StoreError::file("look at", &path))?;
            Ok((name, Copy { object: Version::of(meta), file }, bytes))
        });
        let mut copies = futures::stream::iter(copies).buffer_unordered(AT_A_TIME);
        let mut failed = None;
        while let Some(copied) = copies.next().await {
            match copied {
                Ok((name, copy, bytes)) => {
                    self.done.copied += 1;
                    self.done.copied_bytes += bytes;
                    self.now.files.insert(name.clone(), copy);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Compares the tables of days with the days' documents: sizes always, contents where something was copied.
    fn compare_days(&mut self, copied: &[String]) -> Result<()> {
        let copied_days: BTreeSet<&str> = copied.iter().filter_map(|name| layout::day_of(name)).collect();
        let days: BTreeSet<String> =
            self.now.files.keys().filter_map(|name| layout::day_of(name)).map(str::to_owned).collect();
        for day in days {
            let path = self.folder.join(&day).join(COMPLETE);
            let Ok(text) = fs::read(&path) else { continue };
            let content = DayContent::parse(&self.place.url_of(&format!("{day}/{COMPLETE}")), &text)?;
            let is_copied = copied_days.contains(day.as_str());
            let mut differing = Vec::new();
            for (file, told) in &content.files {
                let name = format!("{day}/{file}");
                let Some(copy) = self.now.files.get(&name) else { continue };
                let is_same = copy.object.bytes == told.bytes
                    && (!is_copied || FileContent::of(&self.folder.join(&name))?.is_same(told));
                if !is_same {
                    differing.push(name);
                }
            }
            if !differing.is_empty() {
                // Copied again by the next look: its size may be the same.
                self.now.files.retain(|name, _| !differing.contains(name));
                self.done.days_half_replaced.push(day);
            }
        }
        Ok(())
    }
}

/// Copies an object; gives its bytes.
async fn copy(place: &Place, name: &str, path: &Path) -> Result<u64> {
    let (folder, file_name) = Folder::make_parent_of(path)?;
    // One name, so that a copy that was broken off is replaced by the next.
    let temporary = format!(".{}.tmp", file_name.display());
    let object = place.object(name);
    let url = place.url_of(name);
    let attempt = || async {
        let got = place.store().get(&object).await?;
        let whole = got.meta.size;
        let local = |error: std::io::Error| object_store::Error::Generic { store: "file", source: Box::new(error) };
        let mut file =
            tokio::fs::File::from_std(anew(&folder, &temporary).map_err(std::io::Error::other).map_err(local)?);
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
    folder.rename(&temporary, &file_name)?;
    Ok(bytes)
}

/// An empty file in place of one that a copy before this has left.
fn anew(folder: &Folder, name: &str) -> pagelab_output::Result<fs::File> {
    if folder.holds(name)? {
        folder.remove_file(name)?;
    }
    folder.create_file(name)
}

/// What a folder of the cache is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// Reading.
    Copies,
    /// Compacting into it, and uploading it then.
    WorkingCopies,
    /// Facts of manifests, see [`crate::list`].
    Lists,
}

impl CacheKind {
    fn folder(self) -> &'static str {
        match self {
            Self::Copies => "stores",
            Self::WorkingCopies => "fleets",
            Self::Lists => "lists",
        }
    }
}

/// The folder of this user's cache for a place; none without a home.
pub fn cache_folder(url: &str, kind: CacheKind) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let digest = Sha256::digest(url.trim_end_matches('/').as_bytes());
    let name = hex(digest.get(..8).unwrap_or_default());
    Some(cache.join("pagelab").join(kind.folder()).join(name))
}

fn remove(path: &Path) -> Result<()> {
    let (folder, name) = match Folder::parent_of(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        parent => parent?,
    };
    match folder.remove_file(name) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
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
            // The lock, and an index that was not finished (`.0123456789abcdef.tmp`), are ours.
            let is_ours = |entry: &fs::DirEntry| is_ours(entry.file_name().as_encoded_bytes());
            if entries.any(|entry| entry.is_ok_and(|entry| !is_ours(&entry))) {
                let said = "it holds files and is no copy of a store; needed: a folder of its own".to_owned();
                return Err(StoreError::Document { what: folder.display().to_string(), said });
            }
            return Ok(Index::default());
        }
        Err(error) => return Err(StoreError::File { path, doing: "read", error }),
    };
    let what = || path.display().to_string();
    let index: Index = serde_json::from_str::<serde_json::Value>(&text)
        .and_then(Index::of)
        .map_err(|error| StoreError::Document { what: what(), said: error.to_string() })?;
    if index.url == url && index.format < FORMAT {
        // Everything is copied again.
        return Ok(Index::default());
    }
    if index.url != url || index.format != FORMAT {
        let said = format!(
            "the folder is a copy of {} (format {}); needed: another folder, or an empty one",
            index.url, index.format
        );
        return Err(StoreError::Document { what: what(), said });
    }
    Ok(index)
}

fn is_ours(name: &[u8]) -> bool {
    name.starts_with(b".mirror.") || (name.starts_with(b".") && name.ends_with(b".tmp"))
}

fn save(folder: &Path, index: &Index) -> Result<()> {
    let text = serde_json::to_string(index)
        .map_err(|error| StoreError::Document { what: INDEX.to_owned(), said: error.to_string() })?;
    Ok(Folder::open(folder)?.write_atomic(INDEX, text.as_bytes(), Sync::No)?)
}

/// A name that others chose, for a terminal.
pub(crate) fn shown(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).take(200).collect()
}
