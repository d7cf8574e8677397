//! What is in a place: recordings and days of compacted fleets, with their state, without reading more than manifests.
//!
//! One listing gives names, sizes and times of all objects; of each recording its manifest is read, some at a time, and what is shown of it
//! kept in the cache under the object's version, so that the next list reads the new ones only. Days are judged by their document and
//! the listing; where that does not name contents, each table is asked for its name.
//!
//! Times of recordings are by their hosts' clocks and times of objects by the store's; neither is compared with the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use futures::StreamExt as _;
use object_store::{ObjectMeta, ObjectStoreExt as _};
use pagelab_output::{Folder, Sync};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::day::DayContent;
use crate::error::{Result, StoreError};
use crate::layout::{self, Kind};
use crate::mirror::{Version, shown};
use crate::place::Place;
use crate::upload::{BEING_RECORDED, BEING_UPLOADED};

/// Documents that are read at a time.
const AT_A_TIME: usize = 8;
/// Objects that are listed unless the caller says otherwise: 200 requests.
pub const MOST_OBJECTS: usize = 200_000;
/// Manifests have some 20 KB, and more only by the length of a command. A larger one is not read.
const LARGEST_BYTES: u64 = 8 << 20;
/// The format of recordings that is known here. Of a newer one only what is the same in all is shown.
const FORMAT: u64 = 1;
/// Version of the cache.
const CACHE_FORMAT: u32 = 1;

/// What a recording in a store is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum State {
    /// It is whole.
    Complete,
    /// Its recorder reached the end, and it says what is missing.
    NotComplete(String),
    /// It is being made and copied, or that was broken off: an object store does not say which. Its newest object does.
    BeingMade,
    /// A recording that had ended is being copied, or that was broken off.
    HalfUploaded,
    /// There are tables and no manifest: another program copied them, or removed it.
    NoManifest,
    /// It was written by a newer pagelab.
    NewerFormat(String),
    /// Its manifest cannot be read.
    Unreadable(String),
}

impl State {
    /// In a table of recordings.
    pub fn words(&self) -> String {
        match self {
            Self::Complete => "complete".to_owned(),
            Self::NotComplete(reason) => format!("not complete: {reason}"),
            Self::BeingMade => "being made, or broken off".to_owned(),
            Self::HalfUploaded => "half-uploaded".to_owned(),
            Self::NoManifest => "no manifest.json".to_owned(),
            Self::NewerFormat(found) => found.clone(),
            Self::Unreadable(reason) => format!("unreadable: {reason}"),
        }
    }
}

/// What a manifest says of its recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// What it is.
    #[serde(flatten)]
    pub state: State,
    /// Name of the host that recorded.
    pub host: Option<String>,
    /// What the user called it.
    pub label: Option<String>,
    /// When it began, ns since the epoch by that host's clock.
    pub begin_ns: Option<i64>,
}

/// A recording in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recording {
    /// From the place that was listed; empty if it is that place.
    pub name: String,
    /// From its manifest.
    #[serde(flatten)]
    pub facts: Facts,
    /// Its objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When its newest object was written, ns since the epoch by the store's clock.
    pub last_change_ns: Option<i64>,
}

/// What a day of a compacted fleet is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum DayState {
    /// All its tables are what its document says.
    Complete,
    /// A table is not: the day is being replaced, or that was broken off.
    HalfReplaced(String),
    /// A table has its size and another version: it was copied by another program, or is being replaced.
    NotVerified(String),
    /// There is no document: the first upload goes on or was broken off, or another program copied it.
    NoDocument,
    /// Its document cannot be read.
    Unreadable(String),
}

impl DayState {
    /// In a table of days.
    pub fn words(&self) -> String {
        match self {
            Self::Complete => "complete".to_owned(),
            Self::HalfReplaced(file) => format!("half-replaced: {file} is not what complete.json says"),
            Self::NotVerified(file) => {
                format!("not verified: {file} was written by another program, or is being replaced")
            }
            Self::NoDocument => "no complete.json: half-uploaded, or copied by another program".to_owned(),
            Self::Unreadable(reason) => format!("unreadable: {reason}"),
        }
    }
}

/// A day of a compacted fleet in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Day {
    /// From the place that was listed, such as `fleet/day=2026-03-01`.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub state: DayState,
    /// Its tables.
    pub tables: Vec<String>,
    /// Bytes of its objects.
    pub bytes: u64,
}

