//! How often something is found in simulated fleets in which there is nothing, how often intervals cover the truth, and how
//! often the test that takes runs as independent is fooled by the same fleets. `--nocapture` prints the rates.
//!
//! The story is that of every fleet comparison that averages over runs: twelve hosts of either kind, some of which ran
//! thirty times, and a "significant" difference that is one fast host.

use pagelab_analysis::stats::{Interval, benjamini_hochberg, clopper_pearson, welch, wilson};
use pagelab_fleet::course::{CourseOptions, course};
use pagelab_fleet::drift::{DriftOptions, HostSetting, drift};
use pagelab_fleet::hosts::RunValue;
use pagelab_fleet::model::{Design, FleetComparison, ModelOptions, compare};
use pagelab_fleet::outliers::{OutlierOptions, outliers};
use pagelab_fleet::simulate::{Fleet, FleetPlan, HarmlessSetting, PlantedCause, Slowdown};
use pagelab_vocab::metrics::Direction;

const FLEETS: u64 = 1_000;
const ALPHA: f64 = 0.05;
/// Index of `load.iops` in the plan, a metric that is drawn by itself.
const IOPS: usize = 0;

/// The share of fleets for which `is` holds, with its 95 % interval of Wilson; printed.
fn share(name: &str, fleets: u64, is: impl Fn(u64) -> bool) -> Interval {
    let share = wilson((0..fleets).filter(|seed| is(*seed)).count() as u64, fleets, 0.95).expect("fleets");
    println!(
        "{name}: {:.1} % ({:.1} to {:.1}) of {fleets}",
        100.0 * share.estimate,
        100.0 * share.low,
        100.0 * share.high
    );
    share
}

/// Holds a share to the nominal one, by an interval of 99 %: one of the assertions in a hundred would fail by chance with another
/// seed.
#[track_caller]
fn assert_compatible(share: &Interval, nominal: f64) {
    let count = (share.estimate * share.n as f64).round() as u64;
    let wide = clopper_pearson(count, share.n as u64, 0.99).expect("a share");
    assert!(wide.low <= nominal && nominal <= wide.high, "{wide:?}, nominal {nominal}");
}

#[track_caller]
fn assert_at_most(share: &Interval, nominal: f64) {
    let count = (share.estimate * share.n as f64).round() as u64;
    let wide = clopper_pearson(count, share.n as u64, 0.99).expect("a share");
    assert!(wide.low <= nominal, "{wide:?}, at most {nominal}");
}

/// Hosts of one day with very unequal numbers of runs, the second number of them under a label that makes them slower by `pct`.
fn between(seed: u64, hosts: [u32; 2], runs: [u32; 2], pct: f64) -> FleetComparison {
    let slowdown = Slowdown { metric: "load.iops".to_owned(), component: "run.user".to_owned(), pct };
    let cause = PlantedCause {
        key: "thp.enabled".to_owned(),
        value: "never".to_owned(),
        usual: "always".to_owned(),
        hosts: hosts[1],
        from_day: 0,
        slowdowns: vec![slowdown],
    };
    let plan = FleetPlan { runs_per_day: runs, causes: vec![cause], ..FleetPlan::new(seed, hosts[0] + hosts[1], 1) };
    let fleet = Fleet::of(plan).expect("a plan");
    let (mut base, mut test) = (Vec::new(), Vec::new());
    for (at, value) in fleet.values_of(IOPS) {
        if fleet.is_slow(0, at.host) { test.push(value) } else { base.push(value) }
    }
    compare(&base, &test, &ModelOptions::default())
}

fn is_found(found: &FleetComparison) -> bool {
    found.p.expect("a test") <= ALPHA
}

fn fools_naive(found: &FleetComparison) -> bool {
    found.naive.expect("values vary").p <= ALPHA
}

