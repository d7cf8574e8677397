//! `pagelab doctor`: its report on this host and on processes, as root and as an ordinary user, and that it changes
//! nothing.

use crate::common;

use std::fs;
use std::path::Path;

use common::{as_ordinary_user, is_root, json, pagelab, run, scratch, stderr};
use pagelab_host::guard::{Guard, GuardOptions};
use serde_json::Value;

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

fn read(path: &str) -> String {
    fs::read_to_string(path).expect("this kernel has it").trim().to_owned()
}

/// The document and the exit status, which is 1 if and only if there is a problem.
fn doctor(arguments: &[&str]) -> Value {
    let output = pagelab().arg("doctor").arg("--json").args(arguments).output().expect("it starts");
    let document = json(&output);
    let problems = document["findings"].as_array().expect("a list").iter().any(|one| one["level"] == "problem");
    assert_eq!(output.status.code(), Some(i32::from(problems)), "{document:#}");
    document
}

fn finding<'a>(document: &'a Value, id: &str) -> Option<&'a Value> {
    document["findings"].as_array().expect("a list").iter().find(|one| one["id"] == id)
}

/// Bytes in the kernel's lists of free blocks: a line is a zone, a column the blocks of one page, two, four...
fn listed_bytes() -> u64 {
    let blocks = |line: &str| -> u64 {
        let counts = line.split_whitespace().skip(4).map(|count| count.parse::<u64>().expect("a number"));
        counts.enumerate().map(|(order, count)| count << order).sum()
    };
    read("/proc/buddyinfo").lines().map(blocks).sum::<u64>() * 4096
}

/// `MemFree` in KiB.
fn free_kib() -> u64 {
    let text = read("/proc/meminfo");
    let value = text.lines().find_map(|line| line.strip_prefix("MemFree:")?.trim().strip_suffix("kB"));
    value.and_then(|kib| kib.trim().parse().ok()).expect("MemFree")
}

#[test]
fn what_is_said_of_the_host_is_what_the_kernel_says() {
    let document = doctor(&[]);
    for key in ["findings", "slots", "regions"] {
        assert!(document[key].is_array(), "{key} is of the document's form");
    }
    for one in document["findings"].as_array().expect("a list") {
        for key in ["id", "level", "found", "needed", "why", "fix"] {
            assert!(one.get(key).is_some_and(|value| value.is_string() || key == "fix"), "{key}: {one}");
        }
    }
    let settings = &document["host"]["settings"];
    let chosen = read(THP).split(['[', ']']).nth(1).expect("one word is chosen").to_owned();
    assert_eq!(settings["thp.enabled"]["value"], chosen);
    assert_eq!(finding(&document, "thp.by_advice").is_some(), chosen == "madvise", "{document:#}");
    let free_bytes = document["host"]["free_memory"]["free_bytes"].as_u64().expect("buddyinfo is there for all");
    // Others work meanwhile. MemFree may be far more than the lists of free blocks hold: pages that the kernel has not made
    // ready since it booted (`deferred_init=lazy`) are free, and in no list. It is never much less.
    let (listed_bytes, free_kib) = (listed_bytes(), free_kib());
    assert!(free_bytes.abs_diff(listed_bytes) < listed_bytes / 4, "{free_bytes} bytes, {listed_bytes} in buddyinfo");
    assert!(free_bytes < (free_kib << 10) / 4 * 5, "{free_bytes} bytes, MemFree {free_kib} kB");
    let huge = document["host"]["free_memory"]["huge_pages_now"].as_u64().expect("a number");
    assert!(huge << 21 <= free_bytes, "{huge} pages of 2 MiB in {free_bytes} bytes");
}

#[test]
fn people_get_text_with_the_commands_in_it() {
    let output = pagelab().arg("doctor").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in ["HOST ", "THP ", "POOL ", "FREE ", "CAN "] {
        assert!(text.lines().any(|line| line.starts_with(word)), "{word:?} is missing in {text}");
    }
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    run(pagelab().args(["doctor", "--no-such-flag"]), 2);
}

