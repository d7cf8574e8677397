//! The integer encodings of Parquet that faults are written in, made for speed.
//!
//! The Parquet library has them too, behind one virtual call and several checks per value: 60 to 100 ns per fault for
//! five columns, where the whole recorder may take 150. What is written here is read back by the library, which the
//! tests of this module use as the independent decoder.

/// Appends an unsigned LEB128 number.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Appends a signed number, zigzag coded so that small magnitudes are short.
pub(crate) fn put_zigzag(out: &mut Vec<u8>, v: i64) {
    put_varint(out, ((v << 1) ^ (v >> 63)) as u64);
}

/// Bits needed for `v`.
fn width(v: u64) -> u32 {
    64 - v.leading_zeros()
}

/// Appends `values`, `width` bits each, lowest bit first, and zero bits up to a whole byte.
#[inline]
fn pack(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>, width: u32) {
    let start = out.len();
    out.resize(start + values.len() * width as usize / 8 + 16, 0);
    let mut at = start;
    let (mut held, mut bits) = (0_u64, 0_u32);
    for v in values {
        held |= v << bits;
        bits += width;
        if bits >= 64 {
            out[at..at + 8].copy_from_slice(&held.to_le_bytes());
            at += 8;
            bits -= 64;
            // What of `v` did not fit; with nothing left the shift would be by the whole width.
            held = if bits == 0 { 0 } else { v >> (width - bits) };
        }
    }
    out[at..at + 8].copy_from_slice(&held.to_le_bytes());
    out.truncate(at + bits.div_ceil(8) as usize);
}

/// Values per block of DELTA_BINARY_PACKED: the smallest that the format allows, so that widths follow the data closely.
const BLOCK: usize = 128;
/// Values per miniblock; each has its own bit width.
const MINI: usize = 32;

/// An integer as DELTA_BINARY_PACKED sees it: differences wrap in the column's own width.
pub(crate) trait DeltaInt: Copy {
    /// The value, sign-extended.
    fn wide(self) -> i64;
    /// `self - before`, wrapping, sign-extended.
    fn minus(self, before: Self) -> i64;
    /// `delta - min` for two differences of this type: never negative, in the column's own width.
    fn above(delta: i64, min: i64) -> u64;
}

impl DeltaInt for i64 {
    #[inline]
    fn wide(self) -> i64 {
        self
    }
    #[inline]
    fn minus(self, before: Self) -> i64 {
        self.wrapping_sub(before)
    }
    #[inline]
    fn above(delta: i64, min: i64) -> u64 {
        delta.wrapping_sub(min) as u64
    }
}

impl DeltaInt for i32 {
    #[inline]
    fn wide(self) -> i64 {
        i64::from(self)
    }
    #[inline]
    fn minus(self, before: Self) -> i64 {
        i64::from(self.wrapping_sub(before))
    }
    #[inline]
    fn above(delta: i64, min: i64) -> u64 {
        u64::from((delta as i32).wrapping_sub(min as i32) as u32)
    }
}

/// Encodes `values` as one page of DELTA_BINARY_PACKED.
pub(crate) fn delta<T: DeltaInt>(values: &[T], out: &mut Vec<u8>) {
    put_varint(out, BLOCK as u64);
    put_varint(out, (BLOCK / MINI) as u64);
    put_varint(out, values.len() as u64);
    let Some(first) = values.first() else {
        put_zigzag(out, 0);
        return;
    };
    put_zigzag(out, first.wide());
    let mut before = *first;
    let mut deltas = [0_i64; BLOCK];
    for block in values[1..].chunks(BLOCK) {
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        for (slot, v) in deltas.iter_mut().zip(block) {
            let d = v.minus(before);
            before = *v;
            *slot = d;
            min = min.min(d);
            max = max.max(d);
        }
        delta_block::<T>(&deltas[..block.len()], min, max, out);
    }
}

