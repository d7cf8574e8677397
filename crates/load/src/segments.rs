//! System V shared memory: segments that nobody leaves behind, and the limits that they keep to.
//!
//! A segment lives until it is marked for removal and the last process has detached it. Here it is marked as soon as it
//! is attached, so that it ends with the process however that ends, `kill -9` included. That leaves the moment between
//! shmget(2) and shmctl(IPC_RMID). A load process whose jobs make segments therefore works in an IPC namespace of its
//! own; the kernel destroys it, with every segment in it, when its last process is gone (ipc_namespaces(7)). Making one
//! needs CAP_SYS_ADMIN; without it segments are made in the host's namespace, and the report says so.
//!
//! A new namespace starts with the kernel's own limits and an empty table. The host's limits are meant to hold for
//! everything that runs on the host: they are read before, and the remainder is set in the namespace (kernel.shmmax,
//! shmall, shmmni).

use std::path::Path;
use std::sync::OnceLock;

use pagelab_fiojob::contents::MemoryKind;
use pagelab_fiojob::{Caps, JobSpec, Workload};
use rustix::io::Errno;

use crate::error::LoadError;
use crate::hugetlb::{self, Resort};

/// Most segments that kernel.shmmni can allow, unless the kernel was started with ipcmni_extend (IPCMNI of linux/ipc_namespace.h).
const MOST_SEGMENTS: u64 = 1 << 15;

/// The limits of an IPC namespace and what of them is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    /// kernel.shmmax: bytes of the largest segment.
    pub most_bytes: u64,
    /// kernel.shmall: base pages of all segments.
    pub all_pages: u64,
    /// kernel.shmmni: number of segments.
    pub segments: u64,
    /// Base pages of the segments that there are.
    pub used_pages: u64,
    /// The segments that there are.
    pub used_segments: u64,
}

impl Limits {
    /// Those of this process's namespace. `root` is where `/proc` is looked for.
    ///
    /// # Errors
    /// In words: the kernel does not tell.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let text = |name: &str| {
            let path = root.join("proc").join(name);
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let number = |name: &str| -> Result<u64, String> {
            let text = text(name)?;
            text.trim().parse().map_err(|_| format!("/proc/{name}: '{}' is not a number", text.trim()))
        };
        let page = rustix::param::page_size() as u64;
        let table = text("sysvipc/shm")?;
        // A heading, then a line for each segment: key, id, permissions, bytes, and more.
        let mut sizes = Vec::new();
        for line in table.lines().skip(1) {
            let bytes = line.split_whitespace().nth(3).and_then(|word| word.parse::<u64>().ok());
            sizes.push(bytes.ok_or_else(|| format!("/proc/sysvipc/shm: no size in '{line}'"))?);
        }
        Ok(Self {
            most_bytes: number("sys/kernel/shmmax")?,
            all_pages: number("sys/kernel/shmall")?,
            segments: number("sys/kernel/shmmni")?,
            used_pages: sizes.iter().map(|bytes| bytes.div_ceil(page)).sum(),
            used_segments: sizes.len() as u64,
        })
    }

    /// Makes what these limits leave the limits of the namespace that this process is in now.
    fn leave_over(&self, root: &Path) -> Result<(), String> {
        for (name, value) in [
            ("shmmax", self.most_bytes),
            ("shmall", self.all_pages.saturating_sub(self.used_pages)),
            ("shmmni", self.segments.saturating_sub(self.used_segments)),
        ] {
            let path = root.join("proc/sys/kernel").join(name);
            std::fs::write(&path, value.to_string()).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// The limits of the namespace that this process came from, if it left it.
static HOST: OnceLock<Limits> = OnceLock::new();

/// Whether a job makes segments: to work on or for its buffers.
fn makes_segments(job: &JobSpec) -> bool {
    let caps = job.options.caps();
    let buffers = matches!(job.options.iomem.kind, MemoryKind::Shm | MemoryKind::ShmHuge);
    caps.contains(Caps::SEGMENTS) || buffers
}

/// Moves the calling process, before it has threads or children, into an IPC namespace of its own, if one of its jobs makes segments.
/// Gives what the user should know: that the kernel refused it, or that the host's limits could not be taken along.
pub(crate) fn separate(workload: &Workload) -> Vec<String> {
    if !workload.jobs.iter().any(makes_segments) {
        return Vec::new();
    }
    let limits = Limits::read(Path::new("/"));
    // SAFETY: a plain system call; nothing of this process refers to segments, semaphores or queues of its old namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWIPC) } != 0 {
        let error = std::io::Error::last_os_error();
        return vec![format!(
            "SysV segments are not in an IPC namespace of their own ({error}; needed CAP_SYS_ADMIN: run as root): a kill -9 between the making and the marking of one leaves it behind; look with ipcs -m, remove with ipcrm -m ID"
        )];
    }
    let taken_along = limits.and_then(|limits| {
        limits.leave_over(Path::new("/"))?;
        HOST.get_or_init(|| limits);
        Ok(())
    });
    match taken_along {
        Ok(()) => Vec::new(),
        Err(reason) => {
            vec![format!("limits of SysV segments are the kernel's defaults and not this host's: {reason}")]
        }
    }
}

/// Makes a private segment and attaches it, at `address` if one is given (where nothing may be mapped), else where the kernel likes. It is
/// marked for removal before this returns. `huge` is a hugetlb page size, of which `bytes` is then a multiple.
///
/// # Errors
/// The kernel's; [`refused`] has words for them.
pub(crate) fn attach(address: Option<u64>, bytes: usize, huge: Option<u64>) -> Result<*mut u8, Errno> {
    let last = || Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOMEM);
    let mut flags = libc::IPC_CREAT | 0o600;
    if let Some(page) = huge {
        flags |= libc::SHM_HUGETLB | ((page.trailing_zeros() as libc::c_int) << libc::MAP_HUGE_SHIFT);
    }
    let wanted = address.map_or(std::ptr::null(), |address| address as *const libc::c_void);
    // SAFETY: plain system calls. Without SHM_REMAP, shmat fails rather than replace a mapping.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, bytes, flags);
        if id < 0 {
            return Err(last());
        }
        let base = libc::shmat(id, wanted, 0);
        let error = last();
        libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        if base as isize == -1 { Err(error) } else { Ok(base.cast()) }
    }
}

