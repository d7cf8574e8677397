//! Everything beyond plain walks: several files, lengths that vary, sequences with jumps, distributions, random and sequential mixed.
//!
//! Sequential positions follow fio 3.33 to the byte, including its rules at the end of a file. A file ends when one
//! direction has no next operation in it, and operations never cross the end of their file. A pass ends with the last
//! file or, with engines that have a queue, when as many bytes were given as the job's size has.

use pagelab_fiojob::chances::{Distribution, FileService};
use pagelab_fiojob::words::{Modifier, Sequencer};
use pagelab_fiojob::zones::Stride;
use pagelab_fiojob::{Direction, Lengths, Operation};

use super::chance::Chance;
use super::lengths;
use super::map::RandomMap;
use super::service::Service;
use super::{PassLimit, Repeatable, Source};
use crate::random::{Permutation, SplitMix64, derive_seed};

/// Where a worker moves in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSpan {
    /// First byte of the region.
    pub start: u64,
    /// Bytes of the region.
    pub region_bytes: u64,
    /// Length of the file, from its first byte.
    pub file_bytes: u64,
    /// First byte of the region in further loops. As in fio, which takes percentages (and `file_append`) anew then, of the file as it was
    /// laid out; and up to this and the region's length blocks of several lengths are thought to fit.
    pub start_again: u64,
}

impl FileSpan {
    /// A region that begins in the same place in each loop.
    pub(crate) fn fixed(start: u64, region_bytes: u64, file_bytes: u64) -> Self {
        Self { start, region_bytes, file_bytes, start_again: start }
    }

    /// Whether the file has all bytes of each zone that begins in it.
    pub(crate) fn holds_zones(&self, stride: Stride) -> bool {
        let bytes = self.file_bytes.saturating_sub(self.start);
        let Some(last) = bytes.checked_sub(1) else { return true };
        let step = stride.range_bytes.saturating_add(stride.skip_bytes).max(1);
        bytes - last / step * step >= stride.range_bytes
    }
}

/// What a worker's operations are made by; fixed for the whole job.
// Independent facts about a pattern, each an option of its own: not a state machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct VariedCourse {
    /// Its files.
    pub files: Vec<FileSpan>,
    /// How they take turns.
    pub service: FileService,
    /// At most this many are open.
    pub open_files: usize,
    /// Bytes of a pass.
    pub pass_bytes: u64,
    /// A pass ends when as many bytes were given; else only with its files, or with what is left to do in all passes.
    pub ends_at_size: bool,
    /// Percentage of reads.
    pub read_percent: u8,
    /// The job trims: only that, or each block before it writes it.
    pub trims: bool,
    /// The job writes.
    pub writes: bool,
    /// Lengths of operations, by direction.
    pub lengths: [Lengths; Direction::COUNT],
    /// Lengths of reads for sequential operations, of writes for random ones.
    pub lengths_by_order: bool,
    /// Bytes transferred of each operation at most (`map_touch`).
    pub touch_bytes: u32,
    /// Random starts are multiples of this, by direction.
    pub align_bytes: [u32; Direction::COUNT],
    /// A random pattern.
    pub random: bool,
    /// Share of random operations in a random pattern, by direction.
    pub random_percent: [u8; Direction::COUNT],
    /// The modifier of `rw`.
    pub modifier: Modifier,
    /// The rule for operations between random blocks.
    pub sequencer: Sequencer,
    /// How random blocks lie.
    pub distribution: Distribution,
    /// Each block once per pass.
    pub once: bool,
    /// `random_generator=lfsr`: as in fio a sequence has each number once, of as many as there are blocks of the least length, wherever they
    /// may start; no map is kept of the bytes that operations of other lengths touch.
    pub by_sequence: bool,
    /// A file at its end starts over (`time_based`).
    pub endless: bool,
    /// The region is worked on zone by zone.
    pub stride: Option<Stride>,
    /// Seed.
    pub seed: u64,
}

