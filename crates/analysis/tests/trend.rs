//! Histories of benchmarks: steps are found where they were planted, drifts are no chain of steps, and noise is nothing.
//!
//! The story is that of the THP regression in `experiments/thp-regression`: a file server had lost a quarter of its
//! throughput in a kernel upgrade, which stood in its nightly results for everybody to see and was found weeks later. A line drawn by hand
//! through such a chart finds changes everywhere; a test of each night against the one before finds one in twenty by chance.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;
#[path = "reference/table.rs"]
#[allow(dead_code, reason = "each test file uses a part")]
mod table;

use std::path::{Path, PathBuf};

use pagelab_analysis::AnalysisError;
use pagelab_analysis::compare::{PrimaryChoice, Verdict};
use pagelab_analysis::trend::{DetectOptions, Order, Scale, Shape, Trend, TrendOptions, of_values, trend};
use pagelab_recording::{Exit, Manifest};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use run_support::{SECOND, job, record};
use tempfile::TempDir;

/// Spread of one run about its level.
const CV: f64 = 0.02;
/// Lengths of the histories.
const LENGTHS: [usize; 6] = [20, 30, 40, 60, 80, 100];
/// A change point counts as found within this number of points.
const NEAR: usize = 5;

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// What was planted in a history.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    /// A step of this ratio somewhere in the middle three fifths.
    Step(f64),
    /// A drift of this ratio in all.
    Drift(f64),
    /// A drift that comes to rest, as caches that warm up over the first weeks.
    Saturating(f64),
    /// Up and down again by this much, twice in the history.
    Season(f64),
    /// Two steps of this ratio.
    TwoSteps(f64),
    /// A step and, from a third to two thirds of the history only, back again.
    Bump(f64),
}

/// Noise beside that of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// Every point is one run, instead of 1 to 5.
    OneRun,
    /// One point in twenty is wild, by some 30 %.
    Outliers,
    /// Neighbouring points are correlated by this much.
    Correlated(f64),
}

struct History {
    values: Vec<f64>,
    /// First points of new levels.
    steps: Vec<usize>,
}

/// A history of `n` points, each the mean of 1 to 5 runs.
fn history(planted: Planted, trouble: Trouble, n: usize, seed: u64) -> History {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let somewhere = random.random_range(n / 5..=n - n / 5);
    let steps = match planted {
        Planted::Step(_) => vec![somewhere],
        Planted::TwoSteps(_) | Planted::Bump(_) => vec![n / 3, 2 * n / 3],
        _ => Vec::new(),
    };
    let phi = if let Trouble::Correlated(phi) = trouble { phi } else { 0.0 };
    let mut noise = normal(&mut random);
    let mut point = |i: usize| {
        let t = i as f64 / (n - 1) as f64;
        let passed = steps.iter().filter(|step| i >= **step).count() as i32;
        let ratio: f64 = match planted {
            Planted::Nothing => 1.0,
            Planted::Step(ratio) | Planted::TwoSteps(ratio) => ratio.powi(passed),
            Planted::Bump(ratio) => ratio.powi(passed % 2),
            Planted::Drift(ratio) => ratio.powf(t),
            Planted::Saturating(ratio) => ratio.powf(1.0 - (-4.0 * t).exp()),
            Planted::Season(ratio) => ratio.powf((2.0 * std::f64::consts::TAU * t).sin()),
        };
        let runs = if trouble == Trouble::OneRun { 1 } else { random.random_range(1..=5) };
        let value = 1e5 * ratio * (1.0 + CV * noise / f64::from(runs).sqrt());
        noise = phi * noise + (1.0 - phi * phi).sqrt() * normal(&mut random);
        let wild = trouble == Trouble::Outliers && random.random::<f64>() < 0.05;
        if wild { value * (1.0 - 0.3 * random.random::<f64>()) } else { value }
    };
    History { values: (0..n).map(&mut point).collect(), steps }
}

fn search(values: &[f64]) -> Trend {
    of_values(values, &PrimaryChoice::of("load.iops"), "1/s", &DetectOptions::default())
}

/// Counts over histories.
#[derive(Debug, Default)]
struct Counts {
    histories: usize,
    /// With every planted step found.
    found: usize,
    /// With change points that are not near a planted step.
    false_points: usize,
    drifts: usize,
    undecided: usize,
    /// Steps that were found, or were called undecided and placed where they are.
    shown: usize,
    /// Steps whose size lies within its interval, and all found ones.
    covered: [usize; 2],
    /// Steps whose place lies within its interval.
    placed: usize,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.histories += other.histories;
        self.false_points += other.false_points;
        self.drifts += other.drifts;
        self.undecided += other.undecided;
    }
}

