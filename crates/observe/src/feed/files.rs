//! The files of a recording: each gets a number when its name is first heard of, and one row.
//!
//! Programs send a file's name when they meet it, and again when they have forgotten that they did: they remember the last
//! 16,384. So both the names by the number they were sent under and the files by what identifies them are kept within
//! bounds ([`ByNumber`], [`FILES_KEPT`]), whatever the length of the recording: some 130 MB where every open is of
//! another file. A file that comes back after that many others has another number then, and another row with the same
//! device and inode.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::FilesRow;

use crate::bpf::{ByNumber, PathEvent};

/// Files whose numbers are remembered at least: those met last. At most twice as many are.
const FILES_KEPT: usize = 1 << 18;

/// What identifies a file: device, inode, and which of the files that had this inode one after the other.
type Identity = (u64, u64, u32);

/// A file that has a name.
#[derive(Debug, Clone)]
pub struct NamedFile {
    /// Its number in the recording.
    pub file_id: u32,
    /// It has a position that means something: it is regular, or a block device.
    pub has_position: bool,
    /// Its name when it was sent; equal ones of a file are one in memory.
    pub path: Arc<[u8]>,
}

/// The number of a file, and its name as the table `files` has it.
type Known = (u32, Arc<[u8]>);

/// The numbers of the files met last.
#[derive(Debug, Default)]
struct Numbers {
    last: u32,
    recent: HashMap<Identity, Known>,
    /// Those that were recent before; they go when as many newer ones are there.
    older: HashMap<Identity, Known>,
}

impl Numbers {
    /// The file's number and first name, and whether it is new. None when no number is left.
    fn of(&mut self, identity: Identity, path: &[u8]) -> Option<(Known, bool)> {
        if let Some(known) = self.recent.get(&identity) {
            return Some((known.clone(), false));
        }
        let known = self.older.remove(&identity);
        let is_new = known.is_none();
        let known = if let Some(known) = known {
            known
        } else {
            self.last = self.last.checked_add(1)?;
            (self.last, path.into())
        };
        if self.recent.len() >= FILES_KEPT {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(identity, known.clone());
        Some((known, is_new))
    }
}

/// Names by the number under which the programs sent them.
#[derive(Debug, Default)]
pub struct Files {
    by_path_id: ByNumber<NamedFile>,
    numbers: Numbers,
}

impl Files {
    /// Takes note of a name. The file's row is written if it is new.
    pub fn named(&mut self, event: &PathEvent, writer: &mut RecordingWriter) {
        let path = shown_path(event);
        let Some(((file_id, first), is_new)) = self.numbers.of((event.dev, event.ino, event.generation), &path) else {
            return;
        };
        if is_new {
            writer.push(&FilesRow {
                ts: event.ts as i64,
                file_id,
                dev: event.dev,
                ino: event.ino,
                fs: Some(&event.fs).filter(|fs| !fs.is_empty()).map(String::as_str),
                file_type: file_type(event),
                path: Some(&path),
            });
        }
        let path = if *first == *path { first } else { path.into() };
        let has_position = matches!(event.mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK);
        self.by_path_id.insert(event.path_id, NamedFile { file_id, has_position, path });
    }

    /// The file whose name was sent under this number; none if it was not, or so long ago that no program refers to it.
    #[inline]
    pub fn get(&self, path_id: u64) -> Option<&NamedFile> {
        self.by_path_id.get(path_id)
    }
}

/// The words of `files.type`; none where the probe did not see the file itself.
fn file_type(event: &PathEvent) -> Option<&'static str> {
    Some(match event.mode & libc::S_IFMT {
        _ if event.mode == 0 && event.fs.is_empty() => return None,
        libc::S_IFREG => "regular",
        libc::S_IFDIR => "dir",
        libc::S_IFBLK => "block",
        libc::S_IFCHR => "char",
        libc::S_IFIFO => "fifo",
        libc::S_IFSOCK => "socket",
        _ => "anon",
    })
}

/// The name as `/proc/PID/fd` shows it; what has no place in a directory is named after its file system.
fn shown_path(event: &PathEvent) -> Vec<u8> {
    let last = || event.path.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    match event.fs.as_str() {
        "sockfs" => format!("socket:[{}]", event.ino).into_bytes(),
        "pipefs" => format!("pipe:[{}]", event.ino).into_bytes(),
        "anon_inodefs" => [b"anon_inode:".as_slice(), last()].concat(),
        _ if event.truncated => [b"...".as_slice(), event.path.as_bytes()].concat(),
        _ => event.path.as_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_number_while_it_comes_back_and_others_are_forgotten() {
        let mut numbers = Numbers::default();
        let mut of = |ino: u64| {
            let (known, is_new) = numbers.of((1, ino, 0), b"/file").expect("numbers are left");
            (known.0, is_new, numbers.recent.len() + numbers.older.len())
        };
        let (first, ..) = of(0);
        for ino in 1..5 * FILES_KEPT as u64 {
            assert!(of(ino).1, "{ino} is new");
            if ino % FILES_KEPT as u64 == 0 {
                assert_eq!(of(0).0, first, "it came back in time");
            }
        }
        let (number, is_new, kept) = of(1);
        assert!(is_new && number > 5 * FILES_KEPT as u32 && kept <= 2 * FILES_KEPT, "{number} {kept}");
        numbers.last = u32::MAX;
        assert!(numbers.of((2, 7, 0), b"/file").is_none(), "numbers do not begin anew");
    }
}
