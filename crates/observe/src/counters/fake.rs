//! A PMU with as many counters as a test gives it, whose groups take turns as the kernel's do.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;

use super::events::EventDef;
use super::pmu::{GroupValues, Pmu, Scope, Wanted};

/// The fake's counters and permissions.
#[derive(Debug, Clone, Default)]
pub(super) struct FakePmu {
    /// Counters that the processor has.
    pub counters: usize,
    /// Of these, the ones that somebody else holds: groups that need them open and never run.
    pub held: usize,
    /// Events that it cannot count.
    pub unsupported: BTreeSet<&'static str>,
    /// The user may count user mode only.
    pub user_only: bool,
    /// No event may be opened at all.
    pub closed: bool,
    /// The groups that are open on a target, with the events in them.
    pub machine: Rc<RefCell<Machine>>,
}

/// The events that happen while the groups take turns.
#[derive(Debug, Default)]
pub(super) struct Machine {
    groups: Vec<FakeState>,
    turn: usize,
}

#[derive(Debug, Default)]
struct FakeState {
    hardware: usize,
    events: usize,
    read: GroupValues,
}

/// A group of the fake.
#[derive(Debug)]
pub(super) enum FakeGroup {
    Trial {
        running: bool,
        events: usize,
    },
    /// Its place among the groups of the machine.
    Target(usize),
}

impl FakePmu {
    /// Lets time pass in slices of 1 ms: in each, groups get the counters in turn, beginning with the one behind the
    /// last that was first, and every counted event happens `rate` times.
    pub(super) fn run(&self, slices: usize, rate: u64) {
        let machine = &mut *self.machine.borrow_mut();
        for _ in 0..slices {
            let mut free = self.counters - self.held;
            let groups = machine.groups.len();
            for step in 0..groups {
                let at = (machine.turn + step) % groups;
                let Some(group) = machine.groups.get_mut(at) else { continue };
                group.read.enabled_ns += 1_000_000;
                if group.hardware <= free {
                    free -= group.hardware;
                    group.read.running_ns += 1_000_000;
                    group.read.values.iter_mut().for_each(|value| *value += rate);
                }
            }
            machine.turn += 1;
        }
    }
}

impl Pmu for FakePmu {
    type Group = FakeGroup;

    fn open(&mut self, events: &[&'static EventDef], wanted: Wanted) -> io::Result<FakeGroup> {
        let errno = |number| Err(io::Error::from_raw_os_error(number));
        if self.closed || (self.user_only && !wanted.user_only) {
            return errno(libc::EACCES);
        }
        if events.iter().any(|event| self.unsupported.contains(event.name)) {
            return errno(libc::ENOENT);
        }
        let hardware = events.iter().filter(|event| event.code.needs_counter()).count();
        if hardware > self.counters {
            return errno(libc::EINVAL);
        }
        if wanted.scope == Scope::Trial {
            let running = hardware <= self.counters - self.held;
            return Ok(FakeGroup::Trial { running, events: events.len() });
        }
        let groups = &mut self.machine.borrow_mut().groups;
        let read = GroupValues { values: vec![0; events.len()], ..GroupValues::default() };
        groups.push(FakeState { hardware, events: events.len(), read });
        Ok(FakeGroup::Target(groups.len() - 1))
    }

    fn read(&mut self, group: &mut FakeGroup) -> io::Result<GroupValues> {
        Ok(match group {
            FakeGroup::Trial { running, events } => {
                GroupValues { enabled_ns: 1000, running_ns: u64::from(*running), values: vec![0; *events] }
            }
            FakeGroup::Target(at) => {
                let machine = self.machine.borrow();
                let state = machine.groups.get(*at).ok_or_else(|| io::Error::other("no such group"))?;
                assert_eq!(state.events, state.read.values.len());
                state.read.clone()
            }
        })
    }
}
