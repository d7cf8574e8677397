//! Part of `show DIR faults`: how the faults ended, as far as it was looked at, and the huge pages made afterwards.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::{FaultsRow, KhugepagedRow};
use pagelab_report::duration;
use serde::Serialize;
use serde_json::Value;

use super::options::Options;
use super::read::{self, Tasks};
use super::table::{Table, left, or_dash, paragraph, percent, right};
use crate::failure::Failure;

/// Durations of the faults that were looked at, by whether they were major and what they got, ns.
#[derive(Debug, Default)]
pub struct Ends(BTreeMap<(bool, Option<String>), Vec<i64>>);

impl Ends {
    /// Takes a fault that is selected.
    pub fn count(&mut self, row: &FaultsRow<'_>) {
        let (Some(major), Some(dur)) = (row.major, row.dur) else { return };
        self.0.entry((major, row.got.map(str::to_owned))).or_default().push(dur);
    }
}

/// Faults that ended in the same way.
#[derive(Debug, Serialize)]
struct OneEnd {
    major: bool,
    /// What they got; null if it is not known.
    got: Option<String>,
    /// Those that were looked at.
    faults: u64,
    /// Of the major ones, or of the minor ones that were looked at.
    share: f64,
    p50_ns: Option<i64>,
    p99_ns: Option<i64>,
    total_ns: i64,
}

/// How faults ended.
#[derive(Debug, Serialize)]
pub struct EndsDocument {
    /// Of so many minor faults one was looked at; of the major ones all are.
    minor_one_in: Option<u64>,
    /// Major faults.
    pub major: u64,
    /// Minor faults that were looked at.
    minor: u64,
    /// Ends that should be in the recording and are not.
    lost: Option<u64>,
    /// Why it is not known what was got.
    got_unknown_because: Option<String>,
    ends: Vec<OneEnd>,
}

impl EndsDocument {
    /// Makes it; none if the recording does not say how faults ended.
    pub fn of(recording: &Recording, ends: Ends, notes: &mut Vec<String>) -> Option<Self> {
        let told = recording.manifest().extra.get("fault_details");
        let number = |key: &str| told.and_then(|told| told.get(key)).and_then(Value::as_u64);
        let text = |key: &str| told.and_then(|told| told.get(key)).and_then(Value::as_str).map(str::to_owned);
        if let Some(reason) = text("refused") {
            notes.push(format!("how faults ended was not recorded: {reason}"));
        }
        // A recording that was cut short has no word on it, but may have the rows.
        if number("seen").is_none() && ends.0.is_empty() {
            return None;
        }
        let all = |major| ends.0.iter().filter(|((one, _), _)| *one == major).map(|(_, all)| all.len() as u64).sum();
        let (majors, minors): (u64, u64) = (all(true), all(false));
        let lost = number("lost").zip(number("unmatched")).map(|(lost, unmatched)| lost + unmatched);
        if let Some(lost) = lost.filter(|lost| *lost > 0) {
            notes.push(format!("of {lost} faults that were looked at it is not known how they ended (lost)"));
        }
        let one = |((major, got), times): ((bool, Option<String>), Vec<i64>)| {
            let whole = if major { majors } else { minors };
            OneEnd { major, got, share: times.len() as f64 / whole.max(1) as f64, ..times_of(times) }
        };
        let mut rows: Vec<OneEnd> = ends.0.into_iter().map(one).collect();
        rows.sort_by(|a, b| b.major.cmp(&a.major).then(b.faults.cmp(&a.faults)).then_with(|| a.got.cmp(&b.got)));
        Some(Self {
            minor_one_in: number("minor_one_in"),
            major: majors,
            minor: minors,
            lost,
            got_unknown_because: text("got_unknown_because"),
            ends: rows,
        })
    }

