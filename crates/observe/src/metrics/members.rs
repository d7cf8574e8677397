//! One file of `/proc/PID`, read of every process of the target and added up.
//!
//! A counter must not fall when a process ends. What a process has used goes, in the kernel, to the parent that waits
//! for it: `io` adds it to the parent's own numbers, `stat` to the parent's `child_` fields. Where that has happened
//! the ended process is dropped from the sum; until it has, and where nobody waits for it or somebody outside the target
//! does, its last values stay in the sum. So a counter holds every process once, whoever waited, and when.
//!
//! In `stat` the fields without `child_` are of every process that was read, ended ones included, and `child_` is of
//! the rest: of children that came and went between two samples, and of what an ended one used after its last reading.
//! So the two add up to all that the target used, and neither counts what the other does.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagelab_residency::{LONGEST_HOLD_NS, Walk};
use rustix::io::Errno;

use super::Facts;
use super::file::{SampledFile, Text};
use super::series::{Collector, SourceSeries, Store};
use super::source::{CpuClock, Parser, Spec, Tag, refusal};

/// What reads the page tables of large processes, too.
const ASK_FOR_WALKS: &str =
    "--observe default,metrics:smaps reads it all the same, regions reads page sizes in small steps";

/// At most this many processes are added up.
pub(super) const MAX_MEMBERS: usize = 4096;

/// At most this many processes that have ended are kept until somebody takes them over. A process that its parent never waits for may
/// stay among them until the end.
const MAX_OPEN: usize = 1024;

/// CPU time that one sample may spend on processes other than the first. The rest wait for the next sample and count
/// with their last values until then.
const BUDGET_NS: u64 = 2_000_000;
/// The same where the kernel holds a lock that the process may wait for.
const LOCK_BUDGET_NS: u64 = 4_000_000;
/// The same for the last sample of a recording.
const LAST_BUDGET_NS: u64 = 50_000_000;

/// How the values of several processes become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sum {
    /// A counter that a waiting parent takes over under the same name.
    Inherited,
    /// A counter that a waiting parent takes over under another name: that of the field with this index.
    Own { child: usize },
    /// The counter that takes over: of what ended children used and no process of the sum did.
    OfChildren,
    /// A counter that is lost with the process.
    Counter,
    /// A level: the sum over the processes that live.
    Level,
    /// A peak: the largest of one process. Peaks at different times have no sum.
    Peak,
}

struct Field {
    /// As it stands in the metric's name, behind the prefix.
    name: Box<[u8]>,
    sum: Sum,
    /// The use of processes that have ended and that no parent took over.
    ended: f64,
}

struct Member {
    pid: u32,
    /// Who may take its counters over: its parent, or the nearest ancestor that lives.
    parent: Option<u32>,
    file: SampledFile,
    /// By field; NaN for fields that the file lacks. Empty before the first reading.
    values: Vec<f64>,
    /// The parent's values when this process was last read: values inherited from it are above them.
    parent_then: Vec<f64>,
    gone: bool,
    /// No directory is held that stands for this very process.
    by_path: bool,
    /// Tells beforehand how long a walk through its page tables would hold it; for files that need one.
    status: Option<SampledFile>,
    /// The walk that it was spared.
    spared: Option<Walk>,
}

/// Who counts a process that has ended.
enum Fate {
    /// An ancestor: its own numbers hold those of the process.
    TakenOver,
    /// Nobody: what was read last stays in the sums.
    Kept,
    /// Nobody yet. This living ancestor, by its place in the list, may take it over; until then its last values count.
    Open { heir: usize, heir_then: Vec<f64> },
}

impl Fate {
    const fn heir(&self) -> Option<usize> {
        match self {
            Self::Open { heir, .. } => Some(*heir),
            Self::TakenOver | Self::Kept => None,
        }
    }
}

/// The processes of a target and the sums of their values.
pub(super) struct Members {
    name: &'static str,
    prefix: &'static str,
    parse: Parser,
    holds_lock: bool,
    walks: bool,
    /// Processes with many pages are walked, too.
    walks_all: bool,
    list: Vec<Member>,
    fields: Vec<Field>,
    store: Store,
    series: SourceSeries,
    /// Where the next reading goes on.
    next: usize,
    too_many: bool,
}

impl Members {
    /// `dir` and `path` are the directory of the first process.
    pub(super) fn new(spec: &Spec, first: u32, file: SampledFile, dir: &Arc<OwnedFd>, path: &Path) -> Self {
        let name = spec.name.rsplit('/').next().unwrap_or_default();
        let mut members = Self {
            name,
            prefix: spec.prefix,
            parse: spec.parse,
            holds_lock: spec.holds_lock,
            walks: spec.walks,
            walks_all: false,
            list: Vec::new(),
            fields: Vec::new(),
            store: Store::default(),
            series: SourceSeries::default(),
            next: 0,
            too_many: false,
        };
        members.push(first, None, file, Some(dir), path);
        members
    }

