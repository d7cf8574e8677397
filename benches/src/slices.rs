//! The method of DESIGN section 8, as all measurements of cost use it: slices of three states in random order, ratios within a
//! round, the median of the rounds with a bootstrap interval.

use std::path::Path;

use anyhow::Result;
use pagelab_analysis::stats::{Bootstrap, Interval, bootstrap_median};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// Measures `rounds` rounds of one slice of each state, the states of a round in an order drawn by `seed`. The slices of a round
/// stand in the order of `states`.
///
/// # Errors
/// What `slice` answers.
pub fn rounds<S: Copy, T>(
    rounds: usize,
    seed: u64,
    states: [S; 3],
    mut slice: impl FnMut(S) -> Result<T>,
) -> Result<Vec<[T; 3]>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut order = [0, 1, 2];
    let mut slices = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        order.shuffle(&mut rng);
        let mut round = [const { None }; 3];
        for state in order {
            round[state] = Some(slice(states[state])?);
        }
        if let [Some(first), Some(second), Some(third)] = round {
            slices.push([first, second, third]);
        }
    }
    Ok(slices)
}

/// The median of a value of each round with its bootstrap interval, as the results show it.
///
/// # Errors
/// There is no value, or one is not finite.
pub fn shown<T>(slices: &[[T; 3]], seed: u64, value: impl Fn(&[T; 3]) -> f64) -> Result<Value> {
    let values: Vec<f64> = slices.iter().map(value).collect();
    let Interval { estimate, low, high, .. } = bootstrap_median(&values, &Bootstrap { seed, ..Bootstrap::default() })?;
    Ok(json!({"median": estimate, "low": low, "high": high}))
}

/// The upper median of a value of each round, without an interval.
pub fn median<T>(slices: &[[T; 3]], value: impl Fn(&[T; 3]) -> f64) -> f64 {
    let mut values: Vec<f64> = slices.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Bytes of the files in a directory.
pub fn directory_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}
