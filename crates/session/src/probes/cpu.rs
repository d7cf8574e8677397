//! The stream `cpu`: samples with the stacks of kernel and user space.
//!
//! A sample is worked on one step after it was taken, 20 ms later: by then everything that was mapped before it is known.
//! While recording, frames are rows without symbols. At the end their names are looked up, and stacks and frames get
//! their rows anew, under the ids that belong to the new content; the writer puts these into the samples.

use std::collections::{HashMap, HashSet};

use pagelab_observe::bpf::Event;
use pagelab_observe::cpu::{ProfileOptions, Profiler, Sample, Unwinding};
use pagelab_observe::perf::PerfSample;
use pagelab_observe::stacks::{End, Frame, StackIds, Stacks, stack_id};
use pagelab_observe::streams::Stream;
use pagelab_recording::tables::{FramesRow, SamplesRow, StacksRow};
use pagelab_recording::{NamedStacks, Recording, RecordingWriter};
use serde_json::{Map, Value, json};

use super::{Count, Scope, Watched, Watcher};
use crate::options::SessionOptions;

/// Stacks that are given new ids between two parts of the table, so that few of them are in memory.
const STACKS_PER_PART: usize = 20_000;

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

/// The probe.
pub struct Cpu {
    options: ProfileOptions,
    /// Perf takes the samples, not BPF.
    by_perf: bool,
    running: Option<(Source, Stacks)>,
    rows: Vec<Row>,
    totals: Totals,
    /// Samples older than this have all their mappings known.
    known_until_ns: u64,
    stopped: bool,
}

/// Prepares the probe; it is attached when the target is there.
#[allow(clippy::unnecessary_wraps, reason = "other probes find out here that they cannot be had")]
pub fn open(options: &SessionOptions) -> Result<Box<dyn Watcher>, String> {
    Ok(Box::new(prepared(options, false)))
}

/// The same on samples of perf.
#[allow(clippy::unnecessary_wraps, reason = "as above")]
pub fn open_by_perf(options: &SessionOptions) -> Result<Box<dyn Watcher>, String> {
    Ok(Box::new(prepared(options, true)))
}

fn prepared(options: &SessionOptions, by_perf: bool) -> Cpu {
    let options = ProfileOptions {
        ring_bytes_per_cpu: options.ring_bytes_per_cpu,
        unwinding: options.unwinding,
        ..ProfileOptions::default()
    };
    let totals = Totals::default();
    Cpu { options, by_perf, running: None, rows: Vec::new(), totals, known_until_ns: 0, stopped: false }
}

