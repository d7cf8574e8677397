//! Stacks of the time off the CPU, by component of the account: what a flame graph of waits is made of.
//!
//! Off the CPU is a task here as in the account: from leaving its CPU until it is woken. The time from then on, and the time after it
//! was preempted, is READY and not in these stacks: it is due to whoever had the CPU, whom no stack of the task names.
//!
//! There are two sources. The stream `waits`, which is recorded by default, sums waits up exactly by kind (scheduler state, call, who
//! woke the task) and takes the kernel's stack of some: the exact time of a kind is divided among its stacks by the time that these
//! stand for, so that the stacks of a component sum to what the account says of it. The stream `sched` has every wait, with the
//! stacks of kernel and program.

use std::collections::{BTreeMap, HashMap, HashSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::{OffcpuRow, WaitStacksRow, WaitsRow};
use pagelab_vocab::budget::{OFF_OTHER, component_of, is_lock, off_by_waker, off_of_stack};
use pagelab_vocab::streams::Stream;
use pagelab_vocab::waits::{Waker, is_active_wait};
use schemars::JsonSchema;
use serde::Serialize;

use super::shares::{Untold, component_of_wait};
use super::states::{Doing, LONGEST_NS, States, WaitKind};
use super::{measured_states, why_not};
use crate::error::Result;
use crate::read::{self, Comms, Tasks};
use crate::selection::Selection;
use crate::stacks::Stacks;
use crate::window::measured_part;

/// Where stacks of waits are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum OffSource {
    /// Every wait: the table `offcpu` of the stream `sched`.
    #[serde(rename = "sched")]
    Switches,
    /// Sums of waits and stacks of some: the tables `waits` and `wait_stacks` of the stream `waits`.
    #[serde(rename = "waits")]
    Sums,
}

impl OffSource {
    /// The stream that records it.
    pub const fn stream(self) -> Stream {
        match self {
            Self::Switches => Stream::Sched,
            Self::Sums => Stream::Waits,
        }
    }

    /// Those that a recording has, the one that tells more first. Switches recorded without stacks (`sched:nostacks`) are none.
    pub fn of(recording: &Recording) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        if has_stacks(recording)? {
            found.push(Self::Switches);
        }
        if !recording.parts("waits")?.is_empty() {
            found.push(Self::Sums);
        }
        Ok(found)
    }
}

