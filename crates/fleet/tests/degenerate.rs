//! Fleets that are too small, too even or too patchy for a test: each gets a reason and no figure that is not there.

use pagelab_analysis::stats::Outcome;
use pagelab_analysis::trend::Scale;
use pagelab_fleet::course::{CourseOptions, course};
use pagelab_fleet::drift::{DriftOptions, HostSetting, drift};
use pagelab_fleet::hosts::RunValue;
use pagelab_fleet::model::{Design, FleetComparison, ModelOptions, compare, settle};
use pagelab_fleet::outliers::{OutlierOptions, outliers};
use pagelab_fleet::simulate::{Fleet, FleetPlan, RunPlace};
use pagelab_vocab::metrics::Direction;
use proptest::prelude::*;

fn run(host: &str, value: f64) -> RunValue<'_> {
    RunValue { host, start_ns: None, value: Some(value) }
}

fn without_places<'a>(side: &[(RunPlace, RunValue<'a>)]) -> Vec<RunValue<'a>> {
    side.iter().map(|(_, run)| *run).collect()
}

fn said(notes: &[String], part: &str) -> bool {
    notes.iter().any(|note| note.contains(part))
}

fn compared(base: &[RunValue], test: &[RunValue]) -> FleetComparison {
    compare(base, test, &ModelOptions::default())
}

#[test]
fn two_hosts_are_not_tested_however_often_they_ran() {
    let side = |host, level: f64| (0..50).map(|at| run(host, level + f64::from(at))).collect::<Vec<_>>();
    let found = compared(&side("a", 100.0), &side("b", 300.0));
    assert_eq!((found.outcome, found.p, found.design), (Outcome::NotTested, None, None));
    assert!(said(&found.notes, "at least 3 hosts with either label alone, or 3 with both"), "{:?}", found.notes);
    assert_eq!((found.base.hosts, found.base.runs), (1, 50));
    assert!(found.base.mean.is_some_and(|mean| (100.0..150.0).contains(&mean)));
    let mut family = [found];
    assert_eq!(settle(&mut family, 0.05), 0);
    assert_eq!(family[0].significant, None);
    assert!(compared(&[], &[]).p.is_none());
}

#[test]
fn a_host_under_both_labels_is_its_own_control() {
    let names = ["a", "b", "c", "d"];
    let base: Vec<RunValue> =
        names.iter().zip([100.0, 200.0, 400.0, 800.0]).map(|(host, value)| run(host, value)).collect();
    let test: Vec<RunValue> =
        names.iter().zip([111.0, 219.0, 441.0, 879.0]).map(|(host, value)| run(host, value)).collect();
    let found = compared(&base, &test);
    assert_eq!((found.design, found.hosts_with_both), (Some(Design::Within), 4));
    assert!(found.p.is_some_and(|p| p < 0.001), "{found:?}");
    assert!(found.naive.is_some_and(|naive| naive.p > 0.5), "hosts hide the difference from the naive test");
    assert!(said(&found.notes, "no host has two runs"));
}

/// Three hosts have both labels and thirty have one: the thirty are compared. Six with both are enough by themselves.
#[test]
fn mixtures_use_the_hosts_that_say_most_and_count_the_others() {
    let names: Vec<String> = (0..40).map(|at| format!("h{at:02}")).collect();
    let value = |at: usize| 100.0 + (at as f64 * 0.7).sin() * 10.0;
    let mixture = |both: usize| {
        let base: Vec<RunValue> = (0..both + 15).map(|at| run(&names[at], value(at))).collect();
        let test: Vec<RunValue> =
            (0..both).chain(25..40).map(|at| run(&names[at], value(at) * 1.1 + 0.1 * at as f64)).collect();
        compared(&base, &test)
    };
    let few = mixture(3);
    assert_eq!((few.design, few.hosts_with_both, few.hosts_left_out), (Some(Design::Between), 3, 3));
    assert_eq!((few.base.hosts, few.test.hosts), (15, 15));
    assert!(said(&few.notes, "3 hosts are left out: they have runs under both labels"), "{:?}", few.notes);
    let many = mixture(6);
    assert_eq!((many.design, many.hosts_left_out, many.base.hosts), (Some(Design::Within), 30, 6));
    assert!(said(&many.notes, "30 hosts are left out: they have runs under one label only"));
    let asked = compare(
        &[run("a", 1.0)],
        &[run("a", 2.0)],
        &ModelOptions { design: Some(Design::Within), ..ModelOptions::default() },
    );
    assert!(said(&asked.notes, "at least 3 hosts with both are needed"));
}

