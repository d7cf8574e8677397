//! Huge pages made of small ones afterwards: by the kernel's thread khugepaged, and by calls of MADV_COLLAPSE.
//!
//! The kernel reports the result for each piece of memory (of the size of a huge page) that was scanned or collapsed;
//! the names of its results come from the running kernel's own types. Memory belongs to the recorded tree if the
//! address space's owner, as the kernel keeps it, or the caller is recorded.
//!
//! What cannot be seen: the address of anonymous memory is not said. It is worked out from where the kernel thinks the last
//! small page belongs, which is right unless the memory was moved (mremap); of pieces that were turned down before that there
//! is none. Splits of huge pages have no tracepoint: the kernel counts them (`thp_split_page`, `thp_split_pmd` and others of
//! /proc/vmstat), for the whole system.

use std::fs;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::KhugepagedRow;

use crate::bpf::{
    self, BpfError, EventRing, WireRecord, attach_all, include_skeleton, not_loaded, open, read, share, user_dev,
};
use crate::btf::{KernelTypes, Names};
use crate::streams::Stream;
use crate::watcher::{AttachTo, Closing, Count, ProbeOptions, Round, Watcher};

include_skeleton!("khugepaged");

use skeleton::{KhugepagedSkel, KhugepagedSkelBuilder, types};
use types::collapse_flag as Flag;

const TRACEPOINTS: [&str; 5] = [
    "mm_collapse_huge_page_isolate",
    "mm_collapse_huge_page",
    "mm_khugepaged_scan_pmd",
    "mm_khugepaged_collapse_file",
    "mm_khugepaged_scan_file",
];
const NEEDED: &str =
    "a kernel with CONFIG_TRANSPARENT_HUGEPAGE and raw tracepoints; look: ls /sys/kernel/mm/transparent_hugepage";
/// The result of a collapse that was done, as the kernel names it without its prefix.
const DONE: &str = "SUCCEED";

/// Where the kernel says how large a huge page is.
const HUGE_SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
/// The words of `khugepaged.op`: a piece was tried, or looked at and turned down.
const TRIED: &str = "collapse";
const TURNED_DOWN: &str = "scan";

/// The programs' counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollapseCounts {
    /// Pieces of the recorded tree.
    pub seen: u64,
    /// Of these, the ones that found no room.
    pub lost: u64,
}

/// The loaded programs.
pub struct KhugepagedProbe {
    links: Vec<Link>,
    events: EventRing,
    results: Names,
    huge_bytes: u64,
    skel: KhugepagedSkel<'static>,
}

/// Whether the kernel has what is needed, without loading anything; its types, for the probe.
///
/// # Errors
/// The reason in words.
pub fn check() -> Result<Rc<KernelTypes>, String> {
    bpf::check(&TRACEPOINTS, NEEDED)
}

impl KhugepagedProbe {
    /// Loads the programs and attaches them; `task_states` says which tasks are recorded (`bpf/membership.bpf.h`), and
    /// `huge_bytes` is the size of a huge page.
    ///
    /// # Errors
    /// The kernel refuses to load or to attach them.
    pub fn attach(kernel: &KernelTypes, task_states: BorrowedFd<'_>, huge_bytes: u64) -> Result<Self, BpfError> {
        let mut open = open::<KhugepagedSkelBuilder>(NEEDED)?;
        share(&mut open.maps.task_states, task_states, NEEDED)?;
        let skel = open.load().map_err(not_loaded)?;
        let progs = &skel.progs;
        let programs = [&progs.isolated, &progs.collapsed, &progs.scanned, &progs.collapsed_file, &progs.scanned_file];
        let links = attach_all(TRACEPOINTS.into_iter().zip(programs), NEEDED)?;
        let events = EventRing::of(&skel.maps.collapse_events)?;
        let results = kernel.names(&["scan_result"], "SCAN_");
        Ok(Self { links, events, results, huge_bytes, skel })
    }

