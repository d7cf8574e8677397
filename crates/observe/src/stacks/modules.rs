//! The files that code is mapped from: opened while they can be, read when the first sample falls into them.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use gimli::BaseAddresses;
use object::{CompressionFormat, Object, ObjectSection, ObjectSegment, ReadCache, ReadRef};
use pagelab_residency::maps;
use pagelab_vocab::units::hexadecimal;

use super::cfi;
use super::hostile::{self, Bounded, guarded};
use super::jit::{self, Jit};
use super::mapped::Mapped;
use super::section::Section;

/// Descriptors that are kept open for files that may be gone when their symbols are asked for.
const OPEN_FILES_MAX: usize = 512;
/// Unwind information that is kept in memory for all files together. Beyond it frame pointers must do.
const UNWIND_BYTES_MAX: usize = 48 << 20;

/// Device, inode and path; the path tells a file from one that got the same inode later.
pub(super) type FileId<'a> = (u64, u64, &'a [u8]);

/// Where a module is mapped, as far as that helps to open its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct MappedAt {
    pub pid: u32,
    pub start: u64,
    pub end: u64,
}

/// A loadable segment: file offset, bytes of file, address, whether it is code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    offset: u64,
    bytes: u64,
    addr: u64,
    code: bool,
}

/// The facts from a file's headers.
#[derive(Default)]
pub(super) struct Image {
    segments: Vec<Segment>,
    pub build_id: Option<String>,
    /// The sections from which stacks are unwound; none if there are none or they are too large.
    sections: Option<ExplicitModuleSectionInfo<Section>>,
}

impl Image {
    /// The address that the file gives the byte at `offset`.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let within = |segment: &Segment| offset.checked_sub(segment.offset).filter(|inside| *inside < segment.bytes);
        let found = self.segments.iter().find_map(|segment| Some((segment.addr, within(segment)?)));
        found.and_then(|(addr, inside)| addr.checked_add(inside))
    }

    /// The address that the file gives the first byte of a mapping of code, of `bytes` from `offset`. It begins at a page of the file, in
    /// which the segment before may end and its own begin later, as lld packs them.
    fn address_of_code(&self, offset: u64, bytes: u64) -> Option<u64> {
        let end = offset.saturating_add(bytes);
        let common = |segment: &Segment| {
            segment.offset.saturating_add(segment.bytes).min(end).saturating_sub(segment.offset.max(offset))
        };
        let code = self.segments.iter().filter(|segment| segment.code);
        let segment = code.max_by_key(|segment| common(segment)).filter(|found| common(found) > 0)?;
        segment.addr.checked_add(offset)?.checked_sub(segment.offset)
    }
}

/// An ELF file, or the vDSO.
pub(super) struct Elf {
    pub path: Vec<u8>,
    pub file: Option<File>,
    /// The vDSO's bytes.
    pub bytes: Option<Vec<u8>>,
    image: Option<Image>,
}

/// Where code may come from.
pub(super) enum Module {
    Elf(Elf),
    Jit(Jit),
}

/// All modules of all recorded address spaces; they are referred to by number.
#[derive(Default)]
pub(super) struct Modules {
    all: Vec<Module>,
    /// By device and inode; mostly there is one.
    files: HashMap<(u64, u64), Vec<u32>>,
    open_files: usize,
    unwind_bytes: usize,
    vdso: Option<u32>,
    jit_budget: Arc<jit::Budget>,
}

impl Modules {
    /// The number of a file's module. `code` says that it is mapped for execution: then it is opened now.
    pub(super) fn file(&mut self, (dev, ino, path): FileId<'_>, at: MappedAt, code: bool) -> u32 {
        let same =
            |number: &&u32| matches!(self.all.get(**number as usize), Some(Module::Elf(elf)) if elf.path == path);
        let known = self.files.get(&(dev, ino)).and_then(|numbers| numbers.iter().find(same)).copied();
        let number = known.unwrap_or_else(|| {
            let elf = Elf { path: path.to_vec(), file: None, bytes: None, image: None };
            let number = self.push(Module::Elf(elf));
            self.files.entry((dev, ino)).or_default().push(number);
            number
        });
        let room = self.open_files < OPEN_FILES_MAX;
        if let Some(Module::Elf(elf)) = self.all.get_mut(number as usize)
            && code
            && room
            && elf.file.is_none()
            && elf.image.is_none()
        {
            elf.file = hostile::open_mapped(at.pid, &(at.start..at.end), Path::new(OsStr::from_bytes(path)), ino);
            self.open_files += usize::from(elf.file.is_some());
        }
        number
    }

