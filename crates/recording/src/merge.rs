//! Merging the parts of a table into one stream in order of time.
//!
//! Row groups follow each other but for rows that came late, so two or three overlap at any instant. A row group is opened
//! when the merge reaches its first row and closed when it is used up. Rows that are much older than their part, such as
//! calls that slept for long, have row groups of their own ([`crate::encode::live_part`]): while the merge waits for the
//! last of them no other rows are held with them. So memory and descriptors do not grow with the recording.
//!
//! A part that is damaged is left out from where the damage is, and named once; the others go on.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::{concat_batches, interleave_record_batch};
use arrow::datatypes::{Int64Type, SchemaRef};

use crate::error::{Error, Result};
use crate::guard::{Guard, Limits};
use crate::part::{BATCH_ROWS, Part, PartReader, refused};
use crate::reader::schema_of;
use crate::tables::ColumnDef;

/// Rows that are decoded of a row group at a time; several row groups are open at once.
const DECODED_ROWS: usize = BATCH_ROWS / 4;
/// Parts whose footers are kept: the next row group to be opened is mostly of one of the last parts.
const KNOWN_PARTS: usize = 4;

/// A row group's place: the number of its part, and its number in that.
type Place = (u32, u32);

/// A row group that the merge has not reached.
struct Waiting {
    first: i64,
    place: Place,
}

/// A row group that is being read.
struct Run {
    place: Place,
    /// None when all is decoded: what is left of a few rows needs no file.
    reader: Option<PartReader>,
    /// Rows that the reader still has.
    left: usize,
    batch: RecordBatch,
    /// How many batches came before it.
    batches: usize,
    at: usize,
}

impl Run {
    /// The time of the next row; rows without a time come first.
    fn head(&self) -> i64 {
        times(&self.batch).get(self.at).copied().unwrap_or(i64::MIN)
    }

    /// Goes to the next batch that has rows; false at the end. What the guard refuses is damage of the part at `path`.
    fn refill(&mut self, guard: &mut Option<Guard>, path: &Path) -> Result<bool> {
        while self.at >= self.batch.num_rows() {
            let Some(batch) = self.reader.as_mut().and_then(Iterator::next) else { return Ok(false) };
            let batch = batch?;
            if let Some(guard) = guard {
                guard.check(&batch).map_err(|wrong| refused(path, wrong))?;
            }
            (self.batch, self.batches, self.at) = (batch, self.batches + 1, 0);
            self.left = self.left.saturating_sub(self.batch.num_rows());
            if self.left == 0 {
                self.reader = None;
            }
        }
        Ok(true)
    }
}

fn times(batch: &RecordBatch) -> &[i64] {
    let ts = batch.column_by_name("ts").and_then(|a| a.as_primitive_opt::<Int64Type>());
    ts.map_or(&[], |a| a.values())
}

/// Rows of one batch that follow each other in the output.
struct Piece {
    /// Which batch it is: the place of the row group, and the number of the batch in it.
    id: (Place, usize),
    batch: RecordBatch,
    from: usize,
    to: usize,
}

/// The rows of all parts in order of `ts`; rows of equal time in the order of parts, and within a part in its order.
/// A table without `ts` comes part after part.
pub(crate) struct Merge {
    columns: Vec<&'static ColumnDef>,
    schema: SchemaRef,
    parts: Vec<PathBuf>,
    known: VecDeque<(u32, Part)>,
    waiting: VecDeque<Waiting>,
    open: Vec<Run>,
    /// Parts that were found damaged.
    damaged: BTreeSet<u32>,
    /// Damage that is still to be reported.
    unreported: VecDeque<Error>,
    failed: bool,
    /// None for rows that were written by this process.
    guard: Option<Guard>,
}

impl Merge {
    /// `columns` must have `ts` if the table has it.
    pub(crate) fn new(parts: Vec<PathBuf>, columns: Vec<&'static ColumnDef>, schema: SchemaRef) -> Result<Self> {
        let mut merge = Self {
            columns,
            schema,
            parts,
            known: VecDeque::with_capacity(KNOWN_PARTS),
            waiting: VecDeque::new(),
            open: Vec::new(),
            damaged: BTreeSet::new(),
            unreported: VecDeque::new(),
            failed: false,
            guard: None,
        };
        for number in (0..).take(merge.parts.len()) {
            if let Err(error) = merge.await_part(number) {
                merge.leave_out(number, error)?;
            }
        }
        merge.waiting.make_contiguous().sort_by_key(|w| (w.first, w.place));
        Ok(merge)
    }

    /// Looks at each batch before it is given away.
    pub(crate) fn guarded(self, limits: Limits) -> Self {
        let guard = Some(Guard::new(limits, &self.columns));
        Self { guard, ..self }
    }

    /// Puts the row groups of a part among those that the merge will reach.
    fn await_part(&mut self, number: u32) -> Result<()> {
        let part = Part::open(&self.parts[number as usize])?;
        let ts = self.columns.iter().find(|column| column.name == "ts");
        for (group, times) in (0..).zip(part.groups()) {
            let first = match (times, ts) {
                (Some((first, _)), _) => first,
                // A row group that does not say when it begins is asked: opened at once, all of them would be open together.
                (None, Some(ts)) => first_time(&part, group as usize, ts)?,
                (None, None) => i64::MIN,
            };
            self.waiting.push_back(Waiting { first, place: (number, group) });
        }
        Ok(())
    }

    /// Takes note of a damaged part, once; what is no damage is returned.
    fn leave_out(&mut self, number: u32, error: Error) -> Result<()> {
        if !error.is_damage() {
            return Err(error);
        }
        if self.damaged.insert(number) {
            self.unreported.push_back(error);
        }
        Ok(())
    }

