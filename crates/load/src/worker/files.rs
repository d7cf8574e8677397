//! The engines of a worker's files: one is worked on, the others are parked until their turn.

use std::path::Path;

use pagelab_fiojob::JobOptions;

use super::events::flush_failure;
use super::task::Task;
use crate::engines::{Engine, MapReport, Setup, asked, count_slots, mapped_memory};
use crate::error::LoadError;
use crate::fault::Fault;
use crate::offsets::Course;
use crate::report::Failure;

/// The parked engines.
pub(super) struct Files<E> {
    /// By file; `None` for files that are closed and for the one that is worked on.
    parked: Vec<Option<E>>,
    current: usize,
    /// The one that is worked on has nothing more to do: it is closed when the next one takes its place.
    current_done: bool,
    /// By file: nothing was written to it since it was flushed as a whole in this pass.
    flushed: Vec<bool>,
    /// By file: fio has closed it, and it stays open here because it is to be removed at the end of the pass.
    kept_open: Vec<bool>,
    /// The mappings of closed files.
    left: Option<MapReport>,
}

impl<E: Engine> Files<E> {
    /// Opens the files that may be open at the start; gives the first one's engine.
    ///
    /// # Errors
    /// One cannot be opened.
    pub(super) fn open(task: &Task<'_>) -> Result<(E, Self), LoadError> {
        let mut parked = Vec::new();
        let at_start = task.plan.varied.as_ref().map_or(1, |course| course.open_files.max(1));
        for file in 0..task.plan.files.len() {
            parked.push(if file < at_start { Some(open_one::<E>(task, file)?) } else { None });
        }
        let first = parked.first_mut().and_then(Option::take);
        let first = first.ok_or_else(|| LoadError::Protocol("a worker without files".to_owned()))?;
        let none = vec![false; parked.len()];
        let files =
            Self { parked, current: 0, current_done: false, flushed: none.clone(), kept_open: none, left: None };
        Ok((first, files))
    }

    /// The file that is worked on.
    #[inline]
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// The engines of the other open files.
    pub(super) fn others(&mut self) -> impl Iterator<Item = &mut E> {
        self.parked.iter_mut().flatten()
    }

