//! The stream `maps` where nothing reports mappings: the contents of `/proc/PID/maps`, read ten times a second.

use std::collections::HashSet;

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::MappingsRow;

use crate::perf::not_by_perf;
use crate::process::MapsLine;
use crate::streams::Stream;
use crate::watcher::{AttachTo, Closing, Round, Scope, Watcher};

const MAP_ANONYMOUS: u32 = 0x20;
const INTERVAL_NS: i64 = 100_000_000;

/// The identity of a mapping: addresses, protection, and the place in a file.
type Key = (u64, u64, u32, u64, u64, u64);

struct MapsWatcher {
    /// Each process with its mappings as of the last reading. Task and address space have its number, from 1.
    processes: Vec<(u32, HashSet<Key>)>,
    /// It waits at the gate until the second step, and its mappings are the recorder's.
    at_gate: bool,
    next_ns: i64,
    last_mapping_id: u32,
    looks: u64,
}

/// Makes the watcher.
pub(crate) fn open() -> Box<dyn Watcher> {
    let watcher =
        MapsWatcher { processes: Vec::new(), at_gate: false, next_ns: i64::MIN, last_mapping_id: 0, looks: 0 };
    Box::new(watcher)
}

fn key(line: &MapsLine<'_>) -> Key {
    (line.start, line.end, line.prot, line.offset, line.dev, line.ino)
}

impl Watcher for MapsWatcher {
    fn streams(&self) -> &'static [Stream] {
        &[Stream::Maps]
    }

    fn rung(&self) -> &'static str {
        "procfs"
    }

    fn takes(&self, scope: &Scope<'_>) -> Result<(), String> {
        match scope {
            Scope::Tree | Scope::Processes(_) => Ok(()),
            other => Err(not_by_perf(&other.to_string())),
        }
    }

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        let pids = match target.scope {
            Scope::Processes(running) => running.iter().map(|(pid, _)| *pid).collect(),
            _ => vec![target.pid],
        };
        self.at_gate = matches!(target.scope, Scope::Tree);
        self.processes = pids.into_iter().map(|pid| (pid, HashSet::new())).collect();
        Ok(())
    }

    fn step(&mut self, round: &mut Round, writer: &mut RecordingWriter) {
        let now_ns = round.now_ns;
        if std::mem::take(&mut self.at_gate) || now_ns < self.next_ns {
            return;
        }
        self.next_ns = now_ns + INTERVAL_NS;
        for (id, (pid, before)) in (1..).zip(&mut self.processes) {
            // A process that has ended has none.
            let text = MapsLine::read(*pid);
            let mut now = HashSet::new();
            for line in MapsLine::parse_all(&text) {
                now.insert(key(&line));
                if before.contains(&key(&line)) {
                    continue;
                }
                self.last_mapping_id += 1;
                let named = (!line.path.is_empty()).then_some(line.path);
                writer.push(&MappingsRow {
                    ts: now_ns,
                    task_id: id,
                    mm_id: id,
                    mapping_id: Some(self.last_mapping_id),
                    op: "mmap",
                    kind: "snapshot",
                    addr: Some(line.start),
                    len: Some(line.end - line.start),
                    prot: Some(line.prot),
                    flags: Some(if line.ino == 0 { line.flags | MAP_ANONYMOUS } else { line.flags }),
                    offset: (line.ino != 0).then_some(line.offset),
                    dev: (line.ino != 0).then_some(line.dev),
                    ino: (line.ino != 0).then_some(line.ino),
                    path: named,
                    ..MappingsRow::default()
                });
            }
            self.looks += u64::from(!now.is_empty());
            *before = now;
        }
    }

    fn finish(&mut self, closing: &mut Closing<'_>) {
        closing.note("looks", self.looks);
    }
}
