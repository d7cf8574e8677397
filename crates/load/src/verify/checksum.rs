//! Checksums as fio 3.33 stores them, byte for byte: numbers from the lowest byte up, with the starting values and final steps that
//! fio takes or leaves out.
//!
//! Read from fio's `crc/` folder and tested against blocks that fio writes.

use crc::{CRC_7_MMC, CRC_16_ARC, CRC_64_REDIS, Crc, Table};
use md5::Digest as _;
use pagelab_fiojob::verify::VerifyMethod;

/// Longest checksum, bytes.
const MAX_BYTES: usize = 64;

/// A checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checksum {
    bytes: [u8; MAX_BYTES],
    len: usize,
}

impl Checksum {
    fn new(from: &[u8]) -> Self {
        let mut bytes = [0; MAX_BYTES];
        let len = from.len().min(MAX_BYTES);
        for (to, from) in bytes.iter_mut().zip(from) {
            *to = *from;
        }
        Self { bytes, len }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// POSIX's CRC-32 without its final step and without the length behind the data.
const CRC_32_OF_FIO: crc::Algorithm<u32> = crc::Algorithm {
    width: 32,
    poly: 0x04C1_1DB7,
    init: 0,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0x89A1_897F,
    residue: 0,
};

static CRC7: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_7_MMC);
static CRC16: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_ARC);
static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_OF_FIO);
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The checksum of `data` by this method; empty for methods that have none.
pub(super) fn of(method: VerifyMethod, data: &[u8]) -> Checksum {
    match method {
        VerifyMethod::Crc32c => Checksum::new(&crc32c_of_fio(data).to_le_bytes()),
        VerifyMethod::Xxhash => Checksum::new(&twox_hash::XxHash32::oneshot(1, data).to_le_bytes()),
        VerifyMethod::Sha256 => Checksum::new(&sha256_of_fio(data)),
        VerifyMethod::Sha512 => Checksum::new(&sha2::Sha512::digest(data)),
        VerifyMethod::Md5 => Checksum::new(&md5::Md5::digest(data)),
        VerifyMethod::Sha1 => sha1_of_fio(data),
        VerifyMethod::Sha3224 => Checksum::new(&sha3::Sha3_224::digest(data)),
        VerifyMethod::Sha3256 => Checksum::new(&sha3::Sha3_256::digest(data)),
        VerifyMethod::Sha3384 => Checksum::new(&sha3::Sha3_384::digest(data)),
        VerifyMethod::Sha3512 => Checksum::new(&sha3::Sha3_512::digest(data)),
        VerifyMethod::Crc64 => Checksum::new(&CRC64.checksum(data).to_le_bytes()),
        VerifyMethod::Crc32 => Checksum::new(&CRC32.checksum(data).to_le_bytes()),
        VerifyMethod::Crc16 => Checksum::new(&CRC16.checksum(data).to_le_bytes()),
        VerifyMethod::Crc7 => Checksum::new(&[CRC7.checksum(data)]),
        VerifyMethod::None
        | VerifyMethod::Meta
        | VerifyMethod::Pattern
        | VerifyMethod::PatternHdr
        | VerifyMethod::Null => Checksum::new(&[]),
    }
}

/// CRC-32C without its final inversion.
pub(super) fn crc32c_of_fio(data: &[u8]) -> u32 {
    !crc32c::crc32c(data)
}

/// SHA-1 with the bytes of each of its five words turned round.
fn sha1_of_fio(data: &[u8]) -> Checksum {
    let mut digest = Checksum::new(&sha1::Sha1::digest(data));
    digest.bytes.chunks_exact_mut(4).take(5).for_each(<[u8]>::reverse);
    digest
}

/// What fio calls sha256: the last block that SHA-256 takes in, as padded, its length from the lowest byte up; its first eight bytes
/// give way to the lowest byte of each word of the state.
fn sha256_of_fio(data: &[u8]) -> [u8; 64] {
    // FIPS 180-4, 5.3.3.
    let mut state: [u32; 8] =
        [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];
    let (blocks, rest) = data.as_chunks::<64>();
    sha2::block_api::compress256(&mut state, blocks);
    let mut last = [0_u8; 64];
    for (to, from) in last.iter_mut().zip(rest.iter().chain(&[0x80])) {
        *to = *from;
    }
    if rest.len() >= 56 {
        // No room for the length: it goes into a block of its own.
        sha2::block_api::compress256(&mut state, &[last]);
        last = [0; 64];
    }
    let bits = (data.len() as u64) << 3;
    for (to, from) in last.iter_mut().skip(56).zip(bits.to_le_bytes()) {
        *to = from;
    }
    sha2::block_api::compress256(&mut state, &[last]);
    for (to, word) in last.iter_mut().zip(state) {
        *to = word as u8;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_fiojob::value::Choice as _;

    #[test]
    fn checksums_have_the_length_that_is_kept_for_them_and_see_every_bit() {
        for (word, _) in VerifyMethod::ALL {
            let method = VerifyMethod::from_word(word).expect("a word");
            // Lengths around the blocks of the digests: paddings differ.
            for len in [1_usize, 7, 55, 56, 63, 64, 65, 119, 120, 127, 128, 300] {
                let mut data: Vec<u8> = (0..len).map(|at| (at * 37) as u8).collect();
                let sum = of(method, &data);
                assert_eq!(sum.bytes().len() as u64, method.checksum_bytes(), "{word}");
                for at in [0, len / 2, len - 1] {
                    data[at] ^= 0x10;
                    assert_eq!(of(method, &data) == sum, method.checksum_bytes() == 0, "{word} of {len} bytes at {at}");
                    data[at] ^= 0x10;
                }
            }
        }
    }
}
