//! Stacks in the folded form that the FlameGraph scripts began and that their successors read: a line for each different
//! stack, its frames from the outermost to the innermost with `;` between them, a blank, and a number.
//!
//! The caller names the outermost frame, as `stackcollapse-perf.pl` does with the task's name. Kernel functions end in
//! `_[k]` and inlined ones in `_[i]`, as that script writes with `--all` and as palettes expect.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pagelab_recording::tables::{FramesRow, OffcpuRow, SamplesRow, StacksRow};
use pagelab_recording::{Recording, Result};
use pagelab_views::selection::Selection;
use pagelab_views::view::budget::{OffSource, off_stacks};

/// Whether an event counts nanoseconds; of a clock that is sampled in user mode alone the name has `:u` behind it.
pub(crate) fn is_clock(event: &str) -> bool {
    event.trim_end_matches(":u").ends_with("-clock")
}

/// The frame of those that no stack was taken of.
const NO_STACK: &str = "[no stack]";
/// The name of a task, or the frame, of which nothing is known.
const UNKNOWN: &str = "[unknown]";

/// The table of the stacks, and their weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighed {
    /// Samples of the profile, by the events that they stand for: ns, where a clock was sampled.
    Samples,
    /// Time off the CPU, asleep and waiting for one, in ns. What never ran again has no time and is left out.
    OffCpu,
}

/// Stacks with the sum of what each weighs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// By stack, in the order of their text.
    pub stacks: BTreeMap<String, u64>,
    /// What the sums count: `ns`, or the names of the events that were sampled.
    pub unit: String,
    /// Rows of the table.
    pub rows: u64,
    /// Rows that are in the sums.
    pub selected: u64,
    /// Of these, rows without any stack.
    pub without_stack: u64,
}

impl Folded {
    /// The lines, each without its end.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.stacks.iter().map(|(stack, weight)| format!("{stack} {weight}"))
    }
}

/// Folds the time off the CPU that [`off_stacks`] finds: below the component of the account comes the name of the task, and then the
/// stack; where there is none, the call that the task waited in. Damaged parts are left out and noted.
///
/// # Errors
/// The recording cannot be read, or has no task that is selected.
pub fn fold_off(
    recording: &Recording,
    source: OffSource,
    selection: &Selection,
    notes: &mut Vec<String>,
) -> pagelab_views::Result<Folded> {
    let stacks = off_stacks(recording, source, selection, notes)?;
    let names = Names::load(recording, notes)?;
    let rows = stacks.len() as u64;
    let mut folded = Folded { unit: "ns".to_owned(), rows, selected: rows, ..Folded::default() };
    for stack in stacks {
        let pair = (stack.kstack_id, stack.ustack_id);
        let comm = stack.comm.as_deref().unwrap_or(UNKNOWN);
        let mut line = format!("{};{}", stack.component, clean(comm));
        if pair == (None, None) {
            folded.without_stack += 1;
            for frame in stack.call.iter().map(String::as_str).chain([NO_STACK]) {
                line.push(';');
                line.push_str(frame);
            }
        } else {
            names.append(&mut line, pair);
        }
        let sum = folded.stacks.entry(line).or_default();
        *sum = sum.saturating_add(stack.ns);
    }
    Ok(folded)
}

/// Folds the stacks of a recording. `root` gives the outermost frame for a task at a time, `None` to leave the stack
/// out. Damaged parts are left out and noted.
pub fn fold(
    recording: &Recording,
    weighed: Weighed,
    mut root: impl FnMut(u32, i64) -> Option<String>,
    notes: &mut Vec<String>,
) -> Result<Folded> {
    let mut sums = Sums::default();
    match weighed {
        Weighed::Samples => recording.for_each_readable::<SamplesRow>(notes, |row| {
            let stacks = (row.kstack_id, row.ustack_id);
            if sums.add(root(row.task_id, row.ts), stacks, Some(row.weight)) && !sums.events.contains(row.event) {
                sums.events.insert(row.event.to_owned());
            }
        })?,
        Weighed::OffCpu => recording.for_each_readable::<OffcpuRow>(notes, |row| {
            let dur = row.dur.and_then(|dur| u64::try_from(dur).ok());
            sums.add(root(row.task_id, row.ts), (row.kstack_id, row.ustack_id), dur);
        })?,
    }
    let names = Names::load(recording, notes)?;
    Ok(sums.folded(weighed, &names))
}