#[test]
fn an_uneven_comparison_has_the_degrees_of_freedom_of_its_few_hosts() {
    let names: Vec<String> = (0..24).map(|at| format!("h{at:02}")).collect();
    let value = |at: usize| 100.0 + (at as f64 * 0.7).sin() * 10.0;
    let runs: Vec<RunValue> = names.iter().enumerate().map(|(at, host)| run(host, value(at))).collect();
    let with = |few: usize, many: usize| {
        let found = compared(&runs[..few], &runs[few..few + many]);
        (found.method.map(|method| method.name), found.df)
    };
    assert_eq!(with(3, 20), (Some("t_of_few_host_means"), Some(2.0)));
    assert_eq!(with(9, 15).0, Some("welch_of_host_means"), "not twice as many");
    assert_eq!(with(3, 6), (Some("t_of_few_host_means"), Some(2.0)));
    assert_eq!(with(3, 5).0, Some("welch_of_host_means"));
}

#[test]
fn metrics_that_are_looked_at_together_are_one_family() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let of = |base: [f64; 4], test: [f64; 4]| {
        let side = |hosts: &[&'static str], values: [f64; 4]| -> Vec<RunValue> {
            hosts.iter().zip(values).map(|(host, value)| run(host, value)).collect()
        };
        compared(&side(&names[..4], base), &side(&names[4..], test))
    };
    let mut family = [
        of([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3]),
        of([1.0, 1.1, 1.2, 1.3], [1.1, 1.2, 1.3, 1.15]),
        of([1.0; 4], [1.0; 4]),
    ];
    assert_eq!(settle(&mut family, 0.05), 2, "equal sides are not tested");
    let [clear, unclear, equal] = &family;
    assert_eq!((clear.significant, unclear.significant, equal.significant), (Some(true), Some(false), None));
    let q = |one: &FleetComparison| one.q.expect("tested");
    assert!((q(clear) - 2.0 * clear.p.expect("tested")).abs() < 1e-15 && q(unclear) >= q(clear));
}

/// The simulated spread of hosts and runs is the one asked for, and the components of variance find it.
#[test]
fn components_of_variance_are_those_of_the_plan() {
    let plan = FleetPlan { host_sd: 0.1, run_sd: 0.05, runs_per_day: [1, 9], ..FleetPlan::new(7, 600, 1) };
    let fleet = Fleet::of(plan).expect("a plan");
    let (base, test): (Vec<_>, Vec<_>) = fleet.values_of(0).into_iter().partition(|(at, _)| at.host % 2 == 0);
    let found = compared(&without_places(&base), &without_places(&test)).variance;
    // Four standard errors: of 600 hosts, and of some 2,400 runs beyond the first of each.
    let near =
        |found: Option<f64>, wanted: f64, error: f64| found.is_some_and(|v| (v / wanted - 1.0).abs() < 4.0 * error);
    assert!(near(found.between_hosts, 0.01, (2.0_f64 / 600.0).sqrt() * 1.1), "{found:?}");
    assert!(near(found.within_hosts, 0.0025, (2.0_f64 / 2_400.0).sqrt()), "{found:?}");
    assert!(near(found.intraclass_correlation, 0.8, 0.015), "{found:?}");
}

