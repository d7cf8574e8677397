//! Functions by debug information, with those that the compiler inlined.
//!
//! Each section that cannot be read counts as empty, and what it would tell is missing; the files that others name (of dwz, of split
//! DWARF) are opened by the caller.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use addr2line::gimli::{self, DwarfPackage, EndianSlice, Reader as _, RunTimeEndian, SectionId};
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use object::{Object, ObjectSection};

use super::data::{Data, INFLATED_BYTES_MAX, inflate};
use super::units;

pub(super) type Reader<'d> = EndianSlice<'d, RunTimeEndian>;
pub(super) type File<'d> = object::File<'d, Data<'d>>;

/// Functions that are inlined into one another at one address.
const INLINED_MAX: usize = 250;

/// Values that live as long as what is made of them: the first, and the rest.
pub(super) struct Kept<T> {
    value: OnceCell<T>,
    next: OnceCell<Box<Kept<T>>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { value: OnceCell::new(), next: OnceCell::new() }
    }
}

impl<T> Kept<T> {
    pub(super) fn keep(&self, value: T) -> &T {
        let mut place = self;
        while place.value.get().is_some() {
            place = place.next.get_or_init(Box::default);
        }
        place.value.get_or_init(|| value)
    }
}

/// Sections of files, and what could not be read of them.
pub(super) struct Sections<'a> {
    kept: &'a Kept<Vec<u8>>,
    /// Bytes that may still be decompressed.
    left: Cell<u64>,
    broken: RefCell<Vec<String>>,
    /// The addresses that are asked for, sorted.
    addrs: Vec<u64>,
    /// Units of the file that is being loaded refer to one another, as far as is known.
    refer_elsewhere: Cell<bool>,
    /// Places of units of that file that need not be looked into.
    not_needed: RefCell<Vec<usize>>,
}

impl<'a> Sections<'a> {
    pub(super) fn new(kept: &'a Kept<Vec<u8>>, addrs: &[u64]) -> Self {
        let mut addrs = addrs.to_vec();
        addrs.sort_unstable();
        Self {
            kept,
            left: Cell::new(INFLATED_BYTES_MAX),
            broken: RefCell::default(),
            addrs,
            refer_elsewhere: Cell::new(true),
            not_needed: RefCell::default(),
        }
    }

    /// What could not be read, and why.
    pub(super) fn broken(self) -> Vec<String> {
        self.broken.into_inner()
    }

