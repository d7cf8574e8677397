//! What an experiment does with its runs: order, settings in force, failures, stopping, going on.
#![allow(clippy::unwrap_used)]

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use pagelab_experiment::{
    ExperimentError, FailureKind, RunErrorKind, RunOptions, RunOutcome, Silent, Step, WARMUP_REASON, dry_run, execute,
    failed_runs, pairing,
};
use pagelab_recording::set::{RunState, SetJson};
use support::{Clock, FakeRunner, Killed, Place, TWO, Ticking, broken, good, tree};

fn states(set: &Path) -> Vec<RunState> {
    SetJson::load(set).unwrap().order.into_iter().map(|run| run.state).collect()
}

#[test]
fn runs_follow_the_order_with_their_settings_and_leave_the_host_as_found() {
    let place = Place::new();
    let runner = FakeRunner::default();
    let executed = execute(&place.plan(TWO), &place.options(), &runner, &mut Silent).unwrap();
    assert!(!executed.interrupted);
    let json = SetJson::load(&place.set()).unwrap();
    assert_eq!((json.seed, json.order.len()), (11, 8));
    assert!(json.order.iter().all(|run| run.state == RunState::Done));
    let expected: Vec<String> = json
        .order
        .iter()
        .map(|run| {
            let thp = if run.variant == "good" { "always" } else { "never" };
            format!("{} {} round {} thp={thp}", run.variant, run.run, run.round)
        })
        .collect();
    assert_eq!(runner.ran(), expected);
    // Every run has the same steps around it.
    let log = runner.log.borrow();
    for at in log.iter().enumerate().filter_map(|(at, line)| line.starts_with("run ").then_some(at)) {
        assert_eq!(log[at - 3..at], ["prepare", "sync", "drop_caches"]);
        assert_eq!(log[at + 1], "cleanup");
    }
    assert_eq!(runner.values.borrow().get("thp.enabled").map(String::as_str), Some("before"));
    let details = executed.set.details();
    assert_eq!(details.len(), 8);
    let changes = &details.values().next().unwrap().changes;
    assert_eq!((changes[0].key.as_str(), changes[0].previous.as_str()), ("thp.enabled", "before"));
}

#[test]
fn process_settings_and_the_rounds_seed_reach_the_run() {
    let place = Place::new();
    let seeds: Rc<std::cell::RefCell<BTreeMap<u64, BTreeSet<u64>>>> = Rc::default();
    let seen = seeds.clone();
    let runner = FakeRunner::scripted(move |spec| {
        assert_eq!(spec.process.contains_key("env.WHO"), spec.variant == "bad");
        assert!(!spec.process.contains_key("thp.enabled"));
        assert_eq!(spec.timeout.unwrap().as_secs(), 5);
        seen.borrow_mut().entry(spec.round).or_default().insert(spec.seed);
        Ok(good())
    });
    execute(&place.plan(TWO), &place.options(), &runner, &mut Silent).unwrap();
    let seeds = seeds.borrow();
    assert!(seeds.values().all(|of_round| of_round.len() == 1), "both sides of a round have one seed");
    assert_eq!(seeds.values().flatten().collect::<BTreeSet<_>>().len(), 4, "rounds differ");
}

