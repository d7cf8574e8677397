//! `show DIR maps`: mapping actions, decoded, and their sums per operation.

use std::collections::{BTreeMap, HashSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::MappingsRow;
use pagelab_vocab::streams::Stream;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::names;
use crate::read::{self, PathText, Tasks};
use crate::selection::{Selection, cut};
use crate::stacks::Stacks;

/// One mapping action.
#[derive(Debug, Serialize)]
pub struct Action {
    /// Time on the recording's clock, ns.
    pub ts_ns: i64,
    /// The task, unique in the recording.
    pub task_id: u32,
    /// Process id; null if the task is not known.
    pub pid: Option<i32>,
    /// Name of the task; null if it is not known.
    pub comm: Option<String>,
    /// The address space, unique in the recording.
    pub mm_id: u32,
    /// The mapping, unique in the recording.
    pub mapping_id: Option<u32>,
    /// Name of the call or action.
    pub op: String,
    /// `call`, `kernel`, `snapshot` or `fork`.
    pub kind: String,
    /// Addresses are hexadecimal text: JSON numbers do not hold them.
    pub addr: Option<String>,
    /// Length, bytes.
    pub len_bytes: Option<u64>,
    /// Address before, hexadecimal.
    pub old_addr: Option<String>,
    /// Length before, bytes.
    pub old_len_bytes: Option<u64>,
    /// Protection by name.
    pub prot: Option<String>,
    /// Protection as a number.
    pub prot_bits: Option<u32>,
    /// Flags by name; which they are depends on the call.
    pub flags: Option<String>,
    /// Flags as a number.
    pub flags_bits: Option<u32>,
    /// Advice by name.
    pub advice: Option<String>,
    /// File descriptor.
    pub fd: Option<i32>,
    /// Offset in the file, bytes.
    pub offset_bytes: Option<u64>,
    /// Path of the file.
    #[serde(flatten)]
    pub path: PathText,
    /// `ok`, the errno's name, or null where there was no call.
    pub result: Option<String>,
    /// The address that a call gave.
    pub ret_addr: Option<String>,
    /// The functions that the call was made from, innermost first; null where no stack was taken.
    pub stack: Option<Vec<String>>,
    /// The stack that the call was made from.
    #[serde(skip)]
    pub stack_id: Option<u64>,
}

/// All actions of one operation.
#[derive(Debug, Default, Serialize)]
pub struct Total {
    /// Name of the call or action.
    pub op: String,
    /// Actions.
    pub count: u64,
    /// Of those, not called by the program: made by the kernel, inherited, or there before.
    pub not_calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Lengths of those that did not fail; null where the call has none.
    pub len_bytes: Option<u64>,
    /// Failed calls by the errno's name.
    pub errnos: BTreeMap<String, u64>,
}

/// Mapping actions, one row each, and their sums.
#[derive(Debug, Serialize)]
pub struct MapsView {
    /// Sums by operation.
    pub totals: Vec<Total>,
    /// Actions, in order of time or by length.
    pub actions: Vec<Action>,
    /// Rows before the list was cut.
    pub actions_total: usize,
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<MapsView>> {
    let sort = selection.sort_by(&["time", "len"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let limit = selection.limit(sort != "time");
    let mut totals: BTreeMap<String, Total> = BTreeMap::new();
    let mut actions = Vec::new();
    let (mut rows, mut selected) = (0_u64, 0_usize);
    read::each_in_time::<MappingsRow>(recording, &mut notes, |row| {
        if !recording.span().holds(row.ts) {
            return;
        }
        rows += 1;
        if !tasks.wants(selection, row.task_id, row.ts) || !selection.wants_path(row.path) {
            return;
        }
        selected += 1;
        count(totals.entry(row.op.to_owned()).or_default(), &row);
        // A listing in time needs no rows beyond the last one shown.
        if sort != "time" || actions.len() < limit {
            actions.push(action(&row, &tasks));
        }
    })?;
    read::lost(recording, Stream::Maps, &mut notes)?;
    if rows == 0 {
        absence::none_recorded(recording, Stream::Maps, "mapping actions", &mut notes)?;
    } else if selected == 0 {
        notes.push(format!("none of the {rows} mapping actions is selected"));
    }
    if sort == "len" {
        actions.sort_by_key(|action: &Action| std::cmp::Reverse(action.len_bytes));
    }
    let (mut actions, _) = cut(actions, limit);
    let wanted: HashSet<u64> = actions.iter().filter_map(|action| action.stack_id).collect();
    let stacks = Stacks::load(recording, &wanted, &mut notes)?;
    for action in &mut actions {
        action.stack = action.stack_id.and_then(|id| stacks.functions(id));
    }
    let totals = totals.into_iter().map(|(op, total)| Total { op, ..total }).collect();
    let data = MapsView { totals, actions, actions_total: selected };
    Ok(Answer::new("maps", recording, notes, data))
}

fn count(total: &mut Total, row: &MappingsRow<'_>) {
    total.count += 1;
    total.not_calls += u64::from(row.kind != "call");
    match names::errno_of(row.ret) {
        Some(errno) => {
            total.failed += 1;
            *total.errnos.entry(names::errno(errno)).or_default() += 1;
        }
        None => {
            if let Some(len) = row.len {
                total.len_bytes = Some(total.len_bytes.unwrap_or(0).saturating_add(len));
            }
        }
    }
}

fn action(row: &MappingsRow<'_>, tasks: &Tasks) -> Action {
    let failed = names::errno_of(row.ret);
    let gives_address = matches!(row.op, "mmap" | "mremap" | "brk" | "shmat") && failed.is_none();
    let hex = |address: u64| format!("{address:#x}");
    let flags = row.flags.map(|bits| names::flags(row.op, bits)).filter(|text| !text.is_empty());
    Action {
        ts_ns: row.ts,
        task_id: row.task_id,
        pid: tasks.label(row.task_id).0,
        comm: tasks.get(row.task_id).and_then(|task| task.comm_at(row.ts)).map(str::to_owned),
        mm_id: row.mm_id,
        mapping_id: row.mapping_id,
        op: row.op.to_owned(),
        kind: row.kind.to_owned(),
        addr: row.addr.map(hex),
        len_bytes: row.len,
        old_addr: row.old_addr.map(hex),
        old_len_bytes: row.old_len,
        prot: row.prot.map(names::prot),
        prot_bits: row.prot,
        flags,
        flags_bits: row.flags,
        advice: row.advice.map(|number| names::advice(row.op, number)),
        fd: row.fd,
        offset_bytes: row.offset,
        path: PathText::of(row.path),
        result: failed.map(names::errno).or_else(|| row.ret.map(|_| "ok".to_owned())),
        ret_addr: row.ret.filter(|_| gives_address).map(|ret| hex(ret as u64)),
        stack: None,
        stack_id: row.ustack_id,
    }
}
