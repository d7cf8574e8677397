//! The compacted tables of a fleet: what questions across hosts read in place of recordings.
//!
//! A fleet is a folder with one folder per day (UTC) and one Parquet file per table:
//!
//! ```text
//! fleet/day=2026-03-01/runs.parquet        one row per run (recording)
//!                      labels.parquet      what is known of a run beside its figures: instance type, host group, kernel
//!                      metrics.parquet     one number per run, metric and instance
//!                      components.parquet  the budget of time per operation
//!                      settings.parquet    settings, where they differ from the host's recording before
//! ```
//!
//! The tables are declared once, in `tables.rs`; [`TABLES`] lists them with the meaning and unit of each column. All columns are
//! nullable: a value that could not be measured is null, never 0, and a file that lacks a column, because an older
//! version wrote it, is read as if the column were null. Text is plain Utf8, so that other programs join it without
//! dictionaries.
//!
//! # Order
//! Rows of a file are sorted ([`TableDef::order`]), row groups are bounded ([`WriteOptions::row_group_rows`]), and each says its
//! smallest and largest values. So a question about one metric reads the few row groups that hold it:
//! [`FleetFolder::read`] skips the others by these bounds.
//!
//! # Reading elsewhere
//! Questions read from a [`FleetSource`]: a folder, or an engine that has the same tables elsewhere and gives their rows.
//!
//! # Writing
//! [`FleetFolder::writer`] takes rows that are sorted already and holds one row group. [`FleetFolder::sorting_writer`] takes
//! rows in any order and holds [`WriteOptions::max_buffered_rows`] of them; what is beyond is sorted in parts in unnamed
//! temporary files and merged at the end. Either writes under a temporary name and renames: a reader sees the old file or
//! the new one, and a writer that is dropped leaves nothing. [`FleetFolder::replacement`] does the same for all tables of a day.

mod day;
mod docs;
mod elsewhere;
mod reader;
mod source;
mod tables;
mod writer;

pub use day::Day;
pub use docs::markdown;
pub use elsewhere::{Engine, FleetElsewhere, ListedDay, TableFiles};
pub use reader::{FleetFolder, Replacement};
pub use source::{FleetSource, Opened, Read, Where};
pub use tables::{
    ColumnDef, ColumnType, ComponentsRow, LabelsRow, MetricsRow, Row, RunsRow, SettingsRow, TABLES, TableDef, Text,
};
pub use writer::{SortedWriter, SortingWriter, WriteOptions};
