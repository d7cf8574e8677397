//! When a cause is confirmed: an experiment toggled exactly this.

use std::path::Path;

use super::evidence::{Contrast, SettingChange, differing};
use super::finding::{Confidence, Finding, FollowUp, SettingSubject};
use crate::compare::{Comparison, ComparisonMethod, Primary, Verdict};

/// Whether a comparison is a randomised toggle of `key`: the same work, in blocks, and no other decision differs.
/// `Ok` says so in a sentence, `Err` says what stands against it.
pub(super) fn toggled(contrast: &Contrast, key: &str) -> Result<String, String> {
    let following = only_this(&contrast.differing, key)?;
    if !contrast.blocks {
        return Err("the runs were not made in blocks".to_owned());
    }
    if !contrast.varying.is_empty() {
        return Err(format!("settings varied within a side: {}", contrast.varying.join(", ")));
    }
    match contrast.same_work {
        Some(true) => Ok(format!("{key} was toggled: {following}, the same work ran on both sides in blocks")),
        Some(false) => Err("the two sides ran different commands or jobs".to_owned()),
        None => Err("the recordings do not say what was run".to_owned()),
    }
}

/// That `key` differs and nothing else does but what follows from it, in words.
fn only_this(differing: &[SettingChange], key: &str) -> Result<String, String> {
    if !differing.iter().any(|change| change.key == key) {
        return Err(format!("{key} does not differ between the sides"));
    }
    // How files lie that the runs write is an outcome, no decision.
    let is_outcome = |change: &&SettingChange| change.key.starts_with("file.") && !key.starts_with("file.");
    let others = || differing.iter().filter(move |change| change.key != key && !is_outcome(change));
    let decided: Vec<&str> = others().filter(|change| !change.follows).map(|change| change.key.as_str()).collect();
    let following: Vec<&str> = others().filter(|change| change.follows).map(|change| change.key.as_str()).collect();
    match (decided.as_slice(), following.as_slice()) {
        ([], []) => Ok("no other setting differs".to_owned()),
        ([], [one]) => Ok(format!("the only other setting that differs, {one}, follows from it")),
        ([], more) => Ok(format!("the {} other settings that differ follow from it: {}", more.len(), more.join(", "))),
        ([first], _) => Err(format!("{first} differs too")),
        ([first, rest @ ..], _) => Err(format!("{first} and {} more differ too", rest.len())),
    }
}

/// The outcome of [`confirm`].
#[derive(Debug, Clone, PartialEq)]
pub enum Confirmation {
    /// The finding, now confirmed, with the toggle among its evidence.
    Confirmed(Box<Finding>),
    /// The toggle was made, and less than half of the loss that the finding claims came back: the cause is refuted, with
    /// the reason.
    Refuted(String),
    /// The comparison is no toggle of this setting, or too coarse to tell; the finding stays as it was, with the reason.
    Undecided(String),
}

/// Judges a finding by the comparison of a follow-up experiment in which the setting of the finding was toggled and
/// everything else was left alone.
///
/// `toggle` must compare two sides that differ in `finding.setting` and in nothing else but what follows from it, in
/// blocks (its `method` is `paired_blocks`), and run the work of the side that suffers. The time that it shows to be lost is
/// held against the time that the finding claims, both as parts of what the work takes without the loss: from half of it on,
/// by the lower end of the interval, the finding is confirmed; below half of it, by the upper end, it is refuted; in between
/// nothing is decided. So a toggle of few runs refutes nothing, and a small loss confirms no large one. (As parts of the slower
/// time, 3 times as slow would be 67 %, and 11 times as slow no more than 91 %.) What ran is the caller's to keep equal; a
/// comparison does not hold it.
pub fn confirm(finding: &Finding, toggle: &Comparison) -> Confirmation {
    let Some(setting) = &finding.setting else {
        return Confirmation::Undecided("the finding names no setting that could be toggled".to_owned());
    };
    if let Err(reason) = is_toggle(setting, toggle) {
        return Confirmation::Undecided(reason);
    }
    let Some(primary) = &toggle.primary else {
        return Confirmation::Undecided("the toggle has no primary metric".to_owned());
    };
    let Some(bad_on_test) = bad_on_test(finding, setting, toggle) else {
        return Confirmation::Undecided(format!(
            "neither side of the toggle has the value of {} that is to blame",
            setting.key
        ));
    };
    let Some(claimed) = claimed_loss(finding).map(lost_time) else {
        return Confirmation::Undecided("the finding does not tell how much of the time it claims".to_owned());
    };
    let Some([low, high]) = toggled_loss(primary, bad_on_test).map(|ends| ends.map(lost_time)) else {
        return Confirmation::Undecided(format!("{} has no interval, or no better and worse", primary.metric));
    };
    // 230 times as slow where 7.4 are claimed would be 3,600 % of it, which says nothing more.
    let part = if low > 2.0 * claimed {
        "less than half of that".to_owned()
    } else {
        format!("of which {:.0} to {:.0} % came back", low / claimed * 100.0, high / claimed * 100.0)
    };
    let said = format!(
        "toggling {} and nothing else, in {} runs, made the work {} to {} times as slow by {}; {} times are claimed, {part}",
        setting.key,
        toggle.base.n + toggle.test.n,
        times(low),
        times(high),
        primary.metric,
        times(claimed),
    );
    if high < claimed * ENOUGH {
        return Confirmation::Refuted(said);
    }
    let shown = matches!((primary.verdict, bad_on_test), (Verdict::Worse, true) | (Verdict::Better, false));
    if !shown || low < claimed * ENOUGH {
        return Confirmation::Undecided(format!("{said}: too coarse to tell; make more runs"));
    }
    let mut confirmed = finding.clone();
    confirmed.confidence = Confidence::Confirmed;
    confirmed.evidence.push(said);
    Confirmation::Confirmed(Box::new(confirmed))
}

