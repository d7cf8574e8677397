//! `write_iolog`: every operation as it is issued, in fio's format 3, which fio's `read_iolog` replays.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::time::Instant;

use pagelab_fiojob::Operation;

use super::logs::Unbegun;
use super::task::Task;
use crate::error::LoadError;
use crate::plan::outputs;
use crate::report::Failure;
use crate::safety;

/// A log that is being written.
pub(super) struct IoLog {
    out: BufWriter<File>,
    path: Unbegun,
    names: Vec<String>,
    started: Instant,
    /// The first error; what comes after it is lost anyway.
    failed: Option<std::io::Error>,
}

impl IoLog {
    /// Creates the log; workers of a job beyond the first put their number behind the name.
    ///
    /// # Errors
    /// The file cannot be made, or exists and is not pagelab's.
    pub(super) fn create(task: &Task<'_>, name: &str) -> Result<Self, LoadError> {
        let path = outputs::iolog(name, task.plan.clone);
        let unbegun = Unbegun::new(&path);
        let file = safety::make_own(&path, task.state_dir, task.allow_write)?;
        let names = task
            .plan
            .files
            .iter()
            .enumerate()
            .map(|(number, file)| match &file.path {
                Some(path) => path.display().to_string(),
                None => format!("{}.{}.{number}", task.job.name, task.plan.clone),
            })
            .collect();
        let mut log = Self {
            out: BufWriter::with_capacity(1 << 16, file),
            path: unbegun,
            names,
            started: Instant::now(),
            failed: None,
        };
        log.put(format_args!("fio version 3 iolog\n"));
        for file in 0..log.names.len() {
            log.act(file, "add");
        }
        let open = task.plan.varied.as_ref().map_or(1, |course| course.open_files);
        for file in 0..log.names.len().min(open) {
            log.opened(file);
        }
        Ok(log)
    }

    /// The work begins: the file stays.
    pub(super) fn begin(&mut self) {
        self.path.begin();
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        if self.failed.is_none() {
            self.failed = self.out.write_fmt(text).err();
        }
    }

    /// fio 3.33 writes microseconds here, although its manual says milliseconds.
    fn act(&mut self, file: usize, act: &str) {
        let at = self.started.elapsed().as_micros();
        let name = self.names.get(file).cloned().unwrap_or_default();
        self.put(format_args!("{at} {name} {act}\n"));
    }

    /// A file was opened.
    pub(super) fn opened(&mut self, file: usize) {
        self.act(file, "open");
    }

    /// A file was closed.
    pub(super) fn closed(&mut self, file: usize) {
        self.act(file, "close");
    }

    /// A file is flushed.
    pub(super) fn flush(&mut self, file: usize, data_only: bool) {
        self.act(file, if data_only { "datasync 0 0" } else { "sync 0 0" });
    }

    /// All files are flushed.
    pub(super) fn flush_all(&mut self) {
        for file in 0..self.names.len() {
            self.flush(file, false);
        }
    }

    /// An operation is issued.
    pub(super) fn operation(&mut self, file: usize, operation: Operation) {
        let at = self.started.elapsed().as_micros();
        if self.failed.is_none() {
            let name = self.names.get(file).map_or("", String::as_str);
            let (act, offset, bytes) = (operation.direction.name(), operation.offset, operation.bytes);
            self.failed = writeln!(self.out, "{at} {name} {act} {offset} {bytes}").err();
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The log is not complete.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let failed = self.failed.take().or_else(|| self.out.flush().err());
        match failed {
            None => Ok(()),
            Some(error) => Err(Failure {
                errno: error.raw_os_error().unwrap_or(libc::EIO),
                message: format!("writing {}: {error}", self.path.display()),
            }),
        }
    }
}
