//! Where a buffer's memory comes from (`iomem`).

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pagelab_fiojob::JobOptions;
use pagelab_fiojob::contents::MemoryKind;
use rustix::fs::OFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::error::LoadError;
use crate::hugetlb::{self, Resort};
use crate::safety::{self, Ownership};
use crate::segments;

/// Memory of its own mapping or segment, and the aligned part of it that is used.
pub(super) struct Memory {
    base: *mut u8,
    mapped_bytes: usize,
    start: *mut u8,
    bytes: usize,
    /// Attached by shmat(2).
    segment: bool,
    /// The file behind it, made for it and removed with it.
    file: Option<(PathBuf, PathBuf)>,
}

// SAFETY: the memory belongs to this value alone; moving it to another thread moves that ownership.
unsafe impl Send for Memory {}

impl Memory {
    /// Memory for `len` bytes.
    ///
    /// # Errors
    /// The kernel has no such memory to give, or the file behind it is not pagelab's.
    pub(super) fn new(job: &str, options: &JobOptions, state_dir: &Path, len: usize) -> Result<Self, LoadError> {
        let page = rustix::param::page_size();
        let align = usize::try_from(options.iomem_align.0).unwrap_or(usize::MAX);
        let huge = matches!(options.iomem.kind, MemoryKind::ShmHuge | MemoryKind::MmapHuge);
        let unit = if huge { usize::try_from(options.hugepage_size.0).unwrap_or(usize::MAX).max(page) } else { page };
        // Validation bounds the summands; the alignment is met inside a larger stretch.
        let mapped_bytes =
            len.next_multiple_of(page).saturating_add(if align > page { align } else { 0 }).next_multiple_of(unit);
        let (base, segment, file) = match options.iomem.kind {
            MemoryKind::Shm | MemoryKind::ShmHuge => (attach(job, mapped_bytes, huge.then_some(unit))?, true, None),
            _ => {
                let (base, file) = map(job, options, state_dir, mapped_bytes, huge.then_some(unit))?;
                (base, false, file)
            }
        };
        let offset = (base as usize).next_multiple_of(align.max(1)) - base as usize;
        // SAFETY: `offset` is below the alignment that was added to the length of the mapping.
        let start = unsafe { base.add(offset) };
        Ok(Self { base, mapped_bytes, start, bytes: len.next_multiple_of(page), segment, file })
    }

    /// Its first byte.
    #[inline(always)]
    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    /// All of it.
    #[inline(always)]
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `start` to `start + bytes` is readable and writable memory that lives as long as `self`, and is borrowed
        // exclusively through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped or attached by `new` with this length; nothing refers to it any more. Failure would leave memory mapped until
        // exit, which is harmless.
        unsafe {
            if self.segment {
                let _ = segments::detach(self.base);
            } else {
                let _ = munmap(self.base.cast(), self.mapped_bytes);
            }
        }
        if let Some((path, state_dir)) = &self.file {
            // It was made for this buffer; what cannot be removed stays and is known as pagelab's.
            let _ = Ownership::new(state_dir).remove(path);
        }
    }
}

/// The words for a system call on buffers that failed.
fn failed(job: &str, bytes: usize, error: rustix::io::Errno) -> LoadError {
    LoadError::system(format!("job '{job}': allocating a buffer of {bytes} bytes"), error)
}

/// Words for a hugetlb pool that is too small, or for any other failure.
fn failed_huge(job: &str, bytes: usize, huge: Option<usize>, error: rustix::io::Errno) -> LoadError {
    match huge {
        Some(page) if error == rustix::io::Errno::NOMEM => {
            hugetlb::pool_too_small(Path::new("/"), job, page as u64, (bytes / page) as u64, Resort::None)
        }
        _ => failed(job, bytes, error),
    }
}

fn attach(job: &str, bytes: usize, huge: Option<usize>) -> Result<*mut u8, LoadError> {
    let huge = huge.map(|page| page as u64);
    if let Some(page) = huge {
        hugetlb::check_size(Path::new("/"), job, page)?;
    }
    segments::attach(None, bytes, huge).map_err(|error| segments::refused(job, bytes as u64, 1, huge, error))
}

