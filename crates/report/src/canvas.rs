//! A picture of dots: eight to a character in braille, one in ASCII.

use crate::style::Glyphs;

/// Dots and letters on a grid of characters.
pub(crate) struct Canvas {
    columns: usize,
    rows: usize,
    glyphs: Glyphs,
    cells: Vec<u8>,
    letters: Vec<Option<char>>,
}

/// Bits of a braille character (U+2800 and up) by dot column and row, after the Unicode standard, chapter 21.
const BRAILLE: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

impl Canvas {
    pub(crate) fn new(columns: usize, rows: usize, glyphs: Glyphs) -> Self {
        let cells = columns * rows;
        Self { columns, rows, glyphs, cells: vec![0; cells], letters: vec![None; cells] }
    }

    /// Dots across and down.
    fn dots(&self) -> (usize, usize) {
        match self.glyphs {
            Glyphs::Braille => (self.columns * 2, self.rows * 4),
            Glyphs::Ascii => (self.columns, self.rows),
        }
    }

    /// Sets the dot at `x`, `y`, each from 0 to 1, y upwards.
    pub(crate) fn dot(&mut self, x: f64, y: f64) {
        let (across, down) = self.dots();
        let (column, row) = (place(x, across), down - 1 - place(y, down));
        let (cell, bit) = match self.glyphs {
            Glyphs::Braille => {
                let bit = BRAILLE.get(column % 2).and_then(|bits| bits.get(row % 4)).copied().unwrap_or(0);
                (row / 4 * self.columns + column / 2, bit)
            }
            Glyphs::Ascii => (row * self.columns + column, 1),
        };
        if let Some(cell) = self.cells.get_mut(cell) {
            *cell |= bit;
        }
    }

    /// Puts a letter at `x`, `y`, over any dots.
    pub(crate) fn letter(&mut self, x: f64, y: f64, letter: char) {
        let (column, row) = (place(x, self.columns), self.rows - 1 - place(y, self.rows));
        if let Some(cell) = self.letters.get_mut(row * self.columns + column) {
            *cell = Some(letter);
        }
    }

    /// The text of one row, from the top.
    pub(crate) fn row(&self, row: usize) -> String {
        let range = row * self.columns..(row + 1) * self.columns;
        let (Some(cells), Some(letters)) = (self.cells.get(range.clone()), self.letters.get(range)) else {
            return String::new();
        };
        cells.iter().zip(letters).map(|(dots, letter)| letter.unwrap_or_else(|| self.glyph(*dots))).collect()
    }

    fn glyph(&self, dots: u8) -> char {
        match (self.glyphs, dots) {
            (_, 0) => ' ',
            (Glyphs::Ascii, _) => '*',
            (Glyphs::Braille, dots) => char::from_u32(0x2800 + u32::from(dots)).unwrap_or('*'),
        }
    }
}

fn place(at: f64, places: usize) -> usize {
    ((at.clamp(0.0, 1.0) * places as f64) as usize).min(places.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_are_where_they_should_be() {
        for glyphs in [Glyphs::Ascii, Glyphs::Braille] {
            let mut canvas = Canvas::new(4, 3, glyphs);
            canvas.dot(0.0, 1.0);
            canvas.dot(1.0, 0.0);
            let first = canvas.row(0).chars().next();
            assert!(first.is_some_and(|c| c != ' '), "top left");
            assert!(canvas.row(2).chars().last().is_some_and(|c| c != ' '), "bottom right");
            assert_eq!(canvas.row(1), "    ");
        }
    }

    #[test]
    fn braille_holds_eight_dots() {
        let mut canvas = Canvas::new(1, 1, Glyphs::Braille);
        for x in [0.1, 0.9] {
            for y in [0.1, 0.3, 0.6, 0.9] {
                canvas.dot(x, y);
            }
        }
        assert_eq!(canvas.row(0), "\u{28ff}");
    }

    #[test]
    fn letters_lie_on_top() {
        let mut canvas = Canvas::new(2, 1, Glyphs::Ascii);
        canvas.dot(0.0, 0.0);
        canvas.letter(0.0, 0.0, 'm');
        assert_eq!(canvas.row(0), "m ");
    }
}