    /// Opens every row group that may have the next row.
    fn open_due(&mut self) -> Result<()> {
        let has_ts = self.columns.iter().any(|column| column.name == "ts");
        loop {
            let head = self.open.iter().map(Run::head).min();
            let due = |w: &mut Waiting| head.is_none_or(|h| has_ts && w.first <= h);
            let Some(next) = self.waiting.pop_front_if(due) else {
                return Ok(());
            };
            match self.begin(next.place) {
                Ok(Some(run)) => self.open.push(run),
                Ok(None) => {}
                Err(error) => self.leave_out(next.place.0, error)?,
            }
        }
    }

    /// Opens a row group; `None` if it has no rows.
    fn begin(&mut self, place: Place) -> Result<Option<Run>> {
        let (number, group) = place;
        let part = self.part(number)?;
        let left = part.group_rows(group as usize);
        // The library takes the memory of a whole batch even for the one row of a group.
        let batch_rows = left.clamp(1, DECODED_ROWS);
        let reader = part.read_group(group as usize, &self.columns, &self.schema, batch_rows)?;
        let batch = RecordBatch::new_empty(self.schema.clone());
        let mut run = Run { place, reader: Some(reader), left, batch, batches: 0, at: 0 };
        let is_any = run.refill(&mut self.guard, &self.parts[number as usize])?;
        Ok(is_any.then_some(run))
    }

    /// A part, its footer read.
    fn part(&mut self, number: u32) -> Result<Part> {
        if let Some((_, part)) = self.known.iter().find(|(known, _)| *known == number) {
            return Ok(part.clone());
        }
        let part = Part::open(&self.parts[number as usize])?;
        self.known.truncate(KNOWN_PARTS - 1);
        self.known.push_front((number, part.clone()));
        Ok(part)
    }

    /// The longest stretch of one row group that comes before all rows of the others, at most `most` rows of it.
    fn piece(&mut self, most: usize) -> Result<Option<Piece>> {
        self.open_due()?;
        let Some(best) = (0..self.open.len()).min_by_key(|i| (self.open[*i].head(), self.open[*i].place)) else {
            return Ok(None);
        };
        let place = self.open[best].place;
        // Up to here, and at equal times only against row groups that come later.
        let others = self.open.iter().enumerate().filter(|(i, _)| *i != best).map(|(_, r)| (r.head(), r.place));
        let limit = others.chain(self.waiting.front().map(|w| (w.first, w.place))).min();
        let run = &mut self.open[best];
        let ts = times(&run.batch);
        let end = (run.at + most).min(run.batch.num_rows());
        let to = match limit {
            _ if ts.is_empty() => end,
            None => end,
            Some((head, other)) => {
                let before = |t: &i64| *t < head || (*t == head && place < other);
                run.at + ts[run.at..end].partition_point(before)
            }
        };
        // The first row is the smallest of all; taking it keeps the merge going even through an unsorted part.
        let to = to.max(run.at + 1);
        let piece = Piece { id: (run.place, run.batches), batch: run.batch.clone(), from: run.at, to };
        run.at = to;
        match run.refill(&mut self.guard, &self.parts[place.0 as usize]) {
            Ok(true) => {}
            Ok(false) => drop(self.open.swap_remove(best)),
            Err(error) => {
                self.open.swap_remove(best);
                self.leave_out(place.0, error)?;
            }
        }
        Ok(Some(piece))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let (mut pieces, mut rows) = (Vec::new(), 0);
        while rows < BATCH_ROWS {
            let Some(piece) = self.piece(BATCH_ROWS - rows)? else { break };
            rows += piece.to - piece.from;
            pieces.push(piece);
        }
        Ok(match pieces.as_slice() {
            [] => None,
            [one] => Some(one.batch.slice(one.from, one.to - one.from)),
            many => Some(gather(&self.schema, many, rows)?),
        })
    }
}

/// The smallest time of a row group; rows without a time come first.
fn first_time(part: &Part, group: usize, ts: &'static ColumnDef) -> Result<i64> {
    let columns = [ts];
    let mut first = i64::MAX;
    for batch in part.read_group(group, &columns, &schema_of(&columns), DECODED_ROWS)? {
        let batch = batch?;
        let nulls = batch.column(0).null_count() > 0;
        let least = times(&batch).iter().min().copied().filter(|_| !nulls);
        first = first.min(least.unwrap_or(i64::MIN));
    }
    Ok(first)
}

/// Copies pieces together: stretch by stretch if they are long, row by row if not.
fn gather(schema: &SchemaRef, pieces: &[Piece], rows: usize) -> Result<RecordBatch> {
    if rows / pieces.len() >= 16 {
        let slices: Vec<RecordBatch> = pieces.iter().map(|p| p.batch.slice(p.from, p.to - p.from)).collect();
        return Ok(concat_batches(schema, &slices)?);
    }
    let (mut ids, mut batches) = (Vec::new(), Vec::new());
    let mut indices = Vec::with_capacity(rows);
    for piece in pieces {
        let batch = ids.iter().rposition(|id| *id == piece.id).unwrap_or_else(|| {
            ids.push(piece.id);
            batches.push(&piece.batch);
            batches.len() - 1
        });
        indices.extend((piece.from..piece.to).map(|row| (batch, row)));
    }
    Ok(interleave_record_batch(&batches, &indices)?)
}

impl Iterator for Merge {
    type Item = Result<RecordBatch>;

    /// After damage the other parts follow; any other error is the last item.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if let Some(damage) = self.unreported.pop_front() {
            return Some(Err(damage));
        }
        let next = self.next_batch();
        // Damage found on the way is reported before the end.
        if matches!(next, Ok(None))
            && let Some(damage) = self.unreported.pop_front()
        {
            return Some(Err(damage));
        }
        self.failed = next.is_err();
        next.transpose()
    }
}
