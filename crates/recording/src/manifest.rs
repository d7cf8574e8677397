//! `manifest.json`: the recording's contents, its host and its success.

mod parts;
mod run;

use std::collections::BTreeMap;
use std::path::Path;

use pagelab_output::read_plain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, FORMAT, Result};
use crate::seal::{self, Seal};
use crate::storage::{Storage, replace_document, write_atomically};

pub use parts::{Flaw, ListedPart};
pub(crate) use parts::{flaws_of_document, sentence};
pub use run::{Better, EndedBy, FoundTarget, Measured, MeasuredBy, PrintedValue, Rusage};

/// Name of the manifest in a recording's directory.
pub const MANIFEST: &str = "manifest.json";

/// Key of a manifest that is false where a complete recording was not compacted.
pub(crate) const COMPACTED: &str = "compacted";

/// Manifests have some 20 KB, and more only by the length of a command.
const LARGEST: u64 = 64 << 20;
/// Times in a manifest are nearer to zero than this: 146 years.
const FARTHEST_NS: u64 = 1 << 62;
/// Linux supports 8,192.
const MOST_CPUS: u64 = 1 << 16;

/// The manifest of one recording. A value that is not known is null.
///
/// Keys that this version does not know are kept in [`Manifest::extra`] and written back.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Manifest {
    /// Major format of the recording.
    pub format: u64,
    /// Version of the pagelab that recorded.
    #[serde(default)]
    pub pagelab_version: String,
    /// What the user called it.
    #[serde(default)]
    pub label: Option<String>,
    /// Variant of the experiment it belongs to.
    #[serde(default)]
    pub variant: Option<String>,
    /// Number of the run within its variant.
    #[serde(default)]
    pub run: Option<u64>,
    /// Round (block) of the experiment.
    #[serde(default)]
    pub round: Option<u64>,
    /// Position in the round.
    #[serde(default)]
    pub position: Option<u64>,
    /// Host name.
    #[serde(default)]
    pub host: Option<String>,
    /// Kernel release.
    #[serde(default)]
    pub kernel: Option<String>,
    /// Machine architecture.
    #[serde(default)]
    pub arch: Option<String>,
    /// Base page size.
    #[serde(default)]
    pub page_size_bytes: Option<u64>,
    /// CPUs online.
    #[serde(default)]
    pub cpus: Option<u64>,
    /// Kind of virtualisation, `none` on bare metal.
    #[serde(default)]
    pub virt: Option<String>,
    /// The kernel's boot id.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The recording's clock.
    #[serde(default)]
    pub clock: Clock,
    /// Command that was recorded.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// Durations that the command names, seconds: one that takes as long as that ends by time and not by its work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_durations_s: Vec<f64>,
    /// Job that was recorded.
    #[serde(default)]
    pub job: Option<Value>,
    /// How the command ended.
    #[serde(default)]
    pub exit: Option<Exit>,
    /// Whether the recorder reached a clean end with every row in place.
    #[serde(default)]
    pub complete: bool,
    /// What recording cost.
    #[serde(default)]
    pub self_cost: SelfCost,
    /// Every probe and feature that was asked for, and what became of it.
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// The target, if it was running before it was recorded; null for a command or a job that the recorder started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<FoundTarget>,
    /// Seed of the random choices of the run, if the user or a plan gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The measured time. Like all keys below it is written at the end, and absent from a recording whose recorder died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// What ended the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
    /// Whether the target was ended because it ran longer than its timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<bool>,
    /// Whether a signal to the recorder ended a command or job before its work was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
    /// Begin of the events that a flight recorder still holds, ns on the recording's clock; absent if none was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_since_ns: Option<i64>,
    /// What the kernel counted of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rusage: Option<Rusage>,
    /// Numbers that the command printed about itself, in the order in which they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<PrintedValue>,
    /// Why `complete` is false although the recorder reached its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete_reason: Option<String>,
    /// Rows that could not be written and were given up, by table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rows_dropped: BTreeMap<String, u64>,
    /// What a reader of any view must know, in sentences: tasks that go on, figures that the kernel's own contradict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Faults that no mapping explains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults_unattributed: Option<u64>,
    /// Rollups that were written, by table; see [`crate::rollup`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rollups: BTreeMap<String, WrittenRollup>,
    /// Why rollups could not be made although the recording was closed well. Views make their figures from events then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollups_missing: Option<String>,
    /// The parts of all tables as they were when the recording was closed. Absent from recordings of older versions, and from those
    /// whose recorder died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<ListedPart>>,
    /// Further keys, such as what each probe reports of itself under its own name.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Default for Manifest {
    fn default() -> Self {
        Self {
            format: u64::from(FORMAT),
            pagelab_version: env!("CARGO_PKG_VERSION").to_owned(),
            label: None,
            variant: None,
            run: None,
            round: None,
            position: None,
            host: None,
            kernel: None,
            arch: None,
            page_size_bytes: None,
            cpus: None,
            virt: None,
            boot_id: None,
            clock: Clock::default(),
            command: None,
            named_durations_s: Vec::new(),
            job: None,
            exit: None,
            complete: false,
            self_cost: SelfCost::default(),
            probes: Vec::new(),
            target: None,
            seed: None,
            measured: None,
            ended_by: None,
            timed_out: None,
            interrupted: None,
            kept_since_ns: None,
            rusage: None,
            values: Vec::new(),
            incomplete_reason: None,
            rows_dropped: BTreeMap::new(),
            notes: Vec::new(),
            faults_unattributed: None,
            rollups: BTreeMap::new(),
            rollups_missing: None,
            parts: None,
            extra: Map::new(),
        }
    }
}