    fn bytes(&self, file: &File<'a>, name: &str) -> &'a [u8] {
        let Some(section) = file.section_by_name(name) else { return &[] };
        let data = section.compressed_data().map_err(|error| error.to_string());
        match data.and_then(|data| inflate(data, &self.left)) {
            Ok(Cow::Borrowed(bytes)) => bytes,
            Ok(Cow::Owned(mut bytes)) => {
                if name == SectionId::DebugInfo.name() {
                    units::pass_over(&mut bytes, &self.not_needed.borrow(), file.is_little_endian());
                }
                self.kept.keep(bytes)
            }
            Err(reason) => {
                self.broken.borrow_mut().push(format!("{name}: {reason}"));
                &[]
            }
        }
    }

    fn reader(&self, file: &File<'a>, name: Option<&str>) -> Reader<'a> {
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let bytes = name.map_or(&[][..], |name| self.bytes(file, name));
        let is_of_abbreviations =
            [Some(SectionId::DebugAbbrev.name()), SectionId::DebugAbbrev.dwo_name()].contains(&name);
        if is_of_abbreviations {
            let (bytes, refer_elsewhere) = without_lines(bytes);
            self.refer_elsewhere.set(refer_elsewhere);
            return EndianSlice::new(self.kept.keep(bytes), endian);
        }
        let reader = EndianSlice::new(bytes, endian);
        if name == Some(SectionId::DebugAranges.name()) && !self.refer_elsewhere.get() {
            *self.not_needed.borrow_mut() = units::without(&reader.into(), &self.addrs).unwrap_or_default();
        }
        reader
    }

    fn load(&self, file: &File<'a>, name: impl Fn(SectionId) -> Option<&'static str>) -> gimli::Dwarf<Reader<'a>> {
        let name = |id| name(id).filter(|_| !SAYS_NO_NAME.contains(&id));
        // Abbreviations are loaded first, then ranges of addresses, then what lies in units: each tells what of the next is needed.
        self.refer_elsewhere.set(true);
        self.not_needed.borrow_mut().clear();
        let loaded: Result<_, std::convert::Infallible> = gimli::Dwarf::load(|id| Ok(self.reader(file, name(id))));
        let Ok(dwarf) = loaded;
        dwarf
    }
}

/// Sections about variables, macros and lines. They are larger than those about functions, and most distributions compress them.
const SAYS_NO_NAME: [SectionId; 5] = [
    SectionId::DebugLine,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
];

/// An attribute that DWARF 5 (table 7.5) leaves unused.
const UNUSED_ATTRIBUTE: u8 = 0x06;

/// Abbreviations in which units do not say where their lines are. `addr2line` reads lines of each unit that it looks into: as much work
/// as the names, and no name comes of it. What follows on something that cannot be read stays as it is. And whether units may refer to one
/// another.
fn without_lines(abbreviations: &[u8]) -> (Vec<u8>, bool) {
    let mut bytes = abbreviations.to_vec();
    let whole = EndianSlice::new(abbreviations, RunTimeEndian::Little);
    let mut found = Tables::default();
    // Where it ends does not matter: what was found by then counts.
    let is_whole = read_tables(whole, &mut found).is_ok();
    for at in found.lines_at {
        bytes[at] = UNUSED_ATTRIBUTE;
    }
    (bytes, found.refer_elsewhere || !is_whole)
}

/// What tables of abbreviations say.
#[derive(Default)]
struct Tables {
    /// Where the attribute for lines stands.
    lines_at: Vec<usize>,
    /// Units may refer to one another.
    refer_elsewhere: bool,
}

/// Reads tables of abbreviations, one behind the other.
fn read_tables(whole: Reader<'_>, found: &mut Tables) -> gimli::Result<()> {
    let mut rest = whole;
    while !rest.is_empty() {
        let is_end_of_table = rest.read_uleb128()? == 0;
        if is_end_of_table {
            continue;
        }
        let (_tag, _has_children) = (rest.read_uleb128()?, rest.read_u8()?);
        loop {
            let at = rest.offset_from(whole);
            let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                rest.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
            if name == u64::from(gimli::DW_AT_stmt_list.0) && whole[at] == gimli::DW_AT_stmt_list.0 as u8 {
                found.lines_at.push(at);
            }
            found.refer_elsewhere |= units::refers_elsewhere(form);
        }
    }
    Ok(())
}

/// Whether a file has debug information.
pub(super) fn is_in(file: &File<'_>) -> bool {
    file.section_by_name(".debug_info").is_some_and(|section| {
        // A program whose information was kept elsewhere may have its headers.
        section.file_range().is_some_and(|(_, size)| size > 0)
    })
}

/// Files that debug information refers to.
pub(super) trait Others<'a> {
    /// The package of split DWARF.
    fn package(&self) -> Option<File<'a>>;
    /// A file of split DWARF, by the folder that it was made in and its path.
    fn object(&self, dir: &[u8], path: &[u8]) -> Option<File<'a>>;
}

