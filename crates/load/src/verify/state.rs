//! The state of a job whose writes ended early (`verify_state_save`), for a later one that verifies (`verify_state_load`).
//!
//! The file is fio 3.33's (`verify-state.h`, version 3), in the working directory, `local-JOB-N-verify.state` with N
//! the worker's number from 0: how many writes were issued, and which of the last ones are complete. Each program reads
//! the other's file, which means the same writes where the pattern is sequential; the random order is each program's
//! own. Where fio keeps the state of its generator (and never looks at it again) pagelab puts a mark, the worker's
//! seed, whether an earlier pass had written everything already, and the number of failed writes, whose places follow
//! at the end. A state of pagelab with another seed, or one of fio for a random pattern, is refused: it would verify
//! other writes.
//!
//! The state is saved when a signal, an error or `runtime` ends the first pass of writes, or when some writes failed. A job that writes
//! all removes the file of an earlier one, if it is pagelab's. (fio 3.33 writes the file at every end, and so does pagelab if the job says
//! `verify_state_save=1`.)

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::checksum::crc32c_of_fio;
use super::walk::Progress;
use crate::error::LoadError;
use crate::safety::Ownership;

/// The version of the format.
const VERSION: u64 = 3;

/// Bytes of the file's head: version, length of the rest, its CRC-32C.
const HEAD_BYTES: usize = 24;

/// Bytes before the list of complete writes.
const FIXED_BYTES: usize = 152;

/// Bytes of the job's name.
const NAME_BYTES: usize = 64;

/// pagelab's mark, where fio's state has its generator: `pagelab1`.
const MARK: u64 = u64::from_le_bytes(*b"pagelab1");

/// Longest file that is read.
const MAX_BYTES: u64 = 64 << 20;

/// The owner of the state.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The job's name.
    pub job: &'a str,
    /// The worker's place among all, from 0.
    pub index: usize,
    /// The worker's seed.
    pub seed: u64,
}

impl Owner<'_> {
    /// The file of the state.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("local-{}-{}-verify.state", self.job.replace('/', "."), self.index))
    }
}

/// A loaded state's answer about a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was written.
    Check,
    /// Its write failed.
    Skip,
    /// It and those behind it were not written.
    Stop,
}

/// A loaded state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resume {
    writes: u64,
    /// This many of the last writes may be incomplete.
    depth: u64,
    /// Files and offsets of those that are complete.
    complete: Vec<(u64, u64)>,
    failed: BTreeSet<u64>,
    /// Everything was written at least once.
    all: bool,
}

impl Resume {
    /// The facts known about the write at `place` of the pass.
    pub fn verdict(&self, place: u64, file: usize, offset: u64) -> Verdict {
        if self.failed.contains(&place) {
            Verdict::Skip
        } else if self.all {
            Verdict::Check
        } else if place >= self.writes {
            Verdict::Stop
        } else if place.saturating_add(self.depth) < self.writes || self.complete.contains(&(file as u64, offset)) {
            Verdict::Check
        } else {
            Verdict::Stop
        }
    }

    /// Reads the state of a worker whose pattern is random or not.
    ///
    /// # Errors
    /// There is none, it is damaged, or belongs to other writes.
    pub fn load(owner: Owner<'_>, random: bool) -> Result<Self, LoadError> {
        let path = owner.path();
        let refused = |reason: String| LoadError::Target {
            job: owner.job.to_owned(),
            reason: format!("verify_state_load=1: {}: {reason}", path.display()),
        };
        let length = std::fs::metadata(&path).map_err(|error| refused(error.to_string()))?.len();
        if length > MAX_BYTES {
            return Err(refused(format!("{length} bytes, at most {MAX_BYTES} belong to a state")));
        }
        let bytes = std::fs::read(&path).map_err(|error| refused(error.to_string()))?;
        let state = Self::parse(&bytes).map_err(refused)?;
        match state.1 {
            None if random => Err(refused(
                "fio saved it, and its random order is another than pagelab's; verify with fio, or without the state"
                    .to_owned(),
            )),
            Some(seed) if seed != owner.seed => Err(refused(format!(
                "it was saved with seed {seed:016x}, this worker has {:016x}: give the same randseed and the same jobs",
                owner.seed
            ))),
            _ => Ok(state.0),
        }
    }

