use proptest::prelude::*;

use super::*;

#[test]
fn every_unit_of_sizes_is_a_power_of_1024() {
    for (power, letter) in ["", "k", "m", "g", "t", "p", "e"].into_iter().enumerate() {
        let bytes = 1024_u64.pow(power as u32) * 3;
        for letter in [letter.to_owned(), letter.to_ascii_uppercase()] {
            assert_eq!(power_of_1024(&letter), Some(power as u32), "{letter:?}");
            let spellings = [format!("3{letter}"), format!("3{letter}B"), format!("3{letter}b")];
            for spelling in spellings {
                assert_eq!(parse_size(&spelling), Ok(bytes), "{spelling}");
            }
            if !letter.is_empty() {
                for spelling in [format!("3{letter}iB"), format!("3{letter}ib"), format!("3{letter}IB")] {
                    assert_eq!(parse_size(&spelling), Ok(bytes), "{spelling}");
                }
            }
        }
    }
    assert_eq!(parse_size("0"), Ok(0));
    assert_eq!(parse_size("15E"), Ok(15 << 60));
}

#[test]
fn what_is_no_size_is_refused_with_what_was_found_and_an_example() {
    for text in [
        "",
        "M",
        "2X",
        "1.5G",
        "-1",
        "+1",
        "1é",
        "2MM",
        "2iB",
        "0x10",
        "1e3",
        "16E",
        "99999999T",
        "99999999999999999999",
        "2\tM",
        "2 M",
        "1 GB",
        "2M ",
        "max",
    ] {
        let error = parse_size(text).expect_err(text);
        assert_eq!(error.to_string(), format!("found {text:?}, needed {SIZE_NEEDED}"));
    }
    for word in ["such as 4096", "64K", "2GiB"] {
        assert!(SIZE_NEEDED.contains(word), "{word}");
    }
}

#[test]
fn every_unit_of_times_is_read() {
    for (word, ns) in TIMES {
        for text in [format!("2{word}"), format!("2 {word}"), format!(" 2{word} "), format!("2.0{word}")] {
            assert_eq!(parse_time(&text), Ok(Duration::from_nanos(2 * ns)), "{text}");
        }
    }
    for (text, ns) in [("10", 10_000_000_000), ("0.5", 500_000_000), ("1e2", 100_000_000_000), ("1.5m", 90_000_000_000)]
    {
        assert_eq!(parse_time(text), Ok(Duration::from_nanos(ns)), "{text}");
    }
    assert_eq!(parse_time("0.3"), Ok(Duration::from_millis(300)), "to the nanosecond");
    assert_eq!(parse_time("36525d"), Ok(Duration::from_nanos(LONGEST_NS)));
}

#[test]
fn what_is_no_time_is_refused_with_what_was_found_and_an_example() {
    for text in [
        "",
        "s",
        "0",
        "0s",
        "0.0",
        "-1",
        "-1s",
        "nan",
        "inf",
        "1e30",
        "36526d",
        "2M",
        "2S",
        "1x",
        "1h30m",
        "0.1ns",
        "1e",
        "18446744073709551615h",
    ] {
        let error = parse_time(text).expect_err(text);
        assert_eq!(error.to_string(), format!("found {text:?}, needed {TIME_NEEDED}"));
    }
}

#[test]
fn sizes_for_people_are_exact_or_have_three_figures() {
    for (n, text) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (4096, "4 KiB"),
        (2 << 20, "2 MiB"),
        ((2 << 20) + 4096, "2052 KiB"),
        (9999 << 10, "9999 KiB"),
        (10_001 << 10, "9.77 MiB"),
        (12_345_678, "11.8 MiB"),
        (u64::MAX, "16.0 EiB"),
    ] {
        assert_eq!(bytes(n), text);
    }
}

#[test]
fn times_for_people_have_the_unit_that_makes_them_short() {
    for (ns, four, cell, three) in [
        (0.0, "0 ns", "0ns", "0.00 ns"),
        (12.34, "12.34 ns", "12.3ns", "12.3 ns"),
        (1234.0, "1.234 us", "1.23us", "1.23 us"),
        (1e3, "1 us", "1us", "1.00 us"),
        (1e6, "1 ms", "1ms", "1.00 ms"),
        (1e9, "1 s", "1s", "1.00 s"),
        (1.5e6, "1.5 ms", "1.5ms", "1.50 ms"),
        (-250_000_000.0, "-250 ms", "-250ms", "-250 ms"),
        (2.5e9, "2.5 s", "2.5s", "2.50 s"),
    ] {
        assert_eq!((duration(ns).as_str(), short_duration(ns).as_str()), (four, cell));
        assert_eq!(duration_of_three(ns), three);
    }
}

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

/// A size for people as a number: `11.8 MiB`.
fn read_back(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').expect("a blank");
    number.parse::<f64>().expect("a number") * parse_size(&format!("1{unit}")).expect("a unit") as f64
}

proptest! {
    #[test]
    fn a_size_in_a_key_is_read_back_to_the_byte(n: u64, shift in 0_u32..64) {
        for n in [n, n >> shift, (n >> shift) << (shift / 2)] {
            prop_assert_eq!(parse_size(&format_size(n)), Ok(n));
        }
    }

    /// Three figures: at worst 9.995 is printed as 9.99 or 10.00, and 1.005 as 1.00 or 1.01.
    #[test]
    fn a_size_for_people_is_within_half_a_percent(n: u64, shift in 0_u32..64) {
        let n = n >> shift;
        let error = (read_back(&bytes(n)) - n as f64).abs();
        prop_assert!(error <= n as f64 * 0.005, "{n}: {}", bytes(n));
        if n < 10_000 {
            prop_assert!(error == 0.0, "{n}: {}", bytes(n));
        }
    }

    #[test]
    fn a_time_for_people_is_read_back_within_its_figures(ns in 1..LONGEST_NS, shift in 0_u32..62) {
        let ns = (ns >> shift).max(1);
        for (text, error) in [
            (duration(ns as f64), 0.0005),
            (short_duration(ns as f64), 0.005),
            (duration_of_three(ns as f64), 0.005),
        ] {
            // Just below the century rounding may leave it.
            prop_assume!(ns < LONGEST_NS / 100 * 99);
            let read = parse_time(&text).map(|time| time.as_nanos() as f64);
            let read = read.map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert!((read - ns as f64).abs() <= ns as f64 * error + 0.5, "{ns} ns: {text}");
        }
    }

    #[test]
    fn any_text_is_a_value_or_an_error(text in "\\PC{0,12}|[0-9. a-zA-Z+-]{0,24}") {
        let _ = (parse_size(&text), parse_time(&text));
    }
}
