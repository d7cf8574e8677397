//! What a recording says in numbers: identities that hold whatever the data (windows that adjoin add up, parts of a count
//! make the whole, a mean lies between the extremes), on recordings written by the real writer.

#![allow(clippy::unwrap_used)]

mod run_support;

use std::path::Path;

use pagelab_recording::tables::{JobsRow, LatencyRow, LossRow, MarksRow, TasksRow};
use pagelab_recording::{Bounds, Exit, Manifest, RecordingWriter, WriterOptions};
use pagelab_views::ViewError;
use pagelab_views::run::{Exclusion, RunData, WindowSource};
use proptest::prelude::*;
use run_support::{SECOND, command, fault, job, record, sample};
use serde_json::json;

fn load(manifest: Manifest, fill: impl FnOnce(&mut RecordingWriter)) -> RunData {
    let tmp = tempfile::tempdir().unwrap();
    RunData::load(&record(&tmp.path().join("r"), manifest, fill)).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (a.abs() + b.abs() + 1e-9)
}

/// A counter that grows evenly has the same rate whatever the window and the times of the samples.
#[test]
fn an_even_counter_has_its_slope_in_any_window() {
    for (start, end) in
        [(0, 10 * SECOND), (3, 7 * SECOND + 77), (SECOND / 3, SECOND * 2 / 3), (5 * SECOND, 5 * SECOND + 1000)]
    {
        let run = load(job(start, end, 500), |w| {
            let mut ts = -SECOND / 7;
            while ts < 11 * SECOND {
                sample(w, ts, "vmstat.pgfault", 1e6 + 40.0 * ts as f64 / 1e9);
                ts += SECOND / 10 + ts.rem_euclid(1234);
            }
        });
        let metric = run.metric("vmstat.pgfault", None).unwrap();
        let seconds = (end - start) as f64 / 1e9;
        assert!((metric.value.unwrap() - 40.0).abs() < 1e-5, "{metric:?}");
        assert!((metric.events.unwrap() - 40.0 * seconds).abs() < 1e-5 * seconds.max(1.0));
        assert!((metric.per_operation.unwrap() - 40.0 * seconds / 500.0).abs() < 1e-6);
    }
}

/// The sampler writes no row for a value that has not changed. That another series of the same file has a row shows that
/// the file was read, so the change lies after that reading.
#[test]
fn a_change_lies_after_the_last_reading_that_did_not_see_it() {
    let fill = |w: &mut RecordingWriter| {
        for tenth in 0..=20 {
            let ts = tenth * SECOND / 10;
            sample(w, ts, "vmstat.pgalloc_normal", tenth as f64);
            if tenth == 0 {
                sample(w, ts, "vmstat.pgfault", 1000.0);
            }
            if tenth == 15 {
                sample(w, ts, "vmstat.pgfault", 1300.0);
            }
        }
    };
    let events = |start: i64, end: i64| {
        let run = load(job(start, end, 1), fill);
        run.metric("vmstat.pgfault", None).unwrap().events.unwrap()
    };
    assert!(close(events(0, 14 * SECOND / 10), 0.0));
    assert!(close(events(14 * SECOND / 10, 15 * SECOND / 10), 300.0));
    assert!(close(events(SECOND, 2 * SECOND), 300.0));
    assert!(close(events(SECOND, SECOND + 9 * SECOND / 20), 150.0), "half of the tenth in which it changed");
}

#[test]
fn a_reset_counts_from_zero_and_a_small_step_back_is_a_correction() {
    let run = load(job(0, 10 * SECOND, 1), |w| {
        for (second, value) in
            [500.0, 700.0, 900.0, 50.0, 150.0, 250.0, 251.0, 252.0, 253.0, 254.0, 255.0].into_iter().enumerate()
        {
            sample(w, second as i64 * SECOND, "disk.reads", value);
        }
        for (second, value) in [(0, 1000.0), (3, 1010.0), (6, 1009.0), (10, 1020.0)] {
            sample(w, second * SECOND, "cpu.iowait_ns", value);
        }
    });
    let reads = run.metric("disk.reads", None).unwrap();
    assert!(close(reads.events.unwrap(), 400.0 + 255.0), "{reads:?}");
    assert!(reads.note.as_deref().unwrap().contains("reset 1 times"));
    let iowait = run.metric("cpu.iowait_ns", None).unwrap();
    assert!(close(iowait.events.unwrap(), 20.0), "{iowait:?}: last - first");
}

