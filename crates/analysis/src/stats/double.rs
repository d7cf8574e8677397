//! Double-double arithmetic: an unevaluated sum of two `f64`, about 32 significant digits.
//!
//! A difference of two means of values near 1e12 whose noise is 1e-3 has no correct digit when the means are rounded
//! to `f64` first. Sums, means and squared deviations are therefore carried in twice the precision, and only results
//! are rounded. Algorithms: T. J. Dekker, "A floating-point technique for extending the available precision",
//! Numerische Mathematik 18 (1971); D. E. Knuth, TAOCP vol. 2, 4.2.2 (`two_sum`); bounds in M. Joldes, J.-M. Muller,
//! V. Popescu, "Tight and rigorous error bounds for basic building blocks of double-word arithmetic", ACM TOMS 44
//! (2017): at most 10 u^2, u = 2^-53, relative for each operation below.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::LazyLock;

/// `hi + lo` with |lo| at most half a unit in the last place of `hi`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Double {
    pub(super) hi: f64,
    pub(super) lo: f64,
}

/// `a + b` without error.
fn two_sum(a: f64, b: f64) -> Double {
    let hi = a + b;
    let b_part = hi - a;
    let lo = (a - (hi - b_part)) + (b - b_part);
    Double { hi, lo }
}

/// `a + b` without error where |a| >= |b| or a is 0.
fn quick_two_sum(a: f64, b: f64) -> Double {
    let hi = a + b;
    Double { hi, lo: b - (hi - a) }
}

/// `a * b` without error, as long as nothing under- or overflows.
fn two_product(a: f64, b: f64) -> Double {
    let hi = a * b;
    Double { hi, lo: a.mul_add(b, -hi) }
}

impl Double {
    pub(super) const ZERO: Self = Self { hi: 0.0, lo: 0.0 };
    /// ln 2 to 32 digits.
    const LN_2: Self = Self { hi: std::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };

    pub(super) fn new(value: f64) -> Self {
        Self { hi: value, lo: 0.0 }
    }

    /// `a - b`, exact.
    pub(super) fn difference(a: f64, b: f64) -> Self {
        two_sum(a, -b)
    }

    /// The nearest `f64`.
    pub(super) fn value(self) -> f64 {
        self.hi + self.lo
    }

    /// Multiplication by a power of two, exact as long as nothing under- or overflows.
    pub(super) fn scaled(self, power_of_two: f64) -> Self {
        Self { hi: self.hi * power_of_two, lo: self.lo * power_of_two }
    }

    /// ln(numerator / denominator) for positive finite arguments, with a relative error near 1e-30 also where the
    /// ratio is next to 1.
    ///
    /// The quotient of the significands, brought into [0.7, 1.42], goes through
    /// ln q = 2 artanh((q - 1) / (q + 1)) = 2 sum s^(2k+1) / (2k+1) with |s| <= 0.174: 24 terms leave s^49 < 1e-37. From
    /// k = 12 on a term is below 1e-17 of the sum and needs only single words.
    pub(super) fn ln_ratio(numerator: f64, denominator: f64) -> Self {
        let (mut top, top_exponent) = split(numerator);
        let (bottom, bottom_exponent) = split(denominator);
        let mut exponent = top_exponent - bottom_exponent;
        if top > bottom * std::f64::consts::SQRT_2 {
            top *= 0.5;
            exponent += 1;
        } else if bottom > top * std::f64::consts::SQRT_2 {
            top *= 2.0;
            exponent -= 1;
        }
        let s = two_sum(top, -bottom) / two_sum(top, bottom);
        let square = s * s;
        let rest = (12..24_u32).rev().fold(0.0, |sum, k| sum * square.hi + 1.0 / f64::from(2 * k + 1));
        let mut sum = Self::new(rest);
        for reciprocal in ODD_RECIPROCALS.iter().rev() {
            sum = sum * square + *reciprocal;
        }
        (sum * s).scaled(2.0) + Self::LN_2 * Self::new(f64::from(exponent))
    }
}

/// 1, 1/3, 1/5, ... 1/23.
static ODD_RECIPROCALS: LazyLock<[Double; 12]> =
    LazyLock::new(|| std::array::from_fn(|k| Double::new(1.0) / Double::new((2 * k + 1) as f64)));

