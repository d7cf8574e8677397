//! `show DIR block`: requests of the block layer per device and operation: how many, how large, how long in the queue
//! and in the device.

mod heatmap;

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::BlockIosRow;
use pagelab_vocab::streams::Stream;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::read::{self, Tasks, device};
use crate::selection::{Selection, cut};

pub use heatmap::{DeviceMap, of_devices};

/// How long something took, over many requests.
#[derive(Debug, Default, Serialize)]
pub struct Times {
    /// Requests whose time is known.
    pub count: u64,
    /// Mean, ns; null if there is none.
    pub mean_ns: Option<f64>,
    /// Median, ns.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<u64>,
    /// The longest, ns.
    pub max_ns: Option<u64>,
}

/// Requests whose size is between this power of two and the next.
#[derive(Debug, Serialize)]
pub struct Size {
    /// The lower power of two, bytes.
    pub low_bytes: u64,
    /// Requests.
    pub count: u64,
}

/// Requests of one device and operation.
#[derive(Debug, Serialize)]
pub struct Group {
    /// Device, as `major:minor`.
    pub device: String,
    /// Null if it was not recorded.
    pub device_name: Option<String>,
    /// Operation, such as `read`.
    pub op: String,
    /// Requests.
    pub count: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// From the first issue to the last completion of this device, over all operations.
    pub requests_per_second: Option<f64>,
    /// Requests that a recorded task submitted.
    pub by_tasks: u64,
    /// Requests that others were merged into.
    pub merged_requests: u64,
    /// Requests merged into them.
    pub merged: u64,
    /// Requests that completed with an error.
    pub failed: u64,
    /// Issued and never completed.
    pub unfinished: u64,
    /// Time in the queue, before the issue to the device.
    pub queue: Times,
    /// Time in the device, from issue to completion.
    pub device_time: Times,
    /// Requests by size.
    pub sizes: Vec<Size>,
}

impl Group {
    /// What people call the device.
    pub fn title(&self) -> String {
        self.device_name.as_ref().unwrap_or(&self.device).clone()
    }
}

/// Requests of the block layer, one row per device and operation.
#[derive(Debug, Serialize)]
pub struct BlockView {
    /// Requests selected.
    pub requests: u64,
    /// Bytes of the requests selected.
    pub bytes: u64,
    /// Requests that the probe lost; null if it does not say.
    pub lost: Option<u64>,
    /// Rows, ranked.
    pub groups: Vec<Group>,
    /// Rows before the list was cut.
    pub groups_total: usize,
}

/// What is collected of one device and operation.
#[derive(Debug, Default)]
struct Collected {
    count: u64,
    bytes: u64,
    by_tasks: u64,
    merged_requests: u64,
    merged: u64,
    failed: u64,
    unfinished: u64,
    queue_ns: Vec<u64>,
    device_ns: Vec<u64>,
    sizes: BTreeMap<u64, u64>,
}

/// First issue and last completion on a device.
type Span = (i64, i64);

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<BlockView>> {
    let sort = selection.sort_by(&["bytes", "count", "queue", "device"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let mut found: BTreeMap<(u64, String), Collected> = BTreeMap::new();
    let mut spans: BTreeMap<u64, Span> = BTreeMap::new();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut in_recording = 0_u64;
    read::each::<BlockIosRow>(recording, &mut notes, |row| {
        in_recording += 1;
        let wanted = !selection.by_task() || row.task_id.is_some_and(|task| tasks.wants(selection, task, row.ts));
        if wanted {
            let end = row.ts.saturating_add(row.dur.unwrap_or(0));
            let span = spans.entry(row.dev).or_insert((row.ts, end));
            *span = (span.0.min(row.ts), span.1.max(end));
            found.entry((row.dev, row.op.to_owned())).or_default().add(&row);
            if let Some(name) = row.device {
                names.entry(row.dev).or_insert_with(|| name.to_owned());
            }
        }
    })?;
    read::lost(recording, Stream::Block, &mut notes)?;
    if in_recording == 0 {
        absence::none_recorded(recording, Stream::Block, "block requests", &mut notes)?;
    } else if found.is_empty() {
        notes.push(format!(
            "none of the {in_recording} requests was submitted by the tasks selected; what a task has only written into the page \
             cache is submitted by kernel threads"
        ));
    }
    let groups =
        found.into_iter().map(|((dev, op), all)| all.summed_up((dev, names.get(&dev)), op, spans.get(&dev).copied()));
    let mut groups: Vec<Group> = groups.collect();
    let (requests, total_bytes) =
        groups.iter().fold((0, 0_u64), |(n, sum), group| (n + group.count, sum.saturating_add(group.bytes)));
    let key = |group: &Group| match sort {
        "count" => group.count as f64,
        "queue" => group.queue.mean_ns.unwrap_or(-1.0),
        "device" => group.device_time.mean_ns.unwrap_or(-1.0),
        _ => group.bytes as f64,
    };
    groups.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let (groups, groups_total) = cut(groups, selection.limit(true));
    let data = BlockView { requests, bytes: total_bytes, lost: lost(recording), groups, groups_total };
    Ok(Answer::new("block", recording, notes, data))
}

/// Requests that the probe lost, as the manifest says.
fn lost(recording: &Recording) -> Option<u64> {
    recording.manifest().probes.iter().find(|probe| probe.name == "block").and_then(|probe| probe.events_lost)
}

impl Collected {
    fn add(&mut self, row: &BlockIosRow<'_>) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(row.bytes);
        self.by_tasks += u64::from(row.task_id.is_some());
        let merged = row.merged.unwrap_or(0);
        self.merged_requests += u64::from(merged > 0);
        self.merged = self.merged.saturating_add(merged.into());
        self.failed += u64::from(row.status.is_some_and(|status| status != 0));
        self.queue_ns.extend(row.queue_ns);
        match row.dur {
            Some(dur) => self.device_ns.push(u64::try_from(dur).unwrap_or(0)),
            None => self.unfinished += 1,
        }
        let low = if row.bytes == 0 { 0 } else { 1 << row.bytes.ilog2() };
        *self.sizes.entry(low).or_default() += 1;
    }

    fn summed_up(self, (dev, name): (u64, Option<&String>), op: String, span: Option<Span>) -> Group {
        let seconds =
            span.map(|(first, last)| last.saturating_sub(first) as f64 / 1e9).filter(|seconds| *seconds > 0.0);
        Group {
            device: device(dev),
            device_name: name.cloned(),
            op,
            count: self.count,
            bytes: self.bytes,
            requests_per_second: seconds.map(|seconds| self.count as f64 / seconds),
            by_tasks: self.by_tasks,
            merged_requests: self.merged_requests,
            merged: self.merged,
            failed: self.failed,
            unfinished: self.unfinished,
            queue: times(self.queue_ns),
            device_time: times(self.device_ns),
            sizes: self.sizes.into_iter().map(|(low_bytes, count)| Size { low_bytes, count }).collect(),
        }
    }
}

/// Exact mean and percentiles (the smallest value that this share of the values does not exceed).
fn times(mut all: Vec<u64>) -> Times {
    all.sort_unstable();
    let count = all.len() as u64;
    let at = |share: f64| {
        let rank = ((share * count as f64).ceil() as usize).max(1);
        all.get(rank - 1).copied()
    };
    let sum: u128 = all.iter().map(|ns| u128::from(*ns)).sum();
    Times {
        count,
        mean_ns: (count > 0).then(|| sum as f64 / count as f64),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        max_ns: all.last().copied(),
    }
}
