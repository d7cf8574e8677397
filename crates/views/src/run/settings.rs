//! The settings of one run.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::{SettingsRow, SettingsView, TableView};

use crate::error::Result;

/// One setting as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingValue {
    /// The value; `None` if it could not be read.
    pub value: Option<String>,
    /// Where it was read.
    pub source: String,
}

/// Settings at the start and at the end of a run, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSettings {
    /// At the start.
    pub start: BTreeMap<String, SettingValue>,
    /// At the end; empty if the recording has none from there.
    pub end: BTreeMap<String, SettingValue>,
}

impl RunSettings {
    /// Keys whose value at the end is not that of the start, with both. A key that was not read at one of them (some are
    /// read at the start only, as they cannot change) is not known to have changed.
    pub fn changed(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.start.iter().filter_map(|(key, start)| {
            let (start, end) = (start.value.as_deref()?, self.end.get(key)?.value.as_deref()?);
            (start != end).then_some((key.as_str(), start, end))
        })
    }

    pub(crate) fn load(recording: &Recording) -> Result<Self> {
        let mut settings = Self::default();
        for batch in recording.read("settings", None)? {
            let view = SettingsView::new(&batch?)?;
            for SettingsRow { key, value, source, at, .. } in view.rows() {
                let map = if at == "end" { &mut settings.end } else { &mut settings.start };
                let read = SettingValue { value: value.map(str::to_owned), source: source.to_owned() };
                map.insert(key.to_owned(), read);
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_at_both_ends_has_not_changed() {
        let of = |pairs: &[(&str, Option<&str>)]| {
            let read = |value: Option<&str>| SettingValue { value: value.map(str::to_owned), source: String::new() };
            pairs.iter().map(|(key, value)| ((*key).to_owned(), read(*value))).collect()
        };
        let start =
            [("changed", Some("a")), ("same", Some("a")), ("gone", Some("a")), ("came", None), ("once", Some("a"))];
        let end =
            [("changed", Some("b")), ("same", Some("a")), ("gone", None), ("came", Some("b")), ("new", Some("b"))];
        let settings = RunSettings { start: of(&start), end: of(&end) };
        assert_eq!(settings.changed().collect::<Vec<_>>(), [("changed", "a", "b")]);
    }
}
