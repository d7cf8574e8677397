//! The one way in which pagelab writes files: safe against hostile users, also as root.
//!
//! A program of root's that opens `-o DIR/report.json` by its path follows whatever link another user put there between two
//! system calls. Here a path that the user gave is resolved once, into a held descriptor of a folder ([`Folder`]); everything
//! after that is one name below the descriptor, opened without following links.
//!
//! # Resolving a path
//! Component by component with `O_PATH | O_NOFOLLOW`: what `openat2` does with `RESOLVE_NO_SYMLINKS`, in a form that container
//! runtimes without `openat2` allow as well, and that shows the owner of each link. A link is followed only if it belongs to
//! root, to this user, or to the user who called `sudo`, or if nobody else can write to the folder that it is in.
//! Below a held folder no link is followed, whoever made it.
//!
//! # Whose folders
//! | folder | owner | mode |
//! |---|---|---|
//! | written into for long: a recording, a set, the state folder ([`Folder::create`], [`Folder::open`]) | this user, or as root the user who called `sudo` | not writable by group or others |
//! | parent of a new file or folder ([`Folder::parent_of`]) | any | any, sticky or not |
//!
//! A parent may be anybody's (`/tmp`, a volume of a container), because nothing in it is trusted: files get a random name with
//! `O_EXCL`, are written through the descriptor, and take their final name by a rename, which replaces a planted link and does
//! not follow it. The user who called `sudo` is trusted with the content of the output, and with nothing else: in that user's
//! folder, too, no link is followed.
//!
//! New folders have mode 0700, new files 0600.
//!
//! # Durability
//! Nothing is synced unless asked: [`Sync::Data`] forces a file to the device before it gets its name, [`Folder::sync`] the
//! names of a folder. A file that must survive a power cut needs both.
//!
//! # Files that are no plain files
//! [`OutputFile`] is for what users name with `--output`: `-` and `/dev/stdout` are standard output, pipes and character devices are
//! written as they are if they are not somebody else's, block devices never.
//!
//! # Refusals
//! | refused | test |
//! |---|---|
//! | a folder to write into that is somebody else's | `tests/neighbours.rs::folders_to_write_into_are_ours` |
//! | one that a group or others may write, sticky or not | `tests/neighbours.rs::folders_that_a_group_or_others_may_write_are_refused` |
//! | to make such a folder private | `tests/neighbours.rs::a_folder_that_others_may_write_is_not_made_private` |
//! | a link of somebody else's in a folder that others may write | `tests/neighbours.rs::a_planted_link_is_replaced_and_not_followed`, `tests/neighbours.rs::a_planted_link_on_the_way_is_refused` |
//! | links in circles | `tests/neighbours.rs::links_that_lead_in_circles_end` |
//! | a link, whosever, below a held folder | `tests/neighbours.rs::journals_and_locks_are_ours_and_no_links`, `tests/neighbours.rs::removing_a_tree_stays_in_it` |
//! | a journal or lock of somebody else's | `tests/neighbours.rs::journals_and_locks_are_ours_and_no_links` |
//! | a name that leads out of a held folder | `tests/neighbours.rs::names_do_not_lead_out` |
//! | a pipe, a link or a file that is too large, to be read | `tests/neighbours.rs::reading_neither_follows_nor_hangs_nor_fills_memory` |
//! | a pipe of somebody else's, a block device | `tests/neighbours.rs::streams_are_written_as_they_are` |
//! | a name that is taken, for a file that is to be new | `tests/neighbours.rs::a_file_is_whole_or_absent_and_new_means_new` |
//! | what is put there between a look and the opening | `tests/neighbours.rs::a_planting_loop_gets_nothing`, `crates/cli/tests/planted_links.rs::nothing_elsewhere_changes_whatever_a_neighbour_plants` |

#![forbid(unsafe_code)]

mod error;
mod file;
mod folder;
mod lock;
mod owner;
mod report;
mod walk;

pub use error::{Error, Result};
pub use file::NewFile;
pub use folder::{Folder, open_plain, read_plain};
pub use lock::Lock;
pub use report::OutputFile;

/// Whether a file is forced to the device before it gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Not: the kernel writes it back within about 35 s, and a power cut before that loses it.
    No,
    /// `fdatasync`: content and size. The name becomes durable with [`Folder::sync`].
    Data,
}
