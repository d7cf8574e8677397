//! What stands in which file: one function for each layout. None allocates, none trusts the text.
//!
//! A field that is absent puts nothing, so its series does not exist or ends. Further fields and lines of other
//! kernels are passed over. A line that should hold a number and does not is reported once.

use super::scan::{Words, find, fraction, key_value, lines, number};
use super::series::Collector;
use super::source::Tag;

const KIB: f64 = 1024.0;
/// /proc/diskstats counts in these whatever the device's own block size is (Documentation/admin-guide/iostats.rst).
const SECTOR: f64 = 512.0;

/// `key number` on each line: vmstat, numastat.
pub(super) fn pairs(text: &[u8], tag: &Tag, out: &mut Collector<'_>) {
    for line in lines(text) {
        let mut words = Words::new(line);
        match (words.next(), words.number()) {
            (Some(key), Some(value)) => out.put_of(key, &tag.instance, value as f64),
            _ => out.not_understood(line),
        }
    }
}

/// cpu.stat of a control group: version 2 counts in microseconds, version 1 in nanoseconds.
pub(super) fn cgroup_cpu(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    for line in lines(text) {
        let mut words = Words::new(line);
        let (Some(key), Some(value)) = (words.next(), words.number()) else {
            out.not_understood(line);
            continue;
        };
        match key {
            b"nr_periods" => out.put(b"periods", value as f64),
            b"nr_throttled" => out.put(b"throttled_periods", value as f64),
            b"throttled_usec" => out.put(b"throttled_ns", value as f64 * 1e3),
            b"throttled_time" => out.put(b"throttled_ns", value as f64),
            b"nr_bursts" => out.put(b"bursts", value as f64),
            b"burst_usec" => out.put(b"burst_ns", value as f64 * 1e3),
            b"burst_time" => out.put(b"burst_ns", value as f64),
            b"usage_usec" => out.put(b"usage_ns", value as f64 * 1e3),
            b"user_usec" => out.put(b"user_ns", value as f64 * 1e3),
            b"system_usec" => out.put(b"system_ns", value as f64 * 1e3),
            b"core_sched.force_idle_usec" => out.put(b"force_idle_ns", value as f64 * 1e3),
            _ => {}
        }
    }
}

/// Lines of memory.stat of a control group, of version 2 and of version 1, and the fields they stand for. Version 1 has a line of the
/// group alone, too; `total_` is with all that is in it, as in version 2.
const CGROUP_MEMORY: &[(&[u8], &[u8], &[u8])] = &[
    (b"anon", b"total_rss", b"anon_bytes"),
    (b"file", b"total_cache", b"file_bytes"),
    (b"shmem", b"total_shmem", b"shmem_bytes"),
    (b"file_mapped", b"total_mapped_file", b"file_mapped_bytes"),
    (b"file_dirty", b"total_dirty", b"file_dirty_bytes"),
    (b"file_writeback", b"total_writeback", b"file_writeback_bytes"),
    (b"swapcached", b"total_swapcached", b"swapcached_bytes"),
    (b"anon_thp", b"total_rss_huge", b"anon_thp_bytes"),
    (b"file_thp", b"", b"file_thp_bytes"),
    (b"shmem_thp", b"", b"shmem_thp_bytes"),
    (b"kernel", b"", b"kernel_bytes"),
    (b"pagetables", b"", b"pagetables_bytes"),
    (b"slab", b"", b"slab_bytes"),
    (b"pgfault", b"total_pgfault", b"pgfault"),
    (b"pgmajfault", b"total_pgmajfault", b"pgmajfault"),
    (b"pgscan", b"", b"pgscan"),
    (b"pgscan_direct", b"", b"pgscan_direct"),
    (b"pgsteal", b"", b"pgsteal"),
    (b"pgsteal_direct", b"", b"pgsteal_direct"),
    (b"workingset_refault_anon", b"total_workingset_refault_anon", b"workingset_refault_anon"),
    (b"workingset_refault_file", b"total_workingset_refault_file", b"workingset_refault_file"),
    (b"thp_fault_alloc", b"", b"thp_fault_alloc"),
    (b"thp_collapse_alloc", b"", b"thp_collapse_alloc"),
];

