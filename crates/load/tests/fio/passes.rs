//! What happens at the ends of passes: flushes that count over them, the page cache that stays or goes. Counted by strace in both
//! programs: neither says so itself.

use std::path::Path;
use std::process::Command;

use crate::common::{fio_program, same_operations};

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
            .args(["--name=j", "--output-format=json"])
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
        Traced::run(program, place.path(), &format!("--filename=data {job}"))
    })
}

/// How often both programs call fsync(2), fdatasync(2) and msync(2) for a job that finds no file; fio first.
fn flushes(job: &str) -> [usize; 2] {
    [fio_program(), crate::common::pagelab()].map(|program| {
        let place = tempfile::tempdir().expect("tempdir");
        let traced = Traced::run(program, place.path(), job);
        // `fsync(` is not in `fdatasync(`.
        ["fsync(", "fdatasync(", "msync("].iter().map(|call| traced.count(call)).sum()
    })
}

/// Files that a pass closes, because nothing more is to be done in them or because only some may be open, are flushed as those that
/// stay open.
#[test]
fn closed_files_are_flushed_at_the_end_of_a_pass() {
    for (job, expected) in [
        ("--nrfiles=3 --end_fsync=1", 3),
        ("--nrfiles=4 --end_fsync=1", 4),
        ("--filename=a:b:c --end_fsync=1", 3),
        ("--nrfiles=4 --openfiles=1 --end_fsync=1", 4),
        ("--nrfiles=4 --openfiles=1 --end_fsync=1 --number_ios=5", 4),
        ("--nrfiles=3 --loops=2 --end_fsync=1", 6),
        ("--nrfiles=3 --ioengine=libaio --iodepth=4 --end_fsync=1", 3),
        ("--nrfiles=4 --openfiles=1 --ioengine=libaio --iodepth=4 --end_fsync=1", 4),
        ("--nrfiles=3 --ioengine=mmap --create_fsync=0 --end_fsync=1", 3),
        ("--nrfiles=3 --end_fsync=1 --verify=crc32c --verify_state_save=0", 3),
    ] {
        assert_eq!(flushes(&format!("--rw=write --bs=4k --size=64k {job}")), [expected; 2], "{job}");
    }
    // fio flushes with io_uring by an operation of the ring.
    let [_, ours] = flushes("--rw=write --bs=4k --size=64k --nrfiles=3 --ioengine=io_uring --iodepth=4 --end_fsync=1");
    assert_eq!(ours, 3);
}

/// `fsync_on_close`: what a pass closes is flushed then and once more at its end, what stays open at its end and once more when a further
/// loop closes it.
#[test]
fn files_are_flushed_whenever_they_are_closed() {
    for (job, expected) in [
        ("", 1),
        ("--loops=2", 3),
        ("--loops=3 --end_fsync=1", 5),
        ("--rw=write:3", 2),
        ("--nrfiles=3", 6),
        ("--nrfiles=3 --end_fsync=1", 6),
        ("--nrfiles=4 --openfiles=1", 7),
        ("--nrfiles=3 --loops=2", 12),
        ("--nrfiles=3 --loops=2 --ioengine=libaio --iodepth=4", 12),
        ("--nrfiles=2 --loops=2 --ioengine=mmap --create_fsync=0", 6),
        ("--fsync=4", 4),
        ("--fsync=4 --loops=2", 9),
        ("--fsync=5 --loops=2", 9),
    ] {
        assert_eq!(flushes(&format!("--rw=write --bs=4k --size=64k --fsync_on_close=1 {job}")), [expected; 2], "{job}");
    }
}

/// sync_file_range(2) means nothing to mapped pages: all of them are written back.
#[test]
fn mapped_ranges_are_written_back() {
    for (job, expected) in [("write:4", 3), ("wait_before,write:1", 15), ("write,wait_after:16", 0)] {
        let job = format!("--rw=write --ioengine=mmap --bs=4k --size=64k --create_fsync=0 --sync_file_range={job}");
        assert_eq!(flushes(&job), [expected; 2], "{job}");
    }
}

/// Verifying flushes nothing that no option flushes; files that are opened to be verified are closed once more.
#[test]
fn verified_files_are_flushed_as_by_fio() {
    for job in [
        "--nrfiles=5",
        "--nrfiles=3 --openfiles=1",
        "--nrfiles=3 --loops=2",
        "--nrfiles=2 --end_fsync=1 --fsync_on_close=1",
        "--end_fsync=1",
        "--loops=2 --end_fsync=1",
        "--fsync_on_close=1",
        "--nrfiles=3 --fsync_on_close=1",
        "--loops=2 --fsync_on_close=1",
        "--fsync=1",
        "--fsync=4 --loops=2",
        "--do_verify=0 --fsync_on_close=1",
        "--do_verify=0 --end_fsync=1",
        "--verify_backlog=4",
        "--verify_backlog=4 --end_fsync=1",
    ] {
        let [theirs, ours] = flushes(&format!("--rw=write --bs=4k --size=64k --verify=crc32c {job}"));
        assert_eq!(ours, theirs, "{job}");
    }
}