fn count(planted: Planted, trouble: Trouble, histories: impl Iterator<Item = (usize, u64)>) -> Counts {
    let mut counts = Counts::default();
    for (n, seed) in histories {
        let history = history(planted, trouble, n, seed);
        let found = search(&history.values);
        let near = |step: usize| found.change_points.iter().find(|change| change.after.abs_diff(step) <= NEAR);
        let all = history.steps.iter().all(|step| near(*step).is_some());
        let stray = found
            .change_points
            .iter()
            .any(|change| history.steps.iter().all(|step| change.after.abs_diff(*step) > NEAR));
        let placed =
            |step: usize| found.drifts.iter().any(|drift| drift.step_at.is_some_and(|at| at.abs_diff(step) <= NEAR));
        counts.histories += 1;
        counts.shown += usize::from(history.steps.iter().all(|step| near(*step).is_some() || placed(*step)));
        counts.found += usize::from(all && !history.steps.is_empty());
        counts.false_points += usize::from(stray);
        counts.drifts += usize::from(found.drifts.iter().any(|drift| drift.shape == Shape::Drift));
        counts.undecided += usize::from(found.drifts.iter().any(|drift| drift.shape == Shape::Undecided));
        if let Planted::Step(ratio) = planted
            && let [step] = history.steps.as_slice()
            && let Some(change) = near(*step)
        {
            let [low, high] = change.pct_ci95.unwrap();
            let [first, last] = change.after_ci95.unwrap_or([change.after; 2]);
            counts.covered[0] += usize::from((low..=high).contains(&(100.0 * (ratio - 1.0))));
            counts.covered[1] += 1;
            counts.placed += usize::from((first..=last).contains(step));
        }
    }
    counts
}

/// `n` histories of all lengths in turn.
fn mixed(n: usize, first_seed: u64) -> impl Iterator<Item = (usize, u64)> {
    (0..n).map(move |at| (LENGTHS[at % LENGTHS.len()], first_seed + at as u64))
}

#[test]
fn steps_are_found_and_drifts_and_noise_are_no_steps() {
    let steps = count(Planted::Step(1.05), Trouble::None, mixed(20, 1000));
    let mut drifts = count(Planted::Drift(1.1), Trouble::None, mixed(10, 2000));
    let slow = count(Planted::Drift(1.05), Trouble::None, mixed(10, 2500));
    drifts.add(&slow);
    let nothing = count(Planted::Nothing, Trouble::None, mixed(20, 3000));
    println!("steps: {steps:?}\ndrifts: {drifts:?}\nnothing: {nothing:?}");
    assert!(steps.found >= 17 && steps.shown >= 19, "{steps:?}");
    assert!(steps.false_points <= 1, "{steps:?}");
    // 5 % of 40 histories.
    assert!(drifts.false_points + nothing.false_points <= 2, "{drifts:?} {nothing:?}");
    assert!(drifts.drifts >= 14, "{drifts:?}");
    assert!(nothing.drifts + nothing.undecided <= 1, "{nothing:?}");
    assert!(steps.covered[0] * 100 >= steps.covered[1] * 85, "{steps:?}");
}

/// What the documentation of the module says of outliers and of correlated noise; `--ignored` measures it in full.
#[test]
fn outliers_and_correlated_noise_are_not_taken_for_changes() {
    let outliers = count(Planted::Nothing, Trouble::Outliers, mixed(12, 4000));
    let among_outliers = count(Planted::Step(1.05), Trouble::Outliers, mixed(12, 5000));
    let correlated = count(Planted::Nothing, Trouble::Correlated(0.5), mixed(24, 6000));
    println!("outliers: {outliers:?}\nstep among outliers: {among_outliers:?}\ncorrelated: {correlated:?}");
    assert!(outliers.false_points <= 1, "{outliers:?}");
    assert!(among_outliers.found >= 8, "{among_outliers:?}");
    // 5 % in the long run, where a test that takes such noise for exchangeable shows changes in every fourth.
    assert!(correlated.false_points <= 3, "{correlated:?}");
}

