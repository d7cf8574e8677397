//! The names of functions in ELF files.
//!
//! There are several sources, and what is wrong with one of them costs nothing of the others: symbol tables of the file itself, with the
//! entries of its linkage table ([`symtab`], [`plt`]), its `.gnu_debugdata` and `.gopclntab`, and the debug information of the file
//! or of one that belongs to it ([`dwarf`], [`debug_files`]). They are asked in this order, and what the first ones know is said before the
//! others are asked: the process in which this runs may end there.
//!
//! The parsers are gimli's; addr2line finds functions by address. Neither opens a file: [`debug_files`] does.

mod data;
mod debug_files;
mod demangle;
mod dwarf;
mod golang;
mod plt;
mod symtab;
#[cfg(test)]
mod tests;
mod units;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::{Object, ObjectSection};
use pagelab_vocab::units::hexadecimal;

use super::hostile::guarded;
use super::namer::{Answer, Function};
use super::roots::Root;
use data::{Data, Source};
pub(super) use demangle::demangle;
use dwarf::{Kept, Sections};
use symtab::{Functions, Tables};

/// Addresses of a file that are asked for.
pub(super) struct Request<'a> {
    /// The file, and whether only those can have written it who can do anything to the recorder anyway.
    pub file: &'a File,
    pub is_trusted: bool,
    /// Its path, as its process sees it.
    pub path: &'a [u8],
    /// The root of a process that has it mapped, and the recorder's own.
    pub own: Option<&'a Root>,
    pub host: Option<&'a Root>,
    /// As the file has them; none outside of every segment.
    pub addrs: &'a [Option<u64>],
}

/// Looks up the functions of a file; `say` is called whenever more of them are known.
pub(super) fn look_up(request: &Request<'_>, say: &mut dyn FnMut(&Answer)) {
    let source = match Source::of(request.file, request.is_trusted) {
        Ok(source) => source,
        Err(error) => {
            let lacks = vec![format!("it cannot be read: {error}")];
            return say(&Answer { functions: vec![Vec::new(); request.addrs.len()], lacks });
        }
    };
    let data = source.data();
    let mut known = Known::of(request.addrs);
    known.tables = guarded("a symbol table", || symtab::scan(data, &mut known.functions)).unwrap_or_default();
    say(&known.answer(request.addrs, data));
    if !known.functions.unnamed().is_empty() {
        known.attempt("the small symbol table", |known| known.add_debugdata(data));
        known.attempt("the table of a Go program", |known| known.add_golang(data));
    }
    known.attempt("debug information", |known| known.add_debug_information(request, data));
    say(&known.answer(request.addrs, data));
}

/// What is known of the addresses.
struct Known {
    functions: Functions,
    tables: Tables,
    /// By debug information: innermost first, the last one is not inlined.
    inlined: HashMap<u64, Vec<Option<String>>>,
    /// Names by Go's own table.
    golang: HashMap<u64, Vec<u8>>,
    /// Names for people, by those for the linker: a function has many addresses, and is asked for again with each answer.
    shown: RefCell<HashMap<Vec<u8>, String>>,
    addrs: Vec<u64>,
    /// Why there may be none.
    lacks: Vec<String>,
    has_more: bool,
}

impl Known {
    fn of(addrs: &[Option<u64>]) -> Self {
        let mut sorted: Vec<u64> = addrs.iter().copied().flatten().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self {
            functions: Functions::of(sorted.iter().copied()),
            tables: Tables::default(),
            inlined: HashMap::new(),
            golang: HashMap::new(),
            shown: RefCell::default(),
            addrs: sorted,
            lacks: Vec::new(),
            has_more: false,
        }
    }

    /// Asks one source; what it says is wrong, or that its parser failed, is a reason for names that are missing.
    fn attempt(&mut self, what: &str, work: impl FnOnce(&mut Self) -> Result<(), String>) {
        match guarded(what, || work(self)) {
            Some(Ok(())) => {}
            Some(Err(reason)) => self.lacks.push(reason),
            None => self.lacks.push(format!("{what} made its parser fail")),
        }
    }

    /// Symbols that distributions leave in stripped files.
    fn add_debugdata(&mut self, data: Data<'_>) -> Result<(), String> {
        let Some(packed) = section(data, ".gnu_debugdata") else { return Ok(()) };
        let bytes = data::unxz(packed).map_err(|reason| format!(".gnu_debugdata {reason}"))?;
        let tables = symtab::scan(Data::Slice(&bytes), &mut self.functions);
        self.has_more |= tables.symbols > 0;
        match tables.broken.first() {
            Some(reason) => Err(format!(".gnu_debugdata: {reason}")),
            None => Ok(()),
        }
    }

    fn add_golang(&mut self, data: Data<'_>) -> Result<(), String> {
        let Some(names) = golang::names(data, &self.functions.unnamed()) else { return Ok(()) };
        self.golang = names?;
        self.has_more |= !self.golang.is_empty();
        Ok(())
    }

    fn add_debug_information(&mut self, request: &Request<'_>, data: Data<'_>) -> Result<(), String> {
        let path = Path::new(OsStr::from_bytes(request.path));
        let places = debug_files::Places { own: request.own, host: request.host, path };
        let Ok(program) = dwarf::File::parse(data) else { return Ok(()) };
        if dwarf::is_in(&program) {
            return self.add_dwarf(&places, data, path, false);
        }
        match places.debug_file(request.file, data) {
            Ok(found) => {
                let tables = symtab::scan(found.source.data(), &mut self.functions);
                self.has_more |= tables.symbols > 0;
                self.add_dwarf(&places, found.source.data(), &found.path, found.in_host)
            }
            Err(reason) if self.tables.symbols == 0 => Err(reason),
            Err(_) => Ok(()),
        }
    }

