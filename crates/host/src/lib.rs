//! Facts of the host and guarded changes to it that are always undone.
//!
//! - [`facts`]: what is true of this host while it is up (kernel, processors, hypervisor, boot id).
//! - [`settings`]: reading everything that `pagelab_vocab::settings` declares, at once or by key, and checking a plan's
//!   settings before anything runs. All readers take a root folder, so that tests write literal kernel text there.
//! - [`process`]: settings of one process (environment, resource limits, huge pages on or off), applied between fork
//!   and exec; they end with the process.
//! - [`run_groups`]: control groups of a run's own, for its limits; they end with the run.
//! - [`run_mounts`]: mount options of a run's own, in its mount namespace; they end with the run, too.
//! - [`doctor`]: what this host or a file can do with huge pages and DAX, and what is wrong.
//! - [`hugetlb`]: pools of huge pages and mounts of hugetlbfs.
//! - [`signals`]: handlers of signals that ask to end, and which of them are echoes.
//! - [`seal`]: proof that this user of this host wrote a text.
//! - [`own`]: the path by which pagelab runs itself again.
//! - [`guard`]: changes to the host. Journalled before they are made, undone at the end, by a helper process if pagelab
//!   is killed, and by the next command if the helper was killed as well.
//!
//! ## What the binary has to do
//!
//! 1. First thing in `main`: if the first argument is [`guard::HELPER_COMMAND`], exit with
//!    [`guard::helper_main`] of the rest. The helper is the same program; it must not start threads or open anything.
//! 2. Before any command: [`guard::restore_leftovers`], and show its report. A recording carries [`guard::standing`].
//! 3. On SIGINT and SIGTERM, end in the ordinary way, so that guards are dropped.
//!
//! ```no_run
//! use pagelab_host::{guard::Guard, process::ProcessSettings, settings};
//! use std::path::Path;
//!
//! let plan = [("thp.enabled", "never"), ("env.MALLOC_ARENA_MAX", "1")];
//! let split = settings::split(Path::new("/"), plan)?;
//! let process = ProcessSettings::from_pairs(split.process.iter().map(|(k, v)| (k.as_str(), v.as_str())))?;
//! let mut guard = Guard::open()?;
//! for applied in guard.set_all(split.host.iter().map(|(k, v)| (k.as_str(), v.as_str())))? {
//!     if !applied.granted() {
//!         eprintln!("{}: asked for {}, got {}", applied.key, applied.requested, applied.got);
//!     }
//! }
//! // ... run the command with process.env() and process.apply_in_child() ...
//! print!("{}", guard.close());
//! # let _ = process;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## How to add a reader
//!
//! 1. Declare the key in `pagelab_vocab::settings` (its recipe is there). If it is one file, [`settings::read`] and the
//!    guard can already use it.
//! 2. Make the snapshot find it: add it to the list of its file under `settings/`, or read the folder it is in.
//! 3. Add a line of literal kernel text to the root folder of `settings/tests.rs`, and the value expected.

mod cgroups;
pub mod doctor;
pub mod facts;
mod fiemap;
mod files;
pub mod guard;
pub mod hugetlb;
mod limits;
pub mod own;
pub mod own_limits;
pub mod process;
pub mod run_groups;
pub mod run_mounts;
pub mod scheduling;
pub mod seal;
pub mod settings;
pub mod signals;
#[cfg(test)]
mod testing;
