//! Engines with several operations under way, by themselves: latencies, what the job asks of the rings, errors, what the host refuses.

use crate::common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use common::{pagelab, refused, run, totals, try_run};
use pagelab_load::JobReport;

const ENGINES: [&str; 2] = ["io_uring", "libaio"];

/// Direct I/O needs a disk: the target folder lies on one.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn words(place: &Path, job: &str) -> Vec<String> {
    let mut words = vec!["--name=j".to_owned(), format!("--directory={}", place.display())];
    words.extend(job.split_whitespace().map(str::to_owned));
    words
}

fn run_in(place: &tempfile::TempDir, job: &str) -> JobReport {
    run(&words(place.path(), job))
}

#[test]
fn latencies_add_up() {
    for engine in ENGINES {
        for job in [
            "--rw=randrw --bs=4k --size=4m --iodepth=16",
            "--rw=randread --bs=4k --size=4m --iodepth=32 --iodepth_batch=16 --iodepth_batch_complete_min=8 --direct=1",
            "--rw=write --bs=8k --size=4m --iodepth=4 --nrfiles=3 --refill_buffers=1",
        ] {
            let report = run_in(&place(), &format!("--ioengine={engine} {job}"));
            let worker = &report.workers[0];
            let depths = worker.depths.expect("a queue has a depth");
            for (direction, (name, result)) in worker.directions().into_iter().enumerate() {
                let slat = result.slat.as_ref().expect("a queue has a submission latency");
                for latencies in [slat, &result.clat, &result.lat] {
                    assert_eq!(latencies.count, result.operations, "{engine} {job} {name}");
                    assert_eq!(latencies.buckets.iter().map(|(_, count)| count).sum::<u64>(), latencies.count);
                }
                // Each is rounded to a nanosecond.
                let apart = result.lat.sum_ns.abs_diff(slat.sum_ns + result.clat.sum_ns);
                assert!(apart <= 2 * result.operations, "{engine} {job} {name}: {apart}");
                let told = |kind: fn(&pagelab_load::report::Interval) -> &[(u16, u64)]| -> u64 {
                    result.intervals.iter().flat_map(kind).map(|(_, count)| count).sum()
                };
                assert_eq!([told(|i| &i.slat), told(|i| &i.clat), told(|i| &i.lat)], [result.operations; 3]);
                assert_eq!(depths.level[direction].iter().sum::<u64>(), result.operations);
            }
            let least_submissions = worker.operations() / 64;
            assert!((least_submissions..=worker.operations()).contains(&depths.submit.iter().sum()));
        }
    }
}

/// No more are under way than iodepth says, and as many as it says if nothing keeps them.
#[test]
fn the_depth_is_kept() {
    for engine in ENGINES {
        let report = run_in(&place(), &format!("--ioengine={engine} --rw=read --bs=4k --size=4m --iodepth=8"));
        let level = report.workers[0].depths.expect("a queue").level[0];
        assert_eq!(level[..3], [1, 2, 4], "{engine}: the queue fills from empty once");
        assert_eq!(level[4..], [0; 3], "{engine}: never more than eight");
    }
    let report = run_in(&place(), "--ioengine=psync --rw=read --bs=4k --size=64k --iodepth=8");
    assert!(report.workers[0].depths.is_none() && report.workers[0].read.slat.is_none());
}

#[test]
fn rings_are_as_the_job_asks() {
    let expected = [256, 1 << 20, 0, 0, 0];
    for job in [
        "--fixedbufs=1",
        "--registerfiles=1 --nrfiles=4 --openfiles=2",
        "--fixedbufs=1 --registerfiles=1 --direct=1",
        "--nonvectored=0",
        "--force_async=4",
        "--sqthread_poll=1",
        "--sqthread_poll=1 --sqthread_poll_cpu=1 --registerfiles=1 --fixedbufs=1",
        "--iodepth_batch=16 --iodepth_batch_complete_max=16 --thread=1 --gtod_reduce=1",
        "--latency_sample=10",
        "--iomem=mmap --iomem_align=64k",
    ] {
        let report =
            run_in(&place(), &format!("--ioengine=io_uring --rw=randread --bs=4k --size=1m --iodepth=16 {job}"));
        assert_eq!(totals(&report), expected, "{job}");
    }
}

