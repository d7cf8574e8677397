//! Functions that time on CPUs was spent in, on both sides, per unit of work.
//!
//! A function's time in a run is the run's time on CPUs, which the kernel counts, times its share of the samples (those in the
//! function itself). The difference is tested as every metric is, in a family of its own.

use std::collections::BTreeSet;

use pagelab_views::run::RunData;

use super::accounts::{Accounts, per_operation};
use super::{Family, ProfileFrame};
use crate::stats::{benjamini_hochberg, welch};

/// Name of the family.
pub(super) const FAMILY: &str = "profile";

/// One run, per unit of work.
struct OfRun<'a> {
    accounts: &'a Accounts,
    /// Time on CPUs per unit of work, ns.
    run_ns: f64,
}

impl OfRun<'_> {
    fn share(&self, frame: &str) -> f64 {
        let own = self.accounts.frames.get(frame).copied().unwrap_or(0);
        own as f64 / self.accounts.samples.max(1) as f64
    }
}

/// The runs of a side; none unless every one was sampled and knows its time on CPUs.
fn side<'a>((runs, accounts): (&[&RunData], &'a [Accounts]), per_operation: bool) -> Option<Vec<OfRun<'a>>> {
    let of_run = |(run, accounts): (&&RunData, &'a Accounts)| {
        let units = if per_operation { accounts.budget.operations.or(run.window.operations)? } else { 1.0 };
        let run_ns = accounts.run_ns().filter(|_| accounts.samples > 0)? / units;
        Some(OfRun { accounts, run_ns })
    };
    runs.iter().zip(accounts).map(of_run).collect()
}

/// The functions of both sides, the largest difference first, and their family. Empty unless every run was sampled and knows its
/// time on CPUs.
pub(super) fn of_sides(
    base: (&[&RunData], &[Accounts]),
    test: (&[&RunData], &[Accounts]),
) -> (Vec<ProfileFrame>, Option<Family>) {
    let per_operation = per_operation(&[base.0, test.0]);
    let (Some(base), Some(test)) = (side(base, per_operation), side(test, per_operation)) else {
        return (Vec::new(), None);
    };
    if base.is_empty() || test.is_empty() {
        return (Vec::new(), None);
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let times = |side: &[OfRun<'_>]| side.iter().map(|run| run.run_ns).collect::<Vec<f64>>();
    let whole = mean(&times(&test)) - mean(&times(&base));
    let names: BTreeSet<&String> = base.iter().chain(&test).flat_map(|run| run.accounts.frames.keys()).collect();
    let mut frames: Vec<ProfileFrame> = Vec::with_capacity(names.len());
    for name in names {
        let ns = |side: &[OfRun<'_>]| side.iter().map(|run| run.run_ns * run.share(name)).collect::<Vec<f64>>();
        let shares = |side: &[OfRun<'_>]| side.iter().map(|run| run.share(name)).collect::<Vec<f64>>();
        let (base_ns, test_ns) = (ns(&base), ns(&test));
        let difference = mean(&test_ns) - mean(&base_ns);
        frames.push(ProfileFrame {
            frame: name.clone(),
            base_ns_per_op: Some(mean(&base_ns)),
            test_ns_per_op: Some(mean(&test_ns)),
            delta_ns_per_op: Some(difference),
            explained_pct: (whole != 0.0).then(|| 100.0 * difference / whole),
            base_share: Some(mean(&shares(&base))),
            test_share: Some(mean(&shares(&test))),
            p: welch(&base_ns, &test_ns).ok().map(|tested| tested.p),
            q: None,
            significant: None,
        });
    }
    let p: Vec<Option<f64>> = frames.iter().map(|frame| frame.p).collect();
    for (frame, q) in frames.iter_mut().zip(benjamini_hochberg(&p)) {
        frame.q = q;
    }
    let size = |frame: &ProfileFrame| frame.delta_ns_per_op.map_or(0.0, f64::abs);
    frames.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.frame.cmp(&b.frame)));
    let family = Family { name: FAMILY.to_owned(), size: p.iter().flatten().count(), level: 0.0 };
    (frames, Some(family))
}
