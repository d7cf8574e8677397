//! The recording format: table registry, crash-safe writer, reader and checker.
//!
//! A recording is a directory: `manifest.json` and a folder of Parquet parts per table. `docs/recording.md`, generated
//! from [`tables`], lists every column.
//!
//! # Writing
//! [`RecordingWriter::create`] refuses a directory that holds anything and writes a manifest with `complete: false`. Rows
//! are pushed into column buffers; [`RecordingWriter::tick`], called often, writes a part of each table about once a
//! second: under a temporary name, then renamed, without `fsync` unless the recording is to be durable. A reader sees a
//! part whole or not at all, so a killed recorder loses at most the last second.
//! [`RecordingWriter::close`] joins faults to mappings ([`attribution`]), merges the parts into large ones sorted by time,
//! and writes the manifest with `complete: true`. At each instant of that a reader sees every row exactly once. New parts
//! are forced to the device before old ones are removed, and all of them before the manifest says `complete`: so what says
//! `complete` is whole, also after a power cut.
//!
//! # Reading
//! [`Recording::open`] reads the manifest, and looks whether its parts are there; [`Recording::read`] streams batches in the registry's schema. Columns
//! that a recording lacks read as null, columns and tables that the registry lacks are ignored, a newer major format is
//! refused. Damage is found by checksums and reported with file and offset; [`check()`] looks at everything.
//! A closed recording lists its parts, and its manifest has a checksum: what is missing, added, exchanged or edited makes it
//! incomplete for every reader, with the reason (`inventory.rs`, [`Recording::flaws`]).
//! Tables whose rows are sums over others, which a view reads instead of events, are in [`rollup`].
//! Sets of recordings are found by [`set::discover`]. What was mapped at an instant, and which tasks lived, is replayed by
//! [`space`] and [`lifetimes`].
//!
//! # Refusals
//! | refused | test |
//! |---|---|
//! | to record into a directory that holds something, or into a file | `tests/open.rs::outputs_that_are_in_the_way` |
//! | one that others can write | `tests/open.rs::directories_that_others_can_write_are_refused` |
//! | one of somebody else's, or behind such a link | `tests/open.rs::directories_and_links_of_others_are_refused` |
//! | to read what is no recording | `tests/open.rs::directories_that_are_no_recording` |
//! | a newer format | `tests/open.rs::a_newer_format_is_refused_whatever_else_it_says` |
//! | a pipe or link in place of a file, numbers that no host has | `tests/foreign.rs::pipes_links_and_absurd_numbers_are_refused_at_once` |
//! | a claim of more parts than there are | `tests/foreign.rs::a_compaction_record_is_bounded_by_the_files_that_are_there` |
//! | a damaged part | `tests/damage.rs::flips_and_cuts_in_our_parts_are_all_found`, `tests/foreign.rs::an_empty_part_is_left_out_and_named_and_so_is_a_flipped_bit` |
//! | to call whole what lacks a file, or was added to or edited | `tests/whole.rs::no_deletion_exchange_or_addition_of_files_is_called_whole`, `tests/whole.rs::no_edit_of_a_manifest_is_called_whole` |
//! | text that fills memory by being repeated | `src/guard.rs::long_text_does_not_fill_memory_by_being_repeated` |
//!
//! # Memory
//! While rows are collected they take some 8 MiB ([`WriterOptions::max_buffered_bytes`]) and what comes between two ticks.
//! [`RecordingWriter::close`] takes some 40 MiB, however long the recording was: rows are merged row group by row group, and those
//! that came late, which overlap with everything, are row groups of their own. What grows is a name for each part, 100 bytes
//! while its table is merged, and for each mapping what the join of faults must know of it.
//!
//! # Cost
//! `benches/recording`: 2.4 million rows of `faults` per pattern, thread CPU time, on a 2-core VM. Live is what is spent while
//! the workload runs, close what is spent after it; bytes are those of the table `faults`. Beside it the same columns as files
//! of Arrow IPC, plain and with LZ4: parts of it would cost as much to write, and as much disk bandwidth as the workload has
//! to give up for 36 bytes a row.
//!
//! | pattern | live ns/row | live B/row | IPC ns, B | IPC with LZ4 ns, B | close ns/row | closed B/row |
//! |---|---|---|---|---|---|---|
//! | ascending | 13.5 | 1.61 | 16.6, 36 | 44.9, 10.7 | 32 | 1.54 |
//! | descending within 2 MiB mappings | 13.8 | 1.79 | 15.2, 36 | 44.2, 10.7 | 35 | 1.55 |
//! | ascending, two tasks | 20.8 | 6.89 | 15.2, 36 | 38.1, 10.7 | 46 | 1.55 |
//! | random over 4 GiB, page aligned | 17.8 | 5.76 | 16.2, 36 | 41.7, 11.8 | 48 | 4.22 |
//! | random over 4 GiB, exact addresses | 17.6 | 5.76 | 16.0, 36 | 43.4, 13.0 | 40 | 5.74 |
//! | compiler-like (4 tasks, 2,000 instructions) | 23.7 | 8.49 | 16.0, 36 | 55.0, 14.9 | 69 | 6.33 |

mod absent;
mod ahead;
pub mod attribution;
mod check;
mod compact;
pub mod docs;
mod encode;
mod error;
mod fold;
mod guard;
mod inventory;
mod isolate;
mod keep;
mod late;
pub mod lifetimes;
mod losses;
mod manifest;
mod merge;
mod pages;
mod part;
mod reader;
pub mod rollup;
mod scan;
mod seal;
pub mod set;
pub mod space;
mod span;
mod spool;
mod storage;
pub mod tables;
mod writer;

pub use check::{CheckReport, Level, Problem, SetReport, TableReport, check, check_set};
pub use compact::NamedStacks;
pub use error::{Error, FORMAT, Result, is_hosts_fault};
pub use isolate::isolated;
pub use manifest::{
    Better, Clock, EndedBy, Exit, Flaw, FoundTarget, ListedPart, MANIFEST, Manifest, Measured, MeasuredBy,
    PrintedValue, Probe, ProbeState, Rusage, SelfCost, WrittenRollup,
};
pub use reader::{BatchReader, Recording, SortedReader};
pub use scan::{PartBytes, ScanPart};
pub use span::{Bound, Bounds, Span};
pub use spool::SpoolOptions;
pub use storage::{FileStorage, Storage, StorageFile};
pub use writer::{LossProvider, RecordingWriter, WriterOptions, WriterStats};
