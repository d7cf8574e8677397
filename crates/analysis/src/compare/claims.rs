//! What the causes may claim of the difference, and what nobody claims.
//!
//! A rule finds its cause by the chain from setting to events, and estimates what these cost. The account of time says how much
//! the components in which that cost shows (`vocab::causes`) really moved: a cause gets no more than that, by the upper end of their
//! intervals, and what one has got is not there for the next. So a cause whose events are real and trifling does not get what
//! something else took. What is left over is *unknown*: ranked, with what to record next.

use std::collections::BTreeMap;

use pagelab_vocab::budget::{OTHER, RECORDER, UNSAMPLED};
use pagelab_vocab::causes::cause;
use pagelab_vocab::places;
use pagelab_vocab::units::duration_of_three;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::{BudgetComparison, ComponentChange};
use super::mechanisms::MechanismChange;
use super::moved::{Moved, sign_of};
use super::places::{ComponentPlaces, PlaceChange};
use super::{Comparison, Verdict};
use crate::rules::evidence::is_of;
use crate::rules::{self, Confidence, Finding, RuleOutcome};

/// Least share of the loss: a cause that gets less of it is refuted, and less that is left over is not worth a word.
const MATERIAL: f64 = 0.05;
/// So many times what a cause explains may be claimed by nobody before the cause is not worth a word.
const SLIGHT: f64 = 10.0;
/// The largest place of a component is at most so many times one that is told about.
const TELLING_PART: f64 = 2.0;
/// Least share of the loss of a component that is listed as unknown.
const LISTED: f64 = 0.02;

/// What no cause claims of the loss.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Unknown {
    /// Share of the loss, from 0 to 1.
    pub share: f64,
    /// The same in time, ns per operation or run (`per`).
    pub ns: f64,
    /// `operation` or `run`.
    pub per: String,
    /// What it is a share of: the `change` of the whole, or, where that shows no difference, the rise of the `components` that do.
    #[serde(default = "of_change_of_whole")]
    pub of: String,
    /// Where it is, the most first.
    pub components: Vec<UnknownComponent>,
    /// What is known of the places where it is: the largest of each component that the glossary knows.
    #[serde(default)]
    pub places: Vec<UnknownPlace>,
    /// Streams that would tell more.
    pub streams: Vec<String>,
    /// The options of `pagelab record` that record them.
    pub record: String,
}

fn of_change_of_whole() -> String {
    "change".to_owned()
}

/// The recorder's own time in the loss: more events cost it more.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RecorderShare {
    /// Share of the loss, from 0 to 1.
    pub share: f64,
    /// The same in time, ns per operation or run (`per`).
    pub ns: f64,
    /// `operation` or `run`.
    pub per: String,
    /// What it is a share of, as [`Unknown::of`].
    pub of: String,
}

/// A component of the unknown part.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct UnknownComponent {
    /// Its name in the vocabulary, or `idle`.
    pub component: String,
    /// What the time was spent on.
    pub about: String,
    /// Time that no cause claims, ns per operation or run.
    pub ns: f64,
    /// Share of the loss.
    pub share: f64,
}

/// A place of the unknown part, with what the glossary says of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct UnknownPlace {
    /// Component of the account.
    pub component: String,
    /// Function, module and way into the kernel, as [`super::PlaceChange::name`] has them.
    pub place: String,
    /// Share of the loss.
    pub share: f64,
    /// What the time there is.
    pub what: String,
    /// What brings it about.
    pub brought_about_by: String,
    /// Settings that govern it: keys of pagelab's, or `program: option`.
    pub settings: Vec<String>,
    /// What to look at next.
    pub next: String,
}