#[test]
fn a_gauge_is_weighted_by_time_and_holds_until_the_next_row() {
    let run = load(job(SECOND, 5 * SECOND, 1), |w| {
        sample(w, 0, "meminfo.memfree_bytes", 100.0);
        sample(w, 2 * SECOND, "meminfo.memfree_bytes", 200.0);
        sample(w, 3 * SECOND, "meminfo.memfree_bytes", 0.0);
        sample(w, 6 * SECOND, "meminfo.memfree_bytes", 5000.0);
    });
    let free = run.metric("meminfo.memfree_bytes", None).unwrap();
    assert!(close(free.value.unwrap(), (100.0 + 200.0) / 4.0), "{free:?}");
    assert_eq!((free.per_operation, free.events), (None, None));
}

/// Missing is absent with a reason, never 0.
#[test]
fn what_is_not_known_has_no_value_and_a_reason() {
    let run = load(job(0, 10 * SECOND, 1), |w| {
        for second in 0..=10 {
            sample(w, second * SECOND, "vmstat.pgfault", second as f64);
        }
        sample(w, 0, "disk.reads", 1.0);
        sample(w, 2 * SECOND, "disk.reads", None);
        sample(w, 9 * SECOND, "vmstat.pgmajfault", 1.0);
        sample(w, 0, "net.rx_bytes", 7.0);
        sample(w, 0, "psi.io.some_ns", None);
    });
    for (name, reason) in [
        ("disk.reads", "known for 20 %"),
        ("vmstat.pgmajfault", "known for 10 %"),
        ("net.rx_bytes", "1 samples"),
        ("psi.io.some_ns", "samples"),
    ] {
        let metric = run.metric(name, None).unwrap();
        assert_eq!((metric.value, metric.per_operation, metric.events), (None, None, None), "{name}");
        assert!(metric.note.as_deref().unwrap().contains(reason), "{name}: {metric:?}");
    }
    assert!(run.metric("vmstat.nr_dirtied", None).is_none());
}

#[test]
fn faults_by_kind_add_up_and_only_the_window_counts() {
    let fill = |w: &mut RecordingWriter| {
        for i in 0..3000_i64 {
            // Kernel-mode reads, user-mode writes, instruction fetches in turn.
            fault(w, i * 1_000_000, [0, 6, 20][i as usize % 3]);
        }
    };
    let run = load(job(0, 3 * SECOND, 100), fill);
    let count = |run: &RunData, name: &str| run.metric(name, None).unwrap().events.unwrap();
    assert!(close(count(&run, "faults.count"), 3000.0));
    assert!(close(count(&run, "faults.user") + count(&run, "faults.kernel"), 3000.0));
    assert!(close(count(&run, "faults.write"), 1000.0));
    assert!(close(count(&run, "faults.instruction"), 1000.0));
    assert!(close(run.per_operation("faults.count").unwrap(), 30.0));
    assert!(close(run.value("faults.count").unwrap(), 1000.0));
    assert!(run.metric("faults.major", None).is_none(), "major is unknown in these rows");
    let cut = 1_234_567_890;
    let before = load(job(0, cut, 1), fill);
    let after = load(job(cut, 3 * SECOND, 1), fill);
    assert!(close(count(&before, "faults.count") + count(&after, "faults.count"), 3000.0));
}

#[test]
fn a_stream_that_ran_and_saw_nothing_says_zero_and_one_that_did_not_run_says_nothing() {
    let silent = load(job(0, SECOND, 1), |_| {});
    assert!(silent.metric("faults.count", None).is_none());
    let mut manifest = job(0, SECOND, 1);
    let probe = json!({"name": "faults", "state": "active"});
    manifest.probes.push(serde_json::from_value(probe).unwrap());
    let ran = load(manifest, |_| {});
    assert!(close(ran.value("faults.count").unwrap() + 1.0, 1.0));
}

