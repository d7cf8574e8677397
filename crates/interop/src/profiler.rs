//! A recording for the Firefox Profiler: its processed profile format, written by `fxprof-processed-profile`.
//!
//! Each recorded task is a thread. Samples of the profile are its samples; page faults are markers at an instant, system calls and
//! times off the CPU markers with a beginning and an end. Times are those of the recording since it began. What was not recorded is not
//! there; nothing is sampled down, so the numbers are those of `pagelab show`.
//!
//! The profiler takes the time that it shows from samples, and of threads that have none from markers. So that events before the first
//! sample and behind the last one are in it, there is one more thread, without samples, with one marker over all of the time.

use std::collections::HashMap;
use std::time::Duration;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags, MarkerFieldFormat,
    MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval, StaticSchemaMarker,
    StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};
use pagelab_recording::tables::{SamplesRow, TasksRow};
use pagelab_recording::{Recording, Result};

use crate::events::{self, Counts, Event, Kind};
use crate::folded::{Names, Pair, is_clock};

/// The profile, and how much of each is in it.
#[derive(Debug)]
pub struct Profiled {
    /// The file.
    pub json: String,
    /// What it holds.
    pub counts: Counts,
}

/// Makes the profile. Damaged parts are left out and noted.
///
/// # Errors
/// The recording cannot be read.
pub fn profile(recording: &Recording, notes: &mut Vec<String>) -> Result<Profiled> {
    let mut writer = Writer::new(recording);
    writer.tasks(recording, notes)?;
    let names = Names::load(recording, notes)?;
    let mut counts = Counts { samples: writer.samples(recording, &names, notes)?, ..Counts::default() };
    events::for_each(recording, notes, |event| {
        if writer.event(event, &names) {
            counts.add(event.kind);
        }
    })?;
    writer.whole();
    // Strings, numbers and lists: there is nothing in it that JSON cannot hold.
    let json = serde_json::to_string(&writer.profile).unwrap_or_default();
    Ok(Profiled { json, counts })
}

/// Events that the format takes: it holds each as an object of its own, in the browser as well.
pub const MOST_EVENTS: u64 = 5_000_000;

/// What the Firefox Profiler shows where no clock says how often samples were taken.
const USUAL_INTERVAL_NS: u64 = 10_000_000;

struct Writer {
    profile: Profile,
    start_ns: i64,
    processes: HashMap<i32, ProcessHandle>,
    threads: HashMap<u32, ThreadHandle>,
    /// From the first event or sample to the end of the last one.
    span: Option<(Timestamp, Timestamp)>,
    user: CategoryHandle,
    kernel: CategoryHandle,
    memory: CategoryHandle,
    waiting: CategoryHandle,
}