/// The functions of each address, innermost first, by their names for the linker where they have one; an address that is in none has no list.
///
/// # Errors
/// In words, why nothing can be looked up.
pub(super) fn functions<'a>(
    file: &File<'a>,
    common: Option<&File<'a>>,
    others: &dyn Others<'a>,
    sections: &Sections<'a>,
    addrs: &[u64],
    mut found: impl FnMut(u64, Vec<Option<String>>),
) -> Result<(), String> {
    let mut dwarf = sections.load(file, |id| Some(id.name()));
    if let Some(common) = common {
        dwarf.set_sup(sections.load(common, |id| Some(id.name())));
    }
    // Units share tables where `dwz` has been at work, as on Debian and Fedora.
    dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
    let context =
        Context::from_dwarf(dwarf).map_err(|error| format!("the debug information cannot be read: {error}"))?;
    let split = Split { sections, others, package: OnceCell::new() };
    for addr in addrs {
        let mut result = context.find_frames(*addr);
        let frames = loop {
            match result {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => result = continuation.resume(split.load(&load)),
            }
        };
        // One unit that cannot be read has no names; the others have theirs.
        let Ok(mut frames) = frames else { continue };
        let mut functions = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let Some(function) = frame.function else {
                functions.push(None);
                continue;
            };
            let name = function.raw_name().ok().map(Cow::into_owned).filter(|name| is_name(name));
            functions.push(name);
            if functions.len() > INLINED_MAX {
                break;
            }
        }
        if !functions.is_empty() {
            found(*addr, functions);
        }
    }
    Ok(())
}

/// Whether a text can be a name: an empty one is none, and where strings are damaged anything may come.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|char| char.is_control() || char == char::REPLACEMENT_CHARACTER)
}

/// Debug information that is not in the file itself.
struct Split<'s, 'a> {
    sections: &'s Sections<'a>,
    others: &'s dyn Others<'a>,
    package: OnceCell<Option<DwarfPackage<Reader<'a>>>>,
}

impl<'a> Split<'_, 'a> {
    fn load(&self, load: &SplitDwarfLoad<Reader<'a>>) -> Option<Arc<gimli::Dwarf<Reader<'a>>>> {
        let package = self.package.get_or_init(|| {
            let file = self.others.package()?;
            let reader = |id: SectionId| Ok::<_, gimli::Error>(self.sections.reader(&file, id.dwo_name()));
            DwarfPackage::load(reader, self.sections.reader(&file, None)).ok()
        });
        if let Some(package) = package
            && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return Some(Arc::new(unit));
        }
        let (dir, path) = (load.comp_dir.map_or(&[][..], |dir| dir.slice()), load.path?.slice());
        let file = self.others.object(dir, path)?;
        let mut dwarf = self.sections.load(&file, SectionId::dwo_name);
        dwarf.make_dwo(&load.parent);
        Some(Arc::new(dwarf))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_do_not_say_where_their_lines_are_and_all_else_stays() {
        let [name, lines, low, end] =
            [gimli::DW_AT_name, gimli::DW_AT_stmt_list, gimli::DW_AT_low_pc, gimli::DwAt(0)].map(|at| at.0 as u8);
        let constant = gimli::DW_FORM_implicit_const.0 as u8;
        // A value may look like the attribute; two tables, and padding between them.
        let tables =
            [1, 0x11, 1, name, 8, lines, 0x17, low, constant, lines, end, 0, 0, 0, 1, 0x11, 0, lines, 0x17, end, 0, 0];
        let mut wanted = tables;
        (wanted[5], wanted[17]) = (UNUSED_ATTRIBUTE, UNUSED_ATTRIBUTE);
        assert_eq!(without_lines(&tables), (wanted.to_vec(), false));
        // A function that refers to where it was inlined from by an offset into the section: that may be in any unit.
        let elsewhere = [1, 0x2e, 0, gimli::DW_AT_abstract_origin.0 as u8, gimli::DW_FORM_ref_addr.0 as u8, 0, 0, 0];
        assert!(without_lines(&elsewhere).1);
        assert!(without_lines(&tables[..9]).1, "what cannot be read to its end may hold anything");
        for len in 0..tables.len() {
            assert_eq!(without_lines(&tables[..len]).0.len(), len, "one that is cut short is no harm");
        }
    }
}
