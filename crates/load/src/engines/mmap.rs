//! `ioengine=mmap`: copies from and to a mapping of the file, as a whole or in pieces.

use pagelab_fiojob::words::{Advice, FadviseHint, MapShare};
use pagelab_fiojob::{Caps, Operation, engines as language};

use super::backing::{Backing, FileKind};
use super::file::{OpenFile as _, TargetFile};
use super::pieces::{Pieces, copy};
use super::{Engine, MapReport, Setup, StartOver, Synchronous, explain_plainly};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;
use crate::safety;

/// An open file and its pieces.
pub(crate) struct Mmap {
    file: TargetFile,
    pieces: Pieces,
    shared: bool,
    /// `direct=1`: each operation is written back before it ends.
    direct: bool,
}

impl Engine for Mmap {
    const CAPS: Caps = language::MMAP.caps;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let mut options = setup.options.clone();
        // fio advises the mapping with its hint; explicit advice goes first and stands.
        if let (true, Some(hint)) = (options.map_advice.0.is_empty(), hinted(&options)) {
            options.map_advice.0.push(hint);
        }
        let setup = Setup { options: &options, ..*setup };
        let file = TargetFile::open(&setup)?;
        check_length(&setup, &file)?;
        check_direct(&setup)?;
        let (page, fd) = file
            .fd()
            .and_then(|fd| Ok((safety::mapping_page_bytes(fd), rustix::io::fcntl_dupfd_cloexec(fd, 0)?)))
            .map_err(|error| LoadError::system("duplicating a descriptor", error))?;
        let shared = options.map_share != MapShare::Private;
        let backing = Backing::File { fd, shared, page, kind: FileKind::Named };
        let direct = options.is_direct();
        Ok(Self { pieces: Pieces::new(&setup, backing)?, file, shared, direct })
    }

    fn flush(&mut self, _data_only: bool) -> Result<(), Fault> {
        self.pieces.sync()
    }

    /// As in fio by the file, whose pages the mapped ones are.
    fn flush_closing(&mut self) -> Result<(), Fault> {
        Ok(rustix::fs::fsync(self.file.fd()?)?)
    }

    /// sync_file_range(2) knows nothing of mapped pages: as in fio all of them are written back.
    fn flush_range(&mut self, _offset: u64, _bytes: u64, _flags: u32) -> Result<(), Fault> {
        self.pieces.sync()
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        match how {
            // A further loop maps anew, as in fio: what has been opened, which may be another file.
            StartOver::Reopen => {
                self.pieces.unmap_all()?;
                self.file.start_over(how)?;
                self.pieces.replace_file(self.file.fd()?)?;
                return self.pieces.map_anew();
            }
            // What is mapped stays mapped, as in fio: `invalidate` drops what of the page cache nobody has mapped.
            StartOver::Rewind => {}
            // Writes to a private mapping are nowhere else.
            StartOver::Reread if !self.shared => return Ok(()),
            StartOver::Reread => {
                self.pieces.unmap_all()?;
                self.file.start_over(how)?;
                return self.pieces.map_anew();
            }
        }
        self.file.start_over(how)
    }

    fn mapped(&self) -> Option<MapReport> {
        Some(self.pieces.report())
    }

    fn explain(&self, fault: Fault, operation: Operation) -> String {
        self.pieces.explain(fault).unwrap_or_else(|| explain_plainly(fault, operation))
    }
}

impl Synchronous for Mmap {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        let done = copy(&mut self.pieces, buffer, operation)?;
        if self.direct {
            self.pieces.sync_whole_pages(operation)?;
        }
        Ok(done)
    }
}

fn hinted(options: &pagelab_fiojob::JobOptions) -> Option<Advice> {
    match options.fadvise_hint {
        FadviseHint::Off | FadviseHint::NoReuse => None,
        FadviseHint::Random => Some(Advice::Random),
        FadviseHint::Workload if options.rw.0.is_random() => Some(Advice::Random),
        FadviseHint::Sequential | FadviseHint::Workload => Some(Advice::Sequential),
    }
}

/// msync(2) takes whole pages: fio begins such a job and ends it with EINVAL at the first block that starts inside one.
fn check_direct(setup: &Setup<'_>) -> Result<(), LoadError> {
    let page = rustix::param::page_size() as u64;
    let course = setup.course;
    let is_even = |bytes: &u32| u64::from(*bytes).is_multiple_of(page);
    if !setup.options.is_direct() || (course.block_bytes.iter().all(is_even) && course.start.is_multiple_of(page)) {
        return Ok(());
    }
    let [read, write] = course.block_bytes;
    Err(LoadError::Target {
        job: setup.job.to_owned(),
        reason: format!(
            "direct=1 with ioengine=mmap writes each block back by msync(2), which takes whole pages: found blocks of {read} and {write} bytes from offset {}, needed multiples of {page}; give bs={page}, or direct=0",
            course.start
        ),
    })
}

/// Beyond the end of a file there are no pages: better said before the run than as SIGBUS in it.
pub(super) fn check_length(setup: &Setup<'_>, file: &TargetFile) -> Result<(), LoadError> {
    let end = setup.course.start + setup.course.region_bytes;
    let length = file.length().map_err(|error| LoadError::system("reading the length of the file", error))?;
    if length >= end {
        return Ok(());
    }
    let hint = if setup.options.create_on_open { "; leave create_on_open out" } else { "" };
    Err(LoadError::Target {
        job: setup.job.to_owned(),
        reason: format!("the file has {length} bytes, mapping it needs {end}{hint}"),
    })
}
