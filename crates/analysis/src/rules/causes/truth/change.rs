//! Every rule with one of its facts changed.

use pagelab_vocab::budget::COMPONENTS;
use pagelab_vocab::causes::{CauseDef, cause};
use pagelab_vocab::metrics::declared;
use pagelab_vocab::syscalls::Purpose;

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Spent};
use crate::rules::evidence::is_of;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Change, Quantity, Sign, Way};

/// A rule that differs in one fact from the one that is there.
#[derive(Debug)]
pub(super) struct Changed {
    /// The fact, in words.
    pub(super) what: String,
    pub(super) rule: ComponentRule,
    pub(super) def: &'static CauseDef,
}

/// A list for the life of the test.
fn list<T>(items: Vec<T>) -> &'static [T] {
    items.leak()
}

fn kept<T>(item: T) -> &'static T {
    Box::leak(Box::new(item))
}

/// The list without each of its items, and the number of that one.
fn without_each<T: Copy + 'static>(items: &[T]) -> impl Iterator<Item = (usize, &'static [T])> + '_ {
    (0..items.len()).map(|left_out| {
        let rest = items.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, item)| *item);
        (left_out, list(rest.collect()))
    })
}

/// The list with another item at a place.
fn with_item<T: Copy + 'static>(items: &[T], at: usize, item: T) -> &'static [T] {
    let mut items = items.to_vec();
    items[at] = item;
    list(items)
}

/// Every change of one fact.
pub(super) fn changes(rule: &ComponentRule) -> Vec<Changed> {
    let def = cause(rule.cause).expect("declared");
    let of_rule = |(what, rule): (String, ComponentRule)| Changed { what, rule, def };
    let mut all: Vec<Changed> = Vec::new();
    all.extend(of_signs(rule).into_iter().map(of_rule));
    all.extend(of_refuters(rule).into_iter().map(of_rule));
    all.extend(of_levers(rule).into_iter().map(of_rule));
    all.extend(of_need(rule).into_iter().map(of_rule));
    all.extend(of_part(rule).into_iter().map(of_rule));
    all.extend(of_spent(rule.spent).into_iter().map(|(what, spent)| of_rule((what, ComponentRule { spent, ..*rule }))));
    let yields = without_each(rule.yields_to).map(|(at, yields_to)| {
        (format!("does not yield to {}", rule.yields_to[at]), ComponentRule { yields_to, ..*rule })
    });
    all.extend(yields.map(of_rule));
    all.extend(of_def(rule, def));
    all
}

fn of_signs(rule: &ComponentRule) -> Vec<(String, ComponentRule)> {
    let mut all = Vec::new();
    for (at, signs) in without_each(rule.signs) {
        all.push((format!("sign '{}' gone", rule.signs[at].what), ComponentRule { signs, ..*rule }));
    }
    for (at, sign) in rule.signs.iter().enumerate() {
        for (what, changed) in of_sign(sign) {
            let signs = with_item(rule.signs, at, changed);
            all.push((format!("sign '{}' {what}", sign.what), ComponentRule { signs, ..*rule }));
        }
    }
    all
}

fn of_refuters(rule: &ComponentRule) -> Vec<(String, ComponentRule)> {
    let mut all = Vec::new();
    for (at, refuters) in without_each(rule.refuters) {
        all.push((format!("refuter '{}' gone", rule.refuters[at].means), ComponentRule { refuters, ..*rule }));
    }
    for (at, refuter) in rule.refuters.iter().enumerate() {
        for (what, sign) in of_sign(&refuter.sign) {
            let refuters = with_item(rule.refuters, at, Refuter { sign, ..*refuter });
            all.push((format!("refuter '{}' {what}", refuter.means), ComponentRule { refuters, ..*rule }));
        }
    }
    all
}

