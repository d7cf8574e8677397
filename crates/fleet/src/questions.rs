//! From rows of the compacted tables to what the statistics take.

use std::collections::HashMap;

use crate::drift::HostSetting;
use crate::hosts::RunValue;
use crate::rollup::{LabelsRow, MetricsRow, SettingsRow};

/// The values of one metric. Rows without a host are left out: no statistic here can use them.
pub fn run_values(rows: &[MetricsRow]) -> Vec<RunValue<'_>> {
    rows.iter().filter_map(run_value).collect()
}

fn run_value(row: &MetricsRow) -> Option<RunValue<'_>> {
    Some(RunValue { host: row.host.as_deref()?, start_ns: row.start_ns, value: row.value })
}

/// The values of one metric, each with the value that the label called `name` has for its run; `None` where it has none.
pub fn labelled_values<'a>(
    rows: &'a [MetricsRow],
    labels: &'a [LabelsRow],
    name: &str,
) -> Vec<(Option<&'a str>, RunValue<'a>)> {
    let labels = labels.iter().filter(|label| label.name.as_deref() == Some(name));
    let of_run: HashMap<&str, &str> =
        labels.filter_map(|label| Some((label.recording_id.as_deref()?, label.value.as_deref()?))).collect();
    let labelled = |row: &'a MetricsRow| {
        let label = row.recording_id.as_deref().and_then(|id| of_run.get(id).copied());
        Some((label, run_value(row)?))
    };
    rows.iter().filter_map(labelled).collect()
}

/// The values that settings had from `from_ns` up to, without, `to_ns`: of each host and key the last row before, and all rows
/// within. `rows` are those of all days up to `to_ns`, because rows are changes.
pub fn settings_between(rows: &[SettingsRow], from_ns: i64, to_ns: i64) -> Vec<HostSetting<'_>> {
    let mut before: HashMap<(&str, &str), (i64, Option<&str>)> = HashMap::new();
    let mut found = Vec::new();
    for row in rows {
        let (Some(host), Some(key), Some(start_ns)) = (row.host.as_deref(), row.key.as_deref(), row.start_ns) else {
            continue;
        };
        let value = row.value.as_deref();
        if start_ns > from_ns {
            if start_ns < to_ns {
                found.push(HostSetting { host, key, value });
            }
            continue;
        }
        let last = before.entry((host, key)).or_insert((start_ns, value));
        if start_ns >= last.0 {
            *last = (start_ns, value);
        }
    }
    found.extend(before.into_iter().map(|((host, key), (_, value))| HostSetting { host, key, value }));
    found.sort_by_key(|setting| (setting.key, setting.host, setting.value));
    found
}

/// The labels of hosts: those of their runs, each once. `rows` and `labels` are joined by the runs of `rows`.
pub fn host_labels<'a>(rows: &'a [MetricsRow], labels: &'a [LabelsRow]) -> Vec<HostSetting<'a>> {
    let host_of_run: HashMap<&str, &str> =
        rows.iter().filter_map(|row| Some((row.recording_id.as_deref()?, row.host.as_deref()?))).collect();
    let mut found: Vec<HostSetting> = labels
        .iter()
        .filter_map(|label| {
            let host = host_of_run.get(label.recording_id.as_deref()?).copied()?;
            Some(HostSetting { host, key: label.name.as_deref()?, value: label.value.as_deref() })
        })
        .collect();
    found.sort_by_key(|label| (label.key, label.host, label.value));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_time_are_the_last_before_it_and_all_within() {
        let row = |host: &str, value: Option<&str>, start_ns| SettingsRow {
            key: Some("thp.enabled".into()),
            value: value.map(Into::into),
            recording_id: None,
            host: Some(host.into()),
            start_ns: Some(start_ns),
        };
        let rows = [
            row("a", Some("always"), 1),
            row("a", Some("never"), 5),
            row("a", Some("madvise"), 50),
            row("b", Some("always"), 1),
            row("b", Some("never"), 15),
            row("c", None, 12),
        ];
        let found = settings_between(&rows, 10, 20);
        let of = |host| found.iter().filter(|one| one.host == host).map(|one| one.value).collect::<Vec<_>>();
        assert_eq!(of("a"), [Some("never")]);
        assert_eq!(of("b"), [Some("always"), Some("never")]);
        assert_eq!(of("c"), [None]);
    }
}
