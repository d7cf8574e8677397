//! The names of frames, looked up at the end.

use std::collections::HashMap;
use std::os::fd::AsRawFd;

use blazesym::symbolize::source::{self, Source};
use blazesym::symbolize::{Input, Sym, Symbolizer};
use object::{Object, ObjectSymbol};

use super::frame::Frame;
use super::kernel::Kernel;
use super::modules::{Elf, Module, Modules};
use super::{KERNEL, Key};

/// Addresses that are looked up at a time.
const BATCH: usize = 4096;

/// What became of each frame, by its id while recording.
pub(super) fn name_all(modules: &mut Modules, kernel: &Kernel, frames: &HashMap<Key, u64>) -> HashMap<u64, Vec<Frame>> {
    let mut by_module: HashMap<u32, Vec<(Key, u64)>> = HashMap::new();
    for (key, id) in frames {
        by_module.entry(key.module).or_default().push((*key, *id));
    }
    let mut named = HashMap::with_capacity(frames.len());
    for (module, keys) in by_module {
        let keys: Vec<(Key, u64)> = keys;
        if module == KERNEL {
            name_kernel(kernel, &keys, &mut named);
            continue;
        }
        // The address that the file gives to each offset is what symbols are looked up by.
        let image = modules.image(module);
        let build_id = image.and_then(|image| image.build_id.clone());
        let addrs: Vec<Option<u64>> = match image {
            Some(image) => keys.iter().map(|(key, _)| image.address(key.offset)).collect(),
            None => vec![None; keys.len()],
        };
        match modules.get_mut(module) {
            Some(Module::Elf(elf)) => {
                let bare = |offset| Frame {
                    module: Some(elf.path.clone()),
                    build_id: build_id.clone(),
                    module_offset: Some(offset),
                    ..Frame::default()
                };
                let bare: Vec<Frame> = keys.iter().map(|(key, _)| bare(key.offset)).collect();
                let found = name_elf(elf, &addrs, &bare);
                named.extend(keys.iter().map(|(_, id)| *id).zip(found));
            }
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
    named
}

fn symbolizer() -> Symbolizer {
    Symbolizer::builder().enable_code_info(true).enable_inlined_fns(true).enable_demangling(true).build()
}

fn name_kernel(kernel: &Kernel, keys: &[(Key, u64)], named: &mut HashMap<u64, Vec<Frame>>) {
    let symbolizer = symbolizer();
    let source = Source::Kernel(source::Kernel { debug_syms: false, ..source::Kernel::default() });
    for keys in keys.chunks(BATCH) {
        let addrs: Vec<u64> = keys.iter().map(|(key, _)| key.offset).collect();
        let found = match symbolizer.symbolize(&source, Input::AbsAddr(&addrs)) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(
                    "symbols of the kernel cannot be had: {error:#}; try: sysctl kernel.kptr_restrict=1 as root"
                );
                return;
            }
        };
        for ((key, id), symbol) in keys.iter().zip(found) {
            named.insert(*id, frames_of(symbol.as_sym(), &kernel.frame(key.offset)));
        }
    }
}

fn name_elf(elf: &Elf, addrs: &[Option<u64>], bare: &[Frame]) -> Vec<Vec<Frame>> {
    if let Some(bytes) = &elf.bytes {
        return name_image(bytes, addrs, bare);
    }
    let unnamed = || bare.iter().map(|frame| vec![frame.clone()]).collect();
    let Some(file) = &elf.file else { return unnamed() };
    // By its descriptor: the file may have been deleted, or lie in another mount namespace.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let source = Source::Elf(source::Elf::new(path));
    let symbolizer = symbolizer();
    let mut named = Vec::with_capacity(bare.len());
    for (addrs, bare) in addrs.chunks(BATCH).zip(bare.chunks(BATCH)) {
        // An offset outside of every segment has no address; 0 is no code's.
        let input: Vec<u64> = addrs.iter().map(|addr| addr.unwrap_or(0)).collect();
        match symbolizer.symbolize(&source, Input::VirtOffset(&input)) {
            Ok(found) => named.extend(found.iter().zip(bare).map(|(symbol, bare)| frames_of(symbol.as_sym(), bare))),
            Err(error) => {
                tracing::warn!("symbols of {} cannot be had: {error:#}", String::from_utf8_lossy(&elf.path));
                return unnamed();
            }
        }
    }
    named
}

/// The frame with its symbol, behind the functions that were inlined there, innermost first.
fn frames_of(symbol: Option<&Sym<'_>>, bare: &Frame) -> Vec<Frame> {
    let Some(symbol) = symbol else { return vec![bare.clone()] };
    let inlined = symbol.inlined.iter().rev().map(|function| Frame {
        symbol: Some(function.name.to_string()),
        inlined: true,
        ..bare.clone()
    });
    let mut frames: Vec<Frame> = inlined.collect();
    frames.push(Frame { symbol: Some(symbol.name.to_string()), ..bare.clone() });
    frames
}

/// Names from the symbol table of an image in memory.
fn name_image(bytes: &[u8], addrs: &[Option<u64>], bare: &[Frame]) -> Vec<Vec<Frame>> {
    let mut symbols: Vec<(u64, u64, String)> = Vec::new();
    if let Ok(file) = object::File::parse(bytes) {
        let named = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| symbol.size() > 0);
        symbols.extend(named.filter_map(|s| Some((s.address(), s.address() + s.size(), s.name().ok()?.to_owned()))));
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