    /// The module of the vDSO: the kernel lends the same to every 64-bit program, this one included.
    pub(super) fn vdso(&mut self) -> u32 {
        if let Some(number) = self.vdso {
            return number;
        }
        let number =
            self.push(Module::Elf(Elf { path: b"[vdso]".to_vec(), file: None, bytes: own_vdso(), image: None }));
        self.vdso = Some(number);
        number
    }

    /// Adds the code that a process makes by itself.
    pub(super) fn jit(&mut self, pid: u32) -> u32 {
        let jit = Jit::of(pid, Arc::clone(&self.jit_budget));
        self.push(Module::Jit(jit))
    }

    /// The files of code that are open, each with its path.
    pub(super) fn files(&self) -> impl Iterator<Item = (&[u8], &File)> {
        self.all.iter().filter_map(|module| match module {
            Module::Elf(elf) => Some((elf.path.as_slice(), elf.file.as_ref()?)),
            Module::Jit(_) => None,
        })
    }

    /// The bytes that may be read and kept of all files in which runtimes name code.
    pub(super) fn jit_budget(&self) -> &jit::Budget {
        &self.jit_budget
    }

    fn push(&mut self, module: Module) -> u32 {
        self.all.push(module);
        self.all.len() as u32 - 1
    }

    /// The module of a number.
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Module> {
        self.all.get_mut(number as usize)
    }

    /// The facts from an ELF file's headers; read at first use.
    pub(super) fn image(&mut self, number: u32) -> Option<&Image> {
        let Some(Module::Elf(elf)) = self.all.get_mut(number as usize) else { return None };
        // While its file is not open it may still be opened.
        if elf.image.is_none() && (elf.file.is_some() || elf.bytes.is_some()) {
            let room = UNWIND_BYTES_MAX.saturating_sub(self.unwind_bytes);
            let read = match (&elf.file, &elf.bytes) {
                (Some(file), _) => image_of_file(file, &elf.path, room),
                (None, Some(bytes)) => image(&**bytes, room, None),
                (None, None) => None,
            };
            let (image, bytes) = read.unwrap_or_default();
            self.unwind_bytes += bytes;
            elf.image = Some(image);
        }
        elf.image.as_ref()
    }

    /// The module for the unwinder, mapped at `start..end` from `offset` of its file.
    pub(super) fn unwinding(
        &mut self,
        number: u32,
        start: u64,
        end: u64,
        offset: u64,
    ) -> Option<framehop::Module<Section>> {
        let image = self.image(number)?;
        let addr = image.address_of_code(offset, end.checked_sub(start)?)?;
        // Where address 0 of the file would be.
        let base = start.checked_sub(addr)?;
        Some(framehop::Module::new(String::new(), start..end, base, image.sections.clone()?))
    }
}

/// Bytes of headers, names and tables that are read of a file in addition to its sections for unwinding.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// The facts from a file that anybody may have written.
fn image_of_file(file: &File, path: &[u8], room: usize) -> Option<(Image, usize)> {
    let name = String::from_utf8_lossy(path);
    guarded(&name, || {
        let (cache, left) = (ReadCache::new(file.try_clone().ok()?), Cell::new(HEADER_BYTES_MAX + room as u64));
        image(Bounded::new(&cache, &left), room, Some(file))
    })
    .flatten()
}

