//! Verifying contents (`verify=`): data written are recognised when they are read again.
//!
//! # What a block is made of
//! Each interval of a block (`verify_interval`, else the block) begins with a header and a checksum, as fio 3.33 lays them out (see
//! [`blocks`]), so that either program verifies what the other one wrote. What cannot be exchanged: `sha512`, which fio 3.33 stores no
//! checksum for (refused here); `pattern_hdr`, a later fio's; blocks of fio after 3.40, whose header is another; mixed patterns
//! (`rw=rw`, `randrw`) with `verify_only`, because fio expects there the seeds that its own generator gives.
//!
//! # When it is verified
//! - A job that writes reads everything back at the end of each pass (unless `do_verify=0`), or `verify_backlog` blocks at a time.
//!   Before, files are flushed and their cached pages dropped (`invalidate`), mappings are made anew: what is read comes from the
//!   medium. Private mappings and anonymous memory stay as they are, because they are the medium.
//! - A job that only reads, or has `verify_only=1`, verifies what was written before it, by this run or another.
//! - A pass that ends early (`io_size`, `runtime`) is verified as far as it was written, even if that takes longer than the runtime;
//!   one that a signal or an error ends is not, and its state is saved (see [`state`]).
//!
//! The way of the writes is gone again: the walk is copied before its pass, and nothing is kept for each block. Where a walk may come to
//! a byte twice (`norandommap`, distributions, jumps) the blocks written last are kept in a map, as fio keeps all ([`walk`]).
//!
//! # What counts as a mismatch
//! The checksum, the header's own checksum, offset, length and method always; in the run that wrote also seed, number of the write, and
//! that the header is no older than the pass: a block that holds an earlier, intact block is a lost write. Where several workers write
//! the same bytes at the same time the last of them is nobody's to know, so that only checksums and places are looked at; they
//! wait for each other before and after verifying. Engines and targets whose writes are not exclusive (mappings, `direct=1`, block
//! devices) are refused there, because a block could end as parts of two.
//!
//! A mismatch is no error of the operation: the read is counted and the job goes on to the end of the pass. Then it fails with EILSEQ;
//! at once with `verify_fatal=1`; not at all with `continue_on_error=verify`. The command's exit status is 1 in all three cases (fio
//! 3.33 ends at the first bad block, whatever its manual says, and with status 0 where it continues).
//!
//! # For a loop around an engine
//! [`Verify::prepare`] before a write is issued, with the number that [`walk::Verified`] gives it; [`Verify::check`] when a read has
//! completed, with the number that the walk said to expect. Neither knows how many operations are in flight.

pub mod blocks;
mod checksum;
mod contents;
pub mod state;
pub mod walk;

use std::path::{Path, PathBuf};

use pagelab_fiojob::value::Choice as _;
use pagelab_fiojob::words::ContinueOnError;
use pagelab_fiojob::{JobOptions, Operation};

use crate::clock::monotonic_ns;
use crate::plan::WorkerPlan;
use crate::random::derive_seed;
use crate::report::{MISMATCHES_KEPT, Mismatch, VerifyReport};
use crate::safety;
use blocks::{Blocks, Expected, Stamp};

/// A worker's verifying: prepares blocks and compares them.
#[derive(Debug)]
pub struct Verify {
    blocks: Blocks,
    files: Vec<Option<PathBuf>>,
    state_dir: PathBuf,
    job: String,
    seed: u64,
    thread: u16,
    /// Somebody else writes the same bytes at the same time.
    shared: bool,
    /// Nothing is kept that could be compared.
    pretends: bool,
    dump: bool,
    /// End the job at the first mismatch.
    pub fatal: bool,
    /// Go on after mismatches, and do not fail for them.
    pub forgives: bool,
    /// When the pass that is being verified began, ns of `CLOCK_MONOTONIC`.
    pass_began_ns: u64,
    spare: Vec<u8>,
    /// Parts of a read that came in several.
    parts: Vec<u8>,
    report: VerifyReport,
}

impl Verify {
    /// Ready before the first operation. `keeps`: the engine keeps the data it is given.
    pub fn new(plan: &WorkerPlan, job: &str, options: &JobOptions, state_dir: &Path, keeps: bool) -> Self {
        Self {
            blocks: Blocks::new(options),
            files: plan.files.iter().map(|file| file.path.clone()).collect(),
            state_dir: state_dir.to_path_buf(),
            job: job.to_owned(),
            seed: plan.course.seed,
            thread: (plan.index + 1) as u16,
            shared: !plan.rivals.is_empty(),
            pretends: !keeps,
            dump: options.verify_dump,
            fatal: options.verify_fatal,
            forgives: matches!(options.continue_on_error, ContinueOnError::Verify | ContinueOnError::All)
                || options.ignore_error.verify.contains(&libc::EILSEQ),
            pass_began_ns: 0,
            spare: Vec::new(),
            parts: Vec::new(),
            report: VerifyReport { method: options.verify.0.word().to_owned(), ..VerifyReport::default() },
        }
    }

    /// A pass begins: its writes are not older than now.
    pub fn begin_pass(&mut self) {
        self.pass_began_ns = monotonic_ns();
    }

    fn seed_of(&self, number: u64) -> u64 {
        derive_seed(self.seed, number ^ 0x5EED_0000_0000_0000)
    }

