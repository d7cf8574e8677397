//! The stream `regions`: the page sizes that the recorded address spaces had when they were last looked at.

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::RegionPagesRow;

use crate::bpf::{Event, TaskEvent, TaskOp};
use crate::regions::{Look, Regions, Source};
use crate::streams::Stream;
use crate::watcher::{AttachTo, Closing, ProbeOptions, Round, Watcher};

/// The streams that it fills.
pub(crate) const STREAMS: &[Stream] = &[Stream::Regions];

/// The owners of memory, and the thread that looks.
struct RegionWatcher {
    regions: Regions,
    /// The first process executes the command: before that its memory is the recorder's.
    begun: bool,
    /// The process, where nothing reports its tasks, until it is let go.
    alone: Option<u32>,
    /// When the step before began: all events until then are known.
    stepped_ns: u64,
    unseen: u64,
}

/// Starts the thread.
pub(crate) fn open(options: &ProbeOptions) -> Result<Box<dyn Watcher>, String> {
    let regions = Regions::start_with(options.streams.reads_smaps(Stream::Regions))?;
    Ok(Box::new(RegionWatcher { regions, begun: false, alone: None, stepped_ns: 0, unseen: 0 }))
}

fn push(mm_id: u32, look: &Look, writer: &mut RecordingWriter) {
    for region in &look.regions {
        writer.push(&RegionPagesRow {
            ts: look.ts as i64,
            mm_id,
            start: region.start,
            end: region.end,
            path: region.path.as_deref(),
            page_size_bytes: region.page_size_bytes,
            bytes: region.bytes,
            asked: region.asked,
            reason: region.reason,
        });
    }
}

impl RegionWatcher {
    fn note(&mut self, task: &TaskEvent) {
        // Threads share what their process has; kernel threads have nothing.
        let (leader, Some(mm_id)) = (task.tid == task.pid, task.mm_id) else { return };
        match task.op {
            TaskOp::Exec => {
                self.begun = true;
                self.regions.enter(mm_id, task.pid, task.ts);
            }
            TaskOp::Snapshot if leader => {
                self.begun = true;
                self.regions.enter(mm_id, task.pid, task.ts);
            }
            TaskOp::Fork if self.begun && leader => self.regions.enter(mm_id, task.pid, task.ts),
            TaskOp::Exit | TaskOp::Leave if leader => self.regions.leave(task.pid, task.ts),
            TaskOp::Snapshot | TaskOp::Fork | TaskOp::Exit | TaskOp::Leave | TaskOp::Comm => {}
        }
    }

    fn take(&mut self, all: bool, writer: &mut RecordingWriter) {
        self.unseen += self.regions.take(all, |mm_id, look| push(mm_id, &look, writer));
    }
}

impl Watcher for RegionWatcher {
    fn streams(&self) -> &'static [Stream] {
        STREAMS
    }

    fn rung(&self) -> &'static str {
        "procfs"
    }

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        self.alone = target.task_states().is_none().then_some(target.pid);
        Ok(())
    }

    fn step(&mut self, round: &mut Round, writer: &mut RecordingWriter) {
        for event in &round.events {
            if let Event::Task(task) = event {
                self.note(task);
            }
        }
        // The first step is taken before the process is let go.
        if self.stepped_ns != 0
            && let Some(pid) = self.alone.take()
        {
            self.regions.enter(1, pid, self.stepped_ns);
        }
        self.regions.settle(self.stepped_ns);
        self.stepped_ns = round.now_ns as u64;
        self.take(false, writer);
    }

    fn shed(&mut self, _: Stream) -> bool {
        self.stop();
        true
    }

    fn stop(&mut self) {
        self.regions.stop();
    }

    fn finish(&mut self, closing: &mut Closing<'_>) {
        self.regions.settle(u64::MAX);
        self.take(true, closing.writer);
        let cost = self.regions.cost();
        closing.note("looks", cost.looks);
        closing.note("cpu_ns", cost.cpu_ns);
        closing.note("address_spaces_not_seen", self.unseen);
        let (source, reason) = match self.regions.source() {
            Source::PagemapScan => ("pagemap_scan", None),
            Source::Smaps(why) => ("smaps", Some(why)),
        };
        closing.note("source", source);
        closing.note("source_reason", reason.map(String::as_str));
    }
}
