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
use schemars::JsonSchema;
use serde::Serialize;

use crate::fault_map::{FaultGrid, grids};
use crate::flame::{Frame, add_stacks, tree};
use crate::off_cpu::OffCpu;
use crate::over_time::{OtherRun, OverTime, drop_flat};
use crate::page_sizes::PageSizes;
use crate::recorders::Recorders;
use crate::typical::{counted, drawn};

/// The pictures of one comparison.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Pictures {
    /// Address against time, base and test.
    fault_maps: [Option<FaultGrid>; 2],
    /// Stacks on CPUs of both sides, the outermost frame first.
    flame: Option<Frame>,
    /// Stacks off CPUs of both sides.
    off_cpu: Option<OffCpu>,
    /// The typical run of each side against time.
    over_time: [Option<OverTime>; 2],
    /// Other runs of each side against time, in the order in which they were made.
    other_runs: [Vec<OtherRun>; 2],
    /// Page sizes of the typical run of each side.
    page_sizes: [Option<PageSizes>; 2],
    /// Hosts and recorders, base and test.
    recorders: [Recorders; 2],
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
        let unsampled: Vec<&str> = [("base", base_runs), ("test", test_runs)]
            .iter()
            .filter(|(_, runs)| *runs == 0)
            .map(|(side, _)| *side)
            .collect();
        let flame = match unsampled.as_slice() {
            [] => tree([&base, &test], [base_runs, test_runs]),
            [_, _] => None,
            [side, ..] => {
                notes.push(format!("stacks are not drawn: no run of {side} has samples of a clock"));
                None
            }
        };
        let off_cpu = OffCpu::of_sides(&comparison.base, &comparison.test, &mut notes)?;
        let [base_runs, test_runs] = [runs(&comparison.base, &mut notes)?, runs(&comparison.test, &mut notes)?];
        let mut over_time = [base_runs.typical, test_runs.typical];
        let mut other_runs = [base_runs.others, test_runs.others];
        let others = other_runs.iter_mut().flatten().map(|run| &mut run.series);
        drop_flat(over_time.iter_mut().flatten().map(|run| &mut run.series).chain(others));
        notes.sort();
        notes.dedup();
        let recorders = [Recorders::of(&comparison.base)?, Recorders::of(&comparison.test)?];
        let page_sizes = [base_runs.page_sizes, test_runs.page_sizes];
        Ok(Self { fault_maps, flame, off_cpu, over_time, other_runs, page_sizes, recorders, notes })
    }
}

/// What is drawn of single runs of a side.
#[derive(Default)]
struct Runs {
    typical: Option<OverTime>,
    others: Vec<OtherRun>,
    page_sizes: Option<PageSizes>,
}

fn runs(side: &SideRuns, notes: &mut Vec<String>) -> Result<Runs, AnalysisError> {
    let runs = drawn(side);
    let Some((typical, others)) = runs.split_first() else { return Ok(Runs::default()) };
    let dir = Path::new(&typical.dir);
    Ok(Runs {
        typical: Some(OverTime::of(dir, notes)?),
        others: others.iter().map(|run| OtherRun::of(run)).collect::<Result<_, _>>()?,
        page_sizes: PageSizes::of(&Recording::open(dir)?, notes)?,
    })
}

/// The stacks of all runs of a side that count and were sampled, below the names of their programs, and how many runs those are.
fn stacks(side: &SideRuns, notes: &mut Vec<String>) -> Result<(BTreeMap<String, u64>, usize), AnalysisError> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut runs = 0;
    for run in counted(side) {
        let folded = stacks_of(&Recording::open(Path::new(&run.dir))?, notes)?;
        if folded.is_empty() {
            continue;
        }
        runs += 1;
        add_stacks(&mut sums, folded);
    }
    Ok((sums, runs))
}

/// The stacks of the profile of one recording, in ns; none where something else than a clock was sampled.
pub(crate) fn stacks_of(
    recording: &Recording,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, u64>, AnalysisError> {
    let tasks = Tasks::load(recording, &Selection::default(), notes)?;
    let root = |task_id, ts| Some(tasks.get(task_id)?.comm_at(ts).unwrap_or("[unknown]").to_owned());
    let folded = fold(recording, Weighed::Samples, root, notes)?;
    if !folded.stacks.is_empty() && folded.unit != "ns" {
        notes.push(format!("stacks that count {} and not time are not drawn", folded.unit));
        return Ok(BTreeMap::new());
    }
    Ok(folded.stacks)
}
