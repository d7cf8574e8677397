//! The events of one kind, one ring per CPU.
//!
//! An event that is inherited by children can write into a ring only if it belongs to one CPU, so there is one event per
//! thread and CPU. All threads that run already share the ring of their CPU.

use std::io;
use std::os::fd::AsRawFd;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};

use super::records::{self, Item, Layout, Record};
use super::{PerfCount, PerfOptions};
use crate::cpu::{Frequency, Unwinding, online_cpus};
use crate::streams::Stream;

/// Bytes of user stack that a sample carries: enough for most, at a tenth of what the ring of an ordinary user holds in a step.
pub const STACK_COPY_BYTES: u32 = 8 << 10;
/// The registers bp, sp and ip of `PERF_SAMPLE_REGS_USER` on x86 (`PERF_REG_X86_BP` and on).
const REGS_USER: u64 = 0b111 << 6;
/// Below this a ring is of no use.
const RING_BYTES_MIN: usize = 64 << 10;
/// Records of the tree and samples are few.
const RING_BYTES_FEW: usize = 512 << 10;
/// `PERF_EVENT_IOC_SET_OUTPUT`.
const SET_OUTPUT: libc::c_ulong = 0x2405;

/// What a set of rings is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tasks and memory areas.
    Tree,
    /// Page faults.
    Faults,
    /// Samples by the processor's clock, or by the kernel's.
    Cycles,
    /// See above.
    Clock,
}

impl Kind {
    /// The stream that it alone fills.
    pub fn stream(self) -> Option<Stream> {
        match self {
            Self::Tree => None,
            Self::Faults => Some(Stream::Faults),
            Self::Cycles | Self::Clock => Some(Stream::Cpu),
        }
    }
}

/// How events are to be opened.
#[derive(Debug, Clone, Copy)]
pub struct How<'a> {
    pub options: &'a PerfOptions,
    /// In user mode alone.
    pub user_only: bool,
    /// From the task's next `exec` on; else when they are enabled.
    pub from_exec: bool,
}

/// One CPU's ring, and the events that write into it.
struct OneCpu {
    cpu: u32,
    layout: Layout,
    ring: Sampler,
    /// Events of further threads.
    others: Vec<Counter>,
    received: u64,
    lost: u64,
}

/// The rings of one kind.
pub struct Rings {
    pub kind: Kind,
    cpus: Vec<OneCpu>,
}

fn builder(kind: Kind, tid: u32, cpu: u32, how: How<'_>) -> Builder<'static> {
    let mut builder = match kind {
        Kind::Tree => Builder::new(Software::DUMMY),
        Kind::Faults => Builder::new(Software::PAGE_FAULTS),
        Kind::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Kind::Clock => Builder::new(Software::CPU_CLOCK),
    };
    builder.observe_pid(tid as i32).one_cpu(cpu as usize).inherit(true);
    builder.exclude_kernel(how.user_only).exclude_hv(how.user_only);
    builder.enabled(false).enable_on_exec(how.from_exec);
    builder.clockid(Clock::MONOTONIC).sample_id_all(true);
    builder.sample(SampleFlag::IP).sample(SampleFlag::TID).sample(SampleFlag::TIME);
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
    }
    builder
}

/// How the profile is taken; of no consequence where none is wanted.
fn profile_of(how: How<'_>) -> (Frequency, Unwinding) {
    how.options.profile.unwrap_or((Frequency::FULL, Unwinding::default()))
}

/// Whether samples carry a copy of the stack.
fn with_stack(unwinding: Unwinding) -> bool {
    cfg!(target_arch = "x86_64") && unwinding != Unwinding::FramePointers
}