fn jobs_row(job: &str, thread: Option<u32>, ios: u64) -> JobsRow<'_> {
    JobsRow {
        ts: 1,
        job,
        thread,
        direction: "read",
        ios,
        bytes: ios * 4096,
        runtime_ns: 2_000_000_000,
        ..JobsRow::default()
    }
}

#[test]
fn the_load_is_counted_once_whether_by_job_or_by_thread() {
    let run = load(job(0, 2 * SECOND, 5000), |w| {
        w.push_jobs(&jobs_row("a", Some(0), 1000));
        w.push_jobs(&jobs_row("a", Some(1), 1000));
        w.push_jobs(&jobs_row("a", None, 2000));
        w.push_jobs(&jobs_row("b", Some(0), 1500));
        w.push_jobs(&jobs_row("b", Some(1), 1500));
        w.push_jobs(&jobs_row("idle", None, 0));
    });
    let of = |name: &str, instance: Option<&str>| run.metric(name, instance).unwrap().value.unwrap();
    assert!(close(of("load.iops", Some("a/read")), 1000.0));
    assert!(close(of("load.iops", Some("b/read")), 1500.0));
    assert!(close(of("load.iops", None), 2500.0));
    assert!(close(of("load.bw_bytes", None), 2500.0 * 4096.0));
    assert!(close(run.per_operation("load.bytes").unwrap(), 4096.0));
    assert_eq!(run.per_operation("load.ops"), None, "operations per operation say nothing");
    assert!(run.metric("load.iops", Some("idle/read")).is_none());
}

#[test]
fn latency_quantiles_lie_in_their_buckets_and_the_ramp_is_left_out() {
    let run = load(job(10 * SECOND, 12 * SECOND, 100), |w| {
        let mut row = |second: i64, low_ns: u64, high_ns: u64, count: u64| {
            let ts = second * SECOND;
            w.push_latency(&LatencyRow {
                ts,
                job: "a",
                thread: None,
                direction: "read",
                kind: "lat",
                low_ns,
                high_ns,
                count,
            });
        };
        row(9, 1, 1, 1_000_000);
        row(11, 100, 109, 60);
        row(12, 100, 109, 30);
        row(12, 1000, 1099, 10);
    });
    let of = |name: &str| run.value(name).unwrap();
    assert!((100.0..=109.0).contains(&of("load.lat_ns.p50")));
    assert!((1000.0..=1099.0).contains(&of("load.lat_ns.p99")));
    assert!(close(of("load.lat_ns.mean"), (90.0 * 104.5 + 10.0 * 1049.5) / 100.0));
    assert_eq!(run.metric("load.lat_ns.mean", Some("a/read")).unwrap().value, run.value("load.lat_ns.mean"));
}

/// A command run to its end is one piece of work: its counters are totals per run, which a slower run does not lower.
#[test]
fn a_command_is_one_operation_and_has_an_elapsed_time() {
    let mut manifest = command(SECOND, 3 * SECOND);
    let rusage =
        json!({"minor_faults": 321, "utime_ns": 5, "stime_ns": 7, "voluntary_context_switches": 9, "nonsense": 1});
    manifest.extra.insert("rusage".to_owned(), rusage);
    let run = load(manifest, |w| (0..50).for_each(|i| fault(w, SECOND + i, 6)));
    assert_eq!(run.window.source, WindowSource::Command);
    assert!(close(run.value("run.elapsed_ns").unwrap(), 2e9));
    assert!(close(run.value("run.minor_faults").unwrap(), 321.0));
    assert!(close(run.value("run.cpu_ns").unwrap(), 12.0));
    assert!(close(run.value("run.voluntary_switches").unwrap(), 9.0));
    assert!(run.metric("run.nonsense", None).is_none());
    assert!(close(run.per_operation("faults.count").unwrap(), 50.0));
}

