//! A part of the recorded time: readers are given the events that happened in it.

use std::fmt;
use std::str::FromStr;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;

use crate::error::{Error, Result};
use crate::reader::Recording;
use crate::tables::{ColumnDef, MarksRow, TableDef};

/// From `from_ns` up to, and without, `to_ns`, on the recording's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its start.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
}

impl Default for Span {
    /// All of the time.
    fn default() -> Self {
        Self { from_ns: i64::MIN, to_ns: i64::MAX }
    }
}

impl Span {
    /// Whether an instant lies in it.
    pub fn holds(&self, ts: i64) -> bool {
        self.from_ns <= ts && ts < self.to_ns
    }

    /// Whether some instant from `first` to `last`, both included, may lie in it.
    pub(crate) fn overlaps(&self, first: i64, last: i64) -> bool {
        self.from_ns <= last && first < self.to_ns
    }

    /// Whether rows of a table are left out because of their time: of tables that hold events, if it leaves something out.
    pub(crate) fn limits(&self, table: &TableDef) -> bool {
        self.is_part() && table.has_ts() && crate::keep::ages(table.name)
    }

    /// Whether it leaves something out.
    pub fn is_part(&self) -> bool {
        *self != Self::default()
    }
}

/// An end of a span as people give it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// Nanoseconds since the start of the recording.
    SinceStart(i64),
    /// The instant of a mark.
    Mark(String),
}

impl fmt::Display for Bound {
    /// As it is read: seconds to the nanosecond, or the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SinceStart(ns) => {
                let sign = if *ns < 0 { "-" } else { "" };
                write!(f, "{sign}{}.{:09}", ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000)
            }
            Self::Mark(name) => f.write_str(name),
        }
    }
}

impl FromStr for Bound {
    type Err = String;

    /// Seconds since the start, such as `2.5`, or the name of a mark.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let needed = || format!("found {text:?}, needed seconds since the start such as 2.5, or the name of a mark");
        match text.parse::<f64>() {
            // Beyond a century the nanoseconds would not fit.
            Ok(seconds) if seconds.abs() < 3.2e9 => Ok(Self::SinceStart((seconds * 1e9).round() as i64)),
            Ok(_) => Err(needed()),
            Err(_) if text.is_empty() => Err(needed()),
            Err(_) => Ok(Self::Mark(text.to_owned())),
        }
    }
}

/// A part of the time of any recording, as people give it: `--from` and `--to`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Its start; none: that of the recording.
    pub from: Option<Bound>,
    /// Its end; none: that of the recording.
    pub to: Option<Bound>,
}

impl Bounds {
    /// Their times in a recording. A name that was marked more than once means its first mark in `from` and its last in
    /// `to`, so that a span between marks of one name holds all of them.
    ///
    /// # Errors
    /// [`Error::NoSuchMark`], [`Error::EmptySpan`], and those of reading the table `marks`.
    pub fn of(&self, recording: &Recording) -> Result<Span> {
        let mut span = Span::default();
        if let Some(from) = &self.from {
            span.from_ns = instant(recording, from, true)?;
        }
        if let Some(to) = &self.to {
            span.to_ns = instant(recording, to, false)?;
        }
        if span.from_ns >= span.to_ns {
            return Err(Error::EmptySpan { dir: recording.dir().to_owned(), from_ns: span.from_ns, to_ns: span.to_ns });
        }
        Ok(span)
    }
}

fn instant(recording: &Recording, bound: &Bound, first: bool) -> Result<i64> {
    let wanted = match bound {
        Bound::SinceStart(ns) => return Ok(recording.manifest().clock.start_ns.saturating_add(*ns)),
        Bound::Mark(name) => name,
    };
    let (mut found, mut known) = (None, Vec::new());
    recording.for_each::<MarksRow>(|row| {
        if row.name == wanted {
            let other: i64 = found.unwrap_or(row.ts);
            found = Some(if first { other.min(row.ts) } else { other.max(row.ts) });
        } else if !known.iter().any(|name| name == row.name) {
            known.push(row.name.to_owned());
        }
    })?;
    found.ok_or_else(|| Error::NoSuchMark {
        dir: recording.dir().to_owned(),
        name: wanted.clone(),
        known: if known.is_empty() { "no marks".to_owned() } else { format!("the marks {}", known.join(", ")) },
    })
}

/// What a reader leaves out of the batches of a table, and the columns it reads for that.
#[derive(Debug, Clone)]
pub(crate) struct Sieve {
    span: Span,
    /// `ts` was not asked for; it is read as the last column and taken away again.
    added: bool,
}

impl Sieve {
    /// A sieve, if the table has events and the span leaves some out. May add `ts` to the columns.
    pub(crate) fn of(span: Span, table: &'static TableDef, columns: &mut Vec<&'static ColumnDef>) -> Option<Self> {
        let ts = table.column("ts").filter(|_| span.limits(table))?;
        let added = !columns.iter().any(|column| column.name == ts.name);
        if added {
            columns.push(ts);
        }
        Some(Self { span, added })
    }

    /// The span.
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// The rows of a batch that happened in the span.
    pub(crate) fn pass(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let Some(times) = batch.column_by_name("ts").and_then(|column| column.as_primitive_opt::<Int64Type>()) else {
            return Ok(batch.clone());
        };
        let wanted: BooleanArray = times.values().iter().map(|ts| Some(self.span.holds(*ts))).collect();
        let kept = filter_record_batch(batch, &wanted)?;
        if !self.added {
            return Ok(kept);
        }
        let asked: Vec<usize> = (0..kept.num_columns().saturating_sub(1)).collect();
        Ok(kept.project(&asked)?)
    }
}
