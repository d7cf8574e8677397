//! Numbers as fio reads them: sizes with prefixes, times with suffixes; what stands in parentheses is arithmetic.
//!
//! This is the one variant of the grammar of [`pagelab_vocab::units`], which all other sizes and times of pagelab follow.
//! It differs where fio does: `kb_base` gives `KiB` another meaning, numbers may be hexadecimal or arithmetic, a bare time
//! counts in the unit of its option, and fractions are no numbers outside of parentheses.
//!
//! fio calculates in parentheses only: of `2*4k` it reads the 2 and passes over the rest, and so is it here, with a warning
//! ([`unread`]).

use pagelab_vocab::units::power_of_1024;

use crate::arithmetic::{self, Value};

/// The options that decide how an option's numbers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseContext {
    /// `kb_base`: 1024 (fio's default) or 1000.
    pub kb_base: u64,
}

impl Default for ParseContext {
    fn default() -> Self {
        Self { kb_base: 1024 }
    }
}

/// Bytes from `64k`, `1m`, `0x1000`, `4096b`, `(4*1k)`.
///
/// With `kb_base=1024` fio swaps the prefixes of the standards: `4k` is 4096 and `4KiB` is 4000. With `kb_base=1000` they
/// follow the standards. Without the `b`, `4Ki` is `4k` in both. pagelab reads all as fio does, because the same job has to do
/// the same work.
///
/// # Errors
/// The reason in words: an unknown suffix, a fraction, overflow of 64 bits.
pub fn size(text: &str, context: ParseContext) -> Result<u64, String> {
    let text = text.trim();
    if text.starts_with('(') {
        return whole(text, arithmetic::evaluate(text, &expression_size_unit)?.value);
    }
    size_atom(first_number(last_of_list(text))?, context)
}

/// Nanoseconds from `10`, `10s`, `500ms`, `3us`, `2m`, `1h`, `1d`; a bare number counts in `default_unit_ns`.
///
/// # Errors
/// The reason in words.
pub fn time_ns(text: &str, default_unit_ns: u64) -> Result<u64, String> {
    let text = text.trim();
    if !text.starts_with('(') {
        return time_atom(first_number(text)?, default_unit_ns);
    }
    // As in fio the unit that a bare number would have belongs to the result, and only if no number in it has a unit.
    // Where one has, the others count in microseconds, which is what fio calculates in.
    let found = arithmetic::evaluate(text, &|suffix| time_unit(suffix).map(|unit| unit / NS_PER_US))?;
    let unit = if found.has_unit { NS_PER_US } else { default_unit_ns };
    whole(text, found.value.times(Value::of(unit)))
}

const NS_PER_US: u64 = 1000;

/// The parts of a list or range, separated by one of `separators` outside of parentheses.
pub fn parts<'a>(text: &'a str, separators: &'a [char]) -> impl Iterator<Item = &'a str> {
    let mut depth = 0_u32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && separators.contains(&c)
    })
}

/// The part behind the number that starts `text`, which is passed over as fio does; `None` if all is read.
pub fn unread(text: &str) -> Option<&str> {
    let text = text.trim();
    let read = first_number(text).ok().filter(|_| !text.starts_with('('))?;
    text.get(read.len()..).filter(|rest| !rest.is_empty())
}

/// The last of several values: as in fio each takes the place of the one before it.
pub(crate) fn last_of_list(text: &str) -> &str {
    let separator = if text.contains(':') { ':' } else { '-' };
    if text.starts_with(separator) {
        return text;
    }
    text.rsplit(separator).next().filter(|last| !last.is_empty()).unwrap_or(text)
}

/// `text` up to an operator of arithmetic behind its first number.
fn first_number(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        return Err("a value is needed".to_owned());
    }
    let after_digit =
        text.char_indices().skip(1).find(|(_, c)| matches!(c, '(' | ')' | '+' | '*' | '/' | '%' | '^' | '-'));
    let end = after_digit.map_or(text.len(), |(at, _)| at);
    Ok(text.get(..end).unwrap_or(text).trim_end())
}

