//! What chance alone does: draws of a history without a change.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::series::correlated_noise;

/// A test ends early when this number of draws were as extreme as the data.
const ENOUGH: u32 = 20;
/// Draws at least and at most.
const DRAWS: (u32, u32) = (999, 9999);

/// What the noise of neighbouring points has to do with each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Noise {
    /// Nothing: any order of the points was as likely as the one found.
    Exchangeable,
    /// An autoregression of first order with this correlation of neighbours.
    Correlated(f64),
}

/// A p value from draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drawn {
    /// The p value; never 0.
    pub p: f64,
    /// No draw was as extreme as the data: p is the smallest that this number of draws can give.
    pub least: bool,
}

impl Noise {
    /// The factor on the variance of a mean of many points.
    pub(crate) fn inflation(self) -> f64 {
        match self {
            Self::Exchangeable => 1.0,
            Self::Correlated(phi) => (1.0 + phi) / (1.0 - phi),
        }
    }

    /// One order, or one draw, of noise like `noise`.
    fn draw(self, noise: &mut Vec<f64>, scale: f64, random: &mut ChaCha8Rng) {
        match self {
            Self::Exchangeable => noise.shuffle(random),
            Self::Correlated(phi) => {
                *noise = correlated_noise(noise.len(), phi, random).into_iter().map(|v| v * scale).collect();
            }
        }
    }
}

/// The chance that noise like `noise` on top of `signal` makes `statistic` as large as `found`.
///
/// Draws end when [`ENOUGH`] of them were as extreme, so that what is clearly chance costs little and p stays a valid one:
/// J. Besag and P. Clifford, "Sequential Monte Carlo p-values", Biometrika 78 (1991). Else p = (1 + extreme) / (1 + draws).
pub(crate) fn chance(
    found: f64,
    signal: &[f64],
    noise: &[f64],
    kind: Noise,
    level: f64,
    random: &mut ChaCha8Rng,
    statistic: impl Fn(&[f64]) -> f64,
) -> Drawn {
    let draws = ((10.0 / level) as u32).clamp(DRAWS.0, DRAWS.1);
    let scale = (noise.iter().map(|v| v * v).sum::<f64>() / noise.len().max(1) as f64).sqrt();
    let mut drawn = noise.to_vec();
    let mut extreme = 0;
    for draw in 1..=draws {
        kind.draw(&mut drawn, scale, random);
        let values: Vec<f64> = signal.iter().zip(&drawn).map(|(s, n)| s + n).collect();
        // Orders of equal values must count as equal although their sums are rounded in another order.
        if statistic(&values) >= found - 1e-9 * found.abs() {
            extreme += 1;
        }
        if extreme == ENOUGH {
            return Drawn { p: f64::from(extreme) / f64::from(draw), least: false };
        }
    }
    Drawn { p: f64::from(extreme + 1) / f64::from(draws + 1), least: extreme == 0 }
}
