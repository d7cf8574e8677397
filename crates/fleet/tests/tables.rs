//! Files of the compacted tables: sorted, in bounded row groups, whole or not there, and read in small parts.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;

use pagelab_fleet::FleetError;
use pagelab_fleet::rollup::{Day, FleetFolder, MetricsRow, Row, SettingsRow, Where, WriteOptions};
use pagelab_fleet::simulate::{Fleet, FleetPlan, Missing, PlantedCause, Slowdown};
use pagelab_output::Sync;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;

const OPTIONS: WriteOptions =
    WriteOptions { row_group_rows: 100, max_buffered_rows: 64, sync: Sync::No, columns_left_out: Vec::new() };

fn folder() -> (tempfile::TempDir, FleetFolder, Day) {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = FleetFolder::create(&temporary.path().join("fleet")).expect("a folder");
    (temporary, folder, "2026-03-01".parse().expect("a day"))
}

fn row(name: &str, host: u32, start_ns: i64) -> MetricsRow {
    MetricsRow {
        name: Some(name.into()),
        host: Some(format!("h{host:03}").into()),
        start_ns: Some(start_ns),
        value: Some(f64::from(host)),
        ..MetricsRow::default()
    }
}

fn file_of(folder: &FleetFolder, day: Day) -> PathBuf {
    folder.path().join(format!("day={day}/metrics.parquet"))
}

#[test]
fn a_question_about_one_metric_reads_its_row_groups_only() {
    let (_temporary, folder, day) = folder();
    let mut writer = folder.writer::<MetricsRow>(day, &OPTIONS).expect("a folder");
    for name in ["a", "b", "c", "d"] {
        for host in 0..250 {
            writer.push(row(name, host, 1)).expect("room");
        }
    }
    assert_eq!(writer.finish().expect("room"), 1_000);
    let file = SerializedFileReader::new(File::open(file_of(&folder, day)).expect("a file")).expect("Parquet");
    let groups: Vec<i64> = file.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(groups, [100; 10], "bounded");
    let ask = |column, equals| folder.read::<MetricsRow>(day..=day, &[Where { column, equals }]).expect("a file");
    let found = ask("name", Some("c"));
    assert_eq!((found.rows.len(), found.opened.row_groups_read, found.opened.row_groups), (250, Some(3), Some(10)));
    let expected: Vec<MetricsRow> = (0..250).map(|host| row("c", host, 1)).collect();
    assert_eq!(found.rows, expected);
    let nothing = ask("name", Some("zz"));
    assert_eq!((nothing.rows.len(), nothing.opened.row_groups_read), (0, Some(0)));
    // One row group has both c and d: its bounds do not exclude what lies between them.
    let between = ask("name", Some("cc"));
    assert_eq!((between.rows.len(), between.opened.row_groups_read), (0, Some(1)));
    assert_eq!(ask("instance", None).rows.len(), 1_000, "no row has an instance");
    assert_eq!(ask("instance", Some("sda")).rows.len(), 0);
    let unknown = folder.read::<MetricsRow>(day..=day, &[Where { column: "value", equals: None }]);
    assert!(matches!(unknown, Err(FleetError::NoSuchColumn { .. })), "{unknown:?}");
}

#[test]
fn rows_out_of_order_are_refused_and_an_unfinished_file_is_not_there() {
    let (_temporary, folder, day) = folder();
    let mut writer = folder.writer::<MetricsRow>(day, &OPTIONS).expect("a folder");
    writer.push(row("b", 1, 5)).expect("room");
    let refused = writer.push(row("a", 1, 5)).expect_err("a is before b");
    assert!(refused.to_string().contains("sorted by name, instance, host, start_ns"), "{refused}");
    drop(writer);
    let names = || -> BTreeSet<String> {
        let entries = fs::read_dir(folder.path().join(format!("day={day}"))).expect("a folder");
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names(), BTreeSet::new());
    assert_eq!(folder.read::<MetricsRow>(day..=day, &[]).expect("a folder").opened.days_without, [day]);

    // A second writer replaces the file only once it is whole.
    let write = |count: u32| {
        let mut writer = folder.sorting_writer::<MetricsRow>(day, &OPTIONS).expect("a folder");
        (0..count).for_each(|host| writer.push(row("a", host, 1)).expect("room"));
        writer
    };
    write(3).finish().expect("room");
    let second = write(300);
    assert_eq!(folder.read::<MetricsRow>(day..=day, &[]).expect("a file").rows.len(), 3);
    second.finish().expect("room");
    assert_eq!(folder.read::<MetricsRow>(day..=day, &[]).expect("a file").rows.len(), 300);
    assert_eq!(names(), BTreeSet::from(["metrics.parquet".to_owned()]), "temporary files are gone");
}

#[test]
fn a_damaged_file_is_an_error_that_names_it() {
    let (_temporary, folder, day) = folder();
    folder.writer::<MetricsRow>(day, &OPTIONS).expect("a folder").finish().expect("room");
    fs::write(file_of(&folder, day), b"PAR1 and nothing else").expect("a file");
    let error = folder.read::<MetricsRow>(day..=day, &[]).expect_err("damaged");
    assert!(error.to_string().contains("metrics.parquet"), "{error}");
    assert!(FleetFolder::open(&folder.path().join("nowhere")).is_err());
    fs::create_dir(folder.path().join("day=2026-02-31")).expect("a folder");
    assert_eq!(folder.days().expect("a folder"), [day], "what is no day is ignored");
}

