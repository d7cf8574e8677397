//! The page of recordings, served on this machine: the same as the file that `pagelab report` writes, with pictures that ask for
//! finer ones, down to single events, and that follow a set that is being made.
//!
//! | file | what |
//! |---|---|
//! | `guard.rs` | who is answered: this machine, this page, with the token |
//! | `fields.rs` | the fault fields of the recordings, made when they are first asked for |
//! | `server.rs` | the addresses, and what stands at them |
//!
//! Everything stands below the token: `/TOKEN/` is the page, `/TOKEN/api/state` says whether it is still up to date,
//! `/TOKEN/api/recordings` lists the recordings, `/TOKEN/api/faults` and `/TOKEN/api/see` are pictures of all faults of one of them
//! ([`pagelab_views::faultfield`]). A recording is named by its place in the list: no path is taken from a request.
//!
//! # Refusals
//! Through the socket of the program:
//!
//! | refused | test |
//! |---|---|
//! | another `Host`, none or two | `crates/cli/tests/ui.rs::hosts_and_pages_that_are_nearly_ours_are_refused`, `src/guard.rs::only_this_page_with_the_token_is_answered` |
//! | a request of another page (`Origin`) or site (`Sec-Fetch-Site`) | `crates/cli/tests/ui.rs::hosts_and_pages_that_are_nearly_ours_are_refused` |
//! | no token, or another one | `crates/cli/tests/ui.rs::the_page_and_its_pictures_are_served_to_this_page_only` |
//! | another method than GET | `crates/cli/tests/ui.rs::the_page_and_its_pictures_are_served_to_this_page_only` |
//! | a path that leads elsewhere, words that no address has | `crates/cli/tests/ui.rs::the_page_and_its_pictures_are_served_to_this_page_only` |
//! | a connection to another address of this machine | `crates/cli/tests/ui.rs::only_the_loopback_address_is_served` |

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod fields;
mod guard;
mod server;

use std::path::PathBuf;

pub use server::{Server, UiError};

/// What is served.
pub trait Source: Send + Sync + 'static {
    /// The page as it would be now.
    ///
    /// # Errors
    /// Why there is none; it is shown in its place.
    fn page(&self) -> Result<String, String>;

    /// The recordings that there are now, always in the same order.
    fn recordings(&self) -> Vec<PathBuf>;
}
