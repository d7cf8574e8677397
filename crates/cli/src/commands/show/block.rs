//! `show DIR block`: requests of the block layer per device and operation: how many, how large, how long in the queue
//! and in the device.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::BlockIosRow;
use pagelab_report::duration;
use pagelab_views::mappings::bytes;
use serde::Serialize;

use super::View;
use super::options::{Options, cut, more};
use super::read::{self, Tasks};
use super::table::{Table, device, figure, left, or_dash, paragraph, percent, right};
use crate::failure::Failure;

/// How long something took, over many requests.
#[derive(Debug, Default, Serialize)]
struct Times {
    count: u64,
    mean_ns: Option<f64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// Requests whose size is between this power of two and the next.
#[derive(Debug, Serialize)]
struct Size {
    low_bytes: u64,
    count: u64,
}

#[derive(Debug, Serialize)]
struct Group {
    device: String,
    /// Null if it was not recorded.
    device_name: Option<String>,
    op: String,
    count: u64,
    bytes: u64,
    /// From the first issue to the last completion of this device, over all operations.
    requests_per_second: Option<f64>,
    /// Requests that a recorded task submitted.
    by_tasks: u64,
    /// Requests that others were merged into.
    merged_requests: u64,
    /// What was merged into them.
    merged: u64,
    failed: u64,
    /// Issued and never completed.
    unfinished: u64,
    queue: Times,
    device_time: Times,
    sizes: Vec<Size>,
}

impl Group {
    /// What people call the device.
    fn title(&self) -> String {
        self.device_name.as_ref().unwrap_or(&self.device).clone()
    }
}

#[derive(Debug, Serialize)]
struct Document {
    requests: u64,
    bytes: u64,
    lost: Option<u64>,
    groups: Vec<Group>,
    groups_total: usize,
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
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let sort = options.sort_by(&["bytes", "count", "queue", "device"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, options, &mut notes)?;
    let mut found: BTreeMap<(u64, String), Collected> = BTreeMap::new();
    let mut spans: BTreeMap<u64, Span> = BTreeMap::new();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut in_recording = 0_u64;
    read::each::<BlockIosRow>(recording, &mut notes, |row| {
        in_recording += 1;
        let wanted = !options.by_task() || row.task_id.is_some_and(|task| tasks.wants(options, task, row.ts));
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
    if in_recording == 0 {
        notes.push("no block requests were recorded: pagelab record --observe default,block records them".to_owned());
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
    let (groups, groups_total) = cut(groups, options.limit(true));
    let data = Document { requests, bytes: total_bytes, lost: lost(recording), groups, groups_total };
    View::new("block", recording, &notes, &data, &text(&data))
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

/// Exact mean and percentiles (the smallest value that so many are not above).
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

fn text(data: &Document) -> String {
    let mut out = String::new();
    if data.requests == 0 {
        return out;
    }
    out.push('\n');
    let unfinished: u64 = data.groups.iter().map(|group| group.unfinished).sum();
    let failed: u64 = data.groups.iter().map(|group| group.failed).sum();
    let said = format!(
        "{} requests, {}; lost {}; failed {failed}; issued and not completed {unfinished}. Requests on all disks of the host; TASKS% were submitted by recorded tasks, most others write the page \
         cache back.",
        data.requests,
        bytes(data.bytes),
        or_dash(data.lost),
    );
    paragraph(&said, &mut out);
    out.push('\n');
    let mut table = Table::new([
        left("DEV").at_most(12),
        left("OP").at_most(14),
        right("COUNT"),
        right("BYTES"),
        right("PER SECOND"),
        right("MERGED%"),
        right("TASKS%"),
    ]);
    for group in &data.groups {
        table.row([
            group.title(),
            group.op.clone(),
            group.count.to_string(),
            bytes(group.bytes),
            or_dash(group.requests_per_second.map(figure)),
            percent(group.merged_requests, group.count),
            percent(group.by_tasks, group.count),
        ]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.groups.len(), data.groups_total));
    times_text(data, &mut out);
    sizes(data, &mut out);
    out
}

fn times_text(data: &Document, out: &mut String) {
    out.push_str("\nTIMES (Q: in the queue before the issue, D: in the device)\n");
    let mut table = Table::new([
        left("DEV").at_most(12),
        left("OP").at_most(14),
        right("Q MEAN"),
        right("Q P50"),
        right("Q P99"),
        right("D MEAN"),
        right("D P50"),
        right("D P99"),
        right("D MAX"),
    ]);
    let time = |ns: Option<f64>| or_dash(ns.map(|ns| duration(ns).replace(' ', "")));
    let whole = |ns: Option<u64>| time(ns.map(|ns| ns as f64));
    for group in &data.groups {
        table.row([
            group.title(),
            group.op.clone(),
            time(group.queue.mean_ns),
            whole(group.queue.p50_ns),
            whole(group.queue.p99_ns),
            time(group.device_time.mean_ns),
            whole(group.device_time.p50_ns),
            whole(group.device_time.p99_ns),
            whole(group.device_time.max_ns),
        ]);
    }
    table.write(2, out);
}

/// The sizes, as bars that are relative to the commonest of their kind.
fn sizes(data: &Document, out: &mut String) {
    const BAR: u64 = 40;
    out.push_str("\nSIZES (from a power of two up to the next)\n");
    let mut table =
        Table::new([left("DEV").at_most(12), left("OP").at_most(12), right("FROM"), right("COUNT"), left("")]);
    for group in &data.groups {
        let most = group.sizes.iter().map(|size| size.count).max().unwrap_or(1);
        for size in &group.sizes {
            let stars = (size.count * BAR).div_ceil(most) as usize;
            table.row([
                group.title(),
                group.op.clone(),
                bytes(size.low_bytes).replace(' ', ""),
                size.count.to_string(),
                "*".repeat(stars),
            ]);
        }
    }
    table.write(2, out);
}
