//! From sums, which only rise, to the faults and calls of a second.

use std::collections::BTreeMap;

use pagelab_observe::sums::{CallSums, FaultSums, Sums};

/// What has been told of the sums.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    told: Sums,
}

/// What a sum has risen by. A call that returns while sums are read may seem to be in none of them for an instant.
fn rise(told: &mut u64, now: u64) -> u64 {
    let by = now.saturating_sub(*told);
    *told += by;
    by
}

impl Counts {
    /// What has been added since the last time.
    pub(crate) fn take(&mut self, now: &Sums) -> Sums {
        let (told, now_faults) = (&mut self.told.faults, now.faults);
        let faults = FaultSums {
            read: rise(&mut told.read, now_faults.read),
            write: rise(&mut told.write, now_faults.write),
            execute: rise(&mut told.execute, now_faults.execute),
            protection: rise(&mut told.protection, now_faults.protection),
            kernel: rise(&mut told.kernel, now_faults.kernel),
            major: rise(&mut told.major, now_faults.major),
        };
        let mut calls = BTreeMap::new();
        for (name, now) in &now.calls {
            let told = self.told.calls.entry(name).or_default();
            let more = CallSums {
                calls: rise(&mut told.calls, now.calls),
                ns: rise(&mut told.ns, now.ns),
                off_ns: rise(&mut told.off_ns, now.off_ns),
            };
            if more != CallSums::default() {
                calls.insert(*name, more);
            }
        }
        Sums { faults, calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(calls: u64, ns: u64) -> Sums {
        let read = CallSums { calls, ns, off_ns: 0 };
        Sums { calls: BTreeMap::from([("read", read)]), ..Sums::default() }
    }

    #[test]
    fn what_seems_to_fall_is_told_once() {
        let mut counts = Counts::default();
        assert_eq!(counts.take(&sums(5, 100)), sums(5, 100));
        assert_eq!(counts.take(&sums(5, 60)), Sums::default());
        assert_eq!(counts.take(&sums(6, 130)), sums(1, 30));
    }
}
