//! The stream `counters`: hardware and software counters of the recorded tree, read about once a second and at the end.

use std::collections::BTreeSet;
use std::fs;

use pagelab_observe::counters::{Counters, KernelPmu, Scope};
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::CountersRow;
use serde_json::{Map, Value, json};

use super::watcher::{self, Watched, Watcher};
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
    /// A command that has run for a while has children that are to be counted, too.
    with_children: bool,
    /// Threads that were there when counting began, and threads that came while it did: whether those are counted is not
    /// known.
    threads: Option<(usize, usize)>,
    /// What was counted together, until the stream was shed.
    shed: Option<Vec<Vec<String>>>,
}

/// Finds out what can be counted.
pub fn open(options: &SessionOptions) -> Result<Box<dyn Watcher>, String> {
    let counters = Counters::open(KernelPmu)?;
    let with_children = options.target.is_started();
    Ok(Box::new(CounterWatcher {
        counters,
        next_ns: i64::MIN,
        said_missing: false,
        with_children,
        threads: None,
        shed: None,
    }))
}

/// The threads of a process that runs.
fn threads_of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The processes that a process's threads have made and that still run, and theirs.
fn add_children(pid: u32, found: &mut BTreeSet<u32>) {
    for tid in threads_of(pid) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            if found.insert(child) {
                add_children(child, found);
            }
        }
    }
}

/// The threads of processes that run, and where asked for of those that they have made.
fn all_threads(pids: impl IntoIterator<Item = u32>, with_children: bool) -> BTreeSet<u32> {
    let mut found: BTreeSet<u32> = pids.into_iter().collect();
    if with_children {
        for pid in found.clone() {
            add_children(pid, &mut found);
        }
    }
    found.into_iter().flat_map(threads_of).collect()
}

impl CounterWatcher {
    /// What is counted together, by name.
    fn groups(&self) -> Vec<Vec<String>> {
        self.counters.groups().map(<[String]>::to_vec).collect()
    }

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

    fn takes(&self, scope: &watcher::Scope<'_>) -> Result<(), String> {
        match scope {
            watcher::Scope::Tree | watcher::Scope::Processes(_) => Ok(()),
            other => Err(format!(
                "counters cannot watch {other}; needed: a command or processes, try: pagelab record --observe counters -p PID"
            )),
        }
    }

    fn begin(&mut self, watched: &Watched<'_>) -> Result<(), String> {
        let watcher::Scope::Processes(running) = watched.scope else {
            return self.counters.follow(&[Scope::FromExec(watched.pid)]);
        };
        let threads = || all_threads(running.iter().map(|(pid, _)| *pid), self.with_children);
        let before = threads();
        let scopes: Vec<Scope> = before.iter().copied().map(Scope::FromNow).collect();
        if scopes.is_empty() {
            // It has ended; the recording says so by its end.
            return Ok(());
        }
        // What a thread makes is counted from when it is. Of one that came meanwhile nobody can tell whose it is.
        let meanwhile = |now: BTreeSet<u32>| now.difference(&before).count();
        self.counters.follow(&scopes)?;
        self.threads = Some((before.len(), meanwhile(threads())));
        Ok(())
    }

    fn step(&mut self, now_ns: i64, writer: &mut RecordingWriter) {
        if now_ns >= self.next_ns && self.shed.is_none() {
            self.next_ns = now_ns + INTERVAL_NS;
            self.sample(now_ns, writer);
        }
    }

    /// Counting costs the target at each of its context switches; the last counts are those of the last second.
    fn shed(&mut self, _: Stream) -> bool {
        if self.shed.is_none() {
            self.shed = Some(self.groups());
            self.counters.close();
        }
        true
    }

    fn finish(&mut self, now_ns: i64, writer: &mut RecordingWriter, extra: &mut Map<String, Value>) {
        if self.shed.is_none() {
            self.sample(now_ns, writer);
        }
        extra.insert("not_counted".to_owned(), json!(self.counters.not_counted()));
        if let Some((threads, meanwhile)) = self.threads {
            extra.insert("threads".to_owned(), json!(threads));
            extra.insert("threads_made_meanwhile".to_owned(), json!(meanwhile));
        }
        let groups = self.shed.take().unwrap_or_else(|| self.groups());
        extra.insert("groups".to_owned(), json!(groups));
        self.counters.close();
    }
}