impl VariedCourse {
    /// Each random block comes once, and which those are depends on the lengths drawn, or on the direction: a map is kept.
    fn is_mapped(&self) -> bool {
        let [read, write, trim] = &self.lengths;
        let one = if self.lengths_by_order { write.fixed() } else { read.fixed() && read == write && read == trim };
        self.random && self.once && !self.by_sequence && !one
    }

    /// Bytes of all maps.
    pub(crate) fn map_bytes(&self) -> u64 {
        if !self.is_mapped() {
            return 0;
        }
        let least = self.least_block();
        self.files.iter().map(|file| self.random_bytes(file) / least / 8).fold(0, u64::saturating_add)
    }

    /// Bytes of a file that random blocks lie in.
    fn random_bytes(&self, file: &FileSpan) -> u64 {
        self.stride.map_or(file.region_bytes.min(file.file_bytes), |stride| stride.range_bytes)
    }

    /// The least of all lengths, whichever directions the job does.
    fn least_block(&self) -> u64 {
        self.lengths.iter().map(|lengths| u64::from(lengths.min_bytes.max(1))).min().unwrap_or(1)
    }
}

/// Random blocks of one file.
#[derive(Debug, Clone)]
enum Blocks {
    /// Each once, all of one length.
    Permuted { permutation: Permutation, next: u64 },
    /// Each block once, where lengths differ. Reads and writes share it, each counting blocks of its own least length, as in fio.
    Mapped(RandomMap),
    /// Independent draws.
    Drawn(Chance),
}

/// A file on the way.
#[derive(Debug, Clone)]
struct Walk {
    span: FileSpan,
    /// Where the present zone begins; without zones the region.
    base: u64,
    /// Behind the last operation, by direction.
    position: [u64; Direction::COUNT],
    /// Where the last operation began, by direction.
    last_start: [Option<u64>; Direction::COUNT],
    /// Random blocks by direction; `None` for writes where they share those of the reads.
    blocks: [Option<Blocks>; Direction::COUNT],
    /// How often the blocks were begun anew: each time in another order.
    round: u64,
}

/// The operations of a worker, pass by pass.
#[derive(Debug, Clone)]
pub struct Varied {
    course: VariedCourse,
    walks: Vec<Walk>,
    service: Service,
    random: SplitMix64,
    file: usize,
    done_files: Vec<usize>,
    pass: u64,
    /// The pass whose way further ones repeat, and the state of chance before it.
    first: (u64, SplitMix64),
    given_bytes: u64,
    /// Bytes that were trimmed before they are written; they are not in `given_bytes`.
    trimmed_bytes: u64,
    most_bytes: u64,
    operations_left: u64,
    /// Operations to the next one that is not decided by the sequencer.
    until_new: u64,
    /// Bytes done in the present zone.
    zone_bytes: u64,
}

/// A place found for an operation.
struct Place {
    /// Relative to the region's start.
    offset: u64,
    /// Decided by chance.
    random: bool,
    /// Already decided: the length of the trim before.
    length: Option<u32>,
}

impl Varied {
    /// Before its first pass.
    pub fn new(course: VariedCourse) -> Self {
        let service = Service::new(&course.service, course.files.len(), course.open_files, course.seed);
        let walk = |span: &FileSpan| Walk {
            span: *span,
            base: span.start,
            position: [span.start; Direction::COUNT],
            last_start: [None; Direction::COUNT],
            blocks: [const { None }; Direction::COUNT],
            round: 0,
        };
        let random = SplitMix64::new(derive_seed(course.seed, u64::MAX));
        Self {
            walks: course.files.iter().map(walk).collect(),
            service,
            first: (0, random.clone()),
            random,
            file: 0,
            done_files: Vec::new(),
            pass: 0,
            given_bytes: 0,
            trimmed_bytes: 0,
            most_bytes: 0,
            operations_left: 0,
            until_new: 1,
            zone_bytes: 0,
            course,
        }
    }

