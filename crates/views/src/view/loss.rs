//! `show DIR loss`: what each stream saw, lost and filtered, second by second.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::LossRow;
use serde::Serialize;

use crate::answer::Answer;
use crate::error::Result;
use crate::read;
pub use crate::read::Counts;
use crate::selection::{Selection, cut};

/// One stream in one second.
#[derive(Debug, Serialize)]
pub struct SecondRow {
    /// Seconds since recording began.
    pub second: i64,
    /// The stream.
    pub stream: String,
    /// Its events in that second.
    #[serde(flatten)]
    pub counts: Counts,
}

/// One stream in all of the time.
#[derive(Debug, Serialize)]
pub struct Total {
    /// The stream.
    pub stream: String,
    /// Its events.
    #[serde(flatten)]
    pub counts: Counts,
    /// Lost of those that should be recorded, percent; null if there were none.
    pub lost_pct: Option<f64>,
}

/// What each stream saw, lost and filtered.
#[derive(Debug, Serialize)]
pub struct LossView {
    /// One row per stream.
    pub totals: Vec<Total>,
    /// One row per second and stream.
    pub seconds: Vec<SecondRow>,
    /// Rows before the list was cut.
    pub seconds_total: usize,
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<LossView>> {
    let sort = selection.sort_by(&["time", "lost", "seen", "filtered"])?;
    let mut notes = Vec::new();
    let start = recording.manifest().clock.start_ns;
    let mut seconds: BTreeMap<(i64, String), Counts> = BTreeMap::new();
    let mut totals: BTreeMap<String, Counts> = BTreeMap::new();
    read::each::<LossRow>(recording, &mut notes, |row| {
        let second = row.ts.saturating_sub(start).div_euclid(1_000_000_000);
        seconds.entry((second, row.stream.to_owned())).or_default().add(&row);
        totals.entry(row.stream.to_owned()).or_default().add(&row);
    })?;
    if totals.is_empty() {
        notes.push("no rows of loss were recorded: nothing says what the streams saw or lost".to_owned());
    }
    let mut rows: Vec<SecondRow> =
        seconds.into_iter().map(|((second, stream), counts)| SecondRow { second, stream, counts }).collect();
    let key = |row: &SecondRow| match sort {
        "lost" => row.counts.lost,
        "seen" => row.counts.seen,
        "filtered" => row.counts.filtered,
        _ => 0,
    };
    rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
    let (seconds, seconds_total) = cut(rows, selection.limit(sort != "time"));
    let totals = totals.into_iter().map(|(stream, counts)| Total { stream, lost_pct: lost_pct(counts), counts });
    let data = LossView { totals: totals.collect(), seconds, seconds_total };
    Ok(Answer::new("loss", recording, notes, data))
}

/// Lost events in per cent of those that should be in the recording; what was left out on purpose should not.
fn lost_pct(counts: Counts) -> Option<f64> {
    (counts.wanted() > 0).then(|| 100.0 * counts.lost as f64 / counts.wanted() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_told_of_what_was_wanted() {
        let of = |seen, lost, filtered| lost_pct(Counts { seen, lost, filtered });
        assert_eq!(of(1000, 70, 300), Some(10.0));
        assert_eq!(of(1000, 0, 300), Some(0.0));
        assert_eq!(of(300, 0, 300), None);
        assert_eq!(of(10, 20, 0), Some(100.0), "a count of loss that is beyond what was seen");
    }
}
