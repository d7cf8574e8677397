//! `show DIR profile`: where the recorded tasks spent their CPU time, by function, module, name and CPU.

pub(crate) mod rollup;
mod stacks;
mod tally;

use std::collections::HashMap;

use pagelab_recording::tables::LossRow;
use pagelab_recording::{Measured, Recording};
use pagelab_vocab::streams::Stream;
use pagelab_vocab::terminal::shell_path;
use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use crate::absence;
use crate::answer::Answer;
use crate::error::{Result, ViewError};
use crate::read::{self, Tasks};
use crate::selection::{Selection, cut};
use stacks::Frames;
use tally::{Tally, Totals};

/// A function, or what stands for those of a module that have no symbol.
#[derive(Debug, Serialize)]
pub struct Symbol {
    /// Function; null if its name is not known.
    pub symbol: Option<String>,
    /// Path of the module; null if it is not known.
    pub module: Option<String>,
    /// Whether it is kernel code.
    pub kernel: bool,
    /// Samples in the function itself.
    #[serde(flatten)]
    pub own: Share,
    /// Samples in the function and its callees; a sample counts once, however often the function is in its stack.
    pub total_samples: u64,
    /// `total_samples` in percent of the weight of all samples selected.
    pub total_pct: f64,
    /// `total_samples` in ns per operation.
    pub total_ns_per_operation: Option<f64>,
}

/// A part of the profile.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Share {
    /// How many.
    pub samples: u64,
    /// Share of the weight of all samples selected.
    pub pct: f64,
    /// Null unless the recording knows its operations and the event counts time.
    pub ns_per_operation: Option<f64>,
}

/// A module, a task's name or a CPU.
#[derive(Debug, Serialize)]
pub struct Named {
    /// Which one; null if it is not known.
    pub name: Option<String>,
    /// Its samples.
    #[serde(flatten)]
    pub share: Share,
}

/// Functions that a pattern names, added up.
#[derive(Debug, Serialize)]
pub struct Group {
    /// What the user calls it.
    pub group: String,
    /// The pattern.
    pub regex: String,
    /// Samples whose innermost function is of the group.
    #[serde(flatten)]
    pub own: Share,
    /// Samples in a function of the group and in what those call.
    pub total_samples: u64,
    /// The same in percent of the weight of all samples selected.
    pub total_pct: f64,
    /// The same in ns per operation.
    pub total_ns_per_operation: Option<f64>,
}

/// What a function is called by, or calls.
#[derive(Debug, Serialize)]
pub struct Neighbours {
    /// The function.
    pub of: String,
    /// Samples with the function in their stack.
    pub total_samples: u64,
    /// Its callers, or its callees, ranked.
    pub functions: Vec<Neighbour>,
    /// Rows before the list was cut.
    pub functions_total: usize,
}

/// A function next to another in stacks; without symbol and module: none.
#[derive(Debug, Serialize)]
pub struct Neighbour {
    /// Function; null if its name is not known.
    pub symbol: Option<String>,
    /// Path of the module; null if it is not known.
    pub module: Option<String>,
    /// Whether it is kernel code.
    pub kernel: bool,
    /// Samples in which they meet.
    pub samples: u64,
    /// Percent of the weight of all samples selected.
    pub pct: f64,
}

/// A module with functions whose names are not known.
#[derive(Debug, Serialize)]
pub struct Unnamed {
    /// Path of the module; null if it is not known.
    pub module: Option<String>,
    /// Whether it is kernel code.
    pub kernel: bool,
    /// Samples whose innermost function has no name.
    pub samples: u64,
    /// Percent of the weight of all samples selected.
    pub pct: f64,
    /// Samples with such a function in their stack.
    pub total_samples: u64,
    /// Why, in words; empty if the recording does not say it.
    pub reasons: Vec<String>,
}