fn delta_block<T: DeltaInt>(deltas: &[i64], min: i64, max: i64, out: &mut Vec<u8>) {
    put_zigzag(out, min);
    let widths_at = out.len();
    out.extend_from_slice(&[0; BLOCK / MINI]);
    if min == max {
        return;
    }
    let mut packed = [0_u64; MINI];
    for (k, mini) in deltas.chunks(MINI).enumerate() {
        let mut all = 0;
        for (slot, d) in packed.iter_mut().zip(mini) {
            *slot = T::above(*d, min);
            all |= *slot;
        }
        packed[mini.len()..].fill(0);
        let bits = width(all);
        out[widths_at + k] = bits as u8;
        pack(out, packed.iter().copied(), bits);
    }
}

/// Values per group of the hybrid: bit-packed ones come in whole groups.
pub(crate) const GROUP: usize = 8;

/// Encodes small numbers, each of at most `width` bits, in the RLE and bit-packing hybrid. A run is taken up where a
/// group begins, so the values before it fill their group without being looked at again.
pub(crate) fn hybrid(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut literals, mut at) = (0, 0);
    while let Some(group) = values.get(at..at + GROUP) {
        let first = group[0];
        if group.iter().any(|v| *v != first) {
            at += GROUP;
            continue;
        }
        let run = values[at..].iter().position(|v| *v != first).unwrap_or(values.len() - at);
        put_literals(&values[literals..at], width, out);
        hybrid_run(first, run, width, out);
        at += run;
        literals = at;
    }
    put_literals(&values[literals..], width, out);
}

/// Encodes `count` values of one bit each that repeat `pattern`, which fills whole groups unless it is all there is.
pub(crate) fn hybrid_repeated(pattern: &[u32], count: usize, out: &mut Vec<u8>) {
    let mut packed = Vec::new();
    pack(&mut packed, pattern.iter().map(|v| u64::from(*v)), 1);
    let groups = count.div_ceil(GROUP);
    put_varint(out, ((groups as u64) << 1) | 1);
    out.extend(packed.iter().copied().cycle().take(groups));
}