/// The table of `docs/trend.md`, row by row.
#[test]
#[ignore = "takes half an hour: cargo test --release -p pagelab-analysis --test trend -- --ignored --nocapture"]
fn long_the_measured_table() {
    let rows: &[(&str, Planted, Trouble)] = &[
        ("nothing", Planted::Nothing, Trouble::None),
        ("a step of 3 %", Planted::Step(1.03), Trouble::None),
        ("a step of 5 %", Planted::Step(1.05), Trouble::None),
        ("a step of 5 %, one run a point", Planted::Step(1.05), Trouble::OneRun),
        ("a step of 10 %", Planted::Step(1.1), Trouble::None),
        ("two steps of 5 %", Planted::TwoSteps(1.05), Trouble::None),
        ("5 % and back", Planted::Bump(1.05), Trouble::None),
        ("a drift of 5 %", Planted::Drift(1.05), Trouble::None),
        ("a drift of 5 %, one run a point", Planted::Drift(1.05), Trouble::OneRun),
        ("a drift of 10 %", Planted::Drift(1.1), Trouble::None),
        ("a drift of 20 %", Planted::Drift(1.2), Trouble::None),
        ("a drift of 10 % that comes to rest", Planted::Saturating(1.1), Trouble::None),
        ("a season of +-3 %, twice in the history", Planted::Season(1.03), Trouble::None),
        ("nothing; one point in twenty up to 30 % lower", Planted::Nothing, Trouble::Outliers),
        ("a step of 5 % among such points", Planted::Step(1.05), Trouble::Outliers),
        ("nothing; neighbours correlated by 0.3", Planted::Nothing, Trouble::Correlated(0.3)),
        ("nothing; neighbours correlated by 0.5", Planted::Nothing, Trouble::Correlated(0.5)),
        ("a step of 5 %, neighbours correlated by 0.5", Planted::Step(1.05), Trouble::Correlated(0.5)),
    ];
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trend.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut stale = Vec::new();
    println!("| planted | steps found | false change points | a drift | unclear |\n|---|---|---|---|---|");
    for (row, (name, planted, trouble)) in rows.iter().enumerate() {
        let counts = count(*planted, *trouble, mixed(600, 100_000 * (row as u64 + 1)));
        let share = |n: usize| format!("{:.1}", 100.0 * n as f64 / counts.histories as f64);
        let has_steps = matches!(planted, Planted::Step(_) | Planted::TwoSteps(_) | Planted::Bump(_));
        let found = if has_steps { format!(" {}", share(counts.found)) } else { String::new() };
        let (stray, drifts, unclear) = (share(counts.false_points), share(counts.drifts), share(counts.undecided));
        let line = format!("| {name} |{found} | {stray} | {drifts} | {unclear} |");
        println!("{line}");
        if !page.lines().any(|shown| shown == line) {
            stale.push(line);
        }
        if counts.covered[1] > 0 {
            let of = |n: usize| 100.0 * n as f64 / counts.covered[1] as f64;
            println!("  size within its interval: {:.1} %, place: {:.1} %", of(counts.covered[0]), of(counts.placed));
            println!("  found, or undecided at the right place: {}", share(counts.shown));
        }
    }
    assert!(stale.is_empty(), "docs/trend.md lacks these rows:\n{}", stale.join("\n"));
}

#[test]
fn a_regression_of_a_quarter_is_found_while_it_is_new() {
    let mut values = history(Planted::Nothing, Trouble::None, 40, 7).values;
    for value in values.iter_mut().skip(36) {
        *value *= 0.75;
    }
    let found = search(&values);
    let [change] = found.change_points.as_slice() else { panic!("{found:?}") };
    assert_eq!((change.before, change.after, change.verdict), (35, 36, Verdict::Worse));
    let [low, high] = change.pct_ci95.unwrap();
    assert!(low < -25.0 && high > -25.0 && high - low < 4.0, "{change:?}");
    assert_eq!(found.verdict, Verdict::Worse);
    assert!(found.bad_answer(None).unwrap().contains("since 36"));
    assert!(found.bad_answer(Some(30.0)).is_none());
    // Two nights are no level; they are pointed at.
    let young = search(&values[..38]);
    assert!(young.change_points.is_empty() && young.bad_answer(None).is_none(), "{young:?}");
    let newest = young.newest.unwrap();
    assert_eq!((newest.points, newest.verdict), (2, Verdict::Worse));
}

