//! Copies recordings into a store, also while they are made.
//!
//! A pass copies what has come or changed since the pass before, recording by recording ([`Upload::pass`]). What was copied is noted in a
//! [journal](crate::journal) beside the folder, so that a later process goes on where one was killed; without the journal everything is
//! copied once more to the same names, which changes nothing. Days of compacted fleets are replaced, see [`days`].
//!
//! # A recording larger than its spool
//! A recorder that needs room removes parts from its spool that the journal names. Its manifest then has the key [`PARTS_MOVED`], and says
//! `complete: false`, because the spool is not whole; objects whose files are gone stay, and the manifest in the store says what the
//! recording is there.

mod days;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use object_store::buffered::BufWriter;
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use serde::Serialize;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::error::{Result, StoreError};
use crate::journal::{Journal, Version};
use crate::layout::{self, Kind, MANIFEST};
use crate::mirror::{Version as Object, copied_from};
use crate::place::Place;

/// Bytes of a file that are sent in one request; larger files are sent in pieces of this size.
const PIECE_BYTES: usize = 8 << 20;
/// Pieces under way at a time.
const PIECES: usize = 3;
/// Levels of folders that are looked through.
const DEPTH: usize = 12;

/// Key of a manifest whose recorder removed parts from its spool that are in the store: `{"complete": BOOL, "incomplete_reason": TEXT}`,
/// which are the values of these keys for the recording in the store.
pub const PARTS_MOVED: &str = "parts_moved";
/// Why the manifest of a recording says that it is not complete while it is made and copied.
pub const BEING_RECORDED: &str = "it is being recorded and copied, or one of both was broken off";
/// The same while one is copied that had ended before.
pub const BEING_UPLOADED: &str = "it is being uploaded";

/// Whose recording it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    host: Value,
    boot_id: Value,
    start_ns: Value,
}

impl Identity {
    fn of(manifest: &Value) -> Self {
        Self {
            host: manifest["host"].clone(),
            boot_id: manifest["boot_id"].clone(),
            start_ns: manifest["clock"]["start_ns"].clone(),
        }
    }

    fn words(&self) -> String {
        format!("host {}, boot {}, started at {} ns", self.host, self.boot_id, self.start_ns)
    }
}

/// What a pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// Recordings found.
    pub recordings: usize,
    /// Of those, how many say that they are whole.
    pub complete: usize,
    /// Files copied.
    pub copied: usize,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Objects of this upload that have no file any more and were removed.
    pub removed: usize,
    /// Days of compacted fleets found.
    pub days: usize,
    /// Of those, how many were replaced or new.
    pub days_replaced: usize,
}

/// Recordings of a folder on their way into a store.
#[derive(Debug)]
pub struct Upload {
    folder: PathBuf,
    place: Place,
    journal: Journal,
    /// Recordings whose place in the store is known to be theirs.
    ours: BTreeSet<String>,
    /// Recordings whose manifest said that they are whole in an earlier pass.
    whole: BTreeSet<String>,
    /// Of a working copy, the objects that it was copied from.
    base: Option<BTreeMap<String, Object>>,
}

impl Upload {
    /// The upload of a recording, or of a folder of recordings. Goes on where an earlier one stopped.
    ///
    /// # Errors
    /// There is no such folder, or the journal beside it cannot be read or written.
    pub fn new(folder: &Path, place: Place) -> Result<Self> {
        let folder = fs::canonicalize(folder).map_err(StoreError::file("open", folder))?;
        let journal = Journal::open(&folder, place.url())?;
        Ok(Self { folder, place, journal, ours: BTreeSet::new(), whole: BTreeSet::new(), base: None })
    }

    /// The upload of a working copy of the same place: a folder that [`crate::mirror`] made and that was compacted into. Documents of
    /// days in it are those of before. A day that has another version in the store by now is refused: somebody else compacted it.
    ///
    /// # Errors
    /// As of [`Upload::new`]; the folder is no copy of this place.
    pub fn of_working_copy(folder: &Path, place: Place) -> Result<Self> {
        let mut upload = Self::new(folder, place)?;
        upload.base = Some(copied_from(&upload.folder, upload.place.url())?);
        Ok(upload)
    }

