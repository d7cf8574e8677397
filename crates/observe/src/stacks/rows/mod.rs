//! The streams whose rows carry stacks: `cpu` (profile samples), `sched` (times off the CPU) and `maps` (mapping calls); of the
//! latter two the observer has the rows, this has the stacks.
//!
//! A stack is worked on one step after it was taken, 20 ms later: by then everything that was mapped before it is known.
//! While recording, frames are rows without symbols. At the end their names are looked up, and stacks and frames get
//! their rows anew, under the ids that belong to the new content; the writer puts these into the rows that refer to them.

mod naming;
mod samples;
mod tasks;
mod waits;

use std::fs::File;

use pagelab_recording::RecordingWriter;
use pagelab_vocab::budget::AnchorsFound;
use serde_json::{Value, json};

use super::Stacks;
use crate::bpf::{Event, TaskStackOptions};
use crate::cpu::{ProfileOptions, Unwinding};
use crate::perf::code::{CodeMapping, CodeMappings};
use crate::streams::Stream;
use crate::watcher::{AttachTo, Closing, Count, ProbeOptions, Round, Scope, Watcher};
use naming::Naming;
use samples::Samples;
use tasks::TaskRows;

/// The streams that it fills.
pub(crate) const STREAMS: &[Stream] = &[Stream::Cpu, Stream::Sched, Stream::Maps];

/// The probe.
struct StackWatcher {
    options: ProfileOptions,
    wants_samples: bool,
    /// Perf takes the samples, not BPF.
    by_perf: bool,
    stacks: Option<Stacks>,
    samples: Option<Samples>,
    of_tasks: Option<TaskRows>,
    /// What code is mapped, where the observer does not follow mappings.
    code: Option<CodeMappings>,
    /// Streams that were wanted and are not available, and why.
    lacks: Vec<(Stream, String)>,
    wants_sleep: bool,
    wants_maps: bool,
    no_task_stacks: Option<String>,
    /// Stacks older than this have all their mappings known.
    known_until_ns: u64,
    stopped: bool,
}

/// Whether the recording has stacks.
pub(crate) fn wanted(options: &ProbeOptions) -> bool {
    needs_maps(options) || options.streams.contains(Stream::Waits)
}

/// Whether some of them are of user space, whose frames are told by what is mapped where.
pub(crate) fn needs_maps(options: &ProbeOptions) -> bool {
    options.streams.contains(Stream::Cpu) || options.streams.off_stacks() || options.streams.map_stacks()
}

/// How stacks are taken.
fn profile_options(options: &ProbeOptions) -> ProfileOptions {
    ProfileOptions {
        ring_bytes_per_cpu: options.ring_bytes_per_cpu,
        unwinding: options.unwinding,
        frequency: options.frequency,
        ..ProfileOptions::default()
    }
}

/// Mappings from here on have a stack: the smallest that can hold a huge page.
const STACK_FROM_BYTES: u64 = 2 << 20;
/// Ring for the stacks of mapping calls alone.
const MAPS_RING_BYTES: usize = 1 << 20;

/// How the stacks of sleeping tasks and of mapping calls are taken; none if neither are wanted.
pub(crate) fn task_stack_options(options: &ProbeOptions) -> Option<TaskStackOptions> {
    let (of_sleep, of_maps) = (options.streams.off_stacks(), options.streams.map_stacks());
    let profile = profile_options(options);
    let most = if of_sleep { usize::MAX } else { MAPS_RING_BYTES };
    (of_sleep || of_maps).then(|| TaskStackOptions {
        ring_bytes_per_cpu: profile.ring_bytes_per_cpu.min(most),
        copied_bytes: profile.copied_bytes(),
        of_sleep,
        of_maps_from_bytes: of_maps.then_some(STACK_FROM_BYTES),
    })
}

/// Prepares the probe; it is attached when the target is there.
#[allow(clippy::unnecessary_wraps, reason = "other probes find out here that they cannot be had")]
pub(crate) fn open(options: &ProbeOptions) -> Result<Box<dyn Watcher>, String> {
    Ok(Box::new(prepared(options, false)))
}

/// The same on samples of perf; of sleeping tasks it knows nothing.
///
/// # Errors
/// Only sleeping tasks were asked for.
pub(crate) fn open_by_perf(options: &ProbeOptions) -> Result<Box<dyn Watcher>, String> {
    if !options.streams.contains(Stream::Cpu) {
        return Err("perf events take no stacks of sleeping tasks; needed: BPF".to_owned());
    }
    Ok(Box::new(prepared(options, true)))
}

