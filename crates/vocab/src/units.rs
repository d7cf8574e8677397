//! Sizes, times and numbers as people type and read them: one grammar, one way to print each.
//!
//! | what is typed | read by | accepted | what it means |
//! |---|---|---|---|
//! | a size | [`parse_size`] | `4096`, `64K`, `2M`, `2MB`, `2MiB`, `2048kB` | bytes; every unit is a power of 1024, whatever its case |
//! | a time | [`parse_time`] | `10`, `0.5`, `90s`, `500ms`, `1.5 m`, `2h` | seconds where no unit is given; `m` is a minute |
//!
//! `1G`, `1GB` and `1GiB` are the same size, as they are to the kernel (`2048kB` in /proc and /sys) and to nearly every
//! tool that sets up memory. A size is a whole number and one word: `1.5G` is refused, because half of the programs that
//! read such text stop at the point, and `1 GB` because a shell takes it for two words.
//!
//! fio's job language is a variant of this grammar and is read where jobs are: `kb_base` turns the meaning of `KiB`
//! around, numbers may be hexadecimal or arithmetic, and a bare time is not always in seconds. It uses [`power_of_1024`]
//! for the letters.
//!
//! | what is printed | by | such as | rounding |
//! |---|---|---|---|
//! | a size in a key or command | [`format_size`] | `2M`, `4097B` | none |
//! | a size | [`bytes`] | `2 MiB`, `11.8 MiB` | none up to 9,999 of the largest unit that divides it, then three figures |
//! | a time | [`duration`], [`short_duration`] | `1.5 ms`, `1.5ms` | four figures; three |
//! | a time whose precision matters | [`duration_of_three`] | `2.50 s` | three figures, zeros kept |
//! | a value with the unit of a document | [`quantity`] | `203.5 k/s`, `2 MiB/s` | four figures |
//! | a number | [`significant`], [`count`] | `0.01235`, `12 345` | as asked; none |
//!
//! Times, and sizes of [`format_size`], are read back by the parsers to within the rounding; [`bytes`] prints for people
//! alone.
//!
//! ## Why no library
//!
//! `bytesize` reads `1GB` as 10^9 bytes, which is not what hugetlb pools and memory limits mean by it. `parse-size` can be
//! told to use powers of 1024 throughout, but reads fractions, underscores and exponents, and its errors name neither the
//! text nor what is accepted. `humantime` wants a unit behind every number, reads no fraction, takes `M` for a month, and
//! prints `1m 30s 5ms`, which no column can hold. What would be left to take is a table of letters.

use std::fmt;
use std::time::Duration;

/// A text that is no size or time: what was found, what is accepted, an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitError {
    /// The text.
    pub found: String,
    /// The forms that are accepted, with an example.
    pub needed: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {:?}, needed {}", self.found, self.needed)
    }
}

impl std::error::Error for UnitError {}

/// What [`parse_size`] accepts.
pub const SIZE_NEEDED: &str = "a number of bytes such as 4096, 64K or 2GiB (with K, M, G or T, P or E for powers of \
                               1024; B or iB may follow)";

/// What [`parse_time`] accepts.
pub(crate) const TIME_NEEDED: &str = "a number of seconds such as 10 or 0.5, or with a unit such as 90s, 500ms or 2m (ns, us, \
                               ms, s, m or min, h, d), more than 0 and at most 100 years";

/// A century: sums of more would not fit into the nanoseconds of clocks.
const LONGEST_NS: u64 = 36_525 * 86_400 * 1_000_000_000;

/// Letters of sizes, by power of 1024.
const LETTERS: [char; 7] = ['B', 'K', 'M', 'G', 'T', 'P', 'E'];

/// Units of times with their nanoseconds; the largest is last.
const TIMES: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// The power that a letter of a size stands for, in either case: 0 for none, 1 for `k`, 2 for `m` up to 6 for `e`.
pub fn power_of_1024(letter: &str) -> Option<u32> {
    if letter.is_empty() {
        return Some(0);
    }
    let mut letters = letter.chars();
    let (Some(first), None) = (letters.next(), letters.next()) else { return None };
    let power = LETTERS.iter().skip(1).position(|known| known.eq_ignore_ascii_case(&first))?;
    u32::try_from(power + 1).ok()
}

/// Bytes of a size such as `4096`, `64k`, `2M`, `2048kB`, `1GB` or `1GiB`.
///
/// # Errors
/// Text that is none of these, a fraction, or more than 64 bits hold.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let wrong = || UnitError { found: text.to_owned(), needed: SIZE_NEEDED };
    size_of(text).ok_or_else(wrong)
}

fn size_of(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let unit = unit.to_ascii_lowercase();
    let letter = match unit.strip_suffix("ib") {
        Some("") => return None,
        Some(letter) => letter,
        None => unit.strip_suffix('b').unwrap_or(&unit),
    };
    number.checked_mul(1024_u64.checked_pow(power_of_1024(letter)?)?)
}

