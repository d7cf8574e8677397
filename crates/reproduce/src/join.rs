//! How the values of several recordings become one figure with its interval.

use pagelab_analysis::stats::{self, Summary};

use crate::recipe::Join;
use crate::value::Value;

/// Level of every interval.
const LEVEL: f64 = 0.95;

/// A figure's value with its 95 % interval, where there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// The value.
    pub value: Value,
    /// Lower and upper end.
    pub interval: Option<[f64; 2]>,
}

/// Joins the values; the error is a reason. `Together` and `Against` are not joined from single values.
pub(crate) fn join(values: &[Value], how: Option<&Join>) -> Result<Joined, String> {
    let alone = |value: Value| Joined { value, interval: None };
    match how {
        Some(Join::Count(wanted)) => {
            let count = values.iter().filter(|value| value.to_string() == *wanted).count();
            return Ok(alone(Value::Whole(count as i64)));
        }
        Some(Join::List) if values.is_empty() => return Err("no value".to_owned()),
        Some(Join::List) => {
            let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
            return Ok(alone(Value::Text(texts.join(", "))));
        }
        Some(Join::Equal) => return all_equal(values).map(alone),
        None | Some(Join::Together | Join::Against(_)) => {
            return match values {
                [value] => Ok(alone(value.clone())),
                [] => Err("no value".to_owned()),
                _ => Err(format!(
                    "{} values where there must be one; needed: over = \"median\" or the like",
                    values.len()
                )),
            };
        }
        Some(_) => {}
    }
    let numbers: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
    let numbers = numbers.ok_or("a value is no number")?;
    let (value, interval) = match how {
        Some(Join::Median) => (stats::median(&numbers), median_interval(&numbers)),
        Some(Join::Mean) => (stats::mean(&numbers), mean_interval(&numbers)),
        Some(Join::Min) => (Ok(numbers.iter().copied().fold(f64::INFINITY, f64::min)), None),
        Some(Join::Max) => (Ok(numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)), None),
        _ => (Ok(numbers.iter().sum()), None),
    };
    let value = value.map_err(|error| error.to_string())?;
    Ok(Joined { value: Value::number(value).ok_or("no values")?, interval })
}

fn all_equal(values: &[Value]) -> Result<Value, String> {
    let first = values.first().ok_or("no value")?;
    match values.iter().find(|value| !value.same(first)) {
        None => Ok(first.clone()),
        Some(other) => Err(format!("the recordings differ: {first} and {other} are among the values")),
    }
}

/// The geometric mean of the ratios of pairs, with Student's interval on the logarithms.
pub(crate) fn against(pairs: &[(f64, f64)]) -> Result<Joined, String> {
    let (values, bases): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (ratio, interval) = if let Ok(found) = stats::paired_ratio(&bases, &values, 0.0, LEVEL) {
        (found.ratio, found.interval.ok())
    } else {
        // One pair, or ratios that are all the same: a value without a spread.
        let ratios: Vec<f64> = pairs.iter().map(|(value, base)| value / base).collect();
        (stats::geometric_mean(&ratios).map_err(|error| error.to_string())?, None)
    };
    Ok(Joined { value: Value::number(ratio).ok_or("the ratio is not a finite number")?, interval })
}

fn mean_interval(values: &[f64]) -> Option<[f64; 2]> {
    let test = stats::one_sample(&Summary::of(values).ok()?, 0.0).ok()?;
    test.interval(LEVEL).ok()
}

/// The order statistics between which the median of the distribution lies with 95 % at least, whatever the distribution:
/// each value is below it with probability 1/2, so the number below is binomial. None below 6 values, where even the
/// least and the greatest do not reach 95 %. H. A. David, H. N. Nagaraja, "Order Statistics", 3rd ed., section 7.1.
fn median_interval(values: &[f64]) -> Option<[f64; 2]> {
    let n = values.len();
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The probability of exactly `below` values below the median, and of that many or fewer. In logarithms the first
    // term does not vanish for large n.
    let mut ln_term = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    let mut cut = 0;
    for below in 0..n / 2 {
        tail += ln_term.exp();
        if 2.0 * tail > 1.0 - LEVEL {
            break;
        }
        cut = below + 1;
        ln_term += ((n - below) as f64 / (below + 1) as f64).ln();
    }
    let low = sorted.get(cut.checked_sub(1)?)?;
    Some([*low, *sorted.get(n - cut)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: &[f64]) -> Vec<Value> {
        values.iter().map(|value| Value::number(*value).unwrap()).collect()
    }

    /// Ranks from the tables of the binomial distribution: n = 6: 1 and 6; 10: 2 and 9; 25: 8 and 18; 50: 18 and 33.
    #[test]
    fn the_interval_of_a_median_is_between_the_tabled_ranks() {
        for (n, low, high) in [(6, 1.0, 6.0), (10, 2.0, 9.0), (25, 8.0, 18.0), (50, 18.0, 33.0)] {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            assert_eq!(median_interval(&values), Some([low, high]), "n = {n}");
        }
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert!(median_interval(&vec![1.0; 3000]).is_some());
    }

    #[test]
    fn values_are_joined_as_asked_and_never_in_silence() {
        let values = numbers(&[1.0, 2.0, 6.0]);
        let of = |how| join(&values, Some(&how)).map(|joined| joined.value);
        assert_eq!(of(Join::Median), Ok(Value::Whole(2)));
        assert_eq!(of(Join::Mean), Ok(Value::Whole(3)));
        assert_eq!(of(Join::Sum), Ok(Value::Whole(9)));
        assert_eq!(of(Join::Max), Ok(Value::Whole(6)));
        assert_eq!(of(Join::Min), Ok(Value::Whole(1)));
        assert_eq!(of(Join::List), Ok(Value::Text("1, 2, 6".into())));
        assert!(of(Join::Equal).unwrap_err().contains("differ"));
        assert!(join(&values, None).unwrap_err().contains("3 values"));
        assert!(join(&[], Some(&Join::Max)).is_err());
        let texts = [Value::Text("pass".into()), Value::Text("fail".into()), Value::Text("pass".into())];
        assert_eq!(join(&texts, Some(&Join::Count("pass".into()))).unwrap().value, Value::Whole(2));
        assert!(join(&texts, Some(&Join::Median)).is_err());
    }

    #[test]
    fn ratios_of_pairs_have_the_interval_of_their_logarithms() {
        let joined = against(&[(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)]).unwrap();
        let ratio = joined.value.as_f64().unwrap();
        assert!((ratio - 1.0).abs() < 1e-12, "{ratio}");
        // ln 2 apart: mean 0, s = ln 2, half width 4.3027 ln 2 / sqrt 3.
        let [low, high] = joined.interval.unwrap();
        let half = (4.302_652_73 * std::f64::consts::LN_2 / 3f64.sqrt()).exp();
        assert!((high / half - 1.0).abs() < 1e-6 && (low * half - 1.0).abs() < 1e-6, "{low} {high}");
        assert_eq!(against(&[(3.0, 2.0)]).unwrap(), Joined { value: Value::Number(1.5), interval: None });
        assert!(against(&[(0.0, 2.0), (1.0, 2.0)]).is_err());
    }
}
