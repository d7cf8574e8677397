//! Numbers as fio writes them: sizes with prefixes, times with suffixes, small arithmetic.
//!
//! This is the one variant of the grammar of [`pagelab_vocab::units`], which all other sizes and times of pagelab follow.
//! It differs where fio does: `kb_base` gives `KiB` another meaning, numbers may be hexadecimal or arithmetic, a bare time
//! counts in the unit of its option, and fractions are no numbers.

use pagelab_vocab::units::power_of_1024;

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

/// Bytes from `64k`, `1m`, `0x1000`, `4096b`, `(4*1k)`, `8*$pagesize`.
///
/// With `kb_base=1024` fio swaps the prefixes of the standards: `4k` is 4096 and `4ki` (or `4KiB`) is 4000. With
/// `kb_base=1000` they follow the standards. pagelab reads both as fio does, because the same job has to do the same work.
///
/// # Errors
/// The reason in words: an unknown suffix, a fraction, overflow of 64 bits.
pub fn size(text: &str, context: ParseContext) -> Result<u64, String> {
    evaluate(text, &|atom| size_atom(atom, context))
}

/// Nanoseconds from `10`, `10s`, `500ms`, `3us`, `2m`, `1h`, `1d`; a bare number counts in `default_unit_ns`.
///
/// # Errors
/// The reason in words.
pub fn time_ns(text: &str, default_unit_ns: u64) -> Result<u64, String> {
    evaluate(text, &|atom| time_atom(atom, default_unit_ns))
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
    let body = lower.strip_suffix('b').unwrap_or(&lower);
    body.ends_with('i') && body.starts_with(|c: char| c.is_ascii_digit())
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

fn size_atom(text: &str, context: ParseContext) -> Result<u64, String> {
    let (value, suffix) = split_number(text)?;
    let lower = suffix.to_ascii_lowercase();
    let body = lower.strip_suffix('b').unwrap_or(&lower);
    let (prefix, binary_spelling) = match body.strip_suffix('i') {
        Some(prefix) => (prefix, true),
        None => (body, false),
    };
    // fio knows no exbibytes, and no prefix that is only `i`.
    let power = power_of_1024(prefix).filter(|power| *power <= 5 && !(*power == 0 && binary_spelling));
    let unknown = || format!("unknown unit '{suffix}'; needed k, m, g, t or p, as in 4k, 4kb or 4kib");
    let power = power.ok_or_else(unknown)?;
    // kb_base=1024: plain prefixes are powers of two and the `i` forms powers of ten; kb_base=1000: the standards.
    let base: u64 = if (context.kb_base == 1024) == binary_spelling { 1000 } else { 1024 };
    base.checked_pow(power).and_then(|multiplier| value.checked_mul(multiplier)).ok_or_else(|| overflow(text))
}

fn time_atom(text: &str, default_unit_ns: u64) -> Result<u64, String> {
    let (value, suffix) = split_number(text)?;
    let unit = match suffix.to_ascii_lowercase().as_str() {
        "" => default_unit_ns,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        "d" => 86_400 * 1_000_000_000,
        _ => return Err(format!("unknown unit '{suffix}'; times take us, ms, s, m, h, d")),
    };
    value.checked_mul(unit).ok_or_else(|| overflow(text))
}

/// Puts this host's values for fio's reserved words `$pagesize`, `$mb_memory` and `$ncpus`.
pub fn substitute_keywords(text: &str) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let page_size = rustix::param::page_size() as u64;
    let info = rustix::system::sysinfo();
    let memory = info.totalram.saturating_mul(u64::from(info.mem_unit.max(1)));
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    text.replace("$pagesize", &page_size.to_string())
        .replace("$mb_memory", &(memory >> 20).to_string())
        .replace("$ncpus", &cpus.to_string())
}

type Atom<'a> = &'a dyn Fn(&str) -> Result<u64, String>;

/// Integer arithmetic `+ - * / % ^ ( )` over atoms that carry units; a bare atom is the usual case.
fn evaluate(text: &str, atom: Atom<'_>) -> Result<u64, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a value is needed".to_owned());
    }
    if !text.contains(['(', ')', '+', '*', '/', '%', '^', '-']) {
        return atom(text);
    }
    let mut expression = Expression { rest: text, atom, depth: 0 };
    let value = expression.sum()?;
    if expression.rest.trim().is_empty() {
        Ok(value)
    } else {
        Err(format!("cannot read '{}' in the expression '{text}'", expression.rest.trim()))
    }
}

struct Expression<'a> {
    rest: &'a str,
    atom: Atom<'a>,
    depth: u32,
}

impl Expression<'_> {
    fn operator(&mut self, accepted: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let found = self.rest.chars().next().filter(|c| accepted.contains(c))?;
        self.rest = self.rest.get(found.len_utf8()..).unwrap_or("");
        Some(found)
    }

    fn sum(&mut self) -> Result<u64, String> {
        let mut value = self.product()?;
        while let Some(operator) = self.operator(&['+', '-']) {
            let right = self.product()?;
            let result = if operator == '+' { value.checked_add(right) } else { value.checked_sub(right) };
            value = result.ok_or_else(|| format!("{value} {operator} {right} leaves 0 to {}", u64::MAX))?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<u64, String> {
        let mut value = self.power()?;
        while let Some(operator) = self.operator(&['*', '/', '%']) {
            let right = self.power()?;
            let result = match operator {
                '*' => value.checked_mul(right),
                '/' => value.checked_div(right),
                _ => value.checked_rem(right),
            };
            value = result.ok_or_else(|| format!("{value} {operator} {right} has no value in 64 bits"))?;
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<u64, String> {
        let base = self.primary()?;
        if self.operator(&['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.power()?;
        u32::try_from(exponent)
            .ok()
            .and_then(|e| base.checked_pow(e))
            .ok_or_else(|| format!("{base} ^ {exponent} does not fit into 64 bits"))
    }

    fn primary(&mut self) -> Result<u64, String> {
        if self.operator(&['(']).is_some() {
            self.depth += 1;
            if self.depth > 64 {
                return Err("more than 64 nested parentheses".to_owned());
            }
            let value = self.sum()?;
            self.depth -= 1;
            return match self.operator(&[')']) {
                Some(_) => Ok(value),
                None => Err("a ')' is missing".to_owned()),
            };
        }
        self.rest = self.rest.trim_start();
        let end = self.rest.find(['(', ')', '+', '-', '*', '/', '%', '^']).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        (self.atom)(text.trim())
    }
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
            ("4ki", 4000),
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
        assert!(has_swapped_prefix("4KiB") && !has_swapped_prefix("4k"));
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
    fn arithmetic_has_the_usual_precedence() {
        assert_eq!(bytes("(1k+2*1k)"), 3072);
        assert_eq!(bytes("2^3^2"), 512);
        assert_eq!(bytes("(10-4)/2"), 3);
        assert_eq!(bytes("10%4"), 2);
    }

    #[test]
    fn bad_numbers_say_why() {
        for (text, word) in [
            ("1.5m", "fractions"),
            ("64zz", "unknown unit"),
            ("64kk", "unknown unit"),
            ("", "needed"),
            ("99999999999999999999", "64 bits"),
            ("16777216t", "64 bits"),
            ("(4", "missing"),
            ("4/0", "no value"),
            ("-4k", "expected a number"),
            ("1-2", "leaves"),
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
