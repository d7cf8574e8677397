//! Mounts of hugetlbfs: which there are and what of them is used, making one, and removing one.

use std::ffi::CString;
use std::fmt;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pagelab_vocab::settings::{format_size, parse_size};
use pagelab_vocab::terminal::shell_path;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use serde::Serialize;

use super::HugetlbError;
use super::pools::has_size;
use crate::facts::default_huge_page_bytes;
use crate::files::names;
use pagelab_residency::maps;
use pagelab_residency::mounts::{Mount, table};

/// Magic number of hugetlbfs (include/uapi/linux/magic.h).
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// One mount of hugetlbfs, as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugetlbMount {
    /// Where it is mounted.
    pub mountpoint: String,
    /// Page size as in keys and commands; `None` if the options do not say (before Linux 4.11).
    pub size: Option<String>,
    /// Bytes of a page.
    pub page_bytes: Option<u64>,
    /// Most bytes that its files may have together; `None` if there is no limit.
    pub size_bytes: Option<u64>,
    /// Bytes that it has reserved from the pool for itself; `None` if none were asked for.
    pub min_bytes: Option<u64>,
    /// Most files and folders; `None` if there is no limit.
    pub inodes: Option<u64>,
    /// Permissions of its root when it was made, in octal.
    pub mode: String,
    /// Owner of its root when it was made.
    pub uid: u32,
    /// Group of its root when it was made.
    pub gid: u32,
    /// Whether it can be written.
    pub writable: bool,
    /// What of its limit is used; `None` with the reason in `usage_reason`.
    pub usage: Option<SubpoolUsage>,
    /// Why there is no usage.
    pub usage_reason: Option<String>,
}

/// statfs of a mount with a limit, in pages of its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SubpoolUsage {
    /// The limit.
    pub maximum_pages: u64,
    /// Pages that files have or have reserved.
    pub used_pages: u64,
}

/// How to mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountRequest {
    /// The folder to mount on.
    pub mountpoint: PathBuf,
    /// Bytes of a page; the host's default size if none.
    pub page_bytes: Option<u64>,
    /// Most bytes that its files may have together.
    pub size_bytes: Option<u64>,
    /// Bytes to reserve from the pool at once.
    pub min_bytes: Option<u64>,
    /// Most files and folders.
    pub inodes: Option<u64>,
    /// Owner of the root.
    pub uid: Option<u32>,
    /// Group of the root.
    pub gid: Option<u32>,
    /// Permissions of the root (`0o1777`).
    pub mode: Option<u32>,
    /// Make the folder, and those above it, if it is not there.
    pub make_folder: bool,
}

/// The result of a request: the mount as read back, and where it differs from the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountReport {
    /// The mount as the kernel lists it.
    pub mount: HugetlbMount,
    /// Options as they were asked for.
    pub requested: String,
    /// What the kernel made of it otherwise (sizes are rounded down to whole pages).
    pub differences: Vec<String>,
    /// Whether the folder was made.
    pub made_folder: bool,
}

/// All mounts of hugetlbfs below `root`, in the order of the kernel's table. What is used is asked of this host only.
///
/// # Errors
/// The table cannot be read.
pub fn mounts(root: &Path) -> Result<Vec<HugetlbMount>, HugetlbError> {
    let table = table(root, None).map_err(|error| HugetlbError::unreadable("/proc/self/mountinfo", &error))?;
    Ok(table.iter().filter(|mount| mount.fs == "hugetlbfs").map(|mount| described(root, mount)).collect())
}

fn described(root: &Path, mount: &Mount) -> HugetlbMount {
    // The kernel prints sizes as plain bytes, the page size with a unit.
    let number = |name: &str| mount.option(name)?.parse::<u64>().ok();
    let page_bytes = mount.option("pagesize").and_then(parse_size);
    let (usage, usage_reason) = match usage(root, &mount.mountpoint) {
        Ok(usage) => (Some(usage), None),
        Err(reason) => (None, Some(reason)),
    };
    HugetlbMount {
        mountpoint: mount.mountpoint.clone(),
        size: page_bytes.map(format_size),
        page_bytes,
        size_bytes: number("size"),
        min_bytes: number("min_size"),
        inodes: number("nr_inodes"),
        // What the kernel does not list has the value that it has without the option.
        mode: mount.option("mode").unwrap_or("755").to_owned(),
        uid: number("uid").and_then(|uid| u32::try_from(uid).ok()).unwrap_or(0),
        gid: number("gid").and_then(|gid| u32::try_from(gid).ok()).unwrap_or(0),
        writable: !mount.options.iter().chain(&mount.fs_options).any(|option| option == "ro"),
        usage,
        usage_reason,
    }
}

