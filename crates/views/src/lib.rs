//! Every question asked of recordings: one file, one typed result each.
//!
//! | question | where |
//! |---|---|
//! | one of the sixteen of `pagelab show` | [`view`], one file or folder each |
//! | what changed between two sides, by any of them | [`sides`] |
//! | one recording to one number per metric, in the measured time | [`run::RunData::load`] |
//! | which mappings faulted, and whether they got the huge pages they could hold | [`mappings`] |
//! | the picture of it | [`faultmap`] |
//! | all faults as a picture to zoom into | [`faultfield`] |
//! | the time off CPUs by stack, as the account has it | [`view::budget::off_stacks`] |
//! | system calls, added up | [`calls`] |
//! | reads and writes of files: how many, how large, in which order | [`iopattern`] |
//! | small tables that some of these are read from instead of events | [`rollup`] |
//! | anything else | SQL, in the crate `pagelab-sql` |
//!
//! Terminal, JSON, comparison, rules and reports take their answers from here and nowhere else. The crate knows the words
//! (`vocab`) and the format (`recording`), and nothing of statistics, of drawing or of command lines.
//!
//! # A view
//!
//! `collect(&Recording, &Selection) -> Result<Answer<NameView>>`. The [`selection::Selection`] says which part of the time,
//! which tasks and files, in which order and how many rows. The [`answer::Answer`] has the view's data, what a reader must
//! know (`notes`), and which recording was asked; [`answer::Answer::document`] is what `--json` prints.
//!
//! Data are lists of rows with a key and figures. The key names the row's subject in words that mean the same in
//! another recording (function and module, path, name of a call, class of mappings, device and operation), so that two
//! sides can be joined by it: a row of one side only has vanished or is new. Ids of one recording are no keys. Sorting
//! and cutting to `top` come last, behind the figures: two sides are compared on whole lists (`top` 0), and a rollup
//! that has the same figures in a table replaces the pass over events and nothing behind it.
//!
//! How to add one is said in [`view`].
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

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod absence;
pub mod answer;
pub mod calls;
mod error;
mod fast;
pub mod faultfield;
pub mod faultmap;
pub mod iopattern;
mod kinds;
pub mod mappings;
pub mod metrics;
pub mod names;
pub mod read;
pub mod rollup;
pub mod run;
pub mod selection;
pub mod sides;
pub mod stacks;
pub mod view;
mod window;

pub use error::{Result, ViewError};
pub use window::{measured_part, share_a_unit};
