//! The sums of a series by piece of the window: they add up to those of the whole.

use crate::window::Window;

/// What is known of one piece.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    /// Time for which the value is known, ns.
    covered_ns: i64,
    /// Counters: the increase. Gauges: the integral over the covered time.
    sum: f64,
}

/// The window in pieces of equal length; the last may be shorter.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    window: Window,
    width_ns: i64,
    bins: Vec<Bin>,
}

impl Bins {
    /// At most `most` pieces of at least `least_ns`.
    pub(crate) fn new(window: &Window, most: usize, least_ns: i64) -> Self {
        let span = (window.end_ns - window.start_ns).max(1);
        let width_ns = least_ns.max((span as u64).div_ceil(most.max(1) as u64) as i64);
        let count = (span as u64).div_ceil(width_ns as u64) as usize;
        Self { window: window.clone(), width_ns, bins: vec![Bin::default(); count] }
    }

    pub(crate) fn width_ns(&self) -> i64 {
        self.width_ns
    }

    /// The value is known from `from` to `to`, and was `level` there.
    pub(crate) fn cover(&mut self, from: i64, to: i64, level: f64) {
        self.each(from, to, |bin, ns| {
            bin.covered_ns = bin.covered_ns.saturating_add(ns);
            bin.sum += level * ns as f64;
        });
    }

    /// The value grew evenly from `from` to `to`.
    pub(crate) fn grow(&mut self, from: i64, to: i64, increase: f64) {
        let whole = (to - from).max(1) as f64;
        self.each(from, to, |bin, ns| bin.sum += increase * ns as f64 / whole);
    }

    /// The pieces that `from..to` and the window have in common, with the time that lies in each.
    fn each(&mut self, from: i64, to: i64, mut act: impl FnMut(&mut Bin, i64)) {
        let (from, to) = (from.max(self.window.start_ns), to.min(self.window.end_ns));
        if to <= from {
            return;
        }
        let first = ((from - self.window.start_ns) / self.width_ns) as usize;
        for (place, bin) in self.bins.iter_mut().enumerate().skip(first) {
            let begin = self.window.start_ns + place as i64 * self.width_ns;
            if begin >= to {
                break;
            }
            act(bin, to.min(begin + self.width_ns) - from.max(begin));
        }
    }

    /// The mean of each piece over the time for which it is known, times `scale`.
    pub(crate) fn values(&self, scale: f64) -> Vec<Option<f64>> {
        let value = |bin: &Bin| (bin.covered_ns > 0).then(|| bin.sum / bin.covered_ns as f64 * scale);
        self.bins.iter().map(value).collect()
    }
}
