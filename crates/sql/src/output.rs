//! Writing a result batch by batch.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::json::writer::{JsonArray, Writer as JsonWriter, WriterBuilder};
use pagelab_vocab::terminal::{Allow, Escaping, escape};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::error::{QueryError, Result};
use crate::options::Format;

/// Rows that decide the widths of a printed table. Later rows that are wider push their line to the right: a result
/// of any size is printed with the memory of this many rows.
const ROWS_FOR_WIDTHS: usize = 2000;

/// A cell is never padded to more than this.
const WIDEST: usize = 80;

/// Where a result goes.
pub(crate) struct Output<'w> {
    schema: SchemaRef,
    sink: Sink<'w>,
}

enum Sink<'w> {
    Table(TableSink<'w>),
    Csv(&'w mut (dyn Write + Send)),
    Json(Box<JsonWriter<Escaping<&'w mut (dyn Write + Send)>, JsonArray>>),
    Parquet(Box<ArrowWriter<&'w mut (dyn Write + Send)>>),
}

fn failed(error: impl std::fmt::Display) -> QueryError {
    QueryError::Unanswered(format!("cannot write the result: {error}"))
}

impl<'w> Output<'w> {
    pub(crate) fn new(format: Format, schema: SchemaRef, out: &'w mut (dyn Write + Send)) -> Result<Self> {
        let sink = match format {
            Format::Table => Sink::Table(TableSink::new(&schema, out)),
            Format::Csv => {
                let names: Vec<String> = schema.fields().iter().map(|f| csv_cell(f.name())).collect();
                writeln!(out, "{}", names.join(",")).map_err(failed)?;
                Sink::Csv(out)
            }
            Format::Json => {
                let out = Escaping::new(out, Allow::Json);
                let writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, JsonArray>(out);
                Sink::Json(Box::new(writer))
            }
            Format::Parquet => {
                let level = Compression::ZSTD(ZstdLevel::default());
                let properties = WriterProperties::builder().set_compression(level).build();
                let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties)).map_err(failed)?;
                Sink::Parquet(Box::new(writer))
            }
        };
        Ok(Self { schema, sink })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.sink {
            Sink::Table(table) => table.write(batch).map_err(failed),
            Sink::Csv(out) => write_csv(&self.schema, batch, *out).map_err(failed),
            Sink::Json(writer) => writer.write(batch).map_err(failed),
            Sink::Parquet(writer) => writer.write(batch).map_err(failed),
        }
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self.sink {
            Sink::Table(table) => table.finish().map_err(failed),
            Sink::Csv(out) => out.flush().map_err(failed),
            Sink::Json(mut writer) => {
                writer.finish().map_err(failed)?;
                let mut out = writer.into_inner();
                writeln!(out).and_then(|()| out.flush()).map_err(failed)
            }
            Sink::Parquet(writer) => writer.close().map(|_| ()).map_err(failed),
        }
    }
}

fn formatters<'b>(batch: &'b RecordBatch, null: &'static str) -> Result<Vec<ArrayFormatter<'b>>, ArrowError> {
    let options = FormatOptions::default().with_null(null);
    batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options)).collect()
}

/// Text with quotes where it needs them (RFC 4180).
fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn write_csv(_schema: &SchemaRef, batch: &RecordBatch, out: &mut dyn Write) -> Result<(), ArrowError> {
    let cells = formatters(batch, "")?;
    let mut line = String::new();
    for row in 0..batch.num_rows() {
        line.clear();
        for (i, cell) in cells.iter().enumerate() {
            if i > 0 {
                line.push(',');
            }
            line.push_str(&csv_cell(&cell.value(row).try_to_string()?));
        }
        line.push('\n');
        out.write_all(line.as_bytes()).map_err(|e| ArrowError::IoError(e.to_string(), e))?;
    }
    Ok(())
}

/// A table for reading: the first rows decide the widths, numbers stand to the right.
struct TableSink<'w> {
    out: &'w mut (dyn Write + Send),
    names: Vec<String>,
    right: Vec<bool>,
    waiting: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
}

impl<'w> TableSink<'w> {
    fn new(schema: &SchemaRef, out: &'w mut (dyn Write + Send)) -> Self {
        Self {
            out,
            names: schema.fields().iter().map(|f| f.name().clone()).collect(),
            right: schema.fields().iter().map(|f| is_number(f.data_type())).collect(),
            waiting: Vec::new(),
            widths: None,
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let cells = formatters(batch, "null")?;
        for row in 0..batch.num_rows() {
            let texts: Result<Vec<String>, ArrowError> =
                cells.iter().map(|cell| cell.value(row).try_to_string()).collect();
            let texts: Vec<String> = texts?.into_iter().map(|text| escape(&text)).collect();
            let written = if self.widths.is_some() {
                self.line(&texts)
            } else {
                self.waiting.push(texts);
                if self.waiting.len() >= ROWS_FOR_WIDTHS { self.start() } else { Ok(()) }
            };
            written.map_err(|e| ArrowError::IoError(e.to_string(), e))?;
        }
        Ok(())
    }

    /// Decides the widths and prints the header and what has waited.
    fn start(&mut self) -> io::Result<()> {
        let mut widths: Vec<usize> = self.names.iter().map(|name| name.chars().count()).collect();
        for row in &self.waiting {
            for (width, text) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count()).min(WIDEST);
            }
        }
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        self.widths = Some(widths);
        let names = self.names.clone();
        self.line(&names)?;
        self.line(&rule)?;
        for row in std::mem::take(&mut self.waiting) {
            self.line(&row)?;
        }
        Ok(())
    }

    fn line(&mut self, row: &[String]) -> io::Result<()> {
        let widths = self.widths.as_deref().unwrap_or_default();
        let mut line = String::new();
        for (i, text) in row.iter().enumerate() {
            let width = widths.get(i).copied().unwrap_or(0);
            let pad = " ".repeat(width.saturating_sub(text.chars().count()));
            let right = self.right.get(i).copied().unwrap_or(false);
            if i > 0 {
                line.push_str("  ");
            }
            if right {
                line.push_str(&pad);
            }
            line.push_str(text);
            if !right {
                line.push_str(&pad);
            }
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    fn finish(mut self) -> io::Result<()> {
        if self.widths.is_none() {
            self.start()?;
        }
        self.out.flush()
    }
}

fn is_number(ty: &DataType) -> bool {
    ty.is_numeric()
}
