//! How a verified block is laid out: fio 3.33's header in front of each interval, a checksum behind the header, contents behind that.
//!
//! The header is 40 bytes, numbers from the lowest byte up:
//! ```text
//!  0 magic 0xacca (u16)      2 method (u16)          4 bytes of the interval (u32)
//!  8 seed of contents (u64) 16 offset in file (u64) 24 time of preparing, s, ns (2 x u32)
//! 32 worker (u16)           34 number of the write, lowest 16 bits (u16)
//! 36 CRC-32C of the 36 bytes before, without final inversion (u32)
//! ```
//! fio after 3.40 writes 48 bytes with a version, 0x81, at byte 2; such blocks are reported by name and not read.

use pagelab_fiojob::JobOptions;
use pagelab_fiojob::value::Choice as _;
use pagelab_fiojob::verify::{HEADER_BYTES, VerifyMethod};
use pagelab_vocab::units::hexadecimal;

use super::checksum::{self, crc32c_of_fio};
use super::contents::Contents;
use crate::report::Mismatch;

/// The beginning of a header.
const MAGIC: u16 = 0xacca;

/// Later fio's value in the place of the method.
const LATER_VERSION: u8 = 0x81;

/// Bytes of a header that its own checksum covers.
const COVERED_BYTES: usize = 36;

/// fio's number of the method, in headers.
fn number_of(method: VerifyMethod) -> u16 {
    match method {
        VerifyMethod::None => 0,
        VerifyMethod::Meta => 1,
        VerifyMethod::Md5 => 2,
        VerifyMethod::Crc64 => 3,
        VerifyMethod::Crc32 => 4,
        VerifyMethod::Crc32c => 5,
        VerifyMethod::Crc16 => 7,
        VerifyMethod::Crc7 => 8,
        VerifyMethod::Sha256 => 9,
        VerifyMethod::Sha512 => 10,
        VerifyMethod::Sha3224 => 11,
        VerifyMethod::Sha3256 => 12,
        VerifyMethod::Sha3384 => 13,
        VerifyMethod::Sha3512 => 14,
        VerifyMethod::Xxhash => 15,
        VerifyMethod::Sha1 => 16,
        VerifyMethod::PatternHdr => 17,
        VerifyMethod::Pattern => 18,
        VerifyMethod::Null => 19,
    }
}

/// The facts of a write besides its place: they go into the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Seed of the contents.
    pub seed: u64,
    /// Number of the write among the worker's.
    pub number: u16,
    /// Time of preparing, ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The worker, from 1.
    pub thread: u16,
}

/// The facts of the write that a reader expects; `None` is not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expected {
    /// Seed of the contents.
    pub seed: Option<u64>,
    /// Number of the write.
    pub number: Option<u16>,
    /// It was prepared at this time, ns of `CLOCK_MONOTONIC`, or later.
    pub not_before_ns: Option<u64>,
}

/// A header as read.
struct Header {
    magic: u16,
    method: u16,
    len: u32,
    seed: u64,
    offset: u64,
    time_ns: u64,
    thread: u16,
    number: u16,
    crc: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Self {
        let number = |at: usize, len: usize| {
            bytes.iter().skip(at).take(len).rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        };
        Self {
            magic: number(0, 2) as u16,
            method: number(2, 2) as u16,
            len: number(4, 4) as u32,
            seed: number(8, 8),
            offset: number(16, 8),
            time_ns: number(24, 4) * 1_000_000_000 + number(28, 4),
            thread: number(32, 2) as u16,
            number: number(34, 2) as u16,
            crc: number(36, 4) as u32,
        }
    }

    fn write(method: VerifyMethod, len: u32, offset: u64, stamp: Stamp, to: &mut [u8]) {
        let seconds = (stamp.time_ns / 1_000_000_000) as u32;
        let nanoseconds = (stamp.time_ns % 1_000_000_000) as u32;
        let fields = MAGIC
            .to_le_bytes()
            .into_iter()
            .chain(number_of(method).to_le_bytes())
            .chain(len.to_le_bytes())
            .chain(stamp.seed.to_le_bytes())
            .chain(offset.to_le_bytes())
            .chain(seconds.to_le_bytes())
            .chain(nanoseconds.to_le_bytes())
            .chain(stamp.thread.to_le_bytes())
            .chain(stamp.number.to_le_bytes());
        for (to, from) in to.iter_mut().zip(fields) {
            *to = from;
        }
        let crc = crc32c_of_fio(to.get(..COVERED_BYTES).unwrap_or(&[]));
        for (to, from) in to.iter_mut().skip(COVERED_BYTES).zip(crc.to_le_bytes()) {
            *to = from;
        }
    }
}

