//! The files of a recording: each gets a number when a name of it is first heard of, and one row. A file that is renamed, or opened by
//! several names, has a number and a row for each: calls and mappings carry the name that it had at the time.
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

/// A file under one of its names: device, inode, which of the files that had this inode one after the other, and the name as the
/// table `files` has it; none if it is not known.
type Identity = ((u64, u64, u32), Option<Arc<[u8]>>);

/// A file under one of its names.
#[derive(Debug, Clone)]
pub struct NamedFile {
    /// Its number in the recording.
    pub file_id: u32,
    /// It has a position that means something: it is regular, or a block device.
    pub has_position: bool,
    /// Its name when it was sent; equal ones of a file are one in memory.
    pub path: Option<Arc<[u8]>>,
}

/// The numbers of the files met last.
#[derive(Debug, Default)]
struct Numbers {
    last: u32,
    recent: HashMap<Identity, u32>,
    /// Those that were recent before; they go when as many newer ones are there.
    older: HashMap<Identity, u32>,
}

impl Numbers {
    /// The file's number, its name, and whether it is new. None when no number is left.
    #[expect(clippy::type_complexity, reason = "its three parts are what the first line says")]
    fn of(&mut self, identity: Identity) -> Option<(u32, Option<Arc<[u8]>>, bool)> {
        if let Some(((_, path), number)) = self.recent.get_key_value(&identity) {
            return Some((*number, path.clone(), false));
        }
        let known = self.older.remove_entry(&identity);
        let is_new = known.is_none();
        let (identity, number) = if let Some(known) = known {
            known
        } else {
            self.last = self.last.checked_add(1)?;
            (identity, self.last)
        };
        if self.recent.len() >= FILES_KEPT {
            self.older = std::mem::take(&mut self.recent);
        }
        let path = identity.1.clone();
        self.recent.insert(identity, number);
        Some((number, path, is_new))
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
        let identity = ((event.dev, event.ino, event.generation), shown_path(event).map(Arc::from));
        let Some((file_id, path, is_new)) = self.numbers.of(identity) else { return };
        if is_new {
            writer.push(&FilesRow {
                ts: event.ts as i64,
                file_id,
                dev: event.dev,
                ino: event.ino,
                fs: Some(&event.fs).filter(|fs| !fs.is_empty()).map(String::as_str),
                file_type: file_type(event),
                path: path.as_deref(),
            });
        }
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

/// The name with a mark where its beginning is missing.
fn shown_path(event: &PathEvent) -> Option<Vec<u8>> {
    let name = event.path.as_ref()?.as_bytes();
    Some(if event.truncated { [b"...".as_slice(), name].concat() } else { name.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_number_while_it_comes_back_and_others_are_forgotten() {
        let mut numbers = Numbers::default();
        let mut of = |ino: u64| {
            let (number, _, is_new) = numbers.of(((1, ino, 0), None)).expect("numbers are left");
            (number, is_new, numbers.recent.len() + numbers.older.len())
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
        assert!(numbers.of(((2, 7, 0), None)).is_none(), "numbers do not begin anew");
    }

    #[test]
    fn a_file_has_a_number_for_each_of_its_names() {
        let mut numbers = Numbers::default();
        let mut of = |path: &str| numbers.of(((1, 2, 3), Some(path.as_bytes().into()))).expect("numbers are left");
        let (first, path, _) = of("/tmp/a");
        let (second, ..) = of("/tmp/b");
        let (again, same, is_new) = of("/tmp/a");
        assert!(first != second && first == again && !is_new);
        assert!(path.zip(same).is_some_and(|(path, same)| Arc::ptr_eq(&path, &same)), "one in memory");
    }
}
