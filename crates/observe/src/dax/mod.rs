//! Faults on files of a DAX file system, whose memory is mapped directly: was a slot of 2 MiB mapped as a whole, or
//! page by page?
//!
//! The kernel reports the result of a fault as a set of bits whose values differ between its versions; the names come
//! from the running kernel's own types. `NOPAGE` of a `pmd` fault means that the slot is mapped by one entry of 2 MiB;
//! `FALLBACK` that it was not possible and will be tried page by page (`pte`). Some kernels try twice and report it
//! twice: count slots, not faults.
//!
//! The tracepoints are there in every kernel with CONFIG_FS_DAX, whether or not the host has a DAX device.

use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::DaxFaultsRow;

use crate::bpf::{
    self, BpfError, EventRing, WireRecord, attach_all, include_skeleton, not_loaded, open, read, share, user_dev,
};
use crate::btf::{KernelTypes, Names};
use crate::streams::Stream;
use crate::watcher::{AttachTo, Count, ProbeOptions, Round, Watcher};

include_skeleton!("dax");

use skeleton::{DaxSkel, DaxSkelBuilder, types};

const TRACEPOINTS: [&str; 2] = ["dax_pmd_fault_done", "dax_pte_fault_done"];
const NEEDED: &str = "a kernel with CONFIG_FS_DAX and raw tracepoints; look: grep FS_DAX /boot/config-$(uname -r)";

/// Kinds as `bpf/dax.h` numbers them, in the words of the recording.
const KINDS: [(u32, &str); 2] = [(1, "pmd"), (2, "pte")];

/// What the programs have counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DaxCounts {
    /// Faults of the recorded tree.
    pub seen: u64,
    /// Of these, the ones that found no room.
    pub lost: u64,
}

/// What the bits of a fault's result are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcomes(Names);

impl Outcomes {
    /// The names of the running kernel.
    pub(crate) fn of(kernel: &KernelTypes) -> Self {
        Self::new(kernel.names(&["vm_fault_reason"], "VM_FAULT_"))
    }

    /// Names of bits. A value of several bits is a field (the index of a poisoned huge page) and no outcome.
    pub(crate) fn new(names: Names) -> Self {
        Self(names.into_iter().filter(|(value, _)| *value > 0 && value & (value - 1) == 0).collect())
    }

    /// Whether it will be tried page by page.
    fn is_fallback(&self, result: u32) -> bool {
        self.0.iter().any(|(value, name)| name == "FALLBACK" && i64::from(result) & value != 0)
    }

    /// `NOPAGE`, or several names joined by `|`; bits without a name stay numbers. Nothing for 0, and without any
    /// names.
    pub(crate) fn decode(&self, result: u32) -> Option<String> {
        if self.0.is_empty() || result == 0 {
            return None;
        }
        let (mut rest, mut words) = (result, Vec::new());
        for (value, name) in &self.0 {
            let bit = u32::try_from(*value).unwrap_or(0);
            if rest & bit != 0 {
                words.push(name.clone());
                rest &= !bit;
            }
        }
        if rest != 0 {
            words.push(format!("{rest:#x}"));
        }
        Some(words.join("|"))
    }
}

/// The loaded programs.
pub struct DaxProbe {
    links: Vec<Link>,
    events: EventRing,
    outcomes: Outcomes,
    skel: DaxSkel<'static>,
}

/// Whether the kernel has what is needed, without loading anything; its types, for the probe.
///
/// # Errors
/// The reason in words.
pub fn check() -> Result<Rc<KernelTypes>, String> {
    bpf::check(&TRACEPOINTS, NEEDED)
}

impl DaxProbe {
    /// Loads the programs and attaches them; `task_states` says which tasks are recorded (`bpf/membership.bpf.h`).
    pub fn attach(kernel: &KernelTypes, task_states: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let mut open = open::<DaxSkelBuilder>(NEEDED)?;
        share(&mut open.maps.task_states, task_states, NEEDED)?;
        let skel = open.load().map_err(not_loaded)?;
        let programs = TRACEPOINTS.into_iter().zip([&skel.progs.pmd_fault_done, &skel.progs.pte_fault_done]);
        let links = attach_all(programs, NEEDED)?;
        let events = EventRing::of(&skel.maps.dax_events)?;
        Ok(Self { links, events, outcomes: Outcomes::of(kernel), skel })
    }

