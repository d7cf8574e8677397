//! Functions by `.gopclntab`, the table by which Go's runtime itself names them: it is there when all symbols are stripped.
//!
//! Formats of Go 1.2, 1.16, 1.18 and 1.20 and later, as src/debug/gosym/pclntab.go of Go reads them. From 1.18 on entries are offsets
//! from `runtime.text`. Where that lies is in the table's header until 1.25, else in the module data, whose first word is the
//! address of the table.

use std::collections::HashMap;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, Rela, SectionHeader, SectionTable};
use object::{Endianness, FileKind};

use super::data::Data;
use crate::stacks::namer::NAME_BYTES_MAX;

/// The first four bytes, and which format that is.
const FORMATS: [(u32, Format); 4] = [
    (0xffff_fff1, Format::Go118),
    (0xffff_fff0, Format::Go118),
    (0xffff_fffa, Format::Go116),
    (0xffff_fffb, Format::Go12),
];
/// Words of the module data before `text`: the table, six slices of three words, and where functions are found, begin and end.
const TEXT_WORD: u64 = 22;
/// Functions of one program.
const FUNCTIONS_MAX: u64 = 1 << 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Go12,
    Go116,
    /// And later.
    Go118,
}

/// The names of those of the addresses that the table has; none if there is no table.
///
/// # Errors
/// In words, why the table cannot be read.
pub(super) fn names(data: Data<'_>, addrs: &[u64]) -> Option<Result<HashMap<u64, Vec<u8>>, String>> {
    let found = match FileKind::parse(data).ok()? {
        FileKind::Elf32 => Table::of::<FileHeader32<Endianness>>(data)?,
        FileKind::Elf64 => Table::of::<FileHeader64<Endianness>>(data)?,
        _ => return None,
    };
    let of_address = |table: &Table<'_>, addr: u64| Some((addr, table.name(addr)?.to_vec()));
    Some(found.map(|table| addrs.iter().filter_map(|addr| of_address(&table, *addr)).collect()))
}

/// The table of one program.
struct Table<'d> {
    bytes: &'d [u8],
    format: Format,
    word: usize,
    functions: u64,
    /// What entries count from.
    text: u64,
    names: &'d [u8],
    entries: &'d [u8],
}

impl<'d> Table<'d> {
    /// None if the file has no table.
    fn of<Elf: FileHeader<Endian = Endianness>>(data: Data<'d>) -> Option<Result<Self, String>> {
        let header = Elf::parse(data).ok()?;
        let endian = header.endian().ok()?;
        if endian != Endianness::Little {
            return None;
        }
        let sections = header.sections(endian, data).ok()?;
        let (bytes, addr) = find(data, endian, &sections)?;
        let words = Words { data, endian, sections, word: bytes.get(7).map_or(8, |word| usize::from(*word)) };
        let table = Self::parse(bytes, addr, &words);
        Some(table.ok_or_else(|| ".gopclntab is of a format that is not known".to_owned()))
    }

    fn parse<Elf: FileHeader<Endian = Endianness>>(bytes: &'d [u8], addr: u64, words: &Words<'d, Elf>) -> Option<Self> {
        let mut table = Self::read(bytes)?;
        if table.format == Format::Go118 {
            let in_header = words.at(addr + 8 + 2 * words.word as u64).filter(|text| *text > 0);
            let in_module =
                || words.module_data(addr).and_then(|module| words.at(module + TEXT_WORD * words.word as u64));
            let of_code = || words.section(b".text").map(|(start, _)| start);
            table.text = in_header.or_else(in_module).filter(|text| *text > 0).or_else(of_code)?;
        }
        Some(table)
    }

    /// What its own bytes say.
    fn read(bytes: &'d [u8]) -> Option<Self> {
        let magic = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let (_, format) = FORMATS.iter().find(|(known, _)| *known == magic)?;
        let word = usize::from(*bytes.get(7)?);
        if word != 4 && word != 8 {
            return None;
        }
        let header = |number: usize| number_at(bytes, 8 + number * word, word);
        let part = |number: usize| bytes.get(usize::try_from(header(number)?).ok()?..);
        let (names, entries) = match format {
            Format::Go118 => (part(3)?, part(7)?),
            Format::Go116 => (part(2)?, part(6)?),
            Format::Go12 => (bytes, bytes.get(8 + word..)?),
        };
        let functions = header(0)?;
        (functions <= FUNCTIONS_MAX).then_some(Self {
            bytes,
            format: *format,
            word,
            functions,
            text: 0,
            names,
            entries,
        })
    }

    /// Bytes of a number in the list of entries.
    fn field(&self) -> usize {
        if self.format == Format::Go118 { 4 } else { self.word }
    }

    fn entry(&self, number: u64) -> Option<u64> {
        let at = usize::try_from(number).ok()?.checked_mul(2 * self.field())?;
        number_at(self.entries, at, self.field())?.checked_add(self.text)
    }

    fn name(&self, addr: u64) -> Option<&'d [u8]> {
        // One more entry says where the last function ends.
        if addr < self.entry(0)? || addr >= self.entry(self.functions)? {
            return None;
        }
        let (mut from, mut until) = (0, self.functions);
        while until - from > 1 {
            let middle = from.midpoint(until);
            if self.entry(middle)? <= addr { from = middle } else { until = middle }
        }
        let at = usize::try_from(from).ok()?.checked_mul(2 * self.field())? + self.field();
        let function = usize::try_from(number_at(self.entries, at, self.field())?).ok()?;
        let functions = if self.format == Format::Go12 { self.bytes } else { self.entries };
        // Behind the function's own address, or its offset.
        let name = number_at(functions, function.checked_add(self.field())?, 4)?;
        let name = self.names.get(usize::try_from(name).ok()?..)?;
        let end = name.iter().take(NAME_BYTES_MAX * 4).position(|byte| *byte == 0)?;
        Some(&name[..end]).filter(|name| !name.is_empty())
    }
}

