//! What samples say a state was spent on: those of the profile for RUN, stacks of waits for OFF.

use std::collections::{BTreeMap, HashMap, HashSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::{RollupSamplesRow, SamplesRow, WaitStacksRow};
use pagelab_vocab::budget::{self, OFF_OTHER, USER, off_by_waker, off_of_stack, run_of_mechanism};
use pagelab_vocab::mechanisms;
use pagelab_vocab::waits::Waker;

use super::states::WaitKind;
use crate::error::Result;
use crate::read::{self, Tasks};
use crate::selection::Selection;
use crate::stacks::Stacks;

/// Samples, and the time or the events that they stand for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub samples: u64,
    pub weight: u64,
}

impl Weight {
    fn add(&mut self, samples: u64, weight: u64) {
        self.samples += samples;
        self.weight = self.weight.saturating_add(weight);
    }
}

/// Where samples of the profile were.
#[derive(Debug, Default)]
pub(super) struct RunShares {
    pub all: Weight,
    pub kernel: Weight,
    /// By component.
    pub components: BTreeMap<&'static str, Weight>,
    /// Of the kernel: by the way in, and the mechanism (`other` where no anchor tells one).
    pub entries: BTreeMap<(String, &'static str), Weight>,
    /// Innermost functions of stacks that no anchor tells.
    pub unmatched: BTreeMap<String, Weight>,
    /// The kernel's functions have names.
    pub has_names: bool,
}

impl RunShares {
    /// Reads the samples of the selected tasks.
    pub(super) fn load(
        recording: &Recording,
        selection: &Selection,
        tasks: &Tasks,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let by_stack = sampled(recording, selection, tasks, notes)?;
        let wanted: HashSet<u64> = by_stack.keys().copied().flatten().collect();
        let names = Stacks::load(recording, &wanted, notes)?;
        let mut shares = Self::default();
        for (kstack_id, weight) in by_stack {
            shares.all.add(weight.samples, weight.weight);
            match kstack_id {
                None => shares.components.entry(USER).or_default().add(weight.samples, weight.weight),
                Some(id) => shares.take_kernel(&names.functions(id).unwrap_or_default(), weight),
            }
        }
        Ok(shares)
    }

    fn take_kernel(&mut self, functions: &[String], Weight { samples, weight }: Weight) {
        let mechanism = mechanisms::of_stack(functions.iter().map(String::as_str));
        self.has_names |= functions.iter().any(|name| !name.contains("+0x"));
        self.kernel.add(samples, weight);
        let name = mechanism.map_or(mechanisms::OTHER, |mechanism| mechanism.name);
        let component = mechanism.map_or(budget::OTHER, |mechanism| run_of_mechanism(mechanism.name));
        self.components.entry(component).or_default().add(samples, weight);
        let entry = mechanisms::entry_of_stack(functions.iter().map(String::as_str));
        self.entries.entry((entry, name)).or_default().add(samples, weight);
        if mechanism.is_none() {
            let innermost = functions.first().map_or("unknown", String::as_str);
            self.unmatched.entry(mechanisms::plain_name(innermost).to_owned()).or_default().add(samples, weight);
        }
    }
}

/// Samples by kernel stack; without one those of user space.
fn sampled(
    recording: &Recording,
    selection: &Selection,
    tasks: &Tasks,
    notes: &mut Vec<String>,
) -> Result<HashMap<Option<u64>, Weight>> {
    let mut by_stack: HashMap<Option<u64>, Weight> = HashMap::new();
    if !selection.by_task() {
        let is_whole = recording.for_each_of_rollup::<RollupSamplesRow<'_>>(|row| {
            by_stack.entry(row.kstack_id).or_default().add(row.samples, row.weight);
        });
        if is_whole {
            return Ok(by_stack);
        }
        by_stack.clear();
    }
    read::each::<SamplesRow<'_>>(recording, notes, |row| {
        if tasks.wants(selection, row.task_id, row.ts) {
            by_stack.entry(row.kstack_id).or_default().add(1, row.weight);
        }
    })?;
    Ok(by_stack)
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
            let kind = WaitKind {
                off_state: Some(row.off_state.to_owned()),
                iowait: Some(row.iowait),
                call: row.call.map(str::to_owned),
                waker: row.by.and_then(Waker::of_word),
            };
            by_stack.entry((kind, row.kstack_id)).or_default().add(row.samples, row.weight_ns);
        })?;
        let wanted: HashSet<u64> = by_stack.keys().filter_map(|(_, id)| *id).collect();
        let names = Stacks::load(recording, &wanted, notes)?;
        let mut shares = Self::default();
        for ((kind, kstack_id), Weight { samples, weight }) in by_stack {
            let functions = kstack_id.and_then(|id| names.functions(id)).unwrap_or_default();
            let anchored = off_of_stack(functions.iter().map(String::as_str));
            let component = anchored.unwrap_or_else(|| unanchored(&kind));
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

/// The component of a wait that no anchor tells.
fn unanchored(kind: &WaitKind) -> &'static str {
    if kind.is_active() { OFF_OTHER } else { off_by_waker(kind.waker) }
}
