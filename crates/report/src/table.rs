//! Rows in columns.
//!
//! Names in a recording were chosen by other programs: they may hold line ends and escape sequences. Every cell goes
//! through [`clean`], so that a recording cannot draw on its reader's terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

pub use pagelab_vocab::terminal::escape as clean;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Default width of tables.
pub(crate) const WIDTH: usize = 100;

/// Least width left to the last column, however wide the others are.
const LAST_AT_LEAST: usize = 24;
/// Columns of text are not cut further than this to make a table fit.
const TEXT_AT_LEAST: usize = 8;

/// One column.
#[derive(Debug, Clone)]
pub struct Column {
    head: Cow<'static, str>,
    right: bool,
    at_most: usize,
}

/// A column of text.
pub fn left(head: impl Into<Cow<'static, str>>) -> Column {
    Column { head: head.into(), right: false, at_most: usize::MAX }
}

/// A column of numbers.
pub fn right(head: impl Into<Cow<'static, str>>) -> Column {
    Column { head: head.into(), right: true, at_most: usize::MAX }
}

impl Column {
    /// Longer texts are shortened to `width`.
    pub fn at_most(self, width: usize) -> Self {
        Self { at_most: width, ..self }
    }
}

/// A table. A last column of text takes what is left of the line and goes on in the next one if that is too little;
/// where that does not do, the widest columns of text are cut. Numbers are never cut.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    width: usize,
    ruled: bool,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new(), width: WIDTH, ruled: false }
    }

    /// Lines of at most `width` characters, if the numbers leave that much.
    pub fn wide(self, width: usize) -> Self {
        Self { width, ..self }
    }

    /// A rule below the heads.
    pub fn ruled(self) -> Self {
        Self { ruled: true, ..self }
    }

    /// Appends a row: one cell for each column; cells beyond the columns are dropped, missing ones are empty.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().zip(&self.columns);
        let mut row: Vec<String> = cells.map(|(cell, column)| shorten(&clean(cell.as_ref()), column.at_most)).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// The table as text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.write(0, &mut out);
        out
    }

    /// Appends the table to `out`, each line behind `indent` blanks.
    pub fn write(&self, indent: usize, out: &mut String) {
        let widths = self.widths(indent);
        self.line(indent, &widths, self.columns.iter().map(|column| column.head.as_ref()), out);
        if self.ruled {
            let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            self.line(indent, &widths, rules.iter().map(String::as_str), out);
        }
        for row in &self.rows {
            self.line(indent, &widths, row.iter().map(String::as_str), out);
        }
    }

    fn line<'a>(&self, indent: usize, widths: &[usize], cells: impl Iterator<Item = &'a str>, out: &mut String) {
        let mut line = " ".repeat(indent);
        let last = self.columns.len().saturating_sub(1);
        for (at, ((cell, column), width)) in cells.zip(&self.columns).zip(widths).enumerate() {
            let parts = if at == last { wrap(cell, *width) } else { vec![shorten(cell, *width)] };
            let before = " ".repeat(line.width());
            for (number, part) in parts.iter().enumerate() {
                if number > 0 {
                    out.push_str(line.trim_end());
                    out.push('\n');
                    line.clone_from(&before);
                }
                let gap = " ".repeat(width.saturating_sub(part.width()));
                let _ = if column.right { write!(line, "{gap}{part}  ") } else { write!(line, "{part}{gap}  ") };
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }

    /// The widths of the columns: as their cells need, unless a line is too long.
    fn widths(&self, indent: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.head.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let Some(last) = self.columns.len().checked_sub(1) else { return widths };
        let wraps = !self.columns[last].right;
        let wanted = widths[last];
        if wraps {
            widths[last] = wanted.min(LAST_AT_LEAST);
        }
        let length = |widths: &[usize]| indent + 2 * last + widths.iter().sum::<usize>();
        while length(&widths) > self.width {
            let cuttable = |(width, column): &(&mut usize, &Column)| {
                !column.right && **width > TEXT_AT_LEAST.max(column.head.width())
            };
            let text = widths.iter_mut().zip(&self.columns).filter(cuttable);
            let Some((widest, _)) = text.max_by_key(|(width, _)| **width) else { break };
            *widest -= 1;
        }
        if wraps {
            widths[last] = wanted.min(widths[last] + self.width.saturating_sub(length(&widths)));
        }
        widths
    }
}

/// At most `width` characters: of a path the end is kept, of other text the beginning.
pub fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width || width < 4 {
        return text.to_owned();
    }
    if text.starts_with('/') {
        let end: Vec<char> = fitting(text.chars().rev(), width - 3);
        format!("...{}", end.into_iter().rev().collect::<String>())
    } else {
        format!("{}...", fitting(text.chars(), width - 3).into_iter().collect::<String>())
    }
}

/// The first letters that fit into `columns` columns: some letters take two, and some none.
fn fitting(letters: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut left = columns;
    let mut taken = Vec::new();
    for letter in letters {
        let wide = letter.width().unwrap_or(0);
        if wide > left {
            break;
        }
        left -= wide;
        taken.push(letter);
    }
    taken
}

/// Lines of at most `width` columns, broken between words and, where a word is too long, behind a `|` in it; what
/// is longer still is shortened. At least one line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    // Blanks in front show the depth of a tree.
    let depth = (text.len() - text.trim_start().len()).min(width / 2);
    let room = width - depth;
    let mut lines = Vec::new();
    let mut line = " ".repeat(depth);
    let mut empty = true;
    for word in text.split_whitespace() {
        let whole = word.width() <= room;
        let pieces = if whole { vec![word] } else { word.split_inclusive('|').collect() };
        for (number, piece) in pieces.into_iter().enumerate() {
            let piece = shorten(piece, room);
            let gap = usize::from(number == 0 && !empty);
            if !empty && line.width() + gap + piece.width() > width {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_fit() {
        let mut table = Table::new([right("N"), left("NAME").at_most(10), left("WHAT")]);
        table.row(["1", "short", &"word ".repeat(60)]);
        table.row(["22222", "/a/very/long/path", "end"]);
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
    fn wide_columns_of_text_give_way_and_numbers_do_not() {
        let long = "/a/very/long/path/that/does/not/fit/into/a/line/together/with/another/one/of/its/own/length";
        let mut table = Table::new([left("PATH"), right("BYTES"), left("OTHER"), right("N")]);
        table.row([long, "123456789012345678", long, "123456789"]);
        for width in [100, 72, 64] {
            let text = table.clone().wide(width).render();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("123456789012345678") && text.contains("own/length"), "{text}");
        }
    }

    #[test]
    fn rules_and_missing_cells() {
        let mut table = Table::new([left("name"), right("n")]).ruled();
        table.row(["faults", "12"]);
        table.row(["x"]);
        assert_eq!(table.render(), "name     n\n------  --\nfaults  12\nx\n");
    }

    #[test]
    fn letters_of_two_columns_are_counted_as_two() {
        let mut table = Table::new([left("NAME").at_most(8), right("N")]);
        table.row(["数据库数据库", "1"]);
        table.row(["plain", "2"]);
        assert_eq!(table.render(), "NAME     N\n数据...  1\nplain    2\n");
        assert_eq!(shorten("/数据库/数据库", 8), "...据库");
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
