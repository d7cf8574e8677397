//! `--bandwidth-log`: the bandwidth of all workers together, by direction, into `agg-read_bw.log`, `agg-write_bw.log` and
//! `agg-trim_bw.log`, in the format of fio's logs: `time, KiB/s, direction, 0, 0`, time in ms since the run began.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::time::{Duration, Instant};

use pagelab_fiojob::Direction;

use super::spawn::Crew;
use crate::error::LoadError;
use crate::plan::outputs;
use crate::safety;
use crate::shared::Progress;

/// Time between two lines, which is that between two reports of a worker.
const EVERY: Duration = Duration::from_millis(500);

/// The logs.
pub(super) struct Aggregate<'a> {
    crew: &'a Crew<'a>,
    logs: Vec<BufWriter<File>>,
    begun: Instant,
    written: Instant,
    done: Progress,
    failed: Option<std::io::Error>,
}

impl<'a> Aggregate<'a> {
    /// `None` if nobody asked for them.
    ///
    /// # Errors
    /// A log exists and is not pagelab's, or cannot be made.
    pub(super) fn new(crew: &'a Crew<'a>) -> Result<Option<Self>, LoadError> {
        if !crew.bandwidth_log {
            return Ok(None);
        }
        let logs = outputs::AGGREGATES
            .iter()
            .map(|name| safety::make_own(name.as_ref(), crew.state_dir, crew.allow_write).map(BufWriter::new))
            .collect::<Result<Vec<_>, _>>()?;
        let now = Instant::now();
        Ok(Some(Self { crew, logs, begun: now, written: now, done: Progress::default(), failed: None }))
    }

    /// Writes lines if it is time to.
    pub(super) fn tick(&mut self) {
        if self.written.elapsed() >= EVERY {
            self.write();
        }
    }

    fn write(&mut self) {
        let workers = &self.crew.plan.workers;
        let done = workers
            .iter()
            .map(|worker| self.crew.shared.progress(worker.index))
            .fold(Progress::default(), Progress::plus);
        let since = done.since(self.done);
        let now = Instant::now();
        let ms = now.duration_since(self.written).as_millis().max(1);
        let at = now.duration_since(self.begun).as_millis();
        (self.written, self.done) = (now, done);
        for (log, direction) in self.logs.iter_mut().zip(Direction::ALL) {
            let bytes = since.bytes[direction as usize];
            let rate = u128::from(bytes) * 1000 / ms / 1024;
            if let Err(error) = writeln!(log, "{at}, {rate}, {}, 0, 0", direction as usize) {
                self.failed.get_or_insert(error);
            }
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// A log is not complete.
    pub(super) fn finish(mut self) -> Result<(), LoadError> {
        let flushed = self.logs.iter_mut().try_for_each(BufWriter::flush);
        match self.failed.take().map_or(flushed, Err) {
            Ok(()) => Ok(()),
            Err(error) => Err(LoadError::system("writing the logs of --bandwidth-log", error)),
        }
    }
}