/// Each way to fail: what happens in the third run made, and the word that its reason begins with.
#[test]
fn failures_are_shown_and_the_rest_still_runs() {
    type Fault = fn(&mut FakeRunner);
    fn third(runner: &mut FakeRunner, outcome: fn() -> Result<RunOutcome, pagelab_experiment::RunError>) {
        let made = Rc::new(std::cell::Cell::new(0));
        runner.script = Box::new(move |_| {
            made.set(made.get() + 1);
            if made.get() == 3 { outcome() } else { Ok(good()) }
        });
    }
    let cases: [(FailureKind, Fault); 9] = [
        (FailureKind::ExitStatus, |r| third(r, || Ok(RunOutcome { code: Some(7), complete: true, ..good() }))),
        (FailureKind::Signal, |r| third(r, || Ok(RunOutcome { code: None, signal: Some(11), ..good() }))),
        (FailureKind::Timeout, |r| {
            third(r, || Ok(RunOutcome { timed_out: true, code: None, signal: Some(15), ..good() }));
        }),
        (FailureKind::Recording, |r| third(r, || Ok(RunOutcome { complete: false, ..good() }))),
        (FailureKind::Recording, |r| third(r, || Err(broken(RunErrorKind::Recording, "no space")))),
        (FailureKind::NotStarted, |r| third(r, || Err(broken(RunErrorKind::Work, "no such program")))),
        (FailureKind::Host, |r| third(r, || Err(broken(RunErrorKind::Host, "no BTF")))),
        (FailureKind::Prepare, |r| {
            r.steps = Box::new(|step, number| match step {
                Step::Prepare(_) if number == 8 => Err(broken(RunErrorKind::Work, "prepare: exit status 1")),
                _ => Ok(()),
            });
        }),
        (FailureKind::Between, |r| {
            r.steps = Box::new(|step, number| match step {
                Step::Between(_) if number == 9 => Err(broken(RunErrorKind::Host, "cannot write")),
                _ => Ok(()),
            });
        }),
    ];
    for (kind, fault) in cases {
        let place = Place::new();
        let mut runner = FakeRunner::default();
        fault(&mut runner);
        let plan = place.plan(TWO);
        let executed = execute(&plan, &place.options(), &runner, &mut Silent).unwrap();
        let failed = failed_runs(executed.set.runs());
        assert_eq!(failed.len(), 1, "{kind:?}");
        assert_eq!(failed[0].kind, kind.word(), "{}", failed[0].reason);
        assert!(failed[0].reason.starts_with(kind.word()));
        assert_eq!(failed[0].round, 2);
        assert_eq!(states(&place.set()).iter().filter(|state| **state == RunState::Done).count(), 7);
        assert_eq!(runner.values.borrow().get("thp.enabled").map(String::as_str), Some("before"), "{kind:?}");
        let steps = runner.log.borrow().iter().filter(|line| *line == "cleanup").count();
        assert_eq!(steps, 8, "cleanup follows every run, {kind:?}");
        drop(executed);
        // Going on does not try it again.
        let runner = FakeRunner::default();
        execute(&plan, &place.resume(), &runner, &mut Silent).unwrap();
        assert!(runner.ran().is_empty());
    }
}

#[test]
fn asked_is_not_got() {
    let place = Place::new();
    let plan = place.plan(
        "runs = 2\nseed = 1\ncommand = 'x'\n[variant.a]\n[variant.b]\nsettings = { 'hugetlb.2M.nr_hugepages' = 200 }\n",
    );
    let runner = FakeRunner { grants: |_| "180".to_owned(), ..FakeRunner::default() };
    let executed = execute(&plan, &place.options(), &runner, &mut Silent).unwrap();
    let failed = failed_runs(executed.set.runs());
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|run| run.variant == "b" && run.kind == "setting_not_got"));
    assert!(failed[0].reason.contains("asked for 200, got 180"), "{}", failed[0].reason);
    // The run was not made under settings that did not take effect, and changes are undone.
    assert_eq!(runner.ran().len(), 2);
    assert_eq!(runner.values.borrow()["hugetlb.2M.nr_hugepages"], "before");
    let dir = &failed[0].dir;
    assert_eq!(executed.set.details()[dir].changes[0].got, "180");
}

#[test]
fn an_experiment_in_which_nothing_works_ends_after_one_round() {
    let place = Place::new();
    let runner = FakeRunner::scripted(|_| Err(broken(RunErrorKind::Work, "no such program")));
    let error = execute(&place.plan(TWO), &place.options(), &runner, &mut Silent).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(
        error.to_string().contains("all 2 runs of round 1") && error.to_string().contains("no such program"),
        "{error}"
    );
    assert_eq!(runner.runs.get(), 2);
    let place = Place::new();
    let runner = FakeRunner::scripted(|_| Err(broken(RunErrorKind::Host, "no BTF")));
    let error = execute(&place.plan(TWO), &place.options(), &runner, &mut Silent).unwrap_err();
    assert_eq!(error.exit_status(), 3);
}

