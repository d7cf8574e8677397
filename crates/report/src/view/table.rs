//! Lines as wide as the terminal, and cells of numbers.

use std::fmt::Display;
use std::sync::OnceLock;

use crate::table;

pub use crate::table::{Column, clean, left, right, wrap};

/// Widths between which a terminal's is taken as it is.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=400;

/// How wide lines may be: as the terminal, and 100 columns where standard output is none.
pub fn width() -> usize {
    static WIDTH: OnceLock<usize> = OnceLock::new();
    *WIDTH.get_or_init(|| {
        let out = std::io::stdout();
        let columns = rustix::termios::tcgetwinsize(&out).map_or(0, |size| usize::from(size.ws_col));
        if columns == 0 { table::WIDTH } else { columns.clamp(*WIDTHS.start(), *WIDTHS.end()) }
    })
}

/// What a column of names may have beyond `least`, where the others take `others`.
pub fn room(least: usize, others: usize) -> usize {
    least.max(width().saturating_sub(others))
}

/// A table as wide as the terminal.
pub struct Table(table::Table);

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self(table::Table::new(columns).wide(width()))
    }

    /// Appends a row: one cell for each column.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0.row(cells);
    }

    /// Appends the table to `out`, each line behind `indent` blanks.
    pub fn write(&self, indent: usize, out: &mut String) {
        self.0.write(indent, out);
    }
}

/// Appends text to `out` in lines that fit.
pub fn paragraph(text: &str, out: &mut String) {
    for line in wrap(text, width()) {
        out.push_str(&line);
        out.push('\n');
    }
}

/// The value, or `-` where there is none.
pub fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A number with the figures that tell something.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "-".to_owned()
    } else if value == 0.0 || (size < 1e15 && value.fract() == 0.0) || (1e5..1e15).contains(&size) {
        format!("{value:.0}")
    } else if !(1e-3..1e15).contains(&size) {
        format!("{value:.3e}")
    } else if size >= 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

/// Nanoseconds as seconds, to the millisecond.
pub fn seconds(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

/// `part` in percent of `whole`, `-` if there is no whole.
pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        // A little is not nothing.
        _ if part > 0 && part.saturating_mul(2000) < whole => "<0.1".to_owned(),
        _ => format!("{:.1}", 100.0 * part as f64 / whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_neither_cut_nor_padded() {
        let said: Vec<String> =
            [0.0, 12.0, 1234.56, 1.23456, 0.000_01, 1e18, f64::NAN].into_iter().map(figure).collect();
        assert_eq!(said, ["0", "12", "1234.6", "1.235", "1.000e-5", "1.000e18", "-"]);
        assert_eq!(
            [(1, 0), (0, 9), (1, 9), (1, 1_000_000)].map(|(part, whole)| percent(part, whole)),
            ["-", "0.0", "11.1", "<0.1"]
        );
    }
}
