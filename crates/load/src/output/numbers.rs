//! Numbers as fio prints them: up to a number of characters, then with the next prefix.

/// `value` in at most `width` digits, with a prefix where it has more: `num(4_194_304, 4, 1000)` is `4194k`, and with base 1024
/// `4096Ki`. Decimals fill the room that is left after dividing: 17179869184 in four characters of base 1024 is `16.0Gi`.
pub(crate) fn num(value: f64, width: usize, base: u32) -> String {
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let prefixes = if base == 1024 { BINARY } else { DECIMAL };
    let mut scaled = value.max(0.0);
    let mut prefix = 0;
    while digits(scaled) > width && prefix + 1 < prefixes.len() {
        scaled /= f64::from(base);
        prefix += 1;
    }
    let decimals = if prefix == 0 { 0 } else { width.saturating_sub(digits(scaled) + 1) };
    // fio shows one decimal at most where it shows any.
    let decimals = decimals.min(if width > 4 { 1 } else { 2 });
    format!("{scaled:.decimals$}{}", prefixes.get(prefix).copied().unwrap_or(""))
}

/// Digits before the point, as rounding to whole numbers would print them.
fn digits(value: f64) -> usize {
    format!("{value:.0}").len()
}

/// A unit of time for printing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeUnit {
    /// `nsec`, `usec` or `msec`.
    pub name: &'static str,
    /// Nanoseconds in one.
    pub ns: f64,
}

/// The unit in which a spread of latencies is printed: fio goes to the next larger one when all values are large in this one.
pub(crate) fn time_unit(min_ns: f64, max_ns: f64, deviation_ns: f64) -> TimeUnit {
    let large = |unit: f64| min_ns / unit > 2000.0 && max_ns / unit > 99_999.0 && deviation_ns / unit > 1000.0;
    if large(1e3) {
        TimeUnit { name: "msec", ns: 1e6 }
    } else if large(1.0) {
        TimeUnit { name: "usec", ns: 1e3 }
    } else {
        TimeUnit { name: "nsec", ns: 1.0 }
    }
}

/// The unit in which percentiles are printed.
pub(crate) fn percentile_unit(min_ns: f64, max_ns: f64) -> TimeUnit {
    time_unit(min_ns, max_ns, f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_in_fio() {
        // Lines that fio 3.33 printed.
        for (value, width, base, expected) in [
            (308_456.0, 4, 1000, "308k"),
            (4_194_304.0, 4, 1000, "4194k"),
            (17_179_869_184.0, 4, 1024, "16.0Gi"),
            (1_262_485_504.0, 4, 1024, "1204Mi"),
            (1_048_576.0, 4, 1024, "1024Ki"),
            (4096.0, 4, 1024, "4096"),
            (65_536.0, 4, 1024, "64.0Ki"),
            (8_072_600.0, 6, 1000, "8072.6k"),
            (329.0, 6, 1000, "329"),
        ] {
            assert_eq!(num(value, width, base), expected);
        }
    }

    #[test]
    fn units_grow_with_the_values() {
        assert_eq!(time_unit(329.0, 8e6, 36929.0).name, "nsec");
        assert_eq!(time_unit(3000.0, 3.4e6, 11_250.0).name, "usec");
        assert_eq!(time_unit(3e6, 3e8, 2e6).name, "msec");
    }
}
