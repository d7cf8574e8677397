//! fio's JSON: the same keys and units. Times in ns, `bw` in KiB/s, `runtime` in ms, shares in percent.

use std::fmt::Display;

use pagelab_fiojob::options::reported_name;
use pagelab_fiojob::words::UnifiedReporting;
use pagelab_fiojob::{Direction, Given, JobSpec};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::summary::{Entry, GroupDirection, entries, groups, mixed, mixed_group};
use crate::disks::DiskUse;
use crate::histogram::{Latencies, middle};
use crate::report::{DirectionResult, JobReport, Moments, SteadyReport};

/// How much the document holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// `--output-format=json`.
    Plain,
    /// `--output-format=json+`: with the filled buckets of the histograms.
    Plus,
}

/// An object whose keys keep their order.
struct Object(Vec<(String, Node)>);

enum Node {
    Count(u64),
    Number(f64),
    Text(String),
    Object(Object),
    List(Vec<Node>),
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(value) => serializer.serialize_u64(*value),
            Self::Number(value) => serializer.serialize_f64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Object(object) => object.serialize(serializer),
            Self::List(list) => list.serialize(serializer),
        }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Object {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn count(mut self, key: impl Display, value: u64) -> Self {
        self.0.push((key.to_string(), Node::Count(value)));
        self
    }

    fn number(mut self, key: impl Display, value: f64) -> Self {
        self.0.push((key.to_string(), Node::Number(value)));
        self
    }

    fn text(mut self, key: impl Display, value: impl Into<String>) -> Self {
        self.0.push((key.to_string(), Node::Text(value.into())));
        self
    }

    fn object(mut self, key: impl Display, value: Object) -> Self {
        self.0.push((key.to_string(), Node::Object(value)));
        self
    }
}

/// The report as fio's JSON document, with a newline at its end.
///
/// # Errors
/// Never for a report of this crate; kept for the signature of the serialiser.
pub fn render(report: &JobReport, detail: Detail) -> Result<String, serde_json::Error> {
    let entries = entries(report);
    let groups = groups(&entries);
    let jobs = entries
        .iter()
        .map(|entry| {
            let group = groups.iter().find(|group| group.number == entry.figures.group);
            let of = |pick: fn(&super::Group) -> Option<GroupDirection>| group.and_then(pick);
            Node::Object(job(report, entry, [of(|g| g.read), of(|g| g.write), of(|g| g.trim)], detail))
        })
        .collect();
    let seconds = report.started_realtime_ns / 1_000_000_000;
    let mut document = Object::new()
        .text("fio version", super::SIGNATURE)
        .text("pagelab version", &report.pagelab_version)
        .count("timestamp", seconds)
        .count("timestamp_ms", report.started_realtime_ns / 1_000_000)
        .text("time", super::normal::date(seconds));
    if let Some(globals) = report.workload.jobs.first().filter(|job| !job.inherited.is_empty()) {
        document = document.object("global options", given(&globals.inherited));
    }
    document.0.push(("jobs".to_owned(), Node::List(jobs)));
    if !report.disks.is_empty() {
        let disks = report.disks.iter().map(|disk| Node::Object(self::disk(disk))).collect();
        document.0.push(("disk_util".to_owned(), Node::List(disks)));
    }
    let mut text = serde_json::to_string_pretty(&document)?;
    text.push('\n');
    Ok(text)
}

fn disk(disk: &DiskUse) -> Object {
    Object::new()
        .text("name", &disk.name)
        .count("read_ios", disk.read_ios)
        .count("write_ios", disk.write_ios)
        .count("read_merges", disk.read_merges)
        .count("write_merges", disk.write_merges)
        .count("read_ticks", disk.read_ticks)
        .count("write_ticks", disk.write_ticks)
        .count("in_queue", disk.in_queue)
        .number("util", disk.util)
}

/// Options as written, by the names that fio reports them under.
fn given(options: &[Given]) -> Object {
    options.iter().fold(Object::new(), |object, one| {
        let mut object = object;
        let name = reported_name(&one.name);
        let value = one.value.clone().unwrap_or_else(|| "1".to_owned());
        let before = object.0.iter().position(|(key, _)| key == name).map(|place| object.0.remove(place));
        match before {
            // Names add up; of other options the last counts. (fio writes the key of each, which no reader of JSON can keep apart.)
            Some((_, Node::Text(names))) if name == "filename" => object.text(name, format!("{names}:{value}")),
            _ => object.text(name, value),
        }
    })
}

