//! Days of the calendar (UTC), by which a fleet's folder is divided.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::FleetError;

/// Nanoseconds of a day without leap seconds, as the kernel's realtime clock counts.
const DAY_NS: i64 = 86_400 * 1_000_000_000;
/// Days whose nanoseconds since the epoch fit into 64 bits, with a margin: 1970-01-01 to 2261-12-31.
const LAST: i64 = 106_650;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_FROM_MARCH_0: i64 = 719_468;
/// Days of 400 years.
const ERA_DAYS: i64 = 146_097;

/// A day, UTC. Written `YYYY-MM-DD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day {
    /// Days since 1970-01-01.
    since_epoch: i64,
}

impl Day {
    /// The day that holds an instant, ns since the epoch.
    pub fn of_ns(realtime_ns: i64) -> Self {
        Self { since_epoch: realtime_ns.div_euclid(DAY_NS) }
    }

    /// Its first instant, ns since the epoch.
    pub fn start_ns(self) -> i64 {
        self.since_epoch.saturating_mul(DAY_NS)
    }

    /// The day that lies `days` later.
    pub fn after(self, days: u32) -> Self {
        Self { since_epoch: self.since_epoch + i64::from(days) }
    }

    /// Days from `earlier` to this one; negative if `earlier` is later.
    pub fn days_since(self, earlier: Self) -> i64 {
        self.since_epoch - earlier.since_epoch
    }

    /// Year, month and day of the month. H. Hinnant, "chrono-compatible low-level date algorithms" (2013),
    /// `civil_from_days`: years begin in March, so that the leap day is the last one.
    fn civil(self) -> (i64, i64, i64) {
        let days = self.since_epoch + EPOCH_FROM_MARCH_0;
        let era = days.div_euclid(ERA_DAYS);
        let of_era = days.rem_euclid(ERA_DAYS);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }

    /// The inverse of [`Self::civil`], `days_from_civil` of the same source. The result of a date that is none is another date.
    fn of_civil(year: i64, month: i64, day: i64) -> Self {
        let year = year - i64::from(month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let march_month = if month > 2 { month - 3 } else { month + 9 };
        let of_year = (153 * march_month + 2) / 5 + day - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        Self { since_epoch: era * ERA_DAYS + of_era - EPOCH_FROM_MARCH_0 }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl FromStr for Day {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<Self, FleetError> {
        let bad = || FleetError::BadDay { text: text.to_owned() };
        let mut parts = text.split('-').map(|part| part.parse::<i64>().ok());
        let (Some(Some(year)), Some(Some(month)), Some(Some(day)), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        if !(1970..=2261).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(bad());
        }
        let found = Self::of_civil(year, month, day);
        // 2026-02-30 would be a day in March; 2026-3-1 would be a second name of a folder.
        if found.to_string() != text || found.since_epoch > LAST {
            return Err(bad());
        }
        Ok(found)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_one_name_and_it_is_read_back() {
        assert_eq!(Day::of_ns(0).to_string(), "1970-01-01");
        assert_eq!(Day::of_ns(-1).to_string(), "1969-12-31");
        // date -u -d @1772323200
        assert_eq!(Day::of_ns(1_772_323_200_000_000_000).to_string(), "2026-03-01");
        let mut day: Day = "1999-12-31".parse().expect("a day");
        for _ in 0..15_000 {
            assert_eq!(day.to_string().parse::<Day>().expect("a day"), day);
            assert_eq!(Day::of_ns(day.start_ns()), day);
            assert_eq!(Day::of_ns(day.after(1).start_ns() - 1), day);
            day = day.after(1);
        }
        assert_eq!(day.to_string(), "2041-01-24");
        assert_eq!("2024-02-29".parse::<Day>().expect("a leap day").after(1).to_string(), "2024-03-01");
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for text in
            ["2026-02-30", "2026-3-1", "2026-13-01", "2026-01", "day", "", "2026-01-01-01", "1969-12-31", "2300-01-01"]
        {
            assert!(text.parse::<Day>().is_err(), "{text}");
        }
        assert!("2261-12-31".parse::<Day>().expect("the last").start_ns() > 0);
    }
}