/// Detaches the segment at this address, which removes it.
///
/// # Errors
/// There is none.
///
/// # Safety
/// [`attach`] gave the address, and nothing refers to the memory any more.
pub(crate) unsafe fn detach(address: *mut u8) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    if unsafe { libc::shmdt(address.cast()) } == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

/// Why the kernel gave no segment of `bytes` bytes: which limit was met, and how to raise it. `wanted` is how many of them were still to
/// be made.
pub(crate) fn refused(job: &str, bytes: u64, wanted: u64, huge: Option<u64>, error: Errno) -> LoadError {
    let what = format!("job '{job}': a SysV segment of {bytes} bytes");
    match (error, huge) {
        (Errno::NOMEM, Some(page)) => hugetlb::pool_too_small(
            Path::new("/"),
            job,
            page,
            wanted.saturating_mul(bytes.div_ceil(page)),
            Resort::None,
        ),
        (Errno::PERM, Some(_)) => {
            let group = std::fs::read_to_string("/proc/sys/vm/hugetlb_shm_group");
            LoadError::Host {
                what,
                found: format!(
                    "no right to hugetlb segments (vm.hugetlb_shm_group is {})",
                    group.as_deref().map_or("not readable", str::trim)
                ),
                needed: "CAP_IPC_LOCK, or that group".to_owned(),
                command: "run as root, or sysctl -w vm.hugetlb_shm_group=$(id -g)".to_owned(),
            }
        }
        (Errno::INVAL | Errno::NOSPC, _) => match Limits::read(Path::new("/")) {
            Ok(now) => limit_met(&what, bytes, wanted, error, &now, HOST.get())
                .unwrap_or_else(|| LoadError::system(what, error)),
            Err(reason) => LoadError::system(format!("{what} ({reason})"), error),
        },
        _ => LoadError::system(what, error),
    }
}

