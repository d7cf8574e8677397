//! What is left when the recorder or the experiment is killed (-9): recordings that open, a host as it was.

use crate::common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{beside, is_root, pagelab, scratch};
use pagelab_recording::Recording;
use pagelab_recording::tables::{FaultsRow, LossRow};

/// `make test-all` does it all; `make test` some of it.
fn full() -> bool {
    std::env::var_os("PAGELAB_TEST_FULL").is_some()
}

fn monotonic_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// A recording of a program that faults at full speed and keeps a log of its own.
struct Victim {
    dir: tempfile::TempDir,
}

impl Victim {
    fn new() -> Self {
        Self { dir: scratch() }
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("r")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn words(&self, faults: u64) -> Vec<String> {
        let program = beside("fault_program");
        let fixed = ["record", "--observe", "tasks,faults,maps", "-o"].map(str::to_owned);
        let rest = [&self.out(), Path::new("--"), &program].map(|path| path.to_string_lossy().into_owned());
        let program = [faults.to_string(), "ascending".to_owned(), self.log().to_string_lossy().into_owned()];
        [fixed.to_vec(), rest.to_vec(), program.to_vec()].concat()
    }

    /// The program's own count of faults at times up to `until_ns`: the last time and count logged.
    fn logged(&self, until_ns: i64) -> (i64, u64) {
        fs::read_to_string(self.log())
            .expect("the program's log")
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(ts, count)| Some((ts.parse().ok()?, count.parse().ok()?)))
            .take_while(|(ts, _)| *ts <= until_ns)
            .last()
            .unwrap_or((i64::MIN, 0))
    }

    /// The recorder is dead: what it left opens, says so, and holds everything up to `until_ns` by the program's log.
    #[track_caller]
    fn check(&self, what: &str, until_ns: i64) -> u64 {
        // The program goes on without the recorder.
        Command::new("pkill").args(["-9", "-f"]).arg(self.log()).status().expect("pkill");
        let recording = Recording::open(&self.out()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!recording.manifest().complete, "{what}");
        let (ts, count) = self.logged(until_ns);
        let mut recorded = 0_u64;
        recording.for_each::<FaultsRow>(|row| recorded += u64::from(row.ts <= ts)).expect("its parts can be read");
        // Where other work holds the processors for a moment, rings overflow; those rows are counted, and `loss` is written first.
        // For a moment only: a recorder that counts most of what it saw as lost has recorded nothing.
        let mut lost = 0_u64;
        recording.for_each::<LossRow>(|row| lost += if row.stream == "faults" { row.lost } else { 0 }).expect("parts");
        let there = recorded + lost;
        assert!(there >= count, "{what}: {recorded} faults and {lost} lost up to {ts}, the program counted {count}");
        assert!(
            recorded >= count / 2,
            "{what}: {recorded} faults up to {ts}, {lost} lost, the program counted {count}"
        );
        let checked = pagelab().arg("check").arg(self.out()).output().expect("it runs");
        assert_eq!(checked.status.code(), Some(1), "{what}: check must say that it is not whole: {checked:?}");
        count
    }
}

