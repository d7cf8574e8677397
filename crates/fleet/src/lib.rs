//! Fleets: what many hosts say together, with the hosts' differences taken for what they are.
//!
//! | step | where |
//! |---|---|
//! | the compacted tables that questions read, by day | [`rollup`] |
//! | from recordings to these tables | [`mod@compact`] |
//! | from their rows to what the statistics take | [`questions`] |
//! | whole answers to questions, as `pagelab fleet` prints them | [`answers`] |
//! | one metric under two labels, hosts as random effect | [`model`] |
//! | hosts that differ from the fleet | [`outliers`] |
//! | settings that differ among hosts, and what goes with them | [`drift`] |
//! | a metric over days, with the hosts' own levels removed | [`course`] |
//! | fleets that are invented, with causes that are known | [`simulate`] |
//!
//! # The unit is the host
//! A run is the unit of statistics on one machine. In a fleet it is the host: runs of one host share its hardware and what else
//! runs on it, so that a hundred runs of three hosts say about other hosts what three values say. Every test here counts a host
//! once, however often it ran, and says how much runs vary within hosts and between them ([`hosts::VarianceComponents`]). What it
//! would have been with all runs taken as independent is shown beside ([`model::NaiveTest`]).
//!
//! # What a result is
//! A typed structure that serialises, with the method and its source, and `notes` that a reader must know. A value that cannot be
//! computed is null with the reason; nothing is 0 for want of data. Fewer than [`hosts::LEAST_HOSTS`] hosts are not tested.
//! Many tests are one family: false discovery rates by Benjamini and Hochberg, over metrics ([`model::settle`]), hosts,
//! and settings.
//!
//! # Scales
//! Metrics whose values are all positive are compared on logarithms, and sizes are ratios. Others are compared as they are, and
//! sizes are differences in the metric's unit.
//!
//! # How often they are wrong
//! Simulated fleets in which there is nothing to find, with unbalanced runs; Wilson's 95 % intervals in brackets. Beside it the
//! test that takes all runs as independent, on the same fleets.
//!
//! | fleets | something is found | by the test of runs |
//! |---|---|---|
//! | 12 against 12 hosts, 1 to 30 runs each, at 5 % | 4.0 % (3.0 to 5.4) | 61 % |
//! | 12 against 12 hosts with one run, at 5 % | 6.0 % (4.7 to 7.6) | the same test |
//! | 3 against 3 hosts, at 5 % | 3.4 % (2.4 to 4.7) | |
//! | 37 against 3 hosts, at 5 % | 2.0 % (1.3 to 3.1) | |
//! | 12 hosts before and after, at 5 % | 3.9 % (2.9 to 5.3) | |
//! | the same, where hosts react unequally | 5.6 % (4.3 to 7.2) | 59 % |
//! | any outlier among 8, 40, 300 hosts, at 5 % | 0.6 %, 3.1 %, 4.5 % | |
//! | any of 20 settings of 40 hosts associated, at 5 % | 5.4 % (3.7 to 7.7) | 99 % |
//! | any change in a course of 24 days, at 1 % | 0.7 % (0.2 to 2.4) | |
//!
//! 95 % intervals cover a true difference of 10 % in 95.6 % (94.1 to 96.7) of fleets with 12 against 12 hosts, and in 95.8 % with 4
//! against 4; with the error of the test of runs they would in 58 %.
//!
//! # What is held to what
//! `tests/reference.rs` compares every statistic with scipy and statsmodels; `tests/false_findings.rs` counts false findings in
//! simulated fleets without a cause, and how often intervals cover the truth; `tests/planted.rs` looks for planted causes in
//! the files of a fleet of 1,000 hosts.
//!
//! # Refusals
//! | refused | test |
//! |---|---|
//! | a folder that others can write | `tests/compact.rs::a_fleet_that_others_can_write_is_left_alone` |
//! | a second compaction at the same time | `tests/compact.rs::a_compaction_that_was_broken_off_leaves_the_day_and_another_waits` |
//! | a recording twice, a newer one, one without a time or a whole manifest | `tests/compact.rs::what_cannot_be_added_is_named_and_nothing_else_is_lost` |
//! | a recording with numbers that no host has | `tests/compact.rs::five_hostile_recordings_of_a_hundred_are_named_and_the_others_compacted` |
//! | rows out of order, a file that is not finished | `tests/tables.rs::rows_out_of_order_are_refused_and_an_unfinished_file_is_not_there` |
//! | a damaged file | `tests/tables.rs::a_damaged_file_is_an_error_that_names_it` |

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod answers;
pub mod compact;
pub mod course;
pub mod drift;
mod error;
pub mod hosts;
pub mod model;
pub mod outliers;
pub mod questions;
pub mod rollup;
pub mod simulate;

pub use error::{FleetError, Result};