#[test]
fn without_measured_the_life_of_the_first_task_is_the_window() {
    let mut manifest = command(0, 0);
    manifest.extra.clear();
    let run = load(manifest.clone(), |w| {
        for (ts, op, task_id) in [(1, "fork", 1), (5, "exec", 1), (6, "exec", 2), (90, "exit", 2), (70, "exit", 1)] {
            w.push_tasks(&TasksRow { ts, op, task_id, ..TasksRow::default() });
        }
        fault(w, 2, 6);
        fault(w, 7, 6);
    });
    assert_eq!((run.window.start_ns, run.window.end_ns, run.window.source), (5, 70, WindowSource::Command));
    assert!(close(run.metric("faults.count", None).unwrap().events.unwrap(), 1.0));
    manifest.command = None;
    let run = load(manifest, |w| (0..20).for_each(|i| sample(w, 100 + i, "vmstat.pgfault", i as f64)));
    assert_eq!((run.window.start_ns, run.window.end_ns, run.window.source), (100, 119, WindowSource::Recording));
    assert!(run.notes.iter().any(|note| note.contains("measured")), "{:?}", run.notes);
}

/// Parts that adjoin make the whole, in counts; what is known of the whole run only is in no part.
#[test]
fn a_part_of_the_time_counts_what_happened_in_it() {
    let tmp = tempfile::tempdir().unwrap();
    let mut manifest = command(0, 10 * SECOND);
    manifest.extra.insert("rusage".to_owned(), json!({"minor_faults": 7, "utime_ns": 5, "stime_ns": 5}));
    let dir = record(&tmp.path().join("r"), manifest, |w| {
        (0..100).for_each(|tenth| fault(w, tenth * SECOND / 10, 6));
        (0..=100).for_each(|tenth| sample(w, tenth * SECOND / 10, "vmstat.pgfault", tenth as f64));
        w.push_marks(&MarksRow { ts: 4 * SECOND, name: "warm", source: "mark" });
    });
    let within = |from: Option<&str>, to: Option<&str>| {
        let bound = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        RunData::load_within(&dir, &Bounds { from: bound(from), to: bound(to) }).unwrap()
    };
    let (whole, before, after) = (within(None, None), within(None, Some("warm")), within(Some("warm"), None));
    assert_eq!((before.window.end_ns, after.window.start_ns), (4 * SECOND, 4 * SECOND));
    for name in ["faults.count", "vmstat.pgfault"] {
        let events = |run: &RunData| run.metric(name, None).unwrap().events.unwrap();
        assert!(close(events(&before), 40.0) && close(events(&after), 60.0), "{name}");
        assert!(close(events(&whole), events(&before) + events(&after)), "{name}");
    }
    assert_eq!((whole.window.operations, after.window.operations), (Some(1.0), None), "half a command is no operation");
    let names = |run: &RunData| run.metrics.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert!(names(&whole).iter().any(|name| name.starts_with("run.")), "{:?}", names(&whole));
    assert!(!names(&after).iter().any(|name| name.starts_with("run.")), "{:?}", names(&after));
    assert!(RunData::load_within(&dir, &Bounds { from: Some("cold".parse().unwrap()), to: None }).is_err());
}

#[test]
fn a_command_recorded_for_a_while_need_not_end_well() {
    let with = |ended_by: &str| {
        let exit = Some(Exit { signal: Some(15), ..Exit::default() });
        let mut manifest = Manifest { exit, ..job(0, 1, 1) };
        manifest.extra.insert("ended_by".to_owned(), json!(ended_by));
        excluded(manifest)
    };
    assert_eq!(with("duration"), None);
    assert_eq!(with("target"), Some(Exclusion::Failed { code: None, signal: Some(15) }));
}

fn excluded(manifest: Manifest) -> Option<Exclusion> {
    load(manifest, |_| {}).excluded
}

#[test]
fn failed_and_broken_off_runs_are_excluded_with_a_reason() {
    assert_eq!(excluded(job(0, 1, 1)), None);
    let with_exit = |exit: Exit| Manifest { exit: Some(exit), ..job(0, 1, 1) };
    let code = Exit { code: Some(3), ..Exit::default() };
    assert_eq!(excluded(with_exit(code)), Some(Exclusion::Failed { code: Some(3), signal: None }));
    let signal = Exit { signal: Some(9), ..Exit::default() };
    assert_eq!(excluded(with_exit(signal)), Some(Exclusion::Failed { code: None, signal: Some(9) }));
    assert!(matches!(excluded(job(5, 5, 1)), Some(Exclusion::NoWindow { .. })));
    let mut late = with_exit(Exit { signal: Some(15), ..Exit::default() });
    late.extra.insert("timed_out".to_owned(), json!(true));
    assert_eq!(excluded(late), Some(Exclusion::CutShort { by: "timed_out".to_owned() }));

    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("r");
    let writer = RecordingWriter::create(&dir, job(0, 1, 1), WriterOptions::default()).unwrap();
    drop(writer);
    assert!(matches!(RunData::load(&dir).unwrap().excluded, Some(Exclusion::Incomplete { .. })));
    let text = serde_json::to_value(Exclusion::Failed { code: Some(3), signal: None }).unwrap();
    assert_eq!(text, json!({"reason": "failed", "code": 3, "signal": null}));
}

