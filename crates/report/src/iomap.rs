//! Offset against time of the reads and writes of one file: how dense they are.

use std::fmt::Write as _;

use pagelab_views::iopattern::Grid;
use pagelab_views::mappings::bytes;
use pagelab_vocab::units::{count, duration};

use crate::paragraph::wrap;
use crate::style::{Glyphs, Style};
use crate::table::clean;

/// Columns left of the picture.
const MARGIN: usize = 11;

/// From few operations to many.
const ASCII: [char; 5] = ['.', ':', '+', '*', '#'];
const SHADES: [char; 4] = ['\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];

/// Columns that a picture of this style has for its cells.
pub fn io_map_columns(style: &Style) -> usize {
    style.width.saturating_sub(MARGIN + 2).max(20)
}

/// The pictures of reads and of writes, as far as there are any.
pub fn io_map(title: &str, grid: &Grid, style: &Style) -> String {
    let mut out = String::new();
    for (what, cells) in [("reads", &grid.reads), ("writes", &grid.writes)] {
        let most = cells.iter().copied().max().unwrap_or(0);
        if most == 0 {
            continue;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        // A recording must not draw on the terminal with the names that are in it.
        out.push_str(&wrap(&format!("{what} of {}: offset against time", clean(title)), style.width, "", "  "));
        picture(grid, cells, most, style, &mut out);
    }
    out
}

fn picture(grid: &Grid, cells: &[u64], most: u64, style: &Style, out: &mut String) {
    let shades: &[char] = if style.glyphs == Glyphs::Ascii { &ASCII } else { &SHADES };
    for row in (0..grid.rows).rev() {
        let label = match row {
            _ if row + 1 == grid.rows => bytes(grid.high),
            0 => bytes(grid.low),
            _ => String::new(),
        };
        let line = cells.get(row * grid.columns..(row + 1) * grid.columns).unwrap_or_default();
        let line: String = line.iter().map(|n| shade(*n, most, shades)).collect();
        let text = format!("{label:>width$} |{line}", width = MARGIN - 2);
        let _ = writeln!(out, "{}", text.trim_end());
    }
    let span = grid.end_ns.saturating_sub(grid.start_ns);
    let _ = writeln!(out, "{:>width$} +{}", "", "-".repeat(grid.columns), width = MARGIN - 2);
    let end = duration(span as f64);
    let gap = grid.columns.saturating_sub(1 + end.len());
    let _ = writeln!(out, "{:>width$}0{}{end}", "", " ".repeat(gap), width = MARGIN);
    let legend: String = shades.iter().collect();
    let said = format!("{legend} from 1 to {} operations in a cell, each step a factor", count(most));
    out.push_str(&wrap(&said, style.width, "  ", "  "));
}

/// Steps are of equal factors: a few operations are not to vanish next to thousands.
fn shade(n: u64, most: u64, shades: &[char]) -> char {
    if n == 0 {
        return ' ';
    }
    let place = (n as f64).ln() / (most.max(2) as f64).ln() * shades.len() as f64;
    shades.get((place as usize).min(shades.len() - 1)).copied().unwrap_or('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_line_rises() {
        let style = Style { width: 40, ..Style::default() };
        let columns = io_map_columns(&style);
        let mut grid = Grid::new((0, 1000), (0, 1000), columns, 4);
        for at in 0..1000 {
            grid.add(at, at as u64, 1, false);
        }
        let text = io_map("/a", &grid, &style);
        let line = |n: usize| text.lines().nth(n).unwrap_or_default().to_owned();
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(line(1).ends_with('#') && line(1).contains("1000 B |   "), "{text}");
        assert!(line(4).contains("0 B |#"), "{text}");
        assert!(!text.contains("writes"));
        assert!(!io_map("\x1b[2J", &grid, &style).contains('\x1b'));
        assert_eq!(io_map("/a", &Grid::new((0, 1), (0, 1), 3, 3), &style), "");
    }
}
