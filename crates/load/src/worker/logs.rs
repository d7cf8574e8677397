//! `write_lat_log`, `write_bw_log`, `write_iops_log`: samples as text, in fio's format, for tools that read fio's logs.
//!
//! Lines are `time, value, direction, block size, [offset,] priority`: time in ms since measuring began, direction 0 for reads, 1
//! for writes and 2 for trims, priority always 0. Values are nanoseconds for latencies; for each operation 1 in the log of operations, and its bytes
//! over its completion latency in KB/s in the log of bandwidth, 0 where the clock did not move. With `log_avg_msec` there is a line for each stretch of that length
//! and direction in which something was done: mean latency, KiB/s, operations per second; block size and offset are then 0, as in fio.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use pagelab_fiojob::value::LogName;
use pagelab_fiojob::{Direction, Operation};

use super::hist_log::Histograms;
use super::task::Task;
use crate::error::LoadError;
use crate::report::Failure;
use crate::safety;

/// One file.
struct Log {
    out: BufWriter<File>,
    path: PathBuf,
    failed: Option<std::io::Error>,
}

impl Log {
    fn line(&mut self, ms: u64, value: u64, direction: usize, bytes: u32, offset: Option<u64>) {
        if self.failed.is_some() {
            return;
        }
        self.failed = match offset {
            Some(offset) => writeln!(self.out, "{ms}, {value}, {direction}, {bytes}, {offset}, 0"),
            None => writeln!(self.out, "{ms}, {value}, {direction}, {bytes}, 0"),
        }
        .err();
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
    /// Length of a stretch, ns; 0 for a line per operation.
    stretch_ns: u64,
    stretch_from_ns: u64,
    sums: [Sum; Direction::COUNT],
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
            let prefix = match name {
                LogName::None => return Ok(None),
                LogName::Job => &task.job.name,
                LogName::Prefix(prefix) => prefix,
            };
            let path = if o.per_job_logs {
                // As in fio, workers of all jobs are counted from 1.
                PathBuf::from(format!("{prefix}_{kind}.{}.log", task.plan.index + 1))
            } else {
                PathBuf::from(format!("{prefix}_{kind}.log"))
            };
            let file = safety::make_own(&path, task.state_dir)?;
            Ok(Some(Log { out: BufWriter::with_capacity(1 << 16, file), path, failed: None }))
        };
        Ok(Some(Self {
            clat: open(&o.write_lat_log, "clat")?,
            lat: open(&o.write_lat_log, "lat")?,
            slat: open(&o.write_lat_log, "slat")?,
            bandwidth: open(&o.write_bw_log, "bw")?,
            operations: open(&o.write_iops_log, "iops")?,
            histograms: open(&o.write_hist_log, "clat_hist")?
                .map(|log| (log, Histograms::new(o.log_hist_msec, o.log_hist_coarseness))),
            with_offset: o.log_offset,
            stretch_ns: o.log_avg_msec.saturating_mul(1_000_000),
            stretch_from_ns: 0,
            sums: [Sum::default(); Direction::COUNT],
        }))
    }

    /// An operation ended `at_ns` after measuring began.
    pub(super) fn record(&mut self, at_ns: u64, operation: Operation, took: Took) {
        let Took { slat_ns, clat_ns, lat_ns } = took;
        let direction = operation.direction as usize;
        let bytes = u64::from(operation.bytes);
        if let Some((log, histograms)) = &mut self.histograms
            && let Some(line) = histograms.record(at_ns / 1_000_000, operation, clat_ns)
            && log.failed.is_none()
        {
            log.failed = log.out.write_all(line.as_bytes()).err();
        }
        if self.stretch_ns > 0 {
            if at_ns.saturating_sub(self.stretch_from_ns) >= self.stretch_ns {
                self.end_stretch(at_ns);
            }
            let sum = &mut self.sums[direction];
            sum.operations += 1;
            sum.bytes += bytes;
            sum.slat_ns += slat_ns.unwrap_or(0);
            sum.clat_ns += clat_ns;
            sum.lat_ns += lat_ns;
            return;
        }
        let ms = at_ns / 1_000_000;
        let offset = self.with_offset.then_some(operation.offset);
        let kilobytes = kilobytes_per_second(bytes, clat_ns);
        for (log, value) in [
            (&mut self.slat, slat_ns),
            (&mut self.clat, Some(clat_ns)),
            (&mut self.lat, Some(lat_ns)),
            (&mut self.bandwidth, Some(kilobytes)),
            (&mut self.operations, Some(1)),
        ] {
            if let (Some(log), Some(value)) = (log, value) {
                log.line(ms, value, direction, operation.bytes, offset);
            }
        }
    }

    /// Writes the means of the stretch that ends now.
    fn end_stretch(&mut self, now_ns: u64) {
        let ns = now_ns.saturating_sub(self.stretch_from_ns).max(1);
        let ms = now_ns / 1_000_000;
        let offset = self.with_offset.then_some(0);
        let per_second = |amount: u64| (u128::from(amount) * 1_000_000_000 / u128::from(ns)) as u64;
        for (direction, sum) in std::mem::take(&mut self.sums).into_iter().enumerate() {
            if sum.operations == 0 {
                continue;
            }
            // A queue takes time: where the sum is 0 there is none.
            let slat = if sum.slat_ns > 0 { self.slat.as_mut() } else { None };
            if let Some(log) = slat {
                log.line(ms, sum.slat_ns / sum.operations, direction, 0, offset);
            }
            for (log, value) in [
                (&mut self.clat, sum.clat_ns / sum.operations),
                (&mut self.lat, sum.lat_ns / sum.operations),
                (&mut self.bandwidth, per_second(sum.bytes) >> 10),
                (&mut self.operations, per_second(sum.operations)),
            ] {
                if let Some(log) = log {
                    log.line(ms, value, direction, 0, offset);
                }
            }
        }
        self.stretch_from_ns = now_ns;
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// A log is not complete.
    pub(super) fn finish(mut self, at_ns: u64) -> Result<(), Failure> {
        if self.stretch_ns > 0 {
            self.end_stretch(at_ns);
        }
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
