//! The events of one kind, one ring per CPU.
//!
//! An event that is inherited by children can write into a ring only if it belongs to one CPU, so there is one event per
//! thread and CPU. All threads that run already share the ring of their CPU.

use std::io;
use std::os::fd::AsRawFd;

use perf_event::events::{self, Hardware, Software};
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};

use super::calls::Purpose;
use super::records::{self, CallLayout, Item, Layout, Record, What};
use super::tracepoints::{CallTracepoints, Tracepoint};
use super::{PerfCount, PerfOptions};
use crate::cpu::{Frequency, Unwinding, online_cpus};
use crate::streams::Stream;

/// Bytes of user stack that a sample carries: enough for most, at a tenth of what the ring of an ordinary user holds in a step.
pub(super) const STACK_COPY_BYTES: u32 = 8 << 10;
/// The registers bp, sp and ip of `PERF_SAMPLE_REGS_USER` on x86 (`PERF_REG_X86_BP` and on).
const REGS_USER: u64 = 0b111 << 6;
/// The same of a call's arguments: dx, si, di, r8, r9, r10.
const CALL_REGS: u64 = 0b111 << 3 | 0b111 << 16;
/// Below this a ring is of no use.
const RING_BYTES_MIN: usize = 64 << 10;
/// Records of the tree and samples are few.
const RING_BYTES_FEW: usize = 512 << 10;
/// `PERF_EVENT_IOC_SET_OUTPUT`.
const SET_OUTPUT: libc::c_ulong = 0x2405;
/// `PERF_EVENT_IOC_SET_FILTER`.
const SET_FILTER: libc::c_ulong = 0x4008_2406;
/// What the kernel writes before each record.
const HEADER_BYTES: usize = 8;
/// No record of a system call is longer.
const CALL_BYTES_MAX: usize = 160;

/// What a set of rings is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Tasks and memory areas.
    Tree,
    /// Page faults.
    Faults,
    /// Samples by the processor's clock, or by the kernel's.
    Cycles,
    /// See above.
    Clock,
    /// System calls, by the tracepoints of their entry and of their return.
    Calls(Purpose),
}

impl Kind {
    /// The stream that it alone fills.
    pub(super) fn stream(self) -> Option<Stream> {
        match self {
            Self::Tree => None,
            Self::Faults => Some(Stream::Faults),
            Self::Cycles | Self::Clock => Some(Stream::Cpu),
            Self::Calls(Purpose::Calls) => Some(Stream::Syscalls),
            Self::Calls(Purpose::Maps) => Some(Stream::Maps),
        }
    }
}

/// How events are to be opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct How<'a> {
    pub options: &'a PerfOptions,
    /// In user mode alone.
    pub user_only: bool,
    /// From the task's next `exec` on; else when they are enabled.
    pub from_exec: bool,
    /// For [`Kind::Calls`].
    pub tracepoints: Option<&'a CallTracepoints>,
}

/// Where records of system calls are missing in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// Nowhere.
    None,
    /// After the last one that was read, up to the next.
    Open,
    /// The gap that the next report of lost records will be about was reported already.
    Told,
}

/// One CPU's ring, and the events that write into it.
struct OneCpu {
    cpu: u32,
    layout: Layout,
    ring: Sampler,
    /// Events of further threads.
    others: Vec<Counter>,
    /// The returns, where the others are entries: of all threads.
    returns: Vec<Counter>,
    ring_bytes: usize,
    received: u64,
    lost: u64,
    /// Time of the last record.
    last_ts: u64,
    gap: Gap,
    /// What the events had counted when the ring last reported lost records.
    counted: Option<u64>,
}

/// The rings of one kind.
pub(super) struct Rings {
    pub kind: Kind,
    cpus: Vec<OneCpu>,
}

