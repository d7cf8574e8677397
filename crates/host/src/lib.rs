//! Facts of the host and guarded changes to it that are always undone.
