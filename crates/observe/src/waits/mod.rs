//! The states of the recorded tasks, summed up in the kernel (`bpf/waits.bpf.c`): on a CPU, waiting for one, off the CPU by
//! kind of wait. No switch is recorded, so it can always be on; the stream `sched` records every one.
//!
//! For each task the three states sum to its life. What a wait was for is told by stacks of the kernel, of which there is one
//! for each 100 us off the CPU or more ([`WaitStack::weight_ns`] says what it stands for; sums of them are unbiased).
//!
//! What cannot be seen: how long a task that is preempted in a virtual machine together with its CPU really ran
//! (`kernel_run` says what the kernel thinks); who has the CPU while a task waits is told by who had it at the end.

mod key;
mod open;
mod tally;
mod watcher;

use std::io;
use std::os::fd::BorrowedFd;

use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;

use crate::bpf::{
    self, BpfError, EventRing, WireRecord, attach_all, include_skeleton, not_loaded, open, read, refused, share,
    walk_tasks,
};
use crate::watcher::monotonic_ns;

include_skeleton!("waits");

use skeleton::{WaitsSkel, WaitsSkelBuilder, types};

pub(crate) use watcher::{STREAMS, open_watcher};

const TRACEPOINTS: [&str; 12] = [
    "sched_process_exec",
    "sched_waking",
    "sched_wakeup_new",
    "sched_switch",
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "irq_handler_entry",
    "irq_handler_exit",
    "timer_expire_entry",
    "timer_expire_exit",
    "softirq_entry",
    "softirq_exit",
];
const NEEDED: &str = "raw tracepoints with BTF, task storage and iterators over tasks (Linux 5.18)";

/// The least that a stack stands for, and the most that this is raised to where there are too many.
const SCALE_NS: u64 = 100_000;
const SCALE_NS_MAX: u64 = 100_000_000;
/// Stacks a second above which each is to stand for more: a stack takes 5 to 10 us, as long as all else at twenty switches.
const STACKS_PER_SECOND: u64 = 500;
/// How long stacks are counted before that is looked at.
const ADAPT_NS: u64 = 100_000_000;
/// And before it is found that there are few.
const ADAPT_DOWN_NS: u64 = 1_000_000_000;

/// One of the programs' records.
enum Record {
    Sums(types::wait_sums),
    Slot(types::wait_slot_event),
    Stack(types::wait_stack),
}

// SAFETY: integers without gaps.
unsafe impl WireRecord for types::wait_sums {}
// SAFETY: integers without gaps.
unsafe impl WireRecord for types::wait_slot_event {}
// SAFETY: integers without gaps.
unsafe impl WireRecord for types::wait_stack {}

impl Record {
    fn of(bytes: &[u8]) -> Option<Self> {
        let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
        match types::wait_event_type(kind) {
            types::wait_event_type::WAIT_SUMS => read(bytes).map(Self::Sums),
            types::wait_event_type::WAIT_SLOT => read(bytes).map(Self::Slot),
            types::wait_event_type::WAIT_STACK => read(bytes).map(Self::Stack),
            _ => None,
        }
    }
}

/// The programs' counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    /// Stacks and sums that were to be sent.
    seen: u64,
    stacks_lost: u64,
    /// Sums that no later record repeats.
    sums_lost: u64,
}

/// The loaded programs.
struct WaitProbe {
    links: Vec<Link>,
    walk: Link,
    events: EventRing,
    skel: WaitsSkel<'static>,
    /// Stacks up to the last look at how many there are, and when that was.
    stacks_before: u64,
    adapted_ns: u64,
}

impl WaitProbe {
    /// Loads the programs, attaches them, and looks at the tasks that run already. `task_states` says which are recorded
    /// (`bpf/membership.bpf.h`).
    ///
    /// # Errors
    /// The kernel refuses to load or to attach them.
    fn attach(task_states: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let mut open = open::<WaitsSkelBuilder>(NEEDED)?;
        share(&mut open.maps.task_states, task_states, NEEDED)?;
        let skel = open.load().map_err(not_loaded)?;
        let progs = &skel.progs;
        let programs = [
            &progs.wait_execs,
            &progs.wait_woken,
            &progs.wait_born,
            &progs.wait_switched,
            &progs.hrtimer_begins,
            &progs.hrtimer_ends,
            &progs.irq_begins,
            &progs.irq_ends,
            &progs.timer_begins,
            &progs.timer_ends,
            &progs.softirq_begins,
            &progs.softirq_ends,
        ];
        let links = attach_all(TRACEPOINTS.into_iter().zip(programs), NEEDED)?;
        let walk = skel.progs.walk_waits.attach().map_err(refused("task iterator", NEEDED))?;
        let events = EventRing::of(&skel.maps.wait_events)?;
        Ok(Self { links, walk, events, skel, stacks_before: 0, adapted_ns: monotonic_ns() as u64 })
    }

    /// Has the sums of all tasks sent that have changed.
    ///
    /// # Errors
    /// The kernel could not walk over its tasks.
    fn walk(&mut self) -> io::Result<()> {
        walk_tasks(&self.walk)
    }

    /// Makes stacks stand for more where there are too many of them, and for less where there are few. To be called often: a program
    /// that begins to switch much is to pay for few milliseconds.
    fn adapt(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.adapted_ns);
        if passed_ns < ADAPT_NS {
            return;
        }
        let Some(scale_ns) = self.skel.maps.data_data.as_deref().map(|data| data.stack_scale_ns) else { return };
        let seen = self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.stacks_seen);
        let per_second = (seen - self.stacks_before) as f64 * 1e9 / passed_ns as f64;
        let excess = per_second / STACKS_PER_SECOND as f64;
        let wanted_ns = if excess > 1.0 {
            ((scale_ns as f64 * excess) as u64).min(SCALE_NS_MAX)
        } else if passed_ns < ADAPT_DOWN_NS {
            return;
        } else if excess < 0.25 {
            (scale_ns / 2).max(SCALE_NS)
        } else {
            scale_ns
        };
        self.stacks_before = seen;
        self.adapted_ns = now_ns;
        if let Some(data) = self.skel.maps.data_data.as_deref_mut() {
            data.stack_scale_ns = wanted_ns;
        }
    }

    /// Has all sums sent for the last time, with the stacks of waits that are not over, and detaches the programs.
    ///
    /// # Errors
    /// The kernel could not walk over its tasks.
    fn finish(&mut self) -> io::Result<()> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.last_walk = 1;
        }
        let walked = walk_tasks(&self.walk);
        self.links.clear();
        walked
    }

    /// Hands over the records so far.
    fn drain(&mut self, mut sink: impl FnMut(Record)) {
        self.events.consume(|bytes| {
            if let Some(record) = Record::of(bytes) {
                sink(record);
            }
        });
    }

    /// How long no task was active so far, ns, at `now_ns`.
    fn idle_ns(&self, now_ns: u64) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| {
            let open_ns = if bss.idle_since == 0 { 0 } else { now_ns.saturating_sub(bss.idle_since) };
            bss.idle_ns + open_ns
        })
    }

    fn counts(&self) -> Counts {
        self.skel.maps.bss_data.as_deref().map_or_else(Counts::default, |bss| Counts {
            seen: bss.stacks_seen + bss.sums_seen,
            stacks_lost: bss.stacks_lost,
            sums_lost: bss.sums_lost,
        })
    }
}

/// Whether the kernel has what is needed, without loading anything.
///
/// # Errors
/// The reason in words.
fn check() -> Result<(), String> {
    bpf::check(&TRACEPOINTS, NEEDED).map(drop)
}
