//! Planted causes are found in the files of a fleet of 1,000 hosts, by the way that a question takes: rows of the compacted
//! tables, conditions, statistics. Settings that do nothing, groups that differ by their hardware, values that are missing and files
//! that lack columns stand in the way.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use pagelab_fleet::course::{CourseOptions, course};
use pagelab_fleet::drift::{DriftOptions, DriftingSettings, HostSetting, SettingsDrift, drift};
use pagelab_fleet::hosts::RunValue;
use pagelab_fleet::model::{Design, ModelOptions, by_label, compare};
use pagelab_fleet::outliers::{OutlierOptions, outliers};
use pagelab_fleet::questions::{host_labels, labelled_values, run_values, settings_between};
use pagelab_fleet::rollup::{
    ComponentsRow, Day, FleetFolder, LabelsRow, MetricsRow, Row, RunsRow, SettingsRow, Where, WriteOptions,
};
use pagelab_fleet::simulate::{
    Fleet, FleetPlan, HarmlessSetting, HostGroup, KernelUpgrade, Missing, PlantedCause, Slowdown,
};
use pagelab_output::Sync;
use pagelab_vocab::metrics::Direction;

/// Small, so that a day has several.
const ROW_GROUP_ROWS: usize = 2_048;
const ELAPSED: &str = "run.elapsed_ns";

fn slowdown(component: &str, pct: f64) -> Slowdown {
    Slowdown { metric: ELAPSED.to_owned(), component: component.to_owned(), pct }
}

fn cause(key: &str, [usual, value]: [&str; 2], hosts: u32, slowdown: Slowdown) -> PlantedCause {
    let slowdowns = vec![slowdown];
    PlantedCause {
        key: key.to_owned(),
        value: value.to_owned(),
        usual: usual.to_owned(),
        hosts,
        from_day: 0,
        slowdowns,
    }
}

/// 1,000 hosts of three groups and two instance types, 14 days, one to three runs a day.
fn plan() -> FleetPlan {
    let group = |name: &str, instance_type: &str, weight, slower_pct| HostGroup {
        name: name.to_owned(),
        instance_type: instance_type.to_owned(),
        weight,
        slower_pct,
    };
    let mut harmless: Vec<HarmlessSetting> = (0..12)
        .map(|at| HarmlessSetting {
            key: format!("sysctl.net.harmless{at:02}"),
            values: vec![("0".to_owned(), 0.5 + 0.03 * f64::from(at)), ("1".to_owned(), 0.3), ("2".to_owned(), 0.01)],
            follows_group: false,
            changes_per_day: if at == 0 { 0.05 } else { 0.0 },
        })
        .collect();
    for key in ["sysctl.kernel.pid_max", "sysctl.net.core.somaxconn"] {
        let values = ["small", "small", "large"].map(|value| (value.to_owned(), 1.0)).to_vec();
        harmless.push(HarmlessSetting { key: key.to_owned(), values, follows_group: true, changes_per_day: 0.0 });
    }
    FleetPlan {
        groups: vec![group("front", "m1", 0.5, 0.0), group("back", "m1", 0.3, 0.0), group("store", "m2", 0.2, 25.0)],
        causes: vec![
            cause("thp.enabled", ["always", "never"], 60, slowdown("run.fault.entry", 12.0)),
            // On one host only, and large.
            cause("sysctl.vm.swappiness", ["60", "100"], 1, slowdown("off.read", 150.0)),
        ],
        harmless,
        upgrade: Some(KernelUpgrade {
            day: 7,
            over_days: 1,
            from: "6.1.0".to_owned(),
            to: "6.12.0".to_owned(),
            slowdowns: vec![slowdown("run.memory.clear", 4.0)],
        }),
        missing: Missing { value_share: 0.02, old_version_share: 0.1, column_share: 0.3 },
        ..FleetPlan::new(17, 1_000, 14)
    }
}

struct Written {
    fleet: Fleet,
    folder: FleetFolder,
    _temporary: tempfile::TempDir,
}

impl Written {
    fn of(plan: FleetPlan) -> Self {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = FleetFolder::create(&temporary.path().join("fleet")).expect("a folder");
        let fleet = Fleet::of(plan).expect("a plan");
        let options = WriteOptions { row_group_rows: ROW_GROUP_ROWS, sync: Sync::No, ..WriteOptions::default() };
        let written = fleet.write(&folder, &options).expect("room");
        assert!(written.runs > 0 && written.metrics == 3 * written.runs && written.components == 4 * written.runs);
        Self { fleet, folder, _temporary: temporary }
    }

    fn days(&self) -> RangeInclusive<Day> {
        let days = self.folder.days().expect("days");
        assert_eq!(days.len() as u32, self.fleet.plan().days);
        days[0]..=days[days.len() - 1]
    }

