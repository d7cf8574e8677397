//! Stacks of tasks that went to sleep, or mapped memory, on their way from the observer (`bpf/taskstack.bpf.h`).

use std::os::fd::AsFd;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::skeleton::types::{known_place, place_key};
use super::{BpfError, NEEDED_TO_LOAD, Observer, ObserverOptions, OpenObserverSkel, refused};
use crate::cpu::{Sample, SampleRings, ring_bytes, value_bytes};
use crate::stacks::PlaceNews;

/// Places that the program knows at a time; the one that was met longest ago gives way. They take 6 MiB of the kernel's memory.
const PLACES: u32 = 4096;
/// Words of a stack that the program compares at most (`PLACE_WORDS`).
const PLACE_WORDS: usize = 128;

/// Which stacks of tasks are taken, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskStackOptions {
    /// Bytes of ring per CPU; rounded down to a power of two.
    pub ring_bytes_per_cpu: usize,
    /// Bytes of user stack that are copied at most; 0: frame pointers only.
    pub copied_bytes: u32,
    /// Stacks of tasks that go to sleep, where times off the CPU are recorded.
    pub of_sleep: bool,
    /// Stacks of calls that map at least this many bytes, of madvise about huge pages for as many, and of
    /// prctl(PR_SET_THP_DISABLE), where mapping actions are recorded.
    pub of_maps_from_bytes: Option<u64>,
}

/// Tells the programs how stacks are taken; without options there are none.
pub(super) fn configure(
    open: &mut OpenObserverSkel<'static>,
    options: &ObserverOptions,
    cpus: u32,
) -> libbpf_rs::Result<()> {
    let maps = &mut open.maps;
    let Some(wanted) = options.stacks() else { return Ok(()) };
    let bytes = ring_bytes(wanted.ring_bytes_per_cpu);
    maps.sample_rings.set_max_entries(cpus)?;
    maps.sample_rings.set_value_size(value_bytes(bytes) as u32)?;
    maps.places.set_max_entries(PLACES)?;
    if let Some(rodata) = maps.rodata_data.as_deref_mut() {
        rodata.sample_ring_mask = bytes as u32 - 1;
        rodata.stack_copy = wanted.copied_bytes;
        rodata.map_stack_bytes = wanted.of_maps_from_bytes.unwrap_or(0);
    }
    Ok(())
}

/// The consumer's side.
pub struct TaskStacks {
    rings: SampleRings,
    places: MapHandle,
}

impl TaskStacks {
    /// Maps the rings of an observer that takes such stacks; none if it does not.
    pub fn of(observer: &Observer) -> Result<Option<Self>, BpfError> {
        let Some(wanted) = observer.options.stacks() else { return Ok(None) };
        let (maps, cpus) = (&observer.skel.maps, observer.rings.cpus());
        let places = MapHandle::try_from(&maps.places).map_err(refused("sharing known stacks", NEEDED_TO_LOAD))?;
        let bytes = ring_bytes(wanted.ring_bytes_per_cpu);
        let rings = SampleRings::map(maps.sample_rings.as_fd(), cpus, bytes as u32)?;
        Ok(Some(Self { rings, places }))
    }

    /// Hands over the stacks of events that began before `until_ns` (CLOCK_MONOTONIC), CPU by CPU, in the order in
    /// which they were taken; what `sink` says of a place is passed to the program.
    pub fn drain(&mut self, until_ns: u64, mut sink: impl FnMut(&Sample<'_>, &mut dyn FnMut(PlaceNews<'_>))) {
        let places = &self.places;
        for cpu in 0..self.rings.cpus() {
            self.rings.drain(cpu, until_ns, |sample| sink(sample, &mut |news| tell(places, sample, &news)));
        }
    }

    /// The counts, per CPU.
    pub fn rings(&self) -> &SampleRings {
        &self.rings
    }
}

/// Nothing is lost if it fails: the stack is copied the next time, too.
fn tell(places: &MapHandle, sample: &Sample<'_>, news: &PlaceNews<'_>) {
    let Some(mm_id) = sample.mm_id else { return };
    let [ip, sp, bp] = sample.regs;
    let key = place_key { mm_id, ip, sp, bp, ..place_key::default() };
    let told = match news {
        PlaceNews::Known { number, wants_chain, read } if read.len() <= PLACE_WORDS => {
            let (mut offsets, mut values) = ([0; PLACE_WORDS], [0; PLACE_WORDS]);
            for (i, (offset, value)) in read.iter().enumerate() {
                (offsets[i], values[i]) = (*offset, *value);
            }
            let (words, wants_chain) = (read.len() as u32, u32::from(*wants_chain));
            let place = known_place { number: *number, words, wants_chain, offsets, values, padding: 0 };
            places.update(bytes_of(&key), bytes_of(&place), MapFlags::ANY)
        }
        PlaceNews::Known { .. } => Ok(()),
        PlaceNews::Stale => places.delete(bytes_of(&key)),
    };
    if let Err(error) = told {
        tracing::debug!("a known stack: {error:#}");
    }
}

/// A type of the wire that is plain integers without gaps.
fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: both types that this is used for consist of integers, their padding being members, and live as long as the slice.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}