/// Reads the headers, and the sections for unwinding if they fit into `room` bytes and are of a trusted file or can do no harm; also
/// gives the bytes that were copied. `from` is the file that `data` is read from, if it is one.
fn image<'a, R: ReadRef<'a>>(data: R, room: usize, from: Option<&File>) -> Option<(Image, usize)> {
    let file = object::File::parse(data).ok()?;
    let segments = file.segments().map(|segment| {
        let (offset, bytes) = segment.file_range();
        Segment { offset, bytes, addr: segment.address(), code: segment.permissions().executable() }
    });
    let segments = segments.collect();
    let build_id = file.build_id().ok().flatten().map(hexadecimal);
    let range = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address().checked_add(section.size())?)
    };
    let size =
        |name: &str| range(name).map_or(0, |range| usize::try_from(range.end - range.start).unwrap_or(usize::MAX));
    let names = if size(".eh_frame") > 0 { [".eh_frame", ".eh_frame_hdr"] } else { [".debug_frame", ""] };
    let bytes = names.iter().fold(0, |sum: usize, name| sum.saturating_add(size(name)));
    let unusable = |segments, build_id| Some((Image { segments, build_id, sections: None }, 0));
    // What unwinds knows 64-bit programs alone.
    if bytes == 0 || bytes > room || !file.is_64() {
        return unusable(segments, build_id);
    }
    let trusted = from.filter(|file| hostile::is_trusted(file));
    let mut copied = 0;
    let mut data = |name: &str| -> Option<Section> {
        if !names.contains(&name) {
            return None;
        }
        let section = file.section_by_name(name)?;
        let range = section.compressed_file_range().ok().filter(|range| range.format == CompressionFormat::None);
        let mapped = trusted.zip(range).filter(|(_, range)| range.compressed_size > 0);
        let mapped = mapped.and_then(|(file, range)| Mapped::of(file, range.offset, range.compressed_size));
        mapped.map(|mapped| Section::Mapped(Arc::new(mapped))).or_else(|| {
            let data = section.uncompressed_data().ok().filter(|data| !data.is_empty())?;
            copied += data.len();
            Some(Section::Copied(data.into()))
        })
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        ..ExplicitModuleSectionInfo::default()
    };
    // To look at each entry of a large program takes a tenth of a second.
    if trusted.is_none() && !is_usable(&sections) {
        return unusable(segments, build_id);
    }
    Some((Image { segments, build_id, sections: Some(sections) }, copied))
}

/// Whether stacks can be unwound by the sections without ever going on for ever.
fn is_usable(sections: &ExplicitModuleSectionInfo<Section>) -> bool {
    let start = |range: &Option<Range<u64>>| range.as_ref().map_or(0, |range| range.start);
    let bases = BaseAddresses::default()
        .set_eh_frame(start(&sections.eh_frame_svma))
        .set_eh_frame_hdr(start(&sections.eh_frame_hdr_svma))
        .set_text(start(&sections.text_svma))
        .set_got(start(&sections.got_svma));
    let table = sections.eh_frame_hdr.as_deref().unwrap_or_default();
    match (&sections.eh_frame, &sections.debug_frame) {
        (Some(eh_frame), _) => cfi::is_eh_frame_usable(eh_frame, table, &bases),
        (None, Some(debug_frame)) => cfi::is_debug_frame_usable(debug_frame),
        (None, None) => true,
    }
}

