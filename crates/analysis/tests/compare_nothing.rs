//! How often a comparison finds something where there is nothing: one set of runs, split at random into two halves, again
//! and again. The runs are recordings written by the real writer and loaded by the real loader; they are as unpleasant as
//! a shared host makes them: slow and fast phases, drift, single runs with a burst of everything, skewed and discrete
//! values, counters of rare events that come in bursts, hundreds of series that move together.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;

use pagelab_analysis::compare::{CompareOptions, DesignChoice, compare_runs, load_side};
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::MetricsRow;
use pagelab_views::run::RunData;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use run_support::{SECOND, fault, job, record};
use tempfile::TempDir;

const RUNS: usize = 40;
const SERIES: usize = 300;
const SPLITS: usize = 400;

/// What all series of one run share.
struct Weather {
    slow: bool,
    drift: f64,
    storm: f64,
    causes: [f64; 6],
}

fn normal(draws: &mut ChaCha8Rng) -> f64 {
    // Box and Muller.
    let (a, b): (f64, f64) = (1.0 - draws.random::<f64>(), draws.random());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

fn weather(run: usize, draws: &mut ChaCha8Rng) -> Weather {
    Weather {
        // Phases last for several runs.
        slow: (run / 7).is_multiple_of(2),
        drift: run as f64 / RUNS as f64,
        storm: if draws.random::<f64>() < 0.05 { 5.0 } else { 0.0 },
        causes: std::array::from_fn(|_| normal(draws)),
    }
}

/// Names that the vocabulary knows, with instances, so that counters, gauges and rare events are all in the family.
fn series_name(i: usize) -> (&'static str, Option<String>) {
    const NAMES: [&str; 6] =
        ["interrupts", "slab.active_bytes", "disk.reads", "cpu.user_ns", "net.rx_bytes", "disk.in_flight"];
    (NAMES[i % NAMES.len()], Some(format!("i{i}")))
}

/// The level of series `i` in a run, around 1.
fn level(i: usize, weather: &Weather, draws: &mut ChaCha8Rng) -> f64 {
    let share = (i % 10) as f64 / 10.0;
    let cause = weather.causes[i % weather.causes.len()];
    let own = normal(draws);
    let z = share * cause + (1.0 - share * share).sqrt() * own;
    let phase = if weather.slow && i.is_multiple_of(3) { 0.5 } else { 0.0 };
    let drift = if i.is_multiple_of(4) { weather.drift } else { 0.0 };
    match i % 7 {
        0 => (0.8 * z + phase + drift).exp(),
        1 => 1.0 + 0.1 * z + phase + weather.storm,
        _ => 1.0 + 0.05 * z + 0.3 * phase + 0.1 * drift,
    }
}

/// Events of a rare counter: bursts of about five.
fn rare(draws: &mut ChaCha8Rng) -> f64 {
    let mut events = 0.0;
    while draws.random::<f64>() < 0.25 {
        events += 1.0;
        while draws.random::<f64>() < 0.8 {
            events += 1.0;
        }
    }
    events
}

fn fill(w: &mut RecordingWriter, weather: &Weather, draws: &mut ChaCha8Rng) {
    for i in 0..SERIES {
        let (name, instance) = series_name(i);
        let level = if i % 5 == 0 { rare(draws) } else { (level(i, weather, draws) * 1000.0).max(0.0) };
        // Half of the levels are read in coarse steps, so that runs tie.
        let level = if i % 2 == 0 { (level / 50.0).round() * 50.0 } else { level };
        let level = if i % 5 == 0 { level.round() } else { level };
        for tenth in 0..=10 {
            let ts = tenth * SECOND / 10;
            let counter = matches!(name, "interrupts" | "disk.reads" | "cpu.user_ns" | "net.rx_bytes");
            let value = if counter { 1e4 + (level * tenth as f64 / 10.0).floor() } else { level };
            w.push_metrics(&MetricsRow { ts, name, instance: instance.as_deref(), value: Some(value) });
        }
    }
    let faults = 200 + (20.0 * weather.causes[0]) as i64 + draws.random_range(0..20);
    (0..faults).for_each(|k| fault(w, k * 1000, if k % 50 == 0 { 20 } else { 6 }));
}

fn runs(tmp: &TempDir, seed: u64) -> Vec<RunData> {
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let dirs: Vec<_> = (0..RUNS)
        .map(|run| {
            let weather = weather(run, &mut draws);
            let operations = (1000.0 * (1.0 + 0.02 * normal(&mut draws)) * if weather.slow { 0.7 } else { 1.0 }) as u64;
            let mut manifest = job(0, SECOND, operations);
            manifest.run = Some(run as u64);
            record(&tmp.path().join(format!("{seed}-{run:02}")), manifest, |w| fill(w, &weather, &mut draws))
        })
        .collect();
    load_side("base", &dirs).unwrap()
}

/// One split in so many is asked for causes, too, which takes longer.
const DIAGNOSED_EVERY: usize = 4;

/// The largest share of so many splits that may show something: the level and three standard deviations.
fn most_of(splits: usize) -> f64 {
    0.05 + 3.0 * (0.05 * 0.95 / splits as f64).sqrt()
}

/// The share of splits with any significant metric, and of those with any cause, must stay below the level. All splits of
/// one set of runs share its peculiarities, so several sets are drawn, and the bound leaves three standard deviations of a
/// share of the level.
#[test]
fn halves_of_one_set_of_runs_do_not_differ() {
    let tmp = TempDir::new().unwrap();
    let options = CompareOptions { design: DesignChoice::Unpaired, diagnose: false, ..CompareOptions::default() };
    let sets: u64 = 4;
    let diagnosing = CompareOptions { design: DesignChoice::Unpaired, ..CompareOptions::default() };
    assert!(diagnosing.diagnose, "the default looks for causes");
    let (mut found, mut false_primaries, mut smallest_family) = (0, 0, usize::MAX);
    let (mut diagnosed, mut accused) = (0, Vec::new());
    for seed in 0..sets {
        let runs = runs(&tmp, seed);
        let mut order: Vec<&RunData> = runs.iter().collect();
        let mut draws = ChaCha8Rng::seed_from_u64(1000 + seed);
        for split in 0..SPLITS / sets as usize {
            order.shuffle(&mut draws);
            // Small and large halves in turn.
            let n = [5, 10, 20][split % 3];
            let (base, test) = (&order[..n], &order[n..2 * n]);
            let asked = split.is_multiple_of(DIAGNOSED_EVERY);
            let document = compare_runs(base, test, if asked { &diagnosing } else { &options }).unwrap();
            diagnosed += usize::from(asked);
            accused.extend(document.findings.first().map(|finding| finding.cause.clone()));
            found += usize::from(document.significant().next().is_some());
            smallest_family = smallest_family.min(document.families[0].size);
            let elapsed = document.metric("interrupts", Some("i6")).unwrap();
            false_primaries += usize::from(elapsed.p.is_some_and(|p| p < 0.05));
        }
    }
    let share = found as f64 / SPLITS as f64;
    println!(
        "splits with any significant metric: {found} of {SPLITS}; p < 0.05 of one metric: {false_primaries}; family {smallest_family}"
    );
    assert!(smallest_family >= 250, "{smallest_family} tests only");
    assert!(share <= most_of(SPLITS), "{found} of {SPLITS} splits show something");
    println!("splits with a cause: {accused:?} of {diagnosed}");
    assert!(diagnosed >= SPLITS / DIAGNOSED_EVERY, "{diagnosed} were asked for causes");
    let share = accused.len() as f64 / diagnosed as f64;
    assert!(share <= most_of(diagnosed), "{accused:?} in {diagnosed} splits of runs that are alike");
}

/// The same machinery does find a difference of a few percent in some of the series, so that silence above means something.
#[test]
fn a_true_difference_among_hundreds_is_found() {
    let tmp = TempDir::new().unwrap();
    let mut draws = ChaCha8Rng::seed_from_u64(7);
    let mut side = |name: &str, factor: f64| {
        let dirs: Vec<_> = (0..10)
            .map(|run| {
                let weather = Weather {
                    slow: false,
                    drift: 0.0,
                    storm: 0.0,
                    causes: std::array::from_fn(|_| normal(&mut draws)),
                };
                record(&tmp.path().join(format!("{name}{run}")), job(0, SECOND, 1000), |w| {
                    fill(w, &weather, &mut draws);
                    for (ts, done) in [(0, 0.0), (SECOND, 1000.0 * factor * (1.0 + 0.01 * normal(&mut draws)))] {
                        w.push_metrics(&MetricsRow { ts, name: "vmstat.pgfault", instance: None, value: Some(done) });
                    }
                })
            })
            .collect();
        load_side("base", &dirs).unwrap()
    };
    let (base, test) = (side("a", 1.0), side("b", 1.06));
    let (base, test): (Vec<&RunData>, Vec<&RunData>) = (base.iter().collect(), test.iter().collect());
    let options = CompareOptions { diagnose: false, ..CompareOptions::default() };
    let document = compare_runs(&base, &test, &options).unwrap();
    let found = document.metric("vmstat.pgfault", None).unwrap();
    assert_eq!(found.significant, Some(true), "{found:?}");
    let [low, high] = found.ratio_ci95.unwrap();
    assert!(low < 1.06 && 1.06 < high, "{found:?}");
}
