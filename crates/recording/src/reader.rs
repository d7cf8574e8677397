//! Reading a recording, whole or broken off.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};

use crate::ahead::Ahead;
use crate::compact::Commit;
use crate::error::{Error, Result};
use crate::guard::{Guard, Limits};
use crate::inventory::{self, is_named_well, place};
use crate::manifest::{Flaw, Manifest};
use crate::merge::Merge;
use crate::part::{Part, PartReader, refused};
use crate::span::{Sieve, Span};
use crate::tables::{self, ColumnDef, Row, TableDef, TableView};

/// An open recording. Opening reads the manifest, and compares its list of parts with what is there.
#[derive(Debug, Clone)]
pub struct Recording {
    dir: PathBuf,
    manifest: Manifest,
    flaws: Vec<Flaw>,
    span: Span,
}

impl Recording {
    /// Opens the recording in `dir`, also one whose recorder died, and one of which parts are missing: its manifest then says that it
    /// is not complete, and why.
    pub fn open(dir: &Path) -> Result<Self> {
        let (mut manifest, seal) = Manifest::load_sealed(dir)?;
        let flaws = inventory::flaws(dir, &manifest, seal);
        manifest.take_flaws(&flaws);
        Ok(Self { dir: dir.to_owned(), manifest, flaws, span: Span::default() })
    }

    /// What is not as it was when the recording was closed.
    pub fn flaws(&self) -> &[Flaw] {
        &self.flaws
    }

    /// The same recording, of which readers are given only the events of a part of its time. What events cannot be read
    /// without (tasks, mappings, files, stacks, settings) and marks are given whole, and so are numbers of rows.
    #[must_use]
    pub fn within(self, span: Span) -> Self {
        Self { span, ..self }
    }

    /// The time whose events readers are given.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The time whose rows of a table readers are given; none if they are given all rows.
    pub fn limits(&self, table: &TableDef) -> Option<Span> {
        if !self.span.limits(table) {
            return None;
        }
        Some(self.span)
    }

