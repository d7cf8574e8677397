//! Whether a file may be made anew by a command that the doctor prints: only if nothing can be lost by it.
//!
//! A copy that takes the file's place loses what is written to the old one meanwhile, and tears hard links apart. So there
//! is no such command while somebody has the file open, and none where that cannot be seen.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pagelab_residency::maps;
use pagelab_vocab::terminal::shell_word;

use crate::files::{names, text, under};

/// Why no command may put a copy in this file's place; `None` if one may.
pub(super) fn barred(root: &Path, path: &Path, metadata: &Metadata, below_overlay: bool) -> Option<String> {
    if below_overlay {
        return Some("the file lies below an overlay, which must not be changed under it".to_owned());
    }
    if path.is_symlink() {
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        return Some(format!("this is a link; type: pagelab doctor {}", shell_word(&target.display().to_string())));
    }
    if metadata.nlink() > 1 {
        return Some(format!("the file has {} hard links, and a copy would have one", metadata.nlink()));
    }
    if let Some(user) = by_kernel(root, path) {
        return Some(user);
    }
    let users = users(metadata);
    match users.as_slice() {
        [] if rustix::process::geteuid().is_root() => None,
        [] => Some("only root sees whether others have the file open; type: sudo pagelab doctor PATH".to_owned()),
        [one] => Some(format!("{one}; end it first")),
        [one, rest @ ..] => Some(format!("{one}, and so have {} others; end them first", rest.len())),
    }
}

/// Files that the kernel itself has open: swap areas and loop devices.
fn by_kernel(root: &Path, path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let swaps = text(&under(root, "/proc/swaps")).unwrap_or_default();
    if swaps.lines().skip(1).any(|line| line.split_whitespace().next().is_some_and(|area| Path::new(area) == path)) {
        return Some("the kernel swaps to it; type: swapoff first".to_owned());
    }
    let backs = |dev: &String| {
        let backing = text(&under(root, &format!("/sys/block/{dev}/loop/backing_file"))).unwrap_or_default();
        Path::new(backing.trim_end_matches('\n')) == path
    };
    let dev = names(&under(root, "/sys/block")).into_iter().find(backs)?;
    Some(format!("/dev/{dev} is made of it; detach that first"))
}

/// The processes that have the file open or mapped, besides this one.
fn users(metadata: &Metadata) -> Vec<String> {
    let own = std::process::id().to_string();
    let pids = names(Path::new("/proc")).into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut users = Vec::new();
    for pid in pids.filter(|pid| *pid != own) {
        let process = Path::new("/proc").join(&pid);
        if has_open(&process, metadata) || has_mapped(&process, metadata) {
            let name = text(&process.join("comm")).unwrap_or_default();
            users.push(format!("process {pid} ({}) has it open", name.trim()));
        }
    }
    users
}

fn has_open(process: &Path, metadata: &Metadata) -> bool {
    let open = process.join("fd");
    names(&open).into_iter().any(|fd| {
        std::fs::metadata(open.join(fd))
            .is_ok_and(|found| found.ino() == metadata.ino() && found.dev() == metadata.dev())
    })
}

/// A mapping outlives its descriptor. Its line names the inode; the device is left out, since btrfs shows another one.
fn has_mapped(process: &Path, metadata: &Metadata) -> bool {
    let Ok(mut mappings) = maps::list(process) else { return false };
    mappings.any(|vma| {
        if vma.inode != metadata.ino() {
            return false;
        }
        // Inodes recur on other devices; the file itself tells.
        let Some(path) = vma.path.strip_prefix(b"/") else { return true };
        let seen = process.join("root").join(OsStr::from_bytes(path));
        std::fs::metadata(seen).map_or(true, |found| found.ino() == metadata.ino() && found.dev() == metadata.dev())
    })
}
