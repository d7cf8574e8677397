//! Workers: what runs in each thread or process of a job, and what starts and leads them.

mod aggregate;
mod between;
mod carrying;
mod commands;
mod drive;
mod events;
mod files;
mod flight;
mod flushing;
mod goal;
mod hist_log;
mod iolog;
mod logs;
pub(crate) mod pace;
mod passes;
mod queued;
mod ranges;
pub(crate) mod side;
mod so_far;
pub(crate) mod spawn;
mod status;
mod steady;
mod surroundings;
pub(crate) mod task;
pub(crate) mod told;
mod verifying;

pub use told::{ReportReader, read_report, read_report_alone};
