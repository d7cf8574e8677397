//! Settings that the two sides of a comparison do not share.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rollup::SettingsRow;

/// A value that is longer is cut: some settings are lists of thousands of bytes.
const LONGEST_VALUE: usize = 200;

/// The runs of a side by the value that held for them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideValues {
    /// The value of most hosts; null if it could not be read there.
    pub value: Option<String>,
    /// Hosts that had it in any run.
    pub hosts: usize,
    /// Hosts of the side that tell the setting.
    pub hosts_of: usize,
}

/// A setting whose usual value differs between the sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingContrast {
    /// Its key.
    pub key: String,
    /// The base.
    pub base: SideValues,
    /// The test side.
    pub test: SideValues,
    /// Of the hosts of both sides, the share whose usual value is that of their side: 1 if the setting divides hosts as the label does.
    pub agreement: f64,
}

/// A run of a side.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunOfSide<'a> {
    pub host: &'a str,
    pub start_ns: i64,
    pub is_test: bool,
}

/// Settings whose usual value is another one on the other side; those that divide hosts most clearly first. `rows` are changes, of all
/// days up to the last.
pub(super) fn contrasts(rows: &[SettingsRow], runs: &[RunOfSide]) -> Vec<SettingContrast> {
    let mut found = Vec::new();
    // Rows are sorted within a day only.
    let mut by_key: BTreeMap<&str, Vec<&SettingsRow>> = BTreeMap::new();
    for row in rows {
        by_key.entry(row.key.as_deref().unwrap_or_default()).or_default().push(row);
    }
    for (key, rows) in by_key {
        // What is the same everywhere is the same on both sides.
        let mut values = rows.iter().map(|row| row.value.as_deref());
        let first = values.next();
        if values.all(|value| Some(value) == first) {
            continue;
        }
        found.extend(contrast(key, &rows, runs));
    }
    found.sort_by(|a, b| b.agreement.total_cmp(&a.agreement).then_with(|| a.key.cmp(&b.key)));
    found
}

type Values<'a> = BTreeMap<i64, Option<&'a str>>;

fn contrast(key: &str, rows: &[&SettingsRow], runs: &[RunOfSide]) -> Option<SettingContrast> {
    let mut of_host: BTreeMap<&str, Values> = BTreeMap::new();
    for row in rows {
        let (Some(host), Some(start_ns)) = (row.host.as_deref(), row.start_ns) else { continue };
        of_host.entry(host).or_default().insert(start_ns, row.value.as_deref());
    }
    let [base, test] = [false, true].map(|is_test| {
        let of_side = runs.iter().filter(|run| run.is_test == is_test);
        Side::of(of_side, &of_host)
    });
    let (of_base, of_test) = (base.usual()?, test.usual()?);
    if of_base.value == of_test.value {
        return None;
    }
    let agreement = (of_base.hosts + of_test.hosts) as f64 / (of_base.hosts_of + of_test.hosts_of).max(1) as f64;
    Some(SettingContrast { key: key.to_owned(), base: of_base, test: of_test, agreement })
}

/// The values of a side's hosts: of each host the one of most of its runs.
struct Side<'a> {
    usual_of_host: BTreeMap<&'a str, Option<&'a str>>,
}

impl<'a> Side<'a> {
    fn of<'r>(runs: impl Iterator<Item = &'r RunOfSide<'a>>, of_host: &BTreeMap<&str, Values<'a>>) -> Self
    where
        'a: 'r,
    {
        let mut counts: BTreeMap<&str, BTreeMap<Option<&str>, usize>> = BTreeMap::new();
        for run in runs {
            let held = of_host.get(run.host).and_then(|values| values.range(..=run.start_ns).next_back());
            if let Some((_, value)) = held {
                *counts.entry(run.host).or_default().entry(*value).or_default() += 1;
            }
        }
        let usual = |values: BTreeMap<Option<&'a str>, usize>| values.into_iter().max_by_key(|(_, runs)| *runs);
        let usual_of_host = counts.into_iter().filter_map(|(host, values)| Some((host, usual(values)?.0))).collect();
        Self { usual_of_host }
    }

    fn usual(&self) -> Option<SideValues> {
        let mut hosts: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for value in self.usual_of_host.values() {
            *hosts.entry(*value).or_default() += 1;
        }
        let (value, count) = hosts.into_iter().max_by_key(|(_, count)| *count)?;
        let value = value.map(|value| value.chars().take(LONGEST_VALUE).collect());
        Some(SideValues { value, hosts: count, hosts_of: self.usual_of_host.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, host: &str, start_ns: i64, value: &str) -> SettingsRow {
        SettingsRow {
            key: Some(key.into()),
            value: Some(value.into()),
            recording_id: None,
            host: Some(host.into()),
            start_ns: Some(start_ns),
        }
    }

    #[test]
    fn what_held_at_the_start_of_a_run_counts() {
        let hosts = ["a", "b", "c"];
        let mut rows: Vec<SettingsRow> = Vec::new();
        for host in hosts {
            rows.extend([
                row("thp.enabled", host, 1, "always"),
                row("thp.enabled", host, 10, "never"),
                row("same", host, 1, "x"),
            ]);
        }
        // One host never changed this one.
        rows.extend([
            row("other", "a", 1, "1"),
            row("other", "b", 1, "1"),
            row("other", "c", 1, "1"),
            row("other", "b", 10, "2"),
            row("other", "c", 10, "2"),
        ]);
        let run = |host, start_ns, is_test| RunOfSide { host, start_ns, is_test };
        let runs: Vec<RunOfSide> = hosts.iter().flat_map(|host| [run(*host, 5, false), run(*host, 10, true)]).collect();
        let found = contrasts(&rows, &runs);
        let keys: Vec<(&str, f64)> = found.iter().map(|one| (one.key.as_str(), one.agreement)).collect();
        assert_eq!(keys, [("thp.enabled", 1.0), ("other", 5.0 / 6.0)]);
        assert_eq!(found[0].base.value.as_deref(), Some("always"));
        assert_eq!((found[1].test.hosts, found[1].test.hosts_of), (2, 3));
    }
}