/// A mismatch in an interval: the item compared, its expected value, its actual value.
type Wrong = (String, String, String);

/// The layout of a job's blocks.
#[derive(Debug, Clone)]
pub struct Blocks {
    method: VerifyMethod,
    interval: usize,
    /// Lengths are not multiples of the interval: a header for each operation.
    whole: bool,
    /// Where the header changes places with data.
    header_at: usize,
    contents: Contents,
    check_seed: bool,
    check_number: bool,
}

impl Blocks {
    /// As the job asks for it.
    pub fn new(options: &JobOptions) -> Self {
        Self {
            method: options.verify.0,
            interval: options.verify_interval_bytes() as usize,
            whole: options.bs_unaligned,
            header_at: usize::try_from(options.verify_offset.0).unwrap_or(usize::MAX),
            contents: Contents::new(options),
            check_seed: options.verify_header_seed,
            check_number: options.verify_write_sequence,
        }
    }

    fn interval_of(&self, block_bytes: usize) -> usize {
        if self.whole || self.interval > block_bytes { block_bytes } else { self.interval }.max(1)
    }

    /// Fills the block that is to be written at `offset`.
    pub fn fill(&self, offset: u64, stamp: Stamp, block: &mut [u8]) {
        if self.method == VerifyMethod::Null {
            return;
        }
        self.contents.fill(offset, stamp.seed, block);
        let header_bytes = self.method.header_bytes() as usize;
        if header_bytes == 0 {
            return;
        }
        let mut at = offset;
        for part in block.chunks_mut(self.interval_of(block.len())) {
            let len = part.len();
            if let Some((header, data)) = part.split_at_mut_checked(header_bytes) {
                Header::write(self.method, len as u32, at, stamp, header);
                let sum = checksum::of(self.method, data);
                for (to, from) in header.iter_mut().skip(HEADER_BYTES).zip(sum.bytes()) {
                    *to = *from;
                }
                self.swap(header_bytes, part);
            }
            at += len as u64;
        }
    }

    /// Lets the header and the data at `verify_offset` change places.
    fn swap(&self, header_bytes: usize, part: &mut [u8]) {
        if self.header_at == 0 {
            return;
        }
        if let Some((front, back)) = part.split_at_mut_checked(self.header_at) {
            for (a, b) in front.iter_mut().zip(back).take(header_bytes) {
                std::mem::swap(a, b);
            }
        }
    }

