//! fio's normal layout.

use std::fmt::Write as _;

use pagelab_fiojob::words::UnifiedReporting;
use pagelab_fiojob::{Direction, JobSpec};

use super::json::{BATCHES, LEVELS, depth_shares, distribution, mean_of};
use super::numbers::{TimeUnit, num, percentile_unit, time_unit};
use super::summary::{Entry, Group, GroupDirection, entries, groups, mixed, mixed_group};
use crate::disks::DiskUse;
use crate::engines::MapReport;
use crate::histogram::Latencies;
use crate::report::{DirectionResult, JobReport, Moments};

/// Width that percentiles are laid out for.
const COLUMNS: usize = 80;

/// The report as text, behind its [`heading`].
pub fn render(report: &JobReport) -> String {
    let entries = entries(report);
    let groups = groups(&entries);
    let mut out = String::new();
    for entry in &entries {
        let group = groups.iter().find(|group| group.number == entry.figures.group);
        // Writing to a String cannot fail, here and below.
        let _ = job(&mut out, entry, group, report);
    }
    for group in &groups {
        let _ = status(&mut out, group);
    }
    let _ = disks(&mut out, &report.disks);
    out
}

/// Seconds since 1970 as `Thu Jan  1 00:00:00 1970` (UTC; fio prints local time).
pub(super) fn date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = seconds / 86_400;
    // Days to civil date, counting years from March so that leap days come last (Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12;
    let year = year_of_era + era * 400 + u64::from(month < 2);
    let rest = seconds % 86_400;
    let weekday = DAYS.get((days % 7) as usize).copied().unwrap_or("");
    let month = MONTHS.get(month as usize).copied().unwrap_or("");
    format!("{weekday} {month} {day:2} {:02}:{:02}:{:02} {year}", rest / 3600, rest / 60 % 60, rest % 60)
}

/// What comes before the first report: the jobs, the program, how many workers.
pub fn heading(report: &JobReport) -> String {
    let mut text = String::new();
    let out = &mut text;
    for job in &report.workload.jobs {
        let o = &job.options;
        let size = |bytes: u64| num(bytes as f64, 4, 1024) + "B";
        let range = |low: u64, high: u64| format!("{}-{}", size(low), size(high));
        let [read, write, trim] = Direction::ALL.map(|direction| {
            let lengths = o.lengths(direction);
            range(u64::from(lengths.min_bytes), u64::from(lengths.max_bytes))
        });
        let pattern = pagelab_fiojob::value::Choice::word(o.rw.0);
        let _ = writeln!(
            out,
            "{}: (g={}): rw={pattern}, bs=(R) {read}, (W) {write}, (T) {trim}, ioengine={}, iodepth={}",
            job.name,
            job.group,
            o.ioengine.0,
            job.depth()
        );
        if o.numjobs > 1 {
            out.push_str("...\n");
        }
    }
    let (version, clock) = (&report.pagelab_version, &report.clock.source);
    let _ = writeln!(out, "{} (pagelab-{version}, operations timed by {clock})", super::SIGNATURE);
    let (mut threads, mut processes) = (0_u64, 0_u64);
    for job in &report.workload.jobs {
        *(if job.options.thread { &mut threads } else { &mut processes }) += job.options.numjobs;
    }
    let parts: Vec<String> = [(threads, "thread", "threads"), (processes, "process", "processes")]
        .into_iter()
        .filter(|(n, _, _)| *n > 0)
        .map(|(n, one, many)| format!("{n} {}", if n == 1 { one } else { many }))
        .collect();
    let _ = writeln!(out, "Starting {}", parts.join(" and "));
    text
}

