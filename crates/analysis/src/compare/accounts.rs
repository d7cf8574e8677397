//! What each run's time was spent on, read for the whole comparison at once.

use std::collections::BTreeMap;

use pagelab_recording::{Bounds, Recording};
use pagelab_views::measured_part;
use pagelab_views::run::RunData;
use pagelab_views::selection::Selection;
use pagelab_views::view::budget::{self, BudgetView};
use pagelab_views::view::profile;

use crate::error::Result;
use crate::parallel;

/// The account of time and the profile of one run.
pub(super) struct Accounts {
    pub budget: BudgetView,
    /// Samples of the profile, and those whose innermost function is the one named.
    pub samples: u64,
    pub frames: BTreeMap<String, u64>,
}

/// What times are divided by: the operations of a run where every run counts them, else 1 for each run. A command that counts
/// nothing is one operation.
pub(super) fn per_operation(runs: &[&[&RunData]]) -> bool {
    let all = || runs.iter().copied().flatten().map(|run| run.window.operations);
    all().all(|operations| operations.is_some_and(|count| count > 0.0)) && !all().all(|count| count == Some(1.0))
}

impl Accounts {
    fn load(run: &RunData, bounds: &Bounds) -> Result<Self> {
        let recording = Recording::open(&run.dir)?;
        let span = bounds.of(&recording)?;
        let recording = recording.within(span);
        let all = Selection { top: Some(0), ..Selection::default() };
        let budget = budget::collect(&recording, &all)?.data;
        let measured = measured_part(&recording).filter(|_| budget.window_of == "measured");
        let recording = measured.unwrap_or(recording);
        let mut frames = BTreeMap::new();
        let mut samples = 0;
        if budget.samples > 0 {
            let profile = profile::collect(&recording, &all)?.data;
            samples = profile.samples_selected;
            for symbol in profile.symbols.iter().filter(|symbol| symbol.own.samples > 0) {
                *frames.entry(frame_name(symbol)).or_default() += symbol.own.samples;
            }
        }
        Ok(Self { budget, samples, frames })
    }

    /// Those of a side, a few runs at a time.
    pub(super) fn of_side(runs: &[&RunData], bounds: &Bounds) -> Result<Vec<Self>> {
        parallel::map(runs, |run| Self::load(run, bounds)).into_iter().collect()
    }

    /// Time on CPUs, ns; null where the states of tasks were not recorded.
    pub(super) fn run_ns(&self) -> Option<f64> {
        let (run_ns, kernel_run_ns) = (self.budget.run_ns?, self.budget.kernel_run_ns?);
        Some(run_ns.min(kernel_run_ns.max(1)) as f64)
    }
}

/// The function; of a module without symbols the module.
fn frame_name(symbol: &profile::Symbol) -> String {
    match (&symbol.symbol, &symbol.module) {
        (Some(name), _) if symbol.kernel => format!("{name} [kernel]"),
        (Some(name), _) => name.clone(),
        (None, Some(module)) => format!("[no symbol] {module}"),
        (None, None) => "[no symbol]".to_owned(),
    }
}
