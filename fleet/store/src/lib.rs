//! Recordings in object stores.
//!
//! A [`Place`] is a bucket and a prefix, named by a URL: `s3://bucket/prefix`, `gs://...`, `az://container/prefix`, and `file:///...` for
//! tests and network file systems. A recording there is the same files as on disk, under the same names.
//!
//! - [`upload`] copies recordings there, also while they are made. The manifest goes first, marked as not complete, so that a place belongs
//!   to one recording from the first object on; then parts in the order in which they were written; the manifest as it is goes last. So
//!   what is in the store is a recording at every instant: one that is being made, or whose recorder died, until it is whole. Parts that
//!   compaction replaced are removed after that.
//! - [`mirror`] copies recordings from there into a folder, what is there and unchanged not again.
//!
//! ## When the store is away
//!
//! Requests that fail by the network, by throttling or by an error of the server are made again with growing pauses, for as long as
//! [`Patience`] says. What the caller must mend (credentials, permissions, names) ends at once.
//!
//! ## What is trusted
//!
//! Names of objects are written by others. Those that are no files of a recording are left out, and no name leads out of the folder that
//! is copied into ([`layout`]).

mod credentials;
mod error;
pub mod layout;
pub mod mirror;
mod place;
pub mod upload;

pub use error::{Result, StoreError};
pub use place::{Patience, Place};
