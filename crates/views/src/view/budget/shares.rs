//! What samples say a state was spent on: those of the profile for RUN, stacks of waits for OFF.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::{SamplesRow, WaitStacksRow};
use pagelab_vocab::budget::{self, OFF_OTHER, USER, off_by_waker, off_of_stack, run_of_mechanism};
use pagelab_vocab::mechanisms::{self, Mechanism};
use pagelab_vocab::samples::ReturnedFrom;

use super::states::WaitKind;
use crate::error::Result;
use crate::read::{self, Task, Tasks};
use crate::selection::Selection;
use crate::stacks::Stacks;

/// Functions of the kernel that are to tell nothing.
pub(super) struct Untold(BTreeSet<&'static str>);

impl Untold {
    pub(super) fn of(selection: &Selection) -> Self {
        Self(budget::names_of_places(&selection.places_untold))
    }

    /// A stack's functions without those, as if they were inlined.
    pub(super) fn without<'a>(&'a self, functions: &'a [String]) -> impl Iterator<Item = &'a str> {
        let is_told = |name: &&str| self.0.is_empty() || !self.0.contains(mechanisms::plain_name(name));
        functions.iter().map(String::as_str).filter(is_told)
    }
}

/// Samples, and the time or the events that they stand for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub samples: u64,
    pub weight: u64,
}

impl Weight {
    pub(super) fn add(&mut self, samples: u64, weight: u64) {
        self.samples += samples;
        self.weight = self.weight.saturating_add(weight);
    }
}

/// Samples of tasks of one name.
#[derive(Debug, Default)]
pub(super) struct OfName {
    pub all: Weight,
    /// By component.
    pub components: BTreeMap<&'static str, Weight>,
    /// Of the kernel: by the way in, and the mechanism (`other` where no anchor tells one).
    pub entries: BTreeMap<(String, &'static str), Weight>,
}

impl OfName {
    fn merge(&mut self, other: Self) {
        self.all.add(other.all.samples, other.all.weight);
        for (component, part) in other.components {
            self.components.entry(component).or_default().add(part.samples, part.weight);
        }
        for (entry, part) in other.entries {
            self.entries.entry(entry).or_default().add(part.samples, part.weight);
        }
    }
}

/// Samples of a name below which its shares are not its own, but those of all such names together.
const LEAST_SAMPLES: u64 = 30;

/// Where samples of the profile were.
///
/// The time of each name is split by its own samples. Names are not sampled in proportion to their time: a sample is taken when
/// the timer's interrupt comes, which in a virtual machine may be 30 us late, and a task that runs for so long after each wait has
/// left the CPU by then.
#[derive(Debug, Default)]
pub(super) struct RunShares {
    pub all: Weight,
    pub kernel: Weight,
    names: BTreeMap<Option<String>, OfName>,
    /// Names with few samples.
    others: OfName,
    /// Innermost functions of stacks that no anchor tells.
    pub unmatched: BTreeMap<String, Weight>,
    /// There are stacks of the kernel, and no function has a name.
    pub lacks_names: bool,
}

/// Name of the task, kernel stack, and what the kernel had just returned from.
type Place<'a> = (Option<&'a str>, Option<u64>, Option<ReturnedFrom>);

