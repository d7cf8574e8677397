//! The running sums of one series of samples, fed row by row.

use pagelab_vocab::metrics::{MetricKind, Unit};

use super::bins::Bins;
use crate::run::RunMetric;
use crate::window::Window;

/// The share of the window that must be known of a series; a mean over less would describe another time.
const MIN_COVERED: f64 = 0.5;

/// When a source of samples (a file of /proc) was read. A series that does not change has no rows, but the rows of its
/// neighbours from the same file show that it was read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ticks {
    previous: Option<i64>,
    last: Option<i64>,
    in_window: u32,
}

impl Ticks {
    /// Takes note of a reading. Times must not go back; one that does is ignored.
    pub(crate) fn advance(&mut self, ts: i64, window: &Window) {
        if self.last.is_none_or(|last| ts > last) {
            self.previous = self.last;
            self.last = Some(ts);
            self.in_window += u32::from(ts >= window.start_ns && ts <= window.end_ns);
        }
    }

    /// Readings inside the window.
    pub(crate) fn in_window(&self) -> u32 {
        self.in_window
    }
}

/// One series. Memory does not depend on the number of rows.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    kind: MetricKind,
    unit: Unit,
    last: Option<(i64, f64)>,
    rows: u64,
    /// Time of the window for which the value is known.
    covered_ns: i64,
    /// Counters: the increase in the window. Gauges: the integral over the covered time, in units times ns.
    sum: f64,
    smallest_step: f64,
    /// Gauges: the smallest and the largest reading that counts, between which their mean lies.
    range: Option<(f64, f64)>,
    resets: u32,
    /// The same sums by piece of the window, where they are asked for.
    bins: Option<Bins>,
}

impl Series {
    pub(crate) fn new(kind: MetricKind, unit: Unit) -> Self {
        Self {
            kind,
            unit,
            last: None,
            rows: 0,
            covered_ns: 0,
            sum: 0.0,
            smallest_step: f64::INFINITY,
            range: None,
            resets: 0,
            bins: None,
        }
    }

    /// A series that also keeps its sums by piece of the window.
    pub(crate) fn binned(kind: MetricKind, unit: Unit, bins: Bins) -> Self {
        Self { bins: Some(bins), ..Self::new(kind, unit) }
    }

    /// Takes one row. `ticks` must have been advanced to `ts` already.
    pub(crate) fn push(&mut self, ts: i64, value: Option<f64>, ticks: &Ticks, window: &Window) {
        let value = value.filter(|v| v.is_finite());
        if let Some((since, held)) = self.last
            && ts > since
        {
            self.pass(since, held, ts, window);
            if let Some(value) = value {
                self.change(since, held, (ts, value), ticks, window);
            }
        }
        self.rows += 1;
        self.last = value.map(|v| (ts, v));
    }

    /// The value held from `since` to `ts`.
    fn pass(&mut self, since: i64, held: f64, ts: i64, window: &Window) {
        let ns = window.overlap_ns(since, ts);
        // Times that go back, which only a damaged recording has, would be covered again and again.
        self.covered_ns = self.covered_ns.saturating_add(ns);
        let is_level = self.kind != MetricKind::Counter;
        if let Some(bins) = &mut self.bins {
            bins.cover(since, ts, if is_level { held } else { 0.0 });
        }
        if is_level {
            self.sum += held * ns as f64;
            if ns > 0 {
                let (low, high) = self.range.unwrap_or((held, held));
                self.range = Some((low.min(held), high.max(held)));
            }
        }
    }