impl UnknownPlace {
    /// The first place of a component that moved for sure and that the glossary knows. Of a wait the outermost function tells most.
    fn of(of: &ComponentPlaces, loss_ns: f64) -> Option<Self> {
        let known = |change: &PlaceChange| {
            let functions = change.function.as_deref().unwrap_or_default().rsplit(" < ");
            // What looks for those who watch a file tells less than whom it has found.
            let (looking, others): (Vec<&str>, Vec<&str>) = functions.partition(|function| *function == "fsnotify");
            let mut all = others.into_iter().chain(looking);
            all.find_map(|function| places::place(function, change.module.as_deref()))
        };
        let sure = || of.places.iter().filter(|change| change.is_sure);
        let largest = sure().map(|change| change.difference_ns.abs()).fold(0.0, f64::max);
        let is_large = |change: &&PlaceChange| change.difference_ns.abs() * TELLING_PART >= largest;
        let (change, place) = sure().filter(is_large).find_map(|one| Some((one, known(one)?)))?;
        Some(Self {
            component: of.component.clone(),
            place: change.name.clone(),
            share: change.difference_ns.abs() / loss_ns,
            what: place.what.to_owned(),
            brought_about_by: place.brought_about_by.to_owned(),
            settings: place.settings.iter().map(|key| (*key).to_owned()).collect(),
            next: place.next.to_owned(),
        })
    }
}

/// What is left of a component for causes to claim, in the direction of the loss.
#[derive(Debug, Clone, Copy)]
struct Left {
    ns: f64,
    most_ns: f64,
}

/// Bounds what the findings claim by what their components moved, and says what is left. Nothing is done without an account of
/// both sides, or where it does not show the primary metric's loss.
pub(super) fn settle(comparison: &mut Comparison) {
    let Some(budget) = comparison.budget.clone() else { return };
    let moved = Moved::of(comparison);
    let sign = match (comparison.primary.as_ref().map(|primary| primary.verdict), &moved) {
        (Some(Verdict::Worse), _) => 1.0,
        (Some(Verdict::Better), _) => -1.0,
        (Some(Verdict::Different), _) => budget.difference_ns.signum(),
        (_, Some(moved)) => sign_of(moved.slower),
        _ => return,
    };
    let loss_ns = moved.as_ref().map_or(sign * budget.difference_ns, |moved| moved.ns);
    if loss_ns <= 0.0 || budget.intervals_from != "runs" {
        return;
    }
    let names: Option<Vec<&str>> = moved.as_ref().map(|moved| moved.components.iter().map(String::as_str).collect());
    let is_of_loss = |component: &str| names.as_ref().is_none_or(|names| is_of(component, names));
    let of_loss = budget.components.iter().filter(|change| is_of_loss(&change.component));
    let mut left: BTreeMap<&str, Left> =
        of_loss.map(|change| (change.component.as_str(), of_change(change, sign))).collect();
    let untold: Vec<&str> = budget
        .components
        .iter()
        .filter(|change| change.difference_ns.is_none())
        .map(|change| change.component.as_str())
        .collect();
    for finding in &mut comparison.findings {
        bound(finding, &mut left, &untold, loss_ns);
        doubt_chance(finding, &budget, is_of_loss);
    }
    refute_small(comparison);
    rules::doubt_companions(&mut comparison.findings);
    rules::rank(&mut comparison.findings);
    refute_slight(comparison, &budget, is_of_loss);
    let claimed: f64 = effects(&comparison.findings).map(|effect| effect.share).sum();
    if let (Some(unexplained), Some(first)) = (&mut comparison.unexplained, effects(&comparison.findings).next()) {
        unexplained.share = (1.0 - claimed).clamp(0.0, 1.0);
        unexplained.ns = unexplained.share * first.change_ns;
    }
    let of = if moved.is_some() { "components" } else { "change" };
    // It is known, and no cause: taken out before the rest is called unknown.
    let recorder_ns = left.remove(RECORDER).map_or(0.0, |left| left.ns);
    let recorder_share = (recorder_ns / loss_ns).clamp(0.0, (1.0 - claimed).clamp(0.0, 1.0));
    comparison.recorder = (recorder_share >= LISTED).then(|| RecorderShare {
        share: recorder_share,
        ns: recorder_share * loss_ns,
        per: budget.per.clone(),
        of: of.to_owned(),
    });
    comparison.unknown = unknown((1.0 - claimed - recorder_share).clamp(0.0, 1.0), loss_ns, of, &left, &budget);
}

fn effects(findings: &[Finding]) -> impl Iterator<Item = &crate::rules::Effect> {
    findings.iter().filter_map(|finding| finding.effect.as_ref())
}

