//! Plain walks: blocks of one size on one target, sequential, ordered inside pieces, permuted, or drawn evenly.
//!
//! Operations are chosen some tens at a time. Choosing one is short but not nothing, and a processor looks only a few hundred
//! instructions ahead: with the choosing between them, fewer of an engine's cache misses are under way together.

use pagelab_fiojob::words::MapOrder;
use pagelab_fiojob::{Direction, Operation};

use super::{Course, Order, PassLimit, Repeatable, Source};
use crate::random::{Permutation, SplitMix64, derive_seed};

/// Operations chosen at once.
const AHEAD: usize = 64;

/// The content of places not yet filled.
const NOTHING: Operation = Operation { direction: Direction::Read, offset: 0, bytes: 0 };

/// The operations of a worker, pass by pass.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Operations chosen and not yet given: those from `given` to `chosen`.
    ahead: [Operation; AHEAD],
    given: usize,
    chosen: usize,
    course: Course,
    walkers: [Walker; 2],
    /// Reads and writes take turns in one walk: each block comes once per pass, whichever way.
    shared: bool,
    draw: SplitMix64,
    /// A draw of 32 bits below this is a read.
    read_below: u64,
    /// The sum of bytes ends a pass, and the operation that reaches it may cross it: blocks drawn anew never run out, and mixed
    /// sequences run side by side, each with room of its own. Elsewhere a pass has the whole blocks that the region holds.
    ends_by_sum: bool,
    pass: u64,
    /// The pass whose way further ones repeat, and the state of chance before it.
    first: (u64, SplitMix64),
    /// The bytes that this pass was asked for: more than its blocks have, where these do not go into the region evenly.
    most_bytes: u64,
    bytes_left: u64,
    /// Bytes of the blocks chosen in this pass.
    chosen_bytes: u64,
    operations_left: u64,
    /// An operation of this pass found no room.
    out_of_room: bool,
}

impl Stream {
    /// A stream before its first pass. Call [`Stream::begin_pass`] first.
    pub fn new(course: Course) -> Self {
        let walkers = course
            .block_bytes
            .map(|bytes| Walker::new(course.order, course.region_bytes / u64::from(bytes.max(1)), course.seed));
        // Sequential readers and writers each keep a position of their own, as in fio; random ones share the blocks if they have one size.
        let random = matches!(course.order, Order::Permuted | Order::Drawn);
        let shared = random && course.block_bytes[0] == course.block_bytes[1];
        let draw = SplitMix64::new(derive_seed(course.seed, u64::MAX));
        Self {
            ahead: [NOTHING; AHEAD],
            given: 0,
            chosen: 0,
            walkers,
            shared,
            first: (0, draw.clone()),
            draw,
            read_below: (u64::from(course.read_percent) << 32) / 100,
            pass: 0,
            most_bytes: 0,
            bytes_left: 0,
            chosen_bytes: 0,
            ends_by_sum: course.order == Order::Drawn
                || (course.order == Order::Sequential && !matches!(course.read_percent, 0 | 100)),
            operations_left: 0,
            out_of_room: false,
            course,
        }
    }

    /// Chooses the next operations; none at the end of the pass.
    #[inline(never)]
    fn choose(&mut self) {
        (self.given, self.chosen) = (0, 0);
        match self.course.read_percent {
            100 => self.choose_in(Direction::Read),
            0 => self.choose_in(Direction::Write),
            _ => self.choose_mixed(),
        }
    }