fn job(
    report: &JobReport,
    entry: &Entry<'_>,
    group: [Option<GroupDirection>; Direction::COUNT],
    detail: Detail,
) -> Object {
    let figures = &entry.figures;
    let (usr, sys) = entry.cpu_percent();
    let usage = figures.usage.unwrap_or_default();
    let mut object = Object::new()
        .text("jobname", &figures.name)
        .count("groupid", u64::from(figures.group))
        .count("error", u64::from(figures.error().unsigned_abs()))
        .count("eta", report.eta_s.unwrap_or(0))
        .count("elapsed", report.run.duration_ns().div_ceil(1_000_000_000));
    if let Some(description) = &entry.job.options.description {
        object = object.text("desc", description);
    }
    object = object.object("job options", job_options(entry.job));
    if entry.job.options.unified_rw_reporting != UnifiedReporting::Mixed {
        for ((name, result), group) in figures.directions().into_iter().zip(group) {
            object = object.object(name, direction(entry, result, group, detail));
        }
    }
    if let Some(mixed) = mixed(entry) {
        object = object.object("mixed", direction(entry, &mixed, mixed_group(group), detail));
    }
    let flushes = moments_of(&figures.flushes, Some(entry.job.options.percentile_list.0.as_slice()), detail);
    object = object
        .object("sync", Object::new().count("total_ios", figures.fsyncs()).object("lat_ns", flushes))
        .count("job_runtime", entry.milliseconds())
        .number("usr_cpu", usr)
        .number("sys_cpu", sys)
        .count("ctx", usage.voluntary_switches + usage.involuntary_switches)
        .count("majf", usage.major_faults)
        .count("minf", usage.minor_faults);
    object = depths(object, figures);
    let lat = distribution(figures);
    for (key, unit) in [("latency_ns", &lat[0]), ("latency_us", &lat[1]), ("latency_ms", &lat[2])] {
        object = object.object(key, unit.iter().fold(Object::new(), |o, (label, share)| o.number(label, *share)));
    }
    if entry.job.options.continues() {
        object = object
            .count("total_err", figures.total_errors())
            .count("first_error", figures.first_error.map_or(0, |errno| u64::from(errno.unsigned_abs())));
    }
    object = object
        .count("latency_depth", figures.latency_depth.map_or_else(|| entry.job.depth(), u64::from))
        .count("latency_target", entry.job.options.latency_target.0)
        .number("latency_percentile", entry.job.options.latency_percentile.0)
        // As in fio: the target is in ns and the window in us.
        .count("latency_window", entry.job.options.latency_window.0 / 1000);
    match &figures.steady {
        Some(found) => object.object("steadystate", steady(found)),
        None => object,
    }
}

fn steady(found: &SteadyReport) -> Object {
    let (goal, unit) = (found.goal, found.goal.unit());
    let list = |samples: &[u64]| Node::List(samples.iter().copied().map(Node::Count).collect());
    let mut data = Object::new().count("bw_mean", mean_of(&found.bandwidth)).count("iops_mean", mean_of(&found.iops));
    data.0.push(("iops".to_owned(), list(&found.iops)));
    data.0.push(("bw".to_owned(), list(&found.bandwidth)));
    Object::new()
        .text("ss", format!("{}:{:.6}{unit}", goal.word(), goal.limit))
        .count("duration", found.duration_s)
        .count("attained", u64::from(found.attained))
        .text("criterion", format!("{:.6}{unit}", found.criterion))
        .number("max_deviation", found.max_deviation)
        .number("slope", found.slope)
        .object("data", data)
}

/// The mean of samples that may not all be there, as fio counts.
pub(super) fn mean_of(samples: &[u64]) -> u64 {
    samples.iter().sum::<u64>().checked_div(samples.len() as u64).unwrap_or(0)
}

fn job_options(job: &JobSpec) -> Object {
    let mut options = given(&job.given);
    if !options.0.iter().any(|(key, _)| key == "name") {
        options.0.insert(0, ("name".to_owned(), Node::Text(job.name.clone())));
    }
    options
}

fn direction(entry: &Entry<'_>, result: &DirectionResult, group: Option<GroupDirection>, detail: Detail) -> Object {
    let options = &entry.job.options;
    let seconds = result.seconds();
    let per_second = result.bytes_per_second();
    let percentiles = |wanted: bool| wanted.then_some(options.percentile_list.0.as_slice());
    let share = match group {
        Some(group) if group.bandwidth > 0.0 => {
            (100.0 * result.bandwidth_kib.mean * 1024.0 / group.bandwidth).min(100.0)
        }
        _ => 0.0,
    };
    let slat = result.slat.clone().unwrap_or_default();
    let rates = |object: Object, name: &str, m: &Moments| object.number(format!("{name}_mean"), m.mean);
    let mut object = Object::new()
        .count("io_bytes", result.bytes)
        .count("io_kbytes", result.bytes >> 10)
        .count("bw_bytes", per_second as u64)
        .count("bw", (per_second / 1024.0) as u64)
        .number("iops", if seconds > 0.0 { result.operations as f64 / seconds } else { 0.0 })
        .count("runtime", result.milliseconds())
        .count("total_ios", result.operations)
        .count("short_ios", result.short_operations)
        .count("drop_ios", 0)
        .object(
            "slat_ns",
            moments_of(
                &slat,
                percentiles(options.slat_percentiles),
                if options.slat_percentiles { detail } else { Detail::Plain },
            ),
        )
        .object("clat_ns", moments_of(&result.clat, percentiles(options.clat_percentiles), detail))
        .object(
            "lat_ns",
            moments_of(
                &result.lat,
                percentiles(options.lat_percentiles),
                if options.lat_percentiles { detail } else { Detail::Plain },
            ),
        );
    let m = &result.bandwidth_kib;
    object = object.count("bw_min", m.min as u64).count("bw_max", m.max as u64).number("bw_agg", share);
    object = rates(object, "bw", m).number("bw_dev", m.standard_deviation()).count("bw_samples", m.count);
    let m = &result.iops;
    object = object.count("iops_min", m.min as u64).count("iops_max", m.max as u64);
    rates(object, "iops", m).number("iops_stddev", m.standard_deviation()).count("iops_samples", m.count)
}