/// Significand in [1, 2) and exponent of a positive finite number.
fn split(x: f64) -> (f64, i32) {
    // Subnormals are lifted first so that their significand has a leading 1.
    let (x, lifted) = if x < f64::MIN_POSITIVE { (x * 2f64.powi(64), 64) } else { (x, 0) };
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let significand = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    (significand, exponent - lifted)
}

/// The power of two at or below `x`, for a positive finite `x`; kept away from the ends of the range so that both it
/// and its reciprocal are normal numbers.
pub(super) fn power_of_two_below(x: f64) -> f64 {
    2f64.powi(split(x).1.clamp(-1000, 1000))
}

impl Add for Double {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let high = two_sum(self.hi, other.hi);
        let low = two_sum(self.lo, other.lo);
        let first = quick_two_sum(high.hi, high.lo + low.hi);
        quick_two_sum(first.hi, first.lo + low.lo)
    }
}

impl Neg for Double {
    type Output = Self;
    fn neg(self) -> Self {
        Self { hi: -self.hi, lo: -self.lo }
    }
}

impl Sub for Double {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Double {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let product = two_product(self.hi, other.hi);
        let cross = self.hi.mul_add(other.lo, self.lo * other.hi);
        quick_two_sum(product.hi, product.lo + cross)
    }
}

impl Div for Double {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let first = self.hi / other.hi;
        let rest = self - other * Self::new(first);
        let second = rest.hi / other.hi;
        let rest = rest - other * Self::new(second);
        quick_two_sum(first, second) + Self::new(rest.hi / other.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1/3 and its complement must add to 1 with an error far below one `f64` unit.
    #[test]
    fn arithmetic_keeps_thirty_digits() {
        let third = Double::new(1.0) / Double::new(3.0);
        let error = third * Double::new(3.0) - Double::new(1.0);
        assert!(error.value().abs() < 1e-31, "{error:?}");
        assert!(third.lo.abs() > 1e-18, "the low word is in use");
    }

    /// ln(ab) = ln a + ln b, with factors whose product is exact; and ln 10 against its published digits.
    #[test]
    fn logarithms_add_up() {
        let pair = Double::ln_ratio(3.0, 1.0) + Double::ln_ratio(1_048_573.0, 1.0);
        let product = Double::ln_ratio(3_145_719.0, 1.0);
        assert!(((pair - product).value() / product.value()).abs() < 1e-30);
        let ten = Double::ln_ratio(10.0, 1.0);
        // ln 10 = 2.302585092994045684017991454684364...
        let published = Double { hi: std::f64::consts::LN_10, lo: -2.170_756_223_382_249_3e-16 };
        assert!((ten - published).value().abs() < 1e-30, "{ten:?}");
    }

    /// Ratios that are equal have logarithms that are equal to the last bit: otherwise a ratio that is the same in every
    /// round would seem to have a spread, of 1e-32, and be called significant beyond all measure.
    #[test]
    fn equal_ratios_have_equal_logarithms() {
        for (p, q) in [(7.0, 3.0), (7.0, 1.0), (11.0, 13.0), (65_537.0, 3.0)] {
            let first = Double::ln_ratio(p, q);
            for k in (1..50_000_u32).map(f64::from) {
                assert_eq!(Double::ln_ratio(p * k, q * k), first, "{p} / {q} by {k}");
            }
        }
    }

    /// Far from each other, next to each other, and below the normal range.
    #[test]
    fn ratios_of_any_size() {
        let far = Double::ln_ratio(1e300, 1e-300).value();
        assert!((far / (600.0 * std::f64::consts::LN_10) - 1.0).abs() < 1e-15);
        let near = Double::ln_ratio(1.0 + f64::EPSILON, 1.0).value();
        assert!((near / (f64::EPSILON - f64::EPSILON * f64::EPSILON / 2.0) - 1.0).abs() < 1e-15);
        let tiny = Double::ln_ratio(f64::from_bits(3), f64::from_bits(1)).value();
        assert!((tiny / 3f64.ln() - 1.0).abs() < 1e-15);
    }
}
