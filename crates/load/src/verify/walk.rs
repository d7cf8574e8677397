//! A walk whose writes are gone over again to verify them.
//!
//! [`Verified`] wraps either of the two sources of operations. While it replays, it gives reads at the places of the writes, in their
//! order, from a copy of the walk made when the pass began; so verifying is a pass like any other for the loops around engines, and
//! costs no memory. Walks that may come to a byte twice cannot be repeated this way, because the earlier block is gone: their
//! blocks are kept in a map, where a later block removes those that it overlaps.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_fiojob::{Direction, JobOptions, Operation};

use super::state::{Resume, Verdict};
use crate::offsets::{PassLimit, Repeatable, Replayed, Source, Stamped, Stream, Varied};

/// The mode of a job that verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It writes, and verifies its writes if that is wanted.
    Writes {
        /// It verifies.
        verify: bool,
    },
    /// It goes the way of its writes without writing (`verify_only`).
    Only,
    /// It reads, and verifies what it reads.
    Reads,
}

impl Role {
    /// The role of a job with `verify=`.
    pub(crate) fn of(options: &JobOptions) -> Self {
        match (options.rw.0.writes(), options.verify_only) {
            (false, _) => Self::Reads,
            (true, true) => Self::Only,
            (true, false) => Self::Writes { verify: options.do_verify },
        }
    }
}

/// A block that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Written {
    bytes: u32,
    number: u64,
}

/// Blocks that were written last, by file and offset; no two of them overlap.
#[derive(Debug, Clone, Default)]
struct History(BTreeMap<(usize, u64), Written>);

impl History {
    fn add(&mut self, file: usize, operation: Operation, number: u64) {
        self.remove(file, operation);
        self.0.insert((file, operation.offset), Written { bytes: operation.bytes, number });
    }

    /// Removes what these bytes were part of.
    fn remove(&mut self, file: usize, operation: Operation) {
        let (start, end) = (operation.offset, operation.offset.saturating_add(u64::from(operation.bytes)));
        let before = self.0.range((file, 0)..(file, start)).next_back();
        let reaching = before.filter(|((_, at), block)| at + u64::from(block.bytes) > start).map(|(key, _)| *key);
        let inside = self.0.range((file, start)..(file, end)).map(|(key, _)| *key);
        let gone: Vec<(usize, u64)> = reaching.into_iter().chain(inside).collect();
        for key in gone {
            self.0.remove(&key);
        }
    }
}

/// The present step.
#[derive(Debug, Clone)]
enum Now<W> {
    /// The pass itself.
    Walking,
    /// Replays its writes; counts those met.
    Again { walk: Box<W>, met: u64 },
    /// At most this many blocks from the map. `last`: the pass is over.
    Listed { left: u64, last: bool },
}

/// How far a pass of writes has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Writes issued.
    pub writes: u64,
    /// Those of them that failed, by place in the pass.
    pub failed: Vec<u64>,
    /// File and offset of the last one that is complete.
    pub last: Option<(usize, u64)>,
    /// An earlier pass has written everything.
    pub again: bool,
}

/// A write that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedWrite {
    /// Its number among the worker's writes.
    pub number: u64,
    /// Its file, by place among the worker's files.
    pub file: usize,
    /// The operation.
    pub operation: Operation,
}

/// A worker's calls to its source where contents are verified. Sources that are not verified ignore them.
pub trait Checked: Source {
    /// Whether contents are verified: every write is prepared and noted, and some reads are compared.
    const VERIFIED: bool = false;

    /// The write given last is issued now; gives its number among the worker's writes.
    fn issue_write(&mut self, operation: Operation) -> u64 {
        let _ = operation;
        0
    }

    /// A write has failed: `which`, or the one issued last.
    fn write_failed(&mut self, which: Option<FailedWrite>) {
        let _ = which;
    }

    /// Whether the read given last is to be compared, and with which write if that is known.
    fn to_check(&self) -> Option<Option<u64>> {
        None
    }

    /// Whether a read of the backlog is next: no flush on the way comes between those, nor before them.
    fn reads_backlog(&self) -> bool {
        false
    }

