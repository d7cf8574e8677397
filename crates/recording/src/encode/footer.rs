//! Checksums of a part, behind the library's footer.
//!
//! The Parquet library writes no page checksums, and page checksums would not cover headers and footer. So pagelab's
//! parts end like this:
//!
//! ```text
//! [pages ...][Thrift footer][CRC-32 per column chunk, in row group order][CRC-32][count]["PGL1"][length]["PAR1"]
//! ```
//!
//! `length` covers everything from the Thrift footer to "PGL1", as Parquet wants; a Parquet reader stops at the end of
//! the Thrift structure and ignores the rest, as it must for signed plaintext footers, which put their signature in the
//! same place. The CRC-32 before the count is over everything from the Thrift footer on that precedes it, and the
//! count. Together with the chunks' own every byte of the file is covered but the magic numbers, which are compared.

use parquet::file::metadata::RowGroupMetaData;

/// Marks our trailer.
const MAGIC: &[u8; 4] = b"PGL1";
/// First and last bytes of every Parquet file.
pub(crate) const PARQUET_MAGIC: &[u8; 4] = b"PAR1";
/// The writer named in the footer; a part of this origin must have the trailer.
pub(crate) const CREATED_BY: &str = "pagelab";
/// How the writer's name ends if it lists the parts of a recording that it closes.
pub(crate) const LISTED: &str = "(parts listed)";
/// Length and magic number at the end of a Parquet file.
pub(crate) const TAIL_LEN: usize = 8;
/// CRC, count and magic number.
const FIXED_LEN: usize = 12;
/// All of that, and the end of the file.
pub(crate) const END_LEN: usize = FIXED_LEN + TAIL_LEN;

/// Checksums of the column chunks of a row group, whose pages are `bytes`, beginning at `offset` of the file.
pub(crate) fn chunk_checksums(group: &RowGroupMetaData, offset: u64, bytes: &[u8], out: &mut Vec<u32>) {
    for column in group.columns() {
        let (start, len) = column.byte_range();
        let start = start.saturating_sub(offset) as usize;
        let chunk = bytes.get(start..start + len as usize).unwrap_or_default();
        out.push(crc32fast::hash(chunk));
    }
}

/// Puts the trailer into `tail`, which is the library's end of a file: Thrift footer, length, magic number.
pub(crate) fn seal(tail: &mut Vec<u8>, checksums: &[u32]) {
    tail.truncate(tail.len().saturating_sub(TAIL_LEN));
    for checksum in checksums {
        tail.extend_from_slice(&checksum.to_le_bytes());
    }
    let count = (checksums.len() as u32).to_le_bytes();
    let crc = trailer_crc(tail, count);
    tail.extend_from_slice(&crc.to_le_bytes());
    tail.extend_from_slice(&count);
    tail.extend_from_slice(MAGIC);
    let len = tail.len() as u32;
    tail.extend_from_slice(&len.to_le_bytes());
    tail.extend_from_slice(PARQUET_MAGIC);
}

fn trailer_crc(before: &[u8], count: [u8; 4]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(before);
    hasher.update(&count);
    hasher.finalize()
}

/// The CRC of the footer, from the last bytes of a part; none if it has no trailer of ours.
pub(crate) fn checksum_of_end(end: &[u8; END_LEN]) -> Option<u32> {
    let [a, b, c, d, _, _, _, _, magic @ ..] = end;
    magic.starts_with(MAGIC).then(|| u32::from_le_bytes([*a, *b, *c, *d]))
}

/// What the end of a part says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trailer {
    /// Our trailer, intact: the checksums of all column chunks.
    Checksums(Vec<u32>),
    /// No trailer: another program wrote the file, or the marker is damaged.
    Absent,
}

/// Reads the trailer of `footer`, which is everything from the Thrift footer up to the length. The error says what is
/// damaged.
pub(crate) fn unseal(footer: &[u8]) -> Result<Trailer, String> {
    let word = |at: usize| -> Option<[u8; 4]> { footer.get(at..at + 4)?.try_into().ok() };
    let Some(fixed) = footer.len().checked_sub(FIXED_LEN) else {
        return Ok(Trailer::Absent);
    };
    if word(fixed + 8) != Some(*MAGIC) {
        return Ok(Trailer::Absent);
    }
    let (Some(crc), Some(count)) = (word(fixed), word(fixed + 4)) else {
        return Ok(Trailer::Absent);
    };
    let found = trailer_crc(&footer[..fixed], count);
    let wanted = u32::from_le_bytes(crc);
    if found != wanted {
        return Err(format!("footer checksum is {found:08x}, {wanted:08x} is needed"));
    }
    let words = u32::from_le_bytes(count) as usize;
    let start = fixed.checked_sub(words * 4).ok_or("footer is shorter than its list of checksums")?;
    let list = footer[start..fixed].chunks_exact(4);
    Ok(Trailer::Checksums(list.filter_map(|b| b.try_into().ok()).map(u32::from_le_bytes).collect()))
}
