//! Which of the files of a place are copied: a question about a fleet opens few objects.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::error::StoreError;
use crate::layout::{self, Kind};

/// A range of days, both ends included; an end that is missing is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Days {
    from: Option<String>,
    to: Option<String>,
}

impl Days {
    /// Whether the range holds a date, `YYYY-MM-DD`.
    pub fn hold(&self, date: &str) -> bool {
        self.from.as_deref().is_none_or(|from| from <= date) && self.end_after(date)
    }

    /// Whether the range goes on until a date, or ends later.
    fn end_after(&self, date: &str) -> bool {
        self.to.as_deref().is_none_or(|to| date <= to)
    }
}

impl FromStr for Days {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let wrong = || StoreError::Option {
            found: text.to_owned(),
            needed: "days as FROM..TO, FROM.., ..TO, .. or DAY, each YYYY-MM-DD, the earlier one first",
        };
        let end = |text: &str| match text {
            "" => Ok(None),
            date if layout::is_date(date) => Ok(Some(date.to_owned())),
            _ => Err(wrong()),
        };
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => (end(from)?, end(to)?),
            None if text.is_empty() => return Err(wrong()),
            None => (end(text)?, end(text)?),
        };
        if from.as_ref().zip(to.as_ref()).is_some_and(|(from, to)| from > to) {
            return Err(wrong());
        }
        Ok(Self { from, to })
    }
}

/// Tables whose rows hold until the next one: of these earlier days are needed, too.
const OF_CHANGES: [&str; 1] = ["settings"];

/// What is copied of a place. The default is everything of ours.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only these tables, of days and of recordings; documents always.
    pub tables: Option<BTreeSet<String>>,
    /// Only these days of compacted fleets, and no recordings.
    pub days: Option<Days>,
    /// That there is nothing is no error: a folder to write into.
    pub may_be_empty: bool,
}

impl Selection {
    /// Whether a file is copied.
    pub(crate) fn takes(&self, name: &str) -> bool {
        let Some(kind) = layout::kind(name) else { return false };
        let is_of_days = match (&self.days, layout::day_of(name).and_then(layout::date_of)) {
            (Some(days), Some(date)) => {
                let is_of_changes = layout::table_of(name).is_some_and(|table| OF_CHANGES.contains(&table));
                days.hold(date) || (is_of_changes && days.end_after(date))
            }
            (Some(_), None) => false,
            (None, _) => true,
        };
        // What is lost is a part of every answer about a recording.
        let is_document = kind == Kind::Loss || layout::table_of(name).is_none();
        let is_table = || {
            self.tables.as_ref().is_none_or(|tables| layout::table_of(name).is_some_and(|table| tables.contains(table)))
        };
        is_of_days && (is_document || is_table())
    }

    /// Whether a day's folder is in the range of days; of earlier ones tables of changes may be copied all the same.
    pub(crate) fn is_about(&self, day: &str) -> bool {
        let date = layout::date_of(day).unwrap_or_default();
        self.days.as_ref().is_none_or(|days| days.hold(date))
    }

    /// Why nothing was selected of these files.
    pub(crate) fn nothing<'a>(&self, url: &str, names: impl Iterator<Item = &'a str>) -> StoreError {
        let mut dates = BTreeSet::new();
        let mut recordings = 0;
        for name in names {
            dates.extend(layout::day_of(name).and_then(layout::date_of));
            recordings += usize::from(layout::kind(name) == Some(Kind::Manifest));
        }
        let place = url.to_owned();
        if self.days.is_none() || (dates.is_empty() && recordings == 0) {
            return StoreError::NoRecording { place };
        }
        match (dates.first(), dates.last()) {
            (Some(first), Some(last)) => StoreError::NotSelected {
                place,
                found: format!(
                    "none of its days is among those asked for; found {} days, {first} to {last}",
                    dates.len()
                ),
                needed: "other days".to_owned(),
            },
            _ => StoreError::NotSelected {
                place,
                found: format!("no compacted fleet is here; found {recordings} recordings"),
                needed: format!("the URL of a compacted fleet; to make one: pagelab fleet compact {url} FLEET"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_ranges_with_open_ends() {
        let days = |text: &str| text.parse::<Days>();
        let march = days("2026-03-01..2026-03-31").expect("a range");
        assert!(march.hold("2026-03-01") && march.hold("2026-03-31"));
        assert!(!march.hold("2026-02-28") && !march.hold("2026-04-01"));
        assert!(days("..2026-03-01").expect("a range").hold("1999-01-01"));
        assert!(!days("2026-03-02..").expect("a range").hold("2026-03-01"));
        assert!(days("..").expect("all").hold("2026-03-01"));
        let one = days("2026-03-02").expect("a day");
        assert!(one.hold("2026-03-02") && !one.hold("2026-03-03"));
        for wrong in ["", "march", "2026-03", "2026-03-02..2026-03-01", "2026-03-01..x", "2026-03-01...2026-03-02"] {
            let error = days(wrong).expect_err(wrong).to_string();
            assert!(error.contains("YYYY-MM-DD"), "{error}");
        }
    }

    #[test]
    fn a_selection_takes_documents_and_the_tables_asked_for() {
        let tables = ["metrics", "runs"].map(str::to_owned).into();
        let some = Selection { tables: Some(tables), ..Selection::default() };
        let names = |selection: &Selection| {
            let all = [
                "day=2026-03-01/metrics.parquet",
                "day=2026-03-01/settings.parquet",
                "day=2026-03-01/complete.json",
                "day=2026-04-01/metrics.parquet",
                "r/manifest.json",
                "r/faults/part-0000.parquet",
                "r/metrics/part-0000.parquet",
                "r/loss/part-0000.parquet",
            ];
            all.into_iter().filter(|name| selection.takes(name)).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&some),
            [
                "day=2026-03-01/metrics.parquet",
                "day=2026-03-01/complete.json",
                "day=2026-04-01/metrics.parquet",
                "r/manifest.json",
                "r/metrics/part-0000.parquet",
                "r/loss/part-0000.parquet"
            ]
        );
        let march = Selection { days: "2026-03-01..2026-03-31".parse().ok(), ..some };
        assert_eq!(names(&march), ["day=2026-03-01/metrics.parquet", "day=2026-03-01/complete.json"]);
        assert_eq!(names(&Selection::default()).len(), 8);
        let april = Selection { days: "2026-04-01..2026-04-30".parse().ok(), ..Selection::default() };
        assert_eq!(names(&april), ["day=2026-03-01/settings.parquet", "day=2026-04-01/metrics.parquet"]);
    }
}
