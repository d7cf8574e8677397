//! What a figure may be.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number, a text, or true or false.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, a text, or true or false")]
pub enum Value {
    /// True or false.
    Truth(bool),
    /// A whole number, written as one.
    Whole(i64),
    /// Any other number; finite.
    Number(f64),
    /// Text.
    Text(String),
}

/// Whole numbers up to here are exact in f64.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Value {
    /// A number; `None` if it is not finite.
    pub fn number(value: f64) -> Option<Self> {
        if value.fract() == 0.0 && value.abs() <= EXACT {
            Some(Self::Whole(value as i64))
        } else {
            value.is_finite().then_some(Self::Number(value))
        }
    }

    /// A value of a JSON document; null, lists and objects are `None`.
    pub fn of_json(value: &serde_json::Value) -> Option<Self> {
        match value {
            serde_json::Value::Bool(truth) => Some(Self::Truth(*truth)),
            serde_json::Value::String(text) => Some(Self::Text(text.clone())),
            serde_json::Value::Number(number) => number.as_f64().and_then(Self::number),
            _ => None,
        }
    }

    /// As a number, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Whole(whole) => Some(*whole as f64),
            Self::Number(number) => Some(*number),
            Self::Truth(_) | Self::Text(_) => None,
        }
    }

    /// Whether two values are one, numbers to a relative 1e-9: sums of floats may be taken in another order.
    pub fn same(&self, other: &Self) -> bool {
        match (self.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => close(one, other),
            _ => self == other,
        }
    }

    /// As it was written by others: with all its digits, and commas in whole numbers.
    pub fn as_published(&self) -> String {
        match self {
            Self::Whole(whole) => grouped(*whole),
            other => other.to_string(),
        }
    }

    /// With `digits` significant digits, whole numbers with all of theirs and commas.
    pub fn shown(&self, digits: usize) -> String {
        match self {
            Self::Whole(whole) => grouped(*whole),
            Self::Number(number) => significant(*number, digits),
            other => other.to_string(),
        }
    }
}

/// Whether two numbers are equal to a relative 1e-9.
pub(crate) fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

/// A number with `digits` significant digits, without an exponent where that reads well.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    let digits = digits.max(1);
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    if !(-5.0..15.0).contains(&magnitude) {
        return format!("{value:.*e}", digits - 1);
    }
    let decimals = usize::try_from(digits as i64 - 1 - magnitude as i64).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if decimals == 0 { text.parse().map_or(text, grouped) } else { text }
}

/// A whole number with commas between thousands.
fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Whole(whole) => write!(f, "{whole}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_their_significant_digits() {
        let shown = |value: f64, digits| Value::number(value).unwrap().shown(digits);
        assert_eq!(shown(65_536.0, 4), "65,536");
        assert_eq!(shown(0.791_234, 3), "0.791");
        assert_eq!(shown(83_912.7, 3), "83,913");
        assert_eq!(shown(15.123_4, 4), "15.12");
        assert_eq!(shown(-1_234_567.0, 4), "-1,234,567");
        assert_eq!(shown(3.2e-9, 2), "3.2e-9");
        assert_eq!(Value::number(f64::NAN), None);
    }

    #[test]
    fn numbers_survive_the_file() {
        let values =
            [Value::Whole(512), Value::Number(0.1 + 0.2), Value::Text("thp.disabled".into()), Value::Truth(true)];
        for value in values {
            #[derive(Serialize, Deserialize)]
            struct Holder {
                value: Value,
            }
            let text = toml::to_string(&Holder { value: value.clone() }).unwrap();
            assert_eq!(toml::from_str::<Holder>(&text).unwrap().value, value, "{text}");
        }
    }
}
