//! Page faults, system calls and times off the CPU in the words that other tools show: said once for all formats.

use pagelab_recording::tables::{FaultsRow, OffcpuRow, SyscallsRow};
use pagelab_recording::{Recording, Result};

use crate::folded::Pair;

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Fault,
    Call,
    Wait,
}

/// One event of a task.
#[derive(Debug, Clone)]
pub(crate) struct Event<'a> {
    pub kind: Kind,
    pub task_id: u32,
    /// When it began, on the recording's clock.
    pub ts: i64,
    /// How long it took, ns; none where that is not known, or it never ended.
    pub dur: Option<i64>,
    /// Whether it ended: a fault without a duration is an instant, a call without one goes on.
    pub goes_on: bool,
    pub name: &'a str,
    pub detail: String,
    /// The stack that it was in.
    pub stack: Pair,
}

/// Calls `each` for every fault, then every call, then every time off the CPU. Damaged parts are left out and noted.
pub(crate) fn for_each(recording: &Recording, notes: &mut Vec<String>, mut each: impl FnMut(&Event<'_>)) -> Result<()> {
    recording.for_each_readable::<FaultsRow>(notes, |row| {
        each(&Event {
            kind: Kind::Fault,
            task_id: row.task_id,
            ts: row.ts,
            dur: row.dur,
            goes_on: false,
            name: "page fault",
            detail: format!("{:#x} by {:#x}", row.addr, row.ip),
            stack: (None, None),
        });
    })?;
    recording.for_each_readable::<SyscallsRow>(notes, |row| {
        let asked = row.requested.map_or_else(String::new, |bytes| format!("{bytes} bytes "));
        let ret = row.ret.map_or_else(|| "never returned".to_owned(), |ret| format!("= {ret}"));
        each(&Event {
            kind: Kind::Call,
            task_id: row.task_id,
            ts: row.ts,
            dur: row.dur,
            goes_on: row.dur.is_none(),
            name: row.name,
            detail: asked + &ret,
            stack: (None, None),
        });
    })?;
    recording.for_each_readable::<OffcpuRow>(notes, |row| {
        let detail = match (row.state, row.iowait) {
            (_, Some(true)) => "waiting for I/O",
            (Some("R"), _) => "preempted",
            (Some("S"), _) => "asleep",
            (Some("D"), _) => "asleep, uninterruptibly",
            (Some(other), _) => other,
            (None, _) => "state not known",
        };
        each(&Event {
            kind: Kind::Wait,
            task_id: row.task_id,
            ts: row.ts,
            dur: row.dur,
            goes_on: row.dur.is_none(),
            name: "off the CPU",
            detail: detail.to_owned(),
            stack: (row.kstack_id, row.ustack_id),
        });
    })
}

/// How many events of each kind were written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples of the profile.
    pub samples: u64,
    /// Page faults.
    pub faults: u64,
    /// System calls.
    pub calls: u64,
    /// Times off the CPU.
    pub waits: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Fault => self.faults += 1,
            Kind::Call => self.calls += 1,
            Kind::Wait => self.waits += 1,
        }
    }
}