    /// Chooses operations that all go one way.
    fn choose_in(&mut self, direction: Direction) {
        let index = direction as usize;
        let block_bytes = u64::from(self.course.block_bytes[index]);
        let bytes =
            if self.ends_by_sum { self.bytes_left.next_multiple_of(block_bytes.max(1)) } else { self.bytes_left };
        let possible = self.operations_left.min(bytes.checked_div(block_bytes).unwrap_or(0));
        let count = possible.min(AHEAD as u64) as usize;
        let (start, bytes) = (self.course.start, self.course.transfer_bytes[index]);
        let walker = if self.shared { 0 } else { index };
        let (ahead, draw) = (&mut self.ahead[..count], &mut self.draw);
        let (seed, pass) = (self.course.seed, self.pass);
        self.walkers[walker].walk(draw, seed, pass, ahead, |slot, block| {
            *slot = Operation { direction, offset: start + block * block_bytes, bytes };
        });
        self.chosen = count;
        self.operations_left -= count as u64;
        self.bytes_left = self.bytes_left.saturating_sub(count as u64 * block_bytes);
        self.chosen_bytes += count as u64 * block_bytes;
    }

    /// Chooses operations whose directions are drawn.
    fn choose_mixed(&mut self) {
        for slot in &mut self.ahead {
            let direction =
                if self.draw.next_u64() >> 32 < self.read_below { Direction::Read } else { Direction::Write };
            let block_bytes = u64::from(self.course.block_bytes[direction as usize]);
            let room = if self.ends_by_sum { self.bytes_left > 0 } else { self.bytes_left >= block_bytes };
            if !room && self.operations_left > 0 {
                // The pass ends with the first operation that has no room.
                (self.operations_left, self.out_of_room) = (0, true);
            }
            if self.operations_left == 0 {
                return;
            }
            self.bytes_left = self.bytes_left.saturating_sub(block_bytes);
            self.chosen_bytes += block_bytes;
            self.operations_left -= 1;
            let (start, bytes) = (self.course.start, self.course.transfer_bytes[direction as usize]);
            let walker = if self.shared { Direction::Read } else { direction };
            let (seed, pass) = (self.course.seed, self.pass);
            let slot = std::slice::from_mut(slot);
            self.walkers[walker as usize].walk(&mut self.draw, seed, pass, slot, |slot, block| {
                *slot = Operation { direction, offset: start + block * block_bytes, bytes };
            });
            self.chosen += 1;
        }
    }
}

impl Source for Stream {
    const VARIED: bool = false;
    const STAMPED: bool = false;

    fn begin_pass(&mut self, limit: PassLimit) {
        let region = self.course.region_bytes;
        // A limit of bytes lets the operation that crosses it happen; the end of the region does not.
        let smallest = u64::from(self.course.block_bytes[0].min(self.course.block_bytes[1])).max(1);
        self.bytes_left = match limit.bytes {
            Some(bytes) => region.min(bytes.div_ceil(smallest).saturating_mul(smallest)),
            None => region,
        };
        self.most_bytes = limit.bytes.map_or(region, |bytes| region.min(bytes));
        self.chosen_bytes = 0;
        (self.operations_left, self.out_of_room) = (limit.operations, false);
        (self.given, self.chosen) = (0, 0);
        if limit.repeats {
            self.draw = self.first.1.clone();
        } else {
            self.first = (self.pass, self.draw.clone());
        }
        for walker in &mut self.walkers {
            walker.begin_pass(self.course.seed, self.first.0);
        }
        self.pass += 1;
    }

    #[inline(always)]
    fn next_operation(&mut self) -> Option<Operation> {
        if self.given == self.chosen {
            self.choose();
        }
        let operation = self.ahead[..self.chosen].get(self.given).copied()?;
        self.given += 1;
        Some(operation)
    }

    fn finished(&self) -> bool {
        let asked_for_all = self.operations_left == 0 && !self.out_of_room;
        asked_for_all || self.covered() >= self.most_bytes
    }

    fn covered(&self) -> u64 {
        let waiting = self.ahead[self.given..self.chosen].iter();
        let not_given: u64 =
            waiting.map(|operation| u64::from(self.course.block_bytes[operation.direction as usize])).sum();
        self.chosen_bytes - not_given
    }

    fn passes(&self) -> u64 {
        self.pass
    }
}

