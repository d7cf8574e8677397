//! What a page draws from the recordings of a comparison.

use std::collections::BTreeMap;
use std::path::Path;

use pagelab_analysis::AnalysisError;
use pagelab_analysis::compare::{Comparison, SideRuns};
use pagelab_analysis::faultmap::of_comparison;
use pagelab_interop::folded::{Weighed, fold};
use pagelab_recording::Recording;
use pagelab_views::read::Tasks;
use pagelab_views::selection::Selection;
use serde::Serialize;

use crate::fault_map::{FaultGrid, grids};
use crate::flame::{Frame, tree};

/// The pictures of one comparison.
#[derive(Debug, Serialize)]
pub(crate) struct Pictures {
    /// Address against time, base and test.
    fault_maps: [Option<FaultGrid>; 2],
    /// Stacks on CPUs of both sides, the outermost frame first.
    flame: Option<Frame>,
    /// What a reader of them must know.
    notes: Vec<String>,
}

impl Pictures {
    /// Reads the recordings of a comparison.
    ///
    /// # Errors
    /// A recording cannot be read.
    pub(crate) fn of(comparison: &Comparison) -> Result<Self, AnalysisError> {
        let fault_maps = grids(of_comparison(comparison)?);
        let mut notes = Vec::new();
        let (base, base_runs) = stacks(&comparison.base, &mut notes)?;
        let (test, test_runs) = stacks(&comparison.test, &mut notes)?;
        notes.sort();
        notes.dedup();
        Ok(Self { fault_maps, flame: tree([&base, &test], [base_runs, test_runs]), notes })
    }
}

/// The stacks of all runs of a side that count, below the names of their programs.
fn stacks(side: &SideRuns, notes: &mut Vec<String>) -> Result<(BTreeMap<String, u64>, usize), AnalysisError> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut runs = 0;
    for run in side.runs.iter().filter(|run| run.excluded.is_none()) {
        runs += 1;
        for (stack, weight) in stacks_of(&Recording::open(Path::new(&run.dir))?, notes)? {
            let sum = sums.entry(stack).or_default();
            *sum = sum.saturating_add(weight);
        }
    }
    Ok((sums, runs))
}

/// The stacks of the profile of one recording.
pub(crate) fn stacks_of(recording: &Recording, notes: &mut Vec<String>) -> Result<BTreeMap<String, u64>, AnalysisError> {
    let tasks = Tasks::load(recording, &Selection::default(), notes)?;
    let root = |task_id, ts| Some(tasks.get(task_id)?.comm_at(ts).unwrap_or("[unknown]").to_owned());
    Ok(fold(recording, Weighed::Samples, root, notes)?.stacks)
}