#[test]
fn a_damaged_part_excludes_the_run_and_names_the_file() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), job(0, SECOND, 1), |w| (0..9).for_each(|i| fault(w, i, 6)));
    let part = first_part(&dir.join("faults"));
    let bytes = std::fs::read(&part).unwrap();
    std::fs::write(&part, &bytes[..bytes.len() / 2]).unwrap();
    let run = RunData::load(&dir).unwrap();
    // Its size is not the one that it had when the recording was closed.
    let Some(Exclusion::Incomplete { detail: Some(detail) }) = &run.excluded else { panic!("{:?}", run.excluded) };
    assert!(detail.contains("faults/part-0000.parquet has"), "{detail}");
    let missing = RunData::load(&tmp.path().join("nothing"));
    assert!(matches!(missing, Err(ViewError::Recording(_))), "{missing:?}");
}

fn first_part(folder: &Path) -> std::path::PathBuf {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.extension().is_some_and(|e| e == "parquet"))
        .unwrap()
}

#[test]
fn loss_is_added_up_per_stream() {
    let run = load(job(0, SECOND, 1), |w| {
        for cpu in [0, 1] {
            w.push_loss(&LossRow { ts: 1, stream: "faults", cpu: Some(cpu), seen: 1000, lost: 5, filtered: 500 });
        }
    });
    let loss = run.loss["faults"];
    assert_eq!((loss.seen, loss.lost, loss.filtered), (2000, 10, 1000));
    assert!(close(loss.share(), 0.01));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// What happened in a window is what happened in its two halves, wherever it is cut, and never more than all; a
    /// gauge's mean lies between its extremes and is the weighted mean of those of the halves.
    #[test]
    fn windows_that_adjoin_add_up(
        steps in prop::collection::vec((1_i64..3_000, 0_u32..50, -20_i32..20), 4..60),
        cuts in (0.05_f64..0.4, 0.45_f64..0.55, 0.6_f64..0.95),
    ) {
        let times: Vec<i64> = steps.iter().scan(0, |t, (dt, _, _)| { *t += dt * 1000; Some(*t) }).collect();
        let span = *times.last().unwrap();
        let cut = |share: f64| times[0] + ((span - times[0]) as f64 * share) as i64;
        let (a, b, c) = (cut(cuts.0), cut(cuts.1), cut(cuts.2));
        prop_assume!(times[0] <= a && a < b && b < c);
        let fill = |w: &mut RecordingWriter| {
            let (mut counter, mut level) = (0.0, 100.0);
            for (ts, (_, up, by)) in times.iter().zip(&steps) {
                counter += f64::from(*up);
                level += f64::from(*by);
                sample(w, *ts, "vmstat.pgfault", counter);
                sample(w, *ts, "vmstat.nr_free_pages", level);
            }
        };
        let of = |start: i64, end: i64| {
            let run = load(job(start, end, 1), fill);
            let events = run.metric("vmstat.pgfault", None).unwrap().events.unwrap();
            (events, run.value("vmstat.nr_free_pages").unwrap() * (end - start) as f64)
        };
        let (whole, left, right) = (of(a, c), of(a, b), of(b, c));
        prop_assert!(close(whole.0, left.0 + right.0), "{whole:?} {left:?} {right:?}");
        prop_assert!((whole.1 - left.1 - right.1).abs() <= 1e-9 * (left.1.abs() + right.1.abs() + 1.0));
        let total: u32 = steps.iter().map(|s| s.1).sum();
        prop_assert!(whole.0 >= 0.0 && whole.0 <= f64::from(total) + 1e-9);
    }
}