/// The limit that `error` comes from. `now` is what holds in this process's namespace, `host` what held in the one that it came from.
fn limit_met(
    what: &str,
    bytes: u64,
    wanted: u64,
    error: Errno,
    now: &Limits,
    host: Option<&Limits>,
) -> Option<LoadError> {
    let of_host = host.unwrap_or(now);
    let [used_segments, used_pages] = host.map_or([now.used_segments, now.used_pages], |host| {
        [host.used_segments + now.used_segments, host.used_pages + now.used_pages]
    });
    let pages = bytes.div_ceil(rustix::param::page_size() as u64);
    let (found, needed, command) = if error == Errno::INVAL {
        if bytes <= now.most_bytes {
            return None;
        }
        let found = format!("kernel.shmmax is {}", of_host.most_bytes);
        (found, bytes.to_string(), format!("sysctl -w kernel.shmmax={bytes}"))
    } else if now.used_segments >= now.segments {
        let needed = used_segments + wanted;
        let found =
            format!("kernel.shmmni is {}, {used_segments} segments in use, this run's among them", of_host.segments);
        let command = if needed > MOST_SEGMENTS {
            format!("use a larger map_granularity=: the kernel has at most {MOST_SEGMENTS} segments")
        } else {
            format!("sysctl -w kernel.shmmni={needed}, or a larger map_granularity=")
        };
        (found, format!("{needed}: {wanted} more of this size, one for each piece or buffer"), command)
    } else {
        let needed = used_pages.saturating_add(pages.saturating_mul(wanted));
        let found = format!("kernel.shmall is {} pages, {used_pages} in use", of_host.all_pages);
        (found, format!("{needed} pages"), format!("sysctl -w kernel.shmall={needed}"))
    };
    Some(LoadError::Host { what: what.to_owned(), found, needed, command })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(shmmax: &str, shmmni: &str, table: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("tempdir");
        for directory in ["proc/sys/kernel", "proc/sysvipc"] {
            std::fs::create_dir_all(root.path().join(directory)).expect("mkdir");
        }
        for (name, text) in [
            ("sys/kernel/shmmax", shmmax),
            ("sys/kernel/shmall", "18446744073692774399\n"),
            ("sys/kernel/shmmni", shmmni),
            ("sysvipc/shm", table),
        ] {
            std::fs::write(root.path().join("proc").join(name), text).expect("write");
        }
        root
    }

    const HEADING: &str = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n";

    #[test]
    fn limits_are_read_with_what_is_in_use() {
        let table = format!(
            "{HEADING}         0    2818066  1600               1536456   961   961      1     0     0     0     0 1795282065          0 1795282065               1540096                     0\n1795162113          1   600                  4096     1     1      0     0     0     0     0          0          0 1795282065                     0                     0\n"
        );
        let root = kernel("33554432\n", "4096\n", &table);
        let limits = Limits::read(root.path()).expect("read");
        // 1536456 bytes are 375.1 pages of 4 KiB.
        let pages = 1_536_456_u64.div_ceil(rustix::param::page_size() as u64) + 1;
        assert_eq!((limits.most_bytes, limits.segments), (33_554_432, 4096));
        assert_eq!((limits.used_segments, limits.used_pages), (2, pages));
        limits.leave_over(root.path()).expect("write");
        let left = |name: &str| std::fs::read_to_string(root.path().join("proc/sys/kernel").join(name)).expect("read");
        assert_eq!((left("shmmni").as_str(), left("shmmax").as_str()), ("4094", "33554432"));
        assert_eq!(left("shmall"), (18_446_744_073_692_774_399 - pages).to_string());
        for (shmmax, table) in [("many\n", HEADING), ("1\n", "key\n  0 1 600 none\n")] {
            assert!(Limits::read(kernel(shmmax, "1\n", table).path()).is_err());
        }
    }

    #[test]
    fn each_limit_has_its_words() {
        let host = Limits { most_bytes: 1 << 20, all_pages: 1000, segments: 10, used_pages: 300, used_segments: 4 };
        let now = |used_pages, used_segments| Limits {
            all_pages: 700,
            segments: 6,
            used_pages,
            used_segments,
            ..host.clone()
        };
        let words = |bytes, wanted, error, now: &Limits| {
            limit_met("x", bytes, wanted, error, now, Some(&host)).map(|error| error.to_string())
        };
        let page = rustix::param::page_size() as u64;
        let has = |said: Option<String>, parts: &[&str]| {
            let said = said.expect("a limit");
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        };
        has(words(2 << 20, 1, Errno::INVAL, &now(0, 0)), &["shmmax is 1048576", "-w kernel.shmmax=2097152"]);
        assert_eq!(words(1 << 20, 1, Errno::INVAL, &now(0, 0)), None, "EINVAL has other causes, too");
        has(words(page, 8, Errno::NOSPC, &now(6, 6)), &["shmmni is 10, 10 segments in use", "-w kernel.shmmni=18"]);
        has(words(page, 1 << 16, Errno::NOSPC, &now(6, 6)), &["larger map_granularity", "at most 32768"]);
        has(words(8 * page, 2, Errno::NOSPC, &now(699, 1)), &["shmall is 1000 pages, 999 in", "kernel.shmall=1015"]);
    }

    #[test]
    fn a_segment_is_attached_where_it_is_wanted_and_is_already_marked() {
        let base = attach(None, 10_000, None).expect("a segment");
        // SAFETY: attached just now, of at least that many bytes.
        unsafe { base.add(9_999).write(7) };
        let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
        let line = maps.lines().find(|line| line.starts_with(&format!("{:x}-", base as u64))).expect("mapped");
        assert!(line.contains("/SYSV00000000 (deleted)"), "{line}");
        assert!(attach(Some(base as u64), 10_000, None).is_err(), "nothing is replaced");
        // SAFETY: attached above and not used any more.
        unsafe {
            detach(base).expect("detached");
            assert!(detach(base).is_err());
        }
        let again = attach(Some(base as u64), 10_000, None).expect("the place is free");
        assert_eq!(again, base);
        // SAFETY: as above.
        unsafe { detach(again).expect("detached") };
    }
}
