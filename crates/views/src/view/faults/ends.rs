//! Part of `show DIR faults`: how the faults ended, as far as it was looked at, and the huge pages made afterwards.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::KhugepagedRow;
use serde::Serialize;
use serde_json::Value;

use crate::error::Result;
use crate::read::{self, Tasks};
use crate::selection::Selection;

/// The sampled faults, by whether they were major and by the memory they got.
#[derive(Debug, Default)]
pub struct Ends(pub BTreeMap<(bool, Option<String>), EndFigures>);

/// The figures of faults that ended in the same way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndFigures {
    /// Faults.
    pub faults: u64,
    /// The smallest duration that half of them do not exceed, ns.
    pub p50_ns: i64,
    /// The smallest duration that 99 % of them do not exceed, ns.
    pub p99_ns: i64,
    /// Sum of the durations, ns.
    pub total_ns: i64,
}

impl EndFigures {
    /// The figures of durations, ns; percentiles are exact.
    pub(super) fn of(mut all: Vec<i64>) -> Self {
        all.sort_unstable();
        let at = |share: f64| all.get(((share * all.len() as f64).ceil() as usize).max(1) - 1).copied().unwrap_or(0);
        Self { faults: all.len() as u64, p50_ns: at(0.5), p99_ns: at(0.99), total_ns: all.iter().sum() }
    }
}

/// Faults that ended in the same way.
#[derive(Debug, Serialize)]
pub struct OneEnd {
    /// Whether they needed I/O, or waiting and another attempt.
    pub major: bool,
    /// The memory they got; null if it is not known.
    pub got: Option<String>,
    /// Those that were looked at.
    pub faults: u64,
    /// Share of the major ones, or of the minor ones that were sampled.
    pub share: f64,
    /// Median duration, ns.
    pub p50_ns: Option<i64>,
    /// 99th percentile of the durations, ns.
    pub p99_ns: Option<i64>,
    /// Sum of the durations, ns.
    pub total_ns: i64,
}

/// How faults ended.
#[derive(Debug, Serialize)]
pub struct EndsView {
    /// One in this many minor faults was sampled; all major ones are.
    pub minor_one_in: Option<u64>,
    /// Major faults.
    pub major: u64,
    /// Minor faults that were looked at.
    pub minor: u64,
    /// Ends that should be in the recording and are not.
    pub lost: Option<u64>,
    /// Why the memory that they got is not known.
    pub got_unknown_because: Option<String>,
    /// Faults by how they ended.
    pub ends: Vec<OneEnd>,
}

impl EndsView {
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
        let all = |major| ends.0.iter().filter(|((one, _), _)| *one == major).map(|(_, all)| all.faults).sum();
        let (majors, minors): (u64, u64) = (all(true), all(false));
        let lost = number("lost").zip(number("unmatched")).map(|(lost, unmatched)| lost + unmatched);
        if let Some(lost) = lost.filter(|lost| *lost > 0) {
            notes.push(format!("of {lost} faults that were looked at it is not known how they ended (lost)"));
        }
        let one = |((major, got), all): ((bool, Option<String>), EndFigures)| {
            let whole = if major { majors } else { minors };
            OneEnd {
                major,
                got,
                faults: all.faults,
                share: all.faults as f64 / whole.max(1) as f64,
                p50_ns: Some(all.p50_ns),
                p99_ns: Some(all.p99_ns),
                total_ns: all.total_ns,
            }
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
}

/// Pieces of memory about which the same was done.
#[derive(Debug, Serialize)]
pub struct OneCollapse {
    /// `khugepaged` or `madvise`.
    pub by_whom: String,
    /// Kind of memory.
    pub kind: String,
    /// The attempted operation.
    pub op: String,
    /// The kernel's word for the result.
    pub result: String,
    /// Pieces of memory.
    pub count: u64,
    /// Small pages that became part of huge ones.
    pub pages: u64,
    /// Of these, the ones without memory before, as far as known.
    pub filled: u64,
}

/// What khugepaged and MADV_COLLAPSE did, by result.
pub(crate) fn collapses(
    recording: &Recording,
    selection: &Selection,
    tasks: &Tasks,
    notes: &mut Vec<String>,
) -> Result<Vec<OneCollapse>> {
    let mut found: BTreeMap<[String; 4], [u64; 3]> = BTreeMap::new();
    read::each::<KhugepagedRow<'_>>(recording, notes, |row| {
        if row.task_id.is_some_and(|task| !tasks.wants(selection, task, row.ts)) {
            return;
        }
        let sums = found.entry([row.by_whom, row.kind, row.op, row.result].map(str::to_owned)).or_default();
        sums[0] += 1;
        sums[1] += u64::from(row.pages.unwrap_or(0));
        // An operation that was not done has filled nothing.
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

#[cfg(test)]
mod tests {
    use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};

    use super::*;

    /// What was turned down has filled nothing, whatever stands in its row; what is not known adds nothing.
    #[test]
    fn pages_are_filled_by_what_succeeded() {
        let tmp = tempfile::tempdir().expect("a folder");
        let dir = tmp.path().join("recording");
        let mut writer =
            RecordingWriter::create(&dir, Manifest::default(), WriterOptions::default()).expect("a recording");
        let row = KhugepagedRow { op: "collapse", kind: "anon", by_whom: "khugepaged", ..KhugepagedRow::default() };
        for (at, result, pages, filled) in [
            (1, "SUCCEED", Some(512), Some(12)),
            (2, "SUCCEED", Some(512), None),
            (3, "SUCCEED", Some(512), Some(30)),
            (4, "ALLOC_HUGE_PAGE_FAIL", None, Some(7)),
        ] {
            writer.push_khugepaged(&KhugepagedRow { ts: at, result, pages, filled, ..row });
        }
        writer.close(|_| {}).expect("closed");
        let recording = Recording::open(&dir).expect("it can be read");
        let mut notes = Vec::new();
        let tasks = Tasks::load(&recording, &Selection::default(), &mut notes).expect("read");
        let found = collapses(&recording, &Selection::default(), &tasks, &mut notes).expect("read");
        let sums: Vec<_> = found.iter().map(|one| (one.result.as_str(), one.count, one.pages, one.filled)).collect();
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(sums.len(), 2);
        assert!(sums.contains(&("SUCCEED", 3, 1536, 42)), "{sums:?}");
        assert!(sums.contains(&("ALLOC_HUGE_PAGE_FAIL", 1, 0, 0)), "{sums:?}");
    }
}
