//! Recordings become tables, and tables answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pagelab_analysis::compare::Verdict;
use pagelab_fleet::answers::{
    Difference, DifferenceQuestion, Question, difference, drifting, outlying, over_days, summary,
};
use pagelab_fleet::compact::{CompactOptions, Compacted, HostLabels, compact};
use pagelab_fleet::drift::DriftOptions;
use pagelab_fleet::outliers::OutlierOptions;
use pagelab_fleet::rollup::{Day, FleetFolder, LabelsRow, MetricsRow, Row, RunsRow, SettingsRow, WriteOptions};
use pagelab_fleet::{FleetError, Result};
use pagelab_output::Sync;
use pagelab_recording::tables::{JobsRow, LossRow, MetricsRow as MetricRow, SettingsRow as Setting, WaitsRow};
use pagelab_recording::{Clock, Exit, Manifest, RecordingWriter, WriterOptions};

const DAY_NS: i64 = 86_400_000_000_000;
const FIRST: &str = "2026-03-01";
const HOSTS: i64 = 12;

fn first_ns() -> i64 {
    FIRST.parse::<Day>().expect("a day").start_ns()
}

/// One run of a host.
#[derive(Clone)]
struct Run {
    host: i64,
    start_ns: i64,
    elapsed_ms: i64,
    thp: &'static str,
    exit: i32,
    is_complete: bool,
}

impl Run {
    /// Hosts of odd numbers have no huge pages and take a fifth longer. Each host has a level of its own, and each run a bit more.
    fn of(host: i64, day: i64, run: i64) -> Self {
        let is_slow = host % 2 == 1;
        let own = 1000 + 7 * (host * 5 % 12) + (run * 3 + host + day) % 5;
        Self {
            host,
            start_ns: first_ns() + day * DAY_NS + run * 3_600_000_000_000 + host * 1_000_000_000,
            elapsed_ms: if is_slow { own * 6 / 5 } else { own },
            thp: if is_slow { "never" } else { "always" },
            exit: 0,
            is_complete: true,
        }
    }

    fn write(&self, dir: &Path) -> PathBuf {
        let path = dir.join(format!("host-{:02}/{:x}.rec", self.host, self.start_ns));
        let measured = serde_json::json!({"start_ns": 0, "end_ns": self.elapsed_ms * 1_000_000, "operations": null, "source": "command"});
        let manifest = Manifest {
            host: Some(format!("h{:02}", self.host)),
            boot_id: Some("4f8a1c22-0000".to_owned()),
            kernel: Some("6.12.0".to_owned()),
            command: Some(vec!["work".to_owned()]),
            exit: Some(Exit { code: Some(self.exit), ..Exit::default() }),
            clock: Clock {
                id: "CLOCK_MONOTONIC".to_owned(),
                start_ns: self.start_ns / 7,
                realtime_at_start_ns: Some(self.start_ns),
                ..Clock::default()
            },
            extra: [("measured".to_owned(), measured)].into_iter().collect(),
            ..Manifest::default()
        };
        let options = WriterOptions { compact: false, ..WriterOptions::default() };
        let mut writer = RecordingWriter::create(&path, manifest, options).expect("a recording");
        for (key, value) in [("thp.enabled", self.thp), ("sysctl.vm.swappiness", "60")] {
            writer.push(&Setting { ts: 0, key, value: Some(value), source: "test", at: "start" });
        }
        writer.close(|_| {}).expect("a clean end");
        if !self.is_complete {
            set_complete(&path, false);
        }
        path
    }
}

fn set_complete(recording: &Path, is_complete: bool) {
    // Not by an edit of the file: one is found by its checksum.
    let mut manifest = Manifest::load(recording).expect("a manifest");
    manifest.complete = is_complete;
    manifest.rewrite(recording).expect("room");
}

struct World {
    temporary: tempfile::TempDir,
    fleet: FleetFolder,
}