    /// Finds an operation in this file; `None` if it has no further one.
    fn fill(&mut self, file: usize, direction: Direction) -> Option<Operation> {
        self.until_new -= 1;
        let new = self.until_new == 0;
        if new {
            self.until_new = match self.course.modifier {
                Modifier::Every(every) => every,
                _ => 1,
            };
        }
        let direction = self.direction_in(file, direction)?;
        self.enter_zone(file, direction);
        let place = self.place(file, direction, new)?;
        let Walk { span, base, .. } = *self.walks.get(file)?;
        if place.offset >= span.region_bytes {
            return None;
        }
        let offset = base + place.offset;
        if offset >= span.file_bytes {
            return None;
        }
        let length = if let Some(length) = place.length {
            length
        } else {
            let end = span.start_again.saturating_add(span.region_bytes);
            self.length(direction, place.random, end.saturating_sub(offset))?
        };
        if offset + u64::from(length) > span.file_bytes {
            return None;
        }
        let is_drawn = place.random && place.length.is_none();
        let length = if is_drawn { self.take_in_map(file, direction, place.offset, length) } else { length };
        let walk = self.walks.get_mut(file)?;
        if direction == Direction::Trim && walk.last_start[direction as usize] == Some(offset) {
            // The block of before once more, by chance: it is to be written once more, too.
            walk.last_start[Direction::Write as usize] = None;
        }
        walk.last_start[direction as usize] = Some(offset);
        walk.position[direction as usize] = offset + u64::from(length);
        if direction == Direction::Trim && self.course.writes {
            self.trimmed_bytes += u64::from(length);
        } else {
            self.given_bytes += u64::from(length);
        }
        self.zone_bytes += u64::from(length);
        let touched = if self.course.touch_bytes == 0 { length } else { length.min(self.course.touch_bytes) };
        Some(Operation { direction, offset, bytes: touched })
    }

    fn length(&mut self, direction: Direction, random: bool, room: u64) -> Option<u32> {
        let lengths = self.lengths(direction, random);
        if lengths.fixed() {
            // As in fio, blocks of one length may reach over the end of the region, as far as the file goes.
            return Some(lengths.min_bytes);
        }
        let lengths = lengths.clone();
        lengths::draw(&lengths, room, &mut self.random)
    }

    fn lengths(&self, direction: Direction, random: bool) -> &Lengths {
        let direction = match (self.course.lengths_by_order, random) {
            (false, _) => direction,
            (true, false) => Direction::Read,
            (true, true) => Direction::Write,
        };
        &self.course.lengths[direction as usize]
    }

    /// The direction of the next operation in this file: where writes follow trims, the file decides.
    fn direction_in(&self, file: usize, direction: Direction) -> Option<Direction> {
        if !(self.course.trims && self.course.writes) {
            return Some(direction);
        }
        let [_, write, trim] = self.walks.get(file)?.last_start;
        Some(if write == trim { Direction::Trim } else { Direction::Write })
    }

    fn place(&mut self, file: usize, direction: Direction, new: bool) -> Option<Place> {
        // A write goes where its trim went. For sequential jobs with fixed lengths each direction has a position of its
        // own, as in fio 3.33; with lengths that are drawn fio does that up to 3.36, and writes blocks that were not
        // trimmed.
        let drawn = !self.lengths(Direction::Trim, false).fixed();
        if self.course.trims && direction == Direction::Write && (self.course.random || drawn) {
            let walk = self.walks.get(file)?;
            let (start, end) = (walk.last_start[Direction::Trim as usize]?, walk.position[Direction::Trim as usize]);
            let length = u32::try_from(end - start).ok()?;
            return Some(Place { offset: start - walk.base, random: true, length: Some(length) });
        }
        if !new && self.course.sequencer == Sequencer::Identical {
            let walk = self.walks.get(file)?;
            let offset = walk.last_start[direction as usize].map_or(0, |start| start.saturating_sub(walk.base));
            return Some(Place { offset, random: false, length: None });
        }
        let by_chance = new && self.course.random && self.is_random(direction);
        if by_chance {
            return self.random_place(file, direction);
        }
        match self.next_in_sequence(file, direction) {
            Some(offset) => Some(Place { offset, random: false, length: None }),
            None if self.course.random => self.random_place(file, direction),
            None => None,
        }
    }