    /// The recording's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The tables that have at least one part, in registry order.
    pub fn tables(&self) -> Result<Vec<&'static TableDef>> {
        let mut found = Vec::new();
        for table in tables::all() {
            if !self.parts(table.name)?.is_empty() {
                found.push(*table);
            }
        }
        Ok(found)
    }

    /// The files of a table's parts, in order; every row of the table is in exactly one of them. They are those that the manifest lists,
    /// if it has a list: of one that is missing the reader says so. A rollup that is not what its sources would give now has none.
    pub fn parts(&self, table: &str) -> Result<Vec<PathBuf>> {
        let def = tables::table_or_err(table)?;
        if def.rollup.is_some() && self.current_rollup(def).is_none() {
            return Ok(Vec::new());
        }
        let table = def.name;
        let replaced = match Commit::load(&self.dir)? {
            Some(commit) => commit.parts(&self.dir, table)?,
            None => None,
        };
        if let Some(parts) = replaced {
            return Ok(parts);
        }
        let Some(listed) = &self.manifest.parts else { return list_parts(&self.dir.join(table)) };
        let of_table = listed.iter().filter(|part| part.table == table && is_named_well(part));
        Ok(of_table.map(|part| place(&self.dir, part)).collect())
    }

    /// Reads a table in batches, part after part. `columns` names the columns wanted and their order, `None` all of the
    /// registry. Columns that the recording lacks read as null; columns that the registry lacks are left out.
    pub fn read(&self, table: &str, columns: Option<&[&str]>) -> Result<BatchReader> {
        let table = tables::table_or_err(table)?;
        let mut columns = select(table, columns)?;
        let asked = schema_of(&columns);
        let sieve = Sieve::of(self.span, table, &mut columns);
        let schema = schema_of(&columns);
        let guard = Guard::new(Limits::of(&self.manifest), &columns);
        let parts = self.parts(table.name)?.into();
        Ok(BatchReader { parts, columns, schema, asked, sieve, guard, current: None })
    }

    /// Like [`Recording::read`]; a thread decodes the next batches while the caller works on one.
    pub fn read_ahead(
        &self,
        table: &str,
        columns: Option<&[&str]>,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        Ok(Ahead::new(self.read(table, columns)?))
    }

    /// Like [`Recording::read`], in order of `ts` across the parts. After a clean end the parts are in that order anyway;
    /// in a recording that broke off, rows may have come late. `columns` must name `ts`.
    pub fn read_sorted(&self, table: &str, columns: Option<&[&str]>) -> Result<SortedReader> {
        let mut wanted = select(tables::table_or_err(table)?, columns)?;
        let sieve = Sieve::of(self.span, tables::table_or_err(table)?, &mut wanted);
        let limits = Limits::of(&self.manifest);
        Ok(SortedReader { merge: self.merge(table, columns)?.guarded(limits), sieve })
    }

    pub(crate) fn merge(&self, table: &str, columns: Option<&[&str]>) -> Result<Merge> {
        let table = tables::table_or_err(table)?;
        let columns = select(table, columns)?;
        let schema = schema_of(&columns);
        Merge::new(self.parts(table.name)?, columns, schema)
    }

    /// Calls `each` for every row of a table: `rec.for_each::<FaultsRow>(|row| ...)`.
    pub fn for_each<R: Row>(&self, mut each: impl FnMut(<R::View as TableView>::Row<'_>)) -> Result<()> {
        for batch in self.read(R::TABLE.name, Some(&row_columns::<R::View>()))? {
            let view = R::View::new(&batch?)?;
            for row in view.rows() {
                each(row);
            }
        }
        Ok(())
    }

    /// Like [`Recording::for_each`], past what is damaged, for which a line is added to `notes`: the other parts can still be read.
    pub fn for_each_readable<R: Row>(
        &self,
        notes: &mut Vec<String>,
        mut each: impl FnMut(<R::View as TableView>::Row<'_>),
    ) -> Result<()> {
        self.for_each_view(notes, |view: &R::View| view.rows().for_each(&mut each))
    }

    /// Calls `each` for every batch of a table's rows, skipping damaged parts as [`Recording::for_each_readable`] does:
    /// for sums over millions of rows by column.
    pub fn for_each_view<V: TableView>(&self, notes: &mut Vec<String>, each: impl FnMut(&V)) -> Result<()> {
        let batches = self.read_ahead(V::TABLE.name, Some(&row_columns::<V>()))?;
        readable(batches.map(|batch| V::new(&batch?)), notes, each)
    }

    /// Like [`Recording::for_each_readable`], in order of time across the parts: in a recording that broke off rows may have come
    /// late.
    pub fn for_each_readable_in_time<R: Row>(
        &self,
        notes: &mut Vec<String>,
        mut each: impl FnMut(<R::View as TableView>::Row<'_>),
    ) -> Result<()> {
        let batches = self.read_sorted(R::TABLE.name, Some(&row_columns::<R::View>()))?;
        readable(batches.map(|batch| R::View::new(&batch?)), notes, |view: &R::View| view.rows().for_each(&mut each))
    }

    /// Compares the checksums of a table's parts without decoding them, for readers that open [`Recording::parts`] with
    /// another Parquet reader: what [`Recording::read`] reads is verified anyway.
    pub fn verify(&self, table: &str) -> Result<()> {
        self.parts(table)?.iter().try_for_each(|path| Part::open(path)?.verify())
    }

    /// Number of rows of a table, from the parts' footers.
    pub fn rows(&self, table: &str) -> Result<u64> {
        let mut rows = 0;
        for part in self.parts(table)? {
            rows += Part::open(&part)?.rows();
        }
        Ok(rows)
    }

    /// Times of the first and the last row of a table, whatever the span, from the parts' footers. None if it has no rows, or if
    /// a part, which another program may have written, does not say.
    pub fn times(&self, table: &str) -> Result<Option<(i64, i64)>> {
        let mut times: Option<(i64, i64)> = None;
        for part in self.parts(table)? {
            for group in Part::open(&part)?.groups() {
                let Some((first, last)) = group else { return Ok(None) };
                times = Some(times.map_or((first, last), |(least, most)| (least.min(first), most.max(last))));
            }
        }
        Ok(times)
    }
}

/// Parts of a table's folder in order; a missing folder has none.
pub(crate) fn list_parts(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read directory", folder)(e)),
    };
    let mut parts = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io("read directory", folder))?.path();
        if path.extension().is_some_and(|e| e == "parquet") {
            parts.push(path);
        }
    }
    // Numbers have at least four digits, so longer names are later parts.
    parts.sort_by_key(|p| (p.as_os_str().len(), p.clone()));
    Ok(parts)
}