impl World {
    fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a folder");
        let fleet = FleetFolder::create(&temporary.path().join("fleet")).expect("a folder");
        Self { temporary, fleet }
    }

    fn recordings(&self) -> PathBuf {
        self.temporary.path().join("recordings")
    }

    fn record(&self, runs: impl IntoIterator<Item = Run>) {
        for run in runs {
            run.write(&self.recordings());
        }
    }

    fn compact(&self) -> Compacted {
        self.try_compact().expect("a fleet")
    }

    fn try_compact(&self) -> Result<Compacted> {
        let labels = (0..HOSTS).map(|host| format!("h{host:02},m{}\n", host % 3));
        let labels =
            HostLabels::parse(&std::iter::once("host,instance_type\n".to_owned()).chain(labels).collect::<String>());
        let options = CompactOptions {
            labels: labels.expect("a table"),
            write: WriteOptions { max_buffered_rows: 64, sync: Sync::No, ..WriteOptions::default() },
        };
        let now_ns = first_ns() + 30 * DAY_NS;
        // As every command does: with its own view of the folder.
        let fleet = FleetFolder::open(self.fleet.path())?;
        compact(&[self.recordings()], &fleet, &options, now_ns)
    }

    fn read<R: Row>(&self) -> Vec<R> {
        let fleet = FleetFolder::open(self.fleet.path()).expect("a folder");
        let days = fleet.days().expect("days");
        fleet.read(days[0]..=days[days.len() - 1], &[]).expect("tables").rows
    }

    fn difference(&self, label: &str) -> Result<Difference> {
        let question = DifferenceQuestion {
            label: label.to_owned(),
            alpha: 0.05,
            all_metrics: true,
            ..DifferenceQuestion::default()
        };
        difference(&self.fleet, &question)
    }
}

/// Three days with two runs of each host on each.
fn three_days() -> impl Iterator<Item = Run> {
    (0..3).flat_map(|day| (0..2).flat_map(move |run| (0..HOSTS).map(move |host| Run::of(host, day, run))))
}

#[test]
fn recordings_are_compacted_once_and_answer_questions() {
    let world = World::new();
    world.record(three_days());
    let done = world.compact();
    assert_eq!(
        (done.found, done.added, done.unchanged, done.left_out.len(), done.days.len()),
        (72, 72, 0, 0, 3),
        "{done:?}"
    );
    assert_eq!(done.rows["settings"], 4 * 12, "two settings and two of the command: they stand where they change");
    let again = world.compact();
    assert_eq!((again.added, again.unchanged, again.days.len()), (0, 72, 0), "{again:?}");
    let elapsed: Vec<MetricsRow> =
        world.read::<MetricsRow>().into_iter().filter(|row| row.name.as_deref() == Some("run.elapsed_ns")).collect();
    assert_eq!(elapsed.len(), 72);
    let truth: BTreeMap<(String, i64), f64> =
        three_days().map(|run| ((format!("h{:02}", run.host), run.start_ns), run.elapsed_ms as f64 * 1e6)).collect();
    for row in &elapsed {
        let key = (row.host.as_deref().expect("a host").to_owned(), row.start_ns.expect("a time"));
        assert_eq!(row.value, Some(truth[&key]), "{row:?}");
    }
    let found = world.difference("thp").expect("an answer");
    assert_eq!((found.base.as_str(), found.test.as_str(), found.primary.verdict), ("always", "never", Verdict::Worse));
    let [low, high] = found.primary.comparison.pct_ci95().expect("tested");
    assert!(low < 20.0 && 20.0 < high && high - low < 15.0, "{low} {high}");
    let keys: Vec<(&str, f64)> = found.settings.iter().map(|one| (one.key.as_str(), one.agreement)).collect();
    assert_eq!(keys, [("thp.enabled", 1.0)]);
    // The example is a run whose value is that of its side, about.
    let [_, Some(test)] = &found.examples else { panic!("{:?}", found.examples) };
    let of_odd_host = test.split("host-").nth(1).and_then(|rest| rest.get(..2)?.parse::<i64>().ok());
    assert_eq!(of_odd_host.map(|host| host % 2), Some(1), "{test}");
    let none = world.difference("instance_type").expect_err("three values");
    assert!(
        none.to_string().contains("m0 (4 hosts), m1 (4 hosts), m2 (4 hosts)") && none.to_string().contains("BASE,TEST"),
        "{none}"
    );
}

