//! The machine the tests run on: what the sampler says lies between what the files said before and after.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagelab_vocab::metrics::{MetricKind, metric};

use super::super::{Emit, Sampler};
use super::{Key, Taken, take};

/// So long after the last sample that every source is due, however slow this machine is at the moment.
const LATER: i64 = 100_000_000_000;

/// With smaps_rollup of every process: this one may have more pages than are walked unasked.
fn sampler(target: Option<u32>) -> Sampler {
    let mut sampler = Sampler::new(Path::new("/"), target);
    sampler.walk_all();
    sampler
}

/// `key value` of a file, read by other means than the sampler's.
fn numbers(path: &str) -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(path).expect("a file of this host");
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once([' ', ':'])?;
            Some((name.to_owned(), rest.split_whitespace().next()?.parse().ok()?))
        })
        .collect()
}

/// The registry is the only list of names; a series that it does not know would be lost to analysis.
#[test]
fn every_series_of_this_host_is_in_the_registry() {
    let taken = take(&mut sampler(Some(std::process::id())), 0, Emit::All);
    assert!(taken.rows.len() > 400, "only {} series", taken.rows.len());
    for (name, instance) in taken.rows.keys() {
        let info = metric(name).unwrap_or_else(|| panic!("{name} is not in the registry"));
        assert!(
            info.instance.is_some() || instance.is_none(),
            "{name} has the instance {instance:?} and the registry says there is none"
        );
        if info.instance.is_some() && !name.starts_with("cpu.") {
            assert!(instance.is_some(), "{name} lacks its instance: {:?}", info.instance);
        }
    }
    for prefix in
        ["vmstat.thp_", "meminfo.", "cpu.", "stat.", "interrupts", "softirqs.", "disk.", "net.", "buddy.", "loadavg."]
    {
        assert!(taken.rows.keys().any(|(name, _)| name.starts_with(prefix)), "nothing from {prefix}");
    }
    for prefix in ["target.io.", "target.stat.", "target.status.", "target.smaps.", "fs.file_nr"] {
        assert!(taken.rows.keys().any(|(name, _)| name.starts_with(prefix)), "nothing from {prefix}");
    }
}

/// File, sampler, file again: a counter lies between.
#[test]
fn counters_of_vmstat_lie_between_two_readings_of_the_file() {
    let mut sampler = sampler(None);
    for round in 0..5 {
        let before = numbers("/proc/vmstat");
        let taken = take(&mut sampler, round * LATER, Emit::All);
        let after = numbers("/proc/vmstat");
        let mut compared = 0;
        for (field, low) in &before {
            let name = format!("vmstat.{field}");
            if metric(&name).is_none_or(|m| m.kind != MetricKind::Counter) {
                continue;
            }
            let value = taken.get(&name, None).unwrap_or_else(|| panic!("{name} is in the file"));
            let high = after[field];
            assert!(*low <= value && value <= high, "{name}: {low} then {value} then {high}");
            compared += 1;
        }
        assert!(compared > 50, "only {compared} counters compared");
    }
}

/// Levels move both ways; those that stand still for the moment must come out exactly.
#[test]
fn levels_that_stand_still_are_exact() {
    let mut sampler = sampler(None);
    let mut compared = 0;
    for round in 0..5 {
        let before = numbers("/proc/meminfo");
        let taken = take(&mut sampler, round * LATER, Emit::All);
        let after = numbers("/proc/meminfo");
        for (field, kib) in before.iter().filter(|(field, kib)| after.get(*field) == Some(*kib)) {
            let plain = field.to_lowercase().replace('(', "_").replace(')', "");
            let bytes = taken.get(&format!("meminfo.{plain}_bytes"), None);
            let number = taken.get(&format!("meminfo.{plain}"), None);
            let steady = ["memtotal", "swaptotal", "directmap", "vmalloctotal", "hugepagesize"];
            if steady.iter().any(|s| plain.starts_with(s)) {
                assert_eq!(bytes, Some(kib * 1024.0), "{field}");
                compared += 1;
            }
            assert!(bytes.is_some() != number.is_some(), "{field} must come under exactly one name");
        }
    }
    assert!(compared > 10);
}

/// The kernel adds up nanoseconds and prints ticks rounded down, and reads the CPUs after their sum. So the single CPUs of
/// one reading are at most the sum of the next, and a sum at most the single CPUs of the next and a tick for each.
#[test]
fn single_cpus_add_up_to_the_sum() {
    let mut sampler = sampler(None);
    let tick = super::super::Facts::of_this_host().tick_ns;
    let samples: Vec<Taken> = (0..5).map(|n| take(&mut sampler, n * LATER, Emit::All)).collect();
    for pair in samples.windows(2) {
        for field in ["cpu.user_ns", "cpu.nice_ns", "cpu.system_ns", "cpu.irq_ns", "cpu.softirq_ns", "cpu.steal_ns"] {
            let each = |s: &Taken| {
                let of = |(k, v): (&Key, &Option<f64>)| (k.0 == field && k.1.is_some()).then_some((*v)?);
                s.rows.iter().filter_map(of).fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0))
            };
            let total = |s: &Taken| s.get(field, None).expect("the sum is always there");
            let (first, cpus) = each(&pair[0]);
            assert!(cpus >= 1.0);
            assert!(first <= total(&pair[1]), "{field}: {first} in CPUs, then {} in sum", total(&pair[1]));
            let second = each(&pair[1]).0 + cpus * tick;
            assert!(total(&pair[0]) <= second, "{field}: {} in sum, then {second} in CPUs", total(&pair[0]));
        }
    }
}

