//! Small reads below a root folder. Everything here treats the text as foreign: bounded, possibly not UTF-8.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Longest text that a setting or fact may have; longer ones are refused with a reason instead of cut.
pub(crate) const LONGEST: usize = 64 * 1024;

/// The place of an absolute path (`/proc/cmdline`) below `root`.
pub(crate) fn under(root: &Path, absolute: &str) -> PathBuf {
    root.join(absolute.trim_start_matches('/'))
}

/// The bytes of a file of at most [`LONGEST`] bytes.
pub(crate) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    bytes_up_to(path, LONGEST)
}

/// The bytes of a file of at most `longest` bytes; `FileTooLarge` beyond.
pub(crate) fn bytes_up_to(path: &Path, longest: usize) -> io::Result<Vec<u8>> {
    read_up_to(File::open(path)?, longest)
}

/// Opens what a link of /proc leads to (a descriptor, a mapping, an executable) if that is a regular file that has a name. It is held
/// before it is looked at, and looked at before it is opened: a fifo would block, and a device may do anything.
pub(crate) fn regular_behind(link: &Path) -> Option<File> {
    let held: File = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?.into();
    held.metadata().ok().filter(|about| about.is_file() && about.nlink() > 0)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    File::options().read(true).custom_flags(flags).open(format!("/proc/self/fd/{}", held.as_raw_fd())).ok()
}

/// The bytes of an open file of at most [`LONGEST`] bytes.
pub(crate) fn bytes_of(file: File) -> io::Result<Vec<u8>> {
    read_up_to(file, LONGEST)
}

fn read_up_to(mut file: File, longest: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    // Files of /proc and /sys say size 0 or 4096, so one page is tried first and no size is asked for.
    let mut page = [0u8; 4096];
    loop {
        let got = match file.read(&mut page) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if got == 0 {
            return Ok(out);
        }
        out.extend_from_slice(page.get(..got).unwrap_or(&page));
        if out.len() > longest {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {longest} bytes")));
        }
    }
}

/// The text of a file; bytes that are no UTF-8 become replacement characters.
pub(crate) fn text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

/// The text of a file below `root`, trimmed; `None` if it is not there or cannot be read.
pub(crate) fn trimmed(root: &Path, absolute: &str) -> Option<String> {
    let text = text(&under(root, absolute)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The one form of a value: lines trimmed, empty ones dropped, runs of white space inside a line made one space.
pub(crate) fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words = line.split_whitespace().peekable();
        if words.peek().is_some() && !out.is_empty() {
            out.push('\n');
        }
        while let Some(word) = words.next() {
            out.push_str(word);
            if words.peek().is_some() {
                out.push(' ');
            }
        }
    }
    out
}

/// The word in brackets of `always [madvise] never`, which may hold a space (`[write back]`); the whole text if none.
pub(crate) fn chosen(text: &str) -> String {
    tidy(pagelab_residency::thp::chosen_word(text).unwrap_or(text))
}

/// Names in a folder, sorted; empty if it cannot be read.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// Numbers of a list such as `0-3,8`.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // More processors than Linux can have (NR_CPUS is at most 8192) means that this is no such list.
        if last < first || last - first > 65_536 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The list form of sorted numbers: `0-3,8`.
pub(crate) fn list_of(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*cpu) => *last = *cpu,
            _ => parts.push((*cpu, *cpu)),
        }
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_form() {
        assert_eq!(tidy("4\t4\t1\t7\n"), "4 4 1 7");
        assert_eq!(tidy("file\npipe\n\nsocket\n"), "file\npipe\nsocket");
        assert_eq!(tidy("\n"), "");
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("none [mq-deadline] kyber bfq \n"), "mq-deadline");
        assert_eq!(chosen("write back\n"), "write back");
        assert_eq!(chosen("none\n"), "none");
    }

    #[test]
    fn cpu_lists_read_and_write_the_same() {
        for list in ["0", "0-1", "0-3,8", "1,3,5", "0-3,8-9,31"] {
            assert_eq!(list_of(&cpu_list(list).expect("a list")), list);
        }
        assert_eq!(cpu_list("\n"), Some(vec![]));
        for wrong in ["a", "3-1", "0-99999999", "1-", "-"] {
            assert_eq!(cpu_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn long_files_are_refused_not_cut() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("long");
        std::fs::write(&path, vec![b'x'; 5000]).expect("written");
        assert_eq!(bytes_up_to(&path, 5000).expect("fits").len(), 5000);
        let error = bytes_up_to(&path, 4999).expect_err("one byte too long");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
