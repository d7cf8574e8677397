//! The profile: what the tasks of the recorded tree do, looked at on every CPU, 997 times a second if nothing else is asked for.
//!
//! [`Profiler::open`] loads the program of `bpf/cpu.bpf.c` and attaches it to a sampling event on each CPU; from then
//! on the owner calls [`Profiler::drain`] often enough that the rings do not fill. With the default of 4 MiB per CPU
//! that is 0.1 s if every sample carries the largest copy of a stack. Lost samples are counted.
//!
//! The event is the processor's cycle counter where there is one, else the kernel's `cpu-clock`; [`Profiler::event`]
//! says which. Their costs differ: a counter's interrupt takes a microsecond or two, a timer's in a virtual machine
//! exits from the guest twice. On a 2-core VM (Linux 6.18) `cpu-clock` alone at 997 Hz, with no program attached and no
//! reader, takes 2 % from a loop that computes and 7 to 9 % from PostgreSQL, whose caches it empties as well; at 99 Hz
//! it takes 1 %. So there are two frequencies ([`Frequency`]).

mod ring;

use std::os::fd::AsFd;

use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;
use pagelab_vocab::remedies::{self, Place};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};

pub use ring::{Sample, SampleCounts, SampleRings};
pub(crate) use ring::{ring_bytes, value_bytes};

use crate::bpf::{
    BpfError, NEEDED_TO_LOAD, Observer, attach_to_event, include_skeleton, not_loaded, open, refused, share,
};

include_skeleton!("cpu");

use skeleton::{CpuSkel, CpuSkelBuilder};

/// How the stacks of user space are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unwinding {
    /// By unwind information where the code has it, by frame pointers where not.
    #[default]
    Auto,
    /// By frame pointers only, which the kernel follows: the cheapest, right only for programs that keep them.
    FramePointers,
    /// As `Auto`, but a stack that breaks off is not replaced by the chain of frame pointers.
    Dwarf,
}

/// Samples a second and CPU, by what makes them. Both are primes, so that what is done at round intervals is neither always
/// met nor always missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frequency {
    /// By the processor's cycle counter.
    pub cycles_hz: u64,
    /// By a timer, where there is no such counter.
    pub timer_hz: u64,
}

impl Frequency {
    /// For a full profile.
    pub const FULL: Self = Self::of(997);
    /// For an overview, at a cost that is not felt where every sample is a timer's interrupt.
    pub const CHEAP: Self = Self { timer_hz: 97, ..Self::FULL };

    /// This frequency, whatever triggers the samples.
    pub const fn of(hz: u64) -> Self {
        Self { cycles_hz: hz, timer_hz: hz }
    }

    /// Those of an event called `cycles` or `cpu-clock`, with or without a suffix for user mode.
    pub fn of_event(self, event: &str) -> u64 {
        if event.starts_with(CPU_CLOCK) { self.timer_hz } else { self.cycles_hz }
    }
}

pub(crate) const CYCLES: &str = "cycles";
/// Name of the event that samples by the kernel's timer.
pub const CPU_CLOCK: &str = "cpu-clock";

/// The parameters of the profile.
#[derive(Debug, Clone)]
pub struct ProfileOptions {
    /// Samples a second and CPU.
    pub frequency: Frequency,
    /// Bytes of ring per CPU; rounded down to a power of two.
    pub ring_bytes_per_cpu: usize,
    /// Bytes of user stack that are copied at most.
    pub stack_copy_bytes: u32,
    /// How stacks of user space are found.
    pub unwinding: Unwinding,
}

impl ProfileOptions {
    /// Bytes of user stack that are copied at most: none where only frame pointers are followed.
    pub fn copied_bytes(&self) -> u32 {
        match self.unwinding {
            Unwinding::FramePointers => 0,
            Unwinding::Auto | Unwinding::Dwarf => self.stack_copy_bytes,
        }
    }
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self {
            frequency: Frequency::FULL,
            ring_bytes_per_cpu: 4 << 20,
            stack_copy_bytes: 32 << 10,
            unwinding: Unwinding::Auto,
        }
    }
}

/// The sampling events with their program, and the road from it.
pub struct Profiler {
    links: Vec<Link>,
    counters: Vec<Counter>,
    rings: SampleRings,
    event: &'static str,
    /// It holds the maps that the rings are mapped from.
    _skel: CpuSkel<'static>,
}

