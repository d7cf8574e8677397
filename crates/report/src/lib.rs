//! Terminal pictures of recordings.