#[test]
fn the_other_questions_read_the_same_tables() {
    let world = World::new();
    world.record((0..12).flat_map(|day| {
        (0..HOSTS).map(move |host| {
            let run = Run::of(2 * host, day, 0);
            // From the seventh day on all take a tenth longer; one host always takes twice as long.
            let elapsed_ms = run.elapsed_ms * if day >= 6 { 11 } else { 10 } * if host == 5 { 2 } else { 1 } / 10;
            Run { host, elapsed_ms, ..run }
        })
    }));
    world.compact();
    let asked = Question::default();
    let summed = summary(&world.fleet, &asked).expect("an answer");
    assert_eq!((summed.hosts, summed.runs, summed.days_with_runs), (12, 144, 12));
    let types: Vec<(&str, usize)> = summed
        .labels
        .iter()
        .find(|label| label.name == "instance_type")
        .map(|label| label.values.iter().map(|value| (value.value.as_str(), value.hosts)).collect())
        .expect("the table's label");
    assert_eq!(types, [("m0", 4), ("m1", 4), ("m2", 4)]);
    let out = outlying(&world.fleet, &asked, &OutlierOptions::default()).expect("an answer");
    let names: Vec<&str> =
        out.hosts.deviations.iter().filter(|one| one.is_outlier).map(|one| one.host.as_str()).collect();
    assert_eq!(names, ["h05"]);
    let detect = pagelab_analysis::trend::DetectOptions::default();
    let days = over_days(&world.fleet, &asked, detect).expect("an answer");
    let places: Vec<usize> = days.course.trend.change_points.iter().map(|change| change.after).collect();
    assert_eq!(places, [6]);
    let drift = drifting(&world.fleet, &asked, &DriftOptions::default()).expect("an answer");
    assert!(drift.settings.settings.is_empty(), "nothing differs: {drift:?}");
    let missing = summary(&world.fleet, &Question { metric: Some("run.elapsed_n".to_owned()), ..Question::default() });
    let missing = missing.expect_err("misspelt").to_string();
    assert!(missing.contains("run.elapsed_ns"), "{missing}");
    let later = Question { from: Some("2027-01-01".parse().expect("a day")), ..Question::default() };
    let later = summary(&world.fleet, &later).expect_err("no such days").to_string();
    assert!(later.contains("days from 2026-03-01 to 2026-03-12") && later.contains("pagelab fleet compact"), "{later}");
}

#[test]
fn runs_that_come_late_or_were_not_whole_are_put_right() {
    let world = World::new();
    let run = |day, thp| Run { thp, ..Run::of(0, day, 0) };
    world.record([run(0, "always"), run(4, "always")]);
    let failed = Run { exit: 1, ..Run::of(1, 0, 0) };
    let being_made = Run { is_complete: false, ..Run::of(2, 0, 0) };
    world.record([failed, being_made.clone()]);
    let done = world.compact();
    assert_eq!((done.added, done.excluded), (4, 2), "{done:?}");
    assert_eq!(world.read::<LabelsRow>().iter().filter(|row| row.name.as_deref() == Some("kernel")).count(), 2);
    let excluded = |rows: Vec<RunsRow>| rows.into_iter().filter(|row| row.excluded.is_some()).count();
    assert_eq!(excluded(world.read()), 2);
    // It is whole now; and a run of the day between comes late, in which the setting was another one.
    let path = world.recordings().join(format!("host-02/{:x}.rec", being_made.start_ns));
    set_complete(&path, true);
    world.record([run(2, "never")]);
    // The day behind it gets a row: what a store said of its tables holds no more.
    let document = world.fleet.path().join("day=2026-03-05/complete.json");
    fs::write(&document, "{}").expect("room");
    let done = world.compact();
    assert!(!document.exists(), "its tables were changed");
    assert_eq!((done.added, done.unchanged), (2, 3), "{done:?}");
    assert_eq!(excluded(world.read()), 1);
    assert_eq!(world.read::<RunsRow>().len(), 5);
    let mut thp: Vec<(i64, String)> = world
        .read::<SettingsRow>()
        .into_iter()
        .filter(|row| row.key.as_deref() == Some("thp.enabled") && row.host.as_deref() == Some("h00"))
        .map(|row| {
            ((row.start_ns.expect("a time") - first_ns()) / DAY_NS, row.value.expect("a value").as_ref().to_owned())
        })
        .collect();
    thp.sort();
    let expected = [(0, "always"), (2, "never"), (4, "always")].map(|(day, value)| (day, value.to_owned()));
    assert_eq!(thp, expected, "the run behind it says again what held for it");
}