    /// Functions by the debug information of a file, which lies at `path`.
    fn add_dwarf(
        &mut self,
        places: &debug_files::Places<'_>,
        data: Data<'_>,
        path: &Path,
        in_host: bool,
    ) -> Result<(), String> {
        let common = places.common_file(data, path, in_host);
        let (sources, kept) = (Kept::default(), Kept::default());
        let sections = Sections::new(&kept, &self.addrs);
        let file = dwarf::File::parse(data).map_err(|error| error.to_string())?;
        if !dwarf::is_in(&file) {
            return Ok(());
        }
        let common = common.as_ref().and_then(|found| dwarf::File::parse(found.source.data()).ok());
        let others = SplitFiles { places, sources: &sources };
        let inlined = &mut self.inlined;
        let done = dwarf::functions(&file, common.as_ref(), &others, &sections, &self.addrs, |addr, names| {
            inlined.insert(addr, names);
        });
        self.has_more |= !self.inlined.is_empty();
        self.lacks.extend(sections.broken());
        done
    }

    /// The functions of an address, innermost first.
    fn functions_at(&self, addr: u64) -> Vec<Function> {
        let symbol = self.functions.name(addr).or_else(|| self.golang.get(&addr).map(Vec::as_slice));
        let Some((last, inner)) = self.inlined.get(&addr).and_then(|names| names.split_last()) else {
            return symbol.map(|name| Function { name: self.shown(name), inlined: false }).into_iter().collect();
        };
        let inner = inner.iter().flatten().map(|name| Function { name: self.shown(name.as_bytes()), inlined: true });
        let mut functions: Vec<Function> = inner.collect();
        let name = match (last.as_deref(), symbol) {
            // Compilers add to the names of symbols: `.constprop.0`, `.cold`.
            (Some(name), Some(symbol)) if !is_of(symbol, name) => Some(self.shown(symbol)),
            (None, Some(symbol)) => Some(self.shown(symbol)),
            (name, _) => name.map(|name| self.shown(name.as_bytes())),
        };
        functions.extend(name.map(|name| Function { name, inlined: false }));
        if let Some(last) = functions.last_mut() {
            last.inlined = false;
        }
        functions
    }

    /// [`shown`], made once for each name.
    fn shown(&self, name: &[u8]) -> String {
        let mut all = self.shown.borrow_mut();
        if let Some(shown) = all.get(name) {
            return shown.clone();
        }
        let shown = shown(name);
        all.insert(name.to_vec(), shown.clone());
        shown
    }

    fn answer(&self, addrs: &[Option<u64>], data: Data<'_>) -> Answer {
        let functions: Vec<_> =
            addrs.iter().map(|addr| addr.map_or_else(Vec::new, |addr| self.functions_at(addr))).collect();
        let is_whole = functions.iter().all(|functions| !functions.is_empty());
        Answer { functions, lacks: if is_whole { Vec::new() } else { self.reasons(data) } }
    }

    /// Why functions have no name.
    fn reasons(&self, data: Data<'_>) -> Vec<String> {
        let mut reasons = self.tables.broken.clone();
        let Tables { symbols, exported, .. } = self.tables;
        if symbols == 0 && reasons.is_empty() {
            let exports = if exported > 0 { format!(" but for {exported} exported ones") } else { String::new() };
            reasons.push(format!("stripped: it has no symbols{exports}"));
        }
        reasons.extend(self.lacks.iter().cloned());
        if symbols > 0 || self.has_more {
            let id = debug_files::build_id_of(data)
                .map_or_else(String::new, |id| format!(" (build id {})", hexadecimal(&id)));
            reasons.push(format!("its symbols name no function there{id}"));
        }
        reasons
    }
}

/// Whether a symbol is that of a function with this name, or of a part or variant of it.
fn is_of(symbol: &[u8], name: &str) -> bool {
    symbol.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// A name of a symbol table for people.
fn shown(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    match name.strip_suffix("@plt") {
        Some(name) => format!("{}@plt", demangle(name)),
        None => demangle(&name),
    }
}

/// The bytes of a section; none if there is no such section, or it cannot be read.
fn section<'d>(data: Data<'d>, name: &str) -> Option<&'d [u8]> {
    let file = dwarf::File::parse(data).ok()?;
    file.section_by_name(name)?.data().ok().filter(|bytes| !bytes.is_empty())
}

/// Files of split DWARF, which live as long as what is read of them.
struct SplitFiles<'p, 'a> {
    places: &'p debug_files::Places<'p>,
    sources: &'a Kept<Source>,
}

impl<'a> SplitFiles<'_, 'a> {
    fn open(&self, path: &Path) -> Option<dwarf::File<'a>> {
        let source = self.sources.keep(self.places.split(path)?);
        dwarf::File::parse(source.data()).ok()
    }
}

impl<'a> dwarf::Others<'a> for SplitFiles<'_, 'a> {
    fn package(&self) -> Option<dwarf::File<'a>> {
        self.places.packages().iter().find_map(|path| self.open(path))
    }

    fn object(&self, dir: &[u8], path: &[u8]) -> Option<dwarf::File<'a>> {
        self.open(&Path::new(OsStr::from_bytes(dir)).join(OsStr::from_bytes(path)))
    }
}
