//! Holds the beginning of a result back, so that a query that fails can run once more.

use std::io::{self, Write};

/// Bytes of a result that are held back until the query has ended. A longer result is written as it comes.
pub const HELD_BYTES: usize = 16 << 20;

/// A writer that keeps the first [`HELD_BYTES`] to itself.
pub(crate) struct Held<'w> {
    out: &'w mut (dyn Write + Send),
    held: Vec<u8>,
    is_released: bool,
}

impl<'w> Held<'w> {
    pub(crate) fn new(out: &'w mut (dyn Write + Send)) -> Self {
        Self { out, held: Vec::new(), is_released: false }
    }

    /// Forgets the output so far. False if some of it has gone out.
    pub(crate) fn take_back(&mut self) -> bool {
        self.held.clear();
        !self.is_released
    }

    /// Writes what is held, and from now on everything at once.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        self.is_released = true;
        self.out.write_all(&self.held)?;
        self.held = Vec::new();
        self.out.flush()
    }
}

impl Write for Held<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_released {
            return self.out.write(bytes);
        }
        self.held.extend_from_slice(bytes);
        if self.held.len() > HELD_BYTES {
            self.release()?;
        }
        Ok(bytes.len())
    }

    /// What is held stays held.
    fn flush(&mut self) -> io::Result<()> {
        if self.is_released { self.out.flush() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use super::{HELD_BYTES, Held};

    #[test]
    fn a_short_result_can_be_taken_back_and_a_long_one_not() {
        let mut out = Vec::new();
        let mut held = Held::new(&mut out);
        held.write_all(b"wrong").unwrap();
        held.flush().unwrap();
        assert!(held.take_back());
        held.write_all(b"right").unwrap();
        held.release().unwrap();
        assert_eq!(out, b"right");

        let mut out = Vec::new();
        let mut held = Held::new(&mut out);
        let block = vec![b'x'; HELD_BYTES / 2];
        for _ in 0..3 {
            held.write_all(&block).unwrap();
        }
        assert!(!held.take_back());
        assert_eq!(out.len(), block.len() * 3);
    }
}
