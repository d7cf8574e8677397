//! The names of frames, looked up at the end.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{self, Source};
use blazesym::symbolize::{Input, Sym, Symbolizer};
use object::{Object, ObjectSymbol, ReadCache};
use pagelab_vocab::budget::AnchorsFound;

use super::frame::Frame;
use super::hostile;
use super::kallsyms::Functions as KernelFunctions;
use super::kernel::Kernel;
use super::modules::{Module, Modules};
use super::namer::{self, Function, Functions};
use super::{KERNEL, Key};

/// Addresses that are looked up at a time.
const BATCH: usize = 4096;

/// The frames of one ELF file, to be named.
struct Wanted {
    module: u32,
    ids: Vec<u64>,
    /// Addresses as the file has them; none outside of every segment.
    addrs: Vec<Option<u64>>,
    bare: Vec<Frame>,
}

/// What was looked up at the end.
pub struct Names {
    /// What each frame became, innermost function first, by its id while recording.
    pub frames: HashMap<u64, Vec<Frame>>,
    /// The anchors that the kernel has; none if its functions cannot be read.
    pub anchors: Option<AnchorsFound>,
}

pub(super) fn name_all(modules: &mut Modules, kernel: &Kernel, frames: &HashMap<Key, u64>) -> Names {
    let mut by_module: HashMap<u32, Vec<(Key, u64)>> = HashMap::new();
    for (key, id) in frames {
        by_module.entry(key.module).or_default().push((*key, *id));
    }
    let mut named = HashMap::with_capacity(frames.len());
    let mut in_files = Vec::new();
    let in_kernel = by_module.remove(&KERNEL).unwrap_or_default();
    // Without a frame nobody asks for the anchors, and the list takes the kernel some 40 ms.
    let anchors = if frames.is_empty() { None } else { name_kernel(kernel, &in_kernel, &mut named) };
    for (module, keys) in by_module {
        modules.jit_budget().renew();
        match modules.get_mut(module) {
            Some(Module::Elf(_)) => in_files.push(wanted(modules, module, &keys)),
            Some(Module::Jit(jit)) => {
                jit.refresh();
                for (key, id) in keys.iter().filter(|(key, _)| key.version == 0) {
                    let symbol = jit.name(key.offset).map(str::to_owned);
                    let module = if symbol.is_some() { "[jit]" } else { "[anon]" };
                    named.insert(*id, vec![Frame { symbol, module: Some(module.into()), ..Frame::default() }]);
                }
            }
            None => {}
        }
    }
    name_files(modules, in_files, &mut named);
    Names { frames: named, anchors }
}

fn wanted(modules: &mut Modules, module: u32, keys: &[(Key, u64)]) -> Wanted {
    // The address that the file gives to each offset is what symbols are looked up by.
    let image = modules.image(module);
    let build_id = image.and_then(|image| image.build_id.clone());
    let addrs = match image {
        Some(image) => keys.iter().map(|(key, _)| image.address(key.offset)).collect(),
        None => vec![None; keys.len()],
    };
    let path = match modules.get_mut(module) {
        Some(Module::Elf(elf)) => Some(elf.path.clone()),
        _ => None,
    };
    let bare = |offset| Frame {
        module: path.clone(),
        build_id: build_id.clone(),
        module_offset: Some(offset),
        ..Frame::default()
    };
    let bare = keys.iter().map(|(key, _)| bare(key.offset)).collect();
    Wanted { module, ids: keys.iter().map(|(_, id)| *id).collect(), addrs, bare }
}

/// Names the frames of ELF files, each by itself, so that one that cannot be read takes no other along.
fn name_files(modules: &mut Modules, in_files: Vec<Wanted>, named: &mut HashMap<u64, Vec<Frame>>) {
    let mut with_file = Vec::new();
    for wanted in in_files {
        let Some(Module::Elf(elf)) = modules.get_mut(wanted.module) else { continue };
        match (&elf.bytes, elf.file.as_ref().map(File::try_clone)) {
            (Some(bytes), _) => {
                let found = name_image(bytes, &wanted.addrs, &wanted.bare);
                named.extend(wanted.ids.iter().copied().zip(found));
            }
            (None, Some(Ok(file))) => with_file.push((file, wanted)),
            (None, _) => add_bare(&wanted, named),
        }
    }
    let found = namer::name_files(with_file.len(), |number| {
        let (file, wanted) = with_file.get(number)?;
        name_elf(file, &wanted.addrs)
    });
    for ((_, wanted), found) in with_file.iter().zip(found) {
        let Some(found) = found.filter(|found| found.len() == wanted.ids.len()) else {
            let path = wanted.bare.first().and_then(|frame| frame.module.as_deref()).unwrap_or_default();
            tracing::warn!("no symbols can be read of {}", String::from_utf8_lossy(path).escape_debug());
            add_bare(wanted, named);
            continue;
        };
        for ((id, bare), functions) in wanted.ids.iter().zip(&wanted.bare).zip(found) {
            named.insert(*id, frames_of(functions, bare));
        }
    }
}

fn add_bare(wanted: &Wanted, named: &mut HashMap<u64, Vec<Frame>>) {
    named.extend(wanted.ids.iter().zip(&wanted.bare).map(|(id, bare)| (*id, vec![bare.clone()])));
}