    /// Compares the block read at `offset` with its expected contents. `spare` is memory that is kept from block to
    /// block.
    ///
    /// # Errors
    /// The first interval that is wrong; its file's name is left out.
    pub fn check(
        &self,
        offset: u64,
        expected: Expected,
        block: &[u8],
        spare: &mut Vec<u8>,
    ) -> Result<(), Box<Mismatch>> {
        if self.method == VerifyMethod::Null {
            return Ok(());
        }
        let interval = self.interval_of(block.len());
        let mut at = offset;
        for part in block.chunks(interval) {
            if let Err((what, wanted, found)) = self.check_interval(offset, at, expected, part, spare) {
                return Err(Box::new(Mismatch {
                    file: String::new(),
                    offset: at,
                    bytes: part.len() as u64,
                    method: self.method.word().to_owned(),
                    what,
                    expected: wanted,
                    found,
                }));
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// `block_at`: where the block begins that the interval at `at` belongs to.
    fn check_interval(
        &self,
        block_at: u64,
        at: u64,
        expected: Expected,
        part: &[u8],
        spare: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let header_bytes = self.method.header_bytes() as usize;
        if header_bytes == 0 {
            return self.check_pattern(block_at, at, 0, part, spare);
        }
        if self.header_at == 0 {
            return self.check_headed(block_at, at, expected, part, spare);
        }
        // Put back what changed places, in a copy.
        let mut copy = part.to_vec();
        self.swap(header_bytes, &mut copy);
        self.check_headed(block_at, at, expected, &copy, spare)
    }

    fn check_headed(
        &self,
        block_at: u64,
        at: u64,
        expected: Expected,
        part: &[u8],
        spare: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let header_bytes = self.method.header_bytes() as usize;
        let Some((header, data)) = part.split_at_checked(header_bytes) else {
            return Err(wrong("length", format!("more than {header_bytes} bytes"), format!("{}", part.len())));
        };
        self.check_header(at, expected, header, part.len())?;
        let stored = header.get(HEADER_BYTES..).unwrap_or(&[]);
        let computed = checksum::of(self.method, data);
        if stored != computed.bytes() {
            return Err(wrong("checksum", hexadecimal(stored), hexadecimal(computed.bytes())));
        }
        let patterned =
            matches!(self.method, VerifyMethod::Meta | VerifyMethod::PatternHdr) && self.contents.is_pattern();
        if patterned { self.check_pattern(block_at, at, header_bytes, part, spare) } else { Ok(()) }
    }

    fn check_header(&self, at: u64, expected: Expected, bytes: &[u8], len: usize) -> Result<(), Wrong> {
        let header = Header::read(bytes);
        if header.magic != MAGIC {
            return Err(wrong("magic number of the header", format!("{MAGIC:04x}"), format!("{:04x}", header.magic)));
        }
        if header.method as u8 == LATER_VERSION {
            let found = format!("version {LATER_VERSION:02x} of a later fio");
            return Err(wrong("layout of the header", "that of fio 3.33".to_owned(), found));
        }
        let crc = crc32c_of_fio(bytes.get(..COVERED_BYTES).unwrap_or(&[]));
        if header.crc != crc {
            return Err(wrong("checksum of the header", format!("{:08x}", header.crc), format!("{crc:08x}")));
        }
        // Headers of all methods are headers.
        if self.method != VerifyMethod::Meta && header.method != number_of(self.method) {
            let found = VerifyMethod::ALL.iter().filter_map(|(word, _)| VerifyMethod::from_word(word));
            let found = found.into_iter().find(|method| number_of(*method) == header.method);
            let found = found.map_or_else(|| format!("number {}", header.method), |method| method.word().to_owned());
            return Err(wrong("method in the header", self.method.word().to_owned(), found));
        }
        if u64::from(header.len) != len as u64 {
            return Err(wrong("length in the header", format!("{len}"), format!("{}", header.len)));
        }
        if header.offset != at {
            return Err(wrong("offset in the header", format!("{at}"), format!("{}", header.offset)));
        }
        self.check_stamp(expected, &header)
    }

    /// Whether it is this very write, and not one before it.
    fn check_stamp(&self, expected: Expected, header: &Header) -> Result<(), Wrong> {
        if let Some(number) = expected.number.filter(|number| self.check_number && *number != header.number) {
            return Err(wrong("number of the write in the header", format!("{number}"), format!("{}", header.number)));
        }
        if let Some(seed) = expected.seed.filter(|seed| self.check_seed && *seed != header.seed) {
            return Err(wrong("seed in the header", format!("{seed:016x}"), format!("{:016x}", header.seed)));
        }
        match expected.not_before_ns {
            Some(since) if header.time_ns < since => {
                let found = format!("{} ns before that: the write of this pass is lost", since - header.time_ns);
                Err(wrong("time in the header", format!("{since} ns or later"), found))
            }
            _ => Ok(()),
        }
    }

    /// The pattern from byte `skip` of the interval on.
    fn check_pattern(
        &self,
        block_at: u64,
        at: u64,
        skip: usize,
        part: &[u8],
        spare: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let before = usize::try_from(at - block_at).unwrap_or(usize::MAX);
        spare.resize(before.saturating_add(part.len()), 0);
        self.contents.fill(block_at, 0, spare);
        let wanted = spare.get(before..).unwrap_or(&[]);
        if wanted.get(skip..) == part.get(skip..) {
            return Ok(());
        }
        let first = wanted.iter().zip(part).enumerate().skip(skip).find(|(_, (wanted, found))| wanted != found);
        let Some((place, (wanted, found))) = first else { return Ok(()) };
        let what = format!("byte at offset {}", at + place as u64);
        Err(wrong(&what, format!("{wanted:02x}"), format!("{found:02x}")))
    }

    /// What the block at `offset` should have held, as far as that is known: the seed of a header that is whole, else `stamp`'s.
    pub fn expected_block(&self, offset: u64, stamp: Stamp, received: &[u8]) -> Vec<u8> {
        let mut stamp = stamp;
        let header_bytes = self.method.header_bytes() as usize;
        let header = received.get(self.header_at..).unwrap_or(&[]).get(..HEADER_BYTES).filter(|_| header_bytes > 0);
        if let Some(bytes) = header {
            let read = Header::read(bytes);
            if read.magic == MAGIC && read.crc == crc32c_of_fio(bytes.get(..COVERED_BYTES).unwrap_or(&[])) {
                let Header { seed, number, time_ns, thread, .. } = read;
                stamp = Stamp { seed, number, time_ns, thread };
            }
        }
        let mut block = vec![0; received.len()];
        self.fill(offset, stamp, &mut block);
        block
    }
}

fn wrong(what: &str, expected: String, found: String) -> Wrong {
    (what.to_owned(), expected, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_fiojob::parse_args;

    fn blocks(words: &str) -> Blocks {
        let words: Vec<String> = format!("--name=j --size=1m --rw=write --verify_pattern=%o0xabcd {words}")
            .split(' ')
            .map(str::to_owned)
            .collect();
        Blocks::new(&parse_args(&words).expect("valid").jobs[0].options)
    }

    /// Every byte of a block is guarded, by whichever part of it.
    #[test]
    fn one_flipped_bit_anywhere_is_found_at_its_interval() {
        let stamp = Stamp { seed: 7, number: 3, time_ns: 5_000_000_001, thread: 1 };
        let expected = Expected { seed: Some(7), number: Some(3), not_before_ns: Some(5_000_000_001) };
        for (word, _) in VerifyMethod::ALL.iter().filter(|(word, _)| !["none", "null"].contains(word)) {
            for more in ["--bs=512", "--bs=512 --verify_interval=256", "--bs=512 --verify_offset=104"] {
                if *word == "pattern" && more.contains("offset") {
                    continue;
                }
                let blocks = blocks(&format!("--verify={word} {more}"));
                let (mut block, mut spare) = (vec![0; 512], Vec::new());
                blocks.fill(4096, stamp, &mut block);
                assert_eq!(blocks.check(4096, expected, &block, &mut spare), Ok(()), "{word} {more}");
                let interval = if more.contains("interval") { 256 } else { 512 };
                for at in 0..block.len() {
                    block[at] ^= 0x04;
                    let found = blocks.check(4096, expected, &block, &mut spare).expect_err(word);
                    assert_eq!(found.offset, 4096 + (at / interval * interval) as u64, "{word} {more} {at}");
                    block[at] ^= 0x04;
                }
            }
        }
    }

    #[test]
    fn another_write_is_told_from_the_one_expected() {
        let all = Expected { seed: Some(7), number: Some(3), not_before_ns: Some(10) };
        let stamp = Stamp { seed: 7, number: 3, time_ns: 10, thread: 1 };
        for (stamp, word) in [
            (Stamp { seed: 8, ..stamp }, "seed"),
            (Stamp { number: 4, ..stamp }, "number"),
            (Stamp { time_ns: 9, ..stamp }, "lost"),
        ] {
            let blocks = blocks("--verify=xxhash");
            let mut block = vec![0; 4096];
            blocks.fill(0, stamp, &mut block);
            let found = blocks.check(0, all, &block, &mut Vec::new()).expect_err(word).to_string();
            assert!(found.contains(word), "{found}");
            assert_eq!(blocks.check(0, Expected::default(), &block, &mut Vec::new()), Ok(()));
            assert!(blocks.check(4096, Expected::default(), &block, &mut Vec::new()).is_err(), "misplaced");
        }
        let mut block = vec![0; 4096];
        blocks("--verify=md5").fill(0, stamp, &mut block);
        let found = blocks("--verify=crc32c").check(0, all, &block, &mut Vec::new()).expect_err("method");
        assert_eq!((found.expected.as_str(), found.found.as_str()), ("crc32c", "md5"));
        assert_eq!(blocks("--verify=md5").expected_block(0, Stamp::default(), &block), block);
    }
}
