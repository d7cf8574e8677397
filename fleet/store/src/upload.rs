//! Copies recordings into a store, also while they are made.
//!
//! A pass copies what has come or changed since the pass before, recording by recording ([`Upload::pass`]). What was copied is noted in a
//! journal beside the folder, so that a later process goes on where one was killed; without the journal everything is copied once more
//! to the same names, which changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use object_store::buffered::BufWriter;
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::error::{Result, StoreError};
use crate::layout::{self, Kind, MANIFEST};
use crate::place::Place;

/// Bytes of a file that are sent in one request; larger files are sent in pieces of this size.
const PIECE_BYTES: usize = 8 << 20;
/// Pieces under way at a time.
const PIECES: usize = 3;
/// Version of the journal.
const FORMAT: u32 = 1;
/// Levels of folders that are looked through.
const DEPTH: usize = 12;

/// One version of a local file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    bytes: u64,
    modified_ns: i128,
    inode: u64,
}

impl Version {
    fn of(path: &Path) -> std::io::Result<Self> {
        let found = fs::metadata(path)?;
        let modified_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Ok(Self { bytes: found.len(), modified_ns, inode: found.ino() })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Journal {
    format: u32,
    url: String,
    files: BTreeMap<String, Version>,
}

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
}

/// Recordings of a folder on their way into a store.
#[derive(Debug)]
pub struct Upload {
    folder: PathBuf,
    place: Place,
    journal_path: PathBuf,
    journal: Journal,
    /// Recordings whose place in the store is known to be theirs.
    ours: BTreeSet<String>,
}

impl Upload {
    /// The upload of a recording, or of a folder of recordings. Goes on where an earlier one stopped.
    ///
    /// # Errors
    /// The journal of an earlier upload cannot be read, or is of another place.
    pub fn new(folder: &Path, place: Place) -> Result<Self> {
        let folder = fs::canonicalize(folder).map_err(StoreError::file("open", folder))?;
        let name = folder.file_name().unwrap_or_default().display().to_string();
        let journal_path = folder.with_file_name(format!(".{name}.upload.json"));
        let journal = load(&journal_path)?.filter(|journal| journal.url == place.url());
        let journal =
            journal.unwrap_or_else(|| Journal { format: FORMAT, url: place.url().to_owned(), files: BTreeMap::new() });
        Ok(Self { folder, place, journal_path, journal, ours: BTreeSet::new() })
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
            let Passed { copied, copied_bytes, removed, .. } = all;
            all = Passed {
                copied: copied + passed.copied,
                copied_bytes: copied_bytes + passed.copied_bytes,
                removed: removed + passed.removed,
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
        let files = files(&self.folder)?;
        let recordings: BTreeSet<&str> = files
            .iter()
            .filter(|(_, kind)| *kind == Kind::Manifest)
            .filter_map(|(name, _)| layout::recording_of(name))
            .collect();
        if is_last && recordings.is_empty() {
            return Err(StoreError::NoRecording { place: self.folder.display().to_string() });
        }
        let mut passed = Passed { recordings: recordings.len(), ..Passed::default() };
        for recording in &recordings {
            passed.complete += usize::from(self.pass_recording(recording, &files, is_last, &mut passed).await?);
        }
        for (name, _) in files.iter().filter(|(_, kind)| *kind == Kind::Set) {
            self.copy(name, &mut passed).await?;
        }
        Ok(passed)
    }

    /// Gives whether the recording is whole.
    async fn pass_recording(
        &mut self,
        recording: &str,
        files: &[(String, Kind)],
        is_last: bool,
        passed: &mut Passed,
    ) -> Result<bool> {
        let manifest_name = below(recording, MANIFEST);
        let manifest = self.manifest(&manifest_name)?;
        let is_complete = manifest["complete"] == Value::Bool(true);
        if !self.ours.contains(recording) {
            self.claim(&manifest_name, &manifest).await?;
            self.ours.insert(recording.to_owned());
        }
        let of_it: Vec<&(String, Kind)> =
            files.iter().filter(|(name, _)| layout::recording_of(name) == Some(recording)).collect();
        let is_compacting = of_it.iter().any(|(_, kind)| *kind == Kind::Compaction);
        // While parts are replaced by others, what is seen is neither the old nor the new; the next pass sees the new.
        if is_compacting && !is_last {
            return Ok(false);
        }
        for (name, kind) in &of_it {
            let is_left_over = matches!(kind, Kind::Compacted | Kind::Compaction);
            if *kind != Kind::Manifest && (!is_left_over || is_compacting) {
                self.copy(name, passed).await?;
            }
        }
        if is_complete {
            self.remove_replaced(recording, &of_it, passed).await?;
        }
        if is_complete || is_last {
            self.copy(&manifest_name, passed).await?;
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
        let mut begun = manifest.clone();
        begun["complete"] = Value::Bool(false);
        begun["incomplete_reason"] = Value::from("it is being uploaded");
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
        let theirs: Value = serde_json::from_slice(&bytes)
            .map_err(|error| StoreError::Document { what: url.clone(), said: error.to_string() })?;
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
        if self.journal.files.get(name) == Some(&version) {
            return Ok(());
        }
        let url = self.place.url_of(name);
        let (place, object) = (&self.place, self.place.object(name));
        let sent = place.patiently(&url, || async {
            let local = |error: std::io::Error| object_store::Error::Generic { store: "file", source: Box::new(error) };
            let mut file = match tokio::fs::File::open(&path).await {
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
        if sent.await? {
            passed.copied += 1;
            passed.copied_bytes += version.bytes;
            self.journal.files.insert(name.to_owned(), version);
            save(&self.journal_path, &self.journal)?;
        }
        Ok(())
    }

    /// Removes the objects of this upload whose files are gone.
    async fn remove_replaced(&mut self, recording: &str, of_it: &[&(String, Kind)], passed: &mut Passed) -> Result<()> {
        let there: BTreeSet<&str> = of_it.iter().map(|(name, _)| name.as_str()).collect();
        let copied = self.journal.files.keys().filter(|name| layout::recording_of(name) == Some(recording));
        let gone: Vec<String> = copied.filter(|name| !there.contains(name.as_str())).cloned().collect();
        for name in gone {
            let (object, url) = (self.place.object(&name), self.place.url_of(&name));
            let removed = self.place.patiently(&url, || async {
                match self.place.store().delete(&object).await {
                    Err(object_store::Error::NotFound { .. }) => Ok(()),
                    other => other,
                }
            });
            removed.await?;
            passed.removed += 1;
            self.journal.files.remove(&name);
            save(&self.journal_path, &self.journal)?;
        }
        Ok(())
    }
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

/// The files of recordings at and below a folder with their names from there, in the order in which they are copied.
fn files(folder: &Path) -> Result<Vec<(String, Kind)>> {
    let mut found = Vec::new();
    walk(folder, "", DEPTH, &mut found)?;
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

fn load(path: &Path) -> Result<Option<Journal>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(StoreError::file("read", path))?,
    };
    // One that was cut off, or is of another version, says nothing: everything is copied once more.
    Ok(serde_json::from_slice::<Journal>(&text).ok().filter(|journal| journal.format == FORMAT))
}

fn save(path: &Path, journal: &Journal) -> Result<()> {
    let temporary = path.with_extension("json.tmp");
    let text = serde_json::to_vec(journal)
        .map_err(|error| StoreError::Document { what: path.display().to_string(), said: error.to_string() })?;
    fs::write(&temporary, text).map_err(StoreError::file("write", &temporary))?;
    fs::rename(&temporary, path).map_err(StoreError::file("rename", &temporary))
}
