//! What a scan adds to the rows of a file: which recording they are from, by its manifest, and which time of it counts.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use pagelab_recording::Span;
use pagelab_recording::set::RecordingRef;
use pagelab_recording::tables::{ColType, ColumnDef};

use crate::adapt::text_type;

/// The columns that say which recording a row is from.
pub(crate) const PARTITION_COLUMNS: [&str; 3] = ["host", "variant", "run"];

/// Fields of the columns that say which recording a row is from.
pub(crate) fn partition_fields() -> [Field; 3] {
    let [host, variant, run] = PARTITION_COLUMNS;
    [
        Field::new(host, text_type(), true),
        Field::new(variant, text_type(), true),
        Field::new(run, DataType::Int64, true),
    ]
}

/// A column of a table as queries see it: bytes are text.
pub(crate) fn field(column: &ColumnDef) -> Field {
    let ty = if column.ty == ColType::Bytes { text_type() } else { column.ty.arrow() };
    Field::new(column.name, ty, true)
}

/// What a scan reads: these columns, and behind them where a row is from.
pub(crate) fn read_as(columns: Vec<Field>) -> TableSchema {
    let partition: Vec<FieldRef> = partition_fields().into_iter().map(Arc::new).collect();
    TableSchema::builder(Arc::new(Schema::new(columns))).with_table_partition_cols(partition).build()
}

/// What is known of a scan before it reads: the rows. No statistics of columns: row groups have their own.
pub(crate) fn statistics(schema: &Schema, rows: usize) -> Statistics {
    Statistics { num_rows: Precision::Exact(rows), ..Statistics::new_unknown(schema) }
}

/// The values of [`partition_fields`] in the rows of a recording.
pub(crate) fn partition_values(recording: &RecordingRef) -> Vec<ScalarValue> {
    let text = |value: &Option<String>| {
        ScalarValue::Dictionary(Box::new(DataType::Int32), Box::new(ScalarValue::Utf8(value.clone())))
    };
    let run = recording.run.and_then(|run| i64::try_from(run).ok());
    vec![text(&recording.host), text(&recording.variant), ScalarValue::Int64(run)]
}

/// The rows of a time.
pub(crate) fn span_filter(schema: &Schema, span: Span) -> Result<Arc<dyn PhysicalExpr>> {
    let ts = Arc::new(Column::new_with_schema("ts", schema)?);
    let compare = |op: Operator, ns: i64| Arc::new(BinaryExpr::new(ts.clone(), op, lit(ns)));
    let (from, to) = (compare(Operator::GtEq, span.from_ns), compare(Operator::Lt, span.to_ns));
    Ok(Arc::new(BinaryExpr::new(from, Operator::And, to)))
}