fn job(out: &mut String, entry: &Entry<'_>, group: Option<&Group>, report: &JobReport) -> std::fmt::Result {
    let figures = &entry.figures;
    let errno = figures.error();
    writeln!(
        out,
        "\n{}: (groupid={}, jobs={}): err={errno:2}: pid={}: {}",
        figures.name,
        figures.group,
        entry.workers,
        figures.pid,
        date(report.started_realtime_ns / 1_000_000_000)
    )?;
    if let Some(failure) = &figures.failure {
        writeln!(out, "  error        : {}", failure.message)?;
    }
    if let Some(description) = &entry.job.options.description {
        writeln!(out, "  Description  : [{description}]")?;
    }
    directions(out, entry, group)?;
    latency_shares(out, entry)?;
    if figures.flushes.count > 0 {
        writeln!(out, "  fsync/fdatasync/sync_file_range:")?;
        spread(out, "sync", &figures.flushes)?;
        percentiles(out, "sync", &figures.flushes, &entry.job.options.percentile_list.0)?;
    }
    let (usr, sys) = entry.cpu_percent();
    let usage = figures.usage.unwrap_or_default();
    writeln!(
        out,
        "  cpu          : usr={usr:.2}%, sys={sys:.2}%, ctx={}, majf={}, minf={}",
        usage.voluntary_switches + usage.involuntary_switches,
        usage.major_faults,
        usage.minor_faults
    )?;
    mapped(out, entry)?;
    depths(out, figures)?;
    writeln!(
        out,
        "     issued rwts: total={},{},{},{} short={},{},{},0 dropped=0,0,0,0",
        figures.read.operations,
        figures.write.operations,
        figures.trim.operations,
        figures.flushes.count,
        figures.read.short_operations,
        figures.write.short_operations,
        figures.trim.short_operations
    )?;
    if let Some(verify) = figures.verify.as_ref().filter(|verify| verify.blocks > 0) {
        let (method, blocks, wrong) = (&verify.method, verify.blocks, verify.mismatches);
        writeln!(out, "     verified  : {method}, blocks={blocks}, mismatches={wrong}")?;
    }
    if entry.job.options.continues() {
        let first = figures.first_error.unwrap_or(0);
        let words = std::io::Error::from_raw_os_error(first).to_string();
        // As strerror(3) has it, which is all that fio prints.
        let words = words.split(" (os error").next().unwrap_or_default();
        writeln!(out, "     errors    : total={}, first_error={first}/<{words}>", figures.total_errors())?;
    }
    let o = &entry.job.options;
    writeln!(
        out,
        "     latency   : target={}, window={}, percentile={:.2}%, depth={}",
        o.latency_target.0,
        o.latency_window.0 / 1000,
        o.latency_percentile.0,
        figures.latency_depth.map_or_else(|| entry.job.depth(), u64::from)
    )?;
    steady(out, entry)
}

/// The directions of a job, apart or together (`unified_rw_reporting`).
fn directions(out: &mut String, entry: &Entry<'_>, group: Option<&Group>) -> std::fmt::Result {
    let groups = [group.and_then(|g| g.read), group.and_then(|g| g.write), group.and_then(|g| g.trim)];
    if entry.job.options.unified_rw_reporting != UnifiedReporting::Mixed {
        for ((name, result), group) in entry.figures.directions().into_iter().zip(groups) {
            direction(out, entry, name, result, group)?;
        }
    }
    match mixed(entry) {
        Some(mixed) => direction(out, entry, "mixed", &mixed, mixed_group(groups)),
        None => Ok(()),
    }
}

fn steady(out: &mut String, entry: &Entry<'_>) -> std::fmt::Result {
    let Some(found) = &entry.figures.steady else { return Ok(()) };
    let (figures, bandwidth) = (significant_figures(entry.job), mean_of(&found.bandwidth) as f64);
    writeln!(
        out,
        "  steadystate  : attained={}, bw={}B/s ({}B/s), iops={}, {}{}={:.3}{}",
        if found.attained { "yes" } else { "no" },
        num(bandwidth, figures, 1024),
        num(bandwidth, figures, 1000),
        num(mean_of(&found.iops) as f64, figures, 1000),
        if found.goal.of_operations { "iops" } else { "bw" },
        if found.goal.slope { " slope" } else { " mean dev" },
        found.criterion,
        found.goal.unit()
    )
}

fn depths(out: &mut String, figures: &crate::report::WorkerReport) -> std::fmt::Result {
    let line = |labels: [&str; 7], shares: [f64; 7]| {
        labels.iter().zip(shares).map(|(label, share)| format!("{label}={share:.1}%")).collect::<Vec<_>>().join(", ")
    };
    let [level, submit, complete] = depth_shares(figures);
    writeln!(out, "  IO depths    : {}", line(LEVELS, level))?;
    writeln!(out, "     submit    : {}", line(BATCHES, submit))?;
    writeln!(out, "     complete  : {}", line(BATCHES, complete))
}

/// `significant_figures`, which validation keeps between 1 and 10.
fn significant_figures(job: &JobSpec) -> usize {
    usize::try_from(job.options.significant_figures).unwrap_or(4)
}