/// The kernel's thread takes operations before anybody asks it to look: none is waited for twice, however the two meet.
#[test]
fn a_polling_thread_is_never_waited_for_in_vain() {
    // Whoever competes for the processors makes the thread be interrupted between a completion and the room for the next operation.
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let counts = [1, 1, 1, 3, 12].map(|depth| {
            let job =
                format!("--ioengine=io_uring --rw=randread --bs=4k --size=32m --iodepth={depth} --sqthread_poll=1");
            std::panic::catch_unwind(|| run_in(&place(), &job).operations)
        });
        ended.store(true, Ordering::Relaxed);
        for count in counts {
            assert_eq!(count.expect("the job succeeds"), 8192);
        }
    });
}

/// A registered file is let go when the worker closes it: files that are made anew for each loop do not pile up.
#[test]
fn registered_files_are_let_go() {
    let place = place();
    let job = "--ioengine=io_uring --rw=write --bs=4k --size=64k --iodepth=4 --registerfiles=1 --unlink_each_loop=1 --loops=5 --unlink=1";
    assert_eq!(totals(&run_in(&place, job)), [0, 0, 80, 80 * 4096, 0]);
    assert_eq!(std::fs::read_dir(place.path()).expect("directory").count(), 0);
}

#[test]
fn flushes_come_after_the_writes_they_are_for() {
    for engine in ENGINES {
        let report =
            run_in(&place(), &format!("--ioengine={engine} --rw=write --bs=4k --size=256k --iodepth=16 --fsync=8"));
        assert_eq!(
            totals(&report),
            [0, 0, 64, 64 * 4096, 7],
            "a flush before the 9th write, and before every 8th after it"
        );
        let level = report.workers[0].depths.expect("a queue").level[1];
        assert_eq!(level, [8, 16, 32, 8, 0, 0, 0], "{engine}: eight at a time, from an empty queue");
    }
}

/// Operations that fail: the job ends with the first, or goes on and counts them.
#[test]
fn errors_are_told_and_counted() {
    for engine in ENGINES {
        let place = place();
        // Half of a sector: direct I/O refuses it.
        let job = format!("--ioengine={engine} --rw=read --bs=256 --size=16k --iodepth=8 --direct=1");
        let output = try_run(&words(place.path(), &job));
        assert_eq!(output.status.code(), Some(3));
        let report: JobReport = serde_json::from_slice(&output.stdout).expect("a report");
        let failure = report.workers[0].failure.as_ref().expect("it failed");
        assert_eq!(failure.errno, libc::EINVAL);
        assert!(failure.message.contains("multiples of the device's block size"), "{}", failure.message);
        let report = run_in(&place, &format!("{job} --ignore_error=EINVAL"));
        assert_eq!((report.operations, report.workers[0].read.errors), (0, 64), "{engine}");
        assert_eq!(report.workers[0].first_error, Some(libc::EINVAL));
    }
}

