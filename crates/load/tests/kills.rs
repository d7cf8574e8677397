//! Whoever of a run is killed, and whenever: no process, no segment, no pool page stays, and no file but those that the job is meant to
//! leave.
//!
//! What a job leaves on purpose: the files of jobs without `unlink=1`, which carry pagelab's mark, so that the next run uses them. On
//! ordinary file systems the same holds for a killed job with `unlink=1`: nobody is left to remove the file, and the next run of the job
//! does. On hugetlbfs, where a file keeps pages from everybody, it never had a name.

use crate::common;

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::mappings::{HugetlbMount, MIB, Pool, arguments};
use common::{children, pagelab};

/// Base pages of each segment: a size that nobody else's has.
const SEGMENT_BYTES: u64 = 1_237 * 4096;

const POOL_PAGES: u64 = 16;

/// Numbers from a seed, so that a failure can be repeated (Marsaglia's xorshift64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Front,
    Load,
    Worker,
    LoadAndWorker,
    All,
}

const VICTIMS: [Victim; 5] = [Victim::Front, Victim::Load, Victim::Worker, Victim::LoadAndWorker, Victim::All];

fn kill(pid: u32) {
    // SAFETY: sends a signal to a process that this test started; one that is gone is no error here.
    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
}

/// Processes of this group that are still there.
fn members(group: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").expect("proc").flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
            let words: Vec<&str> = rest.split(' ').collect();
            words.first() != Some(&"Z") && words.get(2) == Some(&group.to_string().as_str())
        })
        .collect()
}

fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(15), "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits for those to be killed, and then a time between a microsecond and 17 ms, short ones as often as long ones, and kills them.
fn strike(front: &mut Child, victim: Victim, draw: &mut Draw) -> Duration {
    let load = || children(front.id()).first().copied();
    let worker = || children(load()?).first().copied();
    let targets = match victim {
        // Those that are there when the time has come.
        Victim::Front | Victim::All => vec![front.id()],
        Victim::Load => vec![wait_until("the load process never came", load)],
        Victim::Worker => vec![wait_until("the worker never came", worker)],
        Victim::LoadAndWorker => vec![wait_until("the worker never came", worker), load().expect("its parent")],
    };
    let delay = Duration::from_nanos(1000 << draw.below(15)) + Duration::from_nanos(draw.below(1000));
    let begin = Instant::now();
    while begin.elapsed() < delay {
        std::hint::spin_loop();
    }
    if victim == Victim::All {
        // SAFETY: sends a signal to the group that the front end was made the head of.
        unsafe { libc::kill(-front.id().cast_signed(), libc::SIGKILL) };
    }
    targets.into_iter().for_each(kill);
    delay
}

/// Our segments that are there, by their sizes.
fn segments() -> usize {
    let table = std::fs::read_to_string("/proc/sysvipc/shm").expect("read");
    let ours = [SEGMENT_BYTES.to_string(), (2 * MIB).to_string()];
    let size = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    table.lines().filter_map(size).filter(|bytes| ours.contains(bytes)).count()
}

/// Shared memory of the whole host that is not hugetlb: segments, memfds, tmpfs.
fn shared_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("read");
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:")).expect("a line");
    line.split_whitespace().next().expect("a number").parse::<u64>().expect("a number") << 10
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).expect("directory");
    entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect()
}

/// The jobs, and whether one may leave a file called `f` in its directory. Eight pieces each, or four of 2 MiB.
fn jobs(hugetlbfs: &Path, ordinary: &Path) -> Vec<(String, bool)> {
    let small = format!("--size={} --map_granularity={SEGMENT_BYTES}", 8 * SEGMENT_BYTES);
    let huge = "--size=8m --map_granularity=2m --hugetlb=2m";
    let on = |directory: &Path| format!("--filename={}/f", directory.display());
    [
        (format!("--ioengine=shm {small}"), false),
        (format!("--ioengine=shm {small} --map_lifetime=evict --map_resident=2 --numjobs=2"), false),
        (format!("--ioengine=shm {huge}"), false),
        (format!("--ioengine=shm {huge} --map_lifetime=evict"), false),
        (format!("--ioengine=anon {huge}"), false),
        (format!("--ioengine=anon {huge} --map_backing=memfd"), false),
        (format!("--ioengine=anon {huge} --map_backing=memfd --map_share=private --numjobs=2"), false),
        ("--ioengine=anon --size=1m --iomem=shmhuge".to_owned(), false),
        (format!("--ioengine=anon --size=1m --iomem=mmaphuge:{}/m", hugetlbfs.display()), false),
        (format!("--ioengine=mmap --size=8m --unlink=1 {}", on(hugetlbfs)), false),
        (format!("--ioengine=mmap --size=8m {}", on(hugetlbfs)), true),
        (format!("--ioengine=mmap --size=8m --unlink=1 {}", on(ordinary)), true),
        (format!("--ioengine=psync --size=8m --unlink=1 {}", on(ordinary)), true),
    ]
    .into_iter()
    .map(|(job, leaves)| (format!("{job} --rw=write --bs=4k --time_based --runtime=60"), leaves))
    .collect()
}

/// How often: `tools/test full` sets the variable.
fn rounds() -> usize {
    if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 200 } else { 50 }
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_killed_runs_leave_no_process_no_segment_and_no_page() {
    let pool = Pool::of(POOL_PAGES);
    let mount = HugetlbMount::new();
    let ordinary = tempfile::tempdir().expect("tempdir");
    let state = tempfile::tempdir().expect("tempdir");
    let jobs = jobs(mount.path(), ordinary.path());
    let front_end = |words: &[String]| -> Command {
        let mut command = pagelab();
        command.env("PAGELAB_STATE_DIR", state.path()).args(words).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let (segments_before, shared_before) = (segments(), shared_bytes());
    let mut draw = Draw(0x6B69_6C6C_6564_2121);
    for round in 0..rounds() {
        let (job, leaves) = &jobs[round % jobs.len()];
        let victim = VICTIMS[draw.below(5) as usize];
        let mut front = front_end(&arguments(job)).process_group(0).spawn().expect("starts");
        let group = front.id();
        let delay = strike(&mut front, victim, &mut draw);
        let what = format!("round {round}: {victim:?} killed after {delay:?}: {job}");
        wait_until(&format!("{what}: the front end stays"), || {
            if let (Victim::Worker, Some(load)) = (victim, children(group).first()) {
                // The others of the job would work on until its time is over.
                children(*load).into_iter().for_each(kill);
            }
            front.try_wait().expect("wait")
        });
        wait_until(&format!("{what}: processes stay"), || members(group).is_empty().then_some(()));
        let whole = || (pool.free(), pool.reserved()) == (POOL_PAGES, 0);
        if *leaves {
            // Known as pagelab's own, whatever state it was in: the next run uses it and removes it.
            let again = job.replace("--time_based --runtime=60", "--unlink=1");
            let status = front_end(&arguments(&again)).status().expect("starts");
            assert!(status.success(), "{what}: the next run is refused");
        }
        assert_eq!((names(mount.path()), names(ordinary.path())), Default::default(), "{what}");
        wait_until(&format!("{what}: {} free, {} reserved", pool.free(), pool.reserved()), || whole().then_some(()));
        assert_eq!(segments(), segments_before, "{what}");
    }
    // Segments in a namespace that stayed would not be in the table above, but their memory is the host's. Namespaces are taken down a
    // little after their last process is gone. One job's segments are 39 MiB; others use shared memory meanwhile.
    wait_until(&format!("{} MiB of shared memory before", shared_before / MIB), || {
        (shared_bytes() < shared_before + 30 * MIB).then_some(())
    });
}