    fn read<R: Row>(&self, conditions: &[(&str, &str)]) -> Vec<R> {
        let conditions: Vec<Where> =
            conditions.iter().map(|(column, equals)| Where { column, equals: Some(equals) }).collect();
        let read = self.folder.read::<R>(self.days(), &conditions).expect("files");
        assert!(read.opened.days_without.is_empty());
        if !conditions.is_empty() {
            // The groups that hold the rows, and of each day those at either end that hold others too.
            let most = read.rows.len() / ROW_GROUP_ROWS + 2 * self.fleet.plan().days as usize;
            assert!(read.opened.row_groups_read.is_some_and(|groups| groups <= most), "{:?}", read.opened);
        }
        read.rows
    }

    fn drift(&self, metric: &[RunValue], rows: &[MetricsRow], settings: &[SettingsRow]) -> SettingsDrift {
        let labels: Vec<LabelsRow> = self.read(&[]);
        // What hosts are grouped by: the label `thp` is the setting itself.
        let grouped = |label: &HostSetting| ["host_group", "instance_type"].contains(&label.key);
        let labels: Vec<HostSetting> = host_labels(rows, &labels).into_iter().filter(grouped).collect();
        // Before the upgrade, so that the kernel is one.
        let to_ns = self.fleet.plan().first_day.after(7).start_ns();
        drift(&settings_between(settings, 0, to_ns), &labels, metric, &DriftOptions::default())
    }
}

fn entry<'a>(drift: &'a SettingsDrift, key: &str) -> &'a DriftingSettings {
    let has = |entry: &&DriftingSettings| entry.keys.iter().any(|one| one.key == key);
    drift.settings.iter().find(has).unwrap_or_else(|| panic!("{key} differs"))
}

/// The two settings that make hosts slower: one on 60 hosts, which statistics show, and one on a single host, which no statistics
/// can show and which is listed as such.
fn check_settings(drift: &SettingsDrift) {
    let thp = entry(drift, "thp.enabled");
    assert_eq!(thp.keys[0].values, ["always", "never"]);
    assert_eq!(thp.classes.iter().map(|class| class.hosts).collect::<Vec<_>>(), [940, 60]);
    assert_eq!(thp.is_associated, Some(true), "{thp:?}");
    let [low, high] = thp.ratio_ci95.expect("two values");
    println!("thp.enabled: ratio {:?}, {low} to {high}, q {:?} of {}", thp.ratio, thp.q, drift.tested);
    assert!(low < 1.12 && 1.12 < high, "{low} {high}");
    assert!(thp.follows.is_empty());
    let alone = entry(drift, "sysctl.vm.swappiness");
    assert!(alone.p.is_none() && alone.reason.as_deref().is_some_and(|why| why.contains("on 1 hosts")), "{alone:?}");
    // What follows the group cannot be told from the hardware, nor from one another.
    let grouped = entry(drift, "sysctl.kernel.pid_max");
    assert_eq!(grouped.keys.len(), 2);
    assert_eq!(grouped.is_associated, Some(true));
    assert_eq!(grouped.follows, ["host_group", "instance_type"]);
    let found: BTreeSet<&str> = drift
        .settings
        .iter()
        .filter(|entry| entry.is_associated == Some(true))
        .flat_map(|entry| entry.keys.iter().map(|key| key.key.as_str()))
        .collect();
    assert_eq!(found, BTreeSet::from(["thp.enabled", "sysctl.kernel.pid_max", "sysctl.net.core.somaxconn"]));
    let changing = entry(drift, "sysctl.net.harmless00");
    assert!(changing.keys[0].hosts_changed > 50, "{changing:?}");
}

#[test]
fn planted_causes_are_found_in_a_fleet_of_1000_hosts() {
    let written = Written::of(plan());
    let rows: Vec<MetricsRow> = written.read(&[("name", ELAPSED)]);
    let runs = run_values(&rows);
    let before: Vec<RunValue> = {
        let end = written.fleet.plan().first_day.after(7).start_ns();
        runs.iter().copied().filter(|run| run.start_ns.is_some_and(|start| start < end)).collect()
    };
    let settings: Vec<SettingsRow> = written.read(&[]);
    check_settings(&written.drift(&before, &rows, &settings));

    // The component that owns the cause is slower by more: 12 % of the whole on top of its own tenth.
    let components: Vec<ComponentsRow> = written.read(&[("component", "run.fault.entry")]);
    let owned: Vec<RunValue> = components
        .iter()
        .map(|row| RunValue {
            host: row.host.as_deref().unwrap_or(""),
            start_ns: row.start_ns,
            value: row.ns_per_operation,
        })
        .collect();
    let thp_of_component = written.drift(&owned, &rows, &settings);
    let thp = entry(&thp_of_component, "thp.enabled");
    println!("run.fault.entry: ratio {:?}", thp.ratio);
    assert!(thp.is_associated == Some(true) && thp.ratio.is_some_and(|ratio| (1.9..2.6).contains(&ratio)), "{thp:?}");

    // The host that differs, seen among its own instance type.
    let labels: Vec<LabelsRow> = written.read(&[("name", "instance_type")]);
    let by_type = by_label(labelled_values(&rows, &labels, "instance_type"));
    let slow: Vec<&str> =
        (0..1_000).filter(|host| written.fleet.is_slow(1, *host)).map(|host| written.fleet.host_name(host)).collect();
    let found: Vec<String> = by_type
        .values()
        .flat_map(|runs| outliers(runs, &OutlierOptions::default()).deviations)
        .filter(|one| one.is_outlier)
        .map(|one| one.host)
        .collect();
    assert!(slow.iter().all(|host| found.iter().any(|one| one == host)) && found.len() <= 3, "{slow:?} {found:?}");
}

