//! What a file says in its headers: where its code lies, its build id, and the sections that stacks are unwound by.

use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;

use gimli::BaseAddresses;
use object::{Architecture, CompressionFormat, Object, ObjectSection, ObjectSegment, ReadCache, ReadRef};
use pagelab_vocab::units::hexadecimal;

use super::cfi::{Machine, Sections, Table};
use super::hostile::{Bounded, guarded};
use super::mapped::Mapped;
use super::section::Section;

/// Unwind information that is kept in memory for all files together. Beyond it frame pointers must do.
pub(super) const UNWIND_BYTES_MAX: usize = 48 << 20;
/// Bytes of headers, names and tables that are read of a file in addition to its sections for unwinding.
const HEADER_BYTES_MAX: u64 = 16 << 20;
/// Segments, and sections, of one file; real ones have under a hundred.
const SEGMENTS_MAX: usize = 512;
const SECTIONS_MAX: usize = 4096;

/// A loadable segment: file offset, bytes of file, address, whether it is code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub offset: u64,
    pub bytes: u64,
    pub addr: u64,
    pub code: bool,
}

/// The facts from a file's headers.
#[derive(Default)]
pub(super) struct Image {
    segments: Vec<Segment>,
    pub build_id: Option<String>,
    /// By which stacks are unwound; none if there is none, or if it is too large.
    pub table: Option<Table>,
}

impl Image {
    /// The address that the file gives the byte at `offset`.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let within = |segment: &Segment| offset.checked_sub(segment.offset).filter(|inside| *inside < segment.bytes);
        let found = self.segments.iter().find_map(|segment| Some((segment.addr, within(segment)?)));
        found.and_then(|(addr, inside)| addr.checked_add(inside))
    }

    /// The address of code at `offset`. Of the page in which a segment begins, the segment before may have the beginning, as lld packs them.
    pub(super) fn code_address(&self, offset: u64) -> Option<u64> {
        let within = |segment: &Segment| offset.checked_sub(segment.offset).filter(|inside| *inside < segment.bytes);
        let mut code = self.segments.iter().filter(|segment| segment.code);
        let found = code.find_map(|segment| segment.addr.checked_add(within(segment)?));
        found.or_else(|| self.address(offset))
    }

    /// The segment of code that holds an address of the file.
    pub(super) fn code_at(&self, addr: u64) -> Option<Segment> {
        let holds = |segment: &&Segment| {
            segment.code && addr.checked_sub(segment.addr).is_some_and(|inside| inside < segment.bytes)
        };
        self.segments.iter().find(holds).copied()
    }
}

/// The facts from a file that anybody may have written. Sections of one that is trusted are mapped instead of copied.
pub(super) fn image_of_file(file: &File, path: &[u8], room: usize, is_trusted: bool) -> Option<(Image, usize)> {
    let name = String::from_utf8_lossy(path);
    guarded(&name, || {
        let (cache, left) = (ReadCache::new(file.try_clone().ok()?), Cell::new(HEADER_BYTES_MAX + room as u64));
        image(Bounded::new(&cache, &left), room, is_trusted.then_some(file))
    })
    .flatten()
}

/// Sections that are wanted by their names, with their places in the file.
#[derive(Default)]
struct Wanted {
    eh_frame: Option<usize>,
    eh_frame_hdr: Option<usize>,
    debug_frame: Option<usize>,
    text: u64,
    got: u64,
}

impl Wanted {
    /// In one pass: a hostile file has as many sections as it likes, and each name is read anew.
    fn among<'a, R: ReadRef<'a>>(sections: &[object::Section<'a, '_, R>]) -> Self {
        let mut wanted = Self::default();
        for (index, section) in sections.iter().enumerate() {
            match section.name() {
                Ok(".eh_frame") => wanted.eh_frame = Some(index),
                Ok(".eh_frame_hdr") => wanted.eh_frame_hdr = Some(index),
                Ok(".debug_frame") => wanted.debug_frame = Some(index),
                Ok(".text") => wanted.text = section.address(),
                Ok(".got") => wanted.got = section.address(),
                _ => {}
            }
        }
        wanted
    }
}

