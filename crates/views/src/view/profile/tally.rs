//! Adding up samples.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::ops::Range;

use pagelab_recording::Recording;
use pagelab_recording::tables::{SamplesView, TableView};

use super::rollup;
use super::stacks::Frames;
use crate::error::Result;
use crate::fast as counting;
use crate::read::{Comms, Tasks};
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

/// The fields of an [`Alike`] other than its stacks and counts; texts by their numbers. There are few of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Around {
    event: u32,
    ustack_end: Option<u32>,
    comm: u32,
    cpu: u32,
    measured: bool,
}

impl Hash for Around {
    /// One word in place of six: with few values, few collide.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (end, measured) = (self.ustack_end.map_or(0, |end| end + 1), u64::from(self.measured));
        let texts = u64::from(self.event) << 56 | u64::from(end) << 48;
        state.write_u64(texts ^ (u64::from(self.comm) << 20 | u64::from(self.cpu) << 1 | measured));
    }
}

/// A kind of samples: the number of what is around, and the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    /// With a bit for each stack that there is.
    around: u32,
    kernel: u64,
    user: u64,
}

impl Key {
    fn new(around: u32, (kernel, user): Pair) -> Self {
        let has = u32::from(kernel.is_some()) | u32::from(user.is_some()) << 1;
        Self { around: around << 2 | has, kernel: kernel.unwrap_or(0), user: user.unwrap_or(0) }
    }

    fn around(self) -> usize {
        (self.around >> 2) as usize
    }

    fn pair(self) -> Pair {
        let kernel = (self.around & 1 != 0).then_some(self.kernel);
        (kernel, (self.around & 2 != 0).then_some(self.user))
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
    around: counting::Tally<Around, ()>,
    kinds: counting::FastMap<Key, (u64, u64)>,
    events: Words,
    ends: Words,
    comms: Comms,
    /// All samples, and whether one was of the event with this number; asked for or not.
    seen: u64,
    is_event_seen: Vec<bool>,
}

impl Samples {
    /// No samples yet.
    pub(super) fn new(recording: &Recording) -> Self {
        let measured = recording.manifest().measured.clone().unwrap_or_default();
        let window = measured.start_ns.unwrap_or(i64::MIN)..measured.end_ns.unwrap_or(i64::MAX);
        Self {
            window,
            around: counting::Tally::default(),
            kinds: counting::FastMap::default(),
            events: Words::default(),
            ends: Words::default(),
            comms: Comms::default(),
            seen: 0,
            is_event_seen: Vec::new(),
        }
    }

    /// Adds the samples of a batch that are asked for.
    pub(super) fn add(&mut self, view: &SamplesView, tasks: &Tasks, wants: impl Fn(u32, i64, Pair) -> bool) {
        let events: Vec<u32> = view.event.distinct().map(|event| self.events.number(event)).collect();
        let ends: Vec<u32> = view.ustack_end.distinct().map(|end| self.ends.number(end)).collect();
        self.is_event_seen.resize(self.events.0.len(), false);
        self.seen += view.len() as u64;
        let number = |numbers: &[u32], key: Option<usize>| key.and_then(|key| numbers.get(key).copied());
        for row in 0..view.len() {
            let (ts, task_id) = (view.ts.value(row), view.task_id.value(row));
            let pair = (view.kstack_id.get(row), view.ustack_id.get(row));
            let event = number(&events, view.event.key(row)).unwrap_or_default();
            if let Some(seen) = self.is_event_seen.get_mut(event as usize) {
                *seen = true;
            }
            if !wants(task_id, ts, pair) {
                continue;
            }
            let around = self.around.number(Around {
                event,
                ustack_end: number(&ends, view.ustack_end.key(row)),
                comm: self.comms.number(tasks, task_id, ts) as u32,
                cpu: view.cpu.value(row),
                measured: self.window.contains(&ts),
            });
            let (samples, weight) = self.kinds.entry(Key::new(around as u32, pair)).or_default();
            *samples += 1;
            *weight = weight.saturating_add(view.weight.value(row));
        }
    }

    /// Events of all samples, asked for or not.
    fn events_seen(&self) -> impl Iterator<Item = &str> {
        self.events.0.iter().zip(&self.is_event_seen).filter_map(|(event, seen)| seen.then_some(event.as_str()))
    }

    /// Kinds of samples so far.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The samples, those in the same circumstances next to each other.
    pub(super) fn finish(self) -> Vec<Alike> {
        let Self { around, kinds, events, ends, comms, .. } = self;
        let around: Vec<Around> = around.into_entries().into_iter().map(|(around, ())| around).collect();
        let mut kinds: Vec<(Key, (u64, u64))> = kinds.into_iter().collect();
        kinds.sort_unstable();
        let one = |(key, (samples, weight)): (Key, (u64, u64))| {
            let around = around[key.around()];
            Alike {
                event: events.word(around.event),
                comm: comms.name(around.comm as usize).map(str::to_owned),
                cpu: around.cpu,
                pair: key.pair(),
                ustack_end: around.ustack_end.map(|end| ends.word(end)),
                measured: around.measured,
                samples,
                weight,
            }
        };
        kinds.into_iter().map(one).collect()
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
            tally.samples = alike.iter().map(|one| one.samples).sum();
            tally.events = alike.iter().map(|one| one.event.clone()).collect();
            alike
        } else {
            let mut samples = Samples::new(recording);
            recording.for_each_view(notes, |view: &SamplesView| {
                samples.add(view, tasks, |task_id, ts, pair| {
                    tasks.wants(selection, task_id, ts) && wants_file(selection, frames, pair)
                });
            })?;
            tally.samples = samples.seen;
            tally.events = samples.events_seen().map(str::to_owned).collect();
            samples.finish()
        };
        for one in &alike {
            tally.add(one);
        }
        tally.add_functions(frames);
        Ok(tally)
    }

    fn add(&mut self, alike: &Alike) {
        let Alike { samples, weight, .. } = *alike;
        let totals = Totals { samples, weight, measured_weight: if alike.measured { weight } else { 0 } };
        self.selected.add(totals);
        self.comms.entry(alike.comm.clone()).or_default().add(totals);
        self.cpus.entry(Some(alike.cpu.to_string())).or_default().add(totals);
        self.pairs.entry(alike.pair).or_default().add(totals);
        if alike.pair.1.is_none() {
            return;
        }
        self.ends.all += samples;
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

    /// Samples with the function in their stack, and the same by its caller, or by its callee; none where there is no
    /// caller or callee. Where a function is in a stack several times, its outermost call counts for callers, its
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
