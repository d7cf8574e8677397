//! `show DIR maps`: mapping actions, decoded, and what they come to per operation.

use std::collections::{BTreeMap, HashSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::MappingsRow;
use pagelab_views::mappings::bytes;
use serde::Serialize;

use super::View;
use super::names;
use super::options::{Options, cut, more};
use super::read::{self, PathText, Tasks};
use super::stacks::Stacks;
use super::table::{Table, left, or_dash, right};
use crate::failure::Failure;

#[derive(Debug, Serialize)]
struct Action {
    ts_ns: i64,
    task_id: u32,
    pid: Option<i32>,
    comm: Option<String>,
    mm_id: u32,
    mapping_id: Option<u32>,
    op: String,
    kind: String,
    /// Addresses are hexadecimal text: JSON numbers do not hold them.
    addr: Option<String>,
    len_bytes: Option<u64>,
    old_addr: Option<String>,
    old_len_bytes: Option<u64>,
    prot: Option<String>,
    prot_bits: Option<u32>,
    flags: Option<String>,
    flags_bits: Option<u32>,
    advice: Option<String>,
    fd: Option<i32>,
    offset_bytes: Option<u64>,
    #[serde(flatten)]
    path: PathText,
    /// `ok`, the errno's name, or null where there was no call.
    result: Option<String>,
    /// The address that a call gave.
    ret_addr: Option<String>,
    /// The functions that the call was made from, innermost first; null where no stack was taken.
    stack: Option<Vec<String>>,
    #[serde(skip)]
    stack_id: Option<u64>,
}

/// So many functions of a stack stand in a line of the text.
const SHOWN_FUNCTIONS: usize = 4;

#[derive(Debug, Default, Serialize)]
struct Total {
    op: String,
    count: u64,
    /// Of those, not called by the program: made by the kernel, inherited, or there before.
    not_calls: u64,
    failed: u64,
    /// Lengths of those that did not fail; null where the call has none.
    len_bytes: Option<u64>,
    /// Failed calls by the errno's name.
    errnos: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Maps {
    totals: Vec<Total>,
    actions: Vec<Action>,
    actions_total: usize,
}

/// Makes the view.
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let sort = options.sort_by(&["time", "len"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, options, &mut notes)?;
    let limit = options.limit(sort != "time");
    let mut totals: BTreeMap<String, Total> = BTreeMap::new();
    let mut actions = Vec::new();
    let (mut rows, mut selected) = (0_u64, 0_usize);
    read::each_in_time::<MappingsRow>(recording, &mut notes, |row| {
        if !recording.span().holds(row.ts) {
            return;
        }
        rows += 1;
        if !tasks.wants(options, row.task_id, row.ts) || !options.wants_path(row.path) {
            return;
        }
        selected += 1;
        count(totals.entry(row.op.to_owned()).or_default(), &row);
        // A listing in time needs no rows beyond the last one shown.
        if sort != "time" || actions.len() < limit {
            actions.push(action(&row, &tasks));
        }
    })?;
    if rows == 0 {
        notes.push("no mapping actions were recorded".to_owned());
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
    let data = Maps { totals, actions, actions_total: selected };
    let start = recording.manifest().clock.start_ns;
    View::new("maps", recording, &notes, &data, &text(&data, start))
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

fn text(data: &Maps, start: i64) -> String {
    if data.actions_total == 0 {
        return String::new();
    }
    let mut out = String::from("\nBY OPERATION\n");
    let mut table =
        Table::new([left("OP"), right("COUNT"), right("NOT_CALLS"), right("FAILED"), right("BYTES"), left("ERRNOS")]);
    for total in &data.totals {
        let errnos: Vec<String> = total.errnos.iter().map(|(name, count)| format!("{name}={count}")).collect();
        table.row([
            total.op.clone(),
            total.count.to_string(),
            total.not_calls.to_string(),
            total.failed.to_string(),
            or_dash(total.len_bytes.map(bytes)),
            errnos.join(" "),
        ]);
    }
    table.write(2, &mut out);
    out.push_str("\nACTIONS\n");
    let mut table = Table::new([
        right("TIME_S"),
        right("PID"),
        left("OP"),
        right("ADDR"),
        right("LEN"),
        left("PROT"),
        left("RESULT"),
        left("DETAIL"),
    ]);
    for action in &data.actions {
        table.row([
            format!("{:.6}", action.ts_ns.saturating_sub(start) as f64 / 1e9),
            or_dash(action.pid),
            action.op.clone(),
            // Where it is, if it is anywhere; else where it was asked for.
            or_dash(action.ret_addr.as_ref().or(action.addr.as_ref())),
            or_dash(action.len_bytes.map(bytes)),
            or_dash(action.prot_bits.map(names::prot_short)),
            or_dash(action.result.as_ref()),
            detail(action),
        ]);
    }
    table.write(2, &mut out);
    out.push_str(&more(data.actions.len(), data.actions_total));
    out
}

/// Flags, advice, origin, file and who called, as far as there are any.
fn detail(action: &Action) -> String {
    let mut words = Vec::new();
    if action.kind != "call" {
        words.push(format!("({})", action.kind));
    }
    words.extend(action.flags.clone());
    words.extend(action.advice.clone());
    match (action.op.as_str(), &action.old_addr, action.old_len_bytes) {
        ("mremap", Some(old), Some(len)) => words.push(format!("from {old} {}", bytes(len))),
        (_, Some(old), _) => words.push(format!("from {old}")),
        _ => {}
    }
    if let Some(path) = &action.path.path {
        words.push(path.clone());
        words.extend(action.offset_bytes.filter(|offset| *offset > 0).map(|offset| format!("at {}", bytes(offset))));
    }
    if let Some(stack) = action.stack.as_ref().filter(|stack| !stack.is_empty()) {
        let shown: Vec<&str> = stack.iter().take(SHOWN_FUNCTIONS).map(String::as_str).collect();
        words.push(format!("by {}{}", shown.join(" < "), if stack.len() > SHOWN_FUNCTIONS { " < ..." } else { "" }));
    }
    words.join(" ")
}