fn symbolizer() -> Symbolizer {
    Symbolizer::builder().enable_code_info(true).enable_inlined_fns(true).enable_demangling(true).build()
}

/// Names the frames of the kernel, and looks for its anchors.
fn name_kernel(kernel: &Kernel, keys: &[(Key, u64)], named: &mut HashMap<u64, Vec<Frame>>) -> Option<AnchorsFound> {
    let addrs: Vec<u64> = keys.iter().map(|(key, _)| key.offset).collect();
    let functions = match KernelFunctions::find(Path::new("/"), &addrs) {
        Ok(functions) => functions,
        Err(error) => {
            tracing::warn!("the kernel's functions cannot be read of /proc/kallsyms: {error}");
            return None;
        }
    };
    let symbolizer = symbolizer();
    let kallsyms = MaybeDefault::Some(functions.path());
    let source = Source::Kernel(source::Kernel { kallsyms, debug_syms: false, ..source::Kernel::default() });
    for (keys, addrs) in keys.chunks(BATCH).zip(addrs.chunks(BATCH)) {
        let found = match symbolizer.symbolize(&source, Input::AbsAddr(addrs)) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(
                    "symbols of the kernel cannot be had: {error:#}; try: sysctl kernel.kptr_restrict=1 as root"
                );
                break;
            }
        };
        for ((key, id), symbol) in keys.iter().zip(found) {
            named.insert(*id, frames_of(functions_of(symbol.as_sym()), &kernel.frame(key.offset)));
        }
    }
    Some(functions.anchors)
}

/// The functions of addresses in a file; none if nothing can be looked up in it. Runs in a process of its own.
fn name_elf(file: &File, addrs: &[Option<u64>]) -> Option<Functions> {
    // Whoever can change a file may do so between two looks at it, and name any other as the one that has its symbols.
    let is_trusted = hostile::is_trusted(file);
    let copy = if is_trusted { None } else { Some(namer::copy_of(file)?) };
    let file = copy.as_ref().unwrap_or(file);
    let debug_syms = is_trusted || !has_links(file);
    // By its descriptor: the file may have been deleted, or lie in another mount namespace.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let source = Source::Elf(source::Elf { debug_syms, ..source::Elf::new(path) });
    let symbolizer = symbolizer();
    let mut named = Vec::with_capacity(addrs.len());
    for addrs in addrs.chunks(BATCH) {
        // An offset outside of every segment has no address; 0 is no code's.
        let input: Vec<u64> = addrs.iter().map(|addr| addr.unwrap_or(0)).collect();
        let found = symbolizer.symbolize(&source, Input::VirtOffset(&input)).ok()?;
        named.extend(found.iter().map(|symbol| functions_of(symbol.as_sym())));
    }
    Some(named)
}

/// Whether a file says that its debug information is in another.
fn has_links(file: &File) -> bool {
    const LINKS: [&str; 3] = [".gnu_debuglink", ".gnu_debugaltlink", ".debug_sup"];
    let Ok(file) = file.try_clone() else { return true };
    let cache = ReadCache::new(file);
    match object::File::parse(&cache) {
        Ok(file) => LINKS.iter().any(|name| file.section_by_name(name).is_some()),
        Err(_) => true,
    }
}

/// The function of a symbol, behind those that were inlined there, innermost first.
fn functions_of(symbol: Option<&Sym<'_>>) -> Vec<Function> {
    let Some(symbol) = symbol else { return Vec::new() };
    let inlined = symbol.inlined.iter().rev();
    let mut functions: Vec<Function> =
        inlined.map(|function| Function { name: function.name.to_string(), inlined: true }).collect();
    functions.push(Function { name: symbol.name.to_string(), inlined: false });
    functions
}

/// The frame once for each function; as it is, if it is in none.
fn frames_of(functions: Vec<Function>, bare: &Frame) -> Vec<Frame> {
    if functions.is_empty() {
        return vec![bare.clone()];
    }
    let frame = |Function { name, inlined }| Frame { symbol: Some(name), inlined, ..bare.clone() };
    functions.into_iter().map(frame).collect()
}

/// Names from the symbol table of an image in memory.
fn name_image(bytes: &[u8], addrs: &[Option<u64>], bare: &[Frame]) -> Vec<Vec<Frame>> {
    let mut symbols: Vec<(u64, u64, String)> = Vec::new();
    if let Ok(file) = object::File::parse(bytes) {
        let named = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| symbol.size() > 0);
        symbols.extend(
            named.filter_map(|s| Some((s.address(), s.address().checked_add(s.size())?, s.name().ok()?.to_owned()))),
        );
    }
    let name = |addr: u64| {
        let mut holding: Vec<&(u64, u64, String)> =
            symbols.iter().filter(|(start, end, _)| (*start..*end).contains(&addr)).collect();
        // Aliases are common; the strong names of the vDSO begin with underscores, as in the kernel's sources.
        holding.sort_by_key(|(start, _, name)| (std::cmp::Reverse(*start), !name.starts_with("__"), name.clone()));
        holding.first().map(|(_, _, name)| name.clone())
    };
    let each = addrs.iter().zip(bare);
    each.map(|(addr, bare)| vec![Frame { symbol: addr.and_then(name), ..bare.clone() }]).collect()
}
