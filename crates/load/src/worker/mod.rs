//! Workers: what runs in each thread or process of a job, and what starts and leads them.

mod between;
mod carrying;
mod drive;
mod events;
mod files;
mod flight;
mod goal;
mod hist_log;
mod iolog;
mod logs;
pub(crate) mod pace;
mod passes;
mod queued;
pub(crate) mod side;
pub(crate) mod spawn;
mod status;
mod steady;
mod surroundings;
pub(crate) mod task;
pub(crate) mod told;
mod verifying;

pub use told::{ReportReader, read_report};