impl Profiler {
    /// Loads the program and lets it sample the tasks of `observer`, whose rings of faults also tell which samples belong to the
    /// way out of one. Samples are taken from now on.
    pub fn open(options: &ProfileOptions, observer: &Observer) -> Result<Self, BpfError> {
        let cpus =
            libbpf_rs::num_possible_cpus().map_err(refused("counting CPUs", "/sys/devices/system/cpu/possible"))?;
        let ring_bytes = ring::ring_bytes(options.ring_bytes_per_cpu);
        let (event, mut counters) = open_events(options.frequency)?;
        let mut open = open::<CpuSkelBuilder>(NEEDED_TO_LOAD)?;
        let sized = refused("sizing the rings", NEEDED_TO_LOAD);
        open.maps.sample_rings.set_max_entries(cpus as u32).map_err(&sized)?;
        open.maps.sample_rings.set_value_size(ring::value_bytes(ring_bytes) as u32).map_err(&sized)?;
        share(&mut open.maps.task_states, observer.task_states(), NEEDED_TO_LOAD)?;
        share(&mut open.maps.fault_rings, observer.fault_ring_map().0, NEEDED_TO_LOAD)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.sample_ring_mask = ring_bytes as u32 - 1;
            rodata.stack_copy = options.copied_bytes();
            rodata.by_timer = event == CPU_CLOCK;
        }
        let skel = open.load().map_err(not_loaded)?;
        let rings = SampleRings::map(skel.maps.sample_rings.as_fd(), cpus, ring_bytes as u32)?;
        let links = counters.iter_mut().map(|counter| attach_to_event(&skel.progs.on_sample, counter));
        let links = links.collect::<Result<_, _>>()?;
        Ok(Self { links, counters, rings, event, _skel: skel })
    }

    /// The event as it was opened: `cycles` or `cpu-clock`.
    pub fn event(&self) -> &'static str {
        self.event
    }

    /// Hands over the whole samples older than `until_ns` (CLOCK_MONOTONIC), CPU by CPU, in the order of time.
    pub fn drain(&mut self, until_ns: u64, mut sink: impl FnMut(u32, &Sample<'_>)) {
        for cpu in 0..self.rings.cpus() {
            self.rings.drain(cpu, until_ns, |sample| sink(cpu as u32, sample));
        }
    }

    /// The counts, per CPU.
    pub fn rings(&self) -> &SampleRings {
        &self.rings
    }

    /// Ends sampling; samples taken before can still be drained.
    pub fn detach(&mut self) {
        for counter in &mut self.counters {
            // It is closed right after.
            let _ = counter.disable();
        }
        self.links.clear();
        self.counters.clear();
    }

    /// Stops sampling for a time, without giving anything back; [`Profiler::resume`] goes on.
    pub fn pause(&mut self) -> std::io::Result<()> {
        self.counters.iter_mut().try_for_each(Counter::disable)
    }

    /// Goes on after [`Profiler::pause`].
    pub fn resume(&mut self) -> std::io::Result<()> {
        self.counters.iter_mut().try_for_each(Counter::enable)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to map_err")]
pub(crate) fn event_refused(error: std::io::Error) -> BpfError {
    BpfError::Refused {
        step: "perf_event_open",
        reason: error.to_string(),
        needed: remedies::needed(
            error.raw_os_error(),
            Place::PerfEvent,
            "root or CAP_PERFMON, and a frequency that the kernel allows; look: cat /proc/sys/kernel/perf_event_max_sample_rate",
        ),
    }
}

/// Opens a sampling event on every CPU that is online, the best kind that there is. They are not enabled yet.
fn open_events(frequency: Frequency) -> Result<(&'static str, Vec<Counter>), BpfError> {
    let cpus = online_cpus().map_err(event_refused)?;
    let each = |make: &dyn Fn(usize) -> std::io::Result<Counter>| -> std::io::Result<Vec<Counter>> {
        cpus.iter().map(|cpu| make(*cpu)).collect()
    };
    let cycles = each(&|cpu| sampling(Builder::new(Hardware::CPU_CYCLES), cpu, frequency.cycles_hz));
    if let Ok(counters) = cycles {
        return Ok((CYCLES, counters));
    }
    let clock = each(&|cpu| sampling(Builder::new(Software::CPU_CLOCK), cpu, frequency.timer_hz));
    clock.map(|counters| (CPU_CLOCK, counters)).map_err(event_refused)
}

fn sampling(mut builder: Builder<'_>, cpu: usize, frequency_hz: u64) -> std::io::Result<Counter> {
    builder.any_pid().one_cpu(cpu).include_kernel().exclude_idle(true).sample_frequency(frequency_hz).build()
}

/// The numbers in a list such as `0-3,8`.
pub(crate) fn online_cpus() -> std::io::Result<Vec<usize>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let wrong =
        || std::io::Error::other(format!("/sys/devices/system/cpu/online: found {text:?}, needed a list of CPUs"));
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => cpus.extend(first..=last),
            _ => return Err(wrong()),
        }
    }
    Ok(cpus)
}
