//! The table `runs`: one row per recording, from the manifests.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use pagelab_recording::set::RecordingRef;
use pagelab_recording::{Manifest, Recording};

use crate::error::{QueryError, Result};

/// Name of the table.
pub(crate) const RUNS: &str = "runs";

/// One row per recording, in the order given.
pub(crate) fn runs(recordings: &[RecordingRef]) -> Result<RecordBatch> {
    let mut manifests = Vec::with_capacity(recordings.len());
    for recording in recordings {
        manifests.push(Recording::open(&recording.dir)?.manifest().clone());
    }
    let text = |get: &dyn Fn(&RecordingRef, &Manifest) -> Option<String>| -> ArrayRef {
        Arc::new(recordings.iter().zip(&manifests).map(|(r, m)| get(r, m)).collect::<StringArray>())
    };
    let number = |get: &dyn Fn(&RecordingRef, &Manifest) -> Option<i64>| -> ArrayRef {
        Arc::new(recordings.iter().zip(&manifests).map(|(r, m)| get(r, m)).collect::<Int64Array>())
    };
    let small = |value: Option<u64>| value.and_then(|v| i64::try_from(v).ok());
    let complete: BooleanArray = manifests.iter().map(|m| Some(m.complete)).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("host", text(&|r, _| r.host.clone())),
        ("variant", text(&|r, _| r.variant.clone())),
        ("run", number(&|r, _| small(r.run))),
        ("dir", text(&|r, _| Some(r.dir.display().to_string()))),
        ("label", text(&|_, m| m.label.clone())),
        ("round", number(&|_, m| small(m.round))),
        ("position", number(&|_, m| small(m.position))),
        ("kernel", text(&|_, m| m.kernel.clone())),
        ("arch", text(&|_, m| m.arch.clone())),
        ("page_size_bytes", number(&|_, m| small(m.page_size_bytes))),
        ("cpus", number(&|_, m| small(m.cpus))),
        ("virt", text(&|_, m| m.virt.clone())),
        ("boot_id", text(&|_, m| m.boot_id.clone())),
        ("command", text(&|_, m| m.command.as_ref().map(|words| words.join(" ")))),
        ("exit_code", number(&|_, m| m.exit.as_ref()?.code.map(i64::from))),
        ("exit_signal", number(&|_, m| m.exit.as_ref()?.signal.map(i64::from))),
        ("complete", Arc::new(complete)),
        ("clock_start_ns", number(&|_, m| Some(m.clock.start_ns))),
        ("realtime_at_start_ns", number(&|_, m| m.clock.realtime_at_start_ns)),
        ("realtime_at_end_ns", number(&|_, m| m.clock.realtime_at_end_ns)),
        ("measured_start_ns", number(&|_, m| m.measured.as_ref()?.start_ns)),
        ("measured_end_ns", number(&|_, m| m.measured.as_ref()?.end_ns)),
        ("operations", number(&|_, m| small(m.measured.as_ref()?.operations))),
        ("pagelab_version", text(&|_, m| Some(m.pagelab_version.clone()))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .map_err(|e| QueryError::Unanswered(e.to_string()))
}
