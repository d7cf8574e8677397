//! Workers: what runs in each thread or process of a job, and the load process around them.

mod between;
pub(crate) mod drive;
mod entry;
mod events;
mod files;
mod flight;
mod goal;
mod hist_log;
pub(crate) mod iolog;
mod logs;
pub(crate) mod pace;
mod passes;
mod queued;
pub(crate) mod shared;
pub(crate) mod side;
pub(crate) mod spawn;
mod status;
mod steady;
mod surroundings;
pub(crate) mod task;
mod told;
mod verifying;

pub use entry::{arguments, main};
pub use told::{ReportReader, read_report};