    /// From now on reads of what this pass wrote are given, until there are no more; false if there is nothing to compare.
    fn begin_replay(&mut self) -> bool {
        false
    }

    /// How far the pass has come, if it writes and is to be verified.
    fn progress(&self) -> Option<Progress> {
        None
    }
}

impl Checked for Stream {}
impl Checked for Stamped {}
impl Checked for Varied {}
impl Checked for Replayed {}

/// A walk that can be gone again.
#[derive(Debug, Clone)]
pub(crate) struct Verified<W> {
    walk: W,
    role: Role,
    /// The walk as it was when the pass began.
    start: Option<Box<W>>,
    history: Option<History>,
    /// Verify after this many writes, and this many blocks then.
    backlog: Option<(u64, u64)>,
    resume: Option<Resume>,
    now: Now<W>,
    /// Number of the pass's first write.
    first: u64,
    /// Writes issued in this pass.
    issued: u64,
    failed: BTreeSet<u64>,
    since_backlog: u64,
    last: Option<(usize, Operation)>,
    complete: Option<(usize, u64)>,
    /// Blocks verified in this pass by a job that does not write.
    met: u64,
    ended: bool,
    expected: Option<u64>,
    file: usize,
    done_file: Option<usize>,
}

impl<W: Repeatable> Verified<W> {
    /// Before its first pass. `resume` limits a job that verifies what an earlier one wrote.
    pub(crate) fn new(walk: W, options: &JobOptions, resume: Option<Resume>) -> Self {
        let role = Role::of(options);
        let writes = matches!(role, Role::Writes { verify: true });
        let backlog = options.verify_backlog;
        let batch = if options.verify_backlog_batch == 0 { backlog } else { options.verify_backlog_batch };
        let flushes = options.flushes().iter().any(|(_, every)| *every > 0);
        let keeps = writes && (backlog > 0 || walk.repeats(flushes));
        Self {
            walk,
            role,
            start: None,
            history: keeps.then(History::default),
            backlog: (writes && backlog > 0).then_some((backlog, batch)),
            resume,
            now: Now::Walking,
            first: 0,
            issued: 0,
            failed: BTreeSet::new(),
            since_backlog: 0,
            last: None,
            complete: None,
            met: 0,
            ended: false,
            expected: None,
            file: 0,
            done_file: None,
        }
    }

    /// Whether the backlog is to be verified before the next write.
    fn backlog_is_due(&self) -> bool {
        matches!(self.now, Now::Walking) && self.backlog.is_some_and(|(every, _)| self.since_backlog >= every)
    }

    /// The next block of the map.
    fn listed(&mut self) -> Option<Operation> {
        let Now::Listed { left, last } = &mut self.now else { return None };
        let found = if *left == 0 { None } else { self.history.as_mut().and_then(|history| history.0.pop_first()) };
        let Some(((file, offset), block)) = found else {
            if *last {
                return None;
            }
            self.now = Now::Walking;
            self.expected = None;
            return self.walk.next_operation();
        };
        *left -= 1;
        if *last && file != self.file {
            self.done_file = Some(self.file);
        }
        self.file = file;
        self.expected = Some(block.number);
        Some(Operation { direction: Direction::Read, offset, bytes: block.bytes })
    }

    /// The next write of the pass, as a read.
    fn again(&mut self) -> Option<Operation> {
        let Now::Again { walk, met } = &mut self.now else { return None };
        while *met < self.issued {
            let operation = walk.next_operation()?;
            if operation.direction != Direction::Write {
                continue;
            }
            let number = self.first + *met;
            *met += 1;
            if !self.failed.contains(&number) {
                self.expected = Some(number);
                return Some(Operation { direction: Direction::Read, ..operation });
            }
        }
        None
    }

