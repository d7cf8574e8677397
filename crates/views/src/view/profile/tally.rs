//! Adding up samples.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::SamplesRow;

use super::stacks::Frames;
use crate::error::Result;
use crate::read::{self, Tasks};
use crate::selection::Selection;

/// Samples added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many.
    pub samples: u64,
    /// Events they stand for.
    pub weight: u64,
    /// The same of those in the measured time.
    pub measured_weight: u64,
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.weight = self.weight.saturating_add(other.weight);
        self.measured_weight = self.measured_weight.saturating_add(other.measured_weight);
    }
}

/// How user stacks ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ends {
    /// Samples with a user stack.
    pub all: u64,
    /// At the thread's first function.
    pub entry: u64,
    /// The stack is longer.
    pub cut: u64,
    /// It could not be followed further.
    pub broken: u64,
}

/// Stacks of kernel and user space, as they occur together.
type Pair = (Option<u64>, Option<u64>);

/// The samples selected, added up in every way that the view shows.
#[derive(Debug, Default)]
pub struct Tally {
    /// All samples of the recording.
    pub samples: u64,
    /// The ones selected.
    pub selected: Totals,
    /// Names of the events.
    pub events: BTreeSet<String>,
    /// By name of the task at the time.
    pub comms: BTreeMap<Option<String>, Totals>,
    /// By CPU.
    pub cpus: BTreeMap<Option<String>, Totals>,
    /// Per function: in itself, and in all that it called.
    pub functions: HashMap<u32, (Totals, Totals)>,
    /// How user stacks ended.
    pub ends: Ends,
    /// Frames of all samples, and those without a symbol.
    pub frames: u64,
    /// Frames without a symbol.
    pub frames_unresolved: u64,
    /// Samples whose innermost frame has none.
    pub samples_unresolved: u64,
    pairs: HashMap<Pair, Totals>,
}

impl Tally {
    /// Adds up the samples that are selected.
    pub fn of(
        recording: &Recording,
        selection: &Selection,
        tasks: &Tasks,
        frames: &Frames,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let measured = recording.manifest().measured.clone().unwrap_or_default();
        let window = measured.start_ns.unwrap_or(i64::MIN)..measured.end_ns.unwrap_or(i64::MAX);
        let mut tally = Self::default();
        read::each::<SamplesRow>(recording, notes, |row| {
            tally.samples += 1;
            if !tally.events.contains(row.event) {
                tally.events.insert(row.event.to_owned());
            }
            let pair = (row.kstack_id, row.ustack_id);
            if tasks.wants(selection, row.task_id, row.ts) && wants_file(selection, frames, pair) {
                let measured_weight = if window.contains(&row.ts) { row.weight } else { 0 };
                tally.add(&row, Totals { samples: 1, weight: row.weight, measured_weight }, tasks);
            }
        })?;
        tally.add_functions(frames);
        Ok(tally)
    }

    fn add(&mut self, row: &SamplesRow<'_>, one: Totals, tasks: &Tasks) {
        self.selected.add(one);
        let comm = tasks.get(row.task_id).and_then(|task| task.comm_at(row.ts)).map(str::to_owned);
        self.comms.entry(comm).or_default().add(one);
        self.cpus.entry(Some(row.cpu.to_string())).or_default().add(one);
        self.pairs.entry((row.kstack_id, row.ustack_id)).or_default().add(one);
        self.ends.all += u64::from(row.ustack_id.is_some());
        match row.ustack_end {
            Some("entry") => self.ends.entry += 1,
            Some("cut") => self.ends.cut += 1,
            Some("broken") => self.ends.broken += 1,
            _ => {}
        }
    }

    fn add_functions(&mut self, frames: &Frames) {
        let mut met = HashSet::new();
        for (pair, totals) in &self.pairs {
            met.clear();
            for (depth, function) in whole(frames, *pair).enumerate() {
                let unresolved = u64::from(frames.function(function).symbol.is_none());
                self.frames += totals.samples;
                self.frames_unresolved += totals.samples * unresolved;
                let (own, total) = self.functions.entry(function).or_default();
                if depth == 0 {
                    self.samples_unresolved += totals.samples * unresolved;
                    own.add(*totals);
                }
                if met.insert(function) {
                    total.add(*totals);
                }
            }
            if met.is_empty() {
                self.samples_unresolved += totals.samples;
            }
        }
    }

    /// By module of the innermost frame.
    pub fn modules(&self, frames: &Frames) -> BTreeMap<Option<String>, Totals> {
        let mut modules: BTreeMap<Option<String>, Totals> = BTreeMap::new();
        for (pair, totals) in &self.pairs {
            let innermost = whole(frames, *pair).next();
            let module = innermost.and_then(|function| frames.function(function).module.clone());
            modules.entry(module).or_default().add(*totals);
        }
        modules
    }

    /// Samples in functions of the names wanted, and samples with such a function anywhere in their stack.
    pub fn matching(&self, frames: &Frames, wanted: impl Fn(&str) -> bool) -> (Totals, Totals) {
        let matches: HashSet<u32> = self
            .functions
            .keys()
            .copied()
            .filter(|function| frames.function(*function).symbol.as_deref().is_some_and(&wanted))
            .collect();
        let (mut own, mut total) = (Totals::default(), Totals::default());
        for (pair, totals) in &self.pairs {
            let mut stack = whole(frames, *pair).map(|function| matches.contains(&function));
            if stack.next() == Some(true) {
                own.add(*totals);
                total.add(*totals);
            } else if stack.any(|matched| matched) {
                total.add(*totals);
            }
        }
        (own, total)
    }

    /// Samples with the function in their stack, and the same by what called it, or by what it called; none: nothing did,
    /// or nothing more. Where a function is in a stack several times, its outermost call counts for callers, its
    /// innermost for callees.
    pub fn neighbours(&self, frames: &Frames, name: &str, callers: bool) -> (Totals, HashMap<Option<u32>, Totals>) {
        let is_it = |function: &u32| frames.function(*function).symbol.as_deref() == Some(name);
        let (mut all, mut found): (Totals, HashMap<Option<u32>, Totals>) = Default::default();
        for (pair, totals) in &self.pairs {
            let stack: Vec<u32> = whole(frames, *pair).collect();
            let next = if callers {
                stack.iter().rposition(is_it).map(|at| stack.get(at + 1).copied())
            } else {
                stack.iter().position(is_it).map(|at| at.checked_sub(1).and_then(|at| stack.get(at).copied()))
            };
            if let Some(next) = next {
                all.add(*totals);
                found.entry(next).or_default().add(*totals);
            }
        }
        (all, found)
    }
}

/// The functions of both stacks, innermost first.
fn whole(frames: &Frames, (kernel, user): Pair) -> impl Iterator<Item = u32> + '_ {
    frames.stack(kernel).iter().chain(frames.stack(user)).copied()
}

/// Whether the sample ran in the file asked for.
fn wants_file(selection: &Selection, frames: &Frames, pair: Pair) -> bool {
    if selection.file.is_none() {
        return true;
    }
    let module = whole(frames, pair).next().and_then(|function| frames.function(function).module.as_deref());
    selection.wants_path(module.map(str::as_bytes))
}
