//! Bounds for what is read: rows of a file may say anything, and views add them up.
//!
//! Every batch that readers are given has passed a [`Guard`]: times lie near the recording's own, counts are such that a column can
//! be added up, numbers of CPUs are those of a machine, and text does not fill memory by being repeated. A part with other
//! values is damaged: it is left out from there, and named. What memory a part may take while it is decoded is
//! bounded by its footer (`part.rs`) and by the heads of its pages (`pages.rs`).
//!
//! Numbers that a program chooses have no bound, because a call may be given anything: addresses, lengths, offsets and
//! arguments ([`FREE`]). Whoever adds those must do so without overflow.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, UInt32Type, UInt64Type};

use crate::manifest::Manifest;
use crate::tables::{ColType, ColumnDef};

/// How far from the recording's begin and end a row may lie: 417 days. Clocks are set, and rows begin before the recording.
const MARGIN_NS: i64 = 1 << 55;
/// Times are nearer to zero than this, so that the difference of any two fits.
const FARTHEST_NS: i64 = 1 << 62;
/// A count: what a double holds exactly.
const LARGEST_COUNT: u64 = 1 << 53;
/// A sum of times or of bytes in one row: 36 years, or an exabyte.
const LARGEST_SUM: u64 = 1 << 60;
/// A counter since the start: cycles of all CPUs.
const LARGEST_COUNTER: u64 = 1 << 62;
/// What sums of a column come to in all: the largest power of two of which sums and differences of two fit into an `i64`. Counts
/// come to what one may be at most: they are multiplied by depths of stacks.
const LARGEST_TOTAL: u64 = 1 << 62;
/// CPUs are numbered from 0 to this.
const LAST_CPU: u32 = 1 << 16;
/// Text that is longer than a path can be.
const LONG_TEXT: usize = 4096;
/// What such text may come to in all of a table.
const LARGEST_LONG_TEXT: usize = 64 << 20;

/// Columns whose values programs, file systems and hashes choose.
const FREE: [&str; 23] = [
    "addr",
    "cgroup_id",
    "dev",
    "end",
    "example_len",
    "example_start",
    "frame_id",
    "ino",
    "ip",
    "kstack_id",
    "len",
    "max_pgoff",
    "module_offset",
    "offset",
    "old_addr",
    "old_len",
    "pgoff",
    "ret",
    "sector",
    "stack_id",
    "start",
    "step_pages",
    "ustack_id",
];
/// More of these, of which there are sums: of what was asked for, not of what happened.
const ASKED: [&str; 7] =
    ["asked_bytes", "largest_bytes", "requested", "smallest_bytes", "vm_end", "vm_flags", "vm_start"];

/// Columns whose rows say what something has come to so far, or is now: nobody adds up all of them.
const STATES: [&str; 11] = [
    "bytes",
    "enabled_ns",
    "high_ns",
    "low_ns",
    "maj_flt",
    "min_flt",
    "page_size_bytes",
    "recorded_faults",
    "running_ns",
    "stime_ns",
    "utime_ns",
];

/// The times that rows of a recording may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    first_ns: i64,
    last_ns: i64,
}

impl Limits {
    /// Those of a recording: as long as its clocks say that it was, and a margin.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let start_ns = manifest.clock.start_ns;
        let clock = &manifest.clock;
        let lasted =
            clock.realtime_at_end_ns.zip(clock.realtime_at_start_ns).map(|(end, start)| end.saturating_sub(start));
        let end = lasted.filter(|ns| *ns >= 0).map(|ns| start_ns.saturating_add(ns));
        let measured = manifest.measured.as_ref();
        let begin = measured.and_then(|measured| measured.start_ns).map_or(start_ns, |ns| ns.min(start_ns));
        let ends = [end, measured.and_then(|measured| measured.end_ns)];
        let last = if end.is_some() { ends.into_iter().flatten().max() } else { None };
        Self {
            // Settings that are known before the clock is have the time 0.
            first_ns: begin.min(0).saturating_sub(MARGIN_NS).max(-FARTHEST_NS),
            last_ns: last.map_or(FARTHEST_NS, |ns| ns.saturating_add(MARGIN_NS)).min(FARTHEST_NS),
        }
    }
}

/// How a column is looked at.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// A time.
    Time,
    /// A number from 0 to the first, whose rows come to the second in all.
    Count(u64, u64),
    /// A duration, which is added up as well.
    Duration,
    /// The number of a CPU.
    Cpu,
    /// Text.
    Text,
    /// Anything.
    Free,
}

