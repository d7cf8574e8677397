//! What a worker gets and gives.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pagelab_fiojob::words::ExitWhat;
use pagelab_fiojob::{Direction, JobSpec};

use crate::clock::Clock;
use crate::plan::WorkerPlan;
use crate::report::{Interval, WorkerInterval, WorkerReport};
use crate::shared::{Shared, Stage, State};
use crate::worker::told;

/// Everything a worker needs to know.
pub(crate) struct Task<'a> {
    /// Its plan.
    pub plan: &'a WorkerPlan,
    /// Its job.
    pub job: &'a JobSpec,
    /// The plans of all workers.
    pub crew: &'a [WorkerPlan],
    /// Some job has `exitall`: in fio that holds for all.
    pub exitall: bool,
    /// The clock that times its operations.
    pub clock: Clock,
    /// The state it shares with the supervisor and the other workers.
    pub shared: &'a Shared,
    /// Where files made by pagelab are remembered if the file system cannot.
    pub state_dir: &'a Path,
    /// What the user named to be written.
    pub allow_write: &'a [PathBuf],
    /// Where it tells how it goes.
    pub out: File,
}

impl Task<'_> {
    /// Tells the supervisor of an interval.
    pub(crate) fn tell(&self, direction: Direction, interval: Interval) {
        let told = WorkerInterval {
            worker: self.plan.index,
            name: self.job.name.clone(),
            clone: self.plan.clone,
            direction,
            interval,
        };
        self.write(&told::interval_line(told));
    }

    /// Tells the supervisor what was measured so far.
    pub(crate) fn tell_so_far(&self, report: WorkerReport) {
        self.write(&told::so_far_line(report));
    }

    /// Gives the supervisor this worker's result.
    pub(crate) fn give(&self, result: WorkerResult) {
        self.write(&told::result_line(result));
    }

    fn write(&self, line: &[u8]) {
        // A pipe that nobody reads any more means that the supervisor is gone, and this worker is about to go, too.
        let _ = (&self.out).write_all(line);
    }

    /// The requests to this worker; 0 while there are none.
    pub(crate) fn requests(&self) -> &AtomicU32 {
        self.shared.requests(self.plan.index)
    }

    /// Whether there are requests to this worker.
    pub(crate) fn is_asked(&self) -> bool {
        self.requests().load(Ordering::Relaxed) != 0
    }

    /// Whether it was asked to report what it has measured so far; the request is taken.
    pub(crate) fn take_request_to_tell(&self) -> bool {
        self.shared.take_request_to_tell(self.plan.index)
    }

    /// Whether this worker is to end.
    pub(crate) fn stopped(&self) -> bool {
        self.shared.worker_stopped(self.plan.index)
    }

    /// Sleeps until this worker may enter `stage`; false if it is to end before that.
    pub(crate) fn await_stage(&self, stage: Stage) -> bool {
        self.shared.await_stage(self.plan.index, stage)
    }

    /// Sleeps until the workers that this one waits for are done; false if it is to end before that.
    pub(crate) fn await_others(&self) -> bool {
        loop {
            if self.stopped() {
                return false;
            }
            let seen = self.shared.changes();
            if self.plan.waits_for.iter().all(|index| self.shared.state(*index) == State::Done) {
                return true;
            }
            self.shared.await_change(seen);
        }
    }

    /// Goes from writing to verifying or back, and sleeps until those that write the same bytes have done so, too, or are done; false
    /// if it is to end before that.
    pub(crate) fn await_rivals(&self) -> bool {
        if self.plan.rivals.is_empty() {
            return true;
        }
        let phase = self.shared.next_phase(self.plan.index);
        loop {
            if self.stopped() {
                return false;
            }
            let seen = self.shared.changes();
            let there = |index: &usize| self.shared.state(*index) == State::Done || self.shared.phase(*index) >= phase;
            if self.plan.rivals.iter().all(there) {
                return true;
            }
            self.shared.await_change(seen);
        }
    }

    /// Ends the others, if this worker's end is to be theirs.
    pub(crate) fn leave(&self, failed: bool) {
        if !(self.exitall || (failed && self.job.options.exitall_on_error)) {
            return;
        }
        let concerned = |other: &&WorkerPlan| match self.job.options.exit_what {
            ExitWhat::Group => other.group == self.plan.group,
            ExitWhat::Stonewall => other.wave == self.plan.wave,
            ExitWhat::All => true,
        };
        for other in self.crew.iter().filter(concerned) {
            self.shared.stop_worker(other.index);
        }
    }
}

/// A worker's result: its report, and whether it ended before its work could begin.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct WorkerResult {
    /// The report.
    pub report: WorkerReport,
    /// Set if it could not get ready: the exit status that the reason deserves.
    pub not_ready: Option<u8>,
}