/// Flushes are asked for before each operation: in a job that reads, too, each read behind a write that is due is preceded by one, but none
/// follows another; and what is due first is done alone.
#[test]
fn jobs_are_flushed_on_the_way_as_by_fio() {
    for job in [
        "--rw=rw --size=64k --rwmixread=50 --rw_sequencer=sequential --fsync=1",
        "--rw=write --size=256k --fsync=32 --fdatasync=5",
        "--rw=write --size=256k --fsync=2 --fdatasync=3 --sync_file_range=write:2",
        "--rw=write --size=64k --fdatasync=3 --loops=2",
        // The last block ends before the region does: a further one is looked for.
        "--rw=write --size=300000 --fdatasync=1",
        "--rw=randwrite --size=300000 --fsync=1 --loops=2",
        "--rw=randwrite --size=300000 --nrfiles=2 --fsync=1 --end_fsync=1",
        "--rw=randwrite --size=300000 --fsync=1 --number_ios=7",
        "--rw=randwrite --size=64k --nrfiles=3 --fsync=1 --loops=2 --end_fsync=1",
        "--rw=randwrite --size=64k --nrfiles=3 --fsync=1 --loops=2 --fsync_on_close=1",
        // All that is flushed is all of the file.
        "--rw=write --size=64k --ioengine=posixaio --iodepth=1 --fdatasync=4",
        "--rw=write --size=64k --ioengine=posixaio --iodepth=1 --sync_file_range=write:4",
    ] {
        let [theirs, ours] = flushes(&format!("--bs=4k {job}"));
        let near = (theirs / 5).max(3);
        let exact = !job.contains("rw=rw");
        assert!(
            if exact { ours == theirs } else { ours.abs_diff(theirs) <= near },
            "{job}: fio {theirs}, pagelab {ours}"
        );
    }
}