/// The result of an expression, which cannot be negative; fractions of the last unit are cut.
fn whole(text: &str, value: Value) -> Result<u64, String> {
    value.whole().ok_or_else(|| format!("'{text}' has no value from 0 to {}", u64::MAX))
}

/// A plain count. fio lets counts carry the suffixes of sizes too (`loops=1k`), so they do here.
///
/// # Errors
/// The reason in words.
pub fn count(text: &str, context: ParseContext) -> Result<u64, String> {
    size(text, context)
}

/// A size that may be negative: `-4k`.
///
/// # Errors
/// The reason in words.
pub fn signed(text: &str, context: ParseContext) -> Result<i64, String> {
    let text = text.trim();
    let (magnitude, negative) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
    let value = i64::try_from(size(magnitude, context)?).map_err(|_| overflow(text))?;
    Ok(if negative { -value } else { value })
}

/// Whether `text` ends in a prefix whose meaning `kb_base=1024` turns around (`4KiB` is then 4000 bytes).
pub fn has_swapped_prefix(text: &str) -> bool {
    let lower = text.trim().to_ascii_lowercase();
    lower.ends_with("ib") && lower.starts_with(|c: char| c.is_ascii_digit())
}

/// Splits `0x1f` or `123` from what follows.
fn split_number(text: &str) -> Result<(u64, &str), String> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    // A hexadecimal number swallows a trailing `b` as a digit, as it does in fio.
    let (number, rest) = digits.split_at(end);
    if number.is_empty() {
        return Err(format!("expected a number, found '{text}'"));
    }
    if rest.starts_with('.') {
        return Err("fractions are not numbers of the job language (fio would read only the part before the point); \
                    use the next smaller unit"
            .to_owned());
    }
    let value = u64::from_str_radix(number, radix).map_err(|_| overflow(text))?;
    Ok((value, rest.trim()))
}

fn overflow(text: &str) -> String {
    format!("'{text}' does not fit into 64 bits (at most {})", u64::MAX)
}

/// The digits of a fraction, and what stands before and behind them: `1.50g` is (`1`, `50`, `g`).
pub(crate) fn fraction(text: &str) -> Option<(&str, &str, &str)> {
    let (whole, rest) = text.trim().split_once('.')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(end);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(whole) && is_number(digits)).then_some((whole, digits, suffix))
}

/// `1.5g`: fio would read the 1 and pass over the rest, the unit, too, which nobody means. It has to be a whole number of bytes.
fn size_of_fraction(text: &str, context: ParseContext) -> Option<Result<u64, String>> {
    let (whole, digits, suffix) = fraction(text)?;
    let read = || {
        let unit = size_unit(suffix.trim(), context)??;
        let scale = 10_u128.checked_pow(u32::try_from(digits.len()).ok()?)?;
        let number = format!("{whole}{digits}").parse::<u128>().ok()?.checked_mul(u128::from(unit))?;
        number.is_multiple_of(scale).then(|| u64::try_from(number / scale).ok()).flatten()
    };
    Some(read().ok_or_else(|| {
        format!("fractions have a unit and are a whole number of bytes below 2^64 here, as 1.5g is; found '{text}'; use the next smaller unit")
    }))
}

fn size_atom(text: &str, context: ParseContext) -> Result<u64, String> {
    if let Some(size) = size_of_fraction(text, context) {
        return size;
    }
    let (value, suffix) = split_number(text)?;
    let unknown = || format!("unknown unit '{suffix}'; needed k, m, g, t or p, as in 4k, 4kb or 4kib");
    let multiplier = size_unit(suffix, context).ok_or_else(unknown)?;
    multiplier.and_then(|multiplier| value.checked_mul(multiplier)).ok_or_else(|| overflow(text))
}