impl Cpu {
    /// Works on the samples older than `until_ns`.
    fn drain(&mut self, until_ns: u64) {
        let Some((source, stacks)) = &mut self.running else { return };
        let (rows, totals) = (&mut self.rows, &mut self.totals);
        source.drain(until_ns, |cpu, sample| {
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

    fn write(&mut self, writer: &mut RecordingWriter) {
        let Some((source, stacks)) = &mut self.running else { return };
        for row in self.rows.drain(..) {
            writer.push(&SamplesRow {
                ts: row.ts as i64,
                task_id: row.task_id,
                cpu: row.cpu,
                event: source.event(),
                kstack_id: row.stacks.kernel,
                ustack_id: row.stacks.user,
                weight: row.weight,
                ustack_end: row.stacks.end.map(End::name),
            });
        }
        let (frames, new_stacks) = stacks.take_new();
        for (id, frame) in &frames {
            push_frame(*id, frame, writer);
        }
        for (stack_id, frame_ids) in &new_stacks {
            writer.push(&StacksRow { stack_id: *stack_id, frame_ids });
        }
    }
}

fn push_frame(frame_id: u64, frame: &Frame, writer: &mut RecordingWriter) {
    writer.push(&FramesRow {
        frame_id,
        symbol: frame.symbol.as_deref(),
        module: frame.module.as_deref(),
        build_id: frame.build_id.as_deref(),
        module_offset: frame.module_offset,
        kernel: frame.kernel,
        inlined: frame.inlined,
    });
}

/// Looks up the names of all frames and writes frames and stacks as they are with names. Gives the number of frames that
/// could be named, and of all.
fn name(stacks: &mut Stacks, now_ns: i64, writer: &mut RecordingWriter) -> pagelab_recording::Result<(usize, usize)> {
    // What was written so far is read back: a recording of any length has its stacks on disk, not in memory.
    writer.flush(now_ns)?;
    let recording = Recording::open(writer.dir())?;
    let (mut became, mut finals) = (HashMap::new(), HashSet::new());
    let mut named = 0;
    for (old, frames) in stacks.name_all() {
        named += usize::from(frames.iter().any(|frame| frame.symbol.is_some()));
        let ids: Vec<u64> = frames.iter().map(Frame::id).collect();
        for (id, frame) in ids.iter().zip(&frames) {
            if finals.insert(*id) {
                push_frame(*id, frame, writer);
            }
        }
        became.insert(old, ids);
    }
    let mut changes = NamedStacks::default();
    changes.retired_frames.extend(became.keys().filter(|old| !finals.contains(*old)));
    let (mut written, mut flushed) = (HashSet::new(), Ok(()));
    recording.for_each::<StacksRow>(|row| {
        let new_frames = |old| became.get(old).map_or(std::slice::from_ref(old), Vec::as_slice);
        let ids: Vec<u64> = row.frame_ids.iter().flat_map(new_frames).copied().collect();
        let new = stack_id(&ids);
        if new == row.stack_id || changes.stacks.insert(row.stack_id, new).is_some() || !written.insert(new) {
            return;
        }
        writer.push(&StacksRow { stack_id: new, frame_ids: &ids });
        if written.len() % STACKS_PER_PART == 0 && flushed.is_ok() {
            flushed = writer.flush(now_ns);
        }
    })?;
    flushed?;
    writer.set_named_stacks(changes);
    Ok((named, became.len()))
}

impl Watcher for Cpu {
    fn streams(&self) -> &'static [Stream] {
        &[Stream::Cpu]
    }

    fn rung(&self) -> &'static str {
        if self.by_perf { "perf" } else { "bpf" }
    }

    fn takes(&self, _: &Scope<'_>) -> Result<(), String> {
        Ok(())
    }

    fn begin(&mut self, watched: &Watched<'_>) -> Result<(), String> {
        if let Some(event) = watched.perf_event.filter(|_| self.by_perf) {
            let source = Source::Perf { event, waiting: Vec::new() };
            self.running = Some((source, Stacks::new(self.options.unwinding, watched.pid)));
            return Ok(());
        }
        let needed =
            "needed: the BPF observer, which knows the recorded tasks; try: sudo pagelab record --observe cpu ...";
        let task_states = watched.task_states.ok_or_else(|| format!("found no map of recorded tasks; {needed}"))?;
        let profiler = Profiler::open(&self.options, task_states).map_err(|error| error.to_string())?;
        self.running = Some((Source::Bpf(Box::new(profiler)), Stacks::new(self.options.unwinding, watched.pid)));
        Ok(())
    }

    fn samples(&mut self, samples: Vec<PerfSample>) {
        if let Some((Source::Perf { waiting, .. }, _)) = &mut self.running {
            waiting.extend(samples);
        }
    }

    fn events(&mut self, events: &[Event]) {
        if let Some((_, stacks)) = &mut self.running {
            stacks.name_files(events);
        }
        for event in events {
            if self.running.as_ref().is_some_and(|(_, stacks)| stacks.takes_away(event))
                && let Event::Map(map) = event
            {
                self.drain(map.ts);
            }
            if let Some((_, stacks)) = &mut self.running {
                stacks.event(event);
            }
        }
    }

    fn step(&mut self, now_ns: i64, writer: &mut RecordingWriter) {
        // Perf's samples come with all that was mapped before them.
        self.drain(if self.stopped || self.by_perf { u64::MAX } else { self.known_until_ns });
        self.known_until_ns = now_ns as u64;
        if let Some((_, stacks)) = &mut self.running {
            stacks.forget_left();
            stacks.refresh_jit(now_ns as u64);
        }
        self.write(writer);
    }

    fn counts(&self) -> Vec<Count> {
        // What perf has counted is told by its observer.
        let Some((Source::Bpf(profiler), _)) = &self.running else { return Vec::new() };
        let rings = profiler.rings();
        (0..rings.cpus())
            .map(|cpu| {
                let counts = rings.counts(cpu);
                let (seen, lost) = (counts.seen, counts.lost);
                Count { stream: Stream::Cpu.name(), cpu: Some(cpu as u32), seen, lost, filtered: 0 }
            })
            .collect()
    }

    fn stop(&mut self) {
        if let Some((Source::Bpf(profiler), _)) = &mut self.running {
            profiler.detach();
        }
        self.stopped = true;
    }

    fn finish(&mut self, now_ns: i64, writer: &mut RecordingWriter, extra: &mut Map<String, Value>) {
        let Some((source, stacks)) = &mut self.running else { return };
        let (named, reason) = match name(stacks, now_ns, writer) {
            Ok(counts) => (Some(counts), None),
            Err(error) => (None, Some(format!("frames have no symbols: {error}"))),
        };
        let unwinding = match self.options.unwinding {
            Unwinding::Auto => "auto",
            Unwinding::FramePointers => "fp",
            Unwinding::Dwarf => "dwarf",
        };
        let Totals { samples, entry, cut, broken, kernel_cut } = self.totals;
        let told = json!({
            "event": source.event(), "frequency_hz": self.options.frequency_hz, "unwinding": unwinding,
            "samples": samples, "ustacks_to_entry": entry, "ustacks_cut": cut, "ustacks_broken": broken,
            "kstacks_cut": kernel_cut, "known_from_earlier": stacks.hits(),
            "frames": named.map(|(_, all)| all), "frames_named": named.map(|(named, _)| named),
            "frames_unnamed_reason": reason,
        });
        if let Value::Object(fields) = told {
            extra.extend(fields);
        }
    }
}
