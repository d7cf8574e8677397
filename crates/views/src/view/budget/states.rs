//! The states of the selected tasks, from the table `waits`: in all, and by interval.

use std::collections::BTreeMap;

use pagelab_recording::tables::{WaitStacksRow, WaitsRow};
use pagelab_recording::{Recording, Span};
use pagelab_vocab::waits::{Holder, State, Waker, is_active_wait};

use crate::error::Result;
use crate::read::{self, Task, Tasks};
use crate::selection::Selection;

/// What waits are told from each other by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct WaitKind {
    pub off_state: Option<String>,
    pub iowait: Option<bool>,
    pub call: Option<String>,
    pub waker: Option<Waker>,
}

impl WaitKind {
    /// That of the waits that a row of stacks stands for.
    pub(super) fn of_stack(row: &WaitStacksRow<'_>) -> Self {
        Self {
            off_state: Some(row.off_state.to_owned()),
            iowait: Some(row.iowait),
            call: row.call.map(str::to_owned),
            waker: row.by.and_then(Waker::of_word),
        }
    }

    /// See [`is_active_wait`].
    pub(super) fn is_active(&self) -> bool {
        is_active_wait(self.off_state.as_deref(), self.iowait)
    }
}

/// What a task does, as the recording tells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Doing {
    /// Tasks of this name, the last that they have: time and samples of one task bear the same.
    Run(Option<String>),
    Ready(Option<Holder>),
    Off(WaitKind),
}

impl Doing {
    pub(super) fn of(row: &WaitsRow<'_>, comm: Option<&str>) -> Option<Self> {
        match State::of_word(row.state)? {
            State::Run => Some(Self::Run(comm.map(str::to_owned))),
            State::Ready => Some(Self::Ready(row.by.and_then(Holder::of_word))),
            State::Off => Some(Self::Off(WaitKind {
                off_state: row.off_state.map(str::to_owned),
                iowait: row.iowait,
                call: row.call.map(str::to_owned),
                waker: row.by.and_then(Waker::of_word),
            })),
            State::Idle | State::KernelRun | State::KernelReady => None,
        }
    }

    /// See [`is_active_wait`].
    pub(super) fn is_active(&self) -> bool {
        match self {
            Self::Run(_) | Self::Ready(_) => true,
            Self::Off(kind) => kind.is_active(),
        }
    }
}

/// No state lasts longer: 100 days. Recorders up to November 2026 wrote a time below 0 now and then, which reads as one near 2^64.
pub(super) const LONGEST_NS: u64 = 100 * 86_400 * 1_000_000_000;

/// How often, and how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub times: u64,
    pub ns: u64,
}

/// A part of the time in which sums were made.
#[derive(Debug, Default)]
pub(super) struct Interval {
    pub begin_ns: i64,
    pub end_ns: i64,
    /// No task was active.
    pub idle_ns: u64,
    /// Time of the tasks' states that ended, or of which a part was told, in it.
    pub spent: BTreeMap<Doing, u64>,
}

impl Interval {
    pub(super) fn ns(&self) -> u64 {
        u64::try_from(self.end_ns.saturating_sub(self.begin_ns)).unwrap_or(0)
    }
}

/// A task as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OfTask {
    /// Time on a CPU.
    pub run_ns: u64,
    /// The end of what is told of it; of a task that ended its own last instant, after the exit.
    pub last_ts: i64,
}

/// The states of the selected tasks.
#[derive(Debug, Default)]
pub(super) struct States {
    /// Rows of the recording, whether or not they are selected.
    pub rows: u64,
    pub selected: u64,
    pub tasks: BTreeMap<u32, OfTask>,
    pub spent: BTreeMap<Doing, Spent>,
    /// What the kernel counted itself.
    pub kernel_run_ns: u64,
    pub kernel_ready_ns: u64,
    pub intervals: Vec<Interval>,
    /// Of the recording a part of the time alone: intervals of sums that lie in it as a whole.
    is_part: bool,
}

/// Rows of the recording, and its intervals, in which nothing is spent yet.
fn intervals(recording: &Recording) -> Result<(u64, Vec<Interval>)> {
    let (mut rows, mut ends): (u64, Vec<(i64, u64)>) = (0, Vec::new());
    // What is left out is said once, where states are read.
    read::each::<WaitsRow<'_>>(recording, &mut Vec::new(), |row| {
        rows += 1;
        if State::of_word(row.state) == Some(State::Idle) {
            ends.push((row.ts, row.ns));
        }
    })?;
    ends.sort_unstable();
    let between = |pair: &[(i64, u64)]| match *pair {
        [(begin_ns, _), (end_ns, idle_ns)] => Some(Interval { begin_ns, end_ns, idle_ns, spent: BTreeMap::new() }),
        _ => None,
    };
    Ok((rows, ends.windows(2).filter_map(between).collect()))
}

