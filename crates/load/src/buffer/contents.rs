//! What buffers contain: zeros, a pattern, random bytes, or a mixture that can be compressed or found again.

use pagelab_fiojob::JobOptions;

use crate::random::{SplitMix64, derive_seed};

/// What goes where nothing random goes.
#[derive(Debug, Clone)]
enum Filler {
    Zeros,
    Pattern(Vec<u8>),
}

/// Makes contents, each time others where the job asks for that.
#[derive(Debug, Clone)]
pub struct Contents {
    filler: Filler,
    /// Everything is filler.
    plain: bool,
    /// Share of each chunk that is filler, percent.
    filler_percent: usize,
    chunk_bytes: usize,
    /// Share of the writes that repeat an earlier one, percent.
    repeated_percent: u64,
    draw: SplitMix64,
    /// Seed of the contents that the next repetition repeats.
    earlier: Option<u64>,
}

impl Contents {
    /// The contents that a job asks for; `seed` decides the random bytes.
    pub fn new(options: &JobOptions, seed: u64) -> Self {
        let pattern = &options.buffer_pattern.0;
        let percent = |percent: Option<pagelab_fiojob::value::Percent>| percent.map_or(0, |percent| percent.0);
        let compressed = percent(options.buffer_compress_percentage);
        let mixed = (1..100).contains(&compressed) || percent(options.dedupe_percentage) > 0;
        let chunk = usize::try_from(options.buffer_compress_chunk.0).unwrap_or(usize::MAX);
        Self {
            // As in fio: a pattern overrules zeros, and all of a buffer that is all compressible is zeros.
            plain: !mixed && (!pattern.is_empty() || options.zero_buffers || compressed == 100),
            filler: if pattern.is_empty() || compressed == 100 {
                Filler::Zeros
            } else {
                Filler::Pattern(pattern.clone())
            },
            filler_percent: usize::from(compressed),
            chunk_bytes: if chunk == 0 { usize::MAX } else { chunk },
            repeated_percent: u64::from(percent(options.dedupe_percentage)),
            draw: SplitMix64::new(derive_seed(seed, 0xB0FF)),
            earlier: None,
        }
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        if self.plain {
            self.filler.put(buffer);
            return;
        }
        let seed = match self.earlier {
            Some(seed) if self.draw.below(100) < self.repeated_percent => seed,
            _ => self.draw.next_u64(),
        };
        self.earlier = Some(seed);
        let mut random = SplitMix64::new(seed);
        if self.filler_percent == 0 {
            random_bytes(&mut random, buffer);
            return;
        }
        for chunk in buffer.chunks_mut(self.chunk_bytes.min(buffer.len().max(1))) {
            let (head, tail) = chunk.split_at_mut(chunk.len() * (100 - self.filler_percent) / 100);
            random_bytes(&mut random, head);
            self.filler.put(tail);
        }
    }
}

impl Filler {
    fn put(&self, buffer: &mut [u8]) {
        match self {
            Self::Zeros => buffer.fill(0),
            Self::Pattern(pattern) => {
                for chunk in buffer.chunks_mut(pattern.len().max(1)) {
                    let len = chunk.len();
                    chunk.copy_from_slice(pattern.get(..len).unwrap_or(&[]));
                }
            }
        }
    }
}

fn random_bytes(random: &mut SplitMix64, buffer: &mut [u8]) {
    let mut chunks = buffer.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&random.next_u64().to_ne_bytes());
    }
    let last = random.next_u64().to_ne_bytes();
    for (byte, value) in chunks.into_remainder().iter_mut().zip(last) {
        *byte = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_fiojob::value::Percent;

    fn filled(options: &JobOptions, times: usize) -> Vec<Vec<u8>> {
        let mut contents = Contents::new(options, 5);
        (0..times)
            .map(|_| {
                let mut buffer = vec![1_u8; 4100];
                contents.fill(&mut buffer);
                buffer
            })
            .collect()
    }

    #[test]
    fn patterns_and_zeros_fill_everything() {
        let mut options = JobOptions { zero_buffers: true, ..JobOptions::default() };
        assert!(filled(&options, 1)[0].iter().all(|byte| *byte == 0));
        options.buffer_pattern.0 = b"abc".to_vec();
        assert!(filled(&options, 1)[0].iter().zip(b"abc".iter().cycle()).all(|(a, b)| a == b));
        options.buffer_compress_percentage = Some(Percent(100));
        assert!(filled(&options, 1)[0].iter().all(|byte| *byte == 0), "as in fio");
    }

    #[test]
    fn a_share_of_each_chunk_can_be_compressed() {
        let options = JobOptions { buffer_compress_percentage: Some(Percent(75)), ..JobOptions::default() };
        for buffer in filled(&options, 3) {
            for chunk in buffer.chunks_exact(512) {
                assert!(chunk.iter().skip(128).all(|byte| *byte == 0));
                assert!(chunk.iter().take(128).filter(|byte| **byte == 0).count() < 20);
            }
        }
    }

    #[test]
    fn a_share_of_the_writes_repeats() {
        let options = JobOptions { dedupe_percentage: Some(Percent(40)), ..JobOptions::default() };
        let unique: std::collections::BTreeSet<_> = filled(&options, 1000).into_iter().collect();
        // Five standard deviations of a binomial share at n = 1000.
        assert!((522..678).contains(&unique.len()), "{}", unique.len());
    }
}
