//! The stream `counters`: hardware and software counters of the recorded tree, read about once a second and at the end.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::CountersRow;
use serde_json::{Value, json};

use super::{Accounts, Code, Counters, EventDef, KernelPmu, Scope, TaskAccounts};
use crate::streams::Stream;
use crate::watcher::{self, AttachTo, Closing, ProbeOptions, Round, Watcher};

/// The streams that it fills.
pub(crate) const STREAMS: &[Stream] = &[Stream::Counters];

/// A read makes every CPU that runs a recorded task answer; once a second is no load, and the counts are exact at any
/// rate.
const INTERVAL_NS: i64 = 1_000_000_000;

const TREES_ONLY: &str = "of the whole system only the kernel's accounts are counted; needed: a command or processes, try: \
     pagelab record --observe counters -p PID";

/// The kernel's accounts of the tasks, in the place of perf's software events.
struct ByAccounts {
    accounts: TaskAccounts,
    events: Vec<(String, &'static EventDef)>,
    /// The last reported number of page faults; none if they are not recorded, or not to the end.
    page_faults: Option<u64>,
    /// What there was when it ended.
    last: Option<io::Result<Accounts>>,
}

impl ByAccounts {
    /// Their group, in which all are counted all the time, is behind those of perf.
    fn sample(&mut self, ts: i64, group_id: usize, writer: &mut RecordingWriter) {
        let read = match &self.last {
            Some(last) => last.as_ref().ok().copied(),
            None => self.accounts.read().ok(),
        };
        for (name, event) in &self.events {
            let value = read.and_then(|read| read.of(event.code).or(self.page_faults));
            let runtime_ns = value.and(read).map(|read| read.runtime_ns);
            writer.push(&CountersRow {
                ts,
                task_id: None,
                name,
                value,
                enabled_ns: runtime_ns,
                running_ns: runtime_ns,
                group_id: value.and(u32::try_from(group_id).ok()),
            });
        }
    }

    /// Their entry in the manifest.
    fn summary(&self) -> Value {
        match &self.last {
            Some(Ok(last)) => {
                json!({ "by": "the kernel's accounts of each task", "tasks_unfinished": last.tasks_unfinished })
            }
            Some(Err(error)) => json!({ "error": error.to_string() }),
            None => Value::Null,
        }
    }
}

/// Counters of a tree.
struct CounterWatcher {
    counters: Counters<KernelPmu>,
    /// Whoever asks for the counters by name gets perf's own software events. They cost each context switch up to half a
    /// microsecond; for all others the kernel's accounts will do.
    wants_accounts: bool,
    by_accounts: Option<ByAccounts>,
    /// Why not, where they were wanted.
    no_accounts: Option<String>,
    next_ns: i64,
    /// The events that are not counted have their rows, which hold null, once.
    said_missing: bool,
    /// A command that has run for a while has children that are to be counted, too.
    with_children: bool,
    /// Threads that were there when counting began, and threads that came while it did: whether those are counted is not
    /// known.
    threads: Option<(usize, usize)>,
    /// The groups that were counted together, until the stream was shed.
    shed: Option<Vec<Vec<String>>>,
}

/// Finds out what can be counted.
pub(crate) fn open(options: &ProbeOptions) -> Result<Box<dyn Watcher>, String> {
    let counters = Counters::open(KernelPmu)?;
    let with_children = options.starts_target;
    Ok(Box::new(CounterWatcher {
        counters,
        wants_accounts: !options.streams.names(Stream::Counters),
        by_accounts: None,
        no_accounts: None,
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
    /// The groups of events counted together, by name.
    fn groups(&self) -> Vec<Vec<String>> {
        let by_accounts = self.by_accounts.iter().map(|own| own.events.iter().map(|(name, _)| name.clone()).collect());
        self.counters.groups().map(<[String]>::to_vec).chain(by_accounts).collect()
    }

    /// Begins to take the software events from the kernel's accounts, if that is wanted and possible.
    fn begin_accounts(&mut self, target: &AttachTo<'_>) {
        let Some(task_states) = target.task_states().filter(|_| self.wants_accounts) else { return };
        match TaskAccounts::attach(task_states) {
            Ok(accounts) => {
                let events = self.counters.leave_out(|event| matches!(event.code, Code::Software(_)));
                self.by_accounts = Some(ByAccounts { accounts, events, page_faults: None, last: None });
            }
            Err(error) => self.no_accounts = Some(error.to_string()),
        }
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
        let group_id = self.counters.groups().count() + 1;
        if let Some(own) = &mut self.by_accounts {
            own.sample(ts, group_id, writer);
        }
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
        if self.by_accounts.is_some() { "bpf" } else { "perf" }
    }

    fn takes(&self, scope: &watcher::Scope<'_>) -> Result<(), String> {
        match scope {
            watcher::Scope::Tree | watcher::Scope::Processes(_) => Ok(()),
            watcher::Scope::System if self.wants_accounts => Ok(()),
            other => Err(format!(
                "counters cannot watch {other}; needed: a command or processes, try: pagelab record --observe counters -p PID"
            )),
        }
    }

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        self.begin_accounts(target);
        if matches!(target.scope, watcher::Scope::System) {
            self.counters.refuse(TREES_ONLY);
            return self.no_accounts.clone().map_or(Ok(()), Err);
        }
        let watcher::Scope::Processes(running) = target.scope else {
            return self.counters.follow(&[Scope::FromExec(target.pid)]);
        };
        let threads = || all_threads(running.iter().map(|(pid, _)| *pid), self.with_children);
        let before = threads();
        let scopes: Vec<Scope> = before.iter().copied().map(Scope::FromNow).collect();
        if scopes.is_empty() {
            // It has ended; the recording says so by its end.
            return Ok(());
        }
        // Threads that a counted thread creates are counted, too. Whether the creator of one that appeared meanwhile
        // was, is not known.
        let meanwhile = |now: BTreeSet<u32>| now.difference(&before).count();
        self.counters.follow(&scopes)?;
        self.threads = Some((before.len(), meanwhile(threads())));
        Ok(())
    }

    fn step(&mut self, round: &mut Round, writer: &mut RecordingWriter) {
        let now_ns = round.now_ns;
        if let Some(own) = &mut self.by_accounts {
            own.page_faults = round.page_faults;
        }
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
            self.by_accounts = None;
        }
        true
    }

    fn stop(&mut self) {
        if let Some(own) = &mut self.by_accounts {
            own.last = Some(own.accounts.finish());
        }
    }

    fn finish(&mut self, closing: &mut Closing<'_>) {
        if self.shed.is_none() {
            self.sample(closing.now_ns, closing.writer);
        }
        closing.note("not_counted", json!(self.counters.not_counted()));
        let by_perf = || json!({ "by": "perf", "because": self.no_accounts });
        closing.note("software_events", self.by_accounts.as_ref().map_or_else(by_perf, ByAccounts::summary));
        if let Some((threads, meanwhile)) = self.threads {
            closing.note("threads", threads);
            closing.note("threads_made_meanwhile", meanwhile);
        }
        let groups = self.shed.take().unwrap_or_else(|| self.groups());
        closing.note("groups", groups);
        self.counters.close();
    }
}