#[test]
fn what_cannot_be_added_is_named_and_nothing_else_is_lost() {
    let world = World::new();
    world.record([Run::of(0, 0, 0), Run::of(1, 0, 0)]);
    // A copy, a manifest that is no JSON, one without a time, one of a later format, one from the future.
    let good = world.recordings().join(format!("host-00/{:x}.rec", Run::of(0, 0, 0).start_ns));
    for name in ["copy", "torn", "timeless", "later"] {
        let folder = world.recordings().join("z-bad").join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let manifest = fs::read_to_string(good.join("manifest.json")).expect("a manifest");
        let mut document: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        match name {
            "timeless" => _ = document["clock"].as_object_mut().expect("a clock").remove("realtime_at_start_ns"),
            "later" => document["format"] = 99.into(),
            _ => {}
        }
        let text = if name == "torn" { manifest[..manifest.len() / 2].to_owned() } else { document.to_string() };
        fs::write(folder.join("manifest.json"), text).expect("room");
    }
    world.record([Run { start_ns: first_ns() + 400 * DAY_NS, ..Run::of(3, 0, 0) }]);
    let done = world.compact();
    assert_eq!((done.found, done.added, done.left_out.len()), (7, 3, 4), "{done:?}");
    let reason = |name: &str| {
        let one = done.left_out.iter().find(|one| one.dir.ends_with(name));
        one.map_or_else(|| panic!("{name}: {done:?}"), |one| one.reason.clone())
    };
    assert!(reason("copy").contains("the same recording as"), "{}", reason("copy"));
    assert!(reason("timeless").contains("realtime_at_start_ns"), "{}", reason("timeless"));
    assert!(reason("later").contains("99"), "{}", reason("later"));
    assert!(reason("torn").contains("manifest.json"), "{}", reason("torn"));
    assert!(done.notes.iter().any(|note| note.contains("future") && note.contains("h03")), "{:?}", done.notes);
}

/// A recording of another host with numbers that no host has.
fn hostile(dir: &Path, number: i64) -> PathBuf {
    let run = Run::of(number, 0, 0);
    let path = run.write(&dir.join("of-before"));
    let manifest = Manifest::load(&path).expect("a manifest");
    let manifest = Manifest { rollups: BTreeMap::new(), parts: None, ..manifest };
    let path = dir.join(format!("hostile-{number}.rec"));
    let mut writer = RecordingWriter::create(&path, manifest, WriterOptions::default()).expect("a recording");
    for ts in [i64::MIN, i64::MAX] {
        match number % 5 {
            0 => {
                writer.push(&LossRow { ts: 1, stream: "faults", seen: u64::MAX, lost: u64::MAX, ..LossRow::default() });
            }
            1 => writer.push(&MetricRow { ts, name: "vmstat.pgfault", instance: None, value: Some(1.0) }),
            2 => writer.push(&Setting { ts, key: "thp.enabled", value: Some("x"), source: "test", at: "start" }),
            3 => writer.push(&WaitsRow { ts, task_id: Some(1), state: "run", ns: u64::MAX, ..WaitsRow::default() }),
            _ => writer.push(&JobsRow {
                ts,
                job: "j",
                direction: "read",
                ios: u64::MAX,
                bytes: u64::MAX,
                ..JobsRow::default()
            }),
        }
    }
    writer.close(|_| {}).expect("a clean end");
    path
}

