//! The names of frames, looked up at the end.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{self, Source};
use blazesym::symbolize::{Input, Symbolizer};
use object::{Object, ObjectSymbol};
use pagelab_vocab::budget::AnchorsFound;

use super::budget::Budget;
use super::frame::Frame;
use super::hostile::Origin;
use super::kallsyms::Functions as KernelFunctions;
use super::kernel::Kernel;
use super::modules::{Module, Modules};
use super::namer::{self, Answer, Function, Named};
use super::names::{self, demangle};
use super::roots::Root;
use super::{KERNEL, Key};

/// Addresses of the kernel that are looked up at a time.
const BATCH: usize = 4096;
/// Reasons that are kept for one module.
const REASONS_MAX: usize = 4;

/// The frames of one ELF file, to be named.
struct Wanted {
    module: u32,
    keys: Vec<Key>,
    ids: Vec<u64>,
    /// Addresses as the file has them; none outside of every segment.
    addrs: Vec<Option<u64>>,
    bare: Vec<Frame>,
}

impl Wanted {
    fn path(&self) -> &[u8] {
        self.bare.first().and_then(|frame| frame.module.as_deref()).unwrap_or_default()
    }
}

/// A file to look up names in.
struct Opened {
    file: File,
    origin: Origin,
    root: Option<Arc<Root>>,
    wanted: Wanted,
}

/// Why frames of a module have no name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lack {
    /// Frames without a name.
    pub frames: usize,
    /// The reasons, in words; a few of them if there are many.
    pub reasons: Vec<String>,
}

/// Modules with frames that have no name: path and build id.
pub type Lacks = BTreeMap<(Vec<u8>, Option<String>), Lack>;

/// What was looked up at the end.
pub struct Names {
    /// What each frame became, innermost function first, by its id while recording.
    pub frames: HashMap<u64, Vec<Frame>>,
    /// The anchors that the kernel has; none if its functions cannot be read.
    pub anchors: Option<AnchorsFound>,
    /// What has no name, and why.
    pub lacks: Lacks,
    /// Files in which looking up names did not end by itself, each with the reason.
    pub unnamed: Vec<(String, &'static str)>,
}

/// The names as they are found.
#[derive(Default)]
struct Found {
    frames: HashMap<u64, Vec<Frame>>,
    lacks: Lacks,
}

impl Found {
    /// Adds a frame and the functions that it is in.
    fn add(&mut self, id: u64, bare: &Frame, functions: Vec<Function>, reasons: &[String]) {
        if functions.is_empty() {
            return self.lack(id, bare.clone(), reasons);
        }
        let frame = |Function { name, inlined }| Frame { symbol: Some(name), inlined, ..bare.clone() };
        self.frames.insert(id, functions.into_iter().map(frame).collect());
    }

