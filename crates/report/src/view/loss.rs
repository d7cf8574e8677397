//! Loss as text.

use pagelab_views::view::loss::{Counts, LossView};

use super::more;
use super::table::{Table, left, percent, right};

pub(super) fn text(data: &LossView) -> String {
    if data.totals.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nALL\n");
    let columns = |first| [first, left("STREAM"), right("SEEN"), right("LOST"), right("FILTERED"), right("LOST_PCT")];
    let cells = |first: String, stream: &str, counts: Counts| {
        let lost = percent(counts.lost, counts.wanted());
        [first, stream.to_owned(), counts.seen.to_string(), counts.lost.to_string(), counts.filtered.to_string(), lost]
    };
    let mut table = Table::new(columns(right("")).into_iter().skip(1));
    for total in &data.totals {
        table.row(cells(String::new(), &total.stream, total.counts).into_iter().skip(1));
    }
    table.write(2, &mut out);
    out.push_str("\nBY SECOND\n");
    let mut table = Table::new(columns(right("SECOND")));
    for row in &data.seconds {
        table.row(cells(row.second.to_string(), &row.stream, row.counts));
    }
    table.write(2, &mut out);
    out.push_str(&more(data.seconds.len(), data.seconds_total));
    out
}
