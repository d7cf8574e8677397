//! The block devices that the target worked on, and the one among them that figures of a device are of.
//!
//! The manifest has them with amounts that are estimates of what calls moved, and what was read may have been in the page cache. So an
//! amount counts as much as the kernel charged to the target's processes for storage, shared out as the calls were. Of those devices
//! that carry a part worth naming the busiest is the one that rules look at: a figure of any other device is somebody else's.

use std::collections::BTreeMap;

use pagelab_views::run::{MetricKey, RunData, RunMetric};
use serde::{Deserialize, Serialize};

/// Part of the greatest amount below which a device is next to unused.
const LEAST_PART: f64 = 0.05;
/// A call that asks for safety counts as so many bytes: what a small write with its journal costs.
const SYNC_BYTES: f64 = 65_536.0;

/// What of an entry of the manifest's `used` matters here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Entry {
    device: Option<String>,
    fs: Option<String>,
    mountpoint: Option<String>,
    read_bytes: u64,
    written_bytes: u64,
    syncs: u64,
}

/// The target's devices in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// It is known which they are: with a recording of before, or without BPF, it is not.
    pub are_known: bool,
    /// The one that figures of a device are of.
    pub main: Option<String>,
    /// What it is to the target: `ext4 at /data`.
    pub main_is: Option<String>,
    /// All that carry a part worth naming.
    pub names: Vec<String>,
}

impl Devices {
    /// Those of a run, with its metrics.
    pub(super) fn load(run: &RunData, metrics: &BTreeMap<MetricKey, RunMetric>) -> Self {
        let entries = run.manifest.extra.get("used").cloned().and_then(|used| serde_json::from_value(used).ok());
        entries.map_or_else(Self::default, |entries: Vec<Entry>| Self::of(&entries, metrics))
    }

    fn of(entries: &[Entry], metrics: &BTreeMap<MetricKey, RunMetric>) -> Self {
        let increase = |name: &str, instance: Option<&str>| metrics.get(&MetricKey::new(name, instance))?.events;
        let sum = |of: fn(&Entry) -> u64| entries.iter().map(of).sum::<u64>() as f64;
        // What a byte of calls stands for in bytes of storage, at most one.
        let scale = |charged: Option<f64>, called: f64| match charged {
            Some(charged) if called > 0.0 => (charged / called).min(1.0),
            _ => 1.0,
        };
        let read = scale(increase("target.io.read_bytes", None), sum(|one| one.read_bytes));
        let written = scale(increase("target.io.write_bytes", None), sum(|one| one.written_bytes));
        let mut amounts: BTreeMap<&str, f64> = BTreeMap::new();
        for one in entries {
            let Some(device) = &one.device else { continue };
            *amounts.entry(device).or_default() +=
                one.read_bytes as f64 * read + one.written_bytes as f64 * written + one.syncs as f64 * SYNC_BYTES;
        }
        let most = amounts.values().copied().fold(0.0, f64::max);
        amounts.retain(|_, amount| *amount >= LEAST_PART * most);
        let busy = |device: &str| increase("disk.busy_ns", Some(device)).unwrap_or(0.0);
        let order = |one: &(&&str, &f64), other: &(&&str, &f64)| {
            busy(one.0).total_cmp(&busy(other.0)).then(one.1.total_cmp(other.1)).then_with(|| other.0.cmp(one.0))
        };
        let main = amounts.iter().max_by(|one, other| order(one, other)).map(|(device, _)| (*device).to_owned());
        let main_is = main.as_deref().and_then(|main| words(entries, main));
        Self { are_known: true, main, main_is, names: amounts.into_keys().map(str::to_owned).collect() }
    }
}

/// What a device is to the target, by the entry with most bytes.
fn words(entries: &[Entry], device: &str) -> Option<String> {
    let of_device = entries.iter().filter(|one| one.device.as_deref() == Some(device));
    let one = of_device.max_by_key(|one| one.read_bytes + one.written_bytes + one.syncs)?;
    Some(match (&one.fs, &one.mountpoint) {
        (Some(fs), Some(at)) => format!("{fs} at {at}"),
        _ => "the device itself".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use pagelab_vocab::metrics::{MetricKind, Unit};

    use super::*;

    fn entry(device: Option<&str>, read_bytes: u64, written_bytes: u64, syncs: u64) -> Entry {
        let at = device.map(|device| format!("/{device}"));
        Entry {
            device: device.map(str::to_owned),
            fs: Some("ext4".to_owned()),
            mountpoint: at,
            read_bytes,
            written_bytes,
            syncs,
        }
    }

    fn metrics(rows: &[(&str, Option<&str>, f64)]) -> BTreeMap<MetricKey, RunMetric> {
        let counted = |events: f64| RunMetric {
            value: None,
            kind: MetricKind::Counter,
            unit: Unit::Count,
            per_operation: None,
            events: Some(events),
            resolution: None,
            note: None,
        };
        rows.iter().map(|(name, instance, events)| (MetricKey::new(name, *instance), counted(*events))).collect()
    }

    #[test]
    fn a_busier_disk_that_the_target_does_not_use_is_not_its_own() {
        let rows = [("disk.busy_ns", Some("sda"), 9e9), ("disk.busy_ns", Some("sdb"), 1e9)];
        let found = Devices::of(&[entry(Some("sdb"), 1 << 20, 0, 0), entry(None, 1 << 30, 0, 0)], &metrics(&rows));
        assert_eq!((found.main.as_deref(), found.names.len()), (Some("sdb"), 1));
        assert_eq!(found.main_is.as_deref(), Some("ext4 at /sdb"));
    }

    #[test]
    fn what_was_read_from_the_page_cache_makes_no_device_the_main_one() {
        // Libraries of the root file system, all cached; the data are written elsewhere.
        let entries = [entry(Some("sda"), 2 << 20, 0, 0), entry(Some("sdb"), 0, 1 << 20, 0)];
        let mut rows = vec![
            ("target.io.read_bytes", None, 0.0),
            ("target.io.write_bytes", None, 1_048_576.0),
            ("disk.busy_ns", Some("sda"), 9e9),
            ("disk.busy_ns", Some("sdb"), 1e9),
        ];
        assert_eq!(Devices::of(&entries, &metrics(&rows)).main.as_deref(), Some("sdb"));
        // Read from the disk, they are work of both, and the busier one is looked at.
        rows[0].2 = f64::from(2 << 20);
        assert_eq!(Devices::of(&entries, &metrics(&rows)).main.as_deref(), Some("sda"));
    }

    #[test]
    fn calls_for_safety_count_without_a_byte() {
        let entries = [entry(Some("sda"), 0, 4096, 0), entry(Some("sdb"), 0, 0, 100)];
        let found = Devices::of(&entries, &metrics(&[]));
        assert_eq!((found.main.as_deref(), found.names), (Some("sdb"), vec!["sdb".to_owned()]));
    }

    #[test]
    fn a_target_without_a_device_has_none_and_an_old_recording_does_not_know() {
        let found = Devices::of(&[entry(None, 1, 1, 1)], &metrics(&[]));
        assert!(found.are_known && found.main.is_none() && found.names.is_empty());
        assert!(!Devices::default().are_known);
    }
}
