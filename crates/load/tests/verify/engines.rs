//! Every engine verifies its data and finds one flipped byte.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{children, pagelab};
use crate::{EILSEQ, detected, flip, run_in, verified};
use pagelab_fiojob::Caps;
use pagelab_fiojob::engines::ENGINES;
use pagelab_load::JobReport;

/// Methods that every engine is tried with.
pub(crate) const METHODS: &[&str] = &["crc32c", "xxhash", "sha256", "md5", "pattern --verify_pattern=%o0x5a"];

const BLOCK: u64 = 4096;

/// Engines that write to plain files what a job gives them; the others allocate, move or make files and leave their contents alone.
/// The one for devices of direct access is held in labs: `crates/cli/tests/lab_pmem.rs`.
fn file_engines() -> impl Iterator<Item = &'static str> {
    const WITHOUT_CONTENTS: [Caps; 4] = [Caps::DAX_DEVICES, Caps::ALLOCATES, Caps::DONOR, Caps::WHOLE_FILES];
    ENGINES
        .iter()
        .filter(|engine| engine.caps.contains(Caps::FILES))
        .filter(|engine| !WITHOUT_CONTENTS.iter().any(|&cap| engine.caps.contains(cap)))
        .map(|engine| engine.name)
}

/// Writes, verifies, flips, finds: on files of `place` with each of `engines`.
pub(crate) fn flips_are_found<'a>(place: &Path, engines: impl Iterator<Item = &'a str>, more: &str) {
    for engine in engines {
        for (number, method) in METHODS.iter().enumerate() {
            for rw in ["write", "randwrite"] {
                // Engines without a queue say that iodepth has no effect.
                let job = format!(
                    "--filename=f --ioengine={engine} --iodepth=8 --rw={rw} --bs=4k --size=2m --verify={method} {more}"
                );
                assert_eq!(verified(place, &job), 512, "{job}");
                assert_eq!(verified(place, &format!("{job} --verify_only=1")), 512, "{job}");
                // In the header, in the checksum, in the data.
                let at = [0, 12, 36, 41, 200, BLOCK - 1][(number + usize::from(rw == "write")) % 6] + 77 * BLOCK;
                flip(&place.join("f"), at);
                detected(place, &format!("{job} --verify_only=1"), 77 * BLOCK);
                flip(&place.join("f"), at);
                assert_eq!(verified(place, &format!("{job} --verify_only=1")), 512, "{job}");
                std::fs::remove_file(place.join("f")).expect("remove");
            }
        }
    }
}

#[test]
fn every_engine_of_files_finds_one_flipped_byte() {
    let place = tempfile::tempdir().expect("tempdir");
    flips_are_found(place.path(), file_engines(), "");
}

/// Runs a job whose writes are slow, and lets `strike` at its worker until it says that it has struck; then gives the job's end.
pub(crate) fn struck(place: &Path, words: &str, mut strike: impl FnMut(u32) -> bool) -> (i32, JobReport) {
    let mut front: Child = pagelab()
        .current_dir(place)
        .args(["--output-format=report", "--name=j"])
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let begin = Instant::now();
    let mut done = false;
    while !done && begin.elapsed() < Duration::from_mins(1) && front.try_wait().expect("wait").is_none() {
        let worker = children(front.id()).first().and_then(|load| children(*load).first().copied());
        done = worker.is_some_and(&mut strike);
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = front.wait_with_output().expect("wait");
    assert!(done, "{words}: the job ended before anything could be flipped");
    (output.status.code().expect("a status"), serde_json::from_slice(&output.stdout).expect("a report"))
}

/// The first piece of a process, and its memory.
fn piece(pid: u32) -> Option<(u64, std::fs::File)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let start = maps
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split('-').next()?, 16).ok())
        .find(|start| (0x1000_0000_0000..0x5000_0000_0000).contains(start))?;
    Some((start, std::fs::File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).ok()?))
}

/// Changes a byte of block 5 in the worker's own memory, once the block is there.
fn strike_memory(pid: u32, at: u64, pattern: bool) -> bool {
    let Some((start, mut memory)) = piece(pid) else { return false };
    let mut read = |at: u64, bytes: &mut [u8]| {
        memory.seek(SeekFrom::Start(start + at)).and_then(|_| memory.read_exact(bytes)).is_ok()
    };
    let mut head = [0_u8; 2];
    // The last block written so far shows that block 5 is complete.
    let there = read(8 * BLOCK, &mut head) && if pattern { head != [0, 0] } else { head == [0xca, 0xac] };
    let mut byte = [0_u8; 1];
    if !there || !read(5 * BLOCK + at, &mut byte) {
        return false;
    }
    memory.seek(SeekFrom::Start(start + 5 * BLOCK + at)).expect("seek");
    memory.write_all(&[byte[0] ^ 1]).expect("/proc/PID/mem can be written");
    true
}