/// memory.stat of a control group.
pub(super) fn cgroup_memory(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    let is_v1 = lines(text).any(|line| line.starts_with(b"total_"));
    for line in lines(text) {
        let mut words = Words::new(line);
        let (Some(key), Some(value)) = (words.next(), words.number()) else {
            out.not_understood(line);
            continue;
        };
        let named = |(v2, v1, _): &&(&[u8], &[u8], &[u8])| key == if is_v1 { *v1 } else { *v2 };
        if let Some((_, _, field)) = CGROUP_MEMORY.iter().find(named) {
            out.put(field, value as f64);
        }
    }
}

/// io.stat of a control group, `MAJOR:MINOR rbytes=N wbytes=N rios=N wios=N dbytes=N dios=N` for each device: added up.
pub(super) fn cgroup_io(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    const FIELDS: [(&[u8], &[u8]); 6] = [
        (b"rbytes", b"read_bytes"),
        (b"wbytes", b"write_bytes"),
        (b"rios", b"reads"),
        (b"wios", b"writes"),
        (b"dbytes", b"discard_bytes"),
        (b"dios", b"discards"),
    ];
    let mut sums = [None::<f64>; FIELDS.len()];
    for line in lines(text) {
        for word in Words::new(line).skip(1) {
            let Some((key, value)) =
                word.iter().position(|byte| *byte == b'=').and_then(|at| word.split_at_checked(at))
            else {
                continue;
            };
            let at = FIELDS.iter().position(|(name, _)| *name == key);
            if let (Some(sum), Some(value)) = (at.and_then(|at| sums.get_mut(at)), value.get(1..).and_then(number)) {
                *sum.get_or_insert(0.0) += value as f64;
            }
        }
    }
    for ((_, field), sum) in FIELDS.iter().zip(sums) {
        if let Some(sum) = sum {
            out.put(field, sum);
        }
    }
}

/// blkio.throttle.io_service_bytes_recursive of version 1: `MAJOR:MINOR Read N` and so on for each device, then the total.
pub(super) fn cgroup_io_bytes(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    by_direction(text, out, [b"read_bytes", b"write_bytes", b"discard_bytes"]);
}

/// blkio.throttle.io_serviced_recursive of version 1, likewise.
pub(super) fn cgroup_ios(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    by_direction(text, out, [b"reads", b"writes", b"discards"]);
}

fn by_direction(text: &[u8], out: &mut Collector<'_>, fields: [&[u8]; 3]) {
    let mut sums = [0.0; 3];
    let mut has_devices = false;
    for line in lines(text) {
        let mut words = Words::new(line);
        let (Some(_), Some(direction), Some(value)) = (words.next(), words.next(), words.number()) else { continue };
        has_devices = true;
        let at = [&b"Read"[..], b"Write", b"Discard"].iter().position(|known| *known == direction);
        if let Some(sum) = at.and_then(|at| sums.get_mut(at)) {
            *sum += value as f64;
        }
    }
    if has_devices {
        for (field, sum) in fields.iter().zip(sums) {
            out.put(field, sum);
        }
    }
}

/// memory.events of a control group.
pub(super) fn cgroup_events(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    for line in lines(text) {
        let mut words = Words::new(line);
        match (words.next(), words.number()) {
            (Some(key), Some(value)) => out.put_full(key, "_events", b"", value as f64),
            _ => out.not_understood(line),
        }
    }
}

/// `key: number` on each line: io of a process.
pub(super) fn colon_pairs(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    for line in lines(text) {
        match key_value(line).and_then(|(k, v)| Some((k, number(v.trim_ascii())?))) {
            Some((key, value)) => out.put(key, value as f64),
            None => out.not_understood(line),
        }
    }
}

