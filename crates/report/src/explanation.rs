//! What one recording alone shows, as text.

use pagelab_analysis::explain::Explanation;
use pagelab_views::mappings::bytes;
use pagelab_vocab::terminal::shell_word;
use pagelab_vocab::units::{count, short_duration, significant};

use crate::finding::finding;
use crate::paragraph::wrap;
use crate::style::Style;
use crate::table::{Table, left, right};
use crate::verdict::considered;

/// The findings, where the faults were, and causes looked for in vain.
pub fn explanation(explanation: &Explanation, style: &Style) -> String {
    let label = explanation.label.as_ref().map_or_else(String::new, |label| format!(" ({label})"));
    let head = format!("{}{label}: {} s measured", explanation.dir, significant(explanation.seconds, 4));
    let mut out = wrap(&head, style.width, "", "  ");
    if !explanation.complete {
        out.push_str("The recording is not complete: rows may be missing.\n");
    }
    out.push('\n');
    for one in &explanation.findings {
        out.push_str(&finding(one, false, style));
        out.push('\n');
    }
    if explanation.findings.is_empty() {
        out.push_str("Nothing stands out: none of the known causes was found. What was looked for:\n");
        out.push_str(&considered(&explanation.considered, style));
        out.push('\n');
    }
    out.push_str(&account(explanation, style));
    out.push_str(&mappings(explanation, style));
    for note in &explanation.notes {
        out.push_str(&wrap(note, style.width, "note: ", "      "));
    }
    out
}

/// Where the time went; empty if that is not known.
fn account(explanation: &Explanation, style: &Style) -> String {
    let Some(account) = &explanation.budget else { return String::new() };
    let of = match account.lives_ns {
        Some(ns) => format!("of the {} that its tasks lived", short_duration(ns as f64)),
        None => "of the samples of the profile; states of tasks were not recorded".to_owned(),
    };
    let mut table = Table::new([right("time"), right("%"), left("component"), left("")]).ruled().wide(style.width);
    for line in &account.components {
        let name =
            if line.active { line.component.clone() } else { format!("{} (waiting for others)", line.component) };
        let time = short_duration(line.ns as f64);
        table.row([time, format!("{:.1}", line.pct), name, line.about.clone()]);
    }
    let others = match account.others {
        0 => String::new(),
        others => format!("{others} more: pagelab show {} budget\n", shell_word(&explanation.dir)),
    };
    let missing: String =
        account.missing.iter().map(|line| wrap(&format!("not known: {line}"), style.width, "  ", "    ")).collect();
    format!("Where the time went, {of}:\n{}{others}{missing}\n", table.render())
}

fn mappings(explanation: &Explanation, style: &Style) -> String {
    if let Some(absent) = &explanation.no_mappings {
        return wrap(&absent.text, style.width, "Where the faults were: ", "  ");
    }
    let mut table = Table::new([
        left("memory"),
        right("mappings"),
        right("bytes"),
        right("faults"),
        right("2 MiB ranges"),
        right("by huge page"),
        right("by 4 KiB pages"),
        left("order"),
    ])
    .ruled()
    .wide(style.width);
    for line in &explanation.mappings {
        table.row([
            line.what.clone(),
            count(line.mappings),
            bytes(line.bytes),
            count(line.faults),
            count(line.whole_slots),
            count(line.whole_slots_few_faults),
            count(line.whole_slots_many_faults),
            line.order.clone().unwrap_or_default(),
        ]);
    }
    format!(
        "Where the faults were (2 MiB ranges that could hold a huge page, and how they were populated):\n{}",
        table.render()
    )
}
