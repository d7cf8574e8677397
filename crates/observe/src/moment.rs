//! What the recorded tasks did until a moment, for those who look on while it is recorded (`pagelab watch`).
//!
//! The tables of a recording hold a wait when it is over. Somebody who looks on once a second wants the time of that second: so a
//! moment also holds the states that are not over, up to now. The time that a task spent in a state between two moments is what
//! ended between them, plus what is open at the later one, less what was open at the earlier one; over the states of a task these
//! sum to the time that passed.

use pagelab_vocab::waits::{Holder, Waker};

/// What a wait is told from others by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wait {
    /// As in the table `waits`.
    pub off_state: &'static str,
    /// As in the table `waits`.
    pub iowait: bool,
    /// The system call, or `page_fault`.
    pub call: Option<&'static str>,
    /// Who ended it; none while it is open.
    pub by: Option<Waker>,
}

/// What a task spends time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It has a CPU.
    Run,
    /// It could run; who had the CPU is known when it has got one.
    Ready(Option<Holder>),
    /// It waits for something else than a CPU.
    Off(Wait),
}

/// Time that a task spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskTime {
    /// Who.
    pub task_id: u32,
    /// On what.
    pub doing: Doing,
    /// How often the state ended.
    pub times: u64,
    /// How long.
    pub ns: u64,
}

/// The states of the recorded tasks at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moment {
    /// When, CLOCK_MONOTONIC, ns.
    pub ts: i64,
    /// What ended since the moment before.
    pub ended: Vec<TaskTime>,
    /// What is not over, from its beginning until now.
    pub open: Vec<TaskTime>,
    /// How long no task was active since the moment before, ns.
    pub idle_ns: u64,
}