/// `key: number kB`, or without `kB` for plain numbers: meminfo.
pub(super) fn meminfo(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    for line in lines(text) {
        let Some((key, value)) = key_value(line) else {
            out.not_understood(line);
            continue;
        };
        match amount(value) {
            Some(Amount::Kib(n)) => out.put_full(key, "_bytes", b"", n),
            Some(Amount::Plain(n)) => out.put(key, n),
            None => out.not_understood(line),
        }
    }
}

enum Amount {
    /// In kB; already turned into bytes.
    Kib(f64),
    Plain(f64),
}

fn amount(value: &[u8]) -> Option<Amount> {
    let mut words = Words::new(value);
    let n = words.number()? as f64;
    match words.next() {
        Some(b"kB") => Some(Amount::Kib(n * KIB)),
        None => Some(Amount::Plain(n)),
        Some(_) => None,
    }
}

/// Only the lines in kB: smaps_rollup, whose first line is the address range.
pub(super) fn smaps_rollup(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    for line in lines(text) {
        if let Some((key, value)) = key_value(line)
            && let Some(Amount::Kib(n)) = amount(value)
        {
            out.put_full(key, "_bytes", b"", n);
        }
    }
}

/// The lines in kB, the number of threads and the context switches; the rest of status is not a measurement.
pub(super) fn status(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    for line in lines(text) {
        let Some((key, value)) = key_value(line) else { continue };
        match (key, amount(value)) {
            // A process may call itself "7 kB".
            (b"Name", _) => {}
            (_, Some(Amount::Kib(n))) => out.put_full(key, "_bytes", b"", n),
            (b"Threads", Some(Amount::Plain(n))) => out.put(key, n),
            (key, Some(Amount::Plain(n))) if key.ends_with(b"_ctxt_switches") => out.put(key, n),
            _ => {}
        }
    }
}

/// stat of a process: one line whose second field is the name in brackets, which may itself hold brackets and
/// blanks; fields counted as in proc(5).
pub(super) fn process_stat(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    const FIELDS: [(&[u8], Scale); 8] = [
        (b"minor_faults", Scale::One),
        (b"child_minor_faults", Scale::One),
        (b"major_faults", Scale::One),
        (b"child_major_faults", Scale::One),
        (b"utime_ns", Scale::Tick),
        (b"stime_ns", Scale::Tick),
        (b"child_utime_ns", Scale::Tick),
        (b"child_stime_ns", Scale::Tick),
    ];
    let Some(rest) = text.iter().rposition(|b| *b == b')').and_then(|at| text.get(at + 1..)) else {
        out.not_understood(text);
        return;
    };
    // Field 3 comes first here; minflt is field 10.
    let mut words = Words::new(rest);
    let skipped = words.by_ref().take(7).count();
    if skipped < 7 {
        out.not_understood(text);
        return;
    }
    for ((field, scale), word) in FIELDS.into_iter().zip(words) {
        match number(word) {
            Some(n) => out.put(field, scale.apply(n, out.facts.tick_ns)),
            None => out.not_understood(text),
        }
    }
}

/// The unit of a kernel number.
#[derive(Clone, Copy)]
enum Scale {
    One,
    Sector,
    Tick,
    Milli,
}

impl Scale {
    fn apply(self, n: u64, tick_ns: f64) -> f64 {
        let n = n as f64;
        match self {
            Self::One => n,
            Self::Sector => n * SECTOR,
            Self::Tick => n * tick_ns,
            Self::Milli => n * 1e6,
        }
    }
}

const CPU_FIELDS: [&[u8]; 10] = [
    b"cpu.user_ns",
    b"cpu.nice_ns",
    b"cpu.system_ns",
    b"cpu.idle_ns",
    b"cpu.iowait_ns",
    b"cpu.irq_ns",
    b"cpu.softirq_ns",
    b"cpu.steal_ns",
    b"cpu.guest_ns",
    b"cpu.guest_nice_ns",
];

/// /proc/stat, all of it.
pub(super) fn stat(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    cpu_lines(text, out, |_| true);
    other_stat_lines(text, out);
}

