//! The primary metric at equal speed of the machine.
//!
//! Where every run knows how fast its CPUs were meanwhile (the stream `speed`), the sides are compared at equal speed: on a machine
//! whose speed varies by a fifth within seconds the runs of one program do as well, and without that a loss of a tenth needs dozens of
//! runs to show.

use super::assemble::{Sides, Tested};
use crate::cpu_speed::{self, SPEED};
use crate::stats::{MetricSamples, test_at_equal_covariates};

/// Replaces the test of a metric by that at equal speed, if the runs know it.
pub(super) fn test(sides: &Sides, alpha: f64, tested: &mut Tested) {
    let [base, test] = [sides.base, sides.test]
        .map(|runs| -> Vec<f64> { runs.iter().map(|run| cpu_speed::of(run).unwrap_or(f64::NAN)).collect() });
    // Nobody asked for it.
    if base.iter().chain(&test).all(|speed| speed.is_nan()) {
        return;
    }
    let [base_runs, test_runs] = sides.observations_of(&tested.key, tested.form);
    let samples = MetricSamples { base: &base_runs, test: &test_runs, design: sides.design, resolution: None };
    test_at_equal_covariates(&samples, [&base, &test], SPEED, alpha, &mut tested.result);
}
