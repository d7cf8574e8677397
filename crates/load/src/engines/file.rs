//! The open target of engines that work on files.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use pagelab_fiojob::Operation;
use pagelab_fiojob::words::{FadviseHint, SyncMode};
use rustix::fs::{Advice, Mode, OFlags};

use super::{Setup, StartOver};
use crate::error::LoadError;
use crate::fault::Fault;
use crate::safety::{Ownership, Permit, REPLACED, Unopened};

/// An open file as engines of plain system calls use it: with the offset in each call, or at the file's own position.
pub(crate) trait OpenFile: Sized {
    /// Opens the job's target, drops its cached pages and tells the kernel the pattern, as the options say.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn open(setup: &Setup<'_>) -> Result<Self, LoadError>;

    /// The descriptor, ready for a call at `offset`.
    ///
    /// # Errors
    /// The kernel's, or opening the file again failed before.
    fn at(&mut self, offset: u64) -> rustix::io::Result<BorrowedFd<'_>>;

    /// The bytes a call transferred, as engines report them.
    ///
    /// # Errors
    /// [`Fault::EndOfFile`] if that was nothing.
    fn moved(&mut self, done: usize) -> Result<u32, Fault>;

    /// Gives up what the device holds there.
    ///
    /// # Errors
    /// The kernel's: the device cannot discard, or this is no device.
    fn discard(&self, operation: Operation) -> Result<u32, Fault>;

    /// Makes writes durable.
    ///
    /// # Errors
    /// The kernel's.
    fn flush(&self, data_only: bool) -> Result<(), Fault>;

    /// Writes a range of pages back (sync_file_range(2)).
    ///
    /// # Errors
    /// The kernel's.
    fn flush_range(&self, offset: u64, bytes: u64, flags: u32) -> Result<(), Fault>;

    /// Gets ready for the next pass.
    ///
    /// # Errors
    /// The file cannot be opened again.
    fn start_over(&mut self, how: StartOver) -> Result<(), Fault>;
}

/// How often others may remove a file while it is made anew.
const MOST_REMOVALS: u32 = 1000;

/// A file or device, opened as the job asks.
pub(crate) struct TargetFile {
    /// `None` only between closing and opening again.
    fd: Option<OwnedFd>,
    path: PathBuf,
    flags: OFlags,
    /// The permit to open it for writing, if the job writes.
    permit: Option<Permit>,
    start: u64,
    len: u64,
    invalidate: bool,
    advice: Option<Advice>,
    /// Remove the file and make it anew for the next pass, if the job writes.
    anew: bool,
    state_dir: PathBuf,
}

impl TargetFile {
    /// The descriptor.
    ///
    /// # Errors
    /// Opening the file again failed before.
    #[inline(always)]
    pub(crate) fn fd(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        match &self.fd {
            Some(fd) => Ok(fd.as_fd()),
            None => Err(rustix::io::Errno::BADF),
        }
    }

    /// Removes the file, makes it anew and opens it. Between any two of these another worker of the same file may have done the first:
    /// then all is tried again.
    fn open_anew(&self, ownership: &Ownership<'_>) -> Result<OwnedFd, Fault> {
        for _ in 0..MOST_REMOVALS {
            // A file that pagelab did not make stays and is written over.
            let removed = ownership.remove(&self.path);
            let removed = removed.map_err(|error| Fault::Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
            if removed || self.path.symlink_metadata().is_err() {
                ownership.create(&self.path).map_err(|_| Fault::Errno(libc::EIO))?;
            }
            match open_with(&self.path, self.flags, self.permit.as_ref(), ownership) {
                Err(Unopened::Errno(rustix::io::Errno::NOENT)) => {}
                opened => return Ok(opened?),
            }
        }
        Err(Fault::Errno(libc::ENOENT))
    }

    /// Brings the region into the page cache.
    fn pre_read(&self) -> std::io::Result<()> {
        let file = std::fs::File::open(&self.path)?;
        let mut chunk = vec![0_u8; 1 << 20];
        let (mut at, end) = (self.start, self.start.saturating_add(self.len));
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(chunk.len());
            let part = chunk.get_mut(..wanted).unwrap_or(&mut []);
            match std::os::unix::fs::FileExt::read_at(&file, part, at)? {
                0 => break,
                read => at += read as u64,
            }
        }
        Ok(())
    }

