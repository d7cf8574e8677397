//! `write_lat_log`, `write_bw_log`, `write_iops_log`: samples as text, in fio's format, for tools that read fio's logs.
//!
//! Lines are `time, value, direction, block size, [offset,] priority`: time in ms since measuring began, direction 0 for reads, 1
//! for writes and 2 for trims, priority always 0. Values are nanoseconds for latencies; for each operation 1 in the log of operations, and its bytes
//! over its completion latency in KB/s in the log of bandwidth, 0 where the clock did not move. With `log_avg_msec` there is a line for each stretch of that length
//! and direction in which something was done: mean latency (the greatest with `log_max_value`), KiB/s, operations per second; block size
//! and offset are then 0, as in fio. `bwavgtime` and `iopsavgtime` make the stretches of those logs shorter. Times count from the
//! start of measuring, or are those of a clock (`log_unix_epoch`, `log_alternate_epoch`).

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use pagelab_fiojob::value::LogName;
use pagelab_fiojob::{Direction, JobOptions, Operation};

use super::hist_log::Histograms;
use super::task::Task;
use crate::error::LoadError;
use crate::plan::outputs;
use crate::report::Failure;
use crate::safety;

/// One file.
struct Log {
    /// It gets whole lines, which it never splits between two calls of write(2): other workers may write the same file.
    out: BufWriter<File>,
    /// The line that is being put together.
    text: String,
    path: Unbegun,
    failed: Option<std::io::Error>,
}

/// The path of a file that goes again if the work never begins: what is refused leaves nothing behind.
pub(super) struct Unbegun {
    path: PathBuf,
    begun: bool,
}

impl Unbegun {
    /// A file that is about to be made; one that is there already stays.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), begun: path.symlink_metadata().is_ok() }
    }

    /// The work begins: the file stays.
    pub(super) fn begin(&mut self) {
        self.begun = true;
    }

    /// For messages.
    pub(super) fn display(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        if !self.begun {
            // It is empty but for a heading; one that cannot be removed harms nobody.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Log {
    fn line(&mut self, ms: u64, value: u64, direction: usize, bytes: u32, offset: Option<u64>) {
        if self.failed.is_some() {
            return;
        }
        self.text.clear();
        // A string takes all that is written to it.
        let _ = match offset {
            Some(offset) => writeln!(self.text, "{ms}, {value}, {direction}, {bytes}, {offset}, 0"),
            None => writeln!(self.text, "{ms}, {value}, {direction}, {bytes}, 0"),
        };
        self.failed = self.out.write_all(self.text.as_bytes()).err();
    }
}

/// Operations in one direction since the stretch began.
#[derive(Default, Clone, Copy)]
struct Sum {
    operations: u64,
    bytes: u64,
    slat_ns: u64,
    clat_ns: u64,
    lat_ns: u64,
    most: Latencies,
}

/// The greatest latencies of operations, ns.
#[derive(Default, Clone, Copy)]
struct Latencies {
    slat: u64,
    clat: u64,
    lat: u64,
}

/// A stretch that ended: its length, ns, and its operations.
type Ended = (u64, [Sum; Direction::COUNT]);

/// Operations of the present stretch of time.
struct Stretch {
    /// Its length, ns; 0 for a line per operation.
    length_ns: u64,
    from_ns: u64,
    sums: [Sum; Direction::COUNT],
}

impl Stretch {
    fn new(length_ms: u64) -> Self {
        Self { length_ns: length_ms.saturating_mul(1_000_000), from_ns: 0, sums: [Sum::default(); Direction::COUNT] }
    }

    /// Counts an operation; gives the stretch that ended before it, with its length, if one did.
    fn add(&mut self, at_ns: u64, operation: Operation, took: Took) -> Option<Ended> {
        let over = self.length_ns > 0 && at_ns.saturating_sub(self.from_ns) >= self.length_ns;
        let ended = if over { Some(self.end(at_ns)) } else { None };
        let sum = &mut self.sums[operation.direction as usize];
        let slat_ns = took.slat_ns.unwrap_or(0);
        sum.operations += 1;
        sum.bytes += u64::from(operation.bytes);
        sum.slat_ns += slat_ns;
        sum.clat_ns += took.clat_ns;
        sum.lat_ns += took.lat_ns;
        sum.most.slat = sum.most.slat.max(slat_ns);
        sum.most.clat = sum.most.clat.max(took.clat_ns);
        sum.most.lat = sum.most.lat.max(took.lat_ns);
        ended
    }

    /// Ends the stretch now.
    fn end(&mut self, now_ns: u64) -> Ended {
        let ns = now_ns.saturating_sub(self.from_ns).max(1);
        self.from_ns = now_ns;
        (ns, std::mem::take(&mut self.sums))
    }
}

/// The latencies of one operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Took {
    /// Until the kernel had it; `None` where there is no queue.
    pub slat_ns: Option<u64>,
    /// From there to its end.
    pub clat_ns: u64,
    /// From its beginning to its end.
    pub lat_ns: u64,
}

