//! A number as programs print it, with its suffix: `12.3k`, `48.5MiB/s`, `635.91us`.
//!
//! A program chooses the suffix by the size of the number, so `12.3k` of one run stands beside `969` of another. Cut at the
//! suffix, the faster run would be the slower one. Suffixes are therefore part of the number: `k M G T P` are powers of 1000,
//! `Ki Mi Gi Ti Pi` powers of 1024, and times (`ns us ms s`) are stored in seconds. A token that is no number with a suffix is
//! refused with its text.

use std::ops::Range;

/// A number and the step of its last digit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    pub(super) value: f64,
    pub(super) step: Option<f64>,
}

/// Longest text that a message repeats, characters.
const QUOTED_AT_MOST: usize = 60;

/// Suffixes and the factor of each. `B`, `b`, `op` and `ops` may follow those that are powers, `/s` and `/sec` may follow all
/// but times.
const POWERS: &[(&str, f64)] = &[
    ("Ki", 1024.0),
    ("ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("", 1.0),
];

const TIMES: &[(&str, f64)] = &[
    ("ns", 1e-9),
    ("nsec", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("usec", 1e-6),
    ("ms", 1e-3),
    ("msec", 1e-3),
    ("s", 1.0),
    ("sec", 1.0),
];

/// The token that a captured group is a part of. Text that the expression names itself, which is what `whole` has behind the
/// group, is not looked at: `([0-9.]+)MiB/s` means the number as printed. `names_point`: nor is a point before the group.
pub(super) fn token(line: &[u8], group: Range<usize>, whole: Range<usize>, names_point: bool) -> Range<usize> {
    let begins = line.get(group.start).is_some_and(|&first| is_numeric(first));
    let start = if begins && !names_point { start_of(line, group.start) } else { group.start };
    let end = if group.end == whole.end && !group.is_empty() { end_of(line, group.end) } else { group.end };
    start..end
}

/// Whether a regular expression has a point, a comma or a sign right before its first group: the number then begins there on
/// purpose.
pub(super) fn names_point(regex: &str) -> bool {
    let mut escaped = false;
    for (at, letter) in regex.char_indices() {
        let is_group = letter == '(' && !escaped && !regex[at..].starts_with("(?:");
        if is_group {
            let before = &regex[..at];
            return [r"\.", "[.]", ",", "-"].iter().any(|point| before.ends_with(point));
        }
        escaped = letter == '\\' && !escaped;
    }
    false
}

fn is_numeric(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'.'
}

/// Where the number begins whose middle is at `at`: an expression such as `.*([0-9.]+)` leaves the last digit only.
fn start_of(line: &[u8], mut at: usize) -> usize {
    while let Some(before) = at.checked_sub(1).map(|before| line[before]) {
        let joined =
            before.is_ascii_digit() || (matches!(before, b'.' | b',') && at >= 2 && line[at - 2].is_ascii_digit());
        if !joined {
            break;
        }
        at -= 1;
    }
    let is_sign = at > 0 && line[at - 1] == b'-' && (at < 2 || !line[at - 2].is_ascii_alphanumeric());
    at - usize::from(is_sign)
}

/// Where the word ends that is still open at `at`: letters and digits, points and colons between digits, and `/s` of a rate.
fn end_of(line: &[u8], mut at: usize) -> usize {
    loop {
        let rest = &line[at..];
        let second = rest.get(1).copied().unwrap_or(b' ');
        let step = match rest.first() {
            Some(byte) if byte.is_ascii_alphanumeric() || *byte == b'_' => 1,
            Some(b'.' | b',' | b':') if second.is_ascii_digit() => 1,
            Some(b'/') if second.is_ascii_alphabetic() => 1,
            Some(0xc2) if second == 0xb5 => 2,
            _ => return at,
        };
        at += step;
    }
}

/// The number that a token stands for. The error says what was found and what is needed.
pub(super) fn parse(text: &str) -> Result<Number, String> {
    let token = text.trim();
    let refused =
        || format!("found {} in the output, needed a number such as 1234.5, 1e5, 12.3k or 1.2ms", quoted(token));
    let (digits, suffix) = token.split_at(digits_of(token));
    let number: f64 = digits.parse().map_err(|_| refused())?;
    let factor = factor(suffix).ok_or_else(refused)?;
    let value = number * factor;
    if !value.is_finite() {
        return Err(refused());
    }
    Ok(Number { value, step: step(digits).map(|step| step * factor) })
}

/// Length of the plain number at the beginning: sign, digits, point, and an exponent if digits follow it.
fn digits_of(token: &str) -> usize {
    let bytes = token.as_bytes();
    let sign = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let mantissa = sign + bytes[sign..].iter().take_while(|byte| is_numeric(**byte)).count();
    if !matches!(bytes.get(mantissa), Some(b'e' | b'E')) {
        return mantissa;
    }
    let sign = usize::from(matches!(bytes.get(mantissa + 1), Some(b'-' | b'+')));
    let exponent = mantissa + 1 + sign;
    let digits = bytes[exponent..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 { mantissa } else { exponent + digits }
}

fn factor(suffix: &str) -> Option<f64> {
    if let Some((_, factor)) = TIMES.iter().find(|(name, _)| *name == suffix) {
        return Some(*factor);
    }
    let amount = ["/s", "/sec"].iter().find_map(|rate| suffix.strip_suffix(rate)).unwrap_or(suffix);
    let is_unit = |rest: &str| matches!(rest, "" | "B" | "b" | "op" | "ops");
    POWERS.iter().find(|(name, _)| amount.strip_prefix(name).is_some_and(is_unit)).map(|(_, factor)| *factor)
}

/// The step of the last digit printed: 0.01 of `12.34`.
fn step(digits: &str) -> Option<f64> {
    let digits = digits.to_ascii_lowercase();
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let exponent = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(decimals).ok()?)?;
    Some(10_f64.powi(exponent)).filter(|step| step.is_finite() && *step > 0.0)
}

/// A text as a message repeats it: in quotes, and cut where it is long.
fn quoted(text: &str) -> String {
    if text.chars().count() <= QUOTED_AT_MOST {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(QUOTED_AT_MOST).collect();
    format!("{head:?} and {} bytes more", text.len() - head.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_parses(text: &str, value: f64, step: f64) {
        let found = parse(text).unwrap_or_else(|reason| panic!("{text}: {reason}"));
        let near = |found: f64, needed: f64| (found - needed).abs() <= needed.abs() * 1e-12;
        assert!(near(found.value, value), "{text}: {found:?}, needed {value}");
        assert!(near(found.step.expect("a step"), step), "{text}: {found:?}, needed a step of {step}");
    }

    #[test]
    fn suffixes_scale_the_number_and_its_step() {
        assert_parses("12.3k", 12_300.0, 100.0);
        assert_parses("-12K", -12_000.0, 1_000.0);
        assert_parses("1e3k", 1e6, 1e6);
        assert_parses("2Mop/s", 2e6, 1e6);
        assert_parses("1.5GiB/s", 1.5 * 1_073_741_824.0, 0.1 * 1_073_741_824.0);
        assert_parses("7B", 7.0, 1.0);
        assert_parses("50.4MB/s", 50.4e6, 0.1e6);
        assert_parses("635.91us", 635.91e-6, 0.01e-6);
        assert_parses("12µs", 12e-6, 1e-6);
        assert_parses("2001msec", 2.001, 0.001);
        // An exponent needs digits: this is 5 of the unit `e`, which there is not.
        assert!(parse("5e").is_err());
        for text in ["12.3m", "1m2s", "1:20", "0x1f", "12kk", "12k/min", "1.2.3", ".", "-", "k", "9e999"] {
            assert!(parse(text).is_err(), "{text}: {:?}", parse(text));
        }
    }

    #[test]
    fn a_sign_and_the_front_of_a_number_belong_to_it() {
        let cut = |line: &str, group: &str| {
            let at = line.rfind(group).expect("in the line");
            let range = at..at + group.len();
            line[token(line.as_bytes(), range.clone(), 0..range.end, false)].to_owned()
        };
        assert_eq!(cut("total 1234", "4"), "1234");
        assert_eq!(cut("total 12.34", "4"), "12.34");
        assert_eq!(cut("delta=-5", "5"), "-5");
        assert_eq!(cut("latency-5", "5"), "5");
        assert_eq!(cut("of 3-5", "5"), "5");
        assert!(names_point(r"a\(b\.(x)") && names_point(r"(?:a),(x)") && !names_point(r"a.*(x)\.(y)"));
        assert_eq!(cut("ends.", "ends"), "ends");
        assert_eq!(cut("12.", "12"), "12");
    }
}