    /// Hands over the rows of the faults, in the order in which they were done.
    pub fn drain(&mut self, mut sink: impl FnMut(&DaxFaultsRow<'_>)) {
        let Self { events, outcomes, .. } = self;
        events.consume(|bytes| {
            let Some(raw) = read::<types::dax_event>(bytes) else { return };
            let outcome = outcomes.decode(raw.result);
            if let Some(row) = row(&raw, outcomes, outcome.as_deref()) {
                sink(&row);
            }
        });
    }

    /// Detaches the programs. Records sent before stay in the ring.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// What the programs have counted.
    pub fn counts(&self) -> DaxCounts {
        self.skel
            .maps
            .bss_data
            .as_deref()
            .map_or_else(DaxCounts::default, |bss| DaxCounts { seen: bss.dax_seen, lost: bss.dax_lost })
    }
}

/// `FAULT_FLAG_WRITE` and `VM_SHARED`, which have had these values since there is DAX.
const WRITE: u32 = 1;
const SHARED: u64 = 8;
/// Base pages in the range of one PMD entry.
const PAGES_OF_SLOT: u64 = 512;

/// Why the slot of a fault cannot be mapped by one entry: what the kernel's `dax_fault_check_fallback` looks at, in its order. What
/// passes all of it is refused later, for reasons that lie in the file and are not said with the fault: its extents (`pagelab doctor
/// PATH` tells them), or entries of 4 KiB that it had in this slot before.
fn fallback_reason(raw: &types::dax_event, slot_pages: u64) -> &'static str {
    let page_bytes = rustix::param::page_size() as u64;
    let slot_bytes = slot_pages * page_bytes;
    let slot = raw.addr / slot_bytes * slot_bytes;
    match () {
        () if raw.addr / page_bytes % slot_pages != raw.pgoff % slot_pages => "not_aligned",
        () if raw.flags & WRITE != 0 && raw.vm_flags & SHARED == 0 => "copied_on_write",
        () if slot < raw.vm_start || slot + slot_bytes > raw.vm_end => "leaves_mapping",
        () if raw.pgoff | (slot_pages - 1) >= raw.max_pgoff => "file_ends_inside",
        () => "extents_or_entries",
    }
}

// SAFETY: integers without gaps.
unsafe impl WireRecord for types::dax_event {}

/// The row of a record, whose result in words is `outcome`; none if it is of a kind that is not known.
fn row<'a>(raw: &types::dax_event, outcomes: &Outcomes, outcome: Option<&'a str>) -> Option<DaxFaultsRow<'a>> {
    let (_, kind) = KINDS.iter().find(|(number, _)| *number == raw.kind)?;
    Some(DaxFaultsRow {
        ts: raw.ts as i64,
        task_id: raw.task_id,
        kind,
        dev: user_dev(raw.dev),
        ino: raw.ino,
        addr: raw.addr,
        vm_start: raw.vm_start,
        vm_end: raw.vm_end,
        vm_flags: raw.vm_flags,
        pgoff: raw.pgoff,
        max_pgoff: (*kind == "pmd").then_some(raw.max_pgoff),
        reason: outcomes.is_fallback(raw.result).then(|| fallback_reason(raw, PAGES_OF_SLOT)),
        flags: raw.flags,
        result: raw.result,
        outcome,
    })
}

/// The streams that the watcher fills.
pub(crate) const STREAMS: &[Stream] = &[Stream::Dax];

/// The stream `dax`; the probe is there once there is a target.
struct DaxWatcher {
    kernel: Rc<KernelTypes>,
    probe: Option<DaxProbe>,
}

/// Finds out whether the kernel can be asked.
pub(crate) fn open_watcher(_: &ProbeOptions) -> Result<Box<dyn Watcher>, String> {
    Ok(Box::new(DaxWatcher { kernel: check()?, probe: None }))
}

