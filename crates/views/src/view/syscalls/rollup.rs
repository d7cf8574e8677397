//! System calls, grouped, as tables.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use pagelab_recording::Recording;
use pagelab_recording::rollup::{RollupRows, Witness};
use pagelab_recording::tables::{
    RollupCallDurationsColumns, RollupCallDurationsRow, RollupCallsColumns, RollupCallsRow,
};

use super::Grouped;
use super::groups::{Groups, Key, Keyed};
use crate::calls::{self, Durations, Split, Totals};
use crate::read::Tasks;
use crate::selection::Selection;

/// The groupings in the rollup; names are few, and always there.
const BY: [&str; 4] = ["name", "task", "comm", "file"];
/// Groups of one sort that are written. Each has a histogram of some 30 KiB while calls are added up.
const MOST_GROUPS: usize = 256;

/// Adds up calls.
pub(crate) struct OfCalls {
    tasks: Tasks,
    names: calls::Names,
    /// None where there are too many groups.
    sorts: Vec<Option<Groups>>,
    /// Rows, and calls that these covered.
    rows: usize,
    calls: usize,
}

impl OfCalls {
    /// Reads the tasks.
    pub(crate) fn new(recording: &Recording) -> crate::error::Result<Self> {
        let tasks = Tasks::load(recording, &Selection::default(), &mut Vec::new())?;
        let sorts = BY.map(|by| Some(Groups::new(by))).into();
        Ok(Self { tasks, names: calls::Names::default(), sorts, rows: 0, calls: 0 })
    }
}

impl Witness for OfCalls {
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let Self { tasks, names, sorts, rows, calls } = self;
        *rows += batch.num_rows();
        calls::visit(batch, names, &mut |call| {
            *calls += 1;
            for groups in sorts.iter_mut().flatten() {
                groups.add(call, tasks);
            }
        });
        for (sort, by) in self.sorts.iter_mut().zip(BY) {
            if by != "name" && sort.as_ref().is_some_and(|groups| groups.len() > MOST_GROUPS) {
                *sort = None;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<RollupRows>, String> {
        if self.rows != self.calls {
            return Err(format!("{} rows of syscalls tell of no call", self.rows - self.calls));
        }
        let (mut groups, mut durations) = (RollupCallsColumns::default(), RollupCallDurationsColumns::default());
        let mut group_id = 0;
        for (by, sort) in BY.into_iter().zip(self.sorts) {
            for group in sort.map(Groups::finish).into_iter().flatten() {
                push(&mut groups, &mut durations, group_id, by, &group);
                group_id += 1;
            }
        }
        let rows = || Ok(vec![RollupRows::of(groups)?, RollupRows::of(durations)?]);
        rows().map_err(|error: pagelab_recording::Error| error.to_string())
    }
}

fn push(
    groups: &mut RollupCallsColumns,
    durations: &mut RollupCallDurationsColumns,
    group_id: u32,
    by: &str,
    (key, totals): &Keyed,
) {
    let (name, id) = match key {
        Key::Name(name) => (Some(name.as_str()), None),
        Key::Task(id) => (None, Some(*id)),
        Key::Comm(comm) => (comm.as_deref(), None),
        Key::File(id) => (None, *id),
    };
    groups.push(&RollupCallsRow {
        group_id,
        by,
        name,
        id,
        calls: totals.calls,
        errors: totals.errors,
        unfinished: totals.unfinished,
        refused: totals.refused,
        total_ns: totals.total_ns,
        max_ns: totals.max_ns,
        cpu_calls: totals.cpu_calls,
        cpu_ns: totals.cpu_ns,
        split_calls: totals.split.calls,
        split_ns: totals.split.dur_ns,
        split_cpu_ns: totals.split.cpu_ns,
        split_blocked_ns: totals.split.blocked_ns,
    });
    for (duration_ns, calls) in totals.durations.counts() {
        durations.push(&RollupCallDurationsRow { group_id, duration_ns, calls });
    }
}

/// All calls of a recording grouped by `by`; `None` if it has no usable rollup, or none with that grouping.
pub(super) fn read(recording: &Recording, by: &str) -> Option<Grouped> {
    let mut durations: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let read = recording.for_each_of_rollup::<RollupCallDurationsRow>(|row| {
        durations.entry(row.group_id).or_default().push((row.duration_ns, row.calls));
    });
    let (mut groups, mut any) = (Vec::new(), false);
    let read = read
        && recording.for_each_of_rollup::<RollupCallsRow<'_>>(|row| {
            any = true;
            if row.by == by {
                let counts = durations.remove(&row.group_id).unwrap_or_default();
                groups.push((key_of(&row), totals_of(&row, &counts)));
            }
        });
    // Calls without any group by this: there were too many.
    if !read || groups.is_empty() == any {
        return None;
    }
    let calls_in_recording = groups.iter().map(|(_, totals)| totals.calls).sum();
    Some(Grouped { calls_in_recording, groups, left_out: Vec::new() })
}

fn key_of(row: &RollupCallsRow<'_>) -> Key {
    match row.by {
        "name" => Key::Name(row.name.unwrap_or_default().to_owned()),
        "task" => Key::Task(row.id.unwrap_or_default()),
        "file" => Key::File(row.id),
        _ => Key::Comm(row.name.map(str::to_owned)),
    }
}

fn totals_of(row: &RollupCallsRow<'_>, counts: &[(u64, u64)]) -> Totals {
    Totals {
        calls: row.calls,
        errors: row.errors,
        unfinished: row.unfinished,
        refused: row.refused,
        total_ns: row.total_ns,
        max_ns: row.max_ns,
        durations: Durations::of_counts(counts),
        cpu_calls: row.cpu_calls,
        cpu_ns: row.cpu_ns,
        split: Split {
            calls: row.split_calls,
            dur_ns: row.split_ns,
            cpu_ns: row.split_cpu_ns,
            blocked_ns: row.split_blocked_ns,
        },
    }
}
