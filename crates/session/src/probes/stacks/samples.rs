//! Profile samples.

use std::os::fd::BorrowedFd;

use pagelab_observe::cpu::{ProfileOptions, Profiler};
use pagelab_observe::stacks::{End, StackIds, Stacks};
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::SamplesRow;
use serde_json::{Value, json};

use crate::probes::Count;

/// A sample that waits for the next step.
struct Row {
    ts: u64,
    task_id: u32,
    cpu: u32,
    stacks: StackIds,
    weight: u64,
}

/// How many samples ended how.
#[derive(Debug, Default)]
struct Totals {
    samples: u64,
    entry: u64,
    cut: u64,
    broken: u64,
    kernel_cut: u64,
}

/// The profiler, and what it has for the recording.
pub struct Samples {
    profiler: Profiler,
    rows: Vec<Row>,
    totals: Totals,
}

impl Samples {
    /// Samples the tasks in `task_states` from now on.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    pub fn open(options: &ProfileOptions, task_states: BorrowedFd<'_>) -> Result<Self, String> {
        let profiler = Profiler::open(options, task_states).map_err(|error| error.to_string())?;
        Ok(Self { profiler, rows: Vec::new(), totals: Totals::default() })
    }

    /// Works on the samples older than `until_ns`.
    pub fn drain(&mut self, until_ns: u64, stacks: &mut Stacks) {
        let (rows, totals) = (&mut self.rows, &mut self.totals);
        self.profiler.drain(until_ns, |cpu, sample| {
            let ids = stacks.sample(sample);
            totals.samples += 1;
            totals.kernel_cut += u64::from(sample.kernel_cut);
            match ids.end {
                Some(End::Entry) => totals.entry += 1,
                Some(End::Cut) => totals.cut += 1,
                Some(End::Broken) => totals.broken += 1,
                None => {}
            }
            rows.push(Row { ts: sample.ts, task_id: sample.task_id, cpu, stacks: ids, weight: sample.period });
        });
    }

    /// Writes what was worked on.
    pub fn write(&mut self, writer: &mut RecordingWriter) {
        for row in self.rows.drain(..) {
            writer.push(&SamplesRow {
                ts: row.ts as i64,
                task_id: row.task_id,
                cpu: row.cpu,
                event: self.profiler.event(),
                kstack_id: row.stacks.kernel,
                ustack_id: row.stacks.user,
                weight: row.weight,
                ustack_end: row.stacks.end.map(End::name),
            });
        }
    }

    /// What was counted, per CPU.
    pub fn counts(&self) -> impl Iterator<Item = Count> + '_ {
        let rings = self.profiler.rings();
        (0..rings.cpus()).map(|cpu| {
            let counts = rings.counts(cpu);
            let (seen, lost) = (counts.seen, counts.lost);
            Count { stream: Stream::Cpu.name(), cpu: Some(cpu as u32), seen, lost, filtered: 0 }
        })
    }

    /// Ends sampling.
    pub fn stop(&mut self) {
        self.profiler.detach();
    }

    /// What the manifest says of them.
    pub fn told(&self, frequency_hz: u64) -> Value {
        let Totals { samples, entry, cut, broken, kernel_cut } = self.totals;
        json!({
            "event": self.profiler.event(), "frequency_hz": frequency_hz,
            "samples": samples, "ustacks_to_entry": entry, "ustacks_cut": cut, "ustacks_broken": broken,
            "kstacks_cut": kernel_cut,
        })
    }
}
