//! The views of one recording: one file or folder each.
//!
//! A view is a function `collect(&Recording, &Selection) -> Result<Answer<NameView>>`. `NameView` serialises to the document
//! of `pagelab show DIR NAME --json`: keys in snake case, units as suffixes, null for what is not known. Reading, joining and
//! ranking happen here; drawing happens in `pagelab_report::view`, arguments and exit statuses in the binary.
//!
//! # How to add a view
//!
//! 1. Write `NAME.rs` with `collect` and `NameView`. Make the result lists of rows. A row has a key, which says what it is
//!    about in words that mean the same in another recording (a function and its module, a path, the name of a call), and
//!    figures. Ids of one recording (`task_id`, `mapping_id`) may stand next to the key, not in it: two sides are
//!    compared by key. A list that is cut has its length before in `..._total`.
//! 2. Say in a note what was left out, lost or not recorded, with the command that records it
//!    ([`crate::read::lost`], [`crate::read::nothing`]).
//! 3. Draw it in a file of `pagelab_report::view`, and give it a subcommand in the binary's `commands/show`.
//! 4. Add its lists to [`crate::sides::lists`], so that two sides can be compared by it.
//! 5. Hold it in `crates/cli/tests/show.rs`.

pub mod block;
pub mod budget;
pub mod counters;
pub mod dax;
pub mod faults;
pub mod io;
pub mod latency;
pub mod loss;
pub mod maps;
pub mod metrics;
pub mod profile;
pub mod regions;
pub mod sched;
pub mod settings;
pub mod summary;
pub mod syscalls;
pub mod tasks;