impl Repeatable for Stream {
    fn repeats(&self, _: bool) -> bool {
        let [_, write] = self.course.block_bytes;
        // A mixed sequence may cross the end of the region by an operation, and begin again there.
        let crosses = self.ends_by_sum && !self.course.region_bytes.is_multiple_of(u64::from(write.max(1)));
        self.course.order == Order::Drawn || crosses
    }
}

/// A [`Stream`] whose writes each get contents of their own (`scramble_buffers`).
pub struct Stamped(pub Stream);

impl Source for Stamped {
    const VARIED: bool = false;
    const STAMPED: bool = true;

    fn begin_pass(&mut self, limit: PassLimit) {
        self.0.begin_pass(limit);
    }

    #[inline(always)]
    fn next_operation(&mut self) -> Option<Operation> {
        self.0.next_operation()
    }

    fn finished(&self) -> bool {
        self.0.finished()
    }

    fn covered(&self) -> u64 {
        self.0.covered()
    }

    fn passes(&self) -> u64 {
        self.0.passes()
    }
}

/// Walks over `blocks` blocks.
#[derive(Debug, Clone)]
struct Walker {
    order: Order,
    blocks: u64,
    next: u64,
    permutation: Permutation,
    /// First block of the present piece and the number of blocks in it.
    piece: (u64, u64),
    /// Blocks of the piece already given.
    in_piece: u64,
    /// Strided order: the next block of the piece, and the block that the present run over the piece began with.
    strided: (u64, u64),
}

impl Walker {
    fn new(order: Order, blocks: u64, seed: u64) -> Self {
        Self {
            order,
            blocks,
            next: 0,
            permutation: Permutation::new(blocks, seed),
            piece: (0, 0),
            in_piece: 0,
            strided: (0, 0),
        }
    }

    fn begin_pass(&mut self, seed: u64, pass: u64) {
        self.next = 0;
        self.piece = (0, 0);
        self.in_piece = 0;
        if self.order == Order::Permuted {
            self.permutation = Permutation::new(self.blocks, derive_seed(seed, pass));
        }
    }

    /// Gives the next block to each of `slots`. What kind of walk it is, is looked at once for all of them.
    #[inline(always)]
    fn walk(
        &mut self,
        draw: &mut SplitMix64,
        seed: u64,
        pass: u64,
        slots: &mut [Operation],
        mut give: impl FnMut(&mut Operation, u64),
    ) {
        match self.order {
            Order::Drawn => slots.iter_mut().for_each(|slot| give(slot, draw.below(self.blocks))),
            Order::Pieces { blocks, order, stride } => {
                for slot in slots {
                    give(slot, self.next_in_piece(blocks, order, stride, seed, pass));
                }
            }
            Order::Sequential => slots.iter_mut().for_each(|slot| give(slot, self.advance())),
            Order::Permuted => slots.iter_mut().for_each(|slot| {
                let index = self.advance();
                give(slot, self.permutation.at(index));
            }),
        }
    }

    /// Counts blocks from 0 and starts over at the end (reached when the other direction has smaller blocks).
    #[inline(always)]
    fn advance(&mut self) -> u64 {
        let index = self.next;
        self.next = if index + 1 >= self.blocks { 0 } else { index + 1 };
        index
    }

    #[inline(always)]
    fn next_in_piece(&mut self, piece_blocks: u64, order: MapOrder, stride: u64, seed: u64, pass: u64) -> u64 {
        if self.in_piece == self.piece.1 {
            self.begin_piece(piece_blocks, order, seed, pass);
        }
        let k = self.in_piece;
        self.in_piece += 1;
        let (first, count) = self.piece;
        first
            + match order {
                MapOrder::Ascending => k,
                MapOrder::Descending => count - 1 - k,
                MapOrder::Random => self.permutation.at(k),
                MapOrder::Strided => self.step(stride),
            }
    }