fn usage(root: &Path, mountpoint: &str) -> Result<SubpoolUsage, String> {
    if root != Path::new("/") {
        return Err("not this host".to_owned());
    }
    let found = rustix::fs::statfs(mountpoint).map_err(|error| format!("statfs: {error}"))?;
    if found.f_type as u64 != HUGETLBFS_MAGIC {
        return Err("something else is mounted over it".to_owned());
    }
    // Without a limit the kernel says 0 blocks, with a minimum alone the largest number.
    match found.f_blocks {
        0 | u64::MAX => Err("it has no limit of its own: the pool's is the limit".to_owned()),
        blocks => Ok(SubpoolUsage { maximum_pages: blocks, used_pages: blocks.saturating_sub(found.f_bfree) }),
    }
}

/// Mounts hugetlbfs, and reads the mount back.
///
/// # Errors
/// No such page size, limits that contradict each other, no folder, no right, a pool with too few pages for the minimum.
pub fn create(request: &MountRequest) -> Result<MountReport, HugetlbError> {
    let root = Path::new("/");
    let Some(page_bytes) = request.page_bytes.or_else(|| default_huge_page_bytes(root)) else {
        return Err(HugetlbError::NoPools { path: super::pools::POOLS.to_owned() });
    };
    has_size(root, page_bytes)?;
    check_limits(request, page_bytes)?;
    let options = options(request, page_bytes);
    let made_folder = prepare_folder(request)?;
    let mounted = alone_at(&request.mountpoint).and_then(|held| {
        let mounted = mount_at(&request.mountpoint, &options, page_bytes);
        drop(held);
        mounted
    });
    let report = mounted.and_then(|()| read_back(request, page_bytes, options));
    match report {
        Ok(report) => Ok(MountReport { made_folder, ..report }),
        Err(error) => {
            if made_folder {
                // Only the last folder goes: those above it hurt nobody, and may be in use by now.
                let _ = std::fs::remove_dir(&request.mountpoint);
            }
            Err(error)
        }
    }
}

/// The options as mount(2) takes them.
fn options(request: &MountRequest, page_bytes: u64) -> String {
    let mut text = format!("pagesize={}K", page_bytes >> 10);
    let numbers = [
        ("size", request.size_bytes),
        ("min_size", request.min_bytes),
        ("nr_inodes", request.inodes),
        ("uid", request.uid.map(u64::from)),
        ("gid", request.gid.map(u64::from)),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            let _ = write!(text, ",{name}={value}");
        }
    }
    if let Some(mode) = request.mode {
        let _ = write!(text, ",mode={mode:o}");
    }
    text
}

fn check_limits(request: &MountRequest, page_bytes: u64) -> Result<(), HugetlbError> {
    let refuse = |found: String, needed: String| Err(HugetlbError::Contradiction { found, needed });
    for (name, bytes) in [("size", request.size_bytes), ("min_size", request.min_bytes)] {
        if let Some(bytes) = bytes.filter(|bytes| *bytes < page_bytes) {
            return refuse(
                format!("{name}={bytes}"),
                format!("at least one page, {page_bytes} bytes; type: {name}={}", format_size(page_bytes)),
            );
        }
    }
    match (request.size_bytes, request.min_bytes) {
        (Some(size), Some(min)) if min > size => {
            refuse(format!("min_size={min}"), format!("at most size={size}; type: min_size={size}"))
        }
        _ if request.mode.is_some_and(|mode| mode > 0o7777) => {
            refuse(format!("mode={:o}", request.mode.unwrap_or(0)), "octal permissions; type: mode=1777".to_owned())
        }
        _ => Ok(()),
    }
}