/// An ordinary user learns which parts only root may see, and what is needed.
#[test]
fn an_ordinary_user_is_told_what_cannot_be_had() {
    if !is_root() {
        return;
    }
    let (_dir, mut command) = as_ordinary_user();
    let document = json(&command.args(["doctor", "--json"]).output().expect("setpriv"));
    let ability = |document: &Value, name: &str| {
        let all = document["host"]["abilities"].as_array().expect("a list").clone();
        all.into_iter().find(|one| one["name"] == name).expect("named")
    };
    for name in ["bpf", "frame_flags", "settings"] {
        let (theirs, ours) = (ability(&document, name), ability(&doctor(&[]), name));
        assert_eq!((&theirs["possible"], &ours["possible"]), (&false.into(), &true.into()), "{theirs} {ours}");
        assert!(theirs["needed"].as_str().is_some_and(|needed| needed.contains("root")), "{theirs}");
    }
}

/// A setting is changed, and said to stand in the way; it is put back, and nothing is said any more.
#[test]
#[ignore = "changes settings of the host"]
fn host_thp_set_to_never_is_a_problem() {
    let before = read(THP);
    assert!(finding(&doctor(&[]), "thp.never").is_none(), "needed: THP that is not off; found {before}");
    let options = GuardOptions { helper_exe: common::binary(), ..GuardOptions::default() };
    let mut guard = Guard::open_with(options).expect("root");
    guard.set("thp.enabled", "never").expect("the kernel takes it");
    let document = doctor(&[]);
    let said = finding(&document, "thp.never").unwrap_or_else(|| panic!("{document:#}"));
    assert_eq!(said["level"], "problem");
    assert!(said["fix"].as_str().is_some_and(|fix| fix.contains(THP)), "{said}");
    assert!(read(THP).contains("[never]"), "the doctor changes nothing");
    guard.close();
    assert_eq!(read(THP), before);
    assert!(Path::new(THP).exists() && finding(&doctor(&[]), "thp.never").is_none());
}

/// A program that maps, advises and touches as it is told, says where, and waits.
const MAPPER: &str = r"
import ctypes, mmap, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
SLOT, SLOTS = 2 << 20, 20
def area(advice):
    # With room on both sides, so that the kernel merges it with nothing.
    raw = libc.mmap(None, (SLOTS + 4) * SLOT, 0, 0x22, -1, 0)
    at = (raw + 2 * SLOT) // SLOT * SLOT
    assert libc.mmap(at, SLOTS * SLOT, 3, 0x32, -1, 0) == at
    if advice is not None:
        assert libc.madvise(at, SLOTS * SLOT, advice) == 0
    return at
for how in sys.argv[1:]:
    if how == 'thp_disabled':
        libc.prctl(41, 1, 0, 0, 0)
        at = area(14)
    else:
        at = area({'advised': 14, 'against': 15, 'plain': None, 'untouched': 14, 'earlier': None}[how])
    if how != 'untouched':
        ctypes.memset(at, 1, SLOTS * SLOT)
    if how == 'earlier':
        assert libc.madvise(at, SLOTS * SLOT, 14) == 0
    print(at, flush=True)
print('ready', flush=True)
time.sleep(60)
";

/// Bytes of each area.
const BYTES: u64 = 20 << 21;

/// Makes the areas and hands each one's region to `hold`.
fn areas(ways: &[&str], hold: impl Fn(&str, &Value)) {
    use std::io::{BufRead, BufReader};
    let mut child = std::process::Command::new("/usr/bin/python3")
        .args(["-c", MAPPER])
        .args(ways)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let said: Vec<String> = lines.map(|line| line.expect("text")).take_while(|line| line != "ready").collect();
    let document = doctor(&["--pid", &child.id().to_string()]);
    child.kill().and_then(|()| child.wait()).expect("it waits");
    assert_eq!(said.len(), ways.len(), "{said:?}");
    for (way, at) in ways.iter().zip(said) {
        let at: u64 = at.parse().expect("an address");
        let mut regions = document["regions"].as_array().expect("a list").iter();
        let region = regions.find(|one| one["start"].as_u64() == Some(at));
        hold(way, region.unwrap_or_else(|| panic!("{way}: no region at {at:x}: {document:#}")));
    }
}