    /// The state in a file's bytes, and the seed if pagelab wrote it.
    fn parse(bytes: &[u8]) -> Result<(Self, Option<u64>), String> {
        let number =
            |from: &[u8], at: usize| -> Option<u64> { Some(u64::from_le_bytes(*from.get(at..)?.first_chunk()?)) };
        let short = || format!("{} bytes, needed at least {}", bytes.len(), HEAD_BYTES + FIXED_BYTES);
        let version = number(bytes, 0).ok_or_else(short)?;
        if version != VERSION {
            return Err(format!("version {version} of a verify state, needed {VERSION}, that of fio 3.33 and pagelab"));
        }
        let len = usize::try_from(number(bytes, 8).ok_or_else(short)?).unwrap_or(usize::MAX);
        let body = bytes
            .get(HEAD_BYTES..)
            .and_then(|rest| rest.get(..len))
            .ok_or_else(|| format!("it breaks off: {} of {len} bytes", bytes.len().saturating_sub(HEAD_BYTES)))?;
        let (stored, computed) = (number(bytes, 16).ok_or_else(short)?, u64::from(crc32c_of_fio(body)));
        if stored != computed {
            return Err(format!("it is damaged: checksum {stored:08x} stored, {computed:08x} computed"));
        }
        let field = |at: usize| number(body, at).ok_or_else(short);
        let (count, sizes) = (field(0)?, field(8)?);
        let (depth, files) = (sizes & 0xffff_ffff, sizes >> 32);
        let numbers = |at: usize, count: u64| -> Result<Vec<u64>, String> {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let bytes = body.get(at..).and_then(|rest| rest.get(..count.saturating_mul(8)));
            let bytes = bytes.ok_or_else(|| "its lists are longer than it is".to_owned())?;
            Ok(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
        };
        let pairs = numbers(FIXED_BYTES, count.saturating_mul(2))?;
        let mut state = Self {
            writes: field(16)?,
            depth,
            complete: pairs.as_chunks::<2>().0.iter().map(|[file, offset]| (*file, *offset)).collect(),
            ..Self::default()
        };
        if field(40)? != MARK {
            return Ok((state, None));
        }
        state.all = field(56)? != 0;
        let room = usize::try_from(depth.saturating_mul(files).saturating_mul(16)).unwrap_or(usize::MAX);
        state.failed = numbers(FIXED_BYTES.saturating_add(room), field(64)?)?.into_iter().collect();
        Ok((state, Some(field(48)?)))
    }
}

/// The bytes of a state.
fn encode(owner: Owner<'_>, files: usize, progress: &Progress) -> Vec<u8> {
    let files = files.max(1) as u32;
    let failed = progress.failed.as_slice();
    // fio knows no earlier pass: to it, this number of writes means that everything was written.
    let writes = if progress.again { u64::from(u32::MAX) } else { progress.writes };
    let mut name = [0_u8; NAME_BYTES];
    for (to, from) in name.iter_mut().take(NAME_BYTES - 1).zip(owner.job.bytes()) {
        *to = from;
    }
    let mut body = Vec::new();
    body.extend(u64::from(progress.last.is_some()).to_le_bytes());
    // One operation at a time.
    body.extend(1_u32.to_le_bytes());
    body.extend(files.to_le_bytes());
    for number in
        [writes, owner.index as u64, 1, MARK, owner.seed, u64::from(progress.again), failed.len() as u64, 0, 0]
    {
        body.extend(number.to_le_bytes());
    }
    body.extend(name);
    let (file, offset) = progress.last.unwrap_or_default();
    body.extend((file as u64).to_le_bytes());
    body.extend(offset.to_le_bytes());
    body.resize(FIXED_BYTES + 16 * files as usize, 0);
    body.extend(failed.iter().flat_map(|place| place.to_le_bytes()));
    let mut bytes = Vec::new();
    for number in [VERSION, body.len() as u64, u64::from(crc32c_of_fio(&body))] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(body);
    bytes
}

/// Saves how far a worker's writes came.
///
/// # Errors
/// The file cannot be written, or is not pagelab's.
pub fn save(owner: Owner<'_>, files: usize, progress: &Progress, state_dir: &Path) -> Result<(), String> {
    super::write_own(&owner.path(), &encode(owner, files, progress), state_dir)
        .map_err(|reason| format!("saving how far the writes came: {reason}"))
}

/// Removes the state of an earlier run, if pagelab saved it: everything is written now.
pub fn remove(owner: Owner<'_>, state_dir: &Path) {
    // What cannot be removed would be refused or verify less, and says so when it is loaded.
    let _ = Ownership::new(state_dir).remove(&owner.path());
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner<'_> = Owner { job: "a/b", index: 2, seed: 77 };

    #[test]
    fn states_are_read_back() {
        for progress in [
            Progress { writes: 0, failed: vec![], last: None, again: false },
            Progress { writes: 10, failed: vec![3, 9], last: Some((1, 4096)), again: false },
            Progress { writes: 10, failed: vec![], last: Some((0, 0)), again: true },
        ] {
            let (state, seed) = Resume::parse(&encode(OWNER, 3, &progress)).expect("whole");
            assert_eq!(seed, Some(77));
            let verdicts: Vec<Verdict> = (0..12).map(|place| state.verdict(place, 1, place * 4096)).collect();
            let expected: Vec<Verdict> = (0..12)
                .map(|place| match place {
                    _ if progress.again => Verdict::Check,
                    place if place >= progress.writes => Verdict::Stop,
                    place if progress.failed.contains(&place) => Verdict::Skip,
                    _ => Verdict::Check,
                })
                .collect();
            assert_eq!(verdicts, expected, "{progress:?}");
        }
        assert_eq!(OWNER.path(), PathBuf::from("local-a.b-2-verify.state"));
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let bytes = encode(OWNER, 1, &Progress { writes: 10, failed: vec![2], last: Some((0, 36864)), again: false });
        for cut in 0..bytes.len() {
            assert!(Resume::parse(&bytes[..cut]).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert!(Resume::parse(&broken).is_err(), "{at}");
        }
        let mut later = bytes.clone();
        later[0] = 7;
        assert!(Resume::parse(&later).expect_err("version").contains("version 7"));
    }
}
