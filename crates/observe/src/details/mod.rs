//! How page faults ended: major or minor, when, and with what memory. All major faults are recorded, and one in N of
//! the minor ones.
//!
//! [`FaultDetails::open`] loads the programs of `bpf/details.bpf.c` and puts them on the kernel's software events for minor
//! and major faults, which fire when a fault has been handled. So what a detail says of time is from entry to the end of the
//! handling; the way back to the program, some 100 ns, is not in it. A fault that is handled in several attempts has one end.
//!
//! A detail does not repeat what the fault's own record says ([`crate::bpf::FaultSlot`]). It names that record by its place in
//! the ring where that is known, else by task and address: it is the task's latest one at that address.
//!
//! The kind of memory is read from the page table and the memory area ([`FaultDetail::got`]). Three cases cannot be
//! recognised that way. A page that comes back from swap without I/O (it was read ahead, or not yet freed) looks new. A
//! write to a page that was shared at a fork may have copied it or, if it had no other owner any more, taken it over:
//! both are `cow`. And page cache made at the fault (the first touch of shared memory) is page cache.

mod got;
mod memory;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, ProgramMut};
use perf_event::events::Software;
use perf_event::{Builder, Counter};

pub use got::GOT;

use crate::bpf::{
    BpfError, EventRing, NEEDED_TO_LOAD, Observer, WireRecord, attach_to_event, include_skeleton, not_loaded, open,
    read, refused, share,
};
use crate::cpu::{event_refused, online_cpus};

include_skeleton!("details");

use skeleton::{DetailsSkel, DetailsSkelBuilder, types};

/// Default of N, where the end of 1 in N minor faults is recorded: 0, none. The event alone costs every minor fault
/// some 80 ns, and sampling one of 64 makes faults a fifth slower; major faults are so slow that it does not show.
pub const ONE_IN: u64 = 0;
/// `DETAIL_NO_POSITION` of `bpf/details.h`.
const NO_POSITION: u64 = u64::MAX;
/// Room for details, all CPUs together: 50 ms if every fault of the fastest machine seen is looked at.
const RING_BYTES: u32 = 4 << 20;
/// The same for major faults alone, each of which takes microseconds.
const RING_BYTES_MAJOR: u32 = 256 << 10;

/// How a fault ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultDetail {
    /// When, CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// The address that was accessed.
    pub addr: u64,
    /// The CPU on which it ended.
    pub cpu: u32,
    /// Position of the fault's record in the ring of that CPU; none if it is not among the last ones there.
    pub position: Option<u64>,
    /// Who faulted.
    pub task_id: u32,
    /// Whether it needed I/O, or had to be tried again after waiting, which the kernel counts as the same.
    pub major: bool,
    /// The facts found, in bits (`detail_fact` of `bpf/details.h`); [`FaultDetail::got`] interprets them.
    pub facts: u32,
}

impl FaultDetail {
    /// The memory that the fault got, in a word of [`GOT`], given the error code of the fault's own record; none if not
    /// known.
    pub fn got(&self, error_code: u32) -> Option<&'static str> {
        got::got(self.facts, error_code)
    }
}

/// What the programs have counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DetailCounts {
    /// Ends of the recorded tree's faults that were looked at.
    pub seen: u64,
    /// Of these, the ones that found no room.
    pub lost: u64,
}

/// The loaded programs, and the events that they are to run on.
pub struct FaultDetails {
    one_in: u64,
    links: Vec<Link>,
    counters: Vec<Counter>,
    events: EventRing,
    no_walk: Option<String>,
    skel: DetailsSkel<'static>,
}

