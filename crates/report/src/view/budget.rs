//! The account of time as text.

use std::fmt::Write as _;

use pagelab_views::view::budget::{BudgetView, OneComponent};
use pagelab_vocab::units::{count, short_duration};

use super::more;
use super::table::{Table, left, or_dash, paragraph, right};

/// The whole body.
pub(super) fn text(data: &BudgetView) -> String {
    let mut out = String::new();
    if data.components.is_empty() {
        return out + &missing(data);
    }
    out.push('\n');
    head(data, &mut out);
    components(data, &mut out);
    kernel(data, &mut out);
    faults(data, &mut out);
    unmatched(data, &mut out);
    out + &missing(data)
}

fn short(ns: u64) -> String {
    short_duration(ns as f64)
}

/// Percent, to a tenth.
fn pct(value: f64) -> String {
    format!("{value:.1}")
}

fn of(part: Option<u64>, whole: Option<u64>) -> String {
    match part.zip(whole).filter(|(_, whole)| *whole > 0) {
        Some((part, whole)) => format!("{} ({} %)", short(part), pct(100.0 * part as f64 / whole as f64)),
        None => or_dash(part.map(short)),
    }
}

fn head(data: &BudgetView, out: &mut String) {
    let Some(lives_ns) = data.lives_ns else {
        let line = "States of tasks were not recorded: what follows are shares of the samples of the profile.";
        paragraph(line, out);
        return;
    };
    let plural = if data.tasks == 1 { "" } else { "s" };
    let line = format!(
        "{} task{plural} lived {}: on a CPU {}, ready without one {}, off the CPU {}.",
        data.tasks,
        short(lives_ns),
        of(data.run_ns, data.lives_ns),
        of(data.ready_ns, data.lives_ns),
        of(data.off_ns, data.lives_ns),
    );
    paragraph(&line, out);
    if data.idle_ns.is_some() {
        let line = format!(
            "Of {} recorded, no task was active for {}; WALL splits the rest among the tasks active at each moment{}.",
            or_dash(data.window_ns.map(short)),
            of(data.idle_ns, data.window_ns),
            if data.wall_from == Some("switches") { ", by every switch" } else { ", by sums of a second" },
        );
        paragraph(&line, out);
    }
}

/// Time with its standard error, if sampling made one.
fn with_error(row: &OneComponent) -> String {
    if row.error_ns == 0 { String::new() } else { format!("±{}", short(row.error_ns)) }
}

fn components(data: &BudgetView, out: &mut String) {
    let is_by_operation = data.components.iter().any(|row| row.wall_ns_per_operation.is_some());
    for (title, is_active) in [("ACTIVE", true), ("WAITING FOR OTHERS", false)] {
        let rows: Vec<&OneComponent> = data.components.iter().filter(|row| row.active == is_active).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{title}");
        let mut columns = vec![right("TIME"), right("ERROR"), right("%")];
        if is_active {
            columns.extend([right("WALL"), right("%")]);
            columns.extend(is_by_operation.then(|| right("WALL/OP")));
        }
        columns.extend([left("COMPONENT"), left("")]);
        let mut table = Table::new(columns);
        for row in rows {
            let mut cells = vec![short(row.ns), with_error(row), pct(row.pct)];
            if is_active {
                cells.extend([or_dash(row.wall_ns.map(short)), or_dash(row.wall_pct.map(pct))]);
                cells.extend(is_by_operation.then(|| or_dash(row.wall_ns_per_operation.map(short_duration))));
            }
            cells.extend([row.component.to_owned(), row.about.to_owned()]);
            table.row(cells);
        }
        table.write(2, out);
    }
    out.push_str(&more(data.components.len(), data.components_total));
}

fn kernel(data: &BudgetView, out: &mut String) {
    if data.kernel.is_empty() {
        return;
    }
    out.push_str("\nTHE KERNEL BY THE WAY IN\n");
    let mut table = Table::new([right("TIME"), right("% RUN"), right("SAMPLES"), left("ENTRY"), left("MECHANISM")]);
    for row in &data.kernel {
        table.row([
            or_dash(row.ns.map(short)),
            pct(row.run_pct),
            row.samples.to_string(),
            row.entry.clone(),
            row.mechanism.to_owned(),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(data.kernel.len(), data.kernel_total));
}

fn faults(data: &BudgetView, out: &mut String) {
    let Some(cost) = data.faults else { return };
    let line = format!(
        "{} page faults took {} (±{}) on CPUs: {} each.",
        count(cost.faults),
        short(cost.ns),
        short(cost.error_ns),
        short_duration(cost.ns_per_fault),
    );
    out.push('\n');
    paragraph(&line, out);
}

fn unmatched(data: &BudgetView, out: &mut String) {
    if data.unmatched.is_empty() {
        return;
    }
    let share = or_dash(data.kernel_unmatched_pct.map(pct));
    let _ = writeln!(out, "\nWITHOUT A MECHANISM ({share} % of the kernel's samples)");
    let mut table = Table::new([right("SAMPLES"), right("% KERNEL"), left("INNERMOST FUNCTION")]);
    for row in &data.unmatched {
        table.row([row.samples.to_string(), pct(row.kernel_pct), row.function.clone()]);
    }
    table.write(2, out);
    out.push_str(&more(data.unmatched.len(), data.unmatched_total));
}

fn missing(data: &BudgetView) -> String {
    let mut out = String::new();
    if data.missing.is_empty() {
        return out;
    }
    out.push_str("\nNOT KNOWN\n");
    let mut table = Table::new([left("PART"), left("WHY")]);
    for row in &data.missing {
        table.row([row.part.to_owned(), row.reason.clone()]);
    }
    table.write(2, &mut out);
    out
}
