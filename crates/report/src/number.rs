//! Numbers for people: four significant figures and a unit that makes them short.

/// A number with `figures` significant figures, without trailing zeros behind the point.
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

/// A time: `123 us`.
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size >= 1e9 => (ns / 1e9, "s"),
        size if size >= 1e6 => (ns / 1e6, "ms"),
        size if size >= 1e3 => (ns / 1e3, "us"),
        _ => (ns, "ns"),
    };
    format!("{} {unit}", significant(value, 4))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_figures_are_kept() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.012_345_6, "0.01235"),
            (12_345.0, "12345"),
            (1234.56, "1235"),
            (-0.5, "-0.5"),
            (1e-12, "1.000e-12"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(significant(value, 4), text);
        }
    }

    #[test]
    fn units_are_chosen_by_size() {
        assert_eq!(quantity(1.5e6, "ns"), "1.5 ms");
        assert_eq!(quantity(203_456.0, "per_second"), "203.5 k/s");
        assert_eq!(quantity(0.002, "count/op"), "0.002/op");
        assert_eq!(quantity(2_097_152.0, "bytes/s"), "2 MiB/s");
        assert_eq!(quantity(1.5e10, "bytes_per_second"), "13.97 GiB/s");
        assert_eq!(quantity(3.0, "huge_pages"), "3 huge pages");
        assert_eq!(quantity(3.0, "pages/op"), "3 pages/op");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(count(123), "123");
    }
}