/// Each way of not getting a huge page, made for real, is reported by name; processes that get them are not accused.
#[test]
fn each_way_of_not_getting_a_huge_page_is_named() {
    if !is_root() || !read(THP).contains("[madvise]") {
        return;
    }
    // Where hardly a free block is left, earlier small pages look like those that found none; the words say so.
    let few = doctor(&[])["host"]["free_memory"]["huge_pages_now"].as_u64().is_some_and(|pages| pages < 100);
    let earlier = if few { "fragmented" } else { "earlier_base_entries" };
    areas(&["advised", "against", "plain", "untouched", "earlier"], |way, region| {
        let (small, huge) = (region["base_bytes"].as_u64(), region["huge_2m_bytes"].as_u64());
        let reason = region["less"][0]["reason"].as_str();
        let expected = match way {
            "advised" => (Some(0), Some(BYTES), None, Some("madvise")),
            "against" => (Some(BYTES), Some(0), Some("advised_against"), None),
            "plain" => (Some(BYTES), Some(0), Some("thp_only_by_advice"), None),
            "untouched" => (Some(0), Some(0), None, Some("madvise")),
            _ => (Some(BYTES), Some(0), Some(earlier), Some("madvise")),
        };
        assert_eq!((small, huge, reason, region["asked"].as_str()), expected, "{way}: {region:#}");
    });
    areas(&["thp_disabled"], |way, region| {
        assert_eq!(region["less"][0]["reason"], "disabled_for_process", "{way}: {region:#}");
        assert_eq!(region["base_bytes"].as_u64(), Some(BYTES));
    });
}

/// The slots of a file are reported in one document with the obstacles; a path that is no file is status 2.
#[test]
fn a_file_is_told_slot_by_slot() {
    let dir = scratch();
    let path = dir.path().join("data");
    fs::write(&path, vec![1_u8; 5 << 20]).expect("room in memory");
    let document = doctor(&[path.to_str().expect("UTF-8")]);
    let slots = document["slots"].as_array().expect("a list");
    let (first, last) = (slots.first().expect("a run"), slots.last().expect("a run"));
    assert_eq!((first["start"].as_u64(), last["end"].as_u64()), (Some(0), Some(5 << 20)), "{document:#}");
    assert_eq!(document["file"]["slot_count"], 3);
    assert!(document["regions"].as_array().is_some_and(Vec::is_empty) && document["file"]["file_system"].is_object());
    let output = pagelab().arg("doctor").arg(&path).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("tmpfs") && text.contains("SLOTS"), "{text}");
    for (wrong, word) in
        [("/no/such/file", "nothing of this name"), ("/tmp", "directory"), ("/dev/null", "regular file")]
    {
        let output = run(pagelab().args(["doctor", wrong]), 2);
        assert!(stderr(&output).contains(word), "{wrong}: {}", stderr(&output));
    }
    run(pagelab().args(["doctor", "--pid", "1", "/tmp"]), 2);
    // The mapping's obstacles are reported before the file's.
    let file = path.to_str().expect("UTF-8");
    for (options, word) in [
        (&["--pieces", "1M"][..], "leaves_mapping"),
        (&["--shift", "1M"], "not_aligned"),
        (&["--private", "--pieces", "1M"], "copied_on_write"),
    ] {
        let words: Vec<&str> = [file].into_iter().chain(options.iter().copied()).collect();
        assert_eq!(doctor(&words)["slots"][0]["reason"], word, "{options:?}");
    }
    run(pagelab().args(["doctor", file, "--pieces", "1X"]), 2);
    run(pagelab().args(["doctor", "--pieces", "1M"]), 2);
}

#[test]
fn a_process_that_is_gone_is_an_error_of_input() {
    let mut child = std::process::Command::new("true").spawn().expect("true");
    child.wait().expect("it ends");
    let output = run(pagelab().args(["doctor", "--pid", &child.id().to_string()]), 2);
    assert!(stderr(&output).contains("no process"), "{}", stderr(&output));
    if is_root() {
        let own = std::process::id().to_string();
        let (_dir, mut command) = as_ordinary_user();
        let output = command.args(["doctor", "--pid", &own]).output().expect("setpriv");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("/proc/"), "{}", stderr(&output));
    }
}
