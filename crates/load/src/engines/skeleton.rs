//! A skeleton to copy for a new engine. It is compiled and run in tests only, so that it stays right.
//!
//! The first line of an engine's file names the engine as users write it (`ioengine=NAME`) and the calls that it makes:
//! the list of engines in the docs and the manual page of the call are what a reader looks up next.

use pagelab_fiojob::{Caps, Direction, Operation, engines as language};

use super::file::{OpenFile as _, TargetFile};
use super::{Engine, Setup, StartOver, Synchronous};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;

/// The engine's state for one open file. Everything an operation needs is made in `open` and kept here.
pub(super) struct Skeleton {
    file: TargetFile,
}

impl Engine for Skeleton {
    // Truthfully: options that need what is not listed here are refused or warned about, and offered in the docs only to those that
    // list it. An engine without files leaves FILES out and gets no path; one that waits for each operation has SYNCHRONOUS.
    const CAPS: Caps = language::PSYNC.caps;

    // Runs in the worker, before the start. Errors say what was found, what is needed and what to type; they end the run before it
    // began. `setup.options` has every option with its value.
    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        Ok(Self { file: TargetFile::open(setup)? })
    }

    // fsync=, fdatasync=, end_fsync=; engines that write nothing durable leave it out, and FSYNC out of CAPS.
    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        self.file.flush(data_only)
    }

    // The next loop, or the next round of time_based.
    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        self.file.start_over(how)
    }
}

impl Synchronous for Skeleton {
    // The hot loop is compiled around this: no allocation, no lock, no branch for anything the job does not use. Time
    // stamps are taken right before and right after. Fewer bytes than requested are fine: the rest is requested next.
    // No bytes at all are an error.
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        let buffer = buffer.first(operation.bytes)?;
        let done = match operation.direction {
            Direction::Read => rustix::io::pread(self.file.fd()?, buffer, operation.offset)?,
            Direction::Write => rustix::io::pwrite(self.file.fd()?, buffer, operation.offset)?,
            Direction::Trim => return self.file.discard(operation),
        };
        if done == 0 { Err(Fault::EndOfFile) } else { Ok(done as u32) }
    }
}

#[test]
fn the_skeleton_reads_and_writes() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("f");
    let ownership = crate::safety::Ownership::new(directory.path());
    let file = std::fs::File::from(ownership.create(&path).expect("create").expect("new"));
    file.set_len(8192).expect("length");
    let permit = crate::safety::Permit::of_own(std::os::fd::AsFd::as_fd(&file)).expect("permit");
    let mut options = pagelab_fiojob::JobOptions::default();
    options.rw.0 = pagelab_fiojob::words::Pattern::ReadWrite;
    let course = crate::offsets::Course {
        start: 0,
        region_bytes: 8192,
        block_bytes: [4096; 2],
        transfer_bytes: [4096; 2],
        read_percent: 50,
        order: crate::offsets::Order::Sequential,
        seed: 1,
    };
    let setup = Setup {
        job: "j",
        options: &options,
        path: Some(&path),
        permit: Some(permit),
        course: &course,
        state_dir: directory.path(),
        allow_write: &[],
    };
    let mut engine = Skeleton::open(&setup).expect("open");
    let mut buffer = Buffer::plain(4096, 1).expect("memory");
    let at = |direction, offset| Operation { direction, offset, bytes: 4096 };
    assert_eq!(engine.execute(at(Direction::Write, 4096), &mut buffer), Ok(4096));
    let written = buffer.first(4096).expect("long enough").to_vec();
    assert_eq!(std::fs::read(&path).expect("read").get(4096..), Some(written.as_slice()));
    assert_eq!(engine.execute(at(Direction::Read, 8192), &mut buffer), Err(Fault::EndOfFile));
    assert_eq!(engine.flush(true), Ok(()));
    assert_eq!(engine.start_over(StartOver::Reopen), Ok(()));
    assert_eq!(engine.execute(at(Direction::Read, 0), &mut buffer), Ok(4096));
    assert!(buffer.first(4096).expect("long enough").iter().all(|byte| *byte == 0));
}
