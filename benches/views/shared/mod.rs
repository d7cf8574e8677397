//! What the benchmarks of views share.

#![allow(dead_code, reason = "each benchmark uses a part")]

pub(crate) mod duckdb;
pub(crate) mod recordings;

/// The upper median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Seconds of pagelab and of DuckDB, round by round.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Beside {
    /// Adds a round.
    pub(crate) fn add(&mut self, ours: f64, theirs: f64) {
        self.ours.push(ours);
        self.theirs.push(theirs);
    }

    /// The medians, and the ratio.
    pub(crate) fn line(&self, name: &str) -> String {
        let ratios: Vec<f64> = self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect();
        format!(
            "{name:34} pagelab {:8.1} ms   DuckDB {:8.1} ms   ratio {:.2} (lowest {:.2}, highest {:.2})",
            median(self.ours.clone()) * 1e3,
            median(self.theirs.clone()) * 1e3,
            median(ratios.clone()),
            ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratios.iter().copied().fold(0.0, f64::max),
        )
    }
}