/// One absurd number in the recording of one host ended the compaction of all, and no table was made.
#[test]
fn five_hostile_recordings_of_a_hundred_are_named_and_the_others_compacted() {
    let world = World::new();
    world.record((0..95).map(|host| Run::of(host, 0, 0)));
    let bad: Vec<PathBuf> = (100..105).map(|number| hostile(&world.recordings(), number)).collect();
    fs::remove_dir_all(world.recordings().join("of-before")).expect("ours");
    let done = world.compact();
    assert_eq!((done.found, done.added, done.excluded), (100, 95, 0), "{done:?}");
    assert_eq!(world.read::<RunsRow>().len(), 95);
    for dir in &bad {
        let named = done.left_out.iter().find(|one| one.dir == *dir);
        assert!(named.is_some_and(|one| one.reason.contains("column")), "{}: {:?}", dir.display(), done.left_out);
    }
    assert_eq!(done.left_out.len(), 5);
}

#[test]
fn a_reader_keeps_the_day_that_it_began_with() {
    let world = World::new();
    world.record((0..3).map(|host| Run::of(host, 0, 0)));
    world.compact();
    let day: Day = FIRST.parse().expect("a day");
    let held = FleetFolder::open(world.fleet.path()).expect("a folder");
    let before = held.read::<RunsRow>(day..=day, &[]).expect("tables").rows.len();
    world.record((3..6).map(|host| Run::of(host, 0, 0)));
    world.compact();
    let labels = held.read::<LabelsRow>(day..=day, &[]).expect("tables").rows;
    let ids: std::collections::BTreeSet<_> = labels.iter().filter_map(|row| row.recording_id.clone()).collect();
    assert_eq!((before, ids.len()), (3, 3), "tables of one compaction");
    assert_eq!(world.read::<RunsRow>().len(), 6);
}

/// Whoever can write the folder could put days there that no host has had.
#[test]
fn a_fleet_that_others_can_write_is_left_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.record([Run::of(0, 0, 0)]);
    let set = |mode| fs::set_permissions(world.fleet.path(), fs::Permissions::from_mode(mode)).expect("ours");
    for mode in [0o775, 0o757, 0o1777] {
        set(mode);
        let refused = world.try_compact().expect_err("others can write it");
        let is_said = matches!(refused, FleetError::Output(pagelab_output::Error::WritableByOthers { .. }));
        assert!(is_said, "{mode:o}: {refused}");
        assert_eq!(fs::read_dir(world.fleet.path()).expect("ours").count(), 0, "{mode:o}");
    }
    set(0o700);
    assert_eq!(world.compact().added, 1);
}

#[test]
fn a_compaction_that_was_broken_off_leaves_the_day_and_another_waits() {
    let world = World::new();
    world.record([Run::of(0, 0, 0)]);
    world.compact();
    let left = world.fleet.path().join(".new-day=2026-03-01");
    assert!(!left.exists() || left.is_dir());
    fs::create_dir_all(left.join("x")).expect("a folder");
    fs::write(left.join("x/metrics.parquet"), "half").expect("room");
    world.record([Run::of(1, 0, 0)]);
    assert_eq!(world.compact().added, 1);
    assert_eq!(world.read::<RunsRow>().len(), 2);
    let lock = fs::File::options().write(true).open(world.fleet.path().join(".compact.lock")).expect("a lock");
    lock.lock().expect("free");
    let busy = world.try_compact().expect_err("held");
    assert!(matches!(busy, FleetError::Busy { .. }), "{busy}");
}