    /// Fills the buffer of a write that is about to be issued; `number` is its place among the worker's writes.
    pub fn prepare(&self, operation: Operation, number: u64, buffer: &mut [u8]) {
        if self.pretends {
            return;
        }
        let stamp =
            Stamp { seed: self.seed_of(number), number: number as u16, time_ns: monotonic_ns(), thread: self.thread };
        self.blocks.fill(operation.offset, stamp, buffer);
    }

    /// Compares what a read has brought. `number`: the write that it should bring, where that is known.
    ///
    /// # Errors
    /// The block differs from what was written; it is counted, printed and dumped already.
    pub fn check(
        &mut self,
        file: usize,
        operation: Operation,
        number: Option<u64>,
        data: &[u8],
    ) -> Result<(), Box<Mismatch>> {
        if self.pretends {
            return Ok(());
        }
        let known = number.filter(|_| !self.shared);
        let expected = Expected {
            seed: known.map(|number| self.seed_of(number)),
            number: known.map(|number| number as u16),
            not_before_ns: known.map(|_| self.pass_began_ns),
        };
        self.report.blocks += 1;
        self.report.bytes += data.len() as u64;
        let Err(mut mismatch) = self.blocks.check(operation.offset, expected, data, &mut self.spare) else {
            return Ok(());
        };
        let path = self.files.get(file).and_then(Option::as_deref);
        mismatch.file = path.map_or_else(String::new, |path| path.display().to_string());
        self.report.mismatches += 1;
        if self.report.first.len() < MISMATCHES_KEPT {
            let mut words = format!("pagelab: job '{}': {mismatch}\n", self.job);
            if self.dump {
                words += &self.dumped(path, operation, number, &mismatch, data);
            }
            self.report.first.push((*mismatch).clone());
            // Standard error may be closed; the report says it too.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes());
        }
        Err(mismatch)
    }

    /// `verify_dump`: writes the interval as received and as expected; gives the words about it.
    fn dumped(
        &self,
        path: Option<&Path>,
        operation: Operation,
        number: Option<u64>,
        mismatch: &Mismatch,
        data: &[u8],
    ) -> String {
        let number = number.unwrap_or(0);
        let stamp = Stamp { seed: self.seed_of(number), number: number as u16, time_ns: 0, thread: self.thread };
        let from = usize::try_from(mismatch.offset - operation.offset).unwrap_or(usize::MAX);
        let part = |block: &[u8]| block.iter().skip(from).take(mismatch.bytes as usize).copied().collect::<Vec<u8>>();
        let expected = self.blocks.expected_block(operation.offset, stamp, data);
        let name =
            path.and_then(Path::file_name).map_or_else(|| self.job.clone(), |name| name.to_string_lossy().into_owned());
        let mut words = String::new();
        for (kind, bytes) in [("received", part(data)), ("expected", part(&expected))] {
            // In the working directory, as fio does.
            let to = PathBuf::from(format!("{name}.{}.{kind}", mismatch.offset));
            let said = match write_own(&to, &bytes, &self.state_dir) {
                Ok(()) => format!("       {kind} data dumped as {}\n", to.display()),
                Err(reason) => format!("       {kind} data not dumped: {reason}\n"),
            };
            words.push_str(&said);
        }
        words
    }

    /// A read has brought `part` of the bytes requested, and the rest will follow at the buffer's start.
    pub fn keep_part(&mut self, part: &[u8]) {
        self.parts.extend_from_slice(part);
    }

    /// Puts the parts of a read together: those kept, and the last one at the start of `buffer`.
    pub fn join_parts(&mut self, buffer: &mut [u8]) {
        if self.parts.is_empty() {
            return;
        }
        let kept = self.parts.len().min(buffer.len());
        buffer.copy_within(..buffer.len() - kept, kept);
        for (to, from) in buffer.iter_mut().zip(self.parts.drain(..)) {
            *to = from;
        }
    }

    /// A read failed: its parts are of no use.
    pub fn drop_parts(&mut self) {
        self.parts.clear();
    }

    /// The results so far.
    pub fn report(&self) -> &VerifyReport {
        &self.report
    }
}

/// Writes a file anew that is pagelab's or does not exist.
fn write_own(path: &Path, bytes: &[u8], state_dir: &Path) -> Result<(), String> {
    let mut file = safety::make_own(path, state_dir, &[]).map_err(|error| error.to_string())?;
    std::io::Write::write_all(&mut file, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::TargetKind;

    #[test]
    fn reads_in_parts_are_put_together() {
        let workload = pagelab_fiojob::parse_args(
            &["--name=j", "--rw=write", "--size=1m", "--verify=md5", "--ioengine=anon"].map(str::to_owned),
        )
        .expect("valid");
        let plan = crate::plan::plan(&workload, &|_, _| Ok(TargetKind::Missing)).expect("plan");
        let mut verify = Verify::new(&plan.workers[0], "j", &workload.jobs[0].options, Path::new("/"), true);
        let whole: Vec<u8> = (0..100).collect();
        let mut buffer = vec![0; 100];
        verify.keep_part(&whole[..30]);
        verify.keep_part(&whole[30..60]);
        buffer[..40].copy_from_slice(&whole[60..]);
        verify.join_parts(&mut buffer);
        assert_eq!(buffer, whole);
        verify.join_parts(&mut buffer);
        assert_eq!(buffer, whole, "one that came whole is left as it is");
    }
}
