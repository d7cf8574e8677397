//! The bytes of a file that names are looked up in, and of its compressed sections: bounded, whatever its headers claim.

use std::borrow::Cow;
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::AsRawFd;

use memmap2::Mmap;
use object::{CompressedData, CompressionFormat, ReadCache, ReadRef};

use crate::stacks::hostile::Bounded;

/// Bytes that are read of a file which others may change; what only trusted users change is mapped.
const READ_BYTES_MAX: u64 = 256 << 20;
/// Bytes that the sections of one file may have when they are decompressed.
pub(super) const INFLATED_BYTES_MAX: u64 = 1 << 30;
/// Bytes that are set aside at once for what is decompressed: a buffer that grows is copied, and its pages are zeroed, each time. Pages that
/// nothing is written to take no memory.
const AHEAD_BYTES: u64 = 64 << 20;
/// Memory for decompressing `.gnu_debugdata`, KiB: the strongest preset of xz takes 65 MiB.
const XZ_KIB_MAX: u32 = 256 << 10;

/// A file whose content is looked at.
pub(super) struct Source {
    map: Option<Mmap>,
    cache: ReadCache<File>,
    left: Cell<u64>,
}

impl Source {
    /// Prepares to read a file. One that is trusted is mapped, of others pieces are read as they are needed.
    pub(super) fn of(file: &File, is_trusted: bool) -> std::io::Result<Self> {
        // Opened anew, because a descriptor that is handed on shares its position.
        let again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).or_else(|_| file.try_clone())?;
        let map = if is_trusted {
            // SAFETY: only trusted users change the file, and this is a process that does nothing but look up names: if it
            // is shortened meanwhile, that process ends.
            unsafe { Mmap::map(&again) }.ok()
        } else {
            None
        };
        Ok(Self { map, cache: ReadCache::new(again), left: Cell::new(READ_BYTES_MAX) })
    }

    /// Its bytes.
    pub(super) fn data(&self) -> Data<'_> {
        match &self.map {
            Some(map) => Data::Slice(map),
            None => Data::Read(Bounded::new(&self.cache, &self.left)),
        }
    }
}

/// Bytes in memory, or of a file that is read piece by piece.
#[derive(Debug, Clone, Copy)]
pub(super) enum Data<'d> {
    Slice(&'d [u8]),
    Read(Bounded<'d, File>),
}

impl<'d> ReadRef<'d> for Data<'d> {
    fn len(self) -> Result<u64, ()> {
        match self {
            Self::Slice(bytes) => ReadRef::len(bytes),
            Self::Read(file) => file.len(),
        }
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        match self {
            Self::Slice(bytes) => bytes.read_bytes_at(offset, size),
            Self::Read(file) => file.read_bytes_at(offset, size),
        }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        match self {
            Self::Slice(bytes) => bytes.read_bytes_at_until(range, delimiter),
            Self::Read(file) => file.read_bytes_at_until(range, delimiter),
        }
    }
}

/// The bytes of a section, decompressed. `left` is what the sections of the file may still take.
///
/// # Errors
/// In words, what cannot be read.
pub(super) fn inflate<'d>(section: CompressedData<'d>, left: &Cell<u64>) -> Result<Cow<'d, [u8]>, String> {
    let size = section.uncompressed_size;
    if section.format == CompressionFormat::None {
        return Ok(Cow::Borrowed(section.data));
    }
    let rest = left.get().checked_sub(size);
    let rest = rest.ok_or_else(|| format!("found {size} bytes decompressed, needed at most {}", left.get()))?;
    let bytes = match section.format {
        CompressionFormat::Zlib => all_of(flate2::bufread::ZlibDecoder::new(section.data), size),
        CompressionFormat::Zstandard => {
            zstd::stream::read::Decoder::new(section.data).and_then(|decoder| all_of(decoder, size))
        }
        _ => return Err("compressed in a way that is not known".to_owned()),
    };
    let bytes = bytes.map_err(|error| format!("cannot be decompressed: {error}"))?;
    if bytes.len() as u64 != size {
        return Err(format!("found {} bytes decompressed, needed {size}", bytes.len()));
    }
    left.set(rest);
    Ok(Cow::Owned(bytes))
}

/// Decompresses what xz made.
///
/// # Errors
/// In words, why it cannot be.
pub(super) fn unxz(packed: &[u8]) -> Result<Vec<u8>, String> {
    let reader = lzma_rust2::XzReader::new_mem_limit(packed, true, XZ_KIB_MAX);
    let bytes = all_of(reader, INFLATED_BYTES_MAX / 4).map_err(|error| format!("cannot be decompressed: {error}"))?;
    if bytes.len() as u64 > INFLATED_BYTES_MAX / 4 {
        return Err(format!("found more than {} bytes decompressed", INFLATED_BYTES_MAX / 4));
    }
    Ok(bytes)
}

/// Reads to the end, but not further than one byte beyond `size`.
fn all_of(mut reader: impl Read, size: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; size.min(AHEAD_BYTES) as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        let read = reader.read(&mut bytes[filled..])?;
        if read == 0 {
            bytes.truncate(filled);
            return Ok(bytes);
        }
        filled += read;
    }
    reader.take(size.saturating_add(1) - filled as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(format: CompressionFormat, bytes: &[u8]) -> Vec<u8> {
        match format {
            CompressionFormat::Zlib => {
                let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                out.write_all(bytes).and_then(|()| out.finish()).expect("memory")
            }
            CompressionFormat::Zstandard => zstd::bulk::compress(bytes, 1).expect("memory"),
            _ => bytes.to_vec(),
        }
    }

    #[test]
    fn a_section_has_the_size_that_it_claims_and_fits_or_is_refused() {
        let bytes = b"abcabcabcabcabc".repeat(100);
        for format in [CompressionFormat::None, CompressionFormat::Zlib, CompressionFormat::Zstandard] {
            let data = packed(format, &bytes);
            let section = |size: usize| CompressedData { format, data: &data, uncompressed_size: size as u64 };
            let left = Cell::new(2000);
            assert_eq!(inflate(section(bytes.len()), &left).as_deref(), Ok(bytes.as_slice()));
            if format == CompressionFormat::None {
                continue;
            }
            assert_eq!(left.get(), 500);
            assert!(inflate(section(bytes.len()), &left).expect_err("no room").contains("needed at most 500"));
            left.set(1 << 20);
            assert!(inflate(section(100), &left).is_err(), "it is a bomb");
            assert!(inflate(section(1 << 19), &left).is_err(), "it claims too much");
        }
        let left = Cell::new(1 << 20);
        let broken = CompressedData { format: CompressionFormat::Zstandard, data: b"none", uncompressed_size: 4 };
        assert!(inflate(broken, &left).is_err());
        assert!(unxz(b"none").is_err());
    }
}