/// What a unit of sizes multiplies by; the inner `None` is beyond 64 bits, the outer no unit.
#[expect(clippy::option_option, reason = "the first line says what each is for")]
fn size_unit(suffix: &str, context: ParseContext) -> Option<Option<u64>> {
    let lower = suffix.to_ascii_lowercase();
    // fio's other spelling is kib with its b; ki begins with k, and that is all that it looks at.
    let (prefix, other_base) = if let Some(prefix) = lower.strip_suffix("ib") {
        (prefix, true)
    } else {
        let body = lower.strip_suffix('b').unwrap_or(&lower);
        (body.strip_suffix('i').filter(|prefix| !prefix.is_empty()).unwrap_or(body), false)
    };
    // fio knows no exbibytes, and no prefix that is only `i`.
    let power = power_of_1024(prefix).filter(|power| *power <= 5 && !(*power == 0 && other_base))?;
    // kb_base=1024: plain prefixes are powers of two and the `ib` forms powers of ten; kb_base=1000: the standards.
    let base: u64 = if (context.kb_base == 1024) == other_base { 1000 } else { 1024 };
    Some(base.checked_pow(power))
}

/// What a unit of sizes multiplies by in an expression: there fio takes no notice of `kb_base`.
fn expression_size_unit(suffix: &str) -> Option<u64> {
    size_unit(suffix, ParseContext::default()).flatten()
}

fn time_atom(text: &str, default_unit_ns: u64) -> Result<u64, String> {
    let (value, suffix) = split_number(text)?;
    let unit = if suffix.is_empty() { Some(default_unit_ns) } else { time_unit(suffix) };
    let unit = unit.ok_or_else(|| format!("unknown unit '{suffix}'; times take us, ms, s, m, h, d"))?;
    value.checked_mul(unit).ok_or_else(|| overflow(text))
}

/// Nanoseconds in a unit of time.
fn time_unit(suffix: &str) -> Option<u64> {
    Some(match suffix.to_ascii_lowercase().as_str() {
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        "d" => 86_400 * 1_000_000_000,
        _ => return None,
    })
}

