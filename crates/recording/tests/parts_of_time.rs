//! Recordings of which only the last is kept, and readers that are given a part of the time.

use std::time::Duration;

use pagelab_recording::tables::{FaultsRow, FramesRow, MarksRow, MetricsRow, StacksRow, TasksRow};
use pagelab_recording::{Bound, Bounds, Error, Manifest, Recording, RecordingWriter, Span, WriterOptions, check};

const SECOND: i64 = 1_000_000_000;

fn fault(ts: i64) -> FaultsRow<'static> {
    FaultsRow { ts, task_id: 1, mm_id: 1, addr: 4096, ip: 1, error_code: Some(6), ..FaultsRow::default() }
}

/// Ten seconds with a fault and a metric each half second and a task at the start; `last` is what is kept.
fn ten_seconds(dir: &std::path::Path, last: Option<Duration>, compact: bool) -> (Option<i64>, Recording) {
    let options = WriterOptions { keep_last: last, compact, ..WriterOptions::default() };
    let mut writer = RecordingWriter::create(dir, Manifest::default(), options).expect("a recording");
    writer.push(&TasksRow { ts: 1, op: "snapshot", task_id: 1, tid: 7, pid: 7, ..TasksRow::default() });
    for half in 0..20 {
        let ts = half * SECOND / 2;
        writer.push(&fault(ts));
        writer.push(&MetricsRow { ts, name: "vmstat.x", instance: None, value: Some(half as f64) });
        if half % 8 == 4 {
            writer.push(&MarksRow { ts, name: "often", source: "mark" });
        }
        writer.flush(ts).expect("a part");
    }
    let since = writer.kept_since_ns();
    writer.close(|_| {}).expect("a clean end");
    (since, Recording::open(dir).expect("it can be read"))
}

fn fault_times(recording: &Recording) -> Vec<i64> {
    let mut times = Vec::new();
    recording.for_each::<FaultsRow>(|row| times.push(row.ts)).expect("faults");
    times
}

#[test]
fn a_flight_recorder_keeps_at_least_the_last_seconds_of_events_and_all_of_the_state() {
    for compact in [false, true] {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("r");
        let (since, recording) = ten_seconds(&dir, Some(Duration::from_secs(2)), compact);
        // The last part is of 9.5 s: what is older than 7.5 s is gone.
        assert_eq!(since, Some(7 * SECOND));
        assert_eq!(fault_times(&recording), [15, 16, 17, 18, 19].map(|half| half * SECOND / 2));
        assert_eq!(recording.rows("metrics").expect("metrics"), 5);
        assert_eq!(recording.rows("tasks").expect("tasks"), 1, "state does not age");
        assert_eq!(recording.rows("marks").expect("marks"), 2, "neither do marks");
        // Parts missing from the middle of the numbers are no damage. No probe has reported loss here.
        let problems = check(&dir).expect("it can be checked").problems;
        let other = problems.iter().find(|one| one.id != "manifest.key" && one.id != "loss.unknown");
        assert!(other.is_none(), "{other:?}");
    }
}

/// A hundred ticks with a new stack each; the parts of `stacks` and `frames` then, and the ids in them.
fn hundred_stacks(options: WriterOptions) -> [(usize, Vec<u64>); 2] {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r");
    let mut writer = RecordingWriter::create(&dir, Manifest::default(), options).expect("a recording");
    for id in 0..100 {
        writer.push(&FramesRow { frame_id: id, module: Some(b"/bin/true"), ..FramesRow::default() });
        writer.push(&StacksRow { stack_id: id, frame_ids: &[id] });
        writer.flush(id as i64 * SECOND).expect("a part");
    }
    // As a kill leaves it.
    std::mem::forget(writer);
    let recording = Recording::open(&dir).expect("it can be read");
    let (mut stacks, mut frames) = (Vec::new(), Vec::new());
    recording.for_each::<StacksRow>(|row| stacks.push(row.stack_id)).expect("stacks");
    recording.for_each::<FramesRow>(|row| frames.push(row.frame_id)).expect("frames");
    let parts = |table| recording.parts(table).expect("a folder").len();
    [(parts("stacks"), stacks), (parts("frames"), frames)]
}

#[test]
fn the_small_parts_of_a_flight_recorder_are_put_together() {
    let last = WriterOptions { keep_last: Some(Duration::from_secs(2)), ..WriterOptions::default() };
    for (options, expected) in [(last, 3 + 100 % 32), (WriterOptions::default(), 100)] {
        for (parts, mut ids) in hundred_stacks(options) {
            ids.sort_unstable();
            assert_eq!(ids, (0..100).collect::<Vec<u64>>(), "each row once");
            assert_eq!(parts, expected);
        }
    }
}