#[test]
fn warm_up_is_recorded_and_left_out() {
    let place = Place::new();
    let plan = place.plan(&TWO.replace("runs = 4", "runs = 2\nwarmup = 2"));
    let executed = execute(&plan, &place.options(), &FakeRunner::default(), &mut Silent).unwrap();
    let (warm, rest): (Vec<_>, Vec<_>) = executed.set.runs().iter().partition(|run| run.round == 0);
    assert_eq!((warm.len(), rest.len()), (4, 4));
    assert!(executed.set.runs()[..4].iter().all(|run| run.round == 0), "warm-up comes first");
    for run in warm {
        assert_eq!(run.state, RunState::Excluded { reason: WARMUP_REASON.to_owned() });
        assert!(run.dir.starts_with("warmup") && place.set().join(&run.dir).join("manifest.json").exists());
    }
    assert!(rest.iter().all(|run| run.state == RunState::Done && !run.dir.starts_with("warmup")));
    let pairing = pairing(&place.set(), executed.set.runs(), "good", "bad");
    assert_eq!((pairing.base.len(), pairing.test.len()), (2, 2));
}

#[test]
fn a_round_without_one_recording_is_left_out_on_both_sides() {
    let place = Place::new();
    let runner = FakeRunner::scripted(|spec| match (spec.variant.as_str(), spec.round) {
        ("bad", 2) => Err(broken(RunErrorKind::Work, "no such program")),
        ("good", 3) => Ok(RunOutcome { code: Some(1), ..good() }),
        _ => Ok(good()),
    });
    let executed = execute(&place.plan(TWO), &place.options(), &runner, &mut Silent).unwrap();
    let pairing = pairing(&place.set(), executed.set.runs(), "good", "bad");
    // Round 2 has no recording of `bad`; round 3 has both, and the comparison excludes the failed one itself.
    assert_eq!((pairing.base.len(), pairing.test.len()), (3, 3));
    assert_eq!(pairing.unpaired.len(), 1);
    assert_eq!((pairing.unpaired[0].round, pairing.unpaired[0].missing.as_str()), (2, "bad"));
    assert!(
        pairing.unpaired[0].reason.starts_with("no_partner: bad in round 2: not_started"),
        "{:?}",
        pairing.unpaired
    );
}

#[test]
fn the_user_may_stop_and_go_on() {
    for stop in 1..=8 {
        let place = Place::new();
        let plan = place.plan(TWO);
        let runner = FakeRunner { stop_at_run: Some(stop), ..FakeRunner::default() };
        let executed = execute(&plan, &place.options(), &runner, &mut Silent).unwrap();
        assert!(executed.interrupted);
        let of_plan = executed.set.runs().to_vec();
        drop(executed);
        let done = states(&place.set()).iter().filter(|state| **state == RunState::Done).count();
        assert_eq!(done, stop - 1, "the run that was in progress does not count");
        assert_eq!(runner.values.borrow().get("thp.enabled").map(String::as_str), Some("before"));
        let rest = FakeRunner::default();
        let executed = execute(&plan, &place.resume(), &rest, &mut Silent).unwrap();
        assert!(!executed.interrupted);
        assert_eq!(rest.ran().len(), 8 - done);
        assert!(executed.set.runs().iter().all(|run| run.state == RunState::Done));
        let names = |runs: &[pagelab_recording::set::PlannedRun]| -> Vec<String> {
            runs.iter().map(|run| format!("{}{}", run.variant, run.run)).collect()
        };
        assert_eq!(names(executed.set.runs()), names(&of_plan), "the order is kept");
        assert!(place.set().join("aborted").exists(), "what was broken off stays");
    }
}

