//! The values of one setting over the runs of a side.

use std::collections::{BTreeSet, HashSet};

use crate::run::RunData;

/// What the runs of one side say of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SideValue<'a> {
    /// No run could read it.
    Unknown,
    /// The same in all runs that could read it; `None`: it is not there.
    Constant(Option<&'a str>),
    /// Several values, each once.
    Varying(BTreeSet<Option<&'a str>>),
}

/// The settings of one side's runs, with the namespaces that each run read.
pub(super) struct SideSettings<'a> {
    runs: Vec<(&'a RunData, HashSet<&'a str>)>,
}

impl<'a> SideSettings<'a> {
    pub(super) fn of(runs: &'a [&'a RunData]) -> Self {
        let spaces = |run: &'a RunData| run.settings.start.keys().map(|key| namespace(key)).collect();
        Self { runs: runs.iter().map(|run| (*run, spaces(run))).collect() }
    }

    /// All keys that any run has.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.runs.iter().flat_map(|(run, _)| run.settings.start.keys().map(String::as_str))
    }

    /// What the runs say of `key` at their start. A key that is absent from a namespace that was read is not there; one
    /// whose value is null or whose namespace was not read is unknown and says nothing.
    pub(super) fn value(&self, key: &str) -> SideValue<'a> {
        let mut values: BTreeSet<Option<&'a str>> = BTreeSet::new();
        for (run, spaces) in &self.runs {
            match run.settings.start.get(key) {
                Some(read) => {
                    if let Some(value) = read.value.as_deref() {
                        values.insert(Some(value));
                    }
                }
                None if spaces.contains(namespace(key)) => {
                    values.insert(None);
                }
                None => {}
            }
        }
        match values.len() {
            0 => SideValue::Unknown,
            1 => SideValue::Constant(values.into_iter().next().flatten()),
            _ => SideValue::Varying(values),
        }
    }

    /// In how many runs the value at the end is another one than at the start.
    pub(super) fn changed_during(&self, key: &str) -> usize {
        let changed = |run: &RunData| {
            let (start, end) = (run.settings.start.get(key), run.settings.end.get(key));
            start.zip(end).is_some_and(|(start, end)| start.value != end.value)
        };
        self.runs.iter().filter(|(run, _)| changed(run)).count()
    }
}

fn namespace(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}