/// /proc/stat without the single CPUs.
pub(super) fn stat_totals(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    cpu_lines(text, out, <[u8]>::is_empty);
    other_stat_lines(text, out);
}

/// The single CPUs of /proc/stat.
pub(super) fn stat_cpus(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    cpu_lines(text, out, |instance| !instance.is_empty());
}

fn cpu_lines(text: &[u8], out: &mut Collector<'_>, wanted: impl Fn(&[u8]) -> bool) {
    for line in lines(text).take_while(|l| l.starts_with(b"cpu")) {
        let mut words = Words::new(line);
        let Some(label) = words.next() else { continue };
        let instance: &[u8] = if label == b"cpu" { b"" } else { label };
        if !wanted(instance) {
            continue;
        }
        for (field, word) in CPU_FIELDS.into_iter().zip(words) {
            match number(word) {
                Some(ticks) => out.put_of(field, instance, Scale::Tick.apply(ticks, out.facts.tick_ns)),
                None => out.not_understood(line),
            }
        }
    }
}

fn other_stat_lines(text: &[u8], out: &mut Collector<'_>) {
    for line in lines(text) {
        let mut words = Words::new(line);
        let field: &[u8] = match words.next() {
            Some(b"intr") => b"stat.interrupts",
            Some(b"ctxt") => b"stat.context_switches",
            Some(b"processes") => b"stat.forks",
            Some(b"procs_running") => b"stat.procs_running",
            Some(b"procs_blocked") => b"stat.procs_blocked",
            _ => continue,
        };
        // The first number of intr is the total; one for each line follows, which interrupts has with names.
        match words.number() {
            Some(n) => out.put(field, n as f64),
            None => out.not_understood(line),
        }
    }
}

/// /proc/schedstat, added up over CPUs. The layout of the cpu lines is the same from version 15 on
/// (kernel/sched/stats.c); the domain lines, which do change, are not read.
pub(super) fn schedstat(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    /// The second number has been 0 since version 15 and has no name.
    const FIELDS: [Option<&[u8]>; 9] = [
        Some(b"yields"),
        None,
        Some(b"schedules"),
        Some(b"goidle"),
        Some(b"wakeups"),
        Some(b"wakeups_local"),
        Some(b"run_ns"),
        Some(b"wait_ns"),
        Some(b"timeslices"),
    ];
    let version = lines(text).find_map(|l| l.strip_prefix(b"version ").and_then(number));
    if version.is_none_or(|v| v < 15) {
        out.not_understood(text);
        return;
    }
    let mut sums = [None::<f64>; FIELDS.len()];
    for line in lines(text).filter(|l| l.starts_with(b"cpu")) {
        for (sum, word) in sums.iter_mut().zip(Words::new(line).skip(1)) {
            match number(word) {
                Some(n) => *sum = Some(sum.unwrap_or(0.0) + n as f64),
                None => out.not_understood(line),
            }
        }
    }
    for (field, sum) in FIELDS.into_iter().zip(sums) {
        if let (Some(field), Some(sum)) = (field, sum) {
            out.put(field, sum);
        }
    }
}

/// /proc/interrupts: a header that names the CPUs, then `label: count...  chip, hwirq, devices`.
pub(super) fn interrupts(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    let mut all = lines(text);
    let cpus = all.next().map_or(0, |header| Words::new(header).count());
    if cpus == 0 {
        out.not_understood(text);
        return;
    }
    for line in all {
        let Some((label, rest)) = key_value(line) else {
            out.not_understood(line);
            continue;
        };
        let Some((sum, rest)) = sum_counts(rest, cpus) else {
            out.not_understood(line);
            continue;
        };
        if number(label).is_some()
            && let Some(device) = devices_of(rest)
        {
            out.put_composed(b"", &[label, b":", device], sum);
        } else {
            out.put_of(b"", label, sum);
        }
    }
}