    /// Bytes in the file, or of the device.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(crate) fn length(&self) -> rustix::io::Result<u64> {
        rustix::fs::seek(self.fd()?, rustix::fs::SeekFrom::End(0))
    }

    fn advise(&self) {
        self.drop_cached();
        if let (Some(advice), Ok(fd)) = (self.advice, self.fd()) {
            // Advice is advice: file systems that know none say so and the job goes on, as in fio.
            let _ = rustix::fs::fadvise(fd, self.start, std::num::NonZeroU64::new(self.len), advice);
        }
    }

    fn drop_cached(&self) {
        if let (true, Ok(fd)) = (self.invalidate, self.fd()) {
            // Dirty or mapped pages stay; that is what the option means in fio, too.
            let _ = rustix::fs::fadvise(fd, self.start, std::num::NonZeroU64::new(self.len), Advice::DontNeed);
        }
    }
}

impl OpenFile for TargetFile {
    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let path = setup.path.ok_or_else(|| LoadError::Target {
            job: setup.job.to_owned(),
            reason: "the engine works on a file and none was planned".to_owned(),
        })?;
        let pattern = setup.options.rw.0;
        let mut flags = OFlags::CLOEXEC | if setup.options.changes_files() { OFlags::RDWR } else { OFlags::RDONLY };
        if setup.options.is_direct() {
            flags |= OFlags::DIRECT;
        }
        if setup.options.changes_files() {
            flags |= match setup.options.sync {
                SyncMode::None => OFlags::empty(),
                SyncMode::Sync => OFlags::SYNC,
                SyncMode::Dsync => OFlags::DSYNC,
            };
        }
        let ownership = Ownership::new(setup.state_dir);
        if setup.options.create_on_open && setup.options.changes_files() {
            ownership.create(path)?;
        }
        let permit = if setup.options.changes_files() { Some(permit(setup)?) } else { None };
        let advice = match setup.options.fadvise_hint {
            FadviseHint::Off => None,
            FadviseHint::Workload if pattern.is_random() => Some(Advice::Random),
            FadviseHint::Workload | FadviseHint::Sequential => Some(Advice::Sequential),
            FadviseHint::Random => Some(Advice::Random),
            FadviseHint::NoReuse => Some(Advice::NoReuse),
        };
        let fd = open_with(path, flags, permit.as_ref(), &ownership).map_err(|error| match error {
            Unopened::Errno(error) => {
                LoadError::system(format!("opening {}{}", path.display(), hint(flags, error)), error)
            }
            Unopened::Replaced => LoadError::Refused { path: path.to_path_buf(), reason: REPLACED.to_owned() },
        })?;
        let file = Self {
            fd: Some(fd),
            path: path.to_path_buf(),
            flags,
            permit,
            start: setup.course.start,
            len: setup.course.region_bytes,
            // As in fio: data read ahead of the start are to stay.
            invalidate: setup.options.invalidate && !setup.options.pre_read,
            advice,
            anew: setup.options.unlink_each_loop && setup.options.changes_files(),
            state_dir: setup.state_dir.to_path_buf(),
        };
        if setup.options.pre_read {
            file.pre_read().map_err(|error| LoadError::system(format!("reading {} ahead", path.display()), error))?;
        }
        file.advise();
        Ok(file)
    }

    #[inline(always)]
    fn at(&mut self, _: u64) -> rustix::io::Result<BorrowedFd<'_>> {
        self.fd()
    }

    #[inline(always)]
    fn moved(&mut self, done: usize) -> Result<u32, Fault> {
        transferred(done)
    }

    #[cold]
    fn discard(&self, operation: Operation) -> Result<u32, Fault> {
        use std::os::fd::AsRawFd as _;
        /// `_IO(0x12, 119)` of `linux/fs.h`: discard these bytes, from where and how many.
        const BLKDISCARD: libc::Ioctl = 0x1277;
        let range = [operation.offset, u64::from(operation.bytes)];
        // SAFETY: the call reads two numbers of 64 bits behind the pointer and writes nothing to this process.
        let done = unsafe { libc::ioctl(self.fd()?.as_raw_fd(), BLKDISCARD, range.as_ptr()) };
        if done == 0 {
            Ok(operation.bytes)
        } else {
            Err(Fault::Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)))
        }
    }

    fn flush(&self, data_only: bool) -> Result<(), Fault> {
        let fd = self.fd()?;
        if data_only { rustix::fs::fdatasync(fd) } else { rustix::fs::fsync(fd) }.map_err(Fault::from)
    }

    fn flush_range(&self, offset: u64, bytes: u64, flags: u32) -> Result<(), Fault> {
        use std::os::fd::AsRawFd as _;
        let fd = self.fd()?.as_raw_fd();
        let (offset, bytes) = (offset.cast_signed(), bytes.cast_signed());
        // SAFETY: the call has no pointers.
        let done = unsafe { libc::sync_file_range(fd, offset, bytes, flags) };
        if done == 0 {
            Ok(())
        } else {
            Err(Fault::Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)))
        }
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        match how {
            StartOver::Reopen => {
                // Closed first, as in fio: a job never has its file open twice.
                self.fd = None;
                let ownership = Ownership::new(&self.state_dir);
                self.fd = Some(if self.anew {
                    self.open_anew(&ownership)?
                } else {
                    open_with(&self.path, self.flags, self.permit.as_ref(), &ownership)?
                });
                self.advise();
            }
            StartOver::Rewind | StartOver::Reread => self.drop_cached(),
        }
        Ok(())
    }
}

