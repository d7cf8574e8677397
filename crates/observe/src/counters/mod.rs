//! Hardware and software counters of a process tree: the set of `perf stat -ddd`.
//!
//! [`Counters::open`] finds out by trying what can be counted here and in which groups, [`Counters::follow`] opens
//! them on a process that waits for its `exec`, [`Counters::read`] gives the counts at any time, also after the
//! process has ended. Children are counted from their `fork` on.
//!
//! The processor has few counters. If more events are asked for than it has, the kernel lets the groups take turns:
//! then a count's `running_ns` is less than its `enabled_ns`, and the count is a part of the whole. It is stored as
//! it is; what it would have been ([`Count::estimate`]) and what is divided by what ([`RATIOS`]) is a matter of
//! reading. A group that the processor cannot count at once would never have a turn; so each is tried on the
//! recorder's own thread first and split until its parts count (another user of a counter, such as the NMI watchdog,
//! is met that way too).
//!
//! | module | holds |
//! |---|---|
//! | `events` | the events, in groups: the one list |
//! | `ratios` | what may be derived, and from what |
//! | `pmu` | the door to the kernel, with a second one for tests |
//! | `plan` | which groups this machine can count |

mod events;
mod plan;
mod pmu;
mod ratios;

use std::collections::BTreeMap;

pub use events::{Code, EventDef, GROUPS, USER_ONLY, find};
pub use plan::Plan;
pub use pmu::{GroupValues, KernelGroup, KernelPmu, Pmu, Scope, Wanted};
pub use ratios::{Count, RATIOS, RatioDef, quotient};

/// What was counted of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading<'a> {
    /// The event's name, with `:u` behind it if only user mode is counted.
    pub name: &'a str,
    /// The count; none if it could not be read just now.
    pub count: Option<Count>,
}

struct Open<G> {
    names: Vec<String>,
    group: G,
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

    /// Opens the counters on a process and its descendants to be.
    ///
    /// # Errors
    /// The reason in words if not one group could be opened.
    pub fn follow(&mut self, scope: Scope) -> Result<(), String> {
        let wanted = Wanted { scope, user_only: self.plan.user_only };
        let mut refused = None;
        self.open.clear();
        for events in &self.plan.groups {
            let names: Vec<String> = events.iter().map(|event| self.plan.name_of(event)).collect();
            match self.pmu.open(events, wanted) {
                Ok(group) => self.open.push(Open { names, group }),
                Err(error) => {
                    let why = plan::in_words(&error);
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

    /// Reads all counts. Events of one group have the same `group_id`, which counts from 1.
    pub fn read(&mut self, mut sink: impl FnMut(Reading<'_>)) {
        for (index, open) in (1_u32..).zip(&mut self.open) {
            let values = self.pmu.read(&mut open.group).ok();
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
