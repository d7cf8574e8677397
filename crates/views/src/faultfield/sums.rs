//! Faults by time and slot, in a bounded number of sums.

/// Bins of time at most; when there would be more, two are put together.
const BINS: i64 = 8192;
/// Sums kept at most, 12 bytes each; when there would be more, bins of time are put together.
const SUMS: usize = 4 << 20;
/// Time of a bin to begin with.
const FIRST_BIN_NS: i64 = 1 << 16;

/// Faults of a slot in a bin of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sum {
    bin: u32,
    slot: u32,
    faults: u32,
}

/// Faults by time and slot. They come in order of time for the most part, so the bin that is being filled is kept by slot and
/// written when the next one begins: counting a fault is an addition.
#[derive(Debug, Default)]
pub(super) struct Sums {
    start_ns: Option<i64>,
    last_ns: i64,
    bin_ns: i64,
    written: Vec<Sum>,
    /// The bin that is being filled, its faults by slot, and the slots that have some.
    current: i64,
    counts: Vec<u32>,
    touched: Vec<u32>,
    faults: u64,
}

impl Sums {
    /// Counts a fault. Those before the first one count with it.
    pub(super) fn add(&mut self, ts: i64, slot: u32) {
        let start = *self.start_ns.get_or_insert(ts);
        if self.bin_ns == 0 {
            self.bin_ns = FIRST_BIN_NS;
            self.last_ns = ts;
        }
        self.last_ns = self.last_ns.max(ts);
        let since = ts.saturating_sub(start).max(0);
        while since / self.bin_ns >= BINS {
            self.coarsen();
        }
        let bin = since / self.bin_ns;
        if bin != self.current {
            self.write();
            self.current = bin;
        }
        let place = slot as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(place) {
            if *count == 0 {
                self.touched.push(slot);
            }
            *count = count.saturating_add(1);
        }
        self.faults += 1;
    }

    /// Writes the bin that is being filled.
    fn write(&mut self) {
        self.flush();
        if self.written.len() >= SUMS {
            self.coarsen();
        }
    }

    /// Puts two bins together.
    fn coarsen(&mut self) {
        self.flush();
        self.bin_ns = self.bin_ns.saturating_mul(2);
        self.current /= 2;
        for sum in &mut self.written {
            sum.bin /= 2;
        }
        self.merge();
    }

    fn flush(&mut self) {
        let bin = u32::try_from(self.current).unwrap_or(u32::MAX);
        for slot in self.touched.drain(..) {
            if let Some(count) = self.counts.get_mut(slot as usize) {
                self.written.push(Sum { bin, slot, faults: std::mem::take(count) });
            }
        }
    }

    /// One sum for each bin and slot.
    fn merge(&mut self) {
        self.written.sort_unstable_by_key(|sum| (sum.bin, sum.slot));
        self.written.dedup_by(|next, kept| {
            let is_same = next.bin == kept.bin && next.slot == kept.slot;
            if is_same {
                kept.faults = kept.faults.saturating_add(next.faults);
            }
            is_same
        });
    }

    /// Ends counting, and gives slots their ranks: that of slot number n is `ranks[n]`.
    pub(super) fn rename(&mut self, ranks: &[u32]) {
        self.write();
        for sum in &mut self.written {
            sum.slot = ranks.get(sum.slot as usize).copied().unwrap_or(sum.slot);
        }
        self.merge();
        (self.counts, self.touched) = (Vec::new(), Vec::new());
    }

    /// Calls `each` with the middle of each bin since the start, the slot and its faults.
    pub(super) fn visit(&self, mut each: impl FnMut(i64, u32, u64)) {
        for sum in &self.written {
            let middle = i64::from(sum.bin) * self.bin_ns + self.bin_ns / 2;
            each(middle.min(self.span_ns()), sum.slot, u64::from(sum.faults));
        }
    }

    /// When the first fault was read, on the recording's clock.
    pub(super) fn start_ns(&self) -> i64 {
        self.start_ns.unwrap_or(0)
    }

    pub(super) fn span_ns(&self) -> i64 {
        self.last_ns.saturating_sub(self.start_ns()).max(1)
    }

    pub(super) fn bin_ns(&self) -> i64 {
        self.bin_ns
    }

    pub(super) fn faults(&self) -> u64 {
        self.faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(sums: &Sums) -> (u64, usize) {
        let (mut faults, mut count) = (0, 0);
        sums.visit(|_, _, of_sum| {
            faults += of_sum;
            count += 1;
        });
        (faults, count)
    }

    #[test]
    fn no_fault_is_lost_however_long_it_takes() {
        let mut sums = Sums::default();
        for second in 0..100_000_i64 {
            sums.add(5 + second * 1_000_000_000, (second % 7) as u32);
        }
        // One that came late, and one from before the first.
        sums.add(9, 3);
        sums.add(-4, 3);
        sums.rename(&[6, 5, 4, 3, 2, 1, 0]);
        let (faults, count) = all(&sums);
        assert_eq!((faults, sums.faults()), (100_002, 100_002));
        assert!(count as i64 <= BINS * 7 && sums.bin_ns() >= 100_000 * 1_000_000_000 / BINS, "{count}");
        assert_eq!(sums.span_ns(), 99_999 * 1_000_000_000);
    }

    #[test]
    fn many_slots_take_bounded_memory() {
        let mut sums = Sums::default();
        for number in 0..6_000_000_i64 {
            sums.add(number * 100_000, (number.wrapping_mul(2_654_435_761) % 1_000_003) as u32);
        }
        sums.rename(&(0..1_000_003).collect::<Vec<u32>>());
        let (faults, count) = all(&sums);
        assert_eq!(faults, 6_000_000);
        assert!(count <= 2 * SUMS, "{count}");
    }
}
