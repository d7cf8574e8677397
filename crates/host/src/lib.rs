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
//!
//! ## Refusals
//! | refused | test |
//! |---|---|
//! | a setting that another guard holds, also along with another | `tests/guard.rs::one_setting_has_one_guard`, `tests/guard_leftovers.rs::a_claim_under_one_name_waits_for_the_living_guard_under_another` |
//! | the lock of a setting whose undo failed | `tests/guard.rs::an_undo_that_fails_keeps_the_lock` |
//! | to forget a change that cannot be put back | `tests/guard.rs::what_cannot_be_put_back_is_kept_for_the_next_try` |
//! | to write over what somebody else has set meanwhile | `tests/guard.rs::a_value_changed_by_somebody_else_is_left_and_reported`, `tests/guard_contest.rs::host_what_somebody_else_has_set_stays_for_every_kind_of_setting` |
//! | to undo for a guard that lives | `tests/guard.rs::a_living_guard_is_not_a_leftover` |
//! | a change without a journal or a helper | `tests/guard.rs::without_a_journal_nothing_is_changed`, `tests/guard.rs::without_a_helper_nothing_is_changed` |
//! | a journal that others can have written | `tests/guard_leftovers.rs::planted_journals_are_refused` |
//! | a journal that is not understood, or is of another boot | `tests/guard_leftovers.rs::journals_that_are_not_understood_are_kept_and_named`, `tests/guard.rs::leftovers_of_this_boot_are_undone_and_of_another_discarded` |
//! | another root, and files that are no settings | `tests/guard_leftovers.rs::the_real_door_takes_no_other_root`, `src/settings/place.rs::a_path_stays_below_its_folder`, `src/settings/place.rs::only_settings_of_the_kernel_are_opened_for_writing` |
//! | a guard that cannot see those of the host | `tests/guard_leftovers.rs::host_a_guard_that_cannot_see_the_hosts_is_refused` |
//! | to change the lower of two mounts, or another place of the file system | `tests/run_mounts.rs::host_of_two_mounts_at_one_place_the_upper_is_changed`, `tests/run_mounts.rs::host_of_one_file_system_at_two_places_the_named_one_is_changed` |
//! | a mount option that all processes share, a place with no mount | `tests/run_mounts.rs::host_an_option_of_the_file_system_is_refused` |
//! | a pool that a guard holds, and more pages than memory has | `src/hugetlb/tests.rs::a_pool_that_a_guard_holds_is_left`, `src/hugetlb/tests.rs::more_than_memory_is_refused_before_anything_is_written` |
//! | huge pages without rights | `tests/host_hugetlb.rs::host_without_rights_nothing_is_changed` |
//! | a sealed text of another key, user or kind | `src/seal.rs::a_seal_is_of_one_key_one_user_one_kind_and_one_text` |

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