/// The sign with another threshold, direction or quantity, and the same of the signs beside it.
fn of_sign(sign: &Sign) -> Vec<(String, Sign)> {
    let with = |change: Change| sign.with(sign.quantity, change);
    let mut all: Vec<(String, Sign)> =
        of_change(sign.change).into_iter().map(|(what, change)| (what, with(change))).collect();
    all.extend(of_quantity(sign.quantity).into_iter().map(|(what, quantity)| (what, sign.with(quantity, sign.change))));
    let others = sign.others();
    for (at, name) in ["or", "unless", "beside"].into_iter().enumerate() {
        let Some(other) = others[at] else { continue };
        let replaced = |by: Option<&'static Sign>| {
            let mut others = others;
            others[at] = by;
            sign.with_others(others)
        };
        all.push((format!("{name} '{}' gone", other.what), replaced(None)));
        for (what, changed) in of_sign(other) {
            all.push((format!("{name} '{}' {what}", other.what), replaced(Some(kept(changed)))));
        }
    }
    all
}

fn of_change(change: Change) -> Vec<(String, Change)> {
    let named = |what: &str, change: Change| (what.to_owned(), change);
    match change {
        Change::Rises(times) => vec![
            named("times 1.5", Change::Rises(times * 1.5)),
            named("by 1.5", Change::Rises(times / 1.5)),
            named("falls", Change::Falls(1.0 / times)),
        ],
        Change::RisesTo(times, least) => vec![
            named("times 1.5", Change::RisesTo(times * 1.5, least)),
            named("by 1.5", Change::RisesTo(times / 1.5, least)),
            named("least times 1.5", Change::RisesTo(times, least * 1.5)),
            named("least by 1.5", Change::RisesTo(times, least / 1.5)),
            named("falls", Change::Falls(1.0 / times)),
        ],
        Change::Falls(part) => vec![
            named("times 1.5", Change::Falls(part * 1.5)),
            named("by 1.5", Change::Falls(part / 1.5)),
            named("rises", Change::Rises(1.0 / part)),
        ],
        Change::StaysBelow(times) => vec![
            named("times 1.5", Change::StaysBelow(times * 1.5)),
            named("by 1.5", Change::StaysBelow(times / 1.5)),
            named("rises", Change::Rises(times)),
        ],
        Change::Keeps(part) => vec![
            named("times 1.5", Change::Keeps(part * 1.5)),
            named("by 1.5", Change::Keeps(part / 1.5)),
            named("falls", Change::Falls(part)),
        ],
    }
}