impl Writer {
    fn new(recording: &Recording) -> Self {
        let manifest = recording.manifest();
        let clock = &manifest.clock;
        let epoch = u64::try_from(clock.realtime_at_start_ns.unwrap_or(0)).unwrap_or(0);
        let command = manifest.command.as_ref().map(|words| words.join(" "));
        let product = manifest.label.clone().or(command).unwrap_or_else(|| "pagelab".to_owned());
        let reference = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(epoch));
        let mut profile = Profile::new(&product, reference, SamplingInterval::from_nanos(USUAL_INTERVAL_NS));
        profile.set_symbolicated(true);
        if let Some(kernel) = &manifest.kernel {
            profile.set_os_name(&format!("Linux {kernel}"));
        }
        Self {
            user: profile.add_category("User", CategoryColor::Blue),
            kernel: profile.add_category("Kernel", CategoryColor::Orange),
            memory: profile.add_category("Memory", CategoryColor::Purple),
            waiting: profile.add_category("Waiting", CategoryColor::Gray),
            profile,
            start_ns: clock.start_ns,
            processes: HashMap::new(),
            threads: HashMap::new(),
            span: None,
        }
    }

    /// Takes note of when something was.
    fn note(&mut self, begin: Timestamp, end: Timestamp) {
        let (first, last) = self.span.unwrap_or((begin, end));
        self.span = Some((first.min(begin), last.max(end)));
    }

    /// The thread that spans the recording.
    fn whole(&mut self) {
        let Some((first, last)) = self.span else { return };
        let process = self.profile.add_process("recording", 0, first);
        let thread = self.profile.add_thread(process, 0, first, true);
        self.profile.set_thread_name(thread, "recording");
        let (name, detail) = (self.profile.intern_string("recorded"), self.profile.intern_string(""));
        let text = Text { name, category: CategoryHandle::OTHER, detail };
        self.profile.add_marker(thread, MarkerTiming::Interval(first, last), Whole(text));
    }

    /// Time since the recording began; what came before it is at its beginning.
    fn at(&self, ts: i64) -> Timestamp {
        Timestamp::from_nanos_since_reference(u64::try_from(ts.saturating_sub(self.start_ns)).unwrap_or(0))
    }

    fn tasks(&mut self, recording: &Recording, notes: &mut Vec<String>) -> Result<()> {
        recording.for_each_readable::<TasksRow>(notes, |row| {
            let at = self.at(row.ts);
            let is_main = row.tid == row.pid;
            let name = row.comm.unwrap_or("[unknown]");
            let process = *self
                .processes
                .entry(row.pid)
                .or_insert_with(|| self.profile.add_process(name, row.pid.unsigned_abs(), at));
            let thread = *self
                .threads
                .entry(row.task_id)
                .or_insert_with(|| self.profile.add_thread(process, row.tid.unsigned_abs(), at, is_main));
            if let Some(name) = row.comm {
                self.profile.set_thread_name(thread, name);
                if is_main {
                    self.profile.set_process_name(process, name);
                }
            }
            if row.op == "exit" {
                self.profile.set_thread_end_time(thread, at);
                if is_main {
                    self.profile.set_process_end_time(process, at);
                }
            }
        })
    }

    /// A stack as the format has it.
    fn stack(
        &mut self,
        thread: ThreadHandle,
        names: &Names,
        stack: Pair,
    ) -> Option<fxprof_processed_profile::StackHandle> {
        let (kernel, user) = (self.kernel, self.user);
        let frames: Vec<FrameInfo> = names
            .frames_of(stack)
            .map(|name| {
                let category = if name.ends_with("_[k]") { kernel } else { user };
                let frame = Frame::Label(self.profile.intern_string(name));
                FrameInfo { frame, category_pair: category.into(), flags: FrameFlags::empty() }
            })
            .collect();
        self.profile.intern_stack_frames(thread, frames.into_iter())
    }

    fn samples(&mut self, recording: &Recording, names: &Names, notes: &mut Vec<String>) -> Result<u64> {
        let (mut count, mut interval_ns) = (0, None);
        recording.for_each_readable::<SamplesRow>(notes, |row| {
            let Some(thread) = self.threads.get(&row.task_id).copied() else { return };
            let stack = self.stack(thread, names, (row.kstack_id, row.ustack_id));
            let is_clock = is_clock(row.event);
            let cpu = if is_clock { CpuDelta::from_nanos(row.weight) } else { CpuDelta::ZERO };
            if is_clock {
                interval_ns = Some(interval_ns.map_or(row.weight, |least: u64| least.min(row.weight)));
            }
            let at = self.at(row.ts);
            self.note(at, at);
            self.profile.add_sample(thread, at, stack, cpu, 1);
            count += 1;
        })?;
        if let Some(ns) = interval_ns.filter(|ns| *ns > 0) {
            self.profile.set_interval(SamplingInterval::from_nanos(ns));
        }
        Ok(count)
    }

    /// Whether the task is known, and so the event in the profile.
    fn event(&mut self, event: &Event<'_>, names: &Names) -> bool {
        let Some(thread) = self.threads.get(&event.task_id).copied() else { return false };
        let name = self.profile.intern_string(event.name);
        let detail = self.profile.intern_string(&event.detail);
        let begin = self.at(event.ts);
        self.note(begin, self.at(event.ts.saturating_add(event.dur.unwrap_or(0))));
        let timing = match event.dur {
            Some(dur) => MarkerTiming::Interval(begin, self.at(event.ts.saturating_add(dur))),
            None if event.goes_on => MarkerTiming::IntervalStart(begin),
            None => MarkerTiming::Instant(begin),
        };
        let text = |category| Text { name, category, detail };
        let marker = match event.kind {
            Kind::Fault => self.profile.add_marker(thread, timing, Fault(text(self.memory))),
            Kind::Call => self.profile.add_marker(thread, timing, Call(text(self.kernel))),
            Kind::Wait => self.profile.add_marker(thread, timing, Wait(text(self.waiting))),
        };
        if event.stack != (None, None) {
            let stack = self.stack(thread, names, event.stack);
            self.profile.set_marker_stack(thread, marker, stack);
        }
        true
    }
}

