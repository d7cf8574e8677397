//! `used.*`: what the recorder saw of the files that the target works on, which the manifest has by device.

use pagelab_recording::Manifest;
use pagelab_vocab::metrics::Unit;
use serde::Deserialize;

use super::Metrics;
use crate::run::{MetricKey, RunMetric};
use crate::window::Window;

/// What of an entry of the manifest's `used` is counted.
#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    syncs: u64,
}

/// The counts of a whole recording: of a load with what it did before it measured.
pub(super) fn collect(manifest: &Manifest, window: &Window) -> Metrics {
    let used = manifest.extra.get("used").filter(|_| !window.is_empty());
    let Some(entries) = used.and_then(|used| Vec::<Entry>::deserialize(used).ok()) else { return Metrics::new() };
    let syncs = entries.iter().map(|one| one.syncs as f64).sum();
    [(MetricKey::new("used.syncs", None), RunMetric::counted(syncs, Unit::Count, window))].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_all_devices_are_counted_and_a_recording_of_before_counts_none() {
        let source = crate::window::WindowSource::Command;
        let window = Window { start_ns: 0, end_ns: 2_000_000_000, operations: Some(4.0), source };
        let mut manifest = Manifest::default();
        assert!(collect(&manifest, &window).is_empty());
        let used = serde_json::json!([{"device": "vda", "syncs": 3}, {"device": null, "syncs": 5}, {"device": "vdb"}]);
        manifest.extra.insert("used".to_owned(), used);
        let found = collect(&manifest, &window);
        let syncs = &found[&MetricKey::new("used.syncs", None)];
        assert_eq!((syncs.events, syncs.value, syncs.per_operation), (Some(8.0), Some(4.0), Some(2.0)));
    }
}