type Names = &'static [&'static str];
/// Gives the name that is put in the place of one.
type Sibling = fn(&'static str) -> &'static str;

/// A list without each of its names, and with the next one in the place of each.
fn lists(names: Names, sibling: Sibling) -> Vec<(String, Names)> {
    let fewer = without_each(names).filter(|(_, names)| !names.is_empty());
    let mut all: Vec<_> = fewer.map(|(at, rest)| (format!("without {}", names[at]), rest)).collect();
    for (at, name) in names.iter().copied().enumerate() {
        all.push((format!("counts {} for {name}", sibling(name)), with_item(names, at, sibling(name))));
    }
    all
}

/// A quotient with other names above it, and with others below it.
fn of_quotient(
    (over, next_over): (Names, Sibling),
    (under, next_under): (Names, Sibling),
    make: impl Fn(Names, Names) -> Quantity,
) -> Vec<(String, Quantity)> {
    let above = lists(over, next_over).into_iter().map(|(what, over)| (what, make(over, under)));
    let below = lists(under, next_under).into_iter().map(|(what, under)| (format!("below: {what}"), make(over, under)));
    above.chain(below).collect()
}

/// The quantity without one of its names, and with the next of the same file of the kernel in its place.
fn of_quantity(quantity: Quantity) -> Vec<(String, Quantity)> {
    let over_and_under = |over, under, sibling, make: fn(Names, Names) -> Quantity| {
        let mut all = of_quotient((over, sibling), (under, sibling), make);
        all.push(("upside down".to_owned(), make(under, over)));
        all
    };
    match quantity {
        Quantity::Events(names) => {
            lists(names, next_metric).into_iter().map(|(what, names)| (what, Quantity::Events(names))).collect()
        }
        Quantity::Ratio(over, under) => {
            let mut all = over_and_under(over, under, next_metric, Quantity::Ratio);
            all.push(("not divided".to_owned(), Quantity::Events(over)));
            all
        }
        Quantity::Calls(kinds) => {
            let all = lists(kinds, |_| "mprotect");
            all.into_iter().map(|(what, kinds)| (what, Quantity::Calls(kinds))).collect()
        }
        Quantity::GivenBack => vec![("counts calls".to_owned(), Quantity::Calls(&["munmap"]))],
        Quantity::Faults(kind) => ["on_present_page", "of_file", "dax_page"]
            .into_iter()
            .filter(|other| *other != kind)
            .map(|other| (format!("counts faults {other}"), Quantity::Faults(other)))
            .collect(),
        Quantity::Forks => {
            vec![("counts threads".to_owned(), Quantity::Threads), ("counts execs".to_owned(), Quantity::Execs)]
        }
        Quantity::Threads => vec![("counts forks".to_owned(), Quantity::Forks)],
        Quantity::Execs => vec![("counts forks".to_owned(), Quantity::Forks)],
        Quantity::Time(names) => {
            lists(names, next_component).into_iter().map(|(what, names)| (what, Quantity::Time(names))).collect()
        }
        Quantity::TimeRatio(over, under) => {
            let mut all = over_and_under(over, under, next_component, Quantity::TimeRatio);
            all.push(("not divided".to_owned(), Quantity::Time(over)));
            all
        }
        Quantity::TimePer(over, under) => {
            let mut all = of_quotient((over, next_component), (under, next_metric), Quantity::TimePer);
            all.push(("not divided".to_owned(), Quantity::Time(over)));
            all
        }
        Quantity::TimeInRatio(over, way, under) => {
            let make = |over, under| Quantity::TimeInRatio(over, way, under);
            let mut all = of_quotient((over, next_component), (under, next_component), make);
            all.extend(of_time_in(over, way, under));
            all
        }
        // No sign has it: of_way changes the rule's.
        Quantity::TimeIn(..) => Vec::new(),
        Quantity::OtherDevice => vec![("counts busy time".to_owned(), Quantity::Events(&["disk.busy_ns"]))],
        Quantity::CpuSpeed => vec![("counts threads".to_owned(), Quantity::Threads)],
    }
}

/// The same components in another way into the kernel, in any, and not divided.
fn of_time_in(over: &'static [&'static str], way: Way, under: &'static [&'static str]) -> Vec<(String, Quantity)> {
    let ways = of_way(way).into_iter().map(|(what, way)| (what, Quantity::TimeInRatio(over, way, under)));
    let others = [
        ("in any way".to_owned(), Quantity::TimeRatio(over, under)),
        ("not divided".to_owned(), Quantity::TimeIn(over, way)),
    ];
    ways.chain(others).collect()
}

