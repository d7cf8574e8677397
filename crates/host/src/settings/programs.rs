//! `program.*`: which builds of its program and libraries a process runs.
//!
//! Any user may map a file of theirs as code into a recorded process, so files are reached through the kernel's own links to what is
//! mapped and not by their names, and of each only the beginning is read: linkers put the note with the build id there. A small file
//! without one is known by its bytes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader as _};
use pagelab_residency::maps;
use pagelab_vocab::units::hexadecimal;
use sha2::{Digest as _, Sha256};

use super::{Collector, Setting};
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

/// The builds of files that processes mapped code from, each with the path by which it was mapped: what a process loads after its start
/// and what its children run are known to whoever follows mappings. As many are looked at, and for as long, as at a start.
pub fn builds<'a>(files: impl IntoIterator<Item = (&'a [u8], &'a File)>) -> Vec<Setting> {
    let until = Instant::now() + LONGEST;
    let mut out = Collector::new(Path::new("/"));
    for (path, file) in files.into_iter().take(MOST).take_while(|_| Instant::now() <= until) {
        let path = String::from_utf8_lossy(path);
        if let Some(id) = build_of_file(file, until) {
            out.value(format!("program.{path}.build_id"), id, &path);
        }
    }
    out.finish()
}

/// The build of the file behind a link of /proc. None of one without a name, such as what the recorder holds a command at before it runs.
fn build_of(link: &Path, until: Instant) -> Option<String> {
    build_of_file(&regular_behind(link)?, until)
}

/// The number that the linker gave a file. Of a file without one SHA-256 of its bytes, or, if it is large or time is up,
/// `SIZE bytes, written at SECONDS`. None of a file that cannot be read.
fn build_of_file(file: &File, until: Instant) -> Option<String> {
    let about = file.metadata().ok()?;
    let head = part_of(file, 0)?;
    let id = note_of::<FileHeader64<Endianness>>(&head).or_else(|| note_of::<FileHeader32<Endianness>>(&head));
    let hash = || if about.len() <= HASHED_BYTES { hash_of(head, file, until) } else { None };
    id.or_else(hash).or_else(|| Some(format!("{} bytes, written at {}", about.len(), about.mtime())))
}

/// SHA-256 of `head` and of what follows it in the file; `None` when time is up.
fn hash_of(mut part: Vec<u8>, file: &File, until: Instant) -> Option<String> {
    let (mut hash, mut offset) = (Sha256::new(), 0);
    while !part.is_empty() {
        if Instant::now() > until {
            return None;
        }
        hash.update(&part);
        offset += part.len() as u64;
        part = part_of(file, offset)?;
    }
    Some(hexadecimal(&hash.finalize()))
}

/// Bytes of a file from `offset`, empty at its end. Whoever shares the descriptor has a position of their own in it.
fn part_of(file: &File, offset: u64) -> Option<Vec<u8>> {
    let mut part = vec![0; HEAD_BYTES as usize];
    let mut got = 0;
    while got < part.len() {
        match file.read_at(&mut part[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    part.truncate(got);
    Some(part)
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
    fn mapped_files_are_known_by_the_path_they_were_mapped_by() {
        let (exe, own) = (File::open("/proc/self/exe").expect("open"), "/a/program".as_bytes());
        let mut tail = exe.try_clone().expect("a descriptor");
        std::io::Seek::seek(&mut tail, std::io::SeekFrom::End(0)).expect("moved");
        let told = builds([(own, &exe), ("/its/end".as_bytes(), &tail)]);
        let ids: Vec<_> = told.iter().map(|one| (one.key.as_str(), one.value.clone())).collect();
        assert_eq!(
            ids.iter().map(|(key, _)| *key).collect::<Vec<_>>(),
            ["program./a/program.build_id", "program./its/end.build_id"]
        );
        assert!(ids[0].1.is_some() && ids[0].1 == ids[1].1, "where the descriptor stands is no matter: {ids:?}");
    }

    #[test]
    fn a_file_that_is_no_program_has_no_note() {
        assert_eq!(note_of::<FileHeader64<Endianness>>(b"\x7fELF\x02\x01\x01"), None);
        assert_eq!(note_of::<FileHeader64<Endianness>>(&[0xff; 4096]), None);
    }
}
