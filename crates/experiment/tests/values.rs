//! Numbers of the user's own in plans, and what is said of them.
#![allow(clippy::unwrap_used)]

use crate::support;

use std::cell::RefCell;

use pagelab_experiment::{Better, Event, Plan, Progress, RunOptions, RunOutcome, execute};
use pagelab_recording::set::{RunState, SetJson};
use support::{FakeRunner, Place, good};

const PLAN: &str = r#"
runs = 2
seed = 3
command = "work"

[value]
tps = { regex = "tps = ([0-9.]+)", direction = "higher" }
lat = "lat = ([0-9.]+)"

[variant.a]

[variant.b]
settings = { "env.X" = "1" }
"#;

#[derive(Default)]
struct Notes(RefCell<Vec<String>>);

impl Progress for Notes {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Note(note) = event {
            self.0.borrow_mut().push((*note).to_owned());
        }
    }
}

fn without(value: &str) -> RunOutcome {
    RunOutcome {
        missing_values: vec![(value.to_owned(), "no line".to_owned())],
        warnings: vec!["no BPF here".to_owned()],
        ..good()
    }
}

#[test]
fn a_plan_names_its_numbers_in_their_order() {
    let place = Place::new();
    let plan = place.plan(PLAN);
    let names: Vec<_> = plan.values.iter().map(|value| (value.name.as_str(), value.direction)).collect();
    assert_eq!(names, [("tps", Some(Better::Higher)), ("lat", None)]);
    assert_eq!(
        Plan::load(&place.write("plan.toml", "runs = 2\ncommand = \"x\"\n[variant.a]\n[variant.b]\n"))
            .unwrap()
            .to_json()
            .get("values"),
        None
    );
    for (line, needed) in [
        ("value = 3", "plan.toml:1"),
        ("value.x = \"[0-9]+\"", "parentheses"),
        ("value.x = { direction = \"up\", regex = \"(.)\" }", "\"higher\" or \"lower\""),
        ("primary = { metric = \"value.y\" }", "this plan has none"),
        ("value.x = \"(.)\"\nprimary = { metric = \"value.y\" }", "(value.x)"),
    ] {
        let text = format!("{line}\nruns = 2\ncommand = \"x\"\n[variant.a]\n[variant.b]\n");
        let error = Plan::load(&place.write("plan.toml", &text)).unwrap_err().to_string();
        assert!(error.contains(needed), "{line}: {error}");
    }
}

#[test]
fn a_run_without_the_deciding_number_has_failed_and_one_without_another_has_not() {
    for (missing, failed) in [("tps", 2), ("lat", 0)] {
        let place = Place::new();
        let runner = FakeRunner::scripted(move |spec| {
            assert_eq!(spec.values.len(), 2);
            Ok(if spec.variant == "b" { without(missing) } else { good() })
        });
        execute(&place.plan(PLAN), &place.options(), &runner, &mut Notes::default()).unwrap();
        let set = SetJson::load(&place.set()).unwrap();
        let reasons: Vec<&str> = set
            .order
            .iter()
            .filter_map(|run| match &run.state {
                RunState::Failed { reason } => Some(reason.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(reasons.len(), failed, "{missing}: {reasons:?}");
        assert!(reasons.iter().all(|reason| *reason == "no_value: tps: no line"), "{reasons:?}");
    }
}

#[test]
fn what_every_run_says_is_said_once_and_kept_for_each() {
    let place = Place::new();
    let runner = FakeRunner::scripted(|_| Ok(without("lat")));
    let mut notes = Notes::default();
    let options = RunOptions { hide_output: true, ..place.options() };
    let executed = execute(&place.plan(PLAN), &options, &runner, &mut notes).unwrap();
    assert_eq!(notes.0.borrow().as_slice(), ["no BPF here"]);
    assert!(executed.set.details().values().all(|details| details.warnings == ["no BPF here"]));
}
