//! What is known of files by the numbers under which their names were sent.

use std::collections::VecDeque;

use super::skeleton::types::name_limits;

/// How many numbers back a program may refer to a name (`bpf/wire.h`); what is older need not be kept.
const KEPT: u64 = name_limits::PATHS_KEPT.0 as u64;

/// Values by number of a name. The last numbers are kept, because a program may still refer to them: a recording of any
/// length takes the same memory.
#[derive(Debug, Clone)]
pub struct ByNumber<T> {
    /// The number of the first entry.
    first: u64,
    entries: VecDeque<Option<T>>,
}

impl<T> Default for ByNumber<T> {
    fn default() -> Self {
        Self { first: 0, entries: VecDeque::new() }
    }
}

impl<T> ByNumber<T> {
    /// Keeps a value, and forgets those with much older numbers. Numbers come nearly in order: two CPUs may swap
    /// neighbours.
    pub fn insert(&mut self, number: u64, value: T) {
        let end = self.first + self.entries.len() as u64;
        if number >= end.saturating_add(KEPT) || end.saturating_sub(number) > KEPT {
            // The first one, or numbering has begun anew.
            self.entries.clear();
        }
        if self.entries.is_empty() {
            self.first = number;
        }
        while number < self.first {
            self.first -= 1;
            self.entries.push_front(None);
        }
        let at = (number - self.first) as usize;
        if self.entries.len() <= at {
            self.entries.resize_with(at + 1, || None);
        }
        self.entries[at] = Some(value);
        let surplus = self.entries.len().saturating_sub(KEPT as usize);
        self.entries.drain(..surplus);
        self.first += surplus as u64;
    }

    /// The value of a number, unless it is unknown or forgotten.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&T> {
        self.entries.get(number.checked_sub(self.first)? as usize)?.as_ref()
    }

    /// How many numbers it spans.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_numbers_are_kept_whatever_they_are() {
        for start in [1, (1 << 24) - 100, (1 << 32) - 100] {
            let mut names = ByNumber::default();
            for number in (start..start + 3 * KEPT).step_by(2) {
                // One of the two CPUs is late.
                names.insert(number + 1, number + 1);
                names.insert(number, number);
            }
            let last = start + 3 * KEPT - 1;
            assert_eq!(names.len() as u64, KEPT);
            assert_eq!((names.get(last), names.get(last + 1)), (Some(&last), None));
            let oldest = last + 1 - KEPT;
            assert_eq!((names.get(oldest), names.get(oldest - 1)), (Some(&oldest), None), "from {start}");
        }
    }

    #[test]
    fn a_number_far_from_the_others_takes_no_memory_for_those_between() {
        let mut names = ByNumber::default();
        for number in [u64::MAX - 1, 5, 1 << 40, 3] {
            names.insert(number, number);
            assert_eq!((names.get(number), names.len()), (Some(&number), 1));
        }
    }
}