    /// From now on processes with many pages are walked, too: the user asked for it.
    pub(super) fn walk_all(&mut self) {
        self.walks_all = true;
    }

    fn push(&mut self, pid: u32, parent: Option<u32>, file: SampledFile, dir: Option<&Arc<OwnedFd>>, path: &Path) {
        let (values, parent_then) = (Vec::new(), Vec::new());
        let status = if self.walks { file_of(dir, path, "status").ok() } else { None };
        let by_path = dir.is_none();
        self.list.push(Member { pid, parent, file, values, parent_then, gone: false, by_path, status, spared: None });
    }

    /// What brings the values of a process that was left alone.
    pub(super) fn fix(&self) -> Option<&'static str> {
        self.list.iter().any(|member| member.spared.is_some()).then_some(ASK_FOR_WALKS)
    }

    /// Adds a process. `dir` is its directory of `/proc`; without, the path is opened each time. One that has ended
    /// already is left out.
    pub(super) fn add(&mut self, pid: u32, parent: Option<u32>, dir: Option<&Arc<OwnedFd>>, path: &Path) {
        if self.list.iter().any(|member| member.pid == pid && !member.gone) {
            return;
        }
        if self.list.iter().filter(|member| !member.gone).count() >= MAX_MEMBERS {
            self.too_many = true;
            return;
        }
        // A file that may not be read says so when the first process is opened; others add nothing to that.
        if let Ok(file) = file_of(dir, path, self.name) {
            self.push(pid, parent, file, dir, path);
        }
    }

    /// A process has ended or left the target: it is not read again.
    pub(super) fn remove(&mut self, pid: u32) {
        for member in self.list.iter_mut().filter(|member| member.pid == pid) {
            member.gone = true;
        }
    }

    /// The same, if it is read by its path.
    pub(super) fn remove_by_path(&mut self, pid: u32) {
        for member in self.list.iter_mut().filter(|member| member.pid == pid && member.by_path) {
            member.gone = true;
        }
    }

    /// How many processes there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Reads what the budget allows and hands the sums to `out`. False when no process is left.
    pub(super) fn read(&mut self, facts: &Facts, text: &mut Text, all: bool, out: &mut Collector<'_>) -> bool {
        let budget_ns = match (all, self.holds_lock) {
            (true, _) => LAST_BUDGET_NS,
            (false, true) => LOCK_BUDGET_NS,
            (false, false) => BUDGET_NS,
        };
        self.refresh(facts, text, budget_ns, out);
        self.settle(facts, text, out);
        if self.too_many {
            let said = || format!("more than {MAX_MEMBERS} processes; later ones are left out");
            out.trouble.get_or_insert_with(said);
        }
        if self.list.is_empty() {
            return false;
        }
        self.hand_out(out);
        true
    }

    /// Reads the first process and as many others as the budget allows, going on where the last reading ended.
    fn refresh(&mut self, facts: &Facts, text: &mut Text, budget_ns: u64, out: &mut Collector<'_>) {
        let count = self.list.len();
        let mut clock = CpuClock::start();
        let mut spent_ns = 0;
        self.read_one(0, facts, text, out);
        for _ in 1..count {
            if spent_ns > budget_ns {
                break;
            }
            self.next = if self.next + 1 < count { self.next + 1 } else { 1 };
            self.read_one(self.next, facts, text, out);
            spent_ns += clock.lap();
        }
    }

    fn read_one(&mut self, at: usize, facts: &Facts, text: &mut Text, out: &mut Collector<'_>) {
        if self.spare(at, text) {
            return;
        }
        let Some(member) = self.list.get(at).filter(|member| !member.gone) else { return };
        let parent_then = self.values_of(member.parent).map(<[f64]>::to_vec).unwrap_or_default();
        let read = member.file.read(text);
        let path = || member.file.path().display().to_string();
        match read {
            Ok(()) => {
                let values = self.parse(facts, text, out);
                if let Some(member) = self.list.get_mut(at) {
                    (member.values, member.parent_then) = (values, parent_then);
                }
            }
            Err(Errno::SRCH | Errno::NOENT) => {
                if let Some(member) = self.list.get_mut(at) {
                    member.gone = true;
                }
            }
            Err(error) => _ = out.trouble.get_or_insert_with(|| refusal(&path(), error)),
        }
    }

    /// Whether a process is left alone, because a walk through its page tables would hold it for long.
    fn spare(&mut self, at: usize, text: &mut Text) -> bool {
        if self.walks_all {
            return false;
        }
        let Some(member) = self.list.get_mut(at).filter(|member| !member.gone) else { return false };
        let Some(status) = &member.status else { return false };
        // A process that cannot be asked has ended, which its own file says as well.
        let walk = status.read(text).ok().and_then(|()| Walk::of_status(&String::from_utf8_lossy(text.bytes())));
        member.spared = walk.filter(|walk| !walk.is_short());
        if member.spared.is_some() {
            member.values.clear();
        }
        member.spared.is_some()
    }

    fn spared_words(&self, pid: u32, walk: Walk) -> String {
        let (pages, held_ms, most_ms) = (walk.pages, walk.held_ns() as f64 / 1e6, LONGEST_HOLD_NS as f64 / 1e6);
        format!(
            "{} is not read: process {pid} has {pages} pages of 4 KiB, and would be kept from mapping memory for up to {held_ms:.1} ms \
             each time, needed: at most {most_ms} ms",
            self.name
        )
    }

    /// The values in `text`, by field; fields that are new are noted.
    fn parse(&mut self, facts: &Facts, text: &Text, out: &mut Collector<'_>) -> Vec<f64> {
        let Self { fields, store, series, prefix, parse, .. } = self;
        let mut values = vec![f64::NAN; fields.len()];
        let mut sink = |row: super::Row<'_>| {
            let at = row.id.0 as usize;
            if at >= fields.len() {
                let name = row.name.strip_prefix(*prefix).unwrap_or(row.name);
                fields.push(Field { name: name.as_bytes().into(), sum: sum_of(prefix, name), ended: 0.0 });
                values.push(f64::NAN);
            }
            if let Some(value) = values.get_mut(at) {
                *value = row.value.unwrap_or(f64::NAN);
            }
        };
        let mut own = Collector::begin(facts, prefix, store, series, &mut sink, true);
        parse(text.bytes(), &Tag::default(), &mut own);
        let trouble = own.finish().trouble;
        pair_fields(fields);
        if let Some(trouble) = trouble {
            out.trouble.get_or_insert(trouble);
        }
        values
    }

    /// The values of a process that is in the list and has been read.
    fn values_of(&self, pid: Option<u32>) -> Option<&[f64]> {
        let pid = pid?;
        let member = self.list.iter().find(|member| member.pid == pid && !member.gone)?;
        Some(member.values.as_slice()).filter(|values| !values.is_empty())
    }

    /// Takes the processes that have ended out of the list, as soon as it is known who counts them from then on.
    fn settle(&mut self, facts: &Facts, text: &mut Text, out: &mut Collector<'_>) {
        let ended: Vec<usize> = (0..self.list.len()).filter(|at| self.list[*at].gone).collect();
        if ended.is_empty() {
            return;
        }
        let places = self.places();
        let heirs: BTreeSet<usize> = ended.iter().filter_map(|at| self.fate(*at, &places).heir()).collect();
        // They may have been read before they waited.
        for heir in heirs {
            self.read_one(heir, facts, text, out);
        }
        let places = self.places();
        let fates: Vec<(usize, Fate)> = ended.into_iter().map(|at| (at, self.fate(at, &places))).collect();
        let mut too_many = fates.iter().filter(|(_, fate)| fate.heir().is_some()).count().saturating_sub(MAX_OPEN);
        let mut settled = Vec::new();
        for (at, fate) in fates {
            match fate {
                Fate::Open { .. } if too_many > 0 => {
                    too_many -= 1;
                    settled.push((at, false));
                }
                Fate::Open { heir, heir_then } => {
                    let heir = self.list[heir].pid;
                    (self.list[at].parent, self.list[at].parent_then) = (Some(heir), heir_then);
                }
                Fate::TakenOver | Fate::Kept => settled.push((at, matches!(fate, Fate::TakenOver))),
            }
        }
        // From the end, so that the places of the others hold.
        for (at, taken_over) in settled.into_iter().rev() {
            let member = self.list.remove(at);
            self.keep(&member, taken_over);
        }
        self.next = self.next.min(self.list.len().saturating_sub(1));
    }

    /// Where in the list each process is: the one that lives, where a number was given anew.
    fn places(&self) -> HashMap<u32, usize> {
        let (gone, live): (Vec<usize>, Vec<usize>) = (0..self.list.len()).partition(|at| self.list[*at].gone);
        gone.into_iter().chain(live).map(|at| (self.list[at].pid, at)).collect()
    }

    /// Who counts a process that has ended. Between its end and its parent's wait it is in no numbers but its own; and a parent that
    /// ends leaves what it took over to its own parent.
    fn fate(&self, at: usize, places: &HashMap<u32, usize>) -> Fate {
        let member = &self.list[at];
        if member.values.is_empty() {
            return Fate::Kept;
        }
        let (mut parent, mut then) = (member.parent, &member.parent_then);
        // No chain of parents is longer than the list.
        for _ in 0..self.list.len() {
            let Some(&ancestor) = parent.and_then(|pid| places.get(&pid)).filter(|place| **place != at) else { break };
            let other = &self.list[ancestor];
            if self.has_taken_over(&other.values, then, member) {
                return Fate::TakenOver;
            }
            if !other.gone {
                return Fate::Open { heir: ancestor, heir_then: then.clone() };
            }
            (parent, then) = (other.parent, &other.parent_then);
        }
        Fate::Kept
    }

    /// Keeps the counters of a process that has ended in the sums. Its own ones stay; so what its parent has taken over
    /// is taken off the sum of `child_`.
    fn keep(&mut self, member: &Member, taken_over: bool) {
        let of = |at: usize| member.values.get(at).copied().filter(|value| !value.is_nan()).unwrap_or(0.0);
        for at in 0..self.fields.len() {
            match self.fields[at].sum {
                Sum::Counter => self.fields[at].ended += of(at),
                Sum::Inherited if !taken_over => self.fields[at].ended += of(at),
                Sum::Own { child } => {
                    self.fields[at].ended += of(at);
                    let change = if taken_over { -of(at) } else { of(child) };
                    if let Some(field) = self.fields.get_mut(child) {
                        field.ended += change;
                    }
                }
                Sum::Inherited | Sum::OfChildren | Sum::Level | Sum::Peak => {}
            }
        }
    }

    /// Whether an ancestor's counters have grown by at least what the process had used, since they were those of `then`.
    fn has_taken_over(&self, now: &[f64], then: &[f64], member: &Member) -> bool {
        let of = |values: &[f64], at: usize| values.get(at).copied().filter(|value| !value.is_nan()).unwrap_or(0.0);
        let grown = |at: usize| of(now, at) - of(then, at);
        !then.is_empty()
            && self.fields.iter().enumerate().all(|(at, field)| match field.sum {
                Sum::Inherited => grown(at) >= of(&member.values, at),
                Sum::Own { child } => grown(child) >= of(&member.values, at) + of(&member.values, child),
                _ => true,
            })
    }

    fn hand_out(&self, out: &mut Collector<'_>) {
        let spared =
            self.list.iter().filter(|member| !member.gone).find_map(|member| Some((member.pid, member.spared?)));
        if let Some((pid, walk)) = spared {
            // A sum that lacks one of them is none.
            out.trouble.get_or_insert_with(|| self.spared_words(pid, walk));
            return;
        }
        for (at, field) in self.fields.iter().enumerate() {
            // An ended process holds nothing any more, but its use counts until somebody has taken it over.
            let counts = |member: &&Member| !member.gone || !matches!(field.sum, Sum::Level | Sum::Peak);
            let of_members = || self.list.iter().filter(counts);
            let values = || of_members().filter_map(move |m| m.values.get(at).copied().filter(|v| !v.is_nan()));
            if values().next().is_none() {
                continue;
            }
            let value = match field.sum {
                Sum::Peak => values().fold(0.0, f64::max),
                _ => values().sum::<f64>() + field.ended,
            };
            out.put(&field.name, value);
        }
        if self.prefix == "target.status." {
            out.put(
                b"processes",
                self.list.iter().filter(|member| !member.gone && !member.values.is_empty()).count() as f64,
            );
        }
    }
}