    /// The next block of a job that does not write.
    fn read_only(&mut self, direction: Direction) -> Option<Operation> {
        loop {
            let operation =
                if self.role == Role::Only { self.walk.next_operation() } else { self.walk.next_in(direction) };
            let operation = operation?;
            if self.role == Role::Only && operation.direction != Direction::Write {
                continue;
            }
            let verdict = self
                .resume
                .as_ref()
                .map_or(Verdict::Check, |resume| resume.verdict(self.met, self.walk.file(), operation.offset));
            self.met += 1;
            match verdict {
                Verdict::Check => return Some(Operation { direction: Direction::Read, ..operation }),
                Verdict::Skip => {}
                Verdict::Stop => {
                    self.ended = true;
                    return None;
                }
            }
        }
    }
}

impl<W: Repeatable> Source for Verified<W> {
    const VARIED: bool = W::VARIED;
    const STAMPED: bool = false;

    fn begin_pass(&mut self, limit: PassLimit) {
        self.first += self.issued;
        (self.issued, self.since_backlog, self.met) = (0, 0, 0);
        self.failed.clear();
        (self.last, self.complete, self.expected, self.ended) = (None, None, None, false);
        self.now = Now::Walking;
        self.walk.begin_pass(limit);
        match &mut self.history {
            Some(history) => history.0.clear(),
            None if self.role == (Role::Writes { verify: true }) => self.start = Some(Box::new(self.walk.clone())),
            None => {}
        }
    }

    fn next_operation(&mut self) -> Option<Operation> {
        let direction = self.draw_direction();
        self.next_in(direction)
    }

    fn covered(&self) -> u64 {
        self.walk.covered()
    }

    fn passes(&self) -> u64 {
        self.walk.passes()
    }

    fn owes_write(&self) -> bool {
        matches!(self.now, Now::Walking) && self.walk.owes_write()
    }

    fn finished(&self) -> bool {
        matches!(self.now, Now::Walking) && !self.backlog_is_due() && (self.ended || self.walk.finished())
    }

    fn draw_direction(&mut self) -> Direction {
        let walks = matches!(self.now, Now::Walking) && !self.backlog_is_due() && self.role != Role::Only;
        if walks { self.walk.draw_direction() } else { Direction::Read }
    }

    fn next_in(&mut self, direction: Direction) -> Option<Operation> {
        if self.backlog_is_due() {
            self.since_backlog = 0;
            self.now = Now::Listed { left: self.backlog.map_or(0, |(_, batch)| batch), last: false };
        }
        match (&self.now, self.role) {
            (Now::Listed { .. }, _) => self.listed(),
            (Now::Again { .. }, _) => self.again(),
            (Now::Walking, Role::Writes { .. }) => self.walk.next_in(direction),
            (Now::Walking, Role::Only | Role::Reads) => self.read_only(direction),
        }
    }

    fn file(&self) -> usize {
        match &self.now {
            Now::Walking => self.walk.file(),
            Now::Again { walk, .. } => walk.file(),
            Now::Listed { .. } => self.file,
        }
    }

    fn take_done_file(&mut self) -> Option<usize> {
        match &mut self.now {
            Now::Walking => self.walk.take_done_file(),
            Now::Again { walk, .. } => walk.take_done_file(),
            Now::Listed { .. } => self.done_file.take(),
        }
    }

    fn next_file_to_flush(&mut self) -> usize {
        self.walk.next_file_to_flush()
    }
}

impl<W: Repeatable> Checked for Verified<W> {
    const VERIFIED: bool = true;

    fn issue_write(&mut self, operation: Operation) -> u64 {
        // Earlier operations are complete by now.
        self.complete = self.last.take().map(|(file, before)| (file, before.offset)).or(self.complete);
        let (number, file) = (self.first + self.issued, self.walk.file());
        self.issued += 1;
        self.since_backlog += 1;
        self.last = Some((file, operation));
        if let Some(history) = &mut self.history {
            history.add(file, operation, number);
        }
        number
    }

    fn write_failed(&mut self, which: Option<FailedWrite>) {
        let last = self.first + self.issued.saturating_sub(1);
        let failed = which.or_else(|| self.last.map(|(file, operation)| FailedWrite { number: last, file, operation }));
        if let Some(FailedWrite { number, file, operation }) = failed {
            if number == last {
                self.last = None;
            }
            self.failed.insert(number);
            if let Some(history) = &mut self.history {
                history.remove(file, operation);
            }
        }
    }