    /// Hands over the rows of the scans, in the order in which they were made.
    pub fn drain(&mut self, mut sink: impl FnMut(&KhugepagedRow<'_>)) {
        let Self { events, results, huge_bytes, .. } = self;
        events.consume(|bytes| {
            let Some(raw) = read::<types::collapse_event>(bytes) else { return };
            let unnamed = raw.result.to_string();
            sink(&row(&raw, result_name(results, raw.result).unwrap_or(&unnamed), *huge_bytes));
        });
    }

    /// Detaches the programs. Records sent before stay in the ring.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// The programs' counts.
    pub fn counts(&self) -> CollapseCounts {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or_else(CollapseCounts::default, |bss| CollapseCounts {
            seen: bss.collapses_seen,
            lost: bss.collapses_lost,
        })
    }
}

// SAFETY: integers without gaps.
unsafe impl WireRecord for types::collapse_event {}

/// The kernel's word for a result, without its prefix, if it has one.
fn result_name(results: &Names, result: u32) -> Option<&str> {
    let named = results.iter().find(|(value, _)| *value == i64::from(result))?;
    Some(&named.1)
}

/// The row of a record, whose result in words is `result`.
fn row<'a>(raw: &types::collapse_event, result: &'a str, huge_bytes: u64) -> KhugepagedRow<'a> {
    let has = |flag: Flag| raw.flags & flag.0 != 0;
    let kind = match (has(Flag::COLLAPSE_FILE), has(Flag::COLLAPSE_SHMEM)) {
        (false, _) => "anon",
        (true, false) => "file",
        (true, true) => "shmem",
    };
    // There is a huge page now that was not there before.
    let done = has(Flag::COLLAPSE_TRIED) && result == DONE;
    let pages = (huge_bytes / rustix::param::page_size() as u64) as u32;
    KhugepagedRow {
        ts: raw.ts as i64,
        mm_id: (raw.mm_id != 0).then_some(raw.mm_id),
        task_id: Some(raw.task_id),
        op: if has(Flag::COLLAPSE_TRIED) { TRIED } else { TURNED_DOWN },
        kind,
        by_whom: if has(Flag::COLLAPSE_CALLED) { "madvise" } else { "khugepaged" },
        addr: has(Flag::COLLAPSE_HAS_ADDR).then_some(raw.addr / huge_bytes * huge_bytes),
        pgoff: has(Flag::COLLAPSE_HAS_PGOFF).then_some(raw.pgoff),
        dev: (raw.ino != 0).then(|| user_dev(raw.dev)),
        ino: (raw.ino != 0).then_some(raw.ino),
        result,
        pages: done.then_some(pages),
        filled: has(Flag::COLLAPSE_HAS_FILLED).then_some(raw.filled),
    }
}

/// The streams that the watcher fills: it is a part of `faults`.
pub(crate) const STREAMS: &[Stream] = &[Stream::Faults];
/// The name of its counts in the table `loss`.
const COUNTED_AS: &str = "khugepaged";

/// Huge pages that are made of small ones after the faults. Without it faults are recorded all the same, so it never refuses
/// their stream: why it could not be had is in the manifest.
struct KhugepagedWatcher {
    /// Once there is a target; before that, and if it cannot be had, the reason.
    probe: Result<KhugepagedProbe, String>,
}

/// Makes it; whether it is available is found out when there is a target.
#[allow(clippy::unnecessary_wraps, reason = "the table of probes has functions that can fail")]
pub(crate) fn open_watcher(_: &ProbeOptions) -> Result<Box<dyn Watcher>, String> {
    Ok(Box::new(KhugepagedWatcher { probe: Err("there is no target yet".to_owned()) }))
}

fn attach(target: &AttachTo<'_>) -> Result<KhugepagedProbe, String> {
    let huge_bytes = huge_bytes()?;
    let tree = target.needed_task_states()?;
    let kernel = check()?;
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

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        self.probe = attach(target);
        Ok(())
    }

    fn step(&mut self, _: &mut Round, writer: &mut RecordingWriter) {
        let Ok(probe) = &mut self.probe else { return };
        let columns = writer.table::<KhugepagedRow<'_>>();
        probe.drain(|row| columns.push(row));
    }

    fn count(&self, counts: &mut Vec<Count>) {
        let Ok(probe) = &self.probe else { return };
        let CollapseCounts { seen, lost } = probe.counts();
        counts.push(Count { stream: COUNTED_AS, cpu: None, seen, lost, filtered: 0 });
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

    fn finish(&mut self, closing: &mut Closing<'_>) {
        let state = self.probe.as_ref().err().map_or("active", String::as_str);
        closing.note(COUNTED_AS, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_words() {
        let results: Names = vec![(1, "SUCCEED".to_owned()), (5, "EXCEED_NONE_PTE".to_owned())];
        assert_eq!((result_name(&results, 1), result_name(&results, 77)), (Some("SUCCEED"), None));
        let flags = Flag::COLLAPSE_TRIED.0 | Flag::COLLAPSE_HAS_ADDR.0 | Flag::COLLAPSE_HAS_FILLED.0;
        let raw = types::collapse_event { addr: 0x7f00_0123_4000, flags, result: 1, filled: 9, ..Default::default() };
        let done = row(&raw, "SUCCEED", 2 << 20);
        assert_eq!(
            (done.op, done.pages, done.by_whom, done.dev, done.ino),
            ("collapse", Some(512), "khugepaged", None, None)
        );
        assert_eq!((done.kind, done.addr, done.filled, done.mm_id), ("anon", Some(0x7f00_0120_0000), Some(9), None));
        assert_eq!(row(&raw, "EXCEED_NONE_PTE", 2 << 20).pages, None, "tried and not done");
        let flags = Flag::COLLAPSE_FILE.0 | Flag::COLLAPSE_CALLED.0;
        let raw = types::collapse_event { flags, result: 77, ino: 4, dev: 8 << 20 | 1, mm_id: 2, ..Default::default() };
        let looked = row(&raw, "77", 2 << 20);
        assert_eq!((looked.op, looked.pages, looked.by_whom), ("scan", None, "madvise"));
        assert_eq!((looked.kind, looked.addr, looked.result), ("file", None, "77"));
        assert_eq!((looked.dev, looked.ino, looked.mm_id), (Some(libc::makedev(8, 1)), Some(4), Some(2)));
        assert_eq!(row(&raw, "SUCCEED", 2 << 20).pages, None, "looked at and found to be huge already");
        assert!(read::<types::collapse_event>(&[0; 8]).is_none());
    }
}
