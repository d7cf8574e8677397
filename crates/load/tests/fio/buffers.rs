//! What is written, from which memory: the same bytes on disk where the job determines them.

use crate::common::{fio_program, pagelab, same_files};

/// Runs a job under fio and under pagelab; gives the directories.
fn both(job: &str) -> [tempfile::TempDir; 2] {
    let places = [tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir")];
    for (place, mut program) in places.iter().zip([fio_program(), pagelab()]) {
        let output =
            program.current_dir(place.path()).arg("--name=j").args(job.split_whitespace()).output().expect("runs");
        assert!(output.status.success(), "{job}: {}", String::from_utf8_lossy(&output.stderr));
    }
    places
}

#[test]
fn contents_that_the_job_determines() {
    let directory = tempfile::tempdir().expect("tempdir");
    let pattern = directory.path().join("pattern");
    std::fs::write(&pattern, b"from a file").expect("write");
    for job in [
        "--rw=write --bs=4k --size=64k --zero_buffers=1",
        "--rw=write --bs=4k --size=64k --buffer_pattern=0xdeadface",
        "--rw=write --bs=4k --size=64k --buffer_pattern=\"abcd\"",
        "--rw=write --bs=4k --size=64k --buffer_pattern=\"abcd\"-12",
        "--rw=write --bs=4k --size=64k --buffer_pattern=-1024",
        "--rw=write --bs=3000 --size=60000 --buffer_pattern=0xabc",
        "--rw=randwrite --bs=4k --size=64k --buffer_pattern=123 --refill_buffers=1",
        "--rw=rw --bs=4k --size=64k --buffer_pattern=0x55aa",
        "--rw=read --bs=4k --size=64k --buffer_pattern=0x0102030405",
        "--rw=read --bs=4k --size=64k --zero_buffers=1",
        "--rw=write --bs=4k --size=64k --overwrite=1 --number_ios=2 --buffer_pattern=77",
        "--rw=write --bs=4k --size=64k --buffer_compress_percentage=100",
        "--rw=write --bs=4k --size=64k --zero_buffers=1 --mem=mmap",
        "--rw=write --bs=4k --size=64k --buffer_pattern=9 --iomem=shm --iomem_align=64k",
        "--rw=write --bs=4k --size=64k --buffer_pattern=9 --mem=mmapshared --ioengine=pvsync2",
        "--rw=write --bs=4k --size=64k --buffer_pattern=9 --ioengine=vsync --sync=dsync",
        "--rw=write --bs=4k --size=64k --buffer_pattern=9 --ioengine=mmap --fsync=4",
    ] {
        same_files(job, &both(job), true);
    }
    let job = format!("--rw=write --bs=4k --size=64k --buffer_pattern='{}'", pattern.display());
    same_files(&job, &both(&job), true);
}

/// Bytes of a file that lie in 512-byte chunks whose tail is zero, and how many of its 4 KiB blocks are different.
fn measure(place: &tempfile::TempDir) -> (f64, usize) {
    let bytes = std::fs::read(place.path().join("f")).expect("made");
    let zeros = bytes.iter().map(|byte| u64::from(*byte == 0)).sum::<u64>() as f64 / bytes.len() as f64;
    let blocks: std::collections::BTreeSet<&[u8]> = bytes.chunks(4096).collect();
    (zeros, blocks.len())
}

#[test]
fn contents_that_chance_determines_are_alike() {
    for (job, blocks) in [
        ("--refill_buffers=1", 1024..=1024),
        // The default: each block differs at least a little.
        ("", 1024..=1024),
        ("--scramble_buffers=1", 1024..=1024),
        ("--scramble_buffers=0", 1..=1),
        ("--buffer_compress_percentage=50", 1024..=1024),
        ("--buffer_compress_percentage=75 --buffer_compress_chunk=4k", 1024..=1024),
        // Five standard deviations of a binomial share at n = 1024.
        ("--dedupe_percentage=50", 432..=592),
    ] {
        let job = format!("--rw=write --bs=4k --size=4m --filename=f {job}");
        let places = both(&job);
        let [theirs, ours] = places.each_ref().map(measure);
        // Where fio scrambles it writes the offset and the time, which have zeros in them.
        let near = if job.contains("compress") || job.contains("refill") { 0.01 } else { 0.2 };
        assert!((theirs.0 - ours.0).abs() < near, "{job}: shares of zeros {} {}", theirs.0, ours.0);
        assert!(blocks.contains(&ours.1) && blocks.contains(&theirs.1), "{job}: blocks {} {}", theirs.1, ours.1);
    }
}

#[test]
fn huge_buffers_come_from_the_pool_or_say_how_to_fill_it() {
    for memory in ["shmhuge", "mmaphuge"] {
        let place = tempfile::tempdir().expect("tempdir");
        let output = pagelab()
            .current_dir(place.path())
            .args(["--name=j", "--rw=write", "--bs=1m", "--size=4m", "--hugepage-size=2m", "--buffer_pattern=5"])
            .arg(format!("--mem={memory}"))
            .output()
            .expect("runs");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let free =
            std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").unwrap_or_default();
        if free.trim().parse::<u64>().is_ok_and(|free| free > 0) {
            assert!(output.status.success(), "{memory}: {words}");
        } else if !output.status.success() {
            // An overcommit pool may still have given one.
            assert!(words.contains("hugepages"), "{memory}: {words}");
        }
    }
}
