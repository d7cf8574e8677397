//! Reads the reference tables and draws the samples that their rows describe, for the tests of `stats`.

use std::collections::HashMap;
use std::path::Path;

/// One row of a table, by column name.
pub(crate) struct Row(HashMap<String, String>);

impl Row {
    pub(crate) fn text(&self, column: &str) -> &str {
        self.0.get(column).unwrap_or_else(|| panic!("no column {column}"))
    }

    pub(crate) fn number(&self, column: &str) -> f64 {
        self.text(column).parse().unwrap_or_else(|e| panic!("{column} = {:?}: {e}", self.text(column)))
    }

    /// `None` where the table says that there is no value.
    pub(crate) fn optional(&self, column: &str) -> Option<f64> {
        (!self.text(column).is_empty()).then(|| self.number(column))
    }

    pub(crate) fn integer(&self, column: &str) -> u64 {
        self.text(column).parse().unwrap_or_else(|e| panic!("{column} = {:?}: {e}", self.text(column)))
    }

    pub(crate) fn list(&self, column: &str) -> Vec<f64> {
        self.text(column).split(' ').map(|v| v.parse().unwrap_or_else(|e| panic!("{v:?}: {e}"))).collect()
    }
}

/// The rows of `tests/reference/NAME`; lines that start with # are remarks.
pub(crate) fn rows(name: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().expect("a header").split(',').collect();
    lines
        .map(|line| {
            let values: Vec<&str> = line.split(',').collect();
            assert_eq!(values.len(), columns.len(), "{name}: {line}");
            Row(columns.iter().zip(values).map(|(c, v)| ((*c).to_owned(), v.to_owned())).collect())
        })
        .collect()
}

/// SplitMix64, as make_reference.py has it.
pub(crate) struct SplitMix(pub u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// The same doubles as `draw` of make_reference.py.
pub(crate) fn draw(seed: u64, n: u64, center: f64, scale: f64, step: f64) -> Vec<f64> {
    let mut generator = SplitMix(seed);
    (0..n)
        .map(|_| {
            let bits = generator.next();
            let total: u64 = [0, 16, 32, 48].iter().map(|shift| (bits >> shift) & 0xFFFF).sum();
            let mut z = (total as f64 - 131_070.0) / 32_768.0;
            if step != 0.0 {
                z = (z / step).floor() * step;
            }
            center + scale * z
        })
        .collect()
}

/// Seed of the test side that belongs to a seed of the base.
pub(crate) fn other_seed(seed: u64) -> u64 {
    seed ^ 0x5_DEEC_E66D
}

pub(crate) fn checksum(values: &[f64]) -> String {
    let sum = values.iter().fold(0_u64, |sum, v| sum.wrapping_mul(31).wrapping_add(v.to_bits()));
    format!("{sum:016x}")
}

/// Keeps the largest relative error of each quantity and fails once one is above its bound.
#[derive(Default)]
pub(crate) struct Errors(HashMap<&'static str, (f64, usize)>);

impl Errors {
    /// Compares relatively; equal values, zero included, have no error.
    #[allow(clippy::float_cmp, reason = "equal values have no error, whatever they are")]
    pub(crate) fn compare(&mut self, quantity: &'static str, got: f64, wanted: f64, bound: f64, place: &str) {
        let error = if got == wanted { 0.0 } else { ((got - wanted) / wanted).abs() };
        assert!(error <= bound, "{quantity}: got {got:e}, wanted {wanted:e}, error {error:e} > {bound:e} at {place}");
        let entry = self.0.entry(quantity).or_default();
        *entry = (entry.0.max(error), entry.1 + 1);
    }

    /// Number of comparisons made of a quantity.
    pub(crate) fn count(&self, quantity: &str) -> usize {
        self.0.get(quantity).map_or(0, |e| e.1)
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        for (quantity, (error, count)) in &self.0 {
            println!("largest relative error of {quantity}: {error:.1e} in {count}");
        }
    }
}
