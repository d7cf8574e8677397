//! fio's terse layout, version 3: one line of fields between `;` for each job, for programs.
//!
//! The fields, in order: version of the layout, of the program, job, group, error; for reads and then for writes KiB, KiB/s, operations
//! per second, ms, submission latency, completion latency (least, greatest, mean, deviation, us), twenty percentiles, latency, bandwidth
//! (least, greatest, share of the group, mean, deviation); CPU time, context switches, faults; depths; latencies in classes; disks;
//! errors that the job went on after, if it was to; its description, if it has one.

use std::fmt::Write as _;

use super::json::{depth_shares, distribution};
use super::summary::{Entry, GroupDirection, entries, groups};
use crate::disks::DiskUse;
use crate::histogram::Latencies;
use crate::report::{DirectionResult, JobReport};

/// The number of this layout.
const VERSION: u32 = 3;

/// Percentiles in a line; those that the job does not ask for are `0%=0`.
const PERCENTILES: usize = 20;

/// The report as text, a line for each job.
pub fn render(report: &JobReport) -> String {
    let entries = entries(report);
    let groups = groups(&entries);
    let mut out = String::new();
    for entry in &entries {
        let group = groups.iter().find(|group| group.number == entry.figures.group);
        // Writing to a String cannot fail.
        let _ = line(&mut out, entry, [group.and_then(|g| g.read), group.and_then(|g| g.write)], report);
    }
    out
}

fn line(
    out: &mut String,
    entry: &Entry<'_>,
    group: [Option<GroupDirection>; 2],
    report: &JobReport,
) -> std::fmt::Result {
    let figures = &entry.figures;
    let errno = figures.failure.as_ref().map_or(0, |failure| failure.errno);
    let version = &report.pagelab_version;
    write!(out, "{VERSION};pagelab-{version};{};{};{errno}", figures.name, figures.group)?;
    direction(out, entry, &figures.read, group[0])?;
    direction(out, entry, &figures.write, group[1])?;
    let (usr, sys) = entry.cpu_percent();
    let usage = figures.usage.unwrap_or_default();
    let switches = usage.voluntary_switches + usage.involuntary_switches;
    write!(out, ";{usr:.6}%;{sys:.6}%;{switches};{};{}", usage.major_faults, usage.minor_faults)?;
    let [levels, _, _] = depth_shares(figures);
    for share in levels {
        write!(out, ";{share:.1}%")?;
    }
    let [_, microseconds, milliseconds] = distribution(figures);
    for (_, share) in microseconds.into_iter().chain(milliseconds) {
        write!(out, ";{share:.2}%")?;
    }
    for disk in &report.disks {
        self::disk(out, disk)?;
    }
    if entry.job.options.continues() {
        write!(out, ";{};{}", figures.errors(), figures.first_error.unwrap_or(0))?;
    }
    if let Some(description) = &entry.job.options.description {
        write!(out, ";{description}")?;
    }
    out.write_char('\n')
}

fn disk(out: &mut String, disk: &DiskUse) -> std::fmt::Result {
    write!(
        out,
        ";{};{};{};{};{};{};{};{};{:.2}%",
        disk.name,
        disk.read_ios,
        disk.write_ios,
        disk.read_merges,
        disk.write_merges,
        disk.read_ticks,
        disk.write_ticks,
        disk.in_queue,
        disk.util
    )
}

fn direction(
    out: &mut String,
    entry: &Entry<'_>,
    result: &DirectionResult,
    group: Option<GroupDirection>,
) -> std::fmt::Result {
    let options = &entry.job.options;
    let milliseconds = if result.operations > 0 { entry.milliseconds() } else { 0 };
    let per_second =
        |amount: u64| u128::from(amount).saturating_mul(1000).checked_div(milliseconds.into()).unwrap_or(0);
    let (bytes, operations) = (result.bytes, result.operations);
    write!(out, ";{};{};{};{milliseconds}", bytes >> 10, per_second(bytes) / 1024, per_second(operations))?;
    latency(out, &result.slat.clone().unwrap_or_default())?;
    latency(out, &result.clat)?;
    let percentiles = if options.lat_percentiles {
        Some(&result.lat)
    } else if options.clat_percentiles {
        Some(&result.clat)
    } else {
        None
    };
    let list = percentiles.map_or(&[][..], |_| options.percentile_list.0.as_slice());
    for percent in list.iter().take(PERCENTILES) {
        let value = percentiles.and_then(|latencies| latencies.percentile(*percent)).unwrap_or(0);
        write!(out, ";{percent:.6}%={}", value / 1000)?;
    }
    for _ in list.len()..PERCENTILES {
        out.write_str(";0%=0")?;
    }
    latency(out, &result.lat)?;
    let m = &result.bandwidth_kib;
    let share = match group {
        Some(group) if m.count > 0 && group.bandwidth > 0.0 => (100.0 * m.mean * 1024.0 / group.bandwidth).min(100.0),
        _ => 0.0,
    };
    write!(out, ";{};{};{share:.6}%;{:.6};{:.6}", m.min as u64, m.max as u64, m.mean, m.standard_deviation())
}

/// Least, greatest, mean and deviation in us; zeros where nothing was measured, as in fio.
fn latency(out: &mut String, latencies: &Latencies) -> std::fmt::Result {
    let us = |ns: Option<u64>| ns.unwrap_or(0) / 1000;
    let (mean, deviation) = (latencies.mean().unwrap_or(0.0), latencies.standard_deviation().unwrap_or(0.0));
    write!(out, ";{};{};{:.6};{:.6}", us(latencies.min_ns), us(latencies.max_ns), mean / 1000.0, deviation / 1000.0)
}
