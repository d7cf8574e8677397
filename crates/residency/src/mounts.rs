//! The mounts that a process sees: the one reader of `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::maps::Vma;

/// Tables of hosts with thousands of containers reach some hundred kB; a longer one is refused.
const LONGEST_BYTES: u64 = 16 << 20;

/// One line of mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Number of this mount, as statx tells it of a file (`stx_mnt_id`).
    pub id: u64,
    /// `major:minor` of the file system, decimal.
    pub device: String,
    /// The part of the file system that is mounted.
    pub root: String,
    /// Where.
    pub mountpoint: String,
    /// Options of this mount.
    pub options: Vec<String>,
    /// Type of the file system.
    pub fs: String,
    /// Device or what else is mounted.
    pub source: String,
    /// Options of the file system.
    pub fs_options: Vec<String>,
}

impl Mount {
    /// The value of an option of the file system, such as `within_size` of `huge=within_size`.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.fs_options.iter().find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
    }

    /// Whether every file is mapped directly (`dax`, `dax=always`). With `dax=inode` a mount does not say.
    pub(crate) fn is_direct_access(&self) -> bool {
        self.fs_options.iter().any(|option| option == "dax" || option == "dax=always")
    }
}

/// The mounts that the process `pid` sees, or this one, below `root` (`/` for this host). Mounts are in the order in which they were
/// made: of two at the same place the later one lies on top.
///
/// # Errors
/// The file cannot be read, or is longer than 16 MiB.
pub fn table(root: &Path, pid: Option<u32>) -> io::Result<Vec<Mount>> {
    of_folder(&root.join("proc").join(pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string())))
}

/// The same for the process whose folder is `folder`.
///
/// # Errors
/// As of [`table`].
pub(crate) fn of_folder(folder: &Path) -> io::Result<Vec<Mount>> {
    let mut bytes = Vec::new();
    File::open(folder.join("mountinfo"))?.take(LONGEST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {LONGEST_BYTES} bytes")));
    }
    Ok(parse(&String::from_utf8_lossy(&bytes)))
}

/// The mounts in a text of mountinfo; a line of another form is left out.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

/// The mount that `path`, an absolute one without links, lies in; of several at one place the one on top.
pub fn of_path<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let depth = |mount: &&Mount| PathBuf::from(&mount.mountpoint).components().count();
    mounts.iter().filter(|mount| path.starts_with(&mount.mountpoint)).max_by_key(depth)
}

/// The first mount of the file system that the file under `vma` lies on.
pub(crate) fn of_vma<'a>(mounts: &'a [Mount], vma: &Vma) -> Option<&'a Mount> {
    let device = device(&vma.device)?;
    mounts.iter().find(|mount| mount.device == device)
}

/// `1:2b` as smaps prints a device, in hexadecimal, to `1:43` as mountinfo does.
fn device(smaps: &str) -> Option<String> {
    let (major, minor) = smaps.split_once(':')?;
    Some(format!("{}:{}", u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?))
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
        assert_eq!((mount.option("errors"), mount.option("err")), (Some("continue"), None));
        for broken in ["", "36 35", "36 35 98:0 / / rw -", "36 35 98:0 / / rw ext4 /dev/a rw"] {
            assert_eq!(line(broken), None, "{broken:?}");
        }
        assert_eq!(unescape("a\\134b\\04"), "a\\b\\04");
        assert_eq!(unescape("\\777"), "\\777");
    }

    #[test]
    fn the_mount_of_a_file_is_found_by_its_device_and_by_its_path() {
        let mounts = parse(
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
             30 22 0:45 / /data rw - tmpfs none rw,huge=always\n\
             31 22 259:0 / /data rw - ext4 /dev/pmem0 rw,dax=always\n\
             32 22 259:1 / /inode rw - xfs /dev/pmem1 rw,dax=inode\n",
        );
        let on =
            |device: &str| of_vma(&mounts, &Vma { device: device.to_owned(), ..Vma::default() }).map(|mount| mount.id);
        assert_eq!(
            (on("00:2d"), on("103:00"), on("fe:00"), on("00:2e"), on("")),
            (Some(30), Some(31), Some(22), None, None)
        );
        let at = |path: &str| of_path(&mounts, Path::new(path)).map(|mount| mount.id);
        assert_eq!((at("/data/x"), at("/database"), at("/inode")), (Some(31), Some(22), Some(32)), "the one on top");
        let direct: Vec<u64> = mounts.iter().filter(|one| one.is_direct_access()).map(|one| one.id).collect();
        assert_eq!(direct, [31]);
    }

    #[test]
    fn a_table_is_read_below_a_root() {
        let dir = tempfile::tempdir().expect("tempdir");
        crate::testing::write(dir.path(), "proc/7/mountinfo", "22 1 254:0 / / rw - ext4 /dev/vda rw\n");
        assert_eq!(table(dir.path(), Some(7)).map(|mounts| mounts.len()).ok(), Some(1));
        assert!(table(dir.path(), None).is_err() && !table(Path::new("/"), None).expect("this process").is_empty());
    }
}
