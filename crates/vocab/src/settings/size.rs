//! Sizes inside keys: `64K`, `2M`, `1G`.

/// Bytes of a size such as `2M`, `64k`, `2048kB`, `1GB` or `1GiB` (binary units; at least one byte).
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let unit = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B')).unwrap_or(unit);
    let shift = match unit {
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

/// The one spelling of a size in keys: the largest unit that leaves a whole number.
pub fn format_size(bytes: u64) -> String {
    for (shift, unit) in [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_size_agree() {
        for spelling in ["2M", "2048K", "2048kB", "2MB", "2MiB", "2m"] {
            assert_eq!(parse_size(spelling), Some(2 << 20), "{spelling}");
        }
        for bytes in [8u64 << 10, 64 << 10, 2 << 20, 512 << 20, 1 << 30, 16 << 30] {
            assert_eq!(parse_size(&format_size(bytes)), Some(bytes));
        }
        for wrong in ["", "M", "2", "2X", "0M", "2 M", "-2M", "99999999999999999999M", "9999999999999T"] {
            assert_eq!(parse_size(wrong), None, "{wrong:?}");
        }
    }
}
