//! Sums over calls, with percentiles.

use hdrhistogram::Histogram;

use super::Call;

/// Durations up to this number are kept as they are; of more the histogram takes less memory.
const EXACT: usize = 256;

/// Durations of which percentiles can be taken: exact for up to 256 of them, beyond that within 1 % (two significant
/// figures of an HDR histogram).
#[derive(Debug, Clone)]
pub enum Durations {
    /// All of them.
    Exact(Vec<u64>),
    /// Counts by value.
    Counted(Box<Histogram<u32>>),
}

impl Default for Durations {
    fn default() -> Self {
        Self::Exact(Vec::new())
    }
}

impl Durations {
    /// Adds one, in ns.
    pub fn add(&mut self, ns: u64) {
        match self {
            Self::Exact(values) if values.len() < EXACT => values.push(ns),
            Self::Exact(values) => match Histogram::new(2) {
                Ok(mut counts) => {
                    // It grows to whatever it is given, so that recording cannot fail.
                    values.iter().chain([&ns]).for_each(|value| counts.record(*value).unwrap_or(()));
                    *self = Self::Counted(Box::new(counts));
                }
                // Two figures are in the range that the histogram takes; if not, exact values are right as well.
                Err(_) => values.push(ns),
            },
            Self::Counted(counts) => counts.record(ns).unwrap_or(()),
        }
    }

    /// Values with how often they occur, rising. Beyond some hundred the values are those of the histogram, and
    /// [`Durations::of_counts`] makes the same histogram of them.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        match self {
            Self::Exact(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                let runs = sorted.chunk_by(|one, other| one == other);
                runs.filter_map(|run| Some((*run.first()?, run.len() as u64))).collect()
            }
            Self::Counted(counts) => {
                counts.iter_recorded().map(|at| (at.value_iterated_to(), u64::from(at.count_at_value()))).collect()
            }
        }
    }

    /// The durations that [`Durations::counts`] was asked of.
    pub(crate) fn of_counts(counts: &[(u64, u64)]) -> Self {
        let all: u64 = counts.iter().map(|(_, count)| *count).sum();
        let histogram = Histogram::new(2).ok().filter(|_| all > EXACT as u64);
        let Some(mut histogram) = histogram else {
            return Self::Exact(
                counts.iter().flat_map(|(ns, count)| std::iter::repeat_n(*ns, *count as usize)).collect(),
            );
        };
        for (ns, count) in counts {
            // It grows to whatever it is given, and its own counts have fitted before.
            histogram.record_n(*ns, u32::try_from(*count).unwrap_or(u32::MAX)).unwrap_or(());
        }
        Self::Counted(Box::new(histogram))
    }

    /// The smallest value that at least the fraction `q` of all are not above; `None` if there are none.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        match self {
            Self::Exact(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                let rank = (q * sorted.len() as f64).ceil() as usize;
                sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
            }
            Self::Counted(counts) => Some(counts.value_at_quantile(q)),
        }
    }
}

/// Time split into time on a CPU, asleep, and ready to run without a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split {
    /// Calls of which the split is known, in full.
    pub calls: u64,
    /// Their durations, ns.
    pub dur_ns: u64,
    /// On a CPU, ns.
    pub cpu_ns: u64,
    /// Asleep, ns.
    pub blocked_ns: u64,
}

impl Split {
    /// Adds a call of which all three are known.
    pub fn add(&mut self, call: &Call<'_>) {
        let dur = call.dur.and_then(|dur| u64::try_from(dur).ok());
        if let (Some(dur), Some(cpu), Some(blocked)) = (dur, call.cpu_ns, call.blocked_ns) {
            self.calls += 1;
            self.dur_ns = self.dur_ns.saturating_add(dur);
            self.cpu_ns = self.cpu_ns.saturating_add(cpu);
            self.blocked_ns = self.blocked_ns.saturating_add(blocked);
        }
    }

    /// Ready to run, but not running, ns: what is left of the durations.
    pub fn queue_ns(&self) -> u64 {
        self.dur_ns.saturating_sub(self.cpu_ns).saturating_sub(self.blocked_ns)
    }
}

/// Sums over a group of calls.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls that never returned, which have no duration.
    pub unfinished: u64,
    /// Calls that were refused before they began, which have a result and no duration.
    pub refused: u64,
    /// Durations of those that have one, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// For percentiles.
    pub durations: Durations,
    /// Calls whose time on a CPU is known.
    pub cpu_calls: u64,
    /// Time on a CPU of those, ns.
    pub cpu_ns: u64,
    /// The split where it is known in full.
    pub split: Split,
}

impl Totals {
    /// Adds a call.
    pub fn add(&mut self, call: &Call<'_>) {
        self.calls += 1;
        self.errors += u64::from(call.errno().is_some());
        let Some(dur) = call.dur.and_then(|dur| u64::try_from(dur).ok()) else {
            match call.ret {
                Some(_) => self.refused += 1,
                None => self.unfinished += 1,
            }
            return;
        };
        self.total_ns = self.total_ns.saturating_add(dur);
        self.max_ns = self.max_ns.max(dur);
        self.durations.add(dur);
        let Some(cpu) = call.cpu_ns else { return };
        self.cpu_calls += 1;
        self.cpu_ns = self.cpu_ns.saturating_add(cpu);
        self.split.add(call);
    }

    /// Calls that have a duration.
    pub fn timed(&self) -> u64 {
        self.calls.saturating_sub(self.unfinished).saturating_sub(self.refused)
    }

    /// Mean duration of the calls that have one, ns.
    pub fn mean_ns(&self) -> Option<f64> {
        let timed = self.timed();
        (timed > 0).then(|| self.total_ns as f64 / timed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_for_few_and_within_a_percent_for_many() {
        let mut durations = Durations::default();
        assert_eq!(durations.quantile(0.5), None);
        for ns in 1..=100 {
            durations.add(ns);
        }
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| durations.quantile(q)), [Some(1), Some(50), Some(99), Some(100)]);
        for ns in 101..=100_000 {
            durations.add(ns);
        }
        for (q, exact) in [(0.5, 50_000.0), (0.99, 99_000.0), (1.0, 100_000.0)] {
            let found = durations.quantile(q).expect("there are some") as f64;
            assert!((found / exact - 1.0).abs() < 0.01, "{q}: {found}");
        }
    }
}
