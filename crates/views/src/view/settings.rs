//! `show DIR settings`: settings of host and target at the start and at the end.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::SettingsRow;
use pagelab_vocab::settings::setting;
use pagelab_vocab::streams::Stream;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::read;
use crate::selection::{Selection, cut};

/// What became of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The same at the end as at the start.
    Same,
    /// Another value at the end.
    Changed,
    /// Looked for at both, and at one of them it could not be read: whether it changed is not known.
    NotRead,
    /// Not looked for at the end, such as the kernel's configuration, which cannot change.
    StartOnly,
    /// Not there at the start.
    EndOnly,
}

/// One setting at both ends of the recording.
#[derive(Debug, Serialize)]
pub struct Setting {
    /// Its key in the vocabulary.
    pub key: String,
    /// Null if it could not be read; `state` says whether it was there.
    pub start: Option<String>,
    /// See `start`.
    pub end: Option<String>,
    /// Whether it changed.
    pub state: State,
    /// The kernel or the work itself changes it; null for keys that the vocabulary does not know.
    pub volatile: Option<bool>,
    /// Where it was read.
    pub source: String,
}

/// Settings, one row per key.
#[derive(Debug, Serialize)]
pub struct SettingsView {
    /// Rows in the order of keys.
    pub settings: Vec<Setting>,
    /// Rows before the list was cut.
    pub settings_total: usize,
    /// Read at both start and end, with different values.
    pub changed: usize,
    /// Not read at one of them.
    pub not_read: usize,
    /// Whether anything was read at the end.
    pub has_end: bool,
}

/// The value read of a setting; nothing if it could not be read.
#[derive(Debug, PartialEq, Eq)]
struct Reading(Option<String>);

/// One key's rows.
#[derive(Debug, Default)]
struct Found {
    start: Option<Reading>,
    end: Option<Reading>,
    source: String,
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<SettingsView>> {
    let mut notes = Vec::new();
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let mut has_end = false;
    read::each::<SettingsRow>(recording, &mut notes, |row| {
        has_end |= row.at == "end";
        if !selection.wants_name(row.key) {
            return;
        }
        let entry = found.entry(row.key.to_owned()).or_default();
        row.source.clone_into(&mut entry.source);
        let place = if row.at == "end" { &mut entry.end } else { &mut entry.start };
        *place = Some(Reading(row.value.map(str::to_owned)));
    })?;
    read::lost(recording, Stream::Settings, &mut notes)?;
    if found.is_empty() {
        if selection.words.is_empty() {
            absence::none_recorded(recording, Stream::Settings, "settings", &mut notes)?;
        } else {
            notes.push(format!("no setting has {} in its key", selection.words.join(" or ")));
        }
    } else if !has_end {
        notes.push("the settings were not read at the end, so nothing is known of changes".to_owned());
    }
    let rows: Vec<Setting> = found.into_iter().map(|(key, found)| setting_of(key, found)).collect();
    let changed = rows.iter().filter(|row| row.state == State::Changed).count();
    let not_read = rows.iter().filter(|row| !matches!(row.state, State::Same | State::Changed)).count();
    let (settings, settings_total) = cut(rows, selection.limit(false));
    let data = SettingsView { settings, settings_total, changed, not_read, has_end };
    Ok(Answer::new("settings", recording, notes, data))
}

fn setting_of(key: String, found: Found) -> Setting {
    let state = match (&found.start, &found.end) {
        (Some(start), Some(end)) if start == end => State::Same,
        (Some(Reading(Some(_))), Some(Reading(Some(_)))) => State::Changed,
        (Some(_), Some(_)) => State::NotRead,
        (Some(_), None) => State::StartOnly,
        (None, _) => State::EndOnly,
    };
    let volatile = setting(&key).map(|info| info.def.volatile);
    Setting { key, start: value(found.start), end: value(found.end), state, volatile, source: found.source }
}

fn value(reading: Option<Reading>) -> Option<String> {
    reading.and_then(|Reading(value)| value)
}