#[test]
fn missing_columns_and_values_are_null_at_their_rate() {
    let (_temporary, folder, _) = folder();
    let missing = Missing { value_share: 0.1, old_version_share: 0.0, column_share: 0.5 };
    let cause = PlantedCause {
        key: "thp.enabled".to_owned(),
        value: "never".to_owned(),
        usual: "always".to_owned(),
        hosts: 5,
        from_day: 3,
        slowdowns: vec![Slowdown { metric: "load.iops".to_owned(), component: "run.user".to_owned(), pct: 5.0 }],
    };
    let plan = FleetPlan { missing, causes: vec![cause], ..FleetPlan::new(3, 50, 20) };
    let first = plan.first_day;
    let fleet = Fleet::of(plan).expect("a plan");
    let written = fleet.write(&folder, &OPTIONS).expect("room");
    // Three of five tables may lack a column: 60 files.
    assert!((18..=42).contains(&written.columns_missing), "{}", written.columns_missing);
    let all = first..=first.after(19);
    let metrics = folder.read::<MetricsRow>(all.clone(), &[]).expect("files").rows;
    let nulls = metrics.iter().filter(|row| row.value.is_none()).count() as f64 / metrics.len() as f64;
    assert!((0.08..0.12).contains(&nulls), "{nulls}");
    let without = metrics.iter().filter(|row| row.unit.is_none() || row.direction.is_none()).count();
    assert!(without > 0 && without < metrics.len());
    assert!(metrics.iter().all(|row| row.host.is_some() && row.name.is_some()));
    // One row per host at first, and one per change: on the fourth day, of the five.
    let settings = folder.read::<SettingsRow>(all, &[]).expect("files").rows;
    let never: BTreeSet<_> = settings
        .iter()
        .filter(|row| row.value.as_deref() == Some("never"))
        .collect::<Vec<_>>()
        .iter()
        .map(|row| row.host.clone())
        .collect();
    assert_eq!((settings.len(), never.len()), (55, 5));
    let changed = first.after(3).start_ns();
    assert!(settings.iter().all(|row| (row.start_ns >= Some(changed)) == (row.value.as_deref() == Some("never"))));
}

#[test]
fn plans_that_make_no_fleet_are_refused_with_their_range() {
    let plan = || FleetPlan::new(1, 10, 2);
    let refused = |plan: FleetPlan| Fleet::of(plan).expect_err("no fleet").to_string();
    assert!(refused(FleetPlan { hosts: 0, ..plan() }).contains("1 to 10000"));
    assert!(
        refused(FleetPlan { hosts: 10_001, ..plan() }).contains("found")
            || refused(FleetPlan { hosts: 10_001, ..plan() }).contains("10001")
    );
    assert!(refused(FleetPlan { days: 0, ..plan() }).contains("days"));
    assert!(refused(FleetPlan { runs_per_day: [3, 2], ..plan() }).contains("runs a day"));
    assert!(refused(FleetPlan { host_sd: -0.1, ..plan() }).contains("standard deviation"));
    assert!(refused(FleetPlan { groups: Vec::new(), ..plan() }).contains("groups"));
    assert!(
        refused(FleetPlan { missing: Missing { value_share: 1.5, ..Missing::default() }, ..plan() }).contains("share")
    );
    let cause = |metric: &str, key: &str| PlantedCause {
        key: key.to_owned(),
        value: "1".to_owned(),
        usual: "0".to_owned(),
        hosts: 1,
        from_day: 0,
        slowdowns: vec![Slowdown { metric: metric.to_owned(), component: "run.user".to_owned(), pct: 5.0 }],
    };
    assert!(refused(FleetPlan { causes: vec![cause("nothing", "a")], ..plan() }).contains("metric of a slowdown"));
    let twice = vec![cause("load.iops", "a"), cause("load.iops", "a")];
    assert!(refused(FleetPlan { causes: twice, ..plan() }).contains("each setting once"));
}

/// The names of the default plan are words of the vocabulary.
#[test]
fn simulated_names_are_of_the_vocabulary() {
    let plan = FleetPlan::new(1, 1, 1);
    for metric in &plan.metrics {
        let known = pagelab_vocab::metrics::metric(&metric.name).unwrap_or_else(|| panic!("{}", metric.name));
        assert_eq!(known.direction, metric.direction, "{}", metric.name);
    }
    for component in &plan.components {
        assert!(pagelab_vocab::budget::component_of(&component.name).is_some(), "{}", component.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rows in any order, more than are held in memory, come out as a stable sort in memory would have them.
    #[test]
    fn sorted_in_parts_is_sorted(rows in prop::collection::vec((0..5_u32, 0..4_u32, prop::option::of(-3..3_i64)), 0..400)) {
        let (_temporary, folder, day) = folder();
        let mut expected = Vec::new();
        let mut writer = folder.sorting_writer::<MetricsRow>(day, &OPTIONS).expect("a folder");
        for (at, (name, host, start_ns)) in rows.iter().enumerate() {
            let row = MetricsRow { start_ns: *start_ns, value: Some(at as f64), ..row(&name.to_string(), *host, 0) };
            expected.push(row.clone());
            writer.push(row).expect("room");
        }
        expected.sort_by(Row::order);
        prop_assert_eq!(writer.finish().expect("room"), rows.len() as u64);
        prop_assert_eq!(folder.read::<MetricsRow>(day..=day, &[]).expect("a file").rows, expected);
    }
}
