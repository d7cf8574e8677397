//! Runs that know how fast their processors were are compared at equal speed: of the processor that the program was on.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;

use std::path::PathBuf;

use pagelab_analysis::compare::{CompareOptions, Comparison, Verdict, compare};
use pagelab_analysis::stats::Method;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::MetricsRow;
use run_support::{SECOND, command, record, setting};
use tempfile::TempDir;

/// Speeds of CPU 0 and CPU 1 in each run: they have nothing to do with each other.
const BASE_SPEEDS: [[f64; 2]; 8] =
    [[1.0, 1.9], [1.2, 1.0], [0.8, 1.4], [1.1, 0.7], [0.9, 1.6], [1.3, 1.2], [0.7, 1.1], [1.0, 0.9]];
const TEST_SPEEDS: [[f64; 2]; 8] =
    [[1.1, 0.8], [0.9, 1.7], [1.3, 1.0], [0.8, 1.3], [1.0, 0.6], [0.7, 1.5], [1.2, 1.2], [1.0, 1.8]];

/// How a run came to be on CPU 0.
#[derive(Clone, Copy)]
enum On {
    /// It may use no other.
    Affinity,
    /// It was busy, and the other one was idle.
    Busy,
    /// Nothing says that it was not on both.
    Unknown,
}

fn of_cpu(writer: &mut RecordingWriter, ts: i64, name: &str, cpu: usize, value: f64) {
    let instance = format!("cpu{cpu}");
    writer.push_metrics(&MetricsRow { ts, name, instance: Some(&instance), value: Some(value) });
}

/// Runs of 2.4 million calls each on CPU 0, `loss` more of them.
fn side(tmp: &TempDir, name: &str, speeds: &[[f64; 2]; 8], loss: f64, on: On) -> Vec<PathBuf> {
    let run = |(i, speeds): (usize, &[f64; 2])| {
        let noise = [0.004, -0.006, 0.002, 0.005, -0.003, 0.001, -0.005, 0.003][i];
        let end = ((1.0 + loss + noise) / speeds[0] * SECOND as f64) as i64;
        let mut manifest = command(0, end);
        manifest.variant = Some(name.to_owned());
        record(&tmp.path().join(format!("{name}-{i}")), manifest, |writer| {
            setting(writer, "task.affinity", if matches!(on, On::Affinity) { "0" } else { "0-1" });
            for (ts, part) in [(0, 0.0), (end / 2, 0.5), (end, 1.0)] {
                for (cpu, speed) in speeds.iter().enumerate() {
                    of_cpu(writer, ts, "speed.calls_per_second", cpu, 2.4e6 * speed);
                }
                for (cpu, busy) in [1.0, 0.001].into_iter().enumerate().filter(|_| matches!(on, On::Busy)) {
                    for name in ["cpu.user_ns", "cpu.nice_ns", "cpu.system_ns"] {
                        of_cpu(writer, ts, name, cpu, part * busy * 3e8);
                    }
                }
            }
        })
    };
    speeds.iter().enumerate().map(run).collect()
}

fn compared(loss: f64, on: On) -> Comparison {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", &BASE_SPEEDS, 0.0, on);
    let test = side(&tmp, "b", &TEST_SPEEDS, loss, on);
    compare(&base, &test, &CompareOptions { diagnose: false, ..CompareOptions::default() }).unwrap()
}

/// Runs vary by a fifth, and a loss of 3 % shows all the same; without a loss nothing does.
#[test]
fn a_small_loss_shows_at_equal_speed_of_the_processor_that_it_was_on() {
    for on in [On::Affinity, On::Busy] {
        let primary = compared(0.03, on).primary.unwrap();
        assert_eq!((primary.verdict, primary.result.method), (Verdict::Worse, Some(Method::UnpairedAdjusted)));
        let held = primary.result.adjusted.clone().unwrap();
        assert!(held.unadjusted_p.unwrap() > 0.2, "{held:?}");
        assert!(held.explained > 0.99 && (held.slope + 1.0).abs() < 0.05, "{held:?}");
        let [low, high] = primary.ratio_ci95.unwrap();
        assert!(low < 1.03 && 1.03 < high && high - low < 0.02, "{low} {high}");
        assert!(primary.detectable.unwrap() < 0.02);
        // More runs are compared at equal speed, too.
        assert!(
            primary.nothing_shown.runs_needed.iter().all(|one| one.runs.unwrap() < 20),
            "{:?}",
            primary.nothing_shown
        );

        let alike = compared(0.0, on);
        let primary = alike.primary.as_ref().unwrap();
        assert_eq!(primary.verdict, Verdict::NoDifference);
        assert!(primary.nothing_shown.equivalent_within_pct.unwrap() < 1.0);
        let back: Comparison = serde_json::from_value(serde_json::to_value(&alike).unwrap()).unwrap();
        assert_eq!(back, alike);
    }
}

/// The mean of both processors says little of the one that the program was on, and the result says how little.
#[test]
fn the_speed_of_another_processor_explains_less() {
    let primary = compared(0.03, On::Unknown).primary.unwrap();
    assert!(primary.result.adjusted.unwrap().explained < 0.5);
    assert_eq!(primary.verdict, Verdict::NoDifference);
}