#[test]
fn at_any_instant_at_most_the_last_second_is_lost() {
    if !is_root() {
        return;
    }
    for round in 0..if full() { 30 } else { 3 } {
        let victim = Victim::new();
        let mut command = pagelab();
        let mut recorder =
            command.args(victim.words(6_000_000)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        let counts = || fs::metadata(victim.log()).is_ok_and(|log| log.len() > 0);
        let begun = within(Duration::from_mins(1), counts);
        assert!(begun.is_some(), "the program logged nothing; the recorder: {:?}", recorder.try_wait());
        // From 1.1 to 2.9 s after the program's first line, by a fixed sequence: parts are written about once a second, and
        // some of what the program did is older than that.
        std::thread::sleep(Duration::from_millis(1100 + round * 7919 % 1800));
        assert_eq!(recorder.try_wait().expect("our child"), None, "it ended");
        recorder.kill().expect("SIGKILL");
        let killed_ns = monotonic_ns();
        recorder.wait().expect("our child");
        let count = victim.check(&format!("round {round}"), killed_ns - 1_000_000_000);
        assert!(count > 0, "round {round}: nothing is older than a second");
    }
}

/// Runs the recorder under strace, which kills it at the entry of its `when`-th `call`. Returns when it was dead.
fn killed_in(victim: &Victim, call: &str, when: u64, faults: u64) -> i64 {
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", "/dev/null", "-e"]).arg(format!("trace={call}"));
    command.arg("-e").arg(format!("inject={call}:signal=KILL:when={when}"));
    command.arg("--").arg(pagelab().get_program()).args(victim.words(faults));
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("strace (make setup-test)");
    // strace ends the way its program did.
    assert_eq!(status.signal(), Some(9), "killed in {call} {when}: it ended otherwise: {status}");
    monotonic_ns()
}

/// Parts appear by rename: the first is the manifest's own, then come those of every table, about once a second.
#[test]
fn inside_rename() {
    if !is_root() {
        return;
    }
    let calls: &[u64] = if full() { &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11] } else { &[4, 9] };
    for when in calls {
        let victim = Victim::new();
        let dead_ns = killed_in(&victim, "renameat", *when, 3_000_000);
        victim.check(&format!("rename {when}"), dead_ns - 1_000_000_000);
    }
}

/// On closing, parts are merged: the old are unlinked behind a note of what is being done. The program has ended, so
/// nothing of it may be missing.
#[test]
fn inside_close() {
    if !is_root() {
        return;
    }
    let faults = 800_000;
    let calls: &[u64] = if full() { &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10] } else { &[1, 2, 3] };
    for when in calls {
        let victim = Victim::new();
        killed_in(&victim, "unlinkat", *when, faults);
        let count = victim.check(&format!("unlink {when}"), i64::MAX);
        assert!(count >= faults, "the program had ended: {count}");
    }
}

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

fn thp() -> String {
    fs::read_to_string(THP).expect("a kernel with THP")
}

/// Starts an experiment whose variants set THP to two values that are not in force now and run `sleep SECONDS`.
fn experiment_on_thp(dir: &Path, seconds: &str) -> Child {
    let now = thp();
    let values: Vec<&str> = now
        .split_whitespace()
        .filter(|word| !word.starts_with('['))
        .map(|word| word.trim_matches(['[', ']']))
        .collect();
    let plan = dir.join("plan.toml");
    let variant = |name: &str, value: &str| {
        format!(
            "[variant.{name}]\ncommand = [\"sleep\", \"{seconds}\"]\nsettings = {{ \"thp.enabled\" = \"{value}\" }}\n"
        )
    };
    let text = format!(
        "title = \"x\"\nruns = 2\nobserve = \"settings\"\n{}{}",
        variant("a", values[0]),
        variant("b", values[1])
    );
    fs::write(&plan, text).expect("scratch");
    let mut command = pagelab();
    command.arg("experiment").arg(&plan).arg("-o").arg(dir.join("set"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts")
}

fn within(limit: Duration, what: impl Fn() -> bool) -> Option<Duration> {
    let begin = Instant::now();
    while begin.elapsed() <= limit {
        if what() {
            return Some(begin.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_a_killed_experiment_leaves_thp_as_it_was() {
    let before = thp();
    let mut slowest = Duration::ZERO;
    for round in 0..if full() { 50_u64 } else { 4 } {
        let dir = scratch();
        // A number that no other program sleeps for, so that this one can be found.
        let seconds = format!("30.{:09}", std::process::id());
        let mut experiment = experiment_on_thp(dir.path(), &seconds);
        let changed = within(Duration::from_secs(20), || thp() != before);
        std::thread::sleep(Duration::from_millis(round * 7919 % 300));
        experiment.kill().expect("SIGKILL");
        experiment.wait().expect("our child");
        let back = within(Duration::from_secs(1), || thp() == before);
        // Its command goes on without it, as recorded commands do, if it had begun.
        Command::new("pkill").args(["-9", "-f"]).arg(format!("sleep {seconds}")).status().expect("pkill");
        assert!(changed.is_some(), "round {round}: the experiment never changed the setting");
        slowest = slowest.max(back.unwrap_or_else(|| panic!("round {round}: found {}, needed {before}", thp())));
    }
    println!("slowest: {slowest:?}");
}