/// How good the profile is.
#[derive(Debug, Serialize)]
pub struct Quality {
    /// Ticks on recorded tasks, as the probe counted them.
    pub seen: Option<u64>,
    /// Of those, samples that were lost.
    pub lost: Option<u64>,
    /// Samples with a user stack.
    pub ustacks: u64,
    /// User stacks that reach the first function of the thread.
    pub ustacks_to_entry: u64,
    /// User stacks that are longer than the copy kept.
    pub ustacks_cut: u64,
    /// User stacks that could not be followed further.
    pub ustacks_broken: u64,
    /// Followed by frame pointers only, which do not say where they end.
    pub ustacks_end_unknown: u64,
    /// Frames without a symbol, of the frames of all samples.
    pub unresolved_frames_pct: Option<f64>,
    /// Samples whose innermost frame has no symbol.
    pub unresolved_samples_pct: Option<f64>,
}

/// CPU time by function, module, name and CPU.
#[derive(Debug, Serialize)]
pub struct ProfileView {
    /// Names of the events that were sampled.
    pub events: Vec<String>,
    /// Samples in the recording.
    pub samples: u64,
    /// Of those, the ones selected.
    pub samples_selected: u64,
    /// Weight of the samples selected, in ns for clocks, else in events.
    pub weight: u64,
    /// Operations in the measured time; null if they are not known or the event counts no time.
    pub operations: Option<f64>,
    /// How good the profile is.
    pub quality: Quality,
    /// Functions, ranked.
    pub symbols: Vec<Symbol>,
    /// Rows before the list was cut.
    pub symbols_total: usize,
    /// Modules by samples of their innermost frames.
    pub modules: Vec<Named>,
    /// Rows before the list was cut.
    pub modules_total: usize,
    /// Modules with functions that have no name, and why, by samples.
    pub unnamed: Vec<Unnamed>,
    /// Rows before the list was cut.
    pub unnamed_total: usize,
    /// Names of tasks.
    pub comms: Vec<Named>,
    /// Rows before the list was cut.
    pub comms_total: usize,
    /// CPUs, in their order.
    pub cpus: Vec<Named>,
    /// Groups of functions that were asked for.
    pub groups: Vec<Group>,
    /// What calls the function that was asked for.
    pub callers: Option<Neighbours>,
    /// What the function that was asked for calls.
    pub callees: Option<Neighbours>,
}

/// What turns a weight into a share.
#[derive(Debug, Clone, Copy)]
struct Scale {
    weight: u64,
    operations: Option<f64>,
}

impl Scale {
    fn pct(self, totals: Totals) -> f64 {
        if self.weight == 0 { 0.0 } else { 100.0 * totals.weight as f64 / self.weight as f64 }
    }

    fn per_operation(self, totals: Totals) -> Option<f64> {
        self.operations.map(|operations| totals.measured_weight as f64 / operations)
    }