#[test]
fn between_hosts_the_level_holds_and_the_naive_test_is_fooled() {
    let found: Vec<FleetComparison> = (0..FLEETS).map(|seed| between(seed, [12, 12], [1, 30], 0.0)).collect();
    let of = |seed: u64| &found[seed as usize];
    let hosts = share("between, 12 and 12 hosts with 1 to 30 runs", FLEETS, |seed| is_found(of(seed)));
    let naive = share("the same, naive", FLEETS, |seed| fools_naive(of(seed)));
    assert_compatible(&hosts, ALPHA);
    assert!(naive.low > 8.0 * ALPHA, "{naive:?}");
    // Few hosts: Welch's degrees of freedom are coarse, see `stats::welch`.
    let of = |seed, hosts, runs| is_found(&between(seed, [hosts, hosts], runs, 0.0));
    let few = share("between, 3 and 3 hosts with 1 to 30 runs", FLEETS, |seed| of(seed + 1_000, 3, [1, 30]));
    assert_at_most(&few, 0.063);
    let single = share("between, 12 and 12 hosts with one run", FLEETS, |seed| of(seed + 2_000, 12, [1, 1]));
    assert_compatible(&single, ALPHA);
    // Welch's test with Satterthwaite's degrees of freedom finds 7.6 %.
    let uneven = share("between, 37 and 3 hosts with 1 to 30 runs", FLEETS, |seed| {
        is_found(&between(seed + 3_000, [37, 3], [1, 30], 0.0))
    });
    assert_at_most(&uneven, ALPHA);
}

#[test]
fn intervals_cover_the_truth() {
    // A rate that is slower by 10 % is divided by 1.1.
    let covers = |seed, hosts| {
        let [low, high] = between(seed + 5_000, [hosts, hosts], [1, 12], 10.0).ratio_ci95.expect("an interval");
        low <= 1.0 / 1.1 && 1.0 / 1.1 <= high
    };
    let many = share("coverage, 12 and 12 hosts", FLEETS, |seed| covers(seed, 12));
    assert_compatible(&many, 0.95);
    let few = share("coverage, 4 and 4 hosts", FLEETS, |seed| covers(seed + 1_000, 4));
    assert_compatible(&few, 0.95);
    let naive_covers = |seed: u64| {
        let found = between(seed + 5_000, [12, 12], [1, 12], 10.0);
        let (df, error) = found.naive.map(|naive| (naive.df, naive.error_ratio.expect("a test"))).expect("values");
        let [low, high] = found.ratio_ci95.expect("an interval").map(f64::ln);
        let critical = |df| pagelab_analysis::stats::critical_value(df, 0.95).expect("a level");
        // The naive interval is as much narrower as its error is smaller.
        let half = 0.5 * (high - low) / critical(found.df.expect("a test")) * error * critical(df);
        (0.5 * (low + high) + 1.1_f64.ln()).abs() <= half
    };
    let naive = share("coverage of an interval with the naive error", FLEETS, naive_covers);
    assert!(naive.high < 0.75, "{naive:?}");
}

/// Twelve hosts before and after, each in its own way: after a boot the same kernel lays memory out otherwise. `reacts` says
/// whether hosts do.
fn within(seed: u64, reacts: bool) -> FleetComparison {
    let plan = FleetPlan { runs_per_day: [1, 20], ..FleetPlan::new(seed, 12, 2) };
    let fleet = Fleet::of(plan).expect("a plan");
    // Another metric has other levels of hosts; brought to one mean it is the same fleet after a boot.
    let behind = if reacts { 2 } else { IOPS };
    let scale = fleet.plan().metrics[IOPS].mean / fleet.plan().metrics[behind].mean;
    let base: Vec<RunValue> =
        fleet.values_of(IOPS).into_iter().filter(|(at, _)| at.day == 0).map(|(_, run)| run).collect();
    let test: Vec<RunValue> = fleet
        .values_of(behind)
        .into_iter()
        .filter(|(at, _)| at.day == 1)
        .map(|(_, run)| RunValue { value: run.value.map(|value| scale * value), ..run })
        .collect();
    compare(&base, &test, &ModelOptions::default())
}

#[test]
fn within_hosts_the_level_holds() {
    let steady = share("within, 12 hosts with 1 to 20 runs a side", FLEETS, |seed| {
        let found = within(seed + 10_000, false);
        assert_eq!(found.design, Some(Design::Within));
        is_found(&found)
    });
    assert_compatible(&steady, ALPHA);
    let found: Vec<FleetComparison> = (0..FLEETS).map(|seed| within(seed + 11_000, true)).collect();
    let reacting = share("within, hosts react unequally", FLEETS, |seed| is_found(&found[seed as usize]));
    assert_compatible(&reacting, ALPHA);
    let naive = share("the same, naive", FLEETS, |seed| fools_naive(&found[seed as usize]));
    assert!(naive.low > 8.0 * ALPHA, "{naive:?}");
}

