//! The time in which each cause shows, as one figure.
//!
//! A cause moves several components of the account a little, and the whole time varies for many other reasons: of a program that
//! takes 5 % longer for its page faults on a noisy host, the whole shows no difference where the faults' own time differs beyond doubt.
//! So the components of a cause (`vocab::causes`) are summed for each run and tested as one: a family of some thirty tests
//! instead of one of a hundred components, and each of them of the time that the cause would take.

use std::collections::BTreeMap;

use pagelab_vocab::causes::causes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::{ComponentChange, Difference, OfRun};
use crate::rules::evidence::is_of;
use crate::stats::{Design, benjamini_hochberg};

/// The time of the components in which a cause shows, per unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct MechanismChange {
    /// The causes that show in just these components.
    pub causes: Vec<String>,
    /// The components; a name that ends in a dot stands for all below it.
    pub components: Vec<String>,
    /// Mean of the base, ns.
    pub base_ns: f64,
    /// Mean of the test side, ns.
    pub test_ns: f64,
    /// Test less base, ns.
    pub difference_ns: f64,
    /// Its 95 % interval.
    pub difference_ci95: Option<[f64; 2]>,
    /// Two-sided p value of the difference; null where it was not tested.
    pub p: Option<f64>,
    /// q value among the mechanisms.
    pub q: Option<f64>,
    /// The decision: q is at most the family's level.
    pub significant: Option<bool>,
}

/// Those of all causes whose components both sides can tell, the most certain first. Causes without time on either side are left out.
pub(super) fn of_causes(
    base: &[OfRun],
    test: &[OfRun],
    design: Design,
    components: &[ComponentChange],
) -> Vec<MechanismChange> {
    let mut by_components: BTreeMap<&[&str], Vec<String>> = BTreeMap::new();
    for def in causes() {
        by_components.entry(def.components).or_default().push(def.id.to_owned());
    }
    let is_told = |names: &[&str]| {
        components.iter().all(|change| change.difference_ns.is_some() || !is_of(&change.component, names))
    };
    let of_names = |(names, causes): (&[&str], Vec<String>)| {
        let of = |run: &OfRun| run.sum_of(|component| is_of(component, names));
        let difference = Difference::of(base, test, design, of);
        (difference.base > 0.0 || difference.test > 0.0).then(|| MechanismChange {
            causes,
            components: names.iter().map(|name| (*name).to_owned()).collect(),
            base_ns: difference.base,
            test_ns: difference.test,
            difference_ns: difference.estimate,
            difference_ci95: difference.interval,
            p: difference.p.filter(|_| difference.from == "runs"),
            q: None,
            significant: None,
        })
    };
    let mut mechanisms: Vec<MechanismChange> =
        by_components.into_iter().filter(|(names, _)| is_told(names)).filter_map(of_names).collect();
    let q = benjamini_hochberg(&mechanisms.iter().map(|one| one.p).collect::<Vec<_>>());
    for (mechanism, q) in mechanisms.iter_mut().zip(q) {
        mechanism.q = q;
    }
    mechanisms.sort_by(|a, b| a.p.unwrap_or(1.0).total_cmp(&b.p.unwrap_or(1.0)).then_with(|| a.causes.cmp(&b.causes)));
    mechanisms
}
