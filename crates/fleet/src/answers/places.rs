//! Recordings to look at: of each side one that is like its side.

use std::collections::BTreeMap;

use crate::hosts::RunValue;
use crate::rollup::{MetricsRow, RunsRow, Text};

/// Where the recording is whose value is nearest to the mean of its side; none if no path is known.
pub(super) fn nearest_to(
    mean: Option<f64>,
    rows: &[(&MetricsRow, RunValue)],
    runs: &BTreeMap<Text, RunsRow>,
) -> Option<String> {
    let mean = mean?;
    let distance = |value: &RunValue| value.finite().map(|value| (value - mean).abs());
    let with_path = rows.iter().filter_map(|(row, value)| {
        let path = runs.get(row.recording_id.as_ref()?)?.path.as_deref()?;
        Some((distance(value)?, path))
    });
    with_path.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1))).map(|(_, path)| path.to_owned())
}
