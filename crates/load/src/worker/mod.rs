//! Workers: what runs in each thread or process of a job, and the load process around them.

pub(crate) mod drive;
mod entry;
pub(crate) mod pace;
pub(crate) mod shared;
pub(crate) mod side;
pub(crate) mod spawn;
pub(crate) mod task;

pub use entry::{arguments, main, read_report};
