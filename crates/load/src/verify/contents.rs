//! What a verified block contains besides its headers: bytes that follow from a seed, or a pattern.

use pagelab_fiojob::JobOptions;
use pagelab_fiojob::verify::VerifyPattern;

/// What fio multiplies by to get from one word to the next (its `hash.h`).
const STEP: u64 = 0x61C8_8646_80B5_83EB;

/// What fio multiplies the seed by for each of its four interleaved rows of words (its `lib/rand.c`).
const ROWS: [u64; 4] = [1, 2, 3, 5];

/// The contents of a job's blocks.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    pattern: VerifyPattern,
    /// The pattern starts again every `pattern_interval` bytes, with the offset of that place; 0 for once per block.
    pattern_interval: usize,
    /// Share of each block that is filler, percent.
    filler_percent: usize,
    filler: Vec<u8>,
}

impl Contents {
    /// As the job asks for it.
    pub(super) fn new(options: &JobOptions) -> Self {
        Self {
            pattern: options.verify_pattern.clone(),
            pattern_interval: usize::try_from(options.verify_pattern_interval.0).unwrap_or(usize::MAX),
            filler_percent: options.buffer_compress_percentage.map_or(0, |percent| usize::from(percent.0)),
            filler: options.buffer_pattern.0.clone(),
        }
    }

    /// Whether blocks are a pattern.
    pub(super) fn is_pattern(&self) -> bool {
        !self.pattern.bytes.is_empty()
    }

    /// Fills the block at `offset` of its file.
    pub(super) fn fill(&self, offset: u64, seed: u64, block: &mut [u8]) {
        if !self.is_pattern() {
            let (head, tail) = block.split_at_mut(block.len() * (100 - self.filler_percent.min(100)) / 100);
            random(seed, head);
            repeat(if self.filler.is_empty() { &[0] } else { &self.filler }, tail);
            return;
        }
        let interval = if self.pattern_interval == 0 { block.len() } else { self.pattern_interval };
        let mut at = offset;
        for part in block.chunks_mut(interval.max(1)) {
            self.paste(at, part);
            at += part.len() as u64;
        }
    }

    /// The pattern over `part`, with `offset` in its places.
    fn paste(&self, offset: u64, part: &mut [u8]) {
        if self.pattern.offsets_at.is_empty() {
            repeat(&self.pattern.bytes, part);
            return;
        }
        let mut bytes = self.pattern.bytes.clone();
        for place in &self.pattern.offsets_at {
            for (to, from) in bytes.iter_mut().skip(*place).zip(offset.to_le_bytes()) {
                *to = from;
            }
        }
        repeat(&bytes, part);
    }
}

/// fio's bytes of a seed: equal seeds give equal bytes in both programs, so that `verify_dump` can show what a block of either
/// should have held.
fn random(seed: u64, bytes: &mut [u8]) {
    let mut words = ROWS.map(|row| seed.wrapping_mul(row));
    let mut stripes = bytes.chunks_exact_mut(8 * ROWS.len());
    for stripe in &mut stripes {
        for (to, word) in stripe.chunks_exact_mut(8).zip(&mut words) {
            to.copy_from_slice(&word.to_le_bytes());
            *word = word.wrapping_mul(STEP);
        }
    }
    let [mut word, ..] = words;
    for to in stripes.into_remainder().chunks_mut(8) {
        for (to, from) in to.iter_mut().zip(word.to_le_bytes()) {
            *to = from;
        }
        word = word.wrapping_mul(STEP);
    }
}

fn repeat(pattern: &[u8], to: &mut [u8]) {
    for part in to.chunks_mut(pattern.len().max(1)) {
        let len = part.len();
        part.copy_from_slice(pattern.get(..len).unwrap_or(&[]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_fiojob::parse_args;

    fn contents(words: &str) -> Contents {
        let words: Vec<String> =
            format!("--name=j --size=1m --rw=write {words}").split(' ').map(str::to_owned).collect();
        Contents::new(&parse_args(&words).expect("valid").jobs[0].options)
    }

    #[test]
    fn offsets_stand_in_the_pattern() {
        let mut block = [9_u8; 40];
        contents("--verify=pattern --verify_pattern=0xff%o").fill(0x0102_0304, 0, &mut block);
        let one = [0xff, 4, 3, 2, 1, 0, 0, 0, 0];
        assert!(block.iter().zip(one.iter().cycle()).all(|(a, b)| a == b), "{block:?}");
        contents("--verify=pattern --verify_pattern=%o --verify_pattern_interval=16").fill(0x100, 0, &mut block);
        let words: Vec<u64> = block.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(words, [0x100, 0x100, 0x110, 0x110, 0x120]);
    }

    #[test]
    fn a_share_can_be_compressed_and_no_byte_is_left() {
        for len in [1_usize, 7, 8, 31, 33, 100, 4096] {
            let mut block = vec![0xAA; len];
            contents("--verify=crc32c --buffer_compress_percentage=50").fill(0, 0x1234_5678_9ABC_DEF1, &mut block);
            assert!(block.iter().skip(len / 2).all(|byte| *byte == 0), "{len}");
            assert!(len < 64 || block.iter().take(len / 2).filter(|byte| **byte == 0).count() < len / 8, "{len}");
        }
    }
}