/// What the manifest says of a rollup that was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct WrittenRollup {
    /// Version of the rollup, as [`crate::tables::RollupDef::version`].
    pub version: u32,
    /// Hash of its sources, in hexadecimal.
    pub source: String,
    /// Its rows.
    pub rows: u64,
}

/// The clock of all `ts` of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// Name of the clock, such as `CLOCK_MONOTONIC`.
    pub id: String,
    /// Its value when recording started.
    pub start_ns: i64,
    /// Nanoseconds since the epoch at the same instant.
    pub realtime_at_start_ns: Option<i64>,
    /// Nanoseconds since the epoch at the end.
    pub realtime_at_end_ns: Option<i64>,
    /// Further keys.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How a command ended: with a code or by a signal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Exit {
    /// Exit code; null if a signal ended it.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Further keys.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What recording cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct SelfCost {
    /// CPU time of the recorder.
    pub cpu_ns: Option<u64>,
    /// CPU time of its BPF programs.
    pub bpf_ns: Option<u64>,
    /// Largest resident size of the recorder.
    pub max_rss_bytes: Option<u64>,
    /// Bytes that the recorder wrote, temporary ones included.
    pub bytes_written: Option<u64>,
    /// Further keys.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What became of a probe that was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeState {
    /// It runs.
    Active,
    /// The host or kernel refused it; the probe's reason says why.
    #[default]
    Refused,
}