/// Stacks of kernel and user space, as they occur together.
pub(crate) type Pair = (Option<u64>, Option<u64>);

#[derive(Default)]
struct Sums {
    pairs: HashMap<(String, Pair), u64>,
    events: BTreeSet<String>,
    rows: u64,
    selected: u64,
    without_stack: u64,
}

impl Sums {
    /// Whether it counts.
    fn add(&mut self, root: Option<String>, stacks: Pair, weight: Option<u64>) -> bool {
        self.rows += 1;
        let (Some(root), Some(weight)) = (root, weight) else { return false };
        self.selected += 1;
        self.without_stack += u64::from(stacks == (None, None));
        let sum = self.pairs.entry((root, stacks)).or_default();
        *sum = sum.saturating_add(weight);
        true
    }

    fn folded(self, weighed: Weighed, names: &Names) -> Folded {
        let clocks = weighed == Weighed::OffCpu || self.events.iter().all(|event| is_clock(event));
        let unit = if clocks { "ns".to_owned() } else { self.events.into_iter().collect::<Vec<_>>().join(" and ") };
        let mut folded = Folded {
            unit,
            rows: self.rows,
            selected: self.selected,
            without_stack: self.without_stack,
            ..Folded::default()
        };
        for ((root, pair), weight) in self.pairs {
            let sum = folded.stacks.entry(names.line(&root, pair)).or_default();
            *sum = sum.saturating_add(weight);
        }
        folded
    }
}

/// The names of all frames, and the stacks made of them.
#[derive(Default)]
pub(crate) struct Names {
    frames: HashMap<u64, String>,
    stacks: HashMap<u64, Vec<u64>>,
}

impl Names {
    pub(crate) fn load(recording: &Recording, notes: &mut Vec<String>) -> Result<Self> {
        let mut names = Self::default();
        recording.for_each_readable::<FramesRow>(notes, |row| _ = names.frames.insert(row.frame_id, frame(&row)))?;
        recording.for_each_readable::<StacksRow>(notes, |row| {
            names.stacks.insert(row.stack_id, row.frame_ids.to_vec());
        })?;
        Ok(names)
    }

    /// The stack from the outermost frame on, the kernel's part behind the program's.
    fn line(&self, root: &str, (kernel, user): Pair) -> String {
        let mut line = clean(root);
        if kernel.is_none() && user.is_none() {
            return line + ";" + NO_STACK;
        }
        self.append(&mut line, (kernel, user));
        line
    }

    fn append(&self, line: &mut String, pair: Pair) {
        for frame in self.frames_of(pair) {
            line.push(';');
            line.push_str(frame);
        }
    }

    /// The frames of a stack from the outermost on, the kernel's behind the program's.
    pub(crate) fn frames_of(&self, (kernel, user): Pair) -> impl Iterator<Item = &str> {
        let ids = [user, kernel].into_iter().flatten();
        let frames = ids.flat_map(|id| self.stacks.get(&id).into_iter().flatten().rev());
        frames.map(|frame| self.frames.get(frame).map_or(UNKNOWN, String::as_str))
    }
}

/// The function; without a symbol the module that the place is in.
fn frame(row: &FramesRow<'_>) -> String {
    let mut name = match (row.symbol, row.module) {
        (Some(symbol), _) => clean(symbol),
        (None, Some(module)) => {
            let module = String::from_utf8_lossy(module);
            format!("[{}]", clean(module.rsplit('/').next().unwrap_or(&module)))
        }
        (None, None) => UNKNOWN.to_owned(),
    };
    name.push_str(match (row.kernel, row.inlined) {
        (true, _) => "_[k]",
        (false, true) => "_[i]",
        (false, false) => "",
    });
    name
}

