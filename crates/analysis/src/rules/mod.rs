//! The rules: from evidence to a cause.
//!
//! A rule looks for one cause (`vocab::causes`). It is given a [`Scene`]: the side that suffers and, in a comparison,
//! the other one. It sees [`evidence`] and nothing else; labels, variants, plans and names of jobs are not in it. It
//! answers with a [`Verdict`]: the cause holds, with the links of its chain, the refuters that were looked for, the
//! mapping, the setting, its share of the lost time and the remedies; or it is refuted; or loss could explain the same;
//! or something needed was not recorded.
//!
//! In a comparison nothing is named unless the primary metric differs at the comparison's level, or, at a small part of that level,
//! the time of a mechanism or of a component does (`compare::moved`): without a change there is no cause to name. In the second case
//! only causes are asked for that show in what rose, and their shares are of that rise. Given a change, rules rest on evidence that
//! does not depend on chance, such as faults per slot, sizes of requests and error numbers, and not on further p values.
//!
//! # Confidence
//!
//! * `seen_once`: there is one recording a side, so that nothing was tested: the cause holds on one of them, and a setting that
//!   governs it differs or the time in which it shows rose.
//! * `correlated`: a link of the chain could not be seen, settings were not recorded, other work rose as well, the two sides
//!   ran different work, the cause may come with one that explains several times as much, or there is no other side
//!   ([`crate::explain`]).
//! * `mechanism`: every link was seen, every refuter was looked for, and its share of the loss is 5 % or more at the
//!   lower end of the interval.
//! * `confirmed`: the setting was toggled in randomised blocks, the same work ran on both sides, and nothing else
//!   differs but what follows from the setting itself. A comparison of that form says so at once; otherwise [`confirm`]
//!   takes the comparison of a follow-up experiment. Differences thought harmless are differences: with them it stays
//!   `mechanism`.
//!
//! # How to add a rule
//!
//! 1. Declare the cause in `crates/vocab/src/causes/`: identifier, title, topics, and the settings that can bring it
//!    about. Its test says if a setting is in no registry.
//! 2. Write one file in `causes/`, named after the cause with `_` for `.`. Most causes are a `ComponentRule`: components of the
//!    account, signs, settings, refuters and remedies as data; steps 3 to 5 are done by it. Where others wait in the same
//!    component, its `spent` says in which calls or functions the time is the cause's. One that has to look at mappings or
//!    requests one by one is a unit struct that implements [`Rule`] and its `About`.
//! 3. In `examine`, build a chain: `needs` for links without which the cause does not hold, `supports` for links whose
//!    absence makes it less certain, `refuter` for what would refute it, `loss` for what loss could explain. Say the
//!    figures in each sentence. If something is missing from [`evidence`], add it there for every rule; never open a
//!    recording in a rule.
//! 4. Attribute the time: give `effect::effect` the cost of a run in ns with what bounds it (`effect::faults`,
//!    `effect::reads`), and the chain its `material_link`.
//! 5. List the remedies with their reach and the exact command, the narrowest first.
//! 6. Put the rule into `causes/mod.rs`.
//! 7. A `ComponentRule` is tested by its own declaration (`causes/tests.rs`), and against all others. Test the others in
//!    `crates/analysis/tests/rules.rs`: a recording on which it holds, one for each refuter that flips it,
//!    and the other rules' recordings, on which it must stay silent.
//! 8. Rewrite the page: `make docs`.

mod causes;
mod chain;
mod component_rule;
mod confirm;
mod docs;
mod effect;
mod error_rate;
pub mod evidence;
mod finding;
mod lever;
mod more_work;
mod policy;
mod quantity;
mod remedies;
mod restore;
mod scene;
mod untested;

use std::collections::BTreeMap;

use pagelab_vocab::causes::cause;