    fn is_random(&mut self, direction: Direction) -> bool {
        let percent = self.course.random_percent[direction as usize];
        percent == 100 || self.random.below(100) < u64::from(percent)
    }

    /// Behind the last operation, with the modifier's jump. The arithmetic wraps where fio's does.
    fn next_in_sequence(&mut self, file: usize, direction: Direction) -> Option<u64> {
        let endless = self.course.endless && self.course.files.len() == 1;
        let skip = match self.course.modifier {
            Modifier::Skip(skip) => skip,
            _ => 0,
        };
        let walk = self.walks.get_mut(file)?;
        let (span, base) = (walk.span, walk.base);
        let position = &mut walk.position[direction as usize];
        if endless && *position >= span.start + span.region_bytes {
            *position = base;
        }
        if *position >= span.file_bytes {
            return None;
        }
        let top = if span.file_bytes > span.region_bytes { span.region_bytes } else { span.file_bytes };
        if *position == base && base > 0 && skip < 0 {
            *position = top;
        }
        let mut offset = position.wrapping_sub(base);
        if offset > 0 && skip != 0 {
            offset = offset.wrapping_add_signed(skip);
            if offset >= span.file_bytes {
                offset = if skip > 0 { base } else { top.wrapping_add_signed(skip) };
            }
        }
        Some(offset)
    }

    fn random_place(&mut self, file: usize, direction: Direction) -> Option<Place> {
        if let Some(place) = self.draw_place(file, direction) {
            return Some(place);
        }
        if !(self.course.endless || self.service.starts_over()) {
            return None;
        }
        self.renew(file);
        self.draw_place(file, direction)
    }

    /// Takes an operation's blocks in the map of its file, if it has one; gives the length up to the first that was taken before.
    fn take_in_map(&mut self, file: usize, direction: Direction, offset: u64, length: u32) -> u32 {
        let unit = u64::from(self.course.lengths[direction as usize].min_bytes.max(1));
        let walk = self.walks.get_mut(file).and_then(|walk| walk.blocks[0].as_mut());
        let Some(Blocks::Mapped(map)) = walk else { return length };
        // The first is free: it was drawn so. Where starts are no multiples of the least length it may be another one that was not.
        let taken = map.take(offset / unit, u64::from(length).div_ceil(unit)).max(1);
        u32::try_from(taken * unit).unwrap_or(u32::MAX).min(length)
    }

    fn draw_place(&mut self, file: usize, direction: Direction) -> Option<Place> {
        let index = self.blocks_index(direction);
        let align = u64::from(self.course.align_bytes[direction as usize].max(1));
        let last = self.last_block(file, direction)?;
        if self.walks.get(file)?.blocks[index].is_none() {
            let made = self.blocks(file, index)?;
            self.walks.get_mut(file)?.blocks[index] = Some(made);
        }
        let blocks = self.walks.get_mut(file)?.blocks[index].as_mut()?;
        let block = match blocks {
            Blocks::Permuted { permutation, next } => {
                if *next >= permutation.len() {
                    return None;
                }
                *next += 1;
                permutation.at(*next - 1)
            }
            Blocks::Mapped(map) => {
                let from = self.random.below(last);
                map.next_free(from).or_else(|| map.next_free(0))?
            }
            Blocks::Drawn(chance) => chance.draw(&mut self.random),
        };
        Some(Place { offset: block * align, random: true, length: None })
    }

    /// Which random blocks of a file a direction has: where each block comes once and all have the same lengths, or where a map is kept,
    /// or a sequence, all directions share them.
    fn blocks_index(&self, direction: Direction) -> usize {
        let course = &self.course;
        let is_of_reads = || direction == Direction::Write && course.once && course.lengths[0] == course.lengths[1];
        if course.is_mapped() || course.once && course.by_sequence || is_of_reads() { 0 } else { direction as usize }
    }

