//! What is true of each cause, and whether the rules know it.
//!
//! The rows ([`memory`], [`files`], [`devices`], [`cpu`]) are written from the kernel's documentation, `docs/metrics.md` and `docs/budget.md`, not
//! from the rules: what a cause moves, in which components its time shows, what looks like it and is something else, from which ratio
//! on a figure counts, which settings bring it about and which way, and what explains the same time better. [`questions`] turns a row
//! into scenes with the answer that is true; the rule must give it. Then one fact of the rule is changed at a time ([`change`]) and all
//! questions of its row are asked again: a change that no answer shows stands in [`unnoticed`] with its reason.
//!
//! To add a rule write its row first. What the table lacks of it the test names.

mod change;
mod cpu;
mod devices;
mod files;
mod memory;
mod questions;
mod unnoticed;

use std::collections::BTreeSet;

use pagelab_vocab::causes::cause;

use super::DECLARED;
use crate::rules::component_rule::ComponentRule;
use questions::{Question, disagreement, disagreements, questions};

/// Figures of a run by name: on the fast side, on the slow side.
///
/// `in:CALL` says in which call all time is spent, `through:FUNCTION` in which function, whatever the figures; `fsync` and none unless said;
/// `at:COMPONENT:FUNCTION` in which one that of a component is; `MODULE!FUNCTION` is a program's. `stacks:none`: no stacks were recorded.
/// `device` is the target's own: 1 for `vda`, 2 for `vdb`, which then has the figures of the slow side; it is not known unless said.
/// `time:COMPONENT` in ns, `calls:KIND`, `given_back` in bytes, `faults:KIND`, `forks`, `threads`, `execs`, `cpu.speed`; any other name is one of
/// `docs/metrics.md`, that of a device being `vda`'s unless it names another. `own:COMPONENT` says in which component the loss is, in place
/// of the first of the row. Later entries replace earlier ones.
type Moves = &'static [(&'static str, f64, f64)];

/// What is true of a cause.
#[derive(Debug, Clone, Copy)]
struct Truth {
    cause: &'static str,
    /// Components in which the loss can show; each is tried alone.
    time: &'static [&'static str],
    /// Components near these in which a loss has another reason.
    elsewhere: &'static [&'static str],
    /// What the cause moves beside time.
    moves: Moves,
    /// Other ways in which it shows, put over `moves`.
    also: &'static [(&'static str, Moves)],
    /// What looks like it and is something else, put over `moves`.
    not: &'static [(&'static str, Moves)],
    /// Where figures begin to count.
    edges: &'static [Edge],
    /// Settings that bring it about.
    levers: &'static [Setting],
    /// What is said where none of them differs.
    without_lever: Without,
    /// Which part of the lost time is the cause's.
    claims: Claims,
    /// The most that one of its events can cost, ns.
    dearest_ns: Option<f64>,
    /// Causes that explain the same time better where they hold.
    better: &'static [&'static str],
}

/// A figure's ratio of the slow side to the fast one at which the answer changes; the rest is as in the scene, with `with` over it.
#[derive(Debug, Clone, Copy)]
struct Edge {
    figure: &'static str,
    ratio: f64,
    counts: Counts,
    with: Moves,
    /// The component that takes the loss instead of the first one.
    own: Option<&'static str>,
    /// Nothing is lost but what the figure, a component of the cause, rises by.
    is_all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Counts {
    Above,
    Below,
}

const fn above(figure: &'static str, ratio: f64) -> Edge {
    Edge { figure, ratio, counts: Counts::Above, with: &[], own: None, is_all: false }
}

const fn below(figure: &'static str, ratio: f64) -> Edge {
    Edge { figure, ratio, counts: Counts::Below, with: &[], own: None, is_all: false }
}

impl Edge {
    const fn with(self, with: Moves) -> Self {
        Self { with, ..self }
    }

    /// The loss is in this component.
    const fn beside(self, own: &'static str) -> Self {
        Self { own: Some(own), ..self }
    }

    /// There is no other loss.
    const fn alone(self) -> Self {
        Self { is_all: true, ..self }
    }
}

/// A setting that brings a cause about.
#[derive(Debug, Clone, Copy)]
struct Setting {
    key: &'static str,
    /// Values of the fast and of the slow side.
    good: &'static str,
    bad: &'static str,
    /// Any change can bring it about: the other way round as well.
    either_way: bool,
    /// What must be seen beside it, without which it changes nothing.
    with: Moves,
    /// It is too small a change to bring anything about.
    is_harmless: bool,
}

/// A change to the worse; the other way round it brings nothing about.
const fn worse(key: &'static str, good: &'static str, bad: &'static str) -> Setting {
    Setting { key, good, bad, either_way: false, with: &[], is_harmless: false }
}

/// Any change; which way is the worse depends on the program.
const fn either(key: &'static str, one: &'static str, other: &'static str) -> Setting {
    Setting { key, good: one, bad: other, either_way: true, with: &[], is_harmless: false }
}

/// A change that brings nothing about, either way.
const fn harmless(key: &'static str, one: &'static str, other: &'static str) -> Setting {
    Setting { key, good: one, bad: other, either_way: false, with: &[], is_harmless: true }
}

impl Setting {
    const fn with(self, with: Moves) -> Self {
        Self { with, ..self }
    }
}

/// What is said where the signs are there and no setting differs.
#[derive(Debug, Clone, Copy)]
enum Without {
    /// Nothing: only a setting brings it about.
    Nothing,
    /// Nothing, unless something is seen beside the signs that nothing else brings about: what is seen, and whether it is that.
    NothingUnless(&'static [(&'static str, Moves, bool)]),
    /// The cause, and that the chain has a hole.
    Hole,
    /// The cause. Where it is a part of the loss only and one of these figures rises as well, it may be a part of more work: a hole.
    MoreWork(&'static [&'static str]),
    /// The cause: the program, or the state of the host, can bring it about as well.
    Cause,
}