fn builder(kind: Kind, tid: u32, cpu: u32, how: How<'_>) -> io::Result<Builder<'static>> {
    let mut builder = match kind {
        Kind::Tree => Builder::new(Software::DUMMY),
        Kind::Faults => Builder::new(Software::PAGE_FAULTS),
        Kind::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Kind::Clock => Builder::new(Software::CPU_CLOCK),
        Kind::Calls(_) => return Ok(at_tracepoint(&call_tracepoints(how)?.enter, tid, cpu, how)),
    };
    aim(&mut builder, tid, cpu, how);
    builder.sample(SampleFlag::IP);
    match kind {
        Kind::Tree => {
            builder.sample(SampleFlag::ADDR).sample_period(1);
            builder.mmap(true).mmap2(true).mmap_data(true).comm(true).comm_exec(true).task(true);
        }
        Kind::Faults => {
            builder.sample(SampleFlag::ADDR).sample_period(1);
        }
        Kind::Cycles | Kind::Clock => {
            let (frequency, unwinding) = profile_of(how);
            let hz = if kind == Kind::Cycles { frequency.cycles_hz } else { frequency.timer_hz };
            builder.exclude_idle(true).sample_frequency(hz);
            builder.sample(SampleFlag::PERIOD).sample(SampleFlag::CALLCHAIN);
            if with_stack(unwinding) {
                builder.sample(SampleFlag::REGS_USER).sample(SampleFlag::STACK_USER);
                builder.sample_regs_user(REGS_USER).sample_stack_user(STACK_COPY_BYTES);
            }
        }
        Kind::Calls(_) => {}
    }
    Ok(builder)
}

/// What holds for every event.
fn aim(builder: &mut Builder<'static>, tid: u32, cpu: u32, how: How<'_>) {
    builder.observe_pid(tid as i32).one_cpu(cpu as usize).inherit(true);
    builder.exclude_kernel(how.user_only).exclude_hv(how.user_only);
    builder.enabled(false).enable_on_exec(how.from_exec);
    builder.clockid(Clock::MONOTONIC).sample_id_all(true);
    builder.sample(SampleFlag::TID).sample(SampleFlag::TIME);
}

fn at_tracepoint(point: &Tracepoint, tid: u32, cpu: u32, how: How<'_>) -> Builder<'static> {
    let mut builder = Builder::new(events::Tracepoint::with_id(u64::from(point.id)));
    aim(&mut builder, tid, cpu, how);
    builder.sample(SampleFlag::RAW).sample_period(1);
    builder
}

/// How the profile is taken; of no consequence where none is wanted.
fn profile_of(how: How<'_>) -> (Frequency, Unwinding) {
    how.options.profile.unwrap_or((Frequency::FULL, Unwinding::default()))
}

fn call_tracepoints(how: How<'_>) -> io::Result<&CallTracepoints> {
    how.tracepoints.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Sets the filter of a tracepoint.
fn narrow(counter: &Counter, point: &Tracepoint) -> io::Result<()> {
    let Some(filter) = &point.filter else { return Ok(()) };
    // SAFETY: the descriptor is that of an open perf event; the kernel copies the text, which ends in 0 and outlives the call.
    let failed = unsafe { libc::ioctl(counter.as_raw_fd(), SET_FILTER, filter.as_ptr()) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Opens an event that writes into the ring of another; none if the thread has ended meanwhile.
fn beside(ring: &Sampler, builder: &Builder<'_>) -> io::Result<Option<Counter>> {
    let counter = match builder.build() {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        other => other?,
    };
    // SAFETY: both are descriptors of perf events that are open; the call changes no memory of this process.
    if unsafe { libc::ioctl(counter.as_raw_fd(), SET_OUTPUT, ring.as_raw_fd()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Some(counter))
}

/// Whether samples carry a copy of the stack.
fn with_stack(unwinding: Unwinding) -> bool {
    cfg!(target_arch = "x86_64") && unwinding != Unwinding::FramePointers
}

/// Tells that records are missing between two times.
fn gap(purpose: Option<Purpose>, since: u64, until: u64, into: &mut Vec<Item>) {
    let Some(purpose) = purpose else { return };
    let item = |ts, what| Item { ts, pid: 0, tid: 0, what };
    into.extend([item(since, What::GapBegins(purpose)), item(until, What::GapEnds(purpose))]);
}

impl OneCpu {
    /// Opens the events of all threads on a CPU. The ring is halved until the limit on locked memory lets it pass.
    fn open(kind: Kind, tids: &[u32], cpu: u32, how: How<'_>) -> io::Result<Self> {
        let (first, rest) = tids.split_first().ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        let wanted = how.options.ring_bytes_per_cpu;
        let mut bytes = match kind {
            Kind::Faults => wanted,
            // A call has two records, each longer than that of a fault.
            Kind::Calls(Purpose::Calls) => 2 * wanted,
            Kind::Tree | Kind::Cycles | Kind::Clock | Kind::Calls(Purpose::Maps) => wanted.min(RING_BYTES_FEW),
        };
        bytes = 1 << bytes.max(RING_BYTES_MIN).ilog2();
        let ring = loop {
            match builder(kind, *first, cpu, how)?.build()?.sampled(bytes) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && bytes > RING_BYTES_MIN => bytes /= 2,
                other => break other?,
            }
        };
        let mut others = Vec::with_capacity(rest.len());
        for tid in rest {
            others.extend(beside(&ring, &builder(kind, *tid, cpu, how)?)?);
        }
        let (mut returns, mut layout) = (Vec::new(), Layout::Fault);
        match kind {
            Kind::Tree | Kind::Faults => {}
            Kind::Cycles | Kind::Clock => {
                let (_, unwinding) = profile_of(how);
                layout = Layout::Tick { cpu, stack: with_stack(unwinding) };
            }
            Kind::Calls(purpose) => {
                let CallTracepoints { enter, exit } = call_tracepoints(how)?;
                for tid in tids {
                    let mut at_exit = at_tracepoint(exit, *tid, cpu, how);
                    if cfg!(target_arch = "x86_64") && purpose == Purpose::Calls {
                        // Of a call that is refused there is no entry, which has the arguments.
                        at_exit.sample(SampleFlag::REGS_USER).sample_regs_user(CALL_REGS);
                    }
                    returns.extend(beside(&ring, &at_exit)?);
                }
                returns.iter().try_for_each(|one| narrow(one, exit))?;
                narrow(ring.as_counter(), enter)?;
                others.iter().try_for_each(|one| narrow(one, enter))?;
                layout = Layout::Call { cpu, at: CallLayout::of(purpose, enter, exit) };
            }
        }
        Ok(Self {
            cpu,
            layout,
            ring,
            others,
            returns,
            ring_bytes: bytes,
            received: 0,
            lost: 0,
            last_ts: 0,
            gap: Gap::None,
            counted: None,
        })
    }

    /// Takes the records that are there; those that are written meanwhile wait for the next time.
    fn drain(&mut self, now_ns: u64, into: &mut Vec<Item>) {
        let purpose = match self.layout {
            Layout::Call { at, .. } => Some(at.purpose),
            _ => None,
        };
        let calls = purpose.is_some();
        let (mut bytes, mut told_of_lost, mut late) = (0, false, false);
        while !late && let Some(record) = self.ring.next_record() {
            bytes += record.len() + HEADER_BYTES;
            let read = records::read(record.ty(), record.misc(), &record.to_contiguous(), self.layout);
            match read {
                Some(Record::Item(item)) => {
                    if std::mem::replace(&mut self.gap, Gap::None) == Gap::Open {
                        gap(purpose, self.last_ts, item.ts, into);
                    }
                    // Only the entry of a call is counted.
                    self.received += u64::from(!matches!(item.what, What::Return(_)));
                    self.last_ts = item.ts;
                    late = item.ts > now_ns;
                    into.push(item);
                }
                Some(Record::Lost(_)) if calls => {
                    told_of_lost = true;
                    self.gap = if self.gap == Gap::Told { Gap::None } else { Gap::Open };
                }
                Some(Record::Lost(lost)) => self.lost += lost,
                Some(Record::Other) => {}
                // Never seen; what cannot be read is missing in the recording.
                None if calls => self.gap = Gap::Open,
                None => self.lost += 1,
            }
        }
        self.count_lost_calls(told_of_lost);
        // All of it was in the ring at once, so the ring may have been full. Lost records are reported with the next
        // record, which may be long in coming; events of other CPUs are not to wait for that.
        if calls && !late && self.gap == Gap::None && bytes + CALL_BYTES_MAX > self.ring_bytes {
            gap(purpose, self.last_ts, super::now_ns(), into);
            self.gap = Gap::Told;
        }
    }

    /// The ring reports lost entries and returns as one number; only their own counters say how many are entries. Their
    /// counts are compared with the received records the next time: records that were on their way have arrived by
    /// then.
    fn count_lost_calls(&mut self, told_of_lost: bool) {
        if let Some(counted) = self.counted.take() {
            self.lost = self.lost.max(counted.saturating_sub(self.received));
        }
        if told_of_lost {
            self.counted = self.count().ok();
        }
    }

    /// The events' counts, without those whose records are only read for reference.
    fn count(&mut self) -> io::Result<u64> {
        let counters = [self.ring.as_counter_mut()].into_iter().chain(&mut self.others);
        counters.map(Counter::read).sum()
    }

    /// Each event; the one that owns the ring first.
    fn each(&mut self, mut act: impl FnMut(&mut Counter) -> io::Result<()>) -> io::Result<()> {
        act(self.ring.as_counter_mut())?;
        self.others.iter_mut().try_for_each(act)
    }
}

impl Rings {
    /// Opens the events of all threads on all CPUs.
    pub(super) fn open(kind: Kind, tids: &[u32], how: How<'_>) -> io::Result<Self> {
        let cpus = online_cpus()?.into_iter();
        let cpus = cpus.map(|cpu| OneCpu::open(kind, tids, cpu as u32, how)).collect::<io::Result<_>>()?;
        Ok(Self { kind, cpus })
    }

    /// Starts the events. Returns of system calls are seen before the first entry is, on every CPU: so none is missed.
    pub(super) fn enable(&mut self) -> io::Result<()> {
        self.cpus.iter_mut().flat_map(|one| &mut one.returns).try_for_each(Counter::enable)?;
        self.cpus.iter_mut().try_for_each(|one| one.each(Counter::enable))
    }

    /// Stops the events, returns last; their rings can still be read.
    pub(super) fn disable(&mut self) {
        for one in &mut self.cpus {
            // What cannot be stopped is closed in the end.
            let _ = one.each(Counter::disable);
        }
        for counter in self.cpus.iter_mut().flat_map(|one| &mut one.returns) {
            let _ = counter.disable();
        }
    }

    pub(super) fn drain(&mut self, now_ns: u64, into: &mut Vec<Item>) {
        for one in &mut self.cpus {
            one.drain(now_ns, into);
        }
    }

    /// Compares the records received through the rings with the events' counts: records that were lost after the last
    /// one that found room are reported nowhere else. To be called when the rings are empty and nothing is counted any
    /// more.
    pub(super) fn settle(&mut self) {
        if !matches!(self.kind, Kind::Faults | Kind::Calls(_)) {
            return;
        }
        for one in &mut self.cpus {
            if let Ok(counted) = one.count() {
                one.lost = one.lost.max(counted.saturating_sub(one.received));
            }
        }
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = PerfCount> {
        let stream = self.kind.stream();
        self.cpus.iter().map(move |one| PerfCount {
            stream,
            cpu: one.cpu,
            seen: one.received + one.lost,
            lost: one.lost,
        })
    }
}
