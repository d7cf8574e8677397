//! Aligned text for terminals of 100 columns.
//!
//! What comes out of a recording was chosen by other programs: names may hold line ends and escape sequences. Every
//! cell goes through [`clean`], so that a recording cannot draw on the terminal of who looks at it.

use std::fmt::{Display, Write as _};

/// Width for which tables are made.
pub const WIDTH: usize = 100;

/// Least width left to the last column, however wide the others are.
const LAST_AT_LEAST: usize = 24;

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    head: &'static str,
    right: bool,
    at_most: usize,
}

/// A column of text.
pub const fn left(head: &'static str) -> Column {
    Column { head, right: false, at_most: usize::MAX }
}

/// A column of numbers.
pub const fn right(head: &'static str) -> Column {
    Column { head, right: true, at_most: usize::MAX }
}

impl Column {
    /// Longer texts are shortened to `width`.
    pub const fn at_most(self, width: usize) -> Self {
        Self { at_most: width, ..self }
    }
}

/// A table. The last column takes what is left of the line and goes on in the next one if that is too little.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Appends a row: one cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().zip(&self.columns);
        self.rows.push(cells.map(|(cell, column)| shorten(&clean(&cell), column.at_most)).collect());
    }

    /// Appends the table to `out`, each line behind `indent` blanks.
    pub fn write(&self, indent: usize, out: &mut String) {
        let Some((last, others)) = self.columns.split_last() else { return };
        let widths: Vec<usize> = (0..others.len()).map(|at| self.width(at)).collect();
        let before = indent + widths.iter().map(|width| width + 2).sum::<usize>();
        let room = if last.right { self.width(others.len()) } else { WIDTH.saturating_sub(before).max(LAST_AT_LEAST) };
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.to_owned()).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = " ".repeat(indent);
            for ((cell, column), width) in row.iter().zip(others).zip(&widths) {
                let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
                let _ = if column.right { write!(line, "{gap}{cell}  ") } else { write!(line, "{cell}{gap}  ") };
            }
            let text = row.last().map_or("", String::as_str);
            for (number, part) in wrap(text, room).into_iter().enumerate() {
                if number > 0 {
                    line = " ".repeat(before);
                }
                let gap = if last.right { room.saturating_sub(part.chars().count()) } else { 0 };
                let _ = write!(line, "{}{part}", " ".repeat(gap));
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
    }

    fn width(&self, at: usize) -> usize {
        let head = self.columns.get(at).map_or(0, |column| column.head.chars().count());
        self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0).max(head)
    }
}

/// Text with everything escaped that a terminal would act on.
pub fn clean(text: &str) -> String {
    // Bidirectional controls are no control characters to `char`, and still turn the rest of a line around.
    let acts =
        |letter: &char| letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.chars().any(|letter| acts(&letter)) {
        return text.to_owned();
    }
    text.chars()
        .map(|letter| if acts(&letter) { letter.escape_default().to_string() } else { letter.to_string() })
        .collect()
}

/// At most `width` characters: of a path the end is kept, of other text the beginning.
pub fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width || width < 4 {
        return text.to_owned();
    }
    if text.starts_with('/') {
        format!("...{}", text.chars().skip(length - (width - 3)).collect::<String>())
    } else {
        format!("{}...", text.chars().take(width - 3).collect::<String>())
    }
}

/// Lines of at most `width` characters, broken between words and, where a word is too long, behind a `|` in it; what
/// is longer still is shortened. At least one line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    // Blanks in front show the depth of a tree.
    let depth = (text.len() - text.trim_start().len()).min(width / 2);
    let room = width - depth;
    let mut lines = Vec::new();
    let mut line = " ".repeat(depth);
    let mut empty = true;
    for word in text.split_whitespace() {
        let whole = word.chars().count() <= room;
        let pieces = if whole { vec![word] } else { word.split_inclusive('|').collect() };
        for (number, piece) in pieces.into_iter().enumerate() {
            let piece = shorten(piece, room);
            let gap = usize::from(number == 0 && !empty);
            if !empty && line.chars().count() + gap + piece.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            } else {
                line.push_str(&" ".repeat(gap));
            }
            line.push_str(&piece);
            empty = false;
        }
    }
    lines.push(line);
    lines
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_fit() {
        let mut table = Table::new([right("N"), left("NAME").at_most(10), left("WHAT")]);
        table.row(["1".into(), "short".into(), "word ".repeat(60)]);
        table.row(["22222".into(), "/a/very/long/path".into(), "end".into()]);
        let mut text = String::new();
        table.write(2, &mut text);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() > 4 && lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        let at = lines[0].find("WHAT").unwrap_or_default();
        assert!(at > 0 && lines[2].starts_with(&" ".repeat(at)), "the text goes on below itself");
        assert_eq!(lines.last().and_then(|line| line.find("end")), Some(at));
        assert!(text.contains("...ng/path"));
    }

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_act_on() {
        assert_eq!(clean("a\x1b[2Jb\nc\u{202e}d"), "a\\u{1b}[2Jb\\nc\\u{202e}d");
        assert_eq!(clean("Grüße"), "Grüße");
    }

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

    #[test]
    fn wide_letters_do_not_break_words_apart() {
        assert_eq!(wrap("äöü", 4), ["äöü"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("  one two", 6), ["  one", "two"]);
        assert_eq!(wrap("a MAP_ONE|MAP_TWO", 10), ["a MAP_ONE|", "MAP_TWO"]);
        assert_eq!(wrap("/long/path/name of it", 8), [".../name", "of it"]);
    }
}
