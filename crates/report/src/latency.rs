//! The latency of operations on both sides, by quantile.

use pagelab_analysis::compare::LatencyChange;
use pagelab_vocab::units::{quantity, significant};

use crate::paragraph::wrap;
use crate::style::Style;
use crate::table::{Table, left, right};

/// Rows at most; the JSON has all.
const ROWS: usize = 16;
/// Letters of the columns behind the name, and the fewest of a name.
const OTHER_COLUMNS: usize = 52;
const NAME_AT_LEAST: usize = 8;

/// A row for each quantile of each job and direction; nothing where the sides have no distributions.
pub(crate) fn latency(changes: &[LatencyChange], style: &Style) -> String {
    let Some(first) = changes.first() else { return String::new() };
    let name = left("operations").at_most(style.width.saturating_sub(OTHER_COLUMNS).max(NAME_AT_LEAST));
    let mut table = Table::new([name, left(""), right("base"), right("test"), right("ratio (95 %)"), right("q")])
        .ruled()
        .wide(style.width);
    for one in changes.iter().take(ROWS) {
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| quantity(value, &one.unit));
        let number = |value: Option<f64>, figures| value.map_or_else(|| "-".to_owned(), |v| significant(v, figures));
        let interval = one
            .ratio_ci95
            .map_or_else(String::new, |[low, high]| format!(" ({} to {})", significant(low, 3), significant(high, 3)));
        table.row([
            one.instance.clone().unwrap_or_else(|| "all".to_owned()),
            one.quantile.clone(),
            show(one.base.mean),
            show(one.test.mean),
            format!("{}{interval}", number(one.ratio, 3)),
            number(one.q, 2),
        ]);
    }
    let more = changes.len().saturating_sub(ROWS);
    let rest = if more > 0 { format!("; {more} more are in the JSON") } else { String::new() };
    let kind = if first.kind == "lat" { "from submission to completion" } else { "from issue to completion" };
    let title = wrap(&format!("Latency {kind}, means of the runs' quantiles{rest}:"), style.width, "", "");
    format!("\n{title}{}", table.render())
}
