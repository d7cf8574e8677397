//! The report in fio's layouts.

pub mod json;
pub mod normal;
pub(crate) mod numbers;
mod summary;

pub use summary::{Entry, Group, entries, groups};
