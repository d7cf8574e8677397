//! `docs/reference-machine.toml`, and how a recording is held to it. The tests of the lab (`crates/cli/tests/reference_lab.rs`) use it,
//! too.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use pagelab_observe::streams::Stream;
use pagelab_recording::{ProbeState, Recording};
use serde::Deserialize;

const DOCUMENT: &str = include_str!("../../../../docs/reference-machine.toml");

#[derive(Debug, Deserialize)]
struct Machines {
    machine: Vec<Machine>,
}

/// A section of the document.
#[derive(Debug, Deserialize)]
pub(crate) struct Machine {
    pub name: String,
    kernel: String,
    streams: BTreeMap<String, Held>,
}

type Columns = BTreeMap<String, Vec<String>>;

/// What a stream is held to.
#[derive(Debug, Deserialize)]
struct Held {
    rung: String,
    tables: Columns,
    #[serde(default)]
    null: Columns,
    /// Words that a column must have among its values.
    #[serde(default)]
    words: BTreeMap<String, Columns>,
}

/// The section of a kernel's release: the first that fits.
pub(crate) fn machine(release: &str) -> Machine {
    let machines: Machines = toml::from_str(DOCUMENT).expect("the document");
    let found = machines.machine.into_iter().find(|machine| release.starts_with(&machine.kernel)).expect("a section");
    for stream in found.streams.keys() {
        assert!(Stream::all().any(|known| known.name() == stream), "{stream} is no stream");
    }
    found
}

/// The words in a column of text.
fn words(recording: &Recording, table: &str, column: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for batch in recording.read(table, Some(&[column])).expect("the table") {
        let texts = cast(batch.expect("a batch").column(0), &DataType::Utf8).expect("a column of text");
        found.extend(texts.as_string::<i32>().iter().flatten().map(str::to_owned));
    }
    found
}

/// For each column of a table: whether some row has a value.
fn filled(recording: &Recording, table: &str) -> BTreeMap<String, bool> {
    let mut filled = BTreeMap::new();
    for batch in recording.read(table, None).expect("the table") {
        let batch = batch.expect("a batch");
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            *filled.entry(field.name().clone()).or_insert(false) |= column.null_count() < column.len();
        }
    }
    filled
}

impl Machine {
    /// How many streams it names.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Everything in which the recording falls short of the section, a sentence each.
    pub(crate) fn misses(&self, recording: &Recording) -> Vec<String> {
        let mut missed = Vec::new();
        for (stream, held) in &self.streams {
            let probe = recording.manifest().probes.iter().find(|probe| probe.name == *stream);
            let active = |rung: Option<&str>| rung == Some(held.rung.as_str());
            if !probe.is_some_and(|probe| probe.state == ProbeState::Active && active(probe.rung.as_deref())) {
                missed.push(format!("{stream} must be active on {}: {probe:?}", held.rung));
                continue;
            }
            for (table, columns) in &held.tables {
                let filled = filled(recording, table);
                if filled.is_empty() {
                    missed.push(format!("{stream}: {table} has no rows"));
                    continue;
                }
                let empty = columns.iter().filter(|column| filled.get(*column) != Some(&true));
                missed.extend(empty.map(|column| format!("{stream}: {table}.{column} must have a value")));
            }
            for (table, columns) in &held.words {
                for (column, wanted) in columns {
                    let found = words(recording, table, column);
                    let absent = wanted.iter().filter(|word| !found.contains(*word));
                    missed.extend(absent.map(|word| format!("{stream}: {table}.{column} must say {word}: {found:?}")));
                }
            }
            for (table, columns) in &held.null {
                let filled = filled(recording, table);
                let wrong = columns.iter().filter(|column| filled.get(*column) != Some(&false));
                missed.extend(
                    wrong.map(|column| format!("{stream}: {table}.{column} has a value now: say so in the document")),
                );
            }
        }
        missed
    }
}