fn direction(
    out: &mut String,
    entry: &Entry<'_>,
    name: &str,
    result: &DirectionResult,
    group: Option<GroupDirection>,
) -> std::fmt::Result {
    if result.operations == 0 {
        return Ok(());
    }
    let seconds = result.seconds().max(1e-9);
    let per_second = result.bytes_per_second();
    let figures = significant_figures(entry.job);
    writeln!(
        out,
        "  {name}: IOPS={}, BW={}B/s ({}B/s)({}B/{}msec)",
        num(result.operations as f64 / seconds, figures, 1000),
        num(per_second, figures, 1024),
        num(per_second, figures, 1000),
        num(result.bytes as f64, figures, 1024),
        result.milliseconds()
    )?;
    let options = &entry.job.options;
    if let Some(slat) = &result.slat {
        spread(out, "slat", slat)?;
    }
    spread(out, "clat", &result.clat)?;
    spread(out, " lat", &result.lat)?;
    if let Some(slat) = result.slat.as_ref().filter(|_| options.slat_percentiles) {
        percentiles(out, "slat", slat, &options.percentile_list.0)?;
    }
    if options.clat_percentiles {
        percentiles(out, "clat", &result.clat, &options.percentile_list.0)?;
    }
    if options.lat_percentiles {
        percentiles(out, " lat", &result.lat, &options.percentile_list.0)?;
    }
    rates(out, &result.bandwidth_kib, &result.iops, group)
}

fn spread(out: &mut String, name: &str, latencies: &Latencies) -> std::fmt::Result {
    let (Some(min), Some(max), Some(mean)) = (latencies.min_ns, latencies.max_ns, latencies.mean()) else {
        return Ok(());
    };
    let deviation = latencies.standard_deviation().unwrap_or(0.0);
    let unit = time_unit(min as f64, max as f64, deviation);
    writeln!(
        out,
        "    {name} ({}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        unit.name,
        num((min as f64 / unit.ns).floor(), 6, 1000),
        num((max as f64 / unit.ns).floor(), 6, 1000),
        mean / unit.ns,
        deviation / unit.ns
    )
}

fn percentiles(out: &mut String, name: &str, latencies: &Latencies, list: &[f64]) -> std::fmt::Result {
    let (Some(min), Some(max)) = (latencies.min_ns, latencies.max_ns) else { return Ok(()) };
    let unit: TimeUnit = percentile_unit(min as f64, max as f64);
    let values: Vec<(f64, String)> = list
        .iter()
        .filter_map(|percent| Some((*percent, format!("{:.0}", latencies.percentile(*percent)? as f64 / unit.ns))))
        .collect();
    let width = values.iter().map(|(_, text)| text.len()).max().unwrap_or(0).max(5);
    let per_line = ((COLUMNS - 7) / (width + 13)).max(1);
    writeln!(out, "    {name} percentiles ({}):", unit.name)?;
    let lines: Vec<String> = values
        .chunks(per_line)
        .map(|line| {
            line.iter()
                .map(|(percent, text)| format!(" {percent:5.2}th=[{text:>width$}]"))
                .collect::<Vec<_>>()
                .join(",")
        })
        .map(|line| format!("     |{line}"))
        .collect();
    writeln!(out, "{}", lines.join(",\n"))?;
    Ok(())
}

fn rates(out: &mut String, bandwidth_kib: &Moments, iops: &Moments, group: Option<GroupDirection>) -> std::fmt::Result {
    if bandwidth_kib.count == 0 {
        return Ok(());
    }
    let (unit, divisor) = if bandwidth_kib.min > 99_999.0 { ("MiB/s", 1024.0) } else { ("KiB/s", 1.0) };
    let share = group
        .filter(|g| g.bandwidth > 0.0)
        .map_or(100.0, |g| (100.0 * bandwidth_kib.mean * 1024.0 / g.bandwidth).min(100.0));
    writeln!(
        out,
        "   bw ({unit:>7}): min={:5.0}, max={:5.0}, per={share:3.2}%, avg={:5.2}, stdev={:5.2}, samples={}",
        bandwidth_kib.min / divisor,
        bandwidth_kib.max / divisor,
        bandwidth_kib.mean / divisor,
        bandwidth_kib.standard_deviation() / divisor,
        bandwidth_kib.count
    )?;
    writeln!(
        out,
        "   iops        : min={:5.0}, max={:5.0}, avg={:5.2}, stdev={:5.2}, samples={}",
        iops.min,
        iops.max,
        iops.mean,
        iops.standard_deviation(),
        iops.count
    )
}

fn latency_shares(out: &mut String, entry: &Entry<'_>) -> std::fmt::Result {
    let units = distribution(&entry.figures);
    for (unit, shares) in ["nsec", "usec", "msec"].into_iter().zip(&units) {
        let filled: Vec<String> =
            // fio shows at least a hundredth of a percent for every bucket that is not empty.
            shares.iter().filter(|(_, share)| *share > 0.0).map(|(label, share)| format!("{label}={:.2}%", share.max(0.01))).collect();
        for line in filled.chunks(5) {
            writeln!(out, "  lat ({unit})   : {}", line.join(", "))?;
        }
    }
    Ok(())
}

