//! Seeded draws for simulations.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random numbers that is the same on every machine.
pub(crate) struct Draws {
    generator: ChaCha8Rng,
    spare: Option<f64>,
}

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self { generator: ChaCha8Rng::seed_from_u64(seed), spare: None }
    }

    /// Uniform in (0, 1), never 0 or 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.generator.next_u64() >> 12) as f64 + 0.5) / 2f64.powi(52)
    }

    /// Standard normal, by the method of Box and Muller (1958); it shares nothing with the module under test.
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}
