//! Changes of settings: what a host's runs had, as rows where it changed.

use std::collections::{BTreeMap, BTreeSet};

use super::recordings::{Candidate, Known};
use crate::error::Result;
use crate::rollup::{Day, FleetFolder, SettingsRow, Text};

/// Settings of one run: null where the recorder could not read one.
pub(super) type Snapshot = BTreeMap<Text, Option<Text>>;

/// A value from some time on.
type Values = BTreeMap<i64, Option<Text>>;

/// The courses of the settings of all hosts that gain runs, and the rows that these add.
pub(super) struct Courses {
    hosts: BTreeMap<Text, HostCourse>,
    added: BTreeMap<Day, Vec<SettingsRow>>,
}

#[derive(Default)]
struct HostCourse {
    /// By key.
    settings: BTreeMap<Text, Values>,
    /// Runs that are in the tables.
    runs: BTreeMap<i64, Text>,
}

impl HostCourse {
    /// The value of a key just before `start_ns`; the outer none if no run told one.
    fn before(&self, key: &str, start_ns: i64) -> Option<&Option<Text>> {
        self.settings.get(key)?.range(..start_ns).next_back().map(|(_, value)| value)
    }
}

impl Courses {
    /// What the fleet knows of these hosts.
    pub(super) fn load(fleet: &FleetFolder, hosts: &BTreeSet<&str>, known: &Known) -> Result<Self> {
        let course =
            |host: &&str| (Text::from(*host), HostCourse { runs: known.of_host(host), ..HostCourse::default() });
        let mut courses = Self { hosts: hosts.iter().map(course).collect(), added: BTreeMap::new() };
        for day in fleet.days()? {
            for row in fleet.read::<SettingsRow>(day..=day, &[])?.rows {
                let (Some(host), Some(key), Some(start_ns)) = (row.host, row.key, row.start_ns) else { continue };
                if let Some(course) = courses.hosts.get_mut(&host) {
                    course.settings.entry(key).or_default().insert(start_ns, row.value);
                }
            }
        }
        Ok(courses)
    }

    /// Adds a run. Where it changes what held when the host's next run began, that run gets a row that says so again: rows of a run
    /// that comes late must not speak for those behind it.
    pub(super) fn add(&mut self, run: &Candidate, snapshot: Snapshot) {
        let Some(host) = &run.host else { return };
        let course = self.hosts.entry(host.clone()).or_default();
        if snapshot.is_empty() {
            return;
        }
        let next = course.runs.range(run.start_ns + 1..).next().map(|(start_ns, id)| (*start_ns, id.clone()));
        let mut new: BTreeMap<Text, Option<Text>> = snapshot;
        // What it does not tell any more is null from here on.
        for key in course.settings.keys() {
            if !new.contains_key(key) {
                new.insert(key.clone(), None);
            }
        }
        for (key, value) in new {
            let before = course.before(&key, run.start_ns).cloned();
            if before.as_ref() == Some(&value) || (before.is_none() && value.is_none()) {
                continue;
            }
            let values = course.settings.entry(key.clone()).or_default();
            values.insert(run.start_ns, value.clone());
            let row = |value: Option<Text>, start_ns, id: &Text| SettingsRow {
                key: Some(key.clone()),
                value,
                recording_id: Some(id.clone()),
                host: Some(host.clone()),
                start_ns: Some(start_ns),
            };
            self.added.entry(Day::of_ns(run.start_ns)).or_default().push(row(
                value.clone(),
                run.start_ns,
                &run.recording_id,
            ));
            if let Some((next_ns, id)) = &next
                && let Some(before) = before
                && !values.contains_key(next_ns)
            {
                values.insert(*next_ns, before.clone());
                self.added.entry(Day::of_ns(*next_ns)).or_default().push(row(before, *next_ns, id));
            }
        }
        course.runs.insert(run.start_ns, run.recording_id.clone());
    }

    /// Takes the rows that a day gained so far.
    pub(super) fn take(&mut self, day: Day) -> Vec<SettingsRow> {
        self.added.remove(&day).unwrap_or_default()
    }

    /// Takes the rows of all days.
    pub(super) fn take_all(&mut self) -> BTreeMap<Day, Vec<SettingsRow>> {
        std::mem::take(&mut self.added)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn add(courses: &mut Courses, start_ns: i64, value: &str) {
        let run = Candidate {
            dir: PathBuf::new(),
            recording_id: Text::from(format!("r{start_ns}")),
            host: Some(Text::from("a")),
            start_ns,
        };
        courses.add(&run, BTreeMap::from([(Text::from("thp.enabled"), Some(Text::from(value)))]));
    }

    fn held_at(rows: &[SettingsRow], at_ns: i64) -> Option<&str> {
        let before = rows.iter().filter(|row| row.start_ns.is_some_and(|start| start <= at_ns));
        before.max_by_key(|row| row.start_ns)?.value.as_deref()
    }

    #[test]
    fn rows_tell_what_each_run_had_in_whatever_order_runs_come() {
        let truth = [(1, "always"), (2, "always"), (3, "never"), (4, "always"), (5, "always"), (6, "never")];
        // All orders of six runs.
        let mut orders = vec![Vec::new()];
        for _ in 0..truth.len() {
            let longer = |order: Vec<usize>| {
                let free: Vec<usize> = (0..truth.len()).filter(|at| !order.contains(at)).collect();
                free.into_iter().map(move |at| order.iter().copied().chain([at]).collect::<Vec<_>>())
            };
            orders = orders.into_iter().flat_map(longer).collect();
        }
        assert_eq!(orders.len(), 720);
        for order in orders {
            let mut courses = Courses { hosts: BTreeMap::new(), added: BTreeMap::new() };
            for at in &order {
                add(&mut courses, truth[*at].0, truth[*at].1);
            }
            let rows: Vec<SettingsRow> = courses.take_all().into_values().flatten().collect();
            for (start_ns, value) in truth {
                assert_eq!(held_at(&rows, start_ns), Some(value), "{order:?} at {start_ns}: {rows:?}");
            }
        }
    }

    #[test]
    fn what_is_told_no_more_is_null() {
        let mut courses = Courses { hosts: BTreeMap::new(), added: BTreeMap::new() };
        add(&mut courses, 1, "always");
        let run =
            Candidate { dir: PathBuf::new(), recording_id: Text::from("r2"), host: Some(Text::from("a")), start_ns: 2 };
        courses.add(&run, BTreeMap::from([(Text::from("other"), Some(Text::from("x")))]));
        let rows: Vec<SettingsRow> = courses.take_all().into_values().flatten().collect();
        let thp: Vec<Option<&str>> = rows
            .iter()
            .filter(|row| row.key.as_deref() == Some("thp.enabled"))
            .map(|row| row.value.as_deref())
            .collect();
        assert_eq!(thp, [Some("always"), None]);
    }
}
