//! Rows in columns.

/// On which side a column's values line up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table of text: headings, rows, two spaces between columns.
#[derive(Debug, Clone)]
pub struct Table {
    headings: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        Self { headings: columns.into_iter().map(|(name, align)| (name.into(), align)).collect(), rows: Vec::new() }
    }

    /// Adds a row; cells beyond the columns are dropped, missing ones are empty.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.headings.len(), String::new());
        self.rows.push(row);
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text: headings, a rule, rows. Where it is wider than `width`, the widest left-aligned column is cut, its
    /// cells ending in `..`; numbers are never cut.
    pub fn render(&self, width: usize) -> String {
        let widths = self.widths(width);
        let mut out = String::new();
        let headings: Vec<&str> = self.headings.iter().map(|(name, _)| name.as_str()).collect();
        self.line(&headings, &widths, &mut out);
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        self.line(&rules.iter().map(String::as_str).collect::<Vec<_>>(), &widths, &mut out);
        for row in &self.rows {
            self.line(&row.iter().map(String::as_str).collect::<Vec<_>>(), &widths, &mut out);
        }
        out
    }

    fn widths(&self, limit: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headings.iter().map(|(name, _)| name.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        loop {
            let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
            let left = self.headings.iter().map(|(_, align)| *align == Align::Left);
            let widest =
                widths.iter_mut().zip(left).filter(|(width, left)| *left && **width > 8).map(|(width, _)| width).max();
            match widest {
                Some(widest) if total > limit => *widest -= (total - limit).min(*widest - 8),
                _ => return widths,
            }
        }
    }

    fn line(&self, cells: &[&str], widths: &[usize], out: &mut String) {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.iter().zip(widths).zip(&self.headings) {
            let cell = cut(cell, *width);
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            match align {
                Align::Left => {
                    line.push_str(&cell);
                    line.push_str(&gap);
                }
                Align::Right => {
                    line.push_str(&gap);
                    line.push_str(&cell);
                }
            }
            line.push_str("  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let kept: String = cell.chars().take(width.saturating_sub(2)).collect();
    format!("{kept}..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new([("name", Align::Left), ("n", Align::Right)]);
        table.row(["faults", "12"]);
        table.row(["x", "12345"]);
        assert_eq!(table.render(80), "name        n\n------  -----\nfaults     12\nx       12345\n");
    }

    #[test]
    fn long_text_is_cut_and_numbers_are_not() {
        let mut table = Table::new([("path", Align::Left), ("bytes", Align::Right)]);
        table.row(["/a/very/long/path/that/does/not/fit/into/the/line".to_owned(), "123456789".to_owned()]);
        let text = table.render(30);
        assert!(text.lines().all(|line| line.chars().count() <= 30), "{text}");
        assert!(text.contains("..") && text.contains("123456789"));
    }

    #[test]
    fn short_rows_are_filled() {
        let mut table = Table::new([("a", Align::Left), ("b", Align::Left)]);
        table.row(["only"]);
        assert_eq!(table.render(80).lines().last(), Some("only"));
    }
}
