//! Functions by the symbol tables of ELF files.
//!
//! Tables may have a million symbols while a few addresses are asked for: each symbol is looked at once, and what is kept is the
//! best one for each address. A function has the addresses that its size says, within its section; of two that hold an address the one
//! that begins later does. A symbol without a size (labels in assembler, `_init`) reaches to the next symbol or the end of its section,
//! whichever comes first. In `.dynsym` it names its own address alone: that table has a few exports, and between them lies any number of functions.

use std::cmp::Reverse;
use std::ops::Range;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym};
use object::{Endianness, FileKind, SectionIndex};

use super::data::Data;
use super::plt;

/// Addresses that the symbols of a file may be compared with: tables that claim to have each function everywhere are given up.
const COMPARED_MAX: u64 = 1 << 28;

/// Which of the names of one place is the best, as perf chooses: the strong one, the global one, that with fewer leading underscores,
/// the longer one.
type Rank = (bool, bool, Reverse<usize>, usize, Reverse<Vec<u8>>);

fn rank(name: &[u8], is_strong: bool, is_global: bool) -> Rank {
    let underscores = name.iter().take_while(|byte| **byte == b'_').count();
    (is_strong, is_global, Reverse(underscores), name.len(), Reverse(name.to_vec()))
}

/// A function that holds an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Holder {
    start: u64,
    /// Its name comes last.
    rank: Rank,
}

impl Holder {
    fn name(&self) -> &[u8] {
        &self.rank.4.0
    }
}

/// What begins last before the addresses behind it.
#[derive(Debug, Clone, Default)]
struct Border {
    start: u64,
    /// A symbol without size, and where it ends at the latest; none if one with a size begins there, too.
    open: Option<(Holder, u64)>,
    sized: bool,
}

/// The functions of some addresses.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// Sorted, each once.
    addrs: Vec<u64>,
    holders: Vec<Option<Holder>>,
    /// Before each address, after the one before it.
    borders: Vec<Border>,
    /// Names of entries of procedure linkage tables.
    linkage: Vec<Option<Vec<u8>>>,
    compared: u64,
}

impl Functions {
    /// For these addresses.
    pub(super) fn of(addrs: impl Iterator<Item = u64>) -> Self {
        let mut addrs: Vec<u64> = addrs.collect();
        addrs.sort_unstable();
        addrs.dedup();
        let count = addrs.len();
        Self {
            addrs,
            holders: vec![None; count],
            borders: vec![Border::default(); count],
            linkage: vec![None; count],
            compared: 0,
        }
    }

    /// The name of the function that an address lies in.
    pub(super) fn name(&self, addr: u64) -> Option<&[u8]> {
        let at = self.addrs.binary_search(&addr).ok()?;
        if let Some(name) = self.linkage.get(at)?.as_deref() {
            return Some(name);
        }
        if let Some(holder) = self.holders.get(at)? {
            return Some(holder.name());
        }
        let border = self.borders[..=at].iter().rev().find(|border| border.start > 0)?;
        border.open.as_ref().filter(|(_, end)| addr < *end).map(|(holder, _)| holder.name())
    }

    /// The addresses that have no name.
    pub(super) fn unnamed(&self) -> Vec<u64> {
        self.addrs.iter().copied().filter(|addr| self.name(*addr).is_none()).collect()
    }

    /// The addresses in a range, with their places.
    pub(super) fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (usize, u64)> + use<> {
        let from = self.addrs.partition_point(|addr| *addr < range.start);
        let until = self.addrs.partition_point(|addr| *addr < range.end);
        let found = self.addrs.get(from..until).unwrap_or_default().to_vec();
        found.into_iter().enumerate().map(move |(at, addr)| (from + at, addr))
    }

    /// Names an entry of a procedure linkage table.
    pub(super) fn link(&mut self, at: usize, name: Vec<u8>) {
        if let Some(place) = self.linkage.get_mut(at) {
            *place = Some(name);
        }
    }