/// What is in a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Recordings by name.
    pub recordings: Vec<Recording>,
    /// Days of compacted fleets by name.
    pub days: Vec<Day>,
    /// Objects that are neither, nor of a set.
    pub other_objects: u64,
    /// The listing ended at the bound: there is more.
    pub is_cut: bool,
    /// Manifests that were read now; the others were in the cache.
    pub manifests_read: usize,
}

/// Lists a place: at most `most` objects. `cache` is the file that remembers manifests, if there is one.
///
/// # Errors
/// The store does not answer or refuses. What cannot be read of one recording is its state.
pub async fn list(place: &Place, most: usize, cache: Option<&Path>) -> Result<Listed> {
    let (found, is_cut) = place.fold(most, Found::add).await?;
    let before = cache.map(|path| Cache::load(path, place.url())).unwrap_or_default();
    let mut listed = Listed { other_objects: found.others, is_cut, ..Listed::default() };
    let mut now = Cache { format: CACHE_FORMAT, url: place.url().to_owned(), manifests: BTreeMap::new() };
    let recordings = found.recordings.into_iter().map(|(name, group)| recording(place, name, group, &before));
    let mut recordings = futures::stream::iter(recordings).buffer_unordered(AT_A_TIME);
    while let Some(next) = recordings.next().await {
        let (recording, version, is_read) = next?;
        listed.manifests_read += usize::from(is_read);
        if let Some(version) = version {
            now.manifests.insert(recording.name.clone(), Known { version, facts: recording.facts.clone() });
        }
        listed.recordings.push(recording);
    }
    let days = found.days.into_iter().map(|(name, objects)| day(place, name, objects));
    listed.days = futures::stream::iter(days).buffer_unordered(AT_A_TIME).collect().await;
    listed.recordings.sort_by(|a, b| a.name.cmp(&b.name));
    listed.days.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(path) = cache.filter(|_| !is_cut && now.manifests != before.manifests) {
        now.save(path)?;
    }
    Ok(listed)
}

/// The objects of a recording.
#[derive(Debug, Default)]
struct Group {
    manifest: Option<ObjectMeta>,
    objects: u64,
    bytes: u64,
    last_change_ns: Option<i64>,
}

#[derive(Debug, Default)]
struct Found {
    recordings: BTreeMap<String, Group>,
    days: BTreeMap<String, BTreeMap<String, ObjectMeta>>,
    others: u64,
}

impl Found {
    fn add(&mut self, name: &str, meta: ObjectMeta) {
        if let Some(day) = layout::day_of(name) {
            let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
            self.days.entry(day.to_owned()).or_default().insert(file.to_owned(), meta);
            return;
        }
        let Some(recording) = layout::recording_of(name) else {
            self.others += u64::from(layout::kind(name).is_none());
            return;
        };
        let group = self.recordings.entry(recording.to_owned()).or_default();
        group.objects += 1;
        group.bytes += meta.size;
        group.last_change_ns = group.last_change_ns.max(meta.last_modified.timestamp_nanos_opt());
        if layout::kind(name) == Some(Kind::Manifest) {
            group.manifest = Some(meta);
        }
    }
}

/// A recording, the version of its manifest, and whether that was read.
async fn recording(
    place: &Place,
    name: String,
    group: Group,
    cache: &Cache,
) -> Result<(Recording, Option<Version>, bool)> {
    let Group { manifest, objects, bytes, last_change_ns } = group;
    let version = manifest.as_ref().map(Version::of);
    let known = cache.manifests.get(&name).filter(|known| Some(&known.version) == version.as_ref());
    let (facts, is_read) = match (&manifest, known) {
        (None, _) => (Facts::without(State::NoManifest), false),
        (Some(_), Some(known)) => (known.facts.clone(), false),
        (Some(meta), None) => (facts(place, &name, meta).await?, true),
    };
    // What could not be read may be another time.
    let version = version.filter(|_| !matches!(facts.state, State::Unreadable(_)));
    Ok((Recording { name, facts, objects, bytes, last_change_ns }, version, is_read))
}