/// All interrupts of a kind are in the sum that the kernel keeps itself.
#[test]
fn numbered_interrupts_are_within_the_total() {
    let mut sampler = sampler(None);
    let first = take(&mut sampler, 0, Emit::All);
    let second = take(&mut sampler, LATER, Emit::All);
    let numbered: f64 = first
        .rows
        .iter()
        .filter(|((name, instance), _)| {
            name == "interrupts" && instance.as_ref().is_some_and(|i| i.starts_with(|c: char| c.is_ascii_digit()))
        })
        .filter_map(|(_, value)| *value)
        .sum();
    let total = second.get("stat.interrupts", None).expect("/proc/stat has the total");
    assert!(0.0 < numbered && numbered <= total, "{numbered} numbered interrupts of {total}");
}

/// Touching memory shows where it must: in the process's faults and memory, and in the host's faults.
#[test]
fn touched_pages_show_in_every_place() {
    const PAGES: usize = 16_384;
    let page = rustix_page_size();
    let mut sampler = sampler(Some(std::process::id()));
    let before = take(&mut sampler, 0, Emit::All);
    let memory = SmallPages::map(PAGES * page);
    memory.touch(page);
    let after = take(&mut sampler, LATER, Emit::All);
    let grown = |name: &str| {
        let of = |s: &Taken| s.get(name, None).unwrap_or_else(|| panic!("{name} is missing"));
        of(&after) - of(&before)
    };
    for name in ["target.stat.minor_faults", "vmstat.pgfault"] {
        assert!(grown(name) >= PAGES as f64, "{name} grew by {} for {PAGES} pages", grown(name));
    }
    // Other tests of this process may give memory back meanwhile, far less than a quarter of this.
    let most = (PAGES * page) as f64 * 0.75;
    for name in ["target.status.rssanon_bytes", "target.status.vmrss_bytes", "target.smaps.anonymous_bytes"] {
        assert!(grown(name) >= most, "{name} grew by {} for {} bytes", grown(name), PAGES * page);
    }
    assert!(after.get("target.stat.utime_ns", None) >= before.get("target.stat.utime_ns", None));
}

fn rustix_page_size() -> usize {
    super::super::Facts::of_this_host().page_size as usize
}

/// Anonymous memory that the kernel is advised to map in base pages.
struct SmallPages {
    start: *mut u8,
    len: usize,
}

impl SmallPages {
    fn map(len: usize) -> Self {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, flags) }.expect("memory can be mapped");
        // SAFETY: the range is the mapping just made. Kernels without THP refuse the advice and need none.
        let _ = unsafe { madvise(start, len, Advice::LinuxNoHugepage) };
        Self { start: start.cast(), len }
    }

    fn touch(&self, page: usize) {
        for offset in (0..self.len).step_by(page) {
            // SAFETY: offset is below len and the mapping is writable and ours alone.
            unsafe { self.start.add(offset).write_volatile(1) };
        }
    }
}

impl Drop for SmallPages {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping that `map` made; nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.len) };
    }
}

/// A child that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_ends_ends_its_series_and_nothing_else() {
    let mut child = Killed(Command::new("sleep").arg("1000").spawn().expect("sleep is everywhere"));
    let mut sampler = sampler(Some(child.0.id()));
    let refused = sampler.refused().len();
    let alive = take(&mut sampler, 0, Emit::Changed);
    let of_target: Vec<&Key> = alive.rows.keys().filter(|(name, _)| name.starts_with("target.")).collect();
    assert!(of_target.len() > 30, "only {of_target:?}");

    child.0.kill().expect("a child can be killed");
    child.0.wait().expect("a child can be waited for");
    let dead = take(&mut sampler, LATER, Emit::Changed);
    for (name, instance) in of_target {
        assert!(dead.ends(name, instance.as_deref()), "{name} goes on after the process has ended");
    }
    let later = take(&mut sampler, 2 * LATER, Emit::All);
    assert!(later.rows.keys().all(|(name, _)| !name.starts_with("target.")));
    assert!(later.rows.len() > 400, "the host goes on");
    assert_eq!(sampler.refused().len(), refused, "an end is no refusal");
    assert_eq!(sampler.sources().filter(|s| s.ended).count(), 4);
}

