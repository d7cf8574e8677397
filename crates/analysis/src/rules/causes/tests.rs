//! Each rule that is declared as data is held to scenes made from its own declaration: one in which the cause holds, the same with
//! settings hidden, and decoys. Every scene is shown to all rules.

use pagelab_vocab::budget::COMPONENTS;
use pagelab_vocab::causes::cause;
use pagelab_vocab::syscalls::Purpose;

use super::scenes::{FAST_NS, Noise, OWN_NS, Side, evidence, key, side_evidence};
use super::{DECLARED, RULES};
use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Spent};
use crate::rules::consider;
use crate::rules::evidence::{Evidence, is_of};
use crate::rules::finding::{Confidence, Diagnosis, SideName};
use crate::rules::lever::Worse;
use crate::rules::quantity::{Change, DEVICE_BYTES, Quantity, Sign, Way};

/// What a scene is made with.
#[derive(Debug, Clone, Copy)]
struct Script {
    /// Loss in parts of the fast side's time.
    loss: f64,
    /// Share of the loss in the cause's components.
    share: f64,
    /// The signs are seen.
    signs: bool,
    /// The first lever differs for the worse.
    lever: bool,
    /// Settings were recorded.
    settings: bool,
    /// What the signs of other rules count, on both sides.
    others: f64,
}

const HOLDS: Script = Script { loss: 0.5, share: 0.9, signs: true, lever: true, settings: true, others: 100.0 };

/// The component of a rule that the scene lets grow: one that a sign names, else the first.
fn own_component(rule: &ComponentRule) -> String {
    let components = cause(rule.cause).expect("declared").components;
    let named = rule.signs.iter().find_map(|sign| match (sign.quantity, sign.change) {
        (Quantity::Time(names) | Quantity::TimeRatio(names, _), Change::Rises(_)) => Some(names),
        _ => None,
    });
    let is_own = |name: &str| is_of(name, components) && named.is_none_or(|names| is_of(name, names));
    let first = named.unwrap_or(components)[0];
    let all = || COMPONENTS.iter().filter(|component| is_own(component.name));
    let found = all().find(|component| component.name == first).or_else(|| all().next());
    found.expect("a component").name.to_owned()
}

fn put(side: &mut Side, quantity: Quantity, amount: f64) {
    match quantity {
        Quantity::Events(names) => {
            side.metrics.insert(key(names[0]), amount);
        }
        Quantity::Ratio(over, under) => {
            let base: f64 = under.iter().filter_map(|name| side.metrics.get(&key(name))).sum();
            let base = if base > 0.0 { base } else { 1000.0 };
            if !under.iter().any(|name| side.metrics.contains_key(&key(name))) {
                side.metrics.insert(key(under[0]), base);
            }
            side.metrics.insert(key(over[0]), base * amount);
        }
        Quantity::Calls(kinds) => {
            side.calls.insert(kinds[0].to_owned(), amount);
        }
        Quantity::Faults(kind) => {
            side.faults.insert(kind.to_owned(), amount);
        }
        Quantity::GivenBack => side.given_back_bytes = amount,
        Quantity::Forks => side.forks = amount,
        Quantity::Threads => side.threads = amount,
        Quantity::Execs => side.execs = amount,
        Quantity::CpuSpeed => side.cpu_speed = amount,
        // More than what every scene has of everything is what the other side does not have.
        Quantity::OtherDevice => side.device = Some(if amount > OF_ALL { "vdb" } else { "vda" }.to_owned()),
        // What the scene makes of the times themselves.
        Quantity::TimeRatio(..) | Quantity::TimeIn(..) | Quantity::TimeInRatio(..) => {}
        Quantity::TimePer(_, totals) => {
            side.metrics.insert(key(totals[0]), OF_ALL);
        }
        Quantity::Time(names) => {
            let component = COMPONENTS.iter().find(|component| is_of(component.name, names)).expect("a component");
            side.components.insert(component.name.to_owned(), amount);
        }
    }
}

/// Values of the sign's quantity on the fast and the slow side.
fn amounts(sign: &Sign, fast: f64, seen: bool) -> (f64, f64) {
    let factor = match sign.change {
        _ if !seen => 1.0,
        Change::Rises(times) => times * 2.0,
        Change::RisesTo(times, least) => times.max(least / fast) * 2.0,
        // So far that more calls move no more bytes.
        Change::Falls(part) | Change::Keeps(part) => part / 6.0,
        Change::StaysBelow(_) => 1.0,
    };
    (fast, fast * factor)
}

