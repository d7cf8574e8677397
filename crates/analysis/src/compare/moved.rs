//! What rose where the whole shows no difference.
//!
//! The primary metric is tested at the comparison's level. Where it shows nothing, mechanisms and components are tested at a small
//! part of that (`levels`), so that what is found there is no more often chance. What rises beyond doubt is then looked at like a
//! loss: its causes are named, as parts of that rise, and the verdict on the whole stays as it is.

use pagelab_vocab::causes::{CauseDef, causes};

use super::{BudgetComparison, Comparison, Verdict};
use crate::rules::SideName;
use crate::rules::evidence::is_of;

/// Least part of the base's time that a rise is to have to be worth a word.
const LEAST_PART: f64 = 0.02;

/// Components whose time differs beyond doubt, on the side where they take longer.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// The side on which they take longer.
    pub slower: SideName,
    /// By how much, ns per unit of work.
    pub ns: f64,
    /// The causes that show in some of them.
    pub causes: Vec<&'static str>,
    /// Their names; one that ends in a dot stands for all below it.
    pub components: Vec<String>,
}

impl Moved {
    /// That of a comparison whose primary metric shows no difference; the side on which more has risen.
    pub(crate) fn of(comparison: &Comparison) -> Option<Self> {
        let verdict = comparison.primary.as_ref()?.verdict;
        let budget = comparison.budget.as_ref().filter(|budget| budget.intervals_from == "runs")?;
        if verdict != Verdict::NoDifference {
            return None;
        }
        let sides = [SideName::Test, SideName::Base].map(|side| Self::on(budget, side));
        let most = sides.into_iter().flatten().reduce(|a, b| if b.ns > a.ns { b } else { a });
        most.filter(|moved| is_worth_a_word(moved.ns, budget.base_ns))
    }

    fn on(budget: &BudgetComparison, slower: SideName) -> Option<Self> {
        let sign = sign_of(slower);
        let mut components = Vec::new();
        for one in &budget.mechanisms {
            if one.significant == Some(true) && sign * one.difference_ns > 0.0 {
                components.extend(one.components.iter().cloned());
            }
        }
        for one in &budget.components {
            if one.significant == Some(true) && one.difference_ns.is_some_and(|ns| sign * ns > 0.0) {
                components.push(one.component.clone());
            }
        }
        components.sort();
        components.dedup();
        let names: Vec<&str> = components.iter().map(String::as_str).collect();
        let of_them = || budget.components.iter().filter(|one| is_of(&one.component, &names));
        let ns = sign * of_them().filter_map(|one| one.difference_ns).sum::<f64>();
        let shows_there = |def: &&CauseDef| of_them().any(|one| is_of(&one.component, def.components));
        let causes = causes().filter(shows_there).map(|def| def.id).collect();
        (ns > 0.0).then_some(Self { slower, ns, causes, components })
    }
}

/// Whether a rise of components is large enough beside the time of the base.
fn is_worth_a_word(rise_ns: f64, base_ns: f64) -> bool {
    rise_ns >= LEAST_PART * base_ns
}

/// 1 where the test side is the slower one: differences are test less base.
pub(crate) fn sign_of(slower: SideName) -> f64 {
    match slower {
        SideName::Test => 1.0,
        SideName::Base => -1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_of_a_fiftieth_is_worth_a_word() {
        assert!(is_worth_a_word(2.1e7, 1e9) && is_worth_a_word(2.0e7, 1e9));
        assert!(!is_worth_a_word(1.9e7, 1e9));
    }
}
