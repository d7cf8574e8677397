//! Counting by small keys: what every event does, so it may cost a few nanoseconds only.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash};

use rustc_hash::FxHasher;

/// A map whose keys are numbers. Its hash is one multiplication per word: keys come from recordings, and nobody chooses them
/// to collide.
///
/// Not `FxHashMap`: its builder is no generic code, so that each hash would begin with a call into another crate.
pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FxHasher>>;

/// Counts by key. Events come in runs with the same key, or with a few keys in turns, which then need no search.
#[derive(Debug)]
pub(crate) struct Tally<K, V = u64> {
    numbers: FastMap<K, u32>,
    entries: Vec<(K, V)>,
    /// The numbers of some keys met lately, by hash.
    recent: [u32; RECENT],
}

/// Keys of which the numbers are remembered.
const RECENT: usize = 64;

impl<K, V> Default for Tally<K, V> {
    fn default() -> Self {
        Self { numbers: FastMap::default(), entries: Vec::new(), recent: [0; RECENT] }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Tally<K, V> {
    /// The number of a key, from 0.
    #[inline]
    pub(crate) fn number(&mut self, key: K) -> usize {
        let entries = &mut self.entries;
        let recent = &mut self.recent[(self.numbers.hasher().hash_one(key) >> 20) as usize % RECENT];
        if entries.get(*recent as usize).is_some_and(|(known, _)| *known == key) {
            return *recent as usize;
        }
        *recent = *self.numbers.entry(key).or_insert_with(|| {
            entries.push((key, V::default()));
            (entries.len() - 1) as u32
        });
        *recent as usize
    }

    /// What is counted under a key.
    pub(crate) fn of(&mut self, key: K) -> &mut V {
        let number = self.number(key);
        self.at(number)
    }

    /// What is counted under a number that [`Tally::number`] gave.
    pub(crate) fn at(&mut self, number: usize) -> &mut V {
        &mut self.entries[number].1
    }

    /// Keys met so far.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All keys, in the order in which they were met first.
    pub(crate) fn into_entries(self) -> Vec<(K, V)> {
        self.entries
    }
}

/// Keys (mappings, instructions, tasks, 64 slots of memory, durations) that adding up may keep: some 20 MB. What has more
/// is no small table.
const MOST_KEPT: usize = 1 << 18;

/// Why there are no rollups: adding up would take too much memory.
pub(crate) fn few_enough(kept: usize) -> std::result::Result<(), String> {
    if kept <= MOST_KEPT {
        return Ok(());
    }
    Err(format!("there are too many different events to add up: found {kept} keys, needed at most {MOST_KEPT}"))
}
