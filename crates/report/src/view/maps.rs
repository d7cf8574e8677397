//! Mapping actions as text.

use pagelab_views::mappings::bytes;
use pagelab_views::names;
use pagelab_views::view::maps::{Action, MapsView};

use super::more;
use super::table::{Table, left, or_dash, right};

/// Functions of a stack that a line of the text shows.
const SHOWN_FUNCTIONS: usize = 4;

pub(super) fn text(data: &MapsView, start: i64) -> String {
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

/// Flags, advice, origin, file and caller, as far as there are any.
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
