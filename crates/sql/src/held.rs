//! Holds the beginning of a result back, so that a query that fails can run once more.

use std::io::{self, Write};

/// Bytes of a result that are held back until the query has ended. A longer result is written as it comes.
pub const HELD_BYTES: usize = 16 << 20;

/// A writer that keeps the first [`HELD_BYTES`] to itself.
pub struct Held<'w> {
    out: &'w mut (dyn Write + Send),
    held: Vec<u8>,
    is_released: bool,
}

impl<'w> Held<'w> {
    /// Holds back what is written to `out`.
    pub fn new(out: &'w mut (dyn Write + Send)) -> Self {
        Self { out, held: Vec::new(), is_released: false }
    }

    /// Forgets the output so far. False if some of it has gone out.
    pub fn take_back(&mut self) -> bool {
        self.held.clear();
        !self.is_released
    }

    /// Writes what is held, and from now on everything at once.
    pub fn release(&mut self) -> io::Result<()> {
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
