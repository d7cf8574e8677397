//! The load process's reports to its caller while it runs and at the end: lines of JSON. Intervals are reported as they
//! pass, so that those of a long run need not be kept in memory, and a caller that dies has those that it wrote down.

use std::io::Read;

use pagelab_fiojob::Direction;
use serde::{Deserialize, Serialize};

use super::task::WorkerResult;
use crate::error::LoadError;
use crate::report::{Interval, JobReport, WorkerInterval, WorkerReport};

/// The beginning of a line that reports an interval: such lines are passed on unchanged.
const INTERVAL: &[u8] = b"{\"interval\":";

/// A line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    /// A second or so of one direction of a worker.
    Interval(WorkerInterval),
    /// What a worker has measured so far.
    SoFar(Box<WorkerReport>),
    /// A worker's end.
    Result(Box<WorkerResult>),
    /// The end of the run.
    Report(Box<JobReport>),
}

fn line(told: &Told) -> Result<Vec<u8>, LoadError> {
    let mut line =
        serde_json::to_vec(told).map_err(|error| LoadError::Protocol(format!("writing the report: {error}")))?;
    line.push(b'\n');
    Ok(line)
}

/// The line of an interval; empty if it cannot be written down, which nothing of this crate causes.
pub(super) fn interval_line(interval: WorkerInterval) -> Vec<u8> {
    line(&Told::Interval(interval)).unwrap_or_default()
}

/// The line of what a worker has measured so far; empty if it cannot be written down.
pub(super) fn so_far_line(report: WorkerReport) -> Vec<u8> {
    line(&Told::SoFar(Box::new(report))).unwrap_or_default()
}

/// The line of a worker's result.
pub(super) fn result_line(result: WorkerResult) -> Vec<u8> {
    line(&Told::Result(Box::new(result))).unwrap_or_default()
}

/// The line of the report.
pub(crate) fn report_line(report: JobReport) -> Result<Vec<u8>, LoadError> {
    line(&Told::Report(Box::new(report)))
}

/// Bytes that arrive in pieces, as whole lines.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// Adds bytes and gives each line that is complete now to `each`, with its newline.
    fn add<E>(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.0.extend_from_slice(bytes);
        let mut whole = std::mem::take(&mut self.0);
        let end = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.0 = whole.split_off(end);
        whole.split_inclusive(|byte| *byte == b'\n').try_for_each(&mut each)
    }
}

/// The supervisor's messages from one worker.
#[derive(Default)]
pub(super) struct FromWorker {
    lines: Lines,
    so_far: Option<WorkerReport>,
    result: Option<WorkerResult>,
}

impl FromWorker {
    /// Takes bytes; lines that report intervals go on to `pass_on`. Tells whether a report of what was measured so far came.
    pub(super) fn add(&mut self, bytes: &[u8], pass_on: &mut dyn FnMut(&[u8])) -> bool {
        let Self { lines, so_far, result } = self;
        let mut answered = false;
        let Ok(()) = lines.add::<std::convert::Infallible>(bytes, |line| {
            if line.starts_with(INTERVAL) {
                pass_on(line);
                return Ok(());
            }
            match serde_json::from_slice(line) {
                Ok(Told::Result(told)) => *result = Some(*told),
                Ok(Told::SoFar(told)) => (*so_far, answered) = (Some(*told), true),
                _ => {}
            }
            Ok(())
        });
        answered
    }

    /// What it had measured when it was asked last.
    pub(super) fn so_far(&self) -> Option<&WorkerReport> {
        self.so_far.as_ref()
    }

    /// The worker's result, if it came to an end.
    pub(super) fn result(self) -> Option<WorkerResult> {
        self.result
    }
}

/// The caller's messages from the load process.
#[derive(Default)]
pub struct ReportReader {
    lines: Lines,
    report: Option<JobReport>,
}