/// `reference/make_trend.py` asks ruptures, which searches all places by dynamic programming and by PELT.
#[test]
fn places_are_those_of_another_program() {
    for row in table::rows("trend.csv") {
        let found = search(&row.list("values"));
        let places: Vec<usize> = found.change_points.iter().map(|change| change.after).collect();
        let reference: Vec<usize> = row.list("steps").into_iter().map(|step| step as usize).collect();
        assert_eq!(places, reference, "{found:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_document() {
    let values = history(Planted::Step(1.03), Trouble::None, 40, 8).values;
    let text = |trend: &Trend| serde_json::to_string(trend).unwrap();
    assert_eq!(text(&search(&values)), text(&search(&values)));
    let back: Trend = serde_json::from_str(&text(&search(&values))).unwrap();
    assert_eq!(back.n, 40);
}

#[test]
fn values_without_noise_and_values_of_zero() {
    let constant = search(&[5.0; 20]);
    assert!(constant.change_points.is_empty() && constant.drifts.is_empty(), "{constant:?}");
    assert_eq!(constant.verdict, Verdict::NoDifference);
    let step: Vec<f64> = (0..20).map(|i| if i < 12 { 100.0 } else { 110.0 }).collect();
    let found = search(&step);
    let [change] = found.change_points.as_slice() else { panic!("{found:?}") };
    assert_eq!((change.after, change.after_ci95), (12, Some([12, 12])));
    assert!((change.pct.unwrap() - 10.0).abs() < 1e-9);
    let zeros: Vec<f64> = (0..20).map(|i| if i < 10 { 0.0 } else { 7.0 }).collect();
    let found = search(&zeros);
    assert_eq!(found.scale, Scale::Linear);
    let [change] = found.change_points.as_slice() else { panic!("{found:?}") };
    assert_eq!((change.after, change.pct), (10, None));
}

#[test]
fn what_cannot_be_tested_is_said() {
    let few = search(&[1.0, 1.0, 1.0, 2.0, 2.0]);
    assert_eq!((few.verdict, few.levels.len()), (Verdict::NotTested, 0));
    let why = few.not_tested.as_deref().unwrap();
    assert!(why.contains("5 points") && why.contains("at least 10"), "{why}");
    assert!(few.bad_answer(None).unwrap().contains("nothing was tested"));
    let mut values = history(Planted::Step(1.1), Trouble::None, 30, 9).values;
    values[3] = f64::NAN;
    values[29] = f64::INFINITY;
    let holes = search(&values);
    assert_eq!((holes.n, holes.points.len(), holes.change_points.len()), (28, 30, 1));
    assert!(holes.points[3].value.is_none() && holes.points[3].reason.as_deref().unwrap().contains("NaN"));
    assert!(holes.bad_answer(None).unwrap().contains("newest point"), "a night that failed is no all-clear");
}

/// Writes a run of a job that did `ops` in a second.
fn run(dir: &Path, night: i64, ops: u64, change: impl FnOnce(&mut Manifest)) -> PathBuf {
    let mut manifest = job(0, SECOND, ops);
    manifest.clock.realtime_at_start_ns = Some(night * 86_400 * SECOND);
    manifest.command = Some(vec!["bench".to_owned()]);
    change(&mut manifest);
    record(dir, manifest, |w| {
        w.push_jobs(&pagelab_recording::tables::JobsRow {
            ts: SECOND,
            job: "j",
            direction: "read",
            ios: ops,
            bytes: ops * 4096,
            runtime_ns: 1_000_000_000,
            ..Default::default()
        });
    })
}

/// Nights of two runs each, the last eight slower by a tenth.
fn nights(tmp: &TempDir, change: impl Fn(i64, &mut Manifest)) -> Vec<PathBuf> {
    let noise = history(Planted::Nothing, Trouble::None, 40, 10).values;
    (0..20)
        .map(|night| {
            let dir = tmp.path().join(format!("night-{night:02}"));
            for of in 0..2 {
                let slow = if night < 12 { 1.0 } else { 0.9 };
                let ops = noise[(2 * night + of) as usize] * slow;
                run(&dir.join(format!("run={of}")), night, ops as u64, |manifest| change(night, manifest));
            }
            dir
        })
        .collect()
}

#[test]
fn nights_of_recordings_are_points_in_the_order_of_time() {
    let tmp = TempDir::new().unwrap();
    let mut dirs = nights(&tmp, |_, _| {});
    dirs.reverse();
    let found = trend(&dirs, &TrendOptions::default()).unwrap();
    assert_eq!((found.metric.as_str(), found.n), ("load.iops", 20));
    let [change] = found.change_points.as_slice() else { panic!("{found:?}") };
    assert!(found.points[change.after].dir.ends_with("night-12") && change.verdict == Verdict::Worse, "{change:?}");
    assert_eq!((found.points[0].n, found.points[0].runs.len()), (2, 2));
    let given = TrendOptions { order: Order::Given, ..TrendOptions::default() };
    let found = trend(&dirs, &given).unwrap();
    assert_eq!(found.change_points[0].verdict, Verdict::Better, "backwards");
}

#[test]
fn nights_that_failed_and_other_commands_are_noted_and_not_lost() {
    let tmp = TempDir::new().unwrap();
    let dirs = nights(&tmp, |night, manifest| {
        if night == 4 {
            manifest.exit = Some(Exit { code: Some(3), ..Exit::default() });
        }
        if night >= 15 {
            manifest.command = Some(vec!["bench".to_owned(), "--fast".to_owned()]);
        }
    });
    std::fs::write(dirs[7].join("run=1").join("manifest.json"), "{").unwrap();
    let found = trend(&dirs, &TrendOptions::default()).unwrap();
    assert_eq!((found.n, found.points.len()), (19, 20));
    assert!(found.points[4].reason.as_deref().unwrap().contains("exit status 3"));
    let broken = &found.points[7];
    assert_eq!((broken.n, broken.runs.len()), (1, 2), "{broken:?}");
    assert!(broken.runs.iter().any(|run| run.reason.as_deref().is_some_and(|why| why.contains("manifest.json"))));
    assert!(found.notes.iter().any(|note| note.contains("bench --fast")), "{:?}", found.notes);
    assert_eq!(found.change_points.len(), 1);
    assert!(found.points[found.change_points[0].after].dir.ends_with("night-12"));
}

#[test]
fn points_that_make_no_history_are_refused_with_words() {
    let tmp = TempDir::new().unwrap();
    let dirs = nights(&tmp, |_, _| {});
    let refused = |dirs: &[PathBuf], options: &TrendOptions| trend(dirs, options).unwrap_err().to_string();
    let plain = TrendOptions::default();
    let one = refused(&dirs[..1], &plain);
    assert!(one.contains("found one point") && one.contains("pagelab trend nights/*"), "{one}");
    let missing = refused(&[dirs[0].clone(), tmp.path().join("nowhere")], &plain);
    assert!(missing.contains("nowhere"), "{missing}");
    let twice = trend(&[dirs[0].clone(), dirs[0].join("run=0")], &plain).unwrap_err();
    assert!(matches!(twice, AnalysisError::TwoPoints { .. }), "{twice}");
    let metric = TrendOptions { metric: Some(PrimaryChoice::of("load.iop")), ..TrendOptions::default() };
    assert!(refused(&dirs, &metric).contains("load.iops is near"));
    let timeless = TempDir::new().unwrap();
    let dirs = nights(&timeless, |night, manifest| {
        if night == 2 {
            manifest.clock.realtime_at_start_ns = None;
        }
    });
    let why = refused(&dirs, &plain);
    assert!(why.contains("night-02") && why.contains("--order given"), "{why}");
    let sets = TempDir::new().unwrap();
    let both = |night: i64| {
        let dir = sets.path().join(format!("set-{night}"));
        for (variant, ops) in [("base", 1000), ("test", 1100)] {
            run(&dir.join(format!("variant={variant}/run=001")), night, ops, |manifest| {
                manifest.variant = Some(variant.to_owned());
            });
        }
        dir
    };
    let dirs: Vec<PathBuf> = (0..12).map(both).collect();
    let why = refused(&dirs, &plain);
    assert!(why.contains("2 variants: base, test") && why.contains("--variant base"), "{why}");
    let of = |variant: &str| TrendOptions { variant: Some(variant.to_owned()), ..TrendOptions::default() };
    assert!(refused(&dirs, &of("tset")).contains("found base, test"));
    let found = trend(&dirs, &of("test")).unwrap();
    assert!(found.change_points.is_empty() && (found.points[0].value.unwrap() - 1100.0).abs() < 1.0, "{found:?}");
}
