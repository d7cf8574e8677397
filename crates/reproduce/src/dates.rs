//! Dates in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::DateTime;

/// The day of a time in ns since 1970, as `2026-01-31`.
pub(crate) fn date_of_ns(realtime_ns: i64) -> String {
    DateTime::from_timestamp_nanos(realtime_ns).date_naive().to_string()
}

/// Today.
pub(crate) fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of_ns(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
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