    /// Behind the last start that holds a block of this direction, counted in blocks; `None` if none does. Where starts lie closer than
    /// blocks are long there are more of them.
    fn last_block(&self, file: usize, direction: Direction) -> Option<u64> {
        let align = u64::from(self.course.align_bytes[direction as usize].max(1));
        let least = u64::from(self.course.lengths[direction as usize].min_bytes);
        let bytes = self.course.random_bytes(&self.walks.get(file)?.span);
        let blocks = bytes.checked_sub(least.saturating_sub(align))? / align;
        if blocks > 0 { Some(blocks) } else { None }
    }

    /// The random blocks of a file, in their first order or anew; `None` if it holds none.
    fn blocks(&mut self, file: usize, index: usize) -> Option<Blocks> {
        let walk = self.walks.get(file)?;
        let bytes = self.course.random_bytes(&walk.span);
        let direction = Direction::ALL[index];
        let blocks = self.last_block(file, direction)?;
        if self.course.is_mapped() {
            return Some(Blocks::Mapped(RandomMap::new(bytes / self.course.least_block())));
        }
        let seed = derive_seed(
            derive_seed(self.course.seed, self.first.0),
            (walk.round << 32) ^ ((file as u64) << 1) ^ index as u64,
        );
        if self.course.once {
            let count = if self.course.by_sequence { bytes / self.course.least_block() } else { blocks };
            return Some(Blocks::Permuted { permutation: Permutation::new(count, seed), next: 0 });
        }
        // A law belongs to the file, not to the pass: its frequent blocks stay where they are.
        let mut draw = SplitMix64::new(derive_seed(self.course.seed, file as u64));
        let counted = match self.course.distribution {
            Distribution::Zipf { .. } | Distribution::Pareto { .. } | Distribution::Normal { .. } => {
                // As in fio laws count blocks of the least length, up to the last one begun, and of the file, not of its zone: a
                // place behind the file ends the pass.
                walk.span.region_bytes.min(walk.span.file_bytes).div_ceil(self.course.least_block())
            }
            _ => blocks,
        };
        let align = u64::from(self.course.align_bytes[index].max(1));
        let chance = Chance::new(&self.course.distribution, direction, counted, align, true, &mut draw);
        Some(Blocks::Drawn(chance))
    }

    /// Goes on to the next zone when enough was done in this one, and starts a zone over that was gone through. As fio 3.33 does.
    fn enter_zone(&mut self, file: usize, direction: Direction) {
        let Some(stride) = self.course.stride else { return };
        let Some(walk) = self.walks.get_mut(file) else { return };
        let position = &mut walk.position[direction as usize];
        if self.zone_bytes >= stride.size_bytes {
            self.zone_bytes = 0;
            walk.base = walk.base.saturating_add(stride.range_bytes).saturating_add(stride.skip_bytes);
            if walk.base >= walk.span.file_bytes {
                walk.base = walk.span.start_again;
            }
            *position = walk.base;
        }
        if *position >= walk.base.saturating_add(stride.range_bytes) {
            *position = walk.base;
        }
        if self.zone_bytes.is_multiple_of(stride.range_bytes) {
            self.renew(file);
        }
    }

    /// Starts a file's random blocks over, in another order.
    fn renew(&mut self, file: usize) {
        if let Some(walk) = self.walks.get_mut(file) {
            walk.round += 1;
            walk.position = [walk.base; Direction::COUNT];
            if self.course.stride.is_some() {
                walk.last_start = [None; Direction::COUNT];
            }
            for blocks in &mut walk.blocks {
                if !matches!(blocks, Some(Blocks::Drawn(_))) {
                    *blocks = None;
                }
            }
        }
    }
}

/// Files that in turn had no place for an operation before the pass is given up: with laws that choose files they never end.
const MAX_VAIN_TRIES: u32 = 10_000;

impl Source for Varied {
    const VARIED: bool = true;
    const STAMPED: bool = false;