/// The file of a process: by its directory, or, where none is held, by its path.
fn file_of(dir: Option<&Arc<OwnedFd>>, path: &Path, name: &str) -> Result<SampledFile, Errno> {
    match dir {
        Some(dir) => SampledFile::reopened_in(dir, path, name),
        None => SampledFile::reopened(&path.join(OsStr::new(name))),
    }
}

fn sum_of(prefix: &str, field: &str) -> Sum {
    match prefix {
        "target.io." => Sum::Inherited,
        "target.stat." if field.starts_with("child_") => Sum::OfChildren,
        // The field that takes over is not known before all are.
        "target.stat." => Sum::Own { child: usize::MAX },
        _ if field.ends_with("_ctxt_switches") => Sum::Counter,
        _ if matches!(field, "vmpeak_bytes" | "vmhwm_bytes") => Sum::Peak,
        _ => Sum::Level,
    }
}

/// Finds for each counter of a process's own the one in which its parent takes it over.
fn pair_fields(fields: &mut [Field]) {
    for at in 0..fields.len() {
        if fields[at].sum != (Sum::Own { child: usize::MAX }) {
            continue;
        }
        let wanted = [b"child_", &*fields[at].name].concat();
        if let Some(child) = fields.iter().position(|field| *field.name == *wanted) {
            fields[at].sum = Sum::Own { child };
        }
    }
}

/// The directory of a process below `root`.
pub(super) fn process_dir(root: &Path, pid: u32) -> PathBuf {
    root.join(format!("proc/{pid}"))
}