    /// A function with these addresses; none if its size is not known: it then ends at `latest`.
    fn meet(&mut self, start: u64, size: Option<u64>, latest: u64, rank: impl Fn() -> Rank) {
        let from = self.addrs.partition_point(|addr| *addr < start);
        let end = size.map_or(start, |size| start.saturating_add(size).min(latest));
        let holder = || Holder { start, rank: rank() };
        if let Some(border) = self.borders.get_mut(from)
            && start >= border.start
        {
            if start > border.start {
                *border = Border { start, ..Border::default() };
            }
            border.sized |= size.is_some();
            if border.sized {
                border.open = None;
            } else {
                let open = border.open.take().filter(|(open, _)| *open >= holder());
                border.open = open.or_else(|| Some((holder(), latest)));
            }
        }
        for (addr, place) in self.addrs.iter().zip(&mut self.holders).skip(from) {
            if *addr >= end || self.compared >= COMPARED_MAX {
                break;
            }
            self.compared += 1;
            if place.as_ref().is_none_or(|known| known.start < start || known.start == start && *known < holder()) {
                *place = Some(holder());
            }
        }
    }
}

/// What a file has to tell names by.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Symbols in `.symtab`, and in `.dynsym`.
    pub symbols: usize,
    pub exported: usize,
    /// Parts that cannot be read, and why.
    pub broken: Vec<String>,
}

/// Looks at the symbols of a file.
pub(super) fn scan(data: Data<'_>, functions: &mut Functions) -> Tables {
    match FileKind::parse(data) {
        Ok(FileKind::Elf32) => scan_elf::<FileHeader32<Endianness>>(data, functions),
        Ok(FileKind::Elf64) => scan_elf::<FileHeader64<Endianness>>(data, functions),
        _ => Err("it is no ELF file".to_owned()),
    }
    .unwrap_or_else(|reason| Tables { broken: vec![reason], ..Tables::default() })
}

/// Where a section lies.
struct Place {
    range: Range<u64>,
    /// It is code.
    code: bool,
}

fn scan_elf<Elf: FileHeader<Endian = Endianness>>(data: Data<'_>, functions: &mut Functions) -> Result<Tables, String> {
    let wrong = |error: object::Error| format!("its headers cannot be read: {error}");
    let header = Elf::parse(data).map_err(wrong)?;
    let endian = header.endian().map_err(wrong)?;
    let sections = header.sections(endian, data).map_err(wrong)?;
    let places: Vec<Place> = sections
        .iter()
        .map(|section| {
            let (start, size): (u64, u64) = (section.sh_addr(endian).into(), section.sh_size(endian).into());
            let flags = section.sh_flags(endian);
            let loaded = flags.contains(elf::SHF_ALLOC);
            let end = if loaded { start.saturating_add(size) } else { start };
            Place { range: start..end, code: flags.contains(elf::SHF_EXECINSTR) }
        })
        .collect();
    let mut tables = Tables::default();
    for (name, kind) in [(".symtab", elf::SHT_SYMTAB), (".dynsym", elf::SHT_DYNSYM)] {
        match scan_table(data, endian, &sections, &places, kind, functions) {
            Ok(count) if kind == elf::SHT_SYMTAB => tables.symbols = count,
            Ok(count) => tables.exported = count,
            Err(error) => tables.broken.push(format!("{name} cannot be read: {error}")),
        }
    }
    if let Err(error) = plt::scan(data, header, endian, &sections, functions) {
        tables.broken.push(format!("the entries of .plt cannot be read: {error}"));
    }
    Ok(tables)
}

