//! Profile samples.

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::SamplesRow;
use pagelab_vocab::samples::ReturnedFrom;
use serde_json::{Value, json};

use crate::bpf::Observer;
use crate::cpu::{Frequency, ProfileOptions, Profiler, Sample};
use crate::perf::PerfSample;
use crate::stacks::{End, StackIds, Stacks};
use crate::streams::Stream;
use crate::watcher::Count;

/// A sample that waits for the next step.
struct Row {
    ts: u64,
    task_id: u32,
    cpu: u32,
    stacks: StackIds,
    weight: u64,
    returned_from: Option<ReturnedFrom>,
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

/// Where samples come from.
enum Source {
    Bpf(Box<Profiler>),
    /// The perf observer, which hands them over.
    Perf {
        event: &'static str,
        waiting: Vec<PerfSample>,
    },
}

impl Source {
    fn drain(&mut self, until_ns: u64, mut sink: impl FnMut(u32, &Sample<'_>)) {
        match self {
            Self::Bpf(profiler) => profiler.drain(until_ns, sink),
            Self::Perf { waiting, .. } => {
                let ready = waiting.partition_point(|sample| sample.ts < until_ns);
                for sample in waiting.drain(..ready) {
                    sample.with(&mut sink);
                }
            }
        }
    }

    fn event(&self) -> &'static str {
        match self {
            Self::Bpf(profiler) => profiler.event(),
            Self::Perf { event, .. } => event,
        }
    }
}

/// The source of samples, and its rows for the recording.
pub(super) struct Samples {
    source: Source,
    rows: Vec<Row>,
    totals: Totals,
}

impl Samples {
    /// Samples the tasks of `observer` from now on.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    pub(super) fn open(options: &ProfileOptions, observer: &Observer) -> Result<Self, String> {
        let profiler = Profiler::open(options, observer).map_err(|error| error.to_string())?;
        Ok(Self::from(Source::Bpf(Box::new(profiler))))
    }

    /// Takes the samples that the perf observer takes of `event`.
    pub(super) fn by_perf(event: &'static str) -> Self {
        Self::from(Source::Perf { event, waiting: Vec::new() })
    }

    fn from(source: Source) -> Self {
        Self { source, rows: Vec::new(), totals: Totals::default() }
    }

    /// Takes samples of perf.
    pub(super) fn take(&mut self, samples: &mut Vec<PerfSample>) {
        if let Source::Perf { waiting, .. } = &mut self.source {
            waiting.append(samples);
        }
    }

    /// Works on the samples older than `until_ns`.
    pub(super) fn drain(&mut self, until_ns: u64, stacks: &mut Stacks) {
        let (rows, totals) = (&mut self.rows, &mut self.totals);
        self.source.drain(until_ns, |cpu, sample| {
            let ids = stacks.sample(sample);
            totals.samples += 1;
            totals.kernel_cut += u64::from(sample.kernel_cut);
            match ids.end {
                Some(End::Entry) => totals.entry += 1,
                Some(End::Cut) => totals.cut += 1,
                Some(End::Broken) => totals.broken += 1,
                None => {}
            }
            rows.push(Row {
                ts: sample.ts,
                task_id: sample.task_id,
                cpu,
                stacks: ids,
                weight: sample.period,
                returned_from: sample.returned_from,
            });
        });
    }

    /// Writes the finished rows.
    pub(super) fn write(&mut self, writer: &mut RecordingWriter) {
        for row in self.rows.drain(..) {
            writer.push(&SamplesRow {
                ts: row.ts as i64,
                task_id: row.task_id,
                cpu: row.cpu,
                event: self.source.event(),
                kstack_id: row.stacks.kernel,
                ustack_id: row.stacks.user,
                weight: row.weight,
                ustack_end: row.stacks.end.map(End::name),
                returned_from: row.returned_from.map(ReturnedFrom::word),
            });
        }
    }

    /// The counts, per CPU. perf's counts are reported by its observer.
    pub(super) fn counts(&self) -> Vec<Count> {
        let Source::Bpf(profiler) = &self.source else { return Vec::new() };
        let rings = profiler.rings();
        let count = |cpu| {
            let counts = rings.counts(cpu);
            let (seen, lost) = (counts.seen, counts.lost);
            Count { stream: Stream::Cpu.name(), cpu: Some(cpu as u32), seen, lost, filtered: 0 }
        };
        (0..rings.cpus()).map(count).collect()
    }

    /// Ends sampling.
    pub(super) fn stop(&mut self) {
        if let Source::Bpf(profiler) = &mut self.source {
            profiler.detach();
        }
    }

    /// Their entry in the manifest.
    pub(super) fn told(&self, frequency: Frequency) -> Value {
        let Totals { samples, entry, cut, broken, kernel_cut } = self.totals;
        json!({
            "event": self.source.event(), "frequency_hz": frequency.of_event(self.source.event()),
            "samples": samples, "ustacks_to_entry": entry, "ustacks_cut": cut, "ustacks_broken": broken,
            "kstacks_cut": kernel_cut,
        })
    }
}
