//! Files of `/proc` and `/sys` that are read again and again: kept open where that is right, read from offset 0.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// Text beyond this is not read; no file sampled here comes near it even with a thousand CPUs.
const MAX_TEXT: usize = 16 << 20;
/// The first size of the buffer; it doubles when a file does not fit.
const FIRST_TEXT: usize = 64 << 10;

/// Asked of files that fit into one read. The kernel makes a zeroed buffer as long as the request before it formats
/// a sysctl, which for a long request costs ten times the reading itself.
const SHORT_READ: usize = 4 << 10;

/// The buffer that all files are read into, one after another.
pub(super) struct Text {
    buffer: Vec<u8>,
    len: usize,
}

impl Text {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; FIRST_TEXT], len: 0 }
    }

    /// The bytes read last.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// Reads `fd` from offset 0 to its end. A seq_file yields at most its own buffer (4 KiB at first) with each
    /// call, so a short read is not the end; `single` says that it is (attributes of sysfs never exceed a page).
    fn fill(&mut self, fd: impl AsFd, single: bool) -> Result<(), Errno> {
        self.len = 0;
        loop {
            if self.len == self.buffer.len() {
                if self.len >= MAX_TEXT {
                    return Err(Errno::FBIG);
                }
                self.buffer.resize(self.len * 2, 0);
            }
            let end = if single { SHORT_READ } else { self.buffer.len() };
            let Some(free) = self.buffer.get_mut(self.len..end) else { return Err(Errno::FBIG) };
            match rustix::io::pread(&fd, free, self.len as u64) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    self.len += n;
                    if single {
                        return Ok(());
                    }
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// How a file is opened.
enum Access {
    /// Opened once; each read starts again at offset 0.
    Kept(OwnedFd),
    /// Opened for each read, relative to a directory or (`None`) by its whole path.
    Reopened { dir: Option<Arc<OwnedFd>>, name: CString },
}

/// One file.
pub(super) struct SampledFile {
    path: PathBuf,
    access: Access,
    single: bool,
}

impl SampledFile {
    /// Opens `path` and keeps it open.
    pub(super) fn kept(path: &Path) -> Result<Self, Errno> {
        let fd = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path: path.to_owned(), access: Access::Kept(fd), single: false })
    }

    /// Opens `path` anew for each read: for many small files that are read seldom, so that they do not use up the
    /// descriptors that the probes need.
    pub(super) fn reopened(path: &Path) -> Result<Self, Errno> {
        Self::with_dir(None, path, path.as_os_str().as_bytes())
    }

    /// A file of a process's directory. `dir` stands for that very process: once it has ended every access fails,
    /// also when its number has been given to another.
    pub(super) fn kept_in(dir: &Arc<OwnedFd>, path: &Path, name: &str) -> Result<Self, Errno> {
        let fd = openat(dir.as_ref(), name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path: path.join(name), access: Access::Kept(fd), single: false })
    }

    /// Like [`Self::kept_in`], opened anew for each read: an open `smaps_rollup` stays bound to the address space
    /// of its opening, so after an exec it would show one that is gone.
    pub(super) fn reopened_in(dir: &Arc<OwnedFd>, path: &Path, name: &str) -> Result<Self, Errno> {
        Self::with_dir(Some(Arc::clone(dir)), &path.join(name), name.as_bytes())
    }

    fn with_dir(dir: Option<Arc<OwnedFd>>, path: &Path, name: &[u8]) -> Result<Self, Errno> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        let file = Self { path: path.to_owned(), access: Access::Reopened { dir, name }, single: false };
        file.open_again()?;
        Ok(file)
    }

    /// Declares that one short read yields the whole: true of sysctls and of attributes of sysfs.
    pub(super) fn single(mut self) -> Self {
        self.single = true;
        self
    }

    /// For messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the whole file into `text`.
    pub(super) fn read(&self, text: &mut Text) -> Result<(), Errno> {
        match &self.access {
            Access::Kept(fd) => text.fill(fd, self.single),
            Access::Reopened { .. } => text.fill(self.open_again()?, self.single),
        }
    }

    fn open_again(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match &self.access {
            Access::Kept(_) => Err(Errno::BADF),
            Access::Reopened { dir: Some(dir), name } => openat(dir.as_ref(), name.as_c_str(), flags, Mode::empty()),
            Access::Reopened { dir: None, name } => openat(CWD, name.as_c_str(), flags, Mode::empty()),
        }
    }
}

/// A handle of a directory that is only used to open what is in it.
pub(super) fn directory(path: &Path) -> Result<Arc<OwnedFd>, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map(Arc::new)
}

/// The numbers N for which `dir` holds an entry `<prefix>N`, ascending. Empty when `dir` cannot be read.
pub(super) fn numbered(dir: &Path, prefix: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut numbers: Vec<u32> = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str().and_then(|n| n.strip_prefix(prefix)).and_then(|n| n.parse().ok()))
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The page sizes (`2048kB`) for which `dir` holds an entry `hugepages-<size>`, ascending.
pub(super) fn huge_page_sizes(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut sizes: Vec<(u64, String)> = entries
        .flatten()
        .filter_map(|e| {
            let size = e.file_name().to_str()?.strip_prefix("hugepages-")?.to_owned();
            let kib = size.strip_suffix("kB")?.parse().ok()?;
            Some((kib, size))
        })
        .collect();
    sizes.sort_unstable();
    sizes.into_iter().map(|(_, size)| size).collect()
}