/// A file that ends in the middle of a block, because somebody made it shorter: the rest is asked for, and that is the end.
#[test]
fn short_transfers_go_on() {
    for engine in ENGINES {
        let place = place();
        let path = place.path().join("f");
        std::fs::write(&path, vec![1_u8; 12_288]).expect("write");
        let job = format!(
            "--output-format=report --name=j --ioengine={engine} --rw=read --bs=4k --iodepth=4 --startdelay=700ms --continue_on_error=all"
        );
        let mut child = pagelab()
            .args(job.split_whitespace())
            .arg(format!("--filename={}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        // The worker opens the file and then waits.
        std::thread::sleep(std::time::Duration::from_millis(300));
        std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(10_000)).expect("truncate");
        let mut text = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut().expect("piped"), &mut text).expect("readable");
        assert!(child.wait().expect("ends").success());
        let report: JobReport = serde_json::from_str(&text).expect("a report");
        let read = &report.workers[0].read;
        assert_eq!((read.operations, read.short_operations, read.errors), (2, 1, 1), "{engine}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let place = place();
    let of = |job: &str, status| refused(&words(place.path(), &format!("--rw=read --size=64k {job}")), status);
    assert!(of("--ioengine=io_uring --iodepth=40000", 2).contains("iodepth=40000, at most 32768"));
    assert!(of("--ioengine=io_uring --iodepth=20000 --fixedbufs=1", 2).contains("at most 16384"));
    assert!(of("--ioengine=libaio --iodepth=0", 2).contains("iodepth=0"));
    assert!(of("--ioengine=rados", 2).contains("io_uring, libaio"));
    let words = of("--ioengine=io_uring --sqthread_poll=1 --sqthread_poll_cpu=4095", 3);
    assert!(words.contains("sqthread_poll_cpu"), "{words}");
}

/// Without CAP_IPC_LOCK registered buffers count against RLIMIT_MEMLOCK: found, needed, command.
#[test]
fn the_limit_of_locked_memory_is_told() {
    // Where others may go, too.
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("f"), vec![0_u8; 65_536]).expect("write");
    for path in [place.path().to_path_buf(), place.path().join("f")] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, mode).expect("chmod");
    }
    // The binary may lie where an ordinary user cannot go.
    let binary = place.path().join("pagelab-load");
    // By another process: what a test beside starts at that moment would hold the copy open for writing, and it could not be executed.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_pagelab-load")).arg(&binary).status().expect("cp").success());
    let output = Command::new("prlimit")
        .args(["--memlock=65536:65536", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&binary)
        .args([
            "--name=j",
            "--rw=read",
            "--bs=64k",
            "--size=64k",
            "--ioengine=io_uring",
            "--iodepth=32",
            "--fixedbufs=1",
        ])
        .arg(format!("--filename={}", place.path().join("f").display()))
        .env("HOME", place.path())
        .stdin(Stdio::null())
        .output()
        .expect("prlimit and setpriv are part of util-linux");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{words}");
    for part in ["a limit of 65536 bytes", "2097152 bytes", "ulimit -l"] {
        assert!(words.contains(part), "{words}");
    }
}

/// A setting of the kernel's, put back when dropped.
struct Sysctl(&'static str, String);

impl Sysctl {
    fn set(path: &'static str, value: &str) -> Self {
        let before = std::fs::read_to_string(path).expect("readable");
        let this = Self(path, before);
        std::fs::write(path, value).expect("writable");
        this
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        std::fs::write(self.0, self.1.trim()).expect("put back");
    }
}

#[test]
#[ignore = "changes kernel.io_uring_disabled"]
fn host_a_kernel_that_forbids_io_uring_is_told() {
    let _disabled = Sysctl::set("/proc/sys/kernel/io_uring_disabled", "2");
    let words = refused(&words(place().path(), "--rw=read --size=64k --ioengine=io_uring"), 3);
    for part in ["found kernel.io_uring_disabled=2", "sysctl -w kernel.io_uring_disabled=0", "ioengine=libaio"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
#[ignore = "changes fs.aio-max-nr"]
fn host_too_few_aio_requests_are_told() {
    let _few = Sysctl::set("/proc/sys/fs/aio-max-nr", "16");
    let words = refused(&words(place().path(), "--rw=read --size=64k --ioengine=libaio --iodepth=1000"), 3);
    for part in ["fs.aio-max-nr of 16", "sysctl -w fs.aio-max-nr="] {
        assert!(words.contains(part), "{words}");
    }
}