/// The story: a power cut, or kill -9, at any instant. Whatever is on disk then must be a set that opens, says nothing
/// untrue, and can be brought to its end, each run made once and recorded in a fresh directory.
#[test]
fn a_kill_at_any_instant_costs_one_run() {
    let text = TWO.replace("runs = 4", "runs = 2\nwarmup = 1");
    let mut instants = 0;
    for instant in 1.. {
        let place = Place::new();
        let plan = place.plan(&text);
        let clock = Rc::new(Clock::default());
        clock.kill_at.set(Some(instant));
        let runner = FakeRunner { clock: clock.clone(), ..FakeRunner::default() };
        let mut progress = Ticking(clock);
        let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            execute(&plan, &place.options(), &runner, &mut progress).map(|executed| executed.set.runs().to_vec())
        }));
        let Err(killed) = first else { break };
        assert!(killed.is::<Killed>(), "instant {instant}: the runner's own assertion failed");
        instants += 1;
        let Ok(json) = SetJson::load(&place.set()) else {
            assert!(!place.set().join("set.json").exists(), "instant {instant}: half a set.json");
            assert!(runner.ran().is_empty(), "instant {instant}: a run before the set was there");
            continue;
        };
        let running = json.order.iter().filter(|run| run.state == RunState::Running).count();
        assert!(running <= 1, "instant {instant}");
        for run in &json.order {
            let there = place.set().join(&run.dir).join("manifest.json").exists();
            match run.state {
                RunState::Done | RunState::Excluded { .. } => assert!(there, "instant {instant}: {run:?}"),
                RunState::Planned => assert!(!there, "instant {instant}: {run:?}"),
                RunState::Running | RunState::Failed { .. } => {}
            }
        }
        let over =
            json.order.iter().filter(|run| matches!(run.state, RunState::Done | RunState::Excluded { .. })).count();
        let rest = FakeRunner::default();
        let executed = execute(&plan, &place.resume(), &rest, &mut Silent).unwrap();
        assert_eq!(rest.ran().len(), 6 - over, "instant {instant}");
        assert!(executed.set.runs().iter().all(|run| matches!(run.state, RunState::Done | RunState::Excluded { .. })));
        let dirs: BTreeSet<_> = executed.set.runs().iter().map(|run| run.dir.clone()).collect();
        assert!(dirs.iter().all(|dir| place.set().join(dir).join("manifest.json").exists()), "instant {instant}");
        assert_eq!(dirs.len(), 6);
        let same = executed.set.runs().iter().zip(&json.order).all(|(now, then)| now.dir == then.dir);
        assert!(same, "instant {instant}: the order changed");
    }
    assert!(instants > 60, "{instants} instants tried");
}

#[test]
fn a_set_goes_on_only_with_its_own_plan() {
    let place = Place::new();
    let runner = FakeRunner { stop_at_run: Some(2), ..FakeRunner::default() };
    execute(&place.plan(TWO), &place.options(), &runner, &mut Silent).unwrap();
    for (from, to, what, found, in_set) in [
        ("runs = 4", "runs = 6", "runs", "6", "4"),
        ("\"never\"", "\"madvise\"", "variants[1].settings.thp.enabled.value", "madvise", "never"),
        ("command = \"work\"", "command = \"play\"", "variants[0].work.command[2]", "play", "work"),
        ("drop_caches", "compact", "between[1]", "compact", "drop_caches"),
        ("variant.good", "variant.nice", "base", "nice", "good"),
    ] {
        let plan = place.plan(&TWO.replace(from, to));
        let error = execute(&plan, &place.resume(), &FakeRunner::default(), &mut Silent).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.exit_status(), 2);
        assert!(text.contains(&format!("{what}: found")) && text.contains(found) && text.contains(in_set), "{text}");
    }
    let other_seed = RunOptions { seed: Some(12), ..place.resume() };
    let error = execute(&place.plan(TWO), &other_seed, &FakeRunner::default(), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("seed: found 12, the set has 11"), "{error}");
    // A comment is no change.
    let plan = place.plan(&format!("# a word\n{TWO}"));
    let executed = execute(&plan, &place.resume(), &FakeRunner::default(), &mut Silent).unwrap();
    assert!(executed.set.runs().iter().all(|run| run.state == RunState::Done));
}

#[test]
fn rounds_added_later_make_the_result_exploratory() {
    let place = Place::new();
    let plan = place.plan(TWO);
    let executed = execute(&plan, &place.options(), &FakeRunner::default(), &mut Silent).unwrap();
    assert!(!executed.set.exploratory());
    let before = executed.set.runs().to_vec();
    drop(executed);
    let more = RunOptions { add_runs: 3, ..place.resume() };
    let runner = FakeRunner::default();
    let executed = execute(&plan, &more, &runner, &mut Silent).unwrap();
    assert!(executed.set.exploratory());
    assert_eq!(SetJson::load(&place.set()).unwrap().extra["exploratory"], serde_json::json!(true));
    assert_eq!(&executed.set.runs()[..before.len()], &before[..]);
    assert_eq!((executed.set.runs().len(), runner.ran().len()), (14, 6));
    for round in 5..=7 {
        let of_round: BTreeSet<&str> =
            executed.set.runs().iter().filter(|run| run.round == round).map(|run| run.variant.as_str()).collect();
        assert_eq!(of_round.len(), 2);
    }
    drop(executed);
    // It stays so when it is only looked at again.
    let executed = execute(&plan, &place.resume(), &FakeRunner::default(), &mut Silent).unwrap();
    assert!(executed.set.exploratory());
}

