//! Counters as text.

use pagelab_views::view::counters::CountersView;

use super::indented;
use super::table::{Table, figure, left, or_dash, paragraph, right};

pub(super) fn text(data: &CountersView) -> String {
    let mut out = String::new();
    if data.events.is_empty() {
        return out;
    }
    out.push('\n');
    if data.events.iter().any(|event| event.multiplexed) {
        paragraph("~ marks a count scaled up from RUN%, the share of the time in which it was counted", &mut out);
    }
    if let Some(operations) = data.operations {
        paragraph(&format!("PER_OP is of {} operations in the measured time", figure(operations)), &mut out);
    }
    let mut table = Table::new([right("COUNT"), left(""), left("UNIT"), right("RUN%"), right("PER_OP"), left("EVENT")]);
    for event in data.events.iter().filter(|event| event.estimate.is_some()) {
        table.row([
            or_dash(event.estimate.map(|estimate| format!("{estimate:.0}"))),
            if event.multiplexed { "~" } else { "" }.to_owned(),
            event.unit.to_owned(),
            or_dash(event.running_pct.map(|pct| format!("{pct:.1}"))),
            or_dash(event.per_operation.map(figure)),
            event.name.clone(),
        ]);
    }
    table.write(0, &mut out);
    derived(data, &mut out);
    not_counted(data, &mut out);
    out
}

fn derived(data: &CountersView, out: &mut String) {
    out.push_str("\nDERIVED, from events counted at the same times\n");
    let mut table = Table::new([right("VALUE"), left("NAME"), left("")]);
    if let Some(cpus) = data.cpus_utilized {
        table.row([figure(cpus), "cpus_utilized".to_owned(), "CPU time over elapsed time".to_owned()]);
    }
    for ratio in data.ratios.iter().filter(|ratio| ratio.value.is_some()) {
        table.row([or_dash(ratio.value.map(figure)), ratio.name.to_owned(), ratio.help.to_owned()]);
    }
    table.write(2, out);
}

/// Events without a count, those with the same reason together.
fn not_counted(data: &CountersView, out: &mut String) {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for event in &data.events {
        let Some(reason) = event.reason.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(&event.name),
            None => reasons.push((reason, vec![&event.name])),
        }
    }
    if !reasons.is_empty() {
        out.push_str("\nNOT COUNTED\n");
    }
    for (reason, names) in reasons {
        indented(&format!("{reason}:"), out);
        indented(&names.join(" "), out);
    }
}