/// The logs of a worker.
pub(super) struct Logs {
    clat: Option<Log>,
    lat: Option<Log>,
    /// Stays empty for engines that complete each operation before the next: they have no submission latency. fio makes the file, too.
    slat: Option<Log>,
    bandwidth: Option<Log>,
    operations: Option<Log>,
    histograms: Option<(Log, Histograms)>,
    with_offset: bool,
    /// The greatest latency of a stretch instead of the mean.
    greatest: bool,
    latency_stretch: Stretch,
    bandwidth_stretch: Stretch,
    operations_stretch: Stretch,
    epoch: Epoch,
}

/// What times of lines count from.
#[derive(Clone, Copy)]
enum Epoch {
    /// The start of measuring.
    Start,
    /// The zero of this clock, which is read when the first operation is done.
    Clock(libc::clockid_t),
    /// Measuring began at this many ms of the clock.
    Known(u64),
}

impl Epoch {
    fn of(o: &JobOptions) -> Self {
        match (o.log_alternate_epoch, o.log_unix_epoch) {
            (true, _) => {
                Self::Clock(libc::clockid_t::try_from(o.log_alternate_epoch_clock_id).unwrap_or(libc::CLOCK_REALTIME))
            }
            (false, true) => Self::Clock(libc::CLOCK_REALTIME),
            (false, false) => Self::Start,
        }
    }

    /// The time of a line, ms, `at_ns` after measuring began.
    fn ms(&mut self, at_ns: u64) -> u64 {
        let ms = at_ns / 1_000_000;
        match *self {
            Self::Start => ms,
            Self::Known(start) => start + ms,
            Self::Clock(id) => {
                let start = clock_ms(id).saturating_sub(ms);
                *self = Self::Known(start);
                start + ms
            }
        }
    }
}

/// The time of a clock in ms; 0 for one that the kernel does not know, as in fio.
fn clock_ms(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time there and nothing else.
    let known = unsafe { libc::clock_gettime(id, &raw mut time) } == 0;
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    if known { seconds * 1000 + nanoseconds / 1_000_000 } else { 0 }
}

impl Logs {
    /// The logs that the job asks for; `None` if it asks for none.
    ///
    /// # Errors
    /// A file cannot be made, or exists and is not pagelab's.
    pub(super) fn create(task: &Task<'_>) -> Result<Option<Self>, LoadError> {
        let o = &task.job.options;
        if !o.logs_samples() {
            return Ok(None);
        }
        let open = |name: &LogName, kind: &str| -> Result<Option<Log>, LoadError> {
            let Some(path) = outputs::log(task.job, task.plan.index, name, kind) else { return Ok(None) };
            let unbegun = Unbegun::new(&path);
            let open = if o.per_job_logs { safety::make_own } else { safety::append_own };
            let file = open(&path, task.state_dir, task.allow_write)?;
            let out = BufWriter::with_capacity(1 << 16, file);
            Ok(Some(Log { out, text: String::new(), path: unbegun, failed: None }))
        };
        // As in fio: the less of the two, also if it is 0.
        let shorter =
            |other: Option<u64>| Stretch::new(other.map_or(o.log_avg_msec, |other| other.min(o.log_avg_msec)));
        Ok(Some(Self {
            clat: open(&o.write_lat_log, "clat")?,
            lat: open(&o.write_lat_log, "lat")?,
            slat: open(&o.write_lat_log, "slat")?,
            bandwidth: open(&o.write_bw_log, "bw")?,
            operations: open(&o.write_iops_log, "iops")?,
            histograms: open(&o.write_hist_log, "clat_hist")?
                .map(|log| (log, Histograms::new(o.log_hist_msec, o.log_hist_coarseness))),
            with_offset: o.log_offset,
            greatest: o.log_max_value,
            latency_stretch: Stretch::new(o.log_avg_msec),
            bandwidth_stretch: shorter(o.bwavgtime),
            operations_stretch: shorter(o.iopsavgtime),
            epoch: Epoch::of(o),
        }))
    }

    /// The work begins: the files stay.
    pub(super) fn begin(&mut self) {
        let histograms = self.histograms.as_mut().map(|(log, _)| log);
        let samples = [&mut self.clat, &mut self.lat, &mut self.slat, &mut self.bandwidth, &mut self.operations];
        samples.into_iter().flatten().chain(histograms).for_each(|log| log.path.begin());
    }