/// Encodes one run of `n` equal values.
pub(crate) fn hybrid_run(value: u32, n: usize, width: u32, out: &mut Vec<u8>) {
    put_varint(out, (n as u64) << 1);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// Bit-packed groups per header: 2^9 keep the header within two bytes.
const GROUPS: usize = 512;

fn put_literals(values: &[u32], width: u32, out: &mut Vec<u8>) {
    for chunk in values.chunks(GROUPS * GROUP) {
        let groups = chunk.len().div_ceil(GROUP);
        put_varint(out, ((groups as u64) << 1) | 1);
        let end = out.len() + groups * width as usize;
        let (whole, rest) = chunk.as_chunks::<GROUP>();
        pack_groups(whole, width, out);
        pack(out, rest.iter().map(|v| u64::from(*v)), width);
        out.resize(end, 0);
    }
}

/// Packs groups of eight, each of which ends with a whole byte: those of narrow numbers are combined in one register.
#[inline]
fn pack_groups(groups: &[[u32; GROUP]], width: u32, out: &mut Vec<u8>) {
    if width > 8 {
        return pack(out, groups.as_flattened().iter().map(|v| u64::from(*v)), width);
    }
    let (start, bytes) = (out.len(), width as usize);
    // Eight bytes are written for each group; the next begins within them.
    out.resize(start + groups.len() * bytes + 8, 0);
    for (number, group) in groups.iter().enumerate() {
        let mut packed = 0_u64;
        for (i, value) in group.iter().enumerate() {
            packed |= u64::from(*value) << (i as u32 * width);
        }
        let at = start + number * bytes;
        out[at..at + 8].copy_from_slice(&packed.to_le_bytes());
    }
    out.truncate(start + groups.len() * bytes);
}

/// Bits of the indices into a dictionary of `entries` values; never 0, which some readers refuse.
pub(crate) fn index_width(entries: usize) -> u32 {
    width(entries.saturating_sub(1) as u64).max(1)
}

/// Values that are split at a time: they stay in the first-level cache from byte to byte.
const SPLIT_BLOCK: usize = 2048;

/// Encodes values of `bytes` bytes each as BYTE_STREAM_SPLIT: all first bytes, then all second bytes, and so on, so that bytes of
/// equal meaning lie together for the compressor. `shifted(v, k)` is `v` without its lowest `k` bits.
pub(crate) fn byte_stream_split<T: Copy>(
    values: &[T],
    bytes: usize,
    shifted: impl Fn(T, u32) -> u8,
    out: &mut Vec<u8>,
) {
    let (start, n) = (out.len(), values.len());
    out.resize(start + n * bytes, 0);
    let out = &mut out[start..];
    for (number, block) in values.chunks(SPLIT_BLOCK).enumerate() {
        let at = number * SPLIT_BLOCK;
        for k in 0..bytes {
            let stream = &mut out[k * n + at..][..block.len()];
            // One shift for the whole loop, so that the compiler makes vector instructions of it.
            for (byte, value) in stream.iter_mut().zip(block) {
                *byte = shifted(*value, 8 * k as u32);
            }
        }
    }
}

/// Whether two rows are equal; without a call, which comparing arrays of this length would be.
#[inline]
fn same<const N: usize>(one: &[i64; N], other: &[i64; N]) -> bool {
    one.iter().zip(other).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

/// Distinct values in the order of their first appearance, and their numbers; an open-addressing table, because the
/// common case is a handful of values repeated without end.
pub(crate) struct IntDictionary {
    /// The distinct values.
    pub(crate) values: Vec<u64>,
    slots: Vec<(u64, u32)>,
    limit: usize,
}

/// Slots that an [`IntDictionary`] begins with; a power of two.
const FIRST_SLOTS: usize = 64;
/// Marks a free slot of [`IntDictionary`].
const FREE: u32 = u32::MAX;

impl IntDictionary {
    /// A dictionary that takes at most `limit` values.
    pub(crate) fn new(limit: usize) -> Self {
        Self { values: Vec::new(), slots: vec![(0, FREE); FIRST_SLOTS], limit }
    }

    /// Appends the numbers of `values` to `indices`; false if there are too many distinct ones.
    pub(crate) fn index(&mut self, values: impl Iterator<Item = u64>, indices: &mut Vec<u32>) -> bool {
        let mut last = None;
        let mut fits = true;
        indices.extend(values.map_while(|v| {
            let number = match last {
                Some((value, number)) if value == v => Some(number),
                _ => self.number(v),
            };
            fits = number.is_some();
            last = number.map(|n| (v, n));
            number
        }));
        fits
    }

    /// The same for rows of `N` values. A row is mostly one of the last two, or differs from one in a value or two: two tasks that
    /// take turns make the same call again and again.
    pub(crate) fn index_rows<const N: usize>(&mut self, values: &[i64], indices: &mut Vec<u32>) -> bool {
        let none = ([0_i64; N], [FREE; N]);
        let (mut latest, mut earlier) = (none, none);
        for row in values.as_chunks::<N>().0 {
            if !same(&latest.0, row) || latest.1[0] == FREE {
                std::mem::swap(&mut latest, &mut earlier);
                if !same(&latest.0, row) || latest.1[0] == FREE {
                    let Some(numbers) = self.numbers_of(row, &latest, &earlier) else { return false };
                    latest = (*row, numbers);
                }
            }
            indices.extend_from_slice(&latest.1);
        }
        true
    }

    /// The numbers of a row's values, which may be those of the same places in two rows before.
    fn numbers_of<const N: usize>(
        &mut self,
        row: &[i64; N],
        one: &([i64; N], [u32; N]),
        other: &([i64; N], [u32; N]),
    ) -> Option<[u32; N]> {
        let mut numbers = [FREE; N];
        for (i, (number, value)) in numbers.iter_mut().zip(row).enumerate() {
            let known = [one, other].into_iter().find(|(row, numbers)| row[i] == *value && numbers[i] != FREE);
            *number = match known {
                Some((_, numbers)) => numbers[i],
                None => self.number(*value as u64)?,
            };
        }
        Some(numbers)
    }

    /// The number of `v`; `None` if there is no room for it.
    #[inline]
    pub(crate) fn number(&mut self, v: u64) -> Option<u32> {
        let at = match self.slot_of(v) {
            Ok(number) => return Some(number),
            Err(free) => free,
        };
        if self.values.len() == self.limit {
            return None;
        }
        let number = self.values.len() as u32;
        self.values.push(v);
        self.slots[at] = (v, number);
        if self.values.len() * 2 > self.slots.len() {
            self.grow();
        }
        Some(number)
    }

    /// The number of `v`, or the free slot that it would take.
    #[inline]
    fn slot_of(&self, v: u64) -> std::result::Result<u32, usize> {
        let mask = self.slots.len() - 1;
        // Fibonacci hashing: the high bits of the product depend on all bits of the value.
        let mut at = (v.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & mask;
        loop {
            let (value, number) = self.slots[at];
            if number == FREE {
                return Err(at);
            }
            if value == v {
                return Ok(number);
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let slots = self.slots.len() * 4;
        self.slots.clear();
        self.slots.resize(slots, (0, FREE));
        for number in 0..self.values.len() {
            let value = self.values[number];
            if let Err(free) = self.slot_of(value) {
                self.slots[free] = (value, number as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_as_thrift_writes_them() {
        let mut out = Vec::new();
        put_varint(&mut out, 300);
        put_zigzag(&mut out, -1);
        put_zigzag(&mut out, i64::MIN);
        assert_eq!(out[..3], [0xac, 0x02, 0x01]);
        assert_eq!(out.len(), 3 + 10);
    }

    #[test]
    fn packing_is_lowest_bit_first() {
        // The example of the Parquet specification: 0 to 7 in three bits each.
        let mut out = Vec::new();
        pack(&mut out, [0, 1, 2, 3, 4, 5, 6, 7].into_iter(), 3);
        assert_eq!(out, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
        for width in [1, 7, 33, 63, 64] {
            let value = u64::MAX >> (64 - width);
            let mut out = Vec::new();
            pack(&mut out, [value; 16].into_iter(), width);
            assert_eq!(out, vec![0xff; 2 * width as usize]);
        }
    }

    #[test]
    fn groups_are_packed_as_single_values_are() {
        for width in 1..=12 {
            let values: Vec<u32> = (0..40_u32).map(|i| i.wrapping_mul(2_654_435_761) >> (32 - width)).collect();
            let (mut grouped, mut single) = (Vec::new(), Vec::new());
            pack_groups(values.as_chunks().0, width, &mut grouped);
            pack(&mut single, values.iter().map(|v| u64::from(*v)), width);
            assert_eq!(grouped, single, "{width} bits");
        }
    }

    #[test]
    fn rows_have_the_numbers_of_their_values() {
        let rows = [[0, 0], [1, 2], [0, 0], [1, 2], [1, 3], [0, 0], [7, 2]];
        let (mut by_row, mut by_value) = (IntDictionary::new(9), IntDictionary::new(9));
        let (mut rows_numbers, mut values_numbers) = (Vec::new(), Vec::new());
        assert!(by_row.index_rows::<2>(rows.as_flattened(), &mut rows_numbers));
        assert!(by_value.index(rows.as_flattened().iter().map(|v| *v as u64), &mut values_numbers));
        assert_eq!((rows_numbers, by_row.values), (values_numbers, by_value.values));
    }

    #[test]
    fn a_dictionary_refuses_one_value_too_many() {
        let mut indices = Vec::new();
        let mut dictionary = IntDictionary::new(3);
        assert!(dictionary.index([5, 5, 6, 7, 5].into_iter(), &mut indices));
        assert_eq!(indices, [0, 0, 1, 2, 0]);
        assert!(!dictionary.index([8].into_iter(), &mut indices));
    }
}
