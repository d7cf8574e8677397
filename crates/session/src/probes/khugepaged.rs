//! Part of the stream `faults`: huge pages that are made of small ones after the faults.
//!
//! Without it faults are recorded all the same, so it never refuses the stream: why it could not be had is in the manifest.

use std::fs;

use pagelab_observe::khugepaged::{self, Collapse, KhugepagedProbe};
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::KhugepagedRow;
use serde_json::{Map, Value};

use super::watcher::{Count, Scope, Watched, Watcher};
use crate::options::SessionOptions;

/// The streams that it fills.
pub const STREAMS: &[Stream] = &[Stream::Faults];
/// The name of its counts in the table `loss`.
const COUNTED_AS: &str = "khugepaged";
const HUGE_SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

/// The probe, once there is a target; before that, and if it cannot be had, the reason.
struct KhugepagedWatcher {
    probe: Result<KhugepagedProbe, String>,
    small_bytes: u64,
    huge_bytes: u64,
}

/// Makes it; whether it can be had is found out when there is a target.
#[allow(clippy::unnecessary_wraps, reason = "the table of probes has functions that can fail")]
pub fn open(_: &SessionOptions) -> Result<Box<dyn Watcher>, String> {
    let probe = Err("there is no target yet".to_owned());
    Ok(Box::new(KhugepagedWatcher { probe, small_bytes: rustix::param::page_size() as u64, huge_bytes: 0 }))
}

fn attach(watched: &Watched<'_>, huge_bytes: u64) -> Result<KhugepagedProbe, String> {
    let tree = watched.task_states.ok_or("the recorded tree is known to BPF only, which is not to be had")?;
    let kernel = khugepaged::check()?;
    KhugepagedProbe::attach(&kernel, tree, huge_bytes).map_err(|error| error.to_string())
}

fn huge_bytes() -> Result<u64, String> {
    let text = fs::read_to_string(HUGE_SIZE).map_err(|error| format!("{HUGE_SIZE}: {error}"))?;
    let bytes = text.trim().parse().ok().filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("{HUGE_SIZE}: found {text:?}, needed a number of bytes"))
}

impl Watcher for KhugepagedWatcher {
    fn streams(&self) -> &'static [Stream] {
        STREAMS
    }

    fn rung(&self) -> &'static str {
        "bpf"
    }

    fn takes(&self, _: &Scope<'_>) -> Result<(), String> {
        Ok(())
    }

    fn begin(&mut self, watched: &Watched<'_>) -> Result<(), String> {
        self.probe = huge_bytes().and_then(|bytes| {
            self.huge_bytes = bytes;
            attach(watched, bytes)
        });
        Ok(())
    }

    fn step(&mut self, _: i64, writer: &mut RecordingWriter) {
        let pages = (self.huge_bytes / self.small_bytes) as u32;
        let Ok(probe) = &mut self.probe else { return };
        let columns = writer.table::<KhugepagedRow<'_>>();
        probe.drain(|one| columns.push(&row(&one, pages)));
    }

    fn counts(&self) -> Vec<Count> {
        let Ok(probe) = &self.probe else { return Vec::new() };
        let counts = probe.counts();
        vec![Count { stream: COUNTED_AS, cpu: None, seen: counts.seen, lost: counts.lost, filtered: 0 }]
    }

    fn shed(&mut self, _: Stream) -> bool {
        self.stop();
        true
    }

    fn stop(&mut self) {
        if let Ok(probe) = &mut self.probe {
            probe.detach();
        }
    }

    fn finish(&mut self, _: i64, _: &mut RecordingWriter, extra: &mut Map<String, Value>) {
        let told = self.probe.as_ref().err().map_or("active", String::as_str);
        extra.insert(COUNTED_AS.to_owned(), told.into());
    }
}

fn row(one: &Collapse, pages: u32) -> KhugepagedRow<'_> {
    KhugepagedRow {
        ts: one.ts as i64,
        mm_id: one.mm_id,
        task_id: Some(one.task_id),
        op: if one.tried { "collapse" } else { "scan" },
        kind: one.kind,
        by_whom: if one.called { "madvise" } else { "khugepaged" },
        addr: one.addr,
        pgoff: one.pgoff,
        dev: one.file.map(|(dev, _)| dev),
        ino: one.file.map(|(_, ino)| ino),
        result: &one.result,
        pages: one.is_done().then_some(pages),
        filled: one.filled,
    }
}
