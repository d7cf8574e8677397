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
    /// Keys whose value at the end is not that of the start, with both.
    pub fn changed(&self) -> impl Iterator<Item = (&str, Option<&str>, Option<&str>)> {
        self.start.iter().filter_map(|(key, start)| {
            let end = self.end.get(key)?;
            (start.value != end.value).then_some((key.as_str(), start.value.as_deref(), end.value.as_deref()))
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
