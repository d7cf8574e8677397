//! The library's reports on 29 situations, compared with `/proc/PID/pagemap`, `/proc/kpageflags`, `/proc/PID/maps` and
//! `/proc/PID/smaps`, read by another process while the situation stands.
//!
//! kpageflags describes the memory, not how it is mapped. So a slot counts as one 2 MiB page for it only if all 512 frames are there,
//! follow each other from a multiple of 512 on, belong to a huge page, and lie in one mapping. (Entries that were split and whose
//! mapping has grown together again look the same; one situation leaves such, and smaps counts it right.)

mod common;

use std::fs;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{Cgroup, Pool, Setting};

const SLOT: u64 = 2 << 20;
const PAGE: u64 = 4096;
const FLAG_HUGE: u64 = 1 << 17;
const FLAG_THP: u64 = 1 << 22;

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";

/// The example program, which cargo builds together with the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().expect("own path");
    let path = tests.parent().and_then(|deps| deps.parent()).expect("target").join("examples/situations");
    assert!(path.is_file(), "{} is not built; type: cargo build -p pagelab-mapping --examples", path.display());
    path
}

/// A situation that stands until this is dropped.
struct Standing {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    line: String,
}

impl Standing {
    fn of(name: &str, cgroup: Option<&Cgroup>) -> Self {
        let mut command = Command::new(program());
        command.args([name, "--hold"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(cgroup) = cgroup {
            cgroup.enter(&mut command);
        }
        let mut child = command.spawn().expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert!(line.starts_with('{'), "{name} said {line:?}");
        Self { child, _stdout: stdout, line }
    }

    /// The slots that the library reported: address, bytes, `got`, `reason`.
    fn slots(&self) -> Vec<(u64, u64, String, String)> {
        let (_, slots) = self.line.split_once("\"slots\":[").expect("slots");
        let slots = slots.split_once(']').expect("an end").0;
        slots
            .split("},")
            .map(|slot| {
                let value = |key: &str| {
                    let (_, rest) = slot.split_once(&format!("\"{key}\":")).expect("the key");
                    rest.split([',', '}']).next().unwrap_or_default().trim_matches('"').to_owned()
                };
                let number = |key: &str| value(key).parse().expect("a number");
                (number("address"), number("bytes"), value("got"), value("reason"))
            })
            .collect()
    }

    fn proc(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.child.id()))
    }

    /// The mappings of the process: start and end.
    fn mappings(&self) -> Vec<(u64, u64)> {
        let text = fs::read_to_string(self.proc("maps")).expect("maps");
        let number = |word: &str| u64::from_str_radix(word, 16).expect("an address");
        text.lines()
            .filter_map(|line| line.split(' ').next()?.split_once('-'))
            .map(|(start, end)| (number(start), number(end)))
            .collect()
    }

    /// `2M`, `base` or `null` by the frames.
    fn by_frames(&self, address: u64, bytes: u64) -> &'static str {
        let pagemap = File::open(self.proc("pagemap")).expect("pagemap");
        let kpageflags = File::open("/proc/kpageflags").expect("kpageflags");
        let word = |file: &File, index: u64| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, index * 8).expect("an entry");
            u64::from_ne_bytes(bytes)
        };
        let entries = (address / PAGE..(address + bytes) / PAGE).map(|page| word(&pagemap, page));
        let frames: Vec<u64> = entries.filter(|entry| entry >> 63 == 1).map(|entry| entry & ((1 << 55) - 1)).collect();
        let Some(first) = frames.first() else { return "null" };
        assert_ne!(*first, 0, "frames are hidden: this test needs root");
        let in_one_mapping = self.mappings().iter().any(|(start, end)| *start <= address && address + bytes <= *end);
        let one_huge_page = bytes == SLOT
            && frames.len() == 512
            && first % 512 == 0
            && frames.iter().zip(*first..).all(|(frame, expected)| *frame == expected)
            && frames.iter().all(|frame| word(&kpageflags, *frame) & (FLAG_HUGE | FLAG_THP) != 0);
        if one_huge_page && in_one_mapping { "2M" } else { "base" }
    }

    /// Bytes in 2 MiB pages between two addresses, by smaps.
    fn huge_bytes_by_smaps(&self, low: u64, high: u64) -> u64 {
        const KEYS: [&str; 4] = ["AnonHugePages:", "ShmemPmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"];
        let text = fs::read_to_string(self.proc("smaps")).expect("smaps");
        let (mut inside, mut kib) = (false, 0);
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(key) = words.next() else { continue };
            if let Some((start, _)) = key.split_once('-') {
                inside = u64::from_str_radix(start, 16).is_ok_and(|start| (low..high).contains(&start));
            } else if inside && KEYS.contains(&key) {
                kib += words.next().and_then(|kib| kib.parse::<u64>().ok()).expect("kB");
            }
        }
        kib << 10
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        _ = self.child.wait();
    }
}