impl OneCpu {
    /// Opens the events of all threads on a CPU. The ring is halved until the limit on locked memory lets it pass.
    fn open(kind: Kind, tids: &[u32], cpu: u32, how: How<'_>) -> io::Result<Self> {
        let (first, rest) = tids.split_first().ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        let wanted = how.options.ring_bytes_per_cpu;
        let mut bytes = if kind == Kind::Faults { wanted } else { wanted.min(RING_BYTES_FEW) };
        bytes = 1 << bytes.max(RING_BYTES_MIN).ilog2();
        let ring = loop {
            match builder(kind, *first, cpu, how).build()?.sampled(bytes) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && bytes > RING_BYTES_MIN => bytes /= 2,
                other => break other?,
            }
        };
        let mut others = Vec::with_capacity(rest.len());
        for tid in rest {
            let counter = match builder(kind, *tid, cpu, how).build() {
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                other => other?,
            };
            // SAFETY: both are descriptors of perf events that are open; the call changes no memory of this process.
            if unsafe { libc::ioctl(counter.as_raw_fd(), SET_OUTPUT, ring.as_raw_fd()) } != 0 {
                return Err(io::Error::last_os_error());
            }
            others.push(counter);
        }
        let layout = match kind {
            Kind::Tree | Kind::Faults => Layout::Fault,
            Kind::Cycles | Kind::Clock => {
                let (_, unwinding) = profile_of(how);
                Layout::Tick { cpu, stack: with_stack(unwinding) }
            }
        };
        Ok(Self { cpu, layout, ring, others, received: 0, lost: 0 })
    }

    /// Takes the records that are there; those that are written meanwhile wait for the next time.
    fn drain(&mut self, now_ns: u64, into: &mut Vec<Item>) {
        while let Some(record) = self.ring.next_record() {
            let read = records::read(record.ty(), record.misc(), &record.to_contiguous(), self.layout);
            match read {
                Some(Record::Item(item)) => {
                    self.received += 1;
                    let late = item.ts > now_ns;
                    into.push(item);
                    if late {
                        return;
                    }
                }
                Some(Record::Lost(lost)) => self.lost += lost,
                Some(Record::Other) => {}
                // Never seen; what cannot be read is missing in the recording.
                None => self.lost += 1,
            }
        }
    }

    /// Each event; the one that owns the ring first.
    fn each(&mut self, mut act: impl FnMut(&mut Counter) -> io::Result<()>) -> io::Result<()> {
        act(self.ring.as_counter_mut())?;
        self.others.iter_mut().try_for_each(act)
    }
}

impl Rings {
    /// Opens the events of all threads on all CPUs.
    pub fn open(kind: Kind, tids: &[u32], how: How<'_>) -> io::Result<Self> {
        let cpus = online_cpus()?.into_iter();
        let cpus = cpus.map(|cpu| OneCpu::open(kind, tids, cpu as u32, how)).collect::<io::Result<_>>()?;
        Ok(Self { kind, cpus })
    }

    pub fn enable(&mut self) -> io::Result<()> {
        self.cpus.iter_mut().try_for_each(|one| one.each(Counter::enable))
    }

    /// Stops the events; their rings can still be read.
    pub fn disable(&mut self) {
        for one in &mut self.cpus {
            // What cannot be stopped is closed in the end.
            let _ = one.each(Counter::disable);
        }
    }

    pub fn drain(&mut self, now_ns: u64, into: &mut Vec<Item>) {
        for one in &mut self.cpus {
            one.drain(now_ns, into);
        }
    }

    /// Holds what came through the rings against what the events counted: records that were lost after the last one that
    /// found room are told by nothing else. To be called when the rings are empty and nothing is counted any more.
    pub fn settle(&mut self) {
        if self.kind != Kind::Faults {
            return;
        }
        for one in &mut self.cpus {
            let mut counted = 0;
            let read = one.each(|counter| {
                counted += counter.read()?;
                Ok(())
            });
            if read.is_ok() {
                one.lost = one.lost.max(counted.saturating_sub(one.received));
            }
        }
    }

    pub fn counts(&self) -> impl Iterator<Item = PerfCount> {
        let stream = self.kind.stream();
        self.cpus.iter().map(move |one| PerfCount {
            stream,
            cpu: one.cpu,
            seen: one.received + one.lost,
            lost: one.lost,
        })
    }
}