/// Makes the folder if that was asked for; whether it was made.
fn prepare_folder(request: &MountRequest) -> Result<bool, HugetlbError> {
    let path = request.mountpoint.display().to_string();
    let folder = |found: &str, fix: String| HugetlbError::Folder { path: path.clone(), found: found.to_owned(), fix };
    match std::fs::metadata(&request.mountpoint) {
        Ok(found) if found.is_dir() => Ok(false),
        Ok(_) => Err(folder("a file", "name another place".to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && request.make_folder => {
            std::fs::create_dir_all(&request.mountpoint).map_err(|error| {
                folder(
                    &crate::settings::plain(&error),
                    format!("type: sudo mkdir -p {}", shell_path(&request.mountpoint)),
                )
            })?;
            Ok(true)
        }
        Err(error) => Err(folder(&crate::settings::plain(&error), format!("type: mkdir -p {path}"))),
    }
}

/// The folder, held until this is dropped, so that of two pagelabs one mounts there and the other finds it mounted: a mount
/// over another hides what is on it. The lock is of the folder below; it ends with the process.
fn alone_at(mountpoint: &Path) -> Result<File, HugetlbError> {
    let path = mountpoint.display().to_string();
    let refused = |found: &str, fix: String| HugetlbError::Folder { path: path.clone(), found: found.to_owned(), fix };
    let failed = |error: std::io::Error| HugetlbError::unreadable(&path, &error);
    let folder = File::open(mountpoint).map_err(failed)?;
    match rustix::fs::flock(&folder, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(refused("another pagelab that mounts there", "type: pagelab hugepages mounts list".to_owned()));
        }
        Err(errno) => return Err(failed(errno.into())),
    }
    let there = std::fs::canonicalize(mountpoint).map_err(failed)?;
    if mounts(Path::new("/"))?.iter().any(|mount| Path::new(&mount.mountpoint) == there) {
        let fix = format!("name another place, or type: pagelab hugepages mounts remove {path}");
        return Err(refused("a mount of hugetlbfs", fix));
    }
    Ok(folder)
}

fn mount_at(mountpoint: &Path, options: &str, page_bytes: u64) -> Result<(), HugetlbError> {
    let path = mountpoint.display().to_string();
    let data = CString::new(options).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let Err(errno) = rustix::mount::mount("hugetlbfs", mountpoint, "hugetlbfs", flags, data.as_c_str()) else {
        return Ok(());
    };
    let size = format_size(page_bytes);
    let needed = match errno {
        Errno::PERM | Errno::ACCESS => {
            let found = format!("user {} without CAP_SYS_ADMIN", rustix::process::geteuid().as_raw());
            let command = format!("pagelab hugepages mounts create {path}");
            return Err(HugetlbError::NotRoot { path, found, command });
        }
        Errno::NOMEM => format!(
            "needed a pool of {size} with as many free pages as min_size takes; type: pagelab hugepages plan --bytes N --size {size}"
        ),
        _ => "needed options that this kernel takes; type: pagelab hugepages mounts list".to_owned(),
    };
    let reason = crate::settings::plain(&errno.into());
    Err(HugetlbError::Refused { path, value: options.to_owned(), reason, needed })
}

fn read_back(request: &MountRequest, page_bytes: u64, requested: String) -> Result<MountReport, HugetlbError> {
    let path = std::fs::canonicalize(&request.mountpoint).unwrap_or_else(|_| request.mountpoint.clone());
    // The last one in the table lies on top.
    let found = mounts(Path::new("/"))?.into_iter().rev().find(|mount| Path::new(&mount.mountpoint) == path);
    let Some(mount) = found else {
        let found = "no mount after mounting".to_owned();
        return Err(HugetlbError::NotAMount { path: path.display().to_string(), found });
    };
    let mut differences = Vec::new();
    let mut differs = |name: &str, asked: Option<String>, got: Option<String>| {
        if asked.is_some() && asked != got {
            let word = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
            differences.push(format!("{name}: asked for {}, got {}", word(asked), word(got)));
        }
    };
    let text = |number: Option<u64>| number.map(|number| number.to_string());
    differs("pagesize", Some(format_size(page_bytes)), mount.size.clone());
    differs("size", text(request.size_bytes), text(mount.size_bytes));
    differs("min_size", text(request.min_bytes), text(mount.min_bytes));
    differs("nr_inodes", text(request.inodes), text(mount.inodes));
    differs("uid", request.uid.map(|uid| uid.to_string()), Some(mount.uid.to_string()));
    differs("gid", request.gid.map(|gid| gid.to_string()), Some(mount.gid.to_string()));
    differs("mode", request.mode.map(|mode| format!("{mode:o}")), Some(mount.mode.clone()));
    Ok(MountReport { mount, requested, differences, made_folder: false })
}

/// Unmounts a hugetlbfs. The files on it are gone with it unless it is mounted elsewhere as well.
///
/// # Errors
/// Nothing or something else is mounted there; the mount is busy, with its users; no right.
pub fn remove(mountpoint: &Path, remove_folder: bool) -> Result<HugetlbMount, HugetlbError> {
    let path = mountpoint.display().to_string();
    let there = std::fs::canonicalize(mountpoint).map_err(|error| HugetlbError::unreadable(&path, &error))?;
    let all = table(Path::new("/"), None).map_err(|e| HugetlbError::unreadable("/proc/self/mountinfo", &e))?;
    let mount = match all.iter().rev().find(|mount| Path::new(&mount.mountpoint) == there) {
        Some(mount) if mount.fs == "hugetlbfs" => described(Path::new("/"), mount),
        Some(mount) => return Err(HugetlbError::NotAMount { path, found: format!("a mount of {}", mount.fs) }),
        None => return Err(HugetlbError::NotAMount { path, found: "no mount".to_owned() }),
    };
    match rustix::mount::unmount(&there, UnmountFlags::NOFOLLOW) {
        Ok(()) => {}
        Err(Errno::BUSY) => {
            let who = users(&there).join(", ");
            let who = if who.is_empty() { "somebody who could not be found".to_owned() } else { who };
            return Err(HugetlbError::Busy { path, who });
        }
        Err(Errno::PERM | Errno::ACCESS) => {
            let found = format!("user {} without CAP_SYS_ADMIN", rustix::process::geteuid().as_raw());
            let command = format!("pagelab hugepages mounts remove {path}");
            return Err(HugetlbError::NotRoot { path, found, command });
        }
        Err(errno) => return Err(HugetlbError::unreadable(&path, &errno.into())),
    }
    if remove_folder {
        std::fs::remove_dir(&there).map_err(|error| HugetlbError::Folder {
            path: path.clone(),
            found: format!("{} (it is unmounted)", crate::settings::plain(&error)),
            fix: format!("type: rmdir {path}"),
        })?;
    }
    Ok(mount)
}

/// Processes that map a file of the mount, hold one open or work in it: `process 42 (name): maps /mnt/file`.
fn users(mountpoint: &Path) -> Vec<String> {
    let Ok(device) = std::fs::metadata(mountpoint).map(|found| found.dev()) else { return Vec::new() };
    let pids = names(Path::new("/proc")).into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter_map(|pid| {
        let how = use_of(&Path::new("/proc").join(&pid), device)?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(format!("process {pid} ({}): {how}", name.trim()))
    })
    .collect()
}

/// How a process uses the file system of this device.
fn use_of(process: &Path, device: u64) -> Option<String> {
    let printed = format!("{:02x}:{:02x}", rustix::fs::major(device), rustix::fs::minor(device));
    let mapped = maps::list(process).ok().and_then(|mut mappings| mappings.find(|vma| vma.device == printed));
    if let Some(vma) = mapped {
        return Some(format!("maps {}", vma.path_text()));
    }
    for (link, how) in [("cwd", "works in it"), ("root", "has its root in it")] {
        if std::fs::metadata(process.join(link)).is_ok_and(|found| found.dev() == device) {
            return Some(how.to_owned());
        }
    }
    let open = process.join("fd");
    names(&open).into_iter().find_map(|fd| {
        let link = open.join(fd);
        let on_it = std::fs::metadata(&link).is_ok_and(|found| found.dev() == device);
        let name = std::fs::read_link(&link).unwrap_or_default();
        on_it.then(|| format!("has {} open", name.display()))
    })
}

/// Prints mounts as a table.
pub struct MountTable<'a>(pub &'a [HugetlbMount]);

