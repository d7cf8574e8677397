//! `show DIR settings`: settings of host and target at the start and at the end.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::SettingsRow;
use pagelab_vocab::settings::setting;
use serde::Serialize;

use super::View;
use super::options::{Options, cut, more};
use super::read;
use super::table::{Table, left, or_dash, paragraph, room};
use crate::failure::Failure;

/// Widths that leave room for each other in a line.
const KEY_WIDTH: usize = 40;
const VALUE_WIDTH: usize = 18;
/// What the columns beside a key take.
const BESIDE_KEY: usize = 70;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
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

#[derive(Debug, Serialize)]
struct Setting {
    key: String,
    /// Null if it could not be read; `state` says whether it was there.
    start: Option<String>,
    end: Option<String>,
    state: State,
    /// The kernel or the work itself changes it; null for keys that the vocabulary does not know.
    volatile: Option<bool>,
    source: String,
}

#[derive(Debug, Serialize)]
struct Document {
    settings: Vec<Setting>,
    settings_total: usize,
    /// Read at both start and end, with different values.
    changed: usize,
    /// Not read at one of them.
    not_read: usize,
    /// Whether anything was read at the end.
    has_end: bool,
}

/// What was read of a setting; nothing if it could not be read.
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
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let mut notes = Vec::new();
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let mut has_end = false;
    read::each::<SettingsRow>(recording, &mut notes, |row| {
        has_end |= row.at == "end";
        if !options.wants_name(row.key) {
            return;
        }
        let entry = found.entry(row.key.to_owned()).or_default();
        row.source.clone_into(&mut entry.source);
        let place = if row.at == "end" { &mut entry.end } else { &mut entry.start };
        *place = Some(Reading(row.value.map(str::to_owned)));
    })?;
    if found.is_empty() {
        notes.push(if options.words.is_empty() {
            "no settings were recorded".to_owned()
        } else {
            format!("no setting has {} in its key", options.words.join(" or "))
        });
    } else if !has_end {
        notes.push("the settings were not read at the end, so nothing is known of changes".to_owned());
    }
    let rows: Vec<Setting> = found.into_iter().map(|(key, found)| setting_of(key, found)).collect();
    let changed = rows.iter().filter(|row| row.state == State::Changed).count();
    let not_read = rows.iter().filter(|row| !matches!(row.state, State::Same | State::Changed)).count();
    let (settings, settings_total) = cut(rows, options.limit(false));
    let data = Document { settings, settings_total, changed, not_read, has_end };
    View::new("settings", recording, &notes, &data, &text(&data))
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

fn text(data: &Document) -> String {
    if data.settings.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n");
    let changed = or_dash(data.has_end.then_some(data.changed));
    let (total, not_read) = (data.settings_total, data.not_read);
    paragraph(
        &format!(
            "{total} settings: {changed} differ at the end (* changed, ~ changed as it always does), {not_read} were not \
             read at both start and end"
        ),
        &mut out,
    );
    let value = |head| left(head).at_most(room(VALUE_WIDTH, 2 * BESIDE_KEY));
    let mut table = Table::new([
        left(""),
        left("KEY").at_most(room(KEY_WIDTH, BESIDE_KEY)),
        value("START"),
        value("END"),
        left("SOURCE"),
    ]);
    for row in &data.settings {
        let (mark, end) = match row.state {
            State::Same => ("", "same".to_owned()),
            State::Changed if row.volatile == Some(true) => ("~", shown(row.end.as_deref())),
            State::Changed => ("*", shown(row.end.as_deref())),
            _ if row.end.is_none() => ("", "not read".to_owned()),
            _ => ("", shown(row.end.as_deref())),
        };
        table.row([mark.to_owned(), row.key.clone(), shown(row.start.as_deref()), end, row.source.clone()]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.settings.len(), data.settings_total));
    out
}

/// A value for people; an empty one is not the same as none.
fn shown(value: Option<&str>) -> String {
    match value {
        None => "-".to_owned(),
        Some("") => "\"\"".to_owned(),
        Some(value) => value.to_owned(),
    }
}