fn scan_table<'d, Elf: FileHeader<Endian = Endianness>>(
    data: Data<'d>,
    endian: Endianness,
    sections: &SectionTable<'d, Elf, Data<'d>>,
    places: &[Place],
    kind: elf::SectionType,
    functions: &mut Functions,
) -> object::Result<usize> {
    let table = sections.symbols(endian, data, kind)?;
    let mut count = 0;
    for (index, symbol) in table.enumerate().skip(1) {
        let Ok(Some(SectionIndex(section))) = table.symbol_section(endian, symbol, index) else { continue };
        let Some(place) = places.get(section).filter(|place| !place.range.is_empty()) else { continue };
        let kind_of = symbol.st_type();
        let is_function = kind_of == elf::STT_FUNC || kind_of == elf::STT_GNU_IFUNC;
        // Labels in assembler have no type; but where data are there are no functions.
        if !(is_function || kind_of == elf::STT_NOTYPE && place.code) {
            continue;
        }
        let (start, size): (u64, u64) = (symbol.st_value(endian).into(), symbol.st_size(endian).into());
        if start == 0 || !place.range.contains(&start) {
            continue;
        }
        let Ok(name) = table.symbol_name(endian, symbol) else { continue };
        // Linkers add the version: `name@@GLIBC_2.34`.
        let name = match name.iter().position(|byte| *byte == b'@') {
            Some(at) if at > 0 => &name[..at],
            _ => name,
        };
        // An empty name is none; what begins so are labels that assemblers make.
        if name.is_empty() || name.starts_with(b".L") {
            continue;
        }
        count += 1;
        let size = match size {
            0 if kind == elf::SHT_DYNSYM => Some(1),
            0 => None,
            size => Some(size),
        };
        let rank = || rank(name, !symbol.is_weak(), symbol.st_bind() == elf::STB_GLOBAL);
        functions.meet(start, size, place.range.end, rank);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(name: &str) -> impl Fn() -> Rank {
        move || super::rank(name.as_bytes(), true, true)
    }

    fn named(functions: &Functions, addr: u64) -> Option<&str> {
        functions.name(addr).map(|name| std::str::from_utf8(name).expect("ours"))
    }

    #[test]
    fn a_symbol_reaches_as_far_as_its_size_and_without_one_to_the_next_or_the_end_of_its_section() {
        let mut functions =
            Functions::of([0x1010, 0x1018, 0x1020, 0x1fff, 0x2000, 0x2010, 0x2050, 0x2090, 0x20b0].into_iter());
        functions.meet(0x1000, None, 0x1018, rank("_init"));
        functions.meet(0x2000, Some(0x100), 0x3000, rank("outer"));
        functions.meet(0x2040, Some(0x20), 0x3000, rank("inner"));
        functions.meet(0x2080, None, 0x3000, rank("label"));
        assert_eq!(named(&functions, 0x1010), Some("_init"));
        assert_eq!([0x1018, 0x1020, 0x1fff].map(|addr| named(&functions, addr)), [None; 3], "another section");
        assert_eq!(named(&functions, 0x2010), Some("outer"));
        assert_eq!(named(&functions, 0x2050), Some("inner"));
        assert_eq!(named(&functions, 0x2090), Some("outer"), "a function that says that it is its own");
    }

    #[test]
    fn what_lies_behind_a_function_is_not_the_symbol_before_it() {
        let mut functions = Functions::of([0x1008, 0x1030, 0x1048].into_iter());
        functions.meet(0x1000, None, 0x2000, rank("start"));
        functions.meet(0x1010, Some(0x10), 0x2000, rank("sized"));
        functions.meet(0x1040, None, 0x2000, rank("alias"));
        functions.meet(0x1040, Some(0x4), 0x2000, rank("short"));
        assert_eq!(named(&functions, 0x1008), Some("start"));
        assert_eq!([named(&functions, 0x1030), named(&functions, 0x1048)], [None, None]);
        assert_eq!(functions.unnamed(), [0x1030, 0x1048]);
    }

    #[test]
    fn a_size_that_is_too_large_ends_where_the_next_function_begins() {
        let mut functions = Functions::of([0x1008, 0x1014].into_iter());
        functions.meet(0x1010, Some(8), 0x2000, rank("next"));
        functions.meet(0x1000, Some(0x10_0000), 0x2000, rank("large"));
        functions.meet(0x1000, Some(u64::MAX), 0x1800, rank("large"));
        assert_eq!([0x1008, 0x1014].map(|addr| named(&functions, addr)), [Some("large"), Some("next")]);
    }

    #[test]
    fn of_several_names_perf_s_choice_is_taken() {
        let of = |names: [(&str, bool, bool); 2]| {
            let mut functions = Functions::of([0x1000].into_iter());
            for (name, strong, global) in names {
                functions.meet(0x1000, Some(8), 0x2000, || super::rank(name.as_bytes(), strong, global));
            }
            named(&functions, 0x1000).map(str::to_owned)
        };
        assert_eq!(of([("longer_and_weak", false, true), ("strong", true, true)]).as_deref(), Some("strong"));
        assert_eq!(of([("longer_and_local", true, false), ("global", true, true)]).as_deref(), Some("global"));
        assert_eq!(of([("__longer", true, true), ("short", true, true)]).as_deref(), Some("short"));
        assert_eq!(of([("a", true, true), ("longer", true, true)]).as_deref(), Some("longer"));
        assert_eq!(of([("same_b", true, true), ("same_a", true, true)]).as_deref(), Some("same_a"));
    }
}