/// The metric that the registry has next to this one, of the same file of the kernel.
fn next_metric(name: &'static str) -> &'static str {
    if let Some(line) = name.strip_prefix("interrupts[") {
        return if line == "TLB]" { "interrupts[RES]" } else { "interrupts[TLB]" };
    }
    let (file, _) = name.rsplit_once('.').expect("FILE.FIELD");
    let of_file: Vec<String> = declared()
        .map(|info| info.name)
        .filter(|other| other.rsplit_once('.').is_some_and(|(of, _)| of == file))
        .collect();
    let at = of_file.iter().position(|other| other == name);
    let next = at.and_then(|at| of_file.get(at + 1)).or_else(|| of_file.first());
    next.filter(|next| *next != name).map_or("vmstat.pgrotated", |next| next.clone().leak())
}

/// The component that stands next to this one, or to those below it.
fn next_component(name: &'static str) -> &'static str {
    let at = COMPONENTS.iter().rposition(|component| is_of(component.name, &[name]));
    at.and_then(|at| COMPONENTS.get(at + 1)).map_or("run.user", |next| next.name)
}

fn of_spent(spent: Spent) -> Vec<(String, Spent)> {
    let named = |what: &str, spent: Spent| (format!("time {what}"), spent);
    match spent {
        Spent::Anyhow => Vec::new(),
        Spent::In(way) => {
            let mut all: Vec<_> =
                of_way(way).into_iter().map(|(what, way)| (format!("time {what}"), Spent::In(way))).collect();
            all.extend([named("in any way", Spent::Anyhow), named("without stacks, too", Spent::InIfTold(way))]);
            all
        }
        Spent::InIfTold(way) => {
            let mut all: Vec<_> =
                of_way(way).into_iter().map(|(what, way)| (format!("time {what}"), Spent::InIfTold(way))).collect();
            all.extend([named("in any way", Spent::Anyhow), named("with stacks only", Spent::In(way))]);
            all
        }
    }
}

fn of_way(way: Way) -> Vec<(String, Way)> {
    let other = |purpose: Purpose| if purpose == Purpose::Safety { Purpose::Writing } else { Purpose::Safety };
    let named = |what: &str, way: Way| (what.to_owned(), way);
    match way {
        Way::AskingFor(purpose) => vec![
            named("in other calls", Way::NotAskingFor(purpose)),
            named("in calls of another purpose", Way::AskingFor(other(purpose))),
        ],
        Way::NotAskingFor(purpose) => vec![
            named("in these calls", Way::AskingFor(purpose)),
            named("in calls without another purpose", Way::NotAskingFor(other(purpose))),
        ],
        Way::Through(functions) => without_each(functions)
            .map(|(at, rest)| (format!("not in {}", functions[at]), Way::Through(rest)))
            .collect(),
        Way::InPlacesOf(cause) => {
            let other = if cause == "gc.more" { "data.compressed" } else { "gc.more" };
            vec![named("in places of another cause", Way::InPlacesOf(other))]
        }
    }
}

fn of_levers(rule: &ComponentRule) -> Vec<(String, ComponentRule)> {
    let mut all = Vec::new();
    for (at, levers) in without_each(rule.levers) {
        all.push((format!("setting {} gone", rule.levers[at].pattern), ComponentRule { levers, ..*rule }));
    }
    for (at, lever) in rule.levers.iter().enumerate() {
        for (what, worse) in of_worse(lever.worse) {
            let levers = with_item(rule.levers, at, Lever { worse, ..*lever });
            all.push((format!("setting {} {what}", lever.pattern), ComponentRule { levers, ..*rule }));
        }
    }
    all
}

fn of_worse(worse: Worse) -> Vec<(String, Worse)> {
    let words = |words: &'static [&'static str], make: fn(&'static [&'static str]) -> Worse| {
        without_each(words)
            .map(|(at, rest)| (format!("without the word {}", words[at]), make(rest)))
            .collect::<Vec<_>>()
    };
    let mut all = match worse {
        Worse::Lower => vec![("higher".to_owned(), Worse::Higher)],
        Worse::LowerWith(_) => vec![("higher".to_owned(), Worse::Higher), ("always".to_owned(), Worse::Lower)],
        Worse::LowerOrFromOff => vec![("higher".to_owned(), Worse::Higher), ("lower".to_owned(), Worse::Lower)],
        Worse::LowerLimits => vec![("higher limits".to_owned(), Worse::HigherLimits)],
        Worse::HigherLimits => vec![("lower limits".to_owned(), Worse::LowerLimits)],
        Worse::Higher => vec![("lower".to_owned(), Worse::Lower)],
        Worse::To(of) => [vec![("from".to_owned(), Worse::From(of))], words(of, Worse::To)].concat(),
        Worse::From(of) => [vec![("to".to_owned(), Worse::To(of))], words(of, Worse::From)].concat(),
        Worse::Any => vec![("lower".to_owned(), Worse::Lower), ("higher".to_owned(), Worse::Higher)],
        Worse::AnotherBuild => vec![("many more".to_owned(), Worse::ManyMore)],
        Worse::ManyMore => vec![("higher".to_owned(), Worse::Higher), ("lower".to_owned(), Worse::Lower)],
    };
    if !matches!(worse, Worse::Any) {
        all.push(("any".to_owned(), Worse::Any));
    }
    all
}