/// One probe or feature that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Name.
    pub name: String,
    /// What became of it.
    pub state: ProbeState,
    /// Which of several ways of probing was taken.
    pub rung: Option<String>,
    /// Why it was refused, or why not a better rung.
    pub reason: Option<String>,
    /// Command that mends it.
    pub fix: Option<String>,
    /// Events seen.
    pub events_seen: Option<u64>,
    /// Events lost.
    pub events_lost: Option<u64>,
    /// Further keys.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Manifest {
    /// Whether `error_code` of a fault has x86's bits. Recordings that do not name their architecture were made on x86-64.
    pub fn has_x86_fault_codes(&self) -> bool {
        self.arch.as_deref().is_none_or(|arch| matches!(arch, "x86_64" | "i686"))
    }

    /// Whether parts were merged and their rows joined at the end: what is complete is in order of time then. Not so if the recording is
    /// larger than the spool that it was made in.
    pub fn is_compacted(&self) -> bool {
        self.complete && self.extra.get(COMPACTED) != Some(&Value::Bool(false))
    }

    /// Reads the manifest of the recording in `dir`. [`Error::NewerFormat`] is decided before anything else is looked
    /// at, because a newer format may mean other things by the same keys.
    ///
    /// One that was changed after it was written reads as that of a recording that is not complete.
    pub fn load(dir: &Path) -> Result<Self> {
        let (mut manifest, seal) = Self::load_sealed(dir)?;
        let flaws = flaws_of_document(dir, manifest.parts.as_deref(), seal);
        manifest.take_flaws(&flaws);
        Ok(manifest)
    }

    /// Says why the recording is not complete, if it has flaws. A reason that is there stays the first one.
    pub(crate) fn take_flaws(&mut self, flaws: &[Flaw]) {
        let Some(found) = sentence(flaws) else { return };
        self.complete = false;
        self.incomplete_reason = Some(match self.incomplete_reason.take() {
            Some(reason) if reason.contains(&found) => reason,
            Some(reason) => format!("{reason}; {found}"),
            None => found,
        });
    }

    /// As [`Manifest::load`], as it stands there, and what its checksum says.
    pub(crate) fn load_sealed(dir: &Path) -> Result<(Self, Seal)> {
        let path = dir.join(MANIFEST);
        let text = match read_plain(&path, LARGEST) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NotARecording { dir: dir.to_owned() });
            }
            Err(e) => return Err(e.into()),
        };
        // Some file systems give zeros after a power cut.
        if text.iter().all(|byte| *byte == 0) {
            return Err(Error::EmptyManifest { path });
        }
        let bad = |e: serde_json::Error| Error::BadJson { path: path.clone(), reason: e.to_string() };
        let mut value: Value = serde_json::from_slice(&text).map_err(bad)?;
        let seal = seal::take(&text, &mut value);
        let found = value.get("format").and_then(Value::as_u64);
        match found {
            None | Some(0) => Err(Error::BadJson {
                path,
                reason: format!(
                    "format is {}, a whole number from 1 is needed",
                    value.get("format").unwrap_or(&Value::Null)
                ),
            }),
            Some(found) if found > u64::from(FORMAT) => Err(Error::NewerFormat {
                path,
                found,
                writer: value.get("pagelab_version").and_then(Value::as_str).unwrap_or("of unknown version").to_owned(),
            }),
            Some(_) => {
                let manifest: Self = serde_json::from_value(value).map_err(bad)?;
                match manifest.absurd() {
                    None => Ok((manifest, seal)),
                    Some(reason) => Err(Error::BadJson { path, reason }),
                }
            }
        }
    }

    /// A number that no host has, and with which readers would go wrong: which it is, and what is needed.
    fn absurd(&self) -> Option<String> {
        let measured = self.measured.as_ref();
        let times = [
            ("clock.start_ns", Some(self.clock.start_ns)),
            ("clock.realtime_at_start_ns", self.clock.realtime_at_start_ns),
            ("clock.realtime_at_end_ns", self.clock.realtime_at_end_ns),
            ("measured.start_ns", measured.and_then(|measured| measured.start_ns)),
            ("measured.end_ns", measured.and_then(|measured| measured.end_ns)),
            ("kept_since_ns", self.kept_since_ns),
        ];
        // The difference of any two fits.
        let far = times.into_iter().find(|(_, ns)| ns.is_some_and(|ns| ns.unsigned_abs() >= FARTHEST_NS));
        if let Some((key, Some(ns))) = far {
            return Some(format!("{key} is {ns}; nanoseconds below 2^62 are needed"));
        }
        let cpus = self.cpus.filter(|cpus| *cpus > MOST_CPUS)?;
        Some(format!("cpus is {cpus}; at most {MOST_CPUS} are needed"))
    }

    /// The document as it is written: its last key is a checksum of itself.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Serialisation of these types cannot fail: keys are strings and numbers are finite by construction of `Value`.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        seal::put(text)
    }

    /// Writes the manifest of a closed recording anew, with keys that became known afterwards; whole or not at all, and forced to
    /// the device.
    pub fn rewrite(&self, dir: &Path) -> Result<()> {
        replace_document(dir, MANIFEST, &self.to_json())
    }

    /// Writes the manifest into `dir` by way of a temporary name.
    pub(crate) fn save(&self, dir: &Path, storage: &dyn Storage, durable: bool) -> Result<u64> {
        let path = dir.join(MANIFEST);
        let text = self.to_json();
        write_atomically(storage, &path, &text, durable).map_err(Error::io("write", &path))?;
        Ok(text.len() as u64)
    }
}