/// Reads the headers, and the sections for unwinding if they fit into `room` bytes; also gives the bytes that were copied.
/// `mappable` is the file that `data` is read from, if it is one that only trusted users can change.
pub(super) fn image<'a, R: ReadRef<'a>>(data: R, room: usize, mappable: Option<&File>) -> Option<(Image, usize)> {
    let file = object::File::parse(data).ok()?;
    let segments: Vec<Segment> = file
        .segments()
        .take(SEGMENTS_MAX)
        .map(|segment| {
            let (offset, bytes) = segment.file_range();
            Segment { offset, bytes, addr: segment.address(), code: segment.permissions().executable() }
        })
        .collect();
    let build_id = file.build_id().ok().flatten().map(hexadecimal);
    let sections: Vec<_> = file.sections().take(SECTIONS_MAX).collect();
    let wanted = Wanted::among(&sections);
    let mut image = Image { segments, build_id, table: None };
    let of = |index: Option<usize>| index.and_then(|index| sections.get(index));
    let machine = match file.architecture() {
        Architecture::X86_64 => Machine::X86_64,
        Architecture::I386 => Machine::X86,
        _ => return Some((image, 0)),
    };
    let is_eh_frame = of(wanted.eh_frame).is_some_and(|section| section.size() > 0);
    let used = if is_eh_frame { [wanted.eh_frame, wanted.eh_frame_hdr] } else { [wanted.debug_frame, None] };
    let size =
        |index: Option<usize>| of(index).map_or(0, |section| usize::try_from(section.size()).unwrap_or(usize::MAX));
    let bytes = used.iter().fold(0, |sum: usize, index| sum.saturating_add(size(*index)));
    if bytes == 0 || bytes > room {
        return Some((image, 0));
    }
    let mut copied = 0;
    let [entries, header] = used.map(|index| of(index).and_then(|section| bytes_of(section, mappable, &mut copied)));
    let addr = |index: Option<usize>| of(index).map_or(0, ObjectSection::address);
    let bases = BaseAddresses::default()
        .set_eh_frame(addr(wanted.eh_frame))
        .set_eh_frame_hdr(addr(wanted.eh_frame_hdr))
        .set_text(wanted.text)
        .set_got(wanted.got);
    let (eh_frame, debug_frame) = if is_eh_frame { (entries, None) } else { (None, entries) };
    image.table = Table::of(Sections { machine, eh_frame, eh_frame_hdr: header, debug_frame, bases });
    Some((image, copied))
}

/// The bytes of a section, of a trusted file as a mapping.
fn bytes_of<'a, R: ReadRef<'a>>(
    section: &object::Section<'a, '_, R>,
    mappable: Option<&File>,
    copied: &mut usize,
) -> Option<Section> {
    let range = section.compressed_file_range().ok().filter(|range| range.format == CompressionFormat::None);
    let mapped = mappable.zip(range).filter(|(_, range)| range.compressed_size > 0);
    let mapped = mapped.and_then(|(file, range)| Mapped::of(file, range.offset, range.compressed_size));
    mapped.map(|mapped| Section::Mapped(Arc::new(mapped))).or_else(|| {
        let data = section.uncompressed_data().ok().filter(|data| !data.is_empty())?;
        *copied += data.len();
        Some(Section::Copied(data.into()))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::cfi::Scratch;
    use super::*;

    #[test]
    fn code_that_begins_within_a_page_is_mapped_from_the_beginning_of_the_page() {
        // As lld lays a program out: each segment in the file right behind the one before.
        let segment = |offset, bytes, addr, code| Segment { offset, bytes, addr, code };
        let data = segment(0xf4a0, 0x8000, 0x114a0, false);
        let image = Image {
            segments: vec![segment(0, 0x5f2c, 0, false), segment(0x5f40, 0x9560, 0x6f40, true), data],
            ..Image::default()
        };
        assert_eq!((image.code_address(0x5f40), image.code_address(0x6000)), (Some(0x6f40), Some(0x7000)));
        assert_eq!(image.code_address(0xf49f), Some(0x1049f));
        assert_eq!(image.address(0x5f2b), Some(0x5f2b));
        assert_eq!(image.address(0x5f40), Some(0x6f40));
        assert_eq!(image.code_at(0x7000).map(|segment| segment.offset), Some(0x5f40));
        assert_eq!(image.code_at(0x114a0), None);
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
                    let cache = ReadCache::new(Cursor::new(bytes));
                    let left = Cell::new(HEADER_BYTES_MAX + UNWIND_BYTES_MAX as u64);
                    // A parser of others may panic, which costs the file its names.
                    let found =
                        guarded("a changed file", || image(Bounded::new(&cache, &left), UNWIND_BYTES_MAX, None));
                    panics += usize::from(found.is_none());
                    if let Some((image, _)) = &found.flatten() {
                        let _ = (image.address(u64::MAX), image.address(0), image.code_address(u64::MAX));
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
        let mut scratch = Scratch::default();
        for _ in 0..400 {
            let mut bytes = whole.clone();
            for _ in 0..=next() % 8 {
                let at = next() % bytes.len();
                bytes[at] = next() as u8;
            }
            bytes.truncate(bytes.len() - if next() % 4 == 0 { next() % bytes.len() } else { 0 });
            let Some((image, _)) = image(&*bytes, UNWIND_BYTES_MAX, None) else { continue };
            let Some(table) = image.table else { continue };
            // A parser that panics is a failure of its own, but not of the recorder.
            let _ = guarded("a mutated file", || {
                for addr in (0..0x8000).step_by(64) {
                    let _ = table.row(addr, &mut scratch);
                }
            });
        }
    }
}