#[test]
fn memory_is_verified() {
    let place = tempfile::tempdir().expect("tempdir");
    let engines = ["anon", "shm", "anon --map_backing=memfd"];
    for (number, method, engine) in
        METHODS.iter().enumerate().flat_map(|(number, method)| engines.map(|engine| (number, method, engine)))
    {
        for (rw, more) in [
            ("write", ""),
            ("write", if engine == "anon" { "--map_share=shared" } else { "" }),
            ("randwrite", "--map_granularity=16k --thread=1"),
            ("randrw", ""),
        ] {
            let job = format!("--ioengine={engine} --rw={rw} --bs=4k --size=1m --verify={method} {more}");
            assert!(verified(place.path(), &job) > 50, "{job}");
        }
        let at = [0, 20, 38, 300, BLOCK - 1][number];
        let slow = format!("--ioengine={engine} --rw=write --bs=4k --size=256k --verify={method} --thinktime=10ms");
        let (status, report) = struck(place.path(), &slow, |pid| strike_memory(pid, at, method.starts_with("pattern")));
        let verify = report.workers[0].verify.as_ref().expect("verified");
        assert_eq!((status, verify.blocks, verify.mismatches), (1, 64, 1), "{slow} {at}: {verify:?}");
        assert_eq!((verify.first[0].offset, verify.first[0].file.as_str()), (5 * BLOCK, ""), "{slow}");
        assert_eq!(report.workers[0].failure.as_ref().map(|failure| failure.errno), Some(EILSEQ));
    }
}

/// In one run: what changes on the file between its write and its verifying is found, also by engines that have it mapped.
#[test]
fn what_changes_between_writing_and_verifying_is_found() {
    for engine in file_engines() {
        let place = tempfile::tempdir().expect("tempdir");
        let file = place.path().join("f");
        let job = format!(
            "--filename=f --ioengine={engine} --iodepth=8 --rw=write --bs=4k --size=256k --verify=crc32c --thinktime=10ms"
        );
        let there = |block: u64| {
            let mut head = [0; 2];
            let file = std::fs::File::open(&file).ok();
            file.is_some_and(|file| std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, block * BLOCK).is_ok())
                && head == [0xca, 0xac]
        };
        let (status, report) = struck(place.path(), &job, |_| {
            let now = there(8);
            if now {
                flip(&file, 5 * BLOCK + 1234);
            }
            now
        });
        let verify = report.workers[0].verify.as_ref().expect("verified");
        assert_eq!((status, verify.mismatches, verify.first[0].offset), (1, 1, 5 * BLOCK), "{job}: {verify:?}");
    }
}

/// A block that holds an earlier block, whole and in its place, is a lost write: the run that wrote finds it by its age, even where
/// seed and number are the same.
#[test]
fn lost_writes_are_found() {
    use std::os::unix::fs::FileExt as _;
    let place = tempfile::tempdir().expect("tempdir");
    let path = place.path().join("f");
    let job = "--filename=f --rw=write --bs=4k --size=256k --verify=md5";
    verified(place.path(), job);
    let file = std::fs::File::options().read(true).write(true).open(&path).expect("made");
    let (mut before, mut now) = ([0; BLOCK as usize], [0; BLOCK as usize]);
    file.read_exact_at(&mut before, 5 * BLOCK).expect("read");
    let (status, report) = struck(place.path(), &format!("{job} --thinktime=10ms"), |_| {
        file.read_exact_at(&mut now, 5 * BLOCK).expect("read");
        // Another time stands in the header; everything that follows from the seed is the same.
        let written = now != before;
        if written {
            assert_eq!(now[56..], before[56..], "contents repeat with the seed");
            std::thread::sleep(Duration::from_millis(20));
            file.write_all_at(&before, 5 * BLOCK).expect("write");
        }
        written
    });
    let verify = report.workers[0].verify.as_ref().expect("verified");
    assert_eq!((status, verify.mismatches, verify.first[0].offset), (1, 1, 5 * BLOCK), "{verify:?}");
    assert!(verify.first[0].found.contains("lost"), "{verify:?}");
    // A later run takes the block for what its header says.
    assert_eq!(verified(place.path(), &format!("{job} --verify_only=1")), 64);
}

#[test]
fn the_null_engine_pretends_and_says_so() {
    let place = tempfile::tempdir().expect("tempdir");
    let (status, report) = run_in(place.path(), "--ioengine=null --rw=write --bs=4k --size=1m --verify=crc32c");
    assert_eq!((status, report.workers[0].verify.as_ref().expect("pretends").blocks), (0, 0));
    assert!(report.warnings.iter().any(|warning| warning.contains("verify has no effect with ioengine=null")));
}
