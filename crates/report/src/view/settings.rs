//! Settings as text.

use pagelab_views::view::settings::{SettingsView, State};

use super::more;
use super::table::{Table, left, or_dash, paragraph, room};

/// Widths that leave room for each other in a line.
const KEY_WIDTH: usize = 40;
const VALUE_WIDTH: usize = 18;
/// Width of the columns next to a key.
const BESIDE_KEY: usize = 70;

pub(super) fn text(data: &SettingsView) -> String {
    if data.settings.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n");
    let changed = or_dash(data.has_end.then_some(data.changed));
    let (total, not_read) = (data.settings_total, data.not_read);
    paragraph(
        &format!(
            "{total} settings: {changed} differ at the end (* changed, ~ changed as it always does), {not_read} were not \
             read at both start and end"
        ),
        &mut out,
    );
    let value = |head| left(head).at_most(room(VALUE_WIDTH, 2 * BESIDE_KEY));
    let mut table = Table::new([
        left(""),
        left("KEY").at_most(room(KEY_WIDTH, BESIDE_KEY)),
        value("START"),
        value("END"),
        left("SOURCE"),
    ]);
    for row in &data.settings {
        let (mark, end) = match row.state {
            State::Same => ("", "same".to_owned()),
            State::Changed if row.volatile == Some(true) => ("~", shown(row.end.as_deref())),
            State::Changed => ("*", shown(row.end.as_deref())),
            _ if row.end.is_none() => ("", "not read".to_owned()),
            _ => ("", shown(row.end.as_deref())),
        };
        table.row([mark.to_owned(), row.key.clone(), shown(row.start.as_deref()), end, row.source.clone()]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.settings.len(), data.settings_total));
    out
}

/// A value for people; an empty one is not the same as none.
fn shown(value: Option<&str>) -> String {
    match value {
        None => "-".to_owned(),
        Some("") => "\"\"".to_owned(),
        Some(value) => value.to_owned(),
    }
}