impl FaultDetails {
    /// Loads the programs, for the faults that `observer` records; of the minor ones, one in `one_in` is looked at, of
    /// the major ones all. 0: of no minor one. Nothing is attached yet.
    ///
    /// # Errors
    /// The kernel refuses to load them. That page tables cannot be read is no error, see [`FaultDetails::no_walk`].
    pub fn open(observer: &Observer, one_in: u64) -> Result<Self, BpfError> {
        let mut open = open::<DetailsSkelBuilder>(NEEDED_TO_LOAD)?;
        let (ring_map, slots) = observer.fault_ring_map();
        let maps = &mut open.maps;
        share(&mut maps.task_states, observer.task_states(), NEEDED_TO_LOAD)?;
        share(&mut maps.fault_rings, ring_map, NEEDED_TO_LOAD)?;
        let ring_bytes = if one_in == 0 { RING_BYTES_MAJOR } else { RING_BYTES };
        maps.details.set_max_entries(ring_bytes).map_err(refused("sizing the ring", NEEDED_TO_LOAD))?;
        if let Some(rodata) = maps.rodata_data.as_deref_mut() {
            rodata.ring_slot_mask = slots - 1;
        }
        let mut skel = open.load().map_err(not_loaded)?;
        let no_walk = memory::find(&mut skel).err();
        let events = EventRing::of(&skel.maps.details)?;
        let (links, counters) = (Vec::new(), Vec::new());
        Ok(Self { one_in, links, counters, events, no_walk, skel })
    }

    /// Puts the programs on the events of every CPU. From now on details are collected.
    ///
    /// # Errors
    /// The kernel refuses the events, or programs on them.
    pub fn attach(&mut self) -> Result<(), BpfError> {
        let progs = &mut self.skel.progs;
        for cpu in online_cpus().map_err(event_refused)? {
            for (event, period, program) in [
                (Software::PAGE_FAULTS_MAJ, 1, &mut progs.major_ended),
                (Software::PAGE_FAULTS_MIN, self.one_in, &mut progs.minor_ended),
            ] {
                // Its mere presence would cost every fault something.
                if period == 0 {
                    continue;
                }
                let (link, counter) = attach(program, event, cpu, period)?;
                self.links.push(link);
                self.counters.push(counter);
            }
        }
        Ok(())
    }

    /// The end of 1 in N minor faults is recorded; none: of none.
    pub fn one_in(&self) -> Option<u64> {
        (self.one_in > 0).then_some(self.one_in)
    }

    /// Why page tables are not read, so that [`FaultDetail::got`] is never known; none if they are.
    pub fn no_walk(&self) -> Option<&str> {
        self.no_walk.as_deref()
    }

    /// Appends the details that came, in the order in which the faults ended.
    pub fn drain(&mut self, to: &mut Vec<FaultDetail>) {
        self.events.consume(|bytes| to.extend(read(bytes).map(|raw| detail(&raw))));
    }

    /// Takes the programs off the events. Records sent before can still be drained.
    pub fn detach(&mut self) {
        self.links.clear();
        self.counters.clear();
    }

    /// What the programs have counted.
    pub fn counts(&self) -> DetailCounts {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or_else(DetailCounts::default, |bss| DetailCounts { seen: bss.details_seen, lost: bss.details_lost })
    }
}

/// Opens one event on one CPU with the program on it.
fn attach(program: &mut ProgramMut<'_>, event: Software, cpu: usize, period: u64) -> Result<(Link, Counter), BpfError> {
    let mut builder = Builder::new(event);
    builder.any_pid().one_cpu(cpu).include_kernel().sample_period(period);
    let mut counter = builder.build().map_err(event_refused)?;
    Ok((attach_to_event(program, &mut counter)?, counter))
}

// SAFETY: integers without gaps.
unsafe impl WireRecord for types::fault_detail {}

fn detail(raw: &types::fault_detail) -> FaultDetail {
    FaultDetail {
        ts: raw.ts,
        addr: raw.addr,
        cpu: raw.cpu,
        position: (raw.position != NO_POSITION).then_some(raw.position),
        task_id: raw.task_id,
        major: raw.facts & types::detail_fact::DETAIL_MAJOR.0 != 0,
        facts: raw.facts,
    }
}
