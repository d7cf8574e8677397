//! What happens to a worker between passes over its files, and at the end.

use pagelab_fiojob::Caps;
use pagelab_fiojob::value::Extent;

use super::drive::{Drive, End};
use super::events::{flush_failure, thread_usage};
use crate::clock::monotonic_ns;
use crate::engines::queue::Queue;
use crate::engines::{Engine, StartOver};
use crate::fault::Fault;
use crate::histogram::Latencies;
use crate::offsets::PassLimit;
use crate::plan::ends_passes_at_size;
use crate::report::{Failure, Moments, Window, WorkerReport};
use crate::safety::Ownership;
use crate::verify::walk::Checked;

impl<E: Engine, S: Checked, Q: Queue> Drive<'_, E, S, Q> {
    /// The limit of the pass that would come next; `None` if none comes.
    ///
    /// As fio 3.33 counts: `loops` passes over the region, and further ones while [`Drive::more_to_do`]; a pass is cut
    /// short when `io_size` (or the region) x `loops` is reached, or `number_ios` x `loops` operations. `time_based` overrules all
    /// of it.
    pub(super) fn limit(&self) -> Option<PassLimit> {
        if self.measured_from.is_none() || self.options.time_based {
            return Some(PassLimit::REGION);
        }
        let loops = self.options.loops;
        let plan = self.task.plan;
        let region = self.region_bytes();
        if self.passes >= loops && !(self.more_to_do() && self.begins_anew()) {
            return None;
        }
        let each = plan.io_bytes.unwrap_or(region);
        let bytes = Some(each.saturating_mul(loops).checked_sub(self.covered).filter(|left| *left > 0)?);
        // Reads that verify count, too.
        let done = self.sides.iter().map(|side| side.operations).sum::<u64>();
        let trims_before_writes = self.options.rw.0.trims() && self.options.rw.0.writes();
        let operations = match self.options.number_ios.filter(|n| *n > 0) {
            None => u64::MAX,
            // As in fio: trims before writes are as many again.
            Some(n) => n.saturating_mul(loops).saturating_mul(1 + u64::from(trims_before_writes)).saturating_sub(done),
        };
        let repeats = self.passes > 0 && self.repeats_order;
        (operations > 0).then_some(PassLimit { bytes, operations, repeats })
    }

    /// Whether a pass follows the last loop. As in fio: where less than `io_size` was done, or, in jobs that verify what they write, less
    /// than the region has, and the rest is at least a block. Reads that verify count.
    fn more_to_do(&self) -> bool {
        let o = self.options;
        // What a state says was written is verified once.
        let verified = (S::VERIFIED && o.do_verify && !o.verify_state_load).then_some(self.region_bytes());
        // A percentage makes the region smaller, and no pass follows one that went through it.
        let asked = self.task.plan.io_bytes.filter(|_| matches!(o.io_size, Some(Extent::Bytes(_))));
        let Some(each) = asked.or(verified) else { return false };
        let [read, write] = self.task.plan.course.block_bytes;
        let done = self.covered + self.verifying_bytes;
        each.checked_sub(done).is_some_and(|left| left > 0 && left >= u64::from(read.max(write)))
    }

    /// Whether a pass behind the last loop finds anything to do. As in fio a pass that does not end at its size goes on to the end of its
    /// files, and they are gone through once more only where there are several loops, or do_verify=1, which it is unless it is said to
    /// be 0, also in jobs that verify nothing.
    fn begins_anew(&self) -> bool {
        let o = self.options;
        o.loops > 1 || o.do_verify || self.ended_at_size()
    }

    /// Whether a loop begins that has nothing to do, because earlier ones did all that `io_size` or `number_ios` leaves, or because files
    /// that are not gone through once more have less than `io_size` asks for.
    fn idle_loop_follows(&self) -> bool {
        let loops = self.options.loops;
        self.passes < loops || (self.seamless && loops > 1) || (self.more_to_do() && !self.begins_anew())
    }

    /// Whether the pass has given as many bytes as its engine's passes end at, without looking for a further operation.
    fn ended_at_size(&self) -> bool {
        ends_passes_at_size(self.options) && self.source.covered() >= self.region_bytes()
    }

    /// Bytes of a pass.
    fn region_bytes(&self) -> u64 {
        let plan = self.task.plan;
        plan.varied.as_ref().map_or(plan.course.region_bytes, |varied| varied.pass_bytes)
    }

    /// How the next pass begins: once more in files that stay open, until time is over, or in files that are opened anew.
    fn next_start(&self) -> StartOver {
        let rewinds = self.measured_from.is_none() || self.options.time_based;
        if rewinds { StartOver::Rewind } else { StartOver::Reopen }
    }

    /// The writes of a pass have ended, and the flush that they make due is done if further ones come, or were looked for in vain: a
    /// region need not end with a block. As in fio `fsync=` counts over passes: what is due when a pass ends is flushed before the
    /// files are closed, and once more in the files that are opened then.
    pub(super) fn flush_behind_pass(&mut self) -> End {
        if self.flushing.due().is_none() || self.seamless || self.next_start() == StartOver::Rewind {
            return End::Pass;
        }
        if self.source.finished() && !self.goes_on() && !self.stops_short() {
            return End::Pass;
        }
        if self.ended_at_size() {
            return End::Pass;
        }
        self.flush_if_due().unwrap_or(End::Pass)
    }

    /// Whether the loops end with less than all of them may do: where `io_size` is reached before it is as often as there are loops, as in
    /// fio no pass follows, and the last one looks for an operation in vain all the same.
    fn stops_short(&self) -> bool {
        let o = self.options;
        let Some(Extent::Bytes(each)) = o.io_size else { return false };
        o.number_ios.is_none_or(|operations| operations == 0)
            && self.covered + self.source.covered() < each.saturating_mul(o.loops)
    }

    /// Whether a pass follows the one that has just ended.
    fn goes_on(&mut self) -> bool {
        let (passes, before, covered) = (self.passes, self.covered, self.source.covered());
        (self.passes, self.covered) = (passes + 1, before + covered);
        let goes_on = covered > 0 && self.limit().is_some();
        (self.passes, self.covered) = (passes, before);
        goes_on
    }

    /// Starts the next pass, if there is one.
    pub(super) fn after_pass(&mut self) -> Result<bool, Failure> {
        self.passes += 1;
        let covered = self.source.covered();
        self.covered += covered;
        let how = self.next_start();
        // A pass that did nothing will do nothing next time, either.
        let limit = self.limit().filter(|_| covered > 0);
        self.note_unlink(limit.is_some());
        // A pass that was verified was flushed before that.
        let was_verified = S::VERIFIED && self.reads_back();
        if how == StartOver::Reopen && (limit.is_none() || !self.seamless) && !was_verified {
            self.final_flush()?;
        }
        let Some(limit) = limit else {
            self.flush_idle_loop(how, covered)?;
            return Ok(false);
        };
        if !self.seamless {
            self.start_over(how)?;
        }
        self.flushing.begin_pass();
        self.source.begin_pass(limit);
        self.files.begin_pass();
        if S::VERIFIED {
            self.begin_verified();
        }
        // A pass can be shorter than the distance between two looks at the clock.
        let now = self.clock.ticks();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.final_flush()?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Flushes of a loop that has nothing to do. As in fio it begins all the same: its files are opened anew, and flushed at its end.
    fn flush_idle_loop(&mut self, how: StartOver, covered: u64) -> Result<(), Failure> {
        let o = self.options;
        let begins = how == StartOver::Reopen && covered > 0 && self.idle_loop_follows();
        if !begins || !(o.end_fsync || o.fsync_on_close) || !o.rw.0.writes() {
            return Ok(());
        }
        self.start_over(how)?;
        self.flushing.begin_pass();
        self.files.begin_pass();
        // Files that were removed were made anew for that, and stay.
        self.unlinks_at_end = false;
        self.final_flush()
    }

    /// Whether `unlink_each_loop` leaves nothing. As in fio each loop but the first begins by removing the files, also one that has
    /// nothing left to do.
    fn note_unlink(&mut self, goes_on: bool) {
        let removes = self.options.unlink_each_loop && self.next_start() == StartOver::Reopen;
        self.unlinks_at_end = removes && !goes_on && self.idle_loop_follows();
    }

    /// Removes the files that [`Drive::note_unlink`] found to be left to nobody.
    pub(super) fn unlink_at_end(&mut self) {
        if !self.unlinks_at_end {
            return;
        }
        if let Err(failure) = self.remove_files() {
            self.failure.get_or_insert(failure);
        }
    }

    /// Removes the worker's files; those of others stay.
    fn remove_files(&self) -> Result<(), Failure> {
        let ownership = Ownership::new(self.task.state_dir);
        for path in self.task.plan.files.iter().filter_map(|file| file.path.as_deref()) {
            ownership.remove(path).map_err(|error| Failure {
                errno: error.raw_os_error().unwrap_or(libc::EIO),
                message: format!("unlink_each_loop=1: removing {}: {error}", path.display()),
            })?;
        }
        Ok(())
    }

    pub(super) fn start_over(&mut self, how: StartOver) -> Result<(), Failure> {
        let removes = self.options.unlink_each_loop;
        let words = |fault: Fault| {
            Failure {
            errno: fault.errno(),
            message: match fault {
                Fault::Replaced => format!("starting over: {}", crate::safety::REPLACED),
                Fault::Errno(libc::ENOENT) if removes => {
                    "starting over: unlink_each_loop=1 has removed the files, and a job that only reads makes none, as in fio"
                        .to_owned()
                }
                _ => format!("starting over: {}", std::io::Error::from_raw_os_error(fault.errno())),
            },
        }
        };
        if how == StartOver::Reopen {
            (0..self.task.plan.files.len()).for_each(|file| self.forget(file));
            self.flush_before_closing().map_err(words)?;
            // Engines of jobs that write make their files anew; nobody does for those that only read.
            if removes && !self.options.changes_files() {
                self.remove_files()?;
            }
        }
        self.engine.start_over(how).map_err(words)?;
        for engine in self.files.others() {
            engine.start_over(how).map_err(words)?;
        }
        Ok(())
    }

    /// `fsync_on_close` of the files that a further loop closes and opens again. As in fio they are flushed for that beside the flush at
    /// the end of the pass, unless `fsync=` was due there.
    fn flush_before_closing(&mut self) -> Result<(), Fault> {
        // Files that are verified were flushed when they were opened to be read.
        let is_read = S::VERIFIED && self.reads_back();
        if !self.options.fsync_on_close || !self.options.rw.0.writes() || is_read || self.flushing.was_last() {
            return Ok(());
        }
        self.files.flush_closing(&mut self.engine)
    }

    /// `end_fsync` and `fsync_on_close`: each file of the job, also those that the pass has closed, unless it was flushed after its
    /// last write.
    pub(super) fn final_flush(&mut self) -> Result<(), Failure> {
        let wanted = self.options.end_fsync || self.options.fsync_on_close;
        // As in fio: where the last thing done was a flush on the way, of whichever file, none is flushed at the end.
        if !wanted || !self.options.rw.0.writes() || self.flushing.was_last() {
            return Ok(());
        }
        if let Some(log) = &mut self.iolog {
            log.flush_all();
        }
        if self.options.fsync_on_close {
            // As in fio: files that were flushed when the pass closed them are opened and flushed once more.
            self.files.forget_flushes();
        }
        self.files.flush_open(&mut self.engine).map_err(flush_failure)?;
        // What cannot be flushed need not be opened for it.
        if E::CAPS.contains(Caps::FSYNC) {
            self.files.flush_closed(self.task)?;
        }
        Ok(())
    }

    /// The end of the log of operations.
    pub(super) fn leave_files(&mut self) {
        if let Some(Err(failure)) = self.iolog.take().map(super::iolog::IoLog::finish) {
            self.failure.get_or_insert(failure);
        }
        let at_ns = self.measured_until.saturating_sub(self.anchor.1);
        if let Some(Err(failure)) = self.logs.take().map(|logs| logs.finish(at_ns)) {
            self.failure.get_or_insert(failure);
        }
    }

    /// Puts everything measured into the report. What happened before measuring began is not in it.
    #[inline(never)]
    pub(super) fn report(&mut self, report: &mut WorkerReport) {
        report.failure = self.failure.take();
        self.measured(report);
        report.mapped = self.files.mapped(&self.engine, self.options);
    }

    /// Tells the supervisor everything measured until now.
    #[inline(never)]
    pub(super) fn tell_so_far(&mut self) {
        self.measured_until = monotonic_ns();
        self.usage_after = thread_usage();
        let mut report = super::drive::empty_report(self.task);
        self.measured(&mut report);
        self.task.tell_so_far(report);
    }

    /// The figures of the measured window, until `measured_until`.
    fn measured(&mut self, report: &mut WorkerReport) {
        report.passes = self.source.passes();
        report.depths = self.flight.queue.is_some().then_some(self.flight.depths);
        report.verify = self.verify.as_ref().map(|verify| verify.report().clone());
        let Some(start_ns) = self.measured_from else { return };
        let end_ns = self.measured_until;
        report.window = Some(Window { start_ns, end_ns });
        // What is finished below is in no later interval.
        self.tell_interval(end_ns);
        let [read, write, trim] = &mut self.sides;
        report.read = read.finish();
        report.write = write.finish();
        report.trim = trim.finish();
        self.run_times(report);
        report.flushes = self.flushes.finish();
        report.flushes_of_data = self.flushes_of_data;
        (report.first_error, report.forgiven_mismatches) = (self.first_error, self.forgiven_mismatches);
        report.fatal_error_counts = self.fatal_error_counts;
        report.latency_depth = self.goal.as_ref().and_then(super::goal::Goal::depth);
        self.leave_out(report);
        report.usage = Some(self.usage_after.since(&self.usage_before));
    }

    /// How long each direction was at work. As in fio reads that verify what was written count the time of verifying, and all that the
    /// job itself does the rest: a pass of writes is not slower because it was verified.
    fn run_times(&self, report: &mut WorkerReport) {
        let Some(window) = report.window else { return };
        let at_it = self.verifying_since.map_or(0, |since| self.clock.ticks().saturating_sub(since));
        let verifying = self.clock.to_ns(self.verifying_ticks + at_it).min(window.duration_ns());
        let working = window.duration_ns() - verifying;
        let pattern = self.options.rw.0;
        let reads = if pattern.reads() || !self.reads_back() { working } else { 0 };
        for (direction, ns) in
            [(&mut report.read, reads + verifying), (&mut report.write, working), (&mut report.trim, working)]
        {
            direction.runtime_ns = if direction.operations > 0 { ns } else { 0 };
        }
    }

    /// What the job does not want to see.
    fn leave_out(&self, report: &mut WorkerReport) {
        let o = self.options;
        for result in [&mut report.read, &mut report.write, &mut report.trim] {
            if o.disable_lat {
                result.lat = Latencies::default();
            }
            if o.disable_clat {
                result.clat = Latencies::default();
            }
            if o.disable_slat {
                result.slat = None;
            }
            if o.disable_bw_measurement {
                result.bandwidth_kib = Moments::default();
            }
        }
    }
}
