//! `program.*`: which builds of its program and libraries a process runs.
//!
//! Any user may map a file of theirs as code into a recorded process, so files are reached through the kernel's own links to what is
//! mapped and not by their names, and of each only the beginning is read: linkers put the note with the build id there. A small file
//! without one is known by its bytes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader as _};
use pagelab_residency::maps;
use pagelab_vocab::units::hexadecimal;
use sha2::{Digest as _, Sha256};

use super::Collector;
use crate::files::{regular_behind, under};

/// Files that are looked at, and the time for it: the process is running its work meanwhile.
const MOST: usize = 128;
const LONGEST: Duration = Duration::from_millis(20);
/// Bytes of a file that are read.
const HEAD_BYTES: u64 = 64 << 10;
/// Largest file without a build id of which all is read.
const HASHED_BYTES: u64 = 4 << 20;

pub(super) fn read(out: &mut Collector, pid: u32) {
    let until = Instant::now() + LONGEST;
    let folder = format!("/proc/{pid}");
    let exe = format!("{folder}/exe");
    if let Some(id) = build_of(&under(out.root, &exe), until) {
        out.value("program.build_id", id, &exe);
    }
    let own = std::fs::read_link(under(out.root, &exe)).ok();
    let Ok(mappings) = maps::list(&under(out.root, &folder)) else { return };
    let mut seen = BTreeSet::new();
    for mapping in mappings.filter(|mapping| mapping.permissions.contains('x') && mapping.path.first() == Some(&b'/')) {
        let path = mapping.path_text();
        if seen.len() == MOST || Instant::now() > until {
            return;
        }
        // The executable has a key of its own.
        if !seen.insert(path.clone()) || own.as_deref() == Some(Path::new(&path)) {
            continue;
        }
        let source = format!("{folder}/map_files/{:x}-{:x}", mapping.start, mapping.end);
        if let Some(id) = build_of(&under(out.root, &source), until) {
            out.value(format!("program.{path}.build_id"), id, &source);
        }
    }
}

/// The number that the linker gave the file behind a link of /proc. Of a file without one SHA-256 of its bytes, or, if it is large or
/// time is up, `SIZE bytes, written at SECONDS`. None of a file that cannot be read, and of one without a name, such as what the recorder
/// holds a command at before it runs.
fn build_of(link: &Path, until: Instant) -> Option<String> {
    let file = regular_behind(link)?;
    let about = file.metadata().ok()?;
    let mut head = Vec::new();
    (&file).take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let id = note_of::<FileHeader64<Endianness>>(&head).or_else(|| note_of::<FileHeader32<Endianness>>(&head));
    let hash = || if about.len() <= HASHED_BYTES { hash_of(head, &file, until) } else { None };
    id.or_else(hash).or_else(|| Some(format!("{} bytes, written at {}", about.len(), about.mtime())))
}

/// SHA-256 of `head` and of what follows it in the file; `None` when time is up.
fn hash_of(mut part: Vec<u8>, rest: &File, until: Instant) -> Option<String> {
    let mut hash = Sha256::new();
    while !part.is_empty() {
        if Instant::now() > until {
            return None;
        }
        hash.update(&part);
        part.clear();
        rest.take(HEAD_BYTES).read_to_end(&mut part).ok()?;
    }
    Some(hexadecimal(&hash.finalize()))
}

/// The note NT_GNU_BUILD_ID of the segments whose notes lie within `head`.
fn note_of<H: FileHeader<Endian = Endianness>>(head: &[u8]) -> Option<String> {
    let header = H::parse(head).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, head).ok()? {
        let Ok(Some(mut notes)) = segment.notes(endian, head) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(hexadecimal(note.desc()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_builds_are_those_that_file_tells() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut out = Collector::new(Path::new("/"));
        read(&mut out, std::process::id());
        let told: BTreeMap<String, String> =
            out.finish().into_iter().filter_map(|row| Some((row.key, row.value?))).collect();
        let exe = std::env::current_exe().expect("a test is a program");
        let named = std::process::Command::new("file").arg("-bL").arg(&exe).output();
        let id = &told["program.build_id"];
        if let Ok(text) = named.map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
            && let Some((_, rest)) = text.split_once("BuildID[sha1]=")
        {
            assert!(rest.starts_with(id.as_str()), "{id}: {text}");
        }
        assert!(told.iter().any(|(key, id)| key.contains("libc.so") && id.len() == 40), "{told:?}");
        assert!(!told.keys().any(|key| key.contains(&exe.display().to_string())), "its own file has one key: {told:?}");
    }

    /// The kernel's link to a file that is open.
    fn link_of(file: &File) -> std::path::PathBuf {
        use std::os::fd::AsRawFd as _;
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
    }

    #[test]
    fn a_small_file_without_a_build_id_is_known_by_its_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        let soon = Instant::now() + Duration::from_mins(1);
        std::fs::write(&path, vec![7_u8; 200_000]).expect("written");
        let build = |until| build_of(&link_of(&File::open(&path).expect("open")), until).expect("a build");
        let named = std::process::Command::new("sha256sum").arg(&path).output().expect("coreutils");
        let id = build(soon);
        assert!(String::from_utf8_lossy(&named.stdout).starts_with(&format!("{id} ")), "{id}");
        let past = Instant::now().checked_sub(Duration::from_millis(1)).expect("the clock runs");
        assert!(build(past).starts_with("200000 bytes, written at "), "time is up");
        File::options().write(true).open(&path).expect("open").set_len(HASHED_BYTES + 1).expect("grown");
        assert!(build(soon).starts_with("4194305 bytes, written at "), "too large to be read whole");
    }

    #[test]
    fn a_file_that_is_no_program_has_no_note() {
        assert_eq!(note_of::<FileHeader64<Endianness>>(b"\x7fELF\x02\x01\x01"), None);
        assert_eq!(note_of::<FileHeader64<Endianness>>(&[0xff; 4096]), None);
    }
}
