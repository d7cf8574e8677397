//! Adding up samples.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::ops::Range;

use pagelab_recording::Recording;
use pagelab_recording::tables::SamplesRow;

use super::rollup;
use super::stacks::Frames;
use crate::error::Result;
use crate::fast as counting;
use crate::read::{self, Comms, Tasks};
use crate::selection::Selection;

/// Samples added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
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
pub(super) struct Ends {
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
pub(super) type Pair = (Option<u64>, Option<u64>);

/// The samples selected, added up in every way that the view shows.
#[derive(Debug, Default)]
pub(super) struct Tally {
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

/// Samples that differ in their time only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alike {
    /// Event that was sampled.
    pub event: String,
    /// Name of the task at the time.
    pub comm: Option<String>,
    /// Where.
    pub cpu: u32,
    /// Stacks.
    pub pair: Pair,
    /// How the user stack ended.
    pub ustack_end: Option<String>,
    /// Whether they lie in the measured time.
    pub measured: bool,
    /// How many.
    pub samples: u64,
    /// Events they stand for.
    pub weight: u64,
}

/// An [`Alike`] without its counts; texts by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    event: u32,
    comm: u32,
    cpu: u32,
    pair: Pair,
    ustack_end: Option<u32>,
    measured: bool,
}

impl Hash for Kind {
    /// Three words in place of ten: what differs between samples is their stacks, the rest has few values.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (kernel, user) = self.pair;
        let around = (self.event << 8) ^ (self.comm << 10) ^ (self.cpu << 1) ^ u32::from(self.measured);
        state.write_u64(u64::from(around) << 32 | u64::from(self.ustack_end.unwrap_or(u32::MAX)));
        state.write_u64(kernel.unwrap_or(u64::MAX));
        state.write_u64(user.unwrap_or(u64::MAX));
    }
}

/// Numbers of a few texts.
#[derive(Debug, Default)]
struct Words(Vec<String>);

impl Words {
    fn number(&mut self, word: &str) -> u32 {
        let known = self.0.iter().position(|known| known == word);
        known.unwrap_or_else(|| {
            self.0.push(word.to_owned());
            self.0.len() - 1
        }) as u32
    }

    fn word(&self, number: u32) -> String {
        self.0.get(number as usize).cloned().unwrap_or_default()
    }
}

/// Puts samples together that are alike.
#[derive(Debug)]
pub(super) struct Samples {
    window: Range<i64>,
    kinds: counting::Tally<Kind, (u64, u64)>,
    events: Words,
    ends: Words,
    comms: Comms,
}

impl Samples {
    /// No samples yet.
    pub(super) fn new(recording: &Recording) -> Self {
        let measured = recording.manifest().measured.clone().unwrap_or_default();
        let window = measured.start_ns.unwrap_or(i64::MIN)..measured.end_ns.unwrap_or(i64::MAX);
        Self {
            window,
            kinds: counting::Tally::default(),
            events: Words::default(),
            ends: Words::default(),
            comms: Comms::default(),
        }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, row: &SamplesRow<'_>, tasks: &Tasks) {
        let kind = Kind {
            event: self.events.number(row.event),
            comm: self.comms.number(tasks, row.task_id, row.ts) as u32,
            cpu: row.cpu,
            pair: (row.kstack_id, row.ustack_id),
            ustack_end: row.ustack_end.map(|end| self.ends.number(end)),
            measured: self.window.contains(&row.ts),
        };
        let (samples, weight) = self.kinds.of(kind);
        *samples += 1;
        *weight = weight.saturating_add(row.weight);
    }

    /// Kinds of samples so far.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The samples, in the order in which a kind was met first.
    pub(super) fn finish(self) -> Vec<Alike> {
        let Self { kinds, events, ends, comms, .. } = self;
        let one = |(kind, (samples, weight)): (Kind, (u64, u64))| Alike {
            event: events.word(kind.event),
            comm: comms.name(kind.comm as usize).map(str::to_owned),
            cpu: kind.cpu,
            pair: kind.pair,
            ustack_end: kind.ustack_end.map(|end| ends.word(end)),
            measured: kind.measured,
            samples,
            weight,
        };
        kinds.into_entries().into_iter().map(one).collect()
    }
}

impl Tally {
    /// Adds up the samples that are selected: from the rollup where all are, else one by one.
    pub(super) fn of(
        recording: &Recording,
        selection: &Selection,
        tasks: &Tasks,
        frames: &Frames,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let narrowed = selection.by_task() || selection.file.is_some();
        let rolled_up = if narrowed { None } else { rollup::read(recording) };
        let mut tally = Self::default();
        let alike = if let Some(alike) = rolled_up {
            for one in &alike {
                tally.note_event(&one.event, one.samples);
            }
            alike
        } else {
            let mut samples = Samples::new(recording);
            read::each::<SamplesRow>(recording, notes, |row| {
                tally.note_event(row.event, 1);
                let pair = (row.kstack_id, row.ustack_id);
                if tasks.wants(selection, row.task_id, row.ts) && wants_file(selection, frames, pair) {
                    samples.add(&row, tasks);
                }
            })?;
            samples.finish()
        };
        for one in &alike {
            tally.add(one);
        }
        tally.add_functions(frames);
        Ok(tally)
    }

    /// Counts samples of an event, selected or not.
    fn note_event(&mut self, event: &str, samples: u64) {
        self.samples += samples;
        if !self.events.contains(event) {
            self.events.insert(event.to_owned());
        }
    }

    fn add(&mut self, alike: &Alike) {
        let Alike { samples, weight, .. } = *alike;
        let totals = Totals { samples, weight, measured_weight: if alike.measured { weight } else { 0 } };
        self.selected.add(totals);
        self.comms.entry(alike.comm.clone()).or_default().add(totals);
        self.cpus.entry(Some(alike.cpu.to_string())).or_default().add(totals);
        self.pairs.entry(alike.pair).or_default().add(totals);
        self.ends.all += if alike.pair.1.is_some() { samples } else { 0 };
        match alike.ustack_end.as_deref() {
            Some("entry") => self.ends.entry += samples,
            Some("cut") => self.ends.cut += samples,
            Some("broken") => self.ends.broken += samples,
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
    pub(super) fn modules(&self, frames: &Frames) -> BTreeMap<Option<String>, Totals> {
        let mut modules: BTreeMap<Option<String>, Totals> = BTreeMap::new();
        for (pair, totals) in &self.pairs {
            let innermost = whole(frames, *pair).next();
            let module = innermost.and_then(|function| frames.function(function).module.clone());
            modules.entry(module).or_default().add(*totals);
        }
        modules
    }

    /// Samples in functions of the names wanted, and samples with such a function anywhere in their stack.
    pub(super) fn matching(&self, frames: &Frames, wanted: impl Fn(&str) -> bool) -> (Totals, Totals) {
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
    pub(super) fn neighbours(
        &self,
        frames: &Frames,
        name: &str,
        callers: bool,
    ) -> (Totals, HashMap<Option<u32>, Totals>) {
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
