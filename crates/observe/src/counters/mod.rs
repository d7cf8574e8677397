//! Hardware and software counters of a process tree: the set of `perf stat -ddd`.
//!
//! [`Counters::open`] tries which events can be counted here and in which groups. [`Counters::follow`] opens them on a
//! process that waits for its `exec` or on running threads. [`Counters::read`] gives the counts at any time, also after
//! the process has ended. Children are counted from their `fork` on.
//!
//! The processor has few counters. If more events are requested than it has, the kernel multiplexes the groups: a
//! count's `running_ns` is then less than its `enabled_ns`, and the count covers only part of the time. It is stored as
//! it is; the scaled estimate ([`Count::estimate`]) and the ratios ([`RATIOS`](pagelab_vocab::counters::RATIOS)) are
//! computed by the reader. A group that the processor cannot count at once would never be scheduled; so each is tried
//! on the recorder's own thread first and split until its parts count (which also handles other users of a counter,
//! such as the NMI watchdog).
//!
//! | module | holds |
//! |---|---|
//! | `events` | the vocabulary's events, in groups, and what the kernel is asked for |
//! | `pmu` | the door to the kernel, with a second one for tests |
//! | `plan` | which groups this machine can count |
//! | `accounts` | the software events without perf's: from the kernel's accounts of its tasks |
//! | `watcher` | the rows of the stream `counters` |

mod accounts;
mod events;
mod plan;
mod pmu;
pub(crate) mod watcher;

use std::collections::BTreeMap;
use std::io;

use pagelab_vocab::counters::Count;

pub use accounts::{Accounts, TaskAccounts};
pub use events::{Code, EventDef, GROUPS};
pub use plan::Plan;
pub use pmu::{GroupValues, KernelGroup, KernelPmu, Pmu, Scope, Wanted};

/// The counts of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading<'a> {
    /// The event's name, with `:u` behind it if only user mode is counted.
    pub name: &'a str,
    /// The count; none if it could not be read just now.
    pub count: Option<Count>,
}

struct Open<G> {
    names: Vec<String>,
    /// One for each of those that are followed.
    groups: Vec<G>,
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// The counters of a recording.
pub struct Counters<P: Pmu> {
    pmu: P,
    plan: Plan,
    open: Vec<Open<P::Group>>,
    not_counted: BTreeMap<String, String>,
}

impl<P: Pmu> Counters<P> {
    /// Finds out what can be counted. Nothing is counted yet.
    ///
    /// # Errors
    /// The reason in words if not one event can be counted.
    pub fn open(mut pmu: P) -> Result<Self, String> {
        let plan = Plan::make(&mut pmu);
        if plan.groups.is_empty() {
            let why = plan.not_counted.values().next().cloned();
            return Err(why.unwrap_or_else(|| "there are no events".to_owned()));
        }
        let not_counted = plan.not_counted.clone();
        Ok(Self { pmu, plan, open: Vec::new(), not_counted })
    }

    /// Leaves events out that are counted in another way, and gives them; before [`Counters::follow`].
    pub fn leave_out(&mut self, is_left_out: impl Fn(&EventDef) -> bool) -> Vec<(String, &'static EventDef)> {
        let groups = &mut self.plan.groups;
        let mut left_out = Vec::new();
        for group in groups.iter_mut() {
            left_out.extend(group.extract_if(.., |event| is_left_out(event)));
        }
        groups.retain(|group| !group.is_empty());
        left_out.into_iter().map(|event| (self.plan.name_of(event), event)).collect()
    }

    /// Counts none of the events that are left, for this reason.
    pub fn refuse(&mut self, why: &str) {
        for (name, _) in self.leave_out(|_| true) {
            self.not_counted.insert(name, why.to_owned());
        }
    }

    /// Opens the counters on processes or threads and their descendants to be. One that has ended meanwhile is left out.
    ///
    /// # Errors
    /// The reason in words if there are groups and not one could be opened on all that are there.
    pub fn follow(&mut self, scopes: &[Scope]) -> Result<(), String> {
        let mut refused = None;
        self.open.clear();
        for events in &self.plan.groups {
            let names: Vec<String> = events.iter().map(|event| self.plan.name_of(event)).collect();
            let wanted = |scope| Wanted { scope, user_only: self.plan.user_only };
            let opened = scopes.iter().map(|scope| self.pmu.open(events, wanted(*scope)));
            // Counts of a part of the threads would be taken for counts of all.
            match opened.filter(|group| !group.as_ref().is_err_and(is_gone)).collect::<io::Result<Vec<_>>>() {
                Ok(groups) if !groups.is_empty() => self.open.push(Open { names, groups }),
                other => {
                    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
                    let why = plan::in_words(&other.err().unwrap_or_else(gone));
                    for name in names {
                        self.not_counted.insert(name, why.clone());
                    }
                    refused = Some(why);
                }
            }
        }
        match refused {
            Some(why) if self.open.is_empty() => Err(why),
            _ => Ok(()),
        }
    }

    /// Reads all counts, those of all that are followed together. Events of one group have the same `group_id`, which counts from 1.
    pub fn read(&mut self, mut sink: impl FnMut(Reading<'_>)) {
        for (index, open) in (1_u32..).zip(&mut self.open) {
            let pmu = &mut self.pmu;
            let each: io::Result<Vec<GroupValues>> = open.groups.iter_mut().map(|group| pmu.read(group)).collect();
            let values = each.ok().map(|each| each.iter().fold(GroupValues::default(), GroupValues::plus));
            for (at, name) in open.names.iter().enumerate() {
                let count = values.as_ref().and_then(|values| {
                    let value = *values.values.get(at)?;
                    let (enabled_ns, running_ns) = (values.enabled_ns, values.running_ns);
                    Some(Count { value, enabled_ns, running_ns, group_id: Some(index) })
                });
                sink(Reading { name, count });
            }
        }
    }

    /// The events that are not counted, each with the reason.
    pub fn not_counted(&self) -> &BTreeMap<String, String> {
        &self.not_counted
    }

    /// The groups as they are counted, by the names of their events.
    pub fn groups(&self) -> impl Iterator<Item = &[String]> {
        self.open.iter().map(|open| open.names.as_slice())
    }

    /// Closes the counters.
    pub fn close(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