    /// An operation ended `at_ns` after measuring began.
    pub(super) fn record(&mut self, at_ns: u64, operation: Operation, took: Took) {
        let direction = operation.direction as usize;
        let bytes = u64::from(operation.bytes);
        let ms = self.epoch.ms(at_ns);
        if let Some((log, histograms)) = &mut self.histograms
            && let Some(line) = histograms.record(ms, operation, took.clat_ns)
            && log.failed.is_none()
        {
            log.failed = log.out.write_all(line.as_bytes()).err();
        }
        let offset = self.with_offset.then_some(operation.offset);
        let latencies = self.latency_stretch.add(at_ns, operation, took);
        let bandwidth = self.bandwidth_stretch.add(at_ns, operation, took);
        let operations = self.operations_stretch.add(at_ns, operation, took);
        self.write_ended(ms, latencies, bandwidth, operations);
        let kilobytes = kilobytes_per_second(bytes, took.clat_ns);
        for (log, stretch, value) in [
            (&mut self.slat, &self.latency_stretch, took.slat_ns),
            (&mut self.clat, &self.latency_stretch, Some(took.clat_ns)),
            (&mut self.lat, &self.latency_stretch, Some(took.lat_ns)),
            (&mut self.bandwidth, &self.bandwidth_stretch, Some(kilobytes)),
            (&mut self.operations, &self.operations_stretch, Some(1)),
        ] {
            if let (Some(log), Some(value), 0) = (log, value, stretch.length_ns) {
                log.line(ms, value, direction, operation.bytes, offset);
            }
        }
    }

    /// Writes the lines of the stretches that ended.
    fn write_ended(&mut self, ms: u64, latencies: Option<Ended>, bandwidth: Option<Ended>, operations: Option<Ended>) {
        let offset = self.with_offset.then_some(0);
        let lines = |log: &mut Option<Log>, ended: Option<Ended>, value: &dyn Fn(u64, &Sum) -> u64, empty_too: bool| {
            let (Some(log), Some((ns, sums))) = (log, ended) else { return };
            for (direction, sum) in sums.iter().enumerate().filter(|(_, sum)| sum.operations > 0) {
                let value = value(ns, sum);
                if value > 0 || empty_too {
                    log.line(ms, value, direction, 0, offset);
                }
            }
        };
        let greatest = self.greatest;
        let latency = |sum: u64, most: u64, operations: u64| if greatest { most } else { sum / operations };
        let per_second = |amount: u64, ns: u64| (u128::from(amount) * 1_000_000_000 / u128::from(ns)) as u64;
        // A queue takes time: where the sum is 0 there is none.
        lines(&mut self.slat, latencies, &|_, sum| latency(sum.slat_ns, sum.most.slat, sum.operations), false);
        lines(&mut self.clat, latencies, &|_, sum| latency(sum.clat_ns, sum.most.clat, sum.operations), true);
        lines(&mut self.lat, latencies, &|_, sum| latency(sum.lat_ns, sum.most.lat, sum.operations), true);
        lines(&mut self.bandwidth, bandwidth, &|ns, sum| per_second(sum.bytes, ns) >> 10, true);
        lines(&mut self.operations, operations, &|ns, sum| per_second(sum.operations, ns), true);
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// A log is not complete.
    pub(super) fn finish(mut self, at_ns: u64) -> Result<(), Failure> {
        let ms = self.epoch.ms(at_ns);
        let mut left = |pick: fn(&mut Self) -> &mut Stretch| {
            let stretch = pick(&mut self);
            if stretch.length_ns > 0 { Some(stretch.end(at_ns)) } else { None }
        };
        let latencies = left(|logs| &mut logs.latency_stretch);
        let bandwidth = left(|logs| &mut logs.bandwidth_stretch);
        let operations = left(|logs| &mut logs.operations_stretch);
        self.write_ended(ms, latencies, bandwidth, operations);
        let histograms = self.histograms.map(|(log, _)| log);
        for mut log in
            [self.clat, self.lat, self.slat, self.bandwidth, self.operations, histograms].into_iter().flatten()
        {
            if let Some(error) = log.failed.take().or_else(|| log.out.flush().err()) {
                return Err(Failure {
                    errno: error.raw_os_error().unwrap_or(libc::EIO),
                    message: format!("writing {}: {error}", log.path.display()),
                });
            }
        }
        Ok(())
    }
}

/// Bandwidth of one operation in KB/s. Over no time at all it is 0, as in fio: no number is right, and the line can
/// still be averaged.
fn kilobytes_per_second(bytes: u64, clat_ns: u64) -> u64 {
    bytes.saturating_mul(1_000_000).checked_div(clat_ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::kilobytes_per_second;

    #[test]
    fn no_time_has_no_bandwidth() {
        assert_eq!(kilobytes_per_second(4096, 0), 0);
        assert_eq!(kilobytes_per_second(4096, 1), 4_096_000_000);
        assert_eq!(kilobytes_per_second(4096, 1000), 4_096_000);
    }
}