pub use causes::RULES;
pub use chain::{Case, Verdict};
pub use confirm::{Confirmation, confirm, follow_up, not_decided};
pub use docs::markdown;
pub use error_rate::{CauseRecord, ErrorRate, cause_record, error_rate, error_rates, record_in_full, record_sentence};
pub use finding::{
    Confidence, Considered, Diagnosis, Effect, Finding, Fix, FollowUp, MappingSubject, Number, Reach, RuleOutcome,
    SettingSubject, SideName, Unexplained, lost_time,
};
pub use remedies::{Remedy, thp_remedies};
pub use scene::Scene;

use crate::compare::{CompareInputs, Moved};
use crate::error::Result;
use evidence::{Contrast, Evidence};
use pagelab_views::run::RunData;

/// What a rule that is written by hand says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The cause, of `vocab::causes`.
    pub cause: &'static str,
    /// What it looks at.
    pub looks_at: &'static str,
    /// When the cause holds in a comparison: all of these.
    pub holds_if: &'static [&'static str],
    /// What refutes it: any of these.
    pub refuted_by: &'static [&'static str],
    /// What it needs of a lone recording.
    pub alone: &'static str,
}

/// A rule's page in `docs/rules.md`; the fields are those of [`About`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manual {
    /// What it looks at.
    pub looks_at: String,
    /// When the cause holds in a comparison: all of these.
    pub holds_if: Vec<String>,
    /// What refutes it: any of these.
    pub refuted_by: Vec<String>,
    /// What it needs of a lone recording.
    pub alone: String,
    /// Its own fixes, the narrowest first, with their commands; those that follow from the setting are not among them.
    pub fixes: Vec<String>,
}

impl From<&About> for Manual {
    fn from(about: &About) -> Self {
        let owned = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        Self {
            looks_at: about.looks_at.to_owned(),
            holds_if: owned(about.holds_if),
            refuted_by: owned(about.refuted_by),
            alone: about.alone.to_owned(),
            fixes: Vec::new(),
        }
    }
}

/// One rule.
pub trait Rule: Sync {
    /// The cause that it looks for, of `vocab::causes`.
    fn cause(&self) -> &'static str;

    /// What it says of itself.
    fn manual(&self) -> Manual;

