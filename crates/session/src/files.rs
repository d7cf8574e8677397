//! The files of a recording: each gets a number when its name is first heard of, and one row.
//!
//! This is the one thing in memory that grows with what is recorded: some 150 bytes and the path for each file, and 24 each
//! time that a file's name is sent again, because the programs remember the names of the last 16,384 files only. Nothing
//! can be forgotten: a file that comes back must have the number that it had, and a number that was sent long ago may
//! still be used. A hundred thousand files take some 20 MB.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use pagelab_observe::bpf::PathEvent;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::FilesRow;

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

/// Names by the number under which the programs sent them.
#[derive(Debug, Default)]
pub struct Files {
    /// The names' numbers count from 1, so the first is empty.
    by_path_id: Vec<Option<NamedFile>>,
    /// The number of each file, and its name as the table `files` has it.
    ids: HashMap<Identity, (u32, Arc<[u8]>)>,
}

impl Files {
    /// Takes note of a name. The file's row is written if it is new.
    pub fn named(&mut self, event: &PathEvent, writer: &mut RecordingWriter) {
        let path = shown_path(event);
        let next = self.ids.len() as u32 + 1;
        let file = self.ids.entry((event.dev, event.ino, event.generation));
        let (file_id, first) = &*file.or_insert_with(|| (next, path.as_slice().into()));
        let file_id = *file_id;
        if file_id == next {
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
        let path = if **first == *path { Arc::clone(first) } else { path.into() };
        let at = event.path_id as usize;
        if self.by_path_id.len() <= at {
            self.by_path_id.resize(at + 1, None);
        }
        let has_position = matches!(event.mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK);
        self.by_path_id[at] = Some(NamedFile { file_id, has_position, path });
    }

    /// The file whose name was sent under this number.
    #[inline]
    pub fn get(&self, path_id: u32) -> Option<&NamedFile> {
        self.by_path_id.get(path_id as usize)?.as_ref()
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