/// A file that is made longer before the start is on the medium then.
#[test]
fn files_are_flushed_after_their_layout() {
    for (job, expected) in [
        ("--rw=write --ioengine=mmap --bs=4k --size=64k", 1),
        ("--rw=write --ioengine=mmap --bs=4k --size=64k --create_fsync=0", 0),
        ("--rw=write --bs=4k --size=64k", 0),
        ("--rw=read --bs=4k --size=64k", 1),
        ("--rw=write --bs=4k --size=64k --filename=f --name=k --stonewall --rw=read --bs=4k --size=1m --filename=f", 1),
        // The job that lays the file out says whether it is flushed, and not the first that names it.
        (
            "--rw=write --bs=4k --size=64k --filename=f --create_fsync=0 --name=k --stonewall --rw=read --bs=4k --size=1m --filename=f",
            1,
        ),
        (
            "--rw=write --bs=4k --size=64k --filename=f --name=k --stonewall --rw=read --bs=4k --size=1m --filename=f --create_fsync=0",
            0,
        ),
        (
            "--rw=read --bs=4k --size=64k --filename=f --create_fsync=0 --name=k --stonewall --rw=read --bs=4k --size=64k --filename=f",
            0,
        ),
    ] {
        assert_eq!(flushes(job), [expected; 2], "{job}");
    }
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

/// Files that are longer than the job's size: a pass of an engine that completes each operation at once goes on in them, a pass of one
/// with a queue ends and the next one begins at their start.
#[test]
fn passes_go_on_in_longer_files() {
    for (job, kib) in [
        ("--ioengine=psync --rw=read --loops=2", 128),
        ("--ioengine=psync --rw=write --loops=5", 320),
        ("--ioengine=psync --rw=write --io_size=192k", 192),
        ("--ioengine=psync --rw=read --loops=2 --nrfiles=2", 128),
        ("--ioengine=libaio --rw=read --loops=2", 128),
    ] {
        let log = same_operations(&format!("{job} --bs=4k --size=64k --filesize=256k"));
        assert_eq!(log.len(), kib / 4, "{job}");
    }
}

/// How much more than its loops a job does: to `io_size`, reads that verify among it, and not at all where do_verify=0 keeps an engine
/// without a queue from beginning its files anew.
#[test]
fn passes_go_on_to_io_size_as_by_fio() {
    for job in [
        "--rw=write --do_verify=0",
        "--rw=randread --do_verify=0",
        "--rw=write --do_verify=0 --loops=2",
        "--rw=write --do_verify=0 --ioengine=libaio",
        "--rw=write --do_verify=0 --ioengine=vsync",
        "--rw=randwrite --do_verify=0 --ioengine=mmap",
        "--rw=write --verify=md5",
        "--rw=write --verify=md5 --loops=2",
        "--rw=randwrite --verify=md5 --ioengine=libaio",
        "--rw=write --verify=md5 --do_verify=0",
        "--rw=write --verify=md5 --do_verify=0 --loops=2",
        "--rw=write",
        "--rw=randread --loops=2 --ioengine=libaio",
    ] {
        let of = |program: fn() -> Command| {
            let place = tempfile::tempdir().expect("tempdir");
            let mut program = program();
            program.current_dir(place.path()).args(["--name=j", "--size=64k", "--io_size=176k", "--bs=4k"]);
            let output = program.args(["--output-format=json"]).args(job.split(' ')).output().expect("runs");
            assert!(output.status.success(), "{job}: {}", String::from_utf8_lossy(&output.stderr));
            let document = crate::common::document(&output);
            ["read", "write"].map(|side| document["jobs"][0][side]["total_ios"].as_u64())
        };
        let theirs = of(fio_program);
        assert_eq!(of(crate::common::pagelab), theirs, "reads and writes of {job}");
        assert!(theirs.iter().flatten().sum::<u64>() >= 16, "{job}");
    }
}

/// A loop to which earlier ones left nothing opens its files all the same, and flushes them.
#[test]
fn idle_loops_flush_as_by_fio() {
    for (job, expected) in [
        ("--number_ios=8 --loops=3 --end_fsync=1", 2),
        ("--number_ios=8 --loops=3 --fsync_on_close=1", 3),
        ("--number_ios=8 --loops=3 --fsync_on_close=1 --nrfiles=2 --ioengine=libaio", 6),
        ("--number_ios=8 --loops=3 --end_fsync=1 --ioengine=mmap", 2),
        ("--number_ios=8 --loops=1 --end_fsync=1", 1),
        ("--number_ios=8 --loops=3 --end_fsync=1 --unlink_each_loop=1", 2),
        ("--io_size=8k --loops=2 --end_fsync=1", 2),
        ("--size=64k --io_size=128k --do_verify=0 --end_fsync=1", 2),
        // Without a map the first loop does all, where the engine has no queue.
        ("--rw=randwrite --norandommap --loops=3 --end_fsync=1", 2),
        ("--rw=randwrite --random_distribution=zipf:1.2 --loops=3 --end_fsync=1 --ioengine=libaio", 3),
        ("--rw=randwrite --norandommap --loops=3 --io_size=512k --end_fsync=1 --ioengine=libaio", 3),
        ("--number_ios=8 --loops=2 --fsync_on_close=1 --verify=md5 --do_verify=0 --nrfiles=2 --ioengine=libaio", 6),
        ("--bs=8k --size=300000 --loops=2 --fsync_on_close=1 --unlink_each_loop=1", 4),
        // A file that ends within a block is closed before the pass ends.
        ("--bs=8k --size=300000 --fsync_on_close=1", 2),
        ("--bs=8k --size=300000 --fsync_on_close=1 --fsync=8 --loops=2", 11),
        // A block behind the file ends a loop that goes from zone to zone, and only that does.
        (
            "--rw=randwrite --size=300000 --zonemode=strided --zonesize=32k --zonerange=64k --zoneskip=64k --loops=3 --end_fsync=1",
            3,
        ),
        (
            "--rw=randwrite --size=256k --zonemode=strided --zonesize=32k --zonerange=64k --zoneskip=64k --loops=3 --end_fsync=1",
            1,
        ),
        // io_size is reached before it is as often as there are loops: the last pass looks for an operation in vain.
        ("--bs=64k --loops=2 --io_size=2m --rw=randwrite --fsync=4", 8),
        ("--bs=64k --loops=1 --io_size=2m --rw=randwrite --fsync=4", 7),
        // Engines that end passes at their size ask for no further operation there.
        ("--bs=64k --size=1m --loops=2 --fsync=8 --ioengine=libaio", 3),
        ("--bs=64k --size=1m --loops=2 --fsync=8 --ioengine=vsync", 3),
        ("--bs=64k --size=1100k --loops=2 --fsync=8 --ioengine=vsync", 4),
        ("--bs=64k --size=1m --loops=2 --fsync=8", 4),
        // Reads of the backlog are no turn for a flush.
        ("--size=64k --fsync=1 --verify=md5 --verify_backlog=8", 15),
        ("--size=64k --fdatasync=3 --rw=randwrite --verify=crc32c --verify_backlog=3 --nrfiles=3", 4),
        ("--size=64k --fsync=1 --verify=md5 --verify_backlog=8 --verify_backlog_batch=3 --ioengine=libaio", 15),
        ("--number_ios=8 --loops=3", 0),
    ] {
        let counted = flushes(&format!("--rw=write --bs=4k --size=256k {job}"));
        assert_eq!(counted[1], counted[0], "{job}");
        assert!(counted[0] >= expected, "{job}: {counted:?}");
    }
}
