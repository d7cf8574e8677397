//! The settings of one run.

use std::collections::BTreeMap;

use pagelab_recording::tables::{SettingsRow, SettingsView, TableView};
use pagelab_recording::{Manifest, Recording};
use pagelab_vocab::terminal::shell_line;
use serde_json::Value;

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
        let mut settings = Self { start: of_work(recording.manifest()).collect(), end: BTreeMap::new() };
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

/// What was run, as settings: the program and its arguments, the options of each job.
fn of_work(manifest: &Manifest) -> impl Iterator<Item = (String, SettingValue)> {
    let command = manifest.command.iter().filter_map(|words| words.split_first()).flat_map(|(program, arguments)| {
        let program = ("command.program".to_owned(), program.clone());
        [program, ("command.arguments".to_owned(), shell_line(arguments))]
    });
    let jobs = manifest.job.iter().filter_map(|job| job.get("jobs")?.as_array()).flatten();
    let options = jobs.flat_map(|job| {
        let name = job.get("name").and_then(Value::as_str).unwrap_or_default();
        let given = ["inherited", "given"].into_iter().filter_map(|from| job.get(from)?.as_array()).flatten();
        given.filter_map(move |option| {
            let text = |key| option.get(key).and_then(Value::as_str);
            Some((format!("job.{name}.{}", text("name")?), text("value")?.to_owned()))
        })
    });
    let read = |(key, value)| (key, SettingValue { value: Some(value), source: "manifest.json".to_owned() });
    command.chain(options).map(read).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_run_is_a_setting() {
        let job = serde_json::json!({"jobs": [{"name": "a.b", "inherited": [{"name": "bs", "value": "4k"}],
            "given": [{"name": "bs", "value": "8k"}, {"name": "direct", "value": "1"}]}]});
        let manifest = Manifest {
            command: Some(["dd", "of=/a b", "bs=1"].map(str::to_owned).to_vec()),
            job: Some(job),
            ..Manifest::default()
        };
        let told: BTreeMap<String, SettingValue> = of_work(&manifest).collect();
        let of = |key: &str| told.get(key).and_then(|read| read.value.as_deref());
        assert_eq!((of("command.program"), of("command.arguments")), (Some("dd"), Some("'of=/a b' bs=1")));
        // What the job itself says holds, not what it inherits.
        assert_eq!((of("job.a.b.bs"), of("job.a.b.direct")), (Some("8k"), Some("1")));
    }

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
