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
use schemars::JsonSchema;
use serde::Serialize;

use crate::fault_map::{FaultGrid, grids};
use crate::flame::{Frame, tree};
use crate::off_cpu::OffCpu;
use crate::over_time::{OverTime, drop_flat};
use crate::page_sizes::PageSizes;
use crate::pictures::stacks_of;

/// Rows of the lists that are not drawn.
const LISTED: usize = 20;

/// One recording: the documents of `explain`, `show summary` and `show budget`, and its pictures.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OneRecording {
    dir: String,
    explanation: Explanation,
    summary: SummaryView,
    budget: BudgetView,
    fault_map: Option<FaultGrid>,
    flame: Option<Frame>,
    off_cpu: Option<OffCpu>,
    over_time: OverTime,
    page_sizes: Option<PageSizes>,
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
        // All components: the picture of the waits lists the short ones, too.
        let whole = Selection { top: Some(0), ..Selection::default() };
        let (summary, mut budget) = (summary::collect(&recording, &selection)?, budget::collect(&recording, &whole)?);
        budget.data.kernel.truncate(LISTED);
        budget.data.unmatched.truncate(LISTED);
        let mut notes: Vec<String> = summary.notes.into_iter().chain(budget.notes).collect();
        let stacks = stacks_of(&recording, &mut notes)?;
        let off_cpu = OffCpu::of(&recording, &mut notes)?;
        let mut over_time = OverTime::of(dir, &mut notes)?;
        drop_flat([&mut over_time.series]);
        let page_sizes = PageSizes::of(&recording, &mut notes)?;
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
            off_cpu,
            over_time,
            page_sizes,
            notes,
        })
    }
}