impl fmt::Display for MountTable<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return writeln!(out, "no hugetlbfs is mounted");
        }
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        writeln!(
            out,
            "{:>8} {:>14} {:>14} {:>8} {:>5} {:>6} {:>6} {:>17}  mount point",
            "pagesize", "size", "min_size", "inodes", "mode", "uid", "gid", "used/limit pages"
        )?;
        for mount in self.0 {
            let used = mount.usage.map(|usage| format!("{}/{}", usage.used_pages, usage.maximum_pages));
            writeln!(
                out,
                "{:>8} {:>14} {:>14} {:>8} {:>5} {:>6} {:>6} {:>17}  {}",
                mount.size.as_deref().unwrap_or("-"),
                number(mount.size_bytes),
                number(mount.min_bytes),
                number(mount.inodes),
                mount.mode,
                mount.uid,
                mount.gid,
                used.as_deref().unwrap_or("-"),
                mount.mountpoint
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for MountReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", MountTable(std::slice::from_ref(&self.mount)))?;
        for difference in &self.differences {
            writeln!(out, "{difference}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    struct Running(Child);

    impl Running {
        fn sleep(folder: &Path, stdin: impl Into<Stdio>) -> Self {
            let mut command = Command::new("sleep");
            command.arg("1000").current_dir(folder).stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
            Self(command.spawn().expect("started"))
        }

        fn uses(&self, mount: &Path) -> Option<String> {
            let device = std::fs::metadata(mount).expect("there").dev();
            use_of(&Path::new("/proc").join(self.0.id().to_string()), device)
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            _ = self.0.kill();
            _ = self.0.wait();
        }
    }

    #[test]
    fn who_uses_a_mount_is_told_with_how_and_nobody_else() {
        let shm = Path::new("/dev/shm");
        let dir = tempfile::tempdir_in(shm).expect("tempdir");
        let path = dir.path().join("file");
        let file = File::create(&path).expect("created");
        let elsewhere = Path::new("/proc");
        let works = Running::sleep(dir.path(), Stdio::null());
        assert_eq!((works.uses(shm).as_deref(), works.uses(elsewhere)), (Some("works in it"), None));
        let opened = Running::sleep(Path::new("/"), file);
        assert_eq!((opened.uses(shm), opened.uses(elsewhere)), (Some(format!("has {} open", path.display())), None));
        let neither = Running::sleep(Path::new("/"), Stdio::null());
        assert_eq!((neither.uses(shm), neither.uses(elsewhere)), (None, None));
    }
}
