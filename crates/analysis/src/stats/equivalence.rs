//! Equivalence: how large a difference the data exclude.
//!
//! "No difference was shown" holds of two runs a side as well as of two hundred. Two one-sided tests (D. J. Schuirmann,
//! "A comparison of the two one-sided tests procedure and the power approach for assessing the equivalence of average
//! bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15 (1987)) say more: the sides are equivalent
//! within a margin m if both "the ratio is at most 1 - m" and "the ratio is at least 1 + m" are rejected, each at 5 %.
//! That is so if the 90 % interval of the ratio lies within 1 - m to 1 + m. The smallest such m is an upper 95 % bound
//! of how far the ratio is from 1: whatever the truth, a margin smaller than its distance from 1 is claimed in at most
//! 5 % of all comparisons. Named after the runs, it says what these data exclude, not that the margin is one that
//! matters.
//!
//! For ratios of means of unpaired runs the interval is Fieller's, and the two tests are those of D. Hauschke, M.
//! Kieser, L. A. Hothorn, "Proof of safety in toxicology based on the ratio of two means for normally distributed
//! data", Biometrical Journal 41 (1999).
//!
//! Measured (`tests/stats_equivalence.rs`, log-normal values, CV 2 to 10 %, true differences of 1 to 10 %): a margin
//! below the true difference is claimed in at most 5.5 % of comparisons with 3 runs a side and more.

/// Level of the interval from which a margin is read: 1 - 2 * 5 %.
pub const EQUIVALENCE_LEVEL: f64 = 0.90;
/// Margins above this, as a share, are no statement of equivalence.
pub const MOST_MARGIN: f64 = 0.5;

/// The smallest margin within which a ratio with this 90 % interval is equivalent to 1, in per cent, rounded up to two
/// figures; `None` above [`MOST_MARGIN`] or if an end is not finite.
pub fn equivalence_margin_pct([low, high]: [f64; 2]) -> Option<f64> {
    let margin = (1.0 - low).max(high - 1.0);
    if !margin.is_finite() || margin > MOST_MARGIN {
        return None;
    }
    Some(round_up(100.0 * margin))
}

/// Rounded up to two significant figures; 0.1 is the smallest, for nothing measures a machine more finely.
fn round_up(pct: f64) -> f64 {
    // Steps are whole numbers of the inverse, so that 3.3 is 33 / 10 and not 33 * 0.1.
    let per_unit = if pct < 10.0 { 10.0 } else { 1.0 };
    // What is a step already, to rounding, stays.
    ((pct * per_unit - 1e-9).ceil() / per_unit).max(0.1)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "decimals that are read from a document")]
mod tests {
    use super::*;

    #[test]
    fn margins_are_rounded_up() {
        assert_eq!(equivalence_margin_pct([0.968, 1.01]), Some(3.2));
        assert_eq!(equivalence_margin_pct([0.99, 1.0321]), Some(3.3));
        assert_eq!(equivalence_margin_pct([0.99, 1.1201]), Some(13.0));
        assert_eq!(equivalence_margin_pct([0.99999, 1.00001]), Some(0.1));
        assert_eq!(equivalence_margin_pct([0.4, 1.1]), None);
        assert_eq!(equivalence_margin_pct([0.9, f64::INFINITY]), None);
        assert_eq!(equivalence_margin_pct([f64::NAN, f64::NAN]), None);
        // An interval on one side of 1 says nothing else.
        assert_eq!(equivalence_margin_pct([1.01, 1.02]), Some(2.0));
    }
}