/// Puts this host's values for fio's reserved words `$pagesize`, `$mb_memory` and `$ncpus`. As in fio, what then is an expression of
/// plain numbers is calculated, also without parentheses (fio asks bc(1)).
pub fn substitute_keywords(text: &str) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let page_size = rustix::param::page_size() as u64;
    let info = rustix::system::sysinfo();
    let memory = info.totalram.saturating_mul(u64::from(info.mem_unit.max(1)));
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let text = text
        .replace("$pagesize", &page_size.to_string())
        .replace("$mb_memory", &(memory >> 20).to_string())
        .replace("$ncpus", &cpus.to_string());
    let plain = text.chars().all(|c| c.is_ascii_digit() || c.is_whitespace() || "+-*/%^()".contains(c));
    let calculated = if plain { arithmetic::evaluate(&text, &|_| None).ok() } else { None };
    calculated.and_then(|found| found.value.whole()).map_or(text, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> u64 {
        size(text, ParseContext::default()).expect(text)
    }

    #[test]
    fn prefixes_follow_fio_in_both_bases() {
        for (text, expected) in [
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4KiB", 4000),
            ("4ki", 4096),
            ("64Ki", 65536),
            ("1Mi", 1 << 20),
            ("2Gi", 2 << 30),
            ("1TI", 1 << 40),
            ("64Mib", 64_000_000),
            ("1g", 1 << 30),
            ("0x10000", 65536),
            ("512b", 512),
            ("2t", 2 << 40),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        let si = ParseContext { kb_base: 1000 };
        assert_eq!(size("4kib", si), Ok(4096));
        assert_eq!(size("4k", si), Ok(4000));
        assert_eq!((size("4ki", si), size("1Mi", si), size("1Gib", si)), (Ok(4000), Ok(1_000_000), Ok(1 << 30)));
        assert!(has_swapped_prefix("4KiB") && !has_swapped_prefix("4k") && !has_swapped_prefix("4Ki"));
    }

    #[test]
    fn times_take_suffixes() {
        for (text, expected) in
            [("3", 3_000_000_000), ("500ms", 500_000_000), ("7usec", 7_000), ("2m", 120_000_000_000)]
        {
            assert_eq!(time_ns(text, 1_000_000_000), Ok(expected), "{text}");
        }
        assert_eq!(time_ns("100", 1_000), Ok(100_000));
    }

    #[test]
    fn the_unit_of_a_bare_time_is_applied_once() {
        for (text, ms) in [
            ("(2*1)", 2000),
            ("(30*2)", 60_000),
            ("(100*(1+1))", 200_000),
            ("(4/2)", 2000),
            ("(3/2)", 1000),
            ("(1+1)", 2000),
            ("(10-4)/2", 3000),
            ("(2*1s)", 2000),
            ("(1s*2)", 2000),
            ("(60s/2)", 30_000),
            ("(1m+30s)", 90_000),
            ("(500ms*3)", 1500),
            ("(1.5*2)", 3000),
            ("(3600*2)", 7_200_000),
            ("(2^3)", 8000),
            ("((7%4))", 3000),
        ] {
            assert_eq!(time_ns(text, 1_000_000_000), Ok(ms * 1_000_000), "{text}");
        }
        // Where one number has a unit the others count in fio's own, microseconds.
        assert_eq!(time_ns("(1s+500000)", 1_000_000_000), Ok(1_500_000_000));
        assert_eq!(time_ns("(100*2)", 1_000), Ok(200_000));
    }

    #[test]
    fn only_parentheses_calculate() {
        for (text, first, rest) in [
            ("2*3", 2_000_000_000, Some("*3")),
            ("4/2", 4_000_000_000, Some("/2")),
            ("1s*2", 1_000_000_000, Some("*2")),
            ("5", 5_000_000_000, None),
            ("(2*3)", 6_000_000_000, None),
        ] {
            assert_eq!((time_ns(text, 1_000_000_000), unread(text)), (Ok(first), rest), "{text}");
        }
        assert_eq!((bytes("1m+1m"), unread("1m+1m")), (1 << 20, Some("+1m")));
        assert_eq!(bytes("8k/4k"), 8192);
    }

    #[test]
    fn arithmetic_has_fios_precedence() {
        assert_eq!(bytes("(1k+2*1k)"), 3072);
        assert_eq!(bytes("(2^3^2)"), 512);
        assert_eq!(bytes("(10-4)/2"), 3);
        assert_eq!(bytes("(10%4)"), 2);
        // A unit belongs to the whole product before it.
        assert_eq!(bytes("(2*4k)"), 8192);
        assert_eq!(bytes("(8/2k)"), 4096);
        assert_eq!(bytes("(2+2)k"), 4096);
        assert_eq!(bytes("(4kib)"), 4000);
        assert_eq!(size("(4k)", ParseContext { kb_base: 1000 }), Ok(4096), "as in fio");
    }

    #[test]
    fn words_of_the_host_are_calculated_with() {
        let page = rustix::param::page_size();
        assert_eq!(substitute_keywords("8*$pagesize"), (8 * page).to_string());
        assert_eq!(substitute_keywords("/x-$pagesize"), format!("/x-{page}"));
        assert_eq!(substitute_keywords("$pagesize"), page.to_string());
    }

    #[test]
    fn bad_numbers_say_why() {
        for (text, word) in [
            ("1.33k", "fractions"),
            ("1.5", "fractions"),
            ("64zz", "unknown unit"),
            ("64kk", "unknown unit"),
            ("", "needed"),
            ("99999999999999999999", "64 bits"),
            ("16777216t", "64 bits"),
            ("(4", "missing"),
            ("(4/0)", "divides by 0"),
            ("-4k", "expected a number"),
            ("(1-2)", "no value from 0"),
            ("(4)(4)", "cannot read"),
            ("(4zz)", "unknown unit"),
        ] {
            let reason = size(text, ParseContext::default()).expect_err(text);
            assert!(reason.contains(word), "{text}: {reason}");
        }
        assert!(size(&"(".repeat(100_000), ParseContext::default()).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_or_an_error(text in "[0-9a-zA-Z()+*/%^. -]{0,24}") {
            let _ = size(&text, ParseContext::default());
            let _ = time_ns(&text, 1);
        }

        #[test]
        fn decimal_numbers_read_back(value: u64) {
            prop_assert_eq!(size(&value.to_string(), ParseContext::default()), Ok(value));
        }
    }
}
