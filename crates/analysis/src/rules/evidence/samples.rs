//! Where in the kernel a profile found the program.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pagelab_recording::Recording;
use pagelab_recording::tables::{FramesRow, SamplesRow, StacksRow};
use pagelab_vocab::mechanisms::FAULT_ENTRIES;

use crate::error::Result;

/// Samples of a run, by where they found it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct KernelSamples {
    /// All of them, those in user mode too.
    pub all: f64,
    /// In the kernel.
    pub kernel: f64,
    /// Of those, the ones that found it serving a page fault.
    pub in_faults: f64,
}

/// Counts the samples of the profile in `window`; `None` without samples in it.
pub(super) fn load(recording: &Recording, window: Range<i64>) -> Result<Option<KernelSamples>> {
    let mut found: BTreeMap<u64, f64> = BTreeMap::new();
    let mut all = 0.0;
    recording.for_each::<SamplesRow>(|row| {
        if !window.contains(&row.ts) {
            return;
        }
        all += 1.0;
        if let Some(stack) = row.kstack_id {
            *found.entry(stack).or_default() += 1.0;
        }
    })?;
    if all < 1.0 {
        return Ok(None);
    }
    let mut entries: BTreeSet<u64> = BTreeSet::new();
    recording.for_each::<FramesRow>(|row| {
        if row.kernel && row.symbol.is_some_and(|symbol| FAULT_ENTRIES.contains(&symbol)) {
            entries.insert(row.frame_id);
        }
    })?;
    let mut in_faults: BTreeSet<u64> = BTreeSet::new();
    recording.for_each::<StacksRow>(|row| {
        if row.frame_ids.iter().any(|frame| entries.contains(frame)) {
            in_faults.insert(row.stack_id);
        }
    })?;
    let sum = |of: &dyn Fn(&u64) -> bool| found.iter().filter(|(stack, _)| of(stack)).map(|(_, n)| n).sum();
    Ok(Some(KernelSamples { all, kernel: sum(&|_| true), in_faults: sum(&|stack| in_faults.contains(stack)) }))
}
