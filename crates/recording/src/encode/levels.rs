//! Repetition and definition levels, as version 1 pages have them: a length of four bytes, then the hybrid encoding.

use arrow::buffer::NullBuffer;

use super::bits;

/// Appends levels that are all the same.
pub(super) fn constant(level: u32, count: usize, out: &mut Vec<u8>) {
    with_length(out, |out| bits::hybrid_run(level, count, bits::index_width(level as usize + 1), out));
}

/// Appends definition levels: one bit per row.
pub(super) fn of_nulls(nulls: Option<&NullBuffer>, rows: usize, out: &mut Vec<u8>) {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => constant(1, rows, out),
        Some(nulls) => {
            let levels: Vec<u32> = nulls.iter().map(u32::from).collect();
            with_length(out, |out| bits::hybrid(&levels, 1, out));
        }
    }
}

/// Appends the repetition levels of `rows` lists of `per_row` items each: 0 where a row begins, 1 for the rest of it.
pub(super) fn begins_of_rows(rows: usize, per_row: usize, out: &mut Vec<u8>) {
    // The pattern repeats after `per_row` groups of eight levels.
    let pattern: Vec<u32> = (0..rows.min(bits::GROUP) * per_row).map(|i| u32::from(i % per_row != 0)).collect();
    with_length(out, |out| bits::hybrid_repeated(&pattern, rows * per_row, out));
}

fn with_length(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}
