//! The heads of the pages of a column chunk: what decoding it takes, before it is decoded.
//!
//! The footer says how large a column chunk is when it is unpacked, and a reader can hold it to a bound. But the library unpacks
//! by what the head of each page says. So the heads are read first, and must not promise more than the footer did.

/// Structures within structures are no deeper in a page's head.
const DEEPEST: u32 = 8;

/// What the pages of a chunk come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Bytes when unpacked.
    pub(crate) bytes: u64,
    /// Values, those of dictionaries left out.
    pub(crate) values: u64,
}

/// Reads the heads of all pages in `chunk`; none if they cannot be read.
pub(crate) fn sizes(chunk: &[u8]) -> Option<Sizes> {
    let mut sizes = Sizes::default();
    let mut rest = Compact { bytes: chunk };
    while !rest.bytes.is_empty() {
        let head = rest.page()?;
        rest.bytes = rest.bytes.get(head.packed..)?;
        sizes.bytes = sizes.bytes.checked_add(head.unpacked)?;
        sizes.values = sizes.values.checked_add(head.values)?;
    }
    Some(sizes)
}

struct Head {
    unpacked: u64,
    packed: usize,
    values: u64,
}

/// Thrift's compact protocol, as far as heads of pages need it.
struct Compact<'a> {
    bytes: &'a [u8],
}

impl Compact<'_> {
    fn page(&mut self) -> Option<Head> {
        let (mut unpacked, mut packed, mut values) = (None, None, 0);
        let mut id = 0;
        while let Some((next, kind)) = self.field(id)? {
            id = next;
            match (id, kind) {
                (2, 5) => unpacked = u64::try_from(self.signed()?).ok(),
                (3, 5) => packed = usize::try_from(self.signed()?).ok(),
                // Of data pages, of the first and of the second version.
                (5 | 8, 12) => values = self.first_number()?,
                _ => self.skip(kind, DEEPEST)?,
            }
        }
        Some(Head { unpacked: unpacked?, packed: packed?, values })
    }

    /// The field 1 of a structure, a number.
    fn first_number(&mut self) -> Option<u64> {
        let (mut found, mut id) = (0, 0);
        while let Some((next, kind)) = self.field(id)? {
            id = next;
            if (id, kind) == (1, 5) {
                found = u64::try_from(self.signed()?).ok()?;
            } else {
                self.skip(kind, DEEPEST)?;
            }
        }
        Some(found)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Number and type of the next field; nothing inside if the structure ends.
    #[expect(clippy::option_option, reason = "the outer one is for bytes that are no field")]
    fn field(&mut self, before: i64) -> Option<Option<(i64, u8)>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let id = match head >> 4 {
            0 => self.signed()?,
            more => before.checked_add(i64::from(more))?,
        };
        Some(Some((id, head & 0x0f)))
    }

    fn skip(&mut self, kind: u8, deep: u32) -> Option<()> {
        let deep = deep.checked_sub(1)?;
        match kind {
            // Truth is in the type.
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.number()?),
            7 => self.pass(8)?,
            8 => {
                let len = self.number()?;
                self.pass(len)?;
            }
            9 | 10 => self.skip_list(deep)?,
            12 => {
                let mut id = 0;
                while let Some((next, kind)) = self.field(id)? {
                    id = next;
                    self.skip(kind, deep)?;
                }
            }
            // Maps are in no head of a page.
            _ => return None,
        }
        Some(())
    }

    fn skip_list(&mut self, deep: u32) -> Option<()> {
        let head = self.byte()?;
        let len = match head >> 4 {
            15 => self.number()?,
            short => u64::from(short),
        };
        for _ in 0..len {
            match head & 0x0f {
                // In a list truth takes a byte.
                1 | 2 => drop(self.byte()?),
                kind => self.skip(kind, deep)?,
            }
        }
        Some(())
    }

    fn pass(&mut self, len: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(len).ok()?..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_added_up() {
        // Type 0, 300 bytes unpacked, 4 packed, a data page of 7 values.
        let page = [0x15, 0, 0x15, 0xd8, 0x04, 0x15, 8, 0x2c, 0x15, 14, 0, 0, 1, 2, 3, 4];
        assert_eq!(sizes(&page), Some(Sizes { bytes: 300, values: 7 }));
        assert_eq!(sizes(&[page, page].concat()), Some(Sizes { bytes: 600, values: 14 }));
        assert_eq!(sizes(&page[..10]), None);
        assert_eq!(sizes(&[0x19; 64]), None);
    }

    #[test]
    fn lists_that_claim_to_be_long_end_with_the_bytes() {
        let claim = [0x19, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0];
        assert_eq!(sizes(&claim), None);
        // A list of a thousand million truths, of which none takes a byte elsewhere.
        assert_eq!(sizes(&[0x19, 0xf1, 0x80, 0x94, 0xeb, 0xdc, 0x03]), None);
    }
}