    /// Appends it in words.
    pub fn text(&self, out: &mut String) {
        out.push_str("\nHOW THEY ENDED\n");
        let minor = match self.minor_one_in {
            Some(n) => format!("and {} minor ones, which are one in {n}", self.minor),
            None => "and of the minor ones none (record with --fault-details N for one in N)".to_owned(),
        };
        let said = format!(
            "all {} major faults (I/O, or waiting and another attempt) {minor}; times are from entry to the end of the handling",
            self.major
        );
        paragraph(&said, out);
        if let Some(reason) = &self.got_unknown_because {
            paragraph(&format!("what was got is not known: {reason}"), out);
        }
        let mut table = Table::new([
            right("FAULTS"),
            right("%"),
            left("KIND"),
            left("GOT"),
            right("P50"),
            right("P99"),
            right("TOTAL"),
        ]);
        let time = |ns: Option<i64>| or_dash(ns.map(|ns| duration(ns as f64)));
        for row in &self.ends {
            table.row([
                row.faults.to_string(),
                percent(row.faults, if row.major { self.major } else { self.minor }),
                if row.major { "major" } else { "minor" }.to_owned(),
                row.got.clone().unwrap_or_else(|| "-".to_owned()),
                time(row.p50_ns),
                time(row.p99_ns),
                time(Some(row.total_ns)),
            ]);
        }
        table.write(2, out);
    }
}

/// The figures of durations: exact percentiles (the smallest value that so many are not above).
fn times_of(mut all: Vec<i64>) -> OneEnd {
    all.sort_unstable();
    let at = |share: f64| all.get(((share * all.len() as f64).ceil() as usize).max(1) - 1).copied();
    OneEnd {
        major: false,
        got: None,
        faults: all.len() as u64,
        share: 0.0,
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        total_ns: all.iter().sum(),
    }
}

/// Pieces of memory about which the same was done.
#[derive(Debug, Serialize)]
pub struct OneCollapse {
    by_whom: String,
    kind: String,
    op: String,
    result: String,
    count: u64,
    /// Small pages that became part of huge ones.
    pages: u64,
    /// Of these, the ones without memory before, as far as known.
    filled: u64,
}

/// What khugepaged and MADV_COLLAPSE did, by result.
pub fn collapses(
    recording: &Recording,
    options: &Options,
    tasks: &Tasks,
    notes: &mut Vec<String>,
) -> Result<Vec<OneCollapse>, Failure> {
    let mut found: BTreeMap<[String; 4], [u64; 3]> = BTreeMap::new();
    read::each::<KhugepagedRow<'_>>(recording, notes, |row| {
        if row.task_id.is_some_and(|task| !tasks.wants(options, task, row.ts)) {
            return;
        }
        let sums = found.entry([row.by_whom, row.kind, row.op, row.result].map(str::to_owned)).or_default();
        sums[0] += 1;
        sums[1] += u64::from(row.pages.unwrap_or(0));
        // What was not done has filled nothing.
        sums[2] += u64::from(row.filled.filter(|_| row.pages.is_some()).unwrap_or(0));
    })?;
    let one = |([by_whom, kind, op, result], [count, pages, filled]): ([String; 4], [u64; 3])| OneCollapse {
        by_whom,
        kind,
        op,
        result,
        count,
        pages,
        filled,
    };
    let mut rows: Vec<OneCollapse> = found.into_iter().map(one).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.pages, row.count)));
    Ok(rows)
}

/// Appends it in words.
pub fn collapses_text(rows: &[OneCollapse], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    out.push_str("\nHUGE PAGES MADE OF SMALL ONES (khugepaged, MADV_COLLAPSE), BY RESULT\n");
    let mut table = Table::new([
        right("PIECES"),
        right("PAGES"),
        right("FILLED"),
        left("BY"),
        left("MEMORY"),
        left("DONE"),
        left("RESULT"),
    ]);
    for row in rows {
        table.row([
            row.count.to_string(),
            row.pages.to_string(),
            row.filled.to_string(),
            row.by_whom.clone(),
            row.kind.clone(),
            row.op.clone(),
            row.result.clone(),
        ]);
    }
    table.write(2, out);
}