fn of_change(change: &ComponentChange, sign: f64) -> Left {
    let ns = sign * change.difference_ns.unwrap_or(0.0);
    let most_ns = change.difference_ci95.map_or(ns, |[low, high]| if sign > 0.0 { high } else { -low });
    Left { ns: ns.max(0.0), most_ns: most_ns.max(0.0) }
}

/// Gives a finding no more than its components have left. Of those that a side cannot tell (`untold`) it is what holds them.
fn bound(finding: &mut Finding, left: &mut BTreeMap<&str, Left>, untold: &[&str], loss_ns: f64) {
    let Some(names) = cause(&finding.cause).map(|def| def.components) else { return };
    let Some(effect) = &mut finding.effect else { return };
    let is_untold = untold.iter().any(|component| is_of(component, names));
    let is_mine = |component: &str| is_of(component, names) || (is_untold && [UNSAMPLED, OTHER].contains(&component));
    let mut mine: Vec<&mut Left> =
        left.iter_mut().filter(|(component, _)| is_mine(component)).map(|(_, left)| left).collect();
    let most_ns: f64 = mine.iter().map(|left| left.most_ns).sum();
    let wanted_ns = effect.share * loss_ns;
    let got_ns = wanted_ns.min(most_ns).max(0.0);
    if wanted_ns > most_ns {
        finding.evidence.push(format!(
            "the components in which it shows moved by {} at most, {:.0} % of the loss: it gets no more than that",
            duration_of_three(most_ns),
            100.0 * most_ns / loss_ns
        ));
        effect.scale(got_ns / wanted_ns);
    }
    let kept = if most_ns > 0.0 { 1.0 - got_ns / most_ns } else { 1.0 };
    let ns: f64 = mine.iter().map(|left| left.ns).sum();
    let kept_ns = if ns > 0.0 { (1.0 - got_ns / ns).max(0.0) } else { 1.0 };
    for left in &mut mine {
        left.most_ns *= kept;
        left.ns *= kept_ns;
    }
}

/// A mechanism whose time may differ by chance alone is no more than correlated: the whole differs, but not for certain there. Tested
/// is its sum, or, where that is too noisy, the components that are part of what differs for certain.
fn doubt_chance(finding: &mut Finding, budget: &BudgetComparison, is_of_loss: impl Fn(&str) -> bool) {
    let Some(q) = tested(&finding.cause, budget).and_then(|own| own.q) else { return };
    if finding.confidence == Confidence::Mechanism && !has_risen_for_sure(&finding.cause, budget, is_of_loss) {
        finding.confidence = Confidence::Correlated;
        finding.not_looked_at.push(format!("whether its time differs by more than chance: q = {q:.2}"));
    }
}

/// What stands first has to be worth a reader's time. A cause without a setting is not where the time in which it shows may not have
/// risen at all, where what it explains may be nothing, or where no cause claims ten times as much as it explains.
fn refute_slight(comparison: &mut Comparison, budget: &BudgetComparison, is_of_loss: impl Fn(&str) -> bool) {
    while let Some(first) = comparison.findings.first() {
        let claimed: f64 = effects(&comparison.findings).map(|effect| effect.share).sum();
        let unknown = (1.0 - claimed).max(0.0);
        let share = first.effect.as_ref().map_or(1.0, |effect| effect.share);
        let is_sure = || has_risen_for_sure(&first.cause, budget, &is_of_loss);
        let may_be_none = first.effect.as_ref().and_then(|effect| effect.share_ci95).is_some_and(|[low, _]| low <= 0.0);
        let reason = match (&first.setting, first.confidence) {
            (None, Confidence::Correlated) if share * SLIGHT < unknown => format!(
                "it explains {:.0} % of the lost time, and no cause claims {:.0} %",
                100.0 * share,
                100.0 * unknown
            ),
            (None, Confidence::Correlated) if !is_sure() => {
                "the time in which it shows may not have risen at all: the interval of its difference holds 0"
                    .to_owned()
            }
            (None, Confidence::Correlated) if may_be_none => {
                "what it explains may be nothing: the interval of its share holds 0".to_owned()
            }
            _ => return,
        };
        let first = comparison.findings.remove(0);
        refute(comparison, &first.cause, &reason);
        rules::rank(&mut comparison.findings);
    }
}

