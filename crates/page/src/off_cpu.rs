//! The stacks of the time off CPUs: where tasks waited, and for what.
//!
//! The outermost frame is the component of the account (`off.read`, `off.timer`), because it answers first what the program waited for, and
//! because its length can be read again in the bars of the waits beside it. Below it come the name of the task and the stack.
//!
//! Waits for others (of a thread of a pool for work, of a server for its clients) are often longer than all waits for the
//! system together, and no loss. They are there, so that the picture holds all of the time, but apart: they lie on the right, the page
//! draws them pale and can leave them out, and they do not push short frames of the other waits out of the document.

use std::collections::BTreeMap;
use std::path::Path;

use pagelab_analysis::AnalysisError;
use pagelab_analysis::compare::SideRuns;
use pagelab_interop::folded::fold_off;
use pagelab_recording::Recording;
use pagelab_views::Result;
use pagelab_views::selection::Selection;
use pagelab_views::view::budget::{OffSource, why_no_off_stacks};
use pagelab_vocab::budget::component_of;
use schemars::JsonSchema;
use serde::Serialize;

use crate::flame::{Frame, add_stacks, grouped};
use crate::typical::counted;

/// The time off CPUs until tasks were woken, by stack.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OffCpu {
    /// Stream that the stacks are from: `sched` (every wait, with the stacks of kernel and program) or `waits` (sums of waits,
    /// divided by the kernel stacks of some).
    stream: OffSource,
    /// Outermost frames that are waits for others.
    passive: Vec<String>,
    /// All of the time; the frames below are components of the account.
    root: Frame,
}

type Stacks = BTreeMap<String, u64>;

impl OffCpu {
    /// Reads a recording; none where waits were not recorded, with a note that says why, and where there were none.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(recording: &Recording, notes: &mut Vec<String>) -> Result<Option<Self>> {
        let Some(source) = OffSource::of(recording)?.first().copied() else {
            notes.push(format!("stacks of waits are not drawn: {}", why_no_off_stacks(recording)));
            return Ok(None);
        };
        let stacks = fold_off(recording, source, &Selection::default(), notes)?.stacks;
        Ok(Self::new(source, [&Stacks::new(), &stacks], [0, 1]))
    }

    /// Reads the runs of both sides that count, from the stream that tells more of those that each of these runs has.
    ///
    /// # Errors
    /// A recording cannot be read.
    pub(crate) fn of_sides(
        base: &SideRuns,
        test: &SideRuns,
        notes: &mut Vec<String>,
    ) -> Result<Option<Self>, AnalysisError> {
        let sides = [("base", having(base)?), ("test", having(test)?)];
        for ((name, (runs, why)), side) in sides.iter().zip([base, test]) {
            if runs.is_empty() {
                let why = why.clone().unwrap_or_else(|| format!("no run of {} counts", side.label));
                notes.push(format!("stacks of waits are not drawn: no run of {name} has them: {why}"));
                return Ok(None);
            }
        }
        let all = || sides.iter().flat_map(|(_, (runs, _))| runs);
        let is_had = |source: &OffSource| all().all(|(_, sources)| sources.contains(source));
        let Some(source) = [OffSource::Switches, OffSource::Sums].into_iter().find(is_had) else {
            notes.push(
                "stacks of waits are not drawn: some runs have those of sched alone, others those of waits".to_owned(),
            );
            return Ok(None);
        };
        let [(_, (base, _)), (_, (test, _))] = &sides;
        let [base_stacks, test_stacks] = [summed(base, source, notes)?, summed(test, source, notes)?];
        Ok(Self::new(source, [&base_stacks, &test_stacks], [base.len(), test.len()]))
    }

    fn new(source: OffSource, stacks: [&Stacks; 2], runs: [usize; 2]) -> Option<Self> {
        let is_passive = |name: &str| component_of(name).is_some_and(|component| !component.is_active);
        let root = grouped(stacks, runs, is_passive)?;
        let passive = root.children().map(Frame::name).filter(|name| is_passive(name)).map(str::to_owned).collect();
        Some(Self { stream: source, passive, root })
    }
}

/// Runs with the sources that each has.
type Having = Vec<(Recording, Vec<OffSource>)>;

/// The runs that count and have stacks of waits, and why the first one that has none lacks them.
fn having(side: &SideRuns) -> Result<(Having, Option<String>), AnalysisError> {
    let (mut runs, mut why) = (Vec::new(), None);
    for run in counted(side) {
        let recording = Recording::open(Path::new(&run.dir))?;
        let sources = OffSource::of(&recording)?;
        if sources.is_empty() {
            why.get_or_insert_with(|| why_no_off_stacks(&recording));
        } else {
            runs.push((recording, sources));
        }
    }
    Ok((runs, why))
}

fn summed(runs: &Having, source: OffSource, notes: &mut Vec<String>) -> Result<Stacks, AnalysisError> {
    let mut sums = Stacks::new();
    for (recording, _) in runs {
        add_stacks(&mut sums, fold_off(recording, source, &Selection::default(), notes)?.stacks);
    }
    Ok(sums)
}