#[test]
fn fleets_without_an_outlier_have_none() {
    let any = |seed, hosts| {
        let fleet = Fleet::of(FleetPlan { runs_per_day: [1, 8], ..FleetPlan::new(seed, hosts, 1) }).expect("a plan");
        let runs: Vec<RunValue> = fleet.values_of(IOPS).into_iter().map(|(_, run)| run).collect();
        outliers(&runs, &OutlierOptions::default()).outliers > 0
    };
    for (hosts, fleets) in [(8, FLEETS), (40, FLEETS), (300, 200)] {
        let found = share(&format!("any outlier among {hosts} hosts"), fleets, |seed| any(seed + 20_000, hosts));
        assert_at_most(&found, ALPHA);
    }
}

/// Forty hosts with twenty settings that differ at random and do nothing.
fn drifting(seed: u64) -> (Fleet, Vec<String>) {
    let values = |at: usize| {
        let weights: &[f64] = [&[0.5, 0.5][..], &[0.9, 0.1], &[0.6, 0.3, 0.1]][at % 3];
        weights.iter().enumerate().map(|(value, weight)| (value.to_string(), *weight)).collect()
    };
    let setting = |at: usize| HarmlessSetting {
        key: format!("sysctl.vm.setting{at:02}"),
        values: values(at),
        follows_group: false,
        changes_per_day: 0.0,
    };
    let harmless: Vec<HarmlessSetting> = (0..20).map(setting).collect();
    let keys = harmless.iter().map(|setting| setting.key.clone()).collect();
    let plan = FleetPlan { runs_per_day: [1, 8], harmless, ..FleetPlan::new(seed, 40, 1) };
    (Fleet::of(plan).expect("a plan"), keys)
}

#[test]
fn settings_that_do_nothing_are_associated_with_nothing() {
    const SOME: u64 = 500;
    let any = |seed| {
        let (fleet, keys) = drifting(seed);
        let mut settings = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let host = |host| HostSetting { host: fleet.host_name(host), key, value: fleet.setting(index, host, 0) };
            settings.extend((0..fleet.plan().hosts).map(host));
        }
        let runs: Vec<RunValue> = fleet.values_of(IOPS).into_iter().map(|(_, run)| run).collect();
        let found = drift(&settings, &[], &runs, &DriftOptions::default());
        assert!(found.tested >= 15, "{}", found.tested);
        found.settings.iter().any(|entry| entry.is_associated == Some(true))
    };
    let found = share("any of 20 settings associated", SOME, any);
    assert_at_most(&found, ALPHA);
    // The same family on runs: Welch's test of the first value against the others.
    let naive = |seed| {
        let (fleet, keys) = drifting(seed);
        let runs = fleet.values_of(IOPS);
        let p: Vec<Option<f64>> = (0..keys.len())
            .map(|index| {
                let side = |is_first: bool| -> Vec<f64> {
                    let of = runs.iter().filter(|(at, _)| (fleet.setting(index, at.host, 0) == Some("0")) == is_first);
                    of.filter_map(|(_, run)| run.value).map(f64::ln).collect()
                };
                welch(&side(true), &side(false)).ok().map(|test| test.p)
            })
            .collect();
        benjamini_hochberg(&p).into_iter().flatten().any(|q| q <= ALPHA)
    };
    let naive = share("the same on runs", SOME, naive);
    assert!(naive.low > 8.0 * ALPHA, "{naive:?}");
}

#[test]
fn courses_without_a_change_have_no_change_point() {
    const SOME: u64 = 300;
    let options = CourseOptions::new("load.iops", "1/s", Direction::HigherIsBetter);
    // Hosts are there on a third of the days only, so that the plain means move with them.
    let any = |seed| {
        let fleet = Fleet::of(FleetPlan { runs_per_day: [0, 1], ..FleetPlan::new(seed, 20, 24) }).expect("a plan");
        let runs: Vec<RunValue> = fleet.values_of(IOPS).into_iter().map(|(_, run)| run).collect();
        let found = course(&runs, &options);
        assert!(found.trend.not_tested.is_none());
        !found.trend.change_points.is_empty() || !found.trend.drifts.is_empty()
    };
    let found = share("any change in a course of 24 days", SOME, any);
    assert_at_most(&found, options.detect.alpha);
}