fn prepared(options: &ProbeOptions, by_perf: bool) -> StackWatcher {
    StackWatcher {
        options: profile_options(options),
        wants_samples: options.streams.contains(Stream::Cpu),
        by_perf,
        stacks: None,
        samples: None,
        of_tasks: None,
        code: None,
        lacks: Vec::new(),
        wants_sleep: options.streams.off_stacks(),
        wants_maps: options.streams.map_stacks(),
        no_task_stacks: None,
        known_until_ns: 0,
        stopped: false,
    }
}

impl StackWatcher {
    /// Works on the stacks taken before `until_ns`.
    fn drain(&mut self, until_ns: u64, now_ns: u64) {
        let Some(stacks) = &mut self.stacks else { return };
        if let Some(samples) = &mut self.samples {
            samples.drain(until_ns, stacks);
        }
        if let Some(of_tasks) = &mut self.of_tasks {
            of_tasks.drain(until_ns, now_ns, stacks);
        }
    }

    /// Notes new mappings, and works on the stacks of address spaces that go away before they are forgotten.
    fn note(&mut self, events: &[Event]) {
        if let Some(stacks) = &mut self.stacks {
            stacks.name_files(events);
        }
        let mut mapped = self.mapped().into_iter().peekable();
        for event in events {
            while let Some(code) = mapped.next_if(|code| code.ts <= event.ts()) {
                self.note_code(&code);
            }
            if self.stacks.as_ref().is_some_and(|stacks| stacks.takes_away(event))
                && let Event::Map(map) = event
            {
                self.drain(map.ts, self.known_until_ns);
            }
            if let Some(stacks) = &mut self.stacks {
                stacks.event(event);
            }
        }
        for code in mapped {
            self.note_code(&code);
        }
    }

    /// Code mapped since the last time, as far as it is known whose it is: all tasks are that began before the last step.
    fn mapped(&mut self) -> Vec<CodeMapping> {
        let until_ns = if self.stopped { u64::MAX } else { self.known_until_ns };
        let Some(code) = &mut self.code else { return Vec::new() };
        let mapped = code.take(until_ns);
        if code.take_lost()
            && let Some(stacks) = &mut self.stacks
        {
            stacks.read_all_maps_anew();
        }
        mapped
    }

    fn note_code(&mut self, code: &CodeMapping) {
        if self.stacks.as_ref().is_some_and(|stacks| stacks.is_laid_over(code)) {
            self.drain(code.ts, self.known_until_ns);
        }
        if let Some(stacks) = &mut self.stacks {
            stacks.code_mapped(code);
        }
    }
}

