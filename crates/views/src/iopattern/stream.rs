//! Live streams, and candidates for them.

use super::Pattern;

/// Operations that nothing followed yet, kept for each task.
const CANDIDATES: usize = 16;
/// Of those, the latest that may make a progression.
const PROGRESSIONS: usize = 8;
/// Streams kept for each task.
const STREAMS: usize = 64;
/// Operations of others that a stream outlives, for each of its own.
const PATIENCE: u64 = 32;
/// Operations after which a stream has proved itself.
const PROVED: u64 = 8;
/// How many lengths from its end a proved stream may go on: threads overtake each other.
const REACH: u64 = 4;

/// What an operation goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) kind: Pattern,
    /// Operations counted as random that belong to the stream.
    pub(super) earlier: u64,
    pub(super) new_stream: bool,
}

/// A stream of operations.
#[derive(Debug, Clone, Copy)]
struct Stream {
    kind: Pattern,
    /// Offset of the latest.
    last: u64,
    /// Its end.
    end: u64,
    /// Step of a strided one, as the difference of offsets.
    stride: i64,
    /// Operations that went on with it.
    run: u64,
    /// Number of the latest operation, among those of the list.
    at: u64,
    /// Operations at its begin that were counted as random.
    uncounted: u64,
}

/// An operation that nothing followed yet.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    offset: u64,
    end: u64,
    /// The very first operation, which had nothing to follow.
    first: bool,
}

/// Streams and candidates of one task or file.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    streams: Vec<Stream>,
    waiting: Vec<Candidate>,
    operations: u64,
}

impl Candidates {
    pub(super) fn is_empty(&self) -> bool {
        self.operations == 0
    }

    /// The stream that the operation goes on with, which is then up to date; without one it becomes a candidate.
    /// `progressions` also looks for strides and descents, which are made by one task.
    pub(super) fn step(&mut self, offset: u64, bytes: u64, progressions: bool) -> Option<Step> {
        self.operations += 1;
        let now = self.operations;
        self.streams.retain(|stream| now - stream.at <= PATIENCE.saturating_mul(stream.run));
        let end = offset.saturating_add(bytes);
        if let Some(step) = self.go_on(offset, end) {
            return Some(step);
        }
        if let Some(step) = self.begin(offset, end, progressions) {
            return Some(step);
        }
        if self.waiting.len() >= CANDIDATES {
            self.waiting.remove(0);
        }
        self.waiting.push(Candidate { offset, end, first: now == 1 });
        None
    }

    /// Takes back the candidate that the latest operation became: it goes on with a stream of others.
    pub(super) fn forget_latest(&mut self, offset: u64) {
        if self.waiting.last().is_some_and(|latest| latest.offset == offset) {
            self.waiting.pop();
        }
    }

    /// A stream that the operation goes on with.
    fn go_on(&mut self, offset: u64, end: u64) -> Option<Step> {
        let now = self.operations;
        let exact = |stream: &Stream| match stream.kind {
            Pattern::Sequential => stream.end == offset,
            Pattern::Descending => stream.last == end,
            _ => stream.last.checked_add_signed(stream.stride) == Some(offset),
        };
        let near = |stream: &Stream| {
            let reach = REACH.saturating_mul(end - offset);
            stream.kind == Pattern::Sequential && stream.run >= PROVED && stream.end.abs_diff(offset) <= reach
        };
        let at = self.streams.iter().position(exact).or_else(|| self.streams.iter().position(near))?;
        let stream = self.streams.get_mut(at)?;
        // An overtaken operation does not set the stream back.
        if stream.kind != Pattern::Sequential || end > stream.end {
            (stream.last, stream.end) = (offset, end);
        }
        stream.run += 1;
        stream.at = now;
        let proved = stream.run == PROVED;
        let earlier = if proved { std::mem::take(&mut stream.uncounted) } else { 0 };
        Some(Step { kind: stream.kind, earlier, new_stream: proved })
    }

    /// A candidate that the operation follows, which makes a stream of them.
    fn begin(&mut self, offset: u64, end: u64, progressions: bool) -> Option<Step> {
        let found = self.waiting.iter().rposition(|candidate| candidate.end == offset);
        if let Some(at) = found {
            return Some(self.pair(at, offset, end, Pattern::Sequential));
        }
        if !progressions {
            return None;
        }
        let found = self.waiting.iter().rposition(|candidate| candidate.offset == end);
        if let Some(at) = found {
            return Some(self.pair(at, offset, end, Pattern::Descending));
        }
        self.progression(offset, end)
    }

    fn pair(&mut self, at: usize, offset: u64, end: u64, kind: Pattern) -> Step {
        let candidate = self.waiting.remove(at);
        // The first operation of all had nothing to follow: it is of the stream that it began.
        let (earlier, uncounted) = if candidate.first { (1, 0) } else { (0, 1) };
        self.keep(Stream { kind, last: offset, end, stride: 0, run: 1, at: self.operations, uncounted });
        Step { kind, earlier, new_stream: false }
    }

    /// Three candidates and the operation in equal steps make a strided stream.
    fn progression(&mut self, offset: u64, end: u64) -> Option<Step> {
        let from = self.waiting.len().saturating_sub(PROGRESSIONS);
        let recent = self.waiting.get(from..)?;
        let place = |wanted: u64, before: usize| recent.iter().take(before).rposition(|one| one.offset == wanted);
        let (one, two, three, stride) = (0..recent.len()).rev().find_map(|three| {
            let stride = offset.wrapping_sub(recent.get(three)?.offset) as i64;
            if stride == 0 || stride.unsigned_abs() == end - offset {
                return None;
            }
            let back = |steps: i64| offset.checked_add_signed(stride.checked_mul(steps)?);
            let two = place(back(-2)?, three)?;
            let one = place(back(-3)?, two)?;
            Some((one, two, three, stride))
        })?;
        for at in [three, two, one] {
            self.waiting.remove(from + at);
        }
        // Four in a row are proof enough to live through as many others as a sequential stream of that length.
        self.keep(Stream {
            kind: Pattern::Strided,
            last: offset,
            end,
            stride,
            run: 4,
            at: self.operations,
            uncounted: 0,
        });
        Some(Step { kind: Pattern::Strided, earlier: 3, new_stream: false })
    }

    fn keep(&mut self, stream: Stream) {
        if self.streams.len() >= STREAMS
            && let Some(idlest) = (0..self.streams.len()).min_by_key(|at| self.streams.get(*at).map(|one| one.at))
        {
            self.streams.swap_remove(idlest);
        }
        self.streams.push(stream);
    }
}