/// The sum of a cause's components, where it was tested.
fn tested<'a>(of: &str, budget: &'a BudgetComparison) -> Option<&'a MechanismChange> {
    budget.mechanisms.iter().find(|one| one.causes.iter().any(|cause| cause == of)).filter(|own| own.q.is_some())
}

/// Whether the time of a cause differs by more than chance: its sum, or one of the components that are part of what differs. What was
/// not tested is not doubted.
fn has_risen_for_sure(of: &str, budget: &BudgetComparison, is_of_loss: impl Fn(&str) -> bool) -> bool {
    let Some((own, def)) = tested(of, budget).zip(cause(of)) else { return true };
    let is_sure = |one: &ComponentChange| {
        one.significant == Some(true) && is_of(&one.component, def.components) && is_of_loss(&one.component)
    };
    own.significant == Some(true) || budget.components.iter().any(is_sure)
}

fn refute(comparison: &mut Comparison, cause: &str, reason: &str) {
    for one in comparison.considered.iter_mut().filter(|one| one.cause == cause) {
        one.outcome = RuleOutcome::Refuted;
        one.reasons = vec![reason.to_owned()];
    }
}

/// A cause that gets next to nothing of the loss is no finding.
fn refute_small(comparison: &mut Comparison) {
    let is_small = |finding: &mut Finding| finding.effect.as_ref().is_some_and(|effect| effect.most_share() < MATERIAL);
    let small: Vec<Finding> = comparison.findings.extract_if(.., is_small).collect();
    for finding in small {
        let share = finding.effect.as_ref().map_or(0.0, |effect| effect.share);
        let reason = format!("its components account for {:.1} % of the lost time at most", 100.0 * share);
        refute(comparison, &finding.cause, &reason);
    }
}

fn unknown(
    share: f64,
    loss_ns: f64,
    of: &str,
    left: &BTreeMap<&str, Left>,
    budget: &BudgetComparison,
) -> Option<Unknown> {
    if share < MATERIAL {
        return None;
    }
    let about = |name: &str| budget.components.iter().find(|change| change.component == name);
    let mut components: Vec<UnknownComponent> = left
        .iter()
        .filter(|(_, left)| left.ns >= LISTED * loss_ns)
        .filter_map(|(name, left)| {
            let about = about(name)?.about.clone();
            Some(UnknownComponent { component: (*name).to_owned(), about, ns: left.ns, share: left.ns / loss_ns })
        })
        .collect();
    components.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    let of_component = |one: &UnknownComponent| budget.places.iter().find(|of| of.component == one.component);
    let places = components.iter().filter_map(of_component).filter_map(|of| UnknownPlace::of(of, loss_ns)).collect();
    let streams = streams(&components);
    let list = [vec!["default".to_owned()], streams.clone()].concat().join(",");
    let frequency =
        if components.iter().any(|one| one.component.starts_with("run.")) { " --frequency 997" } else { "" };
    Some(Unknown {
        share,
        ns: share * loss_ns,
        per: budget.per.clone(),
        of: of.to_owned(),
        components,
        places,
        record: format!("--observe {list}{frequency}"),
        streams,
    })
}