fn number_at(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The bytes of the table and their address.
fn find<'d, Elf: FileHeader<Endian = Endianness>>(
    data: Data<'d>,
    endian: Endianness,
    sections: &SectionTable<'d, Elf, Data<'d>>,
) -> Option<(&'d [u8], u64)> {
    let named = |wanted: &dyn Fn(&[u8]) -> bool| {
        sections.iter().find(|section| wanted(sections.section_name(endian, *section).unwrap_or_default()))
    };
    if let Some(section) = named(&|name| name.ends_with(b".gopclntab")) {
        return Some((section.data(endian, data).ok()?, section.sh_addr(endian).into()));
    }
    // The system's linker puts it into a section with others.
    named(&|name| name.starts_with(b".go.buildinfo") || name.starts_with(b".note.go"))?;
    let section = named(&|name| name == b".data.rel.ro")?;
    let bytes = section.data(endian, data).ok()?;
    let is_table = |at: &usize| bytes.get(*at..*at + 4).is_some_and(|magic| magic == 0xffff_fff1_u32.to_le_bytes());
    let at = (0..bytes.len()).step_by(8).filter(is_table).find(|at| Table::read(&bytes[*at..]).is_some())?;
    let start: u64 = section.sh_addr(endian).into();
    Some((&bytes[at..], start + at as u64))
}

/// What words in the file's data will be when it is loaded.
struct Words<'d, Elf: FileHeader<Endian = Endianness>> {
    data: Data<'d>,
    endian: Endianness,
    sections: SectionTable<'d, Elf, Data<'d>>,
    word: usize,
}

impl<'d, Elf: FileHeader<Endian = Endianness>> Words<'d, Elf> {
    fn section(&self, name: &[u8]) -> Option<(u64, u64)> {
        let (_, section) = self.sections.section_by_name(self.endian, name)?;
        Some((section.sh_addr(self.endian).into(), section.sh_size(self.endian).into()))
    }

    /// Relocations by the load address: where, and the address there before.
    fn relocations(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let sections = self.sections.iter().filter_map(|section| section.rela(self.endian, self.data).ok().flatten());
        let entries = sections.flat_map(|(entries, _)| entries);
        let relative = entries.filter(|entry| entry.r_type(self.endian, false) == elf::R_X86_64_RELATIVE);
        relative.map(|entry| {
            let addend: i64 = entry.r_addend(self.endian).into();
            (entry.r_offset(self.endian).into(), addend as u64)
        })
    }

    /// The word at an address.
    fn at(&self, addr: u64) -> Option<u64> {
        if let Some((_, value)) = self.relocations().find(|(at, _)| *at == addr) {
            return Some(value);
        }
        let (bytes, start) =
            self.bytes_of().find(|(bytes, start)| (*start..*start + bytes.len() as u64).contains(&addr))?;
        number_at(bytes, usize::try_from(addr - start).ok()?, self.word)
    }

    /// Where the module data are, which begin with the address of the table.
    fn module_data(&self, table: u64) -> Option<u64> {
        if let Some((at, _)) = self.relocations().find(|(_, value)| *value == table) {
            return Some(at);
        }
        let wanted = &table.to_le_bytes()[..self.word];
        self.bytes_of().find_map(|(bytes, start)| {
            let at = bytes.chunks_exact(self.word).position(|word| word == wanted)?;
            Some(start + (at * self.word) as u64)
        })
    }

    /// The bytes of sections with data, each with their address.
    fn bytes_of(&self) -> impl Iterator<Item = (&'d [u8], u64)> + '_ {
        self.sections.iter().filter_map(|section| {
            let flags = section.sh_flags(self.endian);
            let start: u64 = section.sh_addr(self.endian).into();
            if !flags.contains(elf::SHF_ALLOC) || flags.contains(elf::SHF_EXECINSTR) || start == 0 {
                return None;
            }
            let bytes = section.data(self.endian, self.data).ok().filter(|bytes| !bytes.is_empty())?;
            start.checked_add(bytes.len() as u64)?;
            Some((bytes, start))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of Go 1.18 with two functions, at 0x10 to 0x30 and to 0x40.
    fn table() -> Vec<u8> {
        let mut bytes = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let names = b"main.alpha\0main.beta\0".to_vec();
        let (names_at, entries_at) = (72_u64, 72 + names.len() as u64);
        for word in [2, 0, 0, names_at, 0, 0, 0, entries_at] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(names);
        for number in [0x10_u32, 20, 0x30, 28, 0x40, /* functions: entry, name */ 0x10, 0, 0x30, 11] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn functions_are_found_by_their_entries() {
        let bytes = table();
        let mut table = Table::read(&bytes).expect("a table");
        table.text = 0x40_0000;
        let name = |addr| table.name(addr).map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(name(0x40_0010).as_deref(), Some("main.alpha"));
        assert_eq!(name(0x40_002f).as_deref(), Some("main.alpha"));
        assert_eq!(name(0x40_0030).as_deref(), Some("main.beta"));
        assert_eq!([name(0x40_000f), name(0x40_0040)], [None, None]);
    }

    #[test]
    fn a_table_that_claims_anything_is_read_or_refused() {
        let whole = table();
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                for len in [bytes.len(), at] {
                    let Some(table) = Table::read(&bytes[..len]) else { continue };
                    for addr in [0, 0x10, 0x3f, u64::MAX] {
                        let _ = table.name(addr);
                    }
                }
            }
        }
    }
}