    /// Adds a frame that has no name.
    fn lack(&mut self, id: u64, bare: Frame, reasons: &[String]) {
        let module = bare.module.clone().unwrap_or_default();
        let lack = self.lacks.entry((module, bare.build_id.clone())).or_default();
        lack.frames += 1;
        for reason in reasons {
            if lack.reasons.len() < REASONS_MAX && !lack.reasons.contains(reason) {
                lack.reasons.push(reason.clone());
            }
        }
        self.frames.insert(id, vec![bare]);
    }
}

pub(super) fn name_all(
    modules: &mut Modules,
    kernel: &Kernel,
    frames: &HashMap<Key, u64>,
    by_runtime: &HashMap<Key, (u32, u64)>,
    hurry: &dyn Fn() -> bool,
) -> Names {
    let mut by_module: HashMap<u32, Vec<(Key, u64)>> = HashMap::new();
    for (key, id) in frames {
        by_module.entry(key.module).or_default().push((*key, *id));
    }
    let mut found = Found { frames: HashMap::with_capacity(frames.len()), ..Found::default() };
    let mut in_files = Vec::new();
    let in_kernel = by_module.remove(&KERNEL).unwrap_or_default();
    // Without a frame nobody asks for the anchors, and the list takes the kernel some 40 ms.
    let anchors = if frames.is_empty() { None } else { name_kernel(kernel, &in_kernel, &mut found) };
    for (module, keys) in by_module {
        match modules.get_mut(module) {
            Some(Module::Elf(_)) => in_files.push(wanted(modules, module, &keys)),
            Some(Module::Jit(_)) => name_jit(modules, module, &keys, &mut found),
            None => {}
        }
    }
    let by_runtime = |modules: &mut Modules, key: &Key| -> Option<String> {
        let (runtime, addr) = by_runtime.get(key)?;
        match modules.get_mut(*runtime) {
            Some(Module::Jit(jit)) => {
                jit.finish();
                jit.name(*addr).map(str::to_owned)
            }
            _ => None,
        }
    };
    let unnamed = name_files(modules, in_files, by_runtime, &mut found, hurry);
    Names { frames: found.frames, anchors, lacks: found.lacks, unnamed }
}

/// Names code that a process has made.
fn name_jit(modules: &mut Modules, module: u32, keys: &[(Key, u64)], found: &mut Found) {
    let Some(Module::Jit(jit)) = modules.get_mut(module) else { return };
    jit.finish();
    let reasons = [jit.lack()];
    // Later versions have had their names all along.
    let first = keys.iter().filter(|(key, _)| key.version == 0);
    let of_address = |(key, id): &(Key, u64)| (*id, jit.name(key.offset).map(str::to_owned), jit.place(key.offset));
    let all: Vec<_> = first.map(of_address).collect();
    for (id, symbol, place) in all {
        if symbol.is_some() {
            found.frames.insert(id, vec![Frame { symbol, module: Some(b"[jit]".to_vec()), ..Frame::default() }]);
            continue;
        }
        let place = place.and_then(|(file, offset)| Some((modules.path(file)?.to_vec(), offset)));
        let (path, module_offset) = place.map_or_else(|| (b"[anon]".to_vec(), None), |(path, at)| (path, Some(at)));
        found.lack(id, Frame { module: Some(path), module_offset, ..Frame::default() }, &reasons);
    }
}

fn wanted(modules: &mut Modules, module: u32, keys: &[(Key, u64)]) -> Wanted {
    // The address that the file gives to each offset is what symbols are looked up by.
    let image = modules.image(module);
    let build_id = image.and_then(|image| image.build_id.clone());
    let addrs = match image {
        Some(image) => keys.iter().map(|(key, _)| image.address(key.offset)).collect(),
        None => vec![None; keys.len()],
    };
    let path = modules.path(module).map(<[u8]>::to_vec);
    let bare = |offset| Frame {
        module: path.clone(),
        build_id: build_id.clone(),
        module_offset: Some(offset),
        ..Frame::default()
    };
    let bare = keys.iter().map(|(key, _)| bare(key.offset)).collect();
    let (keys, ids) = keys.iter().copied().unzip();
    Wanted { module, keys, ids, addrs, bare }
}

/// Names the frames of ELF files, each by itself, so that one that cannot be read takes no other along.
fn name_files(
    modules: &mut Modules,
    in_files: Vec<Wanted>,
    by_runtime: impl Fn(&mut Modules, &Key) -> Option<String>,
    found: &mut Found,
    hurry: &dyn Fn() -> bool,
) -> Vec<(String, &'static str)> {
    let is_full = modules.is_full();
    let (mut opened, mut answers) = (Vec::new(), Vec::new());
    for wanted in in_files {
        let Some(Module::Elf(elf)) = modules.get_mut(wanted.module) else { continue };
        match (&elf.bytes, elf.file.as_ref().map(File::try_clone)) {
            (Some(bytes), _) => answers.push((name_image(bytes, &wanted.addrs), wanted)),
            (None, Some(Ok(file))) => {
                opened.push(Opened { file, origin: elf.origin, root: elf.root.clone(), wanted });
            }
            (None, _) => {
                let reason = if is_full {
                    "budget: too many files are open"
                } else {
                    "it could not be opened while it was mapped"
                };
                answers.push((Answer { functions: Vec::new(), lacks: vec![reason.to_owned()] }, wanted));
            }
        }
    }
    let unnamed = name_opened(opened, hurry, &mut answers);
    for (Answer { functions, lacks }, wanted) in answers {
        let mut functions = functions.into_iter();
        for ((key, id), bare) in wanted.keys.iter().zip(&wanted.ids).zip(&wanted.bare) {
            let mut of_frame = functions.next().unwrap_or_default();
            if of_frame.is_empty() {
                of_frame.extend(by_runtime(modules, key).map(|name| Function { name, inlined: false }));
            }
            found.add(*id, bare, of_frame, &lacks);
        }
    }
    unnamed
}

/// Looks names up in files, and adds what came of it. Gives the files of which that did not end by itself.
fn name_opened(
    mut opened: Vec<Opened>,
    hurry: &dyn Fn() -> bool,
    answers: &mut Vec<(Answer, Wanted)>,
) -> Vec<(String, &'static str)> {
    // If the time does not suffice, it is the large ones that it did not suffice for.
    let bytes = |file: &File| file.metadata().map_or(u64::MAX, |meta| meta.len());
    opened.sort_by_cached_key(|opened| (opened.origin != Origin::Trusted, bytes(&opened.file)));
    let origins: Vec<Origin> = opened.iter().map(|opened| opened.origin).collect();
    let host = Root::at(Path::new("/"));
    let named = namer::name_files(&origins, &mut Budget::new(hurry), |number, say| {
        let Some(Opened { file, origin, root, wanted }) = opened.get(number) else { return };
        let request = names::Request {
            file,
            is_trusted: *origin == Origin::Trusted,
            path: wanted.path(),
            own: root.as_deref(),
            host: host.as_ref(),
            addrs: &wanted.addrs,
        };
        names::look_up(&request, say);
    });
    let mut unnamed = Vec::new();
    for (Named { answer, ended }, Opened { wanted, .. }) in named.into_iter().zip(opened) {
        let mut answer = answer.filter(|answer| answer.functions.len() == wanted.ids.len()).unwrap_or_default();
        if let Some(reason) = ended {
            let path = String::from_utf8_lossy(wanted.path()).escape_debug().to_string();
            tracing::warn!("names of {path} are incomplete: {reason}");
            unnamed.push((path, reason));
            answer.lacks.push(reason.to_owned());
        }
        answers.push((answer, wanted));
    }
    unnamed
}

/// Names the frames of the kernel, and looks for its anchors.
fn name_kernel(kernel: &Kernel, keys: &[(Key, u64)], found: &mut Found) -> Option<AnchorsFound> {
    let addrs: Vec<u64> = keys.iter().map(|(key, _)| key.offset).collect();
    let hidden = ["/proc/kallsyms hides it; needed: sysctl kernel.kptr_restrict=1 as root".to_owned()];
    let functions = match KernelFunctions::find(Path::new("/"), &addrs) {
        Ok(functions) => functions,
        Err(error) => {
            tracing::warn!("the kernel's functions cannot be read of /proc/kallsyms: {error}");
            let reason = [format!("/proc/kallsyms cannot be read: {error}")];
            for (key, id) in keys {
                found.lack(*id, kernel.frame(key.offset), &reason);
            }
            return None;
        }
    };
    // What its compilers have made of names is undone as everywhere else.
    let symbolizer =
        Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).enable_demangling(false).build();
    let kallsyms = MaybeDefault::Some(functions.path());
    let source = Source::Kernel(source::Kernel { kallsyms, debug_syms: false, ..source::Kernel::default() });
    for (keys, addrs) in keys.chunks(BATCH).zip(addrs.chunks(BATCH)) {
        let names = match symbolizer.symbolize(&source, Input::AbsAddr(addrs)) {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(
                    "symbols of the kernel cannot be had: {error:#}; try: sysctl kernel.kptr_restrict=1 as root"
                );
                for (key, id) in keys {
                    found.lack(*id, kernel.frame(key.offset), &hidden);
                }
                continue;
            }
        };
        for ((key, id), symbol) in keys.iter().zip(names) {
            let name = symbol.as_sym().map(|symbol| demangle(&symbol.name)).filter(|name| !name.is_empty());
            let functions = name.map(|name| Function { name, inlined: false }).into_iter().collect();
            found.add(*id, &kernel.frame(key.offset), functions, &hidden);
        }
    }
    Some(functions.anchors)
}

/// Names from the symbol table of an image in memory.
fn name_image(bytes: &[u8], addrs: &[Option<u64>]) -> Answer {
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
        holding.first().map(|(_, _, name)| Function { name: name.clone(), inlined: false })
    };
    let functions = addrs.iter().map(|addr| addr.and_then(name).into_iter().collect()).collect();
    Answer { functions, lacks: vec!["its symbols name no function there".to_owned()] }
}