/// The streams beyond `default` that tell more of these components.
fn streams(components: &[UnknownComponent]) -> Vec<String> {
    const TELL: [(&str, &[&str]); 3] = [
        ("syscalls", &["run.call.", "run.file.", "run.network", "run.task."]),
        ("sched", &["ready.", "off.", "idle"]),
        (
            "block",
            &[
                "off.read",
                "off.write_back",
                "off.flush",
                "off.journal",
                "off.direct_io",
                "off.block_queue",
                "off.other",
            ],
        ),
    ];
    let is_told =
        |names: &[&str]| components.iter().any(|one| names.iter().any(|name| one.component.starts_with(name)));
    TELL.iter().filter(|(_, names)| is_told(names)).map(|(stream, _)| (*stream).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(component: &str, ns: f64, width: f64) -> ComponentChange {
        ComponentChange {
            component: component.to_owned(),
            state: "run".to_owned(),
            about: "what".to_owned(),
            base_ns: Some(0.0),
            test_ns: Some(ns),
            difference_ns: Some(ns),
            difference_ci95: Some([ns - width, ns + width]),
            share: None,
            p: None,
            q: None,
            significant: None,
        }
    }

    fn left(changes: &[ComponentChange], sign: f64) -> BTreeMap<&str, Left> {
        changes.iter().map(|one| (one.component.as_str(), of_change(one, sign))).collect()
    }

    #[test]
    fn components_below_a_name_are_of_it() {
        let names = ["run.fault.", "run.memory.clear"];
        assert!(is_of("run.fault.anonymous", &names) && is_of("run.memory.clear", &names));
        assert!(
            !is_of("run.memory.free", &names) && !is_of("run.faults", &names) && !is_of("run.memory.clears", &names)
        );
    }

    #[test]
    fn only_what_moved_in_the_direction_of_the_loss_can_be_claimed() {
        let changes = [change("run.user", 100.0, 10.0), change("idle", -50.0, 10.0)];
        let worse = left(&changes, 1.0);
        assert_eq!((worse["run.user"].ns, worse["run.user"].most_ns), (100.0, 110.0));
        assert_eq!((worse["idle"].ns, worse["idle"].most_ns), (0.0, 0.0));
        let better = left(&changes, -1.0);
        assert_eq!((better["idle"].ns, better["idle"].most_ns, better["run.user"].most_ns), (50.0, 60.0, 0.0));
    }

    fn place(function: &str, ns: f64, is_sure: bool) -> PlaceChange {
        PlaceChange {
            name: format!("{function} (utimensat)"),
            function: Some(function.to_owned()),
            module: None,
            entry: Some("utimensat".to_owned()),
            base_ns: 0.0,
            test_ns: ns,
            difference_ns: ns,
            difference_ci95: None,
            share: None,
            is_sure,
        }
    }

    #[test]
    fn the_glossary_tells_of_the_first_place_that_it_knows() {
        let chain = "jbd2_log_wait_commit < jbd2_log_do_checkpoint";
        let places = vec![
            place("schedule_timeout", 900.0, false),
            place("nobody_knows_it", 500.0, true),
            place(chain, 400.0, true),
        ];
        let of = ComponentPlaces {
            component: "off.flush".to_owned(),
            difference_ns: 1800.0,
            is_sure: true,
            places_total: 3,
            places,
        };
        let known = UnknownPlace::of(&of, 1000.0).expect("a place that is known");
        assert_eq!((known.place.as_str(), known.share), (format!("{chain} (utimensat)").as_str(), 0.4));
        assert!(known.what.contains("room in the journal"), "the outermost function tells most: {}", known.what);
        assert!(known.settings.contains(&"ext4: mkfs -J size".to_owned()) && !known.next.is_empty());
        let small = vec![place("nobody_knows_it", 900.0, true), place(chain, 400.0, true)];
        let small = ComponentPlaces { places: small, ..of.clone() };
        assert_eq!(UnknownPlace::of(&small, 1000.0), None, "most of it is elsewhere");
        let unsure = ComponentPlaces { places: vec![place(chain, 400.0, false)], ..of };
        assert_eq!(UnknownPlace::of(&unsure, 1000.0), None, "what may be chance is not told");
    }

    #[test]
    fn what_is_left_is_ranked_with_what_tells_more() {
        let changes =
            [change("run.user", 700.0, 10.0), change("off.flush", 200.0, 10.0), change("ready.own", 5.0, 1.0)];
        let budget = BudgetComparison {
            per: "operation".to_owned(),
            runs: [5, 5],
            base_ns: 1000.0,
            test_ns: 2000.0,
            difference_ns: 1000.0,
            difference_ci95: None,
            intervals_from: "runs".to_owned(),
            components: changes.to_vec(),
            mechanisms: Vec::new(),
            places: Vec::new(),
            missing: Vec::new(),
            is_lower_bound: false,
            samples_per_second: [None; 2],
        };
        let rest = unknown(0.9, 1000.0, "change", &left(&changes, 1.0), &budget).expect("nine tenths are left");
        let names: Vec<&str> = rest.components.iter().map(|one| one.component.as_str()).collect();
        assert_eq!(names, ["run.user", "off.flush"], "what is small is not listed");
        assert_eq!(rest.record, "--observe default,sched,block --frequency 997");
        assert_eq!(unknown(0.03, 1000.0, "change", &left(&changes, 1.0), &budget), None);
    }
}
