//! The same evidence, asked the other way round.

use pagelab_analysis::compare::Moved;
use pagelab_analysis::rules::SideName;
use pagelab_analysis::rules::evidence::{Contrast, Evidence, PrimaryEvidence, SettingChange, SideEvidence};

fn turned_change(change: &SettingChange) -> SettingChange {
    SettingChange { base: change.test.clone(), test: change.base.clone(), ..change.clone() }
}

fn turned_primary(primary: &PrimaryEvidence) -> PrimaryEvidence {
    PrimaryEvidence {
        ratio: primary.ratio.map(|ratio| 1.0 / ratio),
        ratio_ci95: primary.ratio_ci95.map(|[low, high]| [1.0 / high, 1.0 / low]),
        slower: primary.slower.map(SideName::other),
        ..primary.clone()
    }
}

/// The recordings of the base on the test side, and those of the test side on the base.
///
/// # Panics
/// If there is only one side.
pub(crate) fn swapped(evidence: &Evidence) -> Evidence {
    let contrast = evidence.contrast.as_ref().unwrap();
    let side = |name, of: &SideEvidence| SideEvidence { name, ..of.clone() };
    let other = Contrast {
        base: side(SideName::Base, &evidence.test),
        primary: contrast.primary.as_ref().map(turned_primary),
        rise: contrast.rise.as_ref().map(|rise| Moved { slower: rise.slower.other(), ..rise.clone() }),
        differing: contrast.differing.iter().map(turned_change).collect(),
        ..contrast.clone()
    };
    Evidence { test: side(SideName::Test, &contrast.base), contrast: Some(other) }
}

/// The values of one setting on the other sides; the recordings stay where they are.
///
/// # Panics
/// If there is only one side.
pub(crate) fn setting_turned(evidence: &Evidence, key: &str) -> Evidence {
    let mut turned = evidence.clone();
    let contrast = turned.contrast.as_mut().unwrap();
    for change in contrast.differing.iter_mut().filter(|change| change.key == key) {
        *change = turned_change(change);
    }
    let (of_base, of_test) = (contrast.base.settings.remove(key), turned.test.settings.remove(key));
    contrast.base.settings.extend(of_test.map(|value| (key.to_owned(), value)));
    turned.test.settings.extend(of_base.map(|value| (key.to_owned(), value)));
    turned
}