/// fio writes zeros where nothing was measured; `N` = 0 next to them tells that apart.
fn moments_of(latencies: &Latencies, percentiles: Option<&[f64]>, detail: Detail) -> Object {
    let mut object = Object::new()
        .count("min", latencies.min_ns.unwrap_or(0))
        .count("max", latencies.max_ns.unwrap_or(0))
        .number("mean", latencies.mean().unwrap_or(0.0))
        .number("stddev", latencies.standard_deviation().unwrap_or(0.0))
        .count("N", latencies.count);
    if let Some(list) = percentiles.filter(|_| latencies.count > 0) {
        let values = list.iter().fold(Object::new(), |o, percent| {
            o.count(format!("{percent:.6}"), latencies.percentile(*percent).unwrap_or(0))
        });
        object = object.object("percentile", values);
    }
    if detail == Detail::Plus && latencies.count > 0 {
        let bins = latencies
            .buckets
            .iter()
            .fold(Object::new(), |o, (index, count)| o.count(middle(usize::from(*index)), *count));
        object = object.object("bins", bins);
    }
    object
}

/// How deep the queue was, in fio's classes, percent of the operations.
fn depths(object: Object, figures: &crate::report::WorkerReport) -> Object {
    let fill = |labels: &[&str], shares: [f64; 7]| {
        labels.iter().zip(shares).fold(Object::new(), |o, (label, share)| o.number(label, share))
    };
    let [level, submit, complete] = depth_shares(figures);
    object
        .object("iodepth_level", fill(&LEVELS, level))
        .object("iodepth_submit", fill(&BATCHES, submit))
        .object("iodepth_complete", fill(&BATCHES, complete))
}

/// fio's labels for the depth of the queue in JSON.
pub(super) const LEVELS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];

/// fio's labels for how many were submitted or completed at once in JSON.
pub(super) const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

/// Shares of the operations by depth, of submissions and of completions by their number, percent. Engines that complete each
/// operation before the next have depth 1, and each submission and completion is of one.
pub(super) fn depth_shares(figures: &crate::report::WorkerReport) -> [[f64; 7]; 3] {
    let mut depths = figures.depths.unwrap_or_default();
    let [mut level, writes, trims] = depths.level;
    for other in [writes, trims] {
        level.iter_mut().zip(other).for_each(|(all, other)| *all += other);
    }
    if figures.depths.is_none() {
        let operations = figures.operations();
        (level[0], depths.submit[1], depths.complete[1]) = (operations, operations, operations);
    }
    [level, depths.submit, depths.complete].map(|counts| {
        let total = counts.iter().sum::<u64>().max(1) as f64;
        counts.map(|count| 100.0 * count as f64 / total)
    })
}

/// A label of fio's latency distribution and the share of operations in it, percent.
pub(super) type Share = (&'static str, f64);

/// fio's distribution of completion latency, in ns, us and ms. Each label is an upper bound that does not belong to its bin. Counted from
/// the histogram: at a bound that cuts a bucket (above 128 ns), a bucket's operations go where its middle lies.
pub(super) fn distribution(figures: &crate::report::WorkerReport) -> [Vec<Share>; 3] {
    const FINE: [(&str, u64); 10] = [
        ("2", 2),
        ("4", 4),
        ("10", 10),
        ("20", 20),
        ("50", 50),
        ("100", 100),
        ("250", 250),
        ("500", 500),
        ("750", 750),
        ("1000", 1000),
    ];
    let mut all = figures.read.clat.clone();
    all.merge(&figures.write.clat);
    all.merge(&figures.trim.clat);
    let total = all.count.max(1) as f64;
    let share = |low: u64, high: u64| 100.0 * all.count_between(low, high) as f64 / total;
    let scale = |unit: u64, first: u64| {
        let mut low = first;
        FINE.iter()
            .map(|(label, bound)| {
                let high = bound * unit;
                let shares = (*label, share(low, high));
                low = high;
                shares
            })
            .collect::<Vec<_>>()
    };
    let mut milliseconds = scale(1_000_000, 1_000_000);
    milliseconds.push(("2000", share(1_000_000_000, 2_000_000_000)));
    milliseconds.push((">=2000", share(2_000_000_000, u64::MAX)));
    [scale(1, 0), scale(1_000, 1_000), milliseconds]
}