#[test]
fn directories_are_refused_with_what_to_type() {
    let place = Place::new();
    let plan = place.plan(TWO);
    let error = execute(&plan, &place.resume(), &FakeRunner::default(), &mut Silent).unwrap_err();
    assert!(
        matches!(error, ExperimentError::NoSet { .. }) && error.to_string().contains("pagelab experiment PLAN.toml -o"),
        "{error}"
    );
    std::fs::create_dir(place.set()).unwrap();
    std::fs::write(place.set().join("diary.txt"), "mine").unwrap();
    let error = execute(&plan, &place.options(), &FakeRunner::default(), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("1 entries") && error.exit_status() == 2, "{error}");
    std::fs::remove_file(place.set().join("diary.txt")).unwrap();
    let executed = execute(&plan, &place.options(), &FakeRunner::default(), &mut Silent).unwrap();
    let error = execute(&plan, &place.options(), &FakeRunner::default(), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("--resume"), "{error}");
    // While one works on it, no other may.
    let error = execute(&plan, &place.resume(), &FakeRunner::default(), &mut Silent).unwrap_err();
    assert!(matches!(error, ExperimentError::Busy { .. }), "{error}");
    drop(executed);
    execute(&plan, &place.resume(), &FakeRunner::default(), &mut Silent).unwrap();
    let file = RunOptions { set: place.write("file", "x"), ..place.options() };
    let error = execute(&plan, &file, &FakeRunner::default(), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("no directory"), "{error}");
}

#[test]
fn damaged_sets_are_refused_with_the_file() {
    let place = Place::new();
    let plan = place.plan(TWO);
    drop(execute(&plan, &place.options(), &FakeRunner::default(), &mut Silent).unwrap());
    let file = place.set().join("set.json");
    let text = std::fs::read_to_string(&file).unwrap();
    for (damage, needed) in
        [(text[..text.len() / 2].to_owned(), "set.json"), (text.replacen("\"format\": 1", "\"format\": 99", 1), "99")]
    {
        std::fs::write(&file, damage).unwrap();
        let error = execute(&plan, &place.resume(), &FakeRunner::default(), &mut Silent).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        assert!(error.to_string().contains(needed), "{error}");
    }
}

/// A set may come from somebody else: its commands are never carried out, and its directories stay below it.
#[test]
fn a_set_that_was_tampered_with_does_not_decide_what_runs() {
    let place = Place::new();
    let plan = place.plan(TWO);
    let stopped = FakeRunner { stop_at_run: Some(1), ..FakeRunner::default() };
    drop(execute(&plan, &place.options(), &stopped, &mut Silent).unwrap());
    let file = place.set().join("set.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let with = |pointer: &str, value: &str| {
        let mut json = json.clone();
        *json.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is in {text}")) = value.into();
        serde_json::to_string(&json).unwrap()
    };
    let outside = place.dir.path().join("elsewhere");
    let command = json.pointer("/here/variants/0/work/command").or(json.pointer("/here/variants/0/work")).unwrap();
    let at = if command.is_array() { "/here/variants/0/work/command/2" } else { "/here/variants/0/work/command" };
    for (pointer, value, said) in [
        (at, "touch /tmp/pagelab-was-turned", "touch"),
        ("/order/0/dir", "../../elsewhere", "elsewhere"),
        ("/order/1/dir", outside.to_str().unwrap(), "elsewhere"),
    ] {
        std::fs::write(&file, with(pointer, value)).unwrap();
        let runner = FakeRunner::default();
        let error = execute(&plan, &place.resume(), &runner, &mut Silent).unwrap_err();
        assert!(error.exit_status() == 2 && error.to_string().contains(said), "{pointer}: {error}");
        assert!(runner.ran().is_empty(), "{pointer}: {:?}", runner.ran());
        assert!(!outside.exists());
    }
    std::fs::write(&file, text).unwrap();
    execute(&plan, &place.resume(), &FakeRunner::default(), &mut Silent).unwrap();
}

