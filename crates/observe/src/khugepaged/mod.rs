//! Huge pages made of small ones afterwards: by the kernel's thread khugepaged, and by calls of MADV_COLLAPSE.
//!
//! The kernel says what came of each piece of memory (of the size of a huge page) that was looked at or tried; the names of its
//! results come from the running kernel's own types. Memory is the recorded tree's if the address space's owner, as the kernel
//! keeps it, or the caller is recorded.
//!
//! What cannot be seen: the address of anonymous memory is not said. It is worked out from where the kernel thinks the last
//! small page belongs, which is right unless the memory was moved (mremap); of pieces that were turned down before that there
//! is none. Splits of huge pages have no tracepoint: the kernel counts them (`thp_split_page`, `thp_split_pmd` and others of
//! /proc/vmstat), for the whole system.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};

use crate::bpf::{BpfError, EventRing, listen_to_libbpf, not_loaded, refused, user_dev};
use crate::btf::{KernelTypes, Names};

#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, clippy::unwrap_used, missing_docs)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/khugepaged.skel.rs"));
}

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

/// What was done about one piece of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collapse {
    /// When it was done, CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// A task of the address space: its owner, or the caller.
    pub task_id: u32,
    /// The address space; none if it is not one that is recorded.
    pub mm_id: Option<u32>,
    /// It was tried; else it was looked at and turned down.
    pub tried: bool,
    /// `anon`, `file` or `shmem`.
    pub kind: &'static str,
    /// By a call of MADV_COLLAPSE; else by khugepaged.
    pub called: bool,
    /// Start of the piece.
    pub addr: Option<u64>,
    /// Page of the file.
    pub pgoff: Option<u64>,
    /// The file: device, as `st_dev` has it, and inode.
    pub file: Option<(u64, u64)>,
    /// The kernel's word, without its prefix; the number if it has none.
    pub result: String,
    /// Small pages of the piece that had no memory before.
    pub filled: Option<u32>,
}

impl Collapse {
    /// Whether there is a huge page now that was not there before.
    pub fn is_done(&self) -> bool {
        self.tried && self.result == DONE
    }
}

/// What the programs have counted.
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
    let kernel = KernelTypes::read()?;
    match TRACEPOINTS.iter().find(|name| !kernel.has_tracepoint(name)) {
        Some(missing) => Err(format!("the kernel has no tracepoint {missing}; needed: {NEEDED}")),
        None => Ok(kernel),
    }
}

impl KhugepagedProbe {
    /// Loads the programs and attaches them; `task_states` says which tasks are recorded (`bpf/membership.bpf.h`), and
    /// `huge_bytes` is the size of a huge page.
    ///
    /// # Errors
    /// The kernel refuses to load or to attach them.
    pub fn attach(kernel: &KernelTypes, task_states: BorrowedFd<'_>, huge_bytes: u64) -> Result<Self, BpfError> {
        listen_to_libbpf();
        // The object must not move while the skeleton borrows it. It is a pointer's worth of memory per recording.
        let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = KhugepagedSkelBuilder::default().open(storage).map_err(refused("open", NEEDED))?;
        open.maps.task_states.reuse_fd(task_states).map_err(refused("sharing the tree", NEEDED))?;
        let mut skel = open.load().map_err(not_loaded)?;
        let progs = &mut skel.progs;
        let programs = [
            &mut progs.isolated,
            &mut progs.collapsed,
            &mut progs.scanned,
            &mut progs.collapsed_file,
            &mut progs.scanned_file,
        ];
        let attach = |(name, program): (&'static str, &mut libbpf_rs::ProgramMut<'_>)| {
            program.attach_trace().map_err(refused(name, NEEDED))
        };
        let links = TRACEPOINTS.into_iter().zip(programs).map(attach).collect::<Result<_, _>>()?;
        let events = EventRing::of(&skel.maps.collapse_events)?;
        let results = kernel.names(&["scan_result"], "SCAN_");
        Ok(Self { links, events, results, huge_bytes, skel })
    }

    /// Hands over what was done, in the order in which it was.
    pub fn drain(&mut self, mut sink: impl FnMut(Collapse)) {
        let Self { events, results, huge_bytes, .. } = self;
        events.consume(|bytes| {
            if let Some(raw) = read(bytes) {
                sink(collapse(&raw, results, *huge_bytes));
            }
        });
    }

    /// Detaches the programs. What they sent before stays in the ring.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// What the programs have counted.
    pub fn counts(&self) -> CollapseCounts {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or_else(CollapseCounts::default, |bss| CollapseCounts {
            seen: bss.collapses_seen,
            lost: bss.collapses_lost,
        })
    }
}

/// Takes a record apart.
fn collapse(raw: &types::collapse_event, results: &Names, huge_bytes: u64) -> Collapse {
    let has = |flag: Flag| raw.flags & flag.0 != 0;
    let named = results.iter().find(|(value, _)| *value == i64::from(raw.result));
    let kind = match (has(Flag::COLLAPSE_FILE), has(Flag::COLLAPSE_SHMEM)) {
        (false, _) => "anon",
        (true, false) => "file",
        (true, true) => "shmem",
    };
    Collapse {
        ts: raw.ts,
        task_id: raw.task_id,
        mm_id: (raw.mm_id != 0).then_some(raw.mm_id),
        tried: has(Flag::COLLAPSE_TRIED),
        kind,
        called: has(Flag::COLLAPSE_CALLED),
        addr: has(Flag::COLLAPSE_HAS_ADDR).then_some(raw.addr / huge_bytes * huge_bytes),
        pgoff: has(Flag::COLLAPSE_HAS_PGOFF).then_some(raw.pgoff),
        file: (raw.ino != 0).then(|| (user_dev(raw.dev), raw.ino)),
        result: named.map_or_else(|| raw.result.to_string(), |(_, name)| name.clone()),
        filled: has(Flag::COLLAPSE_HAS_FILLED).then_some(raw.filled),
    }
}

fn read(bytes: &[u8]) -> Option<types::collapse_event> {
    if bytes.len() < size_of::<types::collapse_event>() {
        return None;
    }
    // SAFETY: the slice holds enough bytes, the read is unaligned, and the record is integers only.
    Some(unsafe { bytes.as_ptr().cast::<types::collapse_event>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_words() {
        let results: Names = vec![(1, "SUCCEED".to_owned()), (5, "EXCEED_NONE_PTE".to_owned())];
        let flags = Flag::COLLAPSE_TRIED.0 | Flag::COLLAPSE_HAS_ADDR.0 | Flag::COLLAPSE_HAS_FILLED.0;
        let raw = types::collapse_event { addr: 0x7f00_0123_4000, flags, result: 1, filled: 9, ..Default::default() };
        let done = collapse(&raw, &results, 2 << 20);
        assert!(done.is_done() && !done.called && done.file.is_none());
        assert_eq!((done.kind, done.addr, done.filled, done.mm_id), ("anon", Some(0x7f00_0120_0000), Some(9), None));
        let flags = Flag::COLLAPSE_FILE.0 | Flag::COLLAPSE_CALLED.0;
        let raw = types::collapse_event { flags, result: 77, ino: 4, dev: 8 << 20 | 1, mm_id: 2, ..Default::default() };
        let looked = collapse(&raw, &results, 2 << 20);
        assert!(!looked.is_done() && looked.called);
        assert_eq!((looked.kind, looked.addr, looked.result.as_str()), ("file", None, "77"));
        assert_eq!((looked.file, looked.mm_id), (Some((libc::makedev(8, 1), 4)), Some(2)));
        assert!(read(&[0; 8]).is_none());
    }
}