    fn to_check(&self) -> Option<Option<u64>> {
        match (&self.now, self.role) {
            (Now::Walking, Role::Writes { .. }) => None,
            (Now::Walking, Role::Only | Role::Reads) => Some(None),
            (Now::Again { .. } | Now::Listed { .. }, _) => Some(self.expected),
        }
    }

    fn reads_backlog(&self) -> bool {
        let is_listed = matches!(self.now, Now::Listed { left, last: false } if left > 0);
        self.backlog_is_due() || is_listed && self.history.as_ref().is_some_and(|history| !history.0.is_empty())
    }

    fn begin_replay(&mut self) -> bool {
        if self.role != (Role::Writes { verify: true }) || self.issued == 0 {
            return false;
        }
        self.now = match (&self.history, &self.start) {
            (Some(history), _) => {
                self.file = history.0.first_key_value().map_or(0, |((file, _), _)| *file);
                Now::Listed { left: u64::MAX, last: true }
            }
            (None, Some(start)) => Now::Again { walk: start.clone(), met: 0 },
            (None, None) => return false,
        };
        true
    }

    fn progress(&self) -> Option<Progress> {
        if !matches!(self.role, Role::Writes { .. }) {
            return None;
        }
        Some(Progress {
            writes: self.issued,
            failed: self.failed.iter().map(|number| number - self.first).collect(),
            last: self.last.map(|(file, operation)| (file, operation.offset)).or(self.complete),
            again: self.walk.passes() > 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::TargetKind;
    use pagelab_fiojob::parse_args;

    /// A write with its file.
    type Wrote = (usize, Operation);

    /// A read with its file and the number of the write that it expects.
    type Reread = (usize, Operation, u64);

    /// The writes of a pass, and the reads of its replay; `stop` ends the pass.
    fn pass<W: Repeatable>(walk: &mut Verified<W>, stop: usize) -> (Vec<Wrote>, Vec<Reread>) {
        walk.begin_pass(PassLimit::REGION);
        let mut writes = Vec::new();
        while writes.len() < stop
            && let Some(operation) = walk.next_operation()
        {
            if operation.direction == Direction::Write {
                walk.issue_write(operation);
                writes.push((walk.file(), operation));
            }
        }
        // One more is chosen and not issued, as when time is over.
        walk.next_operation();
        assert!(walk.begin_replay());
        let mut reads = Vec::new();
        while let Some(operation) = walk.next_operation() {
            assert_eq!(operation.direction, Direction::Read);
            reads.push((walk.file(), operation, walk.to_check().flatten().expect("a number")));
        }
        (writes, reads)
    }

    fn of(words: &str) -> (crate::plan::WorkerPlan, JobOptions) {
        let words: Vec<String> =
            format!("--name=j --size=256k --verify=crc32c {words}").split(' ').map(str::to_owned).collect();
        let workload = parse_args(&words).expect("valid");
        let plan = crate::plan::plan(&workload, &|_, _| Ok(TargetKind::Missing)).expect("plan");
        (plan.workers[0].clone(), workload.jobs[0].options.clone())
    }

    fn check<W: Repeatable>(words: &str, walk: W, options: &JobOptions, stop: usize) {
        let mut walk = Verified::new(walk, options, None);
        let mut before = 0;
        for round in 0..3 {
            let (writes, reads) = pass(&mut walk, stop);
            // A byte belongs to the write that came last.
            let mut owner = BTreeMap::new();
            for (number, (file, write)) in writes.iter().enumerate() {
                for at in write.offset / 512..(write.offset + u64::from(write.bytes)) / 512 {
                    owner.insert((*file, at), before + number as u64);
                }
            }
            let intact = writes.iter().enumerate().filter(|(number, (file, write))| {
                let mut bytes = write.offset / 512..(write.offset + u64::from(write.bytes)) / 512;
                bytes.all(|at| owner.get(&(*file, at)) == Some(&(before + *number as u64)))
            });
            let mut expected: Vec<(usize, u64, u32, u64)> = intact
                .map(|(number, (file, write))| (*file, write.offset, write.bytes, before + number as u64))
                .collect();
            let mut found: Vec<(usize, u64, u32, u64)> =
                reads.iter().map(|(file, read, number)| (*file, read.offset, read.bytes, *number)).collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{words} round {round}");
            assert!(!found.is_empty(), "{words}");
            before += writes.len() as u64;
        }
    }

    /// The verified blocks are exactly those written and not overwritten, whatever the walk.
    #[test]
    fn replays_meet_each_block_that_is_still_there() {
        for words in [
            "--rw=write",
            "--rw=randwrite",
            "--rw=randrw --rwmixread=40",
            "--rw=rw --bs=8k,4k",
            "--rw=rw --size=250k",
            "--rw=randwrite --norandommap",
            "--rw=randrw --norandommap --rwmixread=20",
        ] {
            for stop in [usize::MAX, 13] {
                let (plan, options) = of(words);
                assert!(plan.varied.is_none(), "{words}");
                check(words, Stream::new(plan.course), &options, stop);
            }
        }
        for words in [
            "--rw=randwrite --bsrange=1k-8k",
            "--rw=randwrite --nrfiles=3",
            "--rw=write --nrfiles=5 --openfiles=2 --file_service_type=random",
            "--rw=randrw --nrfiles=3 --bs=4k,2k",
            "--rw=write --nrfiles=3 --fsync=3",
            "--rw=randwrite --random_distribution=zipf:1.2",
            "--rw=randwrite --blockalign=512",
            "--rw=randwrite --bsrange=1k-8k --norandommap",
            "--rw=randwrite --bssplit=4k/10:16k/90 --random_generator=lfsr",
            "--rw=randwrite:3 --rw_sequencer=identical",
            "--rw=write:4k",
            "--rw=write:-4k --offset=64k",
            "--rw=randwrite --percentage_random=30",
        ] {
            for stop in [usize::MAX, 13] {
                let (plan, options) = of(words);
                check(words, Varied::new(plan.varied.expect(words)), &options, stop);
            }
        }
    }

    #[test]
    fn failed_writes_are_left_out() {
        for words in ["--rw=randwrite", "--rw=randwrite --norandommap"] {
            let (plan, options) = of(words);
            let mut walk = Verified::new(Stream::new(plan.course), &options, None);
            walk.begin_pass(PassLimit::REGION);
            let mut writes = Vec::new();
            while let Some(operation) = walk.next_operation() {
                writes.push(operation);
                let number = walk.issue_write(operation);
                if number == 5 {
                    walk.write_failed(None);
                }
            }
            let progress = walk.progress().expect("it writes");
            assert_eq!((progress.writes, progress.failed.as_slice()), (64, &[5][..]));
            assert!(walk.begin_replay());
            while let Some(operation) = walk.next_operation() {
                assert_ne!(walk.to_check().flatten(), Some(5));
                assert!(operation.offset != writes[5].offset || walk.to_check().flatten() > Some(5));
            }
        }
    }

    #[test]
    fn the_backlog_is_verified_between_writes() {
        for (words, most) in [("--verify_backlog=8", 8), ("--verify_backlog=8 --verify_backlog_batch=3", 64)] {
            let (plan, options) = of(&format!("--rw=randwrite {words}"));
            let mut walk = Verified::new(Stream::new(plan.course), &options, None);
            walk.begin_pass(PassLimit::REGION);
            let (mut waiting, mut reads) = (BTreeSet::new(), 0);
            let mut go = |walk: &mut Verified<Stream>| {
                while let Some(operation) = walk.next_operation() {
                    if operation.direction == Direction::Write {
                        assert!(walk.to_check().is_none());
                        waiting.insert(walk.issue_write(operation));
                        assert!(waiting.len() <= most, "{words}");
                    } else {
                        reads += 1;
                        assert!(waiting.remove(&walk.to_check().flatten().expect("a number")), "{words}");
                    }
                }
                reads
            };
            let between = go(&mut walk);
            assert_eq!(between, if most == 8 { 64 } else { 24 }, "{words}");
            walk.begin_replay();
            assert_eq!(go(&mut walk), 64, "the rest comes at the end");
        }
    }
}
