//! What one recording alone shows, as text.

use pagelab_analysis::explain::Explanation;
use pagelab_views::mappings::bytes;
use pagelab_vocab::units::{count, significant};

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
    out.push_str(&mappings(explanation, style));
    for note in &explanation.notes {
        out.push_str(&wrap(note, style.width, "note: ", "      "));
    }
    out
}

fn mappings(explanation: &Explanation, style: &Style) -> String {
    if explanation.mappings.is_empty() {
        return "Mappings and faults were not recorded.\n".to_owned();
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