/// The bytes a call transferred, as engines report them: none at all is the end of the file.
#[inline(always)]
pub(super) fn transferred(done: usize) -> Result<u32, Fault> {
    if done == 0 { Err(Fault::EndOfFile) } else { Ok(done as u32) }
}

/// A target for engines that use the file's own position, with that position.
pub(crate) struct PositionedFile {
    file: TargetFile,
    position: u64,
}

impl OpenFile for PositionedFile {
    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        Ok(Self { file: TargetFile::open(setup)?, position: 0 })
    }

    /// lseek(2) only where the position is not there already.
    #[inline(always)]
    fn at(&mut self, offset: u64) -> rustix::io::Result<BorrowedFd<'_>> {
        let fd = self.file.fd()?;
        if self.position != offset {
            rustix::fs::seek(fd, rustix::fs::SeekFrom::Start(offset))?;
            self.position = offset;
        }
        Ok(fd)
    }

    #[inline(always)]
    fn moved(&mut self, done: usize) -> Result<u32, Fault> {
        self.position += done as u64;
        transferred(done)
    }

    fn discard(&self, operation: Operation) -> Result<u32, Fault> {
        self.file.discard(operation)
    }

    fn flush(&self, data_only: bool) -> Result<(), Fault> {
        self.file.flush(data_only)
    }

    fn flush_range(&self, offset: u64, bytes: u64, flags: u32) -> Result<(), Fault> {
        self.file.flush_range(offset, bytes, flags)
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        self.file.start_over(how)?;
        if how == StartOver::Reopen {
            self.position = 0;
        }
        Ok(())
    }
}

/// The right to write this file. Without one nothing is opened for writing.
fn permit(setup: &Setup<'_>) -> Result<Permit, LoadError> {
    let permit = setup.permit.ok_or_else(|| LoadError::Target {
        job: setup.job.to_owned(),
        reason: "the job writes a file that was not checked".to_owned(),
    })?;
    Ok(if setup.options.unlink_each_loop { permit.renewable() } else { permit })
}

fn open_with(
    path: &Path,
    flags: OFlags,
    permit: Option<&Permit>,
    ownership: &Ownership<'_>,
) -> Result<OwnedFd, Unopened> {
    match permit {
        Some(permit) => permit.open(path, flags, ownership),
        None => Ok(rustix::fs::open(path, flags, Mode::empty())?),
    }
}

fn hint(flags: OFlags, error: rustix::io::Errno) -> &'static str {
    if flags.contains(OFlags::DIRECT) && error == rustix::io::Errno::INVAL {
        " with direct=1 (this file system has no direct I/O; use direct=0)"
    } else {
        ""
    }
}
