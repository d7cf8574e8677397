//! The values of one setting over the runs of a side.

use std::collections::{BTreeSet, HashMap, HashSet};

use pagelab_views::run::RunData;

/// A setting's values in the runs of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SideValue<'a> {
    /// No run could read it.
    Unknown,
    /// The same in all runs that could read it; `None`: it is not there.
    Constant(Option<&'a str>),
    /// Several values, each once.
    Varying(BTreeSet<Option<&'a str>>),
}

/// The settings of one side's runs, collected once: a set has thousands of keys, and tens of runs.
pub(super) struct SideSettings<'a> {
    runs: &'a [&'a RunData],
    keys: HashMap<&'a str, Collected<'a>>,
    /// How many runs read each namespace.
    namespaces: HashMap<&'a str, usize>,
}

/// A key's values in the runs that have it.
#[derive(Default)]
struct Collected<'a> {
    /// Runs that have it.
    runs: usize,
    /// The values read, each once.
    values: Vec<&'a str>,
}

impl<'a> SideSettings<'a> {
    pub(super) fn of(runs: &'a [&'a RunData]) -> Self {
        let mut keys: HashMap<&'a str, Collected<'a>> = HashMap::new();
        let mut namespaces: HashMap<&'a str, usize> = HashMap::new();
        for run in runs {
            for (key, read) in &run.settings.start {
                let collected = keys.entry(key).or_default();
                collected.runs += 1;
                // The last is nearly always the one that comes again.
                if let Some(value) = read.value.as_deref()
                    && collected.values.last() != Some(&value)
                    && !collected.values.contains(&value)
                {
                    collected.values.push(value);
                }
            }
            let read: HashSet<&'a str> = run.settings.start.keys().map(|key| namespace(key)).collect();
            for space in read {
                *namespaces.entry(space).or_default() += 1;
            }
        }
        Self { runs, keys, namespaces }
    }

    /// All keys that any run has.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.keys.keys().copied()
    }

    /// What the runs say of `key` at their start. A key that is absent from a namespace that was read is not there; one
    /// whose value is null or whose namespace was not read is unknown and says nothing.
    pub(super) fn value(&self, key: &str) -> SideValue<'a> {
        let collected = self.keys.get(key);
        let have = collected.map_or(0, |collected| collected.runs);
        let absent = self.namespaces.get(namespace(key)).is_some_and(|read| *read > have);
        let values = collected.map(|collected| collected.values.as_slice()).unwrap_or_default();
        match (values, absent) {
            // Another file of that name was loaded in its place (LD_LIBRARY_PATH, RPATH).
            ([], false) if self.has_namesake(key) => SideValue::Constant(None),
            ([], false) => SideValue::Unknown,
            ([], true) => SideValue::Constant(None),
            ([value], false) => SideValue::Constant(Some(value)),
            (values, absent) => {
                SideValue::Varying(values.iter().copied().map(Some).chain(absent.then_some(None)).collect())
            }
        }
    }

    /// Whether a program's file of the same name in another folder has a value in every run.
    fn has_namesake(&self, key: &str) -> bool {
        let Some(name) = program_file(key) else { return false };
        let is_namesake = |(other, found): (&&str, &Collected<'_>)| {
            found.runs == self.runs.len() && program_file(other) == Some(name)
        };
        self.keys.iter().any(is_namesake)
    }

    /// In how many runs the value at the end is another one than at the start.
    pub(super) fn changed_during(&self, key: &str) -> usize {
        let changed = |run: &RunData| {
            let (start, end) = (run.settings.start.get(key), run.settings.end.get(key));
            start.zip(end).is_some_and(|(start, end)| start.value != end.value)
        };
        self.runs.iter().filter(|run| changed(run)).count()
    }
}

/// The name, without its folder, of the file that a key `program.<path>.build_id` is of.
fn program_file(key: &str) -> Option<&str> {
    let path = key.strip_prefix("program.")?.strip_suffix(".build_id")?;
    path.rsplit_once('/').map(|(_, name)| name)
}

/// What was read if any key of it was. Of `program.*` and `file.*` that is each key by itself: what a slow start had not loaded or
/// opened yet when it was looked at is not known to be missing.
fn namespace(key: &str) -> &str {
    if key.starts_with("program.") || key.starts_with("file.") {
        return key;
    }
    key.split('.').next().unwrap_or(key)
}