impl Watcher for StackWatcher {
    fn streams(&self) -> &'static [Stream] {
        match (self.wants_samples, self.wants_sleep, self.wants_maps) {
            (true, ..) => &[Stream::Cpu],
            (false, true, _) => &[Stream::Sched],
            (false, false, true) => &[Stream::Maps],
            (false, false, false) => &[Stream::Waits],
        }
    }

    fn rung(&self) -> &'static str {
        if self.by_perf { "perf" } else { "bpf" }
    }

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        if let Some(event) = target.perf_event.filter(|_| self.by_perf) {
            self.samples = Some(Samples::by_perf(event));
            let mut stacks = Stacks::new(self.options.unwinding, target.pid);
            if let Scope::Processes(processes) = target.scope {
                for (pid, _) in processes {
                    stacks.open_files_of(*pid);
                }
            }
            self.stacks = Some(stacks);
            return Ok(());
        }
        let needed =
            "needed: the BPF observer, which knows the recorded tasks; try: sudo pagelab record --observe cpu ...";
        let observer = target.observer.ok_or_else(|| format!("found no map of recorded tasks; {needed}"))?;
        let mut stacks = Stacks::new(self.options.unwinding, target.pid);
        // Before the first sample: a process that runs already may end at once, and a program that was deleted is gone with it.
        if let Scope::Processes(processes) = target.scope {
            for (pid, _) in processes {
                stacks.open_files_of(*pid);
            }
        }
        match TaskRows::of(observer, self.wants_sleep) {
            Ok(of_tasks) => self.of_tasks = of_tasks,
            Err(reason) => self.no_task_stacks = Some(reason),
        }
        if self.wants_samples {
            match Samples::open(&self.options, observer) {
                Ok(samples) => self.samples = Some(samples),
                Err(reason) if self.of_tasks.is_some() => self.lacks.push((Stream::Cpu, reason)),
                Err(reason) => return Err(reason),
            }
        }
        if !observer.follows_maps() {
            // Without it stacks are those of what was mapped when an address space was looked at first.
            let opened =
                CodeMappings::open().inspect_err(|error| tracing::warn!("mappings of code are not seen: {error}"));
            self.code = opened.ok();
        }
        self.stacks = Some(if self.of_tasks.is_some() && self.wants_sleep { stacks.with_off_cpu() } else { stacks });
        Ok(())
    }

    fn code_files(&self) -> Vec<(&[u8], &File)> {
        self.stacks.as_ref().map(Stacks::code_files).unwrap_or_default()
    }

    fn lacks(&self) -> &[(Stream, String)] {
        &self.lacks
    }

    fn step(&mut self, round: &mut Round, writer: &mut RecordingWriter) {
        if let Some(samples) = &mut self.samples {
            samples.take(&mut round.samples);
        }
        self.note(&round.events);
        if let Some(of_tasks) = &mut self.of_tasks {
            of_tasks.take(round);
        }
        let now_ns = round.now_ns;
        // Perf's samples come with all that was mapped before them.
        let until_ns = if self.stopped || self.by_perf { u64::MAX } else { self.known_until_ns };
        self.drain(until_ns, now_ns as u64);
        self.known_until_ns = now_ns as u64;
        if let Some(samples) = &mut self.samples {
            samples.write(writer);
        }
        if let Some(of_tasks) = &mut self.of_tasks {
            of_tasks.write(until_ns, writer);
        }
        if let Some(stacks) = &mut self.stacks {
            stacks.forget_left();
            stacks.refresh_jit(now_ns as u64);
            waits::write(&mut round.wait_stacks, stacks, writer);
            naming::write_new(stacks, writer);
        }
    }

    fn count(&self, counts: &mut Vec<Count>) {
        counts.extend(self.samples.iter().flat_map(Samples::counts));
        counts.extend(self.of_tasks.iter().flat_map(TaskRows::counts));
    }

    /// The times of sleeping tasks are the observer's; without them there are no stacks of theirs.
    fn shed(&mut self, stream: Stream) -> bool {
        let samples = self.samples.as_mut().filter(|_| stream == Stream::Cpu);
        samples.map(Samples::stop).is_some()
    }

    fn stop(&mut self) {
        if let Some(samples) = &mut self.samples {
            samples.stop();
        }
        self.stopped = true;
    }

    fn finish(&mut self, closing: &mut Closing<'_>) {
        let Some(stacks) = &mut self.stacks else { return };
        let (named, reason) = match naming::name(stacks, closing) {
            Ok(naming) => (Some(naming), None),
            Err(error) => (None, Some(format!("frames have no symbols: {error}"))),
        };
        let unwinding = match self.options.unwinding {
            Unwinding::Auto => "auto",
            Unwinding::FramePointers => "fp",
            Unwinding::Dwarf => "dwarf",
        };
        let told = json!({
            "unwinding": unwinding, "known_from_earlier": stacks.hits(),
            "frames": named.as_ref().map(|naming| naming.frames),
            "frames_named": named.as_ref().map(|naming| naming.named),
            "frames_unnamed_reason": reason,
            "modules_unnamed": named.as_ref().map(|naming| naming::told(&naming.lacks)),
            "unwinding_given_up": stacks.given_up(),
            "files_unnamed": named.as_ref().map(|naming| {
                let one = |(path, reason): &(String, &str)| json!({"module": path, "reason": reason});
                naming.unnamed.iter().map(one).collect::<Vec<Value>>()
            }),
        });
        let samples = self.samples.as_ref().map(|samples| samples.told(self.options.frequency));
        for part in [Some(told), samples].into_iter().flatten() {
            if let Value::Object(fields) = part {
                closing.extra.extend(fields);
            }
        }
        // Comparisons between kernels leave out what one of them has not; a hidden list tells nothing.
        if let Some(Naming { named: 1.., anchors: Some(AnchorsFound { absent, missing, .. }), .. }) = named
            && missing.is_empty()
        {
            closing.note("anchors_absent", absent);
        }
        if let Some(of_tasks) = &self.of_tasks {
            let name = if self.wants_sleep { "off_cpu" } else { "maps" };
            closing.note(name, of_tasks.told());
        }
        if let Some(reason) = &self.no_task_stacks {
            closing.note("task_stacks_refused", reason.as_str());
        }
    }
}