/// What every marker here says.
struct Text {
    name: StringHandle,
    category: CategoryHandle,
    detail: StringHandle,
}

const DETAIL: &[StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
    key: "detail",
    label: "Detail",
    format: MarkerFieldFormat::String,
    flags: MarkerFieldFlags::SEARCHABLE,
}];

/// A kind of marker: its name in the file, and what it is.
macro_rules! markers {
    ($($kind:ident $type_name:literal $about:literal)*) => {$(
        struct $kind(Text);

        impl StaticSchemaMarker for $kind {
            const UNIQUE_MARKER_TYPE_NAME: &'static str = $type_name;
            const DESCRIPTION: Option<&'static str> = Some($about);
            const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
            const TABLE_LABEL: Option<&'static str> = Some("{marker.data.detail}");
            const FIELDS: &'static [StaticSchemaMarkerField] = DETAIL;

            fn name(&self, _: &mut Profile) -> StringHandle {
                self.0.name
            }

            fn category(&self, _: &mut Profile) -> CategoryHandle {
                self.0.category
            }

            fn string_field_value(&self, _: u32) -> StringHandle {
                self.0.detail
            }

            /// There is no such field.
            fn number_field_value(&self, _: u32) -> f64 {
                0.0
            }
        }
    )*};
}

markers! {
    Fault "PageFault" "A page fault on a user address."
    Call "SystemCall" "A system call, from its entry to its return."
    Wait "OffCpu" "Time off the CPU."
    Whole "Recorded" "The time that was recorded."
}

#[cfg(test)]
mod tests {
    use pagelab_recording::tables::FaultsRow;
    use serde_json::Value;

    use super::*;
    use crate::small_recording::small_recording;

    #[test]
    fn every_event_is_in_the_profile_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let recording = small_recording(&folder.path().join("r"), &[10, 20, 30], |writer| {
            // Of a task that is not known.
            writer.push(&FaultsRow { ts: 60, task_id: 2, ..FaultsRow::default() });
        });
        let made = profile(&recording, &mut Vec::new()).expect("a profile");
        assert_eq!(made.counts, Counts { samples: 3, faults: 3, calls: 1, waits: 1 });
        let json: Value = serde_json::from_str(&made.json).expect("JSON");
        let thread = &json["threads"][0];
        assert_eq!(thread["name"], "work", "the last name");
        assert_eq!(thread["samples"]["length"], 3);
        assert_eq!(thread["markers"]["length"], 5);
        let whole = json["threads"].as_array().and_then(|threads| threads.last()).expect("a thread");
        assert_eq!((&whole["name"], &whole["samples"]["length"]), (&"recording".into(), &0.into()));
        assert_eq!(
            (&whole["markers"]["startTime"][0], &whole["markers"]["endTime"][0]),
            (&0.00001.into(), &0.000_058.into())
        );
        assert_eq!(json["meta"]["interval"], 0.00001, "ms");
    }
}
