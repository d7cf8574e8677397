//! The last minute.

use std::collections::VecDeque;

use crate::second::Second;

/// Seconds that are kept.
pub(crate) const LENGTH: usize = 60;

/// Rates of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Point {
    pub run: f64,
    pub ready: f64,
    pub off: f64,
    pub faults: f64,
}

/// The rates of the last minute, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    points: VecDeque<Point>,
}

impl History {
    /// Adds a second.
    pub(crate) fn push(&mut self, second: &Second) {
        if self.points.len() == LENGTH {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            run: second.per_s(second.run_ns),
            ready: second.per_s(second.ready_ns),
            off: second.per_s(second.off_ns),
            faults: second.faults.map_or(0.0, |faults| faults.per_s),
        });
    }

    /// The last `width` values of one rate as a line of bars, as high as the highest of them.
    pub(crate) fn spark(&self, width: usize, of: impl Fn(&Point) -> f64) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let skipped = self.points.len().saturating_sub(width);
        let values: Vec<f64> = self.points.iter().skip(skipped).map(of).collect();
        let highest = values.iter().copied().fold(0.0, f64::max);
        let bar = |value: &f64| {
            if highest <= 0.0 || *value <= 0.0 {
                return ' ';
            }
            let step = (value / highest * BARS.len() as f64).ceil() as usize;
            BARS[step.clamp(1, BARS.len()) - 1]
        };
        values.iter().map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_kept_and_the_highest_is_full() {
        let mut history = History::default();
        for faults in 0..100_u32 {
            history.points.push_back(Point { faults: f64::from(faults), ..Point::default() });
        }
        let line = history.spark(5, |point| point.faults);
        assert_eq!(line, "█████");
        let mut history = History::default();
        for faults in [0.0, 1.0, 4.0, 8.0] {
            history.points.push_back(Point { faults, ..Point::default() });
        }
        assert_eq!(history.spark(60, |point| point.faults), " ▁▄█");
        assert_eq!(history.spark(2, |point| point.run), "  ");
    }
}
