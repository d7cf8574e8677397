//! Which operation comes next.
//!
//! There are two sources of operations. [`stream`] covers what most jobs do, blocks of one size on one target, and is what the
//! tight loop is compiled with. [`varied`] covers everything else of the job language: several files, lengths that vary, sequences
//! with jumps, distributions. It is chosen once for a job, so that plain jobs do not pay for it.

pub mod chance;
pub mod lengths;
pub mod map;
pub mod replayed;
pub mod service;
pub mod stream;
pub mod varied;

use pagelab_fiojob::words::MapOrder;
use pagelab_fiojob::{Direction, Operation};

pub use replayed::Replayed;
pub use stream::{Stamped, Stream};
pub use varied::{Varied, VariedCourse};

/// The order of blocks in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Upwards.
    Sequential,
    /// Upwards by pieces of this many blocks; inside each piece by the given order.
    Pieces {
        /// Blocks in a piece.
        blocks: u64,
        /// Their order.
        order: MapOrder,
        /// Blocks from one to the next, where the order is strided.
        stride: u64,
    },
    /// Each block once, in an order that the seed decides and that differs from pass to pass.
    Permuted,
    /// Each block drawn independently.
    Drawn,
}

/// Where and how a worker moves; fixed for the whole job.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// First byte of the region.
    pub start: u64,
    /// Bytes of the region.
    pub region_bytes: u64,
    /// Block size of reads and of writes: the distance from one block to the next.
    pub block_bytes: [u32; 2],
    /// Bytes transferred of each block, from its start, for reads and for writes; at most the block.
    pub transfer_bytes: [u32; 2],
    /// Percentage of reads: 0, 100, or between for mixed patterns.
    pub read_percent: u8,
    /// Order of blocks.
    pub order: Order,
    /// Seed.
    pub seed: u64,
}

/// When a pass ends, besides with the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassLimit {
    /// Bytes at which the pass ends: it goes on while fewer were issued. `None`: once the region.
    pub bytes: Option<u64>,
    /// Operations at which it ends.
    pub operations: u64,
    /// It goes the way of the first pass once more; else chance goes on, and random blocks come in another order.
    pub repeats: bool,
}

impl PassLimit {
    /// Once the region, whatever that takes.
    pub const REGION: Self = Self { bytes: None, operations: u64::MAX, repeats: false };
}

/// A log's requests between operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// No operation before this long after the last one.
    Delay {
        /// How long, ns.
        ns: u64,
    },
    /// Nothing before this long after the start.
    Until {
        /// How long, ns.
        ns: u64,
    },
    /// A flush.
    Flush {
        /// The file, by place among the worker's files.
        file: usize,
        /// Data only.
        data_only: bool,
    },
}

/// Where a worker's operations come from.
pub trait Source {
    /// Whether operations change files, can be steered to a direction, or need their buffers filled one by one.
    const VARIED: bool;
    /// Whether each write gets contents of its own.
    const STAMPED: bool;

    /// Starts over from the beginning of the region. Call it before the first operation, too.
    fn begin_pass(&mut self, limit: PassLimit);

    /// The next operation of the pass; `None` at its end.
    fn next_operation(&mut self) -> Option<Operation>;

    /// Bytes of the blocks given in this pass.
    fn covered(&self) -> u64;

    /// Passes begun.
    fn passes(&self) -> u64;

    /// Whether the pass has nothing more to give, as far as that is known without looking for an operation.
    fn finished(&self) -> bool {
        false
    }

    /// The direction that the pattern asks for next.
    fn draw_direction(&mut self) -> Direction {
        Direction::Read
    }

    /// The next operation, in this direction.
    fn next_in(&mut self, direction: Direction) -> Option<Operation> {
        let _ = direction;
        self.next_operation()
    }

    /// The request to carry out before the next operation; `None` when it may come.
    fn next_step(&mut self) -> Option<Step> {
        None
    }

    /// The file of the operation given last, by place among the worker's files.
    fn file(&self) -> usize {
        0
    }

    /// A file that no operation of this pass will touch again and that is still open; each is given once.
    fn take_done_file(&mut self) -> Option<usize> {
        None
    }

    /// Whether a block was trimmed that is still to be written.
    fn owes_write(&self) -> bool {
        false
    }

    /// The file whose turn it is to be flushed.
    fn next_file_to_flush(&mut self) -> usize {
        self.file()
    }
}

/// A source whose pass can be gone again from a copy made when it began.
pub trait Repeatable: Source + Clone {
    /// Whether a pass may write a byte twice, or cannot be gone again in the same way. `flushes`: files are flushed between.
    fn repeats(&self, flushes: bool) -> bool;
}
