//! What happens at the ends of passes: flushes that count over them, the page cache that stays or goes. Counted by strace in both
//! programs: neither says so itself.

use std::path::Path;
use std::process::Command;

use crate::common::fio_program;

/// The calls that a program makes for a job, by strace.
struct Traced(String);

impl Traced {
    fn run(mut program: Command, place: &Path, job: &str) -> Self {
        let log = place.join("log.strace");
        let output = Command::new("strace")
            .current_dir(place)
            .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,fadvise64,msync,openat,pwrite64", "-o"])
            .arg(&log)
            .arg(program.get_program())
            .args(program.get_args())
            .args(["--name=j", "--filename=data", "--output-format=json"])
            .args(job.split_whitespace())
            .output()
            .expect("strace is installed (apt-get install strace); `make test` does it");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{job}: {words}");
        program.env_clear();
        Self(std::fs::read_to_string(log).expect("a log"))
    }

    fn count(&self, part: &str) -> usize {
        self.0.lines().filter(|line| line.contains(part)).count()
    }

    /// Flushes of the whole file and of its data, in the order of writes and flushes.
    fn writes_and_flushes(&self) -> String {
        let letter = |line: &str| match line {
            line if line.contains("fdatasync(") => Some('d'),
            line if line.contains("fsync(") => Some('f'),
            line if line.contains("pwrite64(") => Some('w'),
            _ => None,
        };
        self.0.lines().filter_map(letter).collect()
    }
}

/// The same job in both programs, each in a directory of its own with the same file `data` of 1 MiB; fio's first.
fn both(job: &str) -> [Traced; 2] {
    [fio_program(), crate::common::pagelab()].map(|program| {
        let place = tempfile::tempdir().expect("tempdir");
        let layout = "--name=j --filename=data --rw=write --bs=64k --size=1m";
        let made = crate::common::pagelab().current_dir(place.path()).args(layout.split(' ')).output().expect("runs");
        assert!(made.status.success());
        Traced::run(program, place.path(), job)
    })
}

#[test]
fn flushes_count_over_passes() {
    for job in [
        "--size=8k --loops=5 --fsync=1",
        "--size=4k --loops=50 --fdatasync=1",
        "--size=16k --io_size=40k --fsync=1",
        "--size=16k --loops=3 --fsync=3",
        "--size=16k --loops=2 --fsync=4",
        "--size=16k --fsync=1",
        "--size=16k --loops=4 --fsync=2 --rw=randwrite",
        "--size=12k --loops=3 --fdatasync=2 --end_fsync=1",
        "--size=16k --loops=3 --fsync=2 --number_ios=3",
    ] {
        let [theirs, ours] =
            both(&format!("--rw=write --bs=4k --ioengine=psync {job}")).map(|t| t.writes_and_flushes());
        assert_eq!(ours, theirs, "writes and flushes of {job}");
    }
}

#[test]
fn without_a_map_the_page_cache_stays() {
    let dropped =
        |traced: &Traced| traced.0.lines().filter(|l| l.contains("fadvise64") && l.contains("DONTNEED")).count();
    for job in [
        "--norandommap --io_size=4m",
        "--norandommap --loops=4",
        "--norandommap --time_based --runtime=1 --rate_iops=2000",
        "--random_distribution=zipf:1.2 --io_size=4m",
        "--blockalign=512 --loops=3",
        "--rw=randwrite --norandommap --io_size=4m",
        "--rw=randrw --norandommap --loops=3",
        "--zonemode=strided --zonesize=64k --zoneskip=64k --io_size=4m",
        // And with one each pass begins with none of it.
        "--io_size=4m",
        "--random_generator=lfsr --io_size=4m",
        "--rw=read --loops=3",
    ] {
        let [theirs, ours] = both(&format!("--rw=randread --bs=4k --size=1m --ioengine=psync {job}"));
        assert_eq!(dropped(&ours), dropped(&theirs), "how often {job} drops the page cache");
    }
}

/// `direct=1` where there is no way around the page cache: each operation is written back before the next.
#[test]
fn direct_mapped_operations_are_written_back() {
    for job in
        ["--rw=randwrite --bs=4k --size=256k", "--rw=read --bs=8k --size=256k", "--rw=randrw --bs=4k --size=256k"]
    {
        let traced = both(&format!("--ioengine=mmap --direct=1 {job}"));
        let [theirs, ours] = traced.each_ref().map(|traced| traced.count("msync("));
        assert_eq!(ours, theirs, "msync(2) of {job}");
        assert!(ours >= 32);
    }
    let place = tempfile::tempdir().expect("tempdir");
    let words = format!(
        "--name=j --directory={} --ioengine=mmap --rw=write --bs=512 --size=64k --direct=1",
        place.path().display()
    );
    let said = crate::common::refused(&words.split(' ').collect::<Vec<_>>(), 2);
    assert!(said.contains("multiples of 4096"), "{said}");
}
