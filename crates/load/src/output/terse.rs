//! fio's terse layout: one line of fields between `;` for each job, for programs.
//!
//! The fields, in order: version of the layout, of the program, job, group, error; for reads and then for writes KiB, KiB/s, operations
//! per second, ms, submission latency, completion latency (least, greatest, mean, deviation, us), twenty percentiles, latency, bandwidth
//! (least, greatest, share of the group, mean, deviation); CPU time, context switches, faults; depths; latencies in classes; disks;
//! errors that the job went on after, if it was to; its description, if it has one.
//!
//! That is version 3. Version 2 leaves out the program's version and the disks, and has its description in a line of its own. It and
//! versions 4 and 5 have trims behind the writes; version 5 adds to each direction the number of samples of the bandwidth, and least,
//! greatest, mean, deviation and number of samples of the operations per second.

use std::fmt::Write as _;

use pagelab_fiojob::Direction;
use pagelab_fiojob::words::UnifiedReporting;

use super::json::{depth_shares, distribution};
use super::summary::{Entry, GroupDirection, entries, groups, mixed, mixed_group};
use crate::disks::DiskUse;
use crate::histogram::Latencies;
use crate::report::{DirectionResult, JobReport};

/// A version of this layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TerseVersion {
    /// Of old programs.
    V2 = 2,
    /// fio's default.
    #[default]
    V3 = 3,
    /// With trims.
    V4 = 4,
    /// With trims and samples.
    V5 = 5,
}

impl TerseVersion {
    /// All, the default apart.
    const ALL: [Self; 4] = [Self::V2, Self::V3, Self::V4, Self::V5];

    /// By its number, as in fio's `--terse-version`.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.word() == word)
    }

    /// Its number.
    pub fn word(self) -> String {
        (self as u32).to_string()
    }

    fn has_trims(self) -> bool {
        self != Self::V3
    }
}

/// Percentiles in a line; those that the job does not ask for are `0%=0`.
const PERCENTILES: usize = 20;

/// The report as text, a line for each job.
pub fn render(report: &JobReport, version: TerseVersion) -> String {
    let entries = entries(report);
    let groups = groups(&entries);
    let mut out = String::new();
    for entry in &entries {
        let group = groups.iter().find(|group| group.number == entry.figures.group);
        let groups = [group.and_then(|g| g.read), group.and_then(|g| g.write), group.and_then(|g| g.trim)];
        // Writing to a String cannot fail.
        let _ = line(&mut out, entry, groups, report, version);
    }
    out
}

fn line(
    out: &mut String,
    entry: &Entry<'_>,
    group: [Option<GroupDirection>; Direction::COUNT],
    report: &JobReport,
    version: TerseVersion,
) -> std::fmt::Result {
    let figures = &entry.figures;
    write!(out, "{};", version as u32)?;
    if version > TerseVersion::V2 {
        write!(out, "{};", super::SIGNATURE)?;
    }
    write!(out, "{};{};{}", figures.name, figures.group, figures.error())?;
    // As in fio: all directions together stand where reads do.
    let all = mixed(entry).filter(|_| entry.job.options.unified_rw_reporting == UnifiedReporting::Mixed);
    let directions = if version.has_trims() { &Direction::ALL[..] } else { &[Direction::Read, Direction::Write] };
    for each in directions {
        let (result, group) = match &all {
            Some(all) if *each == Direction::Read => (all.clone(), mixed_group(group)),
            Some(_) => (DirectionResult::default(), None),
            None => (figures.of(*each).clone(), group[*each as usize]),
        };
        direction(out, entry, &result, group, version)?;
    }
    let (usr, sys) = entry.cpu_percent();
    let usage = figures.usage.unwrap_or_default();
    let switches = usage.voluntary_switches + usage.involuntary_switches;
    write!(out, ";{usr:.6}%;{sys:.6}%;{switches};{};{}", usage.major_faults, usage.minor_faults)?;
    let [levels, _, _] = depth_shares(figures);
    for share in levels {
        write!(out, ";{share:.1}%")?;
    }
    let [nanoseconds, microseconds, milliseconds] = distribution(figures);
    // There are no classes below a microsecond: as in fio, what they hold is in the first one.
    let mut below: f64 = nanoseconds.into_iter().map(|(_, share)| share).sum();
    for (_, share) in microseconds.into_iter().chain(milliseconds) {
        write!(out, ";{:.2}%", share + std::mem::take(&mut below))?;
    }
    for disk in report.disks.iter().filter(|_| version > TerseVersion::V2) {
        self::disk(out, disk)?;
    }
    if entry.job.options.continues() {
        write!(out, ";{};{}", figures.total_errors(), figures.first_error.unwrap_or(0))?;
    }
    if version == TerseVersion::V2 && entry.job.options.description.is_some() {
        out.write_char('\n')?;
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
    version: TerseVersion,
) -> std::fmt::Result {
    let options = &entry.job.options;
    let milliseconds = result.milliseconds();
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
    write!(out, ";{};{};{share:.6}%;{:.6};{:.6}", m.min as u64, m.max as u64, m.mean, m.standard_deviation())?;
    if version == TerseVersion::V5 {
        let o = &result.iops;
        write!(
            out,
            ";{};{};{};{:.6};{:.6};{}",
            m.count,
            o.min as u64,
            o.max as u64,
            o.mean,
            o.standard_deviation(),
            o.count
        )?;
    }
    Ok(())
}

/// Least, greatest, mean and deviation in us; zeros where nothing was measured, as in fio.
fn latency(out: &mut String, latencies: &Latencies) -> std::fmt::Result {
    let us = |ns: Option<u64>| ns.unwrap_or(0) / 1000;
    let (mean, deviation) = (latencies.mean().unwrap_or(0.0), latencies.standard_deviation().unwrap_or(0.0));
    write!(out, ";{};{};{:.6};{:.6}", us(latencies.min_ns), us(latencies.max_ns), mean / 1000.0, deviation / 1000.0)
}
