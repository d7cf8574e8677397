//! Which of a worker's files serves the next operation (`file_service_type`, `openfiles`).

use pagelab_fiojob::chances::FileService;

use super::chance::Chance;
use crate::random::{SplitMix64, derive_seed};

/// Files are drawn from this many ranks each, as in fio, so that a law has something to work on where files are few.
const RANKS_PER_FILE: u64 = 1024;

/// Where a file stands in the present pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open,
    Done,
}

/// Chooses files.
#[derive(Debug, Clone)]
pub struct Service {
    kind: FileService,
    chance: Option<Chance>,
    states: Vec<State>,
    /// At most this many are open.
    limit: usize,
    open: usize,
    done: usize,
    turn: usize,
    current: usize,
    left: u64,
    random: SplitMix64,
    /// Its state before the pass that further ones repeat.
    first: SplitMix64,
}

impl Service {
    /// A service over `files` files, of which at most `limit` are open at a time.
    pub fn new(kind: &FileService, files: usize, limit: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(derive_seed(seed, 0x0F11E));
        let chance = match kind {
            FileService::Drawn(law) => Some(Chance::new(
                law,
                pagelab_fiojob::Direction::Read,
                files as u64 * RANKS_PER_FILE,
                1,
                false,
                &mut random,
            )),
            _ => None,
        };
        Self {
            kind: kind.clone(),
            chance,
            states: vec![State::Closed; files],
            limit: limit.clamp(1, files.max(1)),
            open: 0,
            done: 0,
            turn: 0,
            current: 0,
            left: 0,
            first: random.clone(),
            random,
        }
    }

    /// Whether files that came to their end start over at once: those drawn by a law.
    pub fn starts_over(&self) -> bool {
        matches!(self.kind, FileService::Drawn(_))
    }

    /// Starts over with all files closed; `repeats`: in the order of the first pass, where chance decides.
    pub fn begin_pass(&mut self, repeats: bool) {
        if repeats {
            self.random = self.first.clone();
        } else {
            self.first = self.random.clone();
        }
        self.states.fill(State::Closed);
        (self.open, self.done, self.turn, self.current, self.left) = (0, 0, 0, 0, 0);
    }

    /// The file for the next operation; `None` when all are done.
    pub fn choose(&mut self) -> Option<usize> {
        if self.done >= self.states.len() {
            return None;
        }
        if self.states.get(self.current) == Some(&State::Open) {
            if self.kind == FileService::Sequential {
                return Some(self.current);
            }
            if self.left > 0 {
                self.left -= 1;
                return Some(self.current);
            }
        }
        loop {
            let file = self.candidate();
            let may = match self.states.get(file) {
                Some(State::Open) => true,
                Some(State::Closed) => self.open < self.limit,
                _ => false,
            };
            if !may {
                continue;
            }
            if let Some(state) = self.states.get_mut(file).filter(|state| **state == State::Closed) {
                *state = State::Open;
                self.open += 1;
            }
            self.current = file;
            self.left = match self.kind {
                FileService::RoundRobin { operations } | FileService::Random { operations } => operations - 1,
                _ => 0,
            };
            return Some(file);
        }
    }

    fn candidate(&mut self) -> usize {
        let files = self.states.len();
        match (&self.kind, &self.chance) {
            (FileService::Random { .. }, _) => self.random.below(files as u64) as usize,
            (FileService::Drawn(_), Some(chance)) => (chance.draw(&mut self.random) / RANKS_PER_FILE) as usize,
            _ => {
                let file = self.turn;
                self.turn = (self.turn + 1) % files.max(1);
                file
            }
        }
    }

    /// The file has nothing more to do in this pass.
    pub fn finish(&mut self, file: usize) {
        if let Some(state) = self.states.get_mut(file).filter(|state| **state == State::Open) {
            *state = State::Done;
            self.open -= 1;
            self.done += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(kind: &FileService, files: usize, limit: usize) -> Service {
        Service::new(kind, files, limit, 3)
    }

    #[test]
    fn turns_are_taken_in_order() {
        let mut turns = service(&FileService::RoundRobin { operations: 2 }, 3, 3);
        let order: Vec<_> = (0..8).filter_map(|_| turns.choose()).collect();
        assert_eq!(order, [0, 0, 1, 1, 2, 2, 0, 0]);
        turns.finish(0);
        let order: Vec<_> = (0..4).filter_map(|_| turns.choose()).collect();
        assert_eq!(order, [1, 1, 2, 2]);
    }

    #[test]
    fn only_so_many_are_open() {
        let mut two = service(&FileService::RoundRobin { operations: 1 }, 4, 2);
        let order: Vec<_> = (0..6).filter_map(|_| two.choose()).collect();
        assert_eq!(order, [0, 1, 0, 1, 0, 1]);
        two.finish(0);
        assert!((0..6).filter_map(|_| two.choose()).all(|file| file == 1 || file == 2));
        two.finish(1);
        two.finish(2);
        assert_eq!(two.choose(), Some(3));
        two.finish(3);
        assert_eq!(two.choose(), None);
        two.begin_pass(false);
        assert_eq!(two.choose(), Some(0));
    }

    #[test]
    fn sequential_stays_and_chance_prefers() {
        let mut one = service(&FileService::Sequential, 3, 3);
        assert!((0..10).all(|_| one.choose() == Some(0)));
        one.finish(0);
        assert_eq!(one.choose(), Some(1));
        let law = pagelab_fiojob::chances::Distribution::Zipf { theta: 1.2, center: Some(0.0) };
        let mut drawn = service(&FileService::Drawn(law), 8, 8);
        let first = (0..10_000).filter(|_| drawn.choose() == Some(0)).count();
        assert!(first > 6000, "{first}");
    }
}
