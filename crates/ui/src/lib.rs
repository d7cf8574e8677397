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