/// Plays a situation; what the library tells must be what the frames and smaps say, and the reasons must be `reasons`.
fn check_in(name: &str, reasons: &[&str], cgroup: Option<&Cgroup>) {
    let standing = Standing::of(name, cgroup);
    let slots = standing.slots();
    let told: Vec<&str> = slots.iter().map(|slot| slot.3.as_str()).collect();
    assert_eq!(told, reasons, "{name}: {}", standing.line);
    for (address, bytes, got, reason) in &slots {
        assert_eq!(got, standing.by_frames(*address, *bytes), "{name}, slot {address:#x}: {}", standing.line);
        assert_eq!(got == "2M", reason == "null", "{name}: a reason where there is less, and only there");
    }
    let huge = slots.iter().filter(|slot| slot.2 == "2M").count() as u64 * SLOT;
    let (low, high) = (slots[0].0, slots.last().map_or(0, |last| last.0 + last.1));
    assert_eq!(standing.huge_bytes_by_smaps(low, high), huge, "{name}: {}", standing.line);
}

fn check(name: &str, reasons: &[&str]) {
    check_in(name, reasons, None);
}

const NONE: &str = "null";

/// What the situations expect, whatever this host's settings are: THP by advice, and khugepaged asleep, which otherwise gathers the
/// base pages that are looked for.
#[allow(dead_code)] // Kept for what dropping them does.
struct Calm {
    settings: [Setting; 3],
    /// khugepaged wakes when the first process asks for huge pages; this is the first, and it has nothing to gather.
    first: Standing,
}

fn calm() -> Calm {
    let enabled = Setting::set(ENABLED, "madvise");
    let first = Standing::of("thp_advised", None);
    let khugepaged = |name, value| Setting::set(&format!("{KHUGEPAGED}/{name}"), value);
    // Setting the sleep wakes it once, for one page; then it sleeps.
    Calm { settings: [enabled, khugepaged("pages_to_scan", "1"), khugepaged("scan_sleep_millisecs", "600000")], first }
}

#[test]
#[ignore = "sets THP to madvise"]
fn host_anonymous_memory() {
    let _calm = calm();
    check("thp_advised", &[NONE; 4]);
    check("thp_any_if_madvise", &["thp_only_by_advice"; 4]);
    check("thp_advised_against", &["advised_against"; 4]);
    check("thp_off_for_process", &["disabled_for_process"; 4]);
    check("untouched", &["not_touched"; 4]);
    check("shifted", &["leaves_mapping", NONE, NONE, NONE, "leaves_mapping"]);
    check("too_small", &["leaves_mapping"]);
    check("earlier_entry", &[NONE, "earlier_base_entries", NONE, "earlier_base_entries"]);
    check("collapse", &["earlier_base_entries", NONE, NONE, "earlier_base_entries"]);
    check("split_by_munmap", &[NONE, "split_by_unmap", NONE, NONE]);
    check("split_by_mprotect", &[NONE, "split_by_protection", NONE, NONE]);
    check("split_by_advice", &[NONE, "split_mapping", NONE, NONE]);
    // The frames still lie as one huge page does; smaps and the library say how they are mapped.
    let split = Standing::of("entries_split", None);
    let told: Vec<String> = split.slots().into_iter().map(|slot| slot.3).collect();
    assert_eq!(told, [NONE, "entries_split", NONE, NONE], "{}", split.line);
    let low = split.slots()[0].0;
    assert_eq!(split.huge_bytes_by_smaps(low, low + 4 * SLOT), 3 * SLOT);
    check("fork_and_write", &[NONE, "copied_after_fork", NONE, NONE]);
}