/// Whether a time off the CPU has a stack; damaged parts are found out about where rows are read.
fn has_stacks(recording: &Recording) -> Result<bool> {
    for batch in recording.read("offcpu", Some(&["kstack_id", "ustack_id"]))? {
        let Ok(batch) = batch else { continue };
        if batch.columns().iter().any(|column| column.null_count() < column.len()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Why a recording has neither source.
pub fn why_no_off_stacks(recording: &Recording) -> String {
    why_not(recording, OffSource::Sums.stream(), "waits")
}

/// Time off the CPU with the same component, name of the task and stacks.
#[derive(Debug, Clone, PartialEq)]
pub struct OffStack {
    /// Component of the account: `off.read`.
    pub component: &'static str,
    /// Whether the component is active; else the tasks waited for others: for each other, for requests, for a time.
    pub active: bool,
    /// Name of the task at the time; none if it is not known.
    pub comm: Option<String>,
    /// The call that it waited in, or `page_fault`, where there is no stack that shows it.
    pub call: Option<String>,
    /// Kernel stack.
    pub kstack_id: Option<u64>,
    /// Stack of the program.
    pub ustack_id: Option<u64>,
    /// A lock of the kernel was waited for, and no recorded task had it: what is not the target's let go of it.
    pub held_by_others: bool,
    /// How long in all, ns.
    pub ns: u64,
}

/// The time off the CPU of the selected tasks by stack; of a load that of the time that it measured.
///
/// From [`OffSource::Sums`] it sums to `off_ns` of the account, and by component to its components, but for the rounding of each
/// stack to a nanosecond. From [`OffSource::Switches`] it sums to the times asleep of the view `sched`; there a wait for others that
/// no recorded task ended is `off.unknown`, because a row does not say what else did, but for tasks that slept for a time.
pub fn off_stacks(
    recording: &Recording,
    source: OffSource,
    selection: &Selection,
    notes: &mut Vec<String>,
) -> Result<Vec<OffStack>> {
    let tasks = Tasks::load(recording, selection, notes)?;
    let untold = Untold::of(selection);
    let mut all = Collected { selection, tasks: &tasks, untold, comms: Comms::default(), sums: BTreeMap::new() };
    match source {
        OffSource::Switches => all.add_switches(recording, notes)?,
        OffSource::Sums => all.add_sums(recording, notes)?,
    }
    let Collected { comms, sums, .. } = all;
    let stack = |(Key { component, comm, call, kstack_id, ustack_id, held_by_others }, ns): (Key, f64)| OffStack {
        component,
        active: component_of(component).is_some_and(|component| component.is_active),
        comm: comm.and_then(|number| comms.name(number)).map(str::to_owned),
        call,
        kstack_id,
        ustack_id,
        held_by_others,
        ns: ns.round() as u64,
    };
    Ok(sums.into_iter().map(stack).collect())
}

/// The kernel's function that sleeps for a time and for nothing else.
const SLEEPS: &str = "hrtimer_nanosleep";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    component: &'static str,
    /// Number of the task's name; none where time cannot be given to tasks.
    comm: Option<usize>,
    call: Option<String>,
    kstack_id: Option<u64>,
    ustack_id: Option<u64>,
    held_by_others: bool,
}

/// What waits of a kind, or their stacks, weigh: by number of the task's name, and kernel stack.
type Weights = HashMap<WaitKind, BTreeMap<(usize, Option<u64>), u64>>;

fn add_weight(weights: &mut Weights, kind: WaitKind, place: (usize, Option<u64>), weight: u64) {
    let sum = weights.entry(kind).or_default().entry(place).or_default();
    *sum = sum.saturating_add(weight);
}

/// Waits with the same number of a name, kernel stack and stack of the program; whether they are active, and whether a recorded task
/// ended them.
type Wait = (usize, Option<u64>, Option<u64>, bool, bool);

struct Collected<'a> {
    selection: &'a Selection,
    tasks: &'a Tasks,
    untold: Untold,
    comms: Comms,
    /// ns by stack.
    sums: BTreeMap<Key, f64>,
}

impl Collected<'_> {
    fn add_sums(&mut self, whole: &Recording, notes: &mut Vec<String>) -> Result<()> {
        let (recording, states) = measured_states(whole, self.selection, self.tasks, notes)?;
        let weights = self.weights(&recording, &states, notes)?;
        let places = weights.values().flat_map(BTreeMap::keys);
        let wanted: HashSet<u64> = places.filter_map(|(_, kstack_id)| *kstack_id).collect();
        let stacks = Stacks::load(&recording, &wanted, notes)?;
        for (doing, spent) in &states.spent {
            let Doing::Off(kind) = doing else { continue };
            let kind_ns = spent.ns as f64;
            let mut add = |comm, kstack_id: Option<u64>, ns| {
                let functions = kstack_id.and_then(|id| stacks.functions(id)).unwrap_or_default();
                let component = component_of_wait(kind, self.untold.without(&functions));
                let call = kind.call.clone().filter(|_| kstack_id.is_none());
                let held_by_others = is_lock(component) && kind.waker == Some(Waker::Foreign);
                let key = Key { component, comm, call, kstack_id, ustack_id: None, held_by_others };
                *self.sums.entry(key).or_default() += ns;
            };
            let of = weights.get(kind);
            let all: f64 = of.into_iter().flat_map(BTreeMap::values).map(|weight| *weight as f64).sum();
            if all == 0.0 {
                add(None, None, kind_ns);
                continue;
            }
            for ((comm, kstack_id), weight) in of.into_iter().flatten() {
                add(Some(*comm), *kstack_id, kind_ns * *weight as f64 / all);
            }
        }
        Ok(())
    }

    /// What the time of each kind of wait is divided by: its stacks; without any the sums of the tasks themselves.
    fn weights(&mut self, recording: &Recording, states: &States, notes: &mut Vec<String>) -> Result<Weights> {
        let Self { selection, tasks, comms, .. } = self;
        let mut weights = Weights::new();
        read::each::<WaitStacksRow<'_>>(recording, notes, |row| {
            if tasks.wants(selection, row.task_id, row.ts) {
                let place = (comms.number(tasks, row.task_id, row.ts), row.kstack_id);
                add_weight(&mut weights, WaitKind::of_stack(&row), place, row.weight_ns);
            }
        })?;
        let has_none = |doing: &Doing| matches!(doing, Doing::Off(kind) if !weights.contains_key(kind));
        if !states.spent.keys().any(has_none) {
            return Ok(weights);
        }
        let mut unseen = Weights::new();
        // What is damaged, or impossible, was noted where states were read.
        read::each::<WaitsRow<'_>>(recording, &mut Vec::new(), |row| {
            let Some(task_id) = row.task_id.filter(|task_id| tasks.wants(selection, *task_id, row.ts)) else { return };
            if let Some(Doing::Off(kind)) = Doing::of(&row, None)
                && row.ns <= LONGEST_NS
                && !weights.contains_key(&kind)
            {
                add_weight(&mut unseen, kind, (comms.number(tasks, task_id, row.ts), None), row.ns);
            }
        })?;
        weights.extend(unseen);
        Ok(weights)
    }

    fn add_switches(&mut self, whole: &Recording, notes: &mut Vec<String>) -> Result<()> {
        let recording = measured_part(whole).unwrap_or_else(|| whole.clone());
        let Self { selection, tasks, untold, comms, sums } = self;
        let mut waits: HashMap<Wait, u64> = HashMap::new();
        let mut is_one_unfinished = false;
        read::each::<OffcpuRow<'_>>(&recording, notes, |row| {
            let was_preempted = row.state.is_some_and(|state| state.starts_with('R'));
            if was_preempted || !tasks.wants(selection, row.task_id, row.ts) {
                return;
            }
            let Some(dur) = row.dur.and_then(|dur| u64::try_from(dur).ok()) else {
                is_one_unfinished = true;
                return;
            };
            let is_active = is_active_wait(row.state, row.iowait);
            let comm = comms.number(tasks, row.task_id, row.ts);
            let wait = (comm, row.kstack_id, row.ustack_id, is_active, row.waker_task_id.is_some());
            let sum = waits.entry(wait).or_default();
            *sum = sum.saturating_add(dur.saturating_sub(row.runqueue_ns.unwrap_or(0)));
        })?;
        if is_one_unfinished {
            let note = "waits that had not ended when recording did are in no stack: their length is not known";
            notes.push(note.to_owned());
        }
        read::lost(&recording, Stream::Sched, notes)?;
        let wanted: HashSet<u64> = waits.keys().filter_map(|(_, kstack_id, ..)| *kstack_id).collect();
        let stacks = Stacks::load(&recording, &wanted, notes)?;
        for ((comm, kstack_id, ustack_id, is_active, is_own), ns) in waits {
            let functions = kstack_id.and_then(|id| stacks.functions(id)).unwrap_or_default();
            let waker = || {
                if is_own {
                    Some(Waker::Own)
                } else {
                    functions.iter().any(|name| name == SLEEPS).then_some(Waker::Timer)
                }
            };
            let unanchored = || if is_active { OFF_OTHER } else { off_by_waker(waker()) };
            let component = off_of_stack(untold.without(&functions)).unwrap_or_else(unanchored);
            // Nothing but a task lets go of a lock.
            let held_by_others = is_lock(component) && !is_own;
            let key = Key { component, comm: Some(comm), call: None, kstack_id, ustack_id, held_by_others };
            *sums.entry(key).or_default() += ns as f64;
        }
        Ok(())
    }
}
