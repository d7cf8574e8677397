//! Dates in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// The day of a time in ns since 1970, as `2026-01-31`.
pub fn date_of_ns(realtime_ns: i64) -> String {
    let days = realtime_ns.div_euclid(86_400_000_000_000);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Today.
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of_ns(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Year, month and day of a number of days since 1970-01-01, by walking through 400-year cycles and the years of one.
fn civil(days: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097;
    let mut year = 1970 + 400 * days.div_euclid(CYCLE);
    let mut left = days.rem_euclid(CYCLE);
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = |year| if leap(year) { 366 } else { 365 };
    while left >= length(year) {
        left -= length(year);
        year += 1;
    }
    let february = length(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let of_day = |day: i64| date_of_ns(day * 86_400_000_000_000);
        assert_eq!(of_day(0), "1970-01-01");
        assert_eq!(of_day(-1), "1969-12-31");
        assert_eq!(of_day(11_016), "2000-02-29");
        assert_eq!(of_day(19_782), "2024-02-29");
        assert_eq!(of_day(20_819), "2027-01-01");
        assert_eq!(of_day(20_818), "2026-12-31");
    }
}
