//! Which call mapped a region, from the mapping calls of a recording.

use serde::Serialize;

use super::ProcessReport;

pub(super) const NO_RECORDING: &str = "no recording at hand; type: pagelab record --observe tasks,maps -o DIR -- CMD (or -p PID), then: pagelab doctor --pid PID --recording DIR";

/// The call that mapped a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MappedBy {
    /// When, ns on the recording's clock.
    pub ts_ns: i64,
    /// The call: `mmap`, `mremap`, `brk`, `shmat`.
    pub call: String,
    /// Its stack, the innermost function first; empty if none was recorded.
    pub stack: Vec<String>,
    /// Bytes of the region that this call mapped. The kernel joins neighbours that are alike, so that a region may be of several.
    pub bytes: u64,
    /// How many other calls mapped the rest.
    pub other_calls: u64,
}

/// One recorded call that changed mappings, whether it maps, unmaps or both (`mremap`, `mmap` over existing mappings).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingCall<S> {
    /// When, ns on the recording's clock.
    pub ts_ns: i64,
    /// First address that is mapped from then on, and the one behind the last.
    pub maps: Option<(u64, u64)>,
    /// The same of what is not mapped any more.
    pub unmaps: Option<(u64, u64)>,
    /// The caller's handle: the row, the name of the call and the number of the stack.
    pub what: S,
}

/// The mapping calls of one process, in order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingCalls<S>(Vec<MappingCall<S>>);

/// Which call holds for a region.
#[derive(Debug, PartialEq, Eq)]
pub struct Holding<'a, S> {
    /// The call.
    pub call: &'a MappingCall<S>,
    /// Bytes of the region that it mapped.
    pub bytes: u64,
    /// How many other calls mapped other parts.
    pub other_calls: u64,
}

impl<S> MappingCalls<S> {
    /// The calls, in any order; those of the same moment stay in theirs. Calls that failed change nothing and have to be left out.
    pub fn new(mut calls: Vec<MappingCall<S>>) -> Self {
        calls.sort_by_key(|call| call.ts_ns);
        Self(calls)
    }

    /// The call that mapped `[start, end)`. For each byte the last call that covers it holds; an unmapping one, which a
    /// later mapping that was not recorded must have followed, leaves it unknown. If several hold for parts it is the
    /// one with most bytes, the later of equals. `None` if no recorded call mapped any of it.
    pub fn of(&self, start: u64, end: u64) -> Option<Holding<'_, S>> {
        let mut open = vec![(start, end)];
        let mut owners: Vec<(&MappingCall<S>, u64)> = Vec::new();
        for call in self.0.iter().rev() {
            // Its mapping comes after it, also where it unmaps first.
            let bytes = call.maps.map_or(0, |range| take(&mut open, range));
            if bytes > 0 {
                owners.push((call, bytes));
            }
            if let Some(range) = call.unmaps {
                take(&mut open, range);
            }
            if open.is_empty() {
                break;
            }
        }
        let others = owners.len().saturating_sub(1) as u64;
        // max_by_key takes the last of equals, which is the earliest: turn them round.
        let (call, bytes) = owners.into_iter().rev().max_by_key(|(_, bytes)| *bytes)?;
        Some(Holding { call, bytes, other_calls: others })
    }
}

/// Takes `[low, high)` out of the open ranges and returns how many bytes of them it had.
fn take(open: &mut Vec<(u64, u64)>, (low, high): (u64, u64)) -> u64 {
    let mut taken = 0;
    let mut rest = Vec::with_capacity(open.len() + 1);
    for &(start, end) in open.iter() {
        let (from, to) = (start.max(low), end.min(high));
        if from >= to {
            rest.push((start, end));
            continue;
        }
        taken += to - from;
        rest.extend([(start, from), (to, end)].into_iter().filter(|(start, end)| start < end));
    }
    *open = rest;
    taken
}

impl ProcessReport {
    /// Puts the call that mapped it to each region: `of` is asked with its first address and the one behind its last
    /// ([`MappingCalls::of`] decides which call holds).
    pub fn with_stacks(&mut self, of: &dyn Fn(u64, u64) -> Option<MappedBy>) {
        for region in &mut self.regions {
            region.mapped_by = of(region.start, region.end);
            region.mapped_by_reason = region.mapped_by.is_none().then(|| {
                "the recording has no call that mapped it: it is the kernel's, or older than the recording".to_owned()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(
        ts_ns: i64,
        what: &'static str,
        maps: Option<(u64, u64)>,
        unmaps: Option<(u64, u64)>,
    ) -> MappingCall<&'static str> {
        MappingCall { ts_ns, maps, unmaps, what }
    }

    fn holds(calls: &MappingCalls<&'static str>, start: u64, end: u64) -> Option<(&'static str, u64, u64)> {
        calls.of(start, end).map(|found| (found.call.what, found.bytes, found.other_calls))
    }

    #[test]
    fn the_last_call_that_covers_a_byte_holds() {
        let calls = MappingCalls::new(vec![
            call(5, "over the middle", Some((0x2000, 0x3000)), Some((0x2000, 0x3000))),
            call(1, "whole", Some((0x1000, 0x6000)), None),
            call(7, "moved here", Some((0x9000, 0xb000)), Some((0x4000, 0x6000))),
        ]);
        assert_eq!(holds(&calls, 0x1000, 0x2000), Some(("whole", 0x1000, 0)));
        assert_eq!(holds(&calls, 0x2000, 0x3000), Some(("over the middle", 0x1000, 0)));
        assert_eq!(holds(&calls, 0x1000, 0x4000), Some(("whole", 0x2000, 1)), "joined by the kernel");
        assert_eq!(holds(&calls, 0x9000, 0xb000), Some(("moved here", 0x2000, 0)));
        assert_eq!(holds(&calls, 0x4000, 0x6000), None, "mapped again by a call that was not recorded");
        assert_eq!(holds(&calls, 0x7000, 0x8000), None);
    }

    #[test]
    fn of_equal_parts_the_later_call_is_named() {
        let calls = MappingCalls::new(vec![
            call(1, "first", Some((0x1000, 0x2000)), None),
            call(2, "second", Some((0x2000, 0x3000)), None),
        ]);
        assert_eq!(holds(&calls, 0x1000, 0x3000), Some(("second", 0x1000, 1)));
    }
}