impl Rule {
    fn of(column: &ColumnDef) -> Self {
        let ColumnDef { name, ty, unit, .. } = *column;
        match ty {
            ColType::I64 if name == "ts" || name.ends_with("_ts") => Self::Time,
            ColType::I64 | ColType::U64 if FREE.contains(&name) || ASKED.contains(&name) => Self::Free,
            ColType::I64 => Self::Duration,
            ColType::U64 if name == "value" => Self::Count(LARGEST_COUNTER, u64::MAX),
            ColType::U64 if STATES.contains(&name) => Self::Count(LARGEST_SUM, u64::MAX),
            ColType::U64 if unit.is_empty() && name != "weight" => Self::Count(LARGEST_COUNT, LARGEST_COUNT),
            ColType::U64 => Self::Count(LARGEST_SUM, LARGEST_TOTAL),
            ColType::U32 if name == "cpu" => Self::Cpu,
            ColType::Str | ColType::Bytes => Self::Text,
            ColType::U32 | ColType::I32 | ColType::F64 | ColType::Bool | ColType::Words6 | ColType::U64List => {
                Self::Free
            }
        }
    }
}

/// Looks at the batches of one table, as one reader is given them.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    limits: Limits,
    rules: Vec<(&'static str, Rule)>,
    totals: Vec<u64>,
    long_text: usize,
}