#[test]
fn identical_values_have_no_p() {
    let side = |names: [&'static str; 4], value| names.map(|host| run(host, value)).to_vec();
    let (one, other) = (["a", "b", "c", "d"], ["e", "f", "g", "h"]);
    let equal = compared(&side(one, 7.1), &side(other, 7.1));
    assert_eq!((equal.outcome, equal.p), (Outcome::NotTested, None));
    assert!(said(&equal.notes, "the same under both labels"));
    let differ = compared(&side(one, 7.1), &side(other, 8.2));
    assert_eq!((differ.outcome, differ.p), (Outcome::DeterministicDifference, None));
    assert!(differ.ratio.is_some_and(|ratio| (ratio - 8.2 / 7.1).abs() < 1e-12));
    let three = compared(&side(one, 7.1)[..3], &side(other, 8.2));
    assert_eq!(three.outcome, Outcome::NotTested);
    // One side that varies is enough for a test.
    let varies: Vec<RunValue> = other.iter().zip([8.0, 8.2, 8.4, 8.1]).map(|(host, value)| run(host, value)).collect();
    assert_eq!(compared(&side(one, 7.1), &varies).outcome, Outcome::Tested);
    // Within hosts: the same difference on each.
    let moved: Vec<RunValue> = one.iter().map(|host| run(host, 14.2)).collect();
    assert_eq!(compared(&side(one, 7.1), &moved).outcome, Outcome::DeterministicDifference);
}

#[test]
fn missing_values_are_left_out_and_never_zero() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let full: Vec<RunValue> = names.iter().enumerate().map(|(at, host)| run(host, 10.0 + at as f64)).collect();
    let nothing = |host: &'static str, value| RunValue { host, start_ns: None, value };
    let mut holed = full.clone();
    holed.extend([nothing("a", None), nothing("b", Some(f64::NAN)), nothing("z", Some(f64::INFINITY))]);
    let (plain, found) = (compared(&full[..4], &full[4..]), compared(&holed[..4], &holed[4..]));
    assert_eq!((plain.p, plain.ratio, plain.scale), (found.p, found.ratio, Scale::Log));
    assert_eq!(found.runs_without_value, 3);
    assert!(said(&found.notes, "3 runs without a value are left out"));
    assert!(compared(&[nothing("a", None)], &[nothing("b", None)]).base.mean.is_none());
}

#[test]
fn times_that_separate_the_sides_are_pointed_at() {
    let names = ["a", "b", "c"];
    let at = |start_ns: i64, values: [f64; 3]| -> Vec<RunValue> {
        let runs = names.iter().zip(values);
        runs.map(|(host, value)| RunValue { host, start_ns: Some(start_ns), value: Some(value) }).collect()
    };
    let found = compared(&at(1, [1.0, 2.0, 3.0]), &at(2, [1.1, 2.3, 3.2]));
    assert!(said(&found.notes, "all runs of the base were made before all of the test side"));
    let mixed = compared(&at(1, [1.0, 2.0, 3.0]), &at(1, [1.1, 2.3, 3.2]));
    assert!(!said(&mixed.notes, "all runs of the base"));
}

#[test]
fn outliers_need_hosts_and_a_scale() {
    let names: Vec<String> = (0..20).map(|at| format!("h{at:02}")).collect();
    let few: Vec<RunValue> = names.iter().take(7).map(|host| run(host, 1.0)).collect();
    assert!(said(&outliers(&few, &OutlierOptions::default()).notes, "at least 8 are needed"));
    assert!(said(&outliers(&[], &OutlierOptions::default()).notes, "no host has a value"));
    let mut even: Vec<RunValue> = names.iter().map(|host| run(host, 8.0)).collect();
    even[3].value = Some(9.0);
    let found = outliers(&even, &OutlierOptions::default());
    assert_eq!((found.outcome, found.outliers), (Outcome::NotTested, 0));
    assert!(said(&found.notes, "1 hosts have another value"), "{:?}", found.notes);
    assert_eq!(found.deviations.first().map(|one| (one.host.as_str(), one.p)), Some(("h03", None)));
    // On a linear scale sizes are differences.
    let spread: Vec<RunValue> = names.iter().enumerate().map(|(at, host)| run(host, at as f64 - 10.0)).collect();
    let found = outliers(&spread, &OutlierOptions::default());
    assert_eq!(found.scale, Scale::Linear);
    assert!(found.deviations.iter().all(|one| one.ratio.is_none() && one.difference.is_some()));
}

