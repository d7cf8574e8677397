//! `mount.<mountpoint>.*`, and the table of mounts that finding cgroups needs as well.

use std::path::Path;

use super::Collector;
use crate::files::{bytes_up_to, under};

/// Tables of hosts with thousands of containers reach some hundred kB.
const LONGEST: usize = 16 << 20;

/// One line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Number of this mount, as statx tells it of a file (`stx_mnt_id`).
    pub(crate) id: u64,
    /// `major:minor` of the file system.
    pub(crate) device: String,
    /// The part of the file system that is mounted.
    pub(crate) root: String,
    /// Where.
    pub(crate) mountpoint: String,
    /// Options of this mount.
    pub(crate) options: Vec<String>,
    /// Type of the file system.
    pub(crate) fs: String,
    /// Device or what else is mounted.
    pub(crate) source: String,
    /// Options of the file system.
    pub(crate) fs_options: Vec<String>,
}

pub(super) fn path_of(pid: Option<u32>) -> String {
    pid.map_or_else(|| "/proc/self/mountinfo".to_owned(), |pid| format!("/proc/{pid}/mountinfo"))
}

pub(crate) fn table(root: &Path, pid: Option<u32>) -> std::io::Result<Vec<Mount>> {
    let bytes = bytes_up_to(&under(root, &path_of(pid)), LONGEST)?;
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(line).collect())
}

fn line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let (id, _parent, device) = (left.next()?.parse().ok()?, left.next()?, left.next()?);
    let (root, mountpoint, options) = (left.next()?, left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (fs, source) = (right.next()?, right.next()?);
    let list = |text: &str| text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    Some(Mount {
        id,
        device: device.to_owned(),
        root: unescape(root),
        mountpoint: unescape(mountpoint),
        options: list(options),
        fs: fs.to_owned(),
        source: unescape(source),
        fs_options: list(right.next().unwrap_or("")),
    })
}

/// `\040` and its like: blanks, tabs, newlines and backslashes are written in octal.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((first, rest)) = left.split_first() {
        let octal = rest.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        let value = octal.map(|digits| digits.iter().fold(0u32, |value, d| value * 8 + u32::from(d - b'0')));
        if let Some(byte) = value.and_then(|value| u8::try_from(value).ok()) {
            out.push(byte);
            left = rest.get(3..).unwrap_or_default();
        } else {
            out.push(*first);
            left = rest;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn read(out: &mut Collector, pid: Option<u32>) {
    let source = path_of(pid);
    // The table lists mounts in the order in which they were made: a later one at the same place lies on top, and the
    // collector keeps the later row.
    let Ok(mounts) = table(out.root, pid) else { return };
    for mount in mounts {
        let mut options: Vec<&str> = mount.options.iter().chain(&mount.fs_options).map(String::as_str).collect();
        options.sort_unstable();
        options.dedup();
        // The file system can be writable under a mount that is not; the mount's word counts for what is below it.
        if options.contains(&"ro") && options.contains(&"rw") {
            let kept = if mount.options.iter().any(|option| option == "ro") { "rw" } else { "ro" };
            options.retain(|option| *option != kept);
        }
        let at = &mount.mountpoint;
        out.value(format!("mount.{at}.options"), options.join(","), &source);
        out.value(format!("mount.{at}.fs"), mount.fs.as_str(), &source);
        out.value(format!("mount.{at}.source"), mount.source.as_str(), &source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_read() {
        let text = "36 35 98:0 /mnt1 /srv/two\\040words rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = line(text).expect("a mount");
        assert_eq!(mount.mountpoint, "/srv/two words");
        assert_eq!((mount.root.as_str(), mount.fs.as_str(), mount.source.as_str()), ("/mnt1", "ext3", "/dev/root"));
        assert_eq!((mount.id, mount.device.as_str()), (36, "98:0"));
        assert_eq!(mount.options, ["rw", "noatime"]);
        assert_eq!(mount.fs_options, ["rw", "errors=continue"]);
        for broken in ["", "36 35", "36 35 98:0 / / rw -", "36 35 98:0 / / rw ext4 /dev/a rw"] {
            assert_eq!(line(broken), None, "{broken:?}");
        }
        assert_eq!(unescape("a\\134b\\04"), "a\\b\\04");
        assert_eq!(unescape("\\777"), "\\777");
    }
}