#[test]
#[ignore = "sets THP to never and always"]
fn host_transparent_huge_pages_off_and_on() {
    let never = Setting::set(ENABLED, "never");
    check("thp_advised_if_never", &["thp_never"; 4]);
    drop(never);
    let _always = Setting::set(ENABLED, "always");
    check("thp_any_if_always", &[NONE; 4]);
}

#[test]
#[ignore = "mounts tmpfs in a name space of its own, sets THP to madvise"]
fn host_tmpfs() {
    let _calm = calm();
    check("tmpfs_never", &["file_system_never"; 4]);
    check("tmpfs_always", &[NONE; 4]);
    check("tmpfs_within_size", &[NONE; 4]);
    check("tmpfs_advise", &[NONE; 4]);
    check("tmpfs_advise_unadvised", &["thp_only_by_advice"; 4]);
    check("tmpfs_shifted", &["leaves_mapping", "not_aligned", "not_aligned", "not_aligned", "leaves_mapping"]);
    check("tmpfs_written_before", &[NONE, "file_in_base_pages", NONE, NONE]);
    check("tmpfs_file_ends", &[NONE, NONE, NONE, "beyond_file_size"]);
    check("tmpfs_private_write", &["not_touched", "copied_on_write", "not_touched", "not_touched"]);
}

#[test]
#[ignore = "changes the hugetlb pool"]
fn host_the_pool() {
    let pool = Pool::of(4);
    check("pool", &[NONE; 4]);
    drop(pool);
    let _pool = Pool::of(0);
    check("pool_empty", &["pool"; 4]);
}

#[test]
#[ignore = "changes the hugetlb pool, makes a control group"]
fn host_the_pool_under_a_limit() {
    let _pool = Pool::of(4);
    let Some(cgroup) = Cgroup::with("/sys/fs/cgroup/unified", "hugetlb.2MB.max", 4 << 20)
        .or_else(|| Cgroup::with("/sys/fs/cgroup", "hugetlb.2MB.max", 4 << 20))
    else {
        panic!("found no hugetlb controller of cgroup v2, needed one; type: echo +hugetlb > .../cgroup.subtree_control")
    };
    check_in("pool_limited_by_cgroup", &[NONE, NONE, "hugetlb_cgroup_limit", "hugetlb_cgroup_limit"], Some(&cgroup));
    let said = Standing::of("pool_limited_by_cgroup", Some(&cgroup)).line.clone();
    assert!(
        said.contains("no memory behind offset 4194304") && said.contains("hugetlb.2MB.max: 4194304 bytes"),
        "{said}"
    );
}

#[test]
#[ignore = "makes a control group, sets THP to madvise"]
fn host_memory_under_a_limit() {
    let _calm = calm();
    let Some(cgroup) = Cgroup::with("/sys/fs/cgroup/memory", "memory.limit_in_bytes", 16 << 20)
        .or_else(|| Cgroup::with("/sys/fs/cgroup", "memory.max", 16 << 20))
    else {
        panic!("found no memory controller, needed one")
    };
    let standing = Standing::of("memory_limited_by_cgroup", Some(&cgroup));
    let slots = standing.slots();
    let huge = slots.iter().filter(|slot| slot.2 == "2M").count();
    // 16 MiB hold at most 8 of the 16 slots as huge pages; the program itself takes some.
    assert!((1..=8).contains(&huge), "{}", standing.line);
    for (address, bytes, got, reason) in &slots {
        assert_eq!(got, standing.by_frames(*address, *bytes), "{}", standing.line);
        assert_eq!(reason, if got == "2M" { NONE } else { "cgroup_limit" }, "{}", standing.line);
    }
}
