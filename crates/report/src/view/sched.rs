//! The view of the scheduler as text.

use pagelab_views::view::sched::{OneStack, SchedView, Waits};

use pagelab_vocab::units::short_duration;

use super::more;
use super::table::{Table, left, or_dash, paragraph, percent, right};

/// Functions of a stack that are shown; JSON has all of them.
const DEEPEST: usize = 8;

/// The whole body.
pub(super) fn text(data: &SchedView) -> String {
    let mut out = String::new();
    if data.tasks.is_empty() {
        return out;
    }
    out.push('\n');
    paragraph(
        "ASLEEP is the time until tasks were woken; QUEUE the time that they could have run and had no CPU, woken or \
         preempted; percent are of the task's life",
        &mut out,
    );
    tasks(data, &mut out);
    stacks(data, &mut out);
    wakes(data, &mut out);
    syscalls(data, &mut out);
    out
}

fn short(ns: u64) -> String {
    short_duration(ns as f64)
}

fn tasks(data: &SchedView, out: &mut String) {
    out.push_str("\nBY TASK\n");
    let mut table = Table::new([
        right("TID"),
        right("LIFE"),
        right("ONCPU"),
        right("%"),
        right("ASLEEP"),
        right("%"),
        right("QUEUE"),
        right("%"),
        right("PREEMPTED"),
        right("MAX"),
        left("STATES"),
        left("NAME"),
    ]);
    for row in &data.tasks {
        let life = row.life_ns.unwrap_or(0);
        let states: Vec<String> =
            row.waiting.iter().map(|(state, off)| format!("{state} {}x {}", off.times, short(off.ns))).collect();
        table.row([
            or_dash(row.tid),
            or_dash(row.life_ns.map(short)),
            or_dash(row.on_cpu_ns.map(short)),
            or_dash(row.on_cpu_ns.map(|ns| percent(ns, life))),
            or_dash(row.asleep_ns.map(short)),
            or_dash(row.asleep_ns.map(|ns| percent(ns, life))),
            or_dash(row.queue_ns.map(short)),
            or_dash(row.queue_ns.map(|ns| percent(ns, life))),
            format!("{}x {}", row.preempted.times, short(row.preempted.ns)),
            short(row.off.max_ns),
            states.join(", "),
            or_dash(row.comm.as_ref()),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(data.tasks.len(), data.tasks_total));
}

fn stacks(data: &SchedView, out: &mut String) {
    if data.stacks.is_empty() {
        return;
    }
    out.push_str("\nBY STACK (kernel | program, innermost first)\n");
    let Waits { times, with_kstack, with_ustack, ustacks_to_entry, ustacks_cut, ustacks_broken } = data.waits;
    let said = format!(
        "of {times} waits {with_kstack} have a kernel stack and {with_ustack} one of the program: {ustacks_to_entry} reach \
         the function that the thread began in, {ustacks_cut} are cut, {ustacks_broken} broken; TIME lasts until the task \
         ran again, QUEUE is the part of it after it was woken"
    );
    paragraph(&said, out);
    let mut table =
        Table::new([right("TIME"), right("QUEUE"), right("TIMES"), right("MAX"), left("STATE"), left("STACK")]);
    for row in &data.stacks {
        table.row([
            short(row.off.ns),
            or_dash(row.off.queue_ns.map(short)),
            row.off.times.to_string(),
            short(row.off.max_ns),
            or_dash(row.state.as_ref()),
            chain(row),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(data.stacks.len(), data.stacks_total));
}

/// The kernel's functions, then the program's.
fn chain(row: &OneStack) -> String {
    let side = |functions: Option<&Vec<String>>, id: Option<u64>| match (functions, id) {
        (Some(functions), _) => {
            let mut shown: Vec<&str> = functions.iter().take(DEEPEST).map(String::as_str).collect();
            if functions.len() > DEEPEST {
                shown.push("...");
            }
            Some(shown.join(" < "))
        }
        (None, Some(id)) => Some(format!("stack {id:#x}")),
        (None, None) => None,
    };
    let sides = [side(row.kernel.as_ref(), row.kstack_id), side(row.user.as_ref(), row.ustack_id)];
    sides.into_iter().flatten().collect::<Vec<_>>().join(" | ")
}

fn wakes(data: &SchedView, out: &mut String) {
    if data.wakes.is_empty() {
        return;
    }
    out.push_str("\nWHO ENDED THE WAIT\n");
    let mut table = Table::new([right("WAITED"), right("TIMES"), right("MAX"), left("WAITING"), left("WOKEN BY")]);
    for row in &data.wakes {
        table.row([
            short(row.off.ns),
            row.off.times.to_string(),
            short(row.off.max_ns),
            row.wakee.clone(),
            row.waker.clone().unwrap_or_else(|| "(no recorded task)".to_owned()),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(data.wakes.len(), data.wakes_total));
}

fn syscalls(data: &SchedView, out: &mut String) {
    let (Some(rows), Some(total)) = (&data.syscalls, data.syscalls_total) else { return };
    out.push_str("\nTIME IN SYSTEM CALLS\n");
    let mut table = Table::new([
        right("TOTAL"),
        right("CALLS"),
        right("ONCPU"),
        right("%"),
        right("WAITING"),
        right("%"),
        right("QUEUE"),
        right("%"),
        left("NAME"),
    ]);
    for row in rows {
        table.row([
            short(row.total_ns),
            row.calls.to_string(),
            short(row.on_cpu_ns),
            percent(row.on_cpu_ns, row.total_ns),
            short(row.waiting_ns),
            percent(row.waiting_ns, row.total_ns),
            short(row.queue_ns),
            percent(row.queue_ns, row.total_ns),
            row.name.clone(),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(rows.len(), total));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_cut_where_it_is_deeper_than_what_is_shown() {
        let deep = |functions: usize| OneStack {
            state: None,
            kstack_id: None,
            ustack_id: None,
            off: pagelab_views::view::sched::Off::default(),
            kernel: Some((0..functions).map(|place| format!("f{place}")).collect()),
            user: None,
        };
        let whole = chain(&deep(DEEPEST));
        assert!(whole.ends_with("< f7") && !whole.contains("..."), "{whole}");
        assert_eq!(chain(&deep(DEEPEST + 1)), format!("{whole} < ..."));
    }
}
