//! Recordings in object stores.
//!
//! A [`Place`] is a bucket and a prefix, named by a URL: `s3://bucket/prefix`, `gs://...`, `az://container/prefix`, and `file:///...` for
//! tests and network file systems. A recording there is the same files as on disk, under the same names.
//!
//! - [`upload`] copies recordings there, also while they are made. The manifest goes first, marked as not complete, so that a place belongs
//!   to one recording from the first object on; then parts in the order in which they were written; the manifest as it is goes last. So
//!   what is in the store is a recording at every instant: one that is being made, or whose recorder died, until it is whole. Parts that
//!   compaction replaced are removed after that. Days of compacted fleets are replaced: their tables, then the document that names them.
//! - [`mirror`] copies recordings and fleets from there into a folder, or what a [`select::Selection`] takes of them; what is there and
//!   unchanged not again.
//! - [`list`](mod@list) says what is there, from one listing and the manifests.
//!
//! ## When the store is away
//!
//! Requests that fail by the network, by throttling or by an error of the server are made again with growing pauses, for as long as
//! [`Patience`] says. What the caller must mend (credentials, permissions, names) ends at once.
//!
//! ## What is trusted
//!
//! Names of objects are written by others. Those that are no files of a recording or a fleet are left out, and no name leads out of the
//! folder that is copied into ([`layout`]). Documents are written by others, too: they are bounded in size, one that cannot be read or is
//! of a newer version is never overwritten, and text of theirs is shown without control characters.

mod credentials;
mod day;
mod error;
mod journal;
pub mod layout;
pub mod list;
pub mod mirror;
mod place;
pub mod select;
pub mod upload;

pub use error::{Result, StoreError};
pub use place::{Patience, Place};
