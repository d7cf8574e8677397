//! A recording as a Perfetto trace, for ui.perfetto.dev and its trace processor.
//!
//! The messages are those of perfetto's `protos/perfetto/trace`, as far as they are used here, by their field numbers. Each recorded
//! task is a thread's track: system calls, and times off the CPU within and outside of them, are slices, page faults that were timed
//! too and others instants; samples of the profile are `PerfSample`s with their stacks. Nothing is sampled down.

use std::collections::{BTreeMap, HashMap};

use pagelab_recording::tables::{SamplesRow, TasksRow};
use pagelab_recording::{Recording, Result};
use prost::Message;

use crate::events::{self, Counts, Event, Kind};
use crate::folded::{Names, Pair};

/// The trace, and how much of each is in it.
#[derive(Debug)]
pub struct Traced {
    /// The file.
    pub bytes: Vec<u8>,
    /// What it holds.
    pub counts: Counts,
}

/// Makes the trace. Damaged parts are left out and noted.
///
/// # Errors
/// The recording cannot be read.
pub fn trace(recording: &Recording, notes: &mut Vec<String>) -> Result<Traced> {
    let mut writer = Writer::default();
    writer.tasks(recording, notes)?;
    let names = Names::load(recording, notes)?;
    let mut counts = Counts { samples: writer.samples(recording, &names, notes)?, ..Counts::default() };
    events::for_each(recording, notes, |event| {
        if writer.event(event) {
            counts.add(event.kind);
        }
    })?;
    Ok(Traced { bytes: writer.bytes, counts })
}

/// Tracks of processes have the numbers of their pids, tracks of tasks theirs behind this.
const TASKS_FROM: u64 = 1 << 32;
/// The mapping of every frame: readers before 2025 leave out stacks whose frames have none.
const NO_FILE: u64 = 1;
/// All packets are of one writer.
const SEQUENCE: u32 = 1;

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;

#[derive(Default)]
struct Writer {
    /// The trace so far: packets as they will lie in the file.
    bytes: Vec<u8>,
    /// By task.
    threads: HashMap<u32, Thread>,
    interned: Interned,
    /// A packet has said that what is interned begins with it.
    has_state: bool,
}

#[derive(Clone, Copy)]
struct Thread {
    pid: i32,
    tid: i32,
}

/// What is told once and then by number.
#[derive(Default)]
struct Interned {
    functions: HashMap<String, u64>,
    stacks: HashMap<Pair, u64>,
    new: InternedData,
}

impl Interned {
    fn function(&mut self, name: &str) -> u64 {
        if self.functions.is_empty() {
            self.new.mappings.push(Mapping { iid: NO_FILE });
        }
        let next = self.functions.len() as u64 + 1;
        if let Some(known) = self.functions.get(name) {
            return *known;
        }
        self.functions.insert(name.to_owned(), next);
        self.new.function_names.push(InternedString { iid: next, text: name.as_bytes().to_vec() });
        // A frame for each function: places within it are not told.
        self.new.frames.push(InternedFrame { iid: next, function_name_id: next, mapping_id: NO_FILE });
        next
    }

    fn stack(&mut self, names: &Names, stack: Pair) -> u64 {
        if let Some(known) = self.stacks.get(&stack) {
            return *known;
        }
        let frame_ids = names.frames_of(stack).map(|name| self.function(name)).collect();
        let next = self.stacks.len() as u64 + 1;
        self.stacks.insert(stack, next);
        self.new.callstacks.push(Callstack { iid: next, frame_ids });
        next
    }
}

impl Writer {
    fn tasks(&mut self, recording: &Recording, notes: &mut Vec<String>) -> Result<()> {
        // The last name of each is the one of its track.
        let mut named: BTreeMap<u32, (Thread, String)> = BTreeMap::new();
        recording.for_each_readable::<TasksRow>(notes, |row| {
            let thread = Thread { pid: row.pid, tid: row.tid };
            let entry = named.entry(row.task_id).or_insert_with(|| (thread, "[unknown]".to_owned()));
            if let Some(comm) = row.comm {
                comm.clone_into(&mut entry.1);
            }
        })?;
        let mut processes: BTreeMap<i32, String> = BTreeMap::new();
        for (thread, name) in named.values() {
            if thread.tid == thread.pid || !processes.contains_key(&thread.pid) {
                processes.insert(thread.pid, name.clone());
            }
        }
        for (pid, process_name) in processes {
            let process = ProcessDescriptor { pid, process_name };
            self.track(TrackDescriptor {
                uuid: u64::from(pid.unsigned_abs()),
                process: Some(process),
                ..TrackDescriptor::default()
            });
        }
        for (task_id, (thread, thread_name)) in named {
            let described = ThreadDescriptor { pid: thread.pid, tid: thread.tid, thread_name };
            self.track(TrackDescriptor {
                uuid: TASKS_FROM + u64::from(task_id),
                thread: Some(described),
                parent_uuid: u64::from(thread.pid.unsigned_abs()),
                ..TrackDescriptor::default()
            });
            self.threads.insert(task_id, thread);
        }
        Ok(())
    }

    fn track(&mut self, track: TrackDescriptor) {
        self.put(&Packet { sequence_id: SEQUENCE, track_descriptor: Some(track), ..Packet::default() });
    }

