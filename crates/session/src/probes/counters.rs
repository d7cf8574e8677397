//! The stream `counters`: hardware and software counters of the recorded tree, read about once a second and at the end.

use pagelab_observe::counters::{Counters, KernelPmu, Scope};
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::CountersRow;
use serde_json::{Map, Value, json};

use super::watcher::{Watched, Watcher};
use crate::options::SessionOptions;

/// The streams that it fills.
pub const STREAMS: &[Stream] = &[Stream::Counters];

/// A read makes every CPU that runs a recorded task answer; once a second is no load, and the counts are exact at any
/// rate.
const INTERVAL_NS: i64 = 1_000_000_000;

/// Counters of a tree.
struct CounterWatcher {
    counters: Counters<KernelPmu>,
    next_ns: i64,
    /// The events that are not counted have their rows, which hold null, once.
    said_missing: bool,
}

/// Finds out what can be counted.
pub fn open(_: &SessionOptions) -> Result<Box<dyn Watcher>, String> {
    let counters = Counters::open(KernelPmu)?;
    Ok(Box::new(CounterWatcher { counters, next_ns: i64::MIN, said_missing: false }))
}

impl CounterWatcher {
    fn sample(&mut self, ts: i64, writer: &mut RecordingWriter) {
        self.counters.read(|reading| {
            let count = reading.count;
            writer.push(&CountersRow {
                ts,
                task_id: None,
                name: reading.name,
                value: count.map(|count| count.value),
                enabled_ns: count.map(|count| count.enabled_ns),
                running_ns: count.map(|count| count.running_ns),
                group_id: count.and_then(|count| count.group_id),
            });
        });
        if !std::mem::replace(&mut self.said_missing, true) {
            for name in self.counters.not_counted().keys() {
                writer.push(&CountersRow { ts, name, ..CountersRow::default() });
            }
        }
    }
}

impl Watcher for CounterWatcher {
    fn streams(&self) -> &'static [Stream] {
        STREAMS
    }

    fn rung(&self) -> &'static str {
        "perf"
    }

    fn begin(&mut self, watched: &Watched<'_>) -> Result<(), String> {
        self.counters.follow(Scope::FromExec(watched.pid))
    }

    fn step(&mut self, now_ns: i64, writer: &mut RecordingWriter) {
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + INTERVAL_NS;
            self.sample(now_ns, writer);
        }
    }

    fn finish(&mut self, now_ns: i64, writer: &mut RecordingWriter, extra: &mut Map<String, Value>) {
        self.sample(now_ns, writer);
        extra.insert("not_counted".to_owned(), json!(self.counters.not_counted()));
        let groups: Vec<&[String]> = self.counters.groups().collect();
        extra.insert("groups".to_owned(), json!(groups));
        self.counters.close();
    }
}
