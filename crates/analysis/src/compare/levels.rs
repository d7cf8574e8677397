//! One error for all that a comparison tests.
//!
//! The primary metric was named before the runs and is tested at the comparison's level. What else is tested comes in families: the
//! other metrics, the components of the account of time, their sums by cause, the functions of the profile, the quantiles of latency.
//! Each alone keeps its rate of false discoveries at the level that it is given. Given the whole level, five of them would find something in up to a
//! quarter of all comparisons between sides that are alike. So they stand behind the primary metric (a gatekeeper, as in Dmitrienko
//! and Tamhane, "Gatekeeping procedures with clinical trial applications", Pharmaceutical Statistics 6, 2007): if it differs, the
//! error is spent and where it comes from may be looked for at the whole level; if it does not, each family has a small part. Between
//! sides that are alike all together then find something hardly more often than the primary metric alone. What differs by more
//! than chance could, such as 512 times as many faults, is found at any level.

use super::{BudgetComparison, Family, Primary, ProfileFrame, Verdict};

/// The part of the level that a family has where the primary metric does not differ.
const PART: f64 = 1.0 / 25.0;
/// The part where there is no primary metric to spend the error on, and up to four families.
const PART_ALONE: f64 = 1.0 / 4.0;

/// The level of every family beside the primary metric.
pub(super) fn of_families(primary: Option<&Primary>, alpha: f64) -> f64 {
    after(primary.map(|primary| primary.verdict), alpha)
}

fn after(verdict: Option<Verdict>, alpha: f64) -> f64 {
    match verdict {
        Some(Verdict::Worse | Verdict::Better | Verdict::Different) => alpha,
        Some(Verdict::NoDifference) => alpha * PART,
        Some(Verdict::NotTested) | None => alpha * PART_ALONE,
    }
}

/// Decides on the components, the mechanisms and the functions; gives the families of the first two.
pub(super) fn decide(budget: Option<&mut BudgetComparison>, profile: &mut [ProfileFrame], level: f64) -> Vec<Family> {
    for frame in profile {
        frame.significant = frame.q.map(|q| q <= level);
    }
    let Some(budget) = budget else { return Vec::new() };
    for component in &mut budget.components {
        component.significant = component.q.map(|q| q <= level);
    }
    for mechanism in &mut budget.mechanisms {
        mechanism.significant = mechanism.q.map(|q| q <= level);
    }
    let family = |name: &str, size| Family { name: name.to_owned(), size, level };
    let components = budget.components.iter().filter(|component| component.q.is_some()).count();
    let mechanisms = budget.mechanisms.iter().filter(|mechanism| mechanism.q.is_some()).count();
    vec![family("budget", components), family("mechanisms", mechanisms)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds on false findings in docs/trend.md and in tests/stats_false_findings.rs rest on these parts.
    #[test]
    fn families_have_a_part_of_the_level_by_what_the_primary_metric_says() {
        for (verdict, part) in [
            (Some(Verdict::Worse), 1.0),
            (Some(Verdict::Better), 1.0),
            (Some(Verdict::Different), 1.0),
            (Some(Verdict::NoDifference), 0.04),
            (Some(Verdict::NotTested), 0.25),
            (None, 0.25),
        ] {
            let level = after(verdict, 0.05);
            assert!((level - 0.05 * part).abs() < 1e-12, "{verdict:?}: {level}");
        }
    }
}
