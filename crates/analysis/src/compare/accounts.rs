//! What each run's time was spent on, read for the whole comparison at once.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_recording::{Bounds, Recording};
use pagelab_views::run::RunData;
use pagelab_views::selection::Selection;
use pagelab_views::view::budget::{self, BudgetView};
use pagelab_views::view::profile;
use pagelab_views::{measured_part, share_a_unit};

use crate::error::Result;
use crate::parallel;

/// The account of time and the profile of one run.
pub(super) struct Accounts {
    pub budget: BudgetView,
    /// Samples of the profile, and those whose innermost function is the one named.
    pub samples: u64,
    pub frames: BTreeMap<String, u64>,
    /// Where the time of each component was spent.
    pub places: Vec<budget::Place>,
}

/// What times are divided by: the operations of a run where every run counts them, else 1 for each run. A command that counts
/// nothing is one operation.
pub(super) fn per_operation(runs: &[&[&RunData]]) -> bool {
    let all = || runs.iter().copied().flatten().map(|run| run.window.operations);
    share_a_unit(all()) && !all().all(|count| count == Some(1.0))
}

/// What the kernels of the runs have in common to tell time by.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Kernels {
    /// Releases, where there are several.
    pub releases: BTreeSet<String>,
    /// Places that one of them has not: there, what they stand for shows in their callers. Empty for one kernel, whose runs may
    /// differ by the modules that are loaded.
    pub places_untold: BTreeSet<String>,
    /// Some recording does not say which places its kernel has.
    pub is_unknown: bool,
}

impl Kernels {
    /// Those of all runs.
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a RunData> + Clone) -> Self {
        let releases: BTreeSet<String> = runs.clone().filter_map(|run| run.manifest.kernel.clone()).collect();
        if releases.len() < 2 {
            return Self::default();
        }
        let mut kernels = Self { releases, ..Self::default() };
        for run in runs {
            let told = run.manifest.probes.iter().find_map(|probe| probe.extra.get(ANCHORS_ABSENT)?.as_array());
            kernels.is_unknown |= told.is_none();
            kernels
                .places_untold
                .extend(told.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)));
        }
        kernels
    }

    /// What is to be said of it.
    pub(super) fn said(&self) -> Option<String> {
        if self.releases.is_empty() {
            return None;
        }
        let releases = self.releases.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        Some(match (self.is_unknown, self.places_untold.len()) {
            (true, _) => format!(
                "the kernels differ ({releases}) and not every recording says which functions its kernel has: what one has inlined \
                 shows in the component of its caller there"
            ),
            (false, 0) => return None,
            (false, count) => format!(
                "the kernels differ ({releases}): functions that not all of them have tell nothing ({count}): their time counts with \
                 their callers'"
            ),
        })
    }
}

/// Key of a probe's entry in the manifest: places that the kernel has not.
const ANCHORS_ABSENT: &str = "anchors_absent";

impl Accounts {
    fn load(run: &RunData, bounds: &Bounds, places_untold: &BTreeSet<String>) -> Result<Self> {
        let recording = Recording::open(&run.dir)?;
        let span = bounds.of(&recording)?;
        let recording = recording.within(span);
        let all = Selection { top: Some(0), places_untold: places_untold.clone(), ..Selection::default() };
        let budget = budget::collect(&recording, &all)?.data;
        let places = budget::places(&recording, &all)?;
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
        Ok(Self { budget, samples, frames, places })
    }

    /// Those of a side, a few runs at a time.
    pub(super) fn of_side(runs: &[&RunData], bounds: &Bounds, places_untold: &BTreeSet<String>) -> Result<Vec<Self>> {
        parallel::map(runs, |run| Self::load(run, bounds, places_untold)).into_iter().collect()
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