/// Adds up to `cpus` numbers; what stands behind them. `None` if there is no number at all.
fn sum_counts(rest: &[u8], cpus: usize) -> Option<(f64, &[u8])> {
    let mut words = Words::new(rest);
    let mut sum = None;
    for _ in 0..cpus {
        let mut ahead = words.clone();
        // ERR and MIS have one number however many CPUs there are.
        let Some(word) = ahead.next() else { break };
        if !word.iter().all(u8::is_ascii_digit) {
            break;
        }
        // A count that cannot be held leaves the whole sum unknown.
        sum = Some(sum.unwrap_or(0.0) + number(word)? as f64);
        words = ahead;
    }
    Some((sum?, words.rest()))
}

/// The devices of an interrupt line: what follows the last double blank (kernel/irq/proc.c prints two before the
/// first name and `, ` between names).
fn devices_of(description: &[u8]) -> Option<&[u8]> {
    let text = description.trim_ascii();
    let at = text.windows(2).rposition(|w| w == b"  ")?;
    text.get(at + 2..).filter(|name| !name.is_empty())
}

/// /proc/softirqs: a header, then `NAME: count...`.
pub(super) fn softirqs(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    let mut all = lines(text);
    let cpus = all.next().map_or(0, |header| Words::new(header).count());
    for line in all {
        match key_value(line).and_then(|(label, rest)| Some((label, sum_counts(rest, cpus)?.0))) {
            Some((label, sum)) => out.put(label, sum),
            None => out.not_understood(line),
        }
    }
}

/// /proc/diskstats.
pub(super) fn diskstats(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    const FIELDS: [(&[u8], Scale); 17] = [
        (b"reads", Scale::One),
        (b"reads_merged", Scale::One),
        (b"read_bytes", Scale::Sector),
        (b"read_ns", Scale::Milli),
        (b"writes", Scale::One),
        (b"writes_merged", Scale::One),
        (b"write_bytes", Scale::Sector),
        (b"write_ns", Scale::Milli),
        (b"in_flight", Scale::One),
        (b"busy_ns", Scale::Milli),
        (b"weighted_ns", Scale::Milli),
        (b"discards", Scale::One),
        (b"discards_merged", Scale::One),
        (b"discard_bytes", Scale::Sector),
        (b"discard_ns", Scale::Milli),
        (b"flushes", Scale::One),
        (b"flush_ns", Scale::Milli),
    ];
    for line in lines(text) {
        let mut words = Words::new(line);
        let device = words.by_ref().nth(2);
        // Fewer than 11 numbers are the short partition lines of kernels before 2.6.25, where they mean other things.
        let (Some(device), true) = (device, words.clone().count() >= 11) else {
            out.not_understood(line);
            continue;
        };
        for ((field, scale), word) in FIELDS.into_iter().zip(words) {
            match number(word) {
                Some(n) => out.put_of(field, device, scale.apply(n, out.facts.tick_ns)),
                None => out.not_understood(line),
            }
        }
    }
}

/// /proc/net/dev: two header lines with bars, then `name: 8 numbers received, 8 sent`.
pub(super) fn net_dev(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    const FIELDS: [&[u8]; 16] = [
        b"rx_bytes",
        b"rx_packets",
        b"rx_errs",
        b"rx_drop",
        b"rx_fifo",
        b"rx_frame",
        b"rx_compressed",
        b"rx_multicast",
        b"tx_bytes",
        b"tx_packets",
        b"tx_errs",
        b"tx_drop",
        b"tx_fifo",
        b"tx_colls",
        b"tx_carrier",
        b"tx_compressed",
    ];
    for line in lines(text).filter(|l| !l.contains(&b'|')) {
        let Some((name, rest)) = key_value(line) else {
            out.not_understood(line);
            continue;
        };
        for (field, word) in FIELDS.into_iter().zip(Words::new(rest)) {
            match number(word) {
                Some(n) => out.put_of(field, name, n as f64),
                None => out.not_understood(line),
            }
        }
    }
}