impl Guard {
    pub(crate) fn new(limits: Limits, columns: &[&'static ColumnDef]) -> Self {
        let rules: Vec<_> = columns.iter().map(|column| (column.name, Rule::of(column))).collect();
        Self { limits, totals: vec![0; rules.len()], rules, long_text: 0 }
    }

    /// Takes the next batch, whose columns are those of the guard. What is wrong with it, in words.
    pub(crate) fn check(&mut self, batch: &RecordBatch) -> Result<(), String> {
        for (at, array) in batch.columns().iter().enumerate() {
            let Some((name, rule)) = self.rules.get(at).copied() else { continue };
            self.column(at, rule, array).map_err(|wrong| format!("column {name}: {wrong}"))?;
        }
        Ok(())
    }

    fn column(&mut self, at: usize, rule: Rule, array: &ArrayRef) -> Result<(), String> {
        match rule {
            Rule::Free => Ok(()),
            Rule::Time => self.times(array),
            Rule::Cpu => match array.as_primitive_opt::<UInt32Type>().and_then(arrow::compute::max) {
                Some(cpu) if cpu > LAST_CPU => Err(format!("found CPU {cpu}; at most {LAST_CPU} is possible")),
                _ => Ok(()),
            },
            Rule::Count(most, in_all) => {
                let Some(values) = array.as_primitive_opt::<UInt64Type>() else { return Ok(()) };
                let sum = sum_within(values.values().iter().copied(), array, most)?;
                self.add(at, sum, in_all)
            }
            Rule::Duration => {
                let Some(values) = array.as_primitive_opt::<Int64Type>() else { return Ok(()) };
                let sum = sum_within(values.values().iter().map(|value| value.unsigned_abs()), array, LARGEST_SUM)?;
                self.add(at, sum, LARGEST_TOTAL)
            }
            Rule::Text => self.text(array),
        }
    }

    fn times(&self, array: &ArrayRef) -> Result<(), String> {
        let Some(times) = array.as_primitive_opt::<Int64Type>() else { return Ok(()) };
        let Limits { first_ns, last_ns } = self.limits;
        let wrong = [arrow::compute::min(times), arrow::compute::max(times)];
        match wrong.into_iter().flatten().find(|ns| !(first_ns..=last_ns).contains(ns)) {
            Some(ns) => {
                Err(format!("found the time {ns} ns; from {first_ns} to {last_ns} ns are possible in this recording"))
            }
            None => Ok(()),
        }
    }

    fn add(&mut self, at: usize, sum: u64, in_all: u64) -> Result<(), String> {
        let Some(total) = self.totals.get_mut(at) else { return Ok(()) };
        *total = total.saturating_add(sum);
        if *total > in_all {
            return Err(format!("its values come to more than {in_all} in all and cannot be added up"));
        }
        Ok(())
    }

    fn text(&mut self, array: &ArrayRef) -> Result<(), String> {
        let Some(words) = array.as_dictionary_opt::<Int32Type>() else { return Ok(()) };
        let offsets = match (words.values().as_string_opt::<i32>(), words.values().as_binary_opt::<i32>()) {
            (Some(text), _) => text.value_offsets(),
            (_, Some(bytes)) => bytes.value_offsets(),
            _ => return Ok(()),
        };
        let len = |word: usize| match offsets.get(word..word.saturating_add(2)) {
            Some([from, to]) => usize::try_from(to.saturating_sub(*from)).unwrap_or_default(),
            _ => 0,
        };
        if !(0..words.values().len()).any(|word| len(word) > LONG_TEXT) {
            return Ok(());
        }
        let long = words.keys().iter().flatten().map(|key| len(usize::try_from(key).unwrap_or(usize::MAX)));
        let long: usize = long.filter(|len| *len > LONG_TEXT).fold(0, usize::saturating_add);
        self.long_text = self.long_text.saturating_add(long);
        if self.long_text > LARGEST_LONG_TEXT {
            return Err(format!("its long texts come to more than {LARGEST_LONG_TEXT} bytes in all"));
        }
        Ok(())
    }
}

/// The sum of values that are not null and not larger than `most`. What is behind a null may be anything.
fn sum_within(values: impl Iterator<Item = u64>, array: &ArrayRef, most: u64) -> Result<u64, String> {
    // Two passes over plain values cost less than one that can leave early.
    let (mut sum, mut largest) = (0_u64, 0);
    match array.nulls() {
        None => {
            for value in values {
                (sum, largest) = (sum.saturating_add(value), largest.max(value));
            }
        }
        Some(nulls) => {
            for (value, is_there) in values.zip(nulls.iter()) {
                let value = if is_there { value } else { 0 };
                (sum, largest) = (sum.saturating_add(value), largest.max(value));
            }
        }
    }
    if largest > most {
        return Err(format!("found {largest}; at most {most} is possible"));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray, UInt64Array};

    use super::*;
    use crate::reader::schema_of;
    use crate::tables;

    fn guard(table: &str, columns: &[&str]) -> Guard {
        let table = tables::table_or_err(table).expect("a table");
        let columns: Vec<_> = columns.iter().map(|name| table.column(name).expect("a column")).collect();
        Guard::new(Limits::of(&Manifest::default()), &columns)
    }

    fn checked(guard: &mut Guard, table: &str, column: &str, array: ArrayRef) -> Result<(), String> {
        let column = tables::table_or_err(table).expect("a table").column(column).expect("a column");
        let batch = RecordBatch::try_new(schema_of(&[column]), vec![array]).expect("a batch");
        guard.check(&batch)
    }

    #[test]
    fn counts_and_times_have_bounds_and_addresses_have_none() {
        let u64s = |values: Vec<Option<u64>>| Arc::new(UInt64Array::from(values)) as ArrayRef;
        let seen = |values| checked(&mut guard("loss", &["seen"]), "loss", "seen", u64s(values));
        assert_eq!(seen(vec![Some(1 << 52), None, Some(3)]), Ok(()));
        assert!(seen(vec![Some(1 << 53), Some(3)]).is_err_and(|wrong| wrong.contains("in all")));
        assert!(seen(vec![Some(0), Some((1 << 53) + 1)]).is_err_and(|wrong| wrong.contains("column seen: found")));
        let addr = checked(&mut guard("faults", &["addr"]), "faults", "addr", u64s(vec![Some(u64::MAX)]));
        assert_eq!(addr, Ok(()));
        let ts = |ns| checked(&mut guard("loss", &["ts"]), "loss", "ts", Arc::new(Int64Array::from(vec![ns])));
        assert_eq!((ts(0), ts(1_000_000_000_000)), (Ok(()), Ok(())));
        assert!(ts(i64::MIN).is_err() && ts(i64::MAX).is_err() && ts(-(1 << 56)).is_err());
        let dur = |ns| checked(&mut guard("faults", &["dur"]), "faults", "dur", Arc::new(Int64Array::from(vec![ns])));
        assert!(dur(-5).is_ok() && dur(i64::MIN).is_err() && dur(i64::MAX).is_err());
    }

    #[test]
    fn a_column_can_be_added_up() {
        let mut guard = guard("waits", &["ns"]);
        let column = || Arc::new(UInt64Array::from(vec![1_u64 << 60, 1 << 60])) as ArrayRef;
        assert_eq!(checked(&mut guard, "waits", "ns", column()), Ok(()));
        assert_eq!(checked(&mut guard, "waits", "ns", column()), Ok(()));
        assert!(checked(&mut guard, "waits", "ns", column()).is_err_and(|wrong| wrong.contains("in all")));
    }

    #[test]
    fn long_text_does_not_fill_memory_by_being_repeated() {
        let ty = ColType::Str.arrow();
        let of = |len: usize, rows: usize| {
            let text: ArrayRef = Arc::new(StringArray::from(vec!["a".repeat(len); rows]));
            arrow::compute::cast(&text, &ty).expect("a dictionary")
        };
        let check = |array| checked(&mut guard("settings", &["value"]), "settings", "value", array);
        assert_eq!(check(of(1000, 10_000)), Ok(()));
        assert_eq!(check(of(1 << 20, 10)), Ok(()));
        assert!(check(of(1 << 20, 65)).is_err());
    }
}