    fn share(self, totals: Totals) -> Share {
        Share { samples: totals.samples, pct: self.pct(totals), ns_per_operation: self.per_operation(totals) }
    }
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<ProfileView>> {
    let sort = selection.sort_by(&["self", "total"])?;
    let groups = parse_groups(&selection.groups)?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let frames = Frames::load(recording, &mut notes)?;
    let tally = Tally::of(recording, selection, &tasks, &frames, &mut notes)?;
    read::lost(recording, Stream::Cpu, &mut notes)?;
    if tally.samples == 0 {
        absence::none_recorded(recording, Stream::Cpu, "samples", &mut notes)?;
    } else if tally.selected.samples == 0 {
        notes.push(format!("none of the {} samples is selected", tally.samples));
    }
    let is_time = tally.events.iter().all(|event| event.ends_with("-clock"));
    let operations = recording.manifest().measured.as_ref().and_then(Measured::operations_done);
    let scale = Scale { weight: tally.selected.weight, operations: operations.filter(|_| is_time) };
    let data = document(recording, selection, sort, &groups, &frames, &tally, scale, &mut notes)?;
    Ok(Answer::new("profile", recording, notes, data))
}

#[allow(clippy::too_many_arguments)]
fn document(
    recording: &Recording,
    selection: &Selection,
    sort: &str,
    groups: &[(String, Regex)],
    frames: &Frames,
    tally: &Tally,
    scale: Scale,
    notes: &mut Vec<String>,
) -> Result<ProfileView> {
    let limit = selection.limit(true);
    let (symbols, symbols_total) = cut(symbols(frames, tally, scale, sort), limit);
    let (modules, modules_total) = cut(named(tally.modules(frames), scale), limit);
    let (unnamed, unnamed_total) = cut(unnamed(recording, frames, tally, scale), limit);
    let (comms, comms_total) = cut(named(tally.comms.clone(), scale), limit);
    let mut cpus = named(tally.cpus.clone(), scale);
    cpus.sort_by_key(|row| row.name.as_ref().and_then(|name| name.parse::<u32>().ok()));
    let neighbours = |of: &Option<String>, callers: bool| -> Result<Option<Neighbours>> {
        of.as_ref().map(|name| neighbours(name, callers, frames, tally, scale, limit, recording)).transpose()
    };
    Ok(ProfileView {
        events: tally.events.iter().cloned().collect(),
        samples: tally.samples,
        samples_selected: tally.selected.samples,
        weight: tally.selected.weight,
        operations: scale.operations,
        quality: quality(recording, tally, notes)?,
        symbols,
        symbols_total,
        modules,
        modules_total,
        unnamed,
        unnamed_total,
        comms,
        comms_total,
        cpus,
        groups: groups.iter().map(|(name, regex)| group(name, regex, frames, tally, scale)).collect(),
        callers: neighbours(&selection.callers, true)?,
        callees: neighbours(&selection.callees, false)?,
    })
}

/// `NAME=REGEX`, each.
fn parse_groups(texts: &[String]) -> Result<Vec<(String, Regex)>> {
    let parse = |text: &String| {
        let needed = "needed NAME=REGEX, such as --group 'copy=^(copy_|memcpy|memmove)'";
        let wrong = |why: &str| ViewError::Asked(format!("--group: found {text:?}, {needed}{why}"));
        let (name, regex) = text.split_once('=').ok_or_else(|| wrong(""))?;
        let regex = Regex::new(regex).map_err(|error| wrong(&format!(": {error}")))?;
        Ok((name.to_owned(), regex))
    };
    texts.iter().map(parse).collect()
}

fn symbols(frames: &Frames, tally: &Tally, scale: Scale, sort: &str) -> Vec<Symbol> {
    let mut rows: Vec<Symbol> = tally
        .functions
        .iter()
        .map(|(function, (own, total))| {
            let known = frames.function(*function);
            Symbol {
                symbol: known.symbol.clone(),
                module: known.module.clone(),
                kernel: known.kernel,
                own: scale.share(*own),
                total_samples: total.samples,
                total_pct: scale.pct(*total),
                total_ns_per_operation: scale.per_operation(*total),
            }
        })
        .collect();
    let by_total = sort == "total";
    rows.sort_by(|one, other| {
        let key = |row: &Symbol| if by_total { (row.total_pct, row.own.pct) } else { (row.own.pct, row.total_pct) };
        let (one_key, other_key) = (key(one), key(other));
        let by_weight = other_key.0.total_cmp(&one_key.0).then(other_key.1.total_cmp(&one_key.1));
        // Functions without a symbol are told apart by their module: the order must not depend on a hash.
        let names = (&one.symbol, &one.module, one.kernel).cmp(&(&other.symbol, &other.module, other.kernel));
        by_weight.then(names)
    });
    rows
}

/// Streams whose probe says in the manifest what it could not name.
const NAMING_STREAMS: [&str; 4] = ["cpu", "sched", "maps", "waits"];

/// Why functions of each module have no name.
fn unnamed_reasons(recording: &Recording) -> HashMap<String, Vec<String>> {
    let mut reasons: HashMap<String, Vec<String>> = HashMap::new();
    let extra = &recording.manifest().extra;
    let lists = NAMING_STREAMS.iter().filter_map(|stream| extra.get(*stream)?.get("modules_unnamed")?.as_array());
    for module in lists.flatten() {
        let Some(name) = module.get("module").and_then(Value::as_str) else { continue };
        let known = reasons.entry(name.to_owned()).or_default();
        for reason in module.get("reasons").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !known.iter().any(|known| known == reason) {
                known.push(reason.to_owned());
            }
        }
    }
    reasons
}