/// Of the intervals of a recording those of which nine tenths or more lie in a part of its time, if there are some and others are
/// left out.
pub(super) fn intervals_within(recording: &Recording, part: Span) -> Result<Option<Span>> {
    let (_, intervals) = intervals(recording)?;
    let lies_in = |interval: &&Interval| {
        let common_ns = interval.end_ns.min(part.to_ns) - interval.begin_ns.max(part.from_ns);
        common_ns > 0 && common_ns as u64 * 10 >= interval.ns() * 9
    };
    let inside = || intervals.iter().filter(lies_in);
    let (Some(first), Some(last)) = (inside().next(), inside().next_back()) else { return Ok(None) };
    let leaves_out = inside().count() < intervals.len();
    Ok(leaves_out.then_some(Span { from_ns: first.begin_ns, to_ns: last.end_ns + 1 }))
}

impl States {
    /// Reads them.
    pub(super) fn load(
        recording: &Recording,
        selection: &Selection,
        tasks: &Tasks,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let mut states = Self { is_part: recording.span().is_part(), ..Self::default() };
        (states.rows, states.intervals) = intervals(recording)?;
        let mut impossible = 0;
        read::each::<WaitsRow<'_>>(recording, notes, |row| {
            let Some(task_id) = row.task_id.filter(|task_id| tasks.wants(selection, *task_id, row.ts)) else { return };
            if row.ns > LONGEST_NS {
                impossible += 1;
                return;
            }
            states.take(task_id, tasks.get(task_id).and_then(Task::comm), &row);
        })?;
        if impossible > 0 {
            notes.push(format!(
                "{impossible} rows of waits hold a time below 0, or above {LONGEST_NS} ns; they are left out"
            ));
        }
        Ok(states)
    }

    fn take(&mut self, task_id: u32, comm: Option<&str>, row: &WaitsRow<'_>) {
        // Of the interval before the first one that lies in the part.
        if self.is_part && self.intervals.first().is_none_or(|first| row.ts <= first.begin_ns) {
            return;
        }
        self.selected += 1;
        let doing = Doing::of(row, comm);
        let ns = doing.as_ref().map_or(row.ns, |doing| {
            let unplaced_ns = self.spread(doing, row.ts, row.ns);
            if self.is_part { row.ns - unplaced_ns } else { row.ns }
        });
        let task = self.tasks.entry(task_id).or_default();
        task.last_ts = task.last_ts.max(row.ts);
        match State::of_word(row.state) {
            Some(State::Run) => task.run_ns += ns,
            Some(State::KernelRun) => self.kernel_run_ns += ns,
            Some(State::KernelReady) => self.kernel_ready_ns += ns,
            _ => {}
        }
        if let Some(doing) = doing {
            let spent = self.spent.entry(doing).or_default();
            spent.times += row.times.unwrap_or(0);
            spent.ns += ns;
        }
    }

    /// A state that lasted longer than the interval in which it was told began in one before it. Returns what has no place in any.
    fn spread(&mut self, doing: &Doing, ts: i64, ns: u64) -> u64 {
        let last = self.intervals.partition_point(|interval| interval.end_ns < ts);
        let mut rest = ns;
        for interval in self.intervals.iter_mut().take(last + 1).rev() {
            let here = rest.min(interval.ns());
            *interval.spent.entry(doing.clone()).or_default() += here;
            rest -= here;
            if rest == 0 {
                break;
            }
        }
        rest
    }

    /// The time that the sums are of; none if there are none.
    pub(super) fn window(&self) -> Option<[i64; 2]> {
        Some([self.intervals.first()?.begin_ns, self.intervals.last()?.end_ns])
    }

    /// Whether that is a part of the time recorded alone.
    pub(super) fn is_part(&self) -> bool {
        self.is_part
    }

    /// The sum of a state.
    pub(super) fn ns_of(&self, is_of: impl Fn(&Doing) -> bool) -> u64 {
        self.spent.iter().filter(|(doing, _)| is_of(doing)).map(|(_, spent)| spent.ns).sum()
    }
}
