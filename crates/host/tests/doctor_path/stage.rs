//! File systems made for one test: loop devices, mounts, and files laid out on purpose. All of it is gone when the values are dropped.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const MIB: u64 = 1 << 20;

/// Length of an image: xfs with stripes of 2 MiB needs more than 300 MiB. Only what is written takes room.
const IMAGE_BYTES: u64 = 1200 * MIB;

/// Runs a command that has to succeed, and gives its output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A mount; unmounted when dropped.
pub(crate) struct Mounted {
    point: PathBuf,
    // Detached after the unmount: fields are dropped in this order.
    _device: Option<Loop>,
    _folder: tempfile::TempDir,
}

/// A loop device; detached when dropped.
pub(crate) struct Loop {
    pub device: String,
}

impl Loop {
    fn attach(image: &Path, options: &[&str]) -> Self {
        let mut arguments = vec!["--find", "--show"];
        arguments.extend(options);
        let image = image.display().to_string();
        arguments.push(&image);
        Self { device: run("losetup", &arguments) }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.point).status();
        if !done.is_ok_and(|status| status.success()) {
            let _ = Command::new("umount").arg("-l").arg(&self.point).status();
        }
    }
}

impl Mounted {
    /// A file system without a device: `mount -t KIND -o OPTIONS`.
    pub(crate) fn plain(kind: &str, options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let point = folder.path().to_owned();
        run("mount", &["-t", kind, "-o", options, "none", &point.display().to_string()]);
        Self { point, _device: None, _folder: folder }
    }

    /// A new file system in an image, made by `mkfs` (the device is its last argument), on a loop device.
    pub(crate) fn image(mkfs: &[&str], loop_options: &[&str], mount_options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = folder.path().join("image");
        File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES)).expect("image");
        let device = Loop::attach(&image, loop_options);
        let name = device.device.clone();
        Self::on(folder, device, &name, mkfs, mount_options)
    }

    /// The same in a partition that begins at this sector of 512 bytes.
    pub(crate) fn partition(mkfs: &[&str], first_sector: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = folder.path().join("image");
        File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES)).expect("image");
        let device = Loop::attach(&image, &["--partscan"]);
        // Told to the kernel and not written to a table: kernels may be built without any kind of table.
        run(
            "addpart",
            &[&device.device, "1", &first_sector.to_string(), &((IMAGE_BYTES - 10 * MIB) / 512).to_string()],
        );
        let name = format!("{}p1", device.device);
        Self::on(folder, device, &name, mkfs, "rw")
    }

    /// The same, with the partition in a table on the device as well: a command that moves it looks there.
    pub(crate) fn partition_in_table(mkfs: &[&str], first_sector: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = folder.path().join("image");
        File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES)).expect("image");
        let sectors = (IMAGE_BYTES - 10 * MIB) / 512;
        let script = format!(
            "printf 'label: dos\\nstart={first_sector}, size={sectors}\\n' | sfdisk -q --no-reread '{}'",
            image.display()
        );
        run("sh", &["-c", &script]);
        let device = Loop::attach(&image, &["--partscan"]);
        let name = format!("{}p1", device.device);
        if !Path::new(&name).exists() {
            run("addpart", &[&device.device, "1", &first_sector.to_string(), &sectors.to_string()]);
        }
        Self::on(folder, device, &name, mkfs, "rw")
    }

    fn on(folder: tempfile::TempDir, device: Loop, name: &str, mkfs: &[&str], mount_options: &str) -> Self {
        let (program, arguments) = mkfs.split_first().expect("a program");
        let mut arguments = arguments.to_vec();
        arguments.push(name);
        run(program, &arguments);
        let point = folder.path().join("mount");
        std::fs::create_dir(&point).expect("mkdir");
        run("mount", &["-o", mount_options, name, &point.display().to_string()]);
        Self { point, _device: Some(device), _folder: folder }
    }

    /// An overlay over this folder.
    pub(crate) fn overlay(lower: &Path, upper: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (over, work) = (upper.join("over"), upper.join("work"));
        std::fs::create_dir_all(&over).expect("mkdir");
        std::fs::create_dir_all(&work).expect("mkdir");
        let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), over.display(), work.display());
        let point = folder.path().to_owned();
        run("mount", &["-t", "overlay", "-o", &options, "none", &point.display().to_string()]);
        Self { point, _device: None, _folder: folder }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.point
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }
}

/// A file of the kernel's with another value for a while; a value that somebody else has set meanwhile is left.
pub(crate) struct Changed {
    path: &'static str,
    before: String,
    set: String,
}

impl Changed {
    pub(crate) fn to(path: &'static str, value: &str) -> Self {
        let before = present(path);
        std::fs::write(path, value).expect("written");
        Self { path, before, set: present(path) }
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if present(self.path) == self.set {
            let _ = std::fs::write(self.path, &self.before);
        }
    }
}

/// The value, or the word in brackets.
fn present(path: &str) -> String {
    let text = std::fs::read_to_string(path).expect("read");
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    inside.unwrap_or(text.trim()).to_owned()
}

/// A new file, open.
pub(crate) fn create(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(true).open(path).expect("created")
}

/// Bytes that are no zeros, written in pieces of this size.
pub(crate) fn write(file: &File, from: u64, bytes: u64, piece: u64) {
    let data = vec![0xA5_u8; piece as usize];
    let mut at = from;
    while at < from + bytes {
        let now = piece.min(from + bytes - at);
        file.write_all_at(&data[..now as usize], at).expect("written");
        at += now;
    }
}

pub(crate) fn fallocate(file: &File, mode: i32, from: u64, bytes: u64) {
    // SAFETY: takes no pointers.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, from as i64, bytes as i64) };
    assert_eq!(result, 0, "fallocate: {}", std::io::Error::last_os_error());
}

/// Out of the page cache, once it is on the device.
pub(crate) fn cold(file: &File) {
    file.sync_all().expect("synced");
    // SAFETY: takes no pointers.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0);
}

/// Into the page cache in small pages: single blocks, without read-ahead.
pub(crate) fn read_in_small(file: &File, offsets: impl Iterator<Item = u64>) {
    // SAFETY: takes no pointers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
    let mut block = [0; 4096];
    for offset in offsets {
        file.read_exact_at(&mut block, offset).expect("read");
    }
}