#[test]
fn without_a_time_to_keep_everything_is_kept() {
    let tmp = tempfile::tempdir().expect("a directory");
    let (since, recording) = ten_seconds(&tmp.path().join("r"), None, true);
    assert_eq!((since, fault_times(&recording).len()), (None, 20));
}

#[test]
fn readers_are_given_the_events_of_a_span_and_all_of_the_state() {
    let tmp = tempfile::tempdir().expect("a directory");
    let (_, recording) = ten_seconds(&tmp.path().join("r"), None, true);
    let part = recording.clone().within(Span { from_ns: SECOND, to_ns: 3 * SECOND });
    let expected = [2, 3, 4, 5].map(|half| half * SECOND / 2);
    assert_eq!(fault_times(&part), expected, "the end is not in it");
    let mut sorted = Vec::new();
    for batch in part.read_sorted("faults", Some(&["addr", "ts"])).expect("faults") {
        let batch = batch.expect("a batch");
        assert_eq!(batch.num_columns(), 2);
        sorted.push(batch.num_rows());
    }
    assert_eq!(sorted.iter().sum::<usize>(), 4);
    // A column that was not asked for is not given, though it decides.
    let mut values = 0;
    for batch in part.read("metrics", Some(&["value"])).expect("metrics") {
        let batch = batch.expect("a batch");
        assert_eq!(batch.schema().fields().len(), 1);
        values += batch.num_rows();
    }
    assert_eq!(values, 4);
    let mut tasks = 0;
    part.for_each::<TasksRow>(|_| tasks += 1).expect("tasks");
    assert_eq!(tasks, 1, "a task from before the span is needed to read it");
}

#[test]
fn bounds_are_seconds_or_marks() {
    let tmp = tempfile::tempdir().expect("a directory");
    let (_, recording) = ten_seconds(&tmp.path().join("r"), None, true);
    let bounds = |from: &str, to: &str| {
        let bound = |text: &str| (!text.is_empty()).then(|| text.parse::<Bound>().expect("a bound"));
        Bounds { from: bound(from), to: bound(to) }.of(&recording)
    };
    assert_eq!(bounds("", "").expect("all"), Span::default());
    assert_eq!(bounds("1.5", "").expect("from").from_ns, 3 * SECOND / 2);
    let marks = bounds("often", "often").expect("first to last");
    assert_eq!((marks.from_ns, marks.to_ns), (2 * SECOND, 6 * SECOND));
    assert!(matches!(bounds("5", "4"), Err(Error::EmptySpan { .. })));
    let unknown = bounds("nowhere", "").expect_err("no such mark");
    assert!(matches!(unknown, Error::NoSuchMark { .. }) && unknown.to_string().contains("often"), "{unknown}");
    for wrong in ["", "inf", "1e300"] {
        assert!(wrong.parse::<Bound>().is_err(), "{wrong:?}");
    }
    for text in ["2.5", "-0.25", "1e-9", "0", "warm"] {
        let bound: Bound = text.parse().expect("a bound");
        assert_eq!(bound.to_string().parse::<Bound>().expect("as it was written"), bound);
    }
}

/// What lies outside of the span is not even decoded: a byte of it that is damaged is not seen.
#[test]
fn of_a_part_of_the_time_only_its_row_groups_are_read() {
    let tmp = tempfile::tempdir().expect("a directory");
    let (_, recording) = ten_seconds(&tmp.path().join("r"), None, false);
    let parts = recording.parts("faults").expect("parts");
    let first = parts.first().expect("a part a half second");
    let mut bytes = std::fs::read(first).expect("it can be read");
    bytes[6] ^= 0xff;
    std::fs::write(first, bytes).expect("ours");
    let times = |span| {
        let part = recording.clone().within(span);
        let mut times = Vec::new();
        part.for_each::<FaultsRow>(|row| times.push(row.ts)).map(|()| times)
    };
    assert!(times(Span { from_ns: 0, to_ns: 2 * SECOND }).is_err(), "its damage shows where it is read");
    let late = times(Span { from_ns: 8 * SECOND, to_ns: 9 * SECOND }).expect("the damage is elsewhere");
    assert_eq!(late, [8 * SECOND, 8 * SECOND + SECOND / 2]);
}
