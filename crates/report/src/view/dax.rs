//! Faults on DAX files as text.

use pagelab_views::view::dax::DaxView;

use super::more;
use super::table::{Table, left, or_dash, paragraph, percent, right};

pub(super) fn text(data: &DaxView) -> String {
    let mut out = String::new();
    if data.faults == 0 {
        return out;
    }
    out.push('\n');
    let said = format!(
        "{} faults on {} slots of 2 MiB: {} ({}%) mapped as a whole, {} page by page. A kernel may try a fault twice and say so \
         twice: slots are counted once.",
        data.faults,
        data.slots,
        data.huge_slots,
        percent(data.huge_slots, data.slots),
        data.small_slots,
    );
    paragraph(&said, &mut out);
    out.push('\n');
    let mut table =
        Table::new([right("SLOTS"), right("HUGE"), right("SMALL"), right("HUGE%"), right("FAULTS"), left("FILE")]);
    for file in &data.files {
        table.row([
            file.slots.to_string(),
            file.huge_slots.to_string(),
            file.small_slots.to_string(),
            percent(file.huge_slots, file.slots),
            file.faults.to_string(),
            file.path.path.clone().unwrap_or_else(|| format!("device {} inode {}", file.dev, file.ino)),
        ]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.files.len(), data.files_total));
    out.push_str("\nBY OUTCOME\n");
    let mut table = Table::new([
        left("KIND"),
        left("OUTCOME").at_most(30),
        right("FAULTS"),
        right("SLOTS"),
        left("WHY"),
        left("FILE"),
    ]);
    for file in &data.files {
        for outcome in &file.outcomes {
            table.row([
                outcome.kind.clone(),
                or_dash(outcome.outcome.clone()),
                outcome.faults.to_string(),
                outcome.slots.to_string(),
                or_dash(outcome.reason.clone()),
                file.path.path.clone().unwrap_or_else(|| format!("device {} inode {}", file.dev, file.ino)),
            ]);
        }
    }
    table.write(2, &mut out);
    out
}