    /// The next block of a piece in strided order: a run takes each `stride`th block, the next run starts one block further on. Runs
    /// start at blocks below `stride`, so they have no block in common and all together have each.
    #[inline(always)]
    fn step(&mut self, stride: u64) -> u64 {
        let (block, run) = self.strided;
        let next = block.saturating_add(stride);
        self.strided = if next < self.piece.1 { (next, run) } else { (run + 1, run + 1) };
        block
    }

    #[cold]
    fn begin_piece(&mut self, piece_blocks: u64, order: MapOrder, seed: u64, pass: u64) {
        let next = self.piece.0 + self.piece.1;
        let first = if next >= self.blocks { 0 } else { next };
        self.piece = (first, piece_blocks.min(self.blocks - first).max(1));
        self.in_piece = 0;
        self.strided = (0, 0);
        if order == MapOrder::Random {
            self.permutation = Permutation::new(self.piece.1, derive_seed(derive_seed(seed, pass), first));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn course(order: Order, region: u64, bs: [u32; 2], read_percent: u8) -> Course {
        Course { start: 0, region_bytes: region, block_bytes: bs, transfer_bytes: bs, read_percent, order, seed: 42 }
    }

    fn pass(stream: &mut Stream, limit: PassLimit) -> Vec<Operation> {
        stream.begin_pass(limit);
        std::iter::from_fn(|| stream.next_operation()).collect()
    }

    #[test]
    fn sequential_passes_cover_the_region_in_order() {
        let mut stream = Stream::new(Course { start: 512, ..course(Order::Sequential, 10_000, [4096, 4096], 100) });
        for _ in 0..2 {
            let offsets: Vec<u64> = pass(&mut stream, PassLimit::REGION).iter().map(|op| op.offset).collect();
            assert_eq!(offsets, vec![512, 4608], "the tail that holds no block is left out, as in fio");
        }
    }

    #[test]
    fn limits_round_as_fio_rounds() {
        let mut stream = Stream::new(course(Order::Sequential, 64 << 10, [4096, 4096], 0));
        let bytes = |bytes| PassLimit { bytes: Some(bytes), ..PassLimit::REGION };
        // fio 3.33: size=64k io_size=10k does 3 operations; io_size=32k does 8.
        assert_eq!(pass(&mut stream, bytes(10 << 10)).len(), 3);
        assert_eq!(pass(&mut stream, bytes(32 << 10)).len(), 8);
        assert_eq!(pass(&mut stream, bytes(1 << 30)).len(), 16);
        assert_eq!(pass(&mut stream, PassLimit { operations: 5, ..PassLimit::REGION }).len(), 5);
    }

    #[test]
    fn pieces_are_walked_in_their_order() {
        let order = Order::Pieces { blocks: 4, order: MapOrder::Descending, stride: 1 };
        let mut stream = Stream::new(course(order, 10 * 4096, [4096, 4096], 0));
        for _ in 0..2 {
            let blocks: Vec<u64> = pass(&mut stream, PassLimit::REGION).iter().map(|op| op.offset / 4096).collect();
            assert_eq!(blocks, vec![3, 2, 1, 0, 7, 6, 5, 4, 9, 8]);
        }
    }

    #[test]
    fn strided_pieces_are_run_over_once_for_each_block_of_the_stride() {
        let walk = |blocks, stride| {
            let order = Order::Pieces { blocks, order: MapOrder::Strided, stride };
            let mut stream = Stream::new(course(order, 10 * 4096, [4096, 4096], 0));
            let first: Vec<u64> = pass(&mut stream, PassLimit::REGION).iter().map(|op| op.offset / 4096).collect();
            let second: Vec<u64> = pass(&mut stream, PassLimit::REGION).iter().map(|op| op.offset / 4096).collect();
            assert_eq!(first, second, "each pass begins anew");
            first
        };
        assert_eq!(walk(6, 2), [0, 2, 4, 1, 3, 5, 6, 8, 7, 9]);
        assert_eq!(walk(10, 4), [0, 4, 8, 1, 5, 9, 2, 6, 3, 7]);
        assert_eq!(walk(10, 1), (0..10).collect::<Vec<u64>>());
        assert_eq!(walk(3, 100), (0..10).collect::<Vec<u64>>());
    }

    #[test]
    fn random_pieces_stay_together() {
        let order = Order::Pieces { blocks: 16, order: MapOrder::Random, stride: 1 };
        let mut stream = Stream::new(course(order, 64 * 4096, [4096, 4096], 100));
        let blocks: Vec<u64> = pass(&mut stream, PassLimit::REGION).iter().map(|op| op.offset / 4096).collect();
        for (piece, chunk) in blocks.chunks(16).enumerate() {
            let mut sorted = chunk.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (piece as u64 * 16..piece as u64 * 16 + 16).collect::<Vec<_>>());
            assert_ne!(chunk, sorted, "sixteen blocks in order by chance: one in 2e13");
        }
    }

    #[test]
    fn mixed_sequential_directions_keep_their_own_places() {
        let mut stream = Stream::new(course(Order::Sequential, 1 << 20, [8192, 4096], 50));
        let ops = pass(&mut stream, PassLimit::REGION);
        for direction in Direction::ALL {
            let offsets: Vec<u64> = ops.iter().filter(|op| op.direction == direction).map(|op| op.offset).collect();
            let step = u64::from(if direction == Direction::Read { 8192_u32 } else { 4096 });
            assert!(offsets.iter().enumerate().all(|(i, offset)| *offset == i as u64 * step));
        }
        let total: u64 = ops.iter().map(|op| u64::from(op.bytes)).sum();
        // The operation that reaches the size may cross it, as in fio.
        assert!(((1 << 20)..(1 << 20) + 8192).contains(&total));
    }

    #[test]
    fn shares_of_reads_are_kept() {
        let mut stream = Stream::new(course(Order::Permuted, 4096 * 100_000, [4096, 4096], 70));
        let ops = pass(&mut stream, PassLimit::REGION);
        let reads = ops.iter().filter(|op| op.direction == Direction::Read).count() as f64 / ops.len() as f64;
        // Five standard deviations of a binomial share at n = 1e5.
        assert!((reads - 0.7).abs() < 0.0073, "{reads}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_block_comes_once_per_pass(blocks in 1_u64..3000, bs in 1_u32..9000, start in 0_u64..1 << 40, mixed: bool, piece in 1_u64..100, stride in 1_u64..120) {
            let pieces = |order| Order::Pieces { blocks: piece, order, stride };
            let orders = [MapOrder::Descending, MapOrder::Random, MapOrder::Strided].map(pieces);
            for order in [Order::Sequential, Order::Permuted].into_iter().chain(orders) {
                let random = order == Order::Permuted;
                let mut stream = Stream::new(Course {
                    start,
                    region_bytes: blocks * u64::from(bs),
                    block_bytes: [bs, bs],
                    transfer_bytes: [bs, bs],
                    read_percent: if mixed && random { 30 } else { 100 },
                    order,
                    seed: start ^ blocks,
                });
                let mut orders = Vec::new();
                for _ in 0..2 {
                    let mut seen = vec![false; blocks as usize];
                    let ops = pass(&mut stream, PassLimit::REGION);
                    prop_assert_eq!(ops.len() as u64, blocks);
                    for op in &ops {
                        let block = ((op.offset - start) / u64::from(bs)) as usize;
                        prop_assert_eq!((op.offset - start) % u64::from(bs), 0);
                        prop_assert!(!std::mem::replace(&mut seen[block], true));
                    }
                    orders.push(ops.iter().map(|op| op.offset).collect::<Vec<_>>());
                }
                if random && blocks > 50 {
                    prop_assert_ne!(&orders[0], &orders[1], "each pass has its own order");
                }
            }
        }
    }
}
