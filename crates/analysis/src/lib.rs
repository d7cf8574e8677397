//! From recordings to numbers, and from numbers to a claim.
//!
//! `pagelab_views` has the figures of one recording; this crate has the conclusions from several of them, and the
//! causes.
//!
//! | step | where |
//! |---|---|
//! | two sets of runs to a verdict: what differs, by how much, how sure | [`compare::compare`] |
//! | a history of runs: where its level changed, and where it drifts | [`trend::trend`] |
//! | which settings differ, and which of them affect the changes | [`settings_diff::settings_diff`] |
//! | the cause, with evidence, what would refute it, and the remedies | [`rules`], [`explain`] |
//! | which mappings a comparison is drawn with | [`faultmap`] |
//!
//! # The comparison
//!
//! [`compare::Comparison`] is the document of `compare --json`. Its method follows from how the runs were made
//! ([`compare::design()`]): rounds with one run of either side each are blocks, everything else is Welch's test. A counter
//! is in the family in one form only: per operation if every run of both sides knows its operations, else per second.
//! Out of the family are the primary metric (tested alone), what follows the clock rather than the run (`always_moves` of the
//! vocabulary), what fewer than half of a side's runs have, and what loss could explain: counts from a stream of
//! events that lost more than 0.1 % in any run, and means of sampled levels if more than 1 % of the samples are
//! missing. Runs that failed, were cut short or are not whole are listed with the reason ([`pagelab_views::run::Exclusion`]) and count
//! nowhere. Labels, names of variants and paths are shown and never read for a conclusion.
//!
//! Counts of few events are not taken as Poisson on trust, since kernel events come in bursts: their p is the larger of
//! the exact conditional test and the t test on runs, see [`stats::test_metric`].
//!
//! # How to add a number
//!
//! 1. If a stream already has the rows, count them in a file of `metrics/` of the crate `views` and give the name a line in its `info.rs`
//!    (or in the vocabulary, if a recorder is to write it too).
//! 2. Say in `compare/loss.rs` which stream's loss falsifies it.
//! 3. Say in `settings_diff/topics.rs` what it speaks about, so that it ranks settings.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod compare;
mod cpu_speed;
mod error;
pub mod explain;
pub mod faultmap;
pub mod parallel;
pub mod rules;
pub mod settings_diff;
pub mod stats;
pub mod trend;

pub use error::{AnalysisError, Result};
