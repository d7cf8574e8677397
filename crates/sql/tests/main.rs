//! The tests of this crate that take recordings from disk, linked once.

mod internals;
mod placed;
mod queries;
#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;
mod scans;
