//! What a page shows of one recording alone.

use std::collections::BTreeMap;
use std::path::Path;

use pagelab_analysis::AnalysisError;
use pagelab_analysis::explain::{Explanation, explain};
use pagelab_recording::Recording;
use pagelab_views::faultmap::of_dir;
use pagelab_views::selection::Selection;
use pagelab_views::view::budget::{self, BudgetView};
use pagelab_views::view::summary::{self, SummaryView};
use serde::Serialize;

use crate::fault_map::{FaultGrid, grids};
use crate::flame::{Frame, tree};
use crate::pictures::stacks_of;

/// One recording: the documents of `explain`, `show summary` and `show budget`, and its pictures.
#[derive(Debug, Serialize)]
pub(crate) struct OneRecording {
    dir: String,
    explanation: Explanation,
    summary: SummaryView,
    budget: BudgetView,
    fault_map: Option<FaultGrid>,
    flame: Option<Frame>,
    notes: Vec<String>,
}

impl OneRecording {
    /// Reads a recording.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(dir: &Path) -> Result<Self, AnalysisError> {
        let recording = Recording::open(dir)?;
        let selection = Selection::default();
        let (summary, budget) = (summary::collect(&recording, &selection)?, budget::collect(&recording, &selection)?);
        let mut notes: Vec<String> = summary.notes.into_iter().chain(budget.notes).collect();
        let stacks = stacks_of(&recording, &mut notes)?;
        let [_, fault_map] = grids([None, of_dir(dir, None)?]);
        notes.sort();
        notes.dedup();
        Ok(Self {
            dir: dir.display().to_string(),
            explanation: explain(dir)?,
            summary: summary.data,
            budget: budget.data,
            fault_map,
            flame: tree([&BTreeMap::new(), &stacks], [0, 1]),
            notes,
        })
    }
}