    /// The value changed at `ts`, or rather at an unknown instant after the reading before it.
    fn change(&mut self, since: i64, held: f64, (ts, value): (i64, f64), ticks: &Ticks, window: &Window) {
        let step = value - held;
        if step.abs() > 0.0 {
            self.smallest_step = self.smallest_step.min(step.abs());
        }
        if self.kind != MetricKind::Counter {
            return;
        }
        // A counter that falls below half of its last value has been reset and counts from 0. Smaller steps back are
        // real: some kernel counters (iowait) are corrected downwards, and per-CPU sums are read while they change.
        let increase = if value < 0.5 * held {
            self.resets += 1;
            value
        } else {
            step
        };
        // Until the last reading that found it unchanged it did not grow; from there to `ts` growth is taken as even.
        let from = ticks.previous.filter(|t| *t < ts).map_or(since, |t| t.max(since));
        self.sum += increase * window.overlap_ns(from, ts) as f64 / (ts - from) as f64;
        if let Some(bins) = &mut self.bins {
            bins.grow(from, ts, increase);
        }
    }

    /// The value of each piece of the window, once all rows are in: a counter's increase per second, a gauge's mean. None without
    /// pieces.
    pub(crate) fn finish_bins(mut self, ticks: &Ticks, window: &Window) -> Option<Vec<Option<f64>>> {
        self.hold(ticks, window);
        let per_ns = if self.kind == MetricKind::Counter { 1e9 } else { 1.0 };
        self.bins.map(|bins| bins.values(per_ns))
    }

    /// The last value held until the source was read last.
    fn hold(&mut self, ticks: &Ticks, window: &Window) {
        if let (Some((since, held)), Some(read)) = (self.last, ticks.last) {
            self.pass(since, held, read, window);
        }
    }

    /// The series' number, once all rows are in.
    pub(crate) fn finish(mut self, ticks: &Ticks, window: &Window, one_value: bool) -> RunMetric {
        if one_value {
            return match self.last {
                Some((_, value)) => RunMetric::level(value, self.kind, self.unit),
                None => self.absent("it has no value".to_owned()),
            };
        }
        self.hold(ticks, window);
        let share = self.covered_ns as f64 / (window.end_ns - window.start_ns) as f64;
        if self.covered_ns == 0 {
            return self.absent(format!(
                "{} samples, none of them in the measured time; at least 2 around it are needed",
                self.rows
            ));
        }
        if share < MIN_COVERED {
            return self.absent(format!(
                "known for {:.0} % of the measured time; at least {:.0} % are needed",
                share * 100.0,
                MIN_COVERED * 100.0
            ));
        }
        let note = self.note(share);
        let mut metric = match self.kind {
            MetricKind::Counter => self.counter(window),
            MetricKind::Gauge | MetricKind::Histogram => self.gauge(ticks),
        };
        metric.note = note;
        metric
    }

    fn counter(&self, window: &Window) -> RunMetric {
        let rate = self.sum / (self.covered_ns as f64 / 1e9);
        let events = rate * window.seconds();
        let step = if self.unit == Unit::Count { 1.0 } else { self.smallest_step };
        RunMetric {
            value: Some(rate),
            kind: self.kind,
            unit: self.unit,
            per_operation: window.operations.map(|n| events / n),
            events: Some(events),
            resolution: Some(step / window.seconds()).filter(|r| r.is_finite()),
            note: None,
        }
    }

    /// A mean of k readings moves in k-ths of the reading's own step.
    fn gauge(&self, ticks: &Ticks) -> RunMetric {
        let resolution = self.smallest_step / f64::from(ticks.in_window.max(1));
        let mean = self.sum / self.covered_ns as f64;
        // A sum of equal readings rounds, differently for each length of a run; their mean is the reading.
        let mean = self.range.map_or(mean, |(low, high)| mean.clamp(low, high));
        RunMetric {
            value: Some(mean),
            kind: self.kind,
            unit: self.unit,
            per_operation: None,
            events: None,
            resolution: Some(resolution).filter(|r| r.is_finite()),
            note: None,
        }
    }

    fn note(&self, share: f64) -> Option<String> {
        let mut notes = Vec::new();
        if share < 0.99 {
            notes.push(format!("known for {:.0} % of the measured time", share * 100.0));
        }
        if self.resets > 0 {
            notes.push(format!("the counter was reset {} times", self.resets));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    fn absent(&self, why: String) -> RunMetric {
        RunMetric::absent(self.kind, self.unit, why)
    }
}
