//! How faults end, as a recording has it: the majors of a program are those that the kernel counted, and of the minors there is
//! one in N. Needs root and BPF.

use std::path::Path;

use pagelab_observe::streams::StreamSet;
use pagelab_recording::Recording;
use pagelab_recording::tables::{FaultsRow, TasksRow};
use pagelab_session::{SessionOptions, SessionOutcome, Target};

/// Faults of its own memory, many in short time; then a file that is not cached, page by page for longer than a part lasts, so
/// that some of its faults begin before a part is written and end after.
const PROGRAM: &str = "import mmap, os, resource, sys, time
for i in range(20):
    m = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    m.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, len(m), 4096): m[at] = 1
    m.close()
PAGES = 512
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(fd, bytes(4096) * PAGES)
os.fsync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
m = mmap.mmap(fd, 4096 * PAGES, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
m.madvise(mmap.MADV_RANDOM)
before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
for at in range(0, len(m), 4096):
    m[at]
    time.sleep(0.005)
print(resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before)
os._exit(0 if resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before == PAGES else 9)";
const PAGES: u64 = 512;
const ANONYMOUS: u64 = 20 * 4096;

fn record(out: &Path, one_in: u64) -> SessionOutcome {
    let file = out.with_extension("file");
    let mut command: Vec<_> = ["/usr/bin/python3", "-c", PROGRAM].map(Into::into).to_vec();
    command.push(file.into());
    let mut options = SessionOptions::new(Target::Command(command), out.to_owned());
    options.streams = StreamSet::parse("tasks,faults,maps").expect("streams");
    options.fault_details = one_in;
    let outcome = pagelab_session::run(&options).expect("recorded");
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0, "each page of a dropped file is a major fault");
    outcome
}

#[derive(Debug, Default)]
struct Sums {
    faults: u64,
    major: u64,
    minor: u64,
    new: u64,
    page_cache: u64,
    counted_major: u64,
}

fn sums(outcome: &SessionOutcome) -> Sums {
    let recording = Recording::open(&outcome.dir).expect("a recording");
    let mut sums = Sums::default();
    recording
        .for_each::<FaultsRow>(|row| {
            sums.faults += 1;
            assert_eq!(row.major.is_some(), row.dur.is_some(), "{row:?}");
            assert!(row.major.is_some() || row.got.is_none(), "{row:?}");
            assert!(row.dur.is_none_or(|dur| dur > 0), "{row:?}");
            sums.major += u64::from(row.major == Some(true));
            sums.minor += u64::from(row.major == Some(false));
            sums.new += u64::from(row.got == Some("new"));
            sums.page_cache += u64::from(row.major == Some(true) && row.got == Some("page_cache"));
        })
        .expect("faults");
    recording.for_each::<TasksRow>(|row| sums.counted_major += row.maj_flt.unwrap_or(0)).expect("tasks");
    sums
}

/// One in this many minor faults is sampled.
const ONE_IN: u64 = 64;

#[test]
fn majors_are_those_that_the_kernel_counted_and_minors_one_in_n() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Not the temporary directory, which may be in memory: that has nothing to be read from.
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let outcome = record(&tmp.path().join("rec"), ONE_IN);
    let told = &outcome.manifest.extra["fault_details"];
    assert_eq!(
        (&told["lost"], &told["unmatched"], &told["minor_one_in"]),
        (&0.into(), &0.into(), &ONE_IN.into()),
        "{told}"
    );
    assert!(told["got_unknown_because"].is_null(), "{told}");
    let sums = sums(&outcome);
    assert_eq!(told["seen"], sums.major + sums.minor, "{sums:?}");
    assert!(sums.page_cache >= PAGES && sums.major <= sums.counted_major, "{sums:?}");
    let expected = (sums.faults - sums.major) as f64 / ONE_IN as f64;
    assert!((sums.minor as f64 - expected).abs() <= 4.0 * expected.sqrt(), "{sums:?}, expected {expected}");
    let expected = ANONYMOUS as f64 / ONE_IN as f64;
    assert!(sums.new as f64 >= expected - 4.0 * expected.sqrt(), "{sums:?}, expected {expected}");
}

#[test]
fn unless_it_is_asked_for_no_minor_fault_is_looked_at() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let outcome = record(&tmp.path().join("rec"), 0);
    let sums = sums(&outcome);
    assert!(sums.major > 0 && (sums.minor, sums.new) == (0, 0), "{sums:?}");
    assert!(sums.faults >= ANONYMOUS + PAGES);
    assert!(outcome.manifest.extra["fault_details"]["minor_one_in"].is_null());
}