impl RunShares {
    /// Reads the samples of the selected tasks.
    pub(super) fn load(
        recording: &Recording,
        selection: &Selection,
        tasks: &Tasks,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let mut by_stack: HashMap<Place<'_>, Weight> = HashMap::new();
        read::each::<SamplesRow<'_>>(recording, notes, |row| {
            if tasks.wants(selection, row.task_id, row.ts) {
                let comm = tasks.get(row.task_id).and_then(Task::comm);
                let returned_from = row.returned_from.and_then(ReturnedFrom::of_word);
                by_stack.entry((comm, row.kstack_id, returned_from)).or_default().add(1, row.weight);
            }
        })?;
        let wanted: HashSet<u64> = by_stack.keys().filter_map(|(_, id, _)| *id).collect();
        let stacks = Stacks::load(recording, &wanted, notes)?;
        let untold = Untold::of(selection);
        let mut shares = Self::default();
        let mut has_names = false;
        for ((comm, kstack_id, returned_from), weight) in by_stack {
            let named = kstack_id.map(|id| stacks.functions(id).unwrap_or_default());
            let functions = named.as_ref().map(|names| untold.without(names).collect());
            let left = || returned_from.map(|from| from.functions().to_vec());
            shares.take(comm, functions.or_else(left).as_deref(), weight);
            has_names |= named.is_some_and(|names| names.iter().any(|name| !name.contains("+0x")));
        }
        shares.lacks_names = !wanted.is_empty() && !has_names;
        let few = |_: &Option<String>, of: &mut OfName| of.all.samples < LEAST_SAMPLES;
        for (_, of) in shares.names.extract_if(.., few).collect::<Vec<_>>() {
            shares.others.merge(of);
        }
        Ok(shares)
    }

    fn take(&mut self, comm: Option<&str>, kernel: Option<&[&str]>, Weight { samples, weight }: Weight) {
        self.all.add(samples, weight);
        let of = self.names.entry(comm.map(str::to_owned)).or_default();
        of.all.add(samples, weight);
        let Some(functions) = kernel else {
            of.components.entry(USER).or_default().add(samples, weight);
            return;
        };
        let names = || functions.iter().copied();
        let mechanism = mechanisms::of_stack(names());
        let component = component_of(mechanism);
        of.components.entry(component).or_default().add(samples, weight);
        let entry = (mechanisms::entry_of_stack(names()), mechanism.map_or(mechanisms::OTHER, |found| found.name));
        of.entries.entry(entry).or_default().add(samples, weight);
        self.kernel.add(samples, weight);
        if mechanism.is_none() {
            let innermost = functions.first().copied().unwrap_or("unknown");
            self.unmatched.entry(mechanisms::plain_name(innermost).to_owned()).or_default().add(samples, weight);
        }
    }

    /// How the time of tasks of a name is to be split.
    pub(super) fn of(&self, comm: Option<&str>) -> &OfName {
        self.names.get(&comm.map(str::to_owned)).unwrap_or(&self.others)
    }

    /// All samples, whatever their tasks are called.
    pub(super) fn each(&self) -> impl Iterator<Item = &OfName> {
        self.names.values().chain([&self.others])
    }
}

fn component_of(mechanism: Option<&Mechanism>) -> &'static str {
    mechanism.map_or(budget::OTHER, |mechanism| run_of_mechanism(mechanism.name))
}

/// The component of time on a CPU with a kernel stack, innermost function first.
pub(super) fn component_of_kernel(functions: &[&str]) -> &'static str {
    component_of(mechanisms::of_stack(functions.iter().copied()))
}

/// What waits of each kind were for.
#[derive(Debug, Default)]
pub(super) struct OffShares {
    pub all: Weight,
    kinds: HashMap<WaitKind, BTreeMap<&'static str, Weight>>,
}

impl OffShares {
    /// Reads the stacks of waits of the selected tasks.
    pub(super) fn load(
        recording: &Recording,
        selection: &Selection,
        tasks: &Tasks,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let mut by_stack: HashMap<(WaitKind, Option<u64>), Weight> = HashMap::new();
        read::each::<WaitStacksRow<'_>>(recording, notes, |row| {
            if !tasks.wants(selection, row.task_id, row.ts) {
                return;
            }
            by_stack.entry((WaitKind::of_stack(&row), row.kstack_id)).or_default().add(row.samples, row.weight_ns);
        })?;
        let wanted: HashSet<u64> = by_stack.keys().filter_map(|(_, id)| *id).collect();
        let names = Stacks::load(recording, &wanted, notes)?;
        let untold = Untold::of(selection);
        let mut shares = Self::default();
        for ((kind, kstack_id), Weight { samples, weight }) in by_stack {
            let functions = kstack_id.and_then(|id| names.functions(id)).unwrap_or_default();
            let component = component_of_wait(&kind, untold.without(&functions));
            shares.all.add(samples, weight);
            shares.kinds.entry(kind).or_default().entry(component).or_default().add(samples, weight);
        }
        Ok(shares)
    }

    /// How the time of a kind of wait is to be split: components with their weights. Without a stack it is the kind that tells.
    pub(super) fn of(&self, kind: &WaitKind) -> Vec<(&'static str, Weight)> {
        match self.kinds.get(kind) {
            Some(components) => components.iter().map(|(component, weight)| (*component, *weight)).collect(),
            None => vec![(unanchored(kind), Weight { samples: 0, weight: 1 })],
        }
    }
}

/// The component of a wait of a kind with a kernel stack, innermost function first.
pub(super) fn component_of_wait<'a>(kind: &WaitKind, kernel: impl Iterator<Item = &'a str>) -> &'static str {
    off_of_stack(kernel).unwrap_or_else(|| unanchored(kind))
}

/// The component of a wait that no anchor tells.
fn unanchored(kind: &WaitKind) -> &'static str {
    if kind.is_active() { OFF_OTHER } else { off_by_waker(kind.waker) }
}