#[test]
fn an_upgrade_is_found_within_hosts_and_in_the_course() {
    let written = Written::of(FleetPlan { hosts: 200, ..plan_without_causes() });
    let rows: Vec<MetricsRow> = written.read(&[("name", ELAPSED)]);
    let labels: Vec<LabelsRow> = written.read(&[("name", "kernel")]);
    let kernels = by_label(labelled_values(&rows, &labels, "kernel"));
    assert_eq!(kernels.keys().copied().collect::<Vec<_>>(), ["6.1.0", "6.12.0"]);
    let found = compare(&kernels["6.1.0"], &kernels["6.12.0"], &ModelOptions::default());
    assert_eq!((found.design, found.hosts_with_both), (Some(Design::Within), 200));
    let [low, high] = found.ratio_ci95.expect("an interval");
    assert!(low < 1.04 && 1.04 < high && high - low < 0.02, "{low} {high}");
    assert!(found.notes.iter().any(|note| note.contains("before all of the test side")));

    let options = CourseOptions::new(ELAPSED, "ns", Direction::LowerIsBetter);
    let found = course(&run_values(&rows), &options);
    let days: Vec<&str> =
        found.trend.change_points.iter().map(|change| found.trend.points[change.after].dir.as_str()).collect();
    assert_eq!(days, [written.fleet.plan().first_day.after(7).to_string()]);
    assert!(found.trend.change_points[0].pct.is_some_and(|pct| (3.0..5.0).contains(&pct)));
}

fn plan_without_causes() -> FleetPlan {
    FleetPlan { causes: Vec::new(), ..plan() }
}

/// Ten thousand hosts take no more memory than a thousand: what is held is a list of the runs of a day.
#[test]
fn ten_thousand_hosts_are_written_and_one_metric_of_them_is_read() {
    let plan = FleetPlan { hosts: 10_000, runs_per_day: [1, 1], ..plan() };
    let written = Written::of(FleetPlan { days: 1, ..plan });
    let rows: Vec<MetricsRow> = written.read(&[("name", "load.iops")]);
    assert_eq!(rows.len(), 10_000);
    assert!(rows.is_sorted_by(|a, b| a.order(b).is_le()));
    let runs: Vec<RunsRow> = written.read(&[]);
    let hosts: BTreeSet<&str> = runs.iter().filter_map(|run| run.host.as_deref()).collect();
    assert_eq!(hosts.len(), 10_000);
    let settings: Vec<SettingsRow> = written.read(&[("key", "thp.enabled")]);
    assert_eq!(settings.len(), 10_000, "the first recording of a host says all");
}

/// The time of an operation is the sum of its components, in the files as in the model.
#[test]
fn tables_agree_with_each_other() {
    let plan = FleetPlan { missing: Missing::default(), hosts: 30, days: 3, ..plan_without_causes() };
    let written = Written::of(plan);
    let rows: Vec<MetricsRow> = written.folder.read(written.days(), &[]).expect("files").rows;
    let components: Vec<ComponentsRow> = written.folder.read(written.days(), &[]).expect("files").rows;
    for row in rows.iter().filter(|row| row.name.as_deref() == Some(ELAPSED)) {
        let parts = components.iter().filter(|part| part.recording_id == row.recording_id);
        let sum: f64 = parts.filter_map(|part| part.ns_per_operation).sum();
        assert!((sum / row.value.expect("nothing is missing") - 1.0).abs() < 1e-12);
        assert_eq!(row.direction.as_deref(), Some("lower"));
    }
    // Another order of asking gives the same fleet, and another seed another.
    let again = Fleet::of(written.fleet.plan().clone()).expect("a plan");
    let (at, value) = written.fleet.values_of(1).pop().expect("runs");
    assert_eq!(again.value(1, at), value.value);
    let other = Fleet::of(FleetPlan { seed: 18, ..written.fleet.plan().clone() }).expect("a plan");
    assert_ne!(other.value(1, at), value.value);
}