fn of_need(rule: &ComponentRule) -> Vec<(String, ComponentRule)> {
    let with = |what: &str, needs_lever: NeedsLever| {
        (format!("a setting is needed {what}"), ComponentRule { needs_lever, ..*rule })
    };
    let mut all = Vec::new();
    if !matches!(rule.needs_lever, NeedsLever::Always) {
        all.push(with("always", NeedsLever::Always));
    }
    if !matches!(rule.needs_lever, NeedsLever::ForMechanism) {
        all.push(with("for a mechanism", NeedsLever::ForMechanism));
    }
    if !matches!(rule.needs_lever, NeedsLever::Never) {
        all.push(with("never", NeedsLever::Never));
    }
    match rule.needs_lever {
        NeedsLever::UnlessMoreWork(others) => {
            for (at, rest) in without_each(others) {
                all.push(with(
                    &format!("unless more work, but for '{}'", others[at].what),
                    NeedsLever::UnlessMoreWork(rest),
                ));
            }
            for (at, other) in others.iter().enumerate() {
                for (what, changed) in of_sign(other) {
                    let others = with_item(others, at, changed);
                    all.push(with(
                        &format!("unless more work: '{}' {what}", other.what),
                        NeedsLever::UnlessMoreWork(others),
                    ));
                }
            }
        }
        NeedsLever::AlwaysUnless(sign) => {
            let changed = of_sign(sign).into_iter();
            all.extend(
                changed.map(|(what, sign)| with(&format!("unless {what}"), NeedsLever::AlwaysUnless(kept(sign)))),
            );
        }
        NeedsLever::Always | NeedsLever::ForMechanism | NeedsLever::Never => {}
    }
    all
}

fn of_part(rule: &ComponentRule) -> Vec<(String, ComponentRule)> {
    let with = |what: &str, part: Part| (format!("claims {what}"), ComponentRule { part, ..*rule });
    let of = |events: Quantity, make: fn(Quantity) -> Part| {
        of_quantity(events).into_iter().map(|(what, events)| with(&what, make(events))).collect::<Vec<_>>()
    };
    match rule.part {
        Part::All => {
            let some = Quantity::Events(&["target.io.syscr"]);
            vec![
                with("huge pages", Part::AllOfHugePages),
                with("more of something", Part::MoreOf(some)),
                with("what is dearer", Part::DearerBy(some)),
            ]
        }
        Part::AllOfHugePages => vec![with("all", Part::All)],
        Part::MoreOf(events) => {
            [vec![with("all", Part::All), with("what is dearer", Part::DearerBy(events))], of(events, Part::MoreOf)]
                .concat()
        }
        Part::DearerBy(events) => {
            [vec![with("all", Part::All), with("more", Part::MoreOf(events))], of(events, Part::DearerBy)].concat()
        }
    }
}

/// Components and prices, which the registry of causes declares.
fn of_def(rule: &ComponentRule, def: &'static CauseDef) -> Vec<Changed> {
    let with = |what: String, def: CauseDef| Changed { what, rule: *rule, def: kept(def) };
    let mut all = Vec::new();
    for (at, components) in without_each(def.components) {
        if !components.is_empty() {
            all.push(with(format!("component {} gone", def.components[at]), CauseDef { components, ..*def }));
        }
    }
    for (at, name) in def.components.iter().copied().enumerate() {
        let components = with_item(def.components, at, next_component(name));
        all.push(with(format!("component {} for {name}", next_component(name)), CauseDef { components, ..*def }));
    }
    let of_cost = |what: &str, most_ns: Option<u64>, most_own_ns: Option<u64>| {
        let event = pagelab_vocab::causes::EventCost { most_ns, most_own_ns, ..def.event };
        with(what.to_owned(), CauseDef { event, ..*def })
    };
    if let (Part::MoreOf(_), Some(most)) = (rule.part, def.event.most_ns) {
        let own = def.event.most_own_ns;
        all.push(of_cost("dearest event times 1.5", Some(most * 3 / 2), own));
        all.push(of_cost("dearest event by 1.5", Some(most * 2 / 3), own));
        if let Some(most_own) = own {
            all.push(of_cost("dearest own code times 1.5", Some(most), Some(most_own * 3 / 2)));
            all.push(of_cost("dearest own code by 1.5", Some(most), Some(most_own * 2 / 3)));
        }
    }
    all
}