/// An addition to fio's output: the mappings that the job got.
fn mapped(out: &mut String, entry: &Entry<'_>) -> std::fmt::Result {
    let Some(mapped) = &entry.figures.mapped else { return Ok(()) };
    writeln!(
        out,
        "  mapped       : pieces={}, of {}B, evicted={}, fallen back={}",
        mapped.pieces_mapped,
        num(mapped.piece_bytes as f64, 4, 1024),
        mapped.pieces_evicted,
        mapped.pieces_fallen_back
    )?;
    if !mapped.durable_by.is_empty() {
        let means: Vec<String> = mapped.durable_by.iter().map(|(means, files)| format!("{means}={files}")).collect();
        writeln!(out, "     durable by: {} (files)", means.join(", "))?;
    }
    match (&mapped.at_end, &mapped.at_end_reason) {
        (Some(m), _) => writeln!(
            out,
            "     at the end: vmas={}, size={}B, resident={}B, huge: anon={}B shmem={}B file={}B hugetlb={}B",
            m.vmas,
            num(m.size_bytes as f64, 4, 1024),
            num(m.rss_bytes as f64, 4, 1024),
            num(m.anon_huge_bytes as f64, 4, 1024),
            num(m.shmem_pmd_bytes as f64, 4, 1024),
            num(m.file_pmd_bytes as f64, 4, 1024),
            num(m.hugetlb_bytes as f64, 4, 1024)
        )?,
        (None, Some(reason)) => writeln!(out, "     at the end: not read: {reason}")?,
        (None, None) => {}
    }
    slots(out, mapped)
}

/// The page tables' contents at the end, 2 MiB by 2 MiB.
fn slots(out: &mut String, mapped: &MapReport) -> std::fmt::Result {
    if let Some(s) = &mapped.slots {
        write!(
            out,
            "     2M slots  : asked={}, got: base={} 2M={} 1G={} mixed={} swapped={} untouched={} untold={}",
            s.asked, s.base, s.huge_2m, s.huge_1g, s.mixed, s.swapped, s.not_touched, s.not_told
        )?;
        let less: Vec<String> = s.less_than_asked.iter().map(|(reason, slots)| format!("{reason}={slots}")).collect();
        writeln!(out, "{}{}", if less.is_empty() { "" } else { "; less for: " }, less.join(" "))?;
    }
    mapped.slots_reason.iter().try_for_each(|reason| writeln!(out, "     2M slots  : not counted: {reason}"))
}

fn status(out: &mut String, group: &Group) -> std::fmt::Result {
    writeln!(out, "\nRun status group {} (all jobs):", group.number)?;
    for (name, figures) in [("READ", group.read), ("WRITE", group.write), ("TRIM", group.trim)] {
        let Some(g) = figures else { continue };
        let both =
            |value: f64, suffix: &str| format!("{}B{suffix} ({}B{suffix})", num(value, 4, 1024), num(value, 4, 1000));
        let range = |base: u32| format!("{}B/s-{}B/s", num(g.bandwidth_min, 4, base), num(g.bandwidth_max, 4, base));
        writeln!(
            out,
            "{name:>7}: bw={}, {} ({}), io={}, run={}-{}msec",
            both(g.bandwidth, "/s"),
            range(1024),
            range(1000),
            both(g.bytes as f64, ""),
            g.milliseconds_min,
            g.milliseconds_max
        )?;
    }
    Ok(())
}

fn disks(out: &mut String, disks: &[DiskUse]) -> std::fmt::Result {
    if !disks.is_empty() {
        writeln!(out, "\nDisk stats (read/write):")?;
    }
    disks.iter().try_for_each(|d| {
        writeln!(
            out,
            "  {}: ios={}/{}, merge={}/{}, ticks={}/{}, in_queue={}, util={:.2}%",
            d.name,
            d.read_ios,
            d.write_ios,
            d.read_merges,
            d.write_merges,
            d.read_ticks,
            d.write_ticks,
            d.in_queue,
            d.util
        )
    })
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_date_minus_u() {
        // From `LC_ALL=C date -u -d @N '+%a %b %e %H:%M:%S %Y'`.
        for (seconds, expected) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_795_246_442, "Sat Nov 21 07:34:02 2026"),
            (4_107_542_399, "Sun Feb 28 23:59:59 2100"),
            (1_735_689_599, "Tue Dec 31 23:59:59 2024"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }
}