    /// Looks for the cause.
    fn examine(&self, scene: &Scene<'_>) -> Verdict;

    /// Causes that explain the same time better: where one of them holds, this one does not.
    fn yields_to(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Looks for causes of the difference that a comparison shows. Where nothing could be tested the rules judge either side
/// alone, and what they find is a hint.
pub fn diagnose(inputs: &CompareInputs<'_>) -> Result<Diagnosis> {
    use crate::compare::Verdict as Primary;
    let primary = inputs.comparison.primary.as_ref();
    match primary.map(|primary| primary.verdict) {
        // Without a difference no rule is asked, so the recordings' faults need not be read.
        Some(Primary::NoDifference) if Moved::of(inputs.comparison).is_none() => {
            Ok(consider_nothing(RuleOutcome::Refuted, &no_difference(primary)))
        }
        Some(Primary::Better | Primary::Worse | Primary::NoDifference) => {
            Ok(consider(&evidence::of_comparison(inputs)?))
        }
        Some(Primary::Different) => Ok(consider_nothing(RuleOutcome::NotTested, &neutral(primary))),
        Some(Primary::NotTested) | None => untested::diagnose(inputs),
    }
}

/// Looks for causes in one recording alone.
pub fn diagnose_run(run: &RunData) -> Result<Diagnosis> {
    Ok(consider(&evidence::of_run(run)?))
}

fn no_difference(primary: Option<&crate::compare::Primary>) -> String {
    let (metric, p) = primary.map_or(("the primary metric", None), |primary| (primary.metric.as_str(), primary.p));
    let p = p.map_or_else(String::new, |p| format!(" (p = {p:.3})"));
    format!("{metric} shows no difference{p}: there is no change to explain")
}

fn neutral(primary: Option<&crate::compare::Primary>) -> String {
    format!(
        "{} differs, but neither way of it is better, so no side is the slower one; name a metric that is better one way \
         with --metric",
        primary.map_or("the primary metric", |primary| primary.metric.as_str())
    )
}

fn consider_nothing(outcome: RuleOutcome, reason: &str) -> Diagnosis {
    let considered = RULES.iter().map(|rule| Considered {
        cause: rule.cause().to_owned(),
        outcome,
        reasons: vec![reason.to_owned()],
    });
    Diagnosis { considered: considered.collect(), ..Diagnosis::default() }
}

/// Asks every rule, shares the loss out among the causes that hold, and ranks them: by confidence, then by
/// what could not be looked at, then by share of the lost time, then in the order of [`RULES`].
pub fn consider(evidence: &Evidence) -> Diagnosis {
    let scene = match &evidence.contrast {
        None => Some(Scene::alone(evidence)),
        Some(contrast) => contrast.slower().and_then(|slower| Scene::of_comparison(evidence, slower)),
    };
    let Some(scene) = scene else {
        let reason = "the primary metric shows no difference: there is no change to explain";
        return consider_nothing(RuleOutcome::Refuted, reason);
    };
    let ask = |rule: &'static dyn Rule| match scene.rise() {
        Some(rise) if !rise.causes.contains(&rule.cause()) => {
            Verdict::Refuted(vec!["neither the whole time nor the time in which it shows differs".to_owned()])
        }
        _ => rule.examine(&scene),
    };
    let mut verdicts: Vec<(&'static str, Verdict)> = RULES.iter().map(|rule| (rule.cause(), ask(*rule))).collect();
    yield_to_better(&mut verdicts);
    if evidence.contrast.is_some() {
        share_loss(&mut verdicts);
    }
    let considered = verdicts.iter().map(|(cause, verdict)| considered_of(cause, verdict)).collect();
    let held = verdicts.into_iter().filter_map(|(cause, verdict)| match verdict {
        Verdict::Holds(case) => Some((cause, *case)),
        _ => None,
    });
    let held: Vec<(&str, Case)> = held.collect();
    let unclaimed = unclaimed(held.iter().map(|(_, case)| case.effect.as_ref()));
    let mut findings: Vec<Finding> =
        held.into_iter().map(|(cause, case)| finding(cause, case, evidence.contrast.as_ref(), unclaimed)).collect();
    doubt_unread_settings(&mut findings, &scene);
    doubt_companions(&mut findings);
    rank(&mut findings);
    let unexplained = evidence.contrast.as_ref().and_then(|_| unexplained(&findings, unclaimed));
    Diagnosis { findings, considered, unexplained }
}

/// Puts findings in order: by confidence, then by what could not be looked at, the least first, then by share of the lost time.
pub(crate) fn rank(findings: &mut [Finding]) {
    let share = |finding: &Finding| finding.effect.as_ref().map_or(0.0, |effect| effect.share);
    let doubts = |finding: &Finding| finding.not_looked_at.len();
    findings.sort_by(|a, b| {
        b.confidence
            .cmp(&a.confidence)
            .then_with(|| doubts(a).cmp(&doubts(b)))
            .then_with(|| share(b).total_cmp(&share(a)))
    });
    for (place, finding) in findings.iter_mut().enumerate() {
        finding.rank = place + 1;
    }
}

/// Withdraws causes where one that explains the same time better holds: without a doubt, or with fewer.
fn yield_to_better(verdicts: &mut [(&'static str, Verdict)]) {
    let doubts = |verdict: &Verdict| match verdict {
        Verdict::Holds(case) => Some(case.not_looked_at.len()),
        _ => None,
    };
    let holding: BTreeMap<&str, usize> =
        verdicts.iter().filter_map(|(cause, verdict)| Some((*cause, doubts(verdict)?))).collect();
    for (rule, (_, verdict)) in RULES.iter().zip(verdicts.iter_mut()) {
        let Some(own) = doubts(verdict) else { continue };
        let better = rule
            .yields_to()
            .iter()
            .find(|better| holding.get(**better).is_some_and(|theirs| *theirs == 0 || *theirs < own));
        if let Some(better) = better {
            *verdict = Verdict::Refuted(vec![format!("{better} explains the same time, and its own signs are there")]);
        }
    }
}

/// Causes of one resource cannot each have all of it. What is left of a share may be next to nothing then.
fn share_loss(verdicts: &mut [(&'static str, Verdict)]) {
    let effects = verdicts.iter_mut().filter_map(|(_, verdict)| match verdict {
        Verdict::Holds(case) => case.effect.as_mut(),
        _ => None,
    });
    effect::share_out(&mut effects.collect::<Vec<_>>());
    for (_, verdict) in verdicts {
        let Verdict::Holds(case) = verdict else { continue };
        let Some(effect) = &case.effect else { continue };
        let most = effect.share_ci95.map_or(effect.share, |[_, high]| high);
        if most < effect::MATERIAL_TIME {
            let reason = format!("beside the other causes it explains at most {:.1} % of the lost time", most * 100.0);
            *verdict = Verdict::Refuted(vec![reason]);
            continue;
        }
        let doubt = effect::too_little(effect).filter(|doubt| !case.not_looked_at.contains(doubt));
        case.not_looked_at.extend(doubt);
    }
}

/// What the findings leave of the loss; `None` unless one of them tells its share.
fn unexplained(findings: &[Finding], unclaimed: Option<f64>) -> Option<Unexplained> {
    let (first, share) = findings.iter().find_map(|finding| finding.effect.as_ref()).zip(unclaimed)?;
    Some(Unexplained { share, ns: share * first.change_ns, per: first.per.clone() })
}

/// The share of the loss that no case claims; `None` if none tells its share.
fn unclaimed<'a>(effects: impl Iterator<Item = Option<&'a finding::Effect>>) -> Option<f64> {
    let shares: Vec<f64> = effects.flatten().map(|effect| effect.share).collect();
    (!shares.is_empty()).then(|| (1.0 - shares.iter().sum::<f64>()).clamp(0.0, 1.0))
}

fn considered_of(cause: &str, verdict: &Verdict) -> Considered {
    let (outcome, reasons) = match verdict {
        Verdict::Holds(case) => (RuleOutcome::Holds, vec![case.summary.clone()]),
        Verdict::Refuted(reasons) => (RuleOutcome::Refuted, reasons.clone()),
        Verdict::Blocked(reasons) => (RuleOutcome::Blocked, reasons.clone()),
        Verdict::Unknown(reasons) => (RuleOutcome::Unknown, reasons.clone()),
    };
    Considered { cause: cause.to_owned(), outcome, reasons }
}

fn finding(id: &str, mut case: Case, contrast: Option<&Contrast>, unclaimed: Option<f64>) -> Finding {
    case.fixes.sort_by_key(|fix| fix.reach);
    case.evidence.extend(case.effect.as_ref().map(effect::sentence));
    if let Some(doubt) = contrast.and_then(|contrast| other_work(contrast, case.setting.as_ref())) {
        case.not_looked_at.push(doubt);
    }
    let confidence = match contrast {
        Some(contrast) if case.not_looked_at.is_empty() => {
            let alone = case.setting.as_ref().filter(|_| case.together_with.is_empty());
            match alone.map(|setting| confirm::toggled(contrast, &setting.key)) {
                Some(Ok(said)) => {
                    case.evidence.push(said);
                    Confidence::Confirmed
                }
                Some(Err(_)) | None => match beside_the_unknown(case.effect.as_ref(), unclaimed) {
                    Some(doubt) => {
                        case.not_looked_at.push(doubt);
                        Confidence::Correlated
                    }
                    None => Confidence::Mechanism,
                },
            }
        }
        _ => Confidence::Correlated,
    };
    if contrast.is_none() {
        case.not_looked_at.push("a run without the cause: this recording has nothing to compare with".to_owned());
    }
    Finding {
        rank: 0,
        cause: id.to_owned(),
        title: cause(id).map_or_else(String::new, |def| def.title.to_owned()),
        confidence,
        summary: case.summary,
        evidence: case.evidence,
        refuted: case.refuted,
        not_looked_at: case.not_looked_at,
        fix: case.fixes.iter().map(Fix::line).collect(),
        side: case.side,
        effect: case.effect,
        mapping: case.mapping,
        setting: case.setting,
        together_with: case.together_with,
        numbers: case.numbers,
        fixes: case.fixes,
        follow_up: None,
    }
}

/// How many times as large as the most that a cause explains the unclaimed part may be before the cause is beside the point.
const BESIDE_THE_POINT: f64 = 3.0;

/// Why a cause that explains a little may be no more than a companion of what nobody explains: a program that does other work waits, maps
/// and reads a little more with it.
fn beside_the_unknown(effect: Option<&finding::Effect>, unclaimed: Option<f64>) -> Option<String> {
    let (effect, unclaimed) = effect.zip(unclaimed)?;
    let most = effect.share_ci95.map_or(effect.share, |[_, high]| high);
    (most * BESIDE_THE_POINT < unclaimed).then(|| {
        format!(
            "what else the program did more: no cause claims {:.0} % of the lost time, and this one explains {:.0} % at most",
            100.0 * unclaimed,
            100.0 * most
        )
    })
}

/// Without settings the chain lacks its beginning: what looks like a change of the program (more flushes, reads without readahead) may be
/// one of the host (a mount option, a smaller window).
fn doubt_unread_settings(findings: &mut [Finding], scene: &Scene<'_>) {
    let Some(side) = scene.side_without_settings() else { return };
    for finding in findings.iter_mut() {
        finding.confidence = finding.confidence.min(Confidence::Correlated);
        finding
            .not_looked_at
            .push(format!("whether a setting brought it about: those of {} were not recorded", side.word()));
    }
}

/// How many times as large as a cause's part another one's may be before it is that one's companion. Both are parts of one loss, whose
/// interval says nothing of their ratio.
const COMPANION: f64 = 3.0;

/// A cause that no setting brought about, beside one that explains several times as much, may be what comes with that: pages that are
/// copied interrupt other CPUs, a program that is started another way begins with one exec more. It is no more than correlated. The
/// other one is a mechanism, or has a setting that differs for the worse, whatever else is not known of it.
pub(crate) fn doubt_companions(findings: &mut [Finding]) {
    let share = |finding: &Finding| finding.effect.as_ref().map_or(0.0, |effect| effect.share);
    let is_sure = |finding: &&Finding| finding.confidence >= Confidence::Mechanism || finding.setting.is_some();
    let sure = findings.iter().filter(is_sure);
    let Some((main, main_share)) =
        sure.map(|finding| (finding.cause.clone(), share(finding))).max_by(|a, b| a.1.total_cmp(&b.1))
    else {
        return;
    };
    let without_setting =
        |finding: &&mut Finding| finding.setting.is_none() && finding.confidence == Confidence::Mechanism;
    for finding in findings.iter_mut().filter(without_setting) {
        let Some(effect) = &finding.effect else { continue };
        if effect.share * COMPANION < main_share {
            finding.not_looked_at.push(format!(
                "whether it comes with {main}, which explains {:.0} % of the lost time: this one explains {:.0} %, and no setting that can bring it about differs",
                100.0 * main_share,
                100.0 * effect.share
            ));
            finding.confidence = Confidence::Correlated;
        }
    }
}

/// Why other work of the program could be the reason. A setting of the host is no more to blame than the other command
/// that ran under it; where the cause lies in the program itself (a call that it makes, the addresses that it chooses)
/// the commands differ with it.
fn other_work(contrast: &Contrast, setting: Option<&SettingSubject>) -> Option<String> {
    let of_host = setting.is_some_and(|setting| contrast.differing.iter().any(|change| change.key == setting.key));
    (of_host && contrast.same_work == Some(false))
        .then(|| "whether the work is the same: the two sides ran different commands or jobs".to_owned())
}

#[cfg(test)]
mod tests;
