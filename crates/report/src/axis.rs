//! Round numbers for axes.

/// A step of 1, 2 or 5 times a power of ten such that at most `most` of them fit into `span`.
pub(crate) fn step(span: f64, most: usize) -> f64 {
    let rough = span / most.max(1) as f64;
    if rough <= 0.0 || !rough.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let unit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|unit| unit * power >= rough * (1.0 - 1e-9)).unwrap_or(10.0);
    unit * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        for span in [1.0, 3.7, 99.0, 1e6, 12_345_678.0] {
            for most in 1..8 {
                let step = step(span, most);
                assert!(span / step <= most as f64 + 1e-6, "{span} {most} {step}");
                let lead = step / 10f64.powf(step.log10().floor());
                assert!([1.0, 2.0, 5.0, 10.0].iter().any(|unit| (lead - unit).abs() < 1e-6), "{step}");
            }
        }
        assert!((step(0.0, 4) - 1.0).abs() < 1e-9);
    }
}