type MadeFile = Option<(PathBuf, PathBuf)>;

fn map(
    job: &str,
    options: &JobOptions,
    state_dir: &Path,
    bytes: usize,
    huge: Option<usize>,
) -> Result<(*mut u8, MadeFile), LoadError> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let shared = options.iomem.kind == MemoryKind::MmapShared;
    let Some(path) = options.iomem.path.as_deref().map(Path::new) else {
        let mut flags = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        if let Some(page) = huge {
            hugetlb::check_size(Path::new("/"), job, page as u64)?;
            let size = page.trailing_zeros() << libc::MAP_HUGE_SHIFT;
            flags |= MapFlags::from_bits_retain(libc::MAP_HUGETLB as u32 | size);
        }
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }
            .map_err(|error| failed_huge(job, bytes, huge, error))?;
        return Ok((base.cast(), None));
    };
    let (fd, made) = backing(path, state_dir)?;
    rustix::fs::ftruncate(&fd, bytes as u64).map_err(|error| failed_huge(job, bytes, huge, error))?;
    // As in fio: huge and shared mappings of a file are shared, plain ones private.
    let flags = if shared || huge.is_some() { MapFlags::SHARED } else { MapFlags::PRIVATE };
    // SAFETY: as above.
    let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, &fd, 0) };
    match base {
        Ok(base) => Ok((base.cast(), made.then(|| (path.to_path_buf(), state_dir.to_path_buf())))),
        Err(error) => {
            if made {
                let _ = std::fs::remove_file(path);
            }
            Err(failed_huge(job, bytes, huge, error))
        }
    }
}

/// The file behind a buffer, and whether it was made now. Only files that pagelab made are used.
fn backing(path: &Path, state_dir: &Path) -> Result<(OwnedFd, bool), LoadError> {
    let ownership = Ownership::new(state_dir);
    if let (false, Some(fd)) = (path.exists(), safety::nameless_hugetlb_file(path)) {
        return Ok((fd, false));
    }
    if let Some(fd) = ownership.create(path)? {
        return Ok((fd, true));
    }
    Ok((safety::open_own(path, OFlags::RDWR, &[], &ownership)?, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_fiojob::contents::MemorySource;

    #[test]
    fn every_kind_of_small_pages_is_memory() {
        let directory = tempfile::tempdir().expect("tempdir");
        let file = directory.path().join("m");
        let path = || Some(file.display().to_string());
        for (kind, path) in [
            (MemoryKind::Malloc, None),
            (MemoryKind::Shm, None),
            (MemoryKind::Mmap, None),
            (MemoryKind::Mmap, path()),
            (MemoryKind::MmapShared, None),
            (MemoryKind::MmapShared, path()),
        ] {
            let has_file = path.is_some();
            let mut options = JobOptions { iomem: MemorySource { kind, path }, ..JobOptions::default() };
            options.iomem_align.0 = 1 << 16;
            let mut memory = Memory::new("j", &options, directory.path(), 10_000).expect("memory");
            assert_eq!(memory.start() as usize % (1 << 16), 0, "{kind:?}");
            assert!(memory.bytes().len() >= 10_000);
            memory.bytes().fill(7);
            assert_eq!(file.exists(), has_file);
            drop(memory);
            assert!(!file.exists());
        }
    }

    #[test]
    fn a_file_that_is_not_ours_is_no_buffer() {
        let directory = tempfile::tempdir().expect("tempdir");
        let file = directory.path().join("m");
        std::fs::write(&file, "precious").expect("write");
        let iomem = MemorySource { kind: MemoryKind::MmapShared, path: Some(file.display().to_string()) };
        let options = JobOptions { iomem, ..JobOptions::default() };
        assert!(Memory::new("j", &options, directory.path(), 100).is_err());
        assert_eq!(std::fs::read(&file).expect("read"), b"precious");
    }
}