    fn begin_pass(&mut self, limit: PassLimit) {
        self.pass += 1;
        (self.given_bytes, self.trimmed_bytes) = (0, 0);
        // A sequence with jumps wraps where the region ends: only a limit ends it.
        let jumps = !self.course.random && matches!(self.course.modifier, Modifier::Skip(skip) if skip != 0);
        self.most_bytes = match limit.bytes {
            Some(bytes) if jumps || !self.course.ends_at_size => bytes,
            Some(bytes) => bytes.min(self.course.pass_bytes),
            None => self.course.pass_bytes,
        };
        self.operations_left = limit.operations;
        if limit.repeats {
            self.random = self.first.1.clone();
        } else {
            self.first = (self.pass, self.random.clone());
        }
        self.service.begin_pass(limit.repeats);
        self.done_files.clear();
        if self.course.stride.is_some() && self.course.endless && self.pass > 1 {
            // As in fio: until time is over it goes on in the zones.
            return;
        }
        self.zone_bytes = 0;
        for walk in &mut self.walks {
            if self.pass > 1 && !self.course.endless {
                walk.span.start = walk.span.start_again;
            }
            walk.base = walk.span.start;
            walk.position = [walk.span.start; Direction::COUNT];
            if self.course.trims {
                walk.last_start = [None; Direction::COUNT];
            }
            walk.round = 0;
            for blocks in &mut walk.blocks {
                if !matches!(blocks, Some(Blocks::Drawn(_))) {
                    *blocks = None;
                }
            }
        }
    }

    fn next_operation(&mut self) -> Option<Operation> {
        let direction = self.draw_direction();
        self.next_in(direction)
    }

    fn covered(&self) -> u64 {
        self.given_bytes
    }

    fn passes(&self) -> u64 {
        self.pass
    }

    fn finished(&self) -> bool {
        // As in fio: trims before writes are as much again.
        let all = self.given_bytes + self.trimmed_bytes;
        let full = self.trimmed_bytes > 0 && all >= self.most_bytes.saturating_add(self.course.pass_bytes);
        self.given_bytes >= self.most_bytes || full || self.operations_left == 0
    }

    fn draw_direction(&mut self) -> Direction {
        match self.course.read_percent {
            _ if self.course.trims => Direction::Trim,
            100 => Direction::Read,
            0 => Direction::Write,
            percent if self.random.below(100) < u64::from(percent) => Direction::Read,
            _ => Direction::Write,
        }
    }

    fn next_in(&mut self, direction: Direction) -> Option<Operation> {
        if self.finished() {
            return None;
        }
        for _ in 0..MAX_VAIN_TRIES {
            let file = self.service.choose()?;
            if let Some(operation) = self.fill(file, direction) {
                self.operations_left -= 1;
                self.file = file;
                return Some(operation);
            }
            if self.service.starts_over() {
                self.renew(file);
            } else {
                self.service.finish(file);
                self.done_files.push(file);
            }
        }
        None
    }

    fn file(&self) -> usize {
        self.file
    }

    fn take_done_file(&mut self) -> Option<usize> {
        self.done_files.pop()
    }

    fn owes_write(&self) -> bool {
        let owes = |walk: &Walk| {
            let [_, write, trim] = walk.last_start;
            trim.is_some() && write != trim
        };
        self.course.trims && self.course.writes && self.walks.iter().any(owes)
    }

    fn next_file_to_flush(&mut self) -> usize {
        self.service.choose().unwrap_or(self.file)
    }
}

impl Repeatable for Varied {
    fn repeats(&self, flushes: bool) -> bool {
        let course = &self.course;
        let once = if course.random {
            // A sequence gives each start once, of blocks of the least length: longer ones lie upon each other.
            let overlaps = course.by_sequence
                && course.lengths.iter().any(|lengths| u64::from(lengths.max_bytes) > course.least_block());
            course.once && !overlaps && course.random_percent.iter().all(|percent| *percent == 100)
        } else {
            true
        };
        // Which file is flushed next is drawn from what also decides the next operation's.
        !once
            || flushes
            || course.endless
            || course.stride.is_some()
            || course.modifier != Modifier::None
            || self.service.starts_over()
    }
}
