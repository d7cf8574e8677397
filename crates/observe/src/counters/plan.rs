//! Which events this machine counts, and in which groups: found out by trying.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use pagelab_vocab::counters::USER_ONLY;
use pagelab_vocab::remedies::{self, Place};

use super::events::{EventDef, GROUPS};
use super::pmu::{Pmu, Scope, Wanted};
use crate::process;

/// How long a group may take to show that it counts. One that fits does at once; the time is for a thread that is
/// made to wait for a CPU.
const TRIAL: Duration = Duration::from_millis(2);

/// The events to count.
#[derive(Debug, Default)]
pub struct Plan {
    /// Events that are counted at the same times.
    pub groups: Vec<Vec<&'static EventDef>>,
    /// Events that cannot be counted, with the reason.
    pub not_counted: BTreeMap<String, String>,
    /// Only user mode may be counted.
    pub user_only: bool,
}

/// The result of a trial.
enum Trial {
    Counts,
    /// It was opened and given no counter.
    NoCounter,
    Refused(io::Error),
}

/// The kernel's answer, what is needed and what to type.
pub(super) fn in_words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => {
            "not supported: the processor does not count it, or the virtual machine hides it".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) if process::is_filtered() => {
            format!("not permitted: needed: {}", process::FILTER_NEEDED)
        }
        Some(libc::EACCES | libc::EPERM) => "not permitted: needed: root, CAP_PERFMON, or kernel.perf_event_paranoid \
             of at most 1; try: sudo sysctl kernel.perf_event_paranoid=1"
            .to_owned(),
        Some(libc::ENOSYS) => "the kernel was built without perf events (CONFIG_PERF_EVENTS)".to_owned(),
        Some(libc::ESRCH) => "the process is gone".to_owned(),
        errno => format!("perf_event_open: {error}{}", remedies::ending(errno, Place::PerfEvent)),
    }
}

const NO_COUNTER: &str =
    "no counter of the processor is free for it; the NMI watchdog takes one, try: sudo sysctl kernel.nmi_watchdog=0";
const IN_KERNEL_ONLY: &str = "it happens in the kernel, and only user mode may be counted; needed: root, CAP_PERFMON, or \
     kernel.perf_event_paranoid of at most 1; try: sudo sysctl kernel.perf_event_paranoid=1";

impl Plan {
    /// Tries all events on the calling thread.
    pub fn make<P: Pmu>(pmu: &mut P) -> Self {
        let mut plan = Self { user_only: only_user_mode(pmu), ..Self::default() };
        for events in GROUPS {
            let countable: Vec<&'static EventDef> = events.iter().filter(|event| plan.try_alone(pmu, event)).collect();
            plan.fit(pmu, &countable);
        }
        plan
    }

    /// The name under which an event is recorded.
    pub fn name_of(&self, event: &EventDef) -> String {
        format!("{}{}", event.name, if self.user_only { USER_ONLY } else { "" })
    }

    /// Whether an event can be counted at all; if not, the reason is noted.
    fn try_alone<P: Pmu>(&mut self, pmu: &mut P, event: &'static EventDef) -> bool {
        let why = if self.user_only && event.in_kernel_only {
            IN_KERNEL_ONLY.to_owned()
        } else {
            match trial(pmu, &[event], self.user_only) {
                Trial::Counts => return true,
                Trial::NoCounter => NO_COUNTER.to_owned(),
                Trial::Refused(error) => in_words(&error),
            }
        };
        self.not_counted.insert(self.name_of(event), why);
        false
    }

    /// Makes groups of events, as large as can be counted at once, in their order.
    fn fit<P: Pmu>(&mut self, pmu: &mut P, events: &[&'static EventDef]) {
        let mut group: Vec<&'static EventDef> = Vec::new();
        for event in events {
            group.push(event);
            if group.len() > 1 && !matches!(trial(pmu, &group, self.user_only), Trial::Counts) {
                group.pop();
                self.groups.push(std::mem::replace(&mut group, vec![event]));
            }
        }
        if !group.is_empty() {
            self.groups.push(group);
        }
    }
}

/// Whether the kernel lets this user count user mode only.
fn only_user_mode<P: Pmu>(pmu: &mut P) -> bool {
    let Some(clock) = GROUPS.iter().copied().flatten().next() else { return false };
    let denied = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
    let everything = Wanted { scope: Scope::Trial, user_only: false };
    pmu.open(&[clock], everything).is_err_and(|error| denied(&error))
}

/// Opens the events as a group on this thread and sees whether they get counted.
fn trial<P: Pmu>(pmu: &mut P, events: &[&'static EventDef], user_only: bool) -> Trial {
    let mut group = match pmu.open(events, Wanted { scope: Scope::Trial, user_only }) {
        Ok(group) => group,
        Err(error) => return Trial::Refused(error),
    };
    if !events.iter().any(|event| event.code.needs_counter()) {
        return Trial::Counts;
    }
    let begun = Instant::now();
    loop {
        match pmu.read(&mut group) {
            Ok(values) if values.running_ns > 0 => return Trial::Counts,
            Ok(_) if begun.elapsed() < TRIAL => std::hint::spin_loop(),
            Ok(_) => return Trial::NoCounter,
            Err(error) => return Trial::Refused(error),
        }
    }
}