async fn facts(place: &Place, name: &str, meta: &ObjectMeta) -> Result<Facts> {
    if meta.size > LARGEST_BYTES {
        let reason = format!("manifest.json has {} bytes, needed at most {LARGEST_BYTES}", meta.size);
        return Ok(Facts::without(State::Unreadable(reason)));
    }
    let url = place.url_of(name);
    let text = place.patiently(&url, || async { place.store().get(&meta.location).await?.bytes().await }).await;
    match text {
        Ok(text) => Ok(Facts::of(&text)),
        // Removed since it was listed, or not ours to read: the others are listed all the same.
        Err(error @ (StoreError::NotFound { .. } | StoreError::Forbidden { .. })) => {
            Ok(Facts::without(State::Unreadable(shown(&error.to_string()))))
        }
        Err(error) => Err(error),
    }
}

impl Facts {
    fn without(state: State) -> Self {
        Self { state, host: None, label: None, begin_ns: None }
    }

    fn of(text: &[u8]) -> Self {
        let manifest: Value = match serde_json::from_slice(text) {
            Ok(manifest) => manifest,
            Err(error) => return Self::without(State::Unreadable(format!("manifest.json: {error}"))),
        };
        let words = |key: &str| manifest[key].as_str().map(shown);
        let state = match manifest["format"].as_u64() {
            Some(found) if found > FORMAT => {
                let version = words("pagelab_version").unwrap_or_else(|| "a newer version".to_owned());
                State::NewerFormat(format!("format {found}, of pagelab {version}; this one reads {FORMAT}"))
            }
            None => State::Unreadable("manifest.json is no manifest: found no format".to_owned()),
            Some(_) if manifest["complete"] == Value::Bool(true) => State::Complete,
            Some(_) => match manifest["incomplete_reason"].as_str() {
                Some(BEING_RECORDED) => State::BeingMade,
                Some(BEING_UPLOADED) => State::HalfUploaded,
                Some(reason) => State::NotComplete(shown(reason)),
                None => State::NotComplete("its recorder did not reach a clean end".to_owned()),
            },
        };
        let begin_ns = manifest["clock"]["realtime_at_start_ns"].as_i64();
        Self { state, host: words("host"), label: words("label"), begin_ns }
    }
}

async fn day(place: &Place, name: String, mut objects: BTreeMap<String, ObjectMeta>) -> Day {
    let bytes = objects.values().map(|meta| meta.size).sum();
    let tables: BTreeSet<&str> = objects.keys().filter_map(|file| file.strip_suffix(".parquet")).collect();
    let tables = tables.into_iter().map(str::to_owned).collect();
    let state = match DayContent::load(place, &name).await {
        Ok(Some((content, _))) => {
            name_contents(place, &mut objects).await;
            day_state(&content, &objects)
        }
        Ok(None) => DayState::NoDocument,
        Err(error) => DayState::Unreadable(shown(&error.to_string())),
    };
    Day { name, state, tables, bytes }
}

/// Asks for the names of contents where the listing has none, as those of some servers.
async fn name_contents(place: &Place, objects: &mut BTreeMap<String, ObjectMeta>) {
    for meta in objects.values_mut().filter(|meta| meta.e_tag.is_none()) {
        // If it cannot be asked the table is not verified, which says so.
        if let Ok(found) = place.store().head(&meta.location).await {
            *meta = found;
        }
    }
}

fn day_state(content: &DayContent, objects: &BTreeMap<String, ObjectMeta>) -> DayState {
    let mut state = DayState::Complete;
    for (file, told) in &content.files {
        let Some(found) = objects.get(file).filter(|found| found.size == told.bytes) else {
            return DayState::HalfReplaced(shown(file));
        };
        if found.e_tag.is_none() || found.e_tag != told.e_tag {
            state = DayState::NotVerified(shown(file));
        }
    }
    state
}

/// What manifests said when they were read last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Cache {
    format: u32,
    url: String,
    manifests: BTreeMap<String, Known>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    version: Version,
    facts: Facts,
}

impl Cache {
    /// One that cannot be read says nothing: it is made again.
    fn load(path: &Path, url: &str) -> Self {
        let cache: Option<Self> = fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        cache.filter(|cache| cache.format == CACHE_FORMAT && cache.url == url).unwrap_or_default()
    }

    fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self)
            .map_err(|error| StoreError::Document { what: path.display().to_string(), said: error.to_string() })?;
        // Two lists at a time write files of their own; the last one stays.
        let (folder, name) = Folder::make_parent_of(path)?;
        Ok(folder.write_atomic(name, &text, Sync::No)?)
    }
}
