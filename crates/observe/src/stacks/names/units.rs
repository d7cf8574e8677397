//! Units of debug information that hold none of the addresses asked for.
//!
//! `addr2line` reads the abbreviations of every compilation unit before it looks up one address: of the C library, whose 600 units are
//! compressed on most distributions, that is a third of the work for its names. `.debug_aranges` tells which units hold an address.

use addr2line::gimli::{self, DebugAranges};

use super::dwarf::Reader;

/// The type of a unit in the header of DWARF 5 (section 7.5.1): a whole one, and one that describes a type, which nobody looks into for code.
const COMPILE: u8 = 0x01;
const TYPE: u8 = 0x02;
/// Bytes of the header of a unit for a type, without its length.
const TYPE_HEADER_BYTES: u32 = 20;
/// A length from which on it is no length: of 64-bit DWARF.
const NO_LENGTH: u32 = 0xffff_fff0;

/// Forms that may refer to another unit, or another file (DWARF 5, table 7.6; `DW_FORM_GNU_ref_alt`).
const REFERS_ELSEWHERE: [u64; 5] = [0x10, 0x16, 0x1c, 0x24, 0x1f20];

/// Whether an attribute of this form may refer to another unit: then all units are needed.
pub(super) fn refers_elsewhere(form: u64) -> bool {
    REFERS_ELSEWHERE.contains(&form)
}

/// Places of units, sorted, that say where their code is, and that none of the addresses is there. `addrs` are sorted.
///
/// # Errors
/// The section cannot be read.
pub(super) fn without(aranges: &DebugAranges<Reader<'_>>, addrs: &[u64]) -> gimli::Result<Vec<usize>> {
    let (mut all, mut needed) = (Vec::new(), Vec::new());
    let mut headers = aranges.headers();
    while let Some(header) = headers.next()? {
        let unit = header.debug_info_offset().0;
        let mut entries = header.entries();
        let (mut says_where, mut holds) = (false, false);
        while let Some(entry) = entries.next()? {
            let range = entry.range();
            says_where |= range.begin < range.end;
            let next = addrs.partition_point(|addr| *addr < range.begin);
            holds |= addrs.get(next).is_some_and(|addr| *addr < range.end);
        }
        if says_where {
            all.push(unit);
        }
        if holds || !says_where {
            needed.push(unit);
        }
    }
    all.sort_unstable();
    all.dedup();
    needed.sort_unstable();
    all.retain(|unit| needed.binary_search(unit).is_err());
    Ok(all)
}

/// Makes units of `.debug_info` such that nobody looks into. Those of before DWARF 5 do not say what they are, and stay.
pub(super) fn pass_over(info: &mut [u8], units: &[usize], is_little_endian: bool) {
    for unit in units {
        let Some(header) = info.get_mut(*unit..).and_then(|rest| rest.get_mut(..7)) else { continue };
        let number =
            |bytes: [u8; 4]| if is_little_endian { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
        let length = number([header[0], header[1], header[2], header[3]]);
        let version = if is_little_endian { [header[4], header[5]] } else { [header[5], header[4]] };
        if (TYPE_HEADER_BYTES..NO_LENGTH).contains(&length) && version == [5, 0] && header[6] == COMPILE {
            header[6] = TYPE;
        }
    }
}

#[cfg(test)]
mod tests {
    use addr2line::gimli::RunTimeEndian;

    use super::*;

    /// A set of `.debug_aranges` with one range.
    fn set(unit: u32, start: u64, bytes: u64) -> Vec<u8> {
        let head = [&44_u32.to_le_bytes()[..], &[2, 0], &unit.to_le_bytes(), &[8, 0, 0, 0, 0, 0]].concat();
        [head, start.to_le_bytes().to_vec(), bytes.to_le_bytes().to_vec(), vec![0; 16]].concat()
    }

    fn found(section: &[u8], addrs: &[u64]) -> gimli::Result<Vec<usize>> {
        without(&DebugAranges::from(Reader::new(section, RunTimeEndian::Little)), addrs)
    }

    #[test]
    fn units_that_say_that_they_are_elsewhere_are_not_needed() {
        let section =
            [set(0, 0x1000, 0x100), set(300, 0x2000, 0x100), set(600, 0x3000, 0), set(300, 0x4000, 1)].concat();
        assert_eq!(found(&section, &[0x1000]), Ok(vec![300]));
        assert_eq!(found(&section, &[0x10ff, 0x1100, 0x4000]), Ok(vec![]), "a unit has more than one set");
        assert_eq!(found(&section, &[0x1100]), Ok(vec![0, 300]), "one that says nothing may be anywhere");
        assert!(found(&section[..50], &[0x1100]).is_err());
    }

    #[test]
    fn only_whole_units_of_dwarf_5_are_passed_over() {
        let unit = |version: u8, kind: u8| [&40_u32.to_le_bytes()[..], &[version, 0, kind], &[0; 37]].concat();
        let info = [unit(5, COMPILE), unit(4, COMPILE), unit(5, 0x03)].concat();
        let mut passed = info.clone();
        pass_over(&mut passed, &[0, 44, 88, 130, usize::MAX], true);
        let differ: Vec<usize> = (0..info.len()).filter(|at| info[*at] != passed[*at]).collect();
        assert_eq!((differ, passed[6]), (vec![6], TYPE));
    }
}