    /// Copies what is missing of the days whose upload was broken off, before anything else is done to their folder.
    ///
    /// # Errors
    /// As of [`Upload::pass`].
    pub async fn finish_days(&mut self) -> Result<Passed> {
        let files = files(&self.folder, "")?;
        let mut begun: BTreeSet<&str> = self.journal.names().filter_map(layout::day_of).collect();
        begun.retain(|day| self.journal.version(&below(day, layout::COMPLETE)).is_none());
        let begun: Vec<String> = begun.into_iter().map(str::to_owned).collect();
        let mut passed = Passed { days: begun.len(), ..Passed::default() };
        for day in &begun {
            passed.days_replaced += usize::from(self.pass_day(day, &files, &mut passed).await?);
        }
        Ok(passed)
    }

    /// Copies until everything is there: once, or while recordings are made, with `pause` between two passes until all that were found
    /// are whole and `is_over` says that no other comes.
    ///
    /// # Errors
    /// As of [`Upload::pass`].
    pub async fn follow(&mut self, pause: Duration, is_over: impl Fn() -> bool) -> Result<Passed> {
        let mut all = Passed::default();
        loop {
            // Asked before the pass: what was written before the end is seen by it.
            let over = is_over();
            let passed = self.pass(over).await?;
            all = Passed {
                copied: all.copied + passed.copied,
                copied_bytes: all.copied_bytes + passed.copied_bytes,
                removed: all.removed + passed.removed,
                days_replaced: all.days_replaced + passed.days_replaced,
                ..passed
            };
            if over {
                return Ok(all);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Copies what has come or changed. With `is_last`, also what a recorder that died has left of its compaction; and then, of recordings
    /// that are whole, removes what compaction replaced.
    ///
    /// # Errors
    /// The store does not answer for as long as the place's patience lasts or refuses, another recording is there, or a file cannot be
    /// read. What was copied stays, and is not copied again.
    pub async fn pass(&mut self, is_last: bool) -> Result<Passed> {
        let files = files(&self.folder, "")?;
        let recordings: BTreeSet<&str> = files
            .iter()
            .filter(|(_, kind)| *kind == Kind::Manifest)
            .filter_map(|(name, _)| layout::recording_of(name))
            .collect();
        let days: BTreeSet<&str> = files.iter().filter_map(|(name, _)| layout::day_of(name)).collect();
        if is_last && recordings.is_empty() && days.is_empty() {
            return Err(StoreError::NoRecording { place: self.folder.display().to_string() });
        }
        let mut passed = Passed { recordings: recordings.len(), days: days.len(), ..Passed::default() };
        for recording in &recordings {
            passed.complete += usize::from(self.pass_recording(recording, &files, is_last, &mut passed).await?);
        }
        for (name, _) in files.iter().filter(|(_, kind)| *kind == Kind::Set) {
            self.copy(name, &mut passed).await?;
        }
        // A compaction that goes on replaces the days one after the other; they are copied when it has ended.
        for day in days.iter().filter(|_| is_last) {
            passed.days_replaced += usize::from(self.pass_day(day, &files, &mut passed).await?);
        }
        Ok(passed)
    }

    /// Gives whether the recording is whole.
    async fn pass_recording(
        &mut self,
        recording: &str,
        files_before: &[(String, Kind)],
        is_last: bool,
        passed: &mut Passed,
    ) -> Result<bool> {
        let manifest_name = below(recording, MANIFEST);
        let manifest = self.manifest(&manifest_name)?;
        let in_store = manifest_in_store(&manifest);
        let is_complete = in_store.as_ref().unwrap_or(&manifest)["complete"] == Value::Bool(true);
        if !self.ours.contains(recording) {
            self.claim(&manifest_name, &manifest).await?;
            self.ours.insert(recording.to_owned());
        }
        // What it names as whole may have come after the files were listed.
        let files_now;
        let listed = if is_complete && self.whole.insert(recording.to_owned()) {
            files_now = files(&self.folder, recording)?;
            &files_now
        } else {
            files_before
        };
        let of_it: Vec<&(String, Kind)> =
            listed.iter().filter(|(name, _)| layout::recording_of(name) == Some(recording)).collect();
        let is_compacting = of_it.iter().any(|(_, kind)| *kind == Kind::Compaction);
        // While parts are replaced by others, what is seen is neither the old nor the new; the next pass sees the new.
        if is_compacting && !is_last {
            return Ok(false);
        }
        for (name, kind) in &of_it {
            // Until compaction a part is written once. Looking at each in every pass would cost more the longer it is recorded; and a
            // part that compaction has replaced must not go before those that it took the rows of are gone.
            if !is_complete
                && !is_last
                && matches!(kind, Kind::Loss | Kind::Part)
                && self.journal.version(name).is_some()
            {
                continue;
            }
            let is_left_over = matches!(kind, Kind::Compacted | Kind::Compaction);
            if *kind != Kind::Manifest && (!is_left_over || is_compacting) {
                self.copy(name, passed).await?;
            }
        }
        // A recorder that gave rows up ends with a compaction as any other, and says that it is not complete.
        if (is_complete || is_last) && !is_compacting && in_store.is_none() {
            self.remove_replaced(recording, &of_it, passed).await?;
        }
        match in_store {
            Some(manifest) if is_complete || is_last => self.put(&manifest_name, &manifest, passed).await?,
            None if is_complete || is_last => self.copy(&manifest_name, passed).await?,
            _ => {}
        }
        Ok(is_complete)
    }

    fn manifest(&self, name: &str) -> Result<Value> {
        let path = self.folder.join(name);
        let text = fs::read(&path).map_err(StoreError::file("read", &path))?;
        serde_json::from_slice(&text)
            .map_err(|error| StoreError::Document { what: path.display().to_string(), said: error.to_string() })
    }

    /// Takes the place of a recording: its manifest, as not complete, in a place where there is none; or finds that it is there already.
    async fn claim(&self, name: &str, manifest: &Value) -> Result<()> {
        let object = self.place.object(name);
        let url = self.place.url_of(name);
        let has_ended = manifest["complete"] == Value::Bool(true);
        let mut begun = manifest.clone();
        unseal(&mut begun);
        begun["complete"] = Value::Bool(false);
        begun["incomplete_reason"] = Value::from(if has_ended { BEING_UPLOADED } else { BEING_RECORDED });
        let payload = PutPayload::from(begun.to_string().into_bytes());
        let create = || self.place.store().put_opts(&object, payload.clone(), PutOptions::from(PutMode::Create));
        let created = self.place.patiently(&url, || async {
            match create().await {
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
                // A store that cannot do it in one step: it is looked at first.
                Err(object_store::Error::NotImplemented { .. }) => match self.place.store().head(&object).await {
                    Ok(_) => Ok(false),
                    Err(object_store::Error::NotFound { .. }) => {
                        self.place.store().put(&object, payload.clone()).await.map(|_| true)
                    }
                    Err(error) => Err(error),
                },
                other => other.map(|_| true),
            }
        });
        if created.await? {
            return Ok(());
        }
        let bytes =
            self.place.patiently(&url, || async { self.place.store().get(&object).await?.bytes().await }).await?;
        let kept = |said: String| StoreError::Document { what: url.clone(), said };
        let theirs: Value = serde_json::from_slice(&bytes).map_err(|error| {
            kept(format!(
                "is there and cannot be read ({error}); nothing was overwritten: choose another prefix, or remove it"
            ))
        })?;
        let (found, ours) = (theirs["format"].as_u64(), manifest["format"].as_u64());
        if found > ours {
            let (found, ours) = (found.unwrap_or_default(), ours.unwrap_or_default());
            return Err(kept(format!(
                "is of format {found}, and the one to copy of format {ours}: a newer pagelab wrote it; nothing was overwritten"
            )));
        }
        let (theirs, ours) = (Identity::of(&theirs), Identity::of(manifest));
        if theirs == ours { Ok(()) } else { Err(StoreError::Taken { url, theirs: theirs.words(), ours: ours.words() }) }
    }

    /// Copies a file unless this version of it is there.
    async fn copy(&mut self, name: &str, passed: &mut Passed) -> Result<()> {
        let path = self.folder.join(name);
        let version = match Version::of(&path) {
            Ok(version) => version,
            // Compaction took it away since it was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StoreError::File { path, doing: "look at", error }),
        };
        if self.journal.version(name) == Some(&version) {
            return Ok(());
        }
        if self.send(name, &path).await? {
            passed.copied += 1;
            passed.copied_bytes += version.bytes;
            self.journal.copied(name, version)?;
        }
        Ok(())
    }

    /// Sends the content of a file; false if it is gone.
    async fn send(&self, name: &str, path: &Path) -> Result<bool> {
        let url = self.place.url_of(name);
        let (place, object) = (&self.place, self.place.object(name));
        let sent = place.patiently(&url, || async {
            let local = |error: std::io::Error| object_store::Error::Generic { store: "file", source: Box::new(error) };
            let mut file = match tokio::fs::File::open(path).await {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
                opened => opened.map_err(local)?,
            };
            let mut writer =
                BufWriter::with_capacity(place.shared(), object.clone(), PIECE_BYTES).with_max_concurrency(PIECES);
            let copied = tokio::io::copy(&mut file, &mut writer).await;
            if let Err(error) = copied {
                writer.abort().await.ok();
                return Err(said_by_store(error));
            }
            writer.shutdown().await.map_err(said_by_store)?;
            Ok(true)
        });
        sent.await
    }

    /// Writes a document that takes the place of a file's content, unless it did so for this version of the file.
    async fn put(&mut self, name: &str, document: &Value, passed: &mut Passed) -> Result<()> {
        let path = self.folder.join(name);
        let version = Version::of(&path).map_err(StoreError::file("look at", &path))?;
        if self.journal.version(name) == Some(&version) {
            return Ok(());
        }
        let text = document.to_string().into_bytes();
        let bytes = text.len() as u64;
        self.put_text(name, text).await?;
        passed.copied += 1;
        passed.copied_bytes += bytes;
        self.journal.copied(name, version)
    }

    async fn put_text(&self, name: &str, text: Vec<u8>) -> Result<()> {
        let (object, url) = (self.place.object(name), self.place.url_of(name));
        let payload = PutPayload::from(text);
        let put = self.place.patiently(&url, || async { self.place.store().put(&object, payload.clone()).await });
        put.await.map(drop)
    }

    /// Removes the objects of this upload whose files are gone.
    async fn remove_replaced(&mut self, recording: &str, of_it: &[&(String, Kind)], passed: &mut Passed) -> Result<()> {
        let there: BTreeSet<&str> = of_it.iter().map(|(name, _)| name.as_str()).collect();
        let copied = self.journal.names().filter(|name| layout::recording_of(name) == Some(recording));
        let gone: Vec<String> = copied.filter(|name| !there.contains(name)).map(str::to_owned).collect();
        for name in gone {
            self.remove(&name).await?;
            passed.removed += 1;
        }
        Ok(())
    }

    /// Removes an object, if it is there.
    async fn remove(&mut self, name: &str) -> Result<()> {
        let (object, url) = (self.place.object(name), self.place.url_of(name));
        let removed = self.place.patiently(&url, || async {
            match self.place.store().delete(&object).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                other => other,
            }
        });
        removed.await?;
        self.journal.removed(name)
    }
}

/// Takes away what is said of the document and the parts of the folder: it is not right of what is in the store.
fn unseal(manifest: &mut Value) {
    for key in ["checksum", "parts"] {
        if let Some(keys) = manifest.as_object_mut() {
            keys.remove(key);
        }
    }
}

/// The manifest that the store is to have, if it differs from that of the folder because parts are in the store only.
fn manifest_in_store(manifest: &Value) -> Option<Value> {
    let moved = manifest.get(PARTS_MOVED)?;
    let (is_complete, reason) = (moved["complete"] == Value::Bool(true), moved.get("incomplete_reason").cloned());
    let mut there = manifest.clone();
    unseal(&mut there);
    let keys = there.as_object_mut()?;
    keys.insert("complete".to_owned(), Value::Bool(is_complete));
    match reason.filter(|reason| !reason.is_null()) {
        Some(reason) => _ = keys.insert("incomplete_reason".to_owned(), reason),
        None => _ = keys.remove("incomplete_reason"),
    }
    // There every part is where it belongs.
    keys.remove(PARTS_MOVED);
    Some(there)
}

/// The error of the store within one of a writer, so that it is told apart what may pass.
fn said_by_store(error: std::io::Error) -> object_store::Error {
    match error.downcast::<object_store::Error>() {
        Ok(said) => said,
        Err(error) => object_store::Error::Generic { store: "store", source: Box::new(error) },
    }
}

fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The files of recordings and fleets in a folder, at and below `above` in it, in the order in which they are copied.
pub(crate) fn files(folder: &Path, above: &str) -> Result<Vec<(String, Kind)>> {
    let mut found = Vec::new();
    walk(&folder.join(above), above, DEPTH, &mut found)?;
    found.sort_by(|(a, a_kind), (b, b_kind)| (a_kind, a).cmp(&(b_kind, b)));
    Ok(found)
}

fn walk(folder: &Path, above: &str, depth: usize, found: &mut Vec<(String, Kind)>) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !above.is_empty() => return Ok(()),
        entries => entries.map_err(StoreError::file("read", folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(StoreError::file("read", folder))?;
        // A name that is no text is none of ours. Links are not followed.
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        let name = below(above, &name);
        if kind.is_dir() && depth > 0 {
            walk(&entry.path(), &name, depth - 1, found)?;
        } else if kind.is_file()
            && let Some(kind) = layout::kind(&name)
        {
            found.push((name, kind));
        }
    }
    Ok(())
}
