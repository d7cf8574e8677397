//! The door to the kernel's counters, so that what stands behind it can be replaced in tests.

use std::io;

use perf_event::events::Cache;
use perf_event::{Builder, Counter, ReadFormat};

use super::events::{Code, EventDef};

/// The tasks whose events are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The calling thread's, from now on: to try what can be counted.
    Trial,
    /// A process's and, from then on, its descendants', from its next `exec` on.
    FromExec(u32),
    /// A thread's and those of the threads and processes that it makes from now on.
    FromNow(u32),
}

/// How an event is to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Whose.
    pub scope: Scope,
    /// In user mode alone: all that an ordinary user may count on most hosts.
    pub user_only: bool,
}

/// The values of a group, in the order in which its events were opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupValues {
    /// Time for which the group was asked for, ns.
    pub enabled_ns: u64,
    /// Time in which it was counted, ns.
    pub running_ns: u64,
    /// Counts, not scaled.
    pub values: Vec<u64>,
}

impl GroupValues {
    /// The sum of two readings of the same events.
    pub(super) fn plus(self, other: &Self) -> Self {
        let both = self.values.len().max(other.values.len());
        let at = |values: &[u64], i| values.get(i).copied().unwrap_or(0);
        Self {
            enabled_ns: self.enabled_ns + other.enabled_ns,
            running_ns: self.running_ns + other.running_ns,
            values: (0..both).map(|i| at(&self.values, i) + at(&other.values, i)).collect(),
        }
    }
}

/// What can count events.
pub trait Pmu {
    /// Events that are counted at the same times.
    type Group;

    /// Opens events as one group, the first its leader.
    ///
    /// # Errors
    /// The kernel's answer to the first event that it refused; nothing stays open.
    fn open(&mut self, events: &[&'static EventDef], wanted: Wanted) -> io::Result<Self::Group>;

    /// The group's counts so far.
    fn read(&mut self, group: &mut Self::Group) -> io::Result<GroupValues>;
}

/// The kernel's `perf_event_open`.
#[derive(Debug, Default)]
pub struct KernelPmu;

/// A group as the kernel has it open. Closing the leader first would let the members run on by themselves.
#[derive(Debug)]
pub struct KernelGroup {
    members: Vec<Counter>,
    leader: Counter,
    /// One read gives all values; else they are read one by one, which the kernel still counts at the same times.
    at_once: bool,
}

fn builder(event: &EventDef, wanted: Wanted, leads: bool) -> Builder<'static> {
    let mut builder = match event.code {
        Code::Software(which) => Builder::new(which),
        Code::Hardware(which) => Builder::new(which),
        Code::Cache(which, operation, result) => Builder::new(Cache { which, operation, result }),
    };
    builder.exclude_kernel(wanted.user_only).exclude_hv(wanted.user_only);
    // Members follow their leader: they count while it does. It is let go when the group is whole, because the kernel
    // may leave a software event that joins a running group out until the thread is next switched in.
    builder.enabled(!leads);
    match wanted.scope {
        Scope::Trial => builder.observe_self(),
        Scope::FromExec(pid) => builder.observe_pid(pid as i32).inherit(true).enable_on_exec(leads),
        Scope::FromNow(pid) => builder.observe_pid(pid as i32).inherit(true),
    };
    builder
}

impl KernelPmu {
    fn open_with(
        events: &[&'static EventDef],
        wanted: Wanted,
        format: ReadFormat,
        at_once: bool,
    ) -> io::Result<KernelGroup> {
        let Some((first, rest)) = events.split_first() else {
            return Err(io::Error::other("a group without an event"));
        };
        let mut leader = builder(first, wanted, true).read_format(format).build()?;
        let mut members = Vec::with_capacity(rest.len());
        for event in rest {
            let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
            members.push(builder(event, wanted, false).read_format(times).build_with_group(&mut leader)?);
        }
        if !matches!(wanted.scope, Scope::FromExec(_)) {
            leader.enable()?;
        }
        Ok(KernelGroup { members, leader, at_once })
    }
}

impl Pmu for KernelPmu {
    type Group = KernelGroup;

    fn open(&mut self, events: &[&'static EventDef], wanted: Wanted) -> io::Result<KernelGroup> {
        let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        match Self::open_with(events, wanted, times | ReadFormat::GROUP, true) {
            // Kernels that cannot read an inherited group at once say so in this way, among others.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Self::open_with(events, wanted, times, false).map_err(|_| error)
            }
            other => other,
        }
    }

    fn read(&mut self, group: &mut KernelGroup) -> io::Result<GroupValues> {
        if group.at_once {
            let data = group.leader.read_group()?;
            let value = |counter: &Counter| {
                data.get(counter).map(|entry| entry.value()).ok_or_else(|| io::Error::other("a value is missing"))
            };
            let values = std::iter::once(&group.leader).chain(&group.members).map(value).collect::<io::Result<_>>()?;
            let ns = |time: Option<std::time::Duration>| time.map_or(0, |time| time.as_nanos() as u64);
            return Ok(GroupValues {
                enabled_ns: ns(data.time_enabled()),
                running_ns: ns(data.time_running()),
                values,
            });
        }
        let first = group.leader.read_count_and_time()?;
        let mut values = vec![first.count];
        for member in &mut group.members {
            values.push(member.read_count_and_time()?.count);
        }
        Ok(GroupValues { enabled_ns: first.time_enabled, running_ns: first.time_running, values })
    }
}