    /// Puts the engine of `file` into `engine`, opening it if it is not open; tells whether it was opened.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn switch(&mut self, task: &Task<'_>, engine: &mut E, file: usize) -> Result<bool, LoadError> {
        let parked = self.parked.get_mut(file).and_then(Option::take);
        let opened = parked.is_none();
        let next = match parked {
            Some(next) => next,
            None => open_one::<E>(task, file)?,
        };
        let before = std::mem::replace(engine, next);
        if std::mem::take(&mut self.current_done) {
            MapReport::merge_into(&mut self.left, before.mapped().as_ref());
        } else if let Some(slot) = self.parked.get_mut(self.current) {
            *slot = Some(before);
        }
        self.current = file;
        Ok(opened)
    }

    /// The file has got a write that no flush of it covers.
    #[inline]
    pub(super) fn note_write(&mut self, file: usize) {
        if let Some(flushed) = self.flushed.get_mut(file) {
            *flushed = false;
        }
    }

    /// The file was flushed after all of its writes.
    pub(super) fn note_flush(&mut self, file: usize) {
        if let Some(flushed) = self.flushed.get_mut(file) {
            *flushed = true;
        }
    }

    /// Whether the file was flushed after all of its writes in this pass.
    pub(super) fn is_flushed(&self, file: usize) -> bool {
        self.flushed.get(file).is_some_and(|flushed| *flushed)
    }

    /// A pass begins: each file is to be flushed in it, as in fio also one that it does not write to.
    pub(super) fn begin_pass(&mut self) {
        self.forget_flushes();
        self.kept_open.fill(false);
    }

    /// Each file is to be flushed once more.
    pub(super) fn forget_flushes(&mut self) {
        self.flushed.fill(false);
    }

    /// Flushes the files that are about to be closed; `engine` is that of the file that is worked on.
    ///
    /// # Errors
    /// One cannot be flushed.
    pub(super) fn flush_closing(&mut self, engine: &mut E) -> Result<(), Fault> {
        for (file, (parked, kept_open)) in self.parked.iter_mut().zip(&self.kept_open).enumerate() {
            let is_current = file == self.current && !self.current_done;
            let open = if is_current { Some(&mut *engine) } else { parked.as_mut() };
            if let (Some(open), false) = (open, *kept_open) {
                open.flush_closing()?;
            }
        }
        Ok(())
    }

    /// Flushes the open files that were not flushed after all of their writes; `engine` is that of the file that is worked on.
    ///
    /// # Errors
    /// One cannot be flushed.
    pub(super) fn flush_open(&mut self, engine: &mut E) -> Result<(), Fault> {
        let current = self.current;
        for (file, (parked, flushed)) in self.parked.iter_mut().zip(&mut self.flushed).enumerate() {
            let open = if file == current { Some(&mut *engine) } else { parked.as_mut() };
            if let (Some(open), false) = (open, *flushed) {
                open.flush(false)?;
                *flushed = true;
            }
        }
        Ok(())
    }

    /// Flushes the closed files that were not flushed after all of their writes. As in fio each is opened for that and closed again,
    /// so that no more files are open than the job allows.
    ///
    /// # Errors
    /// One cannot be opened or flushed.
    pub(super) fn flush_closed(&mut self, task: &Task<'_>) -> Result<(), Failure> {
        for file in 0..self.parked.len() {
            let open = file == self.current || self.parked.get(file).is_some_and(Option::is_some);
            if open || self.is_flushed(file) {
                continue;
            }
            let mut engine = open_one::<E>(task, file).map_err(|error| failure_to_open(&error))?;
            engine.flush(false).map_err(flush_failure)?;
            MapReport::merge_into(&mut self.left, engine.mapped().as_ref());
            self.note_flush(file);
        }
        Ok(())
    }

    /// A file would be closed, but is to be removed at the end of the pass.
    pub(super) fn keep_open(&mut self, file: usize) {
        if let Some(kept_open) = self.kept_open.get_mut(file) {
            *kept_open = true;
        }
    }

    /// Closes a file; the one that is worked on when the next one takes its place.
    pub(super) fn close(&mut self, file: usize) {
        if file == self.current {
            self.current_done = true;
        } else if let Some(engine) = self.parked.get_mut(file).and_then(Option::take) {
            MapReport::merge_into(&mut self.left, engine.mapped().as_ref());
        }
    }

    /// The mappings of all files, `engine`'s included, and the kernel's view of those that are still open.
    pub(super) fn mapped(&self, engine: &E, options: &JobOptions) -> Option<MapReport> {
        let open: Vec<MapReport> = self.parked.iter().flatten().chain([engine]).filter_map(E::mapped).collect();
        let ranges: Vec<(u64, u64)> = open.iter().map(MapReport::range).collect();
        let mut all = None;
        for report in open.iter().chain(&self.left) {
            MapReport::merge_into(&mut all, Some(report));
        }
        let mut all: MapReport = all?;
        match mapped_memory(Path::new("/"), &ranges) {
            Ok(memory) => all.at_end = Some(memory),
            Err(reason) => all.at_end_reason = Some(reason),
        }
        let vmas = all.at_end.as_ref().map_or(0, |memory| memory.vmas);
        match count_slots(&open, vmas, asked(options)) {
            Ok(slots) => all.slots = Some(slots),
            Err(reason) => all.slots_reason = Some(reason),
        }
        Some(all)
    }
}

/// A file that cannot be opened while the job runs, as the end of the job.
pub(super) fn failure_to_open(error: &LoadError) -> Failure {
    let errno = match error {
        LoadError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        _ => libc::EIO,
    };
    Failure { errno, message: error.to_string() }
}

fn open_one<E: Engine>(task: &Task<'_>, file: usize) -> Result<E, LoadError> {
    let plan = task.plan.files.get(file).ok_or_else(|| LoadError::Protocol(format!("no file {file}")))?;
    let course = Course { start: plan.span.start, region_bytes: plan.span.region_bytes, ..task.plan.course };
    E::open(&Setup {
        job: &task.job.name,
        options: &task.job.options,
        path: plan.open_as.as_deref().or(plan.path.as_deref()),
        permit: plan.permit,
        course: &course,
        state_dir: task.state_dir,
        allow_write: task.allow_write,
    })
}