/// Lets the time be spent in the way of a rule, where that is another one than most scenes have.
fn spend(side: &mut Side, spent: Spent) {
    match spent {
        Spent::In(Way::AskingFor(Purpose::Writing)) => side.entry = Some("write".to_owned()),
        Spent::In(Way::Through(functions)) => side.function = Some(functions[0].to_owned()),
        Spent::In(Way::InPlacesOf("gc.more")) => side.function = Some("libpython3.11.so.1.0!visit_decref".to_owned()),
        Spent::In(Way::InPlacesOf("data.compressed")) => side.function = Some("lzma_main".to_owned()),
        Spent::Anyhow | Spent::InIfTold(_) | Spent::In(_) => {}
    }
}

/// Values of a setting on the fast and on the slow side that are for the worse.
fn values(worse: Worse) -> (&'static str, &'static str) {
    match worse {
        Worse::Lower | Worse::LowerWith(_) => ("1000", "10"),
        Worse::LowerOrFromOff => ("0", "10"),
        Worse::LowerLimits => ("8:0 rbps=1000", "8:0 rbps=10"),
        Worse::HigherLimits => ("8:0 target=10", "8:0 target=1000"),
        Worse::Higher => ("0", "1"),
        Worse::To(words) => ("neither", words[0]),
        Worse::From(words) => (words[0], "neither"),
        Worse::Any => ("one", "other"),
        Worse::AnotherBuild => ("ab12", "cd34"),
        Worse::ManyMore => ("10", "1000"),
    }
}

/// Of what a sign divides by there is as much on both sides.
fn put_beside(rule: &ComponentRule, fast: &mut Side, slow: &mut Side) {
    for sign in rule.signs {
        let (Quantity::TimeRatio(_, under) | Quantity::TimeInRatio(_, _, under)) = sign.quantity else { continue };
        if !fast.components.keys().any(|name| is_of(name, under)) {
            put(fast, Quantity::Time(under), OWN_NS);
            put(slow, Quantity::Time(under), OWN_NS);
        }
    }
}

/// What the fast side of a scene has of what a sign counts.
const OF_ALL: f64 = 1000.0;

/// The fast and the slow side of a scene for `rule`.
fn sides(rule: &ComponentRule, script: Script) -> (Side, Side) {
    let (mut fast, mut slow) = (Side::default(), Side::default());
    let loss = script.loss * FAST_NS;
    let own = own_component(rule);
    let own_slow = OWN_NS + loss * script.share;
    for (side, ns) in [(&mut fast, OWN_NS), (&mut slow, own_slow)] {
        side.metrics.insert(key("disk.busy_ns"), 1e6);
        *side.components.entry(own.clone()).or_default() += ns;
    }
    let other = if own == "run.user" { "run.other" } else { "run.user" };
    fast.components.insert(other.to_owned(), 6e8);
    slow.components.insert(other.to_owned(), 6e8 + loss * (1.0 - script.share));
    // Everything that any rule looks at is recorded, and the same on both sides.
    for all in DECLARED.iter().copied() {
        let others = if let NeedsLever::UnlessMoreWork(others) = all.needs_lever { others } else { &[] };
        for sign in all.signs.iter().chain(all.refuters.iter().map(|refuter| &refuter.sign)).chain(others) {
            if !matches!(sign.quantity, Quantity::Time(_) | Quantity::TimeRatio(..)) {
                put(&mut fast, sign.quantity, script.others);
                put(&mut slow, sign.quantity, script.others);
            }
        }
    }
    for refuter in rule.refuters {
        match refuter.sign.change {
            Change::Keeps(part) => put(&mut slow, refuter.sign.quantity, script.others * part / 2.0),
            Change::StaysBelow(times) => put(&mut slow, refuter.sign.quantity, script.others * times * 2.0),
            Change::Rises(_) | Change::RisesTo(..) | Change::Falls(_) => {}
        }
    }
    let events = match rule.part {
        Part::All | Part::AllOfHugePages | Part::DearerBy(Quantity::Time(_)) => None,
        Part::MoreOf(events) | Part::DearerBy(events) => Some(events),
    };
    let most = cause(rule.cause).and_then(|def| def.event.most(4096)).unwrap_or(1e5).min(1e5);
    let count = OWN_NS / most * 4.0;
    if let Some(events) = events {
        let more = matches!(rule.part, Part::MoreOf(_)) && script.signs;
        put(&mut fast, events, count);
        put(&mut slow, events, if more { count * own_slow / OWN_NS } else { count });
    }
    for sign in rule.signs.iter().filter(|sign| events.is_none_or(|events| events != sign.quantity)) {
        if matches!((sign.quantity, sign.change), (Quantity::Time(_) | Quantity::TimeRatio(..), Change::Rises(_))) {
            continue;
        }
        let (on_fast, on_slow) = amounts(sign, OF_ALL, script.signs);
        let scale = if matches!(sign.quantity, Quantity::Time(_)) { 1e5 } else { 1.0 };
        put(&mut fast, sign.quantity, on_fast * scale);
        put(&mut slow, sign.quantity, on_slow * scale);
    }
    put_beside(rule, &mut fast, &mut slow);
    slow.move_to_own_device();
    for side in [&mut fast, &mut slow] {
        spend(side, rule.spent);
    }
    if script.settings {
        for side in [&mut fast, &mut slow] {
            side.settings.insert("kernel.release".to_owned(), "6.18.0".to_owned());
        }
        if let (true, Some(lever)) = (script.lever, rule.levers.first()) {
            let (good, bad) = values(lever.worse);
            let name = lever.pattern.replace("<dev>", "vda").replace("<mountpoint>", "/data").replace(['<', '>'], "x");
            fast.settings.insert(name.clone(), good.to_owned());
            slow.settings.insert(name, bad.to_owned());
        }
    }
    (fast, slow)
}

