//! Changed recordings through the commands: no panic, no signal, at most 20 s and 512 MiB each. What is changed is drawn as in
//! `crates/report/tests/mutated`, which asks the same in one process of many more.

use crate::common;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use common::{binary, scratch};
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

#[path = "../../report/tests/mutated/base.rs"]
mod base;
#[path = "../../report/tests/mutated/change.rs"]
mod change;

const VIEWS: [&str; 17] = [
    "summary", "tasks", "faults", "maps", "dax", "syscalls", "io", "budget", "sched", "profile", "counters", "metrics",
    "settings", "latency", "block", "regions", "loss",
];
const QUERIES: [&str; 5] = [
    "select count(*), sum(seen), sum(lost) from loss",
    "select * from runs",
    "select name, avg(value) from metrics group by name",
    "select path_text, count(*) from mappings group by 1",
    "select * from settings",
];
const LONGEST: Duration = Duration::from_secs(20);
const MOST_BYTES: u64 = 512 << 20;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("room");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(drop).expect("room") }
    }
}

/// Commands that read a recording, beside a good one; what they write goes below `out`.
fn commands(bad: &Path, good: &Path, out: &Path, rng: &mut ChaCha8Rng) -> Vec<Vec<PathBuf>> {
    let words = |words: &[&dyn AsRef<Path>]| words.iter().map(|word| word.as_ref().to_owned()).collect::<Vec<_>>();
    let view = *VIEWS.choose(rng).expect("some");
    let query = *QUERIES.choose(rng).expect("some");
    let to = out.join("out");
    let format = *["folded", "flamegraph", "firefox-profiler", "perfetto", "openmetrics"].choose(rng).expect("some");
    let mut all = vec![words(&[&"check", &bad])];
    let pool = vec![
        words(&[&"show", &bad, &view]),
        words(&[&"show", &bad, &view, &"--json"]),
        words(&[&"show", &bad, &view, &"--from", &"0.1", &"--to", &"0.9"]),
        words(&[&"show", &"--base", &good, &"--test", &bad, &view]),
        words(&[&"explain", &bad]),
        words(&[&"compare", &good, &bad]),
        words(&[&"report", &good, &bad, &"-o", &to]),
        words(&[&"query", &bad, &query]),
        words(&[&"trend", &good, &bad]),
        words(&[&"rollup", &bad]),
        words(&[&"check", &bad, &"--json"]),
        words(&[&"export", &format, &bad, &"-o", &to]),
        words(&[&"fleet", &"compact", &bad, &out.join("fleet")]),
    ];
    all.extend(pool.sample(rng, 4).cloned());
    all
}

/// Runs a command; gives what was wrong with it.
fn harm(arguments: &[PathBuf], said: &Path) -> Option<String> {
    let begun = Instant::now();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "30"]).arg(binary()).args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(said).expect("room"));
    let (status, most) = ended(command.spawn().expect("timeout (coreutils)"));
    let took = begun.elapsed();
    let text = String::from_utf8_lossy(&fs::read(said).expect("ours")).into_owned();
    if most > MOST_BYTES {
        return Some(format!("{} MiB", most >> 20));
    }
    if text.contains("panicked at") || text.contains("which is a defect of pagelab") || !matches!(status, Some(0..=3)) {
        return Some(format!("status {status:?}: {text}"));
    }
    if took > LONGEST {
        return Some(format!("{} s", took.as_secs()));
    }
    None
}

#[test]
fn changed_recordings_end_no_command() {
    let tmp = scratch();
    let bases = [tmp.path().join("closed"), tmp.path().join("killed")];
    base::record(&bases[0], true);
    base::record(&bases[1], false);
    let count = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 300 } else { 30 };
    let mut wrong = Vec::new();
    for n in 0..count {
        let mut rng = ChaCha8Rng::seed_from_u64(0x5eed_0000 + n);
        let (dir, out) = (tmp.path().join("changed"), tmp.path().join("written"));
        copy(&bases[usize::from(n % 5 == 0)], &dir);
        fs::create_dir(&out).expect("room");
        let said = change::change(&dir, &mut rng);
        for arguments in commands(&dir, &bases[0], &out, &mut rng) {
            if let Some(harm) = harm(&arguments, &tmp.path().join("said")) {
                wrong.push(format!("{n}: {said}: {arguments:?}: {harm}"));
            }
        }
        fs::remove_dir_all(&dir).expect("ours");
        fs::remove_dir_all(&out).expect("ours");
    }
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
}

/// Waits for a program; gives its status and the largest resident size of it and what it waited for. Other tests have children, too.
#[expect(clippy::needless_pass_by_value, reason = "it is waited for here, and is nobody's afterwards")]
fn ended(child: Child) -> (Option<i32>, u64) {
    let pid = i32::try_from(child.id()).expect("a number of a process");
    let mut status = 0;
    // SAFETY: a structure of numbers may be all zeros, the call fills it, and nobody else waits for this child.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(pid, &raw mut status, 0, &raw mut usage), pid);
        usage
    };
    (ExitStatus::from_raw(status).code(), usage.ru_maxrss.unsigned_abs() << 10)
}