    fn packet(&mut self, ts: i64) -> Packet {
        let is_first = !std::mem::replace(&mut self.has_state, true);
        Packet {
            timestamp: u64::try_from(ts).unwrap_or(0),
            sequence_id: SEQUENCE,
            sequence_flags: if is_first { STATE_CLEARED } else { NEEDS_STATE },
            ..Packet::default()
        }
    }

    fn push(&mut self, ts: i64, event: TrackEvent) {
        let packet = Packet {
            timestamp: u64::try_from(ts).unwrap_or(0),
            sequence_id: SEQUENCE,
            track_event: Some(event),
            ..Packet::default()
        };
        self.put(&packet);
    }

    /// A trace is its packets, one after the other, each as field 1.
    fn put(&mut self, packet: &Packet) {
        prost::encoding::message::encode(1, packet, &mut self.bytes);
    }

    /// Whether the task is known, and so the event in the trace.
    fn event(&mut self, event: &Event<'_>) -> bool {
        if !self.threads.contains_key(&event.task_id) {
            return false;
        }
        let track_uuid = TASKS_FROM + u64::from(event.task_id);
        let category = match event.kind {
            Kind::Fault => "faults",
            Kind::Call => "calls",
            Kind::Wait => "waits",
        };
        let begin = TrackEvent {
            kind: if event.dur.is_some() || event.goes_on { SLICE_BEGIN } else { INSTANT },
            track_uuid,
            categories: vec![category.to_owned()],
            name: event.name.to_owned(),
            debug_annotations: vec![DebugAnnotation { name: "detail".to_owned(), string_value: event.detail.clone() }],
        };
        self.push(event.ts, begin);
        if let Some(dur) = event.dur {
            self.push(
                event.ts.saturating_add(dur),
                TrackEvent { kind: SLICE_END, track_uuid, ..TrackEvent::default() },
            );
        }
        true
    }

    fn samples(&mut self, recording: &Recording, names: &Names, notes: &mut Vec<String>) -> Result<u64> {
        let mut count = 0;
        recording.for_each_readable::<SamplesRow>(notes, |row| {
            let Some(thread) = self.threads.get(&row.task_id).copied() else { return };
            let callstack_iid = self.interned.stack(names, (row.kstack_id, row.ustack_id));
            let sample = PerfSample {
                cpu: row.cpu,
                pid: thread.pid.unsigned_abs(),
                tid: thread.tid.unsigned_abs(),
                callstack_iid,
            };
            let mut packet = self.packet(row.ts);
            packet.interned_data = Some(std::mem::take(&mut self.interned.new));
            packet.perf_sample = Some(sample);
            self.put(&packet);
            count += 1;
        })?;
        Ok(count)
    }
}

/// All of a trace, for reading it back.
#[cfg(test)]
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    /// Of the trace's own clock: which one that is makes no difference where there is no other.
    #[prost(uint64, tag = "8")]
    timestamp: u64,
    #[prost(uint32, tag = "10")]
    sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    sequence_flags: u32,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "66")]
    perf_sample: Option<PerfSample>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, tag = "23")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(string, tag = "6")]
    string_value: String,
    #[prost(string, tag = "10")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, tag = "5")]
    parent_uuid: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, tag = "6")]
    process_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(int32, tag = "2")]
    tid: i32,
    #[prost(string, tag = "5")]
    thread_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct PerfSample {
    #[prost(uint32, tag = "1")]
    cpu: u32,
    #[prost(uint32, tag = "2")]
    pid: u32,
    #[prost(uint32, tag = "3")]
    tid: u32,
    #[prost(uint64, tag = "4")]
    callstack_iid: u64,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "5")]
    function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    frames: Vec<InternedFrame>,
    #[prost(message, repeated, tag = "7")]
    callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "19")]
    mappings: Vec<Mapping>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedString {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    text: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedFrame {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(uint64, tag = "2")]
    function_name_id: u64,
    #[prost(uint64, tag = "3")]
    mapping_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    iid: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Callstack {
    #[prost(uint64, tag = "1")]
    iid: u64,
    /// The outermost first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    frame_ids: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_recording::small_recording;

    #[test]
    fn every_event_is_in_the_trace_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let recording = small_recording(&folder.path().join("r"), &[10, 20], |_| {});
        let made = trace(&recording, &mut Vec::new()).expect("a trace");
        assert_eq!(made.counts, Counts { samples: 2, faults: 2, calls: 1, waits: 1 });
        let read = Trace::decode(made.bytes.as_slice()).expect("what was written");
        let events: Vec<&TrackEvent> = read.packets.iter().filter_map(|packet| packet.track_event.as_ref()).collect();
        let count = |kind| events.iter().filter(|event| event.kind == kind).count();
        assert_eq!((count(SLICE_BEGIN), count(SLICE_END), count(INSTANT)), (2, 2, 2));
        let stacks = read.packets.iter().filter_map(|packet| packet.interned_data.as_ref());
        assert_eq!(stacks.map(|data| data.callstacks.len()).sum::<usize>(), 1, "a stack is told once");
        let first = read.packets.iter().find(|packet| packet.perf_sample.is_some()).expect("a sample");
        assert_eq!(first.sequence_flags, STATE_CLEARED);
    }
}
