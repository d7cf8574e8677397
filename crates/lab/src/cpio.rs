//! The archive that a kernel unpacks as its first file system: cpio, form `newc`
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTERS: u32 = 0o020_000;
/// Header, name and content each end at a multiple of this.
const ALIGN: u64 = 4;

/// Writes an archive. Everything belongs to root and is from 1970: the same input gives the same bytes.
pub(crate) struct Writer<W: Write> {
    out: W,
    written: u64,
    /// Each inode is one entry here, so a counter will do.
    inode: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(out: W) -> Self {
        Writer { out, written: 0, inode: 0, folders: BTreeSet::new() }
    }

    /// A folder and those above it, if they are not there yet.
    pub(crate) fn folder(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_matches('/');
        if path.is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above)?;
        }
        self.folders.insert(path.to_owned());
        self.entry(path, FOLDER | 0o755, (0, 0), &[])
    }

    /// A file with its permissions.
    pub(crate) fn file(&mut self, path: &str, permissions: u32, content: &[u8]) -> io::Result<()> {
        self.above(path)?;
        self.entry(path.trim_matches('/'), FILE | permissions, (0, 0), content)
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.above(path)?;
        self.entry(path.trim_matches('/'), LINK | 0o777, (0, 0), target.as_bytes())
    }

    /// A character device.
    pub(crate) fn device(&mut self, path: &str, major: u32, minor: u32) -> io::Result<()> {
        self.above(path)?;
        self.entry(path.trim_matches('/'), CHARACTERS | 0o600, (major, minor), &[])
    }

    /// Ends the archive. Returns the writer, and the number of bytes.
    pub(crate) fn finish(mut self) -> io::Result<(W, u64)> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        self.out.flush()?;
        Ok((self.out, self.written))
    }

    fn above(&mut self, path: &str) -> io::Result<()> {
        path.trim_matches('/').rsplit_once('/').map_or(Ok(()), |(above, _)| self.folder(above))
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) -> io::Result<()> {
        let too_long =
            |_| io::Error::other(format!("{name}: a file of 4 GiB or more does not fit into a cpio archive"));
        let size = u32::try_from(content.len()).map_err(too_long)?;
        self.inode += 1;
        let links = if mode & 0o170_000 == FOLDER { 2 } else { 1 };
        // inode, mode, user, group, links, time, size, the device it is on, its own device number, name, checksum.
        let fields = [self.inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name.len() as u32 + 1, 0];
        let mut header = String::from("070701");
        for field in fields {
            let _ = write!(header, "{field:08x}");
        }
        self.put(header.as_bytes())?;
        self.put(name.as_bytes())?;
        self.put(&[0])?;
        self.align()?;
        self.put(content)?;
        self.align()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn align(&mut self) -> io::Result<()> {
        let over = (ALIGN - self.written % ALIGN) % ALIGN;
        self.put(vec![0; over as usize].as_slice())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_cpio_program_reads_it_back() {
        let mut writer = Writer::new(Vec::new());
        writer.folder("/usr/lib/").expect("folder");
        writer.link("/lib", "usr/lib").expect("link");
        for length in 0..9 {
            writer.file(&format!("/usr/lib/{}", "n".repeat(length + 1)), 0o644, &b"12345678"[..length]).expect("file");
        }
        writer.file("/init", 0o755, b"#!/bin/sh\n").expect("file");
        writer.file("/a/b/c", 0o600, &vec![7; 100_000]).expect("file");
        writer.device("/dev/console", 5, 1).expect("device");
        let (bytes, written) = writer.finish().expect("finished");
        assert_eq!(bytes.len() as u64, written);
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("cpio");
        command.args(["-idm", "--quiet", "--no-preserve-owner"]).current_dir(folder.path());
        let mut child =
            command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cpio: apt-get install cpio");
        child.stdin.take().expect("a pipe").write_all(&bytes).expect("written");
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let at = |path: &str| folder.path().join(path);
        for length in 0..9 {
            let read = fs::read(at("usr/lib").join("n".repeat(length + 1))).expect("there");
            assert_eq!(read, &b"12345678"[..length]);
        }
        assert_eq!(fs::read(at("a/b/c")).expect("there"), vec![7; 100_000]);
        assert_eq!(fs::read_link(at("lib")).expect("a link").to_str(), Some("usr/lib"));
        assert_eq!(fs::metadata(at("init")).expect("there").permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::metadata(at("a/b/c")).expect("there").permissions().mode() & 0o777, 0o600);
    }
}
