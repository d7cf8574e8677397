//! What changed between two sides, as text.

use std::fmt::Write as _;

use pagelab_views::sides::{Change, ChangedList, ChangedRow, Presence, SidesView};

use pagelab_vocab::units::{quantity, short_duration};

use super::table::{Table, clean, figure, left, right};

/// Figures of a row that have columns of their own; the JSON document has all.
const SHOWN: usize = 2;

/// The view as text.
pub fn sides(view: &SidesView) -> String {
    let mut out = String::new();
    let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("mean of {count} runs") };
    let _ = writeln!(
        out,
        "What changed in {}: base is {}, test is {}.",
        view.view,
        runs(view.base_runs),
        runs(view.test_runs)
    );
    for note in &view.notes {
        let _ = writeln!(out, "  note: {}", clean(note));
    }
    if !view.totals.is_empty() {
        out.push_str("\nTOTALS\n");
        let mut table = Table::new([left(""), right("BASE"), right("TEST"), right("CHANGE"), right("RATIO")]);
        for (name, change) in &view.totals {
            table.row([name.clone()].into_iter().chain(cells(name, change)));
        }
        table.write(2, &mut out);
    }
    for list in &view.lists {
        list_text(list, &mut out);
    }
    out
}

fn list_text(list: &ChangedList, out: &mut String) {
    let _ = writeln!(out, "\n{}", list.list.to_uppercase());
    let changed: Vec<&ChangedRow> = list.rows.iter().filter(|row| has_changed(row)).collect();
    if changed.is_empty() {
        let rows = if list.rows_total == 1 { "row" } else { "rows" };
        let _ = writeln!(out, "  no change in {} {rows}", list.rows_total);
        return;
    }
    let shown: Vec<&'static str> = list.figures.iter().copied().take(SHOWN).collect();
    // A key that no row has, as the path where calls are added up by name, has no column.
    let has_key = |at: usize| changed.iter().any(|row| row.key.get(at).is_some_and(Option::is_some));
    let keys: Vec<usize> = (0..list.key.len()).filter(|at| has_key(*at)).collect();
    let mut columns = vec![left("")];
    columns.extend(keys.iter().map(|at| left(list.key[*at].to_uppercase())));
    for name in &shown {
        let name = name.to_uppercase();
        columns.extend([right(format!("{name} BASE")), right("TEST"), right("CHANGE"), right("RATIO")]);
    }
    let with_words = changed.iter().any(|row| !words(row).is_empty());
    if with_words {
        columns.push(left("WORDS"));
    }
    let mut table = Table::new(columns);
    for row in &changed {
        let mark = match row.presence {
            Presence::Both => "",
            Presence::Vanished => "gone",
            Presence::New => "new",
        };
        let mut line = vec![mark.to_owned()];
        line.extend(keys.iter().map(|at| row.key[*at].as_deref().map_or_else(|| "-".to_owned(), clean)));
        for name in &shown {
            line.extend(row.figures.get(name).map_or_else(Default::default, |change| cells(name, change)));
        }
        if with_words {
            line.push(words(row));
        }
        table.row(line);
    }
    table.write(2, out);
    if list.rows.len() < list.rows_total {
        out.push_str(&super::more(list.rows.len(), list.rows_total));
    }
    if list.vanished + list.new > 0 {
        let _ = writeln!(out, "  {} rows only on base, {} only on test", list.vanished, list.new);
    }
}

fn has_changed(row: &ChangedRow) -> bool {
    row.presence != Presence::Both
        || row.figures.values().any(|change| change.size() != 0.0 || change.base.is_some() != change.test.is_some())
        || row.words.values().any(|word| word.base != word.test)
}

/// Words that differ, `sequential -> random`, of a row that both sides have.
fn words(row: &ChangedRow) -> String {
    if row.presence != Presence::Both {
        return String::new();
    }
    let differing = row.words.iter().filter(|(_, word)| word.base != word.test);
    let side = |words: &[String]| if words.is_empty() { "-".to_owned() } else { clean(&words.join(",")) };
    let each: Vec<String> =
        differing.map(|(name, word)| format!("{name}: {} -> {}", side(&word.base), side(&word.test))).collect();
    each.join("; ")
}

/// Base, test, difference and ratio.
fn cells(name: &str, change: &Change) -> [String; 4] {
    let value = |value: Option<f64>| match value {
        None => "-".to_owned(),
        Some(value) if name.ends_with("ns") => short_duration(value),
        Some(value) if name.ends_with("bytes") => quantity(value, "bytes"),
        Some(value) => figure(value),
    };
    let signed = |difference: f64| if difference > 0.0 { "+" } else { "" };
    let difference = change.difference.map_or_else(|| "-".to_owned(), |d| format!("{}{}", signed(d), value(Some(d))));
    let ratio = change.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
    [value(change.base), value(change.test), difference, ratio]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn row(base: Option<f64>, test: Option<f64>) -> ChangedRow {
        let difference = base.zip(test).map(|(base, test)| test - base);
        let change = Change { base, test, difference, ratio: None };
        let figures = BTreeMap::from([("calls", change)]);
        ChangedRow { key: vec![Some("read".to_owned())], presence: Presence::Both, figures, words: BTreeMap::new() }
    }

    #[test]
    fn a_row_has_changed_where_a_figure_has() {
        assert!(!has_changed(&row(Some(5.0), Some(5.0))) && !has_changed(&row(None, None)));
        assert!(has_changed(&row(Some(5.0), Some(4.0))), "fewer");
        assert!(has_changed(&row(Some(5.0), None)) && has_changed(&row(None, Some(0.0))), "known of one side only");
        assert!(has_changed(&ChangedRow { presence: Presence::New, ..row(Some(5.0), Some(5.0)) }));
    }
}