/// A file of /proc/pressure: `some avg10=... total=<us>`.
pub(super) fn pressure(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    for line in lines(text) {
        let mut words = Words::new(line);
        let field: &[u8] = match words.next() {
            Some(b"some") => b"some_ns",
            Some(b"full") => b"full_ns",
            _ => continue,
        };
        match words.find_map(|w| w.strip_prefix(b"total=")).and_then(number) {
            Some(us) => out.put(field, us as f64 * 1e3),
            None => out.not_understood(line),
        }
    }
}

/// /proc/buddyinfo: `Node 0, zone   Normal   1 2 3...`, one number for each order.
pub(super) fn buddyinfo(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    const ORDERS: [&[u8]; 16] =
        [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9", b"10", b"11", b"12", b"13", b"14", b"15"];
    for line in lines(text) {
        let mut words = Words::new(line);
        let (Some(b"Node"), Some(node), Some(b"zone"), Some(zone)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            out.not_understood(line);
            continue;
        };
        let node = node.strip_suffix(b",").unwrap_or(node);
        for (order, word) in ORDERS.into_iter().zip(words) {
            match number(word) {
                Some(n) => out.put_composed(b"free_blocks", &[node, b"/", zone, b"/", order], n as f64),
                None => out.not_understood(line),
            }
        }
    }
}

/// /proc/slabinfo version 2: `name active_objs num_objs objsize objperslab pagesperslab : tunables ... : slabdata
/// active_slabs num_slabs ...`.
pub(super) fn slabinfo(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    for line in lines(text).filter(|l| !l.starts_with(b"#") && !l.starts_with(b"slabinfo ")) {
        match slab_line(line) {
            Some(slab) => {
                out.put_of(b"active_bytes", slab.name, slab.active_bytes);
                if let Some(pages) = slab.pages {
                    out.put_of(b"total_bytes", slab.name, pages * out.facts.page_size);
                }
            }
            None => out.not_understood(line),
        }
    }
}

struct SlabLine<'a> {
    name: &'a [u8],
    active_bytes: f64,
    pages: Option<f64>,
}

fn slab_line(line: &[u8]) -> Option<SlabLine<'_>> {
    let mut words = Words::new(line);
    let name = words.next()?;
    let active = words.number()? as f64;
    let _num = words.number()?;
    let size = words.number()? as f64;
    let _per_slab = words.number()?;
    let per_slab_pages = words.number()? as f64;
    let slabs = find(words.rest(), b": slabdata").and_then(|at| words.rest().get(at + 10..)).and_then(|rest| {
        let mut words = Words::new(rest);
        let _active = words.number()?;
        words.number()
    });
    Some(SlabLine { name, active_bytes: active * size, pages: slabs.map(|n| n as f64 * per_slab_pages) })
}

/// The first number of the file, under the tag's field and instance.
pub(super) fn one_number(text: &[u8], tag: &Tag, out: &mut Collector<'_>) {
    match Words::new(text).number() {
        Some(n) => out.put_of(tag.field.as_bytes(), &tag.instance, n as f64),
        None => out.not_understood(text),
    }
}

/// /proc/loadavg: `0.31 1.13 0.80 2/105 8784`. The last number is a process id, no measurement.
pub(super) fn loadavg(text: &[u8], _: &Tag, out: &mut Collector<'_>) {
    const AVERAGES: [&[u8]; 3] = [b"1min", b"5min", b"15min"];
    let mut words = Words::new(text);
    for (field, word) in AVERAGES.into_iter().zip(words.by_ref()) {
        match fraction(word) {
            Some(x) => out.put(field, x),
            None => out.not_understood(text),
        }
    }
    let Some(word) = words.next() else { return };
    let mut halves = word.splitn(2, |b| *b == b'/');
    match (halves.next().and_then(number), halves.next().and_then(number)) {
        (Some(runnable), Some(tasks)) => {
            out.put(b"runnable", runnable as f64);
            out.put(b"tasks", tasks as f64);
        }
        _ => out.not_understood(text),
    }
}