/// Names of the columns that a row has; the others need not be decoded for it.
fn row_columns<V: TableView>() -> Vec<&'static str> {
    V::TABLE.row_columns().map(|column| column.name).collect()
}

/// The definitions of the columns asked for.
fn select(table: &'static TableDef, names: Option<&[&str]>) -> Result<Vec<&'static ColumnDef>> {
    let Some(names) = names else {
        return Ok(table.columns.iter().collect());
    };
    names
        .iter()
        .map(|name| {
            table.column(name).ok_or_else(|| Error::UnknownColumn {
                table: table.name,
                column: (*name).to_owned(),
                known: table.columns.iter().map(|c| c.name).collect::<Vec<_>>().join(" "),
            })
        })
        .collect()
}

pub(crate) fn schema_of(columns: &[&'static ColumnDef]) -> SchemaRef {
    let fields: Vec<Field> = columns.iter().map(|c| Field::new(c.name, c.ty.arrow(), true)).collect();
    Arc::new(Schema::new(fields))
}

/// Batches of one table in order of time. After damage the other parts follow; any other error is the last item.
pub struct SortedReader {
    merge: Merge,
    sieve: Option<Sieve>,
}

impl std::fmt::Debug for SortedReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SortedReader").finish_non_exhaustive()
    }
}

impl Iterator for SortedReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.merge.next()?;
        Some(match &self.sieve {
            Some(sieve) => batch.and_then(|batch| sieve.pass(&batch)),
            None => batch,
        })
    }
}

/// Batches of one table.
pub struct BatchReader {
    parts: VecDeque<PathBuf>,
    columns: Vec<&'static ColumnDef>,
    schema: SchemaRef,
    asked: SchemaRef,
    sieve: Option<Sieve>,
    guard: Guard,
    current: Option<PartReader>,
}

impl std::fmt::Debug for BatchReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchReader").field("parts", &self.parts).field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl BatchReader {
    /// The schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.asked.clone()
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch>;

    /// After an error the rest of the damaged part is left out and the next part follows.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(part) = self.current.as_mut() {
                match part.next() {
                    Some(Ok(batch)) => {
                        if let Err(wrong) = self.guard.check(&batch) {
                            let error = refused(part.path(), wrong);
                            self.current = None;
                            return Some(Err(error));
                        }
                        return Some(match &self.sieve {
                            Some(sieve) => sieve.pass(&batch),
                            None => Ok(batch),
                        });
                    }
                    Some(Err(e)) => {
                        self.current = None;
                        return Some(Err(e));
                    }
                    None => self.current = None,
                }
            }
            let path = self.parts.pop_front()?;
            let read = |part: Part| match &self.sieve {
                Some(sieve) => part.read_within(sieve.span(), &self.columns, &self.schema),
                None => part.read(&self.columns, &self.schema),
            };
            match Part::open(&path).and_then(read) {
                Ok(part) => self.current = Some(part),
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

fn readable<V: TableView>(
    views: impl Iterator<Item = Result<V>>,
    notes: &mut Vec<String>,
    mut each: impl FnMut(&V),
) -> Result<()> {
    for view in views {
        match view {
            Ok(view) => each(&view),
            Err(error) if error.is_damage() => notes.push(format!("left out: {error}")),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