#[test]
fn a_removed_recording_is_made_again() {
    let place = Place::new();
    let plan = place.plan(TWO);
    let executed = execute(&plan, &place.options(), &FakeRunner::default(), &mut Silent).unwrap();
    let gone = executed.set.runs()[2].clone();
    drop(executed);
    std::fs::remove_dir_all(place.set().join(&gone.dir)).unwrap();
    let runner = FakeRunner::default();
    execute(&plan, &place.resume(), &runner, &mut Silent).unwrap();
    assert_eq!(runner.ran().len(), 1);
    assert!(runner.ran()[0].starts_with(&format!("{} {} ", gone.variant, gone.run)));
}

#[test]
fn names_do_not_matter_to_the_order_and_base() {
    let place = Place::new();
    let plan = place.plan(TWO);
    let renamed = plan.clone().with_random_names(3);
    assert_ne!(renamed.with_random_names(4).variants[0].name, plan.clone().with_random_names(3).variants[0].name);
    let renamed = plan.clone().with_random_names(3);
    assert!(renamed.variants.iter().all(|variant| !["good", "bad"].contains(&variant.name.as_str())));
    assert_eq!(renamed.base, renamed.variants[0].name);
    assert_eq!(renamed.variants[0].settings, plan.variants[0].settings);
    let runner = FakeRunner::default();
    let executed = execute(&renamed, &place.options(), &runner, &mut Silent).unwrap();
    let roles: Vec<bool> = executed.set.runs().iter().map(|run| run.variant == renamed.base).collect();
    let other = Place::new();
    let executed =
        execute(&plan, &RunOptions { root: place.root(), ..other.options() }, &FakeRunner::default(), &mut Silent)
            .unwrap();
    let original: Vec<bool> = executed.set.runs().iter().map(|run| run.variant == "good").collect();
    assert_eq!(roles, original);
}

#[test]
fn a_dry_run_tells_everything_and_changes_nothing() {
    let place = Place::new();
    let plan = place.plan(TWO);
    let before = tree(place.dir.path());
    let dry = dry_run(&plan, &place.options()).unwrap();
    assert_eq!(tree(place.dir.path()), before);
    assert!(!place.set().exists());
    let text = dry.to_string();
    for needed in [
        "thp.enabled: madvise -> always",
        "env.WHO: - -> bad",
        "good (base)",
        "round 4",
        "before each run: /bin/sh -c true; sync; drop_caches",
        "after each run: true",
        "nothing was changed",
        "/bin/sh -c work",
        "8 runs",
    ] {
        assert!(text.contains(needed), "{needed:?} is missing in\n{text}");
    }
    let executed = execute(&plan, &place.options(), &FakeRunner::default(), &mut Silent).unwrap();
    let order: Vec<String> = dry.order.iter().flat_map(|round| round.variants.clone()).collect();
    let made: Vec<String> = executed.set.runs().iter().map(|run| run.variant.clone()).collect();
    assert_eq!(order, made);
    drop(executed);
    let rest = dry_run(&plan, &RunOptions { add_runs: 1, ..place.resume() }).unwrap();
    assert_eq!(rest.order.len(), 1);
    assert_eq!(rest.estimate.runs, 2);
    assert!(rest.estimate.seconds.is_some(), "runs were made, so there is a time to go by");
}

#[test]
fn a_seed_is_drawn_and_kept_where_the_plan_has_none() {
    let place = Place::new();
    let plan = place.plan(&TWO.replace("seed = 11\n", ""));
    let runner = FakeRunner { stop_at_run: Some(3), ..FakeRunner::default() };
    execute(&plan, &place.options(), &runner, &mut Silent).unwrap();
    let seed = SetJson::load(&place.set()).unwrap().seed;
    let executed = execute(&plan, &place.resume(), &FakeRunner::default(), &mut Silent).unwrap();
    assert_eq!(executed.set.json().seed, seed);
    let other = Place::new();
    let executed =
        execute(&plan, &RunOptions { root: place.root(), ..other.options() }, &FakeRunner::default(), &mut Silent)
            .unwrap();
    assert_ne!(executed.set.json().seed, seed);
}