/// Figures that rise where a program does more work of every kind.
const WORK: &[&str] = &["target.io.syscr", "target.io.syscw", "faults.count", "forks", "threads", "execs"];

/// Which part of the rise of its components' time is the cause's.
#[derive(Debug, Clone, Copy)]
enum Claims {
    /// All of it.
    Rise,
    /// All of it; and where the rise is in the program's own code, it may still be the cause's (misses of the TLB).
    RiseAndTlb,
    /// What more of this figure costs, at the fast side's price.
    More(&'static str),
    /// What the same number of this figure costs more.
    Dearer(&'static str),
}

/// All rows.
fn rows() -> impl Iterator<Item = &'static Truth> {
    [memory::ROWS, files::ROWS, devices::ROWS, cpu::ROWS].into_iter().flatten()
}

fn row(cause: &str) -> Option<&'static Truth> {
    rows().find(|truth| truth.cause == cause)
}

/// The facts of a rule that no row speaks of.
fn without_row(rule: &ComponentRule, truth: &Truth) -> Vec<String> {
    let known = |pattern: &str| truth.levers.iter().any(|lever| pagelab_vocab::settings::matches(pattern, lever.key));
    let levers = rule.levers.iter().filter(|lever| !known(lever.pattern));
    let mut lacking: Vec<String> =
        levers.map(|lever| format!("{}: setting {} has no row", rule.cause, lever.pattern)).collect();
    let sorted = |names: &[&'static str]| names.iter().copied().collect::<BTreeSet<_>>();
    if sorted(rule.yields_to) != sorted(truth.better) {
        lacking.push(format!("{}: yields to {:?}, explained better by {:?}", rule.cause, rule.yields_to, truth.better));
    }
    lacking
}

#[test]
fn every_rule_has_a_row_and_agrees_with_it() {
    let mut wrong = Vec::new();
    for rule in DECLARED.iter().copied() {
        let (Some(truth), Some(def)) = (row(rule.cause), cause(rule.cause)) else {
            wrong.push(format!("{}: no row", rule.cause));
            continue;
        };
        wrong.extend(without_row(rule, truth));
        wrong.extend(disagreements(rule, def, &questions(truth)));
    }
    for truth in rows() {
        if !DECLARED.iter().any(|rule| rule.cause == truth.cause) {
            wrong.push(format!("{}: a row without a rule", truth.cause));
        }
    }
    assert!(wrong.is_empty(), "{} answers are not true:\n{}", wrong.len(), wrong.join("\n"));
}

/// A change of a fact that no answer of the row shows.
fn unseen(rule: &ComponentRule, truth: &Truth, asked: &[Question]) -> (usize, Vec<String>) {
    let changes = change::changes(rule);
    let is_seen = |change: &change::Changed| {
        !without_row(&change.rule, truth).is_empty() || disagreement(&change.rule, change.def, asked).is_some()
    };
    let unseen =
        changes.iter().filter(|change| !is_seen(change)).map(|change| format!("{}: {}", rule.cause, change.what));
    (changes.len(), unseen.collect())
}

#[test]
fn every_changed_fact_of_a_rule_is_noticed() {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let judge = |first: usize| {
        let (mut made, mut all) = (0, Vec::new());
        for rule in DECLARED.iter().copied().skip(first).step_by(count) {
            let Some(truth) = row(rule.cause) else { continue };
            let (changes, unseen) = unseen(rule, truth, &questions(truth));
            made += changes;
            all.extend(unseen);
        }
        (made, all)
    };
    let found: Vec<(usize, Vec<String>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|first| scope.spawn(move || judge(first))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let made: usize = found.iter().map(|(made, _)| made).sum();
    let unseen: BTreeSet<String> = found.into_iter().flat_map(|(_, unseen)| unseen).collect();
    let listed: BTreeSet<String> = unnoticed::UNNOTICED.iter().map(|(what, _)| (*what).to_owned()).collect();
    println!("{made} facts changed, {} noticed", made - unseen.len());
    let new: Vec<&String> = unseen.difference(&listed).collect();
    assert!(new.is_empty(), "{} of {made} changes are noticed by no row:\n{new:#?}", new.len());
    let gone: Vec<&String> = listed.difference(&unseen).collect();
    assert!(gone.is_empty(), "noticed by now: take it off the list in unnoticed.rs: {gone:#?}");
    assert!(unseen.len() * 20 <= made, "{} of {made} are not noticed: 5 % at most", unseen.len());
}