fn diagnosis(rule: &ComponentRule, script: Script) -> Diagnosis {
    let (fast, slow) = sides(rule, script);
    consider(&evidence(&fast, &slow))
}

fn rules() -> impl Iterator<Item = &'static ComponentRule> {
    DECLARED.iter().copied()
}

/// The outcome of a rule in a diagnosis, for messages.
fn outcome(diagnosis: &Diagnosis, cause: &str) -> String {
    let one = diagnosis.considered.iter().find(|one| one.cause == cause);
    one.map_or_else(String::new, |one| format!("{}: {}", one.outcome, one.reasons.join("; ")))
}

#[test]
fn each_cause_is_named_first_in_its_own_scene() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let (fast, slow) = sides(rule, HOLDS);
        let found = consider(&evidence(&fast, &slow));
        let total = |side: &Side| side.components.values().sum::<f64>();
        let truth = HOLDS.share * HOLDS.loss * FAST_NS / (total(&slow) - total(&fast));
        let Some(first) = found.findings.first() else {
            wrong.push(format!("{}: nothing found ({})", rule.cause, outcome(&found, rule.cause)));
            continue;
        };
        let share = first.effect.as_ref().map_or(f64::NAN, |effect| effect.share);
        if first.cause != rule.cause {
            wrong.push(format!("{}: {} comes first; own: {}", rule.cause, first.cause, outcome(&found, rule.cause)));
        } else if first.confidence != Confidence::Mechanism {
            wrong.push(format!("{}: {:?} ({})", rule.cause, first.confidence, first.not_looked_at.join("; ")));
        } else if (share - truth).abs() > 0.1 {
            wrong.push(format!("{}: share {share:.2}, not {truth:.2}", rule.cause));
        }
        let others = found.findings.iter().skip(1).filter(|other| other.confidence == Confidence::Mechanism);
        wrong.extend(others.map(|other| format!("{}: {} is a mechanism, too", rule.cause, other.cause)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_settings_a_cause_is_correlated() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let found = diagnosis(rule, Script { settings: false, ..HOLDS });
        let own = found.findings.iter().find(|finding| finding.cause == rule.cause);
        if own.is_none_or(|own| own.confidence != Confidence::Correlated) {
            wrong.push(format!("{}: {:?}; {}", rule.cause, own.map(|own| own.confidence), outcome(&found, rule.cause)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_library_of_another_folder_is_another_build() {
    let rule = rules().find(|rule| rule.cause == "program.changed").expect("declared");
    let named = |on_fast: [&str; 2], on_slow: [&str; 2]| {
        let (mut fast, mut slow) = sides(rule, Script { lever: false, ..HOLDS });
        fast.settings.insert(format!("program.{}.build_id", on_fast[0]), on_fast[1].to_owned());
        slow.settings.insert(format!("program.{}.build_id", on_slow[0]), on_slow[1].to_owned());
        let found = consider(&evidence(&fast, &slow));
        let first = found.findings.first().filter(|first| first.cause == rule.cause);
        first.map(|first| (first.confidence, first.setting.clone().map(|setting| setting.key)))
    };
    let key = Some("program./old/libscore.so.build_id".to_owned());
    let found = named(["/new/libscore.so", "ab12"], ["/old/libscore.so", "cd34"]);
    assert_eq!(found, Some((Confidence::Mechanism, key)));
    assert_eq!(named(["/new/libscore.so", "ab12"], ["/old/libscore.so", "ab12"]), None, "a copy");
    assert_eq!(named(["/new/libscore.so", "ab12"], ["/old/libother.so", "cd34"]), None, "something else");
}

/// Whether a quantity is made of the times of the account alone.
fn is_of_time(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Time(_) | Quantity::TimeIn(..) | Quantity::TimeRatio(..) | Quantity::TimeInRatio(..))
}

/// The loss lies elsewhere, or nothing but time of the components moved.
#[test]
fn decoys_are_not_accused() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let elsewhere = diagnosis(rule, Script { share: 0.0, ..HOLDS });
        let accused = |found: &Diagnosis| {
            let own = found.findings.iter().find(|finding| finding.cause == rule.cause);
            own.is_some_and(|own| own.confidence == Confidence::Mechanism)
        };
        // Rules of everything that runs cannot tell one part of it from another.
        let takes_all =
            cause(rule.cause).is_some_and(|def| def.components.iter().any(|name| is_of("run.user", &[name])));
        if accused(&elsewhere) && !takes_all {
            wrong.push(format!("{}: accused of time that is spent elsewhere", rule.cause));
        }
        let has_own_signs = rule.signs.iter().any(|sign| !is_of_time(sign.quantity));
        let unsigned = diagnosis(rule, Script { signs: false, ..HOLDS });
        if has_own_signs && accused(&unsigned) {
            wrong.push(format!("{}: accused without its signs", rule.cause));
        }
        let unset = diagnosis(rule, Script { lever: false, ..HOLDS });
        let own = unset.findings.iter().find(|finding| finding.cause == rule.cause);
        if rule.needs_lever.is_always() && own.is_some() {
            wrong.push(format!("{}: accused although no setting of it differs", rule.cause));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_lone_recording_names_it_with_less_confidence() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let (_, slow) = sides(rule, Script { others: 0.0, ..HOLDS });
        let test = side_evidence(SideName::Test, &slow, &mut Noise(7), true);
        let found = consider(&Evidence { test, contrast: None });
        let own = found.findings.iter().find(|finding| finding.cause == rule.cause);
        let is_named = own.is_some_and(|own| own.confidence == Confidence::Correlated);
        // What another side does not have only another side can tell.
        let needs_another = rule.signs.iter().any(|sign| sign.quantity == Quantity::OtherDevice);
        if is_named == (rule.needs_lever.is_always() || needs_another) {
            wrong.push(format!("{}: {}", rule.cause, outcome(&found, rule.cause)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rules_yield_to_rules_that_exist() {
    for rule in rules() {
        for better in rule.yields_to {
            assert!(RULES.iter().any(|other| other.cause() == *better), "{} yields to {better}", rule.cause);
            let back = RULES.iter().find(|other| other.cause() == *better);
            assert!(back.is_some_and(|back| !back.yields_to().contains(&rule.cause)), "{} and {better}", rule.cause);
        }
    }
}

/// Without an account nothing is claimed, and the reason is said.
#[test]
fn without_an_account_the_outcome_is_unknown() {
    for rule in rules() {
        let (fast, slow) = sides(rule, HOLDS);
        let mut evidence = evidence(&fast, &slow);
        for run in &mut evidence.test.runs {
            run.account = None;
        }
        let found = consider(&evidence);
        assert!(found.findings.iter().all(|finding| finding.cause != rule.cause), "{}", rule.cause);
        assert!(
            outcome(&found, rule.cause).contains("unknown: where the time of test went is not known"),
            "{}",
            rule.cause
        );
    }
}

fn sides_of(name: &str) -> (Side, Side) {
    sides(rules().find(|rule| rule.cause == name).expect("declared"), HOLDS)
}

/// Others have the CPUs longer, too, but not as long as the program's own tasks.
#[test]
fn tasks_that_wait_for_each_other_are_no_neighbours() {
    let (mut fast, mut slow) = sides_of("cpu.crowded");
    fast.components.insert("ready.foreign".to_owned(), 2.0 * OWN_NS);
    slow.components.insert("ready.foreign".to_owned(), 2.5 * OWN_NS);
    let found = consider(&evidence(&fast, &slow));
    assert_eq!(found.findings.first().map(|first| first.cause.as_str()), Some("cpu.crowded"));
    let said = outcome(&found, "cpu.neighbour");
    assert!(said.contains("its own tasks have the CPUs"), "{said}");
}

/// Many small reads beside the old ones lower the bytes of a call, too.
#[test]
fn more_small_requests_are_not_smaller_requests() {
    let (fast, mut slow) = sides_of("io.smaller_requests");
    *slow.metrics.get_mut(&key("target.io.rchar")).expect("part of the scene") *= 3.0;
    let found = consider(&evidence(&fast, &slow));
    let said = outcome(&found, "io.smaller_requests");
    assert!(said.contains("more is read or written"), "{said}");
}

/// What io_uring and aio are handed is no call of the task: past the page cache the requests of the device tell how small it is.
#[test]
fn requests_of_the_device_stand_for_calls_of_io_uring() {
    let said = |off: &str, moved: f64| {
        let (mut fast, mut slow) = (Side::default(), Side::default());
        for (side, ns, reads, bytes) in
            [(&mut fast, OWN_NS, 100.0, 1e6), (&mut slow, OWN_NS + 0.45 * FAST_NS, 800.0, 1e6 * moved)]
        {
            side.components.insert(off.to_owned(), ns);
            side.components.insert("run.user".to_owned(), FAST_NS - OWN_NS);
            side.metrics.insert(key("disk.busy_ns"), 1e6);
            for calls in ["target.io.syscr", "target.io.syscw", "target.io.rchar", "target.io.wchar"] {
                side.metrics.insert(key(calls), 100.0);
            }
            side.metrics.insert(key("disk.reads"), reads);
            side.metrics.insert(key("disk.read_bytes"), bytes);
        }
        outcome(&consider(&evidence(&fast, &slow)), "io.smaller_requests")
    };
    assert!(said("off.async_io", 1.0).starts_with("holds"), "{}", said("off.async_io", 1.0));
    assert!(said("off.async_io", 3.0).contains("more is read or written"), "{}", said("off.async_io", 3.0));
    assert!(!said("off.read", 1.0).starts_with("holds"), "{}", said("off.read", 1.0));
}

/// A Lisp that walked lists in place of vectors made a few calls more while it started, and each was charged with 20 ms of its own code.
#[test]
fn a_call_is_not_charged_with_the_program_s_own_work() {
    let said = |calls: f64| {
        let (mut fast, mut slow) = (Side::default(), Side::default());
        for (side, ns, calls, bytes) in [(&mut fast, 8e8, calls, 1500.0), (&mut slow, 1.1e9, 1.4 * calls, 1000.0)] {
            side.components.insert("run.user".to_owned(), ns);
            for bytes_of in ["target.io.rchar", "target.io.wchar"] {
                side.metrics.insert(key(bytes_of), bytes * calls);
            }
            for calls_of in ["target.io.syscr", "target.io.syscw"] {
                side.metrics.insert(key(calls_of), calls);
            }
        }
        outcome(&consider(&evidence(&fast, &slow)), "io.smaller_requests")
    };
    assert!(said(35.0).contains("in the program's own code, and cannot cost more than 100 us"), "{}", said(35.0));
    assert!(said(35e3).starts_with("holds"), "{}", said(35e3));
}

/// A device without a volatile cache is never flushed. Few writes of somebody else on the fast side tell nothing of what one costs.
#[test]
fn writes_that_are_waited_for_stand_for_flushes() {
    let said = |wait: &str| {
        let (mut fast, mut slow) = (Side::default(), Side::default());
        for (side, ns, writes) in [(&mut fast, 1e3, 20.0), (&mut slow, 7e8, 20e3)] {
            side.components.insert(wait.to_owned(), ns);
            side.components.insert("run.user".to_owned(), 7e8);
            side.metrics.insert(key("disk.flushes"), 0.0);
            side.metrics.insert(key("disk.writes"), writes);
            side.metrics.insert(key("disk.busy_ns"), 1e6);
        }
        outcome(&consider(&evidence(&fast, &slow)), "sync.more")
    };
    assert!(said("off.write_back").starts_with("holds"), "{}", said("off.write_back"));
    assert!(!said("off.dirty_throttling").starts_with("holds"), "{}", said("off.dirty_throttling"));
}

/// Pages that are copied interrupt other CPUs: what comes with a cause is no mechanism beside it, nor where only the other work that the
/// sides ran keeps that from being one.
#[test]
fn a_companion_of_the_main_cause_is_no_mechanism() {
    let (mut fast, mut slow) = sides_of("ksm.separated");
    fast.components.insert("run.space.flush".to_owned(), 1e6);
    slow.components.insert("run.space.flush".to_owned(), 6e7);
    slow.metrics.insert(key("interrupts[TLB]"), 5000.0);
    for (same_work, main) in [(true, Confidence::Mechanism), (false, Confidence::Correlated)] {
        let mut evidence = evidence(&fast, &slow);
        evidence.contrast.as_mut().expect("two sides").same_work = Some(same_work);
        let found = consider(&evidence);
        let of = |cause: &str| found.findings.iter().find(|finding| finding.cause == cause).expect("found");
        assert_eq!(of("ksm.separated").confidence, main);
        let companion = of("tlb.shootdowns");
        assert_eq!(companion.confidence, Confidence::Correlated);
        let said = companion.not_looked_at.join("; ");
        assert!(said.contains("whether it comes with ksm.separated"), "{said}");
        assert_eq!(found.findings.first().map(|first| first.cause.as_str()), Some("ksm.separated"));
    }
}

/// Time that the hypervisor takes is a neighbour's, unless the program has it work for its devices.
#[test]
fn time_taken_for_the_program_s_own_requests_is_no_neighbour_s() {
    let outcome_of = |others: &str, read: f64| {
        let (mut fast, mut slow) = sides_of("cpu.neighbour");
        for side in [&mut fast, &mut slow] {
            let ns = side.components.remove("ready.foreign").expect("part of the scene");
            side.components.insert(others.to_owned(), ns);
        }
        put(&mut slow, DEVICE_BYTES, read);
        outcome(&consider(&evidence(&fast, &slow)), "cpu.neighbour")
    };
    let said = outcome_of("run.stolen", 1e9);
    assert!(said.contains("the hypervisor works for the devices"), "{said}");
    for (others, read) in [("run.stolen", 0.0), ("ready.foreign", 1e9)] {
        let said = outcome_of(others, read);
        assert!(said.starts_with("holds"), "{others}, {read}: {said}");
    }
}

/// What another disk does, however busy it is, is neither the target's nor an excuse.
#[test]
fn figures_of_a_device_are_those_of_the_target_s_own() {
    let outcome_of = |fast_device: Option<&str>, slow_device: Option<&str>, set: &dyn Fn(&mut Side, &mut Side)| {
        let (mut fast, mut slow) = sides_of("sync.more");
        (fast.device, slow.device) = (fast_device.map(str::to_owned), slow_device.map(str::to_owned));
        set(&mut fast, &mut slow);
        outcome(&consider(&evidence(&fast, &slow)), "sync.more")
    };
    let busier_other = |fast: &mut Side, slow: &mut Side| {
        for side in [fast, slow] {
            side.metrics.insert(key("disk.busy_ns"), 1e8);
            side.metrics.insert(key("disk.busy_ns[vdb]"), 9e8);
            side.metrics.insert(key("disk.flushes[vdb]"), 10.0);
        }
    };
    let said = outcome_of(Some("vda"), Some("vda"), &busier_other);
    assert!(said.starts_with("holds"), "{said}");
    let said = outcome_of(None, None, &busier_other);
    assert!(!said.starts_with("holds"), "the busiest stands in where nobody knows: {said}");
    // As many flushes on either side, each on its own device.
    let said = outcome_of(Some("vda"), Some("vdb"), &|fast, slow| {
        for name in ["disk.flushes", "disk.writes", "disk.write_bytes"] {
            let value = fast.metrics.get(&key(name)).copied().unwrap_or(100.0);
            slow.metrics.insert(key(&format!("{name}[vdb]")), value);
            slow.metrics.insert(key(name), 0.0);
            fast.metrics.insert(key(&format!("{name}[vdb]")), 0.0);
        }
    });
    assert!(!said.starts_with("holds"), "{said}");
    assert!(said.contains("vda") && said.contains("vdb"), "each figure says which device it is of: {said}");
}

/// Fewer requests in the queue hold back nobody who never waits for one.
#[test]
fn a_smaller_queue_is_to_blame_only_where_it_is_full() {
    let (mut fast, mut slow) = sides_of("block.queue_settings");
    for side in [&mut fast, &mut slow] {
        let ns = side.components.remove("off.block_queue").expect("part of the scene");
        side.components.insert("off.direct_io".to_owned(), ns);
    }
    let said = outcome(&consider(&evidence(&fast, &slow)), "block.queue_settings");
    assert!(said.contains("no setting that can bring it about is worse"), "{said}");
}

/// As many forks copy more where memory was left out of them on the other side: they take longer then.
#[test]
fn forks_that_share_more_stand_for_more_forks() {
    let said = |fork_ns: f64| {
        let (mut fast, mut slow) = sides_of("fork.copies");
        slow.forks = fast.forks;
        for (side, ns) in [(&mut fast, OWN_NS), (&mut slow, fork_ns)] {
            side.components.insert("run.task.fork".to_owned(), ns);
        }
        outcome(&consider(&evidence(&fast, &slow)), "fork.copies")
    };
    assert!(said(1.5 * OWN_NS).starts_with("holds"), "{}", said(1.5 * OWN_NS));
    assert!(said(OWN_NS).contains("processes that were forked"), "{}", said(OWN_NS));
}

/// The other side's components hold what else the program does there: an event more costs no more than the time rose by.
#[test]
fn more_events_are_not_charged_with_what_the_program_does_anyway() {
    let (mut fast, mut slow) = sides_of("program.starts");
    for side in [&mut fast, &mut slow] {
        side.components.insert("run.fault.anonymous".to_owned(), 5.0 * OWN_NS);
    }
    let found = consider(&evidence(&fast, &slow));
    let first = found.findings.first().expect("found");
    let share = first.effect.as_ref().expect("costed").share;
    assert!(first.cause == "program.starts" && (0.8..1.0).contains(&share), "{}: {share}", first.cause);
}

#[test]
fn one_start_more_does_not_explain_what_no_start_can_cost() {
    let (mut fast, mut slow) = sides_of("program.starts");
    (fast.execs, slow.execs) = (3.0, 5.0);
    let said = outcome(&consider(&evidence(&fast, &slow)), "program.starts");
    assert!(said.contains("something else took the time"), "{said}");
}

#[test]
fn cpus_that_were_as_fast_refute_a_lower_frequency() {
    let (fast, mut slow) = sides_of("cpu.frequency");
    slow.cpu_speed = fast.cpu_speed;
    let said = outcome(&consider(&evidence(&fast, &slow)), "cpu.frequency");
    assert!(said.contains("the CPUs were as fast"), "{said}");
}

/// A part of the loss is a cause of it only where the program does no more of anything else, or where a setting brought it about.
#[test]
fn a_part_of_more_work_of_every_kind_is_no_mechanism() {
    let mut tried = 0;
    for rule in rules() {
        let NeedsLever::UnlessMoreWork(others) = rule.needs_lever else { continue };
        tried += 1;
        let confidence = |share: f64, other: Option<&Sign>| {
            let (fast, mut slow) = sides(rule, Script { lever: false, share, ..HOLDS });
            if let Some(other) = other {
                put(&mut slow, other.quantity, 1.5 * HOLDS.others);
            }
            let found = consider(&evidence(&fast, &slow));
            let own = found.findings.iter().find(|finding| finding.cause == rule.cause);
            own.map(|own| (own.confidence, own.not_looked_at.join("; ")))
        };
        for other in others {
            let (said, why) = confidence(0.5, Some(other)).expect("found");
            assert_eq!(said, Confidence::Correlated, "{} beside {}", rule.cause, other.what);
            assert!(why.contains("more work of every kind") && why.contains(other.what), "{}: {why}", rule.cause);
            let most = confidence(0.9, Some(other)).map(|found| found.0);
            assert_eq!(most, Some(Confidence::Mechanism), "{} is most of the loss", rule.cause);
        }
        let alone = confidence(0.5, None).map(|found| found.0);
        assert_eq!(alone, Some(Confidence::Mechanism), "{} with all else as it was", rule.cause);
    }
    assert!(tried >= 4);
}