/// This process's own vDSO.
fn own_vdso() -> Option<Vec<u8>> {
    let vdso = maps::list(Path::new("/proc/self")).ok()?.find(|vma| vma.path == b"[vdso]")?;
    let mut bytes = vec![0; usize::try_from(vdso.len_bytes()).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, vdso.start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
    use framehop::{FrameAddress, Unwinder};

    use super::*;

    #[test]
    fn the_vdso_is_an_elf_file_that_can_be_unwound() {
        let mut modules = Modules::default();
        let number = modules.vdso();
        let image = modules.image(number).expect("a vDSO");
        assert_eq!(image.address(0x10), Some(0x10));
        assert!(image.sections.is_some() && image.build_id.is_some());
    }

    #[test]
    fn code_that_begins_within_a_page_is_mapped_from_the_beginning_of_the_page() {
        // As lld lays a program out: each segment in the file right behind the one before.
        let segment = |offset, bytes, addr, code| Segment { offset, bytes, addr, code };
        let data = segment(0xf4a0, 0x8000, 0x114a0, false);
        let image = Image {
            segments: vec![segment(0, 0x5f2c, 0, false), segment(0x5f40, 0x9560, 0x6f40, true), data],
            ..Image::default()
        };
        assert_eq!(image.address_of_code(0x5000, 0xb000), Some(0x6000), "and not 0x5000");
        assert_eq!(image.address_of_code(0xf000, 0x1000), Some(0x10000), "its last page, that mprotect has split off");
        assert_eq!(image.address_of_code(0, 0x5000), None);
        assert_eq!(image.address(0x5f2b), Some(0x5f2b));
        assert_eq!(image.address(0x5f40), Some(0x6f40));
    }

    /// What each piece of a file claims is replaced by the largest numbers and by others, one after the other: nothing of ours
    /// may panic, and nothing be read beyond the bounds.
    #[test]
    fn a_file_that_claims_anything_is_read_or_refused() {
        let path = std::env::current_exe().expect("this test");
        let whole = std::fs::read("/bin/true").or_else(|_| std::fs::read(path)).expect("a program");
        let tables = {
            let at = |from: usize| u64::from_le_bytes(whole[from..from + 8].try_into().expect("8 bytes")) as usize;
            let sections = at(0x28);
            [(0, 64), (at(0x20), 13 * 56), (sections, whole.len() - sections)]
        };
        let (mut tried, mut panics) = (0, 0);
        for (from, len) in tables {
            for at in (from..(from + len).min(whole.len())).step_by(2) {
                for value in [0_u64, 1, 0x7fff_ffff, u64::MAX, 1 << 63, 0xffff_ffff_ffff_f000] {
                    let mut bytes = whole.clone();
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
                    let cache = ReadCache::new(std::io::Cursor::new(bytes));
                    let left = Cell::new(HEADER_BYTES_MAX + UNWIND_BYTES_MAX as u64);
                    // A parser of others may panic, which costs the file its names.
                    let found =
                        guarded("a changed file", || image(Bounded::new(&cache, &left), UNWIND_BYTES_MAX, None));
                    panics += usize::from(found.is_none());
                    if let Some((image, _)) = &found.flatten() {
                        let _ = (image.address(u64::MAX), image.address(0), image.address_of_code(u64::MAX, u64::MAX));
                    }
                    tried += 1;
                }
            }
        }
        println!("{tried} changed files, {panics} made a parser panic");
        assert!(tried > 1000, "{tried}");
    }

    #[test]
    fn bytes_that_are_flipped_anywhere_do_no_harm_to_what_unwinds() {
        let whole = std::fs::read("/bin/true").expect("a program");
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize
        };
        for _ in 0..400 {
            let mut bytes = whole.clone();
            for _ in 0..=next() % 8 {
                let at = next() % bytes.len();
                bytes[at] = next() as u8;
            }
            bytes.truncate(bytes.len() - if next() % 4 == 0 { next() % bytes.len() } else { 0 });
            let Some((image, _)) = image(&*bytes, UNWIND_BYTES_MAX, None) else { continue };
            let Some(sections) = image.sections else { continue };
            let done = guarded("a mutated file", || {
                let mut unwinder = UnwinderX86_64::<Section>::new();
                unwinder.add_module(framehop::Module::new(String::new(), 0x10_0000..0x20_0000, 0x10_0000, sections));
                let mut cache = CacheX86_64::default();
                for ip in (0x10_0000..0x10_8000).step_by(64) {
                    let mut regs = UnwindRegsX86_64::new(ip, 0x7000, 0x7100);
                    let mut read = |addr: u64| Ok(addr ^ 0x10_0040);
                    let _ =
                        unwinder.unwind_frame(FrameAddress::InstructionPointer(ip), &mut regs, &mut cache, &mut read);
                }
            });
            // A parser that panics is a failure of its own, but not of the recorder.
            let _ = done;
        }
    }
}