impl Watcher for DaxWatcher {
    fn streams(&self) -> &'static [Stream] {
        STREAMS
    }

    fn rung(&self) -> &'static str {
        "bpf"
    }

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        let probe = DaxProbe::attach(&self.kernel, target.needed_task_states()?);
        self.probe = Some(probe.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn step(&mut self, _: &mut Round, writer: &mut RecordingWriter) {
        let Some(probe) = &mut self.probe else { return };
        let columns = writer.table::<DaxFaultsRow<'_>>();
        probe.drain(|row| columns.push(row));
    }

    fn count(&self, counts: &mut Vec<Count>) {
        let Some(probe) = &self.probe else { return };
        let DaxCounts { seen, lost } = probe.counts();
        counts.push(Count { stream: Stream::Dax.name(), cpu: None, seen, lost, filtered: 0 });
    }

    fn shed(&mut self, _: Stream) -> bool {
        self.stop();
        true
    }

    fn stop(&mut self) {
        if let Some(probe) = &mut self.probe {
            probe.detach();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of two kernels, which differ, give the same words.
    #[test]
    fn results_are_decoded_with_the_names_of_the_kernel_that_gave_them() {
        let names = |list: &[(i64, &str)]| {
            Outcomes::new(list.iter().map(|(value, name)| (*value, (*name).to_owned())).collect())
        };
        let newer =
            names(&[(1, "OOM"), (2, "SIGBUS"), (0x100, "NOPAGE"), (0x800, "FALLBACK"), (0xf_0000, "HINDEX_MASK")]);
        let older = names(&[(1, "OOM"), (0x80, "NOPAGE"), (0x400, "FALLBACK")]);
        assert_eq!((newer.decode(0x100), older.decode(0x80)), (Some("NOPAGE".into()), Some("NOPAGE".into())));
        assert_eq!((newer.decode(0x800), older.decode(0x400)), (Some("FALLBACK".into()), Some("FALLBACK".into())));
        assert_eq!(newer.decode(0x902).as_deref(), Some("SIGBUS|NOPAGE|FALLBACK"));
        assert_eq!(newer.decode(0x1_0100).as_deref(), Some("NOPAGE|0x10000"), "a field is not taken for an outcome");
        assert_eq!((newer.decode(0), Outcomes::default().decode(0x100)), (None, None));
    }

    #[test]
    fn the_running_kernel_names_what_is_looked_for() {
        let Ok(kernel) = KernelTypes::read() else { return };
        let outcomes = Outcomes::of(&kernel);
        for name in ["NOPAGE", "FALLBACK", "SIGBUS", "MAJOR"] {
            let (value, _) = outcomes.0.iter().find(|(_, known)| known == name).expect("a name that all kernels have");
            assert_eq!(outcomes.decode(*value as u32).as_deref(), Some(name));
        }
    }

    #[test]
    fn a_fault_that_fell_back_tells_why_in_the_order_of_the_kernel() {
        let outcomes = Outcomes::new(vec![(0x100, "NOPAGE".to_owned()), (0x800, "FALLBACK".to_owned())]);
        // The third slot of a file of 64, mapped whole; the fault is in its middle.
        let good = types::dax_event {
            kind: 1,
            addr: 0x7f00_0060_0000 - 0x10_0000,
            vm_start: 0x7f00_0000_0000,
            vm_end: 0x7f00_0800_0000,
            vm_flags: SHARED,
            pgoff: 2 * 512 + 256,
            max_pgoff: 64 * 512,
            result: 0x800,
            ..Default::default()
        };
        let told = |event: types::dax_event| row(&event, &outcomes, None).expect("a fault").reason;
        assert_eq!(told(good), Some("extents_or_entries"));
        assert_eq!(told(types::dax_event { pgoff: 2 * 512 + 255, ..good }), Some("not_aligned"));
        let private = types::dax_event { flags: WRITE, vm_flags: 0, ..good };
        assert_eq!(told(private), Some("copied_on_write"));
        assert_eq!(told(types::dax_event { flags: 0, ..private }), Some("extents_or_entries"), "it was read");
        assert_eq!(told(types::dax_event { vm_start: good.addr, ..good }), Some("leaves_mapping"));
        assert_eq!(told(types::dax_event { vm_end: good.addr + 4096, ..good }), Some("leaves_mapping"));
        assert_eq!(told(types::dax_event { max_pgoff: 3 * 512 - 1, ..good }), Some("file_ends_inside"));
        assert_eq!(told(types::dax_event { max_pgoff: 3 * 512, ..good }), Some("extents_or_entries"));
        assert_eq!(told(types::dax_event { result: 0x100, ..good }), None, "it did not fall back");
    }

    #[test]
    fn a_record_becomes_a_row() {
        let outcomes = Outcomes::new(vec![(0x100, "NOPAGE".to_owned())]);
        let raw = types::dax_event {
            ts: 7,
            kind: 1,
            dev: 253 << 20 | 5,
            vm_start: 0x20_0000,
            vm_end: 0x40_0000,
            max_pgoff: 511,
            result: 0x100,
            ..Default::default()
        };
        let found = row(&raw, &outcomes, Some("NOPAGE")).expect("a pmd fault");
        assert_eq!((found.kind, found.max_pgoff, found.outcome), ("pmd", Some(511), Some("NOPAGE")));
        assert_eq!(outcomes.decode(raw.result).as_deref(), found.outcome);
        assert_eq!((found.dev, found.vm_start, found.vm_end), (libc::makedev(253, 5), 0x20_0000, 0x40_0000));
        let pte = row(&types::dax_event { kind: 2, ..raw }, &outcomes, None).expect("a pte fault");
        assert_eq!((pte.kind, pte.max_pgoff), ("pte", None));
        assert!(row(&types::dax_event { kind: 3, ..raw }, &outcomes, None).is_none());
        assert!(read::<types::dax_event>(&[0; 8]).is_none());
    }
}
