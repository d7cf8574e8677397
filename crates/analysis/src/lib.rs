//! From recordings to numbers, and from numbers to a claim.
//!
//! | step | where |
//! |---|---|
//! | one recording to one number per metric, in the measured time | [`run::RunData::load`] |
//! | two sets of runs to a verdict: what differs, by how much, how sure | [`compare::compare`] |
//! | which settings differ, and which of them bear on what changed | [`settings_diff::settings_diff`] |
//! | which mappings faulted, and whether they got the huge pages they could hold | [`mappings`] |
//! | the cause, with evidence, what would refute it, and the remedies | [`rules`], [`explain`] |
//! | the picture of it | [`faultmap`] |
//! | system calls, summed up | [`calls`] |
//! | reads and writes of files: how many, how large, in which order | [`iopattern`] |
//! | anything else | [`sql`] (feature `sql`, on by default) |
//!
//! # The number of a run
//!
//! A run is the unit of statistics; nothing within a run makes n larger. Each metric becomes one number per run, over the
//! measurement window (`measured` in the manifest: what the load says it measured, or exec to exit of a command):
//!
//! * a *counter* its increase per second, and per operation where the operations are known. Between two readings growth
//!   is taken as even, so that an end of the window between them gets its share; a counter that falls below half of what it was
//!   has been reset;
//! * a *gauge* its mean weighted by time; a value holds until the next row;
//! * a *histogram* its mean, p50 and p99, as three metrics with these endings.
//!
//! A run of a command to its end counts as one operation, so that its counters are totals of the same piece of work: a rate
//! would fall for no other reason than that the work took longer. What is known for less than half of the window, or
//! not at all, has no value and a reason.
//!
//! # The comparison
//!
//! [`compare::Comparison`] is the document of `compare --json`. Its method follows from how the runs were made
//! ([`compare::design()`]): rounds with one run of either side each are blocks, everything else is Welch's test. A counter
//! is in the family in one form only: per operation if every run of both sides knows its operations, else per second.
//! Out of the family are the primary metric (tested alone), what follows the clock rather than the run (`always_moves` of the
//! vocabulary), what fewer than half of a side's runs have, and what loss could explain: counts from a stream of
//! events that lost more than 0.1 % in any run, and means of sampled levels if more than 1 % of the samples are
//! missing. Runs that failed, were cut short or are not whole are listed with the reason ([`run::Exclusion`]) and count
//! nowhere. Labels, names of variants and paths are shown and never read for a conclusion.
//!
//! Counts of few events are not taken as Poisson on trust, since kernel events come in bursts: their p is the larger of
//! the exact conditional test and the t test on runs, see [`stats::test_metric`].
//!
//! # How to add a number
//!
//! 1. If a stream already has the rows, count them in a file of `metrics/` and give the name a line in `metrics/info.rs`
//!    (or in the vocabulary, if a recorder is to write it too).
//! 2. Say in `compare/loss.rs` which stream's loss falsifies it.
//! 3. Say in `settings_diff/topics.rs` what it speaks about, so that it ranks settings.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod calls;
pub mod compare;
mod error;
pub mod explain;
pub mod faultmap;
pub mod iopattern;
pub mod mappings;
mod metrics;
pub mod rules;
pub mod run;
pub mod settings_diff;
#[cfg(feature = "sql")]
pub mod sql;
pub mod stats;
mod window;

pub use error::{AnalysisError, Result};