/// The one spelling of a size in keys and commands: the largest unit that leaves a whole number. [`parse_size`] reads it
/// back to the byte.
pub fn format_size(bytes: u64) -> String {
    let mut whole = bytes;
    let mut power = 0;
    while whole > 0 && whole.is_multiple_of(1024) && power + 1 < LETTERS.len() {
        whole /= 1024;
        power += 1;
    }
    format!("{whole}{}", LETTERS[power])
}

/// A time such as `10`, `0.5`, `90s`, `500ms`, `1.5 m` or `2h`; a bare number counts in seconds. Fractions are rounded to
/// the nanosecond.
///
/// # Errors
/// Text that is none of these; a time of 0, because nothing is done in it; more than 100 years.
pub fn parse_time(text: &str) -> Result<Duration, UnitError> {
    let wrong = || UnitError { found: text.to_owned(), needed: TIME_NEEDED };
    let ns = time_ns(text).filter(|ns| (1..=LONGEST_NS).contains(ns));
    ns.map(Duration::from_nanos).ok_or_else(wrong)
}

fn time_ns(text: &str) -> Option<u64> {
    let text = text.trim();
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(number.len()..)?;
    let number = number.trim_end();
    let unit = if unit.is_empty() { "s" } else { unit };
    let (_, unit_ns) = TIMES.iter().find(|(word, _)| *word == unit)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(*unit_ns);
    }
    let ns = (number.parse::<f64>().ok()? * *unit_ns as f64).round();
    // A cast of a negative number or of NaN would give 0, and one of infinity the largest.
    (ns.is_finite() && ns >= 0.0).then_some(ns as u64)
}

/// A number of bytes for people: exact in the largest binary unit that divides it, or to three figures where that would be
/// more than four digits.
pub fn bytes(n: u64) -> String {
    let exact = format_size(n);
    let (number, letter) = exact.split_at(exact.len() - 1);
    if number.len() <= 4 {
        return format!("{number} {}", binary_unit(letter));
    }
    let (mut value, mut power) = (n as f64, 0);
    while value >= 1024.0 && power + 1 < LETTERS.len() {
        value /= 1024.0;
        power += 1;
    }
    format!("{} {}", of_three(value), binary_unit(&LETTERS[power].to_string()))
}

fn binary_unit(letter: &str) -> String {
    if letter == "B" { letter.to_owned() } else { format!("{letter}iB") }
}

/// Three figures of a number that has at most four digits before the point; zeros behind the point are kept.
fn of_three(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A number with `figures` significant figures, without trailing zeros behind the point; `-` for what is no number.
pub fn significant(value: f64, figures: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i64;
    let decimals = figures as i64 - 1 - magnitude;
    if !(-4..=9).contains(&magnitude) {
        return format!("{value:.*e}", figures.saturating_sub(1));
    }
    let text = format!("{value:.*}", decimals.clamp(0, 12) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A count with thousands set apart: `12 345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// The number and the unit, of ns, us, ms and s, that make a time short.
fn scaled_time(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        size if size >= 1e9 => (ns / 1e9, "s"),
        size if size >= 1e6 => (ns / 1e6, "ms"),
        size if size >= 1e3 => (ns / 1e3, "us"),
        _ => (ns, "ns"),
    }
}

/// A time in nanoseconds for people: four figures, `123.4 us`.
pub fn duration(ns: f64) -> String {
    let (value, unit) = scaled_time(ns);
    format!("{} {unit}", significant(value, 4))
}

/// A time in nanoseconds for a cell of a table: three figures and no blank, `123us`.
pub fn short_duration(ns: f64) -> String {
    let (value, unit) = scaled_time(ns);
    format!("{}{unit}", significant(value, 3))
}

/// A time in nanoseconds with three figures, zeros kept: `2.50 s` was measured to the hundredth.
pub fn duration_of_three(ns: f64) -> String {
    let (value, unit) = scaled_time(ns);
    format!("{} {unit}", of_three(value))
}

/// A value in the unit that a document gives (`ns`, `B`, `count/op`, `ns/s`, ...), scaled to a short number: times to
/// us, ms or s, bytes to binary units, everything else by thousands.
pub fn quantity(value: f64, unit: &str) -> String {
    let (base, per) = unit.split_once('/').map_or((unit, ""), |(base, per)| (base, per));
    let (base, per) = base.strip_suffix("_per_second").map_or((base, per), |base| (base, "s"));
    let (base, per) = if base == "per_second" { ("", "s") } else { (base, per) };
    let per = if per.is_empty() { String::new() } else { format!("/{per}") };
    match base {
        "ns" => format!("{}{per}", duration(value)),
        "B" | "bytes" => format!("{}{per}", scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])),
        "kibibytes" => format!("{}{per}", scaled(value, 1024.0, &["KiB", "MiB", "GiB", "TiB"])),
        "" | "count" | "ratio" => format!("{}{per}", scaled(value, 1000.0, &["", "k", "M", "G"]).trim_end()),
        other => format!("{} {}{per}", significant(value, 4), other.replace('_', " ")),
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{} {}", significant(value, 4), units.get(unit).copied().unwrap_or(""))
}

/// Bytes as hexadecimal digits, two for each.
pub fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
