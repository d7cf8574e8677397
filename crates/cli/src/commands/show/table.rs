//! Lines of at most 100 columns, and cells of numbers.

use std::fmt::Display;

pub use pagelab_report::table::{Column, Table, WIDTH, clean, left, right, wrap};

/// Appends text to `out` in lines of at most [`WIDTH`] characters.
pub fn paragraph(text: &str, out: &mut String) {
    for line in wrap(text, WIDTH) {
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

/// A device as `lsblk` prints it: major and minor number.
pub fn device(dev: u64) -> String {
    format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev))
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
