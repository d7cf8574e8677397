//! Who mapped the memory of a process: its mapping calls, from a recording of it.

use std::collections::HashSet;
use std::path::Path;

use anyhow::anyhow;
use pagelab_host::doctor::process::{MappedBy, MappingCall, MappingCalls, ProcessReport};
use pagelab_host::facts;
use pagelab_recording::Recording;
use pagelab_recording::tables::{MappingsRow, TasksRow};
use pagelab_residency::stat::{self, Stat};
use pagelab_views::mappings::{Ranges, page_bytes_of, ranges_of};
use pagelab_views::read::{each, each_in_time};
use pagelab_views::stacks::Stacks;
use pagelab_vocab::terminal::shell_path;
use rustix::time::{ClockId, clock_gettime};

use crate::failure::Failure;
use crate::say;

/// A process that began this much later than the recording met it is another one that reuses its number.
const SLACK_NS: i64 = 1_000_000_000;

/// What is kept of a row that maps something.
#[derive(Debug, Clone)]
struct Call {
    op: String,
    stack_id: Option<u64>,
}

/// Puts the calls that mapped them to the regions of a process.
///
/// # Errors
/// The recording cannot be read, or is not of this process.
pub(super) fn attach(report: &mut ProcessReport, dir: &Path) -> Result<(), Failure> {
    let recording = Recording::open(dir)?;
    let mm_id = space_of(&recording, report.pid, dir)?;
    let page_bytes = page_bytes_of(&recording);
    let mut notes = Vec::new();
    let mut calls = Vec::new();
    each_in_time::<MappingsRow>(&recording, &mut notes, |row| {
        if row.mm_id != mm_id || row.kind != "call" {
            return;
        }
        let Ranges { maps, unmaps } = ranges_of(&row, page_bytes);
        if maps.or(unmaps).is_some() {
            let what = Call { op: row.op.to_owned(), stack_id: row.ustack_id };
            calls.push(MappingCall { ts_ns: row.ts, maps, unmaps, what });
        }
    })?;
    let wanted: HashSet<u64> = calls.iter().filter_map(|call| call.what.stack_id).collect();
    let stacks = Stacks::load(&recording, &wanted, &mut notes)?;
    for note in notes {
        say!("pagelab: {}: {note}", dir.display());
    }
    let calls = MappingCalls::new(calls);
    report.with_stacks(&|start, end| {
        let found = calls.of(start, end)?;
        let stack = found.call.what.stack_id.and_then(|id| stacks.functions(id)).unwrap_or_default();
        Some(MappedBy {
            ts_ns: found.call.ts_ns,
            call: found.call.what.op.clone(),
            stack,
            bytes: found.bytes,
            other_calls: found.other_calls,
        })
    });
    Ok(())
}

/// The address space that the process has now, as the recording numbers it.
fn space_of(recording: &Recording, pid: u32, dir: &Path) -> Result<u32, Failure> {
    let (recorded, now) = (recording.manifest().boot_id.as_deref(), facts::boot_id(Path::new("/")));
    if recorded.is_some() && recorded != now.as_deref() {
        let dir = dir.display();
        return Err(Failure::input(anyhow!(
            "{dir} was recorded before this boot, needed: a recording of process {pid}; type: pagelab record --observe tasks,maps -o DIR -p {pid}"
        )));
    }
    let mut first_ns: Option<i64> = None;
    // When, the address space from then on, whether the process ended then.
    let mut last: Option<(i64, Option<u32>, bool)> = None;
    each::<TasksRow>(recording, &mut Vec::new(), |row| {
        if row.pid as u32 == pid && row.tid == row.pid {
            first_ns = Some(first_ns.map_or(row.ts, |first| first.min(row.ts)));
            if last.as_ref().is_none_or(|(ts, ..)| *ts <= row.ts) {
                last = Some((row.ts, row.mm_id, row.op == "exit"));
            }
        }
    })?;
    let other = started_ns(pid).zip(first_ns).is_some_and(|(started, first)| started > first.saturating_add(SLACK_NS));
    match last {
        Some((_, Some(mm_id), false)) if !other => Ok(mm_id),
        Some(_) => Err(Failure::input(anyhow!(
            "the process {pid} of {} has ended, and another has its number now; needed: a recording of this one; type: pagelab record --observe tasks,maps -o DIR -p {pid}",
            dir.display()
        ))),
        None => Err(Failure::input(anyhow!(
            "{} has no process {pid}; look: pagelab show {} tasks",
            dir.display(),
            shell_path(dir)
        ))),
    }
}

/// When the process began, CLOCK_MONOTONIC ns; `None` if it is gone.
fn started_ns(pid: u32) -> Option<i64> {
    let stat = stat::read(&Path::new("/proc").join(pid.to_string()))?;
    // In ticks since boot, with the time asleep.
    let ticks = i64::try_from(Stat::of(&stat)?.number(22)?).ok()?;
    let per_second = i64::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    let ns = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    Some(ticks.checked_mul(1_000_000_000 / per_second)? - (ns(ClockId::Boottime) - ns(ClockId::Monotonic)))
}