/// Writes into a finding what the rounds of `toggle`, kept in `set`, say of it. A confirmed finding becomes so; a refuted one stays
/// for the reader to see, as no more than correlated.
pub fn follow_up(finding: &mut Finding, toggle: &Comparison, set: &Path) {
    let bad_on_test = finding.setting.as_ref().and_then(|setting| bad_on_test(finding, setting, toggle));
    let primary = toggle.primary.as_ref();
    let returned = primary.zip(bad_on_test).and_then(|(primary, bad)| toggled_loss(primary, bad));
    let claimed = claimed_loss(finding);
    let mut said = FollowUp {
        rounds: toggle.base.n.min(toggle.test.n),
        returned_pct_ci95: returned.and_then(percent),
        claimed_pct: claimed.map(|loss| loss * 100.0),
        returned_of_claim_pct_ci95: returned
            .zip(claimed)
            .and_then(|(returned, claimed)| percent(returned.map(|loss| lost_time(loss) / lost_time(claimed)))),
        detectable_pct: primary.and_then(|primary| primary.detectable).map(|change| change * 100.0),
        set: Some(set.display().to_string()),
        ..not_decided("")
    };
    (said.state, said.reason) = match confirm(finding, toggle) {
        Confirmation::Confirmed(confirmed) => {
            let reason = confirmed.evidence.last().cloned().unwrap_or_default();
            *finding = *confirmed;
            ("confirmed".to_owned(), reason)
        }
        Confirmation::Refuted(reason) => {
            finding.confidence = Confidence::Correlated;
            ("refuted".to_owned(), reason)
        }
        Confirmation::Undecided(reason) => ("not_decided".to_owned(), reason),
    };
    finding.follow_up = Some(said);
}

/// A finding that no rounds were made for, with the reason.
pub fn not_decided(reason: &str) -> FollowUp {
    FollowUp {
        state: "not_decided".to_owned(),
        reason: reason.to_owned(),
        rounds: 0,
        returned_pct_ci95: None,
        claimed_pct: None,
        returned_of_claim_pct_ci95: None,
        detectable_pct: None,
        set: None,
    }
}

fn percent(interval: [f64; 2]) -> Option<[f64; 2]> {
    interval.iter().all(|end| end.is_finite()).then(|| interval.map(|end| end * 100.0))
}

/// Part of the claimed loss of time that must come back.
const ENOUGH: f64 = 0.5;

/// What a finding claims of the time of the side that suffers. No more than the sides differ by: with more, what is left would
/// be less than the faster side takes.
fn claimed_loss(finding: &Finding) -> Option<f64> {
    let effect = finding.effect.as_ref()?;
    let lost_ns =
        if effect.change_ns > 0.0 { effect.attributed_ns.min(effect.change_ns) } else { effect.attributed_ns };
    Some(lost_ns / effect.slow_ns?).filter(|loss| *loss > 0.0 && *loss < 1.0)
}

/// A part of the slower time as a part of the time that is left without it.
fn lost_time(loss: f64) -> f64 {
    loss / (1.0 - loss)
}

/// How many times as slow a loss makes the work, in words.
fn times(lost: f64) -> String {
    let ratio = 1.0 + lost;
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

/// The interval of the loss of the side with the bad value, as a part of its time; negative where it is the faster one.
fn toggled_loss(primary: &Primary, bad_on_test: bool) -> Option<[f64; 2]> {
    let [low, high] = primary.times_worse()?;
    // The time of the bad side over that of the good one.
    let ratios = if bad_on_test { [low, high] } else { [1.0 / high, 1.0 / low] };
    Some(ratios.map(|ratio| 1.0 - 1.0 / ratio))
}

fn is_toggle(setting: &SettingSubject, toggle: &Comparison) -> Result<(), String> {
    only_this(&differing(toggle), &setting.key)?;
    if toggle.method != ComparisonMethod::PairedBlocks {
        return Err(format!("the toggle was not made in blocks (method {})", toggle.method.word()));
    }
    Ok(())
}

/// Whether the toggle's test side has the value that the finding blames.
fn bad_on_test(finding: &Finding, setting: &SettingSubject, toggle: &Comparison) -> Option<bool> {
    let bad = match finding.side {
        super::SideName::Base => setting.base.as_ref(),
        super::SideName::Test => setting.test.as_ref(),
    };
    let diff = toggle.settings.iter().find(|diff| diff.key == setting.key)?;
    if diff.test.as_ref() == bad {
        Some(true)
    } else if diff.base.as_ref() == bad {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toggle_counts_where_nothing_else_was_decided() {
        let change = |key: &str, follows: bool| SettingChange {
            key: key.to_owned(),
            base: Some("a".to_owned()),
            test: Some("b".to_owned()),
            follows,
        };
        let own = || change("thp.enabled", false);
        let said = |others: Vec<SettingChange>| only_this(&[vec![own()], others].concat(), "thp.enabled");
        assert!(said(vec![]).is_ok());
        assert!(said(vec![change("mm.thp_disable", true)]).is_ok_and(|said| said.contains("follows from it")));
        assert!(said(vec![change("file./data/f.extents", false)]).is_ok(), "how a file lies is an outcome");
        let error = said(vec![change("thp.defrag", false)]).expect_err("another one was decided");
        assert_eq!(error, "thp.defrag differs too");
        let error = said(vec![change("thp.defrag", false), change("cpu.boost", false)]).expect_err("two more");
        assert_eq!(error, "thp.defrag and 1 more differ too");
        assert!(only_this(&[change("cpu.boost", false)], "thp.enabled").is_err(), "it does not differ itself");
    }
}
