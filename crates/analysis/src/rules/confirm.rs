//! When a cause is confirmed: an experiment toggled exactly this.

use super::evidence::{Contrast, SettingChange, differing};
use super::finding::{Confidence, Finding, SettingSubject};
use crate::compare::{Comparison, Verdict};

/// Whether a comparison is a randomised toggle of `key`: the same work, in blocks, and no other decision differs.
/// `Ok` says so in a sentence, `Err` says what stands against it.
pub(super) fn toggled(contrast: &Contrast, key: &str) -> Result<String, String> {
    only_this(&contrast.differing, key)?;
    if !contrast.blocks {
        return Err("the runs were not made in blocks".to_owned());
    }
    if !contrast.varying.is_empty() {
        return Err(format!("settings varied within a side: {}", contrast.varying.join(", ")));
    }
    match contrast.same_work {
        Some(true) => {
            Ok(format!("{key} was toggled: no other setting differs, the same work ran on both sides in blocks"))
        }
        Some(false) => Err("the two sides ran different commands or jobs".to_owned()),
        None => Err("the recordings do not say what was run".to_owned()),
    }
}

fn only_this(differing: &[SettingChange], key: &str) -> Result<(), String> {
    let mut toggled = false;
    let mut others = Vec::new();
    for change in differing {
        if change.key == key {
            toggled = true;
        } else if !change.follows {
            others.push(change.key.as_str());
        }
    }
    match (toggled, others.as_slice()) {
        (false, _) => Err(format!("{key} does not differ between the sides")),
        (true, []) => Ok(()),
        (true, [first]) => Err(format!("{first} differs too")),
        (true, [first, rest @ ..]) => Err(format!("{first} and {} more differ too", rest.len())),
    }
}

/// The outcome of [`confirm`].
#[derive(Debug, Clone, PartialEq)]
pub enum Confirmation {
    /// The finding, now confirmed, with the toggle among its evidence.
    Confirmed(Box<Finding>),
    /// The toggle was made and the slowdown did not follow: the cause is refuted, with the reason.
    Refuted(String),
    /// The comparison is no toggle of this setting, or shows nothing; the finding stays as it was, with the reason.
    Undecided(String),
}

/// Judges a finding by the comparison of a follow-up experiment in which the setting of the finding was toggled and
/// everything else was left alone.
///
/// `toggle` must compare two sides that differ in `finding.setting` and in nothing else but what follows from it, in
/// blocks (its `method` is `paired_blocks`). The side with the finding's bad value must be the worse one. What ran is
/// the caller's to keep equal; a comparison does not hold it.
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
    let p = primary.p.map_or_else(String::new, |p| format!(", p = {p:.2e}"));
    let ratio = primary.ratio.map_or_else(String::new, |ratio| format!(" {ratio:.3}"));
    match (primary.verdict, bad_on_test) {
        (Verdict::Worse, true) | (Verdict::Better, false) => {
            let mut confirmed = finding.clone();
            confirmed.confidence = Confidence::Confirmed;
            confirmed.evidence.push(format!(
                "toggling {} and nothing else, in {} runs, moved {} in the same way (ratio{ratio}{p})",
                setting.key,
                toggle.base.n + toggle.test.n,
                primary.metric
            ));
            Confirmation::Confirmed(Box::new(confirmed))
        }
        (Verdict::NoDifference, _) => {
            Confirmation::Refuted(format!("toggling {} made no difference to {}{p}", setting.key, primary.metric))
        }
        (Verdict::Better | Verdict::Worse, _) => Confirmation::Refuted(format!(
            "toggling {} moved {} the other way (ratio{ratio}{p})",
            setting.key, primary.metric
        )),
        (Verdict::Different | Verdict::NotTested, _) => {
            Confirmation::Undecided(format!("{} does not say which side is worse", primary.metric))
        }
    }
}

fn is_toggle(setting: &SettingSubject, toggle: &Comparison) -> Result<(), String> {
    only_this(&differing(toggle), &setting.key)?;
    if toggle.method != "paired_blocks" {
        return Err(format!("the toggle was not made in blocks (method {})", toggle.method));
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