/// A name that cannot be taken for anything else: no separator, no end of a line, and no number behind a blank, which
/// readers take for a count.
fn clean(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| {
            if c == ';' {
                ':'
            } else if c.is_control() {
                '?'
            } else {
                c
            }
        })
        .collect();
    let name = name.trim();
    match name.rsplit_once(char::is_whitespace) {
        Some((before, last)) if last.parse::<f64>().is_ok() => format!("{before}_{last}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};

    use super::*;

    fn frame_row(frame_id: u64, symbol: Option<&'static str>, kernel: bool, inlined: bool) -> FramesRow<'static> {
        let module = symbol.is_none().then_some(b"/usr/lib/lib;odd.so".as_slice());
        FramesRow { frame_id, symbol, module, kernel, inlined, ..FramesRow::default() }
    }

    /// A recording with one user stack (main, an inlined function, one without symbol) and one kernel stack.
    fn recording(dir: &std::path::Path) -> Recording {
        let mut writer = RecordingWriter::create(dir, Manifest::default(), WriterOptions::default()).expect("created");
        for row in [
            frame_row(1, Some("main"), false, false),
            frame_row(2, Some("operator() 12"), false, true),
            frame_row(3, None, false, false),
            frame_row(4, Some("do_syscall_64"), true, false),
        ] {
            writer.push(&row);
        }
        for (stack_id, frame_ids) in [(7, &[3, 2, 1][..]), (8, &[4][..])] {
            writer.push(&StacksRow { stack_id, frame_ids });
        }
        let sample = SamplesRow { event: "cpu-clock", weight: 10, ..SamplesRow::default() };
        for (task_id, kstack_id, ustack_id) in
            [(1, Some(8), Some(7)), (1, Some(8), Some(7)), (2, None, Some(7)), (1, None, None), (3, None, Some(7))]
        {
            writer.push(&SamplesRow { task_id, kstack_id, ustack_id, ..sample });
        }
        let slept = OffcpuRow { task_id: 1, kstack_id: Some(8), ..OffcpuRow::default() };
        for dur in [Some(5), Some(6), None] {
            writer.push(&OffcpuRow { dur, ..slept });
        }
        writer.close(|_| {}).expect("closed");
        Recording::open(dir).expect("opened")
    }

    #[test]
    fn stacks_are_folded_and_added_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let recording = recording(&folder.path().join("r"));
        let mut notes = Vec::new();
        let root = |task: u32, _: i64| (task != 3).then(|| format!("task;{task}"));
        let folded = fold(&recording, Weighed::Samples, root, &mut notes).expect("folded");
        let user = "main;operator()_12_[i];[lib:odd.so]";
        let expected = [
            "task:1;[no stack] 10".to_owned(),
            format!("task:1;{user};do_syscall_64_[k] 20"),
            format!("task:2;{user} 10"),
        ];
        assert_eq!(folded.lines().collect::<Vec<_>>(), expected);
        assert_eq!((folded.rows, folded.selected, folded.without_stack, folded.unit.as_str()), (5, 4, 1, "ns"));
        let slept = fold(&recording, Weighed::OffCpu, root, &mut notes).expect("folded");
        assert_eq!(slept.lines().collect::<Vec<_>>(), ["task:1;do_syscall_64_[k] 11"], "without the one that goes on");
        assert_eq!((slept.rows, slept.selected), (3, 2));
        assert_eq!(notes, Vec::<String>::new());
    }
    #[test]
    fn waits_stand_below_their_component() {
        let folder = tempfile::tempdir().expect("a folder");
        let recording = recording(&folder.path().join("r"));
        let mut notes = Vec::new();
        let folded = fold_off(&recording, OffSource::Switches, &Selection::default(), &mut notes).expect("folded");
        assert_eq!(folded.lines().collect::<Vec<_>>(), ["off.unknown;[unknown];do_syscall_64_[k] 11"]);
        assert_eq!((folded.unit.as_str(), folded.without_stack), ("ns", 0));
    }
}