#[test]
fn settings_without_a_metric_are_listed_and_not_tested() {
    let names: Vec<String> = (0..6).map(|at| format!("h{at}")).collect();
    let settings: Vec<HostSetting> = names
        .iter()
        .enumerate()
        .map(|(at, host)| HostSetting {
            host,
            key: "thp.enabled",
            value: Some(if at < 4 { "always" } else { "never" }),
        })
        .collect();
    let found = drift(&settings, &[], &[], &DriftOptions::default());
    assert_eq!((found.keys, found.tested, found.settings.len()), (1, 0, 1));
    let entry = &found.settings[0];
    assert_eq!(entry.keys[0].values, ["always", "never"]);
    assert_eq!(entry.classes.iter().map(|class| class.hosts).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(entry.reason.as_deref(), Some("no metric was given"));
    // Two hosts with the rarer value are too few; and values that are all equal cannot be tested.
    let metric: Vec<RunValue> = names.iter().map(|host| run(host, 5.0)).collect();
    let found = drift(&settings, &[], &metric, &DriftOptions::default());
    assert!(
        found.settings[0].reason.as_deref().is_some_and(|why| why.contains("on 2 hosts")),
        "{:?}",
        found.settings[0]
    );
    let halves: Vec<HostSetting> = names
        .iter()
        .enumerate()
        .map(|(at, host)| HostSetting { host, key: "k", value: Some(if at % 2 == 0 { "1" } else { "2" }) })
        .collect();
    let found = drift(&halves, &[], &metric, &DriftOptions::default());
    assert!(found.settings[0].reason.as_deref().is_some_and(|why| why.contains("do not vary")));
    assert!(drift(&[], &[], &metric, &DriftOptions::default()).settings.is_empty());
}

#[test]
fn a_course_of_few_days_is_shown_and_not_tested() {
    let options = CourseOptions::new("load.iops", "1/s", Direction::HigherIsBetter);
    let day_ns = 86_400_000_000_000;
    let at = |host, day: i64, value| RunValue { host, start_ns: Some(day * day_ns), value: Some(value) };
    let mut runs =
        vec![at("a", 0, 1.0), at("b", 0, 2.0), at("c", 0, 3.0), at("a", 2, 1.0), at("b", 2, 2.0), at("c", 2, 3.0)];
    runs.extend([at("a", 3, 9.0), RunValue { host: "a", start_ns: None, value: Some(1.0) }]);
    let found = course(&runs, &options);
    let reasons: Vec<Option<&str>> = found.days.iter().map(|day| day.reason.as_deref()).collect();
    let few = "1 hosts have a value on it; at least 3 are needed";
    assert_eq!(reasons, [None, Some("no host has a value on it"), None, Some(few)]);
    assert!(found.trend.not_tested.is_some() && found.trend.change_points.is_empty());
    assert!(said(&found.notes, "1 runs without a value or a time"));
    assert_eq!(course(&[], &options).days.len(), 0);
}

/// Hosts with a level and a few runs each, under one label.
fn fleet() -> impl Strategy<Value = Vec<Vec<f64>>> {
    prop::collection::vec(prop::collection::vec(1.0..100.0_f64, 1..5), 3..9)
}

fn runs_of<'a>(names: &'a [String], hosts: &[Vec<f64>], factor: f64, repeats: usize) -> Vec<RunValue<'a>> {
    let of_host = hosts.iter().zip(names);
    let values = of_host.flat_map(|(values, host)| {
        (0..repeats).flat_map(move |_| values.iter().map(move |value| run(host, factor * value)))
    });
    values.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A host counts once: runs that are written down ten times change nothing, while the naive test takes them for knowledge.
    #[test]
    fn repeated_runs_say_nothing_new(base in fleet(), test in fleet(), factor in 0.1..10.0_f64) {
        let names: Vec<String> = (0..20).map(|at| format!("h{at:02}")).collect();
        let (base_names, test_names) = names.split_at(10);
        let of = |factor, repeats| {
            compared(&runs_of(base_names, &base, factor, repeats), &runs_of(test_names, &test, factor, repeats))
        };
        let (once, often, scaled) = (of(1.0, 1), of(1.0, 10), of(factor, 1));
        prop_assert_eq!(once.design, Some(Design::Between));
        for other in [&often, &scaled] {
            let (p, wanted) = (other.p.expect("values vary"), once.p.expect("values vary"));
            prop_assert!((p - wanted).abs() <= 1e-9 * wanted.max(1e-9), "{} {}", p, wanted);
        }
        let naive = |found: &FleetComparison| found.naive.map(|naive| naive.p);
        prop_assert!(naive(&often) <= naive(&once));
        // The ends of the interval enclose the ratio, and exchanging the sides inverts it.
        let [low, high] = once.ratio_ci95.expect("an interval");
        let ratio = once.ratio.expect("a ratio");
        prop_assert!(low <= ratio && ratio <= high);
        let back = compared(&runs_of(test_names, &test, 1.0, 1), &runs_of(base_names, &base, 1.0, 1));
        prop_assert!((back.ratio.expect("a ratio") * ratio - 1.0).abs() < 1e-9);
    }
}