impl ReportReader {
    /// Takes bytes; intervals go to `each` as they come.
    ///
    /// # Errors
    /// A line is malformed.
    pub fn add(&mut self, bytes: &[u8], mut each: impl FnMut(WorkerInterval)) -> Result<(), LoadError> {
        let Self { lines, report } = self;
        lines.add(bytes, |line| {
            match serde_json::from_slice(line) {
                Ok(Told::Interval(interval)) => each(interval),
                Ok(Told::Report(told)) => *report = Some(*told),
                Ok(Told::Result(_) | Told::SoFar(_)) => {}
                Err(error) => return Err(LoadError::Protocol(format!("the report is not what it should be: {error}"))),
            }
            Ok(())
        })
    }

    /// The report, without intervals.
    ///
    /// # Errors
    /// There was none.
    pub fn finish(self) -> Result<JobReport, LoadError> {
        if !self.lines.0.is_empty() {
            return Err(LoadError::Protocol("the report is not what it should be: it breaks off".to_owned()));
        }
        self.report.ok_or_else(|| {
            LoadError::Protocol("the load process ended without a report; its reason is on standard error".to_owned())
        })
    }
}

/// Reads a report, with the intervals in their places, from the other end of the report descriptor. Read before waiting for the
/// process: a report may be larger than a pipe holds.
///
/// # Errors
/// The process ended without one, or it is not one.
pub fn read_report(from: impl Read) -> Result<JobReport, LoadError> {
    read(from, true)
}

/// As [`read_report`], without the intervals, of which a long run has more than is worth keeping for nobody.
///
/// # Errors
/// As there.
pub fn read_report_alone(from: impl Read) -> Result<JobReport, LoadError> {
    read(from, false)
}

fn read(mut from: impl Read, keep_intervals: bool) -> Result<JobReport, LoadError> {
    let mut reader = ReportReader::default();
    let mut intervals: Vec<WorkerInterval> = Vec::new();
    let mut chunk = vec![0_u8; 1 << 16];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => reader.add(chunk.get(..n).unwrap_or(&[]), |interval| {
                if keep_intervals {
                    intervals.push(interval);
                }
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(LoadError::system("reading the report", error)),
        }
    }
    let mut report = reader.finish()?;
    for WorkerInterval { worker, direction, interval, .. } in intervals {
        if let Some(worker) = report.workers.get_mut(worker) {
            place(worker, direction).push(interval);
        }
    }
    Ok(report)
}

fn place(worker: &mut crate::report::WorkerReport, direction: Direction) -> &mut Vec<Interval> {
    match direction {
        Direction::Read => &mut worker.read.intervals,
        Direction::Write => &mut worker.write.intervals,
        Direction::Trim => &mut worker.trim.intervals,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(worker: usize) -> WorkerInterval {
        let interval = Interval {
            start_ns: 1,
            end_ns: 2,
            operations: 3,
            bytes: 4,
            slat: Vec::new(),
            clat: vec![(5, 6)],
            lat: vec![(7, 8)],
        };
        WorkerInterval { worker, name: "a\nb".to_owned(), clone: 0, direction: Direction::Write, interval }
    }

    #[test]
    fn lines_survive_being_cut_anywhere() {
        let told =
            [interval_line(interval(0)), result_line(WorkerResult::default()), interval_line(interval(1))].concat();
        for size in [1, 7, 64, told.len()] {
            let (mut from, mut passed) = (FromWorker::default(), Vec::new());
            told.chunks(size).for_each(|chunk| {
                from.add(chunk, &mut |line| passed.extend_from_slice(line));
            });
            assert!(from.result().is_some());
            assert_eq!(passed, [interval_line(interval(0)), interval_line(interval(1))].concat());
        }
    }

    #[test]
    fn a_report_that_breaks_off_is_an_error() {
        let whole = interval_line(interval(0));
        assert!(read_report(&whole[..]).expect_err("no report").to_string().contains("without a report"));
        assert!(read_report(&whole[..whole.len() - 3]).expect_err("cut").to_string().contains("breaks off"));
        assert!(read_report(&b""[..]).expect_err("empty").to_string().contains("without a report"));
        assert!(read_report(&b"{}\n"[..]).is_err());
    }
}