/// A recorder attaches before the command is executed. An open smaps_rollup stays with the address space of its opening
/// and would be empty ever after.
#[test]
fn the_target_is_followed_through_exec() {
    let mut command = Command::new("sh");
    let child = command.args(["-c", "read go; exec sleep 1000"]).stdin(Stdio::piped()).spawn();
    let mut child = Killed(child.expect("sh is everywhere"));
    let mut sampler = sampler(Some(child.0.id()));
    assert!(take(&mut sampler, 0, Emit::All).get("target.smaps.rss_bytes", None).is_some_and(|b| b > 0.0));

    let comm = format!("/proc/{}/comm", child.0.id());
    child.0.stdin.as_mut().expect("piped").write_all(b"go\n").expect("sh reads");
    let started = Instant::now();
    while std::fs::read_to_string(&comm).is_ok_and(|c| c.trim() != "sleep") {
        assert!(started.elapsed() < Duration::from_mins(1), "sh did not exec");
        std::thread::sleep(Duration::from_millis(2));
    }
    // The name changes before the libraries are loaded: what is compared must have come to rest.
    let status = format!("/proc/{}/status", child.0.id());
    for round in 1.. {
        let before = numbers(&status)["VmSize"] * 1024.0;
        let taken = take(&mut sampler, round * LATER, Emit::All);
        if before == numbers(&status)["VmSize"] * 1024.0 {
            assert_eq!(taken.get("target.status.vmsize_bytes", None), Some(before));
            let rss = taken.get("target.smaps.rss_bytes", None);
            assert!(rss.is_some_and(|b| b > 0.0), "the new program has memory, not {rss:?}");
            break;
        }
    }
}

/// Asked is not got: each file of the list is either read or refused with a reason.
#[test]
fn every_source_is_read_or_refused_with_a_reason() {
    let mut sampler = sampler(Some(std::process::id()));
    take(&mut sampler, 0, Emit::All);
    let read: Vec<&str> = sampler.sources().filter(|s| s.reads == 1 && s.rows > 0).map(|s| s.source).collect();
    let refused: Vec<&str> = sampler.refused().iter().map(|r| r.source.as_str()).collect();
    for source in [
        "/proc/vmstat",
        "/proc/schedstat",
        "/proc/slabinfo",
        "/proc/pressure/memory",
        "/proc/pressure/irq",
        "/sys/devices/system/cpu/cpu<N>/cpufreq/scaling_cur_freq",
        "/sys/devices/system/node/node<N>/numastat",
        "/sys/kernel/mm/hugepages/hugepages-<size>/",
        "/sys/kernel/mm/transparent_hugepage/hugepages-<size>/stats/",
        "/proc/<pid>/io",
        "/proc/<pid>/smaps_rollup",
    ] {
        assert!(read.contains(&source) != refused.contains(&source), "{source}: read {read:?}, refused {refused:?}");
    }
    for refused in sampler.refused() {
        assert!(refused.reason.len() > 20, "{refused:?}");
    }
}

/// A control group with a quota, removed at the end.
struct Quota(PathBuf);

impl Quota {
    /// A third of a CPU.
    fn new() -> Self {
        let name = format!("pagelab-quota-{}", std::process::id());
        let (v1, v2) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let is_v1 = v1.join("cpu.cfs_quota_us").exists() || v1.join("cgroup.procs").exists();
        let folder = if is_v1 { v1 } else { v2 }.join(name);
        let (file, quota) = if is_v1 { ("cpu.cfs_quota_us", "30000") } else { ("cpu.max", "30000 100000") };
        std::fs::create_dir(&folder).expect("root makes groups");
        let made = Self(folder);
        std::fs::write(made.0.join(file), quota).expect("needed: a CPU controller for groups");
        made
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // The last process may not have left it yet.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn throttling_is_what_the_group_of_the_process_has() {
    let quota = Quota::new();
    let script = "echo $$ > \"$1/cgroup.procs\"; echo in; while :; do :; done";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(&quota.0).stdout(Stdio::piped());
    let mut child = Killed(command.spawn().expect("sh is everywhere"));
    let mut said = [0; 3];
    child.0.stdout.as_mut().expect("piped").read_exact(&mut said).expect("it is in the group");
    let mut sampler = sampler(Some(child.0.id()));
    take(&mut sampler, 0, Emit::All);
    let stat = format!("{}/cpu.stat", quota.0.display());
    let first = numbers(&stat);
    let (field, scale) =
        if first.contains_key("throttled_usec") { ("throttled_usec", 1e3) } else { ("throttled_time", 1.0) };
    // On a busy machine the group is not often given more than its quota.
    let deadline = Instant::now() + Duration::from_secs(30);
    while numbers(&stat)[field] * scale < 1e8 || numbers(&stat)["nr_throttled"] < 2.0 {
        assert!(Instant::now() < deadline, "the group is not throttled: {:?}", numbers(&stat));
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = numbers(&stat);
    let taken = take(&mut sampler, LATER, Emit::All);
    let after = numbers(&stat);
    let between = |metric: &str, field: &str, scale: f64| {
        let value = taken.get(metric, None).unwrap_or_else(|| panic!("{metric}"));
        assert!(
            (before[field] * scale..=after[field] * scale).contains(&value),
            "{metric} {value}: {before:?} {after:?}"
        );
        value
    };
    assert!(between("cgroup.cpu.throttled_periods", "nr_throttled", 1.0) >= 2.0);
    assert!(between("cgroup.cpu.throttled_ns", field, scale) >= 1e8);
}
