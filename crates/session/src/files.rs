//! The files of a recording: each gets a number when its name is first heard of, and one row.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;

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
    /// Its name, as the table `files` has it.
    pub path: Vec<u8>,
}

/// Names by the number under which the programs sent them.
#[derive(Debug, Default)]
pub struct Files {
    /// The names' numbers count from 1, so the first is empty.
    by_path_id: Vec<Option<NamedFile>>,
    ids: HashMap<Identity, u32>,
}

impl Files {
    /// Takes note of a name. The file's row is written if it is new.
    pub fn named(&mut self, event: &PathEvent, writer: &mut RecordingWriter) {
        let path = shown_path(event);
        let next = self.ids.len() as u32 + 1;
        let file_id = *self.ids.entry((event.dev, event.ino, event.generation)).or_insert(next);
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
