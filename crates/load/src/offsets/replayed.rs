//! The operations of a log, in its order (`read_iolog`).

use std::sync::Arc;

use pagelab_fiojob::{Direction, Operation};

use super::{PassLimit, Source, Step};
use crate::replay::{Act, Entry, Replay};

/// A log on its way.
#[derive(Debug, Clone)]
pub struct Replayed {
    replay: Arc<Replay>,
    next: usize,
    /// The delay of the next entry was given already.
    delayed: bool,
    file: usize,
    done_files: Vec<usize>,
    passes: u64,
    given_bytes: u64,
}

impl Replayed {
    /// Before its only pass.
    pub fn new(replay: Arc<Replay>) -> Self {
        Self { replay, next: 0, delayed: false, file: 0, done_files: Vec::new(), passes: 0, given_bytes: 0 }
    }

    fn entry(&self) -> Option<Entry> {
        self.replay.entries.get(self.next).copied()
    }

    fn advance(&mut self) {
        self.next += 1;
        self.delayed = false;
    }
}

impl Source for Replayed {
    const VARIED: bool = true;
    const STAMPED: bool = false;

    /// A log is gone through once, as in fio; what the ramp did is not done again.
    fn begin_pass(&mut self, _: PassLimit) {
        self.passes += 1;
        self.given_bytes = 0;
    }

    fn next_operation(&mut self) -> Option<Operation> {
        let Some(Entry { act: Act::Operation(operation), file, .. }) = self.entry() else { return None };
        self.file = file;
        self.given_bytes += u64::from(operation.bytes);
        self.advance();
        Some(operation)
    }

    fn covered(&self) -> u64 {
        self.given_bytes
    }

    fn passes(&self) -> u64 {
        self.passes
    }

    fn finished(&self) -> bool {
        self.next >= self.replay.entries.len()
    }

    fn next_in(&mut self, _: Direction) -> Option<Operation> {
        self.next_operation()
    }

    fn file(&self) -> usize {
        self.file
    }

    fn take_done_file(&mut self) -> Option<usize> {
        self.done_files.pop()
    }

    fn next_step(&mut self) -> Option<Step> {
        loop {
            let entry = self.entry()?;
            if !std::mem::replace(&mut self.delayed, true) && entry.delay_ns > 0 {
                return Some(Step::Delay { ns: entry.delay_ns });
            }
            match entry.act {
                Act::Operation(_) => return None,
                Act::Open => self.advance(),
                Act::Close => {
                    self.done_files.push(entry.file);
                    self.advance();
                }
                Act::Flush { data_only } => {
                    self.advance();
                    return Some(Step::Flush { file: entry.file, data_only });
                }
                Act::WaitUntil(ns) => {
                    self.advance();
                    return Some(Step::Until { ns });
                }
            }
        }
    }
}