fn unnamed(recording: &Recording, frames: &Frames, tally: &Tally, scale: Scale) -> Vec<Unnamed> {
    let reasons = unnamed_reasons(recording);
    let functions = tally.functions.iter().map(|(number, totals)| (frames.function(*number), totals));
    let without = functions.filter(|(function, _)| function.symbol.is_none());
    let mut rows: Vec<Unnamed> = without
        .map(|(function, (own, total))| Unnamed {
            module: function.module.clone(),
            kernel: function.kernel,
            samples: own.samples,
            pct: scale.pct(*own),
            total_samples: total.samples,
            reasons: function.module.as_ref().and_then(|module| reasons.get(module)).cloned().unwrap_or_default(),
        })
        .collect();
    rows.sort_by(|one, other| {
        let key = |row: &Unnamed| std::cmp::Reverse((row.samples, row.total_samples));
        key(one).cmp(&key(other)).then_with(|| one.module.cmp(&other.module))
    });
    rows
}

fn named(parts: impl IntoIterator<Item = (Option<String>, Totals)>, scale: Scale) -> Vec<Named> {
    let mut rows: Vec<Named> =
        parts.into_iter().map(|(name, totals)| Named { name, share: scale.share(totals) }).collect();
    rows.sort_by(|one, other| other.share.pct.total_cmp(&one.share.pct).then(one.name.cmp(&other.name)));
    rows
}

fn group(name: &str, regex: &Regex, frames: &Frames, tally: &Tally, scale: Scale) -> Group {
    let (own, total) = tally.matching(frames, |symbol| regex.is_match(symbol));
    Group {
        group: name.to_owned(),
        regex: regex.as_str().to_owned(),
        own: scale.share(own),
        total_samples: total.samples,
        total_pct: scale.pct(total),
        total_ns_per_operation: scale.per_operation(total),
    }
}

fn neighbours(
    name: &str,
    callers: bool,
    frames: &Frames,
    tally: &Tally,
    scale: Scale,
    limit: usize,
    recording: &Recording,
) -> Result<Neighbours> {
    let (total, found) = tally.neighbours(frames, name, callers);
    if total.samples == 0 {
        let option = if callers { "--callers" } else { "--callees" };
        let dir = shell_path(recording.dir());
        return Err(ViewError::Asked(format!(
            "{option}: no sample has a function {name:?} in its stack; functions are listed by: pagelab show {dir} profile --top 0"
        )));
    }
    let mut functions: Vec<Neighbour> = found
        .into_iter()
        .map(|(function, totals)| {
            let known = function.map(|function| frames.function(function));
            Neighbour {
                symbol: known.and_then(|known| known.symbol.clone()),
                module: known.and_then(|known| known.module.clone()),
                kernel: known.is_some_and(|known| known.kernel),
                samples: totals.samples,
                pct: scale.pct(totals),
            }
        })
        .collect();
    functions.sort_by(|one, other| {
        let names = (&one.symbol, &one.module, one.kernel).cmp(&(&other.symbol, &other.module, other.kernel));
        other.pct.total_cmp(&one.pct).then(names)
    });
    let (functions, functions_total) = cut(functions, limit);
    Ok(Neighbours { of: name.to_owned(), total_samples: total.samples, functions, functions_total })
}

fn quality(recording: &Recording, tally: &Tally, notes: &mut Vec<String>) -> Result<Quality> {
    let (mut seen, mut lost) = (None, None);
    read::each::<LossRow>(recording, notes, |row| {
        if row.stream == "cpu" {
            seen = Some(seen.unwrap_or(0) + row.seen);
            lost = Some(lost.unwrap_or(0) + row.lost);
        }
    })?;
    let pct = |part: u64, whole: u64| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
    let ends = &tally.ends;
    Ok(Quality {
        seen,
        lost,
        ustacks: ends.all,
        ustacks_to_entry: ends.entry,
        ustacks_cut: ends.cut,
        ustacks_broken: ends.broken,
        ustacks_end_unknown: ends.all - ends.entry - ends.cut - ends.broken,
        unresolved_frames_pct: pct(tally.frames_unresolved, tally.frames),
        unresolved_samples_pct: pct(tally.samples_unresolved, tally.selected.samples),
    })
}
