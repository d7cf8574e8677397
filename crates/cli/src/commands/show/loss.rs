//! `show DIR loss`: what each stream saw, lost and filtered, second by second.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::LossRow;
use serde::Serialize;

use super::View;
use super::options::{Options, cut, more};
use super::read;
use super::table::{Table, left, percent, right};
use crate::failure::Failure;

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Counts {
    seen: u64,
    lost: u64,
    filtered: u64,
}

impl Counts {
    fn add(&mut self, row: &LossRow<'_>) {
        self.seen = self.seen.saturating_add(row.seen);
        self.lost = self.lost.saturating_add(row.lost);
        self.filtered = self.filtered.saturating_add(row.filtered);
    }

    /// Events that should be in the recording.
    fn wanted(self) -> u64 {
        self.seen.saturating_sub(self.filtered).max(self.lost)
    }
}

#[derive(Debug, Serialize)]
struct SecondRow {
    second: i64,
    stream: String,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Debug, Serialize)]
struct Total {
    stream: String,
    #[serde(flatten)]
    counts: Counts,
    lost_pct: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Document {
    totals: Vec<Total>,
    seconds: Vec<SecondRow>,
    seconds_total: usize,
}

/// Makes the view.
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let sort = options.sort_by(&["time", "lost", "seen", "filtered"])?;
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
    let (seconds, seconds_total) = cut(rows, options.limit(sort != "time"));
    let totals = totals.into_iter().map(|(stream, counts)| Total {
        stream,
        lost_pct: (counts.wanted() > 0).then(|| 100.0 * counts.lost as f64 / counts.wanted() as f64),
        counts,
    });
    let data = Document { totals: totals.collect(), seconds, seconds_total };
    View::new("loss", recording, &notes, &data, &text(&data))
}

fn text(data: &Document) -> String {
    if data.totals.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nALL\n");
    let columns = |first| [first, left("STREAM"), right("SEEN"), right("LOST"), right("FILTERED"), right("LOST_PCT")];
    let cells = |first: String, stream: &str, counts: Counts| {
        let lost = percent(counts.lost, counts.wanted());
        [first, stream.to_owned(), counts.seen.to_string(), counts.lost.to_string(), counts.filtered.to_string(), lost]
    };
    let mut table = Table::new(columns(right("")).into_iter().skip(1));
    for total in &data.totals {
        table.row(cells(String::new(), &total.stream, total.counts).into_iter().skip(1));
    }
    table.write(2, &mut out);
    out.push_str("\nBY SECOND\n");
    let mut table = Table::new(columns(right("SECOND")));
    for row in &data.seconds {
        table.row(cells(row.second.to_string(), &row.stream, row.counts));
    }
    table.write(2, &mut out);
    out.push_str(&more(data.seconds.len(), data.seconds_total));
    out
}
