//! What differs most between sides of too few runs to test anything.

use pagelab_analysis::compare::LargestChange;
use pagelab_vocab::units::{quantity, significant};

use crate::style::Style;
use crate::table::{Table, left, right};

/// The list; empty without entries.
pub(crate) fn largest_changes(changes: &[LargestChange], style: &Style) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let columns = [left("metric"), right("base"), right("test"), right("ratio")];
    let mut table = Table::new(columns).ruled().wide(style.width);
    for change in changes {
        let name = change.instance.as_ref().map_or_else(|| change.name.clone(), |i| format!("{}[{i}]", change.name));
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| quantity(value, &change.unit));
        let ratio = change.ratio.map_or_else(|| "-".to_owned(), |ratio| significant(ratio, 3));
        table.row([name, show(change.base), show(change.test), ratio]);
    }
    format!("Largest changes, not tested (one run a side shows no chance):\n{}\n", table.render())
}
