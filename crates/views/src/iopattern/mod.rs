//! How programs walk through files: sequential, strided, descending, repeated or random, operation by operation.
//!
//! # Definition
//!
//! Operations (reads or writes that moved data) come in order of time, each with its file, task, direction, offset and
//! length. An operation is
//!
//! * **sequential** if it begins where an earlier one of a live stream ended. Streams of the same task and direction are
//!   looked at first, then those of all tasks and both directions of the file: threads that share a descriptor or append
//!   to one file make one stream together, threads with regions of their own make one each. A stream that has gone on
//!   for 8 operations also takes what begins up to four of its lengths off its end: calls are ordered by their entry,
//!   while the kernel hands out positions a little later;
//! * **strided** if it goes on with an arithmetic progression of offsets, made of at least four operations of one task and
//!   direction, whose step is neither the length (sequential) nor its negative (descending);
//! * **descending** if it ends where the last operation of a live stream began;
//! * **repeated** if it has the offset of the task's previous one in that direction;
//! * **random** otherwise.
//!
//! A stream lives on while other operations come between, the longer the more it has proved itself: a task has up to 16
//! candidates (an operation that nothing followed yet), and a stream is forgotten when 32 operations for each of its own
//! have passed without one. So what is mixed in neither ends a stream nor hides among its operations, and many streams
//! may be interleaved.
//!
//! The operations that began a stream are random when they come, since nothing is known of them; they are counted
//! anew once the stream has proved itself (8 operations, or the fourth of a progression, or at once if it is the first
//! operation of the task on the file).
//!
//! The **pattern** of a group is the kind that has at least 60 % of its operations; if none has, it is mixed. A single
//! operation has none.
//!
//! By chance alone a random operation meets one of the 16 candidates' two ends once in N / 32 times on a file of N blocks:
//! on files below some hundred blocks random access begins to look mixed.

mod grid;
mod stream;
mod usage;

use std::collections::HashMap;

use serde::Serialize;

pub use grid::Grid;
pub use usage::{Direction, FileUse};

use stream::{Candidates, Step};

/// Share that a kind needs to be called the pattern.
const DOMINANT: f64 = 0.6;

/// A kind of operation, and the pattern of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Each begins where another ended.
    Sequential,
    /// Steps of equal size, not the length.
    Strided,
    /// Each ends where another began.
    Descending,
    /// The same place again.
    Repeated,
    /// No order.
    Random,
    /// No kind is dominant. For groups only.
    Mixed,
}

impl Pattern {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Strided => "strided",
            Self::Descending => "descending",
            Self::Repeated => "repeated",
            Self::Random => "random",
            Self::Mixed => "mixed",
        }
    }
}

/// One read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The file.
    pub file: u32,
    /// Who did it.
    pub task: u32,
    /// Whether it wrote.
    pub write: bool,
    /// Where in the file, bytes.
    pub offset: u64,
    /// Bytes moved; not 0.
    pub bytes: u64,
}

/// The kind of an operation, and what it shows about earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Its kind.
    pub kind: Pattern,
    /// Earlier operations of the group that were counted as random and are of this kind, too.
    pub earlier: u64,
    /// Whether a stream has proved itself with it.
    pub new_stream: bool,
}

/// Operations by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// Sequential operations.
    pub sequential: u64,
    /// Strided ones.
    pub strided: u64,
    /// Descending ones.
    pub descending: u64,
    /// Repeated ones.
    pub repeated: u64,
    /// Random ones.
    pub random: u64,
    /// Sequential, strided and descending streams that proved themselves.
    pub streams: u64,
}

impl Shares {
    /// Counts an outcome.
    pub fn add(&mut self, outcome: Outcome) {
        let earlier = outcome.earlier.min(self.random);
        self.streams += u64::from(outcome.new_stream);
        let count = match outcome.kind {
            Pattern::Sequential => &mut self.sequential,
            Pattern::Strided => &mut self.strided,
            Pattern::Descending => &mut self.descending,
            Pattern::Repeated => &mut self.repeated,
            Pattern::Random | Pattern::Mixed => {
                self.random += 1;
                return;
            }
        };
        *count += 1 + earlier;
        self.random -= earlier;
    }

    /// All operations.
    pub fn operations(&self) -> u64 {
        self.sequential + self.strided + self.descending + self.repeated + self.random
    }

    /// The kinds with their counts.
    pub fn kinds(&self) -> [(Pattern, u64); 5] {
        [
            (Pattern::Sequential, self.sequential),
            (Pattern::Strided, self.strided),
            (Pattern::Descending, self.descending),
            (Pattern::Repeated, self.repeated),
            (Pattern::Random, self.random),
        ]
    }

    /// The pattern; `None` for fewer than two operations.
    pub fn pattern(&self) -> Option<Pattern> {
        let all = self.operations();
        if all < 2 {
            return None;
        }
        let dominant = |(_, count): &(Pattern, u64)| *count as f64 >= DOMINANT * all as f64;
        Some(self.kinds().into_iter().find(dominant).map_or(Pattern::Mixed, |(kind, _)| kind))
    }
}

/// Follows the operations of many files.
#[derive(Debug, Default)]
pub struct Classifier {
    files: HashMap<u32, FileState>,
}

/// What is known of one file.
#[derive(Debug, Default)]
struct FileState {
    /// Ends of the latest operations of any task and direction.
    all: Candidates,
    /// By task and direction.
    tasks: HashMap<(u32, bool), TaskState>,
}

#[derive(Debug, Default)]
struct TaskState {
    own: Candidates,
    previous: Option<u64>,
}

impl Classifier {
    /// Classifies the next operation.
    pub fn operation(&mut self, operation: &Operation) -> Outcome {
        let file = self.files.entry(operation.file).or_default();
        let task = file.tasks.entry((operation.task, operation.write)).or_default();
        let (offset, bytes) = (operation.offset, operation.bytes);
        let again = task.previous.replace(offset) == Some(offset);
        let first = task.own.is_empty();
        let own = task.own.step(offset, bytes, true);
        let shared = file.all.step(offset, bytes, false);
        // A stream of the task that just goes on needs no other reason; one of the file is looked for after that.
        let found = match (own, shared) {
            (Some(step), _) => Some(step),
            (None, Some(step)) if step.kind == Pattern::Sequential => {
                task.own.forget_latest(offset);
                Some(step)
            }
            _ => None,
        };
        match found {
            Some(Step { kind, earlier, new_stream }) => Outcome { kind, earlier, new_stream },
            None if again && !first => Outcome { kind: Pattern::Repeated, earlier: 0, new_stream: false },
            None => Outcome { kind: Pattern::Random, earlier: 0, new_stream: false },
        }
    }
}

#[cfg(test)]
mod tests;
